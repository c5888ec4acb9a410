"""What the fitting commands read off the pipeline: candidates of a question, and the support of its answer."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

import eval.adapter
from eval.questions import Question, tune_questions
from eval.ranking import candidates_of, covered
from eval.refusal import supports_of
from rag.answering.calibration import load_calibration
from rag.answering.sentences import FEATURES
from rag.assembly import levels_file
from rag.embedding import QueryAdapter
from rag.pipeline import Pipeline
from rag.reranker import load_reranker
from rag.settings import load_settings

# Public facts and a farm's month, all with gold documents in the small corpus.
IDS = ("R034", "K130", "L029")


@pytest.fixture(scope="module")
def questions() -> dict[str, Question]:
    return {question.id: question for question in tune_questions() if question.id in IDS}


@pytest.mark.parametrize("id_", IDS)
def test_candidates_are_what_the_answerer_chooses_from(
    pipeline: Pipeline, questions: dict[str, Question], id_: str
) -> None:
    question = questions[id_]
    encoder = pipeline.embedder.model_name
    in_force = load_calibration(levels_file(load_settings()), encoder, reranked=True).sentences
    found = candidates_of(pipeline, question, in_force, load_reranker(encoder))
    assert found.question_id == id_
    assert found.features.shape == (len(found.states), len(FEATURES))
    assert found.states.shape[1] == len(question.expect)
    assert found.states.any(axis=0).all()
    assert not found.states.any(axis=1).all()
    # with the shipped weights every fact stands among the first few, as the farm's office needs it
    assert covered(found, np.array(astuple(in_force)), 6)
    assert found.features[:, FEATURES.index("record")].any() == (id_ == "L029")


def test_support_is_read_with_the_adapter_of_the_other_folds(
    pipeline: Pipeline, questions: dict[str, Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_force = pipeline.embedder.adapter
    assert in_force is not None
    away = QueryAdapter(-in_force.matrix, in_force.mean)
    asked = [questions["R034"], questions["L029"]]

    def similarity(adapter: QueryAdapter) -> float:
        monkeypatch.setattr(eval.adapter, "held_out_adapters", lambda settings, name: [adapter] * eval.adapter.FOLDS)
        found = supports_of(pipeline, load_settings(), asked)
        assert [(question.id, record) for question, record, _ in found] == [("R034", False), ("L029", True)]
        support = found[0][2]
        return support.similarity

    assert similarity(in_force) > similarity(away) + 0.01
    assert pipeline.embedder.adapter is in_force
