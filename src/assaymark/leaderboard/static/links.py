"""Pages of an application, read without a socket, with their links rewritten to the files of a static site.

Links are relative, so that a site works at any address and from a disk. A link to a page that a static site lacks (a
filter of samples, a theme, a JSON twin) becomes plain text; in the header and the footer it is removed.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from html import escape, unescape
from posixpath import dirname, relpath
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Receive, Scope, Send

from assaymark.errors import DataError
from assaymark.platforms import portable_name

_TAG = re.compile(r"""<(?P<end>/?)(?P<name>[a-zA-Z][\w-]*)(?P<rest>(?:[^"'<>]|"[^"]*"|'[^']*')*)>""")
_ATTRIBUTE = re.compile(r"""\s([\w:-]+)(?:=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_PLAIN = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)
ADDRESSES = {"href", "src", "action", "data-rows"}
_OWN_FOLDER = re.compile(r"(/board/[^/?]+)(/charts|\.csv|\.jsonl|\.parquet)?")  # what may lack its query
HOST = "http://localhost"
_MOST_REDIRECTS = 5


class Paths:
    """The file of each address of the server. Addresses that were not added are not part of the site."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._taken: set[str] = set()

    def add(self, address: str, suffix: str = ".html", *, file: str | None = None) -> str:
        """Return the file of an address; the first call decides.

        Names that a file system may not hold, or holds already in another case, are replaced by hashes.
        """
        known = self._files.get(address)
        if known is not None:
            return known
        name = file or file_name(address) + suffix
        if name.lower() in self._taken:
            name = f"{name.removesuffix(suffix)}~{_hash(address)}{suffix}"
        self._taken.add(name.lower())
        self._files[address] = name
        return name

    def alias(self, address: str, file: str) -> None:
        """Let one more address lead to a file."""
        self._files.setdefault(address, file)

    def link(self, page: str, target: str) -> str | None:
        """Return a link from a page (a file) to an address of the server; None if the site does not have it.

        For filters without a page of their own, the link leads to the board's table with the same query, which the
        script of boards reads; charts and downloads are those of the whole table.
        """
        if not target.startswith("/") or target.startswith("//"):
            return target  # elsewhere, or within the page
        parts = urlsplit(target)
        query = ""
        file = self._files.get(canonical(target))
        if file is None and (of_board := _OWN_FOLDER.fullmatch(parts.path)) is not None:
            file = self._files.get(parts.path)
            query = f"?{parts.query}" if parts.query and not of_board[2] else ""
        if file is None:
            return None
        file, _, anchor = file.partition("#")
        anchor = parts.fragment or anchor
        return f"{relative(page, file)}{query}{f'#{anchor}' if anchor else ''}"


def canonical(address: str) -> str:
    """Return an address of the server in one spelling: no fragment, its query encoded alike; of assets no version."""
    parts = urlsplit(address)
    query = "" if parts.path.startswith("/static/") else urlencode(parse_qsl(parts.query, keep_blank_values=True))
    return f"{parts.path}?{query}" if query else parts.path


def relative(page: str, file: str) -> str:
    """Return a link from one file of the site to another."""
    return quote(relpath(file, dirname(page) or "."), safe="/.~+-_")


def file_name(address: str) -> str:
    """Return the path of an address in the site, without an ending; names that file systems may not hold are hashed."""
    path, _, query = address.partition("?")
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if query:  # /compare?runs=a,b is compare/runs-a-b
        parts.append(re.sub(r"[^\w.]+", "-", unquote(query), flags=re.ASCII))
    kept = [
        part
        if _PLAIN.fullmatch(part) and portable_name(part) == part and not part.lower().endswith(".html")
        else f"~{_hash(part)}"
        for part in parts
    ]
    return "/".join(kept)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def addresses(html: str) -> Iterator[str]:
    """Yield the addresses of a page's links, images, scripts and style sheets, in order."""
    for tag in _TAG.finditer(html):
        if not tag["end"]:
            for attribute in _ATTRIBUTE.finditer(tag["rest"]):
                if attribute[1].lower() in {"href", "src"}:
                    yield unescape(attribute[2] or attribute[3] or attribute[4] or "")


def rewritten(html: str, link: Callable[[str], str | None]) -> str:
    """Return a page with links rewritten by `link`. Text between tags stays the same, byte for byte."""
    pieces: list[str] = []
    at = 0
    frame = 0  # depth of header and footer
    lost: list[bool] = []  # of the open links: whether their tag was removed
    silent = False  # inside a removed link of the frame
    for tag in _TAG.finditer(html):
        name, is_end = tag["name"].lower(), bool(tag["end"])
        if not silent:
            pieces.append(html[at : tag.start()])
        at = tag.end()
        if name in {"header", "footer"}:
            frame += -1 if is_end else 1
        if name == "a":
            if is_end:
                dropped = lost.pop() if lost else False
                pieces.append("" if dropped else tag[0])
                silent = False
                continue
            new = _tag(tag, link)
            lost.append(new is None)
            silent = new is None and frame > 0
            pieces.append(new or "")
            continue
        if not silent:
            pieces.append(tag[0] if is_end else (_tag(tag, link) or ""))
    return "".join([*pieces, html[at:]])


def _tag(tag: "re.Match[str]", link: Callable[[str], str | None]) -> str | None:
    """Return a start tag with its address rewritten and without htmx's attributes; None if it leads nowhere."""
    kept: list[str] = []
    has_live = "hx-" in tag["rest"]
    for attribute in _ATTRIBUTE.finditer(tag["rest"]):
        name = attribute[1].lower()
        if name.startswith("hx-"):
            continue
        if name not in ADDRESSES:
            kept.append(attribute[0])
            continue
        value = unescape(attribute[2] or attribute[3] or attribute[4] or "")
        new = link(value)
        if new is None:
            return None
        kept.append(attribute[0] if new == value else f' {name}="{escape(new)}"')
        has_live = has_live or new != value
    if not has_live:
        return tag[0]
    return f"<{tag['name']}{''.join(kept)}>"


@contextmanager
def visiting(app: ASGIApp) -> Iterator["PageReader"]:
    """Yield a reader of an ASGI application's pages, which know that they become files (their `live` is false).

    The application runs in a thread with a loop of its own, so this works inside a running loop too (a notebook).
    """

    async def as_files(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {**scope.get("state", {}), "context": {"live": False}}
        await app(scope, receive, send)

    headers = {"accept-encoding": "identity"}
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=as_files), base_url=HOST, headers=headers)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as entered:
        yield PageReader(entered, portal)


class PageReader:
    """A reader of an application's pages. May be used by one thread."""

    def __init__(self, client: httpx.AsyncClient, portal: BlockingPortal) -> None:
        """Args: client: of the application; portal: to the loop that the client lives in."""
        self._client, self._portal = client, portal

    def get(self, address: str) -> httpx.Response:
        """Return the answer at an address; redirections are not followed.

        Raises: DataError for a page that failed.
        """
        response = self._portal.call(self._client.get, address)
        if response.status_code >= 500:
            raise DataError(
                f"the page {address} cannot be exported: the application answered {response.status_code} "
                f"({response.reason_phrase}); `assaymark serve` shows the page and logs the reason"
            )
        return response

    def final(self, address: str) -> str:
        """Return the address that an address leads to, redirections followed."""
        for _ in range(_MOST_REDIRECTS):
            response = self.get(address)
            if not response.is_redirect:
                return address
            target = urlsplit(response.headers["location"])
            address = f"{target.path}?{target.query}" if target.query else target.path
        return address
