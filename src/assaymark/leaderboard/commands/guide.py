"""`assaymark guide [CAPABILITY]`: the benchmarks that measure a capability, and their pitfalls."""

from typing import TYPE_CHECKING

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, json_option, print_json, print_rich

if TYPE_CHECKING:
    from assaymark.documents.document import Document
    from assaymark.leaderboard.guide import GuideSection


@click.command(cls=Command, epilog=examples("guide", "guide reasoning"))
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
        print_json([
            {"capability": each.capability.key, "title": each.capability.title, "advice": each.capability.advice,
             "suggested": each.capability.suggested or None, "benchmarks": each.entries}
            for each in sections
        ])  # fmt: skip
    elif capability is None:
        from assaymark.documents.blocks import table
        from assaymark.documents.document import document

        rows = []
        for section in sections:
            others = [entry.task for entry in section.entries if entry.task != section.capability.suggested]
            rows.append((section.capability.key, section.capability.suggested or "–", ", ".join(others) or "–"))
        print_rich(document(table(("capability", "suggested", "benchmarks"), rows, n_text=3)))
        echo("More about one: assaymark guide maths", err=True)
    else:
        print_rich(_of_section(sections[0]))
        if sections[0].entries:
            echo(f"A benchmark's prompt, metric and faults: assaymark explain {sections[0].entries[0].task}", err=True)


def _of_section(section: "GuideSection") -> "Document":
    from assaymark.documents.blocks import Block, Column, Heading, Paragraph, table
    from assaymark.documents.document import document

    parts: list[Block] = [Paragraph(section.capability.advice)]
    if section.entries:
        rows = [
            (entry.task, f"{entry.n_samples:,}", f"{100 * entry.half_width:.1f}", _chance(entry.chance),
             str(len(entry.known_faults)))
            for entry in section.entries
        ]  # fmt: skip
        parts.append(table(("benchmark", "samples", "±", "chance", "known faults"), rows))
    values = [
        (f"{entry.task}  {value.model}", f"{value.value:.1f}", value.setting, value.source)
        for entry in section.entries
        for value in entry.published
    ]
    if values:
        parts.append(table(("published values", "", Column("setting", "text"), Column("source", "text")), values))
    if section.entries and (sample := section.entries[0].sample_prompt) is not None:
        parts.append(Heading(f"How {sample.task} asks, with a row made up for this guide:", 4))
        parts += [Paragraph(sample.text), Paragraph(sample.answer, "facts")]
    return document(parts)


def _chance(chance: float | str | None) -> str:
    if chance is None:
        return "–"
    return chance if isinstance(chance, str) else f"{100 * chance:.0f}%"
