"""Fit the refusal model: ``python -m eval refusal [--write]``.

Logistic regression with an L2 penalty on standardised features, balanced between answerable and unanswerable questions
of each kind, each weight bound to the sign its feature has by meaning (``SIGNS``). Fitted on the tune parts of the farm sets,
never on the test part; questions are encoded with adapters that were fitted without them (``eval.adapter``). The threshold
is the highest that refuses at most ``WRONGLY`` of the answerable questions in leave-one-out predictions. Weights are stored
for the raw features; questions that a rule refuses (no such record, no registration) are left out.

With a cross-encoder three numbers of the model of questions on documents are fitted, on the fold that the cross-encoder was
not tuned on: the scale of the weights without one, the weight of its log-odds, the bias. Of records that fold has too few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from eval.adapter import asked_held_out
from eval.levels import put_levels
from eval.questions import Question
from eval.ranking import TUNED_ON
from rag.answering.calibration import DOCUMENTS, RECORDS, RefusalModel, Support
from rag.pipeline import Pipeline
from rag.schema import Query, Scope
from rag.settings import Settings

PENALTY = 5.0
SCALE_PENALTY = 1.0
# Answerable questions that may be refused. Every sentence of an answer shows what it rests on, so an answer beside the
# point is seen to be one; what a refused question would have shown is not.
WRONGLY = 0.06
# What each feature can only mean; with so few questions a free sign would follow noise.
SIGNS: Mapping[str, int] = {
    "vector_gap": +1,
    "agreement": +1,
    "similarity": +1,
    "passage": +1,
    "figure": +1,
    "names": +1,
    "missing": -1,
    "said": +1,
    "unsaid_here": -1,
    "row": +1,
    "cross": +1,
    "unknown": -1,
    "parts": 0,
    "quantity": -1,
}
_BOUNDS = {+1: (0, None), -1: (None, 0), 0: (None, None)}
_NAMES = tuple(field.name for field in fields(Support))
_THRESHOLDS = np.arange(0.05, 0.96, 0.01)
Array = npt.NDArray[np.float64]
Asked = tuple[Question, bool, Support]
Fitter = Callable[[Array, Array], tuple[float, Array]]


def supports_of(pipeline: Pipeline, settings: Settings, questions: Sequence[Question]) -> list[Asked]:
    """Whether each question is about records, and the support of its chosen sentences, as recorded in the trace."""

    def asked(question: Question) -> tuple[bool, Support | None]:
        query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
        result = pipeline.ask(query)
        support = next((d.data["support"] for d in result.trace.decisions if d.data.get("support") is not None), None)
        return result.features.intent == "log_lookup", support

    found = asked_held_out(pipeline.embedder, questions, settings, asked)
    return [(question, record, support) for question, (record, support) in found if support is not None]


def fit(x: Array, y: Array, penalty: float = PENALTY) -> tuple[float, Array]:
    """Bias and weights for raw features; ``x`` (n, d), ``y`` 1 for answerable."""
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = (x - mean) / spread
    share = shares(x, y)

    def loss(w: Array) -> float:
        margin = (2 * y - 1) * (z @ w[1:] + w[0])
        return float((share * np.logaddexp(0, -margin)).sum() + penalty * (w[1:] ** 2).sum() / 2)

    bounds = [(None, None), *(_BOUNDS[SIGNS[name]] for name in _NAMES)]
    w: Array = minimize(loss, np.zeros(x.shape[1] + 1), method="L-BFGS-B", bounds=bounds).x
    weights = w[1:] / spread
    return float(w[0] - (weights * mean).sum()), weights


def scaled(x: Array, y: Array, plain: RefusalModel, penalty: float = SCALE_PENALTY) -> tuple[float, Array]:
    """Bias and weights: those of ``plain`` times a fitted scale, with a fitted weight of ``cross``; neither is negative."""
    weights = np.array([getattr(plain, name) for name in _NAMES])
    cross = np.array([float(name == "cross") for name in _NAMES])
    told = np.stack([plain.bias + x @ weights, x @ cross], axis=1)
    share = shares(x, y)

    def loss(w: Array) -> float:
        margin = (2 * y - 1) * (told @ w[1:] + w[0])
        return float((share * np.logaddexp(0, -margin)).sum() + penalty * (w[1:] ** 2).sum() / 2)

    bounds = [(None, None), (0, None), (0, None)]
    w = minimize(loss, np.array([0.0, 1.0, 0.0]), method="L-BFGS-B", bounds=bounds).x
    return float(w[0] + w[1] * plain.bias), w[1] * weights + w[2] * cross


def shares(x: Array, y: Array) -> Array:
    """What each question counts: answerable and unanswerable ones alike, where a quantity is asked and where none is. How
    often either is unanswerable is what the writers of the questions happened to choose, and is not to be learnt.
    """
    quantity = x[:, _NAMES.index("quantity")] > 0
    found = np.empty(len(y))
    for kind in (quantity, ~quantity):
        for answerable in (0, 1):
            members = kind & (y == answerable)
            found[members] = kind.sum() / (2 * max(1, int(members.sum())))
    return found


def predict(bias: float, weights: Array, x: Array) -> Array:
    """σ(bias + x·weights)."""
    probability: Array = 1 / (1 + np.exp(-(bias + x @ weights)))
    return probability


def leave_one_out(x: Array, y: Array, fitted: Fitter = fit) -> Array:
    """Each question's probability from a model fitted on the others."""
    out = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        bias, weights = fitted(x[rest], y[rest])
        out[i] = predict(bias, weights, x[i : i + 1])[0]
    return out


def threshold_for(probability: Array, y: Array, share: Array, wrongly: float = WRONGLY) -> float:
    """The highest threshold that refuses at most a share ``wrongly`` of the answerable questions.

    ``share``: what each question counts.
    """
    refused = probability[None, :] < _THRESHOLDS[:, None]
    lost = np.average(refused[:, y == 1], axis=1, weights=share[y == 1])
    return float(_THRESHOLDS[max(0, int((lost <= wrongly).sum()) - 1)])


def fit_refusal(pipeline: Pipeline, settings: Settings, questions: Sequence[Question]) -> dict[str, Any]:
    """The fitted models of questions on documents and on records, with their leave-one-out figures."""
    asked = supports_of(pipeline, settings, questions)
    models = {
        name: fit_one([(question, support) for question, record, support in asked if record == (name == RECORDS)])
        for name in (DOCUMENTS, RECORDS)
    }
    return {
        key: {name: model[key] for name, model in models.items()} for key in ("refusal", "n_questions", "leave_one_out")
    }


def fit_reranked(
    pipeline: Pipeline, settings: Settings, questions: Sequence[Question], plain: RefusalModel
) -> dict[str, Any]:
    """The model of questions on documents with a cross-encoder; ``plain`` is that without."""
    asked = supports_of(pipeline, settings, questions)
    pairs = [(question, support) for question, record, support in asked if not record]
    model = fit_one(pairs, lambda x, y: scaled(x, y, plain))
    return {key: {DOCUMENTS: model[key]} for key in ("refusal", "n_questions", "leave_one_out")}


def fit_one(pairs: Sequence[tuple[Question, Support]], fitted: Fitter = fit) -> dict[str, Any]:
    """A model with its leave-one-out figures."""
    x = np.array([[getattr(support, name) for name in _NAMES] for _, support in pairs])
    y = np.array([float(question.answerable) for question, _ in pairs])
    held_out = leave_one_out(x, y, fitted)
    threshold = threshold_for(held_out, y, shares(x, y))
    bias, weights = fitted(x, y)
    return {
        "refusal": {
            "bias": round(bias, 4),
            **{name: round(float(w), 4) for name, w in zip(_NAMES, weights, strict=True)},
            "threshold": round(threshold, 4),
        },
        "n_questions": len(y),
        "leave_one_out": {
            "unanswerable_refused": round(float((held_out[y == 0] < threshold).mean()), 4),
            "answerable_answered": round(float((held_out[y == 1] >= threshold).mean()), 4),
        },
    }


def write(path: Path, encoder: str, report: dict[str, Any], *, reranked: bool) -> None:
    """Put the fitted models into the levels file; ``reranked``: with the encoder's cross-encoder."""
    changes = {
        "tuned_on": TUNED_ON,
        "refusal": report["refusal"],
        "leave_one_out": report["leave_one_out"],
        "n_questions": report["n_questions"],
    }
    put_levels(path, encoder, changes, reranked=reranked)
