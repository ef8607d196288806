"""`evalstone arena rate VOTES`: which model do people prefer, by how much, and how sure is that?"""

from typing import Any

import click

from evalstone.cli.output import echo, json_option, print_json, print_rich
from evalstone.errors import UsageError


@click.group()
def arena() -> None:
    """Make ratings of votes between two models' answers."""


@arena.command()
@click.argument("votes", metavar="VOTES")
@click.option(
    "--by",
    type=click.Choice(["prompt", "judge", "vote"]),
    help="What goes together and varies together (default: prompt, else judge, else vote, as the file tells).",
)
@click.option("--style", is_flag=True, help="Control for length, headers, lists and bold text of the answers.")
@click.option("--side", is_flag=True, help="Control for the side an answer stood on; needs sides as they were shown.")
@click.option("--language", metavar="NAME", help="Only votes in this language.")
@click.option(
    "--columns",
    multiple=True,
    metavar="model_a=COLUMN,...",
    help="Columns that are not recognised: model_a, model_b, winner, prompt, judge, language.",
)
@click.option("--anchor", metavar="MODEL=1000", help="Fix one model's rating (default: the mean is 1000).")
@click.option(
    "--interval",
    type=click.Choice(["sandwich", "bootstrap"]),
    default="sandwich",
    show_default=True,
    help="How intervals are made.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="SHARE", help="Of the intervals.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, not rounded.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@json_option
def rate(votes: str, *, as_csv: bool, markdown: bool, as_json: bool, **given: Any) -> None:
    """Rate the models of a file of votes: rating, interval, ranks, win rate.

    VOTES is a CSV, JSON lines, JSON or Parquet file with columns model_a, model_b (or left, right) and winner
    (model_a, model_b, tie, `tie (bothbad)`, or the winner's name); if there, prompt_id, judge, language, tokens_a and
    tokens_b, response_a and response_b are used too. Files of MT-bench, AlpacaEval and PandaLM are recognised.
    """
    from evalstone.api.arena import columns_of, rate_votes
    from evalstone.arena.ratings import RatingSettings

    if as_csv + markdown + as_json > 1:
        raise UsageError("--json, --csv and --markdown are three ways to print; choose one")
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
