"""A small run like real ones: tasks with shared shots, choices, a rolling text and generated text."""

from collections.abc import Sequence
from dataclasses import replace

from assaymark.records import (
    Estimate,
    EstimateDetails,
    GenerateQuery,
    GenerationSettings,
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    Request,
    RollingQuery,
    RunPlan,
    Sample,
    Score,
    TaskPlan,
    content_hash,
)
from assaymark.store import Store

SCORING = "sha256:" + "5c" * 32
OTHER_SCORING = "sha256:" + "0a" * 32
LETTERS = (" A", " B", " C", " D")


def model(name: str = "models/small", content: str = "a") -> ModelIdentity:
    """Return a model's identity; another `content` is another model."""
    return ModelIdentity(
        name, "hf", content_hash(content), content_hash("tokenizer"), None, "float32", "float32", 1024, 3_300_000
    )


def plan(tasks: Sequence[str] = ("letters",), content: str = "a", n_samples: int = 8, seed: int = 1234) -> RunPlan:
    """Return a run plan of these tasks."""
    task_plans = tuple(
        TaskPlan(name, "1.0", content_hash(name), content_hash([name, "rows"]), 2, n_samples) for name in tasks
    )
    return RunPlan(model(content=content), "lm-eval-0.4.13", task_plans, seed=seed)


def sample(task: str, index: int) -> Sample:
    """Return one row."""
    row = {"question": f"{task}: what is {index} + {index}?", "choices": ["1", "2", "3", "4"], "answer": index % 4}
    return Sample(task, index, row, content_hash(row))


def samples(task: str = "letters", n_samples: int = 8) -> list[Sample]:
    """Return the rows of a task."""
    return [sample(task, index) for index in range(n_samples)]


def requests(task: str = "letters", n_samples: int = 8) -> list[Request]:
    """Return one multiple-choice request per row; all share their shots."""
    shots = (f"{task}: answer with a letter.\n\n", "Q: 1 + 1?\nA: B\n\n" * 5, "Q: 3 - 2?\nA: A\n\n" * 5)
    return [
        Request(
            task=row.task,
            sample_index=row.index,
            sample_sha256=row.sha256,
            segments=(*shots, f"Q: {row.row['question']}\nA:"),
            queries=tuple(LoglikelihoodQuery(i, letter) for i, letter in enumerate(LETTERS)),
            target=LETTERS[row.row["answer"]],
            n_shots=2,
        )
        for row in samples(task, n_samples)
    ]


def mixed_requests(task: str = "letters") -> list[Request]:
    """Return a rolling request, a generation with three repeats, and one whose queries have contexts of their own."""
    first, second, third = (sample(task, index) for index in range(3))
    page = "A page of text that is rolled over, again and again. " * 20
    settings = GenerationSettings(max_tokens=64, stop=("\n", "Q:"), do_sample=True, temperature=0.7, repeats=3)
    own = (
        LoglikelihoodQuery(0, " was late.", segments=("Shot.\n\n" * 30, "Ann told Bea that Ann")),
        LoglikelihoodQuery(1, " was late.", segments=("Shot.\n\n" * 30, "Ann told Bea that Bea")),
        LoglikelihoodQuery(2, " was late.", role="unconditional"),
    )
    return [
        Request(task, 0, first.sha256, (), (RollingQuery(0, page),)),
        Request(task, 1, second.sha256, ("Shot.\n\n" * 30, "Q: 2 + 2?\nA:"), (GenerateQuery(0, settings),), target="4"),
        Request(task, 2, third.sha256, (), own, target="0"),
    ]


def outputs_for(request: Request, content: str = "a") -> list[Output]:
    """Return a plausible output for each query and repeat."""
    answers: list[Output] = []
    for query in request.queries:
        repeats = query.settings.repeats if isinstance(query, GenerateQuery) else 1
        for repeat in range(repeats):
            key = content_hash([content, request.prompt, query.index, repeat])
            answer = Output(request.id, query.index, repeat, n_context_tokens=40, n_tokens=3, cache_key=key)
            if isinstance(query, GenerateQuery):
                answers.append(replace(answer, text=f"The answer is {repeat}.", finish_reason="stop"))
            else:
                nats = -(1 + request.sample_index + 0.1 * query.index) / 3
                answers.append(replace(answer, total_nats=nats, is_greedy=query.index == 0))
    return answers


def scores_for(request: Request, metrics: Sequence[str] = ("acc", "acc_norm")) -> list[Score]:
    """Return a score of each metric."""
    value = float(request.sample_index % 2)
    return [Score(request.id, metric, value, detail={"picked": 0, "ties": 0}) for metric in metrics]


def fill(store: Store, run_plan: RunPlan, *, content: str = "a", finish: bool = True) -> str:
    """Store a whole run of this plan and return its id."""
    run = store.open_run(run_plan, facts={"assaymark": "0.1.0", "device": "cpu"}, command="assaymark run")
    for task in run_plan.tasks:
        asked = requests(task.name, task.n_samples)
        store.add_requests(run.run_id, asked, samples(task.name, task.n_samples))
        for request in store.unanswered(run.run_id, asked):
            store.add(run.run_id, run.attempt_id, outputs_for(request, content))
            store.add_scores(run.run_id, scores_for(request), SCORING)
    if finish:
        store.close_run(run.run_id, run.attempt_id, "finished", {"letters": {"n": 8}})
    store.flush()
    return run.run_id


def estimates_for(run_plan: RunPlan, metric: str = "acc") -> list[Estimate]:
    """Return the primary estimate of each task: half of the samples of `scores_for` are right."""
    details: EstimateDetails = {"kind": "task", "primary": True, "unit": "proportion", "n_shots": 2}
    return [
        Estimate(task.name, metric, "none", 0.5, 0.2, 0.8, "wilson", task.n_samples, details=details)
        for task in run_plan.tasks
    ]


def summarised(store: Store, run_plan: RunPlan, *, content: str = "a") -> str:
    """Store a whole run with its estimates, so that the facts of its samples are stored too."""
    run_id = fill(store, run_plan, content=content)
    store.save_estimates(run_id, estimates_for(run_plan))
    return run_id
