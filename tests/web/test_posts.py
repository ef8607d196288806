"""What is sent to the server: origin, tokens, cookies, bodies, rates and addresses, on a real server."""

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from assaymark.errors import UsageError
from assaymark.web.accounts import Account, Accounts, AccountTokens
from assaymark.web.app import Feature, create_app
from assaymark.web.clients import Clients, network_of
from assaymark.web.posts import Form, Posted, Posts
from assaymark.web.rate import Rate
from assaymark.web.secret import Signer, server_secret
from tests.served import running


def add_notes(app: FastAPI) -> None:
    """A part with one form."""
    rate = Rate(50, 3600)

    @app.get("/note")
    def page(request: Request) -> Response:
        return PlainTextResponse(app.state.posts.token(request))

    @app.post("/note")
    def note(request: Request, form: Form) -> Response:
        rate.take(app.state.clients.network(request), "notes")
        return JSONResponse({"text": form.text("text"), "all": form.texts("more"), "json": form.is_json})

    @app.post("/large")
    def large(form: Form) -> Response:
        return JSONResponse({"n": len(form.text("text"))})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with that part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(tmp_path_factory.mktemp("home")))
        app = create_app([Feature(add_notes, [("/note", "Notes")], {"/large": 1 << 20})])
    with running(app) as result:
        yield result


def test_a_form_of_this_browser_is_taken(url: str) -> None:
    """Cookie and token from the page; a form and JSON alike."""
    with httpx.Client(base_url=url) as client:
        token = client.get("/note").text
        answer = client.post("/note", data={"token": token, "text": " a & ü ", "more": ["x", "y"]})
        assert answer.json() == {"text": "a & ü", "all": ["x", "y"], "json": False}
        answer = client.post("/note", json={"text": "b"}, headers={"x-form-token": token})
        assert answer.json() == {"text": "b", "all": [], "json": True}


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "https://evil.example"}, 403), ({"sec-fetch-site": "cross-site"}, 403), ({"origin": "null"}, 403),
     ({"sec-fetch-site": "same-site"}, 403), ({"sec-fetch-site": "same-origin"}, 200),
     ({"content-type": "text/plain"}, 415)],
)  # fmt: skip
def test_other_sites_change_nothing(url: str, headers: dict[str, str], status: int) -> None:
    """Even with cookie and token: a browser says where a request was made."""
    with httpx.Client(base_url=url) as client:
        token = client.get("/note").text
        kind = {"content-type": "application/x-www-form-urlencoded"}
        assert client.post("/note", content=f"token={token}", headers=kind | headers).status_code == status


def test_a_token_belongs_to_its_cookie(url: str) -> None:
    """Neither another visitor's token, nor a cookie of one's own making, nor none at all is enough."""
    with httpx.Client(base_url=url) as client, httpx.Client(base_url=url) as two:
        for each in (client, two):
            assert each.post("/note", data={"token": each.get("/note").text}).status_code == 200
        token = client.get("/note").text
        own = two.get("/note").text
        assert token != own
        assert two.post("/note", data={"token": token}).status_code == 403
        assert two.post("/note", data={"text": "x"}).status_code == 403
        assert httpx.post(f"{url}/note", data={"token": token}).status_code == 403
        forged = {"visitor": "0" * 32 + "." + "0" * 64}
        assert httpx.post(f"{url}/note", data={"token": token}, cookies=forged).status_code == 403
        assert client.post("/note", data={"token": token}).status_code == 200


def test_no_cookie_before_something_is_sent(url: str) -> None:
    """Reading sets none; the answer to the first form does, and its token goes on being good with it."""
    with httpx.Client(base_url=url) as client, httpx.Client(base_url=url) as other:
        page = client.get("/note")
        assert "set-cookie" not in page.headers
        first = client.post("/note", data={"token": page.text})
        assert re.fullmatch(
            r"visitor=[0-9a-f]{32}\.[0-9a-f]{64}; HttpOnly; Max-Age=\d+; Path=/; SameSite=lax",
            first.headers["set-cookie"],
        )
        assert first.headers["set-cookie"].startswith(f"visitor={page.text[:32]}.")
        again = client.post("/note", data={"token": page.text})
        assert (again.status_code, "set-cookie" in again.headers) == (200, False)
        assert client.get("/note").text != page.text
        assert other.post("/note", data={"token": other.get("/note").text}).status_code == 200
        assert other.post("/note", data={"token": page.text}).status_code == 403  # another visitor's


def test_a_first_token_is_of_its_network_and_of_half_a_day() -> None:
    """One that was made for another network, is older, or was changed names nobody."""
    clients = Clients(b"s" * 32)
    posts = Posts(b"s" * 32, clients)

    def request(address: str) -> Request:
        return Request({"type": "http", "method": "POST", "headers": [], "client": (address, 1), "state": {}})

    token = posts.token(request("192.0.2.1"))
    here = request("192.0.2.1")
    posts.check(here, Posted({"token": [token]}, is_json=False))
    assert clients.visitor(here).id == token[:32]
    hour = int(token[32:40], 16)
    for wrong, address in (
        (token, "192.0.2.9"), (f"{token[:32]}{hour - 13:08x}{token[40:]}", "192.0.2.1"),
        ("0" * 32 + token[32:], "192.0.2.1"), (token[:-1] + "g", "192.0.2.1"), (token + "0", "192.0.2.1"),
    ):  # fmt: skip
        with pytest.raises(HTTPException):
            posts.check(request(address), Posted({"token": [wrong]}, is_json=False))


def test_bodies_are_bounded_and_read_strictly(url: str) -> None:
    """Too large, too many fields, not UTF-8, not JSON, not an object: each with its status and one line."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    with httpx.Client(base_url=url) as client:
        token = client.get("/note").text

        def status(body: bytes, kind: dict[str, str] = form, path: str = "/note") -> int:
            return client.post(path, content=body, headers={"x-form-token": token} | kind).status_code

        assert status(b"text=" + b"x" * (70 << 10)) == 413
        assert status(b"text=" + b"x" * (70 << 10), path="/large") == 200
        assert status(b"text=" + b"x" * (2 << 20), path="/large") == 413
        assert status(b"&".join(b"a=1" for _ in range(300))) == 400
        assert status(b"text=%ff") == 400
        for body in (b"{", b"[1]", b"[" * 60_000, b'"x"'):
            assert status(body, {"content-type": "application/json"}) == 400
        assert status(b'{"text": 3}', {"content-type": "application/json"}) == 400
        for text in (rb"\ud800", rb"a\u0000", rb"\udc00\ud800"):  # JSON's escapes make what no database takes
            for body in (b'{"text": "%s"}', b'{"%s": "x"}', b'{"text": "x", "more": [{"a": ["%s"]}]}'):
                assert status(body.replace(b"%s", text), {"content-type": "application/json"}) == 400
        assert status(rb'{"text": "\ud83d\ude00"}', {"content-type": "application/json"}) == 200
        assert status(b"text=a%00") == 400


def test_a_body_without_a_length_is_bounded(url: str) -> None:
    """Sent in chunks, it is refused as soon as it is too long."""
    with httpx.Client(base_url=url) as client:
        token = client.get("/note").text

        def parts() -> Iterator[bytes]:
            yield b"text="
            for _ in range(20):
                yield b"x" * 8192

        headers = {"x-form-token": token, "content-type": "application/x-www-form-urlencoded"}
        with suppress(httpx.TransportError):  # refused and closed while the client was still sending
            assert client.post("/note", content=parts(), headers=headers).status_code == 413


def test_parts_are_linked_from_every_page(url: str) -> None:
    """The top of the pages names them."""
    assert re.search(r'<a href="/note">Notes</a>', httpx.get(f"{url}/boards").text)


def test_rates_refill_with_time() -> None:
    """Three at once, then one each 20 seconds; each key has its own."""
    now = [0.0]
    rate = Rate(3, 60, lambda: now[0])
    assert [rate.wait("a") for _ in range(4)] == [0, 0, 0, pytest.approx(20)]
    assert rate.wait("b") == 0
    now[0] = 20.001
    assert rate.wait("a") == 0
    assert rate.wait("a") > 19


def test_lines_that_a_visitor_sent_before_the_proxys_are_not_believed() -> None:
    """A proxy may add its own line of X-Forwarded-For; two lines with a user's name are none."""
    lines = [(b"x-forwarded-for", b"192.0.2.1"), (b"x-forwarded-for", b"192.0.2.2")]
    users = [(b"x-user", b"admin"), (b"x-user", b"alice")]
    scope: dict[str, Any] = {"type": "http", "client": ("10.0.0.1", 1), "headers": [*lines, *users]}
    request = Request(scope)
    assert Clients(b"secret", ["10.0.0.1"]).network(request) == "192.0.2.2"
    accounts = Accounts(
        AccountTokens(b"secret"), lambda _: False, user_header="x-user", proxies=["10.0.0.1"], moderators=["admin"]
    )
    assert accounts.of(request) is None
    assert accounts.of(Request({**scope, "headers": [*lines, users[1]]})) == Account("alice", "submitter")


def test_a_password_that_a_browser_adds_by_itself_replaces_no_token(url: str) -> None:
    """Browsers send Basic credentials with every request to a site; a bearer's only programs send."""
    for scheme, status in (("Basic YTpi", 403), ("Bearer x", 200)):
        answer = httpx.post(f"{url}/note", json={"text": "b"}, headers={"authorization": scheme})
        assert answer.status_code == status


def test_addresses() -> None:
    """IPv6 by /64, mapped IPv4 as IPv4, nonsense as nothing."""
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::1") != network_of("2001:db8:1:2::1")
    assert network_of("::ffff:192.0.2.7") == "192.0.2.7"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("x") == ""


def test_the_secret(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    """One for all processes of a home, readable by its owner alone; purposes do not share signatures."""
    monkeypatch.delenv("ASSAYMARK_SECRET", raising=False)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(server_secret())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len(set(results)) == 1
    assert [(path.name, path.stat().st_mode & 0o777) for path in own_home.iterdir()] == [("server.secret", 0o600)]
    assert Signer(results[0], "a").is_signed("x", Signer(results[0], "a").sign("x"))
    assert not Signer(results[0], "b").is_signed("x", Signer(results[0], "a").sign("x"))
    monkeypatch.setenv("ASSAYMARK_SECRET", "short")
    with pytest.raises(UsageError, match="5 characters"):
        server_secret()


def test_every_block_of_a_page_is_one_of_the_page_that_it_extends() -> None:
    """A block that this page lacks, or the base page has twice, would drop a page's scripts or break every page."""
    package = Path(create_app.__code__.co_filename).parents[1]
    texts = {path.name: path.read_text() for path in package.glob("**/templates/*.html")}
    named = {name: re.findall(r"{%-? block (\w+)", text) for name, text in texts.items()}
    extended = {name: re.findall(r'{% extends "([\w.]+)" %}', text) for name, text in texts.items()}
    assert len(set(named["base.html"])) == len(named["base.html"])
    assert extended["board_document.html"] == ["document.html"]
    for name, (parent,) in ((name, found) for name, found in extended.items() if found):
        known = {*named[parent], *(each for above in extended[parent] for each in named[above])}
        assert set(named[name]) <= known | ({"heading"} if name == "document.html" else set()), name
