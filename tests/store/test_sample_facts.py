"""Facts of samples match the scores they are derived from, stay current, and are filled again after a kill."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from assaymark.errors import StoreError
from assaymark.records import Estimate, Output, Sample, Score, ScoreStatus, content_hash
from assaymark.store import SampleFacts, Store, sample_facts
from assaymark.store.schema import fact_sets
from assaymark.store.schema import sample_facts as facts_table
from tests.store import examples


def n_stored(store: Store) -> int:
    """Return the number of samples with stored facts."""
    with store._database.reading() as connection:
        return connection.execute(select(func.count()).select_from(facts_table)).scalar_one()


def n_current(store: Store) -> int:
    """Return the number of tasks with current facts."""
    with store._database.reading() as connection:
        complete = select(func.count()).select_from(fact_sets).where(fact_sets.c.is_complete == 1)
        return connection.execute(complete).scalar_one()


def test_facts_are_stored_when_a_run_is_summarised(store: Store) -> None:
    """After its estimates are saved a run's lists are read from columns, and match the scores."""
    run_id = examples.summarised(store, examples.plan(("letters", "words")))
    assert (n_stored(store), n_current(store)) == (16, 2)
    page = store.sample_list(run_id)
    assert page.total == 16
    assert page.samples[1] == SampleFacts(
        *("letters", "acc", "none", 1, 0, "scored", 1.0, 1.0, False, None, 2, 0, 0, 0, "letters: what is 1 + 1?")
    )
    scores = {(row.task, row.sample_index): row.value for row in store.scores(run_id) if row.metric == "acc"}
    assert {(sample.task, sample.sample_index): sample.score for sample in page.samples} == scores
    assert [each.is_wrong for each in page.samples] == [not value for value in scores.values()]
    assert page.samples[1].request_id == "letters/1/0"
    assert store.verify() == []


def test_the_mean_of_correct_is_the_estimate(store: Store) -> None:
    """Tied choices share the credit; failed samples are not counted as wrong, unparsed answers are."""
    run = store.open_run(examples.plan(n_samples=5), facts={})
    store.add_requests(run.run_id, examples.requests(n_samples=5), examples.samples(n_samples=5))
    store.add(run.run_id, 1, [Output("letters/3/0", 0, error="too long: cut it", error_kind="PromptTooLong")])
    store.add_scores(
        run.run_id,
        [
            Score("letters/0/0", "acc", 1.0, detail={"credit": 0.25, "n_tied": 4}),
            Score("letters/1/0", "acc", 1.0, detail={"credit": 1.0}),
            Score("letters/2/0", "acc", 0.0, status=ScoreStatus.UNPARSED),
            Score("letters/3/0", "acc", None, status=ScoreStatus.FAILED),
        ],
        examples.SCORING,
    )
    store.close_run(run.run_id, 1, "finished")
    store.save_estimates(run.run_id, examples.estimates_for(examples.plan()))
    actual = store.sample_list(run.run_id).samples
    assert [each.correct for each in actual] == [0.25, 1.0, 0.0, None, None]
    assert [item.status for item in actual] == ["scored", "scored", "unparsed", "failed", None]
    assert [result.is_wrong for result in actual] == [True, False, True, True, False]


def test_a_metric_that_is_not_a_share_has_no_wrong_samples(store: Store) -> None:
    """With a metric such as perplexity samples have a score and no verdict; so has a run without estimates."""
    plan = examples.plan(n_samples=3)
    run_id = examples.fill(store, plan)
    (actual,) = {
        (sample.metric, sample.score, sample.correct, sample.is_wrong) for sample in store.sample_list(run_id).samples
    }
    assert actual == (None, None, None, False)
    plain = [replace(each, details={**each.details, "unit": "plain"}) for each in examples.estimates_for(plan)]
    store.save_estimates(run_id, plain)
    found_now = store.sample_list(run_id).samples
    assert [(item.score, item.correct, item.is_wrong) for item in found_now] == [
        (0.0, None, False), (1.0, None, False), (0.0, None, False)
    ]  # fmt: skip
    store.save_estimates(run_id, [replace(result, higher_is_better=False) for result in examples.estimates_for(plan)])
    assert {result.correct for result in store.sample_list(run_id).samples} == {None}


def test_another_primary_metric_updates_the_facts(store: Store) -> None:
    """If a task's primary metric changes, its facts are derived again."""
    plan = examples.plan()
    run_id = examples.summarised(store, plan)
    store.add_scores(run_id, [Score(f"letters/{i}/0", "f1", 0.75) for i in range(8)], examples.SCORING)
    store.save_estimates(run_id, examples.estimates_for(plan, "f1"))
    result = store.sample_list(run_id).samples
    assert {(each.metric, each.score) for each in result} == {("f1", 0.75)}
    assert n_current(store) == 1
    assert store.verify() == []


@pytest.mark.slow
def test_later_scores_are_seen_at_once(store: Store) -> None:
    """New scores under the same metric appear in lists before and after the facts are stored again."""
    plan = examples.plan()
    run_id = examples.summarised(store, plan)
    better = [Score(f"letters/{i}/0", "acc", 1.0) for i in range(8)]
    store.add_scores(run_id, better, examples.OTHER_SCORING)
    assert store.sample_list(run_id, wrong_only=True).total == 0
    assert n_current(store) == 0
    store.save_estimates(run_id, examples.estimates_for(plan))
    assert n_current(store) == 1
    assert store.sample_list(run_id, wrong_only=True).total == 0
    assert store.verify() == []


def test_lists_of_a_run_that_is_being_written_are_current(store: Store) -> None:
    """While a run grows its lists grow; facts are stored at its end."""
    plan = examples.plan()
    run = store.open_run(plan, facts={})
    asked = examples.requests()
    store.add_requests(run.run_id, asked, examples.samples())
    store.save_estimates(run.run_id, examples.estimates_for(plan))
    store.add_scores(run.run_id, examples.scores_for(asked[0]), examples.SCORING)
    assert [sample.status for sample in store.sample_list(run.run_id).samples] == ["scored", *[None] * 7]
    assert store.fill_facts() == 0
    assert n_stored(store) == 0
    store.close_run(run.run_id, 1, "incomplete")
    assert (n_stored(store), n_current(store)) == (8, 1)
    again = store.open_run(plan, facts={})
    store.add_scores(run.run_id, examples.scores_for(asked[1]), examples.SCORING)
    assert [each.status for each in store.sample_list(run.run_id).samples] == ["scored", "scored", *[None] * 6]
    store.close_run(run.run_id, again.attempt_id, "incomplete")
    assert n_current(store) == 1
    assert store.verify() == []


def test_what_pages_show_beside_the_verdict(store: Store) -> None:
    """Category, shots, leaks, truncated prompts, outputs at the token limit, and the question in one line."""
    run = store.open_run(examples.plan(n_samples=2), facts={})
    row = {"subject": " physics ", "question": "Why?\n\n" + "so long " * 60, "choices": ["a"]}
    samples = [Sample("letters", 0, row, content_hash(row)), examples.sample("letters", 1)]
    asked = [replace(entry, sample_sha256=sample.sha256, n_leaked_shots=1 - sample.index)
             for entry, sample in zip(examples.requests(n_samples=2), samples, strict=True)]  # fmt: skip
    store.add_requests(run.run_id, asked, samples)
    store.add(
        run.run_id,
        1,
        [
            Output("letters/0/0", 0, text="an answer", finish_reason="length", n_cut_tokens=7),
            Output("letters/0/0", 1, text="an answer", finish_reason="stop", n_cut_tokens=3),
        ],
    )
    first, second = store.sample_list(run.run_id).samples
    assert (first.category, first.n_shots, first.n_leaked_shots) == ("physics", 2, 1)
    assert (first.n_truncated_tokens, first.n_at_limit) == (7, 1)
    assert first.snippet.startswith("Why? so long so long")
    assert len(first.snippet) == sample_facts.SNIPPET_LENGTH
    assert (second.category, second.n_truncated_tokens, second.n_at_limit) == (None, 0, 0)


def test_without_a_row_the_snippet_is_the_samples_own_part_of_the_prompt(store: Store) -> None:
    """If the row is missing, or has no known field for the question, the snippet is the prompt without the shots."""
    run = store.open_run(examples.plan(n_samples=2), facts={})
    row = {"so_called": "this", "label": 1}
    store.add_requests(run.run_id, examples.requests(n_samples=2), [Sample("letters", 1, row, content_hash(row))])
    assert [sample.snippet for sample in store.sample_list(run.run_id).samples] == [
        "Q: letters: what is 0 + 0? A:",
        "Q: letters: what is 1 + 1? A:",
    ]


def test_characters_that_no_column_accepts_are_replaced(store: Store) -> None:
    """NUL and lone surrogates of a question are replaced in its snippet."""
    run = store.open_run(examples.plan(n_samples=1), facts={})
    row = {"question": "a\x00b\ud83dc", "category": "\x00"}
    store.add_requests(run.run_id, examples.requests(n_samples=1), [Sample("letters", 0, row, content_hash(row))])
    store.close_run(run.run_id, 1, "finished")
    assert store.fill_facts() == 1
    (result,) = store.sample_list(run.run_id).samples
    assert (result.snippet, result.category) == ("a\ufffdb\ufffdc", "\ufffd")
    assert store.verify() == []


# ------------------------------------------------------------------------------------------- filling


def test_filling_continues_where_it_was_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts stored by an earlier call are not derived again, and the result is the same as that of one call."""
    monkeypatch.setattr(sample_facts, "AT_ONCE", 3)
    run_id = examples.fill(store, examples.plan(("letters", "words")))
    examples.fill(store, examples.plan(("words",), content="b"), content="b")
    expected = store.sample_list(run_id)
    real, n_calls = sample_facts._fill_some, 0

    def ended(*given: object) -> tuple[int, bool]:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 4:
            raise StoreError("the disk is full")
        return real(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(sample_facts, "_fill_some", ended)
        with pytest.raises(StoreError, match="disk is full"):
            store.fill_facts()
    assert n_stored(store) == 9
    assert store.sample_list(run_id) == expected
    assert store.fill_facts() == 15
    assert (n_stored(store), n_current(store)) == (24, 3)
    assert store.fill_facts() == 0
    assert store.sample_list(run_id) == expected
    assert store.verify() == []


FILL = """
import os, signal, sys
from assaymark.store import Store, sample_facts
sample_facts.AT_ONCE = 50
real, calls = sample_facts._fill_some, []
def killed(*given):
    calls.append(given)
    found = real(*given)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
sample_facts._fill_some = killed
Store.open(sys.argv[1]).fill_facts()
"""


def test_filling_that_was_killed_is_continued(path: Path) -> None:
    """After kill -9 in the middle of a transaction the next call finishes the work and repeats only that one."""
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan(n_samples=400))
        expected = store.sample_list(run_id, limit=400)
    done = subprocess.run([sys.executable, "-c", FILL, str(path)], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    with Store.open(str(path)) as store:
        assert n_stored(store) == 100
        assert store.sample_list(run_id, limit=400) == expected
        assert store.fill_facts() == 300
        assert store.sample_list(run_id, limit=400) == expected
        assert store.verify() == []


def test_a_store_that_is_only_read_needs_none(path: Path) -> None:
    """Lists of a read-only store are derived from its rows."""
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan())
        expected = store.sample_list(run_id)
    with Store.open(str(path), read_only=True) as store:
        assert store.sample_list(run_id) == expected
        assert [(category.category, category.n_samples) for category in store.categories(run_id)] == [(None, 8)]
        with pytest.raises(StoreError, match="is read-only"):
            store.fill_facts()
    with Store.open(str(path)) as store:
        assert n_stored(store) == 0
        store.fill_facts()
        assert store.sample_list(run_id) == expected


def test_damaged_runs_are_skipped_and_reported_by_verify(path: Path) -> None:
    """A run with a damaged row keeps its other results, other runs are filled, and `verify` reports the text."""
    import sqlite3

    with Store.open(str(path)) as store:
        damaged = examples.fill(store, examples.plan())
        sound = examples.fill(store, examples.plan(("words",), content="b"), content="b")
    with sqlite3.connect(path) as connection:
        changed = connection.execute(
            "UPDATE texts SET content = x'01ff' WHERE id = (SELECT max(sample_row) FROM requests WHERE run_task = 1)"
        )
        assert changed.rowcount == 1
    connection.close()
    with Store.open(str(path)) as store:
        assert store.fill_facts() == 8
        assert store.sample_list(sound).total == 8
        with pytest.raises(StoreError, match="cannot be read"):
            store.sample_list(damaged)
        store.save_estimates(damaged, [Estimate("letters", "acc", "none", 0.5, 0.2, 0.8, "wilson", 8)])
        assert {problem.table for problem in store.verify()} == {"texts"}
