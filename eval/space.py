"""The search space of a segment, and nDCG@10 of all of its settings on all questions at once.

A setting is what a profile row decides for retrieval: weights (multiples of 0.05 on the simplex of the three channels,
0 included), ``rrf_k``, depth, and the walk (hop limit and walk parameters). ``best_fixed`` and the tuner search exactly
this space; they differ only in the number of segments.

For one question let C be the chunks in any channel's first ``depth`` hits, r_c(d) the rank of d in channel c (∞ where
absent) and V[d, c] = 1/(rrf_k + r_c(d)). All weight settings are one product V·Wᵀ, the rank of a gold chunk is one plus
the number of chunks with a higher score (ties by chunk id, as in ``rag.fusion``), and

    nDCG@10 = Σ_gold [rank ≤ 10] / log2(1 + rank)  ÷  Σ_{i ≤ min(10, |gold|)} 1/log2(1 + i).

Scores are compared at 12 decimals, so that sums that differ only by the order of addition tie.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.datasets import SetQuestion
from eval.runs import DEPTH, ChannelRuns, Run, walk_key
from rag.files import write_whole
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, Segment, Walk, Weights

Matrix = npt.NDArray[np.float64]
Quality = npt.NDArray[np.float32]

WEIGHT_STEP = 0.05
RRF_K = (1, 5, 10, 20, 60)
DEPTHS = (20, DEPTH)
_BASE_WALKS = (
    Walk(restart=0.2, dense_mass=0.1, dense_share=0.1, temperature=0.2),
    Walk(restart=0.1, dense_mass=0.5, dense_share=0.3, temperature=0.2),
    Walk(restart=0.1, dense_mass=1.0, dense_share=0.5, temperature=0.2),
    Walk(restart=0.1, dense_mass=1.0, dense_share=0.5, temperature=None),
    Walk(restart=0.3, dense_mass=0.5, dense_share=0.5, temperature=0.1),
    Walk(restart=0.2, dense_mass=1.0, dense_share=1.0, temperature=0.2),
)
_DECIMALS = 12
_STEPS = 65535
_TOP = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of the space; ``weights`` are in the order of ``CHANNELS``."""

    weights: tuple[float, ...]
    rrf_k: int
    depth: int
    walk: Walk

    @property
    def as_weights(self) -> Weights:
        """The weights as a noun."""
        return Weights(dict(zip(CHANNELS, self.weights, strict=True)))


def weight_grid(step: float = WEIGHT_STEP, n_channels: int = len(CHANNELS)) -> Matrix:
    """All weight vectors that are multiples of ``step`` and sum to 1, shape (settings, channels)."""
    parts = round(1 / step)
    rows = [c for c in product(range(parts + 1), repeat=n_channels - 1) if sum(c) <= parts]
    return np.array([(*row, parts - sum(row)) for row in rows], np.float64) / parts


def walks(hops: Sequence[int] = (1, 2, 3)) -> tuple[Walk, ...]:
    """The walks of the space: each parameter set with each hop limit."""
    return tuple(replace(walk, max_hops=n) for walk in _BASE_WALKS for n in hops)


@dataclass(frozen=True)
class Space:
    """Axes of the search; settings are numbered walk-major, then depth, ``rrf_k``, weights."""

    weights: Matrix
    rrf_k: tuple[int, ...] = RRF_K
    depths: tuple[int, ...] = DEPTHS
    walks: tuple[Walk, ...] = ()

    @staticmethod
    def default() -> Space:
        """The space of ``best_fixed`` and of the tuner."""
        return Space(weight_grid(), walks=walks())

    @property
    def digest(self) -> str:
        """Name of the axes that a block of settings depends on."""
        return hashlib.sha256(self.weights.tobytes() + repr(self.rrf_k).encode()).hexdigest()[:8]

    def __len__(self) -> int:
        return len(self.walks) * len(self.depths) * len(self.rrf_k) * len(self.weights)

    def setting(self, number: int) -> Setting:
        """The setting with a number."""
        rest, weights = divmod(number, len(self.weights))
        rest, rrf_k = divmod(rest, len(self.rrf_k))
        walk, depth = divmod(rest, len(self.depths))
        return Setting(
            tuple(float(w) for w in self.weights[weights]), self.rrf_k[rrf_k], self.depths[depth], self.walks[walk]
        )


@dataclass(frozen=True)
class Candidates:
    """Chunks of one question in id order: ``ranks`` shape (chunks, channels), inf where absent; ``gold`` positions."""

    chunks: npt.NDArray[np.int32]
    ranks: Matrix
    gold: npt.NDArray[np.int64]
    n_gold: int

    @cached_property
    def ideal(self) -> float:
        """DCG@10 of a perfect ranking."""
        return float((1 / np.log2(np.arange(2, 2 + min(_TOP, self.n_gold)))).sum())


class Ranker:
    """Turns channel runs into candidates. ``id_order[row]`` is the place of a row's chunk id among all ids."""

    def __init__(self, chunk_ids: Sequence[str], gold: Sequence[frozenset[int]]) -> None:
        self._row_at = np.array(sorted(range(len(chunk_ids)), key=chunk_ids.__getitem__), np.int32)
        self._order = np.empty(len(chunk_ids), np.int64)
        self._order[self._row_at] = np.arange(len(chunk_ids))
        self._gold = gold

    def candidates(self, question: int, runs: Sequence[Run], depth: int) -> Candidates:
        """Candidates of one question from one run per channel, in the order of ``CHANNELS``."""
        lists = [run.rows[question, :depth] for run in runs]
        lists = [rows[rows >= 0] for rows in lists]
        order = np.unique(self._order[np.concatenate(lists)])
        ranks = np.full((len(order), len(runs)), np.inf)
        for channel, rows in enumerate(lists):
            ranks[np.searchsorted(order, self._order[rows]), channel] = np.arange(1, len(rows) + 1)
        gold = self._gold[question]
        found = np.flatnonzero(np.isin(order, self._order[list(gold)]))
        return Candidates(self._row_at[order], ranks, found, len(gold))


def scores(candidates: Candidates, weights: Matrix, rrf_k: int) -> Matrix:
    """Fused scores, shape (chunks, settings), rounded to 12 decimals; 0 where no channel with weight voted."""
    values: Matrix = np.round((1 / (rrf_k + candidates.ranks)) @ weights.T, _DECIMALS)
    return values


def ndcg_of(candidates: Candidates, weights: Matrix, rrf_ks: Sequence[int]) -> Matrix:
    """nDCG@10 of every ``rrf_k`` with every weight setting, shape (rrf_ks, settings).

    Only a chunk that some channel ranks before a gold chunk can come before it, so all others are left out; a gold chunk
    that ten chunks precede in every channel cannot be among the first ten.
    """
    gain = np.zeros((len(rrf_ks), len(weights)))
    constants = np.array(rrf_ks, np.float64)[:, None, None]
    for gold in candidates.gold:
        ahead = candidates.ranks < candidates.ranks[gold]
        if ahead.all(axis=1).sum() >= _TOP:
            continue
        rivals = np.flatnonzero(ahead.any(axis=1))
        chosen = np.append(rivals, gold)
        fused = np.round((1 / (constants + candidates.ranks[chosen])) @ weights.T, _DECIMALS)
        mine = fused[:, -1:, :]
        first = rivals < gold
        rank = 1 + (fused[:, :-1] > mine).sum(axis=1) + (fused[:, :-1][:, first] == mine).sum(axis=1)
        gain += np.where((rank <= _TOP) & (mine[:, 0] > 0), 1 / np.log2(1 + rank), 0.0)
    return gain / candidates.ideal


def ranking(candidates: Candidates, weights: Sequence[float], rrf_k: int) -> npt.NDArray[np.int32]:
    """Index rows fused by one setting, best first; chunks without a vote are left out."""
    fused = scores(candidates, np.array([weights], np.float64), rrf_k)[:, 0]
    order = np.lexsort((np.arange(len(fused)), -fused))
    return candidates.chunks[order[fused[order] > 0]]


def evaluate(runs: ChannelRuns, space: Space) -> Quality:
    """nDCG@10 of every setting on every question, shape (len(space), questions), in the space's numbering.

    Kept in steps of 1/65535.
    """

    def steps(walk: Walk, depth: int) -> npt.NDArray[np.uint16]:
        return np.round(_block(runs, space, walk, depth) * _STEPS).astype(np.uint16)

    return kept_blocks(runs.folder, space, len(runs.index.questions), steps) / np.float32(_STEPS)


def kept_blocks(
    folder: Path, space: Space, n_questions: int, block: Callable[[Walk, int], npt.NDArray[Any]]
) -> Quality:
    """Blocks of all walks and depths, one below the other, shape (len(space), questions); each is kept in the folder.

    ``block(walk, depth)`` has a row for every ``rrf_k`` and weight setting.
    """
    size = len(space.rrf_k) * len(space.weights)
    out = np.empty((len(space), n_questions), np.float32)
    jobs = [(walk, depth) for walk in space.walks for depth in space.depths]
    for number, (walk, depth) in enumerate(tqdm(jobs, desc="설정 탐색", unit="보행×깊이", leave=False)):
        path = folder / f"quality-{space.digest}-d{depth}-{walk_key(walk)}.npy"
        if not path.exists():
            buffer = io.BytesIO()
            np.save(buffer, block(walk, depth))
            write_whole(path, buffer.getvalue())
        out[number * size : (number + 1) * size] = np.load(path)
    return out


def _block(runs: ChannelRuns, space: Space, walk: Walk, depth: int) -> Quality:
    ranker, by_channel = Ranker(runs.index.chunk_ids, runs.index.gold), channel_runs(runs, walk)
    columns = []
    for question in range(len(runs.index.questions)):
        candidates = ranker.candidates(question, by_channel, depth)
        columns.append(ndcg_of(candidates, space.weights, space.rrf_k).ravel())
    return np.array(columns, np.float32).T


class Asked(Protocol):
    """A question's reading."""

    @property
    def segment(self) -> Segment:
        """x(q)."""


class SearchedIndex(Protocol):
    """The questions of an index."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its sets."""

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """Ids of its passages by row."""

    @property
    def questions(self) -> tuple[SetQuestion, ...]:
        """In the order of the runs."""

    @property
    def readings(self) -> Sequence[Asked]:
        """Their readings."""


class Searched(Protocol):
    """Runs of the three channels, of a public index or of the farm set."""

    @property
    def index(self) -> SearchedIndex:
        """The index."""

    def entity_counts(self) -> npt.NDArray[np.int32]:
        """Known entities per question."""

    def word_counts(self) -> npt.NDArray[np.int32]:
        """BM25 words per question."""

    def dense(self) -> Run:
        """Dense search."""

    def sparse(self) -> Run:
        """BM25."""

    def graph(self, walk: Walk) -> Run:
        """The walk with one set of parameters."""


def channel_runs(runs: Searched, walk: Walk) -> tuple[Run, ...]:
    """One run per channel, in the order of ``CHANNELS``."""
    by_name = {VECTOR: runs.dense(), BM25: runs.sparse(), GRAPH: runs.graph(walk)}
    return tuple(by_name[channel] for channel in CHANNELS)
