"""Document filter of a question about records, and which condition has to go where no document meets all of them.

A filter that leaves nothing is relaxed by one slot (document kind, file, author, house, date, in this order), by several
only if no single one is enough; never by the scope. What was relaxed is told. Without the author, house or date that was
asked for, the documents found are near, not an answer: they are named, and nothing is answered from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from rag.query.slots import INVALID
from rag.schema import DocFilter, Query, QueryFeatures, Slot, SlotKind, farm_scope
from rag.stores.catalogue import Catalogue

_FORMATS: dict[str, tuple[str, ...]] = {
    "hwp": ("hwpx", "hwp"),
    "hwpx": ("hwpx",),
    "xlsx": ("xlsx", "xls"),
    "docx": ("docx", "doc"),
    "html": ("html", "htm"),
    "txt": ("txt", "text"),
    "md": ("md",),
}
_KNOWN = frozenset({"pdf", "doc", "docx", "xls", "xlsx", "csv", "tsv", "hwp", "hwpx", "html", "txt", "md", "pptx"})
_ORDER: tuple[tuple[SlotKind, str, str], ...] = (
    ("doc_type", "kinds", "문서 종류"),
    ("file", "formats", "파일 형식"),
    ("author", "authors", "작성자"),
    ("house", "houses", "동"),
    ("date", "periods", "날짜"),
)
# Without these a document is another day's, another house's, another person's.
_ESSENTIAL = frozenset({"author", "house", "date"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """A condition that was left out because nothing on file meets it. ``near``: what is left is no answer."""

    kind: SlotKind
    note: str
    near: bool


def filters_of(features: QueryFeatures, query: Query) -> DocFilter:
    """Document filter from slots, for questions about a farm's records only.

    Nothing later than the question counts. Of several periods ("작년 3월이랑 올해 3월") any will do.
    """
    if features.intent != "log_lookup" or query.scope.farm_id is None:
        return DocFilter()
    return DocFilter(
        periods=features.periods,
        not_after=query.asked_at.date(),
        authors=features.values("author"),
        kinds=features.values("doc_type"),
        houses=features.values("house"),
        formats=tuple(dict.fromkeys(f for value in features.values("file") for f in _formats(value))),
        scopes=(farm_scope(query.scope.farm_id),),
    )


def side_filter(whole: DocFilter, side: QueryFeatures) -> DocFilter | None:
    """The filter of one side of a comparison: those of the whole's periods and houses that it names; None: the whole's."""
    periods = tuple(period for period in whole.periods if period in side.periods)
    houses = tuple(house for house in whole.houses if house in side.values("house"))
    narrowed = replace(whole, periods=periods or whole.periods, houses=houses or whole.houses)
    return None if narrowed == whole else narrowed


def _formats(value: str) -> tuple[str, ...]:
    """Formats on file that a format's name or a file's ending stands for."""
    name = value.lower().rpartition(".")[2]
    return _FORMATS.get(name, (name,)) if name in _KNOWN else ()


def relax(
    wanted: DocFilter, features: QueryFeatures, query: Query, catalogue: Catalogue
) -> tuple[DocFilter, tuple[Relaxed, ...]]:
    """The filter that leaves something, and what was left out of it; as it is where nothing would help."""
    if wanted.empty or catalogue.matches(wanted):
        return wanted, ()
    present = [(kind, field, label) for kind, field, label in _ORDER if getattr(wanted, field)]
    for size in range(1, len(present) + 1):
        for dropped in combinations(present, size):
            emptied: dict[str, Any] = {field: () for _, field, _ in dropped}
            looser = replace(wanted, **emptied)
            if catalogue.matches(looser):
                return looser, tuple(_told(kind, label, features, query) for kind, _, label in dropped)
    return wanted, ()


def _told(kind: SlotKind, label: str, features: QueryFeatures, query: Query) -> Relaxed:
    slots = [slot for slot in features.slots if slot.kind == kind and slot.value != INVALID]
    said = ", ".join(dict.fromkeys(_said(slot, query) for slot in slots))
    if kind in _ESSENTIAL:
        note = f"{label} '{said}'에 맞는 자료가 없습니다. {label} 조건을 빼고 찾은 가까운 문서만 알립니다."
        return Relaxed(kind=kind, note=note, near=True)
    return Relaxed(kind=kind, note=f"{label} '{said}' 조건을 빼고 찾았습니다.", near=False)


def _said(slot: Slot, query: Query) -> str:
    """The value; a period as "작년 3월(2025-03-01~2025-03-31)"."""
    if slot.kind != "date":
        return slot.value
    first, _, last = slot.value.partition("/")
    return f"{slot.words_in(query)}({first if first == last else f'{first}~{last}'})"


def invalid_dates(features: QueryFeatures, query: Query) -> Iterator[str]:
    """What to say about dates that do not exist."""
    for slot in features.slots:
        if slot.kind == "date" and slot.value == INVALID:
            yield (
                f"'{slot.words_in(query)}'은(는) 달력에 없는 날짜라 조건에서 뺐습니다. "
                f"{_remedy(slot.words_in(query))}날짜를 고쳐 다시 물어 주세요."
            )


def _remedy(words: str) -> str:
    """ "2월은 28일(윤년 29일)까지입니다. "."""
    month = re.search(r"(?:^|\D)(\d{1,2})\s*(?:월|[-./]\s?\d)", re.sub(r"20\d\d\s*(?:년|[-./])\s?", "", words))
    if month is None:
        return ""
    number = int(month[1])
    if not 1 <= number <= 12:
        return "달은 1월부터 12월까지입니다. "
    last = {2: "28일(윤년은 29일)"}.get(number, "30일" if number in (4, 6, 9, 11) else "31일")
    return f"{number}월은 {last}까지입니다. "
