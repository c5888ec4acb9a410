"""Splits and folds keep questions of one gold passage together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.datasets import SetQuestion
from eval.splits import draw_tune, folds, groups_of, tune_mask


def question(number: int, gold: list[int], name: str = "s") -> SetQuestion:
    return SetQuestion(
        id=f"{name}/q{number}",
        set_name=name,
        text="?",
        gold=tuple(f"{name}/p{g}" for g in gold),
        type="전체",
        exact=True,
    )


sets = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=60).map(
    lambda rows: [question(i, gold) for i, gold in enumerate(rows)]
)


def test_linked_questions_are_one_group():
    asked = [question(0, [1, 2]), question(1, [3]), question(2, [2, 4]), question(3, [4])]
    assert groups_of(asked) == [[0, 2, 3], [1]]


@settings(max_examples=60)
@given(asked=sets, seed=st.integers(0, 5))
def test_no_gold_passage_is_on_both_sides(asked: list[SetQuestion], seed: int):
    drawn = set(draw_tune(asked, seed))
    tune = {g for q in asked if q.id in drawn for g in q.gold}
    test = {g for q in asked if q.id not in drawn for g in q.gold}
    assert not tune & test
    assert len(drawn) <= round(0.2 * len(asked))


@settings(max_examples=60)
@given(asked=sets, seed=st.integers(0, 5))
def test_no_gold_passage_is_in_two_folds(asked: list[SetQuestion], seed: int):
    fold = folds(asked, seed)
    home: dict[str, int] = {}
    for number, q in zip(fold, asked, strict=True):
        for gold in q.gold:
            assert home.setdefault(gold, int(number)) == number


def test_folds_of_single_questions_are_even():
    assert np.bincount(folds([question(i, [i]) for i in range(50)], 1)).tolist() == [10] * 5


def test_ids_are_written_down_once_and_then_read(tmp_path: Path):
    asked = [question(i, [i]) for i in range(10)]
    first = tune_mask(asked, 1, tmp_path)
    kept = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert sorted(kept["1"]) == sorted(q.id for q, tune in zip(asked, first, strict=True) if tune)
    kept["1"] = ["s/q7"]
    (tmp_path / "s.json").write_text(json.dumps(kept), encoding="utf-8")
    assert tune_mask(asked, 1, tmp_path).tolist() == [i == 7 for i in range(10)]


def test_a_mixed_index_uses_the_splits_of_its_sets(tmp_path: Path):
    one, two = [question(i, [i], "a") for i in range(10)], [question(i, [i], "b") for i in range(20)]
    alone = np.concatenate([tune_mask(one, 3, tmp_path), tune_mask(two, 3, tmp_path)])
    assert tune_mask([*one, *two], 3, tmp_path).tolist() == alone.tolist()
