"""English analyser and names."""

from __future__ import annotations

import pytest

from rag.english import canonical, fold, heading_names, names_in, words


def tokens(text: str, *, korean: bool = False) -> list[str]:
    return [token for _, token, _ in words(text, korean=korean)]


def names(text: str) -> list[str]:
    return [mention.name for mention in names_in(text)]


def test_words_are_stems_without_stop_words():
    assert tokens("The irrigators were scheduling the irrigation of fields") == ["irrig", "schedul", "irrig", "field"]


def test_an_inflected_question_meets_its_document():
    assert set(tokens("greenhouse tomatoes yielded")) == set(tokens("Greenhouse tomato yields"))


def test_accents_case_and_possessive_do_not_matter():
    assert tokens("Beyoncé's") == tokens("beyonce")
    assert fold("Élan") == "elan"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CO2", ["co", "2"]),
        ("1,200 ppm", ["1200", "ppm"]),
        ("EC 2.5", ["ec", "2.5"]),
        ("2025-03-05", ["2025-03-05"]),
        ("NO3", ["no", "3"]),
        ("", []),
        ("?!", []),
    ],
)
def test_numbers_and_formulas(text: str, expected: list[str]):
    assert tokens(text) == expected


def test_short_words_are_kept_inside_korean_text():
    assert tokens("a", korean=True) == ["a"]
    assert tokens("a") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who is the father of Edward Baring?", ["edward baring"]),
        ("In June he left the Duchy of Lucca.", ["duchy of lucca"]),
        ("J. R. R. Tolkien met C.S. Lewis", ["j. r. r. tolkien", "c.s. lewis"]),
        ("Prince Edward's mother", ["prince edward"]),
        ("the apollo and Apollo 11 in 1969", ["apollo 11"]),
        ("The He When", []),
        ("", []),
    ],
)
def test_names_are_capitalised_runs(text: str, expected: list[str]):
    assert names(text) == expected


def test_spans_of_names_point_into_the_text():
    text = "When Henry IV of France died"
    assert [text[m.start : m.end] for m in names_in(text)] == ["Henry IV of France"]


def test_a_title_has_aliases():
    assert [m.name for m in heading_names("Theodred II (Bishop of Elmham)")] == [
        "theodred ii (bishop of elmham)",
        "theodred ii",
    ]
    assert [m.name for m in heading_names("Lambert, Margrave of Tuscany")] == [
        "lambert, margrave of tuscany",
        "lambert",
    ]


def test_canonical_is_stable():
    for name in ("Sales (Colunga)", "O'Brien's", "  New   York. "):
        assert canonical(canonical(name)) == canonical(name)
