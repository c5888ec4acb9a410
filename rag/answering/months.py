"""Monthly tables of a farm (harvest, irrigation and drainage, sensors): which rows a question asks for, and how it puts
them: the highest, the sum, those of the newest month.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.answering.rows import asked_for, cells_of
from rag.schema import ChunkRecord

MONTHLY_KINDS = frozenset({"수확기록", "급액배액요약", "센서요약"})
# Words that a monthly table is asked by, beside its column names, and the column that answers them.
TOPICS = {
    "수확기록": re.compile(
        r"수확|땄|딴|따[서낸]|거둔|거뒀|출하|물량|나왔|나온|나갔|나간|생산|합계|합[치쳐]|키로|킬로|kg"
    ),
    "급액배액요약": re.compile(
        r"급액|배액|이씨|EC|피에이치|pH|양액|준\s?물|물\s?(?:을\s)?(?:\S{1,6}\s)?(?:준|줬)", re.I
    ),
    "센서요약": re.compile(r"온도|습도|기온|추[웠운]|더[웠운]|몇\s?도|이산화탄소|탄산가스|씨오투|CO2|일사|광량", re.I),
}
# What money was spent or made is in no monthly table.
_MONEY = re.compile(
    r"요금|비용|전기|난방비|기름값|보험|단가|금액|매출|돈|(?:수리|부품|인건|자재|운송|출장|경)비|공임|지출|값"
)
_MOST = r"(?:제일|가장|젤)\s?"
_GRADES = (
    (re.compile(r"(?<![가-힣])특(?:품|급|\s?등급|상|\s)"), "특"),
    (re.compile(r"(?<![가-힣])상(?:품|급|\s?등급|\s)"), "상"),
    (re.compile(r"보통(?:품|\s?등급|\s?거|\s?짜리|\s?(?:몇|얼마))"), "보통"),
)
_COLUMNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"추[웠운]|최저|떨어[졌진]|내려[갔간]"), "최저"),
    (re.compile(r"더[웠운]|최고|올라[갔간]"), "최고"),
    (re.compile(r"준\s?물|물\s?(?:을\s)?(?:\S{1,6}\s)?(?:준|줬)"), "급액량"),
    (re.compile(r"이산화탄소|탄산가스|씨오투|CO2", re.I), "CO2"),
    (
        re.compile(
            rf"수확(?=\s?(?:을|은|이|비교|합|량|총|얼마|몇|제일|가장)|$)|땄|딴|거둔|거뒀|물량|수확량|총(?:량|액|합|수확)|모두|합[치쳐]|합계|(?:다|전부)\s?해서|나왔|키로|킬로|kg|{_MOST}(?:많|적)"
        ),
        "합계",
    ),
)
_HIGHEST = re.compile(rf"{_MOST}(?:\S{{1,4}}\s)?(?:많|높|더[웠운]|컸|뜨거|잘\s?(?:나[온왔]|땄))|최다(?!라)")
_LOWEST = re.compile(rf"{_MOST}(?:\S{{1,4}}\s)?(?:적[었은]|낮|추[웠운]|작[았은]|서늘|떨어)")
_SUM = re.compile(
    r"(?:다|전부|모두|싹)\s?(?:합치|합하|합쳐|합해|더하|더해|해서)|합계|총(?:합|량|계)|총\s?(?:수확|급액|물량|출하|얼마|몇)|통틀어|도합|누적"
)
# Columns whose values add up; a mean does not.
_AMOUNT = re.compile(r"합계|량\(|\(kg\)|\(L\)")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def column_words(question: str) -> tuple[str, ...]:
    """Column words of monthly tables that a question means without saying them: "제일 추웠을 때" → 최저."""
    graded = tuple(grade for cue, grade in _GRADES if cue.search(question))
    return graded or tuple(column for cue, column in _COLUMNS if cue.search(question))


def month_row(chunk: ChunkRecord, sentence: str, question: str, keywords: Sequence[str]) -> bool:
    """Whether a sentence is the row of a whole month, in a table of the question's topic, with an asked column."""
    topic = TOPICS.get(chunk.kind)
    if topic is None or "주차: " in sentence or not topic.search(question) or _MONEY.search(question):
        return False
    return any(asked_for(name, keywords) for name, _ in cells_of(sentence))


def extreme(question: str) -> int:
    """1 where the highest of several values is asked for, -1 for the lowest, 0 for none."""
    return 1 if _HIGHEST.search(question) else -1 if _LOWEST.search(question) else 0


def asks_sum(question: str) -> bool:
    """Whether values are asked for added up."""
    return _SUM.search(question) is not None


def value_of(sentence: str, columns: Sequence[str]) -> tuple[str, float] | None:
    """Name and number of a row's column that most of ``columns`` name, the first of several; None without a number."""
    cells = [(asked_for(name, columns), name, value) for name, value in cells_of(sentence)]
    found = [(score, name, value) for score, name, value in cells if score and _NUMBER.fullmatch(value.strip())]
    if not found:
        return None
    _, name, value = max(found, key=lambda cell: cell[0])
    return name, float(value.replace(",", ""))


def sum_of(sentences: Sequence[str], columns: Sequence[str]) -> tuple[str, float] | None:
    """Name of the asked column and the sum of its values; None where not all rows are of one column that adds up."""
    values = [value_of(sentence, columns) for sentence in sentences]
    told = [value for value in values if value is not None]
    names = {name for name, _ in told}
    if len(told) < 2 or len(told) < len(values) or len(names) != 1 or not _AMOUNT.search(told[0][0]):
        return None
    return told[0][0], sum(value for _, value in told)
