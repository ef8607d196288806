"""Judgings as terminal tables and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.judges.benchmark_scores import ALPACA_EVAL, ARENA_HARD, BenchmarkScore, benchmark_scores
from assaymark.judges.cost import Forecast
from assaymark.judges.pairwise import Pair, PairSummary
from assaymark.judges.results import JudgedItem, form_of, summarise
from assaymark.judges.single import GradeSummary
from assaymark.models.cost.prices import Price
from assaymark.records import JsonValue
from assaymark.report.console import Text
from assaymark.report.numbers import NOTHING, counted, short_model_name
from assaymark.report.views.cells import plain_table
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow

__all__ = ["forecast_lines", "judging_json", "judging_table"]

FEW_CONSISTENT = 0.5


def judging_table(row: RunRow, judged: Sequence[JudgedItem]) -> RenderableType:
    """Return the table of a judging: grades by task and turn, or win rates with what the order of the answers did."""
    settings = row.plan.audit_settings
    facts = dict(settings.settings) if settings is not None else {}
    models = [short_model_name(str(name)) for name in facts.get("models", ())]
    heading = Text(f"{' against '.join(models)}, judged by {short_model_name(row.model)}", style="bold")
    heading.append(f" · judging {row.short_id} · prompt {facts.get('prompt')} · {row.status}", style="not bold dim")
    summaries = summarise(judged)
    pairs = [one for one in summaries if isinstance(one, PairSummary)]
    grades = [one for one in summaries if isinstance(one, GradeSummary)]
    body = [_grade_table(grades)]
    if pairs:
        scores = benchmark_scores([one for one in judged if isinstance(one, Pair)], form_of(row))
        body = [*_pair_parts(pairs, models), Text(), *_score_parts(scores, models)]
    notes = [Text(line, style="dim") for line in _counts(row, judged)]
    return Padding(Group(heading, Text(), *body, *notes), (0, 1))


def _grade_table(summaries: Sequence[GradeSummary]) -> RenderableType:
    table = plain_table()
    table.add_column("task", overflow="fold")
    for name in ("grade (1 to 10)", "interval", "n", "no verdict", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in summaries:
        name = one.task if one.turn is None else f"  {one.task}, turn {one.turn + 1}"
        value = NOTHING if one.mean is None else f"{one.mean.value:.2f}"
        table.add_row(name, value, _interval(one.mean), f"{one.n:,}", f"{one.n_missing:,}", f"{one.n_failed:,}")
    return table


def _pair_parts(summaries: Sequence[PairSummary], models: Sequence[str]) -> list[RenderableType]:
    table = plain_table()
    table.add_column("task", overflow="fold")
    for name in (f"{models[0]} wins", "interval", "won", "lost", "tied", "n", "no verdict", "failed"):
        table.add_column(name, justify="right")
    orders = plain_table()
    orders.add_column("both orders of the answers", overflow="fold")
    for name in ("consistent", "first shown", "second shown", "tie in one"):
        orders.add_column(name, justify="right", no_wrap=True)
    for one in summaries:
        value = NOTHING if one.win_rate is None else f"{one.win_rate.value:.1%}"
        numbers = (one.wins, one.losses, one.ties, one.n, one.n_missing, one.n_failed)
        table.add_row(one.task, value, _interval(one.win_rate, share=True), *(f"{number:,}" for number in numbers))
        kinds = (one.consistent, one.first, one.second, one.undecided)
        orders.add_row(one.task, *(f"{number / one.n:.1%}" if one.n else NOTHING for number in kinds))
    biased = [one.task for one in summaries if one.n and one.consistent / one.n < FEW_CONSISTENT]
    warning = [Text(f"{', '.join(biased)}: {_BIASED}", style="yellow")] if biased else []
    return [table, Text(), orders, *warning]


_BIASED = (
    "in fewer than half of the pairs do both orders agree, so the order of the answers decides more than their "
    "content; the win rate says little about the models"
)


def _score_parts(scores: Sequence[BenchmarkScore], models: Sequence[str]) -> list[RenderableType]:
    table = plain_table()
    table.add_column(f"{models[0]} against the baseline {models[-1]}", overflow="fold")
    for name in ("value", "interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in scores:
        cells = [NOTHING, "", ""]
        if one.value is not None:
            cells = [f"{one.value.value:.1%}", _interval(one.value, share=True), f"{one.value.n:,}"]
        table.add_row(f"{one.title}, {one.task}", *cells)
    whys = [f"{one.title}, {one.task}: none; {one.why_none}" for one in scores if one.why_none is not None]
    meanings = [_MEANINGS[metric] for metric in _MEANINGS if any(one.metric == metric for one in scores)]
    return [table, *(Text(line, style="dim") for line in [*whys, *meanings])]


_MEANINGS = {
    ARENA_HARD: (
        "Arena-Hard's score: the chance of beating the baseline by a Bradley-Terry model; strong verdicts count "
        "three times; its interval is a bootstrap over questions."
    ),
    ALPACA_EVAL: (
        "AlpacaEval's win rate: the mean preference. The win rate at equal length is not its length-controlled win "
        "rate, which needs the answers of many models."
    ),
}


def _interval(value: IntervalEstimate | None, *, share: bool = False) -> str:
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{value.low:.1%} to {value.high:.1%}" if share else f"{value.low:.2f} to {value.high:.2f}"


def _counts(row: RunRow, judged: Sequence[JudgedItem]) -> list[str]:
    """Return a line for each number of answers that are not in the table."""
    stored = row.extra.get("judging") or {}
    lines = []
    if n := stored.get("n_without_answer"):
        lines.append(f"{counted(n, 'question')} not judged: a model gave no answer")
    if n := stored.get("n_unmatched"):
        lines.append(f"{counted(n, 'question')} not judged: only one of the runs has it")
    if names := stored.get("left_out"):
        lines.append(f"without generated answers, so not judged: {', '.join(names)}")
    if not judged:
        lines.append("no judgement is stored yet")
    if judged and not any(one.value is not None for one in judged):
        lines.append(_why_nothing(judged))
    return lines


def _why_nothing(judged: Sequence[JudgedItem]) -> str:
    n_failed = sum(one.kind == "failed" if isinstance(one, Pair) else one.is_failed for one in judged)
    if n_failed == len(judged):
        return "no request to this judge was answered, and nothing is concluded; the same command asks again"
    return "no text of this judge holds a verdict: it does not follow the prompt, and nothing is concluded"


def judging_json(row: RunRow, judged: Sequence[JudgedItem], *, items: bool = True) -> dict[str, JsonValue]:
    """Return a judging as JSON values: settings, summaries, and each judgement where `items`."""
    settings = row.plan.audit_settings
    found: dict[str, Any] = {
        "judging": row.run_id,
        "judge": row.model,
        "status": row.status,
        **(dict(settings.settings) if settings is not None else {}),
        **(row.extra.get("judging") or {}),
        "summaries": [asdict(one) for one in summarise(judged)],
    }
    if pairs := [one for one in judged if isinstance(one, Pair)]:
        found["scores"] = [{"title": one.title, **asdict(one)} for one in benchmark_scores(pairs, form_of(row))]
    if items:
        found["pairs" if any(isinstance(one, Pair) for one in judged) else "grades"] = [asdict(one) for one in judged]
    return found


def forecast_lines(work: Forecast, price: Price | None) -> list[str]:
    """Return a forecast as lines of text."""
    how = "by its tokenizer" if work.is_counted else "at four characters per token, since its tokenizer is not known"
    stored = f", {work.n_stored:,} of them stored already" if work.n_stored else ""
    lines = [
        f"{counted(work.n_items, 'item')} to judge, {counted(work.n_requests, 'request')}{stored}",
        f"about {work.n_read:,} tokens read ({how}), at most {work.most_generated:,} generated",
    ]
    if price is None:
        lines.append("give the price per million tokens for the cost: --price IN,OUT")
    else:
        lines.append(f"at most {work.most_cost:,.4f} at {price}")
    return lines
