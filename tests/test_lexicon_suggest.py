"""Proposals for the lexicon from unknown words, and the terminal command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.__main__ import main
from rag.lexicon import Lexicon
from rag.lexicon_suggest import edit_distance, jamo, suggest
from rag.schema import Scope
from rag.stores.farm_words import WORDS, WordCounts

LEXICON = Lexicon.load()


def one(word: str) -> tuple[str, str]:
    """(type, alias of) of the proposal for a word."""
    (found,) = suggest({word: 1}, LEXICON)
    return found.type, found.alias_of


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("잿빛곰펭이", ("병", "잿빛곰팡이병")),  # one letter away from an alias
        ("온실가루니", ("해충", "온실가루이")),
        ("뽕나무진딧물", ("해충", "")),  # its head noun
        ("토양수분센서", ("설비", "")),
        ("자주무늬병", ("병", "")),  # most terms that end so
        ("생김새", ("", "")),
    ],
)
def test_a_likely_type(word: str, expected: tuple[str, str]) -> None:
    assert one(word) == expected


def test_most_asked_first_and_known_words_left_out() -> None:
    counts = {"나나나": 1, "가가가": 1, "생김새": 3, "흰가루병": 9, "번데기": 7}
    assert [s.word for s in suggest(counts, LEXICON, known={"번데기"})] == ["생김새", "가가가", "나나나"]
    assert [s.word for s in suggest(counts, LEXICON, top=1)] == ["번데기"]


def test_edit_distance_of_letters() -> None:
    assert edit_distance("", "abc") == 3
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(jamo("곰팡이"), jamo("곰펭이")) == 1


@given(st.text(max_size=12), st.text(max_size=12))
def test_edit_distance_is_a_distance(a: str, b: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.integers(1, 9), max_size=4))
def test_any_words_give_the_same_proposals(counts: dict[str, int]) -> None:
    assert suggest(counts, LEXICON) == suggest(dict(reversed(counts.items())), LEXICON)


def test_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "farms" / "haetsal").mkdir(parents=True)
    (tmp_path / "public").mkdir()
    WordCounts(tmp_path).add(Scope(farm_id="haetsal"), ["잿빛곰펭이", "잿빛곰펭이", "생김새"])
    where = ["--farm", "haetsal", "--store", str(tmp_path)]
    assert main(["lexicon", "--suggest", "--json", *where]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["farm"] == "haetsal"
    assert [(w["word"], w["count"], w["alias_of"]) for w in shown["words"]] == [
        ("잿빛곰펭이", 2, "잿빛곰팡이병"),
        ("생김새", 1, ""),
    ]
    assert main(["lexicon", "--accept", "잿빛곰펭이", "병", "--alias-of", "잿빛곰팡이병", *where]) == 0
    assert "잿빛곰팡이병\t병\t잿빛곰펭이\t" in capsys.readouterr().out
    assert (tmp_path / "farms" / "haetsal" / WORDS).read_text(encoding="utf-8").splitlines()[1:] == [
        "잿빛곰펭이\t병\t잿빛곰팡이병\t"
    ]
    assert main(["lexicon", "--suggest", *where]) == 0
    assert "잿빛곰펭이" not in capsys.readouterr().out
    assert main(["lexicon", "--suggest", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "모르는 낱말이 없습니다.\n"  # a farm's words are no one else's


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--accept", "번데기", "벌레"], "종류 '벌레'"),
        (["--accept", "번데기", "병", "--alias-of", "없는말"], "'없는말'"),
        (["--suggest", "--farm", "nowhere"], "'nowhere'"),
        (["--suggest", "--farm", "../x"], "x"),
    ],
)
def test_what_cannot_be_done_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    (tmp_path / "public").mkdir()
    assert main(["lexicon", *options, "--store", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
