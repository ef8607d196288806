"""What `assaymark swe` prints of reports."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assaymark.cli.output import echo, print_rich

if TYPE_CHECKING:
    from assaymark.statistics.estimate import IntervalEstimate
    from assaymark.statistics.paired import PairedComparison
    from assaymark.swe.official_reports import OfficialComparison
    from assaymark.swe.repeats import CutoffSplit, PerResolved, Repeats
    from assaymark.swe.report import SweReport


def print_report(report: "SweReport") -> None:
    """Print what one file of predictions resolves, and what to look at."""
    from assaymark.documents.terminal import Text, plain_table

    official = report.official()
    table = plain_table()
    table.add_column(report.model, overflow="fold")
    table.add_column("instances", justify="right")
    names = ("total", "submitted", "completed", "resolved", "unresolved", "empty_patch", "error", "ambiguous_failure")
    for name in (*names, "infra_failure"):
        label = "not runnable here" if name == "infra_failure" else name.replace("_", " ")
        table.add_row(Text(label), Text(f"{official[f'{name}_instances']:,}"))
    print_rich(table)
    if report.estimate is not None:
        echo(f"resolved: {_share(report.estimate)}")
    if (missing := len(set(report.submitted) - set(report.graded))) > 0:
        echo(f"not graded yet: {missing}; `assaymark swe grade` continues")
    if len(report.environments) > 1:
        echo(f"graded in {len(report.environments)} environments; of each patch the latest grading counts")
    for name, reason in report.reasons().items():
        echo(f"{name}: {reason}")
    for name, flags in report.flags().items():
        for flag in flags:
            echo(f"look at {name}: {flag}")


def print_comparison(first: str, second: str, compared: "PairedComparison", only: Mapping[str, Sequence[str]]) -> None:
    """Print the difference of two models over the same instances."""
    low, high = (100 * end if end is not None else float("nan") for end in (compared.low, compared.high))
    echo(
        f"{second} minus {first}: {100 * compared.difference:+.1f} points on {compared.n} instances, 95% "
        f"interval {low:+.1f} to {high:+.1f}, p {compared.p:.3g} ({compared.method})"
    )
    for which, model in (("only_first", first), ("only_second", second)):
        if only[which]:
            echo(f"{model} resolves, or more often: {', '.join(only[which][:20])}")


def print_agreement(agreement: "OfficialComparison") -> None:
    """Print the instances to which SWE-bench's report gives another outcome."""
    from assaymark.documents.terminal import Text, plain_table

    n_equal = agreement.n_compared - len(agreement.differences)
    echo(f"as in SWE-bench's report: {n_equal} of {agreement.n_compared} instances")
    if agreement.differences:
        table = plain_table()
        for header in ("instance", "here", "SWE-bench's report", "why here"):
            table.add_column(header, overflow="fold")
        for each in agreement.differences:
            table.add_row(*map(Text, (each.instance_id, each.ours, each.official, each.reason)))
        print_rich(table)
    if agreement.unknown_ids:
        echo(
            f"{len(agreement.unknown_ids)} instances of SWE-bench's report are not in --instances, such as "
            f"{agreement.unknown_ids[0]}"
        )


def print_repeats(repeats: "Repeats", n_files: int) -> None:
    """Print what several attempts at each instance resolve."""
    echo(f"resolved over {n_files} attempts: {_share(repeats.mean)}")
    for k, estimate in repeats.pass_at.items():
        echo(f"pass@{k}: {_share(estimate)}")


def print_efforts(efforts: "PerResolved") -> None:
    """Print what a resolved instance took."""
    if efforts.calls is None:
        echo("no attempt whose trajectory is stored resolved its instance")
    for name, estimate in (("calls of the model", efforts.calls), ("cost", efforts.cost)):
        if estimate is not None:
            low, high = ("unknown" if end is None else f"{end:.4g}" for end in (estimate.low, estimate.high))
            echo(
                f"{name} per resolved instance: {estimate.value:.4g}, 95% interval {low} to {high} over {estimate.n} "
                f"instances ({estimate.method})"
            )


def print_split(split: "CutoffSplit") -> None:
    """Print what is resolved before and from a date on."""
    for name, estimate in (("before", split.before), ("from", split.after)):
        echo(f"created {name} {split.cutoff}: {'no scored instance' if estimate is None else _share(estimate)}")
    if split.difference is not None:
        difference = split.difference
        low, high = 100 * difference.low, 100 * difference.high
        echo(
            f"from {split.cutoff} on minus before: {100 * difference.difference:+.1f} points, 95% interval {low:+.1f} "
            f"to {high:+.1f}, p {difference.p:.3g} ({difference.method})"
        )
    if split.n_undated:
        echo(f"{split.n_undated} instances have no date")


def _share(estimate: "IntervalEstimate") -> str:
    low, high = (100 * end if end is not None else float("nan") for end in (estimate.low, estimate.high))
    return (
        f"{100 * estimate.value:.1f}% of {estimate.n} scored instances, 95% interval {low:.1f}% to {high:.1f}% "
        f"({estimate.method})"
    )
