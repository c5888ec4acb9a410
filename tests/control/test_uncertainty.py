"""U = α·H + β·(1 − O): entropies, coverage, and what a second look asks for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rag.uncertainty import (
    Doubt,
    UncertaintyModel,
    coverage,
    missing_words,
    more_effort,
    normalised_entropy,
    reformulated,
    similarity_entropy,
    token_entropy,
)


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ([0.25] * 4, 1.0),
        ([1.0, 0.0, 0.0], 0.0),
        ([0.5, 0.5, 0.0, 0.0], 0.5),
        ([1.0], 0.0),
        ([0.9, 0.1], -(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / math.log(2)),
    ],
)
def test_entropy_is_normalised_by_the_number_of_values(probabilities: list[float], expected: float) -> None:
    assert normalised_entropy(np.array(probabilities)) == pytest.approx(expected)


def test_token_entropy_is_that_of_the_softmax_and_does_not_overflow() -> None:
    logits = np.array([2.0, 1.0, 0.0], np.float32)
    p = np.exp(logits) / np.exp(logits).sum()
    assert token_entropy(logits) == pytest.approx(float(-(p * np.log(p)).sum() / math.log(3)), rel=1e-5)
    assert token_entropy(np.array([1e4, 0.0, -1e4], np.float32)) == pytest.approx(0.0)
    assert token_entropy(np.full(100, -3.0, np.float32)) == pytest.approx(1.0)


def test_one_sentence_that_stands_out_is_certain_and_equals_are_not() -> None:
    assert similarity_entropy([0.92, 0.80, 0.80, 0.80]) < 0.1
    assert similarity_entropy([0.85, 0.85, 0.85, 0.85]) == pytest.approx(1.0)
    assert similarity_entropy([0.9]) == similarity_entropy([]) == 0.0
    assert similarity_entropy([0.86, 0.84], 0.02) == pytest.approx(
        normalised_entropy(np.array([math.e, 1]) / (math.e + 1))
    )


def test_coverage_is_weighted() -> None:
    weights = {"딸기": 1.0, "야간": 3.0}
    assert coverage(weights, {"야간"}) == 0.75
    assert coverage(weights, {"딸기", "야간", "낮"}) == 1.0
    assert coverage({}, set()) == 1.0


def test_uncertainty_grows_with_entropy_and_falls_with_coverage() -> None:
    model = UncertaintyModel(alpha=0.3, beta=0.7, tau=0.5, auroc=0.8)
    assert model.value(0.5, 0.75) == pytest.approx(0.3 * 0.5 + 0.7 * 0.25)
    assert model.value(1.0, 0.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="sum to 1"):
        UncertaintyModel(alpha=0.5, beta=0.7, tau=0.5, auroc=0.8)
    with pytest.raises(ValueError, match="negative"):
        UncertaintyModel(alpha=-0.5, beta=1.5, tau=0.5, auroc=0.8)


def test_a_second_look_asks_for_what_is_missing_with_what_it_is_about() -> None:
    missing = missing_words({"딸기": 2.0, "야간": 5.0, "온도": 5.0}, {"딸기"})
    assert missing == ("야간", "온도")
    doubt = Doubt(entropy=0.5, coverage=0.2, missing=missing)
    assert reformulated(doubt, ("딸기", "야간")) == "딸기 야간 온도"


def test_effort_rises_by_one_and_stays_at_the_top() -> None:
    assert [more_effort(effort) for effort in ("low", "medium", "high")] == ["medium", "high", "high"]
