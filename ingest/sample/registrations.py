"""Pesticide registration sheets: one document per crop and target."""

from __future__ import annotations

import random
import re
from collections import defaultdict

from ingest.sample.model import Bullets, Cell, Document, Paragraph, SampleFile, Section, Table
from ingest.sample.registration_rows import SNAPSHOT_DATE, Registration, registrations

MAX_ROWS = 40

_FORMATS = (("md", 70), ("xlsx", 20), ("csv", 10))
_SOURCE_LINE = f"자료 기준일: {SNAPSHOT_DATE} (식품의약품안전처 농약 등록정보)"
_CAUTION = (
    "이 문서는 기준일의 등록 내용을 옮긴 사본이다. 등록은 바뀔 수 있으므로 살포하기 전에 "
    "농약안전정보시스템(psis.rda.go.kr)과 제품 라벨을 반드시 확인해야 한다."
)
_TITLES = {"파프리카": "파프리카(착색단고추)", "와사비": "와사비(고추냉이)"}
_HEADER = (
    "품목",
    "상표",
    "제형",
    "희석배수",
    "사용량",
    "사용시기",
    "안전사용시기",
    "사용횟수",
    "회사",
    "등록 유효기간",
    "등록 작물명",
)
_CSV_HEADER = ("작목", "병해충", *_HEADER, "전체 등록 행수", "자료 기준일", "확인")


def _dilution(row: Registration) -> str:
    return f"{row.dilution}배" if row.dilution.replace(",", "").isdigit() else row.dilution


def _amount(row: Registration) -> str:
    amount = f"{row.use_qty}{row.use_unit}".strip()
    return "" if amount == "-" else amount


def _harvest_limit(row: Registration) -> str:
    days = row.days_before_harvest
    return f"수확 {days}일 전까지" if days else row.phi


def _times(row: Registration) -> str:
    match = re.fullmatch(r"(\d+)회?\s*(이내)?", row.max_times)
    if match is None:
        return row.max_times
    return f"{match.group(1)}회 이내" if match.group(2) else f"{match.group(1)}회"


def _valid_until(row: Registration) -> str:
    text = row.valid_until
    return f"{text[:4]}-{text[4:6]}-{text[6:]}" if re.fullmatch(r"\d{8}", text) else text


def _timing(row: Registration) -> str:
    timing = " ".join(row.method_timing.split())
    if timing.endswith("간격"):
        return f"{timing}으로 사용"
    return f"{timing}에 사용" if timing.endswith(("기", "시", "전", "후", "초")) else f"사용시기 {timing}"


def _said(value: str) -> bool:
    return value not in ("", "-")


def product_sentence(row: Registration) -> str:
    """One product as a sentence; what the source leaves open is left out."""
    parts = [f"희석배수 {_dilution(row)}"] if _said(row.dilution) else []
    parts += [f"사용량 {_amount(row)}"] if _said(_amount(row)) else []
    parts += [_timing(row)] if _said(row.method_timing) else []
    limit = _harvest_limit(row)
    if _said(limit):
        parts.append(limit if limit.endswith("까지") else f"안전사용시기 {limit}")
    parts += [_times(row)] if _said(_times(row)) else []
    parts += [f"등록 유효기간 {_valid_until(row)}"] if _said(row.valid_until) else []
    crop = f" (등록 작물명: {row.crop})" if row.crop != row.plain_crop else ""
    return f"{row.item}(상표 {row.brand}, {row.company}): {', '.join(parts)}.{crop}"


def _cells(row: Registration) -> tuple[Cell, ...]:
    return (
        row.item,
        row.brand,
        row.formulation,
        _dilution(row),
        _amount(row),
        row.method_timing,
        _harvest_limit(row),
        _times(row),
        row.company,
        _valid_until(row),
        row.crop,
    )


def _count_line(total: int) -> str:
    if total > MAX_ROWS:
        return f"등록 행은 모두 {total}건이며, 상표 이름순으로 앞의 {MAX_ROWS}건만 싣는다."
    return f"등록 행은 모두 {total}건이다."


def _sections(crop: str, target: str, rows: list[Registration], extension: str) -> tuple[Section, ...]:
    shown = rows[:MAX_ROWS]
    if extension == "md":
        sentences = Bullets(tuple(product_sentence(row) for row in shown))
        return (
            Section("확인할 점", (Paragraph(_CAUTION),)),
            Section("등록 농약", (Paragraph(_count_line(len(rows))), sentences)),
        )
    if extension == "xlsx":
        table = Table(_HEADER, tuple(_cells(row) for row in shown))
        return (Section("등록 농약", (Paragraph(_CAUTION), Paragraph(_count_line(len(rows))), table)),)
    stamp = (len(rows), _SOURCE_LINE.partition(": ")[2], "살포 전 농약안전정보시스템(psis.rda.go.kr) 확인(기준일 사본)")
    flat = tuple((_TITLES.get(crop, crop), target, *_cells(row), *stamp) for row in shown)
    return (Section("", (Table(_CSV_HEADER, flat),)),)


def _sheet(crop: str, target: str, rows: list[Registration]) -> SampleFile:
    rng = random.Random(f"registration/{crop}/{target}")
    extension = rng.choices([name for name, _ in _FORMATS], [share for _, share in _FORMATS])[0]
    title = f"{_TITLES.get(crop, crop)} {target} 등록 농약"
    purposes = ", ".join(sorted({row.purpose for row in rows}))
    meta = (_SOURCE_LINE, f"작목: {_TITLES.get(crop, crop)} · 대상: {target} · 용도: {purposes}")
    return SampleFile(
        scope="public",
        path=f"농약등록/{crop}/{crop}_{target}.{extension}",
        kind="농약등록",
        document=Document(title, meta, _sections(crop, target, rows, extension)),
        crop=crop,
        date=SNAPSHOT_DATE,
        encoding="utf-8-sig" if extension == "csv" else "utf-8",
    )


def registration_files() -> list[SampleFile]:
    """One sheet per plain crop and target, rows by brand."""
    groups: defaultdict[tuple[str, str], list[Registration]] = defaultdict(list)
    for row in registrations():
        groups[row.plain_crop, row.target].append(row)
    return [
        _sheet(crop, target, sorted(rows, key=lambda row: (row.brand, row.id)))
        for (crop, target), rows in sorted(groups.items())
    ]
