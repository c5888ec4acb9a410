"""Write the demo corpus to a folder: `python -m ingest.sample.build TARGET`.

TARGET/public/…            crop knowledge, registrations, law
TARGET/farms/<farm id>/…   the documents of one synthetic farm
TARGET/manifest.jsonl      one line per file
TARGET/build.json          what the files were made from; a match means there is nothing to do
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ingest.sample.farms import FARM_IDS, farm_files
from ingest.sample.formats import render
from ingest.sample.knowledge import KNOWLEDGE_DIR, knowledge_files
from ingest.sample.laws import law_files
from ingest.sample.model import SampleFile
from ingest.sample.registration_rows import DATA_DIR
from ingest.sample.registrations import registration_files

SMALL_COUNT = 60

_MANIFEST, _STAMP = "manifest.jsonl", "build.json"
_SMALL_FIRST = ("2026-11-24", "/2025-03", "/2026-03")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """What the manifest says about one file; `path` is the logical path inside the scope."""

    scope: str
    path: str
    format: str
    kind: str
    crop: str
    date: str
    author: str
    houses: tuple[str, ...]
    fact_ids: tuple[str, ...]
    event_ids: tuple[str, ...]
    encoding: str
    sha256: str

    @property
    def location(self) -> str:
        """Path below the target folder."""
        return location(self.scope, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusManifest:
    """The built corpus: where it is and what is in it."""

    target: Path
    entries: tuple[ManifestEntry, ...]

    def counts(self) -> Counter[tuple[str, str]]:
        """Number of files per kind and format."""
        return Counter((entry.kind, entry.format) for entry in self.entries)


def location(scope: str, path: str) -> str:
    """Path below the target folder of a file of `scope`."""
    return f"public/{path}" if scope == "public" else f"farms/{scope}/{path}"


def corpus_files() -> list[SampleFile]:
    """Every document of the corpus."""
    files = knowledge_files() + registration_files() + law_files()
    for farm_id in FARM_IDS:
        files += farm_files(farm_id)
    return files


def small_subset(files: list[SampleFile], count: int = SMALL_COUNT) -> list[SampleFile]:
    """Some of every kind and format of every scope, filled up with the months the tests ask about."""
    chosen: dict[tuple[str, str], SampleFile] = {}
    covered: set[tuple[str, str]] = set()
    for file in files:
        traits = {(file.scope, file.kind), (file.scope, file.format), (file.scope, file.encoding)}
        if traits - covered:
            chosen[file.scope, file.path] = file
            covered |= traits
    wanted = [file for mark in _SMALL_FIRST for file in files if file.scope != "public" and mark in file.path]
    for file in wanted + files:
        if len(chosen) >= count:
            break
        chosen.setdefault((file.scope, file.path), file)
    return list(chosen.values())


def _inputs_hash() -> str:
    """Hash of everything the corpus is made from: data, knowledge texts and this package's code."""
    digest = hashlib.sha256()
    sources = [*DATA_DIR.glob("*.jsonl"), *KNOWLEDGE_DIR.rglob("*.*"), *DATA_DIR.parent.glob("*.py")]
    for path in sorted(sources):
        digest.update(path.relative_to(DATA_DIR.parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _stamp(only_small: bool) -> dict[str, object]:
    return {"inputs": _inputs_hash(), "only_small": only_small}


def read_manifest(target: Path) -> CorpusManifest:
    """The manifest of a built corpus; `FileNotFoundError` if there is none."""
    lines = (target / _MANIFEST).read_text(encoding="utf-8").splitlines()
    return CorpusManifest(target=target, entries=tuple(_entry(json.loads(line)) for line in lines))


def _entry(fields: dict[str, Any]) -> ManifestEntry:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return ManifestEntry(**values)


def _existing(target: Path, stamp: dict[str, object]) -> CorpusManifest | None:
    """The corpus at `target` if it was built from the same inputs and is complete."""
    if not (target / _STAMP).is_file() or not (target / _MANIFEST).is_file():
        return None
    if json.loads((target / _STAMP).read_text(encoding="utf-8")) != stamp:
        return None
    manifest = read_manifest(target)
    return manifest if all((target / entry.location).is_file() for entry in manifest.entries) else None


def _remove_previous(target: Path) -> None:
    """Delete the files that an earlier build listed, and its stamp."""
    (target / _STAMP).unlink(missing_ok=True)
    if (target / _MANIFEST).is_file():
        for entry in read_manifest(target).entries:
            (target / entry.location).unlink(missing_ok=True)


def _write(file: SampleFile, target: Path) -> ManifestEntry:
    data = render(file)
    place = target / location(file.scope, file.path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return ManifestEntry(
        scope=file.scope,
        path=file.path,
        format=file.format,
        kind=file.kind,
        crop=file.crop,
        date=file.date,
        author=file.author,
        houses=file.houses,
        fact_ids=file.fact_ids,
        event_ids=file.event_ids,
        encoding=file.encoding,
        sha256=hashlib.sha256(data).hexdigest(),
    )


def build_corpus(target: Path, *, only_small: bool = False, progress: bool = False) -> CorpusManifest:
    """Write the corpus below `target`, or return at once if it is already there unchanged.

    `only_small` writes `SMALL_COUNT` documents with every kind and format among them.
    """
    stamp = _stamp(only_small)
    existing = _existing(target, stamp)
    if existing:
        return existing
    _remove_previous(target)
    files = small_subset(corpus_files()) if only_small else corpus_files()
    bar = tqdm(files, desc="시연 문서 쓰기", unit="건", disable=not progress)
    entries = tuple(_write(file, target) for file in bar)
    lines = (json.dumps(asdict(entry), ensure_ascii=False) for entry in entries)
    (target / _MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (target / _STAMP).write_text(json.dumps(stamp), encoding="utf-8")
    return CorpusManifest(target=target, entries=entries)


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description="시연 말뭉치를 폴더에 씁니다.")
    parser.add_argument("target", type=Path, help="쓸 폴더")
    parser.add_argument("--small", action="store_true", help=f"문서 {SMALL_COUNT}건만 씁니다")
    arguments = parser.parse_args()
    manifest = build_corpus(arguments.target, only_small=arguments.small, progress=True)
    for (kind, extension), count in sorted(manifest.counts().items()):
        print(f"{kind}\t{extension}\t{count}")
    print(f"문서 {len(manifest.entries)}건: {manifest.target}")


if __name__ == "__main__":
    main()
