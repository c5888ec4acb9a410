"""The farm set as an index of ``eval.compare``: the store's own reading, channels and documents.

One split, that of ``farm.jsonl``; the questions of ``farm_tune.jsonl`` join its tune part. Questions without an answer on
file are left out, for there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eval.compare import FARM, Bench, Job, Values
from eval.farm_runs import FarmIndex, FarmRuns, evaluate, measure, ranked_documents
from eval.questions import SETS_DIR, load_questions
from eval.space import Setting
from eval.splits import group_numbers
from eval.systems import TunePart
from rag.assembly import build_pipeline
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.vector import VectorChannel
from rag.errors import SettingsError
from rag.settings import load_settings

FILES = ("farm.jsonl", "farm_tune.jsonl")


def open_farm_runs(store: Path | None, cache: Path) -> FarmRuns:
    """The cached runs of the farm set on a store.

    Raises:
        RagError: the store has no index, or one built by other components.
    """
    pipeline = build_pipeline(load_settings(store=store), extractive=True)
    asked = [question for name in FILES for question in load_questions(SETS_DIR / name)]
    views = pipeline.views
    channels = (VectorChannel(views), Bm25Channel(views), GraphChannel(views))
    return FarmRuns(FarmIndex(pipeline, asked), channels, cache)


class FarmBench(Bench):
    """A bench whose items are documents."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.runs = runs = open_farm_runs(job.store, job.cache)
        self.index = runs.index
        self.quality = evaluate(runs, job.space)
        self.set_of = np.full(len(runs.index.questions), job.sets.index(FARM))
        self.groups = group_numbers(runs.index.questions)
        self.gold = tuple(frozenset(int(d) for group in groups for d in group) for groups in runs.index.gold)
        self._measured: dict[tuple[Setting, ...], dict[str, Values]] = {}
        self._farm = runs

    @property
    def public_index(self) -> None:
        """A store's stages are timed by ``eval latency``."""

    def part(self, seed: int) -> TunePart:
        """The committed split, whatever the seed."""
        tune = np.array([question.split == "tune" for question in self._farm.index.asked])
        return TunePart(self.job.space, self.quality, tune, self.set_of)

    def measure(self, settings: tuple[Setting, ...]) -> dict[str, Values]:
        """Metric → value of every question under one setting each."""
        if not settings:
            raise SettingsError("LlamaIndex 기본 융합은 농장 세트에서 재지 않습니다. --systems 에서 빼 주세요.")
        if settings not in self._measured:
            self._measured[settings] = measure(self._farm, settings)
        return self._measured[settings]

    def ranked(self, settings: tuple[Setting, ...]) -> Sequence[npt.NDArray[np.int64]]:
        """Ranked documents of every question."""
        number = {name: i for i, name in enumerate(self._farm.index.document_names)}
        return [
            np.array([number[name] for name in ranked_documents(self._farm, q, setting)], np.int64)
            for q, setting in enumerate(settings)
        ]

    def items(self, rows: npt.NDArray[np.int32]) -> set[int]:
        """Documents of the passages."""
        return set(self._farm.index.documents[rows[rows >= 0]].tolist())
