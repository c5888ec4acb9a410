"""The recorder behind a ``Trace``: one per question, passed along, frozen at the end. Thread-safe."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rag.schema import Decision, Span, Trace


class Recorder:
    """Collects spans and decisions of one question."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._decisions: list[Decision] = []

    @staticmethod
    def following(trace: Trace) -> Recorder:
        """A recorder that goes on from a finished trace (several systems share one run of the channels)."""
        recorder = Recorder()
        elapsed_ms = max((span.start_ms + span.ms for span in trace.spans), default=0.0)
        recorder._start -= elapsed_ms / 1000
        recorder._spans.extend(trace.spans)
        recorder._decisions.extend(trace.decisions)
        return recorder

    @contextmanager
    def span(self, stage: str) -> Iterator[None]:
        """Time the body as one stage, also when it raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add_span(stage, start, time.perf_counter())

    def add_span(self, stage: str, start: float, end: float) -> None:
        """Record a stage measured elsewhere (``perf_counter`` seconds)."""
        with self._lock:
            self._spans.append(Span(stage=stage, start_ms=(start - self._start) * 1000, ms=(end - start) * 1000))

    def decide(self, stage: str, what: str, why: str, **data: Any) -> None:
        """Record what a rule decided and why."""
        with self._lock:
            self._decisions.append(Decision(stage=stage, what=what, why=why, data=data))

    def freeze(self) -> Trace:
        """The finished trace, spans by start time."""
        with self._lock:
            return Trace(
                spans=tuple(sorted(self._spans, key=lambda s: (s.start_ms, s.stage))),
                decisions=tuple(self._decisions),
            )
