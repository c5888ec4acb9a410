"""Reading a question: slots, keywords, x(q) = [intent, query_length_bucket, entity_hint_presence, relation_hint], effort.

Rules and lexicons only. Each feature records the rule that decided it. A follow-up takes what it leaves out from the
question before ("그럼 딸기는?"), with the rule ids ``inherited.*``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from kiwipiepy import Token

from rag.english import has_hangul
from rag.lexicon import Mention
from rag.query.dates import NEXT_DAY, NUMBERED_YEAR, OPEN, WEAK, YEAR, BadDate, find_periods, moved_or, steps_on
from rag.query.dates import Period as DatePeriod
from rag.query.intent import intent_of, record_cue, types_of_pests
from rag.query.keywords import read_keywords
from rag.query.slots import INVALID, excluded_spans, find_slots, nearest_on_file
from rag.query.typos import speller
from rag.query.words import words
from rag.schema import Effort, LengthBucket, Query, QueryFeatures, Slot
from rag.stores.catalogue import Catalogue
from rag.text import Analysis, Korean

_RELATION = re.compile(
    r"왜|원인|이유|때문|증상|생기|걸리|옮기|옮긴|매개|무슨\s?병|무슨\s?바이러스|뭔\s?병|어떤\s?병|대책|대처|조치|"
    r"막으려|예방|방제|없애|줄이려|영향|탓|어쩌|뭘\s?해야|cause|why|symptom|vector|prevent|because"
)
# Mentions whose canonical word counts as a search word also where the question says it in one syllable (밤 → 야간).
_NAMED_TYPES = frozenset({"기록", "환경요인"})
# Slots that say where to look, not what for.
_FILTER_KINDS = frozenset({"date", "author", "house", "file", "farm"})
_STOPWORDS = words(
    "얼마 언제 어디 무엇 누구 무슨 어떤 어느 며칠 정도 요 좀 것 때 수 경우 우리 농장 날짜 날짜별 날 이름 내역 목록 각각 전부"
)
_CUE = re.compile(
    r"\s*(?:그럼|그러면|그렇다면|그\s?(?:다음|전|때|날|사람|중|건|거|것|쪽|동|달|해|주)|거기|이번엔|다음\s?날|이튿날|아\s?그럼|그리고|then\b|what\s+about)"
)
_TOPIC = re.compile(r"(?:은|는|도)\s?(?:요|어때|어때요|어땠어|있어)?\s*[?？]*\s*$")
_BESIDE = re.compile(r"비교|대비|이랑|랑|하고|와\s|과\s|보다|차이|vs")
# Words of time that belong to a date said elsewhere ("5월 수확량 작년하고 올해").
_TIME = re.compile(
    r"\d{1,2}월(?:달)?|재작년|작년|올해|[상하]반기|[1-4]\s?분기|(?<![가-힣])(?:봄|여름|가을|겨울)(?![가-힣]*철)"
)
# A cultivar is of one crop, so a new crop leaves the old cultivar behind.
_REPLACES = {"crop": frozenset({"crop", "cultivar"})}
_SHORT_FOLLOW_UP = 2


@dataclass(frozen=True, slots=True)
class _Read:
    """One text as the rules read it; ``text`` with its typos put right."""

    text: str
    morphemes: Sequence[Token]
    analysis: Analysis
    slots: tuple[Slot, ...]
    keywords: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Reader:
    """What does not change between the texts of one question."""

    korean: Korean
    catalogue: Catalogue
    own_farm: str | None
    farms: Collection[str]
    today: date
    private: bool

    def read(self, written: str, base: date | None = None) -> _Read:
        morphemes = self.korean.morphemes(written)
        text = speller(self.korean.lexicon).repair(written, morphemes)
        if text != written:
            morphemes = self.korean.morphemes(text)
        analysis = self._analysed(text, morphemes)
        terms = self.korean.lexicon.terms
        grown = [m for m in self._apart(text, analysis) if m.type != "작물" or terms[m.name].source in ("farm", "")]
        slots = find_slots(
            text,
            grown,
            self.today,
            self.catalogue,
            self.own_farm,
            farms=self.farms,
            base=base,
            english=self.private or has_hangul(text),
        )
        taken = [(s.start, s.end) for s in slots] + excluded_spans(text)
        typed = any(s.kind == "doc_type" for s in slots)
        if record_cue(text, slots, morphemes) is None or not (self.private or typed):
            slots = tuple(s for s in slots if s.rule not in WEAK)
            taken = [(s.start, s.end) for s in slots] + excluded_spans(text)
        elif any(s.kind == "date" for s in slots):
            taken += [match.span() for match in _TIME.finditer(text)]
        slots = tuple(nearest_on_file(s, self.catalogue, self.today) for s in slots) if self.private else slots
        keywords, removed = read_keywords(written, morphemes, taken, analysis.mentions, self.korean.lexicon.canonical)
        return _Read(text, morphemes, analysis, slots, keywords, removed)

    def _analysed(self, text: str, morphemes: list[Token]) -> Analysis:
        """The analysis, without two-syllable terms that are syllables of two words ("말고 토마토" names no 고토)."""
        analysis = self.korean.analyse(text, morphemes=morphemes)
        for mention in analysis.mentions:
            written = text[mention.start : mention.end]
            if " " in written and len(written.replace(" ", "")) <= 2:
                at = mention.start + written.index(" ") + 1
                rest = (
                    Mention(m.name, m.type, m.start + at, m.end + at) for m in self.korean.analyse(text[at:]).mentions
                )
                kept = (m for m in analysis.mentions if m.end <= mention.start)
                return replace(analysis, mentions=(*kept, *rest))
        return analysis

    def _apart(self, text: str, analysis: Analysis) -> Iterator[Mention]:
        """Mentions; a stage that is written with its crop ("딸기 꽃눈분화") as both."""
        lexicon = self.korean.lexicon
        for mention in analysis.mentions:
            written = text[mention.start : mention.end]
            crop = next(
                (n for n in range(len(written) - 1, 1, -1) if self._is_crop(written[:n])), None
            ) if mention.type == "생육단계" else None  # fmt: skip
            if crop is None:
                yield mention
                continue
            name = lexicon.canonical[written[:crop]]
            yield Mention(name, "작물", mention.start, mention.start + crop)
            after = mention.start + crop
            after += len(text[after:]) - len(text[after:].lstrip())
            yield from (
                Mention(m.name, m.type, m.start + after, m.end + after)
                for m in lexicon.mentions(text[after:])[:1]
                if m.start == 0
            )

    def _is_crop(self, form: str) -> bool:
        lexicon = self.korean.lexicon
        return lexicon.type_of(lexicon.canonical.get(form, "")) == "작물"


def read_question(
    query: Query, korean: Korean, catalogue: Catalogue, own_farm: str | None, *, farms: Collection[str] = ()
) -> tuple[QueryFeatures, Analysis]:
    """Features of a question (NFC text) and the morphological analysis they came from.

    ``own_farm``: display name of the farm that asks, ``farms``: those of the settings. Only a farm's question can mean a
    farm's records. The choice of an option is not applied here (``clarify.chosen``).
    """
    private = query.scope.farm_id is not None
    reader = _Reader(korean, catalogue, own_farm, farms, query.asked_at.date(), private)
    own = reader.read(query.text)
    if query.previous:
        before = reader.read(query.previous)
        if _follows_on(own, before):
            return _followed(query, own, before, reader)
    return _features(own, own.slots, own.keywords, reader, ""), own.analysis


def _features(
    read: _Read, slots: tuple[Slot, ...], keywords: tuple[str, ...], reader: _Reader, standalone: str
) -> QueryFeatures:
    """Features of the whole question that ``read`` is; ``slots`` and ``keywords`` as they are shown."""
    text, analysis = read.text, read.analysis
    named = (m.name for m in analysis.mentions if m.type in _NAMED_TYPES and " " not in m.name)
    asked = _without(text, read.slots)
    words = (*(analysis.tokens if asked == text else reader.korean.tokens(asked)), *named)
    terms = tuple(dict.fromkeys(t for t in words if t not in _STOPWORDS))
    reasons: dict[str, str] = {}
    pests = types_of_pests()
    intent, reasons["intent"] = intent_of(
        text, slots, read.morphemes, reader.private, any(m.type in pests for m in analysis.mentions)
    )
    length = _length(len(terms), reasons)
    relation = _RELATION.search(text.lower())
    reasons["relation_hint"] = f"'{relation[0]}'" if relation else "관계 단서 없음"
    hints = [text[s.start : s.end] for s in read.slots if s.kind in ("value", "date")]
    reasons["entity_hint_presence"] = f"'{hints[0]}'" if hints else "수치·날짜 없음"
    entities = tuple(dict.fromkeys(m.name for m in analysis.mentions))
    sides = max(len({s.value for s in slots if s.kind == kind}) for kind in ("date", "house"))
    return QueryFeatures(
        slots=slots,
        keywords=keywords,
        removed=read.removed,
        terms=terms,
        standalone=standalone,
        entities=entities,
        intent=intent,
        query_length_bucket=length,
        entity_hint_presence=bool(hints),
        relation_hint=relation is not None,
        effort=_effort(intent, length, len(entities), sides, reasons),
        reasons=reasons,
    )


def _follows_on(own: _Read, before: _Read) -> bool:
    """Whether a question leaves out what the one before said: a cue word, nothing but slots, or a short "…은요?"."""
    if not before.slots and not before.keywords:
        return False
    kinds = {s.kind for s in own.slots}
    if _CUE.match(own.text):
        return len(own.keywords) <= 2 * _SHORT_FOLLOW_UP
    if not own.keywords:
        return len(kinds) == 1
    return len(own.keywords) <= _SHORT_FOLLOW_UP and len(kinds) <= 1 and _TOPIC.search(own.text) is not None


def _followed(query: Query, own: _Read, before: _Read, reader: _Reader) -> tuple[QueryFeatures, Analysis]:
    """A follow-up: its own slots, then those it inherits; read as one question made of both."""
    days = [s.value for s in before.slots if s.kind == "date" and s.value != INVALID]
    if days and steps_on(query.text):
        own = reader.read(query.text, base=date.fromisoformat(days[-1].split("/")[1]))
    dated = _dated(own, before, reader)
    replaced = {kind for s in dated for kind in _REPLACES.get(s.kind, {s.kind})}
    beside = _BESIDE.search(own.text) is not None and not own.keywords
    inherited = tuple(replace(s, rule=f"inherited.{s.rule}") for s in before.slots if beside or s.kind not in replaced)
    whole = _made_whole(own, before, dated, reader)
    keywords = _merged_keywords(own, before, reader)
    read = reader.read(whole)
    features = _features(read, (*dated, *inherited), keywords, reader, whole)
    return replace(features, removed=own.removed), read.analysis


def _dated(own: _Read, before: _Read, reader: _Reader) -> tuple[Slot, ...]:
    """The follow-up's slots; a month or half year without a year takes that of the question before ("하반기 것도")."""
    periods = [s.value for s in before.slots if s.kind == "date" and s.value != INVALID]
    found = [p for p in find_periods(own.text, reader.today) if not isinstance(p, BadDate) and p.rule in OPEN]
    slots = list(own.slots)
    if not periods:
        return own.slots
    year = int(periods[0][:4])
    if (shifted := _same_part(own, before)) is not None:
        return tuple(shifted if s.kind == "date" else s for s in own.slots)
    for period in found:
        there: DatePeriod = moved_or(period, year)
        if all(s.end <= there.start or there.end <= s.start or s.kind == "date" for s in slots):
            slots = [s for s in slots if s.kind != "date" or (s.start, s.end) != (there.start, there.end)]
            rule = there.rule.replace("date.", "date.year_")
            slots.append(
                Slot(kind="date", value=f"{there.first}/{there.last}", start=there.start, end=there.end, rule=rule)
            )
    return tuple(sorted(slots, key=lambda s: (s.start, s.end, s.kind)))


def _same_part(own: _Read, before: _Read) -> Slot | None:
    """ "올해는요?" behind "작년 3월 …": the same part of that year; None where either says something else."""
    new = [s for s in own.slots if s.kind == "date"]
    old = [s for s in before.slots if s.kind == "date" and s.value != INVALID]
    if len(new) != 1 or len(old) != 1 or new[0].rule not in (YEAR, NUMBERED_YEAR):
        return None
    first, last = (date.fromisoformat(part) for part in old[0].value.split("/"))
    if old[0].rule in (YEAR, NUMBERED_YEAR) or not (old[0].rule.startswith("date.year_") or old[0].rule in OPEN):
        return None
    there = moved_or(DatePeriod(first, last, new[0].start, new[0].end, ""), int(new[0].value[:4]))
    return replace(new[0], value=f"{there.first}/{there.last}", rule="date.year_of_month")


def _made_whole(own: _Read, before: _Read, slots: Sequence[Slot], reader: _Reader) -> str:
    """The question before with the new words in the place of the old ones, then what else the follow-up says."""
    text = before.text
    spans: list[tuple[int, int, str]] = []
    for kind in {s.kind for s in slots}:
        new = " ".join(
            _spoken_date(s) if s.rule in (NEXT_DAY, "date.year_of_month") else own.text[s.start : s.end]
            for s in slots
            if s.kind == kind
        )
        old = [s for s in before.slots if s.kind in _REPLACES.get(kind, {kind})]
        if old:
            spans.append((old[0].start, old[0].end, new))
            spans += [(s.start, s.end, "") for s in old[1:] if (s.start, s.end) != (old[0].start, old[0].end)]
        else:
            text = f"{text} {new}"
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    left: list[str] = []
    for word in own.keywords:  # "그럼 흰가루병은?" behind a question on 노균병 is not about both
        old_word = next((o for o in before.keywords if o in text and _family(o, reader) == _family(word, reader)), None)
        if old_word is None or _family(word, reader) is None:
            left.append(word)
        else:
            text = text.replace(old_word, word, 1)
    return " ".join((text.strip(), *left)).strip()


def _spoken_date(slot: Slot) -> str:
    first, last = (date.fromisoformat(part) for part in slot.value.split("/"))
    said = f"{first.year}년 {first.month}월"
    return f"{said} {first.day}일" if first == last else said if first.month == last.month else f"{said}~{last.month}월"


_PEST = "병해충"


def _family(word: str, reader: _Reader) -> str | None:
    """The lexicon type of a word, all diseases, pests and disorders as one; None for a word that is no term."""
    kind = reader.korean.lexicon.type_of(reader.korean.lexicon.canonical.get(word.lower(), ""))
    return _PEST if kind in types_of_pests() else kind


def _merged_keywords(own: _Read, before: _Read, reader: _Reader) -> tuple[str, ...]:
    """The follow-up's keywords; each takes the place of one of its kind (급액 → 배액), the others are kept."""
    own_words = [k for k in own.keywords if not _TIME.fullmatch(k)]
    old, replaced = list(before.keywords), False
    for word in own_words:
        peer = next(
            (o for o in old if _family(o, reader) is not None and _family(o, reader) == _family(word, reader)), None
        )
        if peer is not None:
            old[old.index(peer)] = word
            replaced = True
    if own_words and not replaced:  # something else about the same thing
        old = [o for o in old if _family(o, reader) == _PEST]
    return tuple(dict.fromkeys((*own_words, *old)))


def _without(text: str, slots: tuple[Slot, ...]) -> str:
    """The text with the spans of filter slots blanked: their words say where to look, not what for."""
    for slot in slots:
        if slot.kind in _FILTER_KINDS:
            text = text[: slot.start] + " " * (slot.end - slot.start) + text[slot.end :]
    return text


def search_words(features: QueryFeatures) -> tuple[str, ...]:
    """BM25 words of a question: its terms and what dated records call its dates, houses and authors."""
    words = [*features.terms, *features.values("house"), *(a.replace(" ", "") for a in features.values("author"))]
    for first, last in features.periods:
        words += _date_words(first, last)
    return tuple(dict.fromkeys(words))


def _date_words(first: date, last: date) -> list[str]:
    """Words that dated documents use for a period: 2025년, 3월, and the day where it is one day."""
    if first == last:
        return [f"{first.year}년", f"{first.month}월", f"{first.day}일", first.isoformat()]
    return [f"{first.year}년", f"{first.month}월"] if (first.year, first.month) == (last.year, last.month) else []


def _length(n_terms: int, reasons: dict[str, str]) -> LengthBucket:
    bucket: LengthBucket = "short" if n_terms <= 5 else "medium" if n_terms <= 10 else "long"
    reasons["query_length_bucket"] = f"찾는 말 {n_terms}개"
    return bucket


def _effort(intent: str, length: LengthBucket, n_entities: int, sides: int, reasons: dict[str, str]) -> Effort:
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


def names_another_farm(features: QueryFeatures) -> bool:
    """Whether the question names a farm other than the asker's."""
    return any(slot.kind == "farm" and slot.rule.endswith("farm.other") for slot in features.slots)
