"""The measuring commands that write their own JSON: ``compare``, ``ablate``, ``slots``, ``calibrate``, ``speed`` (no store needed) and
``llm-weights``, ``adapter``, ``ranking``, ``answers``, ``ragas`` (on the index of the store); registered by ``eval.__main__``.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from eval.adapter import add_command as add_adapter
from eval.answers import add_commands as add_answers
from eval.calibrate import add_command as add_calibrate
from eval.compare import DEFAULT_SYSTEMS, FARM, SEEDS, Job, benches, run_compare, save_report
from eval.label import ask_intent, label_segments
from eval.llm_weights import QUALITY, TIMES, run_llm_weights, spread
from eval.metrics import MAIN
from eval.questions import SETS_DIR, load_questions
from eval.ranking import add_command as add_ranking
from eval.reranker import add_command as add_reranker
from eval.slots import add_command as add_slots
from eval.speed import SIZES, run_speed
from eval.speed_vectors import BACKENDS
from eval.systems import ADAPTIVE, LABELS, PEER, Adaptive
from eval.tune import (
    UNTUNED,
    candidate,
    problem_of,
    profile_bytes,
    release,
    report_lines,
    report_of,
    tune,
    tuned_adaptive,
)
from eval.uncertainty import add_command as add_uncertainty
from rag.assembly import build_pipeline, local_model
from rag.errors import SettingsError
from rag.files import write_whole
from rag.llm import LocalModel
from rag.profile_table import load
from rag.settings import Settings, load_settings


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
    asked = commands.add_parser("llm-weights", help="LLM 이 질문마다 고른 가중치와 적응을 농장 질문에서 비교합니다")
    asked.add_argument("--questions", type=int, default=100, metavar="N")
    asked.add_argument("--set", type=Path, default=SETS_DIR / "farm.jsonl")
    asked.add_argument("--store", type=Path)
    asked.add_argument("--model", type=Path, metavar="GGUF", help="기본: 설정의 model")
    asked.add_argument("--json", type=Path, metavar="FILE", required=True, help="멈춘 뒤에는 같은 파일로 이어서 잽니다")
    asked.set_defaults(run=_llm_weights)
    add_slots(commands)
    add_uncertainty(commands)
    add_calibrate(commands)
    add_adapter(commands)
    add_ranking(commands)
    add_reranker(commands)
    add_answers(commands)
    tuning = commands.add_parser("tune", help="세트의 tune 부분에 프로필을 맞춰 후보를 씁니다")
    _common(tuning)
    tuning.add_argument("--out", type=Path, metavar="FILE", help="후보 파일. 기본: profiles/candidates/<세트>.json")
    tuning.add_argument("--valid-until", type=date.fromisoformat, metavar="YYYY-MM-DD", help="후보의 유효기간")
    tuning.add_argument("--label-model", type=Path, metavar="GGUF", help="유형을 규칙 대신 이 모델로 붙여 맞춥니다")
    tuning.set_defaults(run=_tune)
    releasing = commands.add_parser("release", help="후보를 쓰는 프로필로 내보냅니다")
    releasing.add_argument("candidate", type=Path, metavar="FILE")
    releasing.set_defaults(run=_release)
    speed = commands.add_parser("speed", help="만든 자료에서 보행·키워드·벡터 검색의 시간을 잽니다")
    speed.add_argument("--chunks", type=int, nargs="+", default=list(SIZES), metavar="N")
    speed.add_argument("--questions", type=int, default=50)
    speed.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS), help="벡터 저장소")
    speed.add_argument("--qdrant-url", metavar="URL", help="Qdrant 서버. 기본: 설정의 qdrant_url, 없으면 재지 않습니다")
    speed.add_argument("--json", type=Path, metavar="FILE")
    speed.set_defaults(run=_speed)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help="공개 세트 폴더들이 있는 곳")
    parser.add_argument(
        "--set", nargs="+", required=True, metavar="NAME", dest="sets", help="세트 이름. farm 은 저장소의 농장 세트"
    )
    parser.add_argument("--store", type=Path, metavar="DIR", help="farm 세트를 잴 저장소")
    parser.add_argument("--mixed", action="store_true", help="세트들을 한 색인에 섞습니다")
    parser.add_argument("--seed", type=int, nargs="+", default=list(SEEDS), metavar="N")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="adaptive 가 쓸 프로필 파일. 없으면 tune 부분에 맞춥니다"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="채널 실행 결과를 둘 곳. 기본: 저장 폴더의 eval")
    parser.add_argument("--json", type=Path, metavar="FILE")


def _job(args: argparse.Namespace, systems: tuple[str, ...]) -> Job:
    adaptive = by_profile(args.profile) if args.profile else tuned_adaptive()
    if args.profile and systems and ADAPTIVE not in systems:
        systems = (*systems, ADAPTIVE)
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
        store=args.store,
        timed=args.command == "compare",
    )


def by_profile(path: Path) -> Adaptive:
    """The adaptive system that follows a profile file, whatever the tune part."""
    table = load(path)
    return Adaptive(lambda part, runs: table)


def _compare(args: argparse.Namespace) -> dict[str, Any]:
    systems = tuple(name for name in args.systems.split(",") if name)
    systems = systems or tuple(s for s in DEFAULT_SYSTEMS if s != PEER or FARM not in args.sets)
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


def _tune(args: argparse.Namespace) -> dict[str, Any]:
    settings = load_settings(store=args.store)
    base = json.loads(settings.profiles.read_text(encoding="utf-8")) if FARM in args.sets else UNTUNED
    report: dict[str, Any] = {}
    for bench in benches(_job(args, ())):
        name = "+".join(bench.index.names)
        part = bench.part(args.seed[0])
        problem, agreement = problem_of(part, bench.runs), None
        if args.label_model:
            texts = [question.text for question in bench.index.questions]
            ask = ask_intent(labelling_model(args.label_model, settings))
            segments, agreement = label_segments(texts, problem.segments, part.tune.tolist(), ask)
            problem = replace(problem, segments=segments)
        tuned = tune(problem, part.tune, quiet=False)
        report[name] = report_of(tuned, name) | {"label_agreement": agreement}
        out = args.out or settings.profiles.parent / "candidates" / f"{name}.json"
        write_whole(out, profile_bytes(candidate(tuned, base, name, args.valid_until)))
        save_report(out.with_suffix(".report.json"), report[name])
        write_whole(out.with_suffix(".md"), ("\n".join(report_lines(report[name])) + "\n").encode("utf-8"))
        print("\n".join(report_lines(report[name])))
        print(f"\n후보: {out}")
    _save(args, report)
    return report


def labelling_model(path: Path, settings: Settings) -> LocalModel:
    """A model that labels questions, with the machine's settings."""
    return local_model(path, settings.n_ctx, settings.n_threads, settings.n_gpu_layers)


def _release(args: argparse.Namespace) -> dict[str, Any]:
    settings = load_settings()
    version = release(args.candidate, settings.profiles, settings.now().date())
    print(f"프로필 {version} 을(를) {settings.profiles} 에 내보냈습니다.")
    return {"version": version}


def _ablate(args: argparse.Namespace) -> dict[str, Any]:
    from eval.ablate import run_ablate, table_lines

    report = run_ablate(_job(args, ()))
    for name, rows in report["indexes"].items():
        print(f"\n{name} (기준: {LABELS[report['reference']]})")
        print("\n".join(table_lines(rows)))
    _save(args, report)
    return report


def _speed(args: argparse.Namespace) -> dict[str, Any]:
    settings = load_settings(qdrant_url=args.qdrant_url)
    server = (settings.qdrant_url, settings.qdrant_api_key)
    report = run_speed(args.chunks, args.questions, backends=args.backends, qdrant=server)
    for size, row in report["sizes"].items():
        print(f"\n문단 {int(size):,}개, 개체 {row['entities']:,}개, 언급 {row['mentions']:,}개")
        for step, times in row["steps"].items():
            print(f"{step:24s} 중앙값 {times['median_ms']:8.2f} ms   95% {times['p95_ms']:8.2f} ms")
        for backend, found in row["vectors"].items():
            print(f"{backend:24s} " + _backend_line(found))
    _save(args, report)
    return report


def _backend_line(found: dict[str, Any]) -> str:
    """Medians of a vector backend without and with a filter, and how many times the snapshot's they are."""
    if found["status"] != "ok":
        return f"재지 않음: {found['why']}" if found["status"] == "not run" else f"실패: {found['why']}"
    parts = [("전체", found["unfiltered"]), ("거른 것", found["filtered"])]
    return "   ".join(
        f"{label} {row['median_ms']:8.2f} ms (×{row.get('ratio_to_snapshot', 1):g})" for label, row in parts
    )


def _llm_weights(args: argparse.Namespace) -> dict[str, Any]:
    settings = load_settings(store=args.store, model=args.model)
    pipeline = build_pipeline(settings, extractive=True)
    weighting = pipeline.retriever.llm_weighting
    if settings.model is None or weighting is None:
        raise SettingsError("언어 모델이 있어야 합니다. --model GGUF 를 주거나 onsil.toml 의 model 에 적어 주세요.")
    questions = spread(load_questions(args.set), args.questions)
    kept = args.json.with_name(f"{args.json.name}.partial.jsonl")
    report = run_llm_weights(pipeline, weighting, questions, settings.model, kept)
    report["at"] = datetime.now(UTC).isoformat(timespec="seconds")
    report["model"] |= {"n_threads": settings.n_threads, "n_gpu_layers": settings.n_gpu_layers}
    print(f"{'':12s}" + "".join(f"{name:>15s}" for name in (*QUALITY, *TIMES)))
    for system, row in report["systems"].items():
        medians = (row[name]["median_ms"] for name in TIMES)
        print(
            f"{system:12s}" + "".join(f"{row[name]:15.3f}" for name in QUALITY) + "".join(f"{m:15.1f}" for m in medians)
        )
    print(
        f"시간 중앙값의 비: 제어 {report['ratio_of_medians']['control_ms']}, 검색 {report['ratio_of_medians']['retrieval_ms']}"
    )
    print(
        f"쓸 수 없는 출력 {report['malformed_share']:.1%} {report['outcomes']}, 서로 다른 출력 {report['distinct_outputs']}"
    )
    save_report(args.json, report)
    kept.unlink()
    return report


def _save(args: argparse.Namespace, report: dict[str, Any]) -> None:
    if args.json:
        save_report(args.json, report)
