"""S(d) = Σ_r w_c / (rrf_k + rank): the formula on three chunks, then order, ties and repeats."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import ProfileError, ScopeViolation
from rag.fusion import fuse
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, WEB, ChannelResult, ChunkRecord, Evidence, Hit, Weights


def result(channel: str, *chunk_ids: str, scope_id: str = "public") -> ChannelResult:
    hits = tuple(
        Hit(chunk_id=chunk_id, scope_id=scope_id, rank=rank, score=100.0 - rank)
        for rank, chunk_id in enumerate(chunk_ids, start=1)
    )
    return ChannelResult(channel=channel, status="ok" if hits else "empty", hits=hits)


unhurried = settings(deadline=None)  # a busy machine is not a failure

WEIGHTS = Weights({VECTOR: 0.5, BM25: 0.3, GRAPH: 0.2})
THREE = [result(VECTOR, "a", "b", "c"), result(BM25, "b", "a"), result(GRAPH, "c")]


def test_score_is_the_formula() -> None:
    scores = {hit.chunk_id: hit.score for hit in fuse(THREE, WEIGHTS, 10)}
    assert scores == {
        "a": pytest.approx(0.5 / (10 + 1) + 0.3 / (10 + 2), abs=1e-15),
        "b": pytest.approx(0.5 / (10 + 2) + 0.3 / (10 + 1), abs=1e-15),
        "c": pytest.approx(0.5 / (10 + 3) + 0.2 / (10 + 1), abs=1e-15),
    }


def test_best_comes_first() -> None:
    assert [hit.chunk_id for hit in fuse(THREE, WEIGHTS, 10)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("rrf_k", "first"),
    [
        pytest.param(1, "top", id="1: .6/2 = .300 beats .2/3 + .2/3 = .133"),
        pytest.param(1000, "both", id="1000: .6/1001 + .2/1002 + .2/1002 = .000999 beats .6/1001 = .000599"),
    ],
)
def test_rrf_k_trades_the_top_for_the_number_of_votes(rrf_k: int, first: str) -> None:
    results = [result(VECTOR, "top", "x", "x2", "both"), result(BM25, "y", "both"), result(GRAPH, "z", "both")]
    fused = fuse(results, Weights({VECTOR: 0.6, BM25: 0.2, GRAPH: 0.2}), rrf_k)
    assert fused[0].chunk_id == first


def test_absent_channel_adds_nothing() -> None:
    (only,) = fuse([result(GRAPH, "a")], WEIGHTS, 60)
    assert only.score == 0.2 / 61
    assert [(vote.channel, vote.rank, vote.weight, vote.share) for vote in only.votes] == [(GRAPH, 1, 0.2, 1.0)]


def test_channel_of_weight_zero_casts_no_vote_and_its_own_finds_are_dropped() -> None:
    fused = fuse([result(VECTOR, "a"), result(BM25, "only-bm25", "a")], Weights({VECTOR: 1.0, BM25: 0.0}), 10)
    assert [hit.chunk_id for hit in fused] == ["a"]
    assert [vote.channel for vote in fused[0].votes] == [VECTOR]


def test_sub_questions_vote_one_by_one() -> None:
    (hit,) = fuse([result(BM25, "a"), result(BM25, "a")], Weights({BM25: 1.0}), 10)
    assert hit.score == 2 / 11
    assert [vote.value for vote in hit.votes] == [1 / 11, 1 / 11]


def test_repeat_within_one_result_counts_once_at_its_best_rank() -> None:
    fused = fuse([result(BM25, "a", "b", "a")], Weights({BM25: 1.0}), 10)
    assert {hit.chunk_id: hit.score for hit in fused} == {"a": 1 / 11, "b": 1 / 12}


def test_ties_break_on_chunk_id() -> None:
    results = [result(VECTOR, "나", "가"), result(BM25, "가", "나")]
    fused = fuse(results, Weights({VECTOR: 0.5, BM25: 0.5}), 10)
    assert fused[0].score == fused[1].score
    assert [hit.chunk_id for hit in fused] == ["가", "나"]


def test_votes_come_in_channel_order_with_other_channels_last() -> None:
    weights = Weights({WEB: 0.1, GRAPH: 0.2, BM25: 0.3, VECTOR: 0.4})
    (hit,) = fuse([result(channel, "a") for channel in (WEB, GRAPH, VECTOR, BM25)], weights, 10)
    assert [vote.channel for vote in hit.votes] == [VECTOR, BM25, GRAPH, WEB]


@pytest.mark.parametrize(("limit", "length"), [(None, 3), (0, 0), (2, 2), (9, 3)])
def test_limit(limit: int | None, length: int) -> None:
    assert fuse(THREE, WEIGHTS, 10, limit=limit) == fuse(THREE, WEIGHTS, 10)[:length]


def test_nothing_found_is_an_empty_list() -> None:
    assert fuse([], WEIGHTS, 10) == []
    assert fuse([result(VECTOR), ChannelResult(channel=BM25, status="timeout")], WEIGHTS, 10) == []


def test_bad_arguments() -> None:
    with pytest.raises(ProfileError, match="rrf_k = 0"):
        fuse(THREE, WEIGHTS, 0)
    with pytest.raises(ValueError, match="limit = -1"):
        fuse(THREE, WEIGHTS, 10, limit=-1)


def test_one_chunk_under_two_scopes_stops_the_answer() -> None:
    with pytest.raises(ScopeViolation, match="farm:haetsal"):
        fuse([result(VECTOR, "a"), result(BM25, "a", scope_id="farm:haetsal")], WEIGHTS, 10)


rankings = st.lists(st.sampled_from("abcdefgh"), unique=True)
some_results = st.lists(st.builds(lambda c, ids: result(c, *ids), st.sampled_from(CHANNELS), rankings), max_size=6)
some_weights = (
    st.tuples(*[st.integers(0, 10)] * 3)
    .filter(any)
    .map(lambda parts: Weights({c: part / sum(parts) for c, part in zip(CHANNELS, parts, strict=True)}))
)
some_rrf_k = st.integers(1, 100)


@unhurried
@given(some_results, some_weights, some_rrf_k)
def test_agrees_with_the_sum_written_out(results: list[ChannelResult], weights: Weights, rrf_k: int) -> None:
    expected = {
        chunk_id: sum(
            weights[r.channel] / (rrf_k + hit.rank) for r in results for hit in r.hits if hit.chunk_id == chunk_id
        )
        for chunk_id in "abcdefgh"
    }
    fused = {hit.chunk_id: hit.score for hit in fuse(results, weights, rrf_k)}
    assert fused == pytest.approx({chunk_id: score for chunk_id, score in expected.items() if score > 0}, rel=1e-12)


@unhurried
@given(st.data(), some_results, some_weights, some_rrf_k)
def test_order_of_results_does_not_matter(
    data: st.DataObject, results: list[ChannelResult], weights: Weights, rrf_k: int
) -> None:
    assert fuse(data.draw(st.permutations(results)), weights, rrf_k) == fuse(results, weights, rrf_k)


@unhurried
@given(some_results, some_weights, some_rrf_k)
def test_every_score_is_explained_by_its_votes(results: list[ChannelResult], weights: Weights, rrf_k: int) -> None:
    fused = fuse(results, weights, rrf_k)
    assert fused == sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))
    for hit in fused:
        assert hit.score == math.fsum(vote.value for vote in hit.votes)
        assert math.fsum(vote.share for vote in hit.votes) == pytest.approx(1, abs=1e-12)
        assert all(vote.value == vote.weight / (rrf_k + vote.rank) > 0 for vote in hit.votes)
        assert all(vote.share == pytest.approx(vote.value / hit.score) for vote in hit.votes)
        chunk = ChunkRecord(chunk_id=hit.chunk_id, scope_id=hit.scope_id, doc_id="d", title="", section="",
                            locator="", text="", level="G2", ordinal=0)  # fmt: skip
        Evidence(chunk=chunk, score=hit.score, votes=hit.votes)


@unhurried
@given(st.permutations("abcd"), st.permutations("abcd"), some_rrf_k)
def test_rising_in_one_list_raises_the_score(one: list[str], other: list[str], rrf_k: int) -> None:
    weights = Weights({VECTOR: 0.5, BM25: 0.5})
    risen = [one[-1], *one[:-1]]
    before, after = (
        {hit.chunk_id: hit.score for hit in fuse([result(VECTOR, *ids), result(BM25, *other)], weights, rrf_k)}
        for ids in (one, risen)
    )
    assert after[one[-1]] > before[one[-1]]
    assert all(after[chunk_id] < before[chunk_id] for chunk_id in one[:-1])


@unhurried
@given(some_results, some_weights, some_rrf_k)
def test_raw_hits_are_untouched(results: list[ChannelResult], weights: Weights, rrf_k: int) -> None:
    copies = [replace(r, hits=tuple(replace(hit) for hit in r.hits)) for r in results]
    fuse(results, weights, rrf_k)
    assert results == copies
