"""Judgings, panels and injections as documents and as JSON.

A stored judging: its results, and its judgements shown as the samples of a run are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.documents.blocks import Block, Bullets, Cell, Example, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.judges.injections import InjectionRate
from assaymark.judges.judge import Forecast
from assaymark.judges.judged_answers import task_in_order
from assaymark.judges.pairwise import JudgedPair, PairSummary
from assaymark.judges.panel import PanelSummary
from assaymark.judges.report import shown_range
from assaymark.judges.results import (
    ALPACA_EVAL,
    ARENA_HARD,
    BenchmarkScore,
    JudgedItem,
    benchmark_scores,
    form_of,
    judged_item,
    judged_models,
    summarise,
)
from assaymark.judges.single import GradeSummary
from assaymark.judges.verdicts import PAIRED, Form, verdict_of
from assaymark.models.cost.prices import Price
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields, json_of
from assaymark.results.model_names import short_model_name
from assaymark.results.views.samples import prompt_end, sample_to_json, shortened
from assaymark.runs.progress import clock
from assaymark.runs.run import Run
from assaymark.runs.stored import AuditKind
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow, SampleRecord, Store


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judged item with its requests: one, or one for each order of two answers.

    models: the judged ones, in the order of the runs.
    """

    form: Form
    models: tuple[str, ...]
    orders: tuple[SampleRecord, ...]


class JudgingRun(Run):
    """A judging: each sample is a judgement, with the judge's texts in both orders of two answers."""

    def samples_document(self, records: Sequence[SampleRecord]) -> Document:
        """Return each judgement: the judge's prompt, its text and the result."""
        return document(map(judgement_example, judgements_of(self.store, self.row, records)))

    def samples_to_json(self, records: Sequence[SampleRecord]) -> list[Mapping[str, JsonValue]]:
        """Return the judgements with stable names; the other order of two answers is `swapped`."""
        return [judgement_json(judgement) for judgement in judgements_of(self.store, self.row, records)]


def _results(store: Store, row: RunRow) -> tuple[JsonValue, Document]:
    from assaymark.judges.results import read_results

    judged = read_results(store, row)
    first_error = store.first_error(row.run_id) if row.n_failed else None
    return judging_json(row, judged), judging_document(row, judged, first_error)


judging_kind = AuditKind(_results, word="judging", is_listed_with_runs=True, as_run=JudgingRun)


FEW_CONSISTENT = 0.5


_PLACE = re.compile(r"^\S+/\d+/\d+ query \d+: ")  # of a stored error: the request that failed


_POSITIONS = re.compile(r"the model has (\d+) positions")


def judging_document(row: RunRow, judged: Sequence[JudgedItem], first_error: str | None = None) -> Document:
    """Return a judging: grades by task and turn, or win rates with the effect of the order of the answers.

    first_error: of the first request that failed.
    """
    settings = row.plan.audit_settings
    facts = dict(settings.settings) if settings is not None else {}
    models = [short_model_name(name) for name in judged_models(row)]
    summaries = summarise(judged)
    pairs = [summary for summary in summaries if isinstance(summary, PairSummary)]
    body = _grades([summary for summary in summaries if isinstance(summary, GradeSummary)])
    if pairs:
        scores = benchmark_scores([pair for pair in judged if isinstance(pair, JudgedPair)], form_of(row))
        body = [*_pair_parts(pairs, models), *_score_parts(scores, models)]
    return document(
        Heading(f"{' against '.join(models)}, judged by {short_model_name(row.model)}", 4),
        Paragraph(f"judging {row.short_id} · prompt {facts.get('prompt')} · {row.status}", "facts"),
        body,
        [Paragraph(line, "facts") for line in [*_counts(row, judged), *_failures(row, judged, first_error)]],
    )


def _grades(summaries: Sequence[GradeSummary]) -> list[Block]:
    rows = []
    for summary in summaries:
        name = summary.task if summary.turn is None else f"{summary.task}, turn {summary.turn + 1}"
        value = NOTHING if summary.mean is None else f"{summary.mean.value:.2f}"
        counts = (f"{summary.n:,}", f"{summary.n_missing:,}", f"{summary.n_failed:,}")
        rows.append((Cell(name, depth=int(summary.turn is not None)), value, _interval(summary.mean), *counts))
    return [table(("task", "grade (1 to 10)", "interval", "n", "no verdict", "failed"), rows)]


def _pair_parts(summaries: Sequence[PairSummary], models: Sequence[str]) -> list[Block]:
    rates, orders = [], []
    for summary in summaries:
        value = NOTHING if summary.win_rate is None else f"{summary.win_rate.value:.1%}"
        numbers = (summary.wins, summary.losses, summary.ties, summary.n, summary.n_missing, summary.n_failed)
        interval = _interval(summary.win_rate, share=True)
        rates.append((summary.task, value, interval, *(f"{number:,}" for number in numbers)))
        kinds = (summary.consistent, summary.first, summary.second, summary.undecided)
        orders.append((summary.task, *(f"{number / summary.n:.1%}" if summary.n else NOTHING for number in kinds)))
    biased = [summary.task for summary in summaries if summary.n and summary.consistent / summary.n < FEW_CONSISTENT]
    return [
        table(("task", f"{models[0]} wins", "interval", "won", "lost", "tied", "n", "no verdict", "failed"), rates),
        table(("both orders of the answers", "consistent", "first shown", "second shown", "tie in one"), orders),
        *([Bullets((f"{', '.join(biased)}: {_BIASED}",), "warning")] if biased else []),
    ]


_BIASED = (
    "in fewer than half of the pairs do both orders agree, so the order of the answers decides more than their "
    "content; the win rate says little about the models"
)


def _score_parts(scores: Sequence[BenchmarkScore], models: Sequence[str]) -> list[Block]:
    rows = []
    for score in scores:
        cells = [NOTHING, "", ""]
        if score.value is not None:
            cells = [f"{score.value.value:.1%}", _interval(score.value, share=True), f"{score.value.n:,}"]
        rows.append((f"{score.title}, {score.task}", *cells))
    whys = [f"{score.title}, {score.task}: none; {score.why_none}" for score in scores if score.why_none is not None]
    meanings = [_MEANINGS[metric] for metric in _MEANINGS if any(score.metric == metric for score in scores)]
    columns = (f"{models[0]} against the baseline {models[-1]}", "value", "interval", "n")
    return [table(columns, rows), *(Paragraph(line, "facts") for line in [*whys, *meanings])]


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
    stored = row.extra.get("judging")
    lines = []
    if stored is not None and (n := stored["n_without_answer"]):
        lines.append(f"{counted(n, 'question')} not judged: a model gave no answer")
    if stored is not None and (n := stored["n_unmatched"]):
        lines.append(f"{counted(n, 'question')} not judged: only one of the runs has it")
    if stored is not None and (names := stored["left_out"]):
        lines.append(f"without generated answers, so not judged: {', '.join(names)}")
    if n := sum(map(_lacks_verdict, judged)):
        lines.append(
            f"{counted(n, 'judgement')} without a verdict: the text has none or two, or --max_tokens cut it off"
        )
    if not judged:
        lines.append("no judgement is stored yet")
    if judged and not any(judgement.value is not None for judgement in judged):
        lines.append(_why_nothing(judged))
    return lines


def _lacks_verdict(judged: JudgedItem) -> bool:
    if isinstance(judged, JudgedPair):
        return judged.kind == "missing"
    return judged.value is None and not judged.is_failed


def _failures(row: RunRow, judged: Sequence[JudgedItem], first_error: str | None) -> list[str]:
    """Return the numbers of failed requests and of affected pairs, and the first reason with a remedy."""
    if not row.n_failed:
        return []
    n_pairs = sum(pair.kind == "failed" for pair in judged if isinstance(pair, JudgedPair))
    lines = [f"{counted(row.n_failed, 'request')} failed" + (f", in {counted(n_pairs, 'pair')}" if n_pairs else "")]
    if first_error is None:
        return lines
    reason = _PLACE.sub("", first_error)
    positions = _POSITIONS.search(reason)
    if positions is None:
        return [*lines, f"first failure: {reason}"]
    n_tokens = max(1, int(positions[1]) // 4)
    what = reason.partition("; ")[0]
    return [
        *lines,
        f"first failure: {what}; let the judge write less (--max_tokens {n_tokens}), or use one with more positions",
    ]


def _why_nothing(judged: Sequence[JudgedItem]) -> str:
    n_failed = sum(
        judgement.kind == "failed" if isinstance(judgement, JudgedPair) else judgement.is_failed for judgement in judged
    )
    if n_failed == len(judged):
        return "no request to this judge was answered, and nothing is concluded; the same command asks again"
    return "no text of this judge holds a verdict: it does not follow the prompt, and nothing is concluded"


def judging_json(row: RunRow, judged: Sequence[JudgedItem]) -> dict[str, JsonValue]:
    """Return a judging as JSON values: settings, summaries, and each judgement."""
    settings = row.plan.audit_settings
    document: dict[str, object] = {
        "judging": row.run_id,
        "judge": row.model,
        "status": row.status,
        **(dict(settings.settings) if settings is not None else {}),
        **(row.extra.get("judging") or {}),
        "summaries": json_of(summarise(judged)),
    }
    if pairs := [pair for pair in judged if isinstance(pair, JudgedPair)]:
        document["scores"] = [
            {"title": score.title, **json_fields(score)} for score in benchmark_scores(pairs, form_of(row))
        ]
    document["pairs" if any(isinstance(judgement, JudgedPair) for judgement in judged) else "grades"] = json_of(judged)
    return document


def forecast_lines(work: Forecast, price: Price | None) -> list[str]:
    """Return a forecast as lines of text."""
    how = "by its tokenizer" if work.is_counted else "at four characters per token, since its tokenizer is not known"
    stored = f", {work.n_stored:,} of them stored already" if work.n_stored else ""
    lines = [
        f"{counted(work.n_items, 'item')} to judge, {counted(work.n_requests, 'request')}{stored}",
        f"about {work.n_read:,} tokens read ({how}), at most {work.most_generated:,} generated",
    ]
    if price is None and work.is_local:
        time = "" if work.seconds is None else f", at most about {clock(work.seconds)} on its processors"
        lines.append(f"the judge runs on this machine{time}")
    elif price is None:
        lines.append("give the price per million tokens for the cost: --price IN,OUT")
    elif work.most_cost is not None:
        lines.append(f"at most {work.most_cost:,.4f} at {price}")
    return lines


def injection_document(rates: Sequence[InjectionRate]) -> Document:
    """Return the rates of success by judge prompt and kind of injection."""
    rows = []
    for rate in rates:
        share = NOTHING if rate.rate is None else f"{rate.rate.value:.1%}"
        name, kind = ("", rate.kind) if rate.kind else (rate.prompt, "all")
        counts = (rate.n, rate.n_missing, rate.n_failed)
        rows.append((name, kind, share, shown_range(rate.rate), *(f"{count:,}" for count in counts)))
    columns = ("judge prompt", "kind", "succeeded", "interval", "n", "no verdict", "failed")
    nothing = [Bullets((_NO_VERDICT,), "warning")] if rates and not any(rate.n for rate in rates) else []
    return document(table(columns, rows, n_text=2), Paragraph(_MEANING, "facts"), nothing)


_MEANING = (
    "Success: the answer that only asks for a good verdict is named the better one, or gets at least the grade of an "
    "honest answer. Intervals take questions as units."
)


_NO_VERDICT = (
    "No text of this judge holds a verdict: it does not follow the prompts, so nothing is known about injections."
)


def panel_document(rows: Sequence[RunRow], panel: Sequence[PanelSummary]) -> Document:
    """Return the panel's verdict on each task, beside the disagreement of its judges."""
    names = ", ".join(short_model_name(row.model) for row in rows)
    value = "wins by majority" if panel and panel[0].is_paired else "mean grade"
    columns = ("task", value, "interval", "unanimous", "alpha", "n", "fewer than 2")
    body = [(summary.task, *_panel_cells(summary)) for summary in panel]
    return document(Heading(f"panel of {names}", 4), table(columns, body))


def _panel_cells(summary: PanelSummary) -> list[str]:
    alpha = NOTHING if summary.alpha is None or summary.alpha.value is None else f"{summary.alpha.value:.3f}"
    unanimous = NOTHING if summary.unanimous is None else f"{summary.unanimous:.1%}"
    if summary.value is None:
        return [NOTHING, "", unanimous, alpha, f"{summary.n:,}", f"{summary.n_missing:,}"]
    if summary.is_paired:
        value, ends = f"{summary.value.value:.1%}", shown_range(summary.value)
    else:
        value = f"{summary.value.value:.2f}"
        ends = "" if summary.value.low is None else f"{summary.value.low:.2f} to {summary.value.high:.2f}"
    return [value, ends, unanimous, alpha, f"{summary.n:,}", f"{summary.n_missing:,}"]


def judgements_of(store: Store, row: RunRow, records: Sequence[SampleRecord]) -> list[Judgement]:
    """Return the judgement that each record of a judging belongs to, with the other order of its answers."""
    form = form_of(row)
    models = tuple(map(short_model_name, judged_models(row)))
    if form not in PAIRED:
        return [Judgement(form, models, (record,)) for record in records]
    others: dict[tuple[str, int, int], SampleRecord] = {}
    for task in dict.fromkeys(record.request.task for record in records):
        indices = sorted({record.request.sample_index for record in records if record.request.task == task})
        for other in store.samples(row.run_id, task_in_order(task, 1), indices=indices):
            others[task, other.request.sample_index, other.request.turn] = other
    judgements = []
    for record in records:
        swapped = others.get((record.request.task, record.request.sample_index, record.request.turn))
        judgements.append(Judgement(form, models, (record,) if swapped is None else (record, swapped)))
    return judgements


def judgement_json(judgement: Judgement) -> dict[str, JsonValue]:
    """Return a judgement as JSON values: the sample in the first order, and under `swapped` in the other one."""
    document = sample_to_json(judgement.orders[0])
    document["verdict"] = _verdict(judgement, 0)
    if judgement.form in PAIRED:
        other = sample_to_json(judgement.orders[1]) if len(judgement.orders) > 1 else None
        document["swapped"] = None if other is None else {**other, "verdict": _verdict(judgement, 1)}
    return document


def judgement_example(judgement: Judgement) -> Example:
    """Return a judgement for display: its result, then for each order the prompt's end, the text and the verdict."""
    request = judgement.orders[0].request
    title = f"{request.task} {request.sample_index}" + (f", turn {request.turn + 1}" if request.turn else "")
    lines: list[tuple[str, str]] = []
    for order, record in enumerate(judgement.orders):
        which = ""
        if judgement.form in PAIRED:
            first, second = reversed(judgement.models) if order else judgement.models
            which = f", A is {first}, B is {second}"
        lines.append((f"prompt{which}", prompt_end(record.request.prompt)))
        lines += [
            ("judge", shortened(output.text or "(empty)")) if output.error is None else ("failed", output.error)
            for output in record.outputs
        ]
        if record.outputs and record.outputs[0].error is None:
            lines.append(("verdict", _verdict(judgement, order) or "none"))
    lines += [("reference", shortened(request.target))] if request.target else []
    return Example(title, lines=tuple(lines), note=_result(judgement))


def _verdict(judgement: Judgement, order: int) -> str | None:
    """Return the verdict in one order as the judge wrote it; None without one."""
    outputs = judgement.orders[order].outputs
    verdict = verdict_of(outputs[0] if outputs else None, judgement.form)
    return None if verdict is None else verdict.text


_KINDS = {
    "consistent": "both orders agree",
    "first": "both orders name the answer shown first",
    "second": "both orders name the answer shown second",
    "undecided": "a tie in one order",
    "missing": "no verdict in an order",
    "failed": "no text in an order",
}


def _result(judgement: Judgement) -> str:
    """Return the conclusion from the texts of all orders, in words."""
    request = judgement.orders[0].request
    n_orders = 2 if judgement.form in PAIRED else 1
    outputs = [record.outputs[0] if record.outputs else None for record in judgement.orders]
    outputs += [None] * (n_orders - len(outputs))
    judged = judged_item((request.task, request.sample_index, request.turn), judgement.form, outputs)
    if judged is None:
        return "not judged yet"
    value = NOTHING if judged.value is None else f"{judged.value:g}"
    if judgement.form not in PAIRED:
        return f"grade {value}"
    return f"win of {judgement.models[0]} {value}, {_KINDS[getattr(judged, 'kind', 'missing')]}"
