"""Quarterly papers of a farm: meeting minutes, contracts, inspection sheets, power cut reports."""

from __future__ import annotations

import random
from datetime import date, timedelta

from ingest.sample.events import Event, Ledger
from ingest.sample.farm_plan import FarmPlan, PowerCut, stream
from ingest.sample.korean import expand, particles, won
from ingest.sample.model import (
    SYNTHETIC_LABEL,
    Bullets,
    Cell,
    Document,
    Paragraph,
    SampleFile,
    Section,
    Table,
)

_MEETING_MONTHS = (3, 6, 9, 12)
_MEETING_FORMATS = ("docx", "hwpx", "md", "pdf")
_PAPER_FORMATS = ("hwpx", "pdf", "docx", "md")
_BUYERS = ("가람로컬푸드 매장", "새벽채소 유통", "한들마트 물류센터", "온누리 학교급식센터")
_SUPPLIERS = ("푸름육묘장", "다온농자재", "누리에너지", "해오름포장")

# subject, sentence, unit, lowest, highest, step of the figure
_DECISIONS: tuple[tuple[str, str, str, int, int, int], ...] = (
    ("목표 배액률", "{house}의 다음 분기 목표 배액률을 {value}%로 정했다.", "%", 22, 42, 1),
    (
        "보광등 구입 예산",
        "{house}에 보광등을 늘리기로 하고 예산을 {value}원으로 정했다.",
        "원",
        2_400_000,
        6_800_000,
        100_000,
    ),
    ("외국인 계절근로자 인원", "다음 분기 계절근로자를 {value}명 쓰기로 했다.", "명", 2, 7, 1),
    ("목표 수확량", "{house}의 다음 분기 수확 목표를 {value}kg으로 잡았다.", "kg", 2_000, 14_000, 100),
    ("포장 상자 주문량", "2kg 포장 상자를 {value}개 주문하기로 했다.", "개", 3_000, 9_000, 500),
    ("난방유 절감 목표", "난방유 사용량을 지난해 같은 분기보다 {value}% 줄이기로 했다.", "%", 5, 18, 1),
    ("안전교육 시간", "농약 취급 안전교육을 한 사람에 {value}시간씩 하기로 했다.", "시간", 2, 6, 1),
    ("배지 교체 예산", "{house} 배지 교체 예산을 {value}원으로 정했다.", "원", 1_800_000, 5_200_000, 100_000),
    ("센서 교정 주기", "EC·pH 센서는 {value}일마다 표준액으로 교정하기로 했다.", "일", 10, 30, 1),
    ("불량과 비율 목표", "{house} 비상품과 비율을 {value}% 아래로 낮추기로 했다.", "%", 4, 12, 1),
    ("시간외 작업 한도", "시간외 작업은 한 주에 {value}시간을 넘기지 않기로 했다.", "시간", 6, 12, 1),
    ("비상발전기 시험 횟수", "비상발전기 시험 운전을 분기에 {value}번 하기로 했다.", "번", 3, 12, 1),
)

_CHECK_ITEMS = (
    ("양액기 A·B액 잔량", "%"),
    ("원수 EC", "dS/m"),
    ("급액 펌프 압력", "bar"),
    ("점적 유량 편차", "%"),
    ("비상발전기 연료", "L"),
    ("소화기 압력", "MPa"),
    ("난방유 잔량", "L"),
    ("환기창 개폐 시간", "초"),
)
_CHECK_RANGES = {
    "양액기 A·B액 잔량": (25, 95, 0),
    "원수 EC": (0.12, 0.34, 2),
    "급액 펌프 압력": (1.7, 2.6, 1),
    "점적 유량 편차": (3.0, 12.0, 1),
    "비상발전기 연료": (40, 180, 0),
    "소화기 압력": (0.72, 0.95, 2),
    "난방유 잔량": (600, 4800, 0),
    "환기창 개폐 시간": (95, 260, 0),
}


def _quarter_name(day: date) -> str:
    return f"{day.year}년 {(day.month + 2) // 3}분기"


def meeting_days(plan: FarmPlan) -> list[date]:
    """The second logged day of every quarter's last month."""
    by_month: dict[str, list[date]] = {}
    for log in plan.log_days:
        if log.day.month in _MEETING_MONTHS:
            by_month.setdefault(f"{log.day:%Y-%m}", []).append(log.day)
    return [days[1] for days in by_month.values()]


def meeting_quarter(plan: FarmPlan, day: date) -> str:
    """Name of the quarter whose meeting is held on `day`, or ""."""
    return _quarter_name(day) if day in meeting_days(plan) else ""


def _meta(plan: FarmPlan, day: date, author: str) -> tuple[str, ...]:
    return (
        SYNTHETIC_LABEL,
        f"농장: {plan.farm.name} · 날짜: {day.isoformat()} · 작성자: {author}",
    )


def _file(
    plan: FarmPlan, path: str, kind: str, document: Document, day: date, author: str, events: list[Event]
) -> SampleFile:
    houses = tuple(sorted({event.house for event in events if event.house}))
    crops = dict.fromkeys(plan.farm.house(name).crop for name in houses)
    return SampleFile(
        scope=plan.farm.farm_id,
        path=path,
        kind=kind,
        document=document,
        crop=", ".join(crops),
        date=day.isoformat(),
        author=author,
        houses=houses,
        event_ids=tuple(event.event_id for event in events),
    )


def _author(plan: FarmPlan, rng: random.Random) -> str:
    return rng.choice(plan.farm.authors)[0]


def _meeting(plan: FarmPlan, day: date, extension: str, ledger: Ledger) -> SampleFile:
    rng = stream(plan.farm.farm_id, "meeting", day)
    author = _author(plan, rng)
    path = f"회의록/{day.isoformat()}_분기운영회의.{extension}"
    lines, events = [], []
    for subject, template, unit, low, high, step in rng.sample(_DECISIONS, rng.choice((3, 4))):
        house = rng.choice(plan.farm.houses) if "{house}" in template else None
        value = won(rng.randrange(low, high + 1, step))
        label = house.label if house else ""
        lines.append(expand(rng, template, house=label, value=value))
        events.append(
            ledger.add(
                date=day.isoformat(),
                kind="decision",
                subject=subject,
                path=path,
                author=author,
                house=house.name if house else "",
                value=value,
                unit=unit,
                note=lines[-1],
            )
        )
    people = ", ".join(name for name, _, _ in plan.farm.authors)
    past = rng.choice(("배액 관리", "병해충 예찰", "난방비", "선별 인력", "수리 이력"))
    sections = (
        Section("참석", (Paragraph(f"{people} (모두 {len(plan.farm.authors)}명)"),)),
        Section("지난 분기 돌아보기", (Paragraph(f"{past} 자료를 함께 보고, 기록이 빠진 날을 줄이기로 했다."),)),
        Section("결정 사항", (Bullets(tuple(lines), ordered=True),)),
        Section("다음 회의", (Paragraph("다음 분기 마지막 달 둘째 작업일에 열기로 했다."),)),
    )
    title = f"{_quarter_name(day)} 운영회의 회의록"
    document = Document(title=title, meta=_meta(plan, day, author), sections=sections)
    return _file(plan, path, "회의록", document, day, author, events)


def _supply_contract(plan: FarmPlan, day: date, extension: str, ledger: Ledger) -> SampleFile:
    rng = stream(plan.farm.farm_id, "supply-contract", day)
    author, house = _author(plan, rng), rng.choice(plan.farm.houses)
    path = f"계약/{day.isoformat()}_{house.crop}_납품계약.{extension}"
    buyer = rng.choice(_BUYERS)
    price, weekly = won(rng.randrange(2_800, 9_600, 100)), rng.randrange(80, 620, 20)
    if house.crop == "와사비":
        price, weekly = won(rng.randrange(31_000, 58_000, 1_000)), rng.randrange(6, 20, 2)
    end = day + timedelta(days=180)
    clauses = (
        f"품목은 {house.label}({house.cultivar})로 하고 특·상 등급만 납품한다.",
        f"납품 단가는 1kg에 {price}원으로 한다.",
        f"납품 물량은 한 주에 {weekly}kg으로 하고 10% 안에서 늘리거나 줄일 수 있다.",
        f"계약 기간은 {day.isoformat()}부터 {end.isoformat()}까지로 한다.",
        "대금은 납품한 달의 다음 달 15일까지 지급한다.",
        "농약 안전사용기준을 지키고 방제 기록을 요청하면 보여 준다.",
    )
    events = [
        ledger.add(
            date=day.isoformat(),
            kind="contract",
            house=house.name,
            author=author,
            path=path,
            subject=f"{buyer} 납품 {what}",
            value=value,
            unit=unit,
            note=note,
        )
        for what, value, unit, note in (
            ("단가", price, "원/kg", clauses[1]),
            ("물량", str(weekly), "kg/주", clauses[2]),
        )
    ]
    sections = (
        Section("계약 당사자", (Paragraph(f"공급자는 {plan.farm.name}, 구매자는 {buyer}이다."),)),
        Section("계약 조건", (Bullets(clauses, ordered=True),)),
    )
    document = Document(f"{house.crop} 납품 계약서", _meta(plan, day, author), sections)
    return _file(plan, path, "계약서", document, day, author, events)


def _purchase_contract(plan: FarmPlan, day: date, extension: str, ledger: Ledger) -> SampleFile:
    rng = stream(plan.farm.farm_id, "purchase-contract", day)
    author, house = _author(plan, rng), rng.choice([h for h in plan.farm.houses if h.crop != "와사비"])
    path = f"계약/{day.isoformat()}_{house.name}_모종구매계약.{extension}"
    supplier = rng.choice(_SUPPLIERS)
    plants, price = rng.randrange(2_400, 9_000, 100), rng.randrange(380, 1_450, 10)
    total = won(plants * price)
    note = f"모종 {won(plants)}주를 1주당 {won(price)}원, 모두 {total}원에 산다."
    event = ledger.add(
        date=day.isoformat(),
        kind="contract",
        house=house.name,
        author=author,
        path=path,
        subject=f"{house.crop} 모종 구매 금액",
        value=total,
        unit="원",
        note=note,
    )
    rows: tuple[tuple[Cell, ...], ...] = (
        ("품목", f"{house.crop} {house.cultivar} 모종"),
        ("수량", f"{won(plants)}주"),
        ("단가", f"{won(price)}원"),
        ("금액", f"{total}원"),
        ("공급자", supplier),
        ("대상", house.label),
    )
    sections = (
        Section("계약 내용", (Paragraph(note), Table(("항목", "내용"), rows))),
        Section("특약", (Paragraph("활착 전에 죽은 모종은 3% 넘는 수량을 다시 공급한다."),)),
    )
    document = Document(f"{house.crop} 모종 구매 계약서", _meta(plan, day, author), sections)
    return _file(plan, path, "계약서", document, day, author, [event])


def _inspection(plan: FarmPlan, day: date, extension: str, ledger: Ledger) -> SampleFile:
    rng = stream(plan.farm.farm_id, "inspection", day)
    author = _author(plan, rng)
    path = f"점검표/{day.isoformat()}_시설점검표.{extension}"
    rows: list[tuple[Cell, ...]] = []
    events = []
    for item, unit in rng.sample(_CHECK_ITEMS, 6):
        house = rng.choice(plan.farm.houses)
        low, high, digits = _CHECK_RANGES[item]
        value = f"{rng.uniform(low, high):.{digits}f}"
        verdict = rng.choice(("양호", "양호", "양호", "주의", "조치 필요"))
        rows.append((house.label, item, f"{value}{unit}", verdict))
        events.append(
            ledger.add(
                date=day.isoformat(),
                kind="inspection",
                subject=item,
                path=path,
                house=house.name,
                author=author,
                value=value,
                unit=unit,
                note=f"{house.label} {item} {value}{unit}, {verdict}",
            )
        )
    sections = (
        Section("점검 결과", (Table(("대상", "항목", "측정값", "판정"), tuple(rows)),)),
        Section("조치", (Paragraph("주의와 조치 필요 항목은 한 주 안에 다시 점검하고 수리 기록에 남긴다."),)),
    )
    document = Document(f"{_quarter_name(day)} 시설 점검표", _meta(plan, day, author), sections)
    return _file(plan, path, "점검표", document, day, author, events)


def _power_cut_report(plan: FarmPlan, cut: PowerCut, ledger: Ledger) -> SampleFile:
    rng = stream(plan.farm.farm_id, "power-cut", cut.day)
    author = _author(plan, rng)
    path = f"시설/{cut.day.isoformat()}_정전대응보고.docx"
    delay, minutes, reading = rng.randint(3, 14), str(cut.minutes), f"{cut.temperature:.1f}"
    extreme = "최고" if cut.day.month in (6, 7, 8) else "최저"
    outage = particles(f"{cut.cause}(으로/로) {minutes}분 동안 정전되었다.")
    steps = (
        f"정전을 알아차린 뒤 {delay}분 만에 비상발전기를 돌렸다.",
        "양액 펌프와 순환펌프, 제어기 순서로 전원을 넣었다.",
        f"{cut.house.label} 온도를 5분마다 적었고 {extreme} {reading}℃였다.",
        "복전 뒤 제어기 시각과 급액 일정을 다시 맞추었다.",
    )
    facts = (
        ("power_cut", "정전 시간", minutes, "분", outage),
        ("power_cut_response", "발전기 기동까지 걸린 시간", str(delay), "분", steps[0]),
    )
    events = [
        ledger.add(
            date=cut.day.isoformat(),
            kind=kind,
            house=cut.house.name,
            author=author,
            path=path,
            subject=subject,
            value=value,
            unit=unit,
            note=note,
        )
        for kind, subject, value, unit, note in facts
    ]
    sections = (
        Section("개요", (Paragraph(outage),)),
        Section("대응 순서", (Bullets(steps, ordered=True),)),
        Section("보완할 점", (Paragraph("정전 경보를 휴대전화 두 대로 나누어 받고, 발전기 연료를 달마다 점검한다."),)),
    )
    document = Document(f"{cut.day.isoformat()} 정전 대응 보고", _meta(plan, cut.day, author), sections)
    return _file(plan, path, "정전보고", document, cut.day, author, events)


def office_papers(plan: FarmPlan, ledger: Ledger) -> list[SampleFile]:
    """Per quarter one meeting and one contract or inspection sheet, plus the power cut reports."""
    writers = (_supply_contract, _inspection, _purchase_contract, _inspection)
    files = []
    for index, day in enumerate(meeting_days(plan)):
        files.append(_meeting(plan, day, _MEETING_FORMATS[index % 4], ledger))
        write = writers[index % 4]
        files.append(write(plan, day + timedelta(days=3), _PAPER_FORMATS[index % 4], ledger))
    return files + [_power_cut_report(plan, cut, ledger) for cut in plan.power_cuts]
