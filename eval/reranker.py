"""Measure the cross-encoder on questions that it was not tuned on: ``python -m eval reranker [--json FILE]``; tune it anew:
``--fit``. Tuning needs PyTorch, which nothing else here does, and an hour or more.

Trained on the questions of ``source/sentence_questions.jsonl`` (with the sentences that answer them, or with none: pairs of
questions that look alike, one of which no sentence answers) and on the fitting questions outside the RESERVED fold, whose
answering candidates are those of ``eval.ranking``. Of each question, up to ``ANSWERS`` answering candidates, ``HARD`` of the
likeliest others and one further one are read; with "nothing answers" as one more choice of logit n the loss is

    −log(Σ_{answering} e^{z} / (e^n + Σ e^{z}))          or, where nothing answers,   −log(e^n / (e^n + Σ e^{z}))

The reserved fold is never trained on, nor is any question that a sentence answers which answers one of the fold: what is
fitted on the logits (``eval.ranking``, ``eval.refusal``) is fitted there, on logits such as a new question has. Figures are
of it, too: how often the candidate with the highest logit answers (``first_1``), and the AUROC of the highest logit for
whether a question is answerable.

The lowest ``FROZEN`` layers and the embeddings stay as they are. Kept are differences to the encoder's weights, matrices in
4-bit blocks (``rag.reranker.packed``).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from eval.adapter import RESERVED, fold_of, reserved
from eval.compare import save_report
from eval.questions import Question, sentence_questions, tune_questions
from eval.ranking import gold_of, query_of, scored_of, states_of
from eval.uncertainty import auroc
from rag.answering.calibration import load_calibration
from rag.answering.sentences import Scored, heading_of
from rag.assembly import build_pipeline, levels_file
from rag.embedding import save_arrays
from rag.errors import SettingsError
from rag.pipeline import Pipeline
from rag.reranker import RERANKERS, SCALE, Body, EncoderFile, Reranker, encoder_file, load_reranker, packed, pair_text
from rag.schema import Query, Scope
from rag.settings import load_settings

FROZEN = 4
ANSWERS, HARD, LIKELIEST = 2, 4, 14
BATCH, STEPS, RATE, HEAD_RATE, WARM_UP = 8, 1100, 8e-5, 20.0, 0.06
# Another sentence this near to an answering one may answer, too, and teaches nothing.
NEAR = 0.955
MEASURED = 24
SEED = 0


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its candidates, likeliest first: (heading, sentence), whether it answers, whether it may be read."""

    question: str
    answerable: bool
    sentences: tuple[tuple[str, str], ...]
    answers: tuple[bool, ...]
    fit: tuple[bool, ...]

    @property
    def answering(self) -> frozenset[str]:
        """The sentences that answer it."""
        return frozenset(pair[1] for pair, answers in zip(self.sentences, self.answers, strict=True) if answers)

    def drawn(self, rng: random.Random) -> tuple[list[int], list[int]]:
        """Numbers of answering candidates and of others for one step."""
        right = [n for n, answers in enumerate(self.answers) if answers][: 2 * ANSWERS]
        right = rng.sample(right, min(ANSWERS, len(right)))
        wrong = [n for n, fits in enumerate(self.fit) if fits and not self.answers[n]]
        likely = rng.sample(wrong[:LIKELIEST], min(HARD, len(wrong[:LIKELIEST])))
        rest = [n for n in wrong if n not in likely]
        return right, likely + rng.sample(rest, min(1, len(rest)))


class Candidates:
    """Reads the candidates of questions as the answerer would, likeliest first."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        settings = load_settings()
        self._weights = load_calibration(levels_file(settings), pipeline.embedder.model_name).sentences
        self._now = settings.now()

    def _scored(self, query: Query) -> tuple[bool, list[Scored]]:
        record, scored = scored_of(self._pipeline, query, self._weights)
        return record, sorted(scored, key=lambda one: (-one.relevance, one.number))

    def of_question(self, question: Question) -> Example:
        """A fitting question: a candidate of a gold document with an expected fact answers; others with one are not read."""
        record, scored = self._scored(query_of(question))
        gold, anywhere = gold_of(question), {one.chunk.doc_id for one in scored}
        right = [any(states_of(one, gold, fact, record) for fact in question.expect) for one in scored]
        alike = [any(states_of(one, anywhere, fact, record) for fact in question.expect) for one in scored]
        return _example(question.question, question.answerable, record, scored, right, alike)

    def of_sentences(self, text: str, answering: frozenset[str]) -> Example:
        """A question written for sentences, on the public documents."""
        _, scored = self._scored(Query(text=text, scope=Scope(), asked_at=self._now))
        right = [one.candidate.text in answering for one in scored]
        vectors = np.array([one.candidate.vector for one in scored])
        near = (vectors @ vectors[right].T).max(axis=1) > NEAR if any(right) else np.zeros(len(scored), bool)
        return _example(text, bool(answering), False, scored, right, near.tolist())


def _example(
    text: str,
    answerable: bool,
    record: bool,
    scored: Sequence[Scored],
    right: Sequence[bool],
    alike: Sequence[bool],
) -> Example:
    """``alike``: sentences that may answer, too; those of them that are not ``right`` are not read."""
    return Example(
        text,
        answerable,
        tuple((heading_of(one.chunk, record), one.candidate.text) for one in scored),
        tuple(right),
        tuple(answers or not may for answers, may in zip(right, alike, strict=True)),
    )


def teaching(examples: Sequence[Example]) -> list[Example]:
    """Those with a candidate to read, and with an answering one where something answers.

    Sentences that answer none of the questions are not read: a model of this size learns them by heart as sentences that
    never answer, and so turns away what is asked for the first time.
    """
    known = frozenset().union(*(one.answering for one in examples))
    kept = [
        replace(one, fit=tuple(fits and pair[1] in known for pair, fits in zip(one.sentences, one.fit, strict=True)))
        for one in examples
    ]
    return [one for one in kept if any(one.answers) or (not one.answerable and any(one.fit))]


def apart(examples: Sequence[Example], held: Sequence[Example]) -> list[Example]:
    """Those that no sentence answers which answers one of ``held``."""
    known = frozenset().union(*(one.answering for one in held))
    return [one for one in examples if known.isdisjoint(one.answering)]


class Trainer:
    """The encoder's layers as PyTorch tensors under the names of its file, and the steps on them.

    Raises:
        SettingsError: PyTorch is not installed.
    """

    def __init__(self, seed: int = SEED) -> None:
        try:
            import torch
        except ImportError as error:
            raise SettingsError(
                "재순위 모델을 맞추려면 PyTorch 가 있어야 합니다. '.venv/bin/pip install torch' 뒤에 다시 실행하세요. 답하는 데는 필요 없습니다."
            ) from error
        self.torch = torch
        torch.manual_seed(seed)
        self._rng = random.Random(seed)
        self._file = EncoderFile(encoder_file())
        self.body = Body(self._file, {})
        self.tensors: dict[str, Any] = {}
        for number, layer in enumerate(self.body.layers):
            for name, values in layer.tensors.items():
                self.tensors[f"l{number}.{name}"] = torch.tensor(values, requires_grad=number >= FROZEN)
        self._start = {n: value.detach().clone() for n, value in self.tensors.items() if value.requires_grad}
        self._tuned = [self.tensors[name] for name in self._start]
        self.head = torch.zeros(self._file.width, requires_grad=True)
        self.bias = torch.zeros(1, requires_grad=True)

    def logits(self, texts: Sequence[str]) -> Any:
        """Log-odds of pair texts, shape (n,); gradients flow to the tuned tensors."""
        torch, file = self.torch, self._file
        cut = [self.body.cut(text) for text in texts]
        longest = max(map(len, cut))
        mask = torch.tensor([[n < len(one) for n in range(longest)] for one in cut])
        x = torch.tensor(self.body.embedded(cut))
        for number in range(file.layers):
            with torch.set_grad_enabled(number >= FROZEN and torch.is_grad_enabled()):
                x = self._layer(number, x, mask)
        pooled = torch.stack([part.mean(0) for part in x.split([len(one) for one in cut])])
        return torch.nn.functional.normalize(pooled, dim=1) @ self.head * SCALE + self.bias

    def _layer(self, number: int, x: Any, mask: Any) -> Any:
        """States of the next layer, shape (tokens, width): only attention sees texts side by side, padded as ``mask`` says."""
        functional, file = self.torch.nn.functional, self._file
        n, longest = mask.shape
        places = mask.flatten().nonzero()[:, 0]

        def linear(name: str, values: Any) -> Any:
            return values @ self.tensors[f"l{number}.{name}.w"] + self.tensors[f"l{number}.{name}.b"]

        def heads(values: Any) -> Any:
            padded = values.new_zeros(n * longest, file.width).index_copy(0, places, values)
            return padded.view(n, longest, file.heads, file.width // file.heads).transpose(1, 2)

        def norm(name: str, values: Any) -> Any:
            weight, bias = self.tensors[f"l{number}.{name}.w"], self.tensors[f"l{number}.{name}.b"]
            return functional.layer_norm(values, (file.width,), weight, bias, file.epsilon)

        mixed = functional.scaled_dot_product_attention(
            *(heads(linear(name, x)) for name in ("q", "k", "v")), attn_mask=mask[:, None, None, :]
        )
        mixed = mixed.transpose(1, 2).reshape(n * longest, file.width)[places]
        x = norm("aln", x + linear("ao", mixed))
        return norm("oln", x + linear("fo", functional.gelu(linear("fi", x), approximate="tanh")))

    def fit(self, examples: Sequence[Example], steps: int = STEPS) -> None:
        """AdamW with warm-up and linear decay; each step ``BATCH`` questions."""
        torch = self.torch
        optimizer = torch.optim.AdamW(
            [
                {"params": self._tuned, "weight_decay": 0.01, "rate": RATE},
                {"params": [self.head, self.bias], "weight_decay": 0.0, "rate": RATE * HEAD_RATE},
            ],
            betas=(0.9, 0.98),
        )
        queue: list[Example] = []
        for step in tqdm(range(steps), desc="재순위 모델", unit="걸음"):
            if len(queue) < BATCH:
                queue = list(examples)
                self._rng.shuffle(queue)
            taken = [queue.pop() for _ in range(min(BATCH, len(queue)))]
            factor = min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.03, 1 - step / steps)
            for group in optimizer.param_groups:
                group["lr"] = group["rate"] * factor
            loss = self._loss(taken)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*self._tuned, self.head, self.bias], 1.0)
            optimizer.step()

    def _loss(self, examples: Sequence[Example]) -> Any:
        torch = self.torch
        drawn = [(one, *one.drawn(self._rng)) for one in examples]
        texts = [pair_text(one.question, *one.sentences[n]) for one, right, wrong in drawn for n in (*right, *wrong)]
        logits = self.logits(texts)
        losses, begin = [], 0
        for _, right, wrong in drawn:
            z = torch.cat([torch.zeros(1), logits[begin : begin + len(right) + len(wrong)]])
            told = torch.log_softmax(z, 0)
            losses.append(-(torch.logsumexp(told[1 : 1 + len(right)], 0) if right else told[0]))
            begin += len(right) + len(wrong)
        return torch.stack(losses).mean()

    def changes(self) -> dict[str, npt.NDArray[Any]]:
        """What was learned, as ``rag.reranker.load_reranker`` reads it."""
        learned = {name: (self.tensors[name].detach() - start).numpy() for name, start in self._start.items()}
        return {
            **packed_changes(learned),
            "head.w": self.head.detach().numpy(),
            "head.b": self.bias.detach().numpy(),
        }


def packed_changes(learned: dict[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[Any]]:
    """Changes of a file's tensors by name: matrices, given as (in, out), in 4-bit blocks of their rows, vectors in float16."""
    return {n: packed(np.ascontiguousarray(v.T)) if v.ndim == 2 else v.astype(np.float16) for n, v in learned.items()}


def measure(reranker: Reranker, examples: Sequence[Example]) -> dict[str, Any]:
    """Figures on questions that were not trained on, of their ``MEASURED`` likeliest candidates."""
    first: list[bool] = []
    likeliest: list[bool] = []
    highest: list[float] = []
    seen = [one for one in examples if one.sentences]
    for one in tqdm(seen, desc="재는 중", unit="개"):
        logits = reranker.logits(one.question, one.sentences[:MEASURED])
        highest.append(float(logits.max()))
        if one.answerable and any(one.answers[:MEASURED]):
            first.append(one.answers[int(logits.argmax())])
            likeliest.append(one.answers[0])
    return {
        "n_questions": len(seen),
        "first_1": round(float(np.mean(first)), 4),
        "first_1_without": round(float(np.mean(likeliest)), 4),
        "auroc": round(auroc(np.array(highest), np.array([one.answerable for one in seen])), 4),
    }


def add_command(commands: Any) -> None:
    """Add ``reranker``."""
    reranker = commands.add_parser("reranker", help="질문과 문장을 함께 읽는 모델을 맞추고 잽니다(PyTorch 필요)")
    reranker.add_argument("--store", type=Path)
    reranker.add_argument("--fit", action="store_true", help="새로 맞추어 profiles/rerankers 에 씁니다")
    reranker.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"맞추는 걸음 수. 기본: {STEPS}")
    reranker.add_argument("--json", type=Path, metavar="FILE")
    reranker.set_defaults(run=_reranker)


def _reranker(args: argparse.Namespace) -> None:
    settings = load_settings(store=args.store)
    trainer = Trainer() if args.fit else None
    pipeline = build_pipeline(settings, extractive=True)
    encoder = pipeline.embedder.model_name
    candidates = Candidates(pipeline)
    questions = tune_questions()
    asked = [candidates.of_question(q) for q in tqdm(reserved(questions), desc="재는 질문", unit="개")]
    if trainer is not None:
        taught = [
            candidates.of_sentences(text, answering)
            for _, text, answering in tqdm(list(sentence_questions()), desc="문장 질문", unit="개")
        ]
        others = [question for question in questions if fold_of(question.id) != RESERVED]
        taught += [candidates.of_question(question) for question in tqdm(others, desc="조정용 질문", unit="개")]
        trainer.fit(teaching(apart(taught, asked)), args.steps)
        save_arrays(RERANKERS, encoder, trainer.changes())
        load_reranker.cache_clear()
    reranker = load_reranker(encoder)
    if reranker is None:
        raise SettingsError(f"'{encoder}' 의 재순위 모델이 없습니다. '--fit' 으로 맞추세요.")
    report = {"encoder": encoder, **measure(reranker, asked)}
    print("  ".join(f"{key} {value:.3f}" for key, value in report.items() if isinstance(value, float)))
    if args.json:
        save_report(args.json, report)
