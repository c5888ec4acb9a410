"""Latency of the query path on an index, warm: one warm-up, then repeats over a fixed sample of questions.

Figures are medians and 95th percentiles over all counted calls, in milliseconds, and each stage's share of retrieval.
``control`` = features + profile + policy + weighting + fusion (and ``llm_weights`` where a model picks them);
``retrieval`` = everything before the answer.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from eval.questions import Question
from rag.pipeline import Pipeline
from rag.render import RETRIEVAL_STAGES
from rag.schema import Query, RetrievalPlan, Scope
from rag.tracing import Recorder

CONTROL_STAGES = ("features", "profile", "policy", "llm_weights", "weighting", "fusion")


def run_latency(pipeline: Pipeline, questions: Sequence[Question], *, repeats: int = 5) -> dict[str, Any]:
    """Stage medians, 95th percentiles and shares over ``repeats`` passes after one warm-up pass."""
    stages: dict[str, list[float]] = defaultdict(list)
    for number in tqdm(range(repeats + 1), desc="지연", unit="회"):
        for question in questions:
            query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
            latency = pipeline.ask(query).trace.latency_ms
            if number == 0:
                continue
            for stage, ms in latency.items():
                stages[stage].append(ms)
            stages["control"].append(sum(latency.get(stage, 0.0) for stage in CONTROL_STAGES))
            stages["retrieval_total"].append(sum(latency.get(stage, 0.0) for stage in RETRIEVAL_STAGES))
    total = float(np.median(stages["retrieval_total"]))
    return {
        "n_questions": len(questions),
        "repeats": repeats,
        "stages": {
            stage: {
                "median_ms": round(float(np.median(times)), 3),
                "p95_ms": round(float(np.percentile(times, 95)), 3),
                "share": round(float(np.median(times)) / total, 3) if stage in RETRIEVAL_STAGES else None,
            }
            for stage, times in stages.items()
        },
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def run_sub_questions(
    pipeline: Pipeline, questions: Sequence[Question], *, n_questions: int = 30, repeats: int = 5
) -> dict[str, Any]:
    """Searching a question and its sub-questions at the same time against one after the other (channels at the same
    time in both), over the first ``n_questions`` of several parts; medians in milliseconds after one warm-up."""
    times: dict[str, list[float]] = defaultdict(list)
    n_queries: list[int] = []
    for question in questions:
        if len(n_queries) == n_questions:
            break
        query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
        plan = pipeline.understand(query, Recorder()).plan
        if len(plan.queries) == 1:
            continue
        n_queries.append(len(plan.queries))
        alone = [replace(plan, queries=(one,)) for one in plan.queries]
        for number in range(repeats + 1):
            together_ms, in_turn_ms = _searched_ms(pipeline, [plan]), _searched_ms(pipeline, alone)
            if number:
                times["together"].append(together_ms)
                times["in_turn"].append(in_turn_ms)
    if not n_queries:
        return {"n_questions": 0}
    together, in_turn = (float(np.median(times[name])) for name in ("together", "in_turn"))
    return {
        "n_questions": len(n_queries),
        "queries_per_question": round(float(np.mean(n_queries)), 2),
        "repeats": repeats,
        "together_ms": round(together, 3),
        "in_turn_ms": round(in_turn, 3),
        "speed_up": round(in_turn / together, 3),
    }


def _searched_ms(pipeline: Pipeline, plans: Sequence[RetrievalPlan]) -> float:
    """Milliseconds of the searches of all plans, one plan after the other."""
    start = time.perf_counter()
    for plan in plans:
        pipeline.retriever.run(plan, Recorder())
    return (time.perf_counter() - start) * 1000
