"""Multiple-choice tasks in several prompt styles: one run for each style and number of shots, and their comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from assaymark.errors import UsageError
from assaymark.models.lending import gives_back
from assaymark.records import JsonValue
from assaymark.runs.comparison import compare_runs
from assaymark.runs.evaluate import evaluate
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.prepare import model_of, prepare_run
from assaymark.runs.run import Run
from assaymark.tasks.styled_tasks import HELM_SHOTS, find_prompt_style

if TYPE_CHECKING:
    from assaymark.documents.document import Document
    from assaymark.results.comparison.records import Comparison
    from assaymark.results.views.prompt_styles import StyleLine

OWN_WORDING = "own"  # of the task's file, without a prompt style


@dataclass(frozen=True, slots=True)
class StyleRun:
    """A prompt style and number of shots, with its run."""

    prompt_style: str
    num_fewshot: int
    run: Run


@dataclass(frozen=True, slots=True)
class PromptStyles:
    """The runs of all prompt styles; each is compared with the first."""

    runs: tuple[StyleRun, ...]
    comparison: "Comparison | None"  # None for one run

    def _lines(self) -> "list[StyleLine]":
        from assaymark.results.views.prompt_styles import StyleEstimates, style_lines

        of_runs = [
            StyleEstimates(run.prompt_style, run.num_fewshot, run.run.short_id, run.run.estimates) for run in self.runs
        ]
        return style_lines(of_runs, self.comparison)

    def document(self) -> "Document":
        """Return the results: values, intervals, answers that could not be extracted, differences."""
        from assaymark.results.views.prompt_styles import style_document

        return style_document(self._lines())

    def remarks(self) -> list[str]:
        """Return lines on each run's generated texts, and the ids of the runs."""
        named = [f"{run.prompt_style} {run.num_fewshot}-shot {run.run.short_id}" for run in self.runs]
        texts = [
            f"{name}: {line}" for name, run in zip(named, self.runs, strict=True) for line in run.run.lines_on_texts()
        ]
        return [*texts, f"runs: {', '.join(named)}"]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the lines and the runs with stable names."""
        from assaymark.results.views.prompt_styles import style_lines_to_json

        return {"lines": style_lines_to_json(self._lines()), "runs": [run.run.to_json() for run in self.runs]}


@gives_back
def evaluate_prompt_styles(
    model: object,
    tasks: str | Sequence[str],
    prompt_styles: Sequence[str],
    shots: Sequence[int | None],
    **options: Unpack[EvaluateOptions],
) -> PromptStyles:
    """Evaluate multiple-choice tasks in each prompt style at each number of shots, and compare the runs with the first.

    Args:
        model: as for `evaluate`.
        tasks: names, groups, globs or files of tasks, multiple-choice ones for styles but own; no suites.
        prompt_styles: among letter, text, cot, helm-joint, helm-separate, helm-separate-calibrated, and own: the
            wording of the task's file, for tasks of any kind.
        shots: numbers of shots; the same shots are drawn for every style but helm-joint, which has HELM's draw. None:
            HELM's five in helm-joint, else 0. The styles helm-separate and helm-separate-calibrated have none.
        options: as for `evaluate`, without `prompt_style` and `num_fewshot`.

    Raises: UsageError for no style, or one that is named twice; as `evaluate`.
    """
    names = [name if name == OWN_WORDING else find_prompt_style(name) for name in prompt_styles]
    combinations = list(dict.fromkeys((name, _shots_of(name, count)) for name in names for count in shots))
    if not combinations or len({*names}) < len(names) or len({*shots}) < len(shots):
        raise UsageError(
            f"prompt_style {', '.join(prompt_styles)} at {', '.join(map(str, shots))} shots; expected each style and "
            "each number of shots once"
        )
    opened = model_of(model, options)  # so that the weights are loaded once for all runs
    calls = [(name, count, _options_of(name, count, options)) for name, count in combinations]
    for _, count, own in calls:  # of the most shots: too many are refused before anything is evaluated
        if count == max(count for _, count in combinations) > 0:
            _, prepared = prepare_run(opened, tasks, own)
            for bound in prepared.bound:
                next(iter(bound.requests()), None)
    runs = [StyleRun(name, count, evaluate(opened, tasks, **own)) for name, count, own in calls]
    comparison = compare_runs([run.run for run in runs]) if len(runs) > 1 else None
    return PromptStyles(tuple(runs), comparison)


def _shots_of(style: str, count: int | None) -> int:
    if style.startswith("helm-separate"):
        return 0
    return count if count is not None else HELM_SHOTS if style == "helm-joint" else 0


def _options_of(style: str, n_shots: int, options: EvaluateOptions) -> EvaluateOptions:
    own: EvaluateOptions = {**options, "num_fewshot": n_shots}
    if style != OWN_WORDING:
        own["prompt_style"] = style
    return own
