"""Grading on a cluster gives what grading here gives, once, and a lost machine fails no patch."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from assaymark.store import Store
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.instances import Instance, Prediction, write_rows
from tests.models.workers.test_cluster import TwoNodes, needs_ray, two_nodes  # noqa: F401 - a fixture
from tests.swe.projects import FIXED, patch_of

pytestmark = [pytest.mark.slow, needs_ray]
SLEEPING = FIXED + "import time\ntime.sleep(300)\n"


def command(folder: Path, project: Path, nodes: TwoNodes, *options: str) -> list[str]:
    """Return the command that grades `predictions.jsonl` on the cluster."""
    return [
        sys.executable, "-m", "assaymark", "swe", "grade", str(folder / "predictions.jsonl"), "--instances",
        str(folder / "instances.jsonl"), "--repo", str(project), "--cluster", nodes.address, "--store",
        str(folder / "cluster.sqlite"), *options,
    ]  # fmt: skip


def outcomes(printed: str) -> dict[str, tuple[str, bool]]:
    """Return outcome and whether it is new, by instance."""
    graded: list[Mapping[str, Any]] = json.loads(printed)["graded"]
    return {each["instance_id"]: (each["outcome"], each["is_new"]) for each in graded}


def written(folder: Path, instance: Instance, patches: Mapping[str, str]) -> tuple[list[Instance], list[Prediction]]:
    """Write an instance and a prediction for each name; return them."""
    instances = [replace(instance, instance_id=f"{instance.instance_id}-{name}") for name in patches]
    predictions = [
        Prediction(each.instance_id, "a-model", patch) for each, patch in zip(instances, patches.values(), strict=True)
    ]
    write_rows(folder / "instances.jsonl", [each.row() for each in instances])
    write_rows(
        folder / "predictions.jsonl",
        [
            {"instance_id": each.instance_id, "model_name_or_path": "a-model", "model_patch": each.model_patch}
            for each in predictions
        ],
    )
    return instances, predictions


def test_a_cluster_grades_what_is_graded_here(
    two_nodes: TwoNodes,  # noqa: F811
    project: Path,
    instance: Instance,
    options: GradeOptions,
    store: Store,
    tmp_path: Path,
) -> None:
    """Outcomes are equal; the second time nothing is graded."""
    patches = {"gold": instance.patch, "empty": "", "damaged": instance.patch.replace("calc.py", "none.py")}
    instances, predictions = written(tmp_path, instance, patches)
    here = {each.prediction.instance_id: each for each in grade(store, instances, predictions, options)}
    first = subprocess.run(command(tmp_path, project, two_nodes, "--json"), capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    assert outcomes(first.stdout) == {name: (each.outcome, each.is_new) for name, each in here.items()}
    assert sorted(each.outcome for each in here.values()) == ["empty_patch", "error", "resolved"]
    again = subprocess.run(command(tmp_path, project, two_nodes, "--json"), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert {is_new for _, is_new in outcomes(again.stdout).values()} == {False}


def test_a_lost_worker_fails_no_patch(
    two_nodes: TwoNodes,  # noqa: F811
    project: Path,
    instance: Instance,
    tmp_path: Path,
) -> None:
    """A worker that is killed while tests run leaves no grading; what its machine had started ends."""
    written(tmp_path, instance, {"slow": patch_of(project, instance.base_commit, {"calc.py": SLEEPING})})
    with subprocess.Popen(
        command(tmp_path, project, two_nodes, "--json", "--timeout", "200"), stdout=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 120
        while not (tests := [each for each in workers(two_nodes) if sandboxes(each)]):
            assert time.monotonic() < deadline, "no tests began"
            assert running.poll() is None
            time.sleep(0.2)
        started = [child for each in tests for child in sandboxes(each)]
        for each in tests:
            os.kill(each.pid, signal.SIGKILL)
        printed, _ = running.communicate(timeout=120)
    ((outcome, is_new),) = outcomes(printed).values()
    assert (outcome, is_new) == ("infra_failure", False)
    assert "not graded on the cluster" in printed
    _, left = psutil.wait_procs(started, timeout=20)
    assert not left


def workers(nodes: TwoNodes) -> list[psutil.Process]:
    """Return the processes on the nodes that grade."""
    return nodes.processes("ray::_grade_elsewhere")


def sandboxes(worker: psutil.Process) -> list[psutil.Process]:
    """Return the sandboxes that a process has started for a patch with a sleeping file."""
    try:
        children = worker.children(recursive=True)
        return [each for each in children if "bwrap" in each.name()]
    except psutil.NoSuchProcess:
        return []
