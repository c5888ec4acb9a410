"""Nouns of the demo corpus: a neutral document, and the file that carries it.

A `Document` says what stands in a file; `formats.py` says how a format writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

SYNTHETIC_LABEL = "합성 자료(시연용): 실제 농장의 기록이 아닙니다."

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One running paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; `ordered` lists are numbered from 1."""

    items: tuple[str, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table with one header row; numbers stay numbers for spreadsheets."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


Block = Paragraph | Bullets | Table


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (may be empty) and the blocks under it; `level` 2 is the first below the title."""

    heading: str
    blocks: tuple[Block, ...]
    level: int = 2


@dataclass(frozen=True, slots=True)
class Document:
    """Title, the lines shown under it, and the sections."""

    title: str
    meta: tuple[str, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFile:
    """A document with its place in the corpus and the metadata the manifest lists."""

    scope: str
    path: str
    kind: str
    document: Document
    crop: str = ""
    date: str = ""
    author: str = ""
    houses: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()
    event_ids: tuple[str, ...] = ()
    encoding: str = "utf-8"

    @property
    def format(self) -> str:
        """File extension without the dot; it selects the writer."""
        return self.path.rsplit(".", 1)[1]
