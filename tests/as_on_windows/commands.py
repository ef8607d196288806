"""Runs command lines in one process: `python commands.py FILE`, a JSON list of lists of words.

For each it prints a line of JSON: the words, the exit code, and what was written on standard output and error. A word
`{0}` is the id of the first run of which a command said that it is stored, and so on.
"""

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from assaymark.cli.main import main

if __name__ == "__main__":
    runs: list[str] = []
    for given in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        words = [word.format(*runs) if word.startswith("{") else word for word in given]
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="cp1252", write_through=True) for _ in range(2)]
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            code = main(words)
        output, errors = (stream.buffer.getvalue().decode("cp1252") for stream in streams)
        runs += re.findall(r"^run (\w+) in ", output, re.MULTILINE)
        said = {"words": words, "code": code, "output": output, "errors": errors}
        sys.stdout.write(f"{json.dumps(said)}\n")
