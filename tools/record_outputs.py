"""What commands print of stored results, in every format, written to files that two versions can be compared by.

    python tools/record_outputs.py DIR

Whoever moves how a result is written runs it before and after, and lists the differences (`diff -r`). Names of runs and
times are replaced, since they differ each time.
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from assaymark import __version__
from assaymark.cli.main import main as assaymark
from assaymark.runs.demo import demo_model
from assaymark.store import Store

MODELS = {
    "small": f"--model_args pretrained={demo_model('small')} --limit 40",
    "large": f"--model_args pretrained={demo_model('large')} --limit 40",
    "guess": "--model fake --model_args accuracy=0.3,seed=2 --limit 60",
}
PLACEHOLDERS = (
    (r"\b[0-9a-f]{32}\b", "RUN"),
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
    (r"\b\d\d-\d\d \d\d:\d\d\b", "MINUTE"),
    (re.escape(str(demo_model("small").parent)), "MODELS"),
    (re.escape(__version__), "VERSION"),
)
WIDTHS = ("60", "80", "120")


def commands(folder: Path) -> dict[str, str]:
    """Return the commands by the name of their file; a report is a file of its own."""
    found = {}
    for name, runs in {"two": "SMALL LARGE", "three": "SMALL LARGE GUESS", "one": "LARGE"}.items():
        for suffix in ("html", "md"):
            found[f"report-{name}.{suffix}"] = f"report {runs} -o {folder}/report-{name}.{suffix}"
        if name != "one":
            found |= {f"compare-{name}-{width}.txt": f"compare {runs} --flips" for width in WIDTHS}
            found |= {f"compare-{name}.{way}": f"compare {runs} --{way}" for way in ("json", "markdown")}
    for width in WIDTHS:
        found[f"show-{width}.txt"] = "show LARGE"
        found[f"ls-{width}.txt"] = "ls runs"
    return found | {"show.json": "show LARGE --json", "samples.txt": "show LARGE --samples demo_facts --wrong"}


def record(folder: Path) -> None:
    """Evaluate the models and write what each command prints."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["ASSAYMARK_STORE"] = str(folder / "store.sqlite")
    for words in MODELS.values():
        _printed(f"run --tasks demo --quiet {words}")
    with Store.open_to_read(os.environ["ASSAYMARK_STORE"]) as store:
        ids = dict(zip(("GUESS", "LARGE", "SMALL"), (row.run_id for row in store.runs()), strict=True))
    for name, words in commands(folder).items():
        os.environ["COLUMNS"] = next((width for width in WIDTHS if name.endswith(f"-{width}.txt")), "80")
        text = _printed(re.sub("|".join(ids), lambda run: ids[run[0]], words))
        text = (folder / name).read_text(encoding="utf-8") if words.startswith("report") else text
        for run, run_id in ids.items():
            text = text.replace(run_id, run).replace(run_id[:8], run)
        for pattern, placeholder in PLACEHOLDERS:
            text = re.sub(pattern, placeholder, text)
        (folder / name).write_text(text.replace(str(folder), "FOLDER"), encoding="utf-8")
    for file in folder.glob("store.sqlite*"):
        file.unlink()


def _printed(words: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assaymark(words.split())
    return printed.getvalue()


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        os.environ["ASSAYMARK_HOME"] = home
        record(Path(sys.argv[1]))
