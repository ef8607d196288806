"""Migrations from an empty database, and from any released revision with its content, to the current schema."""

import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, create_engine, inspect, select, text, update

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.trace_quality import QualityWindow, TraceQuality
from assaymark.errors import RunBusy, StoreError
from assaymark.records import Estimate
from assaymark.store import Store, migrate
from assaymark.store.feature_tables import feature_tables
from assaymark.store.packing import pack_json
from assaymark.store.schema import HEAD, VERSION_TABLE, attempts, checksum_of, metadata, runs, with_checksum
from tests.store import examples

FIRST_REVISION = Path(__file__).parent / "first_revision.sql"

NEXT_REVISION = '''"""A revision that the future may bring."""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{next}", "{head}", None, None


def upgrade() -> None:
    op.add_column("runs", sa.Column("note", sa.Text))
    {then}
'''
NEXT = f"{int(HEAD) + 1:04}"


@pytest.fixture
def postgres_store(postgres_url: str) -> str:
    """Return a database without tables, which migrations make here."""
    return postgres_url


def test_the_migrations_make_the_schema(store: Store) -> None:
    """The migrations create the schema of schema.py, on either database."""
    feature_tables()  # theirs are on the same metadata
    with store._database.reading() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True},
        )
        assert compare_metadata(context, metadata) == []


def contents(file: Path) -> dict[str, object]:
    """Return the statement of each table and index of a database, and the rows of each table."""
    with closing(sqlite3.connect(file)) as connection:
        made = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            **made,
            **{f"rows of {name}": connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables},
        }


def test_a_new_store_is_what_the_migrations_make(tmp_path: Path) -> None:
    """A new SQLite store has what all migrations create; tools/write_new_store.py writes its statements."""
    Store.open(str(tmp_path / "new.sqlite")).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'migrated.sqlite'}")
    with engine.begin() as connection:
        migrate.migrate(connection)
    engine.dispose()
    assert contents(tmp_path / "new.sqlite") == contents(tmp_path / "migrated.sqlite")


def heads() -> list[str]:
    """Return the revisions that no other script follows."""
    return list(ScriptDirectory.from_config(migrate._configuration()).get_heads())


def test_there_is_one_head() -> None:
    """Two migrations that follow the same one, as two branches may add them, would be ambiguous to Alembic."""
    assert heads() == [HEAD]


def test_a_second_head_would_be_seen(next_revision: Path) -> None:
    """A script that follows an earlier revision than the last is a head of its own."""
    next_revision.write_text(NEXT_REVISION.format(then="pass", next=NEXT, head="0001"))
    assert sorted(heads()) == [HEAD, NEXT]


def test_the_head_in_the_schema_is_the_last_migration() -> None:
    """The version compared at opening is that of the newest script, and the numbers increase."""
    known = migrate.known_versions()
    assert known[-1] == HEAD
    assert known == sorted(set(known))


@pytest.fixture
def first_revision(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a store as the first revision wrote it (kept as SQL), on either database."""
    file = tmp_path / "store.sqlite"
    with sqlite3.connect(file) as connection:
        connection.executescript(FIRST_REVISION.read_text(encoding="utf-8"))
    connection.close()
    if url.startswith("postgresql"):
        with monkeypatch.context() as earlier:
            earlier.setattr(migrate, "TARGET", "0001")
            earlier.setattr(migrate, "HEAD", "0001")
            Store.open(url).close()
        copy_rows(str(file), url)
    return url


def engine_of(url: str) -> Engine:
    """Return SQLAlchemy's engine for a store's URL."""
    is_server = url.startswith("postgresql://")
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://") if is_server else f"sqlite:///{url}")


def copy_rows(source: str, target: str) -> None:
    """Copy the rows of all tables of one database to the tables of the same names of another."""
    there, here = engine_of(source), engine_of(target)
    tables = MetaData()
    tables.reflect(here)
    with there.connect() as old, here.begin() as new:
        for table in tables.sorted_tables:
            if table.name != VERSION_TABLE:
                rows = old.execute(select(table)).mappings().all()
                if rows:
                    new.execute(table.insert(), [dict(row) for row in rows])
    there.dispose()
    here.dispose()


def test_a_store_of_the_first_revision_is_read(first_revision: str) -> None:
    """A store of the first version opens, its hashes match, and its run is complete, on either database."""
    feature_tables()  # theirs are on the same metadata
    with Store.open(first_revision) as store:
        with store._database.reading() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert (migrate.version_of(connection), compare_metadata(context, metadata)) == (HEAD, [])
        assert store.verify() == []
        plan = examples.plan(("letters", "words"), n_samples=3)
        run = store.open_run(plan, facts={})
        assert (run.is_new, run.is_complete, run.n_attempts) == (False, True, 2)
        assert store.unanswered(run.run_id, examples.requests("words", 3)) == []
        assert [record.request for record in store.samples(run.run_id, "letters")] == examples.requests("letters", 3)
        result = store.outputs_of(run.run_id, ["words/2/0"])["words/2/0"]
        assert result == examples.outputs_for(examples.requests("words", 3)[2])


def test_a_run_that_the_first_revision_left_running_is_continued(first_revision: str) -> None:
    """A run from before there were leases has no holder: the next writer takes the first lease."""
    with Store.open(first_revision) as store, store.database.writing() as connection:
        for table, end in ((runs, "seal"), (attempts, "ended_at")):
            (row,) = connection.execute(select(table)).all()
            changed = with_checksum(table, {**row._asdict(), "status": "running", end: None})
            connection.execute(update(table).values(changed))
    with Store.open(first_revision) as store, Store.open(first_revision) as other:
        assert store.run("last").status == "interrupted"
        run = store.open_run(examples.plan(("letters", "words"), n_samples=3), facts={})
        assert store.run("last").status == "running"
        with pytest.raises(RunBusy):
            other.open_run(examples.plan(("letters", "words"), n_samples=3), facts={})
        store.close_run(run.run_id, run.attempt_id, "finished")


def test_a_server_of_the_first_revision_is_migrated(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL the migration from the first revision creates the current schema too."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "TARGET", "0001")
        earlier.setattr(migrate, "HEAD", "0001")
        with Store.open(postgres_url) as store, store._database.reading() as connection:
            assert migrate.version_of(connection) == "0001"
            assert not inspect(connection).has_table("run_leases")
    with Store.open(postgres_url) as store:
        with store._database.reading() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert (migrate.version_of(connection), compare_metadata(context, metadata)) == (HEAD, [])
        examples.fill(store, examples.plan())
        assert store.verify() == []


@pytest.fixture
def next_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add a revision after the current one; return its file, to be written."""
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    for source in (migrate.MIGRATIONS / "env.py", *(migrate.MIGRATIONS / "versions").glob("r0*.py")):
        target = folder / source.relative_to(migrate.MIGRATIONS)
        target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)
    monkeypatch.setattr(migrate, "HEAD", NEXT)
    return folder / "versions" / f"r{NEXT}_next.py"


def test_an_older_store_is_migrated_when_it_is_opened(
    url: str, next_revision: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening migrates an older schema, and every row stays valid."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "HEAD", HEAD)
        with Store.open(url) as store:
            run_id = examples.fill(store, examples.plan())
    next_revision.write_text(NEXT_REVISION.format(then="pass", next=NEXT, head=HEAD))
    with pytest.raises(StoreError, match=f"schema {HEAD} and this version needs {NEXT}; open it once for writing"):
        Store.open(url, read_only=True)
    with Store.open(url) as store:
        with store._database.reading() as connection:
            assert migrate.version_of(connection) == NEXT
        assert store.verify() == []
        assert len(list(store.scores(run_id))) == 16


def test_a_migration_that_fails_changes_nothing(url: str, next_revision: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that fails half-way leaves the store unchanged, so the earlier version still reads it."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "HEAD", HEAD)
        with Store.open(url) as store:
            examples.fill(store, examples.plan())
    next_revision.write_text(
        NEXT_REVISION.format(then='op.execute("UPDATE no_such_table SET x = 1")', next=NEXT, head=HEAD)
    )
    with pytest.raises(StoreError, match="no_such_table"):
        Store.open(url)
    monkeypatch.setattr(migrate, "HEAD", HEAD)
    with Store.open(url) as store:
        with store._database.reading() as connection:
            assert migrate.version_of(connection) == HEAD
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == []
        assert store.verify() == []


def add_earlier_estimates(url: str, contents: list[tuple[bytes, int]]) -> None:
    """Add estimates of run 1 as revisions before 0003 had them: packed content, and an offset of the checksum."""
    engine = engine_of(url)
    rows = []
    for position, (content, added) in enumerate(contents):
        checksum = checksum_of([b"run", b"position", b"content"], (1, position, content)) ^ added
        rows.append({"run": 1, "position": position, "content": content, "checksum": checksum})
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO estimates (run, position, content, checksum) VALUES (:run, :position, :content, :checksum)"
            ),
            rows,
        )
    engine.dispose()


def test_estimates_of_earlier_revisions_move_into_columns(first_revision: str) -> None:
    """Every field and detail of an estimate that was packed as JSON is read as before."""
    details: Any = {
        "kind": "group",
        "z": [1, None],
        "a": {"b": 2.5},
        "primary": True,
        "n_shots": 5,
        "unit": "proportion",
    }
    cells = [
        Estimate("all", "acc", "none", 1 / 3, 0.1, 0.6, "wilson", 8, 1, 2, 0.05, 0.25, confidence=0.9, details=details),
        Estimate("words", "ppl", "strict", None, None, None, "none", 0, higher_is_better=False),
    ]
    add_earlier_estimates(first_revision, [(pack_json(asdict(cell)), 0) for cell in cells])
    with Store.open(first_revision) as store:
        run_id = store.run("last").run_id
        assert store.estimates(run_id) == cells
        assert list(store.estimates(run_id)[0].details) == list(details)
        (result,) = store.estimates_of_runs([run_id])
        assert [(cell.task, cell.kind, cell.is_primary) for cell in result.estimates] == [
            ("all", "group", True),
            ("words", "task", False),
        ]
        assert store.verify() == []


def test_damage_is_not_repaired_by_a_migration(first_revision: str) -> None:
    """An estimate with a wrong checksum, or that cannot be read, is still damaged after the migration."""
    sound = pack_json(asdict(Estimate("words", "acc", "none", 0.5, 0.2, 0.8, "wilson", 3)))
    add_earlier_estimates(first_revision, [(sound, 0), (sound, 4), (b"\x01nothing that zlib made", 0), (b"\x00{}", 0)])
    with Store.open(first_revision) as store:
        problems = store.verify()
        assert {(problem.table, problem.row[-1]) for problem in problems} == {("estimates", place) for place in "123"}
        with pytest.raises(StoreError, match="verify"):
            store.estimates(store.run("last").run_id)


def test_a_run_with_a_damaged_plan_is_migrated_unchanged(first_revision: str) -> None:
    """A store with an unreadable plan opens; `verify` reports the plan."""
    engine = engine_of(first_revision)
    with engine.begin() as connection:
        connection.execute(text("UPDATE runs SET plan = :plan"), {"plan": b"\x00{"})
    engine.dispose()
    with Store.open(first_revision) as store:
        assert {problem.table for problem in store.verify()} == {"runs"}
        assert store.estimates_of_runs() == []


def test_old_rows_keep_their_checksums(first_revision: str) -> None:
    """The migration changes no row of runs, tasks, requests, outputs, scores and texts."""
    kept = ("texts", "runs", "attempts", "run_tasks", "requests", "outputs", "scorings", "scores")

    def old_columns(name: str) -> list[Any]:
        return [column for column in metadata.tables[name].columns if column.name not in {"visibility", "call"}]

    def rows() -> dict[str, list[str]]:
        engine = engine_of(first_revision)
        with engine.connect() as connection:
            results = {name: sorted(map(repr, connection.execute(select(*old_columns(name))))) for name in kept}
        engine.dispose()
        return results

    before = rows()
    Store.open(first_revision).close()
    assert rows() == before
    with Store.open(first_revision) as store:
        assert store.fill_facts() == 6
    assert rows() == before


def test_scores_of_traces_from_before_there_were_rules(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores that came as events say so after the migration, and are otherwise as they were."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "TARGET", "0007")
        earlier.setattr(migrate, "HEAD", "0007")
        Store.open(url).close()
    engine = engine_of(url)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO trace_projects (id, name, made) VALUES (1, 'bot', 0)"))
        row = {"digest": b"d" * 16, "trace": b"t" * 16, "value": 0.5}
        columns = "project, digest, trace_id, name, value, observed, received"
        connection.execute(
            text(f"INSERT INTO trace_scores ({columns}) VALUES (1, :digest, :trace, 'faithful', :value, 7, 8)"), row
        )
    engine.dispose()
    with Store.open(url) as store:
        (score,) = TraceLog(store).scores(1, b"t" * 16)
        assert (score.name, score.value, score.source, score.observed) == ("faithful", 0.5, "event", 7)
        assert (score.rate, score.stale, score.rater, score.correction) == (None, None, None, None)
        assert store.verify() == []


def test_scores_of_traces_are_found_by_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store from before there was an index of scores by time has it after the migration, with its scores."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "TARGET", "0011")
        earlier.setattr(migrate, "HEAD", "0011")
        Store.open(url).close()
    engine = engine_of(url)
    with engine.begin() as connection:
        assert "trace_scores_by_time" not in {each["name"] for each in inspect(connection).get_indexes("trace_scores")}
        connection.execute(text("INSERT INTO trace_projects (id, name, made) VALUES (1, 'bot', 0)"))
        columns = "project, digest, trace_id, name, value, observed, received, source"
        statement = text(
            f"INSERT INTO trace_scores ({columns}) VALUES (1, :digest, :trace, 'fair', 0.5, 7, 8, 'event')"
        )
        connection.execute(statement, {"digest": b"d" * 16, "trace": b"t" * 16})
    engine.dispose()
    with Store.open(url) as store:
        with store._database.reading() as connection:
            (index,) = [each for each in inspect(connection).get_indexes("trace_scores")
                        if each["name"] == "trace_scores_by_time"]  # fmt: skip
            assert index["column_names"] == ["project", "observed"]
        (cell,) = TraceQuality(store).scores(QualityWindow(1, 0, 10, 10, by_version=False))
        assert cell.sums is not None
        assert (cell.name, cell.sums.n, cell.sums.values) == ("fair", 1, 0.5)
        assert store.verify() == []
