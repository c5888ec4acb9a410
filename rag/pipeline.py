"""The flow of a question, in the order of DESIGN §1. The only place that knows the order of the stages."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rag.answering.asked import HARD_TYPES, Asked
from rag.answering.compose import Composed, Composer
from rag.answering.llm import Hooks
from rag.answering.refusals import emergency
from rag.channels.web import withheld
from rag.embedding import Encoder
from rag.errors import SettingsError
from rag.fusion_retriever import Planned, ProfileFusionRetriever, Retrieved
from rag.policy import make_plan
from rag.profile_table import ProfileTable
from rag.query.clarify import chosen, clarify
from rag.query.expand import (
    SUB_SHARE,
    Expansion,
    SubQuestion,
    expand,
    narrower_of,
    sub_questions,
    unknown_words,
    weighted_words,
)
from rag.query.features import read_question, search_words
from rag.query.filters import Relaxed, filters_of, invalid_dates, relax, side_filter
from rag.query.refine import Refiner
from rag.schema import (
    CHANNEL_LABELS,
    Answer,
    ChannelResult,
    Clarification,
    DocFilter,
    FloatVector,
    PlannedQuery,
    Profile,
    Query,
    QueryFeatures,
    Result,
    RetrievalPlan,
    Trace,
    segment_key,
)
from rag.stores.farm_words import WordCounts
from rag.stores.segments import INDEXED_LEVELS
from rag.stores.view import View, Views
from rag.text import Analysis, Korean, nfc
from rag.tracing import Recorder
from rag.uncertainty import MAX_ROUNDS, more_effort, reformulated
from rag.weighting import ADAPTIVE, LLM_WEIGHTS, MODEL_FREE, SYSTEMS

MAX_QUESTION = 2000
SECOND_LOOK = "근거가 약해 다시 찾았습니다({}번)."
# What the encoder reads of a question: it needs 1 to 3 ms a character, and nobody else is served meanwhile.
ENCODED_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Listener(Hooks):
    """What a screen hears while a question is answered; all optional."""

    on_stage: Callable[[str], None] = field(default=lambda stage: None)


def _whole(text: str) -> str:
    """``text`` with U+FFFD for halves of characters (bytes on the terminal that were no UTF-8: no output takes them), and
    without characters that are not seen (category Cf: they come with pasted text, and cut words in two).
    """
    seen = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(char for char in seen if unicodedata.category(char) != "Cf")


def _known(result: ChannelResult, view: View, plan: RetrievalPlan) -> ChannelResult:
    """``result`` without chunks that came on file after the question was read: it is answered from one state."""
    rows = view.levels[plan.granularity].row_of
    brought = {passage.chunk.chunk_id for passage in result.passages}
    kept = [hit for hit in result.hits if hit.chunk_id in rows or hit.chunk_id in brought]
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
    clarification: Clarification | None = None
    relaxed: tuple[Relaxed, ...] = ()
    impossible_dates: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the answer says about people in danger, dates that do not exist and conditions that were left out."""
        return (*emergency(self.asked.text), *self.impossible_dates, *(one.note for one in self.relaxed))

    @property
    def near_only(self) -> bool:
        """Whether what can be found lacks the date, house or author that was asked for."""
        misdated = self.features.intent == "log_lookup" and bool(self.impossible_dates) and not self.features.periods
        return misdated or any(one.near for one in self.relaxed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One round: what was asked for, what was found, what was answered."""

    understood: Understood
    planned: Planned
    retrieved: Retrieved
    composed: Composed


class Pipeline:
    """Answers questions. Holds no state between them; shared by all sessions."""

    def __init__(
        self,
        *,
        korean: Korean,
        embedder: Encoder,
        views: Views,
        table: ProfileTable,
        retriever: ProfileFusionRetriever,
        composer: Composer,
        channel_timeout_s: float,
        farm_names: Mapping[str, str],
        banners: Sequence[str] = (),
        expansion: bool = True,
        decomposition: bool = True,
        refiner: Refiner | None = None,
        counts: WordCounts | None = None,
        second_look: bool = False,
        requery: bool = True,
    ) -> None:
        self._korean = korean
        self.embedder = embedder
        self.views = views
        self.table = table
        self.retriever = retriever
        self._composer = composer
        self._timeout_s = channel_timeout_s
        self._farm_names = dict(farm_names)
        self._banners = tuple(banners)
        self._expansion = expansion
        self._decomposition = decomposition
        self._refiner = refiner
        self._counts = counts
        self._second_look = second_look
        self._requery = requery
        self._narrower = narrower_of(korean.lexicon)
        self._tokens_of = lru_cache(maxsize=4096)(korean.tokens)

    @property
    def systems(self) -> tuple[str, ...]:
        """The weighting systems that can be asked for: all, or those that need no language model."""
        return MODEL_FREE if self.retriever.llm_weighting is None else tuple(SYSTEMS)

    def clarification(self, query: Query) -> Clarification | None:
        """What should be asked back before the question is answered, or None. ``ask`` answers without it too.

        Raises:
            SettingsError: a question that is empty or longer than 2,000 characters.
            StoreError: nothing is indexed yet.
        """
        query = self._checked(query)
        return self._read(query, self.views.get(query.scope))[2]

    def ask(self, query: Query, *, system: str = ADAPTIVE, listener: Listener | None = None) -> Result:
        """Answer one question with one weighting system."""
        return self.compare(query, (system,), listener=listener)[0]

    def compare(self, query: Query, systems: Sequence[str], *, listener: Listener | None = None) -> tuple[Result, ...]:
        """Answer one question with several systems from one run of the channels.

        Raises:
            SettingsError: an unknown system, ``llm_weights`` without a model, or a question that is empty or longer
                than 2,000 characters.
            StoreError: nothing is indexed yet.
        """
        for system in systems:
            if system not in SYSTEMS:
                raise SettingsError(f"방식 '{system}' 은(는) 없습니다. 쓸 수 있는 것: {', '.join(SYSTEMS)}")
        listener = listener or Listener()
        recorder = Recorder()
        listener.on_stage("질문 읽기")
        understood = self.understand(query, recorder)
        if self._counts is not None:
            self._counts.add(query.scope, unknown_words(understood.features, self._korean.lexicon))
        if LLM_WEIGHTS in systems:
            listener.on_stage("모델이 가중치 고르기")
        planned = [
            self.retriever.pick_weights(
                self.planned(understood, system), recorder, cancel=listener.cancel, on_queue=listener.on_queue
            )
            for system in systems
        ]
        listener.on_stage("자료 찾기")
        understood, results = self._run(understood, recorder)
        shared = recorder.freeze()
        return tuple(
            self._finish(understood, results, one, Recorder.following(_own(shared, one.system)), listener)
            for one in planned
        )

    def understand(self, query: Query, recorder: Recorder) -> Understood:
        """Read the question, look up its profile and plan the retrieval."""
        query = self._checked(query)
        view = self.views.get(query.scope)
        with recorder.span("features"):
            features, analysis, clarification = self._read(query, view)
            features = chosen(features, clarification, query)
            if features.standalone:
                analysis = self._korean.analyse(features.standalone)
            filters, relaxed = relax(filters_of(features, query), features, query, view.catalogue)
            text = features.standalone or query.text
            own_words = self._own_words(view, recorder)
            words, subs = self._searched(text, features, analysis, own_words, recorder)
        _explain_reading(query, features, clarification, relaxed, recorder)
        with recorder.span("profile"):
            profile, reason = self.table.lookup(features.segment, query.asked_at.date())
        recorder.decide("profile", profile.id, reason, segment=segment_key(features.segment))
        with recorder.span("embedding"):
            vector = self._vector(text, recorder)
            parts = self._parts(subs, query, features, filters, view, own_words, recorder)
        with recorder.span("policy"):
            planned = self._planned_query(text, vector, features, analysis, words, view)
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
            plan = replace(plan, withheld=withheld(text, features, own_words))
        for decision in decisions:
            recorder.decide(decision.stage, decision.what, decision.why, **decision.data)
        asked = Asked(
            text=text,
            features=features,
            vector=vector,
            parts=parts,
            types={m.name: m.type for m in analysis.mentions},
            lexicon=self._korean.lexicon,
            today=query.asked_at.date(),
            view=view,
        )
        return Understood(
            query=query,
            features=features,
            asked=asked,
            profile=profile,
            profile_reason=reason,
            plan=plan,
            clarification=clarification if query.choice is None else None,
            relaxed=relaxed,
            impossible_dates=tuple(invalid_dates(features, query)),
        )

    def _checked(self, query: Query) -> Query:
        """The question in NFC and of a length that can be read."""
        text = nfc(_whole(query.text)).strip()
        if not text:
            raise SettingsError("질문이 비어 있습니다. 궁금한 것을 적어 주세요.")
        if len(text) > MAX_QUESTION:
            raise SettingsError(f"질문이 {len(text)}자입니다. {MAX_QUESTION}자 안으로 줄여 주세요.")
        previous = nfc(_whole(query.previous or "")).strip()[:MAX_QUESTION] or None
        return replace(query, text=text, previous=previous)

    def _read(self, query: Query, view: View) -> tuple[QueryFeatures, Analysis, Clarification | None]:
        """Features without the asker's choice, their analysis, and what would be asked back."""
        features, analysis = self._features(query, view)
        return features, analysis, clarify(features, analysis, query, view.catalogue)

    def _features(self, query: Query, view: View) -> tuple[QueryFeatures, Analysis]:
        """What a question says, read with the names of all farms and the ids of those that are not the asker's."""
        asking = query.scope.farm_id
        own_farm = self._farm_names.get(asking or "")
        farms = (*self._farm_names.values(), *(farm_id for farm_id in self._farm_names if farm_id != asking))
        return read_question(query, self._korean, view.catalogue, own_farm, farms=farms)

    def _searched(
        self,
        text: str,
        features: QueryFeatures,
        analysis: Analysis,
        own_words: Mapping[str, str],
        recorder: Recorder,
    ) -> tuple[tuple[Expansion, ...], tuple[SubQuestion, ...]]:
        """Further words and sub-questions of the whole question, with the decisions that name them."""
        words = self._words(text, features, analysis, own_words)
        subs: tuple[SubQuestion, ...] = ()
        if self._decomposition:
            names = [m for m in analysis.mentions if m.type in HARD_TYPES and not _apart(text[m.start : m.end])]
            subs = sub_questions(text, analysis.entities, () if features.standalone else features.slots, names)
        if self._refiner is not None:
            refined = self._refiner.refine(text, subs, words)
            words, subs = refined.expansions, refined.sub_questions
            recorder.decide(
                refined.decision.stage, refined.decision.what, refined.decision.why, **refined.decision.data
            )
        if words:
            added = [f"{one.word}({one.weight:g}, {one.domain}·{one.rule} ← {one.source})" for one in words]
            recorder.decide("expand", "더한 말: " + ", ".join(added), "키워드 검색과 관계 검색에만 낮은 무게로 씁니다.")
        if subs:
            kinds = {"part": "여러 가지를 묻는 질문", "side": "견주는 질문", "llm": "모델이 나눔"}
            why = ", ".join(dict.fromkeys(kinds[one.rule] for one in subs))
            recorder.decide("expand", f"하위 질문 {len(subs)}개: " + " / ".join(one.text for one in subs), why)
        return words, subs

    def _own_words(self, view: View, recorder: Recorder) -> dict[str, str]:
        """Word → lexicon term of the lists of the scopes in view; a list that cannot be read is left out."""
        try:
            return {one.word: one.alias_of for one in view.own_words if one.alias_of in self._korean.lexicon.terms}
        except SettingsError as error:
            recorder.decide("expand", "농장 낱말 목록을 쓰지 않음", str(error))
            return {}

    def _words(
        self, text: str, features: QueryFeatures, analysis: Analysis, own_words: Mapping[str, str]
    ) -> tuple[Expansion, ...]:
        if not self._expansion:
            return ()
        return expand(
            features.terms,
            analysis.mentions,
            self._korean.lexicon,
            self._narrower,
            record=features.intent == "log_lookup",
            farm={word: term for word, term in own_words.items() if word in text},
        )

    def _planned_query(
        self,
        text: str,
        vector: FloatVector | None,
        features: QueryFeatures,
        analysis: Analysis,
        words: Sequence[Expansion],
        view: View,
    ) -> PlannedQuery:
        tokens = search_words(features)
        return PlannedQuery(
            text=text,
            vector=vector,
            tokens=tokens,
            entities=view.levels["G2"].graph.entities_in(text, analysis.entities),
            expansions=weighted_words(words, tokens, self._tokens_of),
        )

    def _parts(
        self,
        subs: Sequence[SubQuestion],
        query: Query,
        whole: QueryFeatures,
        filters: DocFilter,
        view: View,
        own_words: Mapping[str, str],
        recorder: Recorder,
    ) -> tuple[PlannedQuery, ...]:
        """The sub-questions, each read on its own; about records where the whole is."""
        found: list[PlannedQuery] = []
        for sub in subs:
            alone = replace(query, text=sub.text, previous=None, choice=None)
            features, analysis = self._features(alone, view)
            features = replace(features, intent=whole.intent)
            words = self._words(sub.text, features, analysis, own_words)
            vector = self._vector(sub.text, recorder)
            planned = self._planned_query(sub.text, vector, features, analysis, words, view)
            found.append(replace(planned, share=SUB_SHARE, filters=side_filter(filters, features)))
        return tuple(found)

    def _vector(self, text: str, recorder: Recorder) -> FloatVector | None:
        if len(text) > ENCODED_CHARACTERS:
            recorder.decide("embedding", f"앞 {ENCODED_CHARACTERS}자", f"{len(text)}자는 의미 검색에 너무 깁니다.")
        try:
            return self.embedder.encode_query(text[:ENCODED_CHARACTERS])
        except Exception as error:  # whatever an encoder raises, the other channels go on
            recorder.decide("embedding", "벡터 없음", f"임베딩 오류: {error}")
            return None

    def _run(self, understood: Understood, recorder: Recorder) -> tuple[Understood, tuple[ChannelResult, ...]]:
        """The channels' results, and the question with a view that shows the pages they brought."""
        view, plan = understood.asked.view, understood.plan
        results = tuple(_known(result, view, plan) for result in self.retriever.run(plan, recorder))
        view = view.plus([passage for result in results for passage in result.passages])
        return replace(understood, asked=replace(understood.asked, view=view)), results

    def planned(self, understood: Understood, system: str) -> Planned:
        """``understood`` with what decides the weights of ``system``."""
        return Planned(
            plan=understood.plan,
            profile=understood.profile,
            fallback=self.table.default.weights,
            system=system,
            evidence=self.table.evidence(understood.query.asked_at.date()),
        )

    def _finish(
        self,
        understood: Understood,
        results: tuple[ChannelResult, ...],
        planned: Planned,
        recorder: Recorder,
        listener: Listener,
    ) -> Result:
        """Answer one system's question; where the answer is doubtful, look again with a wider plan, at most twice."""
        best = last = self._attempt(understood, results, planned, recorder, listener)
        looks = 0
        while self._second_look and last.composed.doubtful and looks < MAX_ROUNDS and not listener.cancelled:
            looks += 1
            listener.on_stage("근거가 약해 다시 찾는 중")
            last = self._again(last, recorder, listener)
            if (last.composed.uncertainty or 0.0) < (best.composed.uncertainty or 0.0):
                best = last
                break
        answer = best.composed.answer
        looked = (SECOND_LOOK.format(looks),) if looks else ()
        answer = replace(answer, notes=(*understood.notes, *answer.notes, *looked))
        return self._result(best, answer, recorder)

    def _attempt(
        self,
        understood: Understood,
        results: tuple[ChannelResult, ...],
        planned: Planned,
        recorder: Recorder,
        listener: Listener,
    ) -> _Attempt:
        """Weights, fusion and an answer from one run of the channels."""
        retrieved = self.retriever.fuse_results(planned, results, recorder)
        listener.on_stage("답변 쓰기")
        with recorder.span("answer"):
            composed = self._composer.compose(
                understood.asked,
                understood.plan,
                retrieved.evidence,
                retrieved.results,
                recorder,
                listener,
                near_only=understood.near_only,
            )
        return _Attempt(understood=understood, planned=planned, retrieved=retrieved, composed=composed)

    def _again(self, last: _Attempt, recorder: Recorder, listener: Listener) -> _Attempt:
        """A further round: the question with one about what nothing cited holds, read with more effort."""
        understood = last.understood
        asked = understood.asked
        further = self._further(last, recorder) if self._requery else ()
        harder = replace(asked.features, effort=more_effort(asked.features.effort))
        plan, decisions = make_plan(
            harder,
            understood.profile,
            self.table.effort[harder.effort],
            (*understood.plan.queries, *further),
            understood.plan.scope,
            understood.plan.filters,
            self._timeout_s,
            available_levels=INDEXED_LEVELS,
        )
        plan = replace(plan, withheld=understood.plan.withheld)
        queries = [one.text for one in further]
        what = f"다시 찾기: {' / '.join(queries) or '질문 그대로'}"
        recorder.decide("uncertainty", what, "근거가 약해 다시 찾았습니다.", queries=queries)
        for decision in decisions:
            recorder.decide(decision.stage, decision.what, decision.why, **decision.data)
        again = replace(understood, plan=plan, asked=replace(asked, features=harder))
        again, results = self._run(again, recorder)
        return self._attempt(again, results, replace(last.planned, plan=plan), recorder, listener)

    def _further(self, last: _Attempt, recorder: Recorder) -> tuple[PlannedQuery, ...]:
        """Q′, about the words that nothing cited holds; nothing where none is missing."""
        understood, doubt = last.understood, last.composed.doubt
        if doubt is None or not doubt.missing:
            return ()
        asked = understood.asked
        text = reformulated(doubt, asked.features.entities)
        alone = replace(understood.query, text=text, previous=None, choice=None)
        features, analysis = self._features(alone, asked.view)
        query = self._planned_query(text, self._vector(text, recorder), features, analysis, (), asked.view)
        return (replace(query, share=SUB_SHARE),)

    def _result(self, attempt: _Attempt, answer: Answer, recorder: Recorder) -> Result:
        understood, retrieved = attempt.understood, attempt.retrieved
        troubles = [r for r in retrieved.results if r.status in ("failed", "timeout")]
        return Result(
            query=understood.query,
            features=understood.features,
            profile_id=understood.profile.id,
            profile_reason=understood.profile_reason,
            system=attempt.planned.system,
            plan=understood.plan,
            channels=retrieved.results,
            weights=retrieved.weights,
            evidence=retrieved.evidence,
            answer=answer,
            trace=recorder.freeze(),
            clarification=understood.clarification,
            banners=(*self._banners, *(f"{CHANNEL_LABELS.get(r.channel, r.channel)}: {r.error}" for r in troubles)),
        )


def _explain_reading(
    query: Query,
    features: QueryFeatures,
    clarification: Clarification | None,
    relaxed: Sequence[Relaxed],
    recorder: Recorder,
) -> None:
    """The decisions of the reading: what was inherited, asked back or chosen, what does not exist, what was left out."""
    inherited = [f"'{slot.words_in(query)}'" for slot in features.slots if slot.inherited]
    if features.standalone:
        why = "고른 것" if query.choice else f"앞 질문에서 {', '.join(inherited) or '핵심어'}"
        recorder.decide("features", f"풀어 쓴 질문: {features.standalone}", why)
    if clarification is not None:
        answer = "고르지 않음" if not query.choice else f"고른 것 {query.choice}"
        recorder.decide(
            "clarify", clarification.question, answer, options=[value for _, value in clarification.options]
        )
    for note in invalid_dates(features, query):
        recorder.decide("features", "없는 날짜", note)
    for one in relaxed:
        recorder.decide("filters", f"{one.kind} 조건을 뺌", one.note)


def _own(shared: Trace, system: str) -> Trace:
    """The shared trace without the model's weights, for the systems that did not ask for them."""
    if system == LLM_WEIGHTS:
        return shared
    return Trace(
        spans=tuple(span for span in shared.spans if span.stage != LLM_WEIGHTS),
        decisions=tuple(decision for decision in shared.decisions if decision.stage != LLM_WEIGHTS),
    )


def _apart(written: str) -> bool:
    """Whether a name of two syllables is written apart, which then are two words ("무슨 병 오고 추울 땐")."""
    return " " in written and len(written.replace(" ", "")) <= 2
