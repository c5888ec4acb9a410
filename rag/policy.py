"""Policy: (features, profile, effort rule) → RetrievalPlan.

    granularity, top_k   from the effort rule (how much text the question needs)
    depth, rrf_k, walk   from the profile     (how to search for this kind of question)

``top_k`` counts the passages handed to the answerer; ``depth`` (≥ 10, per channel) the ranks each channel returns.
Pure: the same arguments give the same plan.
"""

from __future__ import annotations

from collections.abc import Collection

from rag.schema import (
    LEVELS,
    Decision,
    DocFilter,
    EffortRule,
    Level,
    PlannedQuery,
    Profile,
    QueryFeatures,
    RetrievalPlan,
    Scope,
)

EFFORT_LABELS = {"low": "낮음", "medium": "보통", "high": "높음"}
LEVEL_LABELS = {"G1": "짧은 문장 묶음(G1)", "G2": "문단(G2)", "G3": "절(G3)"}
_USUAL: Level = "G2"


def make_plan(
    features: QueryFeatures,
    profile: Profile,
    effort_rule: EffortRule,
    queries: tuple[PlannedQuery, ...],
    scope: Scope,
    filters: DocFilter,
    timeout_s: float,
    *,
    available_levels: Collection[Level] = LEVELS,
) -> tuple[RetrievalPlan, tuple[Decision, ...]]:
    """The plan, and the decisions that shaped it (effort; a change of granularity where the wanted one is absent).

    ``effort_rule`` is the table's rule for ``features.effort``; ``timeout_s`` > 0 seconds for each channel;
    ``available_levels``: the levels that are indexed.

    Raises:
        ValueError: ``queries`` is empty or ``timeout_s`` is not positive.
    """
    if timeout_s <= 0:
        raise ValueError(f"timeout_s = {timeout_s} must be positive")
    level = choose_level(effort_rule.granularity, available_levels)
    plan = RetrievalPlan(
        queries=queries,
        scope=scope,
        filters=filters,
        granularity=level,
        depth=profile.depth,
        rrf_k=profile.rrf_k,
        walk=profile.walk,
        top_k=effort_rule.top_k,
        timeout_s=timeout_s,
    )
    return plan, _decisions(features, effort_rule, level, available_levels)


def choose_level(wanted: Level, available: Collection[Level]) -> Level:
    """``wanted`` if indexed, else G2 if indexed, else the finest indexed level, else (nothing indexed) G2."""
    return next((level for level in (wanted, _USUAL, *LEVELS) if level in available), _USUAL)


def _decisions(
    features: QueryFeatures, rule: EffortRule, level: Level, available: Collection[Level]
) -> tuple[Decision, ...]:
    effort = Decision(
        stage="policy",
        what=f"{LEVEL_LABELS[level]} 단위로 찾아 근거 {rule.top_k}개를 씁니다.",
        why=f"탐색 강도 {EFFORT_LABELS[features.effort]}. {features.reasons.get('effort', '')}".strip(),
        data={"effort": features.effort, "granularity": level, "top_k": rule.top_k},
    )
    if level == rule.granularity:
        return (effort,)
    change = Decision(
        stage="policy",
        what=f"{LEVEL_LABELS[rule.granularity]} 대신 {LEVEL_LABELS[level]} 단위로 찾습니다.",
        why=f"{rule.granularity} 색인이 없습니다(있는 색인: {', '.join(sorted(available)) or '없음'}).",
        data={"wanted": rule.granularity, "used": level},
    )
    return (effort, change)
