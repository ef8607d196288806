"""`assaymark arena`: battles between models in the browser, their votes as a file, and ratings of any file of votes."""

from functools import partial
from pathlib import Path

import click

from assaymark.arena.arena_log import ArenaLog
from assaymark.cli.extras import need_web, serving_options
from assaymark.cli.output import Group, echo, examples, json_option, print_json, print_result, print_rich, store_option
from assaymark.errors import DataError, UsageError
from assaymark.records.json_values import dataclass_of, dataclass_within

EXAMPLES = examples(
    "arena serve --demo",
    "arena serve --endpoint mine=http://127.0.0.1:7601/v1 --endpoint other=https://api.example.org/v1#NAME",
    "arena rate votes.csv",
)


@click.group(cls=Group, epilog=EXAMPLES)
def arena() -> None:
    """Let people compare two models' answers, and compute ratings from votes."""


@arena.command(epilog=examples("arena rate votes.jsonl --matrix"))
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
    help="Names of columns that are not recognised: model_a, model_b, winner, prompt, judge, language, category, time.",
)
@click.option("--anchor", metavar="MODEL=1000", help="Fix one model's rating (default: the mean is 1000).")
@click.option("--interval", type=click.Choice(["sandwich", "bootstrap"]), default="sandwich", show_default=True,
              help="Method of the intervals.")  # fmt: skip
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, metavar="SHARE", help="Level of the intervals."
)
@click.option(
    "--ties",
    type=click.Choice(["half", "davidson", "rao-kupper"]),
    default="half",
    show_default=True,
    help="Ties as half wins, or a model that predicts them; its points are not comparable with those of others.",
)
@click.option("--reweight", is_flag=True, help="Weigh each vote by 1 / max(votes of its pair, 50).")
@click.option(
    "--prompt_cap",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Votes on one prompt weigh together at most this share of all, or three times the mean prompt, such as 0.01.",
)
@click.option("--over", type=click.Choice(["category", "language", "time"]),
              help="Also rate each part of the votes; time: months.")  # fmt: skip
@click.option("--matrix", is_flag=True, help="Show the battles of each pair and those that contradict the ratings.")
@click.option("--influence", is_flag=True, help="Find the fewest votes without which another model is first.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV, not rounded; of pairs with --matrix, parts with --over."
)
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@json_option
def rate(
    votes: str, *, columns: str, language: str | None, anchor: str | None, as_csv: bool, markdown: bool, as_json: bool,
    **options: object,
) -> None:  # fmt: skip
    """Rate the models of a file of votes: rating, interval, ranks, win rate.

    VOTES is a CSV, JSON lines, JSON or Parquet file with columns model_a, model_b (or left, right) and winner
    (model_a, model_b, tie, `tie (bothbad)`, or the winner's name). The columns prompt_id, judge, language, category,
    tstamp, tokens_a, tokens_b, response_a and response_b are used if present. Files of MT-bench, AlpacaEval and
    PandaLM are recognised.
    """
    from assaymark.arena.rate_votes import columns_of, rate_votes
    from assaymark.arena.ratings import RatingSettings

    if as_csv + markdown + as_json > 1:
        raise UsageError("--json, --csv and --markdown exclude each other; choose one")
    if as_csv and options["matrix"] and options["over"]:
        raise UsageError("--csv has rows of pairs with --matrix and of parts with --over; choose one")
    settings = dataclass_of(RatingSettings, options)
    rated = rate_votes(votes, settings, language=language, anchor=anchor, columns=columns_of(columns))
    if as_json:
        print_json(rated.to_json())
    elif as_csv:
        echo(rated.to_csv(), nl=False)
    elif markdown:
        echo(rated.to_markdown(), nl=False)
    else:
        print_rich(rated.document())


@arena.command(epilog=examples("arena serve --answers last~1 --answers last"))
@click.option(
    "--answers",
    multiple=True,
    metavar="FILE|FOLDER|RUN",
    help="Answers to compare: files with instruction, output and generator, or runs; repeatable (default: the latest "
    "runs of the models that share a task).",
)
@click.option("--task", metavar="NAME", help="Generation task of the runs (default: the one that most models have).")
@click.option("--makers", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Organisation and licence of the models, shown beside their ratings: a file with the columns model, "
              "organization and license.")  # fmt: skip
@serving_options(port=7500)
@click.option(
    "--cooldown", default=5.0, show_default=True, metavar="SECONDS", help="Time between two votes of a voter."
)
@click.option("--votes_per_day", default=100, show_default=True, metavar="N", help="Votes of one voter in a day.")
@click.option(
    "--address_votes_per_day", default=1000, show_default=True, metavar="N", help="Votes of one network in a day."
)
@click.option(
    "--batch", default=50, show_default=True, metavar="N", help="New votes after which ratings are published."
)
@click.option(
    "--endpoint",
    multiple=True,
    metavar="NAME=URL",
    help="OpenAI-compatible endpoint whose model answers while people wait, such as small=http://127.0.0.1:7600/v1; "
    "repeatable; NAME=URL#MODEL names one of its models.",
)
@click.option("--endpoint_key", multiple=True, metavar="NAME=@FILE", help="Key of an endpoint; repeatable.")
@click.option("--demo", is_flag=True, help="Host the two demo models on this machine and let them answer.")
@click.option("--moderation", metavar="NAME", help="Installed function that may refuse questions and answers.")
@click.option(
    "--suggest",
    multiple=True,
    metavar="QUESTION",
    help="First question that voters of live battles can choose; repeatable (default: four of our own).",
)
@click.option("--turns", default=8, show_default=True, type=click.IntRange(1, 100), help="Questions in a live battle.")
@click.option("--max_tokens", default=512, show_default=True, type=click.IntRange(1), help="Tokens of a live answer.")
@click.option("--answer_seconds", default=60.0, show_default=True, metavar="SECONDS", help="Time for a live answer.")
@click.option(
    "--cadence", default=120.0, show_default=True, metavar="CHARACTERS", help="Characters shown per second and side."
)
@store_option
def serve(store: str | None, **options: object) -> None:
    """Let people compare two models in the browser: live ones with --endpoint or --demo, else stored answers.

    The two models' names are shown after the vote. No leaderboard or run is shown beside the arena, since stored
    answers there would tell which model an answer is of. Without --host, only this machine can connect.
    """
    from assaymark.arena.commands.live_serving import ArenaOptions, serve_arena, serve_live

    need_web("assaymark arena serve")
    from assaymark.web.serve import Where

    chosen = dataclass_within(ArenaOptions, options)
    serving = serve_live if chosen.endpoint or chosen.demo else serve_arena
    serving(chosen, Where.of(options), store)


@arena.command(epilog=examples("arena erase 5b8efff7"))
@click.argument("battle", metavar="BATTLE")
@store_option
def erase(battle: str, store: str | None) -> None:
    """Erase what was written in a live battle; BATTLE is in the address of its page. The vote and its hash stay."""
    from assaymark.arena.conversations import erase_battle
    from assaymark.store import Store

    with Store.open(store, hidden_for="erasure") as opened:
        echo(f"{erase_battle(opened, battle)} texts and conversations are erased")


@arena.command(epilog=examples("arena export -o votes.jsonl"))
@click.option("-o", "--output", default="votes.jsonl", show_default=True, metavar="FILE", help="File to write.")
@click.option("--texts", is_flag=True, help="Include prompts and answers, but not those of live battles.")
@click.option("--live_texts", is_flag=True, help="Include those of live battles too: voters wrote them.")
@store_option
@json_option
def export(output: str, *, texts: bool, live_texts: bool, store: str | None, as_json: bool) -> None:
    """Write all votes as JSON lines, which `assaymark arena rate` reads, and the head of their chain beside it."""
    from assaymark.arena.export import export_votes, head_file
    from assaymark.store import Store

    path = Path(output)
    with Store.open_to_read(store) as opened:
        tell = partial(echo, err=True)
        head = export_votes(opened, path, texts=texts, live_texts=live_texts, tell=tell)
    said = f"{head.sequence:,} votes in {path}; {head_file(path)} has the head of their chain: {head.hash}"
    print_result({"file": str(path), "head": head}, lambda: said, as_json=as_json)


@arena.command(epilog=examples("arena verify votes.jsonl"))
@click.argument("votes", required=False, metavar="[VOTES.jsonl]")
@click.option("--head", metavar="HASH", help="Published hash of the last vote (default: from VOTES.head.json).")
@store_option
@json_option
def verify(votes: str | None, *, head: str | None, store: str | None, as_json: bool) -> None:
    """Compute the chain of votes again: of an exported file, or of the store."""
    from assaymark.arena.export import verify_export
    from assaymark.store import Store

    if votes is not None:
        count, broken = verify_export(Path(votes), head)
        problems = [broken] if broken else []
    else:
        with Store.open_to_read(store) as opened:
            count, problems = ArenaLog(opened).head().sequence, ArenaLog(opened).problems()
    if as_json:
        print_json({"n_votes": count, "problems": problems})
    elif not problems:
        echo(f"{count:,} votes: the chain is intact")
    if problems:
        raise DataError(f"{len(problems)} problems with {count:,} votes: {problems[0]}")


@arena.command(epilog=examples("arena withdraw NAME"))
@click.argument("models", nargs=-1, required=True, metavar="MODEL ...")
@store_option
def withdraw(models: tuple[str, ...], *, store: str | None) -> None:
    """Stop drawing models for battles; their votes and their rows in the ratings stay."""
    from assaymark.registry import meant
    from assaymark.store import Store

    with Store.open(store) as opened:
        known = [model.name for model in ArenaLog(opened).models()]
        for name in (meant(model, known) for model in models):
            ArenaLog(opened).withdraw(name)
            echo(f"{name} is withdrawn")


@arena.command(epilog=examples("arena hide last"))
@click.argument("runs", nargs=-1, required=True, metavar="RUN ...")
@click.option("--undo", is_flag=True, help="Make them public again.")
@store_option
def hide(runs: tuple[str, ...], *, undo: bool, store: str | None) -> None:
    """Hide runs whose answers are in battles from lists, pages, exports and caches of this store.

    Stored answers that anybody can look up tell which model a battle's answer is of. `arena serve` still reads them.
    """
    from assaymark.store import Store

    with Store.open(store, hidden_for="change of visibility") as opened:
        for name in runs:
            run_row = opened.run(name)
            opened.set_visibility(run_row.run_id, "public" if undo else "hidden")
            echo(f"{run_row.short_id} is {'public' if undo else 'hidden'}")
