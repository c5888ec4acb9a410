"""The farm set: retrieval and extractive answers on the demo corpus.

Recall@k of a question = share of its gold groups with a document among the first k distinct documents of the ranking.
nDCG@10 and MRR count a document as relevant when it stands in any gold group; repeats of one document count once.
Unanswered questions stay in the average. An answer is right when it holds every expected fact
(``eval.scoring.contains_expected``) in at most six sentences and 400 characters; an unanswerable question is right when
it is refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tqdm import tqdm

from eval.questions import Question
from eval.scoring import contains_expected
from rag.pipeline import Pipeline
from rag.schema import Query, Result, Scope

MAX_SENTENCES, MAX_CHARACTERS = 6, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One question under one system."""

    question: Question
    recall: dict[int, float]
    ndcg: float
    mrr: float
    expected: bool
    refused: bool
    answer: str
    verbatim: bool


def documents_of(result: Result) -> list[str]:
    """Distinct documents of the ranking, best first."""
    return list(dict.fromkeys(item.chunk.doc_id for item in result.evidence))


def recall_at(documents: Sequence[str], gold: Iterable[Sequence[str]], k: int) -> float:
    """Share of gold groups with a document among the first k."""
    groups = list(gold)
    return sum(any(d in group for d in documents[:k]) for group in groups) / len(groups) if groups else 0.0


def ndcg_at_10(documents: Sequence[str], gold: Iterable[Sequence[str]]) -> float:
    """Binary nDCG@10 where each gold group is worth one: DCG = Σ 1/log2(1 + rank) over first hits of a group."""
    groups = [set(group) for group in gold]
    ideal = math.fsum(1 / math.log2(1 + rank) for rank in range(1, min(10, len(groups)) + 1))
    gain, open_groups = 0.0, groups
    for rank, document in enumerate(documents[:10], start=1):
        hit = next((group for group in open_groups if document in group), None)
        if hit is not None:
            gain += 1 / math.log2(1 + rank)
            open_groups = [group for group in open_groups if group is not hit]
    return gain / ideal if ideal else 0.0


def reciprocal_rank(documents: Sequence[str], gold: Iterable[Sequence[str]]) -> float:
    """1/rank of the first relevant document, 0 without one."""
    relevant = {document for group in gold for document in group}
    return next((1 / rank for rank, document in enumerate(documents, start=1) if document in relevant), 0.0)


def run_farm(
    pipeline: Pipeline, questions: Sequence[Question], systems: Sequence[str], document_text: Callable[[str, str], str]
) -> dict[str, list[Outcome]]:
    """Ask every question once per system, from one run of the channels each.

    ``document_text(scope_id, doc_id)`` is the stored text, to check that citations are word for word.
    """
    found: dict[str, list[Outcome]] = defaultdict(list)
    for question in tqdm(questions, desc="질문", unit="개"):
        query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
        for result in pipeline.compare(query, systems):
            found[result.system].append(_outcome(question, result, document_text))
    return dict(found)


def _outcome(question: Question, result: Result, document_text: Callable[[str, str], str]) -> Outcome:
    documents = documents_of(result)
    answer = result.answer
    short = len(answer.sentences) <= MAX_SENTENCES and len(answer.text) <= MAX_CHARACTERS
    return Outcome(
        question=question,
        recall={k: recall_at(documents, question.gold, k) for k in (1, 2, 5, 10)},
        ndcg=ndcg_at_10(documents, question.gold),
        mrr=reciprocal_rank(documents, question.gold),
        expected=question.answerable
        and not answer.refused
        and short
        and contains_expected(answer.text, question.expect),
        refused=answer.refused,
        answer=answer.text,
        verbatim=all(
            c.sentence in document_text(result.query.scope.visible[-1], c.doc_id)
            for s in answer.sentences
            for c in s.citations
        ),
    )


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Means over the answerable and the unanswerable questions."""
    answerable = [o for o in outcomes if o.question.answerable]
    others = [o for o in outcomes if not o.question.answerable]
    row: dict[str, Any] = {"n_answerable": len(answerable), "n_unanswerable": len(others)}
    if answerable:
        row |= {f"recall@{k}": round(fmean(o.recall[k] for o in answerable), 4) for k in (1, 2, 5, 10)}
        row |= {
            "ndcg@10": round(fmean(o.ndcg for o in answerable), 4),
            "mrr": round(fmean(o.mrr for o in answerable), 4),
            "expected_fact": round(fmean(o.expected for o in answerable), 4),
            "wrongly_refused": round(fmean(o.refused for o in answerable), 4),
        }
    if others:
        row["refused"] = round(fmean(o.refused for o in others), 4)
    row["citations_verbatim"] = round(fmean(o.verbatim for o in outcomes), 4) if outcomes else None
    return row


def by_kind(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Summary per question kind."""
    kinds = sorted({o.question.kind for o in outcomes})
    return {kind: summary([o for o in outcomes if o.question.kind == kind]) for kind in kinds}
