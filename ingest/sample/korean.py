"""Small Korean text tools: particles, sentence style and a template notation.

Template notation of `expand`:
  {name}      a value given by the caller
  {3~6}       a random whole number, {1.2~2.4} a random number with one decimal
  {a|b|c}     one of the alternatives
  낱말(을/를)  the particle that fits the word before it
"""

from __future__ import annotations

import random
import re
from typing import Literal

Style = Literal["plain", "memo", "polite"]

_PARTICLE = re.compile(r"(\S)\((은/는|이/가|을/를|과/와|으로/로|이었다/였다|이었고/였고)\)")
_RANGE = re.compile(r"\{(\d+(?:\.\d+)?)~(\d+(?:\.\d+)?)\}")
_CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_NAME = re.compile(r"\{([a-z_]+)\}")
_ENDING = re.compile(r"([가-힣])다\.")
_DIGIT_FINALS = {"0": 21, "1": 8, "2": 0, "3": 16, "4": 0, "5": 0, "6": 1, "7": 8, "8": 8, "9": 0}
_RIEUL = 8
_LETTERS_WITH_FINAL = {"L": _RIEUL, "l": _RIEUL, "M": 16, "m": 16, "N": 4, "n": 4, "R": _RIEUL, "r": _RIEUL}


def final_consonant(char: str) -> int:
    """Index of the final consonant of a syllable, digit or letter as read aloud (0: none)."""
    if "가" <= char <= "힣":
        return (ord(char) - ord("가")) % 28
    return _DIGIT_FINALS.get(char, _LETTERS_WITH_FINAL.get(char, 0))


def _pick_particle(match: re.Match[str]) -> str:
    before, pair = match.group(1), match.group(2)
    with_final, without = pair.split("/")
    final = final_consonant(before)
    if pair == "으로/로" and final == _RIEUL:
        final = 0
    return before + (with_final if final else without)


def particles(text: str) -> str:
    """Resolve every `낱말(을/를)` to the fitting particle."""
    return _PARTICLE.sub(_pick_particle, text)


def _draw(rng: random.Random, low: str, high: str) -> str:
    decimals = len(low.partition(".")[2])
    if not decimals:
        return str(rng.randint(int(low), int(high)))
    return f"{rng.uniform(float(low), float(high)):.{decimals}f}"


def expand(rng: random.Random, template: str, **values: str) -> str:
    """Fill a template; unknown names raise `KeyError`."""
    text = _CHOICE.sub(lambda m: rng.choice(m.group(1).split("|")), template)
    text = _RANGE.sub(lambda m: _draw(rng, m.group(1), m.group(2)), text)
    text = _NAME.sub(lambda m: values[m.group(1)], text)
    return particles(text)


def _end(match: re.Match[str], style: Style) -> str:
    stem = match.group(1)
    if stem == "이":
        return "임." if style == "memo" else "입니다."
    return stem + ("음." if style == "memo" else "습니다.")


def restyle(text: str, style: Style) -> str:
    """Turn plain endings ("했다.", "예정이다.") into memo or polite ones.

    Templates end every sentence in a stem with a final consonant or in "이다", so that one
    rule serves all of them.
    """
    if style == "plain":
        return text
    return _ENDING.sub(lambda m: _end(m, style), text)


def number(value: float) -> str:
    """Shortest decimal form: 2.50 is "2.5", 31.0 is "31"."""
    return f"{value:g}"


def won(value: int) -> str:
    """Money with thousands separators, without the unit."""
    return f"{value:,}"
