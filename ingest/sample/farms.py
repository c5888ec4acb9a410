"""The two synthetic farms: their documents, and the ledger of what the documents state.

from ingest.sample.farms import farm_events, farm_files
farm_events("haetsal")   # list[Event], oldest first
"""

from __future__ import annotations

from functools import cache

from ingest.sample.events import Event, Ledger
from ingest.sample.farm_plan import plan_farm
from ingest.sample.farm_spec import FARMS
from ingest.sample.model import SampleFile
from ingest.sample.monthly_papers import monthly_papers
from ingest.sample.office_papers import office_papers
from ingest.sample.repairs import repair_notes
from ingest.sample.worklog import write_log

FARM_IDS: tuple[str, ...] = tuple(FARMS)


@cache
def _written(farm_id: str) -> tuple[tuple[SampleFile, ...], tuple[Event, ...]]:
    plan, ledger = plan_farm(farm_id), Ledger(farm_id)
    files = [write_log(plan, log, ledger) for log in plan.log_days]
    files += monthly_papers(plan, ledger)
    files += repair_notes(plan, ledger)
    files += office_papers(plan, ledger)
    return tuple(files), tuple(ledger.events)


def farm_files(farm_id: str) -> list[SampleFile]:
    """All documents of one farm."""
    return list(_written(farm_id)[0])


def farm_events(farm_id: str) -> list[Event]:
    """Every checkable statement of one farm's documents, oldest first."""
    return list(_written(farm_id)[1])
