"""`assaymark outcomes FILE`: which variant did better with its users."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from assaymark.cli.output import echo, examples, json_option, print_json, print_rich, store_option
from assaymark.errors import UsageError

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


@click.command(epilog=EXAMPLES)
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
def outcomes(file: str, *, store: str | None, as_json: bool, **options: Any) -> int:
    """Compare variants by what their users did: a file with a row for each outcome (CSV, JSON lines, Parquet).

    Users count, not rows: those of one user depend on each other. Exit code 1 if the users did not come to the variants
    as planned, since then no difference means anything.
    """
    from assaymark.applications.outcomes import OutcomeColumns, outcome_report, parse_ratio, read_outcomes

    columns = OutcomeColumns(options["variant"], options["user"], options["outcome"], options["covariate"])
    read = read_outcomes(file, columns)
    shares = None if options["expected_ratio"] is None else parse_ratio(options["expected_ratio"], len(read.arms))
    report = outcome_report(read, control=options["control"], shares=shares, planned=options["anytime"])
    lines, correlated = _offline(store, report, options["offline"], lower_is_better=options["lower_is_better"])
    if as_json:
        from assaymark.applications.offline_beside_online import offline_json

        print_json({**report.to_json(), **(offline_json(lines, correlated) if options["offline"] else {})})
    else:
        _print_report(report)
        if lines:
            _print_offline(lines, correlated, len(read.arms))
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


def _print_report(report: "OutcomeReport") -> None:
    from assaymark.documents.numbers import NOTHING, counted, four_digits, significant
    from assaymark.documents.terminal import Text, plain_table

    table = plain_table()
    table.add_column("variant", overflow="fold")
    for title in ("users", "rows", "mean", "95% interval"):
        table.add_column(title, justify="right", no_wrap=True)
    for arm, mean in zip(report.outcomes.arms, report.means, strict=True):
        interval = "" if mean is None or mean.low is None or mean.high is None else (
            f"{significant(mean.low, 4)} to {significant(mean.high, 4)}")  # fmt: skip
        cells = (
            (f"{arm.n_assigned:,}", "0", NOTHING, "")
            if mean is None
            else (f"{arm.n_assigned:,}", f"{mean.n_rows:,}", four_digits(mean.mean), interval)
        )
        table.add_row(Text(arm.name), *map(Text, cells))
    print_rich(table)
    outcomes = report.outcomes
    if outcomes.n_without_outcome:
        echo(f"left out: {counted(outcomes.n_without_outcome, 'row')} without an outcome")
    if outcomes.n_in_several:
        echo(
            f"left out: {counted(outcomes.n_in_several, 'user')} who met several variants, with "
            f"{counted(outcomes.n_rows_in_several, 'row')}"
        )
    if outcomes.n_without_covariate:
        echo(f"{counted(outcomes.n_without_covariate, 'user')} without the covariate count with the others' mean of it")
    _print_differences(report)


def _print_differences(report: "OutcomeReport") -> None:
    from assaymark.documents.numbers import shown_difference, shown_p
    from assaymark.documents.terminal import Text, plain_table

    ratio = report.ratio
    expected = ":".join(f"{each:,.0f}" for each in ratio.expected)
    seen = ":".join(f"{each:,}" for each in ratio.observed)
    verdict = f"sample ratio: {seen} users, planned {expected}, p {shown_p(ratio.p)}"
    if report.differences is None:
        echo(
            f"{verdict}: BROKEN. Users did not come to the variants as planned, so their difference would be one of "
            "users, and is not shown; find what assigns, drops or logs them differently"
        )
        return
    echo(verdict)
    table = plain_table()
    table.add_column(f"minus {report.control}", overflow="fold")
    anytime = "95% interval, at any time" if report.planned is not None else "95% interval"
    is_several = len(report.differences) > 1
    for title in ("difference", anytime, "p", *(["p (Holm)"] if is_several else []), "noise left"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in report.differences:
        estimate = each.estimate
        # p is of one look: beside an interval for any time it would be looked at too often
        ps = [shown_p(estimate.p), *([shown_p(each.p_adjusted)] if is_several else [])]
        cells = (
            shown_difference(estimate.difference, proportion=False),
            f"{shown_difference(each.low, proportion=False)} to {shown_difference(each.high, proportion=False)}",
            *(ps if report.planned is None else ["–"] * len(ps)),
            "–" if estimate.theta is None else f"{100 * estimate.variance_left:.0f}%",
        )
        table.add_row(Text(each.name), *map(Text, cells))
    print_rich(table)
    if report.planned is not None:
        echo(
            f"the interval holds however often you look, if {report.planned:,} users were planned before the first "
            "look; p of one look is not shown"
        )


def _print_offline(
    lines: "Sequence[OfflineScorer]", correlated: "Sequence[ScorerCorrelation]", n_variants: int
) -> None:
    from assaymark.documents.numbers import NOTHING, shown_difference
    from assaymark.documents.terminal import Text, plain_table

    table = plain_table()
    table.add_column("offline scorer", overflow="fold")
    for title in ("variant", "difference", "95% interval", "rows", "with users"):
        table.add_column(title, justify="right", no_wrap=title != "variant")
    for line in lines:
        low, high = (shown_difference(end, proportion=False) for end in (line.low, line.high))
        table.add_row(*map(Text, (line.scorer, line.variant, shown_difference(line.difference, proportion=False),
                                  f"{low} to {high}", f"{line.n:,}", line.verdict)))  # fmt: skip
    print_rich(table)
    if not correlated:
        echo(f"{n_variants} variants say whether directions agree; a correlation needs 5 or more")
    for each in correlated:
        spearman = each.spearman
        value = NOTHING if spearman.value is None else f"{spearman.value:.2f}"
        interval = (
            "" if spearman.low is None or spearman.high is None else f", {spearman.low:.2f} to {spearman.high:.2f}"
        )
        echo(f"{each.scorer}: Spearman's correlation with the outcome over {spearman.n} variants {value}{interval}")
