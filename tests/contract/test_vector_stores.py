"""The contract of ``VectorStorePort``, for every backend."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from rag.errors import SettingsError, StoreError
from rag.schema import PUBLIC
from rag.stores.record import ScopeRecord
from rag.stores.snapshot import open_snapshot
from rag.stores.sync import sync
from rag.stores.vectors import SnapshotVectors, VectorRow, VectorStorePort, as_llama_index, settled
from rag.stores.vectors_edge import EdgeVectors
from rag.stores.vectors_qdrant import QdrantBackend, shown, store_id
from tests.contract.conftest import BACKENDS, DIM, OpenStore, chunk_uuid, make_backend
from tests.fakes import FakeEmbedder, unit_vectors


def rows(n: int, *, seed: int = 0, documents: int = 4) -> list[VectorRow]:
    """``n`` random rows; row i belongs to document i mod ``documents``."""
    return [
        VectorRow(
            chunk_id=chunk_uuid(i),
            doc_id=f"public/문서 {i % documents}.txt",
            vector=vector,
            fields={"kind": "작업일지", "houses": ["1동"], "date": "2026-11-03"},
        )
        for i, vector in enumerate(unit_vectors(n, DIM, seed))
    ]


def expected(some: list[VectorRow], vector: np.ndarray, depth: int) -> list[str]:
    """The formula: cosine in double precision, then id."""
    scored = [(round(float(row.vector.astype(float) @ vector.astype(float)), 6), row.chunk_id) for row in some]
    return [chunk_id for _, chunk_id in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:depth]]


class TestContract:
    """One test a sentence of the docstring of ``VectorStorePort``."""

    def test_three_vectors_by_hand(self, store: VectorStorePort) -> None:
        east, north = np.eye(DIM, dtype=np.float32)[:2]
        vectors = [east, north, (east + north) / np.sqrt(2)]
        ids = [chunk_uuid(i) for i in range(3)]
        store.add([VectorRow(chunk_id=i, doc_id="d", vector=v) for i, v in zip(ids, vectors)])
        assert store.search(east, 3) == [(ids[0], 1.0), (ids[2], pytest.approx(2**-0.5, abs=1e-6)), (ids[1], 0.0)]

    def test_length_does_not_matter(self, store: VectorStorePort) -> None:
        some = rows(20)
        store.add([VectorRow(chunk_id=r.chunk_id, doc_id=r.doc_id, vector=r.vector * 7) for r in some])
        assert store.search(some[3].vector * 0.1, 1) == [(some[3].chunk_id, 1.0)]

    def test_order_is_cosine_descending(self, store: VectorStorePort) -> None:
        some = rows(60)
        store.add(some)
        query = unit_vectors(1, DIM, seed=9)[0]
        found = store.search(query, 25)
        assert [chunk_id for chunk_id, _ in found] == expected(some, query, 25)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)

    @pytest.mark.parametrize("depth", [1, 3, 7])
    def test_ties_are_cut_by_chunk_id_in_whatever_order_they_came(self, open_store: OpenStore, depth: int) -> None:
        vector = unit_vectors(1, DIM)[0]
        same = [VectorRow(chunk_id=chunk_uuid(i), doc_id="d", vector=vector) for i in range(40)]
        forward, backward = open_store("public"), open_store("farm:other")
        forward.add(same)
        backward.add(same[::-1])
        wanted = sorted(row.chunk_id for row in same)[:depth]
        assert [chunk_id for chunk_id, _ in forward.search(vector, depth)] == wanted
        assert [chunk_id for chunk_id, _ in backward.search(vector, depth)] == wanted

    def test_depth_beyond_the_store(self, store: VectorStorePort) -> None:
        store.add(rows(5))
        assert len(store.search(unit_vectors(1, DIM)[0], 1000)) == 5

    def test_empty_store(self, store: VectorStorePort) -> None:
        vector = unit_vectors(1, DIM)[0]
        assert store.search(vector, 10) == []
        assert store.search(vector, 10, ["public/문서 0.txt"]) == []
        assert (store.count(), store.versions()) == (0, {})
        store.add([])
        store.delete("없는 문서")
        store.delete_chunks([])
        store.delete_chunks([chunk_uuid(1)])
        assert store.count() == 0

    def test_filter_comes_before_the_cut(self, store: VectorStorePort) -> None:
        some = rows(80, documents=8)
        store.add(some)
        query = some[0].vector  # its own document is not allowed: an after-filter would lose the first ranks
        allowed = {"public/문서 5.txt", "public/문서 6.txt"}
        found = [chunk_id for chunk_id, _ in store.search(query, 15, allowed)]
        assert found == expected([row for row in some if row.doc_id in allowed], query, 15)
        assert len(found) == 15

    def test_allowing_nothing_gives_nothing(self, store: VectorStorePort) -> None:
        store.add(rows(10))
        assert store.search(unit_vectors(1, DIM)[0], 10, []) == []
        assert store.search(unit_vectors(1, DIM)[0], 10, ["없는 문서"]) == []

    def test_adding_again_replaces(self, store: VectorStorePort) -> None:
        old, new = rows(6), rows(6, seed=1)
        store.add(old)
        store.add(new)
        assert store.count() == 6
        assert store.search(new[2].vector, 1) == [(new[2].chunk_id, 1.0)]
        assert store.versions() == {row.chunk_id: row.version for row in new}

    def test_delete_takes_a_whole_document_and_no_other(self, store: VectorStorePort) -> None:
        some = rows(20)
        store.add(some)
        store.delete("public/문서 1.txt")
        left = [row for row in some if row.doc_id != "public/문서 1.txt"]
        assert store.versions().keys() == {row.chunk_id for row in left}
        assert store.count() == 15
        assert store.search(some[1].vector, 30, ["public/문서 1.txt"]) == []

    def test_delete_chunks(self, store: VectorStorePort) -> None:
        some = rows(10)
        store.add(some)
        store.delete_chunks([some[0].chunk_id, some[7].chunk_id, chunk_uuid(999)])
        assert store.versions().keys() == {row.chunk_id for row in some} - {some[0].chunk_id, some[7].chunk_id}

    @pytest.mark.parametrize(
        ("value", "named"), [(float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")]
    )
    def test_not_finite_is_refused(self, store: VectorStorePort, value: float, named: str) -> None:
        good, bad = rows(2)
        vector = bad.vector.copy()
        vector[4] = value
        with pytest.raises(StoreError, match=named) as refusal:
            store.add([good, VectorRow(chunk_id=bad.chunk_id, doc_id="d", vector=vector)])
        assert bad.chunk_id in str(refusal.value)
        assert store.count() == 0  # all or nothing
        with pytest.raises(StoreError, match=named):
            store.search(vector, 5)

    def test_zero_vector_is_refused(self, store: VectorStorePort) -> None:
        zero = np.zeros(DIM, np.float32)
        with pytest.raises(StoreError, match="길이가 0"):
            store.add([VectorRow(chunk_id=chunk_uuid(0), doc_id="d", vector=zero)])
        with pytest.raises(StoreError, match="길이가 0"):
            store.search(zero, 5)

    @pytest.mark.parametrize("wrong", [DIM - 1, DIM + 1])
    def test_other_dimension_is_refused(self, store: VectorStorePort, wrong: int) -> None:
        vector = unit_vectors(1, wrong)[0]
        with pytest.raises(StoreError, match=rf"{wrong}인데 색인은 {DIM}차원"):
            store.add([VectorRow(chunk_id=chunk_uuid(0), doc_id="d", vector=vector)])
        with pytest.raises(StoreError, match=rf"{wrong}인데 색인은 {DIM}차원"):
            store.search(vector, 5)

    def test_chunk_id_is_a_uuid(self, store: VectorStorePort) -> None:
        with pytest.raises(StoreError, match="문단-1"):
            store.add([VectorRow(chunk_id="문단-1", doc_id="d", vector=unit_vectors(1, DIM)[0])])

    def test_two_scopes_are_isolated(self, open_store: OpenStore) -> None:
        mine, theirs = open_store("farm:haetsal"), open_store("farm:pureun")
        some = rows(20)
        mine.add(some[:10])
        theirs.add(some[10:])
        mine.delete("public/문서 0.txt")
        assert theirs.count() == 10
        found = {chunk_id for chunk_id, _ in mine.search(some[15].vector, 100)}
        assert found.isdisjoint({row.chunk_id for row in some[10:]})

    def test_closed(self, store: VectorStorePort) -> None:
        store.close()
        store.close()
        for call in (
            lambda: store.count(),
            lambda: store.versions(),
            lambda: store.search(unit_vectors(1, DIM)[0], 5),
            lambda: store.add(rows(1)),
            lambda: store.delete("d"),
            lambda: store.delete_chunks([chunk_uuid(0)]),
        ):
            with pytest.raises(StoreError, match="닫은"):
                call()

    def test_sync_writes_what_changed_and_nothing_else(self, store: VectorStorePort) -> None:
        some = rows(30)
        assert sync(store, some[:20]) == sync_result(20, 0)
        assert sync(store, some[:20]) == sync_result(0, 0)
        changed = VectorRow(
            chunk_id=some[5].chunk_id, doc_id=some[5].doc_id, vector=some[29].vector, fields=some[5].fields
        )
        wanted = [*some[:5], changed, *some[6:18], *some[20:22]]
        assert sync(store, wanted) == sync_result(3, 2)
        assert store.versions() == {row.chunk_id: row.version for row in wanted}

    def test_llama_index_face(self, store: VectorStorePort) -> None:
        some = rows(12)
        store.add(some)
        face = as_llama_index(store)
        query = VectorStoreQuery(query_embedding=some[2].vector.tolist(), similarity_top_k=3)
        answer = face.query(query)
        assert answer.ids == expected(some, some[2].vector, 3)
        assert answer.similarities is not None
        assert answer.similarities[0] == 1.0
        query.doc_ids = ["public/문서 1.txt"]
        assert face.query(query).ids == expected(some[1::4], some[2].vector, 3)
        query.doc_ids, query.node_ids = None, [some[7].chunk_id]
        assert face.query(query).ids == [some[7].chunk_id]
        face.delete("public/문서 1.txt")
        assert store.count() == 9


def sync_result(written: int, removed: int) -> object:
    from rag.stores.sync import Synced

    return Synced(written, removed)


def test_all_backends_rank_alike(tmp_path: Path) -> None:
    some = rows(500, documents=20)
    stores = {kind: make_backend(kind, tmp_path / kind).open(PUBLIC, "G2", DIM) for kind in BACKENDS}
    for store in stores.values():
        store.add(some)
    allowed = [f"public/문서 {i}.txt" for i in range(7)]
    for query in unit_vectors(25, DIM, seed=5):
        for wanted in (None, allowed):
            rankings = {kind: store.search(query, 50, wanted) for kind, store in stores.items()}
            ids = {kind: [chunk_id for chunk_id, _ in found] for kind, found in rankings.items()}
            assert ids == dict.fromkeys(BACKENDS, ids["snapshot"])
    for store in stores.values():
        store.close()


class TestSettled:
    """Ties at the border of an engine that cuts them as it likes."""

    @staticmethod
    def engine(scores: list[float], calls: list[int]):  # type: ignore[no-untyped-def]
        ids = [f"{len(scores) - i:04d}" for i in range(len(scores))]  # ids run against the engine's order

        def fetch(limit: int) -> list[tuple[str, float]]:
            calls.append(limit)
            return list(zip(ids, scores))[:limit]

        return fetch

    def test_asks_once_where_nothing_ties(self) -> None:
        calls: list[int] = []
        found = settled(self.engine([1 - i / 100 for i in range(90)], calls), 10)
        assert len(calls) == 1
        assert [chunk_id for chunk_id, _ in found] == [f"{90 - i:04d}" for i in range(10)]

    def test_asks_on_until_the_border_is_passed(self) -> None:
        calls: list[int] = []
        found = settled(self.engine([0.9] + [0.5] * 80 + [0.1] * 100, calls), 3)
        assert [chunk_id for chunk_id, _ in found] == ["0181", "0101", "0102"]
        assert len(calls) > 1

    def test_differences_below_the_last_decimal_tie(self) -> None:
        found = settled(self.engine([0.5 + 1e-8, 0.5], []), 2)
        assert found == [("0001", 0.5), ("0002", 0.5)]


class TestSnapshot:
    """The store over a snapshot's files."""

    @pytest.fixture
    def record(self, farm_store: Path) -> ScopeRecord:
        return ScopeRecord(farm_store, PUBLIC)

    def test_reads_the_snapshot(self, record: ScopeRecord) -> None:
        snapshot = open_snapshot(record)
        assert snapshot is not None
        store = SnapshotVectors.of(snapshot, "G2")
        part = snapshot.levels["G2"]
        assert store.count() == len(part.chunk_ids) == len(store.versions())
        assert store.search(part.vectors[2], 1)[0][0] == part.chunk_ids[2]
        doc_id = snapshot.documents[part.document_of[4]].doc_id
        assert [c for c, _ in store.search(part.vectors[2], 5, [doc_id])] == [part.chunk_ids[4]]

    def test_refuses_changes(self, record: ScopeRecord) -> None:
        snapshot = open_snapshot(record)
        assert snapshot is not None
        store = SnapshotVectors.of(snapshot, "G2")
        for change in (lambda: store.add([]), lambda: store.delete("d"), lambda: store.delete_chunks([])):
            with pytest.raises(StoreError, match="python -m ingest"):
                change()

    def test_llama_index_engine_answers_with_the_records_texts(self, record: ScopeRecord) -> None:
        snapshot = open_snapshot(record)
        assert snapshot is not None
        face = as_llama_index(SnapshotVectors.of(snapshot, "G2"), record.chunks)
        index = VectorStoreIndex.from_vector_store(face, embed_model=MockEmbedding(embed_dim=64))
        nodes = index.as_retriever(similarity_top_k=3).retrieve("아무 질문")
        assert len(nodes) == 3
        query = FakeEmbedder().encode_query("점박이응애는 고온에서 는다").tolist()
        answer = face.query(VectorStoreQuery(query_embedding=query, similarity_top_k=1))
        assert answer.nodes is not None
        assert "칠레이리응애" in answer.nodes[0].get_content()
        assert answer.nodes[0].metadata["scope_id"] == PUBLIC

    def test_llama_index_face_ignores_nothing(self, record: ScopeRecord) -> None:
        snapshot = open_snapshot(record)
        assert snapshot is not None
        face = as_llama_index(SnapshotVectors.of(snapshot, "G2"), record.chunks)
        filters = MetadataFilters(filters=[MetadataFilter(key="kind", value="작업일지")])
        vector = [1.0] * 64
        with pytest.raises(StoreError, match="doc_ids"):
            face.query(VectorStoreQuery(query_embedding=vector, filters=filters))
        with pytest.raises(StoreError, match="sparse"):
            face.query(VectorStoreQuery(query_embedding=vector, mode=VectorStoreQueryMode.SPARSE))


class TestEdge:
    """What only files in the process have to hold."""

    def test_reopening_finds_everything(self, tmp_path: Path) -> None:
        some = rows(50)
        store = EdgeVectors(tmp_path / "v", DIM)
        store.add(some)
        store.delete("public/문서 2.txt")
        before = store.search(some[9].vector, 20)
        store.close()
        again = EdgeVectors(tmp_path / "v", DIM)
        assert again.search(some[9].vector, 20) == before
        assert again.versions() == {row.chunk_id: row.version for i, row in enumerate(some) if i % 4 != 2}
        again.close()

    def test_second_owner_gets_a_plain_sentence(self, tmp_path: Path) -> None:
        with_owner = EdgeVectors(tmp_path / "v", DIM)
        with_owner.add(rows(3))
        with pytest.raises(StoreError, match=r"다른 프로그램이 쓰고 있습니다.*vector_backend"):
            EdgeVectors(tmp_path / "v", DIM)
        assert with_owner.count() == 3
        with_owner.close()
        EdgeVectors(tmp_path / "v", DIM).close()

    def test_a_killed_owner_leaves_all_finished_writes(self, tmp_path: Path) -> None:
        code = (
            "import os, sys; from pathlib import Path; from tests.contract.test_vector_stores import *\n"
            "store = EdgeVectors(Path(sys.argv[1]), DIM); store.add(rows(40)); os._exit(9)"
        )
        root = Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "v")], cwd=root, timeout=120, check=False)
        assert done.returncode == 9
        store = EdgeVectors(tmp_path / "v", DIM)
        assert store.count() == 40
        store.close()

    def test_unreadable_files_are_made_anew(self, tmp_path: Path) -> None:
        (tmp_path / "v" / "shard").mkdir(parents=True)
        (tmp_path / "v" / "shard" / "edge_config.json").write_text("{깨짐")
        store = EdgeVectors(tmp_path / "v", DIM)
        assert store.count() == 0
        store.close()

    def test_another_dimension_is_made_anew(self, tmp_path: Path) -> None:
        store = EdgeVectors(tmp_path / "v", DIM)
        store.add(rows(3))
        store.close()
        other = EdgeVectors(tmp_path / "v", DIM * 2)
        assert (other.dim, other.count()) == (DIM * 2, 0)
        other.close()

    def test_readers_beside_a_writer(self, tmp_path: Path) -> None:
        some = rows(400)
        store = EdgeVectors(tmp_path / "v", DIM)
        store.add(some[:200])
        errors: list[BaseException] = []

        def read() -> None:
            try:
                for _ in range(40):
                    assert len(store.search(some[0].vector, 10)) == 10
            except BaseException as error:
                errors.append(error)

        readers = [threading.Thread(target=read) for _ in range(8)]
        for reader in readers:
            reader.start()
        for start in range(200, 400, 20):
            store.add(some[start : start + 20])
        for reader in readers:
            reader.join()
        assert errors == []
        assert store.count() == 400
        store.close()


class TestQdrant:
    """Names, addresses and messages of a server."""

    def test_collections_do_not_show_farm_names(self, tmp_path: Path) -> None:
        from qdrant_client import QdrantClient

        client = QdrantClient(":memory:")
        backend = QdrantBackend(client, ":memory:", tmp_path)
        backend.open("farm:haetsal", "G2", DIM)
        backend.open(PUBLIC, "G2", DIM)
        other = QdrantBackend(client, ":memory:", tmp_path / "other")
        other.open(PUBLIC, "G2", DIM)
        names = [c.name for c in client.get_collections().collections]
        assert len(set(names)) == 3
        assert all(name.startswith("onsil-") and "haetsal" not in name for name in names)
        backend.prune([PUBLIC])  # the farm's folder is gone; the other installation's collections are not ours
        assert len(client.get_collections().collections) == 2

    def test_unreachable_server(self, tmp_path: Path) -> None:
        backend = QdrantBackend.connect("http://user:hidden@127.0.0.1:1/?api_key=hidden", "hidden", tmp_path, 3)
        with pytest.raises(StoreError) as failure:
            backend.open(PUBLIC, "G2", DIM)
        message = str(failure.value)
        assert "http://127.0.0.1:1" in message
        assert "qdrant_url" in message
        assert "hidden" not in message

    def test_address(self) -> None:
        assert shown("https://abc.cloud.qdrant.io:6333/x?y=z") == "https://abc.cloud.qdrant.io:6333"
        for wrong in ("localhost:6333", "ftp://x", "http://", "http://x:port", ""):
            with pytest.raises(SettingsError, match="http"):
                shown(wrong)

    def test_missing_address(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="qdrant_url"):
            QdrantBackend.connect(None, None, tmp_path, 3)

    def test_store_id_stays(self, tmp_path: Path) -> None:
        assert store_id(tmp_path / "a") == store_id(tmp_path / "a") != store_id(tmp_path / "b")

    def test_collection_of_another_dimension(self, tmp_path: Path) -> None:
        from qdrant_client import QdrantClient

        from rag.stores.vectors_qdrant import QdrantVectors

        client = QdrantClient(":memory:")
        QdrantVectors(client, "c", DIM, ":memory:")
        with pytest.raises(StoreError, match=f"{DIM}차원인데 색인은 {DIM + 1}차원"):
            QdrantVectors(client, "c", DIM + 1, ":memory:")
