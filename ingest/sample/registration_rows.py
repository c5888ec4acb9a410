"""Pesticide registration rows (2026-04-24 snapshot) under plain crop names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA_DIR = Path(__file__).parent / "data"
SNAPSHOT_DATE = "2026-04-24"

_PLAIN_CROPS = {
    "토마토(방울토마토포함)": "토마토",
    "토마토(슈퍼도태랑)": "토마토",
    "딸기(육묘상)": "딸기",
    "착색단고추": "파프리카",
    "고추냉이": "와사비",
    "고추냉이잎": "와사비",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One product registered for one crop and target; texts as in the source."""

    id: str
    crop: str
    target: str
    purpose: str
    item: str
    brand: str
    company: str
    formulation: str
    dilution: str
    use_qty: str
    use_unit: str
    method_timing: str
    phi: str
    max_times: str
    reg_no: str
    valid_until: str

    @property
    def plain_crop(self) -> str:
        """Crop under the name the farms use (착색단고추 is 파프리카, 고추냉이 is 와사비)."""
        return _PLAIN_CROPS.get(self.crop, self.crop)

    @property
    def days_before_harvest(self) -> str:
        """Days before harvest as digits, or "" where the source does not say it in that form."""
        match = re.search(r"수확\s*(\d+)\s*일\s*전", self.phi)
        return match.group(1) if match else ""


@cache
def registrations() -> tuple[Registration, ...]:
    """All rows, in source order."""
    lines = (DATA_DIR / "registrations.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Registration(**json.loads(line)) for line in lines)


@cache
def sprayable(crop: str, target: str) -> tuple[Registration, ...]:
    """Rows that a spray log can use: plain dilution, timing by outbreak, known days before harvest."""
    return tuple(
        row
        for row in registrations()
        if row.plain_crop == crop
        and row.target == target
        and row.dilution.isdigit()
        and "발" in row.method_timing
        and row.days_before_harvest
        and row.max_times[:1].isdigit()
    )
