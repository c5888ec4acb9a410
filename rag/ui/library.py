"""Passages, documents and originals for the evidence card. The asker's scope is checked at every opening."""

from __future__ import annotations

from rag.errors import ScopeViolation
from rag.schema import PUBLIC, ChunkRecord, Scope
from rag.stores.record import DocumentRow
from rag.stores.view import View, Views


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
        scope_id = scope_of(doc_id)
        self._check(scope_id)
        record = self._view().records.get(scope_id)
        return None if record is None else record.document(doc_id)

    def original(self, document: DocumentRow) -> bytes:
        """The bytes that were taken in.

        Raises:
            ScopeViolation: the document belongs to a scope that the asker may not see.
            OSError: the kept file cannot be read.
        """
        scope_id = scope_of(document.doc_id)
        self._check(scope_id)
        return (self._view().records[scope_id].folder / "originals" / document.original).read_bytes()

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
