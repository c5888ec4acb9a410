"""What the refusal model reads, by hand on a small store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from rag.answering.asked import Asked, share
from rag.answering.sentences import FEATURES, Scored
from rag.answering.support import IDF_SCALE, NO_NOUNS, noun_words, support_of
from rag.schema import BM25, GRAPH, VECTOR, ChannelResult, Hit, PlannedQuery
from rag.stores.view import View
from tests.answering.support import ask, evidence, ranked


def result(view: View, channel: str, *hits: tuple[str, float]) -> ChannelResult:
    """A channel's hits: (part of the document id, score), best first."""
    found = []
    for rank, (name, score) in enumerate(hits, 1):
        chunk = evidence(view, name)[0].chunk
        found.append(Hit(chunk_id=chunk.chunk_id, scope_id=chunk.scope_id, rank=rank, score=score))
    return ChannelResult(channel=channel, status="ok", hits=tuple(found))


def chosen(view: View, question: str, *names: str) -> tuple[Asked, list[Scored]]:
    asked = ask(view, question, encoder=True)
    return asked, ranked(asked, evidence(view, *names))


def test_the_best_chosen_sentence_gives_its_features(view: View) -> None:
    asked, scored = chosen(view, "딸기 급액 EC 얼마로 둬요?", "딸기_양액", "야간")
    best = max(scored, key=lambda s: s.relevance)
    assert best.candidate.text == "딸기 급액 EC는 1.2dS/m로 둔다."
    features = dict(zip(FEATURES, best.features, strict=True))
    for order in (scored, scored[::-1]):
        found = asdict(support_of(asked, order, ()))
        assert {name: found[name] for name in ("similarity", "passage", "figure", "names", "missing")} == {
            name: features[name] for name in ("similarity", "passage", "figure", "names", "missing")
        }
    assert (features["figure"], features["missing"]) == (1, 0)
    worse = [s for s in scored if s is not best]
    second = max(worse, key=lambda s: s.relevance)
    assert second.features[0] != best.features[0]
    assert support_of(asked, worse, ()).similarity == second.features[0]


def test_how_the_channels_agree(view: View) -> None:
    asked, scored = chosen(view, "딸기 급액 EC", "딸기_양액")
    vector = result(view, VECTOR, ("딸기_양액", 0.9), ("야간", 0.6), ("토마토_양액", 0.6))

    def agreement(*others: ChannelResult) -> float:
        return support_of(asked, scored, (vector, *others)).agreement

    assert support_of(asked, scored, (vector,)).vector_gap == pytest.approx(0.9 - 0.7)
    assert agreement() == 0
    # both first: a third, and two common documents of five
    both = result(view, BM25, ("딸기_양액", 9.0), ("야간", 3.0), ("긴_글", 1.0))
    assert agreement(both) == pytest.approx((1 + 2 / 5) / 3)
    # the graph agrees, too
    assert agreement(both, result(view, GRAPH, ("딸기_양액", 0.1))) == pytest.approx((2 + 2 / 5) / 3)
    assert agreement(result(view, BM25, ("야간", 9.0), ("딸기_양액", 3.0))) == pytest.approx(2 / 5 / 3)
    failed = ChannelResult(channel=VECTOR, status="failed")
    assert support_of(asked, scored, (failed, both)).vector_gap == 0
    assert support_of(asked, scored, (failed, both)).agreement == 0


def test_which_nouns_are_said(view: View) -> None:
    asked, scored = chosen(view, "딸기 급액 센서 블루베리", "딸기_양액")
    sensor, level = scored
    nouns = {word: asked.weights[word] for word in noun_words(asked)}
    assert "센서" in nouns
    unseen = [word for word in nouns if word not in view.idf]
    assert unseen == ["블루베리"]

    def share_of(one: Scored) -> float:
        sentence = one.candidate.sentence
        return share(nouns, view.cited_tokens(sentence.chunk_id, sentence.start, sentence.end))

    assert share_of(sensor) > share_of(level)
    both = support_of(asked, scored, ())
    assert both.said == pytest.approx(share_of(sensor))
    assert both.unsaid_here == pytest.approx(asked.weights["블루베리"] / IDF_SCALE)
    assert both.unknown == pytest.approx(1 / 3)
    alone = support_of(asked, [level], ())
    assert alone.said == pytest.approx(share_of(level))
    everything = replace(asked, text="딸기", features=ask(view, "딸기").features)
    assert support_of(replace(everything), scored, ()).unsaid_here == 0


def test_only_sentences_with_the_asked_figure_say_the_nouns(view: View) -> None:
    asked, scored = chosen(view, "딸기 급액 EC 센서 얼마?", "딸기_양액")
    sensor, level = scored
    assert "센서" in noun_words(asked)
    figure = support_of(asked, scored, ())
    assert figure.said == support_of(asked, [level], ()).said > 0
    assert support_of(asked, [sensor], ()).said == 0
    assert support_of(asked, [sensor], ()).quantity == figure.quantity == 1
    # what is said anywhere counts for the nouns that nobody says
    assert figure.unsaid_here == 0 < support_of(asked, [level], ()).unsaid_here


def test_a_part_s_figure_counts(view: View) -> None:
    asked, scored = chosen(view, "딸기 급액 EC 센서", "딸기_양액")
    part = PlannedQuery(text="딸기 EC 얼마", vector=None, tokens=("딸기",), entities=())
    parts = replace(asked, parts=(part,))
    found = support_of(parts, [replace(s, parts=(0.0,)) for s in scored], ())
    assert (found.parts, found.quantity) == (1, 0)
    assert found.said < support_of(asked, scored, ()).said


def test_a_question_without_nouns(view: View) -> None:
    asked, scored = chosen(view, "어떻게 해요?", "딸기_양액")
    assert noun_words(asked) == frozenset()
    found = support_of(asked, scored, ())
    assert (found.said, found.unsaid_here, found.unknown) == (NO_NOUNS, 0, 0)


@pytest.mark.parametrize(
    ("question", "names", "row"),
    [
        ("3월 2동 배액률", ("2026-03-12", "2026-03_급액배액"), 1),
        ("3월 2동 배액률", ("2026-03-12",), 0),
        ("딸기 급액 EC", ("딸기_양액",), 0),
        ("딸기 흰가루병 등록 약 뭐 있어요?", ("등록_딸기.",), 1),
        ("딸기 흰가루병은 왜 생겨?", ("병해충/흰가루병",), 0),
        ("토마토 흰가루병 등록 약 뭐 있어요?", ("병해충/담배가루이",), 0),
    ],
)
def test_the_very_record_or_registration(view: View, question: str, names: Sequence[str], row: int) -> None:
    asked = ask(view, question, encoder=True)
    scored = [s for s in ranked(asked, evidence(view, *names)) if row or not s.exact]
    assert scored
    assert support_of(asked, scored, ()).row == row
