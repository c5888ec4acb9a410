"""Which condition goes where nothing on file meets all, and what is said about it."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from rag.query.features import read_question
from rag.query.filters import Relaxed, filters_of, invalid_dates, relax
from rag.schema import DocFilter, Query, Scope
from rag.stores.catalogue import Catalogue
from rag.stores.segments import DocumentFacts
from rag.text import korean

OWN = "farm:haetsal"


def facts(
    name: str, *, kind: str = "작업일지", author: str = "김주임", house: str = "1동", day: str = "2026-11-24"
) -> DocumentFacts:
    return DocumentFacts(
        doc_id=f"{OWN}/{name}",
        scope_id=OWN,
        title=name,
        kind=kind,
        crop="",
        author=author,
        format="md",
        houses=(house,),
        days=(date.fromisoformat(day), date.fromisoformat(day)),
    )


DOCUMENTS = (
    facts("a.md"),
    facts("b.md", author="박반장", day="2026-11-25"),
    facts("c.md", kind="회의록", house="2동", day="2026-10-05"),
)
CATALOGUE = Catalogue.of(DOCUMENTS, "v")


def asked(text: str) -> Query:
    return Query(
        text=text, scope=Scope(farm_id="haetsal"), asked_at=datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Asia/Seoul"))
    )


def relaxed(text: str) -> tuple[DocFilter, tuple[Relaxed, ...], DocFilter]:
    query = asked(text)
    features, _ = read_question(query, korean(), CATALOGUE, "햇살농원")
    wanted = filters_of(features, query)
    return *relax(wanted, features, query, CATALOGUE), wanted


@pytest.mark.parametrize(
    ("text", "dropped", "near"),
    [
        ("지난주 화요일 김주임 작업일지", [], False),
        ("지난주 화요일 회의록", ["doc_type"], False),
        ("지난주 화요일 작업일지 pdf", ["file"], False),
        ("지난주 화요일 박반장 작업일지", ["author"], True),
        ("지난주 화요일 3동 작업일지", ["house"], True),
        ("2019년 5월 작업일지", ["date"], True),
        ("박주임이 쓴 견적서", ["doc_type", "author"], True),
        ("6동 작업일지", ["house"], True),
    ],
)
def test_the_fewest_conditions_go_in_order(text: str, dropped: list[str], near: bool) -> None:
    looser, told, wanted = relaxed(text)
    assert [one.kind for one in told] == dropped
    assert any(one.near for one in told) is near
    assert CATALOGUE.matches(looser)
    assert (looser == wanted) is (not dropped)
    assert looser.scopes == (OWN,)


def test_what_was_left_out_is_named() -> None:
    assert relaxed("지난주 화요일 회의록")[1][0].note == "문서 종류 '회의록' 조건을 빼고 찾았습니다."
    assert "작성자 '박반장'에 맞는 자료가 없습니다." in relaxed("지난주 화요일 박반장 작업일지")[1][0].note
    assert "'2019년 5월(2019-05-01~2019-05-31)'에 맞는 자료가 없습니다." in relaxed("2019년 5월 작업일지")[1][0].note


def test_the_scope_never_goes() -> None:
    query = asked("2026년 11월 작업일지")
    features, _ = read_question(query, korean(), CATALOGUE, None)
    public = Catalogue.of([], "v")
    wanted = filters_of(features, query)
    assert relax(wanted, features, query, public) == (wanted, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "2월 30일 방제 기록",
            "'2월 30일'은(는) 달력에 없는 날짜라 조건에서 뺐습니다. 2월은 28일(윤년은 29일)까지입니다.",
        ),
        ("작년 6월 31일 수확량", "'작년 6월 31일'은(는) 달력에 없는 날짜라 조건에서 뺐습니다. 6월은 30일까지입니다."),
        ("2025.13.05 기록", "'2025.13.05'은(는) 달력에 없는 날짜라 조건에서 뺐습니다. 달은 1월부터 12월까지입니다."),
    ],
)
def test_a_date_in_no_calendar_is_named_with_the_remedy(text: str, said: str) -> None:
    query = asked(text)
    features, _ = read_question(query, korean(), CATALOGUE, None)
    (note,) = invalid_dates(features, query)
    assert note == f"{said} 날짜를 고쳐 다시 물어 주세요."
    assert filters_of(features, query).periods == ()
