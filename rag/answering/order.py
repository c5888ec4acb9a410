"""The order in which an answer reads, and its opening line.

Records read by date (latest first where the present state is asked for), comparisons side by side, several questions
part by part, steps and figures as they stand in their document, disorders as definition → cause → symptom → action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag.answering.asked import PESTS, REGISTERED, Asked
from rag.answering.months import MONTHLY_KINDS, sum_of, value_of
from rag.answering.registrations import is_registration
from rag.answering.roles import ACTION, CAUSE, ROLES, role_of
from rag.answering.rows import unit_of, without_unit
from rag.answering.sentences import Scored
from rag.schema import PUBLIC, ChunkRecord


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

    if _by_value(asked, chosen):
        return list(chosen)
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


def _by_value(asked: Asked, chosen: Sequence[Scored]) -> bool:
    """Whether the chosen are months put by their values."""
    return bool(asked.extreme) and all(s.month and value_of(s.candidate.text, asked.columns) for s in chosen)


def opening(asked: Asked, chosen: Sequence[Scored], scored: Sequence[Scored]) -> str:
    """A short first line that says what the ``chosen`` of the ``scored`` sentences are, "" where they speak for themselves.

    It says only what is so by construction: which records were read, which crop and pest all the sources name, which
    roles the sentences have.
    """
    if not chosen:
        return ""
    if asked.record:
        return _of_months(asked, chosen, scored) or _of_records(asked, chosen, scored)
    if told := _of_use(asked, chosen):
        return told
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


def _of_use(asked: Asked, chosen: Sequence[Scored]) -> str:
    """Whether the registrations told are as the question wants them, and what is told where none is."""
    wanted, told = asked.wanted_use, [s.candidate.text for s in chosen if is_registration(s.candidate.text)]
    if not wanted or not told:
        return ""
    if wanted.soonest:
        return "등록 자료에서 수확 전 기간이 가장 짧은 것입니다."
    far = [wanted.short_of(text) > 0 for text in told]
    if not any(far):
        return f"{wanted.told()} 쓸 수 있는 등록입니다."
    if all(far):
        return f"{wanted.told()} 쓸 수 있는 등록은 찾지 못했습니다. 가장 가까운 것입니다."
    return f"{wanted.told()} 쓸 수 있는 등록과, 없는 것은 가장 가까운 등록입니다."


def _of_months(asked: Asked, chosen: Sequence[Scored], scored: Sequence[Scored]) -> str:
    """Of how many months the highest or lowest are told; the sum of all, where all are told."""
    rows = [s for s in scored if s.month]
    told = [s for s in rows if value_of(s.candidate.text, asked.columns)]
    if not told or not all(s in rows for s in chosen):
        return ""
    if _by_value(asked, chosen):
        name, _ = value_of(told[0].candidate.text, asked.columns) or ("", 0.0)
        tables = len({s.chunk.doc_id for s in told})
        return f"월별 기록 {tables}건에서 ‘{without_unit(name)}’ 값이 {'높은' if asked.extreme > 0 else '낮은'} 것부터입니다."
    if not asked.summed:
        return ""
    if not all(s in chosen for s in told):
        return "기록이 많아 일부만 보였습니다. 동, 작목이나 기간을 좁혀 물으면 더한 값도 답합니다."
    total = sum_of([s.candidate.text for s in told], asked.columns)
    if total is None:
        return ""
    name, value = total
    return f"월별 기록의 ‘{without_unit(name)}’ {len(told)}개를 더하면 {value:,.10g}{unit_of(name)}입니다."


def _of_records(asked: Asked, chosen: Sequence[Scored], scored: Sequence[Scored]) -> str:
    records = {s.chunk.doc_id for s in chosen if s.chunk.scope_id != PUBLIC}
    if len(records) < 2 or any(s.chunk.scope_id == PUBLIC for s in chosen):
        return ""
    kinds = {s.chunk.kind for s in chosen}
    kind = next(iter(kinds)) if len(kinds) == 1 and not kinds & MONTHLY_KINDS else "기록"
    latest = ", 나중 것부터" if asked.latest else ""
    if asked.listed and asked.sprayed and asked.periods and all(s.exact for s in chosen):
        found = len({s.chunk.doc_id for s in scored if s.exact})  # all of the time were looked up
        shown = "" if found == len(records) else f" 그 가운데 {len(records)}건입니다."
        return f"살포를 적은 기록 {found}건을 찾았습니다.{shown}"
    more = " 더 있을 수 있습니다." if asked.listed else ""
    return f"{kind} {len(records)}건에서 찾았습니다{latest}.{more}"
