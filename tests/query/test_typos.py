"""Mistyped farm words: one letter wrong, one candidate, and never an ordinary word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.lexicon import Lexicon, Term
from rag.query.typos import Speller, one_letter_apart, speller
from rag.text import korean


def repaired(text: str) -> str:
    return speller(korean().lexicon).repair(text, korean().morphemes(text))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("토마도 착과기 온도", "토마토 착과기 온도"),
        ("딸끼 흰가루", "딸기 흰가루"),
        ("파프리까 광포화점", "파프리카 광포화점"),
        ("급엑 EC", "급액 EC"),
        ("양앵기 센서", "양액기 센서"),
        ("토마토 잿빛곰펭이 약", "토마토 잿빛곰팡이 약"),
        ("딸기 잎곰팽이병이 번져요", "딸기 잎곰팡이병이 번져요"),
        ("자년 10월 점검포에 이상 있었나", "작년 10월 점검표에 이상 있었나"),
        ("올해 1뤌 계약서", "올해 1월 계약서"),
        ("EC 얼마로 마춰요", "EC 얼마로 맞춰요"),
    ],
)
def test_a_letter_is_put_right(text: str, meant: str) -> None:
    assert repaired(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "이제 뭐 해요",
        "이슬 맺힌 아침에 곁순 따도 돼요?",
        "신에이 액제 희석",
        "담양에서 나온 죽향은 어떤 품종이에요?",
        "착과가 잘 안 돼요",
        "개화가 늦어요",
        "수확가 얼마",
        "온도는 몇 도",
        "오늘 누가 나왔어",
    ],
)
def test_ordinary_and_unknown_words_stay(text: str) -> None:
    assert repaired(text) == text


def test_one_letter() -> None:
    assert one_letter_apart("급엑", "급액")
    assert one_letter_apart("까치", "가치")
    assert not one_letter_apart("급액", "급액")
    assert not one_letter_apart("배액", "급액")  # two letters of one syllable
    assert not one_letter_apart("급", "급액")


@given(st.text(max_size=60))
def test_spans_stay(text: str) -> None:
    assert len(repaired(text)) == len(text)


def test_two_candidates_are_none() -> None:
    one = Lexicon([Term("파프리카", "작물", ("파프리카",))], "one")
    two = Lexicon([Term("파프리카", "작물", ("파프리카",)), Term("파프리타", "작물", ("파프리타",))], "two")
    text = "파프리까 온도"
    assert Speller(one).repair(text, korean().morphemes(text)) == "파프리카 온도"
    assert Speller(two).repair(text, korean().morphemes(text)) == text
