"""The question set: files are read strictly, gold is found or refused, the split is fair, scoring is exact."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path

import pytest

from eval.questions import (
    SETS_DIR,
    SPLIT_SEED,
    Question,
    QuestionError,
    assign_splits,
    build_set,
    load_questions,
    tune_questions,
)
from eval.scoring import contains_expected, normalise
from ingest.sample.build import CorpusManifest, build_corpus
from ingest.sample.farms import FARM_IDS, farm_events

SOURCES = tuple(f"source/{name}.jsonl" for name in ("knowledge", "logs", "calibration", "development", "fitting"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusManifest:
    return build_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def questions() -> tuple[Question, ...]:
    return load_questions(SETS_DIR / "farm.jsonl")


def _row(**changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "id": "X1",
        "question": "작년 5월 2동 배액률 얼마였어요?",
        "farm": "haetsal",
        "asked_at": "2026-12-01T09:00:00+09:00",
        "kind": "급배액",
        "crop": "토마토",
        "answerable": True,
        "fact_ids": [],
        "event_ids": [["haetsal.drain_rate_month.2025-05.2동"]],
        "expect": [["33.3"]],
        "near_miss": None,
        "note": "",
    }
    return row | changes


def _write(path: Path, *rows: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_question_is_read_with_its_types(tmp_path: Path) -> None:
    (question,) = load_questions(_write(tmp_path / "q.jsonl", _row()))
    assert question.event_ids == (("haetsal.drain_rate_month.2025-05.2동",),)
    assert question.asked_at.isoformat() == "2026-12-01T09:00:00+09:00"
    assert (question.gold, question.split) == ((), None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"answer": "33.3"}, "answer"),
        ({"expect": "33.3"}, "expect"),
        ({"expect": [[]]}, "expect"),
        ({"expect": []}, "X2"),
        ({"asked_at": "2026-12-01T09:00:00"}, "asked_at"),
        ({"asked_at": "어제"}, "asked_at"),
        ({"answerable": "yes"}, "answerable"),
        ({"answerable": False}, "X2"),
        ({"near_miss": "year"}, "near_miss"),
        ({"farm": None}, "farm"),
        ({"law": [["농지법"]]}, "law"),
        ({"split": "train"}, "split"),
        ({"id": "X1"}, "X1"),
    ],
)
def test_a_faulty_line_is_refused_with_its_number(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    path = _write(tmp_path / "q.jsonl", _row(), _row(id="X2") | changes)
    with pytest.raises(QuestionError, match=r"q\.jsonl:2: ") as error:
        load_questions(path)
    assert named in str(error.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    row = _row()
    del row["kind"]
    with pytest.raises(QuestionError, match=r"q\.jsonl:1: .*kind"):
        load_questions(_write(tmp_path / "q.jsonl", row))


def test_the_committed_set_is_what_the_sources_build(
    corpus: CorpusManifest, tmp_path: Path, questions: tuple[Question, ...]
) -> None:
    for name in SOURCES:
        _write(tmp_path / name).write_bytes((SETS_DIR / name).read_bytes())
    assert build_set(corpus.target, tmp_path) == questions
    for name in ("farm.jsonl", "farm_tune.jsonl"):
        assert (tmp_path / name).read_bytes() == (SETS_DIR / name).read_bytes()
    assert all(question.split == "tune" for question in load_questions(SETS_DIR / "farm_tune.jsonl"))


def test_fitting_takes_every_tune_question_and_no_test_question(
    tmp_path: Path, questions: tuple[Question, ...]
) -> None:
    fitted = tune_questions()
    assert {q.split for q in fitted} == {"tune"}
    own = load_questions(SETS_DIR / "farm_tune.jsonl")
    assert [q.id for q in fitted] == [q.id for q in (*questions, *own) if q.split == "tune"]
    written = [json.loads(line)["id"] for line in (SETS_DIR / "source/fitting.jsonl").read_text("utf-8").splitlines()]
    assert set(written) <= {q.id for q in fitted}
    texts = {q.question for q in questions if q.split == "test"}
    assert not texts & {q.question for q in fitted}
    _write(tmp_path / "farm.jsonl", _row(id="A", split="tune"), _row(id="B", split="test"))
    _write(tmp_path / "farm_tune.jsonl", _row(id="C", split="tune"))
    assert [q.id for q in tune_questions(tmp_path)] == ["A", "C"]


def test_every_gold_document_exists_and_is_visible_to_the_asker(
    corpus: CorpusManifest, questions: tuple[Question, ...]
) -> None:
    known = {f"public/{e.path}" if e.scope == "public" else f"farm:{e.scope}/{e.path}" for e in corpus.entries}
    for question in questions:
        documents = {document for group in question.gold for document in group}
        assert documents <= known
        assert bool(documents) == question.answerable
        assert all(d.startswith(("public/", f"farm:{question.farm}/")) for d in documents), question.id


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"event_ids": [["haetsal.drain_rate_month.2023-05.2동"]]}, "2023-05"),
        ({"event_ids": [["pureun.drain_rate_month.2025-05.2동"]]}, "다른 농장"),
        ({"event_ids": [], "fact_ids": [["없는-사실"]]}, "없는-사실"),
        ({"event_ids": [], "law": [["농지법", "제999조"]]}, "제999조"),
        ({"event_ids": [], "registration": [["토마토", "없는병"]]}, "없는병"),
    ],
)
def test_gold_that_cannot_be_found_names_the_question(
    corpus: CorpusManifest, tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    for name in SOURCES:
        _write(tmp_path / name)
    _write(tmp_path / "source/logs.jsonl", _row(id="X7") | changes)
    with pytest.raises(QuestionError, match="X7") as error:
        build_set(corpus.target, tmp_path)
    assert named in str(error.value)
    assert not (tmp_path / "farm.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "gold"),
    [
        ({"registration": [["착색단고추", "응애류"]]}, "public/농약등록/파프리카/파프리카_응애류."),
        ({"registration": [["방울토마토", "담배가루이"]]}, "public/농약등록/방울토마토/방울토마토_담배가루이."),
        ({"registration": [["토마토(방울토마토포함)", "역병"]]}, "public/농약등록/토마토/토마토_역병."),
        ({"law": [["농지법", "제24조의2"]]}, "public/법령/농지법/제24조의2_"),
        ({"event_ids": [["haetsal.drain_rate_month.2025-05.2동"]]}, "farm:haetsal/급액배액/2025-05_급액배액_요약."),
    ],
)
def test_gold_is_the_document_that_states_it(
    corpus: CorpusManifest, tmp_path: Path, changes: dict[str, object], gold: str
) -> None:
    for name in SOURCES:
        _write(tmp_path / name)
    _write(tmp_path / "source/logs.jsonl", _row(event_ids=[]) | changes)
    (question,) = build_set(corpus.target, tmp_path)
    ((document,),) = question.gold
    assert document.startswith(gold)


def _notations(day: str) -> str:
    if len(day) != len("2026-01-01"):
        return day
    moment = date.fromisoformat(day)
    return f"{day} {moment.month}월 {moment.day}일"


def test_expected_answers_stand_in_the_ledger_and_are_not_from_the_future(questions: tuple[Question, ...]) -> None:
    events = {event.event_id: event for farm_id in FARM_IDS for event in farm_events(farm_id)}
    said: dict[tuple[str, str], list[str]] = defaultdict(list)
    for e in events.values():
        said[e.farm_id, e.path] += [_notations(e.date), e.house, e.author, e.subject, f"{e.value}{e.unit}", e.note]
    for question in questions:
        named = [events[name] for group in question.event_ids for name in group]
        text = "\n".join(line for event in named for line in said[event.farm_id, event.path])
        for group in question.expect if named else ():
            assert contains_expected(text, [group]), (question.id, group)
        for event in named:
            last_day = event.date if len(event.date) == len("2026-01-01") else f"{event.date}-31"
            assert last_day <= question.asked_at.date().isoformat(), question.id


def test_the_set_is_large_enough(questions: tuple[Question, ...]) -> None:
    assert len(questions) >= 360
    assert sum(not question.answerable for question in questions) >= 75
    assert len({question.asked_at for question in questions}) >= 3


def test_some_questions_are_asked_on_both_farms_with_different_answers(questions: tuple[Question, ...]) -> None:
    answers: dict[tuple[str, object], dict[str, object]] = defaultdict(dict)
    for question in questions:
        if question.farm and question.answerable:
            answers[question.question, question.asked_at][question.farm] = question.expect
    pairs = [by_farm for by_farm in answers.values() if len(by_farm) == 2]
    assert len(pairs) >= 10
    assert all(by_farm["haetsal"] != by_farm["pureun"] for by_farm in pairs)


def test_the_split_is_a_fifth_of_every_kind_and_keeps_equal_wordings_together(
    questions: tuple[Question, ...],
) -> None:
    everything = Counter((question.kind, question.answerable) for question in questions)
    tune = Counter((question.kind, question.answerable) for question in questions if question.split == "tune")
    assert all(abs(tune[key] - count / 5) <= 1.5 for key, count in everything.items())
    assert abs(sum(tune.values()) - len(questions) / 5) <= 2
    sides: dict[tuple[str, str, bool], set[str | None]] = defaultdict(set)
    for question in questions:
        sides[question.question, question.kind, question.answerable].add(question.split)
    assert all(len(side) == 1 for side in sides.values())


def test_the_split_does_not_depend_on_the_order(questions: tuple[Question, ...]) -> None:
    again = assign_splits(reversed(questions))
    assert {question.id: question.split for question in again} == {q.id: q.split for q in questions}
    assert str(SPLIT_SEED) in (SETS_DIR / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("answer", "expect", "contained"),
    [
        ("배액률은 33.3%였습니다.", [["33.3"]], True),
        ("급액 EC는 1.5 dS/m입니다.", [["1.5dS/m"]], True),
        ("급액 EC는 1.5mS/cm입니다.", [["1.5 dS/m"]], True),
        ("EC 11.5", [["1.5"]], False),
        ("EC 1.55", [["1.5"]], False),
        ("EC 1.5", [["1"]], False),
        ("EC 1.5", [["5"]], False),
        ("EC는 1.5.", [["1.5"]], True),
        ("12동", [["2동"]], False),
        ("13일 전까지", [["3일"]], False),
        ("55∼68 %로 둔다", [["55~68"]], True),
        ("55-68%", [["55~68"]], True),
        ("155~68", [["55~68"]], False),
        ("55~680", [["55~68"]], False),
        ("밤에는 15도로", [["15℃"]], True),
        ("밤에는 15 °C로", [["15℃"]], True),
        ("15℃", [["15도"]], True),
        ("10도에서 25℃", [["25℃"], ["10도"]], True),
        ("합계 236,000원", [["236000"]], True),
        ("합계 236000원", [["236,000"]], True),
        ("합계 1,236,000원", [["236,000"]], False),
        ("희석배수 2,000배", [["2000배"]], True),
        ("3, 4, 5월", [["345"]], False),
        ("2025-03-04에 방제", [["3월 4일", "2025-03-04"]], True),
        ("2025-03-041", [["2025-03-04"]], False),
        ("03월 04일에 방제", [["3월 4일"]], True),
        ("13월 4일", [["3월 4일"]], False),
        ("A액 체크 밸브 막힘", [["체크밸브"]], True),
        ("a액", [["A액"]], True),
        ("33.3 2.5", [["33.3"], ["2.5"]], True),
        ("배액률 33.3. 2동은 31", [["33.3"], ["2동"], ["31"]], True),
        ("3, 456", [["3456"]], False),
        ("배액률은 **33.3** %", [["33.3%"]], True),
        ("55 ~ 68", [["55~68"]], True),
        ("5월, 6월", [["5월,6월"]], True),
        ("2동\n- 33.3\n- 31", [["33.3"], ["31"]], True),
        ("3월 4일뿐이다", [["3월 4일"], ["3월 18일"]], False),
        ("스톰프로 방제", [["플룩사피록사드", "스톰프"]], True),
        ("흰가루병", [["흰가루병"]], True),
    ],
)
def test_an_answer_contains_what_is_expected(answer: str, expect: list[list[str]], contained: bool) -> None:
    assert contains_expected(answer, expect) is contained


@pytest.mark.parametrize("expect", [[], [[]], [["1.5"], []], [[" "]]])
def test_an_empty_expectation_is_an_error(expect: list[list[str]]) -> None:
    with pytest.raises(ValueError, match="비어"):
        contains_expected("무엇이든", expect)


def test_normalisation_is_stable() -> None:
    text = "야간 15 °C, 급액 EC 1,200 mS/cm, 2025-03-04"
    assert normalise(text) == "야간15℃,급액ec1200ds/m,2025~03~04"
    assert normalise(normalise(text)) == normalise(text)
