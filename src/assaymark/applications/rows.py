"""Rows of a data set for applications: a target's inputs, and the reference for its answer.

Rows come from files that people write or other tools export, so `read_rows` checks the types in each row; errors name
the file, the row and the expected value.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from assaymark.applications.exports import (
    LISTS,
    expanded_tests,
    grouped_columns,
    grouped_row,
    listed_rows,
    plain_record,
)
from assaymark.datasets import DatasetSpec, load_dataset
from assaymark.datasets.csv_files import csv_lines, sniff_delimiter
from assaymark.datasets.files import READABLE, read_files
from assaymark.errors import AssaymarkError, DataError, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import JsonValue, content_hash
from assaymark.tasks.own_rows import EVALUATED, dataset_name


@dataclass(frozen=True, slots=True)
class Row:
    """One row, under uniform names.

    Tools name the same things differently: `inputs` or `input`, `expected`, `reference`, `outputs` (LangSmith's data
    sets), `expectations`, `expected_output`, `ground_truth` or `target`; see `read_rows`.
    """

    id: str  # the row's own, else its position from 0
    inputs: JsonValue  # as stored: a text, or a mapping of named inputs
    expected: JsonValue = None  # None: the row has no reference
    contexts: tuple[str, ...] | None = None  # retrieved documents, if the data set holds them
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    split: str | None = None
    input_column: str | None = None  # if the rows have no column of inputs and a single other one: its name

    @property
    def content(self) -> dict[str, JsonValue]:
        """The row as stored and hashed, without empty fields and without an id that is only its position."""
        values: dict[str, JsonValue] = {
            "inputs": self.inputs,
            "expected": self.expected,
            "contexts": None if self.contexts is None else list(self.contexts),
            "metadata": dict(self.metadata) or None,
            "tags": list(self.tags) or None,
            "split": self.split,
        }
        return {name: value for name, value in values.items() if value is not None}


INPUTS = ("inputs", "input", "vars")
EXPECTED = (
    "expected", "reference", "reference_outputs", "expectations", "expected_output", "expectedOutput", "ground_truth",
    "ground_truths", "target",
)  # fmt: skip
CONTEXTS = ("contexts", "retrieval_context", "retrieved_contexts")
_REFERENCE_OUTPUTS = ("outputs", "output")  # of LangSmith and Phoenix: the reference, unless another is there
_PLAIN_EXPECTED = ("answer", "expected_answer")  # only in rows without a column of inputs, as `question,answer`
_IDS = ("id", "example_id")
_PROMPTFOO = "__"  # promptfoo's own columns in CSV: __expected, __description, __metadata:NAME, ...
_SHOWN = 60  # characters of a wrong value that an error shows

Source = str | Path | Iterable[Mapping[str, object] | Row]


def read_rows(source: Source, data_dir: Path | None = None) -> list[Row]:
    """Return the rows of a file, a Hub data set or a list.

    Args:
        source: a file (JSON lines, JSON, CSV, TSV, Parquet, YAML), a Hub id (`org/name`, `org/name:config:split`), or
            mappings. Columns are recognised by the names of LangSmith, Braintrust, Phoenix, MLflow, Langfuse,
            HoneyHive, promptfoo, DeepEval and inspect; without a column of inputs all unrecognised columns are the
            inputs, by name.
        data_dir: local data, in which a Hub data set is looked for first.

    Raises: DataError naming file, row and what was expected; UsageError where there is no such file or data set.
    """
    if not isinstance(source, str | Path):
        if hasattr(source, "columns") and hasattr(source, "to_dict"):  # a table of pandas
            source = source.to_dict("records")
        if isinstance(source, Mapping) or not isinstance(source, Iterable):
            raise UsageError(
                f"the rows are {shown_value(source)}, of type {type(source).__name__}; expected a file, a Hub id, or a "
                "list of mappings"
            )
        return _checked("rows", [(f"row {at}", row) for at, row in enumerate(source, start=1)], in_cells=False)
    where, raw_rows = placed_rows(source, data_dir)
    return _checked(where, raw_rows, in_cells=_is_table(Path(source)))


def name_of_rows(source: Source) -> str:
    """Return the name of the task that these rows make: the file's stem, the data set's id, or `rows`."""
    if not isinstance(source, str | Path):
        return "rows"
    path = Path(source)
    suffix = next((end for end in sorted((*READABLE, ".yaml", ".yml"), key=len)[::-1] if path.name.endswith(end)), "")
    return path.name.removesuffix(suffix) if path.is_file() else str(source)


def rows_hash(rows: Sequence[Row]) -> str:
    """Return a hash of the rows' content, in order."""
    return content_hash([{"id": row.id, **row.content} for row in rows])


def placed_rows(source: str | Path, data_dir: Path | None = None) -> tuple[str, list[tuple[str, object]]]:
    """Return the source's name and its stored rows, each with its place in the source; cells of tables are texts.

    Raises: DataError for what cannot be read; UsageError where there is no such file or data set.
    """
    path = Path(source).expanduser()
    if path.suffix in {".yaml", ".yml"} and path.is_file():
        return str(path), _rows_of_document(str(path), load_yaml(path.read_bytes()))
    if path.is_file() and _is_table(path):
        return str(path), list(_lines_of(path))
    if path.is_file():
        document = _document_of(path)
        if document is not None:
            return str(path), _rows_of_document(str(path), document)
        file_rows = read_files([path])
        places = file_rows.places(range(len(file_rows)))
        return str(path), list(zip(places, file_rows, strict=True))
    name = dataset_name(str(source))
    if name is None:
        raise UsageError(
            f"no file '{source}'; expected rows: a file ({', '.join((*READABLE, '.yaml'))}), a Hub id (org/name), or a "
            "list of mappings"
        )
    loaded = load_dataset(DatasetSpec(name.path, name.config), data_dir)
    splits = list(loaded.splits)
    split = name.split or next((each for each in EVALUATED if each in splits), splits[0] if len(splits) == 1 else None)
    if split is None or split not in splits:
        raise UsageError(
            f"data set {name} has the splits {', '.join(splits)}; name one: "
            f"{name.path}:{name.config or 'default'}:SPLIT"
        )
    rows = loaded.splits[split]
    return f"{name.path} ({split})", [(f"row {at}", row) for at, row in enumerate(rows, start=1)]


def _is_table(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith((".csv", ".tsv"))


def _lines_of(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the rows of a CSV file with their lines. Cells are texts: a reference `4` or `007` stays one."""
    lines = csv_lines(path, sniff_delimiter(path))
    header = next(lines, None)
    if header is None:
        return
    groups = grouped_columns(header.cells)
    for line in lines:
        if len(line.cells) != len(header.cells):
            raise DataError(
                f"{path}, line {line.number} has {len(line.cells)} cells; expected {len(header.cells)}, as in the "
                "header"
            )
        cells = dict(zip(header.cells, line.cells, strict=True))
        yield f"line {line.number}", {**cells} if groups is None else grouped_row(cells, groups)


def _document_of(path: Path) -> Mapping[str, object] | None:
    """Return a JSON file's content if it is a mapping that holds the rows and more; None for a list, or JSON lines."""
    if path.suffix != ".json":
        return None
    try:
        content = parse_json(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):  # it may be JSON lines; `read_files` reports errors
        return None
    return content if isinstance(content, Mapping) else None


def _rows_of_document(where: str, content: object) -> list[tuple[str, object]]:
    """Return the rows of a document: a list, or a mapping with one (promptfoo's `tests`)."""
    rows = listed_rows(where, content)
    if rows is None:
        raise DataError(f"{where}: expected a list of rows, or a mapping with one under {', '.join(LISTS)}")
    return [(f"row {at}", row) for at, row in enumerate(rows, start=1)]


def _checked(where: str, raw_rows: Sequence[tuple[str, object]], *, in_cells: bool) -> list[Row]:
    """Return typed rows. in_cells: values of lists and mappings are JSON in the cells of a table."""
    if not raw_rows:
        raise DataError(f"{where}: there are no rows; expected at least one")
    rows: list[Row] = []
    places: dict[str, str] = {}
    for place, raw in raw_rows:
        if isinstance(raw, Row):
            made = [raw]
        elif isinstance(raw, Mapping):
            try:
                record = plain_record({str(name): value for name, value in raw.items()})
                tests = [] if record is None else expanded_tests(record)
                made = [_row(len(rows) + at, test, in_cells=in_cells) for at, test in enumerate(tests)]
            except ValueError as error:
                raise DataError(f"{where}, {place}: {error}") from None
        else:
            raise DataError(f"{where}, {place} is {shown_value(raw)}; expected a mapping of columns")
        for row in made:
            if row.id in places:
                raise DataError(
                    f"{where}, {place}: its id '{row.id:.{_SHOWN}}' is also that of {places[row.id]}; expected an id "
                    "of its own"
                )
            places[row.id] = place
            rows.append(row)
    if not rows:
        raise DataError(f"{where}: all of its {len(raw_rows):,} rows are archived; expected at least one that is not")
    return rows


def _row(at: int, raw: Mapping[str, object], *, in_cells: bool) -> Row:
    """Return one row. Raises: ValueError with its fault."""
    values = {name: _plain(name, value) for name, value in raw.items()}
    roles = {*INPUTS, *EXPECTED, *CONTEXTS, *_REFERENCE_OUTPUTS, "metadata", "tags", "split"}
    if in_cells:
        values = {name: _of_cell(value) if name in roles else value for name, value in values.items()}
    own_id = next((values.pop(name) for name in _IDS if values.get(name) not in (None, "")), None)
    metadata = _mapping("metadata", values.pop("metadata", None))
    tags = _tags(values.pop("tags", None))
    split = _split(values.pop("split", None))
    contexts = _contexts(values)
    marked = {name: values.pop(name) for name in list(values) if name.startswith(_PROMPTFOO)}
    if "assert" in values:
        marked["assert"] = values.pop("assert")
    expected, more = _promptfoo(marked)
    metadata = {**metadata, **more}
    # Alpaca's rows have their question in `instruction` and `input` together
    named = () if "instruction" in values and "inputs" not in values else [name for name in INPUTS if name in values]
    column = next((name for name in named if values[name] is not None), next(iter(named), None))
    names = (*EXPECTED, *(() if column is not None else _PLAIN_EXPECTED), *_REFERENCE_OUTPUTS)
    reference = next((name for name in names if values.get(name) is not None), None)
    if reference is not None:
        expected = values[reference]
    left = {name: value for name, value in values.items() if name not in names}
    extra = {name: value for name, value in values.items() if name in names and name != reference}
    if column is not None:
        inputs, extra = left.pop(column), {**left, **extra}
        input_column = None
    else:
        inputs, input_column = left, next(iter(left)) if len(left) == 1 else None
    metadata = {**{name: value for name, value in extra.items() if value is not None}, **metadata}
    if inputs in (None, "", {}):
        columns = ", ".join(raw) or "none"
        raise ValueError(f"it has no inputs; expected a column `inputs` or `input`, or others; its columns: {columns}")
    return Row(str(at if own_id is None else own_id), inputs, expected, contexts, metadata, tags, split, input_column)


def _plain(name: str, value: object) -> JsonValue:
    """Return a value as JSON holds it. Raises: ValueError for one that it cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None  # an empty cell of a table
    try:
        plain = parse_json(json.dumps(value, allow_nan=False, default=_encoded))
    except (TypeError, ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(
            f"column {name} is {shown_value(value)} ({reason}); expected a value that JSON can hold"
        ) from None
    return plain


def shown_value(value: object, longest: int = _SHOWN) -> str:
    """Return the beginning of a value's text; its type if its class, which is not ours, gives none."""
    try:
        return f"{value!r:.{longest}}"
    except Exception:  # noqa: BLE001 - whatever a class's __repr__ raises
        return f"a {type(value).__name__}"


def _encoded(value: object) -> object:
    """Return a JSON value for a table's value of another type: dates become texts, arrays lists, decimals numbers."""
    if isinstance(value, Decimal):
        return float(value)
    for method in ("isoformat", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"a {type(value).__name__}")


def _of_cell(value: JsonValue) -> JsonValue:
    """Return the list or mapping that a table's cell holds as JSON, else the cell's text; an empty one is None."""
    if not isinstance(value, str) or not value.strip():
        return value or None
    if value.strip()[0] in "{[":
        try:
            parsed: JsonValue = parse_json(value)
        except (ValueError, RecursionError, AssaymarkError):
            return value
        return parsed
    return value


def _mapping(name: str, value: JsonValue) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {value!r:.{_SHOWN}}; expected a mapping")  # noqa: TRY004 - the file is wrong
    return {str(key): each for key, each in value.items()}


def _tags(value: JsonValue) -> tuple[str, ...]:
    """Return tags: a list, a text with commas (a table's cell), or MLflow's mapping as `name=value`."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, dict):
        return tuple(f"{name}={each}" for name, each in value.items())
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(str(each) for each in value)
    raise ValueError(f"tags are {value!r:.{_SHOWN}}; expected a list of texts")


def _split(value: JsonValue) -> str | None:
    """Return the split; LangSmith's rows may be in several."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(map(str, value)) or None
    if value is None or isinstance(value, str):
        return value or None
    raise ValueError(f"split is {value!r:.{_SHOWN}}; expected a text")


def _contexts(values: dict[str, JsonValue]) -> tuple[str, ...] | None:
    """Take the contexts out of a row's values."""
    taken = [(name, values.pop(name)) for name in CONTEXTS if name in values]
    name, value = next(((name, value) for name, value in taken if value is not None), ("", None))
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(str(each) for each in value)
    raise ValueError(f"{name} is {value!r:.{_SHOWN}}; expected a list of texts")


def _promptfoo(marked: Mapping[str, JsonValue]) -> tuple[JsonValue, dict[str, JsonValue]]:
    """Return the expected value and the metadata of promptfoo's own columns: assertions, descriptions and the like.

    The only assertion of equality is the expected value as well.
    """
    metadata: dict[str, JsonValue] = {}
    expected: JsonValue = None
    cells: list[JsonValue] = []
    for name, value in marked.items():
        if value in (None, ""):
            continue
        if name.startswith("__metadata:"):
            metadata[name.removeprefix("__metadata:")] = value
        elif name.startswith("__expected") and isinstance(value, str):
            cells.append(value)
        else:
            metadata[name.removeprefix(_PROMPTFOO)] = value
    texts = [text for cell in cells if (text := _equal_text(str(cell))) is not None]
    if len(texts) == 1:
        expected = texts[0]
    if cells:
        metadata["assert"] = cells[0] if len(cells) == 1 else cells
    checks = marked.get("assert")
    if isinstance(checks, list):
        equal = [check.get("value") for check in checks if isinstance(check, dict) and check.get("type") == "equals"]
        expected = equal[0] if len(equal) == 1 else expected
    return expected, metadata


def _equal_text(cell: str) -> str | None:
    """Return the text of a table's assertion that the answer equals it; None for another assertion."""
    kind, colon, text = cell.partition(":")
    if kind == "equals" and colon:
        return text.strip()
    is_plain = not colon or " " in kind or not kind.partition("(")[0].replace("-", "").isalpha()
    return cell if is_plain and cell.strip() not in ("is-json", "contains-json") else None
