"""What a sentence on a disorder or pest tells: what it is, why it comes, how it looks, what to do; and what a question wants told."""

from __future__ import annotations

import re

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


def wanted_roles(question: str) -> tuple[str, ...]:
    """What a question about a disorder wants told: what it is, why it comes, what to do; a cause is told with its remedy."""
    if re.search(r"무슨\s?(?:병|바이러스|벌레)|뭔\s?병|어떤\s?병|증상|이거\s?뭐|뭐(?:죠|예요|지)", question):
        return (SYMPTOM, CAUSE, ACTION)
    if re.search(r"왜|원인|이유|까닭|때문|탓|그런가|그런\s?건", question):
        return (CAUSE, ACTION)
    if re.search(r"뭐야|뭔가요|란\s?게|이란|무엇", question):
        return (DEFINITION, CAUSE, ACTION)
    return (ACTION, CAUSE)
