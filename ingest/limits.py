"""How much one file may hold. Checked before a parser sees it."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``bytes`` of one file (of an archive and of each member, too), PDF ``pages``, and what an archive may unpack to.

    ``zip_depth``: archives inside archives, the outermost counts 1. ``zip_ratio``: unpacked size / packed size; an
    archive that stays below the size limit of one file is never refused for its ratio.
    """

    bytes: int = 50 * MEGABYTE
    pages: int = 2000
    zip_depth: int = 2
    zip_ratio: int = 100
    zip_members: int = 5000

    def unpacked(self, packed: int) -> int:
        """The most that an archive of ``packed`` bytes may unpack to."""
        return max(self.bytes, min(self.zip_ratio * packed, 20 * self.bytes))


def size_text(count: int) -> str:
    """A size as a person reads it."""
    return f"{count / MEGABYTE:.1f}MB" if count >= MEGABYTE else f"{count:,}바이트"
