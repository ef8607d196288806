"""Stored judgements for display: what the judge was shown and wrote, for two answers in both orders."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.judges.material import task_in_order
from assaymark.judges.results import form_of, judged_item
from assaymark.judges.verdicts import PAIRED, Form, parse_verdict
from assaymark.records import JsonValue
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, short_model_name
from assaymark.results.views.samples import ANSWER_END, prompt_end, sample_to_json, shortened
from assaymark.store import RunRow, SampleRecord, Store

__all__ = ["Judgement", "judgement_json", "judgement_view", "judgements_of"]


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
    form, settings = form_of(row), row.plan.audit_settings
    names = settings.settings["models"] if settings is not None else ()
    models = tuple(short_model_name(str(name)) for name in names)
    if form not in PAIRED:
        return [Judgement(form, models, (record,)) for record in records]
    others: dict[tuple[str, int, int], SampleRecord] = {}
    for task in dict.fromkeys(record.request.task for record in records):
        indices = sorted({record.request.sample_index for record in records if record.request.task == task})
        for other in store.samples(row.run_id, task_in_order(task, 1), indices=indices):
            others[task, other.request.sample_index, other.request.turn] = other
    found = []
    for record in records:
        swapped = others.get((record.request.task, record.request.sample_index, record.request.turn))
        found.append(Judgement(form, models, (record,) if swapped is None else (record, swapped)))
    return found


def judgement_json(one: Judgement) -> dict[str, JsonValue]:
    """Return a judgement as JSON values: the sample in the first order, and under `swapped` in the other one."""
    found = sample_to_json(one.orders[0])
    found["verdict"] = _verdict(one, 0)
    if one.form in PAIRED:
        other = sample_to_json(one.orders[1]) if len(one.orders) > 1 else None
        found["swapped"] = None if other is None else {**other, "verdict": _verdict(one, 1)}
    return found


def judgement_view(one: Judgement) -> RenderableType:
    """Return a judgement for a terminal: its result, then for each order the prompt's end, the text and the verdict."""
    request = one.orders[0].request
    title = Text(f"{request.task} {request.sample_index}", style="bold")
    title.append(f", turn {request.turn + 1}" if request.turn else "").append(f"  {_result(one)}", style="not bold dim")
    parts: list[RenderableType] = [title]
    for order, record in enumerate(one.orders):
        if one.form in PAIRED:
            first, second = reversed(one.models) if order else one.models
            parts.append(_indented(f"A is {first}, B is {second}", "bold"))
        parts.append(_indented(prompt_end(record.request.prompt), "dim"))
        for output in record.outputs:
            if output.error is not None:
                parts.append(_indented(f"failed: {output.error}", "red"))
            else:
                parts.append(_indented(shortened(output.text or "(empty)", ANSWER_END), ""))
        verdict = _verdict(one, order)
        if record.outputs and record.outputs[0].error is None:
            parts.append(_indented(f"verdict: {verdict or 'none'}", "yellow" if verdict is None else "green"))
    if request.target:
        parts.append(_indented(f"reference: {shortened(request.target, ANSWER_END)}", "dim"))
    return Padding(Group(*parts), (0, 0, 1, 0))


def _verdict(one: Judgement, order: int) -> str | None:
    """Return the verdict in one order as the judge wrote it; None without one."""
    outputs = one.orders[order].outputs
    text = outputs[0].text if outputs else None
    found = None if text is None else parse_verdict(text, one.form)
    return None if found is None else found.text


_KINDS = {
    "consistent": "both orders agree",
    "first": "both orders name the answer shown first",
    "second": "both orders name the answer shown second",
    "undecided": "a tie in one order",
    "missing": "no verdict in an order",
    "failed": "no text in an order",
}


def _result(one: Judgement) -> str:
    """Return what follows from the texts of all orders, in words."""
    request = one.orders[0].request
    n_orders = 2 if one.form in PAIRED else 1
    outputs = [record.outputs[0] if record.outputs else None for record in one.orders]
    outputs += [None] * (n_orders - len(outputs))
    judged = judged_item((request.task, request.sample_index, request.turn), one.form, outputs)
    if judged is None:
        return "not judged yet"
    value = NOTHING if judged.value is None else f"{judged.value:g}"
    if one.form not in PAIRED:
        return f"grade {value}"
    return f"win of {one.models[0]} {value}, {_KINDS[getattr(judged, 'kind', 'missing')]}"


def _indented(text: str, style: str) -> Padding:
    return Padding(Text(text, style=style or "not bold"), (0, 1, 0, 2))
