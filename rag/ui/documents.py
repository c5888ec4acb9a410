"""The documents page, top to bottom: what to take in, what is being taken in, the list, one document with its chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import streamlit as st

from rag.errors import RagError
from rag.schema import LEVELS
from rag.ui.components.documents import (
    SORTS,
    chunk_preview,
    document_dialog,
    document_head,
    found,
    label_of,
    ordered,
    rows_html,
    table,
)
from rag.ui.escape import plain
from rag.ui.intake import Desk, changeable, desk_of
from rag.ui.library import Listed, scope_label, scope_of
from rag.ui.session import Session, current, settings_key

_POLL_S = 1.0
_ROWS_A_PAGE = 50
_ROW_PX = 36
_FORMATS = "PDF · HWP · HWPX · DOC · DOCX · XLS · XLSX · CSV · TSV · HTML · MD · TXT · ZIP"


def page() -> None:
    """Draw the page."""
    session = current()
    desks = {s: desk_of(session.settings, session.scope, s) for s in changeable(session.settings, session.scope)}
    st.subheader("문서")
    if desks:
        _drop_zone(session, desks)
        _work(session, desks)
    else:
        st.info(
            "공용 자료는 이 화면에서 바꿀 수 없게 되어 있습니다. 왼쪽에서 농장을 고르면 그 농장의 자료를 넣을 수 있습니다."
        )
    shown = _list(session, desks)
    doc_id = st.session_state.get(_opened_key(session))
    if shown and doc_id is not None:
        with st.container(border=True, key="document-card"):
            try:
                _document(session, doc_id, desks.get(scope_of(doc_id)))
            except RagError as error:
                st.error(plain(str(error)))


def _drop_zone(session: Session, desks: dict[str, Desk]) -> None:
    farms, place = session.settings.farms, settings_key(session.scope)
    with st.container(border=True, key="drop-zone"):
        scope_id = st.segmented_control(
            "어디에 넣을까요?",
            list(desks),
            default=next(iter(desks)),
            required=True,
            format_func=lambda s: scope_label(s, farms),
            key=f"scope-{place}",
            help="우리 농장 자료는 이 농장을 고른 사람만 봅니다. 공용 자료는 모든 농장의 답에 쓰입니다.",
        )
        turn = st.session_state.setdefault("uploads", 0)
        limit = session.settings.ingest_limit_mb
        uploads = st.file_uploader(
            f"파일을 여기에 놓거나 고르세요 ({_FORMATS}, 하나에 {limit}MB 까지)",
            accept_multiple_files=True,
            max_upload_size=limit,
            key=f"uploads-{place}-{turn}",
        )
        where = scope_label(scope_id or next(iter(desks)), farms)
        label = f"{where}에 넣기" + (f" ({len(uploads)}개)" if uploads else "")
        if st.button(plain(label), type="primary", icon=":material/upload:", disabled=not uploads, key="take-in"):
            desks[scope_id or next(iter(desks))].put(uploads)
            st.session_state.uploads = turn + 1  # a new uploader: the server forgets the bytes of the old one
            st.rerun()


def _work(session: Session, desks: dict[str, Desk]) -> None:
    """The rows of the intake, drawn anew every second while there is work; the whole page when questions see more."""
    busy = any(desk.busy for desk in desks.values())
    seen = _seen(desks)

    def draw() -> None:
        rows = [(scope_id, row) for scope_id, desk in desks.items() for row in desk.rows()]
        if rows:
            _progress(desks, len(rows), sum(not row.open for _, row in rows))
            with st.container(height=360 if len(rows) > 8 else "content", border=False, key="intake-rows"):
                st.html(rows_html(rows, session.settings.farms))
            _row_buttons(desks)
        if _seen(desks) != seen or any(desk.busy for desk in desks.values()) != busy:
            st.rerun()

    st.fragment(draw, run_every=_POLL_S if busy else None)()


def _seen(desks: dict[str, Desk]) -> int:
    return sum(row.seen for desk in desks.values() for row in desk.rows())


def _progress(desks: dict[str, Desk], total: int, done: int) -> None:
    if any(desk.busy for desk in desks.values()):
        told = f"{total:,}개 가운데 {done:,}개 끝남" if done < total else "답에 쓰이게 하는 중"
        st.progress(done / total, text=f"{told} — 그동안 대화를 계속할 수 있습니다.")
    for desk in desks.values():
        if desk.hindrance:
            st.warning(plain(f"{desk.hindrance} 자리가 나면 이어서 합니다."))


def _row_buttons(desks: dict[str, Desk]) -> None:
    rows = [row for desk in desks.values() for row in desk.rows()]
    with st.container(horizontal=True):
        if any(row.state == "waiting" for row in rows):
            st.button(
                "기다리는 파일 빼기",
                key="cancel-waiting",
                icon=":material/stop_circle:",
                on_click=_each,
                args=(desks, Desk.cancel_waiting),
            )
        if any(row.seen for row in rows):
            st.button(
                "끝난 줄 치우기",
                key="forget-finished",
                icon=":material/clear_all:",
                type="tertiary",
                on_click=_each,
                args=(desks, Desk.forget_finished),
            )


def _each(desks: dict[str, Desk], act: Callable[[Desk], None]) -> None:
    for desk in desks.values():
        act(desk)


def _list(session: Session, desks: dict[str, Desk]) -> bool:
    """The documents on file; what is selected is noted in the session. False when there are none."""
    everything = session.library.documents()
    if not everything:
        st.caption("아직 넣은 문서가 없습니다. 위에 파일을 놓아 주세요.")
        return False
    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = st.text_input("찾기", placeholder="제목, 파일 이름, 종류, 작목, 작성자", key="document-words")
        by = st.selectbox("순서", list(SORTS), format_func=SORTS.__getitem__, key="document-sort", width=180)
        _rebuild_popover(session, desks)
    listed = ordered(found(everything, words), by)
    if not listed:
        st.caption(f"문서 {len(everything):,}개 가운데 맞는 것이 없습니다. 낱말을 줄이거나 바꾸어 보세요.")
        return True
    part = f" 가운데 {len(listed):,}개" if words else ""
    st.caption(f"문서 {len(everything):,}개{part}. 줄을 고르면 아래에 열립니다.")
    pages = -(-len(listed) // _ROWS_A_PAGE)
    number = st.pagination(pages, key=f"list-{pages}-{by}-{words}") if pages > 1 else 1
    _selectable(session, listed[(number - 1) * _ROWS_A_PAGE : number * _ROWS_A_PAGE])
    return True


def _selectable(session: Session, shown: list[Listed]) -> None:
    ids = [item.document.doc_id for item in shown]
    opened = st.session_state.get(_opened_key(session))
    # A selection is a row number: other rows, another table.
    name = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
    event = st.dataframe(
        table(shown, session.settings.farms),
        key=f"documents-{name}",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": [ids.index(opened)]}} if opened in ids else None,
        height=min(len(shown) + 1, 11) * _ROW_PX,
        row_height=_ROW_PX,
        column_config={
            "제목": st.column_config.TextColumn(width=270),
            "크기": st.column_config.NumberColumn(format="bytes"),
            "파일": st.column_config.TextColumn(width="medium"),
        },
    )
    rows = event["selection"]["rows"]
    if rows and rows[0] < len(ids):
        st.session_state[_opened_key(session)] = ids[rows[0]]
    elif opened in ids:
        st.session_state.pop(_opened_key(session))


def _rebuild_popover(session: Session, desks: dict[str, Desk]) -> None:
    if not desks:
        return
    with st.popover("모두 다시 색인", icon=":material/restart_alt:"):
        st.markdown("보관한 원본으로 색인을 처음부터 다시 만듭니다. 끝날 때까지는 지금 색인으로 답합니다.")
        for scope_id, desk in desks.items():
            label = f"{scope_label(scope_id, session.settings.farms)} 모두 다시 색인"
            if st.button(plain(label), key=f"rebuild-{scope_id}"):
                desk.rebuild()
                st.rerun()


def _document(session: Session, doc_id: str, desk: Desk | None) -> None:
    """One document: what is known of it, what can be done with it, its chunks.

    Raises:
        ScopeViolation: it is not the asker's.
    """
    library = session.library
    document = library.document(doc_id)
    if document is None:
        st.session_state.pop(_opened_key(session), None)
        st.info("이 문서는 지금 색인에 없습니다. 뺐거나 새 판으로 바꾼 것입니다.")
        return
    counts = library.chunk_counts(doc_id, LEVELS)
    st.html(document_head(document, scope_label(scope_of(doc_id), session.settings.farms), counts))
    with st.container(horizontal=True):
        if st.button("원문 열기", key=f"open-{doc_id}", icon=":material/description:"):
            document_dialog(library, doc_id)
        if desk is not None:
            if st.button("다시 색인", key=f"reindex-{doc_id}", icon=":material/restart_alt:"):
                desk.reindex(doc_id)
                st.rerun()
            with st.popover("빼기", icon=":material/delete:"):
                st.markdown(
                    f"**{label_of(document)}** 을(를) 색인과 보관함에서 뺍니다. 되돌리려면 파일을 다시 넣어야 합니다."
                )
                if st.button("뺍니다", key=f"remove-{doc_id}", type="primary"):
                    desk.remove(doc_id)
                    st.session_state.pop(_opened_key(session), None)
                    st.rerun()
    chunk_preview(library, document, counts)


def _opened_key(session: Session) -> str:
    return f"document-{settings_key(session.scope)}"


if __name__ == "__main__":
    page()
