"""The record of a scope: whole documents, manifest, one writer, originals, digest."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rag.errors import IndexMismatch, SettingsError, StoreError
from rag.stores.record import MentionRow, ScopeRecord, scope_folder, scopes_on_disk
from tests.stores.support import document, write


@pytest.fixture
def record(tmp_path: Path) -> ScopeRecord:
    return ScopeRecord(tmp_path, "public")


def test_what_is_written_is_read(record: ScopeRecord) -> None:
    row = document("a.md")
    write(record, row, "하나", "둘")
    assert record.documents() == [row]
    assert record.document("public/a.md") == row
    assert record.document("public/x.md") is None
    assert record.content_hashes() == {"public/a.md": "h1"}
    assert record.counts() == {"documents": 1, "sentences": 2, "mentions": 2, "relations": 2, "chunks_G2": 2}
    chunk = record.chunks(["public/a.md#1", "없는 것"])["public/a.md#1"]
    assert (chunk.text, chunk.title, chunk.date, chunk.author, chunk.scope_id) == (
        "둘",
        "제목",
        "2026-11-20",
        "김주임",
        "public",
    )


def test_a_document_is_replaced_with_all_that_hangs_on_it(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나", "둘", "셋")
    write(record, document("a.md", "h2"), "넷")
    assert record.counts() == {"documents": 1, "sentences": 1, "mentions": 1, "relations": 1, "chunks_G2": 1}
    assert [row["chunk_id"] for row in record.chunk_rows("G2")] == ["public/a.md#0"]


def test_an_error_half_way_leaves_the_old_document(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나", "둘")
    before = (record.digest(), record.counts(), record.chunks(["public/a.md#0"]))
    mention = MentionRow(chunk_id="no such chunk", entity="딸기", type="작물", count=1, in_title=False)
    with pytest.raises(Exception, match="FOREIGN KEY"):
        record.write_document(document("a.md", "h2"), [], [], [mention], [])
    assert (record.digest(), record.counts(), record.chunks(["public/a.md#0"])) == before


def test_an_exception_inside_a_transaction_undoes_all_of_it(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나")
    before = record.digest()

    def replace_all() -> None:
        with record.transaction():
            record.clear()
            write(record, document("b.md", "h2"), "둘")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        replace_all()
    assert record.digest() == before
    assert [d.doc_id for d in record.documents()] == ["public/a.md"]


def test_readers_see_a_transaction_at_its_end_only(record: ScopeRecord, tmp_path: Path) -> None:
    other = ScopeRecord(tmp_path, "public")
    with record.transaction():
        write(record, document("a.md"), "하나")
        assert other.documents() == []
    assert len(other.documents()) == 1


def test_manifest(record: ScopeRecord) -> None:
    record.check_manifest({"embedder": "anything"})  # a new record takes any
    record.set_manifest({"embedder": "old", "chunker": "3"})
    record.check_manifest({"embedder": "old", "chunker": "3"})
    record.check_manifest({"chunker": "3"})
    with pytest.raises(IndexMismatch) as raised:
        record.check_manifest({"embedder": "new", "chunker": "3"})
    for words in ("'public'", "embedder", "'old'", "'new'", "python -m ingest --rebuild --public"):
        assert words in str(raised.value)


def test_the_rebuild_command_names_the_farm(tmp_path: Path) -> None:
    assert ScopeRecord(tmp_path, "farm:haetsal").rebuild_command == "python -m ingest --rebuild --farm haetsal"


def test_one_writer_at_a_time(record: ScopeRecord, tmp_path: Path) -> None:
    second = ScopeRecord(tmp_path, "public")
    with record.writer():
        with pytest.raises(StoreError, match="'public' 자료에 다른 작업이 쓰고 있습니다"), second.writer(wait_s=0.05):
            pass
        with ScopeRecord(tmp_path, "farm:haetsal").writer(wait_s=0.05):
            pass  # another scope is free
    with second.writer(wait_s=0.05):
        pass


def test_the_writer_s_place_is_free_after_an_error(record: ScopeRecord, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), record.writer():
        raise RuntimeError
    with ScopeRecord(tmp_path, "public").writer(wait_s=0.05):
        pass


def test_an_original_goes_with_its_last_document(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나")
    write(record, document("b.md"), "하나")
    original = record.folder / "originals" / "h1.md"
    assert record.remove_document("public/a.md")
    assert original.read_bytes() == b"abc"
    assert record.remove_document("public/b.md")
    assert not original.exists()
    assert not record.remove_document("public/b.md")


def test_originals_without_a_document_are_swept(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나")
    write(record, document("a.md", "h2"), "둘")  # the new version has its own original
    (record.folder / "originals" / ".h3.md.1.part").write_bytes(b"half")
    assert record.sweep_originals() == 2
    assert [path.name for path in (record.folder / "originals").iterdir()] == ["h2.md"]


def test_the_digest_names_the_state(record: ScopeRecord) -> None:
    digests = [record.digest()]
    write(record, document("a.md"), "하나")
    digests.append(record.digest())
    write(record, document("b.md", "h2"), "둘")
    digests.append(record.digest())
    write(record, document("a.md", "h3"), "하나")
    digests.append(record.digest())
    record.set_manifest({"chunker": "3"})
    digests.append(record.digest())
    assert len(set(digests)) == len(digests)
    record.set_manifest({"chunker": "3"})
    write(record, document("a.md", "h3"), "하나")
    assert record.digest() == digests[-1]
    record.clear()
    assert record.digest() == digests[0]


def test_the_digest_does_not_depend_on_the_order_of_writing(tmp_path: Path) -> None:
    one, two = ScopeRecord(tmp_path / "1", "public"), ScopeRecord(tmp_path / "2", "public")
    rows = [document("a.md"), document("b.md", "h2")]
    for row in rows:
        write(one, row, "하나")
    for row in reversed(rows):
        write(two, row, "하나")
    assert one.digest() == two.digest()


def test_many_chunks_are_read_in_parts(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나")
    wanted = [f"없는 것 {n}" for n in range(40_000)] + ["public/a.md#0"]
    assert list(record.chunks(wanted)) == ["public/a.md#0"]


def test_threads_have_a_connection_of_their_own(record: ScopeRecord) -> None:
    write(record, document("a.md"), "하나")
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(record.documents()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 4


def test_folders(tmp_path: Path) -> None:
    assert scope_folder(tmp_path, "public") == tmp_path / "public"
    assert scope_folder(tmp_path, "farm:haetsal") == tmp_path / "farms" / "haetsal"
    with pytest.raises(SettingsError, match="쓸 수 없습니다"):
        scope_folder(tmp_path, "farm:../public")
    assert scopes_on_disk(tmp_path) == []
    for scope_id in ("farm:b", "public", "farm:a"):
        ScopeRecord(tmp_path, scope_id)
    assert scopes_on_disk(tmp_path) == ["public", "farm:a", "farm:b"]


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "store.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="열 수 없습니다"):
        ScopeRecord(tmp_path, "public")


def test_notes_and_houses_keep_their_order(record: ScopeRecord) -> None:
    row = replace(document("a.md"), houses=("2동", "10동"), notes=("나", "가"))
    write(record, row, "하나")
    assert record.documents() == [row]
