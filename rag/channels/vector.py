"""Dense search: cosine between the question and every chunk of the view.

The default backend is the memory-mapped matrix of the snapshot (exact). Other backends answer through the port of
``rag/stores/vectors.py``: :class:`StoreVectorChannel`.
"""

from __future__ import annotations

import numpy as np

from rag.channels.base import Found
from rag.errors import ChannelUnavailable, StoreError
from rag.schema import VECTOR, FloatVector, Hit, Level, PlannedQuery, RetrievalPlan
from rag.stores.bm25_index import top_rows
from rag.stores.sync import ScopeVectors
from rag.stores.view import Mask, View, Views

NO_VECTOR = "질문을 벡터로 바꾸지 못해 의미 검색을 쉽니다."


class VectorChannel:
    """Exact search over the snapshot matrices."""

    name = VECTOR

    def __init__(self, views: Views) -> None:
        self._views = views

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        """Hits by cosine, best first; ties by row.

        Raises:
            ChannelUnavailable: the question has no vector (the encoder failed).
        """
        if query.vector is None:
            raise ChannelUnavailable(NO_VECTOR)
        view = self._views.get(plan.scope)
        level = view.levels[plan.granularity]
        scores = level.similarities(query.vector)
        rows = top_rows(scores, plan.depth[VECTOR], above=-2.0, mask=view.mask(plan.granularity, plan.filters))
        return Found(hits=hits_of(level.chunk_ids, level.scope_of, rows, scores))


class StoreVectorChannel:
    """Search through the stores of the visible scopes, merged by cosine; ties by chunk id.

    Stores are brought in line with the view before the search; a chunk that the view does not know is left out.
    """

    name = VECTOR

    def __init__(self, views: Views, vectors: ScopeVectors) -> None:
        self._views = views
        self._vectors = vectors

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        """Hits by cosine, best first.

        Raises:
            ChannelUnavailable: the question has no vector, or the engine fails (a server that cannot be reached).
        """
        if query.vector is None:
            raise ChannelUnavailable(NO_VECTOR)
        view = self._views.get(plan.scope)
        mask = view.mask(plan.granularity, plan.filters)
        try:
            found = self._nearest(view, plan, query.vector, mask)
        except StoreError as error:
            self._vectors.forget()
            raise ChannelUnavailable(str(error)) from error
        row_of, scope_of = view.levels[plan.granularity].row_of, view.levels[plan.granularity].scope_of
        known = [
            (s, c, scope)
            for s, c, scope in found
            if c in row_of and scope_of[row_of[c]] == scope and (mask is None or mask[row_of[c]])
        ]
        best = sorted(known, key=lambda hit: (-hit[0], hit[1]))[: plan.depth[VECTOR]]
        return Found(
            hits=tuple(
                Hit(chunk_id=chunk_id, scope_id=scope_id, rank=rank, score=score)
                for rank, (score, chunk_id, scope_id) in enumerate(best, start=1)
            )
        )

    def _nearest(
        self, view: View, plan: RetrievalPlan, vector: FloatVector, mask: Mask | None
    ) -> list[tuple[float, str, str]]:
        """(cosine, chunk id, scope id) of the best of every visible scope."""
        allowed = allowed_documents(view, plan.granularity, mask)
        return [
            (score, chunk_id, scope_id)
            for scope_id, port in self._vectors.of(view, plan.granularity).items()
            for chunk_id, score in port.search(
                vector, plan.depth[VECTOR], None if allowed is None else allowed.get(scope_id, ())
            )
        ]


def allowed_documents(view: View, level: Level, mask: Mask | None) -> dict[str, set[str]] | None:
    """Scope id → ids of the documents with rows that pass (``View.mask``); None when nothing is filtered."""
    if mask is None:
        return None
    rows = np.flatnonzero(mask)
    numbers, first = np.unique(view.levels[level].document_of[rows], return_index=True)
    found: dict[str, set[str]] = {}
    for number, row in zip(numbers.tolist(), rows[first].tolist()):
        found.setdefault(view.levels[level].scope_of[row], set()).add(view.documents[number].doc_id)
    return found


def hits_of(chunk_ids: tuple[str, ...], scope_of: tuple[str, ...], rows: list[int], scores: object) -> tuple[Hit, ...]:
    """Hits from view rows in rank order."""
    return tuple(
        Hit(chunk_id=chunk_ids[row], scope_id=scope_of[row], rank=rank, score=float(scores[row]))  # type: ignore[index]
        for rank, row in enumerate(rows, start=1)
    )
