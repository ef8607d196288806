"""What works on Windows and what is refused there, in processes that find Python as it is on Windows.

`start/sitecustomize.py` says what that is. What only a machine with Windows can show is not shown here: that libraries
work there (torch, SQLite, uvicorn), drives, and the rules of its file system beyond those that are imitated.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import Any

import httpx
import pytest

import assaymark
from assaymark.runs.demo import demo_model
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.task_index import copy_package_indexes
from tests.as_on_windows.windows_names import MODULES, missing_modules, missing_names

HERE = Path(__file__).parent
QUESTIONS = [
    {"question": f"Which word comes after “{word}”? — nº {n}", "A": "α", "B": "β", "answer": "AB"[n % 2]}
    for n, word in enumerate(("eins", "zwei", "drei", "vier", "fünf", "sechs"))
]
TASK = """\
task: "con: what? <a|b>"
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}\\n"
doc_to_choice: ["{{A}}", "{{B}}"]
doc_to_target: "{{ {'A': 0, 'B': 1}[answer] }}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
"""
WRITTEN = """\
task: written
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}\\n"
doc_to_target: "{{A}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 4}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""
ASKING = """\
import os, pathlib, sys
found = [sys.platform, str(hasattr(os, "fork"))]
try:
    import fcntl
    found.append("there")
except ImportError:
    found.append("absent")
pathlib.Path(target).write_text("a\\n", encoding="utf-8")
with open("opened", "wb"):
    try:
        pathlib.Path("opened").unlink()
        found.append("removed")
    except PermissionError:
        found.append("refused")
print(*found)
"""
APPLICATION = """\
import sys
sys.stdout.reconfigure(encoding="utf-8")
print("\u03b1" if "zwei" in sys.argv[1] else "\u03b2")
"""


def variables(facts: Path, system: str) -> dict[str, str]:
    """Return the variables of a process that finds Python as on a system, with a console of cp1252."""
    names = {module: sorted(missing_names(module, system)) for module in MODULES}
    package = str(Path(assaymark.__file__).parent) + os.sep
    known = {"package": package, "system": system, "absent": missing_modules(system), "names": names}
    facts.write_text(json.dumps(known), encoding="utf-8")
    path = os.pathsep.join([str(HERE / "start"), str(Path(package).parent), str(HERE.parents[1])])
    return {
        **os.environ, "PYTHONPATH": path, "AS_ON_WINDOWS": str(facts), "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252",
        "ASSAYMARK_THREADS": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a process on Windows."""
    return variables(tmp_path_factory.mktemp("facts") / "facts.json", "win32")


def run_commands(lines: Sequence[Sequence[object]], environment: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """Run command lines in one process; return the code and what was printed of each."""
    file = folder / "commands.json"
    file.write_text(json.dumps([list(map(str, words)) for words in lines]), encoding="utf-8")
    command = [sys.executable, str(HERE / "commands.py"), str(file)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_windows_lacks_is_known() -> None:
    """Typeshed's stubs name what the standard library has on Linux alone."""
    assert {"fcntl", "grp", "pwd", "resource", "termios"} <= set(missing_modules())
    assert {"fork", "getuid", "killpg", "register_at_fork", "setsid", "sysconf"} <= missing_names("os")
    assert {"SIGHUP", "SIGKILL", "setitimer"} <= missing_names("signal")
    assert "AF_UNIX" in missing_names("socket")
    assert not {"getpid", "replace", "kill", "nonsense"} & missing_names("os")


def test_the_process_is_as_on_windows(environment: dict[str, str], tmp_path: Path) -> None:
    """Files of the package find neither fork nor fcntl, and write CR LF; those of others find what Linux has."""
    ours = Path(assaymark.__file__).with_name("not_there.py")
    (tmp_path / "asking.py").write_text(ASKING, encoding="utf-8")
    code = f"import pathlib\ntext = pathlib.Path('asking.py').read_text()\nfor file in ({str(ours)!r}, 'x.py'):\n"
    code += "    exec(compile(text, file, 'exec'), {'__file__': file, 'target': pathlib.Path(file).stem})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines() == ["win32 False absent refused", "linux True there removed"]
    assert ((tmp_path / "not_there").read_bytes(), (tmp_path / "x").read_bytes()) == (b"a\r\n", b"a\n")


@contextmanager
def started(words: Sequence[str], environment: dict[str, str], folder: Path) -> Iterator[str]:
    """Start a command that serves, and yield the address that it prints."""
    command = [sys.executable, "-m", "assaymark", *words]
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            while not (
                found := re.search(r"http://127\.0\.0\.1:\d+", (folder / "log.txt").read_text(encoding="cp1252"))
            ):
                assert process.poll() is None, (folder / "log.txt").read_text(encoding="cp1252")
                time.sleep(0.05)
            yield found[0]
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def worked(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Return a folder in which commands were run one after another, and what each said: all in one process."""
    folder = tmp_path_factory.mktemp("windows")
    environment["ASSAYMARK_HOME"] = str(folder / "home")
    environment["ASSAYMARK_CACHE"] = str(folder / "home" / "cache")
    Catalog.open(())
    copy_package_indexes(folder / "home" / "cache")  # lm-eval's 14,000 task files are read elsewhere
    rows = [{"question": row["question"], "answer": row["A"]} for row in QUESTIONS]
    files = {
        "questions.jsonl": "".join(f"{json.dumps(row)}\n" for row in QUESTIONS),
        "rows.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
        "odd.yaml": TASK,
        "written.yaml": WRITTEN,
        "app.py": APPLICATION,
        "votes.csv": "model_a,model_b,winner\n" + "con,aux,model_a\n" * 5 + "con,aux,tie\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    fake = ["run", "--model", "fake", "--tasks", "odd.yaml", "--quiet"]
    program = f"exec:{sys.executable} app.py"
    lines: list[Sequence[str]] = [
        [*fake, "--model_args", "accuracy=1.0", "--output_path", "out", "--log_samples"],
        [*fake, "--model_args", "mode=constant"],
        ["compare", "{0}", "{1}", "--flips"],
        ["ls", "runs"],
        ["show", "last", "--samples", "con: what? <a|b>"],
        *(["export", "last", "-o", f"run.{suffix}"] for suffix in ("csv", "json", "md", "parquet", "assaymark")),
        ["export", "last", "--wrong", "-o", "wrong.csv"],
        ["report", "last", "-o", "report.html"],
        ["report", "last", "-o", "report.md"],
        ["import", "run.assaymark", "--store", "second.sqlite"],
        ["import", "out", "--store", "second.sqlite"],
        ["verify", "last"],
        ["store", "backup", "copy.sqlite"],
        ["task", "init", "questions.jsonl", "--name", "aux"],
        ["board", "init", "board.yaml", "--tasks", "odd.yaml"],
        ["board", "export", "board.yaml", "-o", "site"],
        ["card", "fake-gold-0", "-o", "card.md"],
        ["run", "--target", program, "--tasks", "rows.jsonl", "--scorers", "exact", "--quiet"],
        ["arena", "rate", "votes.csv"],
        ["traces", "project", "add", "guide", "--json"],
        ["doctor"],
    ]
    return folder, run_commands(lines, environment, folder)


def failed_ones(done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the commands that did not end well."""
    return [said for said in done if said["code"] != 0 or "Traceback" in said["errors"]]


def test_jobs_of_every_system_end_well(worked: tuple[Path, list[dict[str, Any]]]) -> None:
    """Runs of a fake model and of a program, comparisons, exports, reports, imports, sites and ratings end with 0.

    Twenty-three commands take ten seconds of the processor; each is one that people on Windows type.
    """
    assert failed_ones(worked[1]) == []


@pytest.mark.slow
def test_models_are_evaluated(worked: tuple[Path, list[dict[str, Any]]], environment: dict[str, str]) -> None:
    """The demo's local models are evaluated, one is hosted, and evaluated over HTTP.

    Two processes import torch and transformers, and the demo's 2,680 questions are answered.
    """
    folder, _ = worked
    with started(["host", str(demo_model("small")), "--port", "0"], environment, folder) as url:
        server = f"model=small,base_url={url}/v1,tokenizer_backend=none"
        over_http = [
            "run",
            "--model",
            "local-completions",
            "--model_args",
            server,
            "--tasks",
            "written.yaml",
            "--quiet",
        ]
        own = ["--store", "models.sqlite"]
        done = run_commands([["demo", "--quiet", *own], [*over_http, *own]], environment, folder)
    assert failed_ones(done) == []


def test_names_of_all_written_files_are_allowed_on_windows(worked: tuple[Path, list[dict[str, Any]]]) -> None:
    """No name of a file or folder is reserved, has a character that is, or equals another but for capitals."""
    folder, _ = worked
    written = [path.relative_to(folder) for path in folder.rglob("*")]
    assert {"run.csv", "_aux.yaml", "site", "store.sqlite"} <= {path.name for path in written}
    assert [path for path in written if path.name.startswith("samples_con__ what")]
    assert [
        path for path in written if PureWindowsPath(path).is_reserved() or re.search(r'[<>:"|?*\\]|[. ]$', path.name)
    ] == []
    assert len({str(path).casefold() for path in written}) == len(written)


def test_written_files_are_those_of_linux(worked: tuple[Path, list[dict[str, Any]]]) -> None:
    """Exports, logs and sites have the bytes that they have on Linux, where lines of text would get another end."""
    folder, _ = worked
    names = ("run.csv", "wrong.csv", "run.json", "run.md", "report.html", "report.md", "card.md", "board.yaml")
    logs = [path for path in (folder / "out").rglob("*") if path.is_file()]
    pages = [path for path in (folder / "site").rglob("*") if path.suffix in {".html", ".csv", ".json"}]
    assert (len(logs), len(pages) > 3) == (2, True)
    assert [path for path in (*(folder / name for name in names), *logs, *pages) if b"\r" in path.read_bytes()] == []


def test_boards_and_traces_are_served(worked: tuple[Path, list[dict[str, Any]]], environment: dict[str, str]) -> None:
    """`assaymark serve` starts, its pages show what was run, and it receives traces."""
    folder, done = worked
    (project,) = (json.loads(said["output"]) for said in done if said["words"][:2] == ["traces", "project"])
    allowed = {"Authorization": f"Bearer {project['token']}"}
    span = {"traceId": f"{7:032x}", "spanId": f"{7:016x}", "name": "answer \u03b1", "startTimeUnixNano": "1"}
    sent = {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "endTimeUnixNano": "2"}]}]}]}
    with started(["serve", "board.yaml", "--traces", "--port", "0"], environment, folder) as url:
        page = httpx.get(f"{url}/", follow_redirects=True, timeout=30)
        assert page.status_code == 200
        assert "fake-gold-0" in page.text
        assert httpx.post(f"{url}/v1/traces", json=sent, headers=allowed, timeout=30).status_code == 200
        assert span["name"] in httpx.get(f"{url}/traces.json", headers=allowed, timeout=30).text
    (exported,) = run_commands([["traces", "export", "-o", "traces.jsonl", "--format", "jsonl"]], environment, folder)
    assert exported["code"] == 0, exported
    assert b"\r" not in (folder / "traces.jsonl").read_bytes()


@pytest.mark.slow
def test_macos_runs_and_refuses(tmp_path: Path) -> None:
    """Without what macOS lacks a fake model is run, exported and shown on a site; the warm process is refused.

    Its process imports everything anew, which takes seven seconds.
    """
    (tmp_path / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in QUESTIONS), encoding="utf-8")
    (tmp_path / "odd.yaml").write_text(TASK, encoding="utf-8")
    lines = [
        ["run", "--model", "fake", "--tasks", "odd.yaml", "--quiet"],
        ["export", "last", "-o", "run.csv"],
        ["board", "init", "board.yaml", "--tasks", "odd.yaml"],
        ["board", "export", "board.yaml", "-o", "site"],
        ["warm", "start"],
    ]
    *done, refused = run_commands(lines, variables(tmp_path / "facts.json", "darwin"), tmp_path)
    assert failed_ones(done) == []
    assert refused["code"] == 2
    assert "the warm process needs Linux, and this is macOS: install assaymark in a container" in refused["errors"]


def test_help_needs_nothing_of_linux(environment: dict[str, str], tmp_path: Path) -> None:
    """The command line itself starts, as a process of its own."""
    command = [sys.executable, "-m", "assaymark", "--help"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, encoding="cp1252", check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: assaymark" in done.stdout


def test_what_needs_linux_is_refused_in_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    """Each such job says what it needs and the way, and ends with 2."""
    (tmp_path / "empty").mkdir()  # instead of the folder of bubblewrap, which Windows does not have
    own = {
        **environment,
        "PATH": str(tmp_path / "empty"),
        "ASSAYMARK_HOME": str(tmp_path / "home"),
        "ASSAYMARK_CACHE": str(tmp_path / "cache"),
    }
    data = HERE.parents[0] / "fixtures" / "data"
    code = ["run", "--model", "fake", "--tasks", "mbpp", "--data_dir", data, "--limit", "1", "--quiet"]
    lines: list[list[object]] = [["warm", "start"], ["warm", "status"], ["worker", "--once"]]
    lines += [["swe", "grade", "predictions.jsonl"], code, [*code, "--confirm_run_unsafe_code", "--unsafe-code"]]
    for said in run_commands(lines, own, tmp_path):
        (line,) = said["errors"].splitlines()
        assert said["code"] == 2, said
        assert line.startswith("error: "), said
        assert "needs Linux, and this is Windows" in line, said
        assert "wsl --install" in line, said
