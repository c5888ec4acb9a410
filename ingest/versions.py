"""New versions and near-duplicates of documents already in a scope.

A new version replaces its document: the same folder and the same name but for a version mark ("지침_v1" → "지침_v2",
"지침(1)", "지침_최종"), with text that largely agrees. A near-duplicate under an unrelated name stays and is remarked.
Records of different days are never taken for one another.

Agreement is the Jaccard index of 4-character shingles over the texts without white space, estimated from the smallest
256 hashes of each (bottom-k sketch, Broder 1997; standard error below .03; exact up to 256 shingles).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
import numpy.typing as npt

_MARK = re.compile(
    r"[\s_.\-]*(?:[(\[]?(?:ver(?:sion)?|v|rev)\s*[._]?\s*(?P<version>\d+(?:\.\d+)*)[)\]]?|\((?P<copy>\d+)\)"
    r"|[(\[]?(?P<word>최종(?:본|판)?|final|개정(?:본|판)?|수정(?:본|판)?)[)\]]?)$",
    re.IGNORECASE,
)
_LAST_WORD = re.compile("최종|final", re.IGNORECASE)
# Two states of one paper share at least this much; unrelated papers of one office share far less (template lines).
SAME_PAPER = 0.5
NEARLY_EQUAL = 0.9
_SIZE_TOLERANCE = 0.05
_SHINGLE = 4
_SKETCH = 256
_HEAD = 4
_LEAST_CHARACTERS = 80

_SPACE = re.compile(r"[\s_]+")

Rank = tuple[int, tuple[int, ...]]
Sketch = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Known:
    """A document on file."""

    doc_id: str
    path: str
    characters: int
    date: str


@dataclass(frozen=True, slots=True)
class Relation:
    """How a document that comes in relates to one on file: ``newer`` replaces it, ``older`` is left out."""

    kind: Literal["newer", "older", "near"]
    doc_id: str
    path: str
    share: float


class KnownDocuments:
    """The documents of a scope by version name and by length; ``text_of`` reads a text when it is compared."""

    def __init__(self, documents: Iterable[Known], text_of: Callable[[str], str]) -> None:
        self._documents: dict[str, Known] = {}
        self._by_name: dict[str, set[str]] = {}
        self._by_size: list[tuple[int, str]] = []
        self._text_of = text_of
        self._sketches: dict[str, Sketch] = {}
        self._heads: dict[str, frozenset[int]] = {}
        for document in documents:
            self.add(document)

    def add(self, document: Known) -> None:
        """Note a document, in place of what had its id."""
        self.remove(document.doc_id)
        self._documents[document.doc_id] = document
        self._by_name.setdefault(version_of(document.path)[0], set()).add(document.doc_id)
        insort(self._by_size, (document.characters, document.doc_id))

    def remove(self, doc_id: str) -> None:
        """Forget a document."""
        old = self._documents.pop(doc_id, None)
        if old is not None:
            self._by_name[version_of(old.path)[0]].discard(doc_id)
            self._by_size.remove((old.characters, doc_id))
            self._sketches.pop(doc_id, None)
            self._heads.pop(doc_id, None)

    def relation(self, document: Known, text: str) -> Relation | None:
        """The closest relation of a new document to those on file; None for a paper of its own."""
        own = sketch(text)
        name, rank = version_of(document.path)
        for doc_id in sorted(self._by_name.get(name, ())):
            other = self._documents[doc_id]
            share = jaccard(own, self._sketch(doc_id))
            if doc_id != document.doc_id and share >= SAME_PAPER and version_of(other.path)[1] != rank:
                kind: Literal["newer", "older"] = "newer" if rank > version_of(other.path)[1] else "older"
                return Relation(kind, doc_id, other.path, share)
        head = frozenset(own[:_HEAD].tolist())
        likely = [known for known in self._of_like_size(document) if head & self._head(known.doc_id)]
        near = [(jaccard(own, self._sketch(known.doc_id)), known) for known in likely]
        share, closest = max(near, key=lambda pair: (pair[0], pair[1].doc_id), default=(0.0, None))
        if closest is None or share < NEARLY_EQUAL:
            return None
        return Relation("near", closest.doc_id, closest.path, share)

    def _head(self, doc_id: str) -> frozenset[int]:
        """The first few hashes: texts that agree to NEARLY_EQUAL share one of them but once in ten thousand."""
        if doc_id not in self._heads:
            self._heads[doc_id] = frozenset(self._sketch(doc_id)[: 2 * _HEAD].tolist())
        return self._heads[doc_id]

    def _sketch(self, doc_id: str) -> Sketch:
        if doc_id not in self._sketches:
            self._sketches[doc_id] = sketch(self._text_of(doc_id))
        return self._sketches[doc_id]

    def _of_like_size(self, document: Known) -> list[Known]:
        if document.characters < _LEAST_CHARACTERS:
            return []
        slack = int(_SIZE_TOLERANCE * document.characters)
        start = bisect_left(self._by_size, (document.characters - slack, ""))
        end = bisect_right(self._by_size, (document.characters + slack, "\U0010ffff"))
        candidates = [self._documents[doc_id] for _, doc_id in self._by_size[start:end]]
        return [
            known
            for known in candidates
            if known.doc_id != document.doc_id and not (known.date and document.date and known.date != document.date)
        ]


def version_of(path: str) -> tuple[str, Rank]:
    """The path without its version marks and ending, and what the marks say: (최종 2, 개정 1, else 0; numbers)."""
    place = PurePosixPath(path)
    stem = place.stem
    word = 0
    numbers: tuple[int, ...] = ()
    while (mark := _MARK.search(stem)) and mark.start() > 0:
        stem = stem[: mark.start()]
        if mark["word"]:
            word = max(word, 2 if _LAST_WORD.match(mark["word"]) else 1)
        else:
            numbers = (*map(int, (mark["version"] or mark["copy"]).split(".")), *numbers)
    return f"{place.parent}/{_SPACE.sub(' ', stem).casefold()}", (word, numbers)


def sketch(text: str) -> Sketch:
    """The smallest hashes of all runs of four characters, ascending; white space does not count."""
    codes = np.frombuffer("".join(text.split()).encode("utf-32-le"), np.uint32).astype(np.uint64)
    codes = np.concatenate([codes, np.zeros(max(0, _SHINGLE - len(codes)), np.uint64)])
    packed = np.zeros(len(codes) - _SHINGLE + 1, np.uint64)
    for offset in range(_SHINGLE):
        packed = packed * np.uint64(0x9E3779B97F4A7C15) + codes[offset : offset + len(packed)]
    packed ^= packed >> np.uint64(29)
    packed *= np.uint64(0xBF58476D1CE4E5B9)
    packed ^= packed >> np.uint64(32)
    return np.unique(packed)[:_SKETCH]


def jaccard(first: Sketch, second: Sketch) -> float:
    """|A ∩ B| / |A ∪ B| among the smallest hashes of the union."""
    union = np.union1d(first, second)[:_SKETCH]
    shared = np.intersect1d(first, second, assume_unique=True)
    return float(np.isin(union, shared, assume_unique=True).sum() / len(union))
