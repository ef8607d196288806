"""`assaymark serve` in a process of its own, and what it does beside showing pages."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from sqlalchemy import delete, func, select

from assaymark.cli.main import main
from assaymark.leaderboard.commands.serve import fill_facts_beside
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.store.schema import fact_sets, sample_facts

TASK = "question,A,B,answer\n" + "".join(f"question {n}?,yes,no,{'AB'[n % 2]}\n" for n in range(30))


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Return a store with one run whose facts of samples are missing, as in stores of earlier versions."""
    (tmp_path / "law.csv").write_text(TASK)
    place = str(tmp_path / "runs.sqlite")
    run = ["run", "--model", "fake", "--model_args", "seed=1", "--tasks", f"{tmp_path}/law.csv", "--store", place]
    assert main(run) == 0
    with Store.open(place) as store, store._database.writing() as connection:
        connection.execute(delete(sample_facts))
        connection.execute(delete(fact_sets))
    assert n_facts(place) == 0
    return place


def n_facts(place: str) -> int:
    """Return how many samples of a store have facts."""
    with Store.open_to_read(place) as store, store._database.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(sample_facts)).scalar_one())


@pytest.mark.slow
def test_the_server_stores_missing_facts_while_it_shows_pages(place: str) -> None:
    """A run without facts has them soon after the start, and its page is the same before and after."""
    with Store.open_to_read(place) as store:
        runs = StoredRuns(store)
        (run,) = runs.runs()
        before = runs.sample_page(run.row, "law", wrong_only=True)
    command = [sys.executable, "-m", "assaymark", "serve", "--port", "0", "--store", place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://\S+", process.stdout.readline())
            assert address is not None
            page = httpx.get(f"{address[0]}run/{run.run_id}/samples/law.json?wrong=1", timeout=30).json()
            assert page["n_matching"] == before.n_matching
            deadline = time.monotonic() + 30
            while n_facts(place) < 30 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert n_facts(place) == 30
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
    with Store.open_to_read(place) as store:
        assert StoredRuns(store).sample_page(run.row, "law", wrong_only=True) == before


def test_a_store_that_is_being_written_does_not_keep_pages_waiting(place: str) -> None:
    """Pages are read while the thread waits for another writer of the database."""
    with Store.open(place) as writer, Store.open_to_read(place) as store:
        with writer._database.writing():
            thread = fill_facts_beside(place)
            runs = StoredRuns(store)
            started = time.monotonic()
            assert runs.sample_page(runs.runs()[0].row, "law").n_total == 30
            assert time.monotonic() - started < 5
            assert thread.is_alive()
        thread.join(30)
    assert n_facts(place) == 30


def test_a_failure_to_store_facts_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that cannot be opened ends the thread, not the server."""
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"this is not a database" * 100)
    failed: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", failed.append)
        fill_facts_beside(str(broken)).join(30)
    output = capsys.readouterr().err.splitlines()
    assert failed == []
    assert len(output) == 1
    assert output[0].startswith("sample lists of older runs stay slow: ")


@pytest.mark.slow
def test_the_demo_ends_by_naming_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command has the store that was named, so that it shows these runs."""
    place = str(tmp_path / "demo.sqlite")
    assert main(["demo", "--quiet", "--store", place]) == 0
    assert f" serve --store {place} " in capsys.readouterr().out
