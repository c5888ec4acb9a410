"""The loop around a doubtful answer: looked at again at most twice, with a wider plan, the best round kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag.answering.compose import EXTRACTIVE, Composed, Composer
from rag.assembly import build_pipeline
from rag.pipeline import Pipeline
from rag.schema import Answer, CitedSentence, Result
from rag.uncertainty import Doubt, UncertaintyModel
from tests.pipeline.support import asked, settings_for, stable

QUESTION = "딸기 급액 EC는 얼마로 둬요?"


@pytest.fixture(scope="module")
def looking(base: Path) -> Pipeline:
    return build_pipeline(settings_for(base), second_look=True)


def rounds(monkeypatch: pytest.MonkeyPatch, *uncertainties: float) -> list[dict[str, Any]]:
    """Answers of these uncertainties, round by round (τ 0.5); returns what each round was asked with."""
    seen: list[dict[str, Any]] = []

    def compose(self: Composer, question: Any, plan: Any, *rest: Any, **options: Any) -> Composed:
        number = len(seen)
        seen.append({"queries": [one.text for one in plan.queries], "effort": question.features.effort, "plan": plan})
        answer = Answer(sentences=(CitedSentence(text=f"답 {number}"),), refused=False, answerer="extractive")
        doubt = Doubt(entropy=0.5, coverage=0.5, missing=("배액률",))
        return Composed(answer=answer, doubt=doubt, uncertainty=uncertainties[number], threshold=0.5)

    monkeypatch.setattr(Composer, "compose", compose)
    return seen


def text(result: Result) -> str:
    return result.answer.text


def test_a_certain_answer_is_not_looked_at_again(looking: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = rounds(monkeypatch, 0.49)
    result = looking.ask(asked(QUESTION))
    assert (len(seen), text(result), result.answer.notes) == (1, "답 0", ())


def test_a_better_round_ends_the_loop_and_is_kept(looking: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = rounds(monkeypatch, 0.8, 0.6, 0.1)
    result = looking.ask(asked(QUESTION))
    assert (len(seen), text(result)) == (2, "답 1")
    assert result.answer.notes == ("근거가 약해 다시 찾았습니다(1번).",)
    assert seen[1]["queries"][:-1] == seen[0]["queries"]
    assert "배액률" in seen[1]["queries"][-1]
    assert [seen[0]["effort"], seen[1]["effort"]] in (["low", "medium"], ["medium", "high"])
    assert seen[1]["plan"].top_k > seen[0]["plan"].top_k
    assert seen[1]["plan"].filters == seen[0]["plan"].filters
    assert [d.what for d in result.trace.decisions if d.stage == "uncertainty"] == [
        f"다시 찾기: {seen[1]['queries'][-1]}"
    ]


def test_at_most_two_rounds_and_the_first_of_equals(looking: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = rounds(monkeypatch, 0.8, 0.9, 0.8, 0.0)
    result = looking.ask(asked(QUESTION))
    assert (len(seen), text(result)) == (3, "답 0")
    assert result.answer.notes == ("근거가 약해 다시 찾았습니다(2번).",)


def test_without_the_setting_there_is_one_round(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = rounds(monkeypatch, 0.9)
    assert text(pipeline.ask(asked(QUESTION))) == "답 0"
    assert len(seen) == 1


def test_without_a_new_query_only_more_is_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = rounds(monkeypatch, 0.8, 0.1)
    build_pipeline(settings_for(base), second_look=True, requery=False).ask(asked(QUESTION))
    assert seen[1]["queries"] == seen[0]["queries"]
    assert seen[1]["plan"].top_k > seen[0]["plan"].top_k


def test_the_real_answers_carry_their_doubt_and_repeat(looking: Pipeline) -> None:
    model = UncertaintyModel(alpha=0.5, beta=0.5, tau=0.0, auroc=0.5)
    composer = looking._composer
    before = dict(composer._models)
    composer._models[EXTRACTIVE] = replace(model)
    try:
        first, second = (looking.ask(asked(QUESTION)) for _ in range(2))
    finally:
        composer._models.clear()
        composer._models.update(before)
    assert stable(first) == stable(second)
    told = [d for d in first.trace.decisions if d.stage == "uncertainty" and "entropy" in d.data]
    assert len(told) >= 2
    for decision in told:
        assert 0 <= decision.data["entropy"] <= 1
        assert 0 <= decision.data["coverage"] <= 1
        assert decision.data["u"] == pytest.approx(
            0.5 * decision.data["entropy"] + 0.5 * (1 - decision.data["coverage"])
        )
