"""Asking back: when, with which options, and what a choice makes of the question."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from rag.errors import SettingsError
from rag.query.clarify import chosen, clarify, option_of
from rag.query.features import read_question
from rag.query.filters import filters_of
from rag.schema import Clarification, Query, QueryFeatures, Scope
from rag.stores.catalogue import Catalogue
from rag.text import korean

DAYS = ("2024-12-05", "2025-03-05", "2025-11-20", "2025-12-03", "2026-02-10", "2026-03-09", "2026-05-01", "2026-11-20")
CATALOGUE = Catalogue(
    "v",
    frozenset({"김민수 주임", "김영호 주임", "박 반장"}),
    frozenset({"작업일지", "보고서", "회의록", "매뉴얼"}),
    frozenset({"1동", "육묘 3동", "재배 3동"}),
    frozenset({"딸기", "토마토"}),
    tuple(map(date.fromisoformat, DAYS)),
)


def query(text: str, *, farm_id: str | None = "office", previous: str | None = None) -> Query:
    at = datetime(2026, 11, 30, 9, tzinfo=ZoneInfo("Asia/Seoul"))
    return Query(text=text, scope=Scope(farm_id=farm_id), asked_at=at, previous=previous)


def read(asked: Query) -> tuple[QueryFeatures, Clarification | None]:
    features, analysis = read_question(asked, korean(), CATALOGUE, None)
    return features, clarify(features, analysis, asked, CATALOGUE)


def options(text: str, **more: str | None) -> list[str] | None:
    asked = read(query(text, **more))[1]
    return [asked.slot, *(value for _, value in asked.options)] if asked else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025년 보고서", ["date", "date:2025", "title:2025"]),
        ("'25년 매뉴얼 좀", ["date", "date:2025", "title:2025"]),
        ("3월 방제 기록 보여줘", ["date", "2025-03-01/2025-03-31", "2026-03-01/2026-03-31"]),
        ("11월 20일 급액 EC 몇이었어요", ["date", "2025-11-20/2025-11-20", "2026-11-20/2026-11-20"]),
        ("겨울 난방 일지", ["date", "2024-12-01/2025-02-28", "2025-12-01/2026-02-28"]),
        ("김주임 일지", ["author", "김민수 주임", "김영호 주임"]),
        ("3동 온도 어땠어", ["house", "육묘 3동", "재배 3동"]),
        ("급액 EC 얼마로 맞추면 되나요", ["crop", "딸기", "토마토"]),
    ],
)
def test_asked_back(text: str, expected: list[str]) -> None:
    assert options(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2025년 작업일지",  # a kind that is written day by day
        "2025년에 작성된 보고서",
        "작년 보고서",
        "2025년 3월 보고서",
        "5월 회의록 보여줘",  # of one year only
        "작년 3월 방제 기록",
        "지난 3월 방제 기록",
        "박반장 일지",
        "1동 온도",
        "재배 3동 온도",
        "토마토 급액 EC 얼마예요",
        "설향 급액 EC 얼마예요",
        "양액 탱크 용량은 얼마로 잡아요",
        "2월 30일 일지",
        "토마토",
        "ㅎㅎ 고마워요",
    ],
)
def test_decided_without_asking(text: str) -> None:
    assert options(text) is None


def test_a_follow_up_is_not_asked_back() -> None:
    assert options("그럼 3월은?", previous="2025년 2월 방제 기록") is None


def test_without_a_farm_no_record_is_asked_for() -> None:
    assert options("3월 방제 기록 보여줘", farm_id=None) is None


def after(text: str, choice: str) -> QueryFeatures:
    features, asked = read(query(text))
    return chosen(features, asked, replace(query(text), choice=choice))


def test_a_chosen_month_is_a_slot_and_a_filter() -> None:
    features = after("3월 방제 기록", "2025-03-01/2025-03-31")
    assert [(s.kind, s.value, s.rule) for s in features.slots] == [("date", "2025-03-01/2025-03-31", "choice")]
    assert filters_of(features, query("3월 방제 기록")).periods == ((date(2025, 3, 1), date(2025, 3, 31)),)


def test_a_chosen_year_is_a_date_and_a_title_word_is_none() -> None:
    assert after("2025년 보고서", "date:2025").values("date") == ("2025-01-01/2025-12-31",)
    titled = after("2025년 보고서", "title:2025")
    assert titled.values("date") == ()
    assert {"2025", "2025년"} <= set(titled.terms)
    assert "2025" in titled.keywords


def test_a_chosen_name_and_crop() -> None:
    assert after("김주임 일지", "김영호 주임").values("author") == ("김영호 주임",)
    assert after("3동 온도 어땠어", "재배 3동").values("house") == ("재배 3동",)
    crop = after("급액 EC 얼마로 맞추면 되나요", "딸기")
    assert (crop.slots[0].kind, crop.slots[0].value, crop.slots[0].start, crop.slots[0].end) == ("crop", "딸기", 0, 0)
    assert "딸기" in crop.terms
    assert "딸기" in crop.entities
    assert crop.standalone == "딸기 급액 EC 얼마로 맞추면 되나요"


def test_no_answer_changes_nothing_and_the_same_answer_gives_the_same() -> None:
    features, asked = read(query("3월 방제 기록"))
    for choice in ("", None):
        assert chosen(features, asked, replace(query("3월 방제 기록"), choice=choice)) == features
    assert after("3월 방제 기록", "2025-03-01/2025-03-31") == after("3월 방제 기록", "2025-03-01/2025-03-31")


def test_an_option_by_number_label_or_value() -> None:
    asked = read(query("3월 방제 기록"))[1]
    assert asked is not None
    for answer in ("1", "2025년 3월", "2025-03-01/2025-03-31"):
        assert option_of(asked, answer) == "2025-03-01/2025-03-31"
    with pytest.raises(SettingsError, match=r"'9'.*1\) 2025년 3월 2\) 2026년 3월"):
        option_of(asked, "9")
    with pytest.raises(SettingsError, match="2024-03"):
        after("3월 방제 기록", "2024-03-01/2024-03-31")
