"""The ledger: every figure that a farm document states and a question can check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One checkable statement.

    `date` is a day (2026-03-06) or a month (2026-03). `value` is written exactly as the document
    at `path` writes it (money with commas). `note` is a plain sentence about the event.
    """

    event_id: str
    farm_id: str
    date: str
    house: str
    kind: str
    author: str
    subject: str
    value: str
    unit: str
    path: str
    note: str


class Ledger:
    """Collects events of one farm and gives each a stable id made of farm, kind, date, house."""

    def __init__(self, farm_id: str) -> None:
        self.farm_id = farm_id
        self._events: list[Event] = []
        self._seen: Counter[str] = Counter()

    def add(
        self,
        *,
        date: str,
        kind: str,
        subject: str,
        path: str,
        house: str = "",
        author: str = "",
        value: str = "",
        unit: str = "",
        note: str = "",
    ) -> Event:
        """Record an event and return it."""
        stem = ".".join(part for part in (self.farm_id, kind, date, house) if part)
        self._seen[stem] += 1
        suffix = f"-{self._seen[stem]}" if self._seen[stem] > 1 else ""
        event = Event(
            event_id=stem + suffix,
            farm_id=self.farm_id,
            date=date,
            house=house,
            kind=kind,
            author=author,
            subject=subject,
            value=value,
            unit=unit,
            path=path,
            note=note,
        )
        self._events.append(event)
        return event

    def ids_for(self, path: str) -> tuple[str, ...]:
        """Ids of the events that the document at `path` states."""
        return tuple(event.event_id for event in self._events if event.path == path)

    @property
    def events(self) -> list[Event]:
        """All events so far, oldest first."""
        return sorted(self._events, key=lambda event: (event.date, event.event_id))
