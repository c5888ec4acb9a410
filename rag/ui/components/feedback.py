"""👍/👎 beside the explanations of an answer, and the reason: pressed, kept in the farm's folder, shown again on reload."""

from __future__ import annotations

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import streamlit as st
from pydantic import TypeAdapter

from rag.errors import RagError
from rag.schema import Trace
from rag.stores.feedback import MAX_TEXT, REASONS, CitedPlace, Feedback, FeedbackStore, Thumb
from rag.ui.escape import plain
from rag.ui.turn import Entry, Turn

# Words, not icons alone: a screen reader reads a button by its label.
_LABELS: dict[Thumb, str] = {"up": "도움돼요", "down": "아쉬워요"}
_TRACE: TypeAdapter[Trace] = TypeAdapter(Trace)


def feedback_of(entry: Entry, turn: Turn, thumb: Thumb, *, user: str, version: str, now: datetime) -> Feedback:
    """An opinion with what is needed to look into the answer later; ``version`` is the profile table's."""
    crops = set(turn.features.values("crop"))
    cited = [
        tuple(CitedPlace(doc_id=c.doc_id, chunk_id=c.chunk_id, sentence=c.sentence) for c in sentence.citations)
        for sentence in turn.answer.sentences
    ]
    return Feedback(
        user=user,
        entry=entry.id,
        thumb=thumb,
        question=turn.question,
        standalone=turn.whole_question,
        previous=turn.previous,
        choice=turn.choice,
        crop=crops.pop() if len(crops) == 1 else "",
        system=turn.system,
        answerer=turn.answer.answerer,
        profile_id=turn.profile_id,
        version=version,
        asked_at=entry.asked_at,
        given_at=now,
        answer=turn.answer.text,
        refused=turn.answer.refused,
        citations=tuple(places for places in cited if places),
        trace=_trace_json(turn),
    )


def _trace_json(turn: Turn) -> str:
    """Segment, weights, spans and decisions."""
    steps = {"raw": turn.weights.raw, "bounded": turn.weights.bounded, "final": turn.weights.final}
    weights = {name: dict(step.by_channel) for name, step in steps.items()}
    told = {"segment": turn.segment, "weights": weights} | _TRACE.dump_python(turn.trace, mode="json")
    return json.dumps(told, ensure_ascii=False)


def thumb_buttons(
    entry: Entry, turn: Turn, store: FeedbackStore, given: Feedback | None, *, user: str, version: str, zone: ZoneInfo
) -> None:
    """Two buttons; the pressed one is filled, and pressing it again takes the opinion back."""
    for thumb, label in _LABELS.items():
        st.button(
            label,
            key=f"thumb-{thumb}-{entry.id}",
            icon=f":material/thumb_{thumb}:",
            type="primary" if given is not None and given.thumb == thumb else "secondary",
            help="다시 누르면 지웁니다" if given is not None and given.thumb == thumb else None,
            on_click=_press,
            args=(store, feedback_of(entry, turn, thumb, user=user, version=version, now=datetime.now(zone))),
        )


def feedback_note(entry_id: str, store: FeedbackStore, given: Feedback | None, zone: ZoneInfo) -> None:
    """Below the buttons: what went wrong, what is on file, and the form for a reason while it is open."""
    if problem := st.session_state.get(f"feedback-problem-{entry_id}"):
        st.warning(plain(problem))
    if given is None:
        return
    if st.session_state.get(f"feedback-open-{entry_id}", False):
        _form(given, store, zone)
        return
    said = " · ".join(part for part in (_LABELS[given.thumb], given.reason, given.text) if part)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(f"남긴 의견: {plain(said)}", width="content")
        st.button(
            "이유 고치기" if given.reason or given.text else "이유 적기",
            key=f"feedback-edit-{entry_id}",
            type="tertiary",
            on_click=_open,
            args=(entry_id,),
        )


def _form(given: Feedback, store: FeedbackStore, zone: ZoneInfo) -> None:
    entry_id = given.entry
    with st.form(f"feedback-form-{entry_id}", border=True):
        if given.thumb == "down":
            st.pills(
                "무엇이 아쉬웠나요?",
                REASONS,
                default=given.reason or None,
                key=f"feedback-reason-{given.thumb}-{entry_id}",
            )
        st.text_input(
            "더 적기 (선택)", value=given.text, max_chars=MAX_TEXT, key=f"feedback-text-{given.thumb}-{entry_id}"
        )
        st.form_submit_button("의견 남기기", on_click=_explain, args=(store, given, zone))


def _open(entry_id: str) -> None:
    st.session_state[f"feedback-open-{entry_id}"] = True


def _press(store: FeedbackStore, given: Feedback) -> None:
    st.session_state.pop(f"feedback-problem-{given.entry}", None)
    try:
        st.session_state[f"feedback-open-{given.entry}"] = store.press(given) is not None
    except RagError as error:
        st.session_state[f"feedback-problem-{given.entry}"] = str(error)


def _explain(store: FeedbackStore, given: Feedback, zone: ZoneInfo) -> None:
    state = st.session_state
    state.pop(f"feedback-problem-{given.entry}", None)
    reason = state.get(f"feedback-reason-{given.thumb}-{given.entry}") or ""
    text = state.get(f"feedback-text-{given.thumb}-{given.entry}") or ""
    try:
        kept = store.explain(given.user, given.entry, reason, text, datetime.now(zone))
    except RagError as error:
        state[f"feedback-problem-{given.entry}"] = str(error)
        return
    state[f"feedback-open-{given.entry}"] = False
    if not kept:
        state[f"feedback-problem-{given.entry}"] = "이 의견은 다른 창에서 지워졌습니다. 엄지를 다시 눌러 주세요."
