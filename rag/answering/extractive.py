"""The extractive answerer: picks and orders evidence sentences. No model; every sentence is cited by construction.

Relevance of sentence s in passage c for question q::

    rel = COS·(cos(q, s) − cos₀)/SCALE + LEX·lex(q, s) + CTX·lex(q, c) + PLACE/(1 + place of c) − MISS·missing(q, c)
          − HOUSE·[s names none of the houses of q] + MONTH·[a whole month is asked and s is the month's row with an asked column]
          + FIGURE·[a quantity is asked and s has a figure in its unit]

lex is the idf-weighted share of the question's words found in the sentence (or in the passage with its headings);
missing is the share of the question's named terms that the passage does not name. A comparison takes the best sentence
of each thing compared first (periods, houses, crops named), a question of several parts the best of each part; then sentences are taken greedily; one that says nothing
new loses REDUNDANCY × its largest cosine above cos₀ with those taken. Ties: evidence order. The constants were chosen
on the tune part of the farm set (``python -m eval farm --split tune``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
import numpy.typing as npt

from rag.answering.calibration import Calibration, Support
from rag.citations import LIST_NUMBER, Candidate, citation_of
from rag.query.expand import record_words
from rag.schema import (
    BM25,
    GRAPH,
    PUBLIC,
    VECTOR,
    Answer,
    ChannelResult,
    ChunkRecord,
    CitedSentence,
    Evidence,
    FloatVector,
    FusedEvidence,
    Hit,
    PlannedQuery,
    QueryFeatures,
)
from rag.stores.view import View

MAX_SENTENCES = 6
MAX_CHARACTERS = 395
NOT_FOUND = "문서에서 찾지 못했습니다."
# E5 cosines of unrelated pairs lie near 0.78, of relevant ones up to 0.92.
COSINE_ZERO, COSINE_SCALE = 0.80, 0.10
COS, LEX, CTX, PLACE, MISS, HOUSE, MONTH, FIGURE, REDUNDANCY = 0.5, 1.0, 0.3, 0.6, 0.2, 0.8, 0.4, 0.4, 0.3
_CELL_BREAK = re.compile(r", (?=[^,:]{1,20}: )")
_UNIT_OF = re.compile(r"\(([^()]{1,6})\)$")
_ROW_CELLS = 3
_ROW_NAMES = frozenset(
    {"동", "작목", "연월", "기간", "주차", "구분", "품종", "생육단계", "품목", "상표", "병해충", "항목"}
)
# What is asked for → what the answering figure looks like. The first cue that fits counts.
_FIGURES: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(cue), re.compile(figure))
    for cue, figure in (
        (r"며칠|몇\s?일", r"\d\s*일|하루|이틀|사흘"),
        (r"몇\s?(?:도|℃)", r"\d\s*(?:℃|도)"),
        (r"몇\s?(?:프로|퍼센트|퍼|%)|배액률|비율", r"\d\s*(?:%|퍼센트)|분의|배액률"),
        (r"몇\s?(?:키로|kg|킬로)", r"\d\s*(?:kg|톤|t)|kg"),
        (r"몇\s?(마리|시간|분|대|장|개|주|년|개월|배|평|그루|포기)", ""),
        (
            r"(?:비용|가격|값|시급|임금|보험료|수리비|단가|요금|금액|과태료|벌금)\S*\s.*얼마|얼마.*(?:들|주고|내야)",
            r"\d\s*[만천억]?\s*원|만원",
        ),
        (r"얼마|몇", r"\d"),
    )
)
_FIELD = re.compile(r"[가-힣A-Za-z() ]{1,14}: ?\S")
_LABEL = re.compile(
    r"합성 자료\(|자료 기준일:|작성일:|(?:작성자|기록자|보고자): ?\S{1,10}$|등록은 바뀔 수 있으므로|이 문서는 기준일의"
)
# ``terms`` of a question that names none: between the medians of answerable and unanswerable questions.
NO_TERMS = 0.7
PART_COS, PER_PART = 1.0, 2
# A further sentence must come this close to the best one.
RELATIVE = 0.3
# Lexicon types whose absence from a passage makes it the wrong passage.
MONTHLY_KINDS = frozenset({"수확기록", "급액배액요약", "센서요약"})
CROP = "작물"
HARD_TYPES = frozenset({CROP, "품종", "병", "바이러스", "해충", "생리장해"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as the answerers see it: text, features, unit vector (None: no encoder), types of its entities.

    ``encode`` turns passages into unit vectors; ``parts`` are the things asked when they are several.
    """

    text: str
    features: QueryFeatures
    vector: FloatVector | None
    types: Mapping[str, str]
    view: View
    encode: Callable[[Sequence[str]], npt.NDArray[np.float32]]
    parts: tuple[PlannedQuery, ...] = ()

    @property
    def record(self) -> bool:
        """Whether the question is about a farm's records."""
        return self.features.intent == "log_lookup"


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    candidate: Candidate
    place: int
    cosine: float
    relevance: float
    text: str


class ExtractiveAnswerer:
    """Answers from evidence sentences, or refuses."""

    name = "extractive"

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration

    def answer(
        self, asked: Asked, evidence: FusedEvidence, results: Sequence[ChannelResult], top_k: int
    ) -> tuple[Answer, Support]:
        """The answer from the ``top_k`` best passages, and how well they and the channels' best scores carry it."""
        items = evidence.items[:top_k]
        scored = rank_sentences(asked, items)
        chosen = choose(
            scored,
            aspects_of(asked),
            part_scores(asked, scored),
        )
        support = support_of(asked, chosen, items, results)
        if not chosen or self._calibration.refusal.probability(support) < self._calibration.refusal.threshold:
            return refusal(items, self.name), support
        ordered = sorted(chosen, key=lambda s: (_day(s), s.place, s.candidate.sentence.start))
        return Answer(sentences=tuple(_cited(ordered)), refused=False, answerer=self.name), support


def refusal(items: Sequence[Evidence], answerer: str, *, note: str | None = None) -> Answer:
    """A refusal that names what was near (document titles, best first)."""
    nearby = tuple(dict.fromkeys(item.chunk.title for item in items))[:3]
    sentence = CitedSentence(text=NOT_FOUND)
    return Answer(sentences=(sentence,), refused=True, answerer=answerer, nearby=nearby, notes=(note,) if note else ())


def _cited(ordered: Sequence[_Scored]) -> Iterator[CitedSentence]:
    """Answer sentences; a farm record's sentence opens with its day or title where that changes."""
    said = ""
    for scored in ordered:
        citation = citation_of(scored.candidate, scored.cosine, ("원문 그대로",))
        lead = lead_of(scored.candidate.chunk)
        text = f"{lead}: {scored.text}" if lead and lead != said else scored.text
        yield CitedSentence(text=text, citations=(citation,))
        said = lead


def lead_of(chunk: ChunkRecord) -> str:
    """How a farm record is named before its sentence: "2026-11-24 김주임", a monthly table by its title."""
    if chunk.scope_id == PUBLIC:
        return ""
    return chunk.title if chunk.kind in MONTHLY_KINDS or not chunk.date else f"{chunk.date} {chunk.author}".strip()


def _day(scored: _Scored) -> str:
    """Farm records read by date, public documents by rank."""
    chunk = scored.candidate.chunk
    return "" if chunk.scope_id == PUBLIC else chunk.date


def candidates_of(view: View, items: Sequence[Evidence]) -> list[tuple[int, Candidate]]:
    """(place of the passage, sentence) of all evidence sentences."""
    found: list[tuple[int, Candidate]] = []
    for place, item in enumerate(items):
        records, vectors = view.sentences(item.chunk.chunk_id)
        found += [(place, Candidate(item.chunk, r, v)) for r, v in zip(records, vectors, strict=True)]
    return [(place, candidate) for place, candidate in found if not is_label(candidate.text, candidate.chunk.title)]


def spoken_row(sentence: str, keywords: Sequence[str]) -> str:
    """A table row as an answer says it: the cells that name the row and those the question asks for, units at values.

    "동: 3동, 작목: 딸기, 주간 평균온도(℃): 21.8, 야간 평균온도(℃): 7.0" asked for 야간 → "동: 3동, 작목: 딸기, 야간
    평균온도: 7.0℃". Anything that is no row, or of which no cell is asked for, stays as it is.
    """
    cells = [cell.partition(": ") for cell in _CELL_BREAK.split(sentence)]
    if len(cells) < _ROW_CELLS or not all(colon for _, colon, _ in cells):
        return sentence
    names = [i == 0 or name in _ROW_NAMES for i, (name, _, _) in enumerate(cells)]
    asked = [0 if naming else _asked_for(name, keywords) for naming, (name, _, _) in zip(names, cells, strict=True)]
    best = max(asked)
    if not best:
        return sentence
    return ", ".join(
        _with_unit(name, value)
        for naming, score, (name, _, value) in zip(names, asked, cells, strict=True)
        if naming or score == best
    )


def _asked_for(name: str, keywords: Sequence[str]) -> int:
    """How many question words a column name holds; a one-letter word must be the whole name (특, 상)."""
    bare = _UNIT_OF.sub("", name).strip().lower()
    return sum(word == bare or (len(word) > 1 and word in bare) for word in keywords)


def _with_unit(name: str, value: str) -> str:
    unit = _UNIT_OF.search(name)
    if unit and value and value[-1].isdigit():
        return f"{_UNIT_OF.sub('', name).strip()}: {value}{unit[1]}"
    return f"{name}: {value}"


def is_label(sentence: str, title: str) -> bool:
    """Whether a line only describes its document (title, date, author, kind, origin) and so answers nothing."""
    if sentence == title:
        return True
    parts = sentence.split(" · ")
    return bool(_LABEL.match(sentence)) or (len(parts) > 1 and all(_FIELD.match(part) for part in parts))


def rank_sentences(asked: Asked, items: Sequence[Evidence]) -> list[_Scored]:
    """All evidence sentences with their relevance, in evidence order."""
    pairs = candidates_of(asked.view, items)
    if not pairs:
        return []
    cosines = _cosines(asked, [candidate for _, candidate in pairs])
    weights = word_weights(asked)
    contexts = [_share(weights, asked.view.chunk_tokens(item.chunk.chunk_id)) for item in items]
    n_terms = max(1, len(hard_terms(asked)))
    missing = [len(missing_terms(asked, item.chunk)) / n_terms for item in items]
    figure = figure_asked(asked.text)
    monthly = any(first != last for first, last in _periods(asked))
    return [
        _Scored(
            candidate,
            place,
            float(cosine),
            COS * (float(cosine) - COSINE_ZERO) / COSINE_SCALE
            + LEX * _share(weights, candidate.sentence.tokens)
            + CTX * contexts[place]
            + PLACE / (1 + place)
            - MISS * missing[place]
            - HOUSE * _other_house(asked, candidate)
            + MONTH * (monthly and _month_row(asked, candidate))
            + FIGURE * (figure is not None and bool(figure.search(candidate.text))),
            spoken_row(LIST_NUMBER.sub("", candidate.text), asked.features.terms),
        )
        for (place, candidate), cosine in zip(pairs, cosines, strict=True)
    ]


def _month_row(asked: Asked, candidate: Candidate) -> bool:
    """Whether a sentence is the row of a whole month that has a column the question asks for."""
    whole = candidate.chunk.kind in MONTHLY_KINDS and "주차: " not in candidate.text
    return whole and any(
        _asked_for(cell.partition(": ")[0], asked.features.terms) for cell in _CELL_BREAK.split(candidate.text)
    )


def _other_house(asked: Asked, candidate: Candidate) -> bool:
    """Whether the question names houses and the sentence none of them."""
    houses = asked.features.values("house")
    return bool(houses) and not any(_says(house, candidate.text) for house in houses)


def _cosines(asked: Asked, candidates: Sequence[Candidate]) -> npt.NDArray[np.float32]:
    if asked.vector is None:
        return np.full(len(candidates), COSINE_ZERO, np.float32)
    cosines: npt.NDArray[np.float32] = np.stack([candidate.vector for candidate in candidates]) @ asked.vector
    return cosines


def word_weights(asked: Asked) -> dict[str, float]:
    """Question word → idf; a word that no document holds weighs most."""
    unseen = math.log(1 + (len(asked.view.levels["G2"].chunk_ids) + 0.5) / 0.5)
    words = (*asked.features.terms, *(record_words(asked.features.terms) if asked.record else ()))
    return {token: asked.view.idf.get(token, unseen) for token in words}


def _share(weights: dict[str, float], tokens: Sequence[str]) -> float:
    total = math.fsum(weights.values())
    if total == 0:
        return 0.0
    present = set(tokens)
    return math.fsum(weight for token, weight in weights.items() if token in present) / total


def missing_terms(asked: Asked, chunk: ChunkRecord) -> list[str]:
    """The question's named terms that a passage is not about.

    A passage on no particular crop serves every crop that is on file. "가루이류" is named by any 가루이.
    """
    here = asked.view.entities_of(chunk.chunk_id)
    general = not chunk.crop
    return [
        term
        for term in hard_terms(asked)
        if term not in here
        and not (general and asked.types[term] == CROP and term in asked.view.catalogue.crops)
        and not (term.endswith("류") and any(term[:-1] in entity for entity in here))
    ]


def hard_terms(asked: Asked) -> list[str]:
    """Named terms of the question that a passage must be about."""
    return [entity for entity in asked.features.entities if asked.types.get(entity) in HARD_TYPES]


Aspect = Callable[[ChunkRecord, str], bool]


def _periods(asked: Asked) -> list[tuple[str, str]]:
    """First and last day (ISO) of the periods a question names."""
    return [(first.isoformat(), last.isoformat()) for first, last in dict.fromkeys(asked.features.periods)]


def aspects_of(asked: Asked) -> list[Aspect]:
    """What a question puts side by side: its periods, houses or crops where it names two or more of a kind."""
    periods = _periods(asked)
    houses = list(dict.fromkeys(asked.features.values("house")))
    crops = list(dict.fromkeys(asked.features.values("crop")))
    if len(periods) > 1:
        return [partial(_dated, first, last) for first, last in periods]
    if len(houses) > 1:
        return [partial(_names, house) for house in houses]
    return [partial(_names, crop) for crop in crops] if len(crops) > 1 else []


def _dated(first: str, last: str, chunk: ChunkRecord, text: str) -> bool:
    return first <= chunk.date <= last


def _names(name: str, chunk: ChunkRecord, text: str) -> bool:
    return _says(name, text) or _says(name, chunk.title)


def _says(name: str, text: str) -> bool:
    """Whether a text holds a name; 2동 is not in 12동."""
    return re.search(rf"(?<!\d){re.escape(name)}", text) is not None


def part_scores(asked: Asked, scored: Sequence[_Scored]) -> list[list[float]]:
    """For each part of the question, how well each sentence answers it."""
    weights = word_weights(asked)
    return [
        [
            PART_COS * (_part_cosine(part, s) - COSINE_ZERO) / COSINE_SCALE
            + LEX * _share({t: weights.get(t, 1.0) for t in part.tokens}, s.candidate.sentence.tokens)
            + PLACE / (1 + s.place)
            for s in scored
        ]
        for part in asked.parts
    ]


def _part_cosine(part: PlannedQuery, scored: _Scored) -> float:
    return COSINE_ZERO if part.vector is None else float(part.vector @ scored.candidate.vector)


class _Choice:
    """Sentences chosen so far, within ``MAX_SENTENCES`` and ``MAX_CHARACTERS`` as the answer will read (leads counted)."""

    def __init__(self) -> None:
        self.sentences: list[_Scored] = []
        self._length = 0
        self._leads: set[str] = set()

    def take(self, scored: _Scored) -> bool:
        """Take a sentence if it is new and fits; the first one always fits."""
        lead = lead_of(scored.candidate.chunk)
        size = len(scored.text) + 1 + (len(lead) + 2 if lead not in self._leads else 0)
        full = len(self.sentences) == MAX_SENTENCES or self._length + size > MAX_CHARACTERS
        if scored in self.sentences or (full and self.sentences):
            return False
        self.sentences.append(scored)
        self._length += size
        self._leads.add(lead)
        return True


def choose(
    scored: Sequence[_Scored], aspects: Sequence[Aspect], parts: Sequence[Sequence[float]] = ()
) -> list[_Scored]:
    """At most ``MAX_SENTENCES`` sentences and ``MAX_CHARACTERS`` characters: per aspect and part, then greedily."""
    choice = _Choice()
    for aspect in aspects:
        fitting = [s for s in scored if s not in choice.sentences and aspect(s.candidate.chunk, s.candidate.text)]
        if fitting:
            choice.take(max(fitting, key=lambda s: s.relevance))
    for values in parts:
        for index in sorted(range(len(scored)), key=lambda i: (-values[i], i))[:PER_PART]:
            choice.take(scored[index])
    left = [s for s in scored if s not in choice.sentences]
    best: float | None = None
    while left and len(choice.sentences) < MAX_SENTENCES:
        values = [s.relevance - REDUNDANCY * _overlap(s, choice.sentences) for s in left]
        index = max(range(len(left)), key=lambda i: (values[i], -i))
        if best is None:
            best = values[index]
        elif values[index] < RELATIVE * best:
            break
        choice.take(left.pop(index))
    return choice.sentences


def _overlap(scored: _Scored, chosen: Sequence[_Scored]) -> float:
    if not chosen:
        return 0.0
    nearest = max(float(scored.candidate.vector @ other.candidate.vector) for other in chosen)
    return max(0.0, (nearest - COSINE_ZERO) / (1 - COSINE_ZERO))


def support_of(
    asked: Asked, chosen: Sequence[_Scored], items: Sequence[Evidence], results: Sequence[ChannelResult]
) -> Support:
    """What the refusal model reads off the channels, the passages and the chosen sentences."""
    vector, keyword, graph = (_first_hits(results, channel) for channel in (VECTOR, BM25, GRAPH))
    documents = [[asked.view.document_of(hit.chunk_id).doc_id for hit in hits] for hits in (vector, keyword, graph)]
    sources = Counter(item.chunk.doc_id for item in items[:5])
    figure = figure_asked(asked.text)
    bearing = [s for s in chosen if figure is None or figure.search(s.text)]
    named = set(hard_terms(asked))
    nowhere = named.intersection(*(missing_terms(asked, s.candidate.chunk) for s in chosen))
    weights = word_weights(asked)
    first = [asked.view.chunk_tokens(i.chunk.chunk_id) for i in items if i.chunk.doc_id == items[0].chunk.doc_id]
    early = {token for i in items[:3] for token in asked.view.chunk_tokens(i.chunk.chunk_id)}
    cosine = _context_cosine(asked, bearing)
    return Support(
        vector_gap=vector[0].score - fmean(hit.score for hit in vector) if vector else 0.0,
        agreement=_agreement(*documents),
        concentration=max(sources.values(), default=0) / 5,
        terms=max((_share_named(asked, asked.view.entities_of(i.chunk.chunk_id)) for i in items), default=0.0),
        rarest=max((weight for word, weight in weights.items() if word in early), default=0.0) / 8,
        coverage=_share(weights, [token for tokens in first for token in tokens]),
        cosine=cosine,
        focus=max((_named(asked, s) for s in bearing), default=0.0),
        missing=len(nowhere) / len(named) if named else 0.0,
        quantity=float(figure is not None),
        record=float(asked.record),
        record_said=max((_share(weights, _words(asked, s)) for s in bearing), default=0.0) if asked.record else 0.0,
        record_cosine=cosine if asked.record else 0.0,
    )


def _context_cosine(asked: Asked, bearing: Sequence[_Scored]) -> float:
    """Cosine of the question with the most relevant sentence, read with its document's title and headings."""
    if not bearing or asked.vector is None:
        return COSINE_ZERO
    best = max(bearing, key=lambda s: s.relevance)
    chunk = best.candidate.chunk
    text = "\n".join(part for part in (chunk.title, chunk.section, best.candidate.text) if part)
    try:
        return float(asked.encode([text])[0] @ asked.vector)
    except Exception:  # an encoder that is down takes no answer down: the sentence without its headings, then
        return best.cosine


def _words(asked: Asked, scored: _Scored) -> tuple[str, ...]:
    """BM25 tokens of a sentence with its document's title and headings."""
    chunk_id = scored.candidate.chunk.chunk_id
    tokens = asked.view.chunk_tokens(chunk_id)
    n_body = sum(len(sentence.tokens) for sentence in asked.view.sentences(chunk_id)[0])
    return (*tokens[: len(tokens) - n_body], *scored.candidate.sentence.tokens)


def _first_hits(results: Sequence[ChannelResult], channel: str) -> tuple[Hit, ...]:
    return next((r.hits[:20] for r in results if r.channel == channel), ())


def _agreement(vector: Sequence[str], keyword: Sequence[str], graph: Sequence[str]) -> float:
    common = len(set(vector[:5]) & set(keyword[:5])) / 5
    return (float(vector[:1] == keyword[:1] != []) + float(vector[:1] == graph[:1] != []) + common) / 3


def _share_named(asked: Asked, entities: Collection[str]) -> float:
    terms = asked.features.entities
    return sum(term in entities for term in terms) / len(terms) if terms else NO_TERMS


def _named(asked: Asked, scored: _Scored) -> float:
    """Share of the question's lexicon terms that a sentence with its title and headings names; 1 without terms."""
    chunk = scored.candidate.chunk
    text = "".join((chunk.title, chunk.section, scored.candidate.text)).replace(" ", "").lower()
    words = {token.lower() for token in scored.candidate.sentence.tokens}
    terms = asked.features.entities
    present = sum(t.lower() in words or t.replace(" ", "").lower() in text for t in terms)
    return present / len(terms) if terms else 1.0


def figure_asked(question: str) -> re.Pattern[str] | None:
    """What a figure must look like to answer: "며칠" → a number of days; None when no quantity is asked for."""
    for cue, figure in _FIGURES:
        match = cue.search(question)
        if match:
            return figure if figure.pattern else re.compile(rf"\d\s*{match[1]}|[한두세네]\s?{match[1]}")
    return None
