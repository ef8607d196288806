"""A stored conversation for the terminal: the messages turn by turn, in full."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.report.console import Text
from assaymark.report.views.samples import sample_view
from assaymark.store.rows import SampleRecord

__all__ = ["conversations", "dialogue_view"]


def conversations(records: Sequence[SampleRecord]) -> list[list[SampleRecord]]:
    """Return the records grouped by sample, each group in the order of its turns."""
    found: dict[tuple[str, int], list[SampleRecord]] = {}
    for record in records:
        found.setdefault((record.request.task, record.request.sample_index), []).append(record)
    return [sorted(each, key=lambda record: record.request.turn) for each in found.values()]


def dialogue_view(turns: Sequence[SampleRecord]) -> RenderableType:
    """Return a sample for display: a single turn by its prompt, a conversation by its messages."""
    if len(turns) == 1:
        return sample_view(turns[0])
    first = turns[0].request
    parts: list[RenderableType] = [Text(f"{first.task} {first.sample_index}  {len(turns)} turns", style="bold")]
    n_shown = 0
    for record in turns:
        new = record.request.messages[n_shown:]  # answers are shown from the outputs, with their finish reason
        parts += [_line(message.role, message.shown, "dim") for message in new if message.role != "assistant"]
        n_shown = len(record.request.messages)
        for output in record.outputs:
            if output.error is not None:
                parts.append(_line("failed", output.error, "red"))
            else:
                ending = "" if output.finish_reason != "length" else " (truncated)"
                parts.append(_line(f"model{ending}", output.text or "(empty)", ""))
        if record.request.target:
            parts.append(_line("reference", record.request.target, "green"))
    return Padding(Group(*parts), (0, 0, 1, 0))


def _line(who: str, text: str, style: str) -> RenderableType:
    return Padding(Text(f"{who}: ", style="bold").append(text, style=style or "not bold"), (0, 1, 0, 2))
