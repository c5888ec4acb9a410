"""x(q) = [intent, query_length_bucket, entity_hint_presence, relation_hint] and the effort level, by rules.

Each feature records the rule that decided it. Cue lists are Korean and English; the order of the intent rules is the
order of precedence.
"""

from __future__ import annotations

import re
from datetime import date

from rag.query.expand import record_words
from rag.query.slots import find_slots
from rag.schema import DocFilter, Effort, Intent, LengthBucket, Query, QueryFeatures, Slot, farm_scope
from rag.stores.catalogue import Catalogue
from rag.text import Analysis, Korean

_COMPARE = re.compile(
    r"비교|차이|다른\s?점|보다|중\s?(?:에|어느|뭐)|어느\s?(?:쪽|게|것)|뭐가\s?더|어떤\s?게\s?더|vs\.?|difference|compare"
)
_PROCEDURE = re.compile(
    r"어떻게|어케|방법|순서|절차|요령|하는\s?법|하려면|뭐부터|무엇부터|단계|how\s+to|steps?\b|procedure"
)
_RELATION = re.compile(
    r"왜|원인|이유|때문|증상|생기|걸리|옮기|옮긴|매개|무슨\s?병|무슨\s?바이러스|뭔\s?병|어떤\s?병|대책|대처|조치|"
    r"막으려|예방|방제|없애|줄이려|영향|탓|어쩌|뭘\s?해야|cause|why|symptom|vector|prevent|because"
)
_LOG = re.compile(
    r"우리|기록|일지|했(?:지|나|어|니|더|는지|던)|한\s?날|썼|쳤|땄|수확량|나왔|고쳤|고장|수리|들었|적었|적힌|회의|계약|점검"
)
# Date rules that can only mean the farm's own days; a month alone may also be a season of the crop.
_OWN_DAYS = frozenset(
    [
        "date.full",
        "date.month_day",
        "date.year_month",
        "date.year_of_month",
        "date.season",
        "date.day_word",
        "date.week",
        "date.month_word",
        "date.recent",
    ]
)
_DATED_KINDS = frozenset({"작업일지", "점검표", "계약서", "회의록", "수확기록", "수리기록", "급액배액요약", "센서요약"})
# Mentions whose canonical word counts as a keyword also where the question says it in one syllable (밤 → 야간).
_NAMED_TYPES = frozenset({"기록", "환경요인"})
_FILTER_KINDS = frozenset({"date", "author", "house", "file", "farm"})
_STOPWORDS = frozenset(
    "얼마 언제 어디 무엇 누구 무슨 어떤 어느 며칠 정도 요 좀 것 때 수 경우 우리 농장 날짜 날짜별 날 이름 내역 목록 각각 전부".split()  # noqa: SIM905
)


def read_question(
    query: Query, korean: Korean, catalogue: Catalogue, own_farm: str | None
) -> tuple[QueryFeatures, Analysis]:
    """Features of a question (NFC text) and the morphological analysis they came from.

    ``own_farm``: display name of the farm that asks. Only a farm's question can mean a farm's records.
    """
    text = query.text
    private = query.scope.farm_id is not None
    analysis = korean.analyse(text)
    slots = find_slots(text, analysis.mentions, query.asked_at.date(), catalogue, own_farm)
    named = (m.name for m in analysis.mentions if m.type in _NAMED_TYPES and " " not in m.name)
    words = (*korean.tokens(_without(text, slots)), *named)
    keywords = tuple(dict.fromkeys(t for t in words if t not in _STOPWORDS))
    removed = tuple(dict.fromkeys(t for t in analysis.tokens if t not in keywords))
    reasons: dict[str, str] = {}
    intent = _intent(text, slots, private, reasons)
    length = _length(len(keywords), reasons)
    relation = _RELATION.search(text.lower())
    reasons["relation_hint"] = f"'{relation[0]}'" if relation else "관계 단서 없음"
    hints = [text[s.start : s.end] for s in slots if s.kind in ("value", "date")]
    reasons["entity_hint_presence"] = f"'{hints[0]}'" if hints else "수치·날짜 없음"
    entities = tuple(dict.fromkeys(m.name for m in analysis.mentions))
    sides = max(len({s.value for s in slots if s.kind == kind}) for kind in ("date", "house"))
    effort = _effort(intent, length, len(entities), sides, reasons)
    features = QueryFeatures(
        slots=slots,
        keywords=keywords,
        removed=removed,
        entities=entities,
        intent=intent,
        query_length_bucket=length,
        entity_hint_presence=bool(hints),
        relation_hint=relation is not None,
        effort=effort,
        reasons=reasons,
    )
    return features, analysis


def _without(text: str, slots: tuple[Slot, ...]) -> str:
    """The text with the spans of filter slots blanked: their words say where to look, not what for."""
    for slot in slots:
        if slot.kind in _FILTER_KINDS:
            text = text[: slot.start] + " " * (slot.end - slot.start) + text[slot.end :]
    return text


def search_words(features: QueryFeatures) -> tuple[str, ...]:
    """BM25 words of a question: its keywords and what dated records call its dates, houses and authors."""
    words = [*features.keywords, *features.values("house"), *features.values("author")]
    if features.intent == "log_lookup":
        words += record_words(features.keywords)
    for value in features.values("date"):
        words += _date_words(value)
    return tuple(dict.fromkeys(words))


def _date_words(value: str) -> list[str]:
    """Words that dated documents use for a period: 2025년, 3월, and the day where it is one day."""
    first, last = (date.fromisoformat(part) for part in value.split("/"))
    if first == last:
        return [f"{first.year}년", f"{first.month}월", f"{first.day}일", first.isoformat()]
    return [f"{first.year}년", f"{first.month}월"] if (first.year, first.month) == (last.year, last.month) else []


def _intent(text: str, slots: tuple[Slot, ...], private: bool, reasons: dict[str, str]) -> Intent:
    lowered = text.lower()
    kinds = {slot.kind for slot in slots}
    dated_type = any(slot.kind == "doc_type" and slot.value in _DATED_KINDS for slot in slots)
    log = _LOG.search(lowered)
    own_days = any(slot.rule in _OWN_DAYS for slot in slots)
    if private and (
        dated_type or own_days or "author" in kinds or (log and kinds & {"date", "house"}) or "house" in kinds
    ):
        reasons["intent"] = "기록 단서: " + ("문서 종류" if dated_type else log[0] if log else "날짜·동·작성자")
        return "log_lookup"
    for intent, pattern in (("comparison", _COMPARE), ("relational", _RELATION), ("procedural", _PROCEDURE)):
        match = pattern.search(lowered)
        if match:
            reasons["intent"] = f"'{match[0]}'"
            return intent  # type: ignore[return-value]
    reasons["intent"] = "다른 단서 없음"
    return "factual"


def _length(n_keywords: int, reasons: dict[str, str]) -> LengthBucket:
    bucket: LengthBucket = "short" if n_keywords <= 5 else "medium" if n_keywords <= 10 else "long"
    reasons["query_length_bucket"] = f"핵심어 {n_keywords}개"
    return bucket


def _effort(intent: Intent, length: LengthBucket, n_entities: int, sides: int, reasons: dict[str, str]) -> Effort:
    if sides > 1:
        reasons["effort"] = f"기간이나 동을 {sides}개 견주는 질문."
        return "high"
    if intent in ("comparison", "relational") and (length == "long" or n_entities >= 4):
        reasons["effort"] = f"복합 질문({intent}, 개체 {n_entities}개)."
        return "high"
    if length == "short" and intent == "factual" and n_entities <= 2:
        reasons["effort"] = "짧은 사실 질문."
        return "low"
    reasons["effort"] = "보통 질문."
    return "medium"


def filters_of(features: QueryFeatures, query: Query, catalogue: Catalogue) -> DocFilter:
    """Document filter from slots, for questions about a farm's records only.

    Nothing later than the question counts. Of several periods ("작년 3월이랑 올해 3월") any will do.
    A date, author or house that is not on file stays in the filter: then nothing is found, and nothing is made up.
    """
    if features.intent != "log_lookup" or query.scope.farm_id is None:
        return DocFilter()
    named = [value.split("/") for value in features.values("date")]
    return DocFilter(
        periods=tuple((date.fromisoformat(first), date.fromisoformat(last)) for first, last in named),
        not_after=query.asked_at.date(),
        authors=features.values("author"),
        kinds=tuple(kind for kind in features.values("doc_type") if kind in catalogue.kinds),
        houses=features.values("house"),
        scopes=(farm_scope(query.scope.farm_id),),
    )


def names_another_farm(features: QueryFeatures) -> bool:
    """Whether the question names a farm other than the asker's."""
    return any(slot.rule == "farm.other" for slot in features.slots)
