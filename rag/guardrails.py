"""Guardrails: bound the weights once, then hand the weight of dead channels to the living.

    bounded = argmin ‖p − raw‖²   subject to   Σ_c p_c = 1,   lo_c ≤ p_c ≤ hi_c
    lo_c = max(min_c, ref_c − slew),   hi_c = min(max_c, ref_c + slew)

The minimiser is p_c = clip(raw_c − τ, lo_c, hi_c) with τ the root of Σ_c clip(raw_c − τ, lo_c, hi_c) = 1, the
continuous quadratic knapsack (Brucker, "An O(n) algorithm for quadratic knapsack problems", 1984). The sum is
piecewise linear in τ, so sorting its 2n corners gives τ exactly. Clamping and renormalising is not this: it leaves
the box in about half of random cases.

Weights are shares in [0, 1]; ``slew`` in (0, 1]. Where the reference lies outside min/max, the slew box may miss
the simplex: the slew is then widened to the smallest step that reaches it, and min/max always hold in ``bounded``.
In ``final`` a channel may pass its maximum (or slew), because the living share what the dead gave up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from rag.errors import ProfileError
from rag.schema import CHANNEL_LABELS, CHANNELS, Decision, Guardrails, Weights, WeightSteps

Box = Mapping[str, tuple[float, float]]

_ROUNDING = 1e-9  # a difference or mass below this is none
_SUM_ROUNDING = 1e-12  # of a handful of shares added up
_NO_LIMIT = 2.0  # wider than any step between two weights, rounding included


def apply_guardrails(
    raw: Weights, reference: Weights, rails: Guardrails, alive: Collection[str], fallback: Weights
) -> WeightSteps:
    """raw → bounded (projection onto {Σ = 1} ∩ box, once) → final (dead channels 0, the rest renormalised).

    The channels weighed are the three standard ones and whatever ``raw``, ``reference`` or a minimum names.

    Raises:
        ProfileError: the maxima of ``rails`` sum to less than 1.
    """
    channels = _in_order({*CHANNELS, *raw.by_channel, *reference.by_channel, *rails.minimum})
    check_feasible(rails, channels)
    box = box_around(reference, rails, channels, feasible_slew(reference, rails, channels))
    bounded = project(raw, box)
    return WeightSteps(raw=raw, bounded=bounded, final=drop_dead(bounded, alive, fallback))


def check_feasible(rails: Guardrails, channels: Iterable[str] = CHANNELS) -> None:
    """Σ_c max_c ≥ 1 (Σ_c min_c ≤ 1 and min ≤ max are checked by ``Guardrails`` itself).

    Raises:
        ProfileError: no weights over ``channels`` fit under the maxima.
    """
    total = math.fsum(rails.maximum.get(channel, 1.0) for channel in {*channels})
    if total < 1 - _ROUNDING:
        raise ProfileError(
            f"guardrails 최대값의 합이 {total:.4f}이라 합이 1인 가중치를 만들 수 없습니다. "
            f"최대값을 올려 합이 1 이상이 되게 해 주세요: {dict(rails.maximum)}"
        )


def box_around(reference: Weights, rails: Guardrails, channels: Iterable[str], slew: float) -> Box:
    """[max(min_c, ref_c − slew), min(max_c, ref_c + slew)] for each channel."""
    return {
        channel: (
            max(rails.minimum.get(channel, 0.0), reference[channel] - slew),
            min(rails.maximum.get(channel, 1.0), reference[channel] + slew),
        )
        for channel in channels
    }


def feasible_slew(reference: Weights, rails: Guardrails, channels: Collection[str]) -> float:
    """Smallest step ≥ ``rails.slew`` whose box meets {Σ = 1}; ``rails.slew`` itself unless the reference is outside.

    A wider step only grows the box, so the smallest one is found by bisection (60 halvings, below 1e-17).
    """
    narrow, wide = rails.slew, _NO_LIMIT
    if _meets_simplex(box_around(reference, rails, channels, narrow)):
        return narrow
    for _ in range(60):
        middle = (narrow + wide) / 2
        if _meets_simplex(box_around(reference, rails, channels, middle)):
            wide = middle
        else:
            narrow = middle
    return wide


def _meets_simplex(box: Box) -> bool:
    lowest = math.fsum(low for low, _ in box.values())
    highest = math.fsum(high for _, high in box.values())
    ordered = all(low <= high for low, high in box.values())
    return ordered and lowest <= 1 + _SUM_ROUNDING and highest >= 1 - _SUM_ROUNDING


def project(raw: Weights, box: Box) -> Weights:
    """clip(raw_c − τ, lo_c, hi_c) with Σ = 1: the nearest weights in ``box``; those already inside come back as is.

    ``box`` must meet {Σ = 1} (see ``feasible_slew``).
    """
    inside = all(low <= raw[channel] <= high for channel, (low, high) in box.items())
    covered = math.fsum(raw[channel] for channel in box)
    shift = 0.0 if inside and abs(covered - 1) <= _SUM_ROUNDING else _shift(raw, box)
    return Weights({channel: min(max(raw[channel] - shift, low), high) for channel, (low, high) in box.items()})


def _shift(raw: Weights, box: Box) -> float:
    """τ with Σ_c clip(raw_c − τ, lo_c, hi_c) = 1. The sum falls from Σ hi to Σ lo, straight between corners."""

    def total(shift: float) -> float:
        return math.fsum(min(max(raw[channel] - shift, low), high) for channel, (low, high) in box.items())

    corners = sorted({raw[channel] - bound for channel, bounds in box.items() for bound in bounds})
    at = max((i for i, corner in enumerate(corners) if total(corner) >= 1), default=0)
    left, right = corners[at], corners[min(at + 1, len(corners) - 1)]
    above, below = total(left), total(right)
    return left if above <= below else left + (above - 1) * (right - left) / (above - below)


def drop_dead(bounded: Weights, alive: Collection[str], fallback: Weights) -> Weights:
    """w_c / Σ_alive w over the living channels, 0 elsewhere.

    When no living channel has weight: ``fallback`` over the living; when that has none either: equal over the
    living; when nothing lives: ``bounded`` unchanged, for there is nothing to weigh.
    """
    if not alive:
        return bounded
    living = _in_order(alive)
    for source in (bounded, fallback, Weights.equal(living)):
        mass = _mass(source, living)
        if mass > _ROUNDING:
            break
    shares = {channel: source[channel] / mass for channel in living}
    return Weights({channel: shares.get(channel, 0.0) for channel in _in_order({*bounded.by_channel, *living})})


def explain(steps: WeightSteps, reference: Weights, rails: Guardrails, alive: Collection[str]) -> tuple[Decision, ...]:
    """What the guardrails changed in ``steps``, in Korean; empty when they changed nothing."""
    return (*_explain_bounds(steps, reference, rails), *_explain_alive(steps, rails, alive))


def _explain_bounds(steps: WeightSteps, reference: Weights, rails: Guardrails) -> Iterable[Decision]:
    channels = tuple(steps.bounded.by_channel)
    slew = feasible_slew(reference, rails, channels)
    if slew > rails.slew:
        yield Decision(
            stage="guardrails",
            what=f"변화 한계를 {rails.slew:.2f}에서 {slew:.2f}(으)로 넓혔습니다.",
            why="기준 가중치가 최소·최대 범위 밖이라 원래 한계로는 합이 1이 되지 않습니다. 최소·최대는 지켰습니다.",
            data={"slew": rails.slew, "widened": slew},
        )
    moved = [c for c in channels if abs(steps.raw[c] - steps.bounded[c]) > _ROUNDING]
    if moved:
        yield Decision(
            stage="guardrails",
            what="가중치를 한계 안으로 옮겼습니다.",
            why=", ".join(f"{_label(c)} {steps.raw[c]:.2f} → {steps.bounded[c]:.2f}" for c in moved),
            data={"box": dict(box_around(reference, rails, channels, slew))},
        )


def _explain_alive(steps: WeightSteps, rails: Guardrails, alive: Collection[str]) -> Iterable[Decision]:
    dead = [c for c, weight in steps.bounded.by_channel.items() if weight > 0 and c not in alive]
    if not dead:
        return
    if not alive:
        yield Decision(
            stage="guardrails",
            what=f"결과를 낸 검색이 없습니다: {', '.join(map(_label, dead))}",
            why=_why_final(steps, alive),
            data={"dead": dead},
        )
        return
    yield Decision(
        stage="guardrails",
        what=f"결과가 없는 검색의 가중치를 0으로 두었습니다: {', '.join(map(_label, dead))}",
        why=_why_final(steps, alive),
        data={"dead": dead},
    )
    over = [c for c in steps.final.by_channel if alive and steps.final[c] > rails.maximum.get(c, 1.0) + _ROUNDING]
    if over:
        yield Decision(
            stage="guardrails",
            what="남은 검색이 최대 가중치를 넘었습니다.",
            why=", ".join(f"{_label(c)} {steps.final[c]:.2f} (최대 {rails.maximum[c]:.2f})" for c in over),
            data={"over": over},
        )


def _why_final(steps: WeightSteps, alive: Collection[str]) -> str:
    if not alive:
        return "결과를 낸 검색이 없어 가중치를 나눌 곳이 없습니다."
    if _mass(steps.bounded, alive) <= _ROUNDING:
        return "가중치가 있던 검색이 모두 결과를 내지 못해 기본 가중치로(그것도 없으면 똑같이) 나눴습니다."
    return "결과를 낸 검색끼리 가중치의 합이 1이 되도록 나눴습니다."


def _mass(weights: Weights, channels: Iterable[str]) -> float:
    return math.fsum(weights[channel] for channel in channels)


def _label(channel: str) -> str:
    return CHANNEL_LABELS.get(channel, channel)


def _in_order(channels: Collection[str]) -> tuple[str, ...]:
    """The standard channels in their order, then the others by name."""
    return (*(c for c in CHANNELS if c in channels), *sorted({*channels} - {*CHANNELS}))
