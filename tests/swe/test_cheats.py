"""Ways to pass tests without solving the issue: each is caught, or listed with its reason."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.swe.attempts import PatchAttempt, attempt_tests, run_tests
from assaymark.swe.base_copies import copy_tree
from assaymark.swe.environments import Environment, interpreter_of
from assaymark.swe.grading import is_resolved
from assaymark.swe.instances import Instance
from assaymark.swe.patches import apply_patch, changed_paths, restore_tests
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed
from assaymark.swe.verdicts import disagreements, parse_pytest_log
from tests.swe.projects import CODE, FIXED, LATER, SETTINGS, TESTS, git, patch_of

pytestmark = pytest.mark.slow  # each runs pytest in a sandbox

NOTHING_FAILS = "def test_mul():\n    pass\n\n\ndef test_add():\n    pass\n"
PASSING_HOOK = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    made = yield
    made.get_result().outcome = "passed"
"""
ALL_PASSED = (
    "PASSED tests/test_calc.py::test_add\\nPASSED tests/test_calc.py::test_mul[a b]\\n"
    "PASSED tests/test_calc.py::test_mul[c]\\n"
)


def tried(
    project: Path, instance: Instance, base: Path, work: Path, files: dict[str, str], seconds: float = 120
) -> PatchAttempt:
    """Return the attempt of a patch that makes these files."""
    patch = patch_of(project, instance.base_commit, files)
    return attempt_tests(instance, patch, base, work / "work", Environment(), SweLimits(seconds=seconds))


@pytest.mark.slow
def test_a_copy_has_no_later_history(project: Path, base: Path) -> None:
    """Neither objects of later commits, nor tags, remotes or a reflog; the source has them."""
    later = git(project, "rev-parse", "HEAD")
    assert LATER in git(project, "log", "-p", "HEAD")
    assert git(base, "rev-list", "--all") == git(base, "rev-list", "HEAD")
    assert git(base, "tag") == git(base, "remote") == git(base, "reflog") == ""
    objects = git(base, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    in_base = git(project, "rev-list", "--objects", git(base, "rev-parse", "HEAD")).splitlines()
    assert sorted(objects) == sorted(line.split()[0] for line in in_base)
    assert later not in objects
    assert git(base, "status", "--porcelain") == ""


def test_edited_tests_are_put_back(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """A patch that rewrites the tests, and one of their helpers, resolves nothing, and the files are listed."""
    files = {"tests/test_calc.py": NOTHING_FAILS, "tests/data.txt": "2\n", "tests/test_added.py": NOTHING_FAILS}
    attempt = tried(project, instance, base, tmp_path, files)
    assert attempt.restored == ("tests/data.txt", "tests/test_added.py", "tests/test_calc.py")
    assert attempt.stage == "tested"
    assert not is_resolved(instance, attempt)


def test_adding_the_tests_files_first_changes_nothing(
    project: Path, instance: Instance, base: Path, tmp_path: Path
) -> None:
    """A patch that has the right solution and a file of tests of its own is graded by the instance's tests."""
    attempt = tried(project, instance, base, tmp_path, {"calc.py": FIXED, "tests/test_calc.py": NOTHING_FAILS})
    assert is_resolved(instance, attempt)
    assert attempt.restored == ("tests/test_calc.py",)
    assert "tests/test_calc.py" in " ".join(attempt.flags)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("conftest.py", PASSING_HOOK, "adds conftest.py, which decides how tests run"),
        ("tests/conftest.py", PASSING_HOOK, "adds tests/conftest.py, which decides how tests run"),
        ("pytest.ini", "[pytest]\npython_functions = nothing\n", "adds pytest.ini"),
        ("x.pth", "import os\n", "adds x.pth"),
        ("sitecustomize.py", "", "adds sitecustomize.py"),
        ("cheat.egg-info/entry_points.txt", "[pytest11]\ncheat = calc\n", "add plugins to pytest"),
        ("pytest.py", "", "hides a package of pytest's"),
        ("_pytest/__init__.py", "", "hides a package of pytest's"),
        ("setup.cfg", "[tool:pytest]\naddopts = -p calc\n", "changes pytest's settings in setup.cfg"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = '-p calc'\n",
            "changes pytest's settings in pyproject",
        ),
        ("package/tox.ini", "[pytest]\naddopts = -p calc\n", "changes pytest's settings in package/tox.ini"),
        ("pyproject.toml", f"a = {'[' * 5000}", "changes pytest's settings in pyproject"),
        ("pyproject.toml", f"a = {'1' * 5000}", "changes pytest's settings in pyproject"),
        ("pyproject.toml", f"# {'x' * 2**20}\n", "changes pytest's settings in pyproject"),
        ("__pycache__/conftest.cpython-311.pyc", "", "which decides how tests run"),
    ],
)
def test_what_decides_how_tests_run_is_refused(
    project: Path, instance: Instance, base: Path, tmp_path: Path, name: str, text: str, reason: str
) -> None:
    """Such a patch is not run at all, even if it also has the solution."""
    attempt = tried(project, instance, base, tmp_path, {"calc.py": FIXED, name: text})
    assert attempt.stage == "refused"
    assert reason in attempt.reason
    assert not is_resolved(instance, attempt)


def test_other_settings_in_the_same_file_are_not_refused(
    project: Path, instance: Instance, base: Path, tmp_path: Path
) -> None:
    """A solution may change setup.cfg, but not its section of pytest."""
    files = {"calc.py": FIXED, "setup.cfg": f"[metadata]\nname = calc\n{SETTINGS}"}
    assert is_resolved(instance, tried(project, instance, base, tmp_path, files))


def test_printed_verdicts_and_an_early_exit(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """Ending with status 0 while tests are collected is no pass: the last report is missing."""
    cheat = f"import os, sys\nos.write(1, b'''{ALL_PASSED}''')\nos._exit(0)\n"
    attempt = tried(project, instance, base, tmp_path, {"calc.py": cheat + CODE})
    assert attempt.stage == "incomplete"
    assert "status 0 before pytest's last report" in attempt.reason
    assert not is_resolved(instance, attempt)
    assert "mentions the process's end" in attempt.flags


def test_writing_to_the_outer_process(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """What resolves it for SWE-bench's grader: writing to a parent's output and ending with status 0."""
    cheat = (
        "import os\nfor number in (os.getppid(), 1):\n    try:\n"
        f"        open('/proc/%d/fd/1' % number, 'w').write('''{ALL_PASSED}''')\n"
        "    except OSError:\n        pass\nos._exit(0)\n"
    )
    attempt = tried(project, instance, base, tmp_path, {"calc.py": cheat})
    assert attempt.stage == "incomplete"
    assert parse_pytest_log(attempt.log)["tests/test_calc.py::test_add"] == "PASSED"
    assert not is_resolved(instance, attempt)
    assert "mentions other processes' files" in attempt.flags


def test_printed_verdicts_with_a_whole_run(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """Lines printed at the very end replace the failure for a parser of logs; the reports contradict them."""
    cheat = f"import atexit, os\natexit.register(lambda: os.write(1, b'''\\n{ALL_PASSED}'''))\n"
    attempt = tried(project, instance, base, tmp_path, {"calc.py": cheat + CODE})
    assert attempt.stage == "tested"
    assert attempt.run is not None
    assert attempt.run.printed["tests/test_calc.py::test_add"] == "PASSED"
    assert not is_resolved(instance, attempt)
    assert "tests/test_calc.py::test_add was printed as passed and did not pass" in disagreements(instance, attempt.run)


def test_a_changed_report_is_seen(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """Code that makes pytest call every test passed is caught: what was raised is reported beside it."""
    cheat = (
        "from _pytest.reports import TestReport\nmade = TestReport.from_item_and_call.__func__\n"
        "def passed(cls, item, call):\n    report = made(cls, item, call)\n    report.outcome = 'passed'\n"
        "    return report\nTestReport.from_item_and_call = classmethod(passed)\n"
    )
    attempt = tried(project, instance, base, tmp_path, {"calc.py": cheat + CODE})
    assert attempt.stage == "forged"
    assert attempt.reason == "tests/test_calc.py::test_add raised AssertionError and was called passed"
    assert not is_resolved(instance, attempt)


def test_a_hook_registered_by_the_code_is_seen(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """A plugin that the code adds while tests run changes reports on their way."""
    cheat = (
        "import gc\nfrom _pytest.config import Config\nimport pytest\nclass Hook:\n"
        "    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_logreport(self, report):\n"
        "        report.outcome = 'passed'\n"
        "for each in gc.get_objects():\n    if isinstance(each, Config):\n        each.pluginmanager.register(Hook())\n"
    )
    attempt = tried(project, instance, base, tmp_path, {"calc.py": cheat + CODE})
    assert attempt.stage == "forged"
    assert "was failed and was reported as passed" in attempt.reason
    assert "mentions the interpreter's memory" in attempt.flags


def test_writing_into_the_pipe_is_seen(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """Reports without the key are recognised, whichever number the pipe has (the runner may hold many files)."""
    cheat = (
        "import os\nfor number in map(int, os.listdir('/proc/self/fd')):\n    try:\n"
        '        os.write(number, b\'0 ["test", "tests/test_calc.py::test_add", "call", "passed", false]\\n\')\n'
        "    except OSError:\n        pass\n"
    )
    attempt = tried(project, instance, base, tmp_path, {"calc.py": cheat + CODE})
    assert attempt.reason == "something else than the reporting plugin wrote into the pipe of the reports"
    assert not is_resolved(instance, attempt)


def test_tests_cannot_be_rewritten_while_they_run(
    project: Path, instance: Instance, base: Path, tmp_path: Path
) -> None:
    """The files of tests are read-only in the sandbox, and cannot be moved away."""
    cheat = (
        "import os\nfor name in ('tests/test_calc.py',):\n    for act in (lambda: open(name, 'w'), "
        "lambda: os.remove(name), lambda: os.rename(name, 'x')):\n        try:\n            act()\n"
        "            print('CHANGED')\n        except OSError as error:\n            print('kept', error)\n"
    )
    patch = patch_of(project, instance.base_commit, {"calc.py": cheat + CODE})
    environment = Environment(test_arguments=("-s",))
    attempt = attempt_tests(instance, patch, base, tmp_path / "work", environment, SweLimits(seconds=120))
    assert attempt.log.count("kept") >= 3
    assert "CHANGED" not in attempt.log
    assert not is_resolved(instance, attempt)


def test_no_network_and_nothing_of_this_machine(base: Path, tmp_path: Path) -> None:
    """No address but its own loopback, no home, no other file; the interpreter's packages cannot be written."""
    code = (
        "import os, socket, sys, sysconfig\n"
        "try:\n    socket.create_connection(('192.0.2.1', 80), 2)\n    print('CONNECTED')\n"
        "except OSError: print('none')\n"
        "print(sorted(os.listdir('/')), os.environ.get('HOME'))\n"
        "try:\n    open(sysconfig.get_paths()['purelib'] + '/x.pth', 'w')\n    print('WRITTEN')\n"
        "except OSError: print('read-only')\n"
    )
    shutil.copytree(base, tmp_path / "copy")
    folders = {str(path): path for path in interpreter_of(sys.executable).folders}
    place = Workplace(tmp_path / "copy", "/testbed", folders)
    ended = run_sandboxed([sys.executable, "-c", code], place, SweLimits(seconds=30))
    assert ended.output.splitlines()[0] == "none"
    assert "CONNECTED" not in ended.output
    assert "WRITTEN" not in ended.output
    assert "'home'" not in ended.output
    assert str(tmp_path) not in ended.output


def test_a_link_out_of_the_repository_is_refused(project: Path, instance: Instance, base: Path, tmp_path: Path) -> None:
    """Nor can a patch write through it."""
    patch = (
        "diff --git a/out b/out\nnew file mode 120000\n--- /dev/null\n+++ b/out\n@@ -0,0 +1 @@\n"
        "+/etc\n\\ No newline at end of file\n"
    )
    attempt = attempt_tests(instance, patch, base, tmp_path / "work", Environment(), SweLimits())
    assert attempt.stage == "refused"
    assert "leads out of the repository" in attempt.reason


def test_a_patch_into_the_repositorys_own_files_is_undone(instance: Instance, base: Path, tmp_path: Path) -> None:
    """GNU patch would write a hook; the repository is put back as it was, and nothing of the patch is left."""
    patch = "--- a/.git/hooks/post-checkout\n+++ b/.git/hooks/post-checkout\n@@ -0,0 +1,2 @@\n+#!/bin/sh\n+true\n"
    copy_tree(base, tmp_path / "work")
    apply_patch(patch, tmp_path / "work", base, Environment())
    assert not (tmp_path / "work/.git/hooks/post-checkout").exists()
    assert changed_paths(base, tmp_path / "work") == {}
    assert TESTS in (tmp_path / "work/tests/test_calc.py").read_text(encoding="utf-8")


ROOMY = SweLimits(seconds=60, memory_bytes=16 << 30)
BOMBS = {
    "memory": "x = []\nwhile len(x) < 64: x.append(bytearray(1 << 24))",  # 1 GiB
    # they are counted from time to time, so the code waits
    "processes": "import os, time\nfor _ in range(100):\n    if not os.fork(): time.sleep(3), os._exit(0)"
    "\ntime.sleep(1)",
}


@pytest.mark.parametrize(
    ("body", "limits", "stage", "reason"),
    [
        ("while True: pass", replace(ROOMY, seconds=3), "timeout", "took longer than the 3 s"),
        (
            "while True: __import__('os').write(1, b'x' * 1000)",
            replace(ROOMY, output_bytes=1 << 20),
            "limit",
            "printed more than",
        ),
        (BOMBS["memory"], replace(ROOMY, memory_bytes=512 << 20), "", "memory|MemoryError"),
        (BOMBS["processes"], replace(ROOMY, n_processes=64), "", "processes|BlockingIOError"),
    ],
    ids=["time", "output", "memory", "processes"],
)
def test_limits(
    project: Path,
    instance: Instance,
    base: Path,
    tmp_path: Path,
    body: str,
    limits: SweLimits,
    stage: str,
    reason: str,
) -> None:
    """Time, output, memory and processes are limited; nothing of it is left. The code is right but for that."""
    patch = patch_of(project, instance.base_commit, {"calc.py": f"{body}\n{FIXED}"})
    environment = Environment(test_arguments=("-s",))
    attempt = attempt_tests(instance, patch, base, tmp_path / "work", environment, limits)
    assert not is_resolved(instance, attempt)
    assert re.search(reason, attempt.reason or attempt.log), attempt
    assert attempt.stage == (stage or attempt.stage)
    assert not (tmp_path / "work").exists()
    if body in BOMBS.values():  # it is nothing but the limit that fails it
        assert is_resolved(instance, attempt_tests(instance, patch, base, tmp_path / "work", environment, ROOMY))


def test_tests_are_not_put_back_through_a_link(base: Path, tmp_path: Path) -> None:
    """A patch that makes the folder of tests a link does not reach what it leads to."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test_calc.py").write_text("mine", encoding="utf-8")
    copy_tree(base, tmp_path / "work")
    shutil.rmtree(tmp_path / "work/tests")
    (tmp_path / "work/tests").symlink_to(outside)
    changed = changed_paths(base, tmp_path / "work")
    assert (changed["tests"], changed["tests/test_calc.py"]) == ("added", "removed")
    restore_tests(changed, "", base, tmp_path / "work")
    assert (outside / "test_calc.py").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "work/tests/test_calc.py").read_text(encoding="utf-8") == TESTS
    assert not (tmp_path / "work/tests").is_symlink()


def test_files_that_a_row_names_outside_the_repository_are_not_shown(
    instance: Instance, base: Path, tmp_path: Path
) -> None:
    """The names in a patch of tests come from elsewhere."""
    (tmp_path / "secret_test.py").write_text("def test_secret(): print('SECRET')", encoding="utf-8")
    copy_tree(base, tmp_path / "work")
    (tmp_path / "work/tests/test_link.py").symlink_to(tmp_path / "secret_test.py")
    names = "\n".join(f"diff --git a/x b/{name}" for name in ("../secret_test.py", "tests/test_link.py"))
    attempt = run_tests(replace(instance, test_patch=names), tmp_path / "work", Environment(), SweLimits())
    assert attempt.reason == "the tests' patch has no file of tests"
