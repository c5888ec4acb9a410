"""Logical paths: the name a file has in the index, safe in every line format; and the files of a folder by name.

NFC, "/" between the parts, no control, formatting or separator characters, never above the folder it came from.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath

from rag.errors import IngestError

_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_DRIVE = re.compile(r"^[A-Za-z]:")
_LEFTOVERS = ("__MACOSX", "Thumbs.db", "desktop.ini")
_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")


def logical_path(path: PurePath | str) -> str:
    """The path as it stands in the index; a character that would break a line becomes "_"."""
    text = _readable(path.as_posix() if isinstance(path, PurePath) else path)
    text = unicodedata.normalize("NFC", text)
    return "".join("_" if unicodedata.category(char) in _UNSAFE else char for char in text)


def member_path(name: str) -> str | None:
    """The logical path of an archive's member; None for one that points outside (absolute, drive letter, "..")."""
    path = PurePosixPath(logical_path(name.replace("\\", "/")))
    if path.is_absolute() or _DRIVE.match(str(path)) or ".." in path.parts or not path.parts:
        return None
    return str(path)


def is_hidden(path: str) -> bool:
    """Whether a part of the path starts with a dot, or belongs to what archivers and desktops leave behind."""
    parts = PurePosixPath(path).parts
    return any(part in _LEFTOVERS or (part.startswith(".") and part != "..") for part in parts)


def kept_suffix(path: str) -> str:
    """The ending under which an original is kept: ".pdf", or "" for anything unusual."""
    suffix = PurePosixPath(path).suffix.lower()
    return suffix if _SUFFIX.fullmatch(suffix) else ""


def find_files(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """(file, logical path) of all files below ``paths``, in name order.

    Hidden files are left out, and links that lead out of the folder (``links_outside`` names those).

    Raises:
        IngestError: a path does not exist, or a folder holds no file.
    """
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            below = list(_below(path))
            if not below:
                raise IngestError(
                    f"'{logical_path(path)}' 폴더에 넣을 파일이 없습니다. 다른 폴더를 고르거나 문서를 넣은 뒤 다시 실행해 주세요."
                )
            found += [(file, name) for file, name, inside in below if inside]
        elif path.is_file():
            found.append((path, logical_path(path.name)))
        else:
            raise IngestError(f"'{logical_path(path)}' 을(를) 찾을 수 없습니다. 경로를 확인해 주세요.")
    return found


def links_outside(paths: Sequence[Path]) -> list[str]:
    """Logical paths of the links below the folders among ``paths`` that lead out of their folder."""
    return [name for path in paths if path.is_dir() for _, name, inside in _below(path) if not inside]


def _below(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """(file or link, logical path, whether it lies within the folder); folders that are links are not entered."""
    root = os.path.realpath(folder)
    for path in sorted(folder.rglob("*")):
        name = logical_path(path.relative_to(folder))
        if is_hidden(name):
            continue
        inside = not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(root)
        if path.is_file() or not inside:
            yield path, name, inside


def _readable(text: str) -> str:
    """File names that are not UTF-8 (old Korean disks hold CP949) reach Python as lone surrogates."""
    try:
        data = text.encode("utf-8", "surrogateescape")
        return data.decode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    except UnicodeDecodeError:
        return data.decode("cp949", "replace")
