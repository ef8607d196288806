"""A stored conversation for people: who said what, turn by turn, in full."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from evalstone.report.console import Text
from evalstone.report.views.samples import sample_view
from evalstone.store.rows import SampleRecord

__all__ = ["conversations", "dialogue_view"]


def conversations(records: Sequence[SampleRecord]) -> list[list[SampleRecord]]:
    """Return the records of each sample together, turn after turn."""
    found: dict[tuple[str, int], list[SampleRecord]] = {}
    for record in records:
        found.setdefault((record.request.task, record.request.sample_index), []).append(record)
    return [sorted(each, key=lambda record: record.request.turn) for each in found.values()]


def dialogue_view(turns: Sequence[SampleRecord]) -> RenderableType:
    """Return a sample as it is shown: one of a single turn by its prompt, a conversation by what was said."""
    if len(turns) == 1:
        return sample_view(turns[0])
    first = turns[0].request
    parts: list[RenderableType] = [Text(f"{first.task} {first.sample_index}  {len(turns)} turns", style="bold")]
    said = 0
    for record in turns:
        new = record.request.messages[said:]  # answers are shown as they are stored, with how they ended
        parts += [_line(message.role, message.text, "dim") for message in new if message.role != "assistant"]
        said = len(record.request.messages)
        for output in record.outputs:
            if output.error is not None:
                parts.append(_line("failed", output.error, "red"))
            else:
                ending = "" if output.finish_reason != "length" else " (cut off)"
                parts.append(_line(f"model{ending}", output.text or "(nothing)", ""))
        if record.request.target:
            parts.append(_line("reference", record.request.target, "green"))
    return Padding(Group(*parts), (0, 0, 1, 0))


def _line(who: str, text: str, style: str) -> RenderableType:
    return Padding(Text(f"{who}: ", style="bold").append(text, style=style or "not bold"), (0, 1, 0, 2))
