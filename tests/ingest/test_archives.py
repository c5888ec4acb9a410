"""ZIP archives: every member is a document of its own; what points outside, is locked, hidden, nested too deep or
unpacks to too much is named and left out."""

from __future__ import annotations

import io
import stat
import tracemalloc
import zipfile
from collections.abc import Mapping

import pytest

from ingest.archives import Member, Refused, unpack
from ingest.limits import MEGABYTE, Limits
from ingest.loaders.sniff import is_archive
from ingest.names import is_hidden, kept_suffix, logical_path, member_path

LIMITS = Limits(bytes=5 * MEGABYTE)


def packed(files: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def unpacked(data: bytes, limits: Limits = LIMITS) -> tuple[dict[str, bytes], dict[str, str]]:
    """(path → bytes, path → refusal)."""
    found = list(unpack(data, "묶음.zip", limits))
    members = {item.path: item.data for item in found if isinstance(item, Member)}
    return members, {item.path: item.reason for item in found if isinstance(item, Refused)}


def test_members_in_order_without_folders_and_leftovers() -> None:
    files = {"하/나.md": "나", "가.txt": "가", "__MACOSX/._가.txt": "x", ".DS_Store": "x", "빈폴더/": ""}
    members, refused = unpacked(packed(files))
    assert members == {"묶음.zip/하/나.md": "나".encode(), "묶음.zip/가.txt": "가".encode()}
    assert not refused


def test_names_in_cp949_are_korean() -> None:
    data = packed({"AAAA.md": "본문"}).replace(b"AAAA", "일지".encode("cp949"))
    assert list(unpacked(data)[0]) == ["묶음.zip/일지.md"]


def test_decomposed_names_are_composed() -> None:
    assert list(unpacked(packed({"일지.md": "본문"}))[0]) == ["묶음.zip/일지.md"]


@pytest.mark.parametrize("name", ["../밖.md", "가/../../밖.md", "/etc/밖.md", "C:\\밖.md", "..\\밖.md"])
def test_a_name_that_points_outside_is_refused_and_the_rest_is_taken(name: str) -> None:
    members, refused = unpacked(packed({name: "x", "안.md": "y"}))
    assert list(members) == ["묶음.zip/안.md"]
    [(path, reason)] = refused.items()
    assert path == "묶음.zip/밖.md"
    assert "묶음 밖을 가리키는" in reason


def test_archives_inside_archives_up_to_the_depth() -> None:
    inner = packed({"일지.md": "본문"})
    for depth, taken in ((1, 0), (2, 1)):
        members, refused = unpacked(packed({"안.zip": inner}), Limits(zip_depth=depth))
        assert len(members) == taken
        assert len(refused) == 1 - taken
    assert list(members) == ["묶음.zip/안.zip/일지.md"]


def test_a_bomb_is_refused_before_anything_is_unpacked() -> None:
    data = packed({f"{number}.txt": b"0" * 3 * MEGABYTE for number in range(20)})
    assert len(data) < MEGABYTE
    tracemalloc.start()
    members, refused = unpacked(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not members
    assert "압축 폭탄" in refused["묶음.zip"]
    assert peak < MEGABYTE


def test_nested_bombs_share_one_budget() -> None:
    inner = packed({f"{number}.txt": b"0" * 2 * MEGABYTE for number in range(2)})
    members, refused = unpacked(packed({f"{number}.zip": inner for number in range(4)}))
    assert len(members) == 2
    assert len(refused) == 3


def test_memory_holds_one_member_at_a_time() -> None:
    data = packed({f"{number}.txt": bytes([65 + number]) * 3 * MEGABYTE for number in range(15)})
    limits = Limits(bytes=50 * MEGABYTE)
    tracemalloc.start()
    taken = sum(1 for item in unpack(data, "묶음.zip", limits) if isinstance(item, Member))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken == 15
    assert peak < 12 * MEGABYTE


def test_a_member_that_is_longer_than_it_says_is_damaged() -> None:
    data = bytearray(packed({"a.txt": b"0" * MEGABYTE, "b.txt": "본문"}))
    central = data.find(b"PK\x01\x02")
    data[central + 24 : central + 28] = (10).to_bytes(4, "little")
    members, refused = unpacked(bytes(data))
    assert list(members) == ["묶음.zip/b.txt"]
    assert "손상" in refused["묶음.zip/a.txt"]


def test_locked_linked_and_large_members_each_get_their_reason() -> None:
    link = zipfile.ZipInfo("링크.md")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("잠금.md", "x")
        archive.writestr(link, "/etc/passwd")
        archive.writestr("안.md", "본문")
    data = bytearray(buffer.getvalue())
    data[data.find(b"PK\x01\x02") + 8] |= 1
    members, refused = unpacked(bytes(data))
    assert list(members) == ["묶음.zip/안.md"]
    assert "암호" in refused["묶음.zip/잠금.md"]
    assert "바로 가기" in refused["묶음.zip/링크.md"]
    stored = packed({"큰.txt": bytes(range(256)) * 4096, "안.md": "본문"}, zipfile.ZIP_STORED)
    members, refused = unpacked(stored, Limits(bytes=MEGABYTE - 1))
    assert list(members) == ["묶음.zip/안.md"]
    assert "ingest_limit_mb" in refused["묶음.zip/큰.txt"]


def test_too_many_members() -> None:
    data = packed({f"{number}.md": "x" for number in range(4)})
    assert "너무 많습니다(4개, 한도 3개)" in unpacked(data, Limits(zip_members=3))[1]["묶음.zip"]


def test_empty_and_cut_archives() -> None:
    assert "파일이 없습니다" in unpacked(packed({}))[1]["묶음.zip"]
    assert "손상" in unpacked(packed({"a.md": "x"})[:-10])[1]["묶음.zip"]


def test_documents_that_are_packed_are_no_archives() -> None:
    assert is_archive(packed({"a.md": "x"}), "a.zip")
    assert not is_archive(packed({"word/document.xml": "x"}), "a.zip")
    assert not is_archive(packed({"other.xml": "x"}), "a.docx")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("일지.md", "일지.md"),
        ("a\nb\t\x1b[31m.md", "a_b__[31m.md"),
        ("a\u202egpj.md", "a_gpj.md"),
        ("폴더\u2028/b.md", "폴더_/b.md"),
        ("일지".encode("cp949").decode("utf-8", "surrogateescape"), "일지"),
        ("\ud800.md", "?.md"),
    ],
)
def test_logical_paths_keep_to_one_readable_line(name: str, expected: str) -> None:
    assert logical_path(name) == expected


def test_member_paths_hidden_names_and_suffixes() -> None:
    assert member_path("가\\나.md") == "가/나.md"
    assert member_path("") is None
    assert is_hidden("a/.git/b.md")
    assert not is_hidden("a/b.md")
    assert [kept_suffix(name) for name in ("a.PDF", "a", "a.가나다", "a.averylongending")] == [".pdf", "", "", ""]
