"""The library through our own reader: every task is asked and scored, and the Nous suite's prompts are its board's."""

import hashlib
import json
import math
from functools import cache
from pathlib import Path

import pytest

from assaymark.records import LoglikelihoodQuery, Request
from assaymark.scoring.run_code import find_sandbox
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.describe import made_up_outputs
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import Task
from tests.conftest import ROOT
from tests.library.test_library import module

FIXTURES = ROOT / "tests" / "fixtures" / "data"
WITHOUT_ROWS = frozenset({"MMMU/MMMU"})  # neither here nor beside the repository; test_mmmu makes rows of its form
NOUS = json.loads((Path(__file__).parent / "goldens" / "nous_bigbench.json").read_text(encoding="utf-8"))["tasks"]


@cache
def catalog() -> Catalog:
    """Return the catalogue of our library alone."""
    return Catalog.open(lm_eval=False)


def task_of(name: str) -> Task:
    """Return one task of the library."""
    return catalog().select([f"assaymark:{name}"]).tasks[0]


def tasks(*, with_fixtures: bool) -> list[Task]:
    """Return the tasks whose rows are in the repository, or the others; the demo's have tests of their own."""
    names = [entry.name for entry in catalog().entries() if entry.kind == "task" and entry.origin == "assaymark"]
    found = [task for task in catalog().select(names).tasks if "demo" not in task.source.parts]
    found = [task for task in found if task.dataset.path not in WITHOUT_ROWS]
    # the scores of a simulated conversation are its last answer's, in test_bfcl_multi_turn.py
    found = [task for task in found if task.prompt.simulator is None]
    return [task for task in found if (FIXTURES / task.dataset.path).is_dir() == with_fixtures]


def ask_and_score(task: Task, data: Path) -> None:
    """Render the first three samples and score answers that no model gave."""
    bound = bind(task, BindOptions(limit=3, data_dir=data))
    requests = list(bound.requests())
    assert len(requests) == 3
    if task.spec.get("unsafe_code") and find_sandbox()[0] is None:
        return  # the programs of made-up answers are not run without a sandbox
    for sample, request in zip(bound.samples(), requests, strict=True):
        scores = bound.score(request, sample, made_up_outputs(request))
        assert {metric.name for metric in bound.metrics} <= {score.metric for score in scores}, task.name


@pytest.mark.slow
def test_tasks_run_on_the_fixture_rows() -> None:
    """Every task whose rows the repository carries is asked and scored without anything from outside."""
    found = tasks(with_fixtures=True)
    assert len(found) > 20
    for task in found:
        ask_and_score(task, FIXTURES)


@pytest.mark.slow
def test_every_other_task_runs_on_real_rows(shared_dir: Path) -> None:
    """All other tasks are asked and scored on the real rows beside the repository."""
    for task in tasks(with_fixtures=False):
        ask_and_score(task, shared_dir / "data")


def asked(request: Request) -> list[list[str]]:
    """Return a request as the golden file has it: its prompt with each continuation."""
    return [[request.prompt, query.continuation] for query in request.queries if isinstance(query, LoglikelihoodQuery)]


@pytest.mark.parametrize("name", sorted(NOUS))
def test_the_nous_suite_asks_what_its_board_asked(shared_dir: Path, name: str) -> None:
    """Prompts and choices of the first 100 examples are those of the fork that YALL's table was made with."""
    bound = bind(task_of(f"nous_bigbench_{name}"), BindOptions(data_dir=shared_dir / "data"))
    assert bound.n_original == NOUS[name]["n_samples"]
    requests = [asked(request) for _, request in zip(range(100), bound.requests(), strict=False)]
    text = json.dumps(requests, ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == NOUS[name]["first_100"]


def test_a_tie_is_broken_by_a_hash() -> None:
    """Among equals the pick depends on all likelihoods, always in the same way, and reaches every index."""
    grades = module("nous_bigbench/grades")
    assert grades.pick([-2.0, -1.0, -3.0]) == 1
    picks = {grades.pick([-1.0, -1.0, -5.0 - i]) for i in range(20)}
    assert picks == {0, 1}
    assert grades.process_results({"scores": [0.25, 1.0]}, [(-1.0, True), (-math.pi, False)]) == {
        "multiple_choice_grade": 0.25
    }
