"""`assaymark guide [CAPABILITY]`: which benchmarks measure what, and what to look out for."""

from typing import TYPE_CHECKING

import click

from assaymark.cli.output import echo, json_option, print_json, print_rich

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from assaymark.leaderboard.guide import GuideSection


@click.command()
@click.argument("capability", required=False)
@json_option
def guide(capability: str | None, as_json: bool) -> None:
    """Say which benchmarks measure a capability, such as maths, or what a word means, such as logits.

    Without either, the capabilities.

    Precision is the half-width of the 95% interval of a score of 50%, in points.
    """
    from assaymark.leaderboard.guide import guide as every
    from assaymark.leaderboard.guide import guide_section, words

    if capability is not None and (word := capability.lower().replace("_", " ")) in words():
        print_json({word: words()[word]}) if as_json else echo(f"{word}: {words()[word]}")
        return
    sections = every() if capability is None else (guide_section(capability),)
    if as_json:
        print_json([_as_json(section) for section in sections])
    elif capability is None:
        print_rich(_overview(sections))
        echo("More about one: assaymark guide maths", err=True)
    else:
        _print_section(sections[0])


def _as_json(section: "GuideSection") -> dict[str, object]:
    from dataclasses import asdict

    capability = section.capability
    return {"capability": capability.key, "title": capability.title, "advice": capability.advice,
            "suggested": capability.suggested or None,
            "benchmarks": [asdict(entry) for entry in section.entries]}  # fmt: skip


def _overview(sections: "Sequence[GuideSection]") -> "Table":
    from rich.table import Table

    table = Table("capability", "suggested", "benchmarks", box=None, pad_edge=False)
    for section in sections:
        others = [entry.task for entry in section.entries if entry.task != section.capability.suggested]
        table.add_row(section.capability.key, section.capability.suggested or "–", ", ".join(others) or "–")
    return table


def _print_section(section: "GuideSection") -> None:
    from rich.table import Table

    from assaymark.documents.terminal import Text

    print_rich(Text(section.capability.advice))
    if not section.entries:
        return
    table = Table("benchmark", "samples", "±", "chance", "known faults", box=None, pad_edge=False)
    for entry in section.entries:
        table.add_row(
            entry.task,
            f"{entry.n_samples:,}",
            f"{100 * entry.half_width:.1f}",
            _chance(entry.chance),
            str(len(entry.known_faults)),
        )
    print_rich("", table)
    values = Table("published values", "", "setting", "source", box=None, pad_edge=False)
    for entry in section.entries:
        for value in entry.published:
            values.add_row(f"{entry.task}  {value.model}", f"{value.value:.1f}", value.setting, value.source)
    if values.row_count:
        print_rich("", values)
    first = section.entries[0]
    if first.sample_prompt is not None:
        print_rich("", Text(f"How {first.sample_prompt.task} asks, with a row made up for this guide:", style="bold"))
        print_rich(Text(first.sample_prompt.text), Text(first.sample_prompt.answer, style="dim"), "")
    echo(f"A benchmark's prompt, metric and faults: assaymark explain {section.entries[0].task}", err=True)


def _chance(chance: float | str | None) -> str:
    if chance is None:
        return "–"
    return chance if isinstance(chance, str) else f"{100 * chance:.0f}%"
