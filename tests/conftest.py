"""Fixtures every part may use: where outside data lies, and a home of its own for each test."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings

from assaymark.store import Store
from assaymark.store.connection import Database
from tests.applications.oracles.locked import mark_oracle_test

# a busy machine is no fault of a strategy or of the code
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job has Ctrl-C ignored, and every process that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# a server of boards with its client and a browser, and a PostgreSQL server
pytest_plugins = ["tests.served", "tests.postgres"]

ROOT = Path(__file__).resolve().parents[1]
CREATE_FILE = Database._prepare_file

gc.disable()  # until all modules are imported, which leaves nothing to collect


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the modules and the 9,000 tests, half a second each time otherwise.

    It runs at each 20,000 new objects instead of 700, which takes a tenth less time of all tests.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that another tool's own code answers."""
    mark_oracle_test(item)


@pytest.fixture(scope="session", autouse=True)
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder for the whole session and all its workers: lm-eval's 14,000 task files are indexed once.

    It is the one of whatever does not set another, fixtures of modules and sessions included.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    os.environ["ASSAYMARK_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def warm() -> Iterator[list[str]]:
    """Return the words that run `assaymark` or `python` and the words after it without their imports."""
    from tools.warm_commands import warm_commands  # which is Linux's

    with warm_commands() as words:
        yield words


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let clients load one certificate instead of 140, which takes 30 ms each time: no test leaves this machine."""
    end = "-----END CERTIFICATE-----\n"
    file = tmp_path_factory.mktemp("authorities") / "one.pem"
    file.write_text(certifi.contents().partition(end)[0] + end)
    os.environ["SSL_CERT_FILE"] = str(file)


@pytest.fixture(scope="session", autouse=True)
def copied_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let each new store begin as a copy of an empty one: 150 statements for each take a twentieth of all tests.

    The tests of the store itself, and the processes that tests start, create theirs by these statements.
    """
    folder = tmp_path_factory.mktemp("stores")
    empty, copies = folder / "empty.sqlite", count()
    Store.open(str(empty)).close()

    def prepare_copy(database: Database, path: Path) -> None:
        if not database.read_only and path.parent.is_dir() and not path.exists():
            copy = shutil.copyfile(empty, folder / str(next(copies)))
            with suppress(OSError):  # another thread was first, or it is another file system
                os.link(copy, path)
            copy.unlink()
        CREATE_FILE(database, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_prepare_file", prepare_copy)
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return paths in one folder: a `tmp_path` for each test takes pytest a search among all before it."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(n) for n in count())


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an ASSAYMARK_HOME that does not exist, so that no test sees another's store or the user's."""
    home = next(homes)
    monkeypatch.setenv("ASSAYMARK_HOME", str(home))
    monkeypatch.delenv("ASSAYMARK_STORE", raising=False)
    monkeypatch.delenv("ASSAYMARK_DATA", raising=False)
    return home


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder with real data and models beside the repository, or skip."""
    path = ROOT.parent / "shared"
    if not (path / "data").is_dir():
        pytest.skip(f"no {path}/data: real benchmark data is not part of the repository")
    return path
