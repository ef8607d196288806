"""Panels: several stored judgings of the same answers, their majority and how far the judges disagree."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import DataError, UsageError
from assaymark.judges.judging import JUDGING
from assaymark.judges.pairwise import JudgedPair
from assaymark.judges.results import JudgedItem, read_results
from assaymark.judges.single import mean_over_questions
from assaymark.runs.stored import existing_store
from assaymark.statistics.agreement import Agreement, krippendorff_alpha
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow

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


def judge_panel(names: Sequence[str], store: str | None = None) -> tuple[list[RunRow], list[PanelSummary]]:
    """Return the judgings with these ids, and the panel's summary of each task.

    Raises: UsageError for runs that are no judgings, or judgings of different answers; UnknownName; DataError for fewer
        than two, or of different kinds.
    """
    opened = existing_store(store)
    rows = [opened.run(name) for name in names]
    judged: dict[str, None] = {}
    for row in rows:
        settings = row.plan.audit_settings
        if row.plan.audit != JUDGING or settings is None:
            raise UsageError(f"{row.short_id} is not a judging; a panel is made of judgings (see `assaymark ls runs`)")
        judged[str(settings.settings["answers"])] = None
    if len(judged) > 1:
        raise UsageError(
            f"{', '.join(row.short_id for row in rows)} judge different answers; a panel judges the same runs in "
            "the same order, with the same --limit and --reference"
        )
    if len({row.run_id for row in rows}) < len(rows):
        raise UsageError("a judging is named twice; a panel counts each judge once")
    return rows, summarise_panel([read_results(opened, row) for row in rows])
