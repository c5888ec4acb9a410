"""Whether one sentence says what another says, apart from how near their vectors are.

A claim (an answer sentence) is compared with an evidence sentence in its context, the title, headings and date of its
document: evidence leaves the crop to its heading and the day to its title. The checks, in order:

* things: every crop, pest, disease, cultivar, material and stage of growth that the claim names is named by the evidence or
  its context, and no compound of the claim has another one of the same head in its place (액화탄산가스, 암모니아가스);
* quantities (``rag.quantities``): every figure of the claim stands in the evidence, dates and houses also in the context;
* polarity: a predicate is denied in both or in neither, and no antonym stands for it (높이다 ↔ 낮추다);
* direction: causes and effects, purpose and means, the two sides of a comparison and of 옮기다 are not exchanged;
* content: the evidence or its context says at least a share of the claim's words (``said_share``).

A difference in a thing, a date or a house, and words left unsaid mean that the evidence is about something else
(``unsupported``); any other difference, with most of the claim's words in the evidence, that it says otherwise (``contradicted``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from kiwipiepy import Token

from rag.english import STOPWORDS
from rag.lexicon import Mention
from rag.quantities import HOUSE, Quantity, comparable, quantities, states
from rag.schema import CitationOutcome
from rag.text import korean

Check = Literal["개체", "수치", "부정", "방향", "내용"]
CHECKS: tuple[Check, ...] = ("개체", "수치", "부정", "방향", "내용")
# Share of the claim's words that evidence and context must hold for a difference to be a contradiction.
SAME_MATTER = 0.5
# Words that a note names.
NAMED_WORDS = 3

_NAMED = frozenset({"작물", "병", "바이러스", "해충", "품종", "생리장해", "농자재"})
_STAGES: tuple[tuple[str, str], ...] = (
    ("발아", "발아|싹"), ("파종", "파종|씨를? ?뿌|가을뿌림"), ("육묘", "육묘|모를? 기|묘를? 기|유묘|모종"), ("정식", "정식|아주 ?심기|심은|심어|심는|심을|심고"),
    ("활착", "활착|뿌리(?:가|를)? ?내"), ("개화", "개화|꽃이? ?[피필핀핌]|꽃필"), ("착과", "착과|열매가? ?(?:달|맺)"), ("비대", "비대|굵|크는|커지"),
    ("착색", "착색|물든|물드|색이"), ("수확", r"수확|(?<![가-힣])(?:[따딴땄](?=[고는면서다내야 ]|$)|딸 |딸기를 따)|거두|거둔|거둘|거뒀|출하"), ("화아분화", "화아 ?분화|꽃눈|분화"), ("이식", "이식|옮겨 ?심"),
    ("녹숙", "녹숙"), ("도색기", "도색"), ("연적", "연적"), ("완숙", "완숙"), ("휴면", "휴면"),
)  # fmt: skip
_STAGE_CLAIM = re.compile(
    r"(발아|파종|육묘|정식|아주심기|활착|개화|착과|비대|수확|이식|녹숙|도색|연적|완숙|휴면)(?![량물율률과토호])"
)
_TURNS = re.compile(
    r"(정식|파종|이식|착과|개화|수확|아주심기|발생|처리|열매가 달린|꽃이 핀|심은)\s?(?:하기\s?|한\s?|된\s?|하고\s?)?(?:직)?(전|후|뒤|다음)"
)
_SIDES = {"전": "전", "후": "후", "뒤": "후", "다음": "후"}
_OPPOSED = (
    ("오전", "오후"),
    ("앞면", "뒷면"),
    ("왼쪽", "오른쪽"),
    ("안쪽", "바깥쪽"),
    ("(?<!미)등록", "미등록"),
    ("안전", "위험"),
    ("실내", "실외|바깥"),
)
_NAME_BEFORE = re.compile(r"(?:^|[\s,(])(\d{1,2}동|[가-힣A-Za-z]+?)(?:은|는|이|가|을|를|에는|:)?\s*$")
_PARTS = (frozenset({"초기", "초"}), frozenset({"중기"}), frozenset({"후기", "말기"}))
# Antonyms: (words of more, words of less), by how they stand before their ending.
_AXES: tuple[tuple[str, str, str], ...] = (
    ("수준", "높 높이 높아지 오르 올리 올라가 상승 상승하", "낮 낮추 낮아지 내리 내려가 떨어지 떨어뜨리 하락 하락하"),
    ("양", "많 많아지 늘 늘리 늘어나 증가 증가하 불어나", "적 적어지 줄 줄이 줄어들 감소 감소하 절감 절감하 덜"),
    ("크기", "크 커지 키우", "작 작아지"),
    ("세기", "강하 강해지 세 심하 심해지 활발하 활발해지 저항성 내병성 저항", "약하 약해지"),
    ("빠르기", "빠르 빨라지 빨리 앞당기", "느리 느려지 더디 늦 늦어지 늦추 멈추 그치 멎 중단 중단하"),
    ("질", "좋 좋아지 낫 나아지 유리 유리하", "나쁘 나빠지 불리 불리하"),
    ("쉬움", "쉽 쉬워지", "어렵 어려워지"),
    ("습도", "습하 다습하 다습 과습하 과습 축축하", "건조하 건조 마르"),
    ("농도", "진하 짙", "묽 묽어지 옅"),
    ("온도", "따뜻하 덥 뜨겁", "춥 차 차갑"),
    ("여닫기", "열", "닫"),
    ("켬", "켜", "끄"),
    ("작용", "촉진 촉진하 돕 부르 일으키 유발 유발하", "억제 억제하 막 막히 방해 저해 예방 예방하 방지 방지하"),
    ("길이", "길 길어지", "짧 짧아지"),
)  # fmt: skip
# Axes whose words stand for each other (노동을 덜다, 줄이다, 낮추다).
_DEGREE = frozenset({"수준", "양", "크기", "세기"})
# … and, of the same matter, for each other where the evidence has none of those.
_WIDE = _DEGREE | {"빠르기", "질", "작용"}
_AXES_NAMES = frozenset(axis for axis, _, _ in _AXES)
_AXIS = {
    word: (axis, sign)
    for axis, more, less in _AXES
    for sign, words in ((1, more), (-1, less))
    for word in words.split()
}
# Words that deny without 않다 or 못하다.
_DENYING = re.compile(
    r"멈추|멈춘|멈춥|멎|그치|그칩|그친|놓치|막|방해|어렵|어려|금지|부족|모자|반대|저해|억제|제한|불가|힘들|피하|피해야|아래로|상한"
)
# Nouns that say what a predicate of their axis says ("방해를 받는다", "저항성이 있다").
_NOUNS = frozenset({"증가", "감소", "절감", "과습", "다습", "건조", "방해", "저해", "억제", "저항성", "저항", "내병성"})
_INSIDE = frozenset({"지", "게", "도록", "어", "아", "어야", "아야", "면", "으면", "어도", "아도"})
_BETWEEN = frozenset({"수", "필요", "것", "금지", "안", "잘", "더"})
# Verbs that deny what they are said of.
_BANS = frozenset({"금지", "삼가"})
_LIGHT = frozenset(
    {
        "하",
        "되",
        "있",
        "이",
        "보",
        "주",
        "말",
        "않",
        "못하",
        "위하",
        "대하",
        "따르",
        "싶",
        "가",
        "오",
        "나",
        "들",
        "두",
        "지",
    }
)
_CAUSE_EC = re.compile(r"(?:으?면|아서|어서|여서|으?므로|으?니까?|느라)$")
_GOAL_EC = frozenset({"려면", "으려면", "려고", "으려고", "고자"})
_LOOSE_EC = frozenset({"어", "아", "여"})
_BOUNDED = frozenset({"넘", "넘기", "내려가", "떨어지", "낮아지", "올라가", "초과", "벗어나"})
# A sentence that only says the question again.
_ASKS = re.compile(
    r"(?:얼마|몇|뭐|뭘|무엇|왜|언제|어떻게)\S*(?:\s.*)?(?:[요까죠지나]|[?])\s*$|(?:나요|까요|니까|는지도요)\s*[.?]?\s*$"
)
_CAUSE_END = re.compile(r"때문|탓|인하|의하|말미암")
_CONTENT = ("NNG", "NNP", "XR", "SL", "VV", "VA", "MM", "NR")
_NOUN_TAGS = ("NNG", "NNP", "XR", "SL")
# What any answer may say: the words of its form and of referring to what is at hand.
_ANYWHERE = frozenset(
    {
        "경우", "때문", "다음", "근거", "원인", "조치", "문장", "답변", "질문", "정도", "이유", "내용", "사항", "자료", "사이", "이때", "그때",
        "이후", "이전", "지금", "오늘", "동안", "해당", "필요", "가능", "앞", "뒤", "쪽", "일", "때", "에", "같", "드리", "밑", "위",
        "아래", "가운데", "이하", "이상", "안팎", "하나",
    }
)  # fmt: skip
# Words that say the same in a manual's sentence and in an answer; verbs and adjectives with 다, a verb's noun without.
_SAME = (
    "생기다 나타나다 나오다 일어나다 발생 발병", "뿌리다 치다 풀다 놓다 살포 방사", "넘다 넘기다 지나다 웃돌다 초과 경과",
    "쓰다 사용 이용 활용 적용", "모자라다 부족 결핍", "지키다 두다 유지", "따다 거두다 수확", "보이다 잡히다 발견 확인 관찰",
    "살피다 보다 확인 점검 조사", "열다 개방", "되풀이 반복", "비하다 비교", "세우다 수립", "알맞다 적당 적정 적합", "까맣다 검다",
    "노랗다 누렇다 노란색 황화", "데우다 덥히다 가온 난방", "씻다 씻기다 세척", "섞다 혼합", "없애다 뽑다 치우다 제거", "심다 정식",
    "옮기다 나르다 운반 이식 전염 매개", "줄이다 아끼다 덜다 절감 절약", "마시다 드시다", "막다 예방 방지 차단",
    "갈다 바꾸다 갈아엎다 교체 교환 변경", "돈 비용 예산 값 금액 요금", "온도 기온 수온 지온", "더위 고온 폭염 고온기", "추위 저온 한파",
    "꽃 피다 개화", "펴다 펴지다 펼치다 전개", "빛 가리다 차광 햇빛 광", "물 물속 용수", "자라다 생장 생육 성장", "뚫다 내다",
    "죽다 고사", "썩다 부패", "시작 개시", "걸리다 소요", "걸리다 감염 옮다", "보관 저장", "버리다 폐기", "끝나다 마치다 종료",
    "모으다 수집", "팔다 판매 출하", "사다 구입 구매", "고치다 손보다 수리 정비", "재다 측정", "달다 매달다 설치", "나누다 나뉘다 구분",
    "권하다 권장", "잡다 방제", "견디다 내병성 저항성", "만들다 제조", "알리다 신고 통보", "가스 기체", "밤 겨울밤 야간", "낮 주간",
)  # fmt: skip
_GROUPS: dict[str, tuple[str, ...]] = {
    word: tuple(f"={number}" for number, group in enumerate(_SAME) if word in group.split())
    for word in " ".join(_SAME).split()
}


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate: its stem, its axis (the stem where it has none) and sign, the words since the one before.

    ``sign`` is −1 for what is denied, or for the lesser side of an axis; both make 1.
    """

    stem: str
    key: str
    sign: int
    about: frozenset[str]
    said: str
    denied: bool
    conditional: bool


@dataclass(frozen=True, slots=True)
class Word:
    """A content word of a claim: ``keys`` are what any of which in the evidence says it."""

    form: str
    keys: frozenset[str]
    predicate: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What the checks read off a sentence.

    ``stated`` are its content words but those of figures and those that any answer may add; ``keys`` what all its words say.
    """

    words: frozenset[str]
    stated: tuple[Word, ...]
    keys: frozenset[str]
    compounds: frozenset[str]
    named: tuple[Mention, ...]
    predicates: tuple[Predicate, ...]
    cause: frozenset[str]
    effect: frozenset[str]
    than: frozenset[str]
    subjects: frozenset[str]
    objects: frozenset[str]
    carriers: frozenset[str]
    carried: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``failed``: the first check that the claim does not pass, None for a supported claim; ``note`` for the reader.

    ``checks`` are those that a supported claim passed.
    """

    outcome: CitationOutcome
    failed: Check | None = None
    note: str | None = None
    checks: tuple[Check, ...] = ()


def compare(claim: str, evidence: str, context: str = "", coverage: float = 0.0) -> Verdict:
    """Whether ``evidence``, standing in ``context``, says what ``claim`` says; ``coverage``: the least share of its words."""
    if _ASKS.search(claim):
        return Verdict("unsupported", "내용", "묻는 말이어서 근거와 견줄 것이 없습니다.")
    said, held = read(claim), read(evidence)
    about = read(context) if context else None
    if missing := _other_thing(claim, said, evidence, f"{context}\n{evidence}", held, about):
        return Verdict("unsupported", "개체", f"근거는 ‘{missing}’에 대한 것이 아닙니다.")
    if other := _other_compound(claim, said, f"{context}\n{evidence}", held):
        return Verdict("unsupported", "개체", f"근거는 ‘{other}’에 대한 것이 아닙니다.")
    whole = held.words | (about.words if about else frozenset())
    same_matter = not said.words or len(said.words & whole) / len(said.words) >= SAME_MATTER
    if found := _other_figure(claim, evidence, context):
        note, elsewhere = found
        return Verdict("unsupported" if elsewhere or not same_matter else "contradicted", "수치", note)
    if swapped := _reassigned(claim, evidence):
        return Verdict("contradicted", "수치", f"근거는 {swapped[0]}, 답변은 {swapped[1]}")
    if word := _opposed(claim, evidence):
        return Verdict("contradicted" if same_matter else "unsupported", "부정", f"근거는 ‘{word}’라고 하지 않습니다.")
    if denied := _denied(said, held, claim, evidence):
        return Verdict("contradicted" if same_matter else "unsupported", "부정", denied)
    if _turned(said, held):
        return Verdict(
            "contradicted" if same_matter else "unsupported", "방향", "근거는 앞뒤 관계를 반대로 적었습니다."
        )
    share, unsaid = _share(claim, evidence, context)
    if share < coverage:
        note = f"근거에 없는 말: {', '.join(unsaid[:NAMED_WORDS])}" if unsaid else "근거와 견줄 말이 없습니다."
        return Verdict("unsupported", "내용", note)
    return Verdict("supported", checks=CHECKS)


def said_share(claim: str, evidence: str, context: str = "") -> float:
    """Share of the claim's words that the evidence or its context says, in [0, 1].

    Its words are nouns and the stems of verbs and adjectives, without those of figures and those that any answer may add. A
    word is said by itself, as a part of a compound, by another form of its term, or by a synonym. Predicates count twice
    where none is said. A claim of figures alone has 1, one that says nothing 0.
    """
    return _share(claim, evidence, context)[0]


def _share(claim: str, evidence: str, context: str) -> tuple[float, list[str]]:
    """``said_share``, and the words left unsaid."""
    said = read(claim)
    if not said.stated:
        return float(bool(quantities(claim))), []
    places = [(read(text), _flat(text)) for text in (evidence, context) if text]
    unsaid = [word for word in said.stated if not any(_says(word, *place) for place in places)]
    predicates = sum(word.predicate for word in said.stated)
    again = predicates if predicates == sum(word.predicate for word in unsaid) else 0
    return (len(said.stated) - len(unsaid)) / (len(said.stated) + again), [
        f"{word.form}다" if word.predicate else word.form for word in unsaid
    ]


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Read one sentence. Deterministic; the morphemes are Kiwi's."""
    language = korean()
    tokens = language.morphemes(text)
    analysis = language.analyse(text, morphemes=tokens)
    cause, effect = _cause_and_effect(tokens)
    return Reading(
        words=frozenset(_content(tokens)),
        stated=tuple(_stated(text, tokens, analysis.mentions)),
        keys=_keys_of(text, tokens, analysis.mentions),
        compounds=frozenset(_compounds(tokens)),
        named=analysis.mentions,
        predicates=tuple(_predicates(tokens)),
        cause=cause,
        effect=effect,
        than=_before(tokens, "보다"),
        subjects=_marked(tokens, "JKS"),
        objects=_marked(tokens, "JKO"),
        carriers=_at_carry(text, analysis.mentions, "이가"),
        carried=_at_carry(text, analysis.mentions, "을를"),
    )


def _tag(token: Token) -> str:
    return str(token.tag).split("-")[0]


def _content(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if _tag(token) in _CONTENT and token.form not in _LIGHT:
            yield token.form.lower()


def _stated(text: str, tokens: Sequence[Token], mentions: Sequence[Mention]) -> Iterator[Word]:
    """The content words of a sentence, without those of its figures and those that any answer may add."""
    figures = [(q.start, q.start + len(q.said)) for q in quantities(text)]
    for token in tokens:
        form = token.form.lower()
        if _tag(token) not in _CONTENT or _tag(token) == "MM" or form in _LIGHT | _ANYWHERE | STOPWORDS:
            continue
        if not any(start <= token.start < end for start, end in figures):
            names = {f"#{m.name}" for m in mentions if m.start <= token.start < m.end}
            verbal = _tag(token) in ("VV", "VA")
            yield Word(form, _keys(form, verbal) | names, verbal)


def _keys_of(text: str, tokens: Sequence[Token], mentions: Sequence[Mention]) -> frozenset[str]:
    """What all words of a sentence say."""
    found = {f"#{m.name}" for m in mentions} | {f"@{stage}" for stage, pattern in _STAGES if re.search(pattern, text)}
    for token in tokens:
        if _tag(token) in _CONTENT:
            found |= _keys(token.form.lower(), _tag(token) in ("VV", "VA"))
    return frozenset(found)


@lru_cache(maxsize=16384)
def _keys(form: str, verbal: bool) -> frozenset[str]:
    """What a word says: itself, the term it is a form of, its side of an axis, its stage of growth, its synonyms.

    Verbs with the same first two syllables of a stem are one (떨어지다, 떨어뜨리다).
    """
    found = {form, *_GROUPS.get(f"{form}다" if verbal else form, ())}
    axis = _AXIS.get(form) or _AXIS.get(f"{form}하")
    if axis is not None:
        found.add(f"{'정도' if axis[0] in _DEGREE else axis[0]}{axis[1]:+d}")
    if verbal and len(form) >= 2:
        found.add(f"{form[:2]}~")
    if form.isascii():
        found.update(korean().tokens(form))
    name = korean().lexicon.canonical.get(form)
    if name is not None:
        found.add(f"#{name}")
    found |= {f"@{stage}" for stage, pattern in _STAGES if re.search(pattern, form)}
    return frozenset(found)


def _compounds(tokens: Sequence[Token]) -> Iterator[str]:
    """Nouns written together, joined, of at least four syllables."""
    runs: list[str] = []
    end = -1
    for token in tokens:
        if _tag(token) in _NOUN_TAGS:
            form = token.form.lower()
            if token.start == end:
                runs[-1] += form
            else:
                runs.append(form)
            end = token.start + token.len
    return (run for run in runs if len(run) >= 4)


def _says(word: Word, held: Reading, written: str) -> bool:
    """Whether a sentence says a word; a noun of two or more syllables also as a part of what is ``written`` there."""
    return bool(word.keys & held.keys) or (not word.predicate and len(word.form) >= 2 and word.form in written)


def _flat(text: str) -> str:
    """The text in lower case without spaces."""
    return text.replace(" ", "").lower()


def _other_compound(claim: str, said: Reading, text: str, held: Reading) -> str:
    """A compound of the claim of which the evidence has only the head, in a compound of its own (액화탄산가스, 암모니아가스)."""
    mine, theirs = _flat(claim), _flat(text)
    for one in sorted(said.compounds):
        for other in sorted(held.compounds):
            head = _common_end(one, other)
            if one in theirs or other in mine or len(head) < 2 or head in (one, other):
                continue
            before = one[: -len(head)]
            if before not in theirs and not _keys(before, False) & held.keys and not _terms(one) & _terms(other):
                return one
    return ""


def _terms(compound: str) -> frozenset[str]:
    """The lexicon terms at the end of a compound."""
    return frozenset(m.name for m in korean().lexicon.mentions(compound) if m.end == len(compound))


def _common_end(one: str, other: str) -> str:
    """The longest common suffix."""
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return one[len(one) - length :]


def _other_thing(claim: str, said: Reading, evidence: str, text: str, held: Reading, about: Reading | None) -> str:
    """A thing, or a stage of growth, that the claim names and the evidence and its context do not; "" if there is none."""
    names = {m.name for m in (*held.named, *(about.named if about else ()))}
    written = _flat(text)
    for mention in said.named:
        form = claim[mention.start : mention.end]
        if (" " in form and re.match(r"[가-힣]{2}", claim[mention.end :])) or any(
            q.start <= mention.start < q.start + len(q.said) for q in quantities(claim)
        ):
            continue  # "입고 병해충", "세 가지"
        known = mention.name in names or _flat(form) in written
        if mention.type in _NAMED and not known and not any(mention.name in name for name in names):
            return form
    for match in _STAGE_CLAIM.finditer(claim):
        stage = next((key for key, pattern in _STAGES if re.search(pattern, match[1])), None)
        if stage is None:
            continue
        # A heading counts only for a sentence that names no stage itself.
        here = any(re.search(pattern, evidence) for _, pattern in _STAGES)
        if not re.search(dict(_STAGES)[stage], evidence if here else text):
            return match[1]
    return _other_turn(claim, text)


def _opposed(claim: str, text: str) -> str:
    """The word of the claim beside which the evidence has only its opposite; "" without one."""
    for one, other in _OPPOSED:
        for mine, theirs in ((one, other), (other, one)):
            said = re.search(mine, claim)
            denied = said and not re.search(theirs, claim) and re.search(theirs, text) and not re.search(mine, text)
            if said and denied:
                return said[0]
    return ""


def _reassigned(claim: str, evidence: str) -> tuple[str, str] | None:
    """A figure that the evidence gives to another name of the claim: (what it has for the name, what the claim has)."""
    mine, theirs = _assigned(claim), _assigned(evidence)
    for name in sorted(mine.keys() & theirs.keys()):
        want, have = mine[name], theirs[name]
        others = [quantity for other, quantity in theirs.items() if other != name]
        if comparable(want, have) and not states([have], want) and states(others, want):
            return f"{name} {have.said}", f"{name} {want.said}"
    return None


def _assigned(text: str) -> dict[str, Quantity]:
    """Name → the figure right behind it ("보스칼리드는 2000배", "1동 25℃", "질소 10kg"); of several the first."""
    found: dict[str, Quantity] = {}
    for quantity in quantities(text):
        match = _NAME_BEFORE.search(text[: quantity.start])
        if match and quantity.unit != HOUSE and not quantity.dated:
            found.setdefault(match[1], quantity)
    return found


def _other_turn(claim: str, text: str) -> str:
    """ "정식 후" against "정식 전", "수확 초기" against "수확 후기"; "" where they agree."""
    own = {(m[1], _SIDES[m[2]]) for m in _TURNS.finditer(text)}
    for match in _TURNS.finditer(claim):
        turn = (match[1], _SIDES[match[2]])
        of_it = {side for stage, side in own if stage == turn[0]} or {side for _, side in own}
        if of_it and turn[1] not in of_it:
            return match[0]
    for group in _PARTS:
        word = next((p for p in sorted(group, key=len, reverse=True) if len(p) > 1 and p in claim), None)
        if word and not any(re.search(rf"{p}(?![가-힣]?순)", text) for p in group):
            return word
    return ""


def _other_figure(claim: str, evidence: str, context: str) -> tuple[str, bool] | None:
    """What to say of a figure that the evidence does not state, and whether it is one of another day or house."""
    have = quantities(evidence)
    around = tuple(q for line in context.split("\n") for q in quantities(line))
    for want in quantities(claim):
        if want.weak or states(have, want):
            continue
        if want.dated or want.unit == HOUSE:
            if states((*have, *around), want):
                continue
            return f"근거는 ‘{want.said}’의 것이 아닙니다.", True
        if states([q for q in around if not q.dated], want):
            continue
        rival = _rival(want, have)
        if rival is None:
            return f"근거에 ‘{want.said}’라는 수치가 없습니다.", True
        return f"근거는 {rival.said}, 답변은 {want.said}", False
    return None


def _rival(want: Quantity, have: Sequence[Quantity]) -> Quantity | None:
    """The figure of the evidence that stands where ``want`` stands: in its unit, of the same thing, nearest in value."""
    rivals = [q for q in have if comparable(want, q) and not q.dated and q.unit != HOUSE]
    same = [q for q in rivals if q.unit == want.unit] or rivals
    other_unit = [
        q for q in have if not q.dated and q.unit != HOUSE and abs(q.low / q.scale - want.low / want.scale) < 1e-9
    ]
    pool = same or other_unit
    return min(pool, key=lambda q: (abs(q.low - want.low) + abs(q.high - want.high), q.start), default=None)


def _predicates(tokens: Sequence[Token]) -> Iterator[Predicate]:
    about: list[str] = []
    last: frozenset[str] = frozenset()
    for index, token in enumerate(tokens):
        stem = _predicate_at(tokens, index)
        if stem is None:
            if _tag(token) in ("NNG", "NNP", "SL", "XR"):
                about.append(token.form.lower())
            continue
        denied = _is_denied(tokens, index, stem)
        if stem in _BANS and not denied:
            yield Predicate("하", "하", -1, frozenset(about) or last, f"{stem}하다", True, False)
            continue
        if stem in _LIGHT and not denied:
            continue
        axis, sign = _AXIS.get(stem, (stem, 1))
        last = frozenset(about) or last
        yield Predicate(stem, axis, -sign if denied else sign, last, _said(tokens, index, denied), denied, _conditional(tokens, index))  # fmt: skip
        about = []


def _predicate_at(tokens: Sequence[Token], index: int) -> str | None:
    """Dictionary stem of the predicate that the token begins (발생하 → 발생); None if it begins none."""
    token, tag = tokens[index], _tag(tokens[index])
    form = str(token.form)
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    before = tokens[index - 1] if index else None
    if tag in ("NNG", "XR") and following is not None and _tag(following) in ("XSV", "XSA"):
        return form if form in _AXIS or f"{form}하" not in _AXIS else f"{form}하"
    if tag in ("VV", "VA"):
        if token.form == "없":
            return None if before is not None and before.form in ("수", "필요", "리") else "있"
        if token.form == "주" and before is not None and _tag(before) == "JKS":
            return "줄"  # 증산이 준다
        return form
    if tag == "VCN":
        return "이"
    if tag == "VX" and token.form in ("있", "보"):
        return None
    if tag == "MAG" and token.form == "빨리":
        return form
    if tag == "NNG" and token.form in _NOUNS:
        return form
    return None


def _conditional(tokens: Sequence[Token], index: int) -> bool:
    """Whether the predicate at ``index`` is only supposed: (으)면, (으)ㄹ 때."""
    for token in tokens[index + 1 : index + 5]:
        if _tag(token) in ("EC", "ETM", "EF"):
            return token.form in ("면", "으면")
    return False


def _is_denied(tokens: Sequence[Token], index: int, stem: str) -> bool:
    """Whether the predicate at ``index`` is denied: 안/못 before it, 지 않/못하/말, (으)ㄹ 수 없, 기 어렵, 필요 없 after it."""
    before = tokens[index - 1] if index else None
    if stem in _BOUNDED and any(_tag(t) == "SN" for t in tokens[max(0, index - 5) : index]):
        return False  # "85%를 넘지 않게" is a bound of the figure
    count = int(before is not None and _tag(before) == "MAG" and before.form in ("안", "못"))
    count += tokens[index].form in ("없", "아니")
    after = list(tokens[index + 1 : index + 9])
    for place, token in enumerate(after):
        if _denies(after, place):
            count += 1
        elif _ends_predicate(token):
            break
    return count % 2 == 1


def _denies(after: Sequence[Token], place: int) -> bool:
    """Whether the token at ``place`` denies the predicate that ``after`` follows. Kiwi reads 못했다 as 못 + 하다."""
    token, tag = after[place], _tag(after[place])
    before = after[place - 1].form if place else ""
    if tag == "VX" and token.form in ("않", "못하", "말"):
        return True
    if tag == "MAG" and token.form == "못":
        return before == "지"
    if tag == "MAG" and token.form == "안":
        return before in ("면", "으면")
    if tag == "VA" and token.form == "없":
        return any(t.form in ("수", "필요", "리") for t in after[max(0, place - 2) : place])
    return str(token.form) == "금지"


def _ends_predicate(token: Token) -> bool:
    """Whether what follows is no longer said of the predicate before it."""
    tag = _tag(token)
    if tag == "EC":
        return token.form not in _INSIDE
    return tag in ("VV", "VA") or (tag in ("NNG", "NNP", "SN", "MAG") and token.form not in _BETWEEN)


def _said(tokens: Sequence[Token], index: int, denied: bool) -> str:
    token = tokens[index]
    verbal = _tag(token) in ("VV", "VA")
    if token.form in ("없", "아니"):
        return f"{token.form}다"
    if not denied:
        return (
            f"{token.form}다"
            if verbal
            else f"{token.form}하다"
            if _tag(tokens[min(index + 1, len(tokens) - 1)]).startswith("XS")
            else token.form
        )
    return f"{token.form}지 않다" if verbal else f"{token.form}하지 않다"


def _denied(said: Reading, held: Reading, claim: str, evidence: str) -> str | None:
    """What to say where a predicate has the other sign in the evidence, or more is denied in the claim than there."""
    for one in said.predicates:
        other = _opposite(one, held.predicates)
        if other is not None:
            return f"근거는 ‘{other.said}’, 답변은 ‘{one.said}’"
    banned = next((p for p in held.predicates if p.said[:2] in _BANS and p.about & said.words), None)
    if banned is not None and not any(p.denied for p in said.predicates):
        return f"근거는 ‘{banned.said}’입니다."
    for theirs in held.predicates:  # "옮는다는 보고가 없다" against "옮는다고 보고되었다"
        if theirs.denied and theirs.stem in _LIGHT and not any(p.denied for p in said.predicates):
            mine = next((p for p in said.predicates if p.stem in theirs.about), None)
            if mine is not None:
                return f"근거는 ‘{theirs.said}’, 답변은 ‘{mine.said}’"
    plain = not any(p.denied or p.sign < 0 for p in said.predicates) and not _DENYING.search(claim)
    for theirs in held.predicates:  # "나를 수 없다" against "운반할 수 있다"
        if plain and theirs.denied and theirs.about & said.words:
            return f"근거는 ‘{theirs.said}’라고 합니다."
    stems = {p.stem for p in held.predicates if p.denied}
    extra = [
        p
        for p in said.predicates
        if p.denied and p.stem not in stems and p.key not in {q.key for q in held.predicates if q.key in _AXES_NAMES}
    ]
    own = {p.stem for p in said.predicates if p.denied}
    spare = sum(p.denied and p.stem not in own for p in held.predicates)
    firm = [p for p in extra if p.stem not in _LIGHT]
    spare += bool(firm) and _DENYING.search(evidence) is not None
    if len(extra) > spare:
        return f"근거에 ‘{extra[0].said}’라는 말이 없습니다."
    return None


def _opposite(mine: Predicate, others: Sequence[Predicate]) -> Predicate | None:
    """The evidence predicate that says the opposite of ``mine``: of the same stem, else of its axis and about the same."""
    if mine.stem in _LIGHT:
        return None
    same = [p for p in others if p.stem == mine.stem]
    if mine.key not in _AXES_NAMES:
        if mine.conditional and not mine.denied:
            return None
        near = [p for p in same if p.about & mine.about] or same
        return near[0] if near and all(p.denied != mine.denied for p in near) else None
    family = _DEGREE if mine.key in _DEGREE else {mine.key}
    rivals = [p for p in others if p.key in family]
    if not rivals and mine.key in _WIDE:
        rivals = [p for p in others if p.key in _WIDE and p.about & mine.about]
    most = max((len(p.about & mine.about) for p in rivals), default=0)
    if not most or (same and mine.key not in _DEGREE):
        near = same or [p for p in rivals if p.key == mine.key]
    else:
        near = [p for p in rivals if len(p.about & mine.about) == most]
    return near[0] if near and all(p.sign != mine.sign for p in near) else None


def _cause_and_effect(tokens: Sequence[Token]) -> tuple[frozenset[str], frozenset[str]]:
    """Content words before and after the first connective of condition or cause; empty without one.

    A purpose (줄이려면) is the effect of what is done for it. A topic before an adnominal condition ("일소과는 … 넘을 때
    나타난다") belongs to the effect.
    """
    cut = next((i for i in range(1, len(tokens)) if _is_cause(tokens, i)), None)
    if cut is None:
        cut = next((i for i in range(1, len(tokens) - 1) if tokens[i].form in _LOOSE_EC and _tag(tokens[i]) == "EC" and _tag(tokens[i + 1]) != "VX"), None)  # fmt: skip
    if cut is None:
        return frozenset(), frozenset()
    cause, effect = list(tokens[:cut]), list(tokens[cut + 1 :])
    topic = next((i for i, t in enumerate(cause) if _tag(t) == "JX" and t.form in ("은", "는")), None)
    if topic is not None and topic < len(cause) - 3:
        cause, effect = cause[topic + 1 :], cause[:topic] + effect
    if tokens[cut].form in _GOAL_EC:
        cause, effect = effect, cause
    return frozenset(_content(cause)), frozenset(_content(effect))


def _is_cause(tokens: Sequence[Token], index: int) -> bool:
    token, tag = tokens[index], _tag(tokens[index])
    if tag == "EC" and (token.form in _GOAL_EC or _CAUSE_EC.search(token.form)):
        return not (index + 1 < len(tokens) and tokens[index + 1].form == "되")  # "맞추면 된다"
    return (token.form in ("때", "곳") and _tag(tokens[index - 1]) == "ETM") or _CAUSE_END.match(token.form) is not None


def _before(tokens: Sequence[Token], particle: str) -> frozenset[str]:
    """Nouns right before a particle, back to the last particle or ending."""
    for index, token in enumerate(tokens):
        if token.form == particle and _tag(token) == "JKB":
            words: list[str] = []
            for back in reversed(tokens[:index]):
                if _tag(back).startswith(("JX", "JKS", "JKO", "EC", "SP")):
                    break
                words.append(back.form.lower())
            return frozenset(words)
    return frozenset()


def _marked(tokens: Sequence[Token], mark: str) -> frozenset[str]:
    """Nouns right before the particles of one kind (subject JKS, with the topic; object JKO, with what has a 원인)."""
    found: set[str] = set()
    for index, token in enumerate(tokens):
        topic = mark == "JKS" and _tag(token) == "JX" and token.form in ("은", "는")
        cause_of = (
            mark == "JKO" and _tag(token) == "JKG" and index + 1 < len(tokens) and tokens[index + 1].form == "원인"
        )
        if index and (_tag(token) == mark or topic or cause_of) and _tag(tokens[index - 1]) in ("NNG", "NNP", "SL"):
            found.add(tokens[index - 1].form.lower())
    return frozenset(found)


def _at_carry(text: str, mentions: Sequence[Mention], particles: str) -> frozenset[str]:
    """Types of the terms with one of the particles in a sentence on carrying a disease (옮기다)."""
    if not re.search(r"옮[기긴겨김깁]", text):
        return frozenset()
    return frozenset(m.type for m in mentions if re.match(rf"[{particles}](?![가-힣])", text[m.end :]))


def _turned(said: Reading, held: Reading) -> bool:
    """Whether cause and effect, the sides of 보다, subject and object or the ends of 옮기다 are exchanged."""
    forth, back = len(said.cause & held.effect), len(said.effect & held.cause)
    if forth and back and forth + back > (len(said.cause & held.cause) + len(said.effect & held.effect)):
        return True
    if said.than and held.than and not said.than & held.than:
        return True
    illness = {"바이러스", "병"}
    if (said.carriers & illness and "해충" not in said.carriers) or (
        "해충" in said.carried and "해충" not in held.carried
    ):
        return True
    return bool(not said.subjects & held.subjects and said.subjects & held.objects and said.objects & held.subjects)
