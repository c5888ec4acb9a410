"""Taking documents in: idempotent, incremental, one bad file spoils nothing, a rebuild changes nothing."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ingest.__main__ import main as ingest
from ingest.sample.build import CorpusManifest
from rag.assembly import build_pipeline
from rag.stores.record import ScopeRecord
from tests.pipeline.support import (
    FARMS,
    asked,
    record_of,
    set_manifest,
    settings_for,
    snapshot_files,
    stable,
    take_in,
    write_files,
)

FILES = {
    "재배/딸기_EC.md": "# 딸기 급액 EC\n\n딸기 수확기 급액 EC는 1.2dS/m로 둔다.\n",
    "재배/토마토_온도.md": "# 토마토 야간 온도\n\n토마토 야간 최저온도는 15℃로 둔다.\n",
}
QUESTIONS = ("딸기 급액 EC는?", "1동 토마토 배액률", "2025년 3월 김주임 작업일지", "정전되면 뭐부터 해야 해?")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files", FILES)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def states(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """path → status of a run with --json."""
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {row["path"]: row["status"] for row in rows if "path" in row}


def texts(record: ScopeRecord) -> str:
    rows = sqlite3.connect(record.folder / "store.sqlite").execute("SELECT text FROM chunks ORDER BY chunk_id")
    return "\n".join(text for (text,) in rows)


class TestIncremental:
    def test_a_second_run_changes_nothing(
        self, own_store: Path, corpus: CorpusManifest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = {farm: (record_of(own_store, farm).digest(), snapshot_files(own_store, farm)) for farm in FARMS}
        for farm in FARMS:
            assert take_in(own_store, farm, corpus.target / "farms" / farm, options=("--json",)) == 0
            assert set(states(capsys).values()) == {"unchanged"}
            assert (record_of(own_store, farm).digest(), snapshot_files(own_store, farm)) == before[farm]

    def test_a_changed_file_replaces_its_old_text(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert take_in(store, "public", folder) == 0
        old = record_of(store, "public").digest()
        write_files(folder, {"재배/딸기_EC.md": "# 딸기 급액 EC\n\n딸기 수확기 급액 EC는 0.9dS/m로 둔다.\n"})
        capsys.readouterr()
        assert take_in(store, "public", folder, options=("--json",)) == 0
        assert states(capsys) == {"재배/딸기_EC.md": "updated", "재배/토마토_온도.md": "unchanged"}
        record = record_of(store, "public")
        assert record.digest() != old
        assert "1.2dS/m" not in texts(record)
        assert len(list((record.folder / "originals").iterdir())) == 2
        answer = build_pipeline(settings_for(store)).ask(asked("딸기 수확기 급액 EC는?", None)).answer
        assert "0.9dS/m" in answer.text
        assert "1.2dS/m" not in answer.text

    def test_a_running_pipeline_sees_the_new_state(self, store: Path, folder: Path) -> None:
        take_in(store, "public", folder)
        pipeline = build_pipeline(settings_for(store))
        assert "1.2dS/m" in pipeline.ask(asked("딸기 수확기 급액 EC는?", None)).answer.text
        write_files(folder, {"재배/딸기_EC.md": "# 딸기 급액 EC\n\n딸기 수확기 급액 EC는 0.9dS/m로 둔다.\n"})
        take_in(store, "public", folder)
        assert "0.9dS/m" in pipeline.ask(asked("딸기 수확기 급액 EC는?", None)).answer.text

    def test_duplicates_are_named_and_left_out(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_files(folder, {"사본.md": FILES["재배/딸기_EC.md"]})
        assert take_in(store, "public", folder, options=("--json",)) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (twin,) = [row for row in rows if row["status"] == "duplicate"]
        assert "같은 내용" in twin["reason"]
        assert record_of(store, "public").counts()["documents"] == 2

    def test_a_farm_s_copy_of_a_public_paper_is_a_duplicate(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(store, "public", folder)
        capsys.readouterr()
        assert take_in(store, "haetsal", folder, options=("--json",)) == 0
        assert set(states(capsys).values()) == {"duplicate"}

    def test_the_same_paper_in_two_farms_is_no_duplicate(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(store, "pureun", folder)
        capsys.readouterr()
        for scope in ("haetsal", "public"):
            assert take_in(store, scope, folder, options=("--json",)) == 0
            assert set(states(capsys).values()) == {"indexed"}

    def test_a_file_that_became_a_copy_leaves_no_old_text(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(store, "public", folder)
        write_files(folder, {"재배/딸기_EC.md": FILES["재배/토마토_온도.md"]})
        capsys.readouterr()
        assert take_in(store, "public", folder, options=("--json",)) == 0
        assert states(capsys)["재배/딸기_EC.md"] == "duplicate"
        assert "1.2dS/m" not in texts(record_of(store, "public"))

    def test_the_old_text_under_a_new_name_is_no_duplicate(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(store, "public", folder)
        write_files(
            folder,
            {
                "재배/딸기_EC.md": "# 딸기 급액 EC\n\n딸기 수확기 급액 EC는 0.9dS/m로 둔다.\n",
                "재배/하_옛판.md": FILES["재배/딸기_EC.md"],
            },
        )
        capsys.readouterr()
        assert take_in(store, "public", folder, options=("--json",)) == 0
        assert states(capsys)["재배/하_옛판.md"] == "indexed"

    def test_two_files_of_one_name_in_one_run(
        self, store: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = write_files(tmp_path / "other", {"재배/딸기_EC.md": "# 딴 문서\n\n딴 문장이다.\n"})
        assert take_in(store, "public", folder, other, options=("--json",)) == 1
        failed = [r for line in capsys.readouterr().out.splitlines() if (r := json.loads(line))["status"] == "failed"]
        assert [row["path"] for row in failed] == ["재배/딸기_EC.md"]
        assert str(other) in failed[0]["reason"]
        assert "1.2dS/m" in texts(record_of(store, "public"))


class TestBadFiles:
    BAD = {
        "빈_파일.md": "",
        "그림.png": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "깨진.docx": b"PK\x03\x04" + bytes(300),
        "깨진.pdf": b"%PDF-1.7\n" + bytes(range(256)) * 4,
        "깨진.hwp": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        "이진.bin": bytes(range(256)) * 8,
    }

    def test_they_fail_with_a_reason_and_the_others_are_in(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_files(folder, self.BAD)
        assert take_in(store, "public", folder, options=("--json",)) == 1
        rows = {row["path"]: row for line in capsys.readouterr().out.splitlines() if (row := json.loads(line))}
        for name in self.BAD:
            assert rows[name]["status"] == "failed", name
            assert any("가" <= char <= "힣" for char in rows[name]["reason"]), name
        assert {name for name, row in rows.items() if row["status"] == "indexed"} == set(FILES)
        assert record_of(store, "public").counts()["documents"] == 2

    def test_a_file_that_became_bad_keeps_its_last_good_state(self, store: Path, folder: Path) -> None:
        take_in(store, "public", folder)
        before = record_of(store, "public").digest()
        write_files(folder, {"재배/딸기_EC.md": b"PK\x03\x04" + bytes(100)})
        assert take_in(store, "public", folder) == 1
        assert record_of(store, "public").digest() == before

    def test_failures_are_shown_even_when_quiet(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_files(folder, {"빈_파일.md": ""})
        assert take_in(store, "public", folder) == 1
        out = capsys.readouterr().out
        assert "[실패] 빈_파일.md" in out
        assert "실패 1개" in out

    def test_a_path_that_is_not_there(self, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert take_in(store, "public", tmp_path / "없는 폴더") == 2
        assert "없는 폴더" in capsys.readouterr().err
        assert not store.exists()

    def test_over_the_limit(
        self, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("ONSIL_INGEST_LIMIT_MB", "1")
        write_files(folder, {"큰.txt": "가나다라 " * 200_000})
        assert take_in(store, "public", folder) == 1
        assert "한도" in capsys.readouterr().out


class TestCommands:
    def test_list(self, own_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert ingest(["--public", "--list", "--store", str(own_store)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == record_of(own_store, "public").counts()["documents"]
        assert all(line.startswith("public/") and line.count("\t") == 3 for line in lines)
        assert ingest(["--farm", "haetsal", "--list", "--json", "--store", str(own_store)]) == 0
        row = json.loads(capsys.readouterr().out.splitlines()[0])
        assert set(row) == {
            "doc_id", "title", "format", "kind", "crop", "date", "author", "houses", "pages", "characters",
        }  # fmt: skip

    def test_list_of_nothing_makes_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert ingest(["--farm", "nobody", "--list", "--store", str(tmp_path / "store")]) == 0
        assert capsys.readouterr().out == ""
        assert not (tmp_path / "store").exists()

    def test_remove(self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        take_in(store, "public", folder)
        pipeline = build_pipeline(settings_for(store))
        assert "1.2dS/m" in pipeline.ask(asked("딸기 급액 EC는?", None)).answer.text
        assert take_in(store, "public", options=("--remove", "재배/딸기_EC.md")) == 0
        record = record_of(store, "public")
        assert record.counts()["documents"] == 1
        assert "1.2dS/m" not in texts(record)
        assert len(list((record.folder / "originals").iterdir())) == 1
        assert "1.2dS/m" not in pipeline.ask(asked("딸기 급액 EC는?", None)).answer.text
        capsys.readouterr()
        assert take_in(store, "public", options=("--remove", "재배/딸기_EC.md")) == 1
        assert "--list" in capsys.readouterr().err

    def test_remove_everything(self, store: Path, folder: Path) -> None:
        take_in(store, "public", folder)
        for name in FILES:
            assert take_in(store, "public", options=("--remove", f"public/{name}")) == 0
        result = build_pipeline(settings_for(store)).ask(asked("딸기 급액 EC는?", None))
        assert result.answer.refused
        assert {channel.status for channel in result.channels} == {"empty"}
        assert take_in(store, "public", folder) == 0
        assert not build_pipeline(settings_for(store)).ask(asked("딸기 급액 EC는?", None)).answer.refused

    def test_remove_cannot_reach_another_scope(self, own_store: Path) -> None:
        before = record_of(own_store, "pureun").digest()
        other = record_of(own_store, "pureun").documents()[0].doc_id
        assert take_in(own_store, "haetsal", options=("--remove", other)) == 1
        assert record_of(own_store, "pureun").digest() == before

    @pytest.mark.parametrize(
        "arguments", [["--public"], ["x.md"], ["--public", "--farm", "a", "x.md"], ["--public", "--nonsense", "x.md"]]
    )
    def test_wrong_usage(self, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as end:
            ingest(arguments)
        assert end.value.code == 2

    @pytest.mark.parametrize("farm", ["../x", "햇살", "A", "", "a/b", "." * 3, "x" * 40])
    def test_farm_names_that_are_no_folder(self, store: Path, folder: Path, farm: str) -> None:
        assert take_in(store, farm, folder) == 2
        assert not store.exists()


class TestRebuild:
    def test_equal_digest_snapshot_and_answers(self, own_store: Path) -> None:
        def state() -> list[object]:
            pipeline = build_pipeline(settings_for(own_store))
            return [
                *((record_of(own_store, s).digest(), snapshot_files(own_store, s)) for s in ("public", *FARMS)),
                *(stable(pipeline.ask(asked(question))) for question in QUESTIONS),
            ]

        before = state()
        for scope in ("public", *FARMS):
            assert take_in(own_store, scope, options=("--rebuild",)) == 0
        assert state() == before

    def test_new_components_are_recorded(self, store: Path, folder: Path) -> None:
        take_in(store, "public", folder)
        present = record_of(store, "public").manifest()
        set_manifest(store, "public", "chunker", "0")
        assert take_in(store, "public", folder) == 3
        assert take_in(store, "public", options=("--rebuild",)) == 0
        assert record_of(store, "public").manifest() == present

    def test_an_original_that_cannot_be_read_is_not_lost(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(store, "public", folder)
        record = record_of(store, "public")
        broken = record.document("public/재배/딸기_EC.md")
        assert broken is not None
        original = record.folder / "originals" / broken.original
        good = original.read_bytes()
        original.write_bytes(b"PK\x03\x04")
        assert take_in(store, "public", options=("--rebuild",)) == 1
        assert "딸기_EC.md" in capsys.readouterr().out
        kept = record.document("public/재배/딸기_EC.md")
        assert kept is not None
        assert "다시 만들지 못했습니다" in kept.notes[0]
        assert original.exists()
        assert "15℃" in texts(record)
        original.write_bytes(good)
        assert take_in(store, "public", options=("--rebuild",)) == 0
        assert "1.2dS/m" in texts(record)

    def test_a_lost_original_comes_back_with_its_file(
        self, store: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(store, "public", folder)
        record = record_of(store, "public")
        before = record.digest()
        for path in (record.folder / "originals").iterdir():
            path.unlink()
        assert take_in(store, "public", options=("--rebuild",)) == 1
        assert record.counts()["documents"] == 2
        capsys.readouterr()
        assert take_in(store, "public", folder, options=("--json",)) == 0
        assert set(states(capsys).values()) == {"updated"}
        assert record.digest() == before

    def test_a_lower_limit_loses_nothing(self, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_files(folder, {"긴_글.txt": "딸기 배액률은 30%로 둔다.\n" + " " * 1_200_000})
        assert take_in(store, "public", folder) == 0
        before = record_of(store, "public").digest()
        monkeypatch.setenv("ONSIL_INGEST_LIMIT_MB", "1")
        assert take_in(store, "public", options=("--rebuild",)) == 0
        assert record_of(store, "public").digest() == before
