"""The fast evaluation gives what ``rag.fusion`` and ``ir_measures`` give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics import per_question
from eval.runs import Run
from eval.space import Ranker, Setting, Space, ndcg_of, ranking, walks, weight_grid
from rag.fusion import fuse
from rag.schema import CHANNELS, ChannelResult, Hit, Walk, Weights

IDS = tuple(f"s/p{i:02d}" for i in range(25))


def run_of(rows: list[int]) -> Run:
    padded = np.full((1, 20), -1, np.int32)
    padded[0, : len(rows)] = rows
    return Run(padded, np.zeros((1, 20), np.float32))


def result_of(channel: str, rows: list[int]) -> ChannelResult:
    hits = tuple(Hit(chunk_id=IDS[r], scope_id="public", rank=i, score=0.0) for i, r in enumerate(rows, 1))
    return ChannelResult(channel=channel, status="ok" if hits else "empty", hits=hits)


lists = st.lists(st.integers(0, 24), max_size=20, unique=True)
golds = st.frozensets(st.integers(0, 24), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(rows=st.tuples(lists, lists, lists), gold=golds, number=st.integers(0, 230), rrf_k=st.sampled_from([1, 10, 60]))
def test_fusion_of_cached_ranks_is_the_fusion_of_the_product(
    rows: tuple[list[int], ...], gold: frozenset[int], number: int, rrf_k: int
):
    weights = weight_grid()[number]
    candidates = Ranker(IDS, [gold]).candidates(0, [run_of(r) for r in rows], 20)
    mine = [IDS[row] for row in ranking(candidates, weights, rrf_k)]
    given_weights = Weights(dict(zip(CHANNELS, weights.tolist(), strict=True)))
    fused = fuse([result_of(c, r) for c, r in zip(CHANNELS, rows, strict=True)], given_weights, rrf_k)
    # equal up to the order of scores that differ in rounding only
    scores = {hit.chunk_id: round(hit.score, 12) for hit in fused}
    assert mine == sorted(scores, key=lambda name: (-scores[name], name))


@settings(max_examples=60, deadline=None)
@given(rows=st.tuples(lists, lists, lists), gold=golds, rrf_k=st.sampled_from([1, 60]))
def test_quality_of_all_settings_is_the_measured_quality(rows: tuple[list[int], ...], gold: frozenset[int], rrf_k: int):
    grid = weight_grid(0.25)
    candidates = Ranker(IDS, [gold]).candidates(0, [run_of(r) for r in rows], 20)
    fast = ndcg_of(candidates, grid, [rrf_k])[0]
    for weights, value in zip(grid, fast, strict=True):
        ranked = [[IDS[row] for row in ranking(candidates, weights, rrf_k)]]
        measured = per_question(["q"], [[IDS[g] for g in gold]], ranked)["ndcg@10"][0]
        assert value == pytest.approx(measured, abs=1e-6)


def test_depth_cuts_every_channel():
    runs = [run_of([0, 1, 2]), run_of([3, 4, 5]), run_of([])]
    assert Ranker(IDS, [frozenset({0})]).candidates(0, runs, 2).chunks.tolist() == [0, 1, 3, 4]


def test_ties_break_on_the_chunk_id_not_on_the_row():
    names = ("s/b", "s/a")
    candidates = Ranker(names, [frozenset({0})]).candidates(0, [run_of([0]), run_of([1])], 10)
    assert [names[row] for row in ranking(candidates, [0.5, 0.5], 60)] == ["s/a", "s/b"]
    assert ndcg_of(candidates, np.array([[0.5, 0.5]]), [60])[0, 0] == pytest.approx(1 / np.log2(3))


def test_the_grid_is_the_simplex_with_its_corners():
    grid = weight_grid()
    assert len(grid) == 231
    assert grid.sum(axis=1) == pytest.approx(np.ones(231))
    for corner in np.eye(3):
        assert (grid == corner).all(axis=1).any()


def test_every_number_names_its_own_setting():
    space = Space(weight_grid(0.5), rrf_k=(1, 60), depths=(20, 100), walks=walks()[:2])
    found = [space.setting(n) for n in range(len(space))]
    assert len(set(found)) == len(space) == 6 * 2 * 2 * 2
    assert found[0] == Setting((0.0, 0.0, 1.0), 1, 20, walks()[0])
    assert found[-1].walk == walks()[1]


def test_walks_differ_by_hops_and_parameters():
    assert len(set(walks())) == len(walks()) == 18
    assert {walk.max_hops for walk in walks()} == {1, 2, 3}
    assert all(isinstance(walk, Walk) for walk in walks())
