"""Parts and formats beside the plain ones: notes, text boxes, headers, HTML, macros, scattered sheets, equal tables."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime
from pathlib import Path

import docx
import olefile  # type: ignore[import-untyped]
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from hwpx.document import HwpxDocument
from openpyxl import Workbook
from reportlab.pdfgen.canvas import Canvas

from ingest.chunking import chunk_document
from ingest.limits import Limits
from ingest.loaders import load, parse
from ingest.parsed import ParsedDocument
from rag.errors import IngestError
from rag.text import SentenceSpan

LIMITS = Limits()
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
HEADER = ["동", "측정일", "급액 EC", "비고"]
ROWS = [["1동", "2026-03-05", "2.4", "천창 30%"], ["2동", "2026-03-06", "2.2", ""], ["3동", "2026-03-07", "", "교체"]]


def read(data: bytes | str, name: str) -> ParsedDocument:
    return parse(data.encode() if isinstance(data, str) else data, name, LIMITS)


def texts(document: ParsedDocument, kind: str = "") -> list[str]:
    return [block.text for block in document.blocks if not kind or block.kind == kind]


def refusal(data: bytes, name: str, limits: Limits = LIMITS) -> str:
    with pytest.raises(IngestError) as caught:
        parse(data, name, limits)
    assert f"'{name}'" in str(caught.value)
    return str(caught.value)


# --- one table, four formats ------------------------------------------------------------------------------


def hwpx_table() -> bytes:
    hangul = HwpxDocument.new()
    hangul.add_paragraph("급액 기록")
    table = hangul.add_table(len(ROWS) + 1, len(HEADER))
    for row, cells in enumerate([HEADER, *ROWS]):
        for column, text in enumerate(cells):
            table.set_cell_text(row, column, text)
    return hangul.to_bytes()


def xlsx_table() -> bytes:
    book = Workbook()
    for row in [["급액 기록"], HEADER, *ROWS]:
        book.active.append([cell or None for cell in row])
    return saved(book)


def saved(book: Workbook) -> bytes:
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def html_table() -> bytes:
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in [HEADER, *ROWS])
    return f"<html><head><title>급액 기록</title></head><body><table>{rows}</table></body></html>".encode("cp949")


def test_a_table_reads_the_same_from_hwpx_xlsx_html_and_csv() -> None:
    csv = "\n".join(",".join(row) for row in [HEADER, *ROWS])
    expected = [
        "동: 1동, 측정일: 2026-03-05, 급액 EC: 2.4, 비고: 천창 30%",
        "동: 2동, 측정일: 2026-03-06, 급액 EC: 2.2",
        "동: 3동, 측정일: 2026-03-07, 비고: 교체",
    ]
    made = {"a.hwpx": hwpx_table(), "a.xlsx": xlsx_table(), "a.html": html_table(), "a.csv": csv.encode()}
    for name, data in made.items():
        document = read(data, name)
        assert texts(document, "row") == expected, name
        assert document.tables == 1
    assert read(made["a.xlsx"], "a.xlsx").blocks[0].locator.endswith("3행")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16", "utf-16-le"])
def test_the_same_csv_in_any_encoding_gives_the_same_chunks(encoding: str) -> None:
    def chunks(data: bytes) -> list[object]:
        document = read(data, "급액.csv")
        return list(chunk_document(document, "public/급액.csv", lambda t: [SentenceSpan(0, len(t))], len))

    text = "\r\n".join(",".join(row) for row in [HEADER, *ROWS * 10])
    assert chunks(text.encode(encoding)) == chunks(text.encode())


# --- Word -------------------------------------------------------------------------------------------------


def word(document) -> bytes:  # type: ignore[no-untyped-def]
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def test_docx_footnote_text_box_header_and_picture_note() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("배액률은 25%로 둔다.")
    paragraph._p.append(parse_xml(f'<w:r xmlns:w="{WORD}"><w:footnoteReference w:id="2"/></w:r>'))
    notes = f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2"><w:p><w:r><w:t>흐린 날은 20%.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    part = Part(PackURI("/word/footnotes.xml"), "application/xml", notes.encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    box = document.add_paragraph("그림 옆 설명")
    box._p.append(
        parse_xml(
            f'<w:r xmlns:w="{WORD}" xmlns:v="urn:schemas-microsoft-com:vml"><w:pict><v:textbox><w:txbxContent>'
            "<w:p><w:r><w:t>글상자: 밸브를 먼저 잠근다.</w:t></w:r></w:p></w:txbxContent></v:textbox></w:pict></w:r>"
        )
    )
    document.sections[0].header.paragraphs[0].text = "햇살농원 관리 지침"
    document.sections[0].footer.paragraphs[0].text = "- 1 -"
    parsed = read(word(document), "a.docx")
    assert texts(parsed) == [
        "배액률은 25%로 둔다.",
        "각주 1: 흐린 날은 20%.",
        "그림 옆 설명",
        "글상자: 밸브를 먼저 잠근다.",
        "햇살농원 관리 지침",
    ]
    assert parsed.sections[-1].headings == ("머리글과 바닥글",)


def test_docx_row_that_starts_late_keeps_its_column_names() -> None:
    document = docx.Document()
    table = document.add_table(rows=2, cols=3)
    for cell, text in zip(table.rows[0].cells, ("동", "급액 EC", "배액 EC")):
        cell.text = text
    row = table.rows[1]
    row.cells[1].text, row.cells[2].text = "2.4", "3.1"
    row._tr.remove(row.cells[0]._tc)
    row._tr.get_or_add_trPr().append(parse_xml(f'<w:gridBefore xmlns:w="{WORD}" w:val="1"/>'))
    parsed = read(word(document), "a.docx")
    assert texts(parsed) == ["급액 EC: 2.4, 배액 EC: 3.1"]
    assert "표 1: 줄마다 칸 수가 다릅니다" in parsed.notes[0]


# --- Hangul -----------------------------------------------------------------------------------------------


def test_hwpx_footnote_header_and_properties() -> None:
    hangul = HwpxDocument.new()
    hangul.add_paragraph("급액 지침")
    paragraph = hangul.add_paragraph("급액 EC는 2.4로 둔다.")
    hangul.add_footnote("착과 뒤에는 2.6으로 올린다.", paragraph)
    hangul.set_header_text("햇살농원 내부 문서")
    parsed = read(hangul.to_bytes(), "a.hwpx")
    assert "각주 1: 착과 뒤에는 2.6으로 올린다." in texts(parsed)
    assert texts(parsed)[-1] == "머리말: 햇살농원 내부 문서"
    assert not parsed.notes


# --- spreadsheets -----------------------------------------------------------------------------------------


def test_xlsx_author_and_date_are_properties() -> None:
    book = Workbook()
    book.active.append(["동", "EC"])
    book.active.append(["1동", 2.4])
    book.properties.creator, book.properties.created = "김주임", datetime(2026, 3, 5)
    parsed = read(saved(book), "a.xlsx")
    assert (parsed.author, str(parsed.created)) == ("김주임", "2026-03-05")
    book.properties.creator = "openpyxl"
    assert read(saved(book), "a.xlsx").author is None


def test_a_sheet_with_far_apart_cells_is_refused_before_it_takes_all_memory() -> None:
    book = Workbook()
    book.active["A1"], book.active["XFD1048576"] = "동", "끝"
    assert "너무 넓게 흩어져 있습니다(1,048,576행 × 16,384열)" in refusal(saved(book), "a.xlsx")


# --- HTML -------------------------------------------------------------------------------------------------


def test_html_structure_without_scripts_and_hidden_text() -> None:
    page = read(
        "<!doctype html><html><head><title>사이트</title><meta name=author content=김주임><script>alert('침입')</script>"
        "</head><body><h1>온도 관리</h1><p>첫 <b>문단</b>이다.<h2>낮</h2><ol><li>연다<li>닫는다</ol><ul><li>환기</ul>"
        "<table><tr><td><table><tr><th>동<th>EC</tr><tr><td rowspan=2>1동<td>2.4</tr><tr><td>2.5</tr></table></td></tr>"
        "</table><p style='display: none'>숨긴 지시<p onclick='x()'>끝<iframe src=x>틀</iframe></body></html>",
        "a.html",
    )
    assert (page.title, page.author) == ("온도 관리", "김주임")
    assert [section.headings for section in page.sections] == [(), ("낮",)]
    assert texts(page) == [
        "첫 문단이다.",
        "1. 연다",
        "2. 닫는다",
        "환기",
        "동: 1동, EC: 2.4",
        "동: 1동, EC: 2.5",
        "끝",
    ]
    assert any("스크립트" in note for note in page.notes)
    assert any("보이지 않게" in note for note in page.notes)


@pytest.mark.parametrize("declared", ["euc-kr", "utf-8", ""])
def test_html_is_read_by_what_it_declares_where_that_holds(declared: str) -> None:
    page = f"<html><meta charset='{declared}'><p>배액률 25%</p></html>"
    assert texts(read(page.encode("cp949"), "a.htm")) == ["배액률 25%"]


def test_html_saved_as_xls_is_read_with_a_note() -> None:
    document = read(html_table(), "기록.xls")
    assert (document.format, document.tables) == ("html", 1)
    assert "'.xls'" in document.notes[0]


def test_markdown_that_opens_with_a_tag_stays_markdown() -> None:
    assert read("<div align=center>\n\n# 제목\n\n본문이다.\n", "a.md").format == "md"


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.hwp", "a.pdf", "a.xls", "a.zip"])
def test_two_bytes_under_a_binary_name_are_no_text(name: str) -> None:
    assert "형식이 아닙니다(2바이트)" in refusal(b"PK", name)


@pytest.mark.parametrize(("part", "name"), [("word", "a.docm"), ("xl", "a.xlsm"), ("xl", "a.xlsx")])
def test_files_with_macros_are_refused(part: str, name: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml" if part == "word" else "xl/workbook.xml", "<a/>")
        archive.writestr(f"{part}/vbaProject.bin", b"x")
    assert "매크로(VBA)가 든 파일은 받지 않습니다" in refusal(buffer.getvalue(), name)


def test_old_office_files_with_macros_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No writer of such files is at hand: the list of streams stands for one."""
    streams = [["Workbook"], ["_VBA_PROJECT_CUR"]]
    monkeypatch.setattr(olefile.OleFileIO, "__init__", lambda self, *args: None)
    monkeypatch.setattr(olefile.OleFileIO, "__exit__", lambda self, *args: None)
    monkeypatch.setattr(olefile.OleFileIO, "listdir", lambda self, **options: streams)
    assert "매크로" in refusal(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.xls")


def test_a_part_that_is_longer_than_it_says_is_damaged() -> None:
    data = bytearray(xlsx_table())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        order = archive.namelist().index("xl/workbook.xml")
    position = -1
    for _ in range(order + 1):
        position = data.find(b"PK\x01\x02", position + 1)
    data[position + 24 : position + 28] = (20).to_bytes(4, "little")
    assert "손상" in refusal(bytes(data), "a.xlsx")


def test_too_many_pages_are_refused_before_they_are_read() -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    for _ in range(3):
        canvas.drawString(100, 100, "page")
        canvas.showPage()
    canvas.save()
    assert "쪽이 너무 많습니다(3쪽, 한도 2쪽)" in refusal(buffer.getvalue(), "a.pdf", Limits(pages=2))


def test_two_hundred_megabytes_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "큰.pdf"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read"))
    with pytest.raises(IngestError, match=r"'큰.pdf': 파일이 너무 큽니다\(200.0MB, 한도 50.0MB\)"):
        load(path, limit_bytes=LIMITS.bytes)


# --- hostile input ----------------------------------------------------------------------------------------


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        ("<html><body>" + "<div>" * 5000 + "속" + "</div>" * 5000 + "<script>x</script>끝", "a.html", ["속", "끝"]),
        ("<html><body>" + "<table><tr><td>" * 400 + "속", "a.html", ["속"]),
        ("<html><p>" + "가" * 3_500_000, "a.html", ["가"]),
        (
            "<html><table><tr>" + "<td rowspan=9999 colspan=9999>칸" * 300 + "<tr><td>끝" * 300 + "</table>",
            "a.html",
            ["칸"],
        ),
        ("<!-- x -->" * 6000 + "본문", "a.txt", ["본문"]),
        ("<!--" * 100_000 + "본문", "a.md", ["본문"]),
        ("[" * 200_000 + "\n\n**a" * 50_000 + "\n\n# " + "#" * 100_000 + "x", "a.md", ["**a"]),
        ('동,값\n"1동,' + "가\n" * 70_000, "a.csv", ["1동"]),
    ],
    ids=["nested-div", "nested-table", "long-text", "spans", "comments", "open-comments", "marks", "open-quote"],
)
def test_hostile_text_is_read_in_time(data: str, name: str, words: list[str]) -> None:
    text = read(data, name).text
    assert all(word in text for word in words)
