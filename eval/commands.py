"""The measuring commands that need no store: ``compare``, ``ablate``, ``speed``; registered by ``eval.__main__``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.compare import DEFAULT_SYSTEMS, SEEDS, Job, run_compare, save_report
from eval.metrics import MAIN
from eval.runs import ChannelRuns
from eval.speed import SIZES, run_speed
from eval.systems import ADAPTIVE, LABELS, Adaptive, TunePart, profile_settings
from rag.errors import SettingsError
from rag.profile_table import load
from rag.schema import Guardrails
from rag.settings import load_settings


def add_commands(commands: Any) -> None:
    """Add the sub-parsers; each sets ``run``."""
    compare = commands.add_parser("compare", help="공개 세트에서 검색 방식을 비교합니다")
    _common(compare)
    compare.add_argument("--systems", default="", help=f"쉼표로 나눈 방식 이름. 기본: {','.join(DEFAULT_SYSTEMS)}")
    compare.add_argument("--report", type=Path, metavar="DIR", help="그림이 든 Markdown 보고서를 쓸 폴더")
    compare.set_defaults(run=_compare)
    ablate = commands.add_parser("ablate", help="부품을 하나씩 빼고 잽니다")
    _common(ablate)
    ablate.set_defaults(run=_ablate)
    speed = commands.add_parser("speed", help="만든 자료에서 보행·키워드·벡터 검색의 시간을 잽니다")
    speed.add_argument("--chunks", type=int, nargs="+", default=list(SIZES), metavar="N")
    speed.add_argument("--questions", type=int, default=50)
    speed.add_argument("--json", type=Path, metavar="FILE")
    speed.set_defaults(run=_speed)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="세트 폴더들이 있는 곳")
    parser.add_argument("--set", nargs="+", required=True, metavar="NAME", dest="sets")
    parser.add_argument("--mixed", action="store_true", help="세트들을 한 색인에 섞습니다")
    parser.add_argument("--seed", type=int, nargs="+", default=list(SEEDS), metavar="N")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="adaptive 가 쓸 프로필 파일")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="채널 실행 결과를 둘 곳. 기본: 저장 폴더의 eval")
    parser.add_argument("--json", type=Path, metavar="FILE")


def _job(args: argparse.Namespace, systems: tuple[str, ...]) -> Job:
    adaptive, unguarded = by_profile(args.profile)
    if adaptive and ADAPTIVE not in systems:
        systems = (*systems, ADAPTIVE)
    if ADAPTIVE in systems and adaptive is None:
        raise SettingsError("방식 adaptive 에는 --profile FILE 이 필요합니다.")
    unknown = [name for name in systems if name not in LABELS]
    if unknown:
        raise SettingsError(f"방식 {unknown} 을(를) 모릅니다. 쓸 수 있는 값: {', '.join(LABELS)}")
    return Job(
        data=args.data,
        sets=tuple(args.sets),
        mixed=args.mixed,
        systems=systems,
        seeds=tuple(args.seed),
        cache=args.cache or load_settings().store / "eval",
        adaptive=adaptive,
        unguarded=unguarded,
        timed=args.command == "compare",
    )


def by_profile(path: Path | None) -> tuple[Adaptive | None, Adaptive | None]:
    """Choosers that follow a profile file, with its guardrails and without."""
    if path is None:
        return None, None
    table = load(path)

    def guarded(part: TunePart, runs: ChannelRuns) -> Any:
        return profile_settings(table, runs)

    def free(part: TunePart, runs: ChannelRuns) -> Any:
        return profile_settings(table, runs, Guardrails())

    return guarded, free


def _compare(args: argparse.Namespace) -> dict[str, Any]:
    systems = tuple(name for name in args.systems.split(",") if name) or DEFAULT_SYSTEMS
    report = run_compare(_job(args, systems))
    report["at"] = datetime.now(UTC).isoformat(timespec="seconds")
    for name, table in {**report["sets"], "평균": report["macro"]}.items():
        print(f"\n{name:16s}" + "".join(f"{metric:>11s}" for metric in next(iter(table.values()))))
        for system, row in table.items():
            print(f"{LABELS[system]:16s}" + "".join(f"{value:11.3f}" for value in row.values()))
    print(f"\n{MAIN} 차이 (교차 적합, 95% 구간, Holm 보정)")
    for row in report["tests"]:
        names = f"{LABELS[row['first']]} − {LABELS[row['second']]}"
        print(
            f"{row['set']:10s} {names:28s} {row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}] p {row['p_holm']:.4f}"
        )
    _save(args, report)
    if args.report:
        from eval.report import write_markdown

        print(f"보고서: {write_markdown(report, args.report)}")
    return report


def _ablate(args: argparse.Namespace) -> dict[str, Any]:
    from eval.ablate import run_ablate, table_lines

    report = run_ablate(_job(args, ()))
    for name, rows in report["indexes"].items():
        print(f"\n{name} (기준: {LABELS[report['reference']]})")
        print("\n".join(table_lines(rows)))
    _save(args, report)
    return report


def _speed(args: argparse.Namespace) -> dict[str, Any]:
    report = run_speed(args.chunks, args.questions)
    for size, row in report["sizes"].items():
        print(f"\n문단 {int(size):,}개, 개체 {row['entities']:,}개, 언급 {row['mentions']:,}개")
        for step, times in row["steps"].items():
            print(f"{step:24s} 중앙값 {times['median_ms']:8.2f} ms   95% {times['p95_ms']:8.2f} ms")
    _save(args, report)
    return report


def _save(args: argparse.Namespace, report: dict[str, Any]) -> None:
    if args.json:
        save_report(args.json, report)
