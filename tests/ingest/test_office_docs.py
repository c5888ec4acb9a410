"""Real office files: each ends as its manifest says, quickly, in little memory, with text or a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag.settings import ROOT

OFFICE_DOCS = ROOT.parent / "shared" / "data" / "office_docs"
READ_ALL = r"""
import json, re, sys, time
from pathlib import Path
from ingest.loaders import load
from rag.errors import IngestError
for name in json.load(sys.stdin):
    started = time.monotonic()
    row = {"file": name, "text": "", "notes": [], "error": ""}
    try:
        document = load(Path(name), limit_bytes=50 * 2**20)
        row |= {"text": document.text, "notes": document.notes, "format": document.format}
    except IngestError as error:
        row["error"] = str(error)
    print(json.dumps(row | {"seconds": time.monotonic() - started}))
status = Path("/proc/self/status").read_text()  # getrusage would hand on the peak of the process that forked
print(json.dumps({"peak_mb": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024}))
"""
REASONS = {
    "encrypted": "암호",
    "damaged": "손상",
    "scanned": "스캔 문서: 글자층 없음",
    "empty": "빈 파일|읽을 글자가 없습니다",
}
# Where the manifest's word is not the end that a reader can honestly report.
WITHOUT_TEXT = {
    "hwplib__차트.hwp": "데이터를 꺼낼 수 없는 차트 1개",  # one chart object, no paragraph with a letter
    "hwp2hwpx__여러섹션.hwpx": "읽을 글자가 없습니다",  # five sections without one character
    "hwpxlib__SimplePicture.hwpx": "그림 1개 속의 글자는 읽지 않았습니다",  # one picture
    "hwpxlib__presentation오류.hwpx": "읽을 글자가 없습니다",
    "hwpxlib__2022.hwpx": "읽을 글자가 없습니다",
}
# "Damaged" for other readers; all 76 pages come out whole here.
READ_ALL_THE_SAME = {"unstructured__failure-after-repair.pdf": 100_000}
# Broke another library; nothing of it is left out or doubtful here.
NOTHING_TO_REMARK = {"hwpxlib__테스트문서.hwpx"}


def manifest() -> list[dict[str, Any]]:
    if not OFFICE_DOCS.is_dir():
        return []
    names = ("manifest.jsonl", "manifest_derived.jsonl")
    lines = [line for name in names for line in (OFFICE_DOCS / name).read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


ENTRIES = {Path(row["file"]).name: row for row in manifest()}


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """All files read in one fresh process; "" holds its peak memory."""
    if not ENTRIES:
        if os.environ.get("CI"):
            pytest.fail(f"{OFFICE_DOCS} is missing")
        pytest.skip("data folder not at hand")
    paths = [str(OFFICE_DOCS / row["file"]) for row in ENTRIES.values()]
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL], input=json.dumps(paths), cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(row.get("file", "")).name: row for row in rows}


def test_all_files_are_there(results: dict[str, dict[str, Any]]) -> None:
    assert len(results) - 1 == len(ENTRIES) == 52


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_file_ends_as_its_manifest_says(results: dict[str, dict[str, Any]], name: str) -> None:
    row, expect = results[name], ENTRIES[name]["expect"]
    assert row["seconds"] < 20
    assert "\x00" not in row["text"]
    if name in WITHOUT_TEXT:
        assert WITHOUT_TEXT[name] in row["error"]
    elif name in READ_ALL_THE_SAME:
        assert len(row["text"]) > READ_ALL_THE_SAME[name]
    elif expect in REASONS:
        assert any(reason in row["error"] for reason in REASONS[expect].split("|")), row["error"]
        assert f"'{name}'" in row["error"]
    else:
        assert row["text"].strip(), row["error"]
        assert row["notes"] or expect == "ok" or name in NOTHING_TO_REMARK


def test_memory_stays_below_a_gigabyte(results: dict[str, dict[str, Any]]) -> None:
    assert results[""]["peak_mb"] < 1024


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hwplib__글상자.hwp", "123"),  # text box
        ("hwp2hwpx__footnote_endnote.hwp", "각주 1: 12345"),
        ("hwplib__숨은설명.hwp", "숨은 설명: 우리는 우리다."),
        ("hwplib__표.hwp", "ABC 123: LMN, DEF: OPQ, GHI: STR"),
        ("hwpxlib__Table.hwpx", "이름: 개똥이, 국어: 89, 영어: 65, 수학: 78"),
        ("kordoc__budget.xls", "부서: 기획조정실, 본예산: 12500000000, 추경: 500000000, 집행률(%): 87.3"),
        ("unstructured__fake.doc", "Lorem ipsum dolor sit amet."),
        ("unstructured__docx-hdrftr.docx", "First header para"),
        ("html_as_xls_euckr.xls", "일자: 2026-03-02, 온실: 1동, 작업: 적엽, 급액EC: 2.4"),
    ],
)
def test_what_stands_outside_plain_paragraphs_is_read(
    results: dict[str, dict[str, Any]], name: str, words: str
) -> None:
    assert words in results[name]["text"]
