"""Instances made of a project's own commits: those that change code and tests, and whose tests tell the difference.

A commit's change of the code is the gold patch, its change of the tests the patch of tests, its message the issue. The
tests run before and after, in the sandbox: what failed and passes is FAIL_TO_PASS, what passes both times PASS_TO_PASS.

What a commit's tests did is kept in the home folder, so that a command that was ended continues where it was.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from assaymark.drafts import draft_folder, write_whole
from assaymark.errors import DataError
from assaymark.platforms import alone
from assaymark.settings import home_folder
from assaymark.stopping import raise_if_requested, under_way
from assaymark.swe.attempts import PatchAttempt, attempt_tests
from assaymark.swe.base_copies import git, make_base_copy
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.instances import LONGEST_PATCH, Instance, text_sha
from assaymark.swe.patches import is_test_path
from assaymark.swe.sandbox import SweLimits
from assaymark.swe.verdicts import FOR_FAILING, status_key

RECIPE = 2  # counts into what a trial is kept under: another number tries all again
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


@dataclass(frozen=True, slots=True)
class _CommitTrial:
    """The results of a commit's tests: both lists, or in words why the commit is no instance."""

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    left_out: str = ""


def make_instances(
    repository: Path,
    choice: CommitChoice,
    environments: Environments,
    limits: SweLimits,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[Instance]:
    """Yield the instances of a repository, the newest first.

    Args:
        repository: a folder with a git repository, which is only read.
        environments: of the tests, by instance.
        notify: called with a line when a commit's tests begin, and when the commit is left out, with the reason.

    Raises: DataError for what is no repository, or an unknown revision; PlanError without a sandbox or an environment.
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
        started = time.monotonic()
        trial, is_new = _kept_trial(
            repository, candidate, environments.of(candidate), limits,
            lambda: notify(f"commit {n_tried} of at most {choice.n_tried}: {commit[:12]}"),  # noqa: B023 - called now
        )  # fmt: skip
        when = f"{time.monotonic() - started:.0f} s" if is_new else "tried before"
        if trial.left_out:
            notify(f"left out: {commit[:12]}: {trial.left_out} ({when})")
        else:
            n_made += 1
            yield replace(candidate, FAIL_TO_PASS=trial.fail_to_pass, PASS_TO_PASS=trial.pass_to_pass)


def _kept_trial(
    repository: Path, candidate: Instance, environment: Environment, limits: SweLimits, begin: Callable[[], None]
) -> tuple[_CommitTrial, bool]:
    """Return the outcome of a commit's tests, and whether they ran now; `begin` is called before they do."""
    key = text_sha(json.dumps([RECIPE, candidate.sha, environment.sha, asdict(limits)]))
    path = home_folder() / "swe" / "commits" / f"{key[:32]}.json"
    with alone(f"commit {key}"):
        if (kept := _read_trial(path)) is not None:
            return kept, False
        begin()
        with under_way():
            raise_if_requested()
            trial = _tried(repository, candidate, environment, limits)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(trial)) + "\n")
    return trial, True


def _read_trial(path: Path) -> _CommitTrial | None:
    """Return a trial that was kept; None where there is none, or its file is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _CommitTrial(tuple(content["fail_to_pass"]), tuple(content["pass_to_pass"]), content["left_out"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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


def _tried(repository: Path, candidate: Instance, environment: Environment, limits: SweLimits) -> _CommitTrial:
    """Run a commit's tests before it, after it and after it again; a run that can change nothing is left away."""
    with draft_folder() as folder:
        make_base_copy(repository, candidate.base_commit, folder / "base")

        def attempt(patch: str) -> PatchAttempt:
            base, work = folder / "base", folder / "work"
            return attempt_tests(candidate, patch, base, work, environment, limits, is_trusted=True)

        before = attempt("")
        if before.stage == "tested" and before.run is not None and before.run.reported.status == 0:
            return _CommitTrial(left_out="its tests pass before it too")
        if before.stage in {"timeout", "limit", "forged"}:  # what did not run is not known to fail
            return _CommitTrial(left_out=f"without its patch {before.reason}")
        before_too, passing = _good(candidate, before), set[str]()
        for number in range(2):  # a test that passes only once decides nothing
            after = attempt(candidate.patch)
            if after.stage != "tested":
                return _CommitTrial(left_out=f"with its patch {after.reason}")
            good = _good(candidate, after)
            passing = passing & good if number else good
            if passing <= before_too:
                return _CommitTrial(left_out="no test fails before it and passes after it")
        return _CommitTrial(tuple(sorted(passing - before_too)), tuple(sorted(passing & before_too)))


def _good(candidate: Instance, attempt: PatchAttempt) -> set[str]:
    """Return the tests that passed, by the reports and in what was printed, in the form in which logs have them."""
    if attempt.run is None:
        return set()
    by_key: dict[str, set[str]] = {}
    for test, status in attempt.run.reported.statuses.items():
        by_key.setdefault(status_key(test, candidate.repo), set()).add(status)
    good = {key for key, statuses in by_key.items() if statuses <= FOR_FAILING}
    return {key for key in good if attempt.run.printed.get(key) in FOR_FAILING}
