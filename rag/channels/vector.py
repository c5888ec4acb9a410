"""Dense search: cosine between the question and every chunk of the view.

The default backend is the memory-mapped matrix of the snapshot (exact). Other backends answer through the port of
``rag/stores/vectors.py``.
"""

from __future__ import annotations

from rag.channels.base import Found
from rag.errors import ChannelUnavailable
from rag.schema import VECTOR, Hit, PlannedQuery, RetrievalPlan
from rag.stores.bm25_index import top_rows
from rag.stores.view import Views


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
            raise ChannelUnavailable("질문을 벡터로 바꾸지 못해 의미 검색을 쉽니다.")
        view = self._views.get(plan.scope)
        level = view.levels[plan.granularity]
        scores = level.similarities(query.vector)
        rows = top_rows(scores, plan.depth[VECTOR], above=-2.0, mask=view.mask(plan.granularity, plan.filters))
        return Found(hits=hits_of(level.chunk_ids, level.scope_of, rows, scores))


def hits_of(chunk_ids: tuple[str, ...], scope_of: tuple[str, ...], rows: list[int], scores: object) -> tuple[Hit, ...]:
    """Hits from view rows in rank order."""
    return tuple(
        Hit(chunk_id=chunk_ids[row], scope_id=scope_of[row], rank=rank, score=float(scores[row]))  # type: ignore[index]
        for rank, row in enumerate(rows, start=1)
    )
