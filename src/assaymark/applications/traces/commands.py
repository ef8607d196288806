"""`assaymark traces`: projects and their tokens; show, export and remove traces."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from assaymark.applications.live.commands import LIVE_COMMANDS
from assaymark.applications.traces.command_parts import (
    need_extra,
    open_project,
    open_store,
    print_table,
    project_option,
    trace_id_of,
)
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.commands import WATCH_COMMANDS
from assaymark.cli.output import Group, echo, examples, json_option, print_json, store_option
from assaymark.errors import UnknownName, UsageError
from assaymark.records.json_values import json_fields, json_of

if TYPE_CHECKING:
    from assaymark.applications.traces.trace_rows import SpanFacts, SpanRow, TraceRow

EXAMPLES = examples(
    "serve --traces",
    "traces project add support-bot",
    "traces ls --error --since 24",
    "traces export -o traces.jsonl --format jsonl",
)
FORMATS = ("otlp", "jsonl")
MIB = 1 << 20


@click.group(cls=Group, epilog=EXAMPLES)
def traces() -> None:
    """Show, export and remove traces, and make projects for them; `assaymark serve --traces` receives them."""


@traces.group(epilog=examples("traces project add guide"))
def project() -> None:
    """Make, list and remove projects: each has its own tokens, and none reads another's traces."""


@project.command("add", epilog=examples("traces project add guide"))
@click.argument("name")
@store_option
@json_option
def add_project(name: str, *, store: str | None, as_json: bool) -> None:
    """Make a project and print its token, which is shown this once: only a hash of it is stored."""
    with open_store(store, writing=True) as opened:
        token = TraceLog(opened).add_project(name)
    _print_token(name, token, as_json=as_json)


@project.command("token", epilog=examples("traces project token guide --write_only"))
@click.argument("name")
@click.option("--write_only", is_flag=True, help="For senders: this token stores spans and reads nothing.")
@click.option("--replace", is_flag=True, help="The project's earlier tokens are worth nothing from now on.")
@store_option
@json_option
def add_token(name: str, *, write_only: bool, replace: bool, store: str | None, as_json: bool) -> None:
    """Print another token of a project, which is shown this once."""
    with open_store(store, writing=True) as opened:
        token = TraceLog(opened).add_token(name, "write" if write_only else "all", replacing=replace)
    _print_token(name, token, as_json=as_json)


def _print_token(name: str, token: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"project": name, "token": token})
        return
    echo(f"token of project '{name}', shown this once: {token}")
    echo(f"send it with every batch: OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer {token}'")


@project.command("list", epilog=examples("traces project list"))
@store_option
@json_option
def list_projects(*, store: str | None, as_json: bool) -> None:
    """List the projects with how much each has."""
    with open_store(store) as opened:
        known = TraceLog(opened).projects()
    if as_json:
        print_json([{"name": each.name, "traces": each.n_traces, "spans": each.n_spans, "bytes": each.n_bytes}
                    for each in known])  # fmt: skip
        return
    if not known:
        echo("there is no project; `assaymark traces project add NAME` makes one")
        return
    rows = [(each.name, f"{each.n_traces:,}", f"{each.n_spans:,}", f"{each.n_bytes / MIB:,.1f}") for each in known]
    print_table(("project", "traces", "spans", "MiB"), rows)


@project.command("remove", epilog=examples("traces project remove guide"))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def remove_project(name: str, *, yes: bool, store: str | None) -> None:
    """Remove a project with its tokens and traces."""
    with open_store(store, writing=True) as opened:
        TraceLog(opened).project_id(name)
        if not yes and not click.confirm(f"remove the project '{name}' with all of its traces?"):
            raise UsageError("nothing was removed; add --yes to remove it")
        n_removed = TraceLog(opened).remove_project(name)
    echo(f"removed the project '{name}' with {n_removed:,} traces")


@traces.command("ls", epilog=examples("traces ls --since 24 --error"))
@project_option
@click.option("--since", type=float, metavar="HOURS", help="Only traces of the last HOURS.")
@click.option("--model", metavar="NAME", help="Only traces in which this model answered.")
@click.option("--version", metavar="TEXT", help="Only traces of this version of the application.")
@click.option("--user", metavar="ID", help="Only traces of this user.")
@click.option("--session", metavar="ID", help="Only traces of this session.")
@click.option("--error", is_flag=True, help="Only traces with a failed step.")
@click.option("--slower", type=float, metavar="SECONDS", help="Only traces that took at least so long.")
@click.option("--dearer", type=float, metavar="COST", help="Only traces that cost at least so much.")
@click.option("--score", metavar="CONDITION", help="Only traces with such a score, as 'thumbs<1' or 'faithful>=0.5'.")
@click.option("--text", metavar="WORDS", help='Only traces with these words; "a phrase" in quotes.')
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Traces to list.")
@store_option
@json_option
def ls(
    *, store: str | None, as_json: bool, project: str | None, since: float | None, model: str | None,
    version: str | None, user: str | None, session: str | None, error: bool, slower: float | None, dearer: float | None,
    score: str | None, text: str | None, limit: int,
) -> None:  # fmt: skip
    """List a project's traces, the latest first."""
    import time

    from assaymark.applications.traces.listing import score_condition
    from assaymark.applications.traces.trace_rows import TraceFilter

    wanted = TraceFilter(
        since=None if since is None else int((time.time() - since * 3600) * 1e9), has_error=True if error else None,
        least_seconds=slower, least_cost=dearer, score=None if score is None else score_condition(score), model=model,
        version=version, user=user, session=session, text=text,
    )  # fmt: skip
    with open_project(store, project) as (opened, number):
        page = TraceLog(opened).traces(number, wanted, limit)
    if as_json:
        print_json(page.traces)
        return
    print_table(
        ("trace", "time (UTC)", "name", "steps", "failed", "seconds", "tokens", "cost", "version"),
        [
            (
                trace.trace_id.hex()[:16],
                datetime.fromtimestamp(trace.at / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                trace.name[:60],
                f"{trace.n_spans:,}",
                str(trace.n_errors or ""),
                _seconds(trace.started, trace.ended),
                _tokens(trace),
                "-" if trace.cost is None else f"{'>= ' if trace.n_unpriced else ''}{trace.cost:.4f}",
                trace.version or "",
            )
            for trace in page.traces
        ],
    )
    if n_unpriced := sum(trace.n_unpriced for trace in page.traces):
        n_traces = sum(bool(trace.n_unpriced) for trace in page.traces)
        echo(f"{n_unpriced:,} calls of models in {n_traces:,} of these traces have no price: their cost is not known")
    if page.has_more:
        echo("there are more; --limit lists them")


def _seconds(started: int, ended: int | None) -> str:
    from assaymark.applications.traces.trace_rows import seconds_between

    seconds = seconds_between(started, ended)
    if seconds is None:
        return "-" if ended is None else "clock"  # it runs backwards
    return f"{seconds:.3f}"


def _tokens(of: "TraceRow | SpanFacts") -> str:
    known = [n for n in (of.n_input, of.n_output) if n is not None]
    return f"{sum(known):,}" if known else "-"


@traces.command(epilog=examples("traces show 5b8efff798038103"))
@click.argument("trace")
@project_option
@store_option
@json_option
def show(trace: str, *, project: str | None, store: str | None, as_json: bool) -> None:
    """Show the steps of a trace as a tree; TRACE is its id, or the beginning of the id of a recent one."""
    need_extra()
    from assaymark.applications.traces.otlp import read_span
    from assaymark.applications.traces.steps import step_of
    from assaymark.applications.traces.trace_rows import tree_of

    with open_project(store, project) as (opened, number):
        trace_id = trace_id_of(opened, number, trace)
        rows = TraceLog(opened).spans(number, trace_id)
    if not rows:
        raise UnknownName("trace", trace[:40])
    steps = [step_of(read_span(row)) for row in rows]
    nodes = tree_of(rows)
    if as_json:
        print_json([{**json_fields(steps[node.at]), "depth": node.depth} for node in nodes])
        return
    table = []
    for node in nodes:
        step, row = steps[node.at], rows[node.at]
        table.append((f"{'  ' * min(node.depth, 30)}{row.name[:80]}", step.kind, step.model or "",
                      _seconds(row.started, row.ended), _tokens(step),
                      step.error[:100]))  # fmt: skip
    print_table(("step", "kind", "model", "seconds", "tokens", "error"), table)


@traces.command(epilog=examples("traces export --project guide -o traces.jsonl"))
@project_option
@click.option("--format", "kind", type=click.Choice(FORMATS), default="otlp", show_default=True,
              help="otlp: an OTLP request as JSON, which any receiver takes; jsonl: a step in each line.")  # fmt: skip
@click.option("-o", "--output", required=True, metavar="FILE", help="File to write.")
@store_option
def export(*, project: str | None, kind: str, output: str, store: str | None) -> None:
    """Write all traces of a project to a file."""
    need_extra()
    from assaymark.drafts import open_whole

    with open_project(store, project) as (opened, number), open_whole(Path(output)) as file:
        rows = TraceLog(opened).all_spans(number)
        n_written = _write_otlp(rows, file) if kind == "otlp" else _write_lines(rows, file)
    echo(f"{n_written:,} spans in {output}")


def _write_otlp(rows: "Iterator[SpanRow]", file: IO[str]) -> int:
    """Write one OTLP request, a trace in each line; return the number of spans."""
    from assaymark.applications.traces.otlp import spans_json

    file.write('{"resourceSpans": [')
    n_written = 0
    for _, of_trace in groupby(rows, key=lambda row: row.trace_id):
        together = list(of_trace)
        file.write(",\n" if n_written else "\n")
        file.write(",".join(json.dumps(each) for each in spans_json(together)["resourceSpans"]))
        n_written += len(together)
    file.write("\n]}\n")
    return n_written


def _write_lines(rows: "Iterator[SpanRow]", file: IO[str]) -> int:
    """Write a step in each line; return their number."""
    from assaymark.applications.traces.otlp import read_span
    from assaymark.applications.traces.steps import step_of

    n_written = 0
    for row in rows:
        file.write(json.dumps(json_of(step_of(read_span(row)))) + "\n")
        n_written += 1
    return n_written


@traces.command(epilog=examples("traces prune --older_than 90"))
@project_option
@click.option("--older_than", type=click.FloatRange(0), metavar="DAYS", help="Traces whose last span came before.")
@click.option("--keep_mib", type=click.FloatRange(0), metavar="MIB", help="Keep the latest traces that have so much.")
@store_option
def prune(*, project: str | None, older_than: float | None, keep_mib: float | None, store: str | None) -> None:
    """Remove traces of a project by age, by size or both."""
    if older_than is None and keep_mib is None:
        raise UsageError("nothing says what to remove; add --older_than DAYS or --keep_mib MIB")
    with open_project(store, project, writing=True) as (opened, number):
        n_removed = TraceLog(opened).prune(
            number,
            older_than=None if older_than is None else older_than * 86_400,
            most_bytes=None if keep_mib is None else int(keep_mib * MIB),
        )
    echo(f"removed {n_removed:,} traces")


for _command in (*LIVE_COMMANDS, *WATCH_COMMANDS):
    traces.add_command(_command)
