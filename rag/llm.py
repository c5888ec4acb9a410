"""The one owner of a GGUF model: everyone who needs text generated asks a ``LocalModel``.

Contract (``tests/answering/test_llm.py`` is its conformance test):

- The file is opened at first use. A missing or broken file is a ``GenerationError``, and the next call tries again.
- One generation at a time. Callers get their turn in the order they asked and are told how many are ahead of them.
- An answer depends on the messages and the settings only: the context is emptied and the sampler reseeded before each
  generation, so no earlier question changes a later answer. The price is that no prompt prefix is reused, unless the
  caller asks for it (``keep_prefix``).
- Only whole characters come out, and never U+FFFD.
- Cancel and time-out take effect at the next token, and inside a long prompt at the next ``PROMPT_STEP`` tokens.
"""

from __future__ import annotations

import codecs
import ctypes
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rag.errors import GenerationError

Message = Mapping[str, str]
Finish = Literal["stop", "length"]
Logits = npt.NDArray[np.float32]

# Prompt tokens per decode call. Measured with a 0.5B model on 2 cores, 32 costs about a tenth over 256, and a cancel
# waits for 32 tokens only.
PROMPT_STEP = 32
# Seconds between two looks at ``cancel`` while waiting for a turn.
POLL_S = 0.05

# Control tokens open with < or [ and a Latin letter, slash, underscore or (full-width) bar: <|im_start|>, <s>, </s>,
# <start_of_turn>, [INST], [|user|], <｜User｜>. "근거" delimits evidence in our prompts. "EC <1.5" and "[1]" stay.
_OPENING = re.compile(r"[<\[](?=[A-Za-z/_|｜]|근거)")


def neutralise(text: str) -> str:
    """``text`` with a space after each bracket that could open a control token: ``<|im_end|>`` → ``< |im_end|>``."""
    return _OPENING.sub(r"\g<0> ", text)


class Turns:
    """A fair queue: turns are granted in the order of asking."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tickets: deque[object] = deque()

    @property
    def waiting(self) -> int:
        """How many callers wait, not counting the one whose turn it is."""
        return max(0, len(self._tickets) - 1)

    @contextmanager
    def turn(
        self, cancel: threading.Event | None = None, on_queue: Callable[[int], None] | None = None
    ) -> Iterator[bool]:
        """Wait for a turn and hold it for the ``with`` block; False means cancelled while waiting.

        ``on_queue`` hears the number of callers ahead, whenever it changes, in the waiting thread; 0 is "your turn".
        """
        ticket = object()
        with self._changed:
            self._tickets.append(ticket)
        try:
            told: int | None = None
            cancelled = False
            while told != 0 and not cancelled:
                with self._changed:
                    if self._tickets.index(ticket) == told:
                        self._changed.wait(POLL_S)
                    ahead = self._tickets.index(ticket)
                if ahead != told and on_queue is not None:
                    on_queue(ahead)
                told = ahead
                cancelled = cancel is not None and cancel.is_set()
            yield not cancelled
        finally:
            with self._changed:
                self._tickets.remove(ticket)
                self._changed.notify_all()


def whole_text(pieces: Iterable[bytes], stop: Sequence[str] = ()) -> Iterator[str]:
    """Text of token bytes, in whole characters, up to the first ``stop`` string (not included).

    One token may end inside a character, so incomplete UTF-8 is held back; bytes that never become a character, and a
    U+FFFD that the model spells itself, are left out. Text that may be the beginning of a stop string is held as well.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    held = ""
    for piece in pieces:
        held += decoder.decode(piece).replace("\ufffd", "")
        ends = [end for text in stop if (end := held.find(text)) >= 0]
        if ends:
            held = held[: min(ends)]
            break
        safe = len(held) - max(
            (size for text in stop for size in range(1, len(text)) if held.endswith(text[:size])), default=0
        )
        if safe:
            yield held[:safe]
            held = held[safe:]
    if held:
        yield held


def render_chat(template: Callable[..., Any], messages: Sequence[Message]) -> str:
    """The prompt for ``messages`` in the model's own chat template.

    Templates without a system turn (Gemma 2, early Mistral) raise ``ValueError`` for one; its text then opens the first
    user turn. ``enable_thinking=False`` keeps Qwen3 from thinking aloud first; other templates do not look at it.
    """
    try:
        return str(template(messages=list(messages), enable_thinking=False).prompt)
    except ValueError:
        system, user, *rest = messages
        merged = {"role": "user", "content": system["content"] + "\n\n" + user["content"]}
        return str(template(messages=[merged, *rest], enable_thinking=False).prompt)


class _Gguf:
    """An opened GGUF file: the only code that touches llama_cpp. One thread at a time, ``tokenize`` excepted."""

    def __init__(self, path: Path, *, n_ctx: int, n_threads: int, n_gpu_layers: int) -> None:
        try:
            import llama_cpp
            from llama_cpp.llama_chat_format import Jinja2ChatFormatter
        except (ImportError, OSError, RuntimeError) as error:
            raise GenerationError(
                f"llama-cpp-python을 불러올 수 없어 모델 '{path}'을(를) 쓸 수 없습니다. "
                "requirements.txt를 다시 설치해 주세요."
            ) from error
        self._api: Any = llama_cpp
        try:
            self.llama: Any = llama_cpp.Llama(
                str(path),
                n_ctx=n_ctx,
                n_batch=PROMPT_STEP,
                n_threads=n_threads,
                n_threads_batch=n_threads,
                n_gpu_layers=n_gpu_layers,
                verbose=False,
            )
        except (ValueError, RuntimeError, OSError, MemoryError) as error:
            raise GenerationError(
                f"모델 파일 '{path}'({path.stat().st_size / 1e6:.0f} MB)을 문맥 길이 {n_ctx}(으)로 열 수 없습니다. "
                "파일을 끝까지 받았는지 확인해 다시 받거나, 메모리가 모자라면 n_ctx 설정을 줄여 주세요."
            ) from error
        trained = int(self._api.llama_model_n_ctx_train(self.llama.model))
        if n_ctx > trained:
            raise GenerationError(
                f"문맥 길이 {n_ctx}이(가) 모델 '{path}'의 한도 {trained}보다 깁니다. "
                f"n_ctx 설정을 {trained} 이하로 줄여 주세요."
            )
        template = self.llama.metadata.get("tokenizer.chat_template")
        if template is None:
            raise GenerationError(
                f"모델 '{path}'에 대화 서식(chat template)이 없습니다. 이름에 instruct가 든 GGUF 모델을 지정해 주세요."
            )
        self._vocab: Any = self._api.llama_model_get_vocab(self.llama.model)
        try:
            self.template: Callable[..., Any] = Jinja2ChatFormatter(
                template=template,
                bos_token=self._token_text(self.llama.token_bos()),
                eos_token=self._token_text(self.llama.token_eos()),
            )
        except Exception as error:  # whatever Jinja makes of a foreign template
            raise GenerationError(
                f"모델 '{path}'의 대화 서식(chat template)을 읽을 수 없습니다. 다른 GGUF 모델을 지정해 주세요."
            ) from error

    def _token_text(self, token: int) -> str:
        return "" if token < 0 else bytes(self._api.llama_vocab_get_text(self._vocab, token)).decode("utf-8")

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of ``text``; only with ``special`` do control tokens spelled out in it become control tokens."""
        return list(self.llama.tokenize(text.encode("utf-8", "replace"), add_bos=False, special=special))

    def piece(self, token: int) -> bytes:
        """Bytes of one token. (``Llama.detokenize`` loses tokens longer than 32 bytes, such as table rules.)"""
        size = 32
        while True:
            buffer = ctypes.create_string_buffer(size)
            written = self._api.llama_token_to_piece(self._vocab, token, buffer, size, 0, False)
            if written >= 0:
                return buffer.raw[:written]
            size = -written

    def grammar(self, gbnf: str | None) -> Any:
        """What ``generate`` takes as grammar."""
        return None if gbnf is None else self._api.LlamaGrammar.from_string(gbnf, verbose=False)

    @property
    def rewinds(self) -> bool:
        """Whether the end of the context can be taken back; a recurrent state cannot."""
        model = self.llama.model
        return not (self._api.llama_model_is_recurrent(model) or self._api.llama_model_is_hybrid(model))

    def is_end(self, token: int) -> bool:
        """True for every token that ends a turn (a GGUF may name more than its end-of-sequence token)."""
        return bool(self._api.llama_vocab_is_eog(self._vocab, token))


class LocalModel:
    """A GGUF model on this machine. See the module docstring for what callers may rely on.

    ``n_ctx`` is the context in tokens, prompt and answer together. ``n_gpu_layers`` -1 moves all layers to the GPU.
    ``seed`` matters at a temperature above 0 only.
    """

    def __init__(self, path: Path, *, n_ctx: int, n_threads: int, n_gpu_layers: int, seed: int) -> None:
        self.path = path
        self.n_ctx = n_ctx
        self._n_threads = n_threads
        self._n_gpu_layers = n_gpu_layers
        self._seed = seed
        self._turns = Turns()
        self._opening = threading.Lock()
        self._opened: _Gguf | None = None
        self._read: list[int] = []  # prompt tokens that stand in the context, decoded in steps of PROMPT_STEP

    @property
    def name(self) -> str:
        """The file name without its ending."""
        return self.path.stem

    @property
    def waiting(self) -> int:
        """How many generations wait for the running one."""
        return self._turns.waiting

    def count_tokens(self, text: str) -> int:
        """Number of tokens of plain text. Does not wait for a turn.

        Raises:
            GenerationError: the model cannot be opened.
        """
        return len(self._gguf().tokenize(text, special=False))

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Number of tokens of the whole prompt, chat template included. Does not wait for a turn.

        Raises:
            GenerationError: the model cannot be opened or its chat template refuses the messages.
        """
        return len(self._prompt(messages))

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        stop: Sequence[str] = (),
        grammar: str | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float,
        on_queue: Callable[[int], None] | None = None,
        on_finish: Callable[[Finish], None] | None = None,
        on_logits: Callable[[Logits], None] | None = None,
        seed: int | None = None,
        keep_prefix: bool = False,
    ) -> Generator[str, None, None]:
        """Generate the next turn, piece by piece, in whole characters.

        Nothing happens before the first piece is asked for. From then on the caller holds a place in the queue until
        the iterator is exhausted or closed: wrap it in ``contextlib.closing`` if it may be left early. A cancelled
        stream just ends. ``timeout_s`` counts from the start of the turn, so a full queue never shortens an answer.
        ``grammar`` (GBNF) limits what may be said. ``on_finish`` hears "stop" when the model ended its turn, "length"
        when ``max_tokens`` cut it off, and nothing when a stop string, a cancel or an error ended the stream.
        ``on_logits`` sees the logits over the whole vocabulary before each token is picked, shape (vocabulary,); they
        are only valid during the call. ``seed`` replaces the model's. ``keep_prefix`` takes over the whole steps of
        ``PROMPT_STEP`` tokens that this prompt and the one before begin with: the same batches, hence the same answer.

        Raises:
            GenerationError: the model cannot be opened, prompt and ``max_tokens`` do not fit the context, time is up,
                or the engine failed.
        """
        prompt = self._prompt(messages)
        if len(prompt) + max_tokens > self.n_ctx:
            raise GenerationError(
                f"질문과 근거 {len(prompt)}토큰에 답변 {max_tokens}토큰을 더하면 문맥 길이 {self.n_ctx}보다 깁니다. "
                "질문이나 답변 길이를 줄이거나 n_ctx 설정을 늘려 주세요."
            )
        with self._turns.turn(cancel, on_queue) as granted:
            if not granted:
                return
            tokens = self._tokens(
                prompt,
                max_tokens=max_tokens,
                temperature=temperature,
                grammar=grammar,
                stopped=_stop_check(cancel, timeout_s),
                on_finish=on_finish or (lambda reason: None),
                on_logits=on_logits,
                seed=self._seed if seed is None else seed,
                keep_prefix=keep_prefix,
            )
            with closing(tokens):
                yield from whole_text(map(self._gguf().piece, tokens), stop)

    def _tokens(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        grammar: str | None,
        stopped: Callable[[], bool],
        on_finish: Callable[[Finish], None],
        on_logits: Callable[[Logits], None] | None,
        seed: int,
        keep_prefix: bool,
    ) -> Generator[int, None, None]:
        """The sampling loop. ``generate`` samples only when asked for more."""
        gguf = self._gguf()
        kept = _shared_steps(self._read, prompt) if keep_prefix and gguf.rewinds else 0
        *steps, last = (prompt[at : at + PROMPT_STEP] for at in range(kept, len(prompt), PROMPT_STEP))
        self._read = list(prompt[:kept])
        try:
            gguf.llama.set_seed(seed)
            gguf.llama.reset()
            gguf.llama.n_tokens = kept
            for step in steps:
                if stopped():
                    return
                gguf.llama.eval(step)
                self._read += step
            if stopped():
                return
            sampled = gguf.llama.generate(
                last,
                temp=temperature,
                reset=False,
                grammar=gguf.grammar(grammar),
                logits_processor=None if on_logits is None else [lambda ids, logits: (on_logits(logits), logits)[1]],
            )
            for number, token in enumerate(sampled, start=1):
                if gguf.is_end(token):
                    on_finish("stop")
                    return
                yield token
                if stopped():
                    return
                if number == max_tokens:
                    on_finish("length")
                    return
        except RuntimeError as error:
            raise GenerationError(
                f"모델 '{self.path}'이(가) 답변을 만들다 멈췄습니다. n_ctx 설정(지금 {self.n_ctx})을 줄이거나 "
                "프로그램을 다시 시작해 주세요."
            ) from error

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        gguf = self._gguf()
        try:
            text = render_chat(gguf.template, messages)
        except Exception as error:  # whatever Jinja makes of a foreign template
            raise GenerationError(
                f"모델 '{self.path}'의 대화 서식(chat template)에 질문을 넣을 수 없습니다. "
                "다른 GGUF 모델을 지정해 주세요."
            ) from error
        return gguf.tokenize(text, special=True)

    def _gguf(self) -> _Gguf:
        with self._opening:
            if self._opened is None:
                _check_file(self.path)
                self._opened = _Gguf(
                    self.path, n_ctx=self.n_ctx, n_threads=self._n_threads, n_gpu_layers=self._n_gpu_layers
                )
            return self._opened


def _shared_steps(before: Sequence[int], prompt: Sequence[int]) -> int:
    """Tokens in the whole steps that both begin with; the last token of ``prompt`` is never among them."""
    pairs = zip(before, prompt[:-1], strict=False)
    shared = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(before), len(prompt) - 1))
    return shared - shared % PROMPT_STEP


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise GenerationError(
            f"모델 파일 '{path}'을(를) 읽을 수 없습니다. model 설정의 경로를 고치거나 GGUF 파일을 그 자리에 두세요."
        ) from error
    if magic != b"GGUF":
        raise GenerationError(
            f"파일 '{path}'은(는) GGUF 모델이 아닙니다. GGUF 파일을 다시 받아 model 설정에 경로를 적어 주세요."
        )


def _stop_check(cancel: threading.Event | None, timeout_s: float) -> Callable[[], bool]:
    """A check for "cancelled" whose clock starts now; it raises ``GenerationError`` when time is up."""
    deadline = time.monotonic() + timeout_s

    def stopped() -> bool:
        if cancel is not None and cancel.is_set():
            return True
        if time.monotonic() > deadline:
            raise GenerationError(
                f"답변 생성이 {timeout_s:g}초 안에 끝나지 않았습니다. "
                "generation_timeout_s 설정을 늘리거나 더 작은 모델을 써 주세요."
            )
        return False

    return stopped


def filled_in(
    model: LocalModel,
    messages: Sequence[Message],
    *,
    grammar: str,
    max_tokens: int,
    timeout_s: float,
    cancel: threading.Event | None = None,
    on_queue: Callable[[int], None] | None = None,
) -> tuple[str, Finish | None]:
    """The whole of a turn within ``grammar`` at temperature 0, and how it ended (None: cancelled or stopped).

    Raises:
        GenerationError: see ``LocalModel.stream``.
    """
    ends: list[Finish] = []
    stream = model.stream(
        messages,
        max_tokens=max_tokens,
        temperature=0.0,
        grammar=grammar,
        cancel=cancel,
        timeout_s=timeout_s,
        on_queue=on_queue,
        on_finish=ends.append,
    )
    with closing(stream):
        output = "".join(stream)
    return output, ends[0] if ends else None
