"""Detection of the tool that wrote a file or folder, and reading of its run."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, ImportedRun, imported_of
from assaymark.interop.imported_lm_eval import imported_run
from assaymark.interop.inspect_logs import inspect_logs
from assaymark.interop.log_files import object_in
from assaymark.interop.read_alpaca_eval import is_alpaca_eval, read_alpaca_eval
from assaymark.interop.read_evalscope import evalscope_reports, read_evalscope
from assaymark.interop.read_helm import helm_folders, read_helm
from assaymark.interop.read_inspect import read_inspect
from assaymark.interop.read_lighteval import is_lighteval, read_lighteval
from assaymark.interop.read_lm_eval_03 import early_files, read_lm_eval_03
from assaymark.interop.read_opencompass import opencompass_summary, read_opencompass
from assaymark.interop.read_simple_evals import is_simple_evals, read_simple_evals
from assaymark.interop.read_yall import is_yall, read_yall
from assaymark.interop.reported import ImpossibleValue

__all__ = ["FORMATS", "read_imported"]

READERS: tuple[tuple[Callable[[Path], Any], Callable[[Path], ForeignRun]], ...] = (
    (inspect_logs, read_inspect),
    (helm_folders, read_helm),
    (is_lighteval, read_lighteval),
    (is_simple_evals, read_simple_evals),
    (is_alpaca_eval, read_alpaca_eval),
    (opencompass_summary, read_opencompass),
    (evalscope_reports, read_evalscope),
    (is_yall, read_yall),
    (early_files, read_lm_eval_03),
)
FORMATS = (
    "lm-eval's results_<time>.json, from 0.2 on (Open LLM Leaderboard's too)",
    "lighteval's results and details (the first Open LLM Leaderboard's too)",
    "Inspect's .eval or .json logs",
    "HELM's run folders",
    "simple-evals' JSON",
    "EvalScope's reports/<model>/<dataset>.json",
    "OpenCompass's summary_<time>.csv",
    "LLM AutoEval's Markdown, as YALL's gists hold it",
    "AlpacaEval's annotations.json or leaderboard.csv",
    "exported .assaymark files",
)


def read_imported(path: str | Path) -> ImportedRun:
    """Return the run at a path, read by the reader whose format it matches; lm-eval's is the last to be tried.

    Raises: DataError, in one line, if files are missing, in no supported format (the line lists those), or not as
    their tool writes them.
    """
    source = Path(path)
    if not source.exists():
        raise DataError(f"{source} does not exist; expected a file or folder of an evaluation tool")
    try:
        reader = next((read for is_theirs, read in READERS if is_theirs(source)), None)
    except (OSError, csv.Error) as error:
        raise DataError(f"{source} cannot be read: {error}; expected a file or folder of an evaluation tool") from error
    if reader is None and not _is_lm_eval(source):
        raise DataError(
            f"{source} is in no supported format{_contents(source)}; supported are: {'; '.join(FORMATS)}. For another "
            'tool, write its totals as {"results": {"TASK": {"acc": 0.5, "acc_stderr": 0.01}}, '
            '"config": {"model": "NAME"}} and import that file'
        )
    try:
        if reader is None:
            return imported_run(source)
        found: ForeignRun = reader(source)
        return imported_of(found)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, csv.Error, OSError) as error:
        raise DataError(
            f"{source} is not as the tool writes it whose format it seems to have: {type(error).__name__}: {error}; "
            "nothing was stored"
        ) from error
    except ImpossibleValue as error:
        raise DataError(f"{source}: {error}; nothing was stored") from error


def _is_lm_eval(path: Path) -> bool:
    """Return whether lm-eval's reader is responsible for a file, by its name or keys, even if it is malformed."""
    if path.is_dir():
        return any(True for pattern in ("results_*.json", "results.json") for _ in path.rglob(pattern))
    if path.suffix != ".json" or path.stem.startswith("results"):
        return path.suffix == ".json"
    return bool({"results", "configs"} & set(object_in(path)))


def _contents(path: Path) -> str:
    """Return the contents of a folder, for the message."""
    if not path.is_dir():
        return ""
    names = sorted(one.name for one in path.iterdir())
    return f" (it contains {', '.join(names[:4])}{', ...' if len(names) > 4 else ''})" if names else " (it is empty)"
