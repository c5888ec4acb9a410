"""What a registration tells of its use, and what a question wants of it."""

from __future__ import annotations

import math

import pytest

from rag.answering.choice import choose
from rag.answering.order import opening
from rag.answering.registrations import Wanted, interval_of, registered_names, times_of, wanted_of
from rag.schema import Scope
from rag.stores.view import View
from tests.answering.support import ask, evidence, ranked, stored

ROW = "클로티아니딘 입상수용제(상표 심볼, (주)동방아그로): 희석배수 2000배, 발병초 7일간격 2회, 수확 3일 전까지, 3회 이내, 등록 유효기간 2032-03-21."


@pytest.mark.parametrize(
    ("row", "interval"),
    [
        (ROW, 3),
        ("품목: 심볼, 상표: 심볼, 희석배수: 2000배, 안전사용시기: 수확 14일 전까지, 사용횟수: 3회 이내", 14),
        ("품목: 심볼, 상표: 심볼, 희석배수: 2000배, 안전사용시기: 7, 사용횟수: 2회", 7),
        ("보르도액(상표 세빈): 희석배수 500배, 수확당일까지, 3회 이내", 0),
        ("다조멧 입제(상표 밧사미드): 사용량 30㎏/10a, 정식 4주전에 사용, 안전사용시기 정식기, 1회", None),
        ("유제(상표 가): 희석배수 1000배, 안전사용시기 15일이상 간격양액재배, 3회 이내", None),
    ],
)
def test_days_before_harvest(row: str, interval: int | None) -> None:
    assert interval_of(row) == interval


def test_times() -> None:
    assert times_of(ROW) == 3
    assert times_of("다조멧 입제(상표 밧사미드): 사용량 30㎏/10a, 안전사용시기 정식기") is None


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("딸기 응애약 중에 수확 3일 전까지 쓸 수 있는 거", Wanted(days=3)),
        ("오이 흰가루병 약 수확 하루 전까지 되는 것만", Wanted(days=1)),
        ("모레 토마토 따는데 지금 쳐도 되는 잿빛곰팡이병 약", Wanted(days=2)),
        ("내일 수확인데 쓸 수 있는 딸기 흰가루병 약은?", Wanted(days=1)),
        ("일주일 뒤에 딸건데 진딧물 약 뭐 있어", Wanted(days=7)),
        ("수확 당일에도 쓸 수 있는 약", Wanted(days=0)),
        ("세 번까지 쓸 수 있는 오이 노균병 약", Wanted(times=3)),
        ("5회 쳐도 되는 약이랑", Wanted(times=5)),
        ("토마토 가루이 약 중 수확 전 기간이 제일 짧은 것", Wanted(soonest=True)),
        ("내일 딸기 흰가루병 약 칠 건데 뭐 쓰지", Wanted()),
        ("오이 흰가루병 약은 수확 며칠 전까지 쳐?", Wanted()),
        ("약을 몇 번까지 칠 수 있어?", Wanted()),
        ("딸기 3일 간격으로 치는 약", Wanted()),
    ],
)
def test_conditions_of_a_question(question: str, wanted: Wanted) -> None:
    assert wanted_of(question) == wanted


def test_how_far_a_registration_is_from_what_is_wanted() -> None:
    row = "심볼 수화제(상표 심볼): 희석배수 2000배, 수확 3일 전까지, 2회 이내"
    assert [Wanted(days=days).short_of(row) for days in (0, 2, 3, 7)] == [3, 1, 0, 0]
    assert [Wanted(times=times).short_of(row) for times in (1, 2, 5)] == [0, 0, 3]
    assert Wanted(soonest=True).short_of(row) == 3
    assert Wanted().short_of(row) == 0
    planted = "밧사미드 입제(상표 밧사미드): 사용량 30㎏/10a, 안전사용시기 정식기"
    assert Wanted(days=30).short_of(planted) == math.inf
    assert Wanted(soonest=True).short_of(planted) == math.inf
    assert Wanted(times=1).short_of(planted) == math.inf
    assert not Wanted()
    assert Wanted(days=0)
    assert Wanted(days=1, times=2).told() == "수확 1일 전에 2회까지"


@pytest.fixture(scope="module")
def whitefly(tmp_path_factory: pytest.TempPathFactory) -> View:
    rows = (
        ("골드러쉬", "아세퀴노실 유제", "수확 7일 전까지, 2회 이내"),
        ("나라크", "메트라페논 유제", "수확 3일 전까지, 3회 이내"),
        ("체스", "비펜트린 훈연제", "수확 14일 전까지, 1회 이내"),
    )
    listed = "".join(
        f"- {product}(상표 {brand}, 한국회사): 희석배수 2000배, {use}, 등록 유효기간 2030-12-31.\n"
        for brand, product, use in rows
    )
    text = f"# 토마토 온실가루이 등록 농약\n\n자료 기준일: 2026-04-24\n\n{listed}"
    return stored(tmp_path_factory.mktemp("whitefly"), {"농약등록/토마토/온실가루이.md": text}, Scope())


@pytest.mark.parametrize(
    ("question", "told", "lead"),
    [
        (
            "토마토 온실가루이 등록 농약 중 수확 7일 전까지 쓸 수 있는 것만",
            {"골드러쉬", "나라크"},
            "수확 7일 전에 쓸 수 있는 등록입니다.",
        ),
        (
            "모레 토마토 따는데 온실가루이 약 뭐 칠 수 있어요?",
            {"나라크"},
            "수확 2일 전에 쓸 수 있는 등록은 찾지 못했습니다. 가장 가까운 것입니다.",
        ),
        (
            "토마토 온실가루이 약 중에 수확 전 기간이 제일 짧은 거",
            {"나라크"},
            "등록 자료에서 수확 전 기간이 가장 짧은 것입니다.",
        ),
        ("세 번까지 쓸 수 있는 토마토 온실가루이 약", {"나라크"}, "3회까지 쓸 수 있는 등록입니다."),
        # one is named: that one is told, whatever its interval
        ("토마토 온실가루이에 체스는 수확 3일 전에 쳐도 되나요?", {"체스"}, "토마토 온실가루이 등록 농약입니다."),
        ("토마토 온실가루이 약 등록된 거", {"골드러쉬", "나라크", "체스"}, "토마토 온실가루이 등록 농약입니다."),
    ],
)
def test_registrations_as_they_are_wanted(whitefly: View, question: str, told: set[str], lead: str) -> None:
    asked = ask(whitefly, question)
    scored = ranked(asked, evidence(whitefly, "온실가루이"))
    found = choose(asked, scored)
    assert {registered_names(s.candidate.text)[0] for s in found} == told
    assert opening(asked, found, scored) == lead
