"""The three levels side by side: what snapshots and views hold of each, and how one is found from another."""

from __future__ import annotations

import sqlite3
import threading
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ingest.writer import Writer, passage_text, refresh
from rag.embedding import EmbeddingCache
from rag.errors import IndexMismatch
from rag.schema import LEVELS, PUBLIC, DocFilter, Level, Scope
from rag.stores.graph_index import GraphIndex
from rag.stores.record import SCHEMA_VERSION, ScopeRecord
from rag.stores.segments import Snapshot
from rag.stores.snapshot import open_snapshot
from rag.stores.view import View, Views
from rag.text import korean
from tests.contract.conftest import take_in
from tests.fakes import CountingEmbedder, FakeEmbedder

FARM = "farm:haetsal"
HAETSAL = Scope(farm_id="haetsal")


def manual(crop: str, n_sections: int = 3, n_sentences: int = 14) -> str:
    """Sections of several G2; the fake encoder counts a token for two characters."""
    parts = [f"# {crop} 재배 기술\n"]
    for section in range(n_sections):
        sentences = [
            f"{crop} {section * n_sentences + i}번 온실의 급액 EC 는 {i}.{section}dS/m 로 두고 환기를 자주 한다."
            for i in range(n_sentences)
        ]
        parts.append(f"## {section}장 양액\n\n" + "\n\n".join(" ".join(sentences[i : i + 4]) for i in (0, 4, 8, 12)))
    return "\n\n".join(parts) + "\n"


DOCUMENTS = {
    PUBLIC: {"재배기술/딸기.md": manual("딸기"), "재배기술/토마토.md": manual("토마토", 2)},
    FARM: {
        "작업일지/2026-11-03_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n1동 딸기 흰가루병 약을 쳤다.\n",
        "작업일지/2026-11-20_작업일지_박반장.txt": manual("파프리카", 2).replace("#", ""),
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for scope_id, files in DOCUMENTS.items():
        take_in(folder, scope_id, files, tmp_path_factory.mktemp("sources"))
    return folder


@pytest.fixture(scope="module")
def view(store: Path) -> View:
    return Views(store, {}).get(HAETSAL)


def snapshot_of(store: Path, scope_id: str) -> Snapshot:
    snapshot = open_snapshot(ScopeRecord(store, scope_id))
    assert snapshot is not None
    return snapshot


def test_there_are_three_levels_of_different_size(store: Path) -> None:
    counts = ScopeRecord(store, PUBLIC).counts()
    assert counts["chunks_G1"] > counts["chunks_G2"] > counts["chunks_G3"] > 2


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scope_id", [PUBLIC, FARM])
class TestSnapshot:
    def test_it_holds_every_chunk_of_the_record(self, store: Path, scope_id: str, level: Level) -> None:
        record, part = ScopeRecord(store, scope_id), snapshot_of(store, scope_id).levels[level]
        assert len(part.chunk_ids) == record.counts()[f"chunks_{level}"] == len(part.vectors) == len(part.tokens)
        assert {chunk.level for chunk in record.chunks(part.chunk_ids).values()} == {level}

    def test_a_vector_is_that_of_the_chunk_s_text(self, store: Path, scope_id: str, level: Level) -> None:
        part = snapshot_of(store, scope_id).levels[level]
        chunks = ScopeRecord(store, scope_id).chunks(part.chunk_ids)
        texts = [passage_text(chunks[i].title, chunks[i].section, chunks[i].text) for i in part.chunk_ids]
        assert np.allclose(part.vectors, FakeEmbedder().encode_passages(texts), atol=1e-3)

    def test_tokens_are_those_of_headings_and_text(self, store: Path, scope_id: str, level: Level) -> None:
        snapshot = snapshot_of(store, scope_id)
        for row, tokens in enumerate(snapshot.levels[level].tokens):
            said = [token for sentence in snapshot.sentences(level, row) for token in sentence.tokens]
            assert list(tokens[len(tokens) - len(said) :]) == said != []


@pytest.mark.parametrize("level", LEVELS)
class TestView:
    def test_sentences_stand_where_they_say_with_their_own_vector(self, view: View, level: Level) -> None:
        part = view.levels[level]
        chunks = view.chunks(list(zip(part.scope_of, part.chunk_ids)))
        for chunk_id in part.chunk_ids:
            records, vectors = view.sentences(chunk_id)
            texts = [chunks[chunk_id].text[record.start : record.end] for record in records]
            assert texts
            assert all(text == text.strip() != "" for text in texts)
            assert np.allclose(vectors, FakeEmbedder().encode_passages(texts), atol=1e-3)
            assert [list(r.tokens) for r in records] == [list(korean().analyse(text).tokens) for text in texts]

    def test_every_level_says_every_sentence_once(self, view: View, level: Level) -> None:
        rows = [
            (scope_id, record.row)
            for scope_id, chunk_id in zip(view.levels[level].scope_of, view.levels[level].chunk_ids)
            for record in view.sentences(chunk_id)[0]
        ]
        paragraphs = view.levels["G2"]
        assert rows == [
            (scope_id, record.row)
            for scope_id, chunk_id in zip(paragraphs.scope_of, paragraphs.chunk_ids)
            for record in view.sentences(chunk_id)[0]
        ]

    def test_a_chunk_has_its_document_tokens_and_entities(self, view: View, level: Level) -> None:
        part = view.levels[level]
        for row, chunk_id in enumerate(part.chunk_ids):
            crop = next(crop for crop in ("딸기", "토마토", "파프리카") if crop in view.chunk_tokens(chunk_id))
            assert crop in view.entities_of(chunk_id)
            assert view.document_of(chunk_id) is view.documents[part.document_of[row]]

    def test_a_mask_lets_the_filtered_documents_through(self, view: View, level: Level) -> None:
        part = view.levels[level]
        november = DocFilter(periods=((date(2026, 11, 1), date(2026, 11, 10)),))
        for wanted, passing in (
            (november, lambda d: d.doc_id.endswith("2026-11-03_작업일지_김주임.txt")),
            (DocFilter(scopes=(PUBLIC,)), lambda d: d.scope_id == PUBLIC),
            (DocFilter(formats=("txt",)), lambda d: d.format == "txt"),
        ):
            mask = view.mask(level, wanted)
            assert mask is not None
            assert mask.tolist() == [passing(view.document_of(chunk_id)) for chunk_id in part.chunk_ids]
            assert 0 < mask.sum() < len(mask)

    def test_public_sees_nothing_of_the_farm(self, store: Path, view: View, level: Level) -> None:
        public = Views(store, {}).get(Scope())
        own = {c for c, s in zip(view.levels[level].chunk_ids, view.levels[level].scope_of) if s == FARM}
        assert own
        assert set(public.levels[level].scope_of) == {PUBLIC}
        assert not own & set(public.levels[level].chunk_ids)
        assert public.levels[level].bm25.scores(["파프리카"]).tolist() == [0.0] * len(public.levels[level].chunk_ids)
        assert view.levels[level].bm25.scores(["파프리카"]).max() > 0
        assert "파프리카" not in public.levels[level].graph.number
        assert all(public.place(chunk_id) is None and not public.sentences(chunk_id)[0] for chunk_id in own)

    def test_graph_and_keyword_index_are_made_once(
        self, store: Path, level: Level, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[int] = []

        class Counted(GraphIndex):
            def __init__(self, *args: object) -> None:
                made.append(1)
                super().__init__(*args)  # type: ignore[arg-type]

        monkeypatch.setattr("rag.stores.view.GraphIndex", Counted)
        fresh = Views(store, {}, warm=()).get(HAETSAL).levels[level]
        assert made == []
        found: list[object] = []
        threads = [threading.Thread(target=lambda: found.append((fresh.graph, fresh.bm25))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [1]
        assert found == [(fresh.graph, fresh.bm25)] * 6


class TestAtLevel:
    """The levels are nested: what stands where a chunk stands is told by its text."""

    @pytest.mark.parametrize(("fine", "coarse"), [("G1", "G2"), ("G1", "G3"), ("G2", "G3")])
    def test_up_and_down(self, view: View, fine: Level, coarse: Level) -> None:
        small, large = view.levels[fine], view.levels[coarse]
        texts = {
            i: chunk.text
            for part in (small, large)
            for i, chunk in view.chunks(list(zip(part.scope_of, part.chunk_ids))).items()
        }
        for scope_id, chunk_id in zip(small.scope_of, small.chunk_ids):
            ((scope, holder),) = view.at_level(chunk_id, coarse)
            assert scope == scope_id
            assert texts[chunk_id] in texts[holder]
            assert view.document_of(holder) == view.document_of(chunk_id)
            assert (scope_id, chunk_id) in view.at_level(holder, fine)
        held = [pair for chunk_id in large.chunk_ids for pair in view.at_level(chunk_id, fine)]
        assert held == list(zip(small.scope_of, small.chunk_ids))  # each once, in reading order

    @pytest.mark.parametrize("level", LEVELS)
    def test_the_same_level_is_the_chunk_itself(self, view: View, level: Level) -> None:
        part = view.levels[level]
        assert [view.at_level(i, level) for i in part.chunk_ids] == [
            ((s, i),) for s, i in zip(part.scope_of, part.chunk_ids)
        ]

    def test_an_unknown_chunk_stands_nowhere(self, view: View) -> None:
        assert view.at_level("없는 것", "G1") == ()


def ingest(folder: Path, scope_id: str, logical: str, text: str, embedder: FakeEmbedder) -> None:
    path = folder / "source.md"
    path.write_text(text, encoding="utf-8")
    record = ScopeRecord(folder, scope_id)
    cache = EmbeddingCache(embedder.model_name, [])
    with record.writer():
        writer = Writer(record, embedder, korean(), cache, limit_bytes=2**20)  # type: ignore[arg-type]
        writer.prepare()
        (status,) = writer.take([(path, logical)])
        assert status.status in ("indexed", "updated"), status.reason
        refresh(record, None, embedder.dim)


def test_a_text_of_several_levels_is_embedded_once(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    ingest(tmp_path, PUBLIC, "a.md", "# 환기\n\n낮에는 천창을 연다. 밤에는 닫는다.\n", embedder)
    assert ScopeRecord(tmp_path, PUBLIC).counts().items() >= {"chunks_G1": 1, "chunks_G2": 1, "chunks_G3": 1}.items()
    assert len(embedder.asked) == len(set(embedder.asked)) == 1 + 2  # the passage and its two sentences


@pytest.mark.parametrize("level", LEVELS)
def test_documents_are_added_and_replaced_at_every_level(store: Path, tmp_path: Path, level: Level) -> None:
    ingest(tmp_path, PUBLIC, "a.md", manual("딸기"), FakeEmbedder())
    views = Views(tmp_path, {})
    before = views.get(Scope()).levels[level]
    ingest(tmp_path, PUBLIC, "b.md", manual("멜론", 1), FakeEmbedder())
    both = views.get(Scope()).levels[level]
    assert set(before.chunk_ids) < set(both.chunk_ids)
    assert both.bm25.scores(["멜론"]).max() > 0
    ingest(tmp_path, PUBLIC, "b.md", manual("수박", 1), FakeEmbedder())
    after = views.get(Scope()).levels[level]
    assert len(after.chunk_ids) == len(both.chunk_ids)
    assert set(before.chunk_ids) < set(after.chunk_ids)
    assert not set(after.chunk_ids) - set(before.chunk_ids) & set(both.chunk_ids)
    assert after.bm25.scores(["멜론"]).max() == 0


def test_an_index_of_one_level_is_refused_with_the_way_out(tmp_path: Path) -> None:
    ingest(tmp_path, PUBLIC, "a.md", manual("딸기", 1), FakeEmbedder())
    record = ScopeRecord(tmp_path, PUBLIC)
    record.set_manifest({"schema": "1"})  # as an index of before was built
    with pytest.raises(IndexMismatch) as error:
        Views(tmp_path, {"schema": SCHEMA_VERSION}).get(Scope())
    for part in ("schema", "'1'", f"'{SCHEMA_VERSION}'", "python -m ingest --rebuild --public"):
        assert part in str(error.value)


def test_a_record_of_an_earlier_schema_is_rebuilt(tmp_path: Path) -> None:
    ingest(tmp_path, PUBLIC, "2026-10_수확.md", manual("딸기", 1), FakeEmbedder())
    record = ScopeRecord(tmp_path, PUBLIC)
    with sqlite3.connect(record.folder / "store.sqlite") as db:
        for column in ("documents DROP first_day", "documents DROP last_day", "documents DROP runs"):
            db.execute(f"ALTER TABLE {column}")
        for column in ("chunks DROP first_day", "chunks DROP last_day"):
            db.execute(f"ALTER TABLE {column}")
    record = ScopeRecord(tmp_path, PUBLIC)
    embedder = FakeEmbedder()
    cache = EmbeddingCache(embedder.model_name, [])
    with record.writer():
        Writer(record, embedder, korean(), cache, limit_bytes=2**20).rebuild(lambda status: None)  # type: ignore[arg-type]
    (document,) = record.documents()
    assert document.days == ("2026-10-01", "2026-10-31")
    assert document.runs


def test_a_view_outlives_its_files_at_levels_not_used_yet(tmp_path: Path) -> None:
    ingest(tmp_path, PUBLIC, "a.md", manual("딸기"), FakeEmbedder())
    old = Views(tmp_path, {}, warm=()).get(Scope())
    for number in range(3):
        ingest(tmp_path, PUBLIC, f"{number}.md", manual(f"작물{number}", 1), FakeEmbedder())
    assert not (ScopeRecord(tmp_path, PUBLIC).folder / "snapshots" / old.digest).exists()
    for level in old.levels.values():
        assert level.graph.n_chunks == level.bm25.n_rows == len(level.chunk_ids)
        assert level.bm25.scores(["딸기"]).max() > 0
