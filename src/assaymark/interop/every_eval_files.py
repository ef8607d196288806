"""Writing of a stored run as files of Every Eval Ever, in the folders of its data store.

A record is `data/BENCHMARK/DEVELOPER/MODEL/UUID.json`, its samples are `UUID_samples.jsonl` beside it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from assaymark.drafts import whole_file
from assaymark.errors import StoreError, UnknownName, UsageError
from assaymark.interop.every_eval_results import (
    Benchmark,
    Publisher,
    aggregate_record,
    benchmarks_of,
    evaluated_model,
    folder_name,
    record_id,
    result_id,
)
from assaymark.interop.every_eval_samples import Joined, row_line, sample_rows
from assaymark.records import Score
from assaymark.store import Store
from assaymark.store.rows import RunRow, SampleRecord


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """The files, and a line for each thing that the format has no place for or that the data store asks for."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def write_records(store: Store, run_id: str, folder: Path, publisher: Publisher | None = None) -> WrittenRecords:
    """Write a run's records and samples under `folder`; files of the same run are replaced.

    Args:
        store: the store that holds the run, as others may read it.
        run_id: the run's id.
        folder: gets `data` with the records.
        publisher: who publishes them.

    Raises: UsageError for a run without results, or none that can be written; StoreError if files cannot be written.
    """
    publisher = publisher or Publisher()
    run = store.run(run_id)
    attempts, estimates = store.attempts(run.run_id), store.estimates(run.run_id)
    benchmarks = benchmarks_of(run, estimates)
    if not any(benchmark.estimates for benchmark in benchmarks):
        raise UsageError(
            f"run {run.short_id} has no value that a record could hold (it is {run.status}); finish it, or let its "
            "answers be judged and export the judging"
        )
    model = evaluated_model(run, publisher)
    notes: list[str] = []
    if "/" not in model.id:
        notes.append(
            f"the developer of {model.id} is not known, so its records are under 'unknown'; name the model as the data "
            "store has it with --model_id DEVELOPER/MODEL"
        )
    paths: list[Path] = []
    for benchmark in benchmarks:
        notes += [
            f"{result_id(each.task, each.metric, each.filter)} is undefined and was left out"
            for each in benchmark.undefined
        ]
        if not benchmark.estimates:
            continue
        record = aggregate_record(run, benchmark, attempts, publisher)
        place = Path("data", folder_name(benchmark.name), *model.place)
        name = str(record_id(run, benchmark))
        samples = place / f"{name}_samples.jsonl"
        try:
            (folder / place).mkdir(parents=True, exist_ok=True)
            n_rows, digest = _write_samples(store, run, benchmark, Joined(
                str(record["evaluation_id"]), model.id,
                {(each.task, each.metric, each.filter): each for each in benchmark.estimates},
            ), folder / samples)  # fmt: skip
            if n_rows:
                record["detailed_evaluation_results"] = {
                    "format": "jsonl", "file_path": samples.as_posix(), "hash_algorithm": "sha256",
                    "checksum": digest, "total_rows": n_rows,
                }  # fmt: skip
            text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
            with whole_file(folder / place / f"{name}.json") as draft:
                draft.write_bytes(text.encode("utf-8", "replace"))
        except OSError as error:
            raise StoreError(f"records cannot be written to {folder}: {error}; name another folder with -o") from error
        paths += [folder / place / f"{name}.json", *([folder / samples] if n_rows else [])]
    return WrittenRecords(tuple(paths), tuple(notes))


def _write_samples(store: Store, run: RunRow, benchmark: Benchmark, joined: Joined, path: Path) -> tuple[int, str]:
    """Write the rows of a record; without any there is no file. Returns their number and the file's hash."""
    n_rows, digest = 0, sha256()
    tasks = [task for task in run.tasks if any(task == each.task for each in benchmark.estimates)]
    with whole_file(path) as draft, draft.open("wb") as file:
        for task in tasks:
            for row in sample_rows(_records(store, run, task), joined):
                line = row_line(row)
                digest.update(line)
                file.write(line)
                n_rows += 1
    if not n_rows:
        path.unlink()
    return n_rows, digest.hexdigest()


def _records(store: Store, run: RunRow, task: str) -> Iterator[SampleRecord]:
    """Yield a task's stored requests; of a judging the judged answers, with the judge's scores and text."""
    settings = run.plan.audit_settings
    judged = None if settings is None else settings.settings.get("runs")
    if not isinstance(judged, list | tuple) or not judged:
        yield from store.samples(run.run_id, task)
        return
    judgements = {(each.request.sample_index, each.request.turn): each for each in store.samples(run.run_id, task)}
    for record in store.samples(_stored_run(store, str(judged[0])), task):
        judgement = judgements.get((record.request.sample_index, record.request.turn))
        if judgement is not None:
            yield replace(record, scores=_with_judge(judgement))


def _stored_run(store: Store, run_id: str) -> str:
    """Return the id of a run that was judged. Raises: UsageError where the store does not have it."""
    try:
        return store.run(run_id).run_id
    except UnknownName as error:
        raise UsageError(
            f"the judged run {run_id} is not in this store, and a judging's samples are its answers; export from the "
            "store that has both"
        ) from error


def _with_judge(judgement: SampleRecord) -> tuple[Score, ...]:
    said = next((output.text for output in judgement.outputs if output.text is not None), None)
    return tuple(
        replace(score, detail={**(score.detail if isinstance(score.detail, Mapping) else {}), "judge": said})
        for score in judgement.scores
    )
