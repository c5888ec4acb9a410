"""Asking back: a template question with options where a question is ambiguous and the choice is narrow.

Three layers. Certain: the rules decide and nothing is asked. Ambiguous with a few options: one of these is asked,

    date    "2025년 보고서": the date of the document, or a word of its title; "3월 방제 기록": which of the years on file
    author  "김주임": which of the people on file
    house   "3동": 육묘 3동 or 재배 3동
    crop    a figure that differs from crop to crop, without a crop

Not answered: the question is answered as it stands. A follow-up is never asked back: the question before decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from rag.errors import SettingsError
from rag.query.dates import NUMBERED_YEAR, OPEN
from rag.query.slots import authors_called, houses_called, on_file
from rag.schema import Clarification, Query, QueryFeatures, Slot, SlotKind
from rag.stores.catalogue import Catalogue
from rag.text import Analysis

CHOICE = "choice"
_TITLED = frozenset({"보고서", "매뉴얼", "지침", "계획서"})
_WRITTEN = re.compile(
    r"\s?(?:에|도에)\s?(?:작성|쓴|쓰인|적은|만든|만들|나온|낸|올린|올라온|제출|발행|발간|정리)|\s?(?:자|날짜)"
)
_FIGURE = re.compile(r"얼마|몇|며칠|어느\s?정도|기준|적정|범위|적당|알맞|how\s+much|how\s+many|target")
_DEPENDS = re.compile(
    r"(?<![A-Za-z])(?:EC|pH|CO2|VPD|DLI)(?![A-Za-z])|이씨|산도|온도|기온|지온|수온|습도|이산화탄소|탄산가스|함수율|배액률|급액|관수|양액|농도|"
    r"재식|간격|거리|파종|정식|발아|육묘|싹|광량|광도|일사|일장|당도|착과|적과|적엽|화방|예냉|저장|수확|비료|배지|몇\s?도|물\s?(?:을\s)?(?:주|줘|얼마|몇|자주)",
    re.IGNORECASE,
)
_SAME_FOR_ALL = re.compile(
    r"센서|양액기|발전기|용량|보일러|온풍기|난방기|전기|요금|필터|펌프|탱크|법(?![가-힣])|법률|과태료|벌금|벌통|보험|지원|보조금|원리|뜻|단위|농약|"
    r"(?<![가-힣])약(?![가-힣])|약제|희석|살포|인증|보정|면적|몇\s?평|자격|신고|허가|등록|계약|비용|가격|값|비닐|필름|커튼|하우스|냉난방|정전|"
    r"표준액|교정|소독|염소|과산화|세척|안전|교육|임금|시급|수질|원수",
)
_PEST_TYPES = frozenset({"병", "바이러스", "해충"})


def clarify(features: QueryFeatures, analysis: Analysis, query: Query, catalogue: Catalogue) -> Clarification | None:
    """What should be asked back, or None. ``features`` are read without a choice."""
    if features.standalone:
        return None
    return (
        _year_or_title(features, query)
        or _which_year(features, query, catalogue)
        or _which_name(features, catalogue)
        or _which_crop(features, analysis, query, catalogue)
    )


def _year_or_title(features: QueryFeatures, query: Query) -> Clarification | None:
    dates = [s for s in features.slots if s.kind == "date"]
    types = features.values("doc_type")
    if len(dates) != 1 or dates[0].rule != NUMBERED_YEAR or not types or not set(types) <= _TITLED:
        return None
    if _WRITTEN.match(query.text[dates[0].end :]):
        return None
    year = dates[0].value[:4]
    return Clarification(
        slot="date",
        question=f"'{dates[0].words_in(query)}'은 문서를 쓴 해인가요, 제목에 든 말인가요?",
        options=((f"{year}년에 쓴 {types[0]}", f"date:{year}"), (f"제목에 {year}년이 든 {types[0]}", f"title:{year}")),
    )


def _which_year(features: QueryFeatures, query: Query, catalogue: Catalogue) -> Clarification | None:
    open_slots = [s for s in features.slots if s.kind == "date" and s.rule in OPEN]
    if len(open_slots) != 1 or len(features.values("date")) != 1 or features.intent != "log_lookup":
        return None
    slot = open_slots[0]
    there = on_file(slot, catalogue, query.asked_at.date())
    if len(there) < 2:
        return None
    words = slot.words_in(query)
    return Clarification(
        slot="date",
        question=f"'{words}' 자료가 여러 해에 있습니다. 어느 해를 볼까요?",
        options=tuple((f"{low.year}년 {words}", f"{low}/{high}") for low, high in there),
    )


# Slot kind with several values on file → who bears the name, and what to ask.
_CALLED: tuple[tuple[SlotKind, Callable[[str, Catalogue], Sequence[str]], str], ...] = (
    ("author", authors_called, "사람이 {}명입니다. 누구인가요?"),
    ("house", houses_called, "동이 {}곳입니다. 어느 동인가요?"),
)


def _which_name(features: QueryFeatures, catalogue: Catalogue) -> Clarification | None:
    for kind, called, asks in _CALLED:
        for slot in features.slots:
            if slot.rule == f"{kind}.several":
                names = called(slot.value, catalogue)
                return Clarification(
                    slot=kind,
                    question=f"'{slot.value}'에 맞는 {asks.format(len(names))}",
                    options=tuple((name, name) for name in names),
                )
    return None


def _which_crop(
    features: QueryFeatures, analysis: Analysis, query: Query, catalogue: Catalogue
) -> Clarification | None:
    named = {slot.kind for slot in features.slots} - {"growth_stage"}
    text = query.text
    if (
        features.intent != "factual"
        or named
        or len(catalogue.crops) < 2
        or any(m.type in _PEST_TYPES or m.type == "작물" for m in analysis.mentions)
        or not (_FIGURE.search(text) and _DEPENDS.search(text))
        or _SAME_FOR_ALL.search(text)
    ):
        return None
    crops = sorted(catalogue.crops)
    return Clarification(
        slot="crop",
        question="작목마다 값이 다릅니다. 어느 작목인가요?",
        options=tuple((crop, crop) for crop in crops),
    )


def chosen(features: QueryFeatures, asked: Clarification | None, query: Query) -> QueryFeatures:
    """``features`` with the query's answer to ``asked`` as a slot of the rule ``choice``; as they are without one.

    Raises:
        SettingsError: the answer is none of the options.
    """
    choice = query.choice
    if asked is None or not choice:
        return features
    if choice not in {value for _, value in asked.options}:
        raise SettingsError(wrong_choice(choice, asked))
    if choice.startswith("title:"):
        year = choice.removeprefix("title:")
        slots = tuple(s for s in features.slots if s.kind != "date")
        terms = tuple(dict.fromkeys((*features.terms, year, f"{year}년")))
        return replace(features, slots=slots, terms=terms, keywords=tuple(dict.fromkeys((*features.keywords, year))))
    if asked.slot == "crop":
        slot = Slot(kind="crop", value=choice, start=0, end=0, rule=CHOICE)
        names = tuple(dict.fromkeys((*features.entities, choice)))
        terms = tuple(dict.fromkeys((*features.terms, choice)))
        return replace(
            features,
            slots=(slot, *features.slots),
            entities=names,
            terms=terms,
            standalone=f"{choice} {query.text}",
        )
    value = choice
    if choice.startswith("date:"):
        value = f"{choice[5:]}-01-01/{choice[5:]}-12-31"
    return replace(features, slots=tuple(_answered(s, asked, value) for s in features.slots))


def _answered(slot: Slot, asked: Clarification, value: str) -> Slot:
    open_ones = OPEN | {NUMBERED_YEAR, "author.several", "house.several"}
    if slot.kind != asked.slot or slot.rule not in open_ones:
        return slot
    if slot.kind != "date" and value not in {option for _, option in asked.options}:
        return slot
    return replace(slot, value=value, rule=CHOICE)


def wrong_choice(choice: str, asked: Clarification) -> str:
    """What to say to an answer that is none of the options."""
    return f"'{choice}'은(는) 고를 수 없습니다. {asked.question} {numbered_options(asked.options)}"


def numbered_options(options: Sequence[tuple[str, str]]) -> str:
    """ "1) 2025년 3월 2) 2026년 3월"."""
    return " ".join(f"{number}) {label}" for number, (label, _) in enumerate(options, start=1))


def option_of(asked: Clarification, answer: str) -> str:
    """The value of an option called by its number, its label or its value.

    Raises:
        SettingsError: none of them.
    """
    answer = answer.strip()
    for number, (label, value) in enumerate(asked.options, start=1):
        if answer in (str(number), label, value):
            return value
    raise SettingsError(wrong_choice(answer, asked))
