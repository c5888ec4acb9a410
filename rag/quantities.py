"""Quantities of a sentence: value or range, unit, comparator and what they are of; and whether one sentence states another's.

Units are read into one unit per dimension (dS/m = mS/cm = 1,000 µS/cm; ℃ = 도; 1 kg = 1,000 g; 1주 = 7일; 한 달 = 30일;
1평 = 3.3058 ㎡; 만원 = 10,000원), numerals as written or said (1,000; 1만 2천; 두세 번; 이점오; 10분의 1; 이틀). Values in
one unit are compared exactly, values that were converted between units within 0.5 %. A unit that is not in the table counts
as none, and agrees with any.

A year, a month and a day of the month are quantities too (units 연도, 월, 월일), so that dates need no rule of their own;
a house ("3동") has the unit 동.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rag.query.numbers import DAYS, NATIVE, SPOKEN, spoken

Direction = Literal["", "up", "down"]
YEAR, MONTH, DAY, HOUSE, CLOCK = "연도", "월", "월일", "동", "시각"
LIST_NUMBER = re.compile(r"^\s*(?:\d{1,2}[.)]|[①-⑳])\s+")
_CONVERTED = 0.005

# Written unit → (unit it is read into, factor).
_UNITS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("dS/m", "ds/m", "mS/cm", "ms/cm"), ("dS/m", 1)),
    **dict.fromkeys(("µS/cm", "μS/cm", "uS/cm"), ("dS/m", 1e-3)),
    **dict.fromkeys(("℃", "°C", "˚C", "ºC", "도"), ("℃", 1)),
    **dict.fromkeys(("℉", "°F"), ("℉", 1)),
    **dict.fromkeys(("%", "％", "퍼센트", "프로", "%p"), ("%", 1)),
    **dict.fromkeys(("ppm", "mg/L", "mg/l", "㎎/L"), ("ppm", 1)),
    "mg": ("g", 1e-3), "g": ("g", 1), "그램": ("g", 1), "kg": ("g", 1e3), "킬로그램": ("g", 1e3), "㎏": ("g", 1e3),
    "톤": ("g", 1e6), "t": ("g", 1e6),
    "nm": ("m", 1e-9), "나노미터": ("m", 1e-9), "µm": ("m", 1e-6), "mm": ("m", 1e-3), "㎜": ("m", 1e-3), "밀리미터": ("m", 1e-3),
    "cm": ("m", 1e-2), "㎝": ("m", 1e-2), "센티미터": ("m", 1e-2), "센티": ("m", 1e-2), "m": ("m", 1), "미터": ("m", 1), "km": ("m", 1e3),
    "㎡": ("㎡", 1), "m²": ("㎡", 1), "m2": ("㎡", 1), "제곱미터": ("㎡", 1), "평": ("㎡", 3.3058), "a": ("㎡", 100), "아르": ("㎡", 100),
    "ha": ("㎡", 1e4), "헥타르": ("㎡", 1e4),
    "mL": ("L", 1e-3), "ml": ("L", 1e-3), "㎖": ("L", 1e-3), "cc": ("L", 1e-3), "L": ("L", 1), "ℓ": ("L", 1), "리터": ("L", 1),
    "g/m³": ("g/m³", 1), "L/h": ("L/h", 1), "L/s": ("L", 1), "μmol/㎡/s": ("µmol", 1), "µmol/㎡/s": ("µmol", 1), "µmol": ("µmol", 1),
    "초": ("시간", 1 / 3600), "분": ("시간", 1 / 60), "시간": ("시간", 1), "일간": ("시간", 24), "일": ("시간", 24),
    "주일": ("시간", 168), "주간": ("시간", 168), "주": ("시간", 168), "개월": ("시간", 720), "달": ("시간", 720), "년": ("시간", 8640),
    "년간": ("시간", 8640), "해": ("시간", 8640),
    "룩스": ("lx", 1), "lx": ("lx", 1), "lux": ("lx", 1), "klx": ("lx", 1e3), "kPa": ("kPa", 1), "MPa": ("kPa", 1e3),
    "hPa": ("kPa", 0.1), "bar": ("kPa", 100), "W/m²": ("W", 1), "W/㎡": ("W", 1), "W": ("W", 1), "kcal": ("kcal", 1),
    "원": ("원", 1), "회": ("회", 1), "번": ("회", 1), "차례": ("회", 1), "배": ("배", 1), "배액": ("배", 1), "마리": ("마리", 1),
    "매": ("매", 1), "장": ("매", 1), "엽": ("매", 1), "개": ("개", 1), "송이": ("개", 1), "종": ("종", 1), "가지": ("종", 1),
    "명": ("명", 1), "사람": ("명", 1), "세대": ("세대", 1), "브릭스": ("브릭스", 1), "메시": ("메시", 1), "건": ("건", 1),
    "대": ("대", 1), "동": (HOUSE, 1), "월": (MONTH, 1), "화방": ("화방", 1), "등급": ("등급", 1), "마디": ("절", 1), "절": ("절", 1),
}  # fmt: skip
# A unit is not the head of another word: EC 2.5 배액률, 3 원인, 5 일조, 1대목.
_NOT_UNIT = {
    "배": r"(?![지양수추합관꼽]|액률|액\s?EC)", "배액": r"(?!률|\s?EC|\s?pH)", "일": r"(?![지조사반정부소])", "회": r"(?![의복전색])",
    "분": r"(?![무지포석화얼의])", "원": r"(?![인예칙수액산적])", "도": r"(?=[^가-힣]|$|[를로가는까이에의보부씩쯤정와인일라안나면])",
    "주": r"(?![요변사제민차임당입의])", "년": r"(?!산|도)", "동": r"(?![시안화해작양일])", "대": r"(?![목과추상형신비부조표체개략])",
    "장": r"(?![치비소기점해마])", "개": r"(?![화체시월별선방])", "종": r"(?![자류묘합])", "매": r"(?![개년우향월])", "절": r"(?![감반])",
    "번": r"(?![째호식데])", "가지": r"(?![런고])", "달": r"(?![마라])", "해": r"(?![충외소서가])", "건": r"(?![조전물])",
    "초": r"(?![기세장당])", "명": r"(?![의])", "평": r"(?![균지])", "월": r"(?![동별])",
}  # fmt: skip
_UNIT = re.compile(
    r"\s*(?:"
    + "|".join(
        re.escape(unit) + (r"(?![A-Za-z])" if unit.isascii() else _NOT_UNIT.get(unit, ""))
        for unit in sorted(_UNITS, key=len, reverse=True)
    )
    + ")"
)
_FUZZY = {
    "한두": (1, 2), "두세": (2, 3), "두서너": (2, 4), "서너": (3, 4), "너덧": (4, 5), "네댓": (4, 5), "네다섯": (4, 5),
    "대여섯": (5, 6), "예닐곱": (6, 7), "일고여덟": (7, 8), "여덟아홉": (8, 9), "이삼": (2, 3), "삼사": (3, 4),
}  # fmt: skip
_COUNTERS = "번|차례|배|마리|장|시간|달|해|주|개|종|가지|송이|회|일|배액|명|사람|마디|화방|년|개월"
_NATIVE = "|".join(sorted((n for n in NATIVE if n not in ("하나", "첫", "서", "석", "넉")), key=len, reverse=True))
_WORDS = re.compile(
    rf"(?<![가-힣\d])(?<!\d )(?!열해)(?:(?P<fuzzy>{'|'.join(sorted(_FUZZY, key=len, reverse=True))})(?=\s?(?:{_COUNTERS}))"
    rf"|(?P<native>{_NATIVE})(?=\s?(?:번|차례|배(?=[^가-힣]|$|[로를가나의이쯤씩])|마리|장(?=[^가-힣]|[이을에])|시간|달|해(?=[^가-힣]|[에를의])|가지|송이|종류))"
    rf"|(?P<days>{'|'.join(DAYS)})|(?P<week>일주일)|(?P<half>절반)|(?P<yearly>매년|해마다|매해|연중|연간)|(?P<monthly>매달|매월)"
    rf"|(?P<whole>{SPOKEN})점\s?(?P<part>[영공일이삼사오육칠팔구]+)"
    r"|(?P<spoken>(?=[^\s]*[십백천만])[일이삼사오육칠팔구십백천만억]{2,}|[십백천])"
    r"(?=\s?(?:도(?![가-힣]{2})|퍼센트|원|배|일|회|시간|분|미터|그램|킬로|리터|룩스|평)))"
)
_SCALE = {"억": 1e8, "천만": 1e7, "백만": 1e6, "만": 1e4, "천": 1e3, "백": 100}
_FRACTION = re.compile(r"(?<![\d.])(\d+)\s?분의\s?(\d+)|(?<![\d./A-Za-z])([1-9])/(\d{1,2})(?![\d/])")
_DATES = (
    re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)\s?[-./]\s?(?P<m>\d{1,2})\s?[-./]\s?(?P<d>\d{1,2})\.?(?!\d)"),
    re.compile(r"(?:(?P<y>(?:19|20)\d\d)년\s?)?(?<!\d)(?P<m>\d{1,2})월\s?(?P<d>\d{1,2})일(?!\s?간)(?:경|쯤)?"),
)
_CLOCK = re.compile(
    r"(?P<half>오전|오후|낮|밤|저녁|아침|새벽)?\s?(?<![\d.])(?P<h>\d{1,2})시(?!간)(?:\s?(?P<m>\d{1,2})분)?"
    r"|(?<![\d:])(?P<h2>\d{1,2}):(?P<m2>[0-5]\d)(?!\d)"
)
_CLOCK_RANGE = re.compile(
    r"(?P<half>오전|오후|낮|밤|저녁|아침|새벽)?\s?(?<![\d.])(?P<a>\d{1,2})(?:시(?:부터)?)?\s?(?:[~∼〜–-]|(?<=시부터)|(?<=시에서))\s?(?P<b>\d{1,2})시(?!간)"
)
_YEARS = re.compile(r"(?<!\d)(?:(?P<a>(?:19|20)\d\d)\s?년?\s?[~∼〜–-]\s?)?(?P<b>(?:19|20)\d\d)년(?:산|도)?")
_MYRIADS = r"(?:\s?(?P<s>억|천만|백만|만|천|백)(?:\s?(?P<n2>\d+(?:,\d{3})*)\s?(?P<s2>천만|백만|만|천)?)?(?=[^가-힣]|[원룩톤마배주이을년]))?"
_NUMBER = re.compile(
    rf"(?<![\d.])(?<![A-Za-z])(?P<n>[-−]?\d+(?:,\d{{3}})*(?:\.\d+)?){_MYRIADS}"
    r"|(?<=pH)(?P<ph>\d+(?:\.\d+)?)|(?<=EC)(?P<ec>\d+(?:\.\d+)?)"
)
_TIE = re.compile(r"\s*(?:[~∼〜–-]|에서|내지|부터)\s*(?=\d)")
_UP = re.compile(r"\s*(?:를|을|가|이)?\s*(?:\(?이상|초과|넘|웃돌|보다\s*(?:더\s*)?(?:높|크|많|길)|뛰어넘)")
_DOWN = re.compile(
    r"\s*(?:를|을|가|이|에|로)?\s*(?:이하|미만|이내|안에|못\s?미치|못\s?되|미치지\s?못|밑돌|아래|밑|보다\s*(?:더\s*)?(?:낮|작|적|짧|내려))"
)
_KEPT_FROM = re.compile(
    r"\s*(?:를|을|가|이|에)?\s*(?:더\s*)?(?:넘[가-힣]*지|초과하지|(?:아래|밑|이하|미만|이상)(?:으?로)?\s?"
    r"(?:내려가|떨어지|낮추|낮아지|올라가|오르|높이|되|두|내리)[가-힣]*지)\s?(?:않|못|말|마)"
)
_AT_MOST, _AT_LEAST = re.compile(r"(?:최대|많아야|길어야)\s*$"), re.compile(r"(?:최소|적어도|못해도)\s*$")
# Things told apart in one sentence; a figure belongs to the last of them named before it.
_ROLES = re.compile(r"주간|야간|낮|밤|급액|배액(?!률)|배액률|최저|최고|여름|겨울|봄|가을|맑은|흐린|초기|중기|후기")
_ROLE_OF = {"주간": "낮", "야간": "밤"}
_RIVALS = (
    {"낮", "밤"},
    {"급액", "배액"},
    {"최저", "최고"},
    {"여름", "겨울", "봄", "가을"},
    {"맑은", "흐린"},
    {"초기", "중기", "후기"},
)

_BELOW_ZERO = re.compile(r"영하\s?(?=\d)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """``low`` to ``high`` (equal for a single value) in ``unit``; ``said`` are the words of the sentence.

    ``scale`` is what one of the written unit is in ``unit``; ``weak``: words such as 하루 that count as a quantity only
    where the other sentence gives a figure; ``roles``: what it is of, among things told apart in one sentence (낮, 밤 …).
    """

    low: float
    high: float
    unit: str
    said: str
    start: int
    direction: Direction = ""
    scale: float = 1.0
    weak: bool = False
    roles: frozenset[str] = frozenset()

    @property
    def dated(self) -> bool:
        """Whether it is a part of a date."""
        return self.unit in (YEAR, MONTH, DAY)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """The quantities of a sentence, in its order. A list number at its start is none."""
    lead = LIST_NUMBER.match(text)
    body = " " * lead.end() + text[lead.end() :] if lead else text
    body = _BELOW_ZERO.sub(lambda match: " " * (len(match[0]) - 1) + "-", body)
    found: list[Quantity] = []
    for take in (_dates, _clocks, _years, _fractions, _worded, _plain):
        body = take(body, found)
    return tuple(sorted((_with_role(q, text) for q in found), key=lambda q: q.start))


def _blank(body: str, start: int, end: int) -> str:
    return body[:start] + "\0" * (end - start) + body[end:]


def _dates(body: str, found: list[Quantity]) -> str:
    for pattern in _DATES:
        for match in pattern.finditer(body):
            month, day = int(match["m"]), int(match["d"])
            if 1 <= month <= 12 and 1 <= day <= 31:
                if match["y"]:
                    found.append(Quantity(int(match["y"]), int(match["y"]), YEAR, match[0], match.start()))
                found.append(Quantity(month * 100 + day, month * 100 + day, DAY, match[0], match.start()))
                body = _blank(body, match.start(), match.end())
    return body


def _clocks(body: str, found: list[Quantity]) -> str:
    for match in _CLOCK_RANGE.finditer(body):
        ends = [_hour(match["half"], int(match[name])) for name in ("a", "b")]
        found.append(Quantity(min(ends), max(ends), CLOCK, match[0].strip(), match.start()))
        body = _blank(body, match.start(), match.end())
    for match in _CLOCK.finditer(body):
        hour, minute = int(match["h"] or match["h2"]), int(match["m"] or match["m2"] or 0)
        at = _hour(match["half"], hour) + minute / 60
        found.append(Quantity(at, at, CLOCK, match[0].strip(), match.start()))
        body = _blank(body, match.start(), match.end())
    return body


def _hour(half: str | None, hour: int) -> float:
    """Hour of the day; "밤 8시" and "오후 3시" are after noon, "밤 12시" and "밤 1시" are not."""
    afternoon = half in ("오후", "저녁") or (half == "밤" and 5 < hour < 12) or (half == "낮" and hour < 6)
    return hour + 12 if afternoon and hour < 12 else hour


def _years(body: str, found: list[Quantity]) -> str:
    for match in _YEARS.finditer(body):
        last = int(match["b"])
        found.append(Quantity(int(match["a"] or last), last, YEAR, match[0], match.start()))
        body = _blank(body, match.start(), match.end())
    return body


def _fractions(body: str, found: list[Quantity]) -> str:
    for match in _FRACTION.finditer(body):
        whole, part = (match[1], match[2]) if match[1] else (match[4], match[3])
        if int(whole):
            value = int(part) / int(whole)
            found.append(Quantity(value, value, "", match[0], match.start()))
            body = _blank(body, match.start(), match.end())
    return body


def _worded(body: str, found: list[Quantity]) -> str:
    for match in _WORDS.finditer(body):
        kind, word = str(match.lastgroup if match.lastgroup != "part" else "whole"), match[0]
        unit, scale, end = _unit_at(body, match.end())
        values, weak = _said(kind, match), kind in ("half", "yearly", "monthly") or word in ("하루", "한")
        if values is None:
            continue
        if kind in ("days", "week", "yearly", "monthly", "half"):
            unit, scale, end = "%" if kind == "half" else "시간", 1.0, match.end()
        low, high = (value * scale for value in values)
        found.append(Quantity(low, high, unit, body[match.start() : end], match.start(), _direction(body, match.start(), end), scale, weak))  # fmt: skip
        body = _blank(body, match.start(), end)
    return body


def _said(kind: str, match: re.Match[str]) -> tuple[float, float] | None:
    """Value or range of a numeral word; None: it is none."""
    if kind == "fuzzy":
        low, high = _FUZZY[match[0]]
        return low, high
    fixed = {"week": 168.0, "yearly": 8640.0, "monthly": 720.0, "half": 50.0}
    if kind in fixed:
        return fixed[kind], fixed[kind]
    if kind == "native":
        return NATIVE[match[0]], NATIVE[match[0]]
    if kind == "days":
        return DAYS[match[0]] * 24, DAYS[match[0]] * 24
    value: float | None
    if kind == "whole":
        whole, part = spoken(match["whole"]), [spoken(char) for char in match["part"]]
        value = None if whole is None else float(f"{whole}.{''.join(str(digit) for digit in part)}")
    else:
        value = spoken(match["spoken"])
    return None if value is None else (value, value)


def _plain(body: str, found: list[Quantity]) -> str:
    matches = [m for m in _NUMBER.finditer(body)]
    index = 0
    while index < len(matches):
        first = last = matches[index]
        unit, scale, end = _unit_at(body, first.end())
        own_unit = unit
        tie = _TIE.match(body, end)
        if tie and index + 1 < len(matches) and matches[index + 1].start() == tie.end():
            last = matches[index + 1]
            own = (unit, scale)
            unit, scale, end = _unit_at(body, last.end())
            if own[0] and own != (unit, scale):  # "8시간에서 4일": two quantities
                last, (unit, scale), end = first, own, tie.start()
            else:
                index += 1
        values = [_value(m) for m in (first, last)]
        if last["s"] and not first["s"] and own_unit == "":  # 500~600만원
            values[0] *= _SCALE[last["s"]]
        index += 1
        if first is last and not unit and (first["n"] or "").startswith(("-", "−")):
            values = [abs(value) for value in values]
        if unit == MONTH and not all(1 <= value <= 12 for value in values):
            unit = ""
        if values[0] > values[1] and unit != MONTH:  # "8시간에서 4시간으로": from … to, two values
            for value, m in zip(values, (first, last), strict=True):
                found.append(
                    Quantity(value * scale, value * scale, unit, body[m.start() : m.end()], m.start(), "", scale)
                )
            continue
        found.append(
            Quantity(values[0] * scale, values[1] * scale, unit, body[first.start() : end].strip(), first.start(), _direction(body, first.start(), end), scale)
        )  # fmt: skip
    return body


def _value(match: re.Match[str]) -> float:
    """A number in digits, with 만 and the like: 1,000; 1억 7천만; 2만 3,000."""
    value = _number(match["n"] or match["ph"] or match["ec"])
    if match["s"]:
        value *= _SCALE[match["s"]]
    if match["n2"]:
        value += _number(match["n2"]) * _SCALE.get(match["s2"] or "", 1)
    return value


def _number(digits: str) -> float:
    return float(digits.replace(",", "").replace("−", "-"))


def _unit_at(body: str, start: int) -> tuple[str, float, int]:
    """Unit, factor and end of the words from ``start``; ("", 1, start) where no known unit stands."""
    match = _UNIT.match(body, start)
    if match is None:
        return "", 1.0, start
    unit, scale = _UNITS[match[0].strip()]
    return unit, scale, match.end()


def _direction(body: str, start: int, end: int) -> Direction:
    """Whether "or more" or "or less" is said of the words at [start, end). "넘지 않게" is "or less"."""
    up, down = _UP.match(body, end), _DOWN.match(body, end)
    if _KEPT_FROM.match(body, end):
        up, down = down, up
    if up or _AT_LEAST.search(body[:start]):
        return "up"
    return "down" if down or _AT_MOST.search(body[:start]) else ""


def _with_role(q: Quantity, text: str) -> Quantity:
    roles: list[str] = []
    for match in _ROLES.finditer(text[: q.start]):
        role = _ROLE_OF.get(match[0], match[0])
        rivals = next((r for r in _RIVALS if role in r), set())
        roles = [held for held in roles if held not in rivals] + [role]
    return Quantity(q.low, q.high, q.unit, q.said, q.start, q.direction, q.scale, q.weak, frozenset(roles))


def states(have: Sequence[Quantity], want: Quantity) -> bool:
    """Whether a sentence with the quantities ``have`` states ``want``: same range, or the value alone or as an end of a range."""
    return any(_same(want, other) for other in have) or (
        want.low != want.high
        and all(
            any(o.low == o.high and _equal(v, o.low, want, o) and _fits(want, o) for o in have)
            for v in (want.low, want.high)
        )
    )


def _same(want: Quantity, other: Quantity) -> bool:
    if not _fits(want, other):
        return False
    if want.low == want.high:
        return _equal(want.low, other.low, want, other) or _equal(want.low, other.high, want, other)
    return _equal(want.low, other.low, want, other) and _equal(want.high, other.high, want, other)


def _fits(want: Quantity, other: Quantity) -> bool:
    """Unit, comparator and what it is of agree, where both say."""
    opposite = {want.direction, other.direction} == {"up", "down"}
    rivals = any(
        (mine := want.roles & group) and (its := other.roles & group) and not mine & its
        for group in map(frozenset, _RIVALS)
    )
    return comparable(want, other) and not opposite and not rivals


def comparable(one: Quantity, other: Quantity) -> bool:
    """Whether two quantities are in one unit, or one of them names none."""
    if one.dated or other.dated or HOUSE in (one.unit, other.unit):
        return one.unit == other.unit
    return not one.unit or not other.unit or one.unit == other.unit


def _equal(a: float, b: float, one: Quantity, other: Quantity) -> bool:
    if one.unit == other.unit and one.scale != other.scale:
        return abs(a - b) <= _CONVERTED * max(abs(a), abs(b))
    if one.unit != other.unit:  # one names no unit: the bare figures
        a, b = a / one.scale, b / other.scale
    return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))
