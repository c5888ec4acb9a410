"""The files of a ZIP archive, one at a time, so that memory holds one of them.

Member names are decoded (old Korean archivers write CP949 without saying so), normalised and kept inside the archive;
the sizes that the archive claims are checked before anything is unpacked, those that come out while it is.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from ingest.limits import Limits, size_text
from ingest.loaders.sniff import is_archive
from ingest.names import is_hidden, logical_path, member_path

_UTF8, _ENCRYPTED = 0x800, 0x1


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive; ``path`` is the archive's own path, "/", and the place inside."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """A member, or a whole archive, that is not unpacked, and why (Korean, with the remedy)."""

    path: str
    reason: str


@dataclass(slots=True)
class _Budget:
    """What may still be unpacked, nested archives included."""

    bytes: int
    members: int


def unpack(data: bytes, path: str, limits: Limits) -> Iterator[Member | Refused]:
    """The members of the archive ``path`` in their order, those of archives inside it included."""
    budget = _Budget(limits.unpacked(len(data)), limits.zip_members)
    yield from _unpack(data, path, limits, budget, 1)


def _unpack(data: bytes, path: str, limits: Limits, budget: _Budget, depth: int) -> Iterator[Member | Refused]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        yield Refused(path, f"'{path}': ZIP 파일이 손상되었습니다({type(error).__name__}). 다시 묶어 올려 주세요.")
        return
    with archive:
        infos = [info for info in archive.infolist() if not info.is_dir() and not is_hidden(_name(info))]
        reason = _over_budget(path, infos, limits, budget)
        if reason:
            yield Refused(path, reason)
            return
        for info in infos:
            yield from _member(archive, info, path, limits, budget, depth)


def _over_budget(path: str, infos: list[zipfile.ZipInfo], limits: Limits, budget: _Budget) -> str:
    """Why an archive is refused as a whole, "" if it is not."""
    expanded = sum(info.file_size for info in infos)
    if not infos:
        return f"'{path}': 묶음 안에 파일이 없습니다. 내용을 확인해 다시 올려 주세요."
    if len(infos) > budget.members:
        return f"'{path}': 묶음 안의 파일이 너무 많습니다({len(infos):,}개, 한도 {limits.zip_members:,}개). 나누어 올려 주세요."
    if expanded > budget.bytes:
        return (
            f"'{path}': 압축을 풀면 너무 큽니다({size_text(expanded)}, 남은 한도 {size_text(budget.bytes)}). "
            "압축 폭탄일 수 있어 풀지 않았습니다. 믿을 수 있는 파일이면 풀어서 나누어 올려 주세요."
        )
    return ""


def _member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, outer: str, limits: Limits, budget: _Budget, depth: int
) -> Iterator[Member | Refused]:
    name = _name(info)
    inner = member_path(name)
    path = f"{outer}/{inner or PurePosixPath(logical_path(name)).name}"
    reason = _unsafe(info, path, inner, limits)
    data = b""
    if not reason:
        try:
            data = archive.read(info)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            reason = f"'{path}': 묶음 안에서 손상된 파일입니다({type(error).__name__}). 원본을 다시 묶어 올려 주세요."
    budget.bytes -= len(data)
    budget.members -= 1
    if reason:
        yield Refused(path, reason)
    elif not is_archive(data, path):
        yield Member(path, data)
    elif depth >= limits.zip_depth:
        yield Refused(path, f"'{path}': 묶음이 {limits.zip_depth}겹보다 깊습니다. 안쪽 묶음을 풀어서 올려 주세요.")
    else:
        yield from _unpack(data, path, limits, budget, depth + 1)


def _unsafe(info: zipfile.ZipInfo, path: str, inner: str | None, limits: Limits) -> str:
    """Why a member is not unpacked, "" if it may be."""
    if inner is None:
        return f"'{path}': 묶음 밖을 가리키는 이름('..' 또는 절대 경로)이라 풀지 않았습니다. 다시 묶어 올려 주세요."
    if stat.S_ISLNK(info.external_attr >> 16):
        return f"'{path}': 다른 파일을 가리키는 바로 가기라 풀지 않았습니다. 파일 자체를 넣어 다시 묶어 주세요."
    if info.flag_bits & _ENCRYPTED:
        return f"'{path}': 암호가 걸린 파일입니다. 암호 없이 다시 묶어 올려 주세요."
    if info.file_size > limits.bytes:
        return (
            f"'{path}': 파일이 너무 큽니다({size_text(info.file_size)}, 한도 {size_text(limits.bytes)}). "
            "나누어 올리거나 설정 ingest_limit_mb 를 올려 주세요."
        )
    return ""


def _name(info: zipfile.ZipInfo) -> str:
    """The name as it was meant, with "/": without the UTF-8 flag ``zipfile`` reads CP437, which hides UTF-8 or CP949."""
    name = info.filename
    if not info.flag_bits & _UTF8:
        try:
            raw = name.encode("cp437")
            name = raw.decode()
        except UnicodeEncodeError:
            pass
        except UnicodeDecodeError:
            name = raw.decode("cp949", "replace")
    return name.replace("\\", "/")
