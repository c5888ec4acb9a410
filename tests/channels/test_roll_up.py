"""Hits of another level become hits on the plan's level: one id a place, the best place counts, ranks from 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from rag.channels.roll_up import roll_up
from rag.schema import (
    BM25,
    GRAPH,
    PUBLIC,
    ChannelResult,
    DocFilter,
    GraphPath,
    Hit,
    Level,
    PlannedQuery,
    RetrievalPlan,
    Scope,
    Walk,
)
from rag.stores.view import View

# A document of a section "s" with paragraphs "p", "q"; "p" has the short chunks "a" and "b", "q" has "c".
PLACES: dict[Level, dict[str, tuple[str, ...]]] = {
    "G1": {"a": ("a",), "b": ("b",), "c": ("c",), "p": ("a", "b"), "q": ("c",), "s": ("a", "b", "c")},
    "G2": {"a": ("p",), "b": ("p",), "c": ("q",), "p": ("p",), "q": ("q",), "s": ("p", "q")},
    "G3": dict.fromkeys("abcpqs", ("s",)),
}
OWN: dict[Level, str] = {"G1": "abc", "G2": "pq", "G3": "s"}


@dataclass
class _Rows:
    row_of: dict[str, int]


class _View:
    levels = {level: _Rows({i: n for n, i in enumerate(ids)}) for level, ids in OWN.items()}

    def at_level(self, chunk_id: str, level: Level) -> tuple[tuple[str, str], ...]:
        return tuple((PUBLIC, i) for i in PLACES[level].get(chunk_id, ()))


def rolled(ids: str, level: Level, *, depth: int = 10, paths: tuple[GraphPath, ...] = ()) -> ChannelResult:
    hits = tuple(Hit(chunk_id=i, scope_id=PUBLIC, rank=n, score=1 / n) for n, i in enumerate(ids, start=1))
    plan = RetrievalPlan(
        queries=(PlannedQuery(text="딸기", vector=None, tokens=("딸기",), entities=()),),
        scope=Scope(),
        filters=DocFilter(),
        granularity=level,
        depth={BM25: 10, GRAPH: depth},
        rrf_k=60,
        walk=Walk(),
        top_k=5,
        timeout_s=1.0,
    )
    return roll_up(ChannelResult(channel=GRAPH, status="ok", hits=hits, paths=paths), cast(View, _View()), plan)


@pytest.mark.parametrize(
    ("found", "level", "kept", "scores"),
    [
        ("bca", "G2", "pq", [1, 1 / 2]),  # b and a are both in p: its best place counts
        ("cba", "G2", "qp", [1, 1 / 2]),
        ("cab", "G3", "s", [1]),
        ("qp", "G3", "s", [1]),
        ("s", "G1", "abc", [1, 1, 1]),  # what it holds, in reading order
        ("qp", "G1", "cab", [1, 1 / 2, 1 / 2]),
        ("as", "G2", "pq", [1, 1 / 2]),
        ("pq", "G2", "pq", [1, 1 / 2]),
    ],
)
def test_one_id_of_the_plan_s_level(found: str, level: Level, kept: str, scores: list[float]) -> None:
    hits = rolled(found, level).hits
    assert "".join(hit.chunk_id for hit in hits) == kept
    assert [hit.rank for hit in hits] == list(range(1, len(kept) + 1))
    assert [hit.score for hit in hits] == scores


def test_depth_still_holds() -> None:
    assert [hit.chunk_id for hit in rolled("s", "G1", depth=10).hits] == ["a", "b", "c"]
    assert [hit.chunk_id for hit in rolled("sc", "G1", depth=2).hits] == ["a", "b"]


def test_a_result_of_the_plan_s_level_stays_the_same_object() -> None:
    result = ChannelResult(
        channel=BM25, status="ok", hits=(Hit(chunk_id="q", scope_id=PUBLIC, rank=1, score=2.0),), note="말"
    )
    plan = RetrievalPlan(
        queries=(PlannedQuery(text="딸기", vector=None, tokens=(), entities=()),),
        scope=Scope(),
        filters=DocFilter(),
        granularity="G2",
        depth={BM25: 10},
        rrf_k=60,
        walk=Walk(),
        top_k=5,
        timeout_s=1.0,
    )
    assert roll_up(result, cast(View, _View()), plan) is result


def test_a_chunk_that_the_view_does_not_know_keeps_its_place() -> None:
    assert [hit.chunk_id for hit in rolled("xa", "G2").hits] == ["x", "p"]


def test_paths_go_with_their_chunk() -> None:
    path = GraphPath(chunk_id="c", nodes=("딸기",), labels=("언급",), confidence=1.0)
    (moved,) = rolled("c", "G2", paths=(path,)).paths
    assert (moved.chunk_id, moved.nodes) == ("q", ("딸기",))
    wide = GraphPath(chunk_id="s", nodes=("딸기",), labels=("언급",), confidence=1.0)
    assert rolled("s", "G2", paths=(wide,)).paths == ()  # in which of the two is not known
