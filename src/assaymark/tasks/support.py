"""Unsupported features of task files, with the reason that is shown."""

from collections.abc import Collection, Mapping

from assaymark.registry import nearest
from assaymark.scoring.metric import GENERATE, LOGLIKELIHOOD, MULTIPLE_CHOICE, PASSED_ON, SIMULATED, TOOL_CALLS
from assaymark.scoring.metrics import REGISTERED, names_for, split_reduced


def why_not_runnable(spec: Mapping[str, object], declared: Collection[str] = ()) -> str | None:
    """Return the reason why a task file's mapping is not supported, or None. declared: metrics of the user's files."""
    if spec.get("use_prompt") is not None:
        return f"use_prompt '{spec['use_prompt']}' needs the library promptsource, which is not supported"
    if spec.get("doc_to_audio") is not None:
        return "doc_to_audio: its prompts contain audio, which no model here takes; prompts are text and images"
    return None if "class" in spec else _unknown_metric(spec, declared)


def _unknown_metric(spec: Mapping[str, object], declared: Collection[str]) -> str | None:
    if spec.get("process_results") is not None:
        return None  # the task scores itself; its metrics may have any name
    output_type = str(spec.get("output_type", "generate_until"))
    known = names_for(output_type)
    if output_type == LOGLIKELIHOOD:  # lm-eval omits from its results what such a task cannot have (acc_norm)
        known = (*known, *names_for(MULTIPLE_CHOICE))
    if spec.get("doc_to_tools") is not None:
        known = names_for(SIMULATED) if spec.get("simulator") is not None else (*names_for(TOOL_CALLS), *known)
    listed = spec.get("metric_list")
    for item in listed if isinstance(listed, list | tuple) else ():
        name = item.get("metric") if isinstance(item, Mapping) else None
        plain = split_reduced(name)[0] if isinstance(name, str) else name
        if output_type == GENERATE and name in PASSED_ON and not isinstance(item.get("aggregation"), str | None):
            continue  # scored by its `!function`
        if isinstance(name, str) and known and plain not in {*known, *declared} and name not in REGISTERED:
            near = nearest(name, known)
            hint = f"nearest: {', '.join(near)}" if near else f"expected one of {', '.join(known)}, or !function"
            return f"metric '{name}' is not known for {output_type}; {hint}"
    return None
