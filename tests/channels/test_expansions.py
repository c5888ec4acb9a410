"""Further words in BM25 and the graph: the formula, nothing counted twice, and nothing changed without them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rag.channels.base import Found, run_channels
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.walk import seeds, walk_scores
from rag.fusion import fuse
from rag.schema import BM25, GRAPH, VECTOR, DocFilter, Hit, PlannedQuery, RetrievalPlan, Scope, Walk, Weights
from rag.stores.bm25_index import Bm25Index
from rag.stores.graph_index import GraphIndex
from rag.tracing import Recorder

TOKENS = [["가루이", "방제"], ["온실가루이", "방제"], ["온실가루이", "담배가루이"], ["토마토"], ["딸기"]]
ROWS = [(0, "가루이류"), (1, "온실가루이"), (2, "온실가루이"), (2, "담배가루이"), (3, "토마토"), (4, "딸기")]
INDEX = Bm25Index.build(TOKENS)
GRAPH_INDEX = GraphIndex(5, [(row, name, "해충", 1, False) for row, name in ROWS], [])
LEVEL = SimpleNamespace(
    bm25=INDEX,
    graph=GRAPH_INDEX,
    chunk_ids=tuple(f"c{i}" for i in range(5)),
    scope_of=("public",) * 5,
    similarities=lambda vector: vector,
)
VIEWS = SimpleNamespace(get=lambda scope: SimpleNamespace(levels={"G2": LEVEL}, mask=lambda level, filters: None))
WORDS = (("온실가루이", 0.3), ("방제", 0.5))


def query(**changes: object) -> PlannedQuery:
    given = {"text": "q", "vector": None, "tokens": ("가루이", "방제"), "entities": ("가루이류",)}
    return PlannedQuery(**{**given, **changes})  # type: ignore[arg-type]


def plan(*queries: PlannedQuery) -> RetrievalPlan:
    return RetrievalPlan(
        queries=queries or (query(),),
        scope=Scope(),
        filters=DocFilter(),
        granularity="G2",
        depth={BM25: 10, GRAPH: 10, VECTOR: 10},
        rrf_k=10,
        walk=Walk(),
        top_k=5,
        timeout_s=5,
    )


def test_bm25_adds_the_weighted_score_of_each_further_word_once() -> None:
    found = Bm25Channel(VIEWS).search(plan(), query(expansions=WORDS))  # type: ignore[arg-type]
    expected = INDEX.scores(("가루이", "방제")) + np.float32(0.3) * INDEX.scores(("온실가루이",))
    assert {hit.chunk_id: hit.score for hit in found.hits} == pytest.approx(
        {f"c{i}": expected[i] for i in range(5) if expected[i] > 0}
    )


def test_a_further_word_finds_what_the_question_does_not_but_below_it() -> None:
    plain = Bm25Channel(VIEWS).search(plan(), query(tokens=("가루이",)))  # type: ignore[arg-type]
    more = Bm25Channel(VIEWS).search(plan(), query(tokens=("가루이",), expansions=WORDS[:1]))  # type: ignore[arg-type]
    assert [hit.chunk_id for hit in plain.hits] == ["c0"]
    assert [hit.chunk_id for hit in more.hits][:1] == ["c0"]
    assert {hit.chunk_id for hit in more.hits} == {"c0", "c1", "c2"}


def test_seeds_weigh_further_entities_less() -> None:
    _, mass = seeds(GRAPH_INDEX, ("가루이류",), None, Walk(), (("담배가루이", 0.3), ("없는말", 0.3)))
    idf, number = GRAPH_INDEX.idf, GRAPH_INDEX.number
    total = idf[number["가루이류"]] + 0.3 * idf[number["담배가루이"]]
    assert mass[number["가루이류"]] == pytest.approx(idf[number["가루이류"]] / total)
    assert mass[number["담배가루이"]] == pytest.approx(0.3 * idf[number["담배가루이"]] / total)
    assert mass.sum() == pytest.approx(1)


def test_an_entity_of_the_question_keeps_its_weight() -> None:
    plain = seeds(GRAPH_INDEX, ("가루이류",), None, Walk())
    again = seeds(GRAPH_INDEX, ("가루이류",), None, Walk(), (("가루이류", 0.3),))
    assert np.array_equal(plain[1], again[1])


def test_without_further_words_every_byte_is_the_same() -> None:
    similarities = np.linspace(0.7, 0.9, 5).astype(np.float32)
    plain = walk_scores(GRAPH_INDEX, ("가루이류",), similarities, Walk())
    assert plain.tobytes() == walk_scores(GRAPH_INDEX, ("가루이류",), similarities, Walk(), ()).tobytes()
    channel = Bm25Channel(VIEWS)  # type: ignore[arg-type]
    scores = INDEX.scores(("가루이", "방제"))
    assert [hit.score for hit in channel.search(plan(), query()).hits] == sorted(
        (float(s) for s in scores if s > 0), reverse=True
    )


def test_the_graph_walks_from_further_entities_too() -> None:
    channel = GraphChannel(VIEWS)  # type: ignore[arg-type]
    assert {hit.chunk_id for hit in channel.search(plan(), query()).hits} == {"c0"}
    found = channel.search(plan(), query(expansions=WORDS))
    assert found.hits[0].chunk_id == "c0"
    assert {hit.chunk_id for hit in found.hits} == {"c0", "c1", "c2"}
    assert {path.nodes for path in found.paths} >= {("가루이류",), ("온실가루이",)}


@pytest.mark.parametrize(
    "changes", [{"expansions": (("a", 1.0),)}, {"expansions": (("a", 0.0),)}, {"share": 0.0}, {"share": 1.5}]
)
def test_weights_out_of_range_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expansion|share"):
        query(**changes)


class Seen:
    """A channel that finds one chunk and remembers its plans."""

    name = BM25

    def __init__(self) -> None:
        self.plans: dict[str, RetrievalPlan] = {}

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        self.plans[query.text] = plan
        return Found(hits=(Hit(chunk_id=query.text, scope_id="public", rank=1, score=1.0),))


def test_a_sub_question_votes_with_its_share_under_its_own_filter() -> None:
    channel, narrow = Seen(), DocFilter(houses=("2동",))
    whole = query(text="whole")
    results = run_channels([channel], plan(whole, query(text="sub", share=0.25, filters=narrow)), Recorder())
    assert (channel.plans["whole"].filters, channel.plans["sub"].filters) == (DocFilter(), narrow)
    first, second = fuse(results, Weights({BM25: 1.0}), 1)
    assert (first.chunk_id, first.score, second.chunk_id, second.score) == ("whole", 1 / 2, "sub", 0.25 / 2)
    assert second.votes[0].weight == 0.25
