"""How the question was read: coloured slots, words kept and removed, intent, effort, rules on hover."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from rag.schema import QueryFeatures, Slot
from rag.ui.escape import html_text, plain
from rag.ui.turn import Turn

SLOT_LABELS = {
    "date": "날짜",
    "author": "작성자",
    "doc_type": "문서 종류",
    "house": "동",
    "farm": "농장",
    "crop": "작목",
    "cultivar": "품종",
    "growth_stage": "생육단계",
    "value": "수치",
    "file": "파일",
}
_COLOURS = {
    "date": "#0072B2",
    "author": "#CC79A7",
    "doc_type": "#56B4E9",
    "house": "#D55E00",
    "farm": "#999999",
    "crop": "#009E73",
    "cultivar": "#7A9E00",
    "growth_stage": "#B8860B",
    "value": "#E69F00",
    "file": "#888888",
}
# Stages whose decisions belong to the reading.
_STAGES = frozenset({"features", "clarify", "filters", "policy"})
_INTENTS = {
    "factual": "사실·수치",
    "procedural": "절차",
    "relational": "원인·관계",
    "comparison": "비교",
    "log_lookup": "기록 찾기",
}
_LENGTHS = {"short": "짧음", "medium": "보통", "long": "김"}
_EFFORTS = {"low": "낮음", "medium": "보통", "high": "높음"}


def reading_panel(turn: Turn) -> None:
    """The question as read, then what was concluded and by which rule."""
    features = turn.features
    st.html(f"<div class='on-text'>{question_html(turn.question, features.slots)}</div>")
    if features.standalone:
        st.caption(f"풀어 쓴 질문: {plain(features.standalone)}")
    st.html(_words_html(features))
    st.html(_features_html(features))
    st.caption(f"유형 {plain(turn.segment)}")
    for decision in turn.trace.decisions:
        if decision.stage in _STAGES:
            st.caption(f"{plain(decision.what)} — {plain(decision.why)}")


def question_html(text: str, slots: tuple[Slot, ...]) -> str:
    """The question with each slot's span coloured; kind, value and rule appear on hover. Overlaps: first one shown.

    What was inherited or chosen has no words here.
    """
    out, at = "", 0
    for slot in sorted(slots, key=lambda s: (s.start, -s.end)):
        if slot.inherited or slot.start < at or slot.end > len(text) or slot.start == slot.end:
            continue
        shade = _COLOURS.get(slot.kind, "#888888")
        hint = html_text(f"{SLOT_LABELS.get(slot.kind, slot.kind)}: {slot.value} (규칙 {slot.rule})")
        out += html_text(text[at : slot.start])
        out += (
            f"<span class='on-slot' style='background:{shade}33;border-color:{shade}' title='{hint}'>"
            f"{html_text(text[slot.start : slot.end])}</span>"
        )
        at = slot.end
    return out + html_text(text[at:])


def _words_html(features: QueryFeatures) -> str:
    slots = [_slot_words(s) for s in features.slots if not s.inherited]
    inherited = [_slot_words(s) for s in features.slots if s.inherited]
    rows = (
        ("읽은 것", slots),
        *([("앞 질문에서", inherited)] if inherited else []),
        ("핵심어", features.keywords),
        ("뺀 말", features.removed),
        ("찾는 말", features.terms),
        ("개체", features.entities),
    )
    return "<div>" + "".join(f"<div>{name}: {_tags(words)}</div>" for name, words in rows) + "</div>"


def _slot_words(slot: Slot) -> str:
    value = "달력에 없는 날" if slot.value == "invalid" else slot.value
    return f"{SLOT_LABELS.get(slot.kind, slot.kind)} {value} ({slot.rule})"


def _tags(words: Sequence[str]) -> str:
    return "".join(f"<span class='on-tag'>{html_text(word)}</span>" for word in words) or "–"


def _features_html(features: QueryFeatures) -> str:
    values = (
        ("의도", "intent", _INTENTS[features.intent]),
        ("길이", "query_length_bucket", _LENGTHS[features.query_length_bucket]),
        ("수치 단서", "entity_hint_presence", "있음" if features.entity_hint_presence else "없음"),
        ("관계 단서", "relation_hint", "있음" if features.relation_hint else "없음"),
        ("탐색 강도", "effort", _EFFORTS[features.effort]),
    )
    rows = "".join(
        f"<tr title='{name}'><td>{label}</td><td>{value}</td><td>{html_text(features.reasons.get(name, '–'))}</td></tr>"
        for label, name, value in values
    )
    return f"<div class='on-scroll'><table class='on-table'><tr><th>항목</th><th>값</th><th>까닭</th></tr>{rows}</table></div>"
