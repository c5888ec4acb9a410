"""Two segments read as one: the documents of the first that still hold, and those that came after it.

What comes out equals a segment derived from the record anew, row for row (``tests/stores/test_segments.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.schema import Level
from rag.stores.segments import INDEXED_LEVELS, SENTENCE_LEVEL, LevelRows, Numbers, Snapshot

Rows = npt.NDArray[np.int64]


def merged(digest: str, folder: Path, base: Snapshot, recent: Snapshot, gone: Collection[str]) -> Snapshot:
    """``base`` without the documents ``gone``, and ``recent``; documents in the order of their ids."""
    documents = (*base.documents, *recent.documents)
    n_base = len(base.documents)
    kept = [i for i, d in enumerate(documents) if i >= n_base or d.doc_id not in gone]
    kept.sort(key=lambda i: documents[i].doc_id)
    place = np.full(len(documents), -1, np.int64)  # document number in the two segments → in the merged one
    place[kept] = np.arange(len(kept))
    sentences = _order(place, *(_document_of_sentences(part) for part in (base, recent)), n_base=n_base)
    sentence_row = _inverse(sentences, len(base.sentence_tokens) + len(recent.sentence_tokens))
    words = _union(base, recent)
    tokens = (*base.sentence_tokens, *recent.sentence_tokens)
    return Snapshot(
        base.scope_id,
        digest,
        folder,
        tuple(documents[i] for i in kept),
        {level: _level(level, base, recent, place, sentence_row, words) for level in INDEXED_LEVELS},
        tuple(tokens[i] for i in sentences.tolist()),
        np.concatenate([base.sentence_vectors, recent.sentence_vectors])[sentences],
        (base, recent),
    )


def _document_of_sentences(part: Snapshot) -> Rows:
    rows = part.levels[SENTENCE_LEVEL]
    return np.repeat(rows.document_of, np.diff(rows.starts))


def _order(place: Rows, base: Rows, recent: Rows, *, n_base: int) -> Rows:
    """Rows of both segments (those of the second counted on), in merged order, those of gone documents left out."""
    key = place[np.concatenate([base, recent + n_base])]
    order = np.argsort(key, kind="stable")
    return order[int((key < 0).sum()) :]


def _inverse(order: Rows, n_rows: int) -> Rows:
    """Old row → merged row, −1 for one that is left out."""
    found = np.full(n_rows, -1, np.int64)
    found[order] = np.arange(len(order))
    return found


_Words = tuple[tuple[str, ...], tuple[str, ...], Rows, Rows]


def _union(base: Snapshot, recent: Snapshot) -> _Words:
    """Names and types of both, and the numbers that those of ``recent`` have among them."""
    (names, new_names), (types, new_types) = (
        _numbered(getattr(base.levels[SENTENCE_LEVEL], what), getattr(recent.levels[SENTENCE_LEVEL], what))
        for what in ("names", "types")
    )
    return names, types, new_names, new_types


def _numbered(first: Sequence[str], second: Sequence[str]) -> tuple[tuple[str, ...], Rows]:
    number = {word: i for i, word in enumerate(first)}
    moved = [number.setdefault(word, len(number)) for word in second]
    return tuple(number), np.array(moved, np.int64)


def _level(level: Level, base: Snapshot, recent: Snapshot, place: Rows, sentence_row: Rows, words: _Words) -> LevelRows:
    first, second = base.levels[level], recent.levels[level]
    order = _order(place, first.document_of, second.document_of, n_base=len(base.documents))
    row_of = _inverse(order, len(first.chunk_ids) + len(second.chunk_ids))
    rows = order.tolist()
    ids, tokens = (*first.chunk_ids, *second.chunk_ids), (*first.tokens, *second.tokens)
    documents = np.concatenate([first.document_of, second.document_of + len(base.documents)])
    begins = np.concatenate([first.first, second.first.astype(np.int64) + len(base.sentence_tokens)])
    starts, spans = _spans(first, second, order)
    names, types, new_names, new_types = words
    return LevelRows(
        tuple(ids[i] for i in rows),
        place[documents[order]],
        np.concatenate([first.vectors, second.vectors])[order],
        tuple(tokens[i] for i in rows),
        np.concatenate([first.days, second.days])[order],
        sentence_row[begins[order]].astype(np.int32),
        starts,
        spans,
        names,
        types,
        _columns(
            first.mention_columns, second.mention_columns, row_of, len(first.chunk_ids), {1: new_names, 2: new_types}
        ),
        _columns(
            first.relation_columns,
            second.relation_columns,
            row_of,
            len(first.chunk_ids),
            {1: new_names, 2: new_types, 3: new_names},
        ),
    )


def _spans(first: LevelRows, second: LevelRows, order: Rows) -> tuple[Numbers, Numbers]:
    """Sentence places of the rows in merged order, and where each row's begin."""
    lengths = np.concatenate([np.diff(first.starts), np.diff(second.starts)]).astype(np.int64)
    begins = np.concatenate([first.starts[:-1], second.starts[:-1].astype(np.int64) + len(first.spans)])
    taken = lengths[order]
    starts = np.concatenate([[0], np.cumsum(taken)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], taken)
    rows = np.repeat(begins[order], taken) + within
    return starts.astype(np.int32), np.concatenate([first.spans, second.spans])[rows]


def _columns(first: Any, second: Any, row_of: Rows, n_first: int, moved: dict[int, Rows]) -> Any:
    """Columns of both segments: rows counted anew, names and types of the second by ``moved``, gone rows left out."""
    rows = row_of[np.concatenate([first[0], second[0].astype(np.int64) + n_first])]
    kept = rows >= 0
    columns = [rows[kept].astype(np.int32)]
    for i, (old, new) in enumerate(zip(first[1:], second[1:], strict=True), start=1):
        numbered = moved[i][new] if i in moved else new
        columns.append(np.concatenate([old, numbered.astype(old.dtype)])[kept])
    return tuple(columns)
