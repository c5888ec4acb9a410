"""BM25 over kept tokens (bm25s, ``lucene`` variant: idf = ln(1 + (N − df + 0.5)/(df + 0.5)), k1 1.5, b 0.75).

One index per view, so that statistics are exact and no mask is needed. bm25s itself always returns k rows, also
rows that match nothing; here rows with score ≤ 0 are dropped and an empty index gives an empty result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import bm25s
import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float32]


class Bm25Index:
    """Scores all rows of a view for a bag of tokens."""

    def __init__(self, engine: bm25s.BM25 | None, vocabulary: dict[str, int], n_rows: int) -> None:
        self._engine = engine
        self._vocabulary = vocabulary
        self.n_rows = n_rows

    @staticmethod
    def build(rows: Sequence[Sequence[str]]) -> Bm25Index:
        """Index token lists; row i of the index is ``rows[i]``."""
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(token, len(vocabulary)) for token in row] for row in rows]
        if not vocabulary:
            return Bm25Index(None, {}, len(rows))
        engine = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        engine.index((ids, vocabulary), show_progress=False)
        return Bm25Index(engine, vocabulary, len(rows))

    def save(self, folder: Path) -> None:
        """Write the index below ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.json").write_text(
            json.dumps({"n_rows": self.n_rows, "vocabulary": self._vocabulary}, ensure_ascii=False), encoding="utf-8"
        )
        if self._engine is not None:
            self._engine.save(str(folder), show_progress=False)

    @staticmethod
    def load(folder: Path) -> Bm25Index:
        """Read an index written by :meth:`save`."""
        meta = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
        engine = bm25s.BM25.load(str(folder), load_corpus=False, mmap=True) if meta["vocabulary"] else None
        return Bm25Index(engine, meta["vocabulary"], meta["n_rows"])

    def scores(self, tokens: Sequence[str]) -> Scores:
        """BM25 score of every row, shape (n_rows,); tokens outside the vocabulary add nothing."""
        known = [self._vocabulary[token] for token in tokens if token in self._vocabulary]
        if self._engine is None or not known:
            return np.zeros(self.n_rows, np.float32)
        scores: Scores = self._engine.get_scores_from_ids(known)
        return scores


def top_rows(scores: Scores, depth: int, *, above: float, mask: npt.NDArray[np.bool_] | None) -> list[int]:
    """Rows of the ``depth`` highest scores greater than ``above``, best first; ties by row number.

    ``mask`` keeps only rows that are True (a document filter, applied before top-k).
    """
    allowed = scores > above if mask is None else (scores > above) & mask
    rows = np.flatnonzero(allowed)
    if len(rows) > depth:
        # argpartition alone would cut ties at the border arbitrarily: keep all rows of the border score
        border = np.partition(scores[rows], len(rows) - depth)[len(rows) - depth]
        rows = rows[scores[rows] >= border]
    order = np.lexsort((rows, -scores[rows].astype(np.float64)))
    return [int(row) for row in rows[order][:depth]]
