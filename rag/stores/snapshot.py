"""Derived files of a scope: ``snapshots/<digest>/``, named by ``snapshots/CURRENT``.

A snapshot lists one or two segments (``segments``): one of most documents and one of those that came or changed
since, so that adding a document does not derive all of them again. The documents of the first segment that are gone or
renewed are listed with it. The files of a segment are made whole in a temporary folder and renamed, then the snapshot,
then CURRENT: a reader sees the old state or the new one, never half of one. The name is the record's digest, so equal
content gives no second snapshot.

Files that cannot be read (a disk error, a power cut) are a ``StoreError`` for readers; the next ingest derives them
again. A reader takes everything into memory (matrices of a single segment are mapped), so a view outlives the removal of
its folder.

| place below ``snapshots/`` | content |
|---|---|
| ``segments/<name>/`` | the files of a segment |
| ``<digest>/segments.json`` | the names of its segments, the documents of the first that do not hold any more |
| ``<digest>/bm25_<level>/`` | BM25 index of the scope's *view* (public ∪ own), with the digest of the public part |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from rag.errors import StoreError
from rag.files import write_whole
from rag.stores.merge import merged
from rag.stores.record import ScopeRecord
from rag.stores.segments import Snapshot, read_segment, write_segment

# A second segment holds at most this many documents, or this share of the first.
RECENT_DOCUMENTS, RECENT_SHARE = 100, 0.1
# A reader that meets the moment of a swap looks again this often, so many seconds apart.
_LOOKS, _PAUSE_S = 5, 0.05
_SEGMENTS = "segments"
# Segments that are open in this process: a new snapshot shares the large one with the snapshot before.
_open_segments: WeakValueDictionary[Path, Snapshot] = WeakValueDictionary()


def current_digest(record: ScopeRecord) -> str | None:
    """Digest of the snapshot in force, None when there is none."""
    try:
        return (record.folder / "snapshots" / "CURRENT").read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Listing:
    """What ``segments.json`` holds: (name, content hash of each of its documents) of the segments, and who is gone."""

    segments: tuple[tuple[str, Mapping[str, str]], ...]
    gone: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"segments": [[name, dict(held)] for name, held in self.segments], "gone": list(self.gone)}

    @staticmethod
    def read(folder: Path) -> _Listing:
        raw = json.loads((folder / "segments.json").read_text(encoding="utf-8"))
        return _Listing(tuple((name, held) for name, held in raw["segments"]), tuple(raw["gone"]))


def write_snapshot(record: ScopeRecord, dim: int, *, again: bool = False) -> str:
    """Derive the snapshot of the record's present state and put it in force; returns its digest.

    The caller holds the writer's place. Snapshots other than the present and the last one are removed. ``again``:
    derive it also where one of that digest is there (its files are damaged).
    """
    digest = record.digest()
    base = record.folder / "snapshots"
    previous = current_digest(record)
    (base / _SEGMENTS).mkdir(exist_ok=True)
    target = base / digest
    if again or not (target / "segments.json").exists():
        listing = _listing(record, None if again else _listed(base, previous))
        for name, held in listing.segments:
            _derive(record, base / _SEGMENTS / name, dim, held, again=again)
        partial = base / f".{digest}.{os.getpid()}.part"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        (partial / "segments.json").write_text(json.dumps(listing.as_dict(), ensure_ascii=False), encoding="utf-8")
        _put(partial, target)
    write_whole(base / "CURRENT", digest.encode("ascii"))
    _sweep(base, digest, previous)
    return digest


def _listed(base: Path, digest: str | None) -> _Listing | None:
    """The listing of a snapshot; None for none, for one that cannot be read, and where a segment is missing."""
    try:
        listing = _Listing.read(base / (digest or "-"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return listing if all((base / _SEGMENTS / name).is_dir() for name, _ in listing.segments) else None


def _listing(record: ScopeRecord, previous: _Listing | None) -> _Listing:
    """The segments of the present state: the large one of the last snapshot with a small one, or one anew."""
    components = json.dumps(sorted(record.manifest().items()))
    wanted = record.content_hashes()
    if previous is not None and previous.segments:
        name, held = previous.segments[0]
        recent = {doc: content for doc, content in wanted.items() if held.get(doc) != content}
        gone = tuple(sorted(doc for doc, content in held.items() if wanted.get(doc) != content))
        few = max(len(recent), len(gone)) <= max(RECENT_DOCUMENTS, RECENT_SHARE * len(held))
        if few and name == _name(components, held):
            return _Listing(((name, held), (_name(components, recent), recent)), gone)
    return _Listing(((_name(components, wanted), wanted),))


def _name(components: str, held: Mapping[str, str]) -> str:
    """Name of the segment of some documents, made with these components."""
    return hashlib.sha256(json.dumps([components, sorted(held.items())]).encode()).hexdigest()[:20]


def _derive(record: ScopeRecord, target: Path, dim: int, doc_ids: Collection[str], *, again: bool) -> None:
    if target.exists() and not again:
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    write_segment(record, partial, dim, doc_ids)
    _open_segments.pop(target.resolve(), None)
    _put(partial, target)


def _put(partial: Path, target: Path) -> None:
    """Rename a finished folder into its place; one that stands there is moved away, and swept later."""
    if target.exists():
        target.replace(target.with_name(f".{target.name}.{os.getpid()}.old"))
    partial.replace(target)


def _sweep(base: Path, digest: str, previous: str | None) -> None:
    """Remove snapshots but the present and the last one, segments that neither lists, and what a killed run left."""
    kept = {digest, previous, _SEGMENTS}
    for old in base.iterdir():
        if old.is_dir() and old.name not in kept:
            shutil.rmtree(old, ignore_errors=True)
        elif old.suffix == ".part":
            old.unlink(missing_ok=True)
    listings = [_listed(base, name) for name in (digest, previous)]
    used = {name for listing in listings if listing is not None for name, _ in listing.segments}
    for old in (base / _SEGMENTS).iterdir():
        if old.name not in used:
            shutil.rmtree(old, ignore_errors=True)


def open_snapshot(record: ScopeRecord) -> Snapshot | None:
    """The snapshot in force, None when the scope has none yet.

    Raises:
        StoreError: its files are missing or damaged; names the command that derives them again.
    """
    for look in range(1, _LOOKS + 1):
        digest = current_digest(record)
        if digest is None:
            return None
        try:
            return _opened(record, digest)
        except FileNotFoundError as error:  # a writer may just be swapping
            if look == _LOOKS:
                raise _damaged(record, error) from error
            time.sleep(_PAUSE_S)
        except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as error:
            raise _damaged(record, error) from error
    return None


def _damaged(record: ScopeRecord, error: Exception) -> StoreError:
    return StoreError(
        f"'{record.scope_id}' 색인 파일이 없거나 손상되었습니다({type(error).__name__}: {error}). "
        f"'{record.rebuild_command}' 으로 다시 만드세요. 원본과 기록은 그대로 있습니다."
    )


def _opened(record: ScopeRecord, digest: str) -> Snapshot:
    base = record.folder / "snapshots"
    folder = base / digest
    listing = _Listing.read(folder)
    parts = [_segment(base / _SEGMENTS / name, record.scope_id) for name, _ in listing.segments]
    if len(parts) == 1:
        return replace(parts[0], digest=digest, folder=folder, parts=tuple(parts))
    large, recent = parts
    return merged(digest, folder, large, recent, frozenset(listing.gone))


def _segment(folder: Path, scope_id: str) -> Snapshot:
    """A segment, read once a process while somebody holds it."""
    key = folder.resolve()
    found = _open_segments.get(key)
    if found is None:
        found = _open_segments[key] = read_segment(folder, scope_id)
    return found
