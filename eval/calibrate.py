"""The citation check on labelled pairs: its two levels are fitted on one half, its figures come from the other.

The threshold maximises F0.5 among those with a precision of at least ``PRECISION`` on the fit half (all thresholds where
none reaches it); of equal ones the highest. F0.5 = 1.25·P·R / (0.25·P + R): a wrong citation costs more than a missing one.

The coverage, the least share of a claim's words that its evidence must say, is the highest that keeps at least ``KEPT`` of the
supported pairs of the fit half that pass everything else. The near-misses say nothing on it: they word the evidence but for
one thing, while a model also cites what only has the matter in common with its sentence.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval.citation_pairs import OUTCOMES, Pair, load_pairs
from eval.levels import put_levels
from rag.citations import Candidate, cite
from rag.claims import said_share
from rag.embedding import Encoder, load_embedder
from rag.errors import ProfileError
from rag.schema import ChunkRecord, CitationOutcome, FloatVector, SentenceRecord
from rag.settings import load_settings

PRECISION = 0.985
KEPT = 0.98
# Kinds that must hardly ever be accepted.
STRICT = ("number", "unit", "negation")


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A pair with the vectors of its two sentences."""

    pair: Pair
    claim: FloatVector
    evidence: FloatVector

    @property
    def cosine(self) -> float:
        """How near the two sentences are."""
        return float(self.evidence @ self.claim)

    @property
    def share(self) -> float:
        """Share of the claim's words that the evidence says."""
        context = "\n".join(part for part in (self.pair.title, self.pair.section) if part)
        return said_share(self.pair.claim, self.pair.evidence, context)

    def outcome(self, threshold: float, coverage: float) -> CitationOutcome:
        """What the product's check says of the pair."""
        pair = self.pair
        chunk = ChunkRecord(
            chunk_id=pair.id, scope_id="public", doc_id=pair.group, title=pair.title, section=pair.section, locator="",
            text=pair.evidence, level="G2", ordinal=0,
        )  # fmt: skip
        sentence = SentenceRecord(chunk_id=pair.id, start=0, end=len(pair.evidence), tokens=(), row=0)
        return cite(pair.claim, self.claim, [Candidate(chunk, sentence, self.evidence)], threshold, coverage).outcome


def encode(pairs: Sequence[Pair], embedder: Encoder) -> list[Encoded]:
    """The pairs with their vectors; each sentence is encoded once, as a passage."""
    texts = sorted({text for pair in pairs for text in (pair.claim, pair.evidence)})
    vectors = dict(zip(texts, embedder.encode_passages(texts), strict=True))
    return [Encoded(pair, vectors[pair.claim], vectors[pair.evidence]) for pair in pairs]


def fit_threshold(cosines: Sequence[float], passed: Sequence[bool], supported: Sequence[bool]) -> float:
    """The threshold, at three decimals; ``passed``: every other check of the pair holds.

    Raises:
        ValueError: no supported pair passes the other checks.
    """
    near, right = np.array(cosines), np.array(supported)
    open_ = np.array(passed)
    if not (open_ & right).any():
        raise ValueError("no supported pair passes the other checks")
    best = (False, -1.0, 0.0)
    for threshold in np.unique(np.floor(near[open_] * 1000) / 1000):
        accepted = open_ & (near >= threshold)
        precision, recall = (
            float((accepted & right).sum() / accepted.sum()),
            float((accepted & right).sum() / right.sum()),
        )
        f = 1.25 * precision * recall / (0.25 * precision + recall) if recall else 0.0
        best = max(best, (precision >= PRECISION, round(f, 9), float(threshold)))
    return best[2]


def fit_coverage(shares: Sequence[float]) -> float:
    """The coverage, at two decimals, from the shares of the supported pairs that pass everything else.

    Raises:
        ValueError: there are none.
    """
    if not len(shares):
        raise ValueError("no supported pair passes the other checks")
    ordered = np.sort(np.array(shares))
    return float(np.floor(ordered[int((1 - KEPT) * len(ordered))] * 100) / 100)


def measure(encoded: Sequence[Encoded], threshold: float, coverage: float) -> dict[str, Any]:
    """Precision, recall and what share of the near-misses is accepted, all of them and by kind."""
    outcomes = [one.outcome(threshold, coverage) for one in encoded]
    accepted = Counter(e.pair.kind for e, o in zip(encoded, outcomes, strict=True) if o == "supported")
    total = Counter(e.pair.kind for e in encoded)
    wrong, near = sum(accepted.values()) - accepted[""], sum(total.values()) - total[""]
    strict, n_strict = sum(accepted[k] for k in STRICT), sum(total[k] for k in STRICT)
    right = accepted[""]
    contradicted = [o for e, o in zip(encoded, outcomes, strict=True) if e.pair.outcome == "contradicted"]
    return {
        "precision": round(right / (right + wrong), 4) if right + wrong else 0.0,
        "recall": round(right / total[""], 4),
        "near_miss_accepted": round(wrong / near, 4),
        "number_or_negation_accepted": round(strict / n_strict, 4),
        "contradictions_named": round(contradicted.count("contradicted") / len(contradicted), 4),
        "supported_called_contradicted": round(
            sum(e.pair.kind == "" and o == "contradicted" for e, o in zip(encoded, outcomes, strict=True)) / total[""],
            4,
        ),
        "n_pairs": len(encoded),
        "n_supported": total[""],
        "n_number_or_negation": n_strict,
        "by_kind": {k: {"n": total[k], "accepted": accepted[k]} for k in OUTCOMES if total[k]},
    }


def run_calibrate(embedder: Encoder, pairs: Sequence[Pair] | None = None, *, test: bool = True) -> dict[str, Any]:
    """Fit on the fit half and measure both halves (``test=False``: the fit half only)."""
    encoded = encode([p for p in pairs or load_pairs() if test or p.split == "fit"], embedder)
    fit = [one for one in encoded if one.pair.split == "fit"]
    passed = [one.outcome(-1.0, 0.0) == "supported" for one in fit]
    threshold = fit_threshold([one.cosine for one in fit], passed, [one.pair.kind == "" for one in fit])
    right = [one for one, ok in zip(fit, passed, strict=True) if ok and one.pair.kind == "" and one.cosine >= threshold]
    coverage = fit_coverage([one.share for one in right])
    report: dict[str, Any] = {
        "encoder": embedder.model_name,
        "threshold": threshold,
        "coverage": coverage,
        "fit": measure(fit, threshold, coverage),
    }
    if test:
        held_out = measure([one for one in encoded if one.pair.split == "test"], threshold, coverage)
        report |= {"test": held_out} | {k: held_out[k] for k in ("precision", "recall", "near_miss_accepted")}
    return report


def write(path: Path, report: dict[str, Any]) -> None:
    """Put both levels and their test figures under the encoder of the report; everything else in the file stays.

    Raises:
        ProfileError: the file has no levels of that encoder.
    """
    changes = {
        "citation_threshold": report["threshold"],
        "citation_coverage": report["coverage"],
        "citation": {
            "tuned_on": "citation_pairs.jsonl (fit)",
            **{
                k: report["test"][k]
                for k in ("precision", "recall", "near_miss_accepted", "number_or_negation_accepted", "n_pairs")
            },
        },
    }
    put_levels(path, report["encoder"], changes)


def lines(report: dict[str, Any]) -> list[str]:
    """The report as terminal lines."""
    found = [f"{report['encoder']}: 문턱 {report['threshold']:.3f}, 덮인 몫 {report['coverage']:.2f}"]
    for half, label in (("fit", "맞춘 절반"), ("test", "시험 절반")):
        if half not in report:
            continue
        row = report[half]
        found.append(
            f"{label} {row['n_pairs']}쌍: 정밀도 {row['precision']:.4f}  재현율 {row['recall']:.4f}  "
            f"틀린 것을 받아들임 {row['near_miss_accepted']:.4f} (수치·단위·부정 {row['number_or_negation_accepted']:.4f})"
        )
        found += [f"  {kind:10s} {n['accepted']:3d} / {n['n']}" for kind, n in row["by_kind"].items()]
    return found


def add_command(commands: Any) -> None:
    """Add the sub-parser ``calibrate``."""
    parser = commands.add_parser("calibrate", help="인용 검사의 문턱과 덮인 몫을 맞추고 따로 둔 절반에서 잽니다")
    parser.add_argument("--fit-only", action="store_true", help="시험 절반을 재지 않습니다")
    parser.add_argument("--write", action="store_true", help="profiles/answering.v1.json 에 씁니다")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> None:
    settings = load_settings()
    if args.write and args.fit_only:
        raise ProfileError("--fit-only 로는 쓸 수 없습니다. 시험 절반의 값도 함께 적어야 하니 하나만 고르세요.")
    report = run_calibrate(load_embedder(settings.embedder, settings.embedder_threads), test=not args.fit_only)
    print("\n".join(lines(report)))
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if args.write:
        write(settings.profiles.with_name("answering.v1.json"), report)
