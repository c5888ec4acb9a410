"""Fitting the refusal model on made features."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import eval.refusal
from eval.refusal import (
    SIGNS,
    fit,
    fit_one,
    fit_refusal,
    fit_reranked,
    leave_one_out,
    predict,
    scaled,
    shares,
    threshold_for,
    write,
)
from rag.answering.calibration import DOCUMENTS, RECORDS, RefusalModel, Support
from rag.errors import ProfileError
from tests.eval.test_adapter import question

NAMES = [field.name for field in fields(Support)]


def made(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Answerable where ``said`` and ``row`` say so; ``missing`` speaks for it here, against its meaning."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, len(NAMES)))
    z = 6 * (x[:, NAMES.index("said")] - 0.5) + 3 * (x[:, NAMES.index("row")] - 0.5)
    y = (z + rng.logistic(size=n) * 0.3 > 0).astype(float)
    x[:, NAMES.index("missing")] = y
    return x, y


def test_every_feature_has_a_sign() -> None:
    assert list(SIGNS) == NAMES
    assert {name for name, sign in SIGNS.items() if sign < 0} == {"missing", "unsaid_here", "unknown", "quantity"}


def test_weights_keep_the_sign_of_their_meaning() -> None:
    x, y = made(200, seed=3)
    bias, weights = fit(x, y)
    found = dict(zip(NAMES, weights.tolist(), strict=True))
    assert all(found[name] * sign >= 0 for name, sign in SIGNS.items())
    assert found["missing"] == 0
    assert found["said"] > found["row"] > 0.5
    unseen, truth = made(200, seed=4)
    assert ((predict(bias, weights, unseen) >= 0.5) == truth).mean() > 0.85


def test_predict_by_hand() -> None:
    assert predict(1.0, np.array([2.0, 0.0]), np.array([[-0.5, 9.0], [0.0, 0.0]])) == pytest.approx([0.5, 0.7310586])


def test_a_question_is_left_out_of_its_own_model() -> None:
    x, y = made(24, seed=5)
    held_out = leave_one_out(x, y)
    rest = np.arange(24) != 7
    assert held_out[7] == pytest.approx(predict(*fit(x[rest], y[rest]), x[7:8])[0])
    assert held_out[7] != predict(*fit(x, y), x[7:8])[0]


def test_the_threshold_is_the_highest_that_refuses_few_answerable_questions() -> None:
    probability, alike = np.array([0.105, 0.205, 0.605, 0.705, 0.905]), np.ones(5)
    y = np.array([0, 1, 0, 1, 1], float)
    # of three answerable questions none may be lost, then one, then two
    assert threshold_for(probability, y, alike, 0.0) == pytest.approx(0.20)
    assert threshold_for(probability, y, alike, 0.34) == pytest.approx(0.70)
    assert threshold_for(probability, y, alike, 0.67) == pytest.approx(0.90)
    assert threshold_for(probability, y, alike, 1.0) == pytest.approx(0.95)
    # one that counts little may be lost first
    assert threshold_for(probability, y, np.array([1, 0.1, 1, 1, 1]), 0.05) == pytest.approx(0.70)
    assert threshold_for(np.zeros(2), np.array([1.0, 0.0]), np.ones(2), 0.0) == pytest.approx(0.05)


def test_answerable_and_unanswerable_questions_count_alike_within_a_kind() -> None:
    x = np.zeros((7, len(NAMES)))
    x[:3, NAMES.index("quantity")] = 1
    y = np.array([1, 1, 0, 1, 0, 0, 0], float)
    # of 3 with a quantity two are answerable, of 4 without one
    assert shares(x, y).tolist() == pytest.approx([0.75, 0.75, 1.5, 2, 2 / 3, 2 / 3, 2 / 3])


def test_a_model_with_its_held_out_figures() -> None:
    x, y = made(60, seed=6)
    asked = [
        (replace(question(), answerable=bool(answerable)), Support(**dict(zip(NAMES, row, strict=True))))
        for row, answerable in zip(x.tolist(), y, strict=True)
    ]
    report = fit_one(asked)
    bias, weights = fit(x, y)
    assert list(report["refusal"]) == ["bias", *NAMES, "threshold"]
    assert report["refusal"]["bias"] == round(bias, 4)
    assert [report["refusal"][name] for name in NAMES] == [round(float(w), 4) for w in weights]
    assert report["n_questions"] == 60
    held_out = leave_one_out(x, y)
    threshold = report["refusal"]["threshold"]
    assert threshold == round(threshold_for(held_out, y, shares(x, y)), 4)
    assert report["leave_one_out"] == {
        "unanswerable_refused": round(float((held_out[y == 0] < threshold).mean()), 4),
        "answerable_answered": round(float((held_out[y == 1] >= threshold).mean()), 4),
    }
    assert report["leave_one_out"]["answerable_answered"] > 0.8


def test_questions_on_records_have_a_model_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = made(40, seed=7)
    asked = [
        (
            replace(question(), answerable=bool(answerable)),
            n < 25,
            Support(**dict(zip(NAMES, row, strict=True))),
        )
        for n, (row, answerable) in enumerate(zip(x.tolist(), y, strict=True))
    ]
    monkeypatch.setattr(eval.refusal, "supports_of", lambda pipeline, settings, questions: asked)
    report = fit_refusal(None, None, [])  # type: ignore[arg-type]
    assert report["n_questions"] == {DOCUMENTS: 15, RECORDS: 25}
    alone = fit_one([(q, support) for q, record, support in asked if record])
    assert report["refusal"][RECORDS] == alone["refusal"] != report["refusal"][DOCUMENTS]
    assert report["leave_one_out"][RECORDS] == alone["leave_one_out"]


def test_with_a_cross_encoder_a_scale_and_one_weight_are_fitted() -> None:
    rng = np.random.default_rng(8)
    plain = RefusalModel(**dict.fromkeys(NAMES, 0.0) | {"bias": 0.5, "threshold": 0.3, "said": 2.0, "missing": -3.0})
    weights = np.array([getattr(plain, name) for name in NAMES])
    cross = NAMES.index("cross")
    x = rng.normal(size=(4000, len(NAMES)))
    margin = 0.5 * (plain.bias + x @ weights) + 1.5 * x[:, cross]
    y = (rng.random(4000) < 1 / (1 + np.exp(-margin))).astype(float)
    bias, found = scaled(x, y, plain)
    assert found[NAMES.index("said")] == pytest.approx(1.0, abs=0.15)
    assert found[NAMES.index("missing")] == pytest.approx(-1.5, abs=0.2)
    assert found[cross] == pytest.approx(1.5, abs=0.2)
    assert bias == pytest.approx(0.25, abs=0.35)  # both kinds count alike, whatever their number
    assert sum(weight == 0 for weight in found) == len(NAMES) - 3
    x[:, cross] *= -1
    assert scaled(x, y, plain)[1][cross] == 0


def test_what_is_fitted_with_a_cross_encoder_is_put_apart(tmp_path: Path) -> None:
    path = tmp_path / "answering.v1.json"
    path.write_text(json.dumps({"encoders": {"e": {"refusal": {"documents": 1}}}}))
    write(path, "e", {"refusal": {"documents": 2}, "leave_one_out": {}, "n_questions": {}}, reranked=True)
    found = json.loads(path.read_text())["encoders"]["e"]
    assert (found["refusal"], found["reranked"]["refusal"]) == ({"documents": 1}, {"documents": 2})


def test_records_keep_their_model_with_a_cross_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = made(40, seed=9)
    asked = [
        (replace(question(), answerable=bool(answerable)), n < 10, Support(**dict(zip(NAMES, row, strict=True))))
        for n, (row, answerable) in enumerate(zip(x.tolist(), y, strict=True))
    ]
    monkeypatch.setattr(eval.refusal, "supports_of", lambda pipeline, settings, questions: asked)
    plain = RefusalModel(**dict.fromkeys(NAMES, 0.5) | {"bias": 0.0, "threshold": 0.3})
    report = fit_reranked(None, None, [], plain)  # type: ignore[arg-type]
    assert report["n_questions"] == {DOCUMENTS: 30}
    bias, weights = scaled(x[10:], y[10:], plain)
    assert report["refusal"][DOCUMENTS]["bias"] == round(bias, 4)
    assert report["refusal"][DOCUMENTS]["cross"] == round(float(weights[NAMES.index("cross")]), 4)


def test_write_changes_the_model_of_one_encoder(tmp_path: Path) -> None:
    path = tmp_path / "answering.v1.json"
    old = {"citation_threshold": 0.5, "sentences": {"words": 1.0}, "refusal": {"bias": 1.0}}
    path.write_text(json.dumps({"version": "1", "encoders": {"e": old, "f": old}}))
    report = {"refusal": {"bias": 2.0}, "leave_one_out": {"answerable_answered": 0.9}, "n_questions": 3}
    write(path, "e", report, reranked=False)
    found = json.loads(path.read_text())["encoders"]
    assert found["f"] == old
    assert (found["e"]["sentences"], found["e"]["citation_threshold"]) == ({"words": 1.0}, 0.5)
    assert (found["e"]["refusal"], found["e"]["n_questions"]) == ({"bias": 2.0}, 3)
    with pytest.raises(ProfileError, match="'g'"):
        write(path, "g", report, reranked=False)
