"""Author and creation date that office programs write into a file, by container.

What a library or template put there by itself is no author.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import olefile  # type: ignore[import-untyped]
from lxml import etree  # type: ignore[import-untyped]

from ingest.loaders.text import decode

_TEMPLATE_AUTHORS = frozenset(
    {"", "openpyxl", "python-docx", "admin", "administrator", "user", "microsoft office user"}
)
_OLE_STREAMS = ("\x05HwpSummaryInformation", "\x05SummaryInformation")
_OLE_AUTHOR, _OLE_CREATED = 4, 12
_NO_YEAR = 1980  # the zero of several clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """Who wrote a file and when it was begun, as its program says."""

    author: str | None = None
    created: date | None = None


def ole_properties(data: bytes) -> Properties:
    """Of HWP 5 and old Office files; nothing where the stream is missing or cut."""
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            stream = next((name for name in _OLE_STREAMS if container.exists(name)), None)
            if stream is None:
                return Properties()
            values = container.getproperties(stream, convert_time=True)
    except Exception:  # properties never keep a document out
        return Properties()
    return Properties(author=_author(values.get(_OLE_AUTHOR)), created=_day(values.get(_OLE_CREATED)))


def package_properties(data: bytes, part: str, author: str, created: str) -> Properties:
    """Of zipped XML formats: the text of the elements (or ``meta`` names) ``author`` and ``created`` of one part."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            root = etree.fromstring(archive.read(part), etree.XMLParser(resolve_entities=False, no_network=True))
    except (KeyError, ValueError, OSError, zipfile.BadZipFile, etree.XMLSyntaxError):
        return Properties()
    found = {_key(element): element.text or "" for element in root.iter() if isinstance(element.tag, str)}
    return Properties(author=_author(found.get(author)), created=_day(found.get(created)))


def _key(element: Any) -> str:
    return str(element.get("name") or etree.QName(element).localname)


def _author(value: object) -> str | None:
    text = decode(value).text if isinstance(value, bytes) else str(value or "")
    text = text.split("\x00")[0].strip()  # HWP pads its strings with other fields behind a NUL
    return None if text.lower() in _TEMPLATE_AUTHORS else text


def _day(value: object) -> date | None:
    if isinstance(value, datetime):
        return value.date() if value.year > _NO_YEAR else None
    try:
        day = date.fromisoformat(str(value or "")[:10])
    except ValueError:
        return None
    return day if day.year > _NO_YEAR else None
