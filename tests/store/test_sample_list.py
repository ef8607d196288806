"""Lists of samples: the same pages from columns as from rows, in order, with the total."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from assaymark.errors import StoreError, UnknownName, UsageError
from assaymark.records import Estimate, RunPlan, Sample, Score, ScoreStatus, content_hash
from assaymark.store import CategoryCount, SampleFacts, Store
from tests.store import examples

CATEGORIES = ("law", "Física", None)
ODD = ("50% of a_b \\ c", "plain words", "UPPER Case É", 'it\'s "quoted"')
N = 30


def row_of(task: str, index: int) -> dict[str, object]:
    """Return a row whose question and category vary."""
    row: dict[str, object] = {"question": f"{task} {index}: {ODD[index % len(ODD)]}?"}
    category = CATEGORIES[index % len(CATEGORIES)]
    return row if category is None else {**row, "category": category}


def make(store: Store, plan: RunPlan) -> str:
    """Store a run with rows of several categories, right, wrong, failed and missing scores; no facts yet."""
    drawn = random.Random(7)
    run = store.open_run(plan, facts={})
    for task in plan.tasks:
        rows = [row_of(task.name, index) for index in range(N)]
        samples = [Sample(task.name, index, row, content_hash(row)) for index, row in enumerate(rows)]
        asked = [replace(request, sample_sha256=sample.sha256)
                 for request, sample in zip(examples.requests(task.name, N), samples, strict=True)]  # fmt: skip
        store.add_requests(run.run_id, asked, samples)
        status = [drawn.choice([ScoreStatus.SCORED, ScoreStatus.SCORED, *ScoreStatus]) for _ in range(N - 2)]
        store.add_scores(
            run.run_id,
            [
                Score(f"{task.name}/{i}/0", "acc", None if state is ScoreStatus.FAILED
                      else drawn.choice([0.0, 0.5, 1.0]),
                      status=state)
                for i, state in enumerate(status)
            ],
            examples.SCORING,
        )  # fmt: skip
    store.close_run(run.run_id, 1, "finished")
    return run.run_id


def chosen(every: list[SampleFacts], **wanted: object) -> list[SampleFacts]:
    """Return the expected list, by plain Python."""
    actual = every
    if wanted.get("task") is not None:
        actual = [each for each in actual if each.task == wanted["task"]]
    if wanted.get("wrong_only"):
        actual = [item for item in actual if item.is_wrong]
    if wanted.get("category") is not None:
        actual = [result for result in actual if result.category == wanted["category"]]
    if wanted.get("query"):
        part = str(wanted["query"])
        actual = [result for result in actual if ascii_lower(part) in ascii_lower(result.snippet)]
    return actual


def ascii_lower(text: str) -> str:
    """Return a text with its ASCII letters in lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def questions() -> Iterator[dict[str, object]]:
    """Yield combinations of filters."""
    for task in (None, "words"):
        for wrong_only in (False, True):
            for category in (None, "law", "Física", "no such"):
                for text in ("", "50%", "a_b", "\\", "upper case", "case é", "Case É", "it's \"q", "absent"):
                    yield {"task": task, "wrong_only": wrong_only, "category": category, "query": text}


def test_pages_are_correct_with_and_without_facts(store: Store) -> None:
    """Every combination of filters gives the same page from columns, from rows, and by plain Python."""
    plan = examples.plan(("letters", "words"), n_samples=N)
    run_id = make(store, plan)
    estimates = examples.estimates_for(plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assaymark.store.sample_facts.fill", lambda *_given, **_named: 0)
        store.save_estimates(run_id, estimates)
    every = list(store.sample_list(run_id, limit=2 * N).samples)
    assert [(each.task, each.sample_index) for each in every] == [
        (task, index) for task in ("letters", "words") for index in range(N)
    ]
    assert {item.status for item in every} == {"scored", "unparsed", "failed", None}
    derived = [(wanted, store.sample_list(run_id, offset=3, limit=4, **wanted)) for wanted in questions()]  # type: ignore[arg-type]
    assert store.fill_facts() == 2 * N
    for wanted, page in derived:
        expected = chosen(every, **wanted)
        assert list(page.samples) == expected[3:7], wanted
        assert page.total == len(expected), wanted
        assert store.sample_list(run_id, offset=3, limit=4, **wanted) == page, wanted  # type: ignore[arg-type]


def test_pages_are_consistent(store: Store) -> None:
    """Pages of any size make up the list, and one beyond its end is empty."""
    plan = examples.plan(n_samples=N)
    run_id = make(store, plan)
    store.save_estimates(run_id, examples.estimates_for(plan))
    whole = store.sample_list(run_id, limit=N).samples
    results = [store.sample_list(run_id, offset=start, limit=7).samples for start in range(0, N, 7)]
    assert tuple(each for page in results for each in page) == whole
    beyond = store.sample_list(run_id, offset=10_000)
    assert (beyond.samples, beyond.total, beyond.offset, beyond.limit) == ((), N, 10_000, 50)


def test_categories_are_counted(store: Store) -> None:
    """Categories are sorted by name, with the same counts with and without stored facts."""
    plan = examples.plan(("letters", "words"), n_samples=N)
    run_id = make(store, plan)
    derived = store.categories(run_id)
    store.save_estimates(run_id, examples.estimates_for(plan))
    result = store.categories(run_id, "words")
    samples = store.sample_list(run_id, "words", limit=N).samples
    assert result == [
        CategoryCount(
            name,
            sum(sample.category == name for sample in samples),
            sum(each.category == name and each.is_wrong for each in samples),
        )
        for name in ("Física", "law", None)
    ]
    assert [(item.category, item.n_samples) for item in derived] == [
        (category.category, category.n_samples) for category in store.categories(run_id)
    ]


def test_turns_of_a_conversation_are_listed_one_by_one(store: Store) -> None:
    """Later turns of a sample are samples of the list, after its first."""
    run = store.open_run(examples.plan(n_samples=2), facts={})
    first = examples.requests(n_samples=2)
    later = [replace(each, turn=1, segments=("And why?",)) for each in first]
    store.add_requests(run.run_id, [*first, *later], examples.samples(n_samples=2))
    store.close_run(run.run_id, 1, "finished")
    for _ in range(2):
        result = store.sample_list(run.run_id).samples
        assert [(item.sample_index, item.turn) for item in result] == [(0, 0), (0, 1), (1, 0), (1, 1)]
        assert result[1].snippet == "And why?"
        store.fill_facts()


@pytest.mark.parametrize(("offset", "limit"), [(-1, 10), (2**63, 10), (0, 0), (0, 10_001), (0, -5)])
def test_an_invalid_page_is_refused(store: Store, offset: int, limit: int) -> None:
    """Invalid numbers are one clear error before any database query."""
    run_id = examples.fill(store, examples.plan())
    with pytest.raises(UsageError, match="expected"):
        store.sample_list(run_id, offset=offset, limit=limit)


def test_unknown_names_are_refused(store: Store) -> None:
    """Unknown runs and tasks, and a text longer than any snippet, are refused."""
    run_id = examples.fill(store, examples.plan())
    with pytest.raises(UnknownName, match="nearest: letters"):
        store.sample_list(run_id, "leters")
    with pytest.raises(UnknownName):
        store.categories(run_id, "none")
    with pytest.raises(StoreError, match="not in the store"):
        store.sample_list("000000000000")
    with pytest.raises(UsageError, match="at most 1,000"):
        store.sample_list(run_id, query="x" * 1_000_000)


def test_imported_estimates_of_another_task_do_not_decide(store: Store) -> None:
    """An estimate whose scores are not stored (its file has only the value) leaves samples without a verdict."""
    run_id = examples.fill(store, examples.plan())
    stated = Estimate("letters", "bleu", "none", 0.3, None, None, "none", 8, details={"kind": "task", "primary": True})
    store.save_estimates(run_id, [stated])
    assert {sample.metric for sample in store.sample_list(run_id).samples} == {None}
