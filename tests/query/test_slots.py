"""Slots other than dates: value, span and rule."""

from __future__ import annotations

from datetime import date

import pytest

from rag.lexicon import Mention
from rag.query.slots import _named_farms, excluded_spans, farm_elsewhere, find_slots, without_excluded
from rag.schema import Slot, SlotKind
from rag.stores.catalogue import Catalogue

TODAY = date(2026, 12, 1)
CATALOGUE = Catalogue("v", frozenset({"김주임"}), frozenset({"작업일지"}), frozenset({"1동"}), frozenset(), ())


def slots_of(text: str, kind: SlotKind, own_farm: str | None = "햇살농원") -> list[tuple[str, str, str]]:
    """(matched words, value, rule) of one kind."""
    found = find_slots(text, (), TODAY, CATALOGUE, own_farm)
    return [(text[s.start : s.end], s.value, s.rule) for s in found if s.kind == kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("김주임이 쓴 일지", [("김주임", "김주임", "author.on_file")]),
        ("김 주임님 일지", [("김 주임", "김주임", "author.on_file")]),
        ("박반장 기록", [("박반장", "박반장", "author.unknown")]),
        ("최농장장이 적은 것", [("최농장장", "최농장장", "author.unknown")]),
        ("이기사가 고친 날", [("이기사", "이기사", "author.unknown")]),
        ("김주임이랑 박반장", [("김주임", "김주임", "author.on_file"), ("박반장", "박반장", "author.unknown")]),
        ("새김주임", []),  # inside a word
        ("주임이 쓴 일지", []),
        ("전기사용량 얼마", []),
        ("이 대표적인 병", []),
        ("조사장비 점검", []),
        ("유기사료", []),
    ],
)
def test_authors(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert slots_of(text, "author") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2동 배액률", [("2동", "2동")]),
        ("12 동", [("12 동", "12동")]),
        ("02동", [("02동", "2동")]),
        ("3연동에서", [("3연동", "3연동")]),
        ("2026년 4월 4동", [("4동", "4동")]),
        ("1동이랑 2동 비교", [("1동", "1동"), ("2동", "2동")]),
        ("3동작업일지", [("3동", "3동")]),
        ("2동보일러 점검", [("2동", "2동")]),
        ("2동일지", [("2동", "2동")]),
        ("2동안", []),
        ("2동시에 연다", []),
        ("2동일한 조건", []),
        ("2주 동안", []),
        ("1.2동", []),
        ("123동", []),
    ],
)
def test_houses(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(words, value) for words, value, _ in slots_of(text, "house")] == expected


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("작업 일지 보여줘", ["작업일지"]),
        ("영농일지", ["작업일지"]),
        ("점검 기록", ["점검표"]),
        ("계약서", ["계약서"]),
        ("지난 회의에서", []),  # the meeting, not its minutes
        ("방제 기록", []),
        ("수리 내역", []),
        ("거래 명세서", ["거래명세서"]),
        ("메뉴얼이랑 지침서", ["매뉴얼", "지침"]),
        ("난방 일지", ["작업일지"]),
        ("수확 대장", ["수확기록"]),
        ("출하기록", ["수확기록"]),
        ("고장 기록", ["수리기록"]),
        ("급액 배액 요약", ["급액배액요약"]),
        ("배액 기록", ["급액배액요약"]),
        ("환경 기록", ["센서요약"]),
        ("딸기 EC", []),
    ],
)
def test_document_kinds(text: str, kinds: list[str]) -> None:
    assert [value for _, value, _ in slots_of(text, "doc_type")] == kinds


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("EC 2.5 dS/m", [("2.5 dS/m", "2.5 dS/m")]),
        ("EC 2.5mS/cm", [("2.5mS/cm", "2.5 mS/cm")]),
        ("야간 8도", [("8도", "8 ℃")]),
        ("15℃에서 30%", [("15℃", "15 ℃"), ("30%", "30 %")]),
        ("1,000배액", [("1,000배", "1000 배")]),
        ("20 kg", [("20 kg", "20 kg")]),
        ("EC 2.5", [("EC 2.5", "EC 2.5")]),
        ("pH 5.8로", [("pH 5.8", "pH 5.8")]),
        ("이씨 삼점오까지", [("이씨 삼점오", "EC 3.5")]),
        ("산도 오점팔", [("산도 오점팔", "pH 5.8")]),
        ("300만원 넘는", [("300만원", "3000000 원")]),
        ("2만 럭스", [("2만 럭스", "20000 lx")]),
        ("약 천배로", [("천배", "1000 배")]),
        ("십팔도는", [("십팔도", "18 ℃")]),
        ("물 세 번 줬나", [("세 번", "3 회")]),
        ("영하 10도", [("영하 10도", "-10 ℃")]),
        ("15~18℃", [("15~18℃", "15~18 ℃")]),
        ("7일 간격으로", [("7일", "7 일")]),
        ("90퍼센트", [("90퍼센트", "90 %")]),
        ("몇 ppm", []),
        ("세 번째 동", []),
        ("한번 봐줘", []),
        ("2개월", []),
        ("10분의 1", []),
    ],
)
def test_values(text: str, values: list[tuple[str, str]]) -> None:
    assert [(words, value) for words, value, _ in slots_of(text, "value")] == values


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("PDF로 된 것", ["pdf"]),
        ("엑셀 파일", ["xlsx"]),
        ("한글 파일", ["hwp"]),
        ("워드", ["docx"]),
        ("hwp 문서", ["hwp"]),
        ("hwpx 문서", ["hwpx"]),
        ("apdf", []),
        ("모종계약서.pdf 띄워봐", ["모종계약서.pdf"]),
        ("D:\\온실\\3월.hwp 이 파일", ["D:\\온실\\3월.hwp"]),
        ("\\\\NAS\\백업\\2026-03.csv", ["\\\\NAS\\백업\\2026-03.csv"]),
        ("일지/2026/a.md 열어줘", ["일지/2026/a.md"]),
    ],
)
def test_formats(text: str, formats: list[str]) -> None:
    assert [value for _, value, _ in slots_of(text, "file")] == formats


@pytest.mark.parametrize(
    ("text", "own_farm", "expected"),
    [
        ("햇살농원 배액률", "햇살농원", [("햇살농원", "farm.own")]),
        ("햇살 농원 배액률", "햇살농원", [("햇살 농원", "farm.own")]),
        ("햇살농원 배액률", "햇살 농원", [("햇살농원", "farm.own")]),
        ("햇살농원 배액률", "푸른들농장", [("햇살농원", "farm.other")]),
        ("햇살농원 배액률", None, [("햇살농원", "farm.other")]),
        ("푸른들농장은 어때", "햇살농원", [("푸른들농장", "farm.other")]),
        ("우리 농장 배액률", "햇살농원", []),
        ("저희농장 배액률", "햇살농원", []),
        ("스마트팜 농장", "햇살농원", []),
        ("딸기 농장", "햇살농원", []),
        ("어느 농장이 좋아", "햇살농원", []),
        ("농장장이 쓴 것", "햇살농원", []),
        ("화순 농장은 하루 몇 시간", "햇살농원", []),
        ("평창 흙재배 농장 매출", "햇살농원", []),
        ("철원 농원이 몇 평", "햇살농원", []),
        ("화순농장은 하루 몇 시간", "햇살농원", [("화순농장", "farm.other")]),
        ("푸른 농장은 어때", "햇살농원", [("푸른 농장", "farm.other")]),
    ],
)
def test_farms(text: str, own_farm: str | None, expected: list[tuple[str, str]]) -> None:
    assert [(words, rule) for words, _, rule in slots_of(text, "farm", own_farm)] == expected


def test_lexicon_mentions_become_slots() -> None:
    mentions = [
        Mention("딸기", "작물", 0, 2),
        Mention("설향", "품종", 3, 5),
        Mention("개화기", "생육단계", 6, 9),
        Mention("흰가루병", "병", 10, 14),
    ]
    found = find_slots("딸기 설향 개화기 흰가루병", mentions, TODAY, CATALOGUE, None)
    assert [(s.kind, s.value, s.rule) for s in found] == [
        ("crop", "딸기", "lexicon.작물"),
        ("cultivar", "설향", "lexicon.품종"),
        ("growth_stage", "개화기", "lexicon.생육단계"),
    ]


def test_slots_stand_in_the_order_of_the_text() -> None:
    text = "지난주 화요일 김주임이 2동에서 EC 1.2dS/m로 맞춘 작업일지"
    found = find_slots(text, (), TODAY, CATALOGUE, None)
    assert [s.kind for s in found] == ["date", "author", "house", "value", "doc_type"]
    assert found[0] == Slot(kind="date", value="2026-11-24/2026-11-24", start=0, end=7, rule="date.week")


OFFICE = Catalogue(
    "v",
    frozenset({"김민수 주임", "김영호 주임", "박 반장", "이수진 대리"}),
    frozenset({"정전보고", "보고서"}),
    frozenset({"1동", "4연동", "육묘 3동", "재배 3동"}),
    frozenset(),
    (),
)


def office(text: str, kind: SlotKind) -> list[tuple[str, str, str]]:
    found = find_slots(text, (), TODAY, OFFICE, None)
    return [(text[s.start : s.end], s.value, s.rule) for s in found if s.kind == kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("박반장이 쓴", [("박반장", "박 반장", "author.on_file")]),
        ("김주임 일지", [("김주임", "김주임", "author.several")]),
        ("이대리가 만든", [("이대리", "이수진 대리", "author.on_file")]),
        ("이수진이 정리한", [("이수진", "이수진 대리", "author.on_file")]),
        ("이수진 데리가 올린", [("이수진 데리", "이수진 대리", "author.on_file")]),  # one letter wrong
        ("이수진 토마토", [("이수진", "이수진 대리", "author.on_file")]),
        ("영호 주임 일지", [("영호 주임", "김영호 주임", "author.on_file")]),
        ("2동박반장이쓴일지", [("박반장", "박 반장", "author.on_file")]),
        ("김철수 과장이 쓴", [("김철수 과장", "김철수과장", "author.unknown")]),
        ("김주임 말고 박반장이 쓴", [("박반장", "박 반장", "author.on_file")]),
    ],
)
def test_a_call_is_matched_to_the_names_on_file(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert office(text, "author") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3동 온도", [("3동", "3동", "house.several")]),
        ("육묘3동 온도", [("육묘3동", "육묘 3동", "house.name")]),
        ("재배 3동하고 육묘 3동", [("재배 3동", "재배 3동", "house.name"), ("육묘 3동", "육묘 3동", "house.name")]),
        ("세 번째 동", [("세 번째 동", "3동", "house.several")]),
        ("첫째 동", [("첫째 동", "1동", "house.said")]),
        ("3번 동", [("3번 동", "3동", "house.several")]),
        ("4연동", [("4연동", "4연동", "house.number")]),
        ("1, 2동", [("1", "1동", "house.list"), ("2동", "2동", "house.list")]),
        ("5,6,7동", [("5", "5동", "house.list"), ("6", "6동", "house.list"), ("7동", "7동", "house.list")]),
        ("5~7동", [("5~7동", f"{n}동", "house.range") for n in (5, 6, 7)]),
        ("5동부터 6동까지", [("5동부터 6동까지", f"{n}동", "house.range") for n in (5, 6)]),
        ("B동", [("B동", "B동", "house.letter")]),
        ("2동 말고 1동", [("1동", "1동", "house.number")]),
        ("오동나무", []),
        ("이 동네", []),
    ],
)
def test_houses_by_list_range_and_name(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert office(text, "house") == expected


def test_kinds_on_file_are_known_by_name() -> None:
    assert office("정전 보고서 보여줘", "doc_type") == [("정전 보고서", "정전보고", "doc_type.on_file")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("푸른들 1동 수확량", [("푸른들", "farm.other")]),
        ("햇살 3동 방제", [("햇살", "farm.own")]),
        ("푸른들에서는 뭐 쳤어", [("푸른들", "farm.other")]),
        ("햇살이 강한 날", []),  # an everyday word, no house behind it
        ("모르는 1동", []),
    ],
)
def test_a_farm_of_the_settings_without_its_ending(text: str, expected: list[tuple[str, str]]) -> None:
    found = find_slots(text, (), TODAY, CATALOGUE, "햇살농원", farms=("햇살농원", "푸른들농장"))
    assert [(text[s.start : s.end], s.rule) for s in found if s.kind == "farm"] == expected


def test_words_of_a_file_name_are_no_other_slot() -> None:
    text = "2025-03_김주임_2동_일지.xlsx 열어줘"
    assert [s.kind for s in find_slots(text, (), TODAY, CATALOGUE, None)] == ["file"]


@pytest.mark.parametrize(
    "text",
    [
        "푸른들, 3월 방제 기록",
        "푸른들원예 계약서",
        "푸른 들 농장 기록",
        "푸른\u200b들농장 기록",
        "PUREUN 기록",
        "푸른들은?",
    ],
)
def test_another_farm_however_it_is_spelled(text: str) -> None:
    found = list(_named_farms(text, "햇살농원", ("햇살농원", "푸른들농장", "pureun")))
    assert [slot.rule for slot in found] == ["farm.other"]


def test_a_field_and_sunlight_are_no_farms() -> None:
    for text in ("푸른 들판에 물", "햇살이 강하면 차광"):
        assert list(_named_farms(text, None, ("햇살농원", "푸른들농장", "pureun"))) == []


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("일사량 말고 배액률", ["일사량 말고"]),
        ("목화진딧물 약 아세타미프리드 든 건 빼고", ["아세타미프리드 든 건 빼고"]),
        ("점박이응애 약 아바멕틴 계열 말고", ["아바멕틴 계열 말고"]),
        ("목화진딧물 약 말고 친환경 방법", ["약 말고"]),
        ("플루디옥소닐은 지난번에 썼으니 다른 거", ["플루디옥소닐은 지난번에 썼으니"]),
        ("플루디옥소닐은 지난번에 썼는데 언제였지", []),
        ("말고삐를 잡는다", []),
    ],
)
def test_what_is_left_out(text: str, left_out: list[str]) -> None:
    assert [text[start:end] for start, end in excluded_spans(text)] == left_out
    kept = without_excluded(text)
    assert len(kept) == len(text)
    assert not any(word in kept for word in left_out)
    assert kept.split() == text.replace(left_out[0] if left_out else "\0", "").split()


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [
        ("화순 농장에서는 딸기 어떻게 키워", True),
        ("화순농장 배액률", False),
        ("우리 농장 배액률", False),
        ("화순의 딸기", False),
    ],
)
def test_a_farm_elsewhere(text: str, elsewhere: bool) -> None:
    assert farm_elsewhere(text) is elsewhere
