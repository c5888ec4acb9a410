"""Who and what the two demo farms are: houses, crop cycles, people. Nothing random here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from ingest.sample.korean import Style

FIRST_DAY = date(2024, 12, 1)
LAST_DAY = date(2026, 11, 30)

Stage = Literal["휴작", "준비", "활착", "생육", "수확", "마무리"]


@dataclass(frozen=True, slots=True)
class Cycle:
    """One planting: transplanted, first picking, cleared."""

    planted: date
    first_harvest: date
    ended: date


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A greenhouse and the level its figures move around."""

    name: str
    crop: str
    cultivar: str
    area_m2: int
    cycles: tuple[Cycle, ...]
    ec_start: float
    ec_low: float
    ec_high: float
    drain_base: float
    drain_ec_gap: float
    litres_per_m2: float
    daily_kg: float
    grade_share: tuple[float, float]
    day_temp: float
    night_temp: float

    @property
    def label(self) -> str:
        """House with its crop, as staff write it."""
        return f"{self.name} {self.crop}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """A farm: its houses, and its authors with the style each writes in."""

    farm_id: str
    name: str
    houses: tuple[House, ...]
    authors: tuple[tuple[str, Style, int], ...]
    vendor: str
    technicians: tuple[str, ...]

    def house(self, name: str) -> House:
        """The house called `name`; `KeyError` if the farm has none."""
        for house in self.houses:
            if house.name == name:
                return house
        raise KeyError(f"{self.name}: no house {name!r}")


def _cycle(planted: str, first_harvest: str, ended: str) -> Cycle:
    return Cycle(*(date.fromisoformat(day) for day in (planted, first_harvest, ended)))


_TOMATO_LONG = (
    _cycle("2024-08-27", "2024-11-12", "2025-07-08"),
    _cycle("2025-08-26", "2025-11-11", "2026-07-07"),
    _cycle("2026-08-25", "2026-11-10", "2027-07-06"),
)
_TOMATO_LATE = (
    _cycle("2024-10-22", "2025-01-10", "2025-07-25"),
    _cycle("2025-10-21", "2026-01-09", "2026-07-24"),
    _cycle("2026-10-20", "2027-01-08", "2027-07-23"),
)
_STRAWBERRY_EARLY = (
    _cycle("2024-09-10", "2024-12-03", "2025-05-30"),
    _cycle("2025-09-09", "2025-12-02", "2026-05-29"),
    _cycle("2026-09-08", "2026-12-01", "2027-05-28"),
)
_STRAWBERRY_LATE = (
    _cycle("2024-09-20", "2024-12-13", "2025-05-23"),
    _cycle("2025-09-19", "2025-12-12", "2026-05-22"),
    _cycle("2026-09-18", "2026-12-11", "2027-05-21"),
)
_PAPRIKA = (
    _cycle("2024-08-20", "2024-11-15", "2025-07-15"),
    _cycle("2025-08-19", "2025-11-14", "2026-07-14"),
    _cycle("2026-08-18", "2026-11-13", "2027-07-13"),
)
_CUCUMBER = (
    _cycle("2024-08-30", "2024-10-01", "2025-01-10"),
    _cycle("2025-02-04", "2025-03-11", "2025-07-11"),
    _cycle("2025-08-29", "2025-09-30", "2026-01-09"),
    _cycle("2026-02-03", "2026-03-10", "2026-07-10"),
    _cycle("2026-08-28", "2026-09-29", "2027-01-08"),
)
_TOMATO_PUREUN = (
    _cycle("2024-09-03", "2024-11-26", "2025-06-27"),
    _cycle("2025-09-02", "2025-11-25", "2026-06-26"),
    _cycle("2026-09-01", "2026-11-24", "2027-06-25"),
)
_WASABI = (_cycle("2024-03-05", "2024-07-02", "2027-12-31"),)

HAETSAL = Farm(
    farm_id="haetsal",
    name="햇살농원",
    houses=(
        House(
            name="1동",
            crop="토마토",
            cultivar="데프니스",
            area_m2=2640,
            cycles=_TOMATO_LONG,
            ec_start=2.6,
            ec_low=2.2,
            ec_high=3.1,
            drain_base=27.0,
            drain_ec_gap=0.9,
            litres_per_m2=3.0,
            daily_kg=128.0,
            grade_share=(0.46, 0.36),
            day_temp=24.0,
            night_temp=16.0,
        ),
        House(
            name="2동",
            crop="토마토",
            cultivar="대추방울 티와이",
            area_m2=1980,
            cycles=_TOMATO_LATE,
            ec_start=2.4,
            ec_low=2.0,
            ec_high=2.9,
            drain_base=31.5,
            drain_ec_gap=0.6,
            litres_per_m2=2.7,
            daily_kg=71.0,
            grade_share=(0.55, 0.31),
            day_temp=25.0,
            night_temp=15.0,
        ),
        House(
            name="3동",
            crop="딸기",
            cultivar="설향",
            area_m2=1650,
            cycles=_STRAWBERRY_EARLY,
            ec_start=1.1,
            ec_low=0.8,
            ec_high=1.4,
            drain_base=24.0,
            drain_ec_gap=0.2,
            litres_per_m2=1.3,
            daily_kg=42.0,
            grade_share=(0.52, 0.33),
            day_temp=22.0,
            night_temp=7.0,
        ),
        House(
            name="4동",
            crop="딸기",
            cultivar="금실",
            area_m2=1320,
            cycles=_STRAWBERRY_LATE,
            ec_start=1.0,
            ec_low=0.7,
            ec_high=1.3,
            drain_base=20.5,
            drain_ec_gap=0.3,
            litres_per_m2=1.2,
            daily_kg=29.0,
            grade_share=(0.60, 0.28),
            day_temp=23.0,
            night_temp=8.0,
        ),
    ),
    authors=(("김주임", "plain", 4), ("박반장", "memo", 3), ("이농장장", "polite", 1), ("정대리", "plain", 3)),
    vendor="한빛온실설비",
    technicians=("조기사", "문기사"),
)

PUREUN = Farm(
    farm_id="pureun",
    name="푸른들농장",
    houses=(
        House(
            name="1동",
            crop="파프리카",
            cultivar="레드(시로코)",
            area_m2=4950,
            cycles=_PAPRIKA,
            ec_start=2.9,
            ec_low=2.5,
            ec_high=3.4,
            drain_base=36.0,
            drain_ec_gap=1.3,
            litres_per_m2=3.4,
            daily_kg=176.0,
            grade_share=(0.58, 0.29),
            day_temp=23.0,
            night_temp=19.0,
        ),
        House(
            name="2동",
            crop="파프리카",
            cultivar="옐로우(볼란테)",
            area_m2=4290,
            cycles=_PAPRIKA,
            ec_start=2.8,
            ec_low=2.4,
            ec_high=3.3,
            drain_base=39.5,
            drain_ec_gap=1.1,
            litres_per_m2=3.2,
            daily_kg=149.0,
            grade_share=(0.61, 0.27),
            day_temp=24.0,
            night_temp=18.0,
        ),
        House(
            name="3동",
            crop="오이",
            cultivar="굿모닝백다다기",
            area_m2=2310,
            cycles=_CUCUMBER,
            ec_start=2.1,
            ec_low=1.7,
            ec_high=2.6,
            drain_base=29.0,
            drain_ec_gap=0.5,
            litres_per_m2=3.9,
            daily_kg=238.0,
            grade_share=(0.50, 0.35),
            day_temp=26.0,
            night_temp=15.0,
        ),
        House(
            name="4동",
            crop="토마토",
            cultivar="도태랑",
            area_m2=2970,
            cycles=_TOMATO_PUREUN,
            ec_start=2.3,
            ec_low=1.9,
            ec_high=2.8,
            drain_base=33.5,
            drain_ec_gap=0.7,
            litres_per_m2=2.9,
            daily_kg=141.0,
            grade_share=(0.43, 0.39),
            day_temp=25.0,
            night_temp=14.0,
        ),
        House(
            name="5동",
            crop="와사비",
            cultivar="달마",
            area_m2=990,
            cycles=_WASABI,
            ec_start=0.6,
            ec_low=0.4,
            ec_high=0.9,
            drain_base=64.0,
            drain_ec_gap=0.1,
            litres_per_m2=5.6,
            daily_kg=6.5,
            grade_share=(0.40, 0.42),
            day_temp=17.0,
            night_temp=11.0,
        ),
    ),
    authors=(("김과장", "plain", 3), ("최반장", "memo", 3), ("한주임", "plain", 4), ("오농장장", "polite", 1)),
    vendor="새들원예기술",
    technicians=("배기사", "윤기사"),
)

FARMS: dict[str, Farm] = {farm.farm_id: farm for farm in (HAETSAL, PUREUN)}


def cycle_on(house: House, day: date) -> Cycle | None:
    """The planting that stands in the house on `day`, if any."""
    return next((cycle for cycle in house.cycles if cycle.planted <= day <= cycle.ended), None)


def stage_on(house: House, day: date) -> Stage:
    """Stage of the crop on `day`; 휴작 between plantings, 준비 in the last three weeks before one."""
    cycle = cycle_on(house, day)
    if cycle is None:
        coming = min((c.planted for c in house.cycles if c.planted > day), default=LAST_DAY)
        return "준비" if (coming - day).days <= 21 else "휴작"
    if (day - cycle.planted).days < 21:
        return "활착"
    if day < cycle.first_harvest:
        return "생육"
    return "마무리" if (cycle.ended - day).days <= 10 else "수확"
