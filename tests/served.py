"""A store with real runs, and the application behind a real server on a free port of this machine."""

import csv
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp

from assaymark.cli.main import main
from assaymark.documents.pdf import find_browser
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.columns import MODEL_TYPES
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.serve import ServerLimits, configured, listen
from tests.cli.test_hostile_text import CORPUS

N_PLAIN = 60  # questions of the plain task

BOARD = """
title: Exam <b>board</b>
introduction: "Three task sets. <script>alert(1)</script> ![x](https://example.com/i.png) [bad](javascript:alert(1))"
tasks:
  - {file: plain.csv, column: Plain, category: General}
  - {file: hostile.csv, column: Hostile, category: Odd}
faq:
  - {question: "Who <i>asks</i>?", answer: "**We** do."}
models:
  fake-random-1: {type: chat, licence: mit, params: 7}
  fake-random-2: {type: chat, licence: mit, params: 7, base: fake-random-1}
baselines:
  - {name: Human, source: "five people, 2026", scores: {Plain: 93.5, Hostile: 80}}
"""


@dataclass(frozen=True)
class Served:
    """A server and what it shows."""

    url: str
    store: str
    run_ids: tuple[str, ...]  # the latest first


def write_questions(folder: Path) -> None:
    """Write a plain task with categories, and one whose every text is hostile."""
    with (folder / "plain.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "A", "B", "C", "answer", "category"])
        rows.writerows([f"Which letter follows number {n}?", f"one {n}", f"two {n}", f"three {n}", "ABC"[n % 3],
                        ("odd", "even")[n % 2 == 0]] for n in range(N_PLAIN))  # fmt: skip
    with (folder / "hostile.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "A", "B", "answer"])
        texts = [text.replace("\x00", "") for text in CORPUS.values()]
        rows.writerows([text, f"yes {text}", "no", "AB"[n % 2]] for n, text in enumerate([*texts, "long " * 20_000]))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> Iterator[Served]:
    """Serve one board over a store with runs of two models, one of them under two prompt sets."""
    folder = tmp_path_factory.mktemp("web")
    write_questions(folder)
    (folder / "exam.yaml").write_text(BOARD)
    place = str(folder / "runs.sqlite")
    tasks = f"{folder}/plain.csv,{folder}/hostile.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        patch.setattr(sys, "argv", ["assaymark", "run"])  # the command that pages show, however pytest was started
        for words in (["seed=1"], ["seed=2"], ["seed=1", "--limit", "10"]):
            assert main(["run", "--model", "fake", "--model_args", *words, "--tasks", tasks, "--store", place]) == 0
    write_wide(folder)
    runs = StoredRuns(Store.open_to_read(place))
    app = create_app([board_feature(Site([read_board(folder / "exam.yaml"), read_board(folder / "wide.yaml")], runs))])
    with running(app) as url:
        yield Served(url, place, tuple(run.run_id for run in runs.runs()))


def write_wide(folder: Path) -> None:
    """Write a board of a table with every type, many precisions, long names and 130 rows."""
    names = [
        f"{'an-organisation-with-a-long-name' if n % 3 else 'org'}/Model-{n}-Instruct-v0.{n % 7}" for n in range(130)
    ]
    types = [each.title for each in MODEL_TYPES]
    with (folder / "wide.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["model", "type", "precision", "params", "license", "merged", "moe", "flagged", "available", "A", "B"]
        )
        rows.writerows([name, types[n % 7], ("bf16", "fp16", "4bit", "8bit", "GPTQ")[n % 5], n / 2, "apache-2.0",
                        n % 2 == 0, n % 5 == 0, n % 50 == 0, n % 9 != 0, 90 - n / 2, 80 - n / 3]
                       for n, name in enumerate(names))  # fmt: skip
    (folder / "wide.yaml").write_text(
        "title: Wide\ntable: {file: wide.csv, columns: {A: A, B: B}, sizes: {A: 900, B: 400}}\n"
    )


class running:  # noqa: N801 - used as a function
    """Run an application behind uvicorn in a thread; gives its address."""

    def __init__(self, app: ASGIApp, limits: ServerLimits | None = None) -> None:
        self._socket = listen("127.0.0.1", 0)
        self._server = uvicorn.Server(configured(app, limits or ServerLimits()))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> str:
        """Start, and wait until it answers."""
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """Return a client of the server."""
    with httpx.Client(base_url=served.url, timeout=20) as response:
        yield response


AXE = Path(__file__).resolve().parents[1] / "node_modules" / "axe-core" / "axe.min.js"
FINDINGS = """is_dark => axe.run(is_dark ? {runOnly: ['color-contrast', 'link-in-text-block']}
    : {rules: {'target-size': {enabled: true}}}).then(r => r.violations
    .map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ').slice(0, 300)))"""


@pytest.fixture
def axe() -> Callable[[Any], list[str]]:
    """Return a function that gives axe-core's findings on a page in a light context with bypass_csp, or skip by name.

    Of its rules two depend on colours; these are tried in the dark too.
    """
    if not AXE.is_file():
        pytest.skip(f"no {AXE}; install it with: npm install --no-save axe-core")

    def findings(page: Any) -> list[str]:
        if not page.evaluate("'axe' in window"):
            page.add_script_tag(path=str(AXE))
        result: list[str] = page.evaluate(FINDINGS, False)
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")  # without a transition between the colours
        result += page.evaluate(FINDINGS, True)
        page.emulate_media(color_scheme="light")
        return result

    return findings


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start the system's Chromium, or skip."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if (program := find_browser()) is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        result = started.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield result
        result.close()
