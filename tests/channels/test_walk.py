"""The bounded walk against figures worked out by hand on three chunks and two entities.

Chunk 0 names A, chunk 1 names A and B, chunk 2 names B, once each: all mention weights are ln 2 and both idf are ln 2, so
A and B hand half of their mass to each of their chunks, chunk 0 all of its mass to A, chunk 1 half to A and half to B.
"""

from __future__ import annotations

import numpy as np
import pytest

from rag.channels.walk import FLOOR, seeds, walk_scores
from rag.schema import Walk
from rag.stores.graph_index import GraphIndex

MENTIONS = [(0, "A", "병", 1, False), (1, "A", "병", 1, False), (1, "B", "해충", 1, False), (2, "B", "해충", 1, False)]
PLAIN = Walk(max_hops=1, restart=0.3, dense_mass=0.0, dense_share=0.0, temperature=None, relation_share=0.5)


def graph(relations: tuple[tuple[int, str, str, str, float], ...] = ()) -> GraphIndex:
    return GraphIndex(3, MENTIONS, relations)


def walk(hops: int, **changes: object) -> Walk:
    values = {name: getattr(PLAIN, name) for name in PLAIN.__slots__} | {"max_hops": hops} | changes
    return Walk(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hops", "mass"),
    [(1, [0.35, 0.35, 0.0]), (2, [0.105, 0.105, 0.0]), (3, [0.233625, 0.2765, 0.042875])],
)
def test_each_step_by_hand(hops: int, mass: list[float]) -> None:
    scores = walk_scores(graph(), ("A",), None, walk(hops))
    expected = [np.log(m + FLOOR) if m else -np.inf for m in mass]
    assert scores == pytest.approx(expected)


def test_a_relation_carries_its_share_of_the_entity_mass() -> None:
    scores = walk_scores(graph(((1, "A", "매개", "B", 0.9),)), ("A",), None, walk(2))
    assert np.exp(scores) - FLOOR == pytest.approx([0.105, 0.2275, 0.1225])


def test_seeds_share_one_unit_of_mass() -> None:
    similarities = np.array([0.9, 0.8, 0.7], np.float32)
    chunk, entity = seeds(graph(), ("A", "B"), similarities, walk(1, dense_mass=0.5))
    assert chunk.sum() + entity.sum() == pytest.approx(1)
    assert chunk.sum() == pytest.approx(0.5 / 1.5)
    assert entity == pytest.approx([1 / 3, 1 / 3])
    assert chunk[0] / chunk[1] == pytest.approx(np.exp(0.1 / 0.02), rel=1e-4)


def test_near_chunks_are_begun_from_anew_at_each_step() -> None:
    similarities = np.array([0.9, 0.8, 0.7], np.float32)
    begun, _ = seeds(graph(), (), similarities, walk(1, dense_mass=0.5))
    assert begun.sum() == pytest.approx(1)
    once = np.exp(walk_scores(graph(), (), similarities, walk(1, dense_mass=0.5))) - FLOOR
    assert once == pytest.approx(0.3 * begun, abs=1e-8)
    twice = np.exp(walk_scores(graph(), (), similarities, walk(2, dense_mass=0.5))) - FLOOR
    assert twice.sum() == pytest.approx(0.3 + 0.7 * 0.7)  # what the chunks handed on comes back on them


def test_no_seed_reaches_nothing() -> None:
    assert np.all(np.isneginf(walk_scores(graph(), ("C",), None, walk(3))))


def test_the_question_aware_step_tilts_but_keeps_the_mass() -> None:
    similarities = np.array([0.9, 0.8, 0.8], np.float32)
    scores = walk_scores(graph(), ("A",), similarities, walk(1, temperature=0.1))
    mass = np.exp(scores) - FLOOR
    assert mass.sum() == pytest.approx(0.7)
    assert mass[0] / mass[1] == pytest.approx(np.e, rel=1e-4)


def test_the_dense_share_adds_the_z_score() -> None:
    similarities = np.array([0.9, 0.8, 0.7], np.float32)
    plain = walk_scores(graph(), ("A", "B"), similarities, walk(1))
    shared = walk_scores(graph(), ("A", "B"), similarities, walk(1, dense_share=0.5))
    z = (similarities - similarities.mean()) / similarities.std()
    assert shared - plain == pytest.approx(0.5 * z, abs=1e-6)
