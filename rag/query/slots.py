"""Slots of a question by rules: date, author, document type, house, crop, cultivar, growth stage, value, format.

Rules and the farm lexicon only; the same question at the same moment against the same catalogue gives the same slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date

from rag.lexicon import Mention
from rag.query.dates import Period, find_periods
from rag.schema import Slot, SlotKind
from rag.stores.catalogue import Catalogue

_SURNAMES = "김이박최정강조윤장임한오서신권황안송류홍전고문양손배백허유남심노하곽성차주우구"
# A title is not the head of another word: 전기사용량, 조사장비, 이 대표적인, 유기사료.
_TITLES = "농장장|주임|반장|과장|대리(?!점)|사장(?!비)|부장|팀장|기사(?![용고업료])|소장|대표(?!적)|실장|차장|님"
_AUTHOR = re.compile(rf"(?<![가-힣])([{_SURNAMES}])\s?({_TITLES})")
_HOUSE = re.compile(r"(?<![\d.])(\d{1,2})\s*(연동|동)(?!안|시에|일(?!지))")
_VALUE = re.compile(
    r"(\d+(?:[.,]\d+)?)\s*(dS/m|mS/cm|℃|°C|도|%|퍼센트|ppm|kg|g|배|L|리터|lx|룩스|mm|cm|㎡|평|시간|분|회|번|원)"
)
_FARM = re.compile(r"([가-힣A-Za-z]{2,10}?|(?<![가-힣])[옆앞뒷딴그])\s?(농장|농원)(?!장)")
_MINE = frozenset({"우리", "저희", "내", "본", "이"})
_NO_NAME = frozenset(
    [
        "스마트팜",
        "스마트",
        "일반",
        "시설",
        "온실",
        "토마토",
        "딸기",
        "파프리카",
        "오이",
        "와사비",
        "실습",
        "시범",
        "선도",
        "체험",
        "관광",
        "주말",
        "보통",
        "대부분",
        "모든",
        "여러",
        "작은",
        "소규모",
        "대규모",
        "가족",
        "개인",
        "유리온실",
        "비닐하우스",
        "수경재배",
        "양액재배",
        "시설원예",
        "어느",
        "어떤",
    ]
)
_FORMAT = re.compile(r"(?<![a-z])(hwpx|hwp|pdf|docx|xlsx|csv|엑셀|한글\s?파일|워드)(?![a-z])", re.IGNORECASE)
_FORMATS = {"엑셀": "xlsx", "워드": "docx", "한글파일": "hwpx", "hwp": "hwpx"}
# What people call a document → the kinds of ``ingest.metadata``.
_TYPES: tuple[tuple[str, str], ...] = (
    (r"작업\s?일지|영농\s?일지|일지", "작업일지"),
    (r"점검표|점검\s?기록", "점검표"),
    (r"계약서", "계약서"),
    (r"회의록|회의", "회의록"),
    (r"수확\s?기록|수확\s?일지|수확\s?대장|출하\s?기록", "수확기록"),
    (r"수리\s?기록|수리\s?내역|고장\s?기록|정비\s?기록", "수리기록"),
    (r"급액\s?배액\s?요약|급배액\s?요약|급액\s?배액\s?기록|급배액\s?기록|급액\s?기록|배액\s?기록", "급액배액요약"),
    (r"센서\s?요약|센서\s?기록|환경\s?기록", "센서요약"),
)
_LEXICON_KINDS: dict[str, SlotKind] = {"작물": "crop", "품종": "cultivar", "생육단계": "growth_stage"}


def find_slots(
    text: str, mentions: Sequence[Mention], today: date, catalogue: Catalogue, own_farm: str | None
) -> tuple[Slot, ...]:
    """All slots in text order. ``mentions`` are the lexicon mentions of ``text`` (NFC); ``own_farm`` is the asker's."""
    found = [*_dates(text, today), *_authors(text, catalogue), *_houses(text), *_types(text), *_values(text)]
    found += _formats(text)
    found += _farms(text, own_farm)
    found += [
        Slot(kind=_LEXICON_KINDS[m.type], value=m.name, start=m.start, end=m.end, rule=f"lexicon.{m.type}")
        for m in mentions
        if m.type in _LEXICON_KINDS
    ]
    return tuple(sorted(found, key=lambda slot: (slot.start, slot.end, slot.kind)))


def _dates(text: str, today: date) -> Iterator[Slot]:
    for period in find_periods(text, today):
        if isinstance(period, Period):
            value = f"{period.first}/{period.last}"
            yield Slot(kind="date", value=value, start=period.start, end=period.end, rule=period.rule)


def _authors(text: str, catalogue: Catalogue) -> Iterator[Slot]:
    for match in _AUTHOR.finditer(text):
        name = match[1] + match[2]
        rule = "author.on_file" if name in catalogue.authors else "author.unknown"
        yield Slot(kind="author", value=name, start=match.start(), end=match.end(), rule=rule)


def _houses(text: str) -> Iterator[Slot]:
    for match in _HOUSE.finditer(text):
        yield Slot(
            kind="house", value=f"{int(match[1])}{match[2]}", start=match.start(), end=match.end(2), rule="house.number"
        )


def _types(text: str) -> Iterator[Slot]:
    for pattern, kind in _TYPES:
        match = re.search(pattern, text)
        if match:
            yield Slot(kind="doc_type", value=kind, start=match.start(), end=match.end(), rule="doc_type.name")


def _farms(text: str, own_farm: str | None) -> Iterator[Slot]:
    """A farm by name. Whether another farm exists is not looked up: any name but the asker's own is another's."""
    for match in _FARM.finditer(text):
        if match[1] in _MINE | _NO_NAME:
            continue
        name = match[1] + match[2]
        rule = "farm.own" if own_farm is not None and own_farm.replace(" ", "") == name else "farm.other"
        yield Slot(kind="farm", value=name, start=match.start(), end=match.end(), rule=rule)


def _values(text: str) -> Iterator[Slot]:
    for match in _VALUE.finditer(text):
        yield Slot(
            kind="value", value=f"{match[1]} {match[2]}", start=match.start(), end=match.end(), rule="value.unit"
        )


def _formats(text: str) -> Iterator[Slot]:
    for match in _FORMAT.finditer(text):
        name = match[1].lower().replace(" ", "")
        yield Slot(
            kind="file", value=_FORMATS.get(name, name), start=match.start(), end=match.end(), rule="file.format"
        )
