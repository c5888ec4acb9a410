"""First questions to try: those that fit what is on file."""

from __future__ import annotations

from rag.errors import RagError
from rag.ui.session import Session

# (crop that must be on file, question). "log": the farm's own records are needed; "": always fits.
QUESTIONS = (
    ("딸기", "딸기 설향 야간 최저온도 몇 도까지 괜찮아요?"),
    ("토마토", "토마토 배꼽썩음과 왜 생기고 뭘 해야 돼?"),
    ("딸기", "딸기 수확 후기에는 급액 EC 얼마로 낮춰요?"),
    ("파프리카", "파프리카 총채벌레 많으면 무슨 바이러스 조심해야 해?"),
    ("log", "작년 3월 작업일지에서 방제한 날 알려줘"),
    ("", "양액기 EC 센서 보정 순서 알려줘"),
)


def fitting_questions(session: Session) -> list[str]:
    """Questions about crops on file; about work logs only where a farm is chosen.

    Raises:
        RagError: there is no index that could be read.
    """
    crops = session.pipeline.views.get(session.scope).catalogue.crops
    own = session.scope.farm_id is not None
    return [text for needs, text in QUESTIONS if not needs or needs in crops or (needs == "log" and own)]


def fitting_or_none(session: Session) -> list[str]:
    """``fitting_questions``, empty where there is no index."""
    try:
        return fitting_questions(session)
    except RagError:
        return []
