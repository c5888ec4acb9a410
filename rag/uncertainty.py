"""How uncertain an answer is, U = α·H + β·(1 − O), and what a second look asks for. Pure functions.

H, the entropy: of a generated answer the mean over its tokens of the entropy of the model's whole next-token distribution,
normalised by ln |vocabulary|; of an extractive answer the entropy of softmax(cos/T) over the question's cosines with the
evidence sentences, normalised by ln n (entropy of fused rank scores is nearly constant and tells nothing). O, the
coverage: of a generated answer the share of its content morphemes that the evidence holds; of an extractive answer the
share of the question's words that the cited sentences hold, each weighted by its idf. All in [0, 1].

α, β and τ belong to an encoder and an answerer, are fitted on tune questions to predict wrong or unsupported answers
(``python -m eval uncertainty``), and stand in ``profiles/answering.v1.json``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag.schema import Effort

# Of the dense seeds of the graph walk, too: at 0.02 two cosines of E5 that differ by .05 weigh 12 to 1.
TEMPERATURE = 0.02
MAX_ROUNDS = 2
_NEXT: dict[Effort, Effort] = {"low": "medium", "medium": "high", "high": "high"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertaintyModel:
    """U = ``alpha``·H + ``beta``·(1 − O), both not negative with sum 1; a second look is taken at U ≥ ``tau``.

    ``auroc``: how well U told wrong from right answers on the questions it was fitted on.
    """

    alpha: float
    beta: float
    tau: float
    auroc: float

    def __post_init__(self) -> None:
        if min(self.alpha, self.beta) < 0 or abs(self.alpha + self.beta - 1) > 1e-6:
            raise ValueError(f"alpha {self.alpha} and beta {self.beta} must not be negative and must sum to 1")

    def value(self, entropy: float, coverage: float) -> float:
        """U of an answer, in [0, 1]."""
        return self.alpha * entropy + self.beta * (1 - coverage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What of an answer is uncertain: H, O, the question's words that nothing cited holds, the weak sentences."""

    entropy: float
    coverage: float
    missing: tuple[str, ...]
    weak: tuple[str, ...] = ()


def normalised_entropy(probabilities: npt.NDArray[np.float64]) -> float:
    """Entropy of a distribution over n values, divided by ln n; 0 for fewer than two values."""
    if len(probabilities) < 2:
        return 0.0
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum() / math.log(len(probabilities)))


def token_entropy(logits: npt.NDArray[np.float32]) -> float:
    """Normalised entropy of the next-token distribution of ``logits``, shape (vocabulary,)."""
    shifted = logits.astype(np.float64) - float(logits.max())
    exponentials = np.exp(shifted)
    return normalised_entropy(exponentials / exponentials.sum())


def similarity_entropy(cosines: Sequence[float], temperature: float = TEMPERATURE) -> float:
    """Normalised entropy of softmax(cos/T) over the evidence sentences of a question."""
    if len(cosines) < 2:
        return 0.0
    scaled = np.asarray(cosines, np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    return normalised_entropy(weights / weights.sum())


def coverage(weights: Mapping[str, float], present: Collection[str]) -> float:
    """Weighted share of the words that are present; 1 where there are no words."""
    total = math.fsum(weights.values())
    return math.fsum(weight for word, weight in weights.items() if word in present) / total if total > 0 else 1.0


def missing_words(weights: Mapping[str, float], present: Collection[str]) -> tuple[str, ...]:
    """The words that are not present, the weightiest first; ties in alphabetical order."""
    absent = [word for word in weights if word not in present]
    return tuple(sorted(absent, key=lambda word: (-weights[word], word)))


def reformulated(doubt: Doubt, names: Sequence[str]) -> str:
    """Q′: what the question is about, and the words that nothing cited holds."""
    return " ".join(dict.fromkeys((*names, *doubt.missing)))


def more_effort(effort: Effort) -> Effort:
    """The effort of the next round."""
    return _NEXT[effort]
