"""Opening a store: fast if it is current, created if there is none, and one clear error if it cannot be opened."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from assaymark import settings
from assaymark.errors import MissingExtra, SchemaTooNew, StoreError
from assaymark.store import Store
from assaymark.store.connection import NETWORK_FILE_SYSTEMS, file_system_of
from assaymark.store.database_errors import is_locked
from tests.store import examples


def test_a_store_is_created_with_its_folders(tmp_path: Path) -> None:
    """The first opening creates folders and tables."""
    path = tmp_path / "a" / "b" / "store.sqlite"
    with Store.open(str(path)) as store:
        assert store.runs() == []
        assert store.notices == ()
    assert path.is_file()


def test_the_default_store_is_in_the_home_folder(own_home: Path) -> None:
    """Without a URL the store is that of the settings."""
    assert not Store.exists()
    with Store.open() as store:
        assert store.url == f"sqlite:///{settings.store_location()}"
    assert (own_home / "store.sqlite").is_file()
    assert Store.exists()


def test_it_is_in_wal_mode(file_store: Store, path: Path) -> None:
    """Readers do not wait for the writer, and freed pages can be returned."""
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    connection.close()


def test_opening_a_current_store_imports_no_alembic(path: Path) -> None:
    """Alembic is loaded for a migration only, and closing leaves one file."""
    Store.open(str(path)).close()
    program = (
        "import sys; from assaymark.store import Store; s = Store.open(sys.argv[1]); s.runs(); s.close();"
        "print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith("store")] == ["store.sqlite"]


def test_importing_the_store_imports_no_sqlalchemy() -> None:
    """The names of the package are imported at their first use."""
    program = "import sys, assaymark.store; print('sqlalchemy' in sys.modules, hasattr(assaymark.store, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_read_only_creates_nothing(path: Path) -> None:
    """A missing store is not created read-only, and an existing one cannot be written."""
    with pytest.raises(StoreError, match=r"no store at .* first `assaymark run`"):
        Store.open(str(path), read_only=True)
    assert not path.exists()
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan())
    with Store.open(str(path), read_only=True) as store:
        assert store.run("last").run_id == run_id
        assert len(list(store.scores(run_id))) == 16
        assert store.verify() == []
        with pytest.raises(StoreError, match="is read-only"):
            store.open_run(examples.plan(), facts={})


def test_a_store_in_a_read_only_folder_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's store can be read although SQLite cannot create its files beside it."""
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan())
    monkeypatch.setattr("assaymark.store.connection.can_create_in", lambda _: False)
    before = sorted(path.parent.iterdir())
    with Store.open(str(path), read_only=True) as store:
        assert len(list(store.samples(run_id, "letters"))) == 8
        assert sorted(path.parent.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    """A store in a read-only folder is refused with the path and a remedy."""
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="permissions"):
        Store.open(str(tmp_path / "store.sqlite"))


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    """The error for a folder that cannot be created has its path and a remedy."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"file.*name another store"):
        Store.open(str(tmp_path / "file" / "store.sqlite"))


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    """A folder instead of a file is refused with an example of a file."""
    with pytest.raises(StoreError, match=r"is a folder; expected a file such as .*store\.sqlite"):
        Store.open(str(tmp_path))
    with pytest.raises(StoreError, match="is a folder"):  # what lists runs asks whether there is a store
        Store.exists(str(tmp_path))


def test_a_file_of_another_kind_is_refused_and_left_alone(path: Path) -> None:
    """A file that is not a database is not changed."""
    path.write_text("These are my notes, and they are longer than a database header: " * 20)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"not a SQLite database.*name another"):
        Store.open(str(path))
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    """A database with other tables gets none of ours."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cookies (id INTEGER)")
    connection.close()
    with pytest.raises(StoreError, match="tables of another program \\(cookies\\)"):
        Store.open(str(path))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("cookies",)]
    connection.close()


def test_other_tables_may_share_a_postgresql_database(postgres_url: str) -> None:
    """A server's database may have other tables, but not with our names."""
    import psycopg

    plain = postgres_url
    with psycopg.connect(plain) as connection:
        connection.execute("CREATE TABLE cookies (id INTEGER)")
    Store.open(postgres_url).close()
    assert Store.exists(postgres_url)
    with psycopg.connect(plain) as connection:
        connection.execute("DROP TABLE assaymark_schema")
    with pytest.raises(StoreError, match="tables of another program"):
        Store.open(postgres_url)


def test_a_truncated_store_is_reported_as_damaged(path: Path) -> None:
    """A file that lost its end is reported, not read as if it were complete."""
    with Store.open(str(path)) as store:
        examples.fill(store, examples.plan())
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StoreError, match="damaged"), Store.open(str(path)) as store:
        store.runs()


def test_a_later_schema_is_refused(url: str) -> None:
    """The error for a store of a later version has the version and a remedy."""
    from sqlalchemy import text

    with Store.open(url) as store, store._database.writing() as connection:
        connection.execute(text("UPDATE assaymark_schema SET version_num = '9999'"))
    for read_only in (False, True):
        with pytest.raises(SchemaTooNew, match=r"schema 9999.*upgrade assaymark"):
            Store.open(url, read_only=read_only)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mysql://localhost/runs", "not a kind of store"),
        ("nonsense://somewhere", "not a kind of store"),
        ("postgresql://host:port/runs", "is not a store"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, message: str) -> None:
    """A URL that is not a store is refused with an example of one."""
    with pytest.raises(StoreError, match=f"{message}.*expected"):
        Store.open(url)


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    """An unreachable server is a StoreError that shows no secret."""
    pytest.importorskip("psycopg")
    url = f"postgresql://user:secret@/runs?host={tmp_path}"
    for look in (Store.exists, Store.open):  # a server that is away is not a server without a store
        with pytest.raises(StoreError, match="check that the database is running") as caught:
            look(url)
        assert "secret" not in str(caught.value)


COMMANDS = (
    ["ls", "runs"], ["ls", "audits"], ["show", "abc"], ["verify"], ["rm", "abc"], ["compare", "abc", "abd"],
    ["export", "abc", "--output", "x.json"], ["report", "abc", "--output", "x.html"], ["rescore", "abc"],
    ["diff-prompts", "abc", "abd"], ["doctor"],
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_password_or_calls_an_unreachable_store_empty(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A refused connection is one line with exit code 4, wherever the store is named."""
    from assaymark.cli.main import main

    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAYMARK_STORE", "postgresql://u:secretpw@127.0.0.1:1/x")
    status = main(command)
    output = "".join(capsys.readouterr())
    assert "secretpw" not in output
    if command != ["doctor"]:
        assert status == 4, output
        assert "u:***@127.0.0.1:1/x" in output
        assert "check that the database is running" in output


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("postgresql://u:p@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u:p/q@r@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u@h/x?password=p&a=b", "postgresql://u@h/x?password=***&a=b"),
        ("postgresql://h:5432/x", "postgresql://h:5432/x"),
        ("/home/me:x@y/store.sqlite", "/home/me:x@y/store.sqlite"),
    ],
)
def test_passwords_are_masked(location: str, shown: str) -> None:
    """What stands for a password in a URL is hidden, with signs that should have been escaped; paths stay."""
    from assaymark.settings import without_password

    assert without_password(location) == shown


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg, the error for a PostgreSQL URL has the command that installs it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"\.\[postgres\]"):
        Store.open("postgresql://localhost/runs")


def test_file_systems_are_distinguished(tmp_path: Path) -> None:
    """The file system of a path is that of the longest mount point above it, the latest of equal ones."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n/dev/vdb /home/me/fast\\040disk xfs rw 0 0\n"
        "tmpfs /mnt tmpfs rw 0 0\nserver:/x /mnt fuse.sshfs rw 0 0\nshort line\n"
    )
    results = {
        name: file_system_of(Path(name), str(mounts))
        for name in ("/home/me/assaymark", "/home/me/fast disk/assaymark", "/homes", "/mnt/a", "/var")
    }
    assert results == {
        "/home/me/assaymark": "nfs4",
        "/home/me/fast disk/assaymark": "xfs",
        "/homes": "ext4",
        "/mnt/a": "fuse.sshfs",
        "/var": "ext4",
    }
    assert {"nfs4", "fuse.sshfs"} < NETWORK_FILE_SYSTEMS
    assert file_system_of(Path("/home"), str(tmp_path / "nothing")) is None


def test_on_a_network_file_system_there_is_no_wal_and_a_notice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a network file system the older journal is used, with a notice, and everything still works."""
    monkeypatch.setattr("assaymark.store.connection.file_system_of", lambda _: "nfs4")
    with Store.open(str(path)) as store:
        (notice,) = store.notices
        run_id = examples.fill(store, examples.plan())
        for record in store.samples(run_id, "letters"):  # a reader half-way keeps nobody from writing
            store.add_scores(run_id, examples.scores_for(record.request), examples.OTHER_SCORING)
            store.flush()
        assert store.verify() == []
    assert "network file system (nfs4)" in notice
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_closing_twice_is_allowed(path: Path) -> None:
    """A store may be closed more than once."""
    store = Store.open(str(path))
    store.close()
    store.close()


def test_a_lock_is_known_by_its_code_and_not_by_its_message(path: Path) -> None:
    """Another connection's lock is recognised in any language; other errors are not locks."""
    Store.open(str(path)).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError) as locked:
        other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as no_table:
        holder.execute("SELECT * FROM locked")
    for connection in (holder, other):
        connection.close()
    locked.value.args = ("la base de données est verrouillée",)
    assert is_locked(locked.value)
    assert is_locked(OperationalError("BEGIN", {}, locked.value))
    assert not is_locked(no_table.value)
    assert not is_locked(OSError("database is locked"))


def test_a_home_that_may_not_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user who runs with another one's HOME: what, where and the remedy."""

    def refuse(path: Path, *, follow_symlinks: bool = True) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(StoreError, match=r"Permission denied: .*store\.sqlite.*; check the path and its permissions"):
        Store.exists(str(tmp_path / "store.sqlite"))
    monkeypatch.delenv("ASSAYMARK_HOME", raising=False)
    monkeypatch.delenv("ASSAYMARK_STORE", raising=False)
    assert settings.store_location().endswith("store.sqlite")
