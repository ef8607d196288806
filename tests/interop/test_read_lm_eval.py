"""Reading of lm-eval's own files: recomputed values equal its own, and they can be compared with ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import DataError
from assaymark.interop.read_lm_eval import imported_run, read_lm_eval
from assaymark.records import Estimate
from assaymark.results.comparison.compare import compare_runs
from assaymark.results.evidence.summarise import summarise
from tests.interop.test_lm_eval_files import results_in


def recomputed(folder: Path) -> dict[tuple[str, str, str], Estimate]:
    """Return the estimates recomputed from the files in a folder."""
    run = read_lm_eval(folder)
    result = summarise(run.rows, run.tasks, run.groups, bootstrap_iters=1000)
    return {(estimate.task, estimate.metric, estimate.filter): estimate for estimate in result}


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("whose", [0, 1])
def test_aggregating_again_gives_the_files_own_numbers(both: tuple[Path, Path], whose: int) -> None:
    """Every value and error in lm-eval's results file, and in ours, is reproduced from its samples."""
    results = results_in(both[whose])["results"]
    result = recomputed(both[whose])
    n_checked = 0
    for task, entry in results.items():
        for key, value in entry.items():
            metric, _, name_of_filter = key.partition(",")
            if not name_of_filter:
                continue
            which = "lm_eval_stderr" if metric.endswith("_stderr") else "lm_eval_value"
            estimate = result[task, metric.removesuffix("_stderr"), name_of_filter]
            expected = None if value == "N/A" else pytest.approx(value, rel=1e-9)
            assert dict(estimate.details)[which] == expected, (task, key)
            n_checked += 1
    assert n_checked == 16


@pytest.mark.oracle
@pytest.mark.slow
def test_a_foreign_run_pairs_with_ours(both: tuple[Path, Path]) -> None:
    """lm-eval's run and ours of the same model are paired and agree on every sample, with the same prompts."""
    runs = [read_lm_eval(folder) for folder in both]
    pair = compare_runs(runs, strict_prompts=True).pairs[0]
    assert [line.name for line in pair.tasks] == [task.name for task in runs[0].tasks]
    assert all(line.n == 8 for line in pair.tasks)
    assert pair.flips == ()
    assert not [line for line in pair.set_up if "prompts" in line]


@pytest.mark.oracle
@pytest.mark.slow
def test_ties_and_calibration_are_computed_from_the_log_likelihoods(both: tuple[Path, Path]) -> None:
    """A multiple-choice file allows Brier score and chance as well, which lm-eval does not print."""
    estimate = recomputed(both[0])["arc_easy", "acc", "none"]
    assert estimate.chance == pytest.approx(0.25, abs=0.02)
    assert estimate.details["brier"] > 0


def written(folder: Path, lines: list[dict[str, Any]]) -> Path:
    """Write a small run in lm-eval's format and return its folder."""
    results = {
        "results": {"t": {"alias": "t", "acc,none": 0.5, "acc_stderr,none": 0.5}},
        "configs": {"t": {"task": "t", "output_type": "multiple_choice", "metric_list": [{"metric": "acc"}]}},
        "versions": {"t": 1.0},
        "model_name": "org/model",
    }
    (folder / "results_2026-01-01T00-00-00.000000.json").write_text(json.dumps(results))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "samples_t_2026-01-01T00-00-00.000000.jsonl").write_text(text)
    return folder


def line_of(index: int, nats: tuple[float, float], acc: float) -> dict[str, Any]:
    """Return a sample whose first choice is correct."""
    return {
        "doc_id": index,
        "doc": {"id": index},
        "target": "0",
        "arguments": {f"gen_args_{i}": {"arg_0": "Q:", "arg_1": f" {text}"} for i, text in enumerate(("yes", "no"))},
        "filtered_resps": [[str(value), "False"] for value in nats],
        "filter": "none",
        "metrics": ["acc"],
        "acc": acc,
    }


def test_a_tie_in_lm_evals_file_is_detected(tmp_path: Path) -> None:
    """Two equal log-likelihoods are a tie in our value; lm-eval's own value is stored too."""
    run = read_lm_eval(written(tmp_path, [line_of(0, (-1.0, -1.0), 1.0), line_of(1, (-3.0, -1.0), 0.0)]))
    (estimate,) = summarise(run.rows, run.tasks)
    assert (estimate.value, estimate.details["lm_eval_value"], estimate.details["n_tied"]) == (0.25, 0.5, 1)
    assert run.label == "model"


def test_what_a_function_of_the_task_file_aggregates_is_as_reported(tmp_path: Path) -> None:
    """The mean of such scores is another number; where it is the same, it has the samples' interval.

    Another task's metric of the same name is not meant: there the samples count.
    """
    lines = [line_of(0, (-1.0, -2.0), 1.0), line_of(1, (-3.0, -1.0), 0.0)]
    folder = written(tmp_path, [{**line, "resps": [[each] for each in line["filtered_resps"]]} for line in lines])
    (file,) = folder.glob("results_*.json")
    content = json.loads(file.read_text())
    content["configs"]["t"]["metric_list"] = [{"metric": "acc", "aggregation": "def low(items): return min(items)"}]
    for value, n_notes in ((0.0, 1), (0.5, 0)):
        content["results"]["t"]["acc,none"] = value
        file.write_text(json.dumps(content))
        run = imported_run(folder)
        assert [(each.metric, each.value) for each in run.estimates] == [("acc", value)]
        assert len([note for note in run.notes if "a function of the task file aggregates it" in note]) == n_notes
        assert (run.estimates[0].low is None) == bool(n_notes)
    content["configs"] = {"t": {**content["configs"]["t"], "metric_list": []}, "other": content["configs"]["t"]}
    content["results"]["t"]["acc,none"] = 0.0
    file.write_text(json.dumps(content))
    assert [each.value for each in imported_run(folder).estimates if each.task == "t"] == [0.5]


def test_pairs_are_read_as_they_are_meant(tmp_path: Path) -> None:
    """lm-eval writes arrays as texts in brackets, what no filter found as [invalid], and some labels as lists."""
    line = {**line_of(0, (-1.0, -2.0), 1.0), "metrics": ["acc", "chrf", "brier_score", "mcc"]}
    line |= {"chrf": ["2", "[invalid]"], "brier_score": ["0", "[0.75 0.25]"], "mcc": [[1], 0]}
    parts = {row.metric: row.parts for row in read_lm_eval(written(tmp_path, [line])).rows}
    assert (parts["chrf"], parts["brier_score"]) == (("2", "[invalid]"), ("0", (0.75, 0.25)))
    assert parts["mcc"] == (1, 0)


def test_a_duplicate_sample_is_refused(tmp_path: Path) -> None:
    """Two lines of one doc_id are an error, unless the filter differs."""
    line = line_of(0, (-1.0, -2.0), 1.0)
    assert len(read_lm_eval(written(tmp_path, [line, {**line, "filter": "other"}])).rows) > 1
    with pytest.raises(DataError, match=r"line 3: doc_id 0 \(filter none\) occurs twice"):
        read_lm_eval(written(tmp_path, [line, line_of(1, (-1.0, -2.0), 1.0), {**line, "doc": {"id": 5}}]))


def test_other_files_than_lm_evals_are_refused(tmp_path: Path) -> None:
    """An empty folder, a file of another kind and a broken line are errors that name the location."""
    with pytest.raises(DataError, match="no results of lm-eval"):
        read_lm_eval(tmp_path)
    other = tmp_path / "results_x.json"
    other.write_text('{"scores": []}')
    with pytest.raises(DataError, match="'results' is missing"):
        read_lm_eval(other)
    other.unlink()
    folder = written(tmp_path, [line_of(0, (-1.0, -2.0), 1.0)])
    (samples,) = folder.glob("samples_*.jsonl")
    samples.write_text(samples.read_text() + "{broken\n")
    with pytest.raises(DataError, match="line 2 is not JSON"):
        read_lm_eval(folder)
