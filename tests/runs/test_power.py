"""`plan --mde`: the minimum detectable effect of a planned run, and the samples that a difference needs."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from assaymark.cli.main import cli
from assaymark.errors import UsageError
from assaymark.randomness import generator_for
from assaymark.runs.planning import WantedPower, power_of_plan
from assaymark.runs.prepare import prepare_run
from assaymark.statistics.power import WeightedTask, mde_of_weighted
from tests.tasks.folders import task_spec, write_rows, write_task

ROWS = [{"question": f"{i}?", "choices": ["a", "b"], "answer": i % 2} for i in range(60)]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Return a folder with two tasks of 60 and one group of them."""
    write_rows(tmp_path, ROWS, ROWS)
    for name in ("one", "two"):
        write_task(tmp_path, task_spec(name))
    group = {"group": "both", "task": ["one", "two"], "aggregate_metric_list": [{"metric": "acc"}]}
    write_task(tmp_path, group)
    return tmp_path


def test_a_single_task_is_millers_formula() -> None:
    """With weight 1 and one task the MDE is 2.80 √(π / n)."""
    expected = 2.8015852 * math.sqrt(0.2 / 1000)
    assert mde_of_weighted([WeightedTask(1.0, 1000)], 0.2) == pytest.approx(expected, rel=1e-6)


def test_a_weighted_mean_has_the_stated_power() -> None:
    """Simulated composites of two tasks detect a difference of the MDE with 80% power."""
    tasks, disagreement = [WeightedTask(0.7, 400), WeightedTask(0.3, 150)], 0.2
    difference = mde_of_weighted(tasks, disagreement)
    draw = generator_for("power of a composite")
    n_found = 0
    for _ in range(1500):
        mean = variance = 0.0
        for task in tasks:
            p = [(disagreement + difference) / 2, 1 - disagreement, (disagreement - difference) / 2]
            d = draw.choice([1.0, 0.0, -1.0], size=task.n, p=p)
            mean += task.weight * d.mean()
            variance += task.weight**2 * d.var(ddof=1) / task.n
        n_found += abs(mean) / math.sqrt(variance) > 1.959964
    assert 0.77 < n_found / 1500 < 0.86  # the disagreement bounds the variance from above, so a little more than 80%


def test_a_group_of_equal_tasks_needs_half_of_each(tasks: Path) -> None:
    """Two tasks of 60 together have the MDE of one task of 120."""
    _, prepared = prepare_run("fake", "both", {"include_path": [str(tasks)]})
    lines = {line.name: line for line in power_of_plan(prepared, WantedPower(0.1))}
    alone, together = lines["one"], lines["both"]
    assert alone.paired is not None
    assert together.paired == pytest.approx(alone.paired / math.sqrt(2))
    assert together.unpaired == pytest.approx((alone.unpaired or 0) / math.sqrt(2))
    assert together.n == 120
    assert together.n_paired is not None
    assert together.paired is not None
    assert np.isclose(together.n_paired, 120 * (together.paired / 0.1) ** 2, atol=1)


def test_too_few_samples_detect_nothing(tasks: Path) -> None:
    """With 20 samples no difference possible at a disagreement of 20% is detectable, and the line states it."""
    _, prepared = prepare_run("fake", "one", {"include_path": [str(tasks)], "limit": 20})
    (line,) = power_of_plan(prepared, WantedPower(0.02))
    assert line.shows_nothing_paired
    assert line.paired is not None
    assert line.paired > 0.2


def test_invalid_differences_are_refused() -> None:
    """A difference larger than the disagreement, none, or less than a hundredth of a point is a usage error."""
    with pytest.raises(UsageError, match="disagree"):
        WantedPower(0.3, 0.2)
    for difference in (0.0, 1e-302, 0.9e-4):
        with pytest.raises(UsageError, match=r"expected points from 0\.01 to below 100"):
            WantedPower(difference)
    assert WantedPower(0.01 / 100).difference == 1e-4


def test_plan_prints_what_the_difference_needs(tasks: Path) -> None:
    """`plan --mde 2 --json` gives samples needed for two points, paired and unpaired."""
    words = ["plan", "--model", "fake", "--tasks", "both", "--include_path", str(tasks), "--mde", "2"]
    actual = CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
    power = {line["name"]: line for line in json.loads(actual.output)["power"]}
    assert power["one"]["n_paired"] == 3923  # Connor 1987 at 20% disagreement
    assert power["one"]["n_unpaired"] == 9812
    result = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert "both (group)" in result
    assert "9,812+" in result
