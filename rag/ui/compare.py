"""The compare page, top to bottom: the question, the sides next to each other, what changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from rag.pipeline import MAX_QUESTION, Listener
from rag.schema import Query, Scope
from rag.text import nfc
from rag.ui.comparison import Groups, documents, gold_of, hit_place, moves, ndcg, what_changed
from rag.ui.components.answer import answer_text, banners, citation_buttons
from rag.ui.components.evidence import opened_card
from rag.ui.components.latency import retrieval_ms
from rag.ui.components.ranking import channel_key, ranking, slope_chart
from rag.ui.components.weights import stacked_weights_html
from rag.ui.escape import plain
from rag.ui.history import new_id
from rag.ui.session import Session, current
from rag.ui.suggestions import fitting_or_none
from rag.ui.turn import Turn
from rag.weighting import ADAPTIVE, SYSTEMS

UNIFORM, BASELINE = "uniform", "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The sides of one compared question, kept in the session it was asked in."""

    id: str
    scope: Scope
    asked_on: date
    turns: tuple[Turn, ...]

    def side(self, system: str) -> Turn:
        """The side of ``system``."""
        return next(turn for turn in self.turns if turn.system == system)


def page() -> None:
    """Draw the page."""
    session = current()
    st.subheader("균등 대 적응")
    st.caption("같은 질문, 같은 검색 결과. 다른 것은 채널의 가중치뿐입니다.")
    question, systems = _form(session)
    if question:
        st.session_state.comparison = _compare(session, question, systems)
    shown: Comparison | None = st.session_state.get("comparison")
    if shown is None or shown.scope != session.scope:
        return
    gold = gold_of(shown.turns[0].question, session.scope, shown.asked_on)
    st.markdown(f"**질문** {plain(shown.turns[0].question)}")
    for column, turn in zip(st.columns(len(shown.turns), border=True, gap="small"), shown.turns):
        with column:
            _side(turn, shown, session, gold)
    _changes(shown, gold)


def _form(session: Session) -> tuple[str, tuple[str, ...]]:
    """(question or "", systems to compare)."""
    left, right = st.columns((3, 2), gap="small")
    right.selectbox(
        "예시",
        fitting_or_none(session),
        index=None,
        placeholder="예시에서 고르기",
        key="compare-example",
        on_change=_take_example,
    )
    with left.form("compare-form", border=False):
        text = st.text_input("질문", key="compare-question", max_chars=MAX_QUESTION)
        with st.container(horizontal=True, vertical_alignment="center"):
            go = st.form_submit_button("비교하기", type="primary")
            baseline = st.checkbox("기준(2채널)도", key="compare-baseline")
    systems = (UNIFORM, ADAPTIVE, *((BASELINE,) if baseline else ()))
    if go and not text.strip():
        st.info("질문을 적어 주세요.")
    return (text.strip() if go else ""), systems


def _take_example() -> None:
    chosen = st.session_state.get("compare-example")
    if chosen:
        st.session_state["compare-question"] = chosen


def _compare(session: Session, question: str, systems: tuple[str, ...]) -> Comparison:
    """All sides from one run of the channels."""
    query = Query(text=nfc(question).strip(), scope=session.scope, asked_at=session.settings.now())
    told = st.empty()
    listener = Listener(on_stage=lambda stage: _tell(told, stage))
    results = session.pipeline.compare(query, systems, listener=listener)
    told.empty()
    return Comparison(
        id=new_id(), scope=session.scope, asked_on=query.asked_at.date(), turns=tuple(map(Turn.of, results))
    )


def _tell(place: DeltaGenerator, stage: str) -> None:
    place.caption(f":material/hourglass_top: {plain(stage)}…")


def _side(turn: Turn, shown: Comparison, session: Session, gold: Groups) -> None:
    key = f"compare-{shown.id}-{turn.system}"
    st.markdown(
        f"**{plain(SYSTEMS[turn.system])}**" + (f" · {plain(turn.profile_id)}" if turn.system == ADAPTIVE else "")
    )
    st.html(stacked_weights_html(turn.weights.final))
    banners(turn)
    answer_text(turn, key)
    citation_buttons(turn, key, brief=True)
    opened_card(turn, session.library, session.settings.farms, session.relevance, key)
    ranking(turn, None if turn.system == UNIFORM else shown.side(UNIFORM), gold)
    st.caption(f"검색 {retrieval_ms(turn.trace):.1f} ms (가중치 {turn.trace.latency_ms.get('weighting', 0.0):.1f} ms)")
    if gold:
        ranked = documents(turn.evidence)
        place = hit_place(ranked, gold)
        st.markdown(f"nDCG@10 **{ndcg(ranked, gold):.3f}** · 적중 순위 **{f'{place}위' if place else '없음'}**")


def _changes(shown: Comparison, gold: Groups) -> None:
    before, after = shown.side(UNIFORM), shown.side(ADAPTIVE)
    st.markdown("**무엇이 바뀌었나**")
    st.markdown(plain(what_changed(before, after)))
    if gold:
        st.caption("nDCG@10과 적중 순위는 평가 질문의 정답 문서로 셈했습니다(문서 단위, 한 질문의 값).")
    if after.evidence or before.evidence:
        names = ("균등", "적응")
        st.altair_chart(slope_chart(moves(before, after), names), width="stretch", key=f"slope-{shown.id}")
        st.caption("실선 초록: 오름 · 파선 주황: 내림 · 점선 회색: 그대로 · 맨 아래: 10위 밖")
        st.html(f"<div class='on-muted'>괄호 안은 채널 안의 순위: {channel_key(after)}</div>")


if __name__ == "__main__":
    page()
