"""What one farm sees: public ∪ its own documents, joined in memory.

Vectors, graph and BM25 join per level; BM25 is indexed over both parts, so its statistics are exact. A level's graph
and BM25 index are made once, when the level is first used or where :class:`Views` is told which levels are in use, when
the view is opened. A view does not change; :class:`Views` hands out the present one and notices new snapshots by a
file read.
"""

from __future__ import annotations

import copy
import math
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import StoreError
from rag.schema import LEVELS, ChunkRecord, DocFilter, Level, Passage, Scope, SentenceRecord
from rag.stores.bm25_index import Bm25Index
from rag.stores.catalogue import Catalogue, passes, within
from rag.stores.farm_words import FarmWord, read_words
from rag.stores.graph_index import GraphIndex
from rag.stores.record import ScopeRecord, scope_folder
from rag.stores.segments import INDEXED_LEVELS, DocumentFacts, Snapshot
from rag.stores.snapshot import current_digest, open_snapshot

Mask = npt.NDArray[np.bool_]
FloatVector = npt.NDArray[np.float32]
_USUAL: Level = "G2"


class LevelView:
    """One level of a view. Row i is chunk ``chunk_ids[i]`` of scope ``scope_of[i]`` and document ``document_of[i]``.

    Sentences are counted through the snapshots: row i has those from ``first[i]`` on, ``n_sentences[i]`` of them.
    """

    def __init__(self, level: Level, snapshots: Sequence[Snapshot]) -> None:
        parts = [snapshot.levels[level] for snapshot in snapshots]
        self.level = level
        self.chunk_ids: tuple[str, ...] = tuple(chunk_id for part in parts for chunk_id in part.chunk_ids)
        self.scope_of: tuple[str, ...] = tuple(
            snapshot.scope_id for snapshot, part in zip(snapshots, parts, strict=True) for _ in part.chunk_ids
        )
        self.document_of = _joined([p.document_of for p in parts], [len(s.documents) for s in snapshots])
        self.first = _joined([p.first for p in parts], [len(s.sentence_tokens) for s in snapshots])
        self.n_sentences = _joined([np.diff(p.starts) for p in parts], [0] * len(parts))
        self.days = np.concatenate([p.days for p in parts])
        self.matrices: tuple[npt.NDArray[np.float32], ...] = tuple(part.vectors for part in parts)
        self._snapshots = tuple(snapshots)
        self._lock = threading.Lock()
        self._bm25: Bm25Index | None = None
        self._graph: GraphIndex | None = None

    @property
    def bm25(self) -> Bm25Index:
        """The index over all rows."""
        with self._lock:
            if self._bm25 is None:
                self._bm25 = view_bm25(self.level, self._snapshots)
            return self._bm25

    @property
    def graph(self) -> GraphIndex:
        """The graph of all rows."""
        with self._lock:
            if self._graph is None:
                self._graph = _graph(self.level, self._snapshots)
            return self._graph

    @cached_property
    def row_of(self) -> dict[str, int]:
        """chunk id → row."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    def similarities(self, vector: FloatVector) -> FloatVector:
        """Cosine of every row with a unit vector, shape (rows,)."""
        if not self.chunk_ids:
            return np.zeros(0, np.float32)
        return np.concatenate([matrix @ vector for matrix in self.matrices])

    def vector(self, row: int) -> FloatVector:
        """Unit vector of a row.

        Raises:
            IndexError: no such row.
        """
        if not 0 <= row < len(self.chunk_ids):
            raise IndexError(row)
        for matrix in self.matrices[:-1]:
            if row < len(matrix):
                break
            row -= len(matrix)
        else:
            matrix = self.matrices[-1]
        found: FloatVector = matrix[row]
        return found

    def warm(self) -> None:
        """Make graph and BM25 index now."""
        _ = self.bm25, self.graph


class View:
    """The joined snapshots of a scope."""

    def __init__(self, records: Sequence[ScopeRecord], snapshots: Sequence[Snapshot]) -> None:
        self.records = {record.scope_id: record for record in records}
        self.digest = "+".join(snapshot.digest for snapshot in snapshots)
        self.documents: tuple[DocumentFacts, ...] = tuple(d for s in snapshots for d in s.documents)
        self.levels: dict[Level, LevelView] = {level: LevelView(level, snapshots) for level in INDEXED_LEVELS}
        self._snapshots = tuple(snapshots)
        self._passages: dict[str, Passage] = {}

    def plus(self, passages: Sequence[Passage]) -> View:
        """This view with chunks read for one question beside its own; itself where there are none.

        They have texts, tokens, entities and sentences, but no row: statistics and filters are the view's own. A chunk
        that the view holds, too, is the view's.
        """
        if not passages:
            return self
        widened = copy.copy(self)
        widened._passages = {passage.chunk.chunk_id: passage for passage in passages}
        return widened

    @cached_property
    def idf(self) -> Mapping[str, float]:
        """BM25 idf = ln(1 + (N − df + 0.5)/(df + 0.5)) of every token at paragraph level."""
        rows = [tokens for snapshot in self._snapshots for tokens in snapshot.levels["G2"].tokens]
        df = Counter(token for tokens in rows for token in set(tokens))
        return {token: math.log(1 + (len(rows) - n + 0.5) / (n + 0.5)) for token, n in df.items()}

    @cached_property
    def catalogue(self) -> Catalogue:
        """What is on file."""
        return Catalogue.of(self.documents, self.digest)

    @cached_property
    def own_words(self) -> tuple[FarmWord, ...]:
        """The scopes' own lists of words, read once.

        Raises:
            SettingsError: a list cannot be read; names the line.
        """
        return tuple(word for record in self.records.values() for word in read_words(record.folder))

    def mask(self, level: Level, wanted: DocFilter) -> Mask | None:
        """Rows that pass the filter, by their document and, where they have days of their own, by these too.

        None when nothing is filtered.
        """
        if wanted.empty:
            return None
        passing = np.array([passes(document, wanted) for document in self.documents], dtype=bool)
        mask: Mask = passing[self.levels[level].document_of]
        for row in np.flatnonzero(mask & (self.levels[level].days[:, 0] > 0)).tolist():
            first, last = self.levels[level].days[row].tolist()
            mask[row] = within((date.fromordinal(first), date.fromordinal(last)), wanted)
        return mask

    def chunks(self, pairs: Sequence[tuple[str, str]]) -> dict[str, ChunkRecord]:
        """Texts of (scope id, chunk id) pairs; a chunk removed since the snapshot is left out.

        Raises:
            StoreError: the record cannot be read.
        """
        found = {
            passage.chunk.chunk_id: passage.chunk
            for passage in self._passages.values()
            if (passage.chunk.scope_id, passage.chunk.chunk_id) in pairs
        }
        for scope_id, record in self.records.items():
            wanted = [chunk_id for scope, chunk_id in pairs if scope == scope_id]
            if wanted:
                try:
                    found.update(record.chunks(wanted))
                except sqlite3.Error as error:
                    raise _unreadable(record, error) from error
        return found

    def chunks_of(self, doc_ids: Collection[str], level: Level) -> list[ChunkRecord]:
        """The chunks of some documents at a level, in the order of the level's rows.

        Raises:
            StoreError: the record cannot be read.
        """
        rows, numbers = self.levels[level], [n for n, d in enumerate(self.documents) if d.doc_id in doc_ids]
        found = np.flatnonzero(np.isin(rows.document_of, numbers)).tolist()
        return list(self.chunks([(rows.scope_of[row], rows.chunk_ids[row]) for row in found]).values())

    def place(self, chunk_id: str) -> tuple[LevelView, int] | None:
        """Level and row of a chunk of any level; None for one that the view does not know."""
        for level in self.levels.values():
            row = level.row_of.get(chunk_id)
            if row is not None:
                return level, row
        return None

    def document_of(self, chunk_id: str) -> DocumentFacts:
        """Document of a chunk.

        Raises:
            KeyError: the view does not know the chunk.
        """
        place = self.place(chunk_id)
        if place is None:
            raise KeyError(chunk_id)
        level, row = place
        return self.documents[int(level.document_of[row])]

    def chunk_tokens(self, chunk_id: str) -> tuple[str, ...]:
        """BM25 tokens of a chunk with its headings."""
        part = self._part(chunk_id)
        if part is None:
            passage = self._passages.get(chunk_id)
            return () if passage is None else passage.tokens
        snapshot, level, row = part
        return snapshot.levels[level].tokens[row]

    def entities_of(self, chunk_id: str) -> frozenset[str]:
        """Entities that a chunk or its headings name."""
        place = self.place(chunk_id)
        if place is None:
            passage = self._passages.get(chunk_id)
            return frozenset() if passage is None else passage.entities
        level, row = place
        graph = level.graph
        start, end = graph.mentions.indptr[row : row + 2]
        return frozenset(graph.entities[e] for e in graph.mentions.indices[start:end])

    def sentences(self, chunk_id: str) -> tuple[tuple[SentenceRecord, ...], npt.NDArray[np.float32]]:
        """Sentences of a chunk, placed in its text, and their unit vectors, shape (sentences, dim)."""
        part = self._part(chunk_id)
        if part is None:
            passage = self._passages.get(chunk_id)
            return ((), np.empty((0, 0), np.float32)) if passage is None else (passage.sentences, passage.vectors)
        snapshot, level, row = part
        records = snapshot.sentences(level, row)
        return records, np.asarray(snapshot.sentence_vectors[[record.row for record in records]])

    def cited_tokens(self, chunk_id: str, start: int, end: int) -> tuple[str, ...]:
        """BM25 tokens of a chunk's headings and of its sentences within ``text[start:end]``."""
        tokens = self.chunk_tokens(chunk_id)
        records, _ = self.sentences(chunk_id)
        head = tokens[: len(tokens) - sum(len(record.tokens) for record in records)]
        return (*head, *(token for r in records if start <= r.start and r.end <= end for token in r.tokens))

    def _part(self, chunk_id: str) -> tuple[Snapshot, Level, int] | None:
        """Snapshot, level and row there of a chunk; None for one that the view does not know."""
        for snapshot in self._snapshots:
            for level, rows in snapshot.levels.items():
                row = rows.row_of.get(chunk_id)
                if row is not None:
                    return snapshot, level, row
        return None

    def at_level(self, chunk_id: str, level: Level) -> tuple[tuple[str, str], ...]:
        """(scope id, chunk id) of what stands at ``level`` where a chunk of any level stands.

        The one chunk that holds it at the same or a coarser level (the beginning of it decides), or the chunks that
        it holds at a finer one, in reading order; nothing for a chunk that the view does not know.
        """
        place = self.place(chunk_id)
        if place is None:
            return ()
        (here, row), there = place, self.levels[level]
        if here is there:
            return ((here.scope_of[row], chunk_id),)
        begin, n_sentences = int(here.first[row]), int(here.n_sentences[row])
        start = max(0, int(np.searchsorted(there.first, begin, side="right")) - 1)
        end = int(np.searchsorted(there.first, begin + n_sentences, side="left"))
        rows = range(start, end) if LEVELS.index(level) < LEVELS.index(here.level) else (start,)
        document = here.document_of[row]
        return tuple((there.scope_of[r], there.chunk_ids[r]) for r in rows if there.document_of[r] == document)


def _joined(parts: Sequence[npt.NDArray[Any]], sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """Numbers of several snapshots one after the other: each part is moved by the sizes of those before."""
    before = np.cumsum([0, *sizes])
    moved = [part.astype(np.int64) + start for part, start in zip(parts, before.tolist())]
    return np.concatenate(moved) if moved else np.zeros(0, np.int64)


def _graph(level: Level, snapshots: Sequence[Snapshot]) -> GraphIndex:
    mentions: list[tuple[int, str, str, int, bool]] = []
    relations: list[tuple[int, str, str, str, float]] = []
    base = 0
    for snapshot in snapshots:
        rows = snapshot.levels[level]
        mentions += [(base + row, *rest) for row, *rest in rows.mentions()]  # type: ignore[misc]
        relations += [(base + row, *rest) for row, *rest in rows.relations()]  # type: ignore[misc]
        base += len(rows.chunk_ids)
    return GraphIndex(base, mentions, relations)


def _unreadable(record: ScopeRecord, error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"'{record.scope_id}' 자료의 기록({record.folder / 'store.sqlite'})을 읽을 수 없습니다({error}). "
        "디스크를 확인하거나 백업본으로 바꿔 주세요."
    )


def view_bm25(level: Level, snapshots: Sequence[Snapshot], *, save: bool = False) -> Bm25Index:
    """The BM25 index of a view: the saved one where it was built over exactly these snapshots, else a fresh one.

    The saved index lies in the folder of the last (most private) snapshot, under the digests of the others; saving
    removes those over other digests. A saved index that cannot be read is as good as none.
    """
    if not snapshots:
        return Bm25Index.build([])
    folder = snapshots[-1].folder / f"bm25_{level}" / ("-".join(s.digest for s in snapshots[:-1]) or "alone")
    if (folder / "rows.json").exists():
        try:
            return Bm25Index.load(folder)
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            pass
    index = Bm25Index.build([tokens for snapshot in snapshots for tokens in snapshot.levels[level].tokens])
    if save:
        partial = folder.with_name(f".{folder.name}.part")
        index.save(partial)
        for old in folder.parent.iterdir():
            if old != partial:
                shutil.rmtree(old, ignore_errors=True)
        partial.replace(folder)
    return index


class Views:
    """Hands out the present view of a scope; reopens when a snapshot was replaced. Thread-safe.

    ``components`` are the manifest entries of the running encoder, tokenizer … that an index must have been built with;
    the ``warm`` levels are ready when a view is handed out, others when they are first used.
    """

    def __init__(self, store: Path, components: Mapping[str, str], *, warm: Collection[Level] = (_USUAL,)) -> None:
        self.store = store
        self._warm = frozenset(warm)
        self._components = dict(components)
        self._lock = threading.Lock()
        self._records: dict[str, ScopeRecord] = {}
        self._views: dict[tuple[str, ...], tuple[tuple[str | None, ...], View]] = {}

    def get(self, scope: Scope) -> View:
        """The view of a scope.

        Raises:
            StoreError: nothing was indexed yet for any visible scope, or the files are damaged.
            IndexMismatch: an index was built with other components.
        """
        with self._lock:
            records = [record for record in map(self._record, scope.visible) if record is not None]
            state = tuple(current_digest(record) for record in records)
            cached = self._views.get(scope.visible)
            if cached is not None and cached[0] == state:
                return cached[1]
            for record in records:
                try:
                    record.check_manifest(self._components)
                except sqlite3.Error as error:
                    raise _unreadable(record, error) from error
            snapshots = [snapshot for snapshot in map(open_snapshot, records) if snapshot is not None]
            if not snapshots:
                raise StoreError(
                    f"'{self.store}' 에 색인이 없습니다. 'make demo' 로 시연 색인을 만들거나 "
                    "'python -m ingest 폴더 --public' 으로 문서를 넣어 주세요."
                )
            view = View(records, snapshots)
            for level in self._warm & view.levels.keys():
                view.levels[level].warm()
            self._views[scope.visible] = (state, view)
            return view

    def _record(self, scope_id: str) -> ScopeRecord | None:
        if not (scope_folder(self.store, scope_id) / "store.sqlite").exists():
            self._records.pop(scope_id, None)  # removing a farm is removing its folder
            return None
        if scope_id not in self._records:
            self._records[scope_id] = ScopeRecord(self.store, scope_id)
        return self._records[scope_id]
