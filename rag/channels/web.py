"""Web search: pages that a search provider names, fetched and read for one question and cited like any other evidence.

Off unless the settings switch it on, for the words of a question leave the installation. What is sent: its content
words, at most ``MAX_WORDS``, no word that is part of another, no long number. A question about the farm's own records,
houses, people, files or own words is not sent at all (:func:`withheld`).

One search: the provider's first ``max_pages`` addresses, read at the same time until ``timeout_s`` is over; BM25 over
their chunks keeps the best ``MAX_PASSAGES``, whose sentences are encoded and which are ranked by their best sentence's
cosine with the question, where there is a vector, else by BM25. The chunks come along as ``passages`` under the public
scope: nothing of them is stored, and the next question finds them no more.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rag.channels.base import Found
from rag.errors import ChannelUnavailable, RagError, SettingsError
from rag.schema import (
    WEB,
    ChunkRecord,
    Hit,
    Level,
    Passage,
    PlannedQuery,
    QueryFeatures,
    RetrievalPlan,
    SentenceRecord,
    SlotKind,
)
from rag.stores.bm25_index import Bm25Index, top_rows
from rag.text import Korean, SentenceSpan

# The kind of a document that came from the web.
KIND = "웹 문서"
MAX_WORDS = 12
MAX_PASSAGES = 6
# Share of the time that pages may take; the rest is for encoding them.
READING_SHARE = 0.7
_LONG_NUMBER = re.compile(r"\d[\d.,-]{5,}")
_OWN = re.compile(r"우리|저희|(?:내|제)\s?(?:농장|하우스|온실|밭)")
_PRIVATE_SLOTS: Mapping[SlotKind, str] = {"house": "동", "author": "작성자", "farm": "농장", "file": "파일"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """What a provider says of a page."""

    url: str
    title: str = ""
    snippet: str = ""


class Provider(Protocol):
    """A search engine behind one method."""

    def search(self, query: str, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        """At most ``limit`` pages, best first.

        Raises:
            RagError: it cannot be asked.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChunk:
    """A chunk of a fetched page and the places of its sentences in its text."""

    chunk: ChunkRecord
    spans: tuple[SentenceSpan, ...]


class Reader(Protocol):
    """Fetches and parses; handed in from above, for nothing below the front ends knows the loaders."""

    def __call__(self, url: str, level: Level, timeout_s: float) -> Sequence[PageChunk]:
        """The chunks of a page.

        Raises:
            RagError: it cannot be fetched or read.
        """


class DdgsProvider:
    """``ddgs``: one call over several public search engines, no key."""

    def __init__(self) -> None:
        try:
            import ddgs
        except ImportError as error:
            raise SettingsError(
                "web_provider 'ddgs' 를 쓸 수 없습니다. 'pip install -r requirements.txt' 로 설치하거나 "
                "onsil.toml 의 web_enabled 를 false 로 두세요."
            ) from error
        self._api: Any = ddgs

    def search(self, query: str, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        """Korean results first; no hit is an empty result."""
        try:
            client = self._api.DDGS(timeout=max(1, int(timeout_s)))
            found = client.text(query, region="kr-kr", safesearch="moderate", max_results=limit)
        except Exception as error:  # its engines raise errors of several libraries
            if "No results" in str(error):
                return ()
            raise ChannelUnavailable(
                f"웹 검색(ddgs)에 실패했습니다({type(error).__name__}: {error}). 인터넷 연결을 확인해 주세요."
            ) from error
        return [SearchHit(url=one["href"], title=one["title"], snippet=one["body"]) for one in found[:limit]]


PROVIDERS: Mapping[str, Callable[[], Provider]] = {"ddgs": DdgsProvider}


def withheld(text: str, features: QueryFeatures, own_words: Collection[str] = ()) -> str | None:
    """Why no word of a question may leave the installation; None where its content words may.

    ``text`` is the question made whole, ``own_words`` are those that the farm taught the lexicon.
    """
    if features.intent == "log_lookup":
        return "농장 기록을 묻는 질문이라 웹에 보내지 않았습니다."
    for kind, label in _PRIVATE_SLOTS.items():
        if features.values(kind):
            return f"질문에 {label} 이름이 있어 웹에 보내지 않았습니다."
    if _OWN.search(text):
        return "우리 농장의 일을 묻는 질문이라 웹에 보내지 않았습니다."
    if any(word in text for word in own_words):
        return "농장에서만 쓰는 낱말이 있어 웹에 보내지 않았습니다."
    return None


def words_to_send(tokens: Sequence[str]) -> tuple[str, ...]:
    """Content words of a question for a search engine: no word that is part of another, no long number."""
    short = [token for token in dict.fromkeys(tokens) if not _LONG_NUMBER.fullmatch(token)]
    return tuple(t for t in short if not any(t != other and t in other for other in short))[:MAX_WORDS]


class WebChannel:
    """Searches the web for the whole question."""

    name = WEB

    def __init__(
        self,
        provider: Provider,
        read: Reader,
        korean: Korean,
        encode: Callable[[Sequence[str]], npt.NDArray[np.float32]],
        *,
        timeout_s: float,
        max_pages: int,
    ) -> None:
        self._provider = provider
        self._read = read
        self._korean = korean
        self._encode = encode
        self._timeout_s = timeout_s
        self._max_pages = max_pages

    def search(self, plan: RetrievalPlan, query: PlannedQuery) -> Found:
        """Hits on the chunks of pages, with the chunks; parts of a question and questions with a filter are not sent.

        Raises:
            ChannelUnavailable: the provider cannot be asked, or none of its pages could be read.
        """
        reason = plan.withheld
        if reason is None and query is not plan.queries[0]:
            reason = "질문의 부분은 웹에 따로 묻지 않습니다."
        if reason is None and not plan.filters.empty:
            reason = "문서 조건이 있는 질문이라 웹에 보내지 않았습니다."
        words = words_to_send(query.tokens)
        if reason is None and not words:
            reason = "웹에 물을 낱말이 없습니다."
        if reason is not None:
            return Found(hits=(), skipped=True, note=reason)
        end = time.monotonic() + self._timeout_s
        found = self._provider.search(" ".join(words), self._max_pages, self._timeout_s)
        urls = list(dict.fromkeys(hit.url for hit in found))[: self._max_pages]
        sent = f"보낸 말: {' '.join(words)}"
        if not urls:
            return Found(hits=(), note=f"{sent}. 찾은 쪽이 없습니다.")
        reading_end = end - (1 - READING_SHARE) * self._timeout_s
        pages, failures = read_pages(urls, partial(self._read, level=plan.granularity), reading_end)
        if len(failures) == len(urls):
            raise ChannelUnavailable(f"찾은 쪽 {len(urls)}개를 하나도 읽지 못했습니다. {failures[0]}")
        passages, scores = self._ranked([chunk for page in pages for chunk in page], query, end)
        note = f"{sent}. {len(urls)}쪽 가운데 {len(urls) - len(failures)}쪽을 읽었습니다."
        return Found(
            hits=tuple(
                Hit(chunk_id=p.chunk.chunk_id, scope_id=p.chunk.scope_id, rank=rank, score=score)
                for rank, (p, score) in enumerate(zip(passages, scores, strict=True), start=1)
            ),
            passages=tuple(passages),
            note=" ".join([note, *failures[:1]]),
        )

    def _ranked(
        self, chunks: Sequence[PageChunk], query: PlannedQuery, end: float
    ) -> tuple[list[Passage], list[float]]:
        """The passages worth reading with their scores, best first; ties by chunk id."""
        distinct = list({one.chunk.chunk_id: one for one in chunks}.values())
        texts = [self._tokens(one) for one in distinct]
        scores = Bm25Index.build([[*head, *(t for s in body for t in s)] for head, body, _ in texts]).scores(
            query.tokens
        )
        scored: list[tuple[float, Passage]] = []
        for row in top_rows(scores, MAX_PASSAGES, above=0.0, mask=None):
            if scored and time.monotonic() > end:
                break
            passage = self._passage(distinct[row], *texts[row])
            cosine = None if query.vector is None else float((passage.vectors @ query.vector).max())
            scored.append((float(scores[row]) if cosine is None else cosine, passage))
        scored.sort(key=lambda pair: (-pair[0], pair[1].chunk.chunk_id))
        return [passage for _, passage in scored], [score for score, _ in scored]

    def _tokens(self, one: PageChunk) -> tuple[tuple[str, ...], list[tuple[str, ...]], frozenset[str]]:
        """Tokens of the headings, of each sentence, and all entities."""
        chunk = one.chunk
        head = self._korean.analyse("\n".join(filter(None, (chunk.title, chunk.section))), heading=True)
        bodies = [self._korean.analyse(chunk.text[span.start : span.end]) for span in one.spans]
        names = frozenset(m.name for analysis in (head, *bodies) for m in analysis.entities)
        return head.tokens, [body.tokens for body in bodies], names

    def _passage(
        self, one: PageChunk, head: tuple[str, ...], bodies: Sequence[tuple[str, ...]], names: frozenset[str]
    ) -> Passage:
        chunk = one.chunk
        return Passage(
            chunk=chunk,
            tokens=(*head, *(token for body in bodies for token in body)),
            entities=names,
            sentences=tuple(
                SentenceRecord(chunk_id=chunk.chunk_id, start=span.start, end=span.end, tokens=tokens, row=row)
                for row, (span, tokens) in enumerate(zip(one.spans, bodies, strict=True))
            ),
            vectors=self._encode([chunk.text[span.start : span.end] for span in one.spans]),
        )


def read_pages(
    urls: Sequence[str], read: Callable[..., Sequence[PageChunk]], end: float
) -> tuple[list[Sequence[PageChunk]], list[str]]:
    """(chunks of each page that was read in time, why each other one was not), in the order of ``urls``.

    ``end`` is a time of ``time.monotonic``. Each page has a daemon thread of its own; one that is late is left alone.
    """
    outcomes: list[Sequence[PageChunk] | str | None] = [None] * len(urls)

    def work(place: int, url: str) -> None:
        try:
            outcomes[place] = read(url, timeout_s=max(0.1, end - time.monotonic()))
        except RagError as error:
            outcomes[place] = str(error)
        except Exception as error:  # one page must not take the others down
            outcomes[place] = f"'{url}' 을(를) 읽지 못했습니다({type(error).__name__})."

    threads = [
        threading.Thread(target=work, args=job, name=f"web-page-{job[0]}", daemon=True) for job in enumerate(urls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    taken = [
        f"'{url}' 이(가) 제때 답하지 않았습니다." if outcome is None else outcome
        for outcome, url in zip(list(outcomes), urls, strict=True)
    ]
    return [o for o in taken if not isinstance(o, str)], [o for o in taken if isinstance(o, str)]
