"""Keywords of a question: its nouns as written and its predicates in dictionary form, beside its slots.

Left out ("뺀 말"): particles, endings, words of asking and requesting (알려줘, 얼마, 몇 도), bound nouns (것, 때, 날),
adverbs and adnominals, words for the record itself (기록, 내역) and for the comparison (비교, 차이). Nouns written together
are one keyword up to five syllables ("야간온도"), longer ones are taken apart ("양액기필터청소").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from kiwipiepy import Token

from rag.english import STOPWORDS
from rag.lexicon import Mention
from rag.query.words import words

_NOUN = frozenset(["NNG", "NNP", "SL", "SH", "XR", "XSN", "XPN", "NR"])
_TOGETHER = 5
_LEADING = words("우리 저희 최근 이번 전체 첫 다음")
# Nouns that the analysis takes for a noun and a particle (온+도).
_MEASURES = words("온도 습도 광도 농도 당도 산도 경도 착과 적과")
_STOP = words(
    "것 거 날 달 때 수 중 등 쪽 점 번 건 이유 까닭 원인 방법 순서 절차 법 기록 자료 내역 내용 파일 문서 비교 차이 대비 전부 몽땅 모두 총 최근 얼마 언제 어디 누구 누가 "
    "무엇 뭐 뭘 무슨 어떤 어느 며칠 몇 정도 우리 저희 농장 지금 현재 요즘 사람 부탁 대신 관련 동안 사이 가능 안 둘 하나 그거 이거 저거 너 나 저 각각 목록 날짜 날짜별 경우 "
    "확인부탁 보고 쯤 궁금 다음 그다음 이번 오늘 전체 나머지 따로 하루 이틀 자체 여기 거기 저기 무엇무엇 뭐뭐 일 첫 다른 참 혹시 한번 담당자 작성자 추천"
)
_VERB_STOP = words(
    "알리 찾 있 없 되 같 알 궁금하 싶 하 이 아니 모르 맞 어떻 어떠하 어떡하 그러 이러 어쩌 적히 띄우 펼치 보내 부탁하 그렇 이렇 드리 나 가 두 들 놓 가르치 뭐하 위하 대하 "
    "관하 의하 통하 따르 비교하 계시 어떠 어딨 뭐이 돼 가능하"
)
_ENGLISH = words(
    "how what why when where which show me to vs ok please tell give is the a of and or list can you difference compare"
)
_HEDGE = re.compile(r"\s?(?:이상|이하|미만|초과|정도|쯤|가량)")
_GRAMMAR = ("J", "E", "VCP", "VCN", "XSV", "XSA", "VX")
_PLACE = re.compile(r"\s*(?:하우스|온실|house)\s*$", re.IGNORECASE)
Span = tuple[int, int]


def read_keywords(
    text: str,
    morphemes: Sequence[Token],
    taken: Sequence[Span],
    mentions: Sequence[Mention],
    known: Collection[str] = (),
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(keywords, removed words) of ``text``.

    ``morphemes`` are those of the text with its typos put right (as long as ``text``); ``taken`` the spans of slots and
    of what "말고" leaves out; ``mentions`` the lexicon terms, which stay whole; ``known`` the forms of the lexicon.
    """
    taken = [*taken, *_places(text, taken), *_hedges(text, taken)]
    tokens = [
        t for t in morphemes if not any(t.start < end and start < t.start + max(t.len, 1) for start, end in taken)
    ]
    kept: list[Span] = []
    words: list[str] = []
    for start, end, word in _found(text, tokens, mentions, known):
        kept.append((start, end))
        words.append(word)
    return tuple(dict.fromkeys(words)), tuple(dict.fromkeys(_removed(text, tokens, kept)))


def _places(text: str, taken: Sequence[Span]) -> Iterator[Span]:
    """ "하우스" in front of "2동"."""
    for start, _ in taken:
        if match := _PLACE.search(text[:start]):
            yield match.start(), start


def _hedges(text: str, taken: Sequence[Span]) -> Iterator[Span]:
    """ "이상" behind "35도"."""
    for _, end in taken:
        if match := _HEDGE.match(text[end:]):
            yield end, end + match.end()


def _found(
    text: str, tokens: Sequence[Token], mentions: Sequence[Mention], known: Collection[str]
) -> Iterator[tuple[int, int, str]]:
    index = 0
    while index < len(tokens):
        token = tokens[index]
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if (
            after is not None
            and token.len == after.len == 1
            and after.start == _end(token)
            and _tag(after) not in _NOUN
        ):
            word = text[token.start : _end(after)]
            if (word in known or word in _MEASURES) and _tag(token) not in ("SN", "SL"):  # 온도 taken for 온+도
                yield token.start, _end(after), word
                index += 2
                continue
        tag = "NNG" if token.form == "약" and _tag(token) == "MM" and not _counts(tokens, index) else _tag(token)
        if tag in _NOUN or (tag == "SN" and _month_name(tokens, index)) or _opens_compound(tokens, index):
            last = index
            while last + 1 < len(tokens) and _joins(tokens[last], tokens[last + 1]):
                last += 1
            run = tokens[index : last + 1]
            following = tokens[last + 1] if last + 1 < len(tokens) else None
            before = tokens[index - 1] if index else None
            yield from _nouns(text, run, mentions, before, following, tokens[last + 1 :])
            index = last + 1
        elif tag in ("VV", "VA") or (tag == "VX" and (index == 0 or _tag(tokens[index - 1]) != "EC")):
            spelled, last = _predicate(text, tokens, index)
            if spelled is not None:
                yield token.start, _end(tokens[last]), spelled
            index = last + 1
        elif tag == "MAG" and token.form == "오래" and index + 1 < len(tokens) and tokens[index + 1].form == "가":
            yield token.start, _end(tokens[index + 1]), "오래가다"
            index += 2
        else:
            index += 1


def _counts(tokens: Sequence[Token], index: int) -> bool:
    return index + 1 < len(tokens) and _tag(tokens[index + 1]) == "SN"


def _tag(token: Token) -> str:
    return str(token.tag).split("-")[0]


def _end(token: Token) -> int:
    return int(token.start + token.len)


def _month_name(tokens: Sequence[Token], index: int) -> bool:
    """A month that is no date of the record ("9월 정식")."""
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    return after is not None and after.start == _end(tokens[index]) and after.form in ("월", "월령")


def _opens_compound(tokens: Sequence[Token], index: int) -> bool:
    """총수확량, 1화방: an adnominal or a number that is written together with the noun behind it."""
    token, after = tokens[index], tokens[index + 1] if index + 1 < len(tokens) else None
    return (
        _tag(token) in ("MM", "SN")
        and after is not None
        and after.start == _end(token)
        and _tag(after) in ("NNG", "NNP")
        and len(after.form) > 1
        and token.form not in ("몇", "그", "이", "약")
    )


def _joins(token: Token, after: Token) -> bool:
    if after.start != _end(token) or after.form == "몇":
        return False
    tag = _tag(after)
    return (
        tag in _NOUN
        or (tag == "NNB" and after.form in ("월", "월령", "일", "량", "률"))
        or (tag == "SN" and _tag(token) == "SL")
    )


def _nouns(
    text: str,
    run: Sequence[Token],
    mentions: Sequence[Mention],
    before: Token | None,
    following: Token | None,
    rest: Sequence[Token],
) -> Iterator[tuple[int, int, str]]:
    if before is not None and before.form in ("몇", "무슨") and before.form == "몇":  # 몇 ppm
        run = run[1:]
    while run and (_stops(run) or run[-1].form == "님" or (_tag(run[-1]) == "XSN" and len(run) == 1)):
        run = run[:-1]
    while run and run[0].form in _STOP and (len(run) == 1 or run[0].form in _LEADING):
        run = run[1:]
    if not run or _requested(run, following, rest):
        return
    start, end = run[0].start, _end(run[-1])
    written = text[start:end]
    if len(written) <= _TOGETHER or len(run) == 1 or not _hangul(written):
        if _wanted(written):
            adjective = _tag(run[-1]) == "XR" and following is not None and _tag(following) == "XSA"
            yield start, end, f"{written}하다" if adjective else written
        return
    whole = next((m for m in mentions if m.start <= start and end <= m.end), None)
    if whole is not None:
        yield start, end, written
        return
    for piece_start, piece_end in _pieces(run, mentions):
        if _wanted(text[piece_start:piece_end]):
            yield piece_start, piece_end, text[piece_start:piece_end]


def _stops(run: Sequence[Token]) -> bool:
    """Whether the last noun goes; one syllable of a longer word stays (주의점, 정식일)."""
    return run[-1].form in _STOP and (len(run) == 1 or run[-1].len > 1)


def _pieces(run: Sequence[Token], mentions: Sequence[Mention]) -> Iterator[Span]:
    """Lexicon terms whole, else morphemes, suffixes with their noun."""
    spans: list[Span] = []
    for token in run:
        term = next((m for m in mentions if m.start <= token.start and _end(token) <= m.end), None)
        span = (term.start, term.end) if term else (token.start, _end(token))
        if spans and (span == spans[-1] or token.start < spans[-1][1]):
            continue
        if spans and (_tag(token) == "XSN" or (len(token.form) == 1 and term is None and token.form != "약")):
            spans[-1] = (spans[-1][0], span[1])
        else:
            spans.append(span)
    yield from spans


def _hangul(text: str) -> bool:
    return all("가" <= char <= "힣" for char in text)


def _wanted(word: str) -> bool:
    lowered = word.lower()
    if word in _STOP or lowered in _ENGLISH or (lowered in STOPWORDS and lowered.isascii()):
        return False
    return any(char.isalpha() for char in word)


def _requested(run: Sequence[Token], following: Token | None, rest: Sequence[Token]) -> bool:
    """ "정리해줘", "확인 부탁", "작성하신": what the asker wants done, not a topic."""
    if (
        run[-1].form in ("작성", "기록", "확인", "기재")
        and following is not None
        and following.form in ("하", "되")
        and (run[-1].form != "확인" or _asks(rest))
    ):
        return not (run[-1].form == "작성" and following.form == "되")
    if run[-1].form == "확인" and following is not None and following.form == "부탁":
        return True
    return following is not None and following.form == "하" and _asks(rest)


def _asks(rest: Sequence[Token]) -> bool:
    """하 + 어 + 주 … at the end of the question."""
    forms = [t.form for t in rest[:4]]
    return (
        len(forms) >= 3
        and forms[0] == "하"
        and forms[1] in ("어", "아")
        and forms[2] in ("주", "보", "드리")
        and not any(_tag(t) in (*_NOUN, "VV", "VA") for t in rest[3:])
    )


def _predicate(text: str, tokens: Sequence[Token], index: int) -> tuple[str | None, int]:
    """Dictionary form (None: a word of asking) and the index of the last token that belongs to it."""
    token = tokens[index]
    form, rest = token.form, tokens[index + 1 :]
    if (
        len(rest) >= 2
        and rest[0].form in ("어", "아")
        and rest[1].form == "지"
        and _tag(rest[1]) == "VX"
        and not form.endswith("하")
    ):
        end = _end(rest[1])
        return text[token.start : end] + "다", index + 2
    if form == "보이" and len(rest) >= 2 and rest[0].form == "어" and rest[1].form == "주":
        return None, index + 2
    if form == "주" and re.match(r"주(?:세요|십시오|라|실|시겠)|줘(?:요|라|봐)?\W*$", text[token.start :]):
        return None, index
    if form in _VERB_STOP or (form == "보" and _tag(token) == "VV"):
        return None, index
    if (
        len(rest) >= 2
        and rest[0].form in ("어", "아")
        and rest[1].form in ("주", "보", "드리")
        and _tag(rest[1]) == "VX"
    ):
        tail = rest[2:]
        if (
            form != "치"
            and not any(t.form == "었" or _tag(t) == "ETM" or _tag(t) in _NOUN for t in tail[:2])
            and not any(_tag(t) == "VV" for t in tail)
        ):
            return None, index + 2
    if form == "쓰" and index == 0:
        return None, index  # 김주임이 쓴
    if (
        form == "쓰"
        and rest
        and (rest[0].form in ("ᆫ", "은") or (len(rest) > 1 and rest[1].form in ("있", "놓", "두")))
        and _author_before(tokens, index)
    ):
        return None, index
    return form + "다", index


def _author_before(tokens: Sequence[Token], index: int) -> bool:
    before = [t for t in tokens[:index] if _tag(t) in _NOUN]
    return not before or _tag(tokens[index - 1]) in ("JKS", "MAG")


def _removed(text: str, tokens: Sequence[Token], kept: Sequence[Span]) -> Iterator[str]:
    """Particles, endings and words of asking, as written; those of one word together."""
    start = end = -1
    for token in tokens:
        if _tag(token).startswith("S") and _tag(token) not in ("SL", "SN"):
            continue
        left = max([token.start, *(e for s, e in kept if s <= token.start < e)])
        right = _end(token)
        if right <= left:
            continue
        if start >= 0 and left <= end and " " not in text[start:right]:
            end = max(end, right)
            continue
        if start >= 0 and text[start:end].strip():
            yield text[start:end].strip()
        start, end = left, right
    if start >= 0 and text[start:end].strip():
        yield text[start:end].strip()
