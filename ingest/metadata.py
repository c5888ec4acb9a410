"""What a document is about, by rules from its path and its first lines: date, author, kind, houses, crop.

Nothing is guessed from file properties that a program fills in by itself (creation date of the file).
"""

import datetime
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from ingest.parsed import ParsedDocument

OTHER_KIND: Final = "기타"
# Checked in this order against the folders, then the file name, then the title (spaces and underscores removed).
_KINDS: Final[tuple[tuple[str, str], ...]] = (
    (r"작업일지|영농일지|일지", "작업일지"),
    (r"점검표|점검기록|체크리스트", "점검표"),
    (r"계약", "계약서"),
    (r"회의", "회의록"),
    (r"수확기록|수확일지|수확대장|출하기록|^수확$", "수확기록"),
    (r"수리기록|수리내역|고장기록|정비기록|^수리$", "수리기록"),
    (r"급액배액|급배액|급액기록|배액기록", "급액배액요약"),
    (r"센서요약|센서기록|환경기록|^센서$", "센서요약"),
    (r"농약등록|농약", "농약등록"),
    (r"법령|법률|시행령|시행규칙|조례|고시", "법령"),
    (r"정전", "정전보고"),
    (r"재배기술|재배법|재배매뉴얼|재배", "재배기술"),
)
_CROPS: Final[tuple[tuple[str, str], ...]] = (
    (r"방울토마토", "방울토마토"),
    (r"(?<!방울)토마토", "토마토"),
    (r"딸기", "딸기"),
    (r"파프리카|착색단고추", "파프리카"),
    (r"오이", "오이"),
    (r"와사비|고추냉이", "와사비"),
)
_HEAD_BLOCKS: Final = 8
_MAX_HOUSE: Final = 12

_FULL_DATE = re.compile(
    r"(?<!\d)((?:19|20)\d{2})(?:\s*[-._/년]\s*(\d{1,2})\s*[-._/월]\s*(\d{1,2})(?!\d)|(\d{2})(\d{2})(?!\d))"
)
_MONTH = re.compile(r"(?<!\d)((?:19|20)\d{2})\s*[-._/년]\s*(\d{1,2})(?!\d)")
_DATE_LABEL = re.compile(
    r"(?:(?:작성|작업|점검|회의|계약|수리|보고|시행)일(?:자|시)?|기준일|수록 ?기준|일자|날짜|일시|연월)"
    r"\s*[:：]\s*(.{4,30})"
)
_SURNAMES = "김이박최정강조윤장임한오서신권황안송류홍전고문양손배백허유남심노하곽성차주우구"
_TITLES = "농장장|주임|반장|과장|대리|사장|부장|팀장|기사|소장|대표|실장|차장"
_AUTHOR_LABEL = re.compile(
    rf"(?:작성자|기록자|점검자|보고자)\s*[:：]\s*([가-힣]{{1,4}}?\s?(?:{_TITLES})|[가-힣]{{2,5}})"
)
_AUTHOR_NAME = re.compile(rf"(?<![가-힣])([{_SURNAMES}][가-힣]{{0,2}}?\s?(?:{_TITLES}))(?![가-힣])")
_HOUSE = re.compile(r"(?<![\d.,A-Za-z])(\d{1,2})(?:\s*([~∼·,-])\s*(\d{1,2}))?\s*(연동|동)(?!안|력|작|계|시|일[한하])")
_HOUSE_CELL = re.compile(r"(?:^|, )(?:동|동번호|하우스)(?:\s*번호)?: (\d{1,2})(?=,|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocMetadata:
    """Filter values of one document; None or empty where no rule matched.

    ``named_by`` is what the path names the file by: a day, or a month, of which ``date`` is the first day.
    """

    date: datetime.date | None
    named_by: Literal["day", "month"] | None
    author: str | None
    kind: str
    houses: tuple[str, ...]
    crop: str | None


def infer_metadata(parsed: ParsedDocument, logical_path: str) -> DocMetadata:
    """All rules on one document; ``logical_path`` is its path inside the scope, with "/"."""
    path = PurePosixPath(unicodedata.normalize("NFC", logical_path))
    head = head_lines(parsed)
    named = date_from_path(path)
    return DocMetadata(
        date=named or date_from_lines(head),
        named_by=None if named is None else "day" if any(map(first_date, (path.stem, str(path.parent)))) else "month",
        author=author_from_lines(head) or author_from_name(path.stem) or author_from_name(parsed.author or ""),
        kind=kind_of(path, parsed.title),
        houses=houses_in((path.stem, parsed.title, *_house_texts(parsed))),
        crop=crop_of(path, parsed.title),
    )


def head_lines(parsed: ParsedDocument) -> tuple[str, ...]:
    """The title and the first blocks, where reports name their date and author."""
    return (parsed.title, *(block.text for block in parsed.blocks[:_HEAD_BLOCKS]))


# --- date -------------------------------------------------------------------------------------------------


def date_from_path(path: PurePosixPath) -> datetime.date | None:
    """A day, else a month (its first day), in the file name, else in the folders ("2026/03")."""
    for text in (path.stem, str(path.parent)):
        found = first_date(text) or first_month(text)
        if found:
            return found
    return None


def date_from_lines(lines: Iterable[str]) -> datetime.date | None:
    """The date of the first line that labels one ("작성일: 2026-03-05")."""
    for line in lines:
        for match in _DATE_LABEL.finditer(line):
            found = first_date(match[1]) or first_month(match[1])
            if found:
                return found
    return None


def first_date(text: str) -> datetime.date | None:
    """The first valid day: 2026-03-05, 2026.3.5, 20260305 or 2026년 3월 5일."""
    for match in _FULL_DATE.finditer(text):
        found = _date(match[1], match[2] or match[4], match[3] or match[5])
        if found:
            return found
    return None


def first_month(text: str) -> datetime.date | None:
    """The first day of the first valid month: 2026-03 or 2026년 3월."""
    for match in _MONTH.finditer(text):
        found = _date(match[1], match[2], "1")
        if found:
            return found
    return None


def _date(year: str, month: str, day: str) -> datetime.date | None:
    try:
        return datetime.date(int(year), int(month), int(day))
    except ValueError:
        return None


# --- author, kind, crop -----------------------------------------------------------------------------------


def author_from_lines(lines: Iterable[str]) -> str | None:
    """The name after "작성자:" (or 기록자, 점검자, 보고자), without spaces."""
    for line in lines:
        match = _AUTHOR_LABEL.search(line)
        if match:
            return match[1].replace(" ", "")
    return None


def author_from_name(text: str) -> str | None:
    """A surname with a job title, as in "2026-03-05_작업일지_김주임"."""
    match = _AUTHOR_NAME.search(text)
    return match[1].replace(" ", "") if match else None


def kind_of(path: PurePosixPath, title: str) -> str:
    """The kind whose word stands in a folder, else in the file name, else in the title."""
    for text in (*path.parent.parts, path.stem, title):
        squeezed = re.sub(r"[\s_·ㆍ]", "", text)
        for pattern, kind in _KINDS:
            if re.search(pattern, squeezed):
                return kind
    return OTHER_KIND


def crop_of(path: PurePosixPath, title: str) -> str | None:
    """The crop that the title names, else the file name, else a folder; two crops at one place decide nothing."""
    for text in (title, path.stem, *reversed(path.parent.parts)):
        crops = [crop for pattern, crop in _CROPS if re.search(pattern, text)]
        if len(crops) == 1:
            return crops[0]
    return None


# --- houses -----------------------------------------------------------------------------------------------


def houses_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Houses named in the texts, in order of their numbers: "1동", "1~3동", "1·2동", "3연동", "동: 1"."""
    found: set[tuple[int, str]] = set()
    for text in texts:
        for match in _HOUSE.finditer(text):
            found |= {(number, match[4]) for number in _numbers(match)}
        found |= {(int(match[1]), "동") for match in _HOUSE_CELL.finditer(text)}
    return tuple(f"{number}{unit}" for number, unit in sorted(found) if 1 <= number <= _MAX_HOUSE)


def _numbers(match: re.Match[str]) -> Iterable[int]:
    first = int(match[1])
    if match[3] is None:
        return (first,)
    last = int(match[3])
    if match[2] in "·,":
        return (first, last)
    return range(first, last + 1) if first < last <= _MAX_HOUSE else (last,)


def _house_texts(parsed: ParsedDocument) -> Iterable[str]:
    for section in parsed.sections:
        yield from section.headings
        yield from (block.text for block in section.blocks)
