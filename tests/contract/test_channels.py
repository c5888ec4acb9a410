"""The channel contract (docstring of ``rag/channels/base.py``) for every channel, and the runner that isolates them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient

from ingest.writer import refresh
from rag.assembly import vector_channel
from rag.channels.base import Channel, Found, run_channels
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.vector import StoreVectorChannel, VectorChannel, allowed_documents
from rag.errors import ChannelUnavailable, SettingsError, StoreError
from rag.schema import (
    BM25,
    GRAPH,
    LEVELS,
    PUBLIC,
    VECTOR,
    ChannelResult,
    DocFilter,
    Hit,
    Level,
    PlannedQuery,
    RetrievalPlan,
    Scope,
    Walk,
)
from rag.settings import Settings
from rag.stores.record import ScopeRecord
from rag.stores.snapshot import open_snapshot
from rag.stores.sync import ScopeVectors
from rag.stores.vectors import VectorRow
from rag.stores.vectors_qdrant import QdrantBackend
from rag.stores.view import Views
from rag.text import korean
from rag.tracing import Recorder
from tests.contract.conftest import BACKENDS, chunk_uuid, make_backend, open_views, take_in
from tests.fakes import FakeEmbedder

STORES = [kind for kind in BACKENDS if kind != "snapshot"]
QUESTION = "딸기 흰가루병이 나면 EC 와 환기는 어떻게 해요?"
FILTERS = {
    "날짜": DocFilter(periods=((date(2026, 11, 4), date(2026, 11, 20)),)),
    "작성자": DocFilter(authors=("김주임",)),
    "종류": DocFilter(kinds=("작업일지",)),
    "동": DocFilter(houses=("1동",)),
    "형식": DocFilter(formats=("md",)),
}


def make_plan(
    views: Views,
    text: str = QUESTION,
    farm: str | None = "haetsal",
    *,
    depth: int = 10,
    filters: DocFilter | None = None,
    vector: bool = True,
    timeout_s: float = 20.0,
    level: Level = "G2",
) -> RetrievalPlan:
    scope = Scope(farm_id=farm)
    analysis = korean().analyse(text, typos=True)
    query = PlannedQuery(
        text=text,
        vector=FakeEmbedder().encode_query(text) if vector else None,
        tokens=analysis.tokens,
        entities=views.get(scope).levels["G2"].graph.entities_in(text, analysis.mentions),
    )
    return RetrievalPlan(
        queries=(query,),
        scope=scope,
        filters=filters or DocFilter(),
        granularity=level,
        depth={VECTOR: depth, BM25: depth, GRAPH: depth},
        rrf_k=60,
        walk=Walk(),
        top_k=5,
        timeout_s=timeout_s,
    )


def ask(channel: Channel, plan: RetrievalPlan) -> ChannelResult:
    (result,) = run_channels([channel], plan, Recorder())
    return result


@pytest.fixture(scope="module", params=[VECTOR, BM25, GRAPH, *STORES])
def channel(
    request: pytest.FixtureRequest, views: Views, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Channel]:
    simple: dict[str, Callable[[Views], Channel]] = {VECTOR: VectorChannel, BM25: Bm25Channel, GRAPH: GraphChannel}
    if request.param in simple:
        yield simple[request.param](views)
        return
    backend = make_backend(request.param, tmp_path_factory.mktemp("vectors"))
    vectors = ScopeVectors(backend)
    yield StoreVectorChannel(views, vectors)
    vectors.close()
    backend.prune([])


class TestEveryChannel:
    """Each sentence of the contract."""

    def test_ranks_count_from_one_and_scores_fall(self, channel: Channel, views: Views) -> None:
        result = ask(channel, make_plan(views))
        assert result.status == "ok", result.error
        assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
        scores = [hit.score for hit in result.hits]
        assert scores == sorted(scores, reverse=True)
        assert len({hit.chunk_id for hit in result.hits}) == len(result.hits)

    @pytest.mark.parametrize("depth", [1, 2, 4])
    def test_depth_is_respected_and_cuts_the_longer_ranking(self, channel: Channel, views: Views, depth: int) -> None:
        full = ask(channel, make_plan(views)).hits
        short = ask(channel, make_plan(views, depth=depth)).hits
        assert len(short) == min(depth, len(full))
        assert short == full[:depth]

    @pytest.mark.parametrize("granularity", LEVELS)
    @pytest.mark.parametrize("farm", [None, "haetsal", "pureun"])
    def test_every_hit_is_inside_the_scope(
        self, channel: Channel, views: Views, farm: str | None, granularity: Level
    ) -> None:
        plan = make_plan(views, farm=farm, depth=100, level=granularity)
        hits = ask(channel, plan).hits
        level = views.get(plan.scope).levels[granularity]
        assert hits
        assert {hit.scope_id for hit in hits} <= set(plan.scope.visible)
        assert all(level.scope_of[level.row_of[hit.chunk_id]] == hit.scope_id for hit in hits)
        if farm is not None:
            assert f"farm:{farm}" in {hit.scope_id for hit in hits}

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("name", FILTERS)
    def test_filters_come_before_the_cut(self, channel: Channel, views: Views, name: str, level: Level) -> None:
        free = make_plan(views, depth=100, level=level)
        filtered = make_plan(views, depth=100, filters=FILTERS[name], level=level)
        mask = views.get(free.scope).mask(level, FILTERS[name])
        assert mask is not None
        row_of = views.get(free.scope).levels[level].row_of
        passing = [hit.chunk_id for hit in ask(channel, free).hits if mask[row_of[hit.chunk_id]]]
        assert [hit.chunk_id for hit in ask(channel, filtered).hits] == passing
        assert passing
        short = make_plan(views, depth=1, filters=FILTERS[name], level=level)
        assert [hit.chunk_id for hit in ask(channel, short).hits] == passing[:1]

    def test_a_filter_that_nothing_passes_gives_an_empty_result(self, channel: Channel, views: Views) -> None:
        result = ask(channel, make_plan(views, filters=DocFilter(authors=("없는사람",))))
        assert (result.status, result.hits) == ("empty", ())

    @pytest.mark.parametrize("level", LEVELS)
    def test_the_same_plan_gives_the_same_result(self, channel: Channel, views: Views, level: Level) -> None:
        plan = make_plan(views, depth=100, level=level)
        first = ask(channel, plan)
        ask(channel, make_plan(views, "점박이응애 방제", farm="pureun"))
        again = ask(channel, plan)
        assert (again.hits, again.paths, again.note) == (first.hits, first.paths, first.note)

    def test_the_plan_stays_as_it_is(self, channel: Channel, views: Views) -> None:
        plan = make_plan(views, filters=FILTERS["종류"])
        vector = plan.queries[0].vector
        assert vector is not None
        vector.flags.writeable = False
        before, depth = vector.copy(), dict(plan.depth)
        copy = replace(plan, depth=dict(plan.depth))
        ask(channel, plan)
        assert np.array_equal(vector, before)
        assert plan.depth == depth
        assert plan == copy

    def test_threads_get_what_one_gets(self, channel: Channel, views: Views) -> None:
        plan = make_plan(views)
        expected = ask(channel, plan).hits
        got: list[tuple[Hit, ...]] = []
        threads = [threading.Thread(target=lambda: got.append(ask(channel, plan).hits)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [expected] * 5


class TestVectorChannels:
    """Dense search, whatever answers it."""

    @pytest.fixture(params=STORES)
    def stored(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ScopeVectors]:
        backend = make_backend(request.param, tmp_path / "vectors")
        vectors = ScopeVectors(backend)
        yield vectors
        vectors.close()
        backend.prune([])

    @pytest.mark.parametrize("name", [None, *FILTERS])
    def test_stores_agree_with_the_snapshot(self, stored: ScopeVectors, views: Views, name: str | None) -> None:
        plan = make_plan(views, depth=100, filters=FILTERS[name] if name else None)
        exact = {hit.chunk_id: hit.score for hit in ask(VectorChannel(views), plan).hits}
        found = ask(StoreVectorChannel(views, stored), plan).hits
        assert {hit.chunk_id: hit.score for hit in found} == pytest.approx(exact, abs=2e-6)

    @pytest.mark.parametrize("make", [VectorChannel, lambda views: StoreVectorChannel(views, never())])
    def test_without_a_vector_the_channel_says_so(self, views: Views, make: Callable[[Views], Channel]) -> None:
        result = ask(make(views), make_plan(views, vector=False))
        assert result.status == "failed"
        assert "벡터로 바꾸지 못해" in (result.error or "")

    def test_allowed_documents_by_scope(self, views: Views) -> None:
        plan = make_plan(views, filters=DocFilter(authors=("박반장",)))
        view = views.get(plan.scope)
        allowed = allowed_documents(view, plan.granularity, view.mask(plan.granularity, plan.filters))
        assert allowed == {
            "farm:haetsal": {
                "farm:haetsal/작업일지/2026-11-20_작업일지_박반장.txt",
                "farm:haetsal/회의/2026-11-21_회의록.txt",
            }
        }
        assert allowed_documents(view, plan.granularity, view.mask(plan.granularity, make_plan(views).filters)) is None

    def test_a_chunk_unknown_to_the_view_is_left_out(self, stored: ScopeVectors, views: Views) -> None:
        plan = make_plan(views, depth=100)
        channel = StoreVectorChannel(views, stored)
        before = ask(channel, plan).hits
        vector = plan.queries[0].vector
        assert vector is not None
        for port in stored.of(views.get(plan.scope), "G2").values():
            port.add([VectorRow(chunk_id=chunk_uuid(1), doc_id="farm:pureun/남의 문서.txt", vector=vector)])
        assert ask(channel, plan).hits == before

    def test_stores_follow_the_record(self, stored: ScopeVectors, tmp_path: Path) -> None:
        folder, sources = tmp_path / "store", tmp_path / "sources"
        take_in(folder, PUBLIC, {"가.md": "# 환기\n\n천창을 연다.\n", "나.md": "# 양액\n\n배액률을 본다.\n"}, sources)
        views = open_views(folder)
        stored.prepare(folder, (PUBLIC, "farm:nobody"))
        channel = StoreVectorChannel(views, stored)
        assert len(ask(channel, make_plan(views, "환기", farm=None)).hits) == 2
        # a new document, and one whose title (and so its vector, but not its chunk id) changed
        take_in(folder, PUBLIC, {"다.md": "# 병해\n\n잎을 딴다.\n", "나.md": "# 급액\n\n배액률을 본다.\n"}, sources)
        plan = make_plan(views, "급액", farm=None)
        hits = ask(channel, plan).hits
        exact = {hit.chunk_id: hit.score for hit in ask(VectorChannel(views), plan).hits}
        assert {hit.chunk_id: hit.score for hit in hits} == pytest.approx(exact, abs=2e-6)
        assert len(hits) == 3
        # a document that was removed
        record = ScopeRecord(folder, PUBLIC)
        with record.writer():
            record.remove_document("public/가.md")
            refresh(record, None, FakeEmbedder().dim)
        view = views.get(Scope())
        assert len(ask(channel, plan).hits) == 2
        assert {port.count() for port in stored.of(view, "G2").values()} == {2}

    def test_an_emptied_engine_is_filled_again(self, stored: ScopeVectors, views: Views) -> None:
        plan = make_plan(views)
        channel = StoreVectorChannel(views, stored)
        before = ask(channel, plan).hits
        ports = stored.of(views.get(plan.scope), "G2")
        for port in ports.values():
            port.delete_chunks(list(port.versions()))
        stored.forget()
        assert ask(channel, plan).hits == before

    def test_a_lost_collection_costs_one_question(self, views: Views, tmp_path: Path) -> None:
        client = QdrantClient(":memory:")
        channel = StoreVectorChannel(views, ScopeVectors(QdrantBackend(client, ":memory:", tmp_path)))
        plan = make_plan(views)
        before = ask(channel, plan).hits
        for collection in client.get_collections().collections:
            client.delete_collection(collection.name)
        assert ask(channel, plan).status == "failed"
        assert ask(channel, plan).hits == before

    def test_unreachable_server_costs_one_channel(self, views: Views, tmp_path: Path) -> None:
        backend = QdrantBackend.connect("http://127.0.0.1:1", "secret-key", tmp_path, 3)
        channels = [StoreVectorChannel(views, ScopeVectors(backend)), Bm25Channel(views), GraphChannel(views)]
        dense, sparse, graph = run_channels(channels, make_plan(views), Recorder())
        assert (dense.status, sparse.status, graph.status) == ("failed", "ok", "ok")
        assert "http://127.0.0.1:1" in (dense.error or "")
        assert "docker compose up -d qdrant" in (dense.error or "")
        assert "secret-key" not in (dense.error or "")


def never() -> ScopeVectors:
    class Refuses:
        def open(self, *args: object) -> None:
            raise AssertionError("no store is needed")

        prune = open

    return ScopeVectors(Refuses())  # type: ignore[arg-type]


class TestBackendSetting:
    """``vector_backend`` in the settings, end to end."""

    def settings(self, folder: Path, **values: object) -> Settings:
        return Settings(store=folder, farms={"haetsal": "햇살농원", "absent": "없는농장"}, **values)  # type: ignore[arg-type]

    def test_snapshot_is_the_default(self, views: Views, farm_store: Path) -> None:
        assert isinstance(vector_channel(self.settings(farm_store), views), VectorChannel)

    def test_edge_is_filled_at_build(self, tmp_path: Path) -> None:
        from rag.assembly import scope_vectors

        folder = tmp_path / "store"
        take_in(folder, PUBLIC, {"가.md": "# 환기\n\n천창을 연다.\n"}, tmp_path / "s")
        take_in(folder, "farm:haetsal", {"나.txt": "작업일지\n\n환기를 했다.\n"}, tmp_path / "s")
        views = open_views(folder)
        settings = self.settings(folder, vector_backend="qdrant-edge")
        channel = vector_channel(settings, views)
        assert (folder / "farms" / "haetsal" / "vectors-edge" / "G2").is_dir()
        assert not (folder / "farms" / "absent").exists()
        assert len(ask(channel, make_plan(views, "환기")).hits) == 2
        again = vector_channel(settings, views)  # a second pipeline of the process shares the only owner
        assert len(ask(again, make_plan(views, "환기")).hits) == 2
        scope_vectors("qdrant-edge", folder.resolve(), None, None, settings.channel_timeout_s).close()

    def test_a_server_that_is_down_does_not_stop_the_start(self, views: Views, farm_store: Path) -> None:
        settings = self.settings(farm_store, vector_backend="qdrant", qdrant_url="http://127.0.0.1:1")
        result = ask(vector_channel(settings, views), make_plan(views))
        assert result.status == "failed"
        assert "127.0.0.1:1" in (result.error or "")

    def test_a_server_without_an_address(self, views: Views, farm_store: Path) -> None:
        with pytest.raises(SettingsError, match="qdrant_url"):
            vector_channel(self.settings(farm_store, vector_backend="qdrant"), views)


class TestBm25:
    """Questions without a known word."""

    @pytest.mark.parametrize("text", ["?", "...", "그리고 또는 그런데", "qwertyuiop zxcvb", "좀 알려 주세요", "ㅋㅋㅋ"])
    def test_nothing_to_look_for(self, views: Views, text: str) -> None:
        result = ask(Bm25Channel(views), make_plan(views, text))
        assert (result.status, result.hits) == ("empty", ())

    def test_particles_do_not_hide_a_word(self, views: Views) -> None:
        plan = make_plan(views, "토마토에서 잎곰팡이병이 나요", farm=None)
        top = ask(Bm25Channel(views), plan).hits[0]
        assert "잎곰팡이병" in views.get(plan.scope).chunks([(top.scope_id, top.chunk_id)])[top.chunk_id].title


class TestGraph:
    """The walk and its inputs."""

    def test_without_a_vector_it_walks_and_says_so(self, views: Views) -> None:
        result = ask(GraphChannel(views), make_plan(views, vector=False))
        assert result.status == "ok"
        assert result.note == "질문 벡터 없이 개체에서만 걸었습니다."
        assert ask(GraphChannel(views), make_plan(views)).note is None

    def test_without_vector_and_entities_there_is_nowhere_to_start(self, views: Views) -> None:
        assert ask(GraphChannel(views), make_plan(views, "qwertyuiop", vector=False)).status == "empty"

    def test_paths_belong_to_hits(self, views: Views) -> None:
        result = ask(GraphChannel(views), make_plan(views))
        assert result.paths
        assert {path.chunk_id for path in result.paths} <= {hit.chunk_id for hit in result.hits}


class Scripted:
    """A channel that does what a test tells it to."""

    def __init__(self, name: str, answer: Callable[[RetrievalPlan], Found]) -> None:
        self.name = name
        self._answer = answer

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        return self._answer(plan)


def raises(error: Exception) -> Callable[[RetrievalPlan], Found]:
    def answer(plan: RetrievalPlan) -> Found:
        raise error

    return answer


class TestRunner:
    """``run_channels`` keeps one channel's trouble from the others."""

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (ChannelUnavailable("서버가 꺼져 있습니다."), "서버가 꺼져 있습니다."),
            (StoreError("색인이 없습니다."), "색인이 없습니다."),
            (ZeroDivisionError("division by zero"), "채널 오류: ZeroDivisionError: division by zero"),
        ],
    )
    def test_a_raising_channel_fails_alone(self, views: Views, error: Exception, message: str) -> None:
        broken, sound = run_channels(
            [Scripted(VECTOR, raises(error)), Bm25Channel(views)], make_plan(views), Recorder()
        )
        assert (broken.status, broken.hits, broken.error) == ("failed", (), message)
        assert sound.status == "ok"

    def test_a_hanging_channel_times_out_and_blocks_nobody(self, views: Views) -> None:
        release = threading.Event()

        def hang(plan: RetrievalPlan) -> Found:
            release.wait(30)
            return Found(hits=())

        plan = make_plan(views, timeout_s=0.5)
        start = time.perf_counter()
        hung, sound = run_channels([Scripted(GRAPH, hang), Bm25Channel(views)], plan, Recorder())
        assert time.perf_counter() - start < 3
        assert (hung.status, hung.hits) == ("timeout", ())
        assert "0.5초" in (hung.error or "")
        assert sound.status == "ok"
        assert ask(Bm25Channel(views), plan).status == "ok"  # the next question is not kept waiting
        release.set()

    def test_a_hanging_channel_does_not_keep_the_process(self) -> None:
        code = """
import time
from rag.channels.base import run_channels
from rag.schema import DocFilter, PlannedQuery, RetrievalPlan, Scope, Walk
from rag.tracing import Recorder
class Hangs:
    name = "graph"
    def search(self, plan, query):
        time.sleep(600)
query = PlannedQuery(text="?", vector=None, tokens=(), entities=())
plan = RetrievalPlan(queries=(query,), scope=Scope(), filters=DocFilter(), granularity="G2", depth={"graph": 10},
                     rrf_k=60, walk=Walk(), top_k=5, timeout_s=0.2)
print(run_channels([Hangs()], plan, Recorder())[0].status)
"""
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=root, timeout=60, check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == "timeout"

    def test_a_hit_of_another_scope_drops_the_whole_result(self, views: Views) -> None:
        def leak(plan: RetrievalPlan) -> Found:
            mine = Hit(chunk_id=chunk_uuid(1), scope_id="farm:haetsal", rank=1, score=0.9)
            theirs = Hit(chunk_id=chunk_uuid(2), scope_id="farm:pureun", rank=2, score=0.8)
            return Found(hits=(mine, theirs))

        result = ask(Scripted(VECTOR, leak), make_plan(views))
        assert (result.status, result.hits) == ("failed", ())
        assert "허용되지 않은 자료" in (result.error or "")
        assert "pureun" not in (result.error or "")

    def test_wrong_ranks_fail(self, views: Views) -> None:
        hit = Hit(chunk_id=chunk_uuid(1), scope_id=PUBLIC, rank=2, score=0.9)
        assert ask(Scripted(VECTOR, lambda plan: Found(hits=(hit,))), make_plan(views)).status == "failed"

    def test_results_come_by_query_then_channel(self, views: Views) -> None:
        plan = make_plan(views)
        two = replace(plan, queries=plan.queries * 2)
        recorder = Recorder()
        results = run_channels([Bm25Channel(views), GraphChannel(views)], two, recorder)
        assert [result.channel for result in results] == [BM25, GRAPH, BM25, GRAPH]
        assert results[0].hits == results[2].hits
        assert all(result.ms > 0 for result in results)
        assert set(recorder.freeze().latency_ms) == {"channel:vector_sparse", "channel:graph"}


def test_farms_share_no_row(farm_store: Path) -> None:
    """The fixture itself: documents of both farms exist and have ids of their own."""
    ids = {}
    for scope_id in (PUBLIC, "farm:haetsal", "farm:pureun"):
        snapshot = open_snapshot(ScopeRecord(farm_store, scope_id))
        assert snapshot is not None
        ids[scope_id] = set(snapshot.levels["G2"].chunk_ids)
    assert all(ids.values())
    assert len(set().union(*ids.values())) == sum(map(len, ids.values()))
