"""Which format the bytes are. The extension only tells kinds of text apart; what is foreign, locked, cut or carries
macros is refused here, before any parser sees it.
"""

import csv
import io
import re
import zipfile
import zlib
from pathlib import PurePath
from typing import Final

import olefile  # type: ignore[import-untyped]

from ingest.limits import Limits, size_text
from ingest.loaders.text import decode
from rag.errors import IngestError

SUPPORTED: Final = ("pdf", "hwp", "hwpx", "docx", "doc", "xlsx", "xls", "html", "md", "csv", "tsv", "txt", "zip")
TEXT_EXTENSIONS: Final = {
    "md": "md",
    "markdown": "md",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "txt": "txt",
    "text": "txt",
    "": "txt",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
}
_LABELS: Final = {
    "md": "마크다운",
    "txt": "일반 글",
    "hwp": "한글(HWP)",
    "hwpx": "한글(HWPX)",
    "docx": "워드(DOCX)",
    "doc": "워드 97-2003(DOC)",
    "xlsx": "엑셀(XLSX)",
    "xls": "엑셀 97-2003(XLS)",
}
_BINARY_EXTENSIONS: Final = frozenset(
    {"pdf", "hwp", "hwpx", "docx", "docm", "doc", "xlsx", "xlsm", "xls", "pptx", "ppt", "zip"}
)
_PACKED: Final = frozenset({"hwpx", "docx", "docm", "xlsx", "xlsm", "pptx"})
_LEAST_TEXT: Final = 64

_ZIP_MEMBERS: Final = (
    ("word/document.xml", "docx"),
    ("xl/workbook.xml", "xlsx"),
    ("Contents/section0.xml", "hwpx"),
    ("Contents/content.hpf", "hwpx"),
)
_ZIP_FOREIGN: Final = (
    ("ppt/presentation.xml", "파워포인트(PPTX)"),
    ("xl/workbook.bin", "엑셀 이진(XLSB)"),
    ("META-INF/container.xml", "전자책(EPUB)"),
    ("content.xml", "오픈오피스(ODF)"),
)
_OLE_STREAMS: Final = (("WordDocument", "doc"), ("Workbook", "xls"), ("Book", "xls"))
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
_ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_BLOCK: Final = 1 << 20
_MIN_XML: Final = 100_000_000

_HTML = re.compile(r"<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_PROLOG = re.compile(r"\s*(<!--|<\?)")
_PROLOG_ENDS = {"<!--": "-->", "<?": "?>"}
_HTML_PART = re.compile(r"<(?:head|meta|body|table|div|style|p|h[1-6])\b[^>]*>", re.IGNORECASE)


def sniff(data: bytes, name: str, limits: Limits) -> str:
    """The key of ``LOADERS`` that fits the bytes, or "zip" for an archive of files.

    Raises:
        IngestError: a foreign, password-protected, damaged or over-large file, or one with macros.
    """
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(_ZIP_MAGICS):
        return _sniff_zip(data, name, limits)
    if data.startswith(_OLE_MAGIC):
        return _sniff_ole(data, name)
    for magic, label in _FOREIGN:
        if data.startswith(magic):
            raise unsupported(name, label)
    return _sniff_text(data, name)


# --- refusals ---------------------------------------------------------------------------------------------


def damaged(name: str, kind: str, error: BaseException) -> IngestError:
    """A file that its own program has to write again."""
    return IngestError(
        f"'{name}': {label(kind)} 파일이 손상되어 읽을 수 없습니다({type(error).__name__}). "
        "원래 프로그램에서 열어 다시 저장한 뒤 올려 주세요."
    )


def unsupported(name: str, found: str) -> IngestError:
    """A format that is not read."""
    return IngestError(
        f"'{name}': 아직 지원하지 않는 형식입니다({found}). 지원하는 형식({', '.join(SUPPORTED)})으로 바꾸어 올려 주세요."
    )


def locked(name: str) -> IngestError:
    """A file with a password."""
    return IngestError(f"'{name}': 암호가 걸린 파일입니다. 암호를 풀어 저장한 뒤 다시 올려 주세요.")


def _macros(name: str, clean_format: str) -> IngestError:
    """Nobody should get a macro handed on by "원문 열기"."""
    return IngestError(
        f"'{name}': 매크로(VBA)가 든 파일은 받지 않습니다. 매크로 없이 {clean_format}(으)로 저장해 다시 올려 주세요."
    )


def label(kind: str) -> str:
    """A format's name as a person knows it."""
    return _LABELS.get(kind, kind.upper())


def extension(name: str) -> str:
    """The ending of a file name, lower case, without the dot."""
    return PurePath(name).suffix.removeprefix(".").lower()


def extension_note(name: str, kind: str) -> str | None:
    """A remark where the extension promises another format than the bytes hold."""
    found = extension(name)
    if TEXT_EXTENSIONS.get(found, found) == kind:
        return None
    return f"확장자는 '.{found}'이지만 내용은 {label(kind)} 형식이어서 그렇게 읽었습니다. 파일 이름을 고치는 것이 좋습니다."


def is_archive(data: bytes, name: str) -> bool:
    """Whether this is a ZIP of files, and not a document that is packed as one."""
    if not data.startswith(_ZIP_MAGICS) or extension(name) in _PACKED:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return not any(member in names for member, _ in (*_ZIP_MEMBERS, *_ZIP_FOREIGN))


# --- archives ---------------------------------------------------------------------------------------------


def _sniff_zip(data: bytes, name: str, limits: Limits) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            kind = _zip_kind(archive, name)
            if kind != "zip":
                _check_expansion(archive, name, limits)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, zlib.error) as error:
        raise damaged(name, extension(name) or "zip", error) from error
    return kind


def _zip_kind(archive: zipfile.ZipFile, name: str) -> str:
    members = archive.infolist()
    names = {member.filename for member in members}
    kind = next((kind for member, kind in _ZIP_MEMBERS if member in names), "zip")
    if kind == "zip":
        foreign = next((found for member, found in _ZIP_FOREIGN if member in names), None)
        if foreign:
            raise unsupported(name, foreign)
        if extension(name) in _PACKED:
            raise damaged(name, extension(name), zipfile.BadZipFile())
    elif any(member.flag_bits & 1 for member in members):
        raise locked(name)
    if any(member.lower().endswith("vbaproject.bin") for member in names):
        raise _macros(name, "docx" if kind == "docx" else "xlsx")
    return kind


def _check_expansion(archive: zipfile.ZipFile, name: str, limits: Limits) -> None:
    """Unpack the parts that parsers read, without keeping them: a small file may unpack to more than the memory holds.

    A part that is longer than it says fails its checksum here, before a native reader trusts it.
    """
    parts = [member for member in archive.infolist() if member.filename.lower().endswith((".xml", ".rels", ".hpf"))]
    expanded = sum(part.file_size for part in parts)
    allowed = max(_MIN_XML, 2 * limits.bytes)
    if expanded > allowed:
        raise IngestError(
            f"'{name}': 압축을 풀면 너무 큽니다({size_text(expanded)}, 한도 {size_text(allowed)}). 나누어 올려 주세요."
        )
    for part in parts:
        with archive.open(part) as stream:
            while stream.read(_BLOCK):
                pass


# --- old Office and HWP 5 share one container -------------------------------------------------------------


def _sniff_ole(data: bytes, name: str) -> str:
    """Password-protected new Office files sit in this container, too."""
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            streams = {"/".join(entry) for entry in container.listdir(streams=True, storages=True)}
    except Exception as error:  # olefile raises OSError, IndexError, struct.error … on cut files
        raise damaged(name, extension(name) or "ole", error) from error
    if "EncryptedPackage" in streams:
        raise locked(name)
    if "FileHeader" in streams:
        return "hwp"
    kind = next((kind for stream, kind in _OLE_STREAMS if stream in streams), None)
    if kind is None:
        raise unsupported(name, "파워포인트(PPT)" if "PowerPoint Document" in streams else "OLE")
    if streams & {"Macros", "_VBA_PROJECT_CUR"}:
        raise _macros(name, f"{kind}x")
    return kind


# --- text -------------------------------------------------------------------------------------------------


def _sniff_text(data: bytes, name: str) -> str:
    text = decode(data[:65_536]).text
    found = extension(name)
    if _is_binary(text):
        raise unsupported(name, f"알 수 없는 이진 파일, 확장자 '{found}'")
    known = TEXT_EXTENSIONS.get(found)
    start = _after_prolog(text)
    if _HTML.match(text, start) or (known in (None, "html") and _HTML_PART.match(text, start)):
        return "html"
    if text.lstrip()[:200].lower().startswith("<?xml") and known != "html":
        if "<hwpml" in text[:2000].lower():
            return "hwp"
        raise unsupported(name, "XML")
    kind = known or _guess_delimited(text) or "txt"
    if kind == "txt" and found in _BINARY_EXTENSIONS and len(data) < _LEAST_TEXT:
        raise IngestError(
            f"'{name}': 확장자는 '.{found}'인데 내용이 {label(found)} 형식이 아닙니다({len(data)}바이트). "
            "받다가 끊긴 파일일 수 있으니 원본을 다시 받아 올려 주세요."
        )
    return kind


def _after_prolog(text: str) -> int:
    """Where a page's first element may stand: behind white space, an XML declaration and comments."""
    at = 0
    while match := _PROLOG.match(text, at):
        end = text.find(_PROLOG_ENDS[match[1]], match.end())
        if end < 0:
            break
        at = end + len(_PROLOG_ENDS[match[1]])
    return at + len(text[at:]) - len(text[at:].lstrip())


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
