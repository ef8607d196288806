"""Bad input gives one clear line and the right exit code, and loses nothing."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import StoreError
from assaymark.runs.prepare import split_names
from assaymark.store import Store
from tests.conftest import ROOT

FAKE = ["run", "--model", "fake", "--quiet"]


def multiple_choice(text: str = "{{question}}", split: str = "test", file: str = "rows.jsonl") -> str:
    """Return a task file, valid except for the arguments."""
    return (
        "task: mine\ndataset_path: json\noutput_type: multiple_choice\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
        f"dataset_kwargs: {{data_files: {{test: {file}}}}}\ntest_split: {split}\ndoc_to_text: '{text}'\n"
    )


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a command and return its exit code and standard error, which must have no traceback."""
    code = main(list(words))
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return code, said


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["rnu"], 2, "nearest: run"),
        ([*FAKE, "--tasks", "demo_leters"], 2, "demo_letters"),
        ([*FAKE, "--taks", "demo_letters"], 2, "--tasks"),
        ([*FAKE], 2, "--tasks"),
        ([*FAKE, "--tasks", "demo_letters", "--limit", "-3"], 2, "limit is -3"),
        ([*FAKE, "--tasks", "demo_letters", "--limit", "2.5"], 2, "limit is 2.5"),
        ([*FAKE, "--tasks", "demo_letters", "--limit", "nan"], 2, "limit is nan"),
        ([*FAKE, "--tasks", "demo_letters", "--limit", "inf"], 2, "limit is inf"),
        ([*FAKE, "--tasks", "demo_letters", "--model_args", "accuracy=abc"], 2, "expected a number"),
        ([*FAKE, "--tasks", "demo_letters", "--num_fewshot", "-1"], 2, "num_fewshot is -1"),
        ([*FAKE, "--tasks", "demo_letters", "--num_fewshot", "100000"], 2, "100000"),
        ([*FAKE, "--tasks", "demo_letters", "--profile", "open-llm-v3"], 2, "open-llm-v2"),
        ([*FAKE, "--tasks", "demo_letters", "--seed", "x"], 2, "--seed is 'x'"),
        ([*FAKE, "--tasks", "demo_letters", "--samples", "{demo"], 2, "not JSON"),
        ([*FAKE, "--tasks", "demo_letters", "--samples", "nowhere.json"], 2, "not a file"),
        ([*FAKE, "--tasks", "demo_who", "--samples", '{"demo_who": [999999]}'], 2, "999999"),
        ([*FAKE, "--tasks", "demo_who", "--samples", '{"demo_yesno": [1]}'], 2, "demo_yesno"),
        ([*FAKE, "--tasks", "demo_letters", "--fewshot_as_multiturn"], 2, "apply_chat_template"),
        ([*FAKE, "--tasks", "demo_letters", "--log_samples"], 2, "--output_path"),
        ([*FAKE, "--tasks", "demo_letters", "--include_path", "/nowhere"], 2, "/nowhere"),
        ([*FAKE, "--tasks", "demo_letters", "--data_dir", "/nowhere"], 2, "/nowhere"),
        (
            ["run", "--model", "hf", "pretrained=org/name", "--tasks", "demo_letters"],
            2,
            "write assaymark run --model hf --tasks demo_letters --model_args pretrained=org/name",
        ),
        (["run", "--model_args", "org/name", "--tasks", "demo_letters"], 2, "write --model_args pretrained=org/name"),
        (
            ["run", "org/name", "demo_letters", "--limit", "2"],
            2,
            "write assaymark run --model_args pretrained=org/name --tasks demo_letters --limit 2",
        ),
        (["run", "hf", "org/name", "q.csv"], 2, "run --model hf --model_args pretrained=org/name --tasks q.csv"),
        ([*FAKE, "demo_letters"], 2, "--tasks demo_letters"),
        ([*FAKE, "--tasks", "demo_letters", "--wandb_args", "project"], 2, "wandb_args: 'project' is not name=value"),
        ([*FAKE, "--tasks", "demo_letters", "--gen_kwargs", "rubbish"], 2, "gen_kwargs: 'rubbish' is not name=value"),
        ([*FAKE, "--tasks", "gsm8k", "--gen_kwargs", "{rubbish"], 2, "--gen_kwargs: '{rubbish' is not JSON"),
        (["run", "--model", "hff", "--tasks", "demo_letters"], 2, "hf"),
        (["run", "--model_args", "pretrained=/nowhere/model", "--tasks", "demo_letters"], 5, "/nowhere/model"),
        (["run", "--model_args", "pretrained", "--tasks", "demo_letters"], 2, "name=value"),
        (["run", "--model_args", "pretrained=x,dtpye=float16", "--tasks", "demo_letters"], 2, "dtype"),
        (["run", "--tasks", "demo_letters"], 2, "pretrained"),
        (["show", "nothing"], 2, "no store"),
        (["show", "last", "--wrong"], 2, "--samples TASK"),
        (["compare", "last"], 2, "run"),
        (["explain", "arc_chalenge"], 2, "arc_challenge"),
        (["explain", "arc_easy", "boolq"], 2, "boolq"),
    ],
)
def test_wrong_words_get_one_clear_line(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, expected: str
) -> None:
    """The line has the value and a remedy; usage errors exit with 2, a missing model with 5."""
    got, said = run_command(capsys, *words)
    assert got == code, said
    assert expected in said
    assert len([line for line in said.splitlines() if line.startswith(("error", "Error"))]) == 1, said


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("task: [unclosed", "mine.yaml"),
        ("- a\n- b\n", "mine.yaml"),
        ("task: mine\noutput_typ: multiple_choice\n", "output_type"),
        ("task: mine\noutput_type: multiple\n", "multiple_choice"),
        ("task: mine\ninclude: gone.yaml\n", "gone.yaml"),
        (multiple_choice(text="{{qestion}}"), "qestion"),
        (multiple_choice(split="tset"), "tset"),
        (multiple_choice(file="broken.jsonl"), "broken.jsonl"),
        (multiple_choice(file="gone.jsonl"), "gone.jsonl"),
        (multiple_choice(text="{{question"), "doc_to_text"),
        (multiple_choice() + "metric_list: 5\n", "metric_list"),
        (multiple_choice() + "repeats: -1\n", "repeats"),
        (multiple_choice().replace("[a, b]", "[]"), "doc_to_choice"),
    ],
)
def test_a_bad_task_file_names_the_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, expected: str
) -> None:
    """The error for an invalid task file has its path and the key or column, and exits with 3."""
    (tmp_path / "mine.yaml").write_text(content)
    (tmp_path / "rows.jsonl").write_text('{"question": "Q?"}\n{"question": "R?"}\n')
    (tmp_path / "broken.jsonl").write_text('{"question": "Q?"}\n{"question": \n')
    code, said = run_command(capsys, *FAKE, "--tasks", str(tmp_path / "mine.yaml"))
    assert code in {2, 3}, said
    assert expected in said


def test_a_file_that_is_not_utf8_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The error for a CSV in another encoding has its line and a remedy; its bytes are not evaluated as text."""
    (tmp_path / "latin.csv").write_bytes("question,A,B,answer\nWas ist gr\u00f6\u00dfer?,a,b,A\n".encode("latin-1"))
    code, said = run_command(capsys, *FAKE, "--tasks", str(tmp_path / "latin.csv"))
    assert code == 3
    assert "UTF-8" in said
    assert "line 2" in said


def test_control_characters_of_a_file_are_shown_escaped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A binary file named .csv is refused in a line that cannot control the terminal."""
    (tmp_path / "binary.csv").write_bytes(b"\x1b[31mred\x00,b\x07\n1,2\n")
    code, said = run_command(capsys, *FAKE, "--tasks", str(tmp_path / "binary.csv"))
    assert code == 3
    assert r"\x1b[31mred\x00" in said
    assert all(sign.isprintable() for sign in said.rstrip("\n").replace("\n", ""))


def test_a_run_without_any_response_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """If every request failed, the exit code is 5, also for the same command again, when all is stored."""
    words = [*FAKE, "--tasks", "demo_who", "--limit", "3", "--model_args", "fail=1.0"]
    assert run_command(capsys, *words)[0] == 5
    assert main(words) == 5
    assert "6 outputs failed" in capsys.readouterr().out


def test_a_config_without_an_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A device is read up to a bound; a pipe may be one (`-C <(...)`), so that what is no regular file is accepted."""
    code, said = run_command(capsys, *FAKE, "--tasks", "demo_who", "--config", "/dev/zero")
    assert (code, "has more than 1 MiB" in said) == (2, True)


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json stdout is one JSON document: --write_out goes to stderr, --show_config into the document."""
    assert main([*FAKE, "--tasks", "demo_who", "--limit", "2", "--json", "--write_out", "--show_config"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["configuration"]["limit"] == 2
    assert "demo_who: first prompt" in printed.err


def test_reading_creates_no_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A mistyped --store is reported, and no empty store is created there."""
    for words in (["show", "last"], ["rm", "last", "-y"], ["verify"], ["compare", "a", "b"]):
        code, said = run_command(capsys, *words, "--store", str(tmp_path / "typo.sqlite"))
        assert (code, "no store" in said) == (2, True)
    assert list(tmp_path.glob("typo*")) == []


def test_a_broken_store_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file that is not a database is refused with exit code 4, and not changed."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"this is not a database" * 100)
    code, said = run_command(capsys, *FAKE, "--tasks", "demo_letters", "--store", str(path))
    assert code == 4
    assert str(path) in said
    assert path.read_bytes() == b"this is not a database" * 100


def test_a_bad_config_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The error for an unknown key of --config has the nearest option; the command line overrides the file."""
    config = tmp_path / "run.yaml"
    config.write_text("model: fake\ntaks: [demo_letters]\n")
    code, said = run_command(capsys, "run", "--config", str(config))
    assert (code, "tasks" in said) == (2, True)
    config.write_text("model: fake\ntasks: [demo_letters]\nlimit: 3\n")
    assert main(["run", "--quiet", "--json", "--config", str(config), "--limit", "4"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["limit"] == 4


SLOW = [
    sys.executable,
    "-m",
    "assaymark",
    "run",
    "--model",
    "fake",
    "--model_args",
    "delay_ms=100",
    "--tasks",
    "demo_letters",
]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_received_responses(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM end with the shell's code and a remedy; responses received so far are stored."""
    store = tmp_path / "store.sqlite"
    process = subprocess.Popen(
        [*SLOW, "--store", str(store)], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (store.is_file() and _n_outputs(store)):
        time.sleep(0.2)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "run the same command again" in said
    assert "Traceback" not in said
    (row,) = Store.open(str(store)).runs()
    assert row.status == "interrupted"
    assert row.n_outputs > 0


def _n_outputs(store: Path) -> int:
    try:
        runs = Store.open(str(store), read_only=True).runs()
    except StoreError:
        return 0  # its tables are being created
    return runs[0].n_outputs if runs else 0


def test_a_removed_working_folder_is_named(tmp_path: Path) -> None:
    """A relative path has no meaning then: one line says why."""
    folder = tmp_path / "gone"
    folder.mkdir()
    command = [sys.executable, "-m", "assaymark", *FAKE, "--tasks", "demo_letters", "--output_path", "results"]
    removing = f"import os; os.rmdir({str(folder)!r}); os.execv({sys.executable!r}, {command!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", removing], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "the working folder was removed: cd to one that exists" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """If the store cannot grow, the run ends with exit code 4 and one line, and the stored part can be read."""
    store = tmp_path / "store.sqlite"
    Store.open(str(store)).close()
    limit = store.stat().st_size + 40_000

    def narrow() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "assaymark", *FAKE, "--tasks", "demo", "--store", str(store)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, preexec_fn=narrow, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert Store.open(str(store)).runs()


def test_a_task_file_may_have_spaces_and_commas_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are separated by commas and spaces, unless a file with the whole name exists."""
    path = tmp_path / "my task, new.csv"
    path.write_text("question,A,B,answer\nIs ice cold?,yes,no,A\n")
    assert split_names(str(path)) == [str(path)]
    assert split_names(f"arc_easy,sciq {path.with_name('x')}") == ["arc_easy", "sciq", str(path.with_name("x"))]
    assert split_names(["a b", "c,", ""]) == ["a", "b", "c"]
    monkeypatch.chdir(tmp_path)
    path.rename(tmp_path / " my task.csv")
    assert split_names([" my task.csv", "a, b"]) == [" my task.csv", "a", "b"]


def test_an_empty_file_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy that failed is not taken for a store that nothing was written to."""
    path = tmp_path / "copied.sqlite"
    path.touch()
    assert main(["ls", "runs", "--store", str(path)]) == 2
    assert f"{path} is an empty file and no store" in capsys.readouterr().err
    assert main(["ls", "runs", "--store", str(tmp_path / "absent.sqlite")]) == 2
