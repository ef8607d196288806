"""Instances made of commits: of this repository too, resumed after Ctrl-C, and not of commits that decide nothing."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.limits.bubblewrap import find_bubblewrap
from assaymark.store import Store
from assaymark.swe.attempts import PatchAttempt, attempt_tests
from assaymark.swe.base_copies import Repositories, make_base_copy
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.from_commits import CommitChoice, make_instances
from assaymark.swe.grading import GradeOptions, grade, is_resolved
from assaymark.swe.instances import Instance, Prediction, read_instances, write_rows
from assaymark.swe.sandbox import SweLimits
from tests.swe.projects import CODE, FIXED, TESTS, commit, git

ROOT = Path(__file__).resolve().parents[2]
OWN_COMMIT = "cc9b8e7183d7467a1c908de8300d72ca98d806df"  # of this repository: two files of code, one of tests
ADDRESSES = "tests/limits/test_addresses.py"
PATHS = "src/assaymark/limits/shown_paths.py", "tests/limits/test_shown_paths.py"
WITHOUT_CONFTEST = Environment(test_arguments=("--noconftest",))  # which imports the server and its browser
LIMITS = SweLimits(seconds=120)


def needs_sandbox() -> None:
    """Skip where bubblewrap does not work."""
    if find_bubblewrap() is None:
        pytest.skip("bubblewrap does not work here")


@pytest.mark.slow
def test_a_commit_of_this_repository_is_an_instance(tmp_path: Path) -> None:
    """Its gold patch resolves it and the base commit does not, with the repository's whole history below it."""
    needs_sandbox()
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{OWN_COMMIT}^"], capture_output=True, check=False
    )
    if known.returncode:
        pytest.skip("this checkout has no history: the test of two commits made of it says the same of a small one")
    choice = CommitChoice(f"{OWN_COMMIT}^!", name="assaymark/assaymark")
    (made,) = make_instances(ROOT, choice, Environments({"default": WITHOUT_CONFTEST}), LIMITS)
    assert made.instance_id == f"assaymark__assaymark-{OWN_COMMIT[:12]}"
    assert made.FAIL_TO_PASS
    assert len(made.PASS_TO_PASS) > 30
    assert all(test.startswith(f"{ADDRESSES}::") for test in (*made.FAIL_TO_PASS, *made.PASS_TO_PASS))
    make_base_copy(ROOT, made.base_commit, tmp_path / "base")
    for patch, expected in ((made.patch, True), ("", False)):
        attempt = attempt_tests(made, patch, tmp_path / "base", tmp_path / "work", WITHOUT_CONFTEST, LIMITS)
        assert (attempt.stage, is_resolved(made, attempt)) == ("tested", expected)


@pytest.mark.slow
def test_two_commits_made_of_this_checkout_are_an_instance(tmp_path: Path, store: Store) -> None:
    """The first lacks a line and its test, the second has both: made by the command, and graded as any other."""
    needs_sandbox()
    project = tmp_path / "checkout"
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", "library")  # half of the files: tasks
    for name in ("src", "tests/limits"):
        shutil.copytree(ROOT / name, project / name, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", project)
    code, tests = ((ROOT / name).read_text(encoding="utf-8") for name in PATHS)
    faulty = code.replace('_STORE.sub("the database", value)', "value")
    fewer = tests[: tests.index('@pytest.mark.parametrize(\n    "address"')]
    assert code != faulty
    git(project, "init", "-q")
    commit(project, "Assaymark", {PATHS[0]: faulty, PATHS[1]: fewer})
    commit(project, "A database's address is shown", {PATHS[0]: code, PATHS[1]: tests})
    environments, rows = tmp_path / "e.yaml", tmp_path / "instances.jsonl"
    environments.write_text("default: {test_arguments: [--noconftest]}\n")
    assert main(["swe", "init", str(project), "-o", str(rows), "--environments", str(environments)]) == 0
    (made,) = read_instances(rows)
    assert [test.partition("::")[0] for test in made.FAIL_TO_PASS] == [PATHS[1]] * 3
    assert len([test for test in made.FAIL_TO_PASS if "test_addresses_of_databases" in test]) == 2
    options = GradeOptions(Repositories([str(project)]), Environments.read(environments), LIMITS)
    (graded,) = grade(store, [made], [Prediction(made.instance_id, "gold", made.patch)], options)
    assert (graded.outcome, graded.reason) == ("resolved", "")  # so twice gold resolved it, and empty did not


@pytest.mark.slow
def test_commits_that_decide_nothing_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that pass before, that fail after, and that pass after only the first time: each with its reason."""
    needs_sandbox()
    git_init(repository := tmp_path / "r")
    commit(repository, "A calculator", {"calc.py": CODE, "tests/test_calc.py": TESTS})
    commit(repository, "Same", {"calc.py": f"{CODE}\n", "tests/test_same.py": TESTS})
    commit(repository, "Wrong", {"calc.py": f"{CODE}\n\n", "tests/test_wrong.py": file_of_test("test_wrong", "True")})
    unsteady = {
        "tests/test_first.py": file_of_test("test_first", "'AGAIN' not in os.environ"),
        "tests/test_steady.py": file_of_test("test_steady", "True"),
    }
    commit(repository, "Unsteady", {"calc.py": FIXED, "tests/test_first.py": unsteady["tests/test_first.py"]})
    commit(repository, "Back", {"calc.py": CODE})
    commit(repository, "One of two", {"calc.py": FIXED, **{name: f"{text}\n" for name, text in unsteady.items()}})
    n_runs: dict[str, int] = {}

    def attempt(candidate: Instance, patch: str, *rest: Any, **options: Any) -> PatchAttempt:
        """Run the tests; in the second run with the patch a variable is set that the unsteady test reads."""
        base, work, environment, limits = rest
        if patch:
            n_runs[candidate.problem_statement] = n_runs.get(candidate.problem_statement, 0) + 1
        if n_runs.get(candidate.problem_statement) == 2:
            environment = replace(environment, variables={"AGAIN": "1"})
        return attempt_tests(candidate, patch, base, work, environment, limits, **options)

    monkeypatch.setattr("assaymark.swe.from_commits.attempt_tests", attempt)
    lines: list[str] = []
    (made,) = make_instances(repository, CommitChoice(), Environments.read(None), LIMITS, lines.append)
    assert (made.problem_statement, made.FAIL_TO_PASS) == ("One of two", ("tests/test_steady.py::test_steady",))
    assert made.PASS_TO_PASS == ()
    reasons = [line.split(": ")[2].partition(" (")[0] for line in lines if line.startswith("left out")]
    nothing = "no test fails before it and passes after it"
    assert reasons == [nothing, nothing, "its tests pass before it too"]
    assert n_runs == {"One of two": 2, "Unsteady": 2, "Wrong": 1}


@pytest.mark.slow
def test_what_was_tried_is_not_tried_again(
    project: Path, instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After Ctrl-C the same command continues; instances in the file, perhaps edited, stay; other limits try again."""
    repository, rows = tmp_path / "r", tmp_path / "instances.jsonl"
    git_init(repository)
    git(repository, "pull", "-q", str(project))
    late = file_of_test("test_late", "__import__('time').sleep(float(os.environ.get('PAUSE', '0'))) is None")
    commit(repository, "Back", {"calc.py": CODE})
    commit(repository, "Late", {"calc.py": FIXED, "tests/test_late.py": late})
    environments = tmp_path / "e.yaml"
    environments.write_text("default: {variables: {PAUSE: '2'}}\n")
    words = ["swe", "init", str(repository), "-o", str(rows), "--environments", str(environments), "--name", "o/n"]
    commands = [sys.executable, "-m", "assaymark", *words]
    process = subprocess.Popen(commands, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("commit 2"):
            process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stderr.close()
    assert lines[0].startswith("commit 1 of at most 200: ")
    assert "Traceback" not in "".join(lines)
    (late_one,) = read_instances(rows)
    assert late_one.FAIL_TO_PASS == ("tests/test_late.py::test_late",)
    write_rows(rows, [replace(late_one, problem_statement="Sums are wrong").row()])
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "commit 1" not in said  # its tests did not run again
    assert "commit 2" in said
    made = read_instances(rows)
    assert [each.problem_statement for each in made] == ["Sums are wrong", "add() subtracts"]
    assert made[1].FAIL_TO_PASS == instance.FAIL_TO_PASS
    assert main([*words, "--json"]) == 0
    printed = capsys.readouterr()
    assert "commit " not in printed.err
    assert "its tests pass before it too (tried before)" in printed.err
    assert json.loads(printed.out)["instances"] == [each.instance_id for each in made]
    rows.unlink()
    code = main([*words, "--timeout", "1"])  # the other commit's tests, and these without the patch, take about that
    written = [each.instance_id for each in read_instances(rows)] if rows.exists() else []
    assert (code, written) in [(0, [made[1].instance_id]), (2, [])]
    said = capsys.readouterr().err
    assert "its patch it took longer than the 1 s that it may take" in said


@pytest.mark.slow
def test_tests_that_are_cut_off_before_the_commit_are_not_taken_to_fail(tmp_path: Path) -> None:
    """Of the tests that a time limit kept from running nobody knows what they do: the commit is no instance."""
    needs_sandbox()
    git_init(repository := tmp_path / "r")
    commit(repository, "Hangs", {"calc.py": f"import time\n\ntime.sleep(60)\n{FIXED}"})
    commit(repository, "Does not hang", {"calc.py": FIXED, "tests/test_calc.py": TESTS})
    lines: list[str] = []
    assert list(make_instances(repository, CommitChoice(), Environments.read(None), SweLimits(2), lines.append)) == []
    assert ": without its patch it took longer than the 2 s that it may take" in lines[-1]


def file_of_test(name: str, condition: str) -> str:
    """Return a file with a test of add() and of a condition."""
    return f"import os\nfrom calc import add\n\n\ndef {name}():\n    assert add(2, 3) == 5 and {condition}\n"


def git_init(folder: Path) -> None:
    """Make an empty repository."""
    folder.mkdir()
    git(folder, "init", "-q")
