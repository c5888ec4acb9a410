"""The only module that names concrete classes: settings → a ready pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from rag.answering.calibration import Relevance, load_calibration
from rag.answering.compose import Composer
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.llm import LlmAnswerer
from rag.channels.base import Channel
from rag.channels.bm25 import Bm25Channel
from rag.channels.graph import GraphChannel
from rag.channels.vector import StoreVectorChannel, VectorChannel
from rag.channels.web import PROVIDERS, Provider, WebChannel
from rag.embedding import Encoder, load_embedder
from rag.errors import SettingsError, StoreError
from rag.fusion_retriever import Planned, ProfileFusionRetriever
from rag.llm import LocalModel
from rag.pipeline import Pipeline
from rag.profile_table import load_or_builtin
from rag.query.refine import Refiner
from rag.reranker import Reranker, load_reranker
from rag.schema import PUBLIC, WEB, Effort, Level, Query, Scope, farm_scope
from rag.settings import ROOT, Settings
from rag.stores.farm_words import WordCounts
from rag.stores.record import SCHEMA_VERSION
from rag.stores.sync import ScopeVectors, VectorBackend
from rag.stores.view import Views
from rag.text import TOKENIZER_VERSION, korean
from rag.tracing import Recorder
from rag.weighting import ADAPTIVE
from rag.weighting_llm import LlmWeighting


@lru_cache(maxsize=2)
def local_model(path: Path, n_ctx: int, n_threads: int, n_gpu_layers: int) -> LocalModel:
    """The process-wide model of a path: one queue for all sessions."""
    return LocalModel(path, n_ctx=n_ctx, n_threads=n_threads, n_gpu_layers=n_gpu_layers, seed=0)


@cache
def scope_vectors(backend: str, store: Path, url: str | None, api_key: str | None, timeout_s: float) -> ScopeVectors:
    """The process-wide vector stores of a backend: qdrant-edge files have one owner.

    Raises:
        SettingsError: the backend needs a server address and has none.
    """
    opened: VectorBackend
    if backend == "qdrant":  # engines are imported where they are chosen: the client costs two seconds
        from rag.stores.vectors_qdrant import QdrantBackend

        opened = QdrantBackend.connect(url, api_key, store, timeout_s)
    else:
        from rag.stores.vectors_edge import EdgeBackend

        opened = EdgeBackend(store)
    return ScopeVectors(opened)


def vector_channel(settings: Settings, views: Views) -> Channel:
    """Dense search with the backend of the settings, its stores in line with the snapshots.

    Raises:
        SettingsError: the backend needs a server address and has none.
    """
    if settings.vector_backend == "snapshot":
        return VectorChannel(views)
    vectors = scope_vectors(
        settings.vector_backend,
        settings.store.resolve(),
        settings.qdrant_url,
        settings.qdrant_api_key,
        settings.channel_timeout_s,
    )
    with suppress(StoreError):  # a server that is down: the channel tries again at each question and says so
        vectors.prepare(settings.store, (PUBLIC, *map(farm_scope, settings.farms)))
    return StoreVectorChannel(views, vectors)


def web_channel(settings: Settings, embedder: Encoder, provider: Provider | None = None) -> Channel:
    """Web search with the provider of the settings, its pages read by the loaders and the chunker of ``ingest``.

    Raises:
        SettingsError: no such provider, or it is not installed.
    """
    from ingest.web import PageReader  # the HTTP client and the loaders cost half a second

    if provider is None:
        if settings.web_provider not in PROVIDERS:
            raise SettingsError(
                f"web_provider '{settings.web_provider}' 은(는) 없습니다. 쓸 수 있는 값: {', '.join(PROVIDERS)}"
            )
        provider = PROVIDERS[settings.web_provider]()
    return WebChannel(
        provider,
        PageReader(
            limit_bytes=settings.web_limit_mb * 2**20,
            allow_private=settings.web_allow_private,
            split=korean().sentences,
            count_tokens=embedder.count_tokens,
            today=lambda: settings.now().date(),
        ),
        korean(),
        embedder.encode_passages,
        timeout_s=settings.web_timeout_s,
        max_pages=settings.web_max_pages,
    )


def components(embedder: str) -> dict[str, str]:
    """What an index must have been built with to be searched by this process; ``embedder``: its model name."""
    return {
        "embedder": embedder,
        "tokenizer": TOKENIZER_VERSION,
        "lexicon": korean().lexicon.digest,
        "schema": SCHEMA_VERSION,
    }


def levels_file(settings: Settings) -> Path:
    """The answer levels beside the profile file, else the shipped ones."""
    beside = settings.profiles.with_name("answering.v1.json")
    return beside if beside.exists() else ROOT / "profiles" / "answering.v1.json"


def relevance_levels(settings: Settings) -> Relevance | None:
    """What the screens call a high and a usual cosine of the encoder in use; None where that was not fitted.

    Raises:
        RagError: encoder or calibration cannot be loaded.
    """
    embedder = load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key)
    return load_calibration(levels_file(settings), embedder.model_name).relevance


def reranker_of(settings: Settings, encoder: str) -> Reranker | None:
    """The cross-encoder of an encoder; None where the settings want none or none was tuned.

    Raises:
        SettingsError: it cannot be read.
    """
    return load_reranker(encoder) if settings.reranker else None


def _reranker_or_banner(settings: Settings, encoder: str) -> tuple[Reranker | None, str]:
    """The cross-encoder, or what is to be said of its loss."""
    try:
        return reranker_of(settings, encoder), ""
    except SettingsError as error:
        return None, f"{error} 그때까지는 이 모델 없이 답합니다."


def build_pipeline(
    settings: Settings,
    channels: tuple[Channel, ...] | None = None,
    *,
    granularity: Mapping[Effort, Level] | None = None,
    extractive: bool = False,
    expansion: bool = True,
    decomposition: bool = True,
    count_words: bool = False,
    second_look: bool | None = None,
    requery: bool = True,
    top_k: int | None = None,
) -> Pipeline:
    """Everything wired. ``channels`` replaces the default three, ``granularity`` the profile file's per effort.

    ``extractive`` keeps a configured model from writing answers; it still picks weights for ``llm_weights``.
    ``expansion`` and ``decomposition`` switch further search words and sub-questions off (``python -m eval farm``).
    ``count_words`` counts unknown words of the questions where they are asked, unless the settings forbid it.
    ``second_look`` overrides the setting of that name; without ``requery`` it reads on, but asks nothing new; ``top_k``
    replaces the number of passages of every effort (ablations).

    Raises:
        RagError: encoder or calibration cannot be loaded.
        IndexMismatch: an index on disk was built by other components.
    """
    embedder = load_embedder(settings.embedder, settings.embedder_threads, settings.embedder_api_key)
    table, banner = load_or_builtin(settings.profiles)
    if not settings.evidence_control:
        table = replace(table, evidence_model=None)
    if granularity is not None:
        rules = {effort: replace(rule, granularity=granularity[effort]) for effort, rule in table.effort.items()}
        table = replace(table, effort=rules)
    if top_k is not None:
        table = replace(table, effort={e: replace(rule, top_k=top_k) for e, rule in table.effort.items()})
    views = Views(
        settings.store,
        components(embedder.model_name),
        warm={"G2", *(rule.granularity for rule in table.effort.values())},  # names in questions are read off G2
    )
    reranker, lost = _reranker_or_banner(settings, embedder.model_name)
    calibration = load_calibration(levels_file(settings), embedder.model_name, reranked=reranker is not None)
    llm, llm_weighting, refiner = None, None, None
    if settings.model is not None:
        model = local_model(settings.model, settings.n_ctx, settings.n_threads, settings.n_gpu_layers)
        llm_weighting = LlmWeighting(model, timeout_s=settings.generation_timeout_s)
        if settings.query_refiner:
            refiner = Refiner(model, timeout_s=settings.generation_timeout_s)
        if not extractive:
            large = None
            if settings.large_model is not None:
                large = local_model(settings.large_model, settings.n_ctx, settings.n_threads, settings.n_gpu_layers)
            llm = LlmAnswerer(
                model,
                max_tokens=settings.max_answer_tokens,
                long_tokens=settings.long_answer_tokens,
                timeout_s=settings.generation_timeout_s,
                large=large,
            )
    chosen = channels or (
        vector_channel(settings, views),
        Bm25Channel(views),
        GraphChannel(views),
        *([web_channel(settings, embedder)] if settings.web_enabled else []),
    )
    shares = {WEB: settings.web_weight} if any(channel.name == WEB for channel in chosen) else {}

    def default_plan(text: str) -> Planned:
        query = Query(text=text, scope=Scope(), asked_at=settings.now())
        understood = pipeline.understand(query, Recorder())
        return pipeline.planned(understood, ADAPTIVE)

    pipeline = Pipeline(
        korean=korean(),
        embedder=embedder,
        views=views,
        table=table,
        retriever=ProfileFusionRetriever(chosen, views, default_plan, llm_weighting, shares),
        composer=Composer(
            korean=korean(),
            embedder=embedder,
            extractive=ExtractiveAnswerer(calibration, reranker),
            citation_threshold=calibration.citation_threshold,
            citation_coverage=calibration.citation_coverage,
            llm=llm,
            models=calibration.uncertainty,
        ),
        channel_timeout_s=settings.channel_timeout_s,
        farm_names=settings.farms,
        banners=tuple(told for told in (banner, lost) if told),
        expansion=expansion,
        decomposition=decomposition,
        refiner=refiner,
        counts=WordCounts(settings.store) if count_words and settings.count_words else None,
        second_look=settings.second_look if second_look is None else second_look,
        requery=requery,
    )
    return pipeline
