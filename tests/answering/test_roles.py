"""What a sentence on a disorder tells, and what a question about one wants told."""

from __future__ import annotations

import pytest

from rag.answering.roles import ACTION, CAUSE, DEFINITION, ROLES, SYMPTOM, headed_as, role_of, wanted_roles


@pytest.mark.parametrize(
    ("sentence", "role"),
    [
        ("배꼽썩음과는 칼슘 부족으로 생기는 생리장해이다.", DEFINITION),
        ("엽면시비란 잎에 비료를 뿌리는 일을 말한다.", DEFINITION),
        ("흙이 마르면 칼슘 흡수가 줄어 배꼽썩음과가 생긴다.", CAUSE),
        ("칼슘이 부족하면 잎끝이 마른다.", CAUSE),  # a symptom with what it comes from
        ("과실의 배꼽이 검게 썩는다.", SYMPTOM),
        ("염화칼슘 0.5%액을 잎에 뿌린다.", ACTION),
        ("시든 포기는 뽑는다.", ACTION),  # told to do, whatever it names
        ("담배가루이는 바이러스를 옮긴다.", CAUSE),
    ],
)
def test_what_a_sentence_on_a_disorder_tells(sentence: str, role: str) -> None:
    assert role_of(sentence) == role


@pytest.mark.parametrize(
    ("question", "roles"),
    [
        ("잎에 흰 점이 생겼는데 무슨 병이에요?", (SYMPTOM, CAUSE, ACTION)),
        ("잿빛곰팡이병 증상이 뭐예요?", (SYMPTOM, CAUSE, ACTION)),
        ("배꼽썩음과는 왜 생겨?", (CAUSE, ACTION)),
        ("팁번 원인", (CAUSE, ACTION)),
        ("팁번이 뭐야?", (DEFINITION, CAUSE, ACTION)),
        ("배꼽썩음과란 무엇인가", (DEFINITION, CAUSE, ACTION)),
        ("흰가루병 어떻게 막아요?", (ACTION, CAUSE)),
        ("", (ACTION, CAUSE)),
    ],
)
def test_what_a_question_wants_told(question: str, roles: tuple[str, ...]) -> None:
    assert wanted_roles(question) == roles
    assert set(roles) <= set(ROLES)


@pytest.mark.parametrize(
    ("role", "section", "headed"),
    [
        (ACTION, "흰가루병 > 발생했을 때의 조치", True),
        (ACTION, "흰가루병 방제", True),
        (ACTION, "방제 > 발생 생태", False),  # the last heading counts
        (CAUSE, "발생 원인", True),
        (SYMPTOM, "진단과 증상", True),
        (SYMPTOM, "발생 원인", False),
        (DEFINITION, "정의", False),  # no heading stands for it
        (ACTION, "", False),
    ],
)
def test_what_a_heading_says(role: str, section: str, headed: bool) -> None:
    assert headed_as(role, section) is headed
