"""Which files of this machine tasks are made of, for a sandbox that shows these and nothing that lies beside them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assaymark.datasets.files import folder_files, named_files
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.spec_hash import file_of, local_imports
from assaymark.tasks.task import FunctionRef
from assaymark.tasks.yaml_files import included_files, read_task_file


def files_read(names: Sequence[str]) -> list[Path]:
    """Return the files that evaluating these tasks reads, beside installed packages and shared data sets.

    Left out are tasks of our library and of lm_eval, and data sets of the Hub and of ASSAYMARK_DATA. The files are
    those of the tasks, their groups and suites, what these include, the modules of their functions with what is
    imported beside them, and the data files that they name. Files that a function opens by itself are not known here.
    Nothing is imported.

    names: as `Catalog.select`.

    Raises: as `Catalog.select`; DataError for data files that are missing.
    """
    selection = Catalog.open().select(names, partial=True)
    files: dict[Path, None] = {}
    tasks = [task for task in selection.tasks if task.origin == "user"]
    sources = [task.source for task in tasks]
    sources += [group.source for group in selection.groups if group.source is not None and group.origin == "user"]
    sources += [chosen.suite.source for chosen in selection.suites if chosen.suite.source is not None]
    for source in dict.fromkeys(sources):
        files[source] = None
        if source.suffix in {".yaml", ".yml"} and source.is_file():
            files |= dict.fromkeys((*included_files(source), *_modules(read_task_file(source))))
    for task in tasks:
        by_split = named_files(task.dataset) or folder_files(task.dataset) or {}
        data_files = (path for paths in by_split.values() for path in paths)
        files |= dict.fromkeys((*_modules(task.spec), *data_files))
    return list(files)


def _modules(value: object) -> Iterator[Path]:
    """Yield the modules of the functions in a task file's mapping, and the files beside them that they import."""
    if isinstance(value, FunctionRef):
        file = file_of(value)
        if file is not None:
            yield from (file, *sorted(local_imports(file)))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _modules(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _modules(part)
