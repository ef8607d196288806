"""Search finds words and phrases with an index, and parts of snippets without one; queries are plain text."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import RunBusy, StoreError, UsageError
from assaymark.records import GenerateQuery, GenerationSettings, Output, Sample, content_hash
from assaymark.store import Store, search
from tests.store import examples

QUESTIONS = (
    "Which river flows through Vienna?",
    "What is the boiling point of water in degrees Celsius?",
    "Who wrote the treaty of Utrecht, and when?",
    'It\'s 50% of a well-known "answer" \\ C++ NOT AND',
    "El niño está aquí",
    "NEAR(a b) OR ^start* document:river",
)
GENERATED = ("the Danube", "100", "several kings", "none", "the child", "nothing at all")

HOSTILE = (
    *('"', '""', '"unbalanced', "'", "''", "' OR 1=1 --", "*", "a*", "^a", "a AND", "AND", "NOT", "NOT a", "a OR b"),
    *("NEAR(a b, 3)", "document:river", "run:r1", "{document run}:x", "-river", "(", ")", "((((", "a + b", "\\", "%"),
    *("_", "a\x00b", "\ud800", "\x00", " ", "", "\n\t", "é" * 900, "a " * 500, '"a" ' * 250, "((" * 500, "🙂", "川"),
    *("river; DROP TABLE runs", "a\u0301", ":*", "&", "|", "!", "<->", "a:*", "\u202e", "'a':B & !c <-> d"),
)


def make(store: Store, content: str = "a") -> str:
    """Store a finished run of questions with generated answers; not indexed."""
    run = store.open_run(examples.plan(n_samples=len(QUESTIONS), content=content), facts={})
    rows = [{"question": question, "n": index} for index, question in enumerate(QUESTIONS)]
    samples = [Sample("letters", index, row, content_hash(row)) for index, row in enumerate(rows)]
    query = GenerateQuery(0, GenerationSettings())
    asked = [replace(request, queries=(query,), sample_sha256=sample.sha256)
             for request, sample in zip(examples.requests(n_samples=len(rows)), samples, strict=True)]  # fmt: skip
    store.add_requests(run.run_id, asked, samples)
    store.add(run.run_id, 1, [Output(entry.id, 0, text=text) for entry, text in zip(asked, GENERATED, strict=True)])
    for request in asked:
        store.add_scores(run.run_id, examples.scores_for(request), examples.SCORING)
    store.close_run(run.run_id, 1, "finished")
    store.save_estimates(run.run_id, examples.estimates_for(examples.plan()))
    return run.run_id


def found(store: Store, run_id: str, query: str, **wanted: object) -> list[int]:
    """Return the samples that a search finds."""
    page = store.sample_list(run_id, query=query, **wanted)  # type: ignore[arg-type]
    assert page.total == len(page.samples)
    return [sample.sample_index for sample in page.samples]


def test_words_and_phrases_are_found(store: Store) -> None:
    """With an index all words must occur, in any order, in the row or in the generated text; a phrase exactly."""
    run_id = make(store)
    other = make(store, "b")
    assert not store.is_indexed(run_id)
    assert store.index_samples(run_id) == len(QUESTIONS)
    assert (store.is_indexed(run_id), store.is_indexed(other)) == (True, False)
    assert store.sample_list(run_id, query="river").is_indexed
    assert found(store, run_id, "RIVER") == [0, 5]
    assert found(store, run_id, "vienna river") == [0]
    assert found(store, run_id, '"river flows"') == [0]
    assert found(store, run_id, '"flows river"') == []
    assert found(store, run_id, "danube") == [0]
    assert found(store, run_id, "the") == [0, 1, 2, 4]
    assert found(store, run_id, "the", wrong_only=True) == [0, 2, 4]
    assert found(store, run_id, "well-known") == [3]
    assert found(store, run_id, "utrecht, and") == [2]
    page = store.sample_list(run_id, query="the", offset=1, limit=2)
    assert ([sample.sample_index for sample in page.samples], page.total) == ([1, 2], 4)
    assert store.verify() == []


def test_without_an_index_snippets_are_searched(store: Store) -> None:
    """In a run without an index the snippets are searched for the query as one text."""
    run_id = make(store)
    page = store.sample_list(run_id, query="OF a well-known")
    assert ([sample.sample_index for sample in page.samples], page.is_indexed) == ([3], False)
    assert found(store, run_id, "vienna river") == []
    assert found(store, run_id, "danube") == []
    assert found(store, run_id, "%") == [3]


def test_punctuation_alone_is_searched_in_snippets(store: Store) -> None:
    """A query without any word is not a full-text query, and finds snippets that contain it."""
    run_id = make(store)
    store.index_samples(run_id)
    page = store.sample_list(run_id, query="% ")
    assert ([sample.sample_index for sample in page.samples], page.is_indexed) == ([3], False)


@pytest.mark.parametrize("indexed", [True, False])
def test_hostile_queries_give_results_or_one_error(store: Store, indexed: bool) -> None:
    """Operators, quotes, NUL and surrogates are text; nothing raises, and the store is unchanged."""
    run_id = make(store)
    if indexed:
        store.index_samples(run_id)
    for query in HOSTILE:
        page = store.sample_list(run_id, query=query)
        assert page.total <= len(QUESTIONS), query
    assert found(store, run_id, "NOT AND") == [3]
    with pytest.raises(UsageError, match="1,048,576 characters; expected at most 1,000"):
        store.sample_list(run_id, query="x" * 2**20)
    assert store.verify() == []


def test_operators_are_words(store: Store) -> None:
    """Operators of FTS5 or tsquery are searched as words."""
    run_id = make(store)
    store.index_samples(run_id)
    assert found(store, run_id, "NEAR(a b)") == [5]
    assert found(store, run_id, "river OR water") == []
    assert found(store, run_id, "-river") == [0, 5]
    assert found(store, run_id, "document:river") == [5]


def test_new_outputs_outdate_an_index(store: Store) -> None:
    """New outputs outdate the index, new scores do not; built again it finds the new text and not the old."""
    run_id = make(store)
    store.index_samples(run_id)
    store.add_scores(run_id, examples.scores_for(examples.requests()[0], ["f1"]), examples.SCORING)
    store.flush()
    assert store.is_indexed(run_id)
    assert found(store, run_id, "danube") == [0]  # while the facts are derived anew
    store.add(run_id, 1, [Output("letters/0/0", 0, text="the Rhine")])
    store.flush()
    assert not store.is_indexed(run_id)
    store.index_samples(run_id)
    assert (found(store, run_id, "danube"), found(store, run_id, "rhine")) == ([], [0])
    assert store.verify() == []


def test_removing_a_run_removes_its_index(store: Store) -> None:
    """After a run's removal another run with the same row ids finds nothing of it."""
    run_id = make(store)
    store.index_samples(run_id)
    store.remove(run_id)
    again = examples.summarised(store, examples.plan(n_samples=len(QUESTIONS)))
    assert not store.is_indexed(again)
    store.index_samples(again)
    assert found(store, again, "river") == []
    assert store.verify() == []


def test_building_an_interrupted_index_begins_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial index is not used, and built again it holds everything once."""
    monkeypatch.setattr(search, "AT_ONCE", 2)
    run_id = make(store)
    real, calls = search._documents, []

    def ended(*given: object) -> object:
        calls.append(given)
        if len(calls) == 2:
            raise StoreError("the disk is full")
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "_documents", ended)
    with pytest.raises(StoreError, match="disk is full"):
        store.index_samples(run_id)
    assert not store.is_indexed(run_id)
    assert store.index_samples(run_id) == len(QUESTIONS)
    assert found(store, run_id, "river") == [0, 5]
    assert store.verify() == []


def test_a_run_that_is_being_written_is_not_indexed(store: Store) -> None:
    """An index is built only for runs that nobody is writing."""
    run = store.open_run(examples.plan(), facts={})
    with pytest.raises(RunBusy, match="being written"):
        store.index_samples(run.run_id)


def test_a_store_with_an_index_opens_again(path: Path) -> None:
    """Our virtual table passes the check for files from elsewhere; a changed one does not."""
    with Store.open(str(path)) as store:
        run_id = make(store)
        store.index_samples(run_id)
    with Store.open(str(path), read_only=True) as store:
        assert found(store, run_id, "vienna") == [0]
        assert store.verify() == []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM sample_search WHERE rowid = 1")
    with Store.open(str(path)) as store:
        (problem,) = store.verify()
        assert "5 rows and was built from 6 requests" in str(problem)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE sample_search")
        connection.execute("CREATE VIRTUAL TABLE sample_search USING fts5(run, document, tokenize = 'trigram')")
    with pytest.raises(StoreError, match="so it was not read"):
        Store.open(str(path))


def test_an_index_that_is_damaged_is_one_clear_error(path: Path) -> None:
    """If the index's own tables were changed, searching and verifying report it in one line."""
    with Store.open(str(path)) as store:
        run_id = make(store)
        store.index_samples(run_id)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sample_search_data SET block = x'ffffffffffffffff'")
    with Store.open(str(path)) as store:
        with pytest.raises(StoreError, match="damaged") as caught:
            store.sample_list(run_id, query="river")
        assert len(str(caught.value).splitlines()) == 1
        assert store.verify()


def test_missing_full_text_search_is_reported(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this Python's SQLite has no FTS5, search works without an index."""
    run_id = make(file_store)
    monkeypatch.setattr(search, "_has_fts5", lambda _: False)
    with pytest.raises(StoreError, match="no full-text search"):
        file_store.index_samples(run_id)
    assert found(file_store, run_id, "Vienna") == [0]
