"""BM25 against its formula worked by hand on three rows, and the choice of the best rows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.stores.bm25_index import Bm25Index, top_rows

ROWS = [["딸기", "ec", "딸기", "낮추"], ["토마토", "ec"], ["딸기", "흰가루병", "잎"]]
K1, B = 1.5, 0.75
MEAN_LENGTH = (4 + 2 + 3) / 3

unhurried = settings(deadline=None)


def idf(df: int) -> float:
    return math.log(1 + (3 - df + 0.5) / (df + 0.5))


def part(df: int, tf: int, length: int) -> float:
    """One word's part of a score: idf · tf / (tf + k1 · (1 − b + b · length / mean length))."""
    return idf(df) * tf / (tf + K1 * (1 - B + B * length / MEAN_LENGTH))


@pytest.mark.parametrize(
    ("words", "scores"),
    [
        (["딸기"], [part(2, 2, 4), 0, part(2, 1, 3)]),
        (["ec"], [part(2, 1, 4), part(2, 1, 2), 0]),
        (["흰가루병"], [0, 0, part(1, 1, 3)]),
        (["딸기", "ec"], [part(2, 2, 4) + part(2, 1, 4), part(2, 1, 2), part(2, 1, 3)]),
        (["딸기", "딸기"], [2 * part(2, 2, 4), 0, 2 * part(2, 1, 3)]),
        (["딸기", "모르는말"], [part(2, 2, 4), 0, part(2, 1, 3)]),
        (["모르는말"], [0, 0, 0]),
        ([], [0, 0, 0]),
    ],
)
def test_score_is_the_formula(words: list[str], scores: list[float]) -> None:
    assert Bm25Index.build(ROWS).scores(words) == pytest.approx(np.array(scores), abs=1e-6)


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_an_empty_index_finds_nothing(rows: list[list[str]], tmp_path: Path) -> None:
    index = Bm25Index.build(rows)
    assert index.scores(["딸기"]).tolist() == [0.0] * len(rows)
    index.save(tmp_path / "bm25")
    assert Bm25Index.load(tmp_path / "bm25").scores(["딸기"]).tolist() == [0.0] * len(rows)


def test_a_row_without_words_scores_zero() -> None:
    assert Bm25Index.build([["딸기"], [], ["딸기", "ec"]]).scores(["딸기"])[1] == 0


def test_a_loaded_index_scores_as_the_saved_one(tmp_path: Path) -> None:
    index = Bm25Index.build(ROWS)
    index.save(tmp_path / "deep" / "bm25")
    loaded = Bm25Index.load(tmp_path / "deep" / "bm25")
    assert loaded.n_rows == 3
    for words in (["딸기"], ["ec", "잎"], ["모르는말"], []):
        assert loaded.scores(words).tolist() == index.scores(words).tolist()


def scores(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_best_rows_first() -> None:
    assert top_rows(scores(0.1, 0.3, 0.2), 2, above=0, mask=None) == [1, 2]
    assert top_rows(scores(0.1, 0.3, 0.2), 3, above=0, mask=None) == [1, 2, 0]


def test_rows_that_match_nothing_are_left_out() -> None:
    assert top_rows(scores(0, 0.3, -0.2, 0), 10, above=0, mask=None) == [1]
    assert top_rows(scores(0, 0.3, -0.2, 0), 10, above=-1, mask=None) == [1, 0, 3, 2]


def test_a_depth_beyond_the_rows_gives_all() -> None:
    assert top_rows(scores(0.1, 0.2), 100, above=0, mask=None) == [1, 0]
    assert top_rows(scores(), 10, above=0, mask=None) == []


def test_ties_at_the_border_go_to_the_lower_row() -> None:
    assert top_rows(scores(0.5, 0.5, 0.9, 0.5, 0.5), 3, above=0, mask=None) == [2, 0, 1]
    assert top_rows(scores(*[0.5] * 50), 4, above=0, mask=None) == [0, 1, 2, 3]


def test_a_mask_applies_before_the_cut() -> None:
    mask = np.array([True, False, True, False])
    assert top_rows(scores(0.1, 0.9, 0.2, 0.8), 2, above=0, mask=mask) == [2, 0]
    assert top_rows(scores(0.1, 0.9), 2, above=0, mask=np.zeros(2, bool)) == []


@unhurried
@given(
    st.lists(st.tuples(st.integers(-2, 4).map(float), st.booleans()), max_size=30),
    st.integers(1, 12),
    st.booleans(),
)
def test_top_rows_is_a_sort_and_a_cut(rows: list[tuple[float, bool]], depth: int, masked: bool) -> None:
    mask = np.array([keep for _, keep in rows], bool) if masked else None
    kept = [i for i, (score, keep) in enumerate(rows) if score > 0 and (keep or not masked)]
    expected = sorted(kept, key=lambda i: (-rows[i][0], i))[:depth]
    assert top_rows(scores(*[score for score, _ in rows]), depth, above=0, mask=mask) == expected
