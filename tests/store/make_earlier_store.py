"""Makes `earlier/`: a store as commit 842d6be wrote it (`store.sqlite.xz`), and what it then said (`said.json.xz`).

    git archive --prefix=old/ 842d6be src tests/interop/logs | tar -x -C /tmp
    PYTHONPATH=/tmp/old/src python tests/store/make_earlier_store.py /tmp/old

The store has tasks of every kind in groups, with a suite; two runs of the fake model to compare, one of them scored
again; a run with failures that is incomplete; an imported run; and an audit. `said.json` is what the commands below
printed or wrote, by their words. Run by hand, with that commit's package; the files are kept.
"""

import contextlib
import io
import json
import lzma
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent / "earlier"
FORMER_NAME = "evalstone"  # the package's name at that commit
TASKS = "demo_letters,demo_yesno,demo_stories,demo_sums,demo_truth"
FAKE = ["run", "--model", "fake", "--limit", "5", "--quiet"]
RESCORED = "{metric: exact_match, ignore_case: true, ignore_punctuation: true}"
COMMANDS = (
    ("ls", "runs", "--json"),
    ("show", "last~3", "--json"),
    ("show", "last~2", "--json"),
    ("show", "last~1", "--json"),
    ("show", "last", "--json"),
    ("show", "last~3", "--samples", "demo_yesno", "--json"),
    ("show", "last", "--samples", "demo_sums", "--wrong", "--json"),
    ("show", "last~1", "--attempts", "--json"),
    ("compare", "last~3", "last", "--json"),
    ("verify", "--json"),
)
EXPORTED = ("table.csv", "table.md", "card.yaml", "results.json")


def words_of_run(model: str, tasks: str) -> list[str]:
    """Return the command of a run of the fake model."""
    return [*FAKE, "--model_args", model, "--tasks", tasks]


def command_line(package: str = "assaymark") -> Callable[[list[str]], int]:
    """Return the `main` of this package, or of the program under its former name where only that is installed."""
    if find_spec(package) is None:
        package = FORMER_NAME
    main: Callable[[list[str]], int] = import_module(f"{package}.cli.main").main
    return main


def said_by(words: tuple[str, ...], store: Path | str) -> str:
    """Return what a command prints."""
    main = command_line()
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main([*words, "--store", str(store)])
    assert code == 0, (words, code, err.getvalue())
    return out.getvalue()


def all_said(store: Path | str, folder: Path) -> dict[str, str]:
    """Return what every command says of a store, and what it exports of its latest run."""
    said = {" ".join(words): said_by(words, store) for words in COMMANDS}
    for name in EXPORTED:
        said_by(("export", "last", "-o", str(folder / name)), store)
        said[f"export {name}"] = (folder / name).read_text(encoding="utf-8")
    return said


def make(store: Path, old: Path) -> None:
    """Make the store."""
    logs = old / "tests" / "interop" / "logs" / "simple_evals"
    for words in (
        words_of_run("mode=gold,accuracy=0.7,seed=1", TASKS),
        words_of_run("mode=gold,accuracy=0.4,seed=2", TASKS),
        ("import", str(next(logs.glob("*.json")))),
        words_of_run("mode=random,fail=0.2", "demo_letters"),
        ("rescore", "last~3", "--task", "demo_sums", "--metric", RESCORED),
        ("audit", "prompts", "fake", "demo_letters_places", "--limit", "2", "--quiet"),
    ):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(sys.stderr):
            assert command_line()([*words, "--store", str(store)]) in {0, 5}, words


def main() -> None:
    """Make both files."""
    old = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[f"{FORMER_NAME.upper()}_HOME"] = str(folder / "home")
        store = folder / "store.sqlite"
        make(store, old)
        said = all_said(store, folder)
        with contextlib.closing(sqlite3.connect(store)) as connection:
            assert connection.execute(f"SELECT version_num FROM {FORMER_NAME}_schema").fetchone() == ("0002",)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
        HERE.mkdir(exist_ok=True)
        for place, content in (
            (HERE / "store.sqlite.xz", store.read_bytes()),
            (HERE / "said.json.xz", json.dumps(said).encode()),
        ):
            place.write_bytes(lzma.compress(content, preset=9))


if __name__ == "__main__":
    main()
