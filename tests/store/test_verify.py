"""`verify` finds a flipped byte in any stored value, a missing row, and a dangling reference."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.applications.live.tables import LIVE_TABLES
from assaymark.applications.traces.tables import TRACE_TABLES
from assaymark.applications.watch.tables import ALARM_TABLES
from assaymark.arena.tables import ARENA_TABLES
from assaymark.audit.stored import audit_plan
from assaymark.errors import AssaymarkError, HashMismatch
from assaymark.leaderboard.submission.tables import QUEUE_TABLES
from assaymark.records import Estimate, EstimateDetails, Output, Sample, content_hash
from assaymark.store import Store
from assaymark.store.packing import to_json
from assaymark.store.plan_json import plan_from_json
from assaymark.store.schema import checksum_of, metadata
from assaymark.store.sealed_tasks import SealedTask
from assaymark.swe.tables import SWE_TABLES
from tests.store import examples

# those of the arena are in test_arena_log, of software engineering in test_grading_log; the queue's change while it
# works and have no checksums
TABLES = [
    table
    for table in metadata.sorted_tables
    if table not in {*ALARM_TABLES, *ARENA_TABLES, *LIVE_TABLES, *QUEUE_TABLES, *SWE_TABLES, *TRACE_TABLES}
]


def _with_category(index: int) -> Sample:
    """Return a row with a category."""
    row = {**examples.sample("letters", index).row, "category": "sums"}
    return Sample("letters", index, row, content_hash(row))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which every column of every table has a value somewhere."""
    path: Path = tmp_path_factory.mktemp("sound") / "store.sqlite"
    with Store.open(str(path)) as store:
        odd = replace(examples.plan(("words",), n_samples=1), limit=0.5, apply_chat_template="tool_use")
        preset = {"name": "chatml", "template_hash": "sha256:0", "content": {}}
        odd = plan_from_json(to_json({**odd.content, "extra": [["prompting", "letter"], ["prompt_preset", preset]]}))
        odd = audit_plan(replace(odd, model=replace(odd.model, revision="main")), "contamination", {})
        store.close_run(store.open_run(odd, facts={}).run_id, 1, "incomplete")
        examples.fill(store, examples.plan(("words",), n_samples=2), content="b")
        store.seals.put(SealedTask("words", "sha256:0"))
        store.seals.learn_rows("sha256:0", [examples.sample("words", 0)])
        run = store.open_run(examples.plan(n_samples=3), facts={"torch": "2.13"}, command="assaymark run")
        asked = examples.mixed_requests()
        rows = [examples.sample("letters", 0), *(_with_category(index) for index in (1, 2))]
        asked = [replace(entry, sample_sha256=row.sha256) for entry, row in zip(asked, rows, strict=True)]
        store.add_requests(run.run_id, asked, rows)
        answers = [output for request in asked for output in examples.outputs_for(request)]
        answers[0] = replace(
            answers[0], reasoning="I think", tool_calls="[]", finish_reason="stop", call='{"latency": 0.5}'
        )
        answers[-1] = Output(asked[2].id, 2, error="too long: cut it", error_kind="PromptTooLong", n_cut_tokens=3)
        store.add(run.run_id, 1, answers)
        for request in asked:
            scores = examples.scores_for(request)
            store.add_scores(run.run_id, [replace(score, parts=(-1.5, 2)) for score in scores], examples.SCORING)
        details: EstimateDetails = {"kind": "task", "primary": True, "unit": "proportion", "n_shots": 2}
        estimate = Estimate("letters", "acc", "none", 0.5, 0.2, 0.8, "wilson", 3, stderr=0.1, chance=0.25)
        store.save_estimates(run.run_id, [replace(estimate, details=details)], {"composite": 0.4})
        store.close_run(run.run_id, 1, "finished", {"n": 3})
        store.index_samples(run.run_id)
        assert store.verify() == []
    return path


@pytest.fixture
def damaged(sound: Path, tmp_path: Path) -> Path:
    """Return a copy of the intact store, to be damaged."""
    return Path(shutil.copy(sound, tmp_path / "damaged.sqlite"))


def flipped(value: Any, which: int) -> Any:
    """Return the value, of the same type, with one bit of one of its bytes flipped."""
    if isinstance(value, int):
        return value ^ (1 << (which % 8))
    if isinstance(value, float):
        return -value if value else 1.0
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    if not raw:
        return b"\x01"
    raw[which % len(raw)] ^= 1 << (which % 7)
    return raw.decode() if isinstance(value, str) else bytes(raw)


def rows_of(connection: sqlite3.Connection, table: str, column: str) -> list[tuple[Any, ...]]:
    """Return primary key and value of each row where a column has a value."""
    keys = [key.name for key in metadata.tables[table].primary_key.columns]
    names = ", ".join(f'"{name}"' for name in [*keys, column])
    return connection.execute(f'SELECT {names} FROM {table} WHERE "{column}" IS NOT NULL').fetchall()


def change(connection: sqlite3.Connection, table: str, column: str, key: tuple[Any, ...], value: Any) -> None:
    """Replace a value."""
    keys = [name.name for name in metadata.tables[table].primary_key.columns]
    where = " AND ".join(f'"{name}" = ?' for name in keys)
    connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', (value, *key))


def problems_of(path: Path) -> list[str]:
    """Return the problems of a store as text; an error at opening is one too."""
    try:
        with Store.open(str(path)) as store:
            return problems_in(store)
    except AssaymarkError as error:
        return [str(error)]


def problems_in(store: Store) -> list[str]:
    """Return the problems of an open store as text; an error is one too."""
    try:
        return [str(problem) for problem in store.verify()]
    except AssaymarkError as error:
        return [str(error)]


@pytest.mark.parametrize(
    "table",
    [pytest.param(each.name, marks=() if each.name in {"outputs", "texts"} else pytest.mark.slow) for each in TABLES],
)
def test_a_flipped_byte_is_found(damaged: Path, table: str) -> None:
    """A changed byte is found at any position of any column of any table."""
    keys = [key.name for key in metadata.tables[table].primary_key.columns]
    names = [column.name for column in metadata.tables[table].columns]
    with closing(sqlite3.connect(damaged)) as connection, Store.open(str(damaged)) as store:
        for column in names:
            if column == "visibility":  # which is NULL for a public run
                continue
            random_bytes = random.Random(f"{table}.{column}")
            rows = rows_of(connection, table, column)
            assert rows, f"no row of the example has a value in {column}"
            *key, value = random_bytes.choice(rows)
            for which in random_bytes.sample(range(400), 8):
                with suppress(sqlite3.IntegrityError), connection:  # a key that another row has cannot be stored at all
                    other = flipped(value, which)
                    change(connection, table, column, tuple(key), other)
                    break
            else:
                pytest.fail("no change could be stored")
            assert problems_in(store), f"{table}.{column} of {key}: {value!r} -> {other!r}"
            with connection:
                now = [other if name == column else each for name, each in zip(keys, key, strict=True)]
                change(connection, table, column, tuple(now), value)
        assert problems_in(store) == []


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_a_missing_row_is_found(damaged: Path, table: str) -> None:
    """Any missing row of a finished run is found (except estimates, which are derived and replaced together)."""
    if table in {"estimates", "run_leases", "fact_sets", "search_sets"}:
        pytest.skip("what is derived can be derived again, and a run that nobody writes needs no lease")
    if table in {"sealed_tasks", "sealed_rows", "sealed_copies"}:
        pytest.skip("a seal belongs to no run, and whoever may write the store may remove it")
    keys = [key.name for key in metadata.tables[table].primary_key.columns]
    with closing(sqlite3.connect(damaged)) as connection, connection:
        (first, *_) = connection.execute(f"SELECT {', '.join(keys)} FROM {table} ORDER BY 1 DESC").fetchall()
        where = " AND ".join(f'"{name}" = ?' for name in keys)
        connection.execute(f"DELETE FROM {table} WHERE {where}", first)
    assert problems_of(damaged)


def content_of(path: Path) -> list[str] | None:
    """Return everything that SQL can read of a file, None if it cannot be read."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.text_factory = bytes
            tables = sorted({*metadata.tables, "assaymark_schema"})
            return [
                repr(row) for table in tables for row in sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)
            ]
    except (sqlite3.Error, OverflowError, UnicodeDecodeError):  # the last: the name of a column
        return None


VALUES = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="ascii"))
    | st.binary()
)


@given(st.lists(VALUES, min_size=1, max_size=8), st.data())
def test_a_rows_checksum_follows_from_every_bit_and_place(values: list[Any], data: st.DataObject) -> None:
    """A flipped bit of any value, a value that is missing and two that changed places have another checksum."""
    names = [f"column {at}".encode() for at in range(len(values))]
    checksum = checksum_of(names, values)
    at = data.draw(st.integers(0, len(values) - 1))
    for other in (
        None,
        *((flipped(values[at], which) for which in range(0, 400, 7)) if values[at] is not None else ()),
    ):
        if other != values[at]:
            assert checksum_of(names, [*values[:at], other, *values[at + 1 :]]) != checksum
    turned = [*values[1:], values[0]]
    assert turned == values or checksum_of(names, turned) != checksum


def test_any_byte_of_the_file_may_be_damaged(damaged: Path) -> None:
    """For any changed byte of the file: if anything reads differently afterwards, verify reports it."""
    whole = damaged.read_bytes()
    before = content_of(damaged)
    assert before is not None
    places = random.Random(20260101)
    n_seen = 0
    for _ in range(400):  # most of a small file's bytes hold nothing
        place, bit = places.randrange(100, len(whole)), places.randrange(8)
        raw = bytearray(whole)
        raw[place] ^= 1 << bit
        damaged.write_bytes(raw)
        if content_of(damaged) != before:
            n_seen += 1
            assert problems_of(damaged), f"byte {place}, bit {bit}"
    assert n_seen > 10


def test_a_damaged_text_is_named_once_with_its_users(damaged: Path) -> None:
    """A shot that many requests share is one problem and not one per request."""
    with closing(sqlite3.connect(damaged)) as connection, connection:
        rows = connection.execute("SELECT id, content FROM texts").fetchall()
        number, content = next(row for row in rows if b"words: answer with a letter" in row[1])
        connection.execute("UPDATE texts SET content = ? WHERE id = ?", (content.replace(b"letter", b"lettre"), number))
    (problem,) = problems_of(damaged)
    assert problem.startswith(f"texts {number} (used by 2 requests, words/0/0, words/1/0): its SHA-256 is")


def test_one_run_can_be_verified_alone(damaged: Path) -> None:
    """Damage to one run is not a problem of another."""
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute("UPDATE outputs SET n_tokens = 99 WHERE attempt = 1 AND request = 1")
    with Store.open(str(damaged)) as store:
        latest, first = store.runs()
        assert store.verify(latest.run_id) == []
        assert {problem.table for problem in store.verify(first.run_id)} == {"outputs"}


def test_damage_is_found_on_postgresql_too(postgres_url: str) -> None:
    """The same checks find changed values on a server."""
    from sqlalchemy import text

    with Store.open(postgres_url) as store:
        run_id = examples.fill(store, examples.plan())
        assert store.verify() == []
        assert store.verify(run_id) == []
        for statement in (
            "UPDATE outputs SET total_nats = total_nats + 1e-9 WHERE ask_index = 1",
            "UPDATE texts SET content = set_byte(content, 3, 65) WHERE id = 1",
            "UPDATE requests SET sample_index = 77 WHERE sample_index = 7",
        ):
            with store._database.writing() as connection:
                connection.execute(text(statement))
        assert {problem.table for problem in store.verify()} == {"outputs", "texts", "requests"}


def test_a_damaged_value_is_an_error_where_it_is_read(damaged: Path) -> None:
    """Reading a damaged value raises an AssaymarkError with a remedy."""
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute("UPDATE runs SET plan = x'007b' WHERE id = 1")
    with Store.open(str(damaged)) as store, pytest.raises(AssaymarkError, match="verify"):
        store.runs()


def test_an_estimate_is_compared_with_its_checksum_where_it_is_read(damaged: Path) -> None:
    """A changed number is an error and not a result, and so is a gap among the estimates."""
    with Store.open(str(damaged)) as store:
        run_id = next(row.run_id for row in store.runs() if store.estimates(row.run_id))
        (estimate,) = store.estimates(run_id)
        store.save_estimates(run_id, [replace(estimate, metric=name) for name in ("a", "b", "c")])
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute("DELETE FROM estimates WHERE metric = 'b'")
    assert any("the estimate before it is missing" in line for line in problems_of(damaged))
    with Store.open(str(damaged)) as store:
        with pytest.raises(HashMismatch, match=r"an estimate of run .* is missing; see `assaymark verify"):
            store.estimates(run_id)
        store.save_estimates(run_id, [estimate])
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute("UPDATE estimates SET value = 0.99")
    with (
        Store.open(str(damaged)) as store,
        pytest.raises(HashMismatch, match=r"letters, acc .* is not as it was saved"),
    ):
        store.estimates(run_id)


READERS: dict[str, Callable[[Store, str], object]] = {
    "runs": lambda store, run: store.estimates(run),
    "attempts": lambda store, run: store.attempts(run),
    "run_tasks": lambda store, run: store.sample_hashes(run, "letters"),
    "requests": lambda store, run: list(store.samples(run, "letters")),
    "outputs": lambda store, run: list(store.samples(run, "letters")),
    "scorings": lambda store, run: store.score_names(run, "letters"),
    "scores": lambda store, run: list(store.scores(run, "letters")),
    "texts": lambda store, run: list(store.samples(run, "letters")),
    "sample_facts": lambda store, run: store.sample_list(run),
    "fact_sets": lambda store, run: store.sample_list(run),
}
CHANGES = {
    "runs": "status = 'failed'",
    "attempts": "host = 'elsewhere'",
    "run_tasks": "position = position + 7",
    "requests": "n_outputs = n_outputs + 1",
    "outputs": "n_tokens = n_tokens + 1",
    "scorings": "sequence = sequence + 1",
    "scores": "value = 0.99",
    "texts": "sha256 = CAST(substr(sha256, 1, 31) || x'00' AS BLOB)",
    "sample_facts": "is_wrong = 1 - is_wrong",
    "fact_sets": "filter = 'another'",
}


@pytest.mark.parametrize("table", READERS)
def test_a_changed_value_is_an_error_and_not_shown(damaged: Path, table: str) -> None:
    """What is read to be shown is compared with its checksum, or a text with its hash; other runs are still read."""
    with Store.open(str(damaged)) as store:
        run_id = next(row.run_id for row in store.runs() if store.estimates(row.run_id))
        READERS[table](store, run_id)
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {CHANGES[table]}")
    with Store.open(str(damaged)) as store:
        with pytest.raises(HashMismatch, match=r"is not as it was saved|cannot be read"):
            READERS[table](store, run_id)
        assert {row.status == "damaged" for row in store.runs()} == {table == "runs"}
