"""How well evidence carries an answer: what the refusal model reads (``calibration.Support`` says what each value is)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from rag.answering.asked import CULTIVAR, STAGE, Asked, figure_asked, missing_terms, share
from rag.answering.calibration import Support
from rag.answering.sentences import COSINE_ZERO, Scored
from rag.schema import BM25, GRAPH, VECTOR, ChannelResult, Evidence, Hit

# ``terms`` of a question that names none: between the medians of answerable and unanswerable questions.
NO_TERMS = 0.7
# idf values of paragraph-level words lie below this (about 3,000 paragraphs).
IDF_SCALE = 8.0
# What a figure belongs to: named in the question, it must be named where the figure stands.
SHARP_TYPES = frozenset({CULTIVAR, STAGE, "농자재", "양액"})


def support_of(
    asked: Asked, chosen: Sequence[Scored], items: Sequence[Evidence], results: Sequence[ChannelResult]
) -> Support:
    """What the refusal model reads off the channels, the passages and the chosen sentences."""
    vector, keyword, graph = (_first_hits(results, channel) for channel in (VECTOR, BM25, GRAPH))
    documents = [[asked.view.document_of(hit.chunk_id).doc_id for hit in hits] for hits in (vector, keyword, graph)]
    figures = [figure for figure in (asked.figure, *(figure_asked(part.text) for part in asked.parts)) if figure]
    bearing = [s for s in chosen if not figures or any(figure.search(s.text) for figure in figures)]
    named = set(asked.hard_terms)
    nowhere = named.intersection(*(missing_terms(asked, s.chunk) for s in chosen)) if chosen else named
    cosine = _context_cosine(asked, bearing)
    nouns = {word: weight for word, weight in asked.weights.items() if word in noun_words(asked)}
    windows = [set(_words(asked, s)) for s in bearing]
    said = max((share(nouns, window) for window in windows), default=0.0) if nouns else NO_TERMS
    passage = max((share(nouns, asked.view.chunk_tokens(s.chunk.chunk_id)) for s in chosen), default=0.0)
    here = {word for s in chosen for word in _words(asked, s)}
    focus = max((_named(asked, s) for s in bearing), default=0.0)
    unsaid_here = max((weight for word, weight in nouns.items() if word not in here), default=0.0) / IDF_SCALE
    return Support(
        vector_gap=vector[0].score - fmean(hit.score for hit in vector) if vector else 0.0,
        agreement=_agreement(*documents),
        terms=max((_share_named(asked, asked.view.entities_of(i.chunk.chunk_id)) for i in items), default=0.0),
        cosine=cosine,
        missing=len(nowhere) / len(named) if named else 0.0,
        said=said,
        passage=passage if nouns else NO_TERMS,
        unsaid_here=unsaid_here,
        unfocused=(1 - focus) * (asked.figure is not None),
        unknown=min(3, sum(word not in asked.view.idf for word in nouns)) / 3,
        parts=float(bool(asked.parts)),
        row=float(asked.record and any(s.exact for s in chosen)),
        unnamed=_unnamed(asked, bearing),
        quantity=float(asked.figure is not None),
        record=float(asked.record),
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


def _unnamed(asked: Asked, bearing: Sequence[Scored]) -> float:
    """Share of the question's cultivars, materials and stages that the best bearing sentence, headings and all, leaves out."""
    wanted = {e for e in asked.features.entities if asked.types.get(e) in SHARP_TYPES}
    if not wanted:
        return 0.0
    return 1 - max((len(wanted & set(_words(asked, s))) for s in bearing), default=0) / len(wanted)


def _context_cosine(asked: Asked, bearing: Sequence[Scored]) -> float:
    """Mean cosine of the question with the most relevant sentence and with its passage, whose vector holds the headings."""
    if not bearing or asked.vector is None:
        return COSINE_ZERO
    best = max(bearing, key=lambda s: s.relevance)
    place = asked.view.place(best.chunk.chunk_id)
    vectors = [asked.vector, *(part.vector for part in asked.parts if part.vector is not None)]
    sentence = max(float(best.candidate.vector @ vector) for vector in vectors)
    if place is None:
        return sentence
    level, row = place
    return (sentence + max(float(level.similarities(vector)[row]) for vector in vectors)) / 2


def _words(asked: Asked, scored: Scored) -> tuple[str, ...]:
    """BM25 tokens of a sentence with its document's title and headings."""
    sentence = scored.candidate.sentence
    return asked.view.cited_tokens(sentence.chunk_id, sentence.start, sentence.end)


def _first_hits(results: Sequence[ChannelResult], channel: str) -> tuple[Hit, ...]:
    return next((r.hits[:20] for r in results if r.channel == channel), ())


def _agreement(vector: Sequence[str], keyword: Sequence[str], graph: Sequence[str]) -> float:
    common = len(set(vector[:5]) & set(keyword[:5])) / 5
    return (float(vector[:1] == keyword[:1] != []) + float(vector[:1] == graph[:1] != []) + common) / 3


def _share_named(asked: Asked, entities: Collection[str]) -> float:
    terms = asked.features.entities
    return sum(term in entities for term in terms) / len(terms) if terms else NO_TERMS


def _named(asked: Asked, scored: Scored) -> float:
    """Share of the question's lexicon terms that a sentence with its title and headings names; 1 without terms."""
    chunk = scored.candidate.chunk
    text = "".join((chunk.title, chunk.section, scored.candidate.text)).replace(" ", "").lower()
    words = {token.lower() for token in scored.candidate.sentence.tokens}
    terms = asked.features.entities
    present = sum(t.lower() in words or t.replace(" ", "").lower() in text for t in terms)
    return present / len(terms) if terms else 1.0
