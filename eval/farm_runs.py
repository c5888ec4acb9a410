"""Channel runs of the farm set: the questions through the pipeline's own reading and channels, at maximum depth, cached.

The counterpart of ``eval.runs`` for a store with documents, filters, scopes and questions of several parts. A question
has one list per channel and part (the whole question is part 0); a part votes with its share. What is found are
documents: Recall, nDCG and MRR are those of ``eval.farm`` over the first ``RANKED`` passages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.compare import FARM
from eval.datasets import SetQuestion
from eval.farm import ndcg_at_10, recall_at, reciprocal_rank
from eval.metrics import MAIN
from eval.questions import Question
from eval.runs import DEPTH, Run, RunCache, walk_key
from eval.space import Matrix, Quality, Setting, Space, channel_runs, kept_blocks
from rag.channels.base import Channel
from rag.fusion_retriever import MIN_RANKING
from rag.pipeline import Pipeline, Understood
from rag.query.expand import SUB_SHARE
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, Query, Scope, Segment, Walk
from rag.tracing import Recorder

RANKED = MIN_RANKING


@dataclass(frozen=True, slots=True)
class FarmReading:
    """What a profile needs to know of a question."""

    segment: Segment
    n_entities: int
    n_words: int


class FarmIndex:
    """Questions with answers on file, read by the pipeline, and the passages their scopes can see.

    ``documents[row]`` is the document of passage ``chunk_ids[row]``; rows are in the order of chunk ids.
    """

    def __init__(self, pipeline: Pipeline, asked: Sequence[Question]) -> None:
        self.asked = tuple(q for q in asked if q.answerable)
        self.names = (FARM,)
        self.questions = tuple(
            SetQuestion(
                id=q.id,
                set_name=FARM,
                text=q.question,
                gold=tuple(sorted({d for group in q.gold for d in group})),
                type=q.kind,
                exact=True,
            )
            for q in self.asked
        )
        self.understood: tuple[Understood, ...] = tuple(
            pipeline.understand(Query(text=q.question, scope=Scope(farm_id=q.farm), asked_at=q.asked_at), Recorder())
            for q in tqdm(self.asked, desc="질문 읽기", unit="개", leave=False)
        )
        self.readings = tuple(
            FarmReading(u.features.segment, len(u.plan.queries[0].entities), len(u.plan.queries[0].tokens))
            for u in self.understood
        )
        of: dict[str, str] = {}
        for u in self.understood:
            level = u.asked.view.levels[u.plan.granularity]
            ids = [d.doc_id for d in u.asked.view.documents]
            of |= {c: ids[d] for c, d in zip(level.chunk_ids, level.document_of.tolist(), strict=True)}
        self.chunk_ids = tuple(sorted(of))
        self.row_of = {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}
        names = sorted(set(of.values()))
        number = {name: i for i, name in enumerate(names)}
        self.document_names = tuple(names)
        self.documents = np.array([number[of[c]] for c in self.chunk_ids], np.int64)
        self.gold = tuple(
            tuple(np.array([number[d] for d in group if d in number], np.int64) for group in q.gold) for q in self.asked
        )

    @property
    def digest(self) -> str:
        """Names what was asked of the channels and of which documents."""
        told = hashlib.sha256()
        for u in self.understood:
            told.update(u.asked.view.digest.encode())
            told.update(repr((u.plan.filters, u.plan.granularity, u.plan.scope)).encode())
            for query in u.plan.queries:
                told.update(repr((query.text, query.tokens, query.entities, query.expansions, query.filters)).encode())
                told.update(b"" if query.vector is None else query.vector.tobytes())
        return told.hexdigest()[:12]


class FarmRuns:
    """The runs of a farm index: rows and scores of shape (questions, parts, DEPTH), −1 where a list ends."""

    def __init__(self, index: FarmIndex, channels: Sequence[Channel], cache: Path) -> None:
        self.index = index
        self._channels = {channel.name: channel for channel in channels}
        self.folder = cache / f"runs-{FARM}-{index.digest}"
        self._cache = RunCache(self.folder)

    def dense(self) -> Run:
        """Dense search."""
        return self._run(VECTOR, VECTOR, None)

    def sparse(self) -> Run:
        """BM25."""
        return self._run(BM25, BM25, None)

    def graph(self, walk: Walk) -> Run:
        """The walk with one set of parameters."""
        return self._run(f"{GRAPH}-{walk_key(walk)}", GRAPH, walk)

    def entity_counts(self) -> npt.NDArray[np.int32]:
        """Known entities per question."""
        return np.array([reading.n_entities for reading in self.index.readings], np.int32)

    def word_counts(self) -> npt.NDArray[np.int32]:
        """BM25 words per question."""
        return np.array([reading.n_words for reading in self.index.readings], np.int32)

    def _run(self, name: str, channel: str, walk: Walk | None) -> Run:
        return self._cache.get(name, lambda: self._search(self._channels[channel], walk, name))

    def _search(self, channel: Channel, walk: Walk | None, name: str) -> Run:
        index = self.index
        parts = max(len(u.plan.queries) for u in index.understood)
        rows = np.full((len(index.questions), parts, DEPTH), -1, np.int32)
        scores = np.zeros(rows.shape, np.float32)
        for q, understood in enumerate(tqdm(index.understood, desc=name, unit="질문", leave=False)):
            plan = replace(understood.plan, depth=dict.fromkeys(CHANNELS, DEPTH), walk=walk or understood.plan.walk)
            for part, query in enumerate(plan.queries):
                hits = channel.search(plan.of(query), query).hits
                rows[q, part, : len(hits)] = [index.row_of[hit.chunk_id] for hit in hits]
                scores[q, part, : len(hits)] = [hit.score for hit in hits]
        return Run(rows, scores)


def vote_values(
    lists: Sequence[npt.NDArray[np.int32]], rrf_k: int, depth: int, share: float = SUB_SHARE
) -> tuple[npt.NDArray[np.int64], Matrix]:
    """Rows that any channel found, rising, and Σ over parts of s/(rrf_k + rank) per channel, shape (rows, channels).

    ``lists`` holds one array (parts, DEPTH) per channel; s is 1 for the whole question (part 0), ``share`` for the others.
    """
    found = np.unique(np.concatenate([rows[:, :depth].ravel() for rows in lists]))
    found = found[found >= 0].astype(np.int64)
    values = np.zeros((len(found), len(lists)))
    votes = 1 / (rrf_k + np.arange(1, depth + 1, dtype=np.float64))
    for channel, parts in enumerate(lists):
        for part, rows in enumerate(parts[:, :depth]):
            length = int((rows >= 0).sum())
            values[np.searchsorted(found, rows[:length]), channel] += votes[:length] * (share if part else 1.0)
    return found, values


def ranked_documents(runs: FarmRuns, question: int, setting: Setting) -> list[str]:
    """Distinct documents of the first ``RANKED`` passages under one setting, best first."""
    lists = [run.rows[question] for run in channel_runs(runs, setting.walk)]
    found, values = vote_values(lists, setting.rrf_k, setting.depth)
    fused = np.round(values @ np.array(setting.weights), 12)
    order = np.lexsort((found, -fused))[:RANKED]
    order = order[fused[order] > 0]
    names = (runs.index.document_names[runs.index.documents[found[i]]] for i in order)
    return list(dict.fromkeys(names))


def measure(runs: FarmRuns, settings: Sequence[Setting]) -> dict[str, npt.NDArray[np.float64]]:
    """Metric → value of every question under one setting each."""
    rows: list[dict[str, float]] = []
    for number, (question, setting) in enumerate(zip(runs.index.asked, settings, strict=True)):
        documents = ranked_documents(runs, number, setting)
        row = {MAIN: ndcg_at_10(documents, question.gold), "mrr": reciprocal_rank(documents, question.gold)}
        rows.append(row | {f"recall@{k}": recall_at(documents, question.gold, k) for k in (2, 5, 10)})
    return {metric: np.array([row[metric] for row in rows]) for metric in rows[0]}


def evaluate(runs: FarmRuns, space: Space) -> Quality:
    """nDCG@10 of every setting on every question, shape (len(space), questions), in the space's numbering.

    Documents that tie share the better place; a document in two gold groups counts for the first. ``measure`` has the
    exact figures.
    """
    return kept_blocks(
        runs.folder, space, len(runs.index.questions), lambda walk, depth: _block(runs, space, walk, depth)
    )


def _block(runs: FarmRuns, space: Space, walk: Walk, depth: int) -> Quality:
    by_channel = channel_runs(runs, walk)
    columns = []
    for question, groups in enumerate(runs.index.gold):
        lists = [run.rows[question] for run in by_channel]
        column = [
            _ndcg(runs.index.documents, groups, *vote_values(lists, k, depth), space.weights) for k in space.rrf_k
        ]
        columns.append(np.concatenate(column))
    return np.array(columns, np.float32).T


def _ndcg(
    documents: npt.NDArray[np.int64],
    groups: Sequence[npt.NDArray[np.int64]],
    found: npt.NDArray[np.int64],
    values: Matrix,
    weights: Matrix,
) -> Any:
    """nDCG@10 of every weight setting on one question, shape (settings,)."""
    gain, settings = np.zeros(len(weights)), np.arange(len(weights))
    if len(found):
        order = np.argsort(documents[found], kind="stable")
        fused = np.round(values[order] @ weights.T, 12)
        owners, starts = np.unique(documents[found[order]], return_index=True)
        best = np.maximum.reduceat(fused, starts, axis=0)
        open_documents = best.copy()
        for group in groups:
            members = np.flatnonzero(np.isin(owners, group))
            if not len(members):
                continue
            first = open_documents[members].argmax(axis=0)
            mine = open_documents[members[first], settings]
            open_documents[members[first], settings] = -1.0
            place = 1 + (best > mine).sum(axis=0)
            shown = (1 + (fused > mine).sum(axis=0) <= RANKED) & (mine > 0)
            gain += np.where(shown, 1 / np.log2(1 + place), 0.0)
    ideal = float((1 / np.log2(np.arange(2, 2 + min(10, len(groups))))).sum())
    return gain / ideal
