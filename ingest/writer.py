"""From files to a scope's record: check, parse, chunk, embed, write; one status a file, a member of an archive is one.

Checked in this order: the path is normalised, an exact copy is left out by its hash, the format is sniffed from the
bytes (``loaders.sniff``), a new version takes the place of the document it renews and a near copy is remarked
(``versions``). Incremental by content hash, idempotent, atomic per document. A file that fails leaves what was there
before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import lru_cache
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ingest.archives import Refused, unpack
from ingest.chunking import CHUNKER_VERSION, Chunk, chunk_document
from ingest.days import Days, days_of
from ingest.limits import Limits
from ingest.loaders import parse, read_file
from ingest.loaders.sniff import is_archive
from ingest.metadata import DocMetadata, infer_metadata
from ingest.names import kept_suffix
from ingest.parsed import ParsedDocument
from ingest.relations import RELATIONS_VERSION, relations_in
from ingest.versions import Known, KnownDocuments, Relation, long_runs
from rag.embedding import EmbeddingCache, Encoder
from rag.errors import IngestError, StoreError
from rag.stores.record import (
    SCHEMA_VERSION,
    ChunkRow,
    DocumentRow,
    MentionRow,
    RelationRow,
    ScopeRecord,
    SentenceRow,
)
from rag.stores.segments import INDEXED_LEVELS, SENTENCE_LEVEL
from rag.stores.snapshot import current_digest, open_snapshot, write_snapshot
from rag.stores.view import view_bm25
from rag.text import TOKENIZER_VERSION, Analysis, Korean, count_entities

FileState = Literal["indexed", "updated", "unchanged", "duplicate", "failed"]
STATE_LABELS: dict[FileState, str] = {
    "indexed": "넣음",
    "updated": "새 판으로 바꿈",
    "unchanged": "그대로",
    "duplicate": "중복",
    "failed": "실패",
}


_ANY_NUMBER = 2**31
_Rows = tuple[DocumentRow, list[ChunkRow], list[SentenceRow], list[MentionRow], list[RelationRow]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What became of one file. ``author`` and ``created`` are what its program wrote into it."""

    path: str
    status: FileState
    reason: str = ""
    format: str = ""
    author: str | None = None
    created: str | None = None
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


def expected_manifest(embedder: Encoder, korean: Korean) -> dict[str, str]:
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


@dataclass(frozen=True, slots=True)
class _Source:
    """A file, or a member of an archive, before it is read as a document; ``failure`` instead of bytes."""

    logical: str
    data: bytes = b""
    failure: str = ""


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


@dataclass(slots=True)
class _OnFile:
    """What the scope holds while files are taken in: content hashes both ways, and the documents themselves.

    Documents are read when the first new one comes, so that a run without news stays fast.
    """

    hashes: dict[str, str]
    by_hash: dict[str, str]
    record: ScopeRecord
    _documents: KnownDocuments | None = None

    @property
    def documents(self) -> KnownDocuments:
        if self._documents is None:
            self._documents = KnownDocuments(starmap(Known, self.record.known()), self._text)
        return self._documents

    def _text(self, doc_id: str) -> str:
        document = self.record.document(doc_id)
        return "" if document is None else document.text

    def add(self, document: DocumentRow) -> None:
        self.remove(document.doc_id)
        self.hashes[document.doc_id] = document.content_hash
        self.by_hash[document.content_hash] = document.doc_id
        self.documents.add(_known(document))

    def remove(self, doc_id: str) -> None:
        before = self.hashes.pop(doc_id, None)
        if before is not None and self.by_hash.get(before) == doc_id:
            del self.by_hash[before]
        if self._documents is not None:
            self._documents.remove(doc_id)


def _known(document: DocumentRow) -> Known:
    return Known(document.doc_id, document.path, document.characters, document.date, document.runs)


def _iso(days: Days | None) -> tuple[str, str]:
    return ("", "") if days is None else (days[0].isoformat(), days[1].isoformat())


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
        days=_iso(chunk.days),
        spans=() if chunk.level == SENTENCE_LEVEL else tuple((s.start, s.end) for s in chunk.sentences),
    )


class Writer:
    """Takes files into one scope. Use inside ``record.writer()``."""

    def __init__(
        self,
        record: ScopeRecord,
        embedder: Encoder,
        korean: Korean,
        cache: EmbeddingCache,
        *,
        limit_bytes: int,
        limits: Limits | None = None,
        public: ScopeRecord | None = None,
        today: date | None = None,
    ) -> None:
        self.record = record
        self._embedder = embedder
        self._korean = korean
        self._cache = cache
        self._limits = replace(limits or Limits(), bytes=limit_bytes)
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
        """Take in (file, logical path) pairs; yields one status a file, for an archive one for each file in it."""
        hashes = self.record.content_hashes()
        by_hash = {content: doc_id for doc_id, content in hashes.items()}
        if self._public is not None:
            by_hash.update({content: doc_id for doc_id, content in self._public.content_hashes().items()})
        known = _OnFile(hashes, by_hash, self.record)
        seen: dict[str, Path] = {}
        for path, logical in files:
            for source in self._sources(path, logical):
                if source.logical in seen:
                    reason = _same_name(path, seen[source.logical])
                    yield FileStatus(path=source.logical, status="failed", reason=reason)
                    continue
                seen[source.logical] = path
                yield self._take_one(source, known)

    def _sources(self, path: Path, logical: str) -> Iterator[_Source]:
        """The file itself, or what an archive holds."""
        try:
            data = read_file(path, logical, self._limits)
        except IngestError as error:
            yield _Source(logical, failure=str(error))
            return
        if not is_archive(data, logical):
            yield _Source(logical, data)
            return
        for member in unpack(data, logical, self._limits):
            if isinstance(member, Refused):
                yield _Source(member.path, failure=member.reason)
            else:
                yield _Source(member.path, member.data)

    def _take_one(self, source: _Source, known: _OnFile) -> FileStatus:
        logical = source.logical
        doc_id = f"{self.record.scope_id}/{logical}"
        if source.failure:
            return FileStatus(path=logical, status="failed", reason=source.failure)
        content_hash = hashlib.sha256(source.data).hexdigest()
        if known.hashes.get(doc_id) == content_hash:
            return self._described(FileStatus(path=logical, status="unchanged"), doc_id)
        twin = known.by_hash.get(content_hash)
        if twin is not None and twin != doc_id:
            return self._described(self._left_out(doc_id, logical, f"같은 내용의 문서가 있습니다: {twin}", known), twin)
        try:
            parsed = parse(source.data, logical, self._limits)
            document, chunks = self._prepared(parsed, logical, doc_id, source.data, content_hash, kept_suffix(logical))
        except IngestError as error:
            return FileStatus(path=logical, status="failed", reason=str(error))
        relation = known.documents.relation(_known(document), document.text)
        if relation is not None and relation.kind == "older":
            return self._left_out(doc_id, logical, f"더 새로운 판이 있습니다: {relation.path}", known)
        status = self._stored(document, chunks, parsed, source.data, relation)
        if doc_id in known.hashes:
            reason = status.reason or "같은 이름의 옛 판을 새 판으로 바꾸었습니다."
            status = replace(status, status="updated", reason=reason)
        if relation is not None and relation.kind == "newer":
            known.remove(relation.doc_id)
        known.add(document)
        return status

    def _described(self, status: FileStatus, doc_id: str) -> FileStatus:
        """``status`` of a file that brought nothing new, with what is on file."""
        own = doc_id.startswith(f"{self.record.scope_id}/")
        record = self.record if own or self._public is None else self._public
        document = record.document(doc_id)
        if document is None:
            return status
        return replace(
            status,
            format=document.format,
            pages=document.pages,
            characters=document.characters,
            tables=document.tables,
            chunks=len(record.chunks_of(doc_id, SENTENCE_LEVEL)),
            notes=document.notes,
        )

    def _left_out(self, doc_id: str, logical: str, reason: str, known: _OnFile) -> FileStatus:
        """A copy, or an old version: what stood under its name before goes, too."""
        if doc_id in known.hashes and self.record.remove_document(doc_id):
            reason += " (이 이름의 옛 판은 뺐습니다)"
        known.remove(doc_id)
        return FileStatus(path=logical, status="duplicate", reason=reason)

    def _prepared(
        self, parsed: ParsedDocument, logical: str, doc_id: str, data: bytes, content_hash: str, suffix: str
    ) -> tuple[DocumentRow, list[Chunk]]:
        """The document's row and chunks, nothing written yet."""
        metadata = infer_metadata(parsed, logical)
        days = days_of(parsed, metadata.date, metadata.named_by)
        chunks = chunk_document(parsed, doc_id, self._korean.sentences, self._embedder.count_tokens, days.of_block)
        if not chunks:
            raise IngestError(f"'{logical}': 글자가 없는 문서입니다. 내용이 있는 파일인지 확인해 주세요.")
        document = DocumentRow(
            doc_id=doc_id,
            path=logical,
            title=parsed.title or Path(logical).stem.replace("_", " "),
            format=parsed.format,
            kind=metadata.kind,
            crop=metadata.crop or "",
            date=metadata.date.isoformat() if metadata.date else _iso(days.span)[0],
            days=("", "") if days.span == (metadata.date, metadata.date) else _iso(days.span),
            author=metadata.author or "",
            houses=metadata.houses,
            content_hash=content_hash,
            original=content_hash + suffix,
            bytes=len(data),
            pages=parsed.pages,
            characters=parsed.characters,
            tables=parsed.tables,
            notes=(*parsed.notes, *self._date_note(metadata)),
            text=parsed.text,
            runs=long_runs(parsed.text),
        )
        return document, chunks

    def _stored(
        self,
        document: DocumentRow,
        chunks: Sequence[Chunk],
        parsed: ParsedDocument,
        data: bytes,
        relation: Relation | None = None,
    ) -> FileStatus:
        """Write a document; the one that it renews goes in the same transaction."""
        renewed = relation if relation is not None and relation.kind == "newer" else None
        if relation is not None and renewed is None:
            near = f"거의 같은 문서가 있습니다({relation.share:.0%}): {relation.path}"
            document = replace(document, notes=(*document.notes, near))
        self.record.keep_original(document.original, data)
        rows = self._rows(document, chunks)
        with self.record.transaction() as connection:
            self.record.write_document(*rows)
            if renewed is not None:  # its original goes with the sweep at the end
                connection.execute("DELETE FROM documents WHERE doc_id = ?", (renewed.doc_id,))
        return FileStatus(
            path=document.path,
            status="indexed" if renewed is None else "updated",
            reason="" if renewed is None else f"옛 판 '{renewed.path}' 을(를) 이 판으로 바꾸었습니다.",
            format=document.format,
            author=parsed.author,
            created=parsed.created.isoformat() if parsed.created else None,
            pages=document.pages,
            characters=document.characters,
            tables=document.tables,
            chunks=sum(chunk.level == "G2" for chunk in chunks),
            notes=document.notes,
        )

    def _date_note(self, metadata: DocMetadata) -> tuple[str, ...]:
        if self._today is not None and metadata.date is not None and metadata.date > self._today:
            return (f"문서 날짜 {metadata.date} 이(가) 오늘({self._today}) 뒤입니다.",)
        return ()

    def _rows(self, document: DocumentRow, chunks: Sequence[Chunk]) -> _Rows:
        """What is written for a document with its chunks of all levels; sentences are kept with the paragraphs."""
        vectors = self._encode([passage_text(document.title, c.section, c.text) for c in chunks])
        readings = [self._read(document.title, chunk) for chunk in chunks]
        paragraphs = [(c, r) for c, r in zip(chunks, readings, strict=True) if c.level == SENTENCE_LEVEL]
        spans = [(c, r, n, s) for c, r in paragraphs for n, s in enumerate(c.sentences)]
        sentence_vectors = self._encode([c.text[s.start : s.end] for c, _, _, s in spans])
        return (
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
                    limits = replace(self._limits, bytes=max(self._limits.bytes, len(data)), pages=_ANY_NUMBER)
                    parsed = parse(data, old.path, limits)  # it was within the limits once
                    digest = hashlib.sha256(data).hexdigest()
                    document, chunks = self._prepared(parsed, old.path, old.doc_id, data, digest, path.suffix)
                    progress(self._stored(document, chunks, parsed, data))
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
