"""The graph of a view: chunks and entities, mentions between them, typed relations between entities.

M[chunk, entity] = log(1 + mentions), a mention in title or heading counting three. Entities from the lexicon
always count; compounds, proper nouns and names when they occur in two or more chunks or in a title.
idf = log(1 + N/(1 + df)). A = row-normalised M·diag(idf) (chunk → entity), B = column-normalised M (entity →
chunk), R = row-normalised relation confidences (entity → entity, both directions).

``neighbourhood`` cuts out what a walk of a few hops can reach, with degree caps; its arrays are slices of A, B and R
(not normalised again), so that without caps a walk on it gives the same masses as a walk on the whole graph.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rag.english import has_hangul
from rag.lexicon import COMPOUND, NAME, OPEN_TYPES, Mention
from rag.stores.names import NameMatcher

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
        kept = sorted(e for e, n in df.items() if types[e] not in OPEN_TYPES or n >= 2 or e in titled)
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
        self._relations = r
        self._chunks_of_entity = m.T.tocsr()
        self.relation_t = _row_normalised(r).T.tocsr()
        self.related = self.relation_t.nnz > 0

    @cached_property
    def _matcher(self) -> NameMatcher:
        """Longest match over the names of non-lexicon entities."""
        return NameMatcher(e for e, t in zip(self.entities, self.types) if t in (COMPOUND, NAME))

    @cached_property
    def relations_of(self) -> Mapping[int, tuple[RelationEdge, ...]]:
        """Entity number → relation edges at it."""
        found: dict[int, list[RelationEdge]] = defaultdict(list)
        for edge in self.relations:
            found[edge.head].append(edge)
            found[edge.tail].append(edge)
        return {entity: tuple(edges) for entity, edges in found.items()}

    def entities_in(self, text: str, read: Sequence[Mention]) -> tuple[str, ...]:
        """Known entities of a question in text order: those that were ``read`` off it, and the longest matches of the
        graph's compounds and names outside the lexicon terms.

        In a question with capitals a single lower-case Latin word is a word, not the name that is spelled alike
        ("born", "later"); in one without capitals every match counts.
        """
        terms = [m for m in read if m.type not in OPEN_TYPES]
        names = [m for m in read if m.type in OPEN_TYPES]
        cased = not has_hangul(text) and any(char.isupper() for char in text[1:])
        spans = [(m.name, m.start, m.end) for m in (*terms, *names)]
        for name, start, end in self._matcher.find(text):
            free = not any(start < term.end and term.start < end for term in terms)
            if free and not (cased and " " not in name and text[start].islower()):
                spans.append((name, start, end))
        ordered = sorted(spans, key=lambda span: (span[1], -span[2]))
        return tuple(dict.fromkeys(name for name, _, _ in ordered if name in self.number))

    def neighbourhood(self, seeds: Seeds, hops: int, limits: Limits | None = None) -> Neighbourhood:
        """The part of the graph within ``hops`` steps of the seeds (chunk ↔ entity and entity ↔ entity are one step).

        A node above its cap passes on to its heaviest edges only (ties by row number).
        """
        limits = limits or Limits()
        chunks, entities = set(seeds.chunks), {self.number[e] for e in seeds.entities if e in self.number}
        new_chunks, new_entities = set(chunks), set(entities)
        by_entity = self._chunks_of_entity
        for _ in range(hops):
            from_entities = _heaviest(by_entity, new_entities, limits.chunks_per_entity)
            related = _heaviest(self._relations, new_entities, limits.relations_per_entity)
            from_chunks = _heaviest(self.mentions, new_chunks, limits.entities_per_chunk)
            new_chunks, new_entities = from_entities - chunks, (from_chunks | related) - entities
            chunks |= new_chunks
            entities |= new_entities
        return Neighbourhood.cut(self, np.array(sorted(chunks), np.int64), np.array(sorted(entities), np.int64))


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where a neighbourhood starts: entity names and chunk rows."""

    entities: Sequence[str] = ()
    chunks: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Degree caps of a neighbourhood; the defaults keep a hub ("토마토") from pulling in the whole farm."""

    chunks_per_entity: int = 500
    entities_per_chunk: int = 100
    relations_per_entity: int = 100


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A sub-graph with numbers of its own: chunk i is row ``rows[i]`` of the whole, entity j is ``entities[j]``."""

    rows: npt.NDArray[np.int64]
    entities: tuple[str, ...]
    number: Mapping[str, int]
    n_chunks: int
    idf: npt.NDArray[np.float64]
    chunk_to_entity_t: sparse.csr_matrix
    entity_to_chunk: sparse.csr_matrix
    relation_t: sparse.csr_matrix
    related: bool

    @staticmethod
    def cut(graph: GraphIndex, chunks: npt.NDArray[np.int64], entities: npt.NDArray[np.int64]) -> Neighbourhood:
        """Slice a graph to the given chunk rows and entity numbers, both rising."""
        names = tuple(graph.entities[e] for e in entities)
        return Neighbourhood(
            rows=chunks,
            entities=names,
            number={name: i for i, name in enumerate(names)},
            n_chunks=len(chunks),
            idf=graph.idf[entities],
            chunk_to_entity_t=graph.chunk_to_entity_t[entities][:, chunks],
            entity_to_chunk=graph.entity_to_chunk[chunks][:, entities],
            relation_t=graph.relation_t[entities][:, entities],
            related=graph.related,
        )


def _heaviest(matrix: sparse.csr_matrix, rows: Iterable[int], cap: int) -> set[int]:
    """Columns of the ``cap`` largest values of each row."""
    found: set[int] = set()
    for row in rows:
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        if len(columns) > cap:
            values = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
            columns = columns[np.lexsort((columns, -values))[:cap]]
        found.update(columns.tolist())
    return found


def _row_normalised(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return (sparse.diags(scale) @ matrix).tocsr()
