"""The extractive answerer: picks and orders evidence sentences. No model; every sentence is cited by construction.

Relevance of sentence s in passage c for question q::

    rel = COS·(cos(q, s) − cos₀)/SCALE + LEX·lex(q, s) + CTX·lex(q, c) + PLACE/(1 + place of c) − MISS·missing(q, c)
          − HOUSE·[s names none of the houses of q]

lex is the idf-weighted share of the question's words found in the sentence (or in the passage with its headings);
missing is the share of the question's named terms that the passage does not name. Sentences are taken greedily; one
that says nothing new loses REDUNDANCY × its largest cosine above cos₀ with those taken. Ties: evidence order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag.answering.calibration import Calibration, Support
from rag.citations import Candidate, citation_of
from rag.schema import PUBLIC, Answer, ChunkRecord, CitedSentence, Evidence, FloatVector, FusedEvidence, QueryFeatures
from rag.stores.view import View

MAX_SENTENCES = 4
MAX_CHARACTERS = 380
NOT_FOUND = "문서에서 찾지 못했습니다."
# E5 cosines of unrelated pairs lie near 0.78, of relevant ones up to 0.92.
COSINE_ZERO, COSINE_SCALE = 0.80, 0.10
COS, LEX, CTX, PLACE, MISS, HOUSE, REDUNDANCY = 1.0, 1.0, 0.6, 0.5, 0.8, 0.8, 0.6
# A further sentence must come this close to the best one.
RELATIVE = 0.55
# Lexicon types whose absence from a passage makes it the wrong passage.
MONTHLY_KINDS = frozenset({"수확기록", "급액배액요약", "센서요약"})
HARD_TYPES = frozenset({"작물", "품종", "병", "바이러스", "해충", "생리장해", "생육단계", "농자재", "설비"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as the answerers see it: text, features, unit vector (None: no encoder), types of its entities."""

    text: str
    features: QueryFeatures
    vector: FloatVector | None
    types: Mapping[str, str]
    view: View


@dataclass(frozen=True, slots=True)
class _Scored:
    candidate: Candidate
    place: int
    cosine: float
    relevance: float


class ExtractiveAnswerer:
    """Answers from evidence sentences, or refuses."""

    name = "extractive"

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration

    def answer(self, asked: Asked, evidence: FusedEvidence, top_k: int) -> tuple[Answer, Support]:
        """The answer from the ``top_k`` best passages, and how well they carry it."""
        items = evidence.items[:top_k]
        scored = rank_sentences(asked, items)
        chosen = choose(scored)
        support = support_of(asked, chosen, scored)
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
        yield CitedSentence(
            text=f"{lead}: {citation.sentence}" if lead and lead != said else citation.sentence, citations=(citation,)
        )
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
    return found


def rank_sentences(asked: Asked, items: Sequence[Evidence]) -> list[_Scored]:
    """All evidence sentences with their relevance, in evidence order."""
    pairs = candidates_of(asked.view, items)
    if not pairs:
        return []
    cosines = _cosines(asked, [candidate for _, candidate in pairs])
    weights = word_weights(asked)
    contexts = [_share(weights, asked.view.chunk_tokens(item.chunk.chunk_id)) for item in items]
    missing = [missing_terms(asked, item.chunk.chunk_id) for item in items]
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
            - HOUSE * _other_house(asked, candidate),
        )
        for (place, candidate), cosine in zip(pairs, cosines, strict=True)
    ]


def _other_house(asked: Asked, candidate: Candidate) -> bool:
    """Whether the question names houses and the sentence none of them."""
    houses = asked.features.values("house")
    return bool(houses) and not any(house in candidate.text for house in houses)


def _cosines(asked: Asked, candidates: Sequence[Candidate]) -> npt.NDArray[np.float32]:
    if asked.vector is None:
        return np.full(len(candidates), COSINE_ZERO, np.float32)
    cosines: npt.NDArray[np.float32] = np.stack([candidate.vector for candidate in candidates]) @ asked.vector
    return cosines


def word_weights(asked: Asked) -> dict[str, float]:
    """Question word → idf; a word that no document holds weighs most."""
    unseen = math.log(1 + (len(asked.view.levels["G2"].chunk_ids) + 0.5) / 0.5)
    return {token: asked.view.idf.get(token, unseen) for token in asked.features.keywords}


def _share(weights: dict[str, float], tokens: Sequence[str]) -> float:
    total = math.fsum(weights.values())
    if total == 0:
        return 0.0
    present = set(tokens)
    return math.fsum(weight for token, weight in weights.items() if token in present) / total


def missing_terms(asked: Asked, chunk_id: str) -> float:
    """Share of the question's named terms of the hard types that a passage and its headings do not name."""
    lexicon_terms = [e for e in asked.features.entities if asked.types.get(e) in HARD_TYPES]
    if not lexicon_terms:
        return 0.0
    here = asked.view.entities_of(chunk_id)
    return sum(term not in here for term in lexicon_terms) / len(lexicon_terms)


def choose(scored: Sequence[_Scored]) -> list[_Scored]:
    """Greedy choice of at most ``MAX_SENTENCES`` sentences and ``MAX_CHARACTERS`` characters."""
    chosen: list[_Scored] = []
    left = list(scored)
    length = 0
    best: float | None = None
    while left and len(chosen) < MAX_SENTENCES:
        values = [s.relevance - REDUNDANCY * _overlap(s, chosen) for s in left]
        index = max(range(len(left)), key=lambda i: (values[i], -i))
        if best is None:
            best = values[index]
        elif values[index] < RELATIVE * best:
            break
        pick = left.pop(index)
        size = len(pick.candidate.text) + 1
        if length + size > MAX_CHARACTERS and chosen:
            continue
        chosen.append(pick)
        length += size
    return chosen


def _overlap(scored: _Scored, chosen: Sequence[_Scored]) -> float:
    if not chosen:
        return 0.0
    nearest = max(float(scored.candidate.vector @ other.candidate.vector) for other in chosen)
    return max(0.0, (nearest - COSINE_ZERO) / (1 - COSINE_ZERO))


def support_of(asked: Asked, chosen: Sequence[_Scored], scored: Sequence[_Scored]) -> Support:
    """What the refusal model reads off the chosen sentences."""
    if not chosen:
        return Support(cosine=0.0, coverage=0.0, missing=1.0, margin=0.0)
    weights = word_weights(asked)
    words = {token for s in chosen for token in asked.view.chunk_tokens(s.candidate.chunk.chunk_id)}
    terms = [e for e in asked.features.entities if asked.types.get(e) in HARD_TYPES]
    named = {e for s in chosen for e in asked.view.entities_of(s.candidate.chunk.chunk_id)}
    relevances = sorted(s.relevance for s in scored)
    return Support(
        cosine=max(s.cosine for s in chosen),
        coverage=_share(weights, tuple(words)),
        missing=sum(term not in named for term in terms) / len(terms) if terms else 0.0,
        margin=relevances[-1] - relevances[len(relevances) // 2],
    )
