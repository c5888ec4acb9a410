"""Refresh the shipped embedding cache from the demo index: ``python -m ingest.sample.cache``.

Reads the vectors of every scope below the store and writes two shards, each sorted by text hash, so that an unchanged
corpus gives unchanged files: paragraphs and sentences in one, what the other levels add in the other.
"""

from __future__ import annotations

import sys

import numpy as np

from ingest.writer import passage_text
from rag.embedding import EmbeddingCache, load_embedder, text_key
from rag.schema import Level
from rag.settings import load_settings
from rag.stores.record import ScopeRecord, scopes_on_disk
from rag.stores.segments import INDEXED_LEVELS, SENTENCE_LEVEL

OTHER_LEVELS = "-levels"


def main() -> int:
    """Write the shards and say where."""
    settings = load_settings()
    embedder = load_embedder(settings.embedder, settings.embedder_threads)
    cache = EmbeddingCache(embedder.model_name, [])
    first: set[bytes] = set()
    rest: set[bytes] = set()
    for scope_id in scopes_on_disk(settings.store):
        record = ScopeRecord(settings.store, scope_id)
        for level in INDEXED_LEVELS:
            keys = _take_chunks(cache, record, level, embedder.dim)
            (first if level == SENTENCE_LEVEL else rest).update(keys)
        first.update(_take_sentences(cache, record, embedder.dim))
    for path in (
        cache.save(settings.embedding_cache, first),
        cache.save(settings.embedding_cache, rest - first, part=OTHER_LEVELS),
    ):
        print(path)
    print(f"{len(cache)}개 글")
    return 0


def _take_chunks(cache: EmbeddingCache, record: ScopeRecord, level: Level, dim: int) -> list[bytes]:
    """Put the vectors of a level into the cache; returns their keys."""
    rows = record.chunk_rows(level)
    chunks = record.chunks([row["chunk_id"] for row in rows])
    found = [chunks[row["chunk_id"]] for row in rows]
    return _take(cache, [passage_text(c.title, c.section, c.text) for c in found], [r["vector"] for r in rows], dim)


def _take_sentences(cache: EmbeddingCache, record: ScopeRecord, dim: int) -> list[bytes]:
    rows = record.sentence_rows()
    chunks = record.chunks(sorted({row["chunk_id"] for row in rows}))
    texts = [chunks[row["chunk_id"]].text[row["start"] : row["end"]] for row in rows]
    return _take(cache, texts, [row["vector"] for row in rows], dim)


def _take(cache: EmbeddingCache, texts: list[str], blobs: list[bytes], dim: int) -> list[bytes]:
    cache.add(texts, np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), dim))
    return [text_key(text) for text in texts]


if __name__ == "__main__":
    sys.exit(main())
