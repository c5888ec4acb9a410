"""Levels that belong to an encoder, read from ``answering.v1.json``: citation thresholds, what sentences weigh, refusal models.

Another encoder's levels are refused: cosines of two encoders are not on one scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from rag.errors import ProfileError
from rag.uncertainty import UncertaintyModel

# The two refusal models of a levels file.
DOCUMENTS, RECORDS = "documents", "records"
# What differs with a cross-encoder stands below this.
RERANKED = "reranked"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Features:
    """What tells whether an answer is one.

    From the channels: ``vector_gap`` best cosine minus the mean of the first 20; ``agreement`` mean of three: vector and
    BM25 agree on the first document, vector and graph do, share of common documents in the first five of vector and BM25.
    Of the most relevant sentence chosen, as its relevance counts them (``sentences``): ``similarity`` and ``passage``
    cosines of the question with it and with its passage, ``figure`` 1 where it has a figure in the asked unit, ``names``
    share of the question's lexicon terms that it with its headings names, ``missing`` share of the named terms (crop, pest,
    cultivar …) that its passage is not about.
    Of the chosen sentences, those with a fitting figure where a quantity is asked: ``said`` largest idf-weighted share of
    the question's nouns in one of them with its headings. Of all chosen: ``unsaid_here`` largest idf (over 8) of a noun
    that none of them says; ``row`` 1 where one is the very record that the question's slots name, or the
    registration of the asked crop and pest or product.
    ``cross`` the cross-encoder's largest log-odds over 10 (0 without one).
    ``unknown`` nouns that no document holds (three or more: 1); ``parts`` 1 for a question of several parts, ``quantity``
    where a quantity is asked.
    """

    vector_gap: float
    agreement: float
    similarity: float
    passage: float
    figure: float
    names: float
    missing: float
    said: float
    unsaid_here: float
    row: float
    cross: float
    unknown: float
    parts: float
    quantity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Support(_Features):
    """How well the evidence carries an answer; what the refusal model reads. All values lie near [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalModel(_Features):
    """P(the evidence answers) = σ(bias + Σ weight·feature), each weight under its feature's name.

    Below ``threshold`` the answer is refused.
    """

    bias: float
    threshold: float

    def probability(self, support: Support) -> float:
        """Estimated probability that the question is answered, in (0, 1)."""
        z = self.bias + math.fsum(getattr(self, f.name) * getattr(support, f.name) for f in fields(Support))
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, z))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceWeights:
    """What the parts of a sentence's relevance weigh (``sentences`` says what each is), in natural log-odds."""

    similarity: float
    passage: float
    words: float
    context: float
    figure: float
    no_figure: float
    role: float
    names: float
    record: float
    missing: float
    house: float
    cross: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """Cosines of question and evidence sentence from which the screens say 높음 (``high``) and 보통 (``usual``).

    Quantiles over the sentences, among the passages found for the fitting questions, that stand in a gold document and hold
    an expected fact: half of them reach ``high``, 95 % reach ``usual`` (``python -m eval ranking``).
    """

    high: float
    usual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Levels of one encoder; ``uncertainty`` by answerer ("extractive", "llm") and ``relevance`` where they were fitted.

    ``citation_coverage``: the least ``rag.claims.said_share`` of a cited sentence.
    """

    encoder: str
    citation_threshold: float
    citation_coverage: float
    sentences: SentenceWeights
    refusal: RefusalModel
    record_refusal: RefusalModel
    uncertainty: Mapping[str, UncertaintyModel] = field(default_factory=dict)
    relevance: Relevance | None = None


def _refusal_model(raw: Mapping[str, float]) -> RefusalModel:
    return RefusalModel(**{f.name: float(raw[f.name]) for f in fields(RefusalModel)})


def load_calibration(path: Path, encoder: str, *, reranked: bool = False) -> Calibration:
    """Levels of ``encoder``; ``reranked``: those with its cross-encoder.

    Raises:
        ProfileError: the file cannot be read, or holds no levels for this encoder; names the encoders it has.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        levels = raw["encoders"]
        if encoder not in levels:
            raise ProfileError(
                f"'{path.name}' 에 임베딩 모델 '{encoder}' 의 기준값이 없습니다(있는 것: {', '.join(sorted(levels))}). "
                "모델을 되돌리거나 'python -m eval refusal' 로 기준값을 새로 맞추세요."
            )
        mine = levels[encoder]
        if reranked:
            changed = mine.get(RERANKED, {})
            mine = mine | changed | {"refusal": mine["refusal"] | changed.get("refusal", {})}
        return Calibration(
            encoder=encoder,
            citation_threshold=float(mine["citation_threshold"]),
            citation_coverage=float(mine["citation_coverage"]),
            sentences=SentenceWeights(**{f.name: float(mine["sentences"][f.name]) for f in fields(SentenceWeights)}),
            refusal=_refusal_model(mine["refusal"][DOCUMENTS]),
            record_refusal=_refusal_model(mine["refusal"][RECORDS]),
            uncertainty={
                answerer: UncertaintyModel(**{f.name: float(fitted[f.name]) for f in fields(UncertaintyModel)})
                for answerer, fitted in mine.get("uncertainty", {}).items()
            },
            relevance=Relevance(**{f.name: float(mine["relevance"][f.name]) for f in fields(Relevance)})
            if "relevance" in mine
            else None,
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"답변 기준값 파일 '{path}' 을(를) 읽을 수 없습니다: {error!r}. 원래 파일로 되돌려 주세요."
        ) from error
