"""The nouns of the system. Everything else is a function between them.

Flow: ``Query`` → ``QueryFeatures`` → ``Profile`` → ``RetrievalPlan`` → ``ChannelResult``s → ``Weights``
→ ``FusedEvidence`` → ``Answer``, with a ``Trace`` beside it.

A worked example. 햇살농원 asks "딸기 수확 후기 EC 얼마로 낮춰요?"::

    Query(text="딸기 수확 후기 EC 얼마로 낮춰요?", scope=Scope(farm_id="haetsal"), asked_at=…)
    QueryFeatures(slots=(Slot(kind="crop", value="딸기", start=0, end=2, rule="lexicon.crop"), …),
                  keywords=("수확", "후기", "EC", "낮추다"), intent="factual",
                  query_length_bucket="short",
                  entity_hint_presence=False, relation_hint=False, effort="low")
    .segment == ("factual", "short", False, False)
    ChannelResult(channel="graph", status="ok", hits=(Hit(chunk_id="…", scope_id="public", rank=1, score=-3.1), …))
    Weights({"vector_dense_text": 0.2, "vector_sparse": 0.3, "graph": 0.5})
    Evidence(chunk=…, score=Σ votes, votes=(Vote(channel="graph", rank=1, weight=0.5, share=0.61), …))

Every rule of a noun is checked at construction. A record never changes; a new value is ``dataclasses.replace``.

Glossary: 작목 crop · 품종 cultivar · 생육단계 growth_stage · 처방 prescription · 양액 nutrient_solution ·
급액/배액 supply/drain · 배액률 drain_rate · 동 house · 작업일지 work log · 방제 pest control · 근거 evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rag.errors import ProfileError, ScopeViolation, SettingsError

VECTOR = "vector_dense_text"
BM25 = "vector_sparse"
GRAPH = "graph"
WEB = "web"
CHANNELS: tuple[str, ...] = (VECTOR, BM25, GRAPH)
CHANNEL_LABELS: Mapping[str, str] = {VECTOR: "의미 검색", BM25: "키워드 검색", GRAPH: "관계 검색", WEB: "웹"}
CHANNEL_COLOURS: Mapping[str, str] = {VECTOR: "#0072B2", BM25: "#E69F00", GRAPH: "#009E73", WEB: "#CC79A7"}

Intent = Literal["factual", "procedural", "relational", "comparison", "log_lookup"]
LengthBucket = Literal["short", "medium", "long"]
Effort = Literal["low", "medium", "high"]
Level = Literal["G1", "G2", "G3"]
Status = Literal["ok", "empty", "failed", "timeout", "skipped"]
SlotKind = Literal["date", "author", "doc_type", "house", "farm", "crop", "cultivar", "growth_stage", "value", "file"]
CitationOutcome = Literal["supported", "contradicted", "unsupported"]
Segment = tuple[str, str, bool, bool]

INTENTS: tuple[str, ...] = ("factual", "procedural", "relational", "comparison", "log_lookup")
LENGTH_BUCKETS: tuple[str, ...] = ("short", "medium", "long")
LEVELS: tuple[Level, ...] = ("G1", "G2", "G3")
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high")

PUBLIC = "public"
_FARM_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")

FloatVector = npt.NDArray[np.float32]


def farm_scope(farm_id: str) -> str:
    """Scope id of a farm's private documents.

    Raises:
        SettingsError: the id could not be a folder name of its own (lower-case Latin letters, digits, - and _).
    """
    if not _FARM_ID.fullmatch(farm_id):
        raise SettingsError(
            f"농장 이름 '{farm_id}'은(는) 쓸 수 없습니다. 영문 소문자·숫자·-·_ 로 32자까지 적어 주세요. 예: haetsal"
        )
    return f"farm:{farm_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Who asks: the visible documents are the public ones plus those of ``farm_id`` (None: public only)."""

    farm_id: str | None = None

    def __post_init__(self) -> None:
        if self.farm_id is not None:
            farm_scope(self.farm_id)

    @property
    def visible(self) -> tuple[str, ...]:
        """Scope ids that may be read, public first."""
        return (PUBLIC,) if self.farm_id is None else (PUBLIC, farm_scope(self.farm_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question as it was asked. ``asked_at`` carries a time zone; relative dates are read against it.

    ``choice`` is the answer to a question back: the value of an option, "" for "go on without one", None where nothing
    was asked yet. ``previous`` is the question before in the same conversation, for "그럼 딸기는?".
    """

    text: str
    scope: Scope
    asked_at: datetime
    choice: str | None = None
    previous: str | None = None

    def __post_init__(self) -> None:
        if self.asked_at.tzinfo is None:
            raise SettingsError(
                f"질문 시각 {self.asked_at.isoformat()}에 시간대가 없습니다. 예: 2026-12-01T09:00+09:00"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A fact read off the question: ``text[start:end]`` is what rule ``rule`` matched.

    ``value`` is canonical: a date period is ``"2026-03-01/2026-03-31"`` (both ends included; ``"invalid"`` for a day that
    does not exist), a house ``"2동"``. The span of an ``inherited.*`` rule is in the previous question; a slot that was
    chosen among options and is not written in the question has the empty span [0, 0) and the rule ``choice``.
    """

    kind: SlotKind
    value: str
    start: int
    end: int
    rule: str

    def __post_init__(self) -> None:
        chosen = self.rule == "choice" and self.start == self.end == 0
        if not (0 <= self.start < self.end or chosen):
            raise ValueError(f"slot span [{self.start}, {self.end}) is empty or negative")

    @property
    def inherited(self) -> bool:
        """Whether the slot comes from the previous question."""
        return self.rule.startswith("inherited.")

    def words_in(self, query: Query) -> str:
        """The words that the slot was read off."""
        text = (query.previous or "") if self.inherited else query.text
        return text[self.start : self.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFeatures:
    """x(q) and what it was read from. ``reasons`` names the rule behind each feature.

    ``keywords`` are the question's own nouns and predicates (dictionary form) beside its slots, ``removed`` its particles
    and words of asking; ``terms`` are the BM25 tokens of all that is asked (crops and values too, dates and people not).
    ``standalone`` is the question made whole: a follow-up with the words of the question before, a question that was
    asked back with the crop that was chosen; "" where the question stands alone.
    """

    slots: tuple[Slot, ...] = ()
    keywords: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    standalone: str = ""
    entities: tuple[str, ...] = ()
    intent: Intent = "factual"
    query_length_bucket: LengthBucket = "short"
    entity_hint_presence: bool = False
    relation_hint: bool = False
    effort: Effort = "low"
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def segment(self) -> Segment:
        """The 4-tuple x(q): the only key that profiles match on."""
        return (self.intent, self.query_length_bucket, self.entity_hint_presence, self.relation_hint)

    def values(self, kind: SlotKind) -> tuple[str, ...]:
        """Values of all slots of one kind, in the order of the text."""
        return tuple(slot.value for slot in self.slots if slot.kind == kind)

    @property
    def periods(self) -> tuple[tuple[date, date], ...]:
        """First and last day of the dates that exist, in the order of the text."""
        pairs = (value.split("/") for value in self.values("date") if "/" in value)
        return tuple((date.fromisoformat(first), date.fromisoformat(last)) for first, last in pairs)


def segment_key(segment: Segment) -> str:
    """Readable form of a segment, e.g. ``"relational|short|value:-|relation:+"``."""
    intent, length, entity, relation = segment
    return f"{intent}|{length}|value:{'+' if entity else '-'}|relation:{'+' if relation else '-'}"


@dataclass(frozen=True, slots=True)
class Weights:
    """Channel → weight. Sums to 1, none negative; 0 is allowed.

    Raises:
        ProfileError: a weight is negative or not finite, or the sum differs from 1 by more than 1e-6.
    """

    by_channel: Mapping[str, float]

    def __post_init__(self) -> None:
        bad = {c: w for c, w in self.by_channel.items() if not (math.isfinite(w) and w >= 0)}
        if bad:
            raise ProfileError(f"채널 가중치 {bad}는 0 이상의 수여야 합니다. 프로필 파일을 고쳐 주세요.")
        total = math.fsum(self.by_channel.values())
        if abs(total - 1.0) > 1e-6:
            raise ProfileError(
                f"채널 가중치의 합이 {total:.4f}입니다. 합이 1이 되도록 고쳐 주세요: {dict(self.by_channel)}"
            )

    def __getitem__(self, channel: str) -> float:
        return self.by_channel.get(channel, 0.0)

    @staticmethod
    def equal(channels: tuple[str, ...] = CHANNELS) -> Weights:
        """The uniform weights over ``channels``."""
        return Weights({channel: 1.0 / len(channels) for channel in channels})


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Parameters of the bounded walk on the graph (see ``rag/channels/walk.py``).

    ``max_hops`` 1–3 steps; ``restart`` in (0, 1]; ``dense_mass`` ≥ 0: mass of the dense seeds relative to the
    entity seeds; ``dense_share`` ≥ 0: weight of the z-scored similarity in the final score; ``temperature`` > 0
    of the question-aware step, ``None`` to switch it off; ``relation_share`` in [0, 1): share of the entity mass
    that travels over typed relations instead of through chunks.
    """

    max_hops: int = 3
    restart: float = 0.3
    dense_mass: float = 0.5
    dense_share: float = 0.5
    temperature: float | None = 0.1
    relation_share: float = 0.2

    def __post_init__(self) -> None:
        checks = (
            ("max_hops", 1 <= self.max_hops <= 3, "1~3"),
            ("restart", 0 < self.restart <= 1, "0 초과 1 이하"),
            ("dense_mass", self.dense_mass >= 0, "0 이상"),
            ("dense_share", self.dense_share >= 0, "0 이상"),
            ("temperature", self.temperature is None or self.temperature > 0, "0 초과 또는 null"),
            ("relation_share", 0 <= self.relation_share < 1, "0 이상 1 미만"),
        )
        for name, ok, allowed in checks:
            if not ok:
                raise ProfileError(f"walk.{name} = {getattr(self, name)} 은(는) 허용 범위({allowed})를 벗어났습니다.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrails:
    """The box that final weights must stay in: per-channel minimum and maximum, and the largest step
    ``slew`` from the reference weights (1.0: no limit). The default minimum is 0: a floor costs quality."""

    minimum: Mapping[str, float] = field(default_factory=dict)
    maximum: Mapping[str, float] = field(default_factory=dict)
    slew: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.slew <= 1:
            raise ProfileError(f"guardrails.slew = {self.slew} 은(는) 0 초과 1 이하여야 합니다.")
        for channel in {*self.minimum, *self.maximum}:
            low, high = self.minimum.get(channel, 0.0), self.maximum.get(channel, 1.0)
            if not 0 <= low <= high <= 1:
                raise ProfileError(
                    f"guardrails {channel}: 최소 {low}, 최대 {high} 은(는) 0 ≤ 최소 ≤ 최대 ≤ 1 이어야 합니다."
                )
        if math.fsum(self.minimum.values()) > 1 + 1e-9:
            raise ProfileError(f"guardrails 최소값의 합이 1을 넘습니다: {dict(self.minimum)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Where a profile segment comes from. ``tuned_on`` is ``"hand"`` or the name of the tuning set."""

    tuned_on: str
    n_queries: int = 0
    valid_until: date | None = None
    cv_mean: float | None = None
    cv_std: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One row of the profile table: how to search for questions of one kind."""

    id: str
    match: Mapping[str, Any]
    weights: Weights
    previous_weights: Weights
    depth: Mapping[str, int]
    rrf_k: int
    walk: Walk
    guardrails: Guardrails
    quality: Quality

    def __post_init__(self) -> None:
        if not 1 <= self.rrf_k <= 1000:
            raise ProfileError(f"프로필 {self.id}: rrf_k = {self.rrf_k} 은(는) 1~1000 이어야 합니다.")
        for channel, depth in self.depth.items():
            if not 10 <= depth <= 1000:
                raise ProfileError(f"프로필 {self.id}: depth[{channel}] = {depth} 은(는) 10~1000 이어야 합니다.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortRule:
    """Granularity and number of evidence passages handed to the answerer for one effort level."""

    granularity: Level
    top_k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocFilter:
    """Document filter, applied before top-k in every channel. Empty fields do not filter.

    A document passes ``periods`` when a day that it tells of lies in any of them, both ends included, and ``not_after``
    when it does not begin later. Chunks whose rows have days of their own pass by those.
    """

    periods: tuple[tuple[date, date], ...] = ()
    not_after: date | None = None
    authors: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    houses: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True when nothing is filtered."""
        return self == DocFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """One (sub-)question ready for the channels: text, unit vector (None: encoder failed), BM25 tokens, entities.

    ``expansions``: further words with a weight in (0, 1), for BM25 (as tokens) and the graph (as entities) only.
    ``share`` in (0, 1]: what its lists' votes count beside the whole question's. ``filters``: its own document filter
    (one side of "작년 3월이랑 올해 3월"), None: the plan's.

    Raises:
        ValueError: a weight or the share is out of its range.
    """

    text: str
    vector: FloatVector | None
    tokens: tuple[str, ...]
    entities: tuple[str, ...]
    expansions: tuple[tuple[str, float], ...] = ()
    share: float = 1.0
    filters: DocFilter | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share = {self.share} must lie in (0, 1]")
        bad = [(word, weight) for word, weight in self.expansions if not 0 < weight < 1]
        if bad:
            raise ValueError(f"expansion weights must lie between 0 and 1: {bad}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalPlan:
    """Everything a channel needs to answer, and nothing it may decide by itself.

    ``withheld``: why no word of the question may leave this installation, None where its content words may.
    """

    queries: tuple[PlannedQuery, ...]
    scope: Scope
    filters: DocFilter
    granularity: Level
    depth: Mapping[str, int]
    rrf_k: int
    walk: Walk
    top_k: int
    timeout_s: float
    withheld: str | None = None

    def __post_init__(self) -> None:
        if not self.queries:
            raise ValueError("a plan has at least one query")

    def of(self, query: PlannedQuery) -> RetrievalPlan:
        """The plan as it is for one of its queries: with that query's own filter, where it has one."""
        return self if query.filters is None else replace(self, filters=query.filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One retrieved chunk. ``rank`` counts from 1; ``score`` is the channel's own and is never compared across."""

    chunk_id: str
    scope_id: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPath:
    """How the walk reached a chunk: question entity → … → entity in the chunk. ``nodes`` alternate freely."""

    chunk_id: str
    nodes: tuple[str, ...]
    labels: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passage:
    """A chunk that no scope holds, read for one question (a web page), with what a view knows of a chunk.

    ``tokens`` are those of its headings and then of its sentences, ``vectors`` its sentences' unit vectors, shape
    (sentences, dim); a sentence's ``row`` is its row there.
    """

    chunk: ChunkRecord
    tokens: tuple[str, ...]
    entities: frozenset[str]
    sentences: tuple[SentenceRecord, ...]
    vectors: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelResult:
    """What a channel gave back. ``status`` tells empty, failed, timed-out and skipped apart; ``share`` is the query's.

    ``passages`` are those of its hits that no scope holds.

    Raises:
        ValueError: ranks are not 1…n in order, or a non-ok result carries hits.
    """

    channel: str
    status: Status
    hits: tuple[Hit, ...] = ()
    ms: float = 0.0
    error: str | None = None
    note: str | None = None
    paths: tuple[GraphPath, ...] = ()
    share: float = 1.0
    passages: tuple[Passage, ...] = ()

    def __post_init__(self) -> None:
        if [hit.rank for hit in self.hits] != list(range(1, len(self.hits) + 1)):
            raise ValueError(f"{self.channel}: ranks must be 1…{len(self.hits)} in order")
        if bool(self.hits) != (self.status == "ok"):
            raise ValueError(f"{self.channel}: status {self.status!r} with {len(self.hits)} hits")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """A chunk as stored. ``locator`` says where in the document ("2쪽", "시트 급액 4행"); offsets are into ``text``."""

    chunk_id: str
    scope_id: str
    doc_id: str
    title: str
    section: str
    locator: str
    text: str
    level: Level
    ordinal: int
    kind: str = ""
    crop: str = ""
    date: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceRecord:
    """An evidence sentence: ``chunk.text[start:end]``; ``row`` is its row in its scope's sentence matrix."""

    chunk_id: str
    start: int
    end: int
    tokens: tuple[str, ...]
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One channel's part in an evidence score: ``weight / (rrf_k + rank)``; ``share`` of the total, in [0, 1]."""

    channel: str
    rank: int
    weight: float
    value: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A fused passage. ``score`` is the sum of its votes, so any ranking can be explained."""

    chunk: ChunkRecord
    score: float
    votes: tuple[Vote, ...]

    def __post_init__(self) -> None:
        if abs(math.fsum(vote.value for vote in self.votes) - self.score) > 1e-12:
            raise ValueError("evidence score differs from the sum of its votes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedEvidence:
    """The ranking, best first."""

    items: tuple[Evidence, ...]

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def checked(self, scope: Scope) -> FusedEvidence:
        """The same ranking, after a last check that nothing lies outside ``scope``.

        Raises:
            ScopeViolation: an item belongs to a scope that the asker may not see.
        """
        outside = sorted({item.chunk.scope_id for item in self.items} - set(scope.visible))
        if outside:
            raise ScopeViolation("다른 농장의 자료가 검색 결과에 섞여 답변을 멈췄습니다. 색인을 다시 만들어 주세요.")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A link from an answer sentence to one evidence sentence (``start``/``end`` into the chunk text)."""

    doc_id: str
    title: str
    locator: str
    chunk_id: str
    sentence: str
    start: int
    end: int
    cosine: float
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedSentence:
    """An answer sentence. Unsupported sentences are kept and shown as such, never dropped silently.

    ``conflicts`` are evidence sentences that say otherwise; ``note`` then holds what both say.

    Raises:
        ValueError: a sentence with citations has conflicts too, or conflicts come without a note.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    conflicts: tuple[Citation, ...] = ()
    note: str | None = None

    def __post_init__(self) -> None:
        if self.conflicts and (self.citations or not self.note):
            raise ValueError("a contradicted sentence has no supporting citation and a note with what both say")

    @property
    def supported(self) -> bool:
        """True when at least one evidence sentence carries it."""
        return bool(self.citations)

    @property
    def outcome(self) -> CitationOutcome:
        """What the citation check found."""
        return "supported" if self.citations else "contradicted" if self.conflicts else "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the farm office reads. A refusal has no sentences with citations and says what was near.

    ``lead`` is an opening line made by template: it says what kind of sentences follow, is no claim of its own and no
    part of ``text``.
    """

    sentences: tuple[CitedSentence, ...]
    refused: bool
    answerer: str
    notes: tuple[str, ...] = ()
    nearby: tuple[str, ...] = ()
    lead: str = ""

    @property
    def text(self) -> str:
        """The answer as plain text."""
        return " ".join(sentence.text for sentence in self.sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clarification:
    """A question back to the asker. ``options`` pair a button label with the value that answers it."""

    slot: SlotKind
    question: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Time of one stage in milliseconds; ``start_ms`` counts from the start of the question."""

    stage: str
    start_ms: float
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Something a rule decided: where, what, and why."""

    stage: str
    what: str
    why: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Stages with times and decisions with reasons, in order."""

    spans: tuple[Span, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def latency_ms(self) -> dict[str, float]:
        """Stage → milliseconds (stages that ran more than once are summed)."""
        total: dict[str, float] = {}
        for span in self.spans:
            total[span.stage] = total.get(span.stage, 0.0) + span.ms
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSteps:
    """How the weights came about: 원래 → 한계 적용 → 최종."""

    raw: Weights
    bounded: Weights
    final: Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Everything about one answered question; what screens, the terminal and the API show."""

    query: Query
    features: QueryFeatures
    profile_id: str
    profile_reason: str
    system: str
    plan: RetrievalPlan
    channels: tuple[ChannelResult, ...]
    weights: WeightSteps
    evidence: FusedEvidence
    answer: Answer
    trace: Trace
    clarification: Clarification | None = None
    banners: tuple[str, ...] = ()
