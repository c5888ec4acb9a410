"""Fit what makes a sentence answer a question: ``python -m eval ranking [--write] [--json FILE]``.

Every fitting question with an answer on file is asked; its candidates are the evidence sentences of the passages found
(``rag.answering.sentences.Ranker``), and a candidate of a gold document that holds an expected fact answers. The weights
minimise the listwise loss −log(Σ_{answering} e^{rel} / Σ e^{rel}) (Cao et al. 2007, with several right ones) plus an L2
penalty on standardised features; each is bound to the sign that its feature has by meaning. Questions are encoded with
adapters that were fitted without them (``eval.adapter``).

From the same candidates come the levels that the screens speak of (``calibration.Relevance``): the median and the 5 %
quantile of the cosines of answering sentences.

With a cross-encoder only the fold that it was not tuned on takes part; on so few questions two numbers are fitted, the scale
of the weights without one (``ONSIL_RERANKER=false``) and the weight of its log-odds.

Figures are of FOLDS folds, each fitted on the others: share of questions all of whose expected facts stand in the first 1,
2, 3 and 6 sentences, and in any (``reach``).
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import logsumexp

from eval.adapter import FOLDS, asked_held_out, reserved
from eval.compare import save_report
from eval.levels import put_levels
from eval.questions import Question, tune_questions
from eval.scoring import contains_expected
from rag.answering.calibration import SentenceWeights, load_calibration
from rag.answering.sentences import FEATURES, Scored, rank_sentences
from rag.assembly import build_pipeline, levels_file, reranker_of
from rag.pipeline import Pipeline
from rag.reranker import Reranker
from rag.schema import Query, Scope
from rag.settings import load_settings
from rag.tracing import Recorder
from rag.weighting import ADAPTIVE

TUNED_ON = "farm.jsonl (tune) + farm_tune.jsonl"
PENALTY = 2.0
DEPTHS = (1, 2, 3, 6)
SIGNS: Mapping[str, int] = {name: -1 if name in ("no_figure", "missing", "house") else 1 for name in FEATURES}

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a question: features, shape (n, features), and which fact each states, shape (n, facts)."""

    question_id: str
    features: Array
    states: npt.NDArray[np.bool_]

    @property
    def answers(self) -> npt.NDArray[np.bool_]:
        """Which candidates state a fact."""
        found: npt.NDArray[np.bool_] = np.any(self.states, axis=1)
        return found


def scored_of(
    pipeline: Pipeline, query: Query, weights: SentenceWeights, reranker: Reranker | None = None
) -> tuple[bool, list[Scored]]:
    """Whether a question is on a farm's records, and the sentences that the answerer would choose from."""
    recorder = Recorder()
    understood = pipeline.understand(query, recorder)
    results = pipeline.retriever.run(understood.plan, recorder)
    retrieved = pipeline.retriever.fuse_results(pipeline.planned(understood, ADAPTIVE), results, recorder)
    asked = understood.asked
    items = retrieved.evidence.items[: understood.plan.top_k]
    return asked.record, rank_sentences(asked, items, weights, reranker)


def query_of(question: Question) -> Query:
    """A question of a set, as the farm that asks it would."""
    return Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)


def candidates_of(
    pipeline: Pipeline, question: Question, weights: SentenceWeights, reranker: Reranker | None
) -> Candidates:
    """What the answerer would choose from."""
    record, scored = scored_of(pipeline, query_of(question), weights, reranker)
    gold = gold_of(question)
    states = [[states_of(one, gold, fact, record) for fact in question.expect] for one in scored]
    features = np.array([one.features for one in scored], np.float64).reshape(len(scored), len(FEATURES))
    return Candidates(question.id, features, np.array(states, bool).reshape(len(states), len(question.expect)))


def gold_of(question: Question) -> set[str]:
    """All documents that answer a question, or a part of it."""
    return {document for group in question.gold for document in group}


def states_of(scored: Scored, gold: set[str], fact: Sequence[str], record: bool) -> bool:
    """Whether a candidate is of a gold document and states a fact; a record says its day and title, too."""
    chunk = scored.chunk
    said = f"{chunk.title} {chunk.date} {scored.text}" if record else scored.text
    return chunk.doc_id in gold and contains_expected(said, [fact])


def fit(asked: Sequence[Candidates], penalty: float = PENALTY) -> Array:
    """Weights of raw features, in the order of ``FEATURES``."""
    rows = [one for one in asked if one.answers.any()]
    x, right = np.concatenate([one.features for one in rows]), np.concatenate([one.answers for one in rows])
    starts = np.cumsum([0, *(len(one.features) for one in rows[:-1])])
    sizes = [len(one.features) for one in rows]
    spread = x.std(axis=0) + 1e-9
    z = x / spread

    def loss(w: Array) -> tuple[float, Array]:
        scores = z @ w
        weights = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        total, good = np.add.reduceat(weights, starts), np.add.reduceat(weights * right, starts)
        pull = weights / np.repeat(total, sizes) - weights * right / np.repeat(good, sizes)
        return float(np.log(total / good).sum() + penalty * w @ w / 2), z.T @ pull + penalty * w

    bounds = [(0, None) if SIGNS[name] > 0 else (None, 0) for name in FEATURES]
    found = minimize(loss, np.zeros(len(FEATURES)), jac=True, method="L-BFGS-B", bounds=bounds)
    weights: Array = found.x / spread
    return weights


def scaled(asked: Sequence[Candidates], plain: Array) -> Array:
    """``plain`` weights times a fitted scale, with a fitted weight of the last feature; neither is negative."""
    rows = [one for one in asked if one.answers.any()]

    def loss(w: Array) -> float:
        total = PENALTY * float(w @ w) / 2
        for one in rows:
            scores = _scaled(plain, w) @ one.features.T
            total += float(logsumexp(scores) - logsumexp(scores[one.answers]))
        return total

    return _scaled(plain, minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B", bounds=[(0, None)] * 2).x)


def _scaled(plain: Array, w: Array) -> Array:
    return np.append(w[0] * plain[:-1], w[1])


def covered(one: Candidates, weights: Array, depth: int) -> bool:
    """Whether the first ``depth`` candidates state every fact."""
    order = np.argsort(-(one.features @ weights), kind="stable")[:depth]
    return bool(one.states[order].any(axis=0).all()) if len(order) else False


def cross_validated(asked: Sequence[Candidates], fitted: Callable[[Sequence[Candidates]], Array]) -> dict[str, Any]:
    """Figures of weights ``fitted`` without the part that is measured."""
    part = {one.question_id: zlib.crc32(f"part {one.question_id}".encode()) % FOLDS for one in asked}
    held = [fitted([one for one in asked if part[one.question_id] != fold]) for fold in range(FOLDS)]
    report: dict[str, Any] = {"n_questions": len(asked)}
    for depth in DEPTHS:
        found = [covered(one, held[part[one.question_id]], depth) for one in asked]
        report[f"first_{depth}"] = round(float(np.mean(found)), 4)
    report["reach"] = round(float(np.mean([bool(one.states.any(axis=0).all()) for one in asked])), 4)
    return report


def relevance_levels(asked: Sequence[Candidates]) -> dict[str, Any]:
    """Cosines from which a sentence is called highly or usually relevant, and the share of other candidates above them."""
    cosines = np.concatenate([one.features[:, FEATURES.index("similarity")] for one in asked])
    right = np.concatenate([one.answers for one in asked])
    usual, high = (round(float(level), 3) for level in np.quantile(cosines[right], (0.05, 0.5)))
    others = cosines[~right]
    return {
        "tuned_on": TUNED_ON,
        "high": high,
        "usual": usual,
        "n_sentences": int(right.sum()),
        "others_high": round(float((others >= high).mean()), 3),
        "others_usual": round(float((others >= usual).mean()), 3),
    }


def add_command(commands: Any) -> None:
    """Add ``ranking``."""
    ranking = commands.add_parser("ranking", help="답변 문장을 고르는 무게를 조정용 질문에 맞추고 잽니다")
    ranking.add_argument("--store", type=Path)
    ranking.add_argument("--write", action="store_true", help="profiles/answering.v1.json 에 씁니다")
    ranking.add_argument("--json", type=Path, metavar="FILE")
    ranking.set_defaults(run=_ranking)


def _ranking(args: argparse.Namespace) -> None:
    settings = load_settings(store=args.store)
    pipeline = build_pipeline(settings, extractive=True)
    encoder = pipeline.embedder.model_name
    reranker = reranker_of(settings, encoder)
    reranked = reranker is not None
    in_force = load_calibration(levels_file(settings), encoder, reranked=reranked).sentences
    questions = [q for q in (reserved(tune_questions()) if reranked else tune_questions()) if q.answerable]
    asked = [
        found
        for _, found in asked_held_out(
            pipeline.embedder,
            questions,
            settings,
            lambda question: candidates_of(pipeline, question, in_force, reranker),
        )
    ]
    plain = np.array(astuple(load_calibration(levels_file(settings), encoder).sentences))
    fitted = (lambda some: scaled(some, plain)) if reranked else fit
    weights = dict(zip(FEATURES, (round(float(w), 4) for w in fitted(asked)), strict=True))
    report: dict[str, Any] = {
        "encoder": encoder,
        "sentences": weights,
        **cross_validated(asked, fitted),
        "relevance": relevance_levels(asked),
    }
    print("  ".join(f"{key} {value:.3f}" for key, value in report.items() if isinstance(value, float)))
    print("  ".join(f"{name} {weight:g}" for name, weight in weights.items()))
    if args.write:
        changes = {"sentences": weights} if reranked else {"sentences": weights, "relevance": report["relevance"]}
        put_levels(levels_file(settings), encoder, changes, reranked=reranked)
    if args.json:
        save_report(args.json, report)
