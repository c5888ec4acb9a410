"""Work logs: one document per logged day, written in the style of its author."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date

from ingest.sample import worklog_phrases as phrases
from ingest.sample.events import Ledger
from ingest.sample.farm_plan import (
    PEST_MONTHS,
    WEEKDAYS,
    FarmPlan,
    LogDay,
    Spray,
    is_growing,
    stage_label,
    stream,
)
from ingest.sample.farm_spec import House, cycle_on
from ingest.sample.korean import expand, restyle
from ingest.sample.model import SYNTHETIC_LABEL, Document, Paragraph, SampleFile, Section
from ingest.sample.monthly_figures import daily_harvest, measured_drain
from ingest.sample.office_papers import meeting_quarter

_SEASONS = {12: "winter", 1: "winter", 2: "winter", 3: "spring", 4: "spring", 5: "spring"}
_SEASONS |= {6: "summer", 7: "summer", 8: "summer", 9: "autumn", 10: "autumn", 11: "autumn"}
_OUTDOOR_RANGE = {
    1: (-9, 4),
    2: (-7, 7),
    3: (-1, 13),
    4: (5, 19),
    5: (11, 24),
    6: (17, 28),
    7: (22, 31),
    8: (22, 32),
    9: (16, 27),
    10: (8, 21),
    11: (1, 14),
    12: (-6, 6),
}
_DISEASE_ENDING = "병"
_NOT_ON_TRAPS = ("점박이응애", "파밤나방", "배추좀나방", "벼룩잎벌레")
_PICKING_DAYS = 3.5


@dataclass(slots=True)
class _Draft:
    """Sentences of one log while it is written, by part."""

    plan: FarmPlan
    log: LogDay
    ledger: Ledger
    rng: random.Random
    by_house: dict[str, list[str]] = field(default_factory=dict)
    treatment: list[str] = field(default_factory=list)
    scouting: list[str] = field(default_factory=list)
    facility: list[str] = field(default_factory=list)
    coming: list[str] = field(default_factory=list)

    @property
    def day(self) -> date:
        return self.log.day

    def say(self, template: str, house: House | None = None, **values: str) -> str:
        if house is not None:
            values |= {"house": house.label, "name": house.name}
        return restyle(expand(self.rng, template, **values), self.log.style)

    def tell(self, house: House, sentence: str) -> None:
        self.by_house.setdefault(house.name, []).append(sentence)

    def record(self, kind: str, house: House | None, subject: str, note: str, value: str = "", unit: str = "") -> None:
        self.ledger.add(
            date=self.day.isoformat(),
            kind=kind,
            subject=subject,
            path=self.log.path,
            house=house.name if house else "",
            author=self.log.author,
            value=value,
            unit=unit,
            note=note,
        )


def _korean_day(day: date) -> str:
    return f"{day.month}월 {day.day}일"


def _crop_turns(draft: _Draft) -> None:
    """Planting and first picking of a season."""
    for house in draft.plan.farm.houses:
        cycle = cycle_on(house, draft.day)
        if cycle is None:
            continue
        if cycle.planted == draft.day:
            ec = f"{draft.plan.supply_ec(house, draft.day):.1f}"
            text = draft.say(phrases.PLANTING, house, cultivar=house.cultivar, ec=ec)
            draft.tell(house, text)
            draft.record("planting", house, f"{house.crop} {house.cultivar} 정식", text, ec, "dS/m")
        if cycle.first_harvest == draft.day:
            text = draft.say(phrases.FIRST_HARVEST, house)
            draft.tell(house, text)
            draft.record("first_harvest", house, f"{house.crop} 첫 수확", text)


def _set_points(draft: _Draft) -> None:
    for change in draft.plan.set_points:
        if change.day != draft.day:
            continue
        raised = change.new > change.old
        old, new = f"{change.old:.1f}", f"{change.new:.1f}"
        if change.subject == "급액 EC":
            reason = draft.rng.choice(phrases.EC_REASON_UP if raised else phrases.EC_REASON_DOWN)
            move = "올렸다" if raised else "낮추었다"
            template = draft.rng.choice(phrases.SET_EC)
            text = draft.say(template, change.house, old=old, new=new, reason=reason, move=move)
            kind = "setpoint_ec"
        else:
            text = draft.say(draft.rng.choice(phrases.SET_NIGHT), change.house, old=old, new=new)
            kind = "setpoint_night"
        draft.tell(change.house, text)
        draft.record(kind, change.house, f"{change.subject} 설정 변경", text, new, change.unit)


def _tasks(draft: _Draft, house: House, count: int) -> None:
    options = phrases.TASKS[house.crop].get(stage_label(house, draft.day), ())
    if draft.plan.awaits_harvest(house, draft.day):
        options = tuple(template for template in options if "땄" not in template)
    for template in draft.rng.sample(options, min(count, len(options))):
        draft.tell(house, draft.say(template, house))


def _harvest(draft: _Draft, house: House) -> None:
    expected = daily_harvest(house, draft.day) * _PICKING_DAYS
    if expected < 1 or draft.plan.awaits_harvest(house, draft.day):
        return
    kg = str(max(1, round(expected * draft.rng.uniform(0.85, 1.15))))
    text = draft.say(draft.rng.choice(phrases.HARVEST), house, kg=kg)
    draft.tell(house, text)
    draft.record("harvest_day", house, f"{house.crop} 당일 수확량", text, kg, "kg")


def _drain(draft: _Draft, house: House) -> None:
    reading = measured_drain(draft.plan, house, draft.day)
    if reading is None:
        return
    ec, ph, rate, drain_ec = (f"{v:.{n}f}" for v, n in zip(reading, (2, 1, 1, 2), strict=True))
    text = draft.say(draft.rng.choice(phrases.DRAIN), house, ec=ec, ph=ph, drain=rate, drain_ec=drain_ec)
    draft.tell(house, text)
    draft.record("drain_rate_day", house, "배액률", text, rate, "%")


def _spray_note(draft: _Draft, spray: Spray) -> str:
    product = spray.product
    return draft.say(
        draft.rng.choice(phrases.SPRAY),
        spray.house,
        pest=spray.pest,
        item=product.item,
        brand=product.brand,
        dilution=product.dilution,
        litres=str(spray.litres),
    )


def _treatments(draft: _Draft) -> None:
    for spray in draft.plan.sprays:
        if spray.day != draft.day:
            continue
        house, product = spray.house, spray.product
        text = _spray_note(draft, spray)
        draft.treatment.append(text)
        subject = f"{spray.pest} 방제({product.item}, 상표 {product.brand})"
        draft.record("spray", house, subject, text, product.dilution, "배")
        if daily_harvest(house, draft.day) >= 1:
            care = draft.say(
                draft.rng.choice(phrases.SPRAY_CARE),
                house,
                phi=product.days_before_harvest,
                next_harvest=_korean_day(spray.harvest_from),
            )
            draft.treatment.append(care)
        else:
            draft.treatment.append(draft.say(draft.rng.choice(phrases.SPRAY_CARE_NO_PICKING), house))


def _sighting_details(pest: str) -> tuple[str, ...]:
    if pest.endswith(_DISEASE_ENDING):
        return phrases.SIGHTING_DISEASE
    return phrases.SIGHTING_LEAF if pest in _NOT_ON_TRAPS else phrases.SIGHTING_TRAP


def _sightings(draft: _Draft) -> None:
    for sighting in draft.plan.sightings:
        if sighting.day != draft.day:
            continue
        text = draft.say(draft.rng.choice(phrases.SIGHTING), sighting.house, pest=sighting.pest)
        detail = draft.say(draft.rng.choice(_sighting_details(sighting.pest)))
        draft.scouting += [text, detail]
        draft.record("pest_first", sighting.house, f"{sighting.pest} 첫 발견", f"{text} {detail}")


def _scouting(draft: _Draft, houses: list[House]) -> None:
    growing = [house for house in houses if is_growing(house, draft.day)]
    if draft.scouting or not growing or draft.rng.random() < 0.35:
        return
    house = draft.rng.choice(growing)
    pests = PEST_MONTHS[house.crop]
    pest = draft.rng.choice([name for name, active in pests.items() if draft.day.month in active] or list(pests))
    draft.scouting.append(draft.say(draft.rng.choice(phrases.SCOUTING), house, pest=pest))


def _failures(draft: _Draft) -> None:
    for repair in draft.plan.repairs:
        if repair.day == draft.day:
            text = draft.say(
                draft.rng.choice(phrases.REPAIR),
                repair.house,
                equipment=repair.fault.equipment,
                technician=repair.technician,
            )
            draft.facility.append(text)
            draft.record("repair_mention", repair.house, f"{repair.fault.equipment} 수리", text)
    for cut in draft.plan.power_cuts:
        if cut.day == draft.day:
            warm = cut.day.month in (6, 7, 8)
            text = draft.say(
                phrases.POWER_CUT,
                cut.house,
                cause=cut.cause,
                minutes=str(cut.minutes),
                fan="환기팬" if warm else "난방기",
            )
            draft.facility.append(text)
            draft.record("power_cut", cut.house, "정전 시간", text, str(cut.minutes), "분")
            move = "올랐다" if warm else "내려갔다"
            reading = f"{cut.temperature:.1f}"
            text = draft.say(phrases.POWER_CUT_TEMPERATURE, cut.house, temperature=reading, move=move)
            draft.facility.append(text)
            draft.record("power_cut_temperature", cut.house, "정전 중 온도", text, reading, "℃")


def _facility_bank(house: House, day: date) -> tuple[str, ...]:
    """Sentences that fit the house and the season."""
    if house.crop == "와사비":
        return phrases.FACILITY_WASABI
    if day.month in (11, 12, 1, 2, 3):
        return phrases.FACILITY + phrases.FACILITY_COLD
    return phrases.FACILITY + (phrases.FACILITY_HOT if day.month in (6, 7, 8) else ())


def _facility(draft: _Draft, houses: list[House]) -> None:
    growing = [house for house in houses if is_growing(house, draft.day)]
    told: set[str] = set()
    for house in draft.rng.choices(growing, k=draft.rng.choice((1, 2, 2))) if growing else ():
        template = draft.rng.choice([t for t in _facility_bank(house, draft.day) if t not in told])
        told.add(template)
        night_low = f"{house.night_temp - draft.rng.uniform(0.2, 1.6):.1f}"
        draft.facility.append(draft.say(template, house, night_low=night_low))


def _coming(draft: _Draft, houses: list[House]) -> None:
    growing = [house for house in houses if is_growing(house, draft.day)] or houses
    following = "금" if draft.day.weekday() in (1, 2) else "화"
    names = [name for name, _, _ in draft.plan.farm.authors]
    for template in draft.rng.sample(phrases.NEXT, draft.rng.choice((1, 2))):
        sentence = draft.say(template, draft.rng.choice(growing), weekday=following, author=draft.rng.choice(names))
        draft.coming.append(sentence)
    quarter = meeting_quarter(draft.plan, draft.day)
    if quarter:
        draft.coming.insert(0, draft.say(phrases.MEETING, quarter=quarter))


def _houses_of_day(draft: _Draft) -> list[House]:
    """Two or three houses, first those with crops and with something recorded today."""
    houses = list(draft.plan.farm.houses)
    busy = {name for name in draft.by_house}
    busy |= {spray.house.name for spray in draft.plan.sprays if spray.day == draft.day}
    draft.rng.shuffle(houses)
    houses.sort(key=lambda house: (house.name not in busy, not is_growing(house, draft.day)))
    chosen = houses[: max(draft.rng.choice((2, 2, 3)), len(busy & {h.name for h in houses}))]
    return sorted(chosen, key=lambda house: house.name)


def _write_parts(draft: _Draft) -> list[House]:
    _crop_turns(draft)
    _set_points(draft)
    houses = _houses_of_day(draft)
    measured = draft.rng.sample(houses, min(len(houses), draft.rng.choice((1, 2))))
    for house in houses:
        _tasks(draft, house, draft.rng.choice((1, 1, 2)))
        _harvest(draft, house)
        if house in measured:
            _drain(draft, house)
    _treatments(draft)
    _sightings(draft)
    _scouting(draft, houses)
    _failures(draft)
    _facility(draft, houses)
    _coming(draft, houses)
    return houses


def _section(heading: str, sentences: list[str]) -> list[Section]:
    return [Section(heading, (Paragraph(" ".join(sentences)),))] if sentences else []


def _by_house_layout(draft: _Draft, houses: list[House]) -> list[Section]:
    sections: list[Section] = []
    for house in houses:
        sections += _section(house.label, draft.by_house.get(house.name, []))
    sections += _section("방제", draft.treatment)
    sections += _section("예찰", draft.scouting)
    sections += _section("시설", draft.facility)
    return sections + _section("다음 작업", draft.coming)


def _by_topic_layout(draft: _Draft, houses: list[House]) -> list[Section]:
    work = [s for house in houses for s in draft.by_house.get(house.name, [])]
    sections = _section("오늘 한 일", work) + _section("방제 기록", draft.treatment)
    sections += _section("관찰과 시설 점검", draft.scouting + draft.facility)
    return sections + _section("전달 사항", draft.coming)


def _weather(draft: _Draft) -> str:
    low, high = _OUTDOOR_RANGE[draft.day.month]
    sky = draft.rng.choice(phrases.SKY[_SEASONS[draft.day.month]])
    return f"{sky}, 최저 {low + draft.rng.randint(-3, 3)}℃ 최고 {high + draft.rng.randint(-3, 3)}℃"


def write_log(plan: FarmPlan, log: LogDay, ledger: Ledger) -> SampleFile:
    """Write one log and enter what it states into the ledger."""
    farm = plan.farm
    rng = stream(farm.farm_id, "log", log.day)
    draft = _Draft(plan=plan, log=log, ledger=ledger, rng=rng)
    weather = _weather(draft)
    houses = _write_parts(draft)
    layout = rng.choice((_by_house_layout, _by_house_layout, _by_topic_layout))
    weekday = WEEKDAYS[log.day.weekday()]
    meta = (
        SYNTHETIC_LABEL,
        f"농장: {farm.name} · 날짜: {log.day.isoformat()}({weekday}) · 작성자: {log.author}",
        f"날씨: {weather}",
    )
    title = f"작업일지 {log.day.year}년 {_korean_day(log.day)} {weekday}요일"
    stated = {event.house for event in ledger.events if event.path == log.path and event.house}
    return SampleFile(
        scope=farm.farm_id,
        path=log.path,
        kind="작업일지",
        document=Document(title=title, meta=meta, sections=tuple(layout(draft, houses))),
        crop=", ".join(dict.fromkeys(house.crop for house in houses)),
        date=log.day.isoformat(),
        author=log.author,
        houses=tuple(sorted(stated | {house.name for house in houses})),
        event_ids=ledger.ids_for(log.path),
    )
