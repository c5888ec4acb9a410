"""Vector stores of other engines, kept in line with the scopes' snapshots.

The snapshot is the truth. A store is brought in line by chunk id and version: what is missing or changed is written
first, what is gone is removed after, so that no unchanged chunk is ever missing. This happens at start for the
public scope and the configured farms, and again whenever a question meets a new snapshot.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

from rag.errors import ChannelUnavailable
from rag.schema import Level
from rag.stores.record import ScopeRecord, scopes_on_disk
from rag.stores.segments import INDEXED_LEVELS
from rag.stores.snapshot import open_snapshot
from rag.stores.vectors import VectorRow, VectorStorePort, vector_rows
from rag.stores.view import View

# A question waits this long for another thread that is bringing stores in line.
_WAIT_S = 1.0


class VectorBackend(Protocol):
    """Opens the stores of one engine."""

    def open(self, scope_id: str, level: Level, dim: int) -> VectorStorePort:
        """The store of a scope and level."""

    def prune(self, scope_ids: Collection[str]) -> None:
        """Remove what belongs to other scopes than these."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What :func:`sync` changed."""

    written: int
    removed: int


def sync(port: VectorStorePort, rows: Sequence[VectorRow]) -> Synced:
    """Make ``port`` hold exactly ``rows``.

    Raises:
        StoreError: the engine fails, or a row is refused; the store then holds some of the new rows.
    """
    have = port.versions()
    changed = [row for row in rows if have.get(row.chunk_id) != row.version]
    gone = have.keys() - {row.chunk_id for row in rows}
    if changed:
        port.add(changed)
    if gone:
        port.delete_chunks(sorted(gone))
    return Synced(len(changed), len(gone))


def rows_of_view(view: View, level: Level) -> dict[str, list[VectorRow]]:
    """Scope id → rows, for every scope of the view that has any."""
    part = view.levels[level]
    found: dict[str, list[VectorRow]] = {}
    start = 0
    for matrix in part.matrices:
        rows = slice(start, start := start + len(matrix))
        if len(matrix):
            scope_id = part.scope_of[rows.start]
            found[scope_id] = vector_rows(view.documents, part.chunk_ids[rows], part.document_of[rows], matrix)
    return found


class ScopeVectors:
    """The stores of all scopes on one backend, opened once a process. Thread-safe."""

    def __init__(self, backend: VectorBackend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._ports: dict[tuple[str, Level], VectorStorePort] = {}
        self._fingerprints: dict[tuple[str, Level], str] = {}
        self._ready: WeakKeyDictionary[View, dict[Level, tuple[str, ...]]] = WeakKeyDictionary()

    def prepare(self, store: Path, scope_ids: Sequence[str]) -> None:
        """Bring the stores of these scopes in line with their snapshots; drop those of scopes that are gone.

        Raises:
            StoreError: the engine fails.
        """
        on_disk = scopes_on_disk(store)
        with self._lock:
            self._backend.prune(on_disk)
            for scope_id in scope_ids:
                snapshot = open_snapshot(ScopeRecord(store, scope_id)) if scope_id in on_disk else None
                if snapshot is None:
                    continue
                for level in INDEXED_LEVELS:
                    part = snapshot.levels[level]
                    rows = vector_rows(snapshot.documents, part.chunk_ids, part.document_of, part.vectors)
                    self._bring_in_line(scope_id, level, rows, int(part.vectors.shape[1]))

    def of(self, view: View, level: Level) -> dict[str, VectorStorePort]:
        """Scope id → store, in line with the view, for every scope of the view that has chunks.

        Raises:
            ChannelUnavailable: another thread is at it (a large ingest); the next questions find it done.
            StoreError: the engine fails.
        """
        if not self._lock.acquire(timeout=_WAIT_S):
            raise ChannelUnavailable(
                "새 자료를 의미 검색 색인에 옮기는 중이라 이번 질문에서는 쉽니다. 곧 다시 쓰입니다."
            )
        try:
            ready = self._ready.setdefault(view, {})
            if level not in ready:
                rows = rows_of_view(view, level)
                dim = int(view.levels[level].matrices[0].shape[1])
                for scope_id in view.records:
                    self._bring_in_line(scope_id, level, rows.get(scope_id, []), dim)
                ready[level] = tuple(rows)
            return {scope_id: self._ports[scope_id, level] for scope_id in ready[level]}
        finally:
            self._lock.release()

    def forget(self) -> None:
        """Compare every store again at the next question (an engine failed: it may have lost its data)."""
        self._fingerprints.clear()
        self._ready.clear()

    def close(self) -> None:
        """Close all stores."""
        with self._lock:
            self.forget()
            for port in self._ports.values():
                port.close()
            self._ports.clear()

    def _bring_in_line(self, scope_id: str, level: Level, rows: Sequence[VectorRow], dim: int) -> None:
        fingerprint = _fingerprint(rows)
        port = self._ports.get((scope_id, level))
        if port is None or port.dim != dim:
            if port is not None:
                port.close()
            port = self._ports[scope_id, level] = self._backend.open(scope_id, level, dim)
            self._fingerprints.pop((scope_id, level), None)
        if self._fingerprints.get((scope_id, level)) != fingerprint:
            sync(port, rows)
            self._fingerprints[scope_id, level] = fingerprint


def _fingerprint(rows: Sequence[VectorRow]) -> str:
    sha = hashlib.blake2b(digest_size=16)
    for row in rows:
        sha.update(f"{row.chunk_id}\t{row.version}\n".encode())
    return sha.hexdigest()
