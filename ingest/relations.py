"""Typed relations between lexicon terms of one sentence, by cue words. No model.

A rule fires when a sentence names a head of one of the head types, a tail of one of the tail types, and its cue.
The confidences rank the rules by how specific their cue is; they weigh edges, they are not probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.lexicon import Mention

RELATIONS_VERSION = "1"

_HARM = frozenset({"병", "바이러스", "생리장해", "해충"})
_CONDITION = frozenset({"환경요인", "양액", "생육단계"})
_MEANS = frozenset({"농자재", "작업", "설비"})


@dataclass(frozen=True, slots=True)
class Rule:
    """``head –name→ tail`` where both and the cue stand in one sentence."""

    name: str
    heads: frozenset[str]
    tails: frozenset[str]
    cue: re.Pattern[str]
    confidence: float


RULES: tuple[Rule, ...] = (
    Rule("매개", frozenset({"해충"}), frozenset({"바이러스", "병"}), re.compile("옮기|옮긴|옮겨|매개|퍼뜨|전염"), 0.9),
    Rule(
        "원인",
        _CONDITION | {"증상", "작업"},
        _HARM,
        re.compile("때문|원인|탓|생긴다|생기|발생|일어나|나타나|심해"),
        0.6,
    ),
    Rule("증상", _HARM, frozenset({"증상"}), re.compile("증상|나타|생기|생긴|보이|보인|변하|변한|번진|번지"), 0.6),
    Rule("예방", _MEANS, _HARM, re.compile("예방|막는|막아|막을|방지|미리|줄인|줄이|줄어"), 0.7),
    Rule("조치", _MEANS, _HARM, re.compile("방제|방사|살포|뿌린|뿌려|없애|제거|뽑아|잘라|조치|다스|쓴다|풀어"), 0.7),
    Rule(
        "필요",
        frozenset({"설비", "작업"}),
        frozenset({"설비", "농자재", "단위"}),
        re.compile("필요|갖추|갖춘|설치|쓴다|이용"),
        0.4,
    ),
    Rule("소속", frozenset({"품종"}), frozenset({"작물"}), re.compile(""), 0.8),
    Rule("대상", _HARM, frozenset({"작물"}), re.compile(""), 0.4),
)


def relations_in(sentence: str, mentions: Sequence[Mention]) -> Iterator[tuple[str, str, str, float]]:
    """(head, relation, tail, confidence) stated by one sentence with its lexicon mentions, each once."""
    seen: set[tuple[str, str, str]] = set()
    for rule in RULES:
        if not rule.cue.search(sentence):
            continue
        for head in mentions:
            for tail in mentions:
                key = (head.name, rule.name, tail.name)
                if head.name == tail.name or head.type not in rule.heads or tail.type not in rule.tails or key in seen:
                    continue
                seen.add(key)
                yield (*key, rule.confidence)
