"""The named systems of a comparison: per question, the setting that fuses the cached channel runs.

    dense, sparse, graph    one channel
    baseline                dense + sparse 1:1, rrf_k 60
    uniform                 1:1:1, rrf_k 60
    best_fixed              the best setting of the whole search space on the tune part, for all questions
    adaptive                a profile table through its evidence model and guardrails: the file of --profile, or one
                            tuned on the tune part (``eval.tune``)
    llamaindex              LlamaIndex's stock fusion (``eval.peer``)

Fixed systems walk with the parameters that suit the graph channel alone best on the tune part, the strongest rival one
can name without looking at the test part. Objective on the tune part: mean nDCG@10, of a mixed index the mean over sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from eval.reading import ASKED_AT
from eval.runs import DEPTH
from eval.signals import Signals, signal_matrix
from eval.space import Quality, Searched, Setting, Space, channel_runs
from rag.evidence import SIGNALS
from rag.guardrails import apply_guardrails
from rag.profile_table import ProfileTable
from rag.schema import CHANNELS, GRAPH, Guardrails, Walk
from rag.weighting import FIXED_RRF_K, FIXED_WEIGHTS

PEER = "llamaindex"
BEST_FIXED = "best_fixed"
ADAPTIVE = "adaptive"
FIXED = ("dense", "sparse", "graph", "baseline", "uniform")
RIVALS = (*FIXED, BEST_FIXED)
LABELS: Mapping[str, str] = {
    "dense": "의미만",
    "sparse": "키워드만",
    "graph": "관계만",
    "baseline": "기준(2채널)",
    "uniform": "균등 1:1:1",
    BEST_FIXED: "최선의 고정값",
    ADAPTIVE: "적응",
    PEER: "LlamaIndex 기본",
}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TunePart:
    """What a system may look at: settings' quality on all questions, and which questions are the tune part."""

    space: Space
    quality: Quality
    tune: Mask
    strata: npt.NDArray[np.int64]

    def objective(self, quality: Quality | None = None) -> npt.NDArray[np.float64]:
        """Mean over sets of the mean nDCG@10 on the tune part, of every setting."""
        values = self.quality if quality is None else quality
        labels = np.unique(self.strata)
        means = [values[:, self.tune & (self.strata == label)].mean(axis=1, dtype=np.float64) for label in labels]
        found: npt.NDArray[np.float64] = np.mean(means, axis=0)
        return found

    def best_setting(self) -> Setting:
        """The best setting of the space for all questions; the first of equals."""
        return self.space.setting(int(np.argmax(self.objective())))

    def best_walk(self) -> Walk:
        """The walk of the best graph-only setting at full depth."""
        alone = np.flatnonzero(self.space.weights[:, CHANNELS.index(GRAPH)] == 1.0)[0]
        block = len(self.space.rrf_k) * len(self.space.weights)
        deepest = self.space.depths.index(max(self.space.depths))
        numbers = [(n * len(self.space.depths) + deepest) * block + alone for n in range(len(self.space.walks))]
        return self.space.walks[int(np.argmax(self.objective(self.quality[numbers])))]


def fixed_setting(system: str, walk: Walk) -> Setting:
    """The setting of a fixed system of ``rag.weighting``."""
    weights = FIXED_WEIGHTS[system]
    return Setting(tuple(weights[channel] for channel in CHANNELS), FIXED_RRF_K, DEPTH, walk)


class Adaptive:
    """The product's way to a setting: segment → row → evidence model → guardrails over the channels that answered.

    ``table_of`` gives the profile table for a tune part: a file's, whatever the part, or one tuned on it.
    """

    def __init__(self, table_of: Callable[[TunePart, Searched], ProfileTable]) -> None:
        self._table_of = table_of

    def settings(
        self,
        part: TunePart,
        runs: Searched,
        *,
        rails: Guardrails | None = None,
        evidence: bool = True,
        segments: bool = True,
    ) -> list[Setting]:
        """One setting per question. ``rails`` replace the rows'; ``evidence``, ``segments``: off for ablations."""
        table = self._table_of(part, runs)
        if not segments:
            table = replace(table, segments={})
        return profile_settings(table, runs, rails, evidence=evidence)


def profile_settings(
    table: ProfileTable, runs: Searched, rails: Guardrails | None = None, *, evidence: bool = True
) -> list[Setting]:
    """Each question's setting by a profile table. One depth serves all channels here; the row's largest is taken."""
    model = table.evidence(ASKED_AT.date()) if evidence else None
    signals = signal_table(runs) if model is not None else None
    found = []
    for question, reading in enumerate(runs.index.readings):
        profile, _ = table.lookup(reading.segment, ASKED_AT.date())
        answered = channel_runs(runs, profile.walk)
        alive = frozenset(c for c, run in zip(CHANNELS, answered, strict=True) if (run.rows[question] >= 0).any())
        if model is not None and signals is not None:
            arm, _ = model.choose(dict(zip(SIGNALS, signals(profile.walk)[question].tolist(), strict=True)))
            profile = model.with_arm(profile, arm)
        steps = apply_guardrails(
            profile.weights, profile.previous_weights, rails or profile.guardrails, alive, table.default.weights
        )
        weights = tuple(steps.final[channel] for channel in CHANNELS)
        found.append(Setting(weights, profile.rrf_k, min(DEPTH, max(profile.depth.values())), profile.walk))
    return found


def signal_table(runs: Searched) -> Callable[[Walk], Signals]:
    """Signals of all questions by walk, computed when first asked for."""
    entities, words = runs.entity_counts().tolist(), runs.word_counts().tolist()

    @cache
    def signals(walk: Walk) -> Signals:
        return signal_matrix(channel_runs(runs, walk), entities, words)

    return signals


def settings_of(system: str, part: TunePart, runs: Searched, adaptive: Adaptive | None) -> list[Setting]:
    """One setting per question of the index. ``adaptive`` chooses for the system of that name."""
    if system == ADAPTIVE:
        if adaptive is None:
            raise ValueError("adaptive needs a profile")
        return adaptive.settings(part, runs)
    one = part.best_setting() if system == BEST_FIXED else fixed_setting(system, part.best_walk())
    return [one] * len(runs.index.questions)
