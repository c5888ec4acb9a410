"""The recorder: spans in order of time, decisions in order, from several threads."""

from __future__ import annotations

import threading
import time

import pytest

from rag.schema import Decision, Span, Trace
from rag.tracing import Recorder


def test_spans_stand_by_start_time() -> None:
    recorder = Recorder()
    now = time.perf_counter()
    recorder.add_span("late", now + 2, now + 3)
    recorder.add_span("early", now, now + 1)
    late, early = recorder.freeze().spans[::-1]
    assert (early.stage, late.stage) == ("early", "late")
    assert early.ms == pytest.approx(1000)
    assert late.start_ms - early.start_ms == pytest.approx(2000)


def test_a_stage_is_timed_also_when_it_raises() -> None:
    recorder = Recorder()
    with pytest.raises(RuntimeError), recorder.span("broken"):
        raise RuntimeError
    with recorder.span("slow"):
        time.sleep(0.02)
    broken, slow = recorder.freeze().spans
    assert (broken.stage, slow.stage) == ("broken", "slow")
    assert broken.start_ms >= 0
    assert slow.ms > 15
    assert broken.ms < slow.ms


def test_stages_that_ran_twice_are_summed() -> None:
    trace = Trace(
        spans=(Span(stage="a", start_ms=0, ms=1), Span(stage="b", start_ms=1, ms=5), Span(stage="a", start_ms=6, ms=2))
    )
    assert trace.latency_ms == {"a": 3, "b": 5}


def test_decisions_keep_their_order_and_data() -> None:
    recorder = Recorder()
    recorder.decide("profile", "p1", "because", segment="s")
    recorder.decide("policy", "p2", "because")
    assert recorder.freeze().decisions == (
        Decision(stage="profile", what="p1", why="because", data={"segment": "s"}),
        Decision(stage="policy", what="p2", why="because", data={}),
    )


def test_a_frozen_trace_does_not_grow() -> None:
    recorder = Recorder()
    trace = recorder.freeze()
    recorder.decide("a", "b", "c")
    assert trace.decisions == ()


def test_following_goes_on_after_the_last_span() -> None:
    earlier = Trace(
        spans=(Span(stage="a", start_ms=0, ms=1000), Span(stage="b", start_ms=4000, ms=1000)),
        decisions=(Decision(stage="a", what="b", why="c"),),
    )
    first, second = Recorder.following(earlier), Recorder.following(earlier)
    with first.span("c"):
        pass
    first.decide("c", "d", "e")
    trace = first.freeze()
    assert [span.stage for span in trace.spans] == ["a", "b", "c"]
    assert 5000 <= trace.spans[2].start_ms < 6000
    assert len(trace.decisions) == 2
    assert second.freeze() == earlier  # several may follow one


def test_following_an_empty_trace() -> None:
    assert Recorder.following(Trace()).freeze() == Trace()


def test_many_threads() -> None:
    recorder = Recorder()

    def work() -> None:
        for _ in range(50):
            with recorder.span("stage"):
                recorder.decide("stage", "what", "why")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = recorder.freeze()
    assert (len(trace.spans), len(trace.decisions)) == (400, 400)
    assert [span.start_ms for span in trace.spans] == sorted(span.start_ms for span in trace.spans)
