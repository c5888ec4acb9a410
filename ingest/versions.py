"""New versions and near-duplicates of documents already in a scope.

A new version replaces its document: the same folder and the same name but for a version mark ("지침_v1" → "지침_v2",
"지침_최종"), with text that largely agrees. A near-duplicate under another name ("지침 (1)" may be the next sheet as well as
a copy) stays and is remarked, unless the two are of different days.

Agreement is the Jaccard index of 4-character shingles over the texts without white space, estimated from the smallest
256 hashes of each (bottom-k sketch, Broder 1997; standard error below .03; exact up to 256 shingles).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
import numpy.typing as npt

_MARK = re.compile(
    r"[\s_.\-]*(?:[(\[]?(?:ver(?:sion)?|v|rev)\s*[._]?\s*(?P<version>\d+(?:\.\d+)*)[)\]]?"
    r"|[(\[]?(?<=[\s_.\-(\[])(?P<word>최종(?:본|판)?|final|개정(?:본|판)?|수정(?:본|판)?)[)\]]?)$",
    re.IGNORECASE,
)
_LAST_WORD = re.compile("최종|final", re.IGNORECASE)
# Two states of one paper share at least this much; unrelated papers of one office share far less (template lines).
SAME_PAPER = 0.5
NEARLY_EQUAL = 0.9
_SIZE_TOLERANCE = 0.05
_SHINGLE = 4
_SKETCH = 256
_LONG_RUN = 24
_RUNS = 8
_LEAST_CHARACTERS = 80

_SPACE = re.compile(r"[\s_]+")

Rank = tuple[int, tuple[int, ...]]
Sketch = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Known:
    """A document on file; ``runs`` are the smallest hashes of its long runs (:func:`long_runs`)."""

    doc_id: str
    path: str
    characters: int
    date: str
    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """How a document that comes in relates to one on file: ``newer`` replaces it, ``older`` is left out."""

    kind: Literal["newer", "older", "near"]
    doc_id: str
    path: str
    share: float


class KnownDocuments:
    """The documents of a scope by version name and by text; ``text_of`` reads a text when it is compared.

    Candidates for a near copy share one of the smallest hashes of long runs: records that are written to one pattern agree
    in short runs, not in long ones, and a handful of edits leaves most long runs whole. The hashes are kept with the
    documents, so that one more file in a large scope reads few texts.
    """

    def __init__(self, documents: Iterable[Known], text_of: Callable[[str], str]) -> None:
        self._documents: dict[str, Known] = {}
        self._text_of = text_of
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        self._by_run: defaultdict[int, set[str]] = defaultdict(set)
        self._sketches: dict[str, Sketch] = {}
        for document in documents:
            self.add(document)

    def add(self, document: Known) -> None:
        """Note a document, in place of what had its id."""
        self.remove(document.doc_id)
        self._documents[document.doc_id] = document
        self._by_name[version_of(document.path)[0]].add(document.doc_id)
        for value in document.runs:
            self._by_run[value].add(document.doc_id)

    def remove(self, doc_id: str) -> None:
        """Forget a document."""
        old = self._documents.pop(doc_id, None)
        if old is None:
            return
        self._by_name[version_of(old.path)[0]].discard(doc_id)
        self._sketches.pop(doc_id, None)
        for value in old.runs:
            self._by_run[value].discard(doc_id)

    def relation(self, document: Known, text: str) -> Relation | None:
        """The closest relation of a new document to those on file; None for a paper of its own."""
        own = sketch(text)
        return self._version(document, own) or self._near(document, own)

    def _version(self, document: Known, own: Sketch) -> Relation | None:
        name, rank = version_of(document.path)
        for doc_id in sorted(self._by_name.get(name, ())):
            other = self._documents[doc_id]
            other_rank = version_of(other.path)[1]
            if doc_id == document.doc_id or other_rank == rank:
                continue
            share = jaccard(own, self._sketch(doc_id))
            if share >= SAME_PAPER:
                return Relation("newer" if rank > other_rank else "older", doc_id, other.path, share)
        return None

    def _near(self, document: Known, own: Sketch) -> Relation | None:
        if document.characters < _LEAST_CHARACTERS:
            return None
        slack = _SIZE_TOLERANCE * document.characters
        likely = sorted({doc_id for value in document.runs for doc_id in self._by_run.get(value, ())})
        near = [
            (jaccard(own, self._sketch(known.doc_id)), known)
            for known in map(self._documents.__getitem__, likely)
            if known.doc_id != document.doc_id
            and abs(known.characters - document.characters) <= slack
            and not (known.date and document.date and known.date != document.date)
        ]
        share, closest = max(near, key=lambda pair: (pair[0], pair[1].doc_id), default=(0.0, None))
        if closest is None or share < NEARLY_EQUAL:
            return None
        return Relation("near", closest.doc_id, closest.path, share)

    def _sketch(self, doc_id: str) -> Sketch:
        if doc_id not in self._sketches:
            self._sketches[doc_id] = sketch(self._text_of(doc_id))
        return self._sketches[doc_id]


def long_runs(text: str) -> tuple[int, ...]:
    """The smallest hashes of long runs, 64 bits each."""
    return tuple(sketch(text, _LONG_RUN)[:_RUNS].tolist())


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
            numbers = (*map(int, mark["version"].split(".")), *numbers)
    return f"{place.parent}/{_SPACE.sub(' ', stem).casefold()}", (word, numbers)


def sketch(text: str, width: int = _SHINGLE) -> Sketch:
    """The smallest hashes of all runs of ``width`` characters, ascending; white space does not count."""
    codes = np.frombuffer("".join(text.split()).encode("utf-32-le"), np.uint32).astype(np.uint64)
    codes = np.concatenate([codes, np.zeros(max(0, width - len(codes)), np.uint64)])
    packed = np.zeros(len(codes) - width + 1, np.uint64)
    for offset in range(width):
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
