"""Snapshots and the view over them: the join of public and farm, filters, and swaps under readers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ingest.writer import refresh
from rag.errors import IndexMismatch, StoreError
from rag.schema import DocFilter, Scope
from rag.stores.record import DocumentRow, ScopeRecord
from rag.stores.snapshot import current_digest, open_snapshot, write_snapshot
from rag.stores.view import View, Views
from tests.stores.support import DIM, document, write

FARM = "farm:haetsal"
HAETSAL = Scope(farm_id="haetsal")
MARCH = date(2026, 3, 1), date(2026, 3, 31)


def publish(
    record: ScopeRecord, *documents: tuple[DocumentRow, Sequence[str]], public: ScopeRecord | None = None
) -> None:
    with record.writer():
        for row, texts in documents:
            write(record, row, *texts)
        refresh(record, public, DIM)


def own(name: str, **fields: object) -> DocumentRow:
    return replace(document(name, f"hash of {name}", scope_id=FARM), **fields)  # type: ignore[arg-type]


@pytest.fixture
def records(tmp_path: Path) -> tuple[ScopeRecord, ScopeRecord]:
    """A public record of two chunks, a farm's of three documents with a chunk each."""
    public, farm = ScopeRecord(tmp_path, "public"), ScopeRecord(tmp_path, FARM)
    # public documents have no author and no house here
    publish(
        public, (replace(document("책.md"), date="", author="", houses=(), kind="재배기술"), ["딸기 ec", "토마토 ec"])
    )
    publish(
        farm,
        (own("a.md", date="2026-03-05", author="김주임", houses=("1동",)), ["딸기 일지"]),
        (own("b.md", date="2026-04-05", author="박반장", houses=("1동", "2동"), format="hwpx"), ["토마토 일지"]),
        (own("c.md", date="2025-03-31", author="김주임", houses=("12동",), kind="회의록"), ["회의"]),
        public=public,
    )
    return public, farm


@pytest.fixture
def view(records: tuple[ScopeRecord, ScopeRecord], tmp_path: Path) -> View:
    return Views(tmp_path, {}).get(HAETSAL)


def test_a_farm_sees_public_and_its_own(view: View, tmp_path: Path) -> None:
    level = view.levels["G2"]
    assert level.scope_of == ("public", "public", FARM, FARM, FARM)
    assert [view.documents[n].doc_id for n in level.document_of] == [
        "public/책.md",
        "public/책.md",
        f"{FARM}/a.md",
        f"{FARM}/b.md",
        f"{FARM}/c.md",
    ]
    assert set(Views(tmp_path, {}).get(Scope()).levels["G2"].scope_of) == {"public"}
    assert level.row_of[f"{FARM}/b.md#0"] == 3
    assert level.similarities(np.array([1, 0], np.float32)).tolist() == [1.0] * 5


def test_a_row_s_vector_is_found_across_the_segments(tmp_path: Path) -> None:
    """Rows of public, then of the farm: each has its own vector, and there is none beyond the last."""
    public, farm = ScopeRecord(tmp_path, "public"), ScopeRecord(tmp_path, FARM)
    angles = {"public": (0.1, 0.2), FARM: (0.3, 0.4, 0.5)}
    for record, above in ((public, None), (farm, public)):
        with record.writer():
            for number, angle in enumerate(angles[record.scope_id]):
                row = replace(document(f"{number}.md", f"h{angle}", scope_id=record.scope_id))
                write(record, row, "딸기 ec", vector=(np.cos(angle), np.sin(angle)))
            refresh(record, above, DIM)
    level = Views(tmp_path, {}).get(HAETSAL).levels["G2"]
    assert [len(matrix) for matrix in level.matrices] == [2, 3]
    expected = [np.array([np.cos(a), np.sin(a)]) for a in (*angles["public"], *angles[FARM])]
    for row, vector in enumerate(expected):
        assert level.vector(row) == pytest.approx(vector, abs=1e-3)
        assert level.similarities(level.vector(row))[row] == pytest.approx(1.0)
    with pytest.raises(IndexError):
        level.vector(5)


def test_word_statistics_are_those_of_the_join(view: View) -> None:
    # 딸기 in 2 of 5 chunks, 회의 in 1
    assert view.idf["딸기"] == pytest.approx(math.log(1 + (5 - 2 + 0.5) / 2.5))
    assert view.idf["회의"] == pytest.approx(math.log(1 + (5 - 1 + 0.5) / 1.5))
    scores = view.levels["G2"].bm25.scores(["딸기"])
    assert [row for row in range(5) if scores[row] > 0] == [0, 2]
    assert scores[0] == pytest.approx(view.idf["딸기"] * 1 / (1 + 1.5 * (0.25 + 0.75 * 2 / (9 / 5))))


def test_texts_sentences_tokens_and_entities(view: View) -> None:
    chunk_id = f"{FARM}/a.md#0"
    assert view.chunks([(FARM, chunk_id), ("public", chunk_id)])[chunk_id].text == "딸기 일지"
    (sentence,), vectors = view.sentences(chunk_id)
    assert ((sentence.start, sentence.end), vectors.shape) == ((0, 5), (1, DIM))
    assert view.chunk_tokens(chunk_id) == ("딸기", "일지")
    assert view.entities_of(chunk_id) == {"딸기"}
    assert view.entities_of("public/책.md#1") == view.entities_of(f"{FARM}/b.md#0") == {"토마토"}
    assert view.entities_of(f"{FARM}/c.md#0") == {"회의"}
    assert (view.sentences("없는 것")[0], view.chunk_tokens("없는 것"), view.entities_of("없는 것")) == (
        (),
        (),
        frozenset(),
    )


def test_catalogue(view: View) -> None:
    catalogue = view.catalogue
    assert catalogue.authors == {"김주임", "박반장"}
    assert catalogue.kinds == {"재배기술", "작업일지", "회의록"}
    assert catalogue.houses == {"1동", "2동", "12동"}
    assert catalogue.crops == {"딸기"}
    assert catalogue.dates == (date(2025, 3, 31), date(2026, 3, 5), date(2026, 4, 5))
    assert catalogue.any_between(*MARCH)
    assert not catalogue.any_between(date(2026, 3, 6), date(2026, 4, 4))


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (DocFilter(periods=(MARCH,)), [2]),
        (DocFilter(periods=((date(2025, 3, 1), date(2025, 3, 31)), MARCH)), [2, 4]),  # any of them
        (DocFilter(periods=((date(2026, 3, 5), date(2026, 3, 5)),)), [2]),  # both ends included
        (DocFilter(periods=((date(2026, 3, 6), date(2026, 4, 4)),)), []),
        (DocFilter(not_after=date(2026, 3, 5)), [0, 1, 2, 4]),  # what has no date is not later
        (DocFilter(not_after=date(2026, 3, 4)), [0, 1, 4]),
        (DocFilter(authors=("김주임",)), [2, 4]),
        (DocFilter(authors=("김주임", "박반장")), [2, 3, 4]),
        (DocFilter(authors=("최반장",)), []),
        (DocFilter(kinds=("작업일지",)), [2, 3]),
        (DocFilter(houses=("2동",)), [3]),  # not 12동
        (DocFilter(houses=("1동",)), [2, 3]),
        (DocFilter(formats=("hwpx",)), [3]),
        (DocFilter(scopes=(FARM,)), [2, 3, 4]),
        (DocFilter(scopes=("public",)), [0, 1]),
        (DocFilter(authors=("김주임",), houses=("12동",), periods=(MARCH,)), []),  # all fields
        (DocFilter(authors=("김주임",), kinds=("회의록",)), [4]),
    ],
)
def test_a_filter(view: View, wanted: DocFilter, rows: list[int]) -> None:
    mask = view.mask("G2", wanted)
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == rows


def test_no_filter_no_mask(view: View) -> None:
    assert view.mask("G2", DocFilter()) is None


def test_views_notice_a_swap_and_old_readers_keep_working(
    records: tuple[ScopeRecord, ScopeRecord], tmp_path: Path
) -> None:
    public, farm = records
    views = Views(tmp_path, {})
    old = views.get(HAETSAL)
    assert views.get(HAETSAL) is old
    for number in range(3):  # the old snapshot's folder is gone after the second
        publish(farm, (own(f"new{number}.md"), ["파프리카 일지"]), public=public)
    assert not (farm.folder / "snapshots" / old.digest.split("+")[1]).exists()
    new = views.get(HAETSAL)
    assert (len(old.levels["G2"].chunk_ids), len(new.levels["G2"].chunk_ids)) == (5, 8)
    assert old.levels["G2"].similarities(np.array([1, 0], np.float32)).tolist() == [1.0] * 5
    assert old.levels["G2"].bm25.scores(["파프리카"]).tolist() == [0.0] * 5
    assert new.levels["G2"].bm25.scores(["파프리카"])[7] > 0
    assert len(old.sentences("public/책.md#0")[1]) == 1
    assert new.digest != old.digest


def test_a_swap_of_the_public_part_reaches_the_farm(records: tuple[ScopeRecord, ScopeRecord], tmp_path: Path) -> None:
    views = Views(tmp_path, {})
    views.get(HAETSAL)
    publish(records[0], (document("새책.md", "h9"), ["멜론"]))
    view = views.get(HAETSAL)
    assert view.levels["G2"].bm25.scores(["멜론"]).tolist().count(0.0) == 5
    assert view.levels["G2"].bm25.n_rows == 6


def test_a_removed_farm_is_gone_from_its_view(records: tuple[ScopeRecord, ScopeRecord], tmp_path: Path) -> None:
    views = Views(tmp_path, {})
    views.get(HAETSAL)
    records[1].folder.rename(tmp_path / "elsewhere")
    assert set(views.get(HAETSAL).levels["G2"].scope_of) == {"public"}


def test_a_chunk_removed_since_the_snapshot_is_left_out(view: View, records: tuple[ScopeRecord, ScopeRecord]) -> None:
    records[1].remove_document(f"{FARM}/a.md")
    assert view.chunks([(FARM, f"{FARM}/a.md#0"), ("public", "public/책.md#0")]).keys() == {"public/책.md#0"}


def test_nothing_indexed(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="색인이 없습니다"):
        Views(tmp_path, {}).get(HAETSAL)
    assert open_snapshot(ScopeRecord(tmp_path, "public")) is None


def test_an_index_of_other_components_is_refused(records: tuple[ScopeRecord, ScopeRecord], tmp_path: Path) -> None:
    records[1].set_manifest({"embedder": "old"})
    with pytest.raises(IndexMismatch, match="'old'"):
        Views(tmp_path, {"embedder": "new"}).get(HAETSAL)
    assert Views(tmp_path, {"embedder": "old"}).get(HAETSAL)


def test_equal_content_gives_no_second_snapshot(records: tuple[ScopeRecord, ScopeRecord]) -> None:
    farm = records[1]
    before = current_digest(farm)
    files = {path: path.stat().st_mtime_ns for path in (farm.folder / "snapshots").rglob("*.npy")}
    assert write_snapshot(farm, DIM) == before == farm.digest()
    assert {path: path.stat().st_mtime_ns for path in (farm.folder / "snapshots").rglob("*.npy")} == files


def test_the_present_and_the_last_snapshot_are_kept(records: tuple[ScopeRecord, ScopeRecord]) -> None:
    public, farm = records
    digests = [current_digest(farm)]
    for number in range(3):
        publish(farm, (own(f"new{number}.md"), ["일지"]), public=public)
        digests.append(current_digest(farm))
    kept = {path.name for path in (farm.folder / "snapshots").iterdir()}
    assert kept == {"CURRENT", "segments", *digests[-2:]}


def test_an_empty_record_gives_an_empty_view(tmp_path: Path) -> None:
    publish(ScopeRecord(tmp_path, "public"))
    view = Views(tmp_path, {}).get(Scope())
    level = view.levels["G2"]
    assert level.chunk_ids == ()
    assert level.similarities(np.array([1, 0], np.float32)).shape == (0,)
    assert level.bm25.scores(["딸기"]).shape == (0,)
    mask = view.mask("G2", DocFilter(authors=("김주임",)))
    assert mask is not None
    assert mask.shape == (0,)


@pytest.mark.parametrize(
    "name",
    ["rows.json", "graph.json", "tokens.json", "vectors_G1.npy", "vectors_G2.npy", "vectors_G3.npy", "sentences.npy"],
)
def test_damaged_files_are_named_and_derived_again(
    records: tuple[ScopeRecord, ScopeRecord], tmp_path: Path, name: str
) -> None:
    public = records[0]
    (path,) = (public.folder / "snapshots" / "segments").glob(f"*/{name}")
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(StoreError, match="python -m ingest --rebuild --public"):
        Views(tmp_path, {}).get(Scope())
    assert refresh(public, None, DIM)
    assert len(Views(tmp_path, {}).get(Scope()).levels["G2"].chunk_ids) == 2
