"""Judge stored answers by a model, show judgings, and forecast their cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.api.audits import ShownAudit, find_audit
from assaymark.api.run import location_of
from assaymark.api.stored import existing_store
from assaymark.errors import UsageError
from assaymark.judges.cost import Forecast, forecast
from assaymark.judges.judge_prompts import find_prompt
from assaymark.judges.judging import (
    MOST_TOKENS,
    JudgingSettings,
    all_requests,
    check_runs,
    judge,
    judging_plan,
    pending_of,
)
from assaymark.judges.material import Material, read_material
from assaymark.models.cost.bill import Bill
from assaymark.models.cost.prices import Price, find_price
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.records import Progress
from assaymark.runner.costs import bill_for
from assaymark.runner.evaluate_options import EvaluateOptions
from assaymark.runner.opening import RunOpener
from assaymark.runner.prepare import model_of, open_store
from assaymark.store import RunRow, Store

__all__ = ["JudgeOptions", "judge_runs", "open_judge", "plan_judging"]


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How stored answers are judged, and what it may cost.

    prompt: name of a judge prompt. reference: column of the data set with the reference answer. limit: questions of
    each task. max_tokens: of the judge's text. price: of the judge; else from `prices`, a file, or the table.
    model_args, workers: of the judge, as for `evaluate`. seed: of the marks around the material. most_cost: the
    limit. wait: whether to wait while another process is writing the same judging.
    """

    prompt: str = "single"
    reference: str | None = None
    limit: int | None = None
    max_tokens: int = MOST_TOKENS
    model_args: str | Mapping[str, Any] | None = None
    workers: int = 1
    seed: int = 0
    price: Price | None = None
    prices: str | Path | None = None
    most_cost: float | None = None
    wait: bool = True


@gives_back
def judge_runs(
    judge_model: Any,
    runs: Sequence[str],
    options: JudgeOptions | None = None,
    *,
    store: str | Store | None = None,
    announce: Callable[[str], None] = lambda _: None,
    observe: Callable[[Progress], None] | None = None,
    command: str | None = None,
) -> ShownAudit:
    """Judge the stored answers of one run, or of two runs against each other, and return the stored judging.

    The same call continues a judging that was interrupted: no stored judgement is requested again.

    Args:
        judge_model: as a model for `evaluate`.
        runs: one run for a prompt that grades, two for one that compares; ids, or the beginning of one, or `last`.
        options: how they are judged, and what it may cost.
        store: the database of stored runs.
        announce: called with a line about another process that is judging the same, and where the result is stored.
        observe: called with the judge's progress.
        command: the command that was typed, stored with the attempt.

    Raises: UsageError for runs that do not match the prompt or hold no texts; UnknownName; ModelUnavailable;
    StoreError.
    """
    chosen = options or JudgeOptions()
    model = open_judge(judge_model, chosen.model_args, chosen.workers)
    bill = bill_for(model, chosen.price, chosen.prices, chosen.most_cost)
    opened = store if isinstance(store, Store) else _writable(store)
    work = _Work(opened, runs, chosen, model)
    opener = RunOpener(opened, work.plan, chosen.wait, announce, observe)
    run_id = judge(opener, work.model, work.settings, work.material, bill=bill, command=command)
    announce(_stored_line(opened, opened.run(run_id), bill))
    shown = find_audit(opened.url, run_id)
    if shown is None:
        raise UsageError(f"{run_id} is not a judging")
    return shown


@gives_back
def plan_judging(
    judge_model: Any,
    runs: Sequence[str],
    options: JudgeOptions | None = None,
    *,
    store: str | Store | None = None,
) -> Forecast:
    """Return the work of `judge_runs` that is not stored yet; nothing is sent, and nothing is written.

    Raises: as `judge_runs`.
    """
    chosen = options or JudgeOptions()
    opened = store if isinstance(store, Store) else existing_store(store)
    work = _Work(opened, runs, chosen, open_judge(judge_model, chosen.model_args))
    asked = all_requests(work.settings, work.model, work.material)
    pending = pending_of(opened, work.plan, asked)
    n_requests = sum(len(one.requests) for one in asked)
    price = find_price(work.model.identity, chosen.price, chosen.prices)
    return forecast(work.model, pending, len(asked), n_requests - len(pending), price)


def open_judge(judge_model: Any, model_args: str | Mapping[str, Any] | None = None, workers: int = 1) -> Model:
    """Return the judge. A request too long for it fails: truncated material would be judged as if it were whole."""
    options: EvaluateOptions = {"model_args": model_args or {}, "too_long": "error", "workers": workers}
    return model_of(judge_model, options)


class _Work:
    """A judging, ready to be carried out: model, settings, answers and plan."""

    def __init__(self, store: Store, runs: Sequence[str], options: JudgeOptions, model: Model) -> None:
        self.model = model
        prompt = find_prompt(options.prompt)
        self.settings = JudgingSettings(prompt, options.seed, options.limit, options.reference, options.max_tokens)
        rows = [store.run(name) for name in runs]
        check_runs(self.settings, rows)
        self.material: Material = read_material(store, rows, limit=options.limit, reference=options.reference)
        self.plan = judging_plan(self.settings, model, rows, self.material)


def _writable(store: str | None) -> Store:
    existing_store(store).close()  # a mistyped path must not create an empty store
    return open_store({"store": store} if store is not None else {})


def _stored_line(store: Store, row: RunRow, bill: Bill | None) -> str:
    where = f"judging {row.short_id} in {location_of(store)}; show it with: assaymark show {row.short_id}"
    if bill is None:
        return where
    if bill.most is None:
        return f"spent {bill.spent:,.4f}\n{where}"
    rest = "" if row.status == "finished" else "; the rest would pass --max_cost, so it was not sent"
    return f"spent {bill.spent:,.4f} of {bill.most:g}{rest}\n{where}"
