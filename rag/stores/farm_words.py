"""Words of a scope's own questions, in its own folder: how often unknown ones were asked, and which were accepted.

``unknown_words.tsv`` (word, count) takes a line for each unknown word as it is asked; a word's count is the sum of its
lines. Appending a short line is one system call, so that processes may do it side by side. No text of a question is kept,
and no word leaves the folder of the scope it was asked in.

``words.tsv`` (word, type, alias_of, note) is the scope's own list: a word that is another name of a lexicon term is
searched as that term too (``rag.query.expand``). The index is not touched.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag.errors import SettingsError
from rag.schema import Scope
from rag.stores.record import scope_folder

COUNTS, WORDS = "unknown_words.tsv", "words.tsv"
# Beyond this size nothing is counted until ``python -m rag lexicon --suggest`` sums the file up.
MAX_BYTES = 1_000_000
_MAX_WORD = 30
# A count of more digits was not written by us.
_MAX_DIGITS = 12
_HEAD = "word\ttype\talias_of\tnote"


@dataclass(frozen=True, slots=True)
class FarmWord:
    """An accepted word; ``alias_of`` is a lexicon term or ""."""

    word: str
    type: str
    alias_of: str


class WordCounts:
    """Counts unknown words where they are asked. ``add`` never raises: a question is worth more than its count."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def add(self, scope: Scope, words: Sequence[str]) -> None:
        """One more for each word."""
        lines = "".join(f"{word}\t1\n" for word in words if _countable(word))
        if not lines:
            return
        try:
            path = scope_folder(self._store, scope.visible[-1]) / COUNTS
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                if os.fstat(file).st_size < MAX_BYTES:
                    os.write(file, lines.encode("utf-8"))
            finally:
                os.close(file)
        except (OSError, ValueError, SettingsError):  # a full or read-only disk, a scope without a folder
            return


def _countable(word: str) -> bool:
    return 0 < len(word) <= _MAX_WORD and word.isprintable() and "\t" not in word


def read_counts(folder: Path) -> Counter[str]:
    """Word → how often it was asked; lines that are none are left out."""
    counts: Counter[str] = Counter()
    try:
        text = (folder / COUNTS).read_bytes().decode("utf-8", "ignore")
    except OSError:
        return counts
    for line in text.splitlines():
        word, tab, number = line.partition("\t")
        if _countable(word) and tab and number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS:
            counts[word] += int(number)
    return counts


def sum_up(folder: Path) -> Counter[str]:
    """The counts, and the file made short again: a line for each word."""
    counts = read_counts(folder)
    path = folder / COUNTS
    if path.exists() and os.access(folder, os.W_OK):
        short = path.with_suffix(".tmp")
        short.write_text("".join(f"{word}\t{n}\n" for word, n in sorted(counts.items())), encoding="utf-8")
        os.replace(short, path)
    return counts


def read_words(folder: Path) -> tuple[FarmWord, ...]:
    """The scope's own list; empty without a file.

    Raises:
        SettingsError: a row lacks a column or its word or type, or a word stands twice; names the line.
    """
    path = folder / WORDS
    try:
        lines = unicodedata.normalize("NFC", path.read_bytes().decode("utf-8")).splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"농장 낱말 목록 {path} 을(를) 읽을 수 없습니다: {error}") from error
    found: dict[str, FarmWord] = {}
    for number, line in enumerate(lines[1:], start=2):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 4 or not cells[0] or not cells[1]:
            raise SettingsError(f"{path.name} {number}행: '{line}' — 열 4개(낱말, 종류, 같은 용어, 설명)가 필요합니다.")
        if cells[0] in found:
            raise SettingsError(f"{path.name} {number}행: '{cells[0]}' 이(가) 두 번 나옵니다.")
        found[cells[0]] = FarmWord(*cells[:3])
    return tuple(found.values())


def accept_word(folder: Path, word: FarmWord) -> Path:
    """Append a word to the scope's own list.

    Raises:
        SettingsError: the word is no single line, stands there already, or the folder cannot be written.
    """
    if not _countable(word.word) or not _countable(word.type):
        raise SettingsError(
            f"낱말 '{word.word}' 또는 종류 '{word.type}' 을(를) 쓸 수 없습니다. 짧은 한 줄로 적어 주세요."
        )
    if any(known.word == word.word for known in read_words(folder)):
        raise SettingsError(f"'{word.word}' 은(는) 이미 {WORDS} 에 있습니다.")
    path = folder / WORDS
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        joint = "" if before.endswith("\n") else "\n" if before.strip() else f"{_HEAD}\n"
        with path.open("a", encoding="utf-8") as out:
            out.write(f"{joint}{word.word}\t{word.type}\t{word.alias_of}\t\n")
    except OSError as error:
        raise SettingsError(f"{path} 에 쓸 수 없습니다: {error}") from error
    return path
