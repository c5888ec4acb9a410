"""The chat page: answers, citations, explanations, history, farms, hostile text, errors."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from rag.answering.calibration import Relevance
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.refusals import refusal
from rag.assembly import build_pipeline
from rag.errors import ScopeViolation, SettingsError
from rag.schema import Answer, Citation, CitedSentence, FusedEvidence, Query, Result, Scope
from rag.settings import load_settings
from rag.ui.components.answer import answer_html
from rag.ui.components.evidence import original_html, relevance_word
from rag.ui.components.weights import percentages, quoted
from rag.ui.escape import html_text, plain
from rag.ui.history import Chats, new_id
from rag.ui.jobs import Job
from rag.ui.library import Library
from rag.ui.turn import ENTRY, Entry, Turn
from tests.app.conftest import APP, CONFIG, DOCUMENTS, ask, bodies, page_text, press

NewApp = Callable[..., AppTest]
EC = "딸기 수확 후기에는 급액 EC 얼마로 낮춰요?"
SECRET = "우리 파프리카 배액률은 얼마였어?"


def panels(app: AppTest, *names: str) -> AppTest:
    group = app.button_group[0]
    return group.set_value(list(names)).run()


def test_first_run_offers_questions_and_shows_what_is_on_file(new_app: NewApp) -> None:
    app = new_app()
    assert not app.exception
    assert app.subheader[0].value == "무엇이 궁금하세요?"
    labels = [button.label for button in app.button]
    assert EC in labels
    assert not any("파프리카" in label for label in labels)
    assert app.sidebar.selectbox[0].options == ["햇살농원", "푸른들농장", "공용 자료만"]
    assert any("4문서" in caption.value for caption in app.sidebar.caption)
    assert any("추출" in caption.value for caption in app.sidebar.caption)


def test_a_suggestion_asks_its_question(new_app: NewApp) -> None:
    app = press(new_app(), f"suggest-{EC}")
    assert "1.0~1.2dS/m" in page_text(app)


def test_answer_has_the_figure_and_a_numbered_citation(new_app: NewApp) -> None:
    app = ask(new_app(), EC)
    assert not app.exception
    assert [message.name for message in app.chat_message] == ["user", "assistant"]
    answer = bodies(app)[1]
    assert "1.0~1.2dS/m" in answer
    assert "data-cite='cite-" in answer
    assert not app.chat_input[0].disabled


def test_citation_opens_its_card_and_closes_it(new_app: NewApp) -> None:
    app = press(ask(new_app(), EC), "cite-")
    card = "\n".join(bodies(app)[2:])
    assert "딸기 급액 EC 관리" in card
    assert "<mark>" in card
    assert "공용 자료" in card
    assert "관련도 " in card
    app = press(app, "cite-")
    assert "<mark>" not in page_text(app)


def test_neighbours_are_shown_on_demand(new_app: NewApp) -> None:
    app = press(ask(new_app(), EC), "cite-")
    assert "배액 EC는 주 1회 잰다." not in "\n".join(bodies(app)[2:])
    app = app.toggle[0].set_value(True).run()
    assert "배액 EC는 주 1회 잰다." in "\n".join(bodies(app)[2:])


def test_original_opens_with_the_sentence_marked(new_app: NewApp) -> None:
    app = press(press(ask(new_app(), EC), "cite-"), "original-")
    assert not app.exception
    text = "\n".join(bodies(app))
    assert "딸기_급액_EC.md" in text
    assert text.count("<mark>") == 2  # the card and the original
    assert "수확기의 급액 EC" in text
    assert app.get("download_button")


def test_why_shows_three_steps_of_weights_and_rows_of_100_percent(new_app: NewApp) -> None:
    app = panels(ask(new_app(), "토마토 배꼽썩음과 왜 생기고 뭘 해야 돼?"), "why")
    text = page_text(app)
    assert "원래" in text
    assert "한계 적용" in text
    weights, votes = (body for body in bodies(app) if "<table" in body)
    assert [name in weights for name in ("의미 검색", "키워드 검색", "관계 검색")] == [True] * 3
    rows = votes.count("<tr>") - 1
    assert rows >= 3
    assert votes.count("100.0 %") >= rows
    assert "relational" in text
    assert app.get("graphviz_chart")


def test_latency_and_reading_panels(new_app: NewApp) -> None:
    app = panels(ask(new_app(), EC), "latency", "reading", "evidence")
    assert not app.exception
    text = page_text(app)
    assert "검색 " in text
    assert app.get("vega_lite_chart") or app.get("arrow_vega_lite_chart")
    assert "title='작목: 딸기 (규칙 " in text
    assert "사실·수치" in text


def test_refusal_names_what_was_near(new_app: NewApp, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ExtractiveAnswerer.answer

    def refuse(
        self: ExtractiveAnswerer, asked: Any, evidence: FusedEvidence, results: Any, top_k: int, recorder: Any
    ) -> tuple[Answer, Any]:
        return refusal(evidence.items[:top_k], self.name), answer(self, asked, evidence, results, top_k, recorder)[1]

    monkeypatch.setattr(ExtractiveAnswerer, "answer", refuse)
    app = ask(new_app(), EC)
    said, near = bodies(app)[1:3]
    assert "문서에서 찾지 못했습니다" in said
    assert "on-doubt" not in said
    assert "가까운 문서" in near
    assert "딸기 급액 EC 관리" in near
    assert not [button for button in app.button if (button.key or "").startswith("cite-")]


def test_no_document_under_the_conditions_of_the_question_is_no_dead_end(new_app: NewApp) -> None:
    app = ask(new_app(), "2019년 5월 급액 EC 기록 찾아줘")
    assert "찾지 못했습니다" in bodies(app)[1]
    assert "맞는 자료가 없습니다" in page_text(app)
    assert "가까운 문서" in page_text(app)


def test_a_question_back_is_buttons_above_the_answer(new_app: NewApp) -> None:
    app = ask(new_app(), "급액 EC 얼마로 맞추면 되나요?")
    assert not app.exception
    assert "어느 작목인가요?" in page_text(app).replace("\\", "")
    assert [b.label for b in app.button if (b.key or "").startswith("choose-")] == ["딸기", "토마토"]
    app = press(app, "choose-")
    assert not app.exception
    assert len(app.chat_message) == 4
    assert "고른 것: 딸기" in page_text(app)
    assert "dS/m" in bodies(app)[-1] or "dS/m" in page_text(app)
    assert len([b for b in app.button if (b.key or "").startswith("choose-")]) == 2  # of the first answer only


def test_a_follow_up_takes_the_rest_from_the_question_before(new_app: NewApp) -> None:
    app = ask(ask(new_app(), EC), "그럼 토마토는?")
    assert not app.exception
    app = app.button_group[1].set_value(["reading"]).run()
    text = page_text(app).replace("\\", "")
    assert "풀어 쓴 질문: 토마토 수확 후기에는 급액 EC 얼마로 낮춰요?" in text
    assert "(lexicon.작물)" in text


def test_unsupported_sentence_is_underlined_with_its_reason() -> None:
    cited = Citation(
        doc_id="public/a", title="가", locator="", chunk_id="c", sentence="EC 1.2", start=0, end=6, cosine=0.9
    )
    answer = Answer(
        sentences=(
            CitedSentence(text="EC 1.2로 둔다.", citations=(cited,)),
            CitedSentence(text="EC <9.9>다.", note="수치가 근거와 다릅니다."),
        ),
        refused=False,
        answerer="model",
    )
    text = answer_html(answer, "k")
    assert "<span class='on-doubt'>EC &lt;9.9&gt;다.</span>" in text
    assert "근거 미확인: 수치가 근거와 다릅니다." in text
    assert text.count("on-doubt") == 1
    assert "data-cite='cite-k-1'" in text


def test_another_farm_s_document_is_seen_by_that_farm_only(new_app: NewApp) -> None:
    app = ask(new_app(farm="pureun"), SECRET)
    assert "37.4%" in page_text(app)
    app.sidebar.selectbox[0].set_value("haetsal").run()
    assert "37.4" not in page_text(app)
    assert app.subheader[0].value == "무엇이 궁금하세요?"
    app = ask(app, SECRET)
    assert "37.4" not in page_text(app)
    assert "푸른들" not in "\n".join(bodies(app))
    app.sidebar.selectbox[0].set_value("pureun").run()
    assert page_text(app).count("37.4%") >= 1


def test_reload_shows_the_conversation_once(new_app: NewApp) -> None:
    app = ask(new_app(), EC)
    address = {name: app.query_params[name] for name in ("farm", "u", "c")}
    address = {name: value[0] if isinstance(value, list) else value for name, value in address.items()}
    again = new_app(**address)
    assert "1.0~1.2dS/m" in page_text(again)
    again.run()
    assert len(again.chat_message) == 2
    again = ask(again, "설향 딸기 야간 최저온도 몇 도까지 괜찮아요?")
    assert len(again.chat_message) == 4


def test_a_conversation_of_another_farm_does_not_open(new_app: NewApp) -> None:
    app = ask(new_app(farm="pureun"), SECRET)
    params = {n: v[0] if isinstance(v, list) else v for n, v in app.query_params.items()}
    assert "37.4" not in page_text(new_app(farm="haetsal", u=params["u"], c=params["c"]))
    assert "37.4" not in page_text(new_app(farm="pureun", u=new_id(), c=params["c"]))
    assert "37.4" not in page_text(new_app(farm="haetsal", u=params["u"], c=f"../../pureun/chats/{params['u']}"))


def test_new_conversation_and_delete(new_app: NewApp) -> None:
    app = ask(new_app(), EC)
    app = next(b for b in app.sidebar.button if b.label == "새 대화").click().run()
    assert not app.chat_message
    app = press(app, "open-chat-")
    assert len(app.chat_message) == 2
    app = press(app, "delete-chat-")
    assert not app.chat_message
    assert not [b for b in app.sidebar.button if (b.key or "").startswith("open-chat-")]


def test_hostile_document_is_shown_as_text(new_app: NewApp) -> None:
    app = ask(new_app(), "농약 보관함의 온도는 몇 도 이하로 해요?")
    app = panels(press(app, "cite-"), "evidence", "why")
    text = "\n".join(bodies(app))
    assert "15℃" in text
    assert "&lt;img src=x onerror=alert(2)&gt;" in text
    assert "<script" not in text
    assert "<img" not in text
    labels = [button.label for button in app.button if (button.key or "").startswith("cite-")]
    hostile = [label for label in labels if "script" in label]
    assert hostile
    assert all(r"\<script\>" in label and "<script" not in label.replace("\\<", "") for label in hostile)


@given(st.text())
def test_escapes_leave_no_markup(text: str) -> None:
    assert "<" not in html_text(text)
    left = plain(text).replace("\\\\", "")
    for mark in "<>*_`$:[]#|~":
        assert left.count(mark) == left.count(f"\\{mark}")


def test_graph_labels_cannot_leave_their_quotes() -> None:
    assert quoted('가"]; x [label="\\') == '"가\\"]; x [label=\\"\\\\"'


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=4))
def test_percentages_add_up_to_exactly_100(raw: list[float]) -> None:
    shown = percentages([value / sum(raw) for value in raw])
    assert round(sum(shown), 6) == 100.0
    assert all(abs(s - 100 * value / sum(raw)) <= 0.1 + 1e-9 for s, value in zip(shown, raw, strict=True))


def test_relevance_words() -> None:
    levels = Relevance(high=0.9, usual=0.8)
    assert [relevance_word(c, levels) for c in (0.9, 0.89, 0.8, 0.79)] == ["높음", "보통", "보통", "낮음"]
    assert relevance_word(0.9, None) == ""


def test_original_is_marked_across_line_breaks_and_escaped() -> None:
    shown, found = original_html("앞 <b>\n급액 EC를\n낮춘다. 뒤", "급액 EC를 낮춘다.", None)
    assert found
    assert shown == "앞 &lt;b&gt;\n<mark>급액 EC를\n낮춘다.</mark> 뒤"
    assert original_html("가" * 5000, "없는 문장", 10) == ("가" * 20 + "…", False)


def test_library_refuses_what_the_asker_may_not_see(new_app: NewApp) -> None:
    new_app()
    views = build_pipeline(load_settings()).views
    foreign = "farm:pureun/파프리카_배액률.md"
    theirs = Library(views, Scope(farm_id="pureun"))
    document = theirs.document(foreign)
    assert document is not None
    assert theirs.original(document).decode() == DOCUMENTS["farm:pureun"]["파프리카_배액률.md"]
    for scope in (Scope(), Scope(farm_id="haetsal")):
        library = Library(views, scope)
        chunk = views.get(Scope(farm_id="pureun")).levels["G2"]
        with pytest.raises(ScopeViolation):
            library.document(foreign)
        with pytest.raises(ScopeViolation):
            library.original(document)
        with pytest.raises(ScopeViolation):
            library.passage("farm:pureun", chunk.chunk_ids[-1])
        assert library.passage("public", chunk.chunk_ids[-1]) is None


def test_failed_channel_is_a_banner_and_the_answer_goes_on(new_app: NewApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("<b>disk</b>")

    monkeypatch.setattr("rag.channels.vector.VectorChannel.search", broken)
    app = ask(new_app(), EC)
    assert "의미 검색" in app.warning[0].value
    assert "<b>" not in app.warning[0].value.replace("\\<", "")
    assert "1.0~1.2dS/m" in page_text(app)


def test_no_index_says_how_to_make_one(
    profiles: Path, configure: Callable[[str], Path], new_app: NewApp, tmp_path: Path
) -> None:
    configure(CONFIG.format(store=tmp_path / "nothing", profiles=profiles))
    app = AppTest.from_file(str(APP), default_timeout=120).run()
    assert not app.exception
    assert "make demo" in app.error[0].value.replace("\\", "")
    assert any("쓸 수 없음" in caption.value for caption in app.sidebar.caption)


def test_unknown_setting_is_named(configure: Callable[[str], Path]) -> None:
    configure('stor = "var"\n')
    app = AppTest.from_file(str(APP), default_timeout=120).run()
    assert not app.exception
    assert "'stor'" in app.error[0].value.replace("\\", "")


def test_index_of_other_components_names_the_rebuild(
    profiles: Path, store: Path, configure: Callable[[str], Path], tmp_path: Path
) -> None:
    other = tmp_path / "store"
    shutil.copytree(store, other)
    with sqlite3.connect(other / "public" / "store.sqlite") as db:
        db.execute("UPDATE manifest SET value = 'another' WHERE key = 'embedder'")
    configure(CONFIG.format(store=other, profiles=profiles))
    app = AppTest.from_file(str(APP), default_timeout=120).run()
    assert not app.exception
    assert "--rebuild --public" in app.error[0].value.replace("\\", "")


def test_an_unexpected_fault_is_a_korean_sentence(new_app: NewApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rag.pipeline.Pipeline.compare", broken)
    app = ask(new_app(), EC)
    assert not app.exception
    assert "예상하지 못한 문제" in app.error[0].value


@pytest.fixture
def entry(new_app: NewApp) -> Entry:
    new_app()
    settings = load_settings()
    result = build_pipeline(settings).ask(Query(text=EC, scope=Scope(), asked_at=settings.now()))
    return Entry(id=new_id(), question=EC, asked_at=settings.now(), turn=Turn.of(result))


def test_an_entry_survives_json_and_keeps_no_passage_text(entry: Entry) -> None:
    data = ENTRY.dump_json(entry)
    assert ENTRY.validate_json(data) == entry
    assert entry.turn is not None
    assert all(item.chunk.text == "" for item in entry.turn.evidence)


def test_history_writes_once_and_skips_what_it_cannot_read(entry: Entry, tmp_path: Path) -> None:
    chats, name = Chats(tmp_path, new_id()), new_id()
    chats.append(name, entry)
    chats.append(name, entry)
    assert chats.read(name) == [entry]
    file = next(tmp_path.rglob("*.jsonl"))
    file.write_text('{"id": "old"}\n' + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert chats.read(name) == [entry]
    assert [c.title for c in chats.recent()] == [EC]
    assert Chats(tmp_path, new_id()).recent() == []
    assert not chats.exists("../../x")
    chats.delete(name)
    assert chats.recent() == []


class FakePipeline:
    """Streams half an answer, then waits to be cancelled."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.streamed = threading.Event()

    def ask(self, query: Query, *, system: str, listener: Any) -> Result:
        listener.on_stage("답변 쓰기")
        listener.on_queue(2)
        listener.on_token("반쯤")
        self.streamed.set()
        assert listener.cancel.wait(10)
        return self.result


def test_job_streams_tells_its_place_and_can_be_cancelled(new_app: NewApp, tmp_path: Path) -> None:
    new_app()
    settings = load_settings()
    query = Query(text=EC, scope=Scope(), asked_at=settings.now())
    fake = FakePipeline(build_pipeline(settings).ask(query))
    chats, job = Chats(tmp_path, new_id()), Job(query=query, system="adaptive", conversation=new_id())
    job.start(fake, chats)  # type: ignore[arg-type]
    assert fake.streamed.wait(10)
    assert (job.stage, job.text, job.ahead, job.done.is_set()) == ("답변 쓰기", "반쯤", 2, False)
    job.cancel.set()
    assert job.done.wait(10)
    (kept,) = chats.read(job.conversation)
    assert kept.turn is not None
    assert kept.turn.cancelled


def test_job_keeps_the_reason_of_a_failure(tmp_path: Path) -> None:
    class Failing:
        def ask(self, *_: object, **__: object) -> Result:
            raise SettingsError("질문이 비어 있습니다.")

    query = Query(text="?", scope=Scope(), asked_at=datetime.now(UTC))
    chats, job = Chats(tmp_path, new_id()), Job(query=query, system="adaptive", conversation=new_id())
    job.start(Failing(), chats)  # type: ignore[arg-type]
    assert job.done.wait(10)
    assert [e.error for e in chats.read(job.conversation)] == ["질문이 비어 있습니다."]


def test_job_says_when_it_cannot_save(entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    class Ready:
        def ask(self, *_: object, **__: object) -> Result:
            raise SettingsError("멈춤")

    monkeypatch.setattr(Chats, "append", full)
    query = Query(text="?", scope=Scope(), asked_at=datetime.now(UTC))
    job = Job(query=query, system="adaptive", conversation=new_id())
    job.start(Ready(), Chats(tmp_path, new_id()))  # type: ignore[arg-type]
    assert job.done.wait(10)
    assert "No space left" in (job.not_saved or "")
    assert job.entry == replace(job.entry)  # the answer is still there to be shown
