"""A stored run in the form that others read, chosen by how the file's name ends."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalstone.api.run import Run
from evalstone.api.stored import open_run
from evalstone.drafts import draft_folder, whole_file, write_whole
from evalstone.errors import StoreError, UsageError

FORMATS = {
    ".evalstone": "the whole run in one file, which `evalstone import` reads",
    ".json": "lm-eval's results file",
    ".csv": "its estimates",
    ".parquet": "its estimates",
    ".md": "its estimates as a Markdown table",
    ".tex": "its estimates as a LaTeX table",
    ".yaml": "`model-index` for a Hugging Face model card",
}


def export_run(store: str | None, name: str, path: str | Path) -> list[Path]:
    """Write a stored run to a file, or into a folder (lm-eval's results and samples files). Returns what was written.

    Raises: UsageError for an ending that stands for no format, and for a run without results; UnknownName for a run
        that is not there; StoreError where the place cannot be written.
    """
    place = Path(path)
    if place.suffix not in FORMATS and (place.suffix or place.is_file()):
        known = ", ".join(FORMATS)
        raise UsageError(f"'{place.name}' ends in no known format; expected {known}, or a folder for lm-eval's files")
    run = open_run(store, name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return _write(run, place)
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error}; name another place with -o") from error


def export_wrong(store: str | None, name: str, path: str | Path, *, by_subject: bool = False) -> tuple[Path, int]:
    """Write the samples that a run answered wrongly or not at all, as .jsonl or .csv; return file and number.

    Args:
        store: where the run is.
        name: its id, the beginning of one, or `last`.
        path: the file.
        by_subject: the tasks with the lowest values first.

    Raises: UsageError for another ending; UnknownName; StoreError where the place cannot be written.
    """
    from evalstone.interop.export_samples import wrong_rows, wrong_to_csv, wrong_to_jsonl

    place = Path(path)
    lines_of = {".jsonl": wrong_to_jsonl, ".csv": wrong_to_csv}.get(place.suffix)
    if lines_of is None:
        raise UsageError(f"--wrong writes samples; '{place.name}' ends neither in .jsonl nor in .csv")
    run = open_run(store, name)
    run.refuse_without_results()
    n_rows = 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal n_rows
        for row in wrong_rows(run.store, run.id, by_subject=by_subject):
            n_rows += 1
            yield row

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(place) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(lines_of(counted()))
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error}; name another place with -o") from error
    return place, n_rows


def _write(run: Run, place: Path) -> list[Path]:
    from evalstone.interop import export_tables as tables

    if place.suffix not in FORMATS:
        return run.write_lm_eval_files(place, log_samples=True)
    if place.suffix == ".evalstone":
        from evalstone.interop.one_file import write_run_file

        return [write_run_file(run.store, run.id, place)]
    if place.suffix == ".json":
        with draft_folder() as folder:
            (written,) = run.write_lm_eval_files(folder)
            with whole_file(place) as draft:
                shutil.copyfile(written, draft)
        return [place]
    run.refuse_without_results()
    rows = tables.estimate_rows(run.store, run.id)
    if place.suffix == ".parquet":
        with whole_file(place) as draft:
            tables.write_parquet(draft, rows)
        return [place]
    if place.suffix == ".yaml":
        text = tables.model_index(run.store, run.id)
    else:
        text = {".csv": tables.to_csv, ".md": tables.to_markdown, ".tex": tables.to_latex}[place.suffix](rows)
    write_whole(place, text)
    return [place]
