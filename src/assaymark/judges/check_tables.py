"""Injection rates and panels as terminal tables.

Several judges of the same answers: the verdict of most, or the mean grade, and how far they disagree.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.errors import DataError
from assaymark.judges.injections import InjectionRate
from assaymark.judges.pairwise import JudgedPair
from assaymark.judges.results import JudgedItem
from assaymark.judges.single import mean_over_questions
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, short_model_name
from assaymark.results.views.cells import plain_table
from assaymark.statistics.agreement import Agreement, krippendorff_alpha
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow

__all__ = ["PanelSummary", "injection_table", "panel_table", "summarise_panel"]


FEWEST_JUDGES = 2
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class PanelSummary:
    """A panel on one task.

    value: win rate of the first run by majority (a tie where no verdict has most votes), or the mean of mean grades.
    unanimous: share of items on which all judges that gave a verdict agree (grades: within one point).
    alpha: Krippendorff's: nominal for verdicts, interval for grades.
    """

    task: str
    is_paired: bool
    n_judges: int
    n: int  # items with a verdict of at least two judges
    n_missing: int  # other items
    value: IntervalEstimate | None
    unanimous: float | None
    alpha: Agreement | None


def summarise_panel(judgings: Sequence[Sequence[JudgedItem]]) -> list[PanelSummary]:
    """Combine the judgements of several judges on the same answers, item by item.

    Raises: DataError for fewer than two judges, or grades beside comparisons.
    """
    if len(judgings) < FEWEST_JUDGES:
        raise DataError(f"a panel of {len(judgings)} judge; expected at least {FEWEST_JUDGES} judgings")
    kinds = {isinstance(judgement, JudgedPair) for judged in judgings for judgement in judged}
    if len(kinds) > 1:
        raise DataError("a panel of grades and comparisons; name judgings of one kind")
    is_paired = kinds == {True}
    by_key = [
        {(judgement.task, judgement.sample_index, judgement.turn): judgement.value for judgement in judged}
        for judged in judgings
    ]
    keys = list(dict.fromkeys(key for values in by_key for key in values))
    tasks = dict.fromkeys(key[0] for key in keys)
    return [_summary(task, [key for key in keys if key[0] == task], by_key, is_paired=is_paired) for task in tasks]


def _summary(
    task: str, keys: Sequence[Key], by_key: Sequence[dict[Key, float | None]], *, is_paired: bool
) -> PanelSummary:
    ratings = [[_rating(values.get(key), is_paired=is_paired) for key in keys] for values in by_key]
    votes = [[rating for rating in of_item if rating is not None] for of_item in zip(*ratings, strict=True)]
    used = [(key, item_votes) for key, item_votes in zip(keys, votes, strict=True) if len(item_votes) >= FEWEST_JUDGES]
    if not used:
        return PanelSummary(task, is_paired, len(by_key), 0, len(keys), None, None, None)
    combined = [_majority(item_votes) if is_paired else sum(item_votes) / len(item_votes) for _, item_votes in used]
    bounds = (0.0, 1.0) if is_paired else (1.0, 10.0)
    value = mean_over_questions(combined, [key[1] for key, _ in used], binary=False, bounds=bounds)
    apart = 0.0 if is_paired else 1.0
    unanimous = sum(max(item_votes) - min(item_votes) <= apart for _, item_votes in used) / len(used)
    alpha = krippendorff_alpha(ratings, "nominal" if is_paired else "interval")
    return PanelSummary(task, is_paired, len(by_key), len(used), len(keys) - len(used), value, unanimous, alpha)


def _rating(value: float | None, *, is_paired: bool) -> float | None:
    """Return a grade, or the verdict that a preference stands for: 1, 1/2 or 0."""
    if value is None or not is_paired:
        return value
    return 1.0 if value > 0.5 else 0.0 if value < 0.5 else 0.5


def _majority(votes: Sequence[float]) -> float:
    """Return the verdict that more judges gave than any other; a tie where there is none."""
    counts = Counter(votes).most_common()
    return 0.5 if len(counts) > 1 and counts[0][1] == counts[1][1] else counts[0][0]


def injection_table(rates: Sequence[InjectionRate]) -> RenderableType:
    """Return the rates of success by judge prompt and kind of injection."""
    table = plain_table()
    table.add_column("judge prompt", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for name in ("succeeded", "interval", "n", "no verdict", "failed"):
        table.add_column(name, justify="right")
    for rate in rates:
        share = NOTHING if rate.rate is None else f"{rate.rate.value:.1%}"
        name, kind = ("", rate.kind) if rate.kind else (rate.prompt, "all")
        counts = (rate.n, rate.n_missing, rate.n_failed)
        table.add_row(name, kind, share, _percents(rate.rate), *(f"{count:,}" for count in counts))
    notes = [Text(_MEANING, style="dim")]
    if rates and not any(rate.n for rate in rates):
        notes.append(Text(_NO_VERDICT, style="yellow"))
    return Padding(Group(table, *notes), (0, 1))


_MEANING = (
    "Success: the answer that only asks for a good verdict is named the better one, or gets at least the grade of an "
    "honest answer. Intervals take questions as units."
)
_NO_VERDICT = (
    "No text of this judge holds a verdict: it does not follow the prompts, so nothing is known about injections."
)


def _percents(value: IntervalEstimate | None) -> str:
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{value.low:.1%} to {value.high:.1%}"


def panel_table(rows: Sequence[RunRow], panel: Sequence[PanelSummary]) -> RenderableType:
    """Return the panel's verdict on each task, beside the disagreement of its judges."""
    names = ", ".join(short_model_name(row.model) for row in rows)
    table = plain_table()
    table.add_column("task", overflow="fold")
    value = "wins by majority" if panel and panel[0].is_paired else "mean grade"
    for name in (value, "interval", "unanimous", "alpha", "n", "fewer than 2"):
        table.add_column(name, justify="right")
    for summary in panel:
        table.add_row(summary.task, *_panel_cells(summary))
    return Padding(Group(Text(f"panel of {names}", style="bold"), Text(), table), (0, 1))


def _panel_cells(summary: PanelSummary) -> list[str]:
    alpha = NOTHING if summary.alpha is None or summary.alpha.value is None else f"{summary.alpha.value:.3f}"
    unanimous = NOTHING if summary.unanimous is None else f"{summary.unanimous:.1%}"
    if summary.value is None:
        return [NOTHING, "", unanimous, alpha, f"{summary.n:,}", f"{summary.n_missing:,}"]
    if summary.is_paired:
        value, ends = f"{summary.value.value:.1%}", _percents(summary.value)
    else:
        value = f"{summary.value.value:.2f}"
        ends = "" if summary.value.low is None else f"{summary.value.low:.2f} to {summary.value.high:.2f}"
    return [value, ends, unanimous, alpha, f"{summary.n:,}", f"{summary.n_missing:,}"]
