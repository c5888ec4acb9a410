"""One side of a comparison: evidence by rank with moves and channel ranks; and the picture of all moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import streamlit as st

from rag.citations import place_of
from rag.schema import Evidence
from rag.ui.charts import chart_of
from rag.ui.comparison import TOP, Groups, Move, move_mark, ranks
from rag.ui.components.weights import channel_name
from rag.ui.escape import html_text, shortened
from rag.ui.style import ink
from rag.ui.turn import Turn

_SHORT = {"vector_dense_text": "의", "vector_sparse": "키", "graph": "관", "web": "웹"}
_UP, _DOWN, _SAME = "#009E73", "#D55E00", "#8a8f98"


def ranking(turn: Turn, reference: Turn | None, gold: Groups) -> None:
    """The first ten passages; moves against ``reference`` (None: this is the reference)."""
    right = {document for group in gold for document in group}
    old = None if reference is None else ranks(reference)
    names = [run.channel for run in turn.channels]
    rows = "".join(
        _row(place, item, names, old, item.chunk.doc_id in right)
        for place, item in enumerate(turn.evidence[:TOP], start=1)
    )
    st.html(f"<div>{rows or '찾은 문단이 없습니다.'}</div>")


def _row(place: int, item: Evidence, names: Sequence[str], old: dict[str, int] | None, right: bool) -> str:
    by_channel = {vote.channel: vote.rank for vote in item.votes}
    channels = " ".join(f"{_SHORT.get(name, name)}{by_channel.get(name, '–')}" for name in names)
    move = "" if old is None else _mark(move_mark(old.get(item.chunk.chunk_id), place))
    known = " <span class='on-tag'>✓ 정답 문서</span>" if right else ""
    where = html_text(shortened(place_of(item.chunk), 46))
    return (
        f"<div class='on-rank'><b>{place}. {html_text(shortened(item.chunk.title, 40))}</b>{move}{known}"
        f"<div class='on-muted'>{where} ({channels})</div></div>"
    )


def _mark(mark: str) -> str:
    shade = "on-up" if mark[0] in "▲새" else "on-down" if mark[0] == "▼" else "on-muted"
    return f" <span class='{shade}'>{mark}</span>"


def channel_key(turn: Turn) -> str:
    """What the short channel names mean."""
    return " ".join(f"{channel_name(run.channel)}({_SHORT.get(run.channel, run.channel)})" for run in turn.channels)


def slope_rows(moves: Sequence[Move], names: tuple[str, str]) -> list[dict[str, Any]]:
    """Two points a passage; outside the first ten is place 11."""
    rows = []
    for move in moves:
        name = " · ".join(part for part in (move.chunk.title, place_of(move.chunk)) if part)
        kind, shade = ("오름", _UP) if move.up > 0 else ("내림", _DOWN) if move.up < 0 else ("그대로", _SAME)
        for side, place in zip(names, (move.before, move.after), strict=True):
            rows.append(
                {
                    "방식": side,
                    "순위": place or TOP + 1,
                    "문단": move.chunk.chunk_id,
                    "이름": f"{place}. {shortened(name, 15)}" if place else "",
                    "근거": name,
                    "이동": kind,
                    "색": shade,
                }
            )
    return rows


def slope_chart(moves: Sequence[Move], names: tuple[str, str]) -> alt.LayerChart | alt.FacetChart:
    """Rank on the left side joined to rank on the right side; ranks below ten share the bottom line."""
    rows = slope_rows(moves, names)
    base = chart_of(rows).encode(
        x=alt.X(
            "방식:N",
            sort=list(names),
            title=None,
            scale=alt.Scale(type="point", padding=1.6),
            axis=alt.Axis(orient="top", labelAngle=0, labelFontSize=13, labelColor=ink(), domain=False, ticks=False),
        ),
        y=alt.Y("순위:Q", scale=alt.Scale(domain=[TOP + 1.3, 0.7], nice=False), axis=None),
        detail="문단:N",
    )
    lines = base.mark_line(strokeWidth=2.5).encode(
        color=alt.Color("색:N", scale=None),
        strokeDash=alt.StrokeDash(
            "이동:N", scale=alt.Scale(domain=["오름", "내림", "그대로"], range=[[1, 0], [6, 4], [2, 2]]), legend=None
        ),
    )
    points = base.mark_point(size=45, filled=True, opacity=1).encode(
        color=alt.Color("색:N", scale=None), tooltip=["근거:N", "방식:N", "순위:Q"]
    )
    names_of = base.encode(text="이름:N")
    left = names_of.transform_filter(alt.datum["방식"] == names[0]).mark_text(
        align="right", dx=-10, color=ink(), fontSize=11
    )
    right = names_of.transform_filter(alt.datum["방식"] == names[1]).mark_text(
        align="left", dx=10, color=ink(), fontSize=11
    )
    return alt.layer(lines, points, left, right).properties(height=330)
