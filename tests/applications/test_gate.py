"""Gates: by hand on real stored runs, and through pytest itself."""

import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import assaymark
from assaymark.applications import pytest_plugin
from assaymark.applications.gate import GateFailed, GateResult
from assaymark.errors import UnknownName, UsageError
from assaymark.runs.run import Run
from assaymark.statistics.intervals import wilson
from assaymark.statistics.paired import tango_interval
from assaymark.store import Store
from tests.applications.answered_runs import scored_run
from tests.conftest import ROOT

GOOD, SAME, WORSE, SMALL, FAILING = range(5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Return runs of 60 rows: 58 right; as many with two changed; 40 right; 20 of 20 right; 59 right and one failed."""
    folder = tmp_path_factory.mktemp("gates")
    good: list[bool | None] = [*[True] * 58, False, False]
    same: list[bool | None] = [False, *good[1:58], True, False]
    made: list[list[bool | None]] = [good, same, [*[True] * 40, *[False] * 20], [*[True] * 20], [*[True] * 59, None]]
    return [scored_run(folder, f"model{at}", right) for at, right in enumerate(made)]


def outcome(run: Run, condition: str, baseline: Run | None = None) -> GateResult:
    """Return a gate's result, whatever it is."""
    try:
        return assaymark.gate(run, "exact_match", condition, baseline=baseline, undecided="pass")
    except GateFailed as failed:
        return failed.result


@pytest.mark.slow
def test_the_three_outcomes_by_the_one_sided_bound(runs: list[Run]) -> None:
    """58 of 60: Wilson's one-sided bounds are .904 and .989; above, below and between them the gate says so."""
    ends = wilson(58, 60, 0.9)
    assert (round(ends.low, 3), round(ends.high, 3)) == (0.904, 0.989)
    for condition, expected in {
        "lower >= 0.9": "pass", "lower >= 90%": "pass", "lower > .95": "undecided", "lower >= 0.995": "fail",
        "upper <= 0.99": "pass", "upper <= 95%": "undecided", "upper < 0.9": "fail",
    }.items():  # fmt: skip
        result = outcome(runs[GOOD], condition)
        assert result.outcome == expected, condition
        assert result.estimate == pytest.approx(58 / 60)
        assert result.bound == pytest.approx(ends.low if condition.startswith("lower") else ends.high)
        assert (result.n_needed is not None) == (expected == "undecided")


def test_undecided_states_the_n_that_decides(runs: list[Run]) -> None:
    """20 of 20 right do not show 90%; 25 would, by Wilson's bound, and 24 would not."""
    result = outcome(runs[SMALL], "lower >= 0.9")
    assert (result.outcome, result.n, result.n_needed) == ("undecided", 20, 25)
    assert wilson(24, 24, 0.9).low < 0.9 <= wilson(25, 25, 0.9).low
    assert "about 25 rows would decide" in result.message


def test_a_paired_gate_by_tangos_bound(runs: list[Run]) -> None:
    """One answer gained and one lost of 60: at most 9 points are lost; 20 lost fail, and 2 points are undecided."""
    ends = tango_interval(1, 1, 60, 0.9)
    result = outcome(runs[SAME], "not more than 0.09 below baseline", runs[GOOD])
    assert (result.outcome, result.n, result.estimate) == ("pass", 60, 0.0)
    assert result.bound == pytest.approx(ends.low)
    undecided = outcome(runs[SAME], "not more than 2% below the baseline", runs[GOOD])
    assert undecided.outcome == "undecided"
    assert undecided.n_needed is not None
    assert 400 < undecided.n_needed < 600  # (1.645 + 0.842)^2 (1/30) / 0.02^2 = 515, with nearly equal variances
    assert outcome(runs[WORSE], "not more than 0.1 worse than baseline", runs[GOOD]).outcome == "fail"
    assert outcome(runs[GOOD], "better than baseline", runs[WORSE]).outcome == "pass"


def test_equal_answers_need_the_n_of_tangos_bound(runs: list[Run]) -> None:
    """Without a changed answer -z^2 / (n + z^2) > -.02 needs 133 rows."""
    result = outcome(runs[SMALL], "not more than 0.02 below baseline", runs[GOOD])
    assert (result.outcome, result.n, result.n_needed) == ("undecided", 20, 133)
    assert tango_interval(0, 0, 133, 0.9).low > -0.02 > tango_interval(0, 0, 132, 0.9).low


def test_failed_calls_fail_a_gate(runs: list[Run]) -> None:
    """One failed row of 60 fails a gate that the other 59 pass, unless it is allowed; the first error is named."""
    result = outcome(runs[FAILING], "lower >= 0.9")
    assert (result.outcome, result.n, result.n_failed) == ("fail", 59, 1)
    assert "1 row has no score because a call or its score failed (first: " in result.message
    allowed = assaymark.gate(runs[FAILING], "exact_match", "lower >= 0.9", allow_failed=1)
    assert allowed.outcome == "pass"


def test_undecided_fails_by_default_and_the_message_can_be_read(runs: list[Run]) -> None:
    """The failure is an assertion whose text has condition, value, bounds, n and the n that it needs."""
    with pytest.raises(AssertionError) as failed:
        assaymark.gate(runs[GOOD], "exact_match", "lower >= 0.95")
    needed = outcome(runs[GOOD], "lower >= 0.95").n_needed
    assert str(failed.value).splitlines() == [
        "gate 'exact_match: lower >= 0.95' undecided",
        "  exact_match on known_rows: 96.7%, from 90.4% to 98.9% (one-sided 95% bounds), n 60",
        f"  about {needed:,} rows would decide, were the value exactly the one measured (power 80%)",
    ]


@pytest.mark.parametrize(
    ("metric", "condition", "with_baseline", "message"),
    [
        ("exact_match", "at least 0.9", False, r"cannot be parsed; expected 'lower >= 0\.9'"),
        ("exact_match", "lower <= 0.9", False, "compares the lower bound by <="),
        ("exact_match", "lower >= 90", False, "so 90 is always or never met"),
        ("exact_match", "not more than 0.02 below baseline", False, "needs a run to compare with: baseline=RUN"),
        ("exact_match", "lower >= 0.9", True, "is about one run"),
        ("exact_match", "not more than 0.02 above baseline", True, "higher is better; write 'below baseline'"),
        ("exact_match", "not more than 2 below baseline", True, "write 2% for points"),
        ("exact_match", "not more than -0.1 below baseline", True, "expected a number from 0"),
        ("exakt_match", "lower >= 0.9", False, "unknown metric of this run 'exakt_match'; nearest: exact_match"),
    ],
)
def test_a_gate_that_says_nothing_is_refused(
    runs: list[Run], metric: str, condition: str, with_baseline: bool, message: str
) -> None:
    """A condition that cannot be parsed, or no result could fail, is an error and no outcome."""
    with pytest.raises(UsageError, match=message):
        assaymark.gate(runs[GOOD], metric, condition, baseline=runs[WORSE] if with_baseline else None)


def test_other_refusals(runs: list[Run]) -> None:
    """A run is not its own baseline, tasks have names, and `undecided` is one of three words."""
    good = runs[GOOD]
    with pytest.raises(UsageError, match="compared with itself"):
        assaymark.gate(good, "exact_match", "better than baseline", baseline=good)
    with pytest.raises(UnknownName, match="task in this run 'rows'"):
        assaymark.gate(good, "exact_match", "lower >= 0.5", task="rows")
    with pytest.raises(UsageError, match="undecided is 'ignore'"):
        assaymark.gate(good, "exact_match", "lower >= 0.5", undecided="ignore")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------- through pytest

SUITE = """
import assaymark
import pytest
from assaymark.runs.run import Run
from assaymark.store import Store

@pytest.fixture
def runs():
    with Store.open({store!r}) as store:
        yield {{row.model: Run(store, row.run_id) for row in store.runs()}}

@pytest.mark.assaymark
def test_good(runs):
    assaymark.gate(runs["model0"], "exact_match", "lower >= 0.9")
    assaymark.gate(runs["model1"], "exact_match", "not more than 0.1 below baseline", baseline=runs["model0"])

@pytest.mark.assaymark
def test_bad(runs):
    assaymark.gate(runs["model2"], "exact_match", "lower >= 0.9")

def test_undecided(runs):
    assaymark.gate(runs["model3"], "exact_match", "lower >= 0.9")

@pytest.mark.assaymark(undecided="skip")
def test_undecided_is_skipped(runs):
    assaymark.gate(runs["model3"], "exact_match", "lower >= 0.9")

@pytest.mark.assaymark(undecided="pass", allow_failed=1)
def test_undecided_passes(runs):
    assaymark.gate(runs["model3"], "exact_match", "lower >= 0.9")
    assaymark.gate(runs["model4"], "exact_match", "lower >= 0.9")

def test_of_nothing():
    pass
"""


def run_pytest(folder: Path, runs: list[Run], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the suite as a user's, with the plug-in by its entry point as pyproject.toml declares it."""
    store = runs[0].store
    assert isinstance(store, Store)
    (folder / "test_app.py").write_text(SUITE.format(store=store.url.removeprefix("sqlite:///")))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]["pytest11"]
    installed = folder / "site" / "plugged-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    lines = [f"{name} = {place}" for name, place in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]) + "\n")
    paths = [str(folder / "site"), str(ROOT / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": "", "COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-q", "test_app.py", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_through_pytest_and_junit(runs: list[Run], tmp_path: Path) -> None:
    """Each outcome becomes a test's, the summary has every gate, and JUnit has the numbers as properties."""
    done = run_pytest(tmp_path, runs, "--junitxml=junit.xml", "-ra")
    assert "2 failed, 3 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert "gate 'exact_match: lower >= 0.9' failed" in done.stdout
    assert "exact_match on known_rows: 66.7%, from 56.1% to 75.8% (one-sided 95% bounds), n 60" in done.stdout
    summary = done.stdout.partition("assaymark gates")[2].partition("short test summary")[0]
    assert summary.count("gate 'exact_match") == 7
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "junit.xml").iter("testcase")}
    properties = {each.get("name"): each.get("value") for each in cases["test_good"].iter("property")}
    assert properties["exact_match, lower >= 0.9: outcome"] == "pass"
    assert properties["exact_match, lower >= 0.9: estimate"] == "0.966667"
    assert float(str(properties["exact_match, lower >= 0.9: bound"])) == pytest.approx(
        wilson(58, 60, 0.9).low, abs=1e-6
    )
    assert properties["exact_match, lower >= 0.9: n"] == "60"
    assert properties["exact_match, not more than 0.1 below baseline: outcome"] == "pass"
    needed = {each.get("name"): each.get("value") for each in cases["test_undecided"].iter("property")}
    assert needed["exact_match, lower >= 0.9: n_needed"] == "25"
    assert cases["test_undecided"].find("failure") is not None
    assert cases["test_undecided_is_skipped"].find("skipped") is not None
    assert list(cases["test_of_nothing"].iter("property")) == []


@pytest.mark.slow
def test_the_mark_selects_tests(runs: list[Run], tmp_path: Path) -> None:
    """`-m assaymark` runs the marked tests only; strict marks know it; a misspelt option is refused."""
    done = run_pytest(tmp_path, runs, "-m", "assaymark", "--collect-only")
    assert "4/6 tests collected (2 deselected)" in done.stdout
    assert "assaymark(undecided='fail', allow_failed=0)" in run_again(tmp_path, "--markers").stdout
    (tmp_path / "test_app.py").write_text(
        "import pytest\n@pytest.mark.assaymark(undecide='skip')\ndef test_x():\n    pass\n"
    )
    assert "unexpected keyword argument 'undecide'" in run_again(tmp_path, "test_app.py").stdout


def run_again(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest again in the same folder."""
    paths = [str(folder / "site"), str(ROOT / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": "", "COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-q", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_plugin_needs_no_name_that_earlier_versions_of_pytest_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded wherever the package is installed, so an AttributeError would end every run of pytest there."""
    monkeypatch.delattr(pytest, "TerminalReporter")
    assert callable(runpy.run_path(str(pytest_plugin.__file__))["pytest_terminal_summary"])


def test_a_run_without_a_scored_row_says_so(tmp_path: Path) -> None:
    """Where every call failed there is no value and no interval: the message has neither, and the first reason."""
    failed = outcome(scored_run(tmp_path, "all failed", [None, None, None]), "lower >= 0.5")
    assert (failed.outcome, failed.n, failed.n_failed) == ("fail", 0, 3)
    assert "no row has a score" in failed.message
    assert "3 rows have no score because a call or its score failed (first: " in failed.message
    assert "none" not in failed.message
