"""Reports of gradings as documents."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assaymark.documents.blocks import Block, Paragraph, table

if TYPE_CHECKING:
    from assaymark.statistics.estimate import IntervalEstimate
    from assaymark.statistics.paired import PairedComparison
    from assaymark.swe.official_reports import OfficialComparison
    from assaymark.swe.repeats import CutoffSplit, PerResolved, Repeats
    from assaymark.swe.report import SweReport

COUNTED = (
    "total", "submitted", "completed", "resolved", "unresolved", "empty_patch", "error", "ambiguous_failure",
    "infra_failure",
)  # fmt: skip


def report_blocks(report: "SweReport") -> list[Block]:
    """Return the report on one file of predictions, and remarks."""
    official = report.official()
    labels = ("not runnable here" if name == "infra_failure" else name.replace("_", " ") for name in COUNTED)
    counts = (f"{official[f'{name}_instances']:,}" for name in COUNTED)
    lines = [] if report.estimate is None else [f"resolved: {_share(report.estimate)}"]
    if (missing := len(set(report.submitted) - set(report.graded))) > 0:
        lines.append(f"not graded yet: {missing}; `assaymark swe grade` continues")
    if len(report.environments) > 1:
        lines.append(f"graded in {len(report.environments)} environments; of each patch the latest grading counts")
    lines += [f"{name}: {reason}" for name, reason in report.reasons().items()]
    lines += [f"look at {name}: {flag}" for name, flags in report.flags().items() for flag in flags]
    return [table((report.model, "instances"), zip(labels, counts, strict=True)), *map(Paragraph, lines)]


def comparison_blocks(
    first: str, second: str, compared: "PairedComparison", only: Mapping[str, Sequence[str]]
) -> list[Block]:
    """Return the difference of two models over the same instances."""
    low, high = (100 * end if end is not None else float("nan") for end in (compared.low, compared.high))
    difference = f"{second} minus {first}: {100 * compared.difference:+.1f} points on {compared.n} instances"
    lines = [f"{difference}, 95% interval {low:+.1f} to {high:+.1f}, p {compared.p:.3g} ({compared.method})"]
    for which, model in (("only_first", first), ("only_second", second)):
        if only[which]:
            lines.append(f"{model} resolves, or more often: {', '.join(only[which][:20])}")
    return [Paragraph(line) for line in lines]


def agreement_blocks(agreement: "OfficialComparison") -> list[Block]:
    """Return the instances to which SWE-bench's report gives another outcome."""
    n_equal = agreement.n_compared - len(agreement.differences)
    blocks: list[Block] = [Paragraph(f"as in SWE-bench's report: {n_equal} of {agreement.n_compared} instances")]
    if agreement.differences:
        rows = ((each.instance_id, each.ours, each.official, each.reason) for each in agreement.differences)
        blocks.append(table(("instance", "here", "SWE-bench's report", "why here"), rows, n_text=4))
    if agreement.unknown_ids:
        unknown = f"{len(agreement.unknown_ids)} instances of SWE-bench's report are not in --instances"
        blocks.append(Paragraph(f"{unknown}, such as {agreement.unknown_ids[0]}"))
    return blocks


def repeats_blocks(repeats: "Repeats", n_files: int) -> list[Block]:
    """Return the report on several attempts at each instance."""
    passes = [Paragraph(f"pass@{k}: {_share(estimate)}") for k, estimate in repeats.pass_at.items()]
    return [Paragraph(f"resolved over {n_files} attempts: {_share(repeats.mean)}"), *passes]


def effort_blocks(efforts: "PerResolved") -> list[Block]:
    """Return the effort per resolved instance."""
    lines = [] if efforts.calls is not None else ["no attempt whose trajectory is stored resolved its instance"]
    for name, estimate in (("calls of the model", efforts.calls), ("cost", efforts.cost)):
        if estimate is not None:
            low, high = ("unknown" if end is None else f"{end:.4g}" for end in (estimate.low, estimate.high))
            lines.append(
                f"{name} per resolved instance: {estimate.value:.4g}, 95% interval {low} to {high} over {estimate.n} "
                f"instances ({estimate.method})"
            )
    return [Paragraph(line) for line in lines]


def split_blocks(split: "CutoffSplit") -> list[Block]:
    """Return the share that is resolved before a date and from it on."""
    lines = [
        f"created {name} {split.cutoff}: {'no scored instance' if estimate is None else _share(estimate)}"
        for name, estimate in (("before", split.before), ("from", split.after))
    ]
    if split.difference is not None:
        difference = split.difference
        low, high = 100 * difference.low, 100 * difference.high
        lines.append(
            f"from {split.cutoff} on minus before: {100 * difference.difference:+.1f} points, 95% interval {low:+.1f} "
            f"to {high:+.1f}, p {difference.p:.3g} ({difference.method})"
        )
    lines += [f"{split.n_undated} instances have no date"] if split.n_undated else []
    return [Paragraph(line) for line in lines]


def _share(estimate: "IntervalEstimate") -> str:
    low, high = (100 * end if end is not None else float("nan") for end in (estimate.low, estimate.high))
    return (
        f"{100 * estimate.value:.1f}% of {estimate.n} scored instances, 95% interval {low:.1f}% to {high:.1f}% "
        f"({estimate.method})"
    )
