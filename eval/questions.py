"""Evaluation questions: read the files, resolve gold documents, split into tune and test.

python -m eval.questions --build CORPUS_DIR    # rewrites farm.jsonl and farm_tune.jsonl from eval/sets/source/
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from ingest.sample.build import CorpusManifest, ManifestEntry, read_manifest

Split = Literal["tune", "test"]
Groups = tuple[tuple[str, ...], ...]

SETS_DIR = Path(__file__).parent / "sets"
SENTENCE_QUESTIONS = SETS_DIR / "source" / "sentence_questions.jsonl"
SPLIT_SEED = 20261201
TUNE_SHARE = 0.2

_SOURCES = ("source/knowledge.jsonl", "source/logs.jsonl")
# Written for fitting; never part of a test split.
_TUNE_SOURCES = ("source/calibration.jsonl", "source/development.jsonl", "source/fitting.jsonl")
_BUILT, _BUILT_TUNE = "farm.jsonl", "farm_tune.jsonl"

# Registration sheets stand under plain crop names; the first sheet that exists is the one meant.
# A product for 토마토(방울토마토포함) may be used on both crops, but stands on the 토마토 sheet.
_SHEET_CROPS = {
    "방울토마토": ("방울토마토", "토마토"),
    "토마토(방울토마토포함)": ("토마토",),
    "착색단고추": ("파프리카",),
    "고추냉이": ("와사비",),
    "고추냉이잎": ("와사비",),
}
_NOT_IN_FOLDER_NAMES = re.compile(r"[^0-9A-Za-z가-힣ㆍ·_-]+")


class QuestionError(ValueError):
    """A question file breaks a rule, or a question's gold documents cannot be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. In every field of groups all groups count, and any member of a group will do.

    `gold` holds document ids ("public/…", "farm:<id>/…") once the set is built. A question that
    cannot be answered from the documents has no groups; `near_miss` says what nearly fits.
    """

    id: str
    question: str
    farm: str | None
    asked_at: datetime
    kind: str
    crop: str
    answerable: bool
    fact_ids: Groups
    event_ids: Groups = ()
    registration: tuple[tuple[str, str], ...] = ()
    law: tuple[tuple[str, str], ...] = ()
    expect: Groups
    near_miss: str | None
    note: str
    gold: Groups = ()
    split: Split | None = None


_KNOWN = frozenset(field.name for field in fields(Question))
_OPTIONAL = frozenset(("event_ids", "registration", "law", "gold", "split"))
_TEXTS = ("id", "question", "kind", "crop", "note")
_GROUPS = ("fact_ids", "event_ids", "expect", "gold")
_PAIRS = ("registration", "law")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or (not value and name != "note"):
        raise QuestionError(f"{name}: 빈칸 없는 문자열이어야 합니다({value!r})")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise QuestionError(f"{name}: 문자열 목록이어야 합니다({value!r})")
    return tuple(_text(name, item) for item in value)


def _groups(name: str, value: object) -> Groups:
    if not isinstance(value, list):
        raise QuestionError(f"{name}: 목록의 목록이어야 합니다({value!r})")
    return tuple(_texts(name, item) for item in value)


def _pairs(name: str, value: object) -> tuple[tuple[str, str], ...]:
    groups = _groups(name, value)
    if any(len(group) != 2 for group in groups):
        raise QuestionError(f"{name}: 두 항목씩 묶어야 합니다({value!r})")
    return tuple((first, second) for first, second in groups)


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(_text("asked_at", value))
    except ValueError as error:
        raise QuestionError(f"asked_at: ISO 8601 시각이어야 합니다({value!r})") from error
    if moment.tzinfo is None:
        raise QuestionError(f"asked_at: 시간대가 있어야 합니다({value!r})")
    return moment


def _check(question: Question) -> Question:
    named = question.fact_ids or question.event_ids or question.registration or question.law
    if question.answerable and not (named and question.expect):
        raise QuestionError(f"{question.id}: 답할 수 있는 질문에는 근거와 expect가 있어야 합니다")
    if question.answerable and question.near_miss is not None:
        raise QuestionError(f"{question.id}: 답할 수 있는 질문에는 near_miss를 쓰지 않습니다")
    if not question.answerable and (named or question.expect or question.gold):
        raise QuestionError(f"{question.id}: 답할 수 없는 질문에는 근거와 expect를 쓰지 않습니다")
    if question.event_ids and question.farm is None:
        raise QuestionError(f"{question.id}: event_ids가 있으면 farm이 있어야 합니다")
    return question


def _parse(row: Mapping[str, object]) -> Question:
    unknown, missing = sorted(row.keys() - _KNOWN), sorted(_KNOWN - _OPTIONAL - row.keys())
    if unknown or missing:
        raise QuestionError(f"모르는 항목 {unknown}, 빠진 항목 {missing}")
    values: dict[str, Any] = {name: _text(name, row[name]) for name in _TEXTS}
    values |= {name: _groups(name, row[name]) for name in _GROUPS if name in row}
    values |= {name: _pairs(name, row[name]) for name in _PAIRS if name in row}
    for name in ("farm", "near_miss"):
        values[name] = None if row[name] is None else _text(name, row[name])
    if not isinstance(row["answerable"], bool):
        raise QuestionError(f"answerable: true 또는 false여야 합니다({row['answerable']!r})")
    if row.get("split") not in (None, "tune", "test"):
        raise QuestionError(f"split: tune 또는 test여야 합니다({row['split']!r})")
    split = cast("Split | None", row.get("split"))
    return _check(Question(**values, asked_at=_moment(row["asked_at"]), answerable=row["answerable"], split=split))


def load_questions(path: Path) -> tuple[Question, ...]:
    """All questions of a JSONL file; `QuestionError` names the file and line of the first fault."""
    questions: dict[str, Question] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise QuestionError("한 줄에 JSON 객체 하나여야 합니다")
            question = _parse(row)
            if question.id in questions:
                raise QuestionError(f"{question.id}: 같은 id가 앞에 있습니다")
        except ValueError as error:
            raise QuestionError(f"{path}:{number}: {error}") from error
        questions[question.id] = question
    return tuple(questions.values())


def tune_questions(sets_dir: Path = SETS_DIR) -> list[Question]:
    """All questions that anything may be fitted on: the tune parts of both built files."""
    everything = (*load_questions(sets_dir / _BUILT), *load_questions(sets_dir / _BUILT_TUNE))
    return [question for question in everything if question.split == "tune"]


def sentence_questions(path: Path = SENTENCE_QUESTIONS) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Id, question and answering sentences (none: nothing answers) of the questions that were written for sentences."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["id"], row["question"], frozenset(row["answers"])


def _document_id(entry: ManifestEntry) -> str:
    return f"public/{entry.path}" if entry.scope == "public" else f"farm:{entry.scope}/{entry.path}"


class GoldIndex:
    """Finds the documents that state a fact, an event, a registration or an article of law."""

    def __init__(self, manifest: CorpusManifest) -> None:
        self._by_fact: dict[str, list[str]] = defaultdict(list)
        self._by_event: dict[str, list[str]] = defaultdict(list)
        self._sheets: dict[tuple[str, str], str] = {}
        self._articles: dict[tuple[str, str], str] = {}
        for entry in manifest.entries:
            document = _document_id(entry)
            for event in entry.event_ids:
                self._by_event[event].append(document)
            if entry.scope != "public":
                continue
            for fact in entry.fact_ids:
                self._by_fact[fact].append(document)
            folder, _, name = entry.path.rpartition("/")
            _, _, subfolder = folder.rpartition("/")
            stem = name.rpartition(".")[0]
            if entry.kind == "농약등록":
                self._sheets[subfolder, stem.removeprefix(f"{subfolder}_")] = document
            if entry.kind == "법령":
                self._articles[subfolder, stem.partition("_")[0]] = document

    def _sheet(self, crop: str, target: str) -> list[str]:
        found = (self._sheets.get((name, target)) for name in _SHEET_CROPS.get(crop, (crop,)))
        return [document for document in found if document][:1]

    def _article(self, law: str, article: str) -> list[str]:
        document = self._articles.get((_NOT_IN_FOLDER_NAMES.sub(" ", law).strip(), article))
        return [document] if document else []

    def gold(self, question: Question) -> Groups:
        """Gold groups without repeats; `QuestionError` names what no document states."""
        named: list[tuple[object, list[str]]] = []
        named += [(group, _union(self._by_fact, group)) for group in question.fact_ids]
        named += [(group, _union(self._by_event, group)) for group in question.event_ids]
        named += [(pair, self._sheet(*pair)) for pair in question.registration]
        named += [(pair, self._article(*pair)) for pair in question.law]
        absent = [wanted for wanted, documents in named if not documents]
        if absent:
            raise QuestionError(f"{question.id}: 말뭉치에 없는 근거 {absent}")
        groups = tuple(dict.fromkeys(tuple(sorted(documents)) for _, documents in named))
        home = ("public/", f"farm:{question.farm}/")
        foreign = [document for group in groups for document in group if not document.startswith(home)]
        if foreign:
            raise QuestionError(f"{question.id}: 다른 농장의 문서 {foreign}")
        return groups


def _union(documents: Mapping[str, list[str]], names: Iterable[str]) -> list[str]:
    return list({document for name in names for document in documents.get(name, ())})


def _tune_quotas(strata: Mapping[tuple[str, bool], list[Question]]) -> dict[tuple[str, bool], int]:
    """Tune questions per stratum: the share rounded down, the rest to the largest remainders."""
    exact = {key: TUNE_SHARE * len(members) for key, members in strata.items()}
    quotas = {key: math.floor(share) for key, share in exact.items()}
    left = round(sum(exact.values())) - sum(quotas.values())
    for key in sorted(exact, key=lambda key: (quotas[key] - exact[key], key))[:left]:
        quotas[key] += 1
    return quotas


def _draw(questions: Iterable[Question], quota: int) -> set[str]:
    """Ids of `quota` questions in seeded order; questions of the same wording stay together if they fit."""
    same_wording: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        same_wording[question.question].append(question.id)

    def place(wording: str) -> str:
        return hashlib.sha256(f"{SPLIT_SEED}/{wording}".encode()).hexdigest()

    drawn: set[str] = set()
    for wording in sorted(same_wording, key=place):
        if len(drawn) + len(same_wording[wording]) <= quota:
            drawn.update(same_wording[wording])
    return drawn


def assign_splits(questions: Iterable[Question]) -> tuple[Question, ...]:
    """A fifth of every kind, answerable or not, for tuning; the rest for testing. Same input, same split."""
    everything = tuple(questions)
    strata: dict[tuple[str, bool], list[Question]] = defaultdict(list)
    for question in everything:
        strata[question.kind, question.answerable].append(question)
    quotas = _tune_quotas(strata)
    tune = {name for key, members in strata.items() for name in _draw(members, quotas[key])}
    return tuple(replace(question, split="tune" if question.id in tune else "test") for question in everything)


def _line(question: Question) -> str:
    return json.dumps(asdict(question) | {"asked_at": question.asked_at.isoformat()}, ensure_ascii=False)


def build_set(corpus: Path, sets_dir: Path = SETS_DIR) -> tuple[Question, ...]:
    """Merge the source files, resolve gold documents in the built corpus, split, and write both built files.

    Returns the questions of ``farm.jsonl``. ``farm_tune.jsonl`` holds further questions for fitting, all ``tune``.
    """
    index = GoldIndex(read_manifest(corpus))
    asked, faults = _resolved(index, sets_dir, _SOURCES)
    fitting, more_faults = _resolved(index, sets_dir, _TUNE_SOURCES)
    faults += more_faults
    repeated = [name for name, n in Counter(q.id for q in (*asked, *fitting)).items() if n > 1]
    faults += [f"{name}: 두 원본에 같은 id가 있습니다" for name in repeated]
    if faults:
        raise QuestionError("\n".join(faults))
    built = assign_splits(asked)
    _write(sets_dir / _BUILT, built)
    _write(sets_dir / _BUILT_TUNE, [replace(question, split="tune") for question in fitting])
    return built


def _resolved(index: GoldIndex, sets_dir: Path, sources: Iterable[str]) -> tuple[list[Question], list[str]]:
    """Questions with their gold documents, and what is wrong with the others."""
    found, faults = [], []
    for name in sources:
        for question in load_questions(sets_dir / name):
            try:
                found.append(replace(question, gold=index.gold(question)))
            except QuestionError as error:
                faults.append(str(error))
    return found, faults


def _write(path: Path, questions: Iterable[Question]) -> None:
    path.write_text("".join(f"{_line(question)}\n" for question in questions), encoding="utf-8")


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description="평가 질문의 정답 문서를 찾아 eval/sets/farm.jsonl을 씁니다.")
    parser.add_argument("--build", type=Path, required=True, metavar="CORPUS_DIR", help="만들어 둔 시연 말뭉치 폴더")
    arguments = parser.parse_args()
    try:
        built = build_set(arguments.build)
    except (QuestionError, FileNotFoundError) as error:
        parser.exit(1, f"{error}\n")
    for (kind, answerable, split), count in sorted(Counter((q.kind, q.answerable, q.split) for q in built).items()):
        print(f"{kind}\t{'답 있음' if answerable else '답 없음'}\t{split}\t{count}")
    print(f"질문 {len(built)}개: {SETS_DIR / _BUILT}")


if __name__ == "__main__":
    main()
