"""The gate of evidence-aware control, fitted on a tune part (``rag.evidence`` applies it).

A mixture of K settings: arm 0 is what the profile rows choose, every other arm one (weights, rrf_k) for all questions,
searched with each question's own walk and depth. With R[q, a] the nDCG@10 of arm a on question q, x(q) the standardised
signals and π = softmax(B·x), the gate maximises

    Σ_q ω_q Σ_a π_a(x_q) · R[q, a]  −  penalty · Σ_i,a B[i, a]²            (biases are free)

by L-BFGS. Arms start as a greedy cover (each adds most to Σ_q ω_q max_a R[q, a]) and are then chosen again under the
gate's shares, arm_a = argmax_s Σ_q ω_q π_a(x_q) R[q, s], until nothing changes: the alternation of Jacobs et al. (1991)
with rewards in place of likelihoods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from eval.signals import Signals

Matrix = npt.NDArray[np.float64]
PENALTY = 1e-3
N_ARMS = 3
_ROUNDS = 5
_CLIP = 3.0
_FLAT = 1e-6


@dataclass(frozen=True)
class Gate:
    """``arms[0]`` is None (the row's own setting), the others are numbers of the choices; B has a bias row first."""

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    coefficients: Matrix
    arms: tuple[int | None, ...]

    def choose(self, signals: Signals) -> npt.NDArray[np.int64]:
        """Arm of every question."""
        chosen: npt.NDArray[np.int64] = (self.inputs(signals) @ self.coefficients).argmax(axis=1)
        return chosen

    def inputs(self, signals: Signals) -> Matrix:
        """Standardised, clipped signals with a leading one, shape (questions, 1 + signals)."""
        return _inputs(signals, self.mean, self.deviation)


def fit_gate(
    signals: Signals,
    own: npt.NDArray[np.float64],
    choices: Matrix,
    share: npt.NDArray[np.float64],
    n_arms: int = N_ARMS,
) -> Gate:
    """A gate for questions with ``share`` ω (sum 1).

    ``own``: reward of each question's own setting, shape (questions,); ``choices``: rewards of every choice, shape
    (choices, questions).
    """
    mean, deviation = signals.mean(axis=0), signals.std(axis=0)
    deviation = np.where(deviation < _FLAT, 1.0, deviation)
    x = _inputs(signals, mean, deviation)
    arms = _cover(own, choices, share, n_arms - 1)
    coefficients = np.zeros((x.shape[1], n_arms))
    for _ in range(_ROUNDS):
        rewards = np.column_stack([own, *(choices[arm] for arm in arms)])
        coefficients = _ascend(x, rewards, share)
        shares = share[:, None] * _softmax(x @ coefficients)
        again = [int(np.argmax(choices @ shares[:, a])) for a in range(1, n_arms)]
        if again == arms:
            break
        arms = again
    rewards = np.column_stack([own, *(choices[arm] for arm in arms)])
    return Gate(mean, deviation, _ascend(x, rewards, share), (None, *arms))


def _inputs(signals: Signals, mean: npt.NDArray[np.float64], deviation: npt.NDArray[np.float64]) -> Matrix:
    return np.column_stack([np.ones(len(signals)), np.clip((signals - mean) / deviation, -_CLIP, _CLIP)])


def _cover(own: npt.NDArray[np.float64], choices: Matrix, share: npt.NDArray[np.float64], n: int) -> list[int]:
    best, arms = own.copy(), []
    for _ in range(n):
        arms.append(int(np.argmax(np.maximum(choices, best) @ share)))
        best = np.maximum(best, choices[arms[-1]])
    return arms


def _ascend(x: Matrix, rewards: Matrix, share: npt.NDArray[np.float64]) -> Matrix:
    shape = (x.shape[1], rewards.shape[1])

    def loss(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        b = flat.reshape(shape)
        pi = _softmax(x @ b)
        value = (pi * rewards).sum(axis=1)
        gradient = -x.T @ (share[:, None] * pi * (rewards - value[:, None]))
        gradient[1:] += 2 * PENALTY * b[1:]
        return float(-(share * value).sum() + PENALTY * (b[1:] ** 2).sum()), gradient.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    coefficients: Matrix = found.x.reshape(shape)
    return coefficients


def _softmax(z: Matrix) -> Matrix:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    shares: Matrix = e / e.sum(axis=1, keepdims=True)
    return shares
