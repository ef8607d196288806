"""`evalstone lm-eval ...`: lm-evaluation-harness's own command line, with our engine as the model `evalstone`."""

import sys
from importlib.util import find_spec

import click

from evalstone.cli.output import echo
from evalstone.errors import MissingExtra


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[LM-EVAL'S WORDS]...")
def lm_eval(words: tuple[str, ...]) -> None:
    """Run lm-evaluation-harness itself; `--model evalstone` answers with our engine.

    Everything typed after it is lm-eval's: tasks, files and every other model stay that tool's own. `--model
    evalstone` takes the model arguments of its `hf` and gives the same results. Data sets are looked for in
    EVALSTONE_DATA first.
    """
    if find_spec("lm_eval") is None and words[:1] in {(), ("--help",), ("-h",)}:
        echo(click.get_current_context().get_help())
        return
    if find_spec("lm_eval") is None:
        raise MissingExtra("lm-eval's own command line", "lm-eval")
    from lm_eval.__main__ import cli_evaluate

    from evalstone.api.lm_eval_data import data_from_folder
    from evalstone.interop.lm_eval_adapter import register

    register()
    before = sys.argv
    sys.argv = ["lm-eval", *words]  # lm-eval reads its words from here
    try:
        with data_from_folder():
            cli_evaluate()
    finally:
        sys.argv = before
