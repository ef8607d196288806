"""`assaymark lm-eval ...`: lm-evaluation-harness's own command line, with our engine as the model `assaymark`."""

import sys
from importlib.util import find_spec

import click

from assaymark.cli.output import echo
from assaymark.errors import MissingExtra


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[LM-EVAL'S WORDS]...")
def lm_eval(words: tuple[str, ...]) -> None:
    """Run lm-evaluation-harness itself, with our engine as `--model assaymark`.

    All arguments are passed to lm-eval, with its own tasks, files and other models. `--model assaymark` takes the
    model arguments of lm-eval's `hf` and gives the same results. Data sets are searched in ASSAYMARK_DATA first.
    """
    if find_spec("lm_eval") is None and words[:1] in {(), ("--help",), ("-h",)}:
        echo(click.get_current_context().get_help())
        return
    if find_spec("lm_eval") is None:
        raise MissingExtra("lm-eval's own command line", "lm-eval")
    from lm_eval.__main__ import cli_evaluate

    from assaymark.interop.lm_eval_adapter import register
    from assaymark.interop.lm_eval_data import data_from_folder

    register()
    before = sys.argv
    sys.argv = ["lm-eval", *words]  # lm-eval reads its arguments from sys.argv
    try:
        with data_from_folder():
            cli_evaluate()
    finally:
        sys.argv = before
