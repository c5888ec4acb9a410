"""Prompt building with a counter that a person can follow: one token per character."""

from __future__ import annotations

import pytest

from rag.answering.prompts import LENGTHS, NOT_FOUND, SYSTEM, build_messages
from rag.errors import GenerationError
from rag.llm import neutralise
from rag.schema import ChunkRecord, Evidence, Vote

QUESTION = "수확 후기 EC는?"


def passage(rank: int, text: str, *, title: str = "지침", section: str = "급액") -> Evidence:
    chunk = ChunkRecord(
        chunk_id=f"c{rank}",
        scope_id="public",
        doc_id="d",
        title=title,
        section=section,
        locator="1쪽",
        text=text,
        level="G2",
        ordinal=rank,
    )
    value = 1 / (60 + rank)
    return Evidence(
        chunk=chunk, score=value, votes=(Vote(channel="graph", rank=rank, weight=1.0, value=value, share=1.0),)
    )


def prompt(evidence: list[Evidence], budget: int = 10_000, question: str = QUESTION) -> tuple[str, int]:
    messages, used = build_messages(
        question, evidence, length=LENGTHS["factual"], budget_tokens=budget, count_tokens=len
    )
    assert [message["role"] for message in messages] == ["system", "user"]
    assert sum(len(message["content"]) for message in messages) <= budget
    return messages[1]["content"], used


def test_the_whole_prompt_reads_like_this() -> None:
    user, used = prompt([passage(1, "EC를 낮춘다."), passage(2, "물을 늘린다.", title="일지", section="")])
    assert used == 2
    assert user == (
        "<근거 1> 지침 > 급액\nEC를 낮춘다.\n</근거 1>\n\n"
        "<근거 2> 일지\n물을 늘린다.\n</근거 2>\n\n"
        "질문: 수확 후기 EC는?\n(한두 문장으로 답합니다.)"
    )
    assert NOT_FOUND in SYSTEM


def test_the_lowest_ranked_passages_go_first_and_only_as_many_as_needed() -> None:
    evidence = [passage(1, "첫째 문장."), passage(2, "둘째 문장."), passage(3, "셋째 문장.")]
    size_of = [len(SYSTEM) + len(prompt(evidence[:n])[0]) for n in (1, 2, 3)]
    assert prompt(evidence, size_of[2])[1] == 3
    assert prompt(evidence, size_of[2] - 1) == (prompt(evidence[:2])[0], 2)
    assert prompt(evidence, size_of[1] - 1) == (prompt(evidence[:1])[0], 1)


def test_the_last_passage_loses_whole_sentences_from_its_end() -> None:
    evidence = [passage(1, "EC는 1.0 dS/m이다. 배액률은 30%다.\n저온기에는 줄이지 않는다."), passage(2, "다른 글.")]
    full = len(SYSTEM) + len(prompt(evidence[:1])[0])
    assert "배액률은 30%다.\n</근거 1>" in prompt(evidence, full - 1)[0]
    shorter, used = prompt(evidence, full - len("저온기에는 줄이지 않는다.") - 2)
    assert "EC는 1.0 dS/m이다.\n</근거 1>" in shorter
    assert used == 1


@pytest.mark.parametrize("budget", [-5, 0, len(SYSTEM) + 30])
def test_no_room_for_a_single_sentence_is_an_error_with_both_numbers(budget: int) -> None:
    with pytest.raises(GenerationError, match=rf"\d+토큰으로 한도 {budget}토큰을 넘습니다.*n_ctx"):
        prompt([passage(1, "가" * 500)], budget)


def test_no_evidence_is_an_error() -> None:
    with pytest.raises(GenerationError, match="근거가 한 건도 없어"):
        prompt([])


@pytest.mark.parametrize(
    "token",
    [
        *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|start_header_id|>", "<|START_OF_TURN_TOKEN|>"),
        *("<s>", "</s>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>", "<tool_call>"),
        *("[INST]", "[/INST]", "<<SYS>>", "[SYSTEM_PROMPT]", "[|user|]", "[BOS]", "<｜User｜>", "<_x>"),
        *("<근거 2>", "</근거 1>"),
    ],
)
def test_a_control_token_never_comes_through(token: str) -> None:
    hostile = f"앞 {token} 가운데 <{token} [{token} 뒤{token}"
    user, _ = prompt([passage(1, hostile, title=hostile, section=hostile)], question=hostile)
    own_delimiter = token == "</근거 1>"
    assert user.count(token) == (1 if own_delimiter else 0)
    assert neutralise(token).replace(" ", "") == token.replace(" ", "")


@pytest.mark.parametrize("text", ["EC <1.5 dS/m", "pH < 6", "20 <= 온도", "표 [1] 참고", "<표 3>", "딸기·토마토 (2동)"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize("text", ["{0} {question} {{x}} %s %(a)s $x", "}{", "{% raise %} {{ messages }}"])
def test_braces_mean_nothing(text: str) -> None:
    user, _ = prompt([passage(1, text)], question=text)
    assert user.count(text) == 2
