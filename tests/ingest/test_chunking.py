"""Three levels of chunks over the same sentences: sizes, borders, parents, places and ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunking import MAX_SENTENCE, SMALL_SECTION, TOKEN_LIMITS, Chunk, _cut, chunk_document
from ingest.parsed import Block, ParsedDocument, Section
from rag.schema import Level
from rag.text import SentenceSpan

unhurried = settings(deadline=None, max_examples=150)


def split(text: str) -> list[SentenceSpan]:
    """Sentences that end with a full stop; spaces around them left out."""
    return [SentenceSpan(m.start(), m.end()) for m in re.finditer(r"[^\s.][^.]*\.?", text)]


def count_tokens(text: str) -> int:
    return len(text.split())


def sentence(n_tokens: int, word: str = "가") -> str:
    return " ".join([word] * n_tokens) + "."


def block(text: str, kind: str = "paragraph", locator: str = "") -> Block:
    return Block(kind=kind, text=text, locator=locator)  # type: ignore[arg-type]


def section(*blocks: Block | str, heading: str = "") -> Section:
    path = tuple(heading.split(" > ")) if heading else ()
    return Section(headings=path, blocks=tuple(b if isinstance(b, Block) else block(b) for b in blocks))


def chunks_of(*sections: Section, doc_id: str = "public/a.md") -> list[Chunk]:
    document = ParsedDocument(title="제목", format="md", sections=sections)
    return chunk_document(document, doc_id, split, count_tokens)


def texts(chunks: Sequence[Chunk], level: Level) -> list[str]:
    return [chunk.text for chunk in chunks if chunk.level == level]


def sizes(chunks: Sequence[Chunk], level: Level) -> list[int]:
    return [chunk.n_tokens for chunk in chunks if chunk.level == level]


def test_sizes_of_the_levels() -> None:
    chunks = chunks_of(section(*[sentence(50)] * 8))
    assert TOKEN_LIMITS == {"G1": 100, "G2": 200, "G3": 385}
    assert sizes(chunks, "G3") == [350, 50]
    assert sizes(chunks, "G2") == [200, 150, 50]
    assert sizes(chunks, "G1") == [100, 100, 100, 50, 50]


def test_a_block_is_kept_whole_while_it_fits() -> None:
    paragraph = " ".join([sentence(30)] * 3)
    assert sizes(chunks_of(section(sentence(30), paragraph)), "G1") == [30, 90]


def test_a_long_block_is_cut_between_sentences() -> None:
    chunks = chunks_of(section(" ".join(sentence(60, word) for word in "가나다라")))
    assert sizes(chunks, "G2") == [180, 60]
    assert sizes(chunks, "G1") == [60, 60, 60, 60]
    assert texts(chunks, "G1")[1] == sentence(60, "나")


def test_a_sentence_over_the_limit_is_a_chunk_of_its_own() -> None:
    chunks = chunks_of(section(sentence(10), sentence(450), sentence(10)))
    for level in ("G1", "G2", "G3"):
        assert sizes(chunks, level) == [10, 450, 10]


def test_children_lie_inside_their_parents_and_come_after_them() -> None:
    chunks = chunks_of(section(*[sentence(70, w) for w in "가나다라마바사아"]))
    seen: dict[str, Chunk] = {}
    for chunk in chunks:
        if chunk.level == "G3":
            assert chunk.parent_id is None
        else:
            assert chunk.parent_id is not None
            parent = seen[chunk.parent_id]
            assert (parent.level, chunk.level) in [("G3", "G2"), ("G2", "G1")]
            assert chunk.text in parent.text
        seen[chunk.chunk_id] = chunk
    for level in ("G1", "G2", "G3"):
        ordinals = [c.ordinal for c in chunks if c.level == level]
        assert ordinals == list(range(len(ordinals)))


def test_blocks_are_joined_by_a_line_break_sentences_as_they_stood() -> None:
    (text,) = texts(chunks_of(section("가나.  다라.", "마바.")), "G2")
    assert text == "가나.  다라.\n마바."


def test_a_row_is_one_sentence_whatever_it_holds() -> None:
    row = "동: 1동. 급액 EC: 2.4. 비고: 정상"
    (chunk,) = [c for c in chunks_of(section(block(row, "row"), block("   ", "row"))) if c.level == "G2"]
    assert [chunk.text[s.start : s.end] for s in chunk.sentences] == [row]


def test_small_neighbours_are_packed_each_under_its_heading() -> None:
    chunks = chunks_of(
        section(sentence(5), heading="일지 > 1동 토마토"),
        section(sentence(6, "나"), heading="일지 > 2동 딸기"),
        section(sentence(7, "다"), heading="일지 > 2동 딸기"),
    )
    (chunk,) = [c for c in chunks if c.level == "G2"]
    assert chunk.text == f"1동 토마토\n{sentence(5)}\n2동 딸기\n{sentence(6, '나')}\n2동 딸기\n{sentence(7, '다')}"
    assert chunk.section == "1동 토마토 / 2동 딸기 / 2동 딸기"
    assert chunk.n_tokens == 18
    assert [chunk.text[s.start : s.end] for s in chunk.sentences] == [
        sentence(5),
        sentence(6, "나"),
        sentence(7, "다"),
    ]


def test_a_section_alone_has_its_path_and_no_heading_line() -> None:
    (chunk,) = [c for c in chunks_of(section(sentence(5), heading="장 > 절")) if c.level == "G2"]
    assert (chunk.text, chunk.section) == (sentence(5), "장 > 절")


@pytest.mark.parametrize(
    ("tokens", "groups"),
    [
        ([SMALL_SECTION] * 2, 1),
        ([SMALL_SECTION, SMALL_SECTION + 1], 2),
        ([SMALL_SECTION + 1, SMALL_SECTION], 2),
        ([5, SMALL_SECTION + 1, 5], 3),
        ([50, 50, 40, 50, 50], 2),  # 140 + 60 still fit, 190 + 60 do not
    ],
)
def test_only_small_sections_are_packed(tokens: list[int], groups: int) -> None:
    chunks = chunks_of(*[section(sentence(n), heading=f"{i}절") for i, n in enumerate(tokens)])
    assert len(texts(chunks, "G3")) == groups


@pytest.mark.parametrize(
    "heading", ["출처", "참고문헌", "참고 문헌", "참고자료", "5. 출처", "2) 자료 출처", "장 > 인용문헌"]
)
def test_a_list_of_sources_is_left_out(heading: str) -> None:
    chunks = chunks_of(section(sentence(3), heading="본문"), section("농촌진흥청.", heading=heading))
    assert texts(chunks, "G2") == [sentence(3)]


@pytest.mark.parametrize("heading", ["출처가 다른 물", "원산지 출처 표시", ""])
def test_other_sections_stay(heading: str) -> None:
    assert texts(chunks_of(section(sentence(3), heading=heading)), "G2") == [sentence(3)]


@pytest.mark.parametrize(
    ("locators", "locator"),
    [
        (["3쪽", "3쪽"], "3쪽"),
        (["3쪽", "4쪽", "5쪽"], "3쪽 ~ 5쪽"),
        (["", "4쪽"], "4쪽"),
        (["", ""], ""),
    ],
)
def test_locators(locators: list[str], locator: str) -> None:
    chunks = chunks_of(section(*[block(sentence(3), locator=place) for place in locators]))
    assert [c.locator for c in chunks if c.level == "G3"] == [locator]


def test_each_part_has_its_own_locator() -> None:
    chunks = chunks_of(section(*[block(sentence(100), locator=f"{n}쪽") for n in (1, 2, 3)]))
    assert [c.locator for c in chunks if c.level == "G1"] == ["1쪽", "2쪽", "3쪽"]
    assert [c.locator for c in chunks if c.level == "G2"] == ["1쪽 ~ 2쪽", "3쪽"]


@pytest.mark.parametrize("sections", [(), (section(),), (section("   "),), (section("출처다.", heading="출처"),)])
def test_nothing_to_chunk(sections: tuple[Section, ...]) -> None:
    assert chunks_of(*sections) == []


def ids(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.chunk_id for chunk in chunks]


def test_ids_are_stable_and_change_with_text_place_and_document() -> None:
    parts = [section(sentence(100), sentence(100), sentence(100, "나"), heading="절")]
    first = chunks_of(*parts)
    assert ids(chunks_of(*parts)) == ids(first)
    assert len(set(ids(first))) == len(first)
    assert not set(ids(chunks_of(*parts, doc_id="public/b.md"))) & set(ids(first))
    changed = chunks_of(section(sentence(100), sentence(100), sentence(100, "다"), heading="절"))
    same = [a.chunk_id == b.chunk_id for a, b in zip(first, changed, strict=True)]
    assert same == [a.text == b.text for a, b in zip(first, changed, strict=True)]
    assert True in same
    assert False in same


def test_equal_texts_of_one_document_have_ids_of_their_own() -> None:
    chunks = chunks_of(section(sentence(100), sentence(100)))
    one, two = (c for c in chunks if c.level == "G1")
    assert one.text == two.text
    assert one.chunk_id != two.chunk_id


WORDS = st.sampled_from(["가", "나다", "EC 2", "라 마"])
SENTENCES = st.tuples(WORDS, st.integers(1, 130)).map(lambda pair: " ".join([pair[0]] * pair[1]) + ".")
PARAGRAPHS = st.lists(SENTENCES, min_size=1, max_size=4).map(" ".join)
BLOCKS = st.builds(
    block, PARAGRAPHS, st.sampled_from(["paragraph", "list_item", "row"]), st.sampled_from(["", "1쪽", "2쪽"])
)
SECTIONS = st.builds(
    lambda blocks, heading: section(*blocks, heading=heading),
    st.lists(BLOCKS, max_size=4),
    st.sampled_from(["", "장", "장 > 1동", "출처", "3. 참고문헌"]),
)


def expected_sentences(sections: Sequence[Section]) -> list[str]:
    """All sentences but those of the lists of sources, in reading order; one that never ends in the pieces it is cut into."""
    kept = [s for s in sections if not (s.headings and s.headings[-1] in ("출처", "3. 참고문헌"))]
    return [
        b.text[span.start : span.end]
        for s in kept
        for b in s.blocks
        for whole in ([SentenceSpan(0, len(b.text))] if b.kind == "row" else split(b.text))
        for span in _cut(b.text, whole, MAX_SENTENCE)
    ]


@unhurried
@given(st.lists(SECTIONS, max_size=5))
def test_every_sentence_is_in_exactly_one_chunk_of_each_level(sections: list[Section]) -> None:
    # numbered, so that no two sentences are alike
    numbered = [
        replace(s, blocks=tuple(replace(b, text=re.sub(r"\.", f" {i}_{j}.", b.text)) for j, b in enumerate(s.blocks)))
        for i, s in enumerate(sections)
    ]
    chunks = chunks_of(*numbered)
    expected = expected_sentences(numbered)
    for level, limit in TOKEN_LIMITS.items():
        mine = [chunk for chunk in chunks if chunk.level == level]
        assert [c.text[s.start : s.end] for c in mine for s in c.sentences] == expected
        for chunk in mine:
            assert chunk.n_tokens == sum(count_tokens(chunk.text[s.start : s.end]) for s in chunk.sentences)
            assert chunk.n_tokens <= limit or len(chunk.sentences) == 1
            assert chunk.sentences[-1].end == len(chunk.text)
            ends = [0, *(s.end for s in chunk.sentences)]
            for span, end in zip(chunk.sentences, ends):
                assert end <= span.start < span.end
                between = chunk.text[end : span.start].strip()
                assert between in {"", "장", "1동"}  # nothing but white space and headings


def test_what_never_ends_is_cut_between_cells_or_words() -> None:
    row = ", ".join(f"열{i}: {i}" for i in range(2000))
    prose = "낱말" * 3000 + " " + "가나다 " * 9000
    chunks = chunks_of(section(block(row, "row"), block(prose)))
    pieces = [c.text[s.start : s.end] for c in chunks if c.level == "G2" for s in c.sentences]
    assert max(map(len, pieces)) <= MAX_SENTENCE
    assert "".join("".join(pieces).split()) == "".join((row + prose).split())  # nothing is lost
    assert all(piece.endswith(",") for piece in pieces[: row.count(",") // 400])
