"""Which tool a file or folder is of, and what its run is: the way in to all readers."""

from pathlib import Path

from evalstone.errors import DataError
from evalstone.interop.imported import ForeignRun, ImportedRun, imported_of
from evalstone.interop.imported_lm_eval import imported_run
from evalstone.interop.read_helm import helm_folders, read_helm
from evalstone.interop.read_inspect import inspect_logs, read_inspect
from evalstone.interop.read_lighteval import is_lighteval, read_lighteval
from evalstone.interop.read_simple_evals import is_simple_evals, read_simple_evals

__all__ = ["read_imported"]

READERS = (
    (inspect_logs, read_inspect),
    (helm_folders, read_helm),
    (is_lighteval, read_lighteval),
    (is_simple_evals, read_simple_evals),
)


def read_imported(path: str | Path) -> ImportedRun:
    """Return the run at a path: of Inspect, HELM, lighteval, simple-evals where it looks like theirs, else lm-eval.

    Raises: DataError, in one line, where files are missing or are not as their tool writes them.
    """
    place = Path(path)
    if not place.exists():
        raise DataError(f"there is nothing at {place}; expected a file or folder that an evaluation tool wrote")
    reader = next((read for is_theirs, read in READERS if is_theirs(place)), None)
    if reader is None:
        return imported_run(place)
    try:
        found: ForeignRun = reader(place)
        return imported_of(found)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{place} is not as the tool that it looks like writes it: {type(error).__name__}: {error}; "
            "nothing was stored"
        ) from error
