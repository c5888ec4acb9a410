"""Crop knowledge: hand-written Markdown under `knowledge/`, turned into the format its index names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath

from ingest.sample.model import Block, Bullets, Document, Paragraph, SampleFile, Section, Table

KNOWLEDGE_DIR = Path(__file__).parent / "knowledge"

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_BULLET = re.compile(r"\s*[-*]\s+(.*)")
_NUMBERED = re.compile(r"\s*\d+\.\s+(.*)")
_RULE_CELL = re.compile(r":?-{2,}:?")


def _line_kind(line: str) -> str:
    if not line.strip():
        return "blank"
    if line.startswith("|"):
        return "table"
    if _BULLET.match(line):
        return "bullet"
    return "numbered" if _NUMBERED.match(line) else "text"


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "").strip()


def _cells(line: str) -> tuple[str, ...]:
    return tuple(_plain(cell) for cell in line.strip().strip("|").split("|"))


def _table(lines: list[str]) -> Table:
    rows = [_cells(line) for line in lines]
    header, *body = (row for row in rows if not all(_RULE_CELL.fullmatch(cell) for cell in row))
    return Table(header, tuple(body))


def _items(pattern: re.Pattern[str], lines: list[str]) -> tuple[str, ...]:
    return tuple(_plain(match.group(1)) for line in lines if (match := pattern.match(line)))


def _blocks(lines: list[str]) -> Iterator[Block]:
    for kind, group in groupby(lines, key=_line_kind):
        part = list(group)
        if kind == "table":
            yield _table(part)
        elif kind == "bullet":
            yield Bullets(_items(_BULLET, part))
        elif kind == "numbered":
            yield Bullets(_items(_NUMBERED, part), ordered=True)
        elif kind == "text":
            yield Paragraph(_plain(" ".join(line.strip() for line in part)))


def parse_markdown(text: str, meta: tuple[str, ...]) -> Document:
    """Read headings, paragraphs, lists and tables; text above the first section has no heading."""
    title, sections, heading, level, lines = "", [], "", 2, []
    for line in text.splitlines():
        match = _HEADING.match(line)
        if match is None:
            lines.append(line)
            continue
        sections.append(Section(heading, tuple(_blocks(lines)), level))
        lines = []
        if len(match.group(1)) == 1:
            title = _plain(match.group(2))
        else:
            heading, level = _plain(match.group(2)), len(match.group(1))
    sections.append(Section(heading, tuple(_blocks(lines)), level))
    kept = tuple(section for section in sections if section.heading or section.blocks)
    return Document(title, meta, kept)


def _index_entries(directory: Path) -> list[dict[str, object]]:
    entries = []
    for index in sorted(directory.glob("index_*.jsonl")):
        entries += [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines() if line.strip()]
    return entries


def _file(entry: dict[str, object], directory: Path) -> SampleFile:
    source, kind, crop, date = (str(entry[name]) for name in ("path", "kind", "crop", "date"))
    meta = (f"작성일: {date} · 분류: {kind} · 작목: {crop}",)
    fact_ids = entry["fact_ids"]
    return SampleFile(
        scope="public",
        path=f"재배기술/{crop}/{PurePosixPath(source).stem}.{entry['format']}",
        kind=kind,
        document=parse_markdown((directory / source).read_text(encoding="utf-8"), meta),
        crop=crop,
        date=date,
        fact_ids=tuple(str(fact) for fact in fact_ids) if isinstance(fact_ids, list) else (),
    )


def knowledge_files(directory: Path = KNOWLEDGE_DIR) -> list[SampleFile]:
    """All indexed documents whose Markdown exists, in index order."""
    entries = _index_entries(directory)
    return [_file(entry, directory) for entry in entries if (directory / str(entry["path"])).is_file()]
