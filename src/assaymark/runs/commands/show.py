"""`assaymark show RUN`, its table, samples or subjects, and `assaymark report`, a document of several."""

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from assaymark.cli.output import (
    Command,
    details_option,
    echo,
    examples,
    json_option,
    print_json,
    print_rich,
    store_option,
)
from assaymark.errors import UsageError

if TYPE_CHECKING:
    from assaymark.runs.run import Run
from functools import partial
from pathlib import Path


class ShowParameters(TypedDict):
    """The options of `show`."""

    task: str | None
    wrong: bool
    broken: bool
    search: str | None
    index: bool
    limit: int
    by: str | None
    details: bool
    lm_eval: bool
    attempts: bool


@click.command(cls=Command, epilog=examples("show last", "show last --samples arc_easy --wrong"))
@click.argument("run", default="last")
@click.option("--samples", "task", metavar="TASK", help="Show the samples of this task.")
@click.option("--wrong", is_flag=True, help="With --samples: show only those answered wrongly or not at all.")
@click.option("--broken", is_flag=True,
              help="With --samples: show only perturbed copies that score lower than the sample as it is.")  # fmt: skip
@click.option("--search", metavar="WORDS", help='With --samples: only those with all WORDS and "phrases".')
@click.option(
    "--index", is_flag=True, help="With --search: build the run's full-text index first, to search whole texts."
)
@click.option(
    "--limit", "-L", type=click.IntRange(1), default=10, show_default=True, help="With --samples: number of samples."
)
@click.option("--by", type=click.Choice(["subject", "task"]), help="Show each task of groups, sorted, with intervals.")
@details_option
@click.option("--lm_eval", is_flag=True, help="Print lm-eval's table.")
@click.option("--attempts", is_flag=True, help="Show the attempts: when, where and with which versions.")
@store_option
@json_option
def show(run: str, store: str | None, as_json: bool, **options: Unpack[ShowParameters]) -> None:
    """Show a stored run or audit. RUN is an id, the beginning of one, or `last` for the last run."""
    from assaymark.runs.stored import audit_as_run, find_audit, open_run

    if options["wrong"] and options["task"] is None:
        raise UsageError("--wrong selects samples; name the task too: --samples TASK --wrong")
    if options["broken"] and options["task"] is None:
        raise UsageError("--broken selects samples; name the task too: --samples TASK --broken")
    if options["broken"] and options["search"] is not None:
        raise UsageError("--broken and --search both select samples; omit one of them")
    if options["search"] is not None and options["task"] is None:
        raise UsageError("--search selects samples; name the task too: --samples TASK --search WORDS")
    if options["index"] and options["search"] is None:
        raise UsageError("--index is for --search; name the words: --samples TASK --index --search WORDS")
    if (audit := find_audit(store, run)) is not None:
        judged = audit_as_run(audit, store) if options["task"] is not None else None
        if judged is not None:
            _show_run(judged, options, as_json=as_json)
        else:
            if of_runs := [name for name in ("task", "by", "lm_eval", "attempts") if options[name]]:
                option = of_runs[0].replace("task", "samples")
                raise UsageError(f"--{option} is for runs, and {audit.row.short_id} is an audit; omit it")
            print_json(audit.content) if as_json else print_rich(audit.view)
            echo("\n".join(audit.remarks), err=as_json)
    else:
        _show_run(open_run(store, run), options, as_json=as_json)


def _show_run(run: "Run", options: ShowParameters, *, as_json: bool) -> None:
    task, wrong = options["task"], options["wrong"]
    if task is not None:
        if options["index"]:
            run.index_samples()
        records = run.sample_records(
            task, only_wrong=wrong, only_broken=options["broken"], limit=options["limit"], search=options["search"]
        )
        print_json(run.samples_to_json(records)) if as_json else print_rich(run.samples_document(records))
        if not records:
            echo(run.why_nothing_is_shown(), err=True)
    elif options["attempts"]:
        rows = run.attempts()
        if as_json:
            print_json(rows)
        for row in rows if not as_json else ():
            echo(f"{row['started_at']}  {row['status']:<12} {row['host']}  {row['facts']}")
    elif options["lm_eval"]:
        echo(run.lm_eval_table())
    elif as_json:
        print_json(run.to_json())
    else:
        print_rich(run.document(by_subject=options["by"] is not None, details=options["details"]))
        echo(*run.remarks(details=options["details"]))


@click.command(cls=Command, epilog=examples("report last~1 last -o report.html"))
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with suffix .html, .md or .pdf (default: RUN.html). A PDF needs a browser on this machine.",
)
@click.option(
    "--claims",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="Values that others state of models, as hollow marks: a list of {model, source, scores: {task: per cent}}.",
)
@click.option("--with_sealed", is_flag=True, help="Show rows of sealed tasks among the examples too.")
@store_option
def report(
    runs: tuple[str, ...], output: Path | None, claims: Path | None, with_sealed: bool, store: str | None
) -> None:
    """Write a report of stored runs: results, charts, differences, examples, methods and limitations.

    Without RUN it reports the last run. With several runs, each is compared with the first.
    """
    from assaymark.runs.reporting import report_stored

    written = report_stored(
        store, runs or ("last",), output, with_sealed=with_sealed, claims=claims, notify=partial(echo, err=True)
    )
    echo(f"wrote {written}")
