"""What a loader returns, whatever the format, and the builder that loaders fill in reading order.

``ParsedDocument`` ⊃ ``Section`` (heading path) ⊃ ``Block`` (paragraph, list item or table row).
Text is NFC, one line per block, without control characters. Nothing that was read is dropped: a heading
with nothing below it becomes a paragraph.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

BlockKind = Literal["paragraph", "list_item", "row"]

_SPACES = re.compile(r"\s+")
_VALUE = re.compile(r"[-+±]?[\d,]*\.?\d+\s*(%|℃|°C|[a-zA-Z/]{1,6})?")
_DATE_VALUE = re.compile(
    r"\d{2,4}\s*[-./년]\s*\d{1,2}(\s*[-./월]\s*\d{1,2}\s*[일.]?)?(\s*\d{1,2}:\d{2}(:\d{2})?)?|\d{1,2}:\d{2}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One paragraph, list item or table row; ``locator`` says where ("3쪽", "4행"), "" if the heading suffices."""

    kind: BlockKind
    text: str
    locator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under one heading path; the document title is not part of the path."""

    headings: tuple[str, ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A document as read. ``notes`` are Korean remarks for the person who uploaded it."""

    title: str
    format: str
    sections: tuple[Section, ...]
    pages: int | None = None
    tables: int = 0
    notes: tuple[str, ...] = ()
    author: str | None = None
    created: date | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in reading order."""
        return tuple(block for section in self.sections for block in section.blocks)

    @property
    def characters(self) -> int:
        """Length of the body: all block texts, without title and headings."""
        return sum(len(block.text) for block in self.blocks)

    @property
    def text(self) -> str:
        """Title, headings and blocks in reading order, one per line."""
        lines = [self.title]
        shown: tuple[str, ...] = ()
        for section in self.sections:
            lines += _new_headings(shown, section.headings)
            lines += [block.text for block in section.blocks]
            shown = section.headings
        return "\n".join(lines)


@dataclass(slots=True)
class DocumentBuilder:
    """Collects headings and blocks in reading order; ``build`` freezes them."""

    format: str
    title: str = ""
    author: str | None = None
    created: date | None = None
    pages: int | None = None
    tables: int = 0
    notes: list[str] = field(default_factory=list)
    _path: list[tuple[int, str]] = field(default_factory=list)
    _heading_locator: str = ""
    _sections: list[tuple[tuple[str, ...], list[Block]]] = field(default_factory=list)

    def heading(self, level: int, text: str, locator: str = "") -> None:
        """Open a section below the nearest heading of a smaller level."""
        text = clean(text)
        if not text:
            return
        self._keep_empty_heading(level)
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, text))
        self._heading_locator = locator
        self._sections.append((self._headings(), []))

    def paragraph(self, text: str, locator: str = "") -> None:
        """Add a paragraph."""
        self._add("paragraph", text, locator)

    def list_item(self, text: str, locator: str = "") -> None:
        """Add a list item; a visible number stays in the text, a bullet does not."""
        self._add("list_item", text, locator)

    def row(self, text: str, locator: str = "") -> None:
        """Add one table row that already reads "header: value, …"."""
        self._add("row", text, locator)

    def table(self, grid: Sequence[Sequence[str]], locator: str = "") -> None:
        """Add a table whose first row is its header; rows are counted as seen, header = row 1.

        Rows carry ``locator`` if given, else "표 2의 3행".
        """
        rows = [(number, [clean(cell) for cell in row]) for number, row in enumerate(grid, 1) if any(map(clean, row))]
        if not rows:
            return
        self.tables += 1
        header = rows[0][1] if len(rows) > 1 and is_header(rows[0][1]) else None
        for number, cells in rows[1:] if header else rows:
            self.row(row_text(header, cells), locator or f"표 {self.tables}의 {number}행")

    def note(self, text: str) -> None:
        """Add a remark for the uploader, once."""
        if text not in self.notes:
            self.notes.append(text)

    def build(self, fallback_title: str) -> ParsedDocument:
        """The frozen document; ``fallback_title`` serves when the content names none."""
        self._keep_empty_heading(0)
        sections = [Section(headings=path, blocks=tuple(blocks)) for path, blocks in self._sections if blocks]
        if not sections and clean(self.title):
            sections = [Section(headings=(), blocks=(Block(kind="paragraph", text=clean(self.title)),))]
        return ParsedDocument(
            title=clean(self.title) or clean(fallback_title),
            format=self.format,
            sections=tuple(sections),
            pages=self.pages,
            tables=self.tables,
            notes=tuple(self.notes),
            author=clean(self.author or "") or None,
            created=self.created,
        )

    def _headings(self) -> tuple[str, ...]:
        return tuple(text for _, text in self._path)

    def _add(self, kind: BlockKind, text: str, locator: str) -> None:
        text = clean(text)
        if not text:
            return
        if not self._sections:
            self._sections.append(((), []))
        self._sections[-1][1].append(Block(kind=kind, text=text, locator=locator))

    def _keep_empty_heading(self, next_level: int) -> None:
        """A heading with neither blocks nor a deeper heading would vanish: keep it as a paragraph of its parent."""
        if not self._path or self._sections[-1][1] or next_level > self._path[-1][0]:
            return
        path, _ = self._sections.pop()
        parent = path[:-1]
        if not self._sections or self._sections[-1][0] != parent:
            self._sections.append((parent, []))
        self._sections[-1][1].append(Block(kind="paragraph", text=path[-1], locator=self._heading_locator))


def clean(text: str) -> str:
    """NFC on one line: white space collapsed, control, zero-width and symbol-font characters removed."""
    text = _SPACES.sub(" ", unicodedata.normalize("NFC", text))
    return "".join(char for char in text if not _is_noise(char)).strip()


def row_text(header: Sequence[str] | None, cells: Sequence[str]) -> str:
    """ "동: 1동, 급액 EC: 2.4"; without a header "이름: 값" for two cells, else the cells. Empty cells are left out."""
    if header is not None:
        names = [*header, *[""] * (len(cells) - len(header))]
        return ", ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell)
    filled = [cell for cell in cells if cell]
    return ": ".join(filled) if len(filled) == 2 else ", ".join(filled)


def is_header(cells: Sequence[str]) -> bool:
    """At least two filled cells, all of them names ("1동" is one), or a name and then a run of days, years or dates."""
    filled = [cell for cell in cells if cell]
    values = [cell for cell in filled if is_value(cell)]
    if len(filled) < 2 or not values:
        return len(filled) >= 2
    return not is_value(filled[0]) and len(values) > 1 and (_is_run(values) or all(map(_DATE_VALUE.fullmatch, values)))


def _is_run(values: Sequence[str]) -> bool:
    """Consecutive whole numbers, as in a header of days or years."""
    if not all(value.isdecimal() for value in values):
        return False
    return [int(value) - int(values[0]) for value in values] == list(range(len(values)))


def is_value(cell: str) -> bool:
    """Whether the cell reads as a number (with a unit) or a date rather than as a name."""
    return bool(_VALUE.fullmatch(cell) or _DATE_VALUE.fullmatch(cell))


def _is_noise(char: str) -> bool:
    return "\uf000" <= char <= "\uf0ff" or unicodedata.category(char) in ("Cc", "Cf", "Cs")


def _new_headings(shown: tuple[str, ...], headings: tuple[str, ...]) -> tuple[str, ...]:
    """The part of a heading path that was not printed for the section before."""
    common = 0
    while common < min(len(shown), len(headings)) and shown[common] == headings[common]:
        common += 1
    return headings[common:]
