"""``python -m eval llm-weights``: weights that a language model picks per question, against the profile's.

Answerable test questions of the farm set, the same index and the extractive answerer for both systems. A question is
asked once with each, one right after the other, in turns which first, after a warm-up; quality is that of ``eval farm``,
times are the stages of ``eval.latency``: ``control_ms`` = reading, profile, weights and fusion (the model's call
included), ``retrieval_ms`` = everything before the answer. The ratio is median ÷ median.

Finished questions are kept beside the report (``FILE.partial.jsonl``): the same command goes on where it was stopped,
and starts anew when model, prompt, index, profiles or questions are others.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tqdm import tqdm

from eval.compare import versions
from eval.farm import Outcome, outcome_of, text_reader
from eval.kept import Row, append_row, rows_kept
from eval.latency import CONTROL_STAGES
from eval.questions import Question
from eval.statistics import paired_bootstrap
from eval.timing import StopWatch
from rag.pipeline import Pipeline
from rag.render import RETRIEVAL_STAGES
from rag.schema import Query, Result, Scope
from rag.weighting import ADAPTIVE, LLM_WEIGHTS
from rag.weighting_llm import GRAMMAR, SYSTEM, LlmWeighting

PAIR = (ADAPTIVE, LLM_WEIGHTS)
QUALITY = ("ndcg@10", "recall@10", "expected_fact")
TIMES = ("control_ms", "retrieval_ms")


def spread(questions: Sequence[Question], n: int) -> list[Question]:
    """``n`` answerable test questions, the kinds in turns, in the order of the file; all when there are fewer."""
    kinds: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        if question.answerable and question.split == "test":
            kinds[question.kind].append(question)
    turns = [(turn, kind) for kind, members in kinds.items() for turn in range(len(members))]
    taken = Counter(kind for _, kind in sorted(turns)[:n])
    chosen = {members[i].id for kind, members in kinds.items() for i in _evenly(len(members), taken[kind])}
    return [question for question in questions if question.id in chosen]


def _evenly(size: int, n: int) -> list[int]:
    """``n`` of ``size`` places, evenly apart."""
    return [i * size // n for i in range(n)]


def run_llm_weights(
    pipeline: Pipeline, weighting: LlmWeighting, questions: Sequence[Question], model: Path, kept: Path
) -> dict[str, Any]:
    """Ask ``questions`` with both systems and report. ``kept`` holds what is done, until the report is complete.

    Raises:
        GenerationError: the model cannot be opened.
    """
    prompt_tokens = [weighting.prompt_tokens(question.question) for question in questions]
    run = _identity(pipeline, questions, model)
    rows = rows_kept(kept, run)
    read_text = text_reader(pipeline)
    left = [(i, question) for i, question in enumerate(questions) if question.id not in rows]
    for _, question in left[:1]:  # the warm-up is not counted
        _ask(pipeline, question, PAIR)
    for number, question in tqdm(left, desc="질문", unit="개", initial=len(rows), total=len(questions)):
        results = _ask(pipeline, question, PAIR if number % 2 == 0 else PAIR[::-1])
        row = {
            "id": question.id,
            "kind": question.kind,
            "systems": {system: _figures(outcome_of(question, r, read_text), r) for system, r in results.items()},
            **_picked(results[LLM_WEIGHTS]),
        }
        append_row(kept, rows, row)
    done = [rows[question.id] for question in questions]
    report = {**run, "prompt_tokens": {"median": float(np.median(prompt_tokens)), "max": max(prompt_tokens)}}
    return {**report, **summarise(done), "versions": _versions(), "rows": done}


def _ask(pipeline: Pipeline, question: Question, systems: Sequence[str]) -> dict[str, Result]:
    query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
    return {system: pipeline.ask(query, system=system) for system in systems}


def _figures(outcome: Outcome, result: Result) -> dict[str, float]:
    latency = result.trace.latency_ms
    return {
        "ndcg@10": outcome.ndcg,
        "recall@10": outcome.recall[10],
        "expected_fact": float(outcome.expected),
        "control_ms": round(sum(latency.get(stage, 0.0) for stage in CONTROL_STAGES), 3),
        "retrieval_ms": round(sum(latency.get(stage, 0.0) for stage in RETRIEVAL_STAGES), 3),
    }


def _picked(result: Result) -> Row:
    """What the model said, and what became of it."""
    (decision,) = [d for d in result.trace.decisions if d.stage == LLM_WEIGHTS]
    return {
        "outcome": decision.data["outcome"],
        "finish_reason": decision.data["finish_reason"],
        "output": decision.data["output"],
        "why": decision.why,
        "weights": dict(result.weights.final.by_channel),
        "llm_ms": round(result.trace.latency_ms[LLM_WEIGHTS], 3),
    }


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Means, times, their ratios, paired differences (llm_weights − adaptive) and the share of malformed outputs."""
    columns: dict[str, dict[str, list[float]]] = {
        system: {name: [row["systems"][system][name] for row in rows] for name in (*QUALITY, *TIMES)} for system in PAIR
    }
    watch = StopWatch()
    for system in PAIR:
        for name in TIMES:
            watch.times[f"{system}.{name}"] = columns[system][name]
    watch.times["llm"] = [row["llm_ms"] for row in rows]
    times = watch.summary()
    outcomes = Counter(row["outcome"] for row in rows)
    return {
        "n_questions": len(rows),
        "kinds": dict(Counter(row["kind"] for row in rows)),
        "systems": {
            system: {
                **{name: round(fmean(columns[system][name]), 4) for name in QUALITY},
                **{name: times[f"{system}.{name}"] for name in TIMES},
            }
            for system in PAIR
        },
        "llm_ms": times["llm"],
        "ratio_of_medians": {
            name: round(times[f"{LLM_WEIGHTS}.{name}"]["median_ms"] / times[f"{ADAPTIVE}.{name}"]["median_ms"], 2)
            for name in TIMES
        },
        "difference": {name: _difference(columns, name) for name in QUALITY},
        "outcomes": {name: outcomes[name] for name in ("ok", "partial", "fallback")},
        "malformed_share": round(1 - outcomes["ok"] / len(rows), 4),
        "distinct_outputs": len({row["output"] for row in rows}),
    }


def _difference(columns: Mapping[str, Mapping[str, Sequence[float]]], name: str) -> dict[str, float]:
    """llm_weights − adaptive, paired by question."""
    found = paired_bootstrap(np.subtract(columns[LLM_WEIGHTS][name], columns[ADAPTIVE][name]))
    return {key: round(getattr(found, key), 4) for key in ("difference", "low", "high", "p")}


def _identity(pipeline: Pipeline, questions: Sequence[Question], model: Path) -> dict[str, Any]:
    """What the figures belong to; kept questions of another run are not taken."""
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    farms = sorted({question.farm or "" for question in questions})
    return {
        "model": {"name": model.stem, "mb": round(model.stat().st_size / 1e6, 1), "sha256": digest},
        "prompt": hashlib.sha256((SYSTEM + GRAMMAR).encode()).hexdigest()[:16],
        "index": {farm or "public": pipeline.views.get(Scope(farm_id=farm or None)).digest for farm in farms},
        "profiles": pipeline.table.version,
        "questions": [question.id for question in questions],
    }


def _versions() -> dict[str, str]:
    return {**versions(), "llama-cpp-python": version("llama-cpp-python")}
