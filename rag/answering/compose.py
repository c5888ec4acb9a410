"""From evidence to an answer: refused by rule, extracted, or generated and checked; and how doubtful it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag.answering.asked import REGISTERED, Asked
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.llm import Draft, Hooks, LlmAnswerer, Request, long_parts
from rag.answering.prompts import NOT_FOUND
from rag.answering.refusals import FIRST_AID, emergency, refusal
from rag.answering.sentences import USE, candidates_of
from rag.channels.web import KIND as WEB_KIND
from rag.citations import cite
from rag.embedding import Encoder
from rag.errors import GenerationError
from rag.query.features import names_another_farm
from rag.schema import Answer, ChannelResult, CitedSentence, Evidence, FusedEvidence, RetrievalPlan
from rag.stores.view import View
from rag.text import Korean, nfc
from rag.tracing import Recorder
from rag.uncertainty import Doubt, UncertaintyModel, coverage, missing_words, similarity_entropy

# The long form has a passage of text on each of at most so many sub-questions or documents.
LONG_PARTS = 4
EXTRACTIVE, GENERATED = "extractive", "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """An answer, and its doubt with U; neither where a rule refused it: no second look would change that."""

    answer: Answer
    doubt: Doubt | None = None
    uncertainty: float | None = None
    threshold: float = math.inf

    @property
    def doubtful(self) -> bool:
        """Whether a second look is called for: U ≥ τ."""
        return self.uncertainty is not None and self.uncertainty >= self.threshold


class Composer:
    """Writes answers from the evidence of a plan. Holds no state between questions.

    ``models``: how doubt is weighed, by "extractive" and "llm"; without one, H and O are told, and no U.
    """

    def __init__(
        self,
        *,
        korean: Korean,
        embedder: Encoder,
        extractive: ExtractiveAnswerer,
        citation_threshold: float,
        citation_coverage: float,
        llm: LlmAnswerer | None,
        models: Mapping[str, UncertaintyModel],
    ) -> None:
        self._korean = korean
        self._embedder = embedder
        self._extractive = extractive
        self._citation_levels = (citation_threshold, citation_coverage)
        self._llm = llm
        self._models = dict(models)

    def compose(
        self,
        asked: Asked,
        plan: RetrievalPlan,
        evidence: FusedEvidence,
        results: Sequence[ChannelResult],
        recorder: Recorder,
        hooks: Hooks,
        *,
        near_only: bool = False,
    ) -> Composed:
        """The answer from the first ``plan.top_k`` passages. ``near_only``: they lack the date, house or author asked for."""
        used = FusedEvidence(items=evidence.items[: plan.top_k])
        refused = self._refused_by_rule(asked, used, results, recorder, near_only)
        if refused is not None:
            return Composed(answer=refused)
        extracted, support = self._extractive.answer(asked, evidence, results, plan.top_k, recorder)
        recorder.decide("answer", "거절" if extracted.refused else "답변", "근거의 세기", support=support)
        draft = None
        answer = extracted
        if self._llm is None or extracted.refused:
            hooks.on_token(extracted.text)
        else:
            try:
                draft = self._llm.answer(self._request(asked, plan, used), hooks)
            except GenerationError as error:
                recorder.decide("answer", "추출 답변으로 대신", str(error))
                note = f"모델 답변에 실패해 근거 문장으로 답합니다. {error}"
                answer = replace(extracted, notes=(note, *extracted.notes))
            else:
                answer = self._checked(asked, draft, used)
        answer = _from_the_web(dated(answer, asked), evidence)
        return self._weighed(
            answer, self._doubt(asked, used, answer, draft), EXTRACTIVE if draft is None else GENERATED, recorder
        )

    def _refused_by_rule(
        self,
        asked: Asked,
        used: FusedEvidence,
        results: Sequence[ChannelResult],
        recorder: Recorder,
        near_only: bool,
    ) -> Answer | None:
        name = self._extractive.name
        if names_another_farm(asked.features):
            recorder.decide("answer", "거절", "다른 농장 이름이 들어 있어, 있는지 여부와 상관없이 답하지 않습니다.")
            return refusal((), name, note="다른 농장의 자료는 볼 수 없습니다.")
        if not (asked.features.terms or asked.features.slots):
            recorder.decide("answer", "거절", "질문에 찾을 말이 없습니다.")
            return refusal((), name, note="찾을 말이 없습니다. 작물, 동, 날짜 같은 말을 넣어 물어 주세요.")
        if not any(result.status in ("ok", "empty") for result in results):
            recorder.decide("answer", "거절", "답한 검색 채널이 하나도 없습니다.")
            return refusal((), name, note="검색이 모두 실패해 찾아보지 못했습니다. 자료가 없다는 뜻이 아닙니다.")
        if emergency(asked.text) and not any(FIRST_AID.search(item.chunk.text) for item in used):
            recorder.decide("answer", "거절", "사람이 농약에 중독된 질문인데 응급 처치를 적은 자료가 없습니다.")
            return refusal(used.items, name)
        if near_only:
            recorder.decide("answer", "거절", "질문의 날짜·동·작성자에 맞는 자료가 없습니다.")
            return refusal(used.items, name, asked=asked)
        return None

    def _request(self, asked: Asked, plan: RetrievalPlan, used: FusedEvidence) -> Request:
        parts = [(part.text, used) for part in asked.parts]
        return Request(
            question=asked.text,
            intent=asked.features.intent,
            effort=asked.features.effort,
            evidence=used,
            detailed=asked.detailed,
            parts=long_parts(asked.text, parts, used, LONG_PARTS) if asked.detailed else (),
        )

    def _checked(self, asked: Asked, draft: Draft, used: FusedEvidence) -> Answer:
        """A model's draft, cut into sentences, each checked against the evidence sentences."""
        texts = sentences_of(draft, self._korean)
        if (all if asked.detailed else any)(NOT_FOUND in one for one in texts):
            return refusal(used.items, draft.model, asked=asked)
        sentences = cited_by(texts, asked.view, used.items, self._embedder, *self._citation_levels)
        return Answer(sentences=sentences, refused=False, answerer=draft.model)

    def _doubt(self, asked: Asked, used: FusedEvidence, answer: Answer, draft: Draft | None) -> Doubt:
        view = asked.view
        held = {token for item in used for token in view.chunk_tokens(item.chunk.chunk_id)}
        citations = [citation for sentence in answer.sentences for citation in sentence.citations]
        cited = {word for c in citations for word in view.cited_tokens(c.chunk_id, c.start, c.end)}
        cited = held if answer.refused else cited  # a refusal cites nothing: what it had to go by, then
        missing = missing_words(asked.weights, cited)
        weak = tuple(s.text for s in answer.sentences if not s.supported) if not answer.refused else ()
        if draft is not None:
            said = dict.fromkeys(self._korean.tokens(nfc(answer.text)), 1.0)
            return Doubt(entropy=draft.entropy, coverage=coverage(said, held), missing=missing, weak=weak)
        vectors = [view.sentences(item.chunk.chunk_id)[1] for item in used]
        rows = [vector for vector in vectors if len(vector)]
        cosines = np.concatenate(rows) @ asked.vector if asked.vector is not None and rows else np.zeros(0)
        entropy = similarity_entropy(cosines.tolist())
        return Doubt(entropy=entropy, coverage=coverage(asked.weights, cited), missing=missing, weak=weak)

    def _weighed(self, answer: Answer, doubt: Doubt, kind: str, recorder: Recorder) -> Composed:
        model = self._models.get(kind)
        value = None if model is None else model.value(doubt.entropy, doubt.coverage)
        recorder.decide(
            "uncertainty",
            "U 기준 없음" if model is None else f"U {value:.2f} (기준 {model.tau:.2f})",
            f"엔트로피 H {doubt.entropy:.2f}, 덮인 몫 O {doubt.coverage:.2f}",
            u=value,
            entropy=doubt.entropy,
            coverage=doubt.coverage,
            missing=list(doubt.missing),
            weak=list(doubt.weak),
        )
        return Composed(
            answer=answer, doubt=doubt, uncertainty=value, threshold=math.inf if model is None else model.tau
        )


def sentences_of(draft: Draft, korean: Korean) -> list[str]:
    """The sentences of a draft, in NFC."""
    text = nfc(draft.text)
    return [text[span.start : span.end] for span in korean.sentences(text)]


def cited_by(
    texts: Sequence[str],
    view: View,
    items: Sequence[Evidence],
    embedder: Encoder,
    threshold: float,
    coverage: float,
) -> tuple[CitedSentence, ...]:
    """A draft's sentences, each checked against the evidence sentences of the passages."""
    candidates = candidates_of(view, [item.chunk for item in items])
    vectors = embedder.encode_passages(texts)
    return tuple(cite(*pair, candidates, threshold, coverage) for pair in zip(texts, vectors, strict=True))


def dated(answer: Answer, asked: Asked) -> Answer:
    """The answer, with the date of what it tells on pesticides: the snapshot's where it cites registrations, the guide's
    where one tells how a pesticide is used.
    """
    view = asked.view
    registered, guides = set[str](), set[str]()
    for sentence in answer.sentences:
        for citation in sentence.citations:
            if view.place(citation.chunk_id) is None:
                continue
            document = view.document_of(citation.chunk_id)
            day = document.days[0].isoformat() if document.days else "날짜 미상"
            if document.kind == REGISTERED:
                registered.add(day)
            elif (asked.dose or asked.registration) and USE.search(sentence.text):
                guides.add(day)
    if not registered | guides:
        return answer
    told = [f"농약 등록 정보는 {', '.join(sorted(registered))} 기준 사본입니다."] if registered else []
    told += [f"안내 자료의 농약 쓰는 법은 그 자료를 쓴 때({', '.join(sorted(guides))})의 것입니다."] if guides else []
    note = " ".join([*told, "살포 전에 농약안전정보시스템(psis.rda.go.kr)을 확인하세요."])
    return replace(answer, notes=(*answer.notes, note))


def _from_the_web(answer: Answer, evidence: FusedEvidence) -> Answer:
    """The answer, with the addresses of the pages that it cites: nobody of the farm office has vouched for them."""
    cited = {citation.chunk_id for sentence in answer.sentences for citation in sentence.citations}
    places = dict.fromkeys(i.chunk.locator for i in evidence if i.chunk.chunk_id in cited and i.chunk.kind == WEB_KIND)
    if not places:
        return answer
    note = f"농장 자료가 아닌 웹 문서를 인용했습니다. 쓰기 전에 원문을 확인하세요: {', '.join(places)}"
    return replace(answer, notes=(*answer.notes, note))
