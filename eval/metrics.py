"""Metrics per question from ``ir_measures`` (MacAvaney, Macdonald & Ounis, ECIR 2022), unanswered questions counted as 0.

nDCG@10 is binary: gain 1 per gold passage, discount log2(1 + rank), divided by the ideal of min(10, |gold|) passages.
MRR is 1/rank of the first gold passage within the ranking (100 long), Recall@k the share of gold among the first k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ir_measures
import numpy as np
import numpy.typing as npt
from ir_measures import RR, Qrel, R, ScoredDoc, nDCG

PER_QUESTION = npt.NDArray[np.float64]

MEASURES = {"ndcg@10": nDCG @ 10, "mrr": RR, "recall@2": R @ 2, "recall@5": R @ 5, "recall@10": R @ 10}
MAIN = "ndcg@10"


def per_question(
    ids: Sequence[str], gold: Sequence[Sequence[str]], rankings: Sequence[Sequence[str]]
) -> dict[str, PER_QUESTION]:
    """Metric → value of each question, shape (questions,); rankings are passage ids, best first, maybe empty."""
    qrels = [Qrel(name, passage, 1) for name, relevant in zip(ids, gold, strict=True) for passage in relevant]
    number = {name: i for i, name in enumerate(ids)}
    label = {str(measure): key for key, measure in MEASURES.items()}
    values = {key: np.zeros(len(ids)) for key in MEASURES}
    for metric in ir_measures.iter_calc(list(MEASURES.values()), qrels, _scored(ids, rankings)):
        values[label[str(metric.measure)]][number[metric.query_id]] = metric.value
    return values


def _scored(ids: Sequence[str], rankings: Sequence[Sequence[str]]) -> Iterator[ScoredDoc]:
    for name, ranking in zip(ids, rankings, strict=True):
        for rank, passage in enumerate(ranking, start=1):
            yield ScoredDoc(name, passage, 1.0 / rank)
