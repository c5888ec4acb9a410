"""Further words, sub-questions and the count of unknown words, through the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.assembly import build_pipeline
from rag.errors import GenerationError
from rag.pipeline import Pipeline
from rag.query.refine import Refiner
from rag.render import as_text
from rag.schema import BM25, GRAPH, Result
from rag.stores.farm_words import COUNTS, WORDS
from tests.pipeline.support import asked, settings_for, stable, take_in, write_files
from tests.query.test_refine import FakeModel, says

LOG = "# 작업일지\n\n- 작성일: {day}\n\n2동 토마토 배액률은 {value}% 였다. 급액 EC는 2.{value} 이다.\n"
FILES = {
    "가루이.md": "# 온실가루이\n\n온실가루이는 노란 끈끈이로 잡는다.\n",
    "코이어.md": "# 코이어 배지\n\n코이어 배지는 급액을 하루 여섯 번 준다.\n",
    "암면.md": "# 암면 배지\n\n암면 배지는 급액을 하루 스무 번 준다.\n",
}
COMPARES = "코이어 배지랑 암면 배지 급액 횟수 차이"
YEARS = "작년 3월이랑 올해 3월 2동 배액률 비교해줘"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    logs = {
        f"작업일지/{day}_작업일지_김주임.md": LOG.format(day=day, value=value)
        for day, value in (("2025-03-11", 24), ("2026-03-11", 31))
    }
    assert take_in(tmp_path / "store", "public", write_files(tmp_path / "public", FILES)) == 0
    assert take_in(tmp_path / "store", "haetsal", write_files(tmp_path / "farm", logs)) == 0
    return tmp_path / "store"


@pytest.fixture
def pipe(store: Path) -> Pipeline:
    return build_pipeline(settings_for(store))


def decisions(result: Result, stage: str) -> list[str]:
    return [f"{d.what} — {d.why}" for d in result.trace.decisions if d.stage == stage]


def test_the_trace_says_what_was_added_and_why(pipe: Pipeline) -> None:
    result = pipe.ask(asked("가루이 어떻게 잡아요?"))
    assert dict(result.plan.queries[0].expansions)["온실가루이"] == 0.3
    (added,) = decisions(result, "expand")
    assert "온실가루이(0.3, 병해충·narrower ← 가루이류)" in added
    assert added.split("— ")[1] in as_text(result, explain=True)
    found = {r.channel: {hit.chunk_id for hit in r.hits} for r in result.channels}
    titles = {item.chunk.chunk_id for item in result.evidence if item.chunk.title == "온실가루이"}
    assert titles <= found[BM25]
    assert titles <= found[GRAPH]


def test_each_side_is_searched_beside_the_whole(pipe: Pipeline) -> None:
    result = pipe.ask(asked(COMPARES))
    assert [q.text for q in result.plan.queries] == [COMPARES, "코이어 배지 급액 횟수", "암면 배지 급액 횟수"]
    assert [q.share for q in result.plan.queries] == [1.0, 0.25, 0.25]
    assert len(result.channels) == 9
    assert "하위 질문 2개" in decisions(result, "expand")[-1]
    ids = [item.chunk.chunk_id for item in result.evidence]
    assert len(set(ids)) == len(ids)


def test_each_year_is_searched_in_its_own_year(pipe: Pipeline) -> None:
    result = pipe.ask(asked(YEARS))
    years = [sorted({first.year for first, _ in q.filters.periods}) if q.filters else None for q in result.plan.queries]
    assert years == [None, [2025], [2026]]
    assert [len(r.hits) > 0 for r in result.channels] == [True] * 9


def test_both_can_be_switched_off(store: Path, pipe: Pipeline) -> None:
    bare = build_pipeline(settings_for(store), expansion=False, decomposition=False)
    for text in (COMPARES, YEARS, "가루이 어떻게 잡아요?"):
        (query,) = bare.ask(asked(text)).plan.queries
        assert query.expansions == ()
        assert query.filters is None
        assert stable(pipe.ask(asked(text))) == stable(pipe.ask(asked(text)))


def test_the_refiner_is_off_and_never_required(store: Path, pipe: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = pipe.ask(asked(COMPARES))
    assert decisions(rules, "refine") == []
    monkeypatch.setattr(pipe, "_refiner", Refiner(FakeModel(error=GenerationError("멈춤")), timeout_s=1))  # type: ignore[arg-type]
    failed = pipe.ask(asked(COMPARES))
    assert stable(failed) == stable(rules)
    assert "멈춤" in decisions(failed, "refine")[0]
    model = FakeModel(says(["코이어 급액", "암면 급액"], ["관수"]))
    monkeypatch.setattr(pipe, "_refiner", Refiner(model, timeout_s=1))  # type: ignore[arg-type]
    assert [q.text for q in pipe.ask(asked(COMPARES)).plan.queries][1:] == ["코이어 급액", "암면 급액"]


def test_unknown_words_are_counted_where_they_were_asked_and_only_if_wanted(store: Path) -> None:
    public, farm = store / "public" / COUNTS, store / "farms" / "haetsal" / COUNTS
    build_pipeline(settings_for(store)).ask(asked("번데기 생김새"))  # as in evaluation
    build_pipeline(settings_for(store, count_words=False), count_words=True).ask(asked("번데기 생김새"))
    assert not public.exists()
    assert not farm.exists()
    counting = build_pipeline(settings_for(store), count_words=True)
    counting.ask(asked("가루이 번데기 생김새"))
    assert farm.read_text(encoding="utf-8") == "번데기\t1\n생김새\t1\n"
    assert not public.exists()
    counting.ask(asked("번데기 크기", None))
    assert "번데기\t1\n" in public.read_text(encoding="utf-8")


def test_an_accepted_word_is_searched_as_its_term_on_its_own_farm_only(store: Path) -> None:
    text = "번데기파리 어떻게 잡아요?"
    row = "word\ttype\talias_of\tnote\n번데기파리\t해충\t온실가루이\t\n"
    (store / "farms" / "haetsal" / WORDS).write_text(row, encoding="utf-8")
    pipe = build_pipeline(settings_for(store))
    assert "온실가루이" in dict(pipe.ask(asked(text)).plan.queries[0].expansions)
    assert pipe.ask(asked(text, None)).plan.queries[0].expansions == ()


def test_a_broken_list_of_words_fails_no_question(store: Path) -> None:
    (store / "farms" / "haetsal" / WORDS).write_text("head\nbroken\n", encoding="utf-8")
    result = build_pipeline(settings_for(store)).ask(asked("가루이 어떻게 잡아요?"))
    assert "words.tsv 2행" in decisions(result, "expand")[0]
