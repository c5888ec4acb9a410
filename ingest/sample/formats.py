"""Writers from the neutral `Document` to bytes, one per format; the same input gives the same bytes.

Zip based formats carry times (and HWPX random ids): `_fixed_zip` replaces them by constants.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from html import escape
from typing import Any

import docx
from docx.document import Document as WordDocument
from docx.oxml.ns import qn
from hwpx.document import HwpxDocument
from openpyxl import Workbook
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.platypus import Flowable, SimpleDocTemplate, Spacer
from reportlab.platypus import Paragraph as PdfParagraph
from reportlab.platypus import Table as PdfTable

from ingest.sample.model import Block, Bullets, Cell, Document, Paragraph, SampleFile, Table

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_ISO_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FIXED_ISO_TIME = b"2026-11-30T00:00:00Z"
_HWPX_ID = re.compile(rb'(<hp:(?:p|tbl)\b[^>]*?\bid=")(\d+)"')
_PDF_FONT = "HYSMyeongJo-Medium"
_SHEET_NAME_FORBIDDEN = re.compile(r"[\[\]:*?/\\]")
_COLUMN_WIDTH = 16


def _fixed_entry(name: str, data: bytes) -> bytes:
    if name == "docProps/core.xml":
        return _ISO_TIME.sub(_FIXED_ISO_TIME, data)
    if name.startswith("Contents/section"):
        numbers = iter(range(1, data.count(b"<hp:") + 1))
        return _HWPX_ID.sub(lambda m: m.group(1) + str(next(numbers)).encode() + b'"', data)
    return data


def _fixed_zip(data: bytes) -> bytes:
    """The same zip with constant times and ids."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            info = zipfile.ZipInfo(entry.filename, date_time=_ZIP_TIME)
            info.compress_type = entry.compress_type
            target.writestr(info, _fixed_entry(entry.filename, source.read(entry)))
    return out.getvalue()


# Markdown and plain text


def _list_lines(block: Bullets, mark: str = "{}.") -> list[str]:
    return [f"{mark.format(n) if block.ordered else '-'} {item}" for n, item in enumerate(block.items, start=1)]


def _row(cells: tuple[Cell, ...]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _markdown_block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return text
        case Bullets():
            return "\n".join(_list_lines(block))
        case Table(header, rows):
            return "\n".join([_row(header), _row(("---",) * len(header)), *(_row(row) for row in rows)])


def write_markdown(document: Document) -> str:
    """Markdown with the title as the only level-1 heading."""
    parts = [f"# {document.title}", "\n".join(f"{line}  " for line in document.meta).rstrip()]
    for section in document.sections:
        if section.heading:
            parts.append(f"{'#' * section.level} {section.heading}")
        parts += [_markdown_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _text_block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return text
        case Bullets():
            return "\n".join(_list_lines(block, "{})"))
        case Table(header, rows):
            return "\n".join(
                ", ".join(f"{name}: {cell}" for name, cell in zip(header, row, strict=True)) for row in rows
            )


def write_text(document: Document) -> str:
    """Plain text: headings are lines numbered "1. …", deeper ones stay unnumbered."""
    parts = [document.title, "\n".join(document.meta)]
    count = 0
    for section in document.sections:
        if section.heading and section.level == 2:
            count += 1
            parts.append(f"{count}. {section.heading}")
        elif section.heading:
            parts.append(section.heading)
        parts += [_text_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


# Word


def _restarted_list(word: WordDocument) -> int:
    """Id of a fresh numbering that starts at 1 again."""
    numbering: Any = word.part.numbering_part.element
    style: Any = word.styles["List Number"].element
    abstract = numbering.num_having_numId(style.pPr.numPr.numId.val).abstractNumId.val
    num = numbering.add_num(abstract)
    num.add_lvlOverride(ilvl=0).add_startOverride(1)
    return int(num.numId)


def _word_list(word: WordDocument, block: Bullets) -> None:
    number = _restarted_list(word) if block.ordered else None
    for item in block.items:
        paragraph: Any = word.add_paragraph(item, style="List Number" if block.ordered else "List Bullet")
        if number is not None:
            paragraph._p.get_or_add_pPr().get_or_add_numPr().get_or_add_numId().val = number


def _word_table(word: WordDocument, block: Table) -> None:
    table = word.add_table(rows=0, cols=len(block.header), style="Table Grid")
    for row in (block.header, *block.rows):
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = str(text)


def _word_block(word: WordDocument, block: Block) -> None:
    match block:
        case Paragraph(text):
            word.add_paragraph(text)
        case Bullets():
            _word_list(word, block)
        case Table():
            _word_table(word, block)


def write_docx(document: Document) -> bytes:
    """Word document with real heading, list and table styles."""
    word = docx.Document()
    normal: Any = word.styles["Normal"]
    normal.font.name = "맑은 고딕"
    normal.element.rPr.rFonts.set(qn("w:eastAsia"), "맑은 고딕")
    word.core_properties.title = document.title
    word.add_heading(document.title, level=0)
    for line in document.meta:
        word.add_paragraph(line)
    for section in document.sections:
        if section.heading:
            word.add_heading(section.heading, level=section.level - 1)
        for block in section.blocks:
            _word_block(word, block)
    buffer = io.BytesIO()
    word.save(buffer)
    return _fixed_zip(buffer.getvalue())


# HWPX


def _hwpx_table(hangul: HwpxDocument, block: Table) -> None:
    table = hangul.add_table(len(block.rows) + 1, len(block.header))
    for row_index, row in enumerate((block.header, *block.rows)):
        for column_index, cell in enumerate(row):
            table.set_cell_text(row_index, column_index, str(cell))


def _hwpx_block(hangul: HwpxDocument, block: Block) -> None:
    match block:
        case Paragraph(text):
            hangul.add_paragraph(text)
        case Bullets():
            for line in _list_lines(block):
                hangul.add_paragraph(line)
        case Table():
            _hwpx_table(hangul, block)


def write_hwpx(document: Document) -> bytes:
    """HWPX; headings are short paragraphs of their own."""
    hangul = HwpxDocument.new()
    for line in (document.title, *document.meta):
        hangul.add_paragraph(line)
    for section in document.sections:
        if section.heading:
            hangul.add_paragraph(section.heading)
        for block in section.blocks:
            _hwpx_block(hangul, block)
    return _fixed_zip(hangul.to_bytes())


# PDF


@cache
def _pdf_styles() -> dict[str, ParagraphStyle]:
    pdfmetrics.registerFont(UnicodeCIDFont(_PDF_FONT))
    make = partial(ParagraphStyle, fontName=_PDF_FONT)
    return {
        "title": make("title", fontSize=17, leading=24, spaceAfter=4),
        "meta": make("meta", fontSize=9, leading=13, textColor="#555555"),
        "heading": make("heading", fontSize=13, leading=18, spaceBefore=10, spaceAfter=3),
        "body": make("body", fontSize=10.5, leading=16, spaceAfter=3),
        "cell": make("cell", fontSize=9, leading=12),
    }


def _pdf_block(block: Block) -> Iterator[Flowable]:
    styles = _pdf_styles()
    match block:
        case Paragraph(text):
            yield PdfParagraph(escape(text, quote=False), styles["body"])
        case Bullets():
            for line in _list_lines(block):
                yield PdfParagraph(escape(line, quote=False), styles["body"])
        case Table(header, rows):
            cells = [
                [PdfParagraph(escape(str(cell), quote=False), styles["cell"]) for cell in row]
                for row in (header, *rows)
            ]
            grid = [("GRID", (0, 0), (-1, -1), 0.4, "#999999"), ("VALIGN", (0, 0), (-1, -1), "TOP")]
            yield PdfTable(cells, style=grid, repeatRows=1)
            yield Spacer(0, 3 * mm)


def _pdf_flow(document: Document) -> Iterator[Flowable]:
    styles = _pdf_styles()
    yield PdfParagraph(escape(document.title, quote=False), styles["title"])
    for line in document.meta:
        yield PdfParagraph(escape(line, quote=False), styles["meta"])
    for section in document.sections:
        if section.heading:
            yield PdfParagraph(escape(section.heading, quote=False), styles["heading"])
        for block in section.blocks:
            yield from _pdf_block(block)


def _page_number(canvas: Any, layout: Any) -> None:
    canvas.setFont(_PDF_FONT, 9)
    canvas.drawCentredString(A4[0] / 2, 12 * mm, f"- {layout.page} -")


def write_pdf(document: Document) -> bytes:
    """A4 pages with page numbers, in a Korean font that every reader has."""
    buffer = io.BytesIO()
    layout = SimpleDocTemplate(
        buffer,
        pagesize=A4,
        leftMargin=22 * mm,
        rightMargin=22 * mm,
        topMargin=20 * mm,
        bottomMargin=22 * mm,
        title=document.title,
        invariant=1,
    )
    layout.build(list(_pdf_flow(document)), onFirstPage=_page_number, onLaterPages=_page_number)
    return buffer.getvalue()


# Spreadsheets


def _sheet_name(heading: str) -> str:
    return _SHEET_NAME_FORBIDDEN.sub(" ", heading)[:31] or "자료"


def _sheet_rows(block: Block) -> Iterator[tuple[Cell, ...]]:
    match block:
        case Paragraph(text):
            yield (text,)
        case Bullets(items):
            yield from ((item,) for item in items)
        case Table(header, rows):
            yield header
            yield from rows


def write_xlsx(document: Document) -> bytes:
    """One sheet per section, each with the title and meta lines on top."""
    book = Workbook()
    book.remove(book.worksheets[0])
    for section in document.sections:
        sheet = book.create_sheet(_sheet_name(section.heading))
        sheet.append([document.title])
        sheet["A1"].font = Font(bold=True, size=13)
        for line in document.meta:
            sheet.append([line])
        for block in section.blocks:
            sheet.append([])
            for row in _sheet_rows(block):
                sheet.append(list(row))
        for column in range(2, sheet.max_column + 1):
            sheet.column_dimensions[get_column_letter(column)].width = _COLUMN_WIDTH
    buffer = io.BytesIO()
    book.save(buffer)
    return _fixed_zip(buffer.getvalue())


def write_csv(document: Document) -> str:
    """The document's tables; title and meta lines have no place in a CSV, so rows must carry them."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for section in document.sections:
        for block in section.blocks:
            writer.writerows(_sheet_rows(block))
    return buffer.getvalue()


_TEXT_WRITERS: dict[str, Callable[[Document], str]] = {
    "md": write_markdown,
    "txt": write_text,
    "csv": write_csv,
}
_BINARY_WRITERS: dict[str, Callable[[Document], bytes]] = {
    "docx": write_docx,
    "hwpx": write_hwpx,
    "pdf": write_pdf,
    "xlsx": write_xlsx,
}
FORMATS: tuple[str, ...] = (*_TEXT_WRITERS, *_BINARY_WRITERS)


def render(file: SampleFile) -> bytes:
    """Bytes of a file in the format of its extension; unknown extensions raise `KeyError`."""
    if file.format in _TEXT_WRITERS:
        return _TEXT_WRITERS[file.format](file.document).encode(file.encoding)
    return _BINARY_WRITERS[file.format](file.document)
