"""`assaymark traces quality`, `alarm` and `watch`: quality over time in the terminal, and alarms on it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from assaymark.applications.traces.command_parts import open_project, open_store, print_table, project_option
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.cli.output import Command, Group, echo, examples, json_option, print_json, store_option
from assaymark.documents.numbers import NOTHING

if TYPE_CHECKING:
    from assaymark.applications.watch.quality import Quality, QualityMetric

EXAMPLES = examples("traces quality --days 30 --by version", "traces quality --bucket hour --days 1 --json")


@click.command(cls=Command, epilog=EXAMPLES)
@project_option
@click.option("--days", type=float, default=7.0, show_default=True, help="The last ones.")
@click.option("--bucket", type=click.Choice(["minute", "hour", "day"]),
              help="Default: by the span of the traces.")  # fmt: skip
@click.option("--by", type=click.Choice(["version"]), help="A line for each of the latest six versions.")
@store_option
@json_option
def quality(
    *, project: str | None, days: float, bucket: str | None, by: str | None, store: str | None, as_json: bool
) -> None:
    """Show scores, errors, latency, cost and tokens over time, with 95% intervals."""
    from assaymark.applications.watch.quality import QualityQuery, quality_of, window_of

    query = QualityQuery(f"{days:g}", bucket or "", by or "all")
    with open_project(store, project) as (opened, number):
        results = quality_of(opened, window_of(opened, number, query))
    if as_json:
        print_json(results)
        return
    if not results.metrics:
        echo(f"no trace came in the last {days:g} days")
    for metric in results.metrics:
        _print_metric(results, metric)
    if results.n_other_versions:
        echo(f"{results.n_other_versions:,} earlier versions are left out")


def _print_metric(results: "Quality", metric: "QualityMetric") -> None:
    from assaymark.applications.watch.quality import version_text

    echo(metric.title)
    pattern = "%Y-%m-%d" if results.window.bucket >= 86_400 * 10**9 else "%Y-%m-%d %H:%M"
    rows = [
        (
            datetime.fromtimestamp(point.start / 1e9, UTC).strftime(pattern),
            version_text(each.version) if results.window.by_version else "all",
            metric.shown_value(point),
            metric.shown_interval(point),
            f"{point.n:,}",
            f"{point.n_sessions:,}",
            str(point.n_failed or ""),
        )
        for each in metric.series
        for point in each.points
    ]
    head = ("from (UTC)", "version", "value", "95% interval", "n", "sessions", "failed")
    print_table(head if metric.is_score else head[:-1], [row if metric.is_score else row[:-1] for row in rows])


ALARM_EXAMPLES = examples(
    'traces alarm add quality --metric helpful --metric errors --false_alarms "0.05 in 10000"',
    'traces alarm add slow --metric latency --false_alarms "1% in 100000" --webhook https://example.org/alarms',
    'traces alarm add change --metric helpful --false_alarms "0.05 in 10000" --baseline 0',
    "traces watch",
)


@click.group(cls=Group, epilog=ALARM_EXAMPLES)
def alarm() -> None:
    """Make, list, reset and remove alarms, whose false alarms are bounded; the server raises them, or `watch`."""


@alarm.command("add", epilog=examples("traces alarm add wrong --metric correct --bound 0.9 --false_alarms 0.01"))
@click.argument("name")
@click.option("--metric", "metrics", multiple=True, required=True, metavar="SCORER|errors|latency|cost",
              help="What is watched; several share the false alarms. Repeatable.")  # fmt: skip
@click.option("--false_alarms", required=True, metavar='"P in N"',
              help="How probable a false alarm within N values may be, as '0.05 in 10000'.")  # fmt: skip
@click.option("--bound", type=float, metavar="X",
              help="The largest value, of scores beyond [0, 1], or of latency (seconds) or cost whose mean is to be "
              "watched instead of the share above a frozen quantile.")  # fmt: skip
@click.option("--two_sided", is_flag=True, help="An improvement is a change too.")
@click.option("--lower_is_better", is_flag=True, help="Of the scores.")
@click.option("--baseline", type=int, default=300, show_default=True, metavar="N",
              help="Values that freeze the baseline: the latest, or where there are fewer the next. 0: no baseline; "
              "values are compared with those before them, whatever their mean.")  # fmt: skip
@click.option("--webhook", metavar="URL", help="Send raised alarms there, signed.")
@click.option("--allow_private", is_flag=True, help="The webhook may be at an address of this machine or network.")
@project_option
@store_option
@json_option
def add_alarm(
    name: str, *, project: str | None, store: str | None, as_json: bool, metrics: tuple[str, ...], false_alarms: str,
    bound: float | None, two_sided: bool, lower_is_better: bool, baseline: int, webhook: str | None,
    allow_private: bool,
) -> None:  # fmt: skip
    """Make an alarm; print what it promises, and the secret that signs its webhook, which is shown this once."""
    import secrets

    from assaymark.applications.watch.alarms import guarantee, new_alarm
    from assaymark.applications.watch.rounds import check_webhook

    if webhook is not None:
        check_webhook(webhook, allow_private=allow_private)
    secret = None if webhook is None else secrets.token_urlsafe(32)
    made = new_alarm(
        name, metrics, false_alarms, bound=bound, two_sided=two_sided,
        lower_is_better=lower_is_better, n_baseline=baseline, webhook=webhook, secret=secret,
        allow_private=allow_private,
    )  # fmt: skip
    with open_project(store, project, writing=True) as (opened, number):
        AlarmLog(opened).add(number, made)
        promise = guarantee(AlarmLog(opened).named(number, name)[0])
    if as_json:
        print_json({"alarm": name, "secret": secret, "guarantee": promise})
        return
    echo(f"alarm '{name}': {promise}")
    if secret is not None:
        echo(f"secret of its webhook, shown this once: {secret}")
    echo("`assaymark serve --traces` evaluates it while it runs, and so does `assaymark traces watch`")


@alarm.command("list", epilog=examples("traces alarm list"))
@project_option
@store_option
@json_option
def list_alarms(*, project: str | None, store: str | None, as_json: bool) -> None:
    """List the alarms of a project, what they promise, and which were raised."""
    from assaymark.applications.watch.board import alarm_board

    with open_project(store, project) as (opened, number):
        board = alarm_board(opened, number)
    if as_json:
        print_json(board)
        return
    if not board.alarms:
        echo("there is no alarm; `assaymark traces alarm add NAME` makes one")
        return
    print_table(("alarm", "metric", "state"), [(each.name, each.metric, each.state) for each in board.alarms])
    for name, guarantee in dict.fromkeys((each.name, each.guarantee) for each in board.alarms):
        echo(f"{name}: {guarantee}")
    for event in board.raised:
        evidence = f"evidence {event.evidence:,.0f} of {event.threshold:,.0f}"
        delivery = [] if event.delivery == NOTHING else [event.delivery]
        parts = [event.text, evidence, f"trace {event.trace_id[:16]}", *delivery]
        echo(f"raised {event.time} UTC, {event.name}: {'; '.join(part for part in parts if part)}")


@alarm.command("remove", epilog=examples("traces alarm remove wrong"))
@click.argument("name")
@project_option
@store_option
def remove_alarm(name: str, *, project: str | None, store: str | None) -> None:
    """Remove an alarm with all that it counted."""
    with open_project(store, project, writing=True) as (opened, number):
        AlarmLog(opened).remove(number, name)
    echo(f"removed the alarm '{name}'")


@alarm.command("reset", epilog=examples("traces alarm reset wrong --new_baseline"))
@click.argument("name")
@click.option("--new_baseline", is_flag=True, help="Freeze another baseline from the next values: this is usual now.")
@project_option
@store_option
def reset_alarm(name: str, *, new_baseline: bool, project: str | None, store: str | None) -> None:
    """Let an alarm watch again, with the next trace as its first."""
    from assaymark.applications.watch.alarms import reset

    with open_project(store, project, writing=True) as (opened, number):
        reset(opened, number, name, new_baseline=new_baseline)
    echo(f"the alarm '{name}' watches again" + (", and gathers another baseline" if new_baseline else ""))


@click.command(cls=Command, epilog=examples("traces watch --once", "traces watch --project guide --every 10"))
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option("--every", type=click.FloatRange(1), default=5.0, show_default=True, metavar="SECONDS",
              help="Pause between two looks.")  # fmt: skip
@click.option("--project", metavar="NAME", help="Project (default: all).")
@store_option
def watch(*, once: bool, every: float, project: str | None, store: str | None) -> None:
    """Evaluate alarms on what has become complete, and call their webhooks, as `assaymark serve --traces` does too.

    Each value counts once, in the order in which traces became complete, however often this is started or killed.
    """
    with open_store(store, writing=True) as opened:
        number = None if project is None else TraceLog(opened).project_id(project)
        from assaymark.applications.watch.alarms import guarantee, metric_name
        from assaymark.applications.watch.rounds import keep_watching, watch_round

        streams = AlarmLog(opened).streams(number)
        if not streams:
            echo("there is no alarm; `assaymark traces alarm add NAME` makes one")
        for stream in streams:
            echo(f"alarm '{stream.name}' on {metric_name(stream)}: {guarantee(stream)}")
        if once:
            for line in watch_round(opened, number):
                echo(line.text, err=line.is_problem)
            return
        keep_watching(opened, every, number, lambda line: echo(line.text, err=line.is_problem)).wait()


WATCH_COMMANDS = (quality, alarm, watch)
