"""A command that stores an audit, and how `show` and `ls audits` show it again."""

from dataclasses import asdict, dataclass
from functools import partial

import click
from rich.table import Table

from assaymark.audit.stored import audit_plan, stored_audit, stored_parts
from assaymark.cli.output import echo, store_option
from assaymark.records import JsonValue
from assaymark.runs.opening import RunOpener
from assaymark.runs.prepare import prepare_run
from assaymark.runs.stored import AuditKind, stored_line
from assaymark.store import RunRow, Store
from assaymark.tasks.bound import BoundTask

KIND = "word counts"


@dataclass(frozen=True, slots=True)
class WordCount:
    """How many words the prompts of a task have."""

    task: str
    n_prompts: int
    n_words: int


@click.command()
@click.argument("model")
@click.argument("task")
@store_option
def count_words(model: str, task: str, store: str | None) -> None:
    """Count the words of a task's prompts, as an audit of MODEL."""
    opened, prepared = prepare_run(model, task, {})
    database = Store.open(store)
    with stored_audit(RunOpener(database, audit_plan(prepared.plan, KIND, {})), opened) as audit:
        for bound in prepared.bound:
            audit.part(bound.plan.name, WordCount, partial(_count, bound))
    echo(stored_line(database, audit.run_id))


def _count(bound: BoundTask) -> WordCount:
    prompts = [request.prompt for request in bound.requests()]
    return WordCount(bound.plan.name, len(prompts), sum(len(prompt.split()) for prompt in prompts))


def word_counts(_store: Store, row: RunRow) -> tuple[JsonValue, Table]:
    """Return a stored audit's results, as JSON and as a table."""
    table = Table("task", "prompts", "words")
    counts: list[WordCount] = stored_parts(row, WordCount)
    for count in counts:
        table.add_row(count.task, str(count.n_prompts), str(count.n_words))
    return [asdict(count) for count in counts], table


word_counts_kind = AuditKind(word_counts)
