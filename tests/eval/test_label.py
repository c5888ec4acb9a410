"""Labels replace intents of the wanted questions only."""

from __future__ import annotations

from eval.label import GRAMMAR, label_segments
from rag.schema import INTENTS, Segment

SEGMENTS: tuple[Segment, ...] = (("factual", "short", False, False), ("procedural", "long", True, False)) * 2


def test_labels_replace_the_intent_and_nothing_else() -> None:
    answers = {"가": "comparison", "나": "procedural", "다": "모름", "라": "relational"}
    found, agreement = label_segments(list(answers), SEGMENTS, [True, True, True, False], answers.__getitem__)
    assert found[0] == ("comparison", "short", False, False)
    assert found[1:] == SEGMENTS[1:]
    assert agreement == 1 / 3


def test_nothing_wanted_is_full_agreement() -> None:
    assert label_segments(["가"], SEGMENTS[:1], [False], lambda question: "comparison") == (SEGMENTS[:1], 1.0)


def test_the_grammar_knows_every_intent() -> None:
    assert all(f'"{intent}"' in GRAMMAR for intent in INTENTS)
