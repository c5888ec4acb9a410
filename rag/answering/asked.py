"""A question as the answerers see it: what it is about, what it asks for, and which passages are about something else."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from weakref import WeakKeyDictionary

from rag.answering.months import MONTHLY_KINDS, TOPICS, asks_sum, column_words, extreme
from rag.answering.registrations import Wanted, pest_of, registered_names, wanted_of
from rag.lexicon import Lexicon
from rag.query.expand import record_words
from rag.query.intent import NOW
from rag.query.slots import ANOTHER, LEAVES_OUT, excluded_spans, without_excluded
from rag.schema import PUBLIC, ChunkRecord, FloatVector, PlannedQuery, QueryFeatures
from rag.stores.view import View

CROP, CULTIVAR, SUBSTANCE = "작물", "품종", "농자재"
PESTS = frozenset({"병", "바이러스", "해충", "생리장해"})
# Lexicon types whose absence from a passage makes it the wrong passage.
HARD_TYPES = frozenset({CROP, CULTIVAR, *PESTS})
REGISTERED = "농약등록"
# What is asked for → what the answering figure looks like; one of them where a question asks for several.
_FIGURES: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(cue), re.compile(figure))
    for cue, figure in (
        (r"얼마나\s?\S{0,6}\s?(?:빠[지졌]|줄[어이]|차지|늘[어리]|아[끼껴낄]|절감)", r"\d"),
        (r"[가-힣]의\s?얼마|몇\s?분의", r"\d\s*(?:%|퍼센트)|분의\s?\d"),
        (r"몇\s?장", r"\d\s*(?:장|매)|[한두세네]\s?장"),
        (r"며칠|몇\s?일", r"\d\s*일|하루|이틀|사흘|주(?:일)?\s?간"),
        (r"몇\s?(?:도|℃)", r"\d\s*(?:℃|도)"),
        (r"몇\s?(?:프로|퍼센트|퍼|%)|배액률|비율", r"\d\s*(?:%|퍼센트)|분의|배액률"),
        (r"몇\s?(?:키로|kg|킬로)", r"\d\s*(?:kg|㎏|톤|t)|kg"),
        (r"몇\s?(?:리터|ℓ|l(?![a-z]))", r"\d\s*(?:리터|L(?![a-z])|ℓ|톤|t(?![a-z]))|\(L\)"),
        (r"몇\s?(?:미리|밀리(?!그램)|ml|cc)", r"\d\s*(?:ml|mL|㎖|cc|밀리)"),
        (r"몇\s?(?:그램|그람|g(?![a-z]))|무게", r"\d\s*(?:g|ｇ|kg|㎏|mg)(?![a-z])"),
        (r"몇\s?(?:밀리그램|mg)", r"\d\s*mg"),
        (r"몇\s?(?:피피엠|ppm)", r"\d\s*ppm"),
        (r"몇\s?(?:브릭스|brix)|당도", r"\d\s*(?:브릭스|°?Bx|Brix)|브릭스"),
        (r"몇\s?(?:룩스|럭스|lx|klx)", r"\d\s*만?\s*(?:룩스|럭스|k?lx)"),
        (r"몇\s?(?:센[티치]|cm)", r"\d\s*(?:cm|센티|m(?![a-z]))"),
        (r"몇\s?(?:번|회)|횟수", r"\d\s*(?:번|회)|[한두세네]\s?번"),
        (r"몇\s?(마리|시간|분|대|장|개|주|년|개월|배|평|그루|포기|메시|톤|kPa|mS)", ""),
        (
            r"(?:비용|가격|값|시급|임금|보험료|수리비|단가|요금|금액|과태료|벌금)\S*\s.*얼마|얼마.*(?:들|주고|내야)",
            r"\d\s*[만천억]?\s*원|만원",
        ),
    )
)
_SOME_FIGURE = re.compile(r"얼마|몇")
_DAY_ASKED = re.compile(r"며칠(?:날|에|이|\s?(?:인|이|예))|몇\s?월|언제|날짜|어느\s?날")
_SPRAYING = re.compile(
    r"약[을은]?\s?(?:\S{1,6}\s)?\S*(?:치|친|쳤|뿌)|(?:친|칠|뿌린|쓴)\s?(?:농약|약)|(?:뭐|몇\s?(?:리터|말|번|L|ℓ))\s?(?:뿌렸|쳤)|방제|살포|무슨\s?약"
)
_LISTING = re.compile(
    r"언제언제|쭉|전부|모두|목록|내역|날짜|며칠에|날들|다\s?(?:뽑|보여|알려)|무슨\s?(?:약|일)|뭐\s?했|몇\s?번"
)
_LATEST = re.compile(rf"남았|남아|마지막|최근|{NOW}|제일\s?나중")
_DETAIL = re.compile(r"자세[하히]|상세[하히]|길게|구체적으로")
# A day's or dose's figure of a pesticide: not answered without its registration (DESIGN, requirement 5).
_DOSE = re.compile(
    r"희석|배수|배액(?!률)|몇\s?배|배로|수확\s?(?:전|며칠|몇)|따기\s?(?:전|며칠)|며칠\s?전|안전사용|몇\s?(?:번|회)|당일|횟수|사용량|살포량|얼마나?\s?(?:타|섞|뿌)"
)
_PESTICIDE = re.compile(
    r"농약|약제|약(?=[은을이도\s?.,]|$)|(?:촉진|억제|조절)\s?제|[가-힣]약(?=[은을이도\s])|살충제|살균제|제초제|훈연제|등록"
)
# Nothing but a pesticide is diluted or sprayed against a pest.
_DILUTED = re.compile(r"희석|배수|배액(?!률)|몇\s?배|(?:뭐|머|뭘|멀)\s?(?:쳐|치|뿌려|뿌리)")
_PRODUCT = re.compile(r"수화제|유제|액제|입제|분제|수용제|훈연제|유탁제|캡슐제|분산성|미탁제|수면전개제")
_REGISTRATION = re.compile(
    r"등록|농약|약제|무슨\s?약|어떤\s?약|약\s?(?:이름|뭐|뭘|추천|있|좀|중)|칠\s?수\s?있는|[가-힣]약(?:\s|[?.!]?$)|(?<![가-힣])약[은이을]?\s*(?:[?.!]*$|알려|추천|몇|찾|수확|각각|쓸|뭐)|살균제|살충제|제초제|올라\s?있는|[가-힣]\s?(?:촉진|억제|조절)\s?제"
)
_IN_PRODUCTS_PLACE = re.compile(
    r"(?P<word>[가-힣A-Za-z]{2,})\s+(?:[가-힣]*(?:수화제|유제|액제|입제|수용제|유탁제|캡슐제|미탁제)\s*\S*\s+)?(?:몇\s?배|희석|몇\s?(?:번|회)|(?:수확\s)?며칠\s?전|써도|쳐도|뿌려도|(?:쓸|칠|뿌릴)\s?수)"
)
# What the law says of pesticides, what came of one, what is done without: no registration tells.
_NO_REGISTRATION = re.compile(
    r"과태료|벌금|걸리[면다]|얼마\s?무|물어야|처벌|벌칙|위반|징역|과징금|교육|판매업|수입업|제조업|신고(?=[하해를는증서])|(?:어떤|무슨)\s?피해|피해[가를]\s?(?:났|나|입|봤)|부작용"
    r"|친환경|유기농|약[을은]?\s?(?:못|안)\s?(?:쓰|치|써|쳐)"
)
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_LONG_WORD = re.compile(r"[가-힣a-z]{3,}")
_ANOTHER_ONE = re.compile(rf"{ANOTHER}\s?(?:거|것)")
_WEEDS = re.compile(r"잡초|제초제|(?<![가-힣])풀[을이]?\s?(?:잡|죽|약|뽑|나[요는서])|밭\s?풀\s")
_targets_of: WeakKeyDictionary[View, tuple[str, ...]] = WeakKeyDictionary()
_crops_of: WeakKeyDictionary[View, frozenset[str]] = WeakKeyDictionary()
_names_of: WeakKeyDictionary[View, dict[str, frozenset[str]]] = WeakKeyDictionary()


def _names_on_file(view: View) -> dict[str, frozenset[str]]:
    """Brands and active ingredients of all registrations of a view, in lower case, two letters or more, in their order, with
    the documents that register them; read once.
    """
    if view not in _names_of:
        registered = {document.doc_id for document in view.documents if document.kind == REGISTERED}
        found: defaultdict[str, set[str]] = defaultdict(set)
        for chunk in view.chunks_of(registered, "G2"):
            for record in view.sentences(chunk.chunk_id)[0]:
                for name in registered_names(chunk.text[record.start : record.end]):
                    found[name.lower()].add(chunk.doc_id)
        _names_of[view] = {name: frozenset(found[name]) for name in sorted(found) if len(name) > 1}
    return _names_of[view]


def _crops_kept(view: View) -> frozenset[str]:
    """Crops that the private documents of a view name, read once."""
    if view not in _crops_of:
        private = {document.doc_id for document in view.documents if document.scope_id != PUBLIC}
        named = {entity for chunk in view.chunks_of(private, "G2") for entity in view.entities_of(chunk.chunk_id)}
        _crops_of[view] = frozenset(named & view.catalogue.crops)
    return _crops_of[view]


def _targets_on_file(view: View) -> tuple[str, ...]:
    """What the registrations of a view are against or for, by the titles of their sheets, read once."""
    if view not in _targets_of:
        titles = {pest_of(document.title, document.crop) for document in view.documents if document.kind == REGISTERED}
        _targets_of[view] = tuple(sorted({_IN_BRACKETS.sub("", title).strip() for title in titles} - {""}))
    return _targets_of[view]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question: text, features, unit vector (None: no encoder), types of its entities.

    ``parts`` are the things asked when they are several; the lexicon types what passages name; nothing later than
    ``today`` is on file for it.
    """

    text: str
    features: QueryFeatures
    vector: FloatVector | None
    types: Mapping[str, str]
    view: View
    lexicon: Lexicon
    parts: tuple[PlannedQuery, ...] = ()
    today: date | None = None

    @property
    def record(self) -> bool:
        """Whether the question is about a farm's records."""
        return self.features.intent == "log_lookup"

    @property
    def detailed(self) -> bool:
        """Whether the longer form is asked for ("자세히")."""
        return _DETAIL.search(self.text) is not None

    @property
    def latest(self) -> bool:
        """Whether the present state is asked for, which the last record tells."""
        return _LATEST.search(self.text) is not None

    @property
    def listed(self) -> bool:
        """Whether all that was done is asked for ("전부 보여줘", "몇 번 했어")."""
        return _LISTING.search(self.text) is not None

    @cached_property
    def sprayed(self) -> bool:
        """Whether a farm's sprayings are asked for."""
        return self.record and _SPRAYING.search(self.text) is not None

    @property
    def newest(self) -> bool:
        """Whether a record question asks how things are now and names no time."""
        return self.record and re.search(NOW, self.text) is not None and not self.periods

    @cached_property
    def extreme(self) -> int:
        """1 where the highest of a farm's figures is asked for, -1 for the lowest, 0 for none."""
        return extreme(self.text) if self.record else 0

    @property
    def summed(self) -> bool:
        """Whether a farm's figures are asked for added up."""
        return self.record and asks_sum(self.text)

    @cached_property
    def month_tables(self) -> tuple[str, ...]:
        """Monthly tables of the question's topic, by document: for the months that it names, the newest where it asks how
        things are now, all where it asks for the highest or lowest there was.
        """
        periods = [(first, last) for first, last in self.features.periods if first != last]
        if not self.record or not (periods or self.newest or (self.extreme and not self.periods)):
            return ()
        tables = [
            (document.days[0], document.kind, document.doc_id)
            for document in self.view.documents
            if document.kind in MONTHLY_KINDS
            and document.days is not None
            and TOPICS[document.kind].search(self.text)
            and (not self.today or document.days[0] <= self.today)
            and (not periods or any(first <= document.days[1] and document.days[0] <= last for first, last in periods))
        ]
        newest = {kind: day for day, kind, _ in sorted(tables)}
        return tuple(doc_id for day, kind, doc_id in tables if not self.newest or day == newest[kind])

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Words by which a question names the columns of tables."""
        return (*self.features.terms, *(column_words(self.text) if self.record else ()))

    @cached_property
    def weights(self) -> dict[str, float]:
        """Question word → idf; a word that no document holds weighs most."""
        unseen = math.log(1 + (len(self.view.levels["G2"].chunk_ids) + 0.5) / 0.5)
        words = (*self.features.terms, *(record_words(self.features.terms) if self.record else ()))
        return {token: self.view.idf.get(token, unseen) for token in words if not _DETAIL.search(token)}

    @cached_property
    def hard_terms(self) -> tuple[str, ...]:
        """Named terms of the question that a passage must be about; not those it leaves out ("진딧물 말고")."""
        left_out = [self.text[start:end] for start, end in excluded_spans(self.text)]
        return tuple(
            entity
            for entity in self.features.entities
            if self.types.get(entity) in HARD_TYPES and not any(kind_of(entity) in span for span in left_out)
        )

    def named(self, *types: str) -> tuple[str, ...]:
        """Hard terms of some types."""
        return tuple(term for term in self.hard_terms if self.types.get(term) in types)

    @cached_property
    def crops(self) -> frozenset[str]:
        """Crops that a passage may be on: those asked for and those they are a kind of (여름딸기 → 딸기)."""
        asked = {*self.named(CROP), *self.features.values("crop")}
        names = {alias: crop for alias, crop in self.lexicon.canonical.items() if crop in self.view.catalogue.crops}
        names |= {crop: crop for crop in self.view.catalogue.crops}
        broader = {crop for alias, crop in names.items() for name in asked if name.endswith(alias) and len(alias) > 1}
        return frozenset((*asked, *broader))

    @property
    def crops_kept(self) -> frozenset[str]:
        """Crops that the farm's own documents name."""
        return _crops_kept(self.view)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """What a pesticide is asked for: pests of the lexicon, and what else a registration sheet is against or for
        (땅강아지, 일년생잡초, 생장촉진).
        """
        pests = self.named(*PESTS)
        text = re.sub(r"\s", "", self._wanted).replace("씨앗", "종자")
        # a kind of pest by its short name, which the lexicon reads as one of the kind: any 선충 is meant, not 뿌리혹선충 alone
        kinds = [
            alias
            for pest in pests
            for alias, name in self.lexicon.canonical.items()
            if name == pest and pest not in text and alias in text and pest.endswith(alias)
        ]
        if _WEEDS.search(self._wanted):
            kinds.append("잡초")
        further = [t for t in _targets_on_file(self.view) if t in text or any(kind in t for kind in kinds)]
        return (*pests, *(target for target in further if target not in pests))

    @cached_property
    def _wanted(self) -> str:
        """The question without what it leaves out ("딸기 말고")."""
        return without_excluded(self.text)

    @property
    def houses(self) -> tuple[str, ...]:
        """Houses of the question, each once."""
        return tuple(dict.fromkeys(self.features.values("house")))

    @property
    def periods(self) -> list[tuple[str, str]]:
        """First and last day (ISO) of the periods that the question names, each once."""
        return [(first.isoformat(), last.isoformat()) for first, last in dict.fromkeys(self.features.periods)]

    @cached_property
    def figure(self) -> re.Pattern[str] | None:
        """What a figure must look like to answer; None when no quantity is asked for, or a record's day ("며칠에 했어")."""
        if self.record and _DAY_ASKED.search(self.text):
            return None
        return figure_asked(self.text)

    @cached_property
    def registration(self) -> bool:
        """Whether the question asks which pesticides are registered or how one is used."""
        if self.record or _NO_REGISTRATION.search(self.text):
            return False
        if (
            _REGISTRATION.search(self._wanted)
            or _PRODUCT.search(self._wanted)
            or (self.products_left_out and _ANOTHER_ONE.search(self._wanted))
            or self.dose
            or (_PESTICIDE.search(self._wanted) and wanted_of(self.text))
        ):
            return bool(self.targets or self.products or self.unregistered)
        return bool(self.products and (self.crops or self.targets))

    @cached_property
    def products(self) -> tuple[str, ...]:
        """Registered products of the question, of whatever crop and pest, in lower case: brands and active ingredients; not
        those it leaves out ("심볼 말고").
        """
        return tuple(name for name in self._products if name not in self.products_left_out)

    @cached_property
    def products_left_out(self) -> tuple[str, ...]:
        """Registered products that the question does not want."""
        text = self.text.lower()
        spans = [text[start:end] for start, end in excluded_spans(text)]
        spans += re.findall(rf"\S+\s약\s?{LEAVES_OUT}", text)  # "나티보 약 말고": another, not none
        # 에마멕틴 is registered as 에마멕틴벤조에이트
        begun = tuple(w for span in spans for word in _LONG_WORD.findall(span) for w in (word, word[:-1]) if len(w) > 2)
        return tuple(
            name
            for name in _names_on_file(self.view)
            if (begun and name.startswith(begun)) or (name in self._products and any(name in span for span in spans))
        )

    @cached_property
    def _products(self) -> tuple[str, ...]:
        text = self.text.lower()
        names = _names_on_file(self.view)
        known = {name.lower() for name, kind in self.types.items() if kind in HARD_TYPES}
        found = [name for name in names if name in text and name not in known]
        found = [name for name in found if re.search(rf"(?<![가-힣a-z0-9]){re.escape(name)}", text)]
        # a substance by its short name: 지베렐린 is registered as 지베렐린산
        short = [name.lower() for name, kind in self.types.items() if kind == SUBSTANCE and name.lower() not in names]
        found += [name for name in names if name.startswith(tuple(short))]
        return tuple(name for name in found if not any(name != other and name in other for other in found))

    @cached_property
    def product_sheets(self) -> frozenset[str]:
        """Documents that register one of the question's products."""
        names = _names_on_file(self.view)
        return frozenset(document for name in self.products for document in names[name])

    @cached_property
    def unregistered(self) -> str:
        """A word in a product's place ("… 포룸만 몇 배로 타요?") that no document holds; "" without one."""
        if self.record or self.products or not self.named(*PESTS):
            return ""
        known = self.view.idf.keys() | self.lexicon.canonical.keys()
        unknown = [w for w in self.features.keywords if w.lower() not in known and not re.search(r"다$|약|^얼마", w)]
        for match in _IN_PRODUCTS_PLACE.finditer(self.text):
            named = [word for word in unknown if match["word"].startswith(word)]
            if named:
                return max(named, key=len)
        return ""

    @cached_property
    def wanted_use(self) -> Wanted:
        """What is wanted of the use of the pesticides asked for; nothing where the question names one: that one is told."""
        return Wanted() if self.products or not (self.registration or self.dose) else wanted_of(self.text)

    @cached_property
    def dose(self) -> bool:
        """Whether the question asks for a pesticide's dose, pre-harvest interval or number of sprays."""
        if self.record or _NO_REGISTRATION.search(self.text):
            return False
        if self.unregistered:
            return True
        if not _DOSE.search(self.text):
            return False
        named = self.targets and (self.products or _DILUTED.search(self.text))
        return bool(_PRODUCT.search(self.text) or _PESTICIDE.search(self.text) or named)


def asks_pesticide(question: str) -> bool:
    """Whether a question, or a part of one, asks which pesticides are registered or how one is used."""
    return _REGISTRATION.search(question) is not None or _DOSE.search(question) is not None


def figure_asked(question: str) -> re.Pattern[str] | None:
    """What a figure must look like to answer: "며칠" → a number of days; None when no quantity is asked for."""
    asked = [(cue.search(question), figure.pattern) for cue, figure in _FIGURES]
    found = [figure or rf"\d\s*{cue[1]}|[한두세네]\s?{cue[1]}" for cue, figure in asked if cue]
    if not found:
        return re.compile(r"\d") if _SOME_FIGURE.search(question) else None
    return re.compile("|".join(found))


def missing_terms(asked: Asked, chunk: ChunkRecord) -> list[str]:
    """The question's named terms that a passage is not about.

    A passage on no particular crop serves every crop that is on file. "가루이류" is named by any 가루이.
    """
    here = asked.view.entities_of(chunk.chunk_id)
    return [
        term
        for term in asked.hard_terms
        if term not in here
        and not (not chunk.crop and asked.types[term] == CROP and term in asked.view.catalogue.crops)
        and not (asked.types[term] == CROP and chunk.crop in asked.crops)
        and not (term.endswith("류") and any(kind_of(term) in entity for entity in here))
    ]


def says(name: str, text: str) -> bool:
    """Whether a text holds a name; 2동 is not in 12동."""
    return re.search(rf"(?<!\d){re.escape(name)}", text) is not None


def share(weights: Mapping[str, float], tokens: Collection[str]) -> float:
    """Weight of the words among ``tokens``, as a share of all; 0 without words."""
    total = math.fsum(weights.values())
    if total == 0:
        return 0.0
    present = set(tokens)
    return math.fsum(weight for token, weight in weights.items() if token in present) / total


def kind_of(name: str) -> str:
    """A pest's name as titles write it: 응애류 stands for 점박이응애, too."""
    return name.removesuffix("류")
