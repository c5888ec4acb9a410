"""Word documents through python-docx: heading styles, lists with their visible numbers, tables, properties.

Own walks replace two python-docx conveniences that lose text: ``Paragraph.text`` skips tracked insertions and
content controls, ``iter_inner_content`` skips content controls at block level.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import docx
from docx.document import Document
from docx.oxml.ns import qn
from docx.table import Table
from docx.text.paragraph import Paragraph

from ingest.loaders.text import add_line, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean, row_text

_HEADING_STYLE = re.compile(r"(?:heading|제목)\s*(\d)", re.IGNORECASE)
_TITLE_STYLE = re.compile(r"title|제목|표제", re.IGNORECASE)
_LIST_STYLE = re.compile(r"list|목록|글머리", re.IGNORECASE)
_TEMPLATE_AUTHOR = "python-docx"
_DECIMAL = "decimal"
_ABSTRACT_ID = qn("w:abstractNumId")
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"


def load_docx(data: bytes, name: str) -> ParsedDocument:
    """A Word document (DOCX)."""
    document = docx.Document(io.BytesIO(data))
    builder = DocumentBuilder(format="docx")
    _take_properties(builder, document)
    blocks = list(_blocks(document))
    heading_title = "" if _titled(blocks) else _only_top_heading(blocks)
    numbers = _Numbers(document)
    for block in blocks:
        if isinstance(block, Table):
            _add_table(builder, block)
        else:
            _add_paragraph(builder, block, heading_title, numbers)
    return builder.build(clean(document.core_properties.title) or stem_title(name))


class _Numbers:
    """Running numbers of automatic decimal lists, as Word shows them."""

    def __init__(self, document: Document) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self._formats = _number_formats(document)

    def label(self, paragraph: Paragraph) -> str | None:
        """ "3. " for a numbered paragraph, "" for a bullet, None outside lists."""
        properties = _numbering(paragraph)
        if properties is None or not properties[0]:
            return "" if _LIST_STYLE.match(_style_name(paragraph)) else None
        if self._formats.get(properties) != _DECIMAL:
            return ""
        self._counts[properties] += 1
        for deeper in [key for key in self._counts if key[0] == properties[0] and key[1] > properties[1]]:
            del self._counts[deeper]
        return f"{self._counts[properties]}. "


def _take_properties(builder: DocumentBuilder, document: Document) -> None:
    """Author and date, unless they are those of the template that libraries start from."""
    properties = document.core_properties
    if properties.author == _TEMPLATE_AUTHOR:
        return
    builder.author = properties.author
    created: datetime | None = properties.created
    builder.created = date(created.year, created.month, created.day) if created else None


def _blocks(document: Document) -> Iterator[Paragraph | Table]:
    """Paragraphs and tables in reading order, content controls opened, the table of contents left out."""
    yield from _inner(document.element.body, document)


def _inner(element: Any, parent: Any) -> Iterator[Paragraph | Table]:
    for child in element.iterchildren():
        if child.tag == qn("w:p"):
            yield Paragraph(child, parent)
        elif child.tag == qn("w:tbl"):
            yield Table(child, parent)
        elif child.tag == qn("w:sdt") and not child.xpath(".//w:docPartGallery[@w:val='Table of Contents']"):
            for content in child.iterchildren(qn("w:sdtContent")):
                yield from _inner(content, parent)


def _titled(blocks: list[Paragraph | Table]) -> bool:
    return any(isinstance(block, Paragraph) and _is_title(block) for block in blocks)


def _only_top_heading(blocks: list[Paragraph | Table]) -> str:
    """The text of the single level-1 heading; with several of them they are chapters, not a title."""
    tops = [_text(block) for block in blocks if isinstance(block, Paragraph) and _level(block) == 1 and _text(block)]
    return tops[0] if len(tops) == 1 else ""


def _add_paragraph(builder: DocumentBuilder, paragraph: Paragraph, heading_title: str, numbers: _Numbers) -> None:
    text = _text(paragraph)
    level = _level(paragraph)
    if not text:
        return
    if not builder.title and (_is_title(paragraph) or (level == 1 and text == heading_title)):
        builder.title = text
    elif level:
        builder.heading(level, text)
    elif (label := numbers.label(paragraph)) is not None:
        builder.list_item(label + text)
    else:
        add_line(builder, text)


def _style_name(paragraph: Paragraph) -> str:
    style = paragraph.style
    return (style.name or "") if style is not None else ""


def _is_title(paragraph: Paragraph) -> bool:
    return bool(_TITLE_STYLE.fullmatch(_style_name(paragraph))) and bool(_text(paragraph))


def _level(paragraph: Paragraph) -> int:
    """Heading level from the style name or an outline level of the paragraph; 0 for body text."""
    match = _HEADING_STYLE.match(_style_name(paragraph))
    if match:
        return int(match[1])
    outline = paragraph._p.xpath("./w:pPr/w:outlineLvl/@w:val")
    return int(outline[0]) + 1 if outline and int(outline[0]) < 9 else 0


def _text(paragraph: Paragraph) -> str:
    return clean("".join(_pieces(paragraph._p)))


def _pieces(element: Any) -> Iterator[str]:
    """Text of runs, tracked insertions, links and controls; deletions and fallback copies of shapes left out."""
    for child in element.iterchildren():
        if child.tag == qn("w:t"):
            yield child.text or ""
        elif child.tag in (qn("w:tab"), qn("w:br"), qn("w:cr")):
            yield " "
        elif child.tag not in (qn("w:pPr"), qn("w:del"), _FALLBACK):
            yield from _pieces(child)


def _numbering(paragraph: Paragraph) -> tuple[int, int] | None:
    """(numId, level) of the paragraph or of its style."""
    sources = [paragraph._p]
    style = paragraph.style
    if style is not None:
        sources.append(style.element)
    for source in sources:
        ids = source.xpath("./w:pPr/w:numPr/w:numId/@w:val")
        if ids:
            levels = source.xpath("./w:pPr/w:numPr/w:ilvl/@w:val")
            return int(ids[0]), int(levels[0]) if levels else 0
    return None


def _number_formats(document: Document) -> dict[tuple[int, int], str]:
    """(numId, level) → number format ("decimal", "bullet" …)."""
    try:
        root = document.part.numbering_part.element
    except (KeyError, NotImplementedError):
        return {}
    abstract = {item.get(_ABSTRACT_ID): _level_formats(item) for item in root.findall(qn("w:abstractNum"))}
    return {
        (int(item.get(qn("w:numId"))), level): name
        for item in root.findall(qn("w:num"))
        for level, name in abstract.get(item.find(_ABSTRACT_ID).get(qn("w:val")), {}).items()
    }


def _level_formats(abstract: Any) -> dict[int, str]:
    """Level → number format of one abstract numbering definition."""
    levels = ((level.get(qn("w:ilvl")), level.find(qn("w:numFmt"))) for level in abstract.findall(qn("w:lvl")))
    return {int(number): form.get(qn("w:val")) for number, form in levels if form is not None}


def _add_table(builder: DocumentBuilder, table: Table) -> None:
    """A table by its grid; one whose grid is inconsistent is read cell by cell, with a note."""
    try:
        builder.table(_grid(table))
    except (ValueError, IndexError):
        builder.tables += 1
        builder.note(
            f"표 {builder.tables}: 칸 구조가 어긋나 머리글 없이 읽었습니다. "
            "워드에서 표를 고쳐 다시 올리면 칸 이름이 붙습니다."
        )
        for number, row in enumerate(table._tbl.tr_lst, 1):
            cells = [_cell_text(cell) for cell in row.iterchildren(qn("w:tc"))]
            if any(cells):
                builder.row(row_text(None, cells), f"표 {builder.tables}의 {number}행")


def _grid(table: Table) -> list[list[str]]:
    """Cell texts; a cell merged sideways counts once, one merged downwards repeats in each row."""
    return [_row_cells([cell._tc for cell in row.cells]) for row in table.rows]


def _row_cells(cells: list[Any]) -> list[str]:
    return ["" if position and cell is cells[position - 1] else _cell_text(cell) for position, cell in enumerate(cells)]


def _cell_text(cell: Any) -> str:
    return clean(" ".join("".join(_pieces(paragraph)) for paragraph in cell.iter(qn("w:p"))))
