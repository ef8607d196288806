"""The whole report on a judge: agreement with people, biases beside people's, corrected win rates, and a verdict."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.judges.agreement import BesideConstant, PairVote, RaterAgreement, Share, agreement_of
from assaymark.judges.biases import SelfPreference, first_share, length_slope, own_model, self_preference
from assaymark.judges.corrected import CorrectedRate, corrected_rates
from assaymark.judges.pairwise import PairSummary
from assaymark.judges.trust import trust_sentence
from assaymark.records import JsonValue
from assaymark.report.console import Text
from assaymark.report.numbers import NOTHING, counted
from assaymark.report.views.cells import plain_table
from assaymark.statistics.agreement import Agreement
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.logistic import Slope

__all__ = ["JudgeReport", "JudgeVotes", "report_json", "report_on", "report_table"]


@dataclass(frozen=True, slots=True)
class JudgeVotes:
    """A judge's verdicts. orders: what both orders said, where the judge was asked in both; else None."""

    name: str
    votes: Sequence[PairVote]
    n_without_verdict: int = 0
    orders: Sequence[PairSummary] | None = None


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """Everything `assaymark judge agreement` prints. parts: by turn, where the votes have several."""

    judge: str
    agreement: RaterAgreement
    parts: dict[str, RaterAgreement]
    n_without_verdict: int
    judge_length: Slope | None
    people_length: Slope | None
    judge_first: IntervalEstimate | None
    people_first: IntervalEstimate | None
    orders: tuple[PairSummary, ...]
    own: SelfPreference | None
    rates: tuple[CorrectedRate, ...]
    trust: str


def report_on(judge: JudgeVotes, people: Sequence[PairVote], judge_model: str | None = None) -> JudgeReport:
    """Return the report on a judge.

    Args:
        judge: its verdicts.
        people: human votes on pairs of answers, some of which the judge has judged.
        judge_model: the model that the judge is, to look for among the judged ones; None: its name is looked for.

    Raises: DataError if no pair has votes of both.
    """
    votes = judge.votes
    found = agreement_of(votes, people)
    names = sorted({vote.part for vote in votes} & {vote.part for vote in people})
    parts = {}
    for name in names if len(names) > 1 else ():
        parts[name] = agreement_of([v for v in votes if v.part == name], [v for v in people if v.part == name])
    own = own_model(judge_model or judge.name, sorted({m for vote in votes for m in (vote.first, vote.second)}))
    return JudgeReport(
        judge.name,
        found,
        parts,
        judge.n_without_verdict,
        length_slope(votes),
        length_slope(people),
        first_share(votes) if judge.orders is None else None,
        first_share(people),
        tuple(judge.orders or ()),
        None if own is None else self_preference(votes, people, own),
        tuple(corrected_rates(votes, people)),
        trust_sentence(found),
    )


def report_json(report: JudgeReport) -> dict[str, JsonValue]:
    """Return the report as JSON values."""
    return asdict(report)


def report_table(report: JudgeReport) -> RenderableType:
    """Return the report for a terminal: the sentence, then agreement, biases and win rates."""
    found = report.agreement
    head = Text(report.trust, style="bold")
    facts = (
        f"{counted(found.n_judged, 'pair')} judged by {report.judge}, {found.n_labelled:,} of them with "
        f"{counted(found.n_votes, 'human vote')}"
    )
    if report.n_without_verdict:
        facts += f"; {report.n_without_verdict:,} without a verdict, left out"
        if found.with_majority.n:
            share = found.with_majority.n_agreeing / (found.with_majority.n + report.n_without_verdict)
            facts += f" (with them as disagreement, {share:.1%} with most people)"
    parts = [head, Text(facts, style="dim"), Text(), _agreement_table(report), Text(), _bias_table(report)]
    return Padding(Group(*parts, Text(), _rate_table(report.rates), *_rate_notes(report.rates)), (0, 1))


def _agreement_table(report: JudgeReport) -> RenderableType:
    table = plain_table()
    table.add_column("agreement", overflow="fold")
    for name in ("share", "interval", "n", "by chance", "kappa", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for title, found in [("", report.agreement), *((f", turn {name}", part) for name, part in report.parts.items())]:
        for name, share in (
            ("judge and people", found.judge),
            ("  without ties", found.judge_decisive),
            ("people with each other", found.people),
            ("  without ties", found.people_decisive),
            ("judge and most people", found.with_majority),
        ):
            table.add_row(name if name.startswith(" ") else name + title, *_share_cells(share))
    found = report.agreement
    constant = [] if found.beside_constant is None else [_constant_line(found.beside_constant)]
    return Group(table, *constant, *([_alpha_line(found.alpha)] if found.alpha is not None else []))


def _constant_line(found: BesideConstant) -> Text:
    ends = "" if found.gain.low is None else f" ({found.gain.low:+.1%} to {found.gain.high:+.1%}, 90% interval)"
    return Text(
        f"A judge that always names whichever of two models people prefer agrees with them in {found.constant:.1%} of "
        f"{found.gain.n:,} comparisons; this one in {found.gain.value:+.1%} of them more{ends}",
        style="dim",
    )


def _alpha_line(alpha: Agreement) -> Text:
    value = NOTHING if alpha.value is None else f"{alpha.value:.3f}"
    ends = "" if alpha.low is None else f" ({alpha.low:.3f} to {alpha.high:.3f})"
    return Text(f"Krippendorff's alpha of all people: {value}{ends}, {alpha.n:,} pairs of answers", style="dim")


def _share_cells(share: Share) -> list[str]:
    if share.estimate is None:
        return [NOTHING, "", "0", "", "", ""]
    cells = [f"{share.estimate.value:.1%}", _percents(share.estimate), f"{share.n:,}"]
    cells.append(NOTHING if share.chance is None else f"{share.chance:.1%}")
    kappa = share.kappa
    if kappa is None or kappa.value is None or kappa.low is None:
        return [*cells, "", ""]
    return [*cells, f"{kappa.value:.3f}", f"{kappa.low:.3f} to {kappa.high:.3f}"]


def _percents(value: IntervalEstimate | None) -> str:
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{value.low:.1%} to {value.high:.1%}"


def _bias_table(report: JudgeReport) -> RenderableType:
    table = plain_table()
    for name in ("what else decides", "judge", "people"):
        table.add_column(name, overflow="fold")
    table.add_row("log-odds of winning for twice the length", _slope(report.judge_length), _slope(report.people_length))
    first = _first(report)
    table.add_row("decisive votes for the first answer (the file's)", first, _rate(report.people_first))
    if report.own is not None:
        own = report.own
        ends = f"{own.difference.value:+.3f} ({own.difference.low:+.3f} to {own.difference.high:+.3f}) beside people"
        table.add_row(f"score of its own model, {own.model}", f"{own.judge:.3f}; {ends}", f"{own.people:.3f}")
    else:
        table.add_row("score of its own model", "it is not among the judged ones", NOTHING)
    return table


def _first(report: JudgeReport) -> str:
    if not report.orders:
        return _rate(report.judge_first)
    n = sum(one.n for one in report.orders)
    if not n:
        return NOTHING
    first, second = sum(one.first for one in report.orders), sum(one.second for one in report.orders)
    return f"by order alone: {first / n:.1%} of pairs to the first shown, {second / n:.1%} to the second"


def _slope(slope: Slope | None) -> str:
    if slope is None:
        return "lengths are not known"
    if slope.value is None:
        return f"undefined, n = {slope.n:,}"
    ends = "" if slope.low is None else f" ({slope.low:+.2f} to {slope.high:+.2f})"
    return f"{slope.value:+.2f}{ends}, n = {slope.n:,}"


def _rate(value: IntervalEstimate | None) -> str:
    return NOTHING if value is None else f"{value.value:.1%} ({_percents(value)})" if _percents(value) else NOTHING


def _rate_table(rates: Sequence[CorrectedRate]) -> RenderableType:
    table = plain_table()
    table.add_column("win rate", overflow="fold")
    for name in ("judge alone", "people alone", "corrected (PPI)", "Rogan-Gladen", "judged", "labels"):
        table.add_column(name, justify="right")
    for one in rates:
        cells = [_rate(value) for value in (one.judge, one.people, one.ppi, one.rogan_gladen)]
        table.add_row(one.model, *cells, f"{one.n_judged:,}", f"{one.n_labelled:,}")
    return table


def _rate_notes(rates: Sequence[CorrectedRate]) -> list[Text]:
    why = {one.why_none: None for one in rates if one.why_none is not None}
    return [Text(f"not corrected: {text}", style="dim") for text in why]
