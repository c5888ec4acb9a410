"""Rows of a long measurement, kept as they are finished, so that it goes on after a stop: JSONL, the first line says of which run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows_kept(path: Path, run: Mapping[str, Any]) -> dict[str, Row]:
    """Finished rows of the same run by id; writes the head of a new file where there are none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [row for line in lines if (row := _parsed(line)) is not None]
    head = {"run": dict(run)}
    same = rows[1:] if rows and rows[0] == head else []
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [head, *same]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")
    return {row["id"]: row for row in same}


def append_row(path: Path, rows: dict[str, Row], row: Row) -> None:
    """Add a finished row, in memory and on disk."""
    rows[row["id"]] = row
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _parsed(line: str) -> Row | None:
    """A line of the file; None for one that was cut off when the run was stopped."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return None
