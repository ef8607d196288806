"""Evaluate until a goal is reached (a score to within some points, or above or below a bound) or a budget is spent.

Questions are asked in one random order that follows from the benchmark's data and a seed, and evidence counts only in
this order, so the evidence may be examined after each block. Answers are stored as an incomplete run of the whole
benchmark: the same command continues it, a stricter goal continues from there, and a run without goals asks the rest.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np

from assaymark.errors import UsageError
from assaymark.models.cost.bill import bill_for
from assaymark.records.json_values import json_fields
from assaymark.results.evidence.task_facts import facts_of, tasks_from
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import no_notice
from assaymark.runs.plan import PreparedRun
from assaymark.runs.prepare import open_store, prepare_run
from assaymark.runs.race_sides import (
    FIRST_BLOCK,
    LEAST_BLOCK,
    Answering,
    Measured,
    Metrics,
    Place,
    block_size,
    main_metrics,
    places_of,
    weighting_notes,
)
from assaymark.runs.run import Run
from assaymark.statistics.aggregate import traits_of
from assaymark.statistics.sequential import MeanState, SequentialMean
from assaymark.tasks.question_order import macro_weights

_GOAL = re.compile(
    r"\s*(?P<name>[^\s<>=±+]*)\s*(?P<sign>±|\+-|\+/-|>=|<=|>|<)\s*(?P<value>\d*\.?\d+)\s*(?P<unit>%|points?)?\s*"
)
_BUDGET = re.compile(
    r"\s*(?:\$\s*(?P<money>\d*\.?\d+)|(?P<number>\d*\.?\d+)\s*(?P<unit>samples?|questions?|s|seconds?|minutes?|min|hours?|h))\s*"
)
_SECONDS = {
    "s": 1,
    "second": 1,
    "seconds": 1,
    "min": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3600,
    "hour": 3600,
    "hours": 3600,
}
Answer = Literal["known", "above", "below", "undecided"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of the evaluation.

    name: a task, group or metric; "": of all questions.
    half_width: of the interval, as a share; None where `bound` is meant.
    bound: a score, as a share, above or below which the model's is to be placed.
    text: as it was written.
    """

    name: str
    half_width: float | None
    bound: float | None
    text: str

    @property
    def rule(self) -> str:
        """How bets are sized."""
        if self.half_width is None:
            return "betting, a portfolio of bets"
        return f"betting, planned for ± {100 * self.half_width:g} points"


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget: questions, seconds of this call, money of the whole run. None: no limit."""

    n_samples: int | None = None
    seconds: float | None = None
    money: float | None = None


def parse_goal(text: str) -> Goal:
    """Read `mmlu ± 2` (points), `± 2`, `acc >= .6` or `gsm8k < 40%`. Raises: UsageError for anything else."""
    match = _GOAL.fullmatch(text)
    if match is None:
        raise UsageError(f"--until {text!r} is not a goal; write 'mmlu ± 2' (or +-; in points) or 'acc >= .6' (or 60%)")
    value = float(match["value"])
    if match["sign"] in {"±", "+-", "+/-"}:
        if not 0 < value < 50:
            raise UsageError(f"--until {text!r}: the half-width is in points; expected more than 0 and less than 50")
        return Goal(match["name"], value / 100, None, text.strip())
    bound = value / 100 if match["unit"] else value
    if not 0 < bound < 1:
        raise UsageError(f"--until {text!r}: {value:g} is not a share between 0 and 1; write .6 or 60%")
    return Goal(match["name"], None, bound, text.strip())


def parse_budget(texts: Sequence[str]) -> Budget:
    """Read `500 samples`, `10 minutes` and `$5`, one of each at most. Raises: UsageError for anything else."""
    spent: dict[str, float] = {}
    for text in texts:
        match = _BUDGET.fullmatch(text)
        if match is None:
            raise UsageError(f"--budget {text!r} is not a budget; write '500 samples', '10 minutes' or '$5'")
        if match["money"]:
            kind, amount = "money", float(match["money"])
        elif match["unit"] in _SECONDS:
            kind, amount = "seconds", float(match["number"]) * _SECONDS[match["unit"]]
        else:
            kind, amount = "n_samples", float(match["number"])
        if amount <= 0 or (kind == "n_samples" and amount % 1) or kind in spent:
            raise UsageError(f"--budget {text!r}: expected one positive amount of each kind, and whole samples")
        spent[kind] = amount
    n_samples = spent.get("n_samples")
    return Budget(None if n_samples is None else int(n_samples), spent.get("seconds"), spent.get("money"))


@dataclass(frozen=True, slots=True)
class GoalState:
    """The state of one goal."""

    goal: Goal
    metric: str
    state: MeanState
    macro: bool = False  # each task counts the same

    json_keys = (
        "goal=goal.text name=goal.name half_width=goal.half_width bound=goal.bound rule=goal.rule metric answer n_more "
        "macro *state"
    )

    @property
    def answer(self) -> Answer:
        """Whether the interval is narrow enough, or on one side of the bound."""
        goal, state = self.goal, self.state
        if goal.half_width is not None:
            return "known" if state.n_seen and state.half_width <= goal.half_width + 1e-12 else "undecided"
        bound = goal.bound or 0.0
        if state.low >= bound and state.n_seen:
            return "above"
        return "below" if state.high < bound else "undecided"

    @property
    def n_more(self) -> int | None:
        """The approximate number of further questions that would decide it at this rate; None: unknown."""
        state = self.state
        n_left = state.n - state.n_seen
        if self.answer != "undecided" or not n_left or state.n_seen < FIRST_BLOCK:
            return None
        wanted = self.goal.half_width or abs(state.mean - (self.goal.bound or 0.0))
        if wanted <= 0:
            return n_left
        # the square of the width falls as (1/n - 1/N), up to a logarithm
        now, share = 1 / state.n_seen - 1 / state.n, (wanted / state.half_width) ** 2
        return min(n_left, int(1 / (now * share + 1 / state.n)) - state.n_seen + 1)

    @property
    def sentence(self) -> str:
        """The result in a line."""
        state = self.state
        everything = "all tasks" if self.macro else "all questions"
        of = everything if self.goal.name in {"", self.metric} else self.goal.name
        if self.macro:
            of += ", each task counting the same,"
        interval = f"{100 * state.low:.1f} to {100 * state.high:.1f}"
        said = {
            "known": "is known well enough",
            "above": f"is at least {100 * (self.goal.bound or 0):g}%",
            "below": f"is below {100 * (self.goal.bound or 0):g}%",
            "undecided": "is not decided" + (f", about {self.n_more:,} more would" if self.n_more else ""),
        }[self.answer]
        return (
            f"{self.goal.text}: {self.metric} of {of} {said}; {100 * state.mean:.1f}%, interval at any time "
            f"{interval}, {state.n_seen:,} of {state.n:,} questions"
        )


@dataclass(frozen=True, slots=True)
class Until:
    """An evaluation that ended by rule."""

    run: Run
    goals: tuple[GoalState, ...]
    alpha: float  # of all goals together: each has its share
    n_seen: int
    n: int
    n_failed: int = 0
    spent: str | None = None  # the part of the budget that ended it

    json_keys = "goals is_decided alpha n_seen n n_failed spent about"

    @property
    def is_decided(self) -> bool:
        """Whether every goal is reached; without goals, whether the budget was spent or all was asked."""
        return all(goal.answer != "undecided" for goal in self.goals)

    @property
    def about(self) -> str:
        """An explanation of what the intervals do and do not say."""
        if self.n_seen == self.n:
            certainty = "All questions were asked, so the scores are certain of this benchmark."
        else:
            certainty = f"At most {self.alpha:.0%} of such statements are wrong about this benchmark."
        return f"{certainty} The intervals of the table are about new questions of this kind."

    def lines(self) -> list[str]:
        """Return the lines to print below the run's table."""
        lines = [goal.sentence for goal in self.goals]
        if self.spent:
            lines.append(f"stopped after {self.n_seen:,} of {self.n:,} questions: the budget of {self.spent} is spent")
        if self.n_failed:
            lines.append(f"{self.n_failed} questions could not be answered; the same command asks them again")
        return [*lines, self.about]


class _Followed:
    """A goal, the metric of each task whose questions count for it, and the evidence so far."""

    def __init__(self, goal: Goal, metrics: Metrics, places: Sequence[Place], alpha: float, *, macro: bool) -> None:
        self.goal, self.metrics = goal, metrics
        metric = ", ".join(sorted({each.metric for each in metrics.values()}))
        self.places = [place for place in places if place[0] in metrics]
        weights = np.array(macro_weights(self.places)) if macro else None
        self._mean = SequentialMean(
            len(self.places), alpha, half_width=goal.half_width, threshold=goal.bound, weights=weights
        )
        self.state = GoalState(goal, metric, self._mean.state(), macro=macro)

    @property
    def is_open(self) -> bool:
        """Whether more questions are needed."""
        return self.state.answer == "undecided"

    def add(self, places: Sequence[Place], answering: Answering) -> None:
        """Add the scores of a block's questions, which are stored, in their order."""
        own = [place for place in places if place[0] in self.metrics]
        if own and self.is_open:
            scores = answering.stored_scores({task: self.metrics[task] for task, _ in own})
            state = self._mean.add(np.array([scores[place] or 0.0 for place in own]))
            self.state = replace(self.state, state=state)


def evaluate_until(
    model: object,
    tasks: str | Sequence[str],
    goals: Sequence[Goal | str] = (),
    *,
    budget: Budget = Budget(),
    alpha: float = 0.05,
    order_seed: int = 0,
    macro: bool = False,
    observe_goals: Callable[[Sequence[GoalState]], None] | None = None,
    **evaluation: Unpack[EvaluateOptions],
) -> Until:
    """Evaluate a model until every goal is reached, or the budget is spent, and return the run with the goals' states.

    Args:
        model: as `evaluate` takes it.
        tasks: as `evaluate` takes them. All questions of a goal count the same, except with `macro`.
        goals: of the evaluation; several share `alpha` (Bonferroni). None: until the budget is spent.
        budget: limits of questions, time and money.
        alpha: how often a statement may be wrong about the benchmark, all goals together.
        order_seed: seed of the order of the questions.
        macro: whether each task of a goal counts the same, whatever its number of questions.
        observe_goals: called after each block.
        evaluation: other options of `evaluate`.

    Raises: UsageError for a goal that names nothing selected, for metrics that are not shares, for `limit` and
        `samples`, and where neither goals nor a budget are named; as `evaluate`.
    """
    wanted = [parse_goal(goal) if isinstance(goal, str) else goal for goal in goals]
    if not wanted and budget == Budget():
        raise UsageError("nothing says when to stop; name a goal such as 'acc ± 2', or a budget")
    options: EvaluateOptions = {**evaluation}
    if budget.money is not None:
        if options.get("max_cost") is not None:
            raise UsageError("--budget in money and --max_cost are the same limit; omit one of them")
        options["max_cost"] = budget.money
    began = time.monotonic()
    store = open_store(options)
    opened, prepared = prepare_run(model, tasks, options)
    if prepared.plan.limit is not None or prepared.options.samples:
        raise UsageError("questions are drawn from the whole benchmark; omit limit and samples, or the goals")
    bill = bill_for(opened, options.get("price"), options.get("prices"), options.get("max_cost"))
    prepared = replace(prepared, options=replace(prepared.options, bill=bill))
    metrics = main_metrics(prepared, "--until")
    places = places_of(prepared, order_seed, macro=macro)
    metrics_of_goals = [_metrics_of(goal, prepared, metrics) for goal in wanted]
    notify = evaluation.get("notify") or no_notice
    for line in weighting_notes(prepared, macro=macro):
        notify(line)
    answering = Answering(opened, prepared, store, metrics, evaluation.get("command"), notify, "the rule of --until")
    with answering:
        followed = [
            _Followed(goal, of_goal, places, alpha / len(wanted), macro=macro)
            for goal, of_goal in zip(wanted, metrics_of_goals, strict=True)
        ]
        spent, n_failed, n_seen = _ask(answering, followed, places, budget, began, observe_goals)
    run = Run(store, answering.run_id)
    run.summarise(prepared)
    states = tuple(each.state for each in followed)
    done = Until(run, states, alpha, n_seen, len(places), n_failed, spent)
    facts = {
        **json_fields(done),
        "rule": "; ".join(goal.rule for goal in wanted) or "the budget",
        "seed": order_seed,
        "macro": macro,
    }
    store.save_estimates(run.id, run.estimates, {**run.row.extra, "until": facts})
    return replace(done, run=Run(store, run.id))


def _metrics_of(goal: Goal, prepared: PreparedRun, main: Metrics) -> Metrics:
    """Return the tasks of a goal with the metric that counts.

    Raises: UsageError where its name is neither task, group nor metric of this run, or a metric that is not a share.
    """
    if not goal.name:
        return main
    if goal.name in main:
        return {goal.name: main[goal.name]}
    if members := _members(goal.name, prepared):
        return {task: metric for task, metric in main.items() if task in members}
    tasks = tasks_from(facts_of(prepared.selection, prepared.bound))
    measured = {
        task.name: Measured(metric.name, metric.filters[0], metric.higher_is_better)
        for task in tasks
        for metric in task.metrics
        if metric.name == goal.name and not metric.is_number and traits_of(metric.aggregation).is_mean
    }
    if not measured:
        names = [*main, *sorted({metric.name for task in tasks for metric in task.metrics if not metric.is_number})]
        known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        where = "is not a task or group of this run, nor a metric between 0 and 1"
        raise UsageError(f"--until {goal.text!r}: '{goal.name}' {where}; name one of {known}")
    return measured


def _members(name: str, prepared: PreparedRun) -> frozenset[str]:
    """Return the tasks of a group, those of the groups in it too."""
    groups = {group.name: group for group in prepared.selection.groups}
    tasks = {bound.plan.name for bound in prepared.bound}
    members: set[str] = set()
    left, seen = [name], set()
    while left:
        each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in groups:
            left += groups[each].children
        elif each in tasks:
            members.add(each)
    return frozenset(members)


def _ask(
    answering: Answering,
    followed: Sequence[_Followed],
    places: Sequence[Place],
    budget: Budget,
    began: float,
    observe: Callable[[Sequence[GoalState]], None] | None,
) -> tuple[str | None, int, int]:
    """Ask block by block; return which part of the budget was spent, how many questions failed, and how many counted.

    Only questions of goals that are undecided are asked; without goals, all in their order.
    """
    left, n_seen = list(places), 0
    while left:
        open_tasks = {task for each in followed if each.is_open for task in each.metrics}
        if followed:
            left = [place for place in left if place[0] in open_tasks]
        room = len(left) if budget.n_samples is None else budget.n_samples - n_seen
        if not left or room <= 0:
            return (f"{budget.n_samples:,} samples" if left else None), 0, n_seen
        if budget.seconds is not None and time.monotonic() - began >= budget.seconds:
            return f"{budget.seconds:g} seconds", 0, n_seen
        block = left[: min(_until_next_look(left, followed, n_seen), room)]
        scores = answering.values(block)
        # evidence counts only in the order, so the questions after a failed one have to wait
        n_answered = next((at for at, place in enumerate(block) if scores[place] is None), len(block))
        answered = block[:n_answered]
        for each in followed:
            each.add(answered, answering)
        n_seen += len(answered)
        if observe is not None:
            observe([each.state for each in followed])
        if len(answered) < len(block):
            if answering.stop_reason is not None:
                return "money", 0, n_seen
            return None, sum(scores[place] is None for place in block), n_seen
        left = left[len(block) :]
    return None, 0, n_seen


def _until_next_look(left: Sequence[Place], followed: Sequence[_Followed], n_seen: int) -> int:
    """Return how many questions to ask next: fewer than usual where a goal is expected to be reached before."""
    size = block_size(n_seen)
    for each in followed:
        n_more = each.state.n_more if each.is_open else None
        if n_more is not None:
            own = [at for at, place in enumerate(left[:size]) if place[0] in each.metrics]
            size = min(size, own[n_more - 1] + 1) if 0 < n_more <= len(own) else size
    return max(size, LEAST_BLOCK)
