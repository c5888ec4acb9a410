"""Read a file of any supported format into a ``ParsedDocument``.

``load`` decides by the bytes, never by the extension. A format is one row of ``LOADERS``: a function from
(bytes, file name) to ``ParsedDocument``; whatever it raises leaves here as an ``IngestError`` in Korean.
"""

import csv
import io
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import olefile  # type: ignore[import-untyped]

from ingest.loaders.docx import load_docx
from ingest.loaders.hwpx import load_hwp, load_hwpx
from ingest.loaders.pdf import load_pdf
from ingest.loaders.tables import load_csv, load_tsv, load_xlsx
from ingest.loaders.text import decode, load_markdown, load_text
from ingest.parsed import ParsedDocument
from rag.errors import IngestError

__all__ = ["LOADERS", "load", "sniff"]

Loader = Callable[[bytes, str], ParsedDocument]

LOADERS: Final[Mapping[str, Loader]] = {
    "pdf": load_pdf,
    "docx": load_docx,
    "xlsx": load_xlsx,
    "hwpx": load_hwpx,
    "hwp": load_hwp,
    "md": load_markdown,
    "csv": load_csv,
    "tsv": load_tsv,
    "txt": load_text,
}
_TEXT_EXTENSIONS: Final = {
    "md": "md",
    "markdown": "md",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "txt": "txt",
    "text": "txt",
    "": "txt",
}
_LABELS: Final = {
    "md": "마크다운",
    "txt": "일반 글",
    "hwp": "한글(HWP)",
    "hwpx": "한글(HWPX)",
    "docx": "워드(DOCX)",
    "xlsx": "엑셀(XLSX)",
}

_ZIP_MEMBERS: Final = (
    ("word/document.xml", "docx"),
    ("xl/workbook.xml", "xlsx"),
    ("Contents/section0.xml", "hwpx"),
    ("Contents/content.hpf", "hwpx"),
)
_OLE_STREAMS: Final = (
    ("WordDocument", "워드 97-2003(DOC)"),
    ("Workbook", "엑셀 97-2003(XLS)"),
    ("Book", "엑셀 97-2003(XLS)"),
    ("PowerPoint Document", "파워포인트(PPT)"),
)
_FOREIGN: Final = (
    (b"HWP Document File V", "한글 3.0 이하(HWP)"),
    (b"{\\rtf", "RTF"),
    (b"\x89PNG", "그림(PNG)"),
    (b"\xff\xd8\xff", "그림(JPEG)"),
    (b"GIF8", "그림(GIF)"),
    (b"7z\xbc\xaf", "압축(7Z)"),
    (b"\x1f\x8b", "압축(GZ)"),
    (b"Rar!", "압축(RAR)"),
)
_OLE_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_EXPANSION: Final = 20
_MIN_EXPANDED: Final = 200_000_000


def load(path: Path, *, limit_bytes: int, name: str | None = None) -> ParsedDocument:
    """Read ``path``. Raises ``IngestError`` (and nothing else) with the reason and the remedy in Korean.

    ``name``: the file's own name where ``path`` is a copy kept under another one; some formats take their title from it.
    """
    name = unicodedata.normalize("NFC", name or path.name)
    data = _read(path, name, limit_bytes)
    kind = sniff(data, name, limit_bytes=limit_bytes)
    document = _guarded(LOADERS[kind], data, name, kind)
    if not document.characters:
        raise _no_text(name, document)
    note = _extension_note(name, kind)
    return replace(document, notes=(note, *document.notes)) if note else document


def sniff(data: bytes, name: str, *, limit_bytes: int) -> str:
    """The key of ``LOADERS`` that fits the bytes; the extension only tells kinds of text apart."""
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return _sniff_zip(data, name, limit_bytes)
    if data.startswith(_OLE_MAGIC):
        return _sniff_ole(data, name)
    for magic, label in _FOREIGN:
        if data.startswith(magic):
            raise _unsupported(name, label)
    return _sniff_text(data, name)


def _read(path: Path, name: str, limit_bytes: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > limit_bytes:
            raise IngestError(
                f"'{name}': 파일이 너무 큽니다({_size(size)}, 한도 {_size(limit_bytes)}). "
                "나누어 올리거나 설정에서 한도를 늘려 주세요."
            )
        data = path.read_bytes()
    except OSError as error:
        raise IngestError(
            f"'{name}': 파일을 열 수 없습니다({error.strerror}). 파일이 있는지, 읽을 권한이 있는지 확인해 주세요."
        ) from error
    if not data.strip():
        raise IngestError(f"'{name}': 빈 파일입니다({len(data)}바이트). 내용이 있는 파일을 다시 올려 주세요.")
    return data


def _guarded(loader: Loader, data: bytes, name: str, kind: str) -> ParsedDocument:
    """Run a loader; every failure of a parsing library means a damaged file."""
    try:
        return loader(data, name)
    except IngestError:
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic inside a native reader does not derive from Exception
        raise _damaged(name, kind, error) from error


def _damaged(name: str, kind: str, error: BaseException) -> IngestError:
    return IngestError(
        f"'{name}': {_label(kind)} 파일이 손상되어 읽을 수 없습니다({type(error).__name__}). "
        "원래 프로그램에서 열어 다시 저장한 뒤 올려 주세요."
    )


def _no_text(name: str, document: ParsedDocument) -> IngestError:
    reasons = "".join(f" {note}" for note in document.notes)
    remedy = "그림만 있는 문서라면 글자가 있는 파일로 바꾸어 올려 주세요."
    return IngestError(f"'{name}': 읽을 글자가 없습니다.{reasons} {remedy}")


def _unsupported(name: str, label: str) -> IngestError:
    return IngestError(
        f"'{name}': 아직 지원하지 않는 형식입니다({label}). 지원하는 형식({_supported()})으로 바꾸어 올려 주세요."
    )


def _locked(name: str) -> IngestError:
    return IngestError(f"'{name}': 암호가 걸린 파일입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.")


def _supported() -> str:
    return ", ".join(LOADERS)


def _label(kind: str) -> str:
    return _LABELS.get(kind, kind.upper())


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f}MB" if count >= 1_000_000 else f"{count:,}바이트"


def _sniff_zip(data: bytes, name: str, limit_bytes: int) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise _damaged(name, _extension(name) or "zip", error) from error
    names = {member.filename for member in members}
    kind = next((kind for member, kind in _ZIP_MEMBERS if member in names), None)
    if kind is None:
        raise _unsupported(name, "ZIP")
    if any(member.flag_bits & 1 for member in members):
        raise _locked(name)
    _check_expansion(name, sum(member.file_size for member in members if member.filename.endswith(".xml")), limit_bytes)
    return kind


def _check_expansion(name: str, expanded: int, limit_bytes: int) -> None:
    """A small archive may unpack to more than the memory holds."""
    allowed = max(_MIN_EXPANDED, _EXPANSION * limit_bytes)
    if expanded > allowed:
        raise IngestError(
            f"'{name}': 압축을 풀면 너무 큽니다({_size(expanded)}, 한도 {_size(allowed)}). 나누어 올려 주세요."
        )


def _sniff_ole(data: bytes, name: str) -> str:
    """HWP 5 and old Office share one container; password-protected new Office files sit in it too."""
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            streams = {"/".join(entry) for entry in container.listdir()}
    except Exception as error:  # olefile raises OSError, IndexError, struct.error … on cut files
        raise _damaged(name, _extension(name) or "ole", error) from error
    if "EncryptedPackage" in streams:
        raise _locked(name)
    if "FileHeader" in streams:
        return "hwp"
    raise _unsupported(name, next((label for stream, label in _OLE_STREAMS if stream in streams), "OLE"))


def _sniff_text(data: bytes, name: str) -> str:
    text = decode(data[:65_536]).text
    if _is_binary(text):
        raise _unsupported(name, f"알 수 없는 이진 파일, 확장자 '{_extension(name)}'")
    head = text.lstrip()[:200].lower()
    if head.startswith(("<!doctype html", "<html")):
        raise _unsupported(name, "HTML")
    if head.startswith("<?xml"):
        raise _unsupported(name, "XML")
    known = _TEXT_EXTENSIONS.get(_extension(name))
    return known or _guess_delimited(text) or "txt"


def _is_binary(text: str) -> bool:
    strange = sum(char == "\ufffd" or (char < " " and char not in "\t\n\r\f\x1a") for char in text)
    return strange > 0.1 * len(text)


def _guess_delimited(text: str) -> str | None:
    """A table saved under a foreign extension: every line has the same number of fields, at least two."""
    lines = [line for line in text.split("\n")[:50] if line.strip()]
    for delimiter, kind in (("\t", "tsv"), (",", "csv")):
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter)}
        if len(lines) > 1 and len(widths) == 1 and widths != {1}:
            return kind
    return None


def _extension(name: str) -> str:
    return Path(name).suffix.removeprefix(".").lower()


def _extension_note(name: str, kind: str) -> str | None:
    extension = _extension(name)
    if _TEXT_EXTENSIONS.get(extension, extension) == kind:
        return None
    found = f"확장자는 '.{extension}'이지만 내용은 {_label(kind)} 형식이어서 그렇게 읽었습니다."
    return f"{found} 파일 이름을 고치는 것이 좋습니다."
