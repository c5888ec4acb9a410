"""``qdrant-edge``: Qdrant's engine inside the process, for one-process appliances.

Settings measured in FIELD §4a: exact search (no HNSW graph is built without ``optimize()``), write-ahead log on,
one search thread. The files have one owner: with the log off a second open would corrupt them, so a file lock stands
before the engine and turns a second open into a plain sentence. Files are sparse; copy them with holes (``cp
--sparse=always``), or not at all: they are derived from the record and are filled again at the next start.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import qdrant_edge as edge
from filelock import FileLock, Timeout

from rag.errors import StoreError
from rag.schema import FloatVector, Level
from rag.stores.record import scope_folder
from rag.stores.vectors import Found, VectorRow, VectorStorePort, checked_rows, checked_vector, settled

_BATCH = 1000


class EdgeVectors:
    """One shard below ``folder``. Files that the engine cannot read, or of another dimension, are made anew, empty.

    Raises:
        StoreError: another program (or another store of this one) has the folder open, or it cannot be written.
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self._dim = dim
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._owner = FileLock(folder / ".owner.lock", thread_local=False)
            self._owner.acquire(timeout=0)
        except Timeout as error:
            raise StoreError(
                f"벡터 색인 '{folder}' 을(를) 다른 프로그램이 쓰고 있습니다. qdrant-edge 는 한 번에 한 프로그램만 엽니다. "
                "그 프로그램을 끝내거나, 함께 쓰려면 onsil.toml 의 vector_backend 를 'snapshot' 이나 'qdrant' 로 두세요."
            ) from error
        except OSError as error:
            raise StoreError(
                f"벡터 색인 폴더 '{folder}' 을(를) 만들 수 없습니다({error.strerror}). 권한과 디스크를 확인해 주세요."
            ) from error
        try:
            self._shard: edge.EdgeShard | None = _open_shard(folder / "shard", dim)
        except Exception as error:
            self._owner.release()
            raise StoreError(
                f"벡터 색인 '{folder}' 을(를) 열 수 없습니다({error}). 폴더를 지우고 다시 시작하면 새로 만들어집니다."
            ) from error
        atexit.register(self.close)

    @contextmanager
    def _engine(self) -> Iterator[edge.EdgeShard]:
        """The open shard; what the engine raises comes out as StoreError."""
        if self._shard is None:
            raise StoreError(f"닫은 벡터 색인 '{self._folder}' 입니다. 다시 열어 주세요.")
        try:
            yield self._shard
        except Exception as error:  # the engine raises plain Exception
            raise StoreError(f"벡터 색인 '{self._folder}' 오류: {error}") from error

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._dim

    def add(self, rows: Sequence[VectorRow]) -> None:
        """Write rows; the engine itself would take NaN, so they are checked first."""
        version = {row.chunk_id: row.version for row in rows}
        checked = checked_rows(rows, self._dim)
        with self._engine() as shard:
            for start in range(0, len(checked), _BATCH):
                points = [
                    edge.Point(
                        row.chunk_id,
                        row.vector.tolist(),
                        {**row.fields, "doc_id": row.doc_id, "version": version[row.chunk_id]},
                    )
                    for row in checked[start : start + _BATCH]
                ]
                shard.update(edge.UpdateOperation.upsert_points(points))

    def delete(self, doc_id: str) -> None:
        """Remove all chunks of a document."""
        with self._engine() as shard:
            shard.update(edge.UpdateOperation.delete_points_by_filter(_documents([doc_id])))

    def delete_chunks(self, chunk_ids: Collection[str]) -> None:
        """Remove chunks."""
        with self._engine() as shard:
            if chunk_ids:
                shard.update(edge.UpdateOperation.delete_points(list(chunk_ids)))

    def search(self, vector: FloatVector, depth: int, allowed: Collection[str] | None = None) -> Found:
        """The nearest chunks, exactly."""
        query = edge.Query.Nearest(checked_vector("질문 벡터", vector, self._dim).tolist())
        with self._engine() as shard:
            if allowed is not None and not allowed:
                return []
            wanted = None if allowed is None else _documents(sorted(allowed))
            params = edge.SearchParams(exact=True)

            def fetch(limit: int) -> Iterator[tuple[str, float]]:
                for point in shard.search(edge.SearchRequest(query, limit, filter=wanted, params=params)):
                    yield str(point.id), point.score

            return settled(fetch, depth)

    def versions(self) -> dict[str, str]:
        """chunk id → version."""
        found: dict[str, str] = {}
        offset: edge.PointId | None = None
        with self._engine() as shard:
            while True:
                request = edge.ScrollRequest(offset=offset, limit=_BATCH, with_payload=["version"], with_vector=False)
                points, offset = shard.scroll(request)
                found.update({str(point.id): str((point.payload or {}).get("version", "")) for point in points})
                if offset is None:
                    return found

    def count(self) -> int:
        """Number of chunks."""
        with self._engine() as shard:
            return int(shard.count(edge.CountRequest(exact=True)))

    def close(self) -> None:
        """Flush and release the files; called at the end of the process too."""
        shard, self._shard = self._shard, None
        if shard is not None:
            shard.close()
            self._owner.release()
            atexit.unregister(self.close)


class EdgeBackend:
    """Edge stores inside the scopes' folders: removing a farm's folder removes its vectors."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def open(self, scope_id: str, level: Level, dim: int) -> VectorStorePort:
        """The store of a scope and level."""
        return EdgeVectors(scope_folder(self._store, scope_id) / "vectors-edge" / level, dim)

    def prune(self, scope_ids: Collection[str]) -> None:
        """Nothing to do: vectors lie in the scopes' folders."""


def _open_shard(path: Path, dim: int) -> edge.EdgeShard:
    config = edge.EdgeConfig(
        vectors=edge.EdgeVectorParams(size=dim, distance=edge.Distance.Cosine), max_search_threads=1, wal_enabled=True
    )
    if path.exists():
        try:
            return edge.EdgeShard.load(str(path), config)
        except Exception:  # torn at creation, or another dimension: derived data, made anew
            shutil.rmtree(path)
    path.mkdir()
    shard = edge.EdgeShard.create(str(path), config)
    shard.update(edge.UpdateOperation.create_field_index("doc_id", edge.PayloadSchemaType.Keyword))
    return shard


def _documents(doc_ids: list[str]) -> edge.Filter:
    return edge.Filter(must=[edge.FieldCondition("doc_id", match=edge.MatchAny(doc_ids))])
