"""`assaymark eval`: the command line of torchtune's RFC, and its five examples."""

import json
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from pyarrow import parquet

from assaymark.cli.main import main
from assaymark.runs.commands import eval as command
from assaymark.tasks import lm_eval_names
from tests.models.checkpoint import trainers_files as write
from tests.models.checkpoint.test_trainers import DEMO


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the demo's model as a state dict of torchtune, alone in its folder."""
    folder = write.write_torchtune(DEMO, tmp_path_factory.mktemp("torchtune"))
    target: Path = tmp_path_factory.mktemp("finetuned") / "llama2-finetuned.pt"
    return (folder / "torchtune_model_0.pt").rename(target)


def said(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """Run `assaymark eval` and return its exit code and what it printed."""
    code = main(["eval", *map(str, words)])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


def of_model(finetuned: Path) -> list[Any]:
    """Return the four options of the RFC's examples that name a model."""
    return [
        "--base-model", DEMO, "--model-checkpoint", finetuned,
        "--tokenizer", "llama2_tokenizer", "--tokenizer-checkpoint", DEMO,
    ]  # fmt: skip


def test_the_help_has_every_option_of_the_rfc(capsys: pytest.CaptureFixture[str]) -> None:
    """With its names, and dashes."""
    code, out, _ = said(capsys, "--help")
    assert code == 0
    named = ("base-model", "model-checkpoint", "tokenizer", "tokenizer-checkpoint", "tasks", "num-gpus", "batch-size")
    assert [name for name in (*named, "num-fewshot") if f"--{name} " not in out] == []
    assert "eval ls" in out


@pytest.mark.slow
def test_a_checkpoint_scores_as_its_hugging_face_folder(
    finetuned: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """All options together; what `run` makes of the folder is the same to the last digit."""
    rest = ["--limit", "10", "--quiet", "--json", "--store", tmp_path / "store.db"]
    tasks = ["--tasks", "demo_letters", "demo_facts", "--num-gpus", "0", "--batch-size", "8", "--num-fewshot", "2"]
    code, out, err = said(capsys, *of_model(finetuned), *tasks, *rest)
    assert code == 0, err
    same = ["run", "--model_args", f"pretrained={DEMO}", "--tasks", "demo_letters,demo_facts", "--num_fewshot", "2"]
    assert main([*same, *map(str, rest)]) == 0
    other = json.loads(capsys.readouterr().out)
    values = [[each["value"] for each in item["estimates"]] for item in (json.loads(out), other)]
    assert values[0] == values[1]
    assert values[0]


def test_a_task_of_another_package(
    finetuned: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Example 1: the RFC's error text where lm-eval is not installed."""
    monkeypatch.setattr(lm_eval_names, "task_folder", lambda: None)
    code, _, err = said(capsys, *of_model(finetuned), "--tasks", "bigbench")
    text = "Task `bigbench` only available with EleutherAI Eval Harness. Install with `pip install lm-eval`."
    assert (code, err) == (2, f"error: {text}\n")


def test_several_gpus(finetuned: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 2: a copy of the model on each GPU; one clear line where there are fewer."""
    monkeypatch.setattr("assaymark.engine.memory.cuda_count", lambda: 1)
    code, _, err = said(capsys, *of_model(finetuned), "--tasks", "hellaswag", "--num-gpus", "4")
    assert (code, err) == (2, "error: --num-gpus 4, but torch finds 1 CUDA GPUs here; use --num-gpus 1\n")
    monkeypatch.setattr("assaymark.engine.memory.cuda_count", lambda: 8)
    assert command._workers(4) == ["--device", "cuda", "--workers", "4"]
    assert command._workers(1) == ["--device", "cuda"]


@pytest.mark.slow
def test_a_standard_suite(
    finetuned: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, shared_dir: Path
) -> None:
    """Example 3: the Open LLM Leaderboard by its name, with real rows."""
    rest = ["--limit", "1", "--quiet", "--store", tmp_path / "store.db", "--data_dir", shared_dir / "data"]
    code, out, err = said(capsys, *of_model(finetuned), "--tasks", "open-llm-leaderboard", *rest)
    assert code == 0, err
    assert "open-llm-v1" in out
    assert "hellaswag" in out


def test_a_data_set_of_the_hub(finetuned: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Example 4: m-a-p/MusicTheoryBench with its real columns; the options are one column, by letter."""
    rows = [
        {
            "instruction": "Choose the best option.",
            "stem": f"Which note is a fifth above C (question {at})?",
            "options": {"A": "G", "B": "F", "C": "D", "D": "E"},
            "subject": "music theory - knowledge",
            "analysis": "",
            "answer": "A",
        }
        for at in range(6)
    ]
    folder = tmp_path / "data" / "m-a-p" / "MusicTheoryBench" / "default"
    folder.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), folder / "test.parquet")
    rest = ["--quiet", "--json", "--store", tmp_path / "store.db", "--data_dir", tmp_path / "data"]
    code, out, err = said(capsys, *of_model(finetuned), "--tasks", "m-a-p/MusicTheoryBench", *rest)
    assert code == 0, err
    assert "configuration 'default', split 'test'" in err
    assert "multiple choice by letter: 'stem', choices 'options' by letter, 'answer' is a letter" in err
    (estimate,) = json.loads(out)["estimates"]
    assert (estimate["task"], estimate["metric"], estimate["n"]) == ("MusicTheoryBench", "acc", 6)


def test_the_list_of_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    """Example 5: `eval ls`, all tasks or those that match words."""
    code, out, _ = said(capsys, "ls", "demo", "yes")
    assert code == 0
    assert out.split() == ["demo_yesno", "task", "assaymark"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tasks", "demo_facts"], "no model was given; expected --base-model NAME|DIR, --model-checkpoint PATH"),
        (["--base-model", str(DEMO)], "missing option --tasks; see all tasks with `assaymark eval ls`"),
        (["--base-model", "llama2_7b", "--tasks", "demo_facts"], "llama2_7b is a shape without weights"),
        (["--base-model", str(DEMO), "--tasks", "demo_fact"], "unknown task 'demo_fact'; nearest: demo_facts"),
        (["--base-model", str(DEMO), "--tasks", "demo_facts", "--tokenizer", "llama9_tokenizer"],
         "unknown tokenizer 'llama9_tokenizer'; nearest: llama2_tokenizer"),
        (["--base-model", str(DEMO), "--tasks", "demo_facts", "--tokenizer-checkpoint", "/no/such.model"],
         "--tokenizer-checkpoint /no/such.model: no such file"),
        (["--base-model", str(DEMO), "--model-checkpoint", "/no/such.pt", "--tasks", "demo_facts"],
         "/no/such.pt does not exist"),
        (["--basemodel", str(DEMO), "--tasks", "demo_facts"], "no such option --basemodel; nearest: --base-model"),
        (["list"], "unknown command 'list'; expected ls, or options"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is missing or misspelt, the line says what to give instead."""
    code, _, err = said(capsys, *words)
    assert code != 0
    assert message in err
    assert err.count("\n") == 1


def test_the_names_of_torchtune_are_complete() -> None:
    """Every option of the command has help, and every tokenizer is one that the parser accepts."""
    assert isinstance(command.eval_, click.Command)
    assert all(getattr(each, "help", "") for each in command.eval_.params if isinstance(each, click.Option))
