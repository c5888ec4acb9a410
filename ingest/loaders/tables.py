"""CSV, TSV and Excel sheets (XLSX, XLS): every data row becomes one block "동: 1동, 급액 EC(dS/m): 2.4".

A sheet is cut at blank rows. In each part the header is the first row that is as wide as the data and holds
no number or date; lines above it (titles, "단위: …") become paragraphs. A part without a header of its own
goes on under the header before it.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from statistics import median

from python_calamine import CalamineSheet, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from ingest.loaders.properties import Properties, ole_properties, package_properties
from ingest.loaders.text import decode, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean, is_header, is_value, row_text
from rag.errors import IngestError

Cell = int | float | str | bool | time | date | datetime | timedelta
_DEFAULT_SHEET = re.compile(r"(sheet|시트)\s*\d*", re.IGNORECASE)
_FULL_DATE = re.compile(r"(\d{4})\s*[-./년]\s*(\d{1,2})\s*[-./월]\s*(\d{1,2})\s*[.일]?")
_REMARK = re.compile(r"[※*]|주\)|비고|참고")
_MAX_TITLE = 60
_MAX_LINES_IN_CELL = 50
_MAX_CELLS = 5_000_000
csv.field_size_limit(2**31 - 1)  # a long cell, or a quote that is never closed, is no damage
_REFERENCE = re.compile(rb'<(?:\w+:)?c\b[^>]{0,80}?\br="([A-Z]{1,3})(\d{1,7})"')
_REFERENCE_LENGTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that is not blank: ``number`` is 1-based as a spreadsheet shows it."""

    number: int
    cells: tuple[str, ...]

    @property
    def filled(self) -> tuple[str, ...]:
        """The cells that hold something."""
        return tuple(cell for cell in self.cells if cell)


# --- the three formats ------------------------------------------------------------------------------------


def load_csv(data: bytes, name: str) -> ParsedDocument:
    """Comma-separated values (or whatever delimiter the file uses)."""
    return _load_delimited(data, name, "csv", ",")


def load_tsv(data: bytes, name: str) -> ParsedDocument:
    """Tab-separated values."""
    return _load_delimited(data, name, "tsv", "\t")


def load_xlsx(data: bytes, name: str) -> ParsedDocument:
    """An Excel workbook: one section per visible sheet, merged cells filled downwards."""
    _check_extent(data, name)
    return _load_workbook(data, name, "xlsx", package_properties(data, "docProps/core.xml", "creator", "created"))


def load_xls(data: bytes, name: str) -> ParsedDocument:
    """An Excel 97-2003 workbook."""
    return _load_workbook(data, name, "xls", ole_properties(data))


def _load_workbook(data: bytes, name: str, kind: str, properties: Properties) -> ParsedDocument:
    builder = DocumentBuilder(format=kind, author=properties.author, created=properties.created)
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(data)) as book:
            _read_sheets(builder, book, name)
    except PasswordError as error:
        raise IngestError(f"'{name}': 암호가 걸린 엑셀 파일입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.") from error
    return builder.build(stem_title(name))


def _load_delimited(data: bytes, name: str, kind: str, delimiter: str) -> ParsedDocument:
    decoded = decode(data)
    builder = DocumentBuilder(format=kind, notes=list(decoded.notes))
    grid = read_delimited(decoded.text, delimiter, builder)
    add_sheet(builder, [[_text_value(cell) for cell in row] for row in grid], "")
    return builder.build(stem_title(name))


def read_delimited(text: str, delimiter: str, builder: DocumentBuilder) -> list[list[str]]:
    """Rows of delimited text; an unclosed quote that would swallow the rest is read literally."""
    delimiter = _delimiter(text, delimiter)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    if any(cell.count("\n") > _MAX_LINES_IN_CELL for row in rows for cell in row):
        builder.note("닫히지 않은 큰따옴표가 있어 따옴표를 글자 그대로 읽었습니다. 원본의 따옴표를 확인해 주세요.")
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return rows


def _delimiter(text: str, usual: str) -> str:
    """The usual delimiter if most lines hold it, else what ``csv.Sniffer`` finds, else the usual one."""
    lines = [line for line in text.split("\n")[:200] if line.strip()]
    if 2 * sum(usual in line for line in lines) >= len(lines):
        return usual
    try:
        return csv.Sniffer().sniff("\n".join(lines), delimiters=",;\t|").delimiter
    except csv.Error:
        return usual


def _check_extent(data: bytes, name: str) -> None:
    """The reader holds a sheet as a full rectangle: two cells in opposite corners would take all memory."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for part in archive.namelist():
            if re.fullmatch(r"xl/worksheets/[^/]+\.xml", part):
                _check_area(name, part, *_corner(archive, part))


def _corner(archive: zipfile.ZipFile, part: str) -> tuple[int, int]:
    """Last row and last column that a sheet names, read in pieces; cells without a reference do not count."""
    rows = columns = 0
    rest = b""
    with archive.open(part) as stream:
        while block := stream.read(1 << 20):
            rest += block
            for letters, digits in _REFERENCE.findall(rest):
                rows, columns = max(rows, int(digits)), max(columns, _column_number(letters))
            rest = rest[-_REFERENCE_LENGTH:]
    return rows, columns


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _check_area(name: str, sheet: str, rows: int, columns: int) -> None:
    if rows * columns > _MAX_CELLS:
        raise IngestError(
            f"'{name}': 시트 '{sheet.rpartition('/')[2]}'의 칸이 너무 넓게 흩어져 있습니다({rows:,}행 × {columns:,}열). "
            "멀리 떨어진 칸을 지우거나 필요한 표만 새 파일로 옮겨 올려 주세요."
        )


def _read_sheets(builder: DocumentBuilder, book: CalamineWorkbook, file_name: str) -> None:
    sheets = [meta for meta in book.sheets_metadata if meta.typ == SheetTypeEnum.WorkSheet]
    visible = [meta.name for meta in sheets if meta.visible == SheetVisibleEnum.Visible]
    for meta in sheets:
        if meta.visible != SheetVisibleEnum.Visible:
            builder.note(f"숨긴 시트 '{meta.name}'는 읽지 않았습니다. 필요하면 숨기기를 취소하고 다시 올려 주세요.")
    for name in visible:
        if len(visible) > 1 or not _DEFAULT_SHEET.fullmatch(name.strip()):
            builder.heading(1, name)
        sheet = book.get_sheet_by_name(name)
        _check_area(file_name, name, sheet.total_height, sheet.total_width)
        add_sheet(builder, _sheet_grid(sheet), name, takes_title=name == visible[0])


def _sheet_grid(sheet: CalamineSheet) -> list[list[str]]:
    """All cells as text, from A1 on so that row numbers are Excel's."""
    if sheet.start is None:
        return []
    grid = [[cell_text(cell) for cell in row] for row in sheet.to_python(skip_empty_area=False)]
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or []:
        if left == right and bottom < len(grid):
            _fill_down(grid, top, bottom, left)
    return grid


def _fill_down(grid: list[list[str]], top: int, bottom: int, column: int) -> None:
    for row in grid[top + 1 : bottom + 1]:
        if column < len(row):
            row[column] = row[column] or grid[top][column]


# --- cell values ------------------------------------------------------------------------------------------


def cell_text(value: Cell) -> str:
    """A cell as a person reads it: dates ISO, whole floats without ".0"."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
    if isinstance(value, time):
        return value.isoformat("minutes")
    if isinstance(value, timedelta):
        return _duration(value)
    return value.isoformat() if isinstance(value, date) else _text_value(str(value))


def _number(value: float) -> str:
    """At most 12 significant digits, so that 24.499999999999996 reads 24.5."""
    return str(int(value)) if value.is_integer() else f"{value:.12g}"


def _duration(value: timedelta) -> str:
    minutes = round(value.total_seconds() / 60)
    return f"{minutes // 60}:{minutes % 60:02d}"


def _text_value(text: str) -> str:
    text = clean(text)
    match = _FULL_DATE.fullmatch(text)
    if not match:
        return text
    try:
        return date(*(int(part) for part in match.groups())).isoformat()
    except ValueError:
        return text


# --- rows → blocks ----------------------------------------------------------------------------------------


def add_sheet(builder: DocumentBuilder, grid: Sequence[Sequence[str]], sheet: str, *, takes_title: bool = True) -> None:
    """Add one sheet's rows below the current heading; ``sheet`` = "" for files with a single unnamed one."""
    header: tuple[str, ...] | None = None
    seen: list[Row] = []
    for part in _parts(grid):
        found = _header_index(part)
        if found is not None and not (header is not None and _fits(seen, part[found])):
            _add_rows(builder, None, _take_title(builder, part[:found], takes_title), sheet)
            header, part, seen = *_split_header(part, found), []
            builder.tables += 1
        elif header is None:
            part = _take_title(builder, part, takes_title)
        _add_rows(builder, header, part, sheet)
        seen += [row for row in part if len(row.filled) > 1]


def _take_title(builder: DocumentBuilder, rows: list[Row], allowed: bool) -> list[Row]:
    """Make a leading single cell the document title if it looks like one; return the rows that remain."""
    if allowed and not builder.title and rows and len(rows[0].filled) == 1 and _is_title(rows[0].filled[0]):
        builder.title = rows[0].filled[0]
        return rows[1:]
    return rows


def _split_header(part: list[Row], index: int) -> tuple[tuple[str, ...], list[Row]]:
    """Header names and data rows; a second header line below a grouped one ("급액" over "EC", "pH") is joined."""
    top, rows = part[index], part[index + 1 :]
    if len(rows) > 1 and _is_second_header(top, rows[0]):
        return _join_headers(top.cells, rows[0].cells), rows[1:]
    return top.cells, rows


def _is_second_header(top: Row, below: Row) -> bool:
    """Names under every gap of the first line, and no value: then the first line only groups them."""
    first = next(column for column, cell in enumerate(top.cells) if cell)
    gaps = [column for column in range(first, len(top.cells)) if not top.cells[column] and _at(below, column)]
    return bool(gaps) and is_header(below.cells) and not any(map(is_value, below.filled))


def _join_headers(top: Sequence[str], below: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    group = ""
    for upper, lower in zip(top, below, strict=False):
        group = upper or group
        names.append(group if lower in ("", group) else f"{group} {lower}".strip())
    return tuple(names)


def _at(row: Row, column: int) -> str:
    return row.cells[column] if column < len(row.cells) else ""


def _parts(grid: Sequence[Sequence[str]]) -> Iterator[list[Row]]:
    """Runs of rows between blank ones."""
    part: list[Row] = []
    for number, cells in enumerate(grid, 1):
        if any(cells):
            part.append(Row(number=number, cells=tuple(cells)))
        elif part:
            yield part
            part = []
    if part:
        yield part


def _header_index(part: Sequence[Row]) -> int | None:
    """Index of the header row: wide enough, names only, and something below it."""
    wide = [len(row.filled) for row in part if len(row.filled) > 1]
    if not wide:
        return None
    needed = max(2.0, 0.5 * median(wide))
    for index, row in enumerate(part[:-1]):
        if len(row.filled) >= needed:
            return index if is_header(row.cells) else None
    return None


def _fits(seen: Sequence[Row], row: Row) -> bool:
    """Whether ``row`` reads as one more data row: numbers where the rows before mostly had numbers."""
    if not seen:
        return False
    width = max(len(item.cells) for item in seen)
    columns = [column for column in range(width) if 2 * sum(is_value(_at(item, column)) for item in seen) > len(seen)]
    return all(is_value(_at(row, column)) for column in columns if _at(row, column))


def _is_title(text: str) -> bool:
    if text.endswith((".", "다")) or ":" in text or _REMARK.match(text):
        return False
    return 2 < len(text) <= _MAX_TITLE


def _add_rows(builder: DocumentBuilder, header: Sequence[str] | None, rows: Sequence[Row], sheet: str) -> None:
    for row in rows:
        place = locator(sheet, row.number)
        if len(row.filled) == 1 and (header is None or _REMARK.match(row.filled[0])):
            builder.paragraph(row.filled[0], place)
        else:
            builder.row(row_text(header, row.cells), place)


def locator(sheet: str, number: int) -> str:
    """ "시트 '급액' 4행", or "4행" where there are no sheets."""
    return f"시트 '{sheet}' {number}행" if sheet else f"{number}행"
