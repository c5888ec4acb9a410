"""Parts of a question that asks several things, and other words for what records are asked for. Rules only.

"뭐가 옮기고, 그 벌레는 어떻게 막아요?" has two parts: a part ends at a question mark, or at a connective ending (…고, …며,
…는데) or comma, if what came before it asks something itself. Each part is searched and answered beside the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_PARTS = 3
_BREAK = re.compile(
    r"(?<=[?？])\s*|(?<=[가-힣]고)[,\s]\s*|(?<=[가-힣]며)[,\s]\s*|(?<=는데)[,\s]\s*|,\s*|\s+그리고\s+|\.\s+"
)
_ASKS = re.compile(
    r"뭐|뭘|무엇|무슨|어떤|어떻게|어느|어디|언제|왜|얼마|몇|며칠|누가|누구|까닭|이유|원인|방법|대책|[?？]|(?:나요|가요|까요|죠|지요|냐)$"
)
# What the asker says → what records write.
RECORD_WORDS: dict[str, tuple[str, ...]] = {
    "약": ("방제", "살포"),
    "치": ("방제", "살포"),
    "뿌리": ("방제", "살포"),
    "방제": ("살포",),
    "따": ("수확",),
    "물량": ("수확",),
    "농도": ("ec",),
    "고치": ("수리",),
}


def parts_of(text: str) -> tuple[str, ...]:
    """The parts of ``text`` that ask something, in order; empty when it asks one thing."""
    parts: list[str] = []
    pending = ""
    for piece in _BREAK.split(text):
        pending = f"{pending} {piece}".strip()
        if _ASKS.search(pending):
            parts.append(pending)
            pending = ""
    if pending and parts:
        parts[-1] = f"{parts[-1]} {pending}"
    return tuple(parts[:MAX_PARTS]) if len(parts) > 1 else ()


def record_words(keywords: Sequence[str]) -> tuple[str, ...]:
    """Words that records use for what the keywords ask."""
    return tuple(dict.fromkeys(word for keyword in keywords for word in RECORD_WORDS.get(keyword, ())))
