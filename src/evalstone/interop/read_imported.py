"""Which tool a file or folder is of, and what its run is: the way in to all readers."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalstone.errors import DataError
from evalstone.interop.imported import ForeignRun, ImportedRun, imported_of
from evalstone.interop.imported_lm_eval import imported_run
from evalstone.interop.inspect_logs import inspect_logs
from evalstone.interop.log_files import object_in
from evalstone.interop.read_alpaca_eval import is_alpaca_eval, read_alpaca_eval
from evalstone.interop.read_evalscope import evalscope_reports, read_evalscope
from evalstone.interop.read_helm import helm_folders, read_helm
from evalstone.interop.read_inspect import read_inspect
from evalstone.interop.read_lighteval import is_lighteval, read_lighteval
from evalstone.interop.read_lm_eval_03 import early_files, read_lm_eval_03
from evalstone.interop.read_opencompass import opencompass_summary, read_opencompass
from evalstone.interop.read_simple_evals import is_simple_evals, read_simple_evals

__all__ = ["FORMATS", "read_imported"]

READERS: tuple[tuple[Callable[[Path], Any], Callable[[Path], ForeignRun]], ...] = (
    (inspect_logs, read_inspect),
    (helm_folders, read_helm),
    (is_lighteval, read_lighteval),
    (is_simple_evals, read_simple_evals),
    (is_alpaca_eval, read_alpaca_eval),
    (opencompass_summary, read_opencompass),
    (evalscope_reports, read_evalscope),
    (early_files, read_lm_eval_03),
)
FORMATS = (
    "lm-eval's results_<time>.json, from 0.2 on (Open LLM Leaderboard's too)",
    "lighteval's results and details",
    "Inspect's .eval or .json logs",
    "HELM's run folders",
    "simple-evals' JSON",
    "EvalScope's reports/<model>/<dataset>.json",
    "OpenCompass's summary_<time>.csv",
    "AlpacaEval's annotations.json or leaderboard.csv",
    "exported .evalstone files",
)


def read_imported(path: str | Path) -> ImportedRun:
    """Return the run at a path: of lm-eval where it looks like theirs, else of the tool whose files they look like.

    Raises: DataError, in one line, where files are missing, are of no format that is read (the line names those that
    are), or are not as their tool writes them.
    """
    place = Path(path)
    if not place.exists():
        raise DataError(f"there is nothing at {place}; expected a file or folder that an evaluation tool wrote")
    try:
        reader = next((read for is_theirs, read in READERS if is_theirs(place)), None)
    except (OSError, csv.Error) as error:
        raise DataError(f"{place} cannot be read: {error}; expected what an evaluation tool wrote") from error
    if reader is None and not _is_lm_eval(place):
        raise DataError(
            f"{place} is of no format that is read here{_seen(place)}; these are: {'; '.join(FORMATS)}. For another "
            'tool, write its totals as {"results": {"TASK": {"acc": 0.5, "acc_stderr": 0.01}}, '
            '"config": {"model": "NAME"}} and import that file'
        )
    if reader is None:
        return imported_run(place)
    try:
        found: ForeignRun = reader(place)
        return imported_of(found)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, csv.Error, OSError) as error:
        raise DataError(
            f"{place} is not as the tool that it looks like writes it: {type(error).__name__}: {error}; "
            "nothing was stored"
        ) from error


def _is_lm_eval(place: Path) -> bool:
    """Return whether what is wrong with a file is for lm-eval's reader to say: it is called so, or is filled so."""
    if place.is_dir():
        return any(True for pattern in ("results_*.json", "results.json") for _ in place.rglob(pattern))
    if place.suffix != ".json" or place.stem.startswith("results"):
        return place.suffix == ".json"
    return bool({"results", "configs"} & set(object_in(place)))


def _seen(place: Path) -> str:
    """Return what the path holds, for the message."""
    if not place.is_dir():
        return ""
    names = sorted(one.name for one in place.iterdir())
    return f" (it holds {', '.join(names[:4])}{', ...' if len(names) > 4 else ''})" if names else " (it is empty)"
