"""Latin-script text: BM25 words, and the names that capitals mark.

Words are runs of letters or numbers, lower-cased, without accents and without a possessive 's; stop words are dropped
and the rest is stemmed by Snowball English (Porter, "Snowball: a language for stemming algorithms", 2001; PyStemmer).
Letters and digits part ("CO2" → co, 2), as Kiwi parts them, so that a word is the same token in a Korean sentence.
Stop words: the NLTK list of 179 as bm25s ships it. Two exceptions keep farm terms matchable: capitals of two or more
letters are never stop words (NO3, IT), nor are words of one or two letters inside Korean text (A동, 비타민 D).

A name is a run of capitalised words, joined by particles ("Duchy of Lucca"), numbers ("Apollo 11") and initials
("J. R. R. Tolkien"). Function words, months and days at its start are cut ("The", "When", "June"). The canonical form
is lower case without accents.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from rag.lexicon import NAME, Mention

STOPWORDS = frozenset(STOPWORDS_EN_PLUS)
_CALENDAR = frozenset(
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ]
)
_LATIN_RANGE = [chr(code) for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)) if chr(code).isalpha()]
_LETTER = "A-Za-z" + "".join(_LATIN_RANGE)
_UPPER = "A-Z" + "".join(char for char in _LATIN_RANGE if char.isupper())
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
_WORD = re.compile(
    r"(?P<date>(?<![\d.])\d{4}[-./]\d{1,2}(?:[-./]\d{1,2})?(?![\d.]))"
    r"|(?P<number>\d+(?:[.,]\d+)*)"
    rf"|(?P<word>[{_LETTER}]+)(?:['’](?P<tail>[{_LETTER}]+))?"
)
_PARTICLE = r"(?:of|the|for|in|on|at|to|de|la|le|du|des|di|da|do|dos|del|della|van|von|der|den|zu|y|al|el|bin|ibn)"
_CAPITAL = (
    rf"(?:(?:[{_UPPER}]\.\s?){{1,4}}(?=[{_UPPER}]))?"
    rf"[{_UPPER}][{_LETTER}\d]*(?:[-–&'’][{_LETTER}\d]+|\.[{_UPPER}](?![{_LETTER}]))*"
)
_NAME = re.compile(
    rf"(?<![{_LETTER}\d]){_CAPITAL}(?:(?<!['’]s)\s+(?:{_PARTICLE}\s+){{0,2}}{_CAPITAL}|\s+\d{{1,3}}(?![\d,.]))*"
)
_OPENING_WORD = re.compile(r"([^\s]+)\s+")
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
_BRACKETED = re.compile(r"\s*\([^()]*\)\s*$")
_HEADING_WORDS = 12


def has_hangul(text: str) -> bool:
    """Whether Kiwi has anything to read here."""
    return _HANGUL.search(text) is not None


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c))


def fold(text: str) -> str:
    """Lower case without accents; Hangul stays as it is ("Beyoncé" → "beyonce")."""
    if text.isascii():
        return text.lower()
    return "".join(char if "가" <= char <= "힣" else _plain(char) for char in text.lower())


def canonical(name: str) -> str:
    """Canonical form of a name: folded, single spaces, no possessive or punctuation at its ends."""
    return _POSSESSIVE.sub("", " ".join(fold(name).split())).strip(" .,'’-–\"")


class EnglishStemmer:
    """Snowball English behind a cache; the library's object is not re-entrant."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}

    def stem(self, word: str) -> str:
        """Stem of a folded word."""
        known = self._known.get(word)
        if known is None:
            with self._lock:
                known = self._known.setdefault(word, str(self._stemmer.stemWord(word)))
        return known


_STEMMER = EnglishStemmer()


def words(text: str, *, korean: bool = False) -> Iterator[tuple[str, str, str]]:
    """(kind, token, folded form) of each content word; kind ∈ {word, number, date}.

    ``korean``: the word stands in Korean text, where words of one or two letters are never stop words.
    """
    for match in _WORD.finditer(text):
        if match["number"]:
            number = match["number"].replace(",", "")
            yield "number", number, number
        elif match["date"]:
            yield "date", match["date"], match["date"]
        else:
            yield from _word(match, korean)


def _word(match: re.Match[str], korean: bool) -> Iterator[tuple[str, str, str]]:
    written, tail = match["word"], match["tail"] or ""
    form = fold(written)
    initials = len(written) >= 2 and written.isupper()
    if not (form in STOPWORDS or f"{form}'{tail.lower()}" in STOPWORDS) or initials or (korean and len(form) <= 2):
        yield "word", _STEMMER.stem(form), form
    if len(tail) > 2:  # O'Brien, l'Aquila; not 's, 't, 'll
        yield "word", _STEMMER.stem(fold(tail)), fold(tail)


def names_in(text: str) -> Iterator[Mention]:
    """Capitalised names of a text, left to right."""
    for match in _NAME.finditer(text):
        start = match.start()
        while (opening := _OPENING_WORD.match(text, start, match.end())) and _is_function_word(opening[1]):
            start = opening.end()
        name = canonical(text[start : match.end()])
        if len(name) >= 2 and not _is_function_word(name):
            yield Mention(name, NAME, start, match.end())


def _is_function_word(word: str) -> bool:
    form = fold(word)
    return form in STOPWORDS or form in _CALENDAR


def heading_names(line: str) -> Iterator[Mention]:
    """A title as a name of its own, and its aliases: without a bracketed end, without what follows a comma.

    "Theodred II (Bishop of Elmham)" is also "theodred ii", "Lambert, Margrave of Tuscany" also "lambert".
    """
    if len(line.split()) > _HEADING_WORDS:
        yield from names_in(line)
        return
    whole = line.strip()
    bare = _BRACKETED.sub("", whole)
    for alias in dict.fromkeys(map(canonical, (whole, bare, whole.split(",")[0], bare.split(",")[0]))):
        if len(alias) >= 2:
            yield Mention(alias, NAME, 0, len(line))


def opens_text(text: str, start: int) -> bool:
    """Whether nothing but function words stands before ``start``."""
    return all(_is_function_word(word.strip(" .,:;\"'()")) for word in text[:start].split())
