"""Fetching a page or a file from the web, as a guest that harms nobody and cannot be used to harm.

Checked at every step, redirects included: only http and https, without a name or password in the address; every address
that the host has must be public (``allow_private`` lifts this), and the connection goes to the very address that was
checked, so that a second look-up cannot lead elsewhere; robots.txt is respected; at most ``MAX_REDIRECTS`` redirects; a
body is read up to the limit and no further, also unpacked; all of it ends at one deadline, whatever the server does.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath
from urllib.parse import unquote
from urllib.robotparser import RobotFileParser

import httpx

from ingest.chunking import chunk_document
from ingest.limits import MEGABYTE, Limits, size_text
from ingest.loaders import parse
from ingest.loaders.sniff import TEXT_EXTENSIONS, extension, sniff
from ingest.loaders.text import decode
from ingest.loaders.web import FOLDER, Source, harmless, marked
from ingest.names import logical_path
from ingest.writer import FileStatus
from rag.channels.web import KIND, PageChunk
from rag.errors import IngestError
from rag.schema import PUBLIC, ChunkRecord, Level
from rag.settings import Settings
from rag.text import SentenceSpan

AGENT = "onsil/0.1"
MAX_REDIRECTS = 5
CONNECT_S = 5.0
ROBOTS_LIMIT = 500 * 1024  # RFC 9309: a crawler reads at least this much
_BLOCK = 64 * 1024
_SEGMENT = 80
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"(charset\s*=\s*[\"']?)([\w-]+)", re.IGNORECASE)
_READABLE = re.compile(
    r"text/(?!css|javascript|ecmascript)\S+|application/(?:pdf|xhtml\+xml|octet-stream|msword|x-?hwp\S*|haansoft\S*|"
    r"hwp\S*|vnd\.(?:hancom|openxmlformats|ms-excel)\S*)"
)
_STATUS = {
    401: "로그인이 있어야 하는 쪽입니다",
    403: "서버가 보여 주지 않는 쪽입니다",
    404: "없는 쪽입니다",
    410: "없어진 쪽입니다",
    429: "요청이 너무 많다고 합니다. 잠시 뒤 다시 해 주세요",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """``timeout_s`` for everything together; ``limit_bytes`` of a body; ``allow_private``: also this and near machines."""

    timeout_s: float
    limit_bytes: int
    allow_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """A body as it came, text in UTF-8. ``url`` is where it was at last, ``kind`` what its bytes are (``sniff``)."""

    url: str
    data: bytes
    kind: str
    logical: str


def fetch(url: str, rules: FetchRules) -> FetchedPage:
    """Fetch one page; in a thread of its own, since a look-up or a server that drips headers heeds no time-out.

    Raises:
        IngestError: not allowed, not there, too slow, too large, or not a document; names the URL and the remedy.
    """
    outcome: list[FetchedPage | Exception] = []
    visit = _Visit(url, rules, time.monotonic() + rules.timeout_s)

    def work() -> None:
        try:
            outcome.append(visit.page())
        except Exception as error:  # handed to the waiting thread
            outcome.append(error)

    thread = threading.Thread(target=work, name="fetch", daemon=True)
    thread.start()
    thread.join(rules.timeout_s)
    if not outcome:
        raise visit.slow()
    result = outcome[0]
    if isinstance(result, FetchedPage):
        return result
    if isinstance(result, IngestError):
        raise result
    raise IngestError(
        f"'{url}': 가져오지 못했습니다({type(result).__name__}: {result}). 인터넷 연결과 주소를 확인해 주세요."
    ) from result


@dataclass(slots=True)
class _Visit:
    """One fetch with all that belongs to it."""

    asked: str
    rules: FetchRules
    end: float
    robots: dict[str, RobotFileParser] = field(default_factory=dict)

    def page(self) -> FetchedPage:
        with self._client() as client:
            url, headers, data = self._follow(client, self.asked, self.rules.limit_bytes, self._check_robots)
        media = headers.get("content-type", "")
        data = _in_utf8(data, media)
        guess = _with_ending(logical_of(url), "html" if "html" in media.lower() else "")
        if not data.strip():
            raise self._refused("빈 쪽입니다. 주소를 확인해 주세요.")
        try:
            kind = sniff(data, guess, Limits(bytes=self.rules.limit_bytes))
        except IngestError as error:
            raise self._refused(str(error).partition(": ")[2]) from error
        if kind == "zip":
            raise self._refused("ZIP 묶음입니다. 받아서 풀어 파일로 넣어 주세요.")
        data = _page_in_utf8(data) if kind == "html" else data
        return FetchedPage(url=str(url), data=data, kind=kind, logical=_with_ending(logical_of(url), kind))

    def slow(self) -> IngestError:
        return self._refused(
            f"{self.rules.timeout_s:g}초 안에 받지 못했습니다. 나중에 다시 하거나 제한 시간 설정을 늘려 주세요."
        )

    def _refused(self, reason: str) -> IngestError:
        return IngestError(f"'{self.asked}': {reason}")

    def _client(self) -> httpx.Client:
        return httpx.Client(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(self.rules.timeout_s, connect=min(CONNECT_S, self.rules.timeout_s)),
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"User-Agent": AGENT, "Accept-Encoding": "identity", "Accept-Language": "ko,en;q=0.5"},
        )

    def _follow(
        self,
        client: httpx.Client,
        start: str,
        limit: int,
        check: Callable[[httpx.Client, httpx.URL], None],
    ) -> tuple[httpx.URL, httpx.Headers, bytes]:
        """Address, headers and body at the end of the redirects; ``check`` is asked before each request."""
        with self._reached(client, start, check) as end:
            if end is None:
                raise self._refused(
                    f"다른 주소로 {MAX_REDIRECTS}번 넘게 돌립니다. 마지막 주소를 브라우저에서 확인해 적어 주세요."
                )
            url, response = end
            if not response.is_success:
                why = _STATUS.get(response.status_code, "서버가 내주지 않습니다")
                raise self._refused(f"{why}(응답 {response.status_code}). 주소를 확인해 주세요.")
            return url, response.headers, self._body(response, limit)

    @contextmanager
    def _reached(
        self, client: httpx.Client, start: str, check: Callable[[httpx.Client, httpx.URL], None]
    ) -> Iterator[tuple[httpx.URL, httpx.Response] | None]:
        """The opened response at the end of the redirects and its address; None where there are too many."""
        url = self._parsed(start)
        for _ in range(MAX_REDIRECTS + 1):
            addresses = self._addresses(url)
            check(client, url)
            with closing(self._request(client, url, addresses)) as response:
                if not response.is_redirect:
                    yield url, response
                    return
                url = self._parsed(str(url.join(response.headers["location"])))
        yield None

    def _parsed(self, text: str) -> httpx.URL:
        try:
            url = httpx.URL(text)
        except (httpx.InvalidURL, ValueError) as error:
            raise self._refused("주소를 읽을 수 없습니다. https:// 로 시작하는 주소를 적어 주세요.") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise self._refused(
                f"'{url.scheme}' 주소는 가져오지 않습니다. http:// 나 https:// 로 시작하는 주소를 적어 주세요."
            )
        if url.userinfo:
            raise self._refused("이름이나 암호가 든 주소는 가져오지 않습니다. 주소에서 빼 주세요.")
        return url.copy_with(fragment=None)

    def _addresses(self, url: httpx.URL) -> list[str]:
        """All addresses of the host, checked."""
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            found = socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise self._refused(f"'{url.host}' 을(를) 찾지 못했습니다. 주소와 인터넷 연결을 확인해 주세요.") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        inner = [address for address in addresses if not is_public(address)]
        if inner and not self.rules.allow_private:
            raise self._refused(
                f"'{url.host}' 은(는) 안쪽 망의 주소({inner[0]})라 가져오지 않습니다. "
                "사내 서버라면 onsil.toml 에 web_allow_private = true 를 적어 주세요."
            )
        return addresses

    def _request(self, client: httpx.Client, url: httpx.URL, addresses: Sequence[str]) -> httpx.Response:
        """The opened response from the first address that takes the connection."""
        for place, address in enumerate(addresses, start=1):
            left = self.end - time.monotonic()
            if left <= 0:
                raise self.slow()
            request = client.build_request(
                "GET",
                url.copy_with(host=address),
                headers={"Host": url.netloc.decode("ascii")},
                extensions={"sni_hostname": url.raw_host.decode("ascii")},
                timeout=httpx.Timeout(left, connect=min(CONNECT_S, left)),
            )
            try:
                return client.send(request, stream=True)
            except httpx.ConnectError:
                if place == len(addresses):
                    raise
            except httpx.TimeoutException as error:
                if place == len(addresses):
                    raise self.slow() from error
        raise AssertionError("getaddrinfo gives at least one address")

    def _body(self, response: httpx.Response, limit: int) -> bytes:
        media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media and not _READABLE.fullmatch(media):
            raise self._refused(f"문서가 아닙니다({media}). 글이 있는 쪽이나 PDF 의 주소를 적어 주세요.")
        packing = response.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("identity", "gzip", "deflate"):
            raise self._refused(f"모르는 압축({packing})으로 보냈습니다. 파일로 받아 넣어 주세요.")
        unpack = None if packing == "identity" else zlib.decompressobj(wbits=47)
        body = bytearray()
        if response.headers.get("content-length", "").isdecimal():
            self._check_size(int(response.headers["content-length"]), limit)
        try:
            for block in response.iter_raw(_BLOCK):
                body += block if unpack is None else unpack.decompress(block, limit - len(body) + 1)
                self._check_size(len(body), limit)
                if time.monotonic() > self.end:
                    raise self.slow()
        except httpx.TimeoutException as error:
            raise self.slow() from error
        except zlib.error as error:
            raise self._refused("압축이 깨진 채 왔습니다. 파일로 받아 넣어 주세요.") from error
        return bytes(body)

    def _check_size(self, size: int, limit: int) -> None:
        if size > limit:
            raise self._refused(
                f"너무 큽니다(한도 {size_text(limit)}). 파일로 받아 나누거나 크기 한도 설정을 올려 주세요."
            )

    def _check_robots(self, client: httpx.Client, url: httpx.URL) -> None:
        """Raises: robots.txt of the host keeps this page from programs, or cannot be had (RFC 9309, 2.3.1)."""
        origin = str(url.copy_with(raw_path=b"/robots.txt"))
        if origin not in self.robots:
            self.robots[origin] = self._robots(client, origin)
        if not self.robots[origin].can_fetch(AGENT, str(url)):
            raise self._refused(
                "이 사이트의 robots.txt 가 프로그램으로 읽는 것을 막고 있습니다. 브라우저에서 저장해 파일로 넣어 주세요."
            )

    def _robots(self, client: httpx.Client, origin: str) -> RobotFileParser:
        rules = RobotFileParser()
        with self._reached(client, origin, lambda *_: None) as end:
            response = None if end is None else end[1]
            if response is not None and response.is_success:
                rules.parse(self._start_of(response).decode("utf-8", "replace").splitlines())
            elif response is not None and (response.status_code in (401, 403) or response.is_server_error):
                rules.parse(["User-agent: *", "Disallow: /"])
            else:
                rules.parse([])
        return rules

    def _start_of(self, response: httpx.Response) -> bytes:
        body = bytearray()
        for block in response.iter_raw(_BLOCK):
            body += block
            if len(body) >= ROBOTS_LIMIT or time.monotonic() > self.end:
                break
        return bytes(body[:ROBOTS_LIMIT])


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, also inside IPv6 forms of IPv4."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip.sixtofour is not None or ip.teredo is not None or ip in ipaddress.ip_network("64:ff9b::/96"):
            return False
    return ip.is_global and not ip.is_multicast


def _in_utf8(data: bytes, content_type: str) -> bytes:
    """Text whose header names its encoding, in UTF-8, its own word on that changed; anything else as it is."""
    declared = _CHARSET.search(content_type)
    if declared is None or not content_type.strip().lower().startswith(("text/", "application/xhtml")):
        return data
    codec = "cp949" if declared[1].lower() in ("euc-kr", "euc_kr", "ks_c_5601-1987") else declared[1]
    try:
        return _utf8(data.decode(codec))
    except (UnicodeDecodeError, LookupError):
        return data  # the loaders' own ladder


def _page_in_utf8(data: bytes) -> bytes:
    """A HTML page in UTF-8: it says its encoding itself, or the ladder of all text files finds it."""
    declared = _META_CHARSET.search(data[:2048])
    named = declared[2].decode("ascii").lower() if declared else "utf-8"
    try:
        return _utf8(data.decode("cp949" if named.startswith(("euc", "ks_c")) else named))
    except (UnicodeDecodeError, LookupError):
        return _utf8(decode(data).text)


def _utf8(text: str) -> bytes:
    """UTF-8 bytes; what the text says of its own encoding is changed to that."""
    encoded = text.encode("utf-8", "replace")
    return _META_CHARSET.sub(rb"\1utf-8", encoded[:2048]) + encoded[2048:]


def logical_of(url: httpx.URL) -> str:
    """web/host/path of an address; the query is told by a short hash."""
    host = url.host if url.port is None else f"{url.host}_{url.port}"
    parts = [part.strip().lstrip(".")[-_SEGMENT:] for part in unquote(url.path, errors="replace").split("/")]
    parts = [re.sub(r'[\\:*?"<>|]', "_", part) for part in parts if part]
    if url.path.endswith("/") or not parts:
        parts.append("index")
    if url.query:
        stem, dot, ending = parts[-1].rpartition(".")
        mark = hashlib.sha256(url.query).hexdigest()[:8]
        parts[-1] = f"{stem}-{mark}.{ending}" if dot else f"{parts[-1]}-{mark}"
    return logical_path(FOLDER + "/".join([host.replace(":", "_"), *parts]))


def _with_ending(logical: str, kind: str) -> str:
    """The path with an ending that says what the bytes are."""
    found = extension(PurePosixPath(logical).name)
    return logical if not kind or (TEXT_EXTENSIONS.get(found, found) == kind and found) else f"{logical}.{kind}"


def fetch_all(
    urls: Iterable[str], folder: Path, settings: Settings, today: date
) -> tuple[list[tuple[Path, str]], list[FileStatus]]:
    """Pages fetched one after the other into ``folder``: (file, logical path) of each, and a status for each failure."""
    rules = FetchRules(
        timeout_s=settings.ingest_url_timeout_s,
        limit_bytes=settings.ingest_limit_mb * MEGABYTE,
        allow_private=settings.web_allow_private,
    )
    files: list[tuple[Path, str]] = []
    failures: list[FileStatus] = []
    for number, url in enumerate(dict.fromkeys(urls)):
        try:
            page = fetch(url, rules)
        except IngestError as error:
            failures.append(FileStatus(path=url, status="failed", reason=str(error)))
            continue
        path = folder / f"{number}.{page.kind}"
        path.write_bytes(marked(page.data, page.kind, Source(page.url, today.isoformat())))
        files.append((path, page.logical))
    return files, failures


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReader:
    """Fetch, parse and chunk a page for the web channel (``rag.channels.web.Reader``)."""

    limit_bytes: int
    allow_private: bool
    split: Callable[[str], Sequence[SentenceSpan]]
    count_tokens: Callable[[str], int]
    today: Callable[[], date]

    def __call__(self, url: str, level: Level, timeout_s: float) -> list[PageChunk]:
        """The page's chunks of a level, public, cited with address and day.

        Raises:
            IngestError: it cannot be fetched or read.
        """
        rules = FetchRules(timeout_s=timeout_s, limit_bytes=self.limit_bytes, allow_private=self.allow_private)
        page = fetch(url, rules)
        source = Source(page.url, self.today().isoformat())
        limits = Limits(bytes=max(self.limit_bytes + MEGABYTE, MEGABYTE))
        document = parse(marked(page.data, page.kind, source), page.logical, limits)
        chunks = chunk_document(document, f"{PUBLIC}/{page.logical}", self.split, self.count_tokens)
        return [
            PageChunk(
                chunk=ChunkRecord(
                    chunk_id=chunk.chunk_id,
                    scope_id=PUBLIC,
                    doc_id=f"{PUBLIC}/{page.logical}",
                    title=harmless(document.title),
                    section=chunk.section,
                    locator=source.place if page.kind == "html" else f"{chunk.locator} · {source.place}".strip(" ·"),
                    text=chunk.text,
                    level=chunk.level,
                    ordinal=chunk.ordinal,
                    kind=KIND,
                ),
                spans=chunk.sentences,
            )
            for chunk in chunks
            if chunk.level == level
        ]
