"""The cache across runs: an output is found by its cache key, in any run."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import event, text

from assaymark.models.model import OutputCache
from assaymark.records import Output, Request
from assaymark.store import Store
from tests.store import examples


def keys_of(requests: Sequence[Request]) -> list[str]:
    """Return the cache keys of these requests' outputs."""
    return [output.cache_key or "" for request in requests for output in examples.outputs_for(request)]


def test_the_store_is_an_output_cache(store: Store) -> None:
    """A model accepts the store as its cache."""
    cache: OutputCache = store
    assert cache.find([]) == {}


def test_known_keys_are_found_in_any_run(store: Store) -> None:
    """Outputs of every run are found by key; unknown keys are omitted."""
    examples.fill(store, examples.plan())
    examples.fill(store, examples.plan(("words",)))
    wanted = keys_of([examples.requests()[0], examples.requests("words")[7]])
    result = store.find([*wanted, "sha256:" + "00" * 32, "another kind of key"])
    assert list(result) == sorted(wanted, key=list(result).index)
    assert set(result) == set(wanted)
    expected = examples.outputs_for(examples.requests()[0])[2]
    assert result[wanted[2]] == replace(expected, from_cache=True)


def test_many_keys_are_found_at_once(store: Store) -> None:
    """More keys than one query accepts are found too."""
    run_id = examples.fill(store, examples.plan(n_samples=300), finish=False)
    wanted = keys_of(examples.requests(n_samples=300))
    assert len(wanted) == 1200
    assert store.find(wanted).keys() == set(wanted)
    assert store.find(wanted[:1])[wanted[0]].request_id == "letters/0/0"
    assert len(store.outputs_of(run_id, [request.id for request in examples.requests(n_samples=300)])) == 300


def test_errors_are_never_found(store: Store) -> None:
    """A failure is not in the cache, not even a permanent one."""
    run = store.open_run(examples.plan(), facts={})
    store.add_requests(run.run_id, examples.requests())
    failed = Output("letters/0/0", 0, error="too long", error_kind="PromptTooLong", cache_key="key")
    store.add(run.run_id, 1, [failed])
    assert store.find(["key"]) == {}


def test_collected_outputs_are_found(store: Store) -> None:
    """An output can be reused before its batch is written."""
    run = store.open_run(examples.plan(), facts={})
    store.add_requests(run.run_id, examples.requests())
    store.add(run.run_id, 1, [Output("letters/0/0", 0, total_nats=-1.0, cache_key="key")])
    assert store.find(["key"])["key"].total_nats == -1.0


def test_the_output_stored_first_is_found(store: Store) -> None:
    """If two runs have an output for the same key, the same one is always found."""
    for content, nats in (("a", -1.0), ("b", -2.0)):
        run = store.open_run(examples.plan(content=content), facts={})
        store.add_requests(run.run_id, examples.requests())
        store.add(run.run_id, 1, [Output("letters/0/0", 0, total_nats=nats, cache_key="key")])
    assert store.find(["key"])["key"].total_nats == -1.0
    store.remove(store.run("last~1").run_id)
    assert store.find(["key"])["key"].total_nats == -2.0


def test_a_damaged_output_is_not_found(store: Store) -> None:
    """A row with a wrong checksum is not copied to other runs."""
    examples.fill(store, examples.plan())
    (key,) = keys_of(examples.requests()[:1])[:1]
    with store._database.writing() as connection:
        connection.execute(text("UPDATE outputs SET total_nats = -0.5 WHERE ask_index = 0"))
    assert store.find([key]) == {}


def test_the_index_is_used(file_store: Store) -> None:
    """A look-up by key never reads the whole table."""
    examples.fill(file_store, examples.plan())
    seen: list[tuple[str, object]] = []
    engine = file_store._database._engine

    def note(_connection: object, _cursor: object, statement: str, values: object, *_: object) -> None:
        seen.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    file_store.find(["a", "b"])
    event.remove(engine, "before_cursor_execute", note)
    (look_up,) = [(statement, values) for statement, values in seen if "cache_key IN" in statement]
    with file_store._database.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {look_up[0]}", look_up[1]).all()  # type: ignore[arg-type]
    assert any("outputs_by_cache_key" in row[3] for row in plan)
    assert not any(row[3].startswith("SCAN") for row in plan)
