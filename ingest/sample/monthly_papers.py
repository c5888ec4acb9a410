"""Monthly summaries of a farm: supply and drain (xlsx), climate (csv), harvest (xlsx)."""

from __future__ import annotations

from ingest.sample.events import Ledger
from ingest.sample.farm_plan import FarmPlan, months
from ingest.sample.korean import number
from ingest.sample.model import SYNTHETIC_LABEL, Cell, Document, SampleFile, Section, Table
from ingest.sample.monthly_figures import GRADES, climate_month, drain_month, harvest_weeks, month_total

# One month per farm stands in the code page that old Windows programs write; some carry a BOM.
_CP949_MONTHS = {"haetsal": "2025-05", "pureun": "2025-09"}
_BOM_EVERY = 2
_RESTING = "휴작"

_DRAIN_HEADER = (
    "동",
    "작목",
    "급액 EC(dS/m)",
    "급액 pH",
    "배액 EC(dS/m)",
    "배액 pH",
    "배액률(%)",
    "급액량(L)",
    "비고",
)
_CLIMATE_HEADER = (
    "농장",
    "연월",
    "동",
    "작목",
    "주간 평균온도(℃)",
    "야간 평균온도(℃)",
    "주간 평균습도(%)",
    "야간 평균습도(%)",
    "CO2 평균(ppm)",
    "최고온도(℃)",
    "최고온도 날짜",
    "최저온도(℃)",
    "최저온도 날짜",
    "비고",
)
_HARVEST_HEADER = ("동", "작목", "주차", "기간", *(f"{grade}(kg)" for grade in GRADES), "합계(kg)")


def _month_name(month: str) -> str:
    year, number_ = month.split("-")
    return f"{year}년 {int(number_)}월"


def _file(
    plan: FarmPlan, month: str, path: str, kind: str, document: Document, ledger: Ledger, encoding: str = "utf-8"
) -> SampleFile:
    houses = plan.farm.houses
    return SampleFile(
        scope=plan.farm.farm_id,
        path=path,
        kind=kind,
        document=document,
        crop=", ".join(dict.fromkeys(house.crop for house in houses)),
        date=month,
        houses=tuple(house.name for house in houses),
        event_ids=ledger.ids_for(path),
        encoding=encoding,
    )


def _meta(plan: FarmPlan, month: str) -> tuple[str, ...]:
    return (SYNTHETIC_LABEL, f"농장: {plan.farm.name} · 연월: {_month_name(month)}")


def _drain(plan: FarmPlan, month: str, ledger: Ledger) -> SampleFile:
    path = f"급액배액/{month}_급액배액_요약.xlsx"
    rows: list[tuple[Cell, ...]] = []
    for house in plan.farm.houses:
        figures = drain_month(plan.farm.farm_id, house.name, month)
        if figures is None:
            rows.append((house.name, house.crop, *("-",) * 6, _RESTING))
            continue
        rows.append(
            (
                house.name,
                house.crop,
                figures.supply_ec,
                figures.supply_ph,
                figures.drain_ec,
                figures.drain_ph,
                figures.drain_rate,
                figures.litres,
                "",
            )
        )
        for kind, subject, value, unit in (
            ("drain_rate_month", "월평균 배액률", figures.drain_rate, "%"),
            ("supply_ec_month", "월평균 급액 EC", figures.supply_ec, "dS/m"),
            ("drain_ec_month", "월평균 배액 EC", figures.drain_ec, "dS/m"),
            ("supply_litres_month", "월 급액량", figures.litres, "L"),
        ):
            text = str(value) if isinstance(value, int) else number(value)
            ledger.add(
                date=month,
                kind=kind,
                subject=subject,
                path=path,
                house=house.name,
                value=text,
                unit=unit,
                note=f"{_month_name(month)} {house.label} {subject} {text}{unit}",
            )
    table = Table(_DRAIN_HEADER, tuple(rows))
    document = Document(
        f"{_month_name(month)} 급액·배액 월간 요약", _meta(plan, month), (Section("동별 평균", (table,)),)
    )
    return _file(plan, month, path, "급액배액요약", document, ledger)


def _climate(plan: FarmPlan, month: str, ledger: Ledger, encoding: str) -> SampleFile:
    path = f"센서/{month}_센서요약.csv"
    rows: list[tuple[Cell, ...]] = []
    for house in plan.farm.houses:
        figures = climate_month(plan.farm.farm_id, house.name, month)
        place = (plan.farm.name, month, house.name, house.crop)
        if figures is None:
            rows.append((*place, *("-",) * 9, f"{_RESTING}, {SYNTHETIC_LABEL}"))
            continue
        rows.append(
            (
                *place,
                f"{figures.day_temp:.1f}",
                f"{figures.night_temp:.1f}",
                figures.day_humidity,
                figures.night_humidity,
                figures.co2,
                f"{figures.highest:.1f}",
                figures.highest_day.isoformat(),
                f"{figures.lowest:.1f}",
                figures.lowest_day.isoformat(),
                SYNTHETIC_LABEL,
            )
        )
        for kind, subject, value, unit, when in (
            ("temp_max", "월 최고온도", figures.highest, "℃", figures.highest_day.isoformat()),
            ("temp_min", "월 최저온도", figures.lowest, "℃", figures.lowest_day.isoformat()),
            ("temp_night_month", "야간 평균온도", figures.night_temp, "℃", ""),
            ("temp_day_month", "주간 평균온도", figures.day_temp, "℃", ""),
        ):
            ledger.add(
                date=month,
                kind=kind,
                subject=subject,
                path=path,
                house=house.name,
                value=f"{value:.1f}",
                unit=unit,
                note=f"{_month_name(month)} {house.label} {subject} {value:.1f}{unit} {when}".strip(),
            )
    document = Document(
        f"{_month_name(month)} 센서 월간 요약",
        _meta(plan, month),
        (Section("", (Table(_CLIMATE_HEADER, tuple(rows)),)),),
    )
    return _file(plan, month, path, "센서요약", document, ledger, encoding)


def _harvest(plan: FarmPlan, month: str, ledger: Ledger) -> SampleFile:
    path = f"수확/{month}_수확기록.xlsx"
    weekly: list[tuple[Cell, ...]] = []
    totals: list[tuple[Cell, ...]] = []
    for house in plan.farm.houses:
        weeks = harvest_weeks(plan.farm.farm_id, house.name, month)
        for week in weeks:
            span = f"{week.first:%m-%d}~{week.last:%m-%d}"
            weekly.append((house.name, house.crop, f"{week.week}주", span, *week.grades, week.total))
        total = month_total(plan.farm.farm_id, house.name, month)
        if not weeks:
            totals.append((house.name, house.crop, "-", "-", "-", "수확 없음"))
            continue
        by_grade = [sum(week.grades[n] for week in weeks) for n in range(len(GRADES))]
        totals.append((house.name, house.crop, *by_grade, total))
        for kind, subject, value in (
            ("harvest_month", "월 수확량", total),
            ("harvest_month_top_grade", "월 특 등급 수확량", by_grade[0]),
        ):
            ledger.add(
                date=month,
                kind=kind,
                subject=subject,
                path=path,
                house=house.name,
                value=str(value),
                unit="kg",
                note=f"{_month_name(month)} {house.label} {subject} {value}kg",
            )
    total_header = ("동", "작목", *(f"{grade}(kg)" for grade in GRADES), "월 합계(kg)")
    sections = (
        Section("월 합계", (Table(total_header, tuple(totals)),)),
        Section("주별 기록", (Table(_HARVEST_HEADER, tuple(weekly)),)),
    )
    document = Document(f"{_month_name(month)} 수확 기록", _meta(plan, month), sections)
    return _file(plan, month, path, "수확기록", document, ledger)


def monthly_papers(plan: FarmPlan, ledger: Ledger) -> list[SampleFile]:
    """Three summaries per month."""
    files = []
    for index, month in enumerate(months()):
        encoding = "utf-8-sig" if index % _BOM_EVERY else "utf-8"
        if month == _CP949_MONTHS[plan.farm.farm_id]:
            encoding = "cp949"
        files.append(_drain(plan, month, ledger))
        files.append(_climate(plan, month, ledger, encoding))
        files.append(_harvest(plan, month, ledger))
    return files
