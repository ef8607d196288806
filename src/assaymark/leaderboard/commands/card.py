"""`assaymark card MODEL`: the README.md that a model lacks, from its stored runs."""

from pathlib import Path

import click

from assaymark.cli.output import Command, echo, examples, store_option
from assaymark.errors import UsageError, write_errors


@click.command(cls=Command, epilog=examples("card DIR -o README.md"))
@click.argument("model")
@click.option("-o", "--output", metavar="FILE", help="Where to write it, such as README.md (default: print it).")
@click.option("--license", "--licence", "licence", default="", metavar="NAME", help="Licence to state: apache-2.0.")
@store_option
def card(model: str, output: str | None, licence: str, store: str | None) -> None:
    """Write a model card for MODEL, a name, the end of one, or `last`, from its stored runs.

    It has the front matter that the Hugging Face Hub reads (model-index), strengths and weaknesses with intervals,
    the set-up, what was not measured, and the commands that reproduce the results. Of files that exist, only a card
    that this command wrote is replaced.
    """
    from assaymark.drafts import write_whole
    from assaymark.leaderboard.model_card import MARK, model_card
    from assaymark.store import Store

    place = None if output is None else Path(output)
    text = model_card(Store.open_to_read(store), model, licence.strip())
    if place is None:
        echo(text, nl=False)
        return
    with write_errors(place, "name another place with -o"):
        if place.is_file() and MARK not in place.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"{place} exists, and no `assaymark card` wrote it; name another file with -o, or move it")
        write_whole(place, text, "backslashreplace")
    echo(f"wrote {place}")
