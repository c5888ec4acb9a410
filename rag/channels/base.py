"""The channel contract (this docstring is the source of truth) and the runner that isolates channels.

A channel answers ``search(plan, query)`` with hits in rank order, at most ``plan.depth[name]`` of them, every one
inside ``plan.scope`` and passing ``plan.filters``. It raises :class:`ChannelUnavailable` when it cannot work; any
other exception is treated the same. It never changes the plan, keeps nothing between questions, and returns the same
hits for the same plan on the same data. An empty result is not an error. A channel that must not be asked says so by
``skipped`` and a note; one that finds chunks outside every scope folder (the web) brings them along as ``passages``.
``tests/contract`` checks all of this for every channel of the index, ``tests/channels/test_web.py`` for the web.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rag.errors import ChannelUnavailable, RagError
from rag.schema import ChannelResult, GraphPath, Hit, Passage, PlannedQuery, RetrievalPlan
from rag.tracing import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a channel returns: hits in rank order, best paths (graph), a remark for the trace.

    ``passages``: the chunks of hits that no scope holds; ``skipped``: the question was none for this channel (no hits).
    """

    hits: tuple[Hit, ...]
    paths: tuple[GraphPath, ...] = ()
    note: str | None = None
    passages: tuple[Passage, ...] = ()
    skipped: bool = False


class Channel(Protocol):
    """See the module docstring."""

    @property
    def name(self) -> str:
        """Reference name of the channel."""

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        """Ranked hits for one (sub-)question of the plan."""


def run_channels(channels: Sequence[Channel], plan: RetrievalPlan, recorder: Recorder) -> tuple[ChannelResult, ...]:
    """Run every channel for every query of the plan at the same time; never raises.

    Results come in the order (query, channel). A channel that raises is ``failed``, one that does not answer within
    ``plan.timeout_s`` seconds is ``timeout``; both carry a Korean message. Each call has a daemon thread of its own:
    one that hangs keeps neither later questions nor the end of the process waiting.
    """
    jobs = [(channel, query) for query in plan.queries for channel in channels]
    outcomes: list[ChannelResult | None] = [None] * len(jobs)

    def work(index: int, channel: Channel, query: PlannedQuery) -> None:
        outcomes[index] = _timed(channel, plan.of(query), query, recorder)

    threads = [
        threading.Thread(target=work, args=(index, *job), name=f"channel-{job[0].name}", daemon=True)
        for index, job in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    deadline = time.perf_counter() + plan.timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.perf_counter()))
    return tuple(outcomes[i] or _timeout(channel.name, plan) for i, (channel, _) in enumerate(jobs))


def _timed(channel: Channel, plan: RetrievalPlan, query: PlannedQuery, recorder: Recorder) -> ChannelResult:
    start = time.perf_counter()
    try:
        found = channel.search(plan, query)
        hits = tuple(hit for hit in found.hits if hit.scope_id in plan.scope.visible)
        if len(hits) != len(found.hits):
            raise ChannelUnavailable("허용되지 않은 자료가 섞여 이 채널의 결과를 버렸습니다.")
        result = ChannelResult(
            channel=channel.name,
            status="ok" if hits else "skipped" if found.skipped else "empty",
            hits=hits,
            paths=found.paths,
            note=found.note,
            passages=found.passages,
        )
    except RagError as error:
        result = ChannelResult(channel=channel.name, status="failed", error=str(error))
    except Exception as error:  # a channel must never take the question down
        result = ChannelResult(
            channel=channel.name, status="failed", error=f"채널 오류: {type(error).__name__}: {error}"
        )
    end = time.perf_counter()
    recorder.add_span(f"channel:{channel.name}", start, end)
    return replace(result, ms=(end - start) * 1000, share=query.share)


def _timeout(name: str, plan: RetrievalPlan) -> ChannelResult:
    return ChannelResult(
        channel=name,
        status="timeout",
        ms=plan.timeout_s * 1000,
        error=f"{plan.timeout_s:g}초 안에 답하지 않아 빼고 계속했습니다.",
    )
