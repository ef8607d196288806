"""The whole report on a judge: agreement with people, biases beside people's, corrected win rates, and a verdict.

The verdict is one sentence on whether a judge can replace people. Biases are for long answers, for the answer shown
first, and for its own answers; each is compared with people's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from assaymark.documents.blocks import Block, Cell, Cells, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.judges.agreement import BesideConstant, PairVote, RaterAgreement, Share, agreement_of, by_pair
from assaymark.judges.corrected import CorrectedRate, corrected_rates
from assaymark.judges.judge_votes import has_task_column, judging_named, votes_in_file, votes_of_judging
from assaymark.judges.pairwise import PairSummary
from assaymark.judges.results import read_results, summarise
from assaymark.judges.single import mean_over_questions
from assaymark.registry import meant, nearest
from assaymark.results.model_names import short_model_name
from assaymark.runs.stored import existing_store
from assaymark.statistics.agreement import Agreement
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.logistic import Slope, logistic_slope
from assaymark.store import RunRow, Store


@dataclass(frozen=True, slots=True)
class SelfPreference:
    """A judge's preference for the answers of its own model beyond people's.

    difference: its mean score for them minus people's, on the same pairs of answers; -1 to 1.
    """

    model: str
    judge: float
    people: float
    difference: IntervalEstimate


def length_slope(votes: Sequence[PairVote]) -> Slope | None:
    """Return the slope of the log-odds of winning on log2 of the ratio of lengths; None without lengths.

    Its unit: the increase of the log-odds for the first answer if that is twice as long as the other one.
    Ties are excluded; votes on one question are dependent.
    """
    known = [(vote, vote.lengths) for vote in votes if vote.lengths is not None and vote.value != 0.5]
    usable = [(vote, a, b) for vote, (a, b) in known if a > 0 and b > 0]
    if not usable:
        return None
    x = [math.log2(a / b) for _, a, b in usable]
    return logistic_slope(x, [vote.value for vote, *_ in usable], [vote.question for vote, *_ in usable])


def first_share(votes: Sequence[PairVote]) -> IntervalEstimate | None:
    """Return the share of decisive votes for the first answer.

    It is a bias of position only if the answers' sides were drawn by chance and `first` is the one shown first. So it
    is None if each pair of models occurs in one order only, since the order then depends on the models.
    """
    decisive = [vote for vote in votes if vote.value != 0.5]
    orders = {(vote.first, vote.second) for vote in votes}
    if not decisive or not any((second, first) in orders for first, second in orders):
        return None
    return mean_over_questions([vote.value for vote in decisive], [vote.question for vote in decisive], binary=True)


def own_model(judge: str, models: Sequence[str]) -> str | None:
    """Return the judged model that is the judge itself, by the letters and digits of both names; None if none is."""
    plain = {_plain(model): model for model in models}
    return plain.get(_plain(judge))


def _plain(name: str) -> str:
    return "".join(character for character in name.rstrip("/").rpartition("/")[2].lower() if character.isalnum())


def _for(model: str, vote: PairVote) -> float:
    return vote.value if vote.first == model else 1.0 - vote.value


def self_preference(judged: Sequence[PairVote], people: Sequence[PairVote], model: str) -> SelfPreference | None:
    """Return a judge's preference for its own model beyond people's; None with fewer than two pairs of both."""
    labels = by_pair(people)
    own: list[tuple[str, float, float]] = []
    for key, verdicts in by_pair(judged).items():
        if key in labels and model in key[1:]:
            human = sum(_for(model, vote) for vote in labels[key]) / len(labels[key])
            own += [(vote.question, _for(model, vote), human) for vote in verdicts]
    if len(own) < 2:
        return None
    differences = [judge - human for _, judge, human in own]
    estimate = mean_over_questions(differences, [question for question, *_ in own], bounds=(-1.0, 1.0))
    n = len(own)
    return SelfPreference(model, sum(judge for _, judge, _ in own) / n, sum(human for *_, human in own) / n, estimate)


FEWEST = 50  # labelled pairs: with fewer the interval of agreement is wider than 25 points
ENOUGH = 0.6  # kappa, where people's own agreement is not known: "substantial" by Landis and Koch 1977
SOME = 0.4  # "moderate"


def trust_sentence(agreement: RaterAgreement) -> str:
    """Return whether the judge can be trusted for this, and why.

    With too few labels it cannot be said. The judge cannot if its agreement is within chance, or not above that of a
    judge that always names the model, or the position, that people prefer. It can if its agreement is at least people's
    own, within the interval. Otherwise Cohen's kappa of the verdicts decides: from 0.6 on it can with the corrected win
    rate, from 0.4 on only to find large differences, and below it cannot.
    """
    judge, kappa = agreement.judge, agreement.judge.kappa
    if agreement.n_labelled < FEWEST:
        return (
            f"It cannot be said whether this judge can be trusted: people have voted on {agreement.n_labelled} of its "
            f"pairs, and at least {FEWEST} are needed."
        )
    if kappa is None or kappa.value is None or kappa.low is None or kappa.low <= 0:
        return (
            f"This judge cannot be trusted here: it agrees with people in {_share_text(judge)}, and "
            f"{_percent(judge.chance)} would be expected by chance."
        )
    for constant, names in ((agreement.beside_constant, "whichever of two models people prefer"),
                            (agreement.beside_position, "the first answer, or always the second")):  # fmt: skip
        if constant is None or constant.gain.low is None or constant.gain.low <= 0:
            known = "" if constant is None else f" ({_percent(constant.constant)})"
            return (
                f"This judge cannot be trusted here: it agrees with people in {_share_text(judge)}, and not clearly "
                f"more than a judge that always names {names}{known}."
            )
    if (beside := _as_people(agreement)) is not None:
        return beside
    why = f"it agrees with people in {_share_text(judge)} (kappa {kappa.value:.2f})"
    if agreement.people.estimate is not None:
        why += f", people with each other in {_share_text(agreement.people)}"
    if kappa.value >= ENOUGH:
        return f"This judge can be trusted here with the corrected win rates: {why}."
    if kappa.value >= SOME:
        return f"This judge can show large differences here, and small ones only after correction: {why}."
    return f"This judge cannot be trusted here: {why}."


def _as_people(agreement: RaterAgreement) -> str | None:
    """Return the sentence for a judge that agrees with people as they do with each other; None for others."""
    judge, people = agreement.judge, agreement.people
    if people.estimate is None or people.n < FEWEST or judge.estimate is None:
        return None
    low = people.estimate.value if people.estimate.low is None else people.estimate.low
    if judge.estimate.value < low:
        return None
    return (
        f"This judge can be trusted here as one more person could: it agrees with people in {_share_text(judge)}, and "
        f"people agree with each other in {_share_text(people)}."
    )


def _share_text(share: Share) -> str:
    return f"{_percent(share.n_agreeing / share.n)} of {share.n:,} comparisons"


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{share:.1%}"


@dataclass(frozen=True, slots=True)
class JudgeVotes:
    """A judge's verdicts. orders: the verdicts in both orders, if the judge was asked in both; else None."""

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
        people: human votes on pairs of answers, some of which the judge has judged.
        judge_model: the judge's own model, to find among the judged ones; None: its name is looked for.

    Raises: DataError if no pair has votes of both.
    """
    votes = judge.votes
    agreement = agreement_of(votes, people)
    names = sorted({vote.part for vote in votes} & {vote.part for vote in people})
    parts = {}
    for name in names if len(names) > 1 else ():
        parts[name] = agreement_of([v for v in votes if v.part == name], [v for v in people if v.part == name])
    models = sorted({model for vote in votes for model in (vote.first, vote.second)})
    own = own_model(judge.name, models)
    if judge_model is not None:
        own = own_model(meant(judge_model, models), models)
        if own is None:
            raise UnknownName("judged model", judge_model, nearest(judge_model, models), f"known: {', '.join(models)}")
    return JudgeReport(
        judge.name,
        agreement,
        parts,
        judge.n_without_verdict,
        length_slope(votes),
        length_slope(people),
        first_share(votes) if judge.orders is None else None,
        first_share(people),
        tuple(judge.orders or ()),
        None if own is None else self_preference(votes, people, own),
        tuple(corrected_rates(votes, people)),
        trust_sentence(agreement),
    )


def report_document(report: JudgeReport) -> Document:
    """Return the report: the sentence, then agreement, biases and win rates."""
    agreement = report.agreement
    facts = (
        f"{counted(agreement.n_judged, 'pair')} judged by {report.judge}, {agreement.n_labelled:,} of them with "
        f"{counted(agreement.n_votes, 'human vote')}"
    )
    if report.n_without_verdict:
        facts += f"; {report.n_without_verdict:,} without a verdict, left out"
        if agreement.with_majority.n:
            share = agreement.with_majority.n_agreeing / (agreement.with_majority.n + report.n_without_verdict)
            facts += f" (with them as disagreement, {share:.1%} with most people)"
    return document(
        Paragraph(report.trust, "verdict"), Paragraph(facts, "facts"), _agreement(report), _biases(report),
        _rates(report.rates),
    )  # fmt: skip


def _agreement(report: JudgeReport) -> list[Block]:
    rows: list[Cells] = []
    for title, agreement in [
        ("", report.agreement),
        *((f", turn {name}", part) for name, part in report.parts.items()),
    ]:
        for name, depth, share in (
            (f"judge and people{title}", 0, agreement.judge),
            ("without ties", 1, agreement.judge_decisive),
            (f"people with each other{title}", 0, agreement.people),
            ("without ties", 1, agreement.people_decisive),
            (f"judge and most people{title}", 0, agreement.with_majority),
        ):
            rows.append((Cell(name, depth=depth), *_share_cells(share)))
    agreement = report.agreement
    lines = [
        _constant_line(beside, names)
        for beside, names in (
            (agreement.beside_constant, "whichever of two models people prefer"),
            (agreement.beside_position, "the first answer that it is shown, or always the second,"),
        )
        if beside is not None
    ]
    lines += [_alpha_line(agreement.alpha)] if agreement.alpha is not None else []
    columns = ("agreement", "share", "interval", "n", "by chance", "kappa", "interval")
    return [table(columns, rows), *(Paragraph(line, "facts") for line in lines)]


def _constant_line(beside: BesideConstant, names: str) -> str:
    ends = "" if beside.gain.low is None else f" ({beside.gain.low:+.1%} to {beside.gain.high:+.1%}, 90% interval)"
    return (
        f"A judge that always names {names} agrees with people in {beside.constant:.1%} of "
        f"{beside.gain.n:,} comparisons; this one in {beside.gain.value:+.1%} of them more{ends}"
    )


def _alpha_line(alpha: Agreement) -> str:
    value = NOTHING if alpha.value is None else f"{alpha.value:.3f}"
    ends = "" if alpha.low is None else f" ({alpha.low:.3f} to {alpha.high:.3f})"
    return f"Krippendorff's alpha of all people: {value}{ends}, {alpha.n:,} pairs of answers"


def _share_cells(share: Share) -> list[str]:
    if share.estimate is None:
        return [NOTHING, "", "0", "", "", ""]
    cells = [f"{share.estimate.value:.1%}", shown_range(share.estimate), f"{share.n:,}"]
    cells.append(NOTHING if share.chance is None else f"{share.chance:.1%}")
    kappa = share.kappa
    if kappa is None or kappa.value is None or kappa.low is None:
        return [*cells, "", ""]
    return [*cells, f"{kappa.value:.3f}", f"{kappa.low:.3f} to {kappa.high:.3f}"]


def shown_range(value: IntervalEstimate | None) -> str:
    """Return the interval of a share; empty where there is none."""
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{value.low:.1%} to {value.high:.1%}"


def _biases(report: JudgeReport) -> Block:
    own = ("score of its own model", "it is not among the judged ones", NOTHING)
    if report.own is not None:
        score, difference = report.own, report.own.difference
        ends = f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f}) beside people"
        own = (f"score of its own model, {score.model}", f"{score.judge:.3f}; {ends}", f"{score.people:.3f}")
    rows = [
        ("log-odds of winning for twice the length", _slope(report.judge_length), _slope(report.people_length)),
        ("decisive votes for the first answer (the file's)", _order_note(report), _rate(report.people_first)),
        own,
    ]
    return table(("what else decides", "judge", "people"), rows, n_text=3)


def _order_note(report: JudgeReport) -> str:
    if not report.orders:
        return _rate(report.judge_first)
    n = sum(summary.n for summary in report.orders)
    if not n:
        return NOTHING
    first, second = sum(summary.first for summary in report.orders), sum(summary.second for summary in report.orders)
    return f"by order alone: {first / n:.1%} of pairs to the first shown, {second / n:.1%} to the second"


def _slope(slope: Slope | None) -> str:
    if slope is None:
        return "lengths are not known"
    if slope.value is None:
        return f"undefined, n = {slope.n:,}"
    ends = "" if slope.low is None else f" ({slope.low:+.2f} to {slope.high:+.2f})"
    return f"{slope.value:+.2f}{ends}, n = {slope.n:,}"


def _rate(value: IntervalEstimate | None) -> str:
    return NOTHING if value is None else f"{value.value:.1%} ({shown_range(value)})" if shown_range(value) else NOTHING


def _rates(rates: Sequence[CorrectedRate]) -> list[Block]:
    rows = []
    for rate in rates:
        cells = [_rate(value) for value in (rate.judge, rate.people, rate.ppi, rate.rogan_gladen)]
        rows.append((rate.model, *cells, f"{rate.n_judged:,}", f"{rate.n_labelled:,}"))
    columns = ("win rate", "judge alone", "people alone", "corrected (PPI)", "Rogan-Gladen", "judged", "labels")
    why = dict.fromkeys(rate.why_none for rate in rates if rate.why_none is not None)
    return [table(columns, rows), *(Paragraph(f"not corrected: {text}", "facts") for text in why)]


@dataclass(frozen=True, slots=True)
class VoteFileOptions:
    """How files of votes are read.

    columns, human_columns: names of columns that are not recognised, of the judge's file and of the people's.
    missing: verdicts that stand for none. without: patterns of human raters to leave out, such as `author_*`.
    """

    columns: Mapping[str, str] | None = None
    human_columns: Mapping[str, str] | None = None
    missing: Sequence[str] = ()
    without: Sequence[str] = ()


def judge_agreement(
    judge: str,
    human: str | Path,
    options: VoteFileOptions | None = None,
    *,
    judge_model: str | None = None,
    store: str | None = None,
) -> JudgeReport:
    """Return the report on a judge beside human votes on the same pairs of answers.

    Args:
        judge: a stored judging of two runs, or a file of verdicts.
        human: a file of votes; matched by question, turn and models.
        options: how the files are read.
        judge_model: the model that the judge is, where it is among the judged ones under another name.
        store: the database of stored runs.

    Raises: UsageError for a file or a judging that does not exist or is of another kind; DataError for unknown verdicts
        or nothing in common.
    """
    chosen = options or VoteFileOptions()
    path = Path(human)
    if not path.is_file():
        raise UsageError(f"file not found: {human}; --human is a file of votes, see `assaymark arena rate --help`")
    row = judging_named(store, judge)
    people = [
        vote
        for vote in votes_in_file(path, chosen.human_columns, chosen.missing, for_judging=row is not None).votes
        if not any(fnmatchcase(vote.rater, pattern) for pattern in chosen.without)
    ]
    if not people:
        raise DataError(f"{path.name} has no vote left without {', '.join(chosen.without)}")
    votes = _votes_in(judge, chosen) if row is None else _votes_of(row, existing_store(store), path)
    return report_on(*_aligned(votes, people), judge_model)


def _aligned(judge: JudgeVotes, people: Sequence[PairVote]) -> tuple[JudgeVotes, Sequence[PairVote]]:
    """Return both without turns, where one side names none and the other has a single one."""
    sides = [{vote.part for vote in side} for side in (judge.votes, people)]
    if sides[0] == sides[1] or max(map(len, sides)) > 1 or {""} not in sides:
        return judge, people
    plain = [[replace(vote, part="") for vote in side] for side in (judge.votes, people)]
    return replace(judge, votes=plain[0]), plain[1]


def _votes_in(judge: str, options: VoteFileOptions) -> JudgeVotes:
    votes = votes_in_file(Path(judge), options.columns, options.missing)
    raters = {vote.rater for vote in votes.votes if vote.rater}
    column = (options.columns or {}).get("winner")
    name = column or (raters.pop() if len(raters) == 1 else Path(judge).stem)
    return JudgeVotes(name, votes.votes, votes.n_without_verdict)


def _votes_of(row: RunRow, opened: Store, human: Path) -> JudgeVotes:
    votes = votes_of_judging(opened, row, by_task=has_task_column(human))
    if not votes.votes:
        raise DataError(
            f"judging {row.short_id} holds no verdict ({votes.n_without_verdict:,} texts of {row.model} have none), so "
            "there is nothing to compare with people; this judge does not follow the prompt"
        )
    orders = [summary for summary in summarise(read_results(opened, row)) if isinstance(summary, PairSummary)]
    return JudgeVotes(short_model_name(row.model), votes.votes, votes.n_without_verdict, orders)
