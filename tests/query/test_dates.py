"""Every date rule at several "today"s: what it reads, and that its span is what it matched."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.query.dates import BadDate, Period, find_periods

TUESDAY = date(2026, 12, 1)
NEW_YEAR = date(2026, 1, 1)  # a Thursday
LEAP = date(2024, 3, 1)

unhurried = settings(deadline=None, max_examples=200)


def read(text: str, today: date) -> list[tuple[str, str, str]]:
    """(matched words, "first/last" or "없는 날", rule) of every finding."""
    return [
        (text[p.start : p.end], f"{p.first}/{p.last}", p.rule)
        if isinstance(p, Period)
        else (text[p.start : p.end], "없는 날", "")
        for p in find_periods(text, today)
    ]


def day(text: str) -> str:
    return f"{text}/{text}"


@pytest.mark.parametrize(
    ("text", "today", "words", "period", "rule"),
    [
        # a day in full
        ("2026년 3월 5일 일지", TUESDAY, "2026년 3월 5일", day("2026-03-05"), "date.full"),
        ("2026 년3월  5 일", TUESDAY, "2026 년3월  5 일", day("2026-03-05"), "date.full"),
        ("2026-03-05 기록", TUESDAY, "2026-03-05", day("2026-03-05"), "date.full"),
        ("2026.3.5에", TUESDAY, "2026.3.5", day("2026-03-05"), "date.full"),
        ("2026/03/05", TUESDAY, "2026/03/05", day("2026-03-05"), "date.full"),
        ("2024-02-29", TUESDAY, "2024-02-29", day("2024-02-29"), "date.full"),
        # a day of a month
        ("3월 5일에 친 약", TUESDAY, "3월 5일", day("2026-03-05"), "date.month_day"),
        ("작년 3월 5일", TUESDAY, "작년 3월 5일", day("2025-03-05"), "date.year_month_day"),
        ("25년 3월 5일", TUESDAY, "25년 3월 5일", day("2025-03-05"), "date.year_month_day"),
        ("12월 1일", TUESDAY, "12월 1일", day("2026-12-01"), "date.month_day"),
        ("12월 2일", TUESDAY, "12월 2일", day("2025-12-02"), "date.month_day"),
        ("12월 31일", NEW_YEAR, "12월 31일", day("2025-12-31"), "date.month_day"),
        ("1월 1일", NEW_YEAR, "1월 1일", day("2026-01-01"), "date.month_day"),
        ("2월 29일", LEAP, "2월 29일", day("2024-02-29"), "date.month_day"),
        ("2월 29일", TUESDAY, "2월 29일", day("2024-02-29"), "date.month_day"),  # the latest there was
        # a month by number
        ("2026-03 요약", TUESDAY, "2026-03", "2026-03-01/2026-03-31", "date.year_month"),
        ("2024.2", TUESDAY, "2024.2", "2024-02-01/2024-02-29", "date.year_month"),
        ("3월 배액률", TUESDAY, "3월", "2026-03-01/2026-03-31", "date.month"),
        ("3월달에", TUESDAY, "3월달", "2026-03-01/2026-03-31", "date.month"),
        ("12월", TUESDAY, "12월", "2026-12-01/2026-12-31", "date.month"),
        ("12월", date(2026, 11, 30), "12월", "2025-12-01/2025-12-31", "date.month"),
        ("1월", NEW_YEAR, "1월", "2026-01-01/2026-01-31", "date.month"),
        ("2월", NEW_YEAR, "2월", "2025-02-01/2025-02-28", "date.month"),
        ("2월", LEAP, "2월", "2024-02-01/2024-02-29", "date.month"),
        ("작년 3월", TUESDAY, "작년 3월", "2025-03-01/2025-03-31", "date.year_month"),
        ("작년3월", TUESDAY, "작년3월", "2025-03-01/2025-03-31", "date.year_month"),
        ("작년 12월", NEW_YEAR, "작년 12월", "2025-12-01/2025-12-31", "date.year_month"),
        ("재작년 2월", date(2026, 5, 5), "재작년 2월", "2024-02-01/2024-02-29", "date.year_month"),
        ("2026년 4월 4동", TUESDAY, "2026년 4월", "2026-04-01/2026-04-30", "date.year_month"),
        ("25년 3월 일지", TUESDAY, "25년 3월", "2025-03-01/2025-03-31", "date.year_month"),
        ("'24년 2월", TUESDAY, "'24년 2월", "2024-02-01/2024-02-29", "date.year_month"),
        ("올 3월", TUESDAY, "올 3월", "2026-03-01/2026-03-31", "date.year_month"),
        # a part of a month
        ("3월 초", TUESDAY, "3월 초", "2026-03-01/2026-03-10", "date.month"),
        ("3월초순", TUESDAY, "3월초순", "2026-03-01/2026-03-10", "date.month"),
        ("3월 중순에", TUESDAY, "3월 중순", "2026-03-11/2026-03-20", "date.month"),
        ("작년 3월 말", TUESDAY, "작년 3월 말", "2025-03-21/2025-03-31", "date.year_month"),
        ("2월 하순", LEAP, "2월 하순", "2024-02-21/2024-02-29", "date.month"),
        ("2월말", TUESDAY, "2월말", "2026-02-21/2026-02-28", "date.month"),
        # seasons and years
        ("작년 봄", TUESDAY, "작년 봄", "2025-03-01/2025-05-31", "date.year_season"),
        ("올봄", TUESDAY, "올봄", "2026-03-01/2026-05-31", "date.year_season"),
        ("올해 여름", TUESDAY, "올해 여름", "2026-06-01/2026-08-31", "date.year_season"),
        ("2025년 가을", TUESDAY, "2025년 가을", "2025-09-01/2025-11-30", "date.year_season"),
        ("작년 겨울", TUESDAY, "작년 겨울", "2025-12-01/2026-02-28", "date.year_season"),
        ("작년 겨울", LEAP, "작년 겨울", "2023-12-01/2024-02-29", "date.year_season"),
        ("작년", TUESDAY, "작년", "2025-01-01/2025-12-31", "date.year"),
        ("지난해에", NEW_YEAR, "지난해", "2025-01-01/2025-12-31", "date.year"),
        ("전년 대비", TUESDAY, "전년", "2025-01-01/2025-12-31", "date.year"),
        ("올해", NEW_YEAR, "올해", "2026-01-01/2026-12-31", "date.year"),
        ("금년", TUESDAY, "금년", "2026-01-01/2026-12-31", "date.year"),
        ("재작년", NEW_YEAR, "재작년", "2024-01-01/2024-12-31", "date.year"),
        ("2025년 보고서", TUESDAY, "2025년", "2025-01-01/2025-12-31", "date.numbered_year"),
        # days back
        ("오늘", TUESDAY, "오늘", day("2026-12-01"), "date.day_word"),
        ("어제", TUESDAY, "어제", day("2026-11-30"), "date.day_word"),
        ("어제", NEW_YEAR, "어제", day("2025-12-31"), "date.day_word"),
        ("어제", LEAP, "어제", day("2024-02-29"), "date.day_word"),
        ("어저께", TUESDAY, "어저께", day("2026-11-30"), "date.day_word"),
        ("그제", TUESDAY, "그제", day("2026-11-29"), "date.day_word"),
        ("그저께", TUESDAY, "그저께", day("2026-11-29"), "date.day_word"),
        ("엊그제", TUESDAY, "엊그제", day("2026-11-29"), "date.day_word"),
        ("그끄저께", TUESDAY, "그끄저께", day("2026-11-28"), "date.day_word"),
        # weeks start on Monday
        ("이번 주", TUESDAY, "이번 주", "2026-11-30/2026-12-06", "date.week"),
        ("금주", TUESDAY, "금주", "2026-11-30/2026-12-06", "date.week"),
        ("지난주", TUESDAY, "지난주", "2026-11-23/2026-11-29", "date.week"),
        ("저번주", date(2026, 11, 29), "저번주", "2026-11-16/2026-11-22", "date.week"),
        ("지지난주", TUESDAY, "지지난주", "2026-11-16/2026-11-22", "date.week"),
        ("지난주 화요일", TUESDAY, "지난주 화요일", day("2026-11-24"), "date.week"),
        ("지난주 화요일", NEW_YEAR, "지난주 화요일", day("2025-12-23"), "date.week"),
        ("지난 주 일요일", NEW_YEAR, "지난 주 일요일", day("2025-12-28"), "date.week"),
        ("이번주 월요일", NEW_YEAR, "이번주 월요일", day("2025-12-29"), "date.week"),
        # months back
        ("이번 달", TUESDAY, "이번 달", "2026-12-01/2026-12-31", "date.month_word"),
        ("지난달", TUESDAY, "지난달", "2026-11-01/2026-11-30", "date.month_word"),
        ("지난달", NEW_YEAR, "지난달", "2025-12-01/2025-12-31", "date.month_word"),
        ("지난달", LEAP, "지난달", "2024-02-01/2024-02-29", "date.month_word"),
        ("저번 달", TUESDAY, "저번 달", "2026-11-01/2026-11-30", "date.month_word"),
        ("전월 대비", TUESDAY, "전월", "2026-11-01/2026-11-30", "date.month_word"),
        ("금월", TUESDAY, "금월", "2026-12-01/2026-12-31", "date.month_word"),
        ("지지난달", date(2026, 1, 31), "지지난달", "2025-11-01/2025-11-30", "date.month_word"),
        # the last so many days
        ("최근 2주", TUESDAY, "최근 2주", "2026-11-17/2026-12-01", "date.recent"),
        ("지난 2주간", TUESDAY, "지난 2주간", "2026-11-17/2026-12-01", "date.recent"),
        ("최근 1주일", NEW_YEAR, "최근 1주일", "2025-12-25/2026-01-01", "date.recent"),
        ("최근 10일", LEAP, "최근 10일", "2024-02-20/2024-03-01", "date.recent"),
        ("지난 3개월", TUESDAY, "지난 3개월", "2026-09-02/2026-12-01", "date.recent"),
        ("최근 3달", TUESDAY, "최근 3달", "2026-09-02/2026-12-01", "date.recent"),
    ],
)
def test_a_rule_and_what_it_matched(text: str, today: date, words: str, period: str, rule: str) -> None:
    assert read(text, today) == [(words, period, rule)]


@pytest.mark.parametrize(
    ("text", "today", "words"),
    [
        ("2월 30일 일지", TUESDAY, "2월 30일"),
        ("2026년 2월 30일", TUESDAY, "2026년 2월 30일"),
        ("2026-02-30", TUESDAY, "2026-02-30"),
        ("2023-02-29", TUESDAY, "2023-02-29"),
        ("작년 2월 29일", TUESDAY, "작년 2월 29일"),
        ("4월 31일", TUESDAY, "4월 31일"),
        ("3월 0일", TUESDAY, "3월 0일"),
        ("13월", TUESDAY, "13월"),
        ("2026-13", TUESDAY, "2026-13"),
        ("최근 999개월", date(50, 1, 1), "최근 999개월"),
    ],
)
def test_a_day_that_does_not_exist_is_reported(text: str, today: date, words: str) -> None:
    (found,) = find_periods(text, today)
    assert isinstance(found, BadDate)
    assert (found.text, text[found.start : found.end]) == (words, words)


@pytest.mark.parametrize(
    "text",
    [
        "딸기 수확 후기 EC",
        "3월령 모종",
        "60개월",
        "20년 경력",
        "4동 급액",
        "2.5 dS/m",
        "지금 주는 급액 EC",
        "양액을 조금 주면 되나요",
        "전기요금 달라졌나요",
        "오전 달아오른 온실",
        "벌레가 들어올 2동",
        "올 3동",
        "",
    ],
)
def test_no_date(text: str) -> None:
    assert read(text, TUESDAY) == []


def test_two_periods_in_the_order_of_the_text() -> None:
    assert read("작년 3월이랑 올해 3월 2동 배액률", TUESDAY) == [
        ("작년 3월", "2025-03-01/2025-03-31", "date.year_month"),
        ("올해 3월", "2026-03-01/2026-03-31", "date.year_month"),
    ]
    assert [words for words, *_ in read("어제랑 3월 5일, 그리고 작년 봄", TUESDAY)] == ["어제", "3월 5일", "작년 봄"]


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("4월 배액률 작년하고 올해", [("작년", "2025-04"), ("올해", "2026-04")]),
        ("작년 4월이랑 올해 같은 달", [("작년 4월", "2025-04"), ("올해", "2026-04")]),
        ("2025년 보고서에서 3월 것", [("2025년", "2025-03")]),
        ("3월이랑 4월, 작년", [("3월", "2025-03"), ("4월", "2025-04")]),
        ("4월 초 배액률 작년하고 올해", [("작년", "2025-04"), ("올해", "2026-04")]),
    ],
)
def test_a_month_meets_the_years_beside_it(text: str, periods: list[tuple[str, str]]) -> None:
    assert [(words, period[:7]) for words, period, _ in read(text, TUESDAY)] == periods


def test_a_part_of_a_match_is_not_read_again() -> None:
    assert len(read("2026년 3월 5일", TUESDAY)) == 1
    assert len(read("2026년 2월 30일", TUESDAY)) == 1  # neither 2026 nor February, once the day is wrong


PIECES = st.sampled_from(
    [
        "2026년",
        "작년",
        "올해",
        "3월",
        "2월",
        "30일",
        "5일",
        "초",
        "지난주",
        "화요일",
        "어제",
        "최근",
        "2주",
        "2024-02-29",
        " ",
        "동",
    ]
)


@unhurried
@given(
    st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=60),
    st.dates(min_value=date(2000, 1, 1), max_value=date(2098, 12, 31)),
)
def test_findings_are_ordered_apart_and_inside_the_text(text: str, today: date) -> None:
    end = 0
    for found in find_periods(text, today):
        assert end <= found.start < found.end <= len(text)
        end = found.end
        if isinstance(found, Period):
            assert found.first <= found.last


@pytest.mark.parametrize(
    ("text", "words", "period", "rule"),
    [
        # written other ways
        ("2026/2/17 배액", "2026/2/17", day("2026-02-17"), "date.full"),
        ("25.3.12 일지", "25.3.12", day("2025-03-12"), "date.full"),
        ("20250312 일지", "20250312", day("2025-03-12"), "date.full"),
        ("3/12 일지", "3/12", day("2026-03-12"), "date.month_day"),
        ("2026.3월 센서", "2026.3월", "2026-03-01/2026-03-31", "date.year_month"),
        ("2026년 10월 5일 월요일", "2026년 10월 5일 월요일", day("2026-10-05"), "date.full"),
        ("2026년 11월 둘째날", "2026년 11월 둘째날", day("2026-11-02"), "date.year_month_day"),
        ("2025년도", "2025년도", "2025-01-01/2025-12-31", "date.numbered_year"),
        ("'24년 보고서", "'24년", "2024-01-01/2024-12-31", "date.numbered_year"),
        ("26년 보고서", "26년", "2026-01-01/2026-12-31", "date.numbered_year"),
        ("2024 방제 지침", "2024", "2024-01-01/2024-12-31", "date.numbered_year"),
        # spoken
        ("이천이십오년 십이월", "이천이십오년 십이월", "2025-12-01/2025-12-31", "date.year_month"),
        ("유월 십오일", "유월 십오일", day("2026-06-15"), "date.month_day"),
        ("작년 섣달", "작년 섣달", "2025-12-01/2025-12-31", "date.year_month"),
        # ranges
        ("작년 3~5월", "작년 3~5월", "2025-03-01/2025-05-31", "date.year_range"),
        ("3월부터 5월까지", "3월부터 5월까지", "2026-03-01/2026-05-31", "date.range"),
        ("11월부터 2월까지", "11월부터 2월까지", "2025-11-01/2026-02-28", "date.range"),
        ("작년 11월~2월", "작년 11월~2월", "2025-11-01/2026-02-28", "date.year_range"),
        (
            "작년 12월 25일부터 올해 1월 5일까지",
            "작년 12월 25일부터 올해 1월 5일까지",
            "2025-12-25/2026-01-05",
            "date.year_range",
        ),
        ("2025년 3월 12일~15일", "2025년 3월 12일~15일", "2025-03-12/2025-03-15", "date.year_range"),
        ("어제부터 오늘까지", "어제부터 오늘까지", "2026-11-30/2026-12-01", "date.year_range"),
        ("작년 3월부터 지금까지", "작년 3월부터 지금까지", "2025-03-01/2026-12-01", "date.year_range"),
        # parts of a year
        ("2025년 하반기", "2025년 하반기", "2025-07-01/2025-12-31", "date.year_half"),
        ("상반기", "상반기", "2026-01-01/2026-06-30", "date.half"),
        ("작년 4분기", "작년 4분기", "2025-10-01/2025-12-31", "date.year_quarter"),
        ("지난 분기", "지난 분기", "2026-07-01/2026-09-30", "date.year_quarter"),
        ("지난 여름", "지난 여름", "2026-06-01/2026-08-31", "date.year_season"),
        ("지난 겨울", "지난 겨울", "2025-12-01/2026-02-28", "date.year_season"),
        ("가을 일지", "가을", "2026-09-01/2026-11-30", "date.season"),
        ("지난 3월", "지난 3월", "2026-03-01/2026-03-31", "date.year_month"),
        # counted back
        ("사흘 전", "사흘 전", day("2026-11-28"), "date.ago"),
        ("보름 전", "보름 전", day("2026-11-16"), "date.ago"),
        ("일주일 전", "일주일 전", day("2026-11-24"), "date.ago"),
        ("3일 전", "3일 전", day("2026-11-28"), "date.ago"),
        ("3주 전 목요일", "3주 전 목요일", day("2026-11-12"), "date.ago"),
        ("최근 일주일", "최근 일주일", "2026-11-24/2026-12-01", "date.recent"),
        ("최근 석 달", "최근 석 달", "2026-09-02/2026-12-01", "date.recent"),
        ("지난 열흘 동안", "지난 열흘", "2026-11-21/2026-12-01", "date.recent"),
        ("지난달 말", "지난달 말", "2026-11-21/2026-11-30", "date.month_word"),
        ("지난달 15일", "지난달 15일", day("2026-11-15"), "date.month_word"),
        ("지난 금요일", "지난 금요일", day("2026-11-27"), "date.weekday"),
        ("작년 이맘때", "작년 이맘때", "2025-11-24/2025-12-08", "date.same_time"),
        ("12일 일지", "12일", day("2026-11-12"), "date.day"),
        ("31일에", "31일", day("2026-10-31"), "date.day"),
        # English
        ("yesterday 일지", "yesterday", day("2026-11-30"), "date.day_word"),
        ("last week 점검표", "last week", "2026-11-23/2026-11-29", "date.week"),
        ("March 2025 일지", "March 2025", "2025-03-01/2025-03-31", "date.year_month"),
    ],
)
def test_what_people_say(text: str, words: str, period: str, rule: str) -> None:
    assert read(text, TUESDAY) == [(words, period, rule)]


@pytest.mark.parametrize(
    "text", ["수확 3일 전까지", "정식 후 30일", "7일 간격으로", "겨울철 난방", "봄가을로", "2배 1/2"]
)
def test_spans_of_growing_are_no_dates(text: str) -> None:
    assert read(text, TUESDAY) == []


@pytest.mark.parametrize(
    "text", ["2025.13.05 기록", "13월 회의록", "작년 6월 31일", "9월31일수확기록", "2026년 14월", "32일 일지"]
)
def test_dates_that_are_in_no_calendar(text: str) -> None:
    (found,) = find_periods(text, TUESDAY)
    assert isinstance(found, BadDate)


def test_the_second_of_two_takes_the_year_of_the_first() -> None:
    assert read("작년 1분기와 2분기", TUESDAY) == [
        ("작년 1분기", "2025-01-01/2025-03-31", "date.year_quarter"),
        ("2분기", "2025-04-01/2025-06-30", "date.year_quarter"),
    ]
    assert [p for _, p, _ in read("1월 대비 2월, 둘 다 올해 거로", TUESDAY)] == [
        "2026-01-01/2026-01-31",
        "2026-02-01/2026-02-28",
    ]


def test_the_day_after_counts_from_the_day_before() -> None:
    base = date(2026, 11, 24)
    assert [str(p.first) for p in find_periods("그 다음날 거는", TUESDAY, base=base) if isinstance(p, Period)] == [
        "2026-11-25"
    ]
    assert [str(p.first) for p in find_periods("그 전날은", TUESDAY, base=base) if isinstance(p, Period)] == [
        "2026-11-23"
    ]
    assert list(find_periods("그 다음날 거는", TUESDAY)) == []


def test_english_words_can_be_left_alone() -> None:
    assert list(find_periods("Who died last year in March?", TUESDAY, english=False)) == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("250315 작업일지 보여줘", "2025-03-15"),
        ("3.18 작업일지", "2026-03-18"),
        ("3-18 작업일지", "2026-03-18"),
        ("0315 작업일지", "2026-03-15"),
        ("3/18 뭐했어", "2026-03-18"),
        ("2025 3 18 작업일지", "2025-03-18"),
        ("2025년 3월15 작업일지", "2025-03-15"),
    ],
)
def test_days_in_figures_before_a_record(text: str, day: str) -> None:
    (found,) = find_periods(text, date(2026, 12, 1))
    assert isinstance(found, Period)
    assert (found.first.isoformat(), found.last.isoformat()) == (day, day)


@pytest.mark.parametrize(
    "text",
    [
        "250229 작업일지",
        "20251332 작업일지",
        "이천이이이년 작업일지",
        "작년이랑 올해 2월 29일 작업일지",
        "작년 이맘때 2월 30일 기록",
        "5월 1일부터 4월 31일까지 작업일지",
        "3월 20일~3월 10일 작업일지",
    ],
)
def test_what_is_no_day_or_range_leaves_no_period(text: str) -> None:
    (found,) = find_periods(text, date(2026, 12, 1))
    assert isinstance(found, BadDate)


def test_words_that_only_look_like_days() -> None:
    assert list(find_periods("EC 2.5 기록", date(2026, 12, 1))) == []
    (monday,) = find_periods("월요일 일지 보여줘", date(2026, 12, 1))
    assert isinstance(monday, Period)
    assert monday.first == monday.last == date(2026, 11, 30)
    (month,) = find_periods("이주임이 11월에 쓴 일지", date(2026, 12, 1))
    assert isinstance(month, Period)
    assert month.first == date(2026, 11, 1)


def test_the_day_after_the_last_day_of_the_calendar() -> None:
    (found,) = find_periods("그 다음날은?", date(9999, 12, 31), base=date(9999, 12, 31))
    assert isinstance(found, BadDate)
