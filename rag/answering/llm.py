"""The llama.cpp answerer: a draft from evidence. Sentences and citations are the business of ``rag/citations.py``."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import fmean

from rag.answering.prompts import DETAILED, LENGTHS, build_messages
from rag.errors import GenerationError
from rag.llm import LocalModel, Logits
from rag.schema import Effort, FusedEvidence, Intent
from rag.uncertainty import token_entropy

# What a chat template adds is measured with these near-empty turns.
_TURNS = ({"role": "system", "content": "."}, {"role": "user", "content": "."})
_LETTER = re.compile(r"[^\W\d_]")
_HANGUL = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]")
# Units and product names are Latin; below this share of Hangul among the letters a draft is in another language.
LEAST_HANGUL = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a model. ``parts`` are sub-questions with their own evidence, for the long form, which has a
    passage of text on each."""

    question: str
    intent: Intent
    effort: Effort
    evidence: FusedEvidence
    detailed: bool = False
    parts: tuple[tuple[str, FusedEvidence], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a model wrote. ``entropy`` is the mean normalised entropy of its tokens, in [0, 1]."""

    text: str
    entropy: float
    model: str


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Who hears of a generation: every piece, the number of callers ahead; and who may stop it. All optional."""

    on_token: Callable[[str], None] = lambda piece: None
    on_queue: Callable[[int], None] = lambda ahead: None
    cancel: threading.Event | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the caller has lost interest."""
        return self.cancel is not None and self.cancel.is_set()


class LlmAnswerer:
    """Writes answers of at most ``max_tokens`` with a local model, within ``timeout_s`` of generation.

    ``large`` takes over where the question needs high effort or the long form is asked for; the long form has
    ``long_tokens`` for all its parts together.
    """

    def __init__(
        self,
        model: LocalModel,
        *,
        max_tokens: int,
        long_tokens: int,
        timeout_s: float,
        temperature: float = 0.0,
        large: LocalModel | None = None,
    ) -> None:
        self._model = model
        self._large = large
        self.name = model.name
        self._max_tokens = max_tokens
        self._long_tokens = long_tokens
        self._temperature = temperature
        self._timeout_s = timeout_s

    def answer(self, request: Request, hooks: Hooks | None = None) -> Draft:
        """The draft answer, told to ``hooks`` as it grows. Cancelled, it is what there was so far.

        Raises:
            GenerationError: nothing could be generated (no model, no room, no time, an empty answer, one that is not
                Korean).
        """
        hooks = hooks or Hooks()
        model = self._large if self._large and (request.detailed or request.effort == "high") else self._model
        entropies: list[float] = []
        pieces: list[str] = []
        asked = self._asked(request)
        for number, (question, evidence, length, tokens) in enumerate(asked):
            if number and not hooks.cancelled:
                pieces.append("\n\n")
                hooks.on_token("\n\n")
            pieces.append(self._written(model, question, evidence, length, tokens, entropies, hooks))
        text = "".join(pieces).strip()
        if not text and not hooks.cancelled:
            raise GenerationError(
                f"모델 '{model.name}'이(가) 빈 답변을 냈습니다. 질문을 바꾸거나 다른 모델을 지정해 주세요."
            )
        if not hooks.cancelled and not is_korean(text):
            raise GenerationError(
                f"모델 '{model.name}'이(가) 한국어가 아닌 답변을 냈습니다. 한국어를 배운 모델을 지정해 주세요."
            )
        return Draft(text=text, entropy=fmean(entropies) if entropies else 0.0, model=model.name)

    def _asked(self, request: Request) -> list[tuple[str, FusedEvidence, str, int]]:
        """(question, evidence, length, tokens) of each generation."""
        if not request.detailed:
            return [(request.question, request.evidence, LENGTHS[request.intent], self._max_tokens)]
        parts = request.parts or ((request.question, request.evidence),)
        return [(text, evidence, DETAILED, self._long_tokens // len(parts)) for text, evidence in parts]

    def _written(
        self,
        model: LocalModel,
        question: str,
        evidence: FusedEvidence,
        length: str,
        max_tokens: int,
        entropies: list[float],
        hooks: Hooks,
    ) -> str:
        max_tokens = min(max_tokens, model.n_ctx // 2)
        room = model.n_ctx - max_tokens - model.count_prompt_tokens(_TURNS)
        messages, _ = build_messages(
            question, evidence.items, length=length, budget_tokens=room, count_tokens=model.count_tokens
        )

        def look(logits: Logits) -> None:
            entropies.append(token_entropy(logits))

        stream = model.stream(
            messages,
            max_tokens=max_tokens,
            temperature=self._temperature,
            cancel=hooks.cancel,
            timeout_s=self._timeout_s,
            on_queue=hooks.on_queue,
            on_logits=look,
        )
        draft = ""
        with closing(stream):
            for piece in stream:
                draft += piece
                hooks.on_token(piece)
        return draft.strip()


def is_korean(text: str) -> bool:
    """Whether at least half of the letters are Hangul; a text without letters (a figure) is no other language."""
    letters = len(_LETTER.findall(text))
    return letters == 0 or len(_HANGUL.findall(text)) >= LEAST_HANGUL * letters


def long_parts(
    question: str, parts: Sequence[tuple[str, FusedEvidence]], evidence: FusedEvidence, limit: int
) -> tuple[tuple[str, FusedEvidence], ...]:
    """What the long form writes on, at most ``limit`` parts: the sub-questions, else the documents of the evidence."""
    if parts:
        return tuple(parts[:limit])
    titles = list(dict.fromkeys(item.chunk.title for item in evidence))[:limit]
    return tuple(
        (
            f"{question} ({title}에 적힌 것)",
            FusedEvidence(items=tuple(item for item in evidence if item.chunk.title == title)),
        )
        for title in titles
    )
