"""Milliseconds of the stages of a question on an evaluation index, warm; medians over a sample of questions."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from eval.reading import ASKED_AT
from eval.runs import DEPTH, EvalIndex
from rag.channels.walk import walk_scores
from rag.fusion import fuse
from rag.query.features import read_question
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, ChannelResult, Hit, Query, Scope, Walk, Weights
from rag.stores.bm25_index import top_rows
from rag.stores.catalogue import Catalogue
from rag.text import Korean

CONTROL = "read"
FUSE = "fusion"
_SAMPLE = 100


class StopWatch:
    """Collects milliseconds per stage."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one block."""
        start = time.perf_counter()
        yield
        self.times[name].append((time.perf_counter() - start) * 1000)

    def summary(self) -> dict[str, dict[str, float]]:
        """Stage → median and 95th percentile."""
        return {
            stage: {
                "median_ms": round(float(np.median(times)), 3),
                "p95_ms": round(float(np.percentile(times, 95)), 3),
            }
            for stage, times in self.times.items()
        }


def time_stages(index: EvalIndex, korean: Korean, walk: Walk) -> dict[str, dict[str, float]]:
    """Reading, the three channels and fusion of up to 100 questions spread over the index; the first is a warm-up."""
    watch = StopWatch()
    step = max(1, len(index.questions) // _SAMPLE)
    for number, question in enumerate([0, *range(0, len(index.questions), step)]):
        _time_one(index, korean, walk, question, watch)
        if number == 0:
            watch.times.clear()
    return watch.summary()


def _time_one(index: EvalIndex, korean: Korean, walk: Walk, question: int, watch: StopWatch) -> None:
    text, vector = index.questions[question].text, index.question_vectors[question]
    with watch.stage(CONTROL):
        query = Query(text=text, scope=Scope(), asked_at=ASKED_AT)
        features, analysis = read_question(query, korean, Catalogue.of((), ""), None)
        entities = index.graph.entities_in(text, analysis.entities)
    results = []
    with watch.stage(VECTOR):
        similarities = index.matrix @ vector
        results.append(_result(index, VECTOR, top_rows(similarities, DEPTH, above=-2.0, mask=None)))
    with watch.stage(BM25):
        scores = index.bm25.scores(features.keywords)
        results.append(_result(index, BM25, top_rows(scores, DEPTH, above=0.0, mask=None)))
    with watch.stage(GRAPH):
        walked = walk_scores(index.graph, entities, similarities, walk).astype(np.float32)
        results.append(_result(index, GRAPH, top_rows(walked, DEPTH, above=-np.inf, mask=None)))
    with watch.stage(FUSE):
        fuse(results, Weights.equal(), 60, limit=10)


def _result(index: EvalIndex, channel: str, rows: Sequence[int]) -> ChannelResult:
    hits = tuple(
        Hit(chunk_id=index.chunk_ids[row], scope_id="public", rank=rank, score=0.0) for rank, row in enumerate(rows, 1)
    )
    return ChannelResult(channel=channel, status="ok" if hits else "empty", hits=hits)


def system_costs(stages: Mapping[str, Mapping[str, float]], weights: Mapping[str, Weights]) -> dict[str, float]:
    """Median milliseconds of each system: reading, its channels and fusion (channels one after the other).

    The graph channel needs the similarities of the vector channel, so it pays for them too.
    """

    def cost(given: Weights) -> float:
        used = {channel for channel in CHANNELS if given[channel] > 0}
        used |= {VECTOR} if GRAPH in used else set()
        names = [CONTROL, *used, *([FUSE] if len(used) > 1 else [])]
        return round(sum(stages[name]["median_ms"] for name in names), 3)

    return {system: cost(given) for system, given in weights.items()}
