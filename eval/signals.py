"""Evidence signals of cached runs, by the function that the product calls (``rag.evidence.signals``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.runs import Run
from rag.evidence import SIGNALS, signals
from rag.schema import CHANNELS

Signals = npt.NDArray[np.float64]
# As many hits as a signal looks at.
_LOOKED_AT = 20


def signal_matrix(lists: Sequence[Run], n_entities: Sequence[int], n_words: Sequence[int]) -> Signals:
    """Signals of every question, shape (questions, signals), from one run per channel in the order of ``CHANNELS``."""
    rows = [_whole(run.rows) for run in lists]
    scores = [_whole(run.scores) for run in lists]
    out = np.empty((len(rows[0]), len(SIGNALS)))
    for q in range(len(out)):
        found = {}
        for channel, row, score in zip(CHANNELS, rows, scores, strict=True):
            n = int((row[q, :_LOOKED_AT] >= 0).sum())
            found[channel] = (row[q, :n].tolist(), score[q, :n].tolist())
        out[q] = list(signals(found, int(n_entities[q]), int(n_words[q])).values())
    return out


def _whole(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The lists of the whole question, where a run has lists for its parts too."""
    return array if array.ndim == 2 else array[:, 0]
