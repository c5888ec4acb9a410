"""PDF through pypdfium2: characters with their size and place → lines → headings and paragraphs.

A line goes on in the next one when it reaches the right edge of its column and does not end a sentence.
PDF keeps no space at a line end, so whether the break fell inside a word is judged for the whole document
(``breaks_words``) and then, for each break, by particles and endings (``join``).
"""

import io
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import byref, c_double
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from ingest.loaders.text import BULLET, NUMBERED, SENTENCE_END, add_line, heading_style, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean
from rag.errors import IngestError

_PDFIUM = threading.Lock()  # the library is not thread-safe
_WRONG_PASSWORD = 4
_MAX_HEADING = 60
_HEADING_RATIO = 1.15
_FULL_LINE = 0.85
_PARAGRAPH_GAP = 1.9
_REPEATED = 0.6
_MAX_UNREADABLE = 0.3

_PAGE_NUMBER = re.compile(r"[-–—]?\s*(?:p\.?\s*|page\s*)?\d{1,4}(?:\s*(?:/|of)\s*\d{1,4})?\s*(?:쪽|페이지)?\s*[-–—]?", re.IGNORECASE)
_MARK = re.compile(r"\s*[■□◆◇▣▶◎]\s*")
# A line starting like this was broken inside a word: nobody writes these apart.
_ORPHAN = re.compile(r"(?:[은는을를가의와과]|에서|에는|으로|까지|부터|보다|이다|한다|된다|하고|하며|니다|습니다|다)(?=[\s.,)]|$)")
# A line ending like this ended a word: particles and connective endings after at least one syllable.
_WORD_END = re.compile(r"[가-힣](?:[은는을를의에고며]|에서|으로|까지|부터|보다|하여|해서|거나|면서)$|[가-힣]{2,}[이가]$|[^가-힣]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a page in points: ``size`` = height of its font box, ``top`` grows downwards."""

    text: str
    page: int
    size: float
    left: float
    right: float
    top: float


def load_pdf(data: bytes, name: str) -> ParsedDocument:
    """A PDF with a text layer."""
    pages, info = _read(data, name)
    builder = DocumentBuilder(format="pdf", pages=len(pages))
    _check_text_layer(builder, pages, name)
    _take_info(builder, info)
    lines = _body_lines(pages)
    title = _title_lines(lines)
    if title:
        builder.title = " ".join(line.text for line in title)
    _add_lines(builder, [line for line in lines if line not in title])
    if not builder.blocks_added and title:
        builder.paragraph(builder.title, _locator(title[0].page))
    return builder.build(_info_title(info) or stem_title(name))


# --- reading ----------------------------------------------------------------------------------------------


def _read(data: bytes, name: str) -> tuple[list[list[Line]], dict[str, str]]:
    with _PDFIUM:
        try:
            document = pdfium.PdfDocument(io.BytesIO(data))
        except pdfium.PdfiumError as error:
            if error.err_code == _WRONG_PASSWORD:
                raise IngestError(f"'{name}': 암호가 걸린 PDF입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.") from error
            raise
        try:
            pages = [_page_lines(document[index], index + 1) for index in range(len(document))]
            return pages, document.get_metadata_dict()
        finally:
            document.close()


def _page_lines(page: pdfium.PdfPage, number: int) -> list[Line]:
    """Lines of one page in the order of the text layer, which is the reading order of nearly all producers."""
    height = page.get_height()
    textpage = page.get_textpage()
    lines = [_line(textpage, run, number, height) for run in _runs(textpage)]
    textpage.close()
    page.close()
    return [line for line in lines if line.text]


def _runs(textpage: pdfium.PdfTextPage) -> Iterator[list[int]]:
    """Character indices of each line."""
    run: list[int] = []
    for index in range(textpage.count_chars()):
        if raw.FPDFText_GetUnicode(textpage, index) in (10, 13):
            if run:
                yield run
            run = []
        else:
            run.append(index)
    if run:
        yield run


def _line(textpage: pdfium.PdfTextPage, run: Sequence[int], page: int, height: float) -> Line:
    text = clean("".join(_character(textpage, index) for index in run))
    visible = [index for index in run if _character(textpage, index).strip()] or list(run)
    boxes = [textpage.get_charbox(index, loose=True) for index in (visible[0], visible[len(visible) // 2], visible[-1])]
    return Line(
        text=text,
        page=page,
        size=round(median(box[3] - box[1] for box in boxes), 1),
        left=min(box[0] for box in boxes),
        right=max(box[2] for box in boxes),
        top=height - boxes[0][3],
    )


def _character(textpage: pdfium.PdfTextPage, index: int) -> str:
    """The character; NUL and other codes without a glyph name stand for spaces in some producers' fonts."""
    code = raw.FPDFText_GetUnicode(textpage, index)
    if raw.FPDFText_IsHyphen(textpage, index) == 1:
        return "-"
    return " " if code < 32 or code in (0xFFFE, 0xFFFF) else chr(code)
