"""HWPX and HWP 5 through hwp2markdown (package ``hwp2md``), then the Markdown parser.

Headers, footers and hidden comments are not in its output: they come last, as a section of their own (``hwp_asides``).
Memos, drawn objects and pictures are not read; what was left out is told in a note. Documents without outline levels get headings from marks and numbers ("□ 개요", "1. 개요"), as plain text does, and from
short lines that stand alone above a sentence, a list or a table.
"""

import re

from hwp2md import DrmProtectedError, EncryptedDocumentError, convert_bytes
from hwp2md.errors import InputTooLargeError
from hwp2md.memory import MAX_INPUT_BYTES, MemoryResult
from hwp2md.skips import SKIP_LABELS

from ingest.loaders.hwp_asides import asides
from ingest.loaders.properties import Properties, ole_properties, package_properties
from ingest.loaders.text import BULLET, NUMBERED, SENTENCE_END, heading_level, heading_style, parse_markdown, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument
from rag.errors import IngestError

_MAX_TITLE = 60
_MAX_SHORT_HEADING = 30
_ASIDES = ("header_footer", "hidden_comment")
_STOP = re.compile(r"[.?!。…:;,][\"'”’)\]]*$")


def load_hwpx(data: bytes, name: str) -> ParsedDocument:
    """A HWPX package."""
    return _load(data, name, "hwpx")


def load_hwp(data: bytes, name: str) -> ParsedDocument:
    """A HWP 5 binary document."""
    return _load(data, name, "hwp")


def _load(data: bytes, name: str, kind: str) -> ParsedDocument:
    result = _convert(data, name)
    properties = _properties(data, kind)
    builder = DocumentBuilder(format=kind, author=properties.author, created=properties.created)
    edges = asides(data, kind) if any(part in _ASIDES for part, _ in result.skipped) else []
    _note_skipped(builder, result, bool(edges))
    lines = result.markdown.split("\n")
    _take_title(builder, lines)
    if not any(line.startswith("#") for line in lines):
        lines = _mark_headings(lines)
    parse_markdown(builder, "\n".join(lines))
    if edges:
        builder.heading(1, "머리말, 꼬리말, 숨은 설명")
        for where, text in edges:
            builder.paragraph(f"{where}: {text}")
    return builder.build(stem_title(name))


def _properties(data: bytes, kind: str) -> Properties:
    if kind == "hwp":
        return ole_properties(data)
    return package_properties(data, "Contents/content.hpf", "creator", "CreatedDate")


def _note_skipped(builder: DocumentBuilder, result: MemoryResult, has_asides: bool) -> None:
    left_out = [(SKIP_LABELS[part], count) for part, count in result.skipped if not (has_asides and part in _ASIDES)]
    if left_out:
        listed = ", ".join(f"{label} {count}개" for label, count in left_out)
        builder.note(f"읽지 않은 요소: {listed}. 검색에 필요하면 본문으로 옮겨 다시 올려 주세요.")
    if result.image_count:
        builder.note(f"그림 {result.image_count}개 속의 글자는 읽지 않았습니다.")


def _convert(data: bytes, name: str) -> MemoryResult:
    """Markdown and what the converter skipped. The neutral file name keeps picture links parsable."""
    try:
        return convert_bytes(data, filename="document")
    except EncryptedDocumentError as error:
        raise IngestError(f"'{name}': 암호가 걸린 한글 문서입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.") from error
    except DrmProtectedError as error:
        raise IngestError(f"'{name}': DRM이 걸린 한글 문서입니다. DRM을 해제해 저장한 뒤 다시 올려 주세요.") from error
    except InputTooLargeError as error:
        raise IngestError(
            f"'{name}': 한글 문서가 너무 큽니다({len(data):,}바이트, 한도 {MAX_INPUT_BYTES:,}바이트). "
            "나누어 올려 주세요."
        ) from error


def _mark_headings(lines: list[str]) -> list[str]:
    """Write lines that look like headings as Markdown headings; a style met later lies deeper."""
    positions = [position for position, line in enumerate(lines) if line.strip()]
    marked = list(lines)
    styles: list[str] = []
    for before, here, after in zip([-1, *positions], positions, [*positions[1:], -1], strict=False):
        style = _style(lines[here], lines[before] if before >= 0 else "", lines[after] if after >= 0 else "")
        if style is not None:
            marked[here] = f"{'#' * min(heading_level(style, styles) + 1, 6)} {lines[here].strip()}"
    return marked


def _style(line: str, previous: str, following: str) -> str | None:
    if line.startswith("|"):
        return None
    return heading_style(line, previous, following) or ("short" if _is_short_heading(line, following) else None)


def _is_short_heading(line: str, following: str) -> bool:
    """ "방제" above "4동 딸기에서 …": short, no sentence, no "name: value", and text of its own below."""
    if len(line) > _MAX_SHORT_HEADING or _STOP.search(line) or re.search(r"[:·|]|!\[", line) or _is_item(line):
        return False
    is_sentence = len(following) > len(line) and _STOP.search(following) is not None
    return is_sentence or following.startswith("|") or _is_item(following)


def _is_item(line: str) -> bool:
    return bool(BULLET.match(line) or NUMBERED.match(line))


def _take_title(builder: DocumentBuilder, lines: list[str]) -> None:
    """The first line, if it is short and no sentence, is the title; blank it so that it is not read twice."""
    for position, line in enumerate(lines):
        text = line.strip().lstrip("# ")
        if not text or line.startswith("!["):
            continue
        if len(text) <= _MAX_TITLE and not SENTENCE_END.search(text) and not text.startswith(("|", "-", "[^", "$")):
            builder.title, lines[position] = text, ""
        return
