"""Fit the refusal model: ``python -m eval refusal [--write]``.

Logistic regression with an L2 penalty on standardised features, balanced between answerable and unanswerable
questions, each weight bound to the sign its feature has by meaning (``SIGNS``). Fitted on the tune part of the farm set and on the
calibration and development questions (``sets/source``), never on the test part. The threshold has the
best F1 of refusals in leave-one-out predictions. Weights are stored for the raw features; questions
that a rule refuses (no such record, no registration) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from eval.levels import put_levels
from eval.questions import Question
from rag.answering.calibration import Support
from rag.pipeline import Pipeline
from rag.schema import Query, Scope

PENALTY = 5.0
# Share of unanswerable questions that the threshold is chosen for, about that of the farm set; the fitting questions
# hold more of them.
UNANSWERABLE = 0.2
# What each feature can only mean; with so few questions a free sign would follow noise.
SIGNS: Mapping[str, int] = {
    "vector_gap": +1,
    "agreement": +1,
    "terms": +1,
    "cosine": +1,
    "missing": -1,
    "said": +1,
    "passage": +1,
    "unsaid_here": -1,
    "unfocused": -1,
    "unknown": -1,
    "unnamed": -1,
    "parts": 0,
    "row": +1,
    "quantity": -1,
    "record": 0,
}
_BOUNDS = {+1: (0, None), -1: (None, 0), 0: (None, None)}
_NAMES = tuple(field.name for field in fields(Support))
_THRESHOLDS = np.arange(0.05, 0.96, 0.01)
Array = npt.NDArray[np.float64]


def supports_of(pipeline: Pipeline, questions: Sequence[Question]) -> list[tuple[Question, Support]]:
    """The support that each question's chosen sentences have, as recorded in the trace."""
    found: list[tuple[Question, Support]] = []
    for question in questions:
        query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
        result = pipeline.ask(query)
        support = next((d.data["support"] for d in result.trace.decisions if "support" in d.data), None)
        if support is not None:  # else a rule refused
            found.append((question, support))
    return found


def fit(x: Array, y: Array, penalty: float = PENALTY) -> tuple[float, Array]:
    """Bias and weights for raw features; ``x`` (n, d), ``y`` 1 for answerable."""
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = (x - mean) / spread
    share = np.where(y == 1, 0.5 / max(1, int((y == 1).sum())), 0.5 / max(1, int((y == 0).sum()))) * len(y)

    def loss(w: Array) -> float:
        margin = (2 * y - 1) * (z @ w[1:] + w[0])
        return float((share * np.logaddexp(0, -margin)).sum() + penalty * (w[1:] ** 2).sum() / 2)

    bounds = [(None, None), *(_BOUNDS[SIGNS[name]] for name in _NAMES)]
    w: Array = minimize(loss, np.zeros(x.shape[1] + 1), method="L-BFGS-B", bounds=bounds).x
    weights = w[1:] / spread
    return float(w[0] - (weights * mean).sum()), weights


def predict(bias: float, weights: Array, x: Array) -> Array:
    """σ(bias + x·weights)."""
    probability: Array = 1 / (1 + np.exp(-(bias + x @ weights)))
    return probability


def leave_one_out(x: Array, y: Array) -> Array:
    """Each question's probability from a model fitted on the others."""
    out = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        bias, weights = fit(x[rest], y[rest])
        out[i] = predict(bias, weights, x[i : i + 1])[0]
    return out


def threshold_for(probability: Array, y: Array, unanswerable: float = UNANSWERABLE) -> float:
    """The threshold of the best F1 of refusals where a share ``unanswerable`` has no answer; of equal ones the lowest."""
    refused = probability[None, :] < _THRESHOLDS[:, None]
    recall = refused[:, y == 0].mean(axis=1)
    wrongly = refused[:, y == 1].mean(axis=1)
    right = unanswerable * recall
    precision = right / np.maximum(right + (1 - unanswerable) * wrongly, 1e-9)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    return float(_THRESHOLDS[int(np.argmax(f1))])


def fit_refusal(pipeline: Pipeline, questions: Sequence[Question]) -> dict[str, Any]:
    """The fitted model with its leave-one-out figures."""
    pairs = supports_of(pipeline, questions)
    x = np.array([[getattr(support, name) for name in _NAMES] for _, support in pairs])
    y = np.array([float(question.answerable) for question, _ in pairs])
    held_out = leave_one_out(x, y)
    threshold = threshold_for(held_out, y)
    bias, weights = fit(x, y)
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


def write(path: Path, encoder: str, report: dict[str, Any]) -> None:
    """Put the fitted model into the levels file."""
    changes = {
        "tuned_on": "farm.jsonl (tune) + calibration.jsonl + development.jsonl",
        "refusal": report["refusal"],
        "leave_one_out": report["leave_one_out"],
        "n_questions": report["n_questions"],
    }
    put_levels(path, encoder, changes)
