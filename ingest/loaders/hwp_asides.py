"""What the HWP converter leaves out of the body: headers, footers and hidden comments, each text once."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

from hwp2md.hwp5.reader import read_sections
from hwp2md.hwp5.records import HWPTAG_CTRL_HEADER, HWPTAG_PARA_TEXT, decode_para_text, iter_records
from lxml import etree  # type: ignore[import-untyped]

from ingest.parsed import clean

HEADER, FOOTER, HIDDEN = "머리말", "꼬리말", "숨은 설명"
_CONTROLS = {b"daeh": HEADER, b"toof": FOOTER, b"tmct": HIDDEN}
_ELEMENTS = {"header": HEADER, "footer": FOOTER, "hiddenComment": HIDDEN}


def asides(data: bytes, kind: str) -> list[tuple[str, str]]:
    """(where it stood, text) of a HWP ("hwp") or HWPX ("hwpx") document, in reading order."""
    found = _in_hwpx(data) if kind == "hwpx" else _in_hwp(data)
    return list(dict.fromkeys((where, text) for where, text in found if text))


def _in_hwp(data: bytes) -> Iterator[tuple[str, str]]:
    """All paragraphs below a control, which is where the record's level is deeper than the control's."""
    for section in read_sections(data):
        where, level = "", -1
        for record in iter_records(section):
            if where and record.level <= level:
                where = ""
            if not where and record.tag_id == HWPTAG_CTRL_HEADER:
                where, level = _CONTROLS.get(record.payload[:4], ""), record.level
            elif where and record.tag_id == HWPTAG_PARA_TEXT:
                yield where, clean(decode_para_text(record.payload))


def _in_hwpx(data: bytes) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("Contents/section"))
        for name in names:
            root = etree.fromstring(archive.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
            for element in root.iter("{*}header", "{*}footer", "{*}hiddenComment"):
                where = _ELEMENTS[etree.QName(element).localname]
                for paragraph in element.iter("{*}p"):
                    yield where, clean("".join("".join(text.itertext()) for text in paragraph.iter("{*}t")))
