"""Metrics, tasks and models that a user's own Python files declare, without a package."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError, UnknownName
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.user_code import declarations_below, find_declaration

CAPITALS = '''"""Capitals: rows, a metric with an aggregation, a step of filters and a model."""

from collections.abc import Mapping, Sequence
from typing import Any

import assaymark
from assaymark.models.fake import FakeModel, fake_arguments

ROWS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Egypt": "Cairo"}
METRICS = [{"metric": "shared letters"}]


@assaymark.metric(name="shared letters", formula="letters of the reference in the answer", aggregation="worst")
def shared(references: Sequence[str], predictions: Sequence[str]) -> float:
    wanted = set(references[0].lower())
    return len(wanted & set(predictions[0].lower())) / len(wanted)


@assaymark.aggregation(is_share=True)
def worst(items: Sequence[float]) -> float:
    return min(items)


def question(row: Mapping[str, Any]) -> str:
    return f"The capital of {row['country']} is"


@assaymark.task(doc_to_text=question, doc_to_target="{{capital}}", metric_list=METRICS)
def capitals() -> list[dict[str, str]]:
    return [{"country": country, "capital": capital} for country, capital in ROWS.items()]


class AlwaysParis(FakeModel):
    def answer(self, requests, *, cache=None, observe=None):
        from dataclasses import replace
        return (replace(output, text="Paris") for output in super().answer(requests, cache=cache, observe=observe))


@assaymark.model
def paris(arguments: Mapping[str, Any]) -> FakeModel:
    return AlwaysParis(fake_arguments({}))
'''


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    """Write a file of the user's and return its folder."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def evaluated(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    """Run a command and return the estimates that it printed as JSON."""
    assert main(["run", *words, "--quiet", "--json"]) == 0, capsys.readouterr().err
    estimates: list[dict[str, object]] = json.loads(capsys.readouterr().out)["estimates"]
    return estimates


def test_a_file_is_all_that_a_task_a_metric_and_a_model_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run --model paris --tasks capitals --include_path DIR`: of Cairo's letters Paris has a, i and r of 5."""
    folder = write(tmp_path / "code", CAPITALS)
    (estimate,) = evaluated(capsys, "--model", "paris", "--tasks", "capitals", "--include_path", str(folder))
    shares = [len(set(capital) & set("paris")) / len(set(capital)) for capital in ("paris", "rome", "madrid", "cairo")]
    assert (estimate["metric"], estimate["n"]) == ("shared letters", 4)
    assert estimate["value"] == pytest.approx(min(shares))
    assert estimate["details"]["unit"] == "proportion"  # type: ignore[index]
    assert estimate["low"] is not None  # by resampling, as for a registered aggregation
    assert main(["explain", "capitals", "--include_path", str(folder)]) == 0
    assert "shared letters: letters of the reference in the answer" in capsys.readouterr().out


def test_listing_imports_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ls tasks` lists a declared task of a file that would fail if it was imported."""
    folder = write(tmp_path / "code", CAPITALS + "\nraise RuntimeError\n")
    assert main(["ls", "tasks", "capitals", "--include_path", str(folder), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["from"], entry["runs_here"]) == ("capitals", "user", True)


def test_a_task_file_names_a_metric_of_the_file_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No option is needed: the folder of a task file that is named by its path is searched."""
    folder = write(tmp_path / "code", CAPITALS)
    write(folder, '{"q": "a", "a": "Paris"}\n', "rows.jsonl")
    task = """
task: letters
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
metric_list: [{metric: shared letters}]
"""
    write(folder, task, "letters.yaml")
    words = ("--model", "fake", "--model_args", "accuracy=1.0", "--tasks", str(folder / "letters.yaml"))
    (estimate,) = evaluated(capsys, *words)
    assert (estimate["metric"], estimate["value"]) == ("shared letters", 1.0)
    assert main(["ls", "tasks", "letters", "--include_path", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["runs_here"] is True


@pytest.mark.parametrize("name", ["acc", "f1", "mcc"])
def test_metrics_of_choices_hand_written_answers_to_the_files_aggregation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """As AfroBench's tasks use them: pairs of reference and answer go to `!function`; without one there is no value."""
    folder = write(tmp_path / "code", "def words(items):\n    return sum(len(a.split()) for a, b in items if a == b)\n")
    write(folder, '{"q": "a", "a": "one two"}\n{"q": "b", "a": 3}\n', "rows.jsonl")
    task = """
task: pairs
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: a
metric_list: [{metric: NAME, aggregation: HOW, ignore_case: true}]
""".replace("NAME", name)
    write(folder, task.replace("HOW", "!function mine.words"), "pairs.yaml")
    write(folder, task.replace("HOW", "mean").replace("pairs", "none"), "none.yaml")
    write(folder, task.replace("HOW", "null").replace("pairs", "none_at_all"), "none_at_all.yaml")
    words = ("--model", "fake", "--model_args", "accuracy=1.0", "--tasks", str(folder / "pairs.yaml"))
    (estimate,) = evaluated(capsys, *words)
    assert (estimate["metric"], estimate["value"]) == (name, 3.0)
    for task_name in ("none", "none_at_all"):
        assert main(["ls", "tasks", task_name, "--include_path", str(folder), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["runs_here"] is False


def test_a_python_file_is_named_as_a_task_file_is(tmp_path: Path) -> None:
    """`--tasks FILE.py` selects the tasks that it declares; a file without any is refused."""
    folder = write(tmp_path / "code", CAPITALS)
    selection = Catalog.open(lm_eval=False).select([str(folder / "mine.py")])
    assert [task.name for task in selection.tasks] == ["capitals"]
    write(folder, "import assaymark\n", "other.py")
    with pytest.raises(DataError, match="declares no task"):
        Catalog.open(lm_eval=False).select([str(folder / "other.py")])


def test_an_edited_file_is_another_task(tmp_path: Path) -> None:
    """The bytes of the file count into the hash of its task; its folder does not."""

    def hash_in(folder: Path) -> str:
        return Catalog.open([folder], lm_eval=False).select(["capitals"]).tasks[0].spec_hash

    first = hash_in(write(tmp_path / "a", CAPITALS))
    assert hash_in(write(tmp_path / "b", CAPITALS)) == first
    assert hash_in(write(tmp_path / "c", CAPITALS.replace("min(items)", "max(items)"))) != first


def test_our_names_cannot_be_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A declared metric or model with a name of this package is not used."""
    text = CAPITALS.replace('"shared letters"', '"exact_match"').replace("def paris(", "def fake(")
    folder = write(tmp_path / "code", text)
    words = ("--model", "fake", "--model_args", "accuracy=1.0", "--tasks", "capitals", "--include_path", str(folder))
    (estimate,) = evaluated(capsys, *words)
    assert (estimate["metric"], estimate["value"]) == ("exact_match", 1.0)


ROWS_OF = (
    "import assaymark\n\n\n@assaymark.task(doc_to_text='x', doc_to_target='y'{more})\ndef capitals():\n    {body}\n"
)


TWICE = """import assaymark
@assaymark.metric(formula="f")
def m(): ...
@assaymark.metric(formula="f", name="m")
def n(): ...
@assaymark.task(doc_to_text="x", doc_to_target="y", metric_list=[{"metric": "m"}])
def capitals(): ...
"""


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("import assaymark\n@assaymark.task(doc_to_text='x'\n", 2, "was never closed; expected Python source"),
        ("import assaymark\n@assaymark.task(**K)\ndef capitals(): ...\n", 2, "write each key of the task"),
        ("import assaymark\n@assaymark.task(doc_to_text=str(1))\ndef capitals(): ...\n", 2, "without running the file"),
        ("import assaymark\nA = A\n@assaymark.task(doc_to_text=A)\ndef capitals(): ...\n", 2, "without running"),
        (
            "import assaymark\n@assaymark.task(doc_to_txt='x')\ndef capitals(): ...\n",
            2,
            "nearest known key: doc_to_text",
        ),
        ("import assaymark\n@assaymark.task(dataset_path='x')\ndef capitals(): ...\n", 2, "returns its rows"),
        (ROWS_OF.format(more="", body="return 1 / 0"), 6, "ZeroDivisionError"),
        (ROWS_OF.format(more="", body="return missing"), 6, "NameError"),
        (ROWS_OF.format(more="", body="return []\nboom()"), 7, "fails to import: NameError"),
        (ROWS_OF.format(more="", body="return []\nimport no_such_module"), 7, "which is not installed"),
        (
            ROWS_OF.format(more=", metric_list=[{'metric': 'm'}]", body="return [{'a': 1}]")
            + "@assaymark.metric(formula='f', aggregation='meen')\ndef m(references, predictions): ...\n",
            7,
            "nearest: mean",
        ),
        (
            ROWS_OF.format(more=", metric_list=[{'metric': 'm'}]", body="return [{'a': 1}]")
            + "@assaymark.metric(formula='f')\ndef m(references, predictions):\n    return 1 / 0\n",
            9,
            "its metric failed: ZeroDivisionError",
        ),
        (
            TWICE,
            4,
            "is declared in",
        ),
    ],
)
def test_a_bad_file_is_one_line_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, message: str
) -> None:
    """Whatever is wrong with it, the error names the file and the line and nothing is stored."""
    folder = write(tmp_path / "code", text)
    assert main(["run", "--model", "fake", "--tasks", "capitals", "--include_path", str(folder), "--quiet"]) == 3
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert f"{folder / 'mine.py'}, line {line}" in error
    assert message in error


@pytest.mark.parametrize(
    ("body", "message"),
    [("return 5", "model paris is int; expected"), ("return 1 / 0", "model paris failed: ZeroDivisionError")],
)
def test_what_is_no_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, message: str
) -> None:
    """A factory that fails, or returns anything but a model, is named with file and line."""
    text = f"import assaymark\n@assaymark.model\ndef paris(arguments):\n    {body}\n"
    folder = write(tmp_path / "code", text)
    assert main(["run", "--model", "paris", "--tasks", "demo_facts", "--include_path", str(folder)]) == 3
    error = capsys.readouterr().err
    assert f"{folder / 'mine.py'}, line " in error
    assert message in error


def test_code_that_ends_the_program_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model or a task whose code calls exit(0) is not a run that succeeded."""
    model = "import sys\nimport assaymark\n@assaymark.model\ndef paris(arguments):\n    sys.exit(0)\n"
    folder = write(tmp_path / "code", model)
    assert main(["run", "--model", "paris", "--tasks", "demo_facts", "--include_path", str(folder), "--quiet"]) == 1
    assert "mine.py, line 5, called exit(0)" in capsys.readouterr().err
    folder = write(tmp_path / "other", ROWS_OF.format(more="", body="raise SystemExit(3)"))
    assert main(["run", "--model", "fake", "--tasks", "capitals", "--include_path", str(folder), "--quiet"]) != 0
    assert "mine.py" in capsys.readouterr().err


def test_an_aggregation_that_raises_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the user's error, with the task and the metric; the answers are stored."""
    text = (
        ROWS_OF.format(more=", metric_list=[{'metric': 'm'}]", body="return [{'x': '1', 'y': '2'}]")
        + "@assaymark.aggregation()\ndef bad(items):\n    return sum(items) / 0\n"
        + "@assaymark.metric(formula='f', aggregation='bad')\ndef m(references, predictions):\n    return 1.0\n"
    )
    folder = write(tmp_path / "code", text)
    assert main(["run", "--model", "fake", "--tasks", "capitals", "--include_path", str(folder), "--quiet"]) == 3
    assert "task capitals: the aggregation of m raises ZeroDivisionError" in capsys.readouterr().err


def test_a_task_that_is_not_found_points_at_the_broken_file(tmp_path: Path) -> None:
    """A misspelt name is unknown; where a file cannot be read, which may declare it, the file is named instead."""
    folder = write(tmp_path / "code", CAPITALS)
    with pytest.raises(UnknownName, match="capitals"):
        Catalog.open([folder], lm_eval=False).select(["capitls"])
    write(folder, "import assaymark\nx = (", "broken.py")
    with pytest.raises(DataError, match=r"broken\.py, line 2"):
        Catalog.open([folder], lm_eval=False).select(["capitls"])


@pytest.mark.parametrize(
    "imported",
    ["import assaymark as am\n@am.{0}", "from assaymark import {0}\n@{0}", "from assaymark import {0} as d\n@d"],
)
def test_decorators_are_found_however_they_are_imported(tmp_path: Path, imported: str) -> None:
    """The names are those of the file's own imports; a decorator of that name of another module is none of ours."""
    folder = write(tmp_path / "code", imported.format("model") + "\ndef mine(arguments): ...\n")
    assert [(each.kind, each.name) for each in declarations_below(folder)] == [("models", "mine")]
    write(folder, "import assaymark\nfrom other import model\n@model\ndef mine(arguments): ...\n")
    assert declarations_below(folder) == ()


def test_environments_and_hidden_folders_are_not_searched(tmp_path: Path) -> None:
    """A virtual environment below the folder, hidden folders and caches hold no code of the user."""
    text = "import assaymark\n@assaymark.model\ndef mine(arguments): ...\n"
    for name in (".git", "__pycache__", "venv"):
        write(tmp_path / name, text)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    assert find_declaration("models", "mine", [tmp_path]) is None
    write(tmp_path / "own", text)
    declaration = find_declaration("models", "mine", [tmp_path])
    assert declaration is not None
    assert declaration.where == f"{tmp_path / 'own' / 'mine.py'}, line 2"


def test_rows_by_split_give_shots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A function may return a dict of lists: shots are drawn from the split that a task file would draw from."""
    text = CAPITALS.replace("metric_list=METRICS", "num_fewshot=1, training_split='train', metric_list=METRICS")
    text = text.replace(
        "    return [{", '    return {"train": [{"country": "Peru", "capital": "Lima"}], "test": [{'
    ).replace("in ROWS.items()]", "in ROWS.items()]}")
    folder = write(tmp_path / "code", text)
    assert main(["explain", "capitals", "--include_path", str(folder)]) == 0
    assert "The capital of Peru is Lima" in capsys.readouterr().out
