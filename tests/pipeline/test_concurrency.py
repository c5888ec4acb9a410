"""Many sessions at once get what each would get alone; ingest and questions do not disturb one another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eval.questions import SETS_DIR, load_questions
from rag.assembly import build_pipeline
from rag.channels.base import Channel, Found
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.vector import VectorChannel
from rag.pipeline import Pipeline
from rag.schema import CHANNELS, VECTOR, PlannedQuery, Query, RetrievalPlan
from rag.stores.view import Views
from tests.pipeline.support import asked, command, finished, settings_for, stable, take_in, write_files

SESSIONS, QUESTIONS = 5, 10


def sessions() -> list[list[Query]]:
    """Five sessions of ten questions: two farms and the public part, some questions asked in all of them."""
    texts = [question.question for question in load_questions(SETS_DIR / "farm.jsonl")]
    shared, own = texts[:4], texts[4:]
    farms = ("haetsal", "pureun", None, "haetsal", "pureun")
    step = QUESTIONS - len(shared)
    return [
        [asked(text, farm) for text in [*shared, *own[number * step * 9 :: 9][:step]]]
        for number, farm in enumerate(farms)
    ]


def at_once(jobs: list[Callable[[], list[str]]]) -> list[list[str]]:
    """Run all jobs in threads of their own, started together."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], list[str]]) -> list[str]:
        start.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def test_five_sessions_at_once(pipeline: Pipeline) -> None:
    plans = sessions()
    assert [len(plan) for plan in plans] == [QUESTIONS] * SESSIONS
    alone = [[stable(pipeline.ask(query)) for query in plan] for plan in plans]
    together = at_once([lambda plan=plan: [stable(pipeline.ask(query)) for query in plan] for plan in plans])  # type: ignore[misc]
    assert together == alone


def test_first_questions_at_once(base: Path) -> None:
    """Views are opened by whoever asks first."""
    plans = sessions()
    fresh = build_pipeline(settings_for(base))
    together = at_once([lambda plan=plan: [stable(fresh.ask(plan[0]))] for plan in plans])  # type: ignore[misc]
    again = build_pipeline(settings_for(base))
    assert together == [[stable(again.ask(plan[0]))] for plan in plans]


def test_inside_a_running_event_loop(pipeline: Pipeline) -> None:
    text = "딸기 수확 후기 급액 EC 얼마로 낮춰요?"

    async def both() -> tuple[list[str], list[str], str]:
        waited = [node.node_id for node in await pipeline.retriever.aretrieve(text)]
        plain = [node.node_id for node in pipeline.retriever.retrieve(text)]
        return waited, plain, stable(pipeline.ask(asked(text, None)))

    waited, plain, answer = asyncio.run(both())
    assert waited == plain == [node.node_id for node in pipeline.retriever.retrieve(text)]
    assert waited
    assert answer == stable(pipeline.ask(asked(text, None)))


def test_many_tasks_of_one_loop(pipeline: Pipeline) -> None:
    texts = [plan[-1].text for plan in sessions()]

    async def all_at_once() -> list[list[str]]:
        found = await asyncio.gather(*(pipeline.retriever.aretrieve(text) for text in texts))
        return [[node.node_id for node in nodes] for nodes in found]

    alone = [[node.node_id for node in pipeline.retriever.retrieve(text)] for text in texts]
    assert asyncio.run(all_at_once()) == alone


@pytest.mark.slow
def test_questions_while_another_process_ingests(own_store: Path, tmp_path: Path) -> None:
    new = {
        f"{n}.md": f"# 순환식 점검 {n}호기\n\n순환식 점검 {n}호기의 밸브는 {n + 10}분마다 연다.\n" for n in range(1, 5)
    }
    folder = write_files(tmp_path / "new", new)
    pipeline = build_pipeline(settings_for(own_store))
    queries = [query for plan in sessions()[:2] for query in plan[:5]]
    before = [stable(pipeline.ask(query)) for query in queries]
    others = [n for n, query in enumerate(queries) if query.scope.farm_id == "pureun"]
    process = command("-m", "ingest", str(folder), "--farm", "haetsal", "--store", str(own_store))
    rounds = 0
    while process.poll() is None or not rounds:
        results = [pipeline.ask(query) for query in queries]
        for result in results:
            assert {c.channel: c.status for c in result.channels}.keys() == set(CHANNELS)
            assert {c.status for c in result.channels} <= {"ok", "empty"}
            assert not result.banners
        assert [stable(results[n]) for n in others] == [before[n] for n in others]  # another farm notices nothing
        rounds += 1
    code, _, err = finished(process)
    assert code == 0, err
    answer = pipeline.ask(asked("순환식 점검 3호기 밸브는 몇 분마다 열어?")).answer
    assert "13분마다" in answer.text
    assert any(c.doc_id == "farm:haetsal/3.md" for sentence in answer.sentences for c in sentence.citations)
    assert pipeline.ask(asked("순환식 점검 3호기 밸브는 몇 분마다 열어?", "pureun")).answer.text.find("13분마다") < 0


@pytest.mark.parametrize("change", ["added", "replaced", "removed", "rebuilt"])
def test_the_index_changes_in_the_middle_of_a_question(small_store: Path, tmp_path: Path, change: str) -> None:
    """Between reading a question and searching, another process puts a new state in force."""
    text = "# 딸기 수확기 급액 EC 기준\n\n딸기 수확기 급액 EC는 1.4dS/m로 둔다.\n"
    folder = write_files(tmp_path / "new", {"딸기_EC.md" if change == "replaced" else "새_딸기.md": text})

    def disturb() -> None:
        if change in ("added", "replaced"):
            assert take_in(small_store, "public", folder) == 0
        elif change == "removed":
            assert take_in(small_store, "public", options=("--remove", "딸기_EC.md")) == 0
        else:
            assert take_in(small_store, "public", options=("--rebuild",)) == 0

    changed = threading.Event()

    class After:
        """A channel that searches once the index has changed; the vector channel's part is to change it."""

        def __init__(self, channel: Channel) -> None:
            self.name = channel.name
            self._channel = channel

        def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
            if self.name == VECTOR and not changed.is_set():
                disturb()
                changed.set()
            changed.wait()
            return self._channel.search(plan, query)

    changed.set()
    views = Views(small_store, {})
    channels = tuple(map(After, (VectorChannel(views), Bm25Channel(views), GraphChannel(views))))
    pipeline = build_pipeline(settings_for(small_store), channels=channels)
    pipeline.ask(asked("토마토 야간 온도?"))  # the view is open
    changed.clear()
    for query in (asked("딸기 수확기 급액 EC는?"), asked("딸기 수확기 급액 EC는?", None)):
        result = pipeline.ask(query)
        assert not result.banners
        assert set(result.query.scope.visible) >= {item.chunk.scope_id for item in result.evidence}
    last = pipeline.ask(asked("딸기 수확기 급액 EC는?"))
    found = " ".join(item.chunk.text for item in last.evidence.items)
    assert ("1.4dS/m" in found) == (change in ("added", "replaced"))
    assert ("1.2dS/m" in found) == (change in ("added", "rebuilt"))
    assert ("1.2dS/m" in last.answer.text) <= (change in ("added", "rebuilt"))
