"""``python -m ingest``: take documents into a scope, list, remove, index again, rebuild.

Exit codes: 0 all files are in (or already were); 1 at least one file failed; 2 wrong usage or setting;
3 the store is busy, damaged or built by other components.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from ingest.loaders.web import is_url
from ingest.names import find_files
from ingest.parsed import clean
from ingest.service import ScopeIntake, changing, check_farm, refused_links
from ingest.writer import STATE_LABELS, FileStatus
from rag.errors import IndexMismatch, RagError, SettingsError, StoreError
from rag.schema import PUBLIC, farm_scope
from rag.settings import load_settings, parse_now
from rag.stores.record import ScopeRecord, scopes_on_disk


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ingest", description="문서를 색인에 넣고, 보고, 빼고, 다시 만듭니다."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="파일이나 폴더, 또는 웹 주소(https://…)")
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument("--public", action="store_true", help="공용 자료")
    scope.add_argument("--farm", metavar="ID", help="그 농장만 보는 자료")
    parser.add_argument("--store", type=Path, help="저장 폴더 (기본: 설정의 store)")
    parser.add_argument("--sources", action="store_true", help="onsil.toml 의 [sources] 에 적은 곳을 넣습니다")
    parser.add_argument("--list", action="store_true", help="들어 있는 문서를 보입니다")
    parser.add_argument("--remove", metavar="DOC", help="문서를 뺍니다 (--list 의 문서 이름)")
    parser.add_argument("--reindex", metavar="DOC", help="보관한 원본으로 한 문서를 다시 색인합니다")
    parser.add_argument("--rebuild", action="store_true", help="보관한 원본으로 색인을 다시 만듭니다")
    parser.add_argument("--now", metavar="T", help="오늘로 볼 날짜, 예: 2026-12-01")
    parser.add_argument("--json", action="store_true", help="한 줄에 파일 하나씩 JSON 으로 출력")
    parser.add_argument("--quiet", action="store_true", help="실패한 파일만 보입니다")
    args = parser.parse_args(argv)
    if not (args.paths or args.sources or args.list or args.remove or args.reindex or args.rebuild):
        parser.error("넣을 PATH 나 --list, --remove, --reindex, --rebuild 가운데 하나를 적어 주세요.")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = _arguments(argv)
    with TemporaryDirectory(prefix="onsil-") as folder:
        return _run(args, Path(folder))


def _run(args: argparse.Namespace, folder: Path) -> int:
    """``folder`` holds what is fetched until it is taken in."""
    try:
        settings = load_settings(store=args.store)
        scope_id = PUBLIC if args.public else farm_scope(args.farm)
        declared = settings.sources.get(args.farm or PUBLIC, []) if args.sources else []
        if args.sources and not declared:
            raise SettingsError(f"onsil.toml 의 [sources] 에 '{args.farm or PUBLIC}' 의 자료가 적혀 있지 않습니다.")
        urls = [text for text in (*args.paths, *declared) if is_url(text)]
        paths = [Path(text) for text in (*args.paths, *declared) if not is_url(text)]
        files = find_files(paths)
        if args.farm and (files or urls):
            check_farm(args.farm, settings)
        today = parse_now(args.now, settings.zone).date() if args.now else None
        refused = sum(_report(status, args.json) for status in refused_links(paths))
        if urls:
            from ingest.web import fetch_all  # the HTTP client is needed for addresses only

            fetched, failures = fetch_all(urls, folder, settings, today or settings.now().date())
            files += fetched
            refused += sum(_report(status, args.json) for status in failures)
        if scope_id not in scopes_on_disk(settings.store) and not files:
            print(f"'{scope_id}' 자료가 아직 없습니다.", file=sys.stderr)
            return 1 if args.remove or args.reindex or refused else 0
        if args.list:
            return _list(ScopeRecord(settings.store, scope_id), args.json)
        with changing(settings, scope_id, today=today) as intake:
            return 1 if refused + _write(args, files, intake) else 0
    except (StoreError, IndexMismatch) as error:
        print(error, file=sys.stderr)
        return 3
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    except sqlite3.Error as error:
        print(f"저장소에 쓸 수 없습니다({error}). 디스크의 빈자리와 권한을 확인해 주세요.", file=sys.stderr)
        return 3


def _write(args: argparse.Namespace, files: list[tuple[Path, str]], intake: ScopeIntake) -> int:
    """Do what was asked, in the order remove, index again, rebuild, take in; returns how much of it failed."""
    failed = 0
    if args.remove:
        failed += not _remove(intake, args.remove, args.json)
    if args.reindex:
        status = intake.reindex(args.reindex)
        failed += _no_document(args.reindex) if status is None else _report(status, args.json, quiet=args.quiet)
    if args.rebuild:
        statuses: list[FileStatus] = []
        total = intake.record.counts()["documents"]
        with tqdm(total=total, desc="다시 만드는 중", unit="문서", disable=args.json) as bar:
            intake.rebuild(lambda status: (statuses.append(status), bar.update())[0])  # type: ignore[func-returns-value]
        failed += sum(_report(status, args.json, quiet=True) for status in statuses)
    if files:
        with tqdm(
            total=len(files), desc=f"색인 {intake.record.scope_id}", unit="파일", disable=True if args.json else None
        ) as bar:
            for status in intake.take(files):
                failed += _report(status, args.json, quiet=args.quiet)
                bar.update()
    for error in intake.publish():
        print(error, file=sys.stderr)
    if not args.json:
        counts = intake.record.counts()
        paragraphs = counts.get("chunks_G2", 0)
        _say(f"{intake.record.scope_id}: 문서 {counts['documents']}개, 문단 {paragraphs}개, 실패 {failed}개")
    return failed


def _say(line: str) -> None:
    """Print a line. A reader that has seen enough (``| head``) ends the printing, never the work."""
    try:
        tqdm.write(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(status: FileStatus, as_json: bool, *, quiet: bool = False) -> bool:
    """Print one file's line; True when it failed. ``quiet`` prints failures only."""
    failed = status.status == "failed"
    if as_json:
        _say(json.dumps(status.as_dict(), ensure_ascii=False))
    elif not quiet or failed:
        remarks = " ".join(filter(None, (status.reason, *status.notes)))
        detail = clean(remarks) or (f"{status.chunks}문단" if status.chunks else "")
        _say(f"[{STATE_LABELS[status.status]}] {status.path}" + (f" — {detail}" if detail else ""))
    return failed


def _remove(intake: ScopeIntake, name: str, as_json: bool) -> bool:
    doc_id = intake.remove(name)
    if doc_id is None:
        return not _no_document(name)
    _say(json.dumps({"removed": doc_id}, ensure_ascii=False) if as_json else f"뺐습니다: {doc_id}")
    return True


def _no_document(name: str) -> bool:
    print(f"'{name}' 문서가 없습니다. --list 로 이름을 확인해 주세요.", file=sys.stderr)
    return True


def _list(record: ScopeRecord, as_json: bool) -> int:
    for document in record.listed():
        if as_json:
            fields = ("doc_id", "title", "format", "kind", "crop", "date", "author", "houses", "pages", "characters")
            _say(json.dumps({name: getattr(document, name) for name in fields}, ensure_ascii=False))
        else:
            _say(f"{document.doc_id}\t{document.title}\t{document.kind}\t{document.date}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
