"""The LlamaIndex face of profile-weighted fusion.

``ProfileFusionRetriever`` subclasses ``QueryFusionRetriever`` so that LlamaIndex engines accept it. Inherited: the
retriever interface (``retrieve``, ``aretrieve``, callbacks, nodes with scores). Bypassed, because they would change
the result: query generation by an LLM, the fusion modes (reciprocal-rank mode ignores weights), and the merging of
nodes (it keys on text + metadata, so one chunk seen by two channels can lose a vote). The plan rides on the query
bundle, never on ``self``: one cached retriever serves all sessions. A bare bundle means public scope and the default
policy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from rag.channels.base import Channel, run_channels
from rag.channels.roll_up import roll_up
from rag.errors import SettingsError
from rag.evidence import EvidenceModel
from rag.fusion import fuse
from rag.schema import (
    ChannelResult,
    Evidence,
    FusedEvidence,
    Profile,
    RetrievalPlan,
    Weights,
    WeightSteps,
)
from rag.stores.view import Views
from rag.tracing import Recorder
from rag.weighting import ADAPTIVE, LLM_WEIGHTS, explain_weights, rrf_k_for, weights_for, with_shares
from rag.weighting_llm import LlmWeighting

# Rankings are shown and measured at least this long.
MIN_RANKING = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan with what decides its weights.

    ``picked``: by the language model, for ``llm_weights`` only; ``evidence``: may move the row's weights, for
    ``adaptive`` only.
    """

    plan: RetrievalPlan
    profile: Profile
    fallback: Weights
    system: str
    picked: Weights | None = None
    evidence: EvidenceModel | None = None


@dataclass
class PlannedBundle(QueryBundle):
    """A query bundle that carries its plan."""

    planned: Planned | None = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """Channel results, the weights they got, and the fused ranking."""

    results: tuple[ChannelResult, ...]
    weights: WeightSteps
    evidence: FusedEvidence


class _ChannelRetriever(BaseRetriever):
    """Placeholder child: LlamaIndex wants a list of retrievers; the channels are run by ``retrieve_plan``."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise NotImplementedError("channels run through ProfileFusionRetriever.retrieve_plan")


class ProfileFusionRetriever(QueryFusionRetriever):
    """Runs the channels of a plan and fuses them with the profile's weights."""

    def __init__(
        self,
        channels: Sequence[Channel],
        views: Views,
        default_plan: Callable[[str], Planned],
        llm_weighting: LlmWeighting | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """``shares``: channel → weight of channels that the profiles do not weigh (``rag.weighting.with_shares``)."""
        super().__init__([_ChannelRetriever() for _ in channels], llm=MockLLM(), num_queries=1, use_async=False)
        self._channels = tuple(channels)
        self._views = views
        self._default_plan = default_plan
        self.llm_weighting = llm_weighting
        self._shares = dict(shares or {})

    def pick_weights(
        self,
        planned: Planned,
        recorder: Recorder,
        *,
        cancel: threading.Event | None = None,
        on_queue: Callable[[int], None] | None = None,
    ) -> Planned:
        """``planned`` with the weights of the language model where its system wants them; before retrieval.

        Raises:
            SettingsError: ``llm_weights`` without a model.
        """
        if planned.system != LLM_WEIGHTS or planned.picked is not None:
            return planned
        if self.llm_weighting is None:
            raise SettingsError(
                f"방식 '{LLM_WEIGHTS}' 에는 언어 모델이 있어야 합니다. onsil.toml 의 model 에 GGUF 파일을 적거나 "
                "'--model FILE' 을 주거나, 다른 방식을 고르세요."
            )
        with recorder.span(LLM_WEIGHTS):
            found = self.llm_weighting.pick(planned.plan.queries[0].text, cancel=cancel, on_queue=on_queue)
        recorder.decide(found.decision.stage, found.decision.what, found.decision.why, **found.decision.data)
        return replace(planned, picked=found.weights)

    def run(self, plan: RetrievalPlan, recorder: Recorder) -> tuple[ChannelResult, ...]:
        """Run all channels of the plan, also those with weight 0: the comparison reads them. Hits are of its level."""
        with recorder.span("retrieval"):
            results = run_channels(self._channels, plan, recorder)
            view = self._views.get(plan.scope)
            return tuple(roll_up(result, view, plan) for result in results)

    def fuse_results(self, planned: Planned, results: tuple[ChannelResult, ...], recorder: Recorder) -> Retrieved:
        """Weights for ``planned.system`` and the fused ranking, scope-checked.

        Raises:
            ScopeViolation: a chunk outside the visible scopes came back.
        """
        plan, profile = planned.plan, planned.profile
        with recorder.span("weighting"):
            if planned.evidence is not None and planned.system == ADAPTIVE:
                move = planned.evidence.move(profile, results, plan.queries[0])
                profile = move.profile
                recorder.decide(move.decision.stage, move.decision.what, move.decision.why, **move.decision.data)
            profile = replace(
                profile,
                weights=with_shares(profile.weights, self._shares),
                previous_weights=with_shares(profile.previous_weights, self._shares),
            )
            fallback = with_shares(planned.fallback, self._shares)
            picked = None if planned.picked is None else with_shares(planned.picked, self._shares)
            steps = weights_for(planned.system, profile, results, fallback, picked=picked)
            for decision in explain_weights(planned.system, profile, results, steps):
                recorder.decide(decision.stage, decision.what, decision.why, **decision.data)
        with recorder.span("fusion"):
            fused = fuse(
                results,
                steps.final,
                rrf_k_for(planned.system, profile),
                limit=max(MIN_RANKING, plan.top_k),
            )
        with recorder.span("evidence"):
            view = self._views.get(plan.scope).plus([passage for result in results for passage in result.passages])
            chunks = view.chunks([(hit.scope_id, hit.chunk_id) for hit in fused])
            items = tuple(
                Evidence(chunk=chunks[hit.chunk_id], score=hit.score, votes=hit.votes)
                for hit in fused
                if hit.chunk_id in chunks
            )
        return Retrieved(results=results, weights=steps, evidence=FusedEvidence(items=items).checked(plan.scope))

    def retrieve_plan(self, planned: Planned, recorder: Recorder) -> Retrieved:
        """The one retrieval function: channels, weights, fusion."""
        planned = self.pick_weights(planned, recorder)
        return self.fuse_results(planned, self.run(planned.plan, recorder), recorder)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        planned = query_bundle.planned if isinstance(query_bundle, PlannedBundle) else None
        retrieved = self.retrieve_plan(planned or self._default_plan(query_bundle.query_str), Recorder())
        return [_node(item) for item in retrieved.evidence]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


def _node(item: Evidence) -> NodeWithScore:
    chunk = item.chunk
    node = TextNode(
        id_=chunk.chunk_id,
        text=chunk.text,
        metadata={
            "title": chunk.title,
            "section": chunk.section,
            "locator": chunk.locator,
            "scope_id": chunk.scope_id,
            "shares": {vote.channel: round(vote.share, 4) for vote in item.votes},
        },
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.doc_id)},
    )
    return NodeWithScore(node=node, score=item.score)
