"""Which weights each named system uses, and what it does when its channels do not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.errors import SettingsError
from rag.profile_table import ProfileTable
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, ChannelResult, Guardrails, Hit, Status, Weights
from rag.weighting import FIXED_RRF_K, MODEL_FREE, SYSTEMS, alive_channels, explain_weights, rrf_k_for, weights_for

DEFAULT = ProfileTable.builtin().default
FALLBACK = DEFAULT.weights
PROFILE = replace(
    DEFAULT,
    weights=Weights({VECTOR: 0.2, BM25: 0.1, GRAPH: 0.7}),
    previous_weights=Weights({VECTOR: 0.3, BM25: 0.3, GRAPH: 0.4}),
    rrf_k=7,
)
STATUSES: tuple[Status, ...] = ("ok", "empty", "failed", "timeout", "skipped")


def result(channel: str, status: Status = "ok") -> ChannelResult:
    hits = (Hit(chunk_id="a", scope_id="public", rank=1, score=1.0),) if status == "ok" else ()
    return ChannelResult(channel=channel, status=status, hits=hits)


ALL_ALIVE = [result(channel) for channel in CHANNELS]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("adaptive", {VECTOR: 0.2, BM25: 0.1, GRAPH: 0.7}),
        ("uniform", {VECTOR: 1 / 3, BM25: 1 / 3, GRAPH: 1 / 3}),
        ("baseline", {VECTOR: 0.5, BM25: 0.5}),
        ("dense", {VECTOR: 1.0}),
        ("sparse", {BM25: 1.0}),
        ("graph", {GRAPH: 1.0}),
    ],
)
def test_weights_of_each_system(system: str, expected: dict[str, float]) -> None:
    steps = weights_for(system, PROFILE, ALL_ALIVE, FALLBACK)
    assert steps.raw.by_channel == expected
    assert steps.final.by_channel == pytest.approx(expected)
    assert explain_weights(system, PROFILE, ALL_ALIVE, steps) == ()


@pytest.mark.parametrize("system", SYSTEMS)
def test_rrf_k(system: str) -> None:
    assert rrf_k_for(system, PROFILE) == (7 if system in ("adaptive", "llm_weights") else 60)
    assert FIXED_RRF_K == 60


def test_labels() -> None:
    assert list(SYSTEMS.items()) == [
        ("adaptive", "적응"),
        ("uniform", "균등 1:1:1"),
        ("baseline", "기준(2채널)"),
        ("dense", "의미만"),
        ("sparse", "키워드만"),
        ("graph", "관계만"),
        ("llm_weights", "LLM 가중치"),
    ]
    assert MODEL_FREE == ("adaptive", "uniform", "baseline", "dense", "sparse", "graph")


def test_adaptive_moves_at_most_slew_from_the_last_release() -> None:
    held = replace(PROFILE, guardrails=Guardrails(slew=0.1))
    steps = weights_for("adaptive", held, ALL_ALIVE, FALLBACK)
    # graph .7 → .4 + .1; the .2 it loses is split equally, which also brings bm25 to its own .3 − .1.
    assert steps.bounded.by_channel == pytest.approx({VECTOR: 0.3, BM25: 0.2, GRAPH: 0.5})
    assert [note.what for note in explain_weights("adaptive", held, ALL_ALIVE, steps)] == [
        "가중치를 한계 안으로 옮겼습니다."
    ]


def test_another_reference_may_be_given() -> None:
    held = replace(PROFILE, guardrails=Guardrails(slew=0.1))
    steps = weights_for("adaptive", held, ALL_ALIVE, FALLBACK, reference=PROFILE.weights)
    assert steps.bounded == steps.raw
    assert explain_weights("adaptive", held, ALL_ALIVE, steps, reference=PROFILE.weights) == ()


@pytest.mark.parametrize("system", ["uniform", "baseline", "dense", "sparse", "graph"])
def test_fixed_systems_ignore_guardrails(system: str) -> None:
    narrow = replace(PROFILE, guardrails=Guardrails(maximum={VECTOR: 0.4, BM25: 0.4, GRAPH: 0.4}, slew=0.01))
    steps = weights_for(system, narrow, ALL_ALIVE, FALLBACK)
    assert steps.bounded == steps.raw


@pytest.mark.parametrize("status", STATUSES)
def test_only_an_ok_channel_is_alive(status: Status) -> None:
    assert alive_channels([result(VECTOR, status)]) == ({VECTOR} if status == "ok" else set())


def test_a_channel_is_alive_when_one_sub_question_was_answered() -> None:
    assert alive_channels([result(GRAPH, "empty"), result(GRAPH), result(BM25, "failed")]) == {GRAPH}


@pytest.mark.parametrize("status", STATUSES[1:])
@pytest.mark.parametrize(
    ("system", "final"),
    [
        ("adaptive", {VECTOR: 0.2 / 0.3, BM25: 0.1 / 0.3, GRAPH: 0.0}),
        ("uniform", {VECTOR: 0.5, BM25: 0.5, GRAPH: 0.0}),
        ("baseline", {VECTOR: 0.5, BM25: 0.5}),
        ("dense", {VECTOR: 1.0}),
        ("sparse", {BM25: 1.0}),
        ("graph", {GRAPH: 1.0}),
    ],
)
def test_dead_graph(system: str, final: dict[str, float], status: Status) -> None:
    results = [result(VECTOR), result(BM25), result(GRAPH, status)]
    assert weights_for(system, PROFILE, results, FALLBACK).final.by_channel == pytest.approx(final)


def test_adaptive_falls_back_but_a_single_channel_system_stays_itself() -> None:
    graph_only = replace(PROFILE, weights=Weights({GRAPH: 1.0}), previous_weights=Weights({GRAPH: 1.0}))
    results = [result(VECTOR), result(BM25), result(GRAPH, "failed")]
    adaptive = weights_for("adaptive", graph_only, results, FALLBACK).final
    assert adaptive.by_channel == pytest.approx({VECTOR: 0.4 / 0.75, BM25: 0.35 / 0.75, GRAPH: 0.0})
    steps = weights_for("graph", graph_only, results, FALLBACK)
    assert steps.final.by_channel == {GRAPH: 1.0}
    (note,) = explain_weights("graph", graph_only, results, steps)
    assert "관계 검색" in note.what


@pytest.mark.parametrize("system", SYSTEMS)
def test_nothing_alive_leaves_the_bounded_weights(system: str) -> None:
    nothing = [result(channel, "empty") for channel in CHANNELS]
    steps = weights_for(system, PROFILE, nothing, FALLBACK, picked=Weights.equal())
    assert steps.final == steps.bounded


PICKED = Weights({VECTOR: 0.9, BM25: 0.1, GRAPH: 0.0})


def test_weights_of_a_model_move_at_most_slew_from_the_profile_s_own() -> None:
    held = replace(PROFILE, guardrails=Guardrails(slew=0.1))
    steps = weights_for("llm_weights", held, ALL_ALIVE, FALLBACK, picked=PICKED)
    assert steps.raw == PICKED
    # around (.2, .1, .7), not around the last release (.3, .3, .4)
    assert steps.bounded.by_channel == pytest.approx({VECTOR: 0.3, BM25: 0.1, GRAPH: 0.6})
    (note,) = explain_weights("llm_weights", held, ALL_ALIVE, steps)
    assert note.data["box"][GRAPH] == pytest.approx((0.6, 0.8))


def test_weights_of_a_model_are_renormalised_over_the_living() -> None:
    results = [result(VECTOR), result(BM25), result(GRAPH, "failed")]
    picked = Weights({VECTOR: 0.25, BM25: 0.25, GRAPH: 0.5})
    steps = weights_for("llm_weights", PROFILE, results, FALLBACK, picked=picked)
    assert steps.final.by_channel == pytest.approx({VECTOR: 0.5, BM25: 0.5, GRAPH: 0.0})


def test_weights_of_a_model_must_be_given() -> None:
    with pytest.raises(ValueError, match="llm_weights"):
        weights_for("llm_weights", PROFILE, ALL_ALIVE, FALLBACK)


def test_unknown_system_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"'adaptve'.*'adaptive'"):
        weights_for("adaptve", PROFILE, ALL_ALIVE, FALLBACK)
    with pytest.raises(SettingsError, match="uniform"):
        rrf_k_for("unifrom", PROFILE)
