"""A run's results as entries of `.eval_results`, the files of a model's repository that the Hub's leaderboards read.

An entry stands for a whole benchmark: a result of other rows, of a part of them, or by another metric is refused, with
what differs. Numbers of shots and forms of prompts are free; they are in the entry's notes.

The entries are made by `huggingface_hub`'s own functions. Nothing is uploaded here.
Source: huggingface/hub-docs, docs/hub/eval-results.md; huggingface_hub 2.4
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec

from assaymark.errors import MissingExtra, UsageError
from assaymark.interop.hub_benchmarks import ACCURACY, HUB_TASKS, HubTask, registered, tasks_of
from assaymark.models.checkpoint.quantisation import quantised_as
from assaymark.options.of_plans import part_shown, short_hash
from assaymark.records import Estimate, JsonValue, content_hash, with_filter
from assaymark.records.json_values import object_at
from assaymark.results.estimate_texts import is_proportion, truncation_of
from assaymark.results.evidence.from_store import stopped_by_rule
from assaymark.results.evidence.groups import leaves_of
from assaymark.results.evidence.task_facts import groups_from
from assaymark.store import RunRow, Store

FIRST_WITH_ENTRIES = "1.4"  # version of huggingface_hub
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubResult:
    """One result of a run for one leaderboard."""

    benchmark: HubTask
    task: str  # here; or a group
    value: float  # a share
    n: int
    variant: tuple[str, ...]  # how it was asked
    date: str | None
    revision: str | None  # commit of the data set
    has_own_rows: bool = False  # a function of the user's own task file could have changed the rows
    is_local: bool = False  # no commit is known of the rows, as of those of a local copy

    @property
    def shown(self) -> float:
        """The value in the unit of the leaderboard."""
        return round(100 * self.value, 2) if self.benchmark.unit == "per cent" else round(self.value, 4)

    @property
    def notes(self) -> str:
        """How it was asked, as the entry's notes."""
        return ", ".join(self.variant)

    @property
    def file(self) -> str:
        """The name of its file; other variants have other names."""
        is_named = bool(self.variant) and self.variant[0].startswith(self.benchmark.id)
        words = self.variant if is_named else (self.benchmark.id, *self.variant)
        plain = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words)).strip("_")
        return f"{plain}.yaml" if len(plain) <= 100 else f"{plain[:80]}_{short_hash(content_hash(plain))}.yaml"


@dataclass(frozen=True, slots=True)
class NoHubResult:
    """A task of which no entry is made."""

    task: str
    why: str


def hub_results(store: Store, run_id: str) -> tuple[list[HubResult], list[NoHubResult]]:
    """Return a run's results that leaderboards of the Hub take, and why the others are none."""
    row = store.run(run_id)
    estimates = store.estimates(run_id)
    made: list[HubResult] = []
    refused: list[NoHubResult] = []
    for name, leaves in _wholes(row, estimates):
        benchmark, differences = _compared(row, estimates, name, leaves)
        estimate = _accuracy(estimates, name)
        if benchmark is None or differences or estimate is None or estimate.value is None:
            refused.append(NoHubResult(name, "; ".join(differences)))
            continue
        variant = tuple(_variant(row, name, leaves, benchmark, estimate))
        made.append(
            HubResult(
                benchmark, name, estimate.value, benchmark.n, variant, _date(row), _revision(row, leaves),
                any(_has_own(row, leaf, "process_docs") for leaf in leaves),
                any(_is_local(row, leaf) for leaf in leaves),
            )
        )  # fmt: skip
    return made, refused


def counterparts(row: RunRow, estimates: Sequence[Estimate], reported: Estimate) -> list[Estimate]:
    """Return the estimates of a run that a reported value stands beside.

    They are of the same benchmark's rows, all or some, asked in any way; for a benchmark that is not registered, of a
    task and metric of the same name.
    """
    facts = reported.details.get("reported")
    benchmark = registered(facts["dataset"], facts["benchmark"]) if facts is not None and facts["benchmark"] else None
    if benchmark is None:
        same = [each for each in estimates if (each.task, each.metric) == (reported.task, reported.metric)]
        return sorted(same, key=lambda each: not each.details.get("primary"))[:1]
    of_benchmark = (
        _accuracy(estimates, name)
        for name, leaves in _wholes(row, estimates)
        if all(_same_rows(row, leaf, benchmark) == [] for leaf in leaves)
    )
    return [estimate for estimate in of_benchmark if estimate is not None]


def minus_reported(measured: Estimate, reported: Estimate) -> float | None:
    """Return a measured value minus a reported one; None where one is undefined, or only one is a share."""
    if measured.value is None or reported.value is None or is_proportion(measured) != is_proportion(reported):
        return None
    return measured.value - reported.value


def is_covered(measured: Estimate, reported: Estimate) -> bool | None:
    """Return whether the measured value's interval covers the reported one; None where there is no such interval."""
    low, high = measured.low, measured.high
    if minus_reported(measured, reported) is None or reported.value is None or low is None or high is None:
        return None
    return low <= reported.value <= high


def entry_text(result: HubResult, source: str | None = None) -> str:
    """Return the file of a result's entry. Raises: UsageError without a version of huggingface_hub that has entries."""
    import yaml

    try:
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError as error:
        if find_spec("huggingface_hub") is None:
            raise MissingExtra("writing .eval_results", "hub") from error
        raise UsageError(
            f"writing .eval_results needs huggingface_hub {FIRST_WITH_ENTRIES} or later: "
            f"pip install 'huggingface_hub>={FIRST_WITH_ENTRIES}'"
        ) from error
    entry = EvalResultEntry(
        dataset_id=result.benchmark.dataset,
        task_id=result.benchmark.id,
        value=result.shown,
        dataset_revision=result.revision,
        date=result.date,
        source_url=source,
        notes=result.notes or None,
    )
    return yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)


# ------------------------------------------------------------------------------------------ what counts


def _wholes(row: RunRow, estimates: Sequence[Estimate]) -> Iterator[tuple[str, list[str]]]:
    """Yield the groups that have a value of all samples of one data set, and the tasks in none, with their tasks."""
    groups = {group.name: group for group in groups_from(row.extra)}
    copies = {estimate.task for estimate in estimates if "copy_of" in estimate.details}
    covered: set[str] = set()
    for name in groups:
        leaves = leaves_of(name, groups)
        sources = {_source(row, leaf) for leaf in leaves}
        is_micro = any(each.task == name and each.details.get("weighting") == "micro" for each in estimates)
        if is_micro and len(sources) == 1 and len(leaves) > 1 and not covered & set(leaves):
            covered |= set(leaves)
            yield name, leaves
    for task in dict.fromkeys(each.task for each in estimates if each.details.get("kind", "task") == "task"):
        if task not in covered | copies:
            yield task, [task]


def _spec(row: RunRow, task: str) -> Mapping[str, JsonValue]:
    return object_at(object_at(row.extra.get("tasks") or {}, task), "spec")


def _source(row: RunRow, task: str) -> tuple[str, str, str]:
    """Return the data set, configuration and split of a task, as its file names them."""
    spec = _spec(row, task)
    split = spec.get("test_split") or spec.get("validation_split") or spec.get("training_split")
    return str(spec.get("dataset_path") or ""), str(spec.get("dataset_name") or "default"), str(split or "")


def _has_own(row: RunRow, task: str, key: str) -> bool:
    """Return whether a task's file is the user's own and has a key, such as that of a function."""
    fact = (row.extra.get("tasks") or {}).get(task)
    return fact is not None and fact.get("origin") == "user" and _spec(row, task).get(key) is not None


def _is_local(row: RunRow, task: str) -> bool:
    """Return whether no commit is known of a task's rows, as of those of a local copy; never of an imported run."""
    fact = (row.extra.get("tasks") or {}).get(task)
    return fact is not None and "imported" not in row.extra and not fact.get("dataset_revision")


def _compared(
    row: RunRow, estimates: Sequence[Estimate], name: str, leaves: Sequence[str]
) -> tuple[HubTask | None, list[str]]:
    """Return the benchmark that a task or group is of, and what differs from it."""
    if not row.has_answers:
        return None, ["its value was reported by others and has no answers"]
    dataset, config, _ = _source(row, leaves[0])
    of_dataset = tasks_of(dataset)
    if not of_dataset:
        known = ", ".join(dict.fromkeys(task.dataset for task in HUB_TASKS))
        return None, [f"its data set is {dataset or 'not known'}; benchmarks that are known: {known}"]
    benchmark = next((task for task in of_dataset if task.config == config), of_dataset[0])
    differences = [each for leaf in leaves for each in _same_rows(row, leaf, benchmark)]
    if row.plan.audit is not None:
        differences.append(f"it is an audit ({row.plan.audit})")
    if row.plan.circular:
        differences.append("each question was asked in every rotation of its options")
    if any(_has_own(row, leaf, "process_results") for leaf in leaves):
        differences.append("its answers are scored by a function of its own file (process_results)")
    return benchmark, list(dict.fromkeys(differences)) or _missing_rows(row, estimates, name, leaves, benchmark)


def _same_rows(row: RunRow, task: str, benchmark: HubTask) -> list[str]:
    """Return how the rows that a task is drawn from differ from a benchmark's."""
    dataset, config, split = _source(row, task)
    if benchmark not in tasks_of(dataset):
        return [f"data set {dataset or 'not known'}, the benchmark's is {benchmark.dataset}"]
    differences = []
    if config != benchmark.config:
        differences.append(f"configuration {config}, the benchmark's is {benchmark.config}")
    if split != benchmark.split:
        differences.append(f"split {split or 'not known'}, the benchmark's is {benchmark.split}")
    if _spec(row, task).get("custom_dataset") is not None:
        differences.append("its rows come from a function of its own")
    return differences


def _missing_rows(
    row: RunRow, estimates: Sequence[Estimate], name: str, leaves: Sequence[str], benchmark: HubTask
) -> list[str]:
    """Return that there is no share of right answers, or that it is not of all rows; nothing where it is."""
    whole = _accuracy(estimates, name)
    if whole is None:
        metrics = ", ".join(dict.fromkeys(each.metric for each in estimates if each.task == name))
        return [f"metric {metrics}, the leaderboard's is the share of right answers ({' or '.join(ACCURACY[:2])})"]
    made_anew = (entry for entry in row.extra.get("rescored", ()) if entry["task"] in leaves)
    if any(whole.metric == metric["name"] for entry in made_anew for metric in entry["metrics"]):
        return [f"{whole.metric} was scored again, by another filter or metric"]
    kind = (whole.metric, whole.filter)
    parts = [each for each in estimates if each.task in leaves and (each.metric, each.filter) == kind]
    n, n_failed = sum(each.n for each in parts), sum(each.n_failed for each in parts)
    if n == benchmark.n and not n_failed and whole.value is not None:
        truncated = truncation_of(whole)
        return [truncated] if truncated else []
    reasons = [
        f"{n_failed:,} failed" if n_failed else "",
        part_shown(row.plan) or "",
        "stopped early" if stopped_by_rule(row) is not None else "",
    ]
    why = ", ".join(filter(None, reasons))
    return [f"{n:,} of {benchmark.n:,} rows of {benchmark.title}{f' ({why})' if why else ''}"]


def _accuracy(estimates: Sequence[Estimate], name: str) -> Estimate | None:
    """Return the share of right answers of a task or group, the primary one of several; None without one."""
    of_name = [each for each in estimates if each.task == name and each.metric in ACCURACY and is_proportion(each)]
    return next((each for each in of_name if each.details.get("primary")), of_name[0] if of_name else None)


# ------------------------------------------------------------------------------------------ how it was asked


def _variant(row: RunRow, name: str, leaves: Sequence[str], benchmark: HubTask, estimate: Estimate) -> Iterator[str]:
    """Yield, in words, what may differ between two results of a benchmark."""
    plan = row.plan
    if name != benchmark.id:
        yield name
    shots = {task.num_fewshot for task in plan.tasks if task.name in leaves}
    if len(shots) == 1:
        yield f"{shots.pop()}-shot"
    if filtered := with_filter("", estimate.filter, "{}"):
        yield filtered
    if plan.prompt_preset is not None:
        yield f"prompt preset {plan.prompt_preset.name}"
    elif plan.apply_chat_template:
        yield "chat template"
    if plan.prompt_style is not None:
        yield f"prompt style {plan.prompt_style}"
    if quantised := quantised_as({"quantization_config": dict(plan.model.options).get("quantization_config")}):
        yield quantised
    yield from (f"{name}={value}" for name, value in (plan.gen_kwargs or {}).items())
    if plan.system_instruction is not None:
        yield f"system prompt {short_hash(content_hash(plan.system_instruction))}"


def _date(row: RunRow) -> str | None:
    """Return when a run ended, to the second, or what an imported log says; None where that is no ISO 8601."""
    imported = row.extra.get("imported")
    stated = row.updated_at if imported is None else imported.get("date")
    try:
        at = datetime.fromisoformat(str(stated))
    except ValueError:
        return None
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _revision(row: RunRow, leaves: Sequence[str]) -> str | None:
    """Return the commit of the data set, where the run's facts have the same one for all tasks."""
    facts = row.extra.get("tasks") or {}
    stated = {str(facts[leaf].get("dataset_revision") or "") if leaf in facts else "" for leaf in leaves}
    return stated.pop() if len(stated) == 1 and all(map(COMMIT.fullmatch, stated)) else None
