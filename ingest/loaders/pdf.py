"""PDF through pypdfium2: characters with their size and place → lines → headings and paragraphs.

A line goes on in the next one when that one's first word did not fit any more and no sentence ended.
PDF keeps no space at a line end, so whether the break fell inside a word is judged for the whole document
(``breaks_words``) and then, for each break, by particles and endings (``join``).
"""

import io
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from itertools import chain, groupby, pairwise
from statistics import median

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from ingest.loaders.pdf_tables import Grid, find_grids, is_table
from ingest.loaders.text import BULLET, NUMBERED, add_line, heading_level, heading_style, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean
from rag.errors import IngestError

_PDFIUM = threading.Lock()  # the library is not thread-safe
_WRONG_PASSWORD = 4
_MAX_HEADING = 60
_HEADING_RATIO = 1.15
_LEAST_FILLED = 0.6
_PARAGRAPH_GAP = 1.9
_REPEATED = 0.6
_MIN_WRAPPED = 15
_ORPHAN_SHARE = 0.05
_MAX_UNREADABLE = 0.3
_LEAST_PICTURE = 0.1

_PAGE_NUMBER = re.compile(
    r"[-–—]?\s*(?:p\.?\s*|page\s*)?\d{1,4}(?:\s*(?:/|of)\s*\d{1,4})?\s*(?:쪽|페이지)?\s*[-–—]?", re.IGNORECASE
)
_STOP = re.compile(r"[.?!。…][\"'”’)\]]*$")
_NO_TITLE = re.compile(r"^(?:\(|untitled|제목 없음|microsoft )|\.\w{2,4}$", re.IGNORECASE)
_MARK = re.compile(r"^[■□◆◇▣▶◎]\s*")
_STARTS_ANEW = re.compile(rf"{BULLET.pattern}|{NUMBERED.pattern}|[■□◆◇▣▶◎※•·\[{{}}]|[가-힣A-Za-z ]{{1,10}}\s?[:：]\s")
_NO_HEADLINE = re.compile(rf"{BULLET.pattern}|[※•·({{}}]")
# A line starting like this was broken inside a word: nobody writes these apart.
_ORPHAN = re.compile(r"(?:[은는을를가의와과다]|에서|에는|으로|까지|부터|이다|니다|습니다)(?=[\s.,)]|$)")
# A line ending like this ended a word: particles and connective endings after at least one syllable.
_WORD_END = re.compile(
    r"[가-힣](?:[은는을를의에고며]|에서|으로|까지|부터|보다|하여|해서|거나|면서)$|[가-힣]{2,}[이가]$|[^가-힣]$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a page in points; ``top`` grows downwards. A ruled table is one line with its ``rows``."""

    text: str
    page: int
    size: float
    left: float
    right: float
    top: float
    rows: tuple[tuple[str, ...], ...] = ()


def load_pdf(data: bytes, name: str) -> ParsedDocument:
    """A PDF with a text layer."""
    builder = DocumentBuilder(format="pdf")
    pages, info = _read(builder, data, name)
    builder.pages = len(pages)
    _check_text_layer(builder, pages, name)
    _take_info(builder, info)
    lines = _body_lines(pages)
    title = _title_lines(lines)
    if title:
        builder.title = " ".join(line.text for line in title)
    _add_lines(builder, [line for line in lines if line not in title])
    return builder.build(_info_title(info) or stem_title(name))


def check_pages(data: bytes, name: str, limit: int) -> None:
    """Count the pages before any is read.

    Raises:
        IngestError: more than ``limit``, or a password is needed.
    """
    with _PDFIUM:
        document = _open(data, name)
        count = len(document)
        document.close()
    if count > limit:
        raise IngestError(
            f"'{name}': 쪽이 너무 많습니다({count:,}쪽, 한도 {limit:,}쪽). "
            "나누어 올리거나 설정 ingest_limit_pages 를 올려 주세요."
        )


# --- reading ----------------------------------------------------------------------------------------------


def _read(builder: DocumentBuilder, data: bytes, name: str) -> tuple[list[list[Line]], dict[str, str]]:
    with _PDFIUM:
        document = _open(data, name)
        try:
            _note_state(builder, document)
            pages: list[list[Line]] = []
            pictures = 0
            for index in range(len(document)):
                page = document[index]
                lines = _page_lines(page, index + 1)
                pictures += _pictures(page) if lines else 0
                page.close()
                pages.append(lines)
            if pictures:
                builder.note(f"그림 {pictures}개 속의 글자는 읽지 않았습니다.")
            return pages, document.get_metadata_dict()
        finally:
            document.close()


def _open(data: bytes, name: str) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(io.BytesIO(data))
    except pdfium.PdfiumError as error:
        if error.err_code == _WRONG_PASSWORD:
            raise IngestError(f"'{name}': 암호가 걸린 PDF입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.") from error
        raise


def _note_state(builder: DocumentBuilder, document: pdfium.PdfDocument) -> None:
    if raw.FPDF_GetSecurityHandlerRevision(document) >= 0:
        builder.note("복사나 인쇄가 제한된 PDF입니다. 암호 없이 열려 내용을 읽었습니다.")
    if not raw.FPDF_DocumentHasValidCrossReferenceTable(document):
        builder.note("PDF의 차례표가 깨져 있어 고쳐 읽었습니다. 빠진 내용이 있을 수 있으니 원본과 견주어 주세요.")


def _pictures(page: pdfium.PdfPage) -> int:
    """Pictures large enough to hold text that somebody would look for."""
    width, height = page.get_size()
    boxes = (item.get_bounds() for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3))
    return sum((box[2] - box[0]) * (box[3] - box[1]) >= _LEAST_PICTURE * width * height for box in boxes)


def _page_lines(page: pdfium.PdfPage, number: int) -> list[Line]:
    """Lines of one page in the order of the text layer, which is the reading order of nearly all producers."""
    height = page.get_height()
    textpage = page.get_textpage()
    tables = _page_tables(page, textpage)
    inside = {index: table for table in tables for index in table.indices}
    lines: list[Line] = []
    for run in _runs(textpage):
        lines += [_table_line(textpage, table, number, height) for table in tables if table.indices[0] in run]
        outside = [index for index in run if index not in inside]
        lines += [_line(textpage, outside, number, height)] if outside else []
    textpage.close()
    return [line for line in lines if line.text]


def _runs(textpage: pdfium.PdfTextPage) -> Iterator[list[int]]:
    """Character indices of each line."""
    indices = range(textpage.count_chars())
    for is_break, run in groupby(indices, key=lambda index: raw.FPDFText_GetUnicode(textpage, index) in (10, 13)):
        if not is_break:
            yield list(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A ruled table and the characters it holds, in their order."""

    rows: tuple[tuple[str, ...], ...]
    indices: tuple[int, ...]


def _page_tables(page: pdfium.PdfPage, textpage: pdfium.PdfTextPage) -> list[_Table]:
    tables = [_fill(grid, textpage) for grid in find_grids(page)]
    return [table for table in tables if is_table(table.rows)]


def _fill(grid: Grid, textpage: pdfium.PdfTextPage) -> _Table:
    """The characters of a grid, cell by cell; a line break inside a cell joins like one in a paragraph."""
    cells: dict[tuple[int, int], list[str]] = {}
    indices: list[int] = []
    for run in _runs(textpage):
        places = {index: _place(grid, textpage, index) for index in run}
        for cell, group in groupby((index for index in run if places[index]), key=places.__getitem__):
            members = list(group)
            indices += members
            if cell is not None:
                cells.setdefault(cell, []).append(clean("".join(_character(textpage, index) for index in members)))
    texts = {cell: reduce(join, (part for part in parts if part), "") for cell, parts in cells.items()}
    return _Table(rows=grid.table(texts), indices=tuple(indices))


def _place(grid: Grid, textpage: pdfium.PdfTextPage, index: int) -> tuple[int, int] | None:
    left, bottom, right, top = textpage.get_charbox(index)
    return grid.cell((left + right) / 2, (bottom + top) / 2)


def _table_line(textpage: pdfium.PdfTextPage, table: _Table, page: int, height: float) -> Line:
    line = _line(textpage, table.indices, page, height)
    return replace(line, text=" ".join(filter(None, chain.from_iterable(table.rows))), rows=table.rows)


def _line(textpage: pdfium.PdfTextPage, run: Sequence[int], page: int, height: float) -> Line:
    text = clean("".join(_character(textpage, index) for index in run))
    visible = [index for index in run if _character(textpage, index).strip()] or list(run)
    samples = (visible[0], visible[len(visible) // 2], visible[-1])
    boxes = [textpage.get_charbox(index, loose=True) for index in samples]
    return Line(
        text=text,
        page=page,
        size=round(median(_size(textpage, index) for index in samples), 1),
        left=min(box[0] for box in boxes),
        right=max(box[2] for box in boxes),
        top=height - boxes[0][1],
    )


def _size(textpage: pdfium.PdfTextPage, index: int) -> float:
    """Font size as shown: many producers write size 1 and scale by the text matrix."""
    matrix = raw.FS_MATRIX()
    size = float(raw.FPDFText_GetFontSize(textpage, index))
    if not raw.FPDFText_GetMatrix(textpage, index, matrix):
        return size
    return size * math.hypot(float(matrix.c), float(matrix.d))


def _character(textpage: pdfium.PdfTextPage, index: int) -> str:
    """The character; NUL and other codes without a glyph name stand for spaces in some producers' fonts."""
    code = raw.FPDFText_GetUnicode(textpage, index)
    if raw.FPDFText_IsHyphen(textpage, index) == 1:
        return "-"
    return " " if code < 32 or code in (0xFFFE, 0xFFFF) else chr(code)


def _check_text_layer(builder: DocumentBuilder, pages: Sequence[Sequence[Line]], name: str) -> None:
    """Refuse a document without readable characters; tell which pages of a mixed one are scans."""
    text = "".join(line.text for page in pages for line in page)
    if not text:
        raise IngestError(
            f"'{name}': 스캔 문서: 글자층 없음({len(pages)}쪽). 글자 인식(OCR)을 거친 PDF나 원본 파일을 올려 주세요."
        )
    unreadable = sum(char == "\ufffd" or "\ue000" <= char <= "\uf8ff" for char in text)
    if unreadable > _MAX_UNREADABLE * len(text):
        raise IngestError(
            f"'{name}': 글자층이 깨져 있습니다(읽을 수 없는 글자 {unreadable}개). "
            "원본 파일로 PDF를 다시 만들어 올려 주세요."
        )
    empty = [str(number) for number, page in enumerate(pages, 1) if not page]
    if empty:
        builder.note(f"글자층이 없는 쪽(그림 또는 빈 쪽): {', '.join(empty)}쪽. 그 쪽의 내용은 찾을 수 없습니다.")


def _take_info(builder: DocumentBuilder, info: dict[str, str]) -> None:
    author = info.get("Author", "")
    builder.author = None if "anonymous" in author or "unspecified" in author else author
    found = re.match(r"D:(\d{4})(\d{2})(\d{2})", info.get("CreationDate", ""))
    try:
        builder.created = date(*map(int, found.groups())) if found else None
    except ValueError:
        builder.created = None


def _info_title(info: dict[str, str]) -> str:
    """The title property, unless it is a placeholder or the name of the file it was printed from."""
    title = clean(info.get("Title", ""))
    return "" if _NO_TITLE.search(title) else title


# --- lines → blocks ---------------------------------------------------------------------------------------


def _body_lines(pages: Sequence[Sequence[Line]]) -> list[Line]:
    """All lines without page numbers; of headers and footers that most pages repeat only the first one stays."""
    repeated = _repeated_edges(pages)
    met: set[tuple[str, int]] = set()
    lines: list[Line] = []
    for page in pages:
        furniture = {id(line) for line in _edges(page) if _is_furniture(line, repeated, met)}
        lines += [line for line in page if id(line) not in furniture]
    return lines


def _is_furniture(line: Line, repeated: set[tuple[str, int]], met: set[tuple[str, int]]) -> bool:
    place = _place_of(line)
    if _PAGE_NUMBER.fullmatch(line.text) or place in met:
        return True
    if place in repeated:
        met.add(place)
    return False


def _edges(page: Sequence[Line]) -> list[Line]:
    """The topmost and the lowest two lines, each once."""
    ordered = sorted(page, key=lambda line: line.top)
    return ordered if len(ordered) <= 4 else [*ordered[:2], *ordered[-2:]]


def _repeated_edges(pages: Sequence[Sequence[Line]]) -> set[tuple[str, int]]:
    counts = Counter(place for page in pages for place in {_place_of(line) for line in _detached(page)})
    return {place for place, count in counts.items() if count >= 3 and count > _REPEATED * len(pages)}


def _detached(page: Sequence[Line]) -> list[Line]:
    """Edge lines with no line of their size close by: a header stands apart, the end of a paragraph does not."""
    return [line for line in _edges(page) if not any(_is_near(line, other) for other in page if other is not line)]


def _is_near(line: Line, other: Line) -> bool:
    return other.size == line.size and abs(other.top - line.top) <= _PARAGRAPH_GAP * line.size


def _place_of(line: Line) -> tuple[str, int]:
    """Text without a page number at its end, and height on the page: what a header keeps from page to page."""
    return re.sub(rf"(?<!\d){line.page}(?:\s*/\s*\d+|\s*쪽)?$", "", line.text), round(line.top)


def _body_size(lines: Sequence[Line]) -> float:
    """The size most characters have."""
    counts: Counter[float] = Counter()
    for line in lines:
        if line.rows:
            continue
        counts[line.size] += len(line.text)
    return counts.most_common(1)[0][0] if counts else 0.0


def _title_lines(lines: Sequence[Line]) -> list[Line]:
    """The largest text of the first page, up to three lines; with one size only, its first line if short."""
    first = [line for line in lines if line.page == lines[0].page and not line.rows] if lines else []
    if not first:
        return []
    largest = max(line.size for line in first)
    start = next(position for position, line in enumerate(first) if line.size == largest)
    end = start + 1
    if largest >= _HEADING_RATIO * _body_size(lines):
        while end < min(len(first), start + 3) and first[end].size == largest:
            end += 1
    elif len(first) > 1 and _goes_on(first[0], first[1], _column_end(first[0], first)):
        return []
    else:
        start, end = 0, 1
    title = first[start:end]
    text = " ".join(line.text for line in title)
    return title if len(text) <= _MAX_HEADING and not _STOP.search(text) else []


def _add_lines(builder: DocumentBuilder, lines: Sequence[Line]) -> None:
    paragraphs = _paragraphs(lines)
    sizes = _heading_sizes(paragraphs)
    styles: list[str] = []
    texts = ["", *(paragraph.text for paragraph in paragraphs), ""]
    for position, paragraph in enumerate(paragraphs):
        level = _heading_level(paragraph, texts[position], texts[position + 2], sizes, styles)
        place = f"{paragraph.page}쪽"
        if paragraph.rows:
            builder.table(paragraph.rows, place)
        elif level:
            builder.heading(level, _MARK.sub("", paragraph.text, count=1), place)
        else:
            add_line(builder, paragraph.text, place)


def _paragraphs(lines: Sequence[Line]) -> list[Line]:
    """Lines joined to paragraphs; each keeps the page and size of its first line."""
    ends = {id(line): _column_end(line, page) for page in _by_page(lines) for line in page}
    goes_on = [_goes_on(line, following, ends[id(line)]) for line, following in pairwise(lines)]
    breaks = [pair for pair, on in zip(pairwise(lines), goes_on, strict=True) if on]
    slack = [(ends[id(line)] - line.right) / line.size for line, _ in breaks]
    broken = breaks_words(slack, [following.text for _, following in breaks])
    paragraphs: list[Line] = []
    for line, on in zip(lines, [False, *goes_on], strict=False):
        if on:
            paragraphs[-1] = replace(paragraphs[-1], text=join(paragraphs[-1].text, line.text, broken))
        else:
            paragraphs.append(line)
    return paragraphs


def _by_page(lines: Sequence[Line]) -> list[list[Line]]:
    return [list(group) for _, group in groupby(lines, key=lambda line: line.page)]


def _column_end(line: Line, page: Sequence[Line]) -> float:
    """Right edge of the text that stands above or below ``line`` in the same size."""
    peers = (other for other in page if other.size == line.size)
    return max(peer.right for peer in peers if peer.left < line.right and peer.right > line.left)


def _goes_on(line: Line, following: Line, column_end: float) -> bool:
    """Whether ``following`` continues the paragraph of ``line``."""
    if line.rows or following.rows:
        return False
    if line.size != following.size or _STOP.search(line.text) or _STARTS_ANEW.match(following.text):
        return False
    if line.page == following.page and not 0 < following.top - line.top <= _PARAGRAPH_GAP * line.size:
        return False
    return len(line.text) >= _MIN_WRAPPED and _is_wrapped(line, following, column_end)


def _is_wrapped(line: Line, following: Line, column_end: float) -> bool:
    """Whether the first word of ``following`` would not have fitted at the end of ``line``."""
    if line.right - line.left < _LEAST_FILLED * (column_end - line.left):
        return False
    word = following.text.split(" ", 1)[0]
    share = (len(word) + 2) / len(following.text)  # 2: the space, and that words are wider than the mean with spaces
    return column_end - line.right <= share * (following.right - following.left)


def _heading_sizes(paragraphs: Sequence[Line]) -> list[float]:
    """Sizes above the body in which most paragraphs look like headings, largest first: the index is the level."""
    body = _body_size(paragraphs)
    likely: dict[float, list[bool]] = {}
    for paragraph in paragraphs:
        if paragraph.size >= _HEADING_RATIO * body and not paragraph.rows:
            likely.setdefault(paragraph.size, []).append(_is_headline(paragraph.text))
    return sorted((size for size, votes in likely.items() if 2 * sum(votes) > len(votes)), reverse=True)


def _heading_level(paragraph: Line, previous: str, following: str, sizes: Sequence[float], styles: list[str]) -> int:
    """Level by size, else by numbering or mark (below all sizes); 0 for body text."""
    if paragraph.size in sizes:
        return sizes.index(paragraph.size) + 1 if _is_headline(paragraph.text) else 0
    style = heading_style(paragraph.text, previous, following)
    return 0 if style is None else len(sizes) + heading_level(style, styles)


def _is_headline(text: str) -> bool:
    """Short, no sentence, no list item, and with at least one letter."""
    if len(text) > _MAX_HEADING or _STOP.search(text) or _NO_HEADLINE.match(text):
        return False
    return bool(re.search(r"[^\W\d_]", text))


def breaks_words(slack: Sequence[float], following: Sequence[str]) -> bool:
    """Whether a document's lines are broken inside words: ``slack`` = room left on each broken line, in characters.

    Orphaned particles at the start of the next lines prove it. Without them: a line that stops more than a
    character short did so because a whole word did not fit; if none does and the edge is ragged, any character
    may end a line. A straight edge (justified text) proves nothing.
    """
    orphans = sum(bool(_ORPHAN.match(text)) for text in following)
    if orphans >= max(1, _ORPHAN_SHARE * len(following)):
        return True
    return len(slack) >= 3 and max(slack) <= 1.0 and median(slack) > 0.1


def join(left: str, right: str, broken: bool = False) -> str:
    """Two halves of a paragraph: with a space, unless the break looks to be inside a word."""
    if not left:
        return right
    if left.endswith("-") and re.match(r"[a-z]", right):
        return left[:-1] + right
    glued = _ORPHAN.match(right) or (broken and not _WORD_END.search(left) and re.match(r"[가-힣]", right))
    return left + right if glued else f"{left} {right}"
