"""Retrieval sets: a folder with ``corpus.jsonl``, ``questions.jsonl`` and, where ready, ``e5_small_q4.npz``.

| file | line / array | fields |
|---|---|---|
| ``corpus.jsonl`` | one passage | ``id``, ``title`` (may be empty), ``text`` |
| ``questions.jsonl`` | one question | ``id``, ``question``, ``gold_ids``; optional ``type`` or ``hops``, ``gold_exact`` |
| ``e5_small_q4.npz`` | ``passages``, ``questions`` | float16 unit rows, row i = line i |

Ids are prefixed by the set's name, so that several sets fit in one index. Converters from the original releases are
described in ``eval/sets/README.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.embedding import unit_rows
from rag.errors import RagError
from rag.text import nfc

EMBEDDINGS = "e5_small_q4.npz"
Matrix = npt.NDArray[np.float32]


class DataSetError(RagError):
    """A set's folder breaks a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One passage, which is one chunk."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuestion:
    """One question; ``gold`` are the ids of its relevant passages, ``type`` the row of the per-type table."""

    id: str
    set_name: str
    text: str
    gold: tuple[str, ...]
    type: str
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A set as loaded; row i of a matrix belongs to item i. ``digest`` names the content."""

    name: str
    passages: tuple[Passage, ...]
    questions: tuple[SetQuestion, ...]
    passage_vectors: Matrix
    question_vectors: Matrix
    digest: str


def load_set(folder: Path) -> DataSet:
    """Read one set.

    Raises:
        DataSetError: a file is missing or empty, a gold passage does not exist, an id stands twice, or the arrays have
            other lengths than the files.
    """
    name = folder.name
    corpus, questions = _lines(folder / "corpus.jsonl"), _lines(folder / "questions.jsonl")
    passages = tuple(
        Passage(id=f"{name}/{row['id']}", title=nfc(row.get("title") or ""), text=nfc(row["text"])) for row in corpus
    )
    asked = tuple(_question(name, row) for row in questions)
    _check_ids(name, passages, asked)
    vectors = _vectors(folder, len(passages), len(asked))
    return DataSet(
        name=name,
        passages=passages,
        questions=asked,
        passage_vectors=vectors[0],
        question_vectors=vectors[1],
        digest=_digest(folder),
    )


def load_sets(data: Path, names: Sequence[str]) -> list[DataSet]:
    """The named sets below ``data``.

    Raises:
        DataSetError: see :func:`load_set`; also when a folder does not exist.
    """
    for name in names:
        if not (data / name).is_dir():
            have = ", ".join(sorted(p.parent.name for p in data.glob("*/corpus.jsonl"))) or "없음"
            raise DataSetError(f"'{data}' 에 세트 '{name}' 이(가) 없습니다. 있는 세트: {have}")
    return [load_set(data / name) for name in names]


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        raise DataSetError(f"'{path}' 이(가) 없습니다. eval/sets/README.md 의 형식을 보세요.")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not rows:
        raise DataSetError(f"'{path}' 이(가) 비어 있습니다.")
    return rows


def _question(name: str, row: dict[str, Any]) -> SetQuestion:
    kind = row.get("type") or (f"{row['hops']}단계" if row.get("hops") else "미분류" if "type" in row else "전체")
    return SetQuestion(
        id=f"{name}/{row['id']}",
        set_name=name,
        text=nfc(row["question"]),
        gold=tuple(f"{name}/{gold}" for gold in row["gold_ids"]),
        type=kind,
        exact=bool(row.get("gold_exact", True)),
    )


def _check_ids(name: str, passages: Sequence[Passage], questions: Sequence[SetQuestion]) -> None:
    known = {passage.id for passage in passages}
    if len(known) != len(passages) or len({q.id for q in questions}) != len(questions):
        raise DataSetError(f"세트 {name}: 같은 id가 두 번 나옵니다.")
    lost = [gold for question in questions for gold in question.gold if gold not in known]
    if lost:
        raise DataSetError(f"세트 {name}: 정답 문단 {lost[:3]} 이(가) corpus.jsonl 에 없습니다.")


def _vectors(folder: Path, n_passages: int, n_questions: int) -> tuple[Matrix, Matrix]:
    path = folder / EMBEDDINGS
    if not path.exists():
        raise DataSetError(f"'{path}' 이(가) 없습니다. eval/sets/README.md 의 방법으로 임베딩을 만들어 주세요.")
    with np.load(path) as arrays:
        passages, questions = unit_rows(arrays["passages"]), unit_rows(arrays["questions"])
    if (len(passages), len(questions)) != (n_passages, n_questions):
        raise DataSetError(
            f"'{path}': 행 수 ({len(passages)}, {len(questions)}) 이(가) 파일의 ({n_passages}, {n_questions}) 와 다릅니다."
        )
    return passages, questions


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in ("corpus.jsonl", "questions.jsonl", EMBEDDINGS):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:12]
