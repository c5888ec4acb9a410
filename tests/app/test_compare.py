"""The compare page: both sides, moves, weights, the sentence, gold only for whom it is meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest
from streamlit.testing.v1 import AppTest

from eval.questions import Question
from rag.assembly import build_pipeline
from rag.pipeline import Pipeline
from rag.profile_table import load
from rag.schema import CHANNEL_LABELS, CHANNELS, Query, Scope, Weights, WeightSteps
from rag.settings import load_settings
from rag.ui.comparison import gold_of, hit_place, move_mark, moves, ndcg, what_changed
from rag.ui.components.ranking import slope_rows
from rag.ui.turn import Turn
from tests.app.conftest import bodies, page_text, press

NewApp = Callable[..., AppTest]
WHY = "토마토 배꼽썩음과 왜 생기고 뭘 해야 돼?"
# The row in force for WHY.
ROW = load(load_settings().profiles).segments["relational", "short", False, True]
TOMATO = "public/토마토_배꼽썩음과.md"


@pytest.fixture
def compare_page(new_app: NewApp) -> Callable[..., AppTest]:
    def start(**parameters: str) -> AppTest:
        return new_app(**parameters).switch_page("rag/ui/compare.py").run()

    return start


def compare(app: AppTest, question: str) -> AppTest:
    app.text_input[0].set_value(question)
    return next(button for button in app.button if button.label == "비교하기").click().run()


def test_both_sides_from_one_run(compare_page: NewApp, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    original = Pipeline.compare

    def counted(self: Pipeline, query: Query, systems: tuple[str, ...], **rest: object) -> object:
        asked.append(systems)
        return original(self, query, systems, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Pipeline, "compare", counted)
    app = compare(compare_page(), WHY)
    assert not app.exception
    assert asked == [("uniform", "adaptive")]
    text = page_text(app)
    assert text.count("칼슘 부족으로 생긴다") >= 2
    assert text.count("33.3 %") == 3
    assert all(f"{ROW.weights[channel]:.1%}".replace("%", " %") in text for channel in CHANNELS)
    assert text.count("(가중치 ") == 2
    moved = max(CHANNELS, key=lambda channel: abs(ROW.weights[channel] - 1 / 3))
    assert f"{CHANNEL_LABELS[moved]}의 몫이 33.3%에서 {ROW.weights[moved]:.1%}로" in text.replace("\\", "")
    assert any("(의1 " in body and "관1)" in body for body in bodies(app))
    assert app.get("vega_lite_chart") or app.get("arrow_vega_lite_chart")


def test_baseline_is_a_third_side(compare_page: NewApp) -> None:
    app = compare_page()
    app.checkbox[0].set_value(True)
    app = compare(app, WHY)
    text = page_text(app)
    assert text.count("(가중치 ") == 3
    assert text.count("50.0 %") == 2  # vector and BM25 of the baseline
    assert "기준" in text


def test_citation_opens_on_its_own_side(compare_page: NewApp) -> None:
    app = press(compare(compare_page(), WHY), "cite-compare-")
    assert sum("<mark>" in body for body in bodies(app)) == 1


def test_example_fills_the_question(compare_page: NewApp) -> None:
    app = compare_page()
    examples = next(box for box in app.selectbox if box.label == "예시")
    app = examples.set_value(WHY).run()
    assert app.text_input[0].value == WHY


def test_empty_question_is_asked_for(compare_page: NewApp) -> None:
    app = compare(compare_page(), "   ")
    assert "질문을 적어 주세요" in app.info[0].value


def test_switching_the_farm_hides_the_comparison(compare_page: NewApp) -> None:
    app = compare(compare_page(farm="pureun"), "우리 파프리카 배액률은 얼마였어?")
    assert "37.4%" in page_text(app)
    app = app.sidebar.selectbox[0].set_value("haetsal").run()
    assert "37.4" not in page_text(app)


def question(farm: str | None = None, text: str = WHY) -> Question:
    asked_at = load_settings().now()
    return Question(
        id="T1",
        question=text,
        farm=farm,
        asked_at=asked_at,
        kind="원인",
        crop="토마토",
        answerable=True,
        fact_ids=(("f",),),
        expect=(("칼슘",),),
        near_miss=None,
        note="",
        gold=((TOMATO,),),
    )


def test_known_question_shows_ndcg_and_the_hit(compare_page: NewApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = compare_page()
    assert "nDCG" not in page_text(compare(app, WHY))
    known = (question(),)
    monkeypatch.setattr("rag.ui.comparison._known_questions", lambda: known)
    text = page_text(compare(app, WHY))
    assert text.count("nDCG@10 **1.000** · 적중 순위 **1위**") == 2
    assert "✓ 정답 문서" in text


def test_gold_is_for_the_asker_it_was_written_for(new_app: NewApp, monkeypatch: pytest.MonkeyPatch) -> None:
    new_app()
    known = (question("pureun"),)
    monkeypatch.setattr("rag.ui.comparison._known_questions", lambda: known)
    today = date(2026, 12, 1)
    assert gold_of(WHY.replace(" ", ""), Scope(farm_id="pureun"), today) == ((TOMATO,),)
    assert gold_of(WHY, Scope(farm_id="haetsal"), today) == ()
    assert gold_of(WHY, Scope(), today) == ()
    assert gold_of(WHY, Scope(farm_id="pureun"), date(2026, 3, 1)) == ()


def test_hit_place_and_ndcg_count_documents() -> None:
    assert hit_place(["a", "b", "c"], (("x", "c"), ("b",))) == 2
    assert hit_place(["a"], (("x",),)) is None
    assert ndcg(["a", "b"], (("a",),)) == 1.0
    assert ndcg(["a", "b"], (("b",),)) == pytest.approx(1 / 1.5849625)


@pytest.mark.parametrize(("before", "after", "mark"), [(None, 3, "새로"), (3, 3, "="), (4, 1, "▲3"), (1, 4, "▼3")])
def test_move_marks(before: int | None, after: int, mark: str) -> None:
    assert move_mark(before, after) == mark


@pytest.fixture
def turn(new_app: NewApp) -> Turn:
    new_app()
    settings = load_settings()
    query = Query(text=WHY, scope=Scope(farm_id="haetsal"), asked_at=settings.now())
    return Turn.of(build_pipeline(settings).ask(query, system="uniform"))


def test_what_changed_counts_moves(turn: Turn) -> None:
    assert what_changed(turn, turn) == "채널의 몫은 같고, 10위까지의 순서는 그대로입니다."
    assert len(turn.evidence) >= 3
    weights = Weights({CHANNELS[0]: 0.6, CHANNELS[1]: 0.2, CHANNELS[2]: 0.2})
    first, second, *rest = turn.evidence
    other = replace(
        turn, evidence=(second, first, *rest), weights=WeightSteps(raw=weights, bounded=weights, final=weights)
    )
    sentence = what_changed(turn, other)
    assert sentence.startswith("의미 검색의 몫이 33.3%에서 60.0%로 늘어, 1위가 ‘")
    assert sentence.endswith("10위 안에서 1개가 오르고 1개가 내렸으며 0개가 새로 들어왔습니다.")
    assert [(m.before, m.after, m.up) for m in moves(turn, other)][:2] == [(2, 1, 1), (1, 2, -1)]
    assert what_changed(turn, replace(turn, evidence=())) == "채널의 몫은 같고, 견줄 근거가 없습니다."


def test_slope_has_two_points_a_passage_and_a_place_for_those_outside(turn: Turn) -> None:
    shorter = replace(turn, evidence=turn.evidence[:1])
    rows = slope_rows(moves(turn, shorter), ("균등", "적응"))
    assert len(rows) == 2 * len(turn.evidence)
    assert rows[0]["순위"] == rows[1]["순위"] == 1
    assert {row["순위"] for row in rows[3::2]} == {11}
    assert {row["이동"] for row in rows[2:]} == {"내림"}
