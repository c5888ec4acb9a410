"""Monthly and daily figures of a house: supply and drain, climate, harvest."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date
from functools import cache

from ingest.sample.farm_plan import FarmPlan, month_days, plan_farm, stream
from ingest.sample.farm_spec import House, cycle_on

GRADES = ("특", "상", "보통")

# Mean outdoor temperature by month (January first) and the share of summer radiation.
_OUTDOOR = (-2.0, 0.5, 6.0, 12.5, 18.0, 22.5, 26.0, 26.5, 21.0, 14.5, 7.0, 0.5)
_LIGHT = (0.42, 0.52, 0.68, 0.82, 0.94, 0.98, 0.9, 0.92, 0.8, 0.66, 0.48, 0.4)
_MIN_GROWING_DAYS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainMonth:
    """Means of one month; litres is the total supplied."""

    supply_ec: float
    supply_ph: float
    drain_ec: float
    drain_ph: float
    drain_rate: float
    litres: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimateMonth:
    """Temperatures in ℃, humidity in %, CO2 in ppm, with the days of the extremes."""

    day_temp: float
    night_temp: float
    day_humidity: int
    night_humidity: int
    co2: int
    highest: float
    highest_day: date
    lowest: float
    lowest_day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class HarvestWeek:
    """One week of a month (1-5), kg by grade in the order of `GRADES`."""

    week: int
    first: date
    last: date
    grades: tuple[int, int, int]

    @property
    def total(self) -> int:
        """All grades together."""
        return sum(self.grades)


def growing_days(house: House, month: str) -> list[date]:
    """Days of the month on which a crop stands in the house."""
    return [day for day in month_days(month) if cycle_on(house, day)]


@cache
def drain_month(farm_id: str, house_name: str, month: str) -> DrainMonth | None:
    """Supply and drain figures, or None when the house rests (fewer than ten days planted)."""
    plan = plan_farm(farm_id)
    house = plan.farm.house(house_name)
    days = growing_days(house, month)
    if len(days) < _MIN_GROWING_DAYS:
        return None
    rng = stream(farm_id, "drain", house_name, month)
    light = _LIGHT[days[0].month - 1]
    set_point = sum(plan.supply_ec(house, day) for day in days) / len(days)
    supply_ec = set_point + rng.uniform(-0.04, 0.04)
    wasabi = house.crop == "와사비"
    rate = house.drain_base + (0 if wasabi else 9 * (light - 0.66)) + rng.uniform(-2.2, 2.2)
    gap = house.drain_ec_gap * (0.7 + 0.6 * light) * rng.uniform(0.8, 1.2)
    litres = house.area_m2 * house.litres_per_m2 * (0.45 + light) / 1.2 * len(days) * rng.uniform(0.94, 1.06)
    return DrainMonth(
        supply_ec=round(supply_ec, 2),
        supply_ph=round(rng.uniform(5.6, 6.1), 2),
        drain_ec=round(supply_ec + gap, 2),
        drain_ph=round(rng.uniform(5.9, 6.7), 2),
        drain_rate=round(rate, 1),
        litres=round(litres / 10) * 10,
    )


def _day_temperature(house: House, month: int, jitter: float) -> float:
    outdoor = _OUTDOOR[month - 1]
    warmest = max(house.day_temp, outdoor + 2.5) if house.crop != "와사비" else house.day_temp + 0.12 * outdoor / 2
    return warmest + jitter


def _night_temperature(house: House, month: int, jitter: float) -> float:
    cooled = house.crop == "와사비"
    outdoor = _OUTDOOR[month - 1] - 3.0
    return (house.night_temp if cooled else max(house.night_temp, outdoor)) + jitter


@cache
def climate_month(farm_id: str, house_name: str, month: str) -> ClimateMonth | None:
    """Climate figures; a power cut of the month sets the extreme it led to."""
    plan = plan_farm(farm_id)
    house = plan.farm.house(house_name)
    days = growing_days(house, month)
    if len(days) < _MIN_GROWING_DAYS:
        return None
    rng = stream(farm_id, "climate", house_name, month)
    number = days[0].month
    day_temp = _day_temperature(house, number, rng.uniform(-0.8, 0.8))
    night_temp = _night_temperature(house, number, rng.uniform(-0.6, 0.6))
    highest, highest_day = day_temp + rng.uniform(3.5, 7.0), rng.choice(days)
    lowest, lowest_day = night_temp - rng.uniform(1.2, 3.2), rng.choice(days)
    for cut in plan.power_cuts:
        if cut.house == house and f"{cut.day:%Y-%m}" == month:
            if cut.temperature > day_temp:
                highest, highest_day = cut.temperature, cut.day
            else:
                lowest, lowest_day = cut.temperature, cut.day
    return ClimateMonth(
        day_temp=round(day_temp, 1),
        night_temp=round(night_temp, 1),
        day_humidity=rng.randint(62, 76),
        night_humidity=rng.randint(78, 90),
        co2=rng.randint(430, 760) if number in (11, 12, 1, 2, 3) else rng.randint(370, 450),
        highest=round(highest, 1),
        highest_day=highest_day,
        lowest=round(lowest, 1),
        lowest_day=lowest_day,
    )


def daily_harvest(house: House, day: date) -> float:
    """Expected kg on `day`; 0 outside the picking season. Ramps up for a month, then follows light."""
    cycle = cycle_on(house, day)
    if cycle is None or day < cycle.first_harvest:
        return 0.0
    ramp = min(1.0, 0.35 + (day - cycle.first_harvest).days / 45)
    return house.daily_kg * ramp * (0.7 + 0.5 * _LIGHT[day.month - 1])


def _week_spans(month: str) -> list[tuple[date, date]]:
    year, number = (int(part) for part in month.split("-"))
    last = calendar.monthrange(year, number)[1]
    starts = [day for day in (1, 8, 15, 22, 29) if day <= last]
    ends = [*(start - 1 for start in starts[1:]), last]
    return [(date(year, number, s), date(year, number, e)) for s, e in zip(starts, ends, strict=True)]


@cache
def harvest_weeks(farm_id: str, house_name: str, month: str) -> tuple[HarvestWeek, ...]:
    """Weekly harvest of a month; empty when nothing was picked."""
    house = plan_farm(farm_id).farm.house(house_name)
    weeks = []
    for index, (first, last) in enumerate(_week_spans(month), start=1):
        rng = stream(farm_id, "harvest", house_name, month, index)
        days = [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]
        total = sum(daily_harvest(house, day) for day in days) * rng.uniform(0.88, 1.12)
        if total < 1:
            continue
        best, good = (share * rng.uniform(0.93, 1.07) for share in house.grade_share)
        grades = (round(total * best), round(total * good), round(total * (1 - best - good)))
        weeks.append(HarvestWeek(week=index, first=first, last=last, grades=grades))
    return tuple(weeks)


def month_total(farm_id: str, house_name: str, month: str) -> int:
    """Kilograms of the month over all weeks and grades."""
    return sum(week.total for week in harvest_weeks(farm_id, house_name, month))


def measured_drain(plan: FarmPlan, house: House, day: date) -> tuple[float, float, float, float] | None:
    """Readings of one day around the month's means: supply EC, supply pH, drain rate, drain EC."""
    month = drain_month(plan.farm.farm_id, house.name, f"{day:%Y-%m}")
    if month is None or cycle_on(house, day) is None:
        return None
    rng = stream(plan.farm.farm_id, "reading", house.name, day)
    return (
        round(plan.supply_ec(house, day) + rng.uniform(-0.05, 0.05), 2),
        round(month.supply_ph + rng.uniform(-0.12, 0.12), 1),
        round(month.drain_rate + rng.uniform(-4.0, 4.0), 1),
        round(month.drain_ec + rng.uniform(-0.2, 0.2), 2),
    )
