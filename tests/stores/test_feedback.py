"""Opinions on answers: one a user and answer, whole or not at all, in their scope's folder; and what is exported."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from eval.questions import QuestionError, load_questions
from rag.__main__ import main as rag
from rag.errors import SettingsError, StoreError
from rag.feedback_export import export, gold_of, question_of, summary
from rag.schema import PUBLIC, farm_scope
from rag.stores.feedback import FILE, MAX_TEXT, REASONS, CitedPlace, Feedback, FeedbackStore
from rag.stores.record import DocumentRow, ScopeRecord, scope_folder

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
A, B, FOREIGN = "public/가.md", "farm:haetsal/나.md", "farm:pureun/비밀.md"
HOSTILE = "'; DROP TABLE feedback; -- \"</td><script>alert(1)</script>\x00\x07\x1b[31m\u2028줄\x85끝\u202e𐍈"


def place(doc_id: str, sentence: str = "EC는 1.2다.") -> CitedPlace:
    return CitedPlace(doc_id=doc_id, chunk_id=f"{doc_id}#1", sentence=sentence)


def opinion(**changes: Any) -> Feedback:
    base = Feedback(
        user="u1",
        entry="e1",
        thumb="up",
        question="급액 EC는?",
        standalone="급액 EC는?",
        asked_at=NOW,
        given_at=NOW,
        system="adaptive",
        answerer="extractive",
        profile_id="default",
        version="1.1.0",
        answer="EC는 1.2다.",
        refused=False,
        citations=((place(A),),),
        trace='{"spans": []}',
    )
    return replace(base, **changes)


def test_a_press_is_kept_and_the_same_press_takes_it_back(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path / "public")
    assert store.of("u1") == {}
    assert not store.path.parent.exists()  # looking makes nothing
    liked = opinion(previous="앞 질문", choice="딸기", crop="딸기", citations=((place(A), place(B)), (place(B),)))
    assert store.press(liked) == liked
    assert FeedbackStore(tmp_path / "public").of("u1") == {"e1": liked}
    assert store.press(liked) is None
    assert store.of("u1") == {}


def test_another_thumb_replaces_and_drops_the_reason_of_the_first(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path)
    store.press(opinion(thumb="down"))
    later = NOW + timedelta(minutes=1)
    assert store.explain("u1", "e1", "느림", "  한참 걸렸다 ", later)
    kept = store.of("u1")["e1"]
    assert (kept.thumb, kept.reason, kept.text, kept.given_at) == ("down", "느림", "한참 걸렸다", later)
    store.press(opinion(thumb="up"))
    assert store.all() == (opinion(thumb="up"),)


def test_users_and_answers_are_kept_apart(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path)
    three = [opinion(), opinion(user="u2", thumb="down"), opinion(entry="e2", given_at=NOW - timedelta(days=1))]
    for one in three:
        store.press(one)
    assert set(store.of("u1")) == {"e1", "e2"}
    assert store.of("u2") == {"e1": three[1]}
    assert store.of("u' OR '1'='1") == {}
    assert store.all() == (three[2], three[0], three[1])


def test_a_reason_without_an_opinion_is_not_kept(tmp_path: Path) -> None:
    assert not FeedbackStore(tmp_path).explain("u1", "e1", "기타", "", NOW)
    assert FeedbackStore(tmp_path).all() == ()


@over(st.text(max_size=60))
@hypothesis(max_examples=30, deadline=None)
def test_any_text_comes_back_as_its_nfc_form(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    store = FeedbackStore(tmp_path_factory.mktemp("f"))
    store.press(opinion(text=text, question=HOSTILE + text.replace("\ud800", "")))
    once = store.of("u1")["e1"]
    store.explain("u1", "e1", "", once.text, NOW)
    assert store.of("u1")["e1"] == once


def test_hostile_and_decomposed_text(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path)
    store.press(
        opinion(thumb="down", reason="기타", text="각\ud800" + HOSTILE, answer=HOSTILE, trace=json.dumps([HOSTILE]))
    )
    (kept,) = store.all()
    assert kept.text == "각" + HOSTILE
    assert kept.answer == HOSTILE
    assert json.loads(kept.trace) == [HOSTILE]


def test_a_reason_of_the_list_and_a_text_of_500_characters(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path)
    store.press(opinion(text="가" * MAX_TEXT, reason=REASONS[0]))
    with pytest.raises(SettingsError, match=f"{MAX_TEXT + 1}자.*{MAX_TEXT}자"):
        store.explain("u1", "e1", "", "가" * (MAX_TEXT + 1), NOW)
    with pytest.raises(SettingsError, match=r"'아무거나'.*틀린 내용"):
        store.press(opinion(reason="아무거나", thumb="down"))
    assert store.of("u1")["e1"].text == "가" * MAX_TEXT


def test_writers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    """Two connections (and the making of the file) at once: every press counts once."""
    failed: list[Exception] = []

    def press(user: str) -> None:
        try:
            for number in range(12):
                FeedbackStore(tmp_path).press(opinion(user=user, entry=f"e{number}"))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=press, args=(user,)) for user in ("u1", "u2", "u3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(FeedbackStore(tmp_path).all()) == 36
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_writer_waits_for_an_open_transaction(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path)
    store.press(opinion(entry="e0"))
    other = sqlite3.connect(store.path, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE feedback SET text = '다른 연결'")
    release = threading.Timer(0.2, other.commit)
    release.start()
    store.press(opinion())
    release.join()
    other.close()
    assert [(one.entry, one.text) for one in store.all()] == [("e0", "다른 연결"), ("e1", "")]


def test_what_cannot_be_written_or_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match=r"의견을 저장하지 못했습니다.*쓰기 권한"):
        FeedbackStore(tmp_path / "file").press(opinion())
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="읽을 수 없습니다"):
        FeedbackStore(tmp_path).of("u1")
    with pytest.raises(StoreError, match="저장하지 못했습니다"):
        FeedbackStore(tmp_path).press(opinion())


def test_removing_a_farm_s_folder_removes_its_opinions(tmp_path: Path) -> None:
    farm, public = (FeedbackStore(scope_folder(tmp_path, scope)) for scope in (farm_scope("haetsal"), PUBLIC))
    farm.press(opinion())
    public.press(opinion(entry="e9"))
    shutil.rmtree(tmp_path / "farms" / "haetsal")
    assert farm.all() == ()
    assert [one.entry for one in public.all()] == ["e9"]


@pytest.mark.parametrize(
    ("changes", "gold"),
    [
        ({}, ((A,),)),
        ({"citations": ((place(B), place(A)), (place(A),), (place(A), place(B)))}, ((B, A), (A,))),
        ({"citations": ((place(A), place(FOREIGN)),)}, ((A,),)),
        ({"citations": ((place(A),), (place("public/지운.md"),))}, ()),
        ({"citations": ((place(FOREIGN),),)}, ()),
        ({"citations": ()}, ()),
        ({"thumb": "down"}, ()),
        ({"refused": True}, ()),
        ({"choice": "딸기"}, ()),
        ({"choice": ""}, ((A,),)),
    ],
)
def test_gold_documents_are_the_cited_ones_of_liked_answers(changes: dict[str, Any], gold: tuple[Any, ...]) -> None:
    assert gold_of(opinion(**changes), {A, B}) == gold


def test_what_is_exported_loads_as_questions_and_the_rest_does_not(tmp_path: Path) -> None:
    liked = opinion(
        question="그럼 토마토는?" + HOSTILE,
        standalone="토마토 급액 EC는?" + HOSTILE,
        previous="딸기 급액 EC는?",
        citations=((place(A, HOSTILE), place(B)),),
        crop="토마토",
    )
    bad = opinion(entry="e2", thumb="down", reason="틀린 내용", text=HOSTILE, standalone="다른 물음")
    disputed = opinion(user="u2", entry="e3", standalone="다른 물음")
    to_label, n_tune, n_label = export([liked, bad, disputed], "haetsal", {A, B}, tmp_path / "out.jsonl")
    assert (to_label.name, n_tune, n_label) == ("out.label.jsonl", 1, 2)
    (question,) = load_questions(tmp_path / "out.jsonl")
    assert question.question == liked.standalone
    assert question.gold == ((B, A),)
    assert question.expect == ((HOSTILE, "EC는 1.2다."),)
    assert (question.farm, question.asked_at, question.crop, question.split) == ("haetsal", NOW, "토마토", "tune")
    assert question.answerable
    assert "딸기 급액 EC는?" in question.note
    with pytest.raises(QuestionError):
        load_questions(to_label)
    rows = [json.loads(line) for line in to_label.read_text(encoding="utf-8").split("\n") if line]
    assert [(row["answerable"], row["gold"], row["expect"], row["fact_ids"]) for row in rows] == [
        (None, [], [], [])
    ] * 2
    assert rows[0]["feedback"]["reason"] == "틀린 내용"
    assert rows[0]["feedback"]["text"] == HOSTILE
    assert len({question.id, *(row["id"] for row in rows)}) == 3
    assert "u1" not in to_label.read_text(encoding="utf-8")
    with pytest.raises(SettingsError, match="이미 있습니다"):
        export([liked], "haetsal", {A, B}, tmp_path / "out.jsonl")
    with pytest.raises(SettingsError, match="쓸 수 없습니다"):
        export([liked], "haetsal", {A, B}, tmp_path / "none" / "out.jsonl")


def test_summary_counts_and_orders() -> None:
    found = [
        opinion(
            entry=f"e{n}", user=f"u{n % 2}", thumb="down" if n else "up", reason=reason, given_at=NOW + n * timedelta(1)
        )
        for n, reason in enumerate(["", "느림", "기타", "느림", "", "느림", "기타"])
    ]
    shown = summary(found)
    assert (shown["up"], shown["down"], shown["users"]) == (1, 6, 2)
    assert list(shown["reasons"].items()) == [("느림", 3), ("기타", 2)]
    assert [one["given_at"][:10] for one in shown["latest"]] == [f"2026-12-0{day}" for day in (7, 6, 5, 4, 3)]
    assert question_of(found[0], None, [])["farm"] is None


class TestCommand:
    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("ONSIL_CONFIG", str(tmp_path / "none.toml"))
        monkeypatch.delenv("ONSIL_STORE", raising=False)
        for scope, doc_id in ((PUBLIC, A), (farm_scope("haetsal"), B), (farm_scope("pureun"), FOREIGN)):
            record = ScopeRecord(tmp_path, scope)
            record.write_document(document(doc_id), [], [], [], [])
            FeedbackStore(record.folder).press(
                opinion(question=f"{scope}에서 물은 것\x1b[2J", standalone=scope, citations=((place(doc_id),),))
            )
        return tmp_path

    def test_the_table_is_one_scope_s_and_harmless_to_a_terminal(
        self, store: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert rag(["feedback", "--farm", "haetsal", "--store", str(store)]) == 0
        shown = capsys.readouterr().out
        assert "👍 1  👎 0" in shown
        assert "farm:haetsal에서 물은 것" in shown
        assert "pureun" not in shown
        assert "public" not in shown
        assert "\x1b" not in shown

    def test_json_and_export_of_one_scope(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        target = store / "tune.jsonl"
        assert rag(["feedback", "--public", "--store", str(store), "--json", "--export", str(target)]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["farm"], shown["up"], shown["export"][str(target)]) == (None, 1, 1)
        assert [(q.question, q.farm, q.gold) for q in load_questions(target)] == [(PUBLIC, None, ((A,),))]
        assert rag(["feedback", "--public", "--store", str(store), "--export", str(target)]) == 2
        assert "이미 있습니다" in capsys.readouterr().err

    def test_a_folder_put_in_another_farm_s_place_exports_no_gold_of_the_first(self, store: Path) -> None:
        shutil.copy(store / "farms" / "pureun" / FILE, store / "farms" / "haetsal" / FILE)
        target = store / "tune.jsonl"
        assert rag(["feedback", "--farm", "haetsal", "--store", str(store), "--export", str(target)]) == 0
        assert load_questions(target) == ()

    @pytest.mark.parametrize("arguments", [(), ("--farm", "a", "--public")])
    def test_one_scope_must_be_named(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(SystemExit) as left:
            rag(["feedback", *arguments])
        assert left.value.code == 2

    @pytest.mark.parametrize("farm", ["none", "../haetsal"])
    def test_an_unknown_farm_is_named(self, store: Path, farm: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert rag(["feedback", "--farm", farm, "--store", str(store)]) == 2
        assert f"'{farm}'" in capsys.readouterr().err
        assert not (store / "farms" / "none").exists()

    def test_nothing_given_yet(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (store / "public" / FILE).unlink()
        assert rag(["feedback", "--public", "--store", str(store)]) == 0
        assert "남긴 의견이 없습니다" in capsys.readouterr().out


def document(doc_id: str) -> DocumentRow:
    return DocumentRow(
        doc_id=doc_id,
        path=doc_id.partition("/")[2],
        title="글",
        format="md",
        kind="",
        crop="",
        date="",
        author="",
        houses=(),
        content_hash="0",
        original="0.md",
        bytes=1,
        pages=None,
        characters=1,
        tables=0,
        notes=(),
        text="글",
    )
