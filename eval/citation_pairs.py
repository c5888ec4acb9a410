"""Labelled pairs for the citation check: a claim, one sentence of the demo corpus, and whether it supports the claim.

    python -m eval.citation_pairs --facts DIR      # rewrites eval/sets/citation_pairs.jsonl

DIR holds ``agronomy_facts.jsonl`` and ``near_miss_groups.jsonl``. The evidence of a fact is the sentence of the knowledge
documents that words it best (Dice coefficient of the BM25 tokens ≥ 0.6, and all its numbers); evidence of farm records is a
sentence of a work log. A near-miss changes one thing in a supported claim. Every choice is a hash of the pair's id, so the same
sources give the same file. Facts that share an evidence sentence form one group, and a group is in one half.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeVar

from kiwipiepy import Kiwi

from eval.questions import SETS_DIR
from ingest.sample.farms import FARM_IDS, farm_files
from ingest.sample.knowledge import knowledge_files
from ingest.sample.model import Bullets, Paragraph, SampleFile
from rag.lexicon import Lexicon
from rag.text import Korean, korean

PAIRS = SETS_DIR / "citation_pairs.jsonl"
PARAPHRASES = SETS_DIR / "source" / "citation_paraphrases.tsv"
SEED = 20261203
DICE = 0.6

T = TypeVar("T")
Outcome = Literal["supported", "contradicted", "unsupported"]
SUPPORTED = "supported"
# What a near-miss of a kind is: the evidence says otherwise, or is about something else.
OUTCOMES: dict[str, Outcome] = {
    "number": "contradicted",
    "unit": "contradicted",
    "negation": "contradicted",
    "swap": "contradicted",
    "crop": "unsupported",
    "stage": "unsupported",
    "entity": "unsupported",
    "date": "unsupported",
    "house": "unsupported",
    "fact": "unsupported",
    "unrelated": "unsupported",
}
_SHARE = {"reworded": 0.3, "number": 0.42, "unit": 0.3, "negation": 0.3, "crop": 0.3, "entity": 0.3, "antonym": 0.5}
_LOG_SENTENCES = 70  # of each farm
_FACT_PAIRS, _UNRELATED = 160, 120
_MIN_RECALL = 0.85
# Read by hand: the best sentence holds the words of these statements but says less than they do.
_SAYS_LESS = frozenset(("P-dis-014", "O-phy-006", "D-dis-021"))

_NUMBER = re.compile(r"(?<![A-Za-z\d.,/])\d[\d,]*(?:\.\d+)?(?![\d.]*[A-Za-z]{3})")
_CROPS = ("토마토", "딸기", "파프리카", "오이", "와사비")
_CROP_WORD = re.compile(
    r"(?<![가-힣])(토마토|딸기|파프리카|오이|와사비|고추냉이)(?=[는은의를을가이도]?\s|에[는서]?\s|에서는\s)"
)
_UNITS = (
    ("dS/m", "µS/cm"), ("mS/cm", "µS/cm"), ("ppm", "%"), ("mL", "L"), ("kg", "g"), ("톤", "kg"), ("cm", "m"), ("시간", "분"),
    ("개월", "년"), ("만원", "원"), ("만 원", "원"), ("㎡", "평"), ("g", "kg"), ("℃", "%"), ("일", "주"), ("주", "일"), ("%", "℃"),
)  # fmt: skip
_STAGES = (
    ("수확 초기", "수확 후기"), ("수확 후기", "개화기"), ("정식 후", "정식 전"), ("정식 전", "정식 후"), ("육묘기", "수확기"),
    ("개화기", "육묘기"), ("착과기", "육묘기"), ("착과 후", "착과 전"), ("발생 초기", "발생 말기"), ("비대기", "개화기"),
    ("연적기", "도색기"), ("도색기", "연적기"), ("녹숙기", "완숙기"), ("발아", "수확"), ("아주심기", "수확"), ("파종", "수확"),
)  # fmt: skip
_ANTONYMS = (
    ("높인다", "낮춘다"), ("낮춘다", "높인다"), ("낮추", "높이"), ("높이세요", "낮추세요"), ("늘린다", "줄인다"), ("줄인다", "늘린다"),
    ("줄일 수", "늘릴 수"), ("늘어난다", "줄어든다"), ("늘어나", "줄어들"), ("줄어든다", "늘어난다"), ("많아진다", "적어진다"),
    ("많다", "적다"), ("나빠진다", "좋아진다"), ("나빠", "좋아"), ("떨어진다", "올라간다"), ("떨어지", "올라가"), ("올린다", "내린다"),
    ("내린다", "올린다"), ("막는다", "부른다"), ("강하다", "약하다"), ("약하다", "강하다"), ("강해", "약해"), ("멈춘다", "빨라진다"),
    ("쉽다", "어렵다"), ("어렵다", "쉽다"), ("높다", "낮다"), ("낮다", "높다"), ("작다", "크다"), ("늘었다", "줄었다"),
    ("줄었다", "늘었다"), ("높았다", "낮았다"), ("많았다", "적었다"),
)  # fmt: skip
_COMPARATORS = (("이상", "이하"), ("이하", "이상"), ("이내", "이상"), ("넘으면", "밑돌면"), ("넘게", "못 되게"))
_NOTATIONS = (
    ("℃", "도"), ("dS/m", " mS/cm"), ("mS/cm", "dS/m"), ("%", "퍼센트"), ("만원", "만 원"), ("~", "∼"), ("1주 간격", "일주일 간격"),
    ("2~3회", "두세 번"), ("3~4회", "서너 번"), ("1~2시간", "한두 시간"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One row: ``kind`` is "" for a supported claim; ``origin`` says how the claim was made (fact, hand, rule, log)."""

    id: str
    claim: str
    evidence: str
    title: str
    section: str
    label: Literal["supported", "near_miss"]
    kind: str
    outcome: Outcome
    origin: str
    group: str
    split: Literal["fit", "test"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A sentence and where it stands."""

    text: str
    title: str
    section: str


def load_pairs(path: Path = PAIRS) -> list[Pair]:
    """The committed pairs, in file order."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def build(facts_dir: Path) -> list[Pair]:
    """All pairs, from the facts, the hand-worded claims and the demo corpus."""
    maker = _Maker(facts_dir)
    supported = [*maker.of_facts(), *maker.of_hand(), *maker.reworded(), *maker.of_logs()]
    rows = [*supported, *maker.near_misses(supported), *maker.other_facts(), *maker.unrelated()]
    unique: dict[tuple[str, str], Pair] = {}
    for row in rows:
        unique.setdefault((row.claim, row.evidence), row)
    return list(unique.values())


class _Maker:
    def __init__(self, facts_dir: Path) -> None:
        self.text: Korean = korean()
        self.kiwi = Kiwi(num_workers=1)
        self.facts = {row["id"]: row for row in _rows(facts_dir / "agronomy_facts.jsonl")}
        self.groups = [row["fact_ids"] for row in _rows(facts_dir / "near_miss_groups.jsonl")]
        self.documents = {file.path: _sentences(file, self.text) for file in knowledge_files()}
        self.evidence = self._aligned()
        self.terms = _terms_by_type(Lexicon.load())

    def _aligned(self) -> dict[str, Standing]:
        best: dict[str, tuple[float, Standing]] = {}
        for file in knowledge_files():
            read = [(s, set(self.text.tokens(s.text)), set(_NUMBER.findall(s.text))) for s in self.documents[file.path]]
            for fact_id in (f for f in file.fact_ids if f in self.facts):
                statement = self.facts[fact_id]["statement_ko"]
                tokens, numbers = set(self.text.tokens(statement)), set(_NUMBER.findall(statement))
                for standing, own, own_numbers in read:
                    dice = 2 * len(tokens & own) / (len(tokens) + len(own))
                    if numbers <= own_numbers and dice >= DICE and dice > best.get(fact_id, (0.0, None))[0]:
                        best[fact_id] = (dice, standing)
        return {fact_id: standing for fact_id, (_, standing) in best.items()}

    def _pair(self, name: str, claim: str, at: Standing, origin: str, kind: str = "") -> Pair:
        split: Literal["fit", "test"] = "fit" if _draw(f"split:{at.text}") < 0.5 else "test"
        return Pair(
            id=f"{name}.{_digest(claim + at.text)[:6]}", claim=claim, evidence=at.text, title=at.title, section=at.section,
            label="near_miss" if kind else "supported", kind=kind, outcome=OUTCOMES[kind] if kind else "supported",
            origin=origin, group=_digest(at.text)[:8], split=split,
        )  # fmt: skip

    def of_facts(self) -> Iterator[Pair]:
        """The fact's own statement, where the sentence and its headings hold the words of the statement."""
        for fact_id, at in self.evidence.items():
            statement = self.facts[fact_id]["statement_ko"]
            tokens = set(self.text.tokens(statement))
            held = set(self.text.tokens(f"{at.title}\n{at.section}\n{at.text}"))
            if fact_id not in _SAYS_LESS and statement != at.text and len(tokens & held) / len(tokens) >= _MIN_RECALL:
                yield self._pair(fact_id, statement, at, "fact")

    def of_hand(self) -> Iterator[Pair]:
        """Claims typed by hand, supported or not."""
        with PARAPHRASES.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                at = self.evidence.get(row["fact_id"])
                if at is not None:
                    kind = "" if row["kind"] == SUPPORTED else row["kind"]
                    yield self._pair(row["fact_id"], row["claim"], at, "hand", kind)

    def reworded(self) -> Iterator[Pair]:
        """The sentence itself with another ending and other notations of its units and counts."""
        for fact_id, at in self.evidence.items():
            if _draw(f"reworded:{fact_id}") < _SHARE["reworded"]:
                claim = self.ending(_notation(at.text, fact_id), fact_id)
                if claim != at.text:
                    yield self._pair(fact_id, claim, at, "rule")

    def of_logs(self) -> Iterator[Pair]:
        """Sentences of work logs with their date, as an answer would word them."""
        for farm in FARM_IDS:
            files = [f for f in farm_files(farm) if f.kind == "작업일지"]
            read = [(f.date, s) for f in files for s in _sentences(f, self.text) if re.search(r"\d동.*\d", s.text[2:])]
            read.sort(key=lambda row: _draw(f"log:{farm}:{row[0]}:{row[1].text}"))
            for day, at in read[:_LOG_SENTENCES]:
                claim = f"{_day_words(day, at.text)} {self.ending(at.text, at.text)}"
                yield self._pair(f"{farm}.{day}", claim, at, "log")

    def ending(self, sentence: str, key: str) -> str:
        """The sentence with a polite ending (합니다 or 해요), as Kiwi joins it; unchanged where it does not end in a predicate."""
        polite = "ᆸ니다" if _draw(f"ending:{key}") < 0.7 else "어요"
        return self._replaced_end(sentence, lambda stem: [*stem, (polite, "EF")])

    def negated(self, sentence: str, key: str) -> str:
        """The sentence with its last predicate denied."""
        form = _pick(f"negated:{key}", ("않는다", "않습니다", "못한다", "안"))

        def deny(stem: list[tuple[str, str]]) -> list[tuple[str, str]]:
            tense = "였" if form == "못한다" and stem[-1][1] != "VCP" else "었"
            past = [(tense, "EP") for part in stem if part[1] == "EP"]
            bare = [part for part in stem if part[1] != "EP"]
            if bare[-1][1] == "VCP":
                return [
                    *bare[:-1],
                    ("이", "JKC"),
                    ("아니", "VCN"),
                    *past,
                    ("ᆸ니다" if form == "않습니다" else "다", "EF"),
                ]
            verb = ("못하", "VX") if form == "못한다" else ("않", "VX")
            end = "다" if past or bare[-1][1].startswith("VA") else "는다"
            return [*bare, ("지", "EC"), verb, *past, ("ᆸ니다" if form == "않습니다" else end, "EF")]

        return self._replaced_end(sentence, deny)

    def _replaced_end(self, sentence: str, make: Callable[[list[tuple[str, str]]], list[tuple[str, str]]]) -> str:
        tokens = self.text.morphemes(sentence)
        ends = [i for i, token in enumerate(tokens) if token.tag == "EF"]
        if not ends or any(token.tag not in ("SF", "EF") for token in tokens[ends[-1] :]):
            return sentence
        first = ends[-1]
        while (first and tokens[first - 1].tag in ("EP", "XSV", "XSA", "VCP", "VV", "VA", "VX", "XR")) or (
            first
            and tokens[first].tag in ("XSV", "XSA", "VCP")
            and tokens[first - 1].tag in ("NNG", "SL", "SN", "NNB", "SW")
        ):
            first -= 1
            if tokens[first].tag in ("VV", "VA", "VX", "NNG", "SL", "SN", "NNB", "SW", "XR"):
                break
        stem = [(token.form, str(token.tag).split("-")[0]) for token in tokens[first : ends[-1]]]
        if not stem or tokens[first].tag == "VX":
            return sentence
        return sentence[: tokens[first].start] + str(self.kiwi.join(make(stem))) + "."

    def near_misses(self, supported: Sequence[Pair]) -> Iterator[Pair]:
        """One change to a supported claim; rule-made ones only where the words allow it."""
        for base in (row for row in supported if row.label == "supported"):
            for kind, claim in self._changes(base):
                if claim and claim != base.claim:
                    at = Standing(base.evidence, base.title, base.section)
                    yield replace(self._pair(base.id, claim, at, base.origin, kind), split=base.split)

    def _changes(self, base: Pair) -> Iterator[tuple[str, str]]:
        def drawn(kind: str) -> bool:
            return _draw(f"{kind}:{base.id}") < _SHARE[kind]

        if drawn("number"):
            yield "number", _other_number(base)
        if drawn("antonym"):
            yield "number", _swapped_once(base.claim, _COMPARATORS, base.id)
            yield "negation", _swapped_once(base.claim, _ANTONYMS, base.id)
        if drawn("unit"):
            yield "unit", _other_unit(base)
        if drawn("negation"):
            yield "negation", self.negated(base.claim, base.id)
        if base.origin == "log":
            yield _pick(f"log:{base.id}", (("date", _other_day(base)), ("house", _other_house(base))))
        elif drawn("crop"):
            yield "crop", _other_crop(base)
        if drawn("entity"):
            yield "entity", self._other_entity(base)
        yield "stage", _swapped_once(base.claim, _STAGES, base.id) if base.origin != "hand" else ""
        if base.origin == "fact":
            yield "swap", _swapped_vector(base.claim)

    def _other_entity(self, base: Pair) -> str:
        held = f"{base.title}\n{base.section}\n{base.evidence}"
        for mention in self.text.lexicon.mentions(base.claim):
            written = base.claim[mention.start : mention.end]
            others = [
                t
                for t in self.terms.get(mention.type, ())
                if t != mention.name and t not in held and t not in base.claim
            ]
            if others and len(written) > 2:
                return _put(base.claim, mention.start, mention.end, _pick(f"entity:{base.id}", others))
        return ""

    def other_facts(self) -> Iterator[Pair]:
        """The statement of a fact against the sentence of another one of its near-miss group."""
        found = []
        for first, second in (pair for group in self.groups for pair in combinations(group, 2)):
            if first in self.evidence and second in self.evidence:
                claim, at = self.facts[first]["statement_ko"], self.evidence[second]
                same_half = _draw(f"split:{self.evidence[first].text}") < 0.5, _draw(f"split:{at.text}") < 0.5
                if same_half[0] == same_half[1] and not set(_NUMBER.findall(claim)) <= set(_NUMBER.findall(at.text)):
                    found.append(self._pair(f"{first}-{second}", claim, at, "fact", "fact"))
        return iter(sorted(found, key=lambda row: _draw(f"fact:{row.id}"))[:_FACT_PAIRS])

    def unrelated(self) -> Iterator[Pair]:
        """The statement of a fact against another sentence of its document."""
        found = []
        where = {s.text: rows for rows in self.documents.values() for s in rows}
        for fact_id, own in self.evidence.items():
            claim = self.facts[fact_id]["statement_ko"]
            tokens, half = set(self.text.tokens(claim)), _draw(f"split:{own.text}") < 0.5
            rows = [
                s for s in where[own.text]
                if (_draw(f"split:{s.text}") < 0.5) == half
                and len(tokens & set(self.text.tokens(s.text))) / len(tokens) < 0.4
            ]  # fmt: skip
            if rows:
                found.append(self._pair(fact_id, claim, _pick(f"unrelated:{fact_id}", rows), "fact", "unrelated"))
        return iter(sorted(found, key=lambda row: _draw(f"unrelated:{row.id}"))[:_UNRELATED])


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _sentences(file: SampleFile, text: Korean) -> list[Standing]:
    found = []
    for section in (s for s in file.document.sections if s.heading != "출처"):
        for block in section.blocks:
            parts = (block.text,) if isinstance(block, Paragraph) else block.items if isinstance(block, Bullets) else ()
            for part in parts:
                found += [
                    Standing(part[s.start : s.end], file.document.title, section.heading) for s in text.sentences(part)
                ]
    return found


def _terms_by_type(lexicon: Lexicon) -> dict[str, list[str]]:
    wanted = ("병", "해충", "품종", "바이러스", "생리장해")
    return {kind: sorted(t.name for t in lexicon.terms.values() if t.type == kind) for kind in wanted}


def _digest(text: str) -> str:
    return hashlib.sha256(f"{SEED}:{text}".encode()).hexdigest()


def _draw(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int(_digest(key)[:8], 16) / 2**32


def _pick(key: str, options: Sequence[T]) -> T:
    return options[int(_draw(key) * len(options))]


_PARTICLES = (("은", "는"), ("이", "가"), ("을", "를"), ("과", "와"), ("으로", "로"))


def _put(text: str, start: int, end: int, word: str) -> str:
    """The text with another word at [start, end), and the particle after it in the form that the word takes."""
    rest = text[end:]
    closed = "가" <= word[-1] <= "힣" and (ord(word[-1]) - ord("가")) % 28 != 0
    for particle in (pair[not closed] for pair in _PARTICLES):
        other = next(a if b == particle else b for a, b in _PARTICLES if particle in (a, b))
        if re.match(rf"{other}(?![가-힣])", rest):
            rest = particle + rest[len(other) :]
            break
    return text[:start] + word + rest


def _notation(sentence: str, key: str) -> str:
    for old, new in _NOTATIONS:
        if old in sentence and _draw(f"notation:{key}:{old}") < 0.6:
            sentence = sentence.replace(old, new)
            if old == "dS/m":
                break
    return sentence


def _swapped_once(claim: str, table: Sequence[tuple[str, str]], key: str) -> str:
    options = [pair for pair in table if claim.count(pair[0]) == 1]
    return claim.replace(*_pick(f"once:{key}", options)) if options else ""


def _other_number(base: Pair) -> str:
    held = {n.replace(",", "") for n in re.findall(r"\d[\d,]*(?:\.\d+)?", base.evidence + base.title)}
    places = [m for m in _NUMBER.finditer(base.claim) if m.group().replace(",", "") in held]
    if not places:
        return ""
    place = _pick(f"place:{base.id}", places)
    digits = place.group().replace(",", "")
    decimals = len(digits.partition(".")[2])
    step, value = 10**-decimals, float(digits)
    change = _pick(f"change:{base.id}", ("up", "down", "double", "third", "tenfold"))
    other = {
        "up": value + step, "down": value - step, "double": value * 2, "third": value * 1.3 + step, "tenfold": value * 10,
    }[change]  # fmt: skip
    if other <= 0:
        other = value + step
    written = f"{other:,.{decimals}f}" if "," in place.group() else f"{other:.{decimals}f}"
    if written.replace(",", "") in held:
        return ""
    return base.claim[: place.start()] + written + base.claim[place.end() :]


def _other_unit(base: Pair) -> str:
    for old, new in sorted(_UNITS, key=lambda pair: _draw(f"unit:{base.id}:{pair[0]}")):
        found = re.search(rf"(?<=\d){re.escape(old)}(?![A-Za-z가-힣/]*[/²㎡])(?!요일|[출몰])", base.claim)
        if found:
            return base.claim[: found.start()] + new + base.claim[found.end() :]
    return ""


def _other_crop(base: Pair) -> str:
    held = f"{base.title}{base.section}{base.evidence}"
    others = [crop for crop in _CROPS if crop not in held and not (crop == "와사비" and "고추냉이" in held)]
    named = _CROP_WORD.search(base.claim)
    if not any(crop in base.title for crop in (*_CROPS, "고추냉이")) or not others:
        return ""
    crop = _pick(f"crop:{base.id}", others)
    if named:
        return _put(base.claim, named.start(), named.end(), crop)
    return f"{crop}의 경우 {base.claim}" if not re.search("|".join((*_CROPS, "고추")), base.claim) else ""


def _swapped_vector(claim: str) -> str:
    """ "A는 B가 옮긴다" with the two exchanged."""
    found = re.fullmatch(r"(?:\S+의 )?(\S+?)[은는] (\S+?)[이가] 옮긴다\.", claim)
    if not found:
        return ""
    return _put(_put("X는 Y가 옮긴다.", 3, 4, found[1]), 0, 1, found[2])


def _day_words(day: str, key: str) -> str:
    year, month, date = (int(part) for part in day.split("-"))
    forms = (f"{year}년 {month}월 {date}일", day, f"{month}월 {date}일", f"{year}.{month}.{date}.에")
    return _pick(f"day:{key}", forms)


def _other_day(base: Pair) -> str:
    """The claim with another day, month or year."""
    day = re.match(r"(?:(\d{4})(년 |-|\.))?(\d{1,2})(월 |-|\.)(\d{1,2})", base.claim)
    if day is None:
        return ""
    year, gap, month, gap2, date = day.groups()
    change = _pick(f"day:{base.id}", ("date", "month", "year") if year else ("date", "month"))
    if change == "date":
        date = f"{int(date) % 28 + 1:0{len(date)}d}"
    elif change == "month":
        month = f"{int(month) % 12 + 1:0{len(month)}d}"
    else:
        year = str(int(year) - 1)
    return f"{year or ''}{gap or ''}{month}{gap2}{date}{base.claim[day.end() :]}"


def _other_house(base: Pair) -> str:
    return re.sub(r"(?<!\d)(\d)동", lambda m: f"{int(m[1]) % 4 + 1}동", base.claim)


def main(argv: list[str] | None = None) -> None:
    """Write the pairs and print how many there are of each kind."""
    parser = argparse.ArgumentParser(prog="python -m eval.citation_pairs")
    parser.add_argument("--facts", type=Path, required=True, metavar="DIR")
    args = parser.parse_args(argv)
    rows = build(args.facts)
    PAIRS.write_text("".join(json.dumps(asdict(r), ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    for kind in ("", *OUTCOMES):
        counts = [sum(r.kind == kind and r.split == split for r in rows) for split in ("fit", "test")]
        print(f"{kind or SUPPORTED:12s} fit {counts[0]:5d}   test {counts[1]:5d}")


if __name__ == "__main__":
    main()
