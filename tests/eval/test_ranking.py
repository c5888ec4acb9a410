"""Fitting the sentence weights on made candidates, and how they are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pytest
from scipy.special import logsumexp

from eval.adapter import FOLDS
from eval.ranking import DEPTHS, PENALTY, SIGNS, Array, Candidates, covered, cross_validated, fit, scaled, states_of
from rag.answering.calibration import SentenceWeights
from rag.answering.sentences import FEATURES, Scored
from rag.citations import Candidate
from rag.schema import ChunkRecord, SentenceRecord

SIGN = np.array([SIGNS[name] for name in FEATURES])
# What answers in the made questions; nothing hangs on ``role``, and ``names`` counts against its sign.
TRUTH = SIGN * np.array([3.0, 2.0, 1.5, 1.0, 2.5, 1.0, 0.0, -1.5, 3.0, 1.5, 2.0, 1.0])
UNUSED, AGAINST = FEATURES.index("role"), FEATURES.index("names")


def made(n_questions: int, seed: int) -> list[Candidates]:
    """Questions of 12 candidates, one of which is drawn with p ~ e^(features · TRUTH) to answer."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2.0, len(FEATURES)) / np.sqrt(2)
    found = []
    for n in range(n_questions):
        features = rng.normal(size=(12, len(FEATURES))) * spread
        states = np.zeros((12, 1), bool)
        states[int(np.argmax(features @ TRUTH + rng.gumbel(size=12)))] = True
        found.append(Candidates(f"q{n}", features, states))
    return found


@pytest.fixture(scope="module")
def questions() -> list[Candidates]:
    return made(400, seed=1)


@pytest.fixture(scope="module")
def weights(questions: list[Candidates]) -> Array:
    return fit(questions)


def test_every_weight_has_a_sign() -> None:
    assert set(SIGNS) == {field.name for field in fields(SentenceWeights)}
    assert set(SIGNS.values()) == {-1, 1}
    assert {name for name, sign in SIGNS.items() if sign < 0} == {"no_figure", "missing", "house"}


def test_a_fit_finds_the_weights_that_made_the_answers(weights: Array) -> None:
    used = [n for n in range(len(FEATURES)) if n not in (UNUSED, AGAINST)]
    assert np.sign(weights[used]).tolist() == SIGN[used].tolist()
    assert np.abs(weights[used] / TRUTH[used] - 1).max() < 0.5
    assert abs(weights[UNUSED]) < 0.3


def test_a_feature_that_counts_against_its_meaning_is_left_out(weights: Array) -> None:
    assert weights[AGAINST] == 0
    assert (weights * SIGN >= 0).all()


def test_fitted_weights_beat_equal_ones_on_unseen_questions(weights: Array) -> None:
    unseen = made(200, seed=1000)
    for depth in (1, 3):
        fitted, equal = (np.mean([covered(one, w, depth) for one in unseen]) for w in (weights, SIGN.astype(float)))
        assert fitted > equal + 0.03


def loss(asked: Sequence[Candidates], weights: Array, penalty: float) -> float:
    """The listwise loss as the module's head says it."""
    spread = np.concatenate([one.features for one in asked]).std(axis=0)
    total = penalty * float(((weights * spread) ** 2).sum()) / 2
    for one in asked:
        scores = one.features @ weights
        total += float(logsumexp(scores) - logsumexp(scores[one.states.any(axis=1)]))
    return total


@pytest.mark.parametrize("penalty", [PENALTY, 50.0])
def test_no_other_weights_within_the_bounds_lose_less(questions: list[Candidates], penalty: float) -> None:
    few = questions[:60]
    found = fit(few, penalty)
    best = loss(few, found, penalty)
    for n in range(len(FEATURES)):
        for step in (-0.05, 0.05):
            other = found.copy()
            other[n] += step
            if other[n] * SIGN[n] >= 0:
                assert loss(few, other, penalty) > best - 1e-3
    if penalty > PENALTY:
        assert np.abs(found).sum() < np.abs(fit(few)).sum()


def test_a_scale_and_one_weight_are_found(questions: list[Candidates]) -> None:
    plain = TRUTH / 2
    plain[-1] = 0
    found = scaled(questions, plain)
    assert found[:-1] == pytest.approx(TRUTH[:-1], rel=0.15)
    assert found[-1] == pytest.approx(TRUTH[-1], rel=0.3)
    against = [Candidates(one.question_id, one.features * np.append(np.ones(11), -1), one.states) for one in questions]
    assert scaled(against, plain)[-1] == 0


def test_questions_whose_answer_was_not_found_teach_nothing(questions: list[Candidates]) -> None:
    some = questions[:50]
    lost = [Candidates(f"x{n}", one.features * 9, np.zeros((12, 1), bool)) for n, one in enumerate(questions[50:60])]
    none = Candidates("none", np.empty((0, len(FEATURES))), np.empty((0, 1), bool))
    assert fit([*some[:20], *lost, none, *some[20:]]).tolist() == fit(some).tolist()


def candidates(similarities: Sequence[float], states: Sequence[Sequence[int]]) -> Candidates:
    features = np.zeros((len(similarities), len(FEATURES)))
    features[:, 0] = similarities
    return Candidates("q", features, np.array(states, bool))


def test_covered_by_hand() -> None:
    nearest = np.eye(len(FEATURES))[0]
    one = candidates([0.1, 0.9, 0.5, 0.7], [[1, 0], [0, 0], [0, 1], [1, 0]])
    # in order: nothing, the first fact, the second, the first again
    assert [covered(one, nearest, depth) for depth in (1, 2, 3, 4, 9)] == [False, False, True, True, True]
    assert [covered(one, -nearest, depth) for depth in (1, 2)] == [False, True]
    assert one.answers.tolist() == [True, False, True, True]
    ties = candidates([0.5, 0.5], [[1], [0]])
    assert covered(ties, nearest, 1)  # the earlier of equal ones
    assert not covered(candidates([], np.empty((0, 2)).tolist()), nearest, 3)


def test_held_out_figures_are_of_weights_that_have_not_seen_the_question(
    questions: list[Candidates],
) -> None:
    some = [*questions[:60], candidates([0.2, 0.1], [[0], [0]])]
    fitted: list[set[str]] = []
    nearest = np.eye(len(FEATURES))[0]

    def watched(asked: Sequence[Candidates]) -> Array:
        fitted.append({one.question_id for one in asked})
        return nearest

    report = cross_validated(some, watched)
    everything = {one.question_id for one in some}
    left_out = [everything - ids for ids in fitted]
    assert len(fitted) == FOLDS
    assert sorted(id_ for ids in left_out for id_ in ids) == sorted(everything)
    assert all(5 < len(ids) < 20 for ids in left_out)
    assert report["n_questions"] == 61
    for depth in DEPTHS:
        assert report[f"first_{depth}"] == round(float(np.mean([covered(one, nearest, depth) for one in some])), 4)
    assert report["reach"] == round(60 / 61, 4)


@pytest.mark.parametrize(
    ("doc_id", "fact", "record", "states"),
    [
        ("a", ("33%", "33퍼센트"), False, True),
        ("b", ("33%",), False, False),  # no gold document
        ("a", ("3%",), False, False),
        ("a", ("2026-03-12",), False, False),
        ("a", ("2026-03-12",), True, True),  # a record is told under its day
        ("a", ("작업일지",), True, True),
        ("a", ("재니",), True, False),  # what is not said of it
    ],
)
def test_which_fact_a_candidate_states(doc_id: str, fact: tuple[str, ...], record: bool, states: bool) -> None:
    chunk = ChunkRecord(
        chunk_id="c", doc_id=doc_id, scope_id="farm:haetsal", title="작업일지", section="", locator="", kind="", crop="",
        date="2026-03-12", author="", text="2동 배액률을 재니 33%였다.", level="G2", ordinal=0,
    )  # fmt: skip
    sentence = SentenceRecord(chunk_id="c", start=0, end=len(chunk.text), tokens=(), row=0)
    scored = Scored(Candidate(chunk, sentence, np.zeros(2, np.float32)), 0.5, "2동 배액률: 33%", ())
    assert states_of(scored, {"a"}, fact, record) is states
