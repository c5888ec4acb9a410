"""The farm lexicon: typed terms with aliases, the same at index time and at query time.

Files: ``rag/query/lexicon/*.tsv`` with the columns term, type, aliases (joined by ``|``), note.
Matching is longest-first over a character trie, so that spacing-less text ("토마토잎곰팡이병방제") is read too.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rag.errors import SettingsError

LEXICON_DIR = Path(__file__).parent / "query" / "lexicon"
# Types of entities that are not in the lexicon but read off the text: joined and proper nouns, capitalised names,
# common nouns.
COMPOUND = "복합명사"
NAME = "고유명"
NOUN = "보통명사"
OPEN_TYPES = frozenset({COMPOUND, NAME, NOUN})
_COLUMNS = ("term", "type", "aliases", "note")
# Forms this short are also syllables of other words (도장, 센터, Fe); they count only between token borders.
_SHORT = 2


@dataclass(frozen=True, slots=True)
class Term:
    """A canonical term. ``forms`` holds the term itself and all aliases; ``source`` the name of its file."""

    name: str
    type: str
    forms: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Mention:
    """``text[start:end]`` names the canonical term ``name``."""

    name: str
    type: str
    start: int
    end: int


def _is_latin(char: str) -> bool:
    return char.isascii() and char.isalnum()


class Lexicon:
    """Terms, their forms and the matcher over them. Immutable after construction."""

    def __init__(self, terms: Collection[Term], digest: str) -> None:
        self.terms = {term.name: term for term in terms}
        self.digest = digest
        self._trie: dict[str, object] = {}
        for term in terms:
            for form in term.forms:
                node: dict[str, object] = self._trie
                for char in form.lower().replace(" ", ""):
                    node = node.setdefault(char, {})  # type: ignore[assignment]
                node.setdefault("", term)

    @staticmethod
    def load(folder: Path = LEXICON_DIR) -> Lexicon:
        """Read all ``*.tsv`` of a folder in name order.

        Raises:
            SettingsError: a file is not UTF-8, a row lacks a column, its term or its type, or a term or alias stands
                twice; names file and line.
        """
        terms: list[Term] = []
        owner: dict[str, str] = {}
        names: set[str] = set()
        digest = hashlib.sha256()
        for path in sorted(folder.glob("*.tsv")):
            raw = path.read_bytes()
            digest.update(raw)
            try:
                lines = unicodedata.normalize("NFC", raw.decode("utf-8")).splitlines()
            except UnicodeDecodeError as error:
                raise SettingsError(
                    f"용어집 {path.name}: UTF-8 이 아닙니다({error}). UTF-8 로 저장해 주세요."
                ) from error
            for number, line in enumerate(lines[1:], start=2):
                where = f"용어집 {path.name} {number}행"
                cells = line.split("\t")
                if len(cells) != len(_COLUMNS) or not cells[0].strip() or not cells[1].strip():
                    raise SettingsError(
                        f"{where}: '{line}' — 열 {len(_COLUMNS)}개(용어, 종류, 별칭, 설명)가 필요합니다."
                    )
                name, kind = cells[0].strip(), cells[1].strip()
                forms = tuple(dict.fromkeys([name, *(a.strip() for a in cells[2].split("|") if a.strip())]))
                for form in forms:
                    key = form.lower().replace(" ", "")
                    if owner.setdefault(key, name) != name:
                        raise SettingsError(
                            f"{where}: '{form}'이(가) 이미 '{owner[key]}'에 속합니다. 한쪽을 지워 주세요."
                        )
                if name in names:
                    raise SettingsError(f"{where}: '{name}'이(가) 두 번 나옵니다. 한 줄로 합쳐 주세요.")
                names.add(name)
                terms.append(Term(name, kind, forms, path.stem))
        return Lexicon(terms, digest.hexdigest()[:16])

    def type_of(self, name: str) -> str | None:
        """Type of a canonical term, or None."""
        term = self.terms.get(name)
        return term.type if term else None

    @cached_property
    def user_words(self) -> tuple[str, ...]:
        """Hangul forms of two or more syllables without spaces, for Kiwi."""
        words = {
            form
            for term in self.terms.values()
            for form in term.forms
            if len(form) >= 2 and " " not in form and all("가" <= char <= "힣" for char in form)
        }
        return tuple(sorted(words))

    @cached_property
    def canonical(self) -> dict[str, str]:
        """Lower-cased form without spaces → canonical term."""
        return {form.lower().replace(" ", ""): t.name for t in self.terms.values() for form in t.forms}

    def is_proper(self, form: str) -> bool:
        """Whether a form is written with a capital (Santa, EC), so that it may be part of some other name."""
        return form.lower().replace(" ", "") in self._proper

    @cached_property
    def _proper(self) -> frozenset[str]:
        forms = (form for term in self.terms.values() for form in term.forms)
        return frozenset(form.lower().replace(" ", "") for form in forms if form[0].isupper())

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """User word → the shorter user words inside it (토마토황화잎말림바이러스 → 토마토, 황화 …)."""
        words = set(self.user_words)
        found: dict[str, tuple[str, ...]] = {}
        for word in self.user_words:
            inner = [
                word[i:j]
                for i in range(len(word))
                for j in range(i + 2, len(word) + 1)
                if (i, j) != (0, len(word)) and word[i:j] in words
            ]
            if inner:
                found[word] = tuple(dict.fromkeys(inner))
        return found

    def mentions(self, text: str, borders: tuple[Collection[int], Collection[int]] | None = None) -> list[Mention]:
        """Longest non-overlapping mentions, left to right. Spaces inside a form are optional in the text.

        ``borders`` are the token starts and ends; forms of at most two characters count only between them.
        """
        found: list[Mention] = []
        lowered = text.lower()
        if len(lowered) != len(text):  # a few characters change length when lower-cased
            lowered = text
        position = 0
        while position < len(lowered):
            best: Mention | None = None
            for term, end in self._walk(lowered, position):
                if self._bounded(lowered, position, end, borders):
                    best = Mention(term.name, term.type, position, end)
            if best is None:
                position += 1
            else:
                found.append(best)
                position = best.end
        return found

    def _walk(self, text: str, start: int) -> Iterator[tuple[Term, int]]:
        """All terms that start at ``start``, shortest first, with their ends."""
        node: dict[str, object] = self._trie
        position = start
        while position < len(text):
            char = text[position]
            position += 1
            if char == " " and position - 1 > start:
                continue
            following = node.get(char)
            if following is None:
                return
            node = following  # type: ignore[assignment]
            term = node.get("")
            if isinstance(term, Term):
                yield term, position

    @staticmethod
    def _bounded(text: str, start: int, end: int, borders: tuple[Collection[int], Collection[int]] | None) -> bool:
        if _is_latin(text[start]) and start and _is_latin(text[start - 1]):
            return False
        if _is_latin(text[end - 1]) and end < len(text) and _is_latin(text[end]):
            return False
        if borders is not None and end - start <= _SHORT and not _is_latin(text[start]):
            return start in borders[0] and end in borders[1]
        return True
