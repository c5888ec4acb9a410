"""A bounded walk with restart over chunks and entities (personalised PageRank cut after a few steps).

e₀ ∝ idf on the question's entities (sum 1); p₀ = softmax(similarity / 0.02) over the most similar chunks × dense_mass;
both are divided by their common sum. One step, both sides at once, a = restart, ρ = relation_share::

    p ← a·p₀ + (1−a)·q(B·e)
    e ← a·e₀ + (1−a)·((1−ρ)·Aᵀ·p + ρ·Rᵀ·e)          (old p, old e)

A, B, R are the row/column-normalised arrays of ``stores.graph_index``. q is the question-aware step: the chunk mass
is multiplied by exp((s − max s)/T) and brought back to its old sum (T = temperature; None: off). Every step keeps
1 − a of the mass, so path confidence and hop length are both in the score. ρ counts as 0 in a graph without relations.
Final score::

    log(p + 1e-9) + dense_share · z(s)               z over all chunks

Constants from FIELD measurements: seeds over the top 50 chunks, softmax temperature 0.02.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rag.schema import Walk
from rag.stores.bm25_index import top_rows

SEED_CHUNKS = 50
SEED_TEMPERATURE = 0.02
FLOOR = 1e-9

Mass = npt.NDArray[np.float64]
Similarities = npt.NDArray[np.float32]


class WalkGraph(Protocol):
    """What a walk needs: the whole graph of a view or a neighbourhood cut out of it."""

    @property
    def number(self) -> Mapping[str, int]:
        """Entity name → entity number."""

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""

    @property
    def idf(self) -> Mass:
        """Inverse document frequency by entity number."""

    @property
    def entity_to_chunk(self) -> sparse.csr_matrix:
        """B, shape (chunks, entities)."""

    @property
    def chunk_to_entity_t(self) -> sparse.csr_matrix:
        """Aᵀ, shape (entities, chunks)."""

    @property
    def related(self) -> bool:
        """Whether the whole graph has relations, be they in this part of it or not."""

    @property
    def relation_t(self) -> sparse.csr_matrix:
        """Rᵀ, shape (entities, entities)."""


def walk_scores(
    graph: WalkGraph,
    entities: Sequence[str],
    similarities: Similarities | None,
    params: Walk,
    extra: Sequence[tuple[str, float]] = (),
) -> Mass:
    """Score of every chunk, shape (n_chunks,); −inf where the walk never came. Pure.

    ``similarities`` are cosines of all chunks with the question, or None: entity seeds alone. ``extra``: further
    entities with a weight in (0, 1), see :func:`seeds`.
    """
    mass = walk_mass(graph, seeds(graph, entities, similarities, params, extra), similarities, params)
    return final_scores(mass, similarities, params.dense_share)


def final_scores(mass: Mass, similarities: Similarities | None, dense_share: float) -> Mass:
    """log(p + 1e-9) + dense_share · z(s); −inf where p = 0."""
    scores: Mass = np.where(mass > 0, np.log(mass + FLOOR), -np.inf)
    spread = float(similarities.std()) if similarities is not None and len(similarities) else 0.0
    if similarities is not None and spread > 0:
        scores = scores + dense_share * (similarities - similarities.mean()) / spread
    return scores


def walk_mass(graph: WalkGraph, start: tuple[Mass, Mass], similarities: Similarities | None, params: Walk) -> Mass:
    """Mass of every chunk after ``max_hops`` steps from the restart masses (chunks, entities)."""
    chunk_seed, entity_seed = start
    chunk, entity = chunk_seed, entity_seed
    keep = 1.0 - params.restart
    tilt = _tilt(similarities, params.temperature)
    related = params.relation_share if graph.related else 0.0
    for _ in range(params.max_hops):
        arrived = _question_aware(graph.entity_to_chunk @ entity, tilt)
        passed = (1 - related) * (graph.chunk_to_entity_t @ chunk) + related * (graph.relation_t @ entity)
        chunk = params.restart * chunk_seed + keep * arrived
        entity = params.restart * entity_seed + keep * passed
    return chunk


def seeds(
    graph: WalkGraph,
    entities: Sequence[str],
    similarities: Similarities | None,
    params: Walk,
    extra: Sequence[tuple[str, float]] = (),
) -> tuple[Mass, Mass]:
    """Restart masses (chunks, entities), summing to 1 together; both all zero when there is no seed at all.

    ``extra`` entities that are not among ``entities`` weigh weight × idf before e₀ is normalised.
    """
    entity = np.zeros(len(graph.idf))
    for name, weight in extra:
        if name in graph.number:
            entity[graph.number[name]] = weight * graph.idf[graph.number[name]]
    for name in entities:
        if name in graph.number:
            entity[graph.number[name]] = graph.idf[graph.number[name]]
    if entity.sum() > 0:
        entity /= entity.sum()
    chunk = np.zeros(graph.n_chunks)
    if similarities is not None and len(similarities) and params.dense_mass > 0:
        top = top_rows(similarities, SEED_CHUNKS, above=-np.inf, mask=None)
        weight = np.exp((similarities[top] - similarities[top[0]]).astype(np.float64) / SEED_TEMPERATURE)
        chunk[top] = params.dense_mass * weight / weight.sum()
    total = chunk.sum() + entity.sum()
    return (chunk / total, entity / total) if total > 0 else (chunk, entity)


def _tilt(similarities: Similarities | None, temperature: float | None) -> Mass | None:
    if similarities is None or temperature is None or not len(similarities):
        return None
    tilt: Mass = np.exp((similarities - similarities.max()).astype(np.float64) / temperature)
    return tilt


def _question_aware(mass: Mass, tilt: Mass | None) -> Mass:
    if tilt is None:
        return mass
    tilted = mass * tilt
    after = tilted.sum()
    return tilted * (mass.sum() / after) if after > 0 else mass
