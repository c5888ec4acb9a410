"""``python -m eval tune``: profile rows and evidence model from the tune part of a set.

Objective of a setting s on a group of questions: mean nDCG@10 − λ·std over folds (a mixed index: mean over its sets).
The search goes down a tree of segments x(q): all questions → intent → one further feature per intent. A child with n
questions is scored with shrinkage to its parent,

    m_child(s) = (n·mean_child(s) + n₀·m_parent(s)) / (n + n₀)           fold by fold as well

and a group of fewer than ``MIN_QUESTIONS`` is merged up (it gets no row and inherits). The evidence model
(``eval.gate``) chooses among the row's setting and a few arms.

What is used is decided out of fold. Variants (one row for all; rows by segment; the better of both with an evidence
model, on each of the walks that suit best) are fitted on four folds and measured on the fifth; a variant replaces the
plain one only where its gain exceeds ``CAUTION`` standard errors. The same folds say whether the whole may be released: nowhere worse than a
fixed system, each fitted on the same four folds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.gate import Gate, fit_gate
from eval.signals import Signals
from eval.space import Quality, Searched, Setting, Space
from eval.splits import folds
from eval.systems import BEST_FIXED, FIXED, Adaptive, Mask, TunePart, fixed_setting, signal_table
from rag.errors import RagError
from rag.evidence import KEPT, SIGNALS
from rag.files import write_whole
from rag.profile_table import MATCH_VALUES, ProfileTable, fits, load, parse
from rag.schema import CHANNEL_LABELS, CHANNELS, INTENTS, Segment, Walk

STABILITY = 0.25
MIN_QUESTIONS = 20
SHRINKAGE = 20
CAUTION = 0.25
N_WALKS = 4
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Questions to tune on. ``quality``: shape (settings, questions); ``folds``: fold number of every question."""

    space: Space
    quality: Quality
    segments: tuple[Segment, ...]
    strata: npt.NDArray[np.int64]
    folds: npt.NDArray[np.int64]
    signals: Callable[[Walk], Signals]
    roots: dict[bytes, _Node] = field(default_factory=dict, repr=False)

    @property
    def block(self) -> int:
        """Settings that share walk and depth."""
        return len(self.space.rrf_k) * len(self.space.weights)

    def share(self, mask: Mask) -> Values:
        """ω: each set of the masked questions counts the same, each question of a set too; sums to 1."""
        found = np.zeros(len(mask))
        labels = np.unique(self.strata[mask])
        for label in labels:
            inside = mask & (self.strata == label)
            found[inside] = 1 / (inside.sum() * len(labels))
        return found

    def matching(self, match: Mapping[str, str | bool]) -> Mask:
        """Questions whose x(q) agrees with a match."""
        return np.array([fits(match, segment) for segment in self.segments])


@dataclass(frozen=True, slots=True)
class Row:
    """A segment with the number of its setting and of its tune questions."""

    match: Mapping[str, str | bool]
    number: int
    n_questions: int


@dataclass(frozen=True, slots=True)
class Variant:
    """What a fit may use."""

    segments: bool = False
    evidence: bool = False
    walk: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What was fitted: a setting for all, rows that replace it, and a gate."""

    default: int
    rows: tuple[Row, ...]
    gate: Gate | None

    def numbers(self, problem: Problem) -> npt.NDArray[np.int64]:
        """The setting of every question before the gate."""
        found = np.full(len(problem.segments), self.default)
        for row in sorted(self.rows, key=lambda r: len(r.match)):
            found[problem.matching(row.match)] = row.number
        return found

    def chosen(self, problem: Problem) -> npt.NDArray[np.int64]:
        """The setting of every question after the gate."""
        own = self.numbers(problem)
        if self.gate is None:
            return own
        arms = self.gate.choose(signals_of(problem, own))
        choices = np.array([0 if arm is None else arm for arm in self.gate.arms])[arms]
        return np.where(arms == 0, own, own // problem.block * problem.block + choices)

    def values(self, problem: Problem) -> Values:
        """nDCG@10 of every question."""
        chosen = self.chosen(problem)
        return problem.quality[chosen, np.arange(len(chosen))].astype(np.float64)


def signals_of(problem: Problem, numbers: npt.NDArray[np.int64]) -> Signals:
    """Signals of every question with the walk of its setting."""
    walks = numbers // (problem.block * len(problem.space.depths))
    found = np.empty((len(numbers), len(SIGNALS)))
    for walk in np.unique(walks):
        found[walks == walk] = problem.signals(problem.space.walks[walk])[walks == walk]
    return found


@dataclass(frozen=True, slots=True)
class _Node:
    """Shrunk means of all settings on a group: over all its questions, and fold by fold (settings, folds)."""

    mean: Values
    by_fold: Values

    @property
    def score(self) -> Values:
        score: Values = self.mean - STABILITY * self.by_fold.std(axis=1)
        return score


def fit(problem: Problem, mask: Mask, variant: Variant) -> Policy:
    """Fit one variant on the masked questions."""
    root = _root(problem, mask)
    allowed = np.ones(len(root.mean), bool)
    if variant.walk is not None:
        allowed[:] = False
        size = problem.block * len(problem.space.depths)
        allowed[variant.walk * size : (variant.walk + 1) * size] = True
    default = _best(root, allowed)
    rows = tuple(_rows(problem, mask, root, default)) if variant.segments else ()
    policy = Policy(default, rows, None)
    return policy if not variant.evidence else Policy(default, rows, _gate(problem, mask, policy))


def _best(node: _Node, allowed: Mask | None = None) -> int:
    score = node.score if allowed is None else np.where(allowed, node.score, -np.inf)
    return int(np.argmax(score))


def _root(problem: Problem, mask: Mask) -> _Node:
    """The node of all masked questions; variants share it."""
    key = mask.tobytes()
    if key not in problem.roots:
        problem.roots[key] = _node(problem, mask, None)
    return problem.roots[key]


def _node(problem: Problem, mask: Mask, parent: _Node | None) -> _Node:
    folds = np.unique(problem.folds)
    shares = [problem.share(mask)]
    shares += [problem.share(mask & (problem.folds == fold)) for fold in folds]
    present = np.array([share.sum() > 0 for share in shares[1:]])
    means = problem.quality @ np.array(shares, np.float32).T
    own, by_fold = means[:, 0].astype(np.float64), means[:, 1:].astype(np.float64)
    if parent is None:
        return _Node(own, by_fold[:, present])
    n, kept = int(mask.sum()), parent.by_fold
    own = (n * own + SHRINKAGE * parent.mean) / (n + SHRINKAGE)
    here = by_fold[:, present]
    if here.shape[1] == kept.shape[1]:
        here = (n * here + SHRINKAGE * kept) / (n + SHRINKAGE)
    return _Node(own, here)


def _rows(problem: Problem, mask: Mask, root: _Node, default: int) -> list[Row]:
    found: list[Row] = []
    for intent in INTENTS:
        inside = mask & problem.matching({"intent": intent})
        if inside.sum() < MIN_QUESTIONS:
            continue
        node = _node(problem, inside, root)
        row = Row({"intent": intent}, _best(node), int(inside.sum()))
        found += [row] if row.number != default else []
        found += _split(problem, inside, node, row)
    return found


def _split(problem: Problem, inside: Mask, parent: _Node, row: Row) -> list[Row]:
    """Rows of the one further feature whose values gain most over the parent's setting; none where nothing is gained."""
    best: list[Row] = []
    best_gain = 0.0
    for feature, allowed in list(MATCH_VALUES.items())[1:]:
        parts = [(m, inside & problem.matching(m)) for m in ({**row.match, feature: value} for value in allowed)]
        parts = [(match, here) for match, here in parts if here.sum() >= MIN_QUESTIONS]
        if len(parts) < 2:  # the group once more, which shrinkage would then count twice
            continue
        children, gain = [], 0.0
        for match, here in parts:
            node = _node(problem, here, parent)
            number = _best(node)
            gain += here.sum() * float(node.score[number] - node.score[row.number])
            children += [Row(match, number, int(here.sum()))] if number != row.number else []
        if gain > best_gain:
            best, best_gain = children, gain
    return best


def _gate(problem: Problem, mask: Mask, policy: Policy) -> Gate:
    own = policy.numbers(problem)
    places = np.flatnonzero(mask)
    starts = own[places] // problem.block * problem.block
    choices = np.column_stack(
        [problem.quality[start : start + problem.block, q] for start, q in zip(starts, places, strict=True)]
    ).astype(np.float64)
    rewards = problem.quality[own[places], places].astype(np.float64)
    return fit_gate(signals_of(problem, own)[places], rewards, choices, problem.share(mask)[places])


def out_of_fold(problem: Problem, mask: Mask, fitted: Callable[[Mask], Values]) -> Values:
    """Value of every masked question under what was fitted without its fold; NaN outside the mask."""
    found = np.full(len(mask), np.nan)
    for fold in np.unique(problem.folds[mask]):
        here = mask & (problem.folds == fold)
        found[here] = fitted(mask & ~here)[here]
    return found


@dataclass(frozen=True)
class Tuned:
    """A fitted policy, what it was chosen from, and out-of-fold means of it and of the fixed systems."""

    policy: Policy
    variant: Variant
    variants: tuple[dict[str, Any], ...]
    fixed: Mapping[str, float]
    cv_mean: float
    cv_std: float
    problem: Problem = field(repr=False)
    mask: Mask = field(repr=False)

    @property
    def releasable(self) -> bool:
        """No worse than any fixed system out of fold."""
        return all(self.cv_mean >= value for value in self.fixed.values())


def tune(problem: Problem, mask: Mask, *, quiet: bool = True) -> Tuned:
    """Choose a variant out of fold and fit it on the whole tune part."""
    share = problem.share(mask)
    measured: dict[Variant, Values] = {}

    def measure(variants: Sequence[Variant], label: str) -> None:
        for variant in tqdm(variants, desc=label, unit="갈래", leave=False, disable=quiet):
            measured[variant] = out_of_fold(problem, mask, lambda m, v=variant: fit(problem, m, v).values(problem))  # type: ignore[misc]

    measure([Variant(), Variant(segments=True)], "교차검증: 행")
    by_segment = _lead(share, measured[Variant(segments=True)], measured[Variant()], mask)[2] > 0
    walks = _promising_walks(problem, mask)
    measure([Variant(by_segment, True, walk) for walk in walks], "교차검증: 신호")
    plain, table = measured[Variant()], []
    chosen, best = Variant(), 0.0
    for variant, values in measured.items():
        gain, error, lead = _lead(share, values, plain, mask)
        table.append(
            {
                "segments": variant.segments,
                "evidence": variant.evidence,
                "walk": None if variant.walk is None else asdict(problem.space.walks[variant.walk]),
                "out_of_fold": round(_mean(share, values, mask), 4),
                "gain": round(gain, 4),
                "standard_error": round(error, 4),
            }
        )
        if lead > best:
            chosen, best = variant, lead
    values = measured[chosen]
    by_fold = [_mean(problem.share(m), values, m) for m in (mask & (problem.folds == f) for f in range(5)) if m.any()]
    return Tuned(
        policy=fit(problem, mask, chosen),
        variant=chosen,
        variants=tuple(table),
        fixed=_fixed(problem, mask, share),
        cv_mean=_mean(share, values, mask),
        cv_std=float(np.std(by_fold)),
        problem=problem,
        mask=mask,
    )


def _lead(share: Values, values: Values, plain: Values, mask: Mask) -> tuple[float, float, float]:
    """Gain over the plain variant, its standard error, and what is left of the gain after caution."""
    difference = np.where(mask, values - plain, 0.0)
    gain, error = float(share @ difference), float(np.sqrt((share**2) @ difference**2))
    return gain, error, gain - CAUTION * error


def _mean(share: Values, values: Values, mask: Mask) -> float:
    return float(share @ np.where(mask, values, 0.0))


def _promising_walks(problem: Problem, mask: Mask) -> list[int]:
    score = _root(problem, mask).score
    best = score.reshape(len(problem.space.walks), -1).max(axis=1)
    return [int(walk) for walk in np.argsort(-best, kind="stable")[:N_WALKS]]


def _fixed(problem: Problem, mask: Mask, share: Values) -> dict[str, float]:
    """Out-of-fold means of the fixed systems."""

    @cache
    def values(setting: Setting) -> Values:
        return _values_of(problem, setting)

    def system(name: str) -> Callable[[Mask], Values]:
        def fitted(fitting: Mask) -> Values:
            part = TunePart(problem.space, problem.quality, fitting, problem.strata)
            return values(part.best_setting() if name == BEST_FIXED else fixed_setting(name, part.best_walk()))

        return fitted

    names = (*FIXED, BEST_FIXED)
    return {name: round(_mean(share, out_of_fold(problem, mask, system(name)), mask), 4) for name in names}


def _values_of(problem: Problem, setting: Setting) -> Values:
    """Values of a setting; ``uniform``'s thirds lie between the grid's points and take the nearest."""
    space = problem.space
    weights = int(np.argmin(np.abs(space.weights - np.array(setting.weights)).sum(axis=1)))
    depth = space.depths.index(setting.depth) if setting.depth in space.depths else len(space.depths) - 1
    place = (space.walks.index(setting.walk) * len(space.depths) + depth) * len(space.rrf_k)
    number = (place + space.rrf_k.index(setting.rrf_k)) * len(space.weights) + weights
    values: Values = problem.quality[number].astype(np.float64)
    return values


def problem_of(part: TunePart, runs: Searched) -> Problem:
    """The questions of an index as a problem. Folds do not depend on the split's seed."""
    return Problem(
        part.space,
        part.quality,
        tuple(reading.segment for reading in runs.index.readings),
        part.strata,
        folds(runs.index.questions, 0),
        signal_table(runs),
    )


def tuned_adaptive() -> Adaptive:
    """The adaptive system that tunes a table on each tune part it is given; a part is tuned once."""
    kept: dict[tuple[int, bytes], ProfileTable] = {}

    def table_of(part: TunePart, runs: Searched) -> ProfileTable:
        key = (id(runs), part.tune.tobytes())
        if key not in kept:
            tuned = tune(problem_of(part, runs), part.tune, quiet=False)
            kept[key] = parse(candidate(tuned, UNTUNED, "tune", None))
        return kept[key]

    return Adaptive(table_of)


# The profile file

# What a table is tuned from where none is in force: no limits, no last release.
UNTUNED: Mapping[str, Any] = {"version": "untuned", "default": {"guardrails": {}}}


def candidate(tuned: Tuned, base: Mapping[str, Any], tuned_on: str, valid_until: date | None) -> dict[str, Any]:
    """A profile file. ``base`` is the file in force: its effort and guardrails stay, its weights are the reference."""
    problem, policy, in_force = tuned.problem, tuned.policy, parse(dict(base))
    quality = {
        "tuned_on": tuned_on,
        "n_queries": int(tuned.mask.sum()),
        "cv_mean": round(tuned.cv_mean, 4),
        "cv_std": round(tuned.cv_std, 4),
    }
    if valid_until is not None:
        quality["valid_until"] = valid_until.isoformat()
    space = problem.space
    rails = base["default"].get("guardrails", {})
    default = {**_setting(space.setting(policy.default)), "guardrails": rails, "quality": quality}
    released = "weights" in base["default"]
    if released:
        default["previous_weights"] = _rounded(in_force.default.weights.by_channel)
    rows = [
        {
            "id": "_".join(_word(key, value) for key, value in row.match.items()),
            "match": dict(row.match),
            **_setting(space.setting(row.number)),
            **({"previous_weights": _rounded(_reference(in_force, problem, tuned.mask, row))} if released else {}),
            "quality": quality | {"n_queries": row.n_questions},
        }
        for row in policy.rows
    ]
    kept = {key: base[key] for key in ("$schema", "min_queries", "effort") if key in base}
    found = {**kept, "version": f"{base['version']}+{tuned_on}", "default": default, "segments": rows}
    if policy.gate is not None:
        found["evidence_model"] = {**_gate_json(policy.gate, space), "quality": quality}
    parse(json.loads(json.dumps(found)))  # what the product would refuse is not written
    return found


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "weights": _rounded(dict(zip(CHANNELS, setting.weights, strict=True))),
        "depth": dict.fromkeys(CHANNELS, setting.depth),
        "rrf_k": setting.rrf_k,
        "walk": asdict(setting.walk),
    }


def _rounded(weights: Mapping[str, float]) -> dict[str, float]:
    return {channel: round(weight, 4) for channel, weight in weights.items()}


def _word(key: str, value: str | bool) -> str:
    short = {"entity_hint_presence": "value", "relation_hint": "relation"}.get(key, key)
    return str(value) if isinstance(value, str) else short if value else f"no_{short}"


def _reference(table: ProfileTable, problem: Problem, mask: Mask, row: Row) -> Mapping[str, float]:
    """Weights in force for most of a row's questions."""
    inside = Counter(problem.segments[q] for q in np.flatnonzero(mask & problem.matching(row.match)))
    segment = min(inside, key=lambda s: (-inside[s], s))
    return table.segments.get(segment, table.default).weights.by_channel


def _gate_json(gate: Gate, space: Space) -> dict[str, Any]:
    names = list(SIGNALS)
    scale = {
        n: [round(float(m), 5), round(float(d), 5)] for n, m, d in zip(names, gate.mean, gate.deviation, strict=True)
    }
    arms: list[dict[str, Any]] = []
    for place, arm in enumerate(gate.arms):
        column = gate.coefficients[:, place]
        found: dict[str, Any] = {"id": KEPT}
        if arm is not None:
            rrf_k, weights = divmod(arm, len(space.weights))
            values = dict(zip(CHANNELS, (float(w) for w in space.weights[weights]), strict=True))
            found = {"id": _arm_name(values, arms), "weights": _rounded(values), "rrf_k": space.rrf_k[rrf_k]}
        coefficients = {name: round(float(c), 4) for name, c in zip(names, column[1:], strict=True)}
        arms.append(found | {"bias": round(float(column[0]), 4), "coefficients": coefficients})
    return {"scale": scale, "arms": arms}


def _arm_name(weights: Mapping[str, float], taken: Sequence[Mapping[str, Any]]) -> str:
    """The strongest channel's name, numbered where it is taken."""
    strongest = max(CHANNELS, key=lambda channel: weights[channel])
    name = f"{CHANNEL_LABELS[strongest]} 우선"
    number = 1 + sum(arm["id"].startswith(name) for arm in taken)
    return name if number == 1 else f"{name} {number}"


# Report and release


def report_of(tuned: Tuned, tuned_on: str) -> dict[str, Any]:
    """What was tried and what it was worth, out of fold; ``releasable`` is the verdict that ``release`` obeys."""
    space = tuned.problem.space
    return {
        "tuned_on": tuned_on,
        "n_questions": int(tuned.mask.sum()),
        "out_of_fold": {"adaptive": round(tuned.cv_mean, 4), **tuned.fixed},
        "cv_std": round(tuned.cv_std, 4),
        "releasable": tuned.releasable,
        "chosen": {"segments": tuned.variant.segments, "evidence": tuned.variant.evidence},
        "variants": list(tuned.variants),
        "default": _setting(space.setting(tuned.policy.default)),
        "rows": [
            {"match": dict(r.match), "n_questions": r.n_questions, **_setting(space.setting(r.number))}
            for r in tuned.policy.rows
        ],
    }


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as Markdown."""
    lines = [f"# 프로필 후보: {report['tuned_on']}", "", f"질문 {report['n_questions']}개, 5겹 교차검증 nDCG@10.", ""]
    lines += ["| 방식 | 겹 밖 nDCG@10 |", "|---|---|"]
    lines += [f"| {name} | {value:.4f} |" for name, value in report["out_of_fold"].items()]
    verdict = (
        "내보낼 수 있습니다." if report["releasable"] else "내보내지 않습니다: 고정 방식 가운데 더 나은 것이 있습니다."
    )
    lines += [
        "",
        f"판정: {verdict}",
        "",
        "| 유형별 행 | 신호 | 보행 | 겹 밖 | 차이 | 표준오차 |",
        "|---|---|---|---|---|---|",
    ]
    for row in report["variants"]:
        walk = (
            row["walk"]
            and f"{row['walk']['max_hops']}걸음, 질량 {row['walk']['dense_mass']}, 몫 {row['walk']['dense_share']}"
        )
        cells = ["예" if row["segments"] else "", "예" if row["evidence"] else "", walk or "자유"]
        figures = [f"{row['out_of_fold']:.4f}", f"{row['gain']:+.4f}", f"{row['standard_error']:.4f}"]
        lines.append("| " + " | ".join([*cells, *figures]) + " |")
    if not report["chosen"]["evidence"]:
        lines += ["", "검색 뒤 신호는 겹 밖에서 이득이 확실하지 않아 넣지 않았습니다."]
    lines += ["", "| 행 | 질문 | 가중치 (의미/키워드/관계) | rrf_k | 깊이 |", "|---|---|---|---|---|"]
    for row in [{"match": {}, "n_questions": report["n_questions"], **report["default"]}, *report["rows"]]:
        name = ", ".join(f"{k}={v}" for k, v in row["match"].items()) or "기본"
        weights = "/".join(f"{row['weights'][channel]:g}" for channel in CHANNELS)
        lines.append(f"| {name} | {row['n_questions']} | {weights} | {row['rrf_k']} | {max(row['depth'].values())} |")
    return lines


class NotReleased(RagError):
    """A candidate may not come into force."""


def release(path: Path, in_force: Path, today: date) -> str:
    """Copy a candidate into force; returns its version. Its report must stand beside it and say that it may.

    Raises:
        NotReleased: the report is missing or says no.
        ProfileError: the candidate is no profile file.
    """
    report_path = path.with_suffix(".report.json")
    if not report_path.exists():
        raise NotReleased(f"'{report_path}' 이(가) 없습니다. 'python -m eval tune' 으로 후보와 보고서를 함께 만드세요.")
    try:
        report = json.loads(report_path.read_text(encoding="utf-8"))
        figures = ", ".join(f"{name} {value:.4f}" for name, value in report["out_of_fold"].items())
        releasable = report["releasable"] is True
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotReleased(f"'{report_path}' 은(는) tune 이 쓴 보고서가 아닙니다({error}). 다시 만드세요.") from error
    if not releasable:
        raise NotReleased(f"'{path}' 은(는) 자기 겹에서 고정 방식보다 낮아 내보내지 않습니다: {figures}")
    load(path)
    found = json.loads(path.read_text(encoding="utf-8"))
    major, minor, _ = json.loads(in_force.read_text(encoding="utf-8"))["version"].split("+")[0].split(".")
    found["version"] = f"{major}.{int(minor) + 1}.0"
    write_whole(in_force, profile_bytes(found))
    _note(in_force.with_name("CHANGELOG.md"), found, report, figures, today)
    return str(found["version"])


def profile_bytes(found: Mapping[str, Any]) -> bytes:
    """A profile file as it is written."""
    return (json.dumps(found, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def _note(path: Path, found: Mapping[str, Any], report: Mapping[str, Any], figures: str, today: date) -> None:
    """Put the release at the head of the profiles' change log."""
    text = path.read_text(encoding="utf-8")
    head, mark, rest = text.partition("\n## ")
    rows = [("default", found["default"]), *((row["id"], row) for row in found["segments"])]
    table = "\n".join(
        f"| `{name}` | {'/'.join(format(row['weights'].get(c, 0.0), 'g') for c in CHANNELS)} | {row['rrf_k']} |"
        for name, row in rows
    )
    entry = (
        f"\n## {found['version']}\n\n{today}. `{report['tuned_on']}` 질문 {report['n_questions']}개로 맞춤. "
        f"겹 밖 nDCG@10: {figures}.\n\n| 행 | 의미/키워드/관계 | rrf_k |\n|---|---|---|\n{table}\n"
    )
    write_whole(path, (head + entry + mark + rest).encode("utf-8"))
