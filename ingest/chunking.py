"""section ⊃ paragraph ⊃ sentence: three levels of chunks over the same sentences.

G3 packs a section up to about 385 encoder tokens, G2 packs paragraphs inside one G3 up to about 200, G1 packs whole
sentences inside one G2 up to about 100. No chunk starts or ends inside a sentence; a longer sentence is a chunk of
its own. Tables come as one sentence a row. Neighbouring sections of a few sentences (a work log has one a house) are
packed together, each under its heading as a line of its own. A list of sources is no evidence: it stays in the
record's text and is not indexed.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ingest.days import Days, joined
from ingest.parsed import Block, ParsedDocument, Section
from rag.schema import Level
from rag.text import SentenceSpan

CHUNKER_VERSION = "4"
TOKEN_LIMITS: dict[Level, int] = {"G1": 100, "G2": 200, "G3": 385}
# What has no end within so many characters (a table row of hundreds of columns, a line of JSON) is cut between cells or
# words; no sentence of the office documents at hand comes near.
MAX_SENTENCE = 2000
# The splitter's time grows faster than its text.
MAX_SPLIT = 20_000
# Sections up to this many tokens are packed with their neighbours.
SMALL_SECTION = 60
_SOURCES = re.compile(r"(?:\d+[.)]\s*)?(?:출처|참고\s?문헌|참고\s?자료|자료\s?출처|인용\s?문헌)")
_NAMESPACE = uuid.UUID("6f6e7369-6c2d-4368-b56e-6b2d69642d31")


@dataclass(frozen=True, slots=True)
class Atom:
    """A sentence: ``blocks[block].text[start:end]``, with its length in encoder tokens.

    ``section`` is its section's number in the group, ``heading`` the last part of that section's heading, ``day`` its
    block's day.
    """

    block: int
    start: int
    end: int
    n_tokens: int
    section: int
    heading: str
    day: datetime.date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk before embedding; ``sentences`` are spans into ``text``, ``days`` the first and last day of its blocks."""

    chunk_id: str
    level: Level
    ordinal: int
    parent_id: str | None
    section: str
    locator: str
    text: str
    n_tokens: int
    sentences: tuple[SentenceSpan, ...]
    days: Days | None


def chunk_document(
    document: ParsedDocument,
    doc_id: str,
    split: Callable[[str], Sequence[SentenceSpan]],
    count_tokens: Callable[[str], int],
    days: Sequence[datetime.date | None] = (),
) -> list[Chunk]:
    """All chunks of a document, parents before children, ordinals counting per level; ``days`` are those of its blocks."""
    days = days or (None,) * len(document.blocks)
    chunks: list[Chunk] = []
    ordinals: dict[Level, int] = dict.fromkeys(TOKEN_LIMITS, 0)

    def make(level: Level, atoms: Sequence[Atom], group: _Group, parent: str | None) -> str:
        text, spans = _text_of(atoms, group.blocks)
        digest = hashlib.sha256(text.encode()).hexdigest()
        chunk_id = str(uuid.uuid5(_NAMESPACE, f"{doc_id}\n{level}\n{ordinals[level]}\n{digest}"))
        chunks.append(
            Chunk(
                chunk_id=chunk_id,
                level=level,
                ordinal=ordinals[level],
                parent_id=parent,
                section=_section_label(atoms, group.headings),
                locator=_locator([group.blocks[atom.block].locator for atom in atoms]),
                text=text,
                n_tokens=sum(atom.n_tokens for atom in atoms),
                sentences=spans,
                days=joined([atom.day for atom in atoms]),
            )
        )
        ordinals[level] += 1
        return chunk_id

    for group in _section_groups(document, split, count_tokens, days):
        for g3 in _pack(group.atoms, TOKEN_LIMITS["G3"]):
            g3_id = make("G3", g3, group, None)
            for g2 in _pack(g3, TOKEN_LIMITS["G2"]):
                g2_id = make("G2", g2, group, g3_id)
                for g1 in _pack(g2, TOKEN_LIMITS["G1"]):
                    make("G1", g1, group, g2_id)
    return chunks


@dataclass(slots=True)
class _Group:
    """One section, or several small neighbours."""

    headings: list[tuple[str, ...]]
    blocks: list[Block]
    atoms: list[Atom]

    @property
    def n_tokens(self) -> int:
        return sum(atom.n_tokens for atom in self.atoms)


def _section_groups(
    document: ParsedDocument,
    split: Callable[[str], Sequence[SentenceSpan]],
    count_tokens: Callable[[str], int],
    days: Sequence[datetime.date | None],
) -> Iterator[_Group]:
    current: _Group | None = None
    seen = 0
    for part in document.sections:
        own = days[seen : seen + len(part.blocks)]
        seen += len(part.blocks)
        if part.headings and _SOURCES.fullmatch(part.headings[-1]):
            continue
        small = current is not None and current.n_tokens + SMALL_SECTION <= TOKEN_LIMITS["G2"]
        target = current if current is not None and small else _Group([], [], [])
        atoms = _atoms(part, own, len(target.blocks), len(target.headings), split, count_tokens)
        size = sum(atom.n_tokens for atom in atoms)
        if target is current and (size > SMALL_SECTION or not _is_small(current)):
            target = _Group([], [], [])
            atoms = _atoms(part, own, 0, 0, split, count_tokens)
        if target is not current and current is not None:
            yield current
        target.headings.append(part.headings)
        target.blocks.extend(part.blocks)
        target.atoms.extend(atoms)
        current = target
    if current is not None:
        yield current


def _is_small(group: _Group) -> bool:
    sizes = [0] * len(group.headings)
    for atom in group.atoms:
        sizes[atom.section] += atom.n_tokens
    return max(sizes) <= SMALL_SECTION


def _atoms(
    part: Section,
    days: Sequence[datetime.date | None],
    first_block: int,
    section: int,
    split: Callable[[str], Sequence[SentenceSpan]],
    count_tokens: Callable[[str], int],
) -> list[Atom]:
    heading = part.headings[-1] if part.headings else ""
    return [
        Atom(
            first_block + index,
            span.start,
            span.end,
            count_tokens(block.text[span.start : span.end]),
            section,
            heading,
            days[index],
        )
        for index, block in enumerate(part.blocks)
        for span in _sentences(block, split)
    ]


def _sentences(block: Block, split: Callable[[str], Sequence[SentenceSpan]]) -> Sequence[SentenceSpan]:
    text = block.text
    if block.kind == "row":
        whole = [SentenceSpan(0, len(text))] if text.strip() else []
    else:
        whole = [
            SentenceSpan(window.start + span.start, window.start + span.end)
            for window in _cut(text, SentenceSpan(0, len(text)), MAX_SPLIT)
            for span in split(text[window.start : window.end])
        ]
    return [part for span in whole for part in _cut(text, span, MAX_SENTENCE)]


def _cut(text: str, span: SentenceSpan, limit: int) -> Iterator[SentenceSpan]:
    """A span in pieces of at most ``limit`` characters, each up to the end of a cell, else of a word where it has any."""
    start = span.start
    while span.end - start > limit:
        end = max(text.rfind(", ", start, start + limit) + 1, 0) or text.rfind(" ", start, start + limit)
        end = end if end > start else start + limit
        yield SentenceSpan(start, end)
        start = end
        while start < span.end and text[start].isspace():
            start += 1
    if start < span.end:
        yield SentenceSpan(start, span.end)


def _pack(atoms: Sequence[Atom], limit: int) -> Iterator[list[Atom]]:
    """Greedy packing: whole blocks while they fit, a block over the limit sentence by sentence."""
    current: list[Atom] = []
    size = 0
    for group in _groups(atoms, limit):
        weight = sum(atom.n_tokens for atom in group)
        if current and size + weight > limit:
            yield current
            current, size = [], 0
        current.extend(group)
        size += weight
    if current:
        yield current


def _groups(atoms: Sequence[Atom], limit: int) -> Iterator[list[Atom]]:
    """Blocks as groups; the sentences of a block over the limit one by one."""
    index = 0
    while index < len(atoms):
        end = index
        while end < len(atoms) and atoms[end].block == atoms[index].block:
            end += 1
        group = list(atoms[index:end])
        if sum(atom.n_tokens for atom in group) <= limit:
            yield group
        else:
            yield from ([atom] for atom in group)
        index = end


def _text_of(atoms: Sequence[Atom], blocks: Sequence[Block]) -> tuple[str, tuple[SentenceSpan, ...]]:
    """Chunk text and its sentence spans: the document's own characters, blocks joined by a line break.

    Where several sections meet in one chunk, each opens with its heading on a line of its own.
    """
    text = ""
    spans: list[SentenceSpan] = []
    mixed = len({atom.section for atom in atoms}) > 1
    for position, atom in enumerate(atoms):
        previous = atoms[position - 1] if position else None
        if previous is not None:
            same = previous.block == atom.block
            text += blocks[atom.block].text[previous.end : atom.start] if same else "\n"
        if mixed and atom.heading and (previous is None or previous.section != atom.section):
            text += atom.heading + "\n"
        start = len(text)
        text += blocks[atom.block].text[atom.start : atom.end]
        spans.append(SentenceSpan(start, len(text)))
    return text, tuple(spans)


def _section_label(atoms: Sequence[Atom], headings: Sequence[tuple[str, ...]]) -> str:
    """Heading path of one section, or the last headings of several: "1동 토마토 / 2동 토마토"."""
    numbers = list(dict.fromkeys(atom.section for atom in atoms))
    if len(numbers) == 1:
        return " > ".join(headings[numbers[0]])
    return " / ".join(headings[number][-1] for number in numbers if headings[number])


def _locator(locators: Sequence[str]) -> str:
    """First and last place of a chunk: "3쪽", "4행 ~ 9행"."""
    distinct = list(dict.fromkeys(locator for locator in locators if locator))
    if not distinct:
        return ""
    return distinct[0] if len(distinct) == 1 else f"{distinct[0]} ~ {distinct[-1]}"
