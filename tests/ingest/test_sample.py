"""The demo corpus: reproducible, complete, and true to its own ledger."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import docx
import hwp2md
import pypdfium2
import pytest
from python_calamine import CalamineWorkbook

from ingest.sample.build import SMALL_COUNT, CorpusManifest, build_corpus, corpus_files, read_manifest
from ingest.sample.events import Event
from ingest.sample.farm_plan import months, plan_farm
from ingest.sample.farms import FARM_IDS, farm_events
from ingest.sample.formats import FORMATS, render, write_text
from ingest.sample.knowledge import parse_markdown
from ingest.sample.korean import expand, particles, restyle
from ingest.sample.model import Bullets, Document, Paragraph, SampleFile, Section, Table
from ingest.sample.monthly_figures import drain_month, harvest_weeks, month_total
from ingest.sample.registration_rows import registrations
from ingest.sample.registrations import product_sentence

SYNTHETIC = "합성 자료(시연용)"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusManifest:
    return build_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def texts(corpus: CorpusManifest) -> dict[tuple[str, str], str]:
    """Text of every farm document, read back from its file."""
    farm_entries = [entry for entry in corpus.entries if entry.scope != "public"]
    return {(entry.scope, entry.path): _read(corpus.target / entry.location, entry.encoding) for entry in farm_entries}


def _read_docx(path: Path) -> str:
    word = docx.Document(str(path))
    cells = [cell.text for table in word.tables for row in table.rows for cell in row.cells]
    return "\n".join([paragraph.text for paragraph in word.paragraphs] + cells)


def _read_pdf(path: Path) -> str:
    with pypdfium2.PdfDocument(str(path)) as pdf:
        return "\n".join(page.get_textpage().get_text_bounded() for page in pdf)


def _read_xlsx(path: Path) -> str:
    book = CalamineWorkbook.from_path(str(path))
    sheets = [book.get_sheet_by_name(name).to_python() for name in book.sheet_names]
    return "\n".join(" ".join(str(cell) for cell in row) for sheet in sheets for row in sheet)


def _read(path: Path, encoding: str) -> str:
    readers = {"docx": _read_docx, "pdf": _read_pdf, "xlsx": _read_xlsx}
    extension = path.suffix[1:]
    if extension in readers:
        return readers[extension](path)
    if extension == "hwpx":
        return hwp2md.convert_bytes(path.read_bytes()).markdown
    return path.read_bytes().decode(encoding)


def _events_by_document() -> dict[tuple[str, str], list[Event]]:
    found = defaultdict(list)
    for farm_id in FARM_IDS:
        for event in farm_events(farm_id):
            found[farm_id, event.path].append(event)
    return found


# The corpus as a whole


def test_corpus_is_large_and_paths_are_unique(corpus: CorpusManifest) -> None:
    places = [entry.location for entry in corpus.entries]
    assert len(places) > 700
    assert len(set(places)) == len(places)
    assert all((corpus.target / place).is_file() for place in places)


def test_every_format_is_present(corpus: CorpusManifest) -> None:
    assert {entry.format for entry in corpus.entries} == set(FORMATS)


def test_another_process_writes_the_same_bytes(corpus: CorpusManifest, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Seoul"}
    command = [sys.executable, "-m", "ingest.sample.build", str(tmp_path), "--small"]
    root = Path(__file__).parents[2]
    subprocess.run(command, check=True, capture_output=True, cwd=root, env=environment)
    full = {entry.location: entry.sha256 for entry in corpus.entries}
    small = read_manifest(tmp_path)
    assert {entry.location: entry.sha256 for entry in small.entries}.items() <= full.items()


def test_small_corpus_covers_every_kind_and_format(corpus: CorpusManifest, tmp_path: Path) -> None:
    small = build_corpus(tmp_path, only_small=True)
    assert len(small.entries) == SMALL_COUNT
    for trait in ("kind", "format", "scope", "encoding"):
        assert {getattr(e, trait) for e in small.entries} == {getattr(e, trait) for e in corpus.entries}
    assert any(entry.date == "2026-11-24" for entry in small.entries)


def test_unchanged_corpus_is_left_alone_and_a_missing_file_is_written_again(tmp_path: Path) -> None:
    first = build_corpus(tmp_path, only_small=True)
    kept, lost = (tmp_path / first.entries[n].location for n in (0, 1))
    before = kept.stat().st_mtime_ns
    assert build_corpus(tmp_path, only_small=True) == first
    assert kept.stat().st_mtime_ns == before
    lost.unlink()
    assert build_corpus(tmp_path, only_small=True) == first
    assert lost.is_file()


def test_rebuild_removes_what_an_earlier_build_wrote(tmp_path: Path) -> None:
    build_corpus(tmp_path, only_small=True)
    stale = tmp_path / "public" / "낡은.md"
    stale.write_text("낡은 문서", encoding="utf-8")
    manifest = tmp_path / "manifest.jsonl"
    first, *_ = manifest.read_text(encoding="utf-8").splitlines()
    line = json.dumps({**json.loads(first), "path": "낡은.md"}, ensure_ascii=False)
    manifest.write_text(manifest.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    (tmp_path / "build.json").unlink()
    build_corpus(tmp_path, only_small=True)
    assert not stale.exists()


# The farms and their ledger


def test_every_farm_document_says_that_it_is_synthetic(texts: dict[tuple[str, str], str]) -> None:
    assert [key for key, text in texts.items() if SYNTHETIC not in text] == []


def test_every_ledger_figure_stands_in_the_named_document(texts: dict[tuple[str, str], str]) -> None:
    missing = [
        event.event_id
        for key, events in _events_by_document().items()
        for event in events
        if event.value and event.value not in texts[key]
    ]
    assert missing == []


def test_log_events_stand_in_the_log_word_for_word(texts: dict[tuple[str, str], str]) -> None:
    events = [e for key, found in _events_by_document().items() for e in found if e.path.startswith("작업일지/")]
    assert len(events) > 1000
    for event in events:
        text = texts[event.farm_id, event.path].replace("\\", "")
        assert event.note in text, event.event_id


def test_manifest_names_exactly_the_events_of_each_document(corpus: CorpusManifest) -> None:
    expected = {key: {event.event_id for event in events} for key, events in _events_by_document().items()}
    listed = {(e.scope, e.path): set(e.event_ids) for e in corpus.entries if e.event_ids}
    assert listed == expected


def test_event_ids_are_unique() -> None:
    ids = [event.event_id for farm_id in FARM_IDS for event in farm_events(farm_id)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("farm_id", FARM_IDS)
def test_treatment_words_mark_exactly_the_spray_days(farm_id: str, texts: dict[tuple[str, str], str]) -> None:
    sprayed = {event.path for event in farm_events(farm_id) if event.kind == "spray"}
    logs = {path: text for (scope, path), text in texts.items() if scope == farm_id and path.startswith("작업일지/")}
    assert {path for path, text in logs.items() if "방제" in text or "살포" in text} == sprayed
    months_sprayed = {path.split("/")[2][:7] for path in sprayed}
    assert months_sprayed == set(months())


@pytest.mark.parametrize("farm_id", FARM_IDS)
def test_logs_are_written_at_least_every_tuesday_and_friday(farm_id: str) -> None:
    days = [log.day for log in plan_farm(farm_id).log_days]
    assert 205 <= len(days) <= 235
    assert max((later - earlier).days for earlier, later in pairwise(days)) <= 4


def test_the_tuesday_of_the_demo_question_has_one_log_per_farm(corpus: CorpusManifest) -> None:
    logs = {e.scope: e for e in corpus.entries if e.kind == "작업일지" and e.date == "2026-11-24"}
    assert {scope: entry.author for scope, entry in logs.items()} == {"haetsal": "김주임", "pureun": "한주임"}
    assert logs["haetsal"].path == "작업일지/2026/2026-11-24_작업일지_김주임.md"


def test_nothing_is_picked_between_a_spray_and_its_harvest_limit() -> None:
    for farm_id in FARM_IDS:
        plan = plan_farm(farm_id)
        for event in farm_events(farm_id):
            if event.kind in ("harvest_day", "first_harvest"):
                house = plan.farm.house(event.house)
                waiting = [s for s in plan.sprays if s.house == house and f"{s.day}" < event.date < f"{s.harvest_from}"]
                assert waiting == [], event.event_id


def test_same_house_names_differ_between_the_farms() -> None:
    compared = 0
    for month in months():
        for name in ("1동", "2동", "3동", "4동"):
            one, other = (drain_month(farm_id, name, month) for farm_id in FARM_IDS)
            if one and other:
                compared += 1
                assert one.drain_rate != other.drain_rate
                assert one.supply_ec != other.supply_ec
            totals = [month_total(farm_id, name, month) for farm_id in FARM_IDS]
            assert totals == [0, 0] or totals[0] != totals[1]
        days = [{s.day for s in plan_farm(farm_id).sprays if f"{s.day:%Y-%m}" == month} for farm_id in FARM_IDS]
        assert days[0] != days[1]
    assert compared > 60


def test_monthly_total_is_the_sum_of_the_weekly_rows() -> None:
    weeks = harvest_weeks("haetsal", "3동", "2026-03")
    assert len(weeks) == 5
    assert month_total("haetsal", "3동", "2026-03") == sum(sum(week.grades) for week in weeks)


def test_one_sensor_summary_per_farm_is_cp949(corpus: CorpusManifest) -> None:
    old = [entry for entry in corpus.entries if entry.encoding == "cp949"]
    assert [entry.scope for entry in old] == list(FARM_IDS)
    for entry in old:
        data = (corpus.target / entry.location).read_bytes()
        with pytest.raises(UnicodeDecodeError):
            data.decode("utf-8")
        rows = list(csv.DictReader(io.StringIO(data.decode("cp949"))))
        assert {row["농장"] for row in rows} == {plan_farm(entry.scope).farm.name}


# Public documents


def test_registration_documents_carry_date_and_caution(corpus: CorpusManifest) -> None:
    entries = [entry for entry in corpus.entries if entry.kind == "농약등록"]
    assert len(entries) > 100
    for entry in entries:
        text = _read(corpus.target / entry.location, entry.encoding)
        assert "2026-04-24 (식품의약품안전처 농약 등록정보)" in text
        assert "psis.rda.go.kr" in text


def test_product_sentence_reads_as_korean() -> None:
    row = next(row for row in registrations() if row.id == "pr00036")
    assert product_sentence(row) == (
        "플로니카미드 입상수화제(상표 크로스, (주)팜한농): 희석배수 3000배, 다발생기에 사용, "
        "수확 2일 전까지, 3회 이내, 등록 유효기간 2025-09-29."
    )


def test_law_documents_show_article_date_and_snapshot(corpus: CorpusManifest) -> None:
    entry = next(e for e in corpus.entries if e.path.startswith("법령/농약관리법/제14조_"))
    text = _read(corpus.target / entry.location, entry.encoding)
    assert "농약관리법 제14조(직권에 의한 품목등록의 취소 등)" in text
    assert "시행일: 2026-05-12" in text
    assert "수록 기준: 2026-06" in text


def test_knowledge_shows_its_date_kind_and_crop_in_every_format(corpus: CorpusManifest) -> None:
    entries = [entry for entry in corpus.entries if entry.path.startswith("재배기술/")]
    assert {entry.format for entry in entries} == {"md", "txt", "docx", "pdf", "hwpx"}
    for entry in entries:
        text = _read(corpus.target / entry.location, entry.encoding)
        assert f"작성일: {entry.date} · 분류: {entry.kind} · 작목: {entry.crop}" in text.replace("\\", "")


# Writers and Korean tools

SAMPLE = Document(
    "양액 점검",
    ("작성일: 2026-03-05",),
    (
        Section("순서", (Paragraph("급액 EC를 잰다."), Bullets(("물을 받는다.", "EC를 읽는다."), ordered=True))),
        Section("기준", (Bullets(("pH 5.8",)), Table(("동", "EC"), (("1동", 2.5), ("2동", 2.3))))),
    ),
)


@pytest.mark.parametrize("extension", FORMATS)
def test_each_format_is_stable_and_reads_back(extension: str, tmp_path: Path) -> None:
    file = SampleFile(scope="public", path=f"시험.{extension}", kind="양액", document=SAMPLE)
    data = render(file)
    assert render(file) == data
    path = tmp_path / file.path
    path.write_bytes(data)
    text = _read(path, "utf-8")
    for expected in ("물을 받는다.", "2동", "2.3"):
        assert expected in text
    if extension != "csv":
        assert "양액 점검" in text


def test_word_lists_restart_their_numbers(tmp_path: Path) -> None:
    section = Section(
        "순서", (Bullets(("하나", "둘"), ordered=True), Paragraph("사이"), Bullets(("셋",), ordered=True))
    )
    path = tmp_path / "list.docx"
    path.write_bytes(
        render(SampleFile(scope="public", path="list.docx", kind="재배", document=Document("제목", (), (section,))))
    )
    items = [p for p in docx.Document(str(path)).paragraphs if p.style is not None and p.style.name == "List Number"]
    numbers = [int(p._p.xpath("./w:pPr/w:numPr/w:numId/@w:val")[0]) for p in items]
    assert numbers[0] == numbers[1] != numbers[2]


def test_markdown_is_parsed_into_the_neutral_document() -> None:
    text = "# 제목\n\n첫 문장.\n둘째 문장.\n\n## 표\n\n| 동 | EC |\n|---|---|\n| 1동 | 2.5 |\n\n"
    text += "### 순서\n1. 가\n2. 나\n- 다\n"
    document = parse_markdown(text, ("작성일: 2026-03-05",))
    assert document.title == "제목"
    assert [(section.heading, section.level) for section in document.sections] == [("", 2), ("표", 2), ("순서", 3)]
    assert document.sections[0].blocks == (Paragraph("첫 문장. 둘째 문장."),)
    assert document.sections[1].blocks == (Table(("동", "EC"), (("1동", "2.5"),)),)
    assert document.sections[2].blocks == (Bullets(("가", "나"), ordered=True), Bullets(("다",)))


def test_plain_text_numbers_its_sections() -> None:
    assert "1. 순서\n" in write_text(SAMPLE)
    assert "동: 1동, EC: 2.5" in write_text(SAMPLE)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("담배가루이(을/를)", "담배가루이를"),
        ("흰가루병(이/가)", "흰가루병이"),
        ("400L(을/를)", "400L을"),
        ("pH 6.0(이었고/였고)", "pH 6.0이었고"),
        ("낙뢰(으로/로)", "낙뢰로"),
        ("연필(으로/로)", "연필로"),
    ],
)
def test_particles(raw: str, expected: str) -> None:
    assert particles(raw) == expected


def test_styles_change_only_the_endings() -> None:
    text = "1동을 유인했다. 다시 잴 예정이다."
    assert restyle(text, "plain") == text
    assert restyle(text, "memo") == "1동을 유인했음. 다시 잴 예정임."
    assert restyle(text, "polite") == "1동을 유인했습니다. 다시 잴 예정입니다."


def test_unknown_template_names_are_refused() -> None:
    with pytest.raises(KeyError):
        expand(random.Random(1), "{nobody}")


def test_all_documents_have_a_writer() -> None:
    assert {file.format for file in corpus_files()} <= set(FORMATS)
