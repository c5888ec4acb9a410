"""Refusals: by rule where a pesticide figure has no registration to stand on, and what was found near."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from rag.answering.asked import CROP, CULTIVAR, PESTS, Asked
from rag.answering.choice import registers
from rag.answering.sentences import Scored
from rag.schema import Answer, CitedSentence, Evidence
from rag.stores.segments import DocumentFacts

NOT_FOUND = "문서에서 찾지 못했습니다."
N_NEARBY = 3
NO_REGISTRATION = (
    "작물과 병해충(또는 약제)이 모두 맞는 등록 자료가 없어 배수·수확 전 일수·횟수를 답하지 않습니다. "
    "농약안전정보시스템(psis.rda.go.kr)에서 확인하세요."
)


NO_CROP = (
    "약의 등록은 작물마다 다릅니다. 작물을 함께 적어 다시 물어 주세요(예: 오이 흰가루병 약). "
    "농약안전정보시스템(psis.rda.go.kr)에서도 볼 수 있습니다."
)
ONLY_REGISTERED = (
    "있는 자료는 등록된 약뿐이라, 쓰면 안 되거나 듣지 않는 약은 답하지 않습니다. "
    "농약안전정보시스템(psis.rda.go.kr)이나 농업기술센터에 확인하세요."
)
EMERGENCY = "농약을 마셨거나 중독 증세가 있으면 먼저 119에 전화하고, 쓴 농약의 포장지를 들고 병원에 가세요."
# What a passage on the poisoning of people says.
FIRST_AID = re.compile(r"119|응급|병원|의사의")
_POISON = r"(?:농약|(?<![가-힣])약(?=[을이도]?\s)|살충제|살균제|제초제|소독제|훈증제|원액)"
_TAKEN_IN = r"(?:마셨|마신|마셔|마시면|삼켰|삼킨|삼키|들이마|먹었|눈에(?!\s?띄)|얼굴에|피부에|살에|뒤집어|몸에)"
_SICK = r"(?:중독|어지[럽러]|구토|토했|토하|토해|메스꺼|쓰러[졌지진]|숨[이을]\s?(?:가쁘|못|막)|머리가?\s?아[프파팠])"
_POISONED = re.compile(
    rf"{_POISON}(?:[을를이가은는]|\s|도|에)?\s?\S{{0,6}}\s?{_TAKEN_IN}"
    rf"|(?:{_POISON}|살포|방제)\S{{0,6}}\s?.{{0,14}}?{_SICK}|{_SICK}.{{0,14}}?(?:농약|약\s?[치친])"
)
_FORBIDDEN = re.compile(
    r"안\s?(?:되는|돼는|듣는|맞는)|못\s?(?:쓰는|치는)(?!데|\s?(?:농장|농가))|쓰지\s?(?:말|못)|금지|효과\s?없는|저항성\s?생긴"
)
# Crops that no document is on, those of one syllable among them: a dose for another crop is no answer.
_OTHER_CROP = re.compile(
    r"(?:^|\s)(?:배|감|마|파|귤|콩|밀|벼|무|팥|깨|차|밤|잣|쌀|포도|사과|복숭아|자두|고추|가지|배추|상추|감자|고구마|양파|마늘|"
    r"수박|참외|멜론|인삼|대추|매실|블루베리)(?:나무|밭)?(?:[은는이가에의용]|에는|에서)?(?=\s|[?]|$)"
)
# Another plant whose name holds that of a crop: what is registered for 오이 is not for 오이고추.
_OTHER_PLANT = re.compile(r"(?:오이|토마토)(?:맛)?고추|(?:나무|복분자|산|뱀|멍석|곰)딸기")


LIVE = "날씨와 시세처럼 날마다 바뀌는 것은 문서에 없어 답하지 않습니다."
NO_CONTACT = "있는 문서에는 그 전화번호나 주소가 적혀 있지 않습니다."
_LIVE = re.compile(
    r"(?:지금|현재|요즘|요새|오늘|이번\s?주)\S*\s.{0,14}(?:(?:가격|값)\S*\s?(?:얼마|어때|어떻|알려)|얼마\s?(?:해요|하나|합니까|하죠))"
    r"|(?:오늘|내일|모레|이번\s?주|주말).{0,12}(?:(?:비|눈)\s?(?:와요?|오나요?|올까요?|옵니까|온대요?)|(?:날씨|기온)\S*(?:\s?(?:어때|어떻|알려|몇|얼마).*)?)\s*[?!.]*$"
    r"|시세[가는]?\s?(?:얼마|어때|어떻|알려|좀)"
)
_TO_COME = re.compile(r"내일|모레|시세")
_CONTACT = re.compile(r"전화\s?번호|연락처|홈페이지\s?주소|이메일")
_A_CONTACT = re.compile(r"\d{2,4}\)?[-–. ]\d{3,4}|(?<!\d)1\d{3}(?!\d|년)|https?://|www\.|[a-z]\.kr|@")
# What is told of a cultivar itself, and not of its crop.
_TRAIT = re.compile(
    r"품종|교배|육성|무게|몇\s?(?:그램|g)|과중|당도|브릭스|추위|더위|마디|맛|크기|모양|색|수량|저항성|내병|강한가|강해|센가|약한가"
)
# Measured or paid things that a farm keeps under their own names or not at all.
_KEPT_BY_NAME = re.compile(
    r"수온|풍속|풍향|당도|보험료?|경매|수질|용존\s?산소|염도|강수량|지온|토양\s?검정|잔류\s?농약|회의"
)
_YEAR = re.compile(r"(?<!\d)(?:(?P<whole>(?:19|20)\d{2})(?=년|\s?년산)|(?P<short>\d{2})(?=년산))")
# A disease or pest by its name.
_NAMED_PEST = re.compile(
    r"[가-힣]{3,}(?P<kind>바이러스|병|응애|나방|총채벌레|진딧물|파리)(?=[은는이가을를의에도]|\s|[?.]|$)"
)


def emergency(text: str) -> tuple[str, ...]:
    """What is said before all else to a question that tells of somebody poisoned by a pesticide."""
    return (EMERGENCY,) if _POISONED.search(text) else ()


def refusal(items: Sequence[Evidence], answerer: str, *, note: str | None = None, asked: Asked | None = None) -> Answer:
    """A refusal that names what was near: titles with date, house and crop; the nearest by date where one was asked."""
    documents = _documents(items) if asked is None else _nearest(items, asked)
    nearby = tuple(dict.fromkeys(documents))[:N_NEARBY]
    sentence = CitedSentence(text=NOT_FOUND)
    return Answer(sentences=(sentence,), refused=True, answerer=answerer, nearby=nearby, notes=(note,) if note else ())


def _documents(items: Sequence[Evidence]) -> list[str]:
    return [item.chunk.title for item in items]


def _nearest(items: Sequence[Evidence], asked: Asked) -> list[str]:
    """The passages' documents; asked for a date, the farm's documents of their kinds and houses that lie nearest to it."""
    ids = list(dict.fromkeys(item.chunk.doc_id for item in items))
    facts = {document.doc_id: document for document in asked.view.documents}
    found = [facts[doc_id] for doc_id in ids if doc_id in facts]
    periods = asked.features.periods
    if asked.record and periods:
        kinds = {document.kind for document in found[:N_NEARBY]}
        scopes = {document.scope_id for document in found}
        houses = set(asked.houses)
        there = [
            d
            for d in asked.view.documents
            if d.days is not None
            and d.kind in kinds
            and d.scope_id in scopes
            and (not houses or houses & set(d.houses))
        ]
        found = sorted(there or found, key=lambda d: (_distance(d.days, periods), d.doc_id))
    return [_described(document) for document in found]


def _distance(days: tuple[date, date] | None, periods: Sequence[tuple[date, date]]) -> int:
    """Days between those of a document and the nearest period; a document without a date lies farthest."""
    if days is None:
        return 10**6
    return min(max((first - days[1]).days, (days[0] - last).days, 0) for first, last in periods)


def _described(document: DocumentFacts) -> str:
    why = [
        "" if document.days is None or document.days[0].isoformat() in document.title else document.days[0].isoformat(),
        ", ".join(document.houses) if len(document.houses) < N_NEARBY else "",
        "" if not document.crop or document.crop in document.title else document.crop,
    ]
    told = " · ".join(part for part in why if part)
    return f"{document.title} ({told})" if told else document.title


def lacks_registration(asked: Asked, chosen: Sequence[Scored]) -> bool:
    """Whether a pesticide's use is asked for and no chosen registration names the asked crop and pest or product.

    Which pesticides are registered is asked of registrations too: without one for that crop and pest there is none.
    """
    if not (asked.dose or asked.registration):
        return False
    if _OTHER_PLANT.search(asked.text) or (not asked.crops and _OTHER_CROP.search(asked.text)) or asked.unregistered:
        return True
    if asked.dose and not asked.crops and not asked.products and len({s.chunk.crop for s in chosen} - {""}) > 1:
        return True  # of which crop it is asked is not known
    return not any(registers(asked, s) for s in chosen)


def registration_note(asked: Asked) -> str:
    """What a refusal for want of a registration says: the crop is missing in the question, or no registration fits."""
    if asked.unregistered:
        return f"‘{asked.unregistered}’(이)라는 등록 약제를 찾지 못했습니다. {NO_REGISTRATION}"
    return NO_REGISTRATION if asked.crops or _OTHER_CROP.search(asked.text) or asked.products else NO_CROP


def asks_live(asked: Asked) -> bool:
    """Whether the weather or a market price of the day is asked for, which no document tells; of days gone by a farm's
    records may.
    """
    found = _LIVE.search(asked.text)
    return found is not None and (not asked.record or _TO_COME.search(found[0]) is not None)


def lacks_what_is_named(asked: Asked, chosen: Sequence[Scored]) -> str | None:
    """What the question names and no chosen sentence speaks of, as a note; None where they do.

    A cultivar whose own traits are asked for, a year of public figures, an address or a telephone number; of a farm's
    records a crop that it does not grow, a thing that is kept under its own name.
    """
    if _CONTACT.search(asked.text) and not any(_A_CONTACT.search(s.candidate.text) for s in chosen):
        return NO_CONTACT
    if asked.record:
        return _lacks_of_records(asked, chosen)
    years = [m["whole"] or f"20{m['short']}" for m in _YEAR.finditer(asked.text)]
    if years and not any(_tells_year(s, year) for s in chosen for year in years):
        return f"{years[0]}년의 것을 적은 문장을 찾지 못했습니다."
    if (pest := _unknown_pest(asked, chosen)) is not None:
        return f"‘{pest}’을(를) 적은 문서를 찾지 못했습니다."
    cultivars = asked.named(CULTIVAR) if _TRAIT.search(asked.text) else ()
    view = asked.view
    if cultivars and not any(
        name in (*s.candidate.sentence.tokens, *view.entities_of(s.chunk.chunk_id))
        for name in cultivars
        for s in chosen
    ):
        return f"‘{cultivars[0]}’ 품종을 적은 문서를 찾지 못했습니다."
    return None


def _unknown_pest(asked: Asked, chosen: Sequence[Scored]) -> str | None:
    """A disease or pest that no lexicon knows and no chosen sentence or its passage speaks of; one that is known, if by a
    typo, is another's to miss.
    """
    for match in _NAMED_PEST.finditer(asked.text):
        name, kind = match[0], match["kind"]
        if any(not pest.startswith(kind) for pest in asked.named(*PESTS)):
            continue
        if any(name in re.sub(r"\s", "", _passage(s)) for s in chosen):
            continue
        names = {*asked.lexicon.canonical, *asked.lexicon.canonical.values()}
        if not name.endswith(tuple(known for known in names if len(known) > 1 and known != kind)):
            return name
    return None


def _passage(scored: Scored) -> str:
    """A sentence's passage with its headings."""
    return f"{scored.chunk.title} {scored.chunk.section} {scored.chunk.text}"


def _lacks_of_records(asked: Asked, chosen: Sequence[Scored]) -> str | None:
    grown = asked.crops_kept
    crops = [crop for crop in asked.named(CROP) if crop in asked.view.catalogue.crops]
    if crops and grown and grown.isdisjoint(asked.crops):
        return f"‘{crops[0]}’ 기록이 없습니다. 기록이 있는 작목: {', '.join(sorted(grown))}"
    thing = _KEPT_BY_NAME.search(asked.text)
    if thing and not any(thing[0] in _passage(s) for s in chosen):
        return f"‘{thing[0]}’ 기록을 찾지 못했습니다."
    return None


def _tells_year(scored: Scored, year: str) -> bool:
    chunk = scored.chunk
    return chunk.date[:4] == year or year in f"{chunk.title} {chunk.section} {scored.candidate.text}"


def asks_forbidden(asked: Asked) -> bool:
    """Whether a pesticide is asked for that must not be used or does not work: registrations do not tell."""
    return (asked.dose or asked.registration) and _FORBIDDEN.search(asked.text) is not None
