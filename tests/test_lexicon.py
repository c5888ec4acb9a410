"""Reading the lexicon's files and finding its terms in text."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.lexicon import Lexicon, Mention, Term
from rag.text import korean

HEADER = "term\ttype\taliases\tnote"


def load(folder: Path, *rows: str, name: str = "a.tsv") -> Lexicon:
    (folder / name).write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return Lexicon.load(folder)


def lexicon(*forms: str) -> Lexicon:
    """A lexicon of terms with their aliases: "딸기|strawberry"."""
    return Lexicon([Term(form.split("|")[0], "종류", tuple(form.split("|"))) for form in forms], "digest")


def found(text: str, *forms: str) -> list[tuple[str, str]]:
    """(canonical name, matched words)."""
    return [(m.name, text[m.start : m.end]) for m in lexicon(*forms).mentions(text)]


def test_a_row_is_a_term_with_its_forms(tmp_path: Path) -> None:
    read = load(tmp_path, "딸기\t작물\tstrawberry| 스트로베리 |딸기\t장미과", "흰가루병\t병\t\t")
    assert read.terms == {
        "딸기": Term("딸기", "작물", ("딸기", "strawberry", "스트로베리"), "a"),
        "흰가루병": Term("흰가루병", "병", ("흰가루병",), "a"),
    }
    assert read.type_of("딸기") == "작물"
    assert read.type_of("strawberry") is None
    assert read.canonical["strawberry"] == "딸기"


def test_decomposed_files_read_alike(tmp_path: Path) -> None:
    read = load(tmp_path, unicodedata.normalize("NFD", "딸기\t작물\t\t"))
    assert list(read.terms) == ["딸기"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["딸기\t작물\t\t", "토마토\t작물"], ["a.tsv 3행", "'토마토\t작물'", "열 4개"]),
        (["\t작물\t\t"], ["a.tsv 2행"]),
        (["딸기\t \t\t"], ["a.tsv 2행"]),
        ([""], ["a.tsv 2행"]),
        (["딸기\t작물\t\t\t남는 열"], ["a.tsv 2행", "열 4개"]),
        (["딸기\t작물\tberry\t", "토마토\t작물\tBerry\t"], ["a.tsv 3행", "'Berry'", "'딸기'"]),
        (["멈춘 시간\t기록\t\t", "정지\t기록\t멈춘시간\t"], ["a.tsv 3행", "'멈춘시간'", "'멈춘 시간'"]),
        (["딸기\t작물\t\t", "딸기\t병\t\t"], ["a.tsv 3행", "'딸기'", "두 번"]),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, rows: list[str], words: list[str]) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, *rows)
    assert [word for word in words if word not in str(raised.value)] == []


def test_a_form_belongs_to_one_term_over_all_files(tmp_path: Path) -> None:
    load(tmp_path, "딸기\t작물\tberry\t", name="1.tsv")
    with pytest.raises(SettingsError, match=r"2\.tsv 2행"):
        load(tmp_path, "토마토\t작물\tberry\t", name="2.tsv")


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(f"{HEADER}\n딸기\t작물\t\t\n".encode("cp949"))
    with pytest.raises(SettingsError, match=r"a\.tsv: UTF-8"):
        Lexicon.load(tmp_path)


def test_the_digest_changes_with_the_files(tmp_path: Path) -> None:
    one = load(tmp_path, "딸기\t작물\t\t").digest
    assert load(tmp_path, "딸기\t작물\t\t").digest == one
    assert load(tmp_path, "딸기\t작물\tberry\t").digest != one


def test_the_longest_term_wins() -> None:
    forms = ("토마토", "잎곰팡이", "잎곰팡이병", "방제")
    assert [name for name, _ in found("토마토잎곰팡이병방제", *forms)] == ["토마토", "잎곰팡이병", "방제"]
    assert found("방울토마토", "토마토", "방울토마토") == [("방울토마토", "방울토마토")]
    assert found("방울만", "토마토", "방울토마토") == []  # a beginning is no match


def test_a_longer_beginning_does_not_hide_a_shorter_term() -> None:
    assert found("잎곰팡이가", "잎곰팡이", "잎곰팡이병") == [("잎곰팡이", "잎곰팡이")]


def test_an_alias_leads_to_its_term() -> None:
    assert found("STRAWBERRY 재배", "딸기|strawberry") == [("딸기", "STRAWBERRY")]


def test_spaces_are_optional_in_the_text() -> None:
    assert found("잎 곰팡이 병이", "잎곰팡이병") == [("잎곰팡이병", "잎 곰팡이 병")]
    assert found("멈춘시간은", "멈춘 시간") == [("멈춘 시간", "멈춘시간")]
    assert found(" 딸기 ", "딸기") == [("딸기", "딸기")]
    assert found("딸\n기", "딸기") == []


def test_latin_forms_are_whole_tokens() -> None:
    assert found("EC 센서와 ec", "EC") == [("EC", "EC"), ("EC", "ec")]
    assert found("TECH, SPEC2, ECO", "EC") == []
    assert found("급액EC를", "EC") == [("EC", "EC")]
    assert found("tomatoes", "토마토|tomato") == []


def test_short_forms_need_token_borders() -> None:
    terms = lexicon("센", "도장", "흰가루병", "Fe")
    text = "센터 도장 Fe"
    none: tuple[set[int], set[int]] = (set(), set())
    assert [m.name for m in terms.mentions(text)] == ["센", "도장", "Fe"]  # without borders any place counts
    assert [m.name for m in terms.mentions(text, none)] == ["Fe"]
    assert [m.name for m in terms.mentions(text, ({0, 3}, {2, 5}))] == ["도장", "Fe"]
    assert terms.mentions("새흰가루병균", none) == [Mention("흰가루병", "종류", 1, 5)]


def test_mentions_are_apart_and_in_order() -> None:
    mentions = lexicon("가나", "나다", "다라").mentions("가나다라가나")
    assert [(m.start, m.end) for m in mentions] == [(0, 2), (2, 4), (4, 6)]


def test_characters_that_grow_when_lower_cased() -> None:
    text = "İİ 딸기"
    assert found(text, "딸기") == [("딸기", "딸기")]


def test_user_words_and_their_parts() -> None:
    terms = lexicon("토마토황화잎말림바이러스|TYLCV", "토마토", "황화", "멈춘 시간", "밤")
    assert terms.user_words == ("토마토", "토마토황화잎말림바이러스", "황화")
    assert terms.parts == {"토마토황화잎말림바이러스": ("토마토", "황화")}


def test_proper_forms() -> None:
    terms = lexicon("산타|Santa", "딸기|strawberry", "전기전도도|EC")
    assert terms.is_proper("Santa")
    assert terms.is_proper("ec")
    assert not terms.is_proper("strawberry")


SHIPPED = Lexicon.load()
FORMS = [(term.name, form) for term in SHIPPED.terms.values() for form in term.forms]


def test_every_shipped_form_is_found_whole() -> None:
    wrong = [
        (name, form)
        for name, form in FORMS
        if [(m.name, m.start, m.end) for m in SHIPPED.mentions(form)] != [(name, 0, len(form))]
    ]
    assert wrong == []


def test_every_shipped_term_is_found_in_a_sentence() -> None:
    """Through the morphological analysis, whose borders short terms need."""
    wrong = [
        name
        for name in SHIPPED.terms
        if name not in {m.name for m in korean().analyse(f"온실에서 {name} 확인").mentions}
    ]
    assert wrong == []


# Particle → whether the word before it ends in a consonant (None: either).
PARTICLES: dict[str, bool | None] = {
    "은": True, "는": False, "이": True, "가": False, "을": True, "를": False, "과": True, "와": False, "에": None,
    "에서": None, "의": None, "도": None, "만": None, "까지": None, "부터": None, "에는": None, "보다": None, "하고": None,
    "이랑": True, "랑": False, "으로": True, "로": False,
}  # fmt: skip
_RIEUL = 8
# (word, what it is glued to): together they read as another term, or as a term and another noun.
AMBIGUOUS = {
    ("배꼽썩음", "과"),  # 배꼽썩음과
    ("줄썩음", "과"),  # 줄썩음과
    ("지베렐린산", "도"),  # 지베렐린 산도
    ("나방", "토마토"),  # 토마토나방
    ("황산마그네슘", "을"),  # 황산, 마그네슘
    ("황산마그네슘", "으로"),
    ("황산마그네슘", "토마토"),
}


def takes(word: str, particle: str) -> bool:
    """Whether Korean puts the particle behind the word."""
    final = (ord(word[-1]) - ord("가")) % 28
    wanted = PARTICLES[particle]
    if particle in ("으로", "로") and final == _RIEUL:
        return particle == "로"
    return wanted is None or wanted == bool(final)


def test_every_user_word_is_the_same_tokens_with_any_particle_in_a_sentence_and_glued() -> None:
    """Kiwi splits unknown words by what stands beside them (배액 → 배/액); a user word must never be."""
    reader, wrong = korean(), set()
    for word in SHIPPED.user_words:
        alone = reader.tokens(word)
        wrong |= {(word, p) for p in PARTICLES if takes(word, p) and reader.tokens(word + p) != alone}
        around = {"문장": f"온실에서 {word} 확인", "토마토": f"토마토{word}", "방제": f"{word}방제"}
        wrong |= {(word, beside) for beside, text in around.items() if not set(alone) <= set(reader.tokens(text))}
        wrong |= {(word, "두 말")} if reader.tokens(f"{word} {word}") != alone * 2 else set()
    assert wrong == AMBIGUOUS


def test_every_form_with_a_space_is_found_with_a_particle_and_without_the_space() -> None:
    """Kiwi takes no words with a space; these are read by the matcher, whatever tokens they are cut into."""
    spaced = [(term.name, form) for term in SHIPPED.terms.values() for form in term.forms if " " in form]
    wrong = [
        (name, text)
        for name, form in spaced
        for text in (f"온실에서 {form} 확인", f"{form}에서는", form.replace(" ", ""))
        if name not in {m.name for m in SHIPPED.mentions(text)}
    ]
    assert wrong == []
