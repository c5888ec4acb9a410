"""The order in which an answer reads, and its opening line.

Records read by date (latest first where the present state is asked for), comparisons side by side, several questions
part by part, steps and figures as they stand in their document, disorders as definition → cause → symptom → action.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag.answering.asked import PESTS, REGISTERED, Asked
from rag.answering.rows import MONTHLY_KINDS
from rag.answering.sentences import Scored
from rag.schema import PUBLIC, ChunkRecord

DEFINITION, CAUSE, SYMPTOM, ACTION = "정의", "원인", "증상", "대책"
ROLES = (DEFINITION, CAUSE, SYMPTOM, ACTION)
_DEFINES = re.compile(
    r"(?:은|는|란)\s.*(?:장해|병|해충|방법|방식|현상|품종|시기|것|말|장치|배지|상태)(?:이다|을 말한다|라고 한다)\.?$|말한다\.?$"
)
_ACTS = re.compile(
    r"(?:준다|뿌린다|살포한다|둔다|낮춘다|높인다|올린다|내린다|없앤다|뽑는다|딴다|따\s?낸다|제거한다|막는다|줄인다|늘린다|쓴다|심는다|고른다|방제한다|관주한다|"
    r"엽면살포한다|환기한다|맞춘다|지킨다|피한다|관리한다|친다|씌운다|한다|놓는다|살핀다|점검한다|확인한다|바꾼다|넣는다|태운다|막아야 한다|주어야 한다|좋다|낫다|푼다|방사한다|걷는다|씻는다)\.?$"
)
_CAUSES = re.compile(
    r"원인|때문|생긴다|생기|발생|부족|결핍|옮[긴기]|나타난다|걸린다|지나치면|높으면|낮으면|늘어난다|심해진다|번진다|퍼진다|일어난다|탓"
)
_SYMPTOMS = re.compile(
    r"증상|반점|변하|변한다|갈변|시들|마르|말라|썩|물러|얼룩|검게|노랗|하얗|오그라|비틀|갈라|터[지진]|움푹|처진|쪼그라|휜|굽"
)
_ROLE_HEADINGS = {
    ACTION: re.compile(r"조치|대책|방제|예방|처방|치료|막으려면"),
    CAUSE: re.compile(r"원인|까닭"),
    SYMPTOM: re.compile(r"증상|진단"),
}


def headed_as(role: str, section: str) -> bool:
    """Whether the last heading says that what follows tells that: "발생했을 때의 조치"."""
    return role in _ROLE_HEADINGS and _ROLE_HEADINGS[role].search(section.rpartition(" > ")[2]) is not None


def role_of(sentence: str) -> str:
    """What a sentence on a disorder tells: what it is, why it comes, how it looks, what to do."""
    if _DEFINES.search(sentence):
        return DEFINITION
    if _ACTS.search(sentence):
        return ACTION
    return (
        SYMPTOM if _SYMPTOMS.search(sentence) and not re.search(r"원인|때문|부족|탓|[가-힣]면\s", sentence) else CAUSE
    )


def ordered(
    asked: Asked, chosen: Sequence[Scored], aspects: Sequence[Callable[[ChunkRecord, str], bool]]
) -> list[Scored]:
    """The chosen sentences (best first) as they are read."""
    rank = {id(s): n for n, s in enumerate(chosen)}
    documents: dict[str, int] = {}
    for s in chosen:
        documents.setdefault(s.chunk.doc_id, len(documents))

    def place(s: Scored) -> tuple[int, int, int]:
        return documents[s.chunk.doc_id], s.chunk.ordinal, s.candidate.sentence.start

    if asked.record:
        days = sorted({s.chunk.date for s in chosen}, reverse=asked.latest)
        return sorted(chosen, key=lambda s: (days.index(s.chunk.date), *place(s)))
    if len(aspects) > 1:
        sides = {
            id(s): next((n for n, a in enumerate(aspects) if a(s.chunk, s.candidate.text)), len(aspects))
            for s in chosen
        }
        return sorted(chosen, key=lambda s: (sides[id(s)], *place(s)))
    if asked.parts:
        part = {id(s): max(range(len(s.parts)), key=lambda p: (s.parts[p], -p)) for s in chosen}
        return sorted(chosen, key=lambda s: (part[id(s)], *place(s)))
    if all(s.chunk.kind == REGISTERED for s in chosen):
        return sorted(chosen, key=lambda s: rank[id(s)])
    if asked.features.intent == "relational":
        return sorted(chosen, key=lambda s: (ROLES.index(role_of(s.candidate.text)), *place(s)))
    return sorted(chosen, key=place)


def opening(asked: Asked, chosen: Sequence[Scored]) -> str:
    """A short first line that says what the sentences are, "" where they speak for themselves.

    It says only what is so by construction: which records were read, which crop and pest all the sources name, which
    roles the sentences have.
    """
    if not chosen:
        return ""
    if asked.record:
        return _of_records(asked, chosen)
    pests, crops = asked.named(*PESTS), {s.chunk.crop for s in chosen}
    if (
        len(pests) != 1
        or len(crops) != 1
        or not all(pests[0] in asked.view.entities_of(s.chunk.chunk_id) for s in chosen)
    ):
        return ""
    crop = next(iter(crops))
    about = pests[0] if pests[0].startswith(crop) else f"{crop} {pests[0]}"
    if all(s.chunk.kind == REGISTERED for s in chosen):
        return f"{about} 등록 농약입니다."
    roles = {role_of(s.candidate.text) for s in chosen}
    if asked.features.intent != "relational" or ACTION not in roles or CAUSE not in roles:
        return ""
    return f"{about}의 원인과 대책입니다."


def _of_records(asked: Asked, chosen: Sequence[Scored]) -> str:
    records = {s.chunk.doc_id for s in chosen if s.chunk.scope_id != PUBLIC}
    if len(records) < 2 or any(s.chunk.scope_id == PUBLIC for s in chosen):
        return ""
    kinds = {s.chunk.kind for s in chosen}
    kind = next(iter(kinds)) if len(kinds) == 1 and not kinds & MONTHLY_KINDS else "기록"
    latest = ", 나중 것부터" if asked.latest else ""
    return f"{kind} {len(records)}건에서 찾았습니다{latest}."
