"""The record of one scope: a folder with ``store.sqlite``, ``originals/`` and ``snapshots/``.

SQLite (WAL) is the truth; vectors, BM25 and graph snapshots are derived from it. One writer at a time behind a
file lock; readers in any number of processes. A document is written in one transaction: it is there whole or
not at all.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from rag.errors import IndexMismatch, StoreError
from rag.files import write_whole
from rag.schema import PUBLIC, ChunkRecord, Level, farm_scope

SCHEMA_VERSION = "3"
# SQLite takes 32,766 variables in one statement.
_MAX_VARIABLES = 30_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
  doc_id TEXT PRIMARY KEY, path TEXT NOT NULL, title TEXT NOT NULL, format TEXT NOT NULL, kind TEXT NOT NULL,
  crop TEXT NOT NULL, date TEXT NOT NULL, author TEXT NOT NULL, houses TEXT NOT NULL, content_hash TEXT NOT NULL,
  original TEXT NOT NULL, bytes INTEGER NOT NULL, pages INTEGER, characters INTEGER NOT NULL,
  tables INTEGER NOT NULL, notes TEXT NOT NULL, text TEXT NOT NULL, first_day TEXT NOT NULL, last_day TEXT NOT NULL,
  runs TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS documents_hash ON documents (content_hash);
CREATE TABLE IF NOT EXISTS chunks (
  chunk_id TEXT PRIMARY KEY, doc_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE, level TEXT NOT NULL,
  ordinal INTEGER NOT NULL, parent_id TEXT, section TEXT NOT NULL, locator TEXT NOT NULL, text TEXT NOT NULL,
  n_tokens INTEGER NOT NULL, tokens TEXT NOT NULL, vector BLOB, first_day TEXT NOT NULL, last_day TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS chunks_doc ON chunks (doc_id, level, ordinal);
CREATE TABLE IF NOT EXISTS sentences (
  chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL, end INTEGER NOT NULL, tokens TEXT NOT NULL, vector BLOB NOT NULL,
  PRIMARY KEY (chunk_id, ordinal));
CREATE TABLE IF NOT EXISTS spans (
  chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL, end INTEGER NOT NULL, PRIMARY KEY (chunk_id, ordinal)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mentions (
  chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, entity TEXT NOT NULL, type TEXT NOT NULL,
  count INTEGER NOT NULL, in_title INTEGER NOT NULL, PRIMARY KEY (chunk_id, entity));
CREATE TABLE IF NOT EXISTS relations (
  chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, head TEXT NOT NULL, relation TEXT NOT NULL,
  tail TEXT NOT NULL, confidence REAL NOT NULL, PRIMARY KEY (chunk_id, head, relation, tail));
"""
# Columns that records of earlier schemas lack; a rebuild, which the manifest asks for, fills them.
_ADDED = (
    ("documents", "first_day", "TEXT NOT NULL DEFAULT ''"),
    ("documents", "last_day", "TEXT NOT NULL DEFAULT ''"),
    ("documents", "runs", "TEXT NOT NULL DEFAULT '[]'"),
    ("chunks", "first_day", "TEXT NOT NULL DEFAULT ''"),
    ("chunks", "last_day", "TEXT NOT NULL DEFAULT ''"),
)
# What a ``ChunkRecord`` holds; a chunk whose rows have days of their own is of the first of them.
_CHUNKS = (
    "SELECT c.chunk_id, c.doc_id, c.level, c.ordinal, c.section, c.locator, c.text, d.title, d.kind, d.crop, "
    "iif(c.first_day = '', d.date, c.first_day) AS date, d.author FROM chunks c JOIN documents d USING (doc_id)"
)

Float16 = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A document as listed. ``date`` is ISO or empty, ``content_hash`` the SHA-256 of the original bytes.

    ``days`` are the first and last day that it tells of, ISO, empty where that is its date alone; ``runs`` hashes of its
    text by which copies are found.
    """

    doc_id: str
    path: str
    title: str
    format: str
    kind: str
    crop: str
    date: str
    author: str
    houses: tuple[str, ...]
    content_hash: str
    original: str
    bytes: int
    pages: int | None
    characters: int
    tables: int
    notes: tuple[str, ...]
    text: str
    days: tuple[str, str] = ("", "")
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """A chunk to be written. ``vector`` is None for levels that are not indexed.

    ``spans`` are the places of its sentences in its text, where these are kept with the paragraphs (G1, G3); ``days``
    the first and last day of its rows, ISO, empty where those of its document hold.
    """

    chunk_id: str
    level: Level
    ordinal: int
    parent_id: str | None
    section: str
    locator: str
    text: str
    n_tokens: int
    tokens: tuple[str, ...]
    vector: Float16 | None
    spans: tuple[tuple[int, int], ...] = ()
    days: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceRow:
    """A sentence of a paragraph chunk with its BM25 tokens and its vector."""

    chunk_id: str
    ordinal: int
    start: int
    end: int
    tokens: tuple[str, ...]
    vector: Float16


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionRow:
    """How often a chunk names an entity; ``in_title`` when document title or heading does."""

    chunk_id: str
    entity: str
    type: str
    count: int
    in_title: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRow:
    """``head –relation→ tail`` as stated in a chunk; ``confidence`` in (0, 1]."""

    chunk_id: str
    head: str
    relation: str
    tail: str
    confidence: float


def scope_folder(store: Path, scope_id: str) -> Path:
    """Folder of a scope below the store.

    Raises:
        SettingsError: the farm id cannot be a folder name.
    """
    if scope_id == PUBLIC:
        return store / PUBLIC
    farm_id = scope_id.removeprefix("farm:")
    farm_scope(farm_id)
    return store / "farms" / farm_id


def scopes_on_disk(store: Path) -> list[str]:
    """Scope ids that have a record below ``store``, public first."""
    found = [PUBLIC] if (store / PUBLIC / "store.sqlite").exists() else []
    for path in sorted((store / "farms").glob("*/store.sqlite")):
        found.append(farm_scope(path.parent.name))
    return found


class ScopeRecord:
    """Reads and writes one scope's record.

    Raises:
        StoreError: the folder cannot be made or the file is not a record.
    """

    def __init__(self, store: Path, scope_id: str) -> None:
        self.scope_id = scope_id
        self.folder = scope_folder(store, scope_id)
        self._local = threading.local()
        try:
            (self.folder / "originals").mkdir(parents=True, exist_ok=True)
            (self.folder / "snapshots").mkdir(exist_ok=True)
            with self._connect() as connection:
                connection.executescript(_SCHEMA)
                for table, column, kind in _ADDED:
                    if column not in {row["name"] for row in connection.execute(f"PRAGMA table_info({table})")}:
                        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"저장 폴더 '{self.folder}' 을(를) 열 수 없습니다({error}). 권한과 디스크를 확인하거나 백업본으로 바꿔 주세요."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        """This thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self.folder / "store.sqlite", timeout=30)
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA synchronous=NORMAL")
            self._local.connection = connection
        return connection

    @contextmanager
    def writer(self, wait_s: float = 10.0) -> Iterator[None]:
        """Hold the scope's only writer's place.

        Raises:
            StoreError: another process writes and does not finish within ``wait_s`` seconds.
        """
        lock = FileLock(self.folder / ".writer.lock")
        try:
            lock.acquire(timeout=wait_s)
        except Timeout as error:
            raise StoreError(
                f"'{self.scope_id}' 자료에 다른 작업이 쓰고 있습니다({wait_s:.0f}초 기다림). 끝난 뒤 다시 실행해 주세요."
            ) from error
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction of this thread; an inner one joins the outer, so several writes become one."""
        connection = self._connect()
        if connection.in_transaction:
            yield connection
            return
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    # -- manifest -----------------------------------------------------------------------------------------

    def manifest(self) -> dict[str, str]:
        """What the record was built with; empty for a new one."""
        return {row["key"]: row["value"] for row in self._connect().execute("SELECT key, value FROM manifest")}

    @property
    def rebuild_command(self) -> str:
        """The command that makes this scope's index anew from its originals."""
        option = "--public" if self.scope_id == PUBLIC else f"--farm {self.scope_id.removeprefix('farm:')}"
        return f"python -m ingest --rebuild {option}"

    def check_manifest(self, expected: Mapping[str, str]) -> None:
        """Compare with the running components; an empty record takes any.

        Raises:
            IndexMismatch: a component differs; names both values and the rebuild command.
        """
        for key, have in sorted(self.manifest().items()):
            want = expected.get(key)
            if want is not None and have != want:
                raise IndexMismatch(
                    f"'{self.scope_id}' 색인의 {key} 이(가) 다릅니다: 색인은 '{have}', 지금은 '{want}'. "
                    f"설정을 되돌리거나 '{self.rebuild_command}' 으로 다시 만드세요."
                )

    def set_manifest(self, values: Mapping[str, str]) -> None:
        """Store what the record is built with."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO manifest VALUES (?, ?)", sorted(values.items()))

    def digest(self) -> str:
        """Name of the record's present state: documents, their versions and the manifest."""
        sha = hashlib.sha256()
        for key, value in sorted(self.manifest().items()):
            sha.update(f"{key}={value}\n".encode())
        for row in self._connect().execute("SELECT doc_id, content_hash FROM documents ORDER BY doc_id"):
            sha.update(f"{row['doc_id']}\t{row['content_hash']}\n".encode())
        return sha.hexdigest()[:20]

    # -- writing ------------------------------------------------------------------------------------------

    def keep_original(self, name: str, data: bytes) -> None:
        """Store original bytes under their hash name; a half-written file never carries that name."""
        target = self.folder / "originals" / name
        if not target.exists():
            write_whole(target, data)

    def write_document(
        self,
        document: DocumentRow,
        chunks: Sequence[ChunkRow],
        sentences: Sequence[SentenceRow],
        mentions: Sequence[MentionRow],
        relations: Sequence[RelationRow],
    ) -> None:
        """Replace a document and all that hangs on it, in one transaction."""
        with self.transaction() as db:
            db.execute("DELETE FROM documents WHERE doc_id = ?", (document.doc_id,))
            db.execute(
                "INSERT INTO documents VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    document.doc_id,
                    document.path,
                    document.title,
                    document.format,
                    document.kind,
                    document.crop,
                    document.date,
                    document.author,
                    json.dumps(document.houses, ensure_ascii=False),
                    document.content_hash,
                    document.original,
                    document.bytes,
                    document.pages,
                    document.characters,
                    document.tables,
                    json.dumps(document.notes, ensure_ascii=False),
                    document.text,
                    *document.days,
                    json.dumps(document.runs),
                ),
            )
            db.executemany(
                "INSERT INTO chunks VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
                [
                    (
                        c.chunk_id,
                        document.doc_id,
                        c.level,
                        c.ordinal,
                        c.parent_id,
                        c.section,
                        c.locator,
                        c.text,
                        c.n_tokens,
                        json.dumps(c.tokens, ensure_ascii=False),
                        None if c.vector is None else c.vector.tobytes(),
                        *c.days,
                    )
                    for c in chunks
                ],
            )
            db.executemany(
                "INSERT INTO spans VALUES (?,?,?,?)",
                [(c.chunk_id, n, start, end) for c in chunks for n, (start, end) in enumerate(c.spans)],
            )
            db.executemany(
                "INSERT INTO sentences VALUES (?,?,?,?,?,?)",
                [
                    (
                        s.chunk_id,
                        s.ordinal,
                        s.start,
                        s.end,
                        json.dumps(s.tokens, ensure_ascii=False),
                        s.vector.tobytes(),
                    )
                    for s in sentences
                ],
            )
            db.executemany(
                "INSERT INTO mentions VALUES (?,?,?,?,?)",
                [(m.chunk_id, m.entity, m.type, m.count, int(m.in_title)) for m in mentions],
            )
            db.executemany(
                "INSERT OR IGNORE INTO relations VALUES (?,?,?,?,?)",
                [(r.chunk_id, r.head, r.relation, r.tail, r.confidence) for r in relations],
            )

    def remove_document(self, doc_id: str) -> bool:
        """Remove a document and, if no other document has the same bytes, its original."""
        with self.transaction() as db:
            row = db.execute("SELECT original FROM documents WHERE doc_id = ?", (doc_id,)).fetchone()
            if row is None:
                return False
            db.execute("DELETE FROM documents WHERE doc_id = ?", (doc_id,))
            left = db.execute("SELECT 1 FROM documents WHERE original = ? LIMIT 1", (row["original"],)).fetchone()
        if left is None:
            (self.folder / "originals" / row["original"]).unlink(missing_ok=True)
        return True

    def clear(self) -> None:
        """Remove all documents and the manifest (inside a rebuild's transaction)."""
        with self.transaction() as db:
            db.execute("DELETE FROM documents")
            db.execute("DELETE FROM manifest")

    def sweep_originals(self) -> int:
        """Remove originals that no document refers to (a killed ingest leaves such files). Returns their number."""
        known = {row[0] for row in self._connect().execute("SELECT original FROM documents")}
        orphans = [path for path in (self.folder / "originals").iterdir() if path.name not in known]
        for path in orphans:
            path.unlink(missing_ok=True)
        return len(orphans)

    # -- reading ------------------------------------------------------------------------------------------

    def documents(self) -> list[DocumentRow]:
        """All documents by id."""
        return [_document(row) for row in self._connect().execute("SELECT * FROM documents ORDER BY doc_id")]

    def document(self, doc_id: str) -> DocumentRow | None:
        """One document, or None."""
        row = self._connect().execute("SELECT * FROM documents WHERE doc_id = ?", (doc_id,)).fetchone()
        return None if row is None else _document(row)

    def known(self) -> list[tuple[str, str, int, str, tuple[int, ...]]]:
        """Id, path, characters, date and text hashes of all documents, by id."""
        rows = self._connect().execute("SELECT doc_id, path, characters, date, runs FROM documents ORDER BY doc_id")
        return [(*row[:4], tuple(json.loads(row["runs"]))) for row in rows]

    def content_hashes(self) -> dict[str, str]:
        """doc_id → content hash."""
        return dict(self._connect().execute("SELECT doc_id, content_hash FROM documents").fetchall())

    def facts(self, doc_ids: Collection[str] | None = None) -> list[list[Any]]:
        """Id, title, kind, crop, author, format, houses, first and last day of documents, by id."""
        among, ids = _among("doc_id", doc_ids)
        rows = self._connect().execute(
            "SELECT doc_id, title, kind, crop, author, format, houses, iif(first_day = '', date, first_day), "
            "iif(last_day = '', date, last_day) FROM documents "
            f"WHERE TRUE {among} ORDER BY doc_id",
            ids,
        )
        return [[*row[:6], json.loads(row[6]), *row[7:]] for row in map(tuple, rows)]

    def chunk_rows(self, level: Level, doc_ids: Collection[str] | None = None) -> list[sqlite3.Row]:
        """chunk_id, doc_id, tokens, vector, first and last day of a level, by document and ordinal."""
        among, ids = _among("doc_id", doc_ids)
        return (
            self._connect()
            .execute(
                "SELECT chunk_id, doc_id, tokens, vector, first_day, last_day FROM chunks "
                f"WHERE level = ? AND vector IS NOT NULL {among} ORDER BY doc_id, ordinal",
                (level, *ids),
            )
            .fetchall()
        )

    def sentence_rows(self, doc_ids: Collection[str] | None = None) -> list[sqlite3.Row]:
        """doc_id, chunk_id, start, end, tokens, vector of sentences, by document, paragraph and position."""
        among, ids = _among("c.doc_id", doc_ids)
        return (
            self._connect()
            .execute(
                "SELECT c.doc_id, s.chunk_id, s.start, s.end, s.tokens, s.vector FROM chunks c JOIN sentences s USING (chunk_id) "
                f"WHERE TRUE {among} ORDER BY c.doc_id, c.ordinal, s.ordinal",
                ids,
            )
            .fetchall()
        )

    def spans(self, level: Level, doc_ids: Collection[str] | None = None) -> dict[str, list[tuple[int, int]]]:
        """chunk id → places of its sentences in its text, for the chunks of a level that have any."""
        found: dict[str, list[tuple[int, int]]] = {}
        among, ids = _among("c.doc_id", doc_ids)
        for table in ("sentences", "spans"):
            for row in self._connect().execute(
                f"SELECT s.chunk_id, s.start, s.end FROM chunks c JOIN {table} s USING (chunk_id) "
                f"WHERE c.level = ? {among} ORDER BY s.chunk_id, s.ordinal",
                (level, *ids),
            ):
                found.setdefault(row["chunk_id"], []).append((row["start"], row["end"]))
        return found

    def mention_rows(self, level: Level, doc_ids: Collection[str] | None = None) -> list[sqlite3.Row]:
        """chunk_id, entity, type, count, in_title of a level."""
        return self._of_level("mentions", level, "entity", doc_ids)

    def relation_rows(self, level: Level, doc_ids: Collection[str] | None = None) -> list[sqlite3.Row]:
        """chunk_id, head, relation, tail, confidence of a level."""
        return self._of_level("relations", level, "head, relation, tail", doc_ids)

    def _of_level(self, table: str, level: Level, order: str, doc_ids: Collection[str] | None) -> list[sqlite3.Row]:
        among, ids = _among("c.doc_id", doc_ids)
        return (
            self._connect()
            .execute(
                f"SELECT t.* FROM chunks c JOIN {table} t USING (chunk_id) WHERE c.level = ? AND c.vector IS NOT NULL "
                f"{among} ORDER BY chunk_id, {order}",
                (level, *ids),
            )
            .fetchall()
        )

    def chunks(self, chunk_ids: Sequence[str]) -> dict[str, ChunkRecord]:
        """Chunk texts with their document's title and metadata; unknown ids are left out."""
        found: dict[str, ChunkRecord] = {}
        for start in range(0, len(chunk_ids), _MAX_VARIABLES):
            wanted = list(chunk_ids[start : start + _MAX_VARIABLES])
            rows = self._connect().execute(
                f"{_CHUNKS} WHERE c.chunk_id IN ({','.join('?' * len(wanted))})",
                wanted,
            )
            found.update({row["chunk_id"]: ChunkRecord(scope_id=self.scope_id, **dict(row)) for row in rows})
        return found

    def counts(self) -> dict[str, int]:
        """Number of documents, chunks per level, sentences, mentions and relations."""
        db = self._connect()
        counts = {
            table: int(db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
            for table in ("documents", "sentences", "mentions", "relations")
        }
        for level, number in db.execute("SELECT level, COUNT(*) FROM chunks GROUP BY level ORDER BY level"):
            counts[f"chunks_{level}"] = int(number)
        return counts

    def listed(self) -> list[DocumentRow]:
        """All documents by id without their text and its hashes, for lists of thousands."""
        rows = self._connect().execute(
            "SELECT doc_id, path, title, format, kind, crop, date, author, houses, content_hash, original, bytes, pages, "
            "characters, tables, notes, '' AS text, first_day, last_day, '[]' AS runs FROM documents ORDER BY doc_id"
        )
        return [_document(row) for row in rows]

    def chunk_counts(self, level: Level) -> dict[str, int]:
        """doc_id → number of its chunks at a level; documents without any are left out."""
        rows = self._connect().execute("SELECT doc_id, COUNT(*) FROM chunks WHERE level = ? GROUP BY doc_id", (level,))
        return dict(rows.fetchall())

    def chunks_of(self, doc_id: str, level: Level, *, start: int = 0, limit: int = -1) -> list[ChunkRecord]:
        """A document's chunks of a level in reading order, ``limit`` of them (-1: all) after the first ``start``."""
        rows = self._connect().execute(
            f"{_CHUNKS} WHERE c.doc_id = ? AND c.level = ? ORDER BY c.ordinal LIMIT ? OFFSET ?",
            (doc_id, level, limit, start),
        )
        return [ChunkRecord(scope_id=self.scope_id, **dict(row)) for row in rows]


def _among(column: str, doc_ids: Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    """Condition and parameter that keep the rows of some documents, nothing for all."""
    if doc_ids is None:
        return "", ()
    return f"AND {column} IN (SELECT value FROM json_each(?))", (json.dumps(sorted(doc_ids)),)


def _document(row: sqlite3.Row) -> DocumentRow:
    values = dict(row)
    values["houses"] = tuple(json.loads(values["houses"]))
    values["notes"] = tuple(json.loads(values["notes"]))
    values["runs"] = tuple(json.loads(values["runs"]))
    values["days"] = (values.pop("first_day"), values.pop("last_day"))
    return DocumentRow(**values)
