"""Monthly tables of a farm: the highest and lowest of several, sums, and how things are now."""

from __future__ import annotations

import pytest

from rag.answering.choice import choose
from rag.answering.months import asks_sum, column_words, extreme, month_row, sum_of, value_of
from rag.answering.order import opening, ordered
from rag.stores.view import View
from tests.answering.support import ask, evidence, ranked, stored

HARVEST = "동: 2동, 작목: 딸기, 특(kg): 211, 상(kg): 300, 보통(kg): 50, 월 합계(kg): 1,561"


@pytest.mark.parametrize(
    ("question", "sign"),
    [
        ("올해 제일 추웠던 달이 언제야", -1),
        ("3동 최저온도 가장 낮았던 달은?", -1),
        ("수확이 가장 적었던 달", -1),
        ("여름에 제일 더웠을 때 몇 도까지 올라갔어", 1),
        ("딸기 제일 많이 딴 달", 1),
        ("3월 최저온도 몇 도였어", 0),
        ("가장 최근 배액률", 0),
    ],
)
def test_highest_and_lowest(question: str, sign: int) -> None:
    assert extreme(question) == sign


@pytest.mark.parametrize(
    ("question", "summed"),
    [
        ("올해 2동 수확량 다 합치면 몇 키로야", True),
        ("작년 급액량 총량", True),
        ("상반기 딸기 수확 합계", True),
        ("3월 2동 수확량", False),
        ("수확 기록 모두 보여줘", False),
    ],
)
def test_sums(question: str, summed: bool) -> None:
    assert asks_sum(question) is summed


@pytest.mark.parametrize(
    ("question", "columns"),
    [
        ("4월 4동 보통 등급 몇 kg 나왔는지", ("보통",)),
        ("4월 4동 특품 몇 kg", ("특",)),
        ("4월 4동 상품이랑 특품", ("특", "상")),
        ("4월 4동 딸기 몇 kg 나왔는지", ("합계",)),
        ("작년 3월이랑 올해 3월 수확 비교해줘", ("합계",)),
        ("수확 전 배액률", ()),
        ("지난달 2동 씨오투", ("CO2",)),
        ("올해 제일 추웠던 달", ("최저",)),
    ],
)
def test_columns_meant_without_their_names(question: str, columns: tuple[str, ...]) -> None:
    assert column_words(question) == columns


@pytest.mark.parametrize("question", ["작년 수리비 제일 많이 나온 달", "올해 부품비 합계", "모종값 다 합치면"])
def test_money_is_in_no_monthly_table(farm: View, question: str) -> None:
    row = next(s for s in ranked(ask(farm, "1동 수확량"), evidence(farm, "2026-11_수확")) if "1동" in s.text)
    assert month_row(row.chunk, row.candidate.text, "올해 11월 수확량 합계", ["합계"])
    assert not month_row(row.chunk, row.candidate.text, question, ["합계"])


def test_the_value_of_the_column_that_is_asked_for() -> None:
    assert value_of(HARVEST, ["합계"]) == ("월 합계(kg)", 1561)
    assert value_of(HARVEST, ["특"]) == ("특(kg)", 211)
    assert value_of(HARVEST, ["배액률"]) is None
    assert value_of("동: 2동, 작목: 딸기, 특(kg): -, 월 합계(kg): 수확 없음", ["합계"]) is None
    warm = "동: 2동, 작목: 딸기, 최저온도(℃): -1.5, 최저온도 날짜: 2026-01-03"
    assert value_of(warm, ["최저"]) == ("최저온도(℃)", -1.5)


def test_amounts_add_up_and_means_do_not() -> None:
    other = HARVEST.replace("1,561", "39.5")
    assert sum_of([HARVEST, other], ["합계"]) == ("월 합계(kg)", 1600.5)
    assert sum_of([HARVEST], ["합계"]) is None
    assert sum_of([HARVEST, other.replace("39.5", "수확 없음")], ["합계"]) is None
    drained = "동: 2동, 작목: 딸기, 배액률(%): 33, 급액량(L): 9100"
    assert sum_of([drained, drained], ["배액률"]) is None
    assert sum_of([drained, drained], ["급액량"]) == ("급액량(L)", 18200)
    assert sum_of([HARVEST, drained], ["합계", "급액량"]) is None


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> View:
    harvest = {"2026-09": (211, 40), "2026-10": (900, 70), "2026-11": (561, 1200)}
    files = {
        f"수확/{month}_수확기록.csv": f"동,작목,특(kg),월 합계(kg)\n1동,토마토,9,{one}\n2동,딸기,7,{two}\n"
        for month, (one, two) in harvest.items()
    }
    files |= {
        f"급액배액/{month}_급액배액_요약.csv": f"동,작목,배액률(%),급액량(L)\n1동,토마토,{rate},9100\n2동,딸기,19,800\n"
        for month, rate in (("2025-11", 31), ("2026-10", 27), ("2026-11", 24))
    }
    files |= {
        "작업일지/2026-11-20_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n1동 배액률이 27%였다.\n",
        "작업일지/2025-03-10_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n1동 배액률이 35%였다.\n",
    }
    return stored(tmp_path_factory.mktemp("months"), files)


def told(view: View, question: str) -> tuple[str, list[str]]:
    asked = ask(view, question)
    scored = ranked(asked, evidence(view, "배액", "작업일지"))
    read = ordered(asked, choose(asked, scored), ())
    return opening(asked, read, scored), [f"{s.chunk.date[:7]} {s.text}" for s in read]


@pytest.mark.parametrize(
    ("question", "lead", "first"),
    [
        ("올해 1동 수확 제일 많이 한 달은?", "월별 기록 3건에서 ‘월 합계’ 값이 높은 것부터입니다.", "2026-10"),
        ("올해 1동 수확 제일 적었던 달은?", "월별 기록 3건에서 ‘월 합계’ 값이 낮은 것부터입니다.", "2026-09"),
        ("1동 배액률 제일 높았던 달이 언제야", "월별 기록 3건에서 ‘배액률’ 값이 높은 것부터입니다.", "2025-11"),
    ],
)
def test_months_by_their_values(farm: View, question: str, lead: str, first: str) -> None:
    opened, read = told(farm, question)
    assert opened == lead
    assert read[0].startswith(first)
    assert all("1동" in one for one in read)


def test_a_sum_is_told_where_all_of_it_is_shown(farm: View) -> None:
    opened, read = told(farm, "올해 1동 토마토 수확량 다 합치면 몇 키로야")
    assert opened == "월별 기록의 ‘월 합계’ 3개를 더하면 1,672kg입니다."
    assert [one[:7] for one in read] == ["2026-09", "2026-10", "2026-11"]
    opened, read = told(farm, "작년부터 올해까지 1동 배액률 다 합치면")
    assert "더하면" not in opened


def test_no_sum_is_told_of_rows_that_are_not_shown(farm: View) -> None:
    asked = ask(farm, "올해 1동 토마토 수확량 다 합치면 몇 키로야")
    scored = ranked(asked, evidence(farm, "수확"))
    read = choose(asked, scored)
    assert "더하면 1,672kg" in opening(asked, read, scored)
    assert opening(asked, read[:2], scored).startswith("기록이 많아 일부만 보였습니다.")


def test_now_is_the_newest_month_and_what_was_written_since(farm: View) -> None:
    _, read = told(farm, "지금 1동 배액률 얼마야")
    assert [one[:7] for one in read] == ["2026-11", "2026-11"]
    assert {"27%" in read[0], "24%" in read[1]} == {True}
    _, read = told(farm, "요즘 배액률 어때")
    assert all(one.startswith("2026-11") for one in read)
    assert len(read) == 3
