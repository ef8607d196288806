"""`task init`: the written file is the guessed task, or one worded like another to the byte."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.records import LoglikelihoodQuery, Request
from assaymark.runs.task_init import InitOptions, init_task
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.tasks.folders import task_spec, write_rows, write_task

CAPITALS = [
    {"stem": "France?", "option_a": "Lyon", "option_b": "Paris", "option_c": "Nice", "option_d": "Lille", "gold": "B"},
    {"stem": "Italy?", "option_a": "Rome", "option_b": "Milan", "option_c": "Turin", "option_d": "Genoa", "gold": "A"},
    {"stem": "Spain?", "option_a": "Avila", "option_b": "Leon", "option_c": "Madrid", "option_d": "Vigo", "gold": "C"},
]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as a CSV file."""
    listed = list(rows)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    return path


def opened(name: str, data: Path | None = None, **options: Any) -> BoundTask:
    """Return a bound task by name or file."""
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    return bind(task, BindOptions(data_dir=data, **options))


def asked(request: Request) -> tuple[str, list[str], str]:
    """Return what a request asks, without the task's name: prompt, choices, target."""
    queries = [query.continuation for query in request.queries if isinstance(query, LoglikelihoodQuery)]
    return request.prompt, queries, request.target


def letters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of MMLU with a column for each option and a letter as the answer."""
    options = dict(zip("ABCD", row["choices"], strict=True))
    return {
        "stem": row["question"],
        **{f"option_{k.lower()}": v for k, v in options.items()},
        "gold": "ABCD"[row["answer"]],
    }


def test_the_written_file_is_the_guessed_task(tmp_path: Path) -> None:
    """Prompts, choices and targets of the YAML file are those of the file of rows; it can be checked and edited."""
    path = write(tmp_path / "capitals.csv", CAPITALS)
    written = init_task(str(path), InitOptions())
    assert written.file == tmp_path / "capitals.yaml"
    result, own = (list(map(asked, opened(str(each)).requests())) for each in (written.file, path))
    assert result == own
    assert "'stem', choices option_a, option_b, option_c, option_d, 'gold' is a letter" in written.guess
    with pytest.raises(UsageError, match=r"capitals\.yaml exists already"):
        init_task(str(path), InitOptions())


@pytest.mark.parametrize("suffix", [".jsonl", ".csv.gz", ".tsv"])
def test_other_files(tmp_path: Path, suffix: str) -> None:
    """JSON lines, gzipped and tab-separated files are named with what is needed to read them."""
    import gzip

    path = tmp_path / f"qa{suffix}"
    if suffix == ".jsonl":
        path.write_text(json.dumps({"question": "Q?", "choices": ["x", "y"], "answer": "y"}))
    elif suffix == ".tsv":
        path.write_text("question\tanswer\nQ?\ty\n")
    else:
        path.write_bytes(gzip.compress(b"question,answer\nQ?,y\n"))
    written = init_task(str(path), InitOptions(output=tmp_path / "out.yaml"))
    assert next(opened(str(written.file)).requests()).prompt == "Question: Q?\nAnswer:"


def test_like_mmlu_is_mmlus_prompt_to_the_byte(shared_dir: Path, tmp_path: Path) -> None:
    """MMLU's own rows, in other columns, get MMLU's own prompts with 5 shots, choices and targets."""
    mmlu = opened("mmlu_anatomy", shared_dir / "data", num_fewshot=5)
    rows = [sample.row for sample in mmlu.samples()]
    shots = [mmlu.shot(place).row for place in range(5)]
    test = write(tmp_path / "anatomy.csv", map(letters, rows))
    dev = write(tmp_path / "dev.csv", map(letters, shots))
    written = init_task(str(test), InitOptions(like="mmlu_anatomy", fewshot=dev))
    assert written.group is None
    own = opened(str(written.file), num_fewshot=5)
    assert list(map(asked, own.requests())) == list(map(asked, mmlu.requests()))


def test_like_gsm8k_and_arc(shared_dir: Path, tmp_path: Path) -> None:
    """A generated answer and choices with texts and labels are worded as there, too."""
    gsm8k = opened("gsm8k", shared_dir / "data", num_fewshot=0, limit=20)
    rows = [{"problem": s.row["question"], "solution": s.row["answer"]} for s in gsm8k.samples()]
    file = init_task(str(write(tmp_path / "sums.csv", rows)), InitOptions(like="gsm8k")).file
    assert [asked(r) for r in opened(str(file), num_fewshot=0).requests()] == [asked(r) for r in gsm8k.requests()]
    arc = opened("arc_easy", shared_dir / "data", limit=60)
    four = [s for s in arc.samples() if len(s.row["choices"]["text"]) == 4]
    as_columns = [
        {"question": s.row["question"], "choices": s.row["choices"]["text"],
         "answer": "ABCD"[s.row["choices"]["label"].index(s.row["answerKey"])]} for s in four
    ]  # fmt: skip
    path = tmp_path / "science.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in as_columns))
    file = init_task(str(path), InitOptions(like="arc_easy")).file
    assert list(map(asked, opened(str(file)).requests())) == [asked(arc.request(sample)) for sample in four]


@pytest.fixture
def towns(tmp_path: Path) -> Path:
    """Return a folder with a group `towns` of two tasks, worded as MMLU."""
    folder = tmp_path / "towns"
    text = "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:"
    rows = [
        {"question": f"{row['stem']} {i}", "choices": list("abcd"), "answer": i % 4}
        for i in range(4)
        for row in CAPITALS
    ]
    write_rows(folder, rows, rows)
    for name in ("towns_north", "towns_south"):
        changes = {
            "doc_to_text": text,
            "doc_to_choice": list("ABCD"),
            "doc_to_target": "answer",
            "fewshot_split": "train",
        }
        write_task(folder, task_spec(name, metric_list=[{"metric": "acc"}], **changes))
    metrics = [{"metric": "acc", "aggregation": "mean", "weight_by_size": True}]
    write_task(folder, {"group": "towns", "task": ["towns_north", "towns_south"], "aggregate_metric_list": metrics})
    return folder


def test_a_subject_joins_a_group_of_its_own(tmp_path: Path, towns: Path) -> None:
    """The new group has one subject more and says so; the known group keeps its value, and both are shown."""
    rows = [{**row, "stem": f"{row['stem']} {i}"} for i in range(4) for row in CAPITALS]
    path = write(tmp_path / "capitals.csv", rows)
    written = init_task(str(path), InitOptions(like="towns", include_path=[towns]))
    assert written.group == "towns_plus_capitals"
    options: Any = {"model_args": {"accuracy": 0.5}, "limit": 10, "include_path": [towns]}
    run = assaymark.evaluate("fake", str(written.group_file), **options)
    groups = {estimate.task: estimate for estimate in run.estimates if estimate.details["kind"] == "group"}
    alone = assaymark.evaluate("fake", "towns", **options).estimate("towns")
    joined, known = groups["towns_plus_capitals"], groups["towns"]
    assert (known.value, known.n) == (alone.value, 20)
    own = run.estimate("capitals").value or 0.0
    assert joined.n == 30
    assert joined.value == pytest.approx(((known.value or 0) * 20 + own * 10) / 30)
    assert joined.details["alias"] == "towns + capitals (own subject added)"


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ("hellaswag", "by Python functions, not templates"),
        ("gsm8k", "it is generate_until, and these rows are multiple_choice"),
        ("demo_letters", "its prompt uses the columns answer, choices, question, stem"),
        ("gsm8k_cot", "has its examples in its file"),
    ],
)
def test_what_other_rows_cannot_be_like(tmp_path: Path, like: str, message: str) -> None:
    """A prompt of other columns or of functions is refused in one line."""
    with pytest.raises(UsageError, match=message):
        init_task(str(write(tmp_path / "capitals.csv", CAPITALS)), InitOptions(like=like))
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".yaml"] == []


def test_bad_input_is_named(tmp_path: Path) -> None:
    """Another number of options, a taken name, unknown tasks, absent and faulty files."""
    three = [{key: row[key] for key in row if key != "option_d"} for row in CAPITALS]
    path = str(write(tmp_path / "three.csv", three))
    with pytest.raises(UsageError, match="its questions have 4 options, and these have 3"):
        init_task(path, InitOptions(like="mmlu"))
    with pytest.raises(UsageError, match=r"a task called 'mmlu' already; .*--name"):
        init_task(path, InitOptions(name="mmlu"))
    with pytest.raises(UnknownName, match="mmlu_anatomy"):
        init_task(path, InitOptions(like="mmlu_anatomi"))
    with pytest.raises(DataError, match=r"no file 'absent\.csv'"):
        init_task("absent.csv", InitOptions())
    with pytest.raises(UsageError, match="neither a file of rows"):
        init_task("nothing", InitOptions())
    bad = tmp_path / "bad.csv"
    bad.write_text("question,answer\nQ,\nR,1\n")
    with pytest.raises(DataError, match="line 2 has nothing"):
        init_task(str(bad), InitOptions())
    file = init_task(str(bad), InitOptions(skip_bad_rows=True)).file
    assert opened(str(file)).skipped.n == 1


@pytest.mark.slow
def test_the_command_line(
    tmp_path: Path, towns: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`task init` prints what it guessed and wrote; what it wrote passes `task check` and runs."""
    from assaymark.cli.main import main

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "capitals.csv", CAPITALS)
    assert main(["task", "init", "capitals.csv", "--like", "towns", "--include_path", "towns"]) == 0
    assert "wrote capitals.yaml and towns_plus_capitals.yaml" in capsys.readouterr().out
    assert main(["task", "check", "capitals.yaml"]) == 0
    assert main(["run", "--model", "fake", "--quiet", "--limit", "2", "--tasks", "towns_plus_capitals.yaml"]) == 0
    assert "capitals" in capsys.readouterr().out
    assert main(["task", "init", "capitals.csv", "--json", "-o", "other.yaml", "--data_dir", "towns"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == "other.yaml"
    assert main(["task", "init", "capitals.csv"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
