"""Request files of the Open LLM Leaderboard: a submitter's facts about a model, one JSON file for each submission.

They are at `ORG/MODEL_eval_request_{private}_{precision}_{weight type}.json`. Hosts of its copies have thousands; a
board reads them beside the results files, and writes them of its own rows.

A board's own rows can be written whole in the layout of that leaderboard's data sets: `requests/` has one file per row,
`results/` lm-eval's results files by model and `details/` lm-eval's samples by model and task. Samples of gated data
sets are written only if that is allowed, those of sealed tasks never.

Source: https://huggingface.co/datasets/open-llm-leaderboard/requests (layout of 2024)
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.drafts import write_whole
from assaymark.errors import DataError, write_errors
from assaymark.interop.lm_eval_files import sanitised_model, write_lm_eval_files
from assaymark.leaderboard.columns import MODEL_TYPES, WEIGHT_TYPES, model_type, precision_name
from assaymark.leaderboard.queue import RunMark
from assaymark.leaderboard.rows import BoardRow, Fact
from assaymark.leaderboard.stored import StoredRun, is_gated
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.users_files import state_of
from assaymark.limits.characters import is_hub_id
from assaymark.platforms import portable_name
from assaymark.store import Store
from assaymark.store.public_store import public_store

NAMED = "*_eval_request_*.json"
FINISHED = frozenset({"FINISHED", "PENDING_NEW_EVAL"})  # statuses whose results the old boards showed
LARGEST_FILE = 1 << 16  # bytes
MOST_FILES = 100_000
_REQUESTS, RESULTS, _DETAILS = "requests", "results", "details"


@dataclass(frozen=True, slots=True)
class RequestFile:
    """One submission, under the names that are used here. params: in billions; submitted: ISO 8601, UTC."""

    model: str
    revision: str = ""
    base: str = ""
    precision: str = ""
    weight: str = ""
    type: str = "unknown"
    params: float | None = None
    architecture: str = ""
    licence: str = ""
    status: str = "FINISHED"
    submitted: str = ""
    has_chat_template: bool | None = None
    is_private: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether its results may be shown."""
        return self.status in FINISHED

    def facts(self) -> dict[str, Fact]:
        """Return its fields that a row shows."""
        facts: dict[str, Fact | None] = {
            "type": self.type,
            "weight": self.weight or None,
            "precision": self.precision or None,
            "params": self.params,
            "architecture": self.architecture or None,
            "licence": self.licence or None,
            "sha": self.revision or None,
            "base": self.base or None,
            "date": self.submitted[:10] or None,
            "chat_template": self.has_chat_template,
        }
        return {key: value for key, value in facts.items() if value is not None}


def read_requests(folders: Sequence[Path]) -> dict[str, list[RequestFile]]:
    """Return the requests below these folders by model, in lower case, the latest first.

    Raises: DataError, naming the file, if it is not a request.
    """
    files = [file for folder in folders for file in _files_in(folder)]
    if len(files) > MOST_FILES:
        raise DataError(f"{folders[0]} and others hold {len(files):,} request files; at most {MOST_FILES:,} are read")
    by_model: dict[str, list[RequestFile]] = {}
    for file in files:
        request = _read(file)
        by_model.setdefault(request.model.lower(), []).append(request)
    return {name: sorted(some, key=lambda entry: entry.submitted, reverse=True) for name, some in by_model.items()}


def requests_state(folder: Path) -> str:
    """Return a text that changes with the requests below a folder."""
    return state_of(folder, _files_in)


def _files_in(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob(NAMED)) if file.is_file()]


def with_requests(runs: Sequence[StoredRun], requests: Mapping[str, Sequence[RequestFile]]) -> Iterator[StoredRun]:
    """Yield imported runs with the facts of their requests, without runs whose request is not finished.

    A run without a request is yielded as it is: its file was added by hand.
    """
    for run in runs:
        known = requests.get(run.model.lower(), ())
        precision = precision_name(run.plan.model.dtype)
        fitting = [file for file in known if file.precision == precision] or list(known)
        if not fitting:
            yield run
        elif fitting[0].is_finished:
            yield replace(run, mark=RunMark(fitting[0].model, submission="", facts=fitting[0].facts()))


def request_of(row: BoardRow) -> RequestFile:
    """Return the request that a row would have had."""
    facts = row.facts
    text = {key: str(facts.get(key) or "") for key in ("sha", "base", "precision", "weight", "architecture", "licence")}
    params, template = facts.get("params"), facts.get("chat_template")
    return RequestFile(
        model=row.model,
        revision=text["sha"],
        base=text["base"],
        precision=text["precision"],
        weight=text["weight"] or WEIGHT_TYPES[0],
        type=str(facts.get("type") or "unknown"),
        params=float(params) if isinstance(params, int | float) else None,
        architecture=text["architecture"],
        licence=text["licence"],
        submitted=f"{facts['date']}T00:00:00Z" if facts.get("date") else "",
        has_chat_template=template if isinstance(template, bool) else None,
    )


def write_request(folder: Path, request: RequestFile, place: str) -> Path:
    """Write a request below a folder, as the old boards named it, and return its path. place: `org/model`.

    Raises: OSError.
    """
    weight = (request.weight or WEIGHT_TYPES[0]).capitalize()
    path = folder / f"{place}_eval_request_{request.is_private}_{request.precision or 'unknown'}_{weight}.json"
    kind = model_type(request.type)
    content = {
        "model": request.model,
        "base_model": request.base,
        "revision": request.revision,
        "private": request.is_private,
        "precision": request.precision,
        "params": request.params,
        "architectures": request.architecture,
        "weight_type": weight,
        "status": request.status,
        "submitted_time": request.submitted,
        "model_type": f"{kind.symbol} : {kind.title}",
        "job_id": -1,
        "job_start_time": None,
        "use_chat_template": request.has_chat_template,
        "license": request.licence,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def _read(file: Path) -> RequestFile:
    if file.stat().st_size > LARGEST_FILE:
        raise DataError(f"{file} has {file.stat().st_size:,} bytes; a request file has at most {LARGEST_FILE:,}")
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON: {error}; expected a request of the Open LLM Leaderboard") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), str) or not content["model"]:
        raise DataError(f"{file} names no model; expected a request of the Open LLM Leaderboard, with the key 'model'")
    weight = _text(content, "weight_type").lower()
    return RequestFile(
        model=content["model"],
        revision=_text(content, "revision"),
        base=_text(content, "base_model"),
        precision=precision_name(_text(content, "precision")),
        weight=weight if weight in WEIGHT_TYPES else "",
        type=_type(_text(content, "model_type")),
        params=_params(content.get("params")),
        architecture=_text(content, "architectures"),
        licence=_text(content, "license"),
        status=_text(content, "status").upper(),
        submitted=_text(content, "submitted_time"),
        has_chat_template=template if isinstance(template := content.get("use_chat_template"), bool) else None,
        is_private=content.get("private") is True,
    )


def _text(content: Mapping[str, object], key: str) -> str:
    value = content.get(key)
    return value.strip()[:1000] if isinstance(value, str) else ""


def _type(text: str) -> str:
    """Return the type of `🔶 : fine-tuned`, of `🔶`, or of `fine-tuned`."""
    symbol, _, words = text.partition(":")
    name = (words or symbol).strip().lower()
    by_symbol = next((kind.key for kind in MODEL_TYPES if kind.symbol in symbol), None)
    return by_symbol or next(
        (kind.key for kind in MODEL_TYPES if name in (kind.key, kind.title, *kind.aliases)), "unknown"
    )


def _params(value: object) -> float | None:
    """Return billions of parameters; the old boards wrote 0 or -1 for unknown."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def write_old_layout(table: BoardTable, store: Store, folder: Path, *, show_gated: bool = False) -> Iterator[Path]:
    """Write requests, results and details of a board's measured rows; yield the paths.

    Raises: UsageError for a run without results; StoreError if a file cannot be written.
    """
    written: set[str] = set()
    for row in table.rows:
        if row.origin != "measured":
            continue
        with write_errors("requests", "name another folder", to=folder):
            yield write_request(folder / _REQUESTS, request_of(row), _place(row))
        for run_id in row.run_ids:
            if run_id not in written:
                written.add(run_id)
                withheld = public_store(store).withheld_tasks(run_id)
                tasks = [
                    name
                    for name in store.run(run_id).tasks
                    if (show_gated or not is_gated(name)) and name not in withheld
                ]
                yield from _write_run(store, run_id, folder, _place(row), tasks)


def _place(row: BoardRow) -> str:
    """Return where a model's files lie: `org/name` for a Hub id, else one folder name."""
    is_safe = is_hub_id(row.model) and all(portable_name(part) == part for part in row.model.split("/"))
    return row.model if is_safe else sanitised_model(row.model).strip(".") or "model"


def _write_run(store: Store, run_id: str, folder: Path, place: str, tasks: Sequence[str]) -> Iterator[Path]:
    results, *samples = write_lm_eval_files(store, run_id, folder / RESULTS, log_samples=True, tasks=tasks, place=place)
    yield results
    details = folder / _DETAILS / f"{place.replace('/', '__')}-details"
    for path in samples:
        with write_errors("details", "name another folder", to=details):
            details.mkdir(parents=True, exist_ok=True)
            yield path.rename(details / path.name)
