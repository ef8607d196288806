"""Judge stored answers by a model, show judgings, and forecast their cost.

What a judging costs in tokens and money, before it: see `models.cost` for prices and limits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assaymark.errors import UsageError
from assaymark.judges.judge_prompts import find_prompt
from assaymark.judges.judged_answers import JudgedAnswers, read_judged_answers
from assaymark.judges.judging import JudgeOptions, all_requests, check_runs, judge, judging_plan, pending_of
from assaymark.models.cost.bill import Bill, bill_for, cost_forecast
from assaymark.models.cost.prices import Price, find_price
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.records import Progress, Request
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import RunOpener
from assaymark.runs.prepare import model_of, open_store
from assaymark.runs.stored import ShownAudit, existing_store, find_audit, stored_line
from assaymark.store import RunRow, Store


@dataclass(frozen=True, slots=True)
class Forecast:
    """The work of a judging that is not stored yet. most_cost: None without a price."""

    n_items: int  # answers, or pairs of answers
    n_requests: int
    n_stored: int  # answered requests, which are not sent again
    n_read: int  # tokens of the prompts
    most_generated: int  # tokens, if every text reaches its limit
    is_counted: bool  # by the judge's tokenizer; else at four characters per token
    most_cost: float | None
    is_local: bool = False  # the judge runs on this machine, so it costs time
    seconds: float | None = None  # on this machine, if every text reaches its limit; None where that is not known


def forecast(model: Model, pending: Sequence[Request], n_items: int, n_stored: int, price: Price | None) -> Forecast:
    """Return the work of the pending requests; nothing is sent."""
    work = cost_forecast(model, pending, price)
    n_requests = len(pending) + n_stored
    is_local = model.identity.content_hash is not None
    return Forecast(
        n_items, n_requests, n_stored, work.n_read, work.most_generated, work.is_counted, work.most_cost,
        is_local, model.estimate(pending).seconds if is_local and pending else None,
    )  # fmt: skip


@gives_back
def judge_runs(
    judge_model: object,
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
    work = _Judging(opened, runs, chosen, model)
    opener = RunOpener(opened, work.plan, chosen.wait, announce, observe)
    run_id = judge(opener, work.model, chosen, work.judged, bill=bill, command=command)
    announce(_stored_line(opened, opened.run(run_id), bill))
    audit = find_audit(opened.url, run_id)
    if audit is None:
        raise UsageError(f"{run_id} is not a judging")
    return audit


@gives_back
def plan_judging(
    judge_model: object, runs: Sequence[str], options: JudgeOptions | None = None, *, store: str | Store | None = None
) -> Forecast:
    """Return the work of `judge_runs` that is not stored yet; nothing is sent, and nothing is written.

    Raises: as `judge_runs`.
    """
    chosen = options or JudgeOptions()
    opened = store if isinstance(store, Store) else existing_store(store)
    work = _Judging(opened, runs, chosen, open_judge(judge_model, chosen.model_args))
    asked = all_requests(chosen, work.model, work.judged)
    pending = pending_of(opened, work.plan, asked)
    n_requests = sum(len(question.requests) for question in asked)
    price = find_price(work.model.identity, chosen.price, chosen.prices)
    return forecast(work.model, pending, len(asked), n_requests - len(pending), price)


def open_judge(judge_model: object, model_args: str | Mapping[str, object] | None = None, workers: int = 1) -> Model:
    """Return the judge. A request too long for it fails: a truncated answer would be judged as if it were whole."""
    options: EvaluateOptions = {"model_args": model_args or {}, "too_long": "error", "workers": workers}
    return model_of(judge_model, options)


class _Judging:
    """A judging, ready to be carried out: model, answers and plan."""

    def __init__(self, store: Store, runs: Sequence[str], options: JudgeOptions, model: Model) -> None:
        self.model = model
        prompt = find_prompt(options.prompt)
        rows = [store.run(name) for name in runs]
        check_runs(prompt, rows)
        self.judged: JudgedAnswers = read_judged_answers(
            store, rows, limit=options.limit, reference=options.reference, wanted=options.tasks
        )
        self.plan = judging_plan(options, model, rows, self.judged)


def _writable(store: str | None) -> Store:
    existing_store(store).close()  # a mistyped path must not create an empty store
    return open_store({"store": store} if store is not None else {})


def _stored_line(store: Store, row: RunRow, bill: Bill | None) -> str:
    where = stored_line(store, row.run_id, "judging")
    if bill is None:
        return where
    if bill.most is None:
        return f"spent {bill.spent:,.4f}\n{where}"
    rest = "" if row.status == "finished" else "; the rest would pass --max_cost, so it was not sent"
    return f"spent {bill.spent:,.4f} of {bill.most:g}{rest}\n{where}"
