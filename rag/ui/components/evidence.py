"""The evidence card, the list of evidence, and the original document in a dialog."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import streamlit as st

from rag.answering.calibration import Relevance
from rag.citations import place_of
from rag.errors import RagError
from rag.render import numbered
from rag.schema import ChunkRecord, Citation
from rag.stores.record import DocumentRow
from rag.ui.components.answer import close_card, open_card, opened
from rag.ui.escape import html_text, plain, shortened
from rag.ui.library import Library, scope_label, scope_of
from rag.ui.turn import Turn

# Fetched pages; those of the web channel are read for one question and not kept.
WEB_DOCUMENTS = "public/web/"
# Characters of the original shown on each side of the cited sentence before "전문 보기".
_AROUND = 900


def relevance_word(cosine: float, levels: Relevance | None) -> str:
    """A plain word for a cosine; none without the encoder's levels."""
    if levels is None:
        return ""
    return "높음" if cosine >= levels.high else "보통" if cosine >= levels.usual else "낮음"


def opened_card(turn: Turn, library: Library, farms: dict[str, str], levels: Relevance | None, key: str) -> None:
    """The evidence card that the reader opened, if any."""
    place = opened(key)
    if place is None:
        return
    chunk_id, start = place
    citation = numbered(turn.answer).get((chunk_id, start), (0, None))[1]
    read = [item.chunk.doc_id for item in turn.evidence if item.chunk.chunk_id == chunk_id]
    doc_id = citation.doc_id if citation is not None else next(iter(read), None)
    if doc_id is None:
        close_card(key)
        return
    with st.container(border=True, key=f"card-{key}", gap="small"):
        try:
            _card(library, farms, levels, doc_id, chunk_id, citation, key)
        except RagError as error:
            st.error(plain(str(error)))
            _close_button(key)


def _close_button(key: str) -> None:
    st.button("닫기", key=f"close-{key}", icon=":material/close:", type="tertiary", on_click=close_card, args=(key,))


def _card(
    library: Library,
    farms: dict[str, str],
    levels: Relevance | None,
    doc_id: str,
    chunk_id: str,
    citation: Citation | None,
    key: str,
) -> None:
    chunk = library.passage(scope_of(doc_id), chunk_id)
    if chunk is None:
        if citation is not None and doc_id.startswith(WEB_DOCUMENTS):
            st.info(plain(f"이 질문에만 읽은 웹 문서라 색인에는 없습니다: {citation.locator}"))
        else:
            st.info("이 문단은 지금 색인에 없습니다. 문서를 지웠거나 새 판으로 바꾼 것입니다.")
        if citation is not None:
            st.html(f"<div class='on-passage'>{html_text(citation.sentence)}</div>")
        _close_button(key)
        return
    st.html(_card_head(chunk, citation, farms, levels))
    near = st.session_state.get(f"near-{key}", False)
    before, after = library.neighbours(chunk) if near else (None, None)
    _neighbour(before)
    st.html(f"<div class='on-passage'>{passage_html(chunk.text, citation)}</div>")
    _neighbour(after)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.toggle("앞뒤 문단", key=f"near-{key}")
        if st.button("원문 열기", key=f"original-{key}", icon=":material/description:"):
            original_dialog(library, doc_id, citation.sentence if citation else shortened(chunk.text, 60).rstrip("…"))
        _close_button(key)


def _card_head(chunk: ChunkRecord, citation: Citation | None, farms: dict[str, str], levels: Relevance | None) -> str:
    tags = [place_of(chunk), chunk.date or "날짜 없음", chunk.kind, scope_label(chunk.scope_id, farms)]
    if citation is not None:
        tags.append(" ".join(("관련도", relevance_word(citation.cosine, levels), f"({citation.cosine:.2f})")))
        tags.append("확인: " + ", ".join(citation.checks) if citation.checks else "")
    shown = "".join(f"<span class='on-tag'>{html_text(tag)}</span>" for tag in tags if tag)
    warning = ""
    if citation is not None and levels is not None and citation.cosine < levels.usual:
        warning = "<div class='on-note'>질문과의 관련도가 낮은 근거입니다. 원문을 확인해 주세요.</div>"
    return f"<div><div class='on-head'>{html_text(chunk.title)}</div><div>{shown}</div>{warning}</div>"


def _neighbour(chunk: ChunkRecord | None) -> None:
    if chunk is not None:
        st.html(f"<div class='on-passage on-near'>{html_text(chunk.text)}</div>")


def passage_html(text: str, citation: Citation | None) -> str:
    """The passage, its cited sentence marked."""
    if citation is None:
        return html_text(text)
    start, end = citation.start, citation.end
    return f"{html_text(text[:start])}<mark>{html_text(text[start:end])}</mark>{html_text(text[end:])}"


def evidence_list(turn: Turn, levels: Relevance | None, key: str) -> None:
    """Cited sentences, then the passages that were read but not cited."""
    cited = list(numbered(turn.answer).values())
    for number, citation in cited:
        place = html_text(" · ".join(part for part in (citation.title, citation.locator) if part))
        word = relevance_word(citation.cosine, levels)
        tag = f" <span class='on-tag'>관련도 {word}</span>" if word else ""
        st.html(
            f"<div class='on-rank'><b>[{number}] {place}</b>{tag}"
            f"<div class='on-passage'>{html_text(citation.sentence)}</div></div>"
        )
    used = {citation.chunk_id for _, citation in cited}
    unused = [item for item in turn.evidence[: turn.top_k] if item.chunk.chunk_id not in used]
    if unused:
        st.caption(f"읽었지만 인용하지 않은 문단 {len(unused)}개")
    rows = st.container(gap="xxsmall")
    for item in unused:
        label = " · ".join(part for part in (item.chunk.title, place_of(item.chunk)) if part)
        rows.button(
            plain(shortened(label, 46)),
            key=f"unused-{key}-{item.chunk.chunk_id}",
            type="tertiary",
            icon=":material/article:",
            on_click=open_card,
            args=(key, item.chunk.chunk_id),
        )


@st.dialog("원문", width="medium")
def original_dialog(library: Library, doc_id: str, sentence: str) -> None:
    """The document's stored text, the sentence marked, and its original to take away."""
    try:
        document = library.document(doc_id)
    except RagError as error:
        st.error(plain(str(error)))
        return
    if document is None:
        st.info("이 문서는 지금 색인에 없습니다.")
        return
    about = " · ".join(part for part in (document.path, document.date, document.author, document.format) if part)
    st.html(f"<div class='on-head'>{html_text(document.title)}</div><div class='on-muted'>{html_text(about)}</div>")
    with st.container(horizontal=True, vertical_alignment="center"):
        whole = st.toggle("전문 보기", key="original-whole")
        _download(library, document)
    shown, found = original_html(document.text, sentence, None if whole else _AROUND)
    if not found:
        st.caption("원문에서 이 문장을 글자 그대로 찾지 못해 표시하지 못했습니다(표에서 온 문장일 수 있습니다).")
    st.html(f"<div class='on-passage'>{shown}</div>")


def _download(library: Library, document: DocumentRow) -> None:
    try:
        data = library.original(document)
    except OSError:
        st.caption("보관한 원본 파일을 읽을 수 없습니다. 문서를 다시 넣어 주세요.")
        return
    name = PurePosixPath(document.path).name
    st.download_button(
        "원본 내려받기", data, file_name=name, mime="application/octet-stream", icon=":material/download:"
    )


def original_html(text: str, sentence: str, around: int | None) -> tuple[str, bool]:
    """A document's text with ``sentence`` marked, and whether it was found.

    ``around``: characters kept on each side, None for all. White space may differ between the two.
    """
    words = sentence.split()
    match = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    if match is None:
        shown = text if around is None else text[: 2 * around]
        return html_text(shown) + ("…" if len(shown) < len(text) else ""), False
    first = 0 if around is None else max(0, match.start() - around)
    last = len(text) if around is None else min(len(text), match.end() + around)
    return (
        ("…" if first else "")
        + html_text(text[first : match.start()])
        + f"<mark>{html_text(match[0])}</mark>"
        + html_text(text[match.end() : last])
        + ("…" if last < len(text) else ""),
        True,
    )
