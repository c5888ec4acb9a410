"""Levels of an encoder: the refusal formula, and files that cannot serve."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.ranking import SIGNS
from rag.answering.calibration import RefusalModel, Relevance, SentenceWeights, Support, load_calibration
from rag.errors import ProfileError
from rag.settings import ROOT

FEATURES = [field.name for field in fields(Support)]
PARTS = [field.name for field in fields(RefusalModel)]
SENTENCES = [field.name for field in fields(SentenceWeights)]
NUMBERS = st.lists(st.floats(-5, 5), min_size=len(FEATURES), max_size=len(FEATURES))


def model(weights: dict[str, float], *, bias: float = 0.0) -> RefusalModel:
    return RefusalModel(**{name: 0.0 for name in PARTS} | weights | {"bias": bias, "threshold": 0.5})


def support(**values: float) -> Support:
    return Support(**{name: 0.0 for name in FEATURES} | values)


def levels() -> dict[str, Any]:
    return {
        "citation_threshold": 0.87,
        "citation_coverage": 0.6,
        "sentences": {name: n / 2 for n, name in enumerate(SENTENCES)},
        "refusal": {"documents": {name: 0.25 for name in PARTS}, "records": {name: 0.75 for name in PARTS}},
    }


def without(*path: str) -> dict[str, Any]:
    """The levels but for one."""
    found = levels()
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return found


def file_with(folder: Path, content: object) -> Path:
    path = folder / "answering.v1.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@given(NUMBERS, NUMBERS, st.floats(-5, 5))
def test_probability_is_the_formula(weights: list[float], values: list[float], bias: float) -> None:
    z = bias + math.fsum(w * x for w, x in zip(weights, values, strict=True))
    found = model(dict(zip(FEATURES, weights)), bias=bias).probability(support(**dict(zip(FEATURES, values))))
    assert found == pytest.approx(1 / (1 + math.exp(-max(-60, min(60, z)))))


def test_probability_by_hand() -> None:
    name = FEATURES[0]
    assert model({}).probability(support()) == 0.5
    assert model({}, bias=1.0).probability(support()) == pytest.approx(0.7310586)
    assert model({name: 2.0}, bias=-1.0).probability(support(**{name: 1.0})) == pytest.approx(0.7310586)
    assert model({name: -2.0}, bias=1.0).probability(support(**{name: 1.0})) == pytest.approx(0.2689414)


@pytest.mark.parametrize("bias", [-1e9, 1e9])
def test_no_overflow(bias: float) -> None:
    assert 0 < model({}, bias=bias).probability(support()) + 1e-30 <= 1 + 1e-30


def test_every_feature_has_a_weight() -> None:
    assert set(PARTS) == {*FEATURES, "bias", "threshold"}


def test_a_file_is_read(tmp_path: Path) -> None:
    found = load_calibration(file_with(tmp_path, {"encoders": {"e": levels()}}), "e")
    assert (found.encoder, found.citation_threshold, found.citation_coverage) == ("e", 0.87, 0.6)
    assert found.refusal == RefusalModel(**dict.fromkeys(PARTS, 0.25))
    assert found.record_refusal == RefusalModel(**dict.fromkeys(PARTS, 0.75))
    assert found.sentences == SentenceWeights(**{name: n / 2 for n, name in enumerate(SENTENCES)})
    assert found.relevance is None
    fitted = levels() | {"relevance": {"high": 0.9, "usual": 0.8, "tuned_on": "a set"}}
    found = load_calibration(file_with(tmp_path, {"encoders": {"e": fitted}}), "e")
    assert found.relevance == Relevance(high=0.9, usual=0.8)


def test_with_a_cross_encoder_its_own_levels_take_the_place_of_the_others(tmp_path: Path) -> None:
    own = {
        "sentences": {name: n + 1.0 for n, name in enumerate(SENTENCES)},
        "refusal": {"documents": dict.fromkeys(PARTS, 0.5)},
    }
    path = file_with(tmp_path, {"encoders": {"e": levels() | {"reranked": own}, "f": levels()}})
    found = load_calibration(path, "e", reranked=True)
    assert found.sentences == SentenceWeights(**own["sentences"])
    assert found.refusal == RefusalModel(**dict.fromkeys(PARTS, 0.5))
    assert found.record_refusal == RefusalModel(**dict.fromkeys(PARTS, 0.75))
    assert found.citation_threshold == 0.87
    assert load_calibration(path, "e").sentences == load_calibration(path, "f", reranked=True).sentences
    assert load_calibration(path, "e").refusal == RefusalModel(**dict.fromkeys(PARTS, 0.25))


def test_the_shipped_file_serves_the_shipped_encoder() -> None:
    path = ROOT / "profiles" / "answering.v1.json"
    for encoder in json.loads(path.read_text(encoding="utf-8"))["encoders"]:
        found = load_calibration(path, encoder)
        assert 0 < found.citation_threshold < 1
        assert 0 < found.citation_coverage < 1
        assert 0 < found.refusal.threshold < 1
        assert 0 < found.record_refusal.threshold < 1
        for name, weight in asdict(found.sentences).items():
            assert weight * SIGNS[name] >= 0, name
        assert min(found.sentences.similarity, found.sentences.passage, found.sentences.record) > 0


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    path = file_with(tmp_path, {"encoders": {"one": levels(), "two": levels()}})
    with pytest.raises(ProfileError) as raised:
        load_calibration(path, "three")
    for words in ("answering.v1.json", "'three'", "one, two", "python -m eval "):
        assert words in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"encoders": None},
        {"encoders": {"e": None}},
        {"encoders": {"e": {"citation_threshold": 0.9}}},
        {"encoders": {"e": levels() | {"citation_threshold": "high"}}},
        {"encoders": {"e": without("citation_coverage")}},
        {"encoders": {"e": without("sentences")}},
        *({"encoders": {"e": without("sentences", name)}} for name in SENTENCES),
        {"encoders": {"e": levels() | {"sentences": levels()["sentences"] | {"house": None}}}},
        {"encoders": {"e": levels() | {"sentences": [1.0] * len(SENTENCES)}}},
        {"encoders": {"e": levels() | {"refusal": levels()["refusal"]["documents"]}}},
        {"encoders": {"e": without("refusal", "records")}},
        {"encoders": {"e": without("refusal", "documents", "said")}},
        {"encoders": {"e": without("refusal", "records", "threshold")}},
        {"encoders": {"e": levels() | {"relevance": {"high": 0.9}}}},
        {"encoders": {"e": levels() | {"refusal": levels()["refusal"] | {"records": {n: None for n in PARTS}}}}},
    ],
)
def test_a_corrupt_file_is_named(tmp_path: Path, content: object) -> None:
    path = file_with(tmp_path, content)
    with pytest.raises(ProfileError) as raised:
        load_calibration(path, "e")
    assert str(path) in str(raised.value)
    assert "원래 파일로 되돌려 주세요" in str(raised.value)


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff\xfe"])
def test_a_file_that_is_no_json(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "answering.v1.json"
    with pytest.raises(ProfileError, match="읽을 수 없습니다"):
        load_calibration(path, "e")
    path.write_bytes(raw)
    with pytest.raises(ProfileError, match="읽을 수 없습니다"):
        load_calibration(path, "e")
