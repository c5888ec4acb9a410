"""Logical paths: the name a file has in the index, safe in every line format.

NFC, "/" between the parts, no control, formatting or separator characters, never above the folder it came from.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePath, PurePosixPath

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


def _readable(text: str) -> str:
    """File names that are not UTF-8 (old Korean disks hold CP949) reach Python as lone surrogates."""
    try:
        data = text.encode("utf-8", "surrogateescape")
        return data.decode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    except UnicodeDecodeError:
        return data.decode("cp949", "replace")
