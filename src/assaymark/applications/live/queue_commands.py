"""`assaymark traces queue` and `to-rows`: traces that people rate, and traces that become rows of a data set."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.applications.live.annotation_log import AnnotationLog
from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.live.rule_rows import draw_of
from assaymark.applications.traces.command_parts import (
    need_extra,
    open_project,
    print_table,
    project_option,
    trace_id_of,
)
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceRow
from assaymark.cli.output import Command, Group, echo, examples, json_option, print_json, store_option
from assaymark.errors import UsageError
from assaymark.records.json_values import json_fields
from assaymark.store import Store

if TYPE_CHECKING:
    from assaymark.applications.live.datasets import RowCounts

SHOWN = 5  # traces that a message names
WORDS = "version, service, model, user, session, errors, slower, dearer, q, hours, and scores, as 'thumbs<1 hours=24'"
filter_option = click.option(
    "--filter", "words", metavar="WORDS", help=f"Traces like that, in the words of the list: {WORDS}."
)


@click.group(cls=Group, epilog=examples("traces queue list"))
def queue() -> None:
    """Make and fill queues of traces that people rate at /traces/annotate, and show how far they agree."""


@queue.command("add", epilog=examples(
    "traces queue add review --filter 'errors=no' --sample 50 --raters 2",
    "traces queue add doubtful --filter 'thumbs<1' --rubric good,wrong,unclear",
))  # fmt: skip
@click.argument("name")
@click.argument("traces", nargs=-1, metavar="[TRACE]...")
@filter_option
@click.option(
    "--sample", type=click.IntRange(1), metavar="N", help="N of these traces, drawn at random; more include fewer."
)
@click.option("--rubric", metavar="RUBRIC",
              help="What raters choose from: thumbs (default), a scale such as 1-5, or labels a,b,c.")  # fmt: skip
@click.option("--raters", type=click.IntRange(1, 20), metavar="K", help="Raters of each trace (default: 1).")
@click.option("--reason", metavar="TEXT", help="Why they are in the queue (default: the filter).")
@project_option
@store_option
@json_option
def add_to_queue(
    name: str, traces: Sequence[str], *, store: str | None, project: str | None, as_json: bool, words: str | None,
    sample: int | None, rubric: str | None, raters: int | None, reason: str | None,
) -> None:  # fmt: skip
    """Put traces into a queue, which is made where there is none of this name."""
    from assaymark.applications.live.annotation import rubric_of
    from assaymark.applications.traces.listing import ListQuery

    if sample is not None and words is None:
        raise UsageError("--sample draws from the traces that --filter names; add --filter, '' for all")
    with open_project(store, project, writing=True) as (opened, number):
        known = next((each for each in AnnotationLog(opened).queues(number) if each.name == name), None)
        rubric = rubric or ("thumbs" if known is None else known.rubric)
        n_raters = raters or (1 if known is None else known.n_raters)
        ids = [trace_id_of(opened, number, text) for text in traces]
        if words is not None:
            query = ListQuery.of_text(words)
            drawn = sampled_traces(opened, number, query, sample, f"queue {name}")
            ids += [trace.trace_id for trace in drawn]
        made = AnnotationLog(opened).add_queue(number, name, rubric_of(rubric).text, n_raters)
        reason = reason or words or ("named" if traces else "all traces")
        n_new = AnnotationLog(opened).add_items(made, ids, reason)
        size = AnnotationLog(opened).queue(number, made.name).n_items
    if as_json:
        print_json({"queue": made.name, "rubric": made.rubric, "raters": made.n_raters, "added": n_new, "traces": size})
    else:
        echo(f"queue '{made.name}': {n_new:,} traces added, {size:,} in all; they are rated at /traces/annotate of "
             "`assaymark serve --traces`")  # fmt: skip


@queue.command("list", epilog=examples("traces queue list"))
@project_option
@store_option
@json_option
def list_queues(*, project: str | None, store: str | None, as_json: bool) -> None:
    """List the queues with how far their raters agree: Krippendorff's alpha, and Cohen's kappa of two raters."""
    from assaymark.applications.live.annotation import agreement_of

    with open_project(store, project) as (opened, number):
        queues = AnnotationLog(opened).queues(number)
        with_agreement = [(each, agreement_of(each, AnnotationLog(opened).ratings(each))) for each in queues]
    if as_json:
        print_json([{**json_fields(each), "agreement": agreement.to_json()} for each, agreement in with_agreement])
        return
    if not with_agreement:
        echo("there is no queue; `assaymark traces queue add NAME --filter WORDS` makes one")
        return
    rows = [(each.name, each.rubric, f"{each.n_done:,} of {each.n_items:,}", str(each.n_raters),
             f"{agreement.n_ratings:,}", agreement.line) for each, agreement in with_agreement]  # fmt: skip
    print_table(("queue", "rubric", "done", "raters", "ratings", "agreement (95% interval)"), rows)


@queue.command("remove", epilog=examples("traces queue remove unsure"))
@click.argument("name")
@project_option
@store_option
def remove_queue(name: str, *, project: str | None, store: str | None) -> None:
    """Remove a queue; what raters said stays with the traces."""
    with open_project(store, project, writing=True) as (opened, number):
        AnnotationLog(opened).remove_queue(AnnotationLog(opened).queue(number, name))
    echo(f"removed the queue '{name}'; its ratings stay")


@click.command("to-rows", cls=Command, epilog=examples(
    "traces to-rows --filter 'thumbs<1' -o rows.jsonl",
    "traces to-rows --dataset regressions -o rows.jsonl",
    "run --target app.py:answer --tasks rows.jsonl --scorers exact",
))  # fmt: skip
@click.argument("traces", nargs=-1, metavar="[TRACE]...")
@filter_option
@click.option("--dataset", metavar="NAME", help="Rows that were added to this data set on the pages of traces.")
@click.option("--accept_output", is_flag=True,
              help="Where nobody corrected the answer, it is the expected value (default: there is none).")  # fmt: skip
@click.option("--append", is_flag=True, help="Keep the rows that the file has, and add to them.")
@click.option("-o", "--output", required=True, metavar="FILE", help="File of JSON lines to write.")
@project_option
@store_option
@json_option
def to_rows(
    traces: Sequence[str], *, output: str, append: bool, store: str | None, project: str | None, as_json: bool,
    words: str | None, dataset: str | None, accept_output: bool,
) -> None:  # fmt: skip
    """Write traces as rows that `assaymark run --tasks` reads: inputs, the correction as what is expected, documents.

    Each question is a row once: a trace with the same inputs as another is named, and left out.
    """
    need_extra()
    from assaymark.applications.live.datasets import RowCounts, rows_of_traces
    from assaymark.applications.traces.listing import ListQuery
    from assaymark.drafts import open_whole

    path = Path(output)
    if not traces and words is None and dataset is None:
        raise UsageError("nothing says which traces; name some, or add --filter WORDS ('' for all) or --dataset NAME")
    if path.suffix.lower() != ".jsonl":  # by which `run` knows how to read it
        raise UsageError(f"{path} is to hold JSON lines; name a file that ends with .jsonl")
    if path.exists() and not append:
        raise UsageError(f"{path} is there already; add --append, which keeps its rows, or name another file")
    counts = RowCounts()
    with open_project(store, project) as (opened, number):
        known = _digests_in(path) if path.exists() and path.stat().st_size else {}
        earlier = path.read_text(encoding="utf-8") if path.exists() else ""
        contents = [] if dataset is None else _rows_of_dataset(opened, number, dataset, counts, known)
        ids = [trace_id_of(opened, number, text) for text in traces]
        if words is not None:
            ids += [trace.trace_id for trace in traces_like(opened, number, ListQuery.of_text(words))]
        made = rows_of_traces(opened, number, ids, counts, accept_output=accept_output, known=known)
        contents += [row.content for row in made]
        with open_whole(path, "backslashreplace") as file:
            file.write(earlier if not earlier or earlier.endswith("\n") else f"{earlier}\n")
            for content in contents:
                file.write(json.dumps(content, ensure_ascii=False) + "\n")
    if as_json:
        print_json({
            "rows": counts.n_rows, "without_expected": counts.n_without_expected,
            "same": [{"trace_id": trace_id.hex(), "as": first_id.hex()} for trace_id, first_id in counts.same],
            "without_inputs": [{"trace_id": trace_id.hex(), "reason": why} for trace_id, why in counts.without_inputs],
        })  # fmt: skip
        return
    echo(f"{counts.n_rows:,} rows in {path}")
    if counts.n_without_expected:
        echo(f"{counts.n_without_expected:,} without an expected value: nobody corrected them; see --accept_output")
    if counts.same:
        pairs = ", ".join(
            f"{trace_id.hex()[:8]} (as {first_id.hex()[:8] or 'a row of the file'})"
            for trace_id, first_id in counts.same[:SHOWN]
        )
        echo(f"{len(counts.same):,} have the inputs of another row and are left out: {pairs}")
    for trace_id, why in counts.without_inputs[:SHOWN]:
        echo(f"trace {trace_id.hex()[:8]} is left out: {why}")


def _digests_in(path: Path) -> dict[bytes, bytes]:
    """Return the digests of the inputs of a file's rows. Raises: DataError for a file that holds no rows."""
    from assaymark.applications.live.dataset_log import inputs_digest
    from assaymark.applications.rows import read_rows

    return {inputs_digest(row.inputs): b"" for row in read_rows(path)}


def _rows_of_dataset(
    store: "Store", project: int, dataset: str, counts: "RowCounts", known: dict[bytes, bytes]
) -> list[object]:
    """Return the rows of a data set, each question once. Raises: UnknownName."""
    from assaymark.applications.live.dataset_log import inputs_digest
    from assaymark.errors import UnknownName

    stored = DatasetLog(store).rows(project, dataset)
    if not stored:
        raise UnknownName("data set", dataset[:128], list(DatasetLog(store).sizes(project))[:SHOWN])
    contents: list[object] = []
    for row in stored:
        content = row.content if isinstance(row.content, dict) else {}
        digest = inputs_digest(content.get("inputs"))
        if digest in known:
            counts.same.append((row.trace_id, known[digest]))
            continue
        known[digest] = row.trace_id
        counts.n_rows += 1
        counts.n_without_expected += "expected" not in content
        contents.append(content)
    return contents


READ_AT_ONCE = 500
MOST_OF_FILTER = 100_000  # traces of one filter


def traces_like(store: Store, project: int, query: ListQuery) -> Iterator[TraceRow]:
    """Yield the traces that are like that, the latest first.

    Raises: UsageError for a filter that cannot be read, more than 100,000 traces, or words that so many spans have that
        only the latest were looked at.
    """
    wanted = query.filter()
    n_traces = 0
    while True:
        page = TraceLog(store).traces(project, wanted, READ_AT_ONCE)
        if page.is_cut:
            raise UsageError(f"too many steps have the words {query.q!r:.80}; narrow the filter, by time for example")
        n_traces += len(page.traces)
        if n_traces > MOST_OF_FILTER:
            raise UsageError(f"the filter names more than {MOST_OF_FILTER:,} traces; narrow it, by time for example")
        yield from page.traces
        if not page.has_more:
            return
        last = page.traces[-1]
        wanted = replace(wanted, before=(last.at, last.trace_id))


def sampled_traces(store: Store, project: int, query: ListQuery, n: int | None, name: str) -> list[TraceRow]:
    """Return the traces that match, or `n` of them at random; larger samples of the same name include smaller ones.

    Raises: as `traces_like`.
    """
    matching = list(traces_like(store, project, query))
    if n is None or n >= len(matching):
        return matching
    return sorted(matching, key=lambda trace: draw_of(trace.trace_id, name))[:n]
