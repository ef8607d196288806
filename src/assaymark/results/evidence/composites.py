"""A run's composites: the score of each of its suites with its interval, and the line that shows it.

The content of the suite's file is stored with the run, so that a stored run can be summarised again without it.
Samples' scores, which determine the standard error, are passed to `tasks.suite_scores`, which applies the rules.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from assaymark.documents.numbers import shown_interval, shown_value
from assaymark.errors import DataError, clipped
from assaymark.records import CompositeColumn, Estimate, EstimateDetails, ScoreStatus
from assaymark.records.result_facts import ResultFacts, SuiteFact
from assaymark.results.evidence.records import RunView, ScoreRow, score_number
from assaymark.statistics.board_scores import SHARES, Part, average, ratio_part
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.tasks.suite_scores import MemberScore, SuiteScore, score_suite
from assaymark.tasks.suites import ChosenSuite, Member, Suite, suite_from
from assaymark.tasks.task import Selection

COMPOSITE = "composite"
LONGEST_REASON = 160  # characters
_Cell = tuple[str, str, str]  # task, metric, filter


def suite_facts(selection: Selection, stored: ResultFacts) -> list[SuiteFact]:
    """Return the facts of a run's suites: those of `stored` facts and those of the selection."""
    by_name = {str(fact["spec"]["name"]): fact for fact in stored.get("suites", ())}
    for chosen in selection.suites:
        by_name[chosen.suite.name] = {
            "spec": dict(chosen.suite.spec),
            "leaves": [list(leaves) for leaves in chosen.leaves],
            "missing": [list(each) for each in chosen.missing],
        }
    return list(by_name.values())


def suites_from(facts: ResultFacts) -> list[ChosenSuite]:
    """Return the suites of stored facts."""
    return [
        ChosenSuite(
            suite_from(fact["spec"]),
            tuple(tuple(leaves) for leaves in fact["leaves"]),
            tuple((member, why) for member, why in fact["missing"]),
        )
        for fact in facts.get("suites", ())
    ]


def holds_suites(facts: ResultFacts, selection: Selection) -> bool:
    """Return whether stored facts include every suite of a selection, unchanged."""
    return suite_facts(selection, facts) == list(facts.get("suites", ()))


class SuiteRows:
    """Collects the scores that composites need while scores are read."""

    def __init__(self, suites: Sequence[ChosenSuite]) -> None:
        self._rows: dict[_Cell, list[ScoreRow]] = {
            (leaf, metric, member.filter): []
            for chosen in suites
            for member, leaves in zip(chosen.suite.members, chosen.leaves, strict=True)
            for leaf in leaves
            for metric in member.metrics
        }

    def watch(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        """Yield all rows unchanged, and collect those that a suite needs."""
        for row in rows:
            collected = self._rows.get((row.task, row.metric, row.filter))
            if collected is not None:
                collected.append(row)
            yield row

    def counted(self, cell: _Cell) -> list[ScoreRow]:
        """Return the scores of one metric of one task, except those of failed requests."""
        return [row for row in self._rows.get(cell, ()) if row.status is not ScoreStatus.FAILED]


def composite_estimates(
    suites: Sequence[ChosenSuite], rows: SuiteRows, estimates: Sequence[Estimate], confidence: float = 0.95
) -> tuple[Estimate, ...]:
    """Return an estimate per suite; its value is None where a member is missing; the reason is in `details["why"]`."""
    return tuple(_estimate(chosen, rows, estimates, confidence) for chosen in suites)


def member_scores(chosen: ChosenSuite, rows: SuiteRows, estimates: Sequence[Estimate]) -> list[MemberScore | None]:
    """Return the scores of a suite's members, with each sample's contribution; None for one without a value."""
    cells = _cells(estimates)
    pairs = zip(chosen.suite.members, chosen.leaves, strict=True)
    return [_member_score(member, leaves, rows, cells) for member, leaves in pairs]


def _cells(estimates: Sequence[Estimate]) -> dict[_Cell, Estimate]:
    return {(e.task, e.metric, e.filter): e for e in estimates if e.details.get("kind", "task") == "task"}


def _estimate(chosen: ChosenSuite, rows: SuiteRows, estimates: Sequence[Estimate], confidence: float) -> Estimate:
    suite = chosen.suite
    cells = _cells(estimates)
    pairs = list(zip(suite.members, chosen.leaves, strict=True))
    members = member_scores(chosen, rows, estimates)
    try:
        score = score_suite(suite, members, confidence)
        lm_eval = score_suite(suite, [_lm_eval_score(member, leaves, cells) for member, leaves in pairs], confidence)
    except DataError as error:
        score = lm_eval = SuiteScore(None, (), why=str(error))
    score = _with_own_intervals(suite, score, estimates)
    value = score.value
    used = [cells[leaf, m.metrics[0], m.filter] for m, leaves in pairs for leaf in leaves
            if (leaf, m.metrics[0], m.filter) in cells]  # fmt: skip
    return Estimate(
        task=suite.name,
        metric=COMPOSITE,
        filter="none",
        value=value.value if value else None,
        low=value.low if value else None,
        high=value.high if value else None,
        method=value.method if value else "none",
        n=sum(cell.n for cell in used),
        n_failed=sum(cell.n_failed for cell in used),
        n_unparsed=sum(cell.n_unparsed for cell in used),
        stderr=value.stderr if value else None,
        chance=score.chance,
        confidence=confidence,
        details=_details(chosen, score, None if lm_eval.value is None else lm_eval.value.value),
    )


def _with_own_intervals(suite: Suite, score: SuiteScore, estimates: Sequence[Estimate]) -> SuiteScore:
    """Return a suite's score whose columns that are the plain score of one task or group have that one's interval.

    So one number has one interval, in the table of a run and on each board. What is the mean of several, or is
    normalised, has an interval of its own; so has a composite of several columns.
    """
    if suite.normalise != "none" or suite.clip:
        return score
    known = {(e.task, e.metric, e.filter): e for e in estimates if e.details.get("kind", "task") in {"task", "group"}}
    own_intervals: dict[str, IntervalEstimate] = {}
    for name, column in score.columns:
        members = [member for member in suite.members if member.column == name]
        own = known.get((members[0].task, members[0].metrics[0], members[0].filter))
        if len(members) != 1 or len(members[0].metrics) != 1 or own is None or own.value is None or own.low is None:
            continue
        if math.isclose(own.value, column.value, rel_tol=1e-9, abs_tol=1e-12):
            own_intervals[name] = replace(column, low=own.low, high=own.high, stderr=own.stderr, method=own.method)
    columns = tuple((name, own_intervals.get(name, column)) for name, column in score.columns)
    is_single = len(suite.columns) == 1 and suite.aggregate != "geometric" and score.value is not None
    value = own_intervals.get(columns[0][0], score.value) if is_single else score.value
    return replace(score, value=value, columns=columns)


def _details(chosen: ChosenSuite, score: SuiteScore, lm_eval_value: float | None) -> EstimateDetails:
    suite = chosen.suite
    counted = {suite.weight_of(column) for column in suite.columns if column not in suite.beside}
    details: EstimateDetails = {
        "kind": COMPOSITE,
        "path": (),
        "alias": suite.name,
        "title": suite.title,
        "version": suite.version,
        "profile": suite.profile,
        "unit": "proportion",
        "primary": True,
        "normalise": suite.normalise,
        "clip": suite.clip,
        "aggregate": "mean" if suite.beside and len(counted) == 1 else suite.aggregate,
        "n_members": len(suite.members),
        "columns": [_column(name, estimate) for name, estimate in score.columns],
        "unclipped": None if score.unclipped is None else _column("unclipped", score.unclipped),
        "lm_eval_value": lm_eval_value,
        "missing": [list(each) for each in chosen.missing],
        "why": score.why,
        "reproduced": suite.reproduced,
        "unshown": suite.unshown,
        "note": suite.note,
    }
    if suite.beside:
        details["beside"] = list(suite.beside)
    return details


def _column(name: str, estimate: IntervalEstimate) -> CompositeColumn:
    return {"name": name, "value": estimate.value, "low": estimate.low, "high": estimate.high,
            "stderr": estimate.stderr, "method": estimate.method, "n": estimate.n}  # fmt: skip


# --------------------------------------------------------------------------------------- members


def _member_score(
    member: Member, leaves: Sequence[str], rows: SuiteRows, cells: Mapping[_Cell, Estimate]
) -> MemberScore | None:
    """Return a member's score, with each sample's contribution; None where any of its tasks has no value."""
    parts: list[Part] = []
    corrected: list[Part | None] = []
    chances: list[float | None] = []
    for leaf in leaves:
        of_metrics = [_leaf_part(member, (leaf, metric, member.filter), rows, cells) for metric in member.metrics]
        known = [part for part in of_metrics if part is not None]
        if len(known) != len(member.metrics):
            return None
        parts.append(average(known))
        first = (leaf, member.metrics[0], member.filter)
        corrected.append(_corrected_part(member, rows.counted(first)))
        chances.append(cells[first].chance)
    if not parts:
        return None
    weights = [float(part.n) for part in parts] if member.within == "weighted" else [1.0] * len(parts)
    sure = [part for part in corrected if part is not None]
    chance = member.chance if isinstance(member.chance, float) else _mean(chances, weights)
    return MemberScore(average(parts, weights), chance, average(sure, weights) if len(sure) == len(parts) else None)


def _leaf_part(member: Member, cell: _Cell, rows: SuiteRows, cells: Mapping[_Cell, Estimate]) -> Part | None:
    """Return one metric of one task as a mean over its samples, or a ratio (for example over instructions).

    A metric that is neither has its value and no known standard error.
    """
    estimate = cells.get(cell)
    if estimate is None or estimate.value is None:
        return None
    counted = rows.counted(cell)
    items = [_item(row) for row in counted]
    known = [(row, item) for row, item in zip(counted, items, strict=True) if item is not None]
    if known:
        questions = [_question(member, row) for row, _ in known]
        bounds = SHARES if estimate.details.get("unit") == "proportion" or _is_share(items) else None
        part = ratio_part([amount for _, (amount, _) in known], [size for _, (_, size) in known], questions, bounds)
        if math.isclose(part.value, estimate.value, rel_tol=1e-9, abs_tol=1e-12):
            return part
    return Part(estimate.value, estimate.n)


def _item(row: ScoreRow) -> tuple[float, float] | None:
    """Return a sample's contribution to the sum of scores and to their number."""
    if row.parts is not None:
        values = [part for part in row.parts if isinstance(part, bool | int | float)]
        return (float(sum(values)), float(len(values))) if values and len(values) == len(row.parts) else None
    credit = row.detail.get("credit", row.value) if isinstance(row.detail, dict) else row.value
    return (float(credit), 1.0) if credit is not None and math.isfinite(credit) else None


def _is_share(items: Sequence[tuple[float, float] | None]) -> bool:
    return all(item is not None and 0 <= item[0] <= item[1] for item in items)


def _question(member: Member, row: ScoreRow) -> object:
    return row.sample_sha256 if member.questions is None else (member.questions, row.sample_index)


def _corrected_part(member: Member, rows: Sequence[ScoreRow]) -> Part | None:
    """Return Σ(score - 1/k) / Σ(1 - 1/k) where the suite defines chance per sample and the choices are known."""
    if member.chance != "1/choices":
        return None
    with_choices = [(row, _item(row), row.detail.get("n_choices")) for row in rows if isinstance(row.detail, dict)]
    known = [(row, item[0], 1.0 / k) for row, item, k in with_choices if item is not None and k]
    if not known or len(known) != len(rows):
        return None
    return ratio_part(
        [score - chance for _, score, chance in known],
        [1.0 - chance for _, _, chance in known],
        [_question(member, row) for row, _, _ in known],
        (-sum(chance for _, _, chance in known) / sum(1.0 - chance for _, _, chance in known), 1.0),
    )


def _lm_eval_score(member: Member, leaves: Sequence[str], cells: Mapping[_Cell, Estimate]) -> MemberScore | None:
    """Return a member's score by lm-eval's own values, without standard errors."""
    parts = []
    for leaf in leaves:
        estimates = [cells.get((leaf, metric, member.filter)) for metric in member.metrics]
        values = [cell.details.get("lm_eval_value") for cell in estimates if cell is not None]
        known = [score_number(value) for value in values if value is not None]
        if len(known) != len(member.metrics):
            return None
        parts.append(Part(sum(known) / len(known), next(cell.n for cell in estimates if cell is not None)))
    if not parts:
        return None
    weights = [float(part.n) for part in parts] if member.within == "weighted" else [1.0] * len(parts)
    chances = [cells[leaf, member.metrics[0], member.filter].chance for leaf in leaves]
    chance = member.chance if isinstance(member.chance, float) else _mean(chances, weights)
    return MemberScore(average(parts, weights), chance)


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) != len(values) or not known:
        return None
    return sum(w * value for w, value in zip(weights, known, strict=True)) / sum(weights)


# ----------------------------------------------------------------------------------------- lines


def composite_lines(views: Sequence[RunView]) -> list[str]:
    """Return the lines above a run's table with each composite, or why there is none."""
    lines = []
    for view in views:
        who = f", {view.label}" if len(views) > 1 else ""
        lines += [_line(e, who) for e in view.estimates if e.details.get("kind") == COMPOSITE]
    return lines


def _line(estimate: Estimate, who: str) -> str:
    details = estimate.details
    texts = {c["name"]: f"{c['name']} {shown_value(c['value'], proportion=True)}" for c in details["columns"]}
    beside = details.get("beside", ())
    known = [text for name, text in texts.items() if name not in beside]
    known += [f"{text} (not counted)" for name, text in texts.items() if name in beside]
    mark = "" if details["reproduced"] else f" [not reproduced: {details['unshown']}]"
    if estimate.value is None:
        rest = f"; {', '.join(known)}" if known else ""
        why = clipped(details["why"] or "no reason stated", LONGEST_REASON)
        return f"{estimate.task}{who}: no composite, {why}{rest}"
    among = "; ".join(part for part in (_how(details), ", ".join(known)) if part)
    interval = shown_interval(estimate.low, estimate.high, proportion=True)
    value_text = shown_value(estimate.value, proportion=True) + (f" (95%: {interval})" if interval else "")
    guessing = "" if estimate.chance is None else f"; chance {shown_value(estimate.chance, proportion=True)}"
    return f"{estimate.task}{who}: {value_text}, {among}{guessing}{mark}"


def _how(details: EstimateDetails) -> str:
    """Return how the columns were combined, in words."""
    count = sum(column["name"] not in details.get("beside", ()) for column in details["columns"])
    kind = {"mean": "mean", "weighted": "weighted mean", "geometric": "geometric mean"}[details["aggregate"]]
    scale = {"none": "", "chance": ", chance is 0", "minmax": ", scaled by range"}[details["normalise"]]
    clip = ", members below chance count as 0" if details["clip"] else ""
    return f"{kind} of {count} column{'' if count == 1 else 's'}{scale}{clip}"
