"""The tuner on made-up questions whose best settings are known, its profile file, and release."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from eval.gate import fit_gate
from eval.space import Space, walks, weight_grid
from eval.tune import (
    UNTUNED,
    NotReleased,
    Policy,
    Problem,
    Variant,
    candidate,
    fit,
    out_of_fold,
    profile_bytes,
    release,
    report_lines,
    report_of,
    tune,
)
from rag.evidence import SIGNALS
from rag.profile_table import load, parse
from rag.schema import BM25, VECTOR, Segment

SPACE = Space(weight_grid(0.5), rrf_k=(5, 60), depths=(20, 100), walks=walks()[2:9:3])
N = 200
FACT: Segment = ("factual", "short", False, False)
HOW: Segment = ("procedural", "short", False, False)
TODAY = date(2026, 12, 1)


def problem(reward: str, seed: int = 0) -> Problem:
    """``segment``: procedural questions want dense, the others BM25; ``signal``: where the first signal is high, dense."""
    rng = np.random.default_rng(seed)
    segments = tuple(HOW if i % 2 else FACT for i in range(N))
    signal = rng.standard_normal((N, len(SIGNALS)))
    dense_wanted = np.array([s == HOW for s in segments]) if reward == "segment" else signal[:, 0] > 0
    weights = np.tile(SPACE.weights, (len(SPACE) // len(SPACE.weights), 1))
    quality = np.where(dense_wanted, weights[:, :1], weights[:, 1:2]) * 0.5 + rng.uniform(0, 0.05, (len(SPACE), N))
    return Problem(
        SPACE,
        quality.astype(np.float32),
        segments,
        np.zeros(N, np.int64),
        np.arange(N) % 5,
        lambda walk: signal,
    )


TUNE = np.arange(N) < 120


def test_segments_that_want_other_channels_get_rows() -> None:
    p = problem("segment")
    tuned = tune(p, TUNE)
    assert tuned.variant.segments
    rows = {row.match["intent"]: SPACE.setting(row.number).weights for row in tuned.policy.rows if len(row.match) == 1}
    rows |= {"default": SPACE.setting(tuned.policy.default).weights}
    assert rows.get("procedural", rows["default"]) == (1.0, 0.0, 0.0)
    assert rows.get("factual", rows["default"]) == (0.0, 1.0, 0.0)
    assert tuned.policy.values(p)[~TUNE].mean() > 0.5
    assert tuned.releasable


def test_a_signal_that_tells_questions_apart_becomes_a_gate() -> None:
    p = problem("signal")
    tuned = tune(p, TUNE)
    assert tuned.variant.evidence
    assert tuned.policy.gate is not None
    values = tuned.policy.values(p)[~TUNE]
    assert values.mean() > fit(p, TUNE, Variant()).values(p)[~TUNE].mean() + 0.1


def test_without_anything_to_learn_the_plain_variant_stays() -> None:
    p = problem("signal")
    flat = Problem(p.space, np.full_like(p.quality, 0.5), p.segments, p.strata, p.folds, p.signals)
    tuned = tune(flat, TUNE)
    assert tuned.variant == Variant()
    assert tuned.policy == Policy(tuned.policy.default, (), None)


def test_small_segments_are_merged_up() -> None:
    p = problem("segment")
    few = TUNE & ((np.arange(N) % 2 == 0) | (np.arange(N) < 30))
    assert (few & p.matching({"intent": "procedural"})).sum() == 15
    assert all(row.match["intent"] != "procedural" for row in fit(p, few, Variant(segments=True)).rows)


def test_a_small_segment_is_pulled_to_its_parent() -> None:
    """(30·0.53 + 20·0.5075) / 50 < (30·0.5 + 20·0.575) / 50, though 0.53 > 0.5 among its own 30 questions."""
    quality = np.full((len(SPACE), N), 0.5, np.float32)
    few = (np.arange(N) % 2 == 1) & (np.arange(N) < 60)
    quality[3] += 0.1
    quality[3, few] = 0.5
    quality[7, few] = 0.53
    segments = tuple(HOW if want else FACT for want in few)
    p = Problem(SPACE, quality, segments, np.zeros(N, np.int64), np.arange(N) % 5, lambda walk: np.zeros((N, 19)))
    assert fit(p, TUNE, Variant(segments=True)).rows == ()
    quality[7, few] = 0.7
    assert [row.number for row in fit(p, TUNE, Variant(segments=True)).rows] == [7]


def test_of_equal_means_the_steadier_setting_wins() -> None:
    quality = np.full((len(SPACE), N), 0.4, np.float32)
    quality[3] = np.where(np.arange(N) % 5 == 0, 1.0, 0.401)
    quality[9] = 0.52
    p = Problem(SPACE, quality, (FACT,) * N, np.zeros(N, np.int64), np.arange(N) % 5, lambda walk: np.zeros((N, 19)))
    assert quality[3, TUNE].mean() > quality[9, TUNE].mean()
    assert fit(p, TUNE, Variant()).default == 9


def test_below_a_fixed_system_is_not_releasable() -> None:
    tuned = tune(problem("segment"), TUNE)
    assert tuned.releasable
    assert not replace(tuned, cv_mean=max(tuned.fixed.values()) - 0.001).releasable


def test_out_of_fold_never_sees_its_own_fold() -> None:
    p = problem("signal")
    seen = []

    def fitted(mask: np.ndarray) -> np.ndarray:
        seen.append(mask.copy())
        return np.full(N, float(len(seen)))

    values = out_of_fold(p, TUNE, fitted)
    assert np.isnan(values[~TUNE]).all()
    for number, mask in enumerate(seen, start=1):
        assert not mask[values == number].any()
        assert not mask[~TUNE].any()


def test_sets_of_a_mixed_index_count_the_same() -> None:
    p = problem("signal")
    strata = (np.arange(N) >= 20).astype(np.int64)
    share = Problem(p.space, p.quality, p.segments, strata, p.folds, p.signals).share(TUNE)
    assert share.sum() == pytest.approx(1)
    assert share[:20].sum() == pytest.approx(0.5)


def test_a_gate_prefers_its_own_setting_where_the_arms_gain_nothing() -> None:
    rng = np.random.default_rng(1)
    x, own = rng.standard_normal((60, 3)), np.full(60, 0.9)
    gate = fit_gate(x, own, np.full((4, 60), 0.1), np.full(60, 1 / 60))
    assert (gate.choose(x) == 0).all()


def test_the_candidate_decides_as_the_policy_did() -> None:
    p = problem("signal")
    tuned = tune(p, TUNE)
    table = parse(json.loads(profile_bytes(candidate(tuned, UNTUNED, "probe", date(2027, 12, 1)))))
    assert table.default.quality.tuned_on == "probe"
    assert table.default.quality.n_queries == 120
    model = table.evidence(TODAY)
    assert model is not None
    assert tuned.policy.gate is not None
    x = p.signals(SPACE.walks[0])
    arms = [model.choose(dict(zip(SIGNALS, row.tolist(), strict=True)))[0] for row in x]
    assert np.mean(np.array(arms) == tuned.policy.gate.choose(x)) > 0.99
    assert table.evidence(date(2028, 1, 1)) is None


def in_force(tmp_path: Path) -> Path:
    """A profile file in force with a change log."""
    path = tmp_path / "profiles.v1.json"
    document = {"version": "1.4.0", "default": {"weights": {VECTOR: 0.5, BM25: 0.5}}}
    path.write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# 기록\n\n설명\n\n## 1.4.0\n\n첫 판\n", encoding="utf-8")
    return path


def test_release_replaces_the_file_and_keeps_the_last_weights(tmp_path: Path) -> None:
    path = in_force(tmp_path)
    base = json.loads(path.read_text(encoding="utf-8"))
    tuned = tune(problem("segment"), TUNE)
    out = tmp_path / "farm.json"
    out.write_bytes(profile_bytes(candidate(tuned, base, "farm", None)))
    with pytest.raises(NotReleased, match="report"):
        release(out, path, TODAY)
    report = report_of(tuned, "farm")
    out.with_suffix(".report.json").write_text(json.dumps(report), encoding="utf-8")
    assert release(out, path, TODAY) == "1.5.0"
    table = load(path)
    assert table.version == "1.5.0"
    assert table.default.previous_weights.by_channel == {VECTOR: 0.5, BM25: 0.5}
    log = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    assert log.index("## 1.5.0") < log.index("## 1.4.0")
    assert "첫 판" in log
    assert any("adaptive" in line for line in report_lines(report))


def test_a_candidate_below_a_fixed_system_stays_a_candidate(tmp_path: Path) -> None:
    path = in_force(tmp_path)
    before = path.read_bytes()
    tuned = tune(problem("segment"), TUNE)
    out = tmp_path / "farm.json"
    out.write_bytes(profile_bytes(candidate(tuned, UNTUNED, "farm", None)))
    report = report_of(tuned, "farm") | {"releasable": False}
    out.with_suffix(".report.json").write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(NotReleased, match="내보내지 않습니다"):
        release(out, path, TODAY)
    assert path.read_bytes() == before
