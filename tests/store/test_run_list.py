"""Which runs there are, and which one a user means."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from assaymark.documents.terminal import as_text
from assaymark.errors import UnknownName, UsageError
from assaymark.records import Output
from assaymark.results.views.run_list import run_list
from assaymark.store import Store
from assaymark.store.run_list import _find
from tests.store import examples


def test_runs_are_listed_the_latest_first(store: Store) -> None:
    """A run that was worked on again comes first, and its row tells what it is."""
    first = examples.fill(store, examples.plan())
    second = examples.fill(store, examples.plan(("words",), n_samples=3), finish=False)
    assert [run.run_id for run in store.runs()] == [second, first]
    store.open_run(examples.plan(), facts={}, command="again")
    latest, earlier = store.runs()
    assert (latest.run_id, latest.n_attempts, latest.command) == (first, 2, "again")
    assert (latest.model, latest.tasks, latest.plan) == ("models/small", ("letters",), examples.plan())
    assert (latest.n_requests, latest.n_outputs, latest.n_scores, latest.n_failed) == (8, 32, 16, 0)
    assert (earlier.n_requests, earlier.n_outputs, earlier.n_scores) == (3, 12, 6)
    assert latest.status == "finished"
    assert latest.summary == {"letters": {"n": 8}}
    assert earlier.status == "running"


def test_turns_of_a_conversation_are_one_sample(store: Store) -> None:
    """Samples are counted, not requests, while a run is written and after it."""
    run = store.open_run(examples.plan(), facts={})
    first_turns = examples.requests()
    store.add_requests(run.run_id, first_turns, examples.samples())
    store.add_requests(run.run_id, [replace(request, turn=1) for request in first_turns[:5]], [])
    (listed,) = store.runs()
    assert (listed.n_samples, listed.n_requests) == (8, 13)
    store.close_run(run.run_id, run.attempt_id, "finished")
    (listed,) = store.runs()
    assert (listed.n_samples, listed.n_requests) == (8, 13)
    assert " 8 " in as_text(run_list([listed]), 100)


def test_runs_are_found_by_words(store: Store) -> None:
    """Every word must occur in id, model, task, profile or status; case does not matter."""
    first = examples.fill(store, examples.plan())
    second = examples.fill(store, examples.plan(("words",)), finish=False)
    assert [run.run_id for run in store.runs(["SMALL", "lm-eval"])] == [second, first]
    assert [run.run_id for run in store.runs(["small", "words"])] == [second]
    assert [run.run_id for run in store.runs(["finished"])] == [first]
    assert [run.run_id for run in store.runs([first[:6]])] == [first]
    assert store.runs(["letters", "words"]) == []


def test_a_run_is_named_in_four_ways(store: Store) -> None:
    """By id, by the beginning of an id, as the last one, and as one before it."""
    first = examples.fill(store, examples.plan())
    second = examples.fill(store, examples.plan(("words",)))
    assert store.run(first).run_id == first
    assert store.run(store.run(first).short_id).run_id == first
    assert store.run(first[:5]).run_id == first
    assert store.run("last").run_id == second
    assert store.run("last~1").run_id == first


def test_a_run_is_named_by_its_model(store: Store) -> None:
    """A model with one run is a name of that run; with two, both are offered."""
    run_id = examples.fill(store, examples.plan())
    assert store.run("models/small").run_id == store.run("small").run_id == store.run("models/small/").run_id == run_id
    other = examples.fill(store, examples.plan(("words",)))
    with pytest.raises(UsageError, match=r"^2 runs are of model small; name one by its id:\n") as caught:
        store.run("small")
    listed = [line.split() for line in str(caught.value).splitlines()[1:]]
    assert {line[0] for line in listed} == {run_id[:8], other[:8]}
    tasks = [[task.name for task in run.plan.tasks] for run in store.runs()]
    assert [(line[1], line[2]) for line in listed] == [(names[0], "finished") for names in tasks]


def test_a_run_is_named_by_its_models_name_with_an_ellipsis(store: Store) -> None:
    """What a narrow table shows of a name can be typed where it fits one model only."""
    run_id = examples.fill(store, examples.plan())
    assert {store.run(name).run_id for name in ("sm…l", "s...all", "…all", "models/s…")} == {run_id}
    with pytest.raises(UnknownName):
        store.run("…")
    with pytest.raises(UnknownName):
        store.run("x…l")


def test_the_last_run_is_the_latest_with_an_output(store: Store) -> None:
    """A run that failed before its first output is not `last`, unless no run has an output."""
    refused = store.open_run(examples.plan(("refused",)), facts={})
    store.close_run(refused.run_id, refused.attempt_id, "failed", {"error": "UsageError: no chat template"})
    assert store.run("last").run_id == refused.run_id
    started = examples.fill(store, examples.plan(("words",), n_samples=3), finish=False)
    again = store.open_run(examples.plan(("refused",)), facts={})
    store.close_run(again.run_id, again.attempt_id, "failed", {})
    assert store.runs()[0].run_id == refused.run_id
    assert store.run("last").run_id == started


def test_a_run_whose_requests_all_failed_is_not_the_last(store: Store) -> None:
    """Nothing was answered, so there is nothing to show; what was answered before it is meant."""
    done = examples.fill(store, examples.plan())
    opened = store.open_run(examples.plan(("words",)), facts={})
    (request, *_) = requests = examples.requests("words", 1)
    store.add_requests(opened.run_id, requests, [])
    failed = Output(request.id, 0, error="no connection", error_kind="Unreachable")
    store.add(opened.run_id, opened.attempt_id, [failed])
    store.close_run(opened.run_id, opened.attempt_id, "incomplete", {})
    assert store.run(opened.run_id).n_failed == 1
    assert store.run("last").run_id == done


def test_an_unknown_run_offers_the_nearest(store: Store) -> None:
    """The error for a mistyped id has the nearest ones, and otherwise the command that lists them."""
    run_id = examples.fill(store, examples.plan())
    mistyped = run_id[:4] + ("0" if run_id[4] != "0" else "1") + run_id[5:]
    with pytest.raises(UnknownName, match=f"unknown run '{mistyped}'; nearest: {run_id[:8]}"):
        store.run(mistyped)
    for name in ("last~1", "", "zzzz"):
        with pytest.raises(UnknownName, match="assaymark ls runs"):
            store.run(name)


def test_an_ambiguous_beginning_names_the_candidates(store: Store) -> None:
    """A beginning that several runs share is refused with those it could mean."""
    for content in "abcdefghijklmnopqrs":  # more runs than hex digits: two begin alike
        store.open_run(examples.plan(content=content), facts={})
    beginnings = [run.run_id[0] for run in store.runs()]
    shared = next(digit for digit in beginnings if beginnings.count(digit) > 1)
    with pytest.raises(
        UnknownName, match=rf"{beginnings.count(shared)} runs begin with it; give more digits"
    ) as caught:
        store.run(shared)
    assert len(caught.value.nearest) >= 2


def test_short_ids_are_unique(store: Store) -> None:
    """A short id is the shortest beginning that no other run has."""
    from assaymark.store.run_list import _with_short_ids
    from assaymark.store.runs import change_row
    from assaymark.store.schema import runs

    for content in "ab":
        store.open_run(examples.plan(content=content), facts={})
    with store._database.writing() as connection:
        for row, run_id in zip(connection.execute(runs.select()).all(), ("aaaaaaaaaa11", "aaaaaaaaaa12"), strict=True):
            change_row(connection, runs, row, run_id=run_id)
    with store._database.reading() as connection:
        listed = _with_short_ids(connection)
        assert sorted(short for _, short in listed) == ["aaaaaaaaaa11", "aaaaaaaaaa12"]
        assert _find(listed, "aaaaaaaaaa12")[0].run_id == "aaaaaaaaaa12"


def test_a_killed_run_is_interrupted(url: str) -> None:
    """A run whose process was killed is shown as interrupted, although no process could store that."""
    program = (
        "import os, sys; from assaymark.store import Store; from tests.store import examples;"
        "s = Store.open(sys.argv[1]); s.open_run(examples.plan(), facts={}); os._exit(9)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program, url], cwd=root, check=False).returncode == 9
    with Store.open(url) as store:
        run = store.run("last")
        assert run.status == "interrupted"
        assert [attempt.status for attempt in store.attempts(run.run_id)] == ["interrupted"]
        store.open_run(examples.plan(), facts={})
        assert [attempt.status for attempt in store.attempts(run.run_id)] == ["interrupted", "running"]
        assert store.run("last").status == "running"


def test_a_run_on_another_machine_is_shown_as_running(store: Store) -> None:
    """Whether a process of another machine lives cannot be known, so its run is shown as running."""
    store.open_run(examples.plan(), facts={})
    with store._database.writing() as connection:
        connection.execute(text("UPDATE attempts SET host = 'elsewhere', process_id = 999999999"))
    assert store.run("last").status == "running"


def test_scores_of_an_unknown_task_offer_those_of_the_run(store: Store) -> None:
    """The error for a task that the run does not have names the nearest of its tasks."""
    run_id = examples.fill(store, examples.plan())
    with pytest.raises(UnknownName, match="unknown task of this run 'leters'; nearest: letters"):
        next(iter(store.scores(run_id, "leters")))
    with pytest.raises(UnknownName, match="nearest: letters"):
        next(iter(store.samples(run_id, "numbers")))
