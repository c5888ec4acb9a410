"""``python -m eval ragas``: RAGAS Faithfulness, context precision and context recall with a judge of one's own.

The metrics are those of ragas (``ragas.metrics.collections``): what they ask, in what order, and how a score comes from
the verdicts. Ours is what they lack for a small Korean judge:

- Korean instructions and examples, the input in the order context → question → answer.
- The answer is cut into sentences by Kiwi; at least one statement is asked per sentence, and exactly one verdict per
  statement.
- The output is forced into the JSON schema of the metric's pydantic model: by a grammar in llama.cpp, by
  ``response_format`` on an OpenAI-compatible server. Strings and lists are bounded and verdicts are 0 or 1, so the output
  ends. One that did not end (``finish_reason`` "length") is asked again with twice the tokens; after that the score is NaN,
  counted with its reason.

Scores: Faithfulness = supported statements ÷ statements. Context precision = mean precision at the ranks judged useful.
Context recall = sentences of the reference that the passages hold ÷ sentences. The reference of a question is
``eval.answers.reference_of``. Refused answers have nothing to judge and are counted beside the scores.

Every question is judged once per seed at a temperature above 0; equal prompts with equal seeds are asked once, so that two
systems with the same answer from the same passages score the same.

A judge that cannot tell a right context from an unrelated one measures nothing. Before anything else it judges a few
sentences of the corpus, once with the passage they stand in and once with one about something else. It is fit when the mean
Faithfulness and the mean context precision of the two differ by ``MARGIN`` or more; otherwise every figure is marked unfit.

Finished questions are kept beside the report (``FILE.partial.jsonl``): the same command goes on where it was stopped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

import httpx
import numpy as np
from pydantic import BaseModel, Field, ValidationError, create_model
from tqdm import tqdm

os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # before ragas is imported: it reports its use otherwise

from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics.collections import ContextPrecision, ContextRecall, Faithfulness
from ragas.metrics.collections.context_precision.util import (
    ContextPrecisionInput,
    ContextPrecisionOutput,
    ContextPrecisionPrompt,
)
from ragas.metrics.collections.context_recall.util import (
    ContextRecallClassification,
    ContextRecallInput,
    ContextRecallOutput,
    ContextRecallPrompt,
)
from ragas.metrics.collections.faithfulness.util import (
    NLIStatementInput,
    NLIStatementOutput,
    NLIStatementPrompt,
    StatementFaithfulnessAnswer,
    StatementGeneratorInput,
    StatementGeneratorOutput,
    StatementGeneratorPrompt,
)

from eval.answers import Asker, reference_of, spread
from eval.compare import save_report
from eval.kept import append_row, rows_kept
from eval.questions import Question, load_questions
from eval.statistics import paired_bootstrap
from rag.errors import GenerationError, SettingsError
from rag.llm import Finish, LocalModel, Message, neutralise
from rag.settings import load_settings
from rag.text import korean

METRICS = ("faithfulness", "context_precision", "context_recall")
MARGIN = 0.3
SANITY_PAIRS = 5
# Characters of a reason and of a statement: enough for a sentence, and an output that ends.
REASON_CHARACTERS, STATEMENT_CHARACTERS = 60, 160
TEMPERATURE = 0.5
JUDGE_TIMEOUT_S = 1800.0
MAX_STATEMENTS = 8
FIRST_TOKENS = 512
ATTEMPTS = 2

Finished = Literal["stop", "length"]
Model = TypeVar("Model", bound=BaseModel)
Row = dict[str, Any]


class Unreadable(Exception):
    """The judge gave no usable verdict; the text is the reason that is counted."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a judge said, and whether it came to an end."""

    text: str
    finished: Finished | None


class Judge(Protocol):
    """A model that fills in a JSON schema."""

    name: str

    def fill(self, prompt: str, schema: Mapping[str, Any], *, seed: int, max_tokens: int) -> Reply:
        """JSON text by ``schema``.

        Raises:
            GenerationError: the model cannot answer.
        """
        ...


class LocalJudge:
    """A GGUF model on this machine, its output within the grammar of the schema."""

    def __init__(self, model: LocalModel, *, temperature: float, timeout_s: float) -> None:
        self._model = model
        self.name = model.name
        self._temperature = temperature
        self._timeout_s = timeout_s

    def fill(self, prompt: str, schema: Mapping[str, Any], *, seed: int, max_tokens: int) -> Reply:
        """See ``Judge``."""
        from llama_cpp.llama_grammar import json_schema_to_gbnf

        system, _, user = prompt.partition(_BREAK)
        messages: list[Message] = [{"role": "system", "content": system}, {"role": "user", "content": neutralise(user)}]
        room = self._model.n_ctx - self._model.count_prompt_tokens(messages)
        ends: list[Finish] = []
        stream = self._model.stream(
            messages,
            max_tokens=max(1, min(max_tokens, room)),
            temperature=self._temperature,
            grammar=json_schema_to_gbnf(json.dumps(schema)),
            timeout_s=self._timeout_s,
            on_finish=ends.append,
            seed=seed,
            keep_prefix=True,
        )
        with closing(stream):
            text = "".join(stream)
        return Reply(text, ends[0] if ends else None)


class ServerJudge:
    """A model behind an OpenAI-compatible address (``…/v1``): llama.cpp server, vLLM, Ollama and the like."""

    def __init__(self, url: str, model: str, *, temperature: float, timeout_s: float, key: str | None = None) -> None:
        self.name = model
        self._url = url.rstrip("/") + "/chat/completions"
        self._temperature = temperature
        self._client = httpx.Client(timeout=timeout_s, headers={"Authorization": f"Bearer {key}"} if key else {})

    def fill(self, prompt: str, schema: Mapping[str, Any], *, seed: int, max_tokens: int) -> Reply:
        """See ``Judge``."""
        system, _, user = prompt.partition(_BREAK)
        body = {
            "model": self.name,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "temperature": self._temperature,
            "seed": seed,
            "max_tokens": max_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": dict(schema)},
            },
        }
        try:
            response = self._client.post(self._url, json=body)
            response.raise_for_status()
            choice = response.json()["choices"][0]
            text, finished = str(choice["message"]["content"] or ""), choice.get("finish_reason")
        except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
            raise GenerationError(
                f"판정 서버 '{self._url}' 가 답하지 않습니다({error}). 주소와 --judge-model 을 확인해 주세요."
            ) from error
        return Reply(text, finished if finished in ("stop", "length") else None)


def forced_schema(model: type[BaseModel], reason_characters: int = REASON_CHARACTERS) -> dict[str, Any]:
    """The JSON schema of a ragas output model, bounded so that every output ends.

    Strings get a longest length, lists at least one and at most ``MAX_STATEMENTS`` items unless the model says otherwise,
    whole numbers are 0 or 1 (in these models all are verdicts), and nothing else may stand in an object.
    """
    schema: dict[str, Any] = _bounded("", model.model_json_schema(), reason_characters)
    return schema


def _bounded(name: str, node: Any, reason: int) -> Any:
    if isinstance(node, list):
        return [_bounded(name, item, reason) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "integer":
        return {"enum": [0, 1]}
    kept: dict[str, Any] = {}
    for key, found in node.items():
        if key in ("properties", "$defs"):  # keys below these are names, not keywords
            kept[key] = {inner: _bounded(inner, value, reason) for inner, value in found.items()}
        elif key not in ("title", "description"):
            kept[key] = _bounded(name, found, reason)
    if node.get("type") == "string":
        kept.setdefault("maxLength", reason if name == "reason" else STATEMENT_CHARACTERS)
    if node.get("type") == "array":
        kept = {"minItems": 1, "maxItems": MAX_STATEMENTS} | kept
    if node.get("type") == "object":
        kept["additionalProperties"] = False
    return kept


class ForcedLlm(InstructorBaseRagasLLM):
    """What ragas talks to: fills the output model of a metric, with the seed that is set, or raises ``Unreadable``."""

    def __init__(self, judge: Judge, reason_characters: int = REASON_CHARACTERS) -> None:
        self._judge = judge
        self._reason_characters = reason_characters
        self.seed = 0
        self.calls = 0
        self.retries = 0
        self._known: dict[tuple[str, str, int], BaseModel | Unreadable] = {}

    def generate(self, prompt: str, response_model: type[Model]) -> Model:
        """The filled model; equal prompts with equal seeds are asked once."""
        schema = forced_schema(response_model, self._reason_characters)
        key = (prompt, json.dumps(schema, sort_keys=True), self.seed)
        if key not in self._known:
            self._known[key] = self._ask(prompt, schema, response_model)
        found = self._known[key]
        if isinstance(found, Unreadable):
            raise found
        return response_model.model_validate(found.model_dump())

    async def agenerate(self, prompt: str, response_model: type[Model]) -> Model:
        """As ``generate``: the local model answers one at a time anyway."""
        return self.generate(prompt, response_model)

    def _ask(self, prompt: str, schema: Mapping[str, Any], response_model: type[Model]) -> Model | Unreadable:
        for attempt in range(ATTEMPTS):
            self.calls += 1
            self.retries += attempt > 0
            try:
                reply = self._judge.fill(prompt, schema, seed=self.seed, max_tokens=FIRST_TOKENS * 2**attempt)
            except GenerationError as error:
                return Unreadable(f"error: {error}")
            if reply.finished == "length":
                continue
            try:
                return response_model.model_validate_json(reply.text)
            except ValidationError:
                return Unreadable("invalid")
        return Unreadable("length")

    def forget(self) -> None:
        """Drop the known replies."""
        self._known.clear()


_BREAK = "\n\n## 입력\n"


def korean_prompt(instruction: str, examples: Sequence[tuple[BaseModel, BaseModel]], data: BaseModel) -> str:
    """Instruction and examples (the same for every question, so that they are read once), then the input."""
    shown = "\n".join(f"입력: {_json(given)}\n출력: {_json(said)}" for given, said in examples)
    return f"{instruction}\n\n## 예\n{shown}{_BREAK}{_json(data)}\n출력:"


def _json(data: BaseModel) -> str:
    """One line of JSON, the passage first: what differs between two prompts on one passage comes last."""
    fields = data.model_dump()
    first = {"context": fields["context"]} if "context" in fields else {}
    return json.dumps(first | fields, ensure_ascii=False)


class _Statements(StatementGeneratorPrompt):
    instruction = (
        "질문과 답변을 받는다. 답변은 줄마다 한 문장이다. 문장마다 그것만 읽어도 뜻이 통하는 진술로 나눈다. "
        "대명사를 쓰지 않고, 답변에 없는 말을 더하지 않는다. JSON으로만 쓴다."
    )
    examples = [  # noqa: RUF012 (as in the base class)
        (
            StatementGeneratorInput(
                question="참외는 언제 아주심기하고 온도는 얼마로 둬요?",
                answer="참외는 1월 하순에 아주심기한다.\n그 뒤 낮에는 28℃, 밤에는 18℃로 둔다.",
            ),
            StatementGeneratorOutput(
                statements=[
                    "참외는 1월 하순에 아주심기한다.",
                    "아주심기한 뒤 낮 온도는 28℃로 둔다.",
                    "아주심기한 뒤 밤 온도는 18℃로 둔다.",
                ]
            ),
        )
    ]

    def to_string(self, data: StatementGeneratorInput) -> str:
        return korean_prompt(self.instruction, self.examples, data)


class Verdict(BaseModel):
    """One verdict, in the order of what is judged."""

    reason: str
    verdict: int


class Verdicts(BaseModel):
    """Verdicts on numbered statements. (The metric's own model repeats each statement; that only costs tokens.)"""

    verdicts: list[Verdict]

    @staticmethod
    def of(n: int) -> type[Verdicts]:
        """The model with exactly ``n`` verdicts."""
        exactly = Annotated[list[Verdict], Field(min_length=n, max_length=n)]
        return create_model("Verdicts", __base__=Verdicts, verdicts=(exactly, ...))


class _Nli(NLIStatementPrompt):
    instruction = (
        "근거(context)와 진술(statements)을 받는다. 진술마다 차례대로, 근거만 보고 그 진술이 참이라고 할 수 있으면 verdict 1, "
        "근거에 없거나 근거와 다르면 verdict 0을 준다. reason에 까닭을 짧게 쓴다. JSON으로만 쓴다."
    )
    shown: ClassVar = (
        (
            NLIStatementInput(
                context="참외는 1월 하순에 아주심기한다. 낮에는 28℃로 둔다.",
                statements=["참외는 1월 하순에 심는다.", "참외의 낮 온도는 35℃이다.", "수박은 물을 많이 먹는다."],
            ),
            Verdicts(
                verdicts=[
                    Verdict(reason="근거에 그대로 있다.", verdict=1),
                    Verdict(reason="근거에는 28℃라고 있다.", verdict=0),
                    Verdict(reason="근거에 수박 이야기가 없다.", verdict=0),
                ]
            ),
        ),
    )

    def to_string(self, data: NLIStatementInput) -> str:
        return korean_prompt(self.instruction, self.shown, data)


class _Useful(ContextPrecisionPrompt):
    instruction = (
        "질문(question), 근거(context), 답(answer)을 받는다. 그 근거가 그 답을 얻는 데 쓸모가 있으면 verdict 1, 없으면 verdict 0을 준다. "
        "reason에 까닭을 짧게 쓴다. JSON으로만 쓴다."
    )
    examples = [  # noqa: RUF012 (as in the base class)
        (
            ContextPrecisionInput(
                context="참외는 1월 하순에 아주심기한다.", question="참외 언제 심어요?", answer="1월 하순에 심는다."
            ),
            ContextPrecisionOutput(reason="심는 때가 근거에 있다.", verdict=1),
        ),
        (
            ContextPrecisionInput(
                context="관정 펌프의 전압을 달마다 잰다.", question="참외 언제 심어요?", answer="1월 하순에 심는다."
            ),
            ContextPrecisionOutput(reason="근거는 펌프 이야기이다.", verdict=0),
        ),
    ]

    def to_string(self, data: ContextPrecisionInput) -> str:
        return korean_prompt(self.instruction, self.examples, data)


class _Held(ContextRecallPrompt):
    instruction = (
        "근거(context), 질문(question), 답(answer)을 받는다. 답의 문장마다 그 문장을 statement에 옮겨 적고, 근거에서 나온 말이면 "
        "attributed 1, 아니면 attributed 0을 준다. reason에 까닭을 짧게 쓴다. JSON으로만 쓴다."
    )
    examples = [  # noqa: RUF012 (as in the base class)
        (
            ContextRecallInput(
                context="참외는 1월 하순에 아주심기한다. 낮에는 28℃로 둔다.",
                question="참외 언제 심고 물은 얼마나 줘요?",
                answer="참외는 1월 하순에 심는다. 물은 하루 2L 준다.",
            ),
            ContextRecallOutput(
                classifications=[
                    ContextRecallClassification(
                        statement="참외는 1월 하순에 심는다.", reason="근거에 있다.", attributed=1
                    ),
                    ContextRecallClassification(
                        statement="물은 하루 2L 준다.", reason="근거에 물 이야기가 없다.", attributed=0
                    ),
                ]
            ),
        )
    ]

    def to_string(self, data: ContextRecallInput) -> str:
        return korean_prompt(self.instruction, self.examples, data)


def sentences_of(text: str) -> list[str]:
    """Sentences by Kiwi."""
    return [text[span.start : span.end] for span in korean().sentences(text)]


class KoreanFaithfulness(Faithfulness):
    """Faithfulness on Kiwi sentences, with one verdict per statement."""

    def __init__(self, llm: ForcedLlm) -> None:
        super().__init__(llm=llm)
        self._forced = llm
        self.statement_generator_prompt = _Statements()
        self.nli_statement_prompt = _Nli()

    async def _create_statements(self, question: str, response: str) -> list[str]:
        sentences = sentences_of(response)
        asked = StatementGeneratorInput(question=question, answer="\n".join(sentences))
        found = await self._forced.agenerate(
            self.statement_generator_prompt.to_string(asked), statements_of(len(sentences))
        )
        return [statement for statement in found.statements if statement.strip()]

    async def _create_verdicts(self, statements: list[str], context: str) -> NLIStatementOutput:
        asked = NLIStatementInput(context=context, statements=statements)
        found = await self._forced.agenerate(self.nli_statement_prompt.to_string(asked), Verdicts.of(len(statements)))
        return NLIStatementOutput(
            statements=[
                StatementFaithfulnessAnswer(statement=statement, reason=one.reason, verdict=one.verdict)
                for statement, one in zip(statements, found.verdicts, strict=True)
            ]
        )


def statements_of(n_sentences: int) -> type[StatementGeneratorOutput]:
    """The output of the first step: at least a statement per sentence, at most twice as many."""
    least = max(1, min(n_sentences, MAX_STATEMENTS))
    bounds = Annotated[list[str], Field(min_length=least, max_length=min(MAX_STATEMENTS, 2 * least))]
    return create_model("StatementGeneratorOutput", __base__=StatementGeneratorOutput, statements=(bounds, ...))


class KoreanContextPrecision(ContextPrecision):
    """Context precision with the Korean prompt."""

    def __init__(self, llm: ForcedLlm) -> None:
        super().__init__(llm=llm)
        self.prompt = _Useful()


class KoreanContextRecall(ContextRecall):
    """Context recall with the Korean prompt."""

    def __init__(self, llm: ForcedLlm) -> None:
        super().__init__(llm=llm)
        self.prompt = _Held()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is judged: an answer ("" where it was refused) from passages, against a reference ("" without one)."""

    question: str
    response: str
    contexts: tuple[str, ...]
    reference: str


@dataclass(frozen=True, slots=True)
class Score:
    """A score in [0, 1] or NaN with the reason."""

    value: float
    reason: str = ""


class RagasJudge:
    """Scores samples, one seed after the other."""

    def __init__(self, judge: Judge, seeds: Sequence[int], reason_characters: int = REASON_CHARACTERS) -> None:
        self.name = judge.name
        self.seeds = tuple(seeds)
        self.reason_characters = reason_characters
        self.llm = ForcedLlm(judge, reason_characters)
        self._faithfulness = KoreanFaithfulness(self.llm)
        self._precision = KoreanContextPrecision(self.llm)
        self._recall = KoreanContextRecall(self.llm)

    def scores(
        self, sample: Sample, metrics: Sequence[str] = METRICS, seeds: Sequence[int] | None = None
    ) -> dict[str, list[Score]]:
        """Metric → a score per seed (all unless given), for the metrics that the sample has what is needed for."""
        seeds = self.seeds if seeds is None else seeds
        found: dict[str, list[Score]] = {}
        contexts = list(sample.contexts)
        if "faithfulness" in metrics and sample.response and contexts:
            self._each_seed(seeds, lambda: self._faithfulness._create_statements(sample.question, sample.response))
            found["faithfulness"] = self._each_seed(
                seeds,
                lambda: self._faithfulness.ascore(
                    user_input=sample.question, response=sample.response, retrieved_contexts=contexts
                ),
            )
        against: dict[str, Any] = {
            "user_input": sample.question,
            "reference": sample.reference,
            "retrieved_contexts": contexts,
        }
        if "context_precision" in metrics and sample.reference and contexts:
            found["context_precision"] = self._each_passage(sample, contexts, seeds)
        if "context_recall" in metrics and sample.reference and contexts:
            found["context_recall"] = self._each_seed(seeds, lambda: self._recall.ascore(**against))
        return found

    def _each_passage(self, sample: Sample, contexts: list[str], seeds: Sequence[int]) -> list[Score]:
        """Context precision; each passage is judged with every seed before the next one, since its prompt stays read."""
        for passage in contexts:
            asked = ContextPrecisionInput(question=sample.question, context=passage, answer=sample.reference)
            prompt = self._precision.prompt.to_string(asked)
            self._each_seed(seeds, lambda prompt=prompt: self.llm.agenerate(prompt, ContextPrecisionOutput))  # type: ignore[misc]
        return self._each_seed(
            seeds,
            lambda: self._precision.ascore(
                user_input=sample.question, reference=sample.reference, retrieved_contexts=contexts
            ),
        )

    def _each_seed(self, seeds: Sequence[int], ask: Callable[[], Any]) -> list[Score]:
        found = []
        for seed in seeds:
            self.llm.seed = seed
            try:
                value = float(getattr(asyncio.run(ask()), "value", math.nan))
                found.append(Score(value, "" if math.isfinite(value) else "no verdict"))
            except Unreadable as error:
                found.append(Score(math.nan, str(error)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SanityPair:
    """A sentence of the corpus as an answer, with the passage it stands in and one about something else."""

    question: str
    answer: str
    supporting: str
    unrelated: str


def sanity_pairs(asker: Asker, questions: Sequence[Question], n: int = SANITY_PAIRS) -> list[SanityPair]:
    """Pairs from the first questions of ``n`` kinds that have a reference; unrelated is the passage of the next one."""
    found: dict[str, tuple[str, str, str]] = {}
    for question in questions:
        if len(found) == n:
            break
        if question.kind in found or not question.answerable:
            continue
        reference = reference_of(question, asker.document_text)
        if reference:
            found[question.kind] = (question.question, reference.text, reference.passage)
    rows = list(found.values())
    return [
        SanityPair(question=asked, answer=answer, supporting=passage, unrelated=others[0])
        for i, (asked, answer, passage) in enumerate(rows)
        if (
            others := [
                other for _, said, other in (*rows[i + 1 :], *rows[:i]) if answer not in other and said != answer
            ]
        )
    ]


def sanity_check(judge: RagasJudge, pairs: Sequence[SanityPair]) -> Row:
    """Whether the judge scores supporting and unrelated passages apart, with its first seed; NaN counts as the worse."""
    means: dict[str, dict[str, float]] = {}
    nan = 0
    for name in ("faithfulness", "context_precision"):
        sides: dict[str, list[float]] = {"supported": [], "unrelated": []}
        for pair in tqdm(pairs, desc=f"판정 모델 점검 {name}", unit="쌍", leave=False):
            for side, passage in (("supported", pair.supporting), ("unrelated", pair.unrelated)):
                sample = Sample(
                    question=pair.question, response=pair.answer, contexts=(passage,), reference=pair.answer
                )
                for score in judge.scores(sample, (name,), judge.seeds[:1])[name]:
                    nan += math.isnan(score.value)
                    worst = 0.0 if side == "supported" else 1.0
                    sides[side].append(worst if math.isnan(score.value) else score.value)
        means[name] = {side: round(fmean(values), 4) for side, values in sides.items()}
        means[name]["difference"] = round(means[name]["supported"] - means[name]["unrelated"], 4)
    fit = all(row["difference"] >= MARGIN for row in means.values())
    return {"pairs": len(pairs), "margin": MARGIN, "nan": nan, **means, "verdict": "fit" if fit else "unfit"}


def run_ragas(
    asker: Asker,
    questions: Sequence[Question],
    sanity_questions: Sequence[Question],
    systems: Sequence[str],
    judge: RagasJudge,
    kept: Path,
    *,
    n_contexts: int | None,
    identity: Mapping[str, Any],
) -> Row:
    """Judge every question with every system and report. ``kept`` holds what is done, until the report is complete.

    ``n_contexts``: how many of the passages that the answerer reads are shown to the judge, None for all.
    """
    run = {
        **identity,
        "judge": judge.name,
        "seeds": list(judge.seeds),
        "systems": list(systems),
        "contexts": n_contexts or "all",
        "reason_characters": judge.reason_characters,
        "prompts": _prompts_digest(),
        "questions": [question.id for question in questions],
    }
    rows = rows_kept(kept, run)
    if "sanity" not in rows:
        row = {"id": "sanity", **sanity_check(judge, sanity_pairs(asker, sanity_questions))}
        append_row(kept, rows, row)
    for question in tqdm([q for q in questions if q.id not in rows], desc="질문", unit="개"):
        append_row(kept, rows, _judged(asker, question, systems, judge, n_contexts))
        judge.llm.forget()
    done = [rows[question.id] for question in questions]
    sanity = {key: value for key, value in rows["sanity"].items() if key != "id"}
    return {**run, "sanity": sanity, **summarise(done, systems, sanity["verdict"] == "fit"), "rows": done}


def _judged(asker: Asker, question: Question, systems: Sequence[str], judge: RagasJudge, n_contexts: int | None) -> Row:
    started = time.monotonic()
    reference = reference_of(question, asker.document_text)
    judged: Row = {}
    for system, found in asker.ask(question, systems).items():
        sample = Sample(
            question=question.question,
            response="" if found.answer.refused else found.answer.text,
            contexts=tuple(item.chunk.text for item in found.read[:n_contexts]),
            reference=reference.text if reference else "",
        )
        scores = judge.scores(sample)
        judged[system] = {
            "refused": found.answer.refused,
            **{name: [None if math.isnan(s.value) else round(s.value, 4) for s in scores[name]] for name in scores},
            "nan": {name: [s.reason for s in scores[name] if s.reason] for name in scores},
        }
    return {
        "id": question.id,
        "kind": question.kind,
        "seconds": round(time.monotonic() - started, 1),
        "systems": judged,
    }


def summarise(rows: Sequence[Row], systems: Sequence[str], fit: bool) -> Row:
    """Per system and metric: mean of the seeds, their standard deviation and range, NaN by reason; and the differences.

    A seed's figure is the mean over the questions that have a score with it. ``difference`` is the first system minus
    each other one on the questions that both have a score for, per seed; its interval (95 %) is the bootstrap over
    questions of the differences averaged over seeds.
    """
    report: Row = {"fit": fit, "systems": {}, "difference": {}}
    for system in systems:
        own = [row["systems"][system] for row in rows]
        report["systems"][system] = {
            "refused": sum(one["refused"] for one in own),
            **{name: _metric(own, name) for name in METRICS},
        }
    first, *others = systems
    for other in others:
        report["difference"][f"{first} - {other}"] = {name: _difference(rows, first, other, name) for name in METRICS}
    return report


def _metric(rows: Sequence[Row], name: str) -> Row:
    judged = [row[name] for row in rows if name in row]
    reasons = Counter(_reason_kind(reason) for row in rows for reason in row["nan"].get(name, ()))
    return {
        "questions": len(judged),
        "scores": sum(len(seeds) for seeds in judged),
        "nan": sum(reasons.values()),
        "nan_reasons": dict(reasons),
        **_spread([[value for value in seed if value is not None] for seed in zip(*judged, strict=True)]),
    }


def _reason_kind(reason: str) -> str:
    return reason.partition(":")[0]


def _spread(seeds: Sequence[Sequence[float]]) -> Row:
    """Mean, standard deviation and range of the means of each seed; None without a score."""
    means = [fmean(values) for values in seeds if values]
    if not means:
        return {"mean": None, "sd": None, "range": None, "seeds": []}
    return {
        "mean": round(fmean(means), 4),
        "sd": round(stdev(means), 4) if len(means) > 1 else None,
        "range": [round(min(means), 4), round(max(means), 4)],
        "seeds": [round(mean, 4) for mean in means],
    }


def _difference(rows: Sequence[Row], first: str, other: str, name: str) -> Row:
    pairs = [
        [
            a - b if a is not None and b is not None else math.nan
            for a, b in zip(row["systems"][first][name], row["systems"][other][name], strict=True)
        ]
        for row in rows
        if name in row["systems"][first] and name in row["systems"][other]
    ]
    spread = _spread([[d for d in seed if math.isfinite(d)] for seed in zip(*pairs, strict=True)])
    whole = [fmean(finite) for pair in pairs if (finite := [d for d in pair if math.isfinite(d)])]
    if not whole:
        return {"questions": 0, **spread}
    interval = paired_bootstrap(np.array(whole))
    return {
        "questions": len(whole),
        **spread,
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "p": round(interval.p, 4),
    }


def _prompts_digest() -> str:
    """Changes with any prompt or bound that the judge sees."""
    parts = [p.instruction + str(p.examples) for p in (_Statements, _Useful, _Held)]
    parts += [_Nli.instruction, str(_Nli.shown), str((STATEMENT_CHARACTERS, MAX_STATEMENTS))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def command(args: Any) -> None:
    """``python -m eval ragas``.

    Raises:
        SettingsError: neither or both of a model file and a server are named.
    """
    settings = load_settings(store=args.store, model=args.model)
    if (args.judge_gguf is None) == (args.judge_url is None):
        raise SettingsError(
            "판정 모델을 하나만 정해 주세요: --judge-gguf FILE 또는 --judge-url URL 과 --judge-model NAME"
        )
    if args.temperature <= 0 and args.repeats > 1:
        raise SettingsError(
            f"온도 {args.temperature:g} 에서는 반복이 모두 같습니다. --temperature 를 0보다 크게 주세요."
        )
    judge: Judge
    if args.judge_gguf is not None:
        model = LocalModel(
            args.judge_gguf,
            n_ctx=settings.n_ctx,
            n_threads=args.n_threads or settings.n_threads,
            n_gpu_layers=settings.n_gpu_layers,
            seed=0,
        )
        judge = LocalJudge(model, temperature=args.temperature, timeout_s=JUDGE_TIMEOUT_S)
    else:
        judge = ServerJudge(args.judge_url, args.judge_model, temperature=args.temperature, timeout_s=JUDGE_TIMEOUT_S)
    asker = Asker(settings, llm=args.answerer == "llm")
    everything = load_questions(args.set)
    questions = spread([q for q in everything if q.answerable and q.split == args.split], args.questions)
    identity = {
        "split": args.split,
        "answerer": args.answerer,
        "temperature": args.temperature,
        **asker.identity(questions),
    }
    kept = args.json.with_name(f"{args.json.name}.partial.jsonl")
    report = run_ragas(
        asker,
        questions,
        [q for q in everything if q.split == "tune"],
        tuple(args.systems.split(",")),
        RagasJudge(judge, range(1, args.repeats + 1), args.reason_characters),
        kept,
        n_contexts=args.contexts,
        identity=identity,
    )
    print("\n".join(lines(report)))
    report["at"] = datetime.now(UTC).isoformat(timespec="seconds")
    save_report(args.json, report)
    kept.unlink()


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report for the screen; figures of an unfit judge are marked one by one."""
    sanity = report["sanity"]
    mark = "" if report["fit"] else "  (유효하지 않음)"
    apart = ", ".join(
        f"{name} 맞는 근거 {row['supported']:.3f} / 무관한 근거 {row['unrelated']:.3f}"
        for name, row in sanity.items()
        if isinstance(row, dict)
    )
    verdict = "쓸 수 있음" if report["fit"] else "유효하지 않음: 맞는 근거와 무관한 근거를 가르지 못합니다"
    found = [f"판정 모델 {report['judge']} 점검: {verdict} ({apart}; 차이 {sanity['margin']} 이상이어야 함)"]
    for system, row in report["systems"].items():
        for name in METRICS:
            one = row[name]
            found.append(
                f"{system:12s} {name:18s} {_figure(one)}  질문 {one['questions']}, 점수 {one['scores']}, NaN {one['nan']}"
                f" {one['nan_reasons'] or ''}{mark}"
            )
    for pair, row in report["difference"].items():
        found += [
            f"{pair:20s} {name:18s} {_figure(row[name])}  질문 {row[name]['questions']}{mark}" for name in METRICS
        ]
    return found


def _figure(row: Mapping[str, Any]) -> str:
    if row["mean"] is None:
        return "점수 없음"
    sd = f" ± {row['sd']:.3f}" if row["sd"] is not None else ""
    return f"{row['mean']:+.3f}{sd} [{row['range'][0]:+.3f}, {row['range'][1]:+.3f}]"
