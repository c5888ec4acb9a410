"""Table rows: "이름: 값, 이름: 값" cells said by the cells that are asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from rag.schema import ChunkRecord

_CELL_BREAK = re.compile(r", (?=[^,:]{1,20}: )")
_UNIT_OF = re.compile(r"\(([^()]{1,6})\)$")
_ROW_CELLS = 3
_EMPTY = frozenset({"", "-", "–", "—", "결측", "없음", "미상"})
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
MONTHLY_KINDS = frozenset({"수확기록", "급액배액요약", "센서요약"})
# Words that a monthly table is asked by, beside its column names, and the column that answers them.
TOPICS = {
    "수확기록": re.compile(r"수확|땄|딴|따[서낸]|거둔|거뒀|출하|물량|나왔|나온|나갔|나간|생산"),
    "급액배액요약": re.compile(
        r"급액|배액|이씨|EC|피에이치|pH|양액|준\s?물|물\s?(?:을\s)?(?:\S{1,6}\s)?(?:준|줬)", re.I
    ),
    "센서요약": re.compile(r"온도|습도|기온|추[웠운]|더[웠운]|몇\s?도|이산화탄소|CO2|일사|광량", re.I),
}
# What money was spent or made is in no monthly table.
_MONEY = re.compile(r"요금|비용|전기|난방비|기름값|보험|단가|금액|매출|돈")
_COLUMNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"추[웠운]|최저|떨어[졌진]|내려[갔간]"), "최저"),
    (re.compile(r"더[웠운]|최고|올라[갔간]"), "최고"),
    (re.compile(r"준\s?물|물\s?(?:을\s)?(?:\S{1,6}\s)?(?:준|줬)"), "급액량"),
    (
        re.compile(
            r"땄|딴|거둔|거뒀|물량|수확량|총(?:량|액|합|수확)|모두|합쳐|합계|(?:다|전부)\s?해서|나왔|키로|킬로|kg"
        ),
        "합계",
    ),
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
    bare = _UNIT_OF.sub("", name).strip().lower()
    return sum(word == bare or (len(word) > 1 and word in bare) for word in keywords)


def column_words(question: str) -> tuple[str, ...]:
    """Column words of monthly tables that a question means without saying them: "제일 추웠을 때" → 최저."""
    return tuple(column for cue, column in _COLUMNS if cue.search(question))


def month_row(chunk: ChunkRecord, sentence: str, question: str, keywords: Sequence[str]) -> bool:
    """Whether a sentence is the row of a whole month, in a table of the question's topic, with an asked column."""
    topic = TOPICS.get(chunk.kind)
    if topic is None or "주차: " in sentence or not topic.search(question) or _MONEY.search(question):
        return False
    return any(asked_for(name, keywords) for name, _ in cells_of(sentence))


def _with_unit(name: str, value: str) -> str:
    unit = _UNIT_OF.search(name)
    if unit and value and value[-1].isdigit():
        return f"{_UNIT_OF.sub('', name).strip()}: {value}{unit[1]}"
    return f"{name}: {value}"


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
