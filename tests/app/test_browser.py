"""The chat in a real browser: a question is typed, a number in the answer is clicked, the evidence opens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.app.conftest import APP, CONFIG

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 90_000

pytestmark = pytest.mark.browser


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert server.poll() is None, "streamlit ended before it answered"
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise AssertionError("streamlit did not answer within 90 seconds")


@contextmanager
def _serving(store: Path, profiles: Path, folder: Path, *command: str) -> Iterator[str]:
    """The address of the app started by ``python command… PORT``."""
    config = folder / "onsil.toml"
    config.write_text(CONFIG.format(store=store, profiles=profiles), encoding="utf-8")
    port = _free_port()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ONSIL_")}
    server = subprocess.Popen(
        [sys.executable, *command, str(port)],
        cwd=APP.parent,
        env={**environment, "ONSIL_CONFIG": str(config)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_up(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture
def url(store: Path, profiles: Path, tmp_path: Path) -> Iterator[str]:
    with _serving(store, profiles, tmp_path, "-m", "streamlit", "run", str(APP), "--server.port") as address:
        yield address


@pytest.fixture
def slow_url(store: Path, profiles: Path, tmp_path: Path) -> Iterator[str]:
    with _serving(store, profiles, tmp_path, "-m", "tests.app.slow_app") as address:
        yield address


@pytest.fixture
def page() -> Iterator[Page]:
    assert CHROMIUM.exists(), f"{CHROMIUM} is missing: apt-get install chromium fonts-noto-cjk"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


def _ask(page: Page, question: str) -> None:
    box = page.get_by_test_id("stChatInputTextArea")
    expect(box).to_be_enabled(timeout=WAIT_MS)
    box.fill(question)
    box.press("Enter")


def test_question_answer_evidence_reload(url: str, page: Page, tmp_path: Path) -> None:
    outside: list[str] = []
    alerts: list[str] = []
    page.on("request", lambda r: None if r.url.startswith((url, "data:", "blob:")) else outside.append(r.url))
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    page.goto(url)
    expect(page.get_by_text("무엇이 궁금하세요?")).to_be_visible(timeout=WAIT_MS)

    _ask(page, "딸기 수확 후기에는 급액 EC 얼마로 낮춰요?")
    number = page.locator("button.on-cite").first
    expect(number).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("1.0~1.2dS/m").first).to_be_visible()
    number.click()
    marked = page.locator(".on-passage mark")
    expect(marked).to_be_visible(timeout=WAIT_MS)
    expect(marked).to_contain_text("급액 EC")
    page.screenshot(path=(os.environ.get("ONSIL_SCREENSHOT") and _kept()) or tmp_path / "chat.png")

    page.get_by_role("button", name="원문 열기").click()
    expect(page.get_by_role("dialog").locator("mark")).to_be_visible(timeout=WAIT_MS)
    page.keyboard.press("Escape")

    page.reload()
    expect(page.locator("button.on-cite").first).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_test_id("stChatMessage")).to_have_count(2)

    _ask(page, "농약 보관함의 온도는 몇 도 이하로 해요?")
    expect(page.get_by_text("<img src=x onerror=alert(2)>").first).to_be_visible(timeout=WAIT_MS)
    assert alerts == []
    assert [address for address in outside if not address.startswith("ws")] == []


def test_streaming_answer_locks_the_input_and_can_be_stopped(slow_url: str, page: Page, tmp_path: Path) -> None:
    page.goto(slow_url)
    _ask(page, "딸기 수확 후기에는 급액 EC 얼마로 낮춰요?")
    expect(page.get_by_text("낱말0 낱말1")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("앞에 2명이 기다립니다")).to_be_visible()
    expect(page.get_by_test_id("stChatInputTextArea")).to_be_disabled()
    page.screenshot(path=tmp_path / "streaming.png")
    page.get_by_role("button", name="답변 멈추기").click()
    expect(page.get_by_text("답변을 중간에 멈췄습니다.")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_test_id("stChatInputTextArea")).to_be_enabled()
    expect(page.get_by_test_id("stChatMessage")).to_have_count(2)


def _kept() -> Path:
    """Where the README's picture lies."""
    path = APP.parent / "rag" / "ui" / "screenshots" / "chat.png"
    path.parent.mkdir(exist_ok=True)
    return path
