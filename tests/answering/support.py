"""A small store of public documents and a farm's records, and questions on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from rag.answering.asked import Asked
from rag.answering.calibration import SentenceWeights
from rag.answering.sentences import Scored, rank_sentences
from rag.query.features import read_question
from rag.schema import VECTOR, Evidence, Query, Scope, Vote
from rag.stores.view import View
from rag.text import korean
from tests.contract.conftest import open_views, take_in
from tests.fakes import FakeEmbedder

NOW = datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Asia/Seoul"))
HAETSAL = Scope(farm_id="haetsal")
# The shipped encoder's, but for the cosines: those of the fake encoder spread ten times as wide.
WEIGHTS = SentenceWeights(
    similarity=3.7,
    passage=5.1,
    words=5.2,
    context=4.5,
    figure=4.3,
    no_figure=-1.5,
    role=1.2,
    names=1.1,
    record=9.7,
    missing=-1.8,
    house=-2.5,
    cross=0.5,
)

PUBLIC_FILES = {
    "재배/딸기_양액.md": "# 딸기 양액\n\n딸기 급액 EC는 센서로 잰다. 딸기 급액 EC는 1.2dS/m로 둔다.\n",
    "재배/토마토_양액.md": "# 토마토 양액\n\n토마토 급액 EC는 2.5dS/m로 둔다. 토마토 급액은 해 뜨고 시작한다.\n",
    "재배/야간.md": "# 온실 밤 관리\n\n야간 습도는 80%로 둔다. 야간 온도는 8℃로 둔다.\n",
    "재배/긴_글.md": "# 환기\n\n"
    + " ".join(f"환기 {word} 천창을 조금씩 열어 {word} 바람을 들인다." for word in "가나다라마바사아자차카타파하")
    + "\n",
    "병해충/흰가루병.md": "# 딸기 흰가루병\n\n작성일: 2026-01-05\n\n흰가루병은 건조하면 번진다. 병든 잎을 따서 태운다.\n",
    "병해충/배꼽썩음과.md": "# 토마토 배꼽썩음과\n\n배꼽썩음과는 과실에 나는 생리장해이다. 과실의 배꼽이 검게 썩는다. "
    "배꼽썩음과는 칼슘 부족으로 생긴다. 염화칼슘액을 잎에 뿌린다.\n",
    "병해충/담배가루이.md": "# 토마토 담배가루이\n\n담배가루이는 바이러스를 옮긴다.\n",
}
PUBLIC_FILES |= {
    "농약등록/딸기/등록_딸기.md": "# 딸기 흰가루병 등록 농약\n\n자료 기준일: 2026-04-24\n\n"
    "- 메트라페논 액상수화제(상표 나라크, 한국회사): 희석배수 2000배, 수확 2일 전까지, 3회 이내, 등록 유효기간 2028-12-31.\n",
    "농약등록/딸기/등록_딸기_응애.md": "# 딸기 점박이응애 등록 농약\n\n자료 기준일: 2026-04-24\n\n"
    "- 아세퀴노실 액상수화제(상표 골드러쉬, 한국회사): 희석배수 1000배, 수확 2일 전까지, 2회 이내, 등록 유효기간 2028-12-31.\n"
    "- 레피멕틴 유제(상표 데이토나, 한국회사): 희석배수 2000배, 수확 2일 전까지, 2회 이내, 등록 유효기간 2024-10-17.\n",
    "농약등록/오이/등록_오이.md": "# 오이 작은뿌리파리 등록 농약\n\n자료 기준일: 2026-04-24\n\n"
    "- 클로티아니딘 입상수용제(상표 심볼, 한국회사): 희석배수 2000배, 수확 3일 전까지, 3회 이내, 등록 유효기간 2032-03-21.\n",
}
FARM_FILES = {
    "작업일지/2025-03-10_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n2동 배액률을 재니 25%였다.\n",
    "작업일지/2026-03-12_작업일지_박반장.txt": "작업일지\n작성자: 박반장\n\n2동 배액률을 재니 35%였다.\n",
    "작업일지/2026-11-24_작업일지_김주임.txt": "작업일지\n작성자: 김주임\n\n"
    "1동 급액 EC를 1.1로 맞췄다.\n\n2동 급액 EC를 1.2로 맞췄다.\n\n12동 급액 EC를 1.3으로 맞췄다.\n",
    "작업일지/2026-10-05_작업일지_박반장.txt": "작업일지\n작성자: 박반장\n\n급액 EC 센서를 닦았다. 1동은 그대로 두었다. 2동에서는 걸렀다.\n",
    "작업일지/2026-10-06_작업일지_박반장.txt": "작업일지\n작성자: 박반장\n\nEC 센서를 바꿨다. 2동에서는 걸렀다.\n",
    "회의/2026-10-20_회의록.txt": "회의록\n작성자: 박반장\n\n급액 EC를 논의했다.\n\n"
    + "\n\n".join(f"{n}번째 안건으로 농자재 창고 정리와 청소 당번을 다시 정했다." for n in range(1, 30))
    + "\n\n센서는 박반장이 닦기로 했다.\n",
    "급액배액/2026-03_급액배액_요약.csv": "동,작목,배액률(%),급액 EC(dS/m)\n1동,딸기,31,1.1\n2동,딸기,33,1.2\n",
}


def ask(view: View, text: str, *, encoder: bool = False) -> Asked:
    """A question as read; without an encoder every sentence is equally near."""
    features, analysis = read_question(
        Query(text=text, scope=HAETSAL, asked_at=NOW), korean(), view.catalogue, "햇살농원"
    )
    return Asked(
        text=text,
        features=features,
        vector=FakeEmbedder().encode_query(text) if encoder else None,
        types={m.name: m.type for m in analysis.mentions},
        view=view,
        lexicon=korean().lexicon,
        today=NOW.date(),
    )


def stored(folder: Path, files: Mapping[str, str], scope: Scope = HAETSAL) -> View:
    """The view of a store of a farm's files, or of public ones, and nothing else."""
    take_in(folder / "store", f"farm:{scope.farm_id}" if scope.farm_id else "public", files, folder / "sources")
    return open_views(folder / "store").get(scope)


def evidence(view: View, *names: str) -> list[Evidence]:
    """Passages whose document id holds one of ``names``, in that order."""
    level = view.levels["G2"]
    chunks = view.chunks(list(zip(level.scope_of, level.chunk_ids, strict=True)))
    ordered = [c for name in names for c in sorted(chunks.values(), key=lambda c: c.ordinal) if name in c.doc_id]
    assert ordered
    vote = Vote(channel=VECTOR, rank=1, weight=1.0, value=1.0, share=1.0)
    return [Evidence(chunk=chunk, score=1.0, votes=(vote,)) for chunk in ordered]


def ranked(asked: Asked, items: Sequence[Evidence]) -> list[Scored]:
    return rank_sentences(asked, items, WEIGHTS)
