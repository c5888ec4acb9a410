"""Choosing sentences: the best of each side and part, what a readable answer needs, then the rest by relevance.

A comparison takes the best sentence of each thing compared first (periods, houses, crops named), a question of several
parts the best of each part, a list of records the best of each day; a question about a disorder one sentence of each
asked role (cause, remedy …). Then sentences are taken greedily: one that says nothing new loses up to REDUNDANCY, by its
largest cosine with those taken. Ties: evidence order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from rag.answering.asked import CROP, PESTS, REGISTERED, Asked, asks_pesticide, kind_of, says
from rag.answering.months import value_of
from rag.answering.registrations import Wanted, expired, is_registration, registered_names
from rag.answering.roles import ACTION, headed_as, role_of, wanted_roles
from rag.answering.rows import cells_of
from rag.answering.sentences import USE, Scored, lead_of
from rag.quantities import LIST_NUMBER
from rag.schema import PUBLIC, ChunkRecord


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an answer may be: sentences, characters with all that is put before them."""

    sentences: int
    characters: int


NORMAL = Limits(6, 395)
DETAILED = Limits(14, 1400)
# All in units of relevance, log-odds: a further sentence may be this much weaker than the best one, …
GAP = 4.0
# … this much while the answer has only a few, …
FEW, FEW_GAP = 3, 5.0
# … the second of a part than the first, the best of a day than the best of all days, one of a role than the first.
PER_PART, PART_GAP = 2, 3.0
DAY_GAP = 5.0
ROLE_GAP = 4.5
# Of the highest or lowest months so many are told.
TOP = 3
# What a sentence loses that says nothing new; sentences with this cosine say nothing of each other.
REDUNDANCY, UNRELATED = 1.5, 0.80
# What a heading that names a role adds to a sentence below it; once more where it says what to do when it has happened.
HEADED = 1.0
# What a monthly table says where there was none; told after the months that had some.
NOTHING = "없음"
# Almost the same sentence in two documents.
SAME = 0.98
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_WHOLE_DAY = re.compile(
    r"(?:뭐|뭘|무얼)\s?했|(?:무슨|뭔)\s?(?:일|작업)|(?:한|일한)\s?(?:일|거|것)|작업\s?내용|하루\s?(?:일|작업)|일지\s?(?:좀\s?)?(?:보여|찾아|알려)"
)
_WHICH = re.compile(r"(?:무슨|어떤|뭔)\s?(?:병|바이러스|벌레|해충|장해)|이거\s?(?:뭐|무슨)|뭐(?:죠|예요|임|지)")
_EXPIRED = re.compile(r"만료|(?:유효\s?)?기[간한]\S?\s?(?:지난|지났|끝난|넘은)")
_LEAD_IN = re.compile(r"다음 각 호|다음 각 목|다음과 같|다음의|아래와 같|순서로")
_LEANS = re.compile(r"^(?:이|그|이런|그런|두|이때|그때|여기)(?: |에서|에는)")

Aspect = Callable[[ChunkRecord, str], bool]


def aspects_of(asked: Asked) -> list[Aspect]:
    """What a question puts side by side: its periods, houses or crops where it names two or more of a kind."""
    crops = list(dict.fromkeys((*asked.features.values("crop"), *asked.named(CROP))))
    if len(asked.periods) > 1:
        return [partial(_dated, first, last) for first, last in asked.periods]
    if len(asked.houses) > 1:
        return [partial(_names, house) for house in asked.houses]
    return [partial(_names, crop) for crop in crops] if len(crops) > 1 else []


def _dated(first: str, last: str, chunk: ChunkRecord, text: str) -> bool:
    return first <= chunk.date <= last


def _names(name: str, chunk: ChunkRecord, text: str) -> bool:
    return says(name, text) or says(name, chunk.title) or chunk.crop == name


class Choice:
    """Sentences chosen so far, within the limits as the answer will read (leads counted)."""

    def __init__(self, limits: Limits) -> None:
        self.sentences: list[Scored] = []
        self.limits = limits
        self._length = 0
        self._leads: set[str] = set()

    @property
    def full(self) -> bool:
        """Whether no sentence can be taken any more."""
        return len(self.sentences) >= self.limits.sentences

    def take(self, scored: Scored | None) -> bool:
        """Take a sentence if it is new and fits; the first one always fits."""
        if scored is None or scored in self.sentences or any(_same(scored, other) for other in self.sentences):
            return False
        lead = lead_of(scored.candidate)
        size = len(scored.text) + 1 + (len(lead) + 2 if lead not in self._leads else 0)
        if self.sentences and (self.full or self._length + size > self.limits.characters):
            return False
        self.sentences.append(scored)
        self._length += size
        self._leads.add(lead)
        return True


def _same(one: Scored, other: Scored) -> bool:
    """Whether two sentences say the same: word for word, or in near the same words about the same source."""
    if one.text == other.text and lead_of(one.candidate) == lead_of(other.candidate):
        return True
    if is_registration(one.candidate.text) or one.chunk.scope_id != PUBLIC:
        return False
    if _FIGURE.findall(one.text) != _FIGURE.findall(other.text):
        return False  # sources that differ in a figure are both told
    return float(one.candidate.vector @ other.candidate.vector) > SAME


def choose(asked: Asked, scored: Sequence[Scored], limits: Limits = NORMAL) -> list[Scored]:
    """The sentences of the answer, best first."""
    choice = Choice(limits)
    if not scored:
        return []
    if asked.registration or asked.dose:
        mine = [s for s in scored if registers(asked, s)]
        over = [s for s in mine if expired(s.candidate.text, asked.today)]
        mine = over if _EXPIRED.search(asked.text) else [s for s in mine if s not in over] or mine
        mine = _nearest(asked.wanted_use, mine)
        if mine:
            told = [s for s in scored if not is_registration(s.candidate.text)]
            _take_parts(choice, told, [n for n, part in enumerate(asked.parts) if not asks_pesticide(part.text)])
            for crop in asked.named(CROP):
                if not any(s.chunk.crop == crop for s in choice.sentences):
                    choice.take(_best([s for s in mine if s.chunk.crop == crop], choice))
            for target in asked.targets:
                if not any(kind_of(target) in s.chunk.title for s in choice.sentences):
                    choice.take(_best([s for s in mine if kind_of(target) in s.chunk.title], choice))
            for product in asked.products:
                if not any(_is_of(s, product) for s in choice.sentences):
                    choice.take(_best([s for s in mine if _is_of(s, product)], choice))
            level = max(s.relevance for s in mine)
            guides = (
                [s for s in told if s.relevance > level and _tells_use(asked, s)]
                if asked.dose and not asked.wanted_use
                else []
            )
            _take_best(choice, [*mine, *guides], GAP)
            return choice.sentences
    sides = aspects_of(asked)
    for aspect in sides:
        there = [s for s in scored if aspect(s.chunk, s.candidate.text)]
        some = [s for s in there if not (s.exact and NOTHING in s.candidate.text)]
        choice.take(_best(some or there, choice))
    months = [s for s in scored if s.month]
    if (
        months
        and max(s.relevance for s in months) >= max(s.relevance for s in scored)
        and all(any(side(s.chunk, s.candidate.text) for s in months) for side in sides)
    ):  # the record itself is there: what else that month's papers say is not asked
        _take_months(choice, asked, months)
        if asked.newest:
            since = min(s.chunk.date for s in months)
            _take_days(choice, asked, [s for s in scored if s not in months and s.chunk.date >= since])
        return choice.sentences
    _take_parts(choice, scored, range(len(asked.parts)))
    if asked.record and not choice.sentences:
        _take_days(choice, asked, scored)
    if not asked.parts and asks_name(asked):
        _take_name(choice, asked, scored)
    if asked.features.intent == "relational":
        _take_roles(choice, asked, scored)
    _take_best(choice, scored, GAP)
    return choice.sentences


def _take_months(choice: Choice, asked: Asked, months: Sequence[Scored]) -> None:
    """Rows of monthly tables: the highest or lowest where one is asked for, all in their order where a sum is, else the best,
    those without a value last.
    """
    told = [s for s in months if NOTHING not in s.candidate.text]
    values = {s.number: value for s in told if (value := value_of(s.candidate.text, asked.columns))}
    if asked.extreme and values:
        ranked = sorted(
            (s for s in told if s.number in values), key=lambda s: (-asked.extreme * values[s.number][1], s.number)
        )
        for s in ranked[:TOP]:
            choice.take(s)
        return
    if asked.summed:
        for s in sorted(told, key=lambda s: (s.chunk.date, s.number)):
            choice.take(s)
    _take_best(choice, told, math.inf)
    _take_best(choice, months, math.inf)


def registers(asked: Asked, scored: Scored) -> bool:
    """Whether a sentence is a pesticide's registration for the asked crop and pest, of the named product where one is."""
    if scored.chunk.kind != REGISTERED or not is_registration(scored.candidate.text):
        return False
    here = f"{scored.chunk.title} {scored.candidate.text}"
    crops, targets = [_on_sheets(asked, crop) for crop in asked.named(CROP)], asked.targets
    if crops and scored.chunk.crop not in crops and not any(says(name, here) for name in crops):
        return False
    pairs = _pairs(asked)
    if pairs and not any(scored.chunk.crop == crop and kind_of(pest) in here for crop, pest in pairs):
        return False
    sheet = f"{scored.chunk.title} {dict(cells_of(scored.candidate.text)).get('병해충', '')}"
    if targets and not any(kind_of(name) in sheet for name in targets):
        return False
    named = {name.lower() for name in registered_names(scored.candidate.text)}
    if not named.isdisjoint(asked.products_left_out):
        return False
    return not named.isdisjoint(asked.products) if asked.products else bool(targets)


def _nearest(wanted: Wanted, mine: Sequence[Scored]) -> list[Scored]:
    """Of each sheet the registrations that are as wanted, or else are least far from it."""
    far = {s.number: wanted.short_of(s.candidate.text) for s in mine}
    least: dict[str, float] = {}
    for s in mine:
        least[s.chunk.doc_id] = min(far[s.number], least.get(s.chunk.doc_id, math.inf))
    return [s for s in mine if far[s.number] == least[s.chunk.doc_id]]


def _tells_use(asked: Asked, scored: Scored) -> bool:
    """Whether a guide's sentence tells how a pesticide is used, the named product where one is."""
    text = scored.candidate.text.lower()
    named = not asked.products or any(product in text for product in asked.products)
    return named and USE.search(text) is not None


def _is_of(scored: Scored, product: str) -> bool:
    """Whether a sentence is the registration of a product."""
    return product in (name.lower() for name in registered_names(scored.candidate.text))


def _on_sheets(asked: Asked, crop: str) -> str:
    """The crop that sheets are on: 대추방울토마토 is registered as 방울토마토, 밭고추냉이 as 와사비."""
    known = asked.view.catalogue.crops
    if crop in known:
        return crop
    broader = sorted(asked.crops & known) if len(asked.named(CROP)) == 1 else []
    return max((c for c in known if crop.endswith(c)), key=len, default=broader[0] if len(broader) == 1 else crop)


def _pairs(asked: Asked) -> list[tuple[str, str]]:
    """Crop and pest of each, where several of both are named: "오이 흰가루병과 딸기 잿빛곰팡이병" asks for two sheets."""
    if len(asked.named(CROP)) < 2 or len(asked.named(*PESTS)) < 2:
        return []
    pairs: list[tuple[str, str]] = []
    crop = ""
    for name in asked.hard_terms:
        if asked.types.get(name) == CROP:
            crop = name
        elif crop and asked.types.get(name) in PESTS:
            pairs.append((crop, name))
    return pairs


def _best(scored: Sequence[Scored], choice: Choice) -> Scored | None:
    left = [s for s in scored if s not in choice.sentences]
    return max(left, key=lambda s: (s.relevance, -s.number), default=None)


def _take_parts(choice: Choice, scored: Sequence[Scored], parts: Sequence[int]) -> None:
    """In turns the best sentences of each of some parts, with what they lean on."""
    ranked = [sorted(scored, key=lambda s: (-s.parts[p], s.number)) for p in parts]
    for turn in range(PER_PART):
        for part, ordered in zip(parts, ranked, strict=True):
            fresh = [s for s in ordered if s not in choice.sentences]
            if fresh and (turn == 0 or fresh[0].parts[part] >= ordered[0].parts[part] - PART_GAP):
                choice.take(fresh[0])


def _take_days(choice: Choice, asked: Asked, scored: Sequence[Scored]) -> None:
    """A day's whole record where that is asked; a list of records: the best sentence of each day; where the last time is
    asked for, latest days first, and more of the last.
    """
    if (
        _WHOLE_DAY.search(asked.text)
        and asked.figure is None
        and asked.periods
        and all(first == last for first, last in asked.periods)
    ):
        there = [s for s in scored if any(first <= s.chunk.date <= last for first, last in asked.periods)]
        for s in sorted(there, key=lambda s: s.number):
            choice.take(s)
        return
    if not asked.listed and not asked.latest:
        return
    best: dict[str, Scored] = {}
    for s in scored:
        if s.chunk.date and (s.chunk.doc_id not in best or s.relevance > best[s.chunk.doc_id].relevance):
            best[s.chunk.doc_id] = s
    top = max((s.relevance for s in best.values()), default=0.0)
    days = [s for s in best.values() if s.relevance >= top - DAY_GAP]
    for s in sorted(days, key=lambda s: (s.chunk.date, -s.number), reverse=asked.latest):
        last = not choice.sentences and asked.latest and not asked.listed
        if choice.take(s) and last:
            more = [m for m in scored if m.chunk.doc_id == s.chunk.doc_id and m.relevance >= s.relevance - PART_GAP]
            for one in sorted(more, key=lambda m: (-m.relevance, m.number))[:FEW]:
                choice.take(one)


def asks_name(asked: Asked) -> bool:
    """Whether symptoms are described and the disease or pest behind them is asked for."""
    if asked.record or asked.named(*PESTS):
        return False
    return _WHICH.search(asked.text) is not None or asked.features.intent == "relational"


def _take_name(choice: Choice, asked: Asked, scored: Sequence[Scored]) -> None:
    """The best sentence, and the best of its document that names a disease or pest of the document's headings."""
    first = _best(scored, choice)
    if first is None:
        return
    names = {e for e in asked.view.entities_of(first.chunk.chunk_id) if asked.lexicon.type_of(e) in PESTS}
    headed = {name for name in names if name in first.chunk.title.replace(" ", "")}
    mine = [s for s in scored if s.chunk.doc_id == first.chunk.doc_id]
    choice.take(first)
    if not any(headed & set(s.candidate.sentence.tokens) for s in choice.sentences):
        choice.take(_best([s for s in mine if headed & set(s.candidate.sentence.tokens)], choice))


def _take_roles(choice: Choice, asked: Asked, scored: Sequence[Scored]) -> None:
    """The best sentence, then the best of its document for each role asked for, unless a better one is told."""
    first = _best(scored, choice)
    if first is None:
        return
    choice.take(first)
    mine = [s for s in scored if s.chunk.doc_id == first.chunk.doc_id]
    for role in wanted_roles(asked.text):
        told = [_for_role(s, role) for s in choice.sentences if role_of(s.candidate.text) == role]
        fitting = [(_for_role(s, role), s) for s in mine if role_of(s.candidate.text) == role]
        value, best = max(fitting, key=lambda pair: (pair[0], -pair[1].number), default=(0.0, first))
        if value >= max([first.relevance - ROLE_GAP, *told]) and choice.take(best):
            choice.take(_needed(best, scored))


def _for_role(scored: Scored, role: str) -> float:
    """Relevance of a sentence to a role: below "발생했을 때의 조치" the disorder need not be named again."""
    section = scored.chunk.section
    return scored.relevance + HEADED * headed_as(role, section) + HEADED * (role == ACTION and "조치" in section)


def _take_best(choice: Choice, scored: Sequence[Scored], gap: float) -> None:
    """Greedily by relevance less redundancy; each with the sentence that it leans on or that governs it."""
    left = [s for s in scored if s not in choice.sentences]
    best = max((s.relevance for s in scored), default=0.0)
    while left and not choice.full:
        values = [s.relevance - REDUNDANCY * _overlap(s, choice.sentences) for s in left]
        index = max(range(len(left)), key=lambda i: (values[i], -left[i].number))
        widest = max(gap, FEW_GAP) if len(choice.sentences) < FEW else gap
        if choice.sentences and values[index] < best - widest:
            break
        one = left.pop(index)
        if choice.take(one):
            choice.take(_needed(one, scored))
            for item in _items(one, scored):
                choice.take(item)


def _items(one: Scored, scored: Sequence[Scored]) -> list[Scored]:
    """The items of the list that a sentence leads in to ("다음 각 호의 보험에 가입하여야 한다.")."""
    if not _LEAD_IN.search(one.candidate.text):
        return []
    after = [s for s in scored if s.chunk.doc_id == one.chunk.doc_id and s.number > one.number]
    return list(takewhile(lambda s: LIST_NUMBER.match(s.candidate.text) is not None, after))


def _needed(one: Scored, scored: Sequence[Scored]) -> Scored | None:
    """The sentence without which one is not understood: the lead-in of a list item, what "이 …" points back to."""
    before = [s for s in scored if s.chunk.doc_id == one.chunk.doc_id and s.number < one.number]
    if LIST_NUMBER.match(one.candidate.text) or not re.search(r"[다요음함]\.?(?:\s?<[^>]*>)?$", one.candidate.text):
        return next((s for s in reversed(before) if _LEAD_IN.search(s.candidate.text)), None)
    if _LEANS.match(one.candidate.text) and before and before[-1].number == one.number - 1:
        return before[-1]
    return None


def _overlap(scored: Scored, chosen: Sequence[Scored]) -> float:
    if not chosen:
        return 0.0
    nearest = max(float(scored.candidate.vector @ other.candidate.vector) for other in chosen)
    return max(0.0, (nearest - UNRELATED) / (1 - UNRELATED))
