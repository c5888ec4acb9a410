"""Further words and sub-questions: worked examples, the narrower table, and properties over any text."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import SettingsError
from rag.lexicon import Lexicon, Mention
from rag.query.expand import (
    CANONICAL_WEIGHT,
    DOMAINS,
    MAX_PARTS,
    NARROWER_WEIGHT,
    RECORD_WEIGHT,
    Expansion,
    expand,
    load_narrower,
    narrower_of,
    parts_of,
    sub_questions,
    unknown_words,
    weighted_words,
)
from rag.query.features import read_question
from rag.query.filters import side_filter
from rag.schema import DocFilter, Query, QueryFeatures, Scope
from rag.stores.catalogue import Catalogue
from rag.text import korean

LEXICON = Lexicon.load()
NARROWER = narrower_of(LEXICON)
EMPTY = Catalogue(
    version="", authors=frozenset(), kinds=frozenset(), houses=frozenset({"1동", "2동", "3동", "4동"}), crops=frozenset(), dates=()
)  # fmt: skip
NOW = datetime(2026, 12, 1, 9, tzinfo=timezone(timedelta(hours=9)))


def read(text: str, farm: str | None = "haetsal"):
    query = Query(text=text, scope=Scope(farm_id=farm), asked_at=NOW)
    return read_question(query, korean(), EMPTY, None)


def words_of(text: str, **options: object) -> dict[str, tuple[str, str]]:
    """Word → (domain, rule)."""
    features, analysis = read(text)
    record = features.intent == "log_lookup"
    found = expand(features.terms, analysis.mentions, LEXICON, NARROWER, record=record, **options)  # type: ignore[arg-type]
    return {one.word: (one.domain, one.rule) for one in found}


def subs_of(text: str) -> list[str]:
    features, analysis = read(text)
    names = [m for m in analysis.mentions if m.type in ("작물", "해충", "병")]
    return [one.text for one in sub_questions(text, analysis.entities, features.slots, names)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("두 가루이 번데기 구별", {"담배가루이": ("병해충", "narrower"), "온실가루이": ("병해충", "narrower")}),
        ("양액 관리는 어떻게 해요", {"급액": ("양액", "narrower"), "배액": ("양액", "narrower")}),
        ("4동 급액 농도가 작년 4월엔 얼마였나", {"급액EC": ("양액", "canonical"), "ec": ("기록", "record")}),
        ("습도가 높아요", {"수증기압차": ("환경", "narrower")}),
        ("스크린 언제 닫아요", {"보온커튼": ("설비", "narrower")}),
        ("지난달 3동에 약 친 날", {"살포": ("기록", "record"), "방제": ("기록", "record")}),
    ],
)
def test_each_domain_adds_its_words(text: str, expected: dict[str, tuple[str, str]]) -> None:
    assert expected.items() <= words_of(text).items()


def test_nothing_is_added_for_crops_or_without_mentions() -> None:
    assert words_of("딸기 어때요") == {}
    assert words_of("?") == {}


def test_a_word_of_the_question_is_not_added() -> None:
    assert "담배가루이" not in words_of("가루이 중에 담배가루이는 왜 늘어요")


def test_record_words_are_for_records_only() -> None:
    assert not any(rule == "record" for _, rule in words_of("딸기 흰가루병에 무슨 약을 치나요").values())


def test_the_farms_own_word_leads_to_its_term() -> None:
    assert words_of("딸기 노랑이 피해", farm={"노랑이": "황화"})["황화"] == ("농장", "farm")


def test_the_heaviest_reason_of_a_word_counts() -> None:
    mention = Mention("급액EC", "양액", 0, 2)
    found = expand(("농도",), [mention, Mention("급액", "양액", 0, 2)], LEXICON, NARROWER, record=True)
    assert [(one.weight, one.rule) for one in found if one.word == "급액EC"] == [(CANONICAL_WEIGHT, "canonical")]
    assert [(one.weight, one.rule) for one in found if one.word == "ec"] == [(RECORD_WEIGHT, "record")]


def test_a_heavier_reason_that_comes_later_counts_too() -> None:
    found = expand((), [Mention("급액", "양액", 0, 2)], LEXICON, NARROWER, record=False, farm={"묽기": "급액EC"})
    assert [one.rule for one in found if one.word == "급액EC"] == ["farm"]


def test_a_term_of_several_tokens_shares_its_weight() -> None:
    tokens = {"급액EC": ("급액", "ec"), "담배가루이": ("담배가루이", "담배", "가루이")}
    found = weighted_words(
        [Expansion("급액EC", 0.4, "", "", ""), Expansion("담배가루이", 0.3, "", "", "")], ("급액",), tokens.__getitem__
    )
    assert dict(found) == {"ec": 0.2, "급액EC": 0.4, "담배가루이": 0.3}


def test_every_weight_is_below_a_word_of_the_question() -> None:
    features, analysis = read("가루이 급액 농도 약 친 날 양액 습도 스크린 수리비")
    found = expand(features.terms, analysis.mentions, LEXICON, NARROWER, record=True, farm={"약": "관주"})
    assert {one.domain for one in found} == {*DOMAINS, "농장"}
    assert all(0 < one.weight < 1 for one in found)
    assert NARROWER_WEIGHT < CANONICAL_WEIGHT


HEAD = "# comment\ndomain\tbroader\tnarrower"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("병해충\t가루이류", ["3행", "열 3개"]),
        ("벌레\t가루이류\t온실가루이", ["3행", "'벌레'"]),
        ("병해충\t가루이류\t흰파리", ["3행", "흰파리"]),
        ("병해충\t가루이류\t가루이류", ["3행", "두 번"]),
        ("병해충\t가루이류\t온실가루이|온실가루이", ["3행", "두 번"]),
        ("병해충\t가루이류\t온실가루이\n병해충\t가루이류\t담배가루이", ["4행", "두 번"]),
        ("병해충\t가루이류\t\n", ["3행"]),
    ],
)
def test_a_bad_row_of_the_narrower_table_is_named(tmp_path: Path, row: str, words: list[str]) -> None:
    path = tmp_path / "narrower.tsv"
    path.write_text(f"{HEAD}\n{row}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        load_narrower(LEXICON, path)
    assert [word for word in words if word not in str(raised.value)] == []


def test_the_narrower_table_must_be_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "narrower.tsv"
    path.write_bytes(f"{HEAD}\n병해충\t가루이류\t온실가루이\n".encode("cp949"))
    with pytest.raises(SettingsError, match="UTF-8"):
        load_narrower(LEXICON, path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("코이어 배지랑 암면 배지 급액 횟수 차이", ["코이어 배지 급액 횟수", "암면 배지 급액 횟수"]),
        ("작년 3월이랑 올해 3월 2동 배액률 비교해줘", ["작년 3월 2동 배액률", "올해 3월 2동 배액률"]),
        ("금실이 설향보다 오래 가나요?", ["금실 오래 가나요?", "설향 오래 가나요?"]),
        ("장희랑 설향이랑 킹스베리 당도 차이", ["장희 당도", "설향 당도", "킹스베리 당도"]),
        ("올해 2월에 3동이랑 4동 딸기 각각 몇 키로", ["올해 2월에 3동 딸기 몇 키로", "올해 2월에 4동 딸기 몇 키로"]),
        (
            "온실가루이하고 담배가루이는 알 낳는 자리가 어떻게 달라",
            ["온실가루이는 알 낳는 자리가 어떻게 달라", "담배가루이는 알 낳는 자리가 어떻게 달라"],
        ),
        (
            "킹스베리가 설향보다 알이 얼마나 더 큰가요? 설향 딸기 저장은 며칠까지 되나요?",
            ["딸기 킹스베리 알이 얼마나 더 큰가요?", "딸기 설향 알이 얼마나 더 큰가요?", "설향 딸기 저장은 며칠까지 되나요?"],
        ),
    ],
)  # fmt: skip
def test_a_comparison_has_a_sub_question_for_each_side(text: str, expected: list[str]) -> None:
    assert subs_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "토마토 잎곰팡이병은 언제 번지고, 그 병은 어떻게 막아요?",
            ["토마토 잎곰팡이병은 언제 번지고", "토마토 잎곰팡이병 그 병은 어떻게 막아요?"],
        ),
        (
            "딸기 흰가루병 증상 알려주고 잿빛곰팡이병 방제 방법도 정리해줘",
            ["딸기 흰가루병 증상 알려주고", "딸기 잿빛곰팡이병 방제 방법도 정리해줘"],
        ),
        ("와사비 뿌리가 안 굵어지는데 왜 그런가요? 몇 도부터 문제?", []),  # the tail is about the same thing
        ("선별기 벨트는 언제 갈아 끼우나요?", []),
        ("칼슘을 더 먹고 있다던데 맞나요", []),
        ("영수증은 얼마 동안 갖고 있어야 돼?", []),
        ("작년 3월 2동 배액률 알려줘", []),
        ("딸기랑 토마토 다 좋아해요", []),  # nothing is compared
    ],
)
def test_a_double_question_has_its_parts(text: str, expected: list[str]) -> None:
    assert subs_of(text) == expected


def test_at_most_five_sub_questions() -> None:
    text = "? ".join(
        f"{term} 방제는 어떻게 하나요" for term in ("흰가루병", "노균병", "역병", "탄저병", "균핵병", "점무늬병")
    )
    found = subs_of(f"{text}?")
    assert len(found) == MAX_PARTS
    assert len(set(found)) == len(found)


def test_repeated_sub_questions_are_one() -> None:
    assert subs_of("딸기 탄저병은 왜 생기나요? 딸기 탄저병은 왜 생기나요?") == []


def test_a_side_is_filtered_to_its_own_period_and_house() -> None:
    march, april = (date(2025, 3, 1), date(2025, 3, 31)), (date(2026, 3, 1), date(2026, 3, 31))
    whole = DocFilter(periods=(march, april), houses=("2동",), scopes=("farm:haetsal",))
    side, _ = read("올해 3월 2동 배액률")
    assert side_filter(whole, side) == replace(whole, periods=(april,))
    nothing, _ = read("배액률")
    assert side_filter(whole, nothing) is None
    other, _ = read("올해 5월 3동 배액률")
    assert side_filter(whole, other) is None


def test_unknown_words_are_nouns_outside_the_lexicon() -> None:
    features = QueryFeatures(keywords=("흰가루병", "번데기", "오래가다", "EC", "3차", "끈", "번데기", "물곰팡이"))
    assert unknown_words(features, LEXICON) == ("번데기", "물곰팡이")


NAMES = [Mention("딸기", "작물", 0, 2)]
ANY = st.text(max_size=80) | st.lists(
    st.sampled_from(
        ["딸기", "코이어", "암면", " 배지", "랑 ", "이랑 ", "보다", " 차이", "작년 3월", "올해 3월", "2동", "?", "고 ", ", ", "뭐", "왜", "\n", "𐍈", "ㄱ", "е́"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(ANY)
def test_any_text_gives_two_to_five_distinct_sub_questions_or_none(text: str) -> None:
    features, analysis = read(text or "?")
    text = text or "?"
    found = sub_questions(text, analysis.entities, features.slots, NAMES)
    assert found == sub_questions(text, analysis.entities, features.slots, NAMES)
    assert len(found) in (0, *range(2, MAX_PARTS + 1))
    assert len({one.text for one in found}) == len(found)
    assert all(one.text.strip() and one.text != text and len(one.text) <= 3 * len(text) + 80 for one in found)
    assert all(part in text for part in parts_of(text))


@settings(max_examples=150, deadline=None)
@given(ANY, st.booleans())
def test_any_text_gives_each_word_once_and_always_the_same(text: str, record: bool) -> None:
    features, analysis = read(text or "?")
    found = expand(features.terms, analysis.mentions, LEXICON, NARROWER, record=record)
    assert found == expand(features.terms, analysis.mentions, LEXICON, NARROWER, record=record)
    assert len({one.word for one in found}) == len(found)
    assert all(0 < one.weight < 1 and one.word not in features.terms for one in found)
    words = weighted_words(found, features.terms, korean().tokens)
    assert all(0 < weight < 1 for _, weight in words)
    assert not {word for word, _ in words} & set(features.terms)
