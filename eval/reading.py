"""Analyses of a set's passages and questions, by the functions that ingest and the pipeline use; cached on disk.

A passage is read like a chunk (title as heading, text as body), a question like a public question without a farm.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from eval.datasets import DataSet, Passage
from rag.files import write_whole
from rag.lexicon import Mention
from rag.query.features import read_question, search_words
from rag.schema import Query, Scope, Segment
from rag.stores.catalogue import Catalogue
from rag.text import TOKENIZER_VERSION, Korean, count_entities

# Bumped when what is kept of an analysis changes.
READING_VERSION = 2
ASKED_AT = datetime(2026, 1, 1, tzinfo=UTC)

PassageReading = tuple[tuple[str, ...], tuple[tuple[str, str, int, bool], ...]]


@dataclass(frozen=True, slots=True)
class QuestionReading:
    """A question as the pipeline reads it."""

    tokens: tuple[str, ...]
    entities: tuple[Mention, ...]
    segment: Segment


@dataclass(frozen=True, slots=True)
class SetReading:
    """Tokens and entity counts of every passage, and every question's reading, in the order of the set."""

    passages: tuple[PassageReading, ...]
    questions: tuple[QuestionReading, ...]


def read_passage(korean: Korean, passage: Passage) -> PassageReading:
    """BM25 tokens and (entity, type, count, in title) of one passage."""
    head, body = korean.analyse(passage.title, heading=True), korean.analyse(passage.text)
    counts = count_entities(head, [body])
    return (*head.tokens, *body.tokens), tuple((e.name, e.type, e.count, e.in_title) for e in counts)


def read_set_question(korean: Korean, text: str) -> QuestionReading:
    """One question through ``rag.query.features``."""
    query = Query(text=text, scope=Scope(), asked_at=ASKED_AT)
    features, analysis = read_question(query, korean, Catalogue.of((), ""), None)
    return QuestionReading(search_words(features), analysis.entities, features.segment)


def read_set(data: DataSet, cache: Path, korean: Callable[[], Korean]) -> SetReading:
    """The reading of a set, from the cache where its content, tokenizer and lexicon are the same."""
    path = cache / f"{data.name}-{data.digest}" / f"reading-{reading_version(korean())}.json.gz"
    if not path.exists():
        reader = korean()
        passages = [read_passage(reader, p) for p in tqdm(data.passages, desc=f"{data.name} 문단 읽기", unit="개")]
        asked = [read_set_question(reader, q.text) for q in tqdm(data.questions, desc="질문 읽기", unit="개")]
        kept = [[q.tokens, [[m.name, m.type, m.start, m.end] for m in q.entities], q.segment] for q in asked]
        write_whole(path, gzip.compress(json.dumps([passages, kept], ensure_ascii=False).encode("utf-8"), 4))
    passages, questions = json.loads(gzip.decompress(path.read_bytes()))
    return SetReading(
        tuple((tuple(tokens), tuple((n, t, c, bool(f)) for n, t, c, f in counts)) for tokens, counts in passages),
        tuple(_question(row) for row in questions),
    )


def _question(row: Any) -> QuestionReading:
    tokens, entities, (intent, length, hint, relation) = row
    return QuestionReading(tuple(tokens), tuple(Mention(*m) for m in entities), (intent, length, hint, relation))


def reading_version(korean: Korean) -> str:
    """File-safe name of what a reading depends on beside the set's content."""
    return f"{READING_VERSION}-{TOKENIZER_VERSION}-{korean.lexicon.digest}".replace("/", "_").replace("+", "_")
