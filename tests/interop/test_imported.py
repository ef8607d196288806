"""lm-eval's own files in our store: shown, verified and compared like our runs, and marked as imported."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.interop.read_lm_eval import imported_run
from assaymark.records import LoglikelihoodQuery
from assaymark.runs.comparison import compare_runs, stored_runs
from assaymark.runs.exporting import import_run
from assaymark.store import Store
from tests.interop.test_lm_eval_files import results_in
from tests.interop.test_read_lm_eval import line_of, written


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("whose", [0, 1])
def test_the_stored_numbers_are_the_files_own(both: tuple[Path, Path], whose: int, tmp_path: Path) -> None:
    """Every number of lm-eval's results file is reproduced from the imported samples."""
    result = import_run(str(tmp_path / "store.sqlite"), both[whose])
    assert result.is_new
    assert result.notes == ()
    n_checked = 0
    for task, entry in results_in(both[whose])["results"].items():
        for key, value in entry.items():
            metric, _, name_of_filter = key.partition(",")
            if name_of_filter and not metric.endswith("_stderr"):
                estimate = result.run.estimate(task, f"{metric},{name_of_filter}")
                assert estimate.details["lm_eval_value"] == pytest.approx(value, rel=1e-9), (task, key)
                n_checked += 1
    assert n_checked == 8


@pytest.mark.oracle
@pytest.mark.slow
def test_prompts_answers_and_hashes_are_stored(both: tuple[Path, Path], tmp_path: Path) -> None:
    """Each prompt has the hash of its file, each answer its log-likelihood, and the store verifies without problems."""
    run = import_run(str(tmp_path / "store.sqlite"), both[0]).run
    file = next(both[0].glob("samples_arc_easy_*.jsonl"))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line, record in zip(lines, run.samples("arc_easy"), strict=True):
        assert dict(record.sample.row if record.sample else {}) == line["doc"]
        assert [str(output.total_nats) for output in record.outputs] == [answer[0][0] for answer in line["resps"]]
        asked = [query.continuation for query in record.request.queries if isinstance(query, LoglikelihoodQuery)]
        assert asked == [each["arg_1"] for each in line["arguments"].values()]
        assert record.request.prompt == line["arguments"]["gen_args_0"]["arg_0"]
    assert run.verify() == []


@pytest.mark.oracle
@pytest.mark.slow
def test_it_pairs_with_a_run_of_our_own(both: tuple[Path, Path], shared_dir: Path, tmp_path: Path) -> None:
    """A run of ours pairs with the imported one on every sample, on the same prompts, without a flip."""
    import assaymark

    store = str(tmp_path / "store.sqlite")
    theirs = import_run(store, both[0]).run
    ours = assaymark.evaluate(
        "hf", ["arc_easy", "arc_challenge"], limit=8, store=store, data_dir=shared_dir / "data",
        model_args={"pretrained": str(shared_dir / "models" / "stories260K"), "dtype": "float32"},
    )  # fmt: skip
    pair = compare_runs(stored_runs(store, [theirs.id, ours.id]), strict_prompts=True).pairs[0]
    assert {line.name: line.n for line in pair.tasks} == {"arc_challenge": 8, "arc_easy": 8}
    assert pair.flips == ()
    assert not pair.set_up


def sample(index: int, nats: tuple[float, float], acc: float) -> dict[str, Any]:
    """Return a line of a samples file with its answers."""
    line = line_of(index, nats, acc)
    return {**line, "resps": [[answer] for answer in line["filtered_resps"]]}


def test_the_same_files_are_the_same_run(tmp_path: Path) -> None:
    """Importing again adds nothing; other samples under the same results are another run."""
    folder, store = tmp_path / "run", str(tmp_path / "store.sqlite")
    folder.mkdir()
    written(folder, [sample(0, (-1.0, -2.0), 1.0), sample(1, (-2.0, -1.0), 0.0)])
    first, second = import_run(store, folder), import_run(store, folder)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.run.id == first.run.id
    written(folder, [sample(0, (-1.0, -2.0), 1.0), sample(2, (-2.0, -1.0), 0.0)])
    assert import_run(store, folder).run.id != first.run.id


def test_values_that_samples_do_not_reproduce_are_reported(tmp_path: Path) -> None:
    """A results file that reports 0.5 for samples that give 1.0 is stored with a note."""
    folder = tmp_path / "run"
    folder.mkdir()
    written(folder, [sample(0, (-1.0, -2.0), 1.0), sample(1, (-1.0, -2.0), 1.0)])
    result = import_run(str(tmp_path / "store.sqlite"), folder)
    assert len(result.notes) == 1
    assert "reports 0.5, its samples give 1" in result.notes[0]
    assert result.run.estimate("t", "acc").value == 1.0


def test_without_samples_the_reported_values_are_shown(tmp_path: Path) -> None:
    """A results file alone is stored with its own values and errors, without samples."""
    folder = tmp_path / "run"
    folder.mkdir()
    written(folder, [])
    next(folder.glob("samples_*")).unlink()
    run = import_run(str(tmp_path / "store.sqlite"), folder).run
    estimate = run.estimate("t", "acc")
    assert (estimate.value, estimate.stderr) == (0.5, 0.5)
    assert run.row.n_requests == 0
    assert run.verify() == []


def broken(folder: Path, line: dict[str, Any]) -> Path:
    """Write a run whose second sample is `line`."""
    folder.mkdir(exist_ok=True)
    return written(folder, [sample(0, (-1.0, -2.0), 1.0), line])


@pytest.mark.parametrize(
    "line",
    [
        {"no": "sample"},
        {**sample(1, (-1.0, -2.0), 1.0), "doc_id": "first"},
        {**sample(1, (-1.0, -2.0), 1.0), "resps": [[["-1", "True"]]]},
        {**sample(1, (-1.0, -2.0), 1.0), "arguments": {"gen_args_0": {}, "gen_args_1": {}}},
        {**sample(1, (-1.0, -2.0), 1.0), "arguments": 7},
        {**sample(1, (-1.0, -2.0), 1.0), "doc_id": 2**70},
        {**sample(1, (-1.0, -2.0), 1.0), "filter": "\ud800"},
    ],
)
def test_bad_files_are_one_line_and_nothing_is_stored(
    tmp_path: Path, line: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A samples file not in lm-eval's format gives exit code 3, one line, and an unchanged store."""
    store = str(tmp_path / "store.sqlite")
    assert main(["import", str(broken(tmp_path / "run", line)), "--store", store]) == 3
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert error.startswith("error: ")
    assert not Store.exists(store)


def test_other_files_than_results_are_refused(tmp_path: Path) -> None:
    """An empty folder, other JSON and invalid JSON are each refused with what was expected."""
    with pytest.raises(DataError, match="expected a file results_"):
        imported_run(tmp_path)
    file = tmp_path / "results_1.json"
    file.write_text('{"a": 1}')
    with pytest.raises(DataError, match="'results' is missing"):
        imported_run(tmp_path)
    file.write_text("no json")
    with pytest.raises(DataError, match="is not JSON"):
        imported_run(tmp_path)


def with_results(folder: Path, **changes: str) -> Path:
    """Write a results file alone, with some of its parts replaced by JSON text."""
    parts = {
        "results": '{"t": {"acc,none": 0.5, "acc_stderr,none": 0.1}}',
        "configs": '{"t": {"output_type": "multiple_choice"}}',
        "versions": '{"t": 1}',
        **{name.replace("_", "-"): text for name, text in changes.items()},
    }
    folder.mkdir(exist_ok=True)
    file = folder / "results_1.json"
    file.write_text("{" + ", ".join(f'"{name}": {text}' for name, text in parts.items()) + "}")
    return file


def test_values_without_a_filter_are_read(tmp_path: Path) -> None:
    """As in files that were merged by hand: the run was imported without a value and without a word."""
    file = with_results(tmp_path, results='{"t": {"alias": "t", "acc": 0.5, "acc_stderr": 0.1, "sample_len": 40}}')
    (estimate,) = import_run(str(tmp_path / "store.sqlite"), file).run.estimates
    assert (estimate.metric, estimate.filter, estimate.value, estimate.stderr) == ("acc", "none", 0.5, 0.1)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "null", '"N/A"'])
def test_a_number_that_is_not_finite_is_undefined(
    tmp_path: Path, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """NaN and infinity in a results file become null, and the run is imported and shown as JSON."""
    store = ["--store", str(tmp_path / "store.sqlite")]
    file = with_results(tmp_path, results=f'{{"t": {{"acc,none": {number}, "acc_stderr,none": {number}}}}}')
    assert main(["import", str(file), "--json", *store]) == 0
    json.loads(capsys.readouterr().out)
    assert main(["show", "last", "--json", *store]) == 0
    (estimate,) = json.loads(capsys.readouterr().out)["estimates"]
    assert (estimate["value"], estimate["low"], estimate["stderr"]) == (None, None, None)
    assert main(["show", "last", *store]) == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"results": '{"t": {"acc,none": "abc"}}'}, "results.t.'acc,none' is 'abc'; expected a number"),
        ({"results": '{"t": {"acc,none": 1' + 400 * "0" + "}}"}, "results.t.'acc,none' is 1000"),
        ({"results": '{"t": {"acc": 1' + 400 * "0" + "}}"}, "results.t.'acc' is 1000"),
        ({"results": '{"t": null}'}, "results.t is None; expected an object"),
        ({"results": "{}"}, "results is {}; expected at least one task"),
        ({"configs": '{"t": null}'}, "configs.t is None; expected an object"),
        ({"config": "null"}, "config is None; expected an object"),
        ({"n_samples": '{"t": {"original": 5, "effective": -3}}'}, "n-samples.t.effective is -3; expected an integer"),
        ({"config": 200_000 * "["}, "nested too deeply"),
    ],
)
def test_a_malformed_results_file_is_refused_by_key(tmp_path: Path, changes: dict[str, str], expected: str) -> None:
    """A malformed results file is refused in one line that names file, key, value and what was expected."""
    file = with_results(tmp_path, **changes)
    with pytest.raises(DataError) as refused:
        imported_run(file)
    assert str(file) in str(refused.value)
    assert expected in str(refused.value)


def test_it_is_listed_as_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ls runs` and the heading of `show` report that the run is imported."""
    folder, store = tmp_path / "run", str(tmp_path / "store.sqlite")
    folder.mkdir()
    written(folder, [sample(0, (-1.0, -2.0), 1.0), sample(1, (-2.0, -1.0), 0.0)])
    assert main(["import", str(folder), "--store", store]) == 0
    capsys.readouterr()
    assert main(["ls", "runs", "--store", store]) == 0
    assert "imported" in capsys.readouterr().out
    assert main(["show", "last", "--store", store]) == 0
    assert "imported from lm-eval" in " ".join(capsys.readouterr().out.split())
