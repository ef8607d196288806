"""Read one task file: YAML, `include`, and `!function` as a name. Keys are not interpreted here.

Read a suite's file. Its keys are interpreted in `suites`, which stored runs use without the file.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import yaml

from assaymark.errors import DataError
from assaymark.limits.yaml_documents import SafeLoader, load_yaml
from assaymark.tasks.suites import Suite, suite_from
from assaymark.tasks.task import FunctionRef


def suites_below(folder: Path) -> dict[str, Suite]:
    """Return the suites in a folder's `suites/*.yaml`, by name and alias.

    Raises: DataError naming the file, the key and what was expected.
    """
    suites: dict[str, Suite] = {}
    for path in sorted((folder / "suites").glob("*.yaml")):
        suite = read_suite(path)
        suites.update(dict.fromkeys((suite.name, *suite.aliases), suite))
    return suites


def read_suite(path: Path) -> Suite:
    """Return the suite in a file; a file that has not changed is parsed once in a process.

    Raises: DataError naming the file, the key and what was expected.
    """
    try:
        status = path.stat()
    except OSError:
        return suite_from(read_task_file(path), path)  # says why it cannot be read
    suite = _suite_without_include(path, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    return suite or suite_from(read_task_file(path), path)


@lru_cache(maxsize=512)
def _suite_without_include(path: Path, *_state: int) -> Suite | None:
    content = parse_yaml(path.resolve())
    return None if "include" in content else suite_from(content, path)


class _TaskLoader(SafeLoader):
    """YAML's safe loader with the tag `!function`."""

    folder: Path  # of the file that is parsed


def _function(loader: _TaskLoader, node: yaml.ScalarNode) -> FunctionRef:
    path = str(loader.construct_scalar(node))
    module = path.rpartition(".")[0]
    if not all(part.isidentifier() for part in path.split(".")) or not module:
        raise DataError(f"!function {path!r}; expected <module>.<function>, for example utils.process_docs")
    file = loader.folder / f"{module.replace('.', '/')}.py"
    return FunctionRef(path, file if file.is_file() else None)


_TaskLoader.add_constructor("!function", _function)


def parse_yaml(path: Path) -> dict[str, object]:
    """Return the mapping in one file, with `include` unresolved.

    Raises: DataError naming file and line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read task file {path}: {error.strerror or error}") from error

    def make_loader(text: bytes | str) -> _TaskLoader:
        loader = _TaskLoader(text)
        loader.folder = path.parent
        return loader

    try:
        content = load_yaml(data, make_loader)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: contains {type(content).__name__}; expected keys and values such as `task: <name>`")
    wrong = next((key for key in content if not isinstance(key, str)), None)
    if wrong is not None:
        raise DataError(f"{path}: key {wrong!r} is not a text; expected a key such as `task`")
    return content


def read_card(path: Path) -> Mapping[str, object]:
    """Return the keys and values of a task's card (`<task>.card.yaml`).

    Raises: DataError naming the file.
    """
    try:
        card = load_yaml(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read card {path}: {error.strerror or error}") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(card, Mapping):
        raise DataError(f"{path}: the card contains {type(card).__name__}; expected keys and values")
    return card


def notes_on_file(path: Path) -> list[str]:
    """Return notes on what a task file may not mean, and lm-eval reads so: repeated keys, templates among choices."""
    lines = []
    waiting = [yaml.compose(path.read_bytes(), Loader=_TaskLoader)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        if not isinstance(node, yaml.MappingNode):
            continue
        waiting += [value for _, value in node.value]
        line_of: dict[str, int] = {}
        for key, value in node.value:
            choices = value.value if isinstance(value, yaml.CollectionNode) and key.value == "doc_to_choice" else ()
            texts = [each[1].value if isinstance(each, tuple) else each.value for each in choices]
            if template := next((text for text in texts if "{{" in str(text)), None):
                lines.append(
                    f"{path.name}: the choice {template!r:.60} is sent as it stands: no list is a template; write "
                    "doc_to_choice as one template that returns a list: '{{[A, B]}}'"
                )
            line = key.start_mark.line + 1
            if isinstance(key.value, str) and key.value in line_of:
                lines.append(
                    f"{path.name}: the key '{key.value}' is in line {line_of[key.value]} and again in line {line}; "
                    "the last one counts"
                )
            line_of[str(key.value)] = line
    return lines


def read_task_file(path: Path, *, in_real_folder: bool = False) -> dict[str, object]:
    """Return the mapping of a task file with everything it includes; its own keys override included ones.

    Values are shared between files that include the same one: do not modify them.

    in_real_folder: whether its folder's path is known to have no links, which saves time for thousands of files.

    Raises: DataError, also for a circular include.
    """
    return _merged(_real_file(path.parent, path.name) if in_real_folder else path.resolve(), ())


def _real_file(folder: Path, name: str) -> Path:
    """Return the path without links of a file that is named relative to a folder whose path has none."""
    path = folder / name
    return path if path.parent == folder and ".." not in name and not path.is_symlink() else path.resolve()


def _merged(path: Path, above: tuple[Path, ...]) -> dict[str, object]:
    if path in above:
        chain = " -> ".join(part.name for part in (*above, path))
        raise DataError(f"{path}: circular include: {chain}")
    own = dict(_parsed(path, path.stat().st_mtime_ns) if above else parse_yaml(path))
    includes = own.pop("include", [])
    merged: dict[str, object] = {}
    for include in includes if isinstance(includes, list) else [includes]:
        if not isinstance(include, str):
            raise DataError(f"{path}: include is {include!r}; expected a file name or a list of them")
        target = None if "\0" in include else _real_file(path.parent, include)
        if target is None or not target.is_file():
            raise DataError(f"{path}: include names '{include}', which is not a file{f' ({target})' if target else ''}")
        merged.update({key: value for key, value in _merged(target, (*above, path)).items() if key != "task_list"})
    merged.update(own)
    return merged


def included_files(path: Path) -> list[Path]:
    """Return the files that a task file includes, directly or indirectly. Raises: as `read_task_file`."""
    read_task_file(path)  # refuses circles and files that are missing
    files: dict[Path, None] = {}
    waiting = [path.resolve()]
    while waiting:
        here = waiting.pop()
        includes = parse_yaml(here).get("include", [])
        listed = includes if isinstance(includes, list) else [includes]
        named = [(here.parent / str(each)).resolve() for each in listed]
        waiting += [each for each in named if each not in files]
        files |= dict.fromkeys(named)
    return list(files)


@lru_cache(maxsize=512)
def _parsed(path: Path, _mtime_ns: int) -> dict[str, object]:
    return parse_yaml(path)
