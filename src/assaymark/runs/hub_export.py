"""Export of a run's results into a model's folder, as files that the Hub's leaderboards read, beside those in it.

A file that is there is replaced only where that was asked for. Uploading is the user's command.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assaymark.documents.blocks import Block, Bullets, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING
from assaymark.drafts import open_whole
from assaymark.errors import StoreError, UsageError
from assaymark.interop.hub_files import FOLDER, LARGEST_FILE, ModelFiles, StatedResult, read_model_files
from assaymark.interop.hub_results import HubResult, NoHubResult, entry_text, hub_results
from assaymark.limits.characters import is_hub_id
from assaymark.runs.run import Run


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of an export."""

    path: Path
    result: HubResult
    text: str
    before: str | None  # what is in the file now

    json_keys = (
        "path dataset=result.benchmark.dataset task_id=result.benchmark.id task=result.task value=result.shown "
        "unit=result.benchmark.unit notes=result.notes date=result.date revision=result.revision state"
    )

    @property
    def state(self) -> str:
        """What is done with it, in a word."""
        return "new" if self.before is None else "unchanged" if self.before == self.text else "replaced"


@dataclass(frozen=True, slots=True)
class HubExport:
    """A run's files for a model's folder, with what is there, and the tasks of which there are none."""

    folder: Path
    model: str
    files: tuple[HubFile, ...]
    refused: tuple[NoHubResult, ...]
    there: tuple[StatedResult, ...]
    faults: tuple[str, ...]  # of the files that are there, and of the run
    is_written: bool

    json_keys = "files refused in_folder=there faults written=is_written upload~"

    @property
    def upload(self) -> str:
        """The command that opens a pull request with the files; empty where none was written."""
        names = [file.path.name for file in self.files if file.state != "unchanged"]
        if not names or not self.is_written:
            return ""
        repository = self.model if is_hub_id(self.model) and not Path(self.model).exists() else "ORG/MODEL"
        include = [word for name in names for word in ("--include", name)]
        return shlex.join(["hf", "upload", repository, str(self.folder / FOLDER), FOLDER, *include, "--create-pr"])

    def document(self) -> Document:
        """Return the entries beside those in the folder, and what was refused."""
        return document(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        own = {file.path.name: file.state for file in self.files}
        rows: list[tuple[str, ...]] = [
            (file.path.name, f"{file.result.benchmark.dataset} {file.result.benchmark.id}", file.result.notes,
             f"{file.result.shown:g}", file.result.benchmark.unit, file.result.date or NOTHING,
             f"this run, {file.state}")
            for file in self.files
        ]  # fmt: skip
        rows += [
            (Path(each.file).name, f"{each.dataset} {each.task_id}", each.notes, f"{each.value:g}", NOTHING,
             each.date or NOTHING, "folder, before" if own.get(Path(each.file).name) else "folder")
            for each in self.there
            if each.file.startswith(FOLDER) and own.get(Path(each.file).name) != "unchanged"
        ]  # fmt: skip
        yield table(("file", "benchmark", "notes", "value", "unit", "date", "from"), rows, n_text=7)
        yield Bullets(tuple(f"{each.task}: not written: {each.why}" for each in self.refused), "warning")
        yield Bullets(tuple(self.faults), "warning")
        if not self.is_written:
            yield Paragraph("nothing was written", "facts")


def export_to_hub(
    run: Run, folder: Path, *, source: str | None = None, check: bool = False, replace: bool = False
) -> HubExport:
    """Write a run's results into `.eval_results` of a model's folder, a file for each benchmark and variant.

    Args:
        folder: of the model.
        source: the address that the entries name as their source.
        check: write nothing.
        replace: replace files that are there.

    Raises: UsageError if there is no result that a leaderboard takes, a link is there, or a file that says something
        else; StoreError if a file cannot be written.
    """
    if source is not None and not re.fullmatch(r"https?://[!-~]{1,2000}", source):
        raise UsageError(f"--source is {source!r:.80}; expected an address that begins with https://")
    run.refuse_without_results()
    results, refused = hub_results(run.store, run.id)
    if not results:
        raise UsageError(f"run {run.short_id} has no result for a leaderboard of the Hub: {_listed(refused)}")
    place = folder / FOLDER
    known = read_model_files(folder) if folder.is_dir() else None
    _refuse_links(folder, place, results)
    files = [_file(place, result, entry_text(result, source)) for result in results]
    export = HubExport(
        folder, run.row.model, tuple(files), tuple(refused), known.results if known else (),
        (*(known.faults if known else ()), *_warnings(run, results, known)), is_written=not check,
    )  # fmt: skip
    if check:
        return export
    changed = [file.path.name for file in files if file.state == "replaced"]
    if changed and not replace:
        raise UsageError(
            f"{place} has {', '.join(changed)} with another content; --check shows both, --replace writes this run's"
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file in files:
            _write(file)
    except FileExistsError as error:
        raise UsageError(f"{error.filename} was written by another export meanwhile; --check shows both") from error
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error}; name another folder with -o") from error
    return export


def _write(file: HubFile) -> None:
    """Write a file; one that was not there is claimed first, so that of two exports at once one fails."""
    if file.before is None:
        file.path.open("x").close()
    try:
        with open_whole(file.path) as opened:
            opened.write(file.text)
    except OSError:
        if file.before is None:
            file.path.unlink(missing_ok=True)
        raise


def _warnings(run: Run, results: Sequence[HubResult], known: ModelFiles | None) -> Iterator[str]:
    """Yield what speaks against uploading: rows that may be others, training on them, values in another unit."""
    yield from (
        f"{each.task}: its rows passed through process_docs of your own file, and must be {each.benchmark.title}"
        for each in results
        if each.has_own_rows
    )
    yield from (
        f"{each.task}: no commit is known of its rows, as of a local copy's, and they must be {each.benchmark.title}"
        for each in results
        if each.is_local
    )
    yield from (str(mark["line"]) for mark in run.row.extra.get("contaminated", ()))
    units = {(each.benchmark.dataset, each.benchmark.id): each.benchmark.unit for each in results}
    for stated in known.results if known is not None else ():
        unit = units.get((stated.dataset, stated.task_id))
        if unit is not None and stated.value > 0.0 and (stated.value > 1.0) != (unit == "per cent"):
            yield (
                f"{stated.file} has {stated.value:g} for {stated.dataset} {stated.task_id}, which seems no {unit}; "
                "look at the leaderboard before you upload"
            )


def _file(place: Path, result: HubResult, text: str) -> HubFile:
    path = place / result.file
    try:
        is_there = path.is_file()
        is_read = is_there and path.stat().st_size <= LARGEST_FILE  # a larger one says something else
        before = path.read_text(encoding="utf-8", errors="replace") if is_read else "" if is_there else None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    return HubFile(path, result, text, before)


def _refuse_links(folder: Path, place: Path, results: Sequence[HubResult]) -> None:
    """Raise UsageError where a file would be read or written through a link, or is none."""
    for path in (place, *(place / result.file for result in results)):
        if path.is_symlink() or (path.exists() and path != place and not path.is_file()):
            raise UsageError(f"{path} is no file of {folder}; remove it, or name another folder with -o")
    if place.exists() and not place.is_dir():
        raise UsageError(f"{place} is no folder; remove it, or name another folder with -o")


def _listed(refused: Sequence[NoHubResult]) -> str:
    lines = [f"{each.task}: {each.why}" for each in refused[:5]]
    return " | ".join(lines) + (f" | and {len(refused) - 5} more" if len(refused) > 5 else "")
