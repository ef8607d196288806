"""`assaymark plan`: a dry run that estimates tokens, memory and time."""

from typing import TYPE_CHECKING, Unpack

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json, print_rich
from assaymark.errors import UsageError
from assaymark.runs.run_options import EvaluationParameters, evaluate_options, model_arguments, run_options
from assaymark.runs.targets import plan_target, target_of_command, target_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assaymark.records import WorkEstimate
    from assaymark.runs.evaluate_options import EvaluateOptions
    from assaymark.runs.planning import PlannedRun, PowerLine, WantedPower

# Shares of the prompts and of the tokens; the four choices of one question alone share up to 0.75 of the tokens.
MANY_TRUNCATED, LITTLE_SHARED = 0.25, 0.8


@click.command(cls=Command, epilog=examples("plan --model hf --model_args pretrained=DIR --tasks mmlu --num_fewshot 5"))
@run_options()
@target_options()
@click.option("--mde", type=float, metavar="POINTS", help="Also show the samples needed for this difference.")
@click.option("--disagreement", type=float, default=0.2, show_default=True, metavar="SHARE",
              help="With --mde: expected share of samples on which the two models differ.")  # fmt: skip
@json_option
def plan(as_json: bool, mde: float | None, disagreement: float, **parameters: Unpack[EvaluationParameters]) -> None:
    """Estimate a run: samples, tokens with and without sharing, memory, time, and prompts that are too long.

    Takes the options of `run` and sends nothing to the model. With --mde it also shows which differences the run can
    detect. With --target it shows the calls of an application, and what its judged scorers would ask their judge.
    """
    from assaymark.runs.planning import WantedPower, plan_run

    target = target_of_command(parameters)
    if target is not None:
        if mde is not None:
            raise UsageError("--mde is for models, and --target names an application; omit one of them")
        forecast = plan_target(*target)
        print_json(forecast.content) if as_json else echo("\n".join(forecast.lines))
        return
    kind, arguments = model_arguments(parameters)
    wanted = None if mde is None else WantedPower(mde / 100, disagreement)
    options: EvaluateOptions = {**evaluate_options(parameters), "model_args": arguments}
    planned = plan_run(kind, parameters["tasks"], wanted=wanted, **options)
    if as_json:
        content = {name: getattr(planned, name) for name in ("notes", "chunks", "power")}
        cost = {} if planned.cost is None else {"cost": planned.cost}
        print_json({"run_key": planned.plan.key, **content, **cost})
        return
    print_plan(planned)
    if wanted is not None:
        print_power(planned.power, wanted)


def print_plan(planned: "PlannedRun") -> None:
    """Print the table of a dry run, its totals, and the number of prompts that do not fit."""
    from assaymark.documents.blocks import table
    from assaymark.documents.document import document
    from assaymark.runs.progress import clock

    echo(*(f"note: {note}" for note in planned.notes), err=True)
    rows = []
    for chunk in planned.chunks:
        work = chunk.work
        rows.append((chunk.label, f"{chunk.n_samples:,}", f"{work.n_queries:,}", _count(work.n_tokens_asked),
                     _count(work.n_tokens_distinct), _shared(work.n_tokens_asked, work.n_tokens_distinct),
                     "-" if work.seconds is None else clock(work.seconds)))  # fmt: skip
    works = [chunk.work for chunk in planned.chunks]
    if len(works) > 1:
        total, distinct = _sum([w.n_tokens_asked for w in works]), _sum([w.n_tokens_distinct for w in works])
        seconds = [w.seconds for w in works if w.seconds is not None]
        rows.append(("all", f"{sum(c.n_samples for c in planned.chunks):,}", f"{sum(w.n_queries for w in works):,}",
                     _count(total), _count(distinct), _shared(total, distinct),
                     clock(sum(seconds)) if seconds else "-"))  # fmt: skip
    print_rich(document(table(("tasks", "samples", "queries", "tokens", "distinct", "shared", "time"), rows)))
    memory = max((w.memory_bytes or 0 for w in works), default=0)
    if memory:
        echo(f"memory: about {max(memory / 1e9, 0.1):.1f} GB")
    leaked = sum(chunk.n_leaked for chunk in planned.chunks)
    if leaked:
        how = f"as the same row or a near-duplicate (profile {planned.plan.profile})"
        echo(f"{leaked} sample(s) would be among their own shots, {how}")
    key = f"run key {planned.plan.key}"
    echo(*truncation_lines(works), *failure_lines(planned), *cost_lines(planned), key)


def cost_lines(planned: "PlannedRun") -> list[str]:
    """Return the possible cost of the run, where its price is known, and whether that is more than --max_cost."""
    cost, limit = planned.cost, planned.max_cost
    if cost is None:
        return []
    over = cost.most_cost is not None and limit is not None and cost.most_cost > limit
    return [
        *cost.lines,
        *([f"this can pass --max_cost {limit:g}: the run would then stop as incomplete"] if over else []),
    ]


def truncation_lines(works: "Sequence[WorkEstimate]") -> list[str]:
    """Return how many prompts do not fit the model's context, and whether truncation prevents sharing."""
    n_truncated = sum(len(set(work.too_long) - {request_id for request_id, _ in work.failing}) for work in works)
    n_all = sum(work.n_requests for work in works)
    if not n_truncated:
        return []
    lines = [f"{n_truncated:,} of {n_all:,} prompts exceed the model's context and are truncated from the left"]
    total, distinct = _sum([w.n_tokens_asked for w in works]), _sum([w.n_tokens_distinct for w in works])
    many = n_truncated > n_all * MANY_TRUNCATED
    if total and distinct is not None and many and 1 - distinct / total < LITTLE_SHARED:
        lines.append(
            "truncated prompts begin at different positions, so questions share few tokens "
            f"({_shared(total, distinct)} of the tokens in all); fewer shots would make this run faster"
        )
    return lines


def failure_lines(planned: "PlannedRun") -> list[str]:
    """Return which samples cannot be answered, one line for each reason."""
    sizes = {task.name: task.n_samples for task in planned.plan.tasks}
    by_reason: dict[str, dict[str, int]] = {}
    for chunk in planned.chunks:
        for task, reason, n in chunk.failing:
            by_reason.setdefault(reason, {})[task] = n
    lines = []
    for reason, tasks in by_reason.items():
        whole = [task for task, n in tasks.items() if n >= sizes[task]]
        parts = [f"all samples of {_named(whole)}"] if whole else []
        n_others = sum(n for task, n in tasks.items() if task not in whole)
        parts += [f"{n_others:,} of {_named([task for task in tasks if task not in whole])}"] if n_others else []
        lines.append(f"will fail: {' and '.join(parts)}: {reason}")
    return lines


def _named(tasks: list[str]) -> str:
    return ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more tasks" if len(tasks) > 3 else "")


def print_power(lines: "Sequence[PowerLine]", wanted: "WantedPower") -> None:
    """Print the minimum detectable effect of each task, group and composite, and the samples the wanted one needs."""
    from assaymark.documents.blocks import table
    from assaymark.documents.document import document

    goal = f"samples for\n{100 * wanted.difference:g} point{'' if wanted.difference == 0.01 else 's'}"
    columns = ("in points", "samples", "MDE,\npaired", "MDE,\nunpaired", f"{goal}, paired", f"{goal}, unpaired")
    rows = []
    for line in lines:
        cells = ["none" if line.shows_nothing_paired else _points(line.paired), _points(line.unpaired),
                 _needed(line.n, line.n_paired), _needed(line.n, line.n_unpaired)]  # fmt: skip
        note = f": {line.note}" if line.note else "" if line.kind == "task" else f" ({line.kind})"
        rows.append((line.name + note, f"{line.n:,}", *cells))
    print_rich("", document(table(columns, rows)))
    echo(
        "MDE: the smallest true difference that a two-sided test at 5% finds with 80% power. Paired: both models on "
        f"these samples, differing on {wanted.disagreement:.0%} of them (`compare` measures this share). Unpaired: "
        "against a result on as many other samples, at 50% accuracy. + marks more samples than this run has."
    )


def _points(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _needed(n: int, needed: int | None) -> str:
    return "-" if needed is None else f"{needed:,}{'+' if needed > n else ' '}"


def _shared(total: int | None, distinct: int | None) -> str:
    return f"{1 - distinct / total:.0%}" if total and distinct is not None else "-"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _sum(numbers: "Sequence[int | None]") -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
