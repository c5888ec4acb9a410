"""The levels file (``profiles/answering.v1.json``), as the fitting commands change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag.answering.calibration import RERANKED
from rag.errors import ProfileError
from rag.files import write_whole


def put_levels(path: Path, encoder: str, changes: Mapping[str, Any], *, reranked: bool = False) -> None:
    """Put fitted levels under an encoder, ``reranked``: under its cross-encoder; all else stays, the uncertainty of the
    other answerer, too.

    Raises:
        ProfileError: the file has no levels of that encoder.
    """
    raw = json.loads(path.read_text(encoding="utf-8"))
    if encoder not in raw["encoders"]:
        raise ProfileError(
            f"'{path.name}' 에 임베딩 모델 '{encoder}' 이(가) 없습니다. 먼저 'python -m eval refusal --write' 로 거절 기준을 맞추세요."
        )
    mine = raw["encoders"][encoder]
    if reranked:
        mine = mine.setdefault(RERANKED, {})
    if "uncertainty" in changes:
        changes = {**changes, "uncertainty": {**mine.get("uncertainty", {}), **changes["uncertainty"]}}
    mine.update(changes)
    write_whole(path, (json.dumps(raw, ensure_ascii=False, indent=2) + "\n").encode())
