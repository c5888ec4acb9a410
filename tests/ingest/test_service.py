"""The changes that the command line and the documents page make, and the command line's manners."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ingest.__main__ import main as ingest
from ingest.names import find_files, links_outside
from ingest.service import changing, limits_of
from ingest.writer import FileStatus
from rag.embedding import load_embedder
from rag.errors import IngestError, StoreError
from rag.schema import PUBLIC, farm_scope
from rag.settings import Settings, load_settings
from rag.stores.record import ScopeRecord
from rag.stores.snapshot import current_digest, open_snapshot
from tests.pipeline.support import CONFIG, set_manifest, take_in, write_files

FILES = {
    "급액.md": "# 딸기 급액\n\n딸기 수확기 급액 EC는 1.2dS/m로 둔다.\n",
    "온도.csv": "동,야간온도\n1동,9.5\n2동,10.5\n",
}
FARM = farm_scope("haetsal")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    path = tmp_path / "onsil.toml"
    path.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("ONSIL_CONFIG", str(path))
    monkeypatch.delenv("ONSIL_STORE", raising=False)
    return load_settings(store=tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "in", FILES)


def taken(settings: Settings, scope_id: str, *paths: Path) -> dict[str, FileStatus]:
    with changing(settings, scope_id) as intake:
        statuses = {status.path: status for status in intake.take(find_files(paths))}
        assert intake.publish() == []
    return statuses


def facts(status: FileStatus) -> tuple[Any, ...]:
    return status.format, status.pages, status.characters, status.tables, status.chunks, status.notes


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


class TestChanging:
    def test_a_file_on_file_is_described_by_its_document(self, settings: Settings, folder: Path) -> None:
        first = taken(settings, PUBLIC, folder)
        assert first["온도.csv"].tables == 1
        assert all(status.chunks and status.characters for status in first.values())
        again = taken(settings, PUBLIC, folder)
        write_files(folder / "사본", {"급액 사본.md": FILES["급액.md"]})
        copies = taken(settings, FARM, folder)
        for name, before in first.items():
            assert (again[name].status, copies[name].status) == ("unchanged", "duplicate")
            assert facts(again[name]) == facts(copies[name]) == facts(before)
        assert facts(copies["사본/급액 사본.md"]) == facts(first["급액.md"])

    def test_an_older_version_is_not_described_by_the_newer(self, settings: Settings, folder: Path) -> None:
        text = FILES["급액.md"]
        write_files(folder, {"급액_v1.md": text + "옛 판이다.\n", "급액_v2.md": text + "새 판이다.\n"})
        (folder / "급액.md").unlink()
        taken(settings, PUBLIC, folder)
        row = taken(settings, PUBLIC, folder)["급액_v1.md"]
        assert (row.status, row.format, row.chunks) == ("duplicate", "", 0)

    def test_removed_by_id_or_by_path(self, settings: Settings, folder: Path) -> None:
        taken(settings, PUBLIC, folder)
        with changing(settings, PUBLIC) as intake:
            assert intake.remove("public/급액.md") == "public/급액.md"
            assert intake.remove("온도.csv") == "public/온도.csv"
            assert intake.remove("온도.csv") is None
            intake.publish()
        snapshot = open_snapshot(ScopeRecord(settings.store, PUBLIC))
        assert snapshot is not None
        assert snapshot.documents == ()

    def test_a_name_of_another_scope_is_none_of_this_one(self, settings: Settings, folder: Path) -> None:
        taken(settings, farm_scope("pureun"), folder)
        with changing(settings, FARM) as intake:
            for name in ("farm:pureun/급액.md", "../pureun/급액.md"):
                assert intake.remove(name) is None
                assert intake.reindex(name) is None
        assert ScopeRecord(settings.store, farm_scope("pureun")).counts()["documents"] == 2

    def test_a_change_is_published_to_the_farms_that_show_it(self, settings: Settings, folder: Path) -> None:
        taken(settings, FARM, write_files(folder.parent / "own", {"일지.md": "# 일지\n\n배액을 재었다.\n"}))
        taken(settings, PUBLIC, folder)
        public = current_digest(ScopeRecord(settings.store, PUBLIC))
        farm = ScopeRecord(settings.store, FARM)
        index = farm.folder / "snapshots" / str(current_digest(farm)) / "bm25_G2"
        assert [path.name for path in index.iterdir()] == [public]

    def test_a_farm_that_is_written_to_hinders_nobody(self, settings: Settings, folder: Path) -> None:
        taken(settings, FARM, write_files(folder.parent / "own", {"일지.md": "# 일지\n\n배액을 재었다.\n"}))
        with ScopeRecord(settings.store, FARM).writer(), changing(settings, PUBLIC) as intake:
            assert [status.status for status in intake.take(find_files([folder]))] == ["indexed"] * 2
            (error,) = intake.publish()
        assert FARM in str(error)

    def test_one_writer_at_a_time(self, settings: Settings) -> None:
        with (
            changing(settings, PUBLIC),
            pytest.raises(StoreError, match="다른 작업이 쓰고"),
            changing(settings, PUBLIC, wait_s=0.1),
        ):
            pass

    def test_an_encoder_apart_gives_the_same_vectors_and_no_wait(self, settings: Settings, folder: Path) -> None:
        taken(settings, PUBLIC, folder)
        shared = load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key)
        with shared._lock, changing(settings, FARM, apart=True) as intake:  # the other one is not asked
            next(intake.take(find_files([write_files(folder.parent / "own", {"일지.md": FILES["급액.md"] + "\n"})])))
        public, farm = (ScopeRecord(settings.store, scope).chunk_rows("G2") for scope in (PUBLIC, FARM))
        assert farm[0]["vector"] in {row["vector"] for row in public}

    def test_the_limits_are_the_settings(self, settings: Settings) -> None:
        limits = limits_of(settings)
        assert (limits.bytes, limits.pages) == (settings.ingest_limit_mb * 2**20, settings.ingest_limit_pages)


class TestReindex:
    def test_reads_the_original_again(self, settings: Settings, folder: Path) -> None:
        taken(settings, PUBLIC, folder)
        record = ScopeRecord(settings.store, PUBLIC)
        before = {level: record.chunks_of("public/온도.csv", level) for level in ("G1", "G2", "G3")}
        with record.transaction() as db:
            db.execute("DELETE FROM chunks WHERE doc_id = 'public/온도.csv'")
        (folder / "온도.csv").unlink()
        with changing(settings, PUBLIC) as intake:
            status = intake.reindex("온도.csv")
            intake.publish()
        assert status is not None
        assert (status.status, status.reason, status.format) == ("updated", "다시 색인했습니다.", "csv")
        assert {level: record.chunks_of("public/온도.csv", level) for level in ("G1", "G2", "G3")} == before
        snapshot = open_snapshot(record)
        assert snapshot is not None
        assert len(snapshot.levels["G2"].chunk_ids) == record.counts()["chunks_G2"]

    def test_what_cannot_be_read_now_stays(
        self, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        taken(settings, PUBLIC, folder)
        record = ScopeRecord(settings.store, PUBLIC)
        before, digest = record.document("public/급액.md"), record.digest()

        def broken(data: bytes, name: str, limits: object) -> None:
            raise IngestError("못 읽습니다.")

        monkeypatch.setattr("ingest.writer.parse", broken)
        with changing(settings, PUBLIC) as intake:
            status = intake.reindex("급액.md")
        assert status is not None
        assert (status.status, status.reason) == ("failed", "못 읽습니다.")
        assert (record.document("public/급액.md"), record.digest()) == (before, digest)
        assert record.chunks_of("public/급액.md", "G2")

    def test_a_farm_s_copy_of_a_later_public_paper_stays(self, settings: Settings, folder: Path) -> None:
        taken(settings, FARM, folder)
        taken(settings, PUBLIC, folder)
        with changing(settings, FARM) as intake:
            status = intake.reindex("급액.md")
        assert status is not None
        assert status.status == "updated"
        assert ScopeRecord(settings.store, FARM).document(f"{FARM}/급액.md") is not None


class TestLinks:
    @pytest.fixture
    def linked(self, folder: Path) -> Path:
        outside = write_files(
            folder.parent / "out", {"비밀.md": "# 비밀\n\n바깥 문서이다.\n", "방/x.md": "# x\n\ny z.\n"}
        )
        (folder / "바깥.md").symlink_to(outside / "비밀.md")
        (folder / "바깥 방").symlink_to(outside / "방", target_is_directory=True)
        (folder / "안.csv").symlink_to(folder / "온도.csv")
        (folder / "고리.md").symlink_to(folder / "고리.md")
        return folder

    def test_links_that_lead_out_are_left_out(self, linked: Path) -> None:
        assert [name for _, name in find_files([linked])] == ["급액.md", "안.csv", "온도.csv"]
        assert links_outside([linked]) == ["바깥 방", "바깥.md"]

    def test_a_link_to_the_folder_itself_is_followed(self, linked: Path, tmp_path: Path) -> None:
        (tmp_path / "here").symlink_to(linked, target_is_directory=True)
        assert links_outside([tmp_path / "here"]) == ["바깥 방", "바깥.md"]
        assert [name for _, name in find_files([tmp_path / "here" / "바깥.md"])] == ["바깥.md"]  # named, so meant

    def test_the_command_line_says_so(
        self, settings: Settings, linked: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert take_in(settings.store, "public", linked, options=("--json",)) == 1
        told = {row["path"]: (row["status"], row["reason"]) for row in rows(capsys)}
        assert told["바깥.md"][0] == told["바깥 방"][0] == "failed"
        assert "폴더 밖을 가리키는 링크" in told["바깥.md"][1]
        assert told["급액.md"][0] == "indexed"

    def test_a_folder_of_such_links_only(
        self, settings: Settings, linked: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("급액.md", "안.csv", "온도.csv", "고리.md"):
            (linked / name).unlink()
        assert take_in(settings.store, "public", linked, options=("--json",)) == 1
        assert [row["path"] for row in rows(capsys)] == ["바깥 방", "바깥.md"]
        assert not settings.store.exists()


class TestCommandLine:
    def test_a_rebuild_prints_a_line_a_file(
        self, settings: Settings, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(settings.store, "public", folder)
        capsys.readouterr()
        assert take_in(settings.store, "public", options=("--rebuild", "--json")) == 0
        assert [(r["path"], r["status"], r["format"]) for r in rows(capsys)] == [
            ("급액.md", "indexed", "md"),
            ("온도.csv", "indexed", "csv"),
        ]

    def test_one_document_again(self, settings: Settings, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        take_in(settings.store, "public", folder)
        capsys.readouterr()
        assert take_in(settings.store, "public", options=("--reindex", "급액.md", "--json")) == 0
        (row,) = rows(capsys)
        assert (row["path"], row["reason"]) == ("급액.md", "다시 색인했습니다.")
        assert take_in(settings.store, "public", options=("--reindex", "없는.md")) == 1
        assert "'없는.md' 문서가 없습니다" in capsys.readouterr().err

    def test_of_other_components_nothing_is_removed_or_read(
        self, settings: Settings, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        take_in(settings.store, "public", folder)
        set_manifest(settings.store, "public", "chunker", "0")
        for option in ("--remove", "--reindex"):
            assert take_in(settings.store, "public", options=(option, "급액.md")) == 3
        assert ScopeRecord(settings.store, PUBLIC).counts()["documents"] == 2

    def test_a_reader_that_goes_away_ends_the_printing_only(
        self, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for options in ([str(folder), "--json"], ["--list"]):
            read_end, write_end = os.pipe()
            os.close(read_end)
            with os.fdopen(write_end, "w", encoding="utf-8") as nobody, monkeypatch.context() as patch:
                patch.setattr(sys, "stdout", nobody)
                assert ingest([*options, "--public", "--store", str(settings.store)]) == 0
        record = ScopeRecord(settings.store, PUBLIC)
        assert record.counts()["documents"] == 2
        assert current_digest(record) == record.digest()


def test_the_record_lists_without_text_and_counts(settings: Settings, folder: Path) -> None:
    taken(settings, PUBLIC, folder)
    record = ScopeRecord(settings.store, PUBLIC)
    assert [(d.doc_id, d.text, d.bytes) for d in record.listed()] == [
        (d.doc_id, "", d.bytes) for d in record.documents()
    ]
    counts = record.chunk_counts("G2")
    assert sum(counts.values()) == record.counts()["chunks_G2"]
    chunks = record.chunks_of("public/급액.md", "G1")
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert record.chunks_of("public/급액.md", "G1", start=1) == chunks[1:]
    assert record.chunks_of("public/급액.md", "G1", limit=1) == chunks[:1]
    assert record.chunks_of("public/없는.md", "G1") == []
