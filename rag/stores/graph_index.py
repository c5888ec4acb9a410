"""The graph of a view: chunks and entities, mentions between them, typed relations between entities.

M[chunk, entity] = log(1 + mentions), a mention in title or heading counting three. Entities from the lexicon
always count; compounds and proper nouns when they occur in two or more chunks or in a title.
idf = log(1 + N/(1 + df)). A = row-normalised M·diag(idf) (chunk → entity), B = column-normalised M (entity →
chunk), R = row-normalised relation confidences (entity → entity, both directions).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rag.lexicon import Lexicon, Mention, Term

TITLE_COUNT = 3


@dataclass(frozen=True, slots=True)
class RelationEdge:
    """``head –relation→ tail`` (entity numbers), stated in chunk row ``chunk`` with ``confidence`` in (0, 1]."""

    head: int
    tail: int
    relation: str
    chunk: int
    confidence: float


class GraphIndex:
    """Arrays of a view's graph; immutable after construction. Row numbers are the view's chunk rows."""

    def __init__(
        self,
        n_chunks: int,
        mentions: Iterable[tuple[int, str, str, int, bool]],
        relations: Iterable[tuple[int, str, str, str, float]],
    ) -> None:
        rows = sorted(mentions)
        df = Counter(entity for _, entity, _, _, _ in rows)
        types: dict[str, str] = {}
        titled: set[str] = set()
        for _, entity, kind, _, in_title in rows:
            types.setdefault(entity, kind)
            if in_title:
                titled.add(entity)
        kept = sorted(e for e, n in df.items() if types[e] != "복합명사" or n >= 2 or e in titled)
        self.entities: tuple[str, ...] = tuple(kept)
        self.types: tuple[str, ...] = tuple(types[e] for e in kept)
        self.number: Mapping[str, int] = {entity: i for i, entity in enumerate(kept)}
        self.n_chunks = n_chunks
        cells = [
            (chunk, self.number[entity], np.log1p(TITLE_COUNT if in_title else count))
            for chunk, entity, _, count, in_title in rows
            if entity in self.number
        ]
        shape = (n_chunks, len(kept))
        chunk_of, entity_of, value = (np.array(column) for column in zip(*cells)) if cells else ([], [], [])
        m = sparse.csr_matrix((value, (chunk_of, entity_of)), shape=shape, dtype=np.float64)
        self.mentions = m
        degree = np.asarray((m > 0).sum(axis=0)).ravel() if cells else np.zeros(len(kept))
        self.idf: npt.NDArray[np.float64] = np.log1p(n_chunks / (1.0 + degree))
        self.chunk_to_entity_t = _row_normalised(m @ sparse.diags(self.idf)).T.tocsr()
        self.entity_to_chunk = _row_normalised(m.T.tocsr()).T.tocsr()
        self.relations: tuple[RelationEdge, ...] = tuple(
            RelationEdge(self.number[head], self.number[tail], relation, chunk, confidence)
            for chunk, head, relation, tail, confidence in sorted(relations)
            if head in self.number and tail in self.number
        )
        both = [(e.head, e.tail, e.confidence) for e in self.relations]
        both += [(tail, head, confidence) for head, tail, confidence in both]
        head_of, tail_of, weight = (np.array(column) for column in zip(*both)) if both else ([], [], [])
        r = sparse.csr_matrix((weight, (head_of, tail_of)), shape=(len(kept), len(kept)), dtype=np.float64)
        self.relation_t = _row_normalised(r).T.tocsr()

    @cached_property
    def _matcher(self) -> Lexicon:
        """Longest-match over the names of non-lexicon entities."""
        names = [Term(e, t, (e,)) for e, t in zip(self.entities, self.types) if t == "복합명사" and len(e) >= 2]
        return Lexicon(names, "")

    @cached_property
    def relations_of(self) -> Mapping[int, tuple[RelationEdge, ...]]:
        """Entity number → relation edges at it."""
        found: dict[int, list[RelationEdge]] = defaultdict(list)
        for edge in self.relations:
            found[edge.head].append(edge)
            found[edge.tail].append(edge)
        return {entity: tuple(edges) for entity, edges in found.items()}

    def entities_in(self, text: str, lexicon_mentions: Sequence[Mention]) -> tuple[str, ...]:
        """Known entities of a question: its lexicon mentions, then compounds of the graph, in text order."""
        taken = [(m.start, m.end) for m in lexicon_mentions]
        others = [m for m in self._matcher.mentions(text) if not any(m.start < e and s < m.end for s, e in taken)]
        ordered = sorted([*lexicon_mentions, *others], key=lambda m: m.start)
        return tuple(dict.fromkeys(m.name for m in ordered if m.name in self.number))


def _row_normalised(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return (sparse.diags(scale) @ matrix).tocsr()
