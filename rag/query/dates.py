"""Dates and periods of a question, read against the moment it was asked (Asia/Seoul by default).

A rule gives an inclusive period. "3월" without a year is the latest March that has begun, "25년 3월" that of 2025.
A date that does not exist (2월 30일) is reported, not guessed.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

WEEKDAYS = "월화수목금토일"
_SEASONS = {"봄": (3, 5), "여름": (6, 8), "가을": (9, 11), "겨울": (12, 2)}
_YEARS = {"재작년": -2, "작년": -1, "지난해": -1, "전년": -1, "올해": 0, "금년": 0, "올": 0}
_YEAR = r"(?:(?P<year>20\d\d)\s*년|(?P<word>재작년|작년|지난해|전년|올해|금년|(?<![가-힣])올(?=\s?(?:\d{1,2}\s*월|봄|여름|가을|겨울))))"
# Two digits are a year only in front of a month ("25년 3월"; "20년 경력" is none).
_YEAR_OF_MONTH = _YEAR.replace(r"20\d\d", r"20\d\d|(?<!\d)[12]\d")


@dataclass(frozen=True, slots=True)
class Period:
    """``text[start:end]`` means the days ``first`` … ``last``, both included."""

    first: date
    last: date
    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True)
class BadDate:
    """``text[start:end]`` names a day that does not exist."""

    text: str
    start: int
    end: int


def _month(year: int, month: int) -> tuple[date, date]:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _latest_year(today: date, month: int, day: int = 1) -> int:
    return today.year if (month, day) <= (today.month, today.day) else today.year - 1


def _year_of(match: re.Match[str], today: date) -> int | None:
    if match["year"]:
        return int(match["year"]) % 100 + 2000
    return today.year + _YEARS[match["word"]] if match["word"] else None


def _full(match: re.Match[str], today: date) -> tuple[date, date]:
    day = date(int(match["y"]), int(match["m"]), int(match["d"]))
    return day, day


def _month_day(match: re.Match[str], today: date) -> tuple[date, date]:
    month, number = int(match["m"]), int(match["d"])
    year = _year_of(match, today)
    day = date(year if year is not None else _latest_year(today, month, number), month, number)
    return day, day


def _part_of_month(match: re.Match[str], today: date) -> tuple[date, date]:
    month = int(match["m"])
    year = _year_of(match, today)
    first, last = _month(year if year is not None else _latest_year(today, month), month)
    bounds = {"초": (1, 10), "초순": (1, 10), "중순": (11, 20), "하순": (21, 31), "말": (21, 31)}
    low, high = bounds.get(match["part"] or "", (1, 31))
    return first.replace(day=low), last.replace(day=min(high, last.day))


def _year_month(match: re.Match[str], today: date) -> tuple[date, date]:
    return _month(int(match["y"]), int(match["m"]))


def _season(match: re.Match[str], today: date) -> tuple[date, date]:
    first_month, last_month = _SEASONS[match["season"]]
    year = _year_of(match, today)
    if year is None:
        year = _latest_year(today, first_month)
    return date(year, first_month, 1), _month(year + (last_month < first_month), last_month)[1]


def _year_alone(match: re.Match[str], today: date) -> tuple[date, date]:
    year = _year_of(match, today)
    assert year is not None  # the pattern has one of both groups
    return date(year, 1, 1), date(year, 12, 31)


def _day_word(match: re.Match[str], today: date) -> tuple[date, date]:
    back = {"오늘": 0, "어제": 1, "어저께": 1, "그제": 2, "그저께": 2, "엊그제": 2, "그끄저께": 3}[match[0]]
    day = today - timedelta(days=back)
    return day, day


def _week(match: re.Match[str], today: date) -> tuple[date, date]:
    back = {"지지난": 2, "저저번": 2, "지난": 1, "저번": 1, "이번": 0, "금": 0}[match["which"]]
    monday = today - timedelta(days=today.weekday() + 7 * back)
    if match["day"]:
        day = monday + timedelta(days=WEEKDAYS.index(match["day"]))
        return day, day
    return monday, monday + timedelta(days=6)


def _month_word(match: re.Match[str], today: date) -> tuple[date, date]:
    back = {"지지난": 2, "지난": 1, "저번": 1, "이번": 0, "전": 1, "금": 0}[match["which"]]
    index = today.year * 12 + today.month - 1 - back
    return _month(index // 12, index % 12 + 1)


def _recent(match: re.Match[str], today: date) -> tuple[date, date]:
    number = int(match["n"])
    days = {"일": 1, "주": 7, "주일": 7, "주간": 7, "개월": 30, "달": 30}[match["unit"]] * number
    return today - timedelta(days=days), today


_RULES: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str], date], tuple[date, date]]], ...] = (
    ("date.full", re.compile(r"(?P<y>20\d\d)\s*년\s*(?P<m>\d{1,2})\s*월\s*(?P<d>\d{1,2})\s*일"), _full),
    ("date.full", re.compile(r"(?P<y>20\d\d)[-./](?P<m>\d{1,2})[-./](?P<d>\d{1,2})(?!\d)"), _full),
    (
        "date.month_day",
        re.compile(rf"(?:{_YEAR_OF_MONTH}\s*)?(?P<m>\d{{1,2}})\s*월\s*(?P<d>\d{{1,2}})\s*일"),
        _month_day,
    ),
    ("date.year_month", re.compile(r"(?P<y>20\d\d)[-./](?P<m>\d{1,2})(?!\d)"), _year_month),
    (
        "date.month",
        re.compile(
            rf"(?:{_YEAR_OF_MONTH}\s*)?(?<!\d)(?P<m>\d{{1,2}})\s*월(?:달)?(?:\s*(?P<part>초순|중순|하순|초|말))?(?!령)"
        ),
        _part_of_month,
    ),
    ("date.season", re.compile(rf"{_YEAR}\s*(?P<season>봄|여름|가을|겨울)"), _season),
    ("date.day_word", re.compile(r"오늘|어제|어저께|그끄저께|엊그제|그저께|그제"), _day_word),
    (
        "date.week",
        re.compile(rf"(?P<which>지지난|저저번|지난|저번|이번|(?<![가-힣])금)\s*주(?:\s*(?P<day>[{WEEKDAYS}])요일)?"),
        _week,
    ),
    (
        "date.month_word",  # not in 조금 주면, 요금 달라요, 오전 달
        re.compile(r"(?P<which>지지난|지난|저번|이번|(?<![가-힣])(?:전|금))\s*(?:달|월(?=\s|에|의|$))"),
        _month_word,
    ),
    ("date.recent", re.compile(r"(?:최근|지난)\s*(?P<n>\d{1,3})\s*(?P<unit>주일|주간|주|일|개월|달)"), _recent),
    ("date.year", re.compile(_YEAR), _year_alone),
)


def find_periods(text: str, today: date) -> Iterator[Period | BadDate]:
    """Periods in text order, longest rule first, non-overlapping."""
    found: list[Period | BadDate] = []
    for rule, pattern, read in _RULES:
        for match in pattern.finditer(text):
            if any(match.start() < p.end and p.start < match.end() for p in found):
                continue
            try:
                first, last = read(match, today)
                if rule == "date.month" and _year_of(match, today) is not None:
                    rule = "date.year_month"
            except (ValueError, OverflowError):  # no such day; before the year 1
                found.append(BadDate(match[0], match.start(), match.end()))
            else:
                found.append(Period(first, last, match.start(), match.end(), rule))
    yield from _with_years(sorted(found, key=lambda p: p.start))


def _with_years(found: list[Period | BadDate]) -> Iterator[Period | BadDate]:
    """ "4월 … 작년하고 올해" and "작년 4월 … 올해 같은 달": a month meets the years that are named beside it."""
    months = [p for p in found if isinstance(p, Period) and p.rule in ("date.month", "date.year_month")]
    years = [p for p in found if isinstance(p, Period) and p.rule == "date.year"]
    bare = [p for p in months if p.rule == "date.month"]
    if len(months) != 1 or not years:
        yield from found
        return
    for period in found:
        if period in years:
            first, last = _month(period.first.year, months[0].first.month)
            yield Period(first, last, period.start, period.end, "date.year_of_month")
        elif period not in bare:
            yield period
