"""Documents written straight into a record, without a parser or an encoder."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from rag.stores.record import ChunkRow, DocumentRow, MentionRow, RelationRow, ScopeRecord, SentenceRow
from rag.stores.segments import INDEXED_LEVELS, LevelRows, Snapshot

DIM = 2


def document(name: str, content_hash: str = "h1", *, scope_id: str = "public") -> DocumentRow:
    return DocumentRow(
        doc_id=f"{scope_id}/{name}",
        path=name,
        title="제목",
        format="md",
        kind="작업일지",
        crop="딸기",
        date="2026-11-20",
        author="김주임",
        houses=("1동", "2동"),
        content_hash=content_hash,
        original=f"{content_hash}.md",
        bytes=3,
        pages=None,
        characters=2,
        tables=0,
        notes=("알림",),
        text="본문",
    )


def write(record: ScopeRecord, row: DocumentRow, *texts: str, vector: tuple[float, float] = (1, 0)) -> None:
    """A document of one chunk a text, each with one sentence, a mention of its first word, and one relation."""
    record.keep_original(row.original, b"abc")
    unit = np.array(vector, np.float16)
    ids = [f"{row.doc_id}#{number}" for number in range(len(texts))]
    record.write_document(
        row,
        [
            ChunkRow(
                chunk_id=chunk_id,
                level="G2",
                ordinal=number,
                parent_id=None,
                section="절",
                locator="",
                text=text,
                n_tokens=1,
                tokens=tuple(text.split()),
                vector=unit,
            )
            for number, (chunk_id, text) in enumerate(zip(ids, texts))
        ],
        [
            SentenceRow(chunk_id=i, ordinal=0, start=0, end=len(text), tokens=tuple(text.split()), vector=unit)
            for i, text in zip(ids, texts)
        ],
        [
            MentionRow(chunk_id=i, entity=text.split()[0], type="작물", count=1, in_title=False)
            for i, text in zip(ids, texts)
        ],
        [RelationRow(chunk_id=i, head="설향", relation="소속", tail="딸기", confidence=0.8) for i in ids],
    )


def contents(snapshot: Snapshot) -> dict[str, object]:
    """Everything that a reader may see, with numbers of names told as names."""
    found: dict[str, object] = {
        "documents": snapshot.documents,
        "tokens": snapshot.sentence_tokens,
        "sentences": snapshot.sentence_vectors.tolist(),
    }
    columns = {"names", "types", "mention_columns", "relation_columns"}
    for level in INDEXED_LEVELS:
        rows = snapshot.levels[level]
        plain = [f.name for f in fields(LevelRows) if f.name not in columns]
        found[level] = [
            np.asarray(getattr(rows, name), dtype=object if name == "tokens" else None).tolist() for name in plain
        ]
        found[f"{level} graph"] = (sorted(rows.mentions()), sorted(rows.relations()))
        found[f"{level} sentences"] = [snapshot.sentences(level, row) for row in range(len(rows.chunk_ids))]
    return found
