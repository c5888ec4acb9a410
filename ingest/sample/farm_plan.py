"""What happens on a farm and when, drawn from a seed: log days, sprays, set points, failures.

Every stream of random numbers has its own key, so a change in one kind of document leaves the
figures of the others as they are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from ingest.sample.farm_spec import FARMS, FIRST_DAY, LAST_DAY, Farm, House, cycle_on, stage_on
from ingest.sample.korean import Style
from ingest.sample.registration_rows import Registration, sprayable
from ingest.sample.repair_catalogue import FAULTS, Fault

SEED = 20261124
WEEKDAYS = "월화수목금토일"
_TUESDAY, _FRIDAY = 1, 4
_LOG_FORMATS = (("md", 55), ("txt", 25), ("docx", 10), ("hwpx", 10))
_REPAIR_FORMATS = ("docx", "md", "hwpx")
_REPAIRS_PER_FARM = 18

# The day the demo questions ask about ("last Tuesday") has one author per farm.
_FIXED_LOGS = {
    ("haetsal", date(2026, 11, 24)): ("김주임", "md"),
    ("pureun", date(2026, 11, 24)): ("한주임", "md"),
}

# crop -> pest or disease -> months in which it is treated
PEST_MONTHS: dict[str, dict[str, tuple[int, ...]]] = {
    "토마토": {
        "담배가루이": (4, 5, 6, 9, 10, 11),
        "온실가루이": (4, 5, 6, 9, 10),
        "아메리카잎굴파리": (5, 6, 7, 9, 10),
        "잎곰팡이병": (11, 12, 1, 2, 3, 4, 5),
        "잿빛곰팡이병": (11, 12, 1, 2, 3, 4),
        "흰가루병": (4, 5, 6, 10, 11),
        "역병": (1, 2, 3),
    },
    "딸기": {
        "흰가루병": (10, 11, 12, 1, 2, 3, 4, 5),
        "점박이응애": (2, 3, 4, 5, 6, 7, 9, 10, 11),
        "잿빛곰팡이병": (12, 1, 2, 3),
        "목화진딧물": (3, 4, 5, 10, 11),
        "꽃노랑총채벌레": (4, 5),
        "탄저병": (6, 7, 8, 9),
    },
    "파프리카": {
        "담배가루이": (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12),
        "점박이응애": (4, 5, 6, 7, 9, 10),
        "파밤나방": (8, 9, 10),
    },
    "오이": {
        "흰가루병": (2, 3, 4, 5, 6, 9, 10, 11, 12),
        "노균병": (10, 11, 12, 1, 2, 3, 4, 5, 6),
        "오이총채벌레": (4, 5, 6, 7, 9, 10, 11),
        "온실가루이": (4, 5, 6, 9, 10, 11),
        "목화진딧물": (3, 4, 5, 6, 9, 10, 11),
        "잿빛곰팡이병": (12, 1, 2, 3),
    },
    "와사비": {
        "배추좀나방": (4, 5, 6, 7, 8, 9, 10),
        "벼룩잎벌레": (4, 5, 6),
        "잿빛곰팡이병": (11, 12, 1, 2, 3),
        "먹들이병": (5, 6, 7, 8, 9),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDay:
    """A day with a work log: who writes it, in which format."""

    day: date
    author: str
    style: Style
    extension: str

    @property
    def path(self) -> str:
        """Logical path of the log."""
        iso = self.day.isoformat()
        return f"작업일지/{self.day.year}/{iso}_작업일지_{self.author}.{self.extension}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spray:
    """One treatment of one house with a registered product."""

    day: date
    house: House
    pest: str
    product: Registration
    litres: int

    @property
    def harvest_from(self) -> date:
        """First day on which the label allows picking again."""
        return self.day + timedelta(days=int(self.product.days_before_harvest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """First sight of a pest or disease in a house in one cropping season."""

    day: date
    house: House
    pest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPoint:
    """A changed supply EC or night temperature."""

    day: date
    house: House
    subject: str
    old: float
    new: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A failure and its repair."""

    day: date
    house: House
    fault: Fault
    technician: str
    parts_won: int
    labour_won: int
    downtime_hours: int
    author: str
    extension: str

    @property
    def path(self) -> str:
        """Logical path of the repair note."""
        equipment = self.fault.equipment.replace(" ", "")
        return f"수리/{self.day.isoformat()}_{equipment}_수리.{self.extension}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut:
    """A power failure: how long, and the lowest or highest temperature it led to."""

    day: date
    house: House
    minutes: int
    temperature: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmPlan:
    """Everything planned for one farm, each list by date."""

    farm: Farm
    log_days: tuple[LogDay, ...]
    sprays: tuple[Spray, ...]
    sightings: tuple[Sighting, ...]
    set_points: tuple[SetPoint, ...]
    repairs: tuple[Repair, ...]
    power_cuts: tuple[PowerCut, ...]

    def supply_ec(self, house: House, day: date) -> float:
        """Supply EC set point in force on `day`."""
        value = house.ec_start
        for change in self.set_points:
            if change.house == house and change.subject == "급액 EC" and change.day <= day:
                value = change.new
        return value

    def awaits_harvest(self, house: House, day: date) -> bool:
        """Whether `day` lies between a spray and the first day on which picking is allowed again."""
        return any(spray.house == house and spray.day < day < spray.harvest_from for spray in self.sprays)


_POWER_CUTS = {
    "haetsal": (
        ("2025-07-17", "3동", 47, 38.6, "낙뢰로 인한 배전선로 차단"),
        ("2026-01-23", "1동", 82, 7.4, "한파 때 수전반 차단기 트립"),
    ),
    "pureun": (
        ("2025-08-06", "5동", 35, 24.8, "집중호우로 인한 인입선 지락"),
        ("2026-02-11", "1동", 64, 11.2, "배전선로 공사 중 오조작"),
    ),
}


def stream(farm_id: str, *topic: object) -> random.Random:
    """Random numbers for one topic of one farm."""
    return random.Random("/".join(str(part) for part in (SEED, farm_id, *topic)))


def months() -> Iterator[str]:
    """The months of the demo period, as YYYY-MM."""
    day = FIRST_DAY
    while day <= LAST_DAY:
        yield f"{day:%Y-%m}"
        day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def month_days(month: str) -> list[date]:
    """All days of a month given as YYYY-MM."""
    first = date.fromisoformat(f"{month}-01")
    following = (first + timedelta(days=32)).replace(day=1)
    return [first + timedelta(days=n) for n in range((following - first).days)]


def is_growing(house: House, day: date) -> bool:
    """Whether plants stand in the house: a crop, or strawberry nursery plants in summer."""
    return cycle_on(house, day) is not None or (house.crop == "딸기" and day.month in (6, 7, 8))


def _regular_days() -> list[date]:
    span = (LAST_DAY - FIRST_DAY).days + 1
    days = (FIRST_DAY + timedelta(days=n) for n in range(span))
    return [day for day in days if day.weekday() in (_TUESDAY, _FRIDAY)]


def _plan_sprays(farm: Farm, days: list[date]) -> list[Spray]:
    sprays: list[Spray] = []
    for month in months():
        rng = stream(farm.farm_id, "spray", month)
        candidates = [day for day in days if f"{day:%Y-%m}" == month]
        for day in sorted(rng.sample(candidates, rng.choice((2, 3, 3, 4)))):
            options = [
                (house, pest)
                for house in farm.houses
                if is_growing(house, day)
                for pest, active in PEST_MONTHS[house.crop].items()
                if day.month in active and sprayable(house.crop, pest)
            ]
            if not options:
                continue
            house, pest = rng.choice(options)
            litres = round(house.area_m2 * rng.uniform(0.14, 0.2) / 20) * 20
            product = rng.choice(sprayable(house.crop, pest))
            sprays.append(Spray(day=day, house=house, pest=pest, product=product, litres=litres))
    return sprays


def _plan_sightings(sprays: list[Spray], days: list[date]) -> list[Sighting]:
    seen: set[tuple[str, str, date | None]] = set()
    sightings: list[Sighting] = []
    for spray in sprays:
        cycle = cycle_on(spray.house, spray.day)
        key = (spray.house.name, spray.pest, cycle.planted if cycle else None)
        earlier = [day for day in days if day < spray.day and is_growing(spray.house, day)]
        if key in seen or not earlier or (spray.day - earlier[-1]).days > 7:
            continue
        seen.add(key)
        if cycle and earlier[-1] < cycle.planted:
            continue
        sightings.append(Sighting(day=earlier[-1], house=spray.house, pest=spray.pest))
    return sightings


def _plan_ec_changes(farm: Farm, house: House, days: list[date]) -> list[SetPoint]:
    rng = stream(farm.farm_id, "ec", house.name)
    value, changes, wait = house.ec_start, [], rng.randint(8, 14)
    for day in (day for day in days if cycle_on(house, day)):
        wait -= 1
        if wait > 0:
            continue
        wait = rng.randint(10, 16)
        steps = [step for step in (-0.2, -0.1, 0.1, 0.2) if house.ec_low <= round(value + step, 1) <= house.ec_high]
        new = round(value + rng.choice(steps), 1)
        changes.append(SetPoint(day=day, house=house, subject="급액 EC", old=value, new=new, unit="dS/m"))
        value = new
    return changes


def _plan_night_changes(farm: Farm, house: House, days: list[date]) -> list[SetPoint]:
    rng = stream(farm.farm_id, "night", house.name)
    changes, value = [], house.night_temp
    for day in days:
        if day.month in (11, 12, 1, 2, 3) and cycle_on(house, day) and rng.random() < 0.06:
            new = house.night_temp + rng.choice([d for d in (-1.0, -0.5, 0.5, 1.0) if house.night_temp + d != value])
            changes.append(SetPoint(day=day, house=house, subject="야간 난방 온도", old=value, new=new, unit="℃"))
            value = new
    return changes


def _plan_repairs(farm: Farm, days: list[date]) -> list[Repair]:
    rng = stream(farm.farm_id, "repair")
    slot = (LAST_DAY - FIRST_DAY).days / _REPAIRS_PER_FARM
    crops = {house.crop for house in farm.houses}
    fitting = [fault for fault in FAULTS if not fault.crops or crops & set(fault.crops)]
    pool = rng.sample(fitting, len(fitting))
    repairs: list[Repair] = []
    for index in range(_REPAIRS_PER_FARM):
        day = FIRST_DAY + timedelta(days=int(slot * index) + rng.randint(3, int(slot) - 3))
        if rng.random() < 0.75:
            day = next(d for d in days if d >= day)
        fault = next((f for f in pool if day.month in f.months), None) or rng.choice(
            [f for f in fitting if day.month in f.months]
        )
        if fault in pool:
            pool.remove(fault)
        houses = [h for h in farm.houses if not fault.crops or h.crop in fault.crops]
        growing = [h for h in houses if cycle_on(h, day)] or houses
        low, high = fault.parts_won
        repairs.append(
            Repair(
                day=day,
                house=rng.choice(growing),
                fault=fault,
                technician=rng.choice(farm.technicians),
                parts_won=rng.randrange(low, high, 1000),
                labour_won=rng.choice((60_000, 80_000, 90_000, 120_000, 150_000)),
                downtime_hours=rng.randint(*fault.downtime_hours),
                author=rng.choice(farm.authors[:2] + farm.authors[-1:])[0],
                extension=_REPAIR_FORMATS[index % len(_REPAIR_FORMATS)],
            )
        )
    return repairs


def _plan_log_days(farm: Farm, days: list[date]) -> list[LogDay]:
    names = [name for name, _, _ in farm.authors]
    shares = [share for _, _, share in farm.authors]
    styles = {name: style for name, style, _ in farm.authors}
    planned = []
    for day in days:
        rng = stream(farm.farm_id, "log-day", day)
        author = rng.choices(names, shares)[0]
        extension = rng.choices([f for f, _ in _LOG_FORMATS], [share for _, share in _LOG_FORMATS])[0]
        author, extension = _FIXED_LOGS.get((farm.farm_id, day), (author, extension))
        planned.append(LogDay(day=day, author=author, style=styles[author], extension=extension))
    return planned


@cache
def plan_farm(farm_id: str) -> FarmPlan:
    """The plan of one farm; the same every time."""
    farm = FARMS[farm_id]
    regular = _regular_days()
    repairs = _plan_repairs(farm, regular)
    power_cuts = [
        PowerCut(day=date.fromisoformat(day), house=farm.house(house), minutes=minutes, temperature=temp, cause=cause)
        for day, house, minutes, temp, cause in _POWER_CUTS[farm_id]
    ]
    plantings = {c.planted for house in farm.houses for c in house.cycles}
    extra = {r.day for r in repairs} | {p.day for p in power_cuts}
    extra |= {day for day in plantings if FIRST_DAY <= day <= LAST_DAY}
    days = sorted(set(regular) | extra)
    sprays = _plan_sprays(farm, regular)
    changes = [
        change
        for house in farm.houses
        for change in _plan_ec_changes(farm, house, regular) + _plan_night_changes(farm, house, regular)
    ]
    return FarmPlan(
        farm=farm,
        log_days=tuple(_plan_log_days(farm, days)),
        sprays=tuple(sprays),
        sightings=tuple(_plan_sightings(sprays, regular)),
        set_points=tuple(sorted(changes, key=lambda change: (change.day, change.house.name, change.subject))),
        repairs=tuple(repairs),
        power_cuts=tuple(power_cuts),
    )


def stage_label(house: House, day: date) -> str:
    """Stage as the documents call it; strawberry houses raise seedlings in summer."""
    stage = stage_on(house, day)
    if house.crop == "딸기" and stage in ("휴작", "준비") and day.month in (6, 7, 8):
        return "육묘"
    return stage
