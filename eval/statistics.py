"""Paired comparison of two systems.

Bootstrap (Efron & Tibshirani 1993; Sakai, SIGIR 2006): questions are drawn with replacement, within each stratum (set) by
itself; the statistic is the mean over strata of the mean difference, so that a mixed index is compared by its macro
mean. Interval: percentiles 2.5 and 97.5. Two-sided p = 2·min(P(d* ≤ 0), P(d* ≥ 0)), with one added to both counts so that
p is never 0. Questions that share a gold passage are drawn together when ``groups`` are given (cluster bootstrap).

Holm (1979): the i-th smallest of m p-values becomes max over j ≤ i of min(1, (m − j + 1)·p₍ⱼ₎).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

N_RESAMPLES = 10_000
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean difference with its 95 % interval and two-sided p."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    differences: npt.NDArray[np.float64],
    strata: npt.NDArray[np.int64] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
    *,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
) -> Comparison:
    """Compare two systems by their per-question differences, shape (questions,); strata and groups are labels.

    Raises:
        ValueError: there are no questions.
    """
    if not len(differences):
        raise ValueError("a comparison needs at least one question")
    strata = np.zeros(len(differences), np.int64) if strata is None else strata
    groups = np.arange(len(differences)) if groups is None else groups
    rng = np.random.default_rng(seed)
    labels = np.unique(strata)
    drawn = np.zeros(n_resamples)
    for label in labels:
        inside = strata == label
        drawn += _resampled_means(differences[inside], groups[inside], rng, n_resamples) / len(labels)
    observed = float(np.mean([differences[strata == label].mean() for label in labels]))
    below, above = int((drawn <= 0).sum()), int((drawn >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (n_resamples + 1))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Comparison(observed, float(low), float(high), p)


def _resampled_means(
    values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], rng: np.random.Generator, n_resamples: int
) -> npt.NDArray[np.float64]:
    """Mean of each resample of groups: Σ of drawn sums / Σ of drawn sizes."""
    _, member = np.unique(groups, return_inverse=True)
    sums, sizes = np.bincount(member, weights=values), np.bincount(member)
    means = np.empty(n_resamples)
    for start in range(0, n_resamples, _BLOCK):
        pick = rng.integers(0, len(sums), (min(_BLOCK, n_resamples - start), len(sums)))
        means[start : start + len(pick)] = sums[pick].sum(axis=1) / sizes[pick].sum(axis=1)
    return means


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the given order."""
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = running
    return adjusted
