"""Documents being taken in, removed or indexed again in the background: one desk a scope in this process.

A desk has a queue, one thread while there is work, and a row a file that every session of the scope may read. Files are
written to the record one after the other; questions see them when the batch is published, at the latest a minute later.
The scope's writer's place is waited for in sight of everyone. Uploads lie below the scope's own folder until they are
read; what a killed process left there is swept by the next one.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, get_args

from filelock import FileLock, Timeout

from ingest.limits import size_text
from ingest.names import is_hidden, logical_path, member_path
from ingest.service import ScopeIntake, changing, limits_of
from ingest.writer import STATE_LABELS, FileState, FileStatus
from rag.errors import RagError, ScopeViolation, StoreError
from rag.schema import PUBLIC, Scope
from rag.settings import Settings
from rag.stores.record import scope_folder

Task = Literal["take", "remove", "reindex", "rebuild"]
State = Literal[
    "waiting", "reading", "indexed", "updated", "unchanged", "duplicate", "partly", "failed", "removed", "cancelled"
]
LABELS: dict[State, str] = {
    **{state: STATE_LABELS[state] for state in get_args(FileState)},
    "waiting": "대기",
    "reading": "읽는 중",
    "updated": "새 판",
    "partly": "일부 넣음",
    "removed": "뺌",
    "cancelled": "취소",
}
UNEXPECTED = (
    "예상하지 못한 문제로 넣지 못했습니다. 다시 해 보시고, 되풀이되면 관리자에게 서버 기록을 확인해 달라고 하세요."
)
_OPEN: frozenset[State] = frozenset(("waiting", "reading"))
_WRITTEN: frozenset[State] = frozenset(("indexed", "updated", "partly", "removed"))
# A batch is published after this long, so that a long queue is answered from as it goes.
_BATCH_S = 60.0
# Another process's writing is waited for this long, looked at every so many seconds.
PATIENCE_S = 600.0
_LOOK_S = 2.0
_KEPT_ROWS = 500
_log = logging.getLogger(__name__)


class Upload(Protocol):
    """A file that a browser sent; reads like a binary file."""

    name: str
    size: int

    def read(self, size: int = -1, /) -> bytes:
        """The next ``size`` bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What becomes of one file or document. ``seen``: questions are answered from the state after it."""

    id: str
    task: Task
    name: str
    state: State = "waiting"
    reason: str = ""
    results: tuple[FileStatus, ...] = ()
    began: float | None = None
    seen: bool = False

    @property
    def open(self) -> bool:
        """Whether its work is still to be done."""
        return self.state in _OPEN


class Desk:
    """The intake of one scope. Thread-safe."""

    def __init__(self, settings: Settings, scope_id: str) -> None:
        self.settings = settings
        self.scope_id = scope_id
        self._lock = threading.RLock()
        self._receiving = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._uploads: dict[str, Path] = {}
        self._thread: threading.Thread | None = None
        self._hindrance = ""
        self._hindered_since: float | None = None
        self._folder: Path | None = None
        self._hold: FileLock | None = None

    @property
    def hindrance(self) -> str:
        """Why the work does not begin, "" when nothing is in the way."""
        return self._hindrance

    @property
    def busy(self) -> bool:
        """Whether something is waiting, being read or not yet seen by questions."""
        with self._lock:
            return self._thread is not None

    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order they came."""
        with self._lock:
            return tuple(self._rows.values())

    def put(self, uploads: Iterable[Upload]) -> None:
        """Queue uploaded files. The size is checked before anything is read; a name is unique in the queue."""
        with self._receiving:
            for upload in uploads:
                name = member_path(upload.name)
                row = Row(id=secrets.token_hex(8), task="take", name=name or logical_path(upload.name))
                reason = self._refusal(name, upload.size) or self._stored(row.id, upload)
                self._add(replace(row, state="failed", reason=reason, seen=True) if reason else row)

    def remove(self, doc_id: str) -> None:
        """Queue the removal of a document, before waiting files.

        Raises:
            ScopeViolation: it is a document of another scope.
        """
        self._add(Row(id=secrets.token_hex(8), task="remove", name=self._path_of(doc_id)))

    def reindex(self, doc_id: str) -> None:
        """Queue a new reading of a document's original, before waiting files.

        Raises:
            ScopeViolation: it is a document of another scope.
        """
        self._add(Row(id=secrets.token_hex(8), task="reindex", name=self._path_of(doc_id)))

    def rebuild(self) -> None:
        """Queue a new reading of all originals, before waiting files."""
        self._add(Row(id=secrets.token_hex(8), task="rebuild", name="모든 문서"))

    def cancel_waiting(self) -> None:
        """Drop the files that wait; what is being read is finished."""
        with self._lock:
            for row in self.rows():
                if row.state == "waiting":
                    self._set(row.id, state="cancelled", reason="기다리던 것을 뺐습니다.", seen=True)
                    self._drop_upload(row.id)

    def forget_finished(self) -> None:
        """Empty the list but for what is to be done."""
        with self._lock:
            self._rows = {row.id: row for row in self._rows.values() if row.open or not row.seen}

    def join(self, timeout: float) -> bool:
        """Wait until all work is done; False when it is not within ``timeout`` seconds."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return not self.busy

    # -- the queue ----------------------------------------------------------------------------------------

    def _path_of(self, doc_id: str) -> str:
        scope_id, _, path = doc_id.partition("/")
        if scope_id != self.scope_id:
            raise ScopeViolation("지금 고른 자료에 없는 문서입니다. 왼쪽에서 농장을 확인해 주세요.")
        return path

    def _refusal(self, name: str | None, size: int) -> str:
        """Why an upload is not taken, "" if it is."""
        limit = limits_of(self.settings).bytes
        if name is None or is_hidden(name):
            return (
                "이 이름의 파일은 받지 않습니다(숨은 파일이거나 폴더 밖을 가리킵니다). 이름을 바꾸어 다시 올려 주세요."
            )
        if size > limit:
            return (
                f"파일이 너무 큽니다({size_text(size)}, 한도 {size_text(limit)}). "
                "나누어 올리거나 관리자에게 설정 ingest_limit_mb 를 올려 달라고 하세요."
            )
        if any(row.name == name and row.task == "take" and row.open for row in self.rows()):
            return "같은 이름의 파일이 이미 차례를 기다립니다. 그것이 끝난 뒤 올리거나 이름을 바꾸어 주세요."
        return ""

    def _stored(self, row_id: str, upload: Upload) -> str:
        """Keep an upload's bytes on disk; why that failed, "" if it did not."""
        try:
            path = self._own_folder() / row_id
            with path.open("wb") as out:
                shutil.copyfileobj(upload, out)
        except OSError as error:
            return f"파일을 받아 두지 못했습니다({error.strerror or error}). 디스크의 빈자리와 권한을 확인해 주세요."
        self._uploads[row_id] = path
        return ""

    def _own_folder(self) -> Path:
        """This process's folder for uploads; a held lock in it tells other processes that it is in use."""
        with self._lock:
            if self._folder is None or not self._folder.exists():
                base = uploads_folder(self.settings.store, self.scope_id)
                base.mkdir(parents=True, exist_ok=True)
                with FileLock(base / ".sweep.lock", timeout=10):
                    self._folder = base / secrets.token_hex(8)
                    self._folder.mkdir()
                    self._hold = FileLock(self._folder / ".lock", thread_local=False)
                    self._hold.acquire()
            return self._folder

    def _add(self, row: Row) -> None:
        with self._lock:
            self._rows[row.id] = row
            finished = [old.id for old in self._rows.values() if not old.open and old.seen]
            for old_id in finished[: max(0, len(self._rows) - _KEPT_ROWS)]:
                del self._rows[old_id]
            if row.open and self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"intake {self.scope_id}", daemon=True)
                self._thread.start()

    def _set(self, row_id: str, **changes: object) -> None:
        with self._lock:
            self._rows[row_id] = replace(self._rows[row_id], **changes)  # type: ignore[arg-type]

    def _drop_upload(self, row_id: str) -> None:
        path = self._uploads.pop(row_id, None)
        if path is not None:
            path.unlink(missing_ok=True)

    def _next(self, *, files: bool) -> Row | None:
        """The next waiting row, a file or another task."""
        return next((row for row in self.rows() if row.state == "waiting" and (row.task == "take") == files), None)

    def _begun(self, *, files: bool, without: Collection[str] = ()) -> Row | None:
        """The next waiting row, its state now "reading"; None when there is none or its name is among ``without``."""
        with self._lock:
            row = self._next(files=files)
            if row is None or row.name in without:
                return None
            self._set(row.id, state="reading", began=time.monotonic())
            return row

    # -- the work -----------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._lock:
                if not any(row.open for row in self._rows.values()):
                    self._thread = None
                    return
            try:
                with ExitStack() as place:
                    intake = self._entered(place)
                    if intake is not None:
                        self._batch(intake)
            except RagError as error:
                self._fail(str(error), {"waiting", "reading"})
            except Exception:
                _log.exception("intake of %s failed", self.scope_id)
                self._fail(UNEXPECTED, {"reading"} if self._reading() else {"waiting"})

    def _reading(self) -> bool:
        return any(row.state == "reading" for row in self.rows())

    def _entered(self, place: ExitStack) -> ScopeIntake | None:
        """The scope with its writer's place held; None while another process holds it.

        Raises:
            StoreError: it was held for too long.
        """
        try:
            intake = place.enter_context(changing(self.settings, self.scope_id, wait_s=_LOOK_S, apart=True))
        except StoreError as error:
            self._hindrance = str(error)
            self._hindered_since = self._hindered_since or time.monotonic()
            if time.monotonic() - self._hindered_since > PATIENCE_S:
                self._hindrance, self._hindered_since = "", None
                raise
            time.sleep(_LOOK_S / 4)
            return None
        self._hindrance, self._hindered_since = "", None
        return intake

    def _batch(self, intake: ScopeIntake) -> None:
        """Some of the work, and its publication whatever became of it."""
        try:
            while (row := self._begun(files=False)) is not None:
                self._change(intake, row)
            self._take(intake)
        finally:
            self._publish(intake)

    def _change(self, intake: ScopeIntake, row: Row) -> None:
        gone = "그 사이에 없어진 문서입니다."
        match row.task:
            case "remove":
                removed = intake.remove(row.name) is not None
                self._set(row.id, state="removed" if removed else "failed", reason="" if removed else gone)
            case "reindex":
                status = intake.reindex(row.name)
                if status is None:
                    self._set(row.id, state="failed", reason=gone)
                else:
                    self._set(row.id, state=status.status, reason=status.reason, results=(status,))
            case "rebuild":
                statuses: list[FileStatus] = []
                intake.rebuild(statuses.append)
                self._finish(row.id, statuses)

    def _take(self, intake: ScopeIntake) -> None:
        current: list[str] = []
        statuses: list[FileStatus] = []

        def finish() -> None:
            if current:
                self._finish(current.pop(), statuses)
                statuses.clear()

        def in_turn() -> Iterator[tuple[Path, str]]:
            ends = time.monotonic() + _BATCH_S
            names: set[str] = set()
            while True:
                finish()
                if time.monotonic() > ends or self._next(files=False) is not None:
                    return
                row = self._begun(files=True, without=names)  # a name twice is a new version, for the next batch
                if row is None:
                    return
                current.append(row.id)
                names.add(row.name)
                yield self._uploads[row.id], row.name

        for status in intake.take(in_turn()):
            statuses.append(status)
            self._set(current[0], results=tuple(statuses))

    def _finish(self, row_id: str, statuses: list[FileStatus]) -> None:
        state, reason = summary(statuses)
        self._set(row_id, state=state, reason=reason, results=tuple(statuses))
        self._drop_upload(row_id)

    def _publish(self, intake: ScopeIntake) -> None:
        written = [row.id for row in self.rows() if not row.open and not row.seen]
        try:
            for error in intake.publish():
                _log.warning("%s", error)
        except Exception as error:
            _log.exception("publishing %s failed", self.scope_id)
            told = str(error) if isinstance(error, RagError) else UNEXPECTED
            for row_id in written:
                if self._rows[row_id].state in _WRITTEN:
                    self._set(row_id, state="failed", reason=f"넣었지만 답에 쓰이게 하지 못했습니다. {told}", seen=True)
        for row_id in written:
            self._set(row_id, seen=True)

    def _fail(self, reason: str, states: set[State]) -> None:
        with self._lock:
            for row in self.rows():
                if row.state in states:
                    self._set(row.id, state="failed", reason=reason, seen=True)
                    self._drop_upload(row.id)


def summary(statuses: list[FileStatus]) -> tuple[State, str]:
    """State and reason of a row with these results: those of its one file, or what became of an archive's files."""
    if len(statuses) == 1:
        return statuses[0].status, statuses[0].reason
    counts = Counter(status.status for status in statuses)
    told = ", ".join(f"{LABELS[state]} {number}" for state, number in counts.items())
    reason = f"파일 {len(statuses)}개: {told}"
    if len(counts) == 1:
        return statuses[0].status, reason
    if "failed" in counts:
        return "partly", reason
    return ("indexed" if "indexed" in counts else "updated" if "updated" in counts else "unchanged"), reason


_desks: dict[tuple[Path, str], Desk] = {}
_desks_lock = threading.Lock()


def changeable(settings: Settings, scope: Scope) -> tuple[str, ...]:
    """Scope ids whose documents the asker may change, the farm's own first."""
    return tuple(s for s in reversed(scope.visible) if s != PUBLIC or settings.public_documents_editable)


def desk_of(settings: Settings, scope: Scope, scope_id: str) -> Desk:
    """The desk of a scope.

    Raises:
        ScopeViolation: the asker may not change its documents.
    """
    if scope_id not in changeable(settings, scope):
        raise ScopeViolation("이 자료는 지금 고른 농장에서 바꿀 수 없습니다. 왼쪽에서 농장을 확인해 주세요.")
    with _desks_lock:
        desk = _desks.setdefault((settings.store.resolve(), scope_id), Desk(settings, scope_id))
    desk.settings = settings
    return desk


def uploads_folder(store: Path, scope_id: str) -> Path:
    """Where a scope's uploads lie until they are read."""
    return scope_folder(store, scope_id) / "uploads"


def sweep_uploads(store: Path) -> int:
    """Remove what killed processes left of uploads; the folders of living ones are held. Returns their number."""
    removed = 0
    for base in [store / PUBLIC / "uploads", *(store / "farms").glob("*/uploads")]:
        with suppress(OSError), FileLock(base / ".sweep.lock", timeout=10):
            for folder in [path for path in base.iterdir() if path.is_dir()]:
                with suppress(Timeout), FileLock(folder / ".lock", timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)
                    removed += 1
    return removed
