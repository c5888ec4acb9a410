"""The pair set's rules, the fitted threshold, and where its figures are written."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eval.calibrate import KEPT, STRICT, Encoded, fit_coverage, fit_threshold, measure, write
from eval.citation_pairs import OUTCOMES, PARAPHRASES, Pair, load_pairs
from rag.errors import ProfileError
from rag.schema import FloatVector


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return load_pairs()


def test_there_are_enough_pairs_of_every_kind(pairs: list[Pair]) -> None:
    test = Counter(pair.kind for pair in pairs if pair.split == "test")
    assert len(pairs) >= 1000
    assert sum(pair.kind == "" for pair in pairs) >= 350
    assert sum(test[kind] for kind in STRICT) >= 150
    assert set(test) == {"", *OUTCOMES}
    by_hand = PARAPHRASES.read_text(encoding="utf-8").splitlines()[1:]
    assert sum(line.split("\t")[1] == "supported" for line in by_hand) >= 150


def test_no_evidence_is_in_both_halves_and_no_pair_twice(pairs: list[Pair]) -> None:
    halves = defaultdict(set)
    for pair in pairs:
        halves[pair.evidence].add(pair.split)
    assert all(len(split) == 1 for split in halves.values())
    assert len({(pair.claim, pair.evidence) for pair in pairs}) == len(pairs)
    assert all((pair.label == "supported") == (pair.kind == "") == (pair.outcome == "supported") for pair in pairs)


def test_the_threshold_maximises_f05_at_the_wanted_precision() -> None:
    cosines, supported = [0.95, 0.93, 0.91, 0.89, 0.85], [True, True, True, True, False]
    assert fit_threshold(cosines, [True] * 5, supported) == 0.89
    assert fit_threshold(cosines, [True, True, True, False, True], supported) == 0.91  # another check failed
    assert fit_threshold([0.9, 0.95], [True, True], [True, False]) == 0.9  # no threshold is precise: best F0.5
    with pytest.raises(ValueError, match="no supported pair"):
        fit_threshold(cosines, [False] * 5, supported)


def test_the_coverage_keeps_the_wanted_share_of_what_passes() -> None:
    shares = [i / 100 for i in range(1, 101)]
    coverage = fit_coverage(shares)
    assert coverage == 0.03
    assert sum(share >= coverage for share in shares) / len(shares) >= KEPT
    assert fit_coverage([1.0, 0.667]) == 0.66
    with pytest.raises(ValueError, match="no supported pair"):
        fit_coverage([])


def unit(cosine: float) -> FloatVector:
    return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


def encoded(claim: str, evidence: str, kind: str, cosine: float = 0.95) -> Encoded:
    pair = Pair(
        id=claim, claim=claim, evidence=evidence, title="", section="", label="near_miss" if kind else "supported", kind=kind,
        outcome=OUTCOMES[kind] if kind else "supported", origin="hand", group="g", split="test",
    )  # fmt: skip
    return Encoded(pair, unit(1.0), unit(cosine))


def test_measure_counts_by_kind() -> None:
    rows = [
        encoded("EC 2.5로 둡니다.", "EC 2.5로 둔다.", ""),
        encoded("EC 2.4로 둡니다.", "EC 2.4로 둔다.", "", cosine=0.5),
        encoded("EC 3.5로 둔다.", "EC 2.5로 둔다.", "number"),
        encoded("물을 준다.", "물을 준다.", "unrelated"),  # a pair that every check accepts
        encoded("잎이 노랗게 마른다.", "물을 준다.", "unrelated"),
    ]
    report = measure(rows, 0.9, 0.6)
    assert (report["precision"], report["recall"], report["near_miss_accepted"]) == (0.5, 0.5, 0.3333)
    assert report["number_or_negation_accepted"] == 0
    assert report["by_kind"] == {"number": {"n": 1, "accepted": 0}, "unrelated": {"n": 2, "accepted": 1}}
    assert report["contradictions_named"] == 1


def test_write_changes_the_citation_keys_of_one_encoder_only(tmp_path: Path) -> None:
    path = tmp_path / "answering.v1.json"
    old = {"citation_threshold": 0.5, "refusal": {"bias": 1.0}}
    path.write_text(json.dumps({"version": "1", "encoders": {"e": old, "f": old}}))
    test = measure([encoded("EC 2.5로 둡니다.", "EC 2.5로 둔다.", ""), encoded("EC 3.5", "EC 2.5", "number")], 0.9, 0.6)
    write(path, {"encoder": "e", "threshold": 0.9, "coverage": 0.6, "test": test})
    found = json.loads(path.read_text())["encoders"]
    assert found["f"] == old
    assert (found["e"]["citation_threshold"], found["e"]["citation_coverage"]) == (0.9, 0.6)
    assert found["e"]["refusal"] == old["refusal"]
    assert found["e"]["citation"]["precision"] == 1.0
    with pytest.raises(ProfileError, match="'g'"):
        write(path, {"encoder": "g", "threshold": 0.9, "coverage": 0.6, "test": test})


def test_the_shipped_figures_are_those_of_a_check_that_holds() -> None:
    levels = json.loads(Path("profiles/answering.v1.json").read_text(encoding="utf-8"))["encoders"]
    figures = next(iter(levels.values()))["citation"]
    assert figures["precision"] > 0.97
    assert figures["recall"] >= 0.85
    assert figures["number_or_negation_accepted"] <= 0.01


def test_a_changed_figure_is_a_near_miss_everywhere(pairs: list[Pair]) -> None:
    """The check accepts no claim of the fit half whose figure was changed, however near its vector."""
    changed = [pair for pair in pairs if pair.kind == "number" and pair.split == "fit"][:40]
    assert {Encoded(replace(p), unit(1.0), unit(1.0)).outcome(0.9, 0.0) for p in changed} <= {
        "contradicted",
        "unsupported",
    }
