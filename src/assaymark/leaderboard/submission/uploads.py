"""Results files that were made elsewhere: read as data, never opened as a store, and stored as reported results."""

import json
from collections.abc import Mapping

from assaymark.drafts import draft_folder
from assaymark.errors import DataError
from assaymark.interop.imported import store_imported
from assaymark.interop.read_imported import read_imported
from assaymark.leaderboard.queue import UPLOADED
from assaymark.limits.characters import is_hub_id
from assaymark.limits.nesting import is_deeper
from assaymark.store import Store

LARGEST_RESULTS = 4 << 20  # bytes
MOST_DEPTH = 40


def store_results(store: Store, results: object, model: str) -> str:
    """Store the results of a file that another tool wrote; return the id of their run.

    results: the file's content, a JSON object as lm-eval's results_<time>.json. model: for which they are reported.

    Raises: DataError for content that is not as its tool writes it, of another model of the Hub, or that was reported
        before; nothing is stored then.
    """
    if not isinstance(results, Mapping) or "results" not in results:
        raise DataError("results are no JSON object with the key 'results'; expected lm-eval's results_<time>.json")
    try:
        text = json.dumps(results, allow_nan=False)
    except ValueError as error:
        raise DataError("results hold a number that is infinite or NaN; expected finite numbers") from error
    if len(text) > LARGEST_RESULTS or is_deeper(text, MOST_DEPTH):
        raise DataError(f"results are larger than {LARGEST_RESULTS:,} bytes, or nested deeper than {MOST_DEPTH} levels")
    with draft_folder() as folder:
        file = folder / "results_uploaded.json"
        file.write_text(text, encoding="utf-8")
        try:
            run = read_imported(file)
        except DataError as error:
            raise DataError(str(error).replace(str(file), "the results")) from error
    named = run.plan.model.name
    if is_hub_id(named) and _last_part(named) != _last_part(model):  # a folder's name says nothing
        raise DataError(f"the results are of '{named}', and '{model}' is submitted; report those of this model")
    run_id, is_new = store_imported(store, run, command=UPLOADED)
    if not is_new:  # else somebody could send another's file under their own model's name
        raise DataError("these results were reported before; report those of your own evaluation")
    return run_id


def _last_part(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].lower()
