"""Citing without a model: an answer sentence rests on an evidence sentence when both say the same thing.

Two conditions: the cosine of their vectors reaches the encoder's threshold, and the numbers agree. Encoder cosines
are not calibrated (for E5 unrelated sentences sit near 0.78), so the threshold belongs to the encoder and is kept
with its name in ``profiles/answering.v1.json``; another encoder's is refused.

Numbers: every number of the answer sentence, with its unit where both name one, must stand in the evidence sentence.
℃ = 도, mS/cm = dS/m; "1,000" = "1000"; a range "1.0~1.2" counts as both its ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag.schema import ChunkRecord, Citation, CitedSentence, FloatVector, SentenceRecord

MAX_CITATIONS = 3
_NUMBER = re.compile(r"(?<![\d.])(\d+(?:,\d{3})*(?:\.\d+)?)")
# A unit is not the head of another word: EC 2.5 배액, 3 원인, 5 일조.
_UNIT = re.compile(
    r"\s*(dS/m|mS/cm|℃|°C|도(?![가-힣])|도(?=[를로가는까이에의보부씩쯤정와])|%|퍼센트|ppm|kg|배(?![액지양수추합관꼽])|"
    r"일(?![지조사반정부])|회(?![의복전색])|시간|분(?![무지포석화])|원(?![인예칙수액산])"
    r")"
)
_SAME = {"mS/cm": "dS/m", "°C": "℃", "도": "℃", "퍼센트": "%"}
_RANGE = re.compile(r"(\d)\s*[~∼〜–-]\s*(?=\d)")
LIST_NUMBER = re.compile(r"^\s*(?:\d{1,2}[.)]|[①-⑳])\s+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An evidence sentence that may carry an answer sentence."""

    chunk: ChunkRecord
    sentence: SentenceRecord
    vector: FloatVector

    @property
    def text(self) -> str:
        """The evidence sentence."""
        return self.chunk.text[self.sentence.start : self.sentence.end]


def numbers_of(text: str) -> set[tuple[str, str]]:
    """(number, unit) pairs of a sentence; unit "" where none follows. A list number at the start does not count.

    In a range the unit of the last number holds for all of them.
    """
    body = _RANGE.sub(r"\1~", LIST_NUMBER.sub("", text))
    found: set[tuple[str, str]] = set()
    pending: list[str] = []
    for match in _NUMBER.finditer(body):
        number = match[1].replace(",", "")
        if "." in number:
            number = number.rstrip("0").rstrip(".")
        pending.append(number)
        if body[match.end() : match.end() + 1] == "~":
            continue
        unit = _UNIT.match(body, match.end())
        name = _SAME.get(unit[1], unit[1]) if unit else ""
        found.update((value, name) for value in pending)
        pending = []
    return found


def numbers_agree(answer: str, evidence: str) -> bool:
    """Whether every number of ``answer`` stands in ``evidence``; units must match where both name one."""
    have = numbers_of(evidence)
    return all(
        any(number == other and (not unit or not other_unit or unit == other_unit) for other, other_unit in have)
        for number, unit in numbers_of(answer)
    )


def citation_of(candidate: Candidate, cosine: float, checks: Sequence[str]) -> Citation:
    """The citation of one evidence sentence."""
    chunk, sentence = candidate.chunk, candidate.sentence
    return Citation(
        doc_id=chunk.doc_id,
        title=chunk.title,
        locator=place_of(chunk),
        chunk_id=chunk.chunk_id,
        sentence=candidate.text,
        start=sentence.start,
        end=sentence.end,
        cosine=round(cosine, 4),
        checks=tuple(checks),
    )


def place_of(chunk: ChunkRecord) -> str:
    """Section and page or row of a chunk, for people."""
    return " · ".join(part for part in (chunk.section, chunk.locator) if part)


def cite(text: str, vector: FloatVector, candidates: Sequence[Candidate], threshold: float) -> CitedSentence:
    """An answer sentence with at most three citations, best first; ties by document and place.

    ``vector`` is the unit vector of ``text``, encoded as a passage; ``threshold`` the encoder's.
    """
    if not candidates:
        return CitedSentence(text=text)
    cosines = np.stack([candidate.vector for candidate in candidates]) @ vector
    order = sorted(
        range(len(candidates)),
        key=lambda i: (-round(float(cosines[i]), 6), candidates[i].chunk.doc_id, candidates[i].sentence.row),
    )
    close = [i for i in order if cosines[i] >= threshold]
    agreeing = [i for i in close if numbers_agree(text, candidates[i].text)]
    citations = tuple(
        citation_of(candidates[i], float(cosines[i]), ("유사도", "수치 일치")) for i in agreeing[:MAX_CITATIONS]
    )
    note = "수치가 근거와 다릅니다." if close and not agreeing else None
    return CitedSentence(text=text, citations=citations, note=note)
