"""One kind of id before fusion: hits on chunks of another level become hits on the plan's level.

A channel whose index is of another level (an engine that holds one level only, a finer index behind a coarse answer)
finds chunks that no other channel can vote for. Each such hit gives its place to the chunk of the plan's level that
holds it, or, where the plan's level is finer, to the chunks that it holds, in reading order. A chunk counts once, at
its best place; ranks count from 1 again; scores stay the channel's own. A path goes with its chunk where that is one.
"""

from __future__ import annotations

from dataclasses import replace

from rag.schema import ChannelResult, Hit, RetrievalPlan
from rag.stores.view import View


def roll_up(result: ChannelResult, view: View, plan: RetrievalPlan) -> ChannelResult:
    """``result`` on the plan's level; the same object where it is so already.

    Chunks that the view does not know (taken in since the question was read) stay as they are.
    """
    known = view.levels[plan.granularity].row_of
    if all(hit.chunk_id in known for hit in result.hits):
        return result
    best: dict[str, Hit] = {}
    for hit in result.hits:
        for scope_id, chunk_id in view.at_level(hit.chunk_id, plan.granularity) or ((hit.scope_id, hit.chunk_id),):
            best.setdefault(chunk_id, replace(hit, chunk_id=chunk_id, scope_id=scope_id))
    kept = list(best.values())[: plan.depth.get(result.channel)]
    moved = ((path, view.at_level(path.chunk_id, plan.granularity)) for path in result.paths)
    return replace(
        result,
        hits=tuple(replace(hit, rank=rank) for rank, hit in enumerate(kept, start=1)),
        paths=tuple(replace(path, chunk_id=chunks[0][1]) for path, chunks in moved if len(chunks) == 1),
    )
