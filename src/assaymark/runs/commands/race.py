"""`assaymark race A B`: find the better of two models with as few questions as necessary."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json, store_option
from assaymark.cli.typed import typed_command
from assaymark.errors import ModelError
from assaymark.runs.run_options import declared_option

if TYPE_CHECKING:
    from assaymark.statistics.sequential import RaceState

EXAMPLES = examples(
    "race DIR_A DIR_B --tasks mmlu --margin 5",
    "race DIR RUN --tasks arc_challenge --num_fewshot 25",
    "race DIR_A DIR_B DIR_C --tasks mmlu --margin 5",
    "race fake:accuracy=0.7 fake:accuracy=0.5,seed=2 --tasks demo_facts",
)


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("first", metavar="MODEL")
@click.argument("second", metavar="MODEL|RUN")
@click.argument("others", metavar="[MODEL|RUN]...", nargs=-1)
@click.option(
    "--tasks", "-t", multiple=True, required=True, metavar="NAMES", help="Tasks, groups, tags, globs or task files."
)
@click.option(
    "--margin",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="POINTS",
    help="Smallest difference of interest: bets are sized for it, and surely closer models are equivalent.",
)
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), default=0.05, show_default=True, metavar="SHARE",
    help="How often a verdict may be wrong about the benchmark.",
)  # fmt: skip
@click.option("--race_seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the questions' order.")
@click.option("--until", type=click.Choice(["decided"]), default="decided", show_default=True, expose_value=False,
              help="When it ends; --budget may end it before.")  # fmt: skip
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Stop undecided after N questions.")
@click.option("--macro", is_flag=True, help="Each task counts the same, whatever its number of questions.")
@declared_option("num_fewshot", type=click.IntRange(0), callback=None)
@declared_option("apply_chat_template")
@declared_option("data_dir")
@declared_option("include_path")
@declared_option("profile")
@declared_option("price")
@declared_option("prices")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
@store_option
@json_option
def race(
    first: str, second: str, others: tuple[str, ...], *, tasks: tuple[str, ...], margin: float | None, alpha: float,
    race_seed: int, budget: int | None, macro: bool, quiet: bool, as_json: bool,
    **evaluation: object,
) -> int:  # fmt: skip
    """Let models answer questions in one random order until it is decided which is better.

    MODEL is a folder, a Hub id, or KIND:ARGUMENTS such as local-completions:model=M,base_url=URL; the second may be a
    stored RUN of all questions. Of three or more every pair is decided, and --alpha is shared by the pairs. Runs are
    stored as incomplete ones, and the same command continues them. Exit code 0 if it is decided, 1 if not, 5 if
    requests failed.
    """
    from assaymark.runs.race import RaceOptions, race_several

    def shown(states: "Mapping[tuple[str, str], RaceState]") -> None:
        state = max(states.values(), key=lambda each: each.n_seen)
        if others:
            n_open = sum(not each.is_decided for each in states.values())
            so_far = f"{n_open} of {len(states)} pairs undecided"
        else:
            interval = f"{100 * state.low:+.1f} to {100 * state.high:+.1f}"
            more = f", about {state.n_more:,} more" if state.n_more else ""
            so_far = f"{100 * state.difference:+.1f} ({interval}){more}"
        echo(f"{state.n_seen:,} of {state.n:,}: {so_far}", err=True)

    is_quiet = quiet or as_json
    outcome = race_several(
        [_model(text) for text in (first, second, *others)],
        tasks,
        RaceOptions(None if margin is None else margin / 100, alpha, race_seed, budget, macro),
        observe=None if is_quiet else shown,
        command=typed_command(),
        notify=lambda line: None if is_quiet else echo(line, err=True),
        **{name: value for name, value in evaluation.items() if value not in (None, ())},
    )
    pair = outcome.pairs[0]
    if as_json:
        print_json(outcome if others else pair)
    elif others:
        echo(*outcome.lines())
        if outcome.n_failed:
            echo(pair.remarks[0], err=True)
    else:
        state = pair.state
        echo(pair.verdict)
        # the test that decided between two models refutes a difference of 0, at which the interval may still begin
        refuted = ", 0 excluded" if state.verdict in ("first", "second") and 0.0 in (state.low, state.high) else ""
        echo(
            f"{pair.metric}, first minus second: {100 * state.difference:+.1f} points, {1 - alpha:.0%} interval at "
            f"any time {100 * state.low:+.1f} to {100 * state.high:+.1f}{refuted}, {state.n_seen:,} of {state.n:,} "
            "questions"
        )
        echo(pair.about)
        echo(*pair.remarks, err=True)
        echo(f"runs {pair.run_ids[0][:8]} and {pair.run_ids[1][:8]}")
    if outcome.n_failed:
        return ModelError.exit_code
    return 0 if outcome.is_decided else 1


def _model(text: str) -> tuple[str, str]:
    """Return kind and arguments of KIND:ARGUMENTS; a folder, Hub id or run as it is."""
    from assaymark.models.create import MODELS

    kind, colon, arguments = text.partition(":")
    return (kind, arguments) if colon and kind in MODELS else (text, "")
