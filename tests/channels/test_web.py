"""The web channel: what may leave, which pages are read until when, how their chunks are ranked and carried."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
import pytest

from ingest.web import PageReader
from rag.assembly import web_channel
from rag.channels.base import run_channels
from rag.channels.web import (
    KIND,
    MAX_PASSAGES,
    MAX_WORDS,
    DdgsProvider,
    PageChunk,
    SearchHit,
    WebChannel,
    read_pages,
    withheld,
    words_to_send,
)
from rag.errors import ChannelUnavailable, IngestError, SettingsError
from rag.schema import (
    PUBLIC,
    WEB,
    ChannelResult,
    ChunkRecord,
    DocFilter,
    Level,
    PlannedQuery,
    QueryFeatures,
    RetrievalPlan,
    Scope,
    Slot,
    SlotKind,
    Walk,
    Weights,
)
from rag.settings import Settings
from rag.stores.view import View
from rag.text import SentenceSpan, korean
from rag.tracing import Recorder
from rag.weighting import with_shares
from tests.contract.conftest import open_views, take_in
from tests.fakes import FakeEmbedder
from tests.web_server import Site, serving

QUESTION = "토마토 배꼽썩음과에 칼슘을 어떻게 줘요?"


@dataclass
class Listed:
    """Names the same pages whatever is asked, and remembers the questions."""

    urls: tuple[str, ...]
    asked: list[tuple[str, int]] = field(default_factory=list)

    def search(self, query: str, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        self.asked.append((query, limit))
        return [SearchHit(url=url) for url in self.urls]


class Down:
    def search(self, query: str, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        raise ChannelUnavailable("웹 검색에 실패했습니다.")


def plan_of(text: str = QUESTION, *, vector: bool = True, filters: DocFilter | None = None) -> RetrievalPlan:
    query = PlannedQuery(
        text=text,
        vector=FakeEmbedder().encode_query(text) if vector else None,
        tokens=korean().tokens(text),
        entities=(),
    )
    return RetrievalPlan(
        queries=(query,),
        scope=Scope(farm_id="haetsal"),
        filters=filters or DocFilter(),
        granularity="G2",
        depth={},
        rrf_k=5,
        walk=Walk(),
        top_k=8,
        timeout_s=20.0,
    )


def chunk_of(number: int, text: str, title: str = "쪽") -> PageChunk:
    chunk = ChunkRecord(
        chunk_id=f"web-{number}",
        scope_id=PUBLIC,
        doc_id="public/web/a.kr/쪽",
        title=title,
        section="",
        locator="https://a.kr/쪽",
        text=text,
        level="G2",
        ordinal=number,
        kind=KIND,
    )
    return PageChunk(chunk=chunk, spans=tuple(korean().sentences(text)))


def channel_of(provider: object, read: object, *, timeout_s: float = 15.0) -> WebChannel:
    embedder = FakeEmbedder()
    return WebChannel(
        provider,  # type: ignore[arg-type]
        read,  # type: ignore[arg-type]
        korean(),
        embedder.encode_passages,
        timeout_s=timeout_s,
        max_pages=3,
    )


def ask(channel: WebChannel, plan: RetrievalPlan) -> ChannelResult:
    return run_channels([channel], plan, Recorder())[0]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> View:
    """The view of one public document."""
    folder, sources = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("sources")
    take_in(folder, PUBLIC, {"환기.md": "# 환기\n\n낮에는 천창을 연다.\n"}, sources)
    return open_views(folder).get(Scope())


def reader(limit_bytes: int = 2**20) -> PageReader:
    return PageReader(
        limit_bytes=limit_bytes,
        allow_private=True,
        split=korean().sentences,
        count_tokens=FakeEmbedder().count_tokens,
        today=lambda: date(2026, 12, 1),
    )


class TestWhatMayLeave:
    def test_content_words_only(self) -> None:
        provider = Listed(())
        result = ask(channel_of(provider, reader()), plan_of())
        ((sent, limit),) = provider.asked
        assert limit == 3
        assert "칼슘" in sent.split()
        assert not {"어떻게", "을", "에", "줘요?"} & set(sent.split())
        assert result.status == "empty"
        assert result.note is not None
        assert sent in result.note

    def test_words(self) -> None:
        assert words_to_send(
            ("배꼽썩음병", "배꼽", "썩음", "칼슘", "칼슘", "EC", "2.5", "010-1234-5678", "20261201")
        ) == (
            "배꼽썩음병",
            "칼슘",
            "EC",
            "2.5",
        )
        assert len(words_to_send([f"{chr(0xAC00 + n)}말" for n in range(40)])) == MAX_WORDS

    @pytest.mark.parametrize("kind", ["house", "author", "farm", "file"])
    def test_names_of_the_farm_stay(self, kind: SlotKind) -> None:
        features = QueryFeatures(slots=(Slot(kind=kind, value="x", start=0, end=1, rule="r"),))
        assert withheld("x 는 어때?", features) is not None

    @pytest.mark.parametrize("text", ["우리 농장 딸기 EC", "저희 토마토 병", "내 하우스 온도", "제 온실 습도"])
    def test_the_farm_itself_stays(self, text: str) -> None:
        assert withheld(text, QueryFeatures()) is not None

    def test_records_and_own_words_stay(self) -> None:
        assert withheld("방제한 날", QueryFeatures(intent="log_lookup")) is not None
        assert withheld("앞골밭 토마토", QueryFeatures(), {"앞골밭": "토마토"}) is not None
        crop = QueryFeatures(slots=(Slot(kind="crop", value="토마토", start=0, end=3, rule="r"),))
        assert withheld("토마토 방제", crop, {"앞골밭": "토마토"}) is None

    def test_nothing_is_asked_where_nothing_may_leave(self) -> None:
        provider = Listed(())
        channel = channel_of(provider, reader())
        whole = plan_of()
        part = replace(whole.queries[0], share=0.5)
        two = replace(whole, queries=(*whole.queries, part))
        for plan, reason in (
            (replace(whole, withheld="농장 기록"), "농장 기록"),
            (plan_of(filters=DocFilter(kinds=("작업일지",))), "조건"),
            (plan_of("?"), "낱말이 없습니다"),
        ):
            result = ask(channel, plan)
            assert (result.status, result.hits, result.error) == ("skipped", (), None)
            assert result.note is not None
            assert reason in result.note
        assert provider.asked == []
        results = run_channels([channel], two, Recorder())
        assert [r.status for r in results] == ["empty", "skipped"]
        assert len(provider.asked) == 1


class TestRanking:
    TEXTS = (
        "파프리카 가지치기를 한다.",
        "토마토 배꼽썩음과에는 칼슘을 뿌린다. 물을 자주 준다.",
        "칼슘은 뿌리로 들어온다.",
        "온실을 소독한다.",
    )

    def read(self, url: str, level: Level, timeout_s: float) -> list[PageChunk]:
        return [chunk_of(number, text) for number, text in enumerate(self.TEXTS)]

    def test_by_the_best_sentence(self) -> None:
        plan = plan_of()
        result = ask(channel_of(Listed(("https://a.kr",)), self.read), plan)
        assert [hit.chunk_id for hit in result.hits] == ["web-1", "web-2"]
        assert {hit.scope_id for hit in result.hits} == {PUBLIC}
        vector = plan.queries[0].vector
        assert vector is not None
        for hit, passage in zip(result.hits, result.passages, strict=True):
            assert hit.score == pytest.approx(float((passage.vectors @ vector).max()))

    def test_by_words_without_a_vector(self) -> None:
        result = ask(channel_of(Listed(("https://a.kr",)), self.read), plan_of(vector=False))
        assert [hit.chunk_id for hit in result.hits] == ["web-1", "web-2"]
        assert result.hits[0].score > result.hits[1].score > 0

    def test_the_same_pages_give_the_same_hits(self) -> None:
        channel = channel_of(Listed(("https://a.kr", "https://a.kr", "https://b.kr")), self.read)
        first, again = ask(channel, plan_of()), ask(channel, plan_of())
        assert first.hits == again.hits
        assert all((a.vectors == b.vectors).all() for a, b in zip(first.passages, again.passages, strict=True))
        assert len(first.hits) == 2  # one page named twice, and one chunk on two pages

    def test_no_more_than_may_be_encoded(self) -> None:
        def read(url: str, level: Level, timeout_s: float) -> list[PageChunk]:
            return [chunk_of(number, f"토마토 칼슘 {number}번째 글이다.") for number in range(40)]

        assert len(ask(channel_of(Listed(("https://a.kr",)), read), plan_of()).hits) == MAX_PASSAGES

    def test_a_passage_is_what_a_view_knows(self, stored: View) -> None:
        result = ask(channel_of(Listed(("https://a.kr",)), self.read), plan_of())
        passage = result.passages[0]
        text = passage.chunk.text
        assert [text[s.start : s.end] for s in passage.sentences] == [
            "토마토 배꼽썩음과에는 칼슘을 뿌린다.",
            "물을 자주 준다.",
        ]
        assert passage.vectors.shape == (2, FakeEmbedder().dim)
        assert {"토마토", "칼슘"} <= passage.entities
        body = [token for sentence in passage.sentences for token in sentence.tokens]
        assert list(passage.tokens[-len(body) :]) == body
        view = stored.plus(result.passages)
        assert view.chunk_tokens("web-1") == passage.tokens
        assert view.entities_of("web-1") == passage.entities
        assert view.sentences("web-1")[0] == passage.sentences
        assert view.chunks([(PUBLIC, "web-1")]) == {"web-1": passage.chunk}
        assert view.chunks([("farm:pureun", "web-1")]) == {}
        assert view.place("web-1") is None
        assert stored.chunk_tokens("web-1") == ()
        assert stored.plus(()) is stored
        (own,) = stored.levels["G2"].chunk_ids
        assert view.chunk_tokens(own) == stored.chunk_tokens(own) != ()
        assert view.chunks([(PUBLIC, own)]) == stored.chunks([(PUBLIC, own)])


class TestTime:
    def test_a_late_page_is_left_alone(self) -> None:
        release = threading.Event()

        def read(url: str, timeout_s: float) -> list[PageChunk]:
            if url == "late":
                release.wait(20)
            if url == "broken":
                raise IngestError("'broken': 없는 쪽입니다")
            if url == "odd":
                raise ZeroDivisionError
            return [chunk_of(1, url)] if url == "good" else []

        pages, failures = read_pages(["late", "good", "broken", "odd", "bare"], read, time.monotonic() + 0.3)
        release.set()
        assert [[one.chunk.text for one in page] for page in pages] == [["good"], []]
        assert failures[0] == "'late' 이(가) 제때 답하지 않았습니다."
        assert failures[1] == "'broken': 없는 쪽입니다"
        assert "ZeroDivisionError" in failures[2]

    def test_slow_and_bad_pages_beside_a_good_one(self, site: Site) -> None:
        urls = tuple(map(site.url, ("/silent", "/good", "/picture")))
        result = ask(channel_of(Listed(urls), reader(), timeout_s=2.0), plan_of())
        assert result.status == "ok"
        assert {passage.chunk.title for passage in result.passages} == {"토마토 배꼽썩음과"}
        assert result.note is not None
        assert "3쪽 가운데 1쪽을 읽었습니다" in result.note

    @pytest.mark.parametrize("path", ["/silent", "/drip", "/huge", "/loop", "/closed/page", "/picture", "/missing"])
    def test_no_page_at_all_is_a_failure(self, site: Site, path: str) -> None:
        result = ask(channel_of(Listed((site.url(path),)), reader(), timeout_s=0.8), plan_of())
        assert (result.status, result.hits) == ("failed", ())
        assert result.error is not None
        assert "하나도 읽지 못했습니다" in result.error

    def test_a_provider_that_is_down(self) -> None:
        result = ask(channel_of(Down(), reader()), plan_of())
        assert (result.status, result.error) == ("failed", "웹 검색에 실패했습니다.")


class TestDdgs:
    """Its interface, with the library's class replaced: no test asks the internet."""

    def test_results_and_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import ddgs

        asked: list[tuple[str, dict[str, object]]] = []

        class Engine:
            def __init__(self, timeout: int) -> None:
                assert timeout >= 1

            def text(self, query: str, **options: object) -> list[dict[str, str]]:
                asked.append((query, options))
                if query == "없음":
                    raise RuntimeError("No results found.")
                if query == "고장":
                    raise RuntimeError("rate limit")
                return [{"title": "제목", "href": f"https://a.kr/{n}", "body": "글"} for n in range(5)]

        monkeypatch.setattr(ddgs, "DDGS", Engine)
        provider = DdgsProvider()
        assert [hit.url for hit in provider.search("토마토", 2, 2.5)] == ["https://a.kr/0", "https://a.kr/1"]
        assert asked[0][1]["max_results"] == 2
        assert provider.search("없음", 2, 0.5) == ()
        with pytest.raises(ChannelUnavailable, match="rate limit"):
            provider.search("고장", 2, 0.5)

    def test_not_installed_or_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        embedder = FakeEmbedder()
        with pytest.raises(SettingsError, match=r"'bing'.*ddgs"):
            web_channel(Settings(web_enabled=True, web_provider="bing"), embedder)  # type: ignore[arg-type]
        monkeypatch.setitem(sys.modules, "ddgs", None)
        with pytest.raises(SettingsError, match="pip install"):
            web_channel(Settings(web_enabled=True), embedder)  # type: ignore[arg-type]


class TestShares:
    def test_the_others_are_scaled(self) -> None:
        weights = with_shares(Weights({"a": 0.5, "b": 0.3, "c": 0.2}), {WEB: 0.4})
        assert dict(weights.by_channel) == pytest.approx({"a": 0.3, "b": 0.18, "c": 0.12, WEB: 0.4})

    def test_none_or_named_already(self) -> None:
        weights = Weights({"a": 0.9, WEB: 0.1})
        assert with_shares(weights, {WEB: 0.4}) is weights
        assert with_shares(weights, {}) is weights


def test_spans_need_not_cover_the_text() -> None:
    passage = channel_of(Listed(()), reader())._passage(
        replace(chunk_of(1, "가나다 라마바"), spans=(SentenceSpan(0, 3),)), (), [("가나다",)], frozenset()
    )
    assert passage.vectors.shape[0] == 1
    assert np.isfinite(passage.vectors).all()
