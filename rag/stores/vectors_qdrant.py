"""``qdrant``: a Qdrant server or cluster, through LlamaIndex's ``QdrantVectorStore``.

To use a server::

    docker compose up -d qdrant                      # or any Qdrant 1.10+, also a cluster or Qdrant Cloud

    # onsil.toml
    vector_backend = "qdrant"
    qdrant_url = "http://127.0.0.1:6333"

    # only where the server asks for a key; in the environment, not in the file
    export ONSIL_QDRANT_API_KEY=…

At start each scope's collection is brought in line with the snapshot (``stores/sync.py``); nothing else is to be
done. A server that cannot be reached costs the question one channel, not the answer. Collections are named
``onsil-<store>-<scope hash>-<level>-<dimensions>``: farm names are not readable on the server, two installations on
one server never meet, and collections of a farm whose folder is gone are dropped at start. Texts are not sent.

Search is exact (``exact=True``, no HNSW graph is built), so that a ranking is the same with every backend.
``QdrantClient(":memory:")`` serves tests only (FIELD §4a).
"""

from __future__ import annotations

import hashlib
import uuid
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from rag.errors import SettingsError, StoreError
from rag.schema import FloatVector, Level
from rag.stores.vectors import Found, VectorRow, VectorStorePort, checked_rows, checked_vector, settled

_BATCH = 256
_SCROLL = 2000


class QdrantVectors:
    """One collection. ``where`` names the server in messages (never with a key); the client is shared, not closed.

    Raises:
        StoreError: the server cannot be reached, refuses the key, or the collection has another dimension.
    """

    def __init__(self, client: QdrantClient, collection: str, dim: int, where: str) -> None:
        self._client = client
        self._collection = collection
        self._dim = dim
        self._where = where
        self._closed = False
        with self._server():
            self._ensure()
            self._store = QdrantVectorStore(collection, client=client, batch_size=_BATCH)

    def _ensure(self) -> None:
        """Make the collection where it is missing (a new or an emptied server)."""
        if self._client.collection_exists(self._collection):
            vectors = self._client.get_collection(self._collection).config.params.vectors
            size = vectors.size if isinstance(vectors, models.VectorParams) else None
            if size != self._dim:
                raise StoreError(
                    f"Qdrant 컬렉션 '{self._collection}' 은(는) {size}차원인데 색인은 {self._dim}차원입니다. "
                    "서버에서 그 컬렉션을 지우고 다시 시작해 주세요."
                )
            return
        self._client.create_collection(
            self._collection,
            vectors_config=models.VectorParams(size=self._dim, distance=models.Distance.COSINE),
            hnsw_config=models.HnswConfigDiff(m=0),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the in-memory client has no payload indexes and says so
            self._client.create_payload_index(self._collection, "doc_id", models.PayloadSchemaType.KEYWORD)

    @contextmanager
    def _server(self) -> Iterator[None]:
        """What client and server raise comes out as StoreError."""
        if self._closed:
            raise StoreError(f"닫은 벡터 색인입니다(Qdrant '{self._where}'). 다시 열어 주세요.")
        with translated(self._where):
            yield

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._dim

    def add(self, rows: Sequence[VectorRow]) -> None:
        """Write rows; nodes carry no text."""
        version = {row.chunk_id: row.version for row in rows}
        nodes: list[BaseNode] = [
            TextNode(
                id_=row.chunk_id,
                text="",
                embedding=row.vector.tolist(),
                metadata={**row.fields, "version": version[row.chunk_id]},
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=row.doc_id)},
            )
            for row in checked_rows(rows, self._dim)
        ]
        with self._server():
            if nodes:
                self._store.add(nodes)

    def delete(self, doc_id: str) -> None:
        """Remove all chunks of a document."""
        with self._server():
            self._store.delete(doc_id)

    def delete_chunks(self, chunk_ids: Collection[str]) -> None:
        """Remove chunks."""
        with self._server():
            if chunk_ids:
                self._store.delete_nodes(list(chunk_ids))

    def search(self, vector: FloatVector, depth: int, allowed: Collection[str] | None = None) -> Found:
        """The nearest chunks, exactly."""
        unit = checked_vector("질문 벡터", vector, self._dim).tolist()
        with self._server():
            if allowed is not None and not allowed:  # LlamaIndex reads an empty list as no filter
                return []
            doc_ids = None if allowed is None else sorted(allowed)

            def fetch(limit: int) -> Iterator[tuple[str, float]]:
                found = self._store.query(
                    VectorStoreQuery(query_embedding=unit, similarity_top_k=limit, doc_ids=doc_ids),
                    search_params=models.SearchParams(exact=True),
                )
                return zip(found.ids or [], found.similarities or [], strict=True)

            return settled(fetch, depth)

    def versions(self) -> dict[str, str]:
        """chunk id → version."""
        found: dict[str, str] = {}
        offset: models.ExtendedPointId | None = None
        with self._server():
            self._ensure()
            while True:
                points, offset = self._client.scroll(
                    self._collection, limit=_SCROLL, offset=offset, with_payload=["version"], with_vectors=False
                )
                found.update({str(point.id): str((point.payload or {}).get("version", "")) for point in points})
                if offset is None:
                    return found

    def count(self) -> int:
        """Number of chunks."""
        with self._server():
            return int(self._client.count(self._collection, exact=True).count)

    def close(self) -> None:
        """Refuse further calls; the client belongs to the backend."""
        self._closed = True


class QdrantBackend:
    """Collections of one installation on one server. ``where`` names the server in messages."""

    def __init__(self, client: QdrantClient, where: str, store: Path) -> None:
        self._client = client
        self._where = where
        self._prefix = f"onsil-{store_id(store)}-"

    @staticmethod
    def connect(url: str | None, api_key: str | None, store: Path, timeout_s: float) -> QdrantBackend:
        """A backend for the server at ``url``; nothing is sent yet. ``timeout_s`` is the channel's.

        Raises:
            SettingsError: ``url`` is missing or not an http address.
            StoreError: the store folder cannot be written.
        """
        if url is None:
            raise SettingsError(
                "vector_backend = 'qdrant' 에는 서버 주소가 있어야 합니다. onsil.toml 에 "
                'qdrant_url = "http://127.0.0.1:6333" 처럼 적어 주세요.'
            )
        where = shown(url)
        # the client's limit stays below the channel's, so that its message reaches the screen
        limit = max(1, int(timeout_s) - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a key over http inside a farm's own network
            client = QdrantClient(url=url, api_key=api_key, timeout=limit, check_compatibility=False)
        return QdrantBackend(client, where, store)

    def open(self, scope_id: str, level: Level, dim: int) -> VectorStorePort:
        """The store of a scope and level."""
        return QdrantVectors(self._client, f"{self._scope_prefix(scope_id)}{level}-{dim}", dim, self._where)

    def prune(self, scope_ids: Collection[str]) -> None:
        """Drop this installation's collections of other scopes than these: their folders are gone."""
        kept = tuple(map(self._scope_prefix, scope_ids))
        with translated(self._where):
            for collection in self._client.get_collections().collections:
                if collection.name.startswith(self._prefix) and not collection.name.startswith(kept):
                    self._client.delete_collection(collection.name)

    def _scope_prefix(self, scope_id: str) -> str:
        return f"{self._prefix}{hashlib.blake2b(scope_id.encode(), digest_size=8).hexdigest()}-"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Errors of client and server as StoreError. The text names kind and status only: nothing a server may echo."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # httpx, grpc, pydantic and the client's own: one tree none of them shares
        status = error.status_code if isinstance(error, UnexpectedResponse) else None
        if status in (401, 403):
            raise StoreError(
                f"Qdrant 서버 '{where}' 이(가) 접근을 거절했습니다({status}). "
                "환경 변수 ONSIL_QDRANT_API_KEY 를 확인해 주세요."
            ) from error
        kind = status or type(getattr(error, "source", error)).__name__
        raise StoreError(
            f"Qdrant 서버 '{where}' 을(를) 쓸 수 없습니다({kind}). 서버를 켜거나('docker compose up -d qdrant') "
            "onsil.toml 의 qdrant_url 을 고치거나, vector_backend 를 'snapshot' 으로 두세요."
        ) from error


def shown(url: str) -> str:
    """The address as messages show it: scheme, host and port, without user, password, path or query.

    Raises:
        SettingsError: not an http address.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            "qdrant_url 은(는) http:// 나 https:// 로 시작하는 주소여야 합니다. 예: http://127.0.0.1:6333"
        )
    return f"{parts.scheme}://{parts.hostname}" + (f":{port}" if port else "")


def store_id(store: Path) -> str:
    """A random name of the installation, kept in the store folder; copied folders keep it, others never share it.

    Raises:
        StoreError: the folder cannot be written.
    """
    path = store / ".store-id"
    try:
        store.mkdir(parents=True, exist_ok=True)
        with FileLock(store / ".store-id.lock", timeout=10):
            if not path.exists():
                path.write_text(uuid.uuid4().hex[:12], encoding="ascii")
            return path.read_text(encoding="ascii").strip()
    except (OSError, TimeoutError) as error:
        raise StoreError(f"저장 폴더 '{store}' 에 쓸 수 없습니다({error}). 권한과 디스크를 확인해 주세요.") from error
