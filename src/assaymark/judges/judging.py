"""A judging: the second pass of a judge over stored answers, stored as a run of its own.

Its plan is the judge, the prompt's hash and a hash of all judged answers. So the same command continues a judging that
was killed, other answers are another judging, and a complete one is read from the store without calling the judge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.errors import UsageError
from assaymark.judges.judge_prompts import JudgePrompt, find_prompt
from assaymark.judges.judged_answers import Asked, JudgedAnswers, requests_of
from assaymark.judges.results import JudgedItem, estimates_of, judged_item, scores_of
from assaymark.models.cost.bill import Bill
from assaymark.models.cost.prices import Price
from assaymark.models.model import Model
from assaymark.records import AuditPlan, JsonValue, Output, Request, RunPlan, content_hash
from assaymark.runs.attempt import Attempt
from assaymark.runs.opening import RunOpener
from assaymark.settings import environment
from assaymark.store import RunRow, Store

JUDGING = "judging"  # the kind of audit that the plan of a judging has
VERSION = 1  # raise it when the same plan would send other requests
MOST_TOKENS = 512


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How stored answers are judged, and the limit of the cost.

    prompt: name of a judge prompt. reference: column of the data set with the reference answer. limit: questions of
    each task. max_tokens: of the judge's text. price: of the judge; else from `prices`, a file, or the table.
    model_args, workers: of the judge, as for `evaluate`. seed: of the delimiters around the texts. most_cost: the
    limit. tasks: of the runs, by name; none: all. wait: whether to wait while another process is writing the same
    judging.
    """

    prompt: str = "single"
    reference: str | None = None
    limit: int | None = None
    max_tokens: int = MOST_TOKENS
    model_args: str | Mapping[str, object] | None = None
    workers: int = 1
    seed: int = 0
    price: Price | None = None
    prices: str | Path | None = None
    most_cost: float | None = None
    tasks: Sequence[str] = ()
    wait: bool = True


def check_runs(prompt: JudgePrompt, rows: Sequence[RunRow]) -> None:
    """Raise UsageError where the number of runs does not match the prompt, or a run is judged against itself."""
    wanted = 2 if prompt.is_paired else 1
    if len(rows) != wanted:
        runs = "two runs, RUN and OTHER" if wanted == 2 else "one run"
        other = "single" if wanted == 2 else "pair"
        raise UsageError(f"prompt '{prompt.name}' judges {runs}, and {len(rows)} given; else use --prompt {other}")
    if wanted == 2 and rows[0].run_id == rows[1].run_id:
        raise UsageError(f"run {rows[0].short_id} would be compared with itself; name two runs")


def judging_plan(options: JudgeOptions, model: Model, rows: Sequence[RunRow], judged: JudgedAnswers) -> RunPlan:
    """Return the plan of a judging of these runs."""
    prompt = find_prompt(options.prompt)
    facts: dict[str, JsonValue] = {
        "prompt": prompt.name,
        "form": prompt.form,
        "prompt_hash": prompt.hash,
        "runs": [row.run_id for row in rows],
        "models": [row.model for row in rows],
        "answers": judged.hash,
        "reference": options.reference,
        "seed": options.seed,
        "max_tokens": options.max_tokens,
    }
    plans = {task.name: task for task in rows[0].plan.tasks}
    tasks = tuple(
        replace(plans[task], n_samples=len({item.sample.index for item in items}), sample_indices=None)
        for task, items in judged.items.items()
    )
    return RunPlan(
        model.identity,
        rows[0].plan.profile,
        tasks,
        seed=options.seed,
        limit=options.limit,
        too_long="error",
        audit_settings=AuditPlan(JUDGING, VERSION, facts),
    )


def all_requests(options: JudgeOptions, model: Model, judged: JudgedAnswers) -> list[Asked]:
    """Return every request of a judging, by item."""
    items = list(judged.all())
    return requests_of(items, find_prompt(options.prompt), model, seed=options.seed, max_tokens=options.max_tokens)


def pending_of(store: Store, plan: RunPlan, asked: Sequence[Asked]) -> list[Request]:
    """Return the requests that have no stored answer; the store is only read."""
    requests = [request for question in asked for request in question.requests]
    row = next((row for row in store.audits() if row.plan.key == plan.key), None)
    return requests if row is None else store.unanswered(row.run_id, requests)


def judge(
    opener: RunOpener,
    model: Model,
    options: JudgeOptions,
    judged: JudgedAnswers,
    *,
    bill: Bill | None = None,
    command: str | None = None,
) -> str:
    """Carry out a judging, or the rest of it, and return the id of its run.

    Each judgement is stored as it arrives. With a bill, its limit decides which requests are sent; what is not sent
    makes the judging incomplete.

    Raises: ModelUnavailable, StoreError. Judgements received before an error stay stored.
    """
    store = opener.store
    asked = all_requests(options, model, judged)
    opener.until_free()
    if not store.is_complete(opener.plan):
        model.check()
    opened = opener.open(facts=environment(), command=command)
    if opened.is_complete:
        store.close_run(opened.run_id, opened.attempt_id, "finished")
        return opened.run_id
    with Attempt(store, model, opened, bill) as attempt:
        attempt.charge_stored([task.name for task in opener.plan.tasks])
        requests = [request for question in asked for request in question.requests]
        samples = [sample for question in asked for sample in question.samples]
        pending = attempt.unanswered(requests, samples)
        for _ in attempt.answer(pending, opener.observe):
            pass  # stored by the attempt
        _score(store, opened.run_id, options, asked, judged)
    return opened.run_id


def _score(store: Store, run_id: str, options: JudgeOptions, asked: Sequence[Asked], judged: JudgedAnswers) -> None:
    """Store the scores of all judged answers, and the estimates."""
    form = find_prompt(options.prompt).form
    scoring = content_hash({"judging": VERSION, "form": form})
    judgements = list(_judged(store, run_id, options, asked))
    for item, judgement in zip(asked, judgements, strict=True):
        if judgement is not None:
            store.add_scores(run_id, scores_of(judgement, item.requests, item.item.lengths), scoring)
    counts: Mapping[str, JsonValue] = {
        "n_without_answer": judged.n_without_answer,
        "n_unmatched": judged.n_unmatched,
        "left_out": list(judged.left_out),
    }
    estimates = estimates_of([known for known in judgements if known is not None], form)
    store.save_estimates(run_id, estimates, {JUDGING: dict(counts)})


def _judged(store: Store, run_id: str, options: JudgeOptions, asked: Sequence[Asked]) -> Iterator[JudgedItem | None]:
    """Yield the judgement of each item; None where an order has no stored output yet."""
    prompt = find_prompt(options.prompt)
    ids = [request.id for question in asked for request in question.requests]
    outputs: Mapping[str, Sequence[Output]] = store.outputs_of(run_id, ids)
    for asked_question in asked:
        of_orders = [outputs[request.id][0] if outputs[request.id] else None for request in asked_question.requests]
        lengths = asked_question.item.lengths if prompt.is_paired else None
        yield judged_item(asked_question.item.key, prompt.form, of_orders, lengths)
