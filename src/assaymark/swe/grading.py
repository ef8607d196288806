"""Grading predictions: the outcome of each patch, stored under the hashes of patch, instance and environment.

Before an instance is graded in an environment, its gold patch must resolve it and the empty patch must not, twice. An
instance for which that is not so is not runnable here: no patch fails because of it.

Predictions are graded in threads, or on the machines of a cluster, which need the same environments and repositories at
the same paths; only this process reads and writes the store.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from typing import Protocol

from assaymark.drafts import draft_folder
from assaymark.errors import DataError, PlanError
from assaymark.models.workers.cluster import run_on_cluster
from assaymark.platforms import alone
from assaymark.settings import VERSION
from assaymark.stopping import raise_if_requested, under_way
from assaymark.store.connection import OpenStore
from assaymark.swe.attempts import PatchAttempt, attempt_tests
from assaymark.swe.base_copies import Repositories, make_base_copy
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.grading_log import Check, Grading, GradingDetails, GradingLog
from assaymark.swe.instances import Instance, Prediction, is_empty
from assaymark.swe.sandbox import SweLimits, working_sandbox
from assaymark.swe.verdicts import TestLists, disagreements, grade_tests

TIMES = 2  # that gold and empty patch are tried
_OUTCOMES = {
    "not applied": "error",
    "tests not applied": "error",
    "timeout": "error",
    "limit": "error",
    "refused": "unresolved",
    "forged": "unresolved",
    "incomplete": "ambiguous_failure",
}


@dataclass(frozen=True, slots=True)
class GradeOptions:
    """Where the repositories and environments are, and what grading may use.

    workers: instances that are graded at the same time; None: one here, all processors of a cluster.
    cluster: address of a Ray cluster; None: this machine.
    """

    repositories: Repositories
    environments: Environments
    limits: SweLimits = field(default_factory=SweLimits)
    workers: int | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Graded:
    """The outcome of one prediction.

    Attributes:
        outcome: as `Grading.outcome`, or empty_patch.
        reason: why it is not resolved, where more is known than which tests failed.
        grading: the stored one; None for empty patches, and for instances that are not runnable here.
        is_new: whether it was graded now.
    """

    prediction: Prediction
    outcome: str
    reason: str = ""
    grading: Grading | None = None
    is_new: bool = False


def match_predictions(
    instances: Sequence[Instance], predictions: Sequence[Prediction]
) -> list[tuple[Instance, Prediction]]:
    """Return the predictions with their instances.

    Raises: DataError for predictions of unknown instances.
    """
    by_id = {each.instance_id: each for each in instances}
    unknown = [each.instance_id for each in predictions if each.instance_id not in by_id]
    if unknown:
        raise DataError(
            f"{len(unknown)} predictions are of instances that --instances does not have, such as {unknown[0]}; "
            "name the file of the instances that they were made for"
        )
    return [(by_id[each.instance_id], each) for each in predictions]


def grade(
    store: OpenStore,
    instances: Sequence[Instance],
    predictions: Sequence[Prediction],
    options: GradeOptions,
    notify: Callable[[Graded], None] = lambda _: None,
) -> list[Graded]:
    """Grade predictions and store each result at once; those that are stored are not graded again.

    Returns: what became of each prediction, in their order.
    Raises: DataError, as `match_predictions`; PlanError without a sandbox; StoreError.
    """
    pairs = match_predictions(instances, predictions)
    log = GradingLog(store)
    graded: dict[str, Graded] = {}
    graded_by = _graded_in_threads if options.cluster is None else _graded_on_cluster
    with under_way(), closing(graded_by(log, pairs, options)) as results:  # closed: an error here ends what is waiting
        for done in results:
            graded[done.prediction.instance_id] = done
            notify(done)
    return [graded[each.instance_id] for each in predictions]


Pairs = Sequence[tuple[Instance, Prediction]]


def _graded_in_threads(log: GradingLog, pairs: Pairs, options: GradeOptions) -> Generator[Graded]:
    _check_sandbox([instance for instance, _ in pairs], options)
    with ThreadPoolExecutor(max_workers=options.workers or 1) as executor:
        waiting = [executor.submit(_grade_prediction, log, instance, each, options) for instance, each in pairs]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _graded_on_cluster(log: GradingLog, pairs: Pairs, options: GradeOptions) -> Generator[Graded]:
    """Yield the stored gradings, then those of the cluster, each of which is stored here on arrival."""
    calls: list[tuple[Instance, Prediction, GradeOptions, str, Check | None, str]] = []
    for instance, prediction in pairs:
        done, sha = _without_tests(log, instance, prediction, options)
        if done is not None:
            yield done
        else:
            calls.append((instance, prediction, options, sha, log.check(instance.sha, sha), VERSION))
    with closing(run_on_cluster(options.cluster or "", _grade_elsewhere, calls, options.workers)) as results:
        for number, result, reason in results:
            if result is None:
                yield Graded(calls[number][1], "infra_failure", f"not graded on the cluster: {reason}")
                continue
            done, new_check = result
            if new_check is not None:
                log.add_check(new_check)
            if done.is_new and done.grading is not None:
                log.add_grading(done.grading)
            yield done


class _Log(Protocol):
    """Access to the store for grading one prediction."""

    def check(self, instance_sha: str, environment_sha: str) -> Check | None: ...
    def add_check(self, check: Check) -> None: ...
    def gradings(self, patch_sha: str, instance_sha: str, environment_sha: str | None = None) -> list[Grading]: ...
    def add_grading(self, grading: Grading) -> None: ...


class _NoStore:
    """The log on a machine of a cluster: known results are sent there, and new ones are sent back."""

    def __init__(self, known: Check | None) -> None:
        self._known = known
        self.new_check: Check | None = None

    def check(self, instance_sha: str, environment_sha: str) -> Check | None:  # noqa: ARG002 - there is one instance
        return self._known

    def add_check(self, check: Check) -> None:
        self.new_check = check

    def gradings(self, *_: str | None) -> list[Grading]:
        return []  # the driver has looked

    def add_grading(self, grading: Grading) -> None:
        """Do nothing: the result has it."""


def _grade_elsewhere(
    instance: Instance, prediction: Prediction, options: GradeOptions, sha: str, known: Check | None, version: str
) -> tuple[Graded, Check | None]:
    """Grade on a machine of a cluster; `sha` is the driver's environment, and its version of Assaymark follows."""
    machine = gethostname()
    if version != VERSION:
        return _not_here(prediction, f"{machine} has Assaymark {VERSION}, the driver {version}"), None
    try:
        if options.environments.of(instance).sha != sha:
            return _not_here(prediction, f"{machine} has another environment than the driver; prepare it there"), None
        _check_sandbox([instance], options)
    except PlanError as error:
        return _not_here(prediction, f"{error} (on {machine})"), None
    log = _NoStore(known)
    return _grade_prediction(log, instance, prediction, options), log.new_check


def _not_here(prediction: Prediction, reason: str) -> Graded:
    return Graded(prediction, "infra_failure", f"not runnable here: {reason}")


def _check_sandbox(instances: Sequence[Instance], options: GradeOptions) -> None:
    """Raises: PlanError where some instance needs bubblewrap, and it does not work."""
    for instance in instances:
        try:
            environment = options.environments.of(instance)
        except PlanError:
            continue  # which that instance's result tells
        if not environment.image:
            working_sandbox()
            return


def _without_tests(
    log: _Log, instance: Instance, prediction: Prediction, options: GradeOptions
) -> tuple[Graded | None, str]:
    """Return the outcome of a prediction that is known before its tests run, else None; and the environment's hash."""
    if is_empty(prediction):
        return Graded(prediction, "empty_patch", "the patch is empty"), ""
    try:
        sha = options.environments.of(instance).sha
        options.repositories.folder_of(instance.repo)
    except PlanError as error:  # it may be put right, so nothing is stored
        return _not_here(prediction, str(error)), ""
    stored = log.gradings(prediction.patch_sha, instance.sha, sha)
    return (Graded(prediction, stored[0].outcome, stored[0].reason, stored[0]) if stored else None), sha


def _grade_prediction(log: _Log, instance: Instance, prediction: Prediction, options: GradeOptions) -> Graded:
    raise_if_requested()
    done, sha = _without_tests(log, instance, prediction, options)
    if done is not None:
        return done
    environment, source = options.environments.of(instance), options.repositories.folder_of(instance.repo)
    with alone(f"{prediction.patch_sha} {instance.sha} {sha}"):
        if stored := log.gradings(prediction.patch_sha, instance.sha, sha):  # by another process meanwhile
            return Graded(prediction, stored[0].outcome, stored[0].reason, stored[0])
        with draft_folder() as folder:
            try:
                make_base_copy(source, instance.base_commit, folder / "base")
            except DataError as error:
                return _not_here(prediction, str(error))
            check = check_instance(log, instance, folder, environment, options.limits)
            if not check.is_runnable:
                return _not_here(prediction, check.reason)
            grading = _grade(instance, prediction, folder, environment, options.limits)
        log.add_grading(grading)
    return Graded(prediction, grading.outcome, grading.reason, grading, is_new=True)


def check_instance(log: _Log, instance: Instance, folder: Path, environment: Environment, limits: SweLimits) -> Check:
    """Return whether gold resolves an instance and empty does not, twice; a stored yes is not computed again.

    log: of the store, or what stands for it. folder: has its base copy, `base`.
    """
    sha = environment.sha
    with alone(f"check {instance.sha} {sha}"):
        stored = log.check(instance.sha, sha)
        if stored is not None and stored.is_runnable:  # what was not may have been put right
            return stored
        reason, seconds = "", 0.0
        for patch, expected in ((instance.patch, True), ("", False)) * TIMES:
            attempt = attempt_tests(
                instance, patch, folder / "base", folder / "work", environment, limits, is_trusted=True
            )
            if expected:
                seconds = max(seconds, attempt.seconds)
            if reason := _why_not_as_expected(instance, attempt, expected=expected):
                break
        check = Check(instance.sha, sha, instance.instance_id, not reason, reason, seconds)
        log.add_check(check)
        return check


def _why_not_as_expected(instance: Instance, attempt: PatchAttempt, *, expected: bool) -> str:
    if not expected:
        return "the tests pass without any patch" if is_resolved(instance, attempt) else ""
    if is_resolved(instance, attempt):
        return ""
    if attempt.stage != "tested":
        return f"with the gold patch {attempt.reason}"
    failed = [
        test
        for name in ("fail_to_pass", "pass_to_pass")
        for test in getattr(_lists(instance, attempt), name)["failure"]
    ]
    if not failed:
        return "the gold patch's tests pass, and pytest prints something else"
    return f"the gold patch does not resolve it: {len(failed)} tests fail, such as {failed[0]}"


def is_resolved(instance: Instance, attempt: PatchAttempt) -> bool:
    """Return whether all tests are as they should be, by the reports and by what was printed."""
    if attempt.stage != "tested" or attempt.run is None:
        return False
    return _lists(instance, attempt).is_resolved and grade_tests(instance, attempt.run.printed).is_resolved


def _lists(instance: Instance, attempt: PatchAttempt) -> TestLists:
    return grade_tests(instance, attempt.run.reported.statuses if attempt.run is not None else {})


def _grade(
    instance: Instance, prediction: Prediction, folder: Path, environment: Environment, limits: SweLimits
) -> Grading:
    attempt = attempt_tests(instance, prediction.model_patch, folder / "base", folder / "work", environment, limits)
    flags = [*attempt.flags, *(disagreements(instance, attempt.run) if attempt.run is not None else ())]
    lists = _lists(instance, attempt)
    outcome, reason = _OUTCOMES.get(attempt.stage, ""), attempt.reason
    if attempt.stage == "tested" and attempt.run is not None:
        outcome = "resolved" if is_resolved(instance, attempt) else "unresolved"
        if outcome == "unresolved" and grade_tests(instance, attempt.run.printed).is_resolved:
            reason = "what was printed says resolved, and the tests did not pass"
    details: GradingDetails = {
        "patch_successfully_applied": bool(attempt.applied_by),
        "applied_by": attempt.applied_by,
        "restored": list(attempt.restored),
        "flags": flags,
        "tests_status": {"FAIL_TO_PASS": lists.fail_to_pass, "PASS_TO_PASS": lists.pass_to_pass},
    }
    return Grading(
        instance_sha=instance.sha,
        patch_sha=prediction.patch_sha,
        environment_sha=environment.sha,
        instance_id=instance.instance_id,
        outcome=outcome,
        reason=reason,
        seconds=attempt.seconds,
        patch=prediction.model_patch,
        details=details,
        log=attempt.log,
    )
