"""Figures, denial, things named and direction of two sentences, and citing by them and the cosine."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.citations import MAX_CITATIONS, Candidate, citation_of, cite, context_of, place_of
from rag.claims import compare, said_share
from rag.quantities import quantities, states
from rag.schema import Answer, ChunkRecord, CitedSentence, FloatVector, SentenceRecord
from rag.settings import ROOT
from rag.text import korean
from rag.ui.components.answer import answer_html
from rag.ui.style import _CSS

THRESHOLD = 0.87
LEVELS = ROOT / "profiles" / "answering.v1.json"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("EC 2.50", [(2.5, 2.5, "")]),
        ("EC 2.5 mS/cm", [(2.5, 2.5, "dS/m")]),
        ("EC 2500µS/cm", [(2.5, 2.5, "dS/m")]),
        ("15도로 맞춘다", [(15, 15, "℃")]),
        ("-3℃ 이하", [(-3, -3, "℃")]),
        ("30퍼센트", [(30, 30, "%")]),
        ("1,000배", [(1000, 1000, "배")]),
        ("2천 배", [(2000, 2000, "배")]),
        ("1억 7천만 원", [(170_000_000, 170_000_000, "원")]),
        ("500~600만원", [(5_000_000, 6_000_000, "원")]),
        ("오백만 원에서 육백만 원", [(5_000_000, 5_000_000, "원"), (6_000_000, 6_000_000, "원")]),
        ("이점오 dS/m", [(2.5, 2.5, "dS/m")]),
        ("한두 번", [(1, 2, "회")]),
        ("이틀 동안", [(48, 48, "시간")]),
        ("3일에 2회 20분", [(72, 72, "시간"), (2, 2, "회"), (20 / 60, 20 / 60, "시간")]),
        ("Hoagland액을 1/10로", [(0.1, 0.1, "")]),
        ("10분의 1로", [(0.1, 0.1, "")]),
        ("18℃~22℃", [(18, 22, "℃")]),
        ("15 ∼ 18 ℃", [(15, 18, "℃")]),
        ("8시간에서 4시간으로", [(8, 8, "시간"), (4, 4, "시간")]),
        ("오후 3~4시", [(15, 16, "시각")]),
        ("2026-11-20", [(2026, 2026, "연도"), (1120, 1120, "월일")]),
        ("2025년 7월 9일 3동", [(2025, 2025, "연도"), (709, 709, "월일"), (3, 3, "동")]),
        ("1. 물을 20분 준다", [(20 / 60, 20 / 60, "시간")]),
        ("2) EC 를 잰다", []),
        ("TY545는 CO2 30%를", [(30, 30, "%")]),
        # the head of a word is no unit
        ("EC 2.5 배액률 30%", [(2.5, 2.5, ""), (30, 30, "%")]),
        ("3 원인", [(3, 3, "")]),
        ("고온과 열해를 입는다", []),
        ("숫자가 없다", []),
        ("", []),
    ],
)
def test_quantities(text: str, read: list[tuple[float, float, str]]) -> None:
    assert [(pytest.approx(q.low), pytest.approx(q.high), q.unit) for q in quantities(text)] == read


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("5℃ 이하", "down"),
        ("5℃ 이상", "up"),
        ("30℃를 넘으면", "up"),
        ("85%를 넘지 않게", "down"),
        ("8℃ 아래로 내려가지 않게", "up"),
        ("2dS/m 이상이면 그대로 쓰지 않는다", "up"),
        ("최대 20%까지", "down"),
        ("5℃로", ""),
    ],
)
def test_comparators(text: str, direction: str) -> None:
    assert [q.direction for q in quantities(text)] == [direction]


@pytest.mark.parametrize(
    ("claim", "evidence", "agree"),
    [
        ("EC 2.5로 둔다.", "급액 EC는 2.5dS/m이다.", True),
        ("EC 2.5로 둔다.", "급액 EC는 3.5dS/m이다.", False),
        ("EC 2.5로 둔다.", "급액 EC는 12.5dS/m이다.", False),
        ("15도로 낮춘다.", "15%까지 낮춘다.", False),
        ("EC 1.2 mS/cm", "EC 1.2 dS/m", True),
        ("EC 1200µS/cm", "EC 1.2 dS/m", True),
        ("1.1m 높이", "110cm 높이", True),
        ("일주일 간격", "7일 간격", True),
        ("200평", "660㎡", True),
        ("201평", "660㎡", False),
        ("1.0~1.2", "1.0에서 1.2로", True),
        ("1.0~1.3", "1.0~1.2dS/m", False),
        ("1.2dS/m", "1.0~1.2dS/m", True),
        ("1.1dS/m", "1.0~1.2dS/m", False),
        ("30", "30%", True),
        ("30%", "30분", False),
        ("30분 3회", "30분 동안 준다", False),
        ("30분 3회", "3분 30회", False),
        ("5℃ 이하", "5℃ 이상", False),
        ("5℃ 이하", "5℃", True),
        ("낮 20℃, 밤 25℃", "낮 25℃, 밤 20℃", False),
        ("밤 20℃, 낮 25℃", "낮 25℃, 밤 20℃", True),
        ("", "", True),
    ],
)
def test_figures_agree(claim: str, evidence: str, agree: bool) -> None:
    assert all(states(quantities(evidence), q) for q in quantities(claim)) is agree


@given(st.text(alphabet="0123456789.,~- %℃도배일회분원만천시월년EC가", max_size=30))
def test_a_sentence_states_its_own_figures(text: str) -> None:
    assert all(states(quantities(text), q) for q in quantities(text))


TITLE = "딸기 하우스 온도 관리"


@pytest.mark.parametrize(
    ("claim", "evidence", "outcome"),
    [
        ("창을 열어 환기합니다.", "창을 열어 환기한다.", "supported"),
        ("창을 열어 환기하지 않습니다.", "창을 열어 환기한다.", "contradicted"),
        ("창을 열어 환기한다.", "창을 열어 환기하지 않는다.", "contradicted"),
        ("농약을 사료와 함께 나를 수 있다.", "농약은 사료와 함께 나를 수 없다.", "contradicted"),
        ("밤 온도를 높인다.", "밤 온도를 낮춘다.", "contradicted"),
        ("pH가 높으면 산을 넣어 높인다.", "pH가 높으면 산을 넣어 낮춘다.", "contradicted"),
        ("딸기는 밤 5도 이상으로 지킵니다.", "밤 5℃ 이상을 지킨다.", "supported"),
        ("밤 5℃ 이하로 지킨다.", "밤 5℃ 이상을 지킨다.", "contradicted"),
        ("밤 8℃ 이상으로 지킨다.", "밤 5℃ 이상을 지킨다.", "contradicted"),
        ("오이는 밤 5℃ 이상을 지킨다.", "밤 5℃ 이상을 지킨다.", "unsupported"),
        ("수확기에는 밤 5℃ 이상을 지킨다.", "육묘기에는 밤 5℃ 이상을 지킨다.", "unsupported"),
        ("담배가루이는 약을 뿌려 막는다.", "점박이응애는 약을 뿌려 막는다.", "unsupported"),
        ("급액이 적으면 배꼽썩음과가 많아진다.", "급액이 적으면 배꼽썩음과가 많아진다.", "supported"),
        ("배꼽썩음과가 많아지면 급액이 적다.", "급액이 적으면 배꼽썩음과가 많아진다.", "contradicted"),
        ("TSWV는 총채벌레를 옮긴다.", "TSWV는 총채벌레가 옮긴다.", "contradicted"),
    ],
)
def test_compare(claim: str, evidence: str, outcome: str) -> None:
    assert compare(claim, evidence, TITLE).outcome == outcome


# What answers of a small model cited, by eye supported or not.
SAID = [
    ("온풍난방기 안쪽 그을음은 1년에 한 번 압축공기로 털어 낸다.", "버너와 연소실의 그을음은 1년에 한 번 압축공기로 털어 낸다.", "온풍난방기 정비", True),
    ("100~200마리를 집중해서 풀어 준다.", "피해 지점마다 칠레이리응애 100~200마리를 집중해서 풀어 준다.", "", True),
    ("3월 말부터 5월 말까지 차광 50%입니다.", "봄인 3월 하순~5월 하순에는 50% 차광을 권하는 자료가 있다.", "", True),
    ("4동 배지 갈아엎는 돈 4,000,000원", "4동 딸기 배지 교체 예산을 4,000,000원으로 정했다.", "", True),
    ("144,000원", "항목: 부품비, 내용: 144,000원", "", True),
    ("등급규격과 포장규격", "농산물 표준규격은 포장규격과 등급규격의 두 가지로 나뉜다.", "", True),
    ("병든 포기가 보이면 바로 뽑아 없애세요.", "병든 포기는 발견하는 즉시 없앤다.", "", True),
    ("새 코이어 이씨가 높게 나왔어요.", "코이어는 오래 쓰면 물리성이 나빠진다.", "코이어 씻기", False),
    ("3동 제일 추웠을 때 141kg을 떨어졌습니다.", "오늘 3동 딸기에서 141kg을 수확했음.", "작업일지", False),
    ("파프리카는 시들음병입니다.", "병에 걸린 파프리카는 잎에 옅은 얼룩이 생긴다.", "파프리카 바이러스병", False),
    ("바람 방향 바꿔주는 순환팬은 습도와 칼슘 흡수입니다.", "순환팬은 온도를 감지해 바람 방향을 스스로 바꾼다.", "", False),
    ("액화탄산가스를 맞으면 잎 가장자리가 검게 탄다.", "암모니아가스를 맞으면 잎 가장자리가 검게 탄다.", "", False),
    ("콜레마니진디벌은 5초만 탐색해도 바이러스를 옮긴다.", "진딧물은 5초만 탐색해도 바이러스를 옮긴다.", "", False),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "evidence", "context", "supported"), SAID)
def test_what_a_claim_says_must_be_said(claim: str, evidence: str, context: str, supported: bool) -> None:
    coverage = next(iter(json.loads(LEVELS.read_text(encoding="utf-8"))["encoders"].values()))["citation_coverage"]
    assert (compare(claim, evidence, context, coverage).outcome == "supported") is supported


@pytest.mark.parametrize(
    ("claim", "evidence", "context", "share"),
    [
        ("잎이 마른다.", "잎이 마른다.", "", 1.0),
        ("잎이 마른다.", "줄기가 마른다.", "", 0.5),
        ("잎이 마른다.", "줄기가 마른다.", "잎", 1.0),  # said by the heading
        ("잎이 마른다.", "잎이 말려 있다.", "", 1 / 3),  # no predicate is said: predicates count twice
        ("VPD를 맞춘다.", "수증기압차를 맞춘다.", "", 1.0),  # the same term
        ("병든 포기를 뽑는다.", "병든 포기를 제거한다.", "", 1.0),  # a synonym
        ("온도를 높인다.", "온도를 올린다.", "", 1.0),  # the same side of an axis
        ("온도가 떨어진다.", "온도를 떨어뜨린다.", "", 1.0),  # the same stem
        ("규격을 본다.", "포장규격이 있다.", "", 1.0),  # a part of a compound
        ("포장규격을 본다.", "규격이 있다.", "", 0.5),
        ("<근거 1> 이 경우 원인: 물", "물", "", 1.0),  # words that any answer may add
        ("12kg", "합계", "", 1.0),  # figures are checked by themselves
        ("그것은 이것이다.", "물", "", 0.0),
        ("", "물", "", 0.0),
    ],
)
def test_said_share(claim: str, evidence: str, context: str, share: float) -> None:
    assert said_share(claim, evidence, context) == pytest.approx(share)


@given(st.lists(st.sampled_from(("잎", "마르다", "물", "EC", "온도", "딸기", "자라다", "근거")), max_size=6), st.data())
def test_a_share_is_within_its_bounds_and_more_context_never_lowers_it(words: list[str], data: st.DataObject) -> None:
    other = " ".join(data.draw(st.lists(st.sampled_from(("잎", "물", "자라다", "배지")), max_size=3)))
    claim = " ".join(words)
    share = said_share(claim, other)
    assert 0 <= share <= said_share(claim, other, "딸기 온도") <= 1
    assert said_share(claim, claim) in (0, 1)


def test_a_sentence_of_the_same_matter_is_not_cited_and_the_note_names_what_it_lacks() -> None:
    near = candidate("코이어는 오래 쓰면 물리성이 나빠진다.", 0.95)
    right = candidate("새 코이어는 EC가 높게 나온다.", 0.9, row=1)
    claim = "새 코이어 이씨가 높게 나왔어요."
    lacking = cite(claim, QUESTION, [near], THRESHOLD, 0.6)
    assert (lacking.outcome, lacking.note) == ("unsupported", "근거에 없는 말: 이씨, 높다, 나오다")
    assert [c.sentence for c in cite(claim, QUESTION, [near, right], THRESHOLD, 0.6).citations] == [right.text]


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ("꽃은 얼마나 핀 게 딱 좋아요", "unsupported"),
        ("벌통은 언제 두나요?", "unsupported"),
        ("벌통을 두고 나서 벌이 꽃에 앉는지 확인하면 되나요", "unsupported"),
        ("벌통을 두고 나서 벌이 꽃에 앉는지 확인한다.", "supported"),
        ("벌통을 두고 나서 벌이 꽃에 앉는지 확인해요.", "supported"),
    ],
)
def test_a_question_claims_nothing(claim: str, outcome: str) -> None:
    assert compare(claim, "벌통을 두고 나서 벌이 꽃에 앉는지 확인한다.").outcome == outcome


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ("병을 줄여 가루이의 감로를 없애야 한다.", "contradicted"),
        ("병을 줄이려면 감로를 없애야 한다.", "supported"),
        ("가루이를 방제해 감로를 없애면 병이 준다.", "supported"),
    ],
)
def test_a_purpose_is_not_the_means(claim: str, outcome: str) -> None:
    assert compare(claim, "병을 줄이려면 가루이를 방제해 감로를 없애야 한다.").outcome == outcome


@pytest.mark.parametrize(
    ("claim", "evidence", "outcome"),
    [
        ("최고온도를 잰다.", "평균온도를 잰다.", "unsupported"),
        ("최고온도를 잰다.", "평균온도와 최고온도를 잰다.", "supported"),
        ("온풍난방기를 켠다.", "난방기를 켠다.", "supported"),
        ("하루평균온도를 잰다.", "일평균온도를 잰다.", "supported"),  # one term
        ("발생초기에 뿌린다.", "발병초기에 뿌린다.", "supported"),  # a synonym
        ("재배온실 온도를 잰다.", "육묘온실 온도는 재배 온실과 같다.", "supported"),
    ],
)
def test_another_compound_of_the_same_head_is_another_thing(claim: str, evidence: str, outcome: str) -> None:
    assert compare(claim, evidence).outcome == outcome


def test_a_day_and_a_house_may_stand_in_the_title() -> None:
    sentence, title = "오늘 63kg을 수확했다.", "작업일지 2024년 12월 6일 금요일\n3동 딸기"
    assert compare("2024-12-06 3동에서 63kg을 수확했습니다.", sentence, title).outcome == "supported"
    assert compare("2024-12-07 3동에서 63kg을 수확했습니다.", sentence, title).outcome == "unsupported"
    assert compare("2024-12-06 2동에서 63kg을 수확했습니다.", sentence, title).outcome == "unsupported"


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
    return [citation.sentence for citation in cite(text, QUESTION, candidates, THRESHOLD, 0.0).citations]


def test_only_sentences_at_the_threshold_or_above() -> None:
    given_ = [candidate("가", 0.88), candidate("나", 0.8699, row=1), candidate("다", 0.95, row=2)]
    assert cited("EC 를 잰다", *given_) == ["다", "가"]
    exact = candidate("라", 0.5)
    assert cite("x", QUESTION, [exact], float(exact.vector @ QUESTION), 0.0).supported


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
    sentence = cite("급액 EC는 2.5dS/m이다.", QUESTION, [near_miss, right], THRESHOLD, 0.0)
    assert [c.sentence for c in sentence.citations] == [right.text]
    assert sentence.note is None


def test_a_contradiction_keeps_what_it_conflicts_with_and_both_figures() -> None:
    sentence = cite("급액 EC는 2.5dS/m이다.", QUESTION, [candidate("급액 EC는 1.2dS/m이다.", 0.95)], THRESHOLD, 0.0)
    assert (sentence.outcome, sentence.supported, sentence.citations) == ("contradicted", False, ())
    assert [c.sentence for c in sentence.conflicts] == ["급액 EC는 1.2dS/m이다."]
    assert sentence.note == "근거는 1.2dS/m, 답변은 2.5dS/m"
    far = cite("급액 EC는 2.5dS/m이다.", QUESTION, [candidate("급액 EC는 1.2dS/m이다.", 0.8)], THRESHOLD, 0.0)
    assert (far.outcome, far.conflicts, far.note) == ("unsupported", (), None)


def test_support_outweighs_a_contradiction() -> None:
    given_ = [candidate("급액 EC는 1.2dS/m이다.", 0.95), candidate("급액 EC는 2.5dS/m이다.", 0.9, row=1)]
    assert cite("급액 EC는 2.5dS/m이다.", QUESTION, given_, THRESHOLD, 0.0).outcome == "supported"


def test_conflicts_never_stand_beside_citations_and_never_without_a_note() -> None:
    citation = citation_of(candidate("가", 0.9), 0.9, ())
    for fields in ({"citations": (citation,), "note": "x"}, {}):
        with pytest.raises(ValueError, match="contradicted"):
            CitedSentence(text="가", conflicts=(citation,), **fields)


def test_the_day_of_a_public_document_is_no_context() -> None:
    chunk = replace(candidate("x", 0.9).chunk, date="2026-03-05", crop="딸기")
    assert context_of(chunk) == "제목\n절\n딸기"
    assert context_of(replace(chunk, scope_id="farm:haetsal")) == "제목\n절\n딸기\n2026-03-05"


def test_a_draft_with_list_numbers_is_cut_at_them() -> None:
    draft = "1. 물을 20분 준다.\n2. EC를 2.5로 맞춘다. 3회 잰다."
    spans = korean().sentences(draft)
    assert [draft[s.start : s.end] for s in spans] == ["1. 물을 20분 준다.", "2. EC를 2.5로 맞춘다.", "3회 잰다."]


def test_nothing_to_cite() -> None:
    sentence = cite("EC 2.5", QUESTION, [], THRESHOLD, 0.0)
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
    assert cite("x", QUESTION, given_, THRESHOLD, 0.0) == cite("x", QUESTION, given_, THRESHOLD, 0.0)


def test_a_contradiction_is_red_says_so_and_opens_its_evidence() -> None:
    sentence = cite("급액 EC는 2.5dS/m이다.", QUESTION, [candidate("급액 EC는 1.2dS/m이다.", 0.95)], THRESHOLD, 0.0)
    page = answer_html(Answer(sentences=(sentence,), refused=False, answerer="llm"), "k")
    assert "class='on-contra'" in page
    assert "data-cite='cite-k-1'" in page
    assert "(상충: 근거는 1.2dS/m, 답변은 2.5dS/m)" in page
    assert ".on-contra { color" in _CSS


@pytest.mark.parametrize(
    ("claim", "evidence", "outcome"),
    [
        ("크레속심메틸은 2000배로 쓴다.", "보스칼리드는 2000배, 크레속심메틸은 3000배로 쓴다.", "contradicted"),
        ("크레속심메틸은 3000배로 쓴다.", "보스칼리드는 2000배, 크레속심메틸은 3000배로 쓴다.", "supported"),
        ("1동은 25℃, 2동은 20℃로 둔다.", "1동은 20℃, 2동은 25℃로 둔다.", "contradicted"),
        ("질소 10kg, 인산 5kg을 준다.", "질소 5kg, 인산 10kg을 준다.", "contradicted"),
        ("원액 1L를 물 20L에 탄다.", "원액 20L를 물 1L에 탄다.", "contradicted"),
        ("딸기는 5℃까지 견딘다.", "딸기는 영하 5℃까지 견딘다.", "contradicted"),
        ("딸기는 -5℃까지 견딘다.", "딸기는 영하 5℃까지 견딘다.", "supported"),
        ("오전에 환기한다.", "오후에 환기한다.", "contradicted"),
        ("오이 흰가루병에 등록된 약이다.", "오이 흰가루병에 미등록 약이다.", "contradicted"),
    ],
)
def test_figures_stay_with_their_names_and_opposites_apart(claim: str, evidence: str, outcome: str) -> None:
    assert compare(claim, evidence).outcome == outcome
