"""What of a plan comes from the profile, what from the effort rule, and what happens when a level is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.policy import choose_level, make_plan
from rag.profile_table import ProfileTable
from rag.schema import (
    BM25,
    GRAPH,
    VECTOR,
    Decision,
    DocFilter,
    Effort,
    Level,
    PlannedQuery,
    QueryFeatures,
    RetrievalPlan,
    Scope,
    Walk,
)

TABLE = ProfileTable.builtin()
PROFILE = replace(TABLE.default, depth={VECTOR: 30, BM25: 40, GRAPH: 50}, rrf_k=13, walk=Walk(max_hops=2))
QUERIES = (PlannedQuery(text="딸기 EC", vector=None, tokens=("딸기", "EC"), entities=("딸기",)),)
SCOPE = Scope(farm_id="haetsal")
FILTERS = DocFilter(authors=("김주임",))


def plan_for(effort: Effort, levels: tuple[Level, ...]) -> tuple[RetrievalPlan, tuple[Decision, ...]]:
    features = QueryFeatures(effort=effort, reasons={"effort": "effort.length: 어절 3개"})
    return make_plan(features, PROFILE, TABLE.effort[effort], QUERIES, SCOPE, FILTERS, 2.5, available_levels=levels)


@pytest.mark.parametrize(("effort", "level", "top_k"), [("low", "G1", 7), ("medium", "G2", 8), ("high", "G3", 10)])
def test_each_part_comes_from_its_source(effort: Effort, level: Level, top_k: int) -> None:
    plan, decisions = plan_for(effort, ("G1", "G2", "G3"))
    assert (plan.granularity, plan.top_k) == (level, top_k)
    assert (plan.depth, plan.rrf_k, plan.walk) == (PROFILE.depth, 13, Walk(max_hops=2))
    assert (plan.queries, plan.scope, plan.filters, plan.timeout_s) == (QUERIES, SCOPE, FILTERS, 2.5)
    (effort_decision,) = decisions
    assert effort_decision.data == {"effort": effort, "granularity": level, "top_k": top_k}
    assert "어절 3개" in effort_decision.why


@pytest.mark.parametrize(("effort", "wanted", "top_k"), [("low", "G1", 7), ("high", "G3", 10)])
def test_only_paragraphs_indexed(effort: Effort, wanted: Level, top_k: int) -> None:
    plan, decisions = plan_for(effort, ("G2",))
    assert (plan.granularity, plan.top_k) == ("G2", top_k)
    assert decisions[1].data == {"wanted": wanted, "used": "G2"}
    assert decisions[1].why == f"{wanted} 색인이 없습니다(있는 색인: G2)."


@pytest.mark.parametrize(
    ("wanted", "available", "used"),
    [
        ("G3", ("G1", "G2", "G3"), "G3"),
        ("G3", ("G1", "G2"), "G2"),
        ("G3", ("G1",), "G1"),
        ("G1", ("G3",), "G3"),
        ("G2", ("G3", "G1"), "G1"),
        ("G3", (), "G2"),
    ],
)
def test_choose_level(wanted: Level, available: tuple[Level, ...], used: Level) -> None:
    assert choose_level(wanted, available) == used


def test_same_arguments_same_plan() -> None:
    assert plan_for("high", ("G2",)) == plan_for("high", ("G2",))


def test_a_plan_needs_time_and_a_query() -> None:
    rule = TABLE.effort["low"]
    with pytest.raises(ValueError, match="timeout_s = 0"):
        make_plan(QueryFeatures(), PROFILE, rule, QUERIES, SCOPE, FILTERS, 0)
    with pytest.raises(ValueError, match="at least one query"):
        make_plan(QueryFeatures(), PROFILE, rule, (), SCOPE, FILTERS, 1.0)
