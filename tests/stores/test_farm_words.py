"""Counting unknown words in the folder they were asked in, and a scope's own list of words."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.schema import Scope
from rag.stores.farm_words import (
    COUNTS,
    MAX_BYTES,
    WORDS,
    FarmWord,
    WordCounts,
    accept_word,
    read_counts,
    read_words,
    sum_up,
)

PUBLIC, FARM = Scope(), Scope(farm_id="haetsal")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name in ("public", "farms/haetsal", "farms/pureun"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_a_farms_words_stay_in_its_folder(store: Path) -> None:
    WordCounts(store).add(FARM, ["물곰팡이", "번데기"])
    WordCounts(store).add(FARM, ["번데기"])
    WordCounts(store).add(PUBLIC, ["광합성"])
    assert read_counts(store / "farms/haetsal") == {"번데기": 2, "물곰팡이": 1}
    assert read_counts(store / "public") == {"광합성": 1}
    assert list((store / "farms/pureun").iterdir()) == []


def test_summing_up_keeps_the_counts_and_shortens_the_file(store: Path) -> None:
    counts = WordCounts(store)
    for _ in range(5):
        counts.add(FARM, ["번데기"])
    folder = store / "farms/haetsal"
    assert sum_up(folder) == {"번데기": 5}
    assert (folder / COUNTS).read_text(encoding="utf-8") == "번데기\t5\n"
    counts.add(FARM, ["번데기"])
    assert sum_up(folder) == {"번데기": 6}
    assert sum_up(store / "farms/pureun") == {}


def test_damaged_lines_are_left_out(store: Path) -> None:
    (store / "public" / COUNTS).write_bytes("번데기\t2\n번데기\n\t3\n번데기\tx\n번데기\t²\n".encode() + b"\xff\xfe\n")
    assert read_counts(store / "public") == {"번데기": 2}


@pytest.mark.parametrize("words", [[], ["a\tb"], ["a\nb"], ["가" * 31], [""]])
def test_what_is_no_word_is_not_counted(store: Path, words: list[str]) -> None:
    WordCounts(store).add(PUBLIC, words)
    assert not (store / "public" / COUNTS).exists()


def test_counting_never_fails_a_question(store: Path) -> None:
    counts = WordCounts(store)
    counts.add(Scope(farm_id="none"), ["번데기"])  # no such folder
    (store / "public" / COUNTS).mkdir()
    counts.add(PUBLIC, ["번데기"])
    counts.add(PUBLIC, ["\ud800"])
    WordCounts(store / "nowhere").add(PUBLIC, ["번데기"])
    assert not (store / "farms/none").exists()


def test_a_full_file_takes_no_more(store: Path) -> None:
    path = store / "public" / COUNTS
    path.write_text("가나\t1\n" * (MAX_BYTES // 8), encoding="utf-8")
    size = path.stat().st_size
    WordCounts(store).add(PUBLIC, ["번데기"])
    assert (path.stat().st_size == size) == (size >= MAX_BYTES)


def test_threads_count_side_by_side(store: Path) -> None:
    counts = WordCounts(store)
    threads = [threading.Thread(target=lambda: [counts.add(FARM, ["번데기"]) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_counts(store / "farms/haetsal") == {"번데기": 200}


def test_an_accepted_word_is_on_the_list(store: Path) -> None:
    folder = store / "farms/haetsal"
    assert read_words(folder) == ()
    accept_word(folder, FarmWord("물곰팡이", "병", "잿빛곰팡이병"))
    accept_word(folder, FarmWord("번데기", "증상", ""))
    assert read_words(folder) == (FarmWord("물곰팡이", "병", "잿빛곰팡이병"), FarmWord("번데기", "증상", ""))
    with pytest.raises(SettingsError, match="'번데기'"):
        accept_word(folder, FarmWord("번데기", "병", ""))
    with pytest.raises(SettingsError, match="한 줄"):
        accept_word(folder, FarmWord("a\tb", "병", ""))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("번데기", "2행.*열 4개"),
        ("\t병\t\t", "2행"),
        ("번데기\t\t\t", "2행"),
        ("번데기\t병\t\t\n번데기\t병\t\t", "3행.*두 번"),
    ],
)
def test_a_bad_row_is_named(store: Path, row: str, message: str) -> None:
    (store / "public" / WORDS).write_text(f"word\ttype\talias_of\tnote\n{row}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        read_words(store / "public")


@pytest.mark.parametrize("by_hand", ["낱말\t종류\t같은 용어\t설명\n곰펭이\t병\t잿빛곰팡이병\t", ""])
def test_a_list_edited_by_hand_is_gone_on_with(tmp_path: Path, by_hand: str) -> None:
    (tmp_path / WORDS).write_text(by_hand, encoding="utf-8")
    accept_word(tmp_path, FarmWord("새낱말", "병", ""))
    accept_word(tmp_path, FarmWord("또낱말", "병", ""))
    words = [word.word for word in read_words(tmp_path)]
    assert words == [*(["곰펭이"] if by_hand else []), "새낱말", "또낱말"]
