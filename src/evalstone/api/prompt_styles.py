"""One multiple-choice task put every way: a run for each way and number of shots, and the runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from evalstone.api.comparison import compare_runs
from evalstone.api.evaluate import evaluate
from evalstone.api.run import Run
from evalstone.errors import UsageError
from evalstone.models.lending import gives_back
from evalstone.records import JsonValue
from evalstone.runner.evaluate_options import EvaluateOptions
from evalstone.runner.prepare import model_of
from evalstone.tasks.prompt_styles import find_prompt_style

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evalstone.report.comparison.records import Comparison
    from evalstone.report.views.prompt_style_table import StyleLine

__all__ = ["PromptStyles", "StyleRun", "evaluate_prompt_styles"]


@dataclass(frozen=True, slots=True)
class StyleRun:
    """One way, and its run."""

    prompt_style: str
    num_fewshot: int
    run: Run


@dataclass(frozen=True, slots=True)
class PromptStyles:
    """The runs of all ways, the first of which the others are compared with."""

    runs: tuple[StyleRun, ...]
    comparison: "Comparison | None"  # None for one run

    def _lines(self) -> "list[StyleLine]":
        from evalstone.report.views.prompt_style_table import StyleEstimates, style_lines

        made = [
            StyleEstimates(one.prompt_style, one.num_fewshot, one.run.short_id, one.run.estimates) for one in self.runs
        ]
        return style_lines(made, self.comparison)

    def table(self) -> "RenderableType":
        """Return the ways side by side for a terminal: values, intervals, answers not read, paired differences."""
        from evalstone.report.views.prompt_style_table import style_table

        return style_table(self._lines())

    def remarks(self) -> list[str]:
        """Return the runs' names, to look at or compare further."""
        named = [f"{one.prompt_style} {one.num_fewshot}-shot {one.run.short_id}" for one in self.runs]
        return [f"runs: {', '.join(named)}"]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the lines and the runs with stable names."""
        from evalstone.report.views.prompt_style_table import style_lines_to_json

        return {"lines": style_lines_to_json(self._lines()), "runs": [one.run.to_json() for one in self.runs]}


@gives_back
def evaluate_prompt_styles(
    model: Any,
    tasks: str | Sequence[str],
    prompt_styles: Sequence[str],
    shots: Sequence[int],
    **options: Unpack[EvaluateOptions],
) -> PromptStyles:
    """Put multiple-choice tasks in every way at every number of shots, one run each, and compare with the first.

    Args:
        model: as for `evaluate`.
        tasks: names, groups, globs or files of multiple-choice tasks; no suites.
        prompt_styles: out of letter, text and cot.
        shots: numbers of shots; the same shots are drawn for every way.
        options: as for `evaluate`, without `prompt_style` and `num_fewshot`.

    Raises: UsageError if nothing or something twice is asked for; whatever `evaluate` raises.
    """
    ways = [(find_prompt_style(name), count) for name in prompt_styles for count in shots]
    if not ways or len(set(ways)) < len(ways):
        raise UsageError(
            f"prompt_style {', '.join(prompt_styles)} at {', '.join(map(str, shots))} shots: name each way once"
        )
    answering = model_of(model, options)  # one model for all: its weights are loaded once
    runs: list[StyleRun] = []
    for name, count in ways:
        settled: EvaluateOptions = {**options, "prompt_style": name, "num_fewshot": count}
        runs.append(StyleRun(name, count, evaluate(answering, tasks, **settled)))
    comparison = compare_runs([one.run for one in runs]) if len(runs) > 1 else None
    return PromptStyles(tuple(runs), comparison)
