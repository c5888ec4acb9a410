"""The answer: sentences with numbered citations, the buttons that open them, doubt, refusal."""

from __future__ import annotations

import streamlit as st

from rag.render import doubt_of, numbered
from rag.schema import Answer, Citation, CitedSentence
from rag.ui.escape import html_text, plain, shortened
from rag.ui.turn import Turn

# Slots that leave documents out.
_NARROWING = frozenset({"date", "author", "doc_type", "house", "file"})


def banners(turn: Turn) -> None:
    """What went wrong on the way: failed channels, a profile file that could not be used."""
    for banner in turn.banners:
        st.warning(plain(banner), icon=":material/warning:")


def answer_text(turn: Turn, key: str) -> None:
    """The answer's sentences; unsupported ones dotted, contradicted ones red with both figures."""
    st.html(answer_html(turn.answer, key))
    if turn.cancelled:
        st.caption("답변을 중간에 멈췄습니다.")
    for note in turn.answer.notes:
        st.caption(f"※ {plain(note)}")
    if turn.answer.refused and not turn.evidence and any(slot.kind in _NARROWING for slot in turn.features.slots):
        st.caption("질문의 날짜·동·작성자·문서 종류에 모두 맞는 문서가 없습니다. 조건을 하나씩 빼고 다시 물어보세요.")
    if turn.answer.refused and turn.answer.nearby:
        near = "".join(f"<span class='on-tag'>{html_text(title)}</span>" for title in turn.answer.nearby)
        st.html(f"<div class='on-muted'>가까운 문서: {near}</div>")


def answer_html(answer: Answer, key: str) -> str:
    """The answer as HTML; its numbers press the buttons ``cite-{key}-{n}``."""
    numbers = {place: number for place, (number, _) in numbered(answer).items()}
    listed = sum(": " in s.text for s in answer.sentences) > 1  # rows, days, products: one a line
    sentences = ("<br>" if listed else " ").join(_sentence(s, numbers, key, answer.refused) for s in answer.sentences)
    lead = f"<div class='on-muted'>{html_text(answer.lead)}</div>" if answer.lead else ""
    return f"{lead}<div class='on-text'>{sentences}</div>"


def _sentence(sentence: CitedSentence, numbers: dict[tuple[str, int], int], key: str, refused: bool) -> str:
    text = html_text(sentence.text)
    marks = "".join(
        f"<button type='button' class='on-cite' data-cite='cite-{key}-{n}' title='{html_text(c.title)}'>{n}</button>"
        for c in (*sentence.citations, *sentence.conflicts)
        for n in (numbers[c.chunk_id, c.start],)
    )
    if sentence.supported:
        return text + marks
    if refused:
        return text
    look = "on-contra" if sentence.outcome == "contradicted" else "on-doubt"
    return f"<span class='{look}'>{text}</span>{marks} <span class='on-note'>({html_text(doubt_of(sentence))})</span>"


def citation_buttons(turn: Turn, key: str, *, brief: bool = False) -> None:
    """One button a citation; pressing it opens its evidence card, pressing again closes it. ``brief``: numbers only."""
    cited = numbered(turn.answer).values()
    if not cited:
        return
    with st.container(horizontal=True, gap="small"):
        for number, citation in cited:
            st.button(
                plain(f"[{number}]" if brief else f"[{number}] {_source(citation)}"),
                key=f"cite-{key}-{number}",
                help=plain(shortened(f"{citation.title}: {citation.sentence}", 120)),
                on_click=_toggle,
                args=(key, citation.chunk_id, citation.start),
            )


def _source(citation: Citation) -> str:
    """Document and place, short enough for a button; several places of one document stay distinguishable."""
    title = shortened(citation.title, 20)
    return f"{title} · {shortened(citation.locator, 18)}" if citation.locator else title


def opened(key: str) -> tuple[str, int] | None:
    """(chunk id, sentence start) of the evidence card that is open below answer ``key``; start −1: no sentence."""
    found: tuple[str, int] | None = st.session_state.get(f"opened-{key}")
    return found


def open_card(key: str, chunk_id: str, start: int = -1) -> None:
    """Open the evidence card of a passage below answer ``key``."""
    st.session_state[f"opened-{key}"] = (chunk_id, start)


def close_card(key: str) -> None:
    """Close the evidence card below answer ``key``."""
    st.session_state.pop(f"opened-{key}", None)


def _toggle(key: str, chunk_id: str, start: int) -> None:
    if opened(key) == (chunk_id, start):
        close_card(key)
    else:
        open_card(key, chunk_id, start)
