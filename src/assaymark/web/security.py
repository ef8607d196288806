"""Security checks for every page: which hosts are answered, how large a request may be, what a browser may load.

A page may load styles, scripts and images from this server only, and no inline script. A request for any other host
than those served is refused (DNS rebinding). Markdown of board files is rendered without raw HTML and then passes an
allow-list; images from elsewhere are dropped, since loading them would tell others who reads the page.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_BODY = 64 << 10
LONGEST_QUERY = 16 << 10
LONGEST_PATH = 16 << 10
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "dl", "dt", "em", "h3", "h4", "h5", "h6", "hr", "i",
    "li", "ol", "p", "pre", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")


class Guard:
    """The outermost layer: refuses requests that are not allowed, and adds security headers to responses."""

    def __init__(
        self, app: ASGIApp, hosts: Sequence[str], largest_bodies: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Wrap an application.

        Args:
            hosts: names, without port, that requests may be addressed to.
            largest_bodies: bytes that a path takes, if not LARGEST_BODY.
        """
        self._app = app
        self._largest = largest_bodies
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = send
        if scope["method"] == "HEAD":  # answered as GET is, with the same headers
            scope, answer = {**scope, "method": "GET"}, _without_body(send)
        refused = self._refusal(scope)
        if refused is not None:
            await plain_response(answer, *refused)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                if any(b"frame-ancestors" in value for _, value in message["headers"]):
                    present.add(b"x-frame-options")  # a policy that names no other site would forbid them all
                extra = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in present
                ]
                message["headers"] = [*message["headers"], *extra]
            await answer(message)

        await self._app(scope, _bounded(receive, self._largest_body(scope)), with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "").lower()
        name = re.sub(r":\d{1,5}$", "", host)
        if name not in self._hosts:
            return (
                421,
                f"this server does not answer for the host '{name[:100]}'; start it with --allow_host to add one",
            )
        if "\x00" in scope["path"] or b"%00" in scope.get("query_string", b""):  # PostgreSQL has no such text
            return 404, "there is no such page: the address holds a NUL character"
        if len(scope.get("query_string", b"")) > LONGEST_QUERY:
            return 414, f"the query string is longer than {LONGEST_QUERY:,} bytes"
        if len(scope.get("raw_path") or b"") > LONGEST_PATH:
            return 414, f"the path is longer than {LONGEST_PATH:,} bytes"
        length = headers.get("content-length", "0")
        largest = self._largest_body(scope)
        if not length.isdigit() or int(length) > largest:
            return 413, f"the body is larger than {largest:,} bytes"
        return None

    def _largest_body(self, scope: Scope) -> int:
        return self._largest.get(scope["path"], LARGEST_BODY)


def _without_body(send: Send) -> Send:
    """Return a `send` that leaves out the body's content."""

    async def headers_only(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return headers_only


def _bounded(receive: Receive, largest: int) -> Receive:
    """Return a `receive` that passes on at most the allowed bytes; a longer body ends as if its sender had left."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return {"type": "http.disconnect"} if taken > largest else message

    return bounded


async def plain_response(send: Send, status: int, text: str, extra: Mapping[str, str] = MappingProxyType({})) -> None:
    """Send one line of text as the answer, with the headers that every answer has and those of `extra`."""
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in (*HEADERS.items(), *extra.items())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def markdown(text: str) -> Markup:
    """Return Markdown as HTML: no raw HTML, no images, links to http, https and mailto only. Headings begin at h3."""
    shifted = re.sub(r"<(/?)h([12])>", r"<\1h3>", _MARKDOWN.render(text))
    clean = nh3.clean(
        shifted,
        tags=TAGS,
        attributes={"a": {"href", "title"}, "abbr": {"title"}, "th": {"align"}, "td": {"align"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)  # noqa: S704 - it has just passed the allow-list


def safe_path(text: str) -> str:
    """Return the path of this server that a visitor named, or `/` for an address that would lead elsewhere."""
    is_local = re.fullmatch(r"/(?![/\\])[!-\[\]-~]{0,2000}", text) is not None
    return text if is_local and "\\" not in text else "/"
