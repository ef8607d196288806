"""`assaymark traces quality`: quality over time in the terminal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from assaymark.applications.traces.command_parts import open_store, print_table, project_of, project_option
from assaymark.cli.output import echo, examples, json_option, print_json, store_option

if TYPE_CHECKING:
    from assaymark.applications.watch.quality import Metric, Quality

__all__ = ["WATCH_COMMANDS"]

EXAMPLES = examples("traces quality --days 30 --by version", "traces quality --bucket hour --days 1 --json")


@click.command(epilog=EXAMPLES)
@project_option
@click.option("--days", type=float, default=7.0, show_default=True, help="The last ones.")
@click.option("--bucket", type=click.Choice(["hour", "day"]), help="Default: day; hour for two days or less.")
@click.option("--by", type=click.Choice(["version"]), help="A line for each of the latest six versions.")
@store_option
@json_option
def quality(
    *, project: str | None, days: float, bucket: str | None, by: str | None, store: str | None, as_json: bool
) -> None:
    """Show scores, errors, latency, cost and tokens over time, with 95% intervals."""
    from assaymark.applications.watch.quality import QualityQuery, quality_of

    query = QualityQuery(f"{days:g}", bucket or "", by or "all")
    with open_store(store) as opened:
        number = project_of(opened, project)
        results = quality_of(opened, query.window(number))
    if as_json:
        print_json(results.to_json())
        return
    if not results.metrics:
        echo(f"no trace came in the last {days:g} days")
    for metric in results.metrics:
        _print_metric(results, metric)
    if results.n_other_versions:
        echo(f"{results.n_other_versions:,} earlier versions are left out")


def _print_metric(results: "Quality", metric: "Metric") -> None:
    from assaymark.applications.watch.quality import version_text

    echo(metric.title)
    pattern = "%Y-%m-%d" if results.window.bucket >= 86_400 * 10**9 else "%Y-%m-%d %H:%M"
    rows = [
        (
            datetime.fromtimestamp(point.start / 1e9, UTC).strftime(pattern),
            version_text(each.version) if results.window.by_version else "all",
            metric.shown(point.value),
            f"{metric.shown(point.low)} to {metric.shown(point.high)}",
            f"{point.n:,}",
            str(point.n_failed or ""),
        )
        for each in metric.series
        for point in each.points
    ]
    head = ("from (UTC)", "version", "value", "95% interval", "n", "failed")
    print_table(head if metric.is_score else head[:-1], [row if metric.is_score else row[:-1] for row in rows])


WATCH_COMMANDS = (quality,)
