"""Vector stores behind one small port; :class:`VectorStorePort` is the contract, ``tests/contract`` checks it.

score = cosine in [−1, 1], rounded to ``DECIMALS``: engines differ in the last bits of float32, and passages with
equal words must tie, so that the order of a ranking never depends on the engine.

A store belongs to one (scope, level): farms never share a collection, a file or an index. It holds chunk ids,
vectors and the documents' filter fields. Texts stay in the scope's record and are read from there.

=================  ====================================  ============================================
backend            class                                 for
=================  ====================================  ============================================
``snapshot``       :class:`SnapshotVectors`              the default: memory-mapped, any number of readers
``qdrant-edge``    ``vectors_edge.EdgeVectors``          one process, more than fits in memory
``qdrant``         ``vectors_qdrant.QdrantVectors``      a server or cluster by URL
=================  ====================================  ============================================
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from pydantic import PrivateAttr

from rag.errors import StoreError
from rag.schema import ChunkRecord, FloatVector, Level
from rag.stores.segments import DocumentFacts, FloatMatrix, Snapshot

DECIMALS = 6
# How many rows beyond depth are asked for, to see past ties at the border.
_MARGIN = 16

Found = list[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class VectorRow:
    """A chunk as a vector store holds it. ``fields`` are the filter fields of its document."""

    chunk_id: str
    doc_id: str
    vector: FloatVector
    fields: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def version(self) -> str:
        """Changes with anything the store holds: a new title changes a chunk's vector, but not its id."""
        sha = hashlib.blake2b(digest_size=12)
        sha.update(json.dumps([self.doc_id, self.fields], ensure_ascii=False, sort_keys=True).encode())
        sha.update(np.asarray(self.vector, "<f4").tobytes())
        return sha.hexdigest()


class VectorStorePort(Protocol):
    """The contract of a vector store (this docstring is the source of truth).

    * A chunk id is a UUID; adding one that is there replaces it. ``add`` writes all rows or raises before the first.
    * Vectors are scaled to unit length. One with NaN or infinity, with length 0 or of another dimension than ``dim``
      is refused with a StoreError that names the value, in ``add`` and in ``search``.
    * ``search`` gives at most ``depth`` (chunk id, cosine) pairs, by cosine descending, then by chunk id, the same
      for the same content in whatever order it was added. ``allowed`` are the document ids that may come back
      (None: all, empty: none); it applies before the cut at ``depth``. An empty store gives an empty list.
    * ``delete`` and ``delete_chunks`` of something that is not there do nothing.
    * ``versions`` are the chunk ids in the store with :attr:`VectorRow.version` as of their ``add``.
    * ``close`` may be called twice; any other call on a closed store raises StoreError.
    * Errors of the engine come out as StoreError with a Korean message, never with an API key in it.
    """

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""

    def add(self, rows: Sequence[VectorRow]) -> None:
        """Write rows."""

    def delete(self, doc_id: str) -> None:
        """Remove all chunks of a document."""

    def delete_chunks(self, chunk_ids: Collection[str]) -> None:
        """Remove chunks."""

    def search(self, vector: FloatVector, depth: int, allowed: Collection[str] | None = None) -> Found:
        """The nearest chunks."""

    def versions(self) -> dict[str, str]:
        """chunk id → version of everything in the store."""

    def count(self) -> int:
        """Number of chunks."""

    def close(self) -> None:
        """Release files and connections."""


def checked_vector(name: str, vector: FloatVector, dim: int) -> FloatVector:
    """``vector`` at unit length.

    Raises:
        StoreError: another dimension, not finite, or length 0; names the value.
    """
    array = np.asarray(vector, np.float32)
    if array.shape != (dim,):
        raise StoreError(
            f"{name} 의 차원이 {array.size}인데 색인은 {dim}차원입니다. 임베딩 모델을 되돌리거나 "
            "'python -m ingest --rebuild' 로 색인을 다시 만드세요."
        )
    if not np.isfinite(array).all():
        raise StoreError(
            f"{name} 에 수가 아닌 값 {array[~np.isfinite(array)][0]} 이(가) 있어 받지 않습니다. 임베딩 모델을 확인해 주세요."
        )
    norm = float(np.linalg.norm(array))
    if norm == 0:
        raise StoreError(f"{name} 의 길이가 0이라 받지 않습니다. 빈 글을 임베딩했는지 확인해 주세요.")
    unit: FloatVector = array / np.float32(norm)
    return unit


def checked_rows(rows: Sequence[VectorRow], dim: int) -> list[VectorRow]:
    """Rows with unit vectors; the last of several rows with one id counts.

    Raises:
        StoreError: an id is not a UUID, or a vector is refused.
    """
    for row in rows:
        try:
            canonical = str(uuid.UUID(row.chunk_id)) == row.chunk_id
        except ValueError:
            canonical = False
        if not canonical:
            raise StoreError(f"문단 번호 '{row.chunk_id}' 은(는) UUID 가 아니어서 받지 않습니다.")
    unit = {
        row.chunk_id: replace(row, vector=checked_vector(f"'{row.chunk_id}' 벡터", row.vector, dim)) for row in rows
    }
    return list(unit.values())


def settled(fetch: Callable[[int], Iterable[tuple[str, float]]], depth: int) -> Found:
    """The first ``depth`` pairs in contract order from an engine that cuts ties as it likes.

    ``fetch(limit)`` gives the ``limit`` best; it is asked for more until a score below the border has been seen.
    """
    limit = depth + _MARGIN
    while True:
        pairs = list(fetch(limit))
        scores = np.round(np.array([score for _, score in pairs], np.float64), DECIMALS).tolist()
        ordered = sorted(((chunk_id, score) for (chunk_id, _), score in zip(pairs, scores)), key=_order)
        if len(pairs) < limit or ordered[-1][1] < ordered[depth - 1][1]:
            return ordered[:depth]
        limit *= 2


def _order(pair: tuple[str, float]) -> tuple[float, str]:
    return (-pair[1], pair[0])


def fields_of(document: DocumentFacts) -> dict[str, Any]:
    """Filter fields of a document as the engines keep them."""
    return {
        "kind": document.kind,
        "crop": document.crop,
        "author": document.author,
        "format": document.format,
        "houses": list(document.houses),
        "date": document.days[0].isoformat() if document.days else "",
    }


def vector_rows(
    documents: Sequence[DocumentFacts],
    chunk_ids: Sequence[str],
    document_of: npt.NDArray[np.int64],
    vectors: FloatMatrix,
) -> list[VectorRow]:
    """Rows for a store: chunk i belongs to ``documents[document_of[i]]`` and has ``vectors[i]``."""
    fields = [fields_of(document) for document in documents]
    return [
        VectorRow(chunk_id=chunk_id, doc_id=documents[number].doc_id, vector=vector, fields=fields[number])
        for chunk_id, number, vector in zip(chunk_ids, document_of.tolist(), vectors, strict=True)
    ]


class SnapshotVectors:
    """Exact search over a matrix: that of a snapshot (:meth:`of`, read-only) or one in memory."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._read_only = False
        self._fill((), (), np.empty((0, dim), np.float32), lambda: {})

    @classmethod
    def of(cls, snapshot: Snapshot, level: Level) -> SnapshotVectors:
        """The memory-mapped matrix of a snapshot; a change goes through the record and a new snapshot."""
        part = snapshot.levels[level]
        store = cls(int(part.vectors.shape[1]))
        doc_ids = tuple(snapshot.documents[number].doc_id for number in part.document_of.tolist())
        rows = (snapshot.documents, part.chunk_ids, part.document_of, part.vectors)
        store._fill(
            part.chunk_ids, doc_ids, part.vectors, lambda: {row.chunk_id: row.version for row in vector_rows(*rows)}
        )
        store._read_only = True
        return store

    def _fill(
        self,
        chunk_ids: Sequence[str],
        doc_ids: Sequence[str],
        matrix: FloatMatrix,
        versions: Callable[[], dict[str, str]],
    ) -> None:
        """Put new arrays in force, all in one assignment: a search sees the old ones or the new ones."""
        self._state: tuple[Sequence[str], Sequence[str], FloatMatrix, Callable[[], dict[str, str]]] | None = (
            chunk_ids,
            doc_ids,
            matrix,
            versions,
        )

    def _open(self) -> tuple[Sequence[str], Sequence[str], FloatMatrix, Callable[[], dict[str, str]]]:
        if self._state is None:
            raise StoreError("닫은 벡터 색인입니다. 다시 열어 주세요.")
        return self._state

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._dim

    def add(self, rows: Sequence[VectorRow]) -> None:
        """Write rows.

        Raises:
            StoreError: the store is a snapshot, or a row is refused.
        """
        self._writable()
        new = checked_rows(rows, self._dim)
        versions = {row.chunk_id: row.version for row in rows}
        self._keep(lambda chunk_id, doc_id: chunk_id not in versions)
        chunk_ids, doc_ids, matrix, old = self._open()
        merged = old() | versions
        self._fill(
            (*chunk_ids, *(row.chunk_id for row in new)),
            (*doc_ids, *(row.doc_id for row in new)),
            np.concatenate([matrix, *(row.vector[np.newaxis] for row in new)]),
            lambda: dict(merged),
        )

    def delete(self, doc_id: str) -> None:
        """Remove all chunks of a document."""
        self._writable()
        self._keep(lambda _, other: other != doc_id)

    def delete_chunks(self, chunk_ids: Collection[str]) -> None:
        """Remove chunks."""
        self._writable()
        gone = set(chunk_ids)
        self._keep(lambda chunk_id, _: chunk_id not in gone)

    def _writable(self) -> None:
        self._open()
        if self._read_only:
            raise StoreError("스냅샷은 읽기만 합니다. 'python -m ingest' 로 문서를 넣거나 빼면 새로 만들어집니다.")

    def _keep(self, wanted: Callable[[str, str], bool]) -> None:
        chunk_ids, doc_ids, matrix, versions = self._open()
        rows = [i for i, pair in enumerate(zip(chunk_ids, doc_ids, strict=True)) if wanted(*pair)]
        left = tuple(chunk_ids[i] for i in rows)
        old = versions()
        kept = {chunk_id: old[chunk_id] for chunk_id in left}
        self._fill(left, tuple(doc_ids[i] for i in rows), matrix[rows], lambda: dict(kept))

    def search(self, vector: FloatVector, depth: int, allowed: Collection[str] | None = None) -> Found:
        """The nearest chunks, by one matrix product."""
        chunk_ids, doc_ids, matrix, _ = self._open()
        unit = checked_vector("질문 벡터", vector, self._dim)
        scores = matrix @ unit
        if allowed is None:
            rows = np.arange(len(chunk_ids))
        else:
            wanted = set(allowed)
            rows = np.flatnonzero(np.fromiter((doc_id in wanted for doc_id in doc_ids), bool, len(doc_ids)))
        if len(rows) > depth:
            border = np.partition(scores[rows], len(rows) - depth)[len(rows) - depth]
            rows = rows[scores[rows] >= border - 10.0**-DECIMALS]  # whatever may tie with the border once rounded
        rounded = np.round(scores[rows].astype(np.float64), DECIMALS).tolist()
        return sorted(((chunk_ids[row], score) for row, score in zip(rows.tolist(), rounded)), key=_order)[:depth]

    def versions(self) -> dict[str, str]:
        """chunk id → version."""
        return self._open()[3]()

    def count(self) -> int:
        """Number of chunks."""
        return len(self._open()[0])

    def close(self) -> None:
        """Let go of the matrix."""
        self._state = None


class PortVectorStore(BasePydanticVectorStore):
    """A port as a LlamaIndex vector store; see :func:`as_llama_index`."""

    stores_text: bool = True
    flat_metadata: bool = False

    _port: VectorStorePort = PrivateAttr()
    _read: Callable[[Sequence[str]], Mapping[str, ChunkRecord]] = PrivateAttr()

    def __init__(
        self, port: VectorStorePort, read: Callable[[Sequence[str]], Mapping[str, ChunkRecord]] | None
    ) -> None:
        super().__init__(stores_text=read is not None)
        self._port = port
        self._read = read or (lambda chunk_ids: {})

    @classmethod
    def class_name(cls) -> str:
        """Name for LlamaIndex's serialisation."""
        return "PortVectorStore"

    @property
    def client(self) -> VectorStorePort:
        """The port."""
        return self._port

    def add(self, nodes: Sequence[BaseNode], **add_kwargs: Any) -> list[str]:
        """Write the vectors of nodes (their text is not kept here); returns their ids."""
        rows = [
            VectorRow(
                chunk_id=node.node_id,
                doc_id=node.ref_doc_id or node.node_id,
                vector=np.array(node.get_embedding(), np.float32),
            )
            for node in nodes
        ]
        self._port.add(rows)
        return [row.chunk_id for row in rows]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove all chunks of a document."""
        self._port.delete(ref_doc_id)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nearest nodes; ``doc_ids`` and ``node_ids`` restrict them, before top-k.

        Raises:
            StoreError: no vector, another mode than dense search, or metadata filters: nothing is ignored silently.
        """
        if query.query_embedding is None or query.mode != VectorStoreQueryMode.DEFAULT:
            raise StoreError(f"벡터 색인은 질문 벡터로만 찾습니다(mode={query.mode.value}).")
        if query.filters is not None and query.filters.filters:
            raise StoreError("벡터 색인은 metadata filters 를 받지 않습니다. doc_ids 로 거를 문서를 넘겨 주세요.")
        # LlamaIndex's own retriever sends an empty node_ids for "all"; an empty doc_ids comes from a filter: nothing.
        wanted = set(query.node_ids) if query.node_ids else None
        depth = query.similarity_top_k if wanted is None else max(query.similarity_top_k, self._port.count())
        found = self._port.search(np.array(query.query_embedding, np.float32), max(depth, 1), query.doc_ids)
        kept = [pair for pair in found if wanted is None or pair[0] in wanted][: query.similarity_top_k]
        if not self.stores_text:
            return VectorStoreQueryResult(ids=[i for i, _ in kept], similarities=[score for _, score in kept])
        chunks = self._read([chunk_id for chunk_id, _ in kept])
        present = [(chunks[chunk_id], score) for chunk_id, score in kept if chunk_id in chunks]
        return VectorStoreQueryResult(
            nodes=[_node(chunk) for chunk, _ in present],
            ids=[chunk.chunk_id for chunk, _ in present],
            similarities=[score for _, score in present],
        )


def _node(chunk: ChunkRecord) -> TextNode:
    return TextNode(
        id_=chunk.chunk_id,
        text=chunk.text,
        metadata={
            "title": chunk.title,
            "section": chunk.section,
            "locator": chunk.locator,
            "scope_id": chunk.scope_id,
        },
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.doc_id)},
    )


def as_llama_index(
    port: VectorStorePort, read: Callable[[Sequence[str]], Mapping[str, ChunkRecord]] | None = None
) -> PortVectorStore:
    """A LlamaIndex face over ``port``.

    ``read`` gives the texts (``ScopeRecord.chunks``); with it
    ``VectorStoreIndex.from_vector_store(as_llama_index(port, record.chunks), embed_model=…)`` answers queries.
    Without it ids and similarities come back and LlamaIndex looks the nodes up in its own document store.
    """
    return PortVectorStore(port, read)
