"""Tasks whose answers are programs: the sandbox that runs them, and when such a task is refused."""

from collections.abc import Sequence
from dataclasses import replace

from assaymark.errors import PlanError
from assaymark.records import Output, Request, Sample, Score
from assaymark.scoring.run_code import Sandbox, choose_sandbox, running_in
from assaymark.tasks.sample_scores import SampleScorer
from assaymark.tasks.task import Task


def score_in(
    sandbox: Sandbox | None, scorer: SampleScorer, request: Request, sample: Sample, outputs: Sequence[Output]
) -> tuple[Score, ...]:
    """Return a sample's scores; generated programs are run in `sandbox`, and their outcomes are in `detail`."""
    if sandbox is None:
        return scorer.score(request, sample, outputs)
    with running_in(sandbox) as outcomes:
        scores = scorer.score(request, sample, outputs)
    ended = [
        {
            "passed": outcome.passed,
            "reason": outcome.reason,
            **({"flags": list(outcome.flags)} if outcome.flags else {}),
        }
        for outcome in outcomes.values()
    ]
    return tuple(replace(score, detail={"programs": ended}) if ended else score for score in scores)


def sandbox_of(task: Task, *, unsafe: bool) -> Sandbox | None:
    """Return the sandbox for programs that answer this task; None for a task whose scoring runs none.

    Raises: PlanError where there is no sandbox and `unsafe` does not allow running without one.
    """
    if not (task.spec.get("unsafe_code") and runs_our_way(task)):
        return None
    return choose_sandbox(f"task {task.name}", unsafe=unsafe)


def refuse_unconfirmed_code(task: Task, *, confirmed: bool) -> None:
    """Raise PlanError for a task whose own functions run generated code, unless that is confirmed."""
    if task.spec.get("unsafe_code") and not runs_our_way(task) and not confirmed:
        raise PlanError(
            f"task {task.name} runs generated code with functions of its own, on this machine and without a sandbox; "
            "to allow that, add --confirm_run_unsafe_code (assaymark's own tasks use a sandbox)"
        )


def runs_our_way(task: Task) -> bool:
    """Return whether generated code of this task is run only by `scoring.run_code`: true for our library's tasks."""
    return task.origin == "assaymark"
