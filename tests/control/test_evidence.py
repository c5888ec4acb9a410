"""Evidence-aware control: signals worked out by hand, the gate, and what it may not do."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import ProfileError
from rag.evidence import SIGNALS, Arm, EvidenceModel, signals
from rag.profile_table import ProfileTable, parse
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, ChannelResult, Hit, PlannedQuery, Weights
from rag.weighting import ADAPTIVE, weights_for

PROFILE = replace(
    ProfileTable.builtin().default,
    weights=Weights({VECTOR: 0.4, BM25: 0.4, GRAPH: 0.2}),
    previous_weights=Weights({VECTOR: 0.4, BM25: 0.4, GRAPH: 0.2}),
)
QUERY = PlannedQuery(text="질문", vector=None, tokens=("가", "나"), entities=("토마토",))


def result(channel: str, *scores: float, status: str = "ok", first: int = 0) -> ChannelResult:
    """A result whose chunks are named by number, from ``first``."""
    hits = tuple(
        Hit(chunk_id=f"c{first + i}", scope_id="public", rank=i + 1, score=score) for i, score in enumerate(scores)
    )
    return ChannelResult(channel=channel, status=status if not hits else "ok", hits=hits)  # type: ignore[arg-type]


def model(signal: str, coefficient: float, bias: float = 0.0) -> EvidenceModel:
    """Moves to BM25 alone when ``bias + coefficient · x(signal)`` is above zero."""
    return EvidenceModel(
        scale={signal: (0.0, 1.0)},
        arms=(
            Arm(id="profile", weights=None, rrf_k=None, bias=0.0, coefficients={}),
            Arm(id="키워드", weights=Weights({BM25: 1.0}), rrf_k=5, bias=bias, coefficients={signal: coefficient}),
        ),
    )


def test_signals_of_three_lists_by_hand() -> None:
    found = signals(
        {
            VECTOR: (["a", "b", "c"], [0.9, 0.85, 0.8]),
            BM25: (["a", "d"], [8.0, 2.0]),
            GRAPH: (["b", "a"], [-1.0, -3.0]),
        },
        n_entities=9,
        n_words=4,
    )
    assert found == pytest.approx(
        {
            "dense_top": 0.9,
            "dense_gap_2": 0.05,
            "dense_gap_10": 0.1,
            "dense_gap_20": 0.1,
            "sparse_top": 2.0,
            "sparse_gap_2": 0.75,
            "sparse_gap_10": 0.75,
            "sparse_gap_20": 0.75,
            "graph_gap_2": 2.0,
            "graph_gap_10": 2.0,
            "graph_gap_20": 2.0,
            "overlap_dense_sparse": 0.1,
            "overlap_dense_graph": 0.2,
            "overlap_sparse_graph": 0.1,
            "first_dense_sparse": 1.0,
            "first_dense_graph": 0.0,
            "first_sparse_graph": 0.0,
            "entities": 6.0,
            "words": 4.0,
        }
    )


def test_nothing_found_gives_zeros_not_errors() -> None:
    found = signals({}, 0, 0)
    assert tuple(found) == tuple(SIGNALS)
    assert set(found.values()) == {0.0}


def test_a_signal_moves_the_weights_and_says_so() -> None:
    results = [result(VECTOR, 0.9, 0.8), result(BM25, 5.0, 1.0), result(GRAPH, -1.0)]
    move = model("sparse_gap_2", 2.0, bias=-1.0).move(PROFILE, results, QUERY)
    assert move.profile.weights == Weights({BM25: 1.0})
    assert move.profile.rrf_k == 5
    assert move.decision.data["moved_by"] == {"sparse_gap_2": 1.6}
    assert "키워드 검색 1·2위 차이 0.8" in move.decision.why
    kept = model("sparse_gap_2", 2.0, bias=-1.7).move(PROFILE, results, QUERY)
    assert kept.profile is PROFILE
    assert kept.decision.what == "프로필 그대로"


def test_parts_of_a_question_are_not_looked_at() -> None:
    whole = [result(VECTOR, 0.9), result(BM25, 5.0, 5.0), result(GRAPH, -1.0)]
    part = [result(VECTOR, 0.9), result(BM25, 5.0, 0.0), result(GRAPH, -1.0)]
    gate = model("sparse_gap_2", 1.0, bias=-0.5)
    assert gate.move(PROFILE, [*whole, *part], QUERY).profile is PROFILE
    assert gate.move(PROFILE, [*part, *whole], QUERY).profile is not PROFILE


@pytest.mark.parametrize("status", ["failed", "timeout", "skipped"])
def test_a_broken_channel_leaves_the_row_as_it_is(status: str) -> None:
    results = [result(VECTOR, 0.9), result(BM25, 5.0), result(GRAPH, status=status)]
    move = model("sparse_top", 100.0).move(PROFILE, results, QUERY)
    assert move.profile is PROFILE
    assert "답하지 않은" in move.decision.why


def test_an_empty_channel_is_a_signal_like_any_other() -> None:
    results = [result(VECTOR, 0.9), result(BM25, status="empty"), result(GRAPH, -1.0)]
    assert model("dense_top", 1.0).move(PROFILE, results, QUERY).profile.weights == Weights({BM25: 1.0})


def test_guardrails_bound_what_the_gate_chooses() -> None:
    rails = replace(PROFILE.guardrails, slew=0.1)
    results = [result(VECTOR, 0.9), result(BM25, 5.0), result(GRAPH, -1.0)]
    moved = model("dense_top", 1.0).move(replace(PROFILE, guardrails=rails), results, QUERY).profile
    steps = weights_for(ADAPTIVE, moved, results, PROFILE.weights)
    assert steps.raw[BM25] == 1.0
    assert steps.final[BM25] == pytest.approx(0.5)


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=len(SIGNALS), max_size=len(SIGNALS)))
def test_the_choice_is_an_arm_and_its_parts_add_up(values: list[float]) -> None:
    gate = EvidenceModel(
        scale={name: (0.1, 2.0) for name in SIGNALS},
        arms=(
            Arm(id="profile", weights=None, rrf_k=None, bias=0.2, coefficients=dict.fromkeys(SIGNALS, 0.1)),
            Arm(
                id="a",
                weights=Weights.equal(),
                rrf_k=1,
                bias=0.1,
                coefficients={name: (-1) ** i * 0.3 for i, name in enumerate(SIGNALS)},
            ),
        ),
    )
    arm, parts = gate.choose(dict(zip(SIGNALS, values, strict=True)))
    x = [max(-3.0, min(3.0, (value - 0.1) / 2.0)) for value in values]
    lead = 0.1 - 0.2 + sum(((-1) ** i * 0.3 - 0.1) * value for i, value in enumerate(x))
    if abs(lead) > 1e-6:
        assert arm == int(lead > 0)
    if arm == 1:
        assert 0.1 - 0.2 + sum(parts.values()) == pytest.approx(lead, abs=1e-9)


def document(**evidence: Any) -> dict[str, Any]:
    """A profile document with an evidence model."""
    arms = [
        {"id": "profile", "bias": 0.0, "coefficients": {}},
        {"id": "a", "weights": {BM25: 1.0}, "rrf_k": 5, "bias": 0.0, "coefficients": {"dense_top": 1.0}},
    ]
    found = {"scale": {"dense_top": [0.8, 0.1]}, "arms": arms, "quality": {"tuned_on": "farm", "n_queries": 50}}
    return {"version": "1", "default": {}, "evidence_model": found | evidence}


def test_the_profile_file_holds_the_model() -> None:
    table = parse(document())
    found = table.evidence(date(2026, 12, 1))
    assert found is not None
    assert found.choose({"dense_top": 0.9}) == (1, {"dense_top": pytest.approx(1.0)})
    few = parse(document(quality={"tuned_on": "farm", "n_queries": 5}))
    assert few.evidence(date(2026, 12, 1)) is None
    old = parse(document(quality={"tuned_on": "farm", "n_queries": 50, "valid_until": "2026-11-30"}))
    assert old.evidence(date(2026, 11, 30)) is not None
    assert old.evidence(date(2026, 12, 1)) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scale": {"dense_tpo": [0, 1]}}, "dense_tpo"),
        ({"scale": {"dense_top": [0, 0]}}, "표준편차"),
        ({"scale": {}}, "dense_top"),
        ({"arms": []}, "둘 이상"),
        ({"arms": [{"id": "a", "bias": 0, "coefficients": {}}] * 2}, "둘 이상"),
        ({"arms": {}}, "목록"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_faulty_model_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ProfileError, match=named):
        parse(document(**changes))


def test_every_channel_has_a_signal() -> None:
    assert len(CHANNELS) == 3
    assert {name.split("_")[0] for name in SIGNALS} == {
        "dense",
        "sparse",
        "graph",
        "overlap",
        "first",
        "entities",
        "words",
    }
