"""The commands on the documentation's pages do what the pages say, and every one that is not run is accounted for."""

import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
from tools.page_blocks import (
    LANGUAGES,
    REASONS,
    Block,
    Printed,
    blocks_of,
    missing_lines,
    outputs_of,
    run_page,
)

from assaymark.cli.main import COMMANDS, cli, with_command
from tests.conftest import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]
PAGES = [page for page in PAGES if "_build" not in page.parts]
CODE = [block for page in PAGES for block in blocks_of(page) if block.language in LANGUAGES]
NOT_RUN = {
    "arena.md": 6,
    "extending.md": 5,  # tests/plugins runs them
    "fine_tuning.md": 2,
    "from_lm_eval.md": 1,
    "model_formats.md": 2,
    "model_hosting.md": 3,
    "images.md": 2,
    "index.md": 1,
    "leaderboard.md": 5,
    "own_data.md": 1,
    "installation.md": 3,
    "quick_start.md": 2,
    "scorers.md": 1,
    "servers.md": 1,
    "sharing.md": 2,
    "software_engineering.md": 3,
    "studies.md": 1,
    "tool_use.md": 3,
    "traces.md": 1,
    "training.md": 3,
}
"""Blocks of each page that are not run; a new one is a decision, not an accident."""


PAGES_RUN = [page for page in PAGES if any(block.state == "run" for block in blocks_of(page))]


def faults(page: Path, printed: list[Printed]) -> list[str]:
    """Return what went wrong on a page: a block that failed or was not reached, or a line that was not printed."""
    results = [f"{each.block.place} failed:\n{each.text}" for each in printed if each.has_failed]
    outputs = outputs_of(blocks_of(page))
    for each in printed:
        expected = outputs.get(each.block)
        missing = missing_lines(expected.text, each.text) if expected is not None else []
        results += [f"{each.block.place} did not print: {line}" for line in missing]
    reached = {each.block for each in printed}
    blocks = [block for block in blocks_of(page) if block.state == "run"]
    return results + [f"{block.place} was not reached" for block in blocks if block not in reached]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES_RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, warm: list[str], tmp_path: Path) -> None:
    """Every block marked `run` succeeds, in an empty home and in the page's order, and prints what the page shows."""
    starts_its_own = "assaymark warm start" in page.read_text(encoding="utf-8")
    assert faults(page, run_page(page, tmp_path, None if starts_its_own else warm)) == []


def test_every_block_says_whether_it_is_run() -> None:
    """A block of commands or Python that says nothing would go stale unseen."""
    silent = [block.place for block in CODE if block.state not in {"run"} | REASONS]
    other = [b.place for page in PAGES for b in blocks_of(page) if b.language in {"console", "sh", "shell", "pycon"}]
    assert silent == []
    assert other == []


def test_the_blocks_that_are_not_run_are_counted() -> None:
    """As many blocks are left out as this file names."""
    assert Counter(block.page for block in CODE if block.state in REASONS) == NOT_RUN


def commands_in(block: Block) -> Iterator[list[str]]:
    """Yield the words after `assaymark` of each command line of a shell block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("assaymark "):
            words = shlex.shlex(line, posix=True, punctuation_chars="|;&>")
            words.whitespace_split = True
            yield list(takewhile(lambda word: not set(word) <= set("|;&>"), words))[1:]


COMMAND_LINES = [
    pytest.param(words, id=f"{block.place} {' '.join(words[:3])}")
    for page in (*PAGES, ROOT / "README.md")
    for block in blocks_of(page)
    if block.language == "bash"
    for words in commands_in(block)
]


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_the_parser_accepts_every_command_on_the_pages(words: list[str]) -> None:
    """Also of blocks that are not run, and of the README, every command and option exists and has its arguments."""
    context = click.Context(cli, info_name="assaymark")
    name, command, rest = cli.resolve_command(context, with_command(words, list(COMMANDS)))
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None, words
    assert command.make_context(name, list(rest), parent=context) is not None


def test_what_a_block_prints_is_compared_line_by_line() -> None:
    """Lines must come in their order; dots stand for anything, and the number of spaces does not matter."""
    printed = "task   value\nfacts    51.5%\nrun 3f2a in /home\n"
    assert missing_lines("facts 51.5%\nrun ... in ...", printed) == []
    assert missing_lines("facts 51.6%", printed) == ["facts 51.6%"]
    assert missing_lines("facts 51.5%\ntask value", printed) == ["task value"]


def test_a_failing_command_is_found(tmp_path: Path) -> None:
    """A block that fails ends its page, and the ones after it are reported as not reached."""
    page = tmp_path / "page.md"
    blocks = ("echo first", "echo second\nfalse", "echo third")
    page.write_text("\n".join(f"<!-- run -->\n```bash\n{text}\n```\n" for text in blocks), encoding="utf-8")
    folder = tmp_path / "session"
    folder.mkdir()
    result = faults(page, run_page(page, folder))
    assert result == ["page.md:8 failed:\nsecond", "page.md:14 was not reached"]


def test_marks_are_read_from_the_line_before_a_block(tmp_path: Path) -> None:
    """A mark belongs to the next block only if no text stands between them."""
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\ntext\n```bash\nls\n```\n<!-- not run: network -->\n\n```bash\nls\n```\n")
    assert [(block.first, block.state) for block in blocks_of(page)] == [(4, ""), (9, "network")]
