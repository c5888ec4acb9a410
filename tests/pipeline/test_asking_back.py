"""Asking back, relaxed conditions, dates in no calendar and follow-ups, through the pipeline and the terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag.__main__ import main as rag
from rag.assembly import build_pipeline
from rag.errors import SettingsError
from rag.pipeline import Pipeline
from rag.render import as_json, as_text
from tests.pipeline.support import asked, settings_for, stable, take_in, write_files

MARCH = "3월 방제 기록 보여줘"
LOG = """# 작업일지 {year}년 3월 11일

- 작성자: 김주임
- 작성일: {year}-03-11

## 방제 기록

2동 토마토에 {product} 2000배액을 240L 살포했다. 살포 뒤 2시간 동안 환기했다.
"""
PUBLIC = {
    "딸기_EC.md": "# 딸기 급액 EC\n\n작물: 딸기\n\n딸기 착과기 급액 EC는 1.2dS/m로 둔다.\n",
    "토마토_EC.md": "# 토마토 급액 EC\n\n작물: 토마토\n\n토마토 착과기 급액 EC는 2.2dS/m로 둔다.\n",
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two work logs of the same day of two years, and a public document for each of two crops."""
    logs = {
        f"작업일지/{year}/{year}-03-11_작업일지_김주임.md": LOG.format(year=year, product=product)
        for year, product in ((2025, "아지란"), (2026, "신밧드"))
    }
    sources = tmp_path / "sources"
    assert take_in(tmp_path / "store", "public", write_files(sources / "public", PUBLIC)) == 0
    assert take_in(tmp_path / "store", "haetsal", write_files(sources / "farm", logs)) == 0
    return tmp_path / "store"


@pytest.fixture
def pipe(store: Path) -> Pipeline:
    return build_pipeline(settings_for(store))


def shown(capsys: pytest.CaptureFixture[str], store: Path, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = rag([*arguments, "--farm", "haetsal", "--store", str(store)])
    out, err = capsys.readouterr()
    return code, out, err


def form_of(capsys: pytest.CaptureFixture[str], store: Path, *arguments: str) -> dict[str, Any]:
    form: dict[str, Any] = json.loads(shown(capsys, store, *arguments, "--json")[1])
    return form


class TestAskingBack:
    def test_it_answers_and_tells_what_it_would_ask(self, pipe: Pipeline) -> None:
        result = pipe.ask(asked(MARCH))
        assert result.clarification == pipe.clarification(asked(MARCH))
        assert result.clarification is not None
        assert [value for _, value in result.clarification.options] == [
            "2025-03-01/2025-03-31",
            "2026-03-01/2026-03-31",
        ]
        assert "신밧드" in result.answer.text  # the nearest March, as before
        assert any(d.stage == "clarify" for d in result.trace.decisions)
        assert "? '3월' 자료가 여러 해에 있습니다." in as_text(result, explain=True)

    def test_a_choice_is_part_of_the_question(self, pipe: Pipeline) -> None:
        query = replace(asked(MARCH), choice="2025-03-01/2025-03-31")
        result = pipe.ask(query)
        assert "아지란" in result.answer.text
        assert "신밧드" not in result.answer.text
        assert result.clarification is None
        assert result.features.slots[0].rule == "choice"
        assert stable(result) == stable(pipe.ask(query))

    def test_no_choice_is_as_without_asking(self, pipe: Pipeline) -> None:
        declined, plain = pipe.ask(replace(asked(MARCH), choice="")), pipe.ask(asked(MARCH))
        assert declined.answer == plain.answer
        assert declined.clarification is None

    def test_a_wrong_choice_names_the_options(self, pipe: Pipeline) -> None:
        with pytest.raises(SettingsError, match=r"1\) 2025년 3월 2\) 2026년 3월"):
            pipe.ask(replace(asked(MARCH), choice="2019"))

    def test_nothing_to_ask(self, pipe: Pipeline) -> None:
        assert pipe.clarification(asked("작년 3월 방제 기록")) is None

    def test_a_crop_is_chosen(self, pipe: Pipeline) -> None:
        question = asked("급액 EC 얼마로 맞추면 되나요")
        back = pipe.clarification(question)
        assert back is not None
        assert [value for _, value in back.options] == ["딸기", "토마토"]
        assert "2.2dS/m" in pipe.ask(replace(question, choice="토마토")).answer.text


class TestTerminal:
    @pytest.mark.parametrize("choice", ["1", "2025-03-01/2025-03-31", "2025년 3월"])
    def test_choice_by_number_value_or_label(
        self, store: Path, capsys: pytest.CaptureFixture[str], choice: str
    ) -> None:
        form = form_of(capsys, store, MARCH, "--choice", choice)
        assert form["choice"] == "2025-03-01/2025-03-31"
        assert form["clarification"] is None
        assert "아지란" in form["answer"]

    def test_json_tells_the_question_back(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        back = form_of(capsys, store, MARCH)["clarification"]
        assert back["slot"] == "date"
        assert back["options"][0] == {"label": "2025년 3월", "value": "2025-03-01/2025-03-31"}

    def test_wrong_choice(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = shown(capsys, store, MARCH, "--choice", "7")
        assert (code, out) == (2, "")
        assert "1) 2025년 3월 2) 2026년 3월" in err

    def test_choice_without_a_question_back(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _, _, err = shown(capsys, store, "작년 3월 방제 기록", "--choice", "1")
        assert "되묻는 질문이 없어" in err

    @pytest.mark.parametrize(("typed", "choice"), [(["9", "1"], "아지란"), ([""], "신밧드")])
    def test_a_terminal_is_asked(
        self,
        store: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        typed: list[str],
        choice: str,
    ) -> None:
        answers = iter(typed)
        monkeypatch.setattr("rag.__main__.is_interactive", lambda: True)
        monkeypatch.setattr("builtins.input", lambda _: next(answers))
        _, out, _ = shown(capsys, store, MARCH)
        assert "1) 2025년 3월" in out
        assert choice in out

    def test_previous(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        form = form_of(capsys, store, "그럼 딸기는?", "--previous", "토마토 착과기 급액 EC 얼마예요?")
        assert "1.2dS/m" in form["answer"]
        assert form["features"]["standalone"] == "딸기 착과기 급액 EC 얼마예요?"
        assert [s["rule"] for s in form["features"]["slots"]] == ["lexicon.작물", "inherited.lexicon.생육단계"]
        assert form["features"]["slots"][1]["text"] == "착과기"


class TestConditions:
    def test_a_day_in_no_calendar_is_told_and_no_other_day_answers(self, pipe: Pipeline) -> None:
        result = pipe.ask(asked("2월 30일 방제 기록 보여줘"))
        assert any("'2월 30일'은(는) 달력에 없는 날짜" in note for note in result.answer.notes)
        assert result.answer.refused  # records of some other day are no answer
        assert result.answer.refused
        assert result.answer.nearby
        assert any("달력에 없는" in note for note in as_json(result)["notes"])
        assert "달력에 없는" in as_text(result, explain=False)

    @pytest.mark.parametrize("text", ["2019년 3월 방제 기록", "작년 3월 9동 방제 기록", "작년 3월 박반장 방제 기록"])
    def test_another_day_house_or_person_is_near_and_no_answer(self, pipe: Pipeline, text: str) -> None:
        answer = pipe.ask(asked(text)).answer
        assert answer.refused
        assert "맞는 자료가 없습니다" in answer.notes[0]
        assert answer.nearby

    def test_another_kind_is_answered_with_a_note(self, pipe: Pipeline) -> None:
        result = pipe.ask(asked("작년 3월 방제 점검표"))
        assert "아지란" in result.answer.text
        assert result.answer.notes == ("문서 종류 '점검표' 조건을 빼고 찾았습니다.",)
        assert any(d.stage == "filters" for d in result.trace.decisions)

    def test_another_farm_stays_unknown(self, pipe: Pipeline) -> None:
        known, unknown = (pipe.ask(asked(f"{name} 2동 방제 기록")).answer for name in ("푸른들농장", "없는농장"))
        assert known == unknown
        assert known.refused
