"""The keys of a task file and the types of their values; every other key is an error."""

from collections.abc import Mapping

from assaymark.tasks.task import FunctionRef

__all__ = ["FEWSHOT_KEYS", "KEYS", "MEANING", "METRIC_KEYS"]

_TEXT = (str, type(None))
_FUNCTION = (FunctionRef, type(None))
_PART = (str, int, FunctionRef, type(None))
KEYS: Mapping[str, tuple[type, ...]] = {
    "task": (str,),
    "task_alias": _TEXT,
    "tag": (str, list, type(None)),
    "group": (str, list, type(None)),
    "task_list": (list, type(None)),
    "custom_dataset": _FUNCTION,
    "dataset_path": _TEXT,
    "dataset_name": _TEXT,
    "dataset_kwargs": (dict, type(None)),
    "training_split": _TEXT,
    "validation_split": _TEXT,
    "test_split": _TEXT,
    "fewshot_split": _TEXT,
    "process_docs": _FUNCTION,
    "doc_to_text": _PART,
    "doc_to_target": (*_PART, list),
    "doc_to_choice": (str, list, dict, FunctionRef, type(None)),
    "doc_to_image": (str, list, FunctionRef, type(None)),
    "doc_to_audio": (str, list, FunctionRef, type(None)),
    "unsafe_code": (bool,),
    "process_results": _FUNCTION,
    "use_prompt": _TEXT,
    "description": _TEXT,
    "target_delimiter": (str,),
    "fewshot_delimiter": (str,),
    "fewshot_config": (dict, type(None)),
    "num_fewshot": (int, type(None)),
    "metric_list": (list, type(None)),
    "output_type": (str,),
    "generation_kwargs": (dict, type(None)),
    "repeats": (int,),
    "filter_list": (list, type(None)),
    "should_decontaminate": (bool,),
    "doc_to_decontamination_query": (str, FunctionRef, type(None)),
    "gen_prefix": _TEXT,
    "doc_to_turns": (str, list, FunctionRef, type(None)),  # our own, for conversations
    "doc_to_tools": (str, list, FunctionRef, type(None)),  # our own, with the next two: functions that may be called
    "tools_in": _TEXT,
    "doc_to_messages": (str, FunctionRef, type(None)),
    "generation_by": (dict, type(None)),  # our own, for questions of several kinds
    "skip_bad_rows": (bool,),  # our own: rows that cannot be read are left out and counted
    "rename_columns": (dict, type(None)),  # our own: for columns whose names a template cannot use
    "also_loglikelihood": _TEXT,  # our own, for tasks that are Python classes in lm-eval
    "metadata": (dict, list, type(None)),
}
FEWSHOT_KEYS: Mapping[str, tuple[type, ...]] = {
    "sampler": (str, FunctionRef),
    "split": _TEXT,
    "process_docs": _FUNCTION,
    "fewshot_indices": (list, type(None)),
    "samples": (list, FunctionRef, type(None)),
    "doc_to_text": _PART,
    "doc_to_choice": (str, list, dict, FunctionRef, type(None)),
    "doc_to_target": (*_PART, list),
    "gen_prefix": _TEXT,
    "fewshot_delimiter": (str,),
    "target_delimiter": (str,),
}
METRIC_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")
MEANING: Mapping[type, str] = {
    FunctionRef: "!function",
    str: "text",
    int: "number",
    dict: "keys and values",
    list: "list",
    bool: "true or false",
}
