"""Profile table: lookup, inheritance, quality gate, loader errors, and agreement with ``profiles/schema.json``."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag import profile_table
from rag.errors import ProfileError
from rag.profile_table import ProfileTable, load, load_or_builtin, parse
from rag.schema import (
    BM25,
    CHANNELS,
    EFFORTS,
    GRAPH,
    INTENTS,
    LENGTH_BUCKETS,
    LEVELS,
    VECTOR,
    EffortRule,
    Guardrails,
    Segment,
    Walk,
)

FOLDER = Path(__file__).parents[2] / "profiles"
IN_FORCE: dict[str, Any] = json.loads((FOLDER / "profiles.v1.json").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker(["date"]))
TODAY = date(2026, 12, 1)
ALL_SEGMENTS: list[Segment] = list(itertools.product(INTENTS, LENGTH_BUCKETS, (False, True), (False, True)))
HAND = {"tuned_on": "hand"}
unhurried = settings(deadline=None)  # a busy machine is not a failure


def table(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A small document: a default and ``rows``."""
    default = {"weights": {VECTOR: 0.5, BM25: 0.3, GRAPH: 0.2}, "rrf_k": 12, "quality": HAND}
    return {"version": "test", "default": default, "segments": list(rows), **more}


def row(name: str = "row", **more: Any) -> dict[str, Any]:
    """A row that says nothing but its name and a match."""
    return {"id": name, "match": {"intent": "comparison"}, **more}


COMPARISON: Segment = ("comparison", "short", False, False)


# The file in force


def test_file_in_force_loads_and_every_row_serves_its_segments() -> None:
    loaded, banner = load_or_builtin(FOLDER / "profiles.v1.json")
    assert banner is None
    assert loaded.version == IN_FORCE["version"]
    assert {profile.id for profile in loaded.segments.values()} == {row.id for row in loaded.rows}
    assert all(loaded.lookup(segment, TODAY)[0] is row for segment, row in loaded.segments.items())  # none is held back
    for profile in (loaded.default, *loaded.rows):
        assert profile.quality.tuned_on == "hand" or profile.quality.cv_mean is not None
        assert profile.guardrails == Guardrails(slew=0.5)
        assert max(abs(profile.weights[c] - profile.previous_weights[c]) for c in CHANNELS) <= 0.5


def test_changelog_names_the_version_in_force_and_every_row() -> None:
    text = (FOLDER / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {IN_FORCE['version']}" in text
    assert all(f"`{segment['id']}`" in text for segment in IN_FORCE["segments"])


def test_readme_documents_every_key() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    names = (
        *profile_table.TABLE_KEYS,
        *profile_table.SEGMENT_KEYS,
        *profile_table.MATCH_VALUES,
        *profile_table.WALK_KEYS,
        *profile_table.GUARDRAIL_KEYS,
        *profile_table.QUALITY_KEYS,
        *profile_table.EFFORT_KEYS,
        *profile_table.CHANNEL_KEYS,
    )
    assert [name for name in names if f"`{name}`" not in text] == []


# The built-in table


def test_builtin() -> None:
    builtin = ProfileTable.builtin()
    assert builtin.default.weights.by_channel == {VECTOR: 0.4, BM25: 0.35, GRAPH: 0.25}
    assert builtin.default.rrf_k == 20
    assert builtin.default.depth == {VECTOR: 100, BM25: 100, GRAPH: 100}
    assert builtin.default.walk == Walk()
    assert builtin.effort == {
        "low": EffortRule(granularity="G1", top_k=7),
        "medium": EffortRule(granularity="G2", top_k=8),
        "high": EffortRule(granularity="G3", top_k=10),
    }
    assert builtin.segments == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "파일이 없습니다"),
        (b"", "JSON이 아닙니다"),
        (b'{"version": "1", ', "JSON이 아닙니다"),
        (b"\xff\xfe\x00", "JSON이 아닙니다"),
        (b"[" * 100_000, "JSON이 아닙니다"),
        (b"[]", "묶음이 아닙니다"),
        (b'{"version": "1", "default": {"rrf_k": NaN}}', "NaN"),
        (b'{"version": "1", "default": {}, "default": {}}', "'default' 키가 한 묶음에 두 번"),
    ],
)
def test_a_missing_or_corrupt_file_gives_the_builtin_and_a_banner(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "profiles.v1.json"
    if content is not None:
        path.write_bytes(content)
    loaded, banner = load_or_builtin(path)
    assert loaded == ProfileTable.builtin()
    assert banner is not None
    assert says in banner
    assert str(path) in banner
    assert "기본 프로필로 검색합니다" in banner
    with pytest.raises(ProfileError, match="프로필 파일"):
        load(path)


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    assert "읽을 수 없습니다" in (load_or_builtin(tmp_path)[1] or "")


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps(IN_FORCE), encoding="utf-8-sig")
    assert load(path) == load(FOLDER / "profiles.v1.json")


# Lookup


def test_most_specific_row_wins_whatever_the_order() -> None:
    rows = [
        row("one", match={"intent": "factual"}),
        row("two", match={"intent": "factual", "relation_hint": True}),
        row("three", match={"intent": "factual", "relation_hint": True, "query_length_bucket": "long"}),
    ]
    for ordered in itertools.permutations(rows):
        loaded = parse(table(*ordered))
        assert loaded.lookup(("factual", "long", False, True), TODAY)[0].id == "three"
        assert loaded.lookup(("factual", "short", False, True), TODAY)[0].id == "two"
        assert loaded.lookup(("factual", "short", False, False), TODAY)[0].id == "one"
        assert loaded.lookup(("procedural", "short", False, False), TODAY)[0].id == "default"


def test_false_is_a_condition_not_an_absence() -> None:
    loaded = parse(table(row(match={"relation_hint": False})))
    assert len(loaded.segments) == 30
    assert all(segment[3] is False for segment in loaded.segments)


def test_a_segment_without_a_row_says_so() -> None:
    profile, reason = parse(table()).lookup(COMPARISON, TODAY)
    assert profile.id == "default"
    assert reason == "질문 유형 comparison|short|value:-|relation:-에 맞는 프로필 행이 없어 기본값을 씁니다."


matches = st.fixed_dictionaries(
    {},
    optional={
        "intent": st.sampled_from(INTENTS),
        "query_length_bucket": st.sampled_from(LENGTH_BUCKETS),
        "entity_hint_presence": st.booleans(),
        "relation_hint": st.booleans(),
    },
).filter(bool)


@unhurried
@given(st.lists(matches, max_size=5))
def test_lookup_agrees_with_a_plain_scan_and_ties_are_refused(conditions: list[dict[str, Any]]) -> None:
    rows = [row(f"r{i}", match=match) for i, match in enumerate(conditions)]

    def fitting(segment: Segment) -> list[dict[str, Any]]:
        x = dict(zip(profile_table.MATCH_VALUES, segment, strict=True))
        return [r for r in rows if r["match"].items() <= x.items()]

    sizes = [[len(r["match"]) for r in fitting(segment)] for segment in ALL_SEGMENTS]
    if any(len(set(s)) < len(s) for s in sizes):
        with pytest.raises(ProfileError, match="똑같이"):
            parse(table(*rows))
        return
    loaded = parse(table(*rows))
    for segment in ALL_SEGMENTS:
        expected = max(fitting(segment), key=lambda r: len(r["match"]), default={"id": "default"})
        assert loaded.lookup(segment, TODAY)[0].id == expected["id"]


def test_a_tie_names_both_rows_and_a_shared_segment() -> None:
    rows = (row("가", match={"intent": "relational"}), row("나", match={"relation_hint": True}))
    cover = row("덮개", match={"intent": "relational", "relation_hint": True})
    for tied in (rows, (*rows, cover)):
        with pytest.raises(ProfileError, match=r"'가'.*'나'.*relational\|short\|value:-\|relation:\+"):
            parse(table(*tied))


# Quality gate


@pytest.mark.parametrize(
    ("quality", "used", "says"),
    [
        (HAND, "row", "손으로 정한 값이며 측정으로 맞춘 값이 아닙니다"),
        ({"tuned_on": "farm", "n_queries": 20}, "row", "(farm, 질문 20개)"),
        ({"tuned_on": "farm", "n_queries": 19}, "default", "질문 19개로 맞춘 값이라(최소 20개)"),
        ({"tuned_on": "farm"}, "default", "질문 0개"),
        ({"tuned_on": "farm", "n_queries": 50, "valid_until": "2026-12-01"}, "row", "질문 50개"),
        ({"tuned_on": "farm", "n_queries": 50, "valid_until": "2026-11-30"}, "default", "유효기간(2026-11-30)이 지나"),
        ({**HAND, "valid_until": "2026-11-30"}, "default", "유효기간(2026-11-30)이 지나"),
        ({"tuned_on": "farm", "n_queries": 50, "cv_mean": 0.8126}, "row", "교차검증 0.813)"),
        ({"tuned_on": "farm", "n_queries": 50, "cv_mean": 0.8, "cv_std": 0.02}, "row", "교차검증 0.800±0.020)"),
        (None, "row", "손으로"),
    ],
)
def test_quality_gate(quality: dict[str, Any] | None, used: str, says: str) -> None:
    given_row = row() if quality is None else row(quality=quality)
    profile, reason = parse(table(given_row)).lookup(COMPARISON, TODAY)
    assert profile.id == used
    assert says in reason


def test_min_queries_belongs_to_the_table() -> None:
    tuned = row(quality={"tuned_on": "farm", "n_queries": 5})
    assert parse(table(tuned, min_queries=5)).lookup(COMPARISON, TODAY)[0].id == "row"
    assert parse(table(tuned, min_queries=6)).lookup(COMPARISON, TODAY)[0].id == "default"


def test_an_expired_row_does_not_uncover_a_wider_one() -> None:
    # The gate gives way to the default, not to the next best row, so one reason explains one decision.
    narrow = row("narrow", match={"intent": "comparison", "relation_hint": False},
                 quality={**HAND, "valid_until": "2020-01-01"})  # fmt: skip
    assert parse(table(row("wide"), narrow)).lookup(COMPARISON, TODAY)[0].id == "default"


def test_numbers_of_the_default_do_not_vouch_for_a_row() -> None:
    document = table(row())
    document["default"]["quality"] = {"tuned_on": "farm", "n_queries": 900}
    assert parse(document).rows[0].quality.tuned_on == "hand"


# Inheritance


def test_missing_fields_come_from_the_default() -> None:
    document = table(row(depth={GRAPH: 40}, walk={"max_hops": 1}, guardrails={"slew": 0.2}))
    document["default"] |= {
        "depth": {BM25: 60},
        "walk": {"restart": 0.5, "temperature": None},
        "guardrails": {"maximum": {GRAPH: 0.7}},
    }
    loaded = parse(document)
    assert loaded.rows[0].weights == loaded.default.weights
    assert loaded.rows[0].rrf_k == 12
    assert loaded.rows[0].depth == {VECTOR: 100, BM25: 60, GRAPH: 40}
    assert loaded.rows[0].walk == Walk(max_hops=1, restart=0.5, temperature=None)
    assert loaded.rows[0].guardrails == Guardrails(maximum={GRAPH: 0.7}, slew=0.2)
    assert loaded.default.depth == {VECTOR: 100, BM25: 60, GRAPH: 100}


def test_previous_weights() -> None:
    own, last = {BM25: 1.0}, {GRAPH: 1.0}
    document = table(row("a", weights=own), row("b", match={"intent": "factual"}, weights=own, previous_weights=last),
                     row("c", match={"intent": "procedural"}))  # fmt: skip
    document["default"]["previous_weights"] = {VECTOR: 1.0}
    a, b, c = parse(document).rows
    assert a.previous_weights.by_channel == own
    assert b.previous_weights.by_channel == last
    assert (c.weights, c.previous_weights.by_channel) == (parse(document).default.weights, {VECTOR: 1.0})


def test_an_empty_default_is_the_builtin_one() -> None:
    loaded = parse({"version": "1", "default": {}})
    builtin = ProfileTable.builtin()
    assert (loaded.default, loaded.effort, loaded.min_queries) == (builtin.default, builtin.effort, builtin.min_queries)


def test_effort_levels_left_out_keep_their_rule() -> None:
    loaded = parse(table(effort={"low": {"granularity": "G2", "top_k": 5}}))
    assert loaded.effort["low"] == EffortRule(granularity="G2", top_k=5)
    assert loaded.effort["high"] == EffortRule(granularity="G3", top_k=10)


def test_no_evidence_model_is_needed() -> None:
    assert parse(table()).evidence(TODAY) is None


# Errors. A rule that one value breaks is also in schema.json; a rule between values is not (see ``CROSS``).

ALONE: list[tuple[dict[str, Any], str]] = [
    (table(segment=[]), r"맨 바깥: 'segment' 키를 모릅니다. 'segments'"),
    (table(row(rrfk=10)), r"segments\[0\]: 'rrfk' 키를 모릅니다. 'rrf_k'"),
    (table(row(walk={"max_hop": 2})), r"segments\[0\]\.walk: 'max_hop' 키를 모릅니다. 'max_hops'"),
    (table(row(weights={"dense_text": 1.0})), r"'dense_text' 키를 모릅니다. 'vector_dense_text'"),
    (table(row(match={"relation": True})), r"match: 'relation' 키를 모릅니다. 'relation_hint'"),
    (table(row(guardrails={"max": {}})), r"guardrails: 'max' 키를 모릅니다"),
    (table(row(guardrails={"minimum": {"grap": 0.1}})), r"minimum: 'grap' 키를 모릅니다. 'graph'"),
    (table(row(quality={"tuned_on": "hand", "n_query": 3})), r"quality: 'n_query' 키를 모릅니다. 'n_queries'"),
    (table(effort={"hi": {}}), r"effort: 'hi' 키를 모릅니다. 'high'"),
    (table(effort={"low": {"granularity": "G1", "topk": 7}}), r"'topk' 키를 모릅니다. 'top_k'"),
    ({"version": "1"}, r"'default' 키가 없습니다"),
    ({"default": {}}, r"'version' 키가 없습니다"),
    (table({"id": "x"}), r"segments\[0\]: 'match' 키가 없습니다"),
    (table({"match": {"intent": "factual"}}), r"'id' 키가 없습니다"),
    (table(row(quality={})), r"'tuned_on' 키가 없습니다"),
    (table(effort={"low": {"top_k": 7}}), r"'granularity' 키가 없습니다"),
    (table(version=1), r"version: 1 은"),
    (table(row(" ")), r"segments\[0\]\.id: ' ' 은"),
    (table(row(match={})), r"match: 조건이 없습니다"),
    (table(row(match={"intent": "fact"})), r"match\.intent: 'fact' .*\"factual\""),
    (table(row(match={"relation_hint": 1})), r"relation_hint: 1 .*false, true"),
    (table(row(match={"intent": True})), r"intent: True"),
    (table(row(match=["factual"])), r"match: .* 묶음이 아닙니다"),
    (table(segments={}), r"segments: \{\} 은\(는\) 목록이 아닙니다"),
    (table(row(weights={GRAPH: "1"})), r"weights\.graph: '1' 은\(는\) 쓸 수 있는 수가 아닙니다"),
    (table(row(weights={GRAPH: True})), r"weights\.graph: True"),
    (table(row(weights={GRAPH: -0.5, BM25: 1.0})), r"weights: .*0 이상"),
    (table(row(weights={GRAPH: -0.5, BM25: 1.5})), r"weights: .*0 이상"),
    (table(row(weights={})), r"weights: .*합이 0\.0000"),
    (table(row(previous_weights={GRAPH: 2})), r"previous_weights: .*합이 2\.0000"),
    (table(row(rrf_k=0)), r"segments\[0\]: 프로필 row: rrf_k = 0"),
    (table(row(rrf_k=1001)), r"rrf_k = 1001"),
    (table(row(rrf_k=1.5)), r"rrf_k: 1\.5 은\(는\) 정수"),
    (table(row(rrf_k=None)), r"rrf_k: None"),
    (table(row(depth={GRAPH: 9})), r"depth\[graph\] = 9"),
    (table(row(depth=100)), r"depth: 100 은\(는\) 묶음이 아닙니다"),
    (table(row(walk={"max_hops": 4})), r"walk: walk\.max_hops = 4"),
    (table(row(walk={"max_hops": 1.5})), r"max_hops: 1\.5 은\(는\) 정수"),
    (table(row(walk={"temperature": 0})), r"temperature = 0"),
    (table(row(walk={"restart": None})), r"restart: None"),
    (table(row(walk={"restart": 0})), r"restart = 0"),
    (table(row(walk={"dense_mass": -1})), r"dense_mass = -1"),
    (table(row(walk={"relation_share": 1})), r"relation_share = 1"),
    (table(row(guardrails={"slew": 0})), r"slew = 0"),
    (table(row(guardrails={"minimum": {GRAPH: -0.1}})), r"최소 -0\.1"),
    (table(row(guardrails={"maximum": {GRAPH: 1.1}})), r"최대 1\.1"),
    (table(row(quality={"tuned_on": ""})), r"tuned_on: '' 은"),
    (table(row(quality={**HAND, "n_queries": -1})), r"n_queries: -1 은\(는\) 허용 범위\(0 이상\)"),
    (table(row(quality={**HAND, "valid_until": "2026-02-30"})), r"'2026-02-30' 은\(는\) 날짜가 아닙니다"),
    (table(row(quality={**HAND, "valid_until": "20260228"})), r"'20260228' 은\(는\) 날짜가 아닙니다"),
    (table(row(quality={**HAND, "cv_mean": "high"})), r"cv_mean: 'high'"),
    (table(effort={"low": {"granularity": "G4", "top_k": 7}}), r"granularity: 'G4' .*\"G1\""),
    (table(effort={"low": {"granularity": "G1", "top_k": 0}}), r"top_k: 0 은\(는\) 허용 범위\(1~50\)"),
    (table(effort={"low": {"granularity": "G1", "top_k": 51}}), r"top_k: 51"),
    (table(min_queries=-1), r"min_queries: -1"),
    (table(evidence_model=[]), r"evidence_model: \[\]"),
]

CROSS: list[tuple[dict[str, Any], str]] = [
    (table(row(weights={GRAPH: 0.5, BM25: 0.4})), r"segments\[0\]\.weights: .*합이 0\.9000"),
    (table(row(guardrails={"maximum": dict.fromkeys(CHANNELS, 0.3)})), r"guardrails: .*최대값의 합이 0\.9000"),
    (table(row(guardrails={"minimum": dict.fromkeys(CHANNELS, 0.4)})), r"최소값의 합이 1을 넘습니다"),
    (table(row(guardrails={"minimum": {GRAPH: 0.4}, "maximum": {GRAPH: 0.3}})), r"최소 0\.4, 최대 0\.3"),
    (table(row("같음"), row("같음", match={"intent": "factual"})), r"id '같음'"),
    (table(row("default")), r"id 'default'"),
    (table(row("a"), row("b")), r"'a' 행과 'b' 행"),
]


@pytest.mark.parametrize(("document", "says"), ALONE + CROSS)
def test_errors_name_the_place_and_the_value(document: dict[str, Any], says: str) -> None:
    with pytest.raises(ProfileError, match=says):
        parse(document)


def test_an_error_in_the_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "표.json"
    path.write_text(json.dumps(table(row(rrfk=1))), encoding="utf-8")
    with pytest.raises(ProfileError, match=r"표\.json: segments\[0\]: 'rrfk'"):
        load(path)


# Agreement with schema.json


def valid(document: Any) -> bool:
    return bool(VALIDATOR.is_valid(document))


def test_schema_is_a_schema_and_accepts_the_file_in_force() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(IN_FORCE)


def test_schema_knows_the_same_keys_and_values() -> None:
    defs = SCHEMA["$defs"]
    assert list(SCHEMA["properties"]) == list(profile_table.TABLE_KEYS)
    assert list(SCHEMA["properties"]["default"]["properties"]) == list(profile_table.DEFAULT_KEYS)
    assert list(SCHEMA["properties"]["effort"]["properties"]) == list(EFFORTS)
    for name, keys in {
        "segment": profile_table.SEGMENT_KEYS,
        "match": profile_table.MATCH_VALUES,
        "walk": profile_table.WALK_KEYS,
        "guardrails": profile_table.GUARDRAIL_KEYS,
        "quality": profile_table.QUALITY_KEYS,
        "effort_rule": profile_table.EFFORT_KEYS,
        "shares": profile_table.CHANNEL_KEYS,
        "depth": profile_table.CHANNEL_KEYS,
    }.items():
        assert list(defs[name]["properties"]) == list(keys), name
    assert defs["match"]["properties"]["intent"]["enum"] == list(INTENTS)
    assert defs["match"]["properties"]["query_length_bucket"]["enum"] == list(LENGTH_BUCKETS)
    assert defs["effort_rule"]["properties"]["granularity"]["enum"] == list(LEVELS)
    assert defs["effort_rule"]["properties"]["top_k"]["maximum"] == profile_table.MAX_TOP_K


@pytest.mark.parametrize("document", [document for document, _ in ALONE])
def test_schema_refuses_what_the_loader_refuses(document: dict[str, Any]) -> None:
    assert not valid(document)


@pytest.mark.parametrize("document", [document for document, _ in CROSS])
def test_rules_between_values_are_the_loaders_alone(document: dict[str, Any]) -> None:
    assert valid(document)


FULL = copy.deepcopy(IN_FORCE)
FULL["evidence_model"] = {
    "scale": {"dense_top": [0.8, 0.1]},
    "arms": [
        {"id": "profile", "bias": 0.0, "coefficients": {"dense_top": 0.0}},
        {"id": "a", "weights": {BM25: 1.0}, "rrf_k": 5, "bias": 0.1, "coefficients": {"dense_top": 1.0}},
    ],
    "quality": {"tuned_on": "farm", "n_queries": 30},
}
FULL["default"]["quality"] |= {"n_queries": 30, "valid_until": "2027-03-31", "cv_mean": 0.8, "cv_std": None}
FULL["segments"][0]["previous_weights"] = {VECTOR: 0.5, BM25: 0.5, GRAPH: 0}
FULL["segments"][0]["guardrails"] = {"minimum": {GRAPH: 0}, "maximum": {VECTOR: 1}}
VALUES: list[Any] = [None, True, "", "x", -1, 0, 0.5, 1, 2, 15, 1001, [], {}, {"x": 1}, "2026-01-01"]
BETWEEN_VALUES = ("합이", "똑같이", "이미 씁니다", "최소 ≤ 최대", "scale 에 없습니다", "첫 갈래는")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values below ``node``."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    document = copy.deepcopy(FULL)
    node = document
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1])
    return document


def check_same_verdict(document: Any) -> None:
    """The loader accepts only what the schema accepts, and refuses no more than the rules between values."""
    refusal = refusal_of(document)
    if refusal is None:
        VALIDATOR.validate(document)
    elif valid(document):
        assert any(rule in refusal for rule in BETWEEN_VALUES), refusal


def refusal_of(document: Any) -> str | None:
    try:
        parse(document)
    except ProfileError as error:
        return str(error)
    return None


@pytest.mark.parametrize("path", list(places(FULL)), ids=lambda path: ".".join(map(str, path)))
def test_one_change_gets_the_same_verdict_from_loader_and_schema(path: tuple[Any, ...]) -> None:
    check_same_verdict(changed(path, lambda node, key: node.pop(key)))
    for value in VALUES:
        check_same_verdict(changed(path, lambda node, key, value=value: node.__setitem__(key, value)))  # type: ignore[misc]


some_keys = st.sampled_from([*profile_table.SEGMENT_KEYS, *CHANNELS])
some_json = st.recursive(
    st.sampled_from(VALUES) | st.floats(-2, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(some_keys, inner, max_size=4),
)


@unhurried
@given(st.dictionaries(st.sampled_from(profile_table.DEFAULT_KEYS), some_json, max_size=3))
def test_any_json_in_a_row_gets_the_same_verdict(fields: dict[str, Any]) -> None:
    check_same_verdict(table(row(**fields)))
