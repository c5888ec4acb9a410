"""``python -m eval uncertainty``: fit U = α·H + β·(1 − O), and what a second look at U ≥ τ changes.

Fitted on the fitting questions to predict that an answer is wrong: it lacks an expected fact, or answers what has no answer
on file. A refusal is right or wrong like any answer. α is chosen on a grid for the largest AUROC (Mann–Whitney: the share
of pairs of a wrong and a right answer that U orders rightly, ties half); τ is the lowest of the U values at which, were
every answer above it looked at again, at most ``SHARE`` of the questions were: a second look costs about a question's time.

The loop is measured on the same questions with and without it, in turn: how many answers are wrong, what it costs, which
answers it mended and which it spoiled. It stays off where it does not lower the wrong answers by ``GAIN`` (relative) at no
more than ``COST`` times the mean time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import mannwhitneyu
from tqdm import tqdm

from eval.farm import is_short
from eval.levels import put_levels
from eval.questions import SETS_DIR, Question, load_questions
from eval.scoring import contains_expected
from rag.answering.calibration import load_calibration
from rag.answering.compose import EXTRACTIVE, GENERATED
from rag.assembly import build_pipeline, levels_file
from rag.embedding import load_embedder
from rag.files import write_whole
from rag.pipeline import Pipeline
from rag.profile_table import ProfileTable
from rag.schema import Query, Result, Scope
from rag.settings import Settings, load_settings
from rag.uncertainty import UncertaintyModel

ALPHAS = np.linspace(0, 1, 21)
SHARE, GAIN, COST = 0.25, 0.20, 1.3
FITTING = "farm_tune.jsonl"
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer: H, O, whether it is wrong, and the seconds that it took."""

    question: Question
    entropy: float
    coverage: float
    wrong: bool
    unsupported: float
    seconds: float
    looks: int


def is_wrong(question: Question, result: Result) -> bool:
    """Whether an answer lacks an expected fact (or was refused), or answers a question that has no answer on file."""
    answer = result.answer
    if not question.answerable:
        return not answer.refused
    short = is_short(len(answer.sentences), answer.text)
    return answer.refused or not (short and contains_expected(answer.text, question.expect))


def case_of(pipeline: Pipeline, question: Question) -> Case | None:
    """Ask one question; None where a rule refused it, which no second look changes."""
    query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
    started = time.perf_counter()
    result = pipeline.ask(query)
    seconds = time.perf_counter() - started
    weighed = [d.data for d in result.trace.decisions if d.stage == "uncertainty" and "entropy" in d.data]
    if not weighed:
        return None
    sentences = result.answer.sentences
    return Case(
        question=question,
        entropy=weighed[0]["entropy"],
        coverage=weighed[0]["coverage"],
        wrong=is_wrong(question, result),
        unsupported=0.0 if result.answer.refused else fmean(not s.supported for s in sentences),
        seconds=seconds,
        looks=len(weighed) - 1,
    )


def auroc(values: Array, wrong: npt.NDArray[np.bool_]) -> float:
    """How well the values order wrong before right answers; 0.5 where all are right or all wrong."""
    if wrong.all() or not wrong.any():
        return 0.5
    statistic = mannwhitneyu(values[wrong], values[~wrong]).statistic
    return float(statistic / (wrong.sum() * (~wrong).sum()))


def fit(cases: Sequence[Case], share: float = SHARE) -> UncertaintyModel:
    """α of the largest AUROC (the smaller one of equals), and τ above which at most ``share`` of the answers lie."""
    entropy = np.array([case.entropy for case in cases])
    uncovered = 1 - np.array([case.coverage for case in cases])
    wrong = np.array([case.wrong for case in cases])
    scores = [auroc(alpha * entropy + (1 - alpha) * uncovered, wrong) for alpha in ALPHAS]
    alpha = float(ALPHAS[int(np.argmax(np.round(scores, 4)))])
    values = alpha * entropy + (1 - alpha) * uncovered
    tau = float(np.quantile(values, 1 - share, method="higher"))
    return UncertaintyModel(
        alpha=round(alpha, 4), beta=round(1 - alpha, 4), tau=round(tau, 4), auroc=round(max(scores), 4)
    )


def parts(cases: Sequence[Case]) -> dict[str, float]:
    """AUROC of H and of 1 − O alone."""
    wrong = np.array([case.wrong for case in cases])
    return {
        "entropy": round(auroc(np.array([case.entropy for case in cases]), wrong), 4),
        "uncovered": round(auroc(1 - np.array([case.coverage for case in cases]), wrong), 4),
    }


def effect(without: Sequence[Case], with_loop: Sequence[Case]) -> dict[str, Any]:
    """What the loop changed: wrong rates, unsupported sentences, times, and the verdict."""
    before, after = fmean(c.wrong for c in without), fmean(c.wrong for c in with_loop)
    pairs = list(zip(without, with_loop, strict=True))
    cost = fmean(c.seconds for c in with_loop) / fmean(c.seconds for c in without)
    gain = (before - after) / before if before else 0.0
    return {
        "n": len(pairs),
        "wrong": {"without": round(before, 4), "with": round(after, 4)},
        "relative_gain": round(gain, 4),
        "unsupported": {
            "without": round(fmean(c.unsupported for c in without), 4),
            "with": round(fmean(c.unsupported for c in with_loop), 4),
        },
        "mended": sum(a.wrong and not b.wrong for a, b in pairs),
        "spoiled": sum(b.wrong and not a.wrong for a, b in pairs),
        "looked_again": round(fmean(c.looks > 0 for c in with_loop), 4),
        "generations": round(fmean(1 + c.looks for c in with_loop), 4),
        "mean_time_ratio": round(cost, 3),
        "worth_it": gain >= GAIN and cost <= COST,
    }


def _cases(settings: Settings, questions: Sequence[Question], *, llm: bool, **options: Any) -> list[Case | None]:
    pipeline = build_pipeline(settings, extractive=not llm, **options)
    pipeline.ask(Query(text="데우기", scope=Scope(), asked_at=settings.now()))
    return [case_of(pipeline, question) for question in tqdm(questions, desc="질문", unit="개")]


# What the reference system reports beside itself: one part taken away at a time from everything switched on.
_BY_EFFORT = {effort: rule.granularity for effort, rule in ProfileTable.builtin().effort.items()}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "everything": {"second_look": True, "granularity": _BY_EFFORT},
    "fixed granularity": {"second_look": True, "granularity": dict.fromkeys(_BY_EFFORT, "G2")},
    "no uncertainty loop": {"second_look": False, "granularity": _BY_EFFORT},
    "no re-retrieval": {"second_look": True, "granularity": _BY_EFFORT, "requery": False},
    "fixed depth": {"second_look": True, "granularity": _BY_EFFORT, "top_k": 8},
    "as shipped": {},
}


def ablate(settings: Settings, questions: Sequence[Question], *, llm: bool) -> dict[str, dict[str, float]]:
    """Wrong and unsupported answers, time and generations of each variant, on questions that no rule refuses."""
    rows: dict[str, dict[str, float]] = {}
    for name, options in VARIANTS.items():
        cases = [case for case in _cases(settings, questions, llm=llm, **options) if case is not None]
        rows[name] = {
            "n": len(cases),
            "wrong": round(fmean(c.wrong for c in cases), 4),
            "unsupported": round(fmean(c.unsupported for c in cases), 4),
            "median_ms": round(1000 * median(c.seconds for c in cases), 1),
            "mean_ms": round(1000 * fmean(c.seconds for c in cases), 1),
            "generations": round(fmean(1 + c.looks for c in cases), 3),
        }
    return rows


def _held_out(settings: Settings, answerer: str, cases: Sequence[Case]) -> float | None:
    """AUROC of the model in force on these answers; None where none was fitted."""
    encoder = load_embedder(settings.embedder, settings.embedder_threads).model_name
    model = load_calibration(levels_file(settings), encoder).uncertainty.get(answerer)
    if model is None:
        return None
    values = np.array([model.value(case.entropy, case.coverage) for case in cases])
    return round(auroc(values, np.array([case.wrong for case in cases])), 4)


def _write(settings: Settings, answerer: str, model: UncertaintyModel) -> None:
    encoder = load_embedder(settings.embedder, settings.embedder_threads).model_name
    put_levels(levels_file(settings), encoder, {"uncertainty": {answerer: asdict(model)}})


def add_command(commands: Any) -> None:
    """Add the sub-parser."""
    parser = commands.add_parser("uncertainty", help="불확실성 U 를 맞추고, 다시 찾기가 무엇을 바꾸는지 잽니다")
    parser.add_argument("--answerer", choices=(EXTRACTIVE, GENERATED), default=EXTRACTIVE)
    parser.add_argument("--set", type=Path, help="기본: 맞출 때는 farm_tune.jsonl, 잴 때는 farm.jsonl 의 test")
    parser.add_argument("--questions", type=int, metavar="N", help="앞의 N개만")
    parser.add_argument("--fit", action="store_true", help="α, β, τ 를 새로 맞춰 answering.v1.json 에 씁니다")
    parser.add_argument(
        "--ablate", action="store_true", help="부품을 하나씩 빼고 잽니다(단위, 다시 찾기, 새 질의, 근거 수)"
    )
    parser.add_argument("--model", type=Path, metavar="GGUF", help="answerer llm 의 모델. 기본: 설정의 model")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> dict[str, Any]:
    settings = load_settings(store=args.store, model=args.model)
    llm = args.answerer == GENERATED
    report: dict[str, Any] = {"answerer": args.answerer}
    if args.fit:
        questions = list(load_questions(args.set or SETS_DIR / FITTING))[: args.questions]
        cases = [case for case in _cases(settings, questions, llm=llm, second_look=False) if case is not None]
        model = fit(cases)
        _write(settings, args.answerer, model)
        report |= {"fitted": {"alpha": model.alpha, "beta": model.beta, "tau": model.tau, "auroc": model.auroc}}
        report |= {"auroc_alone": parts(cases), "n_fitted": len(cases)}
    else:
        listed = load_questions(args.set or SETS_DIR / "farm.jsonl")
        questions = [q for q in listed if args.set or q.split == "test"][: args.questions]
        if args.ablate:
            report |= {"ablation": ablate(settings, questions, llm=llm)}
            return _told(args, report)
        without = _cases(settings, questions, llm=llm, second_look=False)
        with_loop = _cases(settings, questions, llm=llm, second_look=True)
        pairs = [(a, b) for a, b in zip(without, with_loop, strict=True) if a is not None and b is not None]
        report |= {"loop": effect([a for a, _ in pairs], [b for _, b in pairs])}
        report |= {"auroc": _held_out(settings, args.answerer, [a for a, _ in pairs])}
    return _told(args, report)


def _told(args: argparse.Namespace, report: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(report, ensure_ascii=False, indent=2)
    print(text)
    if args.json:
        write_whole(args.json, f"{text}\n".encode())
    return report
