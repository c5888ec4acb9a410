"""Refresh the shipped embedding cache from the demo index: ``python -m ingest.sample.cache``.

Reads the vectors of every scope below the store and writes one shard, sorted by text hash, so that an unchanged corpus
gives an unchanged file.
"""

from __future__ import annotations

import sys

import numpy as np

from ingest.writer import passage_text
from rag.embedding import EmbeddingCache, load_embedder, text_key
from rag.settings import load_settings
from rag.stores.record import ScopeRecord, scopes_on_disk
from rag.stores.snapshot import INDEXED_LEVELS


def main() -> int:
    """Write the shard and say where."""
    settings = load_settings()
    embedder = load_embedder(settings.embedder, settings.embedder_threads)
    cache = EmbeddingCache(embedder.model_name, [])
    texts: list[str] = []
    blobs: list[bytes] = []
    for scope_id in scopes_on_disk(settings.store):
        record = ScopeRecord(settings.store, scope_id)
        for level in INDEXED_LEVELS:
            rows = record.chunk_rows(level)
            chunks = record.chunks([row["chunk_id"] for row in rows])
            for row in rows:
                chunk = chunks[row["chunk_id"]]
                texts.append(passage_text(chunk.title, chunk.section, chunk.text))
                blobs.append(row["vector"])
        sentences = record.sentence_rows()
        chunks = record.chunks(sorted({row["chunk_id"] for row in sentences}))
        for row in sentences:
            texts.append(chunks[row["chunk_id"]].text[row["start"] : row["end"]])
            blobs.append(row["vector"])
    cache.add(texts, np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), embedder.dim))
    path = cache.save(settings.embedding_cache, [text_key(text) for text in texts])
    print(f"{path}: {len(cache)}개 글")
    return 0


if __name__ == "__main__":
    sys.exit(main())
