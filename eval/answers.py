"""``python -m eval answers``: what the answers say, whether they may say it, and whether they should have been given.

Per system, over the questions of a split and per kind of question:

    expected_fact_recall  answerable questions whose answer holds every expected fact within six sentences and 400
                          characters (as ``expected_fact`` of ``eval farm``; a refusal holds none)
    expected_group_recall share of the expected facts that the answer holds, mean over the same questions
    token_f1              F1 of the content tokens (Kiwi, as multisets) of answer and reference; the reference is
                          ``reference_of``; a refusal has 0
    refusal_precision     refused questions that cannot be answered from the documents ÷ refused
    refusal_recall        refused questions that cannot be answered ÷ those that cannot be answered
    unsupported_rate      shown sentences without a citation that stands word for word in its document ÷ shown sentences
    contradicted_rate     shown sentences that evidence speaks against ÷ shown sentences
    citation_precision    citations of a gold document ÷ citations, on answerable questions
    citation_recall       gold groups with a cited document ÷ gold groups, on answerable questions
    all_rightly_cited     given answers whose every sentence cites a gold document and nothing else ÷ given answers

Sentences are those of given answers; opening lines made by template are no claims and are not counted.

The gold of a question is documents; whether the cited sentence itself answers is judged by hand for pooled sentences of tune
questions (``eval/sets/citation_labels.jsonl``), whatever the answerer said around them. ``labelled`` holds the figures on
those questions, each with the number of unjudged citations or sentences, which count nowhere:

    citation_precision    citations judged to answer ÷ judged citations
    citation_recall       facts of the question that a cited sentence is judged to state ÷ facts
    all_rightly_cited     answers whose citations are all judged to answer, every sentence having one ÷ answers without
                          unjudged citations
    off_question_rate     shown sentences judged not to answer ÷ judged sentences, also by the sentence judgements of
                          ``off_question_labels.jsonl``

With a model (``--answerer llm``) stand beside ours the usual baselines: ``bm25_llm`` (keyword search, as many passages as
ours) and ``k5_llm`` (dense and keyword search one to one, always five passages), both fused from one run of the channels.
The same model writes from what was found, whatever it is: a refusal is the model's own.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tqdm import tqdm

from eval.compare import save_report
from eval.farm import is_short, text_reader
from eval.kept import Row, append_row, rows_kept
from eval.questions import SETS_DIR, Question, load_questions
from eval.scoring import contains_expected
from eval.statistics import paired_bootstrap
from rag.answering.calibration import load_calibration
from rag.answering.compose import cited_by, sentences_of
from rag.answering.llm import LlmAnswerer, Request
from rag.answering.prompts import NOT_FOUND
from rag.answering.refusals import refusal
from rag.assembly import build_pipeline, levels_file, local_model
from rag.embedding import load_embedder
from rag.errors import GenerationError, SettingsError
from rag.pipeline import Pipeline
from rag.schema import Answer, Evidence, FusedEvidence, Query, Result, Scope
from rag.settings import Settings, load_settings
from rag.text import korean


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer and the passages that were read for it."""

    answer: Answer
    read: tuple[Evidence, ...]


class Asker:
    """Asks questions. The weighting systems are answered from one run of the channels, the baselines from another."""

    def __init__(self, settings: Settings, *, llm: bool) -> None:
        """``llm``: the model of the settings writes the answers.

        Raises:
            SettingsError: ``llm`` without a model.
        """
        if llm and settings.model is None:
            raise SettingsError("언어 모델이 있어야 합니다. --model GGUF 를 주거나 onsil.toml 의 model 에 적어 주세요.")
        self.pipeline: Pipeline = build_pipeline(settings, extractive=not llm)
        self._text = text_reader(self.pipeline)
        self._baselines = BaselineWriter(settings) if llm else None

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the baselines that can be asked."""
        return tuple(BASELINES) if self._baselines else ()

    def document_text(self, doc_id: str) -> str:
        """The stored text of a document, "" for what is not on file."""
        scope_id = doc_id.partition("/")[0]
        return self._text(scope_id, doc_id)

    def identity(self, questions: Sequence[Question]) -> dict[str, Any]:
        """What answers depend on beside the code: indexes and profiles."""
        farms = sorted({question.farm or "" for question in questions})
        return {
            "index": {farm or "public": self.pipeline.views.get(Scope(farm_id=farm or None)).digest for farm in farms},
            "profiles": self.pipeline.table.version,
        }

    def ask(self, question: Question, systems: Sequence[str]) -> dict[str, Answered]:
        """System or baseline → answer.

        Raises:
            SettingsError: an unknown system.
        """
        query = Query(text=question.question, scope=Scope(farm_id=question.farm), asked_at=question.asked_at)
        ours = tuple(system for system in systems if system not in self.baselines)
        found = {result.system: answered(result) for result in self.pipeline.compare(query, ours)}
        if self._baselines and (wanted := [system for system in systems if system in BASELINES]):
            found |= self._baselines.ask(query, wanted)
        return {system: found[system] for system in systems}


def answered(result: Result) -> Answered:
    """The answer of a result with what was read for it."""
    return Answered(answer=result.answer, read=result.evidence.items[: result.plan.top_k])


# Name → (weighting system, passages; None: as many as ours).
BASELINES: Mapping[str, tuple[str, int | None]] = {"bm25_llm": ("sparse", None), "k5_llm": ("baseline", 5)}


class BaselineWriter:
    """Retrieval and a model, with nothing of ours between them; citations are checked as ours are."""

    def __init__(self, settings: Settings) -> None:
        assert settings.model is not None
        self._pipeline = build_pipeline(settings, extractive=True)
        self._embedder = load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key)
        levels = load_calibration(levels_file(settings), self._embedder.model_name)
        self._levels = (levels.citation_threshold, levels.citation_coverage)
        self._llm = LlmAnswerer(
            local_model(settings.model, settings.n_ctx, settings.n_threads, settings.n_gpu_layers),
            max_tokens=settings.max_answer_tokens,
            long_tokens=settings.long_answer_tokens,
            timeout_s=settings.generation_timeout_s,
        )

    def ask(self, query: Query, names: Sequence[str]) -> dict[str, Answered]:
        """Baseline → answer; a model that fails answers nothing, which counts as a refusal."""
        systems = [BASELINES[name][0] for name in names]
        found: dict[str, Answered] = {}
        for name, result in zip(names, self._pipeline.compare(query, systems), strict=True):
            read = result.evidence.items[: BASELINES[name][1] or result.plan.top_k]
            found[name] = Answered(answer=self._answer(query, result, read), read=read)
        return found

    def _answer(self, query: Query, result: Result, read: tuple[Evidence, ...]) -> Answer:
        features = result.features
        request = Request(
            question=query.text, intent=features.intent, effort=features.effort, evidence=FusedEvidence(items=read)
        )
        try:
            draft = self._llm.answer(request)
        except GenerationError as error:
            return refusal(read, self._llm.name, note=str(error))
        texts = sentences_of(draft, korean())
        if any(NOT_FOUND in one for one in texts):
            return refusal(read, draft.model)
        view = self._pipeline.views.get(query.scope)
        view = view.plus([passage for channel in result.channels for passage in channel.passages])
        sentences = cited_by(texts, view, read, self._embedder, *self._levels)
        return Answer(sentences=sentences, refused=False, answerer=draft.model)


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference answer and the passage of a gold document that its first sentence stands in."""

    text: str
    passage: str


def reference_of(question: Question, document_text: Callable[[str], str]) -> Reference | None:
    """For every expected fact the sentence of a gold document that states it, in the order of the facts.

    Among the sentences that hold one of the fact's wordings, the one that shares most content tokens with the question;
    ties by the order of the documents. None where no gold document words any of the facts in a sentence.
    """
    documents = [document_text(doc_id) for group in question.gold for doc_id in group]
    asked = set(korean().tokens(question.question))
    chosen: dict[str, str] = {}
    for wordings in question.expect:
        stating = [
            (sentence, text)
            for text in documents
            for sentence in _sentences(text)
            if contains_expected(sentence, (wordings,))
        ]
        if stating:
            sentence, text = max(stating, key=lambda pair: len(asked.intersection(korean().tokens(pair[0]))))
            chosen.setdefault(sentence, text)
    if not chosen:
        return None
    first = next(iter(chosen))
    return Reference(" ".join(chosen), _around(chosen[first], first))


@cache
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(text[span.start : span.end] for span in korean().sentences(text))


def _around(text: str, sentence: str, characters: int = 80) -> str:
    """The whole lines about a sentence, at least ``characters`` to either side where there are so many."""
    at = text.index(sentence)
    start = text.rfind("\n", 0, max(0, at - characters)) + 1
    end = text.find("\n", at + len(sentence) + characters)
    return text[start : end if end >= 0 else len(text)].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A shown sentence with its citations as (document, evidence sentence), and what the citation check found."""

    text: str
    citations: tuple[tuple[str, str], ...]
    verbatim: bool
    contradicted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One answer as it is scored: its sentences (none where it was refused) and the reference ("" without one)."""

    question: Question
    refused: bool
    sentences: tuple[Cited, ...]
    reference: str

    @property
    def text(self) -> str:
        """The answer as plain text."""
        return " ".join(sentence.text for sentence in self.sentences)


def outcome_of(question: Question, answer: Answer, document_text: Callable[[str], str], reference: str) -> Outcome:
    """An answer in the form that is scored."""
    shown = () if answer.refused else answer.sentences
    return Outcome(
        question=question,
        refused=answer.refused,
        sentences=tuple(
            Cited(
                text=sentence.text,
                citations=tuple((citation.doc_id, citation.sentence) for citation in sentence.citations),
                verbatim=any(citation.sentence in document_text(citation.doc_id) for citation in sentence.citations),
                contradicted=sentence.outcome == "contradicted",
            )
            for sentence in shown
        ),
        reference=reference,
    )


def token_f1(answer: str, reference: str) -> float:
    """F1 of the content tokens of two texts, as multisets; 0 where one has none."""
    first, second = Counter(korean().tokens(answer)), Counter(korean().tokens(reference))
    shared = (first & second).total()
    return 2 * shared / (first.total() + second.total()) if shared else 0.0


def _holds(outcome: Outcome) -> list[bool]:
    """For every expected fact whether the answer holds it; none does in an answer that is too long."""
    short = is_short(len(outcome.sentences), outcome.text)
    return [short and contains_expected(outcome.text, (wordings,)) for wordings in outcome.question.expect]


def _share(found: Sequence[bool | float]) -> float | None:
    return round(fmean(found), 4) if found else None


def summary(outcomes: Sequence[Outcome]) -> Row:
    """The figures of the module docstring; None where there is nothing to divide by."""
    answerable = [o for o in outcomes if o.question.answerable]
    others = [o for o in outcomes if not o.question.answerable]
    refused = [o for o in outcomes if o.refused]
    shown = [sentence for o in outcomes for sentence in o.sentences]
    given = [o for o in answerable if not o.refused]
    gold = {o.question.id: {doc_id for group in o.question.gold for doc_id in group} for o in answerable}
    cited = {o.question.id: {doc_id for s in o.sentences for doc_id, _ in s.citations} for o in answerable}
    return {
        "n_answerable": len(answerable),
        "n_unanswerable": len(others),
        "expected_fact_recall": _share([all(_holds(o)) for o in answerable]),
        "expected_group_recall": _share([fmean(_holds(o)) for o in answerable]),
        "token_f1": _share([token_f1(o.text, o.reference) for o in answerable if o.reference]),
        "refused": len(refused),
        "refusal_precision": _share([not o.question.answerable for o in refused]),
        "refusal_recall": _share([o.refused for o in others]),
        "sentences": len(shown),
        "unsupported_rate": _share([not s.verbatim for s in shown]),
        "contradicted_rate": _share([s.contradicted for s in shown]),
        "citation_precision": _share(
            [doc_id in gold[o.question.id] for o in answerable for s in o.sentences for doc_id, _ in s.citations]
        ),
        "citation_recall": _share(
            [not cited[o.question.id].isdisjoint(group) for o in answerable for group in o.question.gold]
        ),
        "all_rightly_cited": _share([_all_right(o, gold[o.question.id]) for o in given]),
    }


def _all_right(outcome: Outcome, gold: Collection[str]) -> bool:
    return all(s.citations and all(doc_id in gold for doc_id, _ in s.citations) for s in outcome.sentences)


def by_kind(outcomes: Sequence[Outcome]) -> dict[str, Row]:
    """Summary per kind of question."""
    kinds = sorted({o.question.kind for o in outcomes})
    return {kind: summary([o for o in outcomes if o.question.kind == kind]) for kind in kinds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Hand judgements: (question, document, evidence sentence) → the facts that it states, None: it does not answer;
    and (question, shown sentence) → whether it answers."""

    evidence: Mapping[tuple[str, str, str], frozenset[int] | None]
    sentences: Mapping[tuple[str, str], bool]

    @property
    def questions(self) -> frozenset[str]:
        """Questions with judged evidence."""
        return frozenset(question for question, _, _ in self.evidence)

    def of(self, outcome: Outcome, citation: tuple[str, str]) -> bool | None:
        """Whether a cited sentence answers; None: unjudged."""
        key = (outcome.question.id, *citation)
        return self.evidence[key] is not None if key in self.evidence else None

    def facts(self, outcome: Outcome) -> frozenset[int]:
        """Facts of the question that the cited sentences are judged to state."""
        found = [self.evidence.get((outcome.question.id, *c)) for s in outcome.sentences for c in s.citations]
        return frozenset(fact for facts in found if facts for fact in facts)

    def answers(self, outcome: Outcome, sentence: Cited) -> bool | None:
        """Whether a shown sentence answers, by its own judgement or by those of what it cites; None: unjudged."""
        if (own := self.sentences.get((outcome.question.id, sentence.text))) is not None:
            return own
        judged = [self.of(outcome, citation) for citation in sentence.citations]
        return True if True in judged else None if None in judged or not judged else False


def load_labels(folder: Path = SETS_DIR) -> Labels:
    """Judgements on file; a file that is not there holds none."""
    evidence = {
        (row["question"], row["document"], row["evidence"]): frozenset(row["facts"]) if row["answers"] else None
        for row in _lines(folder / "citation_labels.jsonl")
    }
    sentences = {
        (str(row["id"]), str(row["sentence"])): not row["off_question"]
        for row in _lines(folder / "off_question_labels.jsonl")
    }
    return Labels(evidence=evidence, sentences=sentences)


def _lines(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def labelled_summary(outcomes: Sequence[Outcome], labels: Labels) -> Row:
    """Figures by hand judgements, over the given answers to answerable questions that have any."""
    asked = [o for o in outcomes if o.question.id in labels.questions and o.question.answerable]
    citations = [[labels.of(o, c) for s in o.sentences for c in s.citations] for o in asked]
    flat = [judged for row in citations for judged in row]
    shown = [labels.answers(o, sentence) for o in asked for sentence in o.sentences]
    whole = [(o, row) for o, row in zip(asked, citations, strict=True) if o.sentences and None not in row]
    return {
        "n_questions": len(asked),
        "citation_precision": _share([j for j in flat if j is not None]),
        "judged_citations": sum(j is not None for j in flat),
        "unjudged_citations": flat.count(None),
        "citation_recall": _share([fact in labels.facts(o) for o in asked for fact in range(len(o.question.expect))]),
        "all_rightly_cited": _share([all(row) and all(s.citations for s in o.sentences) for o, row in whole]),
        "fully_judged_answers": len(whole),
        "off_question_rate": _share([not j for j in shown if j is not None]),
        "judged_sentences": sum(j is not None for j in shown),
        "unjudged_sentences": shown.count(None),
    }


def spread(questions: Sequence[Question], n: int | None) -> list[Question]:
    """``n`` questions, the kinds in turns and evenly within each, in the order of the file; all when there are fewer."""
    if n is None:
        return list(questions)
    kinds: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        kinds[question.kind].append(question)
    turns = sorted((turn, kind) for kind, members in kinds.items() for turn in range(len(members)))
    taken = Counter(kind for _, kind in turns[:n])
    chosen = {kinds[kind][i * len(kinds[kind]) // count].id for kind, count in taken.items() for i in range(count)}
    return [question for question in questions if question.id in chosen]


def add_commands(commands: Any) -> None:
    """Add ``answers`` and ``ragas``."""
    answers = commands.add_parser("answers", help="답변: 기대 사실, 거절, 인용, 근거 없는 문장, 묻지 않은 문장")
    answers.add_argument("--set", type=Path, default=SETS_DIR / "farm.jsonl")
    answers.add_argument("--split", choices=("tune", "test"), default="test")
    answers.add_argument("--store", type=Path)
    answers.add_argument("--questions", type=int, metavar="N", help="종류마다 고르게 N개만. 기본: 모두")
    answers.add_argument(
        "--system",
        default="adaptive,uniform",
        metavar="NAMES",
        help=f"쉼표로 나눈 방식. --answerer llm 이면 {', '.join(BASELINES)} 도 함께 잽니다",
    )
    answers.add_argument("--answerer", choices=("extractive", "llm"), default="extractive")
    answers.add_argument("--model", type=Path, metavar="GGUF", help="llm 답변의 모델. 기본: 설정의 model")
    answers.add_argument("--no-labels", action="store_true", help="손으로 판정한 tune 질문을 따로 묻지 않습니다")
    answers.add_argument(
        "--json", type=Path, metavar="FILE", required=True, help="멈춘 뒤에는 같은 파일로 이어서 잽니다"
    )
    answers.set_defaults(run=_answers)
    ragas = commands.add_parser("ragas", help="RAGAS: 충실도, 근거 정밀도와 재현율을 판정 모델로 잽니다")
    ragas.add_argument("--set", type=Path, default=SETS_DIR / "farm.jsonl")
    ragas.add_argument("--split", choices=("tune", "test"), default="test")
    ragas.add_argument("--store", type=Path)
    ragas.add_argument(
        "--questions", type=int, default=20, metavar="N", help="답이 있는 질문에서 종류마다 고르게 뽑습니다"
    )
    ragas.add_argument("--systems", default="adaptive,uniform", help="첫째에서 나머지를 뺀 차이도 보입니다")
    ragas.add_argument("--answerer", choices=("extractive", "llm"), default="extractive")
    ragas.add_argument("--model", type=Path, metavar="GGUF", help="llm 답변의 모델. 기본: 설정의 model")
    ragas.add_argument("--repeats", type=int, default=3, metavar="N", help="씨앗 1부터 N까지")
    ragas.add_argument("--temperature", type=float, default=0.5)
    ragas.add_argument("--contexts", type=int, metavar="K", help="판정 모델이 볼 근거 수. 기본: 답변이 읽은 것 모두")
    ragas.add_argument("--reason-characters", type=int, default=60, metavar="N", help="판정 까닭의 길이 한도")
    ragas.add_argument("--judge-gguf", type=Path, metavar="FILE")
    ragas.add_argument("--judge-url", metavar="URL", help="OpenAI 호환 서버. 예: http://localhost:8080/v1")
    ragas.add_argument("--judge-model", default="judge", metavar="NAME")
    ragas.add_argument("--n-threads", type=int, metavar="N")
    ragas.add_argument("--json", type=Path, metavar="FILE", required=True, help="멈춘 뒤에는 같은 파일로 이어서 잽니다")
    ragas.set_defaults(run=_ragas)


def _answers(args: argparse.Namespace) -> None:
    settings = load_settings(store=args.store, model=args.model)
    asker = Asker(settings, llm=args.answerer == "llm")
    labels = load_labels()
    everything = load_questions(args.set)
    questions = spread([q for q in everything if q.split == args.split], args.questions)
    systems = tuple(dict.fromkeys((*args.system.split(","), *asker.baselines)))
    fitting = [] if args.no_labels else [*everything, *load_questions(SETS_DIR / "farm_tune.jsonl")]
    extra = [q for q in fitting if q.id in labels.questions and q not in questions]
    kept = args.json.with_name(f"{args.json.name}.partial.jsonl")
    report = run_answers(asker, questions, extra, systems, labels, kept, answerer=args.answerer, model=settings.model)
    report["at"] = datetime.now(UTC).isoformat(timespec="seconds")
    print("\n".join(answer_lines(report)))
    save_report(args.json, report)
    kept.unlink()


def run_answers(
    asker: Asker,
    questions: Sequence[Question],
    labelled: Sequence[Question],
    systems: Sequence[str],
    labels: Labels,
    kept: Path,
    *,
    answerer: str,
    model: Path | None,
) -> Row:
    """Ask ``questions``, and ``labelled`` for the hand judgements only, and report; the figures of the first system stand
    on top. ``kept`` holds what is done, until the report is complete."""
    asked = [*questions, *labelled]
    run = {
        "answerer": answerer,
        "model": model.name if model is not None and answerer == "llm" else None,
        "systems": list(systems),
        **asker.identity(asked),
        "questions": [question.id for question in asked],
    }
    rows = rows_kept(kept, run)
    for question in tqdm([q for q in asked if q.id not in rows], desc="질문", unit="개"):
        reference = reference_of(question, asker.document_text)
        found = {
            system: outcome_of(question, one.answer, asker.document_text, reference.text if reference else "")
            for system, one in asker.ask(question, systems).items()
        }
        append_row(kept, rows, {"id": question.id, "systems": {name: _stored(o) for name, o in found.items()}})
    outcomes = {s: [_outcome(q, rows[q.id]["systems"][s]) for q in asked] for s in systems}
    main = {s: of[: len(questions)] for s, of in outcomes.items()}
    reports: dict[str, Row] = {
        system: {
            **summary(main[system]),
            "labelled": labelled_summary(outcomes[system], labels),
            "kinds": by_kind(main[system]),
        }
        for system in systems
    }
    first, *others = systems
    return {
        **{key: value for key, value in run.items() if key != "questions"},
        "n_questions": len(questions),
        **reports[first],
        "systems": reports,
        "difference": {f"{first} - {other}": differences(main[first], main[other]) for other in others},
    }


def differences(first: Sequence[Outcome], second: Sequence[Outcome]) -> Row:
    """first − second, paired by question: expected facts and token F1 on answerable questions, with a 95 % interval."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a.question.answerable]
    measures: dict[str, Callable[[Outcome], float]] = {
        "expected_fact_recall": lambda o: float(all(_holds(o))),
        "token_f1": lambda o: token_f1(o.text, o.reference),
    }
    found: Row = {}
    for name, measure in measures.items():
        values = np.array([measure(a) - measure(b) for a, b in pairs])
        if len(values):
            one = paired_bootstrap(values)
            found[name] = {key: round(getattr(one, key), 4) for key in ("difference", "low", "high", "p")}
    return found


def _stored(outcome: Outcome) -> Row:
    return {key: value for key, value in asdict(outcome).items() if key != "question"}


def _outcome(question: Question, row: Row) -> Outcome:
    sentences = tuple(
        Cited(**{**s, "citations": tuple((doc_id, evidence) for doc_id, evidence in s["citations"])})
        for s in row["sentences"]
    )
    return Outcome(question=question, refused=row["refused"], sentences=sentences, reference=row["reference"])


SHOWN = (
    "expected_fact_recall", "token_f1", "unsupported_rate", "citation_precision", "citation_recall", "all_rightly_cited",
    "refusal_precision", "refusal_recall",
)  # fmt: skip


def answer_lines(report: Row) -> list[str]:
    """The report for the screen."""

    def line(name: str, row: Row, keys: Sequence[str]) -> str:
        return f"{name:12s} " + "  ".join(f"{key} {row[key]:.3f}" for key in keys if row[key] is not None)

    found = [line(system, row, SHOWN) for system, row in report["systems"].items()]
    found += ["", "손으로 판정한 tune 질문"]
    for system, row in report["systems"].items():
        one = row["labelled"]
        rates = line(system, one, ("citation_precision", "citation_recall", "all_rightly_cited", "off_question_rate"))
        found.append(
            f"{rates}  질문 {one['n_questions']}, 판정 안 된 인용 {one['unjudged_citations']}/"
            f"{one['unjudged_citations'] + one['judged_citations']}, 문장 {one['unjudged_sentences']}/"
            f"{one['unjudged_sentences'] + one['judged_sentences']}"
        )
    found += ["", "유형별 (첫째 방식)"]
    found += [line(kind, row, SHOWN) for kind, row in report["kinds"].items()]
    for pair, row in report["difference"].items():
        for name, one in row.items():
            found.append(
                f"{pair} {name} {one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}] p {one['p']:.3f}"
            )
    return found


def _ragas(args: argparse.Namespace) -> None:
    from eval.ragas_judge import command  # ragas takes seconds to import

    command(args)
