"""What one farm sees: public ∪ its own documents, joined in memory.

Vectors and graph join when the view is opened; BM25 is indexed over both parts, so its statistics are exact.
A view is immutable; :class:`Views` hands out the present one and notices new snapshots by a file read.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.errors import StoreError
from rag.schema import ChunkRecord, DocFilter, Level, Scope, SentenceRecord
from rag.stores.bm25_index import Bm25Index
from rag.stores.catalogue import Catalogue
from rag.stores.graph_index import GraphIndex
from rag.stores.record import ScopeRecord, scope_folder
from rag.stores.snapshot import INDEXED_LEVELS, DocumentFacts, Snapshot, current_digest, open_snapshot

Mask = npt.NDArray[np.bool_]
FloatVector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LevelView:
    """One level of a view. Row i is chunk ``chunk_ids[i]`` of scope ``scope_of[i]`` and document ``document_of[i]``."""

    chunk_ids: tuple[str, ...]
    scope_of: tuple[str, ...]
    document_of: npt.NDArray[np.int64]
    matrices: tuple[npt.NDArray[np.float32], ...]
    bm25: Bm25Index
    graph: GraphIndex

    @cached_property
    def row_of(self) -> dict[str, int]:
        """chunk id → row."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    def similarities(self, vector: FloatVector) -> FloatVector:
        """Cosine of every row with a unit vector, shape (rows,)."""
        if not self.chunk_ids:
            return np.zeros(0, np.float32)
        return np.concatenate([matrix @ vector for matrix in self.matrices])


class View:
    """The joined snapshots of a scope."""

    def __init__(self, records: Sequence[ScopeRecord], snapshots: Sequence[Snapshot]) -> None:
        self.records = {record.scope_id: record for record in records}
        self.digest = "+".join(snapshot.digest for snapshot in snapshots)
        self.documents: tuple[DocumentFacts, ...] = tuple(d for s in snapshots for d in s.documents)
        self.levels: dict[Level, LevelView] = {level: _join(level, snapshots) for level in INDEXED_LEVELS}
        self._snapshots = tuple(snapshots)

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

    def mask(self, level: Level, wanted: DocFilter) -> Mask | None:
        """Rows whose document passes the filter; None when nothing is filtered."""
        if wanted.empty:
            return None
        passing = np.array([_passes(document, wanted) for document in self.documents], dtype=bool)
        mask: Mask = passing[self.levels[level].document_of]
        return mask

    def chunks(self, pairs: Sequence[tuple[str, str]]) -> dict[str, ChunkRecord]:
        """Texts of (scope id, chunk id) pairs; a chunk removed since the snapshot is left out.

        Raises:
            StoreError: the record cannot be read.
        """
        found: dict[str, ChunkRecord] = {}
        for scope_id, record in self.records.items():
            wanted = [chunk_id for scope, chunk_id in pairs if scope == scope_id]
            if wanted:
                try:
                    found.update(record.chunks(wanted))
                except sqlite3.Error as error:
                    raise _unreadable(record, error) from error
        return found

    @cached_property
    def _tokens(self) -> dict[str, tuple[str, ...]]:
        return {
            chunk_id: tokens
            for snapshot in self._snapshots
            for rows in snapshot.levels.values()
            for chunk_id, tokens in zip(rows.chunk_ids, rows.tokens, strict=True)
        }

    def document_of(self, chunk_id: str) -> DocumentFacts:
        """Document of a paragraph."""
        level = self.levels["G2"]
        return self.documents[int(level.document_of[level.row_of[chunk_id]])]

    def chunk_tokens(self, chunk_id: str) -> tuple[str, ...]:
        """BM25 tokens of a chunk with its headings."""
        return self._tokens.get(chunk_id, ())

    def entities_of(self, chunk_id: str) -> frozenset[str]:
        """Entities that a paragraph or its headings name."""
        level = self.levels["G2"]
        row = level.row_of.get(chunk_id)
        if row is None:
            return frozenset()
        start, end = level.graph.mentions.indptr[row : row + 2]
        return frozenset(level.graph.entities[e] for e in level.graph.mentions.indices[start:end])

    def sentences(self, chunk_id: str) -> tuple[tuple[SentenceRecord, ...], npt.NDArray[np.float32]]:
        """Sentences of a paragraph chunk and their unit vectors, shape (sentences, dim)."""
        for snapshot in self._snapshots:
            records = snapshot.sentences.get(chunk_id)
            if records:
                return records, np.asarray(snapshot.sentence_vectors[[record.row for record in records]])
        return (), np.empty((0, 0), np.float32)


def _unreadable(record: ScopeRecord, error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"'{record.scope_id}' 자료의 기록({record.folder / 'store.sqlite'})을 읽을 수 없습니다({error}). "
        "디스크를 확인하거나 백업본으로 바꿔 주세요."
    )


def _passes(document: DocumentFacts, wanted: DocFilter) -> bool:
    if wanted.not_after and document.date is not None and document.date > wanted.not_after:
        return False
    if wanted.periods and not (
        document.date is not None and any(first <= document.date <= last for first, last in wanted.periods)
    ):
        return False
    if wanted.authors and document.author not in wanted.authors:
        return False
    if wanted.kinds and document.kind not in wanted.kinds:
        return False
    if wanted.scopes and document.scope_id not in wanted.scopes:
        return False
    if wanted.formats and document.format not in wanted.formats:
        return False
    return not (wanted.houses and not set(wanted.houses) & set(document.houses))


def _join(level: Level, snapshots: Sequence[Snapshot]) -> LevelView:
    chunk_ids: list[str] = []
    scope_of: list[str] = []
    document_of: list[npt.NDArray[np.int64]] = []
    mentions: list[tuple[int, str, str, int, bool]] = []
    relations: list[tuple[int, str, str, str, float]] = []
    documents = 0
    for snapshot in snapshots:
        rows, base = snapshot.levels[level], len(chunk_ids)
        mentions += [(base + row, *rest) for row, *rest in rows.mentions]  # type: ignore[misc]
        relations += [(base + row, *rest) for row, *rest in rows.relations]  # type: ignore[misc]
        chunk_ids += rows.chunk_ids
        scope_of += [snapshot.scope_id] * len(rows.chunk_ids)
        document_of.append(rows.document_of + documents)
        documents += len(snapshot.documents)
    return LevelView(
        tuple(chunk_ids),
        tuple(scope_of),
        np.concatenate(document_of) if document_of else np.zeros(0, np.int64),
        tuple(s.levels[level].vectors for s in snapshots),
        view_bm25(level, snapshots),
        GraphIndex(len(chunk_ids), mentions, relations),
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

    ``components`` are the manifest entries of the running encoder, tokenizer … that an index must have been built with.
    """

    def __init__(self, store: Path, components: Mapping[str, str]) -> None:
        self.store = store
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
            self._views[scope.visible] = (state, view)
            return view

    def _record(self, scope_id: str) -> ScopeRecord | None:
        if not (scope_folder(self.store, scope_id) / "store.sqlite").exists():
            self._records.pop(scope_id, None)  # removing a farm is removing its folder
            return None
        if scope_id not in self._records:
            self._records[scope_id] = ScopeRecord(self.store, scope_id)
        return self._records[scope_id]
