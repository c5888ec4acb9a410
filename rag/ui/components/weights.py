"""Why this evidence: weights step by step, the profile, votes whose shares add up to 100 %, graph paths."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from rag.citations import place_of
from rag.render import numbered
from rag.schema import CHANNEL_LABELS, Evidence, GraphPath, Weights
from rag.ui.escape import html_text, plain, shortened
from rag.ui.style import colour, ink
from rag.ui.turn import Turn
from rag.weighting import SYSTEMS

_STATUS = {
    "ok": "정상",
    "empty": "결과 없음",
    "failed": "실패",
    "timeout": "시간 초과",
    "skipped": "쓰지 않음",
}
_PATHS = 3


def why_panel(turn: Turn) -> None:
    """Weights, the rule that chose them, the votes, the paths."""
    st.html(weights_html(turn))
    st.caption(
        f"방식 **{plain(SYSTEMS.get(turn.system, turn.system))}** · 프로필 **{plain(turn.profile_id)}** — "
        f"{plain(turn.profile_reason)}"
    )
    for decision in turn.trace.decisions:
        if decision.stage == "guardrails":
            st.caption(f"{plain(decision.what)} — {plain(decision.why)}")
    st.html(votes_html(turn) if turn.evidence else "<div>찾은 문단이 없습니다.</div>")
    paths_chart(turn)


def channel_name(channel: str) -> str:
    """The channel's Korean name with its colour."""
    label = html_text(CHANNEL_LABELS.get(channel, channel))
    return f"<span class='on-dot' style='background:{colour(channel)}'></span>{label}"


def weights_html(turn: Turn) -> str:
    """A row a channel: 원래 → 한계 적용 → 최종, as bars with numbers."""
    runs = {run.channel: run for run in turn.channels}
    steps = (turn.weights.raw, turn.weights.bounded, turn.weights.final)
    names = dict.fromkeys((*runs, *(c for step in steps for c in step.by_channel)))
    rows = ""
    for name in names:
        run = runs.get(name)
        status = "–" if run is None else f"{_STATUS[run.status]}<br>{run.n_hits}건 · {run.ms:.1f} ms"
        note = f"<div class='on-muted'>{html_text(run.note)}</div>" if run is not None and run.note else ""
        cells = "".join(f"<td class='on-nowrap'>{_bar(step[name], colour(name))}</td>" for step in steps)
        rows += f"<tr><td>{channel_name(name)}</td>{cells}<td class='on-nowrap'>{status}{note}</td></tr>"
    head = "<tr><th>채널</th><th>원래</th><th>→ 한계 적용</th><th>→ 최종</th><th>검색 결과</th></tr>"
    return f"<div class='on-scroll'><table class='on-table'>{head}{rows}</table></div>"


def _bar(weight: float, shade: str) -> str:
    return f"<span class='on-bar' style='width:{weight * 4:.2f}em;background:{shade}'></span>{weight * 100:.1f} %"


def stacked_weights_html(weights: Weights) -> str:
    """The final weights as one bar; channels with weight 0 are named below it."""
    parts = "".join(
        f"<span style='width:{w * 100:.2f}%;background:{colour(c)}' title='{html_text(CHANNEL_LABELS.get(c, c))}'>"
        f"{w * 100:.0f}</span>"
        for c, w in weights.by_channel.items()
        if w > 0
    )
    legend = " ".join(f"{channel_name(c)} {w * 100:.1f} %" for c, w in weights.by_channel.items())
    return f"<div><div class='on-stack'>{parts}</div><div class='on-muted'>{legend}</div></div>"


def percentages(shares: Sequence[float]) -> list[float]:
    """Shares as percent with one decimal that add up to exactly 100.0 (largest remainders)."""
    exact = [share * 1000 for share in shares]
    units = [int(value) for value in exact]
    left = round(sum(exact)) - sum(units)
    for index in sorted(range(len(exact)), key=lambda i: (units[i] - exact[i], i))[:left]:
        units[index] += 1
    return [unit / 10 for unit in units]


def votes_html(turn: Turn) -> str:
    """Evidence × channel: rank and share of the score; a row adds up to 100 %."""
    names = [run.channel for run in turn.channels]
    numbers: dict[str, list[int]] = {}
    for number, citation in numbered(turn.answer).values():
        numbers.setdefault(citation.chunk_id, []).append(number)
    head = "".join(f"<th class='on-n'>{channel_name(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><td>{rank}</td><td class='on-wide'>{_title(item, numbers)}</td>{_votes(item, names)}</tr>"
        for rank, item in enumerate(turn.evidence, start=1)
    )
    return (
        "<div class='on-scroll'><table class='on-table'>"
        f"<tr><th>순위</th><th>근거</th>{head}<th class='on-n'>합</th></tr>{rows}</table></div>"
    )


def _title(item: Evidence, numbers: dict[str, list[int]]) -> str:
    marks = "".join(f"[{number}] " for number in numbers.get(item.chunk.chunk_id, []))
    place = html_text(shortened(place_of(item.chunk), 40))
    return f"{marks}{html_text(shortened(item.chunk.title, 40))}<div class='on-muted'>{place}</div>"


def _votes(item: Evidence, names: Sequence[str]) -> str:
    shares = percentages([vote.share for vote in item.votes])
    of = {vote.channel: (vote.rank, share) for vote, share in zip(item.votes, shares, strict=True)}
    cells = "".join(
        f"<td class='on-n'>{of[name][0]}위<br>{of[name][1]:.1f} %</td>" if name in of else "<td class='on-n'>–</td>"
        for name in names
    )
    return f"{cells}<td class='on-n'>{sum(shares):.1f} %</td>"


def paths_chart(turn: Turn) -> None:
    """How relation search came to the first passages: question entity → … → passage."""
    rank = {item.chunk.chunk_id: place for place, item in enumerate(turn.evidence, start=1)}
    paths = [p for run in turn.channels for p in run.paths if p.chunk_id in rank]
    if not paths:
        return
    st.caption("관계 검색이 걸은 길 (질문의 개체 → … → 문단)")
    first = sorted(paths, key=lambda p: rank[p.chunk_id])[:_PATHS]
    titles = {item.chunk.chunk_id: item.chunk.title for item in turn.evidence}
    with st.container(key=f"paths-{id(turn)}"):
        st.graphviz_chart(paths_dot(first, rank, titles, ink()), width="content")


def paths_dot(paths: Sequence[GraphPath], rank: dict[str, int], titles: dict[str, str], shade: str) -> str:
    """The paths in the DOT language."""
    lines = [
        f'digraph {{ rankdir=LR; bgcolor="transparent"; nodesep=0.2; node [fontname="sans-serif" fontsize=11 '
        f'color="{shade}" fontcolor="{shade}" shape=ellipse]; edge [fontname="sans-serif" fontsize=10 '
        f'color="{shade}" fontcolor="{shade}"];'
    ]
    for path in paths:
        passage = quoted(f"{rank[path.chunk_id]}위 {shortened(titles[path.chunk_id], 24)}")
        lines.append(f'{passage} [shape=box style=rounded color="#009E73"];')
        stops = [*map(quoted, path.nodes), passage]
        lines += [
            f"{here} -> {there} [label={quoted(label)}];" for here, there, label in zip(stops, stops[1:], path.labels)
        ]
    return "\n".join([*dict.fromkeys(lines), "}"])


def quoted(text: str) -> str:
    """``text`` as a quoted DOT string, on one line."""
    line = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{line}"'
