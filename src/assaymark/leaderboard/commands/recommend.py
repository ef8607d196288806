"""`assaymark recommend`: models for a purpose, by the available evidence; `guide`: the benchmarks that measure it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json, print_rich, store_option

if TYPE_CHECKING:
    from assaymark.leaderboard.site import Site
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assaymark.documents.document import Document
    from assaymark.leaderboard.guide import GuideSection


@click.command(cls=Command, epilog=examples("recommend --for 'coding in python' --max_params 8"))
@click.option("--for", "wanted", required=True, metavar="NAME,...", help="Capabilities or benchmarks, such as maths.")
@click.option("--max-params", "--max_params", type=click.FloatRange(0, min_open=True), metavar="B",
              help="Most parameters, in billions.")  # fmt: skip
@click.option("--license", "--licence", "licence", default="", metavar="NAME", help="Licence, or how it begins.")
@click.option("--where", default="", metavar="QUERY", help="More conditions, as in `board query`: 'type:chat'.")
@click.option("--board", "boards", multiple=True, metavar="FILE.yaml", help="Look in this board's table; repeatable.")
@click.option("--table", "tables", multiple=True, metavar="FILE.csv", help="Look in this published table; repeatable.")
@click.option("--top", "-n", type=click.IntRange(1, 1000), default=10, show_default=True, help="Models to list.")
@store_option
@json_option
def recommend(
    wanted: str, store: str | None, as_json: bool, *, max_params: float | None, licence: str, where: str,
    boards: tuple[str, ...], tables: tuple[str, ...], top: int,
) -> None:  # fmt: skip
    """Rank models by the benchmarks that measure what is requested, with the reason for each.

    The evidence is that of the store's runs, of the published tables that are named, and of the store's arena: votes on
    prompts of a category that belongs to what is requested. Each table is ranked by itself, since values of different
    tables were measured differently. Where there is no evidence, the answer is what to evaluate; models that nothing
    rates are named.
    """
    from assaymark.leaderboard.evidence import sources_of, votes_of
    from assaymark.leaderboard.recommend import Requested
    from assaymark.leaderboard.recommend import recommend as find
    from assaymark.leaderboard.recommendation_views import (
        advice_line,
        missing_line,
        recommendation_document,
        unmeasured_line,
    )

    names = tuple(name.strip() for name in wanted.split(",") if name.strip())
    site = _site(boards, tables, store)
    sources = sources_of(site)
    requested = Requested(names, max_params, licence.strip(), where, top)
    recommendation = find(sources, requested, votes_of(site))
    if as_json:
        print_json(recommendation)
        return
    print_rich(recommendation_document(recommendation))
    for missing in recommendation.no_evidence:
        echo(missing_line(missing))
        echo(advice_line(missing))
    echo(*(unmeasured_line(unmeasured) for unmeasured in recommendation.unmeasured))
    if not sources:
        echo("there was nothing to look in: the store has no results; name a table with --table FILE.csv", err=True)
    if recommendation.rankings:
        echo(
            "Values: mean over the capabilities, 95% intervals. P: probability from the standard errors that the model "
            "is better than the next one, and that the first is better than it.",
            err=True,
        )


def _site(boards: tuple[str, ...], tables: tuple[str, ...], store: str | None) -> "Site":
    """Return the named tables, and the store's runs if there is a store."""
    from assaymark.leaderboard.board_files import read_board
    from assaymark.leaderboard.published import board_of_table
    from assaymark.leaderboard.site import Site
    from assaymark.leaderboard.stored import StoredRuns
    from assaymark.store import Store

    read = [*(read_board(path) for path in boards), *(board_of_table(Path(path)) for path in tables)]
    has_store = store is not None or not read or Store.exists(None)
    return Site(read, StoredRuns(Store.open_to_read(store)) if has_store else None)


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
