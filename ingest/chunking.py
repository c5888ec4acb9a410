"""section ⊃ paragraph ⊃ sentence: three levels of chunks over the same sentences.

G3 packs a section up to about 385 encoder tokens, G2 packs paragraphs inside one G3 up to about 200, G1 packs whole
sentences inside one G2 up to about 100. No chunk starts or ends inside a sentence; a longer sentence is a chunk of
its own. Tables come as one sentence a row.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ingest.parsed import Block, ParsedDocument
from rag.schema import Level
from rag.text import SentenceSpan

CHUNKER_VERSION = "2"
TOKEN_LIMITS: dict[Level, int] = {"G1": 100, "G2": 200, "G3": 385}
_NAMESPACE = uuid.UUID("6f6e7369-6c2d-4368-b56e-6b2d69642d31")


@dataclass(frozen=True, slots=True)
class Atom:
    """A sentence: ``blocks[block].text[start:end]``, with its length in encoder tokens."""

    block: int
    start: int
    end: int
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk before embedding; ``sentences`` are spans into ``text``."""

    chunk_id: str
    level: Level
    ordinal: int
    parent_id: str | None
    section: str
    locator: str
    text: str
    n_tokens: int
    sentences: tuple[SentenceSpan, ...]


def chunk_document(
    document: ParsedDocument,
    doc_id: str,
    split: Callable[[str], Sequence[SentenceSpan]],
    count_tokens: Callable[[str], int],
) -> list[Chunk]:
    """All chunks of a document, parents before children, ordinals counting per level."""
    chunks: list[Chunk] = []
    ordinals: dict[Level, int] = dict.fromkeys(TOKEN_LIMITS, 0)

    def make(level: Level, atoms: Sequence[Atom], blocks: Sequence[Block], section: str, parent: str | None) -> str:
        text, spans = _text_of(atoms, blocks)
        digest = hashlib.sha256(text.encode()).hexdigest()
        chunk_id = str(uuid.uuid5(_NAMESPACE, f"{doc_id}\n{level}\n{ordinals[level]}\n{digest}"))
        chunks.append(
            Chunk(
                chunk_id=chunk_id,
                level=level,
                ordinal=ordinals[level],
                parent_id=parent,
                section=section,
                locator=_locator([blocks[atom.block].locator for atom in atoms]),
                text=text,
                n_tokens=sum(atom.n_tokens for atom in atoms),
                sentences=spans,
            )
        )
        ordinals[level] += 1
        return chunk_id

    for part in document.sections:
        section = " > ".join(part.headings)
        atoms = [
            Atom(index, span.start, span.end, count_tokens(block.text[span.start : span.end]))
            for index, block in enumerate(part.blocks)
            for span in _sentences(block, split)
        ]
        for g3 in _pack(atoms, TOKEN_LIMITS["G3"]):
            g3_id = make("G3", g3, part.blocks, section, None)
            for g2 in _pack(g3, TOKEN_LIMITS["G2"]):
                g2_id = make("G2", g2, part.blocks, section, g3_id)
                for g1 in _pack(g2, TOKEN_LIMITS["G1"]):
                    make("G1", g1, part.blocks, section, g2_id)
    return chunks


def _sentences(block: Block, split: Callable[[str], Sequence[SentenceSpan]]) -> Sequence[SentenceSpan]:
    if block.kind == "row":
        return [SentenceSpan(0, len(block.text))] if block.text.strip() else []
    return split(block.text)


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
    """Chunk text (the document's own characters; blocks joined by a line break) and its sentence spans."""
    text = ""
    spans: list[SentenceSpan] = []
    for position, atom in enumerate(atoms):
        previous = atoms[position - 1] if position else None
        if previous is not None:
            same = previous.block == atom.block
            text += blocks[atom.block].text[previous.end : atom.start] if same else "\n"
        start = len(text)
        text += blocks[atom.block].text[atom.start : atom.end]
        spans.append(SentenceSpan(start, len(text)))
    return text, tuple(spans)


def _locator(locators: Sequence[str]) -> str:
    """First and last place of a chunk: "3쪽", "4행 ~ 9행"."""
    distinct = list(dict.fromkeys(locator for locator in locators if locator))
    if not distinct:
        return ""
    return distinct[0] if len(distinct) == 1 else f"{distinct[0]} ~ {distinct[-1]}"
