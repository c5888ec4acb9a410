"""Word documents through python-docx: heading styles, lists with their visible numbers, tables, notes, properties.

Footnotes and text boxes follow the paragraph or table that holds them; headers and footers come last, as a section
of their own. Own walks replace two python-docx conveniences that lose text: ``Paragraph.text`` skips tracked insertions and
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
from lxml import etree  # type: ignore[import-untyped]

from ingest.loaders.text import add_line, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean, row_text

_HEADING_STYLE = re.compile(r"(?:heading|제목)\s*(\d)", re.IGNORECASE)
_TITLE_STYLE = re.compile(r"title|제목|표제", re.IGNORECASE)
_LIST_STYLE = re.compile(r"list|목록|글머리", re.IGNORECASE)
_TEMPLATE_AUTHOR = "python-docx"
_DECIMAL = "decimal"
_ABSTRACT_ID = qn("w:abstractNumId")
_TEXT_BOX = qn("w:txbxContent")
_NOTES = {"footnote": "각주", "endnote": "미주"}
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"


def load_docx(data: bytes, name: str) -> ParsedDocument:
    """A Word document (DOCX)."""
    document = docx.Document(io.BytesIO(data))
    builder = DocumentBuilder(format="docx")
    _take_properties(builder, document)
    blocks = list(_blocks(document))
    heading_title = "" if _titled(blocks) else _only_top_heading(blocks)
    numbers = _Numbers(document)
    notes = _Notes(document)
    for block in blocks:
        if isinstance(block, Table):
            _add_table(builder, block)
            element = block._tbl
        else:
            _add_paragraph(builder, block, heading_title, numbers)
            element = block._p
        _add_text_boxes(builder, element)
        for text in notes.of(element):
            builder.paragraph(text)
    _add_edges(builder, document)
    _note_pictures(builder, document)
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


class _Notes:
    """Footnotes and endnotes, numbered as they are met."""

    def __init__(self, document: Document) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()
        for relation in document.part.rels.values():
            kind = relation.reltype.rpartition("/")[2].removesuffix("s")
            if kind in _NOTES and not relation.is_external:
                self._read(kind, relation.target_part.blob)

    def _read(self, kind: str, data: bytes) -> None:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
        for note in root.iter(qn(f"w:{kind}")):
            self._texts[kind, note.get(qn("w:id"))] = _cell_text(note)

    def of(self, element: Any) -> Iterator[str]:
        """ "각주 1: …" for each reference below ``element``."""
        for kind, name in _NOTES.items():
            for reference in element.iter(qn(f"w:{kind}Reference")):
                text = self._texts.get((kind, reference.get(qn("w:id"))))
                if text:
                    self._counts[kind] += 1
                    yield f"{name} {self._counts[kind]}: {text}"


def _add_text_boxes(builder: DocumentBuilder, element: Any) -> None:
    """Paragraphs of the shapes that are anchored in ``element``; a fallback copy of a shape is left out."""
    for box in element.iter(_TEXT_BOX):
        if not any(ancestor.tag == _FALLBACK for ancestor in box.iterancestors()):
            for paragraph in box.iter(qn("w:p")):
                add_line(builder, clean("".join(_pieces(paragraph))))


def _add_edges(builder: DocumentBuilder, document: Document) -> None:
    """Headers and footers, each text once; page numbers are none."""
    edges = [
        edge for part in document.sections for edge in (part.header, part.footer) if not edge.is_linked_to_previous
    ]
    texts = dict.fromkeys(
        clean("".join(_pieces(paragraph))) for edge in edges for paragraph in edge._element.iter(qn("w:p"))
    )
    shown = [text for text in texts if any(char.isalpha() for char in text)]
    if shown:
        builder.heading(1, "머리글과 바닥글")
    for text in shown:
        builder.paragraph(text)


def _note_pictures(builder: DocumentBuilder, document: Document) -> None:
    pictures = sum(1 for _ in document.element.body.iter("{*}blip", "{*}imagedata"))
    if pictures:
        builder.note(f"그림 {pictures}개 속의 글자는 읽지 않았습니다.")


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
    """Text of runs, tracked insertions, links and controls; deletions, text boxes and fallback copies left out."""
    for child in element.iterchildren():
        if child.tag == qn("w:t"):
            yield child.text or ""
        elif child.tag in (qn("w:tab"), qn("w:br"), qn("w:cr")):
            yield " "
        elif child.tag not in (qn("w:pPr"), qn("w:del"), _TEXT_BOX, _FALLBACK):
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
        grid = _grid(table)
        if len({len(row) for row in grid}) > 1 or any(
            row.grid_cols_before or row.grid_cols_after for row in table.rows
        ):
            builder.note(
                f"표 {builder.tables + 1}: 줄마다 칸 수가 다릅니다. 칸 이름이 어긋나 보이면 원본을 확인해 주세요."
            )
        builder.table(grid)
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
    return [[""] * row.grid_cols_before + _row_cells([cell._tc for cell in row.cells]) for row in table.rows]


def _row_cells(cells: list[Any]) -> list[str]:
    return ["" if position and cell is cells[position - 1] else _cell_text(cell) for position, cell in enumerate(cells)]


def _cell_text(cell: Any) -> str:
    return clean(" ".join("".join(_pieces(paragraph)) for paragraph in cell.iter(qn("w:p"))))
