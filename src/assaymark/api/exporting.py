"""Export of a stored run, in a format selected by the suffix of the file's name."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assaymark.api.run import Run
from assaymark.api.stored import open_run
from assaymark.drafts import draft_folder, whole_file, write_whole
from assaymark.errors import StoreError, UsageError

FORMATS = {
    ".assaymark": "the whole run in one file, which `assaymark import` reads",
    ".json": "lm-eval's results file",
    ".csv": "its estimates",
    ".parquet": "its estimates",
    ".md": "its estimates as a Markdown table",
    ".tex": "its estimates as a LaTeX table",
    ".yaml": "`model-index` for a Hugging Face model card",
}


def export_run(store: str | None, name: str, path: str | Path) -> list[Path]:
    """Write a stored run to a file, or into a folder (lm-eval's results and samples files); return the files.

    Raises: UsageError for an unknown suffix, and for a run without results; UnknownName for an unknown run; StoreError
        if the file cannot be written.
    """
    target = Path(path)
    if target.suffix not in FORMATS and (target.suffix or target.is_file()):
        known = ", ".join(FORMATS)
        raise UsageError(f"'{target.name}' has no known suffix; expected {known}, or a folder for lm-eval's files")
    run = open_run(store, name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return _write(run, target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error}; name another file or folder with -o") from error


def export_wrong(store: str | None, name: str, path: str | Path, *, by_subject: bool = False) -> tuple[Path, int]:
    """Write the samples that a run answered wrongly or not at all, as .jsonl or .csv; return the file and their number.

    Args:
        store: the database of the run.
        name: the run's id, the beginning of one, or `last`.
        path: the file.
        by_subject: whether tasks are sorted by their values, the lowest first.

    Raises: UsageError for another suffix; UnknownName for an unknown run; StoreError if the file cannot be written.
    """
    from assaymark.interop.export_samples import wrong_rows, wrong_to_csv, wrong_to_jsonl

    target = Path(path)
    lines_of = {".jsonl": wrong_to_jsonl, ".csv": wrong_to_csv}.get(target.suffix)
    if lines_of is None:
        raise UsageError(f"--wrong writes samples; '{target.name}' ends neither in .jsonl nor in .csv")
    run = open_run(store, name)
    run.refuse_without_results()
    n_rows = 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal n_rows
        for row in wrong_rows(run.store, run.id, by_subject=by_subject):
            n_rows += 1
            yield row

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(lines_of(counted()))
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error}; name another file with -o") from error
    return target, n_rows


def _write(run: Run, target: Path) -> list[Path]:
    from assaymark.interop import export_tables as tables

    if target.suffix not in FORMATS:
        return run.write_lm_eval_files(target, log_samples=True)
    if target.suffix == ".assaymark":
        from assaymark.interop.one_file import write_run_file

        return [write_run_file(run.store, run.id, target)]
    if target.suffix == ".json":
        with draft_folder() as folder:
            (written,) = run.write_lm_eval_files(folder)
            with whole_file(target) as draft:
                shutil.copyfile(written, draft)
        return [target]
    run.refuse_without_results()
    rows = tables.estimate_rows(run.store, run.id)
    if target.suffix == ".parquet":
        with whole_file(target) as draft:
            tables.write_parquet(draft, rows)
        return [target]
    if target.suffix == ".yaml":
        text = tables.model_index(run.store, run.id)
    else:
        text = {".csv": tables.to_csv, ".md": tables.to_markdown, ".tex": tables.to_latex}[target.suffix](rows)
    write_whole(target, text)
    return [target]
