"""The content of lm-eval's results JSON, key for key, from a stored run's estimates.

Values and errors are lm-eval's own (stored in the estimates' details), not ours: a script that reads these files gets
the same numbers as from lm-eval. Ours, with intervals, are under the one additional key, `assaymark`.

A task's configuration as in lm-eval's results files: the task file with defaults, and code as text.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version

from assaymark.records import Estimate, JsonValue, RunPlan
from assaymark.records.json_values import object_at, object_of, objects_at
from assaymark.results.evidence.records import GroupSummaryInput
from assaymark.results.evidence.task_facts import groups_from
from assaymark.results.views.run_document import estimate_json
from assaymark.settings import FORMER_NAME, VERSION
from assaymark.store.rows import AttemptRow, RunRow

DEFAULTS: dict[str, object] = {
    "unsafe_code": False,
    "description": "",
    "target_delimiter": " ",
    "fewshot_delimiter": "\n\n",
    "output_type": "generate_until",
    "repeats": 1,
    "should_decontaminate": False,
}
ORDER = (
    *("task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name", "dataset_kwargs"),
    *("training_split", "validation_split", "test_split", "fewshot_split", "process_docs"),
    *("doc_to_text", "doc_to_turns", "doc_to_target", "doc_to_image", "doc_to_audio", "unsafe_code", "doc_to_choice"),
    *("process_results", "use_prompt", "description", "target_delimiter", "fewshot_delimiter", "fewshot_config"),
    *("num_fewshot", "metric_list", "output_type", "generation_kwargs", "generation_by", "repeats", "filter_list"),
    *("should_decontaminate", "doc_to_decontamination_query", "gen_prefix", "metadata"),
)
SHARED_WITH_SHOTS = ("process_docs", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix")
NOT_SHOWN = frozenset({"tag", "group", "task_list"})  # removed by lm-eval while it reads task files


def task_config(task: Mapping[str, JsonValue], model_args: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return one entry of `configs`.

    task: the task's facts from `report.task_facts`. model_args: lm-eval adds them to every task's metadata.

    Source: lm-eval 0.4.13 `TaskConfig.to_dict`, observed: keys without a value are omitted, functions are source text.
    """
    spec = object_of(task["spec"], "spec")
    filled = {**DEFAULTS, **{key: value for key, value in spec.items() if value is not None}}
    filled["fewshot_config"] = _shots(spec, filled)
    filled["num_fewshot"] = task["num_fewshot"]
    filled["metadata"] = {
        **(metadata if isinstance(metadata := spec.get("metadata"), Mapping) else {}),
        **model_args,
        "config_source": task["source"],
    }
    ordered = {key: filled[key] for key in ORDER if key in filled and key not in NOT_SHOWN}
    return {key: _text_of_functions(value) for key, value in ordered.items()}


def _shots(spec: Mapping[str, JsonValue], filled: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    shots: dict[str, object] = {
        "sampler": "default",
        "split": spec.get("fewshot_split"),
        "process_docs": None,
        "fewshot_indices": None,
        "samples": None,
    }
    shots |= {key: spec.get(key) for key in SHARED_WITH_SHOTS}
    shots |= {key: filled[key] for key in ("fewshot_delimiter", "target_delimiter")}
    shots |= object_at(spec, "fewshot_config")
    return {key: _name_of_function(value) for key, value in shots.items()}


def _text_of_functions(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        if "!function" in value:
            return value["source"] or str(value["!function"])
        return {str(key): _text_of_functions(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_text_of_functions(part) for part in value]
    return value


def _name_of_function(value: JsonValue) -> JsonValue:
    """Return a function inside the few-shot settings as lm-eval shows it there, without the address in memory."""
    if isinstance(value, Mapping) and "!function" in value:
        return f"<function {str(value['!function']).rpartition('.')[2]}>"
    return value


NOT_AVAILABLE = "N/A"
UNKNOWN_VERSION = "N/A"


def results_mapping(
    run: RunRow, estimates: Sequence[Estimate], attempts: Sequence[AttemptRow] = ()
) -> dict[str, JsonValue]:
    """Return a results file's content without the parts that are added on writing (model name, sample hashes, time).

    Source: lm-eval 0.4.13 `EvalAcc._to_eval_results` and `simple_evaluate`, observed.
    """
    tasks = {name: object_of(facts, name) for name, facts in object_at(run.extra, "tasks").items()}
    groups = groups_from(run.extra)
    arguments = model_arguments(run.plan)
    sizes = {name: _n_samples(name, estimates) for name in run.tasks}
    results = {name: _task_entry(name, sizes[name], tasks.get(name, {}), estimates) for name in run.tasks}
    of_groups = {group.name: _group_entry(group, groups, estimates, sizes) for group in reversed(groups)}
    averaged = {group.name: of_groups[group.name] for group in groups if group.aggregates}
    directions, shots = _directions_and_shots(run.plan, tasks, groups, estimates)
    versions = {name: tasks.get(name, {}).get("version", "Yaml") for name in run.tasks}
    versions |= {group.name: group.version or UNKNOWN_VERSION for group in groups}
    return {
        "results": {**results, **of_groups},
        **({"groups": averaged} if averaged else {}),
        "group_subtasks": {group.name: list(group.members) for group in groups},
        "configs": {name: task_config(task, arguments) for name, task in sorted(tasks.items())},
        "versions": dict(sorted(versions.items())),
        "n-shot": dict(sorted(shots.items())),
        "higher_is_better": dict(sorted(directions.items())),
        "n-samples": {
            plan.name: {
                "original": tasks.get(plan.name, {}).get("n_total") or plan.n_samples,
                "effective": sizes[plan.name],
            }
            for plan in run.plan.tasks
        },
        "config": _config(run, arguments, attempts),
        **_environment(run, attempts),
        "assaymark": {"run_id": run.run_id, "estimates": [estimate_json(estimate) for estimate in estimates]},
    }


def model_arguments(plan: RunPlan) -> dict[str, JsonValue]:
    """Return the model's arguments as lm-eval records them: `pretrained` and all others that affect its answers."""
    return {"pretrained": plan.model.name, "dtype": plan.model.dtype, **dict(plan.model.options)}


def _cells(name: str, kind: str, estimates: Sequence[Estimate]) -> list[Estimate]:
    return [cell for cell in estimates if cell.task == name and cell.details.get("kind") == kind]


def _n_samples(task: str, estimates: Sequence[Estimate]) -> int:
    cells = _cells(task, "task", estimates)
    return max((int(cell.details.get("lm_eval_n", 0)) for cell in cells), default=0)


def _task_entry(
    name: str, n_samples: int, task: Mapping[str, object], estimates: Sequence[Estimate]
) -> dict[str, JsonValue]:
    cells = _cells(name, "task", estimates)
    return {
        "name": name,
        "alias": task.get("alias", name),
        "sample_len": n_samples,
        **{key: value for cell in cells for key, value in _values(cell).items()},
    }


def _values(cell: Estimate) -> dict[str, JsonValue]:
    value, error = cell.details.get("lm_eval_value"), cell.details.get("lm_eval_stderr")
    return {
        f"{cell.metric},{cell.filter}": NOT_AVAILABLE if value is None else value,
        f"{cell.metric}_stderr,{cell.filter}": NOT_AVAILABLE if error is None else error,
    }


def _group_entry(
    group: GroupSummaryInput,
    groups: Sequence[GroupSummaryInput],
    estimates: Sequence[Estimate],
    sizes: Mapping[str, int],
) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"alias": group.alias or group.name, "name": group.name}
    cells = _cells(group.name, "group", estimates)
    if not group.aggregates:
        return entry
    entry["sample_len"] = sum(sizes.get(leaf, 0) for leaf in _leaves(group, groups))
    for cell in cells:
        entry |= _values(cell)
    if cells:
        entry["sample_count"] = {
            f"{cell.metric},{cell.filter}": cell.details.get("lm_eval_n", cell.n) for cell in cells
        }
    return entry


def _leaves(group: GroupSummaryInput, groups: Sequence[GroupSummaryInput]) -> list[str]:
    by_name = {each.name: each for each in groups}
    leaves: dict[str, None] = {}
    waiting = list(group.members)
    seen = {group.name}
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if name in by_name:
            waiting.extend(by_name[name].members)
        else:
            leaves[name] = None
    return list(leaves)


def _directions_and_shots(
    plan: RunPlan,
    tasks: Mapping[str, Mapping[str, JsonValue]],
    groups: Sequence[GroupSummaryInput],
    estimates: Sequence[Estimate],
) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    directions = {
        task.name: {
            str(metric["name"]): metric["higher_is_better"]
            for metric in objects_at(tasks.get(task.name, {}), "metrics")
        }
        | {cell.metric: cell.higher_is_better for cell in _cells(task.name, "task", estimates)}
        for task in plan.tasks
    }
    shots: dict[str, object] = {task.name: task.num_fewshot for task in plan.tasks}
    for group in groups:
        _inherit(group, directions, shots)
    return directions, shots


def _inherit(
    group: GroupSummaryInput, directions: dict[str, dict[str, JsonValue]], shots: dict[str, JsonValue]
) -> None:
    """Set a group's direction and shots to those of its direct members if these agree."""
    counts = {shots[member] for member in group.members if member in shots}
    if len(counts) == 1:
        shots[group.name] = counts.pop()
    own: dict[str, object] = {}
    for member in group.members:
        for metric, is_higher in directions.get(member, {}).items():
            own[metric] = is_higher if own.get(metric, is_higher) == is_higher else None
    if own:
        directions[group.name] = own


def _config(run: RunRow, arguments: Mapping[str, object], attempts: Sequence[AttemptRow]) -> dict[str, JsonValue]:
    model = run.plan.model
    described = model_description(attempts)
    return {
        "model": model.kind,
        "model_args": dict(arguments),
        "model_num_parameters": model.n_parameters if model.n_parameters is not None else -1,
        "model_dtype": f"torch.{model.dtype}",
        "model_revision": model.revision or "main",
        "model_sha": model.content_hash or "",
        "batch_size": str(described.get("batch_size", "auto")),
        "batch_sizes": [],
        "device": described.get("device"),
        "use_cache": None,
        "limit": run.plan.limit,
        "bootstrap_iters": run.extra.get("bootstrap_iters", 100_000),
        "gen_kwargs": dict(run.plan.gen_kwargs or {}),
        "random_seed": 0 if run.plan.seed == 1234 else run.plan.seed,  # as `--seed` of lm-eval sets all four
        **dict.fromkeys(("numpy_seed", "torch_seed", "fewshot_seed"), run.plan.seed),
    }


def model_description(attempts: Sequence[AttemptRow]) -> Mapping[str, object]:
    """Return the model's description of itself from the last attempt that has one."""
    for attempt in reversed(attempts):
        if isinstance(described := attempt.summary.get("model"), Mapping):
            return described
    return {}


def _environment(run: RunRow, attempts: Sequence[AttemptRow]) -> dict[str, JsonValue]:
    facts = dict(attempts[-1].facts) if attempts else {}
    described = model_description(attempts)
    tokens = {
        key: described[key]
        for key in ("tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token", "eot_token_id")
        if key in described
    }
    return {
        "git_hash": None,
        "date": datetime.fromisoformat(run.created_at).timestamp(),
        "pretty_env_info": "\n".join(f"{name}: {value}" for name, value in facts.items()),
        "transformers_version": str(facts.get("transformers") or _installed("transformers")),
        "lm_eval_version": _installed("lm_eval"),
        "upper_git_hash": None,
        "assaymark_version": str(facts.get("assaymark", facts.get(FORMER_NAME, VERSION))),
        **tokens,
        "max_length": run.plan.model.max_length,
    }


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_AVAILABLE


def tracker_mapping(run: RunRow, attempts: Sequence[AttemptRow], sanitised: str) -> dict[str, JsonValue]:
    """Return the keys that lm-eval's tracker adds when the file is written."""
    plan = run.plan
    described = model_description(attempts)
    template = described.get("chat_template") if plan.apply_chat_template else None
    return {
        "model_source": plan.model.kind,
        "model_name": plan.model.name,
        "model_name_sanitized": sanitised,
        "system_instruction": plan.system_instruction,
        "system_instruction_sha": text_hash(plan.system_instruction) if plan.system_instruction else None,
        "fewshot_as_multiturn": plan.fewshot_as_multiturn if plan.apply_chat_template else None,
        "chat_template": template,
        "chat_template_sha": text_hash(str(template)) if template else None,
        "total_evaluation_time_seconds": str(seconds_of(attempts)),
    }


def seconds_of(attempts: Sequence[AttemptRow]) -> float:
    """Return the seconds that a run's ended attempts took together."""
    return sum(
        (datetime.fromisoformat(attempt.ended_at) - datetime.fromisoformat(attempt.started_at)).total_seconds()
        for attempt in attempts
        if attempt.ended_at is not None
    )


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text as lm-eval writes it: hex, no prefix."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
