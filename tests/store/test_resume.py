"""The same plan is the same run, and running again requests nothing that is stored."""

from dataclasses import replace

import pytest

from assaymark.errors import StoreError, UsageError
from assaymark.records import Output, Score
from assaymark.store import Store
from tests.store import examples


def test_the_same_plan_is_the_same_run(store: Store) -> None:
    """Opening a plan again begins another attempt of its run; another model is another run."""
    first = store.open_run(examples.plan(), facts={"torch": "2.12"})
    store.close_run(first.run_id, first.attempt_id, "interrupted")
    again = store.open_run(examples.plan(), facts={"torch": "2.13"})
    other = store.open_run(examples.plan(content="b"), facts={})
    assert (first.is_new, first.n_attempts) == (True, 1)
    assert (again.is_new, again.n_attempts, again.run_id) == (False, 2, first.run_id)
    assert other.is_new
    assert other.run_id != first.run_id
    assert [attempt.facts for attempt in store.attempts(first.run_id)] == [{"torch": "2.12"}, {"torch": "2.13"}]


def test_a_model_name_is_not_part_of_the_run(store: Store) -> None:
    """The same weights under another path continue the same run."""
    plan = examples.plan()
    moved = replace(plan, model=replace(plan.model, name="/elsewhere/model"))
    first = store.open_run(plan, facts={})
    store.close_run(first.run_id, first.attempt_id, "interrupted")
    assert store.open_run(moved, facts={}).run_id == first.run_id


def test_run_ids_with_the_same_beginning_are_longer(store: Store) -> None:
    """A run whose first twelve digits exist already gets a longer id, and each is found by its own."""
    import assaymark.store.runs as module

    run = store.open_run(examples.plan(), facts={})
    with store._database.reading() as connection:
        same_beginning = "sha256:" + run.run_id + "0" * 52
        assert module._free_run_id(connection, same_beginning) == run.run_id + "0"


def test_stored_queries_are_not_sent_again(store: Store) -> None:
    """Of a partly stored run only the missing queries are left, with their indices."""
    run = store.open_run(examples.plan(), facts={})
    asked = examples.requests()
    assert store.unanswered(run.run_id, asked) == asked
    store.add_requests(run.run_id, asked, examples.samples())
    assert store.unanswered(run.run_id, asked) == asked
    for request in asked[:3]:
        store.add(run.run_id, run.attempt_id, examples.outputs_for(request))
    store.add(run.run_id, run.attempt_id, [examples.outputs_for(asked[3])[2]])
    left = store.unanswered(run.run_id, asked)
    assert [request.id for request in left] == [request.id for request in asked[3:]]
    assert [query.index for query in left[0].queries] == [0, 1, 3]
    assert left[1:] == asked[4:]


def test_a_query_with_a_missing_repeat_is_sent_with_all_repeats(store: Store) -> None:
    """Repeats share one prefill, so a query that lacks one of them is sent again with all."""
    run = store.open_run(examples.plan(), facts={})
    asked = examples.mixed_requests()
    store.add_requests(run.run_id, asked)
    for request in asked:
        store.add(run.run_id, run.attempt_id, examples.outputs_for(request)[:2])
    left = store.unanswered(run.run_id, asked)
    assert left[0] == asked[1]
    assert [query.index for query in left[1].queries] == [2]
    store.add(run.run_id, run.attempt_id, examples.outputs_for(asked[1]))
    store.add(run.run_id, run.attempt_id, examples.outputs_for(asked[2]))
    assert store.unanswered(run.run_id, asked) == []


@pytest.mark.parametrize(
    ("kind", "is_sent_again"),
    [
        ("Retryable", True),
        ("ModelError", True),
        ("Permanent", False),
        ("PromptTooLong", False),
        ("NonFiniteLogits", False),
    ],
)
def test_only_what_may_succeed_is_retried(store: Store, kind: str, is_sent_again: bool) -> None:
    """A failed output is requested again, unless it would fail in the same way."""
    run = store.open_run(examples.plan(), facts={})
    asked = examples.requests()
    store.add_requests(run.run_id, asked)
    good = [output for request in asked for output in examples.outputs_for(request)]
    failed = Output("letters/2/0", 1, error="it failed", error_kind=kind)
    store.add(
        run.run_id, run.attempt_id, [failed if (o.request_id, o.ask_index) == ("letters/2/0", 1) else o for o in good]
    )
    left = store.unanswered(run.run_id, asked)
    expected = [("letters/2/0", 1)] if is_sent_again else []
    assert [(request.id, query.index) for request in left for query in request.queries] == expected


def test_a_retried_output_replaces_the_failed_one(store: Store) -> None:
    """The output of a retry replaces the failure, and the failure's score is removed."""
    run = store.open_run(examples.plan(), facts={})
    asked = examples.requests()[:1]
    store.add_requests(run.run_id, asked)
    good = examples.outputs_for(asked[0])
    store.add(run.run_id, 1, [*good[:3], Output("letters/0/0", 3, error="timed out", error_kind="Retryable")])
    store.add_scores(run.run_id, examples.scores_for(asked[0]), examples.SCORING)
    assert store.unscored(run.run_id, examples.SCORING) == []
    store.close_run(run.run_id, run.attempt_id, "incomplete")
    again = store.open_run(examples.plan(), facts={})
    store.add(run.run_id, again.attempt_id, [good[3]])
    assert store.outputs_of(run.run_id, ["letters/0/0"]) == {"letters/0/0": good}
    assert list(store.scores(run.run_id)) == []
    assert store.unscored(run.run_id, examples.SCORING) == ["letters/0/0"]
    assert store.verify() == []


def test_collected_scores_of_a_replaced_output_are_dropped(store: Store) -> None:
    """Also inside one batch, the score of a replaced output is not stored."""
    run = store.open_run(examples.plan(), facts={})
    asked = examples.requests()[:1]
    store.add_requests(run.run_id, asked)
    store.add(run.run_id, 1, examples.outputs_for(asked[0]))
    store.add_scores(run.run_id, examples.scores_for(asked[0]), examples.SCORING)
    store.add(run.run_id, 1, examples.outputs_for(asked[0])[:1])
    assert list(store.scores(run.run_id)) == []


def test_a_changed_request_is_sent_again(store: Store) -> None:
    """A request with another text under the same id replaces the stored one, its outputs and its scores."""
    run_id = examples.fill(store, examples.plan(), finish=False)
    asked = examples.requests()
    changed = replace(asked[2], segments=(*asked[2].segments[:-1], "Q: something else?\nA:"))
    now = [*asked[:2], changed, *asked[3:]]
    assert store.unanswered(run_id, now) == [changed]
    store.add_requests(run_id, now, examples.samples())
    assert store.outputs_of(run_id, [changed.id]) == {changed.id: []}
    assert len(list(store.scores(run_id, "letters"))) == 2 * 7
    assert store.unanswered(run_id, now) == [changed]
    (record,) = store.samples(run_id, "letters", indices=[2])
    assert (record.request, record.outputs, record.scores) == (changed, (), ())
    store.add(run_id, 1, examples.outputs_for(changed))
    assert store.unanswered(run_id, now) == []
    assert store.verify() == []


def test_requests_as_unanswered_gave_them_may_be_added(store: Store) -> None:
    """Adding a request without its stored queries changes nothing in the store."""
    run = store.open_run(examples.plan(), facts={})
    asked = examples.requests()
    store.add_requests(run.run_id, asked, examples.samples())
    store.add(run.run_id, 1, [output for request in asked for output in examples.outputs_for(request)[:2]])
    left = store.unanswered(run.run_id, asked)
    store.add_requests(run.run_id, left, examples.samples())
    assert store.unanswered(run.run_id, asked) == left
    assert [record.request for record in store.samples(run.run_id, "letters")] == asked
    assert len(store.outputs_of(run.run_id, [asked[0].id])[asked[0].id]) == 2


def test_a_finished_run_is_complete_until_it_changes(store: Store) -> None:
    """A finished run is complete when opened again, until something is written to it."""
    run_id = examples.fill(store, examples.plan())
    again = store.open_run(examples.plan(), facts={})
    assert (again.is_new, again.is_complete) == (False, True)
    store.add_requests(run_id, examples.requests(), examples.samples())
    store.close_run(run_id, again.attempt_id, "interrupted")
    assert store.run(run_id).status == "finished"
    store.add_scores(run_id, examples.scores_for(examples.requests()[0]), examples.OTHER_SCORING)
    store.flush()
    assert not store.open_run(examples.plan(), facts={}).is_complete
    assert store.run(run_id).status == "running"


@pytest.mark.parametrize("status", ["incomplete", "interrupted", "failed"])
def test_unfinished_runs_are_continued(store: Store, status: str) -> None:
    """A run that ended early keeps its status, and is not complete when opened again."""
    run = store.open_run(examples.plan(), facts={})
    store.close_run(run.run_id, run.attempt_id, status, {"error": "Ctrl-C"})
    row = store.run(run.run_id)
    assert (row.status, row.summary) == (status, {"error": "Ctrl-C"})
    assert [attempt.status for attempt in store.attempts(run.run_id)] == [status]
    assert not store.open_run(examples.plan(), facts={}).is_complete


def test_unscored_names_complete_requests_without_scores(store: Store) -> None:
    """A request is unscored under a hash if all its outputs are stored, failed ones too, and it has no score."""
    run = store.open_run(examples.plan(("letters", "words")), facts={})
    for task in ("letters", "words"):
        asked = examples.requests(task, 3)
        store.add_requests(run.run_id, asked)
        store.add(run.run_id, 1, examples.outputs_for(asked[0]))
        store.add(run.run_id, 1, examples.outputs_for(asked[1])[:3])
        store.add(
            run.run_id, 1, [Output(asked[2].id, i, error="too long", error_kind="PromptTooLong") for i in range(4)]
        )
    both = ["letters/0/0", "letters/2/0", "words/0/0", "words/2/0"]
    assert store.unscored(run.run_id, examples.SCORING) == both
    store.add_scores(run.run_id, [Score("letters/0/0", "acc", 1.0)], examples.SCORING)
    assert store.unscored(run.run_id, examples.SCORING) == both[1:]
    assert store.unscored(run.run_id, examples.OTHER_SCORING) == both
    assert store.unscored(run.run_id, examples.SCORING, task="words") == both[2:]


def test_scoring_again_adds_rows_and_changes_none(store: Store) -> None:
    """The latest scoring is read; scoring as before makes the older one the latest again."""
    run_id = examples.fill(store, examples.plan())
    before = list(store.scores(run_id))
    request = examples.requests()[1]
    store.add_scores(run_id, [Score(request.id, "acc", 0.25)], examples.OTHER_SCORING)
    now = list(store.scores(run_id))
    assert [(row.sample_index, row.value) for row in now if row.metric == "acc"] == [(1, 0.25)]
    assert [row for row in now if row.metric == "acc_norm"] == [row for row in before if row.metric == "acc_norm"]
    store.add_scores(run_id, [Score(request.id, "acc", 1.0, detail={"picked": 0, "ties": 0})], examples.SCORING)
    assert list(store.scores(run_id)) == before


def test_two_scorings_in_one_batch_are_separate(store: Store) -> None:
    """Scores of two scorings that are written together are both stored, the last one current."""
    run_id = examples.fill(store, examples.plan(), finish=False)
    scores = [Score("letters/1/0", "acc", value) for value in (0.1, 0.2, 0.3)]
    store.add_scores(run_id, scores[:1], examples.OTHER_SCORING)
    store.add_scores(run_id, scores[1:2], "third")
    store.add_scores(run_id, scores[2:], examples.OTHER_SCORING)
    current = [row.value for row in store.scores(run_id) if row.metric == "acc"]
    assert current == [0.3]
    assert store.verify() == []


def test_outputs_need_their_request(store: Store) -> None:
    """An output or score of a request that was never added is refused by name."""
    run = store.open_run(examples.plan(), facts={})
    with pytest.raises(StoreError, match=r"letters/0/0 .* add_requests"):
        store.add(run.run_id, 1, examples.outputs_for(examples.requests()[0]))
    with pytest.raises(StoreError, match=r"nonsense.*<task>/<sample index>/<turn>"):
        store.add_scores(run.run_id, [Score("nonsense", "acc", 1.0)], examples.SCORING)
    with pytest.raises(StoreError, match="no-such-run is not in the store"):
        store.add("no-such-run", 1, [Output("letters/0/0", 0, total_nats=-1.0)])


def test_a_run_ends_in_one_of_four_ways(store: Store) -> None:
    """An unknown status and an unknown attempt are refused with what was expected."""
    run = store.open_run(examples.plan(), facts={})
    with pytest.raises(UsageError, match="'done'; expected one of finished"):
        store.close_run(run.run_id, run.attempt_id, "done")
    with pytest.raises(StoreError, match="no attempt 7"):
        store.close_run(run.run_id, 7, "finished")


def test_later_turns_are_requests_of_their_own(store: Store) -> None:
    """A second turn of a sample is stored and read as a request of its own."""
    run = store.open_run(examples.plan(), facts={})
    first = examples.requests()[0]
    second = replace(first, turn=1, segments=(*first.segments, " A\nQ: And why?\nA:"))
    store.add_requests(run.run_id, [first])
    store.add(run.run_id, 1, examples.outputs_for(first))
    store.add_requests(run.run_id, [second])
    store.add(run.run_id, 1, examples.outputs_for(second))
    assert [record.request for record in store.samples(run.run_id, "letters")] == [first, second]
    assert store.unanswered(run.run_id, [first, second]) == []
