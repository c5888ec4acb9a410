import datetime
from pathlib import PurePosixPath

import pytest

from ingest.metadata import (
    author_from_lines,
    author_from_name,
    crop_of,
    date_from_lines,
    date_from_path,
    houses_in,
    infer_metadata,
    kind_of,
)
from ingest.parsed import Block, ParsedDocument, Section


def document(title: str, *lines: str, heading: str = "", author: str | None = None) -> ParsedDocument:
    blocks = tuple(Block(kind="paragraph", text=line) for line in lines)
    section = Section(headings=(heading,) if heading else (), blocks=blocks)
    return ParsedDocument(title=title, format="md", sections=(section,), author=author)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("작업일지/2026-03-05_작업일지.md", "2026-03-05"),
        ("20260305_점검표.docx", "2026-03-05"),
        ("2026.3.5 회의록.hwpx", "2026-03-05"),
        ("2026년 3월 5일 점검.txt", "2026-03-05"),
        ("급액배액/2026-03_급액배액_요약.xlsx", "2026-03-01"),
        ("2026년 3월 수확.xlsx", "2026-03-01"),
        ("작업일지/2026/03/일지.md", "2026-03-01"),
        ("2026-13-45_일지.md", None),
        ("제2026호_지침.md", None),
        ("재배기술/토마토/온도.md", None),
    ],
)
def test_date_from_path(path, expected):
    found = date_from_path(PurePosixPath(path))
    assert (found.isoformat() if found else None) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("작성일: 2026-03-05", "2026-03-05"),
        ("농장: 햇살농원 · 날짜: 2026-03-05(목) · 작성자: 김주임", "2026-03-05"),
        ("일자： 2026년 3월 5일", "2026-03-05"),
        ("기준일: 2026.04.24", "2026-04-24"),
        ("연월: 2026년 3월", "2026-03-01"),
        ("2026-03-05에 정식했다.", None),
    ],
)
def test_date_from_lines(line, expected):
    found = date_from_lines(["제목", line])
    assert (found.isoformat() if found else None) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("작성자: 김주임", "김주임"),
        ("기록자 : 박 반장 · 날씨: 맑음", "박반장"),
        ("보고자: 홍길동", "홍길동"),
        ("작성자: 이농장장 ", "이농장장"),
        ("작성일: 2026-03-05", None),
    ],
)
def test_author_from_lines(line, expected):
    assert author_from_lines([line]) == expected


def test_author_from_name():
    assert author_from_name("2026-03-05_작업일지_김주임") == "김주임"
    assert author_from_name("정대리 점검표") == "정대리"
    assert author_from_name("2026-03-05_작업일지") is None


@pytest.mark.parametrize(
    ("path", "title", "expected"),
    [
        ("작업일지/2026-03-05.md", "", "작업일지"),
        ("점검표/2026-03-05_시설점검표.docx", "", "점검표"),
        ("계약/2026-03-05_딸기_납품계약.hwpx", "", "계약서"),
        ("회의록/2026-03-07_분기운영회의.md", "", "회의록"),
        ("수확/2026-03_수확기록.xlsx", "", "수확기록"),
        ("급액배액/2026-03_급액배액_요약.xlsx", "", "급액배액요약"),
        ("센서/2026-03_센서요약.csv", "", "센서요약"),
        ("농약등록/딸기/딸기_눈마름병.csv", "", "농약등록"),
        ("법령/농지법/제6조.md", "", "법령"),
        ("재배기술/토마토/토마토_수확기록_요령.md", "", "재배기술"),
        ("문서1.hwpx", "환기창 수리 기록", "수리기록"),
        ("문서2.hwpx", "알림", "기타"),
    ],
)
def test_kind(path, title, expected):
    assert kind_of(PurePosixPath(path), title) == expected


@pytest.mark.parametrize(
    ("path", "title", "expected"),
    [
        ("재배기술/토마토/a.md", "온도 관리", "토마토"),
        ("농약등록/방울토마토/a.csv", "", "방울토마토"),
        ("a.md", "착색단고추 습도", "파프리카"),
        ("a.md", "고추냉이 재배", "와사비"),
        ("재배기술/토마토/a.md", "토마토와 오이 돌려짓기", "토마토"),
        ("재배기술/공통/a.md", "토마토와 오이 돌려짓기", None),
    ],
)
def test_crop(path, title, expected):
    assert crop_of(PurePosixPath(path), title) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1동 배액률을 재니 2동보다 높았다", ("1동", "2동")),
        ("12동과 3연동을 점검", ("3연동", "12동")),
        ("1~3동 소독", ("1동", "2동", "3동")),
        ("1·4동 소독", ("1동", "4동")),
        ("동: 2, 급액 EC: 2.4", ("2동",)),
        ("3시간 동안, 5동안, CO2 동시 처리, 13동", ()),
    ],
)
def test_houses(text, expected):
    assert houses_in([text]) == expected


def test_all_rules_on_one_document():
    found = infer_metadata(
        document("작업일지 2026년 3월 5일", "농장: 햇살농원 · 작성자: 김주임", "딸기를 땄다.", heading="4동 딸기"),
        "작업일지/2026/2026-03-05_작업일지_박반장.md",
    )
    assert found.date == datetime.date(2026, 3, 5)
    assert (found.author, found.kind, found.houses, found.crop) == ("김주임", "작업일지", ("4동",), None)


def test_file_property_serves_as_author_only_if_it_is_a_name_with_title():
    assert infer_metadata(document("알림", "본문", author="최과장"), "a.docx").author == "최과장"
    assert infer_metadata(document("알림", "본문", author="user"), "a.docx").author is None


def test_nfd_path_is_understood():
    import unicodedata

    path = unicodedata.normalize("NFD", "점검표/2026-03-05_시설점검표_김주임.docx")
    found = infer_metadata(document("시설 점검"), path)
    assert (found.kind, found.author) == ("점검표", "김주임")
