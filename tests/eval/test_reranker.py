"""What the cross-encoder is tuned on, how examples are drawn, what is kept, how it is measured."""

from __future__ import annotations

import json
import random
import sys
import unicodedata
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from eval.adapter import RESERVED, fold_of, reserved
from eval.questions import SENTENCE_QUESTIONS, SETS_DIR, load_questions, sentence_questions, tune_questions
from eval.reranker import (
    ANSWERS,
    HARD,
    LIKELIEST,
    MEASURED,
    Example,
    Trainer,
    apart,
    measure,
    packed_changes,
    teaching,
)
from rag.errors import SettingsError
from rag.reranker import unpacked


def example(answers: str, fit: str, *, answerable: bool = True) -> Example:
    """One letter a candidate: ``x`` answers, and may be read."""
    return Example(
        "물음",
        answerable,
        tuple(("제목", f"문장 {n}") for n in range(len(answers))),
        tuple(letter == "x" for letter in answers),
        tuple(letter == "x" for letter in fit),
    )


def test_drawn_are_answering_ones_and_the_likeliest_others() -> None:
    one = example("x.x.....x.x..................", "xxxxxxxxxxxxxxx.xxxxxxxxxxxxx")
    counted: Counter[int] = Counter()
    for seed in range(200):
        right, wrong = one.drawn(random.Random(seed))
        assert len(right) == ANSWERS
        assert all(one.answers[n] for n in right)
        assert len(wrong) == HARD + 1 == len(set(wrong))
        assert not any(one.answers[n] or not one.fit[n] for n in wrong)
        counted.update(wrong)
    likely = [n for n, fits in enumerate(one.fit) if fits and not one.answers[n]][:LIKELIEST]
    assert sum(counted[n] for n in likely) > 3 * sum(counted[n] for n in counted if n not in likely)
    assert 15 not in counted


def test_few_candidates_are_all_drawn() -> None:
    right, wrong = example("x..", "xxx").drawn(random.Random(0))
    assert (right, sorted(wrong)) == ([0], [1, 2])
    right, wrong = example("...", "xxx", answerable=False).drawn(random.Random(0))
    assert (right, sorted(wrong)) == ([], [0, 1, 2])


def test_a_question_whose_answer_was_not_found_teaches_nothing() -> None:
    found, lost = example("x.", "xx"), example("..", "xx")
    none, empty = example("..", "xx", answerable=False), example("", "", answerable=False)
    kept = teaching([found, lost, none, empty])
    assert [one.answers for one in kept] == [found.answers, none.answers]
    assert [one.answerable for one in kept] == [True, False]


def test_sentences_that_never_answer_are_not_learned_by_heart() -> None:
    first, second = example("x..", "xxx"), example(".x.", "xxx")
    none, other = example("...", "xxx", answerable=False), example("..", "xx", answerable=False)
    other = replace(other, sentences=(("제목", "딴 문장"), ("제목", "또 딴 문장")))
    # sentences 0 and 1 answer some question, sentence 2 none
    assert [one.fit for one in teaching([first, second, none, other])] == [(True, True, False)] * 3


def test_what_answers_a_reserved_question_is_not_taught() -> None:
    held = example("x..", "xxx")
    same, other, beside = example("x.x", "xxx"), example(".x.", "xxx"), example("...", "xxx", answerable=False)
    assert apart([same, other, beside], [held]) == [other, beside]
    assert apart([same, other], []) == [same, other]


def test_sentence_questions_are_questions_of_their_own() -> None:
    rows = list(sentence_questions())
    assert len(rows) > 9000
    assert len({id_ for id_, _, _ in rows}) == len(rows) == len({text for _, text, _ in rows})
    assert 0.15 < np.mean([not answers for _, _, answers in rows]) < 0.25
    tested = {unicodedata.normalize("NFC", q.question).strip() for q in load_questions(SETS_DIR / "farm.jsonl")}
    assert not tested & {text for _, text, _ in rows}
    assert all(
        list(json.loads(line)) == ["id", "question", "answers"]
        for line in SENTENCE_QUESTIONS.read_text("utf-8").splitlines()
    )


def test_a_fold_is_left_for_what_is_fitted_on_the_logits() -> None:
    questions = tune_questions()
    kept = reserved(questions)
    assert {fold_of(question.id) for question in kept} == {RESERVED}
    assert 0.15 < len(kept) / len(questions) < 0.25


def test_matrices_are_kept_in_blocks_of_their_rows() -> None:
    matrix = np.random.default_rng(0).normal(size=(64, 96)).astype(np.float32)
    kept = packed_changes({"l4.fi.w": matrix, "l4.fi.b": np.ones(96, np.float32)})
    assert kept["l4.fi.w"].shape == (96 * 2, 18)
    assert np.corrcoef(unpacked(kept["l4.fi.w"], 64).T.ravel(), matrix.ravel())[0, 1] > 0.99
    assert kept["l4.fi.b"].dtype == np.float16


class Told:
    """A cross-encoder that was told the logits of sentences."""

    def __init__(self, logits: dict[str, float]) -> None:
        self._logits = logits

    def logits(self, question: str, sentences: tuple[tuple[str, str], ...]) -> np.ndarray:
        return np.array([self._logits.get(text, -1.0) for _, text in sentences])


def test_figures_by_hand() -> None:
    asked = [
        example("x...", "xxxx"),  # likeliest first: answered without, too
        example(".x..", "xxxx"),
        example("..x.", "xxxx"),
        example("....", "xxxx"),  # not found: no matter for first_1
        example("....", "xxxx", answerable=False),
        example("", ""),
        example("." * MEASURED + "x", "x" * (MEASURED + 1)),
    ]
    told = measure(Told({"문장 1": 2.0, "문장 2": 1.0}), asked)  # type: ignore[arg-type]
    assert told == {
        "n_questions": 6,
        "first_1": pytest.approx(1 / 3, abs=1e-4),
        "first_1_without": pytest.approx(1 / 3, abs=1e-4),
        "auroc": 0.5,
    }


def test_without_pytorch_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SettingsError, match="pip install torch"):
        Trainer()
