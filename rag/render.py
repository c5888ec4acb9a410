"""A result as JSON and as terminal text. The JSON form is the contract of the terminal and the HTTP interface."""

from __future__ import annotations

from typing import Any

from rag.schema import (
    CHANNEL_LABELS,
    Answer,
    Citation,
    CitedSentence,
    Clarification,
    Evidence,
    Result,
    Vote,
    Weights,
    segment_key,
)

# Everything before the answer; "llm_weights" is there only where a model picked the weights.
RETRIEVAL_STAGES = (
    "features",
    "profile",
    "embedding",
    "policy",
    "llm_weights",
    "retrieval",
    "weighting",
    "fusion",
    "evidence",
)


def as_json(result: Result) -> dict[str, Any]:
    """The documented JSON form (README, "JSON")."""
    features = result.features
    return {
        "question": result.query.text,
        "asked_at": result.query.asked_at.isoformat(),
        "farm": result.query.scope.farm_id,
        "previous": result.query.previous,
        "choice": result.query.choice,
        "system": result.system,
        "answer": result.answer.text,
        "lead": result.answer.lead,
        "refused": result.answer.refused,
        "answerer": result.answer.answerer,
        "notes": list(result.answer.notes),
        "nearby": list(result.answer.nearby),
        "sentences": [
            {
                "text": sentence.text,
                "supported": sentence.supported,
                "outcome": sentence.outcome,
                "note": sentence.note,
                "citations": [_citation(citation) for citation in sentence.citations],
                "conflicts": [_citation(citation) for citation in sentence.conflicts],
            }
            for sentence in result.answer.sentences
        ],
        "evidence": [
            {
                "chunk_id": item.chunk.chunk_id,
                "doc_id": item.chunk.doc_id,
                "title": item.chunk.title,
                "section": item.chunk.section,
                "locator": item.chunk.locator,
                "score": item.score,
                "votes": [
                    {"channel": v.channel, "rank": v.rank, "weight": round(v.weight, 6), "share": round(v.share, 6)}
                    for v in item.votes
                ],
            }
            for item in result.evidence
        ],
        "features": {
            "intent": features.intent,
            "query_length_bucket": features.query_length_bucket,
            "entity_hint_presence": features.entity_hint_presence,
            "relation_hint": features.relation_hint,
            "effort": features.effort,
            "slots": [
                {
                    "kind": s.kind,
                    "value": s.value,
                    "text": s.words_in(result.query),
                    "start": s.start,
                    "end": s.end,
                    "rule": s.rule,
                }
                for s in features.slots
            ],
            "keywords": list(features.keywords),
            "removed": list(features.removed),
            "terms": list(features.terms),
            "standalone": features.standalone,
            "entities": list(features.entities),
            "reasons": dict(features.reasons),
        },
        "segment": segment_key(features.segment),
        "profile": {"id": result.profile_id, "reason": result.profile_reason},
        "weights": {
            "raw": _weights(result.weights.raw),
            "bounded": _weights(result.weights.bounded),
            "final": _weights(result.weights.final),
        },
        "channels": [
            {
                "name": channel.channel,
                "status": channel.status,
                "ms": round(channel.ms, 2),
                "hits": len(channel.hits),
                "error": channel.error,
            }
            for channel in result.channels
        ],
        "latency_ms": {stage: round(ms, 2) for stage, ms in result.trace.latency_ms.items()},
        "clarification": _clarification(result.clarification),
        "banners": list(result.banners),
    }


def _clarification(asked: Clarification | None) -> dict[str, Any] | None:
    if asked is None:
        return None
    options = [{"label": label, "value": value} for label, value in asked.options]
    return {"slot": asked.slot, "question": asked.question, "options": options}


def _citation(citation: Citation) -> dict[str, Any]:
    return {
        "doc_id": citation.doc_id,
        "title": citation.title,
        "locator": citation.locator,
        "chunk_id": citation.chunk_id,
        "sentence": citation.sentence,
        "start": citation.start,
        "end": citation.end,
        "cosine": citation.cosine,
    }


def _weights(weights: Weights) -> dict[str, float]:
    return {channel: round(weight, 6) for channel, weight in weights.by_channel.items()}


def as_text(result: Result, *, explain: bool) -> str:
    """The answer with its numbered sources; with ``explain`` every stage for a person."""
    lines = [*(f"! {banner}" for banner in result.banners), *_answer_lines(result)]
    if result.clarification is not None:
        lines += ["", *asked_lines(result.clarification), "고르려면 --choice 번호 를 붙여 다시 물어 주세요."]
    if explain:
        lines += ["", *_explain_lines(result)]
    return "\n".join(lines)


def asked_lines(asked: Clarification) -> list[str]:
    """A question back with its numbered options."""
    return [f"? {asked.question}", *(f"  {n}) {label}" for n, (label, _) in enumerate(asked.options, start=1))]


def numbered(answer: Answer) -> dict[tuple[str, int], tuple[int, Citation]]:
    """(chunk id, start) → (number shown, citation), in the order of the answer; what contradicts it is numbered too."""
    found: dict[tuple[str, int], tuple[int, Citation]] = {}
    for sentence in answer.sentences:
        for citation in (*sentence.citations, *sentence.conflicts):
            found.setdefault((citation.chunk_id, citation.start), (len(found) + 1, citation))
    return found


def doubt_of(sentence: CitedSentence) -> str:
    """What is said beside a sentence that nothing supports: 상충 with what both say, or 근거 미확인; "" for a supported one."""
    if sentence.supported:
        return ""
    name = "상충" if sentence.outcome == "contradicted" else "근거 미확인"
    return f"{name}: {sentence.note}" if sentence.note else name


def _answer_lines(result: Result) -> list[str]:
    cited = numbered(result.answer)
    lines: list[str] = [result.answer.lead] if result.answer.lead else []
    for sentence in result.answer.sentences:
        marks = "".join(f"[{cited[(c.chunk_id, c.start)][0]}]" for c in (*sentence.citations, *sentence.conflicts))
        doubt = "" if result.answer.refused else doubt_of(sentence)
        lines.append(f"{sentence.text} {marks}{f'({doubt})' if doubt else ''}".rstrip())
    lines += [f"※ {note}" for note in result.answer.notes]
    if result.answer.refused and result.answer.nearby:
        lines.append("가까운 문서: " + ", ".join(result.answer.nearby))
    if cited:
        lines += ["", "근거"]
        lines += [
            f"[{i}] {c.title}{' · ' + c.locator if c.locator else ''} ({c.doc_id})\n    “{c.sentence}”"
            for i, c in cited.values()
        ]
    return lines


def _explain_lines(result: Result) -> list[str]:
    features = result.features
    lines = ["── 질문 해석"]
    if features.standalone:
        lines.append(f"  풀어 쓴 질문: {features.standalone}")
    lines += [
        f"  {s.kind}: {s.value}  ← '{s.words_in(result.query)}' [{s.start}:{s.end}] ({s.rule})" for s in features.slots
    ]
    lines += [
        f"  핵심어: {', '.join(features.keywords) or '-'}   뺀 말: {', '.join(features.removed) or '-'}",
        f"  찾는 말: {', '.join(features.terms) or '-'}",
        f"  개체: {', '.join(features.entities) or '-'}",
        f"  유형 {segment_key(features.segment)}, 탐색 강도 {features.effort}",
        *(f"    {name}: {reason}" for name, reason in features.reasons.items()),
        *(f"  {line}" for line in (asked_lines(result.clarification) if result.clarification else ["되물을 것 없음"])),
        "── 프로필과 가중치",
        f"  {result.profile_id}: {result.profile_reason}",
    ]
    for label, weights in (
        ("원래", result.weights.raw),
        ("한계 적용", result.weights.bounded),
        ("최종", result.weights.final),
    ):
        shares = "  ".join(f"{CHANNEL_LABELS.get(c, c)} {w:.2f}" for c, w in weights.by_channel.items())
        lines.append(f"  {label}: {shares}")
    parts = [query.text for query in result.plan.queries]
    lines.append("── 채널")
    per_part = max(1, len(result.channels) // len(parts))
    for number, channel in enumerate(result.channels):
        if len(parts) > 1 and number % per_part == 0:
            lines.append(f"  [{parts[number // per_part]}]")
        label = CHANNEL_LABELS.get(channel.channel, channel.channel)
        doubt = f" — {channel.error}" if channel.error else ""
        lines.append(f"  {label}: {channel.status}, {len(channel.hits)}건, {channel.ms:.1f} ms{doubt}")
    paths = [path for channel in result.channels for path in channel.paths[:2]]
    shown = dict.fromkeys(f"  경로: {' → '.join(path.nodes)} ({', '.join(path.labels)})" for path in paths)
    lines += shown
    lines.append("── 근거 순위")
    for rank, item in enumerate(result.evidence, start=1):
        place = " · ".join(part for part in (item.chunk.title, item.chunk.section) if part)
        lines.append(f"  {rank}. {place}  점수 {item.score:.4f}  {_votes_text(item)}")
    lines.append("── 결정")
    lines += [f"  [{d.stage}] {d.what} — {d.why}" for d in result.trace.decisions]
    lines.append("── 지연")
    lines += [f"  {stage}: {ms:.1f} ms" for stage, ms in result.trace.latency_ms.items()]
    return lines


def _votes_text(item: Evidence) -> str:
    """Ranks and share per channel: "의미 검색 3·4위 52%"; a channel votes once for each part of the question."""
    by_channel: dict[str, list[Vote]] = {}
    for vote in item.votes:
        by_channel.setdefault(vote.channel, []).append(vote)
    return "  ".join(
        f"{CHANNEL_LABELS.get(channel, channel)} {'·'.join(str(v.rank) for v in votes)}위 {sum(v.share for v in votes):.0%}"
        for channel, votes in by_channel.items()
    )
