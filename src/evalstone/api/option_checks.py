"""What a Python caller gave `evaluate`, looked over: a mistyped option must not be passed over in silence."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalstone.api.options import EvaluateOptions
from evalstone.errors import UnknownName, UsageError
from evalstone.prompts.presets import PromptPreset
from evalstone.records import TaskPlan
from evalstone.registry import nearest

__all__ = ["check_options", "check_tasks", "idle_gen_kwargs"]

_EXPECTED: Mapping[str, tuple[tuple[type, ...], str]] = {
    "num_fewshot": ((int,), "a whole number"),
    "limit": ((int, float), "a number"),
    "seed": ((int,), "a whole number"),
    "workers": ((int,), "a whole number"),
    "samples": ((Mapping,), "a mapping of task names to lists of positions"),
    "gen_kwargs": ((Mapping,), "a mapping"),
    "metadata": ((Mapping,), "a mapping"),
    "model_args": ((str, Mapping), "a text such as 'dtype=float32', or a mapping"),
    "include_path": ((list, tuple), "a list of folders"),
    "system_instruction": ((str,), "a text"),
    "system_prompt": ((str,), "a system prompt's name or file"),
    "prompt_preset": ((str, PromptPreset), "a preset's name or file"),
    "prompting": ((str,), "letter, text or cot"),
    "profile": ((str,), "a profile's name"),
    "suite": ((str, Path), "a suite's name or file"),
}


def check_options(options: EvaluateOptions) -> None:
    """Raise UnknownName for an option that there is not, UsageError for a value of a wrong type."""
    known = EvaluateOptions.__annotations__
    for name, value in options.items():
        if name not in known:
            raise UnknownName("option of evaluate", name, nearest(name, known))
        types, words = _EXPECTED.get(name, ((), ""))
        if types and value is not None and (not isinstance(value, types) or isinstance(value, bool)):
            raise UsageError(f"{name} is {value!r:.80}, of type {type(value).__name__}; expected {words}")


def check_tasks(tasks: Any) -> None:
    """Raise UsageError where `tasks` is neither a text nor a list of texts."""
    texts = [tasks] if isinstance(tasks, str | Path) else tasks
    if not isinstance(texts, Sequence) or not all(isinstance(text, str | Path) for text in texts):
        raise UsageError(f"tasks is {tasks!r:.80}, of type {type(tasks).__name__}; expected names, or a list of them")


_FOR_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed")


def idle_gen_kwargs(gen_kwargs: Mapping[str, Any], tasks: Sequence[TaskPlan]) -> Iterator[str]:
    """Yield a line for each way in which generation settings change nothing in a run of these tasks."""
    writing = [task for task in tasks if isinstance(task.generation, Mapping)]
    if gen_kwargs and not writing:
        yield f"gen_kwargs {', '.join(gen_kwargs)} change nothing here: no task of this run writes an answer"
    idle = [name for name in _FOR_SAMPLING if gen_kwargs.get(name)]
    greedy = [task.name for task in writing if not any(_draws(task.generation))]
    if idle and greedy:
        more = f" and {len(greedy) - 3} more" if len(greedy) > 3 else ""
        yield (
            f"gen_kwargs {', '.join(idle)} change nothing in {', '.join(greedy[:3])}{more}, where the likeliest token "
            "is taken each time; add do_sample=true and a temperature to draw"
        )


def _draws(generation: Any) -> Iterator[bool]:
    """Yield whether tokens are drawn, of all samples and of each kind of sample with settings of its own."""
    yield generation["do_sample"]
    for kinds in generation.get("by", {}).values():
        yield from (told["do_sample"] for told in kinds.values())
