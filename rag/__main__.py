"""``python -m rag "질문"``: ask on the terminal. ``python -m rag lexicon``: see ``rag.lexicon_suggest``;
``python -m rag doctor``: see ``rag.doctor``; ``python -m rag feedback``: see ``rag.feedback_export``.

Exit codes: 0 answered; 1 refused (nothing on file supports an answer); 2 wrong usage, question or setting;
3 the index is missing, busy, damaged or built by other components.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

from rag.assembly import build_pipeline
from rag.doctor import main as check_up
from rag.errors import IndexMismatch, RagError, SettingsError, StoreError
from rag.feedback_export import main as show_feedback
from rag.lexicon_suggest import main as suggest_words
from rag.pipeline import Pipeline
from rag.query.clarify import option_of
from rag.render import as_json, as_text, asked_lines
from rag.schema import Query, Scope, farm_scope
from rag.settings import Settings, load_settings, parse_now
from rag.stores.record import scope_folder
from rag.weighting import ADAPTIVE, SYSTEMS


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m rag",
        description="농장 자료에 묻고 근거가 달린 답을 받습니다.",
        epilog="다른 명령: 'python -m rag doctor' 설치와 색인을 살피고 할 일을 말합니다. "
        "'python -m rag lexicon --suggest' 용어집이 모르는 낱말을 보이고 고르게 합니다. "
        "'python -m rag feedback --farm ID' 답변에 남긴 의견을 보이고 조정 질문으로 내보냅니다.",
    )
    parser.add_argument("question", help="질문")
    parser.add_argument("--farm", metavar="ID", help="이 농장의 자료도 봅니다 (없으면 공용 자료만)")
    parser.add_argument("--store", type=Path, help="저장 폴더 (기본: 설정의 store)")
    parser.add_argument("--now", metavar="T", help="질문 시각, 예: 2026-12-01 또는 2026-12-01T09:00")
    parser.add_argument("--choice", metavar="N", help="되묻는 질문에 대한 답: 번호나 값")
    parser.add_argument("--previous", metavar="질문", help="바로 앞 질문 (그럼 딸기는? 처럼 이어 물을 때)")
    parser.add_argument("--system", choices=[s for s in SYSTEMS], default=ADAPTIVE, help="가중치 방식")
    parser.add_argument("--model", type=Path, help="GGUF 모델 파일 (기본: 설정의 model)")
    parser.add_argument("--explain", action="store_true", help="모든 단계를 보입니다")
    parser.add_argument("--json", action="store_true", help="JSON 으로 출력")
    return parser.parse_args(argv)


def _remarks(args: argparse.Namespace, settings: Settings) -> None:
    """What the asker should know about the options given, on the error stream."""
    if args.farm and not scope_folder(settings.store, farm_scope(args.farm)).exists():
        print(
            f"'{args.farm}' 농장의 자료가 없어 공용 자료만 보았습니다. --farm 의 철자를 확인해 주세요.", file=sys.stderr
        )


def is_interactive() -> bool:
    """Whether somebody sits at the terminal and can answer a question back."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _chosen(args: argparse.Namespace, query: Query, pipeline: Pipeline) -> Query:
    """The query with the asker's answer to a question back: ``--choice``, or asked for on a terminal.

    Raises:
        RagError: the answer is none of the options, or the question cannot be read.
    """
    interactive = not args.json and is_interactive()
    if args.choice is None and not interactive:
        return query
    asked = pipeline.clarification(query)
    if asked is None:
        if args.choice is not None:
            print("되묻는 질문이 없어 --choice 를 쓰지 않았습니다.", file=sys.stderr)
        return query
    if args.choice is not None:
        return replace(query, choice=option_of(asked, args.choice))
    print("\n".join(asked_lines(asked)))
    while True:
        answer = input("번호 (Enter: 고르지 않음) > ").strip()
        try:
            return replace(query, choice=option_of(asked, answer) if answer else "")
        except SettingsError as error:
            print(error)


def main(argv: list[str] | None = None) -> int:
    """Ask one question, suggest words for the lexicon, show feedback, or check the installation; returns the exit code."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["lexicon"] and len(given) > 1:
        return suggest_words(given[1:])
    if given[:1] == ["doctor"]:
        return check_up(given[1:])
    if given[:1] == ["feedback"]:
        return show_feedback(given[1:])
    args = _arguments(given)
    try:
        settings = load_settings(store=args.store, model=args.model)
        asked_at = parse_now(args.now, settings.zone) if args.now else settings.now()
        query = Query(text=args.question, scope=Scope(farm_id=args.farm), asked_at=asked_at, previous=args.previous)
        pipeline = build_pipeline(settings, count_words=True)
        result = pipeline.ask(_chosen(args, query, pipeline), system=args.system)
        _remarks(args, settings)
    except (StoreError, IndexMismatch) as error:
        print(error, file=sys.stderr)
        return 3
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(as_json(result), ensure_ascii=False, indent=2))
    else:
        print(as_text(result, explain=args.explain))
    return 1 if result.answer.refused else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # "python -m rag … | head" ends quietly
    sys.exit(main())
