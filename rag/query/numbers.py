"""Numbers as people say them: 십팔, 이천이십오, 삼점오, 세, 열두, 천, 300만."""

from __future__ import annotations

import re

_DIGITS = {c: n for n, c in enumerate("영일이삼사오육칠팔구")} | {"공": 0, "륙": 6, "유": 6, "시": 10}
_PLACES = {"십": 10, "백": 100, "천": 1000}
_MYRIADS = {"만": 10_000, "억": 100_000_000}
NATIVE = {
    "한": 1, "하나": 1, "첫": 1, "두": 2, "둘": 2, "세": 3, "석": 3, "서": 3, "셋": 3, "네": 4, "넉": 4, "넷": 4, "다섯": 5,
    "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10, "열한": 11, "열두": 12, "스무": 20,
}  # fmt: skip
NATIVE_WORD = "|".join(sorted(NATIVE, key=len, reverse=True))
# Days that have a word of their own.
DAYS = {
    "하루": 1, "이틀": 2, "사흘": 3, "나흘": 4, "닷새": 5, "엿새": 6, "이레": 7, "여드레": 8, "아흐레": 9, "열흘": 10, "보름": 15,
}  # fmt: skip
DAY_WORD = "|".join(DAYS)
SPOKEN = "[영공일이삼사오육륙칠팔구십백천만억]+"


def spoken(text: str) -> int | None:
    """A Sino-Korean numeral: 십팔 → 18, 이천이십오 → 2025, 삼백만 → 3000000; None for anything else."""
    total, section, digit = 0, 0, None
    for char in text:
        if char in _MYRIADS:
            total += ((section + (digit or 0)) or 1) * _MYRIADS[char]
            section, digit = 0, None
        elif char in _PLACES:
            section += (1 if digit is None else digit) * _PLACES[char]
            digit = None
        elif char in _DIGITS and digit is None:
            digit = _DIGITS[char]
        else:
            return None
    return total + section + (digit or 0) if text else None


def counted(text: str) -> int | None:
    """A number in digits, native or Sino-Korean words."""
    text = text.strip()
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    return NATIVE.get(text) or DAYS.get(text) or spoken(text)
