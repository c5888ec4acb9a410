"""What a browser session has chosen, and the shared pipeline.

Shared by all sessions: the pipeline (immutable). Everything a person did lives in the session, the address
(``?farm=…&u=…&c=…``, so that a reload comes back to the same conversation) and the farm's folder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import streamlit as st

from rag.answering.calibration import Relevance
from rag.assembly import build_pipeline, relevance_levels
from rag.errors import RagError
from rag.pipeline import Pipeline
from rag.schema import PUBLIC, Scope
from rag.settings import Settings, load_settings
from rag.stores.feedback import FeedbackStore
from rag.stores.record import scope_folder
from rag.ui.escape import plain, shortened
from rag.ui.history import Chats, new_id, valid_id
from rag.ui.intake import sweep_uploads
from rag.ui.library import Library
from rag.weighting import ADAPTIVE, MODEL_FREE, SYSTEMS

_log = logging.getLogger(__name__)
_LISTED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run of a page: who asks, how, and where things are kept."""

    settings: Settings
    pipeline: Pipeline
    scope: Scope
    system: str
    user: str
    chats: Chats
    feedback: FeedbackStore

    @property
    def library(self) -> Library:
        """The documents this session may open."""
        return Library(self.pipeline.views, self.scope)

    @property
    def relevance(self) -> Relevance | None:
        """From which cosines evidence is called relevant."""
        return relevance_levels(self.settings)


@contextmanager
def guard() -> Iterator[None]:
    """Show an error as a Korean sentence with its remedy and end the page; details go to the server's log."""
    try:
        yield
    except RagError as error:
        st.error(plain(str(error)))
        st.stop()
    except Exception:
        _log.exception("page failed")
        st.error(
            "화면을 그리다 예상하지 못한 문제가 생겼습니다. 새로 고침해 보시고, 되풀이되면 관리자에게 서버 기록을 확인해 달라고 하세요."
        )
        st.stop()


@st.cache_resource(show_spinner="검색 준비 중…", max_entries=2)
def _pipeline(key: str, _settings: Settings) -> Pipeline:
    sweep_uploads(_settings.store)
    return build_pipeline(_settings, count_words=True)


def current() -> Session:
    """The session's present choices.

    Raises:
        RagError: the settings cannot be used or the pipeline cannot be built.
    """
    settings = load_settings()
    farm = _farm(settings)
    scope = Scope(farm_id=farm)
    folder = scope_folder(settings.store, PUBLIC if farm is None else scope.visible[-1])
    return Session(
        settings=settings,
        pipeline=_pipeline(settings.model_dump_json(), settings),
        scope=scope,
        system=st.session_state.get("system", ADAPTIVE),
        user=_user(),
        chats=Chats(folder, _user()),
        feedback=FeedbackStore(folder),
    )


def draw_sidebar() -> None:
    """Farm, system, answerer, index, conversations."""
    settings = load_settings()
    with st.sidebar:
        _choose_farm(settings)
        systems = MODEL_FREE if settings.model is None else tuple(SYSTEMS)
        st.selectbox("방식", systems, format_func=SYSTEMS.__getitem__, key="system")
        session = current()
        st.caption(f"답변 **{plain(answerer_label(settings))}**")
        with guard_sidebar():
            count = len(session.pipeline.views.get(session.scope).documents)
            st.caption(f"색인 **{count:,}문서** ✓")
        _conversations(session)
    st.query_params.from_dict({"farm": settings_key(session.scope), "u": _user(), "c": conversation(session)})


@contextmanager
def guard_sidebar() -> Iterator[None]:
    """The sidebar says that there is no index and goes on: the page itself tells the remedy."""
    try:
        yield
    except RagError:
        st.caption("색인 **쓸 수 없음** ✗")


def answerer_label(settings: Settings) -> str:
    """Who writes the answers."""
    return "추출(근거 문장 그대로)" if settings.model is None else settings.model.stem


def settings_key(scope: Scope) -> str:
    """The farm as written in the address."""
    return scope.farm_id or PUBLIC


def conversation(session: Session) -> str:
    """Id of the open conversation; one that is not in this farm's folder is never opened."""
    chosen = st.session_state.setdefault("conversations", {})
    place = settings_key(session.scope)
    if place not in chosen:
        asked = st.query_params.get("c") if st.query_params.get("farm", place) == place else None
        known = asked is not None and session.chats.exists(asked)
        chosen[place] = asked if known else new_id()
    return cast(str, chosen[place])


def open_conversation(session: Session, name: str) -> None:
    """Make ``name`` the open conversation of the present farm."""
    st.session_state.conversations[settings_key(session.scope)] = name


def _user() -> str:
    if "user" not in st.session_state:
        asked = st.query_params.get("u")
        st.session_state.user = asked if valid_id(asked) else new_id()
    return cast(str, st.session_state.user)


def _farms(settings: Settings) -> dict[str, str]:
    return {**settings.farms, PUBLIC: "공용 자료만"}


def _farm(settings: Settings) -> str | None:
    """The chosen farm; only farms of the settings can be chosen."""
    chosen = st.session_state.get("farm")
    if chosen not in _farms(settings):
        asked = st.query_params.get("farm")
        chosen = asked if asked in _farms(settings) else next(iter(_farms(settings)))
    return None if chosen == PUBLIC else cast(str, chosen)


def _choose_farm(settings: Settings) -> None:
    farms = _farms(settings)
    if "farm" not in st.session_state:
        st.session_state.farm = _farm(settings) or PUBLIC
    st.selectbox("농장", list(farms), format_func=farms.__getitem__, key="farm")


def _conversations(session: Session) -> None:
    st.markdown("**대화 기록**")
    st.button("새 대화", icon=":material/add:", on_click=open_conversation, args=(session, new_id()), width="stretch")
    opened = conversation(session)
    for item in session.chats.recent()[:_LISTED]:
        row = st.container(horizontal=True, gap="small", key=f"chat-row-{item.id}", wrap=False)
        row.button(
            plain(shortened(item.title, 22)),
            key=f"open-chat-{item.id}",
            type="primary" if item.id == opened else "tertiary",
            on_click=open_conversation,
            args=(session, item.id),
            width="stretch",
        )
        row.button(
            "",
            icon=":material/delete:",
            key=f"delete-chat-{item.id}",
            help="이 대화 지우기",
            type="tertiary",
            on_click=_delete,
            args=(session, item.id),
        )


def _delete(session: Session, name: str) -> None:
    session.chats.delete(name)
    if conversation(session) == name:
        open_conversation(session, new_id())
