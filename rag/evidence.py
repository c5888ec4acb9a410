"""Evidence-aware control: signals that the channels give for free may move a profile's weights.

After the channels have answered, a linear gate over a few signals chooses one of the arms of the profile file. Arm 0 is
the segment's own row; every other arm replaces its weights and ``rrf_k``. The guardrails of the row bound what is chosen,
and walk and depth stay the row's, for the channels have run by then::

    x_i   = clip((signal_i − mean_i) / sd_i, −3, 3)
    z_a   = bias_a + Σ_i coefficient_{a,i} · x_i
    arm   = argmax_a z_a                                  (the first of equals)

The gate is a mixture-of-experts gate (Jacobs, Jordan, Nowlan & Hinton 1991) with one setting for each expert, fitted
offline by ``python -m eval tune`` and kept in the profile file under ``evidence_model``. Pure; the same results give the
same arm. When a channel failed or timed out the signals mean something else, and the row stays as it is.

Signals, of the whole question's lists (parts of a question are not looked at); gaps are differences of a channel's own
scores between two ranks, the last hit where the list is shorter, and 0 without hits:

    dense_top, dense_gap_2, dense_gap_10, dense_gap_20                  cosine
    sparse_top                                                          BM25 score per word of the question
    sparse_gap_2, sparse_gap_10, sparse_gap_20                          as shares of the first score, in [0, 1]
    graph_gap_2, graph_gap_10, graph_gap_20                             log mass
    overlap_dense_sparse, overlap_dense_graph, overlap_sparse_graph     shared hits of the first ten ÷ 10
    first_dense_sparse, first_dense_graph, first_sparse_graph           1 where the first hits are the same
    entities, words                                                     known entities (≤ 6) and BM25 words (≤ 20)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from rag.errors import ProfileError
from rag.schema import BM25, CHANNELS, GRAPH, VECTOR, ChannelResult, Decision, PlannedQuery, Profile, Weights

_CLIP = 3.0
_TOP = 10
_MOST_ENTITIES, _MOST_WORDS = 6, 20
_PAIRS = (("dense_sparse", VECTOR, BM25), ("dense_graph", VECTOR, GRAPH), ("sparse_graph", BM25, GRAPH))
_SHOWN = 3
KEPT = "profile"

SIGNALS: Mapping[str, str] = {
    "dense_top": "의미 검색 1위 유사도",
    "dense_gap_2": "의미 검색 1·2위 차이",
    "dense_gap_10": "의미 검색 1·10위 차이",
    "dense_gap_20": "의미 검색 1·20위 차이",
    "sparse_top": "키워드 검색 1위 점수(낱말당)",
    "sparse_gap_2": "키워드 검색 1·2위 차이",
    "sparse_gap_10": "키워드 검색 1·10위 차이",
    "sparse_gap_20": "키워드 검색 1·20위 차이",
    "graph_gap_2": "관계 검색 1·2위 차이",
    "graph_gap_10": "관계 검색 1·10위 차이",
    "graph_gap_20": "관계 검색 1·20위 차이",
    "overlap_dense_sparse": "의미·키워드가 함께 찾은 문단",
    "overlap_dense_graph": "의미·관계가 함께 찾은 문단",
    "overlap_sparse_graph": "키워드·관계가 함께 찾은 문단",
    "first_dense_sparse": "의미·키워드 1위가 같음",
    "first_dense_graph": "의미·관계 1위가 같음",
    "first_sparse_graph": "키워드·관계 1위가 같음",
    "entities": "아는 개체 수",
    "words": "핵심어 수",
}

Ranked = tuple[Sequence[Hashable], Sequence[float]]


def signals(lists: Mapping[str, Ranked], n_entities: int, n_words: int) -> dict[str, float]:
    """The signals of one question. ``lists``: channel → (ids, scores), best first; a missing channel found nothing."""
    found: dict[str, float] = {}
    ids = {channel: lists.get(channel, ((), ()))[0] for channel in CHANNELS}
    dense, sparse, graph = (lists.get(channel, ((), ()))[1] for channel in (VECTOR, BM25, GRAPH))
    best_sparse = float(sparse[0]) if len(sparse) else 0.0
    found["dense_top"] = float(dense[0]) if len(dense) else 0.0
    found["sparse_top"] = best_sparse / max(n_words, 1)
    for rank in (2, 10, 20):
        found[f"dense_gap_{rank}"] = _gap(dense, rank)
        found[f"sparse_gap_{rank}"] = _gap(sparse, rank) / best_sparse if best_sparse > 0 else 0.0
        found[f"graph_gap_{rank}"] = _gap(graph, rank)
    for name, one, other in _PAIRS:
        found[f"overlap_{name}"] = len({*ids[one][:_TOP]} & {*ids[other][:_TOP]}) / _TOP
        found[f"first_{name}"] = float(bool(len(ids[one])) and bool(len(ids[other])) and ids[one][0] == ids[other][0])
    found["entities"] = float(min(n_entities, _MOST_ENTITIES))
    found["words"] = float(min(n_words, _MOST_WORDS))
    return {name: found[name] for name in SIGNALS}


def _gap(scores: Sequence[float], rank: int) -> float:
    return float(scores[0]) - float(scores[min(rank, len(scores)) - 1]) if len(scores) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Weights and ``rrf_k`` that the gate may choose; without weights the profile row stays as it is."""

    id: str
    weights: Weights | None
    rrf_k: int | None
    bias: float
    coefficients: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What the gate chose: the row to fuse with, and why."""

    profile: Profile
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceModel:
    """The gate. ``scale``: signal → (mean, standard deviation) of the tune part; ``arms[0]`` keeps the row.

    Raises:
        ProfileError: fewer than two arms, a first arm with weights, another without, or a signal that nothing measures.
    """

    scale: Mapping[str, tuple[float, float]]
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        if len(self.arms) < 2 or self.arms[0].weights is not None or any(a.weights is None for a in self.arms[1:]):
            raise ProfileError(
                "evidence_model.arms: 첫 갈래는 가중치 없이(프로필 그대로), 나머지는 가중치와 함께 둘 이상 적어 주세요."
            )
        named = {*self.scale, *(name for arm in self.arms for name in arm.coefficients)}
        unknown = sorted(named - SIGNALS.keys()) or sorted(
            {n for a in self.arms for n in a.coefficients} - {*self.scale}
        )
        if unknown:
            raise ProfileError(f"evidence_model: 신호 {unknown} 을(를) 모르거나 scale 에 없습니다.")

    def choose(self, values: Mapping[str, float]) -> tuple[int, dict[str, float]]:
        """Number of the chosen arm, and each signal's part in its lead over arm 0 (log odds)."""
        x = {name: max(-_CLIP, min(_CLIP, (values[name] - mean) / sd)) for name, (mean, sd) in self.scale.items()}
        score = [arm.bias + math.fsum(c * x[name] for name, c in arm.coefficients.items()) for arm in self.arms]
        best = max(range(len(score)), key=lambda a: (score[a], -a))
        kept, chosen = self.arms[0].coefficients, self.arms[best].coefficients
        return best, {name: (chosen.get(name, 0.0) - kept.get(name, 0.0)) * value for name, value in x.items()}

    def with_arm(self, profile: Profile, number: int) -> Profile:
        """``profile`` with the weights and ``rrf_k`` of an arm."""
        arm = self.arms[number]
        return (
            profile if arm.weights is None else replace(profile, weights=arm.weights, rrf_k=arm.rrf_k or profile.rrf_k)
        )

    def move(self, profile: Profile, results: Sequence[ChannelResult], query: PlannedQuery) -> Move:
        """``profile`` or its copy with the chosen arm's weights and ``rrf_k``. ``results`` start with the whole question."""
        whole = {result.channel: result for result in results[: len({r.channel for r in results})]}
        broken = [
            channel for channel in CHANNELS if channel not in whole or whole[channel].status not in ("ok", "empty")
        ]
        if broken:
            return Move(
                profile=profile,
                decision=Decision(
                    stage="evidence", what="프로필 그대로", why="답하지 않은 검색이 있어 신호를 쓰지 않습니다."
                ),
            )
        lists = {c: ([h.chunk_id for h in r.hits], [h.score for h in r.hits]) for c, r in whole.items()}
        values = signals(lists, len(query.entities), len(query.tokens))
        number, parts = self.choose(values)
        return Move(profile=self.with_arm(profile, number), decision=_explain(self.arms, number, values, parts))


def _explain(arms: Sequence[Arm], number: int, values: Mapping[str, float], parts: Mapping[str, float]) -> Decision:
    arm = arms[number]
    if arm.weights is None:
        return Decision(
            stage="evidence",
            what="프로필 그대로",
            why="검색 결과의 신호가 가중치를 바꿀 까닭을 주지 않습니다.",
            data={"arm": arm.id},
        )
    strongest = sorted(parts, key=lambda name: (-parts[name], name))[:_SHOWN]
    reasons = [f"{SIGNALS[name]} {values[name]:.3g}" for name in strongest if parts[name] > 0]
    return Decision(
        stage="evidence",
        what=f"검색 결과를 보고 가중치를 '{arm.id}'(으)로 옮겼습니다.",
        why=", ".join(reasons) or "기본 성향(질문들에서 이 갈래가 더 나았습니다).",
        data={
            "arm": arm.id,
            "weights": dict(arm.weights.by_channel),
            "rrf_k": arm.rrf_k,
            "moved_by": {name: round(parts[name], 3) for name in strongest},
        },
    )
