"""Causes of wrong answers for a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.audit.diagnosis import CAUSES, Diagnosis
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, counted, short_model_name, shown_interval, shown_value
from assaymark.results.views.cells import plain_table

__all__ = ["diagnosis_table"]

N_EXAMPLES = 1  # of each cause


def diagnosis_table(diagnoses: Sequence[Diagnosis]) -> RenderableType:
    """Return for each task how many wrong answers have which cause, an example of each, and the next experiments."""
    return Group(*(_of_task(diagnosis) for diagnosis in diagnoses))


def _of_task(diagnosis: Diagnosis) -> RenderableType:
    wrong = f"{diagnosis.n_wrong:,} of {counted(diagnosis.n, 'answer')} wrong"
    looked = (
        "" if diagnosis.n_diagnosed == diagnosis.n_wrong else f", of which {diagnosis.n_diagnosed:,} were looked at"
    )
    heading = f"{short_model_name(diagnosis.model)} · {diagnosis.task}: {wrong}{looked}"
    parts: list[RenderableType] = [Text(heading, style="bold")]
    if diagnosis.n_failed:
        parts.append(
            Text(f"{counted(diagnosis.n_failed, 'sample')} without an answer, which is not wrong", style="dim")
        )
    counts = [count for count in diagnosis.causes if count.n]
    if not counts:
        return Padding(Group(*parts), (0, 1, 1, 1))
    table = plain_table()
    table.add_column("cause", no_wrap=True)
    for header in ("n", "share", "95% interval", "by chance ≤"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("for example", overflow="fold")
    for count in counts:
        examples = [answer for answer in diagnosis.answers if answer.cause == count.cause][:N_EXAMPLES]
        table.add_row(
            count.cause, f"{count.n:,}", shown_value(count.share, proportion=True),
            shown_interval(count.low, count.high, proportion=True),
            shown_value(count.chance, proportion=True) if count.chance else NOTHING,
            Text("; ".join(f"sample {answer.index}: {answer.why}" for answer in examples)),
        )  # fmt: skip
    remedies = {cause.name: cause.remedy for cause in CAUSES}
    parts += [table, Text("next:", style="bold")]
    parts += [Text(f"  {count.cause}: {remedies[count.cause]}") for count in sorted(counts, key=lambda each: -each.n)]
    parts.append(
        Text(f"asked again: {', '.join(diagnosis.tried)}" if diagnosis.tried else "not asked again", style="dim")
    )
    if diagnosis.n_better_models < 3:
        few = counted(diagnosis.n_better_models, "better model")
        parts.append(Text(f"the store has {few} on this task; none is called ambiguous with fewer than 3", style="dim"))
    return Padding(Group(*parts), (0, 1, 1, 1))
