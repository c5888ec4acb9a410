"""What the relevance of a sentence is made of, one feature at a time, on a small store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from pathlib import Path

import numpy as np
import pytest

from rag.answering.asked import Asked, share
from rag.answering.calibration import SentenceWeights
from rag.answering.sentences import (
    FEATURES,
    NO_TERMS,
    RERANKED,
    RERANKED_PART,
    Ranker,
    heading_of,
    named_share,
    passages_of,
    rank_sentences,
)
from rag.schema import ChunkRecord, Evidence, Passage, PlannedQuery, SentenceRecord, Vote
from rag.stores.view import View
from tests.answering.support import WEIGHTS, ask, evidence, ranked, stored
from tests.fakes import FakeEmbedder


def values(asked: Asked, items: Sequence[Evidence]) -> dict[str, dict[str, float]]:
    """Sentence → feature → value."""
    ranker = Ranker(asked, items, WEIGHTS)
    rows = ranker.features(asked.text, asked.vector, asked.weights, asked.figure, RERANKED)
    assert rows.shape == (len(ranker.candidates), len(FEATURES))
    return {
        one.text: dict(zip(FEATURES, row.tolist(), strict=True))
        for one, row in zip(ranker.candidates, rows, strict=True)
    }


def values_of(view: View, question: str, feature: str, *names: str) -> dict[str, float]:
    """Beginning of each sentence (two words) → value of one feature."""
    found = values(ask(view, question), evidence(view, *names))
    return {" ".join(text.split()[:2]): row[feature] for text, row in found.items()}


def test_every_feature_has_a_weight_of_its_name() -> None:
    assert tuple(field.name for field in fields(SentenceWeights)) == FEATURES


# --- what the question asks for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "humidity", "temperature"),
    [
        ("야간 몇 도로 둬요?", (0, 0), (1, 0)),  # 80% is no temperature, but a figure
        ("야간 몇 퍼센트로 둬요?", (1, 0), (0, 0)),
        ("야간 얼마로 둬요?", (1, 0), (1, 0)),
        ("야간 습도", (0, 0), (0, 0)),  # no quantity is asked for
        ("야간 몇 도, 몇 퍼센트로 둬요?", (1, 0), (1, 0)),  # either answers a part
        ("야간 며칠 동안 얼마나 줄어요?", (1, 0), (1, 0)),  # a share, or any figure
    ],
)
def test_a_figure_in_the_asked_unit(
    view: View, question: str, humidity: tuple[int, int], temperature: tuple[int, int]
) -> None:
    found = values(ask(view, question), evidence(view, "야간"))
    pairs = {text: (row["figure"], row["no_figure"]) for text, row in found.items()}
    assert pairs == {"야간 습도는 80%로 둔다.": humidity, "야간 온도는 8℃로 둔다.": temperature}


def test_a_sentence_without_a_figure_where_one_is_asked_for(view: View) -> None:
    texts = values(ask(view, "딸기 양액 얼마로 둬요?"), evidence(view, "딸기_양액"))
    assert texts["딸기 급액 EC는 센서로 잰다."]["no_figure"] == 1
    assert texts["딸기 급액 EC는 1.2dS/m로 둔다."]["no_figure"] == 0


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("배꼽썩음과는 왜 생겨?", [0, 0, 1, 1]),  # cause and remedy
        ("배꼽썩음과 증상은 왜 생겨?", [0, 1, 1, 1]),
        ("칼슘 몇 g 줘요?", [0, 0, 0, 0]),  # no question on a disorder
    ],
)
def test_a_sentence_that_tells_what_is_wanted_of_a_disorder(view: View, question: str, told: list[int]) -> None:
    found = values_of(view, question, "role", "배꼽썩음과")
    assert list(found) == ["배꼽썩음과는 과실에", "과실의 배꼽이", "배꼽썩음과는 칼슘", "염화칼슘액을 잎에"]
    assert list(found.values()) == told


# --- what is named ----------------------------------------------------------------------------------------


def test_the_share_of_terms_that_a_sentence_with_its_headings_names(view: View) -> None:
    found = values_of(view, "토마토 흰가루병은 왜 생겨?", "names", "담배가루이", "야간")
    assert found == {"담배가루이는 바이러스를": 0.5, "야간 습도는": 0, "야간 온도는": 0}  # 토마토 by its title
    found = values_of(view, "딸기 흰가루병은 왜 생겨?", "names", "병해충/흰가루병")
    assert set(found.values()) == {1.0}
    assert set(values_of(view, "잘 모르겠어요", "names", "야간").values()) == {NO_TERMS}


def test_named_share_knows_no_case_and_reads_terms_of_two_words(view: View) -> None:
    asked = ask(view, "딸기 흰가루병")
    found = Ranker(asked, evidence(view, "야간"), WEIGHTS).candidates
    one = next(candidate for candidate in found if "온도" in candidate.text)
    assert named_share(asked, one, ("딸기",)) == 0.5
    assert named_share(asked, one, ("흰가루병", "딸기", "잎")) == 1.0
    assert named_share(asked, one, ()) == 0.0
    upper = replace(asked, features=replace(asked.features, entities=("EC",)))
    assert named_share(upper, one, ("ec",)) == named_share(upper, one, ("EC",)) == 1.0
    written = replace(asked, features=replace(asked.features, entities=("야간온도", "주간온도")))
    assert named_share(written, one, ()) == 0.5  # "야간 온도는 …" as it is written


def test_the_share_of_named_terms_that_the_passage_is_not_about(view: View) -> None:
    question = "토마토 흰가루병은 왜 생겨?"
    found = values_of(view, question, "missing", "담배가루이", "야간", "병해충/흰가루병")
    # the night's passage is on no crop, the whitefly's on tomato; powdery mildew's is on strawberry and left out
    assert found == {"담배가루이는 바이러스를": 0.5, "야간 습도는": 0.5, "야간 온도는": 0.5}
    assert set(values_of(view, "딸기 흰가루병은 왜 생겨?", "missing", "병해충/흰가루병").values()) == {0}
    assert set(values_of(view, "멜론 흰가루병은 왜 생겨?", "missing", "야간").values()) == {1}


def test_a_sentence_of_no_named_house(view: View) -> None:
    found = values_of(view, "2동 급액 EC", "house", "2026-11-24", "2026-10-05", "2026-10-06")
    assert found == {
        "2동 급액": 0,  # names it
        "급액 EC": 1,  # of a day on two houses
        "EC 센서를": 0,  # of a day on this house alone
        "2동에서는 걸렀다.": 0,
    }
    assert set(values_of(view, "급액 EC", "house", "2026-10-05").values()) == {0}


# --- records ----------------------------------------------------------------------------------------------


def test_the_record_that_the_slots_name(view: View) -> None:
    names = ("2026-03-12", "2026-03_급액배액")
    assert values_of(view, "3월 2동 배액률", "record", *names) == {"2동 배액률을": 0, "동: 2동,": 1}
    assert values_of(view, "2동 배액률", "record", *names) == {"2동 배액률을": 0, "동: 2동,": 0}  # no month
    # a change is not read off a table
    assert values_of(view, "3월 2동 배액률 바꾼 이유", "record", *names) == {"2동 배액률을": 0, "동: 2동,": 0}
    exact = {s.candidate.text.split()[0]: s.exact for s in ranked(ask(view, "3월 2동 배액률"), evidence(view, *names))}
    assert exact == {"2동": False, "동:": True}


# --- words and nearness -----------------------------------------------------------------------------------


def test_the_last_spraying_is_a_record_without_a_day(tmp_path: Path) -> None:
    log = "작업일지\n작성자: 박반장\n\n2동에 메트라페논 2000배액을 살포했다. 2동 잎을 땄다.\n"
    view = stored(tmp_path, {"작업일지/2026-10-05_작업일지.txt": log})
    for question, record in (("마지막으로 약 친 날 언제야", 1), ("약 친 날 언제야", 0)):
        asked = ask(view, question)
        assert asked.record
        found = values(asked, evidence(view, "작업일지"))
        assert [row["record"] for text, row in found.items() if "살포" in text] == [record]


def test_the_last_sprayings_are_looked_up(tmp_path: Path) -> None:
    def log(text: str) -> str:
        return f"작업일지\n작성자: 박반장\n\n{text}\n"

    days = [f"2026-{month:02d}-{day:02d}" for month in range(1, 11) for day in (5, 15)]
    files = {
        f"작업일지/{day}_작업일지.txt": log(f"2동에 메트라페논 {n}00L를 살포했다.") for n, day in enumerate(days, 1)
    }
    files["작업일지/2026-11-20_작업일지.txt"] = log("1동에 흰가루병 방제로 나라크 2000배액을 살포했다.")
    files["작업일지/2026-11-25_작업일지.txt"] = log("2동 잎을 땄다.")
    files["작업일지/2027-01-05_작업일지.txt"] = log("2동에 메트라페논 2000배액을 살포했다.")  # later than the question
    view = stored(tmp_path, files)
    old = evidence(view, "2026-01-05")

    def found(question: str) -> list[str]:
        return sorted({chunk.date for chunk in passages_of(ask(view, question), old)} - {"2026-01-05"}, reverse=True)

    assert found("마지막으로 약 친 날 언제야") == ["2026-11-20", *reversed(days[-5:])]
    assert found("2동 마지막으로 약 친 날 언제야") == list(reversed(days[-6:]))
    assert found("흰가루병 마지막 방제 언제 했지") == ["2026-11-20"]
    assert found("2026년 3월 마지막 방제 언제 했지") == ["2026-03-15", "2026-03-05"]
    assert found("약 친 날 언제야") == []


def test_the_own_records_are_no_farm_elsewhere(view: View) -> None:
    items = evidence(view, "2026-11-24", "딸기_양액")
    own = [s.chunk.scope_id for s in ranked(ask(view, "급액 EC 얼마예요"), items)]
    elsewhere = [s.chunk.scope_id for s in ranked(ask(view, "화순 농장에서는 급액 EC 얼마예요"), items)]
    assert set(own) == {"public", "farm:haetsal"}
    assert set(elsewhere) == {"public"}


def test_words_of_the_sentence_and_of_its_passage(view: View) -> None:
    asked = ask(view, "병든 잎 따는 딸기 흰가루병 날씨")
    (item,) = evidence(view, "병해충/흰가루병")
    found = values(asked, [item])
    for text, row in found.items():
        start = item.chunk.text.index(text)
        tokens = view.cited_tokens(item.chunk.chunk_id, start, start + len(text))
        assert row["words"] == pytest.approx(share(asked.weights, tokens))
        assert row["context"] == pytest.approx(share(asked.weights, view.chunk_tokens(item.chunk.chunk_id)))
    dry, leaf = found.values()
    assert 0 < dry["words"] < leaf["words"] <= leaf["context"] == dry["context"] < 1


def test_the_context_of_a_record_is_all_of_its_passages(view: View) -> None:
    items = evidence(view, "회의록")
    assert len(items) > 1
    asked = ask(view, "10월 20일 회의 급액 EC 센서")
    assert asked.record
    tokens = [view.chunk_tokens(item.chunk.chunk_id) for item in items]
    whole = share(asked.weights, [token for passage in tokens for token in passage])
    assert max(share(asked.weights, passage) for passage in tokens) < whole
    found = {row["context"] for row in values(asked, items).values()}
    assert list(found) == [pytest.approx(whole)]


def test_cosines_with_sentence_and_passage(view: View) -> None:
    asked = ask(view, "딸기 급액 EC 센서", encoder=True)
    (item,) = evidence(view, "딸기_양액")
    assert asked.vector is not None
    found = values(asked, [item])
    vectors = FakeEmbedder().encode_passages(list(found))
    assert [row["similarity"] for row in found.values()] == pytest.approx((vectors @ asked.vector).tolist())
    level = view.levels["G2"]
    passage = level.vector(level.row_of[item.chunk.chunk_id])
    assert [row["passage"] for row in found.values()] == pytest.approx([float(passage @ asked.vector)] * 2)
    without = values(replace(asked, vector=None), [item])
    assert {(row["similarity"], row["passage"]) for row in without.values()} == {(0, 0)}


def test_a_page_outside_the_index_is_as_near_as_its_best_sentence(view: View) -> None:
    texts = ("딸기 급액 EC는 낮춘다.", "팬을 돌린다.")
    vectors = FakeEmbedder().encode_passages(texts)
    ends = np.cumsum([len(text) for text in texts]).tolist()
    chunk = ChunkRecord(
        chunk_id="web", doc_id="web:1", scope_id="web", title="쪽", section="", locator="", kind="", crop="", date="",
        author="", text="".join(texts), level="G2", ordinal=0,
    )  # fmt: skip
    sentences = tuple(
        SentenceRecord(chunk_id="web", start=end - len(text), end=end, tokens=(), row=row)
        for row, (text, end) in enumerate(zip(texts, ends, strict=True))
    )
    wider = view.plus([Passage(chunk=chunk, tokens=(), entities=frozenset(), sentences=sentences, vectors=vectors)])
    asked = replace(ask(view, "딸기 급액 EC", encoder=True), view=wider)
    vote = Vote(channel="vector", rank=1, weight=1.0, value=1.0, share=1.0)
    found = values(asked, [*evidence(view, "야간"), Evidence(chunk=chunk, score=1.0, votes=(vote,))])
    best = max(found[text]["similarity"] for text in texts)
    assert best == found[texts[0]]["similarity"] > found[texts[1]]["similarity"]
    assert [found[text]["passage"] for text in texts] == [best, best]


# --- relevance --------------------------------------------------------------------------------------------

QUESTIONS = [
    ("딸기 급액 EC 얼마로 둬요?", ("딸기_양액", "야간")),
    ("토마토 흰가루병은 왜 생겨?", ("담배가루이", "야간")),
    ("3월 2동 배액률", ("2026-03-12", "2026-03_급액배액")),
    ("2동 급액 EC", ("2026-11-24", "2026-10-05")),
]


@pytest.mark.parametrize(("question", "names"), QUESTIONS)
def test_relevance_is_features_times_weights(view: View, question: str, names: Sequence[str]) -> None:
    asked, items = ask(view, question, encoder=True), evidence(view, *names)
    weights = SentenceWeights(**{name: 1.5 * (n + 1) * (-1) ** n for n, name in enumerate(FEATURES)})
    scored = rank_sentences(asked, items, weights)
    rows = Ranker(asked, items, weights).features(asked.text, asked.vector, asked.weights, asked.figure, RERANKED)
    assert [s.features for s in scored] == [tuple(row) for row in rows.tolist()]
    for s in scored:
        assert s.relevance == pytest.approx(sum(w * x for w, x in zip(astuple(weights), s.features, strict=True)))
        assert s.cosine == s.features[FEATURES.index("similarity")]
    assert [s.number for s in scored] == list(range(len(scored)))


def test_a_part_is_scored_as_a_question_of_its_own(view: View) -> None:
    asked = ask(view, "딸기 급액 EC 몇 도 야간 습도", encoder=True)
    parts = (
        PlannedQuery(
            text="야간 몇 도", vector=FakeEmbedder().encode_query("야간 몇 도"), tokens=("야간", "온도"), entities=()
        ),
        PlannedQuery(text="딸기 양액", vector=None, tokens=("딸기",), entities=()),
    )
    items = evidence(view, "딸기_양액", "야간")
    scored = ranked(replace(asked, parts=parts), items)
    best = [max(scored, key=lambda s, part=part: s.parts[part]).candidate.text for part in range(2)]  # type: ignore[misc]
    assert best[0] == "야간 온도는 8℃로 둔다."
    assert best[1].startswith("딸기 급액 EC")
    assert [s.relevance for s in scored] == [s.relevance for s in ranked(asked, items)]
    assert {s.parts for s in ranked(asked, items)} == {()}


# --- the cross-encoder ------------------------------------------------------------------------------------


class Cross:
    """Remembers what it was given to read; the shorter a sentence, the surer its answer."""

    def __init__(self) -> None:
        self.read: dict[str, list[tuple[str, str]]] = {}

    def logits(self, question: str, sentences: Sequence[tuple[str, str]]) -> np.ndarray:
        self.read[question] = list(sentences)
        return np.array([3 - len(text) / 10 for _, text in sentences])


def test_the_likeliest_sentences_are_read_and_the_others_share_the_lowest(view: View) -> None:
    asked, items = ask(view, "딸기 급액 EC 얼마로 둬요?", encoder=True), evidence(view, "딸기_양액", "야간", "긴_글")
    cross, plain = Cross(), ranked(asked, items)
    ranker = Ranker(asked, items, WEIGHTS, cross)  # type: ignore[arg-type]
    rows = ranker.features(asked.text, asked.vector, asked.weights, asked.figure, 3)
    likeliest = sorted(plain, key=lambda s: -s.relevance)[:3]
    assert [text for _, text in cross.read[asked.text]] == [s.candidate.text for s in likeliest]
    assert cross.read[asked.text][0][0] == heading_of(likeliest[0].chunk, record=False)
    told = {s.candidate.text: 3 - len(s.candidate.text) / 10 for s in likeliest}
    lowest = min(told.values())
    expected = [told.get(one.text, lowest) for one in ranker.candidates]
    assert rows[:, -1].tolist() == pytest.approx(expected)
    assert len(ranker.candidates) > 3
    assert (rows[:, :-1] == np.array([s.features[:-1] for s in plain])).all()
    assert {s.features[-1] for s in plain} == {0.0}


def test_its_log_odds_are_weighed(view: View) -> None:
    asked, items = ask(view, "딸기 급액 EC 얼마로 둬요?", encoder=True), evidence(view, "딸기_양액", "야간")
    heavy = replace(WEIGHTS, cross=1000.0)
    scored = rank_sentences(asked, items, heavy, Cross())  # type: ignore[arg-type]
    by_length = sorted(scored, key=lambda s: len(s.candidate.text))
    assert max(scored, key=lambda s: s.relevance).candidate.text == by_length[0].candidate.text
    assert by_length[0].candidate.text != max(ranked(asked, items), key=lambda s: s.relevance).candidate.text


def test_a_part_is_read_for_itself(view: View) -> None:
    asked = ask(view, "딸기 급액 EC 몇 도 야간 습도", encoder=True)
    parts = (
        PlannedQuery(text="야간 몇 도", vector=None, tokens=("야간",), entities=()),
        PlannedQuery(text="딸기 양액", vector=None, tokens=("딸기",), entities=()),
    )
    cross = Cross()
    items = evidence(view, "딸기_양액", "야간", "긴_글")
    rank_sentences(replace(asked, parts=parts), items, WEIGHTS, cross)  # type: ignore[arg-type]
    assert list(cross.read) == [asked.text, "야간 몇 도", "딸기 양액"]
    n = len(Ranker(asked, items, WEIGHTS).candidates)
    assert [len(read) for read in cross.read.values()] == [min(n, RERANKED), *[min(n, RERANKED_PART)] * 2]


def test_headings(view: View) -> None:
    (chunk, *_) = [item.chunk for item in evidence(view, "2026-11-24")]
    assert heading_of(chunk, record=True) == f"{chunk.date} {chunk.title}"
    assert heading_of(replace(chunk, title="토마토", section="생육 > 온도"), record=False) == "토마토 > 생육 > 온도"
    assert heading_of(replace(chunk, title="토마토 생육", section="생육"), record=False) == "토마토 생육"
    assert heading_of(replace(chunk, title="토마토", section=""), record=False) == "토마토"


def test_the_last_spraying_of_a_house_with_a_letter(tmp_path: Path) -> None:
    log = "작업일지\n작성자: 박반장\n작성일: {day}\n\n{house}에 메트라페논 2000배액을 살포했다.\n"
    days = {"2026-09-05": "A동", "2026-10-05": "B동", "2026-11-05": "B동"}
    files = {f"작업일지/{day}_작업일지.txt": log.format(day=day, house=house) for day, house in days.items()}
    view = stored(tmp_path, files)
    asked = ask(view, "A동 마지막으로 약 친 날 언제야")
    found = {chunk.date for chunk in passages_of(asked, evidence(view, "2026-11-05"))}
    assert found == {"2026-09-05", "2026-11-05"}
