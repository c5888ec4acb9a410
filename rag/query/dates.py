"""Dates and periods of a question, read against the moment it was asked (Asia/Seoul by default).

A rule gives an inclusive period. "3월" without a year is the latest March that has begun, "25년 3월" that of 2025. Rule
ids tell the two apart: ``date.month`` leaves the year open, ``date.year_month`` names it; so do the other pairs of
``OPEN``. A date that does not exist (2월 30일) is reported, not guessed.

Weeks start on Monday; 초 and 초순 are the days 1–10 of a month, 중순 11–20, 말 and 하순 from 21 on; winter counts to the
year it starts in. "최근 N주" reaches from N×7 days ago to today, a month counts 30 days there.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta

from rag.query.numbers import DAY_WORD, DAYS, NATIVE, NATIVE_WORD, counted, spoken

WEEKDAYS = "월화수목금토일"
# Rules that say no year: the nearest that has begun is meant, and there may be several on file.
OPEN = frozenset({"date.month", "date.month_day", "date.season", "date.half", "date.quarter", "date.range"})
# Rules that mean a date only in a question about records: "9월 정식 딸기" is a season, "토요일 밤" a name.
WEAK = (OPEN - {"date.month_day"}) | {"date.day", "date.weekday_alone"}
# Rules that name nothing but a year.
YEAR = "date.year"
NUMBERED_YEAR = "date.numbered_year"
NEXT_DAY = "date.next_day"
_SEASONS = {"봄": (3, 5), "여름": (6, 8), "가을": (9, 11), "겨울": (12, 2)}
_YEAR_WORDS = {"재작년": -2, "작년": -1, "지난해": -1, "전년": -1, "올해": 0, "금년": 0, "올": 0, "내년": 1}
_PARTS = {"초": (1, 10), "초순": (1, 10), "중순": (11, 20), "하순": (21, 31), "말": (21, 31)}
_PART = r"(?:\s*(?P<part>초순|중순|하순|초(?!과|기|등|반)|말(?![가-힣])|말(?=에|의|까|부|경|쯤|일)))"
_MONTH_NAMES = {
    "january": 1, "jan": 1, "february": 2, "feb": 2, "march": 3, "mar": 3, "april": 4, "apr": 4, "may": 5, "june": 6,
    "jun": 6, "july": 7, "jul": 7, "august": 8, "aug": 8, "september": 9, "sep": 9, "sept": 9, "october": 10, "oct": 10,
    "november": 11, "nov": 11, "december": 12, "dec": 12,
}  # fmt: skip
_SAID_MONTHS = {
    "일월": 1, "이월": 2, "삼월": 3, "사월": 4, "오월": 5, "유월": 6, "육월": 6, "칠월": 7, "팔월": 8, "구월": 9, "시월": 10,
    "십월": 10, "십일월": 11, "십이월": 12, "섣달": 12, "동짓달": 11, "정월": 1,
}  # fmt: skip
_SAID_MONTH = "|".join(sorted(_SAID_MONTHS, key=len, reverse=True))
_APART = r"(?:(?<![가-힣])|(?<=년))"
_M = (
    rf"(?P<m>(?<!\d)\d{{1,2}}\s*월(?!요일)|{_APART}(?:{_SAID_MONTH})(?!요일)|"
    rf"(?<![a-z])(?:{'|'.join(sorted(_MONTH_NAMES, key=len, reverse=True))})(?![a-z])\.?)"
)
_BACK = r"지지난|저저번|전전|지난|저번|이번|다음|(?<![가-힣])(?:전|금|이|당|요번)"
_BACKS = {"지지난": -2, "저저번": -2, "전전": -2, "지난": -1, "저번": -1, "전": -1, "다음": 1}
# Two digits are a year only with an apostrophe or in front of a month or a kind of document ("20년 경력" is none).
_Y4 = r"(?<!\d)'?(?P<year>20\d\d)\s*년(?:도)?|(?<![가-힣])(?P<said>이천[일이삼사오육칠팔구십]+)\s*년(?:도)?"
_Y2 = (
    r"(?<![\d.])['’‘](?P<yy>\d\d)\s*년(?:도)?|(?<![\d.])(?P<y2>[0-3]\d)\s*년(?:도)?|"
    r"(?<![가-힣])(?P<said2>[일이삼]?십[일이삼사오육칠팔구]?)\s*년(?:도)?"
)
_YW = (
    r"(?P<word>재작년|작년|지난\s?해|전년|올해|금년|내년|"
    r"(?<![가-힣])올(?=\s?(?:\d{1,2}\s*월|봄|여름|가을|겨울|상반기|하반기|[1-4]\s?[/사]?\s?분기)))"
)
_YEAR = rf"(?:{_Y4}|{_YW})"
_YEAR_BEFORE = rf"(?:(?:{_Y4}|{_Y2}|{_YW})(?:의)?\s*|(?<!\d)(?P<bare>20\d\d)\s*[.\s/-]\s*)"
_DAY = r"(?P<d>\d{1,2}|[일이삼사오육칠팔구십]{1,3})\s*일(?!간|째|치|지)"
_WEEKDAY = rf"(?:\s*\(?(?:[{WEEKDAYS}]요일|\([{WEEKDAYS}]\))\)?)?"
_SINGLE = r"(?:하루|하룻|한|일)"
_N = rf"(?P<n>\d{{1,3}}|{NATIVE_WORD}|[일이삼사오육칠팔구십]{{1,3}})"
_UNIT_DAYS = {"일": 1, "주": 7, "주일": 7, "주간": 7, "개월": 30, "달": 30, "년": 365}


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


Days = tuple[date, date]
Read = Callable[[re.Match[str], date], "tuple[Days, str] | None"]


def _month(year: int, month: int) -> Days:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _months(year: int, first: int, last: int) -> Days:
    return date(year, first, 1), _month(year + (last < first), last)[1]


def _latest_year(today: date, month: int, day: int = 1) -> int:
    return today.year if (month, day) <= (today.month, today.day) else today.year - 1


def _group(match: re.Match[str], name: str) -> str | None:
    return match[name] if name in match.re.groupindex else None


def _year_of(match: re.Match[str], today: date) -> int | None:
    for name in ("year", "bare", "yy", "y2"):
        if number := _group(match, name):
            return int(number) % 100 + 2000
    if said := _group(match, "said"):
        year = spoken(said)
        if year is None:
            raise ValueError(said)
        return year
    if said := _group(match, "said2"):
        return 2000 + (spoken(said) or 0)
    if word := _group(match, "word"):
        return today.year + _YEAR_WORDS[word.replace(" ", "")]
    return None


def _month_number(words: str) -> int:
    words = words.strip().rstrip(".").lower()
    return _MONTH_NAMES.get(words) or _SAID_MONTHS.get(words) or int(words.rstrip("월 "))


def _back(match: re.Match[str]) -> int:
    return _BACKS.get(match["which"], 0)


def _one(day: date) -> Days:
    return day, day


def _part_of(days: Days, part: str | None) -> Days:
    low, high = _PARTS.get(part or "", (1, 31))
    first, last = days
    return first.replace(day=low), last.replace(day=min(high, last.day))


def _week_of(days: Days, week: str | None) -> Days:
    """The first, second … seven days of a month, or its last seven."""
    if week is None:
        return days
    if week == "마지막":
        return days[1] - timedelta(days=6), days[1]
    first = 7 * (NATIVE[week] - 1) + 1
    return days[0].replace(day=first), days[0].replace(day=min(first + 6, days[1].day))


def _full(match: re.Match[str], today: date) -> tuple[Days, str]:
    return _one(date(int(match["y"]) % 100 + 2000, int(match["m"]), int(match["d"]))), "date.full"


def _slashed(match: re.Match[str], today: date) -> tuple[Days, str]:
    month, day = int(match["m"]), int(match["d"])
    return _one(date(_latest_year(today, month, day), month, day)), "date.month_day"


def _month_day(match: re.Match[str], today: date) -> tuple[Days, str]:
    month = _month_number(match["m"])
    said = _group(match, "nth")
    year = _year_of(match, today)
    if said == "마지막":
        number = calendar.monthrange(year or _latest_year(today, month), month)[1]
    else:
        number = NATIVE[said] if said else (counted(match["d"]) or 0)
    if year is not None:
        return _one(date(year, month, number)), "date.year_month_day"
    latest = _latest_year(today, month, number)
    while (month, number) == (2, 29) and not calendar.isleap(latest):
        latest -= 1
    return _one(date(latest, month, number)), "date.month_day"


def _year_month(match: re.Match[str], today: date) -> tuple[Days, str]:
    return _month(int(match["y"]), int(match["m"])), "date.year_month"


def _month_alone(match: re.Match[str], today: date) -> tuple[Days, str]:
    month = _month_number(match["m"])
    year = _year_of(match, today)
    past = _group(match, "past") is not None
    if year is None:
        year = _latest_year(today, month)
        if past and (year, month) == (today.year, today.month):
            year -= 1
        named = past
    else:
        named = True
    days = _month(year, month)
    days = _week_of(days, _group(match, "week"))
    part = _group(match, "part")
    return _part_of(days, part) if part else days, "date.year_month" if named else "date.month"


def _month_span(match: re.Match[str], today: date) -> tuple[Days, str]:
    first, last = int(match["a"]), int(match["b"])
    year = _year_of(match, today)
    rule = "date.range" if year is None else "date.year_range"
    if year is None:
        year = _latest_year(today, first)
    return _months(year, first, last), rule


def _day_span(match: re.Match[str], today: date) -> tuple[Days, str]:
    month, first, last = _month_number(match["m"]), int(match["a"]), int(match["b"])
    year = _year_of(match, today)
    rule = "date.range" if year is None else "date.year_range"
    if year is None:
        year = _latest_year(today, month, first)
    return (date(year, month, first), date(year, month, last)), rule


def _season(match: re.Match[str], today: date) -> tuple[Days, str]:
    first_month, last_month = _SEASONS[match["season"]]
    year = _year_of(match, today)
    which = _group(match, "which")
    if year is not None:
        return _months(year, first_month, last_month), "date.year_season"
    latest = _latest_year(today, first_month)
    if which and _back(match) < 0:
        while _months(latest, first_month, last_month)[1] >= today:
            latest -= 1
        latest += _back(match) + 1
    return _months(latest, first_month, last_month), "date.year_season" if which else "date.season"


def _portion(match: re.Match[str], today: date) -> tuple[Days, str]:
    """Half years and quarters, by number or counted back from today."""
    half, number = _group(match, "half"), _group(match, "q")
    size = 6 if half or _group(match, "halves") else 3
    year, which = _year_of(match, today), _group(match, "which")
    if half is None and number is None:  # 지난 분기
        index = today.year * (12 // size) + (today.month - 1) // size + _back(match)
        year, at = divmod(index, 12 // size)
        return _months(year, at * size + 1, at * size + size), "date.year_quarter"
    at = (0 if half == "상" else 1) if half else (counted(number or "") or 0) - 1
    first = at * size + 1
    rule = "half" if half else "quarter"
    if year is None:
        year = _latest_year(today, first)
        if which and _back(match) < 0 and _months(year, first, first + size - 1)[1] >= today:
            year -= 1
        return _months(year, first, first + size - 1), f"date.year_{rule}" if which else f"date.{rule}"
    return _months(year, first, first + size - 1), f"date.year_{rule}"


def _year_alone(match: re.Match[str], today: date) -> tuple[Days, str]:
    year = _year_of(match, today)
    assert year is not None  # the pattern has one of the groups
    return (date(year, 1, 1), date(year, 12, 31)), YEAR if _group(match, "word") else NUMBERED_YEAR


def _about(match: re.Match[str], today: date) -> tuple[Days, str]:
    year = _year_of(match, today) or today.year
    last = calendar.monthrange(year, today.month)[1]
    day = date(year, today.month, min(today.day, last))
    around = timedelta(days=0 if match["what"] == "오늘" else 7)
    return (day - around, day + around), "date.same_time"


_DAY_WORDS = {
    "오늘": 0, "어제": 1, "어저께": 1, "어젯밤": 1, "엊저녁": 1, "그제": 2, "그저께": 2, "엊그제": 2, "엊그저께": 2,
    "그끄저께": 3, "그끄제": 3, "내일": -1, "모레": -2, "yesterday": 1, "today": 0,
}  # fmt: skip


def _day_word(match: re.Match[str], today: date) -> tuple[Days, str]:
    return _one(today - timedelta(days=_DAY_WORDS[match[0].lower()])), "date.day_word"


def _week(match: re.Match[str], today: date) -> tuple[Days, str]:
    monday = today - timedelta(days=today.weekday() - 7 * _back(match))
    if match["day"]:
        return _one(monday + timedelta(days=WEEKDAYS.index(match["day"]))), "date.week"
    return (monday + timedelta(days=5 if match["end"] else 0), monday + timedelta(days=6)), "date.week"


def _weekday(match: re.Match[str], today: date) -> tuple[Days, str]:
    number = WEEKDAYS.index(match["day"])
    which = _group(match, "which") or ""
    if which == "이번":
        return _one(today - timedelta(days=today.weekday() - number)), "date.weekday"
    back = (today.weekday() - number) % 7
    if which and back == 0:
        back = 7
    return _one(today - timedelta(days=back)), "date.weekday" if which else "date.weekday_alone"


def _month_word(match: re.Match[str], today: date) -> tuple[Days, str]:
    index = today.year * 12 + today.month - 1 + _back(match)
    days = _month(index // 12, index % 12 + 1)
    if match["d"]:
        return _one(days[0].replace(day=int(match["d"]))), "date.month_word"
    days = _week_of(days, match["week"])
    return _part_of(days, match["part"]) if match["part"] else days, "date.month_word"


def _recent(match: re.Match[str], today: date) -> tuple[Days, str] | None:
    if word := _group(match, "days"):
        return (today - timedelta(days=DAYS[word]), today), "date.recent"
    number = 0.5 if match["n"] == "반" else counted(match["n"])
    if number is None:
        return None
    return (today - timedelta(days=int(_UNIT_DAYS[match["unit"]] * number)), today), "date.recent"


def _ago(match: re.Match[str], today: date) -> tuple[Days, str] | None:
    if word := _group(match, "days"):
        return _one(today - timedelta(days=DAYS[word])), "date.ago"
    number, unit = counted(match["n"]), match["unit"]
    if number is None:
        return None
    if unit == "년":
        return (date(today.year - number, 1, 1), date(today.year - number, 12, 31)), "date.ago"
    if unit in ("개월", "달"):
        index = today.year * 12 + today.month - 1 - number
        last = _month(index // 12, index % 12 + 1)[1]
        return _one(last.replace(day=min(today.day, last.day))), "date.ago"
    day = today - timedelta(days=_UNIT_DAYS[unit] * number)
    if match["day"]:  # 3주 전 목요일
        day += timedelta(days=WEEKDAYS.index(match["day"]) - day.weekday())
    return _one(day), "date.ago"


def _day_alone(match: re.Match[str], today: date) -> tuple[Days, str]:
    number, index = int(match["d"]), today.year * 12 + today.month - 1
    if not 1 <= number <= 31:
        raise ValueError(number)
    while True:
        last = _month(index // 12, index % 12 + 1)[1]
        if number <= last.day and last.replace(day=number) <= today:
            return _one(last.replace(day=number)), "date.day"
        index -= 1


def _english(match: re.Match[str], today: date) -> tuple[Days, str]:
    back, unit = (-1 if match["w"].lower() == "last" else 0), match["u"].lower()
    if unit == "week":
        monday = today - timedelta(days=today.weekday() - 7 * back)
        return (monday, monday + timedelta(days=6)), "date.week"
    if unit == "month":
        index = today.year * 12 + today.month - 1 + back
        return _month(index // 12, index % 12 + 1), "date.month_word"
    return (date(today.year + back, 1, 1), date(today.year + back, 12, 31)), YEAR


def _english_ago(match: re.Match[str], today: date) -> tuple[Days, str]:
    days = {"day": 1, "week": 7, "month": 30}[match["unit"].lower()]
    return _one(today - timedelta(days=days * int(match["n"]))), "date.ago"


def _english_weekday(match: re.Match[str], today: date) -> tuple[Days, str]:
    number = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday").index(match["day"].lower())
    return _one(today - timedelta(days=(today.weekday() - number) % 7 or 7)), "date.weekday"


def _month_year(match: re.Match[str], today: date) -> tuple[Days, str]:
    return _month(int(match["y"]), _MONTH_NAMES[match["m"].lower()]), "date.year_month"


def _compiled(*rules: tuple[str, Read]) -> tuple[tuple[re.Pattern[str], Read], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), read) for pattern, read in rules)


_NTH_DAY = r"(?:(?P<nth>마지막|첫|두|세|네|한|둘|셋|넷|다섯|여섯|일곱|여덟|아홉|열)(?:째|\s?번째)?\s?날)"
_NUMBERED = r"(?:매뉴얼|메뉴얼|보고서|지침|계획서|작업\s?일지|영농\s?일지|일지|점검표|회의록|계약서|견적서|거래\s?명세서|수확\s?기록|수리\s?기록)"
_DATED_DAY = r"(?!\s*(?:간격|동안|이내|안에|만에|마다|정도|이상|이하|넘|뒤|후|전|걸|까지\s?칠|간|째|치|차|내))"
_RECORD_NEXT = rf"(?=(?:일|에|자)?\s*(?:\S+\s+)?\S*(?:{_NUMBERED}|기록|방제|작업|수확|급액|배액|점검|회의|뭐|무슨))"
_RULES = _compiled(
    (rf"{_YEAR_BEFORE}?{_M}\s*(?P<a>\d{{1,2}})\s*일?\s*(?:~|-|–|∼|〜|부터|에서)\s*(?P<b>\d{{1,2}})\s*일(?:까지)?", _day_span),
    (rf"(?P<y>20\d\d)\s*년\s*(?P<m>\d{{1,2}})\s*월\s*(?P<d>\d{{1,2}})\s*일{_WEEKDAY}", _full),
    (rf"(?<!\d)(?P<y>20\d\d)\s?[-./]\s?(?P<m>\d{{1,2}})\s?[-./]\s?(?P<d>\d{{1,2}})(?!\d)\.?{_WEEKDAY}", _full),
    (r"(?<![\d.])'?(?P<y>[12]\d)(?P<sep>[./-])\s?(?P<m>\d{1,2})(?P=sep)\s?(?P<d>\d{1,2})(?![\d.]|\s?(?:%|℃|도|배))", _full),
    (r"(?<!\d)(?P<y>20\d\d)(?P<m>0[1-9]|1[0-2])(?P<d>\d\d)(?!\d)", _full),
    (rf"(?<!\d)(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)(?!\d){_RECORD_NEXT}", _full),
    (rf"(?<![\d.])(?P<y>[12]\d)(?P<m>\d\d)(?P<d>\d\d)(?![\d.]){_RECORD_NEXT}", _full),
    (rf"(?<!\d)(?P<y>20\d\d)\s+(?P<m>\d{{1,2}})\s+(?P<d>\d{{1,2}})(?!\d){_RECORD_NEXT}", _full),
    (rf"(?<![\d.])(?P<m>0[1-9]|1[0-2])(?P<d>\d\d)(?![\d.]){_RECORD_NEXT}", _slashed),
    (
        rf"(?<![\d./-])(?<!EC)(?<!pH)(?<!EC )(?<!pH )(?P<m>1[0-2]|0?[1-9])(?P<sep>[.-])(?P<d>\d{{1,2}})(?![\d./~-])"
        rf"(?=(?:일|에|자)?\s*(?:{_NUMBERED}|기록|방제|뭐|무슨))",
        _slashed,
    ),
    (rf"{_YEAR_BEFORE}?{_M}\s*(?P<d>\d{{1,2}})(?=\s+(?:{_NUMBERED}|기록|방제))", _month_day),
    (rf"(?<![\d./])(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})(?![\d/])(?=(?:일|에|자)?\s+(?:\S+\s+){{0,2}}\S*(?:{_NUMBERED}|기록|방제|작업|수확|급액|배액|난방|온도|점검|회의|일지|뭐|무슨))", _slashed),
    (rf"{_YEAR_BEFORE}?(?<![\d.])(?P<m>\d{{1,2}})(?=\s*(?:,|·)\s*\d{{1,2}}\s*월)", _month_alone),
    (r"(?P<word>재작년|작년|지난\s?해|전년)\s*(?P<what>이맘\s?때|이\s?(?:시기|무렵|때)|오늘)(?:쯤)?", _about),
    (rf"{_YEAR_BEFORE}?{_M}\s*(?:{_DAY}|{_NTH_DAY}){_WEEKDAY}", _month_day),
    (r"(?<!\d)(?P<y>20\d\d)[-./](?P<m>\d{1,2})(?![\d월])", _year_month),
    (rf"(?<![a-z])(?P<m>{'|'.join(_MONTH_NAMES)})\.?\s+(?P<y>20\d\d)(?!\d)", _month_year),
    (rf"{_YEAR_BEFORE}?(?<!\d)(?P<a>\d{{1,2}})\s*월?\s*(?:~|-|–|∼|〜)\s*(?P<b>\d{{1,2}})\s*월", _month_span),
    (
        rf"(?:{_YEAR_BEFORE}|(?P<past>지난\s?))?{_M}(?:달|중(?![순요간]))?"
        rf"(?:\s*(?P<week>첫|한|두|둘|세|셋|네|넷|다섯|마지막)(?:째|\s?번째)?\s?주(?![가-힣]))?{_PART}?(?!령|\s?령)",
        _month_alone,
    ),
    (rf"(?:{_YEAR}|(?P<which>{_BACK}))\s*(?P<season>봄|여름|가을|겨울)(?!철|용|작형|잠|재배|배추|딸기|무)", _season),
    (
        rf"(?:{_YEAR_BEFORE}|(?P<which>{_BACK})\s*)?(?:(?P<half>상|하)반기|(?P<q>[1-4일이삼사])\s?[/사]?\s?(?:4\s?)?분기)",
        _portion,
    ),
    (rf"(?P<which>{_BACK})\s*(?:분기|(?P<halves>반기))", _portion),
    (r"어젯밤|엊저녁|오늘|어제|어저께|그끄저께|그끄제|엊그저께|엊그제|그저께|(?<![가-힣])그제(?![서야])|(?<![가-힣])내일|(?<![가-힣])모레|\byesterday\b|\btoday\b", _day_word),
    (r"\b(?P<w>last|this)\s+(?P<u>week|month|year)\b", _english),
    (r"\b(?P<n>\d{1,3})\s+(?P<unit>day|week|month)s?\s+ago\b", _english_ago),
    (r"\blast\s+(?P<day>monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b", _english_weekday),
    (rf"(?P<which>{_BACK})\s*주(?![년기요문위변사제민차임])(?:(?P<end>말)|\s*(?P<day>[{WEEKDAYS}])요일)?", _week),
    (rf"(?P<which>지난|저번|이번)\s*(?P<day>[{WEEKDAYS}])요일", _weekday),
    (rf"(?P<which>{_BACK})\s*(?:달|월(?=\s|에|의|$|[은는이도만\d]))(?:\s*(?P<d>\d{{1,2}})\s*일|\s*(?P<week>첫|둘|셋|넷|다섯|마지막)(?:째|\s?번째)?\s?주(?![가-힣])|{_PART})?(?![라])", _month_word),
    (
        rf"(?:최근|지난|(?<![가-힣])요(?=\s))\s*(?:(?P<days>{DAY_WORD})|(?P<n>\d{{1,3}}|{NATIVE_WORD}|반|[일이삼사오육칠팔구십]{{1,2}})\s*"
        r"(?P<unit>주일|주간|주|일|개월|달|년))(?![가-힣]?요일)",
        _recent,
    ),
    (rf"(?:(?P<days>{DAY_WORD})|(?<!\d)(?<![가-힣.]){_N}\s*(?P<unit>주일|주|일|개월|달|년))\s*전(?!까지\s?(?:칠|쳐|살포|사용))(?=[에의부까이은도꺼거것]|\s|$|[,?.!])(?:\s*(?P<day>[{WEEKDAYS}])요일)?", _ago),
    (rf"(?<!\d)(?P<bare>20\d\d)(?=\s+(?:\S+\s+){{0,2}}\S*{_NUMBERED})", _year_alone),
    (rf"(?:(?<![\d.])['’‘](?P<yy>\d\d)\s*년(?:도)?|(?<![\d.])(?P<y2>[12]\d)\s*년(?:도)?(?=에\s?작성|\s*(?:\S+\s+){{0,2}}\S*{_NUMBERED}))", _year_alone),
    (rf"{_YEAR}", _year_alone),
    (rf"(?<![가-힣\d])(?P<day>[{WEEKDAYS}])요일(?!마다|별)", _weekday),
    (rf"(?<![\d.~-])(?<![가-힣])(?P<d>\d{{1,2}})\s*일{_DATED_DAY}(?![가-힣]*(?:수|조|사|손))(?=[에은는이도의자날]|\s|$|[,?.!])", _day_alone),
)  # fmt: skip
_BARE_SEASON = re.compile(
    r"(?<![가-힣])(?P<season>봄|여름|가을|겨울)(?=에|엔|의|은|도|동안|이랑|랑|하고|과|부터|까지|\s|$)(?!\s?철|가을)"
)
_NEXT = re.compile(
    r"(?:그\s*)?(?P<step>다음\s?날|이튿날|다음\s?주|다음\s?달|전날|전\s?주(?![가-힣])|전\s?달(?![가-힣]))"
)
_NOT_A_DATE = re.compile(r"(?:수확|정식|파종|개화|살포|출하|접종|이식|후|뒤|약|최소|최대|만)\s*$")
_LATIN = re.compile(r"[A-Za-z]")
_JOIN = re.compile(r"\s*(?:부터|에서|~|∼|〜|–|-)\s*")
_AND = re.compile(r"\s*(?:와|과|이랑|랑|하고|,|·|및|대비|보다|vs)\s*")
_NOW = re.compile(r"\s*부터\s*(?:지금|현재|여태)\s*(?:까지)?|\s*이후(?![가-힣])")


def find_periods(
    text: str, today: date, *, base: date | None = None, english: bool = True
) -> Iterator[Period | BadDate]:
    """Periods in text order, longest rule first, non-overlapping.

    ``base``: the day that "그 다음날" counts from; ``english``: whether "last week" and "March" are read too.
    """
    found: list[Period | BadDate] = []

    def free(start: int, end: int) -> bool:
        return all(p.end <= start or end <= p.start for p in found)

    if base is not None:
        for match in _NEXT.finditer(text):
            if not free(match.start(), match.end()):
                continue
            try:
                days = _stepped(match["step"].replace(" ", ""), base)
            except OverflowError:  # beyond the calendar's last year
                found.append(BadDate(match[0], match.start(), match.end()))
            else:
                found += [Period(*days, match.start(), match.end(), NEXT_DAY)] if days else []
    for pattern, read in _RULES:
        for match in pattern.finditer(text):
            if not match[0].strip() or not free(match.start(), match.end()):
                continue
            start, end = match.start(), match.start() + len(match[0].rstrip())
            if read in (_ago, _day_alone) and _NOT_A_DATE.search(text[max(0, start - 12) : start]):
                continue
            if _LATIN.search(match[0]) and (not english or match[0].strip(" .").lower() == "may"):
                continue
            try:
                said = read(match, today)
            except (ValueError, OverflowError):  # no such day; before the year 1
                found.append(BadDate(text[start:end], start, end))
            else:
                if said is not None:
                    found.append(Period(*said[0], start, end, said[1]))
    for match in _BARE_SEASON.finditer(text):
        if free(match.start(), match.end()):
            season, rule = _season(match, today)
            found.append(Period(*season, match.start(), match.end(), rule))
    periods = list(_with_years(_joined(sorted(found, key=lambda p: p.start), text, today)))
    impossible = any(isinstance(p, BadDate) for p in periods)
    for (
        period
    ) in periods:  # "작년이랑 올해 2월 29일": a year alone beside a day that does not exist is not what was asked
        if not (impossible and isinstance(period, Period) and period.rule in (YEAR, NUMBERED_YEAR, "date.same_time")):
            yield period


def steps_on(text: str) -> bool:
    """Whether a text counts on from a day said before ("그 다음날")."""
    return _NEXT.search(text) is not None


def _stepped(step: str, base: date) -> Days | None:
    """The day, week or month beside ``base``."""
    sign = -1 if step.startswith("전") else 1
    if step.endswith("날"):
        return _one(base + timedelta(days=sign))
    if step.endswith("주"):
        monday = base - timedelta(days=base.weekday() - 7 * sign)
        return monday, monday + timedelta(days=6)
    index = base.year * 12 + base.month - 1 + sign
    return _month(index // 12, index % 12 + 1)


def moved(period: Period, year: int) -> Period | BadDate:
    """The same part of another year."""
    shift = year - period.first.year
    try:
        first = period.first.replace(year=year)
        whole = period.last.day == calendar.monthrange(period.last.year, period.last.month)[1]
        last_year = period.last.year + shift
        last = _month(last_year, period.last.month)[1] if whole else period.last.replace(year=last_year)
    except ValueError:
        return BadDate("", period.start, period.end)
    return replace(period, first=first, last=last)


def _joined(found: list[Period | BadDate], text: str, today: date) -> list[Period | BadDate]:
    """ "3월부터 5월까지" as one period; "작년 1분기와 2분기": the second takes the year of the first."""
    out: list[Period | BadDate] = []
    for item in found:
        before = out[-1] if out else None
        if (
            before is not None
            and BadDate in (type(item), type(before))
            and _JOIN.fullmatch(text[before.end : item.start])
        ):
            out[-1] = BadDate(text[before.start : item.end], before.start, item.end)  # half a range is none
            continue
        if isinstance(item, Period) and isinstance(before, Period):
            between = text[before.end : item.start]
            if _JOIN.fullmatch(between):
                out[-1] = (
                    BadDate(text[before.start : item.end], before.start, item.end)
                    if _backwards(before, item)
                    else _range(before, item, text)
                )
                continue
            if _AND.fullmatch(between) and item.rule in OPEN and before.rule.startswith("date.year_"):
                item = replace(moved_or(item, before.first.year), rule=item.rule.replace("date.", "date.year_"))
            if item.rule == "date.day" and before.rule in ("date.month_day", "date.year_month_day", "date.full"):
                item = _same_month(before, item) if re.fullmatch(r"\s+", between) or _AND.fullmatch(between) else item
        out.append(item)
    return [
        replace(p, last=max(today, p.first), end=p.end + tail.end(), rule="date.year_range")
        if isinstance(p, Period) and (tail := _NOW.match(text[p.end :]))
        else p
        for p in out
    ]


def _backwards(first: Period, last: Period) -> bool:
    """ "3월 20일~3월 10일": two days of one month in the wrong order."""
    single = first.first == first.last and last.first == last.last
    return single and first.first.month == last.first.month and first.first.day > last.first.day


def _same_month(before: Period, item: Period) -> Period | BadDate:
    """ "6월 29일, 30일": the day belongs to the month before it."""
    try:
        day = before.first.replace(day=item.first.day)
    except ValueError:
        return BadDate("", item.start, item.end)
    return Period(day, day, item.start, item.end, before.rule)


def moved_or(period: Period, year: int) -> Period:
    """``period`` in another year, or as it is where that day does not exist."""
    there = moved(period, year)
    return there if isinstance(there, Period) else period


def _range(first: Period, last: Period, text: str) -> Period:
    """From the start of one period to the end of the next."""
    end = last.end + len("까지") if text.startswith("까지", last.end) else last.end
    if last.rule in OPEN and first.rule not in OPEN:
        last = moved_or(last, first.first.year)
        if last.last < first.first:
            last = moved_or(last, first.first.year + 1)
    elif first.rule in OPEN:  # the year of the later one counts for both
        first = moved_or(first, last.first.year)
        if first.first > last.last:
            first = moved_or(first, last.first.year - 1)
    is_open = first.rule in OPEN and last.rule in OPEN
    return Period(
        min(first.first, last.first), max(first.last, last.last), first.start, end, "date.range" if is_open else "date.year_range"
    )  # fmt: skip


def _with_years(found: Iterable[Period | BadDate]) -> Iterator[Period | BadDate]:
    """ "4월 초 … 작년하고 올해", "1월 대비 2월, 올해": periods without a year meet the years that are named beside them."""
    found = list(found)
    years = [p for p in found if isinstance(p, Period) and p.rule in (YEAR, NUMBERED_YEAR)]
    bare = [p for p in found if isinstance(p, Period) and p.rule in OPEN]
    dated = [p for p in found if isinstance(p, Period) and p.rule in ("date.year_month", "date.year_month_day")]
    if years and not bare and len(dated) == 1:  # 작년 4월이랑 올해 같은 달
        for item in found:
            yield replace(moved_or(dated[0], item.first.year), start=item.start, end=item.end,
                          rule="date.year_of_month") if item in years and isinstance(item, Period) else item  # fmt: skip
        return
    if not years or not bare or (len(bare) > 1 and len(years) > 1):
        yield from found
        return
    for item in found:
        if isinstance(item, Period) and len(bare) == 1 and item in years:
            there = moved(bare[0], item.first.year)
            yield (
                replace(there, start=item.start, end=item.end, rule="date.year_of_month")
                if isinstance(there, Period)
                else BadDate("", bare[0].start, bare[0].end)
            )
        elif isinstance(item, Period) and len(bare) > 1 and item in bare:
            yield replace(moved_or(item, years[0].first.year), rule=item.rule.replace("date.", "date.year_"))
        elif item not in years and item not in bare:
            yield item


def candidates(period: Period, years: Iterable[int]) -> list[Days]:
    """The period in each of ``years``, earliest first, where it exists."""
    there = (moved(period, year) for year in sorted(set(years)))
    return [(p.first, p.last) for p in there if isinstance(p, Period)]
