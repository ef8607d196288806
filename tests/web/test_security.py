"""What must not work: hostile texts, foreign hosts, paths out of the folder, large and odd requests."""

import platform
import re
import socket
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from assaymark.errors import StoreError, UsageError
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun
from assaymark.limits.shown_paths import without_folders
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.security import markdown
from assaymark.web.serve import hosts_for
from tests.cli.test_hostile_text import CORPUS, NOT_PRINTABLE
from tests.leaderboard.pages.test_pages import Page
from tests.served import Served, running

PAGES = ("/board/exam", "/board/exam/about", "/run/{0}", "/run/{0}/samples/hostile", "/compare?runs={1},{2}",
         "/task/hostile", *(f"/run/{{0}}/samples/hostile/{n}" for n in range(len(CORPUS))))  # fmt: skip


def test_no_page_holds_foreign_markup_or_steering_characters(client: httpx.Client, served: Served) -> None:
    """Questions, choices, board texts and names are text: no scripts but ours, no handlers, no foreign images."""
    for path in PAGES:
        response = client.get(path.format(*served.run_ids))
        if response.status_code == 404:
            continue  # the latest run has the first ten samples only
        assert response.status_code == 200, path
        page = Page(response.text)
        assert [script["src"] for script in page.scripts if str(script.get("src")).startswith("/static/")] == [
            script.get("src") for script in page.scripts
        ]
        assert not page.tags & {"iframe", "object", "embed", "img"}
        assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
        assert not [link for link in page.links if link.lower().startswith(("javascript:", "data:"))]
        assert not NOT_PRINTABLE.search(response.text)


@pytest.mark.parametrize("text", CORPUS.values(), ids=list(CORPUS))
def test_hostile_parameters_are_text(client: httpx.Client, text: str) -> None:
    """In a search, a column, a model's or a run's name, a task: shown as text or refused, never a failure."""
    for path in ("/board/exam", "/compare"):
        for name in ("q", "cols", "sort", "pin", "runs", "prompts", "types"):
            response = client.get(path, params={name: text})
            assert response.status_code in {200, 404}, (path, name)
            assert "<script>alert(1)" not in response.text
    for path in ("/model/", "/run/", "/task/", "/board/", "/static/"):
        response = client.get(path + quote(text, safe=""))
        assert response.status_code in {404, 400}, path
        assert "<script>alert(1)" not in response.text


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2f..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
     "/board/exam/../../x", "/run/..%2f..%2fetc/samples/plain", "/model/../../etc/passwd", "/static/.hidden"],
)  # fmt: skip
def test_no_path_leads_out(served: Served, path: str) -> None:
    """Sent as it stands, without a client that tidies it."""
    answer = raw(served, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answer.split()[1] in {"404", "400"}
    assert "root:" not in answer
    assert "create_app" not in answer


def raw(served: Served, request: str) -> str:
    """Return the answer to bytes sent as they are."""
    host, _, port = served.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(request.encode("latin-1"))
        result = b""
        while part := connection.recv(1 << 16):
            result += part
    return result.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1.example.com", "localhost:1@example.com", "", "169.254.169.254"]
)
def test_foreign_hosts_are_refused(client: httpx.Client, host: str) -> None:
    """A page of another name cannot be this server (DNS rebinding)."""
    assert client.get("/boards", headers={"Host": host}).status_code in {421, 400}


def test_names_of_this_machine_are_served(client: httpx.Client, served: Served) -> None:
    """With and without a port."""
    port = served.url.rpartition(":")[2]
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"[::1]:{port}"):
        assert client.get("/boards", headers={"Host": host}).status_code == 200


def test_every_answer_has_the_headers(client: httpx.Client) -> None:
    """Pages, files, failures and refusals alike; nothing may run that stands in a page."""
    for response in (
        client.get("/boards"),
        client.get("/nothing"),
        client.get("/static/none"),
        client.get("/boards", headers={"Host": "example.com"}),
        client.post("/boards", content=b"x"),
    ):
        policy = response.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"


def test_large_requests_are_refused(client: httpx.Client, served: Served) -> None:
    """A megabyte in a query, a body or a path ends in a plain refusal, and the server goes on."""
    assert client.get("/board/exam", params={"q": "x" * 20_000}).status_code == 414
    assert client.post("/boards", content=b"x" * (1 << 20)).status_code == 413
    assert client.get("/run/" + "a" * 5000).status_code == 404
    long = "x" * (1 << 20)
    for path in (f"/board/exam?q={long}", f"/{long}"):
        assert raw(served, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").split()[1] == "414"
    assert raw(served, f"GET / HTTP/1.1\r\nX: {long}\r\n\r\n").split()[1] == "431"
    assert client.get("/" + "y" * 20_000).status_code == 414
    assert client.get("/boards").status_code == 200


def test_a_nul_character_in_an_address_is_404(client: httpx.Client) -> None:
    """No page has one in its address, and PostgreSQL refuses such texts: path and query alike, in every route."""
    for path in ("/model/%00", "/run/%00abc", "/task/a%00b", "/board/exam?q=%00", "/%00", "/compare?runs=%00,b"):
        assert client.get(path).status_code == 404, path


def test_a_failing_store_does_not_say_where_it_is() -> None:
    """A page that needs a store which cannot be used says so, and neither its address nor its driver's words."""

    class Losing(Site):
        is_lost = False

        def stored_runs(self) -> list[StoredRun]:
            if not self.is_lost:
                return []
            raise StoreError("cannot connect to postgresql://board@db.internal:5432/runs: timeout from 10.0.0.5")

    site = Losing([])
    with running(create_app([board_feature(site)])) as url:
        site.is_lost = True
        for path in ("/boards", "/boards.json", "/model/x", "/recommend"):
            answer = httpx.get(url + path, timeout=20)
            assert answer.status_code == 503, path
            assert "the server's store cannot be used now" in answer.text.replace("&#39;", "'")
            assert not re.search(r"postgres|internal|10\.0", answer.text), path


def test_a_slow_client_keeps_nobody_waiting(served: Served, client: httpx.Client) -> None:
    """While forty connections send nothing, a page comes at once."""
    host, _, port = served.url.removeprefix("http://").partition(":")
    waiting = [socket.create_connection((host, int(port))) for _ in range(40)]
    for each in waiting:
        each.sendall(b"GET /boards HTTP/1.1\r\nHost:")
    start = time.monotonic()
    assert client.get("/boards").status_code == 200
    assert time.monotonic() - start < 5
    for each in waiting:
        each.close()


def test_writing_methods_are_not_there(client: httpx.Client) -> None:
    """Nothing can be changed through these pages."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = client.request(method, "/board/exam")
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD"


def test_head_is_get_without_a_body(client: httpx.Client, served: Served) -> None:
    """On pages, exports, files and failures; the connection can be used again."""
    for path in ("/board/exam", "/board/exam.csv", "/static/style.css", "/run/" + served.run_ids[0], "/nothing"):
        head, get = client.head(path), client.get(path)
        assert head.status_code == get.status_code, path
        assert head.content == b""
        assert head.headers["content-type"] == get.headers["content-type"]
        assert head.headers.get("content-length") == get.headers.get("content-length")


def test_other_machines_only_with_a_name() -> None:
    """An address that others reach needs the name that they use."""
    assert "127.0.0.1" in hosts_for("127.0.0.1", ())
    with pytest.raises(UsageError, match="--allow_host"):
        hosts_for("0.0.0.0", ())
    assert hosts_for("0.0.0.0", ("board.example.org",))[-1] == "board.example.org"


@pytest.mark.parametrize(
    "text",
    [
        *CORPUS.values(),
        "[a](data:text/html,x)",
        "<img src=x>",
        "![i](http://x/y.png)",
        "[ref]: javascript:alert(1)\n\n[x][ref]",
        "<a href='javascript:x'>",
        "# Title\n## Two",
    ],
)
def test_markdown_gives_only_harmless_tags(text: str) -> None:
    """No raw HTML, no images, no script addresses; headings begin below the page's own."""
    page = Page(str(markdown(text)))
    assert not page.tags & {"script", "img", "iframe", "h1", "h2", "style", "form", "input"}
    assert not [name for name in page.attributes if name.startswith("on")]
    assert not [link for link in page.links if not link.startswith(("http:", "https:", "mailto:", "/", "#"))]


def test_no_page_tells_where_files_are_or_which_machine_it_was(client: httpx.Client, served: Served) -> None:
    """The run's page and its twin, and every other page of the run; the command and file names are shown."""
    folder = str(Path(served.store).parent)
    first, second, third = served.run_ids
    for path in (f"/run/{first}", f"/run/{second}", f"/compare?runs={second},{third}", "/boards", "/board/exam/about",
                 f"/run/{first}/samples/plain", f"/run/{first}/samples/plain/3", "/task/plain",
                 "/run/none/samples/plain"):  # fmt: skip
        stem, _, query = path.partition("?")
        for address in (path, f"{stem}.json?{query}"):
            text = client.get(address).text
            assert folder not in text, address
            assert socket.gethostname() not in text, address
            assert platform.platform() not in text, address
            assert "process_id" not in text, address
    page = client.get(f"/run/{first}").text
    assert "plain.csv" in page
    stored = Store.open_to_read(served.store).run(first).command
    assert stored is not None  # of the process that ran the tests
    assert client.get(f"/run/{first}.json").json()["command"] == without_folders(stored)
