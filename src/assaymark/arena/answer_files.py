"""Stored answers for battles: from files, in AlpacaEval's format, or from stored runs of a generation task."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assaymark.arena.answers import Prompt, StoredAnswers, stored_answers
from assaymark.datasets.files import READABLE, read_files
from assaymark.errors import DataError, UsageError
from assaymark.store import RunRow, Store

__all__ = ["answers_of_files", "answers_of_runs", "open_answers"]

PROMPTS = ("instruction", "prompt", "question")
OUTPUTS = ("output", "answer", "response")
MODELS = ("generator", "model")
CATEGORIES = ("category", "dataset")

Answers = dict[str, dict[str, str]]


def open_answers(given: Sequence[str], store: Store, task: str | None = None) -> tuple[StoredAnswers, int]:
    """Return the answers of files and folders, or of runs, and the number left out because they name a model.

    Args:
        given: paths, or names of runs; nothing: the latest run of each model, of a task that they share.
        store: the store of the runs.
        task: the generation task whose answers are used; None: the one with the most requests.

    Raises: DataError, UsageError, UnknownName for what does not have answers of two models.
    """
    paths = [Path(one) for one in given if Path(one).exists()]
    if paths and len(paths) < len(given):
        missing = next(one for one in given if not Path(one).exists())
        raise UsageError(f"'{missing}' is not a file or folder; expected either files or runs in --answers, not both")
    lost = next((one for one in given if not paths and ("/" in one or one.endswith(tuple(READABLE)))), None)
    if lost is not None:
        raise UsageError(f"--answers '{lost}': there is no such file or folder; expected one, or runs of the store")
    return answers_of_files(paths) if paths else answers_of_runs(store, given, task)


def answers_of_files(paths: Sequence[Path]) -> tuple[StoredAnswers, int]:
    """Return the answers of Parquet, JSONL, JSON or CSV files with instruction, output and generator in each row.

    Folders stand for the files in them. A file without a column of models has the answers of one model, by its name.

    Raises: DataError.
    """
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    files = [file for file in files if file.name.endswith(tuple(READABLE))]
    if not files:
        raise DataError(f"no files in {', '.join(map(str, paths))}; expected one of {', '.join(READABLE)}")
    prompts: dict[str, Prompt] = {}
    answers: Answers = {}
    for file in files:
        rows = read_files([file])
        prompt, output = (_column(rows.column_names, names, file) for names in (PROMPTS, OUTPUTS))
        model = next((name for name in MODELS if name in rows.column_names), None)
        category = next((name for name in CATEGORIES if name in rows.column_names), None)
        for row in rows:
            text = str(row[prompt] or "")
            key = _prompt_id(text)
            prompts.setdefault(key, Prompt(key, text, str(row[category]) if category and row[category] else None))
            name = str(row[model]) if model and row[model] else file.stem
            answers.setdefault(name, {})[key] = str(row[output] or "")
    return stored_answers(paths[0].name if len(paths) == 1 else f"{len(files)} files", prompts, answers)


def answers_of_runs(store: Store, names: Sequence[str], task: str | None = None) -> tuple[StoredAnswers, int]:
    """Return the generated answers of runs to one task's prompts.

    Raises: UnknownName for a run; UsageError if the runs share no generation task, or two are of one model.
    """
    runs = [store.run(name) for name in names] if names else _latest_of_each_model(store)
    twice = [run.plan.model.name for run in runs]
    labels = {run.run_id: _label(run, twice) for run in runs}
    chosen = task or _largest_shared(store, runs)
    prompts: dict[str, Prompt] = {}
    answers: Answers = {}
    for run in runs:
        of_model = answers.setdefault(labels[run.run_id], {})
        for record in store.samples(run.run_id, chosen):
            texts = [output.text for output in record.outputs if output.text is not None]
            if record.request.turn == 0 and texts and record.sample is not None:
                text = _prompt_text(record)
                key = _prompt_id(text)
                prompts.setdefault(key, Prompt(key, text, None))
                of_model[key] = texts[0]
    return stored_answers(chosen, prompts, answers)


def _latest_of_each_model(store: Store) -> list[RunRow]:
    found: dict[str, RunRow] = {}
    for run in store.runs():
        if run.status == "finished":
            found.setdefault(str(run.plan.model.content_hash or run.plan.model.name), run)
    if len(found) < 2:
        raise UsageError(
            f"the store has finished runs of {len(found)} models; a battle needs two: `assaymark demo` makes them, or "
            "name a file of answers with --answers FILE"
        )
    return list(found.values())


def _label(run: RunRow, all_names: Sequence[str]) -> str:
    name = Path(run.plan.model.name).name
    return name if [Path(one).name for one in all_names].count(name) == 1 else f"{name} ({run.short_id})"


def _largest_shared(store: Store, runs: Sequence[RunRow]) -> str:
    """Return the generation task that all runs have, with the longest generated texts."""
    n_tokens: dict[str, int] = {}
    shared: set[str] | None = None
    for run in runs:
        of_run: dict[str, int] = {}
        for row in store.generated(run.run_id):
            of_run[row.task] = of_run.get(row.task, 0) + row.n_tokens
        shared = set(of_run) if shared is None else shared & set(of_run)
        for name, tokens in of_run.items():
            n_tokens[name] = n_tokens.get(name, 0) + tokens
    if not shared:
        raise UsageError(
            "these runs share no task with generated answers; battles need one: run a task with generate_until on "
            "each model, or name a file of answers with --answers FILE"
        )
    return max(sorted(shared), key=lambda name: n_tokens[name])


def _prompt_text(record: Any) -> str:
    """Return what the models were asked: the last message of the request, or its text after the examples."""
    request = record.request
    if not request.messages:
        return str(request.segments[-1]).strip()
    return "".join(getattr(part, "text", None) or "" for part in request.messages[-1].parts).strip()


def _column(names: Sequence[str], known: Sequence[str], file: Path) -> str:
    found = next((name for name in known if name in names), None)
    if found is None:
        raise DataError(f"{file} has columns {', '.join(names)}; expected one of {', '.join(known)}")
    return found


def _prompt_id(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
