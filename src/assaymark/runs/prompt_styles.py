"""Multiple-choice tasks in several prompt styles: one run for each style and number of shots, and their comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from assaymark.documents.blocks import Block, Column, Heading, Paragraph, Table, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, shown_p
from assaymark.errors import UsageError
from assaymark.models.lending import gives_back
from assaymark.records import Estimate, JsonValue
from assaymark.records.json_values import json_of
from assaymark.results.comparison.records import Comparison, Difference
from assaymark.results.comparison.verdict import shown_interval_of, shown_line_difference
from assaymark.results.estimate_texts import interval_text, shown_count, value_text
from assaymark.runs.comparison import compare_runs
from assaymark.runs.evaluate import evaluate
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.prepare import model_of, prepare_run
from assaymark.runs.run import Run
from assaymark.scoring.choices import CIRCULAR
from assaymark.statistics.multiplicity import holm
from assaymark.tasks.styled_tasks import HELM_SHOTS, find_prompt_style

OWN_WORDING = "own"  # of the task's file, without a prompt style


@dataclass(frozen=True, slots=True)
class StyleRun:
    """A prompt style and number of shots, with its run."""

    prompt_style: str
    num_fewshot: int
    run: Run


@dataclass(frozen=True, slots=True)
class StyleLine:
    """A task or group of tasks in one prompt style, and its difference from the first prompt style."""

    name: str  # of the task or group
    of: StyleRun
    estimate: Estimate
    unparsed: float | None  # share of generated answers from which no letter could be extracted
    truncated: float | None  # share of prompts that were too long and lost tokens
    difference: Difference | None = None  # from the first prompt style, on the same samples
    p_adjusted: float | None = None  # Holm over the lines of this name

    json_keys = (
        "name prompt_style=of.prompt_style num_fewshot=of.num_fewshot run_id=of.run.short_id metric=estimate.metric "
        "value=estimate.value low=estimate.low high=estimate.high n=estimate.n n_failed=estimate.n_failed "
        "share_without_letter=unparsed share_of_prompts_cut=truncated difference p_adjusted"
    )


@dataclass(frozen=True, slots=True)
class PromptStyles:
    """The runs of all prompt styles; each is compared with the first."""

    runs: tuple[StyleRun, ...]
    comparison: Comparison | None  # None for one run

    def _lines(self) -> list[StyleLine]:
        """Return the lines of each task outside of groups and of each outermost group, in the order of the runs."""
        outermost = [
            each.task
            for each in self.runs[0].run.estimates
            if not each.details.get("path") and each.details.get("kind", "task") in {"task", "group"}
        ]
        return [line for name in dict.fromkeys(outermost) for line in _lines_of(name, self.runs, self.comparison)]

    def document(self) -> Document:
        """Return the results: values, intervals, answers that could not be extracted, differences."""
        return _document(self._lines())

    def remarks(self) -> list[str]:
        """Return lines on each run's generated texts, and the ids of the runs."""
        named = [f"{run.prompt_style} {run.num_fewshot}-shot {run.run.short_id}" for run in self.runs]
        texts = [
            f"{name}: {line}" for name, run in zip(named, self.runs, strict=True) for line in run.run.lines_on_texts()
        ]
        return [*texts, f"runs: {', '.join(named)}"]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the lines and the runs with stable names."""
        return {"lines": json_of(self._lines()), "runs": [run.run.to_json() for run in self.runs]}


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


def _lines_of(name: str, runs: Sequence[StyleRun], comparison: Comparison | None) -> list[StyleLine]:
    pairs = comparison.pairs if comparison is not None else ()
    lines = [next((line for line in (*pair.groups, *pair.tasks) if line.name == name), None) for pair in pairs]
    differences = [None, *lines]
    known = [difference.p for difference in differences if difference is not None]
    adjusted = iter(holm(known)) if known else iter(())
    p_values = [None if difference is None else float(next(adjusted)) for difference in differences]
    return [
        StyleLine(name, run, estimate, *_shares(name, run), difference, p)
        for run, difference, p in zip(runs, differences, p_values, strict=True)
        if (estimate := _main(name, run.run.estimates)) is not None
    ]


def _main(name: str, estimates: Sequence[Estimate]) -> Estimate | None:
    of_name = [estimate for estimate in estimates if estimate.task == name]
    circular = next((e for e in of_name if e.metric == CIRCULAR), None)  # asked for with --circular
    return circular or next((e for e in of_name if e.details.get("primary", True)), of_name[0] if of_name else None)


def _shares(name: str, run: StyleRun) -> tuple[float | None, float | None]:
    """Return the shares of unparsed answers and of truncated prompts, over the task or the group's tasks."""
    tasks = [e for e in run.run.estimates if e.details.get("kind", "task") == "task"]
    leaves = [e for e in tasks if e.task == name or name in e.details.get("path", ())]
    n = sum(leaf.n for leaf in leaves)
    if not n:
        return None, None
    truncated = sum(int(leaf.details.get("n_cut", 0)) for leaf in leaves) / n
    return sum(leaf.n_unparsed for leaf in leaves) / n if run.prompt_style == "cot" else None, truncated


def _document(lines: Sequence[StyleLine]) -> Document:
    """Return the lines, one table per task or group."""
    parts: list[Block] = []
    for name in dict.fromkeys(line.name for line in lines):
        parts += [Heading(name, 4), _table([line for line in lines if line.name == name])]
    return document(parts, Paragraph(_legend(lines), "facts"))


def _legend(lines: Sequence[StyleLine]) -> str:
    first = lines[0]
    is_styled = any(line.of.prompt_style != OWN_WORDING for line in lines)
    metrics = {
        f"{line.of.prompt_style} {line.estimate.metric}" if is_styled else line.estimate.metric: None for line in lines
    }
    shots = f"{first.of.num_fewshot} shots"
    base = f"{first.of.prompt_style} with {shots}" if is_styled else shots
    legend = f"{', '.join(metrics)}; diff.: from {base}, on paired samples, points; p after Holm."
    if any(line.unparsed is not None for line in lines):
        legend += " no letter: generated answers without a choice letter, counted wrong."
    if any(line.truncated for line in lines):
        legend += " truncated: prompts longer than the context window, which lost tokens, shots first."
    return legend


def _table(lines: Sequence[StyleLine]) -> Table:
    has_unparsed = any(line.unparsed is not None for line in lines)
    has_truncated = any(line.truncated for line in lines)
    is_styled = len({line.of.prompt_style for line in lines}) > 1 or lines[0].of.prompt_style != OWN_WORDING
    styled = [Column("prompt\nstyle", "text")] if is_styled else []
    columns: list[str | Column] = [*styled, "shots", "value", "95%\ninterval", "n"]
    columns += [*(["no\nletter"] if has_unparsed else []), *(["truncated"] if has_truncated else [])]
    rows = [
        (
            *([line.of.prompt_style] if is_styled else []),
            str(line.of.num_fewshot),
            value_text(line.estimate),
            interval_text(line.estimate),
            shown_count([line.estimate]),
            *([_share(line.unparsed)] if has_unparsed else []),
            *([_share(line.truncated)] if has_truncated else []),
            *_difference_cells(line),
        )
        for line in lines
    ]
    return table((*columns, "diff.", "95%\ninterval", "p"), rows, n_text=0)


def _share(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.1%}"


def _difference_cells(line: StyleLine) -> tuple[str, str, str]:
    if line.difference is None:
        return "", "", ""
    p = line.difference.p if line.p_adjusted is None else line.p_adjusted
    return shown_line_difference(line.difference), shown_interval_of(line.difference), shown_p(p)
