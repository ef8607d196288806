"""Results of studies: the preference for each pair of models and category, with its interval, and raters' agreement.

Also their table for a terminal, and exports.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from assaymark.arena.studies.study_file import StudyPlan, StudyQuestion
from assaymark.arena.studies.study_log import AssignmentRow, StudyLog
from assaymark.arena.votes import WINNERS
from assaymark.documents.blocks import Block, Column, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.drafts import write_whole
from assaymark.errors import DataError, write_errors
from assaymark.statistics.agreement import krippendorff_alpha
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.intervals import wilson
from assaymark.store import Store

ALL = "all"
FEWEST_IN_GROUP = 5  # raters; results of fewer could identify them
_POINTS = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}


@dataclass(frozen=True, slots=True)
class PairResult:
    """How often the first model was preferred, ties as halves; the interval is over comparisons, not ratings."""

    first: str
    second: str
    category: str
    n_comparisons: int
    n_ratings: int
    n_ties: int
    preferred: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """A model's mean on a scale; each prompt counts once, with the mean of its ratings."""

    scale: str
    model: str
    n_prompts: int
    n_ratings: int
    mean: float
    low: float | None  # None for a single prompt
    high: float | None
    alpha: float | None  # Krippendorff's, interval, over all models' answers


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The preferences of raters who said the same about themselves."""

    question: str
    choice: str
    n_raters: int
    pairs: tuple[PairResult, ...]


@dataclass(frozen=True, slots=True)
class StudyAgreement:
    """Agreement on comparisons with several ratings; None where it is not defined."""

    n_pairs: int  # of ratings of one comparison
    same: float | None  # share of these with the same choice
    same_decided: float | None  # share of those pairs without ties
    alpha: float | None  # Krippendorff's, nominal
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class StudyResults:
    """All results; raters who failed an attention check are left out and counted."""

    study: str
    n_raters: int
    n_finished: int
    failed_checks: tuple[str, ...]
    n_ratings: int
    n_assigned: int
    pairs: tuple[PairResult, ...]
    agreement: StudyAgreement
    answers: Mapping[str, Mapping[str, int]]  # other question -> choice -> ratings
    seconds: float | None  # median time of a rating
    scales: tuple[ScaleResult, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    n_small_groups: int = 0  # that are not shown: of fewer than FEWEST_IN_GROUP raters, or revealing those


def study_results(
    plan: StudyPlan,
    rows: Sequence[AssignmentRow],
    states: Mapping[str, str],
    groups: Mapping[str, Mapping[str, str]] | None = None,
) -> StudyResults:
    """Return the results of the answers so far.

    states: rater -> state. groups: rater -> his answers about himself, for the questions by which results are counted.
    """
    failed = tuple(
        sorted({row.rater for row in rows if row.expected and row.answers and row.answers["better"] != row.expected})
    )
    asked = [row for row in rows if row.expected is None]
    used = [row for row in asked if row.answers is not None and row.rater not in failed]
    categories = [ALL, *dict.fromkeys(plan["items"][row.item]["category"] for row in asked)]
    pairs = [
        preference
        for category in categories
        for first, second in combinations(plan["models"], 2)
        if (preference := _pair(plan, used, category, (first, second))) is not None
    ]
    by_group, n_small = _by_group(plan, used, groups or {})
    times = sorted(row.seconds for row in used if row.seconds is not None)
    return StudyResults(
        plan["study"], len(states), sum(state == "finished" for state in states.values()), failed,
        len(used), len(asked), tuple(pairs), _agreement(used),
        {question["id"]: _counts(question, used) for question in plan["questions"]},
        times[len(times) // 2] if times else None, tuple(_scales(plan, used)), by_group, n_small,
    )  # fmt: skip


def _by_group(
    plan: StudyPlan, used: Sequence[AssignmentRow], groups: Mapping[str, Mapping[str, str]]
) -> tuple[tuple[GroupResult, ...], int]:
    """Return the results of each group that is large enough, and the number of groups that are not shown.

    A group's result for a pair of models is shown only if enough of its raters and enough of the others compared them.
    """
    results: list[GroupResult] = []
    n_small = 0
    for question in (each for each in plan["demographics"] if each["id"] in plan.get("groups", ())):
        own: dict[str | None, list[AssignmentRow]] = {}
        for row in used:
            own.setdefault(groups.get(row.rater, {}).get(question["id"]), []).append(row)
        sizes = {choice: len({row.rater for row in rows}) for choice, rows in own.items()}
        hidden = _hidden(sizes, {None})
        n_small += len(hidden - {None})
        pairs: dict[str, list[PairResult]] = {}
        for pair in combinations(plan["models"], 2):
            raters = {choice: len({row.rater for row in rows if {row.model_a, row.model_b} == set(pair)})
                      for choice, rows in own.items()}  # fmt: skip
            hidden_of_pair = _hidden(raters, hidden)
            for choice in (each for each in question["choices"] if each in sizes and each not in hidden):
                preference = None if choice in hidden_of_pair else _pair(plan, own[choice], ALL, pair)
                pairs.setdefault(choice, []).extend([preference] if preference else [])
        results.extend(GroupResult(question["id"], choice, sizes[choice], tuple(own)) for choice, own in pairs.items())
    return tuple(results), n_small


def _hidden(sizes: Mapping[str | None, int], hidden: AbstractSet[str | None]) -> set[str | None]:
    """Return the groups that are not shown by themselves: those `hidden` already, and those that are too small.

    If these together are too small, the smallest of the others is hidden too: otherwise their results could be computed
    from the total and the shown groups.

    sizes: raters of each group; None: of those who did not say.
    """
    smaller = {choice for choice, size in sizes.items() if choice in hidden or size < FEWEST_IN_GROUP}
    if 0 < sum(sizes[choice] for choice in smaller) < FEWEST_IN_GROUP and len(smaller) < len(sizes):
        smaller.add(min(sizes.keys() - smaller, key=lambda choice: (sizes[choice], str(choice))))
    return smaller


def _scales(plan: StudyPlan, used: Sequence[AssignmentRow]) -> Iterator[ScaleResult]:
    for scale in plan.get("scales", ()):
        ratings: dict[tuple[str, int], dict[str, list[int]]] = {}  # (model, prompt) -> rater -> points
        for row in used:
            for model, side in ((row.model_a, "a"), (row.model_b, "b")):
                points = int((row.answers or {})[f"{scale['id']}_{side}"])
                ratings.setdefault((model, row.item), {}).setdefault(row.rater, []).append(points)
        alpha = _scale_alpha(list(ratings.values()))
        for model in plan["models"]:
            prompts = [[p for own in by_rater.values() for p in own] for (name, _), by_rater in ratings.items()
                       if name == model]  # fmt: skip
            if prompts:
                bounds = (1.0, float(scale["points"]))
                estimate = estimate_mean([sum(own) / len(own) for own in prompts], binary=False, bounds=bounds)
                low, high = (None, None) if len(prompts) == 1 else (estimate.low, estimate.high)
                n_ratings = sum(map(len, prompts))
                yield ScaleResult(scale["id"], model, len(prompts), n_ratings, estimate.value, low, high, alpha)


def _scale_alpha(answers: Sequence[Mapping[str, Sequence[int]]]) -> float | None:
    """Return the raters' agreement on answers; a rater who met an answer twice counts with the mean."""
    raters = sorted({rater for by_rater in answers for rater in by_rater})
    table = [[sum(own[rater]) / len(own[rater]) if rater in own else None for own in answers] for rater in raters]
    try:
        return krippendorff_alpha(table, "interval", draws=0).value
    except DataError:  # no answer has two ratings, or all ratings are equal
        return None


def _points_of_first(row: AssignmentRow, first: str) -> float:
    """Return 1 if a rating prefers the first model, 0 if the other, one half for a tie."""
    points = _POINTS[(row.answers or {})["better"]]
    return points if row.model_a == first else 1.0 - points


def _pair(plan: StudyPlan, used: Sequence[AssignmentRow], category: str, pair: tuple[str, str]) -> PairResult | None:
    by_item: dict[int, list[float]] = {}
    for row in used:
        if {row.model_a, row.model_b} == set(pair) and category in {ALL, plan["items"][row.item]["category"]}:
            by_item.setdefault(row.item, []).append(_points_of_first(row, pair[0]))
    if not by_item:
        return None
    means = [sum(points) / len(points) for points in by_item.values()]
    ends = wilson(sum(means), len(means))
    ratings = [point for points in by_item.values() for point in points]
    ties = sum(point == 0.5 for point in ratings)
    return PairResult(*pair, category, len(means), len(ratings), ties, sum(means) / len(means), ends.low, ends.high)


def _agreement(used: Sequence[AssignmentRow]) -> StudyAgreement:
    units: dict[tuple[int, str, str], dict[str, str]] = {}
    for row in used:
        first, other = sorted((row.model_a, row.model_b))
        points = _points_of_first(row, first)
        units.setdefault((row.item, first, other), {})[row.rater] = {1.0: "first", 0.0: "second"}.get(points, "tie")
    several = [ratings for ratings in units.values() if len(ratings) > 1]
    pairs = [pair for ratings in several for pair in combinations(ratings.values(), 2)]
    decided = [pair for pair in pairs if "tie" not in pair]
    raters = sorted({rater for ratings in several for rater in ratings})
    alpha, low, high = None, None, None
    if several:
        try:
            agreement = krippendorff_alpha([[unit.get(rater) for unit in several] for rater in raters])
            alpha, low, high = agreement.value, agreement.low, agreement.high
        except DataError:  # all ratings are equal, so chance agreement is 1
            alpha = None
    return StudyAgreement(len(pairs), _same(pairs), _same(decided), alpha, low, high)


def _same(pairs: Sequence[tuple[str, str]]) -> float | None:
    return sum(choice == other for choice, other in pairs) / len(pairs) if pairs else None


def _counts(question: StudyQuestion, used: Sequence[AssignmentRow]) -> dict[str, int]:
    return {
        choice: sum((row.answers or {}).get(question["id"]) == choice for row in used) for choice in question["choices"]
    }


def study_rows(
    plan: StudyPlan, rows: Sequence[AssignmentRow], *, texts: bool = False
) -> list[dict[str, str | float | None]]:
    """Return the answered comparisons as rows for `assaymark arena rate`, with prompts and answers only if `texts`.

    In a study with results by group, choices of the same rater are not linked: from each rater's choices and a group's
    numbers, the raters of the group could be computed. So raters are numbered anew for each prompt, and rows are in the
    order of their contents.
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(row.rater for row in rows), start=1)}
    answered_rows: list[dict[str, str | float | None]] = []
    for row in rows:
        if row.answers is None or row.expected is not None:
            continue
        item = plan["items"][row.item]
        other = {name: value for name, value in row.answers.items() if name != "better"}
        made: dict[str, str | float | None] = {
            "model_a": row.model_a, "model_b": row.model_b, "winner": WINNERS[row.answers["better"]],
            "prompt_id": f"{plan['study']}/{row.item}", "judge": f"rater {numbers[row.rater]}",
            "category": item["category"], "seconds": row.seconds, **other,
        }  # fmt: skip
        if texts:
            made |= {"prompt": item["prompt"], "response_a": item["answers"][row.model_a],
                     "response_b": item["answers"][row.model_b]}  # fmt: skip
        answered_rows.append(made)
    return _without_links(answered_rows) if plan.get("groups") else answered_rows


def _without_links(rows: Iterable[dict[str, str | float | None]]) -> list[dict[str, str | float | None]]:
    contents = [({name: value for name, value in row.items() if name != "judge"}, row["judge"]) for row in rows]
    contents.sort(key=lambda content: json.dumps(content[0], sort_keys=True))
    raters: dict[object, dict[object, int]] = {}  # prompt -> rater -> its number there
    unlinked: list[dict[str, str | float | None]] = []
    for content, rater in contents:
        own = raters.setdefault(content["prompt_id"], {})
        unlinked.append({**content, "judge": f"{content['prompt_id']} rater {own.setdefault(rater, len(own) + 1)}"})
    return unlinked


HEADERS = ("category", "models", "preferred", "95% interval", "comparisons", "ratings", "ties")


def results_document(results: StudyResults) -> Document:
    """Return the preferences, then agreement and what was left out."""
    agreement = results.agreement
    alpha = NOTHING if agreement.alpha is None else f"{agreement.alpha:.2f}"
    if agreement.low is not None and agreement.high is not None:
        alpha += f" ({agreement.low:.2f} to {agreement.high:.2f})"
    lines = [
        (
            f"{results.n_finished} of {counted(results.n_raters, 'rater')} finished; "
            f"{results.n_ratings} of {results.n_assigned} ratings"
        ),
        (
            f"agreement: same choice in {_share(agreement.same)} of {counted(agreement.n_pairs, 'pair')} of ratings, "
            f"{_share(agreement.same_decided)} without ties; Krippendorff's alpha {alpha}"
        ),
        "preferred: ties are halves; the interval is Wilson's over comparisons, each the mean of its ratings",
    ]
    if results.failed_checks:
        lines.insert(1, f"left out: {', '.join(results.failed_checks)}, who failed an attention check")
    for name, of in results.answers.items():
        lines.append(f"{name}: {', '.join(f'{choice} {n}' for choice, n in of.items())}")
    small = (
        f"not shown: {counted(results.n_small_groups, 'group')} of fewer than {FEWEST_IN_GROUP} raters, "
        "or by which those could be told"
    )
    return document(
        table(HEADERS, [(pair.category, *_preference(pair)[:4], str(pair.n_ratings), str(pair.n_ties))
                        for pair in results.pairs], n_text=2),
        [Paragraph(line) for line in lines],
        _scale_blocks(results.scales) if results.scales else [],
        _group_blocks(results.groups) if results.groups else [],
        [Paragraph(small)] if results.n_small_groups else [],
    )  # fmt: skip


def _preference(pair: PairResult) -> tuple[str, str, str, str]:
    interval = f"{100 * pair.low:.0f}–{100 * pair.high:.0f}%"
    return f"{pair.first} over {pair.second}", f"{100 * pair.preferred:.0f}%", interval, str(pair.n_comparisons)


def _scale_blocks(scales: Sequence[ScaleResult]) -> list[Block]:
    rows = []
    for each in scales:
        ends = NOTHING if each.low is None or each.high is None else f"{each.low:.2f}–{each.high:.2f}"
        alpha = NOTHING if each.alpha is None else f"{each.alpha:.2f}"
        rows.append((each.scale, each.model, f"{each.mean:.2f}", ends, str(each.n_prompts), str(each.n_ratings), alpha))
    return [table(("scale", "model", "mean", "95% interval", "prompts", "ratings", "alpha"), rows, n_text=2)]


def _group_blocks(groups: Sequence[GroupResult]) -> list[Block]:
    rows = [
        (f"{group.question}: {group.choice}", str(group.n_raters), *_preference(pair))
        for group in groups
        for pair in group.pairs
    ]
    models = Column("models", "text")
    return [table(("group", "raters", models, "preferred", "95% interval", "comparisons"), rows)]


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f}%"


def results_of(name: str, store: str | None = None) -> StudyResults:
    """Return the results of a stored study, of the answers so far.

    Raises: UnknownName for a study that is not stored.
    """
    with Store.open_to_read(store) as opened:
        log = StudyLog(opened)
        states = {row.name: row.state for row in log.raters(name)}
        plan = log.plan(name)
        groups = log.groups_of(name, plan["groups"]) if plan.get("groups") else None
        return study_results(plan, log.assignments(name), states, groups)


def export_study(
    name: str, path: Path, store: str | None = None, *, texts: bool = False, demographics: bool = False
) -> int:
    """Write a study's comparisons, or its raters' demographics, as JSON lines; return the number of rows.

    Raises: UnknownName for a study that is not stored; StoreError if the file cannot be written.
    """
    with Store.open_to_read(store) as opened:
        log = StudyLog(opened)
        plan = log.plan(name)
        rows = log.demographics(name) if demographics else study_rows(plan, log.assignments(name), texts=texts)
    with write_errors(path, "name another file with -o"):
        write_whole(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "backslashreplace")
    return len(rows)
