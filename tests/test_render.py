"""Numbers of sources, marks behind sentences, and the JSON form."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from rag.render import as_json, as_text, numbered
from rag.schema import (
    BM25,
    VECTOR,
    Answer,
    ChannelResult,
    ChunkRecord,
    Citation,
    CitedSentence,
    Decision,
    DocFilter,
    Evidence,
    FusedEvidence,
    GraphPath,
    Hit,
    PlannedQuery,
    Query,
    QueryFeatures,
    Result,
    RetrievalPlan,
    Scope,
    Slot,
    Span,
    Trace,
    Vote,
    Walk,
    Weights,
    WeightSteps,
)

NOW = datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Asia/Seoul"))


def citation(chunk_id: str, start: int = 0, *, locator: str = "2쪽") -> Citation:
    return Citation(
        doc_id=f"public/{chunk_id}.md",
        title=f"문서 {chunk_id}",
        locator=locator,
        chunk_id=chunk_id,
        sentence=f"근거 {chunk_id}{start}",
        start=start,
        end=start + 5,
        cosine=0.9,
    )


A0, A9, B0 = citation("a"), citation("a", 9), citation("b", locator="")


def answer(*sentences: CitedSentence, refused: bool = False, **fields: tuple[str, ...]) -> Answer:
    return Answer(sentences=sentences, refused=refused, answerer="extractive", **fields)


def result(given: Answer, **fields: object) -> Result:
    chunk = ChunkRecord(
        chunk_id="a",
        scope_id="public",
        doc_id="public/a.md",
        title="문서 a",
        section="절",
        locator="2쪽",
        text="본문",
        level="G2",
        ordinal=0,
    )
    weights = Weights({VECTOR: 0.75, BM25: 0.25})
    plan = RetrievalPlan(
        queries=(PlannedQuery(text="딸기 EC", vector=None, tokens=(), entities=()),),
        scope=Scope(),
        filters=DocFilter(),
        granularity="G2",
        depth={},
        rrf_k=60,
        walk=Walk(),
        top_k=8,
        timeout_s=1,
    )
    whole = Result(
        query=Query(text="딸기 EC", scope=Scope(farm_id="haetsal"), asked_at=NOW),
        features=QueryFeatures(
            slots=(Slot(kind="crop", value="딸기", start=0, end=2, rule="lexicon.작물"),),
            keywords=("딸기", "ec"),
            reasons={"intent": "다른 단서 없음"},
        ),
        profile_id="default",
        profile_reason="까닭",
        system="adaptive",
        plan=plan,
        channels=(
            ChannelResult(
                channel=VECTOR,
                status="ok",
                hits=(Hit(chunk_id="a", scope_id="public", rank=1, score=0.9),),
                ms=1.234,
                paths=(GraphPath(chunk_id="a", nodes=("딸기", "EC"), labels=("대상",), confidence=0.5),),
            ),
            ChannelResult(channel=BM25, status="failed", error="꺼짐"),
        ),
        weights=WeightSteps(raw=weights, bounded=weights, final=Weights({VECTOR: 1.0, BM25: 0.0})),
        evidence=FusedEvidence(
            items=(
                Evidence(
                    chunk=chunk, score=0.5, votes=(Vote(channel=VECTOR, rank=1, weight=1.0, value=0.5, share=1.0),)
                ),
            )
        ),
        answer=given,
        trace=Trace(
            spans=(Span(stage="features", start_ms=0, ms=1.236),),
            decisions=(Decision(stage="profile", what="무엇", why="왜"),),
        ),
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


TWO = answer(
    CitedSentence(text="첫째.", citations=(A9, B0)),
    CitedSentence(text="둘째.", citations=(B0, A0)),
    CitedSentence(text="셋째.", citations=(A9,)),
)


def test_sources_are_numbered_in_the_order_of_the_answer() -> None:
    assert numbered(TWO) == {("a", 9): (1, A9), ("b", 0): (2, B0), ("a", 0): (3, A0)}
    assert numbered(answer(CitedSentence(text="없다."))) == {}


def test_marks_and_their_list() -> None:
    assert as_text(result(TWO), explain=False).split("\n") == [
        "첫째. [1][2]",
        "둘째. [2][3]",
        "셋째. [1]",
        "",
        "근거",
        "[1] 문서 a · 2쪽 (public/a.md)",
        "    “근거 a9”",
        "[2] 문서 b (public/b.md)",
        "    “근거 b0”",
        "[3] 문서 a · 2쪽 (public/a.md)",
        "    “근거 a0”",
    ]


def test_an_unsupported_sentence_says_so() -> None:
    given = answer(CitedSentence(text="하나."), CitedSentence(text="둘.", note="수치가 근거와 다릅니다."))
    assert as_text(result(given), explain=False).split("\n") == [
        "하나. (근거 미확인)",
        "둘. (근거 미확인: 수치가 근거와 다릅니다.)",
    ]


def test_a_refusal_names_what_was_near() -> None:
    given = answer(CitedSentence(text="찾지 못했습니다."), refused=True, nearby=("가", "나"), notes=("알림",))
    assert as_text(result(given), explain=False).split("\n") == ["찾지 못했습니다.", "※ 알림", "가까운 문서: 가, 나"]


def test_banners_come_first() -> None:
    text = as_text(result(TWO, banners=("키워드 검색을 쓸 수 없습니다.",)), explain=False)
    assert text.startswith("! 키워드 검색을 쓸 수 없습니다.\n첫째.")


@pytest.mark.parametrize(
    "line",
    [
        "  crop: 딸기  ← '딸기' [0:2] (lexicon.작물)",
        "  default: 까닭",
        "  원래: 의미 검색 0.75  키워드 검색 0.25",
        "  최종: 의미 검색 1.00  키워드 검색 0.00",
        "  의미 검색: ok, 1건, 1.2 ms",
        "  키워드 검색: failed, 0건, 0.0 ms — 꺼짐",
        "  경로: 딸기 → EC (대상)",
        "  1. 문서 a · 절  점수 0.5000  의미 검색 1위 100%",
        "  [profile] 무엇 — 왜",
        "  features: 1.2 ms",
    ],
)
def test_explain_shows_every_stage(line: str) -> None:
    assert line in as_text(result(TWO), explain=True).split("\n")


def test_json_form() -> None:
    form = as_json(result(TWO))
    assert json.loads(json.dumps(form, ensure_ascii=False)) == form
    assert (form["question"], form["farm"], form["answer"]) == ("딸기 EC", "haetsal", "첫째. 둘째. 셋째.")
    assert form["asked_at"] == "2026-12-01T09:00:00+09:00"
    assert [c["sentence"] for c in form["sentences"][1]["citations"]] == ["근거 b0", "근거 a0"]
    assert form["sentences"][0]["supported"] is True
    assert form["evidence"][0]["votes"] == [{"channel": VECTOR, "rank": 1, "weight": 1.0, "share": 1.0}]
    assert form["weights"]["raw"] == {VECTOR: 0.75, BM25: 0.25}
    assert form["weights"]["final"] == {VECTOR: 1.0, BM25: 0.0}
    assert form["channels"][1] == {"name": BM25, "status": "failed", "ms": 0.0, "hits": 0, "error": "꺼짐"}
    assert form["features"]["slots"] == [
        {"kind": "crop", "value": "딸기", "text": "딸기", "start": 0, "end": 2, "rule": "lexicon.작물"}
    ]
    assert form["segment"] == "factual|short|value:-|relation:-"
    assert form["latency_ms"] == {"features": 1.24}
