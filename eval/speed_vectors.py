"""Vector backends side by side: the same generated vectors, with and without a document filter.

``snapshot`` is what the app does with it (one matrix product, mask, partial sort), the others answer through their port
as the app asks them. Ten chunks a document; the filter lets one document in ten pass, spread evenly. All are exact, so
``agreement`` (share of the snapshot's first ``depth`` chunks that come back) is 1 but for ties. Median milliseconds
after a warm-up; ``ratio_to_snapshot`` is median ÷ median. The in-memory client is Qdrant's test double: slow, and asked
``FEW`` questions only. A server takes part where its address is given.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.timing import StopWatch
from rag.errors import StoreError
from rag.schema import PUBLIC
from rag.stores.bm25_index import top_rows
from rag.stores.sync import VectorBackend
from rag.stores.vectors import VectorRow, VectorStorePort

CHUNKS_A_DOCUMENT = 10
ONE_IN = 10
FEW = 5
_BATCH = 2_000
_SERVER_TIMEOUT_S = 120.0
# No further question is asked of a backend after this; the in-memory client needs a minute for a filtered one.
_BUDGET_S = 30.0
SNAPSHOT, EDGE, MEMORY, SERVER = "snapshot", "qdrant-edge", "qdrant-memory", "qdrant-server"
BACKENDS = (SNAPSHOT, EDGE, MEMORY, SERVER)

Matrix = npt.NDArray[np.float32]
Search = Callable[[Matrix, bool], list[str]]


def chunk_id(row: int) -> str:
    """Id of a generated chunk."""
    return str(uuid.UUID(int=row))


def doc_id(number: int) -> str:
    """Id of a generated document."""
    return f"{PUBLIC}/{number}.md"


def rows_of(matrix: Matrix) -> Iterator[list[VectorRow]]:
    """All rows, a batch at a time: the matrix stays on disk."""
    for start in range(0, len(matrix), _BATCH):
        yield [
            VectorRow(chunk_id=chunk_id(row), doc_id=doc_id(row // CHUNKS_A_DOCUMENT), vector=np.array(matrix[row]))
            for row in range(start, min(start + _BATCH, len(matrix)))
        ]


def snapshot_search(matrix: Matrix, depth: int) -> Search:
    """The app's own search over a memory-mapped matrix."""
    document_of = np.arange(len(matrix)) // CHUNKS_A_DOCUMENT
    passing = np.arange(document_of[-1] + 1) % ONE_IN == 0

    def search(vector: Matrix, filtered: bool) -> list[str]:
        mask = passing[document_of] if filtered else None
        return [chunk_id(row) for row in top_rows(matrix @ vector, depth, above=-2.0, mask=mask)]

    return search


def port_search(port: VectorStorePort, n_chunks: int, depth: int) -> Search:
    """Search through a port."""
    n_documents = (n_chunks - 1) // CHUNKS_A_DOCUMENT + 1
    allowed = {doc_id(number) for number in range(0, n_documents, ONE_IN)}
    return lambda vector, filtered: [found for found, _ in port.search(vector, depth, allowed if filtered else None)]


def open_backend(name: str, folder: Path, qdrant: tuple[str | None, str | None]) -> VectorBackend:
    """An empty backend; ``qdrant`` is the server's address and key."""
    if name == EDGE:
        from rag.stores.vectors_edge import EdgeBackend

        return EdgeBackend(folder)
    from qdrant_client import QdrantClient

    from rag.stores.vectors_qdrant import QdrantBackend

    if name == MEMORY:
        return QdrantBackend(QdrantClient(":memory:"), ":memory:", folder)
    return QdrantBackend.connect(*qdrant, folder, _SERVER_TIMEOUT_S)


def measure_backends(
    matrix: Matrix,
    questions: Sequence[Matrix],
    depth: int,
    folder: Path,
    backends: Sequence[str],
    qdrant: tuple[str | None, str | None],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Backend → figures, or why it was not run. The first question is the warm-up; ``snapshot`` is always measured."""
    truth_search = snapshot_search(matrix, depth)
    truth = {filtered: [truth_search(vector, filtered) for vector in questions] for filtered in (False, True)}
    report: dict[str, Any] = {SNAPSHOT: _timed(truth_search, questions, truth)}
    for name in (name for name in BACKENDS if name in backends and name != SNAPSHOT):
        if name == SERVER and qdrant[0] is None:
            report[name] = {"status": "not run", "why": "no server address (qdrant_url)"}
            continue
        progress(f"  벡터 저장소 {name}…")
        asked = questions[: FEW + 1] if name == MEMORY else questions
        try:
            report[name] = _measure_port(open_backend(name, folder / name, qdrant), matrix, asked, depth, truth)
        except StoreError as error:
            report[name] = {"status": "failed", "why": str(error)}
            continue
        for kind in ("unfiltered", "filtered"):
            row = report[name][kind]
            row["ratio_to_snapshot"] = round(row["median_ms"] / report[SNAPSHOT][kind]["median_ms"], 2)
    return report


def _measure_port(
    backend: VectorBackend,
    matrix: Matrix,
    questions: Sequence[Matrix],
    depth: int,
    truth: dict[bool, list[list[str]]],
) -> dict[str, Any]:
    port = backend.open(PUBLIC, "G2", matrix.shape[1])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the in-memory client says that it is slow
            start = time.perf_counter()
            for rows in rows_of(matrix):
                port.add(rows)
            fill_s = time.perf_counter() - start
            return {**_timed(port_search(port, len(matrix), depth), questions, truth), "fill_s": round(fill_s, 1)}
    finally:
        port.close()
        backend.prune(())  # leaves a server as it was


def _timed(search: Search, questions: Sequence[Matrix], truth: dict[bool, list[list[str]]]) -> dict[str, Any]:
    report: dict[str, Any] = {"status": "ok"}
    for kind in ("unfiltered", "filtered"):
        watch, agreements = StopWatch(), []
        started = time.perf_counter()
        for vector, expected in zip(questions, truth[kind == "filtered"], strict=False):
            with watch.stage(kind):
                found = search(vector, kind == "filtered")
            agreements.append(len({*found} & {*expected}) / len(expected))
            if len(agreements) > 1 and time.perf_counter() - started > _BUDGET_S:
                break
        del watch.times[kind][:1]  # the warm-up
        report[kind] = {
            **watch.summary()[kind],
            "questions": len(watch.times[kind]),
            "agreement": round(fmean(agreements), 4),
        }
    return report
