"""No network, no key, no telemetry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from rag.settings import ROOT
from tests.pipeline.support import command, finished, write_files

PROGRAM = """
import socket, sys
import pytest_socket
tried = []
def refuse(*arguments, **options):
    tried.append(arguments)
    raise OSError("no network")
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, refuse)
for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, refuse)
pytest_socket.disable_socket(allow_unix_socket=True)
import ingest.__main__, rag.__main__, eval.questions
store, folder = sys.argv[1:]
assert ingest.__main__.main([folder, "--public", "--store", store, "--quiet"]) == 0
assert rag.__main__.main(["정전되면 뭐부터 해야 해?", "--store", store, "--json"]) == 0
assert not tried, tried
"""


def test_everything_works_without_a_network(tmp_path: Path) -> None:
    """Import, ingest, build, answer; with a key in the environment and without."""
    folder = write_files(tmp_path / "files", {"정전.md": "# 정전 대응\n\n정전되면 비상발전기를 먼저 켠다.\n"})
    running = [
        command("-c", PROGRAM, str(tmp_path / "plain"), str(folder)),
        command("-c", PROGRAM, str(tmp_path / "key"), str(folder), OPENAI_API_KEY="sk-not-a-key"),
    ]
    for process in running:
        code, out, err = finished(process)
        assert code == 0, err
        assert "비상발전기를 먼저 켠다." in out


def test_streamlit_sends_no_statistics() -> None:
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["address"] == "127.0.0.1"


def test_ragas_sends_no_statistics() -> None:
    for path in (path for part in ("rag", "ingest", "eval") for path in (ROOT / part).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^\s*(?:import|from) ragas", text, re.MULTILINE):
            before, _, _ = text.partition("ragas import" if "from ragas" in text else "import ragas")
            assert "RAGAS_DO_NOT_TRACK" in before, path
