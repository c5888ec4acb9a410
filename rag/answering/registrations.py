"""Pesticide registrations: what a row of a registration sheet says, and what a question wants of its use."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date

from rag.answering.rows import cells_of
from rag.query.numbers import DAY_WORD, NATIVE_WORD, counted

# What a registration row must say, whatever is asked: the dose, and when and how often it may be used.
_USE = frozenset({"희석배수", "사용량", "안전사용시기", "사용횟수"})
_REGISTERED_NAMES = frozenset({"품목", "상표"})
# Of "…제(상표 심볼, (주)동방아그로): 희석배수 2000배, …, 3회 이내, 등록 유효기간 …" what a reader needs.
_LISTED = re.compile(r"(?P<name>.+?\(상표 [^,()]+)(?:, (?:[^()]|\([^()]*\))*)?\): (?P<use>.+)$")
_VALID_UNTIL = re.compile(r"등록 유효기간:? (\d{4})-(\d{2})-(\d{2})")
_ADMINISTRATION = re.compile(r",? ?등록 유효기간 [^,(]*|\.? ?\(등록 작물명:[^)]*\)+|\.$")
# Days between the last spraying and harvest: "수확 3일 전까지"; a sheet's cell may hold the number alone.
_INTERVAL = re.compile(
    r"수확 ?(?P<days>\d+) ?일 ?전|(?P<none>수확 ?당일)|안전사용시기:? (?P<bare>\d+)(?:일)?(?=,|$| 전)"
)
_TIMES = re.compile(r"(?:^|[ ,])(\d+) ?회(?: ?이내)?(?=[,. ]|$)")
_N_DAYS = rf"(?:(?P<n>\d+|[일이삼사오육칠팔구십]+)\s?일|(?P<word>{DAY_WORD}|일주일|한\s?주|이\s?주일?|두\s?주))"
_HARVEST = r"(?:수확|출하|따(?!라)|딸(?!기)|땁)"
_BEFORE_HARVEST = re.compile(rf"(?:수확|출하|따기)(?:하기)?\s?{_N_DAYS}\s?전")
_HARVEST_IN = re.compile(
    rf"(?:(?P<soon>내일|모레)|{_N_DAYS}\s?(?:뒤|후|있다가?|이따가?))(?:에|부터|면)?\s?(?:\S+\s){{0,2}}{_HARVEST}"
)
_ON_THE_DAY = re.compile(r"수확\s?(?:당일|하는\s?날)|당일\s?수확")
_SO_MANY_TIMES = re.compile(
    rf"(?P<n>\d+|{NATIVE_WORD})\s?(?:번|회)(?:까지|이상|씩|은|는)?\s?(?:도\s)?(?:쓸|칠|뿌릴|쓰는|치는|써도|쳐도|뿌려도|되는|가능)"
)
_SHORTEST = re.compile(
    r"(?:수확|안전)\S*\s?(?:전\s?)?(?:기간|일수|사용\s?(?:시기|기준))\S*\s?(?:제일|가장)?\s?짧|(?:제일|가장)\s?(?:늦게까지|나중까지)"
    r"|수확\s?(?:직전|코앞|바로\s?전)"
)
_SOON = {"내일": 1, "모레": 2, "일주일": 7, "한주": 7, "이주": 14, "이주일": 14, "두주": 14}


def is_registration(sentence: str) -> bool:
    """Whether a sentence is one pesticide's registration."""
    return bool(_LISTED.match(sentence)) or dict(cells_of(sentence)).keys() >= _REGISTERED_NAMES


def pest_of(title: str, crop: str) -> str:
    """What a registration sheet is on besides its crop, by its title ("오이 노균병 등록 농약" → 노균병); "" where it does not tell."""
    head, found, _ = title.partition(" 등록 농약")
    return head.removeprefix(crop).strip() if found else ""


def registered_names(sentence: str) -> tuple[str, ...]:
    """Brand and active ingredients of a registration; none for any other sentence.

    "클로티아니딘.피리프록시펜 유현탁제(상표 신농팜델타린, …): …" → 신농팜델타린, 클로티아니딘, 피리프록시펜.
    """
    listed = _LISTED.match(sentence)
    cells = dict(cells_of(sentence))
    if listed:
        product, _, brand = listed["name"].partition("(상표 ")
    elif cells.keys() >= _REGISTERED_NAMES:
        product, brand = cells["품목"], cells["상표"]
    else:
        return ()
    ingredients = re.split(r"[.·ㆍ+]", product.rpartition(" ")[0])
    return tuple(name.strip() for name in (brand, *ingredients) if name.strip())


def spoken_registration(sentence: str) -> str:
    """A pesticide registration without maker and period of validity; the words that are left stand as they do there.

    "클로티아니딘 입상수용제(상표 심볼, (주)동방아그로): 희석배수 2000배, 수확 3일 전까지, 3회 이내, 등록 유효기간
    2032-03-21." → "클로티아니딘 입상수용제(상표 심볼): 희석배수 2000배, 수확 3일 전까지, 3회 이내".
    """
    listed = _LISTED.match(sentence)
    if listed:
        return f"{listed['name']}): {_ADMINISTRATION.sub('', listed['use'])}".rstrip(" .,")
    cells = dict(cells_of(sentence))
    if not cells.keys() >= _REGISTERED_NAMES:
        return sentence
    use = ", ".join(f"{name} {value}" for name, value in cells.items() if name in _USE and value not in ("", "-"))
    when = f", {cells['사용시기']}" if cells.get("사용시기", "-") not in ("", "-") else ""
    return f"{cells['품목']}(상표 {cells['상표']}): {use}{when}"


def expired(sentence: str, today: date | None) -> date | None:
    """Until when a registration was valid, where that is before ``today``; None for one in force."""
    match = _VALID_UNTIL.search(sentence)
    until = date(*map(int, match.groups())) if match else None
    return until if until and today and until < today else None


def interval_of(sentence: str) -> int | None:
    """Days before harvest until which a registration may be used; None where it tells none ("안전사용시기 정식기")."""
    match = _INTERVAL.search(sentence)
    if match is None:
        return None
    return 0 if match["none"] else int(match["days"] or match["bare"])


def times_of(sentence: str) -> int | None:
    """How often a registration may be used; None where it does not tell."""
    found = _TIMES.findall(sentence)  # "7일간격 2회, 수확 3일 전까지, 3회 이내": the last is the limit
    return int(found[-1]) if found else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question wants of a registration's use.

    ``days``: harvest is so many days away, the registered interval must not be longer; ``times``: it is to be used so
    often; ``soonest``: the shortest interval is asked for.
    """

    days: int | None = None
    times: int | None = None
    soonest: bool = False

    def __bool__(self) -> bool:
        return self.days is not None or self.times is not None or self.soonest

    def short_of(self, sentence: str) -> float:
        """How far a registration is from what is wanted, in days and times; 0 where it does, infinite where it does not tell."""
        interval, times, days = interval_of(sentence), times_of(sentence), 0 if self.soonest else self.days
        late = 0 if days is None else math.inf if interval is None else max(0, interval - days)
        return late + (0 if self.times is None else math.inf if times is None else max(0, self.times - times))

    def told(self) -> str:
        """The conditions as a reader says them; "" without any."""
        days = "수확 당일에" if self.days == 0 else f"수확 {self.days}일 전에" if self.days is not None else ""
        times = f"{self.times}회까지" if self.times is not None else ""
        return " ".join(part for part in (days, times) if part)


def wanted_of(question: str) -> Wanted:
    """The conditions of a question: "수확 하루 전까지 되는", "모레 따는데", "세 번 쳐도 되는", "수확 전 기간이 짧은"."""
    before = _BEFORE_HARVEST.search(question) or _HARVEST_IN.search(question)
    days = _days(before) if before else 0 if _ON_THE_DAY.search(question) else None
    times = _SO_MANY_TIMES.search(question)
    return Wanted(days, counted(times["n"]) if times else None, _SHORTEST.search(question) is not None)


def _days(match: re.Match[str]) -> int | None:
    told = match.groupdict()
    word = re.sub(r"\s", "", told.get("soon") or told["word"] or "")
    return _SOON.get(word) or counted(word or told["n"])
