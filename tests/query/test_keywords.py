"""Keywords: nouns as written, predicates in dictionary form, nothing of the asking."""

from __future__ import annotations

import pytest

from tests.query.test_features import read


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("토마토 착과기 급액 EC 얼마로 맞춰요?", ["급액", "EC", "맞추다"]),
        ("작년 3월 작업일지에서 방제한 날 알려줘", ["방제"]),
        ("설향하고 금실 중 뭐가 더 오래 가요?", ["오래가다"]),
        ("봄가을로 총채벌레 많아지는 까닭은", ["봄가을", "총채벌레", "많아지다"]),
        ("환기 안 하면 잿빛곰팡이병 심해지나요?", ["환기", "잿빛곰팡이병", "심하다"]),
        ("PO필름 vs 일반 비닐 뭐가 나음?", ["PO필름", "일반", "비닐", "낫다"]),
        ("양액기필터청소방법", ["양액기", "필터", "청소"]),
        ("토마토잎곰팡이병방제", ["잎곰팡이병", "방제"]),
        ("올해6월오이총수확량", ["총수확량"]),
        ("올해 2동 35도 이상 올라간 날", ["올라가다"]),
        ("9월 정식 딸기 첫 급액 EC는?", ["9월", "정식", "급액", "EC"]),
        ("일사량 말고 광도 20000럭스면", ["광도"]),
        ("하우스 2동 비닐 교체 기록", ["비닐", "교체"]),
        ("2동이랑 4동 중에 어디가 더 따뜻했어", ["따뜻하다"]),
        ("파프리카 재식 거리 몇 cm가 표준입니까", ["재식", "거리", "표준"]),
        ("tomato 착과기 EC target 얼마?", ["EC", "target"]),
        ("?", []),
    ],
)
def test_keywords(text: str, keywords: list[str]) -> None:
    assert list(read(text).keywords) == keywords


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("방제 기록 좀 뽑아줘요", ("기록", "좀", "뽑아줘요")),
        ("딸기 EC를 얼마로 해요?", ("를", "얼마로", "해요")),
    ],
)
def test_particles_and_requests_are_removed(text: str, removed: tuple[str, ...]) -> None:
    assert read(text).removed == removed
