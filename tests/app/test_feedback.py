"""Thumbs under an answer: pressed, given a reason, shown again on reload, kept in the farm's own folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from rag.schema import PUBLIC, farm_scope
from rag.stores.feedback import FILE, Feedback, FeedbackStore
from rag.stores.record import scope_folder
from tests.app.conftest import ask, page_text, press

NewApp = Callable[..., AppTest]
EC = "딸기 수확 후기에는 급액 EC 얼마로 낮춰요?"
HOSTILE = "<img src=x onerror=alert(3)> '; DROP TABLE feedback; -- **굵게** :red[빨강]"


def address(app: AppTest) -> dict[str, str]:
    found = {name: app.query_params[name] for name in ("farm", "u", "c")}
    return {name: value[0] if isinstance(value, list) else value for name, value in found.items()}


def kept(store: Path, farm: str, app: AppTest) -> list[Feedback]:
    """What this test's user has on file with a farm."""
    folder = scope_folder(store, PUBLIC if farm == PUBLIC else farm_scope(farm))
    return list(FeedbackStore(folder).of(address(app)["u"]).values())


def pressed(app: AppTest) -> list[str]:
    """Labels of the filled thumbs."""
    thumbs = [button for button in app.button if (button.key or "").startswith("thumb-")]
    return [button.label for button in thumbs if button.proto.type == "primary"]


def test_thumb_reason_reload_and_taking_it_back(new_app: NewApp, store: Path) -> None:
    app = ask(new_app(farm="haetsal"), EC)
    assert [b.label for b in app.button if (b.key or "").startswith("thumb-")] == ["도움돼요", "아쉬워요"]
    assert pressed(app) == []

    app = press(app, "thumb-down-")
    assert not app.exception
    assert pressed(app) == ["아쉬워요"]
    (given,) = kept(store, "haetsal", app)
    assert (given.thumb, given.reason, given.question) == ("down", "", EC)
    assert given.version
    assert "1.0~1.2dS/m" in given.answer
    assert given.citations[0][0].doc_id == "public/딸기_급액_EC.md"
    trace = json.loads(given.trace)
    assert sum(trace["weights"]["final"].values()) == pytest.approx(1)
    assert {"features", "retrieval", "fusion"} <= {span["stage"] for span in trace["spans"]}

    next(group for group in app.button_group if (group.key or "").startswith("feedback-reason-")).set_value("느림")
    app.text_input[0].set_value(HOSTILE)
    app = press(app, "FormSubmitter:feedback-form-")
    assert not app.exception
    (given,) = kept(store, "haetsal", app)
    assert (given.reason, given.text) == ("느림", HOSTILE)

    again = new_app(**address(app))
    assert pressed(again) == ["아쉬워요"]
    (note,) = [caption.value for caption in again.caption if "남긴 의견" in caption.value]
    assert note.startswith("남긴 의견: 아쉬워요 · 느림 · ")
    assert "\\<img" in note
    assert "<img" not in note.replace("\\<", "")
    assert "**" not in note.replace("\\*", "")

    again = press(again, "thumb-up-")
    assert pressed(again) == ["도움돼요"]
    assert [(one.thumb, one.reason, one.text) for one in kept(store, "haetsal", again)] == [("up", "", "")]
    again = press(again, "thumb-up-")
    assert pressed(again) == []
    assert kept(store, "haetsal", again) == []


def test_each_farm_and_the_public_documents_have_their_own(new_app: NewApp, store: Path) -> None:
    app = press(ask(new_app(farm="pureun"), EC), "thumb-up-")
    user = address(app)["u"]
    assert len(kept(store, "pureun", app)) == 1
    assert kept(store, "haetsal", app) == []
    app = press(ask(new_app(farm=PUBLIC, u=user), EC), "thumb-down-")
    assert [one.thumb for one in kept(store, PUBLIC, app)] == ["down"]
    assert [one.thumb for one in kept(store, "pureun", app)] == ["up"]


def test_a_file_that_cannot_be_used_loses_nothing_else(
    new_app: NewApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    monkeypatch.setattr("rag.ui.session.FeedbackStore", lambda folder: FeedbackStore(tmp_path))
    app = ask(new_app(farm="haetsal"), EC)
    app = press(app, "thumb-down-")
    assert not app.exception
    told = [warning.value.replace("\\", "") for warning in app.warning]
    assert any("의견을 저장하지 못했습니다" in one for one in told)
    assert any("읽을 수 없습니다" in one for one in told)
    assert pressed(app) == []
    assert "1.0~1.2dS/m" in page_text(app)
    assert "1.0~1.2dS/m" in page_text(new_app(**address(app)))
