"""Comparison of runs on the same questions: differences, intervals, tests and verdicts."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from assaymark import evaluate
from assaymark.documents.document import document
from assaymark.documents.markdown import markdown_text
from assaymark.documents.terminal import as_text
from assaymark.errors import UsageError
from assaymark.results.comparison.compare import compare_runs, distinct_labels
from assaymark.results.comparison.document import (
    comparison_document,
    comparison_to_json,
    flips_blocks,
)
from assaymark.results.comparison.verdict import table_notes
from assaymark.results.evidence.from_store import run_evidence
from assaymark.results.evidence.records import (
    GroupAggregate,
    GroupSummaryInput,
    MetricInput,
    RunEvidence,
    ScoreRow,
    TaskSummaryInput,
)
from assaymark.results.evidence.task_facts import _asks, plain_spec
from assaymark.statistics.paired import mcnemar_exact
from assaymark.store import Store
from assaymark.tasks.catalog import LIBRARY, Catalog
from tests.results.made import PERPLEXITY, choice_rows, plain_rows, task_of


def run_of(label: str, rows: Sequence[ScoreRow], *tasks: TaskSummaryInput, **changes: object) -> RunEvidence:
    """Return a run with these rows; its tasks are derived from them if none is given."""
    known = tasks or tuple(task_of(name) for name in dict.fromkeys(row.task for row in rows))
    return RunEvidence(label, f"id-{label}", tuple(rows), known, **changes)  # type: ignore[arg-type]


def test_two_discordant_samples_are_not_significant() -> None:
    """Two questions that only B answers correctly and none that only A does give p = 0.5, not 0."""
    a = run_of("a", choice_rows("t", [0.0, 0.0, 1.0, 1.0]))
    b = run_of("b", choice_rows("t", [1.0, 1.0, 1.0, 1.0]))
    (line,) = compare_runs([a, b]).pairs[0].tasks
    assert line.p == pytest.approx(0.5)
    assert (line.n_better, line.n_worse, line.difference) == (2, 0, 0.5)
    assert line.better is None


def test_the_worked_example_of_500_questions() -> None:
    """60 against 35 of 500: 5 points, exact p 0.0134, though two separate intervals would overlap."""
    first = [0.0] * 60 + [1.0] * 35 + [1.0] * 300 + [0.0] * 105
    second = [1.0] * 60 + [0.0] * 35 + [1.0] * 300 + [0.0] * 105
    comparison = compare_runs([run_of("a", choice_rows("t", first)), run_of("b", choice_rows("t", second))])
    (line,) = comparison.pairs[0].tasks
    assert line.difference == pytest.approx(0.05)
    assert line.p == pytest.approx(mcnemar_exact(60, 35))
    assert round(line.p, 4) == 0.0134
    assert line.low is not None
    assert line.low > 0
    assert comparison.verdict.startswith("b is better than a on t: +5.0 points (95% interval")


def test_samples_pair_by_content_in_any_order() -> None:
    """The same samples in another order, two of them identical rows, pair as they would in order."""
    rows = choice_rows("t", [1.0, 0.0, 1.0, 0.0])
    twins = [ScoreRow("t", i, "twin", "acc", float(i == 5)) for i in (4, 5)]
    a = run_of("a", [*rows, *twins])
    shuffled = [
        ScoreRow(row.task, 10 - row.sample_index, row.sample_sha256, row.metric, row.value, detail=row.detail)
        for row in rows
    ]
    b = run_of("b", [*shuffled, *twins])
    (line,) = compare_runs([a, b]).pairs[0].tasks
    assert (line.n, line.difference, line.n_better, line.n_worse) == (6, 0.0, 0, 0)


def test_different_questions_are_refused() -> None:
    """Runs with different samples are refused; the message states how many they share."""
    a = run_of("a", choice_rows("t", [1.0] * 4))
    other = [ScoreRow("t", i, f"other-{i}", "acc", 1.0) for i in range(4)]
    with pytest.raises(UsageError, match="different questions; a has 4 samples, b 5, and 1 are the same"):
        compare_runs([a, run_of("b", [*other, *choice_rows("t", [1.0])])])


def test_a_subset_of_the_samples_is_compared_with_a_note() -> None:
    """A run with a limit is compared on the samples that both have, with a note."""
    a = run_of("a", choice_rows("t", [1.0] * 10))
    pair = compare_runs([a, run_of("b", choice_rows("t", [1.0] * 4))]).pairs[0]
    assert pair.tasks[0].n == 4
    assert pair.notes == ("t: a has 10 samples and b 4; the 4 that both have are compared",)


def test_runs_without_a_common_task_are_refused() -> None:
    """Runs without a common task raise an error that names each run's tasks."""
    with pytest.raises(UsageError, match="no task in common: a has t, b has u"):
        compare_runs([run_of("a", choice_rows("t", [1.0])), run_of("b", choice_rows("u", [1.0]))])


def test_failed_requests_are_excluded_and_counted() -> None:
    """A sample that failed in one run counts for neither."""
    a = run_of("a", plain_rows("t", [1.0, 0.0, 1.0]))
    b = run_of("b", plain_rows("t", [1.0, None, 0.0]))
    (line,) = compare_runs([a, b]).pairs[0].tasks
    assert (line.n, line.n_missing, line.difference) == (2, 1, -0.5)


def test_lower_is_better_metrics_have_the_right_direction() -> None:
    """A model with lower perplexity is the better one; the difference is the log of the ratio."""
    first = [ScoreRow("t", i, f"s{i}", "word_perplexity", None, parts=(-100.0 - i, 20)) for i in range(12)]
    second = [ScoreRow("t", i, f"s{i}", "word_perplexity", None, parts=(-80.0 - i, 20)) for i in range(12)]
    task = task_of("t", PERPLEXITY)
    comparison = compare_runs([run_of("a", first, task), run_of("b", second, task)])
    (line,) = comparison.pairs[0].tasks
    assert line.difference == pytest.approx(-1.0)
    assert (line.better, line.n_better, line.n_worse) == (1, 12, 0)
    assert line.first == pytest.approx(2.718281828 * (line.second or 0))
    assert comparison.pairs[0].overall is None
    assert comparison.verdict.startswith("b is better than a on t: word_perplexity ×0.368")


def test_holm_corrects_over_tasks() -> None:
    """Among twenty tasks without a difference, a single p of 0.03 is not significant."""
    rng = random.Random(4)
    first, second = [], []
    for task in range(20):
        base = [float(rng.random() < 0.5) for _ in range(40)]
        flips = rng.sample(range(40), 8)
        other = [1.0 - value if index in flips else value for index, value in enumerate(base)]
        first += choice_rows(f"t{task}", base)
        second += choice_rows(f"t{task}", other)
    lines = compare_runs([run_of("a", first), run_of("b", second)]).pairs[0].tasks
    assert all(line.p_adjusted is not None and line.p_adjusted >= line.p for line in lines)
    assert min(line.p_adjusted or 0 for line in lines) == pytest.approx(min(1.0, 20 * min(line.p for line in lines)))
    assert not any(line.is_significant for line in lines)


def test_overall_weights_tasks_equally_and_pools_their_evidence() -> None:
    """A small constant gain on each of six tasks is significant overall, though on none alone."""
    first, second = [], []
    for task in range(6):
        base = [1.0] * 50 + [0.0] * 50
        gained = [1.0] * 50 + [1.0] * 6 + [0.0] * 44
        gained[0] = 0.0
        first += choice_rows(f"t{task}", base)
        second += choice_rows(f"t{task}", gained)
    pair = compare_runs([run_of("a", first), run_of("b", second)]).pairs[0]
    assert pair.overall is not None
    assert pair.overall.difference == pytest.approx(0.05)
    assert not any(line.is_significant for line in pair.tasks)
    assert pair.overall.better == 1
    assert "b is better than a over 6 tasks: +5.0 points" in pair.verdict


@pytest.mark.slow
def test_the_overall_interval_covers_the_truth() -> None:
    """In 300 simulated comparisons of four tasks, the overall 95% interval covers the truth in 93 to 98.5%."""
    rng = random.Random(8)
    hits = 0
    for _ in range(300):
        first, second = [], []
        for task, n in enumerate((20, 40, 60, 30)):
            base = [float(rng.random() < 0.6) for _ in range(n)]
            other = [float(rng.random() < 0.7) for _ in range(n)]
            first += choice_rows(f"t{task}", base)
            second += choice_rows(f"t{task}", other)
        overall = compare_runs([run_of("a", first), run_of("b", second)]).pairs[0].overall
        assert overall is not None
        assert overall.low is not None
        assert overall.high is not None
        hits += overall.low <= 0.1 <= overall.high
    assert 0.93 <= hits / 300 <= 0.985


def test_identical_runs_are_not_certainly_equal() -> None:
    """Two runs with the same answers have difference 0 and an interval of positive width."""
    rows = choice_rows("t", [1.0] * 50 + [0.0] * 50) + choice_rows("u", [1.0] * 100)
    overall = compare_runs([run_of("a", rows), run_of("b", rows)]).pairs[0].overall
    assert overall is not None
    assert (overall.difference, overall.p) == (0.0, 1.0)
    assert overall.low is not None
    assert overall.high is not None
    assert overall.low < -0.005 < 0.005 < overall.high


def test_groups_average_with_their_declared_weights() -> None:
    """A micro group weights its tasks by samples; a group counts once in the overall line, like a task outside."""
    first = choice_rows("a", [0.0] * 30) + choice_rows("b", [0.0] * 10) + choice_rows("c", [0.0] * 10)
    second = choice_rows("a", [1.0] * 30) + choice_rows("b", [0.0] * 10) + choice_rows("c", [0.0] * 10)
    groups = (GroupSummaryInput("g", ("a", "b"), (GroupAggregate("acc"),)),)
    pair = compare_runs([run_of("x", first), run_of("y", second)], groups).pairs[0]
    assert pair.groups[0].difference == pytest.approx(0.75)
    assert pair.overall is not None
    assert pair.overall.difference == pytest.approx(0.375)


def test_partial_credit_is_tested_by_permutation() -> None:
    """Shared credit for ties is compared unrounded."""
    a = run_of("a", choice_rows("t", [0.5, 1.0, 0.0, 0.25]))
    b = run_of("b", choice_rows("t", [1.0, 1.0, 0.5, 0.25]))
    (line,) = compare_runs([a, b]).pairs[0].tasks
    assert line.difference == pytest.approx(0.25)
    assert "permutation" in line.method


def test_set_up_differences_are_listed_one_by_one() -> None:
    """Different dtype, shots and prompts are reported in one line each; the model itself is expected to differ."""
    rows = choice_rows("t", [1.0, 0.0])
    prompts = {("t", 0): "p0", ("t", 1): "p1"}
    a = run_of(
        "a",
        rows,
        settings={"model": "m1", "dtype": "float32"},
        task_settings={"t": {"shots": 25}},
        prompt_hashes=prompts,
    )
    b = run_of(
        "b",
        rows,
        settings={"model": "m2", "dtype": "bfloat16"},
        task_settings={"t": {"shots": 0}},
        prompt_hashes={**prompts, ("t", 1): "other"},
    )
    assert compare_runs([a, b]).pairs[0].set_up == (
        "dtype: float32 in a, bfloat16 in b",
        "t shots: 25 in a, 0 in b",
        "t prompts: different for 1 of 2 samples",
    )
    with pytest.raises(UsageError, match="prompts of 1 of 2 samples differ"):
        compare_runs([a, b], strict_prompts=True)


def test_a_difference_of_many_tasks_is_one_line() -> None:
    """A suite's tasks are named together, and their prompts counted together."""
    tasks = [f"t{n}" for n in range(7)]
    rows = [row for task in tasks for row in choice_rows(task, [1.0, 0.0])]
    a, b = (
        run_of(
            name,
            rows,
            task_settings={task: {"shots": shots if task != "t6" else 0} for task in tasks},
            prompt_hashes={(task, at): f"{name if task < 't2' else ''}{at}" for task in tasks for at in (0, 1)},
        )
        for name, shots in (("a", 5), ("b", 0))
    )
    assert compare_runs([a, b]).pairs[0].set_up == (
        "t0, t1, t2, t3, t4 and 1 more shots: 5 in a, 0 in b",
        "t0, t1 prompts: different for 4 of 4 samples",
    )


def test_three_runs_get_rank_sets() -> None:
    """Clearly different models get ranks of their own; models that are not significantly different share ranks."""
    weak, strong = [0.0] * 80 + [1.0] * 20, [0.0] * 20 + [1.0] * 80
    nearly = [0.0] * 21 + [1.0] * 79
    runs = [run_of(name, choice_rows("t", v)) for name, v in (("weak", weak), ("strong", strong), ("nearly", nearly))]
    comparison = compare_runs(runs)
    assert [(comparison.labels[r.index], r.best, r.worst) for r in comparison.ranks] == [
        ("strong", 1, 2),
        ("nearly", 1, 2),
        ("weak", 3, 3),
    ]
    assert [pair.labels for pair in comparison.pairs] == [("weak", "strong"), ("weak", "nearly")]


def test_runs_of_one_model_are_distinguished_by_id() -> None:
    """Two runs with the same label are shown with their ids."""
    rows = choice_rows("t", [1.0])
    assert compare_runs([run_of("m", rows), run_of("m", rows)]).labels == ("m (id-m)", "m (id-m)")


def test_corpus_metrics_are_excluded_with_a_reason() -> None:
    """F1 is defined over all samples only, so it cannot be paired, and a note says so."""
    task = task_of("t", MetricInput("f1", "f1"))
    rows = [ScoreRow("t", i, f"s{i}", "f1", None, parts=(1, i % 2)) for i in range(4)]
    both = choice_rows("u", [1.0, 0.0])
    pair = compare_runs(
        [run_of("a", [*rows, *both], task, task_of("u")), run_of("b", [*rows, *both], task, task_of("u"))]
    ).pairs[0]
    assert [line.name for line in pair.tasks] == ["u"]
    assert pair.notes == ("t f1 is excluded: it is not a mean over samples",)


def three_tasks() -> list[RunEvidence]:
    """Return two runs of three tasks, one of them a perplexity."""
    tasks = (task_of("facts"), task_of("winograd"), task_of("stories", PERPLEXITY))
    first = choice_rows("facts", [1.0] * 40 + [0.0] * 60) + choice_rows("winograd", [1.0] * 50 + [0.0] * 50)
    second = choice_rows("facts", [1.0] * 70 + [0.0] * 30) + choice_rows(
        "winograd", [0.0] * 2 + [1.0] * 51 + [0.0] * 47
    )
    for rows, nats in ((first, -100.0), (second, -90.0)):
        rows += [ScoreRow("stories", i, f"x{i}", "word_perplexity", None, parts=(nats - i, 20)) for i in range(10)]
    return [run_of("demo-small", first, *tasks), run_of("demo-large", second, *tasks)]


def test_long_names_and_narrow_terminals_lose_no_numbers() -> None:
    """Long model names become A and B with a legend; if the column of flips does not fit, they are reported below."""
    long = "a-model-with-a-very-long-name"
    rows = choice_rows("demo_letters_numbers_and_more", [1.0] * 30 + [0.0] * 70)
    comparison = compare_runs(
        [run_of(long, rows), run_of(long, choice_rows("demo_letters_numbers_and_more", [1.0] * 100))]
    )
    text = as_text(comparison_document(comparison), 72)
    assert max(map(len, text.splitlines())) <= 72
    assert f"A {long} (id-{long}), B" in " ".join(text.split())
    assert "+70.0 ▲" in text
    assert "<0.001" in text
    assert "answers that changed: 70 became right, 0 became wrong" in text


@pytest.mark.parametrize("width", [80, 120])
def test_the_comparison_table_keeps_within_its_width(width: int) -> None:
    """Table and verdict fit into 80 and 120 columns and contain the numbers, including a perplexity's factor."""
    text = as_text(comparison_document(compare_runs(three_tasks())), width)
    assert max(map(len, text.splitlines())) <= width
    assert "+30.0 ▲" in text
    assert "×0.6" in text
    assert "demo-large is better than demo-small over 2 of 3 tasks" in " ".join(text.split())


def test_json_and_markdown_have_the_same_content() -> None:
    """JSON has shares in [0, 1] and names the better run; Markdown has one row per line and two header rows."""
    comparison = compare_runs(three_tasks())
    result = json.loads(json.dumps(comparison_to_json(comparison), allow_nan=False))
    facts = result["pairs"][0]["tasks"][0]
    assert (facts["difference"], facts["better"], facts["scale"]) == (pytest.approx(0.3), "demo-large", "proportion")
    markdown = markdown_text(comparison_document(comparison, unfold=True).blocks)
    assert markdown.count("\n| ") == 6
    assert "| facts | acc | 40.0% | 70.0% | +30.0 ▲ |" in markdown
    first, second = three_tasks()
    ranked = markdown_text(
        comparison_document(
            compare_runs([first, second, replace(first, label="third", run_id="id-third")]), unfold=True
        ).blocks
    )
    assert "| rank | run | significantly better than |" in ranked


def test_flips_list_those_that_became_wrong_first() -> None:
    """The list of changed samples begins with those that only the first run answered correctly."""
    comparison = compare_runs(three_tasks())
    text = as_text(document(flips_blocks(comparison)), 100)
    assert text.index("right in demo-small, wrong in demo-large: 2") < text.index(
        "wrong in demo-small, right in demo-large: 33"
    )
    assert "and 25 more" in text


def test_changed_answers_are_counted_consistently() -> None:
    """The line under the table and the lists of `--flips` count the same answers; a perplexity has none."""
    comparison = compare_runs(three_tasks())
    drawn = as_text(comparison_document(comparison), 80)
    assert "answers that changed: 33 became right, 2 became wrong" in drawn
    stories = next(line for line in comparison.pairs[0].tasks if line.name == "stories")
    assert (stories.n_gained, stories.n_better) == (None, 10)


def test_the_units_of_the_overall_line_are_named() -> None:
    """The notes name the overall line's parts, their weight and excluded tasks, and the verdict counts the same."""
    first, second = three_tasks()
    groups = (GroupSummaryInput("pair", ("facts", "winograd"), (GroupAggregate("acc"),)),)
    pair = compare_runs([first, second], groups).pairs[0]
    assert pair.overall is not None
    assert (pair.overall.units, pair.overall.left_out) == ((("pair", 2),), ("stories",))
    text = " ".join(as_text(comparison_document(compare_runs([first, second], groups)), 100).split())
    assert "excluded from overall, not a proportion of correct answers: stories" in text
    assert "over 1 part (2 of 3 tasks)" in text
    assert "of 3 tasks tested individually (Holm): demo-large ahead on 2, 1 not significantly different" in text
    assert "not for the group and overall, a single test each" in text
    assert "intervals: unlike p, not corrected for several tasks" in text


def test_members_are_under_their_group_and_names_are_complete() -> None:
    """A member is shown without its group's prefix; a name too long for its column breaks at an underscore."""
    rows = [choice_rows(name, [1.0, 0.0] * 20) for name in ("g_people", "g_places", "a_very_long_name_of_a_task")]
    every = [row for each in rows for row in each]
    groups = (GroupSummaryInput("g", ("g_people", "g_places"), (GroupAggregate("acc"),)),)
    lines = as_text(
        comparison_document(compare_runs([run_of("x", every), run_of("y", every)], groups)), 72
    ).splitlines()
    top = next(index for index, line in enumerate(lines) if line.startswith(" g "))
    assert [line.split()[0] for line in lines[top : top + 3]] == ["g", "people", "places"]
    assert lines[top + 1].startswith("   people ")
    assert not any(line.split()[:1] == ["ask"] for line in lines)


@pytest.mark.parametrize("by_size", [True, False])
def test_a_group_of_tiny_tasks_has_a_centred_interval(by_size: bool) -> None:
    """Nineteen tasks of two to six samples: the interval covers the truth and is centred on its difference."""
    rng = random.Random(3)
    sizes = {f"s{i}": rng.randint(2, 6) for i in range(19)}
    groups = (GroupSummaryInput("g", tuple(sizes), (GroupAggregate("acc", weight_by_size=by_size),)),)
    hits, off = 0, 0.0
    for _ in range(60):
        runs = [
            run_of(label, [r for n, k in sizes.items() for r in choice_rows(n, draw(rng, k, p))])
            for label, p in (("x", 0.3), ("y", 0.8))
        ]
        line = compare_runs(runs, groups).pairs[0].groups[0]
        assert line.low is not None
        assert line.high is not None
        hits += line.low <= 0.5 <= line.high
        off += ((line.low + line.high) / 2 - line.difference) / 60
    assert hits >= 53
    assert abs(off) < 0.025


def draw(rng: random.Random, n: int, share: float) -> list[float]:
    """Return n answers of which this share is correct."""
    return [float(rng.random() < share) for _ in range(n)]


@pytest.mark.parametrize("asks", [("", ""), ("letters", "numbers")])
def test_a_neutral_share_beside_another_task_is_left_out_of_overall(asks: tuple[str, str]) -> None:
    """It asks something else, and there is no better value of it: a note says that it does not count."""
    tasks = [task_of("t", asks=asks[0]), task_of("u", MetricInput("acc", is_neutral=True), asks=asks[1])]
    runs = [
        run_of(label, [*plain_rows("t", [1.0, value] * 5), *plain_rows("u", [0.5, value] * 5)], *tasks)
        for label, value in (("a", 0.0), ("b", 1.0))
    ]
    pair = compare_runs(runs).pairs[0]
    assert pair.overall is not None
    assert pair.overall.units == (("t", 1),)
    assert (pair.overall.left_out, pair.overall.repeated) == (("u",), ())
    assert "excluded from overall, neither higher nor lower is better: u" in table_notes(pair)


def test_the_two_scorings_of_truthfulqa_ask_the_same() -> None:
    """Their task files differ in names and scoring alone; mc1 has other answers."""
    catalog = Catalog.open(lm_eval=False)
    asks = {
        name: _asks(plain_spec(catalog.select([name]).tasks[0].spec))
        for name in ("truthfulqa_mc2", "truthfulqa_mc2_2023", "truthfulqa_mc1")
    }
    assert asks["truthfulqa_mc2"] == asks["truthfulqa_mc2_2023"] != asks["truthfulqa_mc1"]


def test_two_scorings_of_the_same_questions_count_once(tmp_path: Path) -> None:
    """Of two scorings of demo_truth's requests both are compared, one counts in overall, and a note says so."""
    library = LIBRARY / "demo"
    for name, score in (("demo_truth_first", "float(results[0][0] > -9)"), ("demo_truth_second", "1.0")):
        (tmp_path / f"{name}.py").write_text(f"def score(doc, results):\n    return {{'acc': {score}}}\n")
        (tmp_path / f"{name}.yaml").write_text(
            f"include: {library}/demo_truth.yaml\ntask: {name}\nprocess_results: !function {name}.score\n"
            f"dataset_kwargs: {{data_files: {{train: {library}/data/demo_truth/train.jsonl, "
            f"test: {library}/data/demo_truth/test.jsonl}}}}\n"
        )
    tasks = [str(tmp_path / "demo_truth_second.yaml"), str(tmp_path / "demo_truth_first.yaml"), "demo_facts"]
    place = str(tmp_path / "s.sqlite")
    runs = [evaluate("fake", tasks, model_args={"seed": seed}, limit=12, store=place) for seed in (1, 2)]
    with Store.open(place) as store:
        pair = compare_runs([run_evidence(store, run.id) for run in runs]).pairs[0]
    assert len(pair.tasks) == 3
    assert pair.overall is not None
    assert set(pair.overall.units) == {("demo_facts", 1), ("demo_truth_first", 1)}
    assert pair.overall.repeated == (("demo_truth_second", "demo_truth_first"),)
    differences = {line.name: line.difference for line in pair.tasks}
    assert pair.overall.difference == pytest.approx((differences["demo_facts"] + differences["demo_truth_first"]) / 2)
    note = "demo_truth_second asks what demo_truth_first asks and scores it differently; only demo_truth_first counts"
    assert note in " ".join(table_notes(pair))


def test_runs_of_one_model_are_told_apart() -> None:
    """By their precision where it differs in all of them, else by their ids."""
    runs = [RunEvidence("hf", f"r{at}", (), (), settings={"dtype": dtype}) for at, dtype in enumerate(("f32", "bf16"))]
    assert distinct_labels(runs) == ["hf (f32)", "hf (bf16)"]
    assert distinct_labels([*runs, replace(runs[0], run_id="r2")]) == ["hf (r0)", "hf (r1)", "hf (r2)"]
    assert distinct_labels([runs[0], replace(runs[1], label="other")]) == ["hf", "other"]


def test_costs_below_1_are_not_shares() -> None:
    """Equal differences of a cost have no interval, others Student's, whether its scale is declared or in the table."""
    for metric in (MetricInput("cost", higher_is_better=False), MetricInput("price", scale="number")):
        task = task_of("t", metric)
        a, b = (run_of(str(cost), plain_rows("t", [cost] * 200, metric.name), task) for cost in (0.00021, 0.00042))
        line = compare_runs([a, b]).pairs[0].tasks[0]
        assert (line.scale, line.low, line.high, line.one_sided) == ("plain", None, None, (None, None))
        assert line.p < 0.001
        costs = [0.0001, 0.0003, 0.0004, 0.0007]
        b = run_of("b", plain_rows("t", [0.00021 + cost for cost in costs], metric.name), task)
        a = run_of("a", plain_rows("t", [0.00021] * 4, metric.name), task)
        line = compare_runs([a, b]).pairs[0].tasks[0]
        expected = stats.t.interval(0.95, 3, loc=np.mean(costs), scale=stats.sem(costs))
        assert (line.low, line.high) == pytest.approx(expected)
        assert line.one_sided == pytest.approx(stats.t.interval(0.9, 3, loc=np.mean(costs), scale=stats.sem(costs)))


@pytest.mark.parametrize(("n", "n_lost", "n_gained", "points"), [(200, 1, 0, "3.9"), (20, 2, 1, "36.6"), (5, 1, 0, "")])
def test_the_detectable_effect_agrees_with_the_interval_and_the_test(
    n: int, n_lost: int, n_gained: int, points: str
) -> None:
    """It is above half the interval's width and above what the exact test can call significant, 6 of n; none of 5."""
    first = [1.0] * (n - n_gained) + [0.0] * n_gained
    second = [0.0] * n_lost + [1.0] * (n - n_lost)
    tasks = [run_of(name, plain_rows("t", values)) for name, values in (("a", first), ("b", second))]
    comparison = compare_runs(tasks)
    line = comparison.pairs[0].overall
    assert line is not None
    assert line.low is not None
    assert line.high is not None
    stated = f"{points} points" if points else "none"
    assert f"minimum detectable effect with these samples: {stated} (power 80%)" in comparison.verdict
    if points:
        assert float(points) / 100 > max(6 / n, (line.high - line.low) / 2 * 1.42)


def test_the_detectable_effect_of_graded_scores_follows_the_interval() -> None:
    """It is (1.96 + 0.84) / 1.96 times half the width of the interval that is shown."""
    first, second = [0.1, 0.5, 0.7, 0.2, 0.6, 0.4] * 4, [0.3, 0.4, 0.8, 0.1, 0.7, 0.35] * 4
    comparison = compare_runs([run_of(name, plain_rows("t", each)) for name, each in (("a", first), ("b", second))])
    differences = np.subtract(second, first)
    half = stats.t.ppf(0.975, 23) * stats.sem(differences)
    effect = 100 * half * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / stats.norm.ppf(0.975)
    assert f"minimum detectable effect with these samples: {effect:.1f} points" in comparison.verdict
