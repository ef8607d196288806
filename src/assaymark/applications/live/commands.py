"""`assaymark traces rule`, `score`, `scores` and `feedback-link`: live scoring, its results, and feedback."""

import threading
from collections import Counter
from typing import TYPE_CHECKING

import click

from assaymark.applications.live.feedback_log import FeedbackLog
from assaymark.applications.live.queue_commands import queue, to_rows
from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.live.rule_rows import RuleCounts
from assaymark.applications.traces.command_parts import (
    need_extra,
    open_project,
    open_store,
    print_table,
    project_option,
    trace_id_of,
)
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.cli.output import Command, Group, echo, examples, json_option, print_json, print_result, store_option
from assaymark.errors import UsageError
from assaymark.records.json_values import json_fields

if TYPE_CHECKING:
    from assaymark.applications.live.estimates import ScoreEstimate
    from assaymark.applications.live.worker import RoundCounts, ScoringWorker

SHORT = 8  # hexadecimal digits of a hash


@click.group(cls=Group, epilog=examples("traces rule list"))
def rule() -> None:
    """Make, list, pause and remove rules: which traces are scored, how many of them, and by what."""


@rule.command("add", epilog=examples(
    "traces rule add polite --scorer app.py:polite",
    "traces rule add faithful --scorer faithfulness --judge org/model --rate 0.05",
    "traces rule add failures --scorer app.py:polite --filter 'errors=yes version=1.2'",
))  # fmt: skip
@click.argument("name")
@click.option("--scorer", required=True, metavar="NAME", help="A scorer by name, or FILE.py:NAME.")
@click.option(
    "--filter",
    "words",
    default="",
    metavar="WORDS",
    help="Only traces like that, in the words of the list: "
    "version, service, model, user, session, errors, slower, dearer, as 'version=1.2 errors=no'.",
)
@click.option(
    "--rate",
    default=1.0,
    show_default=True,
    type=float,
    metavar="SHARE",
    help="The share of these traces that are scored. A lower rate's traces are among a higher rate's.",
)
@click.option("--judge", metavar="MODEL", help="The model that a judged scorer asks, as for run --judge.")
@click.option("--judge_args", metavar="A=1,B=2", help="Arguments of the judge, as --model_args.")
@click.option("--past", default=0.0, type=click.FloatRange(0), metavar="HOURS",
              help="Score the traces of the last HOURS too (default: those that come from now on).")  # fmt: skip
@project_option
@store_option
@json_option
def add_rule(
    *, store: str | None, as_json: bool, project: str | None, name: str, scorer: str, words: str, rate: float,
    judge: str | None, judge_args: str | None, past: float,
) -> None:  # fmt: skip
    """Make a rule. Its traces are scored by `assaymark traces score`, wherever that runs with this store."""
    need_extra()
    from assaymark.applications.live.rules import new_rule

    new = new_rule(name, scorer, filter=words, rate=rate,
                   judge=judge, judge_args=judge_args, past_hours=past)  # fmt: skip
    with open_project(store, project, writing=True) as (opened, number):
        made = RuleLog(opened).add(number, new)
    if as_json:
        print_json({**json_fields(made), "traces": RuleCounts()})
        return
    of = f"traces with {made.filter}" if made.filter else "all traces"
    echo(f"rule '{made.name}': {made.score} of {100 * made.rate:g}% of {of}; `assaymark traces score` scores them")


@rule.command("list", epilog=examples("traces rule list"))
@project_option
@store_option
@json_option
def list_rules(*, project: str | None, store: str | None, as_json: bool) -> None:
    """List the rules with what became of the traces that they have drawn."""
    with open_project(store, project) as (opened, number):
        rules, counts = RuleLog(opened).rules(number), RuleLog(opened).counts(number)
        reasons = {each.id: RuleLog(opened).reasons(number, each.id) for each in rules}
    if as_json:
        print_json([
            {**json_fields(each), "traces": counts.get(each.id, RuleCounts()),
             "reasons": [{"reason": reason, "n": n} for reason, n in reasons[each.id]]}
            for each in rules
        ])  # fmt: skip
        return
    if not rules:
        echo("there is no rule; `assaymark traces rule add NAME --scorer SCORER` makes one")
        return
    rows = []
    for each in rules:
        n = counts.get(each.id)
        states = ("", "", "", "") if n is None else (f"{n.scored:,}", f"{n.empty:,}", f"{n.failed:,}",
                                                     f"{n.waiting + n.running:,}")  # fmt: skip
        rows.append((each.name, each.state, each.score, f"{each.rate:g}", each.filter or "all", *states))
    print_table(("rule", "state", "scorer", "rate", "traces", "scored", "not scored", "failed", "waiting"), rows)
    for each in rules:
        for reason, n_failed in reasons[each.id]:
            echo(f"{each.name}: {n_failed:,} failed: {reason}")


@rule.command("pause", epilog=examples("traces rule pause tone"))
@click.argument("name")
@click.option("--resume", is_flag=True, help="Let a paused rule draw again, also from what came meanwhile.")
@project_option
@store_option
def pause_rule(name: str, *, resume: bool, project: str | None, store: str | None) -> None:
    """Let a rule draw and score nothing until it is resumed."""
    with open_project(store, project, writing=True) as (opened, number):
        RuleLog(opened).set_state(number, name, "active" if resume else "paused")
    echo(f"rule '{name}' {'is active again' if resume else 'is paused; --resume makes it active again'}")


@rule.command("remove", epilog=examples("traces rule remove tone"))
@click.argument("name")
@project_option
@store_option
def remove_rule(name: str, *, project: str | None, store: str | None) -> None:
    """Remove a rule; the scores that it has given stay."""
    with open_project(store, project, writing=True) as (opened, number):
        RuleLog(opened).set_state(number, name, "removed")
    echo(f"removed the rule '{name}'; its scores stay")


@click.command(cls=Command, epilog=examples("traces score --once"))
@click.option("--once", is_flag=True, help="Score what is complete now, and end (default).")
@click.option("--watch", is_flag=True, help="Go on with what becomes complete, until Ctrl-C.")
@click.option("--every", default=5.0, show_default=True, type=click.FloatRange(0.1), metavar="SECONDS",
              help="With --watch: between two looks at the store.")  # fmt: skip
@click.option("--quiet_s", default=30.0, show_default=True, type=click.FloatRange(0), metavar="SECONDS",
              help="A trace whose root has ended is complete so long after its last span.")  # fmt: skip
@click.option(
    "--longest_s",
    default=300.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="A trace whose root has not ended, or not come, is complete so long after its last span.",
)
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="Time limit of one call of a scorer.")  # fmt: skip
@click.option("--project", metavar="NAME", help="Project (default: all of them).")
@store_option
@json_option
def score(
    *, once: bool, watch: bool, store: str | None, as_json: bool, project: str | None, every: float, quiet_s: float,
    longest_s: float, timeout: float,
) -> None:  # fmt: skip
    """Score traces by the active rules. Several of these may share a store, on one machine or many.

    The functions that rules name are run here, so run this where you would run them. A trace is complete when its root
    has ended and nothing has come for --quiet_s; a span that comes later marks its scores as stale, and they are made
    again. A failed scorer is tried three times in all.
    """
    need_extra()
    if once and watch:
        raise UsageError("--once and --watch exclude each other; omit one")
    from assaymark.applications.live.rule_rows import Completeness
    from assaymark.applications.live.worker import ScoringWorker

    if longest_s < quiet_s:
        raise UsageError(f"--longest_s is {longest_s:g}, below --quiet_s {quiet_s:g}; expected more")
    with open_store(store, writing=True) as opened:
        number = None if project is None else TraceLog(opened).project_id(project)
        complete = Completeness(quiet_s, longest_s)
        worker = ScoringWorker(opened, project=number, complete=complete, timeout_s=timeout)
        if watch:
            _watch(worker, every)
            return
        counts = worker.round()
    if as_json:
        print_json({"drawn": counts.n_drawn, "scored": counts.n_scored, "not_scored": counts.n_empty,
                    "failed": counts.n_failed, "lost": counts.n_lost, "problems": counts.problems})  # fmt: skip
    else:
        echo(_round_line(counts))
    for problem in counts.problems:
        echo(problem, err=True)
    if counts.problems:
        click.get_current_context().exit(1)


def _watch(worker: "ScoringWorker", every_s: float) -> None:
    reported: set[str] = set()

    def report(counts: "RoundCounts") -> None:
        if counts.n or counts.n_lost:
            echo(_round_line(counts))
        for problem in counts.problems:
            if problem not in reported:
                reported.add(problem)
                echo(problem, err=True)

    echo("scoring traces as they become complete; Ctrl-C ends it")
    worker.watch(every_s, report, threading.Event())


def _round_line(counts: "RoundCounts") -> str:
    more = f", {counts.n_lost:,} taken over by others" if counts.n_lost else ""
    return f"scored {counts.n_scored:,} traces, {counts.n_empty:,} not scored, {counts.n_failed:,} failed{more}"


@click.command(cls=Command, epilog=examples("traces scores --since 168"))
@click.option("--name", metavar="NAME", help="Only the scores of this name.")
@click.option("--since", type=click.FloatRange(0), metavar="HOURS", help="Only those of the last HOURS.")
@project_option
@store_option
@json_option
def scores(*, name: str | None, since: float | None, project: str | None, store: str | None, as_json: bool) -> None:
    """Show the mean of each score by version, weighted by the rate at which traces were drawn, with its interval."""
    import time

    from assaymark.applications.live.annotation import number_scores
    from assaymark.applications.live.estimates import estimates_of

    with open_project(store, project) as (opened, number):
        after = None if since is None else int((time.time() - since * 3600) * 1e9)
        weighted = RuleLog(opened).weighted_scores(number, name=name, since=after)
        estimates = estimates_of(weighted, number_scores(opened, number))
    if as_json:
        print_json(estimates)
        return
    if not estimates:
        echo("there is no score; `assaymark traces rule add` makes a rule, and `assaymark traces score` scores by it")
        return
    scores = Counter((each.name, each.source, each.version) for each in estimates)
    several = {name for (name, _, _), n in scores.items() if n > 1}
    rows = [_estimate_row(each, is_one_of_several=each.name in several) for each in estimates]
    print_table(("score", "from", "version", "n", "mean", "95% interval", "failed", "stale", "rate"), rows)


def _estimate_row(each: "ScoreEstimate", *, is_one_of_several: bool) -> tuple[str, ...]:
    estimate = each.estimate
    mean = "-" if estimate is None else f"{estimate.value:.4g}"
    interval = "-" if estimate is None or estimate.low is None else f"{estimate.low:.4g} to {estimate.high:.4g}"
    rate = "-" if each.rates is None else f"{each.rates[0]:g}" if each.rates[0] == each.rates[1] else (
        f"{each.rates[0]:g} to {each.rates[1]:g}")  # fmt: skip
    version = each.rule_version
    name = f"{each.name} ({version.hex()[:SHORT]})" if is_one_of_several and version is not None else each.name
    if estimate is None and each.labels:
        interval = ", ".join(f"{label}: {n}" for label, n in sorted(each.labels.items(), key=lambda pair: -pair[1])[:5])
    return (name, each.source, each.version or "", f"{each.n:,}", mean, interval, str(each.n_failed or ""),
            str(each.n_stale or ""), rate)  # fmt: skip


@click.command(
    "feedback-link", cls=Command, epilog=examples("traces feedback-link 5b8efff798038103 --url http://127.0.0.1:7500")
)
@click.argument("trace")
@click.option("--url", required=True, metavar="URL", help="Address of the server, as people reach it.")
@click.option("--days", default=30.0, show_default=True, type=float, metavar="DAYS", help="For how long it is good.")
@project_option
@store_option
@json_option
def link(trace: str, *, url: str, days: float, project: str | None, store: str | None, as_json: bool) -> None:
    """Print the address of a form on which a person can say how the answer of a trace was."""
    from assaymark.applications.live.links import signed_link

    with open_project(store, project) as (opened, number):
        trace_id = trace_id_of(opened, number, trace)
        key = FeedbackLog(opened).signing_token(number)
    if key is None:
        raise UsageError("the project has no token, which signs links; make one: `assaymark traces project token NAME`")
    address = signed_link(url, trace_id.hex(), key, days)
    print_result({"trace_id": trace_id.hex(), "url": address}, lambda: address, as_json=as_json)


LIVE_COMMANDS = (rule, score, scores, link, queue, to_rows)
