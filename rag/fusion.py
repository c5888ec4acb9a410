"""Weighted reciprocal rank fusion.

    S(d) = Σ_r  s(r) · w_c(r) / (rrf_k + rank_r(d))

over the channel results r that returned chunk d (c(r) is the channel of r, s(r) the share of its question: 1 for the
whole question, less for a sub-question); a result without d adds 0.
Unweighted form with k = 60: Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
individual Rank Learning Methods", SIGIR 2009.

Ranks count from 1; weights sum to 1; ``rrf_k`` ≥ 1, so S lies in (0, n/(rrf_k + 1)] with n the largest number of
results of one channel. A small ``rrf_k`` trusts the top of each list, a large one counts votes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag.errors import ProfileError, ScopeViolation
from rag.schema import CHANNELS, ChannelResult, Hit, Vote, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedHit:
    """A fused chunk before its text is read: ``score`` = Σ ``vote.value`` (``math.fsum``), shares sum to 1."""

    chunk_id: str
    scope_id: str
    score: float
    votes: tuple[Vote, ...]


def fuse(results: Sequence[ChannelResult], weights: Weights, rrf_k: int, *, limit: int | None = None) -> list[FusedHit]:
    """S(d) = Σ_r s(r)·w_c(r) / (rrf_k + rank_r(d)), best first, ties by chunk id; at most ``limit`` (None: all).

    Every result votes on its own, so a channel asked with three sub-questions votes up to three times for a chunk.
    A vote's weight is s(r)·w_c(r).
    Within one result a repeated chunk counts once, at its best rank. A channel of weight 0 casts no vote and a chunk
    without votes is left out. The order of ``results`` does not matter, and raw hits are only read.

    Raises:
        ProfileError: ``rrf_k`` is below 1.
        ScopeViolation: one chunk id came back under two scopes.
        ValueError: ``limit`` is negative.
    """
    if rrf_k < 1:
        raise ProfileError(f"rrf_k = {rrf_k} 은(는) 1 이상이어야 합니다. 프로필 파일의 rrf_k를 고쳐 주세요.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit = {limit} must be None or at least 0")
    scopes: dict[str, str] = {}
    values: dict[str, list[tuple[str, int, float, float]]] = {}
    for result in results:
        weight = weights[result.channel] * result.share
        for hit in _first_of_each(result.hits):
            if scopes.setdefault(hit.chunk_id, hit.scope_id) != hit.scope_id:
                raise ScopeViolation(
                    f"문단 {hit.chunk_id}이(가) 두 범위({scopes[hit.chunk_id]}, {hit.scope_id})에서 나왔습니다. "
                    "색인을 다시 만들어 주세요."
                )
            value = weight / (rrf_k + hit.rank)
            if value > 0:
                values.setdefault(hit.chunk_id, []).append((result.channel, hit.rank, weight, value))
    scores = {chunk_id: math.fsum(value for *_, value in cast) for chunk_id, cast in values.items()}
    order = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))[:limit]
    return [_fused_hit(chunk_id, scopes[chunk_id], values[chunk_id]) for chunk_id in order]


def _first_of_each(hits: Iterable[Hit]) -> Iterable[Hit]:
    """Hits without repeats; hits come by rank, so the first of a chunk is its best."""
    return {hit.chunk_id: hit for hit in reversed(tuple(hits))}.values()


def _fused_hit(chunk_id: str, scope_id: str, cast: list[tuple[str, int, float, float]]) -> FusedHit:
    score = math.fsum(value for *_, value in cast)
    votes = tuple(
        Vote(channel=channel, rank=rank, weight=weight, value=value, share=value / score)
        for channel, rank, weight, value in sorted(cast, key=_vote_order)
    )
    return FusedHit(chunk_id=chunk_id, scope_id=scope_id, score=score, votes=votes)


def _vote_order(vote: tuple[str, int, float, float]) -> tuple[int, str, int, float]:
    channel, rank, weight, _ = vote
    return (CHANNELS.index(channel) if channel in CHANNELS else len(CHANNELS), channel, rank, -weight)
