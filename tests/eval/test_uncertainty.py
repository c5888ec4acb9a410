"""Fitting U on answers that are known to be right or wrong, and the verdict on the loop."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from eval.questions import Question
from eval.uncertainty import Case, auroc, effect, fit, parts

QUESTION = Question(
    id="q", question="딸기 EC는?", farm=None, kind="사실", crop="딸기", answerable=True, fact_ids=(), expect=(),
    near_miss=None, note="", asked_at=datetime(2026, 12, 1, tzinfo=UTC),
)  # fmt: skip


def case(entropy: float, coverage: float, *, wrong: bool, seconds: float = 1.0, looks: int = 0) -> Case:
    return Case(
        question=QUESTION,
        entropy=entropy,
        coverage=coverage,
        wrong=wrong,
        unsupported=0.0,
        seconds=seconds,
        looks=looks,
    )


def test_auroc_counts_ordered_pairs_and_halves_ties() -> None:
    assert auroc(np.array([0.9, 0.1, 0.5]), np.array([True, False, False])) == 1.0
    assert auroc(np.array([0.1, 0.9]), np.array([True, False])) == 0.0
    assert auroc(np.array([0.5, 0.5, 0.1]), np.array([True, False, False])) == pytest.approx(0.75)
    assert auroc(np.array([0.5]), np.array([True])) == 0.5


def test_the_part_that_tells_wrong_from_right_gets_the_weight() -> None:
    """Coverage tells, entropy is noise; then the other way round."""
    rng = np.random.default_rng(7)
    noise, wrong = rng.random(200), rng.random(200) < 0.3
    by_coverage = [case(n, 0.3 if w else 0.9, wrong=bool(w)) for n, w in zip(noise, wrong)]
    model = fit(by_coverage)
    assert model.auroc == 1.0
    assert model.beta > 0.5
    by_entropy = [case(0.9 if w else 0.3, n, wrong=bool(w)) for n, w in zip(noise, wrong)]
    assert fit(by_entropy).alpha > 0.5
    assert parts(by_coverage)["uncovered"] == 1.0
    assert parts(by_entropy)["entropy"] == 1.0


def test_tau_leaves_at_most_the_share_above_it() -> None:
    cases = [case(0.0, number / 100, wrong=number < 10) for number in range(100)]
    model = fit(cases, share=0.2)
    above = [c for c in cases if model.value(c.entropy, c.coverage) >= model.tau]
    assert 15 <= len(above) <= 20
    assert all(c.wrong for c in cases if c.coverage < 0.1 and c in above)


def test_the_loop_is_worth_it_only_where_it_mends_enough_at_little_cost() -> None:
    without = [case(0, 0, wrong=number < 10) for number in range(20)]
    better = [replace(c, wrong=number < 7, seconds=1.2, looks=1) for number, c in enumerate(without)]
    found = effect(without, better)
    assert found["wrong"] == {"without": 0.5, "with": 0.35}
    assert found["relative_gain"] == pytest.approx(0.3)
    assert (found["mended"], found["spoiled"], found["mean_time_ratio"]) == (3, 0, 1.2)
    assert found["worth_it"]
    assert not effect(without, [replace(c, seconds=1.4) for c in better])["worth_it"]
    assert not effect(without, [replace(c, wrong=number < 9) for number, c in enumerate(better)])["worth_it"]
