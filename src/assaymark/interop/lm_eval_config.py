"""A task's configuration as in lm-eval's results files: the task file with defaults, and code as text."""

from collections.abc import Mapping
from typing import Any

from assaymark.records import JsonValue

DEFAULTS: dict[str, Any] = {
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


def task_config(task: Mapping[str, Any], model_args: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return one entry of `configs`.

    Args:
        task: the task's facts from `report.task_facts`.
        model_args: lm-eval adds them to every task's metadata.

    Source: lm-eval 0.4.13 `TaskConfig.to_dict`, observed: keys without a value are omitted, functions are source text.
    """
    spec = task["spec"]
    filled = {**DEFAULTS, **{key: value for key, value in spec.items() if value is not None}}
    filled["fewshot_config"] = _shots(spec, filled)
    filled["num_fewshot"] = task["num_fewshot"]
    filled["metadata"] = {
        **(spec.get("metadata") if isinstance(spec.get("metadata"), Mapping) else {}),
        **model_args,
        "config_source": task["source"],
    }
    ordered = {key: filled[key] for key in ORDER if key in filled and key not in NOT_SHOWN}
    return {key: _text_of_functions(value) for key, value in ordered.items()}


def _shots(spec: Mapping[str, Any], filled: Mapping[str, Any]) -> dict[str, JsonValue]:
    own = spec.get("fewshot_config") or {}
    shots: dict[str, Any] = {
        "sampler": "default",
        "split": spec.get("fewshot_split"),
        "process_docs": None,
        "fewshot_indices": None,
        "samples": None,
    }
    shots |= {key: spec.get(key) for key in SHARED_WITH_SHOTS}
    shots |= {key: filled[key] for key in ("fewshot_delimiter", "target_delimiter")}
    shots |= own
    return {key: _name_of_function(value) for key, value in shots.items()}


def _is_function(value: Any) -> bool:
    return isinstance(value, Mapping) and "!function" in value


def _text_of_functions(value: Any) -> JsonValue:
    if _is_function(value):
        return value["source"] or str(value["!function"])
    if isinstance(value, Mapping):
        return {str(key): _text_of_functions(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_text_of_functions(part) for part in value]
    return value


def _name_of_function(value: Any) -> JsonValue:
    """Return a function inside the few-shot settings as lm-eval shows it there, without the address in memory."""
    return f"<function {str(value['!function']).rpartition('.')[2]}>" if _is_function(value) else value
