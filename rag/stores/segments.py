"""One segment of a snapshot: the derived files of some documents, written once and never changed.

| file | content |
|---|---|
| ``vectors_<level>.npy`` | float32 (chunks, dim), unit rows, by document and ordinal |
| ``sentences.npy`` | float32 (sentences, dim), unit rows |
| ``rows.json`` | documents' filter fields; per level chunk ids, document, days and sentences of each row |
| ``graph.json`` | entity names and types; per level mentions and relations by chunk row, as columns |
| ``tokens.json`` | BM25 tokens of the sentences and, per level, by chunk row |

A chunk of any level is a run of its document's sentences, which are kept once, by document and place: ``first`` is
the row of a chunk's first sentence, ``spans`` the places of its sentences in its text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.embedding import unit_rows
from rag.schema import LEVELS, Level, SentenceRecord
from rag.stores.record import ScopeRecord

FloatMatrix = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int32]
INDEXED_LEVELS: tuple[Level, ...] = LEVELS
# The level whose chunks hold all sentences, in order.
SENTENCE_LEVEL: Level = "G2"


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The fields of a document that filters read. ``days`` are the first and last day that it tells of."""

    doc_id: str
    scope_id: str
    title: str
    kind: str
    crop: str
    author: str
    format: str
    houses: tuple[str, ...]
    days: tuple[date, date] | None


@dataclass(frozen=True)
class LevelRows:
    """Rows of one level: ``chunk_ids[i]`` belongs to document number ``document_of[i]`` and has ``vectors[i]``.

    ``days[i]`` are the first and last day of its rows as ordinals, 0 where those of its document hold. Its sentences are
    the snapshot's from ``first[i]`` on; ``spans[starts[i]:starts[i + 1]]`` are their places in its
    text. Mentions and relations are kept as columns of numbers, ``names`` and ``types`` tell what they stand for.
    """

    chunk_ids: tuple[str, ...]
    document_of: npt.NDArray[np.int64]
    vectors: FloatMatrix
    tokens: tuple[tuple[str, ...], ...]
    days: Numbers
    first: Numbers
    starts: Numbers
    spans: Numbers
    names: tuple[str, ...]
    types: tuple[str, ...]
    mention_columns: tuple[Numbers, Numbers, Numbers, Numbers, npt.NDArray[np.bool_]]
    relation_columns: tuple[Numbers, Numbers, Numbers, Numbers, npt.NDArray[np.float64]]

    @cached_property
    def row_of(self) -> dict[str, int]:
        """chunk id → row."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    def mentions(self) -> Iterator[tuple[int, str, str, int, bool]]:
        """(chunk row, entity, type, count, in title)."""
        for row, entity, kind, count, in_title in zip(*(column.tolist() for column in self.mention_columns)):
            yield row, self.names[entity], self.types[kind], count, in_title

    def relations(self) -> Iterator[tuple[int, str, str, str, float]]:
        """(chunk row, head, relation, tail, confidence)."""
        for row, head, relation, tail, confidence in zip(*(column.tolist() for column in self.relation_columns)):
            yield row, self.names[head], self.types[relation], self.names[tail], confidence


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """An opened snapshot, or one segment of it; the matrices of a single segment are memory-mapped.

    ``parts`` are the segments that it was read from, kept so that the next snapshot need not read them again.
    """

    scope_id: str
    digest: str
    folder: Path
    documents: tuple[DocumentFacts, ...]
    levels: dict[Level, LevelRows]
    sentence_tokens: tuple[tuple[str, ...], ...]
    sentence_vectors: FloatMatrix
    parts: tuple[Snapshot, ...] = ()

    def sentences(self, level: Level, row: int) -> tuple[SentenceRecord, ...]:
        """Sentences of a chunk in reading order."""
        part = self.levels[level]
        places = part.spans[part.starts[row] : part.starts[row + 1]].tolist()
        return tuple(
            SentenceRecord(
                chunk_id=part.chunk_ids[row], start=start, end=end, tokens=self.sentence_tokens[number], row=number
            )
            for number, (start, end) in enumerate(places, start=int(part.first[row]))
        )


def write_segment(record: ScopeRecord, folder: Path, dim: int, doc_ids: Collection[str] | None = None) -> None:
    """Derive the files of some documents, of all where ``doc_ids`` is None, from the record into ``folder``."""
    facts = record.facts(doc_ids)
    number = {fact[0]: i for i, fact in enumerate(facts)}
    rows: dict[str, Any] = {"documents": facts, "levels": {}}
    names, types = _Numbering(), _Numbering()
    graph: dict[str, Any] = {"levels": {}}
    tokens: dict[str, Any] = {"levels": {}}
    sentences = record.sentence_rows(doc_ids)
    first_of_document: dict[str, int] = {}
    for row, sentence in enumerate(sentences):
        first_of_document.setdefault(sentence["doc_id"], row)
    for level in INDEXED_LEVELS:
        chunks = record.chunk_rows(level, doc_ids)
        row_of = {chunk["chunk_id"]: i for i, chunk in enumerate(chunks)}
        np.save(folder / f"vectors_{level}.npy", _matrix([chunk["vector"] for chunk in chunks], dim))
        spans_of = record.spans(level, doc_ids)
        spans = [spans_of.get(chunk["chunk_id"], []) for chunk in chunks]
        rows["levels"][level] = {
            "chunk_ids": [chunk["chunk_id"] for chunk in chunks],
            "document_of": [number[chunk["doc_id"]] for chunk in chunks],
            "days": [[chunk["first_day"], chunk["last_day"]] if chunk["first_day"] else 0 for chunk in chunks],
            "first": _first_sentences([c["doc_id"] for c in chunks], list(map(len, spans)), first_of_document),
            "spans": [[place for span in places for place in span] for places in spans],
        }
        tokens["levels"][level] = [json.loads(chunk["tokens"]) for chunk in chunks]
        mentions = [
            [row_of[m["chunk_id"]], names[m["entity"]], types[m["type"]], m["count"], bool(m["in_title"])]
            for m in record.mention_rows(level, doc_ids)
        ]
        relations = [
            [row_of[r["chunk_id"]], names[r["head"]], types[r["relation"]], names[r["tail"]], r["confidence"]]
            for r in record.relation_rows(level, doc_ids)
        ]
        graph["levels"][level] = {"mentions": _columns(mentions), "relations": _columns(relations)}
    graph |= {"names": list(names), "types": list(types)}
    np.save(folder / "sentences.npy", _matrix([s["vector"] for s in sentences], dim))
    tokens["sentences"] = [json.loads(s["tokens"]) for s in sentences]
    for name, content in (("rows.json", rows), ("graph.json", graph), ("tokens.json", tokens)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


class _Numbering(dict[str, int]):
    """Text → number, counting from 0 in the order of first use."""

    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Five columns, also of no rows."""
    return [list(column) for column in zip(*rows)] if rows else [[], [], [], [], []]


def _first_sentences(
    doc_ids: Sequence[str], n_sentences: Sequence[int], first_of_document: Mapping[str, int]
) -> list[int]:
    """Row of each chunk's first sentence; chunks by document and ordinal, a document's sentences in reading order."""
    following = dict(first_of_document)
    found: list[int] = []
    for doc_id, n in zip(doc_ids, n_sentences, strict=True):
        found.append(following.get(doc_id, 0))
        following[doc_id] = found[-1] + n
    return found


def _matrix(blobs: list[bytes], dim: int) -> FloatMatrix:
    """Unit float32 rows from float16 blobs, shape (n, dim); ``dim`` is read where there are no rows to tell it."""
    if not blobs:
        return np.empty((0, dim), np.float32)
    matrix = np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), -1).astype(np.float32)
    return unit_rows(matrix)


def read_segment(folder: Path, scope_id: str) -> Snapshot:
    """Open a segment; its matrices are mapped.

    Raises:
        OSError, EOFError, ValueError, KeyError, TypeError, IndexError: a file is missing or damaged.
    """
    rows, graph, tokens = (
        json.loads((folder / name).read_text(encoding="utf-8")) for name in ("rows.json", "graph.json", "tokens.json")
    )
    words = _interned(graph["names"]), _interned(graph["types"])
    return Snapshot(
        scope_id,
        folder.name,
        folder,
        tuple(
            DocumentFacts(i, scope_id, t, k, c, a, f, tuple(h), _days(first, last))
            for i, t, k, c, a, f, h, first, last in rows["documents"]
        ),
        {
            level: _level_rows(
                rows["levels"][level],
                graph["levels"][level],
                _shared(tokens["levels"][level]),
                words,
                np.load(folder / f"vectors_{level}.npy", mmap_mode="r"),
            )
            for level in INDEXED_LEVELS
        },
        _shared(tokens["sentences"]),
        np.load(folder / "sentences.npy", mmap_mode="r"),
    )


def _days(first: str, last: str) -> tuple[date, date] | None:
    return (date.fromisoformat(first), date.fromisoformat(last)) if first else None


def _level_rows(
    part: dict[str, Any],
    graph: dict[str, Any],
    tokens: tuple[tuple[str, ...], ...],
    words: tuple[tuple[str, ...], tuple[str, ...]],
    vectors: FloatMatrix,
) -> LevelRows:
    places = [len(flat) // 2 for flat in part["spans"]]
    found = LevelRows(
        tuple(part["chunk_ids"]),
        np.array(part["document_of"], np.int64),
        vectors,
        tokens,
        np.array([_ordinals(days) for days in part["days"]], np.int32).reshape(-1, 2),
        np.array(part["first"], np.int32),
        np.cumsum([0, *places], dtype=np.int32),
        np.array([place for flat in part["spans"] for place in flat], np.int32).reshape(-1, 2),
        *words,
        _arrays(graph["mentions"], np.bool_),
        _arrays(graph["relations"], np.float64),
    )
    if not len(found.chunk_ids) == len(vectors) == len(tokens) == len(found.days) == len(found.first) == len(places):
        raise ValueError("chunks, vectors, tokens and sentences differ in number")
    return found


def _ordinals(days: Sequence[str] | int) -> tuple[int, int]:
    if isinstance(days, int):
        return 0, 0
    first, last = map(date.fromisoformat, days)
    return first.toordinal(), last.toordinal()


def _arrays(columns: Sequence[Sequence[Any]], last: type[np.generic]) -> Any:
    """Columns of numbers, the last of another type."""
    return (*(np.array(column, np.int32) for column in columns[:-1]), np.array(columns[-1], last))


def _interned(words: Sequence[str]) -> tuple[str, ...]:
    """Equal words, of all snapshots and levels, share one string: a third of a view's memory otherwise."""
    return tuple(map(sys.intern, words))


def _shared(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(_interned, rows))
