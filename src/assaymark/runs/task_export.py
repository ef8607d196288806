"""Write a task of one's own as a benchmark that a data set of the Hub can be: its rows and an eval.yaml.

Prompts are written out, so that the benchmark asks what the task asks, word for word. Multiple choice is the exception:
here the options' probabilities are compared, there the model answers with a letter, to inspect's own prompt. What has
no counterpart there is refused by its name.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from assaymark.drafts import write_whole
from assaymark.errors import PlanError, UsageError
from assaymark.platforms import portable_name
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import are_letters, read_question
from assaymark.records import GenerateQuery, GenerationSettings, Request, Row
from assaymark.runs.prepare import split_names
from assaymark.scoring.metrics import split_reduced
from assaymark.settings import data_folder, store_location
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.eval_yaml import FILE, FRAMEWORK, SCORERS, tasks_of_folder
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import MetricSpec, Task
from assaymark.tasks.yaml_tasks import BoundYamlTask, layout_of

ROWS = "test.jsonl"
_SPLIT = "test"
_PLAIN_STEPS = frozenset({"take_first", "remove_whitespace"})  # inspect's scorers strip an answer themselves
_UNFIT = (
    ("doc_to_turns", "conversations of several turns"),
    ("doc_to_tools", "function calls"),
    ("doc_to_image", "images"),
    ("process_results", "a scoring function of its own"),
    ("unsafe_code", "generated programs"),
    ("also_loglikelihood", "log-likelihoods beside answers"),
)


@dataclass(frozen=True, slots=True)
class Exported:
    """The content of a benchmark's files. differs: what is asked or scored otherwise than in the task."""

    eval_yaml: str
    rows: str
    n_rows: int
    differs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskExportOptions:
    """The task to write, and where."""

    output: Path | None = None  # None: a folder of the task's name
    description: str = ""  # of the benchmark
    data_dir: str | None = None
    answers: str | None = None  # how answers name an option; None: guessed
    include_path: Sequence[str | Path] = ()
    store: str | None = None  # whose sealed rows are not written; None: the default one


@dataclass(frozen=True, slots=True)
class WrittenBenchmark:
    """A benchmark's folder. differs: what it asks or scores otherwise than the task."""

    task: str
    folder: Path
    n_rows: int
    differs: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return lines on the written files and the next steps."""
        return [
            f"wrote {self.folder / FILE} and {self.folder / ROWS}: {self.n_rows:,} rows",
            *(f"not as in the task: {each}" for each in self.differs),
            f"check it: assaymark task check {self.folder}",
            f"upload it: hf upload ORG/{self.folder.name} {self.folder} . --repo-type dataset",
        ]


def export_benchmark(name: str, options: TaskExportOptions) -> WrittenBenchmark:
    """Write the folder of a benchmark for one task, and read it back.

    Raises: UsageError for several tasks, for one that an eval.yaml cannot describe, and for files that exist already.
    """
    catalog = Catalog.open([Path(each).expanduser() for each in options.include_path])
    own = OwnData(data_folder(options.data_dir), answers=options.answers)
    tasks = catalog.select(split_names(name), own=own).tasks
    if len(tasks) != 1:
        raise UsageError(f"{name} is {len(tasks)} tasks; export one at a time")
    bound = bind(tasks[0], BindOptions(data_dir=data_folder(options.data_dir)))
    _refuse_sealed(bound, store_location(options.store))
    made = exported(bound, portable_name(tasks[0].name), options.description)
    folder = Path(options.output or portable_name(tasks[0].name)).resolve()  # DIR/../OTHER is OTHER
    if there := next((folder / each for each in (FILE, ROWS) if (folder / each).exists()), None):
        raise UsageError(f"{there} exists already; remove it, or write elsewhere with --output DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ROWS, made.rows)
        write_whole(folder / FILE, made.eval_yaml)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from error
    tasks_of_folder(folder)
    return WrittenBenchmark(tasks[0].name, options.output or Path(folder.name), made.n_rows, made.differs)


def _refuse_sealed(bound: BoundTask, store: str) -> None:
    """Raise UsageError for rows that a store has sealed, under any task's name."""
    if not Store.exists(store):
        return
    seals = Store.open_to_read(store).seals
    recogniser = seals.recogniser()
    closed = [seal for seal in seals.all() if seal.is_closed]
    is_sealed = any(bound.task.name == seal.task or bound.plan.dataset_hash == seal.dataset_hash for seal in closed)
    if is_sealed or (recogniser and any(recogniser.sources_of_row(sample.row) for sample in bound.samples())):
        raise UsageError(
            f"task {bound.task.name}: its rows are sealed in {store}, and a benchmark's are for everybody; reveal them "
            "first (`assaymark task reveal`)"
        )


def exported(bound: object, identifier: str, description: str = "") -> Exported:
    """Return the files of a benchmark for a bound task of one's own.

    bound: the task with its rows. identifier: of the benchmark's only task.

    Raises: UsageError for a task that an eval.yaml cannot describe; MalformedSample for rows that it cannot ask.
    """
    if not isinstance(bound, BoundYamlTask):
        raise UsageError(
            "a task that is a Python class of lm-eval cannot be written as eval.yaml; write its rows to a file"
        )
    task = bound.task
    if task.sealing is not None:
        raise UsageError(f"task {task.name} is private: its rows are sealed, and a benchmark's are for everybody")
    if unfit := next((what for key, what in _UNFIT if task.spec.get(key)), None):
        raise UsageError(f"task {task.name} has {unfit}, which an eval.yaml cannot describe")
    is_choice = task.output_type == "multiple_choice"
    if not is_choice and task.output_type != "generate_until":
        raise UsageError(f"task {task.name} is {task.output_type}; an eval.yaml describes questions with answers")
    layout = layout_of(task, frozenset(bound.samples()[0].row), shot=False)
    requests = list(bound.requests())
    pairs = zip(requests, bound.samples(), strict=True)
    if not is_choice and any(isinstance(layout.target(sample.row), list) for sample in bound.samples()):
        raise UsageError(f"task {task.name} has several right answers to a question, and an eval.yaml takes one")
    rows = [_choice_row(layout, sample.row) if is_choice else _row(request) for request, sample in pairs]
    differs: list[str] = []
    if is_choice:
        differs.append(
            "the model answers with a letter, to inspect's prompt; here the options' probabilities are compared"
        )
        if bound.n_shots:
            differs.append(f"the {bound.n_shots} examples before each question are not shown there")
    scorers = [{"name": "choice"}] if is_choice else _scorers(task, differs)
    fields = {"input": "question", "target": "answer", **({"choices": "choices"} if is_choice else {})}
    epochs = _epochs(task, differs)
    content = {
        "name": task.name,
        "description": description or f"{task.name}, {len(rows):,} questions",
        "evaluation_framework": FRAMEWORK,
        "tasks": [
            {
                "id": identifier,
                "config": "default",
                "split": _SPLIT,
                "field_spec": fields,
                "solvers": [{"name": "multiple_choice"}] if is_choice else _solvers(task, requests),
                "scorers": scorers,
                **epochs,
            }
        ],
    }
    return Exported(
        eval_yaml=yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120),
        rows="".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
        n_rows=len(rows),
        differs=tuple(differs),
    )


def _choice_row(layout: PromptFields, row: Row) -> dict[str, object]:
    """Return a row of a multiple-choice benchmark: the question, its options, and the place of the right one."""
    if layout.choices is None:
        raise UsageError("the task has no doc_to_choice")
    text, choices, target = layout.text(row), [str(each) for each in layout.choices(row)], layout.target(row)
    if not isinstance(text, str):
        raise UsageError("the task's choices are contexts, which an eval.yaml cannot describe")
    asked = read_question(text, choices)
    if isinstance(target, str) and target in choices:
        target = choices.index(target)
    if not isinstance(target, int) or not 0 <= target < len(choices):
        raise PlanError(f"the right answer of a row is {target!r:.60}; expected one of its {len(choices)} choices")
    options = list(asked.choices) if are_letters(choices) else choices
    return {"question": asked.lead.strip(), "choices": [option.strip() for option in options], "answer": target}


def _row(request: Request) -> dict[str, object]:
    """Return a row of a benchmark with generated answers: the prompt as it is sent, and its reference."""
    said = [message for message in request.messages if message.role != "system"]
    if len(said) > 1:
        raise UsageError(
            f"sample {request.sample_index} is a chat of several messages, which an eval.yaml cannot describe"
        )
    question = said[0].text if said else "".join(request.segments)
    return {"question": question, "answer": request.target}


def _epochs(task: Task, differs: list[str]) -> dict[str, object]:
    """Return how often a question is asked and how its scores are reduced; nothing for a metric of the first answer."""
    if task.repeats == 1:
        return {}
    own = [metric.name.startswith("inspect_") for metric in task.metrics]  # the others score the first answer alone
    reducers = {split_reduced(metric.name)[1] or "mean" for metric in task.metrics}
    if (any(own) and not all(own)) or len(reducers) > 1:
        raise UsageError(f"task {task.name} reduces its repeats in several ways; an eval.yaml in one")
    if any(own):
        return {"epochs": task.repeats, "epoch_reducer": reducers.pop()}
    differs.append(f"{task.repeats} answers to each question, of which the first counts; there one is asked for")
    return {}


def _solvers(task: Task, requests: Sequence[Request]) -> list[dict[str, object]]:
    """Return the system messages and the settings, which all rows share. Raises: UsageError where they do not."""
    first = _asked_with(requests[0])
    if other := next((request for request in requests if _asked_with(request) != first), None):
        raise UsageError(
            f"task {task.name}: sample {other.sample_index} has another system message or other settings than sample "
            f"{requests[0].sample_index}; in an eval.yaml all rows share them"
        )
    system, settings = first
    args: dict[str, object] = {}
    if settings is not None:
        if settings.extra or settings.min_p is not None:
            names = ", ".join([*dict(settings.extra), *(["min_p"] if settings.min_p is not None else [])])
            raise UsageError(f"task {task.name} generates with {names}, which an eval.yaml cannot describe")
        stated = {
            "temperature": settings.temperature, "max_tokens": settings.max_tokens, "top_p": settings.top_p,
            "top_k": settings.top_k, "seed": settings.seed or None, "stop_seqs": list(settings.stop) or None,
        }  # fmt: skip
        args = {name: value for name, value in stated.items() if value is not None}
    made: list[dict[str, object]] = [
        {"name": "system_message", "args": {"template": text.replace("{", "{{").replace("}", "}}")}} for text in system
    ]
    return [*made, {"name": "generate", "args": args}]


def _asked_with(request: Request) -> tuple[tuple[str, ...], GenerationSettings | None]:
    """Return the system messages and the settings of a request."""
    system = tuple(message.text for message in request.messages if message.role == "system")
    return system, next((query.settings for query in request.queries if isinstance(query, GenerateQuery)), None)


def _scorers(task: Task, differs: list[str]) -> list[dict[str, object]]:
    """Return the scorers of a task's metrics; what they do otherwise is added to `differs`."""
    made = [_scorer(task, metric, differs) for metric in task.metrics]
    if not made:
        raise UsageError(f"task {task.name} has no metric, so an eval.yaml could not score it")
    return made


def _scorer(task: Task, metric: MetricSpec, differs: list[str]) -> dict[str, object]:
    args: dict[str, object] = dict(metric.kwargs)
    name = split_reduced(metric.name)[0].removeprefix("inspect_")
    steps = [step for pipeline in task.filters for step in pipeline.steps]
    extracting = [step for step in steps if str(step.function) not in _PLAIN_STEPS]
    if metric.name.startswith("inspect_") and name in SCORERS and name != "choice" and not extracting:
        return {"name": name, **({"args": args} if args else {})}
    if metric.name != "exact_match":
        known = ", ".join(["exact_match", *(f"inspect_{each}" for each in SCORERS if each != "choice")])
        raise UsageError(
            f"task {task.name}: metric {metric.name} has no scorer in an eval.yaml; those that have: {known}"
        )
    ignored = bool(args.pop("ignore_case", False))
    if args.pop("ignore_typography", False):
        differs.append("typography, and how a number is written, count there")
    if strange := next((key for key, value in args.items() if value and key != "ignore_punctuation"), None):
        raise UsageError(f"task {task.name}: {strange} of exact_match has no counterpart in an eval.yaml")
    if not extracting:
        differs.append("punctuation around answers is ignored")
        return {"name": "match", "args": {"location": "exact", "ignore_case": ignored}}
    regex = extracting[0]
    is_one = len(task.filters) == 1 and len(extracting) == 1 and regex.function == "regex"
    if not is_one or regex.kwargs.get("group_select", 0) not in (0, None) or "regex_pattern" not in regex.kwargs:
        names = ", ".join(str(step.function) for step in extracting)
        raise UsageError(
            f"task {task.name}: its filters ({names}) have no counterpart in an eval.yaml; one `regex` whose first "
            "match counts has"
        )
    return {"name": "pattern", "args": {"pattern": regex.kwargs["regex_pattern"], "ignore_case": ignored}}
