"""Markdown and plain text, and the decoding ladder that every text format shares.

Ladder: byte order mark → UTF-16 without a mark → UTF-8 → CP949. Bytes that cannot be read are replaced by
U+FFFD, counted and reported with the place of the first one; the file is never refused for them.
"""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath

from ingest.parsed import DocumentBuilder, ParsedDocument, clean

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE_BYTES = 65_536
_MAX_TITLE = 100
_MAX_HEADING = 40
# Marks of longer lines are not looked for: their patterns would take quadratic time.
_MAX_MARKED = 20_000

# KS X 1001 spells syllables outside its table (똠, 뷁) as filler + initial + medial + final.
_COMPOSED = re.compile("\u3164([ㄱ-ㅎ])([ㅏ-ㅣ])([ㄱ-ㅎ\u3164])")
_INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_FINALS = "\u3164ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"

BULLET = re.compile(r"\s*[-*+•·∙▪◦‣○●\uf000-\uf0ff]\s+(?=\S)")
NUMBERED = re.compile(r"\s*(\d{1,3}[.)]|\(\d{1,2}\)|[가-하][.)]|[①-⑳])\s+(?=\S)")
SENTENCE_END = re.compile(r"([.?!。…]|다|니까|시오|[세해어아예에네지군]요)[\"'”’)\]]*$")

_NO_HEADING = re.compile(r"([.?!。…,;]|니다|니까|시오|[세해]요)[\"'”’)\]]*$")
_NUMBERED_HEADING = re.compile(r"\d{1,2}(\.\d{1,2})*\.?\s+(?!\d+[.,]\s)\S|[가-하]\.\s+\S|제\s*\d+\s*[장절]\s")

_MD_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_MD_BULLET = re.compile(r"\s*[-*+•·]\s+(?=\S)")
_MD_RULE = re.compile(r"\s{0,3}([-*_])\s*(\1\s*){2,}$")
_MD_SETEXT = re.compile(r"(=+|-{3,})\s*$")
_MD_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_MD_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_FOOTNOTE = re.compile(r"\[\^(e?)(\d+)\]:\s*")
_INLINE = (
    (re.compile(r"<br\s*/?>", re.IGNORECASE), " "),
    (re.compile(r"!\[([^\]]*)\]\([^)]*\)"), ""),
    (re.compile(r"\[\^e?\d+\](?!:)"), ""),
    (re.compile(r"\[((?:\\.|[^\]\\])+)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)"), r"\1"),
    (re.compile(r"<((?:https?://|mailto:)[^>]+)>"), r"\1"),
    (re.compile(r"`+([^`]+)`+"), r"\1"),
    (re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*"), r"\1"),
    (re.compile(r"(?<!\w)__(?=\S)(.+?)(?<=\S)__(?!\w)"), r"\1"),
    (re.compile(r"~~(?=\S)(.+?)(?<=\S)~~"), r"\1"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=\S)\*(?![\d*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=[^\s_])([^_]+?)(?<=\S)_(?!\w)"), r"\1"),
    (re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~])"), r"\1"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Text of a file, the encoding it was read with, and remarks on what could not be read."""

    text: str
    encoding: str
    notes: tuple[str, ...] = ()


# --- decoding ---------------------------------------------------------------------------------------------


def decode(data: bytes) -> Decoded:
    """Text of ``data`` by the ladder of the module docstring."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _decode_as(data[len(bom) :], encoding, len(bom))
    return _decode_as(data, guess_encoding(data))


def guess_encoding(data: bytes) -> str:
    """Encoding of bytes without a mark."""
    wide = _utf16_by_nul(data)
    if wide:
        return wide
    if not _errors(data, "utf-8"):
        return "utf-8"
    return _utf16_by_hangul(data) or ("utf-8" if _is_damaged_utf8(data) else "cp949")


def _decode_as(data: bytes, encoding: str, start: int = 0) -> Decoded:
    text = data.decode(encoding, errors="replace").removeprefix("\ufeff")
    bad = text.count("\ufffd") - data.count("\ufffd".encode(encoding)) if encoding != "cp949" else text.count("\ufffd")
    text = _compose_syllables(text).replace("\r\n", "\n").replace("\r", "\n")
    return Decoded(
        text=text, encoding=encoding, notes=(_bad_bytes_note(data, encoding, bad, start),) if bad > 0 else ()
    )


def _bad_bytes_note(data: bytes, encoding: str, count: int, start: int) -> str:
    try:
        data.decode(encoding)
        position = 0
    except UnicodeDecodeError as error:
        position = error.start
    line = data[:position].count(b"\n") + 1
    return (
        f"{encoding.upper()}로 읽을 수 없는 바이트 {count}개를 '\ufffd'로 바꾸었습니다"
        f"(처음: {line}번째 줄, 바이트 위치 {start + position}). 원본을 UTF-8로 다시 저장해 올리면 온전히 읽습니다."
    )


def _utf16_by_nul(data: bytes) -> str | None:
    """ASCII characters in UTF-16 leave a NUL in every second byte: the side it is on tells the byte order."""
    sample = data[:_SAMPLE_BYTES]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if even + odd < max(2, len(sample) // 50):
        return None
    if odd >= 20 * even:
        return "utf-16-le"
    return "utf-16-be" if even >= 20 * odd else None


def _utf16_by_hangul(data: bytes) -> str | None:
    sample = data[: _SAMPLE_BYTES - _SAMPLE_BYTES % 2]
    if len(sample) % 2:
        return None
    for encoding in ("utf-16-le", "utf-16-be"):
        text = sample.decode(encoding, errors="replace")
        known = sum("가" <= char <= "힣" or " " <= char <= "~" or char in "\r\n\t" for char in text)
        if text and known >= 0.95 * len(text):
            return encoding
    return None


def _is_damaged_utf8(data: bytes) -> bool:
    """UTF-8 with a few bad bytes still reads as many multi-byte characters; CP949 text hardly gives any."""
    text = data.decode("utf-8", errors="replace")
    wide = sum(char > "\x7f" and char != "\ufffd" for char in text)
    return wide > 10 * text.count("\ufffd")


def _errors(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return True
    return False


def _compose_syllables(text: str) -> str:
    return _COMPOSED.sub(_compose, text) if "\u3164" in text else text


def _compose(match: re.Match[str]) -> str:
    initial, medial, final = match.groups()
    if initial not in _INITIALS or final not in _FINALS:
        return match.group()
    index = (_INITIALS.index(initial) * 21 + ord(medial) - ord("ㅏ")) * 28 + _FINALS.index(final)
    return chr(ord("가") + index)


def stem_title(name: str) -> str:
    """Title of last resort: the file name without extension, underscores as spaces."""
    return clean(PurePath(name).stem.replace("_", " "))


# --- Markdown ---------------------------------------------------------------------------------------------


def load_markdown(data: bytes, name: str) -> ParsedDocument:
    """Markdown: headings make sections, the first ``# `` is the title, table rows are blocks of their own."""
    decoded = decode(data)
    builder = DocumentBuilder(format="md", notes=list(decoded.notes))
    parse_markdown(builder, decoded.text)
    return builder.build(stem_title(name))


def parse_markdown(builder: DocumentBuilder, text: str) -> None:
    """Feed Markdown into ``builder``; also serves formats that are converted to Markdown first."""
    lines = _front_matter(builder, _without_comments(text).split("\n"))
    position = 0
    while position < len(lines):
        position = _markdown_step(builder, lines, position)


def _without_comments(text: str) -> str:
    """Without ``<!-- … -->``; one that is not closed stays."""
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join(kept) + text[at:]


def plain(text: str) -> str:
    """Markdown inline marks (emphasis, code, links, images, escapes) removed; their text stays."""
    if len(text) > _MAX_MARKED:
        return text.strip()
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return text.strip()


def _markdown_step(builder: DocumentBuilder, lines: list[str], at: int) -> int:
    """Consume one element at line ``at``; return where the next one starts."""
    line = lines[at]
    if not line.strip() or _MD_RULE.match(line):
        return at + 1
    if len(line) <= _MAX_MARKED and (heading := _MD_HEADING.match(line)):
        _markdown_heading(builder, len(heading[1]), heading[2])
        return at + 1
    if _MD_FENCE.match(line):
        return _markdown_fence(builder, lines, at)
    if _is_table(lines, at):
        return _markdown_table(builder, lines, at)
    return _markdown_paragraph(builder, lines, at)


def _markdown_heading(builder: DocumentBuilder, level: int, text: str) -> None:
    if level == 1 and not builder.title:
        builder.title = plain(text)
    else:
        builder.heading(level, plain(text))


def _markdown_fence(builder: DocumentBuilder, lines: list[str], at: int) -> int:
    mark = lines[at].strip()[:3]
    end = at + 1
    while end < len(lines) and not lines[end].strip().startswith(mark):
        builder.paragraph(lines[end])
        end += 1
    return end + 1


def _is_table(lines: list[str], at: int) -> bool:
    if "|" not in lines[at] or at + 1 >= len(lines):
        return False
    return "-" in lines[at + 1] and bool(_MD_DELIMITER.match(lines[at + 1]))


def _markdown_table(builder: DocumentBuilder, lines: list[str], at: int) -> int:
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    builder.table([_table_cells(line) for line in (lines[at], *lines[at + 2 : end])])
    return end


def _table_cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    cells = [plain(cell) for cell in re.split(r"(?<!\\)\|", line)]
    return cells[:-1] if re.search(r"(?<!\\)\|$", line) else cells


def _markdown_paragraph(builder: DocumentBuilder, lines: list[str], at: int) -> int:
    """A paragraph or list item with its continuation lines, joined by spaces."""
    end = at + 1
    while end < len(lines) and not _starts_element(lines, end):
        end += 1
    if end == at + 1 and end < len(lines) and _MD_SETEXT.match(lines[end]) and len(lines[at]) <= _MAX_TITLE:
        _markdown_heading(builder, 1 if lines[end].startswith("=") else 2, lines[at])
        return end + 1
    _add_text(builder, [re.sub(r"^\s*(>\s?)+", "", line).strip() for line in lines[at:end]])
    return end


def _starts_element(lines: list[str], at: int) -> bool:
    line = lines[at]
    patterns = (_MD_HEADING, _MD_BULLET, NUMBERED, _MD_RULE, _MD_SETEXT, _MD_FENCE)
    return not line.strip() or any(pattern.match(line) for pattern in patterns) or _is_table(lines, at)


def _add_text(builder: DocumentBuilder, lines: Sequence[str]) -> None:
    text = _FOOTNOTE.sub(_footnote, " ".join(line for line in lines if line))
    if _MD_BULLET.match(text):
        builder.list_item(plain(_MD_BULLET.sub("", text, count=1)))
    elif NUMBERED.match(text):
        builder.list_item(plain(text))
    else:
        builder.paragraph(plain(text))


def _footnote(match: re.Match[str]) -> str:
    return f"{'미주' if match[1] else '각주'} {match[2]}: "


def _front_matter(builder: DocumentBuilder, lines: list[str]) -> list[str]:
    """Take title, author and date from a leading ``---`` block and return the lines after it."""
    if not lines or lines[0].strip() != "---" or "---" not in lines[1:40]:
        return lines
    end = lines.index("---", 1)
    pairs = (line.split(":", 1) for line in lines[1:end] if ":" in line)
    entries = {key.strip(): value.strip(" \"'") for key, value in pairs}
    builder.title = entries.get("title") or entries.get("제목") or ""
    builder.author = entries.get("author") or entries.get("작성자")
    builder.created = _iso(entries.get("date") or entries.get("작성일") or "")
    return lines[end + 1 :]


def _iso(text: str) -> date | None:
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


# --- plain text -------------------------------------------------------------------------------------------


def load_text(data: bytes, name: str) -> ParsedDocument:
    """Plain text: the first line is the title, short numbered or marked lines are headings."""
    decoded = decode(data)
    builder = DocumentBuilder(format="txt", notes=list(decoded.notes))
    parse_plain(builder, decoded.text)
    return builder.build(stem_title(name))


def parse_plain(builder: DocumentBuilder, text: str) -> None:
    """Feed plain text into ``builder``."""
    lines = [line.rstrip() for line in text.split("\n")]
    start = _plain_title(builder, lines)
    levels: list[str] = []
    pending: list[str] = []
    previous = ""
    following = _following(lines)
    for position in range(start, len(lines)):
        line = lines[position]
        style = heading_style(line, previous, following[position])
        previous = line.strip() or previous
        if pending and (style or not line.strip() or _is_item(line) or not _is_wrapped(pending[-1])):
            _flush(builder, pending)
        if style:
            builder.heading(heading_level(style, levels), _heading_text(line))
        elif line.strip():
            pending.append(line)
    _flush(builder, pending)


def heading_style(line: str, previous: str, following: str) -> str | None:
    """ "[]", "■", "1" or "가" when a short line without sentence end looks like a heading of that style.

    A numbered line next to another one of the same numbering is a list item, not a heading.
    """
    text = line.strip()
    if not text or len(text) > _MAX_HEADING or _NO_HEADING.search(text):
        return None
    if re.fullmatch(r"\[[^\[\]]+\]|【[^】]+】|<[^<>]+>", text):
        return "[]"
    if mark := re.match(r"[■□◆◇▣▶◎]\s*(?=\S)", text):
        return mark[0].strip()
    numbered = _NUMBERED_HEADING.match(text)
    if not numbered or not following or any(_same_numbering(text, other.strip()) for other in (previous, following)):
        return None
    return _number_style(text)


def heading_level(style: str, styles: list[str]) -> int:
    """Level of a heading style: "[제목]" and "제1장" on top, the others in the order they first appear (noted here)."""
    if style in ("[]", "제"):
        return 1
    styles += [] if style in styles else [style]
    return styles.index(style) + 2


def _number_style(text: str) -> str:
    if text.startswith("제"):
        return "제"
    return re.sub(r"\d+", "1", text.split()[0].rstrip(".")) if text[0].isdigit() else "가"


def _same_numbering(text: str, other: str) -> bool:
    """ "1. …" and "2. …" belong together, "1. …" and "1) …" do not."""
    first, second = NUMBERED.match(text), NUMBERED.match(other)
    return bool(first and second) and _pattern(text) == _pattern(other)


def _pattern(text: str) -> str:
    return re.sub(r"[가-힣]", "가", re.sub(r"\d+", "1", text.split()[0]))


def _heading_text(line: str) -> str:
    text = line.strip()
    if text[0] in "[【<":
        text = text[1:-1]
    return re.sub(r"^[■□◆◇▣▶◎]\s*", "", text).rstrip(" :")


def _plain_title(builder: DocumentBuilder, lines: list[str]) -> int:
    """Set the title from the first filled line; return where the body starts (a sentence stays in the body)."""
    first = next((position for position, line in enumerate(lines) if line.strip()), len(lines))
    if first == len(lines) or len(clean(lines[first][: 4 * _MAX_TITLE])) > _MAX_TITLE:
        return first
    has_body = any(line.strip() for line in lines[first + 1 :])
    builder.title = _heading_text(lines[first]) if heading_style(lines[first], "", "") else lines[first].strip()
    return first + 1 if has_body and not SENTENCE_END.search(lines[first].strip()) else first


def _following(lines: list[str]) -> list[str]:
    """For each line the next line that is not blank, "" at the end."""
    following: list[str] = []
    filled = ""
    for line in reversed(lines):
        following.append(filled)
        filled = line if line.strip() else filled
    return following[::-1]


def _is_item(line: str) -> bool:
    return bool(BULLET.match(line) or NUMBERED.match(line))


def _is_wrapped(line: str) -> bool:
    """A long line that does not end a sentence was broken by an editor and goes on in the next one."""
    return len(line) >= _MAX_HEADING and not SENTENCE_END.search(line)


def _flush(builder: DocumentBuilder, pending: list[str]) -> None:
    text = " ".join(line.strip() for line in pending)
    pending.clear()
    add_line(builder, text)


def add_line(builder: DocumentBuilder, text: str, locator: str = "") -> None:
    """Add ``text`` as a list item if it starts with a bullet (dropped) or a number (kept), else as a paragraph."""
    if BULLET.match(text):
        builder.list_item(BULLET.sub("", text, count=1), locator)
    elif NUMBERED.match(text):
        builder.list_item(text, locator)
    else:
        builder.paragraph(text, locator)
