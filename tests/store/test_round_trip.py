"""The store returns exactly what was stored."""

import string
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assaymark.errors import StoreError
from assaymark.records import (
    CallPart,
    Estimate,
    GenerateQuery,
    GenerationSettings,
    ImagePart,
    LoglikelihoodQuery,
    Message,
    ModelIdentity,
    Output,
    Query,
    Request,
    ResultPart,
    RollingQuery,
    RunPlan,
    Sample,
    Score,
    ScoreStatus,
    TaskPlan,
    TextPart,
    content_hash,
)
from assaymark.store import Store
from assaymark.store.packing import pack_hash, pack_text, to_json, unpack_hash, unpack_text
from assaymark.store.plan_json import plan_from_json
from assaymark.store.request_texts import join_request, split_request
from tests.store import examples

FRESH = count(100)  # sample indices that no example has used
TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)  # NUL and lone surrogates too
NAME = st.text(string.ascii_letters + string.digits + "/_-. é", min_size=1, max_size=20)
NUMBER = st.floats(allow_nan=False)
COUNT = st.integers(0, 2**31 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PAIRS = st.lists(st.tuples(NAME, JSON), max_size=2).map(tuple)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
SETTINGS = st.builds(
    GenerationSettings,
    max_tokens=st.none() | COUNT,
    stop=TEXTS,
    do_sample=st.booleans(),
    temperature=st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    top_k=st.none() | COUNT,
    min_p=st.none() | st.floats(0, 1),
    seed=COUNT,
    repeats=st.integers(1, 4),
    extra=PAIRS,
)
PARTS = st.lists(
    st.builds(TextPart, TEXT)
    | st.builds(ImagePart, st.just("ab" * 32), st.just("image/png"))
    | st.builds(CallPart, NAME, NAME, TEXT)
    | st.builds(ResultPart, NAME, NAME, TEXT),
    max_size=3,
).map(tuple)
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), PARTS), max_size=3
).map(tuple)


def queries(number: int) -> st.SearchStrategy[Query]:
    """Draw the query at this position."""
    return st.one_of(
        st.builds(
            LoglikelihoodQuery,
            index=st.just(number),
            continuation=TEXT,
            segments=st.none() | TEXTS,
            role=st.sampled_from(["choice", "unconditional"]),
        ),
        st.builds(RollingQuery, index=st.just(number), text=TEXT),
        st.builds(GenerateQuery, index=st.just(number), settings=SETTINGS),
    )


@st.composite
def any_request(draw: st.DrawFn, task: st.SearchStrategy[str] = NAME) -> Request:
    """Draw a request of any kind."""
    return Request(
        task=draw(task),
        sample_index=draw(COUNT),
        sample_sha256=draw(st.just("sha256:" + "0f" * 32) | NAME),
        segments=draw(TEXTS),
        queries=tuple(draw(queries(number)) for number in range(draw(st.integers(0, 3)))),
        messages=draw(MESSAGES),
        turn=draw(st.integers(0, 5)),
        target=draw(TEXT),
        n_shots=draw(COUNT),
        n_leaked_shots=draw(COUNT),
    )


OUTPUT = st.builds(
    Output,
    request_id=st.just("letters/0/0"),
    ask_index=st.just(0),
    repeat=st.just(0),
    total_nats=st.none() | NUMBER,
    is_greedy=st.none() | st.booleans(),
    text=st.none() | TEXT,
    reasoning=st.none() | TEXT,
    tool_calls=st.none() | TEXT,
    finish_reason=st.none() | st.sampled_from(["stop", "eos", "length"]),
    n_context_tokens=COUNT,
    n_tokens=COUNT,
    n_cut_tokens=COUNT,
    cache_key=st.none() | NAME | st.just("sha256:" + "ab" * 32) | st.just("sha256:" + "AB" * 32),
    from_cache=st.booleans(),
    error=st.none() | TEXT,
    error_kind=st.none() | st.just("Retryable"),
)
SCORE = st.builds(
    Score,
    request_id=st.just("letters/0/0"),
    metric=NAME,
    value=st.none() | NUMBER,
    filter=NAME,
    status=st.sampled_from(ScoreStatus),
    parts=st.none() | st.lists(JSON, max_size=3).map(tuple),
    detail=JSON,
)
TASK_PLAN = st.builds(
    TaskPlan, NAME, NAME, NAME, NAME, COUNT, COUNT, st.none() | st.lists(COUNT, max_size=4).map(tuple), JSON
)
PLAN = st.builds(
    RunPlan,
    model=st.builds(
        ModelIdentity, NAME, NAME, st.none() | NAME, st.none() | NAME, st.none() | NAME, NAME, NAME, options=PAIRS
    ),
    profile=NAME,
    tasks=st.lists(TASK_PLAN, max_size=3).map(tuple),
    limit=st.none() | st.floats(0, 100),
    apply_chat_template=st.booleans() | NAME,
    system_instruction=st.none() | TEXT.filter(lambda text: text.isprintable()),
    environment=JSON,
    extra=PAIRS,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    """Return one store with one run that many examples write into."""
    path: Path = tmp_path_factory.mktemp("round") / "store.sqlite"
    with Store.open(str(path)) as store:
        run = store.open_run(examples.plan(), facts={})
        store.add_requests(run.run_id, examples.requests(), examples.samples())
        yield store, run.run_id


@given(TEXT)
def test_any_text_is_packed_and_unpacked(text: str) -> None:
    """Every Python string is restored, with NUL and lone surrogates."""
    assert unpack_text(pack_text(text)) == text
    assert unpack_text(pack_text(text * 50)) == text * 50


@given(TEXT | st.binary(min_size=32, max_size=32).map(lambda raw: "sha256:" + raw.hex()))
def test_any_hash_is_packed_and_unpacked(text: str) -> None:
    """A hash is restored, and so is a key that only looks like one."""
    assert unpack_hash(pack_hash(text)) == text


@given(any_request())
def test_a_split_request_is_joined_again(request: Request) -> None:
    """A request is restored from its pieces and its form."""
    apart = split_request(request)
    place = (request.task, request.sample_index, request.turn)
    assert join_request(place, request.sample_sha256, apart.form, apart.pieces) == request


@given(PLAN)
def test_a_plan_is_restored_with_its_key(plan: RunPlan) -> None:
    """A plan read from its JSON is equal to the one written and has the same key."""
    restored = plan_from_json(to_json(plan.content))
    assert restored == plan
    assert restored.key == plan.key


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_request(task=st.just("letters")), st.dictionaries(TEXT, JSON, max_size=3))
def test_requests_and_samples_are_restored_from_the_database(
    shared: tuple[Store, str], request_given: Request, row: dict[str, object]
) -> None:
    """A stored request and its sample's row are read unchanged."""
    store, run_id = shared
    request_given = replace(request_given, sample_index=next(FRESH))
    sample = Sample("letters", request_given.sample_index, row, request_given.sample_sha256)
    store.add_requests(run_id, [request_given], [sample])
    results = list(store.samples(run_id, "letters", indices=[request_given.sample_index]))
    assert [record.request for record in results] == [request_given]
    assert [record.sample for record in results] == [sample]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OUTPUT)
def test_outputs_come_back_from_the_database(shared: tuple[Store, str], output: Output) -> None:
    """A stored output is read as it was, its log-probability to the last bit."""
    store, run_id = shared
    store.add(run_id, 1, [output])
    assert store.outputs_of(run_id, ["letters/0/0"]) == {"letters/0/0": [output]}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCORE)
def test_scores_come_back_from_the_database(shared: tuple[Store, str], score: Score) -> None:
    """A stored score is read as it was."""
    store, run_id = shared
    store.add_scores(run_id, [score], examples.SCORING)
    (record,) = store.samples(run_id, "letters", indices=[0])
    assert score in record.scores


def test_everything_comes_back_from_either_database(store: Store) -> None:
    """Requests of every kind, their outputs and scores are the same on SQLite and PostgreSQL."""
    asked = examples.mixed_requests()
    rows = examples.samples(n_samples=3)
    run = store.open_run(examples.plan(), facts={"torch": "2.13", "odd": "\x00\ud800"}, command="assaymark run é\x00")
    store.add_requests(run.run_id, asked, rows)
    answers = [output for request in asked for output in examples.outputs_for(request)]
    odd = Output("letters/1/0", 0, 0, text="NUL \x00 and \ud83d", reasoning="", error=None, tool_calls="[]")
    answers = [odd if (o.request_id, o.repeat) == ("letters/1/0", 0) else o for o in answers]
    store.add(run.run_id, run.attempt_id, answers)
    scores = [score for request in asked for score in examples.scores_for(request)]
    store.add_scores(run.run_id, scores, examples.SCORING)
    records = list(store.samples(run.run_id, "letters"))
    assert [record.request for record in records] == asked
    assert [record.sample for record in records] == rows
    assert [output for record in records for output in record.outputs] == answers
    assert [score for record in records for score in record.scores] == scores
    (attempt,) = store.attempts(run.run_id)
    assert attempt.facts == {"torch": "2.13", "odd": "\x00\ud800"}
    assert attempt.command == "assaymark run é\x00"
    assert store.verify() == []


def test_estimates_come_back(store: Store) -> None:
    """Estimates are read in the order and with the values with which they were saved, and replaced as a whole."""
    run_id = examples.fill(store, examples.plan())
    cells = [
        Estimate("letters", "acc", "none", 0.5, 0.215, 0.785, "wilson", 8, chance=0.25, details={"n_tied": 0}),
        Estimate("letters", "word_perplexity", "none", None, None, None, "none", 0, higher_is_better=False),
    ]
    store.save_estimates(run_id, [cells[1]])
    store.save_estimates(run_id, cells, {"composite": 0.41})
    assert store.estimates(run_id) == cells
    assert store.run(run_id).extra == {"composite": 0.41}


def test_numbers_of_numpy_are_stored_as_plain_ones(store: Store) -> None:
    """A float or count of numpy is stored as the number it is."""
    import numpy as np

    run = store.open_run(examples.plan(), facts={})
    store.add_requests(run.run_id, examples.requests(), examples.samples())
    output = Output("letters/0/0", 0, total_nats=np.float64(-1.5), is_greedy=np.bool_(True), n_tokens=np.int64(3))  # type: ignore[arg-type]
    store.add(run.run_id, run.attempt_id, [output])
    (result,) = store.outputs_of(run.run_id, ["letters/0/0"])["letters/0/0"]
    assert (result.total_nats, result.is_greedy, result.n_tokens) == (-1.5, True, 3)
    assert store.verify() == []


def test_nan_is_refused(store: Store) -> None:
    """NaN is neither a log-probability nor a score: undefined is None."""
    run_id = examples.fill(store, examples.plan())
    with pytest.raises(StoreError, match=r"letters/0/0.*NaN.*None"):
        store.add(run_id, 1, [Output("letters/0/0", 0, total_nats=float("nan"))])
    with pytest.raises(StoreError, match=r"acc.*NaN.*None"):
        store.add_scores(run_id, [Score("letters/0/0", "acc", float("nan"))], examples.SCORING)
    assert store.verify() == []


def test_one_text_of_many_requests_is_stored_once(file_store: Store, path: Path) -> None:
    """Shots that requests share, of one run or of several, lie in the store once."""
    import sqlite3

    examples.fill(file_store, examples.plan())
    with sqlite3.connect(path) as connection:
        (before,) = connection.execute("SELECT count(*) FROM texts").fetchone()
    examples.fill(file_store, examples.plan(content="another model"), content="b")
    with sqlite3.connect(path) as connection:
        (after,) = connection.execute("SELECT count(*) FROM texts").fetchone()
    connection.close()
    # 3 shots; per sample a question and a row; one form for each of the 4 targets
    assert before == after == 3 + 8 * 2 + 4


def test_the_row_hash_is_kept(store: Store) -> None:
    """A sample's row comes back with its hash, from which it can be told whether the data changed."""
    run_id = examples.fill(store, examples.plan())
    (record,) = store.samples(run_id, "letters", indices=[3])
    assert record.sample is not None
    assert record.sample.sha256 == content_hash(dict(record.sample.row))
