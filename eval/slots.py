"""Reading of questions: slots, keywords, intent and asking back, against ``sets/slots.jsonl``.

``slot_f1`` and ``keyword_f1`` are micro F1 over (kind, value) pairs and over words; a predicate counts by its stem.
``span_accuracy``: share of the right slots whose words are those of the label too. ``ask_back_precision`` and
``ask_back_recall``: asked with the right slot and the same set of options. Latency is that of the reading alone, warm.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from statistics import median
from typing import Any

from eval.questions import SETS_DIR
from rag.query.clarify import clarify
from rag.query.features import read_question
from rag.schema import Clarification, Query, QueryFeatures, Scope
from rag.stores.catalogue import Catalogue
from rag.text import Korean, korean, nfc

SET = SETS_DIR / "slots.jsonl"
METRICS = ("slot_f1", "keyword_f1", "intent_accuracy", "ask_back_precision", "ask_back_recall", "span_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One labelled question."""

    id: str
    split: str
    kind: str
    query: Query
    catalogue: str
    slots: tuple[tuple[str, str, str], ...]
    keywords: tuple[str, ...]
    intent: str
    asked: tuple[str, frozenset[str]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the rules made of a case."""

    case: Case
    slots: tuple[tuple[str, str, str], ...]
    keywords: tuple[str, ...]
    intent: str
    asked: tuple[str, frozenset[str]] | None
    ms: float


def load_cases(path: Path = SET) -> list[Case]:
    """All labelled questions."""
    cases = []
    catalogues = json.loads(path.with_name("slots_catalogues.json").read_text(encoding="utf-8"))
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        asked = row["clarification"]
        cases.append(
            Case(
                id=row["id"],
                split=row["split"],
                kind=row["kind"],
                query=Query(
                    text=nfc(row["text"]),
                    scope=Scope(farm_id=catalogues[row["catalogue"]]["farm_id"]),
                    asked_at=datetime.fromisoformat(row["now"]),
                    previous=row["previous"],
                ),
                catalogue=row["catalogue"],
                slots=tuple((s["kind"], s["value"], s["text"]) for s in row["slots"]),
                keywords=tuple(row["keywords"]),
                intent=row["intent"],
                asked=(asked["slot"], frozenset(asked["options"])) if asked else None,
            )
        )
    return cases


def load_catalogues(path: Path = SET) -> dict[str, tuple[Catalogue, str | None]]:
    """Name → (catalogue, name of the farm)."""
    rows = json.loads(path.with_name("slots_catalogues.json").read_text(encoding="utf-8"))
    return {
        name: (
            Catalogue(
                name,
                frozenset(row["authors"]),
                frozenset(row["kinds"]),
                frozenset(row["houses"]),
                frozenset(row["crops"]),
                tuple(map(date.fromisoformat, row["dates"])),
            ),
            row["farm_name"],
        )
        for name, row in rows.items()
    }


def read_cases(cases: Sequence[Case], language: Korean | None = None) -> list[Reading]:
    """Read every case once, after a first pass that warms up."""
    language = language or korean()
    catalogues = load_catalogues()
    farms = [name for _, name in catalogues.values() if name]

    def read(case: Case) -> tuple[QueryFeatures, Clarification | None]:
        catalogue, own = catalogues[case.catalogue]
        features, analysis = read_question(case.query, language, catalogue, own, farms=farms)
        return features, clarify(features, analysis, case.query, catalogue)

    readings = []
    for case in cases[:20]:
        read(case)
    for case in cases:
        began = time.perf_counter()
        features, asked = read(case)
        ms = (time.perf_counter() - began) * 1000
        readings.append(
            Reading(
                case=case,
                slots=tuple((s.kind, s.value, s.words_in(case.query)) for s in features.slots),
                keywords=features.keywords,
                intent=features.intent,
                asked=(asked.slot, frozenset(value for _, value in asked.options)) if asked else None,
                ms=ms,
            )
        )
    return readings


def stem(word: str) -> str:
    """A predicate by its stem: 맞추다 and 맞추 are one word."""
    word = word.lower()
    return word[:-1] if len(word) > 1 and word.endswith("다") else word


def _f1(pairs: Iterable[tuple[Counter[Any], Counter[Any]]]) -> float:
    """Micro F1; 1 where there is neither a label nor a finding."""
    right = found = wanted = 0
    for said, label in pairs:
        right += sum((said & label).values())
        found += sum(said.values())
        wanted += sum(label.values())
    return 2 * right / (found + wanted) if found + wanted else 1.0


def scores(readings: Sequence[Reading]) -> dict[str, float]:
    """The metrics of some readings; a share of nothing is left out."""
    row = {
        "slot_f1": _f1((Counter(s[:2] for s in r.slots), Counter(s[:2] for s in r.case.slots)) for r in readings),
        "keyword_f1": _f1((Counter(map(stem, r.keywords)), Counter(map(stem, r.case.keywords))) for r in readings),
        "intent_accuracy": _share([r.intent == r.case.intent for r in readings]),
        "ask_back_precision": _share([r.asked == r.case.asked for r in readings if r.asked]),
        "ask_back_recall": _share([r.asked == r.case.asked for r in readings if r.case.asked]),
        "span_accuracy": _share(_spans(readings)),
    }
    return {name: round(value, 4) for name, value in row.items() if value is not None}


def _spans(readings: Sequence[Reading]) -> list[bool]:
    return [s in r.case.slots for r in readings for s in r.slots if s[:2] in {label[:2] for label in r.case.slots}]


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def run_slots(split: str) -> tuple[dict[str, Any], list[Reading]]:
    """The report of a split, and its readings."""
    readings = read_cases([c for c in load_cases() if split in ("all", c.split)])
    kinds: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        kinds[reading.case.kind].append(reading)
    times = sorted(r.ms for r in readings)
    report = {
        "split": split,
        "n_questions": len(readings),
        **scores(readings),
        "latency_ms": {
            "median": round(median(times), 2),
            "p95": round(times[min(len(times) - 1, int(0.95 * len(times)))], 2),
        },
        "kinds": {kind: {"n_questions": len(some), **scores(some)} for kind, some in kinds.items()},
    }
    return report, readings


def add_command(commands: Any) -> None:
    """Add the sub-parser ``slots``."""
    slots = commands.add_parser("slots", help="질문에서 조건·핵심어·의도·되묻기를 바르게 읽는지 잽니다")
    slots.add_argument("--split", choices=("dev", "test", "all"), default="dev")
    slots.add_argument("--errors", action="store_true", help="틀린 질문을 보입니다")
    slots.add_argument("--json", type=Path, metavar="FILE")
    slots.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> dict[str, Any]:
    report, readings = run_slots(args.split)
    print(f"{'':18s}" + "".join(f"{name:>20s}" for name in METRICS))
    for kind, row in {"전체": report, **report["kinds"]}.items():
        print(f"{kind:18s}" + "".join(f"{row[m]:20.3f}" if m in row else f"{'–':>20s}" for m in METRICS))
    print(f"읽는 시간 중앙값 {report['latency_ms']['median']} ms, 95% {report['latency_ms']['p95']} ms")
    if args.errors:
        print("\n".join(error_lines(readings)))
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return report


def error_lines(readings: Sequence[Reading]) -> list[str]:
    """What is wrong with each reading that is not right: "−" is missing, "+" is too much."""
    lines = []
    for r in readings:
        wrong = [
            *_differing(
                "칸", [f"{k}={v}" for k, v, _ in r.slots], [f"{k}={v}" for k, v, _ in r.case.slots], lambda w: w
            ),
            *_differing("핵심어", r.keywords, r.case.keywords, stem),
            *([f"의도 {r.intent} (정답 {r.case.intent})"] if r.intent != r.case.intent else []),
            *([f"되묻기 {_said(r.asked)} (정답 {_said(r.case.asked)})"] if r.asked != r.case.asked else []),
        ]
        if wrong:
            lines.append(f"{r.case.id} [{r.case.kind}] {r.case.query.text}\n    " + " | ".join(wrong))
    return lines


def _differing(name: str, said: Sequence[str], label: Sequence[str], key: Callable[[str], str]) -> list[str]:
    missing = Counter(map(key, label)) - Counter(map(key, said))
    extra = Counter(map(key, said)) - Counter(map(key, label))
    marks = [*(f"−{w}" for w in missing.elements()), *(f"+{w}" for w in extra.elements())]
    return [f"{name} {' '.join(marks)}"] if marks else []


def _said(asked: tuple[str, frozenset[str]] | None) -> str:
    return f"{asked[0]}: {', '.join(sorted(asked[1]))}" if asked else "없음"
