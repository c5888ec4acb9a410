"""The days that the rows and headings of a document name, so that a month's table is found by each of its days.

A row's day stands in a cell named as one ("일자: 2026-03-05"), a day log's in a heading ("## 2026-03-05"). A day without
a year or month ("3/5", "5일") is read in the year or month of the document.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ingest.metadata import first_date
from ingest.parsed import Block, ParsedDocument

Days = tuple[datetime.date, datetime.date]
# A file named by a day is that day's, unless its rows plainly run over more ("2026-03-31_수확기록.csv").
_MANY_DAYS = 3
# The day that the row is about, not one that it looks forward to.
_CELL = re.compile(r"(?:^|, )(?P<name>[^,:]{0,8}(?:일자|날짜|일시|일)|date|day): (?P<value>[^,]{1,30})", re.IGNORECASE)
_AHEAD = re.compile(r"예정|만료|기한|마감|까지|생일|휴일|요일")
_MONTH_DAY = re.compile(r"(\d{1,2})\s*(?:월|[-./])\s*(\d{1,2})\s*일?(?:\s*\(?[월화수목금토일]\)?)?")
_DAY = re.compile(r"(\d{1,2})\s*일?(?:\s*\(?[월화수목금토일]\)?)?")
_HEADING_DAY = re.compile(r"(?<!\d)(\d{1,2})\s*월\s*(\d{1,2})\s*일")


@dataclass(frozen=True, slots=True)
class DocumentDays:
    """First and last day of a document; ``of_block[i]`` is the day of its block i, None for one without."""

    span: Days | None
    of_block: tuple[datetime.date | None, ...]


def days_of(
    parsed: ParsedDocument, date: datetime.date | None, named_by: Literal["day", "month"] | None
) -> DocumentDays:
    """The days of a document dated ``date`` whose file is named by a day, by a month, of which it is the first, or neither."""
    whole_month = named_by == "month"
    found = [
        _day_of(block, section.headings, date, whole_month) for section in parsed.sections for block in section.blocks
    ]
    named = sorted({day for day in found if day is not None})
    if whole_month and date is not None:
        last = date.replace(day=calendar.monthrange(date.year, date.month)[1])
        return DocumentDays((min([date, *named]), max([last, *named])), tuple(found))
    if len(named) < (_MANY_DAYS if named_by == "day" else 1):
        return DocumentDays(None if date is None else (date, date), (None,) * len(found))
    if date is not None and named_by is None:  # its first lines say so: the day of a log beside those of its tables
        named = sorted({date, *named})
    return DocumentDays((named[0], named[-1]), tuple(found))


def joined(days: Sequence[datetime.date | None]) -> Days | None:
    """First and last day of blocks; None where one of them has none: the document's days hold for it then."""
    known = [day for day in days if day is not None]
    return (min(known), max(known)) if known and len(known) == len(days) else None


def _day_of(
    block: Block, headings: Sequence[str], date: datetime.date | None, whole_month: bool
) -> datetime.date | None:
    if block.kind == "row":
        for cell in _CELL.finditer(block.text):
            day = None if _AHEAD.search(cell["name"]) else _read(cell["value"].strip(), date, whole_month)
            if day is not None:
                return day
    for heading in reversed(headings):
        match = _HEADING_DAY.search(heading)
        day = first_date(heading) or (_date(date.year, match[1], match[2]) if match and date else None)
        if day is not None:
            return day
    return None


def _read(value: str, date: datetime.date | None, whole_month: bool) -> datetime.date | None:
    full = first_date(value)
    if full is not None or date is None:
        return full
    if match := _MONTH_DAY.fullmatch(value):
        return _date(date.year, match[1], match[2])
    if whole_month and (match := _DAY.fullmatch(value)):
        return _date(date.year, str(date.month), match[1])
    return None


def _date(year: int, month: str, day: str) -> datetime.date | None:
    try:
        return datetime.date(year, int(month), int(day))
    except ValueError:
        return None
