"""Conversations on disk: ``<scope folder>/chats/<user>/<conversation>.jsonl``, one answered question a line.

Promised: a conversation lies in the folder of the farm it was held for and is looked up there only, so that no id of
another farm opens; removing a farm's folder removes its conversations. A line is there whole or not at all (the file
is replaced, never appended to). ``user`` is a random id carried by the browser's address; it keeps people's lists
apart, it is not a login: whoever has the address has the conversations.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from rag.files import write_whole
from rag.ui.turn import ENTRY, Entry

_ID = re.compile(r"[0-9a-f]{16}")


def new_id() -> str:
    """A random id for a user, a conversation or an entry."""
    return secrets.token_hex(8)


def valid_id(text: str | None) -> bool:
    """Whether ``text`` has the form of an id; anything else never reaches the file system."""
    return text is not None and _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of the conversation list."""

    id: str
    title: str


class Chats:
    """The conversations of one user with one farm (or with the public documents)."""

    def __init__(self, scope_folder: Path, user: str) -> None:
        if not valid_id(user):
            raise ValueError(f"user id {user!r} is not 16 hexadecimal digits")
        self._folder = scope_folder / "chats" / user

    def recent(self) -> list[Conversation]:
        """All conversations, the one last written first."""
        files = sorted(self._folder.glob("*.jsonl"), key=lambda f: (-f.stat().st_mtime_ns, f.name))
        titled = [(file.stem, self.read(file.stem)) for file in files]
        return [Conversation(name, entries[0].question) for name, entries in titled if entries]

    def exists(self, conversation: str) -> bool:
        """Whether this user has that conversation here."""
        return valid_id(conversation) and self._file(conversation).exists()

    def read(self, conversation: str) -> list[Entry]:
        """The entries of a conversation; lines of an older program version that cannot be read are left out."""
        if not self.exists(conversation):
            return []
        entries = []
        for line in self._file(conversation).read_text(encoding="utf-8").splitlines():
            try:
                entries.append(ENTRY.validate_json(line))
            except ValidationError:
                continue
        return entries

    def append(self, conversation: str, entry: Entry) -> None:
        """Add an entry, once: an id that is there already changes nothing."""
        file = self._file(conversation)
        self._folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self._folder / ".lock", timeout=10):
            old = file.read_text(encoding="utf-8") if file.exists() else ""
            if f'"id":"{entry.id}"' in old:
                return
            write_whole(file, old.encode() + ENTRY.dump_json(entry) + b"\n")

    def delete(self, conversation: str) -> None:
        """Remove a conversation."""
        if self.exists(conversation):
            self._file(conversation).unlink(missing_ok=True)

    def _file(self, conversation: str) -> Path:
        if not valid_id(conversation):
            raise ValueError(f"conversation id {conversation!r} is not 16 hexadecimal digits")
        return self._folder / f"{conversation}.jsonl"
