"""Pages that came from the web: the mark that says where from, and what of a page is read.

A fetched HTML page or PDF carries one line at its end, a comment to every other program::

    onsil-source: https://example.com/page 2026-12-01

so that the address and the day are there again when a kept original is read anew. Navigation, page headers and footers
are left out, footnote numbers ("[3]") as well, which would read like citations, and brackets that could open a control
token of a language model get a space (``rag.llm.neutralise``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from lxml import html  # type: ignore[import-untyped]

from ingest.parsed import Block, ParsedDocument
from rag.llm import neutralise

# Logical paths of fetched pages: web/host/path.
FOLDER = "web/"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_MARK = re.compile(rb"onsil-source: (\S+) (\d{4}-\d{2}-\d{2})[ >\-\n]*\Z")
_MARK_LENGTH = 4096
_FOOTNOTE = re.compile(r"\s?\[(?:\d{1,3}|편집|edit)\]")
_ASIDE = (
    "//nav|//footer|//aside|//dialog|//form|//body/header|//*[@role='navigation' or @role='banner' or "
    "@role='contentinfo' or @role='search' or @aria-hidden='true']"
)
# A main part shorter than this is a frame around the text that stands elsewhere.
_LEAST_MAIN = 200


def is_url(text: str) -> bool:
    """Whether a command-line argument is an address and not a path."""
    return _URL.match(text) is not None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a page was read, and on which day (ISO)."""

    url: str
    day: str

    @property
    def place(self) -> str:
        """As a citation says it."""
        return f"{self.url} ({self.day} 읽음)"


def marked(data: bytes, kind: str, source: Source) -> bytes:
    """``data`` with its mark; formats without comments stay as they are."""
    line = f"onsil-source: {source.url} {source.day}".encode("ascii", "replace")
    if kind == "html":
        return data + b"\n<!-- " + line + b" -->\n"
    return data + b"\n%" + line + b"\n" if kind == "pdf" else data


def source_of(data: bytes, name: str) -> Source | None:
    """The mark of a fetched page; None for any other file."""
    found = _MARK.search(data[-_MARK_LENGTH:]) if name.startswith(FOLDER) else None
    return None if found is None else Source(found[1].decode("ascii"), found[2].decode("ascii"))


def main_part(data: bytes) -> bytes:
    """An HTML page without what surrounds its text; the page itself where nothing could be told apart."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, huge_tree=True)
    root = html.document_fromstring(data, parser=parser)
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        return data
    for element in root.xpath(_ASIDE):
        if element.getparent() is not None and element.tag != "body":
            element.drop_tree()
    body = root.find("body")
    mains = [*root.iter("main"), *root.iter("article")]
    main = max(mains, key=_length, default=None)
    if body is not None and main is not None and _length(main) >= _LEAST_MAIN:
        headings = [h for h in root.iter("h1") if main not in h.iterancestors()][:1] if not main.xpath(".//h1") else []
        body[:] = [*headings, main]
        body.text = None
    if body is None or not body.text_content().strip():
        return data
    stripped: bytes = html.tostring(root, encoding="utf-8", doctype="<!DOCTYPE html>")
    return stripped


def _length(element: Any) -> int:
    return len(element.text_content().strip())


def from_web(document: ParsedDocument, source: Source) -> ParsedDocument:
    """``document`` with harmless texts, whose places and notes say where it was read."""
    host = urlsplit(source.url).netloc

    def tidy(block: Block) -> Block:
        place = f"{block.locator} ({host})" if block.locator else source.place
        return replace(block, text=harmless(block.text), locator=place)

    sections = [
        replace(
            section,
            headings=tuple(map(harmless, section.headings)),
            blocks=tuple(block for block in map(tidy, section.blocks) if block.text),
        )
        for section in document.sections
    ]
    return replace(
        document,
        title=harmless(document.title) or host,
        sections=tuple(section for section in sections if section.blocks),
        notes=(f"웹 문서입니다: {source.place}", *document.notes),
    )


def harmless(text: str) -> str:
    """A page's words without footnote numbers and control tokens."""
    return neutralise(_FOOTNOTE.sub("", text)).strip()
