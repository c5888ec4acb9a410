"""The days of a document's rows and headings, and that a month's file is found by each of its days."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ingest.days import days_of, joined
from ingest.limits import Limits
from ingest.loaders import parse
from ingest.metadata import infer_metadata
from rag.schema import PUBLIC, DocFilter, Scope
from rag.stores.segments import INDEXED_LEVELS
from tests.contract.conftest import open_views, take_in

OCTOBER = (date(2026, 10, 1), date(2026, 10, 31))


def span(path: str, text: str) -> tuple[date, date] | None:
    parsed = parse(text.encode(), path, Limits())
    metadata = infer_metadata(parsed, path)
    return days_of(parsed, metadata.date, metadata.named_by).span


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("2026-10_수확.csv", "일자,동,수확량(kg)\n2026-10-05,1동,40\n", OCTOBER),
        ("수확.csv", "일자,동,수확량\n2026-10-05,1동,40\n2026-10-20,1동,38\n", (date(2026, 10, 5), date(2026, 10, 20))),
        ("2026-10_수확.csv", "날짜,동,수확량\n10/5,1동,40\n11월 2일,1동,38\n", (date(2026, 10, 1), date(2026, 11, 2))),
        ("2026-10_수확.csv", "일,수확량\n5,40\n31(토),38\n32,1\n", OCTOBER),
        ("2026-10-31_수확.csv", "일자,수확량\n2026-10-01,4\n2026-10-02,4\n2026-10-03,4\n", (date(2026, 10, 1), date(2026, 10, 3))),
        ("2026-10-31_일지.csv", "작업일,내용\n2026-10-30,방제\n", (date(2026, 10, 31), date(2026, 10, 31))),
        ("점검.csv", "교체예정일,부품\n2027-01-05,노즐\n", None),
        ("일지.md", "# 일지\n\n## 2026-10-05\n\n환기했다.\n\n## 10월 6일\n\n방제했다.\n", (date(2026, 10, 5), date(2026, 10, 5))),
        ("재배.md", "# 딸기\n\n2026년 10월 5일에 심었다.\n", None),
    ],
)  # fmt: skip
def test_span(path: str, text: str, expected: object) -> None:
    assert span(path, text) == expected


def test_days_without_a_year_take_the_document_s() -> None:
    parsed = parse("# 일지\n\n## 10월 6일\n\n방제했다.\n".encode(), "일지.md", Limits())
    assert days_of(parsed, date(2026, 10, 1), "month").of_block == (date(2026, 10, 6),)


def test_a_chunk_has_days_of_its_own_only_where_all_its_blocks_do() -> None:
    first, last = OCTOBER
    assert joined([last, first]) == OCTOBER
    assert joined([first, None]) is None
    assert joined([]) is None


def test_a_filter_keeps_the_rows_of_its_days(tmp_path: Path) -> None:
    rows = "\n".join(
        f"2026-10-{day:02d},1동,{day}.5,맑고 바람이 조금 불었으며 별다른 일은 없었다" for day in range(1, 31)
    )
    take_in(
        tmp_path / "store", PUBLIC, {"2026-10_수확.csv": f"일자,동,수확량(kg),비고\n{rows}\n"}, tmp_path / "sources"
    )
    view = open_views(tmp_path / "store").get(Scope())
    wanted = DocFilter(periods=((date(2026, 10, 20), date(2026, 10, 20)),))
    for level in INDEXED_LEVELS:
        mask = view.mask(level, wanted)
        assert mask is not None
        found = [view.levels[level].chunk_ids[row] for row in mask.nonzero()[0].tolist()]
        assert len(found) == 1
        (chunk,) = view.chunks([(PUBLIC, found[0])]).values()
        assert "2026-10-20" in chunk.text
        assert len(mask) > 1
    empty = view.mask("G2", DocFilter(periods=((date(2026, 11, 2), date(2026, 11, 2)),)))
    assert empty is not None
    assert not empty.any()
