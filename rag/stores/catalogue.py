"""What is on file for a scope: the authors, document kinds, houses, crops and dates that a question may name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from rag.stores.snapshot import DocumentFacts


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Values on file. ``version`` changes with the documents."""

    version: str
    authors: frozenset[str]
    kinds: frozenset[str]
    houses: frozenset[str]
    crops: frozenset[str]
    dates: tuple[date, ...]

    @staticmethod
    def of(documents: Iterable[DocumentFacts], version: str) -> Catalogue:
        """The catalogue of a view's documents."""
        listed = list(documents)
        return Catalogue(
            version,
            frozenset(d.author for d in listed if d.author),
            frozenset(d.kind for d in listed if d.kind),
            frozenset(house for d in listed for house in d.houses),
            frozenset(d.crop for d in listed if d.crop),
            tuple(sorted({d.date for d in listed if d.date})),
        )

    def any_between(self, first: date, last: date) -> bool:
        """Whether a document is dated inside [first, last]."""
        return any(first <= day <= last for day in self.dates)
