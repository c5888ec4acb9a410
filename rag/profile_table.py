"""Profile table: segment x(q) → Profile, read from one JSON file (``profiles/README.md`` documents every key).

    lookup(x) = the row that fixes most of x's four features and agrees with x in all of them, else the default

Every row is expanded over the 5 × 3 × 2 × 2 = 60 segments at load, so a lookup is one dict access. Two rows that fix
equally many features and can meet in one segment are an error at load; so is an unknown key, named with its nearest
known one. What a row does not say it inherits from ``default``, and ``default`` from the values built in here.

Quality gate at lookup: a row past its ``valid_until``, or tuned on fewer than ``min_queries`` questions, gives way to
the default. ``tuned_on: "hand"`` needs no questions and is announced in the reason.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast

from rag.errors import ProfileError
from rag.evidence import Arm, EvidenceModel
from rag.guardrails import check_feasible
from rag.schema import (
    BM25,
    CHANNELS,
    EFFORTS,
    GRAPH,
    INTENTS,
    LENGTH_BUCKETS,
    LEVELS,
    VECTOR,
    WEB,
    Effort,
    EffortRule,
    Guardrails,
    Profile,
    Quality,
    Segment,
    Walk,
    Weights,
    segment_key,
)

HAND = "hand"
MAX_TOP_K = 50

MATCH_VALUES: Mapping[str, tuple[str | bool, ...]] = {
    "intent": INTENTS,
    "query_length_bucket": LENGTH_BUCKETS,
    "entity_hint_presence": (False, True),
    "relation_hint": (False, True),
}
CHANNEL_KEYS = (*CHANNELS, WEB)
TABLE_KEYS = ("$schema", "version", "min_queries", "default", "segments", "effort", "evidence_model")
DEFAULT_KEYS = ("weights", "previous_weights", "depth", "rrf_k", "walk", "guardrails", "quality")
SEGMENT_KEYS = ("id", "match", *DEFAULT_KEYS)
WALK_KEYS = tuple(field.name for field in fields(Walk))
GUARDRAIL_KEYS = tuple(field.name for field in fields(Guardrails))
QUALITY_KEYS = tuple(field.name for field in fields(Quality))
EFFORT_KEYS = tuple(field.name for field in fields(EffortRule))
EVIDENCE_KEYS = ("scale", "arms", "quality")
ARM_KEYS = tuple(field.name for field in fields(Arm))

_SEGMENTS = cast("tuple[Segment, ...]", tuple(itertools.product(*MATCH_VALUES.values())))
_MERGED = {"depth": CHANNEL_KEYS, "walk": WALK_KEYS, "guardrails": GUARDRAIL_KEYS}
_Value = TypeVar("_Value")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

_BUILTIN: Mapping[str, Any] = {
    "version": "builtin",
    "min_queries": 20,
    "default": {
        "weights": {VECTOR: 0.4, BM25: 0.35, GRAPH: 0.25},
        "depth": {VECTOR: 100, BM25: 100, GRAPH: 100},
        "rrf_k": 20,
        "walk": {},
        "guardrails": {},
    },
    "effort": {
        "low": {"granularity": "G1", "top_k": 7},
        "medium": {"granularity": "G2", "top_k": 8},
        "high": {"granularity": "G3", "top_k": 10},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTable:
    """The profiles in force. ``rows`` as written; ``segments`` the same rows by full 4-tuple, winners only.

    ``min_queries``: smallest ``quality.n_queries`` of a tuned row or evidence model.
    """

    version: str
    min_queries: int
    default: Profile
    rows: tuple[Profile, ...]
    segments: Mapping[Segment, Profile]
    effort: Mapping[Effort, EffortRule]
    evidence_model: EvidenceModel | None = None
    evidence_quality: Quality | None = None

    def evidence(self, today: date) -> EvidenceModel | None:
        """The evidence model, where there is one that its quality lets into force on ``today``."""
        quality = self.evidence_quality
        refused = quality is not None and _refusal("evidence_model", quality, self.min_queries, today)
        return None if refused else self.evidence_model

    def lookup(self, segment: Segment, today: date) -> tuple[Profile, str]:
        """The profile for x(q) on ``today``, and why (Korean). Never raises: what is unknown gets the default."""
        row = self.segments.get(segment)
        if row is None:
            return self.default, f"질문 유형 {segment_key(segment)}에 맞는 프로필 행이 없어 기본값을 씁니다."
        refusal = _refusal(row.id, row.quality, self.min_queries, today)
        return (self.default, refusal) if refusal else (row, _origin(row))

    @staticmethod
    def builtin() -> ProfileTable:
        """The safe default that needs no file: vector .4, BM25 .35, graph .25, rrf_k 20, depth 100, no rows."""
        return parse(_BUILTIN)


def load(path: Path) -> ProfileTable:
    """The table in ``path`` (UTF-8 JSON, a byte order mark is fine).

    Raises:
        ProfileError: the file cannot be read, is not JSON, or breaks a rule; the message names the file and place.
    """
    try:
        raw = json.loads(
            path.read_text(encoding="utf-8-sig"), object_pairs_hook=_no_repeats, parse_constant=_no_constant
        )
        return parse(raw)
    except ProfileError as error:
        raise ProfileError(f"프로필 파일 {path}: {error}") from error
    except OSError as error:
        reason = "파일이 없습니다" if isinstance(error, FileNotFoundError) else error.strerror
        raise ProfileError(
            f"프로필 파일 {path}을(를) 읽을 수 없습니다({reason}). 파일의 위치와 권한을 확인해 주세요."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(
            f"프로필 파일 {path}은(는) UTF-8 JSON이 아닙니다({error}). 그 자리의 문법을 고쳐 주세요."
        ) from error


def load_or_builtin(path: Path) -> tuple[ProfileTable, str | None]:
    """The table in ``path``; where that fails the built-in one and a Korean banner that says why."""
    try:
        return load(path), None
    except ProfileError as error:
        return ProfileTable.builtin(), f"{error} 고칠 때까지 내장된 기본 프로필로 검색합니다."


def parse(raw: Any) -> ProfileTable:
    """The table in a decoded JSON document.

    Raises:
        ProfileError: an unknown or missing key, a value out of range, infeasible bounds, or tied rows.
    """
    table = _object(raw, "맨 바깥", TABLE_KEYS, required=("version", "default"))
    base = _inherit(_BUILTIN["default"], _object(table["default"], "default", DEFAULT_KEYS), "default")
    rows = _rows(table.get("segments", []), base)
    evidence, evidence_quality = _evidence_model(table.get("evidence_model"))
    return ProfileTable(
        version=_text(table["version"], "version"),
        min_queries=_integer(table.get("min_queries", _BUILTIN["min_queries"]), "min_queries", 0),
        default=_profile(base, "default", "default", {}),
        rows=rows,
        segments=_by_segment(rows),
        effort=_effort(table.get("effort", {})),
        evidence_model=evidence,
        evidence_quality=evidence_quality,
    )


# Quality gate


def _refusal(name: str, quality: Quality, min_queries: int, today: date) -> str:
    """Why what ``quality`` vouches for may not be used on ``today``; empty when it may."""
    if quality.valid_until is not None and quality.valid_until < today:
        return (
            f"'{name}' 행은 유효기간({quality.valid_until})이 지나 기본값을 씁니다(오늘 {today}). "
            "다시 맞추거나 날짜를 고쳐 주세요."
        )
    if quality.tuned_on != HAND and quality.n_queries < min_queries:
        return (
            f"'{name}' 행은 질문 {quality.n_queries}개로 맞춘 값이라(최소 {min_queries}개) 기본값을 씁니다. "
            "질문을 더 모아 다시 맞춰 주세요."
        )
    return ""


def _origin(row: Profile) -> str:
    quality = row.quality
    if quality.tuned_on == HAND:
        return f"'{row.id}' 행을 씁니다. 손으로 정한 값이며 측정으로 맞춘 값이 아닙니다."
    folds = "" if quality.cv_mean is None else f", 교차검증 {quality.cv_mean:.3f}"
    spread = "" if not folds or quality.cv_std is None else f"±{quality.cv_std:.3f}"
    return f"'{row.id}' 행을 씁니다({quality.tuned_on}, 질문 {quality.n_queries}개{folds}{spread})."


# Rows and segments


def _rows(raw: Any, base: Mapping[str, Any]) -> tuple[Profile, ...]:
    if not isinstance(raw, list):
        raise ProfileError(f"segments: {raw!r} 은(는) 목록이 아닙니다. [ ] 안에 행을 적어 주세요.")
    rows = tuple(_row(item, base, f"segments[{index}]") for index, item in enumerate(raw))
    names = [row.id for row in rows]
    for name in names:
        if name == "default" or names.count(name) > 1:
            raise ProfileError(f"segments: id '{name}'을(를) 다른 행이 이미 씁니다. 행마다 다른 이름을 붙여 주세요.")
    for first, second in itertools.combinations(rows, 2):
        _check_no_tie(first, second)
    return rows


def _row(raw: Any, base: Mapping[str, Any], where: str) -> Profile:
    row = _object(raw, where, SEGMENT_KEYS, required=("id", "match"))
    name = _text(row["id"], f"{where}.id")
    match = _match(row["match"], f"{where}.match")
    return _profile(_inherit(base, row, where), where, name, match)


def _match(raw: Any, where: str) -> dict[str, str | bool]:
    match = _object(raw, where, tuple(MATCH_VALUES))
    if not match:
        raise ProfileError(f"{where}: 조건이 없습니다. 하나 이상 적거나, 모든 질문에 쓸 값이면 default에 적어 주세요.")
    return {key: _choice(value, f"{where}.{key}", MATCH_VALUES[key]) for key, value in match.items()}


def fits(match: Mapping[str, Any], segment: Segment) -> bool:
    """Whether x(q) agrees with every condition of a row's match."""
    return all(match.get(key, value) == value for key, value in zip(MATCH_VALUES, segment, strict=True))


def _check_no_tie(first: Profile, second: Profile) -> None:
    if len(first.match) != len(second.match):
        return
    for segment in _SEGMENTS:
        if fits(first.match, segment) and fits(second.match, segment):
            raise ProfileError(
                f"segments: '{first.id}' 행과 '{second.id}' 행이 조건 {len(first.match)}개로 똑같이 "
                f"{segment_key(segment)} 질문에 맞습니다. 한쪽의 match에 조건을 더하거나 빼 주세요."
            )


def _by_segment(rows: Sequence[Profile]) -> dict[Segment, Profile]:
    by_rising_detail = sorted(rows, key=lambda row: len(row.match))
    return {segment: row for row in by_rising_detail for segment in _SEGMENTS if fits(row.match, segment)}


# One profile


def _inherit(base: Mapping[str, Any], row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """``row`` over ``base``: depth, walk and guardrails key by key, other fields whole.

    Two fields are not inherited: ``quality``, because the numbers of another row prove nothing about this one, and
    ``previous_weights`` by a row with weights of its own, because it has no last release to stay near.
    """
    merged = {key: value for key, value in base.items() if key != "quality"}
    if "weights" in row:
        merged["previous_weights"] = row["weights"]
    for key, value in row.items():
        nested = key in _MERGED
        merged[key] = {**base[key], **_object(value, f"{where}.{key}", _MERGED[key])} if nested else value
    return merged


def _profile(raw: Mapping[str, Any], where: str, name: str, match: Mapping[str, str | bool]) -> Profile:
    weights = _weights(raw["weights"], f"{where}.weights")
    rails = _guardrails(raw["guardrails"], f"{where}.guardrails")
    with _at(f"{where}.guardrails"):
        check_feasible(rails, {*CHANNELS, *weights.by_channel})
    parts: dict[str, Any] = {
        "weights": weights,
        "previous_weights": _weights(raw.get("previous_weights", raw["weights"]), f"{where}.previous_weights"),
        "depth": _by_channel(raw["depth"], f"{where}.depth", _integer),
        "rrf_k": _integer(raw["rrf_k"], f"{where}.rrf_k"),
        "walk": _walk(raw["walk"], f"{where}.walk"),
        "guardrails": rails,
        "quality": _quality(raw.get("quality", {"tuned_on": HAND}), f"{where}.quality"),
    }
    with _at(where):
        return Profile(id=name, match=match, **parts)


def _weights(raw: Any, where: str) -> Weights:
    by_channel = _by_channel(raw, where, _number)
    with _at(where):
        return Weights(by_channel)


def _walk(raw: Any, where: str) -> Walk:
    walk: dict[str, Any] = {
        key: _walk_value(key, value, f"{where}.{key}") for key, value in _object(raw, where, WALK_KEYS).items()
    }
    with _at(where):
        return Walk(**walk)


def _walk_value(key: str, value: Any, where: str) -> float | None:
    if key == "max_hops":
        return _integer(value, where)
    return _optional(value, where, _number) if key == "temperature" else _number(value, where)


def _guardrails(raw: Any, where: str) -> Guardrails:
    rails = _object(raw, where, GUARDRAIL_KEYS)
    bounds = {key: _by_channel(rails.get(key, {}), f"{where}.{key}", _number) for key in ("minimum", "maximum")}
    slew = _number(rails.get("slew", Guardrails().slew), f"{where}.slew")
    with _at(where):
        return Guardrails(minimum=bounds["minimum"], maximum=bounds["maximum"], slew=slew)


def _quality(raw: Any, where: str) -> Quality:
    quality = _object(raw, where, QUALITY_KEYS, required=("tuned_on",))
    return Quality(
        tuned_on=_text(quality["tuned_on"], f"{where}.tuned_on"),
        n_queries=_integer(quality.get("n_queries", 0), f"{where}.n_queries", 0),
        valid_until=_optional(quality.get("valid_until"), f"{where}.valid_until", _date),
        cv_mean=_optional(quality.get("cv_mean"), f"{where}.cv_mean", _number),
        cv_std=_optional(quality.get("cv_std"), f"{where}.cv_std", _number),
    )


# Table-wide parts


def _effort(raw: Any) -> dict[Effort, EffortRule]:
    given = {**_BUILTIN["effort"], **_object(raw, "effort", EFFORTS)}
    return {effort: _effort_rule(given[effort], f"effort.{effort}") for effort in EFFORTS}


def _effort_rule(raw: Any, where: str) -> EffortRule:
    rule = _object(raw, where, EFFORT_KEYS, required=EFFORT_KEYS)
    level = _choice(rule["granularity"], f"{where}.granularity", LEVELS)
    return EffortRule(granularity=level, top_k=_integer(rule["top_k"], f"{where}.top_k", 1, MAX_TOP_K))


def _evidence_model(raw: Any) -> tuple[EvidenceModel | None, Quality | None]:
    if raw is None:
        return None, None
    model = _object(raw, "evidence_model", EVIDENCE_KEYS, required=EVIDENCE_KEYS)
    arms = model["arms"]
    if not isinstance(arms, list):
        raise ProfileError(f"evidence_model.arms: {arms!r} 은(는) 목록이 아닙니다. [ ] 안에 갈래를 적어 주세요.")
    return EvidenceModel(
        scale={name: _scale(pair, f"evidence_model.scale.{name}") for name, pair in _named(model["scale"]).items()},
        arms=tuple(_arm(arm, f"evidence_model.arms[{i}]") for i, arm in enumerate(arms)),
    ), _quality(model["quality"], "evidence_model.quality")


def _named(raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise ProfileError(f"evidence_model: {raw!r} 은(는) 묶음이 아닙니다. {{ }} 로 적어 주세요.")
    return raw


def _scale(raw: Any, where: str) -> tuple[float, float]:
    if not isinstance(raw, list) or len(raw) != 2:
        raise ProfileError(f"{where}: {raw!r} 은(는) [평균, 표준편차] 가 아닙니다.")
    mean, deviation = _number(raw[0], where), _number(raw[1], where)
    if deviation <= 0:
        raise ProfileError(f"{where}: 표준편차 {deviation} 은(는) 0보다 커야 합니다.")
    return mean, deviation


def _arm(raw: Any, where: str) -> Arm:
    arm = _object(raw, where, ARM_KEYS, required=("id", "bias", "coefficients"))
    rrf_k = _optional(arm.get("rrf_k"), f"{where}.rrf_k", _integer)
    if rrf_k is not None and not 1 <= rrf_k <= 1000:
        raise ProfileError(f"{where}.rrf_k = {rrf_k} 은(는) 1~1000 이어야 합니다.")
    return Arm(
        id=_text(arm["id"], f"{where}.id"),
        weights=_optional(arm.get("weights"), f"{where}.weights", _weights),
        rrf_k=rrf_k,
        bias=_number(arm["bias"], f"{where}.bias"),
        coefficients={n: _number(c, f"{where}.coefficients.{n}") for n, c in _named(arm["coefficients"]).items()},
    )


# JSON values


def _object(raw: Any, where: str, known: Sequence[str], *, required: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ProfileError(f"{where}: {raw!r} 은(는) 묶음이 아닙니다. {{ }} 로 적어 주세요.")
    for key in raw:
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise ProfileError(
                f"{where}: '{key}' 키를 모릅니다. '{nearest}'을(를) 뜻하셨나요? 쓸 수 있는 키: {', '.join(known)}"
            )
    missing = [key for key in required if key not in raw]
    if missing:
        raise ProfileError(f"{where}: '{missing[0]}' 키가 없습니다. 적어 주세요.")
    return cast("dict[str, Any]", raw)


def _by_channel(raw: Any, where: str, read: Callable[[Any, str], _Value]) -> dict[str, _Value]:
    return {channel: read(value, f"{where}.{channel}") for channel, value in _object(raw, where, CHANNEL_KEYS).items()}


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 <= value <= 1e9:
        raise ProfileError(f"{where}: {value!r} 은(는) 쓸 수 있는 수가 아닙니다. 예: 0.4")
    return float(value)


def _integer(value: Any, where: str, least: int | None = None, most: int | None = None) -> int:
    number = _number(value, where)
    if not number.is_integer():
        raise ProfileError(f"{where}: {value!r} 은(는) 정수여야 합니다. 예: 20")
    if (least is not None and number < least) or (most is not None and number > most):
        allowed = f"{least} 이상" if most is None else f"{least}~{most}"
        raise ProfileError(f"{where}: {value!r} 은(는) 허용 범위({allowed})를 벗어났습니다.")
    return int(number)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ProfileError(f"{where}: {value!r} 은(는) 글자가 아니거나 비어 있습니다. 따옴표 안에 적어 주세요.")
    return value


def _choice(value: Any, where: str, allowed: Sequence[_Value]) -> _Value:
    for option in allowed:
        if type(value) is type(option) and value == option:
            return option
    options = ", ".join(json.dumps(option) for option in allowed)
    raise ProfileError(f"{where}: {value!r} 은(는) 쓸 수 없는 값입니다. 쓸 수 있는 값: {options}")


def _date(value: Any, where: str) -> date:
    try:
        if isinstance(value, str) and _ISO_DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ProfileError(f"{where}: {value!r} 은(는) 날짜가 아닙니다. 예: 2027-03-31")


def _optional(value: Any, where: str, read: Callable[[Any, str], _Value]) -> _Value | None:
    return None if value is None else read(value, where)


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Prefix the message of a noun's own check with its place in the file."""
    try:
        yield
    except ProfileError as error:
        raise ProfileError(f"{where}: {error}") from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ProfileError(f"'{key}' 키가 한 묶음에 두 번 나옵니다. 하나만 남겨 주세요.")
        seen[key] = value
    return seen


def _no_constant(name: str) -> float:
    raise ProfileError(f"{name} 은(는) 쓸 수 없는 수입니다. 유한한 수로 고쳐 주세요.")
