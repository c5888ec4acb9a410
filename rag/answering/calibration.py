"""Levels that belong to an encoder: the citation threshold and the refusal model, read from ``answering.v1.json``.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Features:
    """What tells whether an answer is one.

    From the channels: ``vector_gap`` best cosine minus the mean of the first 20; ``agreement`` mean of three: vector and
    BM25 agree on the first document, vector and graph do, share of common documents in the first five of vector and BM25.
    From the passages handed over: ``terms`` largest share of the question's lexicon terms that one passage with its
    headings names (0.7 for a question without terms).
    From the chosen sentences, those with a fitting figure where a quantity is asked: ``cosine`` of the question with the
    most relevant one, mean of its own and its passage's; ``said`` largest idf-weighted share of the question's nouns in
    one of them with its headings; ``unfocused`` share of the lexicon terms that the best of them with its headings leaves
    out, where a quantity is asked; ``unnamed`` the same for cultivars, materials and growth stages, whatever is asked.
    From all chosen sentences: ``missing`` share of the named terms (crop, pest, cultivar …) that none of their passages
    names; ``passage`` largest idf-weighted share of the nouns in one of their passages; ``unsaid_here`` largest idf
    (over 8) of a noun that none of them says; ``row`` 1 where one is the very record that the question's slots name.
    ``unknown`` nouns that no document holds (three or more: 1); ``parts`` 1 for a question of several parts, ``quantity``
    where a quantity is asked, ``record`` where it is about a farm's records.
    """

    vector_gap: float
    agreement: float
    terms: float
    cosine: float
    missing: float
    said: float
    passage: float
    unsaid_here: float
    unfocused: float
    unknown: float
    unnamed: float
    parts: float
    row: float
    quantity: float
    record: float


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
class Relevance:
    """Cosines of question and evidence sentence from which the screens say 높음 (``high``) and 보통 (``usual``).

    Quantiles over the sentences, among the passages handed over for the questions of ``farm_tune.jsonl``, that stand in a
    gold document and hold the expected figure or name: half of them reach ``high``, 95 % reach ``usual``.
    """

    high: float
    usual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Levels of one encoder; ``uncertainty`` by answerer ("extractive", "llm") and ``relevance`` where they were fitted."""

    encoder: str
    citation_threshold: float
    refusal: RefusalModel
    uncertainty: Mapping[str, UncertaintyModel] = field(default_factory=dict)
    relevance: Relevance | None = None


def load_calibration(path: Path, encoder: str) -> Calibration:
    """Levels of ``encoder``.

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
        return Calibration(
            encoder=encoder,
            citation_threshold=float(mine["citation_threshold"]),
            refusal=RefusalModel(**{f.name: float(mine["refusal"][f.name]) for f in fields(RefusalModel)}),
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
