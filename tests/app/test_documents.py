"""The documents page and the desk behind it: batches, reasons, farms kept apart, what questions see and when."""

from __future__ import annotations

import io
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

import ingest.service
import ingest.writer
from rag.errors import ScopeViolation
from rag.schema import PUBLIC, Scope
from rag.settings import Settings, load_settings
from rag.stores.record import DocumentRow, ScopeRecord
from rag.ui import intake
from rag.ui.components.documents import found, ordered, rows_html, table
from rag.ui.intake import Desk, Row, desk_of, sweep_uploads, uploads_folder
from rag.ui.library import Listed
from tests.app.conftest import APP, CONFIG, ask, bodies, page_text, press
from tests.app.test_browser import WAIT_MS, _ask, _serving, page

__all__ = ["page"]

OWN, OTHER = "farm:haetsal", "farm:pureun"
GENERATOR = "# 비상 발전기 점검\n\n비상 발전기는 매달 첫 월요일에 13분 동안 돌려 본다.\n".encode()
ABOUT = "비상 발전기는 몇 분 동안 돌려 봐?"
SAID = "13분 동안 돌려 본다"
SECRET = f"{OTHER}/파프리카_배액률.md"
Start = Callable[..., AppTest]


class Sent(io.BytesIO):
    """An upload."""

    def __init__(self, name: str, data: bytes, size: int | None = None) -> None:
        super().__init__(data)
        self.name = name
        self.size = len(data) if size is None else size


@pytest.fixture
def own_store(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "store"))


@pytest.fixture
def configured(own_store: Path, profiles: Path, configure: Callable[[str], Path]) -> Callable[..., Settings]:
    """Settings on the test's own store, with further lines."""

    def write(*lines: str) -> Settings:
        text = CONFIG.format(store=own_store, profiles=profiles)
        configure("\n".join([*lines, text]))
        return load_settings()

    write()
    return write


@pytest.fixture
def start(configured: Callable[..., Settings]) -> Start:
    """A browser session on the documents page."""

    def opened(farm: str = "haetsal") -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=120)
        app.query_params["farm"] = farm
        return app.run().switch_page("rag/ui/documents.py").run()

    return opened


@pytest.fixture
def desk(configured: Callable[..., Settings]) -> Desk:
    return desk_of(load_settings(), Scope(farm_id="haetsal"), OWN)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], tuple[threading.Event, threading.Event]]]:
    """Stop the intake where it calls a function: (it has come there, let it go on)."""
    places = {"parse": (ingest.writer, "parse"), "refresh": (ingest.service, "refresh")}
    gates: list[threading.Event] = []

    def stop(place: str) -> tuple[threading.Event, threading.Event]:
        module, name = places[place]
        come, go = threading.Event(), threading.Event()
        original = getattr(module, name)

        def waiting(*args: Any, **options: Any) -> Any:
            come.set()
            assert go.wait(60)
            return original(*args, **options)

        monkeypatch.setattr(module, name, waiting)
        gates.append(go)
        return come, go

    yield stop
    for go in gates:
        go.set()


def states(desk: Desk) -> dict[str, str]:
    return {row.name: row.state for row in desk.rows()}


def reason(desk: Desk, name: str) -> str:
    return next(row.reason for row in desk.rows() if row.name == name)


def upload(app: AppTest, *files: tuple[str, bytes]) -> AppTest:
    app.file_uploader[0].set_value([(name, data, "application/octet-stream") for name, data in files]).run()
    return press(app, "take-in")


def listed(app: AppTest) -> list[str]:
    """File names in the list."""
    return list(app.dataframe[0].value["파일"])


def chat(app: AppTest, question: str) -> str:
    """The page after a question of the same session."""
    return page_text(ask(app.switch_page("rag/ui/chat.py").run(), question))


def opened(app: AppTest, path: str) -> AppTest:
    """Select the document's row."""
    table = app.dataframe[0]
    app.session_state[table.key] = {"selection": {"rows": [listed(app).index(path)], "columns": [], "cells": []}}
    return app.run()


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


class TestPage:
    def test_five_files_one_damaged_four_answer(self, start: Start, desk: Desk) -> None:
        app = start()
        assert listed(app) == ["농약_보관.md", "딸기_급액_EC.md", "딸기_야간온도.md", "토마토_배꼽썩음과.md"]
        texts = {f"{n}호기.md": f"# {n}호기\n\n{n}호기 펌프의 압력은 {n}.7바이다.\n".encode() for n in (1, 2, 3)}
        app = upload(app, *texts.items(), ("발전기.md", GENERATOR), ("깨진.hwpx", b"PK\x03\x04" + bytes(3000)))
        assert not app.exception
        assert not app.file_uploader[0].value  # the server forgets the bytes
        assert desk.join(60)
        app = app.run()
        assert states(desk) == dict.fromkeys(["1호기.md", "2호기.md", "3호기.md", "발전기.md"], "indexed") | {
            "깨진.hwpx": "failed"
        }
        rows = next(body for body in bodies(app) if "<table" in body)
        assert "✗ 실패" in rows
        assert "다시 저장한 뒤 올려 주세요" in rows
        assert len(listed(app)) == 8
        assert not list(uploads_folder(desk.settings.store, OWN).glob("*/[0-9a-f]*"))
        assert SAID in chat(app, ABOUT)
        assert "13분" not in chat(start("pureun"), ABOUT)

    def test_public_is_chosen_and_every_farm_asks(self, start: Start, configured: Callable[..., Settings]) -> None:
        app = start()
        app.button_group[0].set_value(PUBLIC).run()
        assert any(button.label == "공용 자료에 넣기" for button in app.button)
        app = upload(app, ("발전기.md", GENERATOR))
        assert desk_of(load_settings(), Scope(farm_id="haetsal"), PUBLIC).join(60)
        assert SAID in chat(start("pureun"), ABOUT)

    def test_public_may_be_closed_to_the_screen(self, start: Start, configured: Callable[..., Settings]) -> None:
        settings = configured("public_documents_editable = false")
        app = opened(start(), "딸기_야간온도.md")
        assert app.button_group[0].options == ["햇살농원 자료"]
        assert not [b for b in app.button if (b.key or "").startswith(("remove-", "reindex-", "rebuild-public"))]
        with pytest.raises(ScopeViolation, match="바꿀 수 없습니다"):
            desk_of(settings, Scope(farm_id="haetsal"), PUBLIC)
        assert "바꿀 수 없게" in start("public").info[0].value

    def test_a_document_shows_its_chunks_at_three_levels_and_its_original(self, start: Start) -> None:
        app = opened(start(), "딸기_급액_EC.md")
        levels = app.button_group[-1]
        assert [option.split()[0] for option in levels.options] == ["G1", "G2", "G3"]
        text = "\n".join(bodies(app))
        assert "딸기 급액 EC 관리" in text
        shown = {}
        for level in ("G1", "G2", "G3"):
            app.button_group[-1].set_value(level).run()
            shown[level] = [body for body in bodies(app) if "on-passage" in body][-1].count("on-rank")
        record = ScopeRecord(load_settings().store, PUBLIC)
        assert shown == {level: len(record.chunks_of("public/딸기_급액_EC.md", level)) for level in shown}
        assert shown["G1"] > shown["G3"]
        app = press(app, "open-")
        assert not app.exception
        assert app.get("download_button")
        assert "배액 EC는 주 1회 잰다." in bodies(app)[-1]

    def test_a_selected_row_opens(self, start: Start) -> None:
        app = opened(start(), "딸기_야간온도.md")
        assert app.session_state["document-haetsal"] == "public/딸기_야간온도.md"
        app.text_input[0].set_value("온도").run()  # another table: it stays open
        assert any("public/딸기_야간온도.md" in (button.key or "") for button in app.button)

    def test_search_and_order(self, start: Start) -> None:
        app = start()
        app.text_input[0].set_value("딸기 온도").run()
        assert listed(app) == ["딸기_야간온도.md"]
        app.text_input[0].set_value("없는말").run()
        assert not app.dataframe
        assert "맞는 것이 없습니다" in page_text(app)

    def test_removed_is_no_longer_answered_from(self, start: Start, desk: Desk) -> None:
        app = upload(start(), ("발전기.md", GENERATOR))
        assert desk.join(60)
        assert SAID in chat(app, ABOUT)
        app = opened(app.switch_page("rag/ui/documents.py").run(), "발전기.md")
        app = press(app, "remove-")
        assert desk.join(60)
        app = app.run()
        assert "발전기.md" not in listed(app)
        session = start()
        assert SAID not in chat(session, ABOUT)

    @pytest.mark.parametrize("doc_id", [SECRET, f"{OWN}/../../farms/pureun/파프리카_배액률.md", "farm:없는농장/x.md"])
    def test_another_farm_s_document_cannot_be_opened(self, start: Start, doc_id: str) -> None:
        app = start()
        app.session_state["document-haetsal"] = doc_id
        app = app.run()
        assert not app.exception
        assert "파프리카_배액률.md" not in str(listed(app))
        assert "37.4" not in page_text(app)
        assert not [b for b in app.button if (b.key or "").startswith(("remove-", "open-", "reindex-"))]

    def test_rows_of_a_farm_are_not_seen_by_another(self, start: Start, desk: Desk) -> None:
        app = upload(start(), ("우리만의_이름.md", GENERATOR))
        assert desk.join(60)
        assert "우리만의_이름" in page_text(app.run())
        assert "우리만의_이름" not in page_text(start("pureun"))

    def test_hostile_names_are_letters(self, start: Start, desk: Desk) -> None:
        name = "<img src=x onerror=alert(3)> $E$ :red[x].md"
        app = upload(start(), (name, GENERATOR), ("나쁜\n이름.md", b"# a\n\nb c d.\n"), ("../../밖.md", b"x"))
        assert desk.join(60)
        assert states(desk) == {name: "indexed", "나쁜_이름.md": "indexed", "../../밖.md": "failed"}
        text = page_text(opened(app.run(), name))
        assert "<img" not in text
        assert "&lt;img src=x onerror=alert(3)&gt; $E$ :red[x].md" in text

    def test_an_empty_installation_takes_its_first_document(self, start: Start, configured, tmp_path) -> None:
        settings = configured()
        for folder in ("public", "farms"):
            shutil.rmtree(settings.store / folder)
        app = start()
        assert "아직 넣은 문서가 없습니다" in page_text(app)
        app = upload(app, ("발전기.md", GENERATOR))
        assert desk_of(settings, Scope(farm_id="haetsal"), OWN).join(60)
        assert listed(app.run()) == ["발전기.md"]
        assert SAID in chat(app, ABOUT)


class TestMeanwhile:
    def test_questions_are_answered_while_a_file_is_read(self, start: Start, desk: Desk, gate) -> None:
        come, go = gate("parse")
        app = upload(start(), ("발전기.md", GENERATOR), ("둘째.md", b"# b\n\nzwei.\n"))
        assert come.wait(60)
        assert states(desk) == {"발전기.md": "reading", "둘째.md": "waiting"}
        assert "읽는 중" in page_text(app.run())
        assert "1.0~1.2dS/m" in chat(start(), "딸기 수확 후기에는 급액 EC 얼마로 낮춰요?")
        go.set()
        assert desk.join(60)
        assert set(states(desk).values()) == {"indexed"}

    def test_a_document_answers_only_when_it_is_complete(self, start: Start, desk: Desk, gate) -> None:
        come, go = gate("refresh")
        app = upload(start(), ("발전기.md", GENERATOR))
        assert come.wait(60)
        assert ScopeRecord(desk.settings.store, OWN).document(f"{OWN}/발전기.md") is not None
        assert "곧 답에 쓰입니다" in page_text(app.run())
        assert SAID not in chat(start(), ABOUT)
        go.set()
        assert desk.join(60)
        assert "곧 답에 쓰입니다" not in page_text(app.run())
        assert SAID in chat(start(), ABOUT)

    def test_another_writer_is_waited_for_in_sight(self, start: Start, desk: Desk) -> None:
        with ScopeRecord(desk.settings.store, OWN).writer():
            desk.put([Sent("발전기.md", GENERATOR)])
            while not desk.hindrance:
                assert desk.busy
                time.sleep(0.02)
            assert "다른 작업이 쓰고 있습니다" in str([warning.value for warning in start().warning])
            assert states(desk) == {"발전기.md": "waiting"}
        assert desk.join(60)
        assert (states(desk), desk.hindrance) == ({"발전기.md": "indexed"}, "")

    def test_a_writer_that_never_ends_is_named(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(intake, "PATIENCE_S", -1.0)
        with ScopeRecord(desk.settings.store, OWN).writer():
            desk.put([Sent("발전기.md", GENERATOR)])
            assert desk.join(60)
        assert "다른 작업이 쓰고 있습니다" in reason(desk, "발전기.md")

    def test_removal_goes_before_waiting_files_which_can_be_cancelled(self, desk: Desk, gate) -> None:
        come, go = gate("parse")
        desk.put([Sent("첫째.md", GENERATOR), Sent("둘째.md", b"# b\n\nzwei.\n")])
        assert come.wait(60)
        desk.remove(f"{OWN}/농약_보관.md")
        desk.cancel_waiting()
        desk.remove(f"{OWN}/농약_보관.md")
        go.set()
        assert desk.join(60)
        assert [row.state for row in desk.rows()] == ["indexed", "cancelled", "cancelled", "removed"]

    def test_a_name_waits_once_and_comes_again_as_a_new_version(self, desk: Desk, gate) -> None:
        come, go = gate("parse")
        desk.put([Sent("발전기.md", GENERATOR), Sent("발전기.md", b"# b\n\nzwei.\n")])
        assert come.wait(60)
        assert "같은 이름의 파일이 이미 차례를 기다립니다" in desk.rows()[1].reason
        go.set()
        assert desk.join(60)
        desk.put([Sent("발전기.md", b"# b\n\nzwei.\n")])
        assert desk.join(60)
        assert [row.state for row in desk.rows()] == ["indexed", "failed", "updated"]

    def test_a_fault_in_one_file_leaves_the_others(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        original = ingest.writer.Writer._stored

        def broken(self: Any, document: DocumentRow, *rest: Any) -> Any:
            if document.path == "둘째.md":
                raise RuntimeError("disk")
            return original(self, document, *rest)

        monkeypatch.setattr(ingest.writer.Writer, "_stored", broken)
        desk.put([Sent(f"{n}.md", f"# {n}\n\n{n} 자료이다.\n".encode()) for n in ("첫째", "둘째", "셋째")])
        assert desk.join(60)
        assert states(desk) == {"첫째.md": "indexed", "둘째.md": "failed", "셋째.md": "indexed"}
        assert all(row.seen for row in desk.rows())


class TestDesk:
    def test_a_large_file_is_refused_unread(self, configured: Callable[..., Settings]) -> None:
        desk = desk_of(configured("ingest_limit_mb = 1"), Scope(farm_id="haetsal"), OWN)

        class Unread(Sent):
            def read(self, size: int | None = -1, /) -> bytes:
                raise AssertionError("read")

        desk.put([Unread("큰.pdf", b"", size=2**20 + 1)])
        assert desk.join(5)
        assert states(desk) == {"큰.pdf": "failed"}
        assert "한도 1.0MB" in reason(desk, "큰.pdf")

    def test_another_scope_s_document_is_no_task(self, desk: Desk) -> None:
        for act in (desk.remove, desk.reindex):
            with pytest.raises(ScopeViolation):
                act(SECRET)
        with pytest.raises(ScopeViolation):
            desk_of(desk.settings, Scope(farm_id="haetsal"), OTHER)
        assert not desk.rows()

    def test_an_archive_is_one_row_with_its_files(self, desk: Desk) -> None:
        desk.put([Sent("자료.zip", zipped(**{"가.md": GENERATOR, "나.png": b"\x89PNG\r\n"}))])
        assert desk.join(60)
        (row,) = desk.rows()
        assert (row.state, row.reason) == ("partly", "파일 2개: 넣음 1, 실패 1")
        html = rows_html([(OWN, row)], {"haetsal": "햇살농원"})
        assert html.index("자료.zip/나.png") < html.index("자료.zip/가.md")

    def test_again_from_the_original(self, desk: Desk) -> None:
        before = ScopeRecord(desk.settings.store, OWN).document(f"{OWN}/농약_보관.md")
        desk.reindex(f"{OWN}/농약_보관.md")
        desk.rebuild()
        assert desk.join(60)
        assert [row.state for row in desk.rows()] == ["updated", "indexed"]
        assert ScopeRecord(desk.settings.store, OWN).document(f"{OWN}/농약_보관.md") == before

    def test_leftovers_of_a_killed_process_are_swept(self, desk: Desk, gate) -> None:
        left = uploads_folder(desk.settings.store, OTHER) / "0123456789abcdef"
        left.mkdir(parents=True)
        (left / "half").write_bytes(b"x")
        come, go = gate("parse")
        desk.put([Sent("발전기.md", GENERATOR)])
        assert come.wait(60)
        assert sweep_uploads(desk.settings.store) == 1
        assert not left.exists()
        go.set()
        assert desk.join(60)
        assert states(desk) == {"발전기.md": "indexed"}

    def test_finished_rows_are_cleared(self, desk: Desk) -> None:
        desk.put([Sent(".숨김", b"x"), Sent("발전기.md", GENERATOR)])
        assert desk.join(60)
        desk.forget_finished()
        assert desk.rows() == ()


def listing(path: str, **values: Any) -> Listed:
    fields = {"title": path, "format": "md", "kind": "", "crop": "", "date": "", "author": "", "bytes": 1} | values
    document = DocumentRow(
        doc_id=f"public/{path}", path=path, houses=(), content_hash="", original="", pages=None, characters=1,
        tables=0, notes=(), text="", **fields,
    )  # fmt: skip
    return Listed(document, PUBLIC, 1, True)


def test_list_order_and_words() -> None:
    items = [
        listing("나.md", date="2026-01-01", bytes=5),
        listing("가.md"),
        listing("다.md", date="2026-03-01", crop="Tomato"),
    ]
    assert [i.document.path for i in ordered(items, "date")] == ["다.md", "나.md", "가.md"]
    assert [i.document.path for i in ordered(items, "path")] == ["가.md", "나.md", "다.md"]
    assert [i.document.path for i in ordered(items, "bytes")] == ["나.md", "가.md", "다.md"]
    assert [i.document.path for i in found(items, "TOMATO 다")] == ["다.md"]
    assert table(items, {})["자료"] == ["공용 자료"] * 3


def test_only_some_waiting_rows_are_drawn() -> None:
    rows = [(PUBLIC, Row(id=str(n), task="take", name=f"{n}.md")) for n in range(25)]
    html = rows_html(rows, {})
    assert html.count("… 대기") == 10
    assert "그리고 15개가 기다립니다" in html


@pytest.mark.browser
def test_dropped_in_a_browser_and_asked(own_store: Path, profiles: Path, tmp_path: Path, page: Page) -> None:
    alerts: list[str] = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    (tmp_path / "in").mkdir()
    for name, data in {"발전기 <img src=x onerror=alert(1)>.md": GENERATOR, "빈.txt": b""}.items():
        (tmp_path / "in" / name).write_bytes(data)
    with (tmp_path / "in" / "큰.pdf").open("wb") as file:
        file.truncate(51 * 2**20)
    with _serving(own_store, profiles, tmp_path, "-m", "streamlit", "run", str(APP), "--server.port") as url:
        page.goto(f"{url}/documents")
        expect(page.get_by_text("어디에 넣을까요?")).to_be_visible(timeout=WAIT_MS)
        page.locator("input[type=file]").set_input_files(sorted((tmp_path / "in").iterdir()))
        expect(page.get_by_test_id("stFileChip").filter(has_text="큰.pdf")).to_have_attribute("aria-invalid", "true")
        page.get_by_role("button", name="햇살농원 자료에 넣기 (2개)").click()
        expect(page.get_by_text("✓ 넣음")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("빈 파일입니다")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("문서 5개.")).to_be_visible(timeout=WAIT_MS)
        page.screenshot(path=tmp_path / "documents.png")
        page.get_by_role("link", name="대화").click()
        _ask(page, ABOUT)
        expect(page.get_by_text(SAID).first).to_be_visible(timeout=WAIT_MS)
    assert alerts == []
