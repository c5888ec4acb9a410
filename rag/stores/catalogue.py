"""What is on file for a scope: the authors, document kinds, houses, crops and dates that a question may name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from rag.schema import PUBLIC, DocFilter
from rag.stores.segments import DocumentFacts

_TEN_YEARS = 3652


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Values on file. ``version`` changes with the documents.

    ``dates`` are those that a question about records can mean: a farm's own, without a farm the public ones.
    """

    version: str
    authors: frozenset[str]
    kinds: frozenset[str]
    houses: frozenset[str]
    crops: frozenset[str]
    dates: tuple[date, ...]
    formats: frozenset[str] = frozenset()
    documents: tuple[DocumentFacts, ...] = ()

    @staticmethod
    def of(documents: Iterable[DocumentFacts], version: str) -> Catalogue:
        """The catalogue of a view's documents."""
        listed = tuple(documents)
        own = [d for d in listed if d.scope_id != PUBLIC] or listed
        return Catalogue(
            version,
            frozenset(d.author for d in listed if d.author),
            frozenset(d.kind for d in listed if d.kind),
            frozenset(house for d in listed for house in d.houses),
            frozenset(d.crop for d in listed if d.crop),
            tuple(sorted({day for d in own if d.days for day in _each(*d.days)})),
            frozenset(d.format for d in listed if d.format),
            listed,
        )

    def any_between(self, first: date, last: date) -> bool:
        """Whether a document is dated inside [first, last]."""
        return any(first <= day <= last for day in self.dates)

    def matches(self, wanted: DocFilter) -> bool:
        """Whether a document passes the filter."""
        return any(passes(document, wanted) for document in self.documents)


def _each(first: date, last: date) -> Iterator[date]:
    """Every day from the first to the last, at most ten years of them."""
    for n in range(min((last - first).days, _TEN_YEARS) + 1):
        yield first + timedelta(days=n)


def within(days: tuple[date, date] | None, wanted: DocFilter) -> bool:
    """Whether what tells of the ``days`` (None: undated) passes ``periods`` and ``not_after``."""
    if days is None:
        return not wanted.periods
    if wanted.not_after and days[0] > wanted.not_after:
        return False
    return not wanted.periods or any(first <= days[1] and days[0] <= last for first, last in wanted.periods)


def passes(document: DocumentFacts, wanted: DocFilter) -> bool:
    """Whether a document passes the filter: every field that filters must fit."""
    if not within(document.days, wanted):
        return False
    if wanted.authors and document.author not in wanted.authors:
        return False
    if wanted.kinds and document.kind not in wanted.kinds:
        return False
    if wanted.scopes and document.scope_id not in wanted.scopes:
        return False
    if wanted.formats and document.format not in wanted.formats:
        return False
    return not (wanted.houses and not set(wanted.houses) & set(document.houses))
