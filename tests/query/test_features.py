"""x(q), effort and the filter of a question, each with the rule that decided it."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.query.clarify import chosen, clarify
from rag.query.features import names_another_farm, read_question, search_words
from rag.query.filters import filters_of
from rag.schema import DocFilter, Query, QueryFeatures, Scope
from rag.stores.catalogue import Catalogue
from rag.text import korean, nfc

NOW = datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Asia/Seoul"))
CATALOGUE = Catalogue(
    "v", frozenset({"김주임"}), frozenset({"작업일지", "회의록"}), frozenset({"1동", "2동"}), frozenset({"딸기"}), ()
)

unhurried = settings(deadline=None, max_examples=150)


def query(text: str, farm_id: str | None = "haetsal") -> Query:
    return Query(text=text, scope=Scope(farm_id=farm_id), asked_at=NOW)


def read(text: str, farm_id: str | None = "haetsal") -> QueryFeatures:
    return read_question(query(text, farm_id), korean(), CATALOGUE, "햇살농원")[0]


def filter_for(text: str, farm_id: str | None = "haetsal") -> DocFilter:
    asked = query(text, farm_id)
    return filters_of(read(text, farm_id), asked)


@pytest.mark.parametrize(
    ("text", "intent", "why"),
    [
        ("토마토 착과기 급액 EC 얼마로 맞춰요?", "factual", "다른 단서 없음"),
        ("딸기 설향 야간 최저온도 몇도까지 괜찮음?", "factual", "다른 단서 없음"),
        ("양액기 EC 센서 보정 순서 알려줘", "procedural", "'순서'"),
        ("How to calibrate the EC sensor", "procedural", "'how to'"),
        ("토마토 배꼽썩음과 왜 생기고 뭘 해야 돼?", "relational", "'왜'"),
        ("파프리카 총채벌레 많으면 무슨 바이러스 조심해야 해?", "relational", "'무슨 바이러스'"),
        ("How to prevent leaf mold?", "relational", "'prevent'"),
        ("코이어 배지랑 암면 배지 급액 횟수 차이", "comparison", "'차이'"),
        ("왜 코이어가 암면보다 나아?", "comparison", "'보다'"),
        ("작년 3월 작업일지에서 방제한 날 알려줘", "log_lookup", "기록 단서: 문서 종류"),
        ("김주임이 한 것", "log_lookup", "기록 단서: 날짜·동·작성자"),
        ("2동 배액률", "log_lookup", "기록 단서: 날짜·동·작성자"),
        ("어제 보일러 고장", "log_lookup", "기록 단서: 날짜·동·작성자"),
        ("작년 3월 딸기 EC", "log_lookup", "기록 단서: 날짜·동·작성자"),  # a month of one year is the farm's own
        ("3월 딸기 EC", "factual", "다른 단서 없음"),  # may be the season
        ("보일러 고장 원인", "relational", "'원인'"),  # a record's word, but no date, house or author
        ("우리 농장 딸기 EC", "factual", "다른 단서 없음"),
        ("작년 3월이랑 올해 3월 2동 배액률 비교해줘", "log_lookup", "기록 단서: 날짜·동·작성자"),
    ],
)
def test_intent_and_its_reason(text: str, intent: str, why: str) -> None:
    features = read(text)
    assert (features.intent, features.reasons["intent"]) == (intent, why)


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("칠곡 오이하우스 온수커튼 달고 전기세 얼마로 줄었다카더라", False),  # told of others
        ("농진청 시험에서 백다다기는 며칠 갔어요", False),
        ("2024년산 토마토 10a당 소득이 얼마였지", False),  # a year's crop
        ("농약 판 기록은 몇 년 보관해요", False),
        ("딸기 역병 모레 따는데 칠 수 있는 거", False),  # advice for the day
        ("오이 총채벌레 심볼은 써봤거등 딴거 없나", False),
        ("딸기 흰가루병 훈연제로 된 거 뭐 있어", False),
        ("요즘 배액률 어때", True),
        ("지금 급액 EC 얼마로 주고 있어", True),
        ("요즘 배액률이 너무 낮은데 왜 그래", False),
        ("보일러 언제 고쳤지", True),
        ("2동 급액 기록", True),
    ],
)
def test_what_is_and_is_not_of_records(text: str, record: bool) -> None:
    assert (read(text).intent == "log_lookup") is record


@pytest.mark.parametrize("text", ["2동 배액률", "작년 3월 작업일지", "김주임이 쓴 것", "어제 보일러 고장"])
def test_only_a_farm_has_records(text: str) -> None:
    assert read(text, None).intent != "log_lookup"


@pytest.mark.parametrize(
    ("n_words", "bucket"), [(0, "short"), (5, "short"), (6, "medium"), (10, "medium"), (11, "long")]
)
def test_length_counts_search_terms(n_words: int, bucket: str) -> None:
    words = ["alpha", "bravo", "golf", "hotel", "india", "juliet", "kilo", "lima", "mike", "papa", "quebec"]
    features = read(" ".join(words[:n_words]))
    assert len(features.terms) == n_words
    assert features.query_length_bucket == bucket
    assert features.reasons["query_length_bucket"] == f"찾는 말 {n_words}개"


def test_filter_words_and_stop_words_are_no_keywords() -> None:
    features = read("작년 3월 2동 배액률 얼마")
    assert "배액률" in features.keywords
    assert not {"작년", "3월", "2동", "얼마"} & set(features.keywords)
    assert features.removed == ("얼마",)
    assert not {"작년", "3월", "2동"} & set(features.terms)


def test_a_record_word_said_in_one_syllable_counts_as_its_term() -> None:
    assert "야간" in read("밤 온도 몇 도").terms


@pytest.mark.parametrize(
    ("text", "entity_hint", "relation_hint", "entity_why", "relation_why"),
    [
        ("EC 2.5dS/m 괜찮아?", True, False, "'2.5dS/m'", "관계 단서 없음"),
        ("작년 3월 기온", True, False, "'작년 3월'", "관계 단서 없음"),
        ("배꼽썩음과 원인", False, True, "수치·날짜 없음", "'원인'"),
        ("Why 30% drain?", True, True, "'30%'", "'why'"),
        ("딸기 EC", False, False, "수치·날짜 없음", "관계 단서 없음"),
    ],
)
def test_hints_and_their_reasons(
    text: str, entity_hint: bool, relation_hint: bool, entity_why: str, relation_why: str
) -> None:
    features = read(text)
    assert (features.entity_hint_presence, features.relation_hint) == (entity_hint, relation_hint)
    assert (features.reasons["entity_hint_presence"], features.reasons["relation_hint"]) == (entity_why, relation_why)


def test_a_term_does_not_reach_over_two_words() -> None:
    assert read("딸기 말고 토마토 EC").values("crop") == ("토마토",)
    assert "마그네슘" not in read("딸기 말고 토마토 EC").entities


def test_entities_are_canonical_and_named_once() -> None:
    assert read("흰가루 흰가루병 딸기").entities == ("흰가루병", "딸기")


@pytest.mark.parametrize(
    ("text", "effort"),
    [
        ("딸기 EC", "low"),
        ("딸기 토마토 EC", "medium"),  # three terms
        ("토마토 착과기 급액 EC 얼마로 맞춰요?", "medium"),  # not short
        ("딸기 흰가루병 원인", "medium"),  # a relation of few terms
        ("토마토 잎곰팡이병 흰가루병 잿빛곰팡이병 차이", "high"),
        ("작년 3월이랑 올해 3월 2동 배액률 비교해줘", "high"),  # two periods side by side
    ],
)
def test_effort(text: str, effort: str) -> None:
    features = read(text)
    assert features.effort == effort
    assert features.reasons["effort"].endswith(".")


def test_segment_is_x_of_q() -> None:
    assert read("파프리카 총채벌레 많으면 무슨 바이러스 조심해야 해?").segment == ("relational", "medium", False, True)


def test_search_words_say_dates_as_records_do() -> None:
    words = search_words(read("지난주 화요일 김주임이 2동에서 친 약"))
    assert {"2동", "김주임", "2026년", "11월", "24일", "2026-11-24"} <= set(words)
    assert len(words) == len(set(words))
    month = search_words(read("작년 3월 배액률"))
    assert {"2025년", "3월", "배액률"} <= set(month)
    assert not [word for word in month if word.endswith("일") or "-" in word]
    assert not {"2025년", "2026년"} & set(search_words(read("작년 겨울 배액률")))  # over two years


def test_filter_of_a_question_about_records() -> None:
    assert filter_for("작년 3월이랑 올해 3월 김주임이 쓴 2동 작업일지") == DocFilter(
        periods=((date(2025, 3, 1), date(2025, 3, 31)), (date(2026, 3, 1), date(2026, 3, 31))),
        not_after=date(2026, 12, 1),
        authors=("김주임",),
        kinds=("작업일지",),
        houses=("2동",),
        scopes=("farm:haetsal",),
    )


def test_what_is_not_on_file_stays_in_the_filter() -> None:
    wanted = filter_for("2020년 1월 5일 최반장이 9동에서 쓴 일지")
    assert wanted.authors == ("최반장",)
    assert wanted.houses == ("9동",)
    assert wanted.periods == ((date(2020, 1, 5), date(2020, 1, 5)),)


def test_kind_and_format_filter() -> None:
    wanted = filter_for("pdf로 된 회의록 보여줘")
    assert (wanted.kinds, wanted.formats) == (("회의록",), ("pdf",))
    assert filter_for("일지.hwp 열어줘").formats == ("hwpx", "hwp")


@pytest.mark.parametrize(
    ("text", "farm_id"),
    [("딸기 EC", "haetsal"), ("3월 딸기 EC", "haetsal"), ("작년 3월 2동 작업일지", None)],
)
def test_other_questions_are_not_filtered(text: str, farm_id: str | None) -> None:
    assert filter_for(text, farm_id) == DocFilter()


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("푸른들농장 배액률", True),
        ("햇살농원이랑 푸른들농장", True),
        ("햇살농원 배액률", False),
        ("우리 농장 배액률", False),
        ("스마트팜 농장", False),
    ],
)
def test_names_another_farm(text: str, other: bool) -> None:
    assert names_another_farm(read(text)) is other


PIECES = st.sampled_from(
    [
        "작년",
        "그럼 ",
        "은요?",
        "2월 30일",
        "말고",
        "말고 토마토",
        "1~3동",
        "토마도",
        "2025년 보고서",
        "이십오",
        "급액 EC 얼마",
        "a.pdf",
        "3월",
        "2동",
        "김주임",
        "EC",
        "2.5",
        "dS/m",
        "잎곰팡이병",
        "왜",
        "비교",
        "🍓",
        " ",
        "\n",
        "가",
        "İ",
        "\u1100\u1161",
        "farm",
    ]
)


@unhurried
@given(st.text(max_size=2000) | st.lists(PIECES, max_size=60).map("".join))
def test_any_text_gives_features_with_spans_inside_it(text: str) -> None:
    text = nfc(text)
    features = read(text)
    assert all(0 <= s.start < s.end <= len(text) for s in features.slots)
    assert set(features.reasons) == {
        "intent",
        "query_length_bucket",
        "relation_hint",
        "entity_hint_presence",
        "effort",
    }
    filters_of(features, query(text))
    search_words(features)


@unhurried
@given(st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES, max_size=12).map("".join), st.booleans())
def test_any_follow_up_gives_features(text: str, previous: str, private: bool) -> None:
    asked = replace(query(nfc(text), "haetsal" if private else None), previous=nfc(previous) or None)
    features, analysis = read_question(asked, korean(), CATALOGUE, "햇살농원")
    for slot in features.slots:
        assert 0 < len(slot.words_in(asked)) == slot.end - slot.start
    assert read_question(asked, korean(), CATALOGUE, "햇살농원")[0] == features
    search_words(chosen(features, clarify(features, analysis, asked, CATALOGUE), asked))


@pytest.mark.parametrize(
    "text", ["x" * 2000, "가" * 2000, "2동" * 1000, "3월" * 1000, "\0" * 2000, "🍓" * 2000, "1." * 1000]
)
def test_two_thousand_characters_of_anything(text: str) -> None:
    assert all(0 <= s.start < s.end <= len(text) for s in read(text).slots)


@unhurried
@given(st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=200))
def test_composed_and_decomposed_text_read_alike(text: str) -> None:
    assert read(nfc(unicodedata.normalize("NFD", text))) == read(nfc(text))


def test_the_same_question_gives_the_same_features() -> None:
    assert read("작년 3월 2동 배액률") == read("작년 3월 2동 배액률")
