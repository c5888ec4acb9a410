"""Keyword search: BM25 over Kiwi content morphemes, statistics exact for what the asker may see.

score(d) = Σ BM25(t, d) over the question's tokens + Σ weight × BM25(t, d) over its expansions that are none of them.
"""

from __future__ import annotations

import numpy as np

from rag.channels.base import Found
from rag.channels.vector import hits_of
from rag.schema import BM25, PlannedQuery, RetrievalPlan
from rag.stores.bm25_index import top_rows
from rag.stores.view import Views


class Bm25Channel:
    """BM25 over the view's index; a question without known words gives an empty result."""

    name = BM25

    def __init__(self, views: Views) -> None:
        self._views = views

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        """Hits with a score above zero, best first; ties by row."""
        view = self._views.get(plan.scope)
        level = view.levels[plan.granularity]
        scores = level.bm25.scores(query.tokens)
        for word, weight in query.expansions:
            if word not in query.tokens:
                scores = scores + np.float32(weight) * level.bm25.scores((word,))
        rows = top_rows(scores, plan.depth[BM25], above=0.0, mask=view.mask(plan.granularity, plan.filters))
        return Found(hits=hits_of(level.chunk_ids, level.scope_of, rows, scores))
