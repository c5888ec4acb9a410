"""What each figure of ``eval answers`` counts, on outcomes made by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.answers import (
    Cited,
    Labels,
    Outcome,
    _around,
    by_kind,
    differences,
    labelled_summary,
    load_labels,
    outcome_of,
    reference_of,
    spread,
    summary,
    token_f1,
)
from eval.kept import append_row, rows_kept
from eval.questions import SETS_DIR, Groups, Question, load_questions
from rag.schema import Answer, Citation, CitedSentence


def question(
    name: str = "Q1",
    *,
    expect: Groups = (("1.2",), ("20%",)),
    gold: Groups = (("public/a", "public/b"), ("public/c",)),
    answerable: bool = True,
    kind: str = "수치",
) -> Question:
    return Question(
        id=name,
        question="딸기 급액 EC와 배액률은?",
        farm=None,
        asked_at=datetime(2026, 12, 1, tzinfo=UTC),
        kind=kind,
        crop="딸기",
        answerable=answerable,
        fact_ids=(),
        expect=expect if answerable else (),
        near_miss=None,
        note="",
        gold=gold if answerable else (),
    )


def cited(text: str, *documents: str, verbatim: bool = True, contradicted: bool = False) -> Cited:
    citations = tuple((doc_id, text) for doc_id in documents)
    return Cited(text=text, citations=citations, verbatim=verbatim and bool(documents), contradicted=contradicted)


def outcome(*sentences: Cited, of: Question | None = None, refused: bool = False, reference: str = "") -> Outcome:
    return Outcome(question=of or question(), refused=refused, sentences=sentences, reference=reference)


EC, DRAIN = "급액 EC는 1.2dS/m로 둔다.", "배액률은 20%로 둔다."


def test_every_expected_fact_must_be_there_and_the_share_is_told_beside() -> None:
    row = summary([outcome(cited(EC, "public/a"), cited(DRAIN, "public/c")), outcome(cited(EC, "public/a"))])
    assert (row["expected_fact_recall"], row["expected_group_recall"]) == (0.5, 0.75)


@pytest.mark.parametrize(("sentences", "characters", "recall"), [(6, 0, 1.0), (7, 0, 0.0), (2, 401, 0.0)])
def test_a_long_answer_holds_nothing(sentences: int, characters: int, recall: float) -> None:
    filling = [cited("끝." + "가" * characters, "public/a") for _ in range(sentences - 2)] or [cited("나" * characters)]
    found = summary([outcome(cited(EC, "public/a"), cited(DRAIN, "public/c"), *filling)])
    assert found["expected_fact_recall"] == recall


def test_refusals_are_right_only_for_what_cannot_be_answered() -> None:
    no = question("N", answerable=False)
    row = summary(
        [
            outcome(refused=True),
            outcome(cited(EC, "public/a")),
            outcome(of=no, refused=True),
            outcome(of=no, refused=True),
            outcome(cited(EC, "public/a"), of=no),
        ]
    )
    assert row["refusal_precision"] == round(2 / 3, 4)
    assert row["refusal_recall"] == round(2 / 3, 4)
    assert row["expected_fact_recall"] == 0.0
    assert row["citation_precision"] == 1.0  # citations of answers that should not be there are no citations of gold


def test_nothing_to_divide_by_is_no_figure() -> None:
    row = summary([outcome(refused=True)])
    assert (row["refusal_recall"], row["unsupported_rate"], row["citation_precision"]) == (None, None, None)
    assert summary([])["expected_fact_recall"] is None


def test_unsupported_sentences_are_those_without_a_citation_that_is_on_file() -> None:
    row = summary(
        [
            outcome(
                cited(EC, "public/a"),
                cited(DRAIN),
                cited("지어낸 근거.", "public/a", verbatim=False),
                cited("근거와 다르다.", contradicted=True),
            )
        ]
    )
    assert (row["unsupported_rate"], row["contradicted_rate"]) == (0.75, 0.25)


def test_citations_count_against_the_gold_documents() -> None:
    row = summary([outcome(cited(EC, "public/a"), cited(DRAIN, "public/b", "public/x"))])
    assert row["citation_precision"] == round(2 / 3, 4)
    assert row["citation_recall"] == 0.5  # a and b are one group
    assert summary([outcome(cited(EC, "public/b"))])["citation_recall"] == 0.5  # any of a group will do
    assert row["all_rightly_cited"] == 0.0
    assert summary([outcome(cited(EC, "public/a"), cited(DRAIN, "public/c"))])["all_rightly_cited"] == 1.0
    assert summary([outcome(cited(EC, "public/a"), cited(DRAIN))])["all_rightly_cited"] == 0.0


def test_token_f1_counts_shared_content_tokens_as_a_multiset() -> None:
    assert token_f1(EC, EC) == 1.0
    assert token_f1(EC, "") == token_f1(EC, "온풍기 점검") == 0.0
    assert token_f1("딸기 딸기 딸기", "딸기 토마토") == pytest.approx(2 * 1 / (3 + 2))
    assert summary([outcome(cited(EC), reference=EC), outcome(refused=True, reference=EC)])["token_f1"] == 0.5


def test_kinds_are_summed_apart() -> None:
    found = by_kind([outcome(cited(EC)), outcome(refused=True, of=question(kind="일지"))])
    assert {kind: row["refused"] for kind, row in found.items()} == {"수치": 0, "일지": 1}


def test_differences_are_paired_by_question() -> None:
    full = [outcome(cited(EC, "public/a"), cited(DRAIN, "public/c"))] * 4
    half = [outcome(cited(EC, "public/a"))] * 3 + full[:1]
    assert differences(full, half)["expected_fact_recall"]["difference"] == 0.75
    assert differences(half, full)["expected_fact_recall"]["difference"] == -0.75


def labels() -> Labels:
    return Labels(
        evidence={
            ("Q1", "public/a", EC): frozenset({0}),
            ("Q1", "public/a", DRAIN): frozenset({1}),
            ("Q1", "public/a", "딸기는 붉다."): None,
        },
        sentences={("Q1", "엉뚱한 말."): False},
    )


def test_hand_judgements_count_only_what_was_judged() -> None:
    found = labelled_summary(
        [outcome(cited(EC, "public/a"), cited("딸기는 붉다.", "public/a"), cited("새 문장.", "public/z"))], labels()
    )
    assert (found["citation_precision"], found["judged_citations"], found["unjudged_citations"]) == (0.5, 2, 1)
    assert found["citation_recall"] == 0.5
    assert (found["off_question_rate"], found["judged_sentences"], found["unjudged_sentences"]) == (0.5, 2, 1)
    assert (found["all_rightly_cited"], found["fully_judged_answers"]) == (None, 0)


def test_an_answer_is_rightly_cited_when_all_of_it_is() -> None:
    right = outcome(cited(EC, "public/a"), cited(DRAIN, "public/a"))
    found = labelled_summary([right, outcome(cited(EC, "public/a"), cited("덧붙인 말."))], labels())
    assert (found["all_rightly_cited"], found["citation_recall"]) == (0.5, 0.75)


def test_a_refusal_leaves_the_facts_of_a_judged_question_uncovered() -> None:
    found = labelled_summary([outcome(refused=True), outcome(refused=True, of=question("other"))], labels())
    assert (found["n_questions"], found["citation_recall"], found["citation_precision"]) == (1, 0.0, None)


def test_a_judgement_of_the_sentence_goes_before_that_of_its_evidence() -> None:
    on = Labels(evidence=labels().evidence, sentences={("Q1", EC): False})
    assert labelled_summary([outcome(cited(EC, "public/a"))], on)["off_question_rate"] == 1.0


def test_the_judgements_on_file_are_of_tune_questions_and_of_facts_that_they_have() -> None:
    by_id = {q.id: q for name in ("farm.jsonl", "farm_tune.jsonl") for q in load_questions(SETS_DIR / name)}
    found = load_labels()
    assert len(found.questions) >= 60
    assert {by_id[name].split for name in found.questions} == {"tune"}
    for (name, doc_id, sentence), facts in found.evidence.items():
        assert all(0 <= fact < len(by_id[name].expect) for fact in facts or ()), (name, facts)
        home = ("public/", f"farm:{by_id[name].farm}/")
        assert doc_id.startswith(home)
        assert sentence.strip()
    covered = {name: set() for name in found.questions}
    for (name, _, _), facts in found.evidence.items():
        covered[name] |= facts or set()
    assert sum(len(covered[n]) == len(by_id[n].expect) for n in covered) / len(covered) > 0.9


def test_the_reference_is_the_gold_sentence_nearest_to_the_question() -> None:
    texts = {
        "public/a": "온풍기 설명서 1.2판이다.\n딸기 급액 EC는 1.2dS/m로 둔다.",
        "public/b": "",
        "public/c": "다른 이야기.\n배액률은 20%로 둔다.\n끝.",
    }
    found = reference_of(question(), texts.__getitem__)
    assert found is not None
    assert found.text == "딸기 급액 EC는 1.2dS/m로 둔다. 배액률은 20%로 둔다."
    assert found.passage == texts["public/a"]
    assert reference_of(question(expect=(("9.9",),)), texts.__getitem__) is None


def test_a_passage_is_whole_lines() -> None:
    text = "\n".join(f"{i}번째 줄이다." for i in range(60))
    passage = _around(text, "30번째 줄이다.", 20)
    assert "30번째 줄이다." in passage
    assert set(passage.split("\n")) <= set(text.split("\n"))
    assert 40 < len(passage) < 100


def test_an_answer_becomes_what_is_scored() -> None:
    def citation(sentence: str) -> Citation:
        return Citation(
            doc_id="public/a", title="", locator="", chunk_id="1", sentence=sentence, start=0, end=1, cosine=0.9
        )

    answer = Answer(
        sentences=(
            CitedSentence(text=EC, citations=(citation(EC),)),
            CitedSentence(text="지어냄", citations=(citation("없는 문장"),)),
            CitedSentence(text="다름", conflicts=(citation(EC),), note="둘이 다르다"),
        ),
        refused=False,
        answerer="llm",
        lead="머리말",
    )
    found = outcome_of(question(), answer, lambda doc_id: EC, "")
    assert [(s.verbatim, s.contradicted) for s in found.sentences] == [(True, False), (False, False), (False, True)]
    refused = Answer(sentences=(CitedSentence(text="문서에서 찾지 못했습니다."),), refused=True, answerer="llm")
    assert outcome_of(question(), refused, lambda doc_id: EC, "").sentences == ()


def test_questions_are_spread_over_the_kinds() -> None:
    many = [question(f"a{i}", kind="수치") for i in range(10)] + [question("b", kind="일지")]
    assert [q.id for q in spread(many, 3)] == ["a0", "a5", "b"]
    assert spread(many, None) == many


def test_a_stopped_run_goes_on_and_another_run_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.jsonl"
    rows = rows_kept(path, {"seed": 1})
    append_row(path, rows, {"id": "Q1", "n": 1})
    append_row(path, rows, {"id": "Q2", "n": 2})
    path.write_text(path.read_text(encoding="utf-8") + '{"id": "Q3", "n"', encoding="utf-8")
    assert rows_kept(path, {"seed": 1}) == {"Q1": {"id": "Q1", "n": 1}, "Q2": {"id": "Q2", "n": 2}}
    assert [json.loads(line).get("id") for line in path.read_text(encoding="utf-8").splitlines()] == [None, "Q1", "Q2"]
    assert rows_kept(path, {"seed": 2}) == {}
