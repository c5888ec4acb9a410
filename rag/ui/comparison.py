"""What two rankings of one question differ in, and how well each does where the right documents are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from rag.schema import CHANNEL_LABELS, ChunkRecord, Evidence, Scope
from rag.ui.escape import shortened
from rag.ui.turn import Turn

if TYPE_CHECKING:
    from eval.questions import Question

TOP = 10
_STEP = 0.005

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A passage's places among the first ten on both sides; None: not among them."""

    chunk: ChunkRecord
    before: int | None
    after: int | None

    @property
    def up(self) -> int:
        """Places gained (negative: lost); a passage outside the ten counts as place 11."""
        return (self.before or TOP + 1) - (self.after or TOP + 1)


def ranks(turn: Turn) -> dict[str, int]:
    """chunk id → place among the first ten."""
    return {item.chunk.chunk_id: place for place, item in enumerate(turn.evidence[:TOP], start=1)}


def moves(before: Turn, after: Turn) -> list[Move]:
    """Every passage among the first ten of either side, in the order of the second side."""
    old, new = ranks(before), ranks(after)
    chunks = {item.chunk.chunk_id: item.chunk for turn in (after, before) for item in turn.evidence[:TOP]}
    return [Move(chunk=chunk, before=old.get(name), after=new.get(name)) for name, chunk in chunks.items()]


def move_mark(before: int | None, after: int) -> str:
    """ "▲3", "▼1", "새로", or "=" for a passage at place ``after`` that was at ``before``."""
    if before is None:
        return "새로"
    if before == after:
        return "="
    return f"▲{before - after}" if before > after else f"▼{after - before}"


def what_changed(before: Turn, after: Turn) -> str:
    """One Korean sentence: which channel's weight changed most, and what that did to the ranking."""
    return f"{_weight_part(before, after)} {_ranking_part(before, after)}"


def _weight_part(before: Turn, after: Turn) -> str:
    old, new = before.weights.final, after.weights.final
    channels = dict.fromkeys((*old.by_channel, *new.by_channel))
    channel = max(channels, key=lambda c: abs(new[c] - old[c]))
    if abs(new[channel] - old[channel]) < _STEP:
        return "채널의 몫은 같고,"
    verb = "늘어" if new[channel] > old[channel] else "줄어"
    return f"{CHANNEL_LABELS.get(channel, channel)}의 몫이 {old[channel]:.1%}에서 {new[channel]:.1%}로 {verb},"


def _ranking_part(before: Turn, after: Turn) -> str:
    if not after.evidence or not before.evidence:
        return "견줄 근거가 없습니다."
    changed = moves(before, after)
    first_old, first_new = before.evidence[0].chunk, after.evidence[0].chunk
    if all(move.before == move.after for move in changed):
        return f"{TOP}위까지의 순서는 그대로입니다."
    up = sum(m.before is not None and m.after is not None and m.up > 0 for m in changed)
    down = sum(m.before is not None and m.after is not None and m.up < 0 for m in changed)
    new = sum(m.before is None for m in changed)
    top = (
        "1위는 그대로이고"
        if first_old.chunk_id == first_new.chunk_id
        else f"1위가 ‘{_name(first_old)}’에서 ‘{_name(first_new)}’(으)로 바뀌고"
    )
    return f"{top} {TOP}위 안에서 {up}개가 오르고 {down}개가 내렸으며 {new}개가 새로 들어왔습니다."


def _name(chunk: ChunkRecord) -> str:
    return shortened(" · ".join(part for part in (chunk.title, chunk.section) if part), 40)


def documents(evidence: Sequence[Evidence]) -> list[str]:
    """Document ids by their best passage."""
    return list(dict.fromkeys(item.chunk.doc_id for item in evidence))


def ndcg(ranking: Sequence[str], gold: Groups) -> float:
    """nDCG@10 of a document ranking, as the evaluation counts it."""
    from eval.farm import ndcg_at_10

    return ndcg_at_10(ranking, gold)


def hit_place(ranking: Sequence[str], gold: Groups) -> int | None:
    """Place of the first gold document, or None."""
    right = {document for group in gold for document in group}
    return next((place for place, document in enumerate(ranking, start=1) if document in right), None)


def gold_of(question: str, scope: Scope, asked_on: date) -> Groups:
    """The right documents of a question of the evaluation set, for this asker and day; empty where it is not in it."""
    wanted = "".join(question.split())
    for known in _known_questions():
        if "".join(known.question.split()) == wanted and known.farm in (None, scope.farm_id):
            return known.gold if known.asked_at.date() == asked_on else ()
    return ()


@lru_cache(maxsize=1)
def _known_questions() -> tuple[Question, ...]:
    """The evaluation set; empty where it is not installed."""
    try:
        from eval.questions import SETS_DIR, load_questions
    except ImportError:
        return ()
    path = SETS_DIR / "farm.jsonl"
    return load_questions(path) if path.exists() else ()
