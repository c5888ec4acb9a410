"""``python -m rag lexicon``: words that farms ask and the lexicon does not know, with a likely type, for an operator.

A word that is spelled almost like a form of the lexicon is proposed as its alias: jamo distance (Levenshtein over the
letters of the syllables) at most ``NEAR`` of the longer word. Else its type is that of the longest term that it ends
with (its head noun), else that of most terms with the same ending. Nothing is changed before ``--accept``.
"""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rag.errors import RagError, SettingsError
from rag.lexicon import Lexicon
from rag.schema import PUBLIC, farm_scope
from rag.settings import load_settings
from rag.stores.farm_words import FarmWord, accept_word, read_words, sum_up
from rag.stores.record import scope_folder

NEAR = 0.2
TOP = 30
# Fewest terms with the same ending, and their share of one type.
_VOTES, _MAJORITY = 3, 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A word asked ``count`` times; ``type`` and ``alias_of`` are "" where nothing is likely."""

    word: str
    count: int
    type: str
    alias_of: str
    why: str


def suggest(
    counts: Mapping[str, int], lexicon: Lexicon, known: Collection[str] = (), top: int = TOP
) -> list[Suggestion]:
    """Proposals for the ``top`` words asked most that neither the lexicon nor ``known`` holds; ties by word."""
    asked = [w for w in counts if w not in known and w.lower().replace(" ", "") not in lexicon.canonical]
    order = sorted(asked, key=lambda w: (-counts[w], w))[:top]
    forms = {form.lower().replace(" ", ""): term.name for term in lexicon.terms.values() for form in term.forms}
    spelled = {form: jamo(form) for form in forms if len(form) > 1}
    return [_suggestion(word, counts[word], lexicon, forms, spelled) for word in order]


def _suggestion(
    word: str, count: int, lexicon: Lexicon, forms: Mapping[str, str], spelled: Mapping[str, str]
) -> Suggestion:
    near = _nearest(word, spelled)
    if near is not None:
        term = lexicon.terms[forms[near]]
        return Suggestion(word=word, count=count, type=term.type, alias_of=term.name, why=f"'{near}' 와 철자가 가까움")
    head = max((f for f in spelled if word.endswith(f) and f != word), key=lambda f: (len(f), f), default=None)
    if head is not None:
        kind = lexicon.terms[forms[head]].type
        return Suggestion(word=word, count=count, type=kind, alias_of="", why=f"'{head}'(으)로 끝남")
    for size in range(min(3, len(word) - 1), 0, -1):
        types = Counter(lexicon.terms[forms[f]].type for f in sorted(spelled) if f.endswith(word[-size:]))
        kind, votes = types.most_common(1)[0] if types else ("", 0)
        if votes >= _VOTES and votes / types.total() >= _MAJORITY:
            why = f"'-{word[-size:]}' 로 끝나는 용어 {types.total()}개 중 {votes}개"
            return Suggestion(word=word, count=count, type=kind, alias_of="", why=why)
    return Suggestion(word=word, count=count, type="", alias_of="", why="가까운 용어 없음")


def _nearest(word: str, spelled: Mapping[str, str]) -> str | None:
    """The form with the smallest jamo distance within ``NEAR``; ties by form."""
    mine = jamo(word)
    found: list[tuple[int, str]] = []
    for form, theirs in spelled.items():
        limit = int(NEAR * max(len(mine), len(theirs)))
        if abs(len(mine) - len(theirs)) <= limit and (Counter(mine) - Counter(theirs)).total() <= limit:
            distance = edit_distance(mine, theirs)
            if distance <= limit:
                found.append((distance, form))
    return min(found)[1] if found else None


def jamo(word: str) -> str:
    """The letters of a word: syllables taken apart, Latin in lower case."""
    return unicodedata.normalize("NFD", word.lower())


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        previous, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m rag lexicon", description="질문에 나온 모르는 낱말을 모아 용어집에 더할 말을 제안합니다."
    )
    parser.add_argument("--suggest", action="store_true", help="많이 물은 순서로 제안합니다 (기본)")
    parser.add_argument("--accept", nargs=2, metavar=("WORD", "TYPE"), help="낱말을 이 농장의 목록에 더합니다")
    parser.add_argument("--alias-of", metavar="TERM", default="", help="--accept 한 낱말이 뜻하는 용어집의 용어")
    parser.add_argument("--farm", metavar="ID", help="이 농장의 질문 (없으면 공용 자료에 물은 질문)")
    parser.add_argument("--store", type=Path, help="저장 폴더 (기본: 설정의 store)")
    parser.add_argument("--top", type=int, default=TOP, metavar="N", help=f"보일 낱말 수 (기본 {TOP})")
    parser.add_argument("--json", action="store_true", help="JSON 으로 출력")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Suggest or accept; returns the exit code: 0 done, 2 wrong usage or setting."""
    args = _arguments(argv)
    try:
        settings = load_settings(store=args.store)
        folder = scope_folder(settings.store, PUBLIC if args.farm is None else farm_scope(args.farm))
        if not folder.exists():
            raise SettingsError(f"'{args.farm or '공용'}' 자료가 없습니다. --farm 과 --store 를 확인해 주세요.")
        lexicon = Lexicon.load()
        if args.accept:
            word, kind = args.accept
            print("\n".join(_accept(folder, lexicon, word, kind, args.alias_of)))
            return 0
        known = {one.word for one in read_words(folder)}
        found = suggest(sum_up(folder), lexicon, known, args.top)
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"farm": args.farm, "words": [asdict(one) for one in found]}, ensure_ascii=False, indent=2))
    else:
        print("\n".join(_lines(found)))
    return 0


def _accept(folder: Path, lexicon: Lexicon, word: str, kind: str, alias_of: str) -> list[str]:
    word, kind, alias_of = (unicodedata.normalize("NFC", text).strip() for text in (word, kind, alias_of))
    types = sorted({term.type for term in lexicon.terms.values()})
    if kind not in types:
        raise SettingsError(f"종류 '{kind}' 은(는) 없습니다. 쓸 수 있는 것: {', '.join(types)}")
    if alias_of and alias_of not in lexicon.terms:
        raise SettingsError(f"'{alias_of}' 은(는) 용어집의 용어가 아닙니다.")
    path = accept_word(folder, FarmWord(word, kind, alias_of))
    line = f"{alias_of}\t{kind}\t{word}\t" if alias_of else f"{word}\t{kind}\t\t"
    return [
        f"{path} 에 더했습니다."
        + (f" 다음에 켤 때부터 '{word}' 은(는) '{alias_of}' (으)로도 찾습니다." if alias_of else ""),
        "색인의 낱말로도 쓰려면 rag/query/lexicon/farm.tsv 에 이렇게 적고(용어가 있으면 그 별칭에) 색인을 다시 만드세요:",
        line,
    ]


def _lines(found: Sequence[Suggestion]) -> list[str]:
    if not found:
        return ["모르는 낱말이 없습니다."]
    rows = [f"{one.word}\t{one.count}회\t{one.type or '?'}\t{one.alias_of or '-'}\t{one.why}" for one in found]
    return ["낱말\t물은 횟수\t종류\t같은 용어\t까닭", *rows]
