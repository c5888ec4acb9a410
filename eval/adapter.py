"""Fit the query adapter: ``python -m eval adapter [--write] [--json FILE]``.

A question of the fitting sets and the sentences of its gold documents that hold an expected fact are a pair to be brought
together. A sentence stands for itself and its passage: s = unit(x + PASSAGE·c), x the sentence's vector, c that of its
passage with the headings. Questions start at b = unit(Σ^−¼·(q − m)), Σ the covariance of all s, m the mean question (soft
whitening; Su et al. 2021, there with Σ^−½); then a matrix M is learned with L2 penalty by Adam (Kingma and Ba 2015) on the
multi-positive softmax loss −log(Σ_{answers} e^{s·a/T} / Σ e^{s·a/T}), a = b + M·b, over the answers, the HARD nearest other
sentences and as many random ones. The adapter is A = (I + M)·Σ^−¼ (``rag.embedding.QueryAdapter``).

Only questions on public documents take part: those on a farm's records are found by date and house. With them are learned
the questions of ``source/sentence_questions.jsonl``, each with the sentences that answer it; a fitting question counts as
``COUNTED`` of these.

Figures are those of FOLDS folds of the fitting questions: of every expected fact the reciprocal rank of its best sentence
among all sentences (``mrr``), and the share of facts with one among the first 1, 3 and 6. A fold's adapter has seen neither
its questions nor any other question that a sentence answers which answers one of them: a new question asks for new facts.
"""

from __future__ import annotations

import argparse
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.compare import save_report
from eval.questions import SENTENCE_QUESTIONS, Question, sentence_questions, tune_questions
from eval.scoring import contains_expected
from rag.assembly import components
from rag.embedding import (
    ADAPTERS,
    Encoder,
    FloatMatrix,
    QueryAdapter,
    arrays_file,
    load_adapter,
    load_embedder,
    unit_rows,
)
from rag.schema import Scope
from rag.settings import Settings, load_settings
from rag.stores.view import View, Views

FOLDS = 5
# The cross-encoder is tuned on the other folds (``eval.reranker``).
RESERVED = 4
REGISTRATIONS = "농약등록"
PASSAGE = 2.0
# T is this many standard deviations of a question's scores.
TEMPERATURE = 1.5
HARD, RANDOM, MOST_ANSWERS = 50, 60, 12
PENALTY, RATE, EPOCHS, BATCH = 0.05, 1e-3, 8, 64
COUNTED = 3
SEED = 0
SHOWN = (1, 3, 6)

Vectors = npt.NDArray[np.float32]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and, for each of its expected facts, the rows of the sentences that state it; how often it is read."""

    id: str
    query: Vectors
    facts: tuple[tuple[int, ...], ...]
    times: int = 1

    @property
    def right(self) -> list[int]:
        """Rows of all sentences that state a fact."""
        return sorted({row for fact in self.facts for row in fact})

    @property
    def answers(self) -> list[int]:
        """Those that are learnt from."""
        return self.right[:MOST_ANSWERS]


@dataclass(frozen=True, slots=True)
class Fitting:
    """What an encoder's adapter is fitted on: fitting questions, sentence questions, vectors of all sentences."""

    encoder: str
    questions: list[Pair]
    further: list[Pair]
    vectors: FloatMatrix

    def without(self, fold: int) -> list[Pair]:
        """The pairs that share no answering sentence with a fitting question of a fold."""
        held = {row for pair in self.questions if fold_of(pair.id) == fold for row in pair.right}
        return [pair for pair in (*self.questions, *self.further) if held.isdisjoint(pair.right)]


@dataclass(frozen=True, slots=True)
class Sentences:
    """All sentences of a view: texts, rows by document, and vectors s, shape (n, dim)."""

    texts: tuple[str, ...]
    of: dict[str, list[int]]
    vectors: FloatMatrix


def sentences_of(view: View) -> Sentences:
    """Every sentence of the paragraphs of a view."""
    level = view.levels["G2"]
    documents = {chunk_id: view.document_of(chunk_id) for chunk_id in level.chunk_ids}
    chunks = view.chunks([(documents[chunk_id].scope_id, chunk_id) for chunk_id in level.chunk_ids])
    texts: list[str] = []
    of: dict[str, list[int]] = defaultdict(list)
    rows: list[FloatMatrix] = []
    for chunk_id, passage in zip(level.chunk_ids, np.concatenate(level.matrices), strict=True):
        records, vectors = view.sentences(chunk_id)
        if not records:
            continue
        of[documents[chunk_id].doc_id] += range(len(texts), len(texts) + len(records))
        texts += [chunks[chunk_id].text[record.start : record.end] for record in records]
        rows.append(unit_rows(vectors + PASSAGE * passage))
    return Sentences(tuple(texts), dict(of), np.concatenate(rows))


def pairs_of(questions: Sequence[Question], sentences: Sentences, queries: Sequence[Vectors]) -> list[Pair]:
    """Questions each of whose expected facts stands in a sentence of a gold document."""
    found = []
    for question, query in zip(questions, queries, strict=True):
        rows = [r for d in sorted({d for group in question.gold for d in group}) for r in sentences.of.get(d, [])]
        facts = tuple(
            tuple(row for row in rows if contains_expected(sentences.texts[row], [group])) for group in question.expect
        )
        if facts and all(facts):
            found.append(Pair(question.id, query, facts, COUNTED))
    return found


def further_pairs(
    questions: Iterable[tuple[str, str, frozenset[str]]], sentences: Sentences, encode: Callable[[str], Vectors]
) -> list[Pair]:
    """Sentence questions with the rows of their answering sentences; those that nothing answers are left out."""
    rows = defaultdict(list)
    for row, text in enumerate(sentences.texts):
        rows[text].append(row)
    found = []
    for id_, text, answers in questions:
        if right := tuple(sorted(row for answer in answers for row in rows.get(answer, ()))):
            found.append(Pair(id_, encode(text), (right,)))
    return found


def fit(pairs: Sequence[Pair], vectors: FloatMatrix, *, seed: int = SEED, epochs: int = EPOCHS) -> QueryAdapter:
    """The adapter of some pairs; ``vectors`` are those of all sentences."""
    rng = np.random.default_rng(seed)
    queries = np.stack([pair.query for pair in pairs])
    mean = queries.mean(axis=0)
    whitened = _softly_whitening(vectors)
    based = unit_rows((queries - mean) @ whitened)
    temperature = TEMPERATURE * float(np.std(vectors @ based[0]))
    near = np.concatenate([_nearest(based[i : i + 256], vectors, HARD) for i in range(0, len(based), 256)])
    step = Adam((vectors.shape[1], vectors.shape[1]))
    moved = np.zeros(step.shape, np.float32)
    read = np.repeat(np.arange(len(pairs)), [pair.times for pair in pairs])
    for _ in range(epochs):
        order = rng.permutation(read)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            gradient = PENALTY * moved
            for i in batch:
                drawn = np.concatenate([near[i], rng.integers(0, len(vectors), RANDOM)])
                others = drawn[~np.isin(drawn, pairs[i].right)]
                gradient = gradient + _gradient(based[i], pairs[i].answers, others, moved, vectors, temperature) / len(
                    batch
                )
            moved = moved - step(gradient)
    matrix = (np.eye(len(moved), dtype=np.float32) + moved) @ whitened.T
    return QueryAdapter(matrix.astype(np.float32), mean.astype(np.float32))


def _softly_whitening(vectors: FloatMatrix) -> Vectors:
    """Σ^−¼, Σ the rows' covariance."""
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    values, basis = np.linalg.eigh(centred.T @ centred / len(vectors))
    root: Vectors = ((basis * np.maximum(values, 1e-9) ** -0.25) @ basis.T).astype(np.float32)
    return root


def _nearest(queries: Vectors, vectors: FloatMatrix, n: int) -> npt.NDArray[np.int64]:
    n = min(n, len(vectors) - 1)
    found: npt.NDArray[np.int64] = np.argpartition(-(queries @ vectors.T), n, axis=1)[:, :n]
    return found


def _gradient(
    query: Vectors,
    answers: Sequence[int],
    others: npt.NDArray[np.int64],
    moved: Vectors,
    vectors: FloatMatrix,
    temperature: float,
) -> Vectors:
    """Of the loss of one question by M; ``others`` are rows that do not answer."""
    rows = vectors[np.concatenate([np.asarray(answers, np.int64), others])]
    scores = rows @ (query + moved @ query) / temperature
    weights = np.exp(scores - scores.max())
    pull = weights / weights.sum()
    right = weights[: len(answers)]
    pull[: len(answers)] -= right / right.sum()
    gradient: Vectors = np.outer(rows.T @ pull / temperature, query)
    return gradient


class Adam:
    """Steps of Adam with its usual decays."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._first, self._second, self._n = np.zeros(shape, np.float32), np.zeros(shape, np.float32), 0

    def __call__(self, gradient: Vectors) -> Vectors:
        """What to take off the parameters."""
        self._n += 1
        self._first = 0.9 * self._first + 0.1 * gradient
        self._second = 0.999 * self._second + 0.001 * gradient**2
        first, second = self._first / (1 - 0.9**self._n), self._second / (1 - 0.999**self._n)
        step: Vectors = RATE * first / (np.sqrt(second) + 1e-8)
        return step


def measure(pairs: Sequence[Pair], queries: Sequence[Vectors], vectors: FloatMatrix) -> dict[str, float]:
    """Reciprocal rank of the best sentence of each fact, and the share of facts within the first few."""
    ranks: list[int] = []
    for pair, query in zip(pairs, queries, strict=True):
        scores = vectors @ query
        ranks += [int((scores > scores[list(fact)].max()).sum()) for fact in pair.facts]
    found = np.array(ranks)
    report = {"mrr": round(float((1 / (1 + found)).mean()), 4)}
    return report | {f"first_{n}": round(float((found < n).mean()), 4) for n in SHOWN}


def fold_of(question_id: str) -> int:
    """The fold of a question, the same on every machine."""
    return zlib.crc32(question_id.encode()) % FOLDS


def reserved(questions: Sequence[Question]) -> list[Question]:
    """The questions of the fold that no cross-encoder is tuned on."""
    return [question for question in questions if fold_of(question.id) == RESERVED]


def fold_adapters(fitting: Fitting) -> list[QueryAdapter]:
    """For each fold an adapter that knows nothing of its questions."""
    return [fit(fitting.without(fold), fitting.vectors) for fold in tqdm(range(FOLDS), desc="나눔", unit="개")]


def cross_validated(fitting: Fitting, adapters: Sequence[QueryAdapter]) -> dict[str, Any]:
    """Figures of the plain encoder and of the adapters of ``fold_adapters``."""
    pairs, vectors = fitting.questions, fitting.vectors
    adapted = {pair.id: adapters[fold_of(pair.id)](pair.query) for pair in pairs}
    return {
        "n_questions": len(pairs),
        "n_further": len(fitting.further),
        "n_sentences": len(vectors),
        "plain": measure(pairs, [pair.query for pair in pairs], vectors),
        "adapted": measure(pairs, [adapted[pair.id] for pair in pairs], vectors),
    }


def fitting_questions() -> list[Question]:
    """Questions on public documents with answers, of the tune parts."""
    return [q for q in tune_questions() if q.answerable and q.farm is None and q.kind != REGISTRATIONS]


def fitting_of(settings: Settings) -> Fitting:
    """What the adapter of the encoder in use is fitted on, with the public index."""
    encoder = load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key, adapted=False)
    sentences = sentences_of(Views(settings.store, components(encoder.model_name), warm={"G2"}).get(Scope()))
    questions, written = fitting_questions(), list(sentence_questions())
    queries = [encoder.encode_query(q.question) for q in tqdm(questions, desc="질문 임베딩", unit="개")]
    further = further_pairs(tqdm(written, desc="문장 질문", unit="개"), sentences, encoder.encode_query)
    return Fitting(encoder.model_name, pairs_of(questions, sentences, queries), further, sentences.vectors)


def held_out_adapters(settings: Settings, encoder: str, fitting: Fitting | None = None) -> list[QueryAdapter]:
    """Those of ``fold_adapters``, kept beside the index: they take minutes, and several commands need the same."""
    view = Views(settings.store, components(encoder), warm={"G2"}).get(Scope())
    read = (view.digest, Path(__file__).read_text("utf-8"), fitting_questions(), SENTENCE_QUESTIONS.read_text("utf-8"))
    known = f"{encoder} {hashlib.sha256(repr(read).encode()).hexdigest()[:12]}"
    folder = settings.store / "held_out"
    names = [f"{known} {fold}" for fold in range(FOLDS)]
    if not all(arrays_file(folder, name).exists() for name in names):
        for name, adapter in zip(names, fold_adapters(fitting or fitting_of(settings)), strict=True):
            adapter.save(folder, name)
    return [kept for name in names if (kept := load_adapter(name, folder)) is not None]


def asked_held_out(
    encoder: Encoder, questions: Sequence[Question], settings: Settings, ask: Callable[[Question], Found]
) -> Iterator[tuple[Question, Found]]:
    """Ask questions, each with the adapter of the folds that it is not in: what is fitted on the answers then sees
    similarities such as a new question has. ``encoder`` is the one that ``ask`` uses; its adapter is put back at the end.
    """
    in_force = encoder.adapter
    adapters = held_out_adapters(settings, encoder.model_name)
    try:
        for question in tqdm(questions, desc="질문", unit="개"):
            encoder.adapt(adapters[fold_of(question.id)])
            yield question, ask(question)
    finally:
        encoder.adapt(in_force)


def add_command(commands: Any) -> None:
    """Add ``adapter``."""
    adapter = commands.add_parser("adapter", help="질문 벡터 보정을 조정용 질문에 맞추고 잽니다")
    adapter.add_argument("--store", type=Path)
    adapter.add_argument("--write", action="store_true", help="profiles/adapters 에 씁니다")
    adapter.add_argument("--json", type=Path, metavar="FILE")
    adapter.set_defaults(run=_adapter)


def _adapter(args: argparse.Namespace) -> None:
    settings = load_settings(store=args.store)
    fitting = fitting_of(settings)
    adapters = held_out_adapters(settings, fitting.encoder, fitting)
    report: dict[str, Any] = {"encoder": fitting.encoder, **cross_validated(fitting, adapters)}
    for name in ("plain", "adapted"):
        print(f"{name:8s} " + "  ".join(f"{key} {value:.3f}" for key, value in report[name].items()))
    if args.write:
        pairs = [*fitting.questions, *fitting.further]
        path = fit(pairs, fitting.vectors).save(ADAPTERS, fitting.encoder)
        print(f"{path}: 질문 {len(pairs)}개로 맞춤")
    if args.json:
        save_report(args.json, report)
