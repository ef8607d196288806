"""Measurement of what a run only reports.

A run that was imported without answers claims its values: its tasks are run as far as it says how, and each value is
held against the measured one's interval.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from assaymark.documents.numbers import shown_interval, shown_value
from assaymark.errors import ModelUnavailable, UsageError
from assaymark.interop.hub_results import counterparts, is_covered, minus_reported
from assaymark.records import Estimate
from assaymark.results.estimate_texts import is_proportion, reported_words
from assaymark.runs.evaluate import evaluate
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.run import Run

_SHOTS_IN_NOTES = re.compile(r"\b(\d{1,3})[- ]shots?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MeasuredClaim:
    """A reported value beside one that was measured because of it."""

    reported: Estimate
    measured: Estimate
    run_id: str
    not_stated: tuple[str, ...]  # with what it is in this run
    set_up: tuple[str, ...]  # what differs from what is stated
    command: str  # that runs the task

    json_keys = (
        "task=reported.task metric=reported.metric reported=reported.value measured=measured.value low=measured.low "
        "high=measured.high n=measured.n measured_task=measured.task measured_metric=measured.metric "
        "filter=measured.filter run=run_id is_reproduced difference not_stated set_up who verdict command"
    )

    @property
    def difference(self) -> float | None:
        """The measured value minus the reported one."""
        return minus_reported(self.measured, self.reported)

    @property
    def who(self) -> str:
        """Who reports it, where and when."""
        return reported_words(self.reported)

    @property
    def is_reproduced(self) -> bool | None:
        """Whether the measured interval covers the reported value; None where that cannot be said."""
        return None if self._other_shots else is_covered(self.measured, self.reported)

    @property
    def _other_shots(self) -> bool:
        stated, own = _stated_shots(self.reported), self.measured.details.get("n_shots")
        return stated is not None and own is not None and stated != own

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        reported, own, is_share = self.reported, self.measured, is_proportion(self.measured)
        interval = shown_interval(own.low, own.high, proportion=is_share)
        measured = shown_value(own.value, proportion=is_share)
        values = (
            f"{reported.task} {reported.metric}: {shown_value(reported.value, proportion=is_proportion(reported))} "
            f"reported, {measured} measured ({f'95% interval {interval}, ' if interval else ''}n {own.n:,})"
        )
        if self._other_shots:
            return f"{values}: not comparable, since the numbers of shots differ"
        if self.is_reproduced is None:
            return f"{values}: no verdict, since {_why_no_verdict(own, reported)}"
        return f"{values}: " + (
            "reproduced, the interval covers it" if self.is_reproduced else "not reproduced, it is outside the interval"
        )


def _why_no_verdict(measured: Estimate, reported: Estimate) -> str:
    if measured.value is None:
        return "nothing was measured"
    if minus_reported(measured, reported) is None:
        return "one of them is a share and the other is not"
    return "the measured value has no interval"


def measure_reported(
    run: Run, tasks: Sequence[str] = (), model: str | None = None, **options: Unpack[EvaluateOptions]
) -> list[MeasuredClaim]:
    """Run the tasks of which an imported run reports values without answers, and compare each value with its own.

    The runs are stored beside the reported one, as any other.

    Args:
        run: the run that only reports.
        tasks: the tasks to run; empty: those that the reported values name.
        model: the kind of model; None: the model that the run names, a folder or an id of the Hub.
        options: model_args, and those of `evaluate` that decide no score: data_dir, include_path, workers.

    Raises: UsageError where no value has a task that is known here, or the run has none of what is reported;
        ModelUnavailable for a model that is only a name here; as `evaluate`.
    """
    claims = [each for each in run.estimates if each.value is not None]
    known = frozenset[str]() if tasks else _runnable(options)
    by_shots: dict[int | None, list[str]] = {}
    for claim in claims:
        names = by_shots.setdefault(_stated_shots(claim), [])
        names += (name for name in tasks or _task_named(claim, known) if name not in names)
    if not any(by_shots.values()):
        raise UsageError(_unknown_tasks(run, claims, known))
    made: list[MeasuredClaim] = []
    for shots, names in by_shots.items():
        if not names:
            continue
        keywords: EvaluateOptions = {**options, "num_fewshot": shots}
        named = model or run.row.plan.model.name
        try:
            measured = evaluate(named, names, **keywords)
        except ModelUnavailable as error:
            if model is not None:
                raise
            raise ModelUnavailable(
                f"{error}; the values are of a model of this name: say which it is with --model and --model_args"
            ) from error
        measured.refuse_without_results()
        command = _command(named, names, keywords)
        for claim in claims:
            if _stated_shots(claim) == shots:
                of_claim = counterparts(measured.row, measured.estimates, claim)
                made += (_measured(claim, _as_noted(own, measured, claim), measured, command) for own in of_claim)
    if not made:
        theirs = ", ".join(dict.fromkeys(f"{each.task} {each.metric}" for each in claims[:5]))
        raise UsageError(f"what was run has none of the values that run {run.short_id} reports: {theirs}")
    return made


def _stated_shots(claim: Estimate) -> int | None:
    """Return the number of shots that a reported value states, in its notes too; None where it states none."""
    facts, shots = claim.details.get("reported"), claim.details.get("n_shots")
    if shots is not None or facts is None:
        return shots
    noted = set(_SHOTS_IN_NOTES.findall(facts["notes"]))
    return int(noted.pop()) if len(noted) == 1 else None


def _task_named(claim: Estimate, known: frozenset[str]) -> list[str]:
    """Return the task that a reported value is of, if it is known here and runs here."""
    facts = claim.details.get("reported")
    name = facts["benchmark"] if facts is not None and facts["benchmark"] else claim.task
    return [name] if name in known else []


def _runnable(options: EvaluateOptions) -> frozenset[str]:
    from assaymark.tasks.catalog import Catalog

    catalog = Catalog.open([Path(folder).expanduser() for folder in options.get("include_path") or ()])
    return frozenset(entry.name for entry in catalog.entries() if entry.runnable_here)


def _unknown_tasks(run: Run, claims: Sequence[Estimate], known: frozenset[str]) -> str:
    """Return the line on reported values of which no task is known here: of which tasks, and what may be meant."""
    named = list(dict.fromkeys(each.task for each in claims))
    near = [name for name in sorted(known) if any(name.startswith(f"{task}_") for task in named)]
    facts = [each.details["reported"] for each in claims if "reported" in each.details]
    of_hub = [f"hub:{each['dataset']}/{each['benchmark']}" for each in facts if each["benchmark"]]
    meant = ", ".join([*near[:5], *dict.fromkeys(of_hub)])
    return (
        f"no task here is called as what run {run.short_id} reports ({', '.join(named[:5])}); say which to run with "
        f"--tasks{f', such as {meant}' if meant else ' (listed by `assaymark ls tasks`)'}"
    )


def _as_noted(own: Estimate, run: Run, claim: Estimate) -> Estimate:
    """Return the estimate by the filter that the reported value's notes name, if one has it; else the given one."""
    facts = claim.details.get("reported")
    noted = {} if facts is None else dict.fromkeys(word.strip() for word in facts["notes"].split(","))
    same = (each for each in run.estimates if (each.task, each.metric) == (own.task, own.metric))
    return next((each for each in same if each.filter in noted), own)


def _measured(claim: Estimate, own: Estimate, run: Run, command: str) -> MeasuredClaim:
    facts = claim.details.get("reported")
    fact = (run.row.extra.get("tasks") or {}).get(own.task)
    compared: tuple[tuple[str, object, object], ...] = (
        ("shots", _stated_shots(claim), own.details.get("n_shots")),
        ("number of rows", claim.n or None, own.n),
        (
            "revision of the data set",
            None if facts is None else facts.get("revision") or None,
            None if fact is None else fact.get("dataset_revision"),
        ),
    )
    not_stated = tuple(
        f"{what} ({'not known' if here is None else f'{here:,}' if isinstance(here, int) else here} here)"
        for what, stated, here in compared
        if stated is None
    )
    set_up = tuple(
        f"{what}: {stated} reported, {'not known' if here is None else here} here"
        for what, stated, here in compared
        if stated is not None and stated != here
    )
    failed = (f"failures: {own.n_failed:,} samples failed and are missing",) if own.n_failed else ()
    return MeasuredClaim(claim, own, run.id, not_stated, (*set_up, *failed), command)


def _command(model: str, tasks: Sequence[str], options: EvaluateOptions) -> str:
    """Return the command that runs the same, to be altered: what a report does not state can only be tried."""
    words = ["assaymark", "run", "--model", model]
    if arguments := options.get("model_args"):
        shown = arguments if isinstance(arguments, str) else ",".join(f"{name}={arguments[name]}" for name in arguments)
        words += ["--model_args", shown]
    words += ["--tasks", ",".join(tasks)]
    if options.get("num_fewshot") is not None:
        words += ["--num_fewshot", str(options["num_fewshot"])]
    if options.get("data_dir") is not None:
        words += ["--data_dir", str(options["data_dir"])]
    for folder in options.get("include_path") or ():
        words += ["--include_path", str(folder)]
    return shlex.join(words)


def measured_lines(claims: Sequence[MeasuredClaim]) -> Iterator[str]:
    """Yield the measured claims as lines for a terminal."""
    for each in claims:
        yield each.verdict
        if each.not_stated:
            yield f"  ! not stated: {', '.join(each.not_stated)}"
        yield from (f"  ! set-up differs: {line}" for line in each.set_up)
        if words := reported_words(each.reported):
            yield f"  source: {words}"
    yield from (f"asked by: {command}" for command in dict.fromkeys(each.command for each in claims))
