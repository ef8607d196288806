"""Causes of wrong answers for a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.audit.diagnosis import CAUSES, CauseCount, Diagnosis
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, counted, short_model_name, shown_interval, shown_value
from assaymark.results.views.cells import plain_table

__all__ = ["CAUSE_COLUMNS", "cause_cells", "diagnosis_table", "footnotes", "heading_of"]

CAUSE_COLUMNS = ("cause", "n", "share", "95% interval", "by chance ≤")
N_EXAMPLES = 1  # of each cause


def diagnosis_table(diagnoses: Sequence[Diagnosis]) -> RenderableType:
    """Return for each task how many wrong answers have which cause, an example of each, and the next experiments."""
    return Group(*(_of_task(diagnosis) for diagnosis in diagnoses))


def _of_task(diagnosis: Diagnosis) -> RenderableType:
    parts: list[RenderableType] = [Text(heading_of(diagnosis), style="bold")]
    notes = [Text(line, style="dim") for line in footnotes(diagnosis)]
    counts = [count for count in diagnosis.causes if count.n]
    if not counts:
        return Padding(Group(*parts, *notes), (0, 1, 1, 1))
    table = plain_table()
    table.add_column(CAUSE_COLUMNS[0], no_wrap=True)
    for header in CAUSE_COLUMNS[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("for example", overflow="fold")
    for count in counts:
        examples = [answer for answer in diagnosis.answers if answer.cause == count.cause][:N_EXAMPLES]
        table.add_row(
            *cause_cells(count), Text("; ".join(f"sample {answer.index}: {answer.why}" for answer in examples))
        )
    remedies = {cause.name: cause.remedy for cause in CAUSES}
    parts += [table, Text("next:", style="bold")]
    parts += [Text(f"  {count.cause}: {remedies[count.cause]}") for count in sorted(counts, key=lambda each: -each.n)]
    return Padding(Group(*parts, *notes), (0, 1, 1, 1))


def heading_of(diagnosis: Diagnosis) -> str:
    """Return model, task, and how many answers are wrong."""
    wrong = f"{diagnosis.n_wrong:,} of {counted(diagnosis.n, 'answer')} wrong"
    n_looked = diagnosis.n_diagnosed
    looked = "" if n_looked == diagnosis.n_wrong else f", of which {n_looked:,} were looked at"
    return f"{short_model_name(diagnosis.model)} · {diagnosis.task}: {wrong}{looked}"


def cause_cells(count: CauseCount) -> tuple[str, ...]:
    """Return the cells of CAUSE_COLUMNS."""
    return (
        count.cause, f"{count.n:,}", shown_value(count.share, proportion=True),
        shown_interval(count.low, count.high, proportion=True),
        shown_value(count.chance, proportion=True) if count.chance else NOTHING,
    )  # fmt: skip


def footnotes(diagnosis: Diagnosis) -> list[str]:
    """Return what was not answered, how the wrong answers were asked again, and why none is called ambiguous."""
    lines = []
    if diagnosis.n_failed:
        lines.append(f"{counted(diagnosis.n_failed, 'sample')} without an answer, which is not wrong")
    if any(count.n for count in diagnosis.causes):
        lines.append(f"asked again: {', '.join(diagnosis.tried)}" if diagnosis.tried else "not asked again")
        if diagnosis.n_better_models < 3:
            few = counted(diagnosis.n_better_models, "better model")
            lines.append(f"the store has {few} on this task; none is called ambiguous with fewer than 3")
    return lines
