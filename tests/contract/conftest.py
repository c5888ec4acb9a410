"""What the contract tests run on: a backend of each kind, and a small store of public and two farms' documents.

A new vector backend inherits its tests by a row in ``BACKENDS``. A server takes part where QDRANT_URL is set.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from ingest.writer import Writer, refresh
from rag.embedding import EmbeddingCache
from rag.schema import PUBLIC, Level
from rag.stores.record import ScopeRecord
from rag.stores.sync import VectorBackend
from rag.stores.vectors import SnapshotVectors, VectorStorePort
from rag.stores.vectors_edge import EdgeBackend
from rag.stores.vectors_qdrant import QdrantBackend
from rag.stores.view import Views
from rag.text import korean
from tests.fakes import FakeEmbedder

DIM = 32
SERVER = os.environ.get("QDRANT_URL")
BACKENDS = ["snapshot", "qdrant-edge", "qdrant-memory", *(["qdrant-server"] if SERVER else [])]

DOCUMENTS: dict[str, dict[str, str]] = {
    PUBLIC: {
        "병해충/잎곰팡이병.md": "# 토마토 잎곰팡이병\n\n잎곰팡이병은 다습하면 생긴다. 환기를 하여 습도를 낮춘다.\n",
        "병해충/흰가루병.md": "# 딸기 흰가루병\n\n흰가루병은 건조하면 번진다. 병든 잎을 따서 태운다.\n",
        "병해충/점박이응애.md": "# 점박이응애\n\n점박이응애는 고온에서 는다. 칠레이리응애를 놓아 막는다.\n",
        "재배기술/딸기_양액.md": "# 딸기 양액\n\n딸기 수확 후기에는 EC 를 0.8 로 낮춘다. 배액률은 30% 로 한다.\n",
        "재배기술/토마토_양액.md": "# 토마토 양액\n\n토마토 양액 EC 는 2.5 로 한다. 배꼽썩음병은 칼슘이 모자라면 생긴다.\n",
        "재배기술/환기.md": "# 온실 환기\n\n낮에는 천창을 열어 환기한다. 습도가 90% 를 넘으면 팬을 돌린다.\n",
    },
    "farm:haetsal": {
        "작업일지/2026-11-03_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n1동 딸기 흰가루병 약을 쳤다. EC 는 1.0 이다.\n",
        "작업일지/2026-11-04_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n2동 딸기 잎을 땄다. 점박이응애가 보였다.\n",
        "작업일지/2026-11-20_작업일지_박반장.txt": "작업일지\n작성자: 박반장\n\n1동 천창 모터를 고쳤다. 환기를 다시 했다.\n",
        "회의/2026-11-21_회의록.txt": "회의록\n작성자: 박반장\n\n양액 배액률을 30% 로 맞추기로 했다.\n",
    },
    "farm:pureun": {
        "작업일지/2026-11-05_작업일지_이과장.txt": "작업일지\n작성자: 이과장\n\n3동 토마토 잎곰팡이병이 나와 환기를 늘렸다.\n",
        "작업일지/2026-11-06_작업일지_이과장.txt": "작업일지\n작성자: 이과장\n\n3동 딸기 흰가루병 EC 를 쟀다.\n",
    },
}

OpenStore = Callable[[str], VectorStorePort]


class MemoryBackend:
    """The in-memory variant of the snapshot store behind the backend interface."""

    def open(self, scope_id: str, level: Level, dim: int) -> VectorStorePort:
        return SnapshotVectors(dim)

    def prune(self, scope_ids: Collection[str]) -> None:
        pass


def make_backend(kind: str, folder: Path) -> VectorBackend:
    if kind == "snapshot":
        return MemoryBackend()
    if kind == "qdrant-edge":
        return EdgeBackend(folder)
    if kind == "qdrant-server":
        return QdrantBackend.connect(SERVER, os.environ.get("QDRANT_API_KEY"), folder, 10)
    return QdrantBackend(QdrantClient(":memory:"), ":memory:", folder)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorBackend]:
    made = make_backend(request.param, tmp_path)
    yield made
    made.prune([])  # leaves a server as it was


@pytest.fixture
def open_store(backend: VectorBackend) -> Iterator[OpenStore]:
    """Opens the store of a scope; all are closed at the end."""
    opened: list[VectorStorePort] = []

    def open_one(scope_id: str = PUBLIC, dim: int = DIM) -> VectorStorePort:
        opened.append(backend.open(scope_id, "G2", dim))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> VectorStorePort:
    return open_store(PUBLIC)


def chunk_uuid(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"chunk {number}"))


def take_in(folder: Path, scope_id: str, files: dict[str, str], sources: Path) -> ScopeRecord:
    """Take files into a scope as ``python -m ingest`` does, with the fake encoder."""
    embedder = FakeEmbedder()
    record = ScopeRecord(folder, scope_id)
    public = None if scope_id == PUBLIC else ScopeRecord(folder, PUBLIC)
    pairs = []
    for logical, text in files.items():
        path = sources / scope_id.replace(":", "_") / logical
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        pairs.append((path, logical))
    with record.writer():
        writer = Writer(
            record,
            embedder,  # type: ignore[arg-type]
            korean(),
            EmbeddingCache(embedder.model_name, []),
            limit_bytes=2**20,
            public=public,
        )
        writer.prepare()
        statuses = list(writer.take(pairs))
        refresh(record, public, embedder.dim)
    assert [s.status for s in statuses if s.status == "failed"] == []
    return record


def open_views(folder: Path) -> Views:
    return Views(folder, {"embedder": FakeEmbedder.model_name})


@pytest.fixture(scope="session")
def farm_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Public documents and two farms on disk; read-only for tests."""
    folder = tmp_path_factory.mktemp("store")
    for scope_id, files in DOCUMENTS.items():
        take_in(folder, scope_id, files, tmp_path_factory.mktemp("sources"))
    return folder


@pytest.fixture(scope="session")
def views(farm_store: Path) -> Views:
    return open_views(farm_store)
