"""Data sets named by folder or Hub id: configuration, split and columns are guessed, and the guess is stated."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.records import LoglikelihoodQuery
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData, dataset_name
from assaymark.tasks.python_tasks import bind

MUSIC = [
    {
        "id": i,
        "instruction": "Choose the best option.",
        "stem": f"Which interval has {i} semitones?",
        "options": {"A": f"a{i}", "B": f"b{i}", "C": f"c{i}", "D": None if i == 2 else f"d{i}"},
        "answer": "ABC"[i % 3],
    }
    for i in range(6)
]


def parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def selected(name: str, data: Path | None = None, **options: Any) -> tuple[BoundTask, str]:
    """Return the bound task of a name, and the note on what was guessed."""
    selection = Catalog.open(lm_eval=False).select([name], own=OwnData(data, **options))
    return bind(selection.tasks[0], BindOptions(data_dir=data, **options)), selection.notes[0]


def prompts(task: BoundTask) -> list[tuple[str, list[str], str]]:
    """Return prompt, choices and target of each sample."""
    return [
        (r.prompt, [q.continuation for q in r.queries if isinstance(q, LoglikelihoodQuery)], r.target)
        for r in task.requests()
    ]


@pytest.fixture
def music(tmp_path: Path) -> Path:
    """Return a folder with a data set in the layout of the Hub's repositories."""
    folder = tmp_path / "hub" / "m-a-p" / "MusicTheoryBench"
    parquet(folder / "data" / "test-00000-of-00002.parquet", MUSIC[:3])
    parquet(folder / "data" / "test-00001-of-00002.parquet", MUSIC[3:5])
    parquet(folder / "data" / "dev-00000-of-00001.parquet", MUSIC[5:])
    return folder


def test_a_repositorys_folder_is_a_task(music: Path) -> None:
    """Options by letter are listed, an absent one is not an option, and shots come from dev."""
    task, note = selected(str(music))
    assert task.task.name == "MusicTheoryBench"
    result = prompts(task)
    assert result[0][0] == "Which interval has 0 semitones?\nA. a0\nB. b0\nC. c0\nD. d0\nAnswer:"
    assert result[2] == ("Which interval has 2 semitones?\nA. a2\nB. b2\nC. c2\nAnswer:", [" A", " B", " C"], "2")
    assert "split 'test' (of dev, test), shots from 'dev'" in note
    assert "'stem', choices 'options' by letter, 'answer' is a letter" in note
    assert "ignored columns: id, instruction" in note
    assert f"assaymark task init {music}" in note


@pytest.mark.parametrize(
    ("rows", "prompt", "choices", "target"),
    [
        (
            [{"question": "Q?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"}],
            "Question: Q?\nAnswer:", [" x", " y"], "1",
        ),
        (
            [{"question": each, "choices": ["x", "y"], "answer": int(each == "Q?")} for each in ("Q?", "R?")],
            "Question: Q?\nAnswer:", [" x", " y"], "1",
        ),
        (
            [{"question": each, "choices": ["x", "y"], "answer": 2 - (each == "R?")} for each in ("Q?", "R?")],
            "Question: Q?\nAnswer:", [" x", " y"], "1",
        ),
        (
            [{"query": "Q?", "options": ["x", "y", "z"], "gold": "B"}],
            "Q?\nA. x\nB. y\nC. z\nAnswer:", [" A", " B", " C"], "1",
        ),
        (
            [{"query": each, "options": ["x", "y"], "label": str(int(each == "Q?"))} for each in ("Q?", "R?")],
            "Question: Q?\nAnswer:", [" x", " y"], "1",
        ),
        (
            [{"passage": "P.", "question": "Q?", "A": "x", "B": "y", "answer": "A"}],
            "P.\nQ?\nA. x\nB. y\nAnswer:", [" A", " B"], "0",
        ),
        (
            [{"context": "", "question": "Q?", "choices": ["x", "y"], "answer": "y"}],
            "Question: Q?\nAnswer:", [" x", " y"], "1",
        ),
        (
            [{"problem": "Q?", "choices": {"A": "x", "B": "y"}, "answer": "y"}],
            "Q?\nA. x\nB. y\nAnswer:", [" A", " B"], "1",
        ),
    ],
)  # fmt: skip
def test_shapes_of_questions(
    tmp_path: Path, rows: list[dict[str, Any]], prompt: str, choices: list[str], target: str
) -> None:
    """Options in lists, mappings and columns; answers by letter, number from 0 or 1, label or text; passages."""
    parquet(tmp_path / "set" / "test.parquet", rows)
    assert prompts(selected(str(tmp_path / "set"))[0])[0] == (prompt, choices, target)


def test_a_hub_id_reads_the_local_copy(tmp_path: Path) -> None:
    """`org/name` is looked for in the data folder first, and `:config` chooses among several."""
    for config in ("easy", "hard"):
        parquet(tmp_path / "org" / "set" / config / "validation.parquet", [{"question": config, "answer": "1"}])
    task, note = selected("org/set:hard", tmp_path)
    assert (task.task.name, next(task.requests()).prompt) == ("set_hard", "Question: hard\nAnswer:")
    assert "configuration 'hard', split 'validation', shots from 'validation'" in note
    with pytest.raises(UsageError, match=r"2 configurations; name one, as org/set:easy; it has: easy, hard"):
        selected("org/set", tmp_path)
    with pytest.raises(UnknownName, match="nearest: hard"):
        selected("org/set:hrad", tmp_path)
    with pytest.raises(UnknownName, match=r"split of org/set 'tset'.*it has: validation"):
        selected("org/set:hard:tset", tmp_path)


def test_unknown_columns_and_splits_are_refused(tmp_path: Path) -> None:
    """The error lists what there is."""
    parquet(tmp_path / "set" / "test.parquet", [{"a": 1, "b": 2}])
    with pytest.raises(DataError, match="its columns are a, b; expected a question"):
        selected(str(tmp_path / "set"))
    for split in ("first", "second"):
        parquet(tmp_path / "odd" / f"{split}.parquet", [{"question": "Q", "answer": "A"}])
    with pytest.raises(UsageError, match=r"no split test, validation or train; name one.*first, second"):
        selected(str(tmp_path / "odd"))
    assert selected(f"{tmp_path / 'odd'}::second")[0].n_original == 1


def test_faulty_rows_stop_or_are_skipped(tmp_path: Path) -> None:
    """A row without an answer is an error with its number; `skip_bad_rows` leaves it out."""
    rows = [{"question": "Q", "A": "x", "B": "y", "answer": answer} for answer in ("A", None)]
    parquet(tmp_path / "set" / "test.parquet", rows)
    with pytest.raises(DataError, match="row 2 has nothing in column 'answer'"):
        selected(str(tmp_path / "set"))
    task, _ = selected(str(tmp_path / "set"), skip_bad_rows=True)
    assert (task.n_original, str(task.skipped)) == (1, "1 row skipped: row 2 has nothing in column 'answer'")


def test_names_that_are_no_data_sets() -> None:
    """Only `org/name` is a Hub id: no other name sends anything anywhere."""
    assert [dataset_name(name) for name in ("mmlu", "a/b/c", "/x/y", "suite:x", "org/name:a:b:c", "*/x", "")] == [
        None
    ] * 7
    assert str(dataset_name("org/name:config:split")) == "org/name:config:split"
    assert str(dataset_name("org/name::split")) == "org/name::split"


def test_published_tasks_on_the_same_data_are_named(shared_dir: Path) -> None:
    """The note says that the library has tasks with published prompts on a data set."""
    selection = Catalog.open(lm_eval=False).select(["cais/mmlu:anatomy"], own=OwnData(shared_dir / "data"))
    assert "published prompts on cais/mmlu: see `assaymark ls tasks mmlu`" in selection.notes[1]


@pytest.fixture
def hub(music: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a server with the Hub's API, and its log; `two` has two configurations."""
    two = music.parent / "two"
    parquet(two / "easy" / "test.parquet", [{"question": "E?", "answer": "1"}])
    parquet(two / "hard" / "test.parquet", [{"question": "H?", "answer": "2"}])
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}/test.parquet\n"
        for name in ("easy", "hard")
    )
    (two / "README.md").write_text(f"---\nconfigs:\n{configs}---\n# Two\n")
    log = music.parents[1] / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.datasets.hub_server", str(music.parents[1])],
            stdout=stream,
            cwd=Path(__file__).parents[2],
        )
        try:
            while not (address := log.read_text().partition("\n")[0]):
                assert process.poll() is None
            yield address, log
        finally:
            process.terminate()
            process.wait()


def run_on(address: str, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with the Hub at an address, and caches of its own."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": address,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "0",
        "HF_DATASETS_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    command = [sys.executable, "-m", "assaymark", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_a_data_set_of_the_hub_is_evaluated(hub: tuple[str, Path], tmp_path: Path) -> None:
    """`run --tasks org/name` reads a repository through the Hub's own libraries; the guess is printed."""
    pytest.importorskip("datasets")
    address, log = hub
    run = ["run", "--model", "fake", "--quiet", "--json", "--tasks"]
    done = run_on(address, tmp_path, *run, "m-a-p/MusicTheoryBench")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["estimates"][0]["n"] == 5
    assert "m-a-p/MusicTheoryBench: configuration 'default', split 'test'" in done.stderr
    assert "GET /datasets/m-a-p/MusicTheoryBench/resolve/" in log.read_text()
    asked = run_on(address, tmp_path, *run, "m-a-p/two")
    assert asked.returncode == 2
    assert "m-a-p/two has 2 configurations; name one, as m-a-p/two:easy; it has: easy, hard" in asked.stderr
    chosen = run_on(address, tmp_path, *run, "m-a-p/two:hard")
    assert (chosen.returncode, json.loads(chosen.stdout)["estimates"][0]["task"]) == (0, "two_hard")
    absent = run_on(address, tmp_path, *run, "m-a-p/absent")
    assert (absent.returncode, len(absent.stderr.strip().splitlines())) == (3, 1)


def test_a_run_of_a_data_set_is_reproduced(music: Path) -> None:
    """The name of a data set is stored as the file of a task is, so the run can be repeated from the store alone."""
    import assaymark
    from assaymark.runs.reproduce import reproduce

    run = assaymark.evaluate("fake", f"{music}::dev")
    assert run.estimates[0].n == 1
    assert reproduce(run).is_reproduced
