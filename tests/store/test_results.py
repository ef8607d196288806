"""Scores are in the order of the plan, samples in that of the data, and pages are consistent."""

from assaymark.records import Score, ScoreStatus
from assaymark.store import Store, results
from tests.store import examples


def test_scores_are_ordered_and_complete(store: Store) -> None:
    """Scores are ordered by task as in the plan, then by filter, metric and sample."""
    run_id = examples.fill(store, examples.plan(("words", "letters"), n_samples=3))
    rows = list(store.scores(run_id))
    expected = [
        (task, metric, index) for task in ("words", "letters") for metric in ("acc", "acc_norm") for index in range(3)
    ]
    assert [(row.task, row.metric, row.sample_index) for row in rows] == expected
    assert rows[1].value == 1.0
    assert rows[1].detail == {"picked": 0, "ties": 0}
    assert list(store.scores(run_id, "letters")) == rows[6:]
    assert [row.detail for row in store.scores(run_id, details=False)] == [None] * 12
    assert list(store.scores(run_id, indices=[2, 0, 2])) == [row for row in rows if row.sample_index != 1]
    assert list(store.scores(run_id, "letters", indices=[])) == []


def test_a_score_keeps_its_status_and_parts(store: Store) -> None:
    """Undefined values, the parts of a corpus metric and the reason of a failure are read."""
    run_id = examples.fill(store, examples.plan(), finish=False)
    scores = [
        Score("letters/0/0", "word_perplexity", None, parts=(-12.5, 3)),
        Score("letters/1/0", "word_perplexity", None, status=ScoreStatus.FAILED, detail={"error": "too long"}),
        Score("letters/2/0", "word_perplexity", None, status=ScoreStatus.UNPARSED),
    ]
    store.add_scores(run_id, scores, examples.SCORING)
    rows = [row for row in store.scores(run_id) if row.metric == "word_perplexity"]
    assert [row.parts for row in rows] == [(-12.5, 3), None, None]
    assert [row.status for row in rows] == [ScoreStatus.SCORED, ScoreStatus.FAILED, ScoreStatus.UNPARSED]
    assert rows[1].detail == {"error": "too long"}


def test_samples_are_paged(store: Store) -> None:
    """Pages of any size are consistent, and selected samples are in order."""
    run_id = examples.fill(store, examples.plan(n_samples=results.PAGE + 50))
    whole = list(store.samples(run_id, "letters"))
    assert [record.request.sample_index for record in whole] == list(range(results.PAGE + 50))
    assert list(store.samples(run_id, "letters", offset=190, limit=20)) == whole[190:210]
    assert list(store.samples(run_id, "letters", offset=results.PAGE + 49)) == whole[-1:]
    chosen = store.samples(run_id, "letters", indices=[201, 5, 7, 9999], offset=1)
    assert [record.request.sample_index for record in chosen] == [7, 201]


def test_right_samples_are_omitted_before_they_are_read(store: Store) -> None:
    """Wrong, failed and unscored samples are read, right ones are not; another metric omits others."""
    run = store.open_run(examples.plan(), facts={})
    store.add_requests(run.run_id, examples.requests(), examples.samples())
    values = [1.0, 0.5, 0.49, 0.0, None, -3.0]
    scores = [
        Score(f"letters/{i}/0", "acc", value, status=ScoreStatus.FAILED if value is None else ScoreStatus.SCORED)
        for i, value in enumerate(values)
    ]
    store.add_scores(run.run_id, [*scores, Score("letters/7/0", "f1", 1.0)], examples.SCORING)
    assert store.score_names(run.run_id, "letters") == [("none", "acc"), ("none", "f1")]

    def left(metric: str) -> list[int]:
        result = store.samples_not_right(run.run_id, "letters", ("none", metric))
        return [record.request.sample_index for record in result]

    assert left("acc") == [2, 3, 4, 6, 7]
    assert left("f1") == [0, 1, 2, 3, 4, 5, 6]
    assert left("bleu") == list(range(8))


def test_reading_half_of_the_samples_blocks_nobody(store: Store) -> None:
    """A reader that stops half-way does not block writing or removing."""
    run_id = examples.fill(store, examples.plan(n_samples=results.PAGE + 50))
    pages = store.samples(run_id, "letters")
    next(pages)
    store.remove(run_id)
    assert len(list(pages)) == results.PAGE - 1


def test_no_scores_are_no_rows(store: Store) -> None:
    """A run without scores, and a request without outputs, read as empty."""
    run = store.open_run(examples.plan(), facts={})
    assert list(store.scores(run.run_id)) == []
    assert list(store.samples(run.run_id, "letters")) == []
    assert store.outputs_of(run.run_id, ["letters/0/0", "other/0/0"]) == {"letters/0/0": [], "other/0/0": []}
    assert store.estimates(run.run_id) == []
