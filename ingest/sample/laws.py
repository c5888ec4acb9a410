"""Selected articles of agricultural law: one document per article."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ingest.sample.model import Document, Paragraph, SampleFile, Section
from ingest.sample.registration_rows import DATA_DIR

SNAPSHOT = "2026-06"
_SNAPSHOT_NOTE = (
    f"수록 기준: {SNAPSHOT} 국가법령정보센터(law.go.kr) 판이며 부칙과 별표는 없다. 적용 전에 현행 법령을 확인해야 한다."
)
_FILE_NAME = re.compile(r"[^0-9A-Za-z가-힣ㆍ·_-]+")
_TEXT_EVERY = 3


def _paragraphs(text: str) -> Iterator[Paragraph]:
    """One paragraph per line; sub-items keep their own marks."""
    for line in text.splitlines():
        if line.strip():
            yield Paragraph(line.strip())


def _file(article: dict[str, str], extension: str) -> SampleFile:
    law, number, title = article["law"], article["article"], article["title"]
    meta = (
        f"법령: {law}({article['law_type']}) · 조문: {number}({title}) · 시행일: {article['in_force']}",
        _SNAPSHOT_NOTE,
        f"원문: {article['source_url']}",
    )
    document = Document(f"{law} {number}({title})", meta, (Section("", tuple(_paragraphs(article["text"]))),))
    folder = _FILE_NAME.sub(" ", law).strip()
    name = _FILE_NAME.sub("_", title).strip("_")
    return SampleFile(
        scope="public",
        path=f"법령/{folder}/{number}_{name}.{extension}",
        kind="법령",
        document=document,
        date=article["in_force"],
    )


def law_files() -> list[SampleFile]:
    """Every selected article; two of three as plain text, the rest as Markdown."""
    lines = (DATA_DIR / "law_articles.jsonl").read_text(encoding="utf-8").splitlines()
    return [_file(json.loads(line), "md" if index % _TEXT_EVERY == 0 else "txt") for index, line in enumerate(lines)]
