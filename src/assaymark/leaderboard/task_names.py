"""What a task set that a board's file names is called in stored runs."""

import re
from pathlib import Path

__all__ = ["task_name"]

_NAME = r"^{}:[ \t]*(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\[\"'#][^#\n]*?))[ \t]*(?:#.*)?$"
LARGEST_FILE = 1 << 20


def task_name(file: Path) -> str:
    """Return the name that a YAML file gives its group or task, and for other files their name without endings.

    The line is searched for and the file not loaded, since it may name Python functions.
    """
    if file.suffix.lower() in {".yaml", ".yml"} and file.is_file() and file.stat().st_size <= LARGEST_FILE:
        text = file.read_text(encoding="utf-8", errors="replace")
        for key in ("group", "task"):
            found = re.search(_NAME.format(key), text, re.MULTILINE)
            if found is not None:
                return next(part for part in found.groups() if part)
    return file.name.split(".")[0]
