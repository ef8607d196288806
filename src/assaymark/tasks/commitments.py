"""Commitments to the rows of a task: published now, they show later that the rows were these and no others.

Each row has a commitment of its own, SHA-256 over a salt and its canonical JSON, so that single rows can be opened. The
salts follow from one secret of the owner by HMAC, and a salt that is opened says nothing of the others. Without the
salt nobody can test whether a row that they have is among those that were committed to, as a plain hash would allow.
The root is one hash over all of it; it fits into a paper.

    salt(i) = HMAC-SHA256(secret, "row" 00 i)           i: position of the row, in decimal
    commitment(i) = SHA-256(00 salt(i) row)              row: canonical JSON (sorted keys, no spaces, unescaped, UTF-8)
    root = SHA-256(01 canonical JSON of {"format", "n_rows", "public_fraction", "rows": [commitment(0), ...],
                                         "sealed_at", "task", "valid_until", "version"})

The root of the first format was without `format`, `public_fraction`, `sealed_at` and `valid_until`, so these could be
changed in a file; its files are read, and a reader is told so (`Commitment.uncovered`).

Files are parsed into bounded records: whoever verifies has them from somebody else.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue, canonical_json

COMMITMENT_FORMAT = "assaymark commitment "  # and its number
SECRET_FORMAT = "assaymark seal "  # noqa: S105 - the format's name, and its number
FORMATS = (1, 2)
NEWEST = FORMATS[-1]
NOT_IN_FIRST = ("public_fraction", "valid_until", "sealed_at")
LARGEST_FILE = 1 << 30  # bytes of a commitment, or of opened rows
LARGEST_SECRET = 1 << 16
LARGEST_LINE = 64 << 20
MOST_DEPTH = 100
HEX_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Secret:
    """The owner's secret. Whoever has it can open every row and say which rows the preview has."""

    task: str
    dataset_hash: str
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    version: str = ""
    public_fraction: float = 0.0
    valid_until: str = ""
    sealed_at: str = ""
    format: int = NEWEST  # of the commitment that was made with it

    @property
    def preview_key(self) -> str:
        """The key that draws the preview; it opens no row."""
        return hmac.new(bytes.fromhex(self.secret), b"preview", hashlib.sha256).hexdigest()

    def salt(self, index: int) -> str:
        """Return the salt of a row by its position."""
        return hmac.new(bytes.fromhex(self.secret), b"row\0" + str(index).encode(), hashlib.sha256).hexdigest()

    def to_text(self) -> str:
        """Return the content of the owner's file."""
        content = {**asdict(self), "format": f"{SECRET_FORMAT}{self.format}"}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Commitment:
    """The published commitment to sealed rows."""

    task: str
    version: str
    rows: tuple[str, ...]  # the commitment of each, in hexadecimal
    public_fraction: float = 0.0
    valid_until: str = ""
    sealed_at: str = ""
    format: int = NEWEST

    @property
    def root(self) -> str:
        """The hash of all rows and the other published values: `sha256:<hex>`."""
        content: dict[str, JsonValue] = {
            "task": self.task, "version": self.version, "n_rows": len(self.rows), "rows": list(self.rows),
        }  # fmt: skip
        if self.format > 1:
            content |= {name: getattr(self, name) for name in NOT_IN_FIRST}
            content["format"] = f"{COMMITMENT_FORMAT}{self.format}"
        return "sha256:" + hashlib.sha256(b"\x01" + _bytes(canonical_json(content))).hexdigest()

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The fields that the root does not cover, so that whoever has the file may have changed them."""
        return NOT_IN_FIRST if self.format == 1 else ()

    def to_text(self) -> str:
        """Return the content of the published file."""
        content = {"format": "", "root": self.root, "n_rows": len(self.rows), **asdict(self)}
        content["format"] = f"{COMMITMENT_FORMAT}{self.format}"
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class OpenedRow:
    """A revealed row, with the values from which its commitment was computed."""

    index: int
    salt: str
    row: JsonValue

    @property
    def commitment(self) -> str:
        """The row's commitment, computed again."""
        return hashlib.sha256(b"\x00" + bytes.fromhex(self.salt) + _bytes(canonical_json(self.row))).hexdigest()

    def to_line(self) -> str:
        """Return the row's line of a file."""
        return json.dumps({"index": self.index, "salt": self.salt, "row": self.row}, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Verified:
    """How many rows were opened, and which of them are not those that were committed to."""

    n_opened: int
    n_rows: int
    wrong: tuple[int, ...]  # positions
    uncovered: tuple[str, ...] = ()  # fields of the commitment that its root does not cover

    @property
    def is_sound(self) -> bool:
        """Whether every opened row is the one that was committed to."""
        return not self.wrong


def commit(secret: Secret, rows: Sequence[JsonValue]) -> Commitment:
    """Return the commitment to rows, in their order.

    Raises: DataError for a row that JSON cannot carry unchanged, so that nobody could verify it.
    """
    return Commitment(
        secret.task,
        secret.version,
        tuple(row.commitment for row in open_rows(secret, rows)),
        secret.public_fraction,
        secret.valid_until,
        secret.sealed_at,
        secret.format,
    )


def open_rows(secret: Secret, rows: Iterable[JsonValue], positions: Iterable[int] | None = None) -> Iterator[OpenedRow]:
    """Yield rows with their salts. positions: of each row among all; None: the rows are all.

    Raises: DataError for a row that JSON cannot carry unchanged.
    """
    for index, row in enumerate(rows) if positions is None else zip(positions, rows, strict=True):
        text = canonical_json(row)
        plain = json.loads(text)
        if canonical_json(plain) != text:
            raise DataError(f"row {index} of {secret.task} cannot be written as JSON and read again without a change; "
                            "expected texts, numbers and lists of them")  # fmt: skip
        yield OpenedRow(index, secret.salt(index), plain)


def verify_opened(commitment: Commitment, opened: Iterable[OpenedRow]) -> Verified:
    """Return which of the opened rows are those that were committed to.

    Raises: DataError for a position that the commitment does not have, or that is there twice, and for no row at all.
    """
    seen: set[int] = set()
    wrong: list[int] = []
    for row in opened:
        if row.index in seen or not 0 <= row.index < len(commitment.rows):
            what = "is there twice" if row.index in seen else f"is none of {len(commitment.rows):,} committed rows"
            raise DataError(f"row {row.index} {what}; expected each of 0 to {len(commitment.rows) - 1} at most once")
        seen.add(row.index)
        if not hmac.compare_digest(row.commitment, commitment.rows[row.index]):
            wrong.append(row.index)
    if not seen:
        raise DataError("no row was revealed, so nothing is verified; expected the lines that `task reveal` writes")
    return Verified(len(seen), len(commitment.rows), tuple(wrong), commitment.uncovered)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --------------------------------------------------------------------------------------------- files


def read_commitment(path: Path) -> Commitment:
    """Return a published commitment. Raises: UsageError where there is no file; DataError for another content."""
    content, form = _content(path, LARGEST_FILE, COMMITMENT_FORMAT)
    rows = content.get("rows")
    if not isinstance(rows, list) or not all(_is_hex(row) for row in rows):
        raise DataError(f"{path}: rows are not a list of SHA-256 hashes; expected the file that `task seal` wrote")
    read = Commitment(_text(path, content, "task"), _text(path, content, "version"), tuple(rows),
                      _fraction(path, content), _text(path, content, "valid_until"),
                      _text(path, content, "sealed_at"), form)  # fmt: skip
    if content.get("root") != read.root:
        what = "rows" if form == 1 else f"rows, task, version, {', '.join(NOT_IN_FIRST)}"
        raise DataError(f"{path}: its root is not the hash of its {what}; expected {read.root}: the file was changed")
    return read


def read_secret(path: Path) -> Secret:
    """Return an owner's secret. Raises: UsageError where there is no file; DataError for another content."""
    content, form = _content(path, LARGEST_SECRET, SECRET_FORMAT)
    if not _is_hex(content.get("secret")):
        raise DataError(f"{path}: secret is not {HEX_DIGITS} hexadecimal digits; expected the file of `task seal`")
    task, dataset_hash, secret, version, valid_until, sealed_at = (
        _text(path, content, name) for name in ("task", "dataset_hash", "secret", "version", "valid_until", "sealed_at")
    )
    return Secret(task, dataset_hash, secret, version, _fraction(path, content), valid_until, sealed_at, form)


def read_opened(path: Path) -> Iterator[OpenedRow]:
    """Yield the rows of a file of revealed rows.

    Raises: UsageError where there is no file; DataError for a line that is none, naming it.
    """
    _check_file(path, LARGEST_FILE)
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LARGEST_LINE), b""), start=1):
            if not line.strip():
                continue
            try:
                value = parse_json(line.decode("utf-8", "surrogatepass"), MOST_DEPTH)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not JSON ({error}); expected index, salt and row") from error
            row = value if isinstance(value, dict) else {}
            index = row.get("index")
            if type(index) is not int or not _is_hex(row.get("salt")) or "row" not in row:
                raise DataError(f"{path}, line {number}: expected index, salt and row, as `task reveal` writes them")
            yield OpenedRow(index, row["salt"], row["row"])


def _check_file(path: Path, most: int) -> None:
    if not path.is_file():
        raise UsageError(f"there is no file {path}; expected one that `assaymark task seal` or `task reveal` wrote")
    if path.stat().st_size > most:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes; expected at most {most:,}")


def _content(path: Path, most: int, form: str) -> tuple[dict[str, object], int]:
    """Return a commitment file's content and the number of its format."""
    _check_file(path, most)
    try:
        content = parse_json(path.read_text(encoding="utf-8"), MOST_DEPTH)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}); expected the file that `task seal` wrote") from error
    stated = content.get("format") if isinstance(content, dict) else None
    number = next((number for number in FORMATS if stated == f"{form}{number}"), None)
    if number is None or not isinstance(content, dict):
        raise DataError(f"{path}: its format is not '{form}{NEWEST}'; expected a file that `assaymark task seal` wrote")
    return content, number


def _text(path: Path, content: dict[str, object], name: str) -> str:
    value = content.get(name, "")
    if not isinstance(value, str) or len(value) > 1000:
        raise DataError(f"{path}: {name} is {value!r:.80}; expected a text")
    return value


def _fraction(path: Path, content: dict[str, object]) -> float:
    value = content.get("public_fraction", 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise DataError(f"{path}: public_fraction is {value!r:.80}; expected a share from 0 to below 1")
    return float(value)


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and len(value) == HEX_DIGITS and all(digit in "0123456789abcdef" for digit in value)
