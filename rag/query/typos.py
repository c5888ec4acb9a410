"""Mistyped farm words, put right before the rules read them (토마도 → 토마토, 급엑 → 급액, 점검포 → 점검표).

A word is taken for a term when one letter (jamo) of one of its syllables is wrong, exactly one term comes that close,
and the morphological analysis makes no ordinary word of it. The repaired text is as long as the question, so that spans
hold for both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from kiwipiepy import Token

from rag.lexicon import Lexicon
from rag.query.words import words

# Words of the rules themselves: when and in which document.
RULE_WORDS = words(
    "작년 재작년 올해 지난주 지난달 지난해 어제 그저께 작업일지 점검표 회의록 계약서 보고서 매뉴얼 견적서 계획서 거래명세서 수확기록 수리기록 영농일지 센서기록"
)
# How people write what they say; as long as the right spelling.
_SPELLINGS = {
    "마춰": "맞춰",
    "마추": "맞추",
    "보여죠": "보여줘",
    "알려죠": "알려줘",
    "찾아죠": "찾아줘",
    "됬": "됐",
    "지난줘": "지난주",
    "지난쥬": "지난주",
}
_SPELLING = re.compile("|".join(_SPELLINGS))
_MONTH = re.compile(r"(?<=\d)[뤌웰윌욀훨](?![가-힣])")
_WORD = re.compile("[가-힣]{2,}")
_PARTICLE = re.compile(
    r"(?:은|는|이|가|을|를|에|에서|에는|의|로|으로|와|과|랑|이랑|하고|도|만|까지|부터|좀|요|이요|인데|한테|보다|처럼|이나|나)?"
    r"(?![가-힣])"
)
_LONGEST = 9
_PARTICLES = frozenset("이가은는을를과와도의에로랑")
_LONG = 5  # syllables that no ordinary words make up by chance
_UNKNOWN = frozenset({2, 3})  # Kiwi's ids for a noun and a name that it does not know


def _letters(syllable: str) -> tuple[int, int, int]:
    code = ord(syllable) - 0xAC00
    return code // 588, code % 588 // 28, code % 28


def one_letter_apart(one: str, other: str) -> bool:
    """Whether two words of Hangul syllables differ in one jamo of one syllable."""
    if len(one) != len(other):
        return False
    apart = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    return len(apart) == 1 and sum(x != y for x, y in zip(*map(_letters, apart[0]), strict=True)) == 1


class Speller:
    """The forms of a lexicon, to be found again with one letter wrong."""

    def __init__(self, lexicon: Lexicon) -> None:
        canonical = lexicon.canonical
        self._crops = {f for t in lexicon.terms.values() if (t.type, t.source) == ("작물", "farm") for f in t.forms}
        self._known: dict[str, str] = {w: canonical.get(w, w) for w in (*lexicon.user_words, *sorted(RULE_WORDS))}
        self._near: dict[str, list[str]] = defaultdict(list)
        for form in self._known:
            for key in _holes(form):
                self._near[key].append(form)

    def repair(self, text: str, morphemes: Sequence[Token]) -> str:
        """``text`` with its mistyped words put right; ``morphemes`` are those of ``text``."""
        for start, form in self._found(text, morphemes):
            text = text[:start] + form + text[start + len(form) :]
        text = _MONTH.sub("월", text)
        return _SPELLING.sub(lambda match: _SPELLINGS[match[0]], text)

    def _found(self, text: str, morphemes: Sequence[Token]) -> Iterator[tuple[int, str]]:
        for match in _WORD.finditer(text):
            at = match.start()
            while at < match.end() - 1:
                longest = min(_LONGEST, match.end() - at)
                known = next((n for n in range(longest, 1, -1) if text[at : at + n] in self._known), 0)
                if known and self._follows(text[at + known : match.end()]):
                    at += known
                    continue
                lengths = range(longest, max(1, known), -1)
                form = next((f for n in lengths if (f := self._meant(text, at, n, match.end(), morphemes))), None)
                if form is None and known:
                    at += known
                    continue
                if form is None:
                    break
                yield at, form
                at += len(form)

    def _meant(self, text: str, at: int, length: int, end: int, morphemes: Sequence[Token]) -> str | None:
        """The form that ``text[at : at + length]`` is a misspelling of."""
        word = text[at : at + length]
        near = [f for key in _holes(word) for f in self._near.get(key, ()) if one_letter_apart(word, f)]
        if len({self._known[form] for form in near}) != 1:
            return None
        inside = [t for t in morphemes if t.start < at + length and at < t.start + max(1, t.len)]
        form = next((f for f in near if self._known[f] == f), near[0])
        return form if self._follows(text[at + length : end]) and self._no_word(inside, at, form, word) else None

    def _follows(self, rest: str) -> bool:
        """Whether ``rest`` may stand behind a whole word: nothing, a particle, the next term."""
        known = any(rest[:n] in self._known for n in range(2, 1 + min(_LONGEST, len(rest))))
        return known or _PARTICLE.match(rest) is not None

    def _no_word(self, inside: Collection[Token], at: int, form: str, word: str) -> bool:
        """Whether the analysis found no ordinary words in place of a form: unknown or broken pieces only.

        Short unknown words are as often names (곁순, 죽향): of these only the grown crops are taken.
        """
        if any(str(t.tag) == "Z_CODA" for t in inside):
            return True
        if any(t.id in _UNKNOWN and t.start >= at for t in inside):
            return len(form) > 2 or form in self._crops or form in RULE_WORDS
        if len(form) >= _LONG and word[-1:] not in _PARTICLES:
            return True
        plain = all(t.len <= 1 and not str(t.tag).startswith(("J", "E", "VCP", "S")) for t in inside)
        return plain and len(inside) > 1 and (len(form) > 2 or form in RULE_WORDS)


def _holes(word: str) -> Iterable[str]:
    return (f"{word[:i]}*{word[i + 1 :]}" for i in range(len(word)))


@lru_cache(maxsize=4)
def speller(lexicon: Lexicon) -> Speller:
    """The speller of a lexicon; one for the process."""
    return Speller(lexicon)
