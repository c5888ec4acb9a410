"""Passages, documents and originals for evidence cards and the documents page.

The asker's scope is checked at every opening.
"""

from __future__ import annotations

from dataclasses import dataclass

from rag.errors import ScopeViolation, StoreError
from rag.schema import PUBLIC, ChunkRecord, Level, Scope
from rag.stores.record import DocumentRow, ScopeRecord, scopes_on_disk
from rag.stores.view import View, Views


@dataclass(frozen=True, slots=True)
class Listed:
    """A document as listed, without its text. ``seen``: questions are answered from it."""

    document: DocumentRow
    scope_id: str
    chunks: int
    seen: bool


class Library:
    """What one asker may open."""

    def __init__(self, views: Views, scope: Scope) -> None:
        self._views = views
        self._scope = scope

    def passage(self, scope_id: str, chunk_id: str) -> ChunkRecord | None:
        """A passage; None when it is no longer on file.

        Raises:
            ScopeViolation: it belongs to a scope that the asker may not see.
        """
        self._check(scope_id)
        return self._view().chunks([(scope_id, chunk_id)]).get(chunk_id)

    def neighbours(self, chunk: ChunkRecord) -> tuple[ChunkRecord | None, ChunkRecord | None]:
        """The passages before and after ``chunk`` in its document."""
        self._check(chunk.scope_id)
        view = self._view()
        level = view.levels.get(chunk.level)
        row = None if level is None else level.row_of.get(chunk.chunk_id)
        if level is None or row is None:
            return None, None
        near = [
            (level.scope_of[r], level.chunk_ids[r])
            if 0 <= r < len(level.chunk_ids) and level.document_of[r] == level.document_of[row]
            else None
            for r in (row - 1, row + 1)
        ]
        texts = view.chunks([pair for pair in near if pair is not None])
        before, after = (None if pair is None else texts.get(pair[1]) for pair in near)
        return before, after

    def document(self, doc_id: str) -> DocumentRow | None:
        """A document with its stored text; None when it is no longer on file.

        Raises:
            ScopeViolation: it belongs to a scope that the asker may not see.
        """
        record = self._checked(doc_id)
        return None if record is None else record.document(doc_id)

    def original(self, document: DocumentRow) -> bytes:
        """The bytes that were taken in.

        Raises:
            ScopeViolation: the document belongs to a scope that the asker may not see.
            OSError: the kept file cannot be read.
        """
        record = self._checked(document.doc_id)
        if record is None:
            raise FileNotFoundError(document.original)
        return (record.folder / "originals" / document.original).read_bytes()

    def documents(self) -> list[Listed]:
        """All documents on file that the asker may see, also those that no question sees yet.

        Raises:
            StoreError: a record cannot be opened.
        """
        seen = self._seen()
        found: list[Listed] = []
        for scope_id in self._scope.visible:
            record = self._on_disk(scope_id)
            if record is not None:
                counts = record.chunk_counts("G2")
                found += [Listed(d, scope_id, counts.get(d.doc_id, 0), d.doc_id in seen) for d in record.listed()]
        return found

    def chunks(self, doc_id: str, level: Level, *, start: int = 0, limit: int = -1) -> list[ChunkRecord]:
        """A document's chunks of a level in reading order; none when it is no longer on file.

        Raises:
            ScopeViolation: it belongs to a scope that the asker may not see.
        """
        record = self._checked(doc_id)
        return [] if record is None else record.chunks_of(doc_id, level, start=start, limit=limit)

    def chunk_counts(self, doc_id: str, levels: tuple[Level, ...]) -> dict[Level, int]:
        """Number of a document's chunks at each level.

        Raises:
            ScopeViolation: it belongs to a scope that the asker may not see.
        """
        record = self._checked(doc_id)
        return {level: 0 if record is None else record.chunk_counts(level).get(doc_id, 0) for level in levels}

    def _seen(self) -> frozenset[str]:
        """Ids of the documents that questions see."""
        try:
            return frozenset(document.doc_id for document in self._view().documents)
        except StoreError:
            return frozenset()

    def _checked(self, doc_id: str) -> ScopeRecord | None:
        scope_id = scope_of(doc_id)
        self._check(scope_id)
        return self._on_disk(scope_id)

    def _on_disk(self, scope_id: str) -> ScopeRecord | None:
        """The record of a scope, None before anything was taken in; there may be no snapshot of it yet."""
        store = self._views.store
        return ScopeRecord(store, scope_id) if scope_id in scopes_on_disk(store) else None

    def _view(self) -> View:
        return self._views.get(self._scope)

    def _check(self, scope_id: str) -> None:
        if scope_id not in self._scope.visible:
            raise ScopeViolation("지금 고른 농장에서 볼 수 없는 자료입니다. 왼쪽에서 농장을 확인해 주세요.")


def scope_of(doc_id: str) -> str:
    """Scope id of a document id ("public/…", "farm:haetsal/…")."""
    return doc_id.partition("/")[0]


def scope_label(scope_id: str, farms: dict[str, str]) -> str:
    """How a scope is called on screen."""
    if scope_id == PUBLIC:
        return "공용 자료"
    farm_id = scope_id.removeprefix("farm:")
    return f"{farms.get(farm_id, farm_id)} 자료"
