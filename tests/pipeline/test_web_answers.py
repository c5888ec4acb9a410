"""Questions with the web channel on: cited like other evidence, harmless when it is not there, never mixed with farms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rag.assembly import build_pipeline, web_channel
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.vector import VectorChannel
from rag.channels.web import KIND, SearchHit
from rag.embedding import load_embedder
from rag.pipeline import Pipeline
from rag.render import as_json, as_text
from rag.schema import BM25, GRAPH, PUBLIC, VECTOR, WEB, Result
from rag.stores.view import Views
from tests.pipeline.support import asked, settings_for, stable
from tests.web_server import Site, serving

QUESTION = "토마토 배꼽썩음과에 염화칼슘 액을 뿌려도 되나요?"


class Pages:
    """A provider of this machine's pages."""

    def __init__(self, *urls: str) -> None:
        self.urls = urls
        self.asked: list[str] = []

    def search(self, query: str, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        self.asked.append(query)
        return [SearchHit(url=url) for url in self.urls]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


def pipeline_with(base: Path, provider: Pages | None, **settings: object) -> Pipeline:
    given = settings_for(base, web_allow_private=True, web_timeout_s=10.0, **settings)
    embedder = load_embedder(given.embedder, given.embedder_threads)
    views = Views(base, {})
    usual = (VectorChannel(views), Bm25Channel(views), GraphChannel(views))
    return build_pipeline(
        given, channels=usual if provider is None else (*usual, web_channel(given, embedder, provider))
    )


def web_of(result: Result) -> list[str]:
    return [item.chunk.chunk_id for item in result.evidence if item.chunk.kind == KIND]


def test_a_page_is_evidence_like_any_other(base: Path, site: Site) -> None:
    provider = Pages(site.url("/good"))
    result = pipeline_with(base, provider).ask(asked(QUESTION))
    assert {r.channel: r.status for r in result.channels}[WEB] == "ok"
    assert web_of(result)
    steps = result.weights
    assert steps.raw[WEB] == pytest.approx(0.4)
    assert sum(steps.final.by_channel.values()) == pytest.approx(1)
    cited = [c for sentence in result.answer.sentences for c in sentence.citations if c.chunk_id in web_of(result)]
    assert cited
    assert any("염화칼슘 0.3% 액을 어린 과실에 뿌린다." in citation.sentence for citation in cited)
    where = f"{site.url('/good')} (2026-12-01 읽음)"
    assert {citation.locator for citation in cited} == {where}
    assert any(where in note and "웹 문서" in note for note in result.answer.notes)
    item = next(item for item in result.evidence if item.chunk.kind == KIND)
    assert {vote.channel for vote in item.votes} == {WEB}
    assert sum(vote.share for vote in item.votes) == pytest.approx(1)
    assert "웹: ok" in as_text(result, explain=True)
    assert WEB in as_json(result)["weights"]["final"]
    assert stable(result) == stable(pipeline_with(base, provider).ask(asked(QUESTION)))


def test_off_by_default(base: Path) -> None:
    names = {result.channel for result in pipeline_with(base, None).ask(asked(QUESTION)).channels}
    assert names == {VECTOR, BM25, GRAPH}
    assert not settings_for(base).web_enabled


@pytest.mark.parametrize("path", ["/huge", "/loop", "/closed/page", "/missing"])
def test_a_failure_is_told_and_changes_nothing_else(base: Path, site: Site, path: str) -> None:
    result = pipeline_with(base, Pages(site.url(path)), web_limit_mb=1).ask(asked(QUESTION))
    usual = pipeline_with(base, None).ask(asked(QUESTION))
    assert {r.channel: r.status for r in result.channels}[WEB] == "failed"
    assert any(banner.startswith("웹: ") for banner in result.banners)
    assert result.answer == usual.answer
    assert result.weights.final[WEB] == 0
    assert {c: result.weights.final[c] for c in (VECTOR, BM25, GRAPH)} == pytest.approx(
        {c: usual.weights.final[c] for c in (VECTOR, BM25, GRAPH)}
    )


def test_fixed_systems_stay_what_they_are(base: Path, site: Site) -> None:
    result = pipeline_with(base, Pages(site.url("/good"))).ask(asked(QUESTION), system="uniform")
    assert not web_of(result)
    assert result.weights.final[VECTOR] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "question",
    ["지난주 화요일 김주임이 쓴 작업일지 찾아줘", "2동 딸기에 칼슘을 언제 뿌렸어?", "우리 농장 토마토 칼슘은 어때?"],
)
def test_what_is_about_the_farm_is_not_sent(base: Path, site: Site, question: str) -> None:
    provider = Pages(site.url("/good"))
    result = pipeline_with(base, provider).ask(asked(question))
    assert provider.asked == []
    run = next(r for r in result.channels if r.channel == WEB)
    assert run.status == "skipped"
    assert run.note is not None
    assert "웹에 보내지 않았습니다" in run.note
    assert not any(banner.startswith("웹: ") for banner in result.banners)


def test_a_hostile_page_is_only_words(base: Path, site: Site) -> None:
    result = pipeline_with(base, Pages(site.url("/hostile"))).ask(asked("토마토 배꼽썩음과에 소금을 뿌리나요?"))
    texts = [item.chunk.text + item.chunk.title for item in result.evidence if item.chunk.kind == KIND]
    assert texts
    for bad in ("<|im_start|>", "[INST]", "[1]", "[2]", "[9]", "틀 속", "숨은", "onerror"):
        assert not any(bad in text for text in texts)
    assert all(sentence.citations for sentence in result.answer.sentences)
    for sentence in result.answer.sentences:
        assert not any(f"[{number}]" in sentence.text for number in range(1, 10))


def test_nothing_of_it_stays(base: Path, site: Site) -> None:
    """Neither the same farm's next question nor another farm's sees a page that was read for one question."""
    with_page = pipeline_with(base, Pages(site.url("/good")))
    first = with_page.ask(asked(QUESTION))
    found = web_of(first)
    assert found
    for farm_id in ("haetsal", "pureun", None):
        view = with_page.views.get(asked(QUESTION, farm_id).scope)
        assert view.chunks([(PUBLIC, chunk_id) for chunk_id in found]) == {}
        assert all(view.chunk_tokens(chunk_id) == () for chunk_id in found)
    assert not (base / "public" / "originals" / "web").exists()
