"""Import of logs written by Inspect, lighteval, HELM and simple-evals themselves (`logs/README.md`)."""

import json
import os
import shutil
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assaymark.cli.main import main
from assaymark.documents.blocks import Paragraph
from assaymark.errors import DataError
from assaymark.interop.log_files import zip_member
from assaymark.interop.read_imported import read_imported
from assaymark.results.report.contents import report_contents
from assaymark.results.report.document import document_blocks
from assaymark.runs.comparison import compare_runs, stored_runs
from assaymark.runs.exporting import import_run
from assaymark.store import Store

LOGS = Path(__file__).parent / "logs"
TOOLS = {
    "inspect": LOGS / "inspect",
    "lighteval": LOGS / "lighteval",
    "helm": LOGS / "helm",
    "simple_evals": next((LOGS / "simple_evals").iterdir()),
}
Numbers = dict[tuple[str, str], float]


def loaded(file: Path) -> Any:
    """Return a file's JSON."""
    return json.loads(file.read_text())


def member(log: Path, name: str) -> Any:
    """Return the JSON of one member of an Inspect log."""
    with zipfile.ZipFile(log) as archive:
        return json.loads(zip_member(archive, log, name))


def inspect_numbers(place: Path) -> Numbers:
    """Return the values in Inspect's headers."""
    headers = [member(log, "header.json") for log in place.glob("*.eval")]
    return {
        (header["eval"]["task"], score["name"]): score["metrics"]["accuracy"]["value"]
        for header in headers
        for score in header["results"]["scores"]
    }


def lighteval_numbers(place: Path) -> Numbers:
    """Return the values in lighteval's results file."""
    results = loaded(next(place.rglob("results_*.json")))["results"]
    return {
        (task, metric): value
        for task, entry in results.items()
        for metric, value in entry.items()
        if task != "all" and not metric.endswith("_stderr")
    }


def helm_numbers(place: Path) -> Numbers:
    """Return the match metrics in HELM's stats.json."""
    stats = loaded(place / "simple_mcqa" / "stats.json")
    return {
        ("simple_mcqa", each["name"]["name"]): each["mean"]
        for each in stats
        if each["name"]["name"].endswith("exact_match") and "perturbation" not in each["name"]
    }


def simple_evals_numbers(place: Path) -> Numbers:
    """Return simple-evals' score."""
    return {("mmlu", "score"): loaded(place)["score"]}


NUMBERS: dict[str, Callable[[Path], Numbers]] = {
    "inspect": inspect_numbers,
    "lighteval": lighteval_numbers,
    "helm": helm_numbers,
    "simple_evals": simple_evals_numbers,
}
SIZES = {
    "inspect": {"capitals": 6, "sums": 5},
    "lighteval": {"balls|0": 8, "dogs|0": 6},
    "helm": {"simple_mcqa": 5},
    "simple_evals": {"mmlu": 5},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_recomputed_values_equal_the_tools_own(tool: str, tmp_path: Path) -> None:
    """Every value that a tool's files report about samples is reproduced from those samples."""
    result = import_run(str(tmp_path / "store.sqlite"), TOOLS[tool])
    expected = NUMBERS[tool](TOOLS[tool])
    assert result.notes == ()
    assert len(set(expected.values())) > (0 if tool in {"helm", "simple_evals"} else 1)
    for (task, metric), value in expected.items():
        estimate = result.run.estimate(task, metric)
        assert estimate.details["lm_eval_value"] == pytest.approx(value, rel=1e-9), (task, metric)
        assert estimate.n == SIZES[tool][task]
        assert estimate.low is not None


@pytest.mark.parametrize("tool", TOOLS)
def test_an_import_is_complete_marked_and_idempotent(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every sample has its prompt and an answer, the store verifies, and the list of runs shows "imported"."""
    store = str(tmp_path / "store.sqlite")
    run = import_run(store, TOOLS[tool]).run
    for task, size in SIZES[tool].items():
        records = run.samples(task)
        assert len(records) == size
        for record in records:
            assert record.request.prompt.strip()
            assert record.outputs
            assert record.request.target
    assert run.verify() == []
    again = import_run(store, TOOLS[tool])
    assert (again.is_new, again.run.id) == (False, run.id)
    assert main(["ls", "runs", "--store", store]) == 0
    assert "imported" in capsys.readouterr().out


def other_model(tool: str, folder: Path) -> Path:
    """Return a copy of a tool's files, by another model whose first answer of a task has another score."""
    if tool == "inspect":
        return as_json_log(folder, "capitals", model="mockllm/other", first={"choice": {"value": "I"}})
    place = folder / TOOLS[tool].name
    if tool == "simple_evals":
        result = loaded(TOOLS[tool])
        result["htmls"][0] = result["htmls"][0].replace("<p>Score: 1.0</p>", "<p>Score: 0.0</p>")
        place.with_name("mmlu_other_20261121_190000_allresults.json").write_text(json.dumps({**result, "score": 0.4}))
        return place.with_name("mmlu_other_20261121_190000_allresults.json")
    shutil.copytree(TOOLS[tool], place)
    if tool == "helm":
        file = place / "simple_mcqa" / "per_instance_stats.json"
        stats = loaded(file)
        for each in stats[0]["stats"]:
            if each["name"]["name"] == "exact_match":
                each["mean"] = 0.0
        file.write_text(json.dumps(stats))
        spec = place / "simple_mcqa" / "run_spec.json"
        spec.write_text(spec.read_text().replace("simple/model1", "simple/other"))
        return place
    file = next(place.rglob("details_balls*.parquet"))
    rows = pq.read_table(file).to_pylist()
    first = next(row for row in rows if row["metric"]["acc"] == 1)
    first["metric"]["acc"] = 0
    pq.write_table(pa.Table.from_pylist(rows), file)
    results = next(place.rglob("results_*.json"))
    results.write_text(results.read_text().replace('"model_name": "stories260K"', '"model_name": "other"'))
    return place


def as_json_log(folder: Path, task: str, *, model: str, first: dict[str, Any], **changes: Any) -> Path:
    """Write an Inspect log as JSON, as `inspect log dump` does, with other scores of its first sample."""
    log = next(TOOLS["inspect"].glob(f"*_{task}_*"))
    header = member(log, "header.json")
    with zipfile.ZipFile(log) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
    samples = [member(log, name) for name in names]
    samples[0] = {**samples[0], "scores": first, **changes}
    header["eval"]["model"] = model
    file = folder / f"{task}.json"
    file.write_text(json.dumps({**header, "samples": samples}))
    return file


@pytest.mark.parametrize("tool", TOOLS)
def test_imported_runs_compare_like_our_own(tool: str, tmp_path: Path) -> None:
    """Two runs of one tool pair on every sample of a task, with the one answer that changed as their only flip."""
    store = str(tmp_path / "store.sqlite")
    first = import_run(store, TOOLS[tool]).run
    second = import_run(store, other_model(tool, tmp_path)).run
    (pair,) = compare_runs(stored_runs(store, [first.id, second.id]), strict_prompts=True).pairs
    task = next(iter(SIZES[tool]))
    line = next(line for line in pair.tasks if line.name == task)
    assert line.n == SIZES[tool][task]
    assert [flip.is_better for flip in pair.flips] == [False]
    assert line.difference == pytest.approx(-1 / line.n)


def test_values_that_the_samples_do_not_reproduce_are_reported(tmp_path: Path) -> None:
    """A total that its samples do not reproduce is imported with a note of both values."""
    result = import_run(str(tmp_path / "store.sqlite"), other_model("helm", tmp_path))
    assert [note.partition(":")[0] for note in result.notes] == ["simple_mcqa exact_match"]
    assert "reports 0.4, its samples give 0.2" in result.notes[0]


def test_a_sample_that_failed_is_not_a_wrong_answer(tmp_path: Path) -> None:
    """An Inspect sample that ended in an error is counted as failed and excluded from the value."""
    log = as_json_log(tmp_path, "capitals", model="m", first={}, error={"message": "the connection broke"}, output={})
    run = import_run(str(tmp_path / "store.sqlite"), log).run
    estimate = run.estimate("capitals", "choice")
    assert (estimate.n, estimate.n_failed) == (5, 1)
    assert estimate.value == pytest.approx(2 / 5)
    assert run.row.n_failed == 1


def test_a_log_that_holds_fewer_samples_than_it_reports_shows_what_it_reports(tmp_path: Path) -> None:
    """The value of the samples in the file is beside it, in a note."""
    log = as_json_log(tmp_path, "capitals", model="m", first={"choice": {"value": "C"}})
    whole = json.loads(log.read_text())
    (reported,) = (score for score in whole["results"]["scores"] if score["name"] == "choice")
    log.write_text(json.dumps({**whole, "samples": whole["samples"][:1]}))
    result = import_run(str(tmp_path / "store.sqlite"), log)
    estimate, value = result.run.estimate("capitals", "choice"), reported["metrics"]["accuracy"]["value"]
    assert estimate.value == pytest.approx(value)
    assert estimate.n == 6
    assert value < 1
    (note,) = (note for note in result.notes if "choice" in note)
    assert f"the file reports {value:.6g} of 6 samples, and holds 1 of them, which give 1; the reported" in note


def test_a_log_whose_grades_are_not_known_shows_what_it_reports(tmp_path: Path) -> None:
    """Grades such as GOOD give no numbers: the reported value is shown, and no request is said to have failed."""
    log = as_json_log(tmp_path, "capitals", model="m", first={})
    whole = json.loads(log.read_text())
    for sample in whole["samples"]:
        sample["scores"] = {"choice": {"value": "GOOD"}}
    log.write_text(json.dumps({**whole, "reductions": []}))
    (reported,) = (score for score in whole["results"]["scores"] if score["name"] == "choice")
    result = import_run(str(tmp_path / "store.sqlite"), log)
    assert result.run.estimate("capitals", "choice").value == pytest.approx(reported["metrics"]["accuracy"]["value"])
    assert any("holds 6 of them, which give no value; the reported value is shown" in note for note in result.notes)


def test_a_mean_that_is_not_finite_is_undefined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the mean of an Inspect log is NaN, the value from the samples is shown, in JSON too."""
    log = as_json_log(tmp_path, "capitals", model="m", first={})
    whole = json.loads(log.read_text())
    for score in whole["results"]["scores"]:
        for metric in score["metrics"].values():
            metric["value"] = float("nan")
    log.write_text(json.dumps(whole))
    assert main(["import", str(log), "--json", "--store", str(tmp_path / "store.sqlite")]) == 0
    json.loads(capsys.readouterr().out)
    assert main(["show", "last", "--json", "--store", str(tmp_path / "store.sqlite")]) == 0
    assert {each["n"] for each in json.loads(capsys.readouterr().out)["estimates"]} == {5}


def test_epochs_are_repeats_of_one_sample(tmp_path: Path) -> None:
    """Two epochs are two answers to one request, and its score is Inspect's reduction over them."""
    run = import_run(str(tmp_path / "store.sqlite"), TOOLS["inspect"]).run
    records = {record.request.sample_index: record for record in run.samples("sums")}
    assert {len(record.outputs) for record in records.values()} == {2}
    assert {score.value for record in records.values() for score in record.scores} == {0.5, 1.0}


def test_log_likelihoods_of_choices_are_imported(tmp_path: Path) -> None:
    """The choices of lighteval keep their log-likelihoods, from which chance, ties and calibration are computed."""
    run = import_run(str(tmp_path / "store.sqlite"), TOOLS["lighteval"]).run
    rows = {row["doc"]["id"]: row for row in pq.read_table(next(TOOLS["lighteval"].rglob("*balls*"))).to_pylist()}
    for record in run.samples("balls|0"):
        stored = [output.total_nats for output in record.outputs]
        assert stored == rows[str(record.request.sample_index)]["model_response"]["logprobs"]
    estimate = run.estimate("balls|0", "acc")
    assert estimate.chance == 0.25
    assert estimate.details["brier"] > 0


def test_a_report_names_the_tool_of_an_imported_run(tmp_path: Path) -> None:
    """The method section names the tool, and states nothing about how its prompts were made."""
    store = str(tmp_path / "store.sqlite")
    run = import_run(store, TOOLS["inspect"]).run
    blocks = document_blocks(report_contents(Store.open(store), [run.id]))
    text = " ".join(block.text for block in blocks if isinstance(block, Paragraph))
    assert "by inspect_ai 0.3.285, imported" in text
    assert "no request was sent again" in text
    assert "Language Model Evaluation Harness" not in text


def test_helm_runs_that_score_texts_show_their_bits_per_byte(tmp_path: Path) -> None:
    """A HELM run without metrics of answers shows the language-modelling metrics of its statistics."""
    shutil.copytree(TOOLS["helm"], tmp_path / "helm")
    for name in ("stats.json", "per_instance_stats.json"):
        file = tmp_path / "helm" / "simple_mcqa" / name
        result = loaded(file)
        for item in result if name == "stats.json" else [stat for instance in result for stat in instance["stats"]]:
            if "exact_match" in item["name"]["name"]:
                item["name"]["name"] = f"num_{item['name']['name']}"
        file.write_text(json.dumps(result))
    run = import_run(str(tmp_path / "store.sqlite"), tmp_path / "helm").run
    stated = {each["name"]["name"]: each.get("mean") for each in loaded(TOOLS["helm"] / "simple_mcqa" / "stats.json")}
    assert run.estimate("simple_mcqa", "bits_per_byte").value == stated["bits_per_byte"]


def test_totals_alone_show_without_samples(tmp_path: Path) -> None:
    """simple-evals' file of totals is stored with its values, without samples."""
    file = tmp_path / "mmlu_made-up-model_20261121_182800.json"
    result = loaded(TOOLS["simple_evals"])
    file.write_text(json.dumps({**result["metrics"], "score": result["score"]}))
    run = import_run(str(tmp_path / "store.sqlite"), file).run
    assert run.estimate("mmlu", "score").value == 0.6
    assert run.row.n_requests == 0


def test_logs_of_several_models_are_refused(tmp_path: Path) -> None:
    """A folder with logs of two models is not imported as one run."""
    for name in ("a", "b"):
        shutil.copytree(TOOLS["helm"] / "simple_mcqa", tmp_path / "suite" / name)
    spec = tmp_path / "suite" / "b" / "run_spec.json"
    spec.write_text(spec.read_text().replace("simple/model1", "simple/other"))
    with pytest.raises(DataError, match=r"2 models \(simple/model1, simple/other\); import them one by one"):
        read_imported(tmp_path / "suite")


def no_archive(folder: Path) -> Path:
    """Write an Inspect log that is not an archive."""
    (folder / "x.eval").write_text("nothing")
    return folder / "x.eval"


def no_statistics(folder: Path) -> Path:
    """Copy a HELM folder without its statistics."""
    shutil.copytree(TOOLS["helm"], folder / "helm")
    (folder / "helm" / "simple_mcqa" / "stats.json").unlink()
    return folder / "helm"


def no_documents(folder: Path) -> Path:
    """Write details with other columns."""
    pq.write_table(pa.table({"prompt": ["a"]}), folder / "details_x_1.parquet")
    return folder / "details_x_1.parquet"


def no_conversations(folder: Path) -> Path:
    """Write simple-evals' results without their conversations."""
    file = folder / "mmlu_m_20260101_000000_allresults.json"
    file.write_text(json.dumps({**loaded(TOOLS["simple_evals"]), "convos": []}))
    return file


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (no_archive, "is not a log of Inspect"),
        (no_statistics, "stats.json does not exist"),
        (no_documents, "expected doc, metric and model_response"),
        (no_conversations, "5 pages and 0 conversations"),
        (lambda folder: folder / "nowhere", "does not exist"),
    ],
)
def test_bad_files_are_one_line_and_nothing_is_stored(
    broken: Callable[[Path], Path], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files not in their tool's format give exit code 3, one line, and no store."""
    store = str(tmp_path / "store.sqlite")
    assert main(["import", str(broken(tmp_path)), "--store", store]) == 3
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert expected in error
    assert not Store.exists(store)


@pytest.mark.parametrize("reducers", [["mean"], ["mean", "max"]])
def test_values_of_one_name_from_several_scorers_of_inspect_are_all_kept(reducers: list[str], tmp_path: Path) -> None:
    """Each has its scorer's name before its own, and its reducer's after it; the values are those that Inspect reports.

    The layout is inspect_ai 0.3.285's for scorers with `metrics={"right": [mean()], ...}`, two samples and epochs.
    """
    epochs = [  # (sample, scores)
        (0, {"judge_a": {"right": 1, "short": 1}, "judge_b": {"right": 0.25}, "right": "I"}),
        (0, {"judge_a": {"right": 0, "short": 1}, "judge_b": {"right": 0.25}, "right": "I"}),
        (1, {"judge_a": {"right": 0, "short": 1}, "judge_b": {"right": 0.25}, "right": "I"}),
        (1, {"judge_a": {"right": 0, "short": 1}, "judge_b": {"right": 0.25}, "right": "I"}),
    ]
    reduced: dict[str, list[tuple[str, list[Any]]]] = {
        "mean": [("judge_a", [{"right": 0.5, "short": 1}, {"right": 0, "short": 1}]),
                 ("judge_b", [{"right": 0.25}, {"right": 0.25}]), ("right", [0, 0])],
        "max": [("judge_a", [{"right": 1, "short": 1}, {"right": 0, "short": 1}]),
                ("judge_b", [{"right": 0.25}, {"right": 0.25}]), ("right", [0, 0])],
    }  # fmt: skip
    reported: dict[tuple[str, str], dict[str, float]] = {
        ("judge_a", "right"): {"mean": 0.25, "max": 0.5},
        ("judge_a", "short"): {"mean": 1, "max": 1},
        ("judge_b", "right"): {"mean": 0.25, "max": 0.25},
        ("right", "right"): {"mean": 0, "max": 0},
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {"task": "sums", "model": "m", "dataset": {"samples": 2}, "config": {"epochs": 2}},
        "results": {
            "scores": [
                {"name": name, "scorer": scorer, "reducer": reducer, "metrics": {"mean": {"value": values[reducer]}}}
                for (scorer, name), values in reported.items()
                for reducer in reducers
            ]
        },
        "reductions": [
            {"scorer": scorer, "reducer": reducer, "samples": [{"sample_id": n, "value": v} for n, v in enumerate(own)]}
            for reducer in reducers
            for scorer, own in reduced[reducer]
        ],
        "samples": [
            {"id": sample, "epoch": 1 + number % 2, "input": "2+2?", "target": "4", "output": {"completion": "4"},
             "scores": {scorer: {"value": value} for scorer, value in scores.items()}}
            for number, (sample, scores) in enumerate(epochs)
        ],
    }  # fmt: skip
    (tmp_path / "log.json").write_text(json.dumps(log))
    imported = import_run(str(tmp_path / "store.sqlite"), tmp_path / "log.json")
    assert imported.notes == ()
    for (scorer, name), values in reported.items():
        shown = f"{scorer}/{name}" if name == "right" != scorer else name
        for reducer in reducers:
            estimate = imported.run.estimate("sums", f"{shown}_{reducer}" if len(reducers) > 1 else shown)
            assert estimate.value == values[reducer]


def test_members_of_any_compression_are_read(tmp_path: Path) -> None:
    """A deflated archive gives the same bytes as Inspect's Zstandard archive."""
    log = next(TOOLS["inspect"].glob("*.eval"))
    with zipfile.ZipFile(log) as archive:
        header = zip_member(archive, log, "header.json")
    with zipfile.ZipFile(tmp_path / "plain.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", header)
    with zipfile.ZipFile(tmp_path / "plain.eval") as archive:
        assert zip_member(archive, tmp_path / "plain.eval", "header.json") == header
    assert json.loads(header)["status"] == "success"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
@pytest.mark.parametrize(
    "name",
    [
        "log.eval", "log.json", "annotations.json", "leaderboard.csv", "summary_20260115.csv", "results_2026.json",
        "details_task.parquet", "model_allresults.json", "run_spec.json", "table.md", "run.assaymark", "report.jsonl",
    ],
)  # fmt: skip
def test_a_pipe_in_place_of_a_file_is_one_line(name: str, tmp_path: Path) -> None:
    """Whatever reader its name selects, it is not opened: it would wait for a writer. So it is with a device."""

    def stop(*_: object) -> None:
        raise AssertionError(f"{name} was opened")

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / name)
    (tmp_path / name).symlink_to("/dev/zero")
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    try:
        for place in (tmp_path / "folder" / name, tmp_path / "folder", tmp_path / name):
            with pytest.raises(DataError) as caught:
                read_imported(place)
            assert "\n" not in str(caught.value)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
