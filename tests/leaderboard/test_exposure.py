"""Planted advantages on the public rows of a sealed task raise an alarm; none, and the opposite, raise none."""

import csv
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.exposure import ModelExposure, exposures, sealed_views
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.records import ModelIdentity, Output, QueryKind, WorkEstimate
from assaymark.store import Store
from assaymark.store.public_store import public_store
from assaymark.web.app import create_app
from tests.served import running

N = 240


class Knower:
    """A model that knows the answer of a question with a probability that depends on the question alone."""

    answers = frozenset({QueryKind.LOGLIKELIHOOD})
    takes_messages = False

    def __init__(self, name: str, knows: Callable[[int], float]) -> None:
        self.identity = ModelIdentity(name, "knower", f"sha256:{name}", None, None, "float64", "float32")
        self._knows = knows

    def answer(self, requests: Any, *, cache: Any = None, observe: Any = None) -> Iterator[Output]:
        """Prefer the right choice, or the wrong one."""
        for request in requests:
            n = int(request.prompt.split("number ")[1].split("?")[0])
            draw = int(hashlib.sha256(f"{self.identity.name} {n}".encode()).hexdigest()[:8], 16) / 2**32
            right = n % 2 if draw < self._knows(n) else 1 - n % 2
            for query in request.queries:
                yield Output(
                    request.id, query.index, total_nats=-1.0 if query.index == right else -2.0, is_greedy=False
                )

    def estimate(self, requests: Any) -> WorkEstimate:
        """Say how much there is to do."""
        return WorkEstimate(len(requests), sum(len(request.queries) for request in requests), None, None)

    def render(self, messages: Any, *, continue_final: bool = False, tools: Any = None) -> str:
        """Refuse chats."""
        raise UsageError("no chat template")

    def stream(self, request: Any) -> Any:
        """Refuse to generate."""
        raise UsageError("no text")

    def split_tokens(self, context: str, continuation: str) -> None:
        """Know no tokens."""

    def describe(self) -> Mapping[str, str]:
        """Return nothing of note."""
        return {"device": "none"}

    def check(self) -> None:
        """Be there."""

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> tuple[str, str]:
    """Return a board and a store: honest models, one trained on the preview, and one that is worse there."""
    folder = tmp_path_factory.mktemp("exposure")
    with (folder / "law.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "A", "B", "answer"])
        rows.writerows([f"What of number {n}?", f"yes {n}", f"no {n}", "AB"[n % 2]] for n in range(N))
    (folder / "board.yaml").write_text("title: Law\ntasks: [{file: law.csv, column: Law}]\n")
    store = str(folder / "runs.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        # else the preview is another one in each run, and an honest model is better on it in a twentieth of them
        patch.setattr(secrets, "token_hex", lambda n_bytes=32: "5a" * n_bytes)
        seal = ["task", "seal", str(folder / "law.csv"), "--public_fraction", "0.3", "--valid_until", "2020-01-31"]
        assert main([*seal, "-o", str(folder), "--store", store]) == 0
        first = assaymark.evaluate(Knower("honest-0", lambda _: 0.6), str(folder / "law.csv"), store=store)
        with Store.open_to_read(store) as opened:
            public = public_store(opened).preview_of(first.id, "law")
        assert public is not None
        assert 0.2 * N < len(public) < 0.4 * N
        kinds = {
            "honest-1": lambda _: 0.6,
            "honest-2": lambda _: 0.75,
            "trained": lambda n: 0.97 if n in public else 0.6,
            "shy": lambda n: 0.3 if n in public else 0.9,
        }
        for name, knows in kinds.items():
            assaymark.evaluate(Knower(name, knows), str(folder / "law.csv"), store=store)
    return str(folder / "board.yaml"), store


def compared(board: tuple[str, str]) -> list[ModelExposure]:
    """Return the board's comparisons."""
    site = open_site((board[0],), board[1])
    return list(exposures(site.table(next(iter(site.boards.values()))), site.runs))


@pytest.mark.slow
def test_a_planted_advantage_raises_the_alarm_and_nothing_else_does(board: tuple[str, str]) -> None:
    """The model that knows the public rows is named; honest ones and one that is better on sealed rows are not."""
    rows = compared(board)
    assert len(rows) == 5
    assert [row.model for row in rows if row.is_alarm] == ["trained"]
    trained = rows[0]
    assert trained.parts.n_public + trained.parts.n_private == N
    assert trained.parts.low is not None
    assert 0.1 < trained.parts.low < trained.parts.difference
    assert all(row.p_adjusted >= row.parts.p for row in rows)


def test_the_command_says_so(board: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """It prints a table and one line for the alarm, and its exit code is 3."""
    assert main(["board", "exposure", board[0], "--store", board[1]]) == 3
    printed = capsys.readouterr().out
    assert "alarm: trained does better on the public rows of law" in printed


def test_the_boards_page_shows_it(board: tuple[str, str]) -> None:
    """The page and its JSON have the commitment, the passed date, the alarm and the parts, and no sealed question."""
    site = open_site((board[0],), board[1])
    (view,) = sealed_views(site.table(site.board("board")), site.runs)
    assert view.is_over
    with running(create_app([board_feature(site)])) as url:
        page, twin = httpx.get(f"{url}/board/board", timeout=20), httpx.get(f"{url}/board/board.json", timeout=20)
    assert view.commitment is not None
    assert view.commitment in page.text
    assert "its rows are due to be replaced" in page.text
    assert "alarm: trained" in page.text
    assert [row["model"] for row in twin.json()["exposures"] if row["alarm"]] == ["trained"]
    assert read_board(board[0]).private == frozenset()
