"""The question back above an answer: one line and its options as buttons."""

from __future__ import annotations

import streamlit as st

from rag.ui.escape import plain
from rag.ui.turn import Turn


def clarification_buttons(turn: Turn, key: str) -> str | None:
    """Draw what would have been asked; the value of the option that was pressed, if one was."""
    asked = turn.clarification
    if asked is None:
        if turn.choice:
            st.caption(f"고른 것: {plain(_chosen(turn))}")
        return None
    st.markdown(f":material/help: {plain(asked.question)}")
    pressed = None
    with st.container(horizontal=True, gap="small"):
        for number, (label, value) in enumerate(asked.options, start=1):
            if st.button(plain(label), key=f"choose-{key}-{number}"):
                pressed = value
    return pressed


def _chosen(turn: Turn) -> str:
    """A choice in words: a period with "~", the title word as such."""
    choice = turn.choice or ""
    kind, _, year = choice.partition(":")
    if kind in ("date", "title") and year:
        return f"{year}년에 쓴 문서" if kind == "date" else f"제목에 {year}이 든 문서"
    return choice.replace("/", "~")
