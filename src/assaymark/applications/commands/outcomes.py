"""`assaymark outcomes FILE`: compare variants by their users' outcomes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, examples, json_option, print_json, print_rich, store_option
from assaymark.errors import UsageError
from assaymark.records.json_values import json_fields

if TYPE_CHECKING:
    from assaymark.applications.offline_beside_online import OfflineScorer, ScorerCorrelation
    from assaymark.applications.outcomes import OutcomeReport

BROKEN_RATIO = 1

EXAMPLES = examples(
    "outcomes clicks.csv --outcome clicked",
    "outcomes sales.parquet --outcome amount --covariate spent_before --expected_ratio 90:10",
    "outcomes clicks.csv --anytime 20000",
    "outcomes clicks.csv --offline RUN_A RUN_B",
)


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("file", metavar="FILE")
@click.option("--variant", default="variant", show_default=True, metavar="COLUMN", help="Column of the variant.")
@click.option("--user", default="user", show_default=True, metavar="COLUMN", help="Column of the user's id.")
@click.option("--outcome", default="outcome", show_default=True, metavar="COLUMN",
              help="Column of the outcome: numbers, true or false.")  # fmt: skip
@click.option("--covariate", metavar="COLUMN", help="Column of a number known of each user before.")
@click.option("--control", metavar="NAME", help="Variant that the others are compared with (default: first by name).")
@click.option("--expected_ratio", metavar="A:B", help="Planned shares by variant name (default: equal).")
@click.option("--anytime", type=click.IntRange(2), metavar="USERS",
              help="An interval that holds however often you look; USERS: planned, chosen beforehand.")  # fmt: skip
@click.option("--lower_is_better", is_flag=True, help="Of the outcome.")
@click.option("--offline", multiple=True, metavar="RUN RUN",
              help="Stored runs of the variants, by version or name, or as VARIANT=RUN.")  # fmt: skip
@store_option
@json_option
def outcomes(
    file: str, *, store: str | None, as_json: bool, variant: str, user: str, outcome: str, covariate: str | None,
    control: str | None, expected_ratio: str | None, anytime: int | None, lower_is_better: bool,
    offline: tuple[str, ...],
) -> int:  # fmt: skip
    """Compare variants by what their users did: a file with a row for each outcome (CSV, JSON lines, Parquet).

    Users count, not rows: those of one user depend on each other. Exit code 1 if the users did not come to the variants
    as planned, since then no difference means anything.
    """
    from assaymark.applications.outcomes import OutcomeColumns, outcome_report, parse_ratio, read_outcomes

    columns = OutcomeColumns(variant, user, outcome, covariate)
    read = read_outcomes(file, columns)
    shares = None if expected_ratio is None else parse_ratio(expected_ratio, len(read.arms))
    report = outcome_report(read, control=control, shares=shares, planned=anytime)
    lines, correlated = _offline(store, report, offline, lower_is_better=lower_is_better)
    if as_json:
        spearman = [{"scorer": each.scorer, **json_fields(each.spearman)} for each in correlated]
        print_json(json_fields(report) | ({"offline": lines, "spearman": spearman} if offline else {}))
    else:
        from assaymark.applications.outcome_documents import offline_blocks, outcome_blocks
        from assaymark.documents.document import document

        print_rich(document(outcome_blocks(report), offline_blocks(lines, correlated, len(read.arms)) if lines else []))
    return BROKEN_RATIO if report.ratio.is_broken else 0


def _offline(
    store: str | None, report: "OutcomeReport", typed: Sequence[str], *, lower_is_better: bool
) -> "tuple[list[OfflineScorer], list[ScorerCorrelation]]":
    if not typed:
        return [], []
    from assaymark.applications.offline_beside_online import beside_online, runs_of_variants
    from assaymark.runs.stored import existing_store, run_in

    names = [name for text in typed for name in text.split(",")]
    if len(names) < 2:
        raise UsageError(f"--offline names {len(names)} run; expected a run of each variant")
    opened = existing_store(store)
    runs = [(name, run_in(opened, name.rpartition("=")[2])) for name in names]
    of_variants = runs_of_variants([arm.name for arm in report.outcomes.arms], runs)
    return beside_online(report, of_variants, lower_is_better=lower_is_better)
