"""The farm set: retrieval and extractive answers on the demo corpus.

Recall@k of a question = share of its gold groups with a document among the first k distinct documents of the ranking.
nDCG@10 and MRR count a document as relevant when it stands in any gold group; repeats of one document count once.

Gold is a document, so a hit counts alike at every level (G1 sentences, G2 paragraph, G3 section): as its document, at
the place of the document's first chunk. Two things that this hides are measured beside it. A coarse hit may be the right
document and not the place: ``fact_in_reach`` is the share of questions whose expected facts all stand in the first
``REACH`` characters of the ranking, the same amount of text at every level. And rankings are 10 chunks long, which
fine chunks of one document fill sooner: ``documents`` is the mean number of distinct documents in them, ``characters``
the mean length of the passages that the answerer reads (its first top_k).

Unanswered questions stay in the average. An answer is right when it holds every expected fact
(``eval.scoring.contains_expected``) in at most six sentences and 400 characters; an unanswerable question is right when
it is refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from tqdm import tqdm

from eval.questions import Question
from eval.scoring import contains_expected
from rag.pipeline import Pipeline
from rag.schema import Query, Result, Scope

MAX_SENTENCES, MAX_CHARACTERS = 6, 400
# About six G1, three G2 or one and a half G3.
REACH = 1200


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
    in_reach: bool
    documents: int
    characters: int


def is_short(n_sentences: int, text: str) -> bool:
    """Whether an answer is short enough to count."""
    return n_sentences <= MAX_SENTENCES and len(text) <= MAX_CHARACTERS


def documents_of(result: Result) -> list[str]:
    """Distinct documents of the ranking, best first."""
    return list(dict.fromkeys(item.chunk.doc_id for item in result.evidence))


def reach_of(result: Result, characters: int = REACH) -> str:
    """The first ``characters`` of the ranking's texts, each under its title and headings (which are not counted)."""
    texts: list[str] = []
    left = characters
    for item in result.evidence:
        if left <= 0:
            break
        texts += [item.chunk.title, item.chunk.section, item.chunk.text[:left]]
        left -= len(item.chunk.text)
    return "\n".join(texts)


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
            found[result.system].append(outcome_of(question, result, document_text))
    return dict(found)


def outcome_of(question: Question, result: Result, document_text: Callable[[str, str], str]) -> Outcome:
    """Score one result."""
    documents = documents_of(result)
    answer = result.answer
    short = is_short(len(answer.sentences), answer.text)
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
        in_reach=question.answerable and contains_expected(reach_of(result), question.expect),
        documents=len(documents),
        characters=sum(len(item.chunk.text) for item in result.evidence.items[: result.plan.top_k]),
    )


def text_reader(pipeline: Pipeline) -> Callable[[str, str], str]:
    """(scope id, document id) → stored text, "" for what is not on file."""

    @cache
    def text(scope_id: str, doc_id: str) -> str:
        farm_id = scope_id.removeprefix("farm:") if scope_id.startswith("farm:") else None
        for record in pipeline.views.get(Scope(farm_id=farm_id)).records.values():
            document = record.document(doc_id)
            if document is not None:
                return document.text
        return ""

    return text


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
            "fact_in_reach": round(fmean(o.in_reach for o in answerable), 4),
        }
    if others:
        row["refused"] = round(fmean(o.refused for o in others), 4)
    if outcomes:
        row["documents"] = round(fmean(o.documents for o in outcomes), 2)
        row["characters"] = round(fmean(o.characters for o in outcomes))
    row["citations_verbatim"] = round(fmean(o.verbatim for o in outcomes), 4) if outcomes else None
    return row


def by_kind(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Summary per question kind."""
    kinds = sorted({o.question.kind for o in outcomes})
    return {kind: summary([o for o in outcomes if o.question.kind == kind]) for kind in kinds}
