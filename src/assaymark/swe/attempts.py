"""One attempt at an instance's tests: a copy of the base commit, the patch, the tests put back, pytest in a sandbox."""

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from assaymark.swe.base_copies import copy_tree
from assaymark.swe.environments import PLUGIN, Environment, generated_in, interpreter_of
from assaymark.swe.instances import Instance, paths_of_patch
from assaymark.swe.patches import (
    apply_patch,
    apply_tests,
    changed_paths,
    flags_of_patch,
    restore_tests,
    stays_inside,
    why_refused,
)
from assaymark.swe.runners import RUNNERS, Runner
from assaymark.swe.sandbox import REPORTS_DESCRIPTOR, Ended, SweLimits, Workplace, run_sandboxed
from assaymark.swe.verdicts import TestRun

INSIDE = "/assaymark-swe/verdict_plugin.py"
LONGEST_LOG = 1 << 20  # characters that are kept: the first and the last half
_DATA = frozenset(
    {".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"}
)  # SWE-bench's NON_TEST_EXTS


@dataclass(frozen=True, slots=True)
class PatchAttempt:
    """How one attempt ended.

    Attributes:
        stage: tested, or where it ended before: not applied (the patch), refused (the patch), tests not applied,
            timeout, limit (another one), incomplete (pytest ended without its last report), forged (the reports
            contradict each other, or were written by something else).
        reason: in words; empty where it was tested.
        applied_by: the command that applied the patch.
        restored: paths of tests that the patch changed, and that were put back.
        flags: what people should look at.
        run: what the tests did, as far as they came.
        log: what was printed, shortened in the middle.
        seconds: of the tests.
    """

    stage: str
    reason: str = ""
    applied_by: str = ""
    restored: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    run: TestRun | None = None
    log: str = ""
    seconds: float = 0.0


def attempt_tests(
    instance: Instance,
    patch: str,
    base: Path,
    work: Path,
    environment: Environment,
    limits: SweLimits,
    *,
    is_trusted: bool = False,
) -> PatchAttempt:
    """Run an instance's tests with a patch applied; the copy is removed.

    Args:
        patch: a git diff; empty: the base commit alone.
        base: a base copy of the instance's commit.
        work: a folder for the copy, which must not exist.
        is_trusted: whether the patch is the instance's own, which may change what decides how tests run.

    Raises: PlanError without a sandbox.
    """
    copy_tree(base, work)
    try:
        applied_by, restored, flags = "", list[str](), list[str]()
        if patch.strip():
            applied = apply_patch(patch, work, base, environment)
            if not applied.by:
                return PatchAttempt(
                    "not applied", f"the patch does not apply: {_last_line(applied.log)}", log=applied.log
                )
            applied_by = applied.by
            changed = changed_paths(base, work)
            if not is_trusted and (why := why_refused(changed, base, work)):
                return PatchAttempt("refused", f"refused: {why}", applied.by, log=applied.log, flags=(why,))
            restored = restore_tests(changed, instance.test_patch, base, work)
            if not is_trusted:
                flags = flags_of_patch(patch, changed, restored)
        tests = apply_tests(instance.test_patch, work, environment)
        if not tests.by:
            return PatchAttempt(
                "tests not applied", f"the tests' patch does not apply: {_last_line(tests.log)}", log=tests.log
            )
        tested = run_tests(instance, work, environment, limits)
        flags += (f"puts back {name}, which the patch changed" for name in restored)
        all_flags = (*flags, *tested.flags)
        return replace(tested, applied_by=applied_by, restored=tuple(restored), flags=all_flags)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_tests(instance: Instance, work: Path, environment: Environment, limits: SweLimits) -> PatchAttempt:
    """Run the test files of an instance's patch of tests in a copy as it is."""
    # a row from elsewhere may name, or link to, files of this machine: they are not shown
    named = [name for name in paths_of_patch(instance.test_patch) if stays_inside(work / name, work)]
    present = [name for name in named if PurePosixPath(name).suffix not in _DATA and (work / name).is_file()]
    if not present:
        return PatchAttempt("incomplete", "the tests' patch has no file of tests")
    runner = RUNNERS.get(environment.runner)
    pytest_arguments = ["-rA", "-p", "no:cacheprovider", *environment.test_arguments, *present]
    place = Workplace(
        work, environment.folder, _all_shown(work, named, environment),
        {**(runner.variables if runner else {}), **environment.variables},
        image=environment.image, engine=environment.where,
    )  # fmt: skip
    arguments = runner.arguments(present) if runner else pytest_arguments
    ended, run = _run_and_listen(instance, place, environment, limits, runner, arguments)
    log = without_middle(ended.output, LONGEST_LOG)
    if ended.limit:
        return PatchAttempt(
            "timeout" if ended.is_late else "limit", ended.limit, run=run, log=log, seconds=ended.seconds
        )
    if run.reported.forged:
        return PatchAttempt("forged", run.reported.forged[0], flags=run.reported.forged, run=run, log=log,
                       seconds=ended.seconds)  # fmt: skip
    why = runner.why_incomplete(ended.output, ended.status, run.printed) if runner else ""
    if not why and run.reported.status is None:
        who, whose = ("the runner", "its") if runner else ("the tests' process", "pytest's")
        why = f"{who} ended with status {ended.status} before {whose} last report"
    return PatchAttempt("incomplete" if why else "tested", why, run=run, log=log, seconds=ended.seconds)


def _run_and_listen(
    instance: Instance,
    place: Workplace,
    environment: Environment,
    limits: SweLimits,
    runner: Runner | None,
    arguments: Sequence[str],
) -> tuple[Ended, TestRun]:
    """Run pytest, or a repository's runner, with a pipe for its reports; return its end and its output."""
    key = secrets.token_bytes(32)
    reading, writing = os.pipe()
    job = {
        "key": key.hex(),
        "pipe": REPORTS_DESCRIPTOR if environment.image else writing,
        "paths": [str(PurePosixPath(environment.folder, each)) for each in environment.pythonpath],
        "script": runner.words[0] if runner else "",
        "reports": runner.reports if runner else "",
        "arguments": arguments,
    }
    ended = run_sandboxed(
        [environment.python, INSIDE], place, limits, given=json.dumps(job).encode() + b"\n", pipe=(reading, writing)
    )
    return ended, TestRun.of(ended.output, ended.reports, key, instance.repo)


def _all_shown(work: Path, tests: Sequence[str], environment: Environment) -> Mapping[str, Path]:
    return {
        **shown_interpreter(environment),
        **shown_generated(environment, work),
        **_tests_shown(work, tests, environment),
    }


def shown_interpreter(environment: Environment) -> Mapping[str, Path]:
    """Return the paths a sandbox must show for an environment's interpreter to run: path there -> path here."""
    if environment.image:
        return {}  # it is there
    known = interpreter_of(environment.python, "pytest" if environment.runner == "pytest" else "")
    folders = {str(path): path for path in (known.executable.parent, *known.folders)}
    # a sandbox shows /usr and /bin anyway, and a folder with all that is below it
    folders = {name: path for name, path in folders.items() if not any(map(path.is_relative_to, ("/usr", "/bin")))}
    return {
        name: path
        for name, path in folders.items()
        if not any(path.is_relative_to(other) and name != other for other in folders)
    }


def shown_generated(environment: Environment, work: Path) -> Mapping[str, Path]:
    """Return the files and folders that a repository's installation generated: path there -> path here.

    What a patch put in their way, such as a link in place of a folder, is left as it is.
    """
    if not (generated := generated_in(environment)):
        return {}
    root = Path(generated)
    readable: dict[str, Path] = {}
    for place, folders, names in os.walk(root):
        here = Path(place).relative_to(root)
        if (work / here).is_symlink():
            folders.clear()
            continue
        # a link would be followed on this machine, and one may come from an image
        own = [name for name in (*folders, *names) if not (root / here / name).is_symlink()]
        missing = [name for name in own if not os.path.lexists(work / here / name)]
        folders[:] = [name for name in folders if name in own and (work / here / name).is_dir()]
        for name in missing:
            readable[str(PurePosixPath(environment.folder, here, name))] = root / here / name
    return readable


def _tests_shown(work: Path, tests: Sequence[str], environment: Environment) -> Mapping[str, Path]:
    """Return the plugin, and the files of tests, which the tests cannot change."""
    readable = {INSIDE: PLUGIN}
    for name in tests:
        path = work / name
        if path.is_file() and not path.is_symlink():
            readable[str(PurePosixPath(environment.folder, name))] = path
    return readable


def _last_line(log: str) -> str:
    lines = [line for line in log.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing was printed"


def without_middle(text: str, longest: int) -> str:
    """Return the first and the last half of as many characters of a longer text, and how many are left out."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[{len(text) - longest:,} characters left out]\n{text[-half:]}"
