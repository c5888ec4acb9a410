"""``python -m eval ablate``: what each part is worth, in one command, on the same cached runs as ``compare``.

The reference is ``adaptive`` where a profile is given, else ``best_fixed``. An ablation changes one thing in the
reference's settings and nothing is tuned again, except where the name says so:

    no vector / bm25 / graph    weight 0, the rest renormalised (equal where nothing is left)
    uniform                     weights 1:1:1
    no guardrails, floor 10 %   the profile's weights without a box; every channel at least 0.1
    no evidence signals         the rows as they are, whatever the channels found
    one segment                 the default row for all questions, the evidence model as it is
    best fixed                  one setting for all questions, tuned on the tune part
    hops 1 / 2 / 3              hop limit of every walk
    no relations                relation_share 0
    no dense seeds              dense_mass 0
    no question-aware step      temperature off
    no dense share              dense_share 0
    rrf_k 1 … 60                the fusion constant
    tune 5 / 10 / 20 %          one segment, tuned on that share of all questions (whole gold groups)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from eval.compare import Bench, Job, SeedResult, benches, crossfitted
from eval.metrics import MAIN, MEASURES
from eval.space import RRF_K, Setting
from eval.statistics import holm, paired_bootstrap
from eval.systems import ADAPTIVE, BEST_FIXED, TunePart, settings_of
from rag.guardrails import apply_guardrails
from rag.schema import CHANNELS, Guardrails

REFERENCE = "reference"
FLOOR = 0.1
TUNING_SHARES = (0.05, 0.1, 0.2)
_SHORT = dict(zip(CHANNELS, ("vector", "bm25", "graph"), strict=True))

Change = Callable[[Setting], Setting]


def without(channel: str) -> Change:
    """Weight 0 for one channel."""
    place = CHANNELS.index(channel)

    def change(setting: Setting) -> Setting:
        rest = [0.0 if i == place else w for i, w in enumerate(setting.weights)]
        total = sum(rest)
        kept = [w / total for w in rest] if total > 0 else [0.0 if i == place else 0.5 for i in range(len(rest))]
        return replace(setting, weights=tuple(kept))

    return change


def floored(setting: Setting) -> Setting:
    """Every channel at least 10 %."""
    rails = Guardrails(minimum=dict.fromkeys(CHANNELS, FLOOR))
    given = setting.as_weights
    final = apply_guardrails(given, given, rails, frozenset(CHANNELS), given).final
    return replace(setting, weights=tuple(final[channel] for channel in CHANNELS))


def walking(**changes: Any) -> Change:
    """Other walk parameters."""
    return lambda setting: replace(setting, walk=replace(setting.walk, **changes))


def changes() -> dict[str, Change]:
    """The ablations that change a setting."""
    equal = tuple(1 / len(CHANNELS) for _ in CHANNELS)
    return {
        **{f"no {_SHORT[channel]}": without(channel) for channel in CHANNELS},
        "uniform": lambda setting: replace(setting, weights=equal),
        "floor 10 %": floored,
        **{f"hops {hops}": walking(max_hops=hops) for hops in (1, 2, 3)},
        "no relations": walking(relation_share=0.0),
        "no dense seeds": walking(dense_mass=0.0),
        "no question-aware step": walking(temperature=None),
        "no dense share": walking(dense_share=0.0),
        **{f"rrf_k {k}": _rrf(k) for k in RRF_K},
    }


def _rrf(rrf_k: int) -> Change:
    return lambda setting: replace(setting, rrf_k=rrf_k)


def smaller_part(part: TunePart, bench: Bench, share: float, seed: int) -> TunePart:
    """The tune part cut to a share of all questions, whole groups in seeded order, never more than it had."""
    rng = np.random.default_rng(seed)
    keep = np.zeros(len(part.tune), bool)
    for label in np.unique(part.strata):
        inside = part.strata == label
        quota = round(share * inside.sum())
        for group in rng.permutation(np.unique(bench.groups[part.tune & inside])):
            members = part.tune & inside & (bench.groups == group)
            if (keep & inside).sum() + members.sum() <= quota:
                keep |= members
    return replace(part, tune=keep if keep.any() else part.tune)


def run_ablate(job: Job, progress: Callable[[str], None] = print) -> dict[str, Any]:
    """All ablations on every index of the command."""
    report: dict[str, Any] = {"indexes": {}, "seeds": list(job.seeds), "mixed": job.mixed}
    report["reference"] = ADAPTIVE if job.adaptive else BEST_FIXED
    for bench in benches(job):
        name = "+".join(bench.index.names)
        progress(f"{name}: 질문 {len(bench.set_of)}개")
        results = {seed: _one_seed(bench, seed) for seed in job.seeds}
        report["indexes"][name] = _rows(bench, results)
    return report


def _one_seed(bench: Bench, seed: int) -> SeedResult:
    part = bench.part(seed)
    reference = settings_of(ADAPTIVE if bench.job.adaptive else BEST_FIXED, part, bench.runs, bench.job.adaptive)
    systems: dict[str, Sequence[Setting]] = {REFERENCE: reference}
    systems |= {name: [change(s) for s in reference] for name, change in changes().items()}
    adaptive = bench.job.adaptive
    if adaptive is not None:
        systems["no evidence signals"] = adaptive.settings(part, bench.runs, evidence=False)
        systems["one segment"] = adaptive.settings(part, bench.runs, segments=False)
        systems["best fixed"] = settings_of(BEST_FIXED, part, bench.runs, None)
        systems["no guardrails"] = adaptive.settings(part, bench.runs, rails=Guardrails())
    for share in TUNING_SHARES:
        cut = smaller_part(part, bench, share, seed)
        systems[f"tune {share:.0%}"] = settings_of(BEST_FIXED, cut, bench.runs, None)
    measured = {name: bench.measure(tuple(settings)) for name, settings in systems.items()}
    return SeedResult(part.tune, measured, {})


def _rows(bench: Bench, results: dict[int, SeedResult]) -> list[dict[str, Any]]:
    """Median nDCG@10 (macro over sets) of each ablation, and its paired difference to the reference."""
    rows = []
    for name in next(iter(results.values())).values:
        row: dict[str, Any] = {"ablation": name}
        row |= {m: round(float(np.median([_macro(bench, r, name, m) for r in results.values()])), 4) for m in MEASURES}
        if name != REFERENCE:
            difference = crossfitted(results, name, REFERENCE)
            where = ~np.isnan(difference)
            found = paired_bootstrap(difference[where], bench.set_of[where], bench.groups[where])
            row |= {key: round(value, 5) for key, value in asdict(found).items()}
        rows.append(row)
    tested = [row for row in rows if "p" in row]
    for row, adjusted in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = round(adjusted, 5)
    return rows


def _macro(bench: Bench, result: SeedResult, name: str, metric: str) -> float:
    labels = np.unique(bench.set_of)
    return float(np.mean([result.values[name][metric][(bench.set_of == n) & ~result.tune].mean() for n in labels]))


def table_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The ablations of one index for the screen."""
    lines = [f"{'':24s}{MAIN:>9s}{'차이':>9s}   95% 구간              p(Holm)"]
    for row in rows:
        line = f"{row['ablation']:24s}{row[MAIN]:9.4f}"
        if "p" in row:
            line += f"{row['difference']:+9.4f}   [{row['low']:+.4f}, {row['high']:+.4f}]   {row['p_holm']:.4f}"
        lines.append(line)
    return lines
