"""Repair notes: symptom, cause, fix, cost and downtime of one failure."""

from __future__ import annotations

from ingest.sample.events import Ledger
from ingest.sample.farm_plan import FarmPlan, Repair
from ingest.sample.korean import particles, won
from ingest.sample.model import SYNTHETIC_LABEL, Cell, Document, Paragraph, SampleFile, Section, Table


def _cost_rows(repair: Repair) -> tuple[tuple[Cell, ...], ...]:
    return (
        ("부품", repair.fault.part),
        ("부품비", f"{won(repair.parts_won)}원"),
        ("인건비", f"{won(repair.labour_won)}원"),
        ("합계", f"{won(repair.parts_won + repair.labour_won)}원"),
        ("멈춘 시간", f"{repair.downtime_hours}시간"),
        ("수리 기사", repair.technician),
    )


def _sections(repair: Repair, vendor: str) -> tuple[Section, ...]:
    fault = repair.fault
    summary = (
        f"{repair.house.label}의 {fault.equipment} 원인은 {particles(fault.cause + '(이었다/였다)')}. "
        f"부품비는 {won(repair.parts_won)}원, 멈춘 시간은 {repair.downtime_hours}시간이다."
    )
    return (
        Section("증상", (Paragraph(fault.symptom),)),
        Section("점검과 원인", (Paragraph(f"{fault.check} 원인은 {particles(fault.cause + '(으로/로)')} 보았다."),)),
        Section("조치", (Paragraph(f"{vendor} {repair.technician}가 {fault.fix} {fault.after}"),)),
        Section("비용과 시간", (Table(("항목", "내용"), _cost_rows(repair)), Paragraph(summary))),
    )


def _record(repair: Repair, ledger: Ledger) -> None:
    equipment = repair.fault.equipment
    facts = (
        ("repair_parts_cost", f"{equipment} 수리 부품비", won(repair.parts_won), "원"),
        ("repair_total_cost", f"{equipment} 수리 합계", won(repair.parts_won + repair.labour_won), "원"),
        ("repair_downtime", f"{equipment} 멈춘 시간", str(repair.downtime_hours), "시간"),
        ("repair_cause", f"{equipment} 고장 원인", repair.fault.cause, ""),
    )
    for kind, subject, value, unit in facts:
        ledger.add(
            date=repair.day.isoformat(),
            kind=kind,
            subject=subject,
            path=repair.path,
            house=repair.house.name,
            author=repair.author,
            value=value,
            unit=unit,
            note=f"{repair.house.label} {equipment}: {repair.fault.cause}",
        )


def repair_notes(plan: FarmPlan, ledger: Ledger) -> list[SampleFile]:
    """One note per repair of the plan."""
    files = []
    for repair in plan.repairs:
        _record(repair, ledger)
        meta = (
            SYNTHETIC_LABEL,
            f"농장: {plan.farm.name} · 날짜: {repair.day.isoformat()} · 작성자: {repair.author}"
            f" · 대상: {repair.house.label}",
        )
        title = f"{repair.fault.equipment} 수리 기록"
        files.append(
            SampleFile(
                scope=plan.farm.farm_id,
                path=repair.path,
                kind="수리기록",
                document=Document(title, meta, _sections(repair, plan.farm.vendor)),
                crop=repair.house.crop,
                date=repair.day.isoformat(),
                author=repair.author,
                houses=(repair.house.name,),
                event_ids=ledger.ids_for(repair.path),
            )
        )
    return files
