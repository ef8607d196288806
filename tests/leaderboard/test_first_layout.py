"""The first Open LLM Leaderboard's own files, read as the leaderboard showed them.

`files/results_2024-01-06T09-45-44.755529.json` has the numbers of a results file that the leaderboard published, as the
model's card on the Hub prints them (HenryJJ/Instruct_Yi-6B_Dolly15K).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assaymark.errors import DataError
from assaymark.interop.read_imported import read_imported
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.site import Site
from assaymark.tasks.aliases import PresentName, present_name
from assaymark.tasks.yaml_files import read_suite
from tests.leaderboard.test_old_layout import rows

FILE = Path(__file__).with_name("files") / "results_2024-01-06T09-45-44.755529.json"
SHOWN = {"arc": 54.86, "hellaswag": 75.87, "mmlu": 63.37, "truthfulqa": 42.84, "winogrande": 74.9, "gsm8k": 29.26}
AVERAGE = 56.85
SUITE = Path(__file__).parents[2] / "src" / "assaymark" / "library" / "suites" / "open-llm-v1.yaml"


def row_of(folder: Path, content: Mapping[str, Any]) -> BoardRow:
    """Return the row that a board of the first leaderboard's suite makes of a results file."""
    (folder / "results").mkdir()
    (folder / "results" / FILE.name).write_text(json.dumps(content))
    (folder / "b.yaml").write_text("title: B\nsuite: open-llm-v1\nresults: results\n")
    (row,) = rows(folder / "b.yaml").values()
    return row


def test_a_published_results_file_is_the_row_that_the_leaderboard_showed(tmp_path: Path) -> None:
    """All six columns and the average, to the two digits of the published table."""
    row = row_of(tmp_path, json.loads(FILE.read_text()))
    assert {key: round(100 * cell.number.value, 2) for key, cell in row.cells.items()} == SHOWN
    assert row.average is not None
    assert round(100 * row.average.number.value, 2) == AVERAGE
    assert row.model == "HenryJJ/Instruct_Yi-6B_Dolly15K"
    assert row.facts["precision"] == "float16"
    for cell in row.cells.values():
        assert cell.number.low is not None
        assert cell.number.low < cell.number.value < (cell.number.high or 0)


@pytest.mark.parametrize("results", [{}, {"harness|arc:challenge|25": {"acc": "x", "acc_norm": None}}])
def test_a_results_file_without_a_number_is_refused(tmp_path: Path, results: Mapping[str, Any]) -> None:
    """Instead of a run of nothing."""
    path = tmp_path / FILE.name
    path.write_text(json.dumps({"config_general": {"model_name": "a/b"}, "results": results}))
    with pytest.raises(DataError, match="holds no number and no sample"):
        read_imported(path)


def test_some_subjects_are_not_mmlu(tmp_path: Path) -> None:
    """A results file with 56 of 57 subjects has no column MMLU, and its average is over the five others."""
    content = json.loads(FILE.read_text())
    del content["results"]["harness|hendrycksTest-virology|5"]
    row = row_of(tmp_path, content)
    assert set(row.cells) == set(SHOWN) - {"mmlu"}


def test_other_shots_are_not_counted(tmp_path: Path) -> None:
    """ARC with 5 shots is not the leaderboard's column; the row says so."""
    content = json.loads(FILE.read_text())
    results = content["results"]
    results["harness|arc:challenge|5"] = results.pop("harness|arc:challenge|25")
    row = row_of(tmp_path, content)
    assert "arc" not in row.cells
    assert any("5 shots, the board 25" in note for note in row.notes)


@pytest.mark.parametrize(
    ("task", "metric", "name"),
    [
        ("harness|arc:challenge|25", "acc_norm", PresentName("arc_challenge", "acc_norm")),
        ("harness|hendrycksTest-virology|5", "acc", PresentName("mmlu_virology", "acc", group="mmlu")),
        ("harness|truthfulqa:mc|0", "mc2", PresentName("truthfulqa_mc2_2023", "acc")),
        ("harness|gsm8k|5", "acc", PresentName("gsm8k_2023", "exact_match", "strict-match")),
        ("harness|demo_who|3", "exact_match,first-line", PresentName("demo_who", "exact_match", "first-line")),
        ("arc_challenge", "acc_norm", None),
    ],
)
def test_names_of_the_files_have_one_meaning_here(task: str, metric: str, name: PresentName | None) -> None:
    """Of tasks that the leaderboard did not have, too; a name without the files' frame is none of theirs."""
    assert present_name(task, metric) == name


def test_names_of_the_suite_are_the_leaderboards() -> None:
    """Each member of the suite stands in the published file, with its metric and its number of shots."""
    known = {
        (present_name(task, metric), int(task.rpartition("|")[2]))
        for task, entry in json.loads(FILE.read_text())["results"].items()
        if task != "all"
        for metric in entry
    }
    for member in read_suite(SUITE).members:
        task = "mmlu_anatomy" if member.task == "mmlu" else member.task
        group = "mmlu" if member.task == "mmlu" else None
        assert (PresentName(task, member.metrics[0], member.filter, group), member.shots) in known


# --------------------------------------------------------------------------------- files of earlier versions

OF_2023 = {
    "example": "Which is wet?", "full_prompt": "Question: Which is wet?\nAnswer:", "choices": [" rain", " sand"],
    "gold": 0, "predictions": [-1.5, -2.5], "acc": 1.0, "acc_norm": 1.0,
    "hashes": {"example": "1f", "full_prompt": "2e"}, "input_tokens": [[1, 2]], "cont_tokens": [[3]],
    "truncated": 0, "padded": 0, "num_effective_few_shots": 25,
}  # fmt: skip
OF_2024 = {
    "example": "Which is wet?", "instruction": "", "full_prompt": "Question: Which is wet?\nAnswer:",
    "choices": [" rain", " sand"], "gold": [], "gold_index": [0], "predictions": [-1.5, -2.5],
    "metrics": {"acc": 1, "acc_norm": 1}, "num_asked_few_shots": 25, "num_effective_few_shots": 25,
}  # fmt: skip
AS_TEXT = {key: str(value) for key, value in OF_2024.items()} | {"predictions": "[(-1.5, True), (-2.5, False)]"}


@pytest.mark.parametrize("row", [OF_2023, OF_2024, AS_TEXT], ids=["2023", "2024", "text"])
@pytest.mark.parametrize("name", ["details_harness|arc:challenge|25_2023-07-19T15:58:12.174583.parquet",
                                  "details_harness_arc_challenge_25_2023-07-19T15-58-12.174583.parquet"])  # fmt: skip
def test_details_of_each_version_are_read(tmp_path: Path, row: Mapping[str, Any], name: str) -> None:
    """Beside their results, whichever signs stand in the file's name and time."""
    (tmp_path / "2023-07-19T15:58:12.174583").mkdir()
    pq.write_table(pa.Table.from_pylist([dict(row)] * 2), tmp_path / "2023-07-19T15:58:12.174583" / name)
    content = {"config_general": {"model_name": "org/m"}, "results": {"harness|arc:challenge|25": {"acc": 1.0}}}
    (tmp_path / "results_2023-07-19T15:58:12.174583.json").write_text(json.dumps(content))
    result = read_imported(tmp_path)
    (task,) = {request.task for request in result.requests}
    assert task == "harness|arc:challenge|25"
    assert [output.total_nats for output in result.outputs] == [-1.5, -2.5] * 2
    assert result.requests[0].prompt == OF_2024["full_prompt"]
    assert result.requests[0].target == "rain"
    assert {(score.metric, score.value) for score in result.scores} >= {("acc", 1.0), ("acc_norm", 1.0)}
    assert "brier" in {each.metric for each in result.scores}  # from the log-likelihoods
    assert {estimate.n for estimate in result.estimates} == {2}
    assert not result.notes


@pytest.mark.parametrize(
    ("gold", "target"), [("['72', '72.0']", "72 or 72.0"), ("(A)", "(A)"), ("72 apples", "72 apples")]
)
def test_gold_answers_are_texts(tmp_path: Path, gold: str, target: str) -> None:
    """Of generated answers, whichever way a version wrote them."""
    row = {**AS_TEXT, "choices": "[]", "gold_index": "[]", "gold": gold, "predictions": "['It is 72.']"}
    file = tmp_path / "details_harness|gsm8k|5_2023-07-19T15-58-12.parquet"
    pq.write_table(pa.Table.from_pylist([row]), file)
    (request,), (output,) = read_imported(file).requests, read_imported(file).outputs
    assert (request.target, output.text) == (target, "It is 72.")


@pytest.mark.parametrize("bad", [{"predictions": "[1,"}, {"metrics": "{'acc': __import__('os')}"}])
def test_a_text_that_is_no_value_is_named(tmp_path: Path, bad: Mapping[str, Any]) -> None:
    """With file, row and column; nothing in it is executed."""
    file = tmp_path / "details_harness|x|0_2023-07-19T15-58-12.parquet"
    pq.write_table(pa.Table.from_pylist([{**AS_TEXT, **bad}]), file)
    with pytest.raises(Exception, match=rf"row 1, {next(iter(bad))} is .*not a Python value"):
        read_imported(file)


def test_details_beside_results_give_a_board_its_random_row(tmp_path: Path) -> None:
    """What guessing scores is known from the choices, under the name that the task has here."""
    stamp = "2024-01-06T09-45-44.755529"
    (tmp_path / "details").mkdir()
    pq.write_table(
        pa.Table.from_pylist([OF_2024] * 2), tmp_path / "details" / f"details_harness_demo_who_25_{stamp}.parquet"
    )
    content = {"config_general": {"model_name": "org/m"}, "results": {"harness|demo_who|25": {"acc": 1.0}}}
    (tmp_path / "details" / f"results_{stamp}.json").write_text(json.dumps(content))
    (tmp_path / "b.yaml").write_text("title: B\ntasks: [{task: demo_who, shots: 25}]\nresults: details\n")
    result = read_board(tmp_path / "b.yaml")
    (random,) = [row for row in Site([result]).table(result).rows if row.model == "Random"]
    assert {key: cell.number.value for key, cell in random.cells.items()} == {"demo-who": 0.5}
