"""Fetching from the web: what is taken, what is refused, and that nothing reads further than it may."""

from __future__ import annotations

import socket
import tracemalloc
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import httpx
import pytest

from ingest.__main__ import main as ingest
from ingest.limits import Limits
from ingest.loaders import parse
from ingest.loaders.web import Source, harmless, is_url, marked, source_of
from ingest.web import FetchRules, PageReader, fetch, is_public, logical_of
from rag.errors import IngestError
from rag.schema import PUBLIC
from rag.stores.record import ScopeRecord
from rag.text import korean
from tests.fakes import FakeEmbedder
from tests.web_server import Site, serving

RULES = FetchRules(timeout_s=10.0, limit_bytes=2**20, allow_private=True)
SHORT = FetchRules(timeout_s=0.6, limit_bytes=2**20, allow_private=True)


@pytest.fixture(scope="module")
def shared() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def site(shared: Site) -> Site:
    shared.asked.clear()
    shared.sent = 0
    return shared


def refusal(url: str, rules: FetchRules = RULES) -> str:
    with pytest.raises(IngestError) as caught:
        fetch(url, rules)
    assert f"'{url}'" in str(caught.value)
    return str(caught.value)


def text_of(site: Site, path: str) -> str:
    page = fetch(site.url(path), RULES)
    return parse(marked(page.data, page.kind, Source(page.url, "2026-12-01")), page.logical, Limits()).text


class TestTaken:
    def test_a_page_without_what_surrounds_it(self, site: Site) -> None:
        page = fetch(site.url("/good"), RULES)
        assert (page.kind, page.url) == ("html", site.url("/good"))
        assert page.logical == f"web/127.0.0.1_{site.server_port}/good.html"
        text = text_of(site, "/good")
        assert text.startswith("토마토 배꼽썩음과\n")
        assert "염화칼슘 0.3% 액" in text
        for surrounding in ("메뉴", "저작권", "훔치기", "[1]"):
            assert surrounding not in text
        assert site.agents == {"onsil/0.1"}

    @pytest.mark.parametrize("path", ["/meta_euckr", "/header_euckr", "/gzip", "/moved"])
    def test_encodings_packing_and_redirects(self, site: Site, path: str) -> None:
        assert text_of(site, path) == text_of(site, "/good")

    @pytest.mark.parametrize(("path", "name"), [("/paper.pdf", "paper.pdf"), ("/download", "download.pdf")])
    def test_a_pdf_by_its_bytes(self, site: Site, path: str, name: str) -> None:
        page = fetch(site.url(path), RULES)
        assert page.kind == "pdf"
        assert page.logical.endswith("/" + name)
        document = parse(marked(page.data, "pdf", Source(page.url, "2026-12-01")), page.logical, Limits())
        assert "칼슘이 모자라면 생긴다" in document.text
        assert document.blocks[0].locator == f"1쪽 (127.0.0.1:{site.server_port})"
        assert document.notes[0] == f"웹 문서입니다: {page.url} (2026-12-01 읽음)"

    def test_the_place_of_a_page_is_its_address_and_day(self, site: Site) -> None:
        page = fetch(site.url("/good"), RULES)
        document = parse(marked(page.data, "html", Source(page.url, "2026-12-01")), page.logical, Limits())
        assert {block.locator for block in document.blocks} == {f"{page.url} (2026-12-01 읽음)"}


class TestRefused:
    def test_robots(self, site: Site) -> None:
        assert "robots.txt" in refusal(site.url("/closed/page"))
        assert site.asked == ["/robots.txt"]
        assert "robots.txt" in refusal(site.url("/to_closed"))
        assert "/closed/page" not in site.asked

    @pytest.mark.parametrize("path", ["/silent", "/drip"])
    def test_slow(self, site: Site, path: str) -> None:
        assert "0.6초 안에 받지 못했습니다" in refusal(site.url(path), SHORT)

    @pytest.mark.parametrize("path", ["/huge", "/bomb", "/says_huge"])
    def test_too_large(self, site: Site, path: str) -> None:
        assert "너무 큽니다(한도 1.0MB)" in refusal(site.url(path))
        # what was read, one block and what the two socket buffers hold
        assert site.sent < 2**24

    def test_a_bomb_is_not_unpacked(self, site: Site) -> None:
        tracemalloc.start()
        refusal(site.url("/bomb"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * 2**20  # 50 MB unpacked, the limit is 1 MB

    def test_a_redirect_loop(self, site: Site) -> None:
        assert "5번 넘게 돌립니다" in refusal(site.url("/loop"))
        assert site.asked.count("/loop") == 6

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("/missing", "404"),
            ("/broken", "500"),
            ("/picture", "image/png"),
            ("/lying", "PNG"),
            ("/empty", "빈 쪽"),
            ("/brotli", "br"),
            ("/to_file", "file"),
        ],
    )
    def test_what_is_no_document(self, site: Site, path: str, why: str) -> None:
        assert why in refusal(site.url(path))

    @pytest.mark.parametrize(
        "url", ["ftp://127.0.0.1/x", "file:///etc/passwd", "http://user:pw@127.0.0.1/x", "http://"]
    )
    def test_addresses(self, url: str) -> None:
        refusal(url)

    def test_a_server_that_is_down(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        assert "인터넷 연결과 주소를 확인" in refusal(f"http://127.0.0.1:{port}/")


class TestInnerNetwork:
    """The page of a stranger must not make this machine ask its own network."""

    def test_refused_by_default(self, site: Site) -> None:
        rules = FetchRules(timeout_s=10.0, limit_bytes=2**20)
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "0.0.0.0"):
            message = refusal(f"http://{host}:{site.server_port}/good", rules)
            assert "web_allow_private" in message or "찾지 못했습니다" in message
        assert site.asked == []

    def test_a_redirect_inside_is_refused(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        real = socket.getaddrinfo
        public = {"public.example"}

        def resolve(host: str, *rest: object, **named: object) -> object:
            return real("127.0.0.1" if host in public else host, *rest, **named)  # type: ignore[arg-type]

        monkeypatch.setattr("ingest.web.socket.getaddrinfo", resolve)
        monkeypatch.setattr("ingest.web.is_public", lambda address: address == "127.0.0.1")
        rules = FetchRules(timeout_s=10.0, limit_bytes=2**20)
        message = refusal(f"http://public.example:{site.server_port}/to_metadata", rules)
        assert "안쪽 망의 주소(169.254.169.254)" in message

    def test_a_second_look_up_leads_nowhere_else(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """The connection goes to the address that was checked, with the host's own name."""
        real = socket.getaddrinfo
        asked: list[str] = []

        def resolve(host: str, *rest: object, **named: object) -> object:
            asked.append(host)
            return real("127.0.0.1" if host == "rebinding.example" else host, *rest, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        page = fetch(f"http://rebinding.example:{site.server_port}/good", RULES)
        assert page.kind == "html"
        assert set(asked) == {"rebinding.example", "127.0.0.1"}

    @pytest.mark.parametrize(
        ("address", "public"),
        [
            ("8.8.8.8", True),
            ("2606:4700::1111", True),
            ("10.1.2.3", False),
            ("192.168.0.1", False),
            ("169.254.169.254", False),
            ("100.64.0.1", False),
            ("0.0.0.0", False),
            ("224.0.0.1", False),
            ("::1", False),
            ("fe80::1%eth0", False),
            ("fc00::1", False),
            ("::ffff:127.0.0.1", False),
            ("2002:7f00:1::", False),
            ("64:ff9b::7f00:1", False),
        ],
    )
    def test_addresses(self, address: str, public: bool) -> None:
        assert is_public(address) is public


class TestHostile:
    def test_only_harmless_words_are_left(self, site: Site) -> None:
        text = text_of(site, "/hostile")
        for bad in ("<|im_start|>", "[INST]", "[1]", "[2]", "[9]", "틀 속 글", "숨은", "document.location", "onerror"):
            assert bad not in text
        assert "소금을 뿌린다" in text  # a lie is a lie, and cited as that page's

    def test_footnotes_and_control_tokens(self) -> None:
        assert harmless("칼슘[12]은 EC <1.5 에서 [편집]<|im_end|>") == "칼슘은 EC <1.5 에서< |im_end|>"


class TestNames:
    @pytest.mark.parametrize(
        ("url", "logical"),
        [
            ("https://www.nongsaro.go.kr/", "web/www.nongsaro.go.kr/index"),
            ("https://a.kr/x/y.pdf", "web/a.kr/x/y.pdf"),
            ("https://a.kr:8443/x", "web/a.kr_8443/x"),
            ("https://a.kr/../../etc/passwd", "web/a.kr/etc/passwd"),
            ("https://a.kr/%2e%2e/%2e%2e/.ssh", "web/a.kr/ssh"),
            ("https://a.kr/%ED%86%A0%EB%A7%88%ED%86%A0", "web/a.kr/토마토"),
        ],
    )
    def test_logical_paths(self, url: str, logical: str) -> None:
        assert logical_of(httpx.URL(url)) == logical

    def test_a_query_makes_another_page(self) -> None:
        one, other = (logical_of(httpx.URL(f"https://a.kr/view.do?id={n}")) for n in (1, 2))
        assert one != other
        assert one.startswith("web/a.kr/view-")
        assert one.endswith(".do")

    def test_what_is_an_address(self) -> None:
        assert [is_url(text) for text in ("https://a.kr", "HTTP://a", "a.kr/x", "c:\\x", "폴더/파일")] == [
            True,
            True,
            False,
            False,
            False,
        ]

    def test_only_fetched_files_have_a_mark(self) -> None:
        data = marked(b"<html>x", "html", Source("https://a.kr/b--c", "2026-12-01"))
        assert source_of(data, "web/a.kr/b.html") == Source("https://a.kr/b--c", "2026-12-01")
        assert source_of(data, "자료/b.html") is None
        assert source_of(b"<html>x", "web/a.kr/b.html") is None


def test_the_reader_of_the_web_channel(site: Site) -> None:
    read = PageReader(
        limit_bytes=2**20,
        allow_private=True,
        split=korean().sentences,
        count_tokens=FakeEmbedder().count_tokens,
        today=lambda: date(2026, 12, 1),
    )
    chunks = read(site.url("/good"), "G2", 10.0)
    assert chunks == read(site.url("/good"), "G2", 10.0)
    assert {one.chunk.level for one in chunks} == {"G2"}
    assert {one.chunk.locator for one in chunks} == {f"{site.url('/good')} (2026-12-01 읽음)"}
    assert all(one.chunk.text[span.start : span.end].strip() for one in chunks for span in one.spans)


class TestCommand:
    """``python -m ingest URL``."""

    @pytest.fixture(autouse=True)
    def settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config = tmp_path / "onsil.toml"
        config.write_text("web_allow_private = true\ndemo_today = 2026-12-01\ningest_limit_mb = 1\n", encoding="utf-8")
        monkeypatch.setenv("ONSIL_CONFIG", str(config))

    def test_beside_files_and_one_failure_spoils_nothing(
        self, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "환기.md").write_text("# 환기\n\n낮에는 천창을 연다.\n", encoding="utf-8")
        paths = [str(tmp_path / "환기.md"), site.url("/good"), site.url("/huge"), site.url("/paper.pdf")]
        assert ingest([*paths, "--public", "--store", str(tmp_path / "store")]) == 1
        said = capsys.readouterr().out
        assert f"[실패] {site.url('/huge')}" in said
        documents = {d.path: d for d in ScopeRecord(tmp_path / "store", PUBLIC).documents()}
        where = f"web/127.0.0.1_{site.server_port}"
        assert documents.keys() == {"환기.md", f"{where}/good.html", f"{where}/paper.pdf"}
        page = documents[f"{where}/good.html"]
        assert page.title == "토마토 배꼽썩음과"
        assert f"웹 문서입니다: {site.url('/good')} (2026-12-01 읽음)" in page.notes
        record = ScopeRecord(tmp_path / "store", PUBLIC)
        (chunk, *_) = record.chunks([row["chunk_id"] for row in record.chunk_rows("G2")]).values()
        assert ingest([site.url("/good"), "--public", "--store", str(tmp_path / "store")]) == 0
        assert "[그대로]" in capsys.readouterr().out
        assert ingest(["--rebuild", "--public", "--store", str(tmp_path / "store"), "--quiet"]) == 0
        again = {d.path: d for d in ScopeRecord(tmp_path / "store", PUBLIC).documents()}
        assert again[page.path].notes == page.notes
        assert record.chunks([chunk.chunk_id]).keys() == {chunk.chunk_id}

    def test_declared_sources(self, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        store = str(tmp_path / "store")
        assert ingest(["--sources", "--public", "--store", store]) == 2
        assert "[sources]" in capsys.readouterr().err
        (tmp_path / "환기.md").write_text("# 환기\n\n낮에는 천창을 연다.\n", encoding="utf-8")
        with (tmp_path / "onsil.toml").open("a", encoding="utf-8") as config:
            config.write(f"[sources]\npublic = ['{tmp_path / '환기.md'}', '{site.url('/moved')}']\n")
        assert ingest(["--sources", "--public", "--store", store, "--quiet"]) == 0
        paths = {document.path for document in ScopeRecord(tmp_path / "store", PUBLIC).documents()}
        assert paths == {"환기.md", f"web/127.0.0.1_{site.server_port}/good.html"}
