"""Reading scores: the formulas on three questions, and the development half above its thresholds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.slots import Case, Reading, error_lines, load_cases, run_slots, scores, stem
from rag.schema import Query

# Of the development half. The figures reported come from the other half.
LOWEST = {
    "slot_f1": 0.99,
    "keyword_f1": 0.95,
    "intent_accuracy": 0.98,
    "ask_back_precision": 0.97,
    "ask_back_recall": 0.97,
    "span_accuracy": 0.99,
}


@pytest.fixture(scope="module")
def case() -> Case:
    return replace(
        load_cases()[0],
        slots=(("crop", "딸기", "딸기"), ("house", "2동", "2동")),
        keywords=("EC", "맞추다"),
        intent="factual",
        asked=("crop", frozenset({"딸기", "오이"})),
    )


def reading(case: Case, **changes: object) -> Reading:
    said = Reading(case=case, slots=case.slots, keywords=case.keywords, intent=case.intent, asked=case.asked, ms=1.0)
    return replace(said, **changes)  # type: ignore[arg-type]


def test_right_in_everything(case: Case) -> None:
    assert scores([reading(case)]) == dict.fromkeys(LOWEST, 1.0)
    assert error_lines([reading(case)]) == []


def test_f1_counts_pairs_and_stems(case: Case) -> None:
    found = scores(
        [reading(case, slots=(("crop", "딸기", "딸기"), ("house", "3동", "3동")), keywords=("맞추", "농도", "EC"))]
    )
    assert found["slot_f1"] == pytest.approx(0.5)  # 2·1/(2 + 2)
    assert found["keyword_f1"] == pytest.approx(0.8)  # 2·2/(3 + 2)
    assert stem("맞추다") == stem("맞추") == "맞추"


def test_a_value_that_was_read_off_other_words_is_right_but_not_its_span(case: Case) -> None:
    found = scores([reading(case, slots=(("crop", "딸기", "딸끼"), ("house", "2동", "2동")))])
    assert (found["slot_f1"], found["span_accuracy"]) == (1.0, 0.5)


def test_asking_needs_the_slot_and_all_options(case: Case) -> None:
    silent = replace(case, asked=None)
    readings = [
        reading(case),
        reading(case, asked=("crop", frozenset({"딸기"}))),
        reading(case, asked=None),
        reading(silent, asked=("crop", frozenset({"딸기", "오이"}))),
    ]
    found = scores(readings)
    assert found["ask_back_precision"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["ask_back_recall"] == pytest.approx(1 / 3, abs=1e-4)
    assert "ask_back_recall" not in scores([reading(silent)])


def test_errors_name_what_is_missing_and_what_is_too_much(case: Case) -> None:
    (line,) = error_lines([reading(case, slots=(("crop", "오이", "오이"),), intent="relational", asked=None)])
    for part in ("−crop=딸기", "−house=2동", "+crop=오이", "의도 relational (정답 factual)", "되묻기 없음"):
        assert part in line


def test_every_case_keeps_its_half() -> None:
    cases = load_cases()
    assert {c.split for c in cases} == {"dev", "test"}
    assert len({c.id for c in cases}) == len(cases)
    assert all(isinstance(c.query, Query) for c in cases)


def test_development_half_stays_above_its_thresholds() -> None:
    report, _ = run_slots("dev")
    low = {name: report[name] for name, least in LOWEST.items() if report[name] < least}
    assert not low


def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slots.json"
    assert main(["slots", "--split", "dev", "--errors", "--json", str(file)]) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["n_questions"] == sum(row["n_questions"] for row in report["kinds"].values())
    assert set(report["latency_ms"]) == {"median", "p95"}
    assert "읽는 시간" in capsys.readouterr().out
