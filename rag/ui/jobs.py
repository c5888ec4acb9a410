"""A question being answered in a thread of its own, so that the page can show stages, stream, and cancel.

The thread writes the finished entry to the conversation itself: an answer is kept when the browser has gone.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from rag.errors import RagError
from rag.pipeline import Listener, Pipeline
from rag.schema import Query
from rag.ui.history import Chats, new_id
from rag.ui.turn import Entry, Turn

UNEXPECTED = (
    "예상하지 못한 문제로 답하지 못했습니다. 다시 물어 보시고, 되풀이되면 관리자에게 서버 기록을 확인해 달라고 하세요."
)
_log = logging.getLogger(__name__)


@dataclass
class Job:
    """One running question. The thread writes ``stage``, ``text``, ``ahead``; the page reads them."""

    query: Query
    system: str
    conversation: str
    stage: str = "질문 읽기"
    text: str = ""
    ahead: int = 0
    began: float = field(default_factory=time.monotonic)
    entry: Entry | None = None
    not_saved: str | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds(self) -> float:
        """Since the question was asked."""
        return time.monotonic() - self.began

    def start(self, pipeline: Pipeline, chats: Chats) -> None:
        """Begin to answer."""
        threading.Thread(target=self._run, args=(pipeline, chats), name="answer", daemon=True).start()

    def _run(self, pipeline: Pipeline, chats: Chats) -> None:
        try:
            self.entry = self._answer(pipeline)
            chats.append(self.conversation, self.entry)
        except OSError as error:
            _log.exception("conversation not saved")
            self.not_saved = (
                f"대화를 저장하지 못했습니다({error.strerror or error}). 디스크 공간과 권한을 확인해 주세요."
            )
        finally:
            self.done.set()

    def _answer(self, pipeline: Pipeline) -> Entry:
        listener = Listener(
            on_stage=self._hear_stage, on_token=self._hear_token, on_queue=self._hear_queue, cancel=self.cancel
        )
        turn, problem = None, None
        try:
            result = pipeline.ask(self.query, system=self.system, listener=listener)
            turn = Turn.of(result, cancelled=self.cancel.is_set())
        except RagError as error:
            problem = str(error)
        except Exception:
            _log.exception("question failed")
            problem = UNEXPECTED
        return Entry(id=new_id(), question=self.query.text, asked_at=self.query.asked_at, turn=turn, error=problem)

    def _hear_stage(self, stage: str) -> None:
        self.stage = stage

    def _hear_token(self, piece: str) -> None:
        self.text += piece

    def _hear_queue(self, ahead: int) -> None:
        self.ahead = ahead
