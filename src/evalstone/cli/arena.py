"""`evalstone arena rate VOTES`: ratings of models from votes, with intervals."""

from typing import Any

import click

from evalstone.cli.output import echo, json_option, print_json, print_rich
from evalstone.errors import UsageError


@click.group()
def arena() -> None:
    """Compute ratings from votes between two models' answers."""


@arena.command()
@click.argument("votes", metavar="VOTES")
@click.option(
    "--by",
    type=click.Choice(["prompt", "judge", "vote"]),
    help="Cluster the votes for the intervals (default: by prompt, else judge, else single votes, as in the file).",
)
@click.option("--style", is_flag=True, help="Control for length, headers, lists and bold text of the answers.")
@click.option(
    "--side",
    is_flag=True,
    help="Control for the side on which an answer was shown; the file must have the sides as shown.",
)
@click.option("--language", metavar="NAME", help="Use only votes in this language.")
@click.option(
    "--columns",
    multiple=True,
    metavar="model_a=COLUMN,...",
    help="Names of columns that are not recognised: model_a, model_b, winner, prompt, judge, language.",
)
@click.option("--anchor", metavar="MODEL=1000", help="Fix one model's rating (default: the mean is 1000).")
@click.option(
    "--interval",
    type=click.Choice(["sandwich", "bootstrap"]),
    default="sandwich",
    show_default=True,
    help="Method of the intervals.",
)
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, metavar="SHARE", help="Level of the intervals."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, not rounded.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@json_option
def rate(votes: str, *, as_csv: bool, markdown: bool, as_json: bool, **given: Any) -> None:
    """Rate the models of a file of votes: rating, interval, ranks, win rate.

    VOTES is a CSV, JSON lines, JSON or Parquet file with columns model_a, model_b (or left, right) and winner
    (model_a, model_b, tie, `tie (bothbad)`, or the winner's name). The columns prompt_id, judge, language, tokens_a,
    tokens_b, response_a and response_b are used if present. Files of MT-bench, AlpacaEval and PandaLM are recognised.
    """
    from evalstone.api.arena import columns_of, rate_votes
    from evalstone.arena.ratings import RatingSettings

    if as_csv + markdown + as_json > 1:
        raise UsageError("--json, --csv and --markdown exclude each other; choose one")
    columns = columns_of(given.pop("columns"))
    language, anchor = given.pop("language"), given.pop("anchor")
    rated = rate_votes(votes, RatingSettings(**given), language=language, anchor=anchor, columns=columns)
    if as_json:
        print_json(rated.to_json())
    elif as_csv:
        echo(rated.to_csv(), nl=False)
    elif markdown:
        echo(rated.to_markdown(), nl=False)
    else:
        print_rich(rated.table())
