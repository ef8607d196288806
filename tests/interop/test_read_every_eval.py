"""Records of Every Eval Ever are read: what was exported comes back, and what is wrong with others is said."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.interop.every_eval_files import write_records
from assaymark.interop.every_eval_records import read_record, record_files
from assaymark.interop.every_eval_results import Publisher
from assaymark.interop.read_every_eval import read_every_eval
from assaymark.results.evidence.from_store import facts_shown
from assaymark.runs.exporting import Imported, import_run
from assaymark.runs.run import Run
from tests.interop.test_every_eval_files import of_application, of_demo, of_judging, of_suite

WHO = Publisher("The Testers", "third_party", "testers/model")
NAME = "f3a1c0de-4b2e-4c1a-9f6d-1b7e5a2c8d40"


@pytest.mark.parametrize("make", [of_demo, of_suite, of_application, of_judging])
def test_what_was_exported_comes_back(make: Callable[[Path], Run], tmp_path: Path) -> None:
    """Each value has the same n and the same interval; where the samples give another interval, a note has both."""
    run = make(tmp_path)
    write_records(run.store, run.id, tmp_path / "out", WHO)
    imported = import_run(str(tmp_path / "empty.sqlite"), tmp_path / "out")
    own = {(each.task, each.metric, each.filter): each for each in imported.run.estimates}
    expected = [each for each in run.store.estimates(run.id) if each.value is not None]
    assert own.keys() == {(each.task, each.metric, each.filter) for each in expected}
    said = "\n".join(imported.notes)
    for each in expected:
        read = own[each.task, each.metric, each.filter]
        assert read.value == pytest.approx(each.value, rel=1e-9)
        assert (read.n, read.higher_is_better, read.confidence) == (each.n, each.higher_is_better, each.confidence)
        assert read.chance is None or read.chance == pytest.approx(each.chance)  # a group states none
        if read.low != pytest.approx(each.low) or read.high != pytest.approx(each.high):
            assert f"{each.task} {each.metric}: its interval in the file is from {each.low:.4g}" in said
    assert imported.run.store.verify() == []


def test_answers_come_back(tmp_path: Path) -> None:
    """Prompts, answers, scores and filters of the samples are those of the run."""
    run = of_demo(tmp_path)
    write_records(run.store, run.id, tmp_path / "out", WHO)
    read = import_run(str(tmp_path / "empty.sqlite"), tmp_path / "out").run
    for ours, theirs in zip(run.samples("demo_sums"), read.samples("demo_sums"), strict=True):
        assert ours.request.sample_index == theirs.request.sample_index
        assert ours.request.prompt == theirs.request.prompt
        assert [output.text for output in ours.outputs] == [output.text for output in theirs.outputs]
        assert {(each.metric, each.filter, each.value) for each in ours.scores} == {
            (each.metric, each.filter, each.value) for each in theirs.scores
        }


@pytest.mark.parametrize(("place", "n", "value"), [("community", 15, 0.5229), ("demo-source", 1, 0.75)])
def test_published_records_are_read(shared_dir: Path, tmp_path: Path, place: str, n: int, value: float) -> None:
    """A record of schema 0.2 without samples, and one of 0.3 whose one sample is not all that its value is of."""
    imported = import_run(str(tmp_path / "s.sqlite"), shared_dir / "interchange" / place)
    assert len(imported.run.estimates) == n
    first = imported.run.estimates[0]
    assert (first.value, first.low, first.n, first.metric) == (value, None, 0, "accuracy")
    said = [note for note in imported.notes if "holds 1 of them, which give 1; the reported value is shown" in note]
    assert len(said) == (place == "demo-source")


# ------------------------------------------------------------------------------------------------ made records


def record_of(**changes: Any) -> dict[str, Any]:
    """Return a record with one result; changes: of the result, by part."""
    result: dict[str, Any] = {
        "evaluation_name": "bench",
        "evaluation_result_id": "bench/acc",
        "source_data": {"dataset_name": "bench", "source_type": "other"},
        "metric_config": {
            "metric_name": "acc", "lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 1,
        },
        "score_details": {"score": 0.5, "uncertainty": {"num_samples": 2}},
    }  # fmt: skip
    for part, values in changes.items():
        result[part] = {**result[part], **values}
    return {
        "schema_version": "0.2.2",
        "evaluation_id": "bench/us_model/1750000000",
        "retrieved_timestamp": "1750000000",
        "source_metadata": {
            "source_type": "evaluation_run", "source_organization_name": "Us", "evaluator_relationship": "other",
        },
        "eval_library": {"name": "tool", "version": "1"},
        "model_info": {"name": "model", "id": "us/model"},
        "evaluation_results": [result],
    }  # fmt: skip


def row_of(sample: str, score: float, **changes: Any) -> dict[str, Any]:
    """Return a row of a sample of one turn."""
    return {
        "schema_version": "0.2.2", "evaluation_id": "bench/us_model/1750000000", "model_id": "us/model",
        "evaluation_name": "bench", "sample_id": sample, "interaction_type": "single_turn",
        "input": {"raw": f"question {sample}", "reference": ["yes"]}, "output": {"raw": ["yes"]},
        "answer_attribution": [], "evaluation": {"score": score, "is_correct": score == 1}, **changes,
    }  # fmt: skip


def written(folder: Path, record: dict[str, Any], rows: list[dict[str, Any]] | None = None) -> Path:
    """Write a record, and its samples, into a folder; return the record's file."""
    folder.mkdir(parents=True, exist_ok=True)
    if rows is not None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{NAME}_samples.jsonl").write_text(text)
        record.setdefault(
            "detailed_evaluation_results",
            {
                "format": "jsonl", "file_path": f"data/bench/us/model/{NAME}_samples.jsonl",
                "hash_algorithm": "sha256", "checksum": hashlib.sha256(text.encode()).hexdigest(),
                "total_rows": len(rows),
            },
        )  # fmt: skip
    file = folder / f"{NAME}.json"
    file.write_text(json.dumps(record))
    return file


def imported(folder: Path, record: dict[str, Any], rows: list[dict[str, Any]] | None = None) -> Imported:
    """Write a record and import it."""
    return import_run(str(folder / "s.sqlite"), written(folder, record, rows))


def test_a_stated_interval_is_shown_as_it_is_stated(tmp_path: Path) -> None:
    """Ends and method are the record's; the standard error stays beside them."""
    stated = {"lower": 0.3, "upper": 0.6, "confidence_level": 0.95, "method": "bootstrap"}
    uncertainty = {"confidence_interval": stated, "standard_error": {"value": 0.1}, "num_samples": 40}
    (each,) = imported(tmp_path, record_of(score_details={"score": 0.5, "uncertainty": uncertainty})).run.estimates
    assert (each.low, each.high, each.confidence, each.stderr, each.n) == (0.3, 0.6, 0.95, 0.1, 40)
    assert each.method.startswith("bootstrap")


def test_an_interval_without_a_level_is_not_taken_for_one_of_95_per_cent(tmp_path: Path) -> None:
    """It is said, and the interval is computed from the standard error."""
    uncertainty = {"confidence_interval": {"lower": 0.3, "upper": 0.6}, "standard_error": {"value": 0.1}}
    result = imported(tmp_path, record_of(score_details={"score": 0.5, "uncertainty": uncertainty}))
    (each,) = result.run.estimates
    assert each.method == "wilson, from the file's standard error"
    assert any("without a confidence level" in note for note in result.notes)


@pytest.mark.parametrize(
    ("low", "high", "level", "said"),
    [
        (0.6, 0.7, 0.95, "does not hold the value 0.5"), (30, 60, 0.95, "does not hold the value 0.5"),
        (-3, 7, 0.95, "wider than its metric's bounds"), (0.3, 0.6, 0.5, "of 50% from 0.3 to 0.6 is not shown among"),
    ],
)  # fmt: skip
def test_an_interval_that_contradicts_its_value_is_not_shown(
    low: float, high: float, level: float, said: str, tmp_path: Path
) -> None:
    """Nor one of another level, which the tables' heading would call one of 95%; the line says so."""
    stated = {"lower": low, "upper": high, "confidence_level": level}
    uncertainty = {"confidence_interval": stated, "standard_error": {"value": 0.1}}
    result = imported(tmp_path, record_of(score_details={"score": 0.5, "uncertainty": uncertainty}))
    (each,) = result.run.estimates
    assert each.method == "wilson, from the file's standard error"
    assert any(said in note for note in result.notes)


def test_per_cent_is_read_only_where_it_is_stated(tmp_path: Path) -> None:
    """Of a share whose bounds are 0 and 100, 62.5 is 0.625; points of an unknown metric stay as they are."""
    ends = {"min_score": 0, "max_score": 100}
    score = {"score_details": {"score": 62.5}}
    share = imported(tmp_path / "a", record_of(metric_config=ends, **score)).run.estimates[0]
    points = imported(
        tmp_path / "b", record_of(metric_config={**ends, "metric_name": "points"}, **score)
    ).run.estimates[0]
    rating = {"metric_name": "elo", "min_score": "-Infinity", "max_score": "Infinity"}
    elo = imported(tmp_path / "c", record_of(metric_config=rating, score_details={"score": 1250.0})).run.estimates[0]
    assert [(each.value, each.details.get("unit")) for each in (share, points, elo)] == [
        (0.625, "proportion"), (62.5, "plain"), (1250.0, "plain"),
    ]  # fmt: skip


def test_lower_is_better_and_unknown_levels(tmp_path: Path) -> None:
    """The direction is the record's, and a level of -1 that stands for unknown is no value."""
    levels = {
        "lower_is_better": True,
        "score_type": "levels",
        "level_names": ["low", "high"],
        "has_unknown_level": True,
    }
    record = record_of(metric_config={**levels, "min_score": 0, "max_score": 1}, score_details={"score": -1})
    (each,) = imported(tmp_path, record).run.estimates
    assert (each.value, each.higher_is_better) == (None, False)


def test_conversations_and_agents_are_read(tmp_path: Path) -> None:
    """The prompt is what came before the last answer, with the calls of tools; the answer is the last message."""
    messages = [
        {"turn_idx": 0, "role": "user", "content": "How warm is it in Rome?"},
        {"turn_idx": 1, "role": "assistant", "content": None,
         "tool_calls": [{"id": "1", "name": "weather", "arguments": {"city": "Rome"}}]},
        {"turn_idx": 2, "role": "tool", "content": "21", "tool_call_id": ["1"]},
        {"turn_idx": 3, "role": "assistant", "content": "21 degrees."},
    ]  # fmt: skip
    usage = {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}
    rows = [
        row_of("a", 1, interaction_type="agentic", messages=messages, output=None, token_usage=usage),
        row_of("b", 0, interaction_type="multi_turn", messages=messages[:1], output=None),
    ]
    first, second = imported(tmp_path, record_of(), rows).run.samples("bench")
    assert "weather {'city': 'Rome'}" in first.request.prompt
    assert first.request.prompt.endswith("tool: 21")
    (output,) = first.outputs
    assert (output.text, output.n_context_tokens, output.n_tokens) == ("21 degrees.", 30, 4)
    assert second.request.prompt == "user: How warm is it in Rome?"


def test_trials_of_a_question_are_one_sample(tmp_path: Path) -> None:
    """Of 50 questions with 8 rows each n is 50, and the interval is that of 50 means; answers stay in their order.

    Rows of another metric are the same trials, and an equal id with another question is another sample.
    """
    record = record_of(score_details={"score": 0.46, "uncertainty": {"num_samples": 400}})
    second = json.loads(json.dumps(record["evaluation_results"][0]))
    second |= {"evaluation_result_id": "bench/em", "metric_config": {**second["metric_config"], "metric_name": "em"}}
    record["evaluation_results"].append(second)
    rows = [
        row_of(str(at), float(at % 23 >= 12), evaluation_result_id=f"bench/{metric}", output={"raw": [f"try {trial}"]})
        for trial in range(8) for at in range(50) for metric in ("acc", "em")
    ]  # fmt: skip
    run = imported(tmp_path, record, rows).run
    mean = sum(at % 23 >= 12 for at in range(50)) / 50
    for each in run.estimates:
        assert each.value == pytest.approx(mean)
        assert each.n == 50
        assert each.low is not None
        assert each.high is not None
        assert 0.24 < each.high - each.low < 0.30  # of 400 questions it would be 0.1
    samples = run.samples("bench")
    assert [each.request.sample_index for each in samples] == list(range(50))
    assert all([output.text for output in each.outputs] == [f"try {trial}" for trial in range(8)] for each in samples)
    other = row_of("0", 1, input={"raw": "another question", "reference": ["yes"]})
    run = imported(tmp_path / "b", record_of(), [row_of("0", 0), row_of("0", 1), other]).run
    assert [[score.value for score in each.scores] for each in run.samples("bench")] == [[0.5], [1.0]]


@pytest.mark.parametrize(
    ("scores", "value", "n", "is_said"),
    [
        ([1.0, 1.0, 1.0, 0.0], 0.75, 4, False),
        ([100.0, 100.0, 100.0, 0.0], 0.75, 4, False),
        ([0.5, 0.5, 1.0, 0.0], 0.75, 0, True),
    ],
)
def test_rows_of_a_value_in_per_cent(scores: list[float], value: float, n: int, is_said: bool, tmp_path: Path) -> None:
    """Rows are shares or in per cent, by which gives the stated 75%; where neither does, it is shown and said."""
    record = record_of(metric_config={"min_score": 0, "max_score": 100}, score_details={"score": 75.0})
    record["evaluation_results"][0]["score_details"]["uncertainty"] = {}
    result = imported(tmp_path, record, [row_of(str(at), score) for at, score in enumerate(scores)])
    (each,) = result.run.estimates
    assert (each.value, each.n) == (value, n)
    assert any("neither as shares nor in per cent" in note for note in result.notes) == is_said


def test_records_of_one_task_with_other_metrics_are_merged(tmp_path: Path) -> None:
    """A question with equal answers is one sample with both metrics; with another answer the later record's is kept."""
    other = record_of(metric_config={"metric_name": "em"}, score_details={"score": 1.0, "uncertainty": {}})
    later = {**other, "retrieved_timestamp": "1760000000"}
    written(tmp_path / "old", record_of(), [row_of("0", 1), row_of("1", 0)])
    written(tmp_path / "new", later, [row_of("1", 1), row_of("0", 1)])
    result = import_run(str(tmp_path / "s.sqlite"), tmp_path)
    assert [task.name for task in result.run.row.plan.tasks] == ["bench"]
    assert {
        each.request.prompt: {score.metric: score.value for score in each.scores}
        for each in result.run.samples("bench")
    } == {"question 0": {"acc": 1.0, "em": 1.0}, "question 1": {"acc": 0.0, "em": 1.0}}
    assert {each.metric: (each.value, each.n) for each in result.run.estimates} == {"acc": (0.5, 2), "em": (1.0, 2)}
    later.pop("detailed_evaluation_results")
    written(tmp_path / "new", later, [row_of("1", 1, output={"raw": ["no"]}), row_of("0", 1)])
    result = import_run(str(tmp_path / "t.sqlite"), tmp_path)
    assert [[output.text for output in each.outputs] for each in result.run.samples("bench")] == [["yes"], ["no"]]
    assert any("1 samples of bench have the sample_id of another question or answer" in each for each in result.notes)
    assert any("acc: the file reports 0.5 of 2 samples, and holds 1 of them" in note for note in result.notes)


def test_failed_rows_and_unknown_levels_are_no_wrong_answers(tmp_path: Path) -> None:
    """They are excluded from value and n, and counted; in per cent too, where the level of -1 is no share of 100."""
    levels = {"min_score": 0, "max_score": 100, "has_unknown_level": True}
    record = record_of(metric_config=levels, score_details={"score": 50.0, "uncertainty": {}})
    rows = [
        row_of("0", 100), row_of("1", 0), row_of("2", -1), row_of("3", 0, error="timed out", output=None),
        row_of("0", 0, error="timed out", output=None),
    ]  # fmt: skip
    result = imported(tmp_path, record, rows)
    (each,) = result.run.estimates
    assert (each.value, each.n, each.n_failed) == (0.5, 2, 2)
    assert [output.error for output in result.run.samples("bench")[3].outputs] == ["timed out"]
    assert any("2 rows with an error, which have failed and are excluded" in note for note in result.notes)
    second = json.loads(json.dumps(record["evaluation_results"][0]))
    second |= {"evaluation_result_id": "bench/em", "metric_config": {**second["metric_config"], "metric_name": "em"}}
    both = {**record, "evaluation_results": [*record["evaluation_results"], second]}
    both.pop("detailed_evaluation_results")
    rows = [row_of("0", 0, error="no judge", evaluation_result_id="bench/acc"),
            row_of("0", 100, evaluation_result_id="bench/em")]  # fmt: skip
    result = imported(tmp_path / "b", both, rows)
    (sample,) = result.run.samples("bench")
    assert [(output.text, output.error) for output in sample.outputs] == [("yes", None)]
    assert not any("neither as shares" in note for note in result.notes)


def test_a_samples_file_that_is_not_the_stated_one_is_said(tmp_path: Path) -> None:
    """Another checksum, another number of rows, rows of other models and without a result: a line for each."""
    record, rows = record_of(), [row_of("0", 1), row_of("1", 0), row_of("2", 1, model_id="them/other")]
    file = written(tmp_path, record, rows)
    samples = tmp_path / f"{NAME}_samples.jsonl"
    samples.write_text(samples.read_text() + json.dumps(row_of("3", 1, evaluation_result_id="none")) + "\n\n")
    notes = "\n".join(import_run(str(tmp_path / "s.sqlite"), file).notes)
    for said in ("is not the file whose checksum", "has 4 rows, and", "1 rows of another model", "1 rows of no result"):
        assert said in notes


def test_rows_without_their_file_or_record(tmp_path: Path) -> None:
    """A named file that is not there is said; a samples file is read by its record, and refused without it."""
    file = written(tmp_path, record_of(), [row_of("0", 1), row_of("1", 0)])
    samples = tmp_path / f"{NAME}_samples.jsonl"
    assert read_every_eval(samples).samples == read_every_eval(file).samples
    text = samples.read_text()
    samples.unlink()
    assert any("is not beside it" in note for note in import_run(str(tmp_path / "s.sqlite"), file).notes)
    samples.write_text(text)
    file.unlink()
    with pytest.raises(DataError, match="samples without their record"):
        read_every_eval(samples)


def test_a_folder_is_one_model(tmp_path: Path) -> None:
    """Of two records with the same result the later is read; records of two models are refused with both names."""
    written(tmp_path / "old", record_of())
    written(tmp_path / "new", {**record_of(score_details={"score": 0.75}), "retrieved_timestamp": "1760000000"})
    result = import_run(str(tmp_path / "s.sqlite"), tmp_path)
    assert [each.value for each in result.run.estimates] == [0.75]
    assert any("is later, and is excluded" in note for note in result.notes)
    written(tmp_path / "other", {**record_of(), "model_info": {"name": "b", "id": "us/b"}})
    with pytest.raises(DataError, match="us/b, us/model"):
        import_run(str(tmp_path / "s.sqlite"), tmp_path)


def test_an_imported_run_is_exported_as_what_it_is(tmp_path: Path) -> None:
    """Values without answers are documentation of the tool's results, with samples it is the tool's run."""
    kinds = {}
    of_samples = [row_of("0", 1), row_of("1", 0)]
    without_texts = [{**row, "output": {"raw": []}} for row in of_samples]  # their scores are of samples all the same
    for name, rows in (("reported", None), ("answered", of_samples), ("scored", without_texts)):
        run = imported(tmp_path / name, record_of(), rows).run
        (record, *samples) = write_records(run.store, run.id, tmp_path / "out" / name, Publisher()).paths
        written_again = json.loads(record.read_text())
        library = written_again["eval_library"]
        assert (library["name"], library["version"], written_again["model_info"]["id"]) == ("tool", "1", "us/model")
        kinds[name] = (written_again["source_metadata"]["source_type"], len(samples))
        assert run.row.has_answers == (name != "reported")
        assert ("reported without answers" in dict(facts_shown(run.row))["imported"]) == (name == "reported")
    assert kinds == {
        "reported": ("documentation", 0), "answered": ("evaluation_run", 1), "scored": ("evaluation_run", 1),
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------- hostile files


FAULTS: list[tuple[str, str]] = [
    ('"score": 0.5', '"score": NaN'),
    ('"score": 0.5', '"score": 1e999'),
    ('"score": 0.5', '"score": ' + "9" * 5000),
    ('"score": 0.5', '"score": ' + "9" * 400),
    ('"score": 0.5', '"score": "0.5"'),
    ('"score": 0.5', '"score": 1.5'),
    ('"score": 0.5', '"score": true'),
    ('"num_samples": 2', '"num_samples": -2'),
    ('"num_samples": 2', '"num_samples": 2.5'),
    ('"lower_is_better": false', '"lower_is_better": "no"'),
    ('"lower_is_better": false', '"higher": true'),
    ('"min_score": 0', '"min_score": "nothing"'),
    ('"min_score": 0', '"min_score": 2'),
    ('"evaluation_name": "bench"', '"evaluation_name": ["bench"]'),
    ('"schema_version": "0.2.2"', '"schema_version": "9.0"'),
    ('"retrieved_timestamp": "1750000000"', '"retrieved_timestamp": "yesterday"'),
    ('"model_info": {', '"model_info": {"id": 7, "ids": {'),
    ('"evaluation_name": "bench"', '"evaluation_name": "' + "a" * 5000 + '"'),
    ('"evaluation_name": "bench"', '"evaluation_name": "\\ud800"'),
    ('"id": "us/model"', '"id": "us/\\u0000model"'),
    ('"evaluation_results": [', '"evaluation_results": [[],'),
    ('"eval_library": {"name": "tool"', '"eval_library": {"name": ""'),
    ('"source_data": {', '"source_data": ' + "[" * 200 + "]" * 200 + ', "x": {'),
    ('"metric_name": "acc"', '"metric_name": "acc", "metric_name": "b"'),
]


@pytest.mark.parametrize(("right", "wrong"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_one_line(right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the file, nothing is stored, and there is no traceback."""
    file = written(tmp_path, record_of())
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong, 1) + ("}" if wrong.count("{") > right.count("{") else ""))
    assert main(["import", str(file), "--store", str(tmp_path / "s.sqlite")]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ")
    assert NAME in line
    assert len(line) < 500


@pytest.mark.parametrize(
    "path",
    ["../../../etc/passwd", "/etc/passwd", f"data/../../{NAME}_samples.jsonl", "data/a/b/c/other_samples.jsonl", "CON"],
)
def test_samples_are_only_sought_beside_the_record(path: str, tmp_path: Path) -> None:
    """A path that leads elsewhere is refused with what was expected; no file is opened."""
    record = record_of() | {"detailed_evaluation_results": {"format": "jsonl", "file_path": path}}
    with pytest.raises(DataError, match=rf"file_path is .*; expected .* that ends in {NAME}_samples.jsonl"):
        imported(tmp_path, record, [row_of("0", 1)])


def test_links_that_leave_the_folder_are_not_followed(tmp_path: Path) -> None:
    """Neither of a record, nor of its samples, nor to a folder; a Hub cache, whose files are links, is read."""
    outside = written(tmp_path / "outside", record_of(), [row_of("0", 1), row_of("1", 0)])
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / outside.name).symlink_to(outside)
    (inside / "folder").symlink_to(outside.parent)
    written(inside / "real", {**record_of(), "evaluation_id": "other"})
    notes = import_run(str(tmp_path / "s.sqlite"), inside).notes
    assert sum("is a link" in note for note in notes) == 2
    shutil.copy(outside, inside / "real" / outside.name)
    (inside / "real" / f"{NAME}_samples.jsonl").symlink_to(outside.with_name(f"{NAME}_samples.jsonl"))
    with pytest.raises(DataError, match="is a link that leaves"):
        import_run(str(tmp_path / "s.sqlite"), inside / "real")
    snapshot = tmp_path / "datasets--us--x" / "snapshots" / "abc" / "data"
    snapshot.mkdir(parents=True)
    blob = tmp_path / "datasets--us--x" / "blobs" / "1"
    blob.parent.mkdir()
    shutil.copy(outside, blob)
    (snapshot / outside.name).symlink_to(blob)
    assert len(import_run(str(tmp_path / "t.sqlite"), snapshot).run.estimates) == 1
    named_so = tmp_path / "snapshots" / "abc"  # no cache: its parent could be anyone's home
    named_so.mkdir(parents=True)
    (named_so / outside.name).symlink_to(outside)
    assert record_files(named_so) == (
        [],
        [f"{named_so / outside.name} is a link that leaves {named_so}; copy the file that it names"],
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A pipe would wait for a writer; a link to nothing, one to itself and a pipe of samples are one line each."""
    file = tmp_path / f"{NAME}.json"
    for target in (None, tmp_path / "nothing", file):
        os.mkfifo(file) if target is None else file.symlink_to(target)
        assert record_files(tmp_path)[0] == [file]
        with pytest.raises(DataError, match=rf"{NAME}\.json: is not a regular file"):
            read_record(file)
        file.unlink()
    written(tmp_path, record_of(), [row_of("0", 1)])
    samples = tmp_path / f"{NAME}_samples.jsonl"
    samples.unlink()
    os.mkfifo(samples)
    with pytest.raises(DataError, match=r"_samples\.jsonl: is not a regular file"):
        read_every_eval(file)


def test_large_files_and_rows_are_refused_by_their_size(tmp_path: Path) -> None:
    """A record of 100 MB is not parsed, and a row of 40 MB ends the import; both say what was expected."""
    file = written(tmp_path, record_of(), [row_of("0", 1)])
    samples = tmp_path / f"{NAME}_samples.jsonl"
    with samples.open("r+b") as opened:
        os.truncate(opened.fileno(), 40 << 20)
    with pytest.raises(DataError, match="line 2: is longer than"):
        read_every_eval(file)
    with file.open("r+b") as opened:
        os.truncate(opened.fileno(), 100 << 20)
    with pytest.raises(DataError, match="has 104,857,600 bytes; at most 33,554,432 are read"):
        read_every_eval(file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"evaluation": {"score": float("nan"), "is_correct": True}}, "evaluation.score is nan; expected a finite"),
        ({"evaluation": {"score": 10**400, "is_correct": True}}, "evaluation.score is 1000"),
        ({"input": {"raw": 3, "reference": []}}, "input.raw is 3; expected a text"),
        ({"input": {"raw": "", "reference": [3]}}, "input.reference is"),
        ({"output": None}, "output is None; expected an object"),
        ({"messages": {}, "interaction_type": "agentic"}, "messages is {}; expected a list"),
        ({"sample_id": None}, "sample_id is None"),
    ],
)
def test_a_bad_row_is_named_by_its_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    """File, line and key are named, and nothing is stored."""
    with pytest.raises(DataError) as caught:
        imported(tmp_path, record_of(), [row_of("0", 1), row_of("1", 0, **change)])
    assert f"{NAME}_samples.jsonl, line 2: {said}" in str(caught.value)


def test_names_from_files_become_no_paths(tmp_path: Path) -> None:
    """A model and a task named as paths are written into folders of the place that was asked for."""
    record = record_of() | {"model_info": {"name": "x", "id": "../../../up/CON"}}
    record["evaluation_results"][0]["evaluation_name"] = "../../../../up"
    run = imported(tmp_path / "in", record).run
    out = tmp_path / "a" / "b" / "out"
    files = write_records(run.store, run.id, out).paths
    assert all(out in path.resolve().parents for path in files)
    assert len(list(tmp_path.rglob("*.json"))) == 2  # the one that was read, and the one that was written
