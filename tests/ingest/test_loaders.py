"""Every format is written here by its own library and read back."""

import codecs
import io
import os
import unicodedata
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path

import docx
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from hwpx.document import HwpxDocument
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

from ingest.loaders import LOADERS, load
from ingest.loaders.pdf import breaks_words, join
from ingest.loaders.text import decode, plain
from ingest.parsed import Block, ParsedDocument, row_text
from rag.errors import IngestError

LIMIT = 5_000_000
SMARTFARM_PDF = Path(__file__).parents[2].parent / "shared" / "data" / "ko_smartfarm_pdf"
FONT = "HYSMyeongJo-Medium"
pdfmetrics.registerFont(UnicodeCIDFont(FONT))

CSV = (
    "동,측정일,급액 EC(dS/m),배액률(%),비고\r\n"
    '1동,2026.3.5,2.4,24.5,"천창 30%, 측창 닫음"\r\n'
    "2동,2026-03-06,2.2,31,\r\n"
)
CSV_ROWS = [
    "동: 1동, 측정일: 2026-03-05, 급액 EC(dS/m): 2.4, 배액률(%): 24.5, 비고: 천창 30%, 측창 닫음",
    "동: 2동, 측정일: 2026-03-06, 급액 EC(dS/m): 2.2, 배액률(%): 31",
]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., ParsedDocument]:
    def read_bytes(data: bytes | str, name: str, limit_bytes: int = LIMIT) -> ParsedDocument:
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return load(path, limit_bytes=limit_bytes)

    return read_bytes


def texts(document: ParsedDocument, kind: str = "") -> list[str]:
    return [block.text for block in document.blocks if not kind or block.kind == kind]


def headings(document: ParsedDocument) -> list[tuple[str, ...]]:
    return [section.headings for section in document.sections]


# --- Markdown ---------------------------------------------------------------------------------------------


def test_markdown_sections_lists_and_tables(read):
    document = read(
        "# 토마토 온도 관리\n\n머리말 **강조** 문장이\n이어진다.\n\n## 낮 온도\n- 환기는 [안내](http://x.kr/a)를 본다\n"
        "1. 천창을 연다\n2. 측창을 연다\n\n### 밤\n\n"
        "| 목적 | 최저온도 |\n|---|---|\n| 낙화 방지 | 8℃ 이상 |\n| 결로 방지 | |\n",
        "a.md",
    )
    assert document.title == "토마토 온도 관리"
    assert headings(document) == [(), ("낮 온도",), ("낮 온도", "밤")]
    assert texts(document) == [
        "머리말 강조 문장이 이어진다.",
        "환기는 안내를 본다",
        "1. 천창을 연다",
        "2. 측창을 연다",
        "목적: 낙화 방지, 최저온도: 8℃ 이상",
        "목적: 결로 방지",
    ]
    assert [block.locator for block in document.blocks][-2:] == ["표 1의 2행", "표 1의 3행"]
    assert [block.kind for block in document.blocks] == ["paragraph", *["list_item"] * 3, "row", "row"]
    assert document.tables == 1
    assert document.text.startswith("토마토 온도 관리\n머리말")
    assert document.characters == sum(map(len, texts(document)))


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("**EC 2.4**를 *꼭* 지킨다", "EC 2.4를 꼭 지킨다"),
        ("2*3*4 와 snake_case_name 은 그대로", "2*3*4 와 snake_case_name 은 그대로"),
        ("10~12℃, ~~취소~~", "10~12℃, 취소"),
        ("![그림 1](a/b.png)[안내](https://x.kr)", "안내"),
        (r"1\. 아님 \* 별표", "1. 아님 * 별표"),
    ],
)
def test_inline_marks(marked, expected):
    assert plain(marked) == expected


def test_markdown_front_matter_gives_title_author_date(read):
    document = read("---\ntitle: 점검 요령\n작성자: 김주임\ndate: 2026-03-05\n---\n## 순서\n본문이다.\n", "a.md")
    assert (document.title, document.author, document.created) == ("점검 요령", "김주임", date(2026, 3, 5))
    assert headings(document) == [("순서",)]


def test_heading_without_content_stays_as_text(read):
    document = read("# 제목\n\n본문이다.\n\n## 가\n\n## 나\n\n내용이다.\n", "a.md")
    assert texts(document) == ["본문이다.", "가", "내용이다."]
    assert headings(document) == [(), ("나",)]


# --- plain text and decoding ------------------------------------------------------------------------------


def test_text_headings_lists_and_wrapped_lines(read):
    document = read(
        "1동 작업일지\n\n■ 오전\n\n1. 급액\n배액률을 확인했다.\n- 펌프 점검\n· 필터 청소\n\n2. 1동 환기\n"
        "천창을 오전 열 시에 삼십 퍼센트까지 열고 측창은 바람이 세서 닫아 둔 채로 두었으며\n오후에 다시 보았다.\n"
        "1) 창을 닫는다\n2) 커튼을 친다\n\n[전달 사항]\n내일 방제한다.\n",
        "a.txt",
    )
    assert document.title == "1동 작업일지"
    assert headings(document) == [("오전", "1. 급액"), ("오전", "2. 1동 환기"), ("전달 사항",)]
    assert texts(document, "list_item") == ["펌프 점검", "필터 청소", "1) 창을 닫는다", "2) 커튼을 친다"]
    assert "측창은 바람이 세서 닫아 둔 채로 두었으며 오후에 다시 보았다." in document.text


def test_numbered_lines_in_a_row_are_a_list_not_headings(read):
    document = read("준비물\n\n1. 장갑\n2. 가위\n3. 소독약\n\n끝나면 씻는다.\n", "a.txt")
    assert texts(document, "list_item") == ["1. 장갑", "2. 가위", "3. 소독약"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16", "utf-16-le", "utf-16-be"])
def test_same_csv_in_any_encoding_gives_the_same_blocks(read, encoding):
    data = CSV.encode(encoding)
    document = read(data, "급액.csv")
    assert texts(document) == CSV_ROWS
    assert [block.locator for block in document.blocks] == ["2행", "3행"]
    assert document.notes == ()


def test_cp949_with_bad_byte_is_read_counted_and_located(read):
    data = "1동 급액\n배액 기록\n".encode("cp949") + b"\xff\n" + "끝났다.\n".encode("cp949")
    document = read(data, "a.txt")
    assert "끝났다." in document.text
    [note] = document.notes
    assert "CP949" in note
    assert "1개" in note
    assert "3번째 줄" in note


def test_the_position_of_a_bad_byte_counts_the_mark():
    [note] = decode(codecs.BOM_UTF8 + "가\n".encode() + b"\xff").notes
    assert "2번째 줄, 바이트 위치 7" in note


def test_one_bad_byte_does_not_turn_utf8_into_cp949():
    decoded = decode("토마토 급액 배액 기록을 적는다".encode() + b"\xff")
    assert decoded.encoding == "utf-8"
    assert decoded.text.startswith("토마토 급액")
    assert decoded.notes


def test_ks_filler_sequences_are_composed():
    assert decode("ㅤㄸㅗㅁ방각하 ㅤㅂㅞㄹ".encode("cp949")).text == "똠방각하 뷀"


def test_nfd_text_and_name_become_nfc(read):
    text, name = (unicodedata.normalize("NFD", form) for form in ("급액 일지\n\n배액을 재었다.\n", "일지.txt"))
    document = read(text, name)
    assert texts(document) == ["배액을 재었다."]
    assert unicodedata.is_normalized("NFC", document.text)


# --- spreadsheets -----------------------------------------------------------------------------------------


def workbook(sheets: dict[str, list[list[object]]]) -> Workbook:
    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return book


def saved(book: Workbook) -> bytes:
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_xlsx_title_metadata_header_and_typed_values(read):
    data = saved(
        workbook(
            {
                "급액": [
                    ["2026년 3월 급액·배액 요약"],
                    ["단위: dS/m, %"],
                    [],
                    ["동", "측정일", "급액 EC", "급액량(L)", "비고"],
                    ["1동", datetime(2026, 3, 5), 2.4, 1200.0, None],
                    ["2동", datetime(2026, 3, 5, 14, 30), 24.499999999999996, None, "필터 청소"],
                    ["※ 3월 12일 센서 교정"],
                ]
            }
        )
    )
    document = read(data, "a.xlsx")
    assert document.title == "2026년 3월 급액·배액 요약"
    assert headings(document) == [("급액",)]
    assert document.blocks == (
        Block(kind="paragraph", text="단위: dS/m, %", locator="시트 '급액' 2행"),
        Block(kind="row", text="동: 1동, 측정일: 2026-03-05, 급액 EC: 2.4, 급액량(L): 1200", locator="시트 '급액' 5행"),
        Block(
            kind="row",
            text="동: 2동, 측정일: 2026-03-05 14:30, 급액 EC: 24.5, 비고: 필터 청소",
            locator="시트 '급액' 6행",
        ),
        Block(kind="paragraph", text="※ 3월 12일 센서 교정", locator="시트 '급액' 7행"),
    )


def test_xlsx_merged_cells_and_grouped_header(read):
    book = workbook(
        {
            "Sheet1": [
                ["동", "급액", None, "배액", None],
                [None, "EC", "pH", "EC", "pH"],
                ["1동", 2.4, 5.8, 3.1, 6.2],
                [None, 2.5, 5.9, 3.2, 6.3],
            ]
        }
    )
    for cells in ("A1:A2", "B1:C1", "D1:E1", "A3:A4"):
        book.active.merge_cells(cells)
    document = read(saved(book), "3월_기록.xlsx")
    assert document.title == "3월 기록"
    assert headings(document) == [()]
    assert texts(document) == [
        "동: 1동, 급액 EC: 2.4, 급액 pH: 5.8, 배액 EC: 3.1, 배액 pH: 6.2",
        "동: 1동, 급액 EC: 2.5, 급액 pH: 5.9, 배액 EC: 3.2, 배액 pH: 6.3",
    ]


def test_xlsx_sheets_second_table_and_hidden_sheet(read):
    book = workbook(
        {
            "급액": [["동", "EC"], ["1동", 2.4], [], ["2동", 2.2], [], ["품목", "수량"], ["장갑", 3]],
            "배액": [["동", "1일", "2일"], ["1동", 24, 25]],
            "코드": [["가", "나"], [1, 2]],
        }
    )
    book["코드"].sheet_state = "hidden"
    document = read(saved(book), "a.xlsx")
    assert texts(document) == [
        "동: 1동, EC: 2.4",
        "동: 2동, EC: 2.2",
        "품목: 장갑, 수량: 3",
        "동: 1동, 1일: 24, 2일: 25",
    ]
    assert headings(document) == [("급액",), ("배액",)]
    assert "숨긴 시트 '코드'" in document.notes[0]


def test_day_columns_are_a_header(read):
    document = read("점검 항목,1,2,3\n환기창,O,X,O\n펌프,O,O,O\n", "a.csv")
    assert texts(document)[0] == "점검 항목: 환기창, 1: O, 2: X, 3: O"


def test_csv_with_semicolons_and_tsv(read):
    assert texts(read("동;EC\n1동;2.4\n", "a.csv")) == ["동: 1동, EC: 2.4"]
    assert texts(read("동\tEC\n1동\t2.4\n", "a.tsv")) == ["동: 1동, EC: 2.4"]


def test_unclosed_quote_does_not_swallow_the_file(read):
    rows = "".join(f"{number}동,{number}\n" for number in range(1, 80))
    document = read('동,값\n"0동,0\n' + rows, "a.csv")
    assert len(texts(document, "row")) == 80
    assert "따옴표" in document.notes[0]


def test_row_text_without_header():
    assert row_text(None, ["작성일", "", "2026-03-05"]) == "작성일: 2026-03-05"
    assert row_text(["동", ""], ["1동", "메모", "또"]) == "동: 1동, 메모, 또"


# --- Word -------------------------------------------------------------------------------------------------


def word_bytes(document) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def sample_word():
    document = docx.Document()
    document.core_properties.author = "김주임"
    document.core_properties.created = datetime(2026, 3, 5)
    document.add_heading("시설 점검표", level=0)
    document.add_heading("전기", level=1)
    document.add_paragraph("배전반을 연다.")
    document.add_paragraph("차단기 확인", style="List Number")
    document.add_paragraph("접지 확인", style="List Number")
    document.add_paragraph("장갑 착용", style="List Bullet")
    document.add_heading("난방", level=2)
    table = document.add_table(rows=3, cols=3)
    for row, cells in zip(table.rows, [["항목", "결과", "비고"], ["온풍기", "정상", ""], ["펌프", "소음", "교체"]]):
        for cell, text in zip(row.cells, cells):
            cell.text = text
    return document


def test_docx_structure_and_properties(read):
    document = read(word_bytes(sample_word()), "a.docx")
    assert (document.title, document.author, document.created) == ("시설 점검표", "김주임", date(2026, 3, 5))
    assert headings(document) == [("전기",), ("전기", "난방")]
    assert texts(document, "list_item") == ["1. 차단기 확인", "2. 접지 확인", "장갑 착용"]
    assert texts(document, "row") == ["항목: 온풍기, 결과: 정상", "항목: 펌프, 결과: 소음, 비고: 교체"]
    assert document.blocks[-1].locator == "표 1의 3행"


def test_docx_only_top_heading_is_title_several_are_chapters(read):
    one, two = docx.Document(), docx.Document()
    for document, names in ((one, ["양액 관리"]), (two, ["개요", "방법"])):
        for name in names:
            document.add_heading(name, level=1)
            document.add_paragraph("본문이다.")
    assert read(word_bytes(one), "문서.docx").title == "양액 관리"
    several = read(word_bytes(two), "양액_지침.docx")
    assert several.title == "양액 지침"
    assert headings(several) == [("개요",), ("방법",)]


def test_docx_template_author_is_no_author(read):
    document = docx.Document()
    document.add_paragraph("본문이다.")
    parsed = read(word_bytes(document), "a.docx")
    assert (parsed.author, parsed.created) == (None, None)


def test_docx_tracked_insertion_is_read_and_deletion_is_not(read):
    document = docx.Document()
    paragraph = document.add_paragraph("배액률은 ")
    inserted, deleted = OxmlElement("w:ins"), OxmlElement("w:del")
    for holder, tag, text in ((inserted, "w:t", "25%이다."), (deleted, "w:delText", "30%이다.")):
        run, content = OxmlElement("w:r"), OxmlElement(tag)
        content.text = text
        run.append(content)
        holder.append(run)
        paragraph._p.append(holder)
    assert texts(read(word_bytes(document), "a.docx")) == ["배액률은 25%이다."]


def test_docx_table_with_broken_grid_is_read_with_a_note(read):
    document = sample_word()
    before = OxmlElement("w:gridBefore")
    before.set(qn("w:val"), "1")
    merge = OxmlElement("w:vMerge")
    table = document.tables[0]
    table.rows[1]._tr.get_or_add_trPr().append(before)
    table.cell(2, 0)._tc.get_or_add_tcPr().append(merge)
    parsed = read(word_bytes(document), "a.docx")
    assert "온풍기" in parsed.text
    assert any("표 1" in note for note in parsed.notes)


# --- PDF --------------------------------------------------------------------------------------------------


def pdf_bytes(flow, **options) -> bytes:
    buffer = io.BytesIO()

    def number(canvas, _):
        canvas.setFont(FONT, 9)
        canvas.drawString(290, 30, f"- {canvas.getPageNumber()} -")

    SimpleDocTemplate(buffer, **options).build(flow, onFirstPage=number, onLaterPages=number)
    return buffer.getvalue()


def style(size: float, wrap: str | None = None) -> ParagraphStyle:
    return ParagraphStyle(f"s{size}{wrap}", fontName=FONT, fontSize=size, leading=size * 1.5, wordWrap=wrap)


BODY = (
    "급액 횟수는 일사량에 맞추어 조절하고 배액률은 이십에서 삼십 퍼센트 사이로 유지한다. "
    "배액 EC가 급액 EC보다 일 점 오 이상 높으면 급액량을 늘린다. "
    "흐린 날에는 급액 횟수를 줄이고 마지막 급액 시각을 앞당겨 배지가 지나치게 젖지 않게 한다."
)


def sample_pdf(wrap: str | None = None) -> bytes:
    grid = [("FONTNAME", (0, 0), (-1, -1), FONT), ("GRID", (0, 0), (-1, -1), 0.5, "#000000")]
    cells = [["동", "급액 EC", "배액률(%)"], ["1동", "2.4", "24.5"], ["2동", "", "31"]]
    return pdf_bytes(
        [
            Paragraph("1동 급액 관리", style(18)),
            Paragraph("급액 기준", style(13)),
            Paragraph(BODY, style(10, wrap)),
            Paragraph("1. 배액을 받는다", style(10)),
            Paragraph("2. EC를 잰다", style(10)),
            PageBreak(),
            Paragraph("실측값", style(13)),
            Table(cells, style=grid),
        ]
    )


@pytest.mark.parametrize("wrap", [None, "CJK"])
def test_pdf_headings_joined_lines_table_and_pages(read, wrap):
    document = read(sample_pdf(wrap), "a.pdf")
    assert (document.title, document.pages, document.tables) == ("1동 급액 관리", 2, 1)
    assert headings(document) == [("급액 기준",), ("실측값",)]
    [body] = texts(document, "paragraph")
    assert body.replace(" ", "") == BODY.replace(" ", "")
    assert "배액률은 이십에서" in body
    assert body == BODY or wrap == "CJK"
    assert texts(document, "list_item") == ["1. 배액을 받는다", "2. EC를 잰다"]
    assert texts(document, "row") == ["동: 1동, 급액 EC: 2.4, 배액률(%): 24.5", "동: 2동, 배액률(%): 31"]
    assert [block.locator for block in document.blocks] == ["1쪽"] * 3 + ["2쪽"] * 2
    assert "- 1 -" not in document.text


def test_pdf_sentence_across_pages_is_one_block(read):
    text = " ".join(f"{number}번 밸브를 열고 배액이 나올 때까지 기다린 뒤 EC를 재어 적는다." for number in range(1, 40))
    document = read(pdf_bytes([Paragraph(text, style(12))], pagesize=(400, 300)), "a.pdf")
    assert (document.pages or 0) > 1
    assert all(text.endswith(".") for text in texts(document))
    assert " ".join(texts(document)) == text


def test_pdf_running_header_is_dropped(read):
    def header(canvas, _):
        canvas.setFont(FONT, 9)
        canvas.drawString(70, 820, "햇살농원 관리 지침")

    buffer = io.BytesIO()
    lines = [f"{number}번 밸브를 연다." for number in range(1, 5)]
    flow = [item for line in lines for item in (Paragraph(line, style(10)), PageBreak())]
    SimpleDocTemplate(buffer).build(flow, onFirstPage=header, onLaterPages=header)
    document = read(buffer.getvalue(), "a.pdf")
    assert document.title == "햇살농원 관리 지침"
    assert texts(document) == lines


@pytest.mark.parametrize(
    ("left", "right", "broken", "expected"),
    [
        ("배액 EC", "가 높으면", False, "배액 EC가 높으면"),
        ("조절하고 배", "액률은", True, "조절하고 배액률은"),
        ("조절하고", "배액률은", True, "조절하고 배액률은"),
        ("조절하고 배", "액률은", False, "조절하고 배 액률은"),
        ("irriga-", "tion", False, "irrigation"),
    ],
)
def test_join(left, right, broken, expected):
    assert join(left, right, broken) == expected


def test_breaks_words_needs_evidence():
    assert breaks_words([0.0, 0.0, 0.0], ["가 높다", "양을 늘린다", "액률"])
    assert not breaks_words([0.0, 2.5, 0.3], ["급액을", "양을", "배액률"])
    assert not breaks_words([0.0, 0.0, 0.0], ["급액을", "양을", "배액률"])
    assert breaks_words([0.0, 0.8, 0.5, 0.9], ["급액을", "양을", "액률", "다시"])


def test_pdf_without_text_layer_is_refused(read):
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.rect(100, 100, 200, 200, fill=1)
    canvas.save()
    with pytest.raises(IngestError, match="스캔 문서: 글자층 없음"):
        read(buffer.getvalue(), "a.pdf")


def test_pdf_with_password_is_refused(read):
    with pytest.raises(IngestError, match="암호가 걸린 PDF"):
        read(pdf_bytes([Paragraph("비밀", style(10))], encrypt="1234"), "a.pdf")


def test_pdf_nul_between_words_becomes_a_space():
    if not SMARTFARM_PDF.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{SMARTFARM_PDF} is missing")
        pytest.skip("data folder not at hand")
    document = load(SMARTFARM_PDF / "FarmOS V2 매뉴얼 v1.0.pdf", limit_bytes=LIMIT)
    assert document.title == "FarmOS UI 프로그램 매뉴얼"
    assert "본인의 계정으로 로그인을 시도합니다." in texts(document)
    assert not {"\x00", "\ufffe", "\ufffd"} & set(document.text)


# --- Hangul -----------------------------------------------------------------------------------------------


def sample_hwpx() -> bytes:
    hangul = HwpxDocument.new()
    for line in ("작업일지 2026년 3월 5일", "작성자: 김주임", "1동 토마토", "1동 배액률을 재니 24.5%였다."):
        hangul.add_paragraph(line)
    hangul.add_paragraph("방제")
    hangul.add_paragraph("- 황색 트랩 교체")
    table = hangul.add_table(2, 2)
    for column, (name, value) in enumerate((("동", "1동"), ("급액 EC", "2.4"))):
        table.set_cell_text(0, column, name)
        table.set_cell_text(1, column, value)
    return hangul.to_bytes()


def test_hwpx_title_headings_list_and_table(read):
    document = read(sample_hwpx(), "a.hwpx")
    assert (document.title, document.format) == ("작업일지 2026년 3월 5일", "hwpx")
    assert headings(document) == [(), ("1동 토마토",), ("방제",)]
    assert texts(document) == [
        "작성자: 김주임",
        "1동 배액률을 재니 24.5%였다.",
        "황색 트랩 교체",
        "동: 1동, 급액 EC: 2.4",
    ]
    assert document.blocks[-1].locator == "표 1의 2행"


# --- what is not as it seems, and what cannot be read -----------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind"), [(sample_pdf, "pdf"), (sample_hwpx, "hwpx"), (lambda: word_bytes(sample_word()), "docx")]
)
def test_wrong_extension_is_read_by_content_with_a_note(read, make, kind):
    document = read(make(), "보고.xlsx")
    assert document.format == kind
    assert "'.xlsx'" in document.notes[0]


def test_csv_named_xls_is_read_as_csv_but_csv_like_txt_stays_text(read):
    assert read(CSV.encode("cp949"), "기록.xls").format == "csv"
    assert read(CSV, "기록.txt").format == "txt"


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"", "a.pdf", "빈 파일"),
        (b" \n", "a.txt", "빈 파일"),
        (codecs.BOM_UTF8, "a.txt", "읽을 글자가 없습니다"),
        (b"<html><table></table></html>", "a.xls", "읽을 글자가 없습니다"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "a.pdf", "아직 지원하지 않는 형식"),
        (bytes(range(256)) * 4, "a.bin", "아직 지원하지 않는 형식"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "a.hwp", "손상"),
        (b"%PDF-1.7\n1 0 obj", "a.pdf", "손상"),
    ],
)
def test_refusals_name_the_file_and_the_reason(read, data, name, message):
    with pytest.raises(IngestError, match=message) as caught:
        read(data, name)
    assert f"'{name}'" in str(caught.value)


def test_too_large_is_refused_before_reading(read):
    with pytest.raises(IngestError, match=r"너무 큽니다\(11바이트, 한도 10바이트\)"):
        read("가" * 3 + "ab", "a.txt", limit_bytes=10)


def test_missing_file_and_folder_are_refused(tmp_path):
    for path in (tmp_path / "없음.pdf", tmp_path):
        with pytest.raises(IngestError, match="열 수 없습니다"):
            load(path, limit_bytes=LIMIT)


@pytest.mark.parametrize(
    "make", [sample_hwpx, lambda: word_bytes(sample_word()), lambda: saved(workbook({"a": [[1]]}))]
)
def test_truncated_archives_are_damaged(read, make):
    data = make()
    with pytest.raises(IngestError, match="손상"):
        read(data[: len(data) * 2 // 3], "a.docx")


def test_truncated_pdf_is_damaged_or_read_but_never_crashes(read):
    data = sample_pdf()
    for share in (0.1, 0.5, 0.9):
        with suppress(IngestError):
            read(data[: int(len(data) * share)], "a.pdf")


def test_archive_with_password_marker_is_refused(read):
    data = bytearray(word_bytes(sample_word()))
    position = data.find(b"PK\x01\x02")
    data[position + 8] |= 1
    with pytest.raises(IngestError, match="암호가 걸린"):
        read(bytes(data), "a.docx")


def test_foreign_zip_is_unsupported(read):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("사진.jpg", b"x")
    with pytest.raises(IngestError, match="ZIP"):
        read(buffer.getvalue(), "a.zip")


def test_small_archive_that_unpacks_to_too_much_is_refused(read):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<a/>" + b" " * 201_000_000)
    with pytest.raises(IngestError, match="압축을 풀면"):
        read(buffer.getvalue(), "a.docx")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), prefix=st.sampled_from([b"", b"%PDF-1.4\n", b"PK\x03\x04", b"\xff\xfe", b"# "]))
@pytest.mark.parametrize("extension", ["pdf", "docx", "csv", "md", "txt"])
def test_any_bytes_give_a_document_or_an_ingest_error(tmp_path, extension, data, prefix):
    path = tmp_path / f"a.{extension}"
    path.write_bytes(prefix + data)
    with suppress(IngestError):
        assert load(path, limit_bytes=LIMIT).format in LOADERS


def test_same_bytes_give_the_same_document(read):
    data = sample_pdf()
    assert read(data, "a.pdf") == read(data, "a.pdf")
