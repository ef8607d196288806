"""Export of a stored run, in a format selected by the suffix of the file's name, and import of runs.

Other tools' results and runs exported from another store can be imported.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.drafts import draft_folder, open_whole, whole_file
from assaymark.errors import DataError, StoreError, UsageError, write_errors
from assaymark.records import Estimate
from assaymark.registry import Registry
from assaymark.runs.run import Run
from assaymark.runs.stored import existing_store, is_listed_with_runs, open_run, run_in
from assaymark.store import RunRow, Store
from assaymark.store.public_store import public_store

if TYPE_CHECKING:
    from assaymark.interop.every_eval_files import WrittenRecords
    from assaymark.interop.every_eval_results import Publisher
    from assaymark.interop.hub_benchmarks import Unit
    from assaymark.interop.imported import ImportedRun


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    run: Run
    is_new: bool  # False if these files were imported before
    notes: tuple[str, ...] = ()  # results in the files that cannot be computed from their samples
    corrected: str | None = None  # the run that had these files' values in another unit; it may be the same run


def import_run(
    store: str | None, path: str | Path, *, command: str | None = None, unit: "Unit | None" = None
) -> Imported:
    """Store the run in another tool's files (as `interop.read_imported` lists them), or an exported run.

    unit: of values whose unit their files leave in doubt.

    Raises: DataError for files of an unknown format, or that violate their format; nothing is stored then.
    """
    from assaymark.interop.one_file import is_run_file, read_run_file

    if is_run_file(Path(path)):
        opened = Store.open(store)
        run_id, is_new = read_run_file(opened, Path(path))
        return Imported(Run(opened, run_id), is_new)
    from assaymark.interop.read_imported import read_imported

    run = read_imported(path, unit)  # reads everything before anything is written
    return _stored(Store.open(store), run, unit, command)


def import_models(
    store: str | None, folder: Path, *, command: str | None = None, unit: "Unit | None" = None
) -> tuple[list[Imported], list[str]]:
    """Store what each model's folder below a folder reports; return the runs, and a line for each that has none.

    Raises: DataError if none has any.
    """
    from assaymark.interop.imported import imported_of
    from assaymark.interop.read_hub_results import read_models

    found = list(read_models(folder, unit))
    faults = [str(each) for each in found if isinstance(each, DataError)]
    runs = [imported_of(each) for each in found if not isinstance(each, DataError)]
    if not runs:
        raise DataError("; ".join(faults[:3]))
    opened = Store.open(store)
    return [_stored(opened, run, unit, command) for run in runs], faults


def _stored(store: Store, run: "ImportedRun", unit: "Unit | None", command: str | None) -> Imported:
    """Store an imported run. A unit that is said corrects the values of an earlier import of the same files.

    In another unit more values may be read, and so the run be another one, which then replaces the earlier. Without a
    unit, the values of the earlier import stay.
    """
    from assaymark.interop.imported import store_imported

    same: list[RunRow] = []
    if any("reported" in estimate.details for estimate in run.estimates):  # files whose values need not have a unit
        listed = store.runs([run.plan.model.name])
        same = [row for row in listed if row.plan.model == run.plan.model and not row.has_answers]
    if same and unit is None:
        return Imported(Run(store, same[0].run_id), is_new=False, notes=run.notes)
    run_id, is_new = store_imported(store, run, command=command)
    corrected = None
    for row in same:
        if row.run_id != run_id:
            store.remove(row.run_id)
        elif _values(store.estimates(run_id)) == _values(run.estimates):
            continue
        else:
            store.save_estimates(run_id, run.estimates, {**row.extra, **run.extra})
        corrected = row.short_id
    return Imported(Run(store, run_id), is_new, run.notes, corrected)


def _values(estimates: Sequence[Estimate]) -> list[tuple[float | None, str | None]]:
    return [(estimate.value, estimate.details.get("unit")) for estimate in estimates]


WHOLE_RUN = ".assaymark"
EXPORTERS: Registry[Callable[[Run, Path], None]] = Registry("exporters", "format")  # by suffix


def export_run(store: str | None, name: str, path: str | Path, *, with_sealed: bool = False) -> list[Path]:
    """Write a stored run to a file, or into a folder (lm-eval's results and samples files); return the files.

    Rows of sealed tasks are left out, unless `with_sealed`; a file of the whole run (.assaymark) is refused then.

    Raises: UsageError for an unknown suffix, and for a run without results; UnknownName for an unknown run; StoreError
        if the file cannot be written.
    """
    target = Path(path)
    if target.suffix not in EXPORTERS and (target.suffix or target.is_file()):
        known = ", ".join(EXPORTERS)
        raise UsageError(f"'{target.name}' has no known suffix; expected {known}, or a folder for lm-eval's files")
    run = open_run(store, name)
    if not with_sealed:
        if target.suffix == WHOLE_RUN and (sealed := list(public_store(run.store).withheld_tasks(run.id))):
            raise UsageError(
                f"run {run.short_id} has sealed tasks ({', '.join(sealed[:5])}), and {WHOLE_RUN} holds every row of a "
                "run; give --with_sealed to write them, or export another format"
            )
        run = run.as_others_see_it()
    with write_errors(target, "name another file or folder with -o"):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix not in EXPORTERS:
            return run.write_lm_eval_files(target, log_samples=True, with_sealed=with_sealed)
        with whole_file(target) as draft:
            try:
                EXPORTERS.load(target.suffix)(run, draft)
            except StoreError as error:
                if str(draft) not in str(error):
                    raise
                raise StoreError(str(error).replace(str(draft), str(target))) from error
    return [target]


def export_records(
    store: str | None, name: str, folder: str | Path, publisher: "Publisher", *, with_sealed: bool = False
) -> "WrittenRecords":
    """Write a stored run, or a judging, as records of Every Eval Ever under a folder.

    Raises: as `export_run`.
    """
    from assaymark.interop.every_eval_files import write_records

    opened = existing_store(store)
    row = opened.run(name)
    is_judging = row.plan.audit is not None and is_listed_with_runs(row.plan.audit)
    run = Run(opened, row.run_id) if is_judging else run_in(opened, name)
    run.refuse_without_results()
    run = run if with_sealed else run.as_others_see_it()
    return write_records(run.store, run.id, Path(folder), publisher)


def export_wrong(
    store: str | None, name: str, path: str | Path, *, by_subject: bool = False, with_sealed: bool = False
) -> tuple[Path, int, list[str]]:
    """Write the samples that a run answered wrongly or not at all, as .jsonl or .csv.

    Returns the file, the number of samples in it, and the sealed tasks of which rows were left out.

    Args:
        name: the run's id, the beginning of one, or `last`.
        by_subject: whether tasks are sorted by their values, the lowest first.
        with_sealed: write samples of sealed tasks too.

    Raises: UsageError for another suffix; UnknownName for an unknown run; StoreError if the file cannot be written.
    """
    from assaymark.interop.export_tables import wrong_rows, wrong_to_csv, wrong_to_jsonl

    target = Path(path)
    lines_of = {".jsonl": wrong_to_jsonl, ".csv": wrong_to_csv}.get(target.suffix)
    if lines_of is None:
        raise UsageError(f"--wrong writes samples; '{target.name}' ends neither in .jsonl nor in .csv")
    run = open_run(store, name)
    run.refuse_without_results()
    sealed = [] if with_sealed else list(public_store(run.store).withheld_tasks(run.id))
    run = run if with_sealed else run.as_others_see_it()
    n_rows = 0

    def counted() -> Iterator[Mapping[str, object]]:
        nonlocal n_rows
        for row in wrong_rows(run.store, run.id, by_subject=by_subject):
            n_rows += 1
            yield row

    with write_errors(target, "name another file with -o"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_whole(target, "backslashreplace") as file:
            file.writelines(lines_of(counted()))
    return target, n_rows, sealed


def write_run(run: Run, path: Path) -> None:
    """Write the whole run as a store, which `assaymark import` reads."""
    from assaymark.interop.one_file import write_run_file

    write_run_file(run.store, run.id, path)


def write_results(run: Run, path: Path) -> None:
    """Write lm-eval's results file."""
    with draft_folder() as folder:
        (written,) = run.write_lm_eval_files(folder)
        shutil.copyfile(written, path)


def write_parquet(run: Run, path: Path) -> None:
    """Write the run's estimates as Parquet."""
    from assaymark.interop import export_tables

    run.refuse_without_results()
    export_tables.write_parquet(path, export_tables.estimate_rows(run.store, run.id))


def write_model_index(run: Run, path: Path) -> None:
    """Write `model-index` of a Hugging Face model card."""
    from assaymark.interop.export_tables import model_index

    run.refuse_without_results()
    path.write_text(model_index(run.store, run.id), encoding="utf-8", newline="")


def _table(run: Run, path: Path, function: str) -> None:
    from assaymark.interop import export_tables

    run.refuse_without_results()
    text = getattr(export_tables, function)(export_tables.estimate_rows(run.store, run.id))
    path.write_text(text, encoding="utf-8", newline="")


write_csv = partial(_table, function="to_csv")
write_markdown = partial(_table, function="to_markdown")
write_latex = partial(_table, function="to_latex")
