"""Metrics on examples that a person can check."""

from __future__ import annotations

import math

import pytest

from eval.metrics import per_question

IDS = ["q1", "q2", "q3"]
GOLD = [["a", "b"], ["a"], ["z"]]
RANKINGS = [["x", "a", "b"], ["a"], []]


def test_ndcg_is_gain_over_ideal_gain():
    value = per_question(IDS, GOLD, RANKINGS)["ndcg@10"][0]
    gain = 1 / math.log2(3) + 1 / math.log2(4)
    ideal = 1 / math.log2(2) + 1 / math.log2(3)
    assert value == pytest.approx(gain / ideal)


def test_reciprocal_rank_and_recall():
    values = per_question(IDS, GOLD, RANKINGS)
    assert values["mrr"].tolist() == [0.5, 1.0, 0.0]
    assert values["recall@2"].tolist() == [0.5, 1.0, 0.0]
    assert values["recall@5"].tolist() == [1.0, 1.0, 0.0]


def test_an_unanswered_question_counts_as_zero():
    for column in per_question(IDS, GOLD, RANKINGS).values():
        assert len(column) == 3
        assert column[2] == 0.0


def test_more_gold_than_ten_can_still_be_perfect():
    gold = [[f"g{i}" for i in range(12)]]
    assert per_question(["q"], gold, [gold[0][:10]])["ndcg@10"][0] == pytest.approx(1.0)


def test_the_order_given_is_the_order_measured():
    long = [f"d{i:03d}" for i in range(100)]
    values = per_question(["q"], [["d050"]], [long])
    assert values["mrr"][0] == pytest.approx(1 / 51)
