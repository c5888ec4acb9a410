"""HWPX and HWP 5 through hwp2markdown (package ``hwp2md``), then the Markdown parser."""

import re

from hwp2md import EncryptedDocumentError, MemoryResult, NotHwpFileError, UnsupportedHwpError, convert_bytes

from ingest.loaders.text import parse_markdown, stem_title
from ingest.parsed import DocumentBuilder, ParsedDocument
from rag.errors import IngestError


def load_hwpx(data: bytes, name: str) -> ParsedDocument:
    """A HWPX package."""
    return _load(data, name, "hwpx")


def load_hwp(data: bytes, name: str) -> ParsedDocument:
    """A HWP 5 binary document."""
    return _load(data, name, "hwp")


def _load(data: bytes, name: str, kind: str) -> ParsedDocument:
    result = convert_bytes(data, filename=name)
    builder = DocumentBuilder(format=kind)
    parse_markdown(builder, result.markdown)
    return builder.build(stem_title(name))
