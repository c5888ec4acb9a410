"""From the command line into a store and back by a question: versions, archives, refusals, names, farms."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pytest
from hwpx.document import HwpxDocument

from ingest.__main__ import main as ingest
from rag.assembly import build_pipeline
from rag.schema import Evidence, Result
from rag.settings import ROOT
from tests.fakes import unrefusing_profiles
from tests.ingest.test_formats import hwpx_table, xlsx_table
from tests.pipeline.support import CONFIG, asked, record_of, settings_for, take_in, write_files

MANUAL = ROOT.parent / "shared" / "data" / "ko_smartfarm_pdf" / "FarmOS V2 매뉴얼 v1.0.pdf"
GUIDE = "# 딸기 급액 지침\n\n딸기 수확기 급액 EC는 {}dS/m로 두고 배액률은 30%로 맞춘다. 흐린 날에는 급액을 줄인다.\n"
KEYS = {
    "path", "status", "reason", "format", "author", "created", "pages", "characters", "tables", "chunks", "notes",
}  # fmt: skip


@pytest.fixture(autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this configuration; weak evidence is answered from, so that tuning changes no test here."""
    for name in list(os.environ):
        if name.startswith("ONSIL_"):
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("config")
    path = folder / "onsil.toml"
    path.write_text(f"profiles = '{unrefusing_profiles(folder)}'\n{CONFIG}", encoding="utf-8")
    monkeypatch.setenv("ONSIL_CONFIG", str(path))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


Rows = dict[str, dict[str, Any]]


@pytest.fixture
def taken(store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Rows]]:
    """Take paths into the public scope; (exit code, path → JSON line)."""

    def take(*paths: Path, options: tuple[str, ...] = ()) -> tuple[int, Rows]:
        capsys.readouterr()
        code = take_in(store, "public", *paths, options=("--json", *options))
        rows = [json.loads(line) for line in capsys.readouterr().out.split("\n") if line]
        return code, {row["path"]: row for row in rows}

    return take


def found(store: Path, question: str) -> Result:
    return build_pipeline(settings_for(store)).ask(asked(question, None))


def evidence(result: Result) -> list[Evidence]:
    return list(result.evidence)


def zipped(files: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_a_batch_of_five_with_a_damaged_file_takes_four_and_names_one(store, taken, tmp_path) -> None:
    files = {f"{crop}.md": f"# {crop}\n\n{crop} 배액률은 {number}%로 둔다.\n" for number, crop in enumerate("가나다라")}
    write_files(tmp_path / "in", {**files, "깨진.hwpx": hwpx_table()[:3000]})
    code, rows = taken(tmp_path / "in")
    assert code == 1
    assert {name: row["status"] for name, row in rows.items()} == {
        **dict.fromkeys(files, "indexed"),
        "깨진.hwpx": "failed",
    }
    assert all(row.keys() == KEYS for row in rows.values())
    assert "'깨진.hwpx'" in rows["깨진.hwpx"]["reason"]
    assert "다시 저장한 뒤" in rows["깨진.hwpx"]["reason"]
    assert record_of(store, "public").counts()["documents"] == 4


def test_an_archive_gives_a_line_a_file_and_is_idempotent(store, taken, tmp_path) -> None:
    inner = zipped({"밤.md": "# 밤\n\n야간 최저온도는 15℃로 둔다.\n"})
    path = tmp_path / "자료.zip"
    path.write_bytes(
        zipped(
            {
                "낮/창.txt": "천창 관리\n\n천창은 28℃에 연다.\n",
                "안.zip": inner,
                "../밖.md": "x",
                "그림.png": b"\x89PNG\r\n",
            }
        )
    )
    code, rows = taken(path)
    assert code == 1
    assert {name: row["status"] for name, row in rows.items()} == {
        "자료.zip/낮/창.txt": "indexed",
        "자료.zip/안.zip/밤.md": "indexed",
        "자료.zip/밖.md": "failed",
        "자료.zip/그림.png": "failed",
    }
    before = record_of(store, "public").digest()
    assert {row["status"] for row in taken(path)[1].values()} == {"unchanged", "failed"}
    assert taken(options=("--rebuild",))[0] == 0
    assert record_of(store, "public").digest() == before


def test_a_new_version_replaces_the_old_one_and_says_so(store, taken, tmp_path) -> None:
    folder = write_files(tmp_path / "in", {"지침_v1.md": GUIDE.format(1.2)})
    taken(folder)
    write_files(folder, {"지침_v2.md": GUIDE.format(0.9)})
    _, rows = taken(folder)
    assert rows["지침_v1.md"]["status"] == "unchanged"
    assert (rows["지침_v2.md"]["status"], rows["지침_v2.md"]["reason"]) == (
        "updated",
        "옛 판 '지침_v1.md' 을(를) 이 판으로 바꾸었습니다.",
    )
    record = record_of(store, "public")
    assert [document.path for document in record.documents()] == ["지침_v2.md"]
    assert len(list((record.folder / "originals").iterdir())) == 1
    _, rows = taken(folder)
    assert (rows["지침_v1.md"]["status"], rows["지침_v2.md"]["status"]) == ("duplicate", "unchanged")
    assert "더 새로운 판이 있습니다: 지침_v2.md" in rows["지침_v1.md"]["reason"]
    assert "0.9dS/m" in found(store, "딸기 수확기 급액 EC는?").answer.text


def test_the_same_name_with_other_text_says_so(taken, tmp_path) -> None:
    folder = write_files(tmp_path / "in", {"지침.md": GUIDE.format(1.2)})
    taken(folder)
    write_files(folder, {"지침.md": GUIDE.format(0.9)})
    row = taken(folder)[1]["지침.md"]
    assert (row["status"], row["reason"]) == ("updated", "같은 이름의 옛 판을 새 판으로 바꾸었습니다.")


def test_a_near_copy_is_taken_with_a_remark(taken, tmp_path) -> None:
    text = "# 밸브\n\n" + "".join(f"{number}번 밸브를 열고 배액을 받아 잰다.\n" for number in range(20))
    _, rows = taken(write_files(tmp_path / "in", {"가.md": text, "나.md": text + "끝낸다.\n"}))
    assert rows["나.md"]["status"] == "indexed"
    assert any("거의 같은 문서가 있습니다" in note and "가.md" in note for note in rows["나.md"]["notes"])


def test_table_cell_and_footnote_are_found_by_a_question(store, taken, tmp_path) -> None:
    hangul = HwpxDocument.new()
    hangul.add_paragraph("보일러 점검")
    hangul.add_footnote("보일러 노즐 번호는 K-77이다.", hangul.add_paragraph("노즐을 해마다 간다."))
    write_files(tmp_path / "in", {"급액.xlsx": xlsx_table(), "보일러.hwpx": hangul.to_bytes()})
    code, rows = taken(tmp_path / "in")
    assert code == 0
    assert rows["급액.xlsx"]["tables"] == 1
    top = evidence(found(store, "1동 2026-03-05 급액 EC는 얼마였어?"))[0].chunk
    assert "동: 1동, 측정일: 2026-03-05, 급액 EC: 2.4" in top.text
    assert (top.doc_id, top.locator) == ("public/급액.xlsx", "시트 'Sheet' 3행 ~ 시트 'Sheet' 5행")
    assert "K-77" in found(store, "보일러 노즐 번호는?").answer.text


def test_a_manual_with_nul_for_spaces_is_found_by_a_question(store, taken, tmp_path) -> None:
    if not MANUAL.is_file():
        if os.environ.get("CI"):
            pytest.fail(f"{MANUAL} is missing")
        pytest.skip("data folder not at hand")
    source, part = pdfium.PdfDocument(MANUAL), pdfium.PdfDocument.new()
    part.import_pages(source, [0, 1, 2, 3])
    part.save(tmp_path / "매뉴얼.pdf")
    assert taken(tmp_path / "매뉴얼.pdf")[0] == 0
    texts = [item.chunk.text for item in evidence(found(store, "로그인은 어떻게 하나요?"))]
    assert any("본인의 계정으로 로그인을 시도합니다." in text for text in texts)
    assert not any("\x00" in text for text in texts)


def test_names_with_line_breaks_keep_to_one_line(store, tmp_path, capsys) -> None:
    folder = write_files(
        tmp_path / "in", {"나쁜\n[실패] 가짜\t이름.md": "# 제목\n\n본문이다.\n", "\x1b[31m빨강.png": b"\x89PNG\r\n"}
    )
    assert take_in(store, "public", folder) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("[실패] _[31m빨강.png — ")
    assert ingest(["--public", "--list", "--store", str(store)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("public/나쁜_[실패] 가짜_이름.md\t제목\t")


def test_a_name_in_cp949_is_taken_in(taken, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    path = os.path.join(os.fsencode(tmp_path / "in"), "일지.md".encode("cp949"))
    with open(path, "wb") as file:
        file.write("# 일지\n\n배액을 재었다.\n".encode())
    assert taken(tmp_path / "in")[1]["일지.md"]["status"] == "indexed"


def test_a_folder_without_files_says_so(store, tmp_path, capsys) -> None:
    write_files(tmp_path / "in", {".숨김/a.md": "x"})
    assert take_in(store, "public", tmp_path / "in") == 2
    assert "넣을 파일이 없습니다" in capsys.readouterr().err
    assert not store.exists()


def test_a_farm_that_is_not_set_up_is_refused(store, tmp_path, capsys) -> None:
    folder = write_files(tmp_path / "in", {"a.md": "# 제목\n\n본문이다.\n"})
    assert take_in(store, "haetsall", folder) == 2
    error = capsys.readouterr().err
    assert "haetsal, pureun" in error
    assert "[farms]" in error
    assert not store.exists()


def test_the_limits_are_settings(taken, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ONSIL_INGEST_ZIP_DEPTH", "1")
    path = tmp_path / "자료.zip"
    path.write_bytes(zipped({"안.zip": zipped({"밤.md": "본문"})}))
    assert "1겹보다 깊습니다" in taken(path)[1]["자료.zip/안.zip"]["reason"]
    with (tmp_path / "큰.pdf").open("wb") as file:
        file.truncate(200 * 2**20)
    assert "한도 50.0MB" in taken(tmp_path / "큰.pdf")[1]["큰.pdf"]["reason"]
