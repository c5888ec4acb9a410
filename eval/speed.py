"""``python -m eval speed``: the heavy steps of a question at 15,000 and 100,000 chunks, on generated data.

Generated from a fixed seed: unit vectors of 384 dimensions in a memory-mapped float32 matrix (as a snapshot keeps them);
60 tokens a chunk from a Zipf law over 50,000 words; 8 mentions a chunk from a Zipf law over half as many entities as
chunks; one typed relation per four entities. Figures are medians over questions with 3 entities and 8 words, after a
warm-up, single-threaded where the environment says so (OMP_NUM_THREADS). ``vectors`` compares the vector backends on the
same matrix (``eval.speed_vectors``); ``steps`` is the path of a question with the default ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.speed_vectors import BACKENDS, measure_backends
from eval.timing import StopWatch
from rag.channels.walk import walk_scores
from rag.lexicon import NAME
from rag.schema import Walk
from rag.stores.bm25_index import Bm25Index, top_rows
from rag.stores.graph_index import GraphIndex, Seeds

DIM, TOKENS, WORDS, MENTIONS = 384, 60, 50_000, 8
DEPTH = 100
SIZES = (15_000, 100_000)
_WALKS = {f"walk_{hops}_hops": Walk(max_hops=hops) for hops in (1, 2, 3)}


def zipf(rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Numbers below ``n`` with P(i) ∝ 1/(i + 10)."""
    weight = 1 / (np.arange(n) + 10.0)
    found: npt.NDArray[np.int64] = np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(shape))
    return np.minimum(found, n - 1)


def make_graph(rng: np.random.Generator, n_chunks: int) -> GraphIndex:
    """A graph with ``MENTIONS`` mentions a chunk."""
    n_entities = n_chunks // 2
    entities = zipf(rng, n_entities, (n_chunks, MENTIONS))
    mentions = [(row, f"e{e}", NAME, 1, e % 7 == 0) for row in range(n_chunks) for e in sorted(set(entities[row]))]
    pairs = zipf(rng, n_entities, (n_entities // 4, 2))
    relations = [(0, f"e{a}", "관련", f"e{b}", 0.8) for a, b in pairs if a != b]
    return GraphIndex(n_chunks, mentions, relations)


def make_vectors(rng: np.random.Generator, n_chunks: int, folder: Path) -> npt.NDArray[np.float32]:
    """Unit rows, written and memory-mapped again."""
    matrix = rng.standard_normal((n_chunks, DIM), np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    np.save(folder / "vectors.npy", matrix)
    mapped: npt.NDArray[np.float32] = np.load(folder / "vectors.npy", mmap_mode="r")
    return mapped


def make_questions(seed: int, n: int) -> list[npt.NDArray[np.float32]]:
    """Unit vectors."""
    vectors = np.random.default_rng(seed).standard_normal((n, DIM), np.float32)
    return list(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def run_speed(
    sizes: Sequence[int],
    n_questions: int,
    progress: Callable[[str], None] = print,
    *,
    backends: Sequence[str] = BACKENDS,
    qdrant: tuple[str | None, str | None] = (None, None),
) -> dict[str, Any]:
    """Medians and 95th percentiles per size and step, and per vector backend; ``qdrant``: a server's address and key."""
    report: dict[str, Any] = {"questions": n_questions, "sizes": {}}
    for n_chunks in sizes:
        progress(f"문단 {n_chunks:,}개를 만드는 중…")
        with tempfile.TemporaryDirectory() as folder:
            row = report["sizes"][str(n_chunks)] = _measure(n_chunks, n_questions, Path(folder))
            matrix = np.load(Path(folder) / "vectors.npy", mmap_mode="r")
            asked = make_questions(n_chunks + 1, n_questions + 1)
            row["vectors"] = measure_backends(matrix, asked, DEPTH, Path(folder), backends, qdrant, progress)
    return report


def _measure(n_chunks: int, n_questions: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(n_chunks)
    matrix = make_vectors(rng, n_chunks, folder)
    bm25 = Bm25Index.build([[f"w{t}" for t in row] for row in zipf(rng, WORDS, (n_chunks, TOKENS))])
    graph = make_graph(rng, n_chunks)
    watch = StopWatch()
    for number in range(n_questions + 1):
        vector = rng.standard_normal(DIM).astype(np.float32)
        vector /= np.linalg.norm(vector)
        words = [f"w{t}" for t in zipf(rng, WORDS, (8,))]
        names = [f"e{e}" for e in zipf(rng, n_chunks // 2, (3,))]
        _ask(watch, matrix, bm25, graph, vector, words, names)
        if number == 0:
            watch.times.clear()
    return {"mentions": int(graph.mentions.nnz), "entities": len(graph.entities), "steps": watch.summary()}


def _ask(
    watch: StopWatch,
    matrix: npt.NDArray[np.float32],
    bm25: Bm25Index,
    graph: GraphIndex,
    vector: npt.NDArray[np.float32],
    words: Sequence[str],
    names: Sequence[str],
) -> None:
    with watch.stage("vectors_snapshot"):
        similarities = matrix @ vector
        top_rows(similarities, DEPTH, above=-2.0, mask=None)
    with watch.stage("bm25"):
        top_rows(bm25.scores(words), DEPTH, above=0.0, mask=None)
    with watch.stage("entities"):
        graph.entities_in(" ".join(names), ())
    for name, walk in _WALKS.items():
        with watch.stage(name):
            scores = walk_scores(graph, names, similarities, walk).astype(np.float32)
            top_rows(scores, DEPTH, above=-np.inf, mask=None)
    with watch.stage("neighbourhood_2_hops"):
        graph.neighbourhood(Seeds(entities=names), 2)
