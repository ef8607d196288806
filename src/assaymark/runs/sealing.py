"""Seal a task: its rows are withheld from others, and a commitment to them is published; later, reveal the rows.

The owner keeps the secret in a file (`NAME.seal.json`); the store has only the key that draws the preview. Without
these commands, a task file's `private: true` seals its data set in each store in which it is run, without a commitment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from assaymark.drafts import open_whole, whole_file, write_whole
from assaymark.errors import DataError, UsageError, write_errors
from assaymark.platforms import portable_name
from assaymark.records import Sample
from assaymark.runs.prepare import split_names
from assaymark.settings import data_folder
from assaymark.store import Store
from assaymark.store.sealed_tasks import SealedTask, is_in_preview
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.commitments import Commitment, Secret, commit, open_rows, read_commitment, read_secret
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import Sealing

SEAL, COMMITMENT, REVEALED = ".seal.json", ".commitment.json", ".revealed.jsonl"


@dataclass(frozen=True, slots=True)
class SealOptions:
    """The options of a seal. None: as the task's file says, else none."""

    public_fraction: float | None = None
    valid_until: str | None = None
    version: str = ""
    output: Path | None = None  # folder of the two files
    data_dir: str | None = None
    include_path: Sequence[str] = ()
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed task."""

    commitment: Commitment
    secret_file: Path
    commitment_file: Path
    n_public: int

    json_keys = (
        "task=commitment.task version=commitment.version root=commitment.root n_rows n_public "
        "public_fraction=commitment.public_fraction valid_until=commitment.valid_until seal=secret_file "
        "commitment=commitment_file"
    )

    @property
    def n_rows(self) -> int:
        """The number of all rows."""
        return len(self.commitment.rows)


@dataclass(frozen=True, slots=True)
class Revealed:
    """Rows that were revealed."""

    task: str
    file: Path
    n_rows: int
    is_whole: bool


def seal_task(name: str, options: SealOptions, store: str | None) -> Sealed:
    """Write the secret and the commitment of a task's rows, and withhold them in the store, earlier runs included.

    Repeated with the same options it completes what a killed call left, or seals the task in another store.

    Raises: UsageError where the files are of other rows or options, the store has another commitment to these rows, or
        more than one task is named; UnknownName for an unknown one; DataError for rows that cannot be read; StoreError
        if a file or the store cannot be written.
    """
    bound = _bound(name, options)
    samples = sorted(bound.samples(), key=lambda sample: sample.index)
    wanted = _secret(bound, options)
    folder = options.output or Path()
    stem = portable_name(wanted.task) + (f"-{options.version}" if options.version else "")
    secret_file, commitment_file = folder / f"{stem}{SEAL}", folder / f"{stem}{COMMITMENT}"
    secret = _kept(secret_file, wanted) if secret_file.exists() else wanted
    commitment = commit(secret, [sample.row for sample in samples])
    if commitment_file.exists() and read_commitment(commitment_file) != commitment:
        raise UsageError(f"{commitment_file} is of another seal; name another folder with -o")
    with Store.open(store) as opened:
        known = opened.seals.of_dataset(secret.dataset_hash)
        if known is not None and known.commitment not in {None, commitment.root}:
            raise UsageError(
                f"the rows of {secret.task} are sealed in the store since {known.sealed_at[:10]} (commitment "
                f"{known.commitment}), and a second preview would show other rows; use that seal's file"
            )
        with write_errors("files", "name another folder with -o", to=folder):
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(secret_file) as draft:  # first: without it the rows could not be revealed
                draft.touch(mode=0o600)
                draft.chmod(0o600)
                draft.write_text(secret.to_text(), encoding="utf-8", newline="")
            secret_file.chmod(0o600)
            if known is None or known.commitment is None:
                opened.seals.put(_sealed_task(secret, commitment))
            opened.seals.learn_rows(secret.dataset_hash, samples, all_rows=True)
            write_whole(commitment_file, commitment.to_text(), "backslashreplace")
    return Sealed(commitment, secret_file, commitment_file, sum(_is_public(secret, sample) for sample in samples))


def _secret(bound: BoundTask, options: SealOptions) -> Secret:
    """Return a new secret with the settings of the options, or else of the task's file."""
    declared = bound.task.sealing or Sealing()
    fraction, until = options.public_fraction, options.valid_until
    return Secret(
        bound.plan.name,
        bound.plan.dataset_hash,
        version=options.version or bound.plan.version,
        public_fraction=declared.public_fraction if fraction is None else fraction,
        valid_until=_date(declared.valid_until if until is None else until),
        sealed_at=_now(),
    )


def _kept(file: Path, wanted: Secret) -> Secret:
    """Return the secret of an earlier call. Raises: UsageError where it is of other rows or options."""
    kept = read_secret(file)
    if kept != replace(wanted, secret=kept.secret, sealed_at=kept.sealed_at, format=kept.format):
        raise UsageError(
            f"{file} is a seal of other rows or options, and a commitment is made once; for other rows give another "
            "--version, or name another folder with -o"
        )
    return kept


def reveal_task(
    name: str, seal: Path, options: SealOptions, store: str | None, *, preview_only: bool = False
) -> Revealed:
    """Write a sealed task's rows with their salts; unless it is the preview alone, the store shows them from now on.

    Raises: as `seal_task`; DataError where the rows are no longer those that were sealed.
    """
    secret = read_secret(seal)
    samples = sorted(_bound(name, options).samples(), key=lambda sample: sample.index)
    commitment = commit(secret, [sample.row for sample in samples])
    sealed = next((known for known in sealed_tasks_of(store) if known.commitment == commitment.root), None)
    if sealed is None:  # compared by content, so another line end or delimiter of the file does not matter
        raise DataError(
            f"{name}: the store has no seal of these {len(samples):,} rows by {seal}; expected the rows that were "
            "sealed, and the store in which they were"
        )
    positions = [at for at, sample in enumerate(samples) if not preview_only or _is_public(secret, sample)]
    file = (options.output or seal.parent) / seal.name.replace(SEAL, ".preview.jsonl" if preview_only else REVEALED)
    with write_errors("files", "name another folder with -o", to=file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        with open_whole(file) as lines:
            for row in open_rows(secret, [samples[at].row for at in positions], positions):
                lines.write(row.to_line())
    if not preview_only:
        with Store.open(store) as opened:
            opened.seals.put(replace(sealed, revealed_at=_now()))
    return Revealed(secret.task, file, len(positions), not preview_only)


def sealed_tasks_of(store: str | None) -> list[SealedTask]:
    """Return the sealed tasks of a store; none where there is no store."""
    if not Store.exists(store):
        return []
    with Store.open_to_read(store) as opened:
        return opened.seals.all()


def _bound(name: str, options: SealOptions) -> BoundTask:
    """Return the one task of a name with all of its rows. Raises: UsageError for several."""
    folder = data_folder(options.data_dir)
    own = OwnData(folder, answers=options.answers)
    include = [Path(each).expanduser() for each in options.include_path]
    tasks = Catalog.open(include).select(split_names(name), own=own).tasks
    if len(tasks) != 1:
        raise UsageError(f"{name} is {len(tasks)} tasks; a seal is of one: name them one after the other")
    return bind(tasks[0], BindOptions(data_dir=folder, num_fewshot=0))


def _sealed_task(secret: Secret, commitment: Commitment) -> SealedTask:
    return SealedTask(
        secret.task,
        secret.dataset_hash,
        key=secret.preview_key,
        public_fraction=secret.public_fraction,
        commitment=commitment.root,
        version=secret.version,
        valid_until=secret.valid_until,
        sealed_at=secret.sealed_at,
    )


def _is_public(secret: Secret, sample: Sample) -> bool:
    return is_in_preview(secret.preview_key, sample.sha256, secret.public_fraction)


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise UsageError(f"valid_until is '{text:.40}'; expected a date such as 2027-01-31") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
