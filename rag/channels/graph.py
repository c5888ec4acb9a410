"""Relation search: a bounded walk from the question's entities over mentions and typed relations.

The question's vector is an input of this channel (dense seeds, question-aware steps), not the vector channel's
result. Without it the walk runs on the entities alone and says so. The best paths are returned for the screen.
"""

from __future__ import annotations

import numpy as np

from rag.channels.base import Found
from rag.channels.vector import hits_of
from rag.channels.walk import walk_scores
from rag.schema import GRAPH, GraphPath, PlannedQuery, RetrievalPlan
from rag.stores.bm25_index import top_rows
from rag.stores.graph_index import GraphIndex
from rag.stores.view import Views

_PATHS = 5


class GraphChannel:
    """The walk over the view's graph."""

    name = GRAPH

    def __init__(self, views: Views) -> None:
        self._views = views

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        """Hits by walk score, best first; chunks the walk never reached are left out."""
        view = self._views.get(plan.scope)
        level = view.levels[plan.granularity]
        similarities = None if query.vector is None else level.similarities(query.vector)
        scores = walk_scores(level.graph, query.entities, similarities, plan.walk, query.expansions)
        mask = view.mask(plan.granularity, plan.filters)
        rows = top_rows(scores.astype(np.float32), plan.depth[GRAPH], above=-np.inf, mask=mask)
        named = (*query.entities, *(word for word, _ in query.expansions if word not in query.entities))
        note = "질문 벡터 없이 개체에서만 걸었습니다." if query.vector is None else None
        return Found(
            hits=hits_of(level.chunk_ids, level.scope_of, rows, scores),
            paths=tuple(
                path
                for row in rows[:_PATHS]
                if (path := best_path(level.graph, named, row, level.chunk_ids[row])) is not None
            ),
            note=note,
        )


def best_path(graph: GraphIndex, entities: tuple[str, ...], row: int, chunk_id: str) -> GraphPath | None:
    """Shortest explanation: question entity → chunk, else question entity → relation → entity → chunk.

    Confidence is the relation's (1 for a direct mention); among equals the rarer entity wins. None: no such path.
    """
    here = set(graph.mentions.indices[graph.mentions.indptr[row] : graph.mentions.indptr[row + 1]].tolist())
    asked = [graph.number[name] for name in entities if name in graph.number]
    direct = sorted((e for e in asked if e in here), key=lambda e: (-graph.idf[e], e))
    if direct:
        return GraphPath(chunk_id=chunk_id, nodes=(graph.entities[direct[0]],), labels=("언급",), confidence=1.0)
    bridges = [
        (edge, start, edge.tail if edge.head == start else edge.head)
        for start in asked
        for edge in graph.relations_of.get(start, ())
        if (edge.tail if edge.head == start else edge.head) in here
    ]
    if not bridges:
        return None
    edge, start, other = min(bridges, key=lambda b: (-b[0].confidence, -graph.idf[b[2]], b[1], b[2], b[0].relation))
    return GraphPath(
        chunk_id=chunk_id,
        nodes=(graph.entities[start], graph.entities[other]),
        labels=(edge.relation, "언급"),
        confidence=edge.confidence,
    )
