"""What people thought of the answers: ``<scope folder>/feedback.sqlite`` (WAL), one row per user and answer.

The file lies in the folder of the scope that was asked, so no other farm sees it and removing a farm's folder removes it.
It is made at the first press. A row carries what is needed to look into the answer later (question, answer, citations,
trace) and stays when the conversation is deleted; pressing the same thumb again removes it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from rag.errors import SettingsError, StoreError
from rag.text import nfc

Thumb = Literal["up", "down"]
FILE = "feedback.sqlite"
REASONS: tuple[str, ...] = ("틀린 내용", "근거가 다름", "질문을 잘못 읽음", "답이 없음", "느림", "기타")
MAX_TEXT = 500
# Seconds that a writer waits for another one.
_WAIT_S = 10.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS feedback (
  user TEXT NOT NULL, entry TEXT NOT NULL, thumb TEXT NOT NULL CHECK (thumb IN ('up', 'down')), reason TEXT NOT NULL,
  text TEXT NOT NULL, question TEXT NOT NULL, standalone TEXT NOT NULL, previous TEXT, choice TEXT, crop TEXT NOT NULL,
  system TEXT NOT NULL, answerer TEXT NOT NULL, profile_id TEXT NOT NULL, version TEXT NOT NULL, asked_at TEXT NOT NULL,
  given_at TEXT NOT NULL, answer TEXT NOT NULL, refused INTEGER NOT NULL, citations TEXT NOT NULL, trace TEXT NOT NULL,
  PRIMARY KEY (user, entry))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedPlace:
    """One evidence sentence that an answer sentence rested on."""

    doc_id: str
    chunk_id: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One opinion on one answer.

    ``reason`` is one of ``REASONS`` or empty, ``text`` free; ``standalone`` is the question with what a follow-up took
    from ``previous``; ``crop`` the one crop it names, else empty. ``version`` is the profile table's when the opinion was
    given. ``citations`` has one tuple for each answer sentence that rests on evidence; ``trace`` is a JSON object.
    """

    user: str
    entry: str
    thumb: Thumb
    question: str
    standalone: str
    asked_at: datetime
    given_at: datetime
    system: str
    answerer: str
    profile_id: str
    version: str
    answer: str
    refused: bool
    citations: tuple[tuple[CitedPlace, ...], ...]
    trace: str
    reason: str = ""
    text: str = ""
    previous: str | None = None
    choice: str | None = None
    crop: str = ""


_COLUMNS = tuple(field.name for field in fields(Feedback))
_INSERT = f"INSERT OR REPLACE INTO feedback ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class FeedbackStore:
    """The opinions of one scope."""

    def __init__(self, scope_folder: Path) -> None:
        self.path = scope_folder / FILE

    def press(self, given: Feedback) -> Feedback | None:
        """Keep an opinion; it replaces the user's earlier one on that answer, and the same thumb again removes it.

        Returns:
            What is on file afterwards, None when it was removed.

        Raises:
            SettingsError: the reason is none of ``REASONS``, or the text is longer than ``MAX_TEXT`` characters.
            StoreError: the file cannot be written.
        """
        given = replace(given, reason=_checked_reason(given.reason), text=_checked_text(given.text))
        mine = (given.user, given.entry)
        with self._writing() as db:
            known = db.execute("SELECT thumb FROM feedback WHERE user = ? AND entry = ?", mine).fetchone()
            if known is not None and known["thumb"] == given.thumb:
                db.execute("DELETE FROM feedback WHERE user = ? AND entry = ?", mine)
                return None
            db.execute(_INSERT, _row(given))
        return given

    def explain(self, user: str, entry: str, reason: str, text: str, given_at: datetime) -> bool:
        """Put a reason to an opinion on file; False when there is none (it was taken back meanwhile).

        Raises:
            SettingsError: the reason is none of ``REASONS``, or the text is longer than ``MAX_TEXT`` characters.
            StoreError: the file cannot be written.
        """
        values = (_checked_reason(reason), _checked_text(text), given_at.isoformat(), user, entry)
        with self._writing() as db:
            changed = db.execute(
                "UPDATE feedback SET reason = ?, text = ?, given_at = ? WHERE user = ? AND entry = ?", values
            )
            return changed.rowcount == 1

    def of(self, user: str) -> dict[str, Feedback]:
        """Entry id → a user's opinion.

        Raises:
            StoreError: the file cannot be read.
        """
        return {one.entry: one for one in self._read("SELECT * FROM feedback WHERE user = ?", (user,))}

    def all(self) -> tuple[Feedback, ...]:
        """Every opinion of the scope, the oldest first.

        Raises:
            StoreError: the file cannot be read.
        """
        found = self._read("SELECT * FROM feedback", ())
        return tuple(sorted(found, key=lambda one: (one.given_at, one.user, one.entry)))

    def _read(self, query: str, values: Sequence[str]) -> list[Feedback]:
        if not self.path.exists():
            return []
        try:
            with closing(self._connect()) as db:
                if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'feedback'").fetchone() is None:
                    return []  # another process is just making the file
                return [_feedback(row) for row in db.execute(query, values)]
        except (OSError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"의견 파일 '{self.path}' 을(를) 읽을 수 없습니다({error}). 대화와 자료는 그대로입니다. "
                "권한을 확인하고, 손상되었으면 백업본으로 바꾸거나 그 파일만 지워 주세요."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_WAIT_S)
        db.row_factory = sqlite3.Row
        return db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. The lock is for the change to WAL, which does not wait for other connections by itself."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{FILE}.lock"), timeout=_WAIT_S), closing(self._connect()) as db:
                db.execute("PRAGMA journal_mode=WAL")
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute(_SCHEMA)
                    yield db
        except (OSError, Timeout, sqlite3.Error) as error:
            raise StoreError(
                f"의견을 저장하지 못했습니다({error}). 답변과 대화는 그대로 남아 있습니다. "
                f"디스크 공간과 '{self.path.parent}' 폴더의 쓰기 권한을 확인하고 다시 눌러 주세요."
            ) from error


def _checked_reason(reason: str) -> str:
    if reason and reason not in REASONS:
        raise SettingsError(f"이유 '{reason}' 은(는) 없습니다. 쓸 수 있는 것: {', '.join(REASONS)}")
    return reason


def _checked_text(text: str) -> str:
    """NFC, without surrounding white space and lone surrogates, which are no text."""
    clean = nfc(text.encode("utf-8", "ignore").decode()).strip()
    if len(clean) > MAX_TEXT:
        raise SettingsError(f"의견이 {len(clean)}자입니다. {MAX_TEXT}자 안으로 줄여 주세요.")
    return clean


def _row(given: Feedback) -> list[Any]:
    citations = [[[c.doc_id, c.chunk_id, c.sentence] for c in sentence] for sentence in given.citations]
    values: dict[str, Any] = {name: getattr(given, name) for name in _COLUMNS} | {
        "asked_at": given.asked_at.isoformat(),
        "given_at": given.given_at.isoformat(),
        "refused": int(given.refused),
        "citations": json.dumps(citations, ensure_ascii=False),
    }
    return [values[name] for name in _COLUMNS]


def _feedback(row: sqlite3.Row) -> Feedback:
    citations = json.loads(row["citations"])
    values: dict[str, Any] = {name: row[name] for name in _COLUMNS} | {
        "asked_at": datetime.fromisoformat(row["asked_at"]),
        "given_at": datetime.fromisoformat(row["given_at"]),
        "refused": bool(row["refused"]),
        "citations": tuple(
            tuple(CitedPlace(doc_id=doc, chunk_id=chunk, sentence=said) for doc, chunk, said in sentence)
            for sentence in citations
        ),
    }
    return Feedback(**values)
