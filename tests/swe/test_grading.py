"""From a repository to a report, with the commands; kills, repeats, and instances that are not runnable."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.store import Store
from assaymark.swe.attempts import PatchAttempt, attempt_tests
from assaymark.swe.base_copies import Repositories
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.grading import GradeOptions, check_instance, grade
from assaymark.swe.grading_log import GradingLog
from assaymark.swe.instances import Instance, Prediction, paths_of_patch, read_instances, read_predictions, write_rows
from assaymark.swe.repeats import compare_repeats
from assaymark.swe.report import stored_report
from assaymark.swe.sandbox import SweLimits
from assaymark.swe.verdicts import parse_pytest_log, printed_counts
from tests.library.oracle import SHARED
from tests.swe.projects import FIXED, patch_of

ADD, MUL_CUT, MUL = (f"tests/test_calc.py::{name}" for name in ("test_add", "test_mul[a", "test_mul[c]"))


def written(path: Path, *rows: Mapping[str, object]) -> Path:
    """Write rows; return the path."""
    write_rows(path, rows)
    return path


def predicted(instance: Instance, model: str, patch: str) -> Prediction:
    """Return a prediction."""
    return Prediction(instance.instance_id, model, patch)


@pytest.mark.slow
def test_a_projects_commits_become_instances(instance: Instance, lines_of_init: list[str]) -> None:
    """One of four commits changes code and tests so that a test fails before; ids are cut as SWE-bench cuts them."""
    assert (instance.FAIL_TO_PASS, instance.PASS_TO_PASS) == ((ADD,), (MUL_CUT, MUL))
    assert instance.problem_statement == "add() subtracts"
    assert "calc.py" in instance.patch
    assert "tests/" not in instance.patch
    assert [line.partition(":")[0] for line in lines_of_init] == [
        "commit 1 of at most 200",
        "left out",
        "commit 2 of at most 200",
    ]
    assert "its tests pass before it too" in lines_of_init[1]


def test_rows_are_read_from_jsonl_and_parquet(instance: Instance, tmp_path: Path) -> None:
    """SWE-bench's rows in either form are the same instance."""
    path = written(tmp_path / "instances.jsonl", instance.row())
    parquet.write_table(pa.Table.from_pylist([instance.row()]), tmp_path / "instances.parquet")
    assert read_instances(path) == read_instances(tmp_path / "instances.parquet") == [instance]
    by_id = {instance.instance_id: {"model_name_or_path": "m", "model_patch": None}}
    (tmp_path / "preds.json").write_text(json.dumps(by_id))
    assert read_predictions(tmp_path / "preds.json") == [Prediction(instance.instance_id, "m", "")]


@pytest.mark.parametrize(
    ("name", "split", "n_rows"),
    [("SWE-bench_Lite", "test", 300), ("SWE-bench_Lite", "dev", 23), ("SWE-bench_Verified", "test", 500)],
)
def test_swe_benchs_rows_are_read(name: str, split: str, n_rows: int) -> None:
    """All of them, with tests to fix in each, and patches that change files."""
    path = SHARED / "princeton-nlp" / name / "default" / f"{split}.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    known = read_instances(path)
    assert len(known) == n_rows
    assert all(each.FAIL_TO_PASS and paths_of_patch(each.patch) and paths_of_patch(each.test_patch) for each in known)
    assert all(each.instance_id.startswith(each.repo.replace("/", "__")) for each in known)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "X.JSON"])
def test_rows_that_are_written_are_read_back(instance: Instance, tmp_path: Path, name: str) -> None:
    """Lines or a list, by the file's name; text beyond ASCII, and a lone surrogate, which UTF-8 has no bytes for."""
    known = [instance, replace(instance, instance_id="local__project-2", problem_statement="größer \u2028 \udc80")]
    assert read_instances(written(tmp_path / name, *(each.row() for each in known))) == known
    predictions = [predicted(instance, "größer", ""), predicted(known[1], "größer", "\udc80\n+1")]
    path = written(tmp_path / name, *map(asdict, predictions))
    assert read_predictions(path) == predictions
    assert "größer" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("[") == (path.suffix.lower() == ".json")
    with pytest.raises(DataError, match="has no predictions"):
        read_predictions(written(tmp_path / name))


def test_a_json_file_of_lines_or_of_one_prediction_is_read(instance: Instance, tmp_path: Path) -> None:
    """As earlier versions wrote them; what is no JSON at all is named."""
    rows = [asdict(predicted(replace(instance, instance_id=f"local__p-{at}"), "m", "+1")) for at in range(2)]
    path = tmp_path / "preds.json"
    for n_rows, indent in ((2, None), (1, None), (1, 2)):
        path.write_text("\n".join(json.dumps(row, indent=indent) for row in rows[:n_rows]))
        assert [asdict(each) for each in read_predictions(path)] == rows[:n_rows]
    path.write_text('{"instance_id": ')
    with pytest.raises(DataError, match=r"cannot read .*preds\.json: .*; expected json"):
        read_predictions(path)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("base_commit", "HEAD", "expected a whole commit id"),
        ("repo", "../x", "expected owner/name"),
        ("instance_id", "../x", "instance_id is '../x'"),
        ("FAIL_TO_PASS", "[1]", "expected a list"),
        ("patch", None, "expected a text"),
    ],
)
def test_bad_rows_are_refused(instance: Instance, tmp_path: Path, field: str, value: object, said: str) -> None:
    """With the row and the field."""
    path = written(tmp_path / "instances.jsonl", {**instance.row(), field: value})
    with pytest.raises(DataError, match=r"row 1: ") as caught:
        read_instances(path)
    assert said in str(caught.value)


@pytest.mark.slow
def test_gold_resolves_and_is_graded_once(instance: Instance, store: Store, options: GradeOptions) -> None:
    """A second grading reads the store; a patch with other context is applied by fuzz; a wrong one is unresolved."""
    gold = predicted(instance, "gold", instance.patch)
    (first,) = grade(store, [instance], [gold], options)
    assert (first.outcome, first.is_new) == ("resolved", True)
    assert first.grading is not None
    assert first.grading.details["tests_status"]["PASS_TO_PASS"]["success"] == [MUL_CUT, MUL]
    (second,) = grade(store, [instance], [gold], options)
    assert (second.outcome, second.is_new) == ("resolved", False)
    damaged = instance.patch.replace(" def add(a, b):", " def add(a, b) :")
    (fuzzy,) = grade(store, [instance], [predicted(instance, "damaged", damaged)], options)
    assert fuzzy.grading is not None
    assert (fuzzy.outcome, fuzzy.grading.details["applied_by"]) == ("resolved", "patch --fuzz=5")
    (wrong,) = grade(
        store, [instance], [predicted(instance, "wrong", instance.patch.replace("a + b", "a + a"))], options
    )
    assert wrong.outcome == "unresolved"
    (broken,) = grade(store, [instance], [predicted(instance, "broken", "no diff at all")], options)
    assert broken.outcome == "error"
    assert "does not apply" in broken.reason
    assert store.verify() == []


@pytest.mark.slow
def test_an_instance_that_is_not_runnable_fails_nobody(
    instance: Instance, store: Store, options: GradeOptions, tmp_path: Path
) -> None:
    """A gold patch that resolves nothing, tests that pass without one, an unknown commit, a missing repository."""
    wrong = replace(instance, patch=instance.patch.replace("a + b", "a + a"))
    idle = replace(instance, FAIL_TO_PASS=(MUL,))
    lost = replace(instance, base_commit="0" * 40)
    reasons = {}
    for name, each in (("wrong", wrong), ("idle", idle), ("lost", lost)):
        (graded,) = grade(store, [each], [predicted(each, name, instance.patch)], options)
        assert graded.outcome == "infra_failure"
        reasons[name] = graded.reason
        assert stored_report(store, [each], [predicted(each, name, instance.patch)]).estimate is None
    assert f"1 tests fail, such as {ADD}" in reasons["wrong"]
    assert "pass without any patch" in reasons["idle"]
    assert "pack-objects failed" in reasons["lost"]
    nowhere = replace(options, repositories=Repositories())
    (graded,) = grade(store, [instance], [predicted(instance, "m", instance.patch)], nowhere)
    assert "--repo local/project=FOLDER" in graded.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "code", "n_runs", "reason"),
    [
        (3, "a + b + ('AGAIN' in os.environ)", 3, f"the gold patch does not resolve it: 1 tests fail, such as {ADD}"),
        (4, "a + b", 4, "the tests pass without any patch"),
        (0, "a + b", 4, ""),
    ],
)
def test_gold_and_empty_are_tried_twice(
    instance: Instance, base: Path, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch,
    when: int, code: str, n_runs: int, reason: str,
) -> None:  # fmt: skip
    """A gold patch that fails the second time, and a base commit that then passes, make the instance not runnable."""
    unsteady = instance.test_patch.replace("add(2, 3) == 5", "add(2, 3) == 5 or __import__('os').getenv('PASS')")
    patch = instance.patch.replace("+    return a + b", f"+    import os; return {code}")
    known = replace(instance, patch=patch, test_patch=unsteady)
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "base").symlink_to(base)
    n = 0

    def attempt(tested: Instance, patch: str, of: Path, work: Path, environment: Environment, *rest: Any,
                **options: Any) -> PatchAttempt:  # fmt: skip
        """Run the tests; in the run `when` a variable is set, which the gold patch or the test reads."""
        nonlocal n
        n += 1
        variables = {"AGAIN" if patch else "PASS": "1"} if n == when else {}
        return attempt_tests(tested, patch, of.resolve(), work, replace(environment, variables=variables), *rest,
                             **options)  # fmt: skip

    monkeypatch.setattr("assaymark.swe.grading.attempt_tests", attempt)
    log = GradingLog(store)
    check = check_instance(log, known, tmp_path / "place", Environment(), SweLimits(seconds=120))
    assert (check.is_runnable, check.reason, n) == (not reason, reason, n_runs)
    assert check_instance(log, known, tmp_path / "place", Environment(), SweLimits(seconds=120)).is_runnable
    assert n == (n_runs + 4 if reason else n_runs)  # a no is tried again, since it may be put right; a yes is not


@pytest.mark.slow
def test_the_report_has_swe_benchs_fields(instance: Instance, store: Store, options: GradeOptions) -> None:
    """Each instance is in the list of its outcome; two files are compared by instance."""
    others = [replace(instance, instance_id=f"local__other-{number}") for number in range(4)]
    known = [instance, *others]
    good = [predicted(each, "org/good", instance.patch) for each in known[:4]]
    bad = [predicted(each, "bad", patch) for each, patch in zip(known, ["", "junk", instance.patch], strict=False)]
    for predictions in (good, bad):
        grade(store, known, predictions, replace(options, workers=2))
    first, second = stored_report(store, known, bad), stored_report(store, known, good)
    official = first.official()
    assert set(official) == {
        *("total_instances", "submitted_instances", "completed_instances", "resolved_instances", "error_instances"),
        *("unresolved_instances", "infra_failure_instances", "ambiguous_failure_instances", "empty_patch_instances"),
        *("submitted_ids", "completed_ids", "incomplete_ids", "resolved_ids", "unresolved_ids", "infra_failure_ids"),
        *("ambiguous_failure_ids", "empty_patch_ids", "error_ids", "failure_reasons", "schema_version"),
    }
    assert (official["total_instances"], official["submitted_instances"], official["schema_version"]) == (5, 3, 2)
    assert official["empty_patch_ids"] == [instance.instance_id]
    assert official["error_ids"] == ["local__other-0"]
    assert official["resolved_ids"] == official["completed_ids"] == ["local__other-1"]
    assert official["incomplete_ids"] == ["local__other-2", "local__other-3"]
    compared, only = compare_repeats([first], [second])
    assert (compared.n, compared.b_only, compared.a_only) == (3, 2, 0)
    assert only == {"only_first": [], "only_second": sorted([instance.instance_id, "local__other-0"])}
    assert second.estimate is not None
    assert (second.estimate.value, second.estimate.n) == (1.0, 4)


@pytest.mark.slow
def test_the_commands(project: Path, instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Init, grade and report, as a user types them; mistakes are one line."""
    instances, preds = tmp_path / "i.json", tmp_path / "gold.jsonl"
    assert main(["swe", "init", str(project), "-o", str(instances), "--limit", "1"]) == 0
    (row,) = json.loads(instances.read_text())
    assert row["instance_id"] == instance.instance_id
    written(preds, {"instance_id": row["instance_id"], "model_name_or_path": "a/gold", "model_patch": row["patch"]})
    common = [str(preds), "--instances", str(instances)]
    assert main(["swe", "grade", *common, "--repo", str(project)]) == 0
    capsys.readouterr()
    assert (
        main(["swe", "report", *common, "-o", str(tmp_path), "--run_id", "x", "--against", str(preds), "--json"]) == 0
    )
    output = json.loads(capsys.readouterr().out)
    assert output["comparison"]["difference"] == 0
    assert output["estimate"]["resolved_share"] == 1.0
    assert json.loads((tmp_path / "a__gold.x.json").read_text())["resolved_ids"] == [instance.instance_id]
    for words, said in (
        (["swe", "grade", str(preds), "--instances", str(tmp_path / "no.jsonl")], "no data file"),
        (["swe", "grade", str(instances), "--instances", str(instances)], "model_patch is None"),
        (["swe", "grade", *common, "--repo", str(tmp_path / "none")], "no repository"),
        (["swe", "grade", *common, "--repo", str(project), "--python", "/bin/false"], "does not run"),
        (
            ["swe", "init", str(project), "-o", str(tmp_path / "x.jsonl"), "--revision", "nothing"],
            "git rev-list failed",
        ),
        (["swe", "report", *common, "-o", str(tmp_path), "--run_id", "../x"], "--run_id is '../x'"),
    ):
        code = main(words)
        error = capsys.readouterr().err
        assert said in error, words
        assert "Traceback" not in error
        assert code != 0 or "not runnable" in error


@pytest.mark.slow
def test_a_killed_grading_resumes(project: Path, instance: Instance, tmp_path: Path, options: GradeOptions) -> None:
    """After kill -9 in the middle what was stored is not graded again, the rest is, and no process is left."""
    slow = patch_of(project, instance.base_commit, {"calc.py": f"import time\ntime.sleep(4)\n{FIXED}"})
    other = replace(instance, instance_id="local__slow-1")
    instances = written(tmp_path / "i.jsonl", instance.row(), other.row())
    rows = [(instance, instance.patch), (other, slow)]
    predictions = [predicted(each, "m", patch) for each, patch in rows]
    path = written(
        tmp_path / "p.jsonl",
        *({"instance_id": p.instance_id, "model_name_or_path": "m", "model_patch": p.model_patch} for p in predictions),
    )
    place = str(tmp_path / "swe.sqlite")
    words = [sys.executable, "-m", "assaymark", "swe", "grade", str(path), "--instances", str(instances)]
    process = subprocess.Popen(
        [*words, "--repo", str(project), "--store", place],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, env=dict(os.environ),
    )  # fmt: skip
    assert process.stderr is not None
    assert b"resolved" in process.stderr.readline()  # the first one is stored
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    time.sleep(1.0)
    left = subprocess.run(
        ["pgrep", "-f", "/assaymark-swe/verdict_plugin.py"], capture_output=True, text=True, check=False
    )
    of_this = [number for number in left.stdout.split() if place in _command_of(int(number))]
    assert of_this == []
    with Store.open(place) as store:
        assert GradingLog(store).gradings(predictions[0].patch_sha, instance.sha)
        assert GradingLog(store).gradings(predictions[1].patch_sha, other.sha) == []
        graded = grade(store, [instance, other], predictions, options)
        assert [(each.outcome, each.is_new) for each in graded] == [("resolved", False), ("resolved", True)]


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_tests(project: Path, instance: Instance, tmp_path: Path) -> None:
    """Ctrl-C ends a grading within seconds; nothing is stored of the attempt."""
    slow = patch_of(project, instance.base_commit, {"calc.py": f"import time\ntime.sleep(100)\n{FIXED}"})
    place = str(tmp_path / "swe.sqlite")
    write_rows(tmp_path / "i.jsonl", [instance.row()])
    row = {"instance_id": instance.instance_id, "model_name_or_path": "m", "model_patch": slow}
    path = written(tmp_path / "p.jsonl", row)
    words = [sys.executable, "-m", "assaymark", "swe", "grade", str(path), "--instances", str(tmp_path / "i.jsonl")]
    process = subprocess.Popen(
        [*words, "--repo", str(project), "--store", place], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not _is_checked(place, instance):
        time.sleep(0.2)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - started < 20
    assert process.returncode == 130
    assert "Traceback" not in errors
    with Store.open(place) as store:
        assert GradingLog(store).gradings(predicted(instance, "m", slow).patch_sha, instance.sha) == []


def _is_checked(place: str, instance: Instance) -> bool:
    if not Store.exists(place):
        return False
    with Store.open_to_read(place) as store:
        environment = Environments.read(None).of(instance)
        return GradingLog(store).check(instance.sha, environment.sha) is not None


def _command_of(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def test_logs_are_read_by_swe_benchs_rules() -> None:
    """Lines as pytest prints them, and those that only look like it."""
    log = (
        "PASSED a.py::x\nFAILED a.py::y - assert 1 == 2\nSKIPPED [1] a.py:3: why\nERROR a.py::z\nXFAIL a.py::w - r\n"
        "a.py::v PASSED [ 50%]\nXPASS a.py::u\n  PASSED a.py::t\nPASSED a.py::s[a b]\nFAILED a.py::x\n"
        "=== 3 passed, 1 failed, 1 error, 2 warnings in 0.12s ===\n"
    )
    expected = {
        "a.py::x": "FAILED", "a.py::y": "FAILED", "a.py::z": "ERROR", "a.py::w": "XFAIL",
        "a.py::s[a": "PASSED",
    }  # fmt: skip
    assert parse_pytest_log(log) == expected
    assert parse_pytest_log("\x1b[32mPASSED\x1b[0m a.py::x", "astropy/astropy") == {"a.py::x": "PASSED"}
    assert parse_pytest_log("PASSED a.py::x[/tmp/y/z]", "psf/requests") == {"a.py::x[/z]": "PASSED"}
    counts = printed_counts("=" * 9 + " 3 passed, 1 failed, 1 error, 2 warnings in 0.12s " + "=" * 9)
    assert counts == {"passed": 3, "failed": 1, "errors": 1, "warnings": 2}
    assert printed_counts("no tests ran in 0.01s") is None


def test_environments_are_found_by_the_nearest_name(instance: Instance, tmp_path: Path) -> None:
    """An instance's own, else its repository's at its version, else its repository's, else the default."""
    path = tmp_path / "e.yaml"
    path.write_text(f"default: {{folder: /d}}\nlocal/project: {{folder: /r}}\n{instance.instance_id}: {{folder: /i}}\n")
    known = Environments.read(path)
    assert known.of(instance).folder == "/i"
    assert known.of(replace(instance, instance_id="x")).folder == "/r"
    assert known.of(replace(instance, repo="o/n", instance_id="x")).folder == "/d"
    path.write_text("default: {folders: /d}\n")
    with pytest.raises(DataError, match=r"has 'folders'; expected folder, generated"):
        Environments.read(path)
    for text, message in (("a: [1\n", "e.yaml: not valid YAML: line 2"), ("", "e.yaml is empty; expected names")):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            Environments.read(path)


def test_time_of_an_environment_counts_into_the_key(options: GradeOptions, instance: Instance) -> None:
    """Other arguments of pytest are another environment; other limits are not."""
    environment = options.environments.of(instance)
    assert environment.sha == replace(environment).sha
    assert environment.sha != replace(environment, test_arguments=("-x",)).sha
    assert SweLimits(seconds=1) != SweLimits()
