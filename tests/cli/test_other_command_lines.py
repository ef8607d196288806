"""Command lines written for any version of lm-eval: they run, or an error has what to write instead."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import COMMANDS, main
from assaymark.store import Store

FAKE = ["run", "--model", "fake", "--quiet", "--tasks", "demo_letters", "--limit", "4"]

STAND_IN = '''
"""The part of wandb's interface that is called, writing down what it is given."""
import json, os
run = None
class Table:
    def __init__(self, columns, data):
        self.columns, self.data = columns, data
class Config(dict):
    def update(self, given, allow_val_change=False):
        super().update(given)
class Run:
    url = "https://wandb.example/run/1"
    def __init__(self, given):
        if given.get("project") == "broken":
            raise RuntimeError("no connection to the server\\nmore")
        self.seen = {"init": given, "log": [], "finished": False}
        self.config = Config()
    def log(self, values, step=None):
        plain = {k: v.data if isinstance(v, Table) else v for k, v in values.items()}
        self.seen["log"].append([step, plain])
    def finish(self):
        self.seen["finished"], self.seen["config"] = True, dict(self.config)
        with open(os.environ["WANDB_SEEN"], "w") as file:
            json.dump(self.seen, file)
def init(**given):
    return Run(given)
'''


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for wandb on the path; return the file into which it writes its arguments."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "wandb.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.setenv("WANDB_SEEN", str(tmp_path / "seen.json"))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    return tmp_path / "seen.json"


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a command; return its exit code and standard error."""
    code = main(list(words))
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return code, said


# ------------------------------------------------------------------------------------------------- W&B and the Hub


def test_results_are_logged_to_wandb_where_it_is_installed(
    wandb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--wandb_args begins a run of W&B and logs each metric under lm-eval's name, with the configuration."""
    store = str(tmp_path / "store.sqlite")
    words = ["--wandb_args", "project=mine,name=first,step=7", "--wandb_config_args", "lr=0.1", "--store", store]
    code, said = run_command(capsys, *FAKE, *words)
    assert code == 0
    assert "logged to W&B: https://wandb.example/run/1" in said
    seen = json.loads(wandb.read_text())
    assert seen["init"] == {"project": "mine", "job_type": "eval", "name": "first"}
    ((step, values),) = seen["log"]
    assert step == 7
    with Store.open(store) as opened:
        (row,) = opened.runs()
        estimates = opened.estimates(row.run_id)
    for each in estimates:
        assert each.filter == "none"
        assert values[f"{each.task}/{each.metric}"] == each.value
        assert values[f"{each.task}/{each.metric}_n"] == each.n
    assert [line[:2] for line in values["evaluation/eval_results"]] == [
        [estimate.task, estimate.metric] for estimate in estimates
    ]
    assert seen["config"]["lr"] == 0.1
    assert seen["config"]["assaymark"]["tasks"]
    assert seen["finished"]


def test_nothing_is_logged_without_the_flag_or_scores(
    wandb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the flag, wandb is not even imported; with --predict_only there are no scores to log."""
    words = ["--wandb_args", "project=mine", "--predict_only", "--store", str(tmp_path / "other.sqlite")]
    code, said = run_command(capsys, *FAKE, *words)
    assert (code, wandb.exists()) == (0, False)
    assert "nothing is logged to W&B, since with --predict_only there are no scores" in said
    code, said = run_command(capsys, *FAKE, "--store", str(tmp_path / "store.sqlite"))
    assert (code, said) == (0, "")
    assert "wandb" not in sys.modules
    assert not wandb.exists()


def test_a_failure_of_wandb_loses_no_run(wandb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If W&B cannot be reached the run is stored, the exit code is 0, and a note has how to log it later."""
    store = str(tmp_path / "store.sqlite")
    code, said = run_command(capsys, *FAKE, "--wandb_args", "project=broken", "--store", store)
    assert code == 0
    assert "logging to W&B failed (no connection to the server)" in said
    assert not wandb.exists()
    with Store.open(store) as opened:
        assert [row.status for row in opened.runs()] == ["finished"]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--wandb_args", "project=x"], "wandb is not installed, so nothing is logged to W&B"),
        (["--hf_hub_log_args", "hub_results_org=x", "push_samples_to_hub=True"], "nothing is sent to the Hub"),
        (["--trackio_args", "project=x"], "nothing is sent to Trackio"),
        (["--no_cache"], "stored responses are used; to evaluate again give a new --store FILE"),
        (["--wandb_config_args", "lr=1"], "has no effect without --wandb_args"),
    ],
)
def test_flags_without_effect_are_accepted_with_a_note(
    words: list[str], note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run accepts such a flag, and prints one line about it."""
    monkeypatch.setattr("assaymark.interop.wandb_log.find_spec", lambda _: None)
    code, said = run_command(capsys, *FAKE, *words, "--store", str(tmp_path / "store.sqlite"))
    assert code == 0
    (line,) = said.splitlines()
    assert line.startswith("note: ")
    assert note in line


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["validate", "--tasks", "arc_easy"], "here it is `assaymark task check TASK|FILE`"),
        (["run", "--no_cahce"], "nearest: --no_cache"),
        (["run", "--description_dict_path", "x"], "as `description:`"),
        (["run", "--provide_description"], "as `description:`"),
        (["run", "--decontamination_ngrams_path", "x"], "assaymark audit contamination"),
        (["run", "--output_base_path", "x"], "--output_path"),
        (["run", "--nothing_like_this"], "no such option --nothing_like_this; see `assaymark run --help`"),
        (["run", "--num_fewshot", "many"], "expected shots such as 5"),
        (["run", "--limit"], "requires an argument; see `assaymark"),
        (["run", "--numerics", "float64"], "float32"),
        (["run", "--model", "sglang", "--model_args", "pretrained=x", "--tasks", "demo_letters"],
         "assaymark lm-eval --model sglang"),
        (["run", "--model", "nemo_lm", "--tasks", "demo_letters"], "assaymark lm-eval --model nemo_lm"),
        (["run", "--model", "nemo", "--tasks", "demo_letters"], "assaymark lm-eval --model nemo"),
        (["run", "--model", "gguf", "--model_args", "base_url=http://localhost:8000", "--tasks", "demo_letters"],
         "--model local-completions --model_args model=gguf,base_url=http://localhost:8000/v1/completions,"),
        (["run", "--model", "ggml", "--model_args", "base_url=http://h:1/v1", "--tasks", "demo_letters"],
         "base_url=http://h:1/v1/completions"),
        (["run", "--model", "gguf", "--tasks", "demo_letters"], "gguf_file="),
        (["run", "--model", "gpt2", "--tasks", "demo_letters"], "--model hf --model_args pretrained=gpt2"),
        (["run", "--model", "anthropic", "--tasks", "demo_letters"], "--model local-chat-completions"),
    ],
)  # fmt: skip
def test_errors_are_one_line_with_a_remedy(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown kind of model, command or flag gives one line on stderr with a remedy, and exit code 2."""
    code, said = run_command(capsys, *words)
    assert code == 2
    (line,) = said.splitlines()
    assert line.startswith("error: ")
    assert expected in line


def test_the_command_alone_shows_first_commands_and_its_help_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments there are five first commands; the help lists all by what they are for, each once."""
    assert main([]) == 0
    assert capsys.readouterr().out.count("\nassaymark ") == 4
    assert main(["--help"]) == 0
    listed = re.findall(r"^  ([a-z][\w-]*)  ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


# --------------------------------------------------------------------------------------------------- task files


def task(folder: Path, **changes: Any) -> Path:
    """Write a task file with its rows."""
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text('{"question": "Q?"}\n{"question": "R?"}\n')
    spec = {
        "task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{question}}",
        "doc_to_choice": ["a", "b"], "doc_to_target": 0, **changes,
    }  # fmt: skip
    (folder / "mine.yaml").write_text(json.dumps(spec))
    return folder / "mine.yaml"


@pytest.mark.parametrize("given", ["file", "label"])
def test_an_old_group_in_a_tasks_file_suggests_tag(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`group: NAME` beside a task's own keys was a label before 0.4.4; the error has what to write now."""
    file = task(tmp_path / "tasks", group="my_label")
    words = [str(file)] if given == "file" else ["my_label", "--include_path", str(file.parent)]
    code, said = run_command(capsys, "run", "--model", "fake", "--quiet", "--tasks", *words)
    assert code == 3
    (line,) = said.splitlines()
    assert "write `tag: my_label` in its place" in line
    assert str(file) in line


def test_old_labels_in_a_list_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of such labels does not affect its task, and a note states that."""
    file = task(tmp_path / "tasks", group=["one", "two"])
    words = ["--limit", "1", "--store", str(tmp_path / "s.sqlite")]
    code = main(["run", "--model", "fake", "--quiet", "--tasks", str(file), *words])
    output = capsys.readouterr()
    assert code == 0
    assert "write `tag: ['one', 'two']`" in " ".join((output.out + output.err).split())


@pytest.mark.parametrize("how", ["import", "dotted"])
def test_a_forks_missing_module_is_named(how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error for a task that needs a module of a fork of lm-eval has the module and the installed version."""
    pytest.importorskip("lm_eval")
    file = task(tmp_path / "tasks")
    (file.parent / "mine_code.py").write_text("from lm_eval.tasks.of_a_fork.utils import put\n")
    path = "mine_code.put" if how == "import" else "lm_eval.tasks.of_a_fork.utils.put"
    file.write_text(file.read_text().replace('"{{question}}"', f"!function {path}"))
    code, said = run_command(capsys, "run", "--model", "fake", "--quiet", "--tasks", str(file))
    assert code == 3
    (line,) = said.splitlines()
    assert "lm_eval.tasks.of_a_fork" in line
    assert "the installed lm-eval 0." in line
    assert "is not installed" not in line


def test_a_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As bash asks through click's variables; nothing is written that would land in the line that is being typed."""
    monkeypatch.setenv("_ASSAYMARK_COMPLETE", "bash_complete")
    for words, at, expected in (("assaymark trac", 1, "plain,traces\n"), ("assaymark run --tas", 2, "plain,--tasks\n")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(at))
        with pytest.raises(SystemExit) as ended:
            main([])
        assert ended.value.code == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == (expected, "")
