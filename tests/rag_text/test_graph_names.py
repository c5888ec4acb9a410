"""Question entities, neighbourhoods and the walk on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.channels.walk import seeds, walk_mass
from rag.english import names_in
from rag.lexicon import COMPOUND, NAME
from rag.schema import Walk
from rag.stores.graph_index import GraphIndex, Limits, Seeds
from rag.stores.names import NameMatcher


def found(names: list[str], text: str) -> list[str]:
    return [name for name, _, _ in NameMatcher(names).find(text)]


def test_the_longest_name_wins():
    assert found(["york", "new york", "new york city"], "Flights to New York City") == ["new york city"]


def test_latin_names_need_word_borders():
    assert found(["art"], "The party started") == []
    assert found(["art"], "Art.") == ["art"]


def test_accents_and_spaces_do_not_matter():
    assert found(["beyonce knowles"], "Beyoncé  Knowles sang") == ["beyonce knowles"]


def test_spans_point_into_the_question():
    text = "Was Beyoncé born?"
    ((_, start, end),) = NameMatcher(["beyonce"]).find(text)
    assert text[start:end] == "Beyoncé"


def test_a_short_hangul_name_counts_at_a_word_start_only():
    assert found(["요한"], "필요한가요") == []
    assert found(["요한"], "요한은 누구인가요") == ["요한"]


def test_a_stop_word_is_no_name():
    assert found(["who", "the who"], "Who are The Who?") == ["the who"]


def graph(rows: list[tuple[int, str, str, int, bool]], n_chunks: int = 4) -> GraphIndex:
    return GraphIndex(n_chunks, rows, [])


def test_a_lower_case_word_is_not_the_name_spelled_alike():
    index = graph([(0, "later", NAME, 1, True), (1, "ausaf ali", NAME, 1, True)])
    question = "Was Ausaf Ali born later?"
    assert index.entities_in(question, tuple(names_in(question))) == ("ausaf ali",)
    assert index.entities_in("was ausaf ali born later?", ()) == ("ausaf ali", "later")


def test_a_name_read_off_the_question_counts_beside_the_longer_match():
    index = graph([(0, "prince edward, earl of wessex", NAME, 1, True), (1, "earl of wessex", NAME, 1, True)])
    question = "Who is Prince Edward, Earl of Wessex?"
    assert index.entities_in(question, tuple(names_in(question))) == (
        "prince edward, earl of wessex",
        "earl of wessex",
    )


def test_open_entities_need_two_chunks_or_a_title():
    index = graph([(0, "once", COMPOUND, 5, False), (0, "twice", NAME, 1, False), (1, "twice", NAME, 1, False)])
    assert index.entities == ("twice",)


@st.composite
def graphs(draw: st.DrawFn) -> GraphIndex:
    cells = draw(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 5)), min_size=1, max_size=25))
    edges = draw(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6))
    mentions = [(chunk, f"e{entity}", "종류", 1 + (chunk + entity) % 3, False) for chunk, entity in cells]
    return GraphIndex(8, mentions, [(0, f"e{a}", "관련", f"e{b}", 0.5) for a, b in edges if a != b])


@settings(max_examples=80, deadline=None)
@given(index=graphs(), hops=st.integers(1, 3), temperature=st.sampled_from([None, 0.1]))
def test_a_walk_on_the_neighbourhood_equals_a_walk_on_the_whole(
    index: GraphIndex, hops: int, temperature: float | None
):
    similarities = np.linspace(0.9, 0.1, 8).astype(np.float32)
    walk = Walk(max_hops=hops, dense_mass=0.0, temperature=temperature)
    start = index.entities[:2]
    whole = walk_mass(index, seeds(index, start, similarities, walk), similarities, walk)
    part = index.neighbourhood(Seeds(entities=start), hops, Limits(chunks_per_entity=99))
    local = similarities[part.rows]
    mass = walk_mass(part, seeds(part, start, local, walk), local, walk)
    expanded = np.zeros(8)
    expanded[part.rows] = mass
    assert expanded == pytest.approx(whole)


def test_relations_elsewhere_count_in_a_neighbourhood_without_any():
    mentions = [
        (0, "a", "종류", 1, False),
        (1, "a", "종류", 1, False),
        (7, "b", "종류", 1, False),
        (7, "c", "종류", 1, False),
    ]
    index = GraphIndex(8, mentions, [(7, "b", "관련", "c", 0.5)])
    walk = Walk(max_hops=3, dense_mass=0.0)
    part = index.neighbourhood(Seeds(entities=["a"]), 3)
    assert part.relation_t.nnz == 0
    whole = walk_mass(index, seeds(index, ["a"], None, walk), None, walk)
    assert walk_mass(part, seeds(part, ["a"], None, walk), None, walk) == pytest.approx(whole[part.rows])


def test_degree_caps_bound_the_neighbourhood():
    index = graph([(chunk, "hub", NAME, 1, chunk == 3) for chunk in range(10)], 10)
    part = index.neighbourhood(Seeds(entities=["hub"]), 1, Limits(chunks_per_entity=2))
    assert part.rows.tolist() == [0, 3]  # the title mention weighs most, then ties by row


def test_nothing_known_gives_an_empty_neighbourhood():
    part = graph([(0, "a", "종류", 1, False)]).neighbourhood(Seeds(entities=["unknown"]), 3)
    assert part.n_chunks == 0
    assert part.entities == ()
