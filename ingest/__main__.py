"""``python -m ingest``: take documents into a scope, list, remove, rebuild.

Exit codes: 0 all files are in (or already were); 1 at least one file failed; 2 wrong usage or setting;
3 the store is busy, damaged or built by other components.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from pathlib import Path

from tqdm import tqdm

from ingest.limits import MEGABYTE, Limits
from ingest.parsed import clean
from ingest.writer import STATE_LABELS, FileStatus, Writer, find_files, refresh
from rag.embedding import EmbeddingCache, load_embedder
from rag.errors import IndexMismatch, RagError, SettingsError, StoreError
from rag.schema import PUBLIC, farm_scope
from rag.settings import Settings, load_settings, parse_now
from rag.stores.record import ScopeRecord, scopes_on_disk
from rag.text import korean


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ingest", description="문서를 색인에 넣고, 보고, 빼고, 다시 만듭니다."
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="파일이나 폴더")
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument("--public", action="store_true", help="공용 자료")
    scope.add_argument("--farm", metavar="ID", help="그 농장만 보는 자료")
    parser.add_argument("--store", type=Path, help="저장 폴더 (기본: 설정의 store)")
    parser.add_argument("--list", action="store_true", help="들어 있는 문서를 보입니다")
    parser.add_argument("--remove", metavar="DOC", help="문서를 뺍니다 (--list 의 문서 이름)")
    parser.add_argument("--rebuild", action="store_true", help="보관한 원본으로 색인을 다시 만듭니다")
    parser.add_argument("--now", metavar="T", help="오늘로 볼 날짜, 예: 2026-12-01")
    parser.add_argument("--json", action="store_true", help="한 줄에 파일 하나씩 JSON 으로 출력")
    parser.add_argument("--quiet", action="store_true", help="실패한 파일만 보입니다")
    args = parser.parse_args(argv)
    if not (args.paths or args.list or args.remove or args.rebuild):
        parser.error("넣을 PATH 나 --list, --remove, --rebuild 가운데 하나를 적어 주세요.")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = _arguments(argv)
    try:
        settings = load_settings(store=args.store)
        scope_id = PUBLIC if args.public else farm_scope(args.farm)
        files = find_files(args.paths)
        if args.farm and files:
            _check_farm(args.farm, settings)
        if scope_id not in scopes_on_disk(settings.store) and not files:
            print(f"'{scope_id}' 자료가 아직 없습니다.", file=sys.stderr)
            return 1 if args.remove else 0
        record = ScopeRecord(settings.store, scope_id)
        if args.list:
            return _list(record, args.json)
        with record.writer():
            return _write(args, files, settings, record)
    except (StoreError, IndexMismatch) as error:
        print(error, file=sys.stderr)
        return 3
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    except sqlite3.Error as error:
        print(f"저장소에 쓸 수 없습니다({error}). 디스크의 빈자리와 권한을 확인해 주세요.", file=sys.stderr)
        return 3


def _check_farm(farm_id: str, settings: Settings) -> None:
    """Documents of a farm that nobody can choose would never be found; a mistyped name must not make a folder.

    Raises:
        SettingsError: the farm is not one of this installation's.
    """
    if farm_id not in settings.farms:
        listed = ", ".join(sorted(settings.farms)) or "없음"
        raise SettingsError(
            f"'{farm_id}' 은(는) 이 설치의 농장이 아닙니다(있는 농장: {listed}). "
            f'이름을 확인하거나 onsil.toml 의 [farms] 에 {farm_id} = "농장 이름" 을 더한 뒤 다시 실행해 주세요.'
        )


def _write(args: argparse.Namespace, files: list[tuple[Path, str]], settings: Settings, record: ScopeRecord) -> int:
    embedder = load_embedder(settings.embedder, settings.embedder_threads)
    public = None if record.scope_id == PUBLIC else _existing(settings.store, PUBLIC)
    now = parse_now(args.now, settings.zone) if args.now else settings.now()
    writer = Writer(
        record,
        embedder,
        korean(),
        EmbeddingCache(embedder.model_name, [settings.embedding_cache]),
        limit_bytes=settings.ingest_limit_mb * MEGABYTE,
        limits=Limits(
            pages=settings.ingest_limit_pages,
            zip_depth=settings.ingest_zip_depth,
            zip_ratio=settings.ingest_zip_ratio,
        ),
        public=public,
        today=now.date(),
    )
    failed = 0
    if not args.rebuild:
        writer.prepare()
    if args.remove:
        failed += not _remove(record, args.remove, args.json)
    if args.rebuild:
        statuses: list[FileStatus] = []
        with tqdm(total=record.counts()["documents"], desc="다시 만드는 중", unit="문서", disable=args.json) as bar:
            writer.rebuild(lambda status: (statuses.append(status), bar.update())[0])  # type: ignore[func-returns-value]
        failed += sum(_report(status, args.json, quiet=True) for status in statuses)
    if files:
        with tqdm(total=len(files), desc=f"색인 {record.scope_id}", unit="파일", disable=args.json) as bar:
            for status in writer.take(files):
                failed += _report(status, args.json, quiet=args.quiet)
                bar.update()
    record.sweep_originals()
    refresh(record, public, embedder.dim, again=args.rebuild)
    if record.scope_id == PUBLIC:
        _refresh_farms(settings.store, record, embedder.dim)
    if not args.json:
        counts = record.counts()
        print(f"{record.scope_id}: 문서 {counts['documents']}개, 문단 {counts.get('chunks_G2', 0)}개, 실패 {failed}개")
    return 1 if failed else 0


def _existing(store: Path, scope_id: str) -> ScopeRecord | None:
    return ScopeRecord(store, scope_id) if scope_id in scopes_on_disk(store) else None


def _refresh_farms(store: Path, public: ScopeRecord, dim: int) -> None:
    """Farms' BM25 indexes hold the public part too. A farm that is being written to catches up by itself."""
    for scope_id in scopes_on_disk(store):
        if scope_id != PUBLIC:
            farm = ScopeRecord(store, scope_id)
            try:
                with farm.writer(wait_s=1.0):
                    refresh(farm, public, dim)
            except StoreError as error:
                print(error, file=sys.stderr)


def _report(status: FileStatus, as_json: bool, *, quiet: bool = False) -> bool:
    """Print one file's line; True when it failed. ``quiet`` prints failures only."""
    failed = status.status == "failed"
    if as_json:
        print(json.dumps(status.as_dict(), ensure_ascii=False), flush=True)
    elif not quiet or failed:
        remarks = " ".join(filter(None, (status.reason, *status.notes)))
        detail = clean(remarks) or (f"{status.chunks}문단" if status.chunks else "")
        tqdm.write(f"[{STATE_LABELS[status.status]}] {status.path}" + (f" — {detail}" if detail else ""))
    return failed


def _remove(record: ScopeRecord, name: str, as_json: bool) -> bool:
    doc_id = name if name.startswith(f"{record.scope_id}/") else f"{record.scope_id}/{name}"
    if record.remove_document(doc_id):
        print(json.dumps({"removed": doc_id}, ensure_ascii=False) if as_json else f"뺐습니다: {doc_id}")
        return True
    print(f"'{name}' 문서가 없습니다. --list 로 이름을 확인해 주세요.", file=sys.stderr)
    return False


def _list(record: ScopeRecord, as_json: bool) -> int:
    for document in record.documents():
        if as_json:
            fields = ("doc_id", "title", "format", "kind", "crop", "date", "author", "houses", "pages", "characters")
            print(json.dumps({name: getattr(document, name) for name in fields}, ensure_ascii=False))
        else:
            print(f"{document.doc_id}\t{document.title}\t{document.kind}\t{document.date}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
