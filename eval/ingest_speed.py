"""``python -m eval.ingest_speed --json FILE``: how fast documents go in, on generated ones with vectors known beforehand.

Generated from a fixed seed: Markdown, plain text and CSV in turn, a title, two headings and some eight sentences or rows
of farm wording with numbers of their own. The encoder counts real tokens but hands out vectors made from a hash of the
text, so that embedding (which the shipped encoder does at tens of ms a passage) is left out and what remains is ours;
the encoder's own rate is measured apart on ``--embed`` of the documents. Stages are timed around the writer's own calls;
"other" is what they leave. One more document: its record, then the snapshot, from which on it is found by meaning and
relation, then the keyword indexes; "reader" is what a process that holds the view before needs to open the new one.
One process; OMP_NUM_THREADS as set.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

import ingest.writer as stages
from ingest.names import find_files
from ingest.versions import KnownDocuments
from ingest.writer import Writer, passage_text, refresh
from rag.embedding import EmbeddingCache, Encoder, load_embedder
from rag.schema import PUBLIC, Scope
from rag.settings import load_settings
from rag.stores.record import ScopeRecord
from rag.stores.segments import INDEXED_LEVELS, SENTENCE_LEVEL
from rag.stores.snapshot import write_snapshot
from rag.stores.view import Views
from rag.text import korean

_Result = TypeVar("_Result")
_CROPS = ("토마토", "딸기", "파프리카", "오이", "방울토마토")
_SENTENCES = (
    "{n}동 {crop} 급액 EC를 {a}dS/m로 맞추고 배액률을 {b}%로 유지했다.",
    "오전 {h}시에 천창을 {b}%까지 열어 실내 온도를 {t}℃로 낮췄다.",
    "{crop} 잎에서 담배가루이 {b}마리를 보고 황색 트랩을 {n}개 더 걸었다.",
    "양액기 센서를 교정하니 pH가 {a}에서 {c}로 바뀌었다.",
    "배지 함수율이 {b}%로 낮아 마지막 급액을 {h}시로 늦췄다.",
    "야간 최저온도 {t}℃를 지키려고 보일러를 {h}시간 돌렸다.",
)


class HashedVectors:
    """The encoder's token counts, and a unit vector made from the text's hash instead of its meaning."""

    def __init__(self, encoder: Encoder) -> None:
        self.model_name, self.dim, self.count_tokens = encoder.model_name, encoder.dim, encoder.count_tokens

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Random unit rows, the same for the same text."""
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") for text in texts]
        rows = np.stack([np.random.default_rng(seed).standard_normal(self.dim, np.float32) for seed in seeds])
        unit: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class _Clock:
    """Seconds spent in wrapped calls, by stage; a call inside another stage's counts for itself only."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def wrap(self, stage: str, call: Callable[..., _Result]) -> Callable[..., _Result]:
        """``call``, timed."""

        def timed(*args: Any, **options: Any) -> _Result:
            started = time.perf_counter()
            try:
                return call(*args, **options)
            finally:
                self.seconds[stage] += time.perf_counter() - started

        return timed


def generate(folder: Path, count: int, seed: int = 20261201) -> None:
    """Write ``count`` documents below ``folder``."""
    rng = random.Random(seed)
    for number in range(count):
        crop = rng.choice(_CROPS)
        title = f"{crop} 기록 {number}번"
        lines = [_sentence(rng, crop) for _ in range(8)]
        if number % 3 == 2:
            name, text = f"{number}.csv", "번호,기록\n" + "".join(f"{at},{line}\n" for at, line in enumerate(lines))
        else:
            mark = "## " if number % 3 else "■ "
            body = [f"{mark}오전", *lines[:4], "", f"{mark}오후", *lines[4:]]
            name = f"{number}.md" if number % 3 else f"{number}.txt"
            text = "\n\n".join(["# " + title if number % 3 else title, *body])
        path = folder / f"{number // 500:03d}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _sentence(rng: random.Random, crop: str) -> str:
    return rng.choice(_SENTENCES).format(
        crop=crop,
        n=rng.randint(1, 12),
        a=round(rng.uniform(1, 4), 2),
        b=rng.randint(5, 95),
        c=round(rng.uniform(5, 7), 2),
        h=rng.randint(5, 19),
        t=rng.randint(8, 32),
    )


def measure(count: int, embedded: int) -> dict[str, Any]:
    """Take ``count`` documents in, then one more; figures of both, and of embedding ``embedded`` of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder / "in", count + 1)
        files = find_files([folder / "in"])
        record = ScopeRecord(folder / "store", PUBLIC)
        settings = load_settings()
        encoder = load_embedder(settings.embedder, settings.embedder_threads)
        embedder = HashedVectors(encoder)
        clock = _Clock()
        writer = _timed_writer(record, embedder, clock)
        with record.writer():
            writer.prepare()
            batch = _timed(lambda: Counter(status.status for status in writer.take(files[:-1])))
            snapshot = _timed(lambda: refresh(record, None, embedder.dim))
            by_stage = dict(clock.seconds)
            again = _timed(lambda: Counter(status.status for status in writer.take(files[:-1])))
            views = Views(record.folder.parent, {})
            view = views.get(Scope())  # held while the new one is opened
            one = _timed(lambda: Counter(status.status for status in writer.take(files[-1:])))
            one_snapshot = _timed(lambda: write_snapshot(record, embedder.dim))
            one_keywords = _timed(lambda: refresh(record, None, embedder.dim))
            reader = _timed(lambda: views.get(Scope()))
            assert reader["result"].digest != view.digest
        counts = record.counts()
        chunks = sum(number for key, number in counts.items() if key.startswith("chunks_"))
        total = batch["seconds"] + snapshot["seconds"]
        shares = {**by_stage, "other": batch["seconds"] - sum(by_stage.values()), "snapshot": snapshot["seconds"]}
        return {
            "documents": count,
            "chunks": chunks,
            "seconds": round(total, 1),
            "documents_per_s": round(count / total, 1),
            "chunks_per_s": round(chunks / total, 1),
            "share": {stage: round(seconds / total, 3) for stage, seconds in shares.items()},
            "statuses": {"first": dict(batch["result"]), "again": dict(again["result"]), "one": dict(one["result"])},
            "again_s": round(again["seconds"], 2),
            "one_more_s": {
                "record": round(one["seconds"], 2),
                "snapshot": round(one_snapshot["seconds"], 2),
                "keywords": round(one_keywords["seconds"], 2),
                "reader": round(reader["seconds"], 2),
            },
            "embedding": _embedding(encoder, record, embedded),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "input_mb": _megabytes(folder / "in"),
            "index_mb": _megabytes(record.folder),
            "disk_free_mb": round(shutil.disk_usage(folder).free / 2**20),
        }


def _embedding(encoder: Encoder, record: ScopeRecord, count: int) -> dict[str, Any]:
    """Rate of the encoder on all texts of the first documents: chunks of each level with headings, and sentences."""
    documents = record.documents()[:count]
    ids = [document.doc_id for document in documents]
    texts: list[str] = []
    for level in INDEXED_LEVELS:
        chunks = record.chunks([row["chunk_id"] for row in record.chunk_rows(level, ids)])
        texts += [passage_text(chunk.title, chunk.section, chunk.text) for chunk in chunks.values()]
        spans = record.spans(level, ids) if level == SENTENCE_LEVEL else {}
        texts += [chunks[chunk_id].text[start:end] for chunk_id, places in spans.items() for start, end in places]
    distinct = sorted(set(texts))
    seconds = _timed(lambda: encoder.encode_passages(distinct))["seconds"]
    return {
        "documents": len(documents),
        "texts": len(distinct),
        "texts_per_s": round(len(distinct) / seconds, 1),
        "documents_per_s": round(len(documents) / seconds, 2),
    }


def _timed_writer(record: ScopeRecord, embedder: HashedVectors, clock: _Clock) -> Writer:
    """A writer whose stages are timed. It is the only place that reaches into one."""
    writer = Writer(record, cast(Encoder, embedder), korean(), EmbeddingCache("none", []), limit_bytes=2**20)
    for place, attribute, stage in (
        (stages, "parse", "parse"),
        (stages, "chunk_document", "chunk"),
        (writer, "_encode", "vectors"),
        (writer, "_read", "tokens and entities"),
        (record, "write_document", "record"),
        (record, "keep_original", "original"),
        (KnownDocuments, "relation", "versions"),
    ):
        setattr(place, attribute, clock.wrap(stage, getattr(place, attribute)))
    return writer


def _timed(call: Callable[[], Any]) -> dict[str, Any]:
    started = time.perf_counter()
    return {"result": call(), "seconds": time.perf_counter() - started}


def _megabytes(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20, 1)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m eval.ingest_speed", description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--embed", type=int, default=300, help="embedding 속도를 따로 잴 문서 수")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    text = json.dumps(measure(args.documents, args.embed), ensure_ascii=False, indent=2)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
