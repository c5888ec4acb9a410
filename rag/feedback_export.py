"""``python -m rag feedback``: what people thought of a scope's answers, and tuning questions made of it.

``--export FILE`` writes two JSONL files. ``FILE`` holds what may be tuned on, in the form of ``eval/sets/farm.jsonl``: the
questions whose answer got 👍. Their gold documents are those the answer cited, one group for each answer sentence, as far
as they are still on file; ``expect`` is any one of the cited sentences. ``FILE`` with ``.label`` before its ending holds
the rest (👎, what somebody else gave 👎, refusals, answers to a question back, cited documents that are gone) without gold: ``answerable`` is null
there, so that ``eval.questions.load_questions`` refuses the file until somebody has labelled it, and the opinion stands
beside it. Both hold one scope only, and no user ids.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from rag.errors import RagError, SettingsError
from rag.files import write_whole
from rag.schema import PUBLIC, Scope, farm_scope
from rag.settings import load_settings
from rag.stores.feedback import Feedback, FeedbackStore
from rag.stores.record import ScopeRecord, scope_folder, scopes_on_disk

KIND, NO_CROP = "의견", "공통"
# Of the most frequent reasons and the latest questions.
_SHOWN = 5
_THUMBS = {"up": "👍", "down": "👎"}
# Line ends to ``str.splitlines`` that JSON leaves as they are.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def gold_of(given: Feedback, on_file: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Gold groups of an answer that was liked: for each sentence the cited documents, any of which will do.

    Empty where nothing may be learnt from it: 👎, a refusal, an answer to a question back (the question alone does not
    say what was chosen), or a sentence none of whose documents is on file.
    """
    if given.thumb != "up" or given.refused or given.choice or not given.citations:
        return ()
    groups = [tuple(sorted({c.doc_id for c in cited} & set(on_file))) for cited in given.citations]
    return tuple(dict.fromkeys(groups)) if all(groups) else ()


def question_of(given: Feedback, farm: str | None, gold: Sequence[Sequence[str]]) -> dict[str, Any]:
    """One question in the form of ``eval.questions``; without gold it is one to be labelled."""
    name = f"FB-{hashlib.sha256(f'{given.user}/{given.entry}'.encode()).hexdigest()[:16]}"
    said = list(dict.fromkeys(place.sentence for cited in given.citations for place in cited))
    question: dict[str, Any] = {
        "id": name,
        "question": given.standalone,
        "farm": farm,
        "asked_at": given.asked_at.isoformat(),
        "kind": KIND,
        "crop": given.crop or NO_CROP,
        "answerable": True if gold else None,
        "fact_ids": [[name]] if gold else [],
        "expect": [said] if gold else [],
        "near_miss": None,
        "note": f"이어 물음: {given.previous} → {given.question}" if given.standalone != given.question else "",
        "gold": [list(group) for group in gold],
        "split": "tune",
    }
    if gold:
        return question
    return question | {
        "feedback": {
            "thumb": given.thumb,
            "reason": given.reason,
            "text": given.text,
            "choice": given.choice,
            "refused": given.refused,
            "answer": given.answer,
            "answerer": given.answerer,
            "system": given.system,
            "profile": given.profile_id,
            "version": given.version,
            "given_at": given.given_at.isoformat(),
            "cited": [[place.doc_id for place in cited] for cited in given.citations],
            "trace": json.loads(given.trace),
        }
    }


def summary(found: Sequence[Feedback]) -> dict[str, Any]:
    """Counts, most frequent reasons, latest opinions."""
    thumbs = Counter(one.thumb for one in found)
    return {
        "up": thumbs["up"],
        "down": thumbs["down"],
        "users": len({one.user for one in found}),
        "reasons": dict(Counter(one.reason for one in found if one.reason).most_common(_SHOWN)),
        "latest": [
            {
                "given_at": one.given_at.isoformat(timespec="minutes"),
                "thumb": one.thumb,
                "reason": one.reason,
                "text": one.text,
                "question": one.question,
                "profile": one.profile_id,
            }
            for one in sorted(found, key=lambda one: one.given_at, reverse=True)[:_SHOWN]
        ],
    }


def export(found: Sequence[Feedback], farm: str | None, on_file: Collection[str], path: Path) -> tuple[Path, int, int]:
    """Write both files; returns the path of the one to be labelled and how many questions each holds.

    Raises:
        SettingsError: one of the files exists already or cannot be written.
    """
    to_label = path.with_name(f"{path.stem}.label{path.suffix}")
    disputed = {one.standalone for one in found if one.thumb == "down"}
    gold = [() if one.standalone in disputed else gold_of(one, on_file) for one in found]
    questions = [question_of(one, farm, groups) for one, groups in zip(found, gold, strict=True)]
    parts = {path: [q for q in questions if q["gold"]], to_label: [q for q in questions if not q["gold"]]}
    for target in parts:
        if target.exists():
            raise SettingsError(f"'{target}' 이(가) 이미 있습니다. 다른 이름을 주거나 그 파일을 옮겨 주세요.")
    try:
        if not path.parent.is_dir():  # a mistyped path must not make a folder
            raise FileNotFoundError(f"폴더 '{path.parent}' 이(가) 없습니다")
        for target, rows in parts.items():
            write_whole(target, "".join(f"{_line(row)}\n" for row in rows).encode())
    except OSError as error:
        raise SettingsError(f"'{path}' 에 쓸 수 없습니다({error}). 쓸 수 있는 폴더를 주세요.") from error
    return to_label, len(parts[path]), len(parts[to_label])


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False).translate(_LINE_ENDS)


def _documents(store: Path, scope: Scope) -> set[str]:
    """Ids of the documents that the scope sees."""
    there = [scope_id for scope_id in scopes_on_disk(store) if scope_id in scope.visible]
    return {document.doc_id for scope_id in there for document in ScopeRecord(store, scope_id).listed()}


def _table(found: dict[str, Any], name: str) -> list[str]:
    """The summary for the terminal; control characters in what people wrote become spaces."""
    if not found["latest"]:
        return [f"{name}: 남긴 의견이 없습니다."]
    reasons = ", ".join(f"{reason} {count}" for reason, count in found["reasons"].items()) or "-"
    lines = [
        f"{name}: 👍 {found['up']}  👎 {found['down']}  (사람 {found['users']}명)",
        f"많은 이유: {reasons}",
        "최근",
    ]
    for one in found["latest"]:
        why = " · ".join(part for part in (one["reason"], one["text"]) if part)
        line = f"  {one['given_at'][:16]}  {_THUMBS[one['thumb']]}  {one['question']}{f'  ← {why}' if why else ''}"
        lines.append("".join(c if c.isprintable() else " " for c in line))
    return lines


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m rag feedback", description="답변에 남긴 의견을 보이고, 조정(tuning) 질문으로 내보냅니다."
    )
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--farm", metavar="ID", help="이 농장에서 남긴 의견")
    whose.add_argument("--public", action="store_true", help="공용 자료만 볼 때 남긴 의견")
    parser.add_argument("--store", type=Path, help="저장 폴더 (기본: 설정의 store)")
    parser.add_argument("--json", action="store_true", help="JSON 으로 출력")
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="👍 는 FILE 에, 정답을 달아야 할 나머지는 FILE 이름에 .label 을 넣어 씁니다",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Show and export; returns the exit code: 0 done, 2 wrong usage or setting, or a file that cannot be used."""
    args = _arguments(argv)
    try:
        store = load_settings(store=args.store).store
        scope_id = PUBLIC if args.public else farm_scope(args.farm)
        folder = scope_folder(store, scope_id)
        if not folder.exists():
            raise SettingsError(f"'{args.farm or '공용'}' 자료가 없습니다. --farm 과 --store 를 확인해 주세요.")
        found = FeedbackStore(folder).all()
        shown: dict[str, Any] = {"farm": args.farm} | summary(found)
        lines = _table(shown, args.farm or "공용")
        if args.export is not None:
            on_file = _documents(store, Scope(farm_id=args.farm))
            to_label, n_tune, n_label = export(found, args.farm, on_file, args.export)
            shown["export"] = {str(args.export): n_tune, str(to_label): n_label}
            lines += [f"조정 질문 {n_tune}개: {args.export}", f"정답을 달아야 할 질문 {n_label}개: {to_label}"]
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(shown, ensure_ascii=False, indent=2) if args.json else "\n".join(lines))
    return 0
