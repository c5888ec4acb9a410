"""Citing without a model: an answer sentence rests on an evidence sentence when both say the same thing.

Three conditions: the cosine of their vectors reaches the encoder's threshold; nothing in the evidence stands against the
claim (``rag.claims``: things named, figures with their units, dates, houses, denial, direction); and the evidence with its
headings says at least the share ``coverage`` of the claim's words. Encoder cosines are not calibrated (for E5 unrelated
sentences sit near 0.78), so both levels belong to the encoder, are fitted on labelled pairs (``python -m eval calibrate``)
and kept with its name in ``profiles/answering.v1.json``; another encoder's are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag.claims import compare
from rag.quantities import LIST_NUMBER
from rag.schema import PUBLIC, ChunkRecord, Citation, CitedSentence, FloatVector, SentenceRecord

__all__ = ["LIST_NUMBER", "MAX_CITATIONS", "Candidate", "citation_of", "cite", "context_of", "place_of"]

MAX_CITATIONS = 3
# Sentences near the claim that are read; the rest are farther than any that was ever right.
MAX_READ = 24


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


def context_of(chunk: ChunkRecord) -> str:
    """What a sentence leaves to its document, one line each: title, headings, crop, and the day of a farm's record.

    The day of a public document is when it was written, not what it is about.
    """
    day = "" if chunk.scope_id == PUBLIC else chunk.date
    return "\n".join(part for part in (chunk.title, chunk.section, chunk.crop, day) if part)


def cite(
    text: str, vector: FloatVector, candidates: Sequence[Candidate], threshold: float, coverage: float
) -> CitedSentence:
    """An answer sentence with at most three citations, best first; ties by document and place.

    ``vector`` is the unit vector of ``text``, encoded as a passage; ``threshold`` and ``coverage`` the encoder's. Without a
    supporting sentence, the near ones that say otherwise are its conflicts, and the note holds what both say.
    """
    if not candidates:
        return CitedSentence(text=text)
    cosines = np.stack([candidate.vector for candidate in candidates]) @ vector
    order = sorted(
        (i for i in range(len(candidates)) if cosines[i] >= threshold),
        key=lambda i: (-round(float(cosines[i]), 6), candidates[i].chunk.doc_id, candidates[i].sentence.row),
    )
    citations: list[Citation] = []
    conflicts: list[Citation] = []
    notes: list[str] = []
    doubt: str | None = None
    for i in order[:MAX_READ]:
        verdict = compare(text, candidates[i].text, context_of(candidates[i].chunk), coverage)
        if verdict.outcome == "supported":
            citations.append(citation_of(candidates[i], float(cosines[i]), ("유사도", *verdict.checks)))
        elif verdict.outcome == "contradicted" and verdict.note:
            conflicts.append(citation_of(candidates[i], float(cosines[i]), ("유사도",)))
            notes.append(verdict.note)
        doubt = doubt or verdict.note
        if len(citations) == MAX_CITATIONS:
            break
    if citations:
        return CitedSentence(text=text, citations=tuple(citations))
    if conflicts:
        return CitedSentence(text=text, conflicts=tuple(conflicts[:MAX_CITATIONS]), note=notes[0])
    return CitedSentence(text=text, note=doubt)
