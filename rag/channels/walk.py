"""A bounded walk with restart over chunks and entities (personalised PageRank cut after a few steps).

e₀ ∝ idf on the question's entities (sum 1); p₀ = softmax(similarity / 0.02) over the most similar chunks × dense_mass;
both are divided by their common sum. One step, both sides at once, a = restart, ρ = relation_share::

    p ← a·p₀ + (1−a)·q(B·e)
    e ← a·e₀ + (1−a)·((1−ρ)·Aᵀ·p + ρ·Rᵀ·e)          (old p, old e)

A, B, R are the row/column-normalised arrays of ``stores.graph_index``. q is the question-aware step: the chunk mass
is multiplied by exp((s − max s)/T) and brought back to its old sum (T = temperature; None: off). Every step keeps
1 − a of the mass, so path confidence and hop length are both in the score. Final score::

    log(p + 1e-9) + dense_share · z(s)               z over all chunks

Constants from FIELD measurements: seeds over the top 50 chunks, softmax temperature 0.02.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag.schema import Walk
from rag.stores.graph_index import GraphIndex

SEED_CHUNKS = 50
SEED_TEMPERATURE = 0.02
FLOOR = 1e-9

Mass = npt.NDArray[np.float64]


def walk_scores(
    graph: GraphIndex, entities: Sequence[str], similarities: npt.NDArray[np.float32] | None, params: Walk
) -> Mass:
    """Score of every chunk, shape (n_chunks,); −inf where the walk never came. Pure.

    ``similarities`` are cosines of all chunks with the question, or None: entity seeds alone.
    """
    chunk_seed, entity_seed = seeds(graph, entities, similarities, params)
    chunk, entity = chunk_seed.copy(), entity_seed.copy()
    keep = 1.0 - params.restart
    for _ in range(params.max_hops):
        arrived = graph.entity_to_chunk @ entity
        if similarities is not None and params.temperature is not None:
            arrived = _question_aware(arrived, similarities, params.temperature)
        through_chunks = graph.chunk_to_entity_t @ chunk
        through_relations = graph.relation_t @ entity
        chunk = params.restart * chunk_seed + keep * arrived
        entity = params.restart * entity_seed + keep * (
            (1 - params.relation_share) * through_chunks + params.relation_share * through_relations
        )
    scores: Mass = np.where(chunk > 0, np.log(chunk + FLOOR), -np.inf)
    if similarities is not None and len(similarities):
        spread = float(similarities.std())
        if spread > 0:
            scores = scores + params.dense_share * (similarities - similarities.mean()) / spread
    return scores


def seeds(
    graph: GraphIndex, entities: Sequence[str], similarities: npt.NDArray[np.float32] | None, params: Walk
) -> tuple[Mass, Mass]:
    """Restart masses (chunks, entities), summing to 1 together; both all zero when there is no seed at all."""
    entity = np.zeros(len(graph.entities))
    for name in entities:
        if name in graph.number:
            entity[graph.number[name]] = graph.idf[graph.number[name]]
    if entity.sum() > 0:
        entity /= entity.sum()
    chunk = np.zeros(graph.n_chunks)
    if similarities is not None and len(similarities) and params.dense_mass > 0:
        top = np.argsort(-similarities, kind="stable")[:SEED_CHUNKS]
        weight = np.exp((similarities[top] - similarities[top[0]]).astype(np.float64) / SEED_TEMPERATURE)
        chunk[top] = params.dense_mass * weight / weight.sum()
    total = chunk.sum() + entity.sum()
    return (chunk / total, entity / total) if total > 0 else (chunk, entity)


def _question_aware(mass: Mass, similarities: npt.NDArray[np.float32], temperature: float) -> Mass:
    before = mass.sum()
    tilted: Mass = mass * np.exp((similarities.astype(np.float64) - float(similarities.max())) / temperature)
    after = tilted.sum()
    return tilted * (before / after) if after > 0 else mass
