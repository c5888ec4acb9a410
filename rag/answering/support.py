"""How well evidence carries an answer: what the refusal model reads (``calibration.Support`` says what each value is)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rag.answering.asked import Asked, figure_asked, share
from rag.answering.calibration import Support
from rag.answering.choice import registers
from rag.answering.sentences import CROSS, Scored
from rag.schema import BM25, GRAPH, VECTOR, ChannelResult, Hit

# ``said`` of a question without nouns: between the medians of answerable and unanswerable questions.
NO_NOUNS = 0.7
# idf values of paragraph-level words lie below this (about 3,000 paragraphs).
IDF_SCALE = 8.0
_OF_THE_BEST = ("similarity", "passage", "figure", "names", "missing")


def support_of(asked: Asked, chosen: Sequence[Scored], results: Sequence[ChannelResult]) -> Support:
    """What the refusal model reads off the channels and the chosen sentences (at least one)."""
    vector, keyword, graph = (_first_hits(results, channel) for channel in (VECTOR, BM25, GRAPH))
    documents = [[asked.view.document_of(hit.chunk_id).doc_id for hit in hits] for hits in (vector, keyword, graph)]
    figures = [figure for figure in (asked.figure, *(figure_asked(part.text) for part in asked.parts)) if figure]
    bearing = [s for s in chosen if not figures or any(figure.search(s.text) for figure in figures)]
    nouns = {word: weight for word, weight in asked.weights.items() if word in noun_words(asked)}
    said = max((share(nouns, _words(asked, s)) for s in bearing), default=0.0) if nouns else NO_NOUNS
    here = {word for s in chosen for word in _words(asked, s)}
    best = max(chosen, key=lambda s: (s.relevance, -s.number))
    return Support(
        vector_gap=vector[0].score - fmean(hit.score for hit in vector) if vector else 0.0,
        agreement=_agreement(*documents),
        **{name: best.feature(name) for name in _OF_THE_BEST},
        said=said,
        unsaid_here=max((weight for word, weight in nouns.items() if word not in here), default=0.0) / IDF_SCALE,
        row=float(any(s.exact for s in chosen) if asked.record else asked.registration and registers(asked, best)),
        cross=max(s.feature(CROSS) for s in chosen) / 10,
        unknown=min(3, sum(word not in asked.view.idf for word in nouns)) / 3,
        parts=float(bool(asked.parts)),
        quantity=float(asked.figure is not None),
    )


def noun_words(asked: Asked) -> frozenset[str]:
    """Question words that name things: lexicon terms by their canonical name, other nouns whole or, unseen, by their parts."""
    canonical = asked.lexicon.canonical
    entities = {entity.lower() for entity in asked.features.entities}
    tokens = {token.lower(): token for token in asked.weights}
    found = {tokens[name] for name in entities if name in tokens}
    for noun in (word.lower() for word in asked.features.keywords if not word.endswith("다")):
        if canonical.get(noun, "").lower() in entities or any(noun in name or name in noun for name in entities):
            continue
        parts = [tokens[noun]] if noun in tokens else [t for low, t in tokens.items() if len(low) > 1 and low in noun]
        found.update(parts)
    return frozenset(found)


def _words(asked: Asked, scored: Scored) -> tuple[str, ...]:
    """BM25 tokens of a sentence with its document's title and headings."""
    sentence = scored.candidate.sentence
    return asked.view.cited_tokens(sentence.chunk_id, sentence.start, sentence.end)


def _first_hits(results: Sequence[ChannelResult], channel: str) -> tuple[Hit, ...]:
    return next((r.hits[:20] for r in results if r.channel == channel), ())


def _agreement(vector: Sequence[str], keyword: Sequence[str], graph: Sequence[str]) -> float:
    common = len(set(vector[:5]) & set(keyword[:5])) / 5
    return (float(vector[:1] == keyword[:1] != []) + float(vector[:1] == graph[:1] != []) + common) / 3
