"""The commands on the documentation's pages, taken from their code blocks and run as a reader would run them.

An HTML comment before a block says what becomes of it; it is not shown on the page:

    <!-- run -->               the block is run by `make test-slow`
    <!-- not run: REASON -->   it is not run; REASON is one of `REASONS`
    <!-- output -->            before a text block: what the block before it prints; `...` stands for anything

All shell blocks of a page are one bash session in an empty folder with an empty home, all Python blocks one program in
the same folder, run after them. `python tools/page_blocks.py --update PAGE...` writes what was printed into the pages.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

LANGUAGES = frozenset({"bash", "python"})
REASONS = frozenset({"network", "gpu", "server", "your own files", "installs packages", "tested elsewhere", "a sketch"})
MARK = re.compile(r"<!-- (?P<what>run|output|not run: (?P<reason>[^>]+?)) -->")
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^`]*)$")
SENTINEL = "<<<block {}>>>"
LONGEST_S = 600


@dataclass(frozen=True, slots=True)
class Block:
    """One code block. state: run, output, a reason why it is not run, or empty where nothing is said."""

    page: str
    first: int  # line of the text's first line, from 1
    language: str
    text: str
    state: str

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page}:{self.first}"


@dataclass(frozen=True, slots=True)
class Printed:
    """What a block printed, standard error included, and whether the session ended in it."""

    block: Block
    text: str
    has_failed: bool


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    results: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    state, at = "", 0
    while at < len(lines):
        fence, mark = FENCE.match(lines[at]), MARK.fullmatch(lines[at].strip())
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence["ticks"])
            text = "\n".join(line.removeprefix(fence["indent"]) for line in lines[at + 1 : end])
            results.append(Block(page.name, at + 2, fence["language"].strip(), text, state))
            state, at = "", end
        elif mark:
            state = mark["reason"] or mark["what"]
        elif lines[at].strip():
            state = ""
        at += 1
    return results


def outputs_of(blocks: Sequence[Block]) -> dict[Block, Block]:
    """Return the blocks that say what the block before them prints, by that block."""
    return {before: after for before, after in pairwise(blocks) if after.state == "output"}


def environment(folder: Path, command: Sequence[str] | None = None) -> dict[str, str]:
    """Return the environment of a session: an empty home, `assaymark` and `python` of this installation, no network.

    command: what runs `assaymark` or `python` and its words that follow (`tools.warm_commands`).
    """
    programs = folder / "bin"
    programs.mkdir()
    cold = {"assaymark": [sys.executable, "-m", "assaymark"], "python": [sys.executable]}
    for name, own in cold.items():
        words = shlex.join([*command, name] if command else own)
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAYMARK_", "XDG_"))}
    threads = {name: os.environ[name] for name in ("ASSAYMARK_THREADS", "ASSAYMARK_CACHE") if name in os.environ}
    set_here = {"HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return {**kept, **threads, **set_here, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def run_session(blocks: Sequence[Block], folder: Path, env: Mapping[str, str]) -> list[Printed]:
    """Run blocks of one language as one program; those after a failure are not run and not returned."""
    if not blocks:
        return []
    is_shell = blocks[0].language == "bash"
    program = "bash" if is_shell else str(folder / "bin" / "python")
    parts = ["set -euo pipefail"] if is_shell else []
    for number, block in enumerate(blocks):
        sentinel = f"\n{SENTINEL.format(number)}"
        parts += [f"printf '%s\\n' '{sentinel}'" if is_shell else f"print({sentinel!r}, flush=True)", block.text]
    script = folder / ("page.sh" if is_shell else "page.py")
    script.write_text("\n".join(parts) + "\n", encoding="utf-8")
    text, code = _run([program, str(script)], folder / "work", env)
    printed: list[Printed] = []
    for number, block in enumerate(blocks):
        _, result, text = text.partition(f"{SENTINEL.format(number)}\n")
        if result:
            own, is_followed, _ = text.partition(SENTINEL.format(number + 1))
            printed.append(Printed(block, own.strip("\n"), not is_followed and code != 0))
    return printed


def _run(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[str, int]:
    """Return what a program printed and its exit code; one that takes too long is stopped and has failed."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode("utf-8", "replace")
        return f"{printed}\nstopped after {LONGEST_S} s", 1
    return done.stdout.decode("utf-8", "replace"), done.returncode


def run_page(page: Path, folder: Path, command: Sequence[str] | None = None) -> list[Printed]:
    """Run a page's blocks that are marked so, in an empty folder; command: as for `environment`."""
    env = environment(folder, command)
    (folder / "work").mkdir()
    chosen = [block for block in blocks_of(page) if block.state == "run"]
    of_language = [[block for block in chosen if block.language == language] for language in ("bash", "python")]
    return [printed for blocks in of_language for printed in run_session(blocks, folder, env)]


def missing_lines(expected: str, printed: str) -> list[str]:
    """Return the expected lines that were not printed, in this order; the number of spaces does not matter."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    missing: list[str] = []
    at = 0
    for line in filter(None, (" ".join(line.split()) for line in expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        result = next((i for i in range(at, len(lines)) if pattern.fullmatch(lines[i])), None)
        if result is None:
            missing.append(line)
        else:
            at = result + 1
    return missing


def update(page: Path) -> list[str]:
    """Write what a page's blocks print into its output blocks, where a line of those is missing; return the places."""
    outputs, lines = outputs_of(blocks_of(page)), page.read_text(encoding="utf-8").splitlines()
    with TemporaryDirectory() as name:
        printed = run_page(page, Path(name))
    changed = []
    for each in sorted(printed, key=lambda one: -one.block.first):
        after = outputs.get(each.block)
        if each.has_failed:
            raise SystemExit(f"{each.block.place} failed:\n{each.text}")
        if after is not None and missing_lines(after.text, each.text):
            start = after.first - 1
            lines[start : start + len(after.text.splitlines())] = [line.rstrip() for line in each.text.splitlines()]
            changed.append(after.place)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return changed


def main() -> int:
    """Update the pages that are named."""
    pages = [Path(word) for word in sys.argv[1:] if word != "--update"]
    if "--update" not in sys.argv or not pages:
        print(__doc__)
        return 2
    for page in pages:
        print(f"{page}: {', '.join(update(page)) or 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
