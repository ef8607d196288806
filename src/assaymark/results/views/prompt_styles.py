"""The same questions in several prompt styles: one line per prompt style and number of shots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.documents.blocks import Block, Column, Heading, Paragraph, Table, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, shown_p
from assaymark.records import Estimate, JsonValue
from assaymark.records.json_values import json_of
from assaymark.results.comparison.records import Comparison, Difference
from assaymark.results.comparison.verdict import shown_interval_of, shown_line_difference
from assaymark.results.estimate_texts import interval_text, shown_count, value_text
from assaymark.scoring.choices import CIRCULAR
from assaymark.statistics.multiplicity import holm


@dataclass(frozen=True, slots=True)
class StyleEstimates:
    """One run's estimates with its prompt style."""

    prompt_style: str
    n_shots: int
    run_id: str
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class StyleLine:
    """A task or group of tasks in one prompt style, and its difference from the first prompt style."""

    name: str  # of the task or group
    prompt_style: str
    n_shots: int
    run_id: str
    estimate: Estimate
    unparsed: float | None  # share of generated answers from which no letter could be extracted
    truncated: float | None  # share of prompts that were too long and lost tokens
    difference: Difference | None = None  # from the first prompt style, on the same samples
    p_adjusted: float | None = None  # Holm over the lines of this name


def style_lines(runs: Sequence[StyleEstimates], comparison: Comparison | None) -> list[StyleLine]:
    """Return the lines of each task outside of groups and of each outermost group, in the order of the runs.

    Args:
        runs: one run per prompt style and number of shots.
        comparison: the second and every later run against the first; None for one run.
    """
    names = [estimate.task for estimate in runs[0].estimates if _is_outermost(estimate)]
    return [line for name in dict.fromkeys(names) for line in _lines_of(name, runs, comparison)]


def _is_outermost(estimate: Estimate) -> bool:
    return not estimate.details.get("path") and estimate.details.get("kind", "task") in {"task", "group"}


def _lines_of(name: str, runs: Sequence[StyleEstimates], comparison: Comparison | None) -> list[StyleLine]:
    pairs = comparison.pairs if comparison is not None else ()
    lines = [next((line for line in (*pair.groups, *pair.tasks) if line.name == name), None) for pair in pairs]
    differences = [None, *lines]
    known = [difference.p for difference in differences if difference is not None]
    adjusted = iter(holm(known)) if known else iter(())
    p_values = [None if difference is None else float(next(adjusted)) for difference in differences]
    return [
        StyleLine(name, run.prompt_style, run.n_shots, run.run_id, estimate, *_shares(name, run), difference, p)
        for run, difference, p in zip(runs, differences, p_values, strict=True)
        if (estimate := _main(name, run.estimates)) is not None
    ]


def _main(name: str, estimates: Sequence[Estimate]) -> Estimate | None:
    of_name = [estimate for estimate in estimates if estimate.task == name]
    circular = next((e for e in of_name if e.metric == CIRCULAR), None)  # asked for with --circular
    return circular or next((e for e in of_name if e.details.get("primary", True)), of_name[0] if of_name else None)


def _shares(name: str, run: StyleEstimates) -> tuple[float | None, float | None]:
    """Return the shares of unparsed answers and of truncated prompts, over the task or the group's tasks."""
    tasks = [e for e in run.estimates if e.details.get("kind", "task") == "task"]
    leaves = [e for e in tasks if e.task == name or name in e.details.get("path", ())]
    n = sum(leaf.n for leaf in leaves)
    if not n:
        return None, None
    truncated = sum(int(leaf.details.get("n_cut", 0)) for leaf in leaves) / n
    return sum(leaf.n_unparsed for leaf in leaves) / n if run.prompt_style == "cot" else None, truncated


def style_document(lines: Sequence[StyleLine]) -> Document:
    """Return the lines, one table per task or group."""
    parts: list[Block] = []
    for name in dict.fromkeys(line.name for line in lines):
        parts += [Heading(name, 4), _table([line for line in lines if line.name == name])]
    return document(parts, Paragraph(_legend(lines), "facts"))


def _legend(lines: Sequence[StyleLine]) -> str:
    first = lines[0]
    is_styled = any(line.prompt_style != "own" for line in lines)
    metrics = {
        f"{line.prompt_style} {line.estimate.metric}" if is_styled else line.estimate.metric: None for line in lines
    }
    base = f"{first.prompt_style} with {first.n_shots} shots" if is_styled else f"{first.n_shots} shots"
    legend = f"{', '.join(metrics)}; diff.: from {base}, on paired samples, points; p after Holm."
    if any(line.unparsed is not None for line in lines):
        legend += " no letter: generated answers without a choice letter, counted wrong."
    if any(line.truncated for line in lines):
        legend += " truncated: prompts longer than the context window, which lost tokens, shots first."
    return legend


def _table(lines: Sequence[StyleLine]) -> Table:
    has_unparsed = any(line.unparsed is not None for line in lines)
    has_truncated = any(line.truncated for line in lines)
    is_styled = len({line.prompt_style for line in lines}) > 1 or lines[0].prompt_style != "own"
    styled = [Column("prompt\nstyle", "text")] if is_styled else []
    columns: list[str | Column] = [*styled, "shots", "value", "95%\ninterval", "n"]
    columns += [*(["no\nletter"] if has_unparsed else []), *(["truncated"] if has_truncated else [])]
    rows = [
        (
            *([line.prompt_style] if is_styled else []),
            str(line.n_shots),
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


def style_lines_to_json(lines: Sequence[StyleLine]) -> list[Mapping[str, JsonValue]]:
    """Return the lines with stable names."""
    return [
        {
            "name": line.name,
            "prompt_style": line.prompt_style,
            "num_fewshot": line.n_shots,
            "run_id": line.run_id,
            "metric": line.estimate.metric,
            "value": line.estimate.value,
            "low": line.estimate.low,
            "high": line.estimate.high,
            "n": line.estimate.n,
            "n_failed": line.estimate.n_failed,
            "share_without_letter": line.unparsed,
            "share_of_prompts_cut": line.truncated,
            "difference": json_of(line.difference),
            "p_adjusted": line.p_adjusted,
        }
        for line in lines
    ]
