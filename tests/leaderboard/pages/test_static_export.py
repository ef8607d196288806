"""A board as a static site: every link leads somewhere, and later exports write only what changed."""

import functools
import http.server
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.static.folder import JOURNAL, MANIFEST
from assaymark.leaderboard.static.links import Paths, rewritten
from assaymark.store import Store
from tests import http_servers
from tests.http_servers import LoopbackServer, QuietRequests
from tests.served import BOARD, N_PLAIN, write_questions

pytestmark = pytest.mark.slow  # each exports whole sites


class Links(HTMLParser):
    """A page's links, the addresses of what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.names: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        inputs = dict(attrs)
        self.links += [str(inputs[name]) for name in ("href", "src", "data-rows") if inputs.get(name)]
        self.ids |= {str(inputs["id"])} if inputs.get("id") else set()
        self.names += [f"{tag} {inputs.get('name')}"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> Iterator[Path]:
    """Return a folder with a board's file, a store with three runs of it and one of another task, and the site."""
    folder = tmp_path_factory.mktemp("static")
    write_questions(folder)
    text = BOARD.replace("file: plain", f"file: {folder}/plain").replace("file: hostile", f"file: {folder}/hostile")
    (folder / "exam.yaml").write_text(text)
    (folder / "secret.csv").write_text("question,A,B,answer\nUnpublished?,yes,no,A\nAgain?,yes,no,B\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        tasks = f"{folder}/plain.csv,{folder}/hostile.csv"
        for words in (["seed=1"], ["seed=2"], ["seed=1", "--limit", "10"]):
            assert main(["run", "--model", "fake", "--model_args", *words, "--tasks", tasks, "--store",
                         str(folder / "runs.sqlite")]) == 0  # fmt: skip
        assert main(["run", "--model", "fake", "--model_args", "seed=9", "--tasks", f"{folder}/secret.csv", "--store",
                     str(folder / "runs.sqlite")]) == 0  # fmt: skip
        assert export(folder, folder / "site") == 0
        yield folder


def export(folder: Path, site: Path, board: str = "exam.yaml") -> int:
    """Export the board and return the exit status."""
    return main(["board", "export", str(folder / board), "-o", str(site), "--store", str(folder / "runs.sqlite")])


def copy_of(exported: Path, tmp_path: Path) -> Path:
    """Return a copy of board, store and site that a test may change; the board names its task files in full."""
    for path in [exported / "exam.yaml", *exported.glob("runs.sqlite*")]:  # with the write-ahead log
        shutil.copy2(path, tmp_path / path.name)
    shutil.copytree(exported / "site", tmp_path / "site")
    return tmp_path


def manifest(site: Path) -> dict[str, str]:
    """Return the files that the manifest names, with their hashes."""
    result: dict[str, str] = json.loads((site / MANIFEST).read_bytes())["files"]
    return result


def files_of(site: Path) -> dict[str, tuple[int, str]]:
    """Return every file with its time of change and its hash."""
    return {
        path.relative_to(site).as_posix(): (path.stat().st_mtime_ns, sha256(path.read_bytes()).hexdigest())
        for path in site.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def served_files(exported: Path) -> Iterator[str]:
    """Serve the site as any web host would; return its address."""
    with serving(exported / "site") as url:
        yield url


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder with Python's own server, in a thread."""
    with http_servers.serving(LoopbackServer(functools.partial(QuietHandler, directory=str(folder)))) as server:
        yield server.address


class QuietHandler(QuietRequests, http.server.SimpleHTTPRequestHandler):
    """Python's own handler, without its log."""


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor(served_files: str, exported: Path) -> None:
    """Following all links from the first page finds no missing file; links to pages that need a server are gone."""
    pages: dict[str, Links] = {}
    wanted: list[tuple[str, str]] = []
    queue = [f"{served_files}/index.html"]
    with httpx.Client(timeout=20) as client:
        while queue:
            url = queue.pop()
            if url in pages:
                continue
            response = client.get(url)
            assert response.status_code == 200, url
            is_page = response.headers["content-type"].startswith("text/html")
            pages[url] = Links(response.text if is_page else "")
            for link in pages[url].links:
                if link.startswith(("https://", "mailto:")):
                    continue
                assert not link.startswith("/"), (url, link)  # relative, so that the site works in any folder
                target, anchor = urldefrag(urljoin(url, link))
                target = target.partition("?")[0]
                wanted.append((target, unquote(anchor)))
                queue.append(target)
    assert all(anchor in pages[url].ids for url, anchor in wanted if anchor and not url.endswith(".svg"))
    reached = {url.removeprefix(f"{served_files}/") for url in pages}
    pages_written = {path for path in manifest(exported / "site") if path.endswith(".html")}
    assert pages_written <= reached
    names = [name for page in pages.values() for name in page.names]
    assert "input runs" not in names  # runs cannot be compared without a server
    assert "input wrong" not in names


def test_the_manifest_has_the_hash_of_every_file(exported: Path) -> None:
    """Nothing lies in the site that the manifest does not name, but the manifest."""
    files = files_of(exported / "site")
    assert {path: digest for path, (_, digest) in files.items() if path != MANIFEST} == manifest(exported / "site")


def test_every_sample_is_on_a_page_named_after_its_content(exported: Path) -> None:
    """A task's samples are in one file, complete with choices and target, and the file's name holds its hash."""
    site = exported / "site"
    chunks = sorted(site.glob(f"run/*/samples/plain/0-{N_PLAIN - 1}-*.html"))
    assert len(chunks) == 2  # of the two runs of all samples
    for chunk in chunks:
        assert chunk.stem.rpartition("-")[2] == sha256(chunk.read_bytes()).hexdigest()[:16]
        text = chunk.read_text()
        for n in range(N_PLAIN):
            assert f"Which letter follows number {n}?" in text
            assert f'<article id="s{n}"' in text
        assert text.count("<h2>Prompt</h2>") == 0  # headings are one level deeper than on a page of its own
        assert text.count("<h3>Prompt</h3>") == N_PLAIN


def test_a_run_that_no_board_shows_is_not_exported(exported: Path) -> None:
    """The store has a run of another task: neither its id nor its questions are in any file."""
    runs = {tuple(run.tasks): run.run_id for run in Store.open_to_read(str(exported / "runs.sqlite")).runs()}
    hidden = runs[("secret",)]
    for path in (exported / "site").rglob("*"):
        if path.is_file():
            body = path.read_bytes()
            assert hidden.encode() not in body, path
            assert b"Unpublished?" not in body, path
            assert str(exported).encode() not in body or path.name.endswith(".html"), path


def test_no_script_stands_in_a_page(exported: Path) -> None:
    """Scripts are files of the site, and each page forbids others."""
    for path in (exported / "site").rglob("*.html"):
        text = path.read_text()
        assert 'http-equiv="Content-Security-Policy"' in text
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
        assert "<script>alert" not in text


def test_the_rows_of_filters_are_the_tables(exported: Path) -> None:
    """The JSON has every row of the board, with the values of the download."""
    [rows] = (exported / "site" / "board" / "exam").glob("rows-*.js")
    literal = rows.read_text().removeprefix("globalThis.assaymarkRows = JSON.parse(").removesuffix(");\n")
    compact = json.loads(json.loads(literal))
    lines = (exported / "site" / "board" / "exam" / "rows.jsonl").read_text().splitlines()
    listed = [json.loads(line) for line in lines]
    assert compact["model"] == [row["model"] for row in listed]
    for key in ("average", "plain", "hostile"):
        for entry, row in zip(compact["scores"][key], listed, strict=True):
            assert (entry is None) == (row[key] is None)
            assert entry is None or entry[0] == pytest.approx(row[key], rel=1e-5)


def test_a_second_export_writes_nothing(exported: Path, tmp_path: Path) -> None:
    """No file is written again, the manifest neither; one that changed is."""
    folder = copy_of(exported, tmp_path)
    assert export(folder, folder / "site") == 0  # the page names the task files, which lie elsewhere from the copy
    before = files_of(folder / "site")
    assert export(folder, folder / "site") == 0
    assert files_of(folder / "site") == before
    text = (folder / "exam.yaml").read_text()
    (folder / "exam.yaml").write_text(text.replace("**We** do.", "**They** do."))
    assert export(folder, folder / "site") == 0
    changed = {path for path, entry in files_of(folder / "site").items() if before.get(path) != entry}
    assert changed == {"board/exam/about.html", MANIFEST}


def test_a_run_that_was_removed_is_deleted_from_the_site(exported: Path, tmp_path: Path) -> None:
    """Its page and its samples go; files that no export wrote stay."""
    folder = copy_of(exported, tmp_path)
    site = folder / "site"
    (site / "CNAME").write_text("board.example.org")
    [run] = [run for run in Store.open_to_read(str(folder / "runs.sqlite")).runs() if "seed" in str(run.plan)
             and run.model == "fake-random-2"]  # fmt: skip
    assert list(site.rglob(f"*{run.run_id}*"))
    assert main(["rm", run.run_id, "--yes", "--store", str(folder / "runs.sqlite")]) == 0
    assert export(folder, site) == 0
    assert not list(site.rglob(f"*{run.run_id}*"))
    assert not (site / "model" / "fake-random-2.html").exists()
    assert all(run.run_id.encode() not in path.read_bytes() for path in site.rglob("*") if path.is_file())
    assert (site / "CNAME").read_text() == "board.example.org"
    assert set(manifest(site)) == set(files_of(site)) - {MANIFEST, "CNAME"}


def test_an_export_that_is_killed_leaves_the_earlier_one_complete(exported: Path, tmp_path: Path) -> None:
    """Killed while it renders: every file is as the manifest says; the next export finishes and tidies up."""
    folder = copy_of(exported, tmp_path)
    site = folder / "site"
    (folder / "exam.yaml").write_text((folder / "exam.yaml").read_text().replace("Exam <b>", "New <b>"))
    before = files_of(site)
    words = ["board", "export", str(folder / "exam.yaml"), "-o", str(site), "--store", str(folder / "runs.sqlite")]
    process = subprocess.Popen([sys.executable, "-m", "assaymark", *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not [path for path in site.glob(".assaymark-draft-*/**/*") if path.is_file()]:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    assert list(site.glob(".assaymark-draft-*"))
    assert {path: entry for path, entry in files_of(site).items() if not path.startswith(".")} == before
    assert export(folder, site) == 0
    assert not list(site.glob(".assaymark-draft-*"))
    assert "New &lt;b&gt;board" in (site / "index.html").read_text()
    assert {path: digest for path, (_, digest) in files_of(site).items() if path != MANIFEST} == manifest(site)


def test_files_that_a_killed_export_moved_in_are_deleted_by_the_next(exported: Path, tmp_path: Path) -> None:
    """The journal names what was being moved in when the process was killed."""
    folder = copy_of(exported, tmp_path)
    site = folder / "site"
    (site / "run" / "orphan.html").write_text("withdrawn")
    (site / JOURNAL).write_text(json.dumps({"format": 1, "files": {"run/orphan.html": "0"}}))
    assert export(folder, site) == 0
    assert not (site / "run" / "orphan.html").exists()
    assert not (site / JOURNAL).exists()


def test_a_folder_with_other_files_is_refused(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written into it; a file in the way of a page is not replaced either."""
    (tmp_path / "thesis.tex").write_text("mine")
    assert export(exported, tmp_path) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    site = tmp_path / "other"
    shutil.copytree(exported / "site", site)
    listed = manifest(site)
    del listed["index.html"]
    (site / MANIFEST).write_text(json.dumps({"format": 1, "files": listed}))
    (site / "index.html").write_text("mine")
    assert export(exported, site) == 2
    assert (site / "index.html").read_text() == "mine"


@pytest.mark.parametrize("path", ["../victim.txt", "/etc/passwd", "link/victim.txt", "a\\b", ""])
def test_a_manifest_that_names_files_elsewhere_is_refused(
    path: str, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site's folder may come from elsewhere: its manifest deletes nothing outside of it."""
    site, outside = tmp_path / "site", tmp_path / "outside"
    site.mkdir()
    outside.mkdir()
    (site / "link").symlink_to(outside)
    for victim in (tmp_path / "victim.txt", outside / "victim.txt"):
        victim.write_text("mine")
    (site / MANIFEST).write_text(json.dumps({"format": 1, "files": {path: "0"}}))
    assert export(exported, site) == 2
    assert MANIFEST in capsys.readouterr().err
    assert (tmp_path / "victim.txt").exists()
    assert (outside / "victim.txt").exists()


def test_names_that_a_file_system_cannot_hold_are_hashed() -> None:
    """Two addresses never share a file, whatever the file system thinks of cases; no file leaves the site."""
    paths = Paths()
    addresses = [*("/model/a/b", "/model/A/b", "/model/a.html/b", "/model/a", "/task/con", "/task/.."),
                 "/task/%2e%2e%2fx", "/task/a%2Fb", "/task/" + "x" * 300, "/task/%00", "/task/dot."]  # fmt: skip
    files = [paths.add(address) for address in addresses]
    assert len({file.lower() for file in files}) == len(files)
    assert all(re.fullmatch(r"(model|task)(/[A-Za-z0-9~][\w.~+-]*){1,2}\.html", file) for file in files)
    assert not any(".." in file or len(file) > 150 for file in files)


def test_text_that_looks_like_a_link_is_not_rewritten() -> None:
    """Only attributes of tags are: text, escaped markup and links to elsewhere stay, byte for byte."""
    html = '<p title="href=&quot;/x&quot;">href="/x" &lt;a href="/x"&gt; <a href="https://e.org/x">e</a></p>'
    assert rewritten(html, lambda link: link if link.startswith("https:") else "new") == html
    assert rewritten('<a class="b" href="/x?a=1&amp;b=2" hx-get="/y">t</a>', lambda link: link[1:]) == (
        '<a class="b" href="x?a=1&amp;b=2">t</a>'
    )
    assert rewritten('<p><a href="/gone">text</a></p>', lambda _: None) == "<p>text</p>"
    assert rewritten('<header><a href="/gone">text <b>x</b></a>!</header>', lambda _: None) == "<header>!</header>"
