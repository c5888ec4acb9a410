"""What a registration tells of its use, and what a question wants of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rag.answering.asked import Asked
from rag.answering.choice import choose
from rag.answering.compose import dated
from rag.answering.order import opening
from rag.answering.refusals import NO_CROP, lacks_registration, registration_note
from rag.answering.registrations import Wanted, interval_of, registered_names, times_of, wanted_of
from rag.citations import citation_of
from rag.schema import Answer, CitedSentence, Scope
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


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A sheet and guides of two crops that tell how pesticides are used."""
    sheet = (
        "# 오이 노균병 등록 농약\n\n자료 기준일: 2026-04-24\n\n"
        "- 심볼 수화제(상표 심볼, 한국회사): 희석배수 500배, 수확 3일 전까지, 5회 이내, 등록 유효기간 2030-12-31.\n"
    )
    files = {
        "농약등록/오이/노균병.md": sheet,
        "재배/오이_노균병.md": "# 오이 노균병\n\n작성일: 2026-05-27\n\n아족시스트로빈은 노균병에 2,000배로 희석한다. 이 약제는 7일 간격으로 쓴다.\n",
        "재배/오이_흰가루병.md": "# 오이 병\n\n작성일: 2026-05-27\n\n가루사이드는 흰가루병에 3,000배로 희석한다. 이 약제는 10일 간격으로 쓴다.\n",
        "재배/딸기_노균병.md": "# 딸기 노균병\n\n작성일: 2026-05-20\n\n다른 약은 노균병에 1,000배로 희석한다.\n",
    }
    return stored(tmp_path_factory.mktemp("guided"), files, Scope())


def cited(view: View, question: str, *names: str) -> tuple[Asked, Answer]:
    asked = ask(view, question)
    sentences = tuple(
        CitedSentence(text=s.text, citations=(citation_of(s.candidate, s.cosine, ()),))
        for s in ranked(asked, evidence(view, *names))
    )
    return asked, Answer(sentences=sentences, refused=False, answerer="extractive")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("오이 노균병 등록 농약", "농약 등록 정보는 2026-04-24 기준 사본입니다. "),
        (
            "오이 노균병 약은 몇 배로 타요?",
            "농약 등록 정보는 2026-04-24 기준 사본입니다. 안내 자료의 농약 쓰는 법은 그 자료를 쓴 때(2026-05-27)의 것입니다. ",
        ),
        ("딸기 노균병 약은 몇 배로 타요?", "안내 자료의 농약 쓰는 법은 그 자료를 쓴 때(2026-05-20)의 것입니다. "),
        ("오이 노균병은 왜 생겨요?", ""),
    ],
)
def test_what_is_told_of_pesticides_carries_its_date(guided: View, question: str, told: str) -> None:
    asked, answer = cited(guided, question, "재배/오이_노균병", "재배/딸기")
    check = "살포 전에 농약안전정보시스템(psis.rda.go.kr)을 확인하세요."
    if "등록" in question:
        answer = replace(answer, sentences=tuple(s for s in answer.sentences if "상표" in s.text))
    assert dated(answer, asked).notes == ((f"{told}{check}",) if told else ())


def test_this_product_is_not_told_without_the_product(guided: View) -> None:
    _, answer = cited(guided, "오이 노균병 약은 몇 배로 며칠 간격으로 써요?", "재배/오이")
    told = [s.text for s in answer.sentences]
    assert "이 약제는 7일 간격으로 쓴다." in told
    assert "이 약제는 10일 간격으로 쓴다." not in told


def test_a_dose_without_a_crop_is_not_told_of_two(guided: View) -> None:
    asked = ask(guided, "노균병 약 몇 배로 타요?")
    scored = ranked(asked, evidence(guided, "재배/오이_노균병", "재배/딸기"))
    assert lacks_registration(asked, scored)
    assert registration_note(asked) == NO_CROP
    one = ask(guided, "오이 노균병 약 몇 배로 타요?")
    assert not lacks_registration(one, ranked(one, evidence(guided, "농약등록/오이", "재배/오이_노균병")))
