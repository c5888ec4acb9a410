"""Follow-ups: what is inherited, what is replaced, and that a question of its own inherits nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.query.features import read_question, search_words
from rag.schema import QueryFeatures
from rag.text import korean
from tests.query.test_features import CATALOGUE, query, read


def follow(text: str, previous: str) -> QueryFeatures:
    return read_question(replace(query(text), previous=previous), korean(), CATALOGUE, "햇살농원")[0]


@pytest.mark.parametrize(
    ("previous", "text", "slots", "keywords"),
    [
        ("토마토 착과기 급액 EC 얼마예요?", "그럼 딸기는?", ["crop=딸기", "growth_stage=착과기 <"], ["급액", "EC"]),
        ("토마토 착과기 급액 EC 얼마예요?", "배액은요?", ["crop=토마토 <", "growth_stage=착과기 <"], ["배액", "EC"]),
        ("작년 오이 수확량 합계", "재작년이랑 비교하면", ["date=2024-01-01/2024-12-31", "date=2025-01-01/2025-12-31 <", "crop=오이 <"], ["수확량", "합계"]),
        ("지난주 화요일 김주임 일지 보여줘", "그 다음날 거는", ["date=2026-11-25/2026-11-25", "author=김주임 <", "doc_type=작업일지 <"], []),
        ("2025년 상반기 회의록 찾아줘", "하반기 것도", ["date=2025-07-01/2025-12-31", "doc_type=회의록 <"], []),
        ("작년 3월 2동 배액률", "올해는요?", ["date=2026-03-01/2026-03-31", "house=2동 <"], ["배액률"]),
        ("작년 3월 2동 배액률", "1동은?", ["house=1동", "date=2025-03-01/2025-03-31 <"], ["배액률"]),
        ("설향 몇 월에 심었어 작년에", "금실은요?", ["cultivar=금실", "date=2025-01-01/2025-12-31 <"], ["심다"]),
        ("설향 급액 EC 얼마예요", "토마토는?", ["crop=토마토"], ["급액", "EC"]),  # a cultivar is of one crop
        ("지난주 2동 수확량 알려줘", "그럼 방제는?", ["date=2026-11-23/2026-11-29 <", "house=2동 <"], ["방제"]),
    ],
)  # fmt: skip
def test_what_is_inherited(previous: str, text: str, slots: list[str], keywords: list[str]) -> None:
    features = follow(text, previous)
    assert [f"{s.kind}={s.value}{' <' if s.inherited else ''}" for s in features.slots] == slots
    assert list(features.keywords) == keywords


def test_an_inherited_slot_tells_its_words_in_the_question_before() -> None:
    previous = "토마토 착과기 급액 EC 얼마예요?"
    features = follow("그럼 딸기는?", previous)
    asked = replace(query("그럼 딸기는?"), previous=previous)
    assert [(s.words_in(asked), s.rule) for s in features.slots] == [
        ("딸기", "lexicon.작물"),
        ("착과기", "inherited.lexicon.생육단계"),
    ]
    assert features.standalone == "딸기 착과기 급액 EC 얼마예요?"
    assert {"딸기", "착과기", "급액", "ec"} <= set(search_words(features))
    assert features.intent == "factual"


@pytest.mark.parametrize(
    "text",
    [
        "정전되면 온실에서 뭐부터 해야 하나",
        "토마토 배꼽썩음과 왜 생기고 뭘 해야 돼?",
        "작년 3월 작업일지에서 방제한 날 알려줘",
    ],
)
def test_a_question_of_its_own_inherits_nothing(text: str) -> None:
    assert follow(text, "지난주 2동 딸기 수확량 알려줘") == read(text)


def test_nothing_before_is_nothing_inherited() -> None:
    assert follow("그럼 딸기는?", "?") == read("그럼 딸기는?")


def test_another_pest_takes_the_place_of_the_one_before() -> None:
    features = follow("그럼 흰가루병은?", "오이 노균병 약은 수확 며칠 전까지 쳐도 돼요?")
    assert features.standalone == "오이 흰가루병 약은 수확 며칠 전까지 쳐도 돼요?"
    assert "노균병" not in (*features.keywords, *features.terms, *features.entities)
