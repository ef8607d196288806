"""A full disk gives one clear error, and what was stored stays."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from assaymark.errors import StoreError
from assaymark.store import Store
from assaymark.store.database_errors import explain
from tests.store import examples

ROOT = Path(__file__).parents[2]

FILLER = """
import resource, sys
from assaymark.errors import StoreError
from assaymark.store import Store
from tests.store import examples
path, limit = sys.argv[1], int(sys.argv[2])
store = Store.open(path)
run = store.open_run(examples.plan(n_samples=4000), facts={})
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    for start in range(0, 4000, 100):
        asked = examples.requests(n_samples=4000)[start:start + 100]
        store.add_requests(run.run_id, asked, examples.samples(n_samples=4000)[start:start + 100])
        for request in asked:
            store.add(run.run_id, 1, examples.outputs_for(request))
        store.flush()
        print(start + 100, flush=True)
    store.close()
except StoreError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def test_a_file_that_may_not_grow_keeps_what_it_has(path: Path) -> None:
    """If the operating system refuses to write, the run ends with a remedy and what was stored stays."""
    command = [sys.executable, "-c", FILLER, str(path), str(1_000_000)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "free some space and run the same command again" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    written = int(done.stdout.split()[-1])
    assert 0 < written < 4000
    with Store.open(str(path)) as store:
        assert store.verify() == []
        run_id = store.run("last").run_id
        assert store.run("last").n_outputs >= written * 4
        left = store.unanswered(run_id, examples.requests(n_samples=4000))
        assert len(left) <= 4000 - written
        assert {request.sample_index for request in left}.isdisjoint(range(written))


def test_once_there_is_space_the_same_store_continues(path: Path) -> None:
    """A batch that failed on a full disk is written by the same process once there is space."""
    with Store.open(str(path)) as store:
        run = store.open_run(examples.plan(n_samples=400), facts={})
        store.add_requests(run.run_id, examples.requests(n_samples=400))
        for request in examples.requests(n_samples=400):
            store.add(run.run_id, 1, examples.outputs_for(request))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        try:
            with pytest.raises(StoreError, match="free some space"):
                store.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        store.flush()
        assert store.run(run.run_id).n_outputs == 1600
        assert store.verify() == []


def test_sqlite_itself_says_full(path: Path) -> None:
    """SQLite's own limit gives the same message."""
    with Store.open(str(path)) as store:
        run = store.open_run(examples.plan(n_samples=400), facts={})
        with store._database._bare() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=r"disk \(or the quota\) is full.*free some space"):
            store.add_requests(run.run_id, examples.requests(n_samples=400))
        assert store.verify() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine")
def test_the_operating_system_says_full() -> None:
    """An ENOSPC outside of the database gives the same message."""
    with pytest.raises(OSError) as caught, Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")
    assert "free some space" in str(explain(caught.value, "here"))
