"""Battles over stored runs: which task and which models are compared."""

import json
from pathlib import Path

import pytest

import assaymark
from assaymark.arena.answer_files import answers_of_files, answers_of_runs, read_makers
from assaymark.errors import DataError, UsageError
from assaymark.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store in which two of four models generated answers to one task."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "essays.csv").write_text("question,answer\n" + "".join(f"Write {n}?,text {n}\n" for n in range(4)))
    (folder / "letters.csv").write_text("question,A,B,answer\nWhich?,yes,no,A\nAnd?,yes,no,B\n")
    place = str(folder / "runs.sqlite")
    for seed, task in ((1, "essays"), (2, "essays"), (2, "letters"), (3, "letters"), (4, "letters")):
        assaymark.evaluate("fake", str(folder / f"{task}.csv"), model_args=f"seed={seed}", store=place).store.close()
    return place


def test_makers_are_read_from_a_file(tmp_path: Path) -> None:
    """Organisation and licence by the models' names, in either spelling; a file without them is refused."""
    path = tmp_path / "makers.csv"
    path.write_text("name,org,licence\nowl,Night,mit\nfox,,apache-2.0\nhen,,\n")
    assert read_makers(path, ["owl", "fox", "hen", "eel"]) == {"owl": "Night, mit", "fox": "apache-2.0"}
    with pytest.raises(DataError, match="has none of the models eel; expected these names in its column 'name'"):
        read_makers(path, ["eel"])
    path.write_text("name,size\nowl,7\n")
    with pytest.raises(DataError, match="expected one of organization"):
        read_makers(path, ["owl"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"instruction": " ", "output": "x", "generator": "owl"}, "row 3: column 'instruction' is empty"),
        ({"instruction": "Why?", "output": "x", "generator": None}, "row 3: column 'generator' is empty"),
        (
            {"instruction": "Why?", "output": "x", "generator": " owl "},
            "row 3: another answer of 'owl' to the same prompt",
        ),
    ],
)
def test_a_row_of_answers_that_cannot_be_meant_is_refused(tmp_path: Path, row: dict[str, str], message: str) -> None:
    """It says which row: a prompt or model is not guessed, and no answer replaces another; the same again is one."""
    rows = [{"instruction": "Why?", "output": text, "generator": name} for name, text in (("owl", "0"), ("fox", "1"))]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, rows[0]])))
    assert answers_of_files([path])[0].models == ("owl", "fox")
    path.write_text("\n".join(map(json.dumps, [*rows, row])))
    with pytest.raises(DataError, match=message):
        answers_of_files([path])


def test_models_without_the_task_are_left_out_and_named(store: str) -> None:
    """A third model that generated nothing does not prevent battles of the two that did."""
    lines: list[str] = []
    with Store.open(store) as opened:
        source, _ = answers_of_runs(opened, (), None, lines.append)
    assert (source.name, sorted(source.models)) == ("essays", ["fake-random-1", "fake-random-2"])
    (line,) = lines
    assert "left out, without generated answers to essays: fake-random-" in line
    assert {"fake-random-3", "fake-random-4"} <= {word.strip("(),;") for word in line.split()}
    assert "--answers RUN" in line


def test_named_runs_all_have_the_task(store: str) -> None:
    """Of runs that were named none is left out: without a task of all of them the command says what to do."""
    with Store.open(store) as opened:
        names = [run.run_id for run in opened.runs()]
        with pytest.raises(UsageError, match=r"these 5 runs share no task with generated answers.*--answers RUN"):
            answers_of_runs(opened, names)
        with pytest.raises(UsageError, match="no two of the 4 models share generated answers to letters"):
            answers_of_runs(opened, (), "letters")
