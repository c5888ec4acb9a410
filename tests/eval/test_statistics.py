"""Bootstrap and Holm on known cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.statistics import holm, paired_bootstrap


def test_a_constant_difference_has_no_spread():
    found = paired_bootstrap(np.full(20, 0.1))
    assert (found.difference, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert found.p == pytest.approx(2 / 10_001)


def test_no_difference_is_no_evidence():
    assert paired_bootstrap(np.zeros(20)).p == 1.0


def test_interval_agrees_with_scipy():
    values = np.random.default_rng(1).normal(0.02, 0.3, 200)
    ours = paired_bootstrap(values, seed=1)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(2)).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)


def test_sign_changes_with_the_order_of_systems():
    values = np.random.default_rng(3).normal(0.05, 0.1, 50)
    one, other = paired_bootstrap(values), paired_bootstrap(-values)
    assert one.difference == pytest.approx(-other.difference)
    assert one.low == pytest.approx(-other.high)


def test_strata_count_equally_whatever_their_size():
    values, strata = np.array([1.0] * 10 + [0.0] * 90), np.array([0] * 10 + [1] * 90)
    assert paired_bootstrap(values, strata).difference == pytest.approx(0.5)


def test_grouped_questions_widen_the_interval():
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(20), 10)
    values = rng.normal(0, 1, 20)[groups]
    alone, together = paired_bootstrap(values), paired_bootstrap(values, None, groups)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_no_questions_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        paired_bootstrap(np.zeros(0))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
