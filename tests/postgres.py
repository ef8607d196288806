"""A temporary PostgreSQL server for the whole session, if one can be started."""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assaymark.store import Store

DEBIAN = Path("/usr/lib/postgresql")


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs, or skip."""
    result = shutil.which("initdb")
    if result:
        return Path(result).resolve().parent
    folders = sorted(DEBIAN.glob("*/bin/initdb")) if DEBIAN.is_dir() else []
    if not folders:
        pytest.skip("no initdb: PostgreSQL is not installed on this machine")
    return folders[-1].parent


def _as_user() -> list[str]:
    """Return the beginning of a command that does not run as root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return []
    if (
        shutil.which("runuser") is None
        or subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode
    ):
        pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' to run it as")
    return ["runuser", "-u", "postgres", "--"]


@contextmanager
def running_postgres(*, fsync: bool) -> Iterator[str]:
    """Start a server in a temporary folder, reached through a socket there; give the folder. Skips where it cannot."""
    pytest.importorskip("psycopg")
    programs, prefix = _programs(), _as_user()
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if prefix:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    initdb = [*prefix, str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    made = subprocess.run([*initdb, "--no-sync"], capture_output=True, text=True, cwd=folder, check=False)
    if made.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"initdb failed: {made.stderr.strip()[-200:]}")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync={'on' if fsync else 'off'}"
    control = [*prefix, str(programs / "pg_ctl"), "-D", str(data), "-w"]
    log = ["-l", str(folder / "log")]
    subprocess.run([*control, *log, "-o", options, "start"], check=True, capture_output=True, cwd=folder)
    try:
        yield str(folder)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], capture_output=True, cwd=folder, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def empty_database(folder: str, template: str = "template1") -> str:
    """Return the URL of an empty database of the server in a folder, or of a copy of another one."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(host=folder, user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
    return f"postgresql://postgres@/{name}?host={folder}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start a server that need not survive a loss of power; return its folder."""
    with running_postgres(fsync=False) as folder:
        yield folder


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """Return the URL of an empty database."""
    return empty_database(postgres_server)


@pytest.fixture(scope="session")
def postgres_tables(postgres_server: str) -> str:
    """Return the name of a database with a store's empty tables: making them takes a third of a second."""
    url = empty_database(postgres_server)
    Store.open(url).close()
    return url.removeprefix("postgresql://postgres@/").partition("?")[0]


@pytest.fixture
def postgres_store(postgres_server: str, postgres_tables: str) -> str:
    """Return the URL of a store without a row."""
    return empty_database(postgres_server, postgres_tables)
