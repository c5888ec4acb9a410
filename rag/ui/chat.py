"""The chat page, top to bottom: earlier answers, the one being written, the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from rag.errors import StoreError
from rag.pipeline import MAX_QUESTION
from rag.render import numbered
from rag.schema import Query
from rag.stores.feedback import Feedback
from rag.text import nfc
from rag.ui.components.answer import answer_text, banners, citation_buttons
from rag.ui.components.clarification import clarification_buttons
from rag.ui.components.evidence import evidence_list, opened_card
from rag.ui.components.feedback import feedback_note, thumb_buttons
from rag.ui.components.latency import latency_panel, total_ms
from rag.ui.components.reading import reading_panel
from rag.ui.components.weights import why_panel
from rag.ui.escape import html_text, plain
from rag.ui.jobs import Job
from rag.ui.session import Session, conversation, current, settings_key
from rag.ui.suggestions import fitting_questions
from rag.ui.turn import Entry, Turn

_POLL_S = 0.15


def page() -> None:
    """Draw the page."""
    session = current()
    name = conversation(session)
    job = _job(session, name)
    running = job is not None and not job.done.is_set()
    asked = st.chat_input(
        "답하는 중입니다…" if running else "농장 자료에 물어보세요",
        key="question",
        max_chars=MAX_QUESTION,
        disabled=running,
    )
    entries = session.chats.read(name)
    if asked and not running:
        _ask(session, name, asked, previous=_previous(entries))
    if not entries and job is None:
        _welcome(session, name)
    given = _given(session)
    for entry in entries:
        _entry(entry, session, name, given)
    if job is not None:
        _watch(job, session)


def _given(session: Session) -> Mapping[str, Feedback]:
    """The user's opinions by entry; a file that cannot be read is told of, and the conversation goes on."""
    try:
        return session.feedback.of(session.user)
    except StoreError as error:
        st.warning(plain(str(error)))
        return {}


def _welcome(session: Session, name: str) -> None:
    st.subheader("무엇이 궁금하세요?")
    with st.container(horizontal=True):
        for question in fitting_questions(session):
            if st.button(question, key=f"suggest-{question}"):
                _ask(session, name, question)


def _entry(entry: Entry, session: Session, name: str, given: Mapping[str, Feedback]) -> None:
    with st.chat_message("user", avatar=":material/person:"):
        st.html(f"<div class='on-text'>{html_text(entry.question)}</div>")
    with st.chat_message("assistant", avatar=":material/eco:"):
        if entry.turn is not None:
            if (choice := clarification_buttons(entry.turn, entry.id)) is not None:
                _ask(session, name, entry.question, previous=entry.turn.previous, choice=choice)
            _turn(entry, entry.turn, session, given.get(entry.id))
        else:
            st.error(plain(entry.error or "답을 받지 못했습니다."))
            if st.button("다시 묻기", key=f"again-{entry.id}", icon=":material/refresh:"):
                _ask(session, name, entry.question)


def _turn(entry: Entry, turn: Turn, session: Session, given: Feedback | None) -> None:
    key = entry.id
    banners(turn)
    answer_text(turn, key)
    citation_buttons(turn, key)
    opened_card(turn, session.library, session.settings.farms, session.relevance, key)
    panels = {
        "evidence": f"근거 {len(numbered(turn.answer))}",
        "why": "왜 이 근거?",
        "latency": f"지연 {total_ms(turn.trace):.0f} ms",
        "reading": "질문 해석",
    }
    zone = session.settings.zone
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        shown = st.pills(
            "답변 설명",
            list(panels),
            format_func=lambda panel: f":material/chevron_right: {panels[panel]}",
            selection_mode="multi",
            key=f"panels-{key}",
            label_visibility="collapsed",
        )
        version = session.pipeline.table.version
        thumb_buttons(entry, turn, session.feedback, given, user=session.user, version=version, zone=zone)
    feedback_note(key, session.feedback, given, zone)
    for panel in panels:
        if panel in shown:
            with st.container(border=True):
                st.markdown(f"**{panels[panel]}**")
                _panel(panel, turn, session, key)


def _panel(panel: str, turn: Turn, session: Session, key: str) -> None:
    match panel:
        case "evidence":
            evidence_list(turn, session.relevance, key)
        case "why":
            why_panel(turn)
        case "latency":
            latency_panel(turn, key)
        case "reading":
            reading_panel(turn)


def _job(session: Session, name: str) -> Job | None:
    """The question being answered in this conversation, if any. One whose answer is on disk is over."""
    jobs: dict[tuple[str, str], Job] = st.session_state.setdefault("jobs", {})
    job = jobs.get((settings_key(session.scope), name))
    if job is not None and job.done.is_set() and job.not_saved is None:
        del jobs[settings_key(session.scope), name]
        return None
    return job


def _previous(entries: Sequence[Entry]) -> str | None:
    """The question that a next one may follow on."""
    return next((entry.turn.whole_question for entry in reversed(entries) if entry.turn is not None), None)


def _ask(session: Session, name: str, question: str, *, previous: str | None = None, choice: str | None = None) -> None:
    """Start answering and draw the page anew, locked."""
    query = Query(
        text=nfc(question).strip(),
        scope=session.scope,
        asked_at=session.settings.now(),
        previous=previous,
        choice=choice,
    )
    job = Job(query=query, system=session.system, conversation=name)
    st.session_state.setdefault("jobs", {})[settings_key(session.scope), name] = job
    job.start(session.pipeline, session.chats)
    st.rerun()


def _watch(job: Job, session: Session) -> None:
    """Follow a running question: its stage, its place in the queue, its words; then draw the page anew."""
    with st.chat_message("user", avatar=":material/person:"):
        st.html(f"<div class='on-text'>{html_text(job.query.text)}</div>")
    with st.chat_message("assistant", avatar=":material/eco:"):
        if job.not_saved is not None:
            _show_unsaved(job, session)
            return
        _follow(job)
    st.rerun()


def _follow(job: Job) -> None:
    st.button("답변 멈추기", key="cancel", icon=":material/stop_circle:", on_click=job.cancel.set)
    stage, words = st.empty(), st.empty()
    while not job.done.wait(_POLL_S):
        # Drawn at every look, changed or not: Streamlit hears the stop button only when something is drawn.
        waiting = f" — 앞에 {job.ahead}명이 기다립니다" if job.ahead else ""
        stage.caption(f":material/hourglass_top: {plain(job.stage)}{waiting}… {job.seconds:.0f}초")
        words.html(f"<div class='on-text'>{html_text(job.text)}</div>")


def _show_unsaved(job: Job, session: Session) -> None:
    st.warning(plain(job.not_saved or ""))
    if job.entry is not None and job.entry.turn is not None:
        _turn(job.entry, job.entry.turn, session, _given(session).get(job.entry.id))


if __name__ == "__main__":
    page()
