"""The extractive answerer on a small store: which sentences it picks, how it says them, and when it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from rag.answering import choice
from rag.answering.asked import Asked, figure_asked, missing_terms
from rag.answering.calibration import Calibration, RefusalModel
from rag.answering.choice import NORMAL, Choice, Limits, aspects_of, choose, registers
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.refusals import (
    LIVE,
    NO_CONTACT,
    NO_REGISTRATION,
    NOT_FOUND,
    ONLY_REGISTERED,
    asks_forbidden,
    asks_live,
    emergency,
    lacks_registration,
    lacks_what_is_named,
    refusal,
    registration_note,
)
from rag.answering.registrations import registered_names, spoken_registration
from rag.answering.roles import ACTION, CAUSE, role_of
from rag.answering.rows import day_of, lacks_value, spoken_row
from rag.answering.sentences import Scored, candidates_of, is_label, lead_of
from rag.citations import Candidate
from rag.schema import (
    Answer,
    ChunkRecord,
    FusedEvidence,
    PlannedQuery,
    Scope,
    SentenceRecord,
)
from rag.stores.view import View
from rag.tracing import Recorder
from tests.answering.support import WEIGHTS, ask, evidence, ranked, stored
from tests.fakes import FakeEmbedder


def relevances(view: View, question: str, *names: str, encoder: bool = False) -> dict[str, float]:
    """Sentence → relevance."""
    scored = ranked(ask(view, question, encoder=encoder), evidence(view, *names))
    return {s.candidate.text: s.relevance for s in scored}


def best(found: dict[str, float]) -> str:
    return max(found, key=lambda sentence: found[sentence])


CALIBRATION = Calibration(
    encoder=FakeEmbedder.model_name,
    citation_threshold=0.9,
    citation_coverage=0.6,
    sentences=WEIGHTS,
    refusal=RefusalModel(**{field.name: 0.0 for field in fields(RefusalModel)}),
    record_refusal=RefusalModel(**{field.name: 0.0 for field in fields(RefusalModel)}),
)


def answerer(threshold: float = 0.0, records: float = 0.0) -> ExtractiveAnswerer:
    """An answerer that never refuses by level (0), or always (2); ``records``: questions on a farm's records."""
    refusal, record_refusal = CALIBRATION.refusal, CALIBRATION.record_refusal
    return ExtractiveAnswerer(
        replace(
            CALIBRATION,
            refusal=replace(refusal, threshold=threshold),
            record_refusal=replace(record_refusal, threshold=records),
        )
    )


# --- relevance --------------------------------------------------------------------------------------------


def test_the_sentence_with_the_asked_figure_comes_first(view: View) -> None:
    asked = relevances(view, "딸기 급액 EC 얼마로 둬요?", "딸기_양액")
    assert best(asked) == "딸기 급액 EC는 1.2dS/m로 둔다."
    method = relevances(view, "딸기 급액 EC 센서", "딸기_양액")
    assert best(method) == "딸기 급액 EC는 센서로 잰다."


@pytest.mark.parametrize(
    ("question", "sentence"),
    [("야간 몇 도로 둬요?", "야간 온도는 8℃로 둔다."), ("야간 몇 퍼센트로 둬요?", "야간 습도는 80%로 둔다.")],
)
def test_a_figure_counts_in_the_unit_asked_for(view: View, question: str, sentence: str) -> None:
    assert best(relevances(view, question, "야간")) == sentence


def test_question_words_and_nearness_count(view: View) -> None:
    words = relevances(view, "병든 잎", "흰가루병")
    assert best(words) == "병든 잎을 따서 태운다."
    near = relevances(view, "건조하면", "흰가루병", encoder=True)
    assert near["흰가루병은 건조하면 번진다."] > near["병든 잎을 따서 태운다."]
    assert relevances(view, "병든 잎", "흰가루병", encoder=True) != words


def test_a_sentence_counts_the_same_at_any_place(view: View) -> None:
    first = relevances(view, "급액 EC", "딸기_양액", "토마토_양액")
    assert len(set(first.values())) > 1
    assert first == relevances(view, "급액 EC", "토마토_양액", "딸기_양액")


def test_a_sentence_on_another_house_is_left_out(view: View) -> None:
    assert set(relevances(view, "2동 급액 EC", "2026-11-24")) == {"2동 급액 EC를 1.2로 맞췄다."}
    assert set(relevances(view, "12동 급액 EC", "2026-11-24")) == {"12동 급액 EC를 1.3으로 맞췄다."}  # 12동 is not 2동
    none = relevances(view, "급액 EC", "2026-11-24")
    assert len(none) == 3


def test_a_monthly_table_answers_for_a_month_and_not_for_a_day(view: View) -> None:
    names = ("2026-03-12", "2026-03_급액배액")
    month, none, day = (relevances(view, f"{when} 2동 배액률", *names) for when in ("3월", "", "3월 12일"))
    (log,) = [s for s in month if "재니" in s]
    (row,) = [s for s in month if "작목" in s]
    assert month[row] - month[log] == pytest.approx(none[row] - none[log] + WEIGHTS.record)
    assert set(day) == {log}


def test_a_passage_on_another_crop_is_held_back(view: View) -> None:
    asked = ask(view, "토마토 급액 EC")
    assert asked.hard_terms == ("토마토",)
    strawberry, tomato = (evidence(view, name)[0].chunk for name in ("딸기_양액", "토마토_양액"))
    assert missing_terms(asked, strawberry) == ["토마토"]
    assert missing_terms(asked, tomato) == []


def test_a_passage_on_no_crop_serves_every_crop_on_file(view: View) -> None:
    general = evidence(view, "야간")[0].chunk
    assert general.crop == ""
    assert missing_terms(ask(view, "토마토 야간 온도"), general) == []
    assert missing_terms(ask(view, "멜론 야간 온도"), general) == ["멜론"]
    assert missing_terms(ask(view, "토마토 흰가루병"), general) == ["흰가루병"]


def test_a_family_is_named_by_a_member(view: View) -> None:
    asked = ask(view, "가루이류가 옮기는 것")
    assert "가루이류" in asked.hard_terms
    assert missing_terms(asked, evidence(view, "담배가루이")[0].chunk) == []
    assert missing_terms(asked, evidence(view, "흰가루병")[0].chunk) == ["가루이류"]


def test_no_evidence_no_sentences(view: View) -> None:
    assert ranked(ask(view, "딸기 EC"), []) == []


# --- choice -----------------------------------------------------------------------------------------------


def chosen_texts(view: View, question: str, *names: str) -> list[str]:
    asked = ask(view, question)
    return [s.candidate.text for s in choose(asked, ranked(asked, evidence(view, *names)))]


def test_at_most_so_many_sentences_and_characters(view: View) -> None:
    asked = ask(view, "환기 천창")
    found = choose(asked, ranked(asked, evidence(view, "긴_글")))
    assert 1 < len(found) <= NORMAL.sentences
    assert sum(len(s.text) + 1 for s in found) <= NORMAL.characters


def test_one_sentence_longer_than_the_limit_is_still_an_answer(view: View) -> None:
    asked = ask(view, "환기 천창")
    assert len(choose(asked, ranked(asked, evidence(view, "긴_글")), Limits(6, 5))) == 1


@pytest.mark.parametrize(
    ("question", "names", "first", "second"),
    [
        ("작년 3월이랑 올해 3월 2동 배액률 비교", ("2026-03-12", "2025-03-10"), "25%", "33"),
        ("1동이랑 2동 급액 EC 비교", ("2026-11-24",), "1동", "2동"),
        ("딸기랑 토마토 급액 EC 차이", ("딸기_양액", "토마토_양액"), "딸기", "토마토"),
    ],
)
def test_a_comparison_takes_the_best_sentence_of_each_side(
    view: View, question: str, names: Sequence[str], first: str, second: str
) -> None:
    asked = ask(view, question)
    aspects = aspects_of(asked)
    assert len(aspects) == 2
    # the aspects stand first, also where the second side's passage is far below
    found = choose(asked, ranked(asked, evidence(view, *names)))[:2]
    assert first in found[0].candidate.text
    assert second in found[1].candidate.text


@pytest.mark.parametrize("question", ["딸기 급액 EC", "2동 급액 EC", "작년 3월 배액률", "2동 딸기 어제 급액 EC", ""])
def test_one_of_a_kind_is_no_comparison(view: View, question: str) -> None:
    assert aspects_of(ask(view, question)) == []


def test_a_side_that_no_sentence_is_about_is_left_open(view: View) -> None:
    found = chosen_texts(view, "2동이랑 9동 급액 EC 비교", "2026-11-24")
    assert found[0] == "2동 급액 EC를 1.2로 맞췄다."


def test_a_question_of_several_parts_takes_the_best_of_each(view: View) -> None:
    asked = ask(view, "급액 EC")
    scored = ranked(asked, evidence(view, "딸기_양액", "토마토_양액", "야간"))
    last = len(scored) - 1
    scored = [replace(s, parts=(float(i == last), float(i == 2))) for i, s in enumerate(scored)]
    parts = replace(asked, parts=(_part("하나"), _part("둘")))
    found = choose(parts, scored)
    assert found[0] is scored[last]
    assert scored[2] in found
    assert len(found) == len({id(s) for s in found})


def _part(text: str) -> PlannedQuery:
    return PlannedQuery(text=text, vector=None, tokens=(), entities=())


def test_a_sentence_that_says_nothing_new_comes_later(view: View) -> None:
    asked = ask(view, "급액 EC")
    one, other = ranked(asked, evidence(view, "딸기_양액"))
    far = np.zeros_like(one.candidate.vector)
    far[-1] = 1.0
    other = replace(other, relevance=0.95, candidate=replace(other.candidate, vector=far))
    near = one.candidate.vector + 0.5 * far
    twin = replace(
        one, relevance=1.0, text="같은 말", candidate=replace(one.candidate, vector=near / np.linalg.norm(near))
    )
    assert choose(asked, [replace(one, relevance=1.01), twin, other])[:2][1] is other


def test_a_sentence_is_said_once(view: View) -> None:
    asked = ask(view, "급액 EC")
    one, _ = ranked(asked, evidence(view, "딸기_양액"))
    assert len(choose(asked, [replace(one, relevance=1.0), replace(one, relevance=0.99)])) == 1


def test_a_much_weaker_sentence_is_left_out(view: View) -> None:
    asked = ask(view, "급액 EC")
    one, other = ranked(asked, evidence(view, "딸기_양액"))
    one, other = replace(one, relevance=70.0), replace(other, candidate=_apart(other, 0))
    assert len(choose(asked, [one, replace(other, relevance=70.0 - choice.FEW_GAP + 0.1)])) == 2
    assert len(choose(asked, [one, replace(other, relevance=70.0 - choice.FEW_GAP - 0.1)])) == 1
    assert choose(asked, []) == []


def test_more_than_a_few_sentences_must_be_nearer_to_the_best(view: View) -> None:
    asked = ask(view, "급액 EC")
    one = ranked(asked, evidence(view, "딸기_양액"))[0]
    alike = [replace(one, text=f"문장 {n}", number=n, relevance=70.0, candidate=_apart(one, n)) for n in range(4)]
    between = 70.0 - (choice.GAP + choice.FEW_GAP) / 2
    further = replace(alike[3], relevance=between)
    assert len(choose(asked, [*alike[: choice.FEW - 1], further])) == choice.FEW
    assert len(choose(asked, [*alike[: choice.FEW], further])) == choice.FEW


def test_the_second_of_a_part_is_near_its_first(view: View) -> None:
    asked = replace(ask(view, "급액 EC"), parts=(_part("하나"),))
    one = ranked(asked, evidence(view, "딸기_양액"))[0]
    far = [
        replace(one, text=f"문장 {n}", number=n, relevance=-9.0 * n, parts=(-gap,), candidate=_apart(one, n))
        for n, gap in enumerate((0.0, choice.PART_GAP - 0.1))
    ]
    assert len(choose(asked, far)) == 2
    assert len(choose(asked, [far[0], replace(far[1], parts=(-choice.PART_GAP - 0.1,))])) == 1


def _apart(scored: Scored, n: int) -> Candidate:
    """The candidate with a vector of its own, so that it says something new."""
    return replace(scored.candidate, vector=np.eye(64, dtype=np.float32)[-1 - n])


# --- what is left out -------------------------------------------------------------------------------------


def test_another_crop_is_never_merged(view: View) -> None:
    asked = ask(view, "딸기 급액 EC 얼마로 둬요?")
    titles = {s.chunk.title for s in ranked(asked, evidence(view, "토마토_양액", "딸기_양액", "야간"))}
    assert titles == {"딸기 양액", "온실 밤 관리"}


def test_crops_are_named_where_several_are_told_of(view: View) -> None:
    given = answer(view, "급액 EC 얼마?", "딸기_양액", "토마토_양액")
    assert {s.text.split(": ")[0] for s in given.sentences if ": " in s.text} == {"딸기", "토마토"}


def test_a_log_on_several_houses_gives_the_asked_one(view: View) -> None:
    asked = ask(view, "2동 급액 EC")
    assert [s.text for s in ranked(asked, evidence(view, "2026-11-24"))] == ["2동 급액 EC를 1.2로 맞췄다."]


def test_sprayings_are_told_of_only_where_there_are_any(view: View) -> None:
    given = answer(view, "올해 11월에 친 약 뭐야?", "2026-11-24")
    assert given.refused


@pytest.mark.parametrize(
    ("row", "keywords", "lacking"),
    [
        ("품종: 금실, 당도(브릭스): -, 5℃ 저장: 12일", ("당도",), True),
        ("품종: 설향, 당도(브릭스): 9.6, 5℃ 저장: 9일", ("당도",), False),
        ("품종: 금실, 당도(브릭스): -, 5℃ 저장: 12일", ("저장",), False),
        ("당도는 -", ("당도",), False),
    ],
)
def test_a_row_without_the_asked_value(row: str, keywords: tuple[str, ...], lacking: bool) -> None:
    assert lacks_value(row, keywords) is lacking


# --- pesticides -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "lacks"),
    [
        ("딸기 흰가루병 등록 약 뭐 있어요?", False),
        ("딸기 흰가루병 약 희석배수 몇 배예요?", False),
        ("토마토 흰가루병 등록 약 뭐 있어요?", True),
        ("딸기 탄저병 약 수확 며칠 전까지 쳐요?", True),
        ("딸기 흰가루병에 클로티아니딘 몇 배로 타요?", True),
        ("딸기 흰가루병은 왜 생겨요?", False),
        ("배 흰가루병 약 몇 배예요?", True),
        ("흰가루병 약 뭐 있어요?", False),
        ("딸기 응애 약 알려줘", False),
    ],
)
def test_a_dose_needs_the_registration_of_that_crop_and_pest(view: View, question: str, lacks: bool) -> None:
    asked = ask(view, question)
    found = choose(asked, ranked(asked, evidence(view, "등록_딸기", "등록_오이", "병해충/흰가루병")))
    assert lacks_registration(asked, found) is lacks
    if not lacks and asked.registration:
        assert found
        assert all(registers(asked, s) for s in found)


def test_a_general_name_stands_for_the_pest_and_what_expired_is_left_out(view: View) -> None:
    given = answer(view, "딸기 응애 약 알려줘", "등록_딸기_응애", "병해충/흰가루병")
    assert [s.text.partition("(")[0] for s in given.sentences] == ["아세퀴노실 액상수화제"]


def test_two_crops_and_two_pests_are_two_sheets(view: View) -> None:
    names = ("등록_딸기", "등록_오이", "등록_딸기_응애")
    given = answer(view, "딸기 흰가루병과 오이 작은뿌리파리 약 알려줘", *names)
    assert [s.text.partition("(")[0] for s in given.sentences] == [
        "딸기: 흰가루병: 메트라페논 액상수화제",
        "오이: 작은뿌리파리: 클로티아니딘 입상수용제",
    ]


@pytest.mark.parametrize(
    ("question", "products"),
    [
        ("딸기 흰가루에 나라크 몇 배로 타요?", ("나라크",)),
        ("딸기 흰가루에 나라크는 몇 번까지 칠 수 있나", ("나라크",)),  # whatever the analyser makes of the name
        ("메트라페논 며칠 전까지 써요? 딸기", ("메트라페논",)),
        ("딸기에 새나라크 몇 배?", ()),  # another word that ends in it
        ("딸기 흰가루병에 쓰는 약", ()),
    ],
)
def test_a_product_is_known_by_what_is_registered(view: View, question: str, products: tuple[str, ...]) -> None:
    asked = ask(view, question)
    assert asked.products == products
    assert asked.registration is bool(products or "약" in question)


@pytest.mark.parametrize(
    ("question", "unregistered"),
    [
        ("딸기 흰가루병에 포룸만 몇 배로 타요?", "포룸만"),
        ("딸기 흰가루병에 슈퍼킬러 며칠 전까지 쳐요", "슈퍼킬러"),
        ("딸기 흰가루병에 나라크 몇 배로 타요?", ""),
        ("딸기 흰가루병 약 몇 배로 타요?", ""),
        ("딸기 흰가루병에 등록약 몇 번까지 쳐요?", ""),
        ("딸기에 슈퍼킬러 몇 마리 풀어요?", ""),
    ],
)
def test_a_product_that_is_not_registered_is_refused_by_its_name(view: View, question: str, unregistered: str) -> None:
    asked = ask(view, question)
    assert asked.unregistered == unregistered
    if unregistered:
        found = choose(asked, ranked(asked, evidence(view, "등록_딸기", "병해충/흰가루병")))
        assert lacks_registration(asked, found)
        assert unregistered in registration_note(asked)


def test_the_registration_of_a_named_product_is_answered(view: View) -> None:
    asked = ask(view, "딸기 응애에 골드러쉬 몇 배로 타요?")
    found = choose(asked, ranked(asked, evidence(view, "등록_딸기", "등록_딸기_응애")))
    assert [registered_names(s.candidate.text)[0] for s in found] == ["골드러쉬"]


def test_a_brand_within_another_is_not_that_brand(view: View) -> None:
    asked = ask(view, "딸기 응애에 골드러쉬 몇 배로 타요?")
    sheet = ranked(asked, evidence(view, "등록_딸기_응애"))
    mine = [s for s in sheet if registers(asked, s)]
    assert [registered_names(s.candidate.text)[0] for s in mine] == ["골드러쉬"]
    longer = replace(mine[0].candidate.chunk, text=mine[0].candidate.chunk.text.replace("골드러쉬", "뉴골드러쉬"))
    sentence = replace(mine[0].candidate.sentence, end=mine[0].candidate.sentence.end + 1)
    other = replace(mine[0], candidate=replace(mine[0].candidate, chunk=longer, sentence=sentence))
    assert registered_names(other.candidate.text)[0] == "뉴골드러쉬"
    assert not registers(asked, other)


@pytest.mark.parametrize("question", ["오이고추 작은뿌리파리 약 몇 배?", "나무딸기 흰가루병 등록 농약"])
def test_another_plant_with_a_crop_in_its_name_is_another_crop(view: View, question: str) -> None:
    asked = ask(view, question)
    found = choose(asked, ranked(asked, evidence(view, "등록_오이", "등록_딸기")))
    assert lacks_registration(asked, found)


def test_a_registration_names_its_pest_where_the_question_does_not(view: View) -> None:
    asked = ask(view, "나라크 딸기에 써도 되나요")
    (found,) = choose(asked, ranked(asked, evidence(view, "등록_딸기", "등록_딸기_응애")))
    assert found.text.startswith("흰가루병: 메트라페논 액상수화제(상표 나라크)")
    named = ask(view, "나라크 딸기 흰가루병에 써도 되나요")
    (found,) = choose(named, ranked(named, evidence(view, "등록_딸기", "등록_딸기_응애")))
    assert found.text.startswith("메트라페논")


def test_two_pests_of_one_crop_are_both_told(view: View) -> None:
    asked = ask(view, "딸기 흰가루병이랑 점박이응애에 등록된 약 알려줘")
    found = choose(asked, ranked(asked, evidence(view, "등록_딸기", "등록_딸기_응애")))
    assert {s.text.partition(":")[0] for s in found} == {"흰가루병", "점박이응애"}


def test_a_penalty_is_no_question_on_registrations(view: View) -> None:
    assert not ask(view, "농약 안전사용기준을 어기면 과태료가 얼마예요").registration
    assert not ask(view, "농약 안전사용기준을 어기면 과태료가 얼마예요").dose


def test_names_of_a_registration() -> None:
    listed = (
        "클로티아니딘.피리프록시펜 유현탁제(상표 신농팜델타린, (주)팜한농): 희석배수 2000배, 수확 3일 전까지, 3회 이내"
    )
    assert registered_names(listed) == ("신농팜델타린", "클로티아니딘", "피리프록시펜")
    row = "품목: 디노테퓨란 입상수용제, 상표: 오신, 희석배수: 2000배, 사용시기: 발생초기"
    assert registered_names(row) == ("오신", "디노테퓨란")
    assert registered_names("역병은 물과 관계가 깊다.") == ()


def test_sources_that_differ_in_a_figure_are_both_told(view: View) -> None:
    asked = ask(view, "딸기 급액 EC")
    one, other = ranked(asked, evidence(view, "딸기_양액"))
    twin = replace(other, candidate=replace(other.candidate, vector=one.candidate.vector))
    assert len({s.text for s in (one, twin)}) == 2
    figure = [replace(s, text=text) for s, text in ((one, "EC는 1.2dS/m로 둔다."), (twin, "EC는 1.4dS/m로 둔다."))]
    words = [replace(s, text=text) for s, text in ((one, "EC는 1.2dS/m로 둔다."), (twin, "EC를 1.2dS/m로 한다."))]
    taken = Choice(Limits(6, 395))
    assert [taken.take(s) for s in figure] == [True, True]
    taken = Choice(Limits(6, 395))
    assert [taken.take(s) for s in words] == [True, False]


def test_what_must_not_be_used_is_not_read_off_registrations(view: View) -> None:
    given = answer(view, "딸기 흰가루병에 쓰면 안 되는 약은?", "등록_딸기")
    assert given.refused
    assert given.notes == (ONLY_REGISTERED,)
    assert answer(view, "배 흰가루병 약 몇 배예요?", "등록_딸기").notes == (NO_REGISTRATION,)


def test_a_registration_is_said_without_maker_and_validity() -> None:
    listed = (
        "클로티아니딘 입상수용제(상표 심볼, (주)동방아그로): 희석배수 2000배, 수확 3일 전까지, 3회 이내, "
        "등록 유효기간 2032-03-21."
    )
    said = "클로티아니딘 입상수용제(상표 심볼): 희석배수 2000배, 수확 3일 전까지, 3회 이내"
    assert spoken_registration(listed) == said
    assert f'→ "{said}"' in " ".join((spoken_registration.__doc__ or "").split())
    assert spoken_registration("역병은 물과 관계가 깊다.") == "역병은 물과 관계가 깊다."


# --- order and opening ------------------------------------------------------------------------------------


def test_a_disorder_reads_cause_before_action_under_a_line_that_says_so(view: View) -> None:
    given = answer(view, "딸기 흰가루병 병든 잎은 왜 생겨?", "병해충/흰가루병", encoder=False)
    assert [s.text for s in given.sentences] == ["흰가루병은 건조하면 번진다.", "병든 잎을 따서 태운다."]
    assert given.lead == "딸기 흰가루병의 원인과 대책입니다."
    assert given.lead not in given.text


def test_the_latest_record_comes_first_where_the_present_state_is_asked_for(view: View) -> None:
    names = ("2025-03-10", "2026-03-12")
    latest = answer(view, "2동 배액률 마지막으로 잰 게 얼마야?", *names, encoder=False)
    listed = answer(view, "2동 배액률 전부 뽑아줘", *names, encoder=False)
    assert [s.text[:10] for s in latest.sentences] == ["2026-03-12", "2025-03-10"]
    assert [s.text[:10] for s in listed.sentences] == ["2025-03-10", "2026-03-12"]
    assert latest.lead == "작업일지 2건에서 찾았습니다, 나중 것부터."


def test_a_day_far_below_the_best_is_not_listed(view: View) -> None:
    asked = ask(view, "2동 배액률 전부 뽑아줘")
    one, other = ranked(asked, evidence(view, "2025-03-10", "2026-03-12"))
    assert one.chunk.date < other.chunk.date

    def days(gap: float) -> list[str]:
        below, best = replace(one, relevance=70.0 - gap), replace(other, relevance=70.0)
        return [s.chunk.date for s in choose(asked, [below, best])]

    assert days(choice.DAY_GAP - 0.1) == ["2025-03-10", "2026-03-12"]  # listed by day, whichever is better
    assert days(choice.DAY_GAP + 0.1) == ["2026-03-12"]


def test_a_role_is_told_unless_its_best_sentence_is_far_below_the_first(view: View) -> None:
    asked = ask(view, "배꼽썩음과는 왜 생겨?")
    _, _, cause, action = ranked(asked, evidence(view, "배꼽썩음과"))
    assert (role_of(cause.candidate.text), role_of(action.candidate.text)) == (CAUSE, ACTION)
    others = [
        replace(cause, text=f"원인 {n}", number=9 + n, relevance=69.0, candidate=_apart(cause, n)) for n in range(6)
    ]

    def told(gap: float, section: str = "") -> bool:
        chunk = replace(action.chunk, section=section)
        low = replace(action, relevance=70.0 - gap, candidate=replace(_apart(action, 9), chunk=chunk))
        return any(s.text == low.text for s in choose(asked, [replace(cause, relevance=70.0), low, *others]))

    assert told(choice.ROLE_GAP - 0.1)
    assert not told(choice.ROLE_GAP + 0.1)
    # below a heading that says what is told, a sentence need not name the disorder again
    assert told(choice.ROLE_GAP + 0.1, "배꼽썩음과 > 방제")
    assert not told(choice.ROLE_GAP + choice.HEADED + 0.1, "배꼽썩음과 > 방제")
    assert told(choice.ROLE_GAP + choice.HEADED + 0.1, "배꼽썩음과 > 발생했을 때의 조치")


def test_more_is_told_where_details_are_asked_for(view: View) -> None:
    short, long = (answer(view, f"환기 천창{word}", "긴_글") for word in ("", " 자세히"))
    assert len(short.sentences) <= NORMAL.sentences < len(long.sentences) <= choice.DETAILED.sentences


# --- what is said -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "title", "label"),
    [
        ("딸기 흰가루병", "딸기 흰가루병", True),
        ("작성일: 2026-01-05", "제목", True),
        ("자료 기준일: 2026-01-05", "제목", True),
        ("작성자: 김주임", "제목", True),
        ("작성자: 김주임 · 날짜: 2026-01-05", "제목", True),
        ("합성 자료(시연용)", "제목", True),
        ("흰가루병은 건조하면 번진다.", "제목", False),
        ("동: 1동, 배액률: 30", "제목", False),
        ("급액 · 배액을 잰다.", "제목", False),
        ("작성자: 김주임이 2동에서 재었다.", "제목", False),
    ],
)
def test_labels(sentence: str, title: str, label: bool) -> None:
    assert is_label(sentence, title) is label


def test_labels_are_no_candidates(view: View) -> None:
    (item,) = evidence(view, "흰가루병")
    assert "작성일: 2026-01-05" in item.chunk.text
    found = [candidate.text for candidate in candidates_of(view, [item.chunk])]
    assert found == ["흰가루병은 건조하면 번진다.", "병든 잎을 따서 태운다."]


ROW = "동: 3동, 작목: 딸기, 주간 평균온도(℃): 21.8, 야간 평균온도(℃): 7.0"


@pytest.mark.parametrize(
    ("sentence", "keywords", "said"),
    [
        (ROW, ("야간",), "동: 3동, 작목: 딸기, 야간 평균온도: 7.0℃"),
        (ROW, ("주간", "온도"), "동: 3동, 작목: 딸기, 주간 평균온도: 21.8℃"),
        (ROW, ("온도",), "동: 3동, 작목: 딸기, 주간 평균온도: 21.8℃, 야간 평균온도: 7.0℃"),
        ("동: 3동, 작목: 딸기, 특(kg): 1,200, 상(kg): 30", ("특",), "동: 3동, 작목: 딸기, 특: 1,200kg"),
        ("동: 3동, 작목: 딸기, EC(dS/m): 결측", ("ec",), "동: 3동, 작목: 딸기, EC(dS/m): 결측"),
        ("야간 온도는 8℃로 둔다.", ("야간",), "야간 온도는 8℃로 둔다."),
        ("동: 3동, 배액률: 30", ("배액률",), "동: 3동, 배액률: 30"),  # two cells are no row
        ("먼저 연다: 천창, 다음: 측창, 그리고 팬", ("팬",), "먼저 연다: 천창, 다음: 측창, 그리고 팬"),
    ],
)
def test_a_row_is_said_by_its_cells(sentence: str, keywords: tuple[str, ...], said: str) -> None:
    assert spoken_row(sentence, keywords) == said


def test_the_example_of_the_docstring() -> None:
    document = " ".join((spoken_row.__doc__ or "").split())
    assert f'"{ROW}" asked for 야간 → "{spoken_row(ROW, ("야간",))}"' in document


@pytest.mark.parametrize(
    ("question", "fits", "does_not"),
    [
        ("며칠 전까지 칠 수 있어?", ["수확 7일 전", "사흘 전"], ["7회"]),
        ("몇 일 걸려?", ["3 일"], ["3시간"]),
        ("몇 도로 둬요?", ["8℃", "8 도"], ["80%", "낮게 둔다"]),
        ("몇도까지 괜찮음?", ["8℃"], ["80%"]),
        ("배액률은?", ["30%", "배액률"], ["30회"]),
        ("몇 키로 땄어?", ["20 kg", "1.2톤"], ["20개"]),
        ("몇 시간 돌려?", ["4시간", "한 시간", "두시간"], ["4분", "시간"]),
        ("몇 마리까지?", ["10 마리"], ["10배"]),
        ("수리비 얼마 들었어?", ["30만 원", "5,000원"], ["30일"]),
        ("EC 얼마로 맞춰요?", ["1.2dS/m"], ["낮게 맞춘다"]),
        ("몇 번 줘?", ["3회"], ["자주 준다"]),
    ],
)
def test_the_figure_that_is_asked_for(question: str, fits: list[str], does_not: list[str]) -> None:
    figure = figure_asked(question)
    assert figure is not None
    assert [text for text in fits if not figure.search(text)] == []
    assert [text for text in does_not if figure.search(text)] == []


@pytest.mark.parametrize("question", ["흰가루병은 왜 생겨?", "양액기 보정 순서", ""])
def test_no_figure_is_asked_for(question: str) -> None:
    assert figure_asked(question) is None


def chunk(**fields_: str) -> ChunkRecord:
    given = {"scope_id": "farm:haetsal", "title": "제목", "kind": "작업일지", "date": "2026-11-24", "author": "김주임"}
    return ChunkRecord(
        **{
            "chunk_id": "c",
            "doc_id": "d",
            "section": "",
            "locator": "",
            "text": "",
            "level": "G2",
            "ordinal": 0,
            **given,
            **fields_,
        }  # type: ignore[arg-type]
    )


def whole(source: ChunkRecord) -> Candidate:
    """A passage as one sentence."""
    sentence = SentenceRecord(chunk_id=source.chunk_id, start=0, end=len(source.text), tokens=(), row=0)
    return Candidate(source, sentence, np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("fields_", "lead"),
    [
        ({}, "2026-11-24 김주임"),
        ({"author": ""}, "2026-11-24"),
        ({"date": ""}, "제목"),
        ({"kind": "급액배액요약"}, "제목"),
        ({"scope_id": "public"}, ""),
        ({"text": "일자: 2026-11-20, 동: 1동, 출하량: 3kg"}, "제목"),
    ],
)
def test_lead_of(fields_: dict[str, str], lead: str) -> None:
    assert lead_of(whole(chunk(**fields_))) == lead


@pytest.mark.parametrize(
    ("row", "day"),
    [
        ("일자: 2026-10-20, 동: 1동", date(2026, 10, 20)),
        ("동: 1동, 작업일: 2026.10.3, 내용: 방제", date(2026, 10, 3)),
        ("동: 1동, 비고: 2026-10-20에 고침", None),
        ("날짜: 2026-13-40", None),
    ],
)
def test_day_of_a_row(row: str, day: date | None) -> None:
    assert day_of(row) == day


# --- answers ----------------------------------------------------------------------------------------------


def answer(
    view: View, question: str, *names: str, threshold: float = 0.0, top_k: int = 8, encoder: bool = True
) -> Answer:
    items = FusedEvidence(items=tuple(evidence(view, *names)))
    return answerer(threshold).answer(ask(view, question, encoder=encoder), items, (), top_k, Recorder())[0]


def test_farm_records_read_by_date_each_under_its_day_once(view: View) -> None:
    given = answer(view, "작년 3월이랑 올해 3월 2동 배액률 비교", "2026-03-12", "2025-03-10")
    assert [s.text for s in given.sentences][:2] == [
        "2025-03-10 김주임: 2동 배액률을 재니 25%였다.",
        "2026-03 급액배액 요약: 동: 2동, 작목: 딸기, 배액률: 33%",
    ]
    same_day = answer(view, "1동이랑 2동 급액 EC 비교", "2026-11-24")
    assert [s.text.startswith("2026-11-24 김주임: ") for s in same_day.sentences[:2]] == [True, False]


def test_a_comparison_reads_side_by_side(view: View) -> None:
    given = answer(view, "딸기랑 토마토 급액 EC 차이", "토마토_양액", "딸기_양액")
    titles = [s.citations[0].title for s in given.sentences]
    assert titles == sorted(titles, key=["딸기 양액", "토마토 양액"].index)
    assert [s.text[:4] for s in given.sentences if ": " in s.text] == ["딸기: ", "토마토:"]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("딸기 급액 EC 얼마로 둬요?", ("딸기_양액", "토마토_양액")),
        ("환기 천창", ("긴_글",)),
        ("3월 2동 배액률", ("2026-03_급액배액", "2026-03-12")),
        ("작년 3월이랑 올해 3월 2동 배액률 비교", ("2025", "2026-03")),
        ("흰가루병 왜 생겨?", ("흰가루병", "야간", "담배가루이")),
    ],
)
def test_every_sentence_cites_its_words_in_the_chunk(view: View, question: str, names: Sequence[str]) -> None:
    chunks = {item.chunk.chunk_id: item.chunk for item in evidence(view, *names)}
    given = answer(view, question, *names)
    assert given.sentences
    assert not given.refused
    for sentence in given.sentences:
        (citation,) = sentence.citations
        source = chunks[citation.chunk_id]
        assert source.text[citation.start : citation.end] == citation.sentence
        assert citation.doc_id == source.doc_id
        said = sentence.text.removeprefix(f"{lead_of(whole(source))}: ")
        assert said in citation.sentence or said.split(", ")[0] in citation.sentence  # a row says some of its cells


def test_the_same_question_gives_the_same_answer(view: View) -> None:
    names = ("딸기_양액", "토마토_양액", "야간")
    assert answer(view, "급액 EC 얼마?", *names) == answer(view, "급액 EC 얼마?", *names)


def test_only_the_first_passages_are_read(view: View) -> None:
    given = answer(view, "급액 EC", "딸기_양액", "토마토_양액", top_k=1)
    assert {s.citations[0].title for s in given.sentences} == {"딸기 양액"}


def test_below_the_level_it_refuses_and_names_what_was_near(view: View) -> None:
    names = ("딸기_양액", "토마토_양액", "야간", "흰가루병")
    given = answer(view, "블루베리 산도", *names, threshold=2.0)
    assert given.refused
    assert given.text == NOT_FOUND
    assert [s.citations for s in given.sentences] == [()]
    assert given.nearby == ("딸기 양액", "토마토 양액", "온실 밤 관리")


def test_questions_on_documents_and_on_records_have_a_level_each(view: View) -> None:
    items = {name: FusedEvidence(items=tuple(evidence(view, name))) for name in ("딸기_양액", "2026-11-24")}
    document, record = ask(view, "딸기 급액 EC 얼마로 둬요?"), ask(view, "2동 급액 EC")
    assert (document.record, record.record) == (False, True)
    for given, refused in ((answerer(2.0, 0.0), (True, False)), (answerer(0.0, 2.0), (False, True))):
        found = [
            given.answer(asked, items[name], (), 8, Recorder())[0].refused
            for asked, name in ((document, "딸기_양액"), (record, "2026-11-24"))
        ]
        assert tuple(found) == refused


def test_without_evidence_it_refuses(view: View) -> None:
    given, _ = answerer().answer(ask(view, "딸기 EC"), FusedEvidence(items=()), (), 8, Recorder())
    assert given.refused
    assert given.nearby == ()


def test_a_refusal_names_a_title_once(view: View) -> None:
    items = evidence(view, "딸기_양액", "딸기_양액", "야간")
    given = refusal(items, "llama.cpp", note="알림")
    assert (given.nearby, given.notes, given.answerer) == (("딸기 양액", "온실 밤 관리"), ("알림",), "llama.cpp")


# --- people in danger ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "농약 중독되면 어떻게 해요",
        "약 치다가 어지러워요",
        "농약이 눈에 들어갔어",
        "작업자가 농약 뿌리고 토했는데 뭐부터 해야 돼",
        "제초제 원액을 조금 삼켰대요",
        "어지럽고 메스꺼운데 농약 때문인가",
    ],
)
def test_poisoned_people_are_sent_to_the_doctor(text: str) -> None:
    assert "119" in "".join(emergency(text))


@pytest.mark.parametrize(
    "text",
    [
        "토마토 망간 중독 잎 증상",
        "약산성으로 맞추면 망간 중독",
        "오이 잘록병에 모가 쓰러졌는데 약 뭐 써요",
        "약 눈에 띄는 효과 없어요",
        "농약을 얼마나 타요",
    ],
)
def test_poisoned_plants_are_not(text: str) -> None:
    assert emergency(text) == ()


# --- registrations of more than pests -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Registration sheets against weeds and for growth, of one pest that no lexicon knows, and a guide."""

    def sheet(crop: str, target: str, *rows: str) -> str:
        listed = "".join(f"- {row}, 등록 유효기간 2030-12-31.\n" for row in rows)
        return f"# {crop} {target} 등록 농약\n\n자료 기준일: 2026-04-24\n\n{listed}"

    files = {
        "농약등록/토마토/잡초.md": sheet(
            "토마토", "일년생잡초", "메트리뷰진 수화제(상표 알파토, 한국회사): 희석배수 1000배, 정식활착후, 1회"
        ),
        "농약등록/딸기/생장촉진.md": sheet(
            "딸기", "생장촉진", "지베렐린산 수용제(상표 유이란, 한국회사): 희석배수 3100배, 비닐로 덮을 때"
        ),
        "농약등록/딸기/잎선충.md": sheet(
            "딸기", "딸기잎선충", "이미시아포스 입제(상표 싸이먼, 한국회사): 사용량 6㎏/10a, 정식기, 1회 이내"
        ),
        "농약등록/딸기/땅강아지.md": sheet(
            "딸기", "땅강아지", "비펜트린 훈연제(상표 체스, 한국회사): 사용량 100g, 수확 2일 전까지, 2회 이내"
        ),
        "농약등록/오이/선충.md": sheet(
            "오이", "뿌리혹선충", "이미시아포스 입제(상표 싸이먼, 한국회사): 사용량 6㎏/10a, 정식기, 1회 이내",
            "포스티아제이트 입제(상표 선충탄, 한국회사): 사용량 4㎏/10a, 정식기, 1회 이내",
        ),
        "재배/와사비.md": "# 와사비 소득\n\n10a당 소득은 500만원이다.\n",
        "재배/오이_선충.md": "# 오이 뿌리혹선충\n\n이미시아포스 액제는 뿌리혹선충에 수확 30일 전까지 쓴다. 선충은 뿌리에 혹을 만든다.\n",
    }  # fmt: skip
    return stored(tmp_path_factory.mktemp("sheets"), files, Scope())


@pytest.mark.parametrize(
    ("question", "targets", "products", "told"),
    [
        ("딸기밭 땅강아지 잡는 거 등록돼 있는지, 있으면 성분이 뭔지", ("땅강아지",), (), "체스"),
        ("딸기 생장촉진에 등록된 약 있어요?", ("생장촉진",), (), "유이란"),
        ("딸기 지베렐린 언제 쳐요 등록된 시기로", (), ("지베렐린산",), "유이란"),
        ("토마토밭 풀 잡는 약 뭐 있나요", ("일년생잡초",), (), "알파토"),
        ("토마토에 알파토는 언제 치는 약입니까", (), ("알파토",), "알파토"),
    ],
)
def test_registrations_are_found_by_any_target_and_by_the_product_alone(
    sheets: View, question: str, targets: tuple[str, ...], products: tuple[str, ...], told: str
) -> None:
    asked = ask(sheets, question)
    assert (asked.targets, asked.products, asked.registration) == (targets, products, True)
    # no sheet among the passages at hand: they are looked up
    found = choose(asked, ranked(asked, evidence(sheets, "오이_선충")))
    assert [registered_names(s.candidate.text)[0] for s in found] == [told]
    assert not lacks_registration(asked, found)


def test_what_is_left_out_is_no_record(sheets: View) -> None:
    asked = ask(sheets, "오이 뿌리혹선충 약 이미시아포스 든 건 빼고 알려줘")
    assert not asked.record
    found = choose(asked, ranked(asked, evidence(sheets, "오이/선충")))
    assert [registered_names(s.candidate.text)[0] for s in found] == ["선충탄"]


def test_what_is_left_out_is_not_told(sheets: View) -> None:
    asked = ask(sheets, "오이 뿌리혹선충에 싸이먼 말고 등록된 약 뭐 있어요?")
    assert (asked.products, asked.products_left_out) == ((), ("싸이먼",))
    found = choose(asked, ranked(asked, evidence(sheets, "오이/선충")))
    assert [registered_names(s.candidate.text)[0] for s in found] == ["선충탄"]


def test_a_guide_that_answers_better_stands_with_the_registrations(sheets: View) -> None:
    asked = ask(sheets, "오이 뿌리혹선충에 이미시아포스 액제는 수확 며칠 전까지 쳐요?")
    scored = ranked(asked, evidence(sheets, "오이/선충", "오이_선충"))
    guide = next(s for s in scored if s.text.startswith("이미시아포스 액제"))
    for relevance, told in ((100.0, True), (-100.0, False)):
        found = choose(asked, [replace(s, relevance=relevance) if s is guide else s for s in scored])
        assert any(s.text == guide.text for s in found) is told
        assert any(registers(asked, s) for s in found)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("오이 뿌리혹선충약은 수확 며칠 전까지 쳐요?", ["이미시아포스 액제는"]),
        ("오이 흰가루병 약은 수확 며칠 전까지 쳐요?", ["흰가루병에는 2,000배로"]),
        ("오이 나비목 애벌레 약은 몇 배예요?", []),  # of neither
        (
            "오이 선충은 어떻게 관리해요?",
            ["이미시아포스 액제는", "흰가루병에는 2,000배로"],
        ),  # no pesticide is asked for
    ],
)
def test_how_another_pest_is_treated_is_not_told(tmp_path: Path, question: str, told: list[str]) -> None:
    text = (
        "# 오이 병해충\n\n이미시아포스 액제는 뿌리혹선충에 수확 30일 전까지 쓴다. 흰가루병에는 2,000배로 희석해 뿌린다. "
        "병든 잎은 딴다.\n"
    )
    view = stored(tmp_path, {"재배/오이.md": text}, Scope())
    found = [s.text for s in ranked(ask(view, question), evidence(view, "오이"))]
    assert [" ".join(one.split()[:2]) for one in found if one != "병든 잎은 딴다."] == told


def test_any_of_a_kind_is_meant_by_its_short_name(sheets: View) -> None:
    assert ask(sheets, "딸기 선충약 몇 kg 넣어요").targets == ("뿌리혹선충", "딸기잎선충")
    assert ask(sheets, "딸기 뿌리혹선충약 몇 kg 넣어요").targets == ("뿌리혹선충",)


@pytest.mark.parametrize(
    "question",
    [
        "농약 쓰는 사람 대상 안전사용기준 교육은 얼마나 자주 합니까",
        "딸기 뿌리혹선충약 진하게 친 농가는 어떤 피해가 났어요",
        "농약 판매업 하려면 어디에 신고해요",
    ],
)
def test_what_registrations_do_not_tell_is_not_asked_of_them(sheets: View, question: str) -> None:
    asked = ask(sheets, question)
    assert not asked.registration
    assert not asked.dose


def test_a_kind_of_a_crop_by_its_other_name_is_of_that_crop(sheets: View) -> None:
    asked = ask(sheets, "밭와사비 소득이 얼마예요")
    assert asked.named("작물") == ("밭고추냉이",)
    assert asked.crops == {"밭고추냉이", "와사비"}
    assert [s.text for s in ranked(asked, evidence(sheets, "와사비", "오이_선충"))] == ["10a당 소득은 500만원이다."]


# --- what no document tells, and what is named and not told ---------------------------------------------------


@pytest.mark.parametrize(
    ("question", "live"),
    [
        ("지금 면세 경유 리터당 얼마 합니까?", True),
        ("요즘 딸기 시세 어때요", True),
        ("내일 비 와요?", True),
        ("내일 우리 동네 최저기온 몇 도까지 떨어져?", True),
        ("주말 날씨 알려줘", True),
        ("내일 비 온다는데 하우스 환기 어떻게 해요", False),
        ("일기예보 기온만 보고 하우스 들어가도 되나요?", False),
        ("요즘 딸기 잎이 노래요", False),
        ("요즘 배액 EC 값이 높은데 어떻게 해요", False),
        ("요즘 자재 가격이 올랐는데 보조금 있나요", False),
        ("오늘 2동 급액 EC 얼마였어", False),
    ],
)
def test_what_changes_by_the_day_is_not_read_off_documents(view: View, question: str, live: bool) -> None:
    assert asks_live(ask(view, question)) is live
    if live:
        given = answer(view, question, "재배/야간")
        assert (given.refused, given.notes) == (True, (LIVE,))


def of_documents(asked: Asked) -> Asked:
    """The question, whatever it reads like, as one on documents."""
    return replace(asked, features=replace(asked.features, intent="factual"))


@pytest.mark.parametrize(
    ("question", "name", "note"),
    [
        ("담배가루이 상담 전화번호 알려줘", "담배가루이", NO_CONTACT),
        ("2019년에 토마토 급액 EC 얼마로 뒀대요?", "토마토_양액", "2019년의 것을 적은 문장을 찾지 못했습니다."),
        ("설향 품종은 당도가 얼마예요?", "딸기_양액", "‘설향’ 품종을 적은 문서를 찾지 못했습니다."),
        ("설향 급액 EC 얼마로 둬요?", "딸기_양액", None),  # of the crop, not of the cultivar
        ("토마토 급액 EC 얼마로 둬요?", "토마토_양액", None),
    ],
)
def test_what_is_named_must_be_told(view: View, question: str, name: str, note: str | None) -> None:
    asked = of_documents(ask(view, question))
    found = choose(asked, ranked(asked, evidence(view, name)))
    assert found
    assert lacks_what_is_named(asked, found) == note
    given, _ = answerer().answer(asked, FusedEvidence(items=tuple(evidence(view, name))), (), 5, Recorder())
    assert given.notes == (() if note is None else (note,))


def test_a_year_a_number_and_a_cultivar_that_are_told(tmp_path: Path) -> None:
    text = "# 딸기 설향\n\n2019년 설향의 당도는 10.5브릭스였다. 문의는 063-123-4567로 한다.\n"
    view = stored(tmp_path, {"재배/설향.md": text}, Scope())
    for question in ("2019년 설향 당도 얼마예요?", "설향 문의 전화번호 알려줘", "2018년 말고 2019년 설향 당도는요?"):
        asked = of_documents(ask(view, question))
        assert lacks_what_is_named(asked, choose(asked, ranked(asked, evidence(view, "설향")))) is None
    asked = of_documents(ask(view, "2018년 설향 당도 얼마예요?"))
    assert lacks_what_is_named(asked, choose(asked, ranked(asked, evidence(view, "설향")))) is not None


def test_a_month_row_stands_alone_only_where_it_answers_best(view: View) -> None:
    asked = ask(view, "3월 2동 배액률 얼마였어?")
    scored = ranked(asked, evidence(view, "2026-03-12", "2026-03_급액배액"))
    (row,) = [s for s in scored if s.exact]
    assert max(scored, key=lambda s: s.relevance) is row
    assert choose(asked, scored) == [row]
    higher = [s if s is row else replace(s, relevance=row.relevance + 1) for s in scored]
    assert len(choose(asked, higher)) > 1


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("3월에 2동에 준 물이 얼마예요?", "급액량: 9100L"),
        ("3월 2동 제일 추운 날 몇 도였죠", "최저온도: 4.4℃"),
        ("3월 2동 딸기 전부 해서 몇 키로 나갔나요", "월 합계: 561kg"),
    ],
)
def test_a_month_is_asked_for_in_many_words(tmp_path: Path, question: str, told: str) -> None:
    files = {
        "급액배액/2026-03_급액배액_요약.csv": "동,작목,배액률(%),급액량(L)\n2동,딸기,33,9100\n",
        "센서/2026-03_센서요약.csv": "동,작목,최고온도(℃),최저온도(℃)\n2동,딸기,29.1,4.4\n",
        "수확/2026-03_수확기록.csv": "동,작목,특(kg),월 합계(kg)\n2동,딸기,211,561\n",
    }
    view = stored(tmp_path, files)
    strict = answerer(records=2.0)
    asked, items = ask(view, question), evidence(view, "2026-03")
    given, support = strict.answer(asked, FusedEvidence(items=tuple(items)), (), 5, Recorder())
    # the very record that is asked for is told however weak its words are
    assert not given.refused
    assert told in given.text
    assert support is not None
    assert support.row == 1
    vague = ask(view, "2동 딸기 어땠어")
    assert strict.answer(vague, FusedEvidence(items=tuple(items)), (), 5, Recorder())[0].refused


def test_what_expired_is_told_where_it_is_asked_for(view: View) -> None:
    names = ("등록_딸기_응애", "병해충/흰가루병")
    for question in ("딸기 응애 약 중에 등록 만료된 거 알려줘", "유효기간 지난 딸기 응애 약 있어요?"):
        given = answer(view, question, *names)
        assert [s.text.partition("(")[0] for s in given.sentences] == ["레피멕틴 유제"]
        assert "등록 유효기간이 지났습니다" in given.text


def test_months_with_a_figure_come_before_those_without(tmp_path: Path) -> None:
    files = {
        "수확/2026-10_수확기록.csv": "동,작목,특(kg),월 합계(kg)\n1동,딸기,0,수확 없음\n2동,딸기,0,수확 없음\n",
        "수확/2026-11_수확기록.csv": "동,작목,특(kg),월 합계(kg)\n1동,딸기,0,수확 없음\n2동,딸기,0,수확 없음\n3동,딸기,9,1486\n",
    }
    view = stored(tmp_path, files)
    asked = ask(view, "10월이랑 11월 수확량 비교해줘")
    found = choose(asked, ranked(asked, evidence(view, "2026-1")), Limits(2, 400))
    assert [(s.chunk.date[:7], "1486" in s.text) for s in found] == [("2026-10", False), ("2026-11", True)]


def test_a_list_says_that_there_may_be_more(view: View) -> None:
    names = ("2025-03-10", "2026-03-12")
    listed = answer(view, "작업일지에서 2동 배액률 잰 날 목록 알려줘", *names)
    assert listed.lead == "작업일지 2건에서 찾았습니다. 더 있을 수 있습니다."
    assert answer(view, "2동 배액률 적어 둔 일지 찾아줘", *names).lead == "작업일지 2건에서 찾았습니다."


@pytest.mark.parametrize(
    ("question", "registration"),
    [
        ("오이 흰비단병 약 수확 며칠 전까지 쳐요", True),
        ("딸기 흰가루병은 몇 포기부터 약 쳐야 하나요", False),
        ("딸기 흰가루병 제초제 뭐 써요", True),
        ("우리는 친환경이라 농약을 못 쓰는데 흰가루병은 뭘로 막죠", False),
        ("딸기 흰가루병 약 말고 다른 방법", False),
    ],
)
def test_whether_registrations_are_asked_for(view: View, question: str, registration: bool) -> None:
    asked = ask(view, question)
    assert asked.registration is registration
    assert not asks_forbidden(asked)


@pytest.fixture(scope="module")
def sprayings(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Eight sprayings of a house this year, one of another house, one of last year, and a day without one."""
    days = [f"2026-{month:02}-05" for month in range(2, 10)]
    told = {day: "2동에 흰가루병 약을 살포했다." for day in days}
    told |= {"2026-10-05": "3동에 흰가루병 약을 살포했다.", "2025-05-05": "2동에 흰가루병 약을 살포했다."}
    told |= {"2026-10-06": "2동 잎을 땄다."}
    files = {
        f"작업일지/{day}_작업일지_김주임.txt": f"작업일지\n작성자: 김주임\n작성일: {day}\n\n{text}\n"
        for day, text in told.items()
    }
    return stored(tmp_path_factory.mktemp("sprayings"), files)


def test_all_sprayings_of_a_time_are_looked_up_and_counted(sprayings: View) -> None:
    given = answer(sprayings, "올해 2동 방제 몇 번 했어?", "2026-02-05")
    assert given.lead == "살포를 적은 기록 8건을 찾았습니다. 그 가운데 6건입니다."
    assert len(given.sentences) == 6
    assert all("2동" in s.text and s.text.startswith("2026") for s in given.sentences)
    few = answer(sprayings, "올해 3동 방제 몇 번 했어?", "2026-02-05")
    assert few.lead == ""
    assert [s.text[:10] for s in few.sentences] == ["2026-10-05"]


def test_a_product_is_asked_for_of_the_records(sprayings: View, tmp_path: Path) -> None:
    other = answer(sprayings, "올해 2동 총채벌레 방제 몇 번 했어?", "2026-02-05", "2026-03-05")
    assert other.refused  # sprayings against something else are none
    files = {
        "농약등록/딸기/총채.md": "# 딸기 총채벌레 등록 농약\n\n- 심볼 수화제(상표 현농솔루션, 한국회사): 희석배수 500배, 수확 3일 전까지, 2회 이내.\n"
    }
    public = stored(tmp_path, files, Scope())
    assert ask(public, "딸기 총채벌레 현농솔루션 몇 배").products == ("현농솔루션",)


def test_short_names_of_substances_are_left_out(sheets: View) -> None:
    asked = ask(sheets, "오이 뿌리혹선충 약 이미시아는 빼고 뭐 있어요?")
    assert asked.products_left_out == ("이미시아포스",)
    found = choose(asked, ranked(asked, evidence(sheets, "오이/선충")))
    assert [registered_names(s.candidate.text)[0] for s in found] == ["선충탄"]


@pytest.mark.parametrize(
    ("question", "registration"),
    [
        ("오이 뿌리혹선충 머 쳐야돼 며칠전까지", True),
        ("오이 뿌리혹선충 희석배수좀", True),
        ("오이 뿌리혹선충 입제로 된거 뭐있냐", True),
        ("오이 뿌리혹선충은 왜 생겨요", False),
        ("등록 안 된 농약 쓰다 걸리면 얼마 무나", False),
    ],
)
def test_a_pesticide_is_asked_for_in_many_words(sheets: View, question: str, registration: bool) -> None:
    asked = ask(sheets, question)
    assert (asked.registration or asked.dose) is registration


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("작년 3월 2동 오이 배액률", "‘오이’ 기록이 없습니다. 기록이 있는 작목: 딸기"),
        ("작년 3월 2동 딸기 배액률", None),
        ("작년 3월 2동 수온 몇 도였어", "‘수온’ 기록을 찾지 못했습니다."),
    ],
)
def test_what_no_record_tells_is_named(view: View, question: str, note: str | None) -> None:
    asked = ask(view, question)
    found = choose(asked, ranked(asked, evidence(view, "2025-03-10", "2026-03_급액배액")))
    assert found or note is None
    assert lacks_what_is_named(asked, found) == note


def test_the_items_of_a_list_come_with_the_sentence_that_leads_in(tmp_path: Path) -> None:
    text = (
        "# 계절근로자 고용\n\n고용한 자는 다음 각 호의 보험에 가입하여야 한다.\n\n1. 임금체불 보증보험\n2. 농어업인 안전보험\n\n"
        "계약서는 두 부를 쓴다.\n"
    )
    view = stored(tmp_path, {"법령/고용.md": text}, Scope())
    asked = ask(view, "고용한 자는 무슨 보험에 가입해요?")
    scored = ranked(asked, evidence(view, "고용"))
    lead = next(s for s in scored if "다음 각 호" in s.text)
    found = choose(asked, [replace(s, relevance=9.0 if s is lead else -9.0) for s in scored])
    assert [s.text for s in found] == [lead.text, "임금체불 보증보험", "농어업인 안전보험"]


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("딸기 갈색주름바이러스는 증상이 어때요", "‘갈색주름바이러스’을(를) 적은 문서를 찾지 못했습니다."),
        ("딸기흰가루병은 증상이 어때요", None),
        ("딸기에 무슨 병이 와요", None),
        ("24년산 딸기 흰가루병 피해 얼마예요", "2024년의 것을 적은 문장을 찾지 못했습니다."),
    ],
)
def test_a_pest_and_a_short_year_that_nothing_tells_of(view: View, question: str, note: str | None) -> None:
    asked = of_documents(ask(view, question))
    assert lacks_what_is_named(asked, choose(asked, ranked(asked, evidence(view, "병해충/흰가루병")))) == note
