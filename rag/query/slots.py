"""Slots of a question by rules: date, author, document type, file, house, farm, crop, cultivar, growth stage, value.

Rules and the farm lexicon only; the same question at the same moment against the same catalogue gives the same slots.
Values are canonical (README of ``eval/sets``, "값"); the span is what the rule matched. Words of a file name or path
belong to that slot alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache

from rag.lexicon import Mention
from rag.query.dates import OPEN, BadDate, Period, candidates, find_periods
from rag.query.numbers import NATIVE, counted, spoken
from rag.query.typos import one_letter_apart
from rag.query.words import words
from rag.schema import Slot, SlotKind
from rag.stores.catalogue import Catalogue

INVALID = "invalid"
_SURNAMES = "김이박최정강조윤장임한오서신권황안송류홍전고문양손배백허유남심노하곽성차주우구민진지엄채원천방공현함변염여추도소석선설마길연위표명기반왕금옥육인맹제모탁국어은편용"
# A title is not the head of another word: 전기사용량, 조사장비, 이 대표적인, 유기사료.
_TITLES = (
    "농장장|주임|반장|과장|대리(?!점)|사장(?!비)|부장|팀장|기사(?![용고업료])|소장|대표(?!적)|실장|차장|사원|조장|이사(?!회)|"
    "여사|선생|상무|전무|계장|작업반장"
)
_TITLE_NAMES = frozenset(re.sub(r"\([^)]*\)", "", _TITLES).split("|"))
_AUTHOR = re.compile(rf"(?<![가-힣])([{_SURNAMES[:46]}])\s?({_TITLES})")
# "고쳐준 기사님" is nobody's name.
_FULL_NAME = re.compile(rf"(?<![가-힣])(?!고[쳐친]|도와|안[내전])([{_SURNAMES[:46]}][가-힣]{{2}})\s?({_TITLES})")
_NAME_END = r"(?=님|씨|[은는이가을를과와의도만랑하한에께]|\s|$|[^가-힣])"
# What may stand before a name without a space: 2동오농장장이쓴, 작년3월박반장.
_AFTER_SLOT = r"(?:(?<![가-힣])|(?<=[동월일년주달]))"
_ORDINAL = {"첫": 1, "첫째": 1, "둘째": 2, "셋째": 3, "넷째": 4, "다섯째": 5} | {f"{n}": v for n, v in NATIVE.items()}
_DONG = r"(?!안(?!에)|시에|일(?!지)|의(?!서)|네(?!\s)|절기|해|계|력)"
_HOUSE = re.compile(rf"(?<![\d.,:/-])(?<!\d\s월)(\d{{1,2}})\s*(?:번\s?|호\s?)?(연동|동){_DONG}")
_HOUSE_RANGE = re.compile(
    rf"(?<![\d.])(\d{{1,2}})\s*(?:번\s?)?(?:동)?\s*(?:~|-|–|∼|〜|부터|에서)\s*(\d{{1,2}})\s*(?:번\s?)?동{_DONG}(?:까지)?"
)
_HOUSE_LIST = re.compile(
    rf"(?<![\d.])((?:\d{{1,2}}\s*(?:동)?\s*(?:,|·|/|&|와|과|하고|이랑|랑|및)\s*)+)(\d{{1,2}})\s*(연동|동){_DONG}"
)
_HOUSE_SAID = re.compile(
    rf"(첫째|둘째|셋째|넷째|다섯째|(?:첫|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열)\s?번?\s?째|(?<![가-힣])[삼오육칠팔](?=\s?동(?:에|은|이|의|을|도|랑|\s|$)))\s?동{_DONG}"
)
_HOUSE_ENGLISH = re.compile(r"(?<![A-Za-z])house\s?(\d{1,2})(?!\d|\s?동)", re.IGNORECASE)
_HOUSE_LETTER = re.compile(rf"(?<![A-Za-z0-9])([A-Z])\s?동{_DONG}")
_UNITS = {
    "ds/m": "dS/m", "ms/cm": "mS/cm", "μs/cm": "μS/cm", "us/cm": "μS/cm", "℃": "℃", "°c": "℃", "도": "℃", "%": "%", "퍼센트": "%", "프로": "%",
    "ppm": "ppm", "피피엠": "ppm", "kg": "kg", "킬로그램": "kg", "킬로": "kg", "키로": "kg", "g": "g", "그램": "g", "톤": "톤", "mg/l": "mg/L",
    "배": "배", "리터": "L", "l": "L", "ml": "mL", "밀리리터": "mL", "lx": "lx", "룩스": "lx", "럭스": "lx", "lux": "lx", "mm": "mm", "밀리": "mm",
    "미리": "mm", "cm": "cm", "센티": "cm", "센치": "cm", "센티미터": "cm", "㎡": "㎡", "m2": "㎡", "제곱미터": "㎡", "평": "평", "m": "m",
    "미터": "m", "시간": "시간", "분": "분", "초": "초", "회": "회", "번": "회", "차례": "회", "원": "원", "w": "W", "kw": "kW", "kwh": "kWh",
    "브릭스": "브릭스", "brix": "브릭스", "°brix": "브릭스", "kpa": "kPa", "hpa": "hPa", "상자": "상자", "박스": "상자", "마리": "마리",
    "포기": "포기", "그루": "그루", "degrees": "℃", "degree": "℃", "percent": "%",
}  # fmt: skip
_LATIN_UNIT = r"[a-zA-Zμ°]+(?:/[a-zA-Z]+)?2?"
_HANGUL_UNIT = "|".join(sorted((u for u in _UNITS if "가" <= u[0] <= "힣"), key=len, reverse=True))
_UNIT = (
    rf"(?:dS/m|mS/cm|[μu]S/cm|mg/[lL]|℃|°C|%|ppm|kWh|kW|kPa|hPa|kg|mL|ml|lx|lux|mm|cm|㎡|m2|°?[Bb]rix|degrees?|percent|"
    rf"(?:{_HANGUL_UNIT})(?!째)|g|L|W|m)"
)
_NOT_UNIT = r"(?![a-zA-Z/]|월|지|작물|열|량|수\b|꽃|의|형|달|양액|기(?!가|를|준)|양)"
_TIMES = {"만": 10_000, "천": 1000, "백": 100, "억": 100_000_000}
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_VALUE = re.compile(
    rf"(?<![\d.,/-])(?:(?P<minus>영하\s?)|(?P<low>{_NUMBER})\s*(?:{_UNIT})?\s*[~∼〜]\s*)?(?P<n>{_NUMBER})\s*(?P<times>[만천백억])?\s*(?P<unit>{_UNIT}){_NOT_UNIT}"
)
_SAID = r"[영공일이삼사오육칠팔구십백천만억]"
_SAID_VALUE = re.compile(
    rf"(?<![가-힣\d.])(?<!\d\s)(?:(?P<n>{_SAID}+)(?:쩜|점)(?P<f>[영공일이삼사오육칠팔구]+)|(?P<n2>{_SAID}+))\s*"
    r"(?P<unit>도|퍼센트|프로|피피엠|킬로그램|킬로|키로|그램|톤|배|리터|룩스|럭스|밀리|미리|센티|센치|평|시간|분|회|원|디에스|브릭스)"
    r"(?=[에로은는이가을를의까만쯤정넘인면도씩액부요짜]|\s|$|[,?.!])"
)
_COUNTED_VALUE = re.compile(
    r"(?<![가-힣])(?P<n>한(?!\s?번에)|두|세|네|다섯|여섯|일곱|여덟|아홉|열|열두|스무)(?:\s(?P<u>번|시간|배|평|상자|박스)|(?P<u2>번|시간|배))"
    r"(?!째|\s?동)(?=[에로은는이가을를의까만쯤정넘인면도씩액요]|\s|$|[,?.!])"
)
_INTERVAL = re.compile(
    r"(?<![\d.])(?P<n>\d+)\s*(?P<unit>일|주|주일|개월)(?=\s*(?:간격|동안|이내|안에|만에|마다|이상|이하|넘|걸|뒤|후|째))"
)
_SCALE = re.compile(
    r"(?<![A-Za-z])(?P<s>pH|ph|PH|EC|ec|Ec|피에이치|페하|산도|이씨|VPD)(?:\s*(?:를|을|가|는|은|값이|값|농도|이)?\s*)"
    r"(?:(?P<n>\d+(?:\.\d+)?)|(?P<a>[영공일이삼사오육칠팔구십]+)\s?(?:쩜|점)\s?(?P<b>[영공일이삼사오육칠팔구]+)(?<!이(?=면|에요|야|라|고|니)))"
    rf"(?!\d|\s*(?:{_UNIT})|[.,]\d|\s?[~∼월년동일주])"
)
_SCALES = {"ph": "pH", "피에이치": "pH", "페하": "pH", "산도": "pH", "ec": "EC", "이씨": "EC", "vpd": "VPD"}
_FARM = re.compile(r"([가-힣A-Za-z]{2,10}?|(?<![가-힣])[옆앞뒷딴그])\s?(농장|농원)(?!장)")
_MINE = frozenset({"우리", "저희", "내", "본", "이"})
_NO_NAME = words(
    "스마트팜 스마트 일반 시설 온실 토마토 딸기 파프리카 오이 와사비 실습 시범 선도 체험 관광 주말 보통 대부분 모든 여러 작은 소규모 대규모 가족 개인 유리온실 비닐하우스 수경재배 "
    "양액재배 시설원예 어느 어떤"
)
# "화순 농장" is some farm in 화순; "화순농장" may be a farm's name.
_REGIONS = words(
    "강원 강원도 경기 경기도 충북 충남 전북 전남 경북 경남 제주 제주도 서귀포 세종 대전 대구 광주 부산 울산 인천 "
    "춘천 원주 강릉 동해 태백 속초 삼척 홍천 횡성 영월 평창 정선 철원 화천 양구 인제 고성 양양 수원 화성 평택 안성 이천 여주 용인 파주 포천 "
    "김포 양평 가평 연천 남양주 고양 청주 충주 제천 보은 옥천 영동 증평 진천 괴산 음성 단양 천안 공주 보령 아산 서산 논산 계룡 당진 금산 부여 "
    "서천 청양 홍성 예산 태안 전주 군산 익산 정읍 남원 김제 완주 진안 무주 장수 임실 순창 고창 부안 목포 여수 순천 나주 광양 담양 곡성 구례 "
    "고흥 보성 화순 장흥 강진 해남 영암 무안 함평 영광 장성 완도 진도 신안 포항 경주 김천 안동 구미 영주 영천 상주 문경 경산 의성 청송 영양 "
    "영덕 청도 고령 성주 칠곡 예천 봉화 울진 창원 진주 통영 사천 김해 밀양 거제 양산 의령 함안 창녕 남해 하동 산청 함양 거창 합천"
)
# What stands before it is not wanted.
LEAVES_OUT = "(?:말고|빼고|제외하고)"
ANOTHER = "(?:다른|딴)"
_LEFT_OUT = re.compile(
    rf"\S+?(?:\s(?:든|들어간|계열|계통|성분)\S*)?(?:\s(?:건|거|것)[은는]?)?\s?{LEAVES_OUT}(?![가-힣])"
    rf"|\S+\s(?:지난번|저번|이미|전번)\S*\s(?:썼|쳤|뿌렸)\S*(?=.*{ANOTHER})"
    rf"|(?:\S+(?:랑|이랑|하고|과|와)\s)?\S+?[은는]?\s(?:써|쳐|뿌려)\s?봤\S*(?=.*{ANOTHER})"
)
_EXTENSION = "hwpx|hwp|pdf|docx|doc|xlsx|xls|csv|txt|md|pptx|ppt|jpg|jpeg|png|zip"
_QUOTED = rf"(?<=['\"“‘])[^'\"“”‘’<>]{{1,80}}\.(?:{_EXTENSION})(?=['\"”’])"
_PATH = re.compile(
    rf"{_QUOTED}|"
    rf"(?<![A-Za-z])[A-Za-z]:[\\/]\S*?\.(?:{_EXTENSION})(?![A-Za-z0-9])|\\\\\S*?\.(?:{_EXTENSION})(?![A-Za-z0-9])|"
    rf"(?<![A-Za-z])[A-Za-z]:\\[^\s]+|\\\\[^\s\\]+\\[^\s]+|[^\s\"'“”‘’()<>]+\.(?:{_EXTENSION})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_FORMAT = re.compile(
    r"(?<![a-z])(hwpx|hwp|pdf|docx|xlsx|xls|csv|excel|txt|pptx|ppt)(?![a-z])|(엑셀|워드(?!프)|피디에프|파워포인트|아래아\s?한글|한글\s?(?:파일|문서)|한글(?=로\s?(?:된|작성|쓴|만든)))",
    re.IGNORECASE,
)
_FORMATS = {
    "엑셀": "xlsx",
    "excel": "xlsx",
    "xls": "xlsx",
    "워드": "docx",
    "피디에프": "pdf",
    "파워포인트": "pptx",
    "ppt": "pptx",
}
# What people call a document → its kind. The longest that fits.
_TYPES: tuple[tuple[str, str], ...] = (
    (r"수확\s?(?:기록부|기록|일지|대장|장부)|출하\s?(?:기록|대장)", "수확기록"),
    (r"(?:작업|영농|재배|농작업)\s?일지|일지|work\s?log(?![a-z])", "작업일지"),
    (r"(?:안전\s?)?점검표|점검\s?(?:기록|일지|대장)|checklist", "점검표"),
    (r"계약서|(?<![a-z])contract(?![a-z])", "계약서"),
    (r"회의록|회의\s?기록|meeting\s(?:minutes|notes)", "회의록"),
    (r"(?:수리|고장|정비)\s?(?:기록부|기록|대장|일지)", "수리기록"),
    (r"(?:급액|배액|급배액|급액\s?배액)\s?(?:요약표|요약|기록표|기록)", "급액배액요약"),
    (r"(?:센서|환경)\s?(?:요약표|요약|기록표|기록|데이터)", "센서요약"),
    (r"거래\s?명세서|명세서", "거래명세서"),
    (r"견적서", "견적서"),
    (r"계획서", "계획서"),
    (r"보고서|리포트|(?<![a-z])report(?![a-z])", "보고서"),
    (r"매뉴얼|메뉴얼|매뉴알|(?<![a-z])manual(?![a-z])|설명서", "매뉴얼"),
    (r"지침서|지침", "지침"),
)
_TYPE = re.compile("|".join(f"(?P<t{n}>{pattern})" for n, (pattern, _) in enumerate(_TYPES)), re.IGNORECASE)
# Kinds on file that are subjects, not names of a document.
_SUBJECTS = frozenset({"농약등록", "법령", "재배기술"})
_LEXICON_KINDS: dict[str, SlotKind] = {"작물": "crop", "품종": "cultivar", "생육단계": "growth_stage"}
_EXCLUDED = re.compile(rf"\s?(?:님|이|가)?\s?{LEAVES_OUT}(?![가-힣])")


def find_slots(
    text: str,
    mentions: Sequence[Mention],
    today: date,
    catalogue: Catalogue,
    own_farm: str | None,
    *,
    farms: Collection[str] = (),
    base: date | None = None,
    english: bool = True,
) -> tuple[Slot, ...]:
    """All slots in text order.

    ``mentions`` are the lexicon mentions of ``text`` (NFC); ``own_farm`` is the asker's, ``farms`` are those of the
    settings, so that "푸른들 1동" names one; ``base`` is the day that "그 다음날" counts from; ``english``: English date
    words count. A slot in front of "말고" is not what is wanted and left out.
    """
    files = [*_files(text)]
    text = _blanked(text, files)
    taken = list(files)
    for slots in (
        _dates(text, today, base, english),
        _authors(text, catalogue),
        _types(text, catalogue),
        _houses(text, catalogue),
        _named_farms(text, own_farm, farms),
        _farms(text, own_farm),
        _values(text),
        _terms(mentions),
    ):
        taken += [slot for slot in slots if slot.kind == "house" or _free(slot, taken)]
    kept = (slot for slot in taken if not _EXCLUDED.match(text[slot.end :]))
    return tuple(sorted(kept, key=lambda slot: (slot.start, slot.end, slot.kind)))


def excluded_spans(text: str) -> list[tuple[int, int]]:
    """The words that "말고" leaves out: "일사량 말고" → [0, 6); what was used last time, where another is wanted."""
    return [(m.start(), m.end()) for m in _LEFT_OUT.finditer(text)]


def without_excluded(text: str) -> str:
    """The text with what it leaves out blanked, as long as before."""
    for start, end in excluded_spans(text):
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def farm_elsewhere(text: str) -> bool:
    """Whether a farm somewhere is asked about ("화순 농장"), not one by its name and not the asker's."""
    return any(map(_of_region, _FARM.finditer(text)))


def _of_region(farm: re.Match[str]) -> bool:
    return farm[1] in _REGIONS and farm.end(1) < farm.start(2)


def _free(slot: Slot, taken: Sequence[Slot]) -> bool:
    return all(slot.end <= t.start or t.end <= slot.start for t in taken)


def _blanked(text: str, slots: Sequence[Slot]) -> str:
    for slot in slots:
        text = text[: slot.start] + "\0" * (slot.end - slot.start) + text[slot.end :]
    return text


def _dates(text: str, today: date, base: date | None, english: bool) -> Iterator[Slot]:
    for period in find_periods(text, today, base=base, english=english):
        if isinstance(period, BadDate):
            yield Slot(kind="date", value=INVALID, start=period.start, end=period.end, rule="date.invalid")
        else:
            value = f"{period.first}/{period.last}"
            yield Slot(kind="date", value=value, start=period.start, end=period.end, rule=period.rule)


def _split_name(name: str) -> tuple[str, str, str]:
    """(surname, given name, title) of a name on file: 김주임, 김민수 주임, 박 반장."""
    bare = name.replace(" ", "")
    title = next(
        (t for t in sorted(_TITLE_NAMES, key=len, reverse=True) if bare.endswith(t) and len(bare) > len(t)), ""
    )
    person = bare.removesuffix(title) if title else bare
    return person[:1], person[1:], title


@lru_cache(maxsize=16)
def _names(authors: frozenset[str]) -> tuple[tuple[str, str, str, str], ...]:
    """(name on file, surname, given name, title), in name order."""
    return tuple((name, *_split_name(name)) for name in sorted(authors))


def authors_called(called: str, catalogue: Catalogue) -> tuple[str, ...]:
    """The names on file that a call may mean: "김주임" → 김민수 주임, 김영호 주임."""
    called = called.replace(" ", "")
    return tuple(
        name
        for name, surname, given, title in _names(catalogue.authors)
        if called in {name.replace(" ", ""), surname + title, *({surname + given, given + title} if given else ())}
    )


def on_file(slot: Slot, catalogue: Catalogue, today: date) -> list[tuple[date, date]]:
    """A period without a year in each of the years that it is on file for, earliest first."""
    first, last = (date.fromisoformat(part) for part in slot.value.split("/"))
    period = Period(first, last, slot.start, slot.end, slot.rule)
    years = {day.year + shift for day in catalogue.dates for shift in (-1, 0)}
    return [
        (low, high)
        for low, high in candidates(period, years)
        if low <= today and catalogue.any_between(low, min(high, today))
    ]


def nearest_on_file(slot: Slot, catalogue: Catalogue, today: date) -> Slot:
    """The slot with the latest year on file, where a period without a year is on file for several."""
    if slot.kind != "date" or slot.rule not in OPEN or slot.value == INVALID:
        return slot
    there = on_file(slot, catalogue, today)
    return replace(slot, value=f"{there[-1][0]}/{there[-1][1]}") if len(there) > 1 else slot


def _authors(text: str, catalogue: Catalogue) -> Iterator[Slot]:
    taken: list[tuple[int, int]] = []

    def named(start: int, end: int, called: str) -> Slot | None:
        if any(start < e and s < end for s, e in taken):
            return None
        taken.append((start, end))
        on_file = authors_called(called, catalogue)
        value = on_file[0] if len(on_file) == 1 else called.replace(" ", "")
        rule = ("author.unknown", "author.on_file")[len(on_file)] if len(on_file) < 2 else "author.several"
        return Slot(kind="author", value=value, start=start, end=end, rule=rule)

    for _, surname, given, title in _names(catalogue.authors):
        calls = [rf"{surname}{given}\s?{title}", rf"{surname}\s?{title}"] if title else [surname + given]
        if len(given) >= 2:
            calls += [
                rf"{surname}{given}(?:\s(?P<t>[가-힣]{{{len(title)}}}))?" if title else surname + given,
                rf"{given}\s?{title}",
            ]
        for call in calls:
            for match in re.finditer(f"{_AFTER_SLOT}{call}{_NAME_END}", text):
                end = match.end()
                if (
                    "t" in match.re.groupindex
                    and match["t"]
                    and not (match["t"] == title or one_letter_apart(match["t"], title))
                ):
                    end = match.start("t") - 1
                if slot := named(
                    match.start(),
                    end,
                    (surname + given if given and match[0].startswith(surname + given) else match[0]),
                ):
                    yield slot
    for pattern in (_FULL_NAME, _AUTHOR):
        for match in pattern.finditer(text):
            if slot := named(match.start(), match.end(), match[1] + match[2]):
                yield slot


def _house(number: int, unit: str = "동") -> str:
    return f"{number}{unit}"


def houses_called(called: str, catalogue: Catalogue) -> tuple[str, ...]:
    """The houses on file that a number may mean: "3동" → 육묘 3동, 재배 3동; itself where it is one."""
    if called in catalogue.houses:
        return (called,)
    return tuple(sorted(h for h in catalogue.houses if re.search(rf"(?<!\d){re.escape(called)}$", h)))


def _houses(text: str, catalogue: Catalogue) -> Iterator[Slot]:
    found: list[Slot] = []

    def add(value: str, start: int, end: int, rule: str) -> None:
        if all(end <= s.start or s.end <= start for s in found):
            several = houses_called(value, catalogue)
            if len(several) == 1:
                value = several[0]
            elif len(several) > 1:
                rule = "house.several"
            found.append(Slot(kind="house", value=value, start=start, end=end, rule=rule))

    for name in sorted((h for h in catalogue.houses if not h[:1].isdigit()), key=len, reverse=True):
        for match in re.finditer(r"\s?".join(map(re.escape, name.replace(" ", ""))), text):
            add(name, match.start(), match.end(), "house.name")
    for match in _HOUSE_RANGE.finditer(text):
        low, high = int(match[1]), int(match[2])
        if low < high <= low + 20 and all(match.end() <= s.start or s.end <= match.start() for s in found):
            found += [
                Slot(kind="house", value=_house(n), start=match.start(), end=match.end(), rule="house.range")
                for n in range(low, high + 1)
            ]
    for match in _HOUSE_LIST.finditer(text):
        for part in re.finditer(r"(\d{1,2})\s*동?", match[1]):
            start, end = match.start() + part.start(), match.start() + part.start() + len(part[0].rstrip())
            add(_house(int(part[1])), start, end, "house.list")
        add(_house(int(match[2]), match[3]), match.start(2), match.end(3), "house.list")
    for match in _HOUSE.finditer(text):
        add(_house(int(match[1]), match[2]), match.start(), match.end(2), "house.number")
    for match in _HOUSE_SAID.finditer(text):
        word = re.sub(r"\s|번|째", "", match[1])
        number = _ORDINAL.get(word) or counted(word)
        if number:
            add(_house(number), match.start(), match.end(), "house.said")
    for match in _HOUSE_ENGLISH.finditer(text):
        add(_house(int(match[1])), match.start(), match.end(), "house.english")
    for match in _HOUSE_LETTER.finditer(text):
        add(f"{match[1]}동", match.start(), match.end(), "house.letter")
    yield from found


def _types(text: str, catalogue: Catalogue) -> Iterator[Slot]:
    taken: list[tuple[int, int]] = []
    for kind in sorted(catalogue.kinds - _SUBJECTS, key=len, reverse=True):
        pattern = r"\s?".join(map(re.escape, kind.replace(" ", "")))
        for match in re.finditer(rf"{pattern}서?", text) if len(kind) > 2 else ():
            if all(match.end() <= s or e <= match.start() for s, e in taken):
                taken.append(match.span())
                yield Slot(kind="doc_type", value=kind, start=match.start(), end=match.end(), rule="doc_type.on_file")
    for match in _TYPE.finditer(text):
        if all(match.end() <= s or e <= match.start() for s, e in taken):
            kind = _TYPES[int(str(match.lastgroup)[1:])][1]
            yield Slot(kind="doc_type", value=kind, start=match.start(), end=match.end(), rule="doc_type.name")


def _farms(text: str, own_farm: str | None) -> Iterator[Slot]:
    """A farm by name. Whether another farm exists is not looked up: any name but the asker's own is another's."""
    for match in _FARM.finditer(text):
        if match[1] in _MINE | _NO_NAME or match[1].endswith("재배"):
            continue
        if _of_region(match):
            continue
        name = match[1] + match[2]
        rule = "farm.own" if own_farm is not None and own_farm.replace(" ", "") == name else "farm.other"
        yield Slot(kind="farm", value=name, start=match.start(), end=match.end(), rule=rule)


_GAP = r"[\s\u200b-\u200d\u2060\ufeff]*"
_FARM_END = r"(?![가-힣])|네|에서(?:는|도)?|에는|은|는|이|도|의|쪽|하고|이?랑|과|와|보다|한테"
_WHOLE = re.compile(r"\s?(?:농장|농원)(?!장)")
_BUSINESS = r"하우스|원예|팜|영농|농산|농업|농장|농원"


def _named_farms(text: str, own_farm: str | None, farms: Collection[str]) -> Iterator[Slot]:
    """A farm of the settings without its "농장", spelled apart or by its id: 햇살 3동, 푸른 들, 푸른들원예, pureun.

    ``farms``: display names, and ids of farms other than the asker's.
    """
    for full in sorted({*farms, *([own_farm] if own_farm else [])}):
        if re.fullmatch(r"[a-z0-9][a-z0-9_-]*", full):
            pattern, rule = rf"(?<![A-Za-z0-9_]){re.escape(full)}(?![A-Za-z0-9_])", "farm.other"
        else:
            stem = re.sub(r"\s?(?:농장|농원)$", "", full)
            rule = "farm.own" if full == own_farm else "farm.other"
            if len(stem) < 2 or stem == full:
                continue
            spelled = _GAP.join(map(re.escape, stem))
            house = rf"(?:\s?\d{{1,2}}\s?동|네|\s?(?:{_BUSINESS}))"
            after = rf"(?={house}|\s?[,:.]|[은는]\?)" if _ordinary(stem) else rf"(?={house}|{_FARM_END})"
            pattern = rf"(?<![가-힣]){spelled}{after}"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if match[0] == full.removesuffix("농장").removesuffix("농원").strip() and _WHOLE.match(text, match.end()):
                continue  # 햇살농원: read whole by ``_farms``
            yield Slot(kind="farm", value=match[0], start=match.start(), end=match.end(), rule=rule)


def _ordinary(stem: str) -> bool:
    """Whether a farm's name is an everyday word too; it then counts only with a house behind it."""
    return len(stem) < 3


def _number(text: str) -> str:
    text = text.replace(",", "")
    return text


def _value(kind_value: str, match: re.Match[str], rule: str) -> Slot:
    return Slot(kind="value", value=kind_value, start=match.start(), end=match.end(), rule=rule)


def _values(text: str) -> Iterator[Slot]:
    for match in _VALUE.finditer(text):
        number = _number(match["n"])
        if match["times"]:
            number = (
                f"{float(number) * _TIMES[match['times']]:.10g}"
                if "." in number
                else str(int(number) * _TIMES[match["times"]])
            )
        unit = _UNITS[match["unit"].lower()]
        if match["minus"]:
            number = f"-{number}"
        low = f"{_number(match['low'])}~" if match["low"] else ""
        yield _value(f"{low}{number} {unit}", match, "value.unit")
    for match in _SAID_VALUE.finditer(text):
        whole = spoken(match["n"] or match["n2"])
        if whole is None or (
            match["n2"] in ("이", "일", "사", "만", "영", "공", "오", "구")
            and match["unit"] in ("도", "회", "원", "분", "배", "평")
        ):
            continue
        fraction = "." + "".join(str(spoken(c)) for c in match["f"]) if match["f"] else ""
        unit = _UNITS.get(match["unit"], "dS/m")
        yield _value(f"{whole}{fraction} {unit}", match, "value.said")
    for match in _COUNTED_VALUE.finditer(text):
        if match["n"] == "한" and match["u2"]:
            continue
        yield _value(f"{NATIVE[match['n']]} {_UNITS[match['u'] or match['u2']]}", match, "value.counted")
    for match in _INTERVAL.finditer(text):
        yield _value(f"{int(match['n'])} {match['unit']}", match, "value.interval")
    for match in _SCALE.finditer(text):
        number = match["n"] or f"{spoken(match['a'])}." + "".join(str(spoken(c)) for c in match["b"])
        yield _value(f"{_SCALES[match['s'].lower()]} {number}", match, "value.scale")


def _files(text: str) -> Iterator[Slot]:
    taken: list[tuple[int, int]] = []
    for match in _PATH.finditer(text):
        taken.append(match.span())
        yield Slot(kind="file", value=match[0], start=match.start(), end=match.end(), rule="file.path")
    for match in _FORMAT.finditer(text):
        if any(match.start() < e and s < match.end() for s, e in taken):
            continue
        name = match[0].lower().replace(" ", "")
        value = "hwp" if "한글" in name else _FORMATS.get(name, name)
        yield Slot(kind="file", value=value, start=match.start(), end=match.end(), rule="file.format")


def _terms(mentions: Sequence[Mention]) -> Iterator[Slot]:
    for mention in mentions:
        if mention.type in _LEXICON_KINDS:
            yield Slot(
                kind=_LEXICON_KINDS[mention.type],
                value=mention.name,
                start=mention.start,
                end=mention.end,
                rule=f"lexicon.{mention.type}",
            )
