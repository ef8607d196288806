"""Online outcomes, and offline scores beside them, as documents."""

from collections.abc import Sequence

from assaymark.applications.offline_beside_online import OfflineScorer, ScorerCorrelation
from assaymark.applications.outcomes import OutcomeReport
from assaymark.documents.blocks import Block, Paragraph, table
from assaymark.documents.numbers import NOTHING, counted, four_digits, shown_difference, shown_p, significant


def outcome_blocks(report: OutcomeReport) -> list[Block]:
    """Return each variant's mean, the omitted users, and the differences from the control."""
    rows = []
    for arm, mean in zip(report.outcomes.arms, report.means, strict=True):
        if mean is None:
            rows.append((arm.name, f"{arm.n_assigned:,}", "0", NOTHING, ""))
            continue
        interval = "" if mean.low is None or mean.high is None else (
            f"{significant(mean.low, 4)} to {significant(mean.high, 4)}")  # fmt: skip
        rows.append((arm.name, f"{arm.n_assigned:,}", f"{mean.n_rows:,}", four_digits(mean.mean), interval))
    blocks: list[Block] = [table(("variant", "users", "rows", "mean", "95% interval"), rows)]
    outcomes = report.outcomes
    if outcomes.n_without_outcome:
        blocks.append(Paragraph(f"left out: {counted(outcomes.n_without_outcome, 'row')} without an outcome"))
    if outcomes.n_in_several:
        users, of_them = counted(outcomes.n_in_several, "user"), counted(outcomes.n_rows_in_several, "row")
        blocks.append(Paragraph(f"left out: {users} who met several variants, with {of_them}"))
    if outcomes.n_without_covariate:
        users = counted(outcomes.n_without_covariate, "user")
        blocks.append(Paragraph(f"{users} without the covariate count with the others' mean of it"))
    return [*blocks, *_difference_blocks(report)]


def _difference_blocks(report: OutcomeReport) -> list[Block]:
    ratio = report.ratio
    expected = ":".join(f"{each:,.1f}".removesuffix(".0") for each in ratio.expected)
    seen = ":".join(f"{each:,}" for each in ratio.observed)
    verdict = f"sample ratio: {seen} users, planned {expected}, p {shown_p(ratio.p)}"
    if report.differences is None:
        why = (
            "BROKEN. Users did not come to the variants as planned, so their difference would be one of users, and is "
            "not shown; find what assigns, drops or logs them differently"
        )
        return [Paragraph(f"{verdict}: {why}", "warning")]
    is_several, is_one_look = len(report.differences) > 1, report.planned is None
    rows = []
    for each in report.differences:
        estimate = each.estimate
        # p holds for one look only, so it is not shown beside an interval that holds at any time
        ps = [shown_p(estimate.p), *([shown_p(each.p_adjusted)] if is_several else [])]
        rows.append([
            each.name,
            shown_difference(estimate.difference, proportion=False),
            NOTHING if each.low is None or each.high is None
            else f"{shown_difference(each.low, proportion=False)} to {shown_difference(each.high, proportion=False)}",
            *(ps if is_one_look else [NOTHING] * len(ps)),
            NOTHING if estimate.theta is None else f"{100 * estimate.variance_left:.0f}%",
        ])  # fmt: skip
    interval = "95% interval" if is_one_look else "95% interval, at any time"
    columns = ("difference", interval, "p", *(["p (Holm)"] if is_several else []), "noise left")
    blocks: list[Block] = [Paragraph(verdict), table((f"minus {report.control}", *columns), rows)]
    if not is_one_look:
        holds = (
            f"the interval holds however often you look, if {report.planned:,} users were planned before the first look"
        )
        blocks.append(Paragraph(f"{holds}; p of one look is not shown"))
    return blocks


def offline_blocks(
    lines: Sequence[OfflineScorer], correlated: Sequence[ScorerCorrelation], n_variants: int
) -> list[Block]:
    """Return whether offline scores agree with the users, for each scorer and variant, and over several variants."""
    rows = []
    for line in lines:
        difference, low, high = (
            shown_difference(each, proportion=False) for each in (line.difference, line.low, line.high)
        )
        rows.append((line.scorer, line.variant, difference, f"{low} to {high}", f"{line.n:,}", line.verdict))
    columns = ("offline scorer", "variant", "difference", "95% interval", "rows", "with users")
    blocks: list[Block] = [table(columns, rows, n_text=2)]
    if not correlated:
        few = f"{n_variants} variants say whether directions agree; a correlation needs 5 or more"
        blocks.append(Paragraph(few))
    for each in correlated:
        spearman = each.spearman
        value = NOTHING if spearman.value is None else f"{spearman.value:.2f}"
        interval = "" if spearman.low is None or spearman.high is None else (
            f", {spearman.low:.2f} to {spearman.high:.2f}")  # fmt: skip
        what = f"Spearman's correlation with the outcome over {spearman.n} variants"
        blocks.append(Paragraph(f"{each.scorer}: {what} {value}{interval}"))
    return blocks
