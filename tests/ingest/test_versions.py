"""Version names, agreement of texts, and what a new document is to those on file."""

from __future__ import annotations

import pytest

from ingest.versions import Known, KnownDocuments, jaccard, long_runs, sketch, version_of

PAPER = "딸기 수확기 급액 EC는 1.2dS/m로 두고 배액률은 30%로 맞춘다. 야간 최저온도는 8℃ 아래로 내리지 않는다. "
OTHER = "양액기 센서는 한 달에 한 번 교정한다. 표준액 두 가지로 값을 맞추고 전극을 증류수로 헹군다. 결과를 적는다. "


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/지침.md", ("a/지침", (0, ()))),
        ("a/지침_v2.docx", ("a/지침", (0, (2,)))),
        ("a/지침 ver1.10.md", ("a/지침", (0, (1, 10)))),
        ("a/지침 (1).pdf", ("a/지침 (1)", (0, ()))),
        ("a/지침_v2_최종.md", ("a/지침", (2, (2,)))),
        ("a/지침(개정판).md", ("a/지침", (1, ()))),
        ("2026-03-05_작업일지_김주임.md", ("./2026-03-05 작업일지 김주임", (0, ()))),
        ("v2.md", ("./v2", (0, ()))),
        ("정보수정.md", ("./정보수정", (0, ()))),
    ],
)
def test_version_of(path: str, expected: object) -> None:
    assert version_of(path) == expected


def test_versions_are_ordered_as_numbers_and_last_words_win() -> None:
    names = ["지침.md", "지침_v2.md", "지침_v10.md", "지침_수정.md", "지침_최종.md", "지침_v2_최종.md"]
    ranks = [version_of(name)[1] for name in names]
    assert ranks == sorted(ranks)


def test_jaccard_is_exact_for_short_texts() -> None:
    assert jaccard(sketch("가나다라마"), sketch("가나다라바")) == pytest.approx(1 / 3)  # 가나다라 of 3 shingles
    assert jaccard(sketch("가 나 다 라"), sketch("가나다라")) == 1
    assert jaccard(sketch(PAPER), sketch(OTHER)) < 0.05


def test_jaccard_of_long_texts_is_close() -> None:
    words = [f"낱말{number}번" for number in range(4000)]
    first, second = "".join(words[:3000]), "".join(words[1000:])
    a, b = ({text[i : i + 4] for i in range(len(text) - 3)} for text in (first, second))
    assert jaccard(sketch(first), sketch(second)) == pytest.approx(len(a & b) / len(a | b), abs=0.1)


def known(path: str, text: str, date: str = "") -> Known:
    return Known(f"public/{path}", path, len(text), date, long_runs(text))


def relation(
    on_file: dict[str, str], path: str, text: str, dates: tuple[str, str] = ("", "")
) -> tuple[str, str] | None:
    documents = KnownDocuments(
        [known(name, body, dates[0]) for name, body in on_file.items()],
        lambda doc_id: on_file[doc_id[len("public/") :]],
    )
    found = documents.relation(known(path, text, dates[1]), text)
    return (found.kind, found.path) if found else None


def test_a_higher_mark_is_newer_a_lower_one_older() -> None:
    changed = PAPER.replace("1.2", "0.9")
    assert relation({"지침_v1.md": PAPER}, "지침_v2.md", changed) == ("newer", "지침_v1.md")
    assert relation({"지침.docx": PAPER}, "지침 (개정).pdf", changed) == ("newer", "지침.docx")
    assert relation({"지침_v2.md": PAPER}, "지침_v1.md", changed) == ("older", "지침_v2.md")


def test_the_name_alone_or_another_folder_does_not_make_a_version() -> None:
    assert relation({"지침_v1.md": PAPER}, "지침_v2.md", OTHER) is None
    assert relation({"가/지침_v1.md": PAPER}, "나/지침_v2.md", PAPER.replace("1.2", "0.9")) is None


def test_a_near_copy_under_another_name_is_near_unless_it_is_of_another_day() -> None:
    long = "".join(f"{number}번 밸브를 열고 배액을 받아 EC를 잰다. " for number in range(40))
    changed = long + "끝."
    assert relation({"밸브.md": long}, "사본.md", changed) == ("near", "밸브.md")
    assert relation({"밸브.md": long}, "사본.md", changed, ("2026-03-05", "2026-03-06")) is None


def test_what_is_removed_is_forgotten() -> None:
    documents = KnownDocuments([known("지침_v1.md", PAPER)], lambda doc_id: PAPER)
    documents.remove("public/지침_v1.md")
    assert documents.relation(known("지침_v2.md", PAPER), PAPER) is None
