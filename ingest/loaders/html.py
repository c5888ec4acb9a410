"""HTML: a saved page, or the "Excel" export of many Korean systems (a table in EUC-KR named .xls).

Only text is read. Scripts, styles, frames and what the page hides are left out and told in a note; nothing of a page
is run or fetched.
"""

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from lxml import html  # type: ignore[import-untyped]

from ingest.loaders.text import add_line, decode, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean

_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_ACTIVE = frozenset({"script", "iframe", "object", "embed", "applet"})
_SILENT = frozenset({"style", "template", "noscript", "head", "svg", "select", "textarea"}) | _ACTIVE
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|big|button|cite|code|del|dfn|em|font|i|img|input|ins|kbd|label|mark|q|s|samp|small|span|strike|"
    "strong|sub|sup|time|tt|u|var|wbr"
)
_ASCII_COMPATIBLE = re.compile(
    r"utf-8|utf8|cp949|euc-kr|euc_kr|ks_c_5601.*|iso-8859.*|windows-125.|ascii", re.IGNORECASE
)
_MAX_COLUMNS = 200  # wider ones are a mistake or an attack; their cells still count one by one
_MAX_SPAN = 1000


def load_html(data: bytes, name: str) -> ParsedDocument:
    """A HTML page."""
    builder = DocumentBuilder(format="html")
    text = _decoded(builder, data)
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, huge_tree=True)
    root = html.document_fromstring(text.encode(), parser=parser)
    builder.author = _meta(root, "author")
    title = clean(root.findtext(".//title") or "")
    if next(root.iter(*_ACTIVE), None) is not None:
        builder.note("웹 문서의 스크립트와 끼워 넣은 개체는 읽지도 실행하지도 않았습니다.")
    body = root.find("body")
    page = DocumentBuilder(format="html", author=builder.author, notes=list(builder.notes))
    try:
        if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
            raise RecursionError("the parser stopped at nested tags")
        _Reader(page).read(body if body is not None else root)
    except RecursionError:
        page = builder
        page.note("태그가 너무 깊이 겹쳐 있어 구조 없이 글만 읽었습니다.")
        _Flat(page).read(text)
    return page.build(title or stem_title(name))


class _Flat(HTMLParser):
    """The text of a page line by line, for pages whose tags nest too deep for a tree."""

    def __init__(self, builder: DocumentBuilder) -> None:
        super().__init__()
        self._builder = builder
        self._pieces: list[str] = []
        self._silent = 0

    def read(self, text: str) -> None:
        self.feed(text)
        self.close()
        for line in "".join(self._pieces).split("\n"):
            add_line(self._builder, clean(line))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        self._pieces.append("" if _INLINE.fullmatch(tag) else "\n")

    def handle_endtag(self, tag: str) -> None:
        self._silent = max(0, self._silent - (tag in _SILENT))
        self._pieces.append("" if _INLINE.fullmatch(tag) else "\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._pieces.append(re.sub(r"\s", " ", data))


def _decoded(builder: DocumentBuilder, data: bytes) -> str:
    """By the page's own word where it holds, else by the ladder of all text files. NUL would end the parse."""
    declared = _CHARSET.search(data[:2048])
    if declared and _ASCII_COMPATIBLE.fullmatch(encoding := declared[1].decode("ascii")):
        encoding = "cp949" if encoding.lower().startswith(("euc", "ks_c")) else encoding
        try:
            return data.removeprefix(codecs.BOM_UTF8).decode(encoding).replace("\x00", " ")
        except (UnicodeDecodeError, LookupError):
            pass
    decoded = decode(data)
    for note in decoded.notes:
        builder.note(note)
    return decoded.text.replace("\x00", " ") or " "


def _meta(root: Any, name: str) -> str | None:
    for meta in root.iter("meta"):
        if (meta.get("name") or "").lower() == name:
            return str(meta.get("content") or "") or None
    return None


class _Reader:
    """Walks a page in reading order; inline text gathers until a block begins or ends."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._pending: list[str] = []
        self._item: str | None = None

    def read(self, element: Any) -> None:
        self._block(element)
        self._flush()

    def _block(self, element: Any) -> None:
        self._pending.append(element.text or "")
        for number, child in enumerate(element, 1):
            self._child(child, element, number)
            self._pending.append(child.tail or "")

    def _child(self, child: Any, parent: Any, number: int) -> None:
        tag = child.tag
        if not isinstance(tag, str) or tag in _SILENT:
            return
        if _is_hidden(child):
            self._builder.note("화면에 보이지 않게 한 글은 읽지 않았습니다.")
        elif tag == "br":
            self._flush()
        elif _INLINE.fullmatch(tag) and not _holds_blocks(child):
            self._pending.append(_inline_text(child))
        elif re.fullmatch("h[1-6]", tag):
            self._flush()
            self._heading(int(tag[1]), _inline_text(child))
        elif tag == "table" and not child.xpath(".//table"):
            self._flush()
            self._builder.table(_grid(child))
        elif tag == "li":
            self._flush()
            self._item = f"{number}. " if parent.tag == "ol" else ""
            self._block(child)
            self._flush()
        elif tag == "pre":
            self._flush()
            for line in _inline_text(child).split("\n"):
                self._builder.paragraph(line)
        else:
            self._flush()
            self._block(child)
            self._flush()

    def _heading(self, level: int, text: str) -> None:
        if level == 1 and not self._builder.title:
            self._builder.title = text
        else:
            self._builder.heading(level, text)

    def _flush(self) -> None:
        text = clean("".join(self._pending))
        self._pending.clear()
        if not text:
            return
        if self._item is not None:
            self._builder.list_item(self._item + text)
            self._item = None
        else:
            add_line(self._builder, text)


def _is_hidden(element: Any) -> bool:
    return element.get("hidden") is not None or bool(_HIDDEN_STYLE.search(element.get("style") or ""))


def _holds_blocks(element: Any) -> bool:
    tags = (child.tag for child in element.iterdescendants() if isinstance(child.tag, str))
    return any(tag not in _SILENT and not _INLINE.fullmatch(tag) for tag in tags)


def _inline_text(element: Any) -> str:
    return "".join(_pieces(element))


def _pieces(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _SILENT and not _is_hidden(child):
            blocks = not _INLINE.fullmatch(child.tag)
            yield " " if blocks else ""
            yield from _pieces(child)
            yield " " if blocks else ""
        yield child.tail or ""


def _grid(table: Any) -> list[list[str]]:
    """Cell texts; a cell that spans rows repeats in each of them, one that spans columns stands in the first."""
    grid: list[list[str]] = []
    below: dict[int, tuple[int, str]] = {}
    for row in table.iter("tr"):
        cells: list[str] = []
        for cell in row.iterchildren("td", "th"):
            _fill_from_above(cells, below)
            text, columns, rows = clean(_inline_text(cell)), _span(cell, "colspan"), _span(cell, "rowspan")
            columns = max(1, min(columns, _MAX_COLUMNS - len(cells)))
            for offset in range(columns):
                if rows > 1:
                    below[len(cells)] = (rows - 1, "" if offset else text)
                cells.append("" if offset else text)
        _fill_from_above(cells, below)
        grid.append(cells)
    return grid


def _fill_from_above(cells: list[str], below: dict[int, tuple[int, str]]) -> None:
    while len(cells) in below and len(cells) < _MAX_COLUMNS:
        rows, text = below.pop(len(cells))
        if rows > 1:
            below[len(cells)] = (rows - 1, text)
        cells.append(text)


def _span(cell: Any, name: str) -> int:
    value = cell.get(name) or "1"
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() else 1
