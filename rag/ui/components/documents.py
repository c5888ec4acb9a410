"""Pieces of the documents page: the rows of the intake, the list, one document with its chunks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePosixPath

import streamlit as st

from ingest.limits import size_text
from ingest.writer import FileStatus
from rag.errors import RagError
from rag.schema import LEVELS, ChunkRecord, Level
from rag.stores.record import DocumentRow
from rag.text import nfc
from rag.ui.components.evidence import original_html
from rag.ui.escape import html_text, plain, shortened
from rag.ui.intake import LABELS, Row, State
from rag.ui.library import Library, Listed, scope_label

LEVEL_LABELS: dict[Level, str] = {"G1": "G1 문장 묶음", "G2": "G2 문단", "G3": "G3 절"}
SORTS: dict[str, str] = {
    "date": "날짜(새것부터)",
    "title": "제목",
    "path": "파일 이름",
    "kind": "종류",
    "bytes": "크기",
}
_CHUNKS_A_PAGE = 10
_AROUND = 3_000
_WAITING_SHOWN, _MEMBERS_SHOWN = 10, 30
_MARKS: dict[State, str] = {
    "waiting": "…", "reading": "▶", "indexed": "✓", "updated": "✓", "unchanged": "=", "duplicate": "=",
    "partly": "!", "failed": "✗", "removed": "−", "cancelled": "−",
}  # fmt: skip
_TASKS = {"take": "", "remove": "빼기: ", "reindex": "다시 색인: ", "rebuild": "다시 색인: "}


def rows_html(rows: Sequence[tuple[str, Row]], farms: dict[str, str]) -> str:
    """The intake's rows with their scope ids: what is being read, what waits, then what is done, the last first."""
    reading = [pair for pair in rows if pair[1].state == "reading"]
    waiting = [pair for pair in rows if pair[1].state == "waiting"]
    done = [pair for pair in rows if not pair[1].open]
    lines = [_row(row, scope_label(scope_id, farms)) for scope_id, row in (*reading, *waiting[:_WAITING_SHOWN])]
    if len(waiting) > _WAITING_SHOWN:
        lines.append(f"<tr><td></td><td colspan='3'>그리고 {len(waiting) - _WAITING_SHOWN:,}개가 기다립니다.</td></tr>")
    lines += [_row(row, scope_label(scope_id, farms)) for scope_id, row in reversed(done)]
    head = "<tr><th>상태</th><th>파일</th><th>자료</th><th>이유 · 비고</th></tr>"
    return f"<div class='on-scroll'><table class='on-table'>{head}{''.join(lines)}</table></div>"


def _row(row: Row, scope: str) -> str:
    name = html_text(_TASKS[row.task] + row.name)
    return (
        f"<tr><td class='on-nowrap'>{_state(row)}</td><td class='on-name'>{name}</td>"
        f"<td class='on-nowrap'>{html_text(scope)}</td><td class='on-name'>{_remarks(row)}</td></tr>"
    )


def _state(row: Row) -> str:
    tone = "on-down" if row.state in ("failed", "partly") else "on-up" if row.state in ("indexed", "updated") else ""
    since = f" {time.monotonic() - row.began:.0f}초" if row.state == "reading" and row.began is not None else ""
    return f"<span class='{tone}'>{_MARKS[row.state]} {LABELS[row.state]}{since}</span>"


def _remarks(row: Row) -> str:
    """Reason, what was found in the file, its notes; the files of an archive, failures first."""
    if len(row.results) == 1:
        return _result(row.reason, row.results[0]) + _unseen(row)
    members = sorted(row.results, key=lambda status: status.status != "failed")
    told = html_text(row.reason or (f"파일 {len(members):,}개째" if members else ""))
    shown = "".join(
        f"<div>{_MARKS[m.status]} {html_text(m.path)}: {_result(m.reason or LABELS[m.status], m)}</div>"
        for m in members[:_MEMBERS_SHOWN]
        if not row.open
    )
    more = f"<div>그리고 {len(members) - _MEMBERS_SHOWN:,}개</div>" if len(members) > _MEMBERS_SHOWN else ""
    details = f"<details><summary>파일마다 보기</summary>{shown}{more}</details>" if shown else ""
    return told + _unseen(row) + details


def _result(reason: str, status: FileStatus) -> str:
    facts = [f"{status.pages}쪽" if status.pages else "", f"문단 {status.chunks:,}" if status.chunks else ""]
    facts += [f"표 {status.tables:,}" if status.tables else "", *status.notes]
    text = " · ".join(part for part in (status.format, *facts) if part) if status.format else ""
    muted = f"<span class='on-muted'>{html_text(text)}</span>" if text else ""
    return f"{html_text(reason)}{' ' if reason and muted else ''}{muted}"


def _unseen(row: Row) -> str:
    if row.open or row.seen:
        return ""
    return " <span class='on-tag'>곧 답에 쓰입니다</span>"


def found(listed: Sequence[Listed], words: str) -> list[Listed]:
    """The documents whose title, file name, kind, crop or author hold every word, whatever the letters' case."""
    wanted = nfc(words).casefold().split()
    return [item for item in listed if all(word in _haystack(item.document) for word in wanted)]


def _haystack(document: DocumentRow) -> str:
    return "\n".join(
        (document.title, document.path, document.kind, document.crop, document.author, document.date)
    ).casefold()


def ordered(listed: Sequence[Listed], by: str) -> list[Listed]:
    """By a key of ``SORTS``; equal ones by title."""
    items = sorted(listed, key=lambda item: (item.document.title, item.document.doc_id))
    match by:
        case "date":
            return sorted(items, key=lambda item: item.document.date, reverse=True)
        case "bytes":
            return sorted(items, key=lambda item: -item.document.bytes)
        case _:
            return sorted(items, key=lambda item: str(getattr(item.document, by)))


def table(listed: Sequence[Listed], farms: dict[str, str]) -> dict[str, list[str | int]]:
    """The list's columns."""
    columns: dict[str, list[str | int]] = {
        name: [] for name in ("제목", "자료", "종류", "날짜", "형식", "크기", "문단", "작목", "작성자", "파일", "비고")
    }
    for item in listed:
        document = item.document
        remark = "" if item.seen else "곧 답에 쓰임"
        values: tuple[str | int, ...] = (
            document.title,
            scope_label(item.scope_id, farms),
            document.kind,
            document.date,
            document.format,
            document.bytes,
            item.chunks,
            document.crop,
            document.author,
            document.path,
            " · ".join(part for part in (remark, *document.notes) if part),
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns


def document_head(document: DocumentRow, scope: str, counts: dict[Level, int]) -> str:
    """Title, what is known of the document, and its notes."""
    facts = [
        scope,
        document.kind,
        document.crop,
        document.date or "날짜 없음",
        document.author and f"작성 {document.author}",
        " ".join(document.houses),
        document.format,
        size_text(document.bytes),
        document.pages and f"{document.pages:,}쪽",
        f"{document.characters:,}자",
        document.tables and f"표 {document.tables:,}개",
        f"문단 {counts['G2']:,}개",
    ]
    tags = "".join(f"<span class='on-tag'>{html_text(str(fact))}</span>" for fact in facts if fact)
    notes = "".join(f"<div class='on-note'>{html_text(note)}</div>" for note in document.notes)
    path = f"<div class='on-muted on-name'>{html_text(document.path)}</div>"
    return f"<div><div class='on-head'>{html_text(document.title)}</div>{path}<div>{tags}</div>{notes}</div>"


def chunk_preview(library: Library, document: DocumentRow, counts: dict[Level, int]) -> None:
    """The document's chunks at the level that the reader chose."""
    level = st.segmented_control(
        "문단 보기",
        LEVELS,
        default="G2",
        required=True,
        format_func=lambda name: f"{LEVEL_LABELS[name]} {counts[name]:,}",
        key=f"level-{document.doc_id}",
        label_visibility="collapsed",
    )
    if level is None or not counts[level]:
        st.caption("찾을 수 있는 문단이 없습니다. 다시 색인하거나 원본을 확인해 주세요.")
        return
    pages = -(-counts[level] // _CHUNKS_A_PAGE)
    number = st.pagination(pages, key=f"chunks-{level}-{document.doc_id}") if pages > 1 else 1
    chunks = library.chunks(document.doc_id, level, start=(number - 1) * _CHUNKS_A_PAGE, limit=_CHUNKS_A_PAGE)
    st.html("".join(map(chunk_html, chunks)))


def chunk_html(chunk: ChunkRecord) -> str:
    """One chunk: its number, place and length, then its text."""
    place = " · ".join(part for part in (chunk.section, chunk.locator) if part)
    about = f"{chunk.ordinal + 1}. {place or '본문'} ({len(chunk.text):,}자)"
    return (
        f"<div class='on-rank'><div class='on-muted'>{html_text(about)}</div>"
        f"<div class='on-passage'>{html_text(chunk.text)}</div></div>"
    )


@st.dialog("원문", width="medium")
def document_dialog(library: Library, doc_id: str) -> None:
    """The document's stored text and its original to take away."""
    try:
        document = library.document(doc_id)
        data = b"" if document is None else library.original(document)
    except RagError as error:
        st.error(plain(str(error)))
        return
    except OSError:
        st.caption("보관한 원본 파일을 읽을 수 없습니다. 문서를 다시 넣어 주세요.")
        data = b""
    if document is None:
        st.info("이 문서는 지금 색인에 없습니다.")
        return
    st.html(
        f"<div class='on-head'>{html_text(document.title)}</div><div class='on-muted'>{html_text(document.path)}</div>"
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        whole = st.toggle("전문 보기", key="document-whole") if len(document.text) > 2 * _AROUND else True
        if data:
            st.download_button(
                "원본 내려받기",
                data,
                file_name=PurePosixPath(document.path).name,
                mime="application/octet-stream",
                icon=":material/download:",
            )
    st.html(f"<div class='on-passage'>{original_html(document.text, '', None if whole else _AROUND)[0]}</div>")


def label_of(document: DocumentRow) -> str:
    """A document in a button or a sentence."""
    return plain(shortened(document.title, 40))
