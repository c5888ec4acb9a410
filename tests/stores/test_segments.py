"""A snapshot of two segments reads like one derived anew, row for row; a small change derives a small segment."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.schema import PUBLIC
from rag.stores import snapshot as snapshots
from rag.stores.record import ScopeRecord
from rag.stores.segments import Snapshot
from rag.stores.snapshot import open_snapshot, write_snapshot
from tests.contract.conftest import take_in
from tests.fakes import FakeEmbedder
from tests.stores.support import contents

FIRST = {
    "나/토마토_온도.md": "# 토마토 온도\n\n토마토 야간 최저온도는 15℃로 둔다. 낮에는 25℃로 둔다.\n",
    "다/딸기_EC.md": "# 딸기 급액\n\n딸기 급액 EC는 1.2dS/m로 둔다.\n\n## 흰가루병\n\n흰가루병은 습도가 낮으면 생긴다.\n",
    "라/2026-03_급액기록.csv": "일자,동,급액 EC\n2026-03-02,1동,1.2\n2026-03-20,2동,1.4\n",
}
DIM = FakeEmbedder().dim


def opened(record: ScopeRecord) -> Snapshot:
    found = open_snapshot(record)
    assert found is not None
    return found


def anew(record: ScopeRecord) -> dict[str, object]:
    """The contents of a snapshot derived from the record as a whole."""
    write_snapshot(record, DIM, again=True)
    snapshot = opened(record)
    assert len(snapshot.parts) == 1
    return contents(snapshot)


@pytest.fixture
def record(tmp_path: Path) -> ScopeRecord:
    take_in(tmp_path / "store", PUBLIC, FIRST, tmp_path / "sources")
    return ScopeRecord(tmp_path / "store", PUBLIC)


CHANGES = {
    "added before": {
        "가/파프리카.md": "# 파프리카\n\n파프리카 배액률은 30%로 둔다. 칼슘이 모자라면 배꼽썩음과가 생긴다.\n"
    },
    "added after": {"마/오이.md": "# 오이\n\n오이는 하루 두 번 급액한다.\n"},
    "changed": {"다/딸기_EC.md": "# 딸기 급액\n\n딸기 급액 EC는 수확기에 1.0dS/m로 낮춘다.\n"},
    "changed and added": {
        "나/토마토_온도.md": "# 토마토\n\n토마토 밤 온도는 16℃로 둔다.\n",
        "바/와사비.md": "# 와사비\n\n와사비는 물이 차야 한다.\n",
    },
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_two_segments_read_like_one(record: ScopeRecord, tmp_path: Path, change: dict[str, str]) -> None:
    before = opened(record)
    take_in(record.folder.parent, PUBLIC, change, tmp_path / "more")
    now = opened(record)
    assert now.parts[0] is before.parts[0]  # the large segment is not read again
    assert len(now.parts) == 2
    assert contents(now) == anew(record)


def test_a_document_removed_is_gone(record: ScopeRecord) -> None:
    record.remove_document(f"{PUBLIC}/다/딸기_EC.md")
    write_snapshot(record, DIM)
    now = opened(record)
    assert [d.doc_id for d in now.documents] == [f"{PUBLIC}/나/토마토_온도.md", f"{PUBLIC}/라/2026-03_급액기록.csv"]
    assert contents(now) == anew(record)


def test_many_changes_make_one_segment_again(
    record: ScopeRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "RECENT_DOCUMENTS", 1)
    take_in(record.folder.parent, PUBLIC, CHANGES["changed"], tmp_path / "one")
    assert len(opened(record).parts) == 2
    take_in(record.folder.parent, PUBLIC, CHANGES["changed and added"], tmp_path / "three")
    assert len(opened(record).parts) == 1


def test_segments_nobody_lists_are_swept(record: ScopeRecord, tmp_path: Path) -> None:
    for n in range(4):
        take_in(record.folder.parent, PUBLIC, {f"가/{n}.md": f"# 문서 {n}\n\n{n}동 토마토.\n"}, tmp_path / str(n))
    assert (
        len(list((record.folder / "snapshots" / "segments").iterdir())) == 3
    )  # the large one, the last two small ones


def test_a_missing_segment_is_derived_anew(record: ScopeRecord, tmp_path: Path) -> None:
    (segment,) = (record.folder / "snapshots" / "segments").iterdir()
    segment.rename(tmp_path / "lost")
    take_in(record.folder.parent, PUBLIC, CHANGES["added after"], tmp_path / "more")
    now = opened(record)
    assert len(now.parts) == 1
    assert len(now.documents) == 4
