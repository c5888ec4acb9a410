"""Longest match of the names of a graph in a question.

Keys are folded (lower case, no accents) and without spaces, so that "토마토잎곰팡이병방제" and "new  york" are read too.
A dictionary lookup per position and length: a few hundred kilobytes and 0.1 ms a question, where a character trie of
the same names needs a hundred times the memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from rag.english import STOPWORDS, fold

_PREFIX = 2
# Hangul names this short are also syllables of other words (요한 in 필요한가요): they count only at the start of a word.
_SHORT = 2


class NameMatcher:
    """Finds names; immutable after construction. Latin names count only between word borders."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._longest: dict[str, int] = {}
        for name in names:
            key = fold(name).replace(" ", "")
            if len(key) < _PREFIX or key in STOPWORDS:
                continue
            self._names.setdefault(key, name)
            self._longest[key[:_PREFIX]] = max(self._longest.get(key[:_PREFIX], 0), len(key))

    def find(self, text: str) -> list[tuple[str, int, int]]:
        """(name, start, end) of longest non-overlapping matches, left to right; ends exclusive."""
        key, origin = _compact(text)
        found: list[tuple[str, int, int]] = []
        position = 0
        while position < len(key):
            end = self._match(key, position, text, origin)
            if end is None:
                position += 1
            else:
                found.append((self._names[key[position:end]], origin[position], origin[end - 1] + 1))
                position = end
        return found

    def _match(self, key: str, start: int, text: str, origin: list[int]) -> int | None:
        """End in ``key`` of the longest name that starts at ``start``."""
        if not _border(text, origin[start] - 1, origin[start]):
            return None
        longest = self._longest.get(key[start : start + _PREFIX], 0)
        for end in range(min(len(key), start + longest), start + _PREFIX - 1, -1):
            if key[start:end] in self._names and _border(text, origin[end - 1], origin[end - 1] + 1):
                return None if end - start <= _SHORT and _inside_hangul(text, origin[start]) else end
        return None


def _compact(text: str) -> tuple[str, list[int]]:
    """The folded text without spaces, and where each of its characters stood."""
    pieces = [(fold(char), position) for position, char in enumerate(text) if not char.isspace()]
    return "".join(piece for piece, _ in pieces), [at for piece, at in pieces for _ in piece]


def _border(text: str, left: int, right: int) -> bool:
    """Whether a name may start or end between two neighbouring characters."""
    if left < 0 or right >= len(text):
        return True
    return not (_is_latin(text[left]) and _is_latin(text[right]))


def _inside_hangul(text: str, start: int) -> bool:
    return start > 0 and "가" <= text[start] <= "힣" and "가" <= text[start - 1] <= "힣"


def _is_latin(char: str) -> bool:
    return char.isalnum() and not "ㄱ" <= char <= "힣"
