"""The extractive answerer: picks and orders evidence sentences. No model; every sentence is cited by construction.

``sentences`` scores what the passages say, ``choice`` takes what answers, ``order`` puts it in the order that reads;
``support`` and ``refusals`` decide whether it is an answer at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag.answering.asked import Asked
from rag.answering.calibration import Calibration, Support
from rag.answering.choice import DETAILED, NORMAL, aspects_of, choose
from rag.answering.order import opening, ordered
from rag.answering.refusals import (
    LIVE,
    ONLY_REGISTERED,
    asks_forbidden,
    asks_live,
    lacks_registration,
    lacks_what_is_named,
    refusal,
    registration_note,
)
from rag.answering.sentences import Scored, lead_of, rank_sentences
from rag.answering.support import support_of
from rag.citations import citation_of
from rag.reranker import Reranker
from rag.schema import PUBLIC, Answer, ChannelResult, CitedSentence, FusedEvidence
from rag.tracing import Recorder

# So many days told make a table of days; the authors are in the citations.
_TABLE = 3


class ExtractiveAnswerer:
    """Answers from evidence sentences, or refuses."""

    name = "extractive"

    def __init__(self, calibration: Calibration, reranker: Reranker | None = None) -> None:
        self._calibration = calibration
        self._reranker = reranker

    def answer(
        self,
        asked: Asked,
        evidence: FusedEvidence,
        results: Sequence[ChannelResult],
        top_k: int,
        recorder: Recorder,
    ) -> tuple[Answer, Support | None]:
        """The answer from the ``top_k`` best passages, and how well they and the channels' best scores carry it.

        None where a rule refused it, or no sentence can answer.
        """
        items = evidence.items[:top_k]
        if asks_forbidden(asked):
            return refusal(items, self.name, note=ONLY_REGISTERED, asked=asked), None
        if asks_live(asked):
            return refusal(items, self.name, note=LIVE, asked=asked), None
        with recorder.span("rerank"):
            scored = rank_sentences(asked, items, self._calibration.sentences, self._reranker)
        chosen = choose(asked, scored, DETAILED if asked.detailed or asked.summed else NORMAL)
        if lacks_registration(asked, chosen):
            return refusal(items, self.name, note=registration_note(asked), asked=asked), None
        if not chosen:
            return refusal(items, self.name, asked=asked), None
        if (lacking := lacks_what_is_named(asked, chosen)) is not None:
            return refusal(items, self.name, note=lacking, asked=asked), None
        support = support_of(asked, chosen, results)
        model = self._calibration.record_refusal if asked.record else self._calibration.refusal
        found = asked.record and support.row > 0  # the very record that is asked for
        if not found and model.probability(support) < model.threshold:
            return refusal(items, self.name, asked=asked), support
        read = ordered(asked, chosen, aspects_of(asked))
        lead = opening(asked, read, scored)
        return Answer(sentences=tuple(_cited(read)), refused=False, answerer=self.name, lead=lead), support


def _cited(read: Sequence[Scored]) -> Iterator[CitedSentence]:
    """Answer sentences; a farm record's opens with its day or title, one of several crops with its crop, on a change."""
    crops = len({s.chunk.crop for s in read if s.chunk.crop and s.chunk.scope_id == PUBLIC}) > 1
    brief = len({s.chunk.date for s in read if s.chunk.scope_id != PUBLIC}) >= _TABLE
    said = ""
    for scored in read:
        citation = citation_of(scored.candidate, scored.cosine, ("원문 그대로",))
        lead = lead_of(scored.candidate, crops=crops, brief=brief)
        text = f"{lead}: {scored.text}" if lead and lead != said else scored.text
        yield CitedSentence(text=text, citations=(citation,))
        said = lead
