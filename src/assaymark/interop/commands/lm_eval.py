"""`assaymark lm-eval ...`: lm-evaluation-harness's own command line, with our engine as the model `assaymark`.

Its own tasks search their data sets in ASSAYMARK_DATA before the Hub.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, echo, examples
from assaymark.errors import MissingExtra
from assaymark.settings import data_folder

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


@click.command(
    cls=Command,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    epilog=examples("lm-eval --model assaymark --model_args pretrained=DIR --tasks arc_easy"),
)
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

    register()
    before = sys.argv
    sys.argv = ["lm-eval", *words]  # lm-eval reads its arguments from sys.argv
    try:
        with data_from_folder():
            cli_evaluate()
    finally:
        sys.argv = before


@contextmanager
def data_from_folder() -> Iterator[None]:
    """Within the block, make `datasets.load_dataset`, which lm-eval calls, search ASSAYMARK_DATA first.

    Data sets that the folder does not have are loaded from the Hub. Without the variable nothing changes.

    Raises: UsageError if the variable does not name a folder.
    """
    root = data_folder()
    if root is None:
        yield
        return
    import datasets

    hub = datasets.load_dataset

    def load(path: str, name: str | None = None, *args: object, **kwargs: object) -> "Dataset | DatasetDict":
        is_plain = not args and not kwargs.get("data_files") and not kwargs.get("data_dir")
        files = _parquet_files(root, str(path), name) if is_plain else {}
        if not files:
            return hub(path, name, *args, **kwargs)
        return hub("parquet", data_files=files, split=kwargs.get("split"))

    datasets.load_dataset = load
    try:
        yield
    finally:
        datasets.load_dataset = hub


def _parquet_files(root: Path, path: str, name: str | None) -> dict[str, list[str]]:
    """Return the data set's Parquet files in the folder, by split; empty if there are none."""
    from assaymark.datasets.files import local_files
    from assaymark.datasets.load import names_of_same_rows

    if Path(path).is_absolute() or ".." in Path(path).parts:
        return {}
    for known in names_of_same_rows(path):
        by_split = local_files(root, known, name)
        if by_split and all(file.suffix == ".parquet" for files in by_split.values() for file in files):
            return {split: [str(file) for file in files] for split, files in by_split.items()}
    return {}
