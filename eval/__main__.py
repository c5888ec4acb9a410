"""``python -m eval farm|latency|llm-weights|compare|ablate|slots|calibrate|speed``: figures go to the screen and, with --json, into a file.

``farm``, ``latency`` and ``llm-weights`` measure on the index of the store, the others on retrieval sets or on generated
data. Commands of ``eval.commands`` write their own JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from eval.adapter import reserved
from eval.commands import add_commands
from eval.farm import by_kind, run_farm, summary, text_reader
from eval.latency import run_latency, run_sub_questions
from eval.questions import SETS_DIR, load_questions, tune_questions
from eval.refusal import fit_refusal, fit_reranked, write
from rag.answering.calibration import load_calibration
from rag.assembly import build_pipeline, levels_file, reranker_of
from rag.errors import RagError
from rag.pipeline import Pipeline
from rag.profile_table import ProfileTable
from rag.schema import LEVELS, Effort, Level
from rag.settings import load_settings
from rag.weighting import SYSTEMS


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m eval", description="검색과 답변의 품질과 지연을 잽니다.")
    commands = parser.add_subparsers(dest="command", required=True)
    farm = commands.add_parser("farm", help="농장 질문 세트: 검색과 추출 답변")
    farm.add_argument("--split", choices=("tune", "test", "all"), default="test")
    farm.add_argument("--systems", default="adaptive,uniform,baseline,dense,sparse,graph")
    farm.add_argument("--errors", action="store_true", help="틀린 질문을 보입니다")
    farm.add_argument("--no-expansion", action="store_true", help="검색어를 넓히지 않습니다")
    farm.add_argument("--no-decomposition", action="store_true", help="하위 질문으로 나누지 않습니다")
    latency = commands.add_parser("latency", help="지연: 데우기 한 번, 다섯 번 반복")
    latency.add_argument("--questions", type=int, default=60)
    latency.add_argument("--repeats", type=int, default=5)
    refusal = commands.add_parser("refusal", help="거절 기준을 tune 질문으로 맞춥니다")
    refusal.add_argument("--write", action="store_true", help="profiles/answering.v1.json 에 씁니다")
    for command in (farm, latency):
        command.add_argument(
            "--granularity",
            choices=("adaptive", *LEVELS),
            help="단위를 바꿉니다: adaptive 는 강도 낮음 G1, 보통 G2, 높음 G3. 기본은 프로필 파일대로. 근거 수는 그대로입니다",
        )
    for command in (farm, latency, refusal):
        command.add_argument("--set", type=Path, default=SETS_DIR / "farm.jsonl")
        command.add_argument("--store", type=Path)
        command.add_argument("--json", type=Path, metavar="FILE")
    add_commands(commands)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run one measurement; returns the exit code."""
    args = _arguments(argv)
    try:
        if "run" in args:  # a command of eval.commands: it writes its own JSON
            args.run(args)
            return 0
        settings = load_settings(store=args.store)
        granularity = levels_of(getattr(args, "granularity", None))
        pipeline = build_pipeline(
            settings,
            granularity=granularity,
            expansion=not getattr(args, "no_expansion", False),
            decomposition=not getattr(args, "no_decomposition", False),
        )
        report = COMMANDS[args.command](args, pipeline)
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return 0


def levels_of(name: str | None) -> dict[Effort, Level] | None:
    """Effort → level of a ``--granularity`` value; None (not given): as the profile file says."""
    if name is None:
        return None
    if name == "adaptive":
        return {effort: rule.granularity for effort, rule in ProfileTable.builtin().effort.items()}
    return {effort: level for effort in get_args(Effort) for level in LEVELS if level == name}


def _farm(args: argparse.Namespace, pipeline: Pipeline) -> dict[str, Any]:
    questions = [q for q in load_questions(args.set) if args.split in ("all", q.split)]
    systems = tuple(args.systems.split(","))
    outcomes = run_farm(pipeline, questions, systems, text_reader(pipeline))
    report = {system: {"all": summary(o), "kinds": by_kind(o)} for system, o in outcomes.items()}
    columns = (
        "recall@2", "recall@5", "recall@10", "ndcg@10", "fact_in_reach", "expected_fact", "wrongly_refused", "refused"
    )  # fmt: skip
    print(f"{'':12s}" + "".join(f"{name:>16s}" for name in columns))
    for system, row in report.items():
        print(f"{system:12s}" + "".join(f"{row['all'].get(name, float('nan')):16.3f}" for name in columns))
    first = systems[0]
    print(f"\n{SYSTEMS[first]}: 유형별")
    for kind, row in report[first]["kinds"].items():
        print(f"{kind:8s}\t" + "\t".join(f"{name} {row[name]:.3f}" for name in columns if name in row))
    if args.errors:
        for o in outcomes[first]:
            q = o.question
            if q.answerable and (o.recall[10] < 1 or not o.expected):
                mark = "거절" if o.refused else ("검색" if o.recall[10] < 1 else "답변")
                print(f"[{mark}] {q.id} {q.kind} {q.question} | 기대 {q.expect} | {o.answer}")
            elif not q.answerable and not o.refused:
                print(f"[거절 못함] {q.id} {q.near_miss} {q.question} | {o.answer}")
    return {
        "split": args.split,
        "n_questions": len(questions),
        "granularity": args.granularity or "profile",
        "expansion": not args.no_expansion,
        "decomposition": not args.no_decomposition,
        "systems": report,
    }


def _latency(args: argparse.Namespace, pipeline: Pipeline) -> dict[str, Any]:
    questions = load_questions(args.set)
    step = max(1, len(questions) // args.questions)
    report = run_latency(pipeline, questions[::step][: args.questions], repeats=args.repeats)
    for stage, row in report["stages"].items():
        share = f"{row['share']:6.1%}" if row["share"] is not None else ""
        print(f"{stage:28s} 중앙값 {row['median_ms']:8.2f} ms   95% {row['p95_ms']:8.2f} ms   {share}")
    report["sub_questions"] = subs = run_sub_questions(pipeline, questions, repeats=args.repeats)
    if subs["n_questions"]:
        print(
            f"하위 질문 {subs['n_questions']}개 질문, 질문마다 검색 {subs['queries_per_question']}번: "
            f"함께 {subs['together_ms']:.2f} ms, 차례로 {subs['in_turn_ms']:.2f} ms ({subs['speed_up']:.2f}배)"
        )
    print(f"최대 메모리 {report['peak_memory_mb']:.0f} MB")
    return report


def _refusal(args: argparse.Namespace, pipeline: Pipeline) -> dict[str, Any]:
    settings = load_settings(store=args.store)
    encoder = pipeline.embedder.model_name
    reranked = reranker_of(settings, encoder) is not None
    questions = tune_questions()
    if reranked:
        plain = load_calibration(levels_file(settings), encoder).refusal
        report = fit_reranked(pipeline, settings, reserved(questions), plain)
    else:
        report = fit_refusal(pipeline, settings, questions)
    print(json.dumps(report, ensure_ascii=False, indent=2))
    if args.write:
        write(settings.profiles.with_name("answering.v1.json"), encoder, report, reranked=reranked)
    return report


COMMANDS: dict[str, Callable[[argparse.Namespace, Pipeline], dict[str, Any]]] = {
    "farm": _farm,
    "latency": _latency,
    "refusal": _refusal,
}


if __name__ == "__main__":
    sys.exit(main())
