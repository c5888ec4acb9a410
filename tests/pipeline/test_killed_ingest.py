"""An ingest killed at any moment leaves the last complete state; the next run finishes the work."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag.assembly import build_pipeline
from rag.schema import Scope
from rag.stores.record import scopes_on_disk
from rag.stores.snapshot import current_digest, open_snapshot
from rag.stores.view import Views
from tests.pipeline.support import (
    asked,
    command,
    copy_store,
    record_of,
    settings_for,
    snapshot_files,
    stable,
    take_in,
    write_files,
)
from tests.stores.support import contents

FARM = "haetsal"
SEED = 20261201
QUESTION = "1동 토마토 배액률이 얼마였지?"
KILLS = 20
# After so many of the kills, a copy is completed and compared as a whole.
COMPLETED = (0, 8, 16, 18, 19)


def documents_in(store: Path) -> dict[str, tuple[str, int, int]]:
    """Document → (text, chunks, sentences) of the farm's record; every document must be whole."""
    if f"farm:{FARM}" not in scopes_on_disk(store):
        return {}
    record = record_of(store, FARM)
    with sqlite3.connect(record.folder / "store.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert not db.execute("PRAGMA foreign_key_check").fetchall()
        rows = db.execute(
            "SELECT d.doc_id, d.text, d.original, COUNT(DISTINCT c.chunk_id), COUNT(s.ordinal) FROM documents d "
            "LEFT JOIN chunks c ON c.doc_id = d.doc_id AND c.level = 'G2' "
            "LEFT JOIN sentences s ON s.chunk_id = c.chunk_id GROUP BY d.doc_id"
        ).fetchall()
        bare = db.execute(
            "SELECT COUNT(*) FROM chunks WHERE vector IS NULL OR tokens = '[]' OR chunk_id NOT IN "
            "(SELECT chunk_id FROM sentences UNION SELECT chunk_id FROM spans)"
        ).fetchone()[0]
        assert bare == 0
    for _, _, original, chunks, sentences in rows:
        assert chunks > 0
        assert sentences >= chunks
        assert (record.folder / "originals" / original).exists()
    return {doc_id: (text, chunks, sentences) for doc_id, text, _, chunks, sentences in rows}


def check_consistent(store: Path) -> None:
    """Vectors, keyword index, graph and rows agree in number, and with the record where the snapshot is its state."""
    record = record_of(store, FARM)
    snapshot = open_snapshot(record)
    if snapshot is None:
        return
    view = Views(store, record.manifest()).get(Scope(farm_id=FARM))
    counts, current = record.counts(), current_digest(record) == record.digest()
    for name, rows in snapshot.levels.items():
        assert len(rows.chunk_ids) == len(rows.vectors) == len(rows.document_of) == len(rows.tokens)
        assert len(rows.spans) == len(snapshot.sentence_tokens) == len(snapshot.sentence_vectors)
        assert not current or len(rows.chunk_ids) == counts[f"chunks_{name}"]
        level = view.levels[name]
        assert level.graph.n_chunks == level.bm25.n_rows == len(level.chunk_ids) == sum(map(len, level.matrices))
    assert not current or len(snapshot.documents) == counts["documents"]


def state(store: Path) -> tuple[object, ...]:
    """Digest, documents, what the snapshot holds and an answer."""
    snapshot = open_snapshot(record_of(store, FARM))
    assert snapshot is not None
    return (
        record_of(store, FARM).digest(),
        documents_in(store),
        contents(snapshot),
        stable(build_pipeline(settings_for(store)).ask(asked(QUESTION, FARM))),
    )


def killed_run(store: Path, folder: Path, after: int | None, delay: float) -> int:
    """Run an ingest and kill it ``delay`` seconds after its ``after``-th new document (None: after the last file).

    Returns the number of new documents that it had reported.
    """
    process = command("-m", "ingest", str(folder), "--farm", FARM, "--store", str(store), "--json")
    assert process.stdout is not None
    n_files = sum(path.is_file() for path in folder.rglob("*"))
    new = lines = 0
    while (new < after) if after is not None else (lines < n_files):
        line = process.stdout.readline()
        if not line:  # nothing new was left, and it came to its end before the blow
            assert process.wait() == 0, process.stderr and process.stderr.read()
            break
        lines += 1
        new += json.loads(line)["status"] == "indexed"
    time.sleep(delay)
    process.kill()
    process.communicate()
    return new


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_twenty_moments(base: Path, tmp_path: Path) -> None:
    n_files = 100
    folder = write_files(  # other bytes, the same words: there is little to embed
        tmp_path / "in",
        {f"작업일지/{n:03d}.md": "# 작업일지\n\n1동 토마토 배액률은 31.5%였다.\n" + "\n" * n for n in range(n_files)},
    )
    store, whole = tmp_path / "store", tmp_path / "whole"
    for place in (store, whole):
        place.mkdir()
        copy_store(base / "public", place / "public")
    assert take_in(whole, FARM, folder) == 0
    uninterrupted = state(whole)

    def completed(copy: Path) -> tuple[object, ...]:
        """The state after the next, uninterrupted run."""
        assert take_in(copy, FARM, folder) == 0
        assert not list((copy / "farms" / FARM).rglob("*.part"))
        return state(copy)

    dice = random.Random(SEED)
    known: dict[str, tuple[str, int, int]] = {}
    with ThreadPoolExecutor(1) as beside:  # completes copies while the next victim starts
        copies = []
        for number in range(KILLS):
            writing = number < KILLS - 3  # the last three hit the making of the snapshot
            after = dice.randint(1, 3) if writing else None
            reported = killed_run(store, folder, after, dice.uniform(0, 0.02 if writing else 0.3))
            found = documents_in(store)
            assert found.items() >= known.items(), "an indexed document was lost"
            assert len(found) >= len(known) + reported, "a document was reported but is not there"
            known = found
            check_consistent(store)
            if number in COMPLETED:
                build_pipeline(settings_for(store)).ask(asked(QUESTION, FARM))  # in any state, questions are answered
                copies.append(beside.submit(completed, copy_store(store, tmp_path / f"copy{number}")))
        assert len(known) == n_files
        assert all(copy.result() == uninterrupted for copy in copies)


def test_killed_rebuild_leaves_the_old_state(base: Path, own_store: Path) -> None:
    process = command("-m", "ingest", "--farm", FARM, "--store", str(own_store), "--rebuild")
    assert process.stderr is not None
    seen = ""
    while not re.search(r" [1-9]\d*/", seen):  # the bar after some documents
        piece = process.stderr.read(1)
        assert piece, seen
        seen += piece
    process.kill()
    process.communicate()
    assert documents_in(own_store) == documents_in(base)
    assert record_of(own_store, FARM).digest() == record_of(base, FARM).digest()
    assert snapshot_files(own_store, FARM) == snapshot_files(base, FARM)
    assert take_in(own_store, FARM, options=("--rebuild",)) == 0
    assert documents_in(own_store) == documents_in(base)


def test_killed_between_record_and_snapshot(small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is ahead of the snapshot: readers see the old state, the next run derives the new one."""
    (tmp_path / "new.md").write_text("# 정전 대응\n\n정전되면 비상발전기를 먼저 켠다.\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("ingest.service.refresh", lambda *args, **options: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            take_in(small_store, "public", tmp_path / "new.md")
    pipeline = build_pipeline(settings_for(small_store))
    assert "비상발전기" not in pipeline.ask(asked("정전되면 뭐부터 해야 해?")).answer.text
    assert take_in(small_store, "public", tmp_path / "new.md") == 0
    assert "비상발전기" in pipeline.ask(asked("정전되면 뭐부터 해야 해?")).answer.text
