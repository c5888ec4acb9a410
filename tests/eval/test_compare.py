"""A whole comparison on a tiny set: figures, cache, splits and report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import eval.runs
from eval.__main__ import main
from eval.ablate import REFERENCE, run_ablate
from eval.commands import by_profile
from eval.compare import Job, open_runs, run_compare
from eval.datasets import DataSetError, load_set, load_sets
from eval.report import write_markdown
from eval.space import Space, walks, weight_grid
from eval.speed_vectors import chunk_id, snapshot_search
from rag.schema import Walk

CITIES = ["Lucca", "Pisa", "Siena", "Arezzo", "Massa", "Prato", "Livorno", "Grosseto", "Pistoia", "Carrara"]
SPACE = Space(weight_grid(0.5), rrf_k=(1, 60), depths=(20,), walks=walks()[2:3])


def write_set(folder: Path, n: int = 10) -> Path:
    """City i is named after river i; question i asks for both passages."""
    rng = np.random.default_rng(len(folder.name))
    folder.mkdir(parents=True)
    corpus, asked = [], []
    for i, city in enumerate(CITIES[:n]):
        corpus.append({"id": f"c{i}", "title": city, "text": f"{city} lies on the River{i}."})
        corpus.append({"id": f"r{i}", "title": f"River{i}", "text": f"The River{i} is {100 + i} km long."})
        asked.append(
            {"id": f"q{i}", "question": f"How long is the river of {city}?", "gold_ids": [f"c{i}", f"r{i}"], "hops": 2}
        )
    for name, rows in (("corpus", corpus), ("questions", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    vectors = rng.standard_normal((len(corpus) + len(asked), 16)).astype(np.float16)
    np.savez(folder / "e5_small_q4.npz", passages=vectors[: len(corpus)], questions=vectors[len(corpus) :])
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_set(tmp_path / "data" / "one")
    write_set(tmp_path / "data" / "two2", 6)
    return tmp_path / "data"


def job(data: Path, **changes: object) -> Job:
    fields: dict[str, object] = {
        "data": data,
        "sets": ("one", "two2"),
        "mixed": False,
        "systems": ("dense", "sparse", "graph", "uniform", "best_fixed"),
        "seeds": (1, 2),
        "cache": data.parent / "cache",
        "splits": data.parent / "splits",
        "space": SPACE,
    }
    return Job(**{**fields, **changes})  # type: ignore[arg-type]


def test_figures_have_the_promised_shape(data: Path):
    report = run_compare(job(data))
    assert set(report["sets"]) == {"one", "two2"}
    assert set(report["sets"]["one"]["graph"]) == {"ndcg@10", "mrr", "recall@2", "recall@5", "recall@10"}
    means = [report["sets"][name]["graph"]["ndcg@10"] for name in report["sets"]]
    assert report["macro"]["graph"]["ndcg@10"] == pytest.approx(np.mean(means), abs=0.02)
    assert {row["set"] for row in report["tests"]} == {"one", "two2"}
    assert all(row["p"] <= row["p_holm"] + 1e-9 for row in report["tests"])
    assert report["types"]["one"]["2단계"]["n_test"] == 8


def test_the_walk_finds_what_similarity_does_not(data: Path):
    report = run_compare(job(data))
    assert report["sets"]["one"]["graph"]["recall@5"] > report["sets"]["one"]["dense"]["recall@5"]


def test_a_mixed_index_is_measured_set_by_set_and_as_a_whole(data: Path):
    report = run_compare(job(data, mixed=True))
    assert {row["set"] for row in report["tests"]} == {"one", "two2", "macro"}
    assert report["mixed"] is True


def test_the_same_command_gives_the_same_figures(data: Path):
    assert run_compare(job(data)) == run_compare(job(data))


def test_channels_run_once(data: Path, monkeypatch: pytest.MonkeyPatch):
    first = run_compare(job(data))

    def refuse(*args: object) -> None:
        raise AssertionError("a channel was run again")

    monkeypatch.setattr(eval.runs, "search_all", refuse)
    assert run_compare(job(data)) == first


def test_a_new_walk_or_a_changed_set_is_run_again(data: Path):
    sets = load_sets(data, ["one"])
    runs = open_runs(sets, data.parent / "cache")
    assert runs.graph(Walk()).rows.shape == (10, 100)
    assert not np.array_equal(runs.graph(Walk(dense_share=9.0)).scores, runs.graph(Walk()).scores)
    changed = (data / "one" / "corpus.jsonl").read_text(encoding="utf-8").replace("Lucca", "Torino")
    (data / "one" / "corpus.jsonl").write_text(changed, encoding="utf-8")
    assert open_runs(load_sets(data, ["one"]), data.parent / "cache").folder != runs.folder


def test_splits_are_written_down(data: Path):
    run_compare(job(data))
    kept = json.loads((data.parent / "splits" / "one.json").read_text(encoding="utf-8"))
    assert list(kept) == ["1", "2"]
    assert len(kept["1"]) == 2


def test_every_ablation_is_measured(data: Path):
    report = run_ablate(job(data, sets=("one",)))
    rows = {row["ablation"]: row for row in report["indexes"]["one"]}
    assert {REFERENCE, "no graph", "uniform", "floor 10 %", "hops 1", "no dense seeds", "rrf_k 60", "tune 10%"} <= set(
        rows
    )
    assert rows["no graph"]["ndcg@10"] < rows[REFERENCE]["ndcg@10"]


def test_the_report_has_tables_and_pictures(data: Path, tmp_path: Path):
    page = write_markdown(run_compare(job(data, timed=True)), tmp_path / "report")
    text = page.read_text(encoding="utf-8")
    assert "최선의 고정값" in text
    for picture in ("bars.png", "weight_maps.png", "cost.png"):
        assert (tmp_path / "report" / picture).stat().st_size > 1000
        assert picture in text


def test_the_command_names_what_it_does_not_know(data: Path, capsys: pytest.CaptureFixture[str]):
    cache = str(data.parent / "cache")
    assert main(["compare", "--data", str(data), "--set", "three", "--cache", cache]) == 2
    assert "one, two2" in capsys.readouterr().err
    assert main(["compare", "--data", str(data), "--set", "one", "--systems", "best", "--cache", cache]) == 2
    assert "best_fixed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", '{"id": "c0", "title": "", "text": "x"}\n', "정답 문단"),
        ("questions.jsonl", "", "비어"),
        ("questions.jsonl", '{"id": "q", "question": "?", "gold_ids": ["c0"]}\n', "행 수"),
    ],
)
def test_a_broken_set_is_refused(data: Path, file: str, content: str, message: str):
    (data / "one" / file).write_text(content, encoding="utf-8")
    with pytest.raises(DataSetError, match=message):
        load_set(data / "one")


def test_the_peer_ranks_every_question_once_and_is_kept(data: Path):
    report = run_compare(job(data, sets=("one",), systems=("best_fixed", "llamaindex")))
    assert report["sets"]["one"]["llamaindex"]["recall@10"] > 0
    runs = open_runs(load_sets(data, ["one"]), data.parent / "cache")
    (kept,) = runs.folder.glob("peer-*.npy")
    rows = np.load(kept)
    assert rows.shape == (10, 100)
    for found in rows:
        assert len(set(found[found >= 0].tolist())) == (found >= 0).sum()


def test_speed_is_measured_on_generated_data(tmp_path: Path):
    assert main(["speed", "--chunks", "300", "--questions", "3", "--json", str(tmp_path / "s.json")]) == 0
    steps = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["sizes"]["300"]["steps"]
    assert {"vectors_snapshot", "bm25", "walk_1_hops", "walk_3_hops", "neighbourhood_2_hops"} <= set(steps)
    assert all(row["median_ms"] >= 0 for row in steps.values())
    vectors = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["sizes"]["300"]["vectors"]
    assert set(vectors) == {"snapshot", "qdrant-edge", "qdrant-memory", "qdrant-server"}
    assert vectors["qdrant-server"]["status"] == "not run"
    for name in ("qdrant-edge", "qdrant-memory"):
        for kind in ("unfiltered", "filtered"):
            assert vectors[name][kind]["agreement"] == 1
            ratio = vectors[name][kind]["median_ms"] / vectors["snapshot"][kind]["median_ms"]
            assert vectors[name][kind]["ratio_to_snapshot"] == pytest.approx(ratio, abs=0.01)


def test_only_the_named_backends_are_measured_and_a_server_that_is_down_is_told(tmp_path: Path):
    options = ["--backends", "qdrant-server", "--qdrant-url", "http://127.0.0.1:9", "--json", str(tmp_path / "s.json")]
    assert main(["speed", "--chunks", "300", "--questions", "2", *options]) == 0
    vectors = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["sizes"]["300"]["vectors"]
    assert set(vectors) == {"snapshot", "qdrant-server"}
    assert vectors["qdrant-server"]["status"] == "failed"
    assert "127.0.0.1:9" in vectors["qdrant-server"]["why"]


def test_the_filter_of_the_backends_is_one_document_in_ten():
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((250, 8)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    found = snapshot_search(matrix, 100)(matrix[0], True)
    rows = {row for row in range(250) if row // 10 % 10 == 0}
    assert set(found) == {chunk_id(row) for row in rows}
    by_hand = sorted(rows, key=lambda row: -float(matrix[row] @ matrix[0]))
    assert found == [chunk_id(row) for row in by_hand]


def test_a_profile_file_is_a_system(data: Path):
    profile = Path(__file__).parents[2] / "profiles" / "profiles.v1.json"
    adaptive = by_profile(profile)
    report = run_compare(job(data, sets=("one",), adaptive=adaptive, systems=("sparse", "adaptive")))
    assert report["target"] == "adaptive"
    assert 0 < report["sets"]["one"]["adaptive"]["ndcg@10"] <= 1
