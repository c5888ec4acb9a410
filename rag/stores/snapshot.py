"""Derived files of a scope: ``snapshots/<digest>/``, named by ``snapshots/CURRENT``.

A snapshot is made whole in a temporary folder, renamed, and then CURRENT is replaced: a reader sees the old state
or the new one, never half of one. The name is the record's digest, so equal content gives no second snapshot.
Files that cannot be read (a disk error, a power cut) are a ``StoreError`` for readers; the next ingest derives them
again.

| file | content |
|---|---|
| ``vectors_G2.npy`` | float32 (chunks, dim), unit rows, by document and ordinal |
| ``sentences.npy`` | float32 (sentences, dim), unit rows |
| ``rows.json`` | chunk ids and document of each row, sentence spans and tokens, documents' filter fields |
| ``graph.json`` | mentions and relations by chunk row |
| ``tokens.json`` | BM25 tokens by chunk row |
| ``bm25_G2/`` | BM25 index of the scope's *view* (public ∪ own), with the digest of the public part |
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.embedding import unit_rows
from rag.errors import StoreError
from rag.schema import Level, SentenceRecord
from rag.stores.record import ScopeRecord

FloatMatrix = npt.NDArray[np.float32]
INDEXED_LEVELS: tuple[Level, ...] = ("G2",)
# A reader that meets the moment of a swap looks again this often, so many seconds apart.
_LOOKS, _PAUSE_S = 5, 0.05


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The fields of a document that filters read."""

    doc_id: str
    scope_id: str
    title: str
    kind: str
    crop: str
    author: str
    format: str
    houses: tuple[str, ...]
    date: date | None


@dataclass(frozen=True, slots=True)
class LevelRows:
    """Rows of one level: ``chunk_ids[i]`` belongs to document number ``document_of[i]`` and has ``vectors[i]``."""

    chunk_ids: tuple[str, ...]
    document_of: npt.NDArray[np.int64]
    vectors: FloatMatrix
    tokens: tuple[tuple[str, ...], ...]
    mentions: tuple[tuple[int, str, str, int, bool], ...]
    relations: tuple[tuple[int, str, str, str, float], ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An opened snapshot; matrices are memory-mapped."""

    scope_id: str
    digest: str
    folder: Path
    documents: tuple[DocumentFacts, ...]
    levels: dict[Level, LevelRows]
    sentences: dict[str, tuple[SentenceRecord, ...]]
    sentence_vectors: FloatMatrix


def current_digest(record: ScopeRecord) -> str | None:
    """Digest of the snapshot in force, None when there is none."""
    try:
        return (record.folder / "snapshots" / "CURRENT").read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def write_snapshot(record: ScopeRecord, dim: int, *, again: bool = False) -> str:
    """Derive the snapshot of the record's present state and put it in force; returns its digest.

    The caller holds the writer's place. Snapshots other than the present and the last one are removed. ``again``:
    derive it also where one of that digest is there (its files are damaged).
    """
    digest = record.digest()
    base = record.folder / "snapshots"
    previous = current_digest(record)
    target = base / digest
    if again or not target.exists():
        partial = base / f".{digest}.{os.getpid()}.part"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        _write_files(record, partial, dim)
        if target.exists():
            target.replace(base / f".{digest}.{os.getpid()}.old")
        partial.replace(target)
    pointer = base / f".CURRENT.{os.getpid()}.part"
    pointer.write_text(digest, encoding="ascii")
    pointer.replace(base / "CURRENT")
    for old in base.iterdir():
        if old.is_dir() and old.name not in (digest, previous):
            shutil.rmtree(old, ignore_errors=True)
        elif old.suffix == ".part":
            old.unlink(missing_ok=True)
    return digest


def _write_files(record: ScopeRecord, folder: Path, dim: int) -> None:
    documents = record.documents()
    number = {document.doc_id: i for i, document in enumerate(documents)}
    rows: dict[str, Any] = {
        "documents": [
            [d.doc_id, d.title, d.kind, d.crop, d.author, d.format, list(d.houses), d.date] for d in documents
        ],
        "levels": {},
    }
    graph: dict[str, Any] = {}
    tokens: dict[str, Any] = {}
    mentions, relations = record.mention_rows(), record.relation_rows()
    for level in INDEXED_LEVELS:
        chunks = record.chunk_rows(level)
        row_of = {chunk["chunk_id"]: i for i, chunk in enumerate(chunks)}
        np.save(folder / f"vectors_{level}.npy", _matrix([chunk["vector"] for chunk in chunks], dim))
        rows["levels"][level] = {
            "chunk_ids": [chunk["chunk_id"] for chunk in chunks],
            "document_of": [number[chunk["doc_id"]] for chunk in chunks],
        }
        tokens[level] = [json.loads(chunk["tokens"]) for chunk in chunks]
        graph[level] = {
            "mentions": [
                [row_of[m["chunk_id"]], m["entity"], m["type"], m["count"], bool(m["in_title"])]
                for m in mentions
                if m["chunk_id"] in row_of
            ],
            "relations": [
                [row_of[r["chunk_id"]], r["head"], r["relation"], r["tail"], r["confidence"]]
                for r in relations
                if r["chunk_id"] in row_of
            ],
        }
    sentences = record.sentence_rows()
    np.save(folder / "sentences.npy", _matrix([s["vector"] for s in sentences], dim))
    rows["sentences"] = [[s["chunk_id"], s["start"], s["end"], json.loads(s["tokens"])] for s in sentences]
    for name, content in (("rows.json", rows), ("graph.json", graph), ("tokens.json", tokens)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _matrix(blobs: list[bytes], dim: int) -> FloatMatrix:
    """Unit float32 rows from float16 blobs, shape (n, dim); ``dim`` is read where there are no rows to tell it."""
    if not blobs:
        return np.empty((0, dim), np.float32)
    matrix = np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), -1).astype(np.float32)
    return unit_rows(matrix)


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
            return _read_files(record, digest)
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


def _read_files(record: ScopeRecord, digest: str) -> Snapshot:
    folder = record.folder / "snapshots" / digest
    rows, graph, tokens = (
        json.loads((folder / name).read_text(encoding="utf-8")) for name in ("rows.json", "graph.json", "tokens.json")
    )
    levels: dict[Level, LevelRows] = {}
    for level in INDEXED_LEVELS:
        part = rows["levels"][level]
        levels[level] = LevelRows(
            tuple(part["chunk_ids"]),
            np.array(part["document_of"], np.int64),
            np.load(folder / f"vectors_{level}.npy", mmap_mode="r"),
            tuple(map(tuple, tokens[level])),
            tuple(map(tuple, graph[level]["mentions"])),
            tuple(map(tuple, graph[level]["relations"])),
        )
        if not len(levels[level].chunk_ids) == len(levels[level].vectors) == len(levels[level].tokens):
            raise ValueError(f"{level}: chunks, vectors and tokens differ in number")
    return Snapshot(
        record.scope_id,
        digest,
        folder,
        tuple(
            DocumentFacts(i, record.scope_id, t, k, c, a, f, tuple(h), date.fromisoformat(d) if d else None)
            for i, t, k, c, a, f, h, d in rows["documents"]
        ),
        levels,
        _by_chunk(rows["sentences"]),
        np.load(folder / "sentences.npy", mmap_mode="r"),
    )


def _by_chunk(rows: list[Any]) -> dict[str, tuple[SentenceRecord, ...]]:
    found: dict[str, list[SentenceRecord]] = {}
    for row, (chunk_id, start, end, tokens) in enumerate(rows):
        record = SentenceRecord(chunk_id=chunk_id, start=start, end=end, tokens=tuple(tokens), row=row)
        found.setdefault(chunk_id, []).append(record)
    return {chunk_id: tuple(records) for chunk_id, records in found.items()}
