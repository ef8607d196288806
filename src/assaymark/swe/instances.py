"""Instances and predictions in SWE-bench's fields, read from JSON lines, JSON or Parquet.

Rows come from elsewhere: each is parsed into a bounded record before anything is done with it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from assaymark.datasets.files import read_files
from assaymark.drafts import write_whole
from assaymark.errors import DataError, UsageError, write_errors
from assaymark.limits.nesting import parse_json

LONGEST_PATCH = 8 << 20  # characters; the longest gold patch of SWE-bench has less than one million
MOST_TESTS = 200_000
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ID = re.compile(r"[\w][\w.+-]{0,199}")
_REPOSITORY = re.compile(r"\w[\w.-]{0,99}/[\w.-]{1,100}")
_PATCHED = re.compile(r"^diff --git a/.* b/(.*)$", re.MULTILINE)


def text_sha(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Instance:
    """One task: an issue, the commit before its solution, the solution, and the tests that decide.

    The fields are SWE-bench's; the lists of tests are tuples of test ids here, and JSON in files.
    """

    instance_id: str
    repo: str  # owner/name
    base_commit: str
    patch: str  # the gold patch, without tests
    test_patch: str
    problem_statement: str
    FAIL_TO_PASS: tuple[str, ...]
    PASS_TO_PASS: tuple[str, ...]
    hints_text: str = ""
    created_at: str = ""
    version: str = ""
    environment_setup_commit: str = ""

    @property
    def sha(self) -> str:
        """SHA-256, in hex, of everything that decides a grading."""
        names = ("repo", "base_commit", "patch", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS")
        return text_sha(json.dumps([getattr(self, name) for name in names]))

    def row(self) -> dict[str, str]:
        """Return the row of a file of instances, in SWE-bench's form."""
        tests = {name: json.dumps(list(getattr(self, name))) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        return asdict(self) | tests


@dataclass(frozen=True, slots=True)
class Prediction:
    """A patch that a model or an agent wrote for an instance; empty where it wrote none."""

    instance_id: str
    model_name_or_path: str
    model_patch: str

    @property
    def patch_sha(self) -> str:
        """SHA-256 of the patch, in hex."""
        return text_sha(self.model_patch)


def is_empty(prediction: Prediction) -> bool:
    """Return whether a prediction has no patch."""
    return not prediction.model_patch.strip()


def paths_of_patch(patch: str) -> list[str]:
    """Return the paths that the headers of a git diff name, as they are after it, in order and once each."""
    return list(dict.fromkeys(_PATCHED.findall(patch)))


def read_instances(path: Path) -> list[Instance]:
    """Return the instances of a file (JSON lines, JSON, CSV or Parquet) with SWE-bench's fields.

    Raises: DataError with the row and the field.
    """
    rows = read_files([path])
    made = [_instance(row, f"{path}, row {number}") for number, row in enumerate(rows, start=1)]
    if not made:
        raise DataError(
            f"{path} has no instances; expected rows with SWE-bench's fields: `assaymark swe init` writes some"
        )
    _refuse_repeats([each.instance_id for each in made], path)
    return made


def read_predictions(path: Path) -> list[Prediction]:
    """Return the predictions of a file: JSON lines, a JSON list, or an object of them by instance id.

    Raises: DataError with the row and the field; also where an instance has several predictions.
    """
    made = [_prediction(row, place) for place, row in _prediction_rows(path)]
    if not made:
        raise DataError(
            f"{path} has no predictions; expected rows with instance_id, model_name_or_path and model_patch"
        )
    _refuse_repeats([each.instance_id for each in made], path)
    models = sorted({each.model_name_or_path for each in made})
    if len(models) > 1:
        raise DataError(f"{path} has predictions of {', '.join(models[:4])}; expected those of one model in each file")
    return made


def check_suffix(path: Path) -> None:
    """Refuse a file that `write_rows` would write and nothing could read back.

    Raises: UsageError with the option that names it, -o.
    """
    if path.suffix.lower() not in {".jsonl", ".json"}:
        raise UsageError(f"-o is {path}; expected a file that ends in .jsonl (JSON lines) or .json (a list)")


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows, whole or not at all: a JSON list where the file ends in .json, else JSON lines.

    Raises: DataError where the file cannot be written.
    """
    lines = [_as_json(row) for row in rows]
    is_list = path.suffix.lower() == ".json"
    text = "[\n" + ",\n".join(lines) + "\n]\n" if is_list else "".join(f"{line}\n" for line in lines)
    with write_errors(path, "name another file", kind=DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)


def _as_json(row: Mapping[str, object]) -> str:
    text = json.dumps(row, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate, which readers of UTF-8 refuse: escaped they read it
        return json.dumps(row)
    return text


def _prediction_rows(path: Path) -> list[tuple[str, object]]:
    if path.suffix.lower() == ".json" and path.is_file():
        try:
            content: object = parse_json(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError):
            content = None  # lines all the same, or no JSON: `read_files` reads it or says what is wrong
        if isinstance(content, dict):
            if "instance_id" in content:  # one prediction
                return [(f"{path}, row 1", content)]
            return [  # by instance id, as SWE-agent writes them
                (f"{path}, {name!r:.80}", {"instance_id": name, **row} if isinstance(row, dict) else row)
                for name, row in content.items()
            ]
    return [(f"{path}, row {number}", row) for number, row in enumerate(read_files([path]), start=1)]


def _instance(row: Mapping[str, object], place: str) -> Instance:
    base = _text(row, "base_commit", place)
    if not _COMMIT.fullmatch(base):
        raise DataError(f"{place}: base_commit is {base!r:.60}; expected a whole commit id of 40 hexadecimal digits")
    repository = _text(row, "repo", place)
    if not _REPOSITORY.fullmatch(repository):
        raise DataError(f"{place}: repo is {repository!r:.80}; expected owner/name")
    return Instance(
        instance_id=_identifier(row, place),
        repo=repository,
        base_commit=base,
        patch=_text(row, "patch", place),
        test_patch=_text(row, "test_patch", place),
        problem_statement=_text(row, "problem_statement", place),
        FAIL_TO_PASS=_tests(row, "FAIL_TO_PASS", place),
        PASS_TO_PASS=_tests(row, "PASS_TO_PASS", place),
        **{
            name: str(row.get(name) or "")
            for name in ("hints_text", "created_at", "version", "environment_setup_commit")
        },
    )


def _prediction(row: object, place: str) -> Prediction:
    if not isinstance(row, Mapping):
        raise DataError(f"{place} is {row!r:.60}; expected an object with instance_id and model_patch")
    patch = row.get("model_patch")
    if "model_patch" not in row or not isinstance(patch, str | None):
        raise DataError(f"{place}: model_patch is {patch!r:.60}; expected the text of a diff, or null for none")
    if len(patch or "") > LONGEST_PATCH:
        raise DataError(f"{place}: model_patch has {len(patch or ''):,} characters; expected at most {LONGEST_PATCH:,}")
    model = _text(row, "model_name_or_path", place)
    if not model.strip() or len(model) > 300 or not model.isprintable():
        raise DataError(f"{place}: model_name_or_path is {model!r:.60}; expected a name of up to 300 characters")
    return Prediction(_identifier(row, place), model, patch or "")


def _identifier(row: Mapping[str, object], place: str) -> str:
    name = _text(row, "instance_id", place)
    if not _ID.fullmatch(name):
        raise DataError(f"{place}: instance_id is {name!r:.80}; expected letters, digits, '_', '-', '.' and '+'")
    return name


def _text(row: Mapping[str, object], name: str, place: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DataError(f"{place}: {name} is {value!r:.60}; expected a text")
    if len(value) > LONGEST_PATCH:
        raise DataError(f"{place}: {name} has {len(value):,} characters; expected at most {LONGEST_PATCH:,}")
    return value


def _tests(row: Mapping[str, object], name: str, place: str) -> tuple[str, ...]:
    """Return a list of test ids, which SWE-bench's rows hold as JSON."""
    value = row.get(name)
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise DataError(f"{place}: {name} is no JSON ({error}); expected a list of test ids") from error
    if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value) or len(value) > MOST_TESTS:
        raise DataError(f"{place}: {name} is {value!r:.60}; expected a list of at most {MOST_TESTS:,} test ids")
    return tuple(value)


def _refuse_repeats(names: Sequence[str], path: Path) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{path} has {name} twice; expected each instance once (another attempt: another file)")
        seen.add(name)
