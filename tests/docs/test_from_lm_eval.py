"""The page for lm-eval's users leaves out no flag, model or argument of its real parser, and promises none of ours."""

import argparse
import ast
import re
from pathlib import Path

import click
import pytest

from assaymark.cli.main import cli, with_underscores
from assaymark.errors import AssaymarkError
from assaymark.models.checkpoint.arguments import local_arguments
from assaymark.models.create import ELSEWHERE, MODELS
from assaymark.models.server.arguments import openai_arguments
from tests.conftest import ROOT

lm_eval = pytest.importorskip("lm_eval")

PAGE = (ROOT / "docs" / "from_lm_eval.md").read_text(encoding="utf-8")
PACKAGE = Path(lm_eval.__file__).parent
STATES = {"same", "accepted", "different", "refused", "partly"}
TRIED: dict[str, object] = {  # a value of each argument that is not a plain text
    **dict.fromkeys(("truncation", "logits_cache", "trust_remote_code", "use_fast_tokenizer", "add_bos_token"), True),
    **dict.fromkeys(("parallelize", "enable_thinking", "tokenized_requests", "verify_certificate", "truncate"), True),
    **dict.fromkeys(("autogptq", "gptqmodel"), True),
    **dict.fromkeys(("prefix_token_id", "custom_prefix_token_id", "seed", "batch_size", "max_batch_size"), 1),
    **dict.fromkeys(("max_length", "max_gen_toks", "num_concurrent", "max_retries", "timeout", "max_images"), 8),
    **dict.fromkeys(("max_memory_per_gpu", "max_cpu_memory"), "1GiB"),
    "dtype": "float32",
    "softmax_dtype": "float64",
    "chat_template_args": {},
    "header": {"X-A": "b"},
    "backend": "seq2seq",
    "tokenizer_backend": "remote",
    "base_url": "http://localhost:1/v1/completions",
}


def rows(heading: str, table: int = 0) -> dict[str, list[str]]:
    """Return the other cells of each name in the first column, for the n-th table under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in tables[table].splitlines()[2:]]
    return {name: cells[1:] for cells in lines for name in re.findall("`([^`]+)`", cells[0])}


@pytest.fixture(scope="module")
def their_parser() -> argparse.ArgumentParser:
    """Return the parser of `lm-eval run`."""
    from lm_eval._cli.harness import HarnessCLI

    parser: argparse.ArgumentParser = HarnessCLI()._subparsers.choices["run"]
    return parser


def our_options() -> dict[str, str]:
    """Return every spelling of an option of `assaymark run`, hidden ones too, and its name."""
    command = cli.get_command(click.Context(cli), "run")
    assert command is not None
    return {spelling: str(option.name) for option in command.params for spelling in option.opts}


def test_every_flag_is_in_the_table(their_parser: argparse.ArgumentParser) -> None:
    """The table has exactly the flags of lm-eval's own parser, and ours have their short letters."""
    theirs = {}
    for action in their_parser._actions:
        if action.dest != "help":
            longs = [spelling for spelling in action.option_strings if spelling.startswith("--")]
            theirs[longs[0]] = [spelling for spelling in action.option_strings if spelling not in longs]
    table, ours = rows("Flags"), our_options()
    assert set(table) == set(theirs)
    assert {cells[0] for cells in table.values()} <= STATES
    assert [flag for flag, shorts in theirs.items() for short in shorts if ours[short] != ours[flag]] == []


def test_our_parser_takes_every_flag() -> None:
    """What the table calls the same, accepted or different is an option of ours, under both spellings."""
    ours = our_options()
    for flag, (state, _) in rows("Flags").items():
        assert (flag in ours) == (state != "refused"), flag


def test_options_that_the_page_promises_exist() -> None:
    """Each option of ours that the page names is one, but for what is about to be renamed."""
    ours = our_options()
    named = {with_underscores(option) for option in re.findall(r"`(--[\w-]+)", PAGE)}
    elsewhere = {"--lm_eval"}  # an option of `show`
    assert named - elsewhere <= set(ours)


def test_every_command_is_in_the_table() -> None:
    """lm-eval's commands, and every word that its `ls` takes, have a row."""
    from lm_eval._cli.harness import HarnessCLI

    parsers = HarnessCLI()._subparsers.choices
    words = next(action.choices for action in parsers["ls"]._actions if action.dest == "what")
    named = " ".join(rows("Commands"))
    assert all(f"lm-eval {command}" in named for command in parsers)
    assert all(f"lm-eval ls {word}" in named for word in words)


def test_every_model_is_in_the_table() -> None:
    """lm-eval's kinds of models are all named; those the page calls ours are, the others have their remedy."""
    from lm_eval.models import MODEL_MAPPING

    named = {name: cells[0] for name, cells in rows("Models").items()}
    assert set(MODEL_MAPPING) <= set(named)
    places = MODELS.places()
    assert [name for name in MODEL_MAPPING if name not in places and name not in ELSEWHERE] == []
    is_ours = {name: "the same" in text or text.startswith("`--model") for name, text in named.items()}
    here = {name for name in MODEL_MAPPING if is_ours[name]}
    assert here == {name for name in MODEL_MAPPING if name in places}


def parameters_of(file: str, of_class: str) -> list[str]:
    """Return the parameters of a class's __init__ by its source, without importing torch."""
    tree = ast.parse((PACKAGE / "models" / file).read_text(encoding="utf-8"))
    result = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == of_class)
    made = next(node for node in result.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    return [argument.arg for argument in (*made.args.args[1:], *made.args.kwonlyargs)]


def test_every_model_argument_is_in_the_tables() -> None:
    """The tables have exactly the parameters of lm-eval's transformers model and of its model behind a server."""
    assert set(rows("Model arguments")) == set(parameters_of("huggingface.py", "HFLM"))
    assert set(rows("Model arguments", 1)) == set(parameters_of("api_models.py", "TemplateAPI"))


@pytest.mark.parametrize("name", list(rows("Model arguments")))
def test_our_local_model_takes_or_refuses_an_argument_as_the_page_says(name: str) -> None:
    """An argument that the page calls refused, or partly taken, raises an error of ours; the others do not."""
    state = rows("Model arguments")[name][0]
    inputs = {"pretrained": "DIR", name: TRIED.get(name, "text")}
    if name in {"max_memory_per_gpu", "max_cpu_memory"}:
        inputs["parallelize"] = True
    assert (not _is_taken(lambda: local_arguments(inputs))) == (state in {"refused", "partly"})


@pytest.mark.parametrize("name", list(rows("Model arguments", 1)))
def test_our_model_behind_a_server_takes_or_refuses_an_argument_as_the_page_says(name: str) -> None:
    """So it is with the arguments of models behind servers."""
    state = rows("Model arguments", 1)[name][0]
    base = {"model": "NAME", "base_url": "http://localhost:1/v1/completions"}
    inputs = {**base, name: TRIED.get(name, "text")}
    taken = _is_taken(lambda: openai_arguments("local-completions", inputs))
    assert (not taken) == (state in {"refused", "partly"})


def _is_taken(make: object) -> bool:
    assert callable(make)
    try:
        make()
    except AssaymarkError:
        return False
    return True
