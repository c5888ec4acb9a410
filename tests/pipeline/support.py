"""What the end-to-end tests share: settings, questions, comparable answers, commands in a process of their own."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from ingest.__main__ import main as ingest
from rag.render import as_json
from rag.schema import Query, Result, Scope, farm_scope
from rag.settings import ROOT, Settings, load_settings
from rag.stores.record import ScopeRecord

FARMS = {"haetsal": "햇살농원", "pureun": "푸른들농장"}
NOW = datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Asia/Seoul"))
# The cross-encoder takes half a second a question; it is tried in ``test_start_up`` and ``tests/test_reranker.py``.
CONFIG = """demo_today = 2026-12-01
embedder_threads = 1
channel_timeout_s = 30.0
reranker = false
[farms]
haetsal = "햇살농원"
pureun = "푸른들농장"
"""


def settings_for(store: Path, **overrides: object) -> Settings:
    """Settings on a store; the tests' configuration file is in force."""
    return load_settings(store=store, **overrides)


def asked(text: str, farm_id: str | None = "haetsal", at: datetime = NOW) -> Query:
    return Query(text=text, scope=Scope(farm_id=farm_id), asked_at=at)


def stable(result: Result) -> str:
    """The JSON form without times."""
    return stable_json(as_json(result))


def stable_json(form: dict[str, Any]) -> str:
    form = {key: value for key, value in form.items() if key != "latency_ms"}
    form["channels"] = [{k: v for k, v in channel.items() if k != "ms"} for channel in form["channels"]]
    return json.dumps(form, ensure_ascii=False, sort_keys=True)


def take_in(store: Path, scope: str, *paths: Path, options: tuple[str, ...] = ()) -> int:
    """``python -m ingest`` in this process; returns its exit code."""
    where = ("--public",) if scope == "public" else ("--farm", scope)
    return ingest([*map(str, paths), *where, "--store", str(store), "--quiet", *options])


def record_of(store: Path, scope: str) -> ScopeRecord:
    return ScopeRecord(store, scope if scope == "public" else farm_scope(scope))


def copy_store(store: Path, target: Path) -> Path:
    return Path(shutil.copytree(store, target))


def set_manifest(store: Path, scope: str, key: str, value: str) -> None:
    with sqlite3.connect(record_of(store, scope).folder / "store.sqlite") as db:
        db.execute("UPDATE manifest SET value = ? WHERE key = ?", (value, key))


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write ``path → text or bytes`` below ``folder``; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """``python …`` in a process of its own, with the tests' configuration."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def finished(process: subprocess.Popen[str], timeout: float = 120) -> tuple[int, str, str]:
    """Exit code, output and errors of a process."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err


def damageable(store: Path, scope: str) -> dict[str, Path]:
    """Name → path of the derived files of the snapshot in force: its own and those of its (first) segment.

    Segments that are open in this process are let go: they would be read from memory.
    """
    gc.collect()
    base = record_of(store, scope).folder / "snapshots"
    current = base / (base / "CURRENT").read_text()
    segment = base / "segments" / json.loads((current / "segments.json").read_text())["segments"][0][0]
    files = {path.name: path for path in segment.iterdir()}
    return files | {
        "segments.json": current / "segments.json",
        "": current,
        "CURRENT": base / "CURRENT",
        "segment": segment,
    }


def snapshot_files(store: Path, scope: str) -> dict[str, bytes]:
    """Path → bytes of all files of the snapshot in force and of its segments."""
    base = record_of(store, scope).folder / "snapshots"
    current = base / (base / "CURRENT").read_text()
    listed = json.loads((current / "segments.json").read_text())["segments"]
    folders = [current, *(base / "segments" / name for name, _ in listed)]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(base)): path.read_bytes() for path in files}
