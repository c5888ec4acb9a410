"""Fitting the query adapter: its gradient, what it learns, and how it is measured, on made vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm, fractional_matrix_power
from scipy.special import logsumexp

import eval.adapter
from eval.adapter import (
    FOLDS,
    MOST_ANSWERS,
    PASSAGE,
    Adam,
    Fitting,
    Pair,
    Sentences,
    _gradient,
    asked_held_out,
    cross_validated,
    fit,
    fitting_questions,
    fold_adapters,
    fold_of,
    further_pairs,
    held_out_adapters,
    measure,
    pairs_of,
    sentences_of,
)
from eval.questions import Question
from rag.embedding import FloatMatrix, QueryAdapter, unit_rows
from rag.schema import Scope
from rag.settings import load_settings
from tests.contract.conftest import open_views, take_in
from tests.fakes import FakeEmbedder, FakeEncoder, unit_vectors

DIM = 16


def question(id_: str = "X1", **changes: object) -> Question:
    plain = Question(
        id=id_, question="딸기 EC?", farm=None, asked_at=datetime(2026, 12, 1, tzinfo=UTC), kind="양액", crop="딸기",
        answerable=True, fact_ids=(), event_ids=(), expect=(("1.2",),), near_miss=None, note="", registration=(),
        law=(), gold=(("a",),), split="tune",
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rotated() -> tuple[list[Pair], FloatMatrix]:
    """Questions are their answers, turned by a hidden rotation and moved along a common mean, with noise."""
    rng = np.random.default_rng(7)
    vectors = unit_vectors(240, DIM, seed=1)
    skew = rng.normal(size=(DIM, DIM))
    turn = expm(0.4 * (skew - skew.T) / 2)
    common = unit_vectors(1, DIM, seed=2)[0]
    queries = unit_rows(vectors @ turn.T + 0.5 * common + rng.normal(scale=0.05, size=vectors.shape))
    return [Pair(f"q{n}", query, ((n,),)) for n, query in enumerate(queries)], vectors


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer steps: few questions make few of them."""
    monkeypatch.setattr(eval.adapter, "RATE", 0.03)
    monkeypatch.setattr(eval.adapter, "BATCH", 32)


# --- fitting ----------------------------------------------------------------------------------------------


def test_a_fitted_adapter_beats_the_plain_order_on_questions_it_has_not_seen(
    rotated: tuple[list[Pair], FloatMatrix], quick: None
) -> None:
    pairs, vectors = rotated
    seen, unseen = pairs[:160], pairs[160:]
    adapter = fit(seen, vectors)
    plain = measure(unseen, [pair.query for pair in unseen], vectors)
    adapted = measure(unseen, [adapter(pair.query) for pair in unseen], vectors)
    whitened_only = fit(seen, vectors, epochs=0)
    unlearnt = measure(unseen, [whitened_only(pair.query) for pair in unseen], vectors)
    assert adapted["mrr"] > plain["mrr"] + 0.15
    assert adapted["mrr"] > unlearnt["mrr"] + 0.1
    assert adapted["first_1"] > plain["first_1"]


def test_the_same_seed_gives_the_same_bytes(
    rotated: tuple[list[Pair], FloatMatrix], quick: None, tmp_path: Path
) -> None:
    pairs, vectors = rotated
    one, two, other = (fit(pairs[:64], vectors, seed=seed, epochs=2) for seed in (1, 1, 2))
    assert one.save(tmp_path / "1", "m").read_bytes() == two.save(tmp_path / "2", "m").read_bytes()
    assert not np.array_equal(one.matrix, other.matrix)


def test_without_learning_it_whitens_softly(rotated: tuple[list[Pair], FloatMatrix]) -> None:
    pairs, vectors = rotated
    stretched = unit_rows(vectors * np.linspace(0.5, 3, DIM))
    adapter = fit(pairs, stretched, epochs=0)
    covariance = np.cov(stretched.astype(np.float64).T, bias=True)
    assert adapter.matrix == pytest.approx(fractional_matrix_power(covariance, -0.25), abs=1e-3)
    assert adapter.mean == pytest.approx(np.mean([pair.query for pair in pairs], axis=0), abs=1e-6)


def test_the_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(12, 5))
    query, moved, temperature = rng.normal(size=5), 0.3 * rng.normal(size=(5, 5)), 0.7
    answers, others = [2, 4], np.array([0, 1, 5, 9])

    def loss(matrix: np.ndarray) -> float:
        scores = vectors @ (query + matrix @ query) / temperature
        return float(logsumexp(scores[[2, 4, 0, 1, 5, 9]]) - logsumexp(scores[answers]))

    found = _gradient(query, answers, others, moved, vectors, temperature)  # type: ignore[arg-type]
    step = 1e-6
    for i in range(5):
        for j in range(5):
            nudge = np.zeros((5, 5))
            nudge[i, j] = step
            assert found[i, j] == pytest.approx((loss(moved + nudge) - loss(moved - nudge)) / (2 * step), abs=1e-6)


def test_no_sentence_that_answers_is_learnt_to_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[set[int]] = []

    def spied(query: Any, answers: Any, others: Any, moved: Any, *rest: Any) -> Any:
        pushed.append(set(others.tolist()))
        return np.zeros_like(moved)

    monkeypatch.setattr(eval.adapter, "_gradient", spied)
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng.normal(size=(200, 8)))
    right = tuple(range(30))  # more than are learnt from
    fit([Pair("Q", vectors[3], (right,)), Pair("R", vectors[150], ((150,),))], vectors, epochs=1)
    assert len(pushed) == 2
    assert any(found.isdisjoint(right) and len(found) > 10 for found in pushed)
    assert all(found.isdisjoint(right) or 150 not in found for found in pushed)


def test_adam_by_hand() -> None:
    step = Adam((1, 2))
    first = step(np.array([[2.0, -0.5]], np.float32))
    assert first.tolist() == [pytest.approx([eval.adapter.RATE, -eval.adapter.RATE], rel=1e-4)]
    second = step(np.array([[0.0, -0.5]], np.float32))
    # means (0.9·0.1·2)/(1 − 0.81) and (0.999·0.001·4)/(1 − 0.998001)
    mean, square = 0.18 / 0.19, 0.003996 / 0.001999
    assert second[0] == pytest.approx([eval.adapter.RATE * mean / square**0.5, -eval.adapter.RATE], rel=1e-3)


def test_at_most_so_many_answers() -> None:
    pair = Pair("q", np.zeros(2, np.float32), ((5, 1), (1, 3)))
    assert pair.answers == [1, 3, 5]
    many = Pair("q", np.zeros(2, np.float32), (tuple(range(40)),))
    assert many.answers == list(range(MOST_ANSWERS))


# --- pairs ------------------------------------------------------------------------------------------------


def test_a_pair_states_every_fact() -> None:
    sentences = Sentences(
        texts=("EC는 1.2로 둔다.", "배액률은 30%이다.", "EC는 1.2이다.", "EC는 11.2이다.", "배액률은 30%로 한다."),
        of={"a": [0, 1], "b": [2, 3], "c": [4]},
        vectors=unit_vectors(5, DIM),
    )
    both = question(expect=(("1.2",), ("30%", "30퍼센트")), gold=(("b", "a"),))
    asked = [
        both,
        replace(both, id="X2", gold=(("b",),)),  # the second fact stands in no gold document
        replace(both, id="X3", expect=(("1.2",),), gold=(("b",), ("c",))),
        replace(both, id="X4", expect=(("1.2",),), gold=(("d",),)),
        replace(both, id="X5", answerable=False, expect=(), gold=()),
    ]
    queries = unit_vectors(len(asked), DIM, seed=1)
    pairs = pairs_of(asked, sentences, queries)
    assert [(pair.id, pair.facts) for pair in pairs] == [("X1", ((0, 2), (1,))), ("X3", ((2,),))]
    assert pairs[1].query.tolist() == queries[2].tolist()


def test_sentences_stand_for_themselves_and_their_passage(tmp_path: Path) -> None:
    files = {"가.md": "# 딸기 양액\n\n딸기 EC는 1.2로 둔다. 배액률을 잰다.\n", "나.md": "# 환기\n\n천창을 연다.\n"}
    take_in(tmp_path / "store", "public", files, tmp_path / "sources")
    view = open_views(tmp_path / "store").get(Scope())
    found = sentences_of(view)
    assert sorted(found.texts) == sorted(["딸기 EC는 1.2로 둔다.", "배액률을 잰다.", "천창을 연다."])
    assert {d: [found.texts[row] for row in rows] for d, rows in found.of.items()} == {
        "public/가.md": ["딸기 EC는 1.2로 둔다.", "배액률을 잰다."],
        "public/나.md": ["천창을 연다."],
    }
    level = view.levels["G2"]
    for chunk_id in level.chunk_ids:
        rows = found.of[view.document_of(chunk_id).doc_id]
        plain = FakeEmbedder().encode_passages([found.texts[row] for row in rows])
        total = plain + PASSAGE * level.vector(level.row_of[chunk_id])
        assert found.vectors[rows] == pytest.approx(total / np.linalg.norm(total, axis=1, keepdims=True), abs=1e-3)


def test_only_answerable_questions_on_public_documents_take_part() -> None:
    found = fitting_questions()
    assert len(found) > 1000
    assert all(q.answerable and q.farm is None and q.kind != "농약등록" and q.split == "tune" for q in found)


# --- measuring --------------------------------------------------------------------------------------------


def test_measure_by_hand() -> None:
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0]], np.float32)
    east, north = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    pairs = [Pair("a", east, ((0,), (2, 3))), Pair("b", north, ((3, 1),))]
    # ranks: row 0 of east first; the better of rows 2 and 3 third; of north rows 2, 1, then 0 and 3 alike: second
    report = measure(pairs, [east, north], vectors)
    assert report == {
        "mrr": pytest.approx((1 + 1 / 3 + 1 / 2) / 3, abs=1e-4),
        "first_1": pytest.approx(1 / 3, abs=1e-4),
        "first_3": 1.0,
        "first_6": 1.0,
    }
    assert measure(pairs, [north, north], vectors)["mrr"] == pytest.approx((1 / 3 + 1 + 1 / 2) / 3, abs=1e-4)


def test_a_fold_is_the_same_on_every_machine() -> None:
    assert [fold_of(id_) for id_ in ("QT001", "QT002", "QT003")] == [2, 4, 4]
    counts = np.bincount([fold_of(f"QT{n:03d}") for n in range(1000)], minlength=FOLDS)
    assert counts.sum() == 1000
    assert counts.min() > 100


def test_held_out_figures_are_of_adapters_that_have_not_seen_the_question(
    rotated: tuple[list[Pair], FloatMatrix], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, vectors = rotated
    fitted: list[set[str]] = []
    real = eval.adapter.fit

    def watched(some: list[Pair], rows: FloatMatrix) -> QueryAdapter:
        fitted.append({pair.id for pair in some})
        return real(some, rows, epochs=3)

    monkeypatch.setattr(eval.adapter, "fit", watched)
    fitting = Fitting("m", pairs, [], vectors)
    report = cross_validated(fitting, fold_adapters(fitting))
    assert len(fitted) == FOLDS
    for fold, ids in enumerate(fitted):
        assert ids == {pair.id for pair in pairs if fold_of(pair.id) != fold}
    assert (report["n_questions"], report["n_further"], report["n_sentences"]) == (240, 0, 240)
    assert report["plain"] == measure(pairs, [pair.query for pair in pairs], vectors)
    assert report["adapted"]["mrr"] > report["plain"]["mrr"]


def test_a_fold_is_held_out_with_all_that_its_sentences_answer() -> None:
    query = np.zeros(2, np.float32)
    asked = [
        Pair("QT001", query, ((0,), (1,)), 3),
        Pair("QT002", query, ((2,),), 3),
        Pair("QT004", query, ((1, 3),), 3),
    ]
    written = [Pair("S1", query, ((1,),)), Pair("S2", query, ((2, 5),)), Pair("S3", query, ((7,),))]
    fitting = Fitting("m", asked, written, unit_vectors(8, 2))
    assert [fold_of(pair.id) for pair in asked] == [2, 4, 3]
    # sentence 1 answers a question of fold 2: nothing that it answers is learnt for that fold, of the other folds either
    assert [pair.id for pair in fitting.without(2)] == ["QT002", "S2", "S3"]
    assert [pair.id for pair in fitting.without(4)] == ["QT001", "QT004", "S1", "S3"]
    assert [pair.id for pair in fitting.without(0)] == ["QT001", "QT002", "QT004", "S1", "S2", "S3"]


def test_sentence_questions_are_paired_with_every_place_of_their_answers() -> None:
    sentences = Sentences(("가.", "나.", "가.", "다."), {"a": [0, 1], "b": [2, 3]}, unit_vectors(4, 2))
    written = [
        ("S1", "첫째?", frozenset({"가."})),
        ("S2", "둘째?", frozenset({"다.", "나."})),
        ("S3", "답 없음?", frozenset[str]()),
        ("S4", "없는 문장?", frozenset({"라."})),
    ]
    found = further_pairs(written, sentences, lambda text: np.array([len(text), 0], np.float32))
    assert [(pair.id, pair.facts, pair.times) for pair in found] == [("S1", ((0, 2),), 1), ("S2", ((1, 3),), 1)]
    assert found[0].query.tolist() == [3, 0]


def test_a_pair_is_read_as_often_as_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def spied(query: Any, answers: Any, others: Any, moved: Any, *rest: Any) -> Any:
        read.append(answers[0])
        return np.zeros_like(moved)

    monkeypatch.setattr(eval.adapter, "_gradient", spied)
    vectors = unit_vectors(100, 8)
    fit([Pair("Q", vectors[3], ((3,),), 3), Pair("S", vectors[50], ((50,),))], vectors, epochs=2)
    assert (read.count(3), read.count(50)) == (6, 2)


def test_held_out_adapters_are_kept_until_what_they_rest_on_changes(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in(tmp_path / "store", "public", {"가.md": "# 딸기 양액\n\n딸기 EC는 1.2로 둔다.\n"}, tmp_path / "sources")
    settings = load_settings(store=tmp_path / "store")
    vectors, fitted = unit_vectors(64, 8), []
    pairs = [Pair(f"q{n}", vectors[n], ((n,),)) for n in range(64)]

    def fitting_of(_: object) -> Fitting:
        fitted.append(1)
        return Fitting("m", pairs, [], vectors)

    monkeypatch.setattr(eval.adapter, "fitting_of", fitting_of)
    monkeypatch.setattr(eval.adapter, "components", lambda name: {"embedder": FakeEmbedder.model_name})
    first = held_out_adapters(settings, "m")
    again = held_out_adapters(settings, "m")
    assert len(first) == FOLDS
    assert len(fitted) == 1
    assert [a.matrix.tolist() for a in first] == [a.matrix.tolist() for a in again]
    assert not np.array_equal(first[0].matrix, first[1].matrix)
    take_in(tmp_path / "store", "public", {"나.md": "# 환기\n\n천창을 연다.\n"}, tmp_path / "sources")
    held_out_adapters(settings, "m")
    assert len(fitted) == 2


# --- asking -----------------------------------------------------------------------------------------------

Held = Callable[[Callable[[Question], object]], Iterator[tuple[Question, object]]]


@pytest.fixture
def encoder() -> FakeEncoder:
    encoder = FakeEncoder()
    encoder.adapt(QueryAdapter(np.eye(64, dtype=np.float32), unit_vectors(1, 64)[0]))
    return encoder


@pytest.fixture
def held(encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch) -> Held:
    """Asks ten questions; each fold's adapter has its number as mean."""
    adapters = [QueryAdapter(np.eye(64, dtype=np.float32), np.full(64, fold + 1, np.float32)) for fold in range(FOLDS)]
    monkeypatch.setattr(eval.adapter, "held_out_adapters", lambda settings, encoder: adapters)
    asked = [question(f"q{n}") for n in range(10)]
    return lambda ask: asked_held_out(encoder, asked, load_settings(), ask)


def test_a_question_is_asked_with_the_adapter_of_the_folds_that_it_is_not_in(encoder: FakeEncoder, held: Held) -> None:
    in_force = encoder.adapter

    def mean(_: Question) -> float:
        assert encoder.adapter is not None
        return float(encoder.adapter.mean[0])

    found = list(held(mean))
    assert [(q.id, fold) for q, fold in found] == [(f"q{n}", fold_of(f"q{n}") + 1) for n in range(10)]
    assert len({fold for _, fold in found}) > 1
    assert encoder.adapter is in_force


def test_the_adapter_is_put_back_whatever_happens(encoder: FakeEncoder, held: Held) -> None:
    in_force = encoder.adapter
    seen: list[object] = []

    def failing(asked: Question) -> None:
        seen.append(encoder.adapter)
        if asked.id == "q3":
            raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        list(held(failing))
    assert len(seen) == 4
    assert in_force not in seen
    assert encoder.adapter is in_force
    stopped = held(lambda asked: None)
    next(stopped)
    assert encoder.adapter is not in_force
    stopped.close()  # type: ignore[attr-defined]
    assert encoder.adapter is in_force
