"""Detection of the tool that wrote a file or folder, and reading of its run."""

import csv
from dataclasses import replace
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.interop.hub_benchmarks import Unit
from assaymark.interop.imported import ImportedRun, Importer, imported_of
from assaymark.interop.log_files import object_in
from assaymark.interop.read_lm_eval import imported_run
from assaymark.interop.reported import ImpossibleValue
from assaymark.limits.characters import is_storable
from assaymark.registry import Registry

IMPORTERS: Registry[Importer] = Registry("importers", "importer")
OURS = (  # what is read beside what importers read
    "lm-eval's results_<time>.json, from 0.2 on (Open LLM Leaderboard's too)",
    "exported .assaymark files",
)


def read_imported(path: str | Path, unit: Unit | None = None) -> ImportedRun:
    """Return the run at a path, read by the reader whose format it matches; lm-eval's is the last to be tried.

    unit: of values whose unit their files leave in doubt; formats that leave none take no unit.

    Raises: UsageError for a unit that is not taken; DataError, in one line, if files are missing, in no supported
        format (the line lists those), or not as their tool writes them.
    """
    source = Path(path)
    if not source.exists():
        raise DataError(f"{source} does not exist; expected a file or folder of an evaluation tool")
    if not source.is_dir() and not source.is_file():
        raise DataError(f"{source} is a pipe or a device; expected a file or folder of an evaluation tool")
    try:
        importers = [IMPORTERS.load(name) for name in IMPORTERS]
        importer = next((each for each in importers if each.recognises(source)), None)
    except (OSError, csv.Error) as error:
        raise DataError(f"{source} cannot be read: {error}; expected a file or folder of an evaluation tool") from error
    if importer is None and not _is_lm_eval(source):
        formats = [*OURS, *(each.format for each in importers)]
        raise DataError(
            f"{source} is in no supported format{_contents(source)}; supported are: {'; '.join(formats)}. For another "
            'tool, write its totals as {"results": {"TASK": {"acc": 0.5, "acc_stderr": 0.01}}, '
            '"config": {"model": "NAME"}} and import that file'
        )
    if unit is not None and (importer is None or importer.read_in_unit is None):
        raise UsageError(f"{source} states the unit of its values; --unit is for values of a model's folder")
    try:
        if importer is None:
            run = imported_run(source)
        elif unit is None or importer.read_in_unit is None:
            run = imported_of(importer.read(source))
        else:
            run = imported_of(importer.read_in_unit(source, unit))
        _check_names(run)
        return _with_choice(run, source)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, csv.Error, OSError) as error:
        raise DataError(
            f"{source} is not as the tool writes it whose format it seems to have: {type(error).__name__}: {error}; "
            "nothing was stored"
        ) from error
    except ImpossibleValue as error:
        raise DataError(f"{source}: {error}; nothing was stored") from error


def _check_names(run: ImportedRun) -> None:
    """Raise ValueError for a name that no column takes; texts of samples are stored in another way, as they are."""
    names = {run.plan.model.name, *(sample.task for sample in run.samples)}
    names.update(*((score.metric, score.filter) for score in run.scores))
    names.update(*((estimate.metric, estimate.filter) for estimate in run.estimates))
    for name in sorted(names):
        if not is_storable(name):
            raise ValueError(f"{name!r:.80} has NUL or half a surrogate pair, which is not a character")


def _with_choice(run: ImportedRun, path: Path) -> ImportedRun:
    """Add a note where a folder has more than one results file of lm-eval or lighteval, of which one was read."""
    if not path.is_dir():
        return run
    files = sorted(path.rglob("results_*.json"), key=lambda file: file.name) or sorted(path.rglob("results.json"))
    if len(files) < 2 or files[-1].name not in run.origin:
        return run
    note = (
        f"{path} has {len(files)} results, and {files[-1].relative_to(path)}, the latest by its name, was read; "
        f"import another by naming it, as {files[-2]}"
    )
    return replace(run, notes=(*run.notes, note))


def _is_lm_eval(path: Path) -> bool:
    """Return whether lm-eval's reader is responsible for a file, by its name or keys, even if it is malformed."""
    if path.is_dir():
        return any(True for pattern in ("results_*.json", "results.json") for _ in path.rglob(pattern))
    if path.suffix != ".json" or path.stem.startswith("results"):
        return path.suffix == ".json"
    content = object_in(path)
    results = content.get("results")  # by task; promptfoo's are not
    return "configs" in content or (
        isinstance(results, dict) and all(isinstance(each, dict) for each in results.values())
    )


def _contents(path: Path) -> str:
    """Return the contents of a folder, for the message."""
    if not path.is_dir():
        return ""
    names = sorted(file.name for file in path.iterdir())
    return f" (it contains {', '.join(names[:4])}{', ...' if len(names) > 4 else ''})" if names else " (it is empty)"
