"""Each relation rule where it fires and where its head, tail or cue is missing."""

from __future__ import annotations

import pytest

from ingest.relations import RULES, relations_in
from rag.lexicon import Mention
from rag.text import korean

TYPES = {
    "담배가루이": "해충",
    "황화바이러스": "바이러스",
    "흰가루병": "병",
    "배꼽썩음과": "생리장해",
    "고온": "환경요인",
    "EC": "양액",
    "개화기": "생육단계",
    "황화": "증상",
    "환기": "작업",
    "황산": "농자재",
    "보온커튼": "설비",
    "dS/m": "단위",
    "설향": "품종",
    "딸기": "작물",
}


def found(sentence: str, *names: str) -> set[tuple[str, str, str]]:
    """Relations of a sentence that mentions ``names``."""
    mentions = [Mention(name, TYPES[name], 2 * i, 2 * i + 1) for i, name in enumerate(names)]
    return {(head, relation, tail) for head, relation, tail, _ in relations_in(sentence, mentions)}


@pytest.mark.parametrize(
    ("sentence", "head", "relation", "tail"),
    [
        ("담배가루이가 황화바이러스를 옮긴다.", "담배가루이", "매개", "황화바이러스"),
        ("담배가루이가 매개한다.", "담배가루이", "매개", "흰가루병"),
        ("고온 때문에 흰가루병이 온다.", "고온", "원인", "흰가루병"),
        ("EC가 높으면 배꼽썩음과가 생긴다.", "EC", "원인", "배꼽썩음과"),
        ("개화기에 흰가루병이 심해진다.", "개화기", "원인", "흰가루병"),
        ("황화가 흰가루병의 원인이다.", "황화", "원인", "흰가루병"),
        ("환기 탓에 담배가루이가 는다.", "환기", "원인", "담배가루이"),
        ("흰가루병에 걸리면 황화가 보인다.", "흰가루병", "증상", "황화"),
        ("담배가루이는 황화 증상을 낸다.", "담배가루이", "증상", "황화"),
        ("환기로 흰가루병을 막는다.", "환기", "예방", "흰가루병"),
        ("보온커튼이 배꼽썩음과를 줄인다.", "보온커튼", "예방", "배꼽썩음과"),
        ("황산을 흰가루병에 살포한다.", "황산", "조치", "흰가루병"),
        ("환기와 함께 병든 흰가루병 잎을 제거한다.", "환기", "조치", "흰가루병"),
        ("환기에는 보온커튼이 필요하다.", "환기", "필요", "보온커튼"),
        ("보온커튼에 황산을 쓴다.", "보온커튼", "필요", "황산"),
        ("설향은 딸기다.", "설향", "소속", "딸기"),
        ("흰가루병은 딸기의 병이다.", "흰가루병", "대상", "딸기"),
    ],
)
def test_a_rule_fires(sentence: str, head: str, relation: str, tail: str) -> None:
    assert (head, relation, tail) in found(sentence, head, tail)
    assert (head, relation, tail) in found(sentence, tail, head)  # whatever their order


@pytest.mark.parametrize(
    ("sentence", "names", "relation"),
    [
        ("담배가루이와 황화바이러스를 본다.", ("담배가루이", "황화바이러스"), "매개"),  # no cue
        ("환기로 황화바이러스를 옮긴다.", ("환기", "황화바이러스"), "매개"),  # the head is no pest
        ("담배가루이가 딸기로 옮긴다.", ("담배가루이", "딸기"), "매개"),  # the tail is no disease
        ("고온에서 흰가루병을 본다.", ("고온", "흰가루병"), "원인"),
        ("딸기 때문에 흰가루병이 온다.", ("딸기", "흰가루병"), "원인"),
        ("고온 때문에 딸기가 상한다.", ("고온", "딸기"), "원인"),
        ("흰가루병과 황화를 적는다.", ("흰가루병", "황화"), "증상"),
        ("고온에서 황화 증상", ("고온", "황화"), "증상"),
        ("흰가루병 증상은 고온", ("흰가루병", "고온"), "증상"),
        ("환기와 흰가루병", ("환기", "흰가루병"), "예방"),
        ("고온이 흰가루병을 막는다.", ("고온", "흰가루병"), "예방"),
        ("환기가 황화를 막는다.", ("환기", "황화"), "예방"),
        ("황산과 흰가루병", ("황산", "흰가루병"), "조치"),
        ("고온으로 흰가루병을 방제한다.", ("고온", "흰가루병"), "조치"),
        ("황산을 딸기에 살포한다.", ("황산", "딸기"), "조치"),
        ("환기와 보온커튼", ("환기", "보온커튼"), "필요"),
        ("딸기에는 보온커튼이 필요하다.", ("딸기", "보온커튼"), "필요"),
        ("환기에는 딸기가 필요하다.", ("환기", "딸기"), "필요"),
        ("설향 흰가루병", ("설향", "흰가루병"), "소속"),
        ("고온과 딸기", ("고온", "딸기"), "소속"),
        ("흰가루병과 설향", ("흰가루병", "설향"), "대상"),
        ("고온과 딸기", ("고온", "딸기"), "대상"),
    ],
)
def test_a_rule_does_not_fire(sentence: str, names: tuple[str, ...], relation: str) -> None:
    assert relation not in {name for _, name, _ in found(sentence, *names)}


def test_every_rule_is_tried_above() -> None:
    assert {rule.name for rule in RULES} == {"매개", "원인", "증상", "예방", "조치", "필요", "소속", "대상"}


def test_a_relation_is_said_once_and_never_of_itself() -> None:
    twice = [Mention("설향", "품종", 0, 2), Mention("딸기", "작물", 3, 5), Mention("설향", "품종", 6, 8)]
    assert list(relations_in("설향 딸기 설향", twice)) == [("설향", "소속", "딸기", 0.8)]
    assert found("환기에는 환기가 필요하다.", "환기", "환기") == set()


def test_confidence_is_the_rule_s() -> None:
    mentions = [Mention("담배가루이", "해충", 0, 5), Mention("황화바이러스", "바이러스", 6, 12)]
    (relation,) = relations_in("담배가루이가 황화바이러스를 옮긴다.", mentions)
    assert relation == ("담배가루이", "매개", "황화바이러스", 0.9)
    assert all(0 < rule.confidence <= 1 for rule in RULES)


def test_nothing_mentioned_nothing_said() -> None:
    assert found("옮긴다. 때문에 막는다.") == set()


def test_on_a_sentence_as_it_is_read() -> None:
    sentence = "담배가루이는 토마토황화잎말림바이러스를 옮긴다."
    relations = {r[:3] for r in relations_in(sentence, korean().analyse(sentence).mentions)}
    assert ("담배가루이", "매개", "토마토황화잎말림바이러스") in relations
