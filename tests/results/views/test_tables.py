"""Tables of runs at common terminal widths."""

import json
from statistics import NormalDist
from typing import Any

import pytest

from assaymark.documents.numbers import four_digits, shown_interval, shown_p, shown_value
from assaymark.documents.terminal import as_text
from assaymark.records import Estimate, EstimateDetails
from assaymark.results.comparison.document import metrics_note
from assaymark.results.comparison.records import Difference
from assaymark.results.evidence.records import RunView
from assaymark.results.views.cells import table_rows
from assaymark.results.views.run_document import estimate_json, run_document
from assaymark.results.views.subjects import subject_document, weak_subjects
from tests.results.made import estimate_of


def mmlu(shift: float = 0.0) -> list[Estimate]:
    """Return estimates in MMLU's shape: one group with two subgroups of 19 and 3 subjects."""
    cells = [estimate_of("mmlu", 0.3 + shift, 2200, kind="group")]
    for group, size in (("stem", 19), ("social", 3)):
        cells.append(estimate_of(group, 0.3 + shift, 100 * size, kind="group", path=["mmlu"]))
        cells += [estimate_of(f"{group}_{i}", 0.2 + i / 100 + shift, path=["mmlu", group]) for i in range(size)]
    return cells


def view_of(label: str, *estimates: Estimate) -> RunView:
    """Return a run's view."""
    return RunView(label, "8f3a2c1d", estimates, (("profile", "lm-eval-0.4.13"), ("dtype", "float32")))


def full_view(label: str = "model", shift: float = 0.0) -> RunView:
    """Return a run with everything that a table can show."""
    calibration: dict[str, Any] = {"brier": 0.81, "calibration_error": 0.123, "calibration_error_null": 0.041}
    return view_of(
        label,
        *mmlu(shift),
        estimate_of("arc_challenge", 0.25 + shift, 1172, primary=False, n_tied=12, **calibration),
        estimate_of("arc_challenge", 0.27 + shift, 1172, "acc_norm", n_failed=2, **calibration),
        estimate_of("wikitext", 38.2, 62, "word_perplexity", unit="plain", chance=None, low=36.0, high=40.4),
    )


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("n_runs", [1, 2, 5])
def test_tables_keep_within_their_width(width: int, n_runs: int) -> None:
    """No line of a run table is longer than the terminal, for one run or five side by side."""
    text = as_text(run_document([full_view(f"model-{i}", i / 50) for i in range(n_runs)]), width)
    assert max(map(len, text.splitlines())) <= width
    for i in range(n_runs):
        assert f"model-{i}" in text


def test_large_groups_are_folded_and_small_ones_are_not() -> None:
    """Nineteen subjects are folded into their group's line, three are shown."""
    rows = table_rows([full_view()])
    names = [row.name for row in rows if row.is_first]
    assert names == ["mmlu", "stem", "social", "social_0", "social_1", "social_2", "arc_challenge", "wikitext"]
    assert [row.n_hidden for row in rows[:3]] == [0, 19, 0]


def test_a_folded_table_shows_how_many_it_hides() -> None:
    """The folded line has the number of hidden tasks, and is indented below its own group."""
    assert "   stem (19) " in as_text(run_document([full_view()]))


def test_one_run_shows_every_metric_and_several_only_the_primary_one() -> None:
    """A single run shows acc and acc_norm of a task; several runs show only the primary metric."""
    alone, beside = as_text(run_document([full_view()])), as_text(run_document([full_view("a"), full_view("b")]), 120)
    assert "25.0%" in alone
    assert "27.0%" in alone
    assert " acc_norm " in beside
    assert beside.count("arc_challenge") == 3  # its row, its note and the line on the detectable effect


def test_notes_are_under_the_table() -> None:
    """Ties and failed requests are reported in words, with details also the minimum detectable effect."""
    text = " ".join(as_text(run_document([full_view()])).split())
    assert "! arc_challenge acc: 12 ties for the best choice, credit shared" in text
    assert "! arc_challenge acc_norm: 2 failed, excluded" in text
    assert "detectable" not in text
    text = " ".join(as_text(run_document([full_view()], details=True)).split())
    assert "from 3.7 points on arc_challenge to 12.5 points on stem_0" in text


def test_the_composite_of_a_suite_is_above_the_table() -> None:
    """The composite comes first, before baselines and warnings."""
    own: EstimateDetails = {"kind": "composite", "why": "no score of b", "columns": [], "reproduced": True}
    composite = Estimate("board", "mean", "none", None, None, None, "none", 0, details=own)
    text = as_text(run_document([view_of("m", estimate_of("t", 0.5, 6), composite)]))
    assert text.index("m") < text.index("board: no composite") < text.index("metric")


def test_too_few_samples_are_reported_without_a_number() -> None:
    """Six samples detect no effect if a fifth of the answers differ, and the line says so instead of a number."""
    text = " ".join(as_text(run_document([view_of("m", estimate_of("t", 0.5, 6))], details=True)).split())
    assert "none on t (too few samples)" in text


def test_calibration_is_among_the_details() -> None:
    """The table shows value, interval, n and chance; Brier score and calibration error need `--details`."""
    for width in (80, 120):
        assert "Brier" not in as_text(run_document([full_view()]), width)
        text = as_text(run_document([full_view()], details=True), width)
        assert "multiclass" in text
        assert "expected" in text
        assert "12.3%" in text
        assert "4.1%" in text


def test_shots_and_filters_are_shown_and_no_number_is_dropped() -> None:
    """Shots are shown once per task; a filter follows its metric in brackets."""
    cells = [
        estimate_of("truthfulqa_mc2_with_a_long_name", 0.5, 12_032, "exact_match", filter=name, n_shots=25)
        for name in ("strict-match", "flexible-extract")
    ]
    wide, narrow = (as_text(run_document([view_of("m", *cells)]), width) for width in (120, 80))
    for text in (wide, narrow):
        assert text.count(" 25 ") == 1
        assert text.count("12,032") == 2
        assert "…" not in text
        for word in ("exact_match", "strict-match", "flexible-extract", "n-shot", "chance"):
            assert word in text


def test_a_failure_names_its_first_cause() -> None:
    """Failed requests are counted under the table with the first error, even if the task has no value."""
    failed = [estimate_of("t", value, n_failed=2, first_error="TimedOut: no answer in 30 s") for value in (0.5, None)]
    for cell in failed:
        for views in ([view_of("a", cell)], [view_of("a", cell), view_of("b", cell)]):
            text = " ".join(as_text(run_document(views)).split())
            assert "2 failed, excluded (first: TimedOut: no answer in 30 s)" in text


def test_calibration_of_few_samples_is_omitted() -> None:
    """With fewer than fifty samples no calibration error is shown."""
    cell = estimate_of("t", 0.5, 49, brier=0.7, calibration_error=0.443, calibration_error_null=0.477)
    for text in (as_text(run_document([view_of("m", cell)], details=True), width) for width in (80, 120)):
        assert "0.700" in text
        assert "44.3%" not in text
        assert "by chance" not in text  # no column without a number


def test_a_mostly_truncated_prompt_is_reported_once() -> None:
    """If most of a prompt was truncated, the note says so once for all metrics of the task."""
    cells = [estimate_of("t", 0.5, 100, m, n_cut=9, n_mostly_cut=7, primary=m == "acc") for m in ("acc", "acc_norm")]
    text = " ".join(as_text(run_document([view_of("m", *cells)])).split())
    assert text.count("truncated from the left") == 1
    assert "more than half of the prompt was truncated in 7 of 100: not a meaningful score" in text


def test_subjects_are_sorted_with_their_intervals() -> None:
    """The best subject comes first, with its interval in numbers and as a bar."""
    lines = as_text(subject_document(full_view(), "stem")).splitlines()
    body = [line.split()[0] for line in lines if line.strip().startswith("stem_")]
    assert body[0] == "stem_18"
    assert body[-1] == "stem_0"
    assert len(body) == 19
    best = next(line for line in lines if "stem_18" in line)
    assert "33.0–43.0" in best
    assert "●" in best


def test_subjects_significantly_below_the_others_are_named() -> None:
    """A subject far below the others is named with Holm's p; one that could be chance among 57 is not."""
    fair = [estimate_of(f"fair_{i}", 0.5, 200, path=["mmlu"]) for i in range(55)]
    hard, unlucky = estimate_of("hard", 0.25, 200, path=["mmlu"]), estimate_of("unlucky", 0.42, 200, path=["mmlu"])
    ((result, p),) = weak_subjects([*fair, hard, unlucky])
    assert result is hard
    right = round(0.5 * 200) * 55 + round(0.42 * 200)
    pooled = (right + 50) / (56 * 200 + 200)
    z = (right / (56 * 200) - 0.25) / (pooled * (1 - pooled) * (1 / (56 * 200) + 1 / 200)) ** 0.5
    assert p == pytest.approx(57 * NormalDist().cdf(-z), rel=1e-9)
    text = " ".join(as_text(subject_document(view_of("m", *fair, hard, unlucky))).split())
    assert "significantly below the other subjects (one-sided tests, Holm's correction): hard (p <0.001)" in text


def test_a_run_without_subjects_says_so() -> None:
    """Tasks outside of groups are not subjects, and the table says so."""
    assert "no task of this run has subjects" in as_text(subject_document(view_of("m", estimate_of("t", 0.5))))


def test_an_undefined_value_is_a_dash() -> None:
    """A task without any answer shows a dash and no interval, never 0."""
    text = as_text(run_document([view_of("m", estimate_of("t", None, 0, n_failed=5))]))
    assert " – " in text
    assert "0.0%" not in text


def test_json_keeps_shares_and_everything_folded() -> None:
    """The JSON has every estimate, shares in [0, 1] and undefined as null."""
    view = view_of("m", *mmlu(), estimate_of("t", None, 0))
    result = json.loads(json.dumps([estimate_json(each) for each in view.estimates], allow_nan=False))
    assert len(result) == 26
    assert result[0]["value"] == 0.3
    assert result[-1]["value"] is None
    assert result[3]["detail_path"] == ["mmlu", "stem"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.73124, "0.7312"),
        (38.2149, "38.21"),
        (803049.79, "803,050"),
        (1.6e9, "1.6e+09"),
        (-1.5, "-1.500"),
        (0.0, "0.0000"),
    ],
)
def test_numbers_have_four_digits(value: float, shown: str) -> None:
    """Numbers other than shares have four significant digits at every size."""
    assert four_digits(value) == shown


def test_shares_are_percentages_with_one_decimal() -> None:
    """A share is shown as 63.4%, its interval without the sign, and p with two or three digits."""
    assert shown_value(0.634, proportion=True) == "63.4%"
    assert shown_interval(0.601, 0.666, proportion=True) == "60.1–66.6"
    assert [shown_p(p) for p in (0.0004, 0.0134, 0.21)] == ["<0.001", "0.013", "0.21"]


def test_a_group_without_a_mean_is_a_heading() -> None:
    """Tasks of a group without a value are indented under its name, in one run and side by side."""
    views = [view_of(name, estimate_of("a", 0.5, path=["set"]), estimate_of("b", 0.6, n_tied=1)) for name in "xy"]
    for table in (run_document(views[:1]), run_document(views)):
        lines = as_text(table).splitlines()
        assert any(line.strip() == "set · no mean" for line in lines)
        assert any(line.startswith("   a ") for line in lines)


def test_a_comparison_names_the_metric_of_each_line() -> None:
    """The note under the table names each metric with its lines, the commonest one last; Markdown has a column."""

    def line(name: str, metric: str) -> Difference:
        return Difference(name, "task", metric, "none", "plain", 0.1, 0.2, 0.1, None, None, 1.0, 10, 0, 0, "none")

    lines = [line("arc", "acc_norm"), line("mmlu", "acc"), line("piqa", "acc")]
    assert metrics_note(lines) == "metric: acc_norm (arc); acc elsewhere"
    assert metrics_note(lines[1:]) == "metric: acc"
    assert metrics_note([]) == ""
