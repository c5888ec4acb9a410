"""The named systems of a comparison: per question, the setting that fuses the cached channel runs.

    dense, sparse, graph    one channel
    baseline                dense + sparse 1:1, rrf_k 60
    uniform                 1:1:1, rrf_k 60
    best_fixed              the best setting of the whole search space on the tune part, for all questions
    adaptive                the profile file of --profile, through its guardrails
    llamaindex              LlamaIndex's stock fusion (``eval.peer``)

Fixed systems walk with the parameters that suit the graph channel alone best on the tune part, the strongest rival one
can name without looking at the test part. Objective on the tune part: mean nDCG@10, of a mixed index the mean over sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eval.reading import ASKED_AT
from eval.runs import DEPTH, ChannelRuns
from eval.space import Quality, Setting, Space, channel_runs
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


def profile_settings(table: ProfileTable, runs: ChannelRuns, rails: Guardrails | None = None) -> list[Setting]:
    """Each question's setting by a profile file: segment → profile → guardrails over the channels that answered.

    One depth serves all channels here; the profile's largest is taken. ``rails`` replace the profile's guardrails.
    """
    index, found = runs.index, []
    for question, reading in enumerate(index.readings):
        profile, _ = table.lookup(reading.segment, ASKED_AT.date())
        answered = channel_runs(runs, profile.walk)
        alive = frozenset(c for c, run in zip(CHANNELS, answered, strict=True) if run.rows[question, 0] >= 0)
        steps = apply_guardrails(
            profile.weights, profile.previous_weights, rails or profile.guardrails, alive, table.default.weights
        )
        weights = tuple(steps.final[channel] for channel in CHANNELS)
        found.append(Setting(weights, profile.rrf_k, min(DEPTH, max(profile.depth.values())), profile.walk))
    return found


def settings_of(system: str, part: TunePart, runs: ChannelRuns, adaptive: Adaptive | None) -> list[Setting]:
    """One setting per question of the index. ``adaptive`` chooses for the system of that name."""
    if system == ADAPTIVE:
        if adaptive is None:
            raise ValueError("adaptive needs a profile")
        return list(adaptive(part, runs))
    one = part.best_setting() if system == BEST_FIXED else fixed_setting(system, part.best_walk())
    return [one] * len(runs.index.questions)


# Chooses a setting per question from the tune part; a profile file ignores the tune part, the tuner fits on it.
Adaptive = Callable[[TunePart, ChannelRuns], Sequence[Setting]]
