"""Evidence sentences with their relevance to a question.

Relevance of sentence s in passage c for question (or part of a question) q::

    rel = SIMILARITY·cos(q, s) + PASSAGE·cos(q, c) + WORDS·lex(q, s with its headings) + CONTEXT·lex(q, c)
          + FIGURE·[a quantity is asked and s has a figure in its unit] + NO_FIGURE·[a quantity is asked and s has no figure]
          + ROLE·[s tells what a question on a disorder wants told] + NAMES·(share of q's terms that s with its headings names)
          + RECORD·[s is the very record that q's slots name] + MISSING·(share of q's named terms that c is not about)
          + HOUSE·[q names houses and neither s nor its document one of them] + CROSS·cross(q, s)

cross is the cross-encoder's log-odds that s answers q (``rag.reranker``), for the RERANKED sentences that are best
without it; the others share the lowest of these; 0 for all where there is no cross-encoder.
lex is the idf-weighted share of the question's words. The weights belong to an encoder and are fitted (``python -m eval
ranking``; ``calibration.SentenceWeights``): of two sentences of a question that differ by rel = 1, the better one is e times
as likely to answer it. Left out altogether: sentences on another crop, cultivar or house than asked, and lines that only
describe their document.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rag.answering.asked import (
    CROP,
    CULTIVAR,
    PESTS,
    REGISTERED,
    Asked,
    figure_asked,
    kind_of,
    missing_terms,
    says,
    share,
)
from rag.answering.calibration import SentenceWeights
from rag.answering.months import MONTHLY_KINDS, month_row
from rag.answering.registrations import expired, is_registration, pest_of, spoken_registration
from rag.answering.roles import role_of, wanted_roles
from rag.answering.rows import day_of, is_header, lacks_value, spoken_row
from rag.citations import Candidate
from rag.quantities import LIST_NUMBER
from rag.query.slots import farm_elsewhere
from rag.reranker import Reranker
from rag.schema import PUBLIC, ChunkRecord, Evidence, FloatVector, PlannedQuery
from rag.stores.view import View

VARYING = ("similarity", "passage", "words", "context", "figure", "no_figure")
FIXED = ("role", "names", "record", "missing", "house")
CROSS = "cross"
FEATURES = (*VARYING, *FIXED, CROSS)
assert tuple(field.name for field in fields(SentenceWeights)) == FEATURES
# Sentences that the cross-encoder reads for a question, and for each of its parts.
RERANKED, RERANKED_PART = 16, 8
# Of the last sprayings so many are looked up, in so many of the latest records at a time.
SPRAYINGS, LAST = 6, 40
# Share of a question's terms that is taken to be named where it has none.
NO_TERMS = 0.7
_DIGIT = re.compile(r"\d")
_FIELD = re.compile(r"[가-힣A-Za-z() ]{1,14}: ?\S")
_LABEL = re.compile(
    r"합성 자료\(|자료 기준일:|작성일:|(?:작성자|기록자|보고자): ?\S{1,10}$|등록은 바뀔 수 있으므로|이 문서는 기준일의|원문: ?http|"
    r"등록 행은 모두|여기 적은 등록|적용 전에 현행|수록 기준:|비고: 합성 자료"
)
# A sentence about the document itself: its subject is the document, its predicate what documents do.
_ABOUT_ITSELF = re.compile(
    r"^(?:이|본)\s?(?:자료|글|문서)[은는].*"
    r"|^(?:이|본|아래|다음|위)\s?(?:자료|글|문서|표|그림|내용)[은는이가].*(?:다룬다|설명한다|소개한다|정리한다|정리한 것이다|담았다|보여\s?준다|이다)\.?$"
    r"|기준을 싣는다\.?$"
    r"|^자료에 따라 (?:서로 )?다르다\.?$|^(?:다음|아래)과? 같다\.?$|다음 일을 마친다\.?$|다음과 같(?:다|이 (?:맞춘다|한다))\.?$"
)
_HOUSE = re.compile(r"(?<!\d)\d{1,2}동(?![가-힣]*(?:안|기))")
_HOUSE_HEADING = re.compile(r"\d{1,2}동(?: \S{1,8}){0,2}$")
_PESTICIDE_ASKED = re.compile(r"약|방제|살포|뿌[려리릴]")
# What a monthly table does not tell: a change, its reason, its day, who did it, a repair, what was agreed.
_EVENT = re.compile(
    r"바[꾸꿨꾼뀐]|올[렸린려]|낮[췄춘추]|이유|왜|누[구가]|언제(?!가)|(?<!추운 )(?<!더운 )날(?:짜|이)?(?![가-힣])|고[친쳤]|수리|고장|처음|첫|며칠|회의|계약|납품|예산|단가|하기로"
)
# How a pesticide is used.
USE = re.compile(r"\d\s*배|희석|\d일\s?간격|수확\s?\d+\s?일\s?전|\d회\s?이내|제[가를는은]\s?(?:등록|쓸\s?수)")
_THIS_PRODUCT = re.compile(r"(?:이|그|같은)\s?(?:약제|약|제품|농약)(?=[은는이가을를의도]|\s)")
_SPRAYED = re.compile(r"살포(?!\s?(?:뒤|후|전|하기|할))|관주|훈증|훈연|연무|희석|\d배액|뿌렸")


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """An evidence sentence with its relevance to the question and to each of its parts.

    ``features`` are what the relevance to the question is made of (``FEATURES``); ``text`` is how the answer says it;
    ``number`` its place among all evidence sentences in reading order.
    """

    candidate: Candidate
    relevance: float
    text: str
    features: tuple[float, ...]
    number: int = 0
    parts: tuple[float, ...] = ()

    def feature(self, name: str) -> float:
        """One of ``FEATURES``."""
        return self.features[FEATURES.index(name)]

    @property
    def cosine(self) -> float:
        """Cosine with the question."""
        return self.feature("similarity")

    @property
    def exact(self) -> bool:
        """Whether it is the record that the question's slots name: the month's row with the asked column, a spraying of the
        period.
        """
        return bool(self.feature("record"))

    @property
    def month(self) -> bool:
        """Whether it is a month's row with what is asked for."""
        return self.exact and self.chunk.kind in MONTHLY_KINDS

    @property
    def chunk(self) -> ChunkRecord:
        """The passage."""
        return self.candidate.chunk


def passages_of(asked: Asked, items: Sequence[Evidence]) -> list[ChunkRecord]:
    """The passages handed over, the others of the first document and of monthly tables among them, and for a pesticide
    question the registration sheets of the asked crop and pest; by document, the best placed first.
    """
    found = {item.chunk.chunk_id: (place, item.chunk) for place, item in enumerate(items)}
    whole: dict[str, int] = {}
    for place, item in enumerate(items):
        if place == 0 or item.chunk.kind in MONTHLY_KINDS:
            whole.setdefault(item.chunk.doc_id, place)
    further = (*_sheets(asked), *asked.month_tables, *_sprayings(asked))
    whole |= {doc_id: 0 for doc_id in further if items and doc_id not in whole}
    if whole:
        for chunk in asked.view.chunks_of(whole, items[0].chunk.level):
            found.setdefault(chunk.chunk_id, (whole[chunk.doc_id] + 1, chunk))
    first: dict[str, int] = {}
    for place, chunk in found.values():
        first[chunk.doc_id] = min(place, first.get(chunk.doc_id, place))
    chunks = [chunk for _, chunk in found.values()]
    return sorted(chunks, key=lambda chunk: (first[chunk.doc_id], chunk.doc_id, chunk.ordinal))


def _sheets(asked: Asked) -> Iterator[str]:
    """Registration sheets of an asked crop whose titles name what the pesticide is asked for; where a question tells only
    the product, those that register it.
    """
    if not asked.registration:
        return
    targets = [kind_of(target) for target in asked.targets]
    for document in asked.view.documents:
        if document.kind != REGISTERED or document.crop not in asked.crops:
            continue
        if any(name in document.title for name in targets) if targets else document.doc_id in asked.product_sheets:
            yield document.doc_id


def _sprayings(asked: Asked) -> list[str]:
    """Records that tell of a spraying, of the asked house, pest and product: the latest where the last one is asked for, all
    of the asked time where all are, or a product's.
    """
    if not asked.sprayed or not (asked.latest or asked.products or (asked.listed and asked.periods)):
        return []
    records = [
        (document.days[1], document.doc_id)
        for document in asked.view.documents
        if document.scope_id != PUBLIC and document.days is not None and document.kind not in MONTHLY_KINDS
    ]
    latest = [
        doc_id
        for day, doc_id in sorted(records, reverse=True)
        if (not asked.today or day <= asked.today)
        and (not asked.periods or any(first <= day.isoformat() <= last for first, last in asked.periods))
    ]
    names = [name.lower() for name in (*asked.houses, *map(kind_of, asked.named(*PESTS)), *asked.products)]
    found: list[str] = []
    for start in range(0, len(latest), LAST):
        some = latest[start : start + LAST]
        told: defaultdict[str, str] = defaultdict(str)
        for chunk in asked.view.chunks_of(set(some), "G2"):
            told[chunk.doc_id] += chunk.text.lower()
        found += [d for d in some if _SPRAYED.search(told[d]) and all(says(name, told[d]) for name in names)]
        if asked.latest and len(found) >= SPRAYINGS:
            return found[:SPRAYINGS]
    return found


def candidates_of(view: View, chunks: Sequence[ChunkRecord]) -> list[Candidate]:
    """All sentences of passages that say more than what their document is."""
    found: list[Candidate] = []
    for chunk in chunks:
        records, vectors = view.sentences(chunk.chunk_id)
        found += [Candidate(chunk, r, v) for r, v in zip(records, vectors, strict=True)]
    return [candidate for candidate in found if not is_label(candidate.text, candidate.chunk.title)]


def is_label(sentence: str, title: str) -> bool:
    """Whether a line only describes its document (title, date, author, kind, origin) and so answers nothing."""
    if sentence == title or is_header(sentence):
        return True
    parts = sentence.split(" · ")
    fields = len(parts) > 1 and all(_FIELD.match(part) for part in parts)
    return fields or bool(_LABEL.match(sentence) or _ABOUT_ITSELF.search(sentence))


class Ranker:
    """Scores the evidence sentences of one question."""

    def __init__(
        self, asked: Asked, items: Sequence[Evidence], weights: SentenceWeights, reranker: Reranker | None = None
    ) -> None:
        self.asked = asked
        self._weights = np.array(astuple(weights))
        self._reranker = reranker
        found = candidates_of(asked.view, passages_of(asked, items))
        # A month's or week's sum does not answer for a day of it.
        periods = asked.features.periods
        self._one_day = asked.record and bool(periods) and all(first == last for first, last in periods)
        self._pesticide = asked.registration or asked.dose or _PESTICIDE_ASKED.search(asked.text) is not None
        self._elsewhere = farm_elsewhere(asked.text)
        self.candidates = tuple(self._fitting(found))

    @cached_property
    def _chunks(self) -> dict[str, ChunkRecord]:
        return {one.chunk.chunk_id: one.chunk for one in self.candidates}

    @cached_property
    def _passages(self) -> dict[str, tuple[str, ...]]:
        """BM25 words of the passages with their headings; of a farm record those of all its passages at hand."""
        words = {chunk_id: self.asked.view.chunk_tokens(chunk_id) for chunk_id in self._chunks}
        if not self.asked.record:
            return words
        whole: dict[str, tuple[str, ...]] = {}
        for chunk_id, chunk in self._chunks.items():
            whole[chunk.doc_id] = (*whole.get(chunk.doc_id, ()), *words[chunk_id])
        return {chunk_id: whole[chunk.doc_id] for chunk_id, chunk in self._chunks.items()}

    @cached_property
    def _headed_words(self) -> list[tuple[str, ...]]:
        """BM25 words of each sentence with its document's title and headings."""
        view = self.asked.view
        return [view.cited_tokens(one.chunk.chunk_id, one.sentence.start, one.sentence.end) for one in self.candidates]

    @cached_property
    def _fixed(self) -> npt.NDArray[np.float64]:
        """The features that are the same for the question and its parts, in the order of ``FIXED``."""
        asked = self.asked
        roles = wanted_roles(asked.text) if asked.features.intent == "relational" else ()
        n_terms = max(1, len(asked.hard_terms))
        missing = {chunk_id: len(missing_terms(asked, chunk)) / n_terms for chunk_id, chunk in self._chunks.items()}
        rows = [
            (
                role_of(one.text) in roles,
                named_share(asked, one, words),
                self._is_record(one),
                missing[one.chunk.chunk_id],
                self._houseless(one),
            )
            for one, words in zip(self.candidates, self._headed_words, strict=True)
        ]
        return np.array(rows, np.float64).reshape(len(rows), len(FIXED))

    @cached_property
    def _houses_of(self) -> dict[str, tuple[str, ...]]:
        return {document.doc_id: document.houses for document in self.asked.view.documents if document.houses}

    def _fitting(self, found: Sequence[Candidate]) -> Iterator[Candidate]:
        """Those that fit; for a pesticide question not one that speaks of "이 약제" after a sentence that does not."""
        before: Candidate | None = None
        fitted = False
        for one in found:
            follows = before is not None and before.chunk.chunk_id == one.chunk.chunk_id and fitted
            fitted = self._fits(one) and (follows or not self._pesticide or not _THIS_PRODUCT.match(one.text))
            before = one
            if fitted:
                yield one

    def _fits(self, candidate: Candidate) -> bool:
        """Whether a sentence is on the asked crop, cultivar, house; about a spraying where sprayings are asked for."""
        asked, chunk, text = self.asked, candidate.chunk, candidate.text
        if lacks_value(text, asked.features.terms):
            return False
        if is_registration(text):
            if not (asked.registration or asked.dose):
                return False
        elif self._pesticide and not asked.record and USE.search(text) and not self._on_target(candidate):
            return False
        if chunk.scope_id != PUBLIC and self._elsewhere:
            return False
        day = day_of(text, chunk.date) if asked.record and asked.features.periods else None
        if day is not None and not any(first <= day <= last for first, last in asked.features.periods):
            return False
        if day is None and chunk.kind in MONTHLY_KINDS and self._one_day:
            return False
        if asked.record and asked.houses:
            named = set(_HOUSE.findall(text)) or self._headed(candidate)
            if named and not any(says(house, text) for house in asked.houses):
                return False
        if asked.sprayed and not (_SPRAYED.search(text) and self._sprayed_for(chunk)):
            return False
        crops = self._names(candidate, CROP) & asked.view.catalogue.crops
        if asked.crops and not self._on_crop(chunk, crops):
            return False
        cultivars, wanted = self._names(candidate, CULTIVAR), set(asked.named(CULTIVAR))
        return not (wanted and cultivars and not cultivars & wanted)

    def _sprayed_for(self, chunk: ChunkRecord) -> bool:
        """Whether a record of a spraying speaks of a pest that the question names."""
        pests = self.asked.named(*PESTS)
        return not pests or any(kind_of(pest) in f"{chunk.title} {chunk.text}" for pest in pests)

    def _headed(self, candidate: Candidate) -> set[str]:
        """The houses of what a sentence goes on from: named earlier in its paragraph, else by the heading above it."""
        *lines, begun = candidate.chunk.text[: candidate.sentence.start].split("\n")
        if said := _HOUSE.findall(begun):
            return {said[-1]}
        heading = next((line for line in reversed(lines) if _HOUSE_HEADING.match(line)), candidate.chunk.section)
        return set(_HOUSE.findall(heading)) if _HOUSE_HEADING.match(heading) else set()

    def _on_crop(self, chunk: ChunkRecord, named: set[str]) -> bool:
        crops = self.asked.crops
        if named & crops:
            return True
        return not named and (not chunk.crop or chunk.crop in crops)

    def _on_target(self, candidate: Candidate) -> bool:
        """Whether a guide's sentence on the use of a pesticide is on what is asked for: it names it, or names no pest and its
        title does, or neither names any.
        """
        pests, targets = self._names(candidate, *PESTS), self.asked.targets
        if pests:
            return not pests.isdisjoint(targets)
        return not targets or any(kind_of(target) in candidate.chunk.title for target in targets)

    def _names(self, candidate: Candidate, *types: str) -> set[str]:
        return {token for token in candidate.sentence.tokens if self.asked.lexicon.type_of(token) in types}

    def scored(self) -> list[Scored]:
        """All fitting evidence sentences with their relevance, in evidence order."""
        if not self.candidates:
            return []
        asked = self.asked
        features = self.features(asked.text, asked.vector, asked.weights, asked.figure, RERANKED)
        whole = (features @ self._weights).tolist()
        parts = [self._part(part) for part in asked.parts]
        return [
            Scored(
                candidate,
                whole[i],
                self._said(candidate),
                tuple(features[i].tolist()),
                i,
                tuple(values[i] for values in parts),
            )
            for i, candidate in enumerate(self.candidates)
        ]

    def _is_record(self, candidate: Candidate) -> bool:
        asked = self.asked
        if self._houseless(candidate):
            return False
        if asked.sprayed:
            return bool(asked.periods) or asked.latest
        if not (asked.periods or candidate.chunk.doc_id in asked.month_tables):
            return False
        if _EVENT.search(asked.text) and not asked.extreme:
            return False
        return month_row(candidate.chunk, candidate.text, asked.text, asked.columns)

    def _said(self, candidate: Candidate) -> str:
        text = LIST_NUMBER.sub("", candidate.text.strip()).removeprefix("- ")
        if not is_registration(text):
            return spoken_row(text, self.asked.columns)
        over = expired(text, self.asked.today)
        pest = "" if len(self.asked.targets) == 1 else pest_of(candidate.chunk.title, candidate.chunk.crop)
        return (
            (f"{pest}: " if pest else "")
            + spoken_registration(text)
            + (f" — 등록 유효기간이 지났습니다({over.isoformat()})" if over else "")
        )

    def _part(self, part: PlannedQuery) -> list[float]:
        words = {token: self.asked.weights.get(token, 1.0) for token in part.tokens}
        features = self.features(part.text, part.vector, words, figure_asked(part.text), RERANKED_PART)
        found: list[float] = (features @ self._weights).tolist()
        return found

    def features(
        self,
        text: str,
        vector: FloatVector | None,
        words: Mapping[str, float],
        figure: re.Pattern[str] | None,
        n_reranked: int,
    ) -> npt.NDArray[np.float64]:
        """What the relevance of each candidate is made of, shape (candidates, ``FEATURES``). The cross-encoder reads the
        best ``n_reranked``.
        """
        cosines = self._cosines(vector)
        passages = self._passage_cosines(vector, cosines)
        contexts = {chunk_id: share(words, tokens) for chunk_id, tokens in self._passages.items()}
        rows = [
            (
                cosine,
                passages[one.chunk.chunk_id],
                share(words, headed),
                contexts[one.chunk.chunk_id],
                figure is not None and bool(figure.search(one.text)),
                figure is not None and not _DIGIT.search(one.text),
            )
            for one, cosine, headed in zip(self.candidates, cosines.tolist(), self._headed_words, strict=True)
        ]
        told = np.hstack([np.array(rows, np.float64).reshape(len(rows), len(VARYING)), self._fixed])
        return np.hstack([told, self._cross(text, told, n_reranked)[:, None]])

    def _cross(self, text: str, told: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.float64]:
        """The cross-encoder's log-odds for the ``n`` best by the other features, ``told``."""
        if self._reranker is None or not len(told):
            return np.zeros(len(told))
        best = np.argsort(-(told @ self._weights[:-1]), kind="stable")[:n].tolist()
        read = [self.candidates[i] for i in best]
        logits = self._reranker.logits(text, [(heading_of(one.chunk, self.asked.record), one.text) for one in read])
        cross = np.full(len(told), float(logits.min()))
        cross[best] = logits
        return cross

    def _houseless(self, candidate: Candidate) -> bool:
        """Whether the question names houses and neither the sentence nor its document is of one of them alone."""
        houses, text = self.asked.houses, candidate.text
        if not houses or any(says(house, text) for house in houses):
            return False
        return not set(self._houses_of.get(candidate.chunk.doc_id, ())) <= set(houses)

    def _cosines(self, vector: FloatVector | None) -> npt.NDArray[np.float32]:
        if vector is None:
            return np.zeros(len(self.candidates), np.float32)
        cosines: npt.NDArray[np.float32] = np.stack([candidate.vector for candidate in self.candidates]) @ vector
        return cosines

    def _passage_cosines(self, vector: FloatVector | None, cosines: npt.NDArray[np.float32]) -> dict[str, float]:
        """Cosine of a question with each passage; of a passage outside the index that of its best sentence."""
        found: dict[str, float] = {}
        for chunk_id in self._chunks:
            place = self.asked.view.place(chunk_id)
            if vector is not None and place is not None:
                level, row = place
                found[chunk_id] = float(level.vector(row) @ vector)
            else:
                found[chunk_id] = max(
                    float(cosine)
                    for one, cosine in zip(self.candidates, cosines, strict=True)
                    if one.chunk.chunk_id == chunk_id
                )
        return found


def rank_sentences(
    asked: Asked, items: Sequence[Evidence], weights: SentenceWeights, reranker: Reranker | None = None
) -> list[Scored]:
    """All evidence sentences that can answer, with their relevance, in evidence order."""
    return Ranker(asked, items, weights, reranker).scored()


def heading_of(chunk: ChunkRecord, record: bool) -> str:
    """What the cross-encoder is told of a sentence's place: a record's day and title, a document's title and section."""
    if record:
        return f"{chunk.date} {chunk.title}"
    return f"{chunk.title} > {chunk.section}" if chunk.section and chunk.section not in chunk.title else chunk.title


def named_share(asked: Asked, candidate: Candidate, words: Collection[str]) -> float:
    """Share of the question's lexicon terms that a sentence with its headings names, by its BM25 ``words`` or as it is
    written (a term of two words is none of them); ``NO_TERMS`` where the question has none.
    """
    terms = asked.features.entities
    if not terms:
        return NO_TERMS
    chunk, present = candidate.chunk, {word.lower() for word in words}
    written = re.sub(r"\s", "", f"{chunk.title}{chunk.section}{candidate.text}").lower()
    return sum(t.lower() in present or re.sub(r"\s", "", t).lower() in written for t in terms) / len(terms)


def lead_of(candidate: Candidate, *, crops: bool = False, brief: bool = False) -> str:
    """How a sentence's source is named before it.

    A farm record by day and author ("2026-11-24 김주임"; ``brief``: the day), a monthly table, and a row that names its day
    itself, by the title; a public document by its crop where an answer speaks of several (``crops``), else not at all.
    """
    chunk = candidate.chunk
    if chunk.scope_id == PUBLIC:
        return chunk.crop if crops else ""
    if chunk.kind in MONTHLY_KINDS or not chunk.date or day_of(candidate.text, chunk.date) is not None:
        return chunk.title
    return chunk.date if brief else f"{chunk.date} {chunk.author}".strip()
