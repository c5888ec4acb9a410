"""Named weighting systems: where the weights of a question come from.

    adaptive     the profile's weights through the guardrails, rrf_k of the profile
    llm_weights  what a language model picked for the question (``rag.weighting_llm``), otherwise as adaptive
    uniform      1:1:1, baseline 1:1 (vector, BM25), dense / sparse / graph one channel; rrf_k = 60

The value 60 is the constant of Cormack, Clarke & Büttcher (SIGIR 2009). All systems can be computed from one run of
the channels, so a comparison differs in nothing but the weights.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence

from rag import guardrails
from rag.errors import SettingsError
from rag.schema import BM25, GRAPH, VECTOR, ChannelResult, Decision, Guardrails, Profile, Weights, WeightSteps

ADAPTIVE = "adaptive"
LLM_WEIGHTS = "llm_weights"
FIXED_RRF_K = 60

SYSTEMS: Mapping[str, str] = {
    ADAPTIVE: "적응",
    "uniform": "균등 1:1:1",
    "baseline": "기준(2채널)",
    "dense": "의미만",
    "sparse": "키워드만",
    "graph": "관계만",
    LLM_WEIGHTS: "LLM 가중치",
}
# These two share everything but the raw weights: rrf_k, depths, walk and guardrails are the profile's.
_BY_PROFILE = (ADAPTIVE, LLM_WEIGHTS)
MODEL_FREE: tuple[str, ...] = tuple(system for system in SYSTEMS if system != LLM_WEIGHTS)
FIXED_WEIGHTS: Mapping[str, Weights] = {
    "uniform": Weights.equal(),
    "baseline": Weights.equal((VECTOR, BM25)),
    "dense": Weights({VECTOR: 1.0}),
    "sparse": Weights({BM25: 1.0}),
    "graph": Weights({GRAPH: 1.0}),
}


def alive_channels(results: Sequence[ChannelResult]) -> frozenset[str]:
    """Channels with a valid result: status ``ok`` (hence hits) for at least one (sub-)question."""
    return frozenset(result.channel for result in results if result.status == "ok")


def weights_for(
    system: str,
    profile: Profile,
    results: Sequence[ChannelResult],
    fallback: Weights,
    *,
    reference: Weights | None = None,
    picked: Weights | None = None,
) -> WeightSteps:
    """raw → bounded → final weights of ``system``.

    ``fallback``: the default profile's weights, used by ``adaptive`` when no channel with weight answered.
    ``reference``: centre of the slew box, the profile's ``previous_weights`` unless given (for ``llm_weights`` its
    ``weights``).
    ``picked``: what the language model chose; ``llm_weights`` only.
    A fixed system has no guardrails and stays within its own channels: when none of them answered its weights are
    unchanged and nothing is found, so that "graph alone" never shows what another channel found.

    Raises:
        SettingsError: ``system`` is not one of ``SYSTEMS``.
        ProfileError: the guardrails of ``profile`` allow no weights.
        ValueError: ``llm_weights`` without ``picked``.
    """
    alive = _counted(system, results)
    if system in _BY_PROFILE:
        raw = profile.weights if system == ADAPTIVE else picked
        if raw is None:
            raise ValueError(f"{system} needs the weights that the model picked")
        centre = reference or _centre(system, profile)
        return guardrails.apply_guardrails(raw, centre, profile.guardrails, alive, fallback)
    raw = FIXED_WEIGHTS[system]
    return WeightSteps(raw=raw, bounded=raw, final=guardrails.drop_dead(raw, alive, raw))


def with_shares(weights: Weights, shares: Mapping[str, float]) -> Weights:
    """w_c · (1 − Σ shares) beside the ``shares`` of further channels; weights that name one of these stay as they are.

    ``shares`` lie in (0, 1) and sum to less than 1. Dead further channels leave the weights as they were
    (``guardrails.drop_dead``).
    """
    if not shares or any(weights[channel] > 0 for channel in shares):
        return weights
    rest = 1 - math.fsum(shares.values())
    return Weights({**{channel: weight * rest for channel, weight in weights.by_channel.items()}, **shares})


def explain_weights(
    system: str,
    profile: Profile,
    results: Sequence[ChannelResult],
    steps: WeightSteps,
    *,
    reference: Weights | None = None,
) -> tuple[Decision, ...]:
    """Why ``steps`` (from ``weights_for`` with the same arguments) differ from the raw weights, in Korean.

    Raises:
        SettingsError: ``system`` is not one of ``SYSTEMS``.
    """
    alive = _counted(system, results)
    if system in _BY_PROFILE:
        return guardrails.explain(steps, reference or _centre(system, profile), profile.guardrails, alive)
    return guardrails.explain(steps, steps.raw, Guardrails(), alive)


def rrf_k_for(system: str, profile: Profile) -> int:
    """The profile's rrf_k for ``adaptive`` and ``llm_weights``, 60 for every fixed system.

    Raises:
        SettingsError: ``system`` is not one of ``SYSTEMS``.
    """
    _check(system)
    return profile.rrf_k if system in _BY_PROFILE else FIXED_RRF_K


def _centre(system: str, profile: Profile) -> Weights:
    return profile.previous_weights if system == ADAPTIVE else profile.weights


def _counted(system: str, results: Sequence[ChannelResult]) -> frozenset[str]:
    _check(system)
    alive = alive_channels(results)
    return alive if system in _BY_PROFILE else alive & FIXED_WEIGHTS[system].by_channel.keys()


def _check(system: str) -> None:
    if system in SYSTEMS:
        return
    nearest = difflib.get_close_matches(system, SYSTEMS, n=1, cutoff=0.0)[0]
    raise SettingsError(
        f"검색 방식 '{system}'을(를) 모릅니다. '{nearest}'을(를) 뜻하셨나요? 쓸 수 있는 값: {', '.join(SYSTEMS)}"
    )
