"""Official instances of SWE-bench graded twice: by `assaymark swe`, and by swebench's own log parser and grader.

    python benchmarks/swe_official.py --rows test.parquet --repositories pallets/flask=flask --environments envs.yaml \
        --swebench venv/bin/python -o figures.json ID...

`assaymark swe prepare` makes the environments; `--swebench` is an interpreter with swebench 5.x. Its part with
containers is not run: the official steps (the chain that applies a patch, tests put back, the tests' patch, the test
command) are made here in the sandbox, and what the test command prints is graded by swebench. The patches are the gold
one, none, the gold one with damaged context, with every line that must match damaged, one that does not apply, and
three ways to cheat. They should be graded equally but for the cheats.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from assaymark.records.json_values import list_of, object_of
from assaymark.store import Store
from assaymark.swe.attempts import shown_generated, shown_interpreter
from assaymark.swe.base_copies import Repositories, copy_tree, git, make_base_copy
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.instances import Instance, Prediction, paths_of_patch, read_instances
from assaymark.swe.patches import apply_patch, apply_tests
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed

GRADER = """
import json, sys, tempfile
from swebench.harness.grading import get_eval_report
from swebench.harness.log_parsers import PARSER_REGISTRY
from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY
from swebench.types import TestSpec

def report(job):
    parser = MAP_REPO_TO_PARSER_PY[job["repo"]]
    name = next(name for name, each in PARSER_REGISTRY.items() if each is parser)
    spec = TestSpec(job["instance_id"], "", [], job["repo"], job["version"], job["F2P"], job["P2P"], name,
                    "pass_and_fail")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as log:
        log.write(job["log"])
        log.flush()
        prediction = {"instance_id": job["instance_id"], "model_name_or_path": "m", "model_patch": job["patch"]}
        return get_eval_report(spec, prediction, log.name, True)[job["instance_id"]]

print(json.dumps([report(job) for job in json.load(sys.stdin)]))
"""
START, END, CODE = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Test Exit Code"
NOT_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
COMMANDS = {
    "django/django": "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1",
    "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
}
PASSING_HOOK = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    made = yield
    made.get_result().outcome = "passed"
"""
PRINTING = """import os

with open("/proc/%d/fd/1" % os.getppid(), "w") as printed:
    printed.write({lines!r})
os._exit(0)
"""
PASSING_CODE = """

def _passing():
    import _pytest.reports as reports
    made = reports.TestReport.from_item_and_call.__func__

    def from_item_and_call(cls, item, call):
        report = made(cls, item, call)
        report.outcome, report.longrepr = "passed", None
        return report

    reports.TestReport.from_item_and_call = classmethod(from_item_and_call)


_passing()
"""
CHEATS = ("a hook in conftest.py", "printed lines and an early exit", "changed code of pytest")


def main() -> int:
    """Grade and print one line for each patch; exit with 1 where honest patches are graded differently."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, action="append", required=True, help="SWE-bench's rows; may be repeated")
    parser.add_argument("--repositories", action="append", required=True, metavar="owner/name=FOLDER")
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--swebench", required=True, metavar="PYTHON", help="interpreter with swebench 5.x")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("ids", nargs="+", metavar="ID")
    options = parser.parse_args()
    known = {each.instance_id: each for path in options.rows for each in read_instances(path)}
    grading = GradeOptions(Repositories(options.repositories), Environments.read(options.environments))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for name in options.ids:
            rows += graded_twice(known[name], grading, options.swebench, Path(place))
    if options.output is not None:
        options.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    runnable = [row for row in rows if row["ours"] != "infra_failure"]
    honest = [row for row in runnable if row["patch"] not in CHEATS]
    differing = [row for row in honest if not row["is_equal"]]
    cheats = [row for row in runnable if row["patch"] in CHEATS]
    n_absent = len(rows) - len(runnable)
    print(f"{len(rows)} gradings of {len(options.ids)} instances: {len(honest) - len(differing)} of {len(honest)} "
          f"honest patches equal; of {len(cheats)} cheats swebench resolves {sum(r['swebench'] for r in cheats)}, "
          f"assaymark {sum(r['ours'] == 'resolved' for r in cheats)}; {n_absent} gradings not runnable "
          "here")  # fmt: skip
    return 1 if differing else 0


def graded_twice(instance: Instance, grading: GradeOptions, swebench: str, place: Path) -> list[dict[str, Any]]:
    """Return a row for each patch of an instance: ours, swebench's, and whether they and their tests are equal."""
    folder = place / instance.instance_id
    folder.mkdir()
    environment = grading.environments.of(instance)
    make_base_copy(grading.repositories.folder_of(instance.repo), instance.base_commit, folder / "base")
    patches = patches_of(instance, folder)
    jobs = [
        {"instance_id": instance.instance_id, "repo": instance.repo, "version": instance.version, "patch": patch,
         "F2P": instance.FAIL_TO_PASS, "P2P": instance.PASS_TO_PASS,
         "log": official_log(instance, patch, folder, environment, grading.limits)} for patch in patches.values()
    ]  # fmt: skip
    done = subprocess.run([swebench, "-c", GRADER], input=json.dumps(jobs), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"swebench's grader failed: {done.stderr.strip().splitlines()[-1]}")
    rows = []
    with Store.open(str(folder / "store.sqlite")) as store:
        for (kind, patch), theirs in zip(patches.items(), json.loads(done.stdout), strict=True):
            (ours,) = grade(store, [instance], [Prediction(instance.instance_id, kind, patch)], grading)
            lists = ours.grading.details["tests_status"] if ours.grading is not None else None
            official = {name: theirs["tests_status"][name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")} if (
                "tests_status" in theirs) else None  # fmt: skip
            is_tested = ours.outcome in {"resolved", "unresolved"} and official is not None and not ours.reason
            same_tests = not is_tested or lists == official
            row = {
                "instance": instance.instance_id, "patch": kind, "ours": ours.outcome, "reason": ours.reason,
                "swebench": theirs["resolved"], "swebench_tests": _counts(official), "our_tests": _counts(lists),
                "is_equal": (ours.outcome == "resolved") == theirs["resolved"] and same_tests,
                "applied_by": ours.grading.details["applied_by"] if ours.grading else "",
            }  # fmt: skip
            rows.append(row)
            print(f"{instance.instance_id:28} {kind:32} assaymark: {ours.outcome:18} {row['our_tests']:14} swebench: "
                  f"{'resolved' if theirs['resolved'] else 'not resolved':13} {row['swebench_tests']:14} "
                  f"{'equal' if row['is_equal'] else 'differs'} {ours.reason[:160]}", flush=True)  # fmt: skip
    shutil.rmtree(folder)
    return rows


def _counts(tests_status: object) -> str:
    lists = object_of(tests_status or {}, "tests_status")
    if not lists or not all(lists.values()):
        return "-"
    named = [object_of(each, name) for name, each in lists.items()]
    counts = [(len(list_of(each["success"], "success")), len(list_of(each["failure"], "failure"))) for each in named]
    return " ".join(f"{n_passed}/{n_passed + n_failed}" for n_passed, n_failed in counts)


def patches_of(instance: Instance, folder: Path) -> dict[str, str]:
    """Return kind -> patch."""
    lines = "".join(f"PASSED {test}\n" for test in (*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS))
    first = next(name for name in paths_of_patch(instance.patch) if name.endswith(".py"))
    code = (folder / "base" / first).read_text(encoding="utf-8")
    cheating = [{"conftest.py": PASSING_HOOK}, {"conftest.py": PRINTING.format(lines=lines)},
                {first: code + PASSING_CODE}]  # fmt: skip
    honest = {
        "gold": instance.patch,
        "none": "",
        "damaged context": _damaged(instance.patch),
        "damaged in every line": "\n".join(f" {line[1:]}?" if line[:1] in {" ", "-"} and line[:3] != "---" else line
                                           for line in instance.patch.splitlines()) + "\n",
        "does not apply": instance.patch.replace(first, f"absent/{first}"),
    }  # fmt: skip
    return honest | {kind: _diff(files, folder) for kind, files in zip(CHEATS, cheating, strict=True)}


def _damaged(patch: str) -> str:
    """Return a patch whose hunks' first line of context is another one: git refuses it, and patch's fuzz does not."""
    lines, is_first = [], False
    for line in patch.splitlines():
        changed = line
        if is_first and line.startswith(" "):
            changed = f"{line}  # damaged"
        is_first = line.startswith("@@")
        lines.append(changed)
    return "\n".join(lines) + "\n"


def _diff(files: Mapping[str, str], folder: Path) -> str:
    edited = folder / "edited"
    copy_tree(folder / "base", edited)
    for name, text in files.items():
        (edited / name).write_text(text, encoding="utf-8")
    git(edited, "add", "-A")
    patch = git(edited, "diff", "--cached").decode()
    shutil.rmtree(edited)
    return patch


def official_log(
    instance: Instance, patch: str, folder: Path, environment: Environment, limits: SweLimits
) -> str:  # fmt: skip
    """Return the log of the official steps. Source: swebench.harness.run_evaluation, release 5.0.2, and its eval.sh."""
    work, base = folder / "work", folder / "base"
    copy_tree(base, work)
    try:
        if patch and not apply_patch(patch, work, base, environment).by:
            return ">>>>> Patch Apply Failed\n"
        named = paths_of_patch(instance.test_patch)
        for name in named:  # git checkout BASE FILES; rm -f NEW FILES
            (work / name).unlink(missing_ok=True)
            if (base / name).is_file():
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(base / name, work / name)
        apply_tests(instance.test_patch, work, environment)
        tests = [name for name in named if not name.endswith(NOT_TESTS)]
        if instance.repo == "django/django":
            tests = [name.removeprefix("tests/").removesuffix(".py").replace("/", ".") for name in tests]
        command = COMMANDS.get(instance.repo, "pytest -rA")
        script = f"echo '{START}'; {command} {' '.join(tests)}; C=$?; echo '{END}'; echo \"{CODE}: $C\""
        results = {**shown_interpreter(environment), **shown_generated(environment, work)}
        path = f"{PurePosixPath(environment.python).parent}:/usr/bin:/bin"
        where = Workplace(work, environment.folder, results, {**environment.variables, "PATH": path})
        return run_sandboxed(["/bin/bash", "-c", script], where, limits).output
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
