"""Read a file of any supported format into a ``ParsedDocument``.

``load`` decides by the bytes, never by the extension. A format is one row of ``LOADERS``: a function from
(bytes, file name) to ``ParsedDocument``; whatever it raises leaves here as an ``IngestError`` in Korean.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ingest.limits import Limits, size_text
from ingest.loaders.doc import load_doc
from ingest.loaders.docx import load_docx
from ingest.loaders.html import load_html
from ingest.loaders.hwpx import load_hwp, load_hwpx
from ingest.loaders.pdf import check_pages, load_pdf
from ingest.loaders.sniff import damaged, extension_note, sniff
from ingest.loaders.tables import load_csv, load_tsv, load_xls, load_xlsx
from ingest.loaders.text import load_markdown, load_text
from ingest.loaders.web import Source, from_web, main_part, source_of
from ingest.names import logical_path
from ingest.parsed import ParsedDocument
from rag.errors import IngestError

__all__ = ["LOADERS", "load", "parse", "read_file", "sniff"]

Loader = Callable[[bytes, str], ParsedDocument]

LOADERS: Final[Mapping[str, Loader]] = {
    "pdf": load_pdf,
    "docx": load_docx,
    "doc": load_doc,
    "xlsx": load_xlsx,
    "xls": load_xls,
    "hwpx": load_hwpx,
    "hwp": load_hwp,
    "html": load_html,
    "md": load_markdown,
    "csv": load_csv,
    "tsv": load_tsv,
    "txt": load_text,
}


def load(path: Path, *, limit_bytes: int, name: str | None = None) -> ParsedDocument:
    """Read ``path``. Raises ``IngestError`` (and nothing else) with the reason and the remedy in Korean.

    ``name``: the file's own name where ``path`` is a copy kept under another one; some formats take their title from it.
    """
    limits = Limits(bytes=limit_bytes)
    name = logical_path(name or path.name)
    return parse(read_file(path, name, limits), name, limits)


def read_file(path: Path, name: str, limits: Limits) -> bytes:
    """The bytes of a file whose size is checked first.

    Raises:
        IngestError: too large, or it cannot be read.
    """
    try:
        size = path.stat().st_size
        if size > limits.bytes:
            raise IngestError(
                f"'{name}': 파일이 너무 큽니다({size_text(size)}, 한도 {size_text(limits.bytes)}). "
                "나누어 올리거나 설정 ingest_limit_mb 를 올려 주세요."
            )
        return path.read_bytes()
    except OSError as error:
        raise IngestError(
            f"'{name}': 파일을 열 수 없습니다({error.strerror}). 파일이 있는지, 읽을 권한이 있는지 확인해 주세요."
        ) from error


def parse(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """The document in ``data``.

    Raises:
        IngestError: empty, foreign, locked, damaged, over a limit, or without text.
    """
    if not data.strip():
        raise IngestError(f"'{name}': 빈 파일입니다({len(data)}바이트). 내용이 있는 파일을 다시 올려 주세요.")
    kind = sniff(data, name, limits)
    if kind == "zip":
        raise IngestError(f"'{name}': ZIP 묶음 안의 묶음은 한 문서로 읽지 않습니다. 풀어서 올려 주세요.")
    source = source_of(data, name)
    document = _guarded(LOADERS[kind], data, name, kind, limits, source)
    if not document.characters:
        raise _no_text(name, document)
    note = extension_note(name, kind)
    return replace(document, notes=(note, *document.notes)) if note else document


def _guarded(
    loader: Loader, data: bytes, name: str, kind: str, limits: Limits, source: Source | None
) -> ParsedDocument:
    """Run a loader; every failure of a parsing library means a damaged file. ``source``: of a page from the web."""
    try:
        if kind == "pdf":
            check_pages(data, name, limits.pages)
        if source is None:
            return loader(data, name)
        return from_web(loader(main_part(data) if kind == "html" else data, name), source)
    except IngestError:
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic inside a native reader does not derive from Exception
        raise damaged(name, kind, error) from error


def _no_text(name: str, document: ParsedDocument) -> IngestError:
    reasons = "".join(f" {note}" for note in document.notes)
    remedy = "그림만 있는 문서라면 글자가 있는 파일로 바꾸어 올려 주세요."
    return IngestError(f"'{name}': 읽을 글자가 없습니다.{reasons} {remedy}")
