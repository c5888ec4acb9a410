"""How a question's outcome is counted, whatever the level of its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from eval.__main__ import levels_of
from eval.farm import documents_of, ndcg_at_10, reach_of, recall_at, reciprocal_rank
from rag.schema import ChunkRecord, Effort, Evidence, FusedEvidence, Level, Result, Vote


@dataclass
class _Found:
    evidence: FusedEvidence


def ranking(*chunks: tuple[str, str], level: Level = "G2") -> Result:
    """A result of (document, text) passages, best first."""
    return cast(
        Result,
        _Found(
            FusedEvidence(
                items=tuple(
                    Evidence(
                        chunk=ChunkRecord(
                            chunk_id=str(n), doc_id=doc_id, scope_id="public", level=level, ordinal=n, title="제목",
                            section="절", locator="", text=text, kind="", crop="", date="", author="",
                        ),
                        score=0.1,
                        votes=(Vote(channel="graph", rank=1, weight=1.0, value=0.1, share=1.0),),
                    )
                    for n, (doc_id, text) in enumerate(chunks)
                )
            )
        ),
    )  # fmt: skip


def test_a_document_counts_once_at_its_first_chunk() -> None:
    documents = documents_of(ranking(("a", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("c", "5"), level="G1"))
    assert documents == ["a", "b", "c"]
    gold = (("b", "x"), ("c",))
    assert [recall_at(documents, gold, k) for k in (1, 2, 3)] == [0.0, 0.5, 1.0]
    assert reciprocal_rank(documents, gold) == 1 / 2
    assert ndcg_at_10(documents, gold) == pytest.approx((1 / 1.5849625 + 1 / 2) / (1 + 1 / 1.5849625))


@pytest.mark.parametrize(
    ("characters", "said"),
    [(3, "가나다"), (5, "가나다라마"), (6, "가나다라마|바"), (8, "가나다라마|바사아"), (100, "가나다라마|바사아")],
)
def test_as_much_text_is_in_reach_at_every_level(characters: int, said: str) -> None:
    coarse = reach_of(ranking(("a", "가나다라마"), ("b", "바사아")), characters)
    fine = reach_of(ranking(("a", "가나"), ("a", "다라마"), ("b", "바사"), ("b", "아"), level="G1"), characters)
    assert [line for line in coarse.split("\n") if line not in ("제목", "절")] == said.split("|")
    body = "".join(line for line in fine.split("\n") if line not in ("제목", "절"))
    assert body == said.replace("|", "")


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        (None, None),
        ("adaptive", {"low": "G1", "medium": "G2", "high": "G3"}),
        ("G3", {"low": "G3", "medium": "G3", "high": "G3"}),
    ],
)
def test_granularity_by_name(name: str | None, levels: dict[Effort, Level] | None) -> None:
    assert levels_of(name) == levels
