"""Fusion and nDCG over documents on lists worked out by hand, and against the product's own fusion."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from eval.farm import ndcg_at_10
from eval.farm_runs import DEPTH, FarmRuns, evaluate, ranked_documents, vote_values
from eval.runs import Run
from eval.space import Space, weight_grid
from rag.fusion import fuse
from rag.query.expand import SUB_SHARE
from rag.schema import CHANNELS, ChannelResult, Hit, Walk

WALK = Walk()
N_DOCUMENTS, N_CHUNKS = 12, 40


def lists(*parts: list[int]) -> np.ndarray:
    """One channel's lists of one question, shape (parts, DEPTH)."""
    found = np.full((len(parts), DEPTH), -1, np.int32)
    for row, part in zip(found, parts, strict=True):
        row[: len(part)] = part
    return found


def test_a_part_votes_with_its_share() -> None:
    found, values = vote_values([lists([4, 7], [7]), lists([2], [])], rrf_k=1, depth=20, share=0.5)
    assert found.tolist() == [2, 4, 7]
    assert values == pytest.approx(np.array([[0, 1 / 2], [1 / 2, 0], [1 / 3 + 0.5 / 2, 0]]))


def test_depth_cuts_every_list() -> None:
    found, _ = vote_values([lists(list(range(30)))], rrf_k=5, depth=20)
    assert found.tolist() == list(range(20))


class Runs:
    """Random lists of ten questions of up to three parts over forty passages of twelve documents."""

    def __init__(self, tmp_path: Any) -> None:
        rng = np.random.default_rng(3)
        self.folder = tmp_path
        self.runs = []
        for _ in CHANNELS:
            rows = np.full((10, 3, DEPTH), -1, np.int32)
            for q in range(10):
                for part in range(1 + q % 3):
                    picked = rng.permutation(N_CHUNKS)[: rng.integers(0, 30)]
                    rows[q, part, : len(picked)] = picked
            self.runs.append(Run(rows, np.zeros(rows.shape, np.float32)))
        groups = tuple(
            tuple(rng.choice(N_DOCUMENTS, rng.integers(1, 3), replace=False) for _ in range(1 + q % 2))
            for q in range(10)
        )
        self.index = SimpleNamespace(
            questions=tuple(range(10)),
            chunk_ids=tuple(f"c{i:02d}" for i in range(N_CHUNKS)),
            documents=np.arange(N_CHUNKS) % N_DOCUMENTS,
            document_names=tuple(f"d{i:02d}" for i in range(N_DOCUMENTS)),
            gold=groups,
        )

    def dense(self) -> Run:
        return self.runs[0]

    def sparse(self) -> Run:
        return self.runs[1]

    def graph(self, walk: Walk) -> Run:
        return self.runs[2]


def test_rankings_are_those_of_the_products_fusion(tmp_path: Any) -> None:
    runs = Runs(tmp_path)
    space = Space(weight_grid(0.5), rrf_k=(5,), depths=(DEPTH,), walks=(WALK,))
    for number in range(len(space)):
        setting = space.setting(number)
        for q in range(10):
            results = []
            for part in range(3):
                for channel, run in zip(CHANNELS, runs.runs, strict=True):
                    hits = tuple(
                        Hit(chunk_id=f"c{row:02d}", scope_id="public", rank=rank, score=0.0)
                        for rank, row in enumerate((r for r in run.rows[q, part].tolist() if r >= 0), start=1)
                    )
                    status = "ok" if hits else "empty"
                    share = SUB_SHARE if part else 1.0
                    results.append(ChannelResult(channel=channel, status=status, hits=hits, share=share))
            fused = fuse(results, setting.as_weights, 5, limit=10)
            expected = list(dict.fromkeys(f"d{int(hit.chunk_id[1:]) % N_DOCUMENTS:02d}" for hit in fused))
            assert ranked_documents(cast("FarmRuns", runs), q, setting) == expected


def test_all_settings_at_once_are_those_one_by_one(tmp_path: Any) -> None:
    runs = Runs(tmp_path)
    space = Space(weight_grid(0.25), rrf_k=(1, 60), depths=(20, DEPTH), walks=(WALK,))
    quality = evaluate(cast("FarmRuns", runs), space)
    differences = []
    for number in range(len(space)):
        setting = space.setting(number)
        for q, groups in enumerate(runs.index.gold):
            named = [[f"d{int(d):02d}" for d in group] for group in groups]
            exact = ndcg_at_10(ranked_documents(cast("FarmRuns", runs), q, setting), named)
            differences.append(abs(exact - quality[number, q]))
    assert np.mean(np.array(differences) < 1e-6) > 0.9  # ties between documents, documents in two gold groups
    assert max(differences) < 0.5
