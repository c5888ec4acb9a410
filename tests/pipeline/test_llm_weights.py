"""``llm_weights`` on the whole path: before retrieval, in its own span, in nobody else's trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main as measure
from eval.llm_weights import spread
from eval.questions import SETS_DIR, load_questions
from rag.__main__ import main as rag
from rag.assembly import build_pipeline
from rag.errors import SettingsError
from rag.fusion_retriever import PlannedBundle
from rag.pipeline import Listener, Pipeline
from rag.schema import BM25, GRAPH, VECTOR
from rag.tracing import Recorder
from rag.weighting import LLM_WEIGHTS, MODEL_FREE, SYSTEMS
from rag.weighting_llm import LlmWeighting
from tests.control.test_weighting_llm import FakeModel, says
from tests.pipeline.support import asked, settings_for, stable

QUESTION = "딸기 수확 후기 EC 얼마로 낮춰요?"


def with_model(base: Path, model: FakeModel) -> Pipeline:
    made = build_pipeline(settings_for(base))
    made.retriever.llm_weighting = LlmWeighting(model, timeout_s=5)  # type: ignore[arg-type]
    return made


def test_without_a_model_it_is_refused_with_the_remedy(
    pipeline: Pipeline, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pipeline.systems == MODEL_FREE
    with pytest.raises(SettingsError, match=r"'llm_weights'.*onsil\.toml.*--model"):
        pipeline.ask(asked(QUESTION), system=LLM_WEIGHTS)
    assert rag([QUESTION, "--system", LLM_WEIGHTS, "--store", str(base)]) == 2
    assert "--model FILE" in capsys.readouterr().err


def test_a_configured_model_offers_it_and_may_leave_the_answer_alone(base: Path, tmp_path: Path) -> None:
    made = build_pipeline(settings_for(base, model=tmp_path / "none.gguf"), extractive=True)
    assert made.systems == tuple(SYSTEMS)
    result = made.ask(asked(QUESTION), system=LLM_WEIGHTS)  # the file is not there: uniform, and said so
    assert set(result.weights.raw.by_channel.values()) == {1 / 3}
    (decision,) = [d for d in result.trace.decisions if d.stage == LLM_WEIGHTS]
    assert "none.gguf" in decision.why
    assert result.answer.answerer == made.ask(asked(QUESTION)).answer.answerer


def test_the_model_is_asked_once_and_before_retrieval(base: Path) -> None:
    model = FakeModel(says(0.6, 0.2, 0.2))
    stages: list[str] = []
    result = with_model(base, model).ask(asked(QUESTION), system=LLM_WEIGHTS, listener=Listener(on_stage=stages.append))
    assert len(model.asked) == 1
    assert QUESTION in model.asked[0]["messages"][1]["content"]
    spans = {span.stage: span for span in result.trace.spans}
    assert spans[LLM_WEIGHTS].start_ms + spans[LLM_WEIGHTS].ms <= spans["retrieval"].start_ms
    assert stages.index("모델이 가중치 고르기") < stages.index("자료 찾기")
    assert result.weights.raw.by_channel == pytest.approx({VECTOR: 0.6, BM25: 0.2, GRAPH: 0.2})
    assert result.system == LLM_WEIGHTS


def test_the_ranking_follows_the_weights(base: Path) -> None:
    made = with_model(base, FakeModel(says(0, 1, 0)))
    adaptive, llm = made.compare(asked(QUESTION), ("adaptive", LLM_WEIGHTS))
    assert adaptive.plan == llm.plan
    weight = {vote.channel: vote.weight for item in llm.evidence for vote in item.votes}
    assert weight[BM25] == llm.weights.final[BM25] > adaptive.weights.final[BM25]
    profile = made.understand(asked(QUESTION), Recorder()).profile
    for channel in (VECTOR, BM25, GRAPH):  # no further than slew from the profile's own weights
        assert abs(llm.weights.bounded[channel] - profile.weights[channel]) <= profile.guardrails.slew + 1e-9


def test_other_systems_do_not_pay_for_it(base: Path) -> None:
    made = with_model(base, FakeModel("nonsense"))
    together = made.compare(asked(QUESTION), tuple(SYSTEMS))
    for result in together:
        stages = {span.stage for span in result.trace.spans} | {d.stage for d in result.trace.decisions}
        assert (LLM_WEIGHTS in stages) == (result.system == LLM_WEIGHTS)
        assert stable(made.ask(asked(QUESTION), system=result.system)) == stable(result)


def test_the_llama_index_face_asks_the_model_too(base: Path) -> None:
    model = FakeModel(says(0, 0, 1))
    made = with_model(base, model)
    planned = replace(made.retriever._default_plan(QUESTION), system=LLM_WEIGHTS)
    assert made.retriever.retrieve(PlannedBundle(query_str=QUESTION, planned=planned))
    assert len(model.asked) == 1


class TestMeasuring:
    """``python -m eval llm-weights`` with a fake model."""

    @pytest.fixture
    def model(self, monkeypatch: pytest.MonkeyPatch) -> FakeModel:
        made = FakeModel(says(0.5, 0.3, 0.2))
        monkeypatch.setattr("rag.assembly.local_model", lambda *args: made)
        return made

    @pytest.fixture
    def command(self, base: Path, tmp_path: Path) -> list[str]:
        (tmp_path / "model.gguf").write_bytes(b"GGUF")
        options = {
            "--questions": "3",
            "--model": tmp_path / "model.gguf",
            "--store": base,
            "--json": tmp_path / "r.json",
        }
        return ["llm-weights", *(str(part) for pair in options.items() for part in pair)]

    def test_the_report(self, model: FakeModel, command: list[str], tmp_path: Path) -> None:
        assert measure(command) == 0
        report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert report["n_questions"] == len(report["rows"]) == len(report["questions"]) == 3
        assert len(report["kinds"]) == 3
        assert report["outcomes"] == {"ok": 3, "partial": 0, "fallback": 0}
        assert report["malformed_share"] == 0
        for row in report["rows"]:
            for figures in row["systems"].values():
                assert 0 < figures["control_ms"] < figures["retrieval_ms"]
            assert row["llm_ms"] < row["systems"]["llm_weights"]["control_ms"]
        systems = report["systems"]
        ratio = systems["llm_weights"]["retrieval_ms"]["median_ms"] / systems["adaptive"]["retrieval_ms"]["median_ms"]
        assert report["ratio_of_medians"]["retrieval_ms"] == pytest.approx(ratio, abs=0.01)
        assert report["versions"]["llama-cpp-python"]
        assert not list(tmp_path.glob("*.partial.jsonl"))
        assert len(model.asked) == 4  # the warm-up

    def test_malformed_outputs_are_counted(self, model: FakeModel, command: list[str], tmp_path: Path) -> None:
        model.finish = "length"
        assert measure(command) == 0
        report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert report["outcomes"]["fallback"] == 3
        assert report["malformed_share"] == 1

    def test_it_goes_on_where_it_was_stopped(
        self, model: FakeModel, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = FakeModel.stream

        def interrupted(self: FakeModel, *args: Any, **options: Any) -> Iterator[str]:
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return stream(self, *args, **options)

        monkeypatch.setattr(FakeModel, "stream", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure(command)
        kept = tmp_path / "r.json.partial.jsonl"
        done = kept.read_text(encoding="utf-8").splitlines()
        assert len(done) == 3  # the head and two questions
        kept.write_text("\n".join(done) + '\n{"id": "cut o', encoding="utf-8")
        monkeypatch.setattr(FakeModel, "stream", stream)
        model.asked.clear()
        assert measure(command) == 0
        assert len(model.asked) == 2  # the warm-up and the question that was left
        report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert [row["id"] for row in report["rows"]] == report["questions"]
        assert report["rows"][0] == json.loads(done[1])

    def test_another_model_starts_anew(self, model: FakeModel, command: list[str], tmp_path: Path) -> None:
        kept = tmp_path / "r.json.partial.jsonl"
        kept.write_text('{"run": {"model": "another"}}\n{"id": "K182"}\n', encoding="utf-8")
        assert measure(command) == 0
        assert len(model.asked) == 4

    def test_no_model_names_the_remedy(self, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert measure(["llm-weights", "--store", str(base), "--json", str(tmp_path / "r.json")]) == 2
        assert "--model GGUF" in capsys.readouterr().err


def test_questions_are_spread_over_the_kinds() -> None:
    questions = load_questions(SETS_DIR / "farm.jsonl")
    chosen = spread(questions, 100)
    assert len({question.id for question in chosen}) == 100
    assert all(question.answerable and question.split == "test" for question in chosen)
    usable = [question for question in questions if question.answerable and question.split == "test"]
    assert {question.kind for question in chosen} == {question.kind for question in usable}
    assert spread(questions, 100) == chosen
    assert spread(questions, 10_000) == usable
