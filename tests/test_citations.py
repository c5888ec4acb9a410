"""Numbers that agree or differ, and citing by cosine and numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.citations import MAX_CITATIONS, Candidate, citation_of, cite, numbers_agree, numbers_of, place_of
from rag.schema import ChunkRecord, FloatVector, SentenceRecord

THRESHOLD = 0.87


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("EC 2.5", {("2.5", "")}),
        ("EC 2.50", {("2.5", "")}),
        ("EC 2.0dS/m", {("2", "dS/m")}),
        ("EC 2.5 mS/cm", {("2.5", "dS/m")}),
        ("15℃", {("15", "℃")}),
        ("15 °C", {("15", "℃")}),
        ("15도", {("15", "℃")}),
        ("15도로 맞춘다", {("15", "℃")}),
        ("15도까지", {("15", "℃")}),
        ("30%", {("30", "%")}),
        ("30퍼센트", {("30", "%")}),
        ("1,000배", {("1000", "배")}),
        ("1,234,567원", {("1234567", "원")}),
        ("3일에 2회 20분, 4시간", {("3", "일"), ("2", "회"), ("20", "분"), ("4", "시간")}),
        ("40ppm 7kg", {("40", "ppm"), ("7", "kg")}),
        # a range is both its ends, with the unit of the last
        ("1.0~1.2dS/m", {("1", "dS/m"), ("1.2", "dS/m")}),
        ("15 ∼ 18 ℃", {("15", "℃"), ("18", "℃")}),
        ("15–18", {("15", ""), ("18", "")}),
        ("18℃~22℃", {("18", "℃"), ("22", "℃")}),
        ("15~18 그리고 30%", {("15", ""), ("18", ""), ("30", "%")}),
        ("2026-11-20", {("2026", ""), ("11", ""), ("20", "")}),
        # list numbers
        ("1. 물을 20분 준다", {("20", "분")}),
        ("2) EC 를 잰다", set()),
        ("① 3회 젓는다", {("3", "회")}),
        ("1.5 로 둔다", {("1.5", "")}),
        # the head of a word is no unit
        ("EC 2.5 배액률 30%", {("2.5", ""), ("30", "%")}),
        ("3 원인", {("3", "")}),
        ("5 일조", {("5", "")}),
        ("0.0", {("0", "")}),
        ("숫자가 없다", set()),
        ("", set()),
    ],
)
def test_numbers_of(text: str, numbers: set[tuple[str, str]]) -> None:
    assert numbers_of(text) == numbers


@pytest.mark.parametrize(
    ("answer", "evidence", "agree"),
    [
        ("EC 2.5로 둔다.", "급액 EC는 2.5dS/m이다.", True),
        ("EC 2.5로 둔다.", "급액 EC는 3.5dS/m이다.", False),
        ("EC 2.5로 둔다.", "급액 EC는 12.5dS/m이다.", False),
        ("EC 2.5로 둔다.", "급액 EC는 25dS/m이다.", False),
        ("15도로 낮춘다.", "15℃까지 낮춘다.", True),
        ("15도로 낮춘다.", "15%까지 낮춘다.", False),
        ("EC 1.2 mS/cm", "EC 1.2 dS/m", True),
        ("30 퍼센트", "30%", True),
        ("1000배", "1,000배액", True),
        ("1.0~1.2", "1.0에서 1.2로", True),
        ("1.0~1.3", "1.0~1.2dS/m", False),
        ("1.2dS/m", "1.0~1.2dS/m", True),
        ("1.0dS/m", "1.0~1.2dS/m", True),
        ("1.1dS/m", "1.0~1.2dS/m", False),
        ("30", "30%", True),  # no unit, nothing to contradict
        ("30%", "30", True),
        ("30%", "30분", False),
        ("30분 3회", "30분 동안 준다", False),  # every number
        ("30분 3회", "3회 30분", True),
        ("30분 3회", "3분 30회", False),  # each with its own unit
        ("1. 30분", "30분", True),
        ("EC 2.5 배액률 30%", "EC 2.5dS/m, 배액률 30%", True),
        ("환기한다", "20℃에서 환기한다", True),
        ("20℃에서 환기한다", "환기한다", False),
        ("", "", True),
    ],
)
def test_numbers_agree(answer: str, evidence: str, agree: bool) -> None:
    assert numbers_agree(answer, evidence) is agree


@given(st.text(alphabet="0123456789.,~- %℃도배일회분원EC가", max_size=40))
def test_a_sentence_agrees_with_itself(text: str) -> None:
    assert numbers_agree(text, text)


def unit(cosine: float) -> FloatVector:
    """A unit vector with that cosine to (1, 0)."""
    return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


QUESTION = unit(1.0)


def candidate(text: str, cosine: float, *, doc_id: str = "public/a.md", row: int = 0) -> Candidate:
    chunk = ChunkRecord(
        chunk_id=f"{doc_id}-{row}",
        scope_id="public",
        doc_id=doc_id,
        title="제목",
        section="절",
        locator="2쪽",
        text=f"앞. {text} 뒤.",
        level="G2",
        ordinal=0,
    )
    sentence = SentenceRecord(chunk_id=chunk.chunk_id, start=3, end=3 + len(text), tokens=(), row=row)
    return Candidate(chunk, sentence, unit(cosine))


def cited(text: str, *candidates: Candidate) -> list[str]:
    return [citation.sentence for citation in cite(text, QUESTION, candidates, THRESHOLD).citations]


def test_only_sentences_at_the_threshold_or_above() -> None:
    given_ = [candidate("가", 0.88), candidate("나", 0.8699, row=1), candidate("다", 0.95, row=2)]
    assert cited("EC 를 잰다", *given_) == ["다", "가"]
    exact = candidate("라", 0.5)
    assert cite("x", QUESTION, [exact], float(exact.vector @ QUESTION)).supported


def test_at_most_three_best_first() -> None:
    texts = "가나다라마"
    given_ = [candidate(text, 0.90 + i / 100, row=i) for i, text in enumerate(texts)]
    assert MAX_CITATIONS == 3
    assert cited("x", *given_) == ["마", "라", "다"]


def test_ties_stand_by_document_and_place() -> None:
    given_ = [
        candidate("셋", 0.9, doc_id="public/b.md", row=0),
        candidate("둘", 0.9, doc_id="public/a.md", row=9),
        candidate("하나", 0.9, doc_id="public/a.md", row=1),
    ]
    assert cited("x", *given_) == cited("x", *reversed(given_)) == ["하나", "둘", "셋"]


def test_numbers_must_agree() -> None:
    near_miss, right = candidate("급액 EC는 3.5dS/m이다.", 0.95), candidate("급액 EC는 2.5dS/m이다.", 0.9, row=1)
    sentence = cite("급액 EC는 2.5dS/m이다.", QUESTION, [near_miss, right], THRESHOLD)
    assert [c.sentence for c in sentence.citations] == [right.text]
    assert sentence.note is None


def test_a_note_when_only_numbers_differ() -> None:
    sentence = cite("EC 2.5", QUESTION, [candidate("EC 3.5", 0.95)], THRESHOLD)
    assert (sentence.supported, sentence.note) == (False, "수치가 근거와 다릅니다.")
    assert cite("EC 2.5", QUESTION, [candidate("EC 3.5", 0.8)], THRESHOLD).note is None


def test_nothing_to_cite() -> None:
    sentence = cite("EC 2.5", QUESTION, [], THRESHOLD)
    assert (sentence.text, sentence.citations, sentence.note) == ("EC 2.5", (), None)


def test_a_citation_points_at_its_words() -> None:
    one = candidate("EC 2.5", 0.912345)
    citation = citation_of(one, 0.912345, ["유사도"])
    assert one.chunk.text[citation.start : citation.end] == citation.sentence == "EC 2.5"
    assert (citation.cosine, citation.locator, citation.checks) == (0.9123, "절 · 2쪽", ("유사도",))


@pytest.mark.parametrize(
    ("section", "locator", "place"),
    [("절", "", "절"), ("", "2쪽", "2쪽"), ("", "", ""), ("가 > 나", "4행", "가 > 나 · 4행")],
)
def test_place_of(section: str, locator: str, place: str) -> None:
    assert place_of(replace(candidate("x", 0.9).chunk, section=section, locator=locator)) == place


def test_the_same_arguments_give_the_same_citations() -> None:
    given_ = [candidate(text, 0.9, row=i) for i, text in enumerate("가나다라")]
    assert cite("x", QUESTION, given_, THRESHOLD) == cite("x", QUESTION, given_, THRESHOLD)
