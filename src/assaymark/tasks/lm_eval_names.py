"""The names of lm_eval's tasks, known without lm_eval: the error about such a task states how to install lm_eval.

`python -m assaymark.tasks.lm_eval_names` regenerates the list from an installed lm_eval.
"""

import gzip
import json
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from assaymark.errors import install_line
from assaymark.tasks.task import Kind

_FILE = Path(__file__).parent / "data" / "lm_eval_names.json.gz"


def task_folder() -> Path | None:
    """Return the folder of the installed lm_eval's task files, without importing it; None if it is absent."""
    spec = find_spec("lm_eval")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / "tasks").is_dir():
            return Path(location) / "tasks"
    return None


@cache
def installed_version() -> str:
    """Return lm_eval's version, or an empty text where it is unknown."""
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return ""


@cache
def known_names() -> dict[str, Kind]:
    """Return every name that lm_eval 0.4.13 has, and whether it is a task, a group or a tag."""
    content = json.loads(gzip.decompress(_FILE.read_bytes()))
    return {name: kind for kind in ("tag", "group", "task") for name in content[kind]}


def write_names(folder: Path, target: Path = _FILE) -> int:
    """Write the list from a folder of task files; return how many names it has."""
    from assaymark.tasks.task_index import index_folder

    files = [file for file in index_folder(folder, installed_version()) if not file.broken]
    content = {kind: sorted({file.name for file in files if file.kind == kind}) for kind in ("task", "group")}
    known = {*content["task"], *content["group"]}
    content["tag"] = sorted({tag for file in files if file.kind == "task" for tag in file.tags} - known)
    text = json.dumps({"version": installed_version(), **content}, separators=(",", ":"))
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return sum(len(names) for names in content.values())


if __name__ == "__main__":
    installed = task_folder()
    if installed is None:
        sys.exit(f"lm_eval is not installed; install it {install_line('lm-eval')}")
    sys.stdout.write(f"{write_names(installed)} names in {_FILE}\n")
