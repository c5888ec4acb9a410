"""Where the time went: a waterfall of the stages, parallel channels side by side, answering apart."""

from __future__ import annotations

from typing import Any

import altair as alt
import streamlit as st

from rag.render import RETRIEVAL_STAGES
from rag.schema import CHANNEL_LABELS, Trace
from rag.ui.charts import chart_of
from rag.ui.style import colour, ink
from rag.ui.turn import Turn

STAGE_LABELS = {
    "features": "질문 읽기",
    "profile": "프로필 찾기",
    "embedding": "질문 벡터",
    "policy": "검색 계획",
    "retrieval": "검색(전체)",
    "weighting": "가중치",
    "fusion": "순위 합치기",
    "evidence": "근거 읽기",
    "answer": "답변 쓰기",
    "rerank": "└ 문장 고르기",
}
_CHANNEL = "channel:"


def total_ms(trace: Trace) -> float:
    """From the first stage to the end of the last one."""
    return max((span.start_ms + span.ms for span in trace.spans), default=0.0)


def retrieval_ms(trace: Trace) -> float:
    """Everything before the answer is written."""
    return sum(span.ms for span in trace.spans if span.stage in RETRIEVAL_STAGES)


def stage_label(stage: str) -> str:
    """A stage's Korean name."""
    if stage.startswith(_CHANNEL):
        name = stage.removeprefix(_CHANNEL)
        return f"└ {CHANNEL_LABELS.get(name, name)}"
    return STAGE_LABELS.get(stage, stage)


def stage_rows(trace: Trace) -> list[dict[str, Any]]:
    """A row a stage in the order of starting, each channel under the search it belongs to."""
    return [
        {
            "단계": stage_label(span.stage),
            "시작": span.start_ms,
            "끝": span.start_ms + span.ms,
            "글": f"{span.ms:.1f} ms",
            "색": colour(span.stage.removeprefix(_CHANNEL)) if span.stage.startswith(_CHANNEL) else _shade(span.stage),
        }
        for span in sorted(trace.spans, key=lambda s: (round(s.start_ms, 1), s.stage.startswith(_CHANNEL)))
    ]


def _shade(stage: str) -> str:
    return "#D55E00" if stage == "answer" else "#8a8f98"


def latency_panel(turn: Turn, key: str) -> None:
    """The waterfall and two sums."""
    rows = stage_rows(turn.trace)
    st.altair_chart(waterfall(rows), width="stretch", key=f"latency-{key}")
    answering = turn.trace.latency_ms.get("answer", 0.0)
    st.caption(
        f"검색 {retrieval_ms(turn.trace):.1f} ms (그 가운데 가중치 {turn.trace.latency_ms.get('weighting', 0.0):.1f} ms) · "
        f"답변 {answering:.1f} ms · 모두 {total_ms(turn.trace):.1f} ms"
    )


def waterfall(rows: list[dict[str, Any]]) -> alt.LayerChart | alt.FacetChart:
    """Bars from start to end in ms."""
    order = [row["단계"] for row in rows]
    end = max((row["끝"] for row in rows), default=1.0)
    base = chart_of(rows).encode(
        y=alt.Y("단계:N", sort=order, title=None, axis=alt.Axis(labelLimit=160, labelColor=ink())),
        x=alt.X("시작:Q", title="ms", scale=alt.Scale(domain=[0, end * 1.15])),
    )
    bars = base.mark_bar(height=11, cornerRadius=2, minBandSize=2).encode(
        x2="끝:Q", color=alt.Color("색:N", scale=None)
    )
    texts = base.mark_text(align="left", dx=4, color=ink(), fontSize=11).encode(x="끝:Q", text="글:N")
    return alt.layer(bars, texts).properties(height=alt.Step(21))
