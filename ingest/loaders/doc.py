"""Word 97-2003 through its piece table ([MS-DOC] 2.4.1): text in order, footnotes, table cells.

FIB → CLX (in the table stream) → pieces, each a run of 8-bit (CP1252) or UTF-16 characters in the main stream. The
binary format keeps table structure in paragraph properties that are not read: a row ends where a cell mark follows a
cell mark, so a row with empty cells may break. A note says so.
"""

import io
import re
import struct
from collections.abc import Iterator

import olefile  # type: ignore[import-untyped]

from ingest.loaders.properties import ole_properties
from ingest.loaders.text import SENTENCE_END, add_line, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument, clean
from rag.errors import IngestError

_ENCRYPTED, _TABLE_1 = 0x0100, 0x0200
_FLAGS, _CCP_TEXT, _CCP_FOOTNOTES, _CCP_HEADERS, _FC_CLX = 0x0A, 0x4C, 0x50, 0x54, 0x01A2
_PIECE_TABLE, _PROPERTIES = 2, 1
_EIGHT_BIT = 0x40000000
_OLDEST = 0xC1  # Word 97
_MAX_TITLE = 60

_FIELD_CODE = re.compile("\x13[^\x13\x14\x15]*(?:\x14|(?=\x15))")
_CELL, _ROW = "\x07", "\x07\x07"


def load_doc(data: bytes, name: str) -> ParsedDocument:
    """A Word 97-2003 document (DOC)."""
    main, table = _streams(data, name)
    text = "".join(_pieces(main, table))
    body, notes, headers = (struct.unpack_from("<i", main, at)[0] for at in (_CCP_TEXT, _CCP_FOOTNOTES, _CCP_HEADERS))
    properties = ole_properties(data)
    builder = DocumentBuilder(format="doc", author=properties.author, created=properties.created)
    _add_body(builder, text[:body])
    for number, note in enumerate(_paragraphs(text[body : body + notes]), 1):
        builder.paragraph(f"각주 {number}: {note}")
    edges = dict.fromkeys(_paragraphs(text[body + notes : body + notes + headers]))
    if edges:
        builder.heading(1, "머리글과 바닥글")
        for edge in edges:
            builder.paragraph(edge)
    return builder.build(stem_title(name))


def _streams(data: bytes, name: str) -> tuple[bytes, bytes]:
    """The main stream and the table stream that it names."""
    with olefile.OleFileIO(io.BytesIO(data)) as container:
        main = container.openstream("WordDocument").read()
        version, flags = struct.unpack_from("<H", main, 2)[0], struct.unpack_from("<H", main, _FLAGS)[0]
        if version < _OLDEST:
            raise IngestError(f"'{name}': 워드 95 이하의 문서입니다. 워드에서 DOCX 로 저장해 다시 올려 주세요.")
        if flags & _ENCRYPTED:
            raise IngestError(f"'{name}': 암호가 걸린 워드 파일입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.")
        table = container.openstream("1Table" if flags & _TABLE_1 else "0Table").read()
    return main, table


def _pieces(main: bytes, table: bytes) -> Iterator[str]:
    """The text of each piece, in document order."""
    start, length = struct.unpack_from("<II", main, _FC_CLX)
    clx = table[start : start + length]
    at = 0
    while clx[at] == _PROPERTIES:
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    if clx[at] != _PIECE_TABLE:
        raise ValueError(f"no piece table but {clx[at]}")
    plc = clx[at + 5 : at + 5 + struct.unpack_from("<I", clx, at + 1)[0]]
    count = (len(plc) - 4) // 12
    positions = struct.unpack_from(f"<{count + 1}I", plc)
    for index in range(count):
        offset = struct.unpack_from("<I", plc, 4 * (count + 1) + 8 * index + 2)[0]
        length = positions[index + 1] - positions[index]
        if offset & _EIGHT_BIT:
            offset = (offset & ~_EIGHT_BIT) // 2
            yield main[offset : offset + length].decode("cp1252", "replace")
        else:
            yield main[offset : offset + 2 * length].decode("utf-16-le", "replace")


def _paragraphs(text: str) -> list[str]:
    return [line for line in (clean(part) for part in _plain(text).replace(_CELL, "\r").split("\r")) if line]


def _plain(text: str) -> str:
    """Field codes dropped (their results stay), breaks and hyphens as characters."""
    while (without := _FIELD_CODE.sub("", text)) != text:
        text = without
    return re.sub("[\x0b\t]", " ", text).replace("\x0c", "\r").replace("\x1e", "-")


def _add_body(builder: DocumentBuilder, text: str) -> None:
    """Paragraphs and tables; a short first line that is no sentence is the title."""
    is_first = True
    for part in _plain(text).split("\r"):
        *rows, last = part.split(_ROW) if _CELL in part else [part]
        if rows:
            builder.note("옛 워드 형식의 표는 칸 구조를 어림해 읽었습니다. DOCX 로 저장해 올리면 정확합니다.")
            builder.table([row.split(_CELL) for row in rows])
        line = clean(last.replace(_CELL, " "))
        if is_first and not rows and line and len(line) <= _MAX_TITLE and not SENTENCE_END.search(line):
            builder.title = line
        else:
            add_line(builder, line)
        is_first = is_first and not line and not rows
