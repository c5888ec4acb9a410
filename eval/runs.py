"""Channel runs: every question through every channel once, at maximum depth, kept on disk and reused by all systems.

A run is two arrays of shape (questions, DEPTH): index rows, best first, −1 where the channel returned no more, and the
channel's own scores. Files are named by what they depend on: the sets' content, tokenizer, lexicon, code version and,
for the graph, the walk. A graph run for a walk that nobody asked for yet is computed when it is first needed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.datasets import DataSet, SetQuestion
from eval.reading import QuestionReading, SetReading
from rag.channels.walk import walk_scores
from rag.files import write_whole
from rag.schema import BM25, GRAPH, VECTOR, Walk
from rag.stores.bm25_index import Bm25Index, top_rows
from rag.stores.graph_index import GraphIndex

DEPTH = 100
# Bumped when a channel would rank otherwise with the same inputs.
CHANNELS_VERSION = 2

Rows = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Run:
    """``rows[q, i]`` is the (i+1)-th hit of question q, −1 for none."""

    rows: Rows
    scores: Scores


class RunCache:
    """Runs by name: in memory, else from the folder, else searched and kept there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Run] = {}

    def get(self, name: str, search: Callable[[], Run]) -> Run:
        """The run of a name, by ``search`` where it is nowhere yet."""
        if name not in self._kept:
            path = self._folder / f"{name}.npz"
            if not path.exists():
                run, buffer = search(), io.BytesIO()
                np.savez_compressed(buffer, rows=run.rows, scores=run.scores)
                write_whole(path, buffer.getvalue())
            with np.load(path) as arrays:
                self._kept[name] = Run(arrays["rows"], arrays["scores"])
        return self._kept[name]


class EvalIndex:
    """One index over one or several sets, with the questions of all of them."""

    def __init__(self, sets: Sequence[DataSet], readings: Sequence[SetReading]) -> None:
        self.names = tuple(s.name for s in sets)
        self.chunk_ids = tuple(p.id for s in sets for p in s.passages)
        self.row_of = {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}
        self.questions: tuple[SetQuestion, ...] = tuple(q for s in sets for q in s.questions)
        self.readings: tuple[QuestionReading, ...] = tuple(q for r in readings for q in r.questions)
        self.matrix = np.concatenate([s.passage_vectors for s in sets])
        self.question_vectors = np.concatenate([s.question_vectors for s in sets])
        passages = [p for r in readings for p in r.passages]
        self.bm25 = Bm25Index.build([tokens for tokens, _ in passages])
        mentions = [(row, *entity) for row, (_, entities) in enumerate(passages) for entity in entities]
        self.graph = GraphIndex(len(passages), mentions, [])
        self.entities = tuple(
            self.graph.entities_in(q.text, r.entities) for q, r in zip(self.questions, self.readings, strict=True)
        )
        self.gold = tuple(frozenset(self.row_of[g] for g in q.gold) for q in self.questions)


class ChannelRuns:
    """The runs of an index, from the cache folder or computed into it."""

    def __init__(self, index: Callable[[], EvalIndex], sets: Sequence[DataSet], version: str, cache: Path) -> None:
        self._build = index
        self._index: EvalIndex | None = None
        name = "+".join(s.name for s in sets)
        digest = hashlib.sha256("|".join([*(s.digest for s in sets), version]).encode()).hexdigest()[:12]
        self.folder = cache / f"runs-{name}-{digest}-{CHANNELS_VERSION}"
        self._cache = RunCache(self.folder)

    @property
    def index(self) -> EvalIndex:
        """The index, built when first needed."""
        if self._index is None:
            self._index = self._build()
        return self._index

    def dense(self) -> Run:
        """Exact cosine search."""
        return self._run(VECTOR, lambda q: self._dense_scores(q), above=-2.0)

    def sparse(self) -> Run:
        """BM25; rows with score 0 are left out."""
        return self._run(BM25, lambda q: self.index.bm25.scores(self.index.readings[q].tokens), above=0.0)

    def graph(self, walk: Walk) -> Run:
        """The walk with one set of parameters."""
        return self._run(f"{GRAPH}-{walk_key(walk)}", lambda q: self._walk(q, walk), above=-np.inf)

    def entity_counts(self) -> npt.NDArray[np.int32]:
        """Known entities per question, an evidence signal."""
        return np.array([len(entities) for entities in self.index.entities], np.int32)

    def word_counts(self) -> npt.NDArray[np.int32]:
        """BM25 words per question, an evidence signal."""
        return np.array([len(reading.tokens) for reading in self.index.readings], np.int32)

    def _dense_scores(self, question: int) -> Scores:
        scores: Scores = self.index.matrix @ self.index.question_vectors[question]
        return scores

    def _walk(self, question: int, walk: Walk) -> Scores:
        index = self.index
        scores = walk_scores(index.graph, index.entities[question], self._dense_scores(question), walk)
        return scores.astype(np.float32)

    def _run(self, name: str, scores: Callable[[int], Scores], *, above: float) -> Run:
        return self._cache.get(name, lambda: search_all(len(self.index.questions), scores, above, name))


def search_all(n_questions: int, scores: Callable[[int], Scores], above: float, name: str) -> Run:
    """Rows of the DEPTH best scores above ``above`` for every question."""
    rows = np.full((n_questions, DEPTH), -1, np.int32)
    values = np.zeros((n_questions, DEPTH), np.float32)
    for question in tqdm(range(n_questions), desc=name, unit="질문", leave=False):
        found = scores(question)
        top = top_rows(found, DEPTH, above=above, mask=None)
        rows[question, : len(top)] = top
        values[question, : len(top)] = found[top]
    return Run(rows, values)


def walk_key(walk: Walk) -> str:
    """Readable, file-safe name of walk parameters: hops, restart, dense mass, share, temperature, relation share."""
    return "h{}-a{:g}-m{:g}-z{:g}-t{}-r{:g}".format(*astuple(walk)[:4], _temperature(walk), walk.relation_share)


def _temperature(walk: Walk) -> str:
    return "off" if walk.temperature is None else f"{walk.temperature:g}"
