"""Text at one place: NFC, Kiwi morphemes with the farm lexicon, English words, entities, sentences with offsets.

One process-wide instance (Kiwi needs about 500 MB), shared by index time and query time, so that both see the
same tokens. BM25 tokens are content morphemes: nouns, numbers, Latin words, roots, verb and adjective stems;
lexicon compounds count whole and in parts, aliases also as their canonical term (FIELD: Kiwi content morphemes
.937 against .756 for white space on a Korean document set). Latin words go through ``rag.english`` wherever they
stand, so that they are the same token in a Korean and in an English text; a text without Hangul never reaches Kiwi.

Entities of a text: lexicon terms; proper, joined and common nouns (Kiwi); capitalised names (Latin script). A title or
heading in Latin script is an entity as a whole, with its aliases. A passage without any heading is headed by the
entity that opens it ("Ann Jäderlund (born 1955) is a Swedish poet …").
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kiwipiepy import Kiwi, Token

from rag.english import STOPWORDS, has_hangul, heading_names, names_in, opens_text
from rag.english import words as english_words
from rag.lexicon import COMPOUND, NOUN, Lexicon, Mention

# Bumped whenever tokens, sentences or entities of the same text would change; part of the index manifest.
TOKENIZER_VERSION = "kiwi-0.24.1+snowball-en/content-5"

_CONTENT_TAGS = ("NNG", "NNP", "NR", "SN", "SL", "SH", "XR")
_STEM_TAGS = ("VV", "VA")
# Particles, endings, copulas: a one-syllable term is never made of them (인 is not in 것인가요).
_GRAMMATICAL = ("J", "E", "VCP", "VCN", "XSV", "XSA")
_NOUN_TAGS = ("NNG", "NNP", "XR", "SL")
# Verbs and nouns that carry a request, not a topic.
_REQUEST = frozenset(
    [
        "알리",
        "보이",
        "주",
        "찾",
        "하",
        "되",
        "있",
        "없",
        "같",
        "이",
        "그러",
        "어떻",
        "어떠하",
        "무엇",
        "뭐",
        "얼마",
        "좀",
        "것",
        "거",
        "수",
        "때",
        "등",
        "위하",
        "대하",
    ]
)
_COUNTED = frozenset(
    ["년", "월", "일", "동", "연동", "회", "배", "주", "차", "화방", "호", "조", "항", "시", "시간", "분", "단"]
)
_DATE = re.compile(r"(\d{4})[-./](\d{1,2})(?:[-./](\d{1,2}))?")
# Kiwi also ends a sentence at the dot of "카벤다짐.디에토펜카브": one that nothing follows but a letter ends none, unless a
# predicate stands before it ("보정합니다.그다음").
_ENDED = re.compile(r"[다요죠까][.!?。]+[\"'”’)\]]*$")
# A list number at the start of a line would be read as the end of a sentence ("1. …").
_LIST_NUMBER = re.compile(r"\s*(?:\d{1,2}[.)]|[가-하][.)]|[-·•▪○■*])\s+")


def nfc(text: str) -> str:
    """NFC form; decomposed Hangul (macOS file names, some PDFs) would tokenise differently."""
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True, slots=True)
class SentenceSpan:
    """``text[start:end]`` is one sentence, without surrounding white space."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """One pass over a text: BM25 tokens, lexicon mentions, other entities, and the entity that opens the text."""

    tokens: tuple[str, ...]
    mentions: tuple[Mention, ...]
    compounds: tuple[Mention, ...]
    opening: Mention | None = None

    @property
    def entities(self) -> tuple[Mention, ...]:
        """Lexicon mentions, then compounds and names."""
        return (*self.mentions, *self.compounds)


@dataclass(frozen=True, slots=True)
class EntityCount:
    """How often a passage names an entity, and whether its title or headings do."""

    name: str
    type: str
    count: int
    in_title: bool


def count_entities(head: Analysis, bodies: Sequence[Analysis]) -> list[EntityCount]:
    """Entities of a passage from the analyses of its headings and of its sentences, in name order.

    A name has one type; the first in order wins.
    """
    counts = Counter((m.name, m.type) for body in bodies for m in body.entities)
    titled = {(m.name, m.type) for m in head.entities}
    if not titled and bodies and (opening := bodies[0].opening) is not None:
        titled = {(opening.name, opening.type)}
    found: dict[str, EntityCount] = {}
    for name, kind in sorted({*counts, *titled}):
        found.setdefault(name, EntityCount(name, kind, counts[name, kind], (name, kind) in titled))
    return list(found.values())


class Korean:
    """Kiwi with the farm lexicon as user words. All calls are serialised; Kiwi itself is not re-entrant."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._lock = threading.Lock()
        self._kiwi = Kiwi(num_workers=1)
        for word in lexicon.user_words:
            self._kiwi.add_user_word(word, "NNG", 0.0)
        self._kiwi.tokenize("준비")  # user words cost a rebuild on the first call

    def morphemes(self, text: str, *, typos: bool = False) -> list[Token]:
        """Kiwi tokens of NFC text; ``typos`` corrects basic misspellings (questions only)."""
        with self._lock:
            if typos:
                return list(self._kiwi.tokenize(text, typos="basic"))
            return list(self._kiwi.tokenize(text))

    def sentences(self, text: str) -> list[SentenceSpan]:
        """Sentence spans, never across a line break and never merged over list numbers."""
        spans: list[SentenceSpan] = []
        offset = 0
        for line in text.split("\n"):
            lead = _LIST_NUMBER.match(line)
            skip = lead.end() if lead else 0
            body = line[skip:]
            if body.strip():
                with self._lock:
                    parts = self._kiwi.split_into_sents(body)
                bounds = [(offset + skip + p.start, offset + skip + p.end) for p in parts]
                bounds[0] = (offset + len(line) - len(line.lstrip()), bounds[0][1])
                spans.extend(_stripped(text, start, end) for start, end in _whole(text, bounds))
            elif line.strip():
                spans.append(_stripped(text, offset, offset + len(line)))
            offset += len(line) + 1
        return [span for span in spans if span.start < span.end]

    def analyse(
        self, text: str, *, typos: bool = False, heading: bool = False, morphemes: list[Token] | None = None
    ) -> Analysis:
        """Tokens and entities of one text; ``heading``: its Latin-script lines are titles; ``morphemes``: its Kiwi tokens, if known."""
        if not has_hangul(text):
            return self._analyse_latin(text, heading)
        morphemes = self.morphemes(text, typos=typos) if morphemes is None else morphemes
        lexical = [t for t in morphemes if not str(t.tag).startswith(_GRAMMATICAL)]
        borders = ({t.start for t in lexical}, {t.start + t.len for t in lexical})
        mentions = self.lexicon.mentions(text, borders)
        nouns = _apart(_nouns(morphemes), mentions)
        names = _apart(names_in(text), [*mentions, *nouns])
        compounds = tuple(sorted((*nouns, *names), key=lambda m: (m.start, -m.end)))
        return Analysis(self._tokens(morphemes), tuple(mentions), compounds, _opening(text, [*mentions, *compounds]))

    def _analyse_latin(self, text: str, heading: bool) -> Analysis:
        names = tuple(names_in(text))
        mentions = [m for m in self.lexicon.mentions(text) if self._is_term(text[m.start : m.end], m, names)]
        opening = _opening(text, [*names, *mentions])
        if heading:
            names = tuple(name for line in text.split("\n") for name in heading_names(line))
        else:
            names = tuple(n for n in names if not any(m.start <= n.start and n.end <= m.end for m in mentions))
        return Analysis(self._latin_tokens(text), tuple(mentions), names, opening)

    def _is_term(self, written: str, mention: Mention, names: Sequence[Mention]) -> bool:
        """Whether Latin letters mean the term: not the word "do" (DO), and not a part of a name ("Santa" in "Santa Fe")."""
        if written in STOPWORDS:
            return False
        return not (self.lexicon.is_proper(written) and _inside_longer(mention, names))

    def tokens(self, text: str, *, typos: bool = False) -> tuple[str, ...]:
        """BM25 tokens of a text."""
        return self._tokens(self.morphemes(text, typos=typos)) if has_hangul(text) else self._latin_tokens(text)

    def _latin_tokens(self, text: str) -> tuple[str, ...]:
        out: list[str] = []
        for kind, token, form in english_words(text):
            out.extend(_date_tokens(token) if kind == "date" else [token])
            if kind == "word":
                out.extend(self._canonical_token(form))
        return tuple(out)

    def _canonical_token(self, form: str) -> list[str]:
        """The canonical term of an alias, as a further token."""
        name = self.lexicon.canonical.get(form)
        if name is None or name == form or " " in name:
            return []
        if has_hangul(name):
            return [name.lower()]
        return [token for _, token, part in english_words(name, korean=True) if part != form]

    def _tokens(self, morphemes: list[Token]) -> tuple[str, ...]:
        out: list[str] = []
        for index, token in enumerate(morphemes):
            tag = str(token.tag).split("-")[0]
            form = token.form.lower()
            if tag == "W_SERIAL":
                out.extend(_date_tokens(form))
            elif tag == "SL":
                for _, word, part in english_words(token.form, korean=True):
                    out.extend([word, *self._canonical_token(part)])
            elif tag == "SN":
                follower = morphemes[index + 1] if index + 1 < len(morphemes) else None
                number = form.replace(",", "")
                if follower is not None and follower.form in _COUNTED:
                    out.append(number + follower.form)
                out.append(number)
            elif tag in _CONTENT_TAGS or (tag in _STEM_TAGS and form not in _REQUEST):
                if form in _REQUEST:
                    continue
                out.append(form)
                out.extend(self.lexicon.parts.get(form, ()))
                out.extend(self._canonical_token(form))
        return tuple(out)


def _apart(found: Iterator[Mention] | Sequence[Mention], taken: Sequence[Mention]) -> tuple[Mention, ...]:
    """Mentions that overlap none of ``taken``."""
    return tuple(m for m in found if not any(m.start < t.end and t.start < m.end for t in taken))


def _inside_longer(mention: Mention, names: Sequence[Mention]) -> bool:
    """Whether a term stands inside a longer name ("Santa" in "Santa Fe")."""
    return any(
        n.start <= mention.start and mention.end <= n.end and n.end - n.start > mention.end - mention.start
        for n in names
    )


def _opening(text: str, entities: Sequence[Mention]) -> Mention | None:
    first = min(entities, key=lambda m: (m.start, -m.end), default=None)
    return first if first is not None and opens_text(text, first.start) else None


def _whole(text: str, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """``bounds`` without those inside a word."""
    first, last = bounds[0]
    for start, end in bounds[1:]:
        if start > last or text[last - 1].isspace() or text[start].isspace() or _ENDED.search(text[first:last]):
            yield first, last
            first = start
        last = end
    yield first, last


def _stripped(text: str, start: int, end: int) -> SentenceSpan:
    piece = text[start:end]
    return SentenceSpan(start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))


def _date_tokens(form: str) -> list[str]:
    match = _DATE.fullmatch(form)
    if match is None:
        return [form]
    year, month, day = match.groups()
    return [form, f"{year}년", f"{int(month)}월", *([f"{int(day)}일"] if day else [])]


def _nouns(morphemes: list[Token]) -> Iterator[Mention]:
    """Nouns of two or more syllables: runs of adjacent nouns joined, with their parts; proper and common nouns alone."""
    run: list[Token] = []
    for token in morphemes:
        noun = str(token.tag).split("-")[0] in _NOUN_TAGS
        if run and not (noun and run[-1].start + run[-1].len == token.start):
            yield from _close(run)
            run = []
        if noun:
            run.append(token)
    yield from _close(run)


def _close(run: list[Token]) -> Iterator[Mention]:
    if len(run) >= 2:
        yield Mention("".join(token.form for token in run), COMPOUND, run[0].start, run[-1].start + run[-1].len)
    for token in run:
        tag = str(token.tag).split("-")[0]
        if len(token.form) >= 2 and tag != "SL" and token.form not in _REQUEST:
            yield Mention(token.form, COMPOUND if tag == "NNP" else NOUN, token.start, token.start + token.len)


@lru_cache(maxsize=1)
def korean() -> Korean:
    """The process-wide instance with the shipped lexicon."""
    return Korean(Lexicon.load())
