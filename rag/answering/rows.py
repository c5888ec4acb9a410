"""Table rows: "이름: 값, 이름: 값" cells said by the cells that are asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

_CELL_BREAK = re.compile(r", (?=[^,:]{1,20}: )")
_UNIT_OF = re.compile(r"\(([^()]{1,6})\)$")
_ROW_CELLS = 3
_EMPTY = frozenset({"", "-", "–", "—", "결측", "없음", "미상", "자료 없음"})
_ROW_NAMES = frozenset(
    {
        "동",
        "작목",
        "연월",
        "기간",
        "주차",
        "구분",
        "품종",
        "생육단계",
        "품목",
        "상표",
        "병해충",
        "약제",
        "항목",
        "일자",
        "날짜",
        "작업일",
    }
)
_DAY = re.compile(
    r"(?:^|, )(?:[^,:]{0,8}(?:일자|날짜|일시|일)|date|day): (?:(?P<year>\d{4})\s?[-./년]\s?)?(?P<month>\d{1,2})\s?[-./월]\s?(?P<day>\d{1,2})(?!\d)",
    re.IGNORECASE,
)


def cells_of(sentence: str) -> list[tuple[str, str]]:
    """(name, value) of a table row's cells; empty for anything that is no row (three cells or more)."""
    cells = [cell.partition(": ") for cell in _CELL_BREAK.split(sentence)]
    if len(cells) < _ROW_CELLS or not all(colon for _, colon, _ in cells):
        return []
    return [(name, value) for name, _, value in cells]


def spoken_row(sentence: str, keywords: Sequence[str]) -> str:
    """A table row as an answer says it: the cells that name the row and those the question asks for, units at values.

    "동: 3동, 작목: 딸기, 주간 평균온도(℃): 21.8, 야간 평균온도(℃): 7.0" asked for 야간 → "동: 3동, 작목: 딸기, 야간
    평균온도: 7.0℃". Anything that is no row, or of which no cell is asked for, stays as it is.
    """
    cells = cells_of(sentence)
    names = [
        i == 0 or name in _ROW_NAMES or any(len(word) > 1 and word in value for word in keywords)
        for i, (name, value) in enumerate(cells)
    ]
    asked = [0 if naming else asked_for(name, keywords) for naming, (name, _) in zip(names, cells, strict=True)]
    best = max(asked, default=0)
    if not best:
        return sentence
    return ", ".join(
        _with_unit(name, value)
        for naming, score, (name, value) in zip(names, asked, cells, strict=True)
        if naming or score == best
    )


def is_header(sentence: str) -> bool:
    """Whether a sentence is a table's header alone: four or more short names ("동, 작목, 주차, 기간, 특(kg), 비고")."""
    cells = sentence.split(", ")
    return len(cells) > _ROW_CELLS and all(
        0 < len(cell) <= 14 and not re.search(r"\d|: |[다요]\.?$", cell) for cell in cells
    )


def lacks_value(sentence: str, keywords: Sequence[str]) -> bool:
    """Whether a table row has nothing in the cells that are asked for ("당도(브릭스): -")."""
    asked = [value for name, value in cells_of(sentence) if name not in _ROW_NAMES and asked_for(name, keywords)]
    return bool(asked) and all(value.strip() in _EMPTY for value in asked)


def asked_for(name: str, keywords: Sequence[str]) -> int:
    """How many question words a column name holds; a one-letter word must be the whole name (특, 상)."""
    bare = without_unit(name).lower()
    return sum(word == bare or (len(word) > 1 and word in bare) for word in keywords)


def without_unit(name: str) -> str:
    """A column's name alone: "월 합계(kg)" → 월 합계."""
    return _UNIT_OF.sub("", name).strip()


def unit_of(name: str) -> str:
    """The unit in a column's name: "월 합계(kg)" → kg; "" without one."""
    unit = _UNIT_OF.search(name)
    return unit[1] if unit else ""


def _with_unit(name: str, value: str) -> str:
    unit = unit_of(name)
    return f"{without_unit(name)}: {value}{unit}" if unit and value[-1:].isdigit() else f"{name}: {value}"


def day_of(sentence: str, dated: str = "") -> date | None:
    """The day that a table row names as its own ("일자: 2026-10-20, …"); None where it names none.

    ``dated``: the ISO date of its document, whose year holds for a day without one.
    """
    match = _DAY.search(sentence)
    year = (match and match["year"]) or dated[:4]
    try:
        return date(int(year), int(match["month"]), int(match["day"])) if match and year else None
    except ValueError:
        return None
