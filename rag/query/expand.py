"""Further words for a question, by domain, and the sub-questions of one that asks several things. Rules and data only.

Words (:func:`expand`): each domain's expander adds, for the lexicon mentions of its types,

    canonical   the term, where the question's words do not already lead to it ("급액 농도" → 급액EC)
    alias       aliases of several words: one-word aliases lead to their term in the index already
    narrower    the kinds of a general term, from ``narrower.tsv`` (가루이류 → 담배가루이, 온실가루이)
    record      what records write for what is asked (약 치다 → 살포), in questions about records
    farm        the term that the farm's own list names for a word (``python -m rag lexicon --accept``)

They reach BM25 and the graph alone, each with a weight in (0, 1), so that a word of the question always counts more.

Sub-questions (:func:`sub_questions`): "뭐가 옮기고, 그 벌레는 어떻게 막아요?" has two parts: a part ends at a question mark, or
at a connective ending (…고, …며, …는데) or comma, if what came before it asks something itself. A comparison ("코이어
배지랑 암면 배지 급액 횟수 차이", "작년 3월이랑 올해 3월 2동 배액률") has a sub-question for each side, with all the rest.
Each is searched beside the whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from rag.errors import SettingsError
from rag.lexicon import OPEN_TYPES, Lexicon, Mention
from rag.schema import QueryFeatures, Slot

NARROWER = Path(__file__).with_name("narrower.tsv")
MAX_PARTS = 5
# A part of fewer words that names no term is about the part before.
MIN_WORDS = 4
# What a sub-question's votes count beside the whole question's, chosen as the weights below.
SUB_SHARE = 0.25
# Chosen on the tune part of the farm set (``python -m eval farm``).
CANONICAL_WEIGHT, ALIAS_WEIGHT, NARROWER_WEIGHT, RECORD_WEIGHT, FARM_WEIGHT = 0.5, 0.3, 0.3, 0.9, 0.9

# Domain → lexicon types. Crops, cultivars, stages and units are named, not described: nothing is added for them.
DOMAINS: Mapping[str, frozenset[str]] = {
    "병해충": frozenset({"병", "바이러스", "해충", "생리장해", "증상"}),
    "양액": frozenset({"양액"}),
    "환경": frozenset({"환경요인"}),
    "설비": frozenset({"설비", "농자재"}),
    "기록": frozenset({"기록", "작업"}),
}
# What the asker says → what records write.
RECORD_WORDS: dict[str, tuple[str, ...]] = {
    "약": ("방제", "살포"),
    "치": ("방제", "살포"),
    "뿌리": ("방제", "살포"),
    "방제": ("살포",),
    "따": ("수확",),
    "물량": ("수확",),
    "농도": ("ec",),
    "고치": ("수리",),
}

# "…라고", "갖고", "가지고" and what goes on with "있다", "다니다", "싶다" end no part.
_BREAK = re.compile(
    r"(?<=[?？])\s*|(?<=[가-힣]고)(?<![라다자냐갖타]고)(?<!가지고)(?:,\s*|\s+(?!있|다니|다녀|싶|계[시세]|나서|나면))|"
    r"(?<=[가-힣]며)[,\s]\s*|(?<=는데)[,\s]\s*|,\s*|\s+그리고\s+|\.\s+"
)
_ASKS = re.compile(
    r"뭐|뭘|무엇|무슨|어떤|어떻게|어느|어디|언제|왜|얼마|몇|며칠|누가|누구|까닭|이유|원인|방법|대책|[?？]|"
    r"(?:알려|보여|찾아|뽑아|정리해|설명해)\s?주|(?:나요|가요|까요|죠|지요|냐)$"
)
_COMPARES = re.compile(
    r"비교|차이|다르|다른|달라|구별|구분|견주|견줘|각각|어느|어떤|중(?:에|\s)|보다|대비|vs|씩|뭐가|더\s|낫|나[아은음]|붙여\s?놓",
    re.I,
)
_JOINED = re.compile(r"(?:이랑|랑|하고|이나|와|과|및|보다|대비|vs\.?|[,·])\s*(?:비교해\s*)?", re.I)
_NOUNS_JOINED = re.compile(r"(?:이랑|랑|와|과|vs\.?)\s+", re.I)
_HEADED = re.compile(r"\s?(?P<head>[가-힣A-Za-z]{1,6}?)(?:이랑|랑|하고|와|과)\s+")
_SUBJECT = re.compile(r"(?:이|가|은|는|을|를)?\s+")
_BEHIND = re.compile(r"\s?(?:보다|대비)(?![가-힣])|(?:이랑|랑|하고)(?![가-힣])")
_COMPARING = re.compile(
    r"\s*(?:비교\S*|차이\S*|견[주줘]\S*|(?<![가-힣])각각(?![가-힣])|중에?(?=\s+(?:어느|언제|뭐|누가|어떤))(?<=\s중)|중에(?![가-힣]))"
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A further search word: ``rule`` of ``domain`` added ``word`` for ``source``."""

    word: str
    weight: float
    domain: str
    rule: str
    source: str


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One of several things asked: ``rule`` is "part" (of a double question) or "side" (of a comparison)."""

    text: str
    rule: str


Narrower = Mapping[str, tuple[str, tuple[str, ...]]]
_Joined = Callable[[str, Mention, Mention], "tuple[Mention, Mention] | None"]


def load_narrower(lexicon: Lexicon, path: Path = NARROWER) -> Narrower:
    """General term → (domain, narrower terms). Lines that open with # are comments, the first other line is the head.

    Raises:
        SettingsError: a row lacks a column, names an unknown domain or term, itself, or stands twice; names the line.
    """
    try:
        lines = unicodedata.normalize("NFC", path.read_bytes().decode("utf-8")).splitlines()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path.name}: UTF-8 이 아닙니다({error}). UTF-8 로 저장해 주세요.") from error
    rows = [(n, line) for n, line in enumerate(lines, start=1) if not line.startswith("#")]
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for number, line in rows[1:]:
        where = f"{path.name} {number}행"
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 3 or not all(cells):
            raise SettingsError(f"{where}: '{line}' — 열 3개(분야, 넓은 말, 좁은 말)가 필요합니다.")
        domain, broader, kinds = cells[0], cells[1], tuple(cell.strip() for cell in cells[2].split("|"))
        if domain not in DOMAINS:
            raise SettingsError(f"{where}: 분야 '{domain}' 은(는) 없습니다. 쓸 수 있는 것: {', '.join(DOMAINS)}")
        unknown = [term for term in (broader, *kinds) if term not in lexicon.terms]
        if unknown:
            raise SettingsError(f"{where}: {unknown} 은(는) 용어집의 용어가 아닙니다.")
        if broader in kinds or len(set(kinds)) != len(kinds) or broader in found:
            raise SettingsError(f"{where}: '{broader}' 또는 그 좁은 말이 두 번 나옵니다.")
        found[broader] = (domain, kinds)
    return found


def expand(
    terms: Sequence[str],
    mentions: Sequence[Mention],
    lexicon: Lexicon,
    narrower: Narrower,
    *,
    record: bool,
    farm: Mapping[str, str] | None = None,
) -> tuple[Expansion, ...]:
    """Further words of a question with the BM25 words ``terms`` and the lexicon ``mentions``; each word once.

    ``record``: it asks about a farm's records; ``farm``: word of the question → term, by the farm's own list. Of several reasons for a
    word the heaviest is kept, of equal ones the first.
    """
    found = [one for domain in DOMAINS for one in _of_domain(domain, mentions, lexicon, narrower)]
    if record:
        found += _records(terms)
    found += [Expansion(term, FARM_WEIGHT, "농장", "farm", word) for word, term in (farm or {}).items()]
    best: dict[str, Expansion] = {}
    for one in found:
        kept = best.get(one.word)
        if one.word not in terms and (kept is None or one.weight > kept.weight):
            best[one.word] = one
    return tuple(best.values())


def _of_domain(domain: str, mentions: Sequence[Mention], lexicon: Lexicon, narrower: Narrower) -> Iterator[Expansion]:
    for name in dict.fromkeys(m.name for m in mentions if m.type in DOMAINS[domain]):
        yield Expansion(name, CANONICAL_WEIGHT, domain, "canonical", name)
        for form in lexicon.terms[name].forms[1:] if name in lexicon.terms else ():
            if " " in form and not form.isascii():
                yield Expansion(form, ALIAS_WEIGHT, domain, "alias", name)
    for name in dict.fromkeys(m.name for m in mentions):
        of, kinds = narrower.get(name, ("", ()))
        if of == domain:
            yield from (Expansion(kind, NARROWER_WEIGHT, domain, "narrower", name) for kind in kinds)


def _records(terms: Sequence[str]) -> Iterator[Expansion]:
    for term in terms:
        for word in RECORD_WORDS.get(term, ()):
            yield Expansion(word, RECORD_WEIGHT, "기록", "record", term)


def record_words(keywords: Sequence[str]) -> tuple[str, ...]:
    """Words that records use for what the keywords ask."""
    return tuple(dict.fromkeys(word for keyword in keywords for word in RECORD_WORDS.get(keyword, ())))


def unknown_words(features: QueryFeatures, lexicon: Lexicon) -> tuple[str, ...]:
    """Nouns of a question that the lexicon does not hold, for ``python -m rag lexicon --suggest``."""
    return tuple(
        word
        for word in dict.fromkeys(features.keywords)
        if len(word) > 1
        and not word.endswith("다")  # a verb or adjective
        and not any(char.isdigit() for char in word)
        and word.lower().replace(" ", "") not in lexicon.canonical
    )


def weighted_words(
    expansions: Sequence[Expansion], known: Collection[str], tokens_of: Callable[[str], tuple[str, ...]]
) -> tuple[tuple[str, float], ...]:
    """(word, weight) as BM25 and the graph look them up: tokens and entity names, none of the ``known`` tokens.

    A term that is one token counts as that token alone; the tokens of another share its weight.
    """
    found: dict[str, float] = {}
    for one in expansions:
        tokens = tuple(dict.fromkeys(tokens_of(one.word)))
        whole = one.word.lower()
        if whole in tokens:
            tokens = (whole,)
        for token in tokens:
            if token not in known:
                found[token] = max(found.get(token, 0.0), one.weight / len(tokens))
        if one.word not in known:
            found[one.word] = max(found.get(one.word, 0.0), one.weight)
    return tuple(found.items())


def parts_of(text: str) -> tuple[str, ...]:
    """The parts of ``text`` that ask something, in order; empty when it asks one thing."""
    return tuple(text[start:end] for start, end in _part_spans(text))


def _part_spans(text: str) -> list[tuple[int, int]]:
    """Where the parts of a question stand, without the breaks between them; empty when it asks one thing."""
    breaks = [match.span() for match in _BREAK.finditer(text)]
    pieces = zip([0, *(end for _, end in breaks)], [*(start for start, _ in breaks), len(text)])
    spans: list[tuple[int, int]] = []
    pending: int | None = None
    for start, end in pieces:
        pending = start if pending is None else pending
        if _ASKS.search(text[pending:end]):
            spans.append((pending, end))
            pending = None
    if pending is not None and spans and text[pending:].strip():
        spans[-1] = (spans[-1][0], len(text))
    return [_trimmed(text, *span) for span in spans[:MAX_PARTS]] if len(spans) > 1 else []


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def sub_questions(
    text: str, mentions: Sequence[Mention], slots: Sequence[Slot] = (), names: Sequence[Mention] = ()
) -> tuple[SubQuestion, ...]:
    """2 to ``MAX_PARTS`` things that ``text`` asks, or none when it asks one.

    ``mentions`` and ``slots`` are of ``text``. What every sub-question needs stands before one that lacks it: ``names``
    (crops, pests) of types that it does not name, and the terms of the first part where it names none itself.
    """
    said = [Mention(s.value, s.kind, s.start, s.end) for s in slots if s.kind in ("date", "house")]
    parted = _standing(text, _part_spans(text), mentions)
    found: list[SubQuestion] = []
    topic: list[str] = []
    for start, end in parted or [(0, len(text))]:
        part = text[start:end]
        inside = _within(mentions, start, end)
        terms = [part[m.start : m.end] for m in inside if m.type not in OPEN_TYPES]
        sides = sides_of(part, inside, _within(said, start, end))
        types = {m.type for m in inside}
        wanted = [*(m.name for m in names if m.type not in types), *(topic if not terms else ())]
        if sides:
            found += [SubQuestion(_with(wanted, side), "side") for side in sides]
        elif parted:
            found.append(SubQuestion(_with(wanted, part), "part"))
        topic = topic or terms
    kept = tuple({one.text: one for one in reversed(found) if one.text != text}.values())[::-1]
    return kept[:MAX_PARTS] if len(kept) > 1 else ()


def _standing(text: str, spans: list[tuple[int, int]], mentions: Sequence[Mention]) -> list[tuple[int, int]]:
    """Parts that can stand alone: a short one without a term ("몇 도부터 문제?") goes with the one before."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        named = any(m.type not in OPEN_TYPES for m in _within(mentions, start, end))
        if kept and not named and len(text[start:end].split()) < MIN_WORDS:
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((start, end))
    return kept if len(kept) > 1 else []


def _with(names: Sequence[str], text: str) -> str:
    """``text`` behind the names that it does not say."""
    return " ".join([*(name for name in dict.fromkeys(names) if name not in text), text])


def _within(things: Sequence[Mention], start: int, end: int) -> list[Mention]:
    """Things inside ``text[start:end]``, counted from its beginning."""
    return [replace(m, start=m.start - start, end=m.end - start) for m in things if start <= m.start and m.end <= end]


def sides_of(text: str, mentions: Sequence[Mention], slots: Sequence[Mention] = ()) -> tuple[str, ...]:
    """The question once for each side of its comparison; empty when it compares nothing.

    Dates and houses side by side (``slots``) always are sides; other things where a word of comparing is there too.
    """
    compares = _COMPARES.search(text) is not None
    terms = [m for m in mentions if m.type not in OPEN_TYPES] if compares else []
    nouns = [m for m in mentions if m.type in OPEN_TYPES] if compares else []
    chain = _chain(text, _apart(slots, terms), _joined) or _chain(text, _apart(nouns, []), _nouns_joined)
    if len({text[m.start : m.end] for m in chain}) < 2:
        return ()
    before, after = text[: chain[0].start], text[chain[-1].end :]
    particle = _BEHIND.match(after)
    after = after[particle.end() :] if particle else after
    sides = (_cleaned(f"{before}{text[m.start : m.end]}{after}") for m in chain)
    return tuple(dict.fromkeys(sides))[:MAX_PARTS]


def _cleaned(text: str) -> str:
    """Without the words of comparing."""
    return re.sub(r"\s{2,}", " ", _COMPARING.sub("", text)).strip()


def _chain(text: str, things: Sequence[Mention], joined: _Joined) -> list[Mention]:
    """The first run of joined neighbours of one kind."""
    chain: list[Mention] = []
    for first, second in pairwise(things):
        pair = joined(text, first, second) if first.type == second.type else None
        if pair is not None:
            chain = [*chain[:-1], *pair] if chain else list(pair)
        elif chain:
            break
    return chain


def _apart(first: Sequence[Mention], others: Sequence[Mention]) -> list[Mention]:
    """Things in text order, none over another; the earlier list and the longer thing come first."""
    kept: list[Mention] = []
    for group in (first, others):
        for m in sorted(group, key=lambda m: (m.start - m.end, m.start)):
            if not any(m.start < k.end and k.start < m.end for k in kept):
                kept.append(m)
    return sorted(kept, key=lambda m: m.start)


def _nouns_joined(text: str, first: Mention, second: Mention) -> tuple[Mention, Mention] | None:
    return (first, second) if _NOUNS_JOINED.fullmatch(text[first.end : second.start]) else None


def _joined(text: str, first: Mention, second: Mention) -> tuple[Mention, Mention] | None:
    """The two where they are joined, each with the head that both are written with (코이어 배지랑 암면 배지)."""
    between, behind = text[first.end : second.start], text[second.end :]
    if _JOINED.fullmatch(between) or (_SUBJECT.fullmatch(between) and re.match(r"\s?(?:보다|대비)", behind)):
        return first, second
    headed = _HEADED.fullmatch(between)
    same = re.match(rf"\s?{re.escape(headed['head'])}", behind) if headed else None
    if headed is None or same is None:
        return None
    return replace(first, end=first.end + headed.end("head")), replace(second, end=second.end + same.end())


@lru_cache(maxsize=4)
def narrower_of(lexicon: Lexicon) -> Narrower:
    """The shipped table, read once for a lexicon."""
    return load_narrower(lexicon)
