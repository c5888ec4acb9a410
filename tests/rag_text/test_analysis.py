"""Entities and tokens of Korean, English and mixed text through the one analysis."""

from __future__ import annotations

import pytest

from rag.lexicon import NAME, NOUN
from rag.text import Analysis, Korean, count_entities, korean


@pytest.fixture(scope="module")
def reader() -> Korean:
    return korean()


def test_english_text_never_reaches_kiwi(reader: Korean, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("Kiwi was asked")

    monkeypatch.setattr(reader, "morphemes", refuse)
    assert "irrig" in reader.tokens("Irrigation scheduling")
    assert reader.analyse("Irrigation in Nebraska").compounds[0].name == "irrigation in nebraska"


@pytest.mark.parametrize("word", ["EC", "pH", "TYLCV", "NO3", "CO2", "tomatoes", "Botrytis", "ppm"])
def test_a_latin_word_is_the_same_token_in_korean_and_english(reader: Korean, word: str):
    in_korean = set(reader.tokens(f"온실에서 {word} 확인"))
    assert set(reader.tokens(word)) <= in_korean
    assert reader.tokens(word)


def test_aliases_lead_to_the_canonical_term_in_both_scripts(reader: Korean):
    assert "토마토황화잎말림바이러스" in reader.tokens("TYLCV")
    assert "토마토황화잎말림바이러스" in reader.tokens("TYLCV 감염")


def test_a_copula_is_not_a_term(reader: Korean):
    assert "인산" not in {m.name for m in reader.analyse("최초의 미국 흑인 코미디언인가요?").mentions}


def test_an_english_function_word_is_not_a_term(reader: Korean):
    assert not reader.analyse("Where do they grow?").mentions
    assert [m.type for m in reader.analyse("DO of the water").mentions]


def test_a_term_inside_a_name_is_part_of_the_name(reader: Korean):
    assert "산타" not in {m.name for m in reader.analyse("He lived in Santa Fe County").mentions}


def test_korean_nouns_are_entities_of_their_own_type(reader: Korean):
    found = {m.name: m.type for m in reader.analyse("나트륨은 화학 원소이다.").compounds}
    assert found["원소"] == NOUN


def test_headings_count_as_titles(reader: Korean):
    head = reader.analyse("Port Blair", heading=True)
    counts = {e.name: e for e in count_entities(head, [reader.analyse("Port Blair is the capital. India owns it.")])}
    assert counts["port blair"].in_title
    assert counts["port blair"].count == 1
    assert not counts["india"].in_title


def test_the_opening_name_heads_an_untitled_passage(reader: Korean):
    counts = count_entities(reader.analyse("", heading=True), [reader.analyse("The Nile is a river in Egypt.")])
    assert {e.name: e.in_title for e in counts} == {"nile": True, "egypt": False}


def test_a_passage_that_opens_with_another_word_has_no_heading(reader: Korean):
    counts = count_entities(Analysis((), (), ()), [reader.analyse("Rivers such as the Nile are long.")])
    assert not any(e.in_title for e in counts if e.name == "nile")


def test_names_in_korean_text_are_read(reader: Korean):
    found = {m.name for m in reader.analyse("파리에서 Le Corbusier 건축을 보았다").compounds if m.type == NAME}
    assert "le corbusier" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("카벤다짐.디에토펜카브 수화제를 쓴다.", ["카벤다짐.디에토펜카브 수화제를 쓴다."]),
        ("표준액으로 보정합니다.그다음 헹굽니다.", ["표준액으로 보정합니다.", "그다음 헹굽니다."]),
        (
            "아바멕틴.스피네토람 액상수화제를 친다. 2회까지 쓴다.",
            ["아바멕틴.스피네토람 액상수화제를 친다.", "2회까지 쓴다."],
        ),
    ],
)
def test_a_dot_inside_a_name_ends_no_sentence(text: str, expected: list[str]) -> None:
    assert [text[s.start : s.end] for s in korean().sentences(text)] == expected
