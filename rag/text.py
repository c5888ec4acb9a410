"""Korean text at one place: NFC, Kiwi morphemes with the farm lexicon, sentences with offsets.

One process-wide instance (Kiwi needs about 500 MB), shared by index time and query time, so that both see the
same tokens. BM25 tokens are content morphemes: nouns, numbers, Latin words, roots, verb and adjective stems;
lexicon compounds count whole and in parts, aliases also as their canonical term (FIELD: Kiwi content morphemes
.937 against .756 for white space on a Korean document set).
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kiwipiepy import Kiwi, Token

from rag.lexicon import Lexicon, Mention

# Bumped whenever tokens, sentences or entities of the same text would change; part of the index manifest.
TOKENIZER_VERSION = "kiwi-0.24.1/content-3"

# Type of an entity that is not in the lexicon but a compound or proper noun of the text.
COMPOUND = "복합명사"

_CONTENT_TAGS = ("NNG", "NNP", "NR", "SN", "SL", "SH", "XR")
_STEM_TAGS = ("VV", "VA")
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
    """One pass over a text: BM25 tokens, lexicon mentions, noun compounds."""

    tokens: tuple[str, ...]
    mentions: tuple[Mention, ...]
    compounds: tuple[Mention, ...]


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
                spans.extend(_stripped(text, start, end) for start, end in bounds)
            elif line.strip():
                spans.append(_stripped(text, offset, offset + len(line)))
            offset += len(line) + 1
        return [span for span in spans if span.start < span.end]

    def analyse(self, text: str, *, typos: bool = False) -> Analysis:
        """Tokens, mentions and compounds of one text."""
        morphemes = self.morphemes(text, typos=typos)
        borders = ({t.start for t in morphemes}, {t.start + t.len for t in morphemes})
        mentions = self.lexicon.mentions(text, borders)
        known = [(m.start, m.end) for m in mentions]
        compounds = (
            c for c in _compounds(morphemes) if not any(c.start < end and start < c.end for start, end in known)
        )
        return Analysis(self._tokens(morphemes), tuple(mentions), tuple(compounds))

    def tokens(self, text: str, *, typos: bool = False) -> tuple[str, ...]:
        """BM25 tokens of a text."""
        return self._tokens(self.morphemes(text, typos=typos))

    def _tokens(self, morphemes: list[Token]) -> tuple[str, ...]:
        out: list[str] = []
        for index, token in enumerate(morphemes):
            tag = str(token.tag).split("-")[0]
            form = token.form.lower()
            if tag == "W_SERIAL":
                out.extend(_date_tokens(form))
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
                name = self.lexicon.canonical.get(form)
                if name is not None and name != form and " " not in name:
                    out.append(name.lower())
        return tuple(out)


def _stripped(text: str, start: int, end: int) -> SentenceSpan:
    piece = text[start:end]
    return SentenceSpan(start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))


def _date_tokens(form: str) -> list[str]:
    match = _DATE.fullmatch(form)
    if match is None:
        return [form]
    year, month, day = match.groups()
    return [form, f"{year}년", f"{int(month)}월", *([f"{int(day)}일"] if day else [])]


def _compounds(morphemes: list[Token]) -> Iterator[Mention]:
    """Runs of two or more adjacent nouns without a space, joined; single proper nouns count too."""
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
    if len(run) >= 2 or (run and str(run[0].tag) == "NNP" and len(run[0].form) >= 2):
        name = "".join(token.form for token in run)
        yield Mention(name, COMPOUND, run[0].start, run[-1].start + run[-1].len)


@lru_cache(maxsize=1)
def korean() -> Korean:
    """The process-wide instance with the shipped lexicon."""
    return Korean(Lexicon.load())
