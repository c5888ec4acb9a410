"""The llama.cpp answerer: a draft from evidence. Sentences and citations are the business of ``rag/citations.py``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

from rag.answering.prompts import build_messages
from rag.errors import GenerationError
from rag.llm import LocalModel
from rag.schema import FusedEvidence

# What a chat template adds is measured with these near-empty turns.
_TURNS = ({"role": "system", "content": "."}, {"role": "user", "content": "."})


class LlmAnswerer:
    """Writes answers of at most ``max_tokens`` with a local model, within ``timeout_s`` of generation."""

    def __init__(self, model: LocalModel, *, max_tokens: int, timeout_s: float, temperature: float = 0.0) -> None:
        self._model = model
        self.name = model.name
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._timeout_s = timeout_s

    def answer_text(
        self,
        question: str,
        evidence: FusedEvidence,
        *,
        on_token: Callable[[str], None] | None = None,
        cancel: threading.Event | None = None,
        on_queue: Callable[[int], None] | None = None,
    ) -> str:
        """The draft answer; as it grows, ``on_token`` hears every piece. Cancelled, it is what there was so far.

        Raises:
            GenerationError: nothing could be generated (no model, no room, no time, an empty answer).
        """
        room = self._model.n_ctx - self._max_tokens - self._model.count_prompt_tokens(_TURNS)
        messages, _ = build_messages(
            question, evidence.items, budget_tokens=room, count_tokens=self._model.count_tokens
        )
        stream = self._model.stream(
            messages,
            max_tokens=self._max_tokens,
            temperature=self._temperature,
            cancel=cancel,
            timeout_s=self._timeout_s,
            on_queue=on_queue,
        )
        draft = ""
        with closing(stream):
            for piece in stream:
                draft += piece
                if on_token is not None:
                    on_token(piece)
        draft = draft.strip()
        if not draft and not (cancel is not None and cancel.is_set()):
            raise GenerationError(
                f"모델 '{self._model.name}'이(가) 빈 답변을 냈습니다. 질문을 바꾸거나 다른 모델을 지정해 주세요."
            )
        return draft
