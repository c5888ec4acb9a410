"""Levels that belong to an encoder: the citation threshold and the refusal model, read from ``answering.v1.json``.

Another encoder's levels are refused: cosines of two encoders are not on one scale.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

from rag.errors import ProfileError


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """How well the evidence carries an answer; what the refusal model reads. All values lie near [0, 1].

    From the channels: ``vector_gap`` best cosine minus the mean of the first 20; ``agreement`` mean of three: vector and
    BM25 agree on the first document, vector and graph do, share of common documents in the first five of vector and BM25.
    From the passages handed over: ``concentration`` share of the first five that are of one document; ``terms`` largest
    share of the question's lexicon terms that one passage with its headings names (0.7 for a question without terms);
    ``rarest`` largest idf (over 8) of a question word in the first three; ``coverage`` idf-weighted share of the
    question's words that the first document's passages hold.
    From the chosen sentences, those with a fitting figure where a quantity is asked: ``cosine`` of the most relevant one,
    read with its title and headings; ``focus`` largest share of the question's lexicon terms in one of them with its
    headings; ``missing`` share of the named terms (crop, pest, cultivar …) that no chosen passage names.
    ``quantity`` 1 when a quantity is asked, ``record`` 1 when the question is about a farm's records; for those also
    ``record_said``, the largest idf-weighted share of the question's words in one sentence with its headings (records
    use the asker's words), and ``record_cosine`` = ``cosine`` (both 0 otherwise).
    """

    vector_gap: float
    agreement: float
    concentration: float
    terms: float
    rarest: float
    coverage: float
    cosine: float
    focus: float
    missing: float
    quantity: float
    record: float
    record_said: float
    record_cosine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalModel:
    """P(the evidence answers) = σ(bias + Σ weight·feature); below ``threshold`` the answer is refused."""

    bias: float
    vector_gap: float
    agreement: float
    concentration: float
    terms: float
    rarest: float
    coverage: float
    cosine: float
    focus: float
    missing: float
    quantity: float
    record: float
    record_said: float
    record_cosine: float
    threshold: float

    def probability(self, support: Support) -> float:
        """Estimated probability that the question is answered, in (0, 1)."""
        z = self.bias + math.fsum(getattr(self, f.name) * getattr(support, f.name) for f in fields(Support))
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, z))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Levels of one encoder."""

    encoder: str
    citation_threshold: float
    refusal: RefusalModel


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
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"답변 기준값 파일 '{path}' 을(를) 읽을 수 없습니다: {error!r}. 원래 파일로 되돌려 주세요."
        ) from error
