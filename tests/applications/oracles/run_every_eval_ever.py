"""Run in the environment of `every_eval_ever.txt`: ask the package itself about records.

Reads {"files": {path: text}, "lm_eval": {path: text}}: records, which are validated, and a folder of lm-eval's files,
which is converted with its samples. Writes {"validated": {path: problems}, "converted": {path: text}}, without what
differs at each call: the time of the conversion, the names of files, and hashes of these.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from every_eval_ever.cli import main as eee

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
NOW = re.compile(r"\b\d{10}\.\d+\b|(?<=\"checksum\": \")\w+")


def call(words: list[str]) -> str:
    """Return what the command line prints; how it ends is in what it prints."""
    out = io.StringIO()
    before, sys.argv = sys.argv, ["every_eval_ever", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            eee()
    finally:
        sys.argv = before
    return out.getvalue()


def written(files: dict[str, str]) -> list[str]:
    """Write files into the working folder and return their paths."""
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8", newline="")
    return list(files)


def problems(report: dict[str, list[dict[str, str]]]) -> list[str]:
    """Return a report's errors and warnings as lines."""
    return [f"{kind}: {each['loc']}: {each['msg']}" for kind in ("errors", "warnings") for each in report[kind]]


def main() -> None:
    """Validate and convert."""
    given = json.load(sys.stdin)
    answer: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if given.get("files"):
            reports = json.loads(call(["validate", "--format", "json", *written(given["files"])]))
            answer["validated"] = {report["file"]: problems(report) for report in reports}
        if given.get("lm_eval"):
            written(given["lm_eval"])
            call(["convert", "lm_eval", "--log_path", "logs", "--output_dir", "converted", "--include_samples"])
            texts = {}
            for path in sorted(Path("converted").rglob("*.json*")):
                text = path.read_text(encoding="utf-8")
                name = "samples.jsonl" if path.suffix == ".jsonl" else "record.json"
                texts[f"{path.relative_to('converted').parts[0]}/{name}"] = NOW.sub("NOW", UUID.sub("UUID", text))
            answer["converted"] = texts
        os.chdir("/")
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
