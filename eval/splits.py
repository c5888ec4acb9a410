"""Tune/test split and cross-validation folds, both grouped by shared gold passage.

Questions that share a gold passage form a group (connected components), so that no evidence is on both sides. Groups
are drawn in the order of sha256(seed/first id) until 20 % of the questions are drawn; a group that would overshoot the
quota is skipped. The drawn ids are written to ``eval/sets/splits/<set>.json`` and read from there ever after: one split
per set and seed, whoever asks, alone or in a mixed index.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eval.datasets import SetQuestion
from rag.files import write_whole

SPLITS_DIR = Path(__file__).parent / "sets" / "splits"
TUNE_SHARE = 0.2
N_FOLDS = 5

Mask = npt.NDArray[np.bool_]


def groups_of(questions: Sequence[SetQuestion]) -> list[list[int]]:
    """Indices of questions that are linked by gold passages, each group in order, groups by their first member."""
    parent = list(range(len(questions)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    owner: dict[str, int] = {}
    for i, question in enumerate(questions):
        for gold in question.gold:
            parent[root(i)] = root(owner.setdefault(gold, i))
    groups: dict[int, list[int]] = defaultdict(list)
    for i in range(len(questions)):
        groups[root(i)].append(i)
    return sorted(groups.values())


def group_numbers(questions: Sequence[SetQuestion]) -> npt.NDArray[np.int64]:
    """The number of each question's group."""
    numbers = np.empty(len(questions), np.int64)
    for number, group in enumerate(groups_of(questions)):
        numbers[group] = number
    return numbers


def draw_tune(questions: Sequence[SetQuestion], seed: int) -> list[str]:
    """Ids of the tune part, sorted."""
    quota = round(TUNE_SHARE * len(questions))
    drawn: list[str] = []
    groups = groups_of(questions)
    for group in sorted(groups, key=lambda g: _place(seed, questions[g[0]].id)):
        if len(drawn) + len(group) <= quota:
            drawn += [questions[i].id for i in group]
    return sorted(drawn)


def tune_mask(questions: Sequence[SetQuestion], seed: int, folder: Path = SPLITS_DIR) -> Mask:
    """True where a question belongs to the tune part; ids not yet written down are drawn and written."""
    by_set: dict[str, list[SetQuestion]] = defaultdict(list)
    for question in questions:
        by_set[question.set_name].append(question)
    tune = {name for members in by_set.values() for name in _kept_tune(members, seed, folder)}
    return np.array([question.id in tune for question in questions])


def _kept_tune(questions: Sequence[SetQuestion], seed: int, folder: Path) -> list[str]:
    path = folder / f"{questions[0].set_name}.json"
    kept: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if str(seed) not in kept:
        kept[str(seed)] = draw_tune(questions, seed)
        ordered = {key: kept[key] for key in sorted(kept, key=int)}
        write_whole(path, (json.dumps(ordered, ensure_ascii=False, indent=0) + "\n").encode("utf-8"))
    return kept[str(seed)]


def folds(questions: Sequence[SetQuestion], seed: int, n_folds: int = N_FOLDS) -> npt.NDArray[np.int64]:
    """Fold number of each question: groups, largest first, go to the fold with the fewest questions of their set."""
    fold = np.zeros(len(questions), np.int64)
    sizes: dict[str, list[int]] = defaultdict(lambda: [0] * n_folds)
    groups = groups_of(questions)
    for group in sorted(groups, key=lambda g: (-len(g), _place(seed, questions[g[0]].id))):
        size = sizes[questions[group[0]].set_name]
        smallest = size.index(min(size))
        fold[group] = smallest
        size[smallest] += len(group)
    return fold


def _place(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()
