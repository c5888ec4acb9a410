"""Whether an answer says what a question expects, whatever notation it uses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# A space that parts two numbers stays ("1.5 2.0", "33.3. 4동"); any other is dropped.
_SPACE = re.compile(r"(?P<parting>(?:(?<=\d)|(?<=\d[.,]))\s+(?=\d))|\s+")
_EMPHASIS = re.compile(r"[*`]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_RANGE_SIGN = re.compile(r"(?<=\d)[~∼〜～‐‑–—−-](?=\d)")
_DEGREES = re.compile(r"(?<=\d)(?:°c|˚c|ºc|도씨|도)")
_PADDED_DAY = re.compile(r"(?<!\d)0(?=\d[월일])")


def normalise(text: str) -> str:
    """One notation for spaces, emphasis, ranges, degrees, conductivity, thousands and letter case."""
    plain = _EMPHASIS.sub("", unicodedata.normalize("NFC", text)).strip().casefold()
    joined = _SPACE.sub(lambda space: " " if space["parting"] else "", plain)
    joined = _THOUSANDS.sub("", joined)
    joined = _RANGE_SIGN.sub("~", joined)
    joined = _DEGREES.sub("℃", joined)
    joined = _PADDED_DAY.sub("", joined)
    return joined.replace("ms/cm", "ds/m")


def _pattern(wanted: str) -> re.Pattern[str]:
    """The wanted text; a number at its start or end must not go on outside it."""
    before = r"(?<!\d)(?<!\d\.)" if wanted[0].isdecimal() else ""
    after = r"(?!\d)(?!\.\d)" if wanted[-1].isdecimal() else ""
    return re.compile(before + re.escape(wanted) + after)


def contains_expected(answer: str, expect: Iterable[Iterable[str]]) -> bool:
    """Whether every group has at least one alternative that the answer contains.

    A number counts only as a whole: "1.5" is neither in "11.5" nor in "1.55". `ValueError` for
    questions that expect nothing (those are to be refused) and for empty groups or alternatives.
    """
    groups = [[normalise(alternative) for alternative in group] for group in expect]
    if not groups or not all(groups) or not all(all(group) for group in groups):
        raise ValueError(f"기대 답이 비어 있습니다: {groups!r}. 답할 수 없는 질문은 거절 여부로 채점하십시오.")
    text = normalise(answer)
    return all(any(_pattern(wanted).search(text) for wanted in group) for group in groups)
