"""The first Open LLM Leaderboard's own files: read as the leaderboard showed them, and written so that they are read.

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

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.interop.lighteval_files import means_of
from assaymark.interop.read_imported import read_imported
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.results.evidence.from_store import choice_queries
from assaymark.store import Store
from assaymark.tasks.aliases import PresentName, first_board_name, present_name
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


def test_the_average_over_all_tasks_is_the_leaderboards() -> None:
    """What we write as `all` is by the same rule: the unweighted mean of the tasks that have a metric."""
    content = json.loads(FILE.read_text())["results"]
    assert means_of([entry for name, entry in content.items() if name != "all"]) == pytest.approx(content["all"])


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
    "name",
    [
        *(PresentName(task, "acc") for task in ("arc_challenge", "demo_who", "mmlu_pro_biology", "truthfulqa_mc2")),
        *(PresentName("gsm8k", "exact_match", name) for name in ("strict-match", "flexible-extract")),
    ],
)
def test_names_lead_back(name: PresentName) -> None:
    """Of tasks that the leaderboard did not have, too."""
    assert present_name(*first_board_name(name, 3)) == name


def test_names_of_the_suite_are_the_leaderboards() -> None:
    """Each member of the suite under the name and the metric that stand in the published file."""
    known = json.loads(FILE.read_text())["results"]
    for member in read_suite(SUITE).members:
        task = "mmlu_anatomy" if member.task == "mmlu" else member.task
        group = "mmlu" if member.task == "mmlu" else None
        name = PresentName(task, member.metrics[0], member.filter, group)
        old, metric = first_board_name(name, member.shots or 0)
        assert metric in known[old]
        assert present_name(old, metric) == name


# ------------------------------------------------------------------------------------------ written and read


TASKS = "demo_who, demo_facts, demo_sums, demo_last_word, demo_stories"


@pytest.fixture
def written(tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a store of one run and its files in the first leaderboard's layout."""
    monkeypatch.setenv("ASSAYMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    monkeypatch.chdir(tmp_path)
    words = [
        "--model",
        "fake",
        "--model_args",
        "seed=1",
        "--tasks",
        "demo_who,demo_facts,demo_sums,demo_last_word,demo_stories",
    ]
    assert main(["run", *words, "--limit", "30", "--store", "s.sqlite"]) == 0
    (tmp_path / "own.yaml").write_text(
        "title: Own\ntasks: [demo_who, demo_facts, demo_sums, demo_last_word, demo_stories]\n"
    )
    assert main(["board", "datasets", "own.yaml", "-o", "out", "--layout", "v1", "--store", "s.sqlite"]) == 0
    return tmp_path


def test_what_is_written_is_read_as_the_same_row(written: Path) -> None:
    """From results and requests alone, every column and the average."""
    (written / "moved.yaml").write_text(f"title: Own\ntasks: [{TASKS}]\nresults: out/results\nrequests: out/requests\n")
    result = read_board(written / "own.yaml")
    (own,) = [
        row
        for row in Site([result], StoredRuns(Store.open_to_read("s.sqlite"))).table(result).rows
        if row.origin == "measured"
    ]
    (moved,) = rows(written / "moved.yaml").values()
    assert {key: cell.number.value for key, cell in moved.cells.items()} == {
        key: pytest.approx(cell.number.value, abs=1e-9) for key, cell in own.cells.items()
    }
    assert own.average is not None
    assert moved.average is not None
    assert moved.average.number.value == pytest.approx(own.average.number.value, abs=1e-9)


def test_details_beside_results_give_the_board_its_random_row(written: Path) -> None:
    """What guessing scores is known from the choices, under the names that tasks have here."""
    (written / "moved.yaml").write_text("title: Own\ntasks: [demo_who, demo_facts]\nresults: out/details\n")
    result = read_board(written / "moved.yaml")
    (random,) = [row for row in Site([result]).table(result).rows if row.model == "Random"]
    assert {key: cell.number.value for key, cell in random.cells.items()} == {"demo-who": 0.5, "demo-facts": 0.25}


def test_what_is_written_is_imported_sample_by_sample(written: Path) -> None:
    """Prompts, choices with log-likelihoods, texts, correct choices and scores are the run's."""
    (folder,) = (written / "out" / "details").iterdir()
    result = read_imported(folder)
    assert not result.notes
    with Store.open_to_read(str(written / "s.sqlite")) as store:
        (run,) = store.runs()
        scores = {(score.request_id, score.metric): score.value for score in result.scores}
        requests = {request.id: request for request in result.requests}
        for task in run.tasks:
            for position, record in enumerate(store.samples(run.run_id, task)):
                name = f"harness|{task}|{record.request.n_shots}/{position}/0"
                contexts = ["".join(query.segments or ()) for query in choice_queries(record)]
                assert requests[name].prompt in {record.request.prompt, *contexts}
                nats = [output.total_nats for output in result.outputs if output.request_id == name]
                if task != "demo_stories":  # whole texts, without a continuation that could be named
                    assert nats == [each.total_nats for each in record.outputs]
                for metric, written_as in (("acc", "acc"), ("exact_match", "exact_match,first-line")):
                    own = next((item.value for item in record.scores if item.metric == metric), None)
                    assert scores.get((name, written_as)) == own
    own = json.loads(next(written.glob("out/results/**/*.json")).read_text())["results"]
    computed = {(estimate.task, estimate.metric): estimate.value for estimate in result.estimates}
    for task, entry in own.items():
        for metric, value in entry.items():
            if task != "all" and not metric.endswith("_stderr"):
                assert computed[task, metric] == pytest.approx(value)


def test_written_twice_is_written_once(written: Path) -> None:
    """The files have the run's time; only the bytes of the second export are new."""
    before = {path.relative_to(written): path.read_bytes() for path in written.glob("out/**/*") if path.is_file()}
    assert main(["board", "datasets", "own.yaml", "-o", "out", "--layout", "v1", "--store", "s.sqlite"]) == 0
    after = {path.relative_to(written): path.read_bytes() for path in written.glob("out/**/*") if path.is_file()}
    assert after == before
    assert len([path for path in after if path.suffix == ".parquet"]) == 5


@pytest.mark.slow
def test_without_the_package_of_the_hashes_nothing_is_written(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the extra that installs it."""
    monkeypatch.setattr("assaymark.interop.lighteval_files.find_spec", lambda _: None)
    assert main(["board", "datasets", "own.yaml", "-o", "other", "--layout", "v1", "--store", "s.sqlite"]) == 2
    assert ".[hub]" in capsys.readouterr().err
    assert not (written / "other").exists()


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
    with pytest.raises(Exception, match=rf"row 0, {next(iter(bad))} is .*not a Python value"):
        read_imported(file)
