"""What a question wants (intent), by ordered cue lists, and whether it is about a farm's records."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kiwipiepy import Token

from rag.query.dates import WEAK
from rag.query.slots import ANOTHER
from rag.schema import Intent, Slot

MANUALS = frozenset({"매뉴얼", "지침"})
_COMPARE = re.compile(
    r"비교|차이|다른\s?점|구별|구분|보다(?=\s)|중\s?(?:에\s?)?(?:어느|뭐|어떤)|어느\s?(?:쪽|게|것)|뭐가\s?(?:더|나[아은음]|달라|다른)|"
    r"어떤\s?게\s?더|낫(?:나|다|죠|지)|vs\.?|difference|compare"
)
_CAUSE = re.compile(
    r"왜|원인|이유|까닭|때문|증상|무슨\s?병|무슨\s?바이러스|무슨\s?벌레|뭔\s?병|어떤\s?병|영향|탓|문제(?:일까|인가|예요|인지)|그런가|그런\s?건|매개|옮기|옮긴|"
    r"cause|why|symptom|vector|because"
)
_REMEDY = re.compile(
    r"생기|생겨|생긴|걸리[나면는]|심해|많아지|번지|번져|퍼지|퍼져|떨어지는|대책|대처|조치|막으려|막아|막나|막을|막는|막죠|예방|방제|없애|줄이려|"
    r"해결(?:책|하려|해야|방법)|어쩌|뭘\s?해야|어떻게\s?해야|어떡|조심|약\s?(?:은\s?|을\s?|좀\s?)?(?:뭐|뭘|무엇|추천|있)|무슨\s?약|어떤\s?약|뭘?\s?뿌려|해충이|"
    r"(?:는데|니까|은데)\s.*(?:괜찮|문제)|잡으려|잡는|잡나|살려|prevent"
)
_PROCEDURE = re.compile(
    r"어떻게|어케|어찌|방법|순서|절차|요령|(?:는\s?법)(?=[은을이도]|\s|$|[?.])|하려면|뭐부터|무엇부터|먼저|단계|뭘\s?넣어야|할\s?일|how\s+to|steps?\b|procedure|(?<=[가-힣]\s)how\s*\?*\s*$"
)
_ASKS = re.compile(r"뭐|뭘|무엇|무슨|어떤|어느|어디|누가|언제|얼마|몇|며칠|what|which")
_QUANTITY = re.compile(r"얼마|몇\s?|며칠|언제까지")
_RECORD_WORD = re.compile(
    r"기록(?!부?\s?(?:방법|요령|하는|해야|은\s?어떻게))|내역|적힌|적혀|적어\s?(?:둔|놓|놔)|써\s?(?:둔|놓|놔)|메모|일지|대장|장부|거래처|작업자|우리가"
)
# What farms keep figures of: with a month it is the record that is asked for.
_KEPT = re.compile(
    r"수확량|출하|최고온도|최저온도|평균|합계|총액|배액률|배액량|급액량|사용량|요금|전기료|전기세|난방비|기름값|매출|방제|정전|수리|고장|인건비|금액|비용|교육|입고|납품|판매|"
    r"찾아|보여|띄워|뽑아|꺼내|열어|주세요|친\s?약|친약|한\s?날|누가|며칠에|며칠날|어느\s?날"
)
# Something wrong with the plant.
_SYMPTOM = re.compile(
    r"(?:잎|줄기|열매|과실|꽃|뿌리|순|포기|모종|근경|관부|과일|표면|뒷면)\S*\s.*(?:변하|변해|변했|노랗|노래|누렇|마르|말라|시들|말리|말려|타[고는요들]|탔|"
    r"썩|떨어|갈라|터[지져]|생기|생겼|반점|가루|구멍|처지|처져|물러|휘[어고]|쪼그라|갈변|까매|검게|하얗|하얀|오그라|비틀)"
)
# How things are.
NOW = "지금|현재|요즘|요새"
# How a house is now.
_STATE_NOW = re.compile(
    rf"(?:{NOW})\S*\s(?:.*\s)?(?:우리\s)?(?:배액|급액|EC|이씨|pH|수확량|온도|습도)\S*\s?(?:\S+\s)?(?:어때|어떻|얼마|몇|어느)",
    re.I,
)
_LEFT_OUT = re.compile(r"[은는]?\s?(?:빼고|말고|제외)")
_REGISTERED = re.compile(r"등록|만료|훈연제|수화제|유제|액제|입제")
# Of these days advice is asked for, and not what was done on them.
_TODAY = re.compile(r"오늘|내일|모레|어제부터|그제부터|이번\s?주|며칠\s?전부터|지난주부터")
_ADVICE = re.compile(
    r"(?:칠|쓸|뿌릴)\s?수\s?있|(?:쳐|써|뿌려)도\s?(?:되|돼|괜찮)|뭐\s?(?:쓰|치|뿌리)|온다는데|온대|온다고|어떻게\s?(?:해|하|대비)|대비|보이는데|약\s?(?:뭐|뭘|쳐|써)|무슨\s?약|괜찮"
)
# What a year's crop or an area brings is public.
_STATISTIC = re.compile(r"\d{2,4}년산|(?:10a|평|10아르)\s?당")
# What is told of others is in no farm's records; nor is how long records are to be kept.
_OF_OTHERS = re.compile(
    r"카더라|카던데|[다라]더라|[다라]던데|대[요나]?\s*[?.]*$|농진청|농촌진흥청|연구소|시험\s?(?:한|에서)"
    rf"|{ANOTHER}\s?(?:거|것|약)\S?\s?(?:없|있|뭐)|기록\S*\s.*(?:몇\s?년|보관|보존)"
)
_SEEKING = frozenset(["는지", "은지", "나", "는가", "던가", "냐", "지", "어", "니"])


def record_cue(text: str, slots: Sequence[Slot], morphemes: Sequence[Token]) -> str | None:
    """Why a question is about records, or None.

    A month or season without a year is no cue of its own: it may be the season of the crop.
    """
    kinds = {slot.kind for slot in slots}
    types = {slot.value for slot in slots if slot.kind == "doc_type"}
    if types - MANUALS:
        return "문서 종류"
    if kinds & {"author", "house", "farm"}:
        return "날짜·동·작성자"
    if types or _STATISTIC.search(text):  # manuals and guidelines only
        return None
    if any(s.kind == "date" and s.rule not in WEAK for s in slots):
        advice = _CAUSE.search(text) or _REMEDY.search(text) or _SYMPTOM.search(text) or _ADVICE.search(text)
        return "날짜·동·작성자" if not (_TODAY.search(text) and advice) or _past_question(text, morphemes) else None
    if "file" in kinds:
        return "파일"
    if _OF_OTHERS.search(text):
        return None
    word = _RECORD_WORD.search(text)
    if word:
        return word[0]
    state = _STATE_NOW.search(text)
    if state and not (_CAUSE.search(text) or _SYMPTOM.search(text) or _PROCEDURE.search(text)):
        return state[0]
    if day := _day_of(text, morphemes):
        return day
    past = _past_question(text, morphemes)
    if past and not _CAUSE.search(text[past[1] :]) and not _SYMPTOM.search(text):
        return past[0]
    if any(slot.rule in WEAK for slot in slots):
        kept = _KEPT.search(text)
        return kept[0] if kept else None
    return None


def _day_of(text: str, morphemes: Sequence[Token]) -> str | None:
    """ "정식한 날", "고장 난 적": the day of something done."""
    for verb, ending, noun in zip(morphemes, morphemes[1:], morphemes[2:]):
        done = str(verb.tag).startswith(("VV", "XSV")) and str(ending.tag) == "ETM" and ending.form in ("ᆫ", "은", "던")
        end = noun.start + noun.len
        thing = noun.form in ("거", "것", "건") and not _LEFT_OUT.match(text, end)
        thing = thing and not any(cue.search(text) for cue in (_CAUSE, _SYMPTOM, _REGISTERED))
        if done and (noun.form in ("날", "적", "날짜") or thing) and noun.start > verb.start:
            return text[verb.start : end]
    return None


def _past_question(text: str, morphemes: Sequence[Token]) -> tuple[str, int] | None:
    """What was done ("언제 갈았지", "친 거 있었나"): the words and where their clause begins; None: the end is not in the past."""
    began = 0
    found: tuple[str, int] | None = None
    for index, token in enumerate(morphemes):
        tag = str(token.tag)
        following = morphemes[index + 1] if index + 1 < len(morphemes) else None
        if tag == "EP" and token.form in ("었", "았", "였") and following is not None:
            ends = str(following.tag) == "EF" or (str(following.tag) == "EC" and following.form in _SEEKING)
            if ends and index:
                verb = morphemes[index - 1]
                found = text[verb.start : following.start + following.len], began
        if tag in ("EC", "SF") and (following is not None and str(following.tag) != "VX"):
            later = morphemes[index + 1 :]
            if tag == "SF" and any(str(t.tag).startswith(("V", "N")) for t in later):
                found = None
            began = token.start + token.len
    return found


def intent_of(
    text: str, slots: Sequence[Slot], morphemes: Sequence[Token], private: bool, about_pests: bool
) -> tuple[Intent, str]:
    """Intent and the words that decided it. ``private``: a farm asks, so that records can be meant at all;
    ``about_pests``: the question names a disease, pest or disorder."""
    lowered = text.lower()
    record = record_cue(text, slots, morphemes)
    if private and record is not None:
        return "log_lookup", f"기록 단서: {record}"
    types = {slot.value for slot in slots if slot.kind == "doc_type"}
    if types and types <= MANUALS:
        return "factual", f"문서 종류 {', '.join(sorted(types))}"
    cause, compare = _CAUSE.search(lowered), _COMPARE.search(lowered)
    if compare:
        return "comparison", f"'{compare[0].strip()}'"
    if cause:
        return "relational", f"'{cause[0].strip()}'"
    remedy, quantity = _REMEDY.search(lowered) or _SYMPTOM.search(lowered), _QUANTITY.search(lowered)
    if remedy and not quantity:
        return "relational", f"'{remedy[0].strip()}'"
    procedure = _PROCEDURE.search(lowered)
    if procedure and about_pests and re.search(r"어떻게|어케|어찌|how\b", procedure[0]):
        return "relational", f"'{procedure[0].strip()}'"
    if procedure and not quantity:
        return "procedural", f"'{procedure[0].strip()}'"
    valued = any(slot.kind == "value" for slot in slots)
    if about_pests and not quantity and not valued and not _ASKS.search(lowered):
        return "relational", "병해충이나 증상을 말함"
    return "factual", "다른 단서 없음"


def types_of_pests() -> Collection[str]:
    """Lexicon types that a remedy is asked for."""
    return frozenset({"병", "바이러스", "해충", "생리장해", "증상"})
