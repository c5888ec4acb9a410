"""Projection onto {Σ = 1} ∩ box, then dead channels: by hand, against a grid, and by its optimality condition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import ProfileError
from rag.guardrails import (
    apply_guardrails,
    box_around,
    check_feasible,
    drop_dead,
    explain,
    feasible_slew,
    project,
)
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, WEB, Guardrails, Weights

FALLBACK = Weights({VECTOR: 0.4, BM25: 0.35, GRAPH: 0.25})
EPS = 1e-9
unhurried = settings(deadline=None)  # a busy machine is not a failure


def w(vector: float, bm25: float, graph: float) -> Weights:
    return Weights({VECTOR: vector, BM25: bm25, GRAPH: graph})


def near(vector: float, bm25: float, graph: float) -> object:
    """Compares equal to a mapping with these weights."""
    return pytest.approx({VECTOR: vector, BM25: bm25, GRAPH: graph}, abs=1e-11)


def bounded(raw: Weights, rails: Guardrails, reference: Weights | None = None) -> Mapping[str, float]:
    return apply_guardrails(raw, reference or raw, rails, CHANNELS, FALLBACK).bounded.by_channel


# By hand


def test_weights_inside_the_box_stay_as_they_are() -> None:
    raw = w(0.5, 0.3, 0.2)
    assert bounded(raw, Guardrails(minimum={GRAPH: 0.1}, maximum={VECTOR: 0.6})) == raw.by_channel


def test_excess_over_a_maximum_is_split_equally_not_in_proportion() -> None:
    # .8 → .6 frees .2; the nearest point adds .1 to each. Clamping and renormalising would give .75/.1875/.0625.
    assert bounded(w(0.8, 0.15, 0.05), Guardrails(maximum={VECTOR: 0.6})) == near(0.6, 0.25, 0.15)


def test_a_minimum_is_paid_equally_until_a_channel_reaches_zero() -> None:
    # graph needs .3: .15 each would push bm25 below 0, so it gives .1 and vector .2.
    assert bounded(w(0.9, 0.1, 0.0), Guardrails(minimum={GRAPH: 0.3})) == near(0.7, 0.0, 0.3)


def test_slew_holds_the_step_from_the_reference() -> None:
    # lo/hi: vector [.2, .6], bm25 [.1, .5], graph [.1, .5]; raw graph .9 → .5, the others share +.4 within bounds.
    assert bounded(w(0.05, 0.05, 0.9), Guardrails(slew=0.2), reference=w(0.4, 0.3, 0.3)) == near(0.25, 0.25, 0.5)


def test_weight_zero_is_reachable() -> None:
    assert bounded(w(1.0, 0.0, 0.0), Guardrails()) == near(1, 0, 0)


def test_a_maximum_on_the_only_channel_hands_the_rest_to_the_standard_ones() -> None:
    assert bounded(Weights({VECTOR: 1.0}), Guardrails(maximum={VECTOR: 0.6})) == near(0.6, 0.2, 0.2)


def test_a_minimum_brings_in_a_channel_that_the_weights_do_not_name() -> None:
    final = bounded(w(0.5, 0.3, 0.2), Guardrails(minimum={WEB: 0.15}))
    assert final == pytest.approx({VECTOR: 0.45, BM25: 0.25, GRAPH: 0.15, WEB: 0.15}, abs=1e-11)


def test_slew_is_widened_just_enough_when_the_reference_breaks_the_maximum() -> None:
    # reference graph 1.0, maximum .5: graph must fall by .5, so slew .1 is widened to .5 and no further.
    rails, reference = Guardrails(maximum={GRAPH: 0.5}, slew=0.1), w(0.0, 0.0, 1.0)
    assert feasible_slew(reference, rails, CHANNELS) == pytest.approx(0.5, abs=1e-11)
    assert bounded(w(0.0, 0.0, 1.0), rails, reference) == near(0.25, 0.25, 0.5)


def test_slew_is_widened_when_the_rest_cannot_take_up_the_sum() -> None:
    # graph must fall from .7 to .5, and vector, the only one that may rise, from 0 to .2.
    rails, reference = Guardrails(maximum={GRAPH: 0.5, BM25: 0.3}, slew=0.1), w(0.0, 0.3, 0.7)
    assert feasible_slew(reference, rails, CHANNELS) == pytest.approx(0.2, abs=1e-11)
    # graph falls by .05 and bm25 by .1, so vector must rise by .15; a slew of .12 would do for the other two.
    rails = Guardrails(maximum={GRAPH: 0.65, BM25: 0.2}, slew=0.12)
    assert feasible_slew(reference, rails, CHANNELS) == pytest.approx(0.15, abs=1e-11)
    assert bounded(reference, rails, reference) == near(0.15, 0.2, 0.65)


def test_slew_is_widened_when_the_minima_need_more_than_the_rest_may_give() -> None:
    # minima of .2 on two channels at 0 leave vector .6: it must fall by .4.
    rails, reference = Guardrails(minimum={BM25: 0.2, GRAPH: 0.2}, slew=0.1), w(1.0, 0.0, 0.0)
    assert feasible_slew(reference, rails, CHANNELS) == pytest.approx(0.4, abs=1e-11)
    assert bounded(reference, rails, reference) == near(0.6, 0.2, 0.2)


def test_slew_is_not_widened_when_the_reference_is_inside() -> None:
    assert feasible_slew(w(0.4, 0.3, 0.3), Guardrails(slew=0.05), CHANNELS) == 0.05


def test_maxima_below_one_are_refused() -> None:
    rails = Guardrails(maximum=dict.fromkeys(CHANNELS, 0.3))
    with pytest.raises(ProfileError, match=r"0\.9000.*합이 1 이상"):
        check_feasible(rails)
    with pytest.raises(ProfileError, match=r"0\.9000"):
        apply_guardrails(FALLBACK, FALLBACK, rails, CHANNELS, FALLBACK)
    check_feasible(Guardrails(maximum={VECTOR: 0.3, BM25: 0.3, GRAPH: 0.4}))


# Dead channels


@pytest.mark.parametrize(
    ("raw", "alive", "final"),
    [
        pytest.param(w(0.5, 0.3, 0.2), {VECTOR, BM25, GRAPH}, near(0.5, 0.3, 0.2), id="all alive"),
        pytest.param(w(0.5, 0.3, 0.2), {VECTOR, BM25}, near(0.625, 0.375, 0), id="graph dead"),
        pytest.param(w(0.5, 0.3, 0.2), {BM25, GRAPH}, near(0, 0.6, 0.4), id="vector dead"),
        pytest.param(w(0.5, 0.3, 0.2), {GRAPH}, near(0, 0, 1), id="one alive"),
        pytest.param(w(0.0, 0.0, 1.0), {VECTOR, BM25}, near(0.4 / 0.75, 0.35 / 0.75, 0), id="fallback over alive"),
        pytest.param(w(0.5, 0.3, 0.2), set(), near(0.5, 0.3, 0.2), id="none alive: nothing to weigh"),
    ],
)
def test_dead_channels(raw: Weights, alive: set[str], final: object) -> None:
    steps = apply_guardrails(raw, raw, Guardrails(), alive, FALLBACK)
    assert steps.bounded.by_channel == raw.by_channel
    assert steps.final.by_channel == final


def test_equal_when_the_fallback_has_no_weight_alive_either() -> None:
    final = drop_dead(w(1.0, 0.0, 0.0), {BM25, GRAPH}, w(1.0, 0.0, 0.0))
    assert final.by_channel == near(0, 0.5, 0.5)


def test_a_web_channel_alone_alive_gets_everything() -> None:
    final = drop_dead(FALLBACK, {WEB}, FALLBACK)
    assert final.by_channel == {VECTOR: 0.0, BM25: 0.0, GRAPH: 0.0, WEB: 1.0}


def test_dead_channels_go_after_the_box_not_into_it() -> None:
    # bounded keeps the minimum of the dead channel; final passes the maximum of the living ones.
    rails = Guardrails(minimum={GRAPH: 0.2}, maximum={VECTOR: 0.5})
    steps = apply_guardrails(w(0.5, 0.3, 0.2), w(0.5, 0.3, 0.2), rails, {VECTOR}, FALLBACK)
    assert steps.bounded.by_channel == near(0.5, 0.3, 0.2)
    assert steps.final.by_channel == near(1, 0, 0)
    notes = explain(steps, w(0.5, 0.3, 0.2), rails, {VECTOR})
    assert [note.what for note in notes] == [
        "결과가 없는 검색의 가중치를 0으로 두었습니다: 키워드 검색, 관계 검색",
        "남은 검색이 최대 가중치를 넘었습니다.",
    ]
    assert notes[1].why == "의미 검색 1.00 (최대 0.50)"


# Explanations


def test_no_change_needs_no_note() -> None:
    steps = apply_guardrails(FALLBACK, FALLBACK, Guardrails(), CHANNELS, FALLBACK)
    assert explain(steps, FALLBACK, Guardrails(), CHANNELS) == ()


def test_moved_weights_and_a_widened_slew_are_named() -> None:
    rails, reference = Guardrails(maximum={GRAPH: 0.5}, slew=0.1), w(0.0, 0.0, 1.0)
    steps = apply_guardrails(reference, reference, rails, CHANNELS, FALLBACK)
    widened, moved = explain(steps, reference, rails, CHANNELS)
    assert widened.what == "변화 한계를 0.10에서 0.50(으)로 넓혔습니다."
    assert moved.why == "의미 검색 0.00 → 0.25, 키워드 검색 0.00 → 0.25, 관계 검색 1.00 → 0.50"


@pytest.mark.parametrize(
    ("alive", "why"),
    [({VECTOR}, "기본 가중치로"), (set(), "나눌 곳이 없습니다"), ({VECTOR, GRAPH}, None)],
)
def test_where_the_weight_of_a_dead_channel_went(alive: set[str], why: str | None) -> None:
    raw = w(0.0, 0.0, 1.0)
    notes = explain(apply_guardrails(raw, raw, Guardrails(), alive, FALLBACK), raw, Guardrails(), alive)
    assert [why in note.why for note in notes if why] == ([] if why is None else [True])


# Properties


@st.composite
def some_weights(draw: st.DrawFn) -> Weights:
    parts = draw(st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda p: sum(p) > 1e-3))
    total = math.fsum(parts)
    return w(*(part / total for part in parts))


@st.composite
def some_rails(draw: st.DrawFn) -> Guardrails:
    low = [draw(st.floats(0, 1 / 3)) for _ in CHANNELS]
    high = [draw(st.floats(bound, 1)) for bound in low]
    missing = max(0.0, 1 - math.fsum(high))
    high = [min(1.0, bound + missing) for bound in high]
    slew = draw(st.floats(0.01, 1))
    return Guardrails(
        minimum=dict(zip(CHANNELS, low, strict=True)), maximum=dict(zip(CHANNELS, high, strict=True)), slew=slew
    )


def distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return math.fsum((one[c] - other[c]) ** 2 for c in CHANNELS)


@unhurried
@given(some_weights(), some_weights(), some_rails())
def test_bounds_and_sum_hold(raw: Weights, reference: Weights, rails: Guardrails) -> None:
    steps = apply_guardrails(raw, reference, rails, CHANNELS, FALLBACK)
    slew = feasible_slew(reference, rails, CHANNELS)
    assert slew >= rails.slew
    assert math.fsum(steps.bounded.by_channel.values()) == pytest.approx(1, abs=1e-8)
    for channel in CHANNELS:
        assert rails.minimum[channel] <= steps.bounded[channel] <= rails.maximum[channel]
        assert abs(steps.bounded[channel] - reference[channel]) <= slew + EPS
    assert steps.final.by_channel == pytest.approx(steps.bounded.by_channel, abs=1e-8)


@unhurried
@given(some_weights(), some_weights(), some_rails())
def test_no_shift_between_two_channels_comes_closer(raw: Weights, reference: Weights, rails: Guardrails) -> None:
    # The exact condition for the nearest point: wherever i can give and j can take, raw_i − p_i ≥ raw_j − p_j.
    box = box_around(reference, rails, CHANNELS, feasible_slew(reference, rails, CHANNELS))
    p = project(raw, box)
    for i, j in itertools.permutations(CHANNELS, 2):
        if p[i] > box[i][0] + EPS and p[j] < box[j][1] - EPS:
            assert raw[i] - p[i] >= raw[j] - p[j] - EPS


@unhurried
@given(some_weights(), some_weights(), some_rails())
def test_no_grid_point_of_the_box_is_closer(raw: Weights, reference: Weights, rails: Guardrails) -> None:
    box = box_around(reference, rails, CHANNELS, feasible_slew(reference, rails, CHANNELS))
    best = distance(project(raw, box).by_channel, raw.by_channel)
    for a, b in itertools.product(range(21), repeat=2):
        point = {VECTOR: a / 20, BM25: b / 20, GRAPH: 1 - a / 20 - b / 20}
        if all(low <= point[c] <= high for c, (low, high) in box.items()):
            assert best <= distance(point, raw.by_channel) + 1e-7


@unhurried
@given(some_weights(), some_weights(), some_rails())
def test_widened_slew_is_the_smallest(raw: Weights, reference: Weights, rails: Guardrails) -> None:
    slew = feasible_slew(reference, rails, CHANNELS)
    if slew == rails.slew:
        return
    box = box_around(reference, rails, CHANNELS, slew - 1e-6)
    lows, highs = zip(*box.values(), strict=True)
    assert any(low > high for low, high in box.values()) or math.fsum(lows) > 1 or math.fsum(highs) < 1


@unhurried
@given(some_weights(), some_weights(), some_rails())
def test_applying_the_box_twice_changes_nothing(raw: Weights, reference: Weights, rails: Guardrails) -> None:
    once = bounded(raw, rails, reference)
    assert bounded(Weights(once), rails, reference) == pytest.approx(once, abs=1e-8)


@unhurried
@given(some_weights(), some_weights(), some_rails(), st.sets(st.sampled_from(CHANNELS)))
def test_same_arguments_same_bytes(raw: Weights, reference: Weights, rails: Guardrails, alive: set[str]) -> None:
    backwards = Weights(dict(reversed(list(raw.by_channel.items()))))
    first = apply_guardrails(raw, reference, rails, alive, FALLBACK)
    second = apply_guardrails(backwards, reference, rails, sorted(alive, reverse=True), FALLBACK)
    assert list(first.final.by_channel.items()) == list(second.final.by_channel.items())
    assert list(first.bounded.by_channel.items()) == list(second.bounded.by_channel.items())


@unhurried
@given(some_weights(), some_weights(), st.sets(st.sampled_from(CHANNELS), min_size=1))
def test_only_the_living_have_weight_and_their_ratios_stay(
    weights: Weights, fallback: Weights, alive: set[str]
) -> None:
    final = drop_dead(weights, alive, fallback)
    assert all(final[channel] == 0 for channel in CHANNELS if channel not in alive)
    if sum(weights[channel] for channel in alive) > 1e-6:
        for i, j in itertools.combinations(alive, 2):
            assert final[i] * weights[j] == pytest.approx(final[j] * weights[i], abs=1e-9)
