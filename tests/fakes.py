"""Stand-ins that implement the public interfaces: fast, deterministic, no model."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag.embedding import Encoder, FloatMatrix, unit_rows
from rag.schema import FloatVector

_PREFIX = 2


class FakeEmbedder:
    """Hashed bag of word beginnings: texts that share words (whatever their particles) are near each other."""

    model_name = "fake/bag-of-words"

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim

    def count_tokens(self, text: str) -> int:
        return len(text) // 2

    def encode_query(self, text: str) -> FloatVector:
        return self.encode_passages([text])[0]

    def encode_passages(self, texts: Sequence[str]) -> FloatMatrix:
        rows = np.zeros((len(texts), self.dim), np.float32)
        rows[:, 0] = 0.5  # no text has a zero vector
        for row, text in zip(rows, texts):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.sha256(word[:_PREFIX].encode()).digest()
                row[1 + int.from_bytes(digest[:4], "big") % (self.dim - 1)] += 1.0 if digest[4] % 2 else -1.0
        return unit_rows(unit_rows(rows).astype(np.float16))


class FakeEncoder(Encoder):
    """The fake embedder's vectors from a true encoder: rounded, and adapted as any encoder's are."""

    def __init__(self) -> None:
        super().__init__(model_name=FakeEmbedder.model_name)

    @property
    def dim(self) -> int:
        return FakeEmbedder().dim

    def _query(self, text: str) -> FloatVector:
        return FakeEmbedder().encode_query(text)

    def _passages(self, texts: Sequence[str]) -> FloatMatrix:
        return FakeEmbedder().encode_passages(texts)


def unit_vectors(n: int, dim: int, seed: int = 0) -> FloatMatrix:
    """Random unit vectors, shape (n, dim)."""
    return unit_rows(np.random.default_rng(seed).normal(size=(n, dim)))


def unrefusing_profiles(folder: Path) -> Path:
    """A copy of ``profiles/`` below ``folder`` whose refusal thresholds are 0, and the profile file in it.

    What is refused by rule still is; the fitted level is measured by ``python -m eval farm``, not by these tests.
    """
    profiles = Path(shutil.copytree(Path(__file__).parents[1] / "profiles", folder / "profiles"))
    levels = json.loads((profiles / "answering.v1.json").read_text(encoding="utf-8"))
    for encoder in levels["encoders"].values():
        for levels_of in (encoder, encoder.get("reranked", {})):
            for model in levels_of.get("refusal", {}).values():
                model["threshold"] = 0.0
    (profiles / "answering.v1.json").write_text(json.dumps(levels), encoding="utf-8")
    return profiles / "profiles.v1.json"


class CountingEmbedder(FakeEmbedder):
    """Remembers the passages it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def encode_passages(self, texts: Sequence[str]) -> FloatMatrix:
        self.asked += texts
        return super().encode_passages(texts)
