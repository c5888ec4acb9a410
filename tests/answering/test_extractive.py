"""The extractive answerer on a small store: which sentences it picks, how it says them, and when it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from rag.answering import extractive
from rag.answering.calibration import Calibration, RefusalModel
from rag.answering.extractive import (
    NOT_FOUND,
    Asked,
    ExtractiveAnswerer,
    aspects_of,
    candidates_of,
    choose,
    figure_asked,
    hard_terms,
    is_label,
    lead_of,
    missing_terms,
    rank_sentences,
    refusal,
    spoken_row,
)
from rag.query.features import read_question
from rag.schema import VECTOR, ChunkRecord, Evidence, FusedEvidence, Query, Scope, Vote
from rag.stores.view import View
from rag.text import korean
from tests.contract.conftest import open_views, take_in
from tests.fakes import FakeEmbedder

NOW = datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Asia/Seoul"))
HAETSAL = Scope(farm_id="haetsal")

PUBLIC_FILES = {
    "재배/딸기_양액.md": "# 딸기 양액\n\n딸기 급액 EC는 센서로 잰다. 딸기 급액 EC는 1.2dS/m로 둔다.\n",
    "재배/토마토_양액.md": "# 토마토 양액\n\n토마토 급액 EC는 2.5dS/m로 둔다. 토마토 급액은 해 뜨고 시작한다.\n",
    "재배/야간.md": "# 온실 밤 관리\n\n야간 습도는 80%로 둔다. 야간 온도는 8℃로 둔다.\n",
    "재배/긴_글.md": "# 환기\n\n"
    + " ".join(f"환기 {word} 천창을 조금씩 열어 {word} 바람을 들인다." for word in "가나다라마바사아자차카타파하")
    + "\n",
    "병해충/흰가루병.md": "# 딸기 흰가루병\n\n작성일: 2026-01-05\n\n흰가루병은 건조하면 번진다. 병든 잎을 따서 태운다.\n",
    "병해충/담배가루이.md": "# 토마토 담배가루이\n\n담배가루이는 바이러스를 옮긴다.\n",
}
FARM_FILES = {
    "작업일지/2025-03-10_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n2동 배액률을 재니 25%였다.\n",
    "작업일지/2026-03-12_작업일지_박반장.txt": "작업일지\n작성자: 박반장\n\n2동 배액률을 재니 35%였다.\n",
    "작업일지/2026-11-24_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n"
    "1동 급액 EC를 1.1로 맞췄다.\n\n2동 급액 EC를 1.2로 맞췄다.\n\n12동 급액 EC를 1.3으로 맞췄다.\n",
    "급액배액/2026-03_급액배액_요약.csv": "동,작목,배액률(%),급액 EC(dS/m)\n1동,딸기,31,1.1\n2동,딸기,33,1.2\n",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    take_in(folder, "public", PUBLIC_FILES, tmp_path_factory.mktemp("sources"))
    take_in(folder, "farm:haetsal", FARM_FILES, tmp_path_factory.mktemp("sources"))
    return folder


@pytest.fixture(scope="module")
def view(store: Path) -> View:
    return open_views(store).get(HAETSAL)


def ask(view: View, text: str, *, encoder: bool = False) -> Asked:
    """A question as read; without an encoder every sentence is equally near."""
    features, analysis = read_question(
        Query(text=text, scope=HAETSAL, asked_at=NOW), korean(), view.catalogue, "햇살농원"
    )
    return Asked(
        text=text,
        features=features,
        vector=FakeEmbedder().encode_query(text) if encoder else None,
        types={m.name: m.type for m in analysis.mentions},
        view=view,
        encode=FakeEmbedder().encode_passages,
    )


def evidence(view: View, *names: str) -> list[Evidence]:
    """Passages whose document id holds one of ``names``, in that order."""
    level = view.levels["G2"]
    chunks = view.chunks(list(zip(level.scope_of, level.chunk_ids, strict=True)))
    ordered = [c for name in names for c in sorted(chunks.values(), key=lambda c: c.ordinal) if name in c.doc_id]
    assert ordered
    vote = Vote(channel=VECTOR, rank=1, weight=1.0, value=1.0, share=1.0)
    return [Evidence(chunk=chunk, score=1.0, votes=(vote,)) for chunk in ordered]


def relevances(view: View, question: str, *names: str, encoder: bool = False) -> dict[str, float]:
    """Sentence → relevance."""
    scored = rank_sentences(ask(view, question, encoder=encoder), evidence(view, *names))
    return {s.candidate.text: s.relevance for s in scored}


def best(found: dict[str, float]) -> str:
    return max(found, key=lambda sentence: found[sentence])


def answerer(threshold: float = 0.0) -> ExtractiveAnswerer:
    """An answerer that never refuses by level (0), or always (2)."""
    parts = {field.name: 0.0 for field in fields(RefusalModel)} | {"threshold": threshold}
    return ExtractiveAnswerer(
        Calibration(encoder=FakeEmbedder.model_name, citation_threshold=0.9, refusal=RefusalModel(**parts))
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


def test_a_better_place_counts(view: View) -> None:
    first = relevances(view, "급액 EC", "딸기_양액", "토마토_양액")
    second = relevances(view, "급액 EC", "토마토_양액", "딸기_양액")
    sentence = "딸기 급액 EC는 1.2dS/m로 둔다."
    assert first[sentence] > second[sentence]


def test_a_sentence_on_another_house_is_held_back(view: View) -> None:
    found = relevances(view, "2동 급액 EC", "2026-11-24")
    assert best(found) == "2동 급액 EC를 1.2로 맞췄다."
    assert found["1동 급액 EC를 1.1로 맞췄다."] == pytest.approx(
        found["12동 급액 EC를 1.3으로 맞췄다."]
    )  # 12동 is not 2동
    assert best(relevances(view, "12동 급액 EC", "2026-11-24")) == "12동 급액 EC를 1.3으로 맞췄다."
    none = relevances(view, "급액 EC", "2026-11-24")
    assert len({round(value, 6) for value in none.values()}) == 1


def test_a_monthly_table_is_preferred_when_a_month_is_asked_for(view: View) -> None:
    names = ("2026-03-12", "2026-03_급액배액")
    month, day = (relevances(view, f"{when} 배액률", *names) for when in ("3월", "3월 12일"))
    gain = {sentence: month[sentence] - day[sentence] for sentence in month}
    (log,) = [s for s in gain if "재니" in s]
    rows = [s for s in gain if "작목" in s]
    assert len(rows) == 2
    assert all(gain[row] > gain[log] + 0.01 for row in rows)


def test_a_passage_on_another_crop_is_held_back(view: View) -> None:
    asked = ask(view, "토마토 급액 EC")
    assert hard_terms(asked) == ["토마토"]
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
    assert "가루이류" in hard_terms(asked)
    assert missing_terms(asked, evidence(view, "담배가루이")[0].chunk) == []
    assert missing_terms(asked, evidence(view, "흰가루병")[0].chunk) == ["가루이류"]


def test_no_evidence_no_sentences(view: View) -> None:
    assert rank_sentences(ask(view, "딸기 EC"), []) == []


# --- choice -----------------------------------------------------------------------------------------------


def chosen_texts(view: View, question: str, *names: str) -> list[str]:
    asked = ask(view, question)
    return [s.candidate.text for s in choose(rank_sentences(asked, evidence(view, *names)), aspects_of(asked))]


def test_at_most_so_many_sentences_and_characters(view: View) -> None:
    found = choose(rank_sentences(ask(view, "환기 천창"), evidence(view, "긴_글")), [])
    assert 1 < len(found) <= extractive.MAX_SENTENCES
    assert sum(len(s.text) + 1 for s in found) <= extractive.MAX_CHARACTERS


def test_one_sentence_longer_than_the_limit_is_still_an_answer(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractive, "MAX_CHARACTERS", 5)
    assert len(choose(rank_sentences(ask(view, "환기 천창"), evidence(view, "긴_글")), [])) == 1


@pytest.mark.parametrize(
    ("question", "names", "first", "second"),
    [
        ("작년 3월이랑 올해 3월 2동 배액률 비교", ("2026-03-12", "2025-03-10"), "25%", "35%"),
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
    found = choose(rank_sentences(asked, evidence(view, *names)), aspects)[:2]
    assert first in found[0].candidate.text
    assert second in found[1].candidate.text


@pytest.mark.parametrize("question", ["딸기 급액 EC", "2동 급액 EC", "작년 3월 배액률", "2동 딸기 어제 급액 EC", ""])
def test_one_of_a_kind_is_no_comparison(view: View, question: str) -> None:
    assert aspects_of(ask(view, question)) == []


def test_a_side_that_no_sentence_is_about_is_left_open(view: View) -> None:
    found = chosen_texts(view, "2동이랑 9동 급액 EC 비교", "2026-11-24")
    assert found[0] == "2동 급액 EC를 1.2로 맞췄다."


def test_a_question_of_several_parts_takes_the_best_of_each(view: View) -> None:
    scored = rank_sentences(ask(view, "급액 EC"), evidence(view, "딸기_양액", "토마토_양액", "야간"))
    last = len(scored) - 1
    one, other = ([float(i == place) for i in range(len(scored))] for place in (last, 2))
    found = choose(scored, [], [one, other])
    assert found[0] is scored[last]
    assert scored[2] in found
    assert len(found) == len({id(s) for s in found})


def test_more_sides_than_sentences(view: View) -> None:
    sides = [lambda chunk, text: True] * (extractive.MAX_SENTENCES + 3)
    found = choose(rank_sentences(ask(view, "환기 천창"), evidence(view, "긴_글")), sides)
    assert len(found) == extractive.MAX_SENTENCES


def test_a_sentence_that_says_nothing_new_comes_later(view: View) -> None:
    one, other = rank_sentences(ask(view, "급액 EC"), evidence(view, "딸기_양액"))
    twin = replace(one, relevance=1.00)
    other_vector = np.zeros_like(one.candidate.vector)
    other_vector[-1] = 1.0
    other = replace(other, relevance=0.95, candidate=replace(other.candidate, vector=other_vector))
    assert choose([replace(one, relevance=1.01), twin, other], [])[:2][1] is other
    assert choose([replace(one, relevance=1.01), other], [])[1] is other


def test_a_much_weaker_sentence_is_left_out(view: View) -> None:
    one, other = rank_sentences(ask(view, "급액 EC"), evidence(view, "딸기_양액"))
    assert len(choose([replace(one, relevance=1.0), replace(other, relevance=0.01)], [])) == 1
    assert choose([], []) == []


def test_ties_follow_the_evidence(view: View) -> None:
    one, other = rank_sentences(ask(view, "급액 EC"), evidence(view, "딸기_양액"))
    pair = [replace(one, relevance=1.0), replace(other, relevance=1.0)]
    assert choose(pair, [])[0] is pair[0]


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
    found = [candidate.text for _, candidate in candidates_of(view, [item])]
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
        chunk_id="c", doc_id="d", section="", locator="", text="", level="G2", ordinal=0, **(given | fields_)
    )


@pytest.mark.parametrize(
    ("fields_", "lead"),
    [
        ({}, "2026-11-24 김주임"),
        ({"author": ""}, "2026-11-24"),
        ({"date": ""}, "제목"),
        ({"kind": "급액배액요약"}, "제목"),
        ({"scope_id": "public"}, ""),
    ],
)
def test_lead_of(fields_: dict[str, str], lead: str) -> None:
    assert lead_of(chunk(**fields_)) == lead


# --- answers ----------------------------------------------------------------------------------------------


def answer(view: View, question: str, *names: str, threshold: float = 0.0, top_k: int = 8):
    items = FusedEvidence(items=tuple(evidence(view, *names)))
    return answerer(threshold).answer(ask(view, question, encoder=True), items, (), top_k)[0]


def test_farm_records_read_by_date_each_under_its_day_once(view: View) -> None:
    given = answer(view, "작년 3월이랑 올해 3월 2동 배액률 비교", "2026-03-12", "2025-03-10")
    assert [s.text for s in given.sentences] == [
        "2025-03-10 김주임: 2동 배액률을 재니 25%였다.",
        "2026-03-12 박반장: 2동 배액률을 재니 35%였다.",
    ]
    same_day = answer(view, "1동이랑 2동 급액 EC 비교", "2026-11-24")
    assert [s.text.startswith("2026-11-24 김주임: ") for s in same_day.sentences[:2]] == [True, False]


def test_public_documents_read_by_rank(view: View) -> None:
    given = answer(view, "딸기랑 토마토 급액 EC 차이", "토마토_양액", "딸기_양액")
    titles = [s.citations[0].title for s in given.sentences]
    assert titles == sorted(titles, key=["토마토 양액", "딸기 양액"].index)
    assert not any(": " in s.text for s in given.sentences)


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
        said = sentence.text.removeprefix(f"{lead_of(source)}: ")
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


def test_without_evidence_it_refuses(view: View) -> None:
    given, _ = answerer().answer(ask(view, "딸기 EC"), FusedEvidence(items=()), (), 8)
    assert given.refused
    assert given.nearby == ()


def test_a_refusal_names_a_title_once(view: View) -> None:
    items = evidence(view, "딸기_양액", "딸기_양액", "야간")
    given = refusal(items, "llama.cpp", note="알림")
    assert (given.nearby, given.notes, given.answerer) == (("딸기 양액", "온실 밤 관리"), ("알림",), "llama.cpp")
