"""An answered question as the screens keep it: what of a ``Result`` is shown, in a form that survives JSON.

Passage texts are not kept: an evidence card reads them from the record when it is opened, so that the scope is checked
again and a removed document is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import TypeAdapter

from rag.schema import (
    Answer,
    Clarification,
    Evidence,
    GraphPath,
    QueryFeatures,
    Result,
    Status,
    Trace,
    WeightSteps,
    segment_key,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRun:
    """What one channel did, without its hits (the ranks that count are in the evidence votes)."""

    channel: str
    status: Status
    n_hits: int
    ms: float
    error: str | None = None
    note: str | None = None
    paths: tuple[GraphPath, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The shown part of a result. ``top_k`` is the number of evidence passages the answerer was given."""

    question: str
    system: str
    features: QueryFeatures
    profile_id: str
    profile_reason: str
    top_k: int
    weights: WeightSteps
    channels: tuple[ChannelRun, ...]
    evidence: tuple[Evidence, ...]
    answer: Answer
    trace: Trace
    banners: tuple[str, ...] = ()
    cancelled: bool = False
    clarification: Clarification | None = None
    previous: str | None = None
    choice: str | None = None

    @staticmethod
    def of(result: Result, *, cancelled: bool = False) -> Turn:
        """The shown part of ``result``."""
        return Turn(
            question=result.query.text,
            system=result.system,
            features=result.features,
            profile_id=result.profile_id,
            profile_reason=result.profile_reason,
            top_k=result.plan.top_k,
            weights=result.weights,
            channels=tuple(
                ChannelRun(
                    channel=c.channel,
                    status=c.status,
                    n_hits=len(c.hits),
                    ms=c.ms,
                    error=c.error,
                    note=c.note,
                    paths=c.paths,
                )
                for c in result.channels
            ),
            evidence=tuple(replace(item, chunk=replace(item.chunk, text="")) for item in result.evidence),
            answer=result.answer,
            trace=replace(result.trace, decisions=tuple(replace(d, data={}) for d in result.trace.decisions)),
            banners=result.banners,
            cancelled=cancelled,
            clarification=result.clarification,
            previous=result.query.previous,
            choice=result.query.choice,
        )

    @property
    def whole_question(self) -> str:
        """What a next question follows on: a follow-up with what it took from the one before."""
        return self.features.standalone or self.question

    @property
    def segment(self) -> str:
        """The segment x(q), readable."""
        return segment_key(self.features.segment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a conversation: the question and either its answer or the reason why there is none."""

    id: str
    question: str
    asked_at: datetime
    turn: Turn | None = None
    error: str | None = None


ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)
