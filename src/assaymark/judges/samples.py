"""Stored judgements for display: the judge's prompts and texts, for two answers in both orders."""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.documents.blocks import Example
from assaymark.documents.numbers import NOTHING
from assaymark.judges.judged_answers import task_in_order
from assaymark.judges.results import form_of, judged_item, judged_models
from assaymark.judges.verdicts import PAIRED, Form, parse_verdict
from assaymark.records import JsonValue
from assaymark.results.model_names import short_model_name
from assaymark.results.views.samples import prompt_end, sample_to_json, shortened
from assaymark.store import RunRow, SampleRecord, Store


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judged item with its requests: one, or one for each order of two answers.

    models: the judged ones, in the order of the runs.
    """

    form: Form
    models: tuple[str, ...]
    orders: tuple[SampleRecord, ...]


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
    text = outputs[0].text if outputs else None
    verdict = None if text is None else parse_verdict(text, judgement.form)
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
