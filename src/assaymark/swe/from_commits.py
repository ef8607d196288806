"""Instances made of a project's own commits: those that change code and tests, and whose tests tell the difference.

A commit's change of the code is the gold patch, its change of the tests the patch of tests, its message the issue. The
tests run before and after, in the sandbox: what failed and passes is FAIL_TO_PASS, what passes both times PASS_TO_PASS.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.drafts import draft_folder
from assaymark.errors import DataError
from assaymark.stopping import raise_if_requested, under_way
from assaymark.swe.attempts import PatchAttempt, attempt_tests
from assaymark.swe.base_copies import git, make_base_copy
from assaymark.swe.environments import Environment
from assaymark.swe.instances import LONGEST_PATCH, Instance
from assaymark.swe.log_parsing import status_key
from assaymark.swe.patches import is_test_path
from assaymark.swe.sandbox import SweLimits
from assaymark.swe.verdicts import FOR_FAILING

__all__ = ["CommitChoice", "make_instances"]

_UNNAMED = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class CommitChoice:
    """Which commits are tried: the newest ones that a revision or a range reaches.

    Attributes:
        revision: a branch, a commit or a range, as git names them.
        n_instances: to make, at most.
        n_tried: commits whose tests are run, at most.
        name: owner/name of the repository; empty: local/ and the folder's name.
    """

    revision: str = "HEAD"
    n_instances: int = 20
    n_tried: int = 200
    name: str = ""


def make_instances(
    repository: Path,
    choice: CommitChoice,
    environment: Environment,
    limits: SweLimits,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[Instance]:
    """Yield the instances of a repository, the newest first.

    Args:
        repository: a folder with a git repository, which is only read.
        choice: of the commits.
        environment: of the tests.
        limits: of the tests.
        notify: told of each commit that was tried and is no instance, and why.

    Raises: DataError for what is no repository, or an unknown revision; PlanError without a sandbox.
    """
    if choice.revision.startswith("-"):
        raise DataError(f"the revision is '{choice.revision}'; expected a branch, a commit or a range")
    if not repository.is_dir():
        raise DataError(f"no repository {repository}; expected a folder")
    listed = git(repository, "rev-list", "--no-merges", "--parents", choice.revision, "--")
    n_made = n_tried = 0
    for line in listed.decode().splitlines():
        commit, *parents = line.split()
        if n_made == choice.n_instances or n_tried == choice.n_tried:
            return
        if len(parents) != 1:
            continue
        candidate = _candidate(repository, commit, parents[0], choice.name)
        if candidate is None:
            continue
        n_tried += 1
        with under_way():
            raise_if_requested()
            made = _with_tests(repository, candidate, environment, limits)
        if isinstance(made, Instance):
            n_made += 1
            yield made
        else:
            notify(f"{commit[:12]}: {made}")


def _candidate(repository: Path, commit: str, parent: str, name: str) -> Instance | None:
    """Return a commit as an instance without lists of tests; None where it does not change both code and tests."""
    changed = git(repository, "diff", "--name-only", "-z", "--no-renames", parent, commit)
    try:
        paths = [path for path in changed.decode("utf-8").split("\0") if path]
        tests = [path for path in paths if is_test_path(path) or Path(path).name == "conftest.py"]
        code = [path for path in paths if path not in tests]
        if not any(path.endswith(".py") for path in code) or not any(path.endswith(".py") for path in tests):
            return None
        patch, test_patch = (_diff(repository, parent, commit, each) for each in (code, tests))
        message = git(repository, "log", "-1", "--format=%B", commit).decode("utf-8").strip()
    except UnicodeDecodeError:
        return None
    if max(len(patch), len(test_patch)) > LONGEST_PATCH:
        return None
    full_name = name or f"local/{_UNNAMED.sub('-', repository.resolve().name)}"
    return Instance(
        instance_id=f"{full_name.replace('/', '__')}-{commit[:12]}",
        repo=full_name,
        base_commit=parent,
        patch=patch,
        test_patch=test_patch,
        problem_statement=message,
        FAIL_TO_PASS=(),
        PASS_TO_PASS=(),
        created_at=git(repository, "log", "-1", "--format=%cI", commit).decode().strip(),
        environment_setup_commit=parent,
    )


def _diff(repository: Path, parent: str, commit: str, paths: list[str]) -> str:
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--binary", "--src-prefix=a/")
    literal = [f":(literal){path}" for path in paths]
    return git(repository, "diff", *options, "--dst-prefix=b/", parent, commit, "--", *literal).decode("utf-8")


def _with_tests(repository: Path, candidate: Instance, environment: Environment, limits: SweLimits) -> Instance | str:
    """Return an instance with its lists of tests, or why it is none."""
    with draft_folder() as folder:
        make_base_copy(repository, candidate.base_commit, folder / "base")
        attempts: list[PatchAttempt] = []
        for patch in ("", candidate.patch, candidate.patch):
            attempt = attempt_tests(
                candidate, patch, folder / "base", folder / "work", environment, limits, is_trusted=True
            )
            if patch and attempt.stage != "tested":
                return f"with its patch {attempt.reason}"
            attempts.append(attempt)
    before, after, again = (_good(candidate, attempt) for attempt in attempts)
    passing = sorted(after & again)
    failing = [test for test in passing if test not in before]
    if not failing:
        return "no test fails before it and passes after it"
    return replace(
        candidate, FAIL_TO_PASS=tuple(failing), PASS_TO_PASS=tuple(test for test in passing if test in before)
    )


def _good(candidate: Instance, attempt: PatchAttempt) -> set[str]:
    """Return the tests that passed, by the reports and in what was printed, in the form in which logs have them."""
    if attempt.run is None:
        return set()
    by_key: dict[str, set[str]] = {}
    for test, status in attempt.run.reported.statuses.items():
        by_key.setdefault(status_key(test, candidate.repo), set()).add(status)
    good = {key for key, statuses in by_key.items() if statuses <= FOR_FAILING}
    return {key for key in good if attempt.run.printed.get(key) in FOR_FAILING}
