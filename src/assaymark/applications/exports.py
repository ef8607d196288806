"""Rows in other tools' exports: the row's own columns are kept, the tool's bookkeeping is dropped.

A record is recognised by columns that only its tool writes, and becomes the columns that `rows` reads. Bookkeeping (ids
of data sets and runs, times of changes) would make a different data set of the same rows at each export. Parts that
cannot be read, such as an attachment on the tool's server, are refused by name.

Forms: LangSmith's examples (JSON, JSON lines, CSV), Braintrust's `fetch` and UI export, Phoenix's /v1/datasets
examples and CSV, MLflow's `to_df`, Langfuse's dataset items, HoneyHive's datapoints, promptfoo's tests.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assaymark.errors import DataError
from assaymark.records import JsonValue

LISTS = ("tests", "data", "examples", "datapoints", "datapoint", "testcases", "rows", "items")
"""The field of an export that has the rows; Phoenix's are in `data.examples`."""
_MOST_COMBINATIONS = 10_000  # of one test's lists of variables
_GROUPS = {
    "inputs": ("inputs", "input"), "expected": ("outputs", "output", "expected", "reference"), "metadata": ("metadata",)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool's form. marks: columns by any of which it is recognised; besides: columns that it must have as well."""

    name: str
    marks: frozenset[str]
    besides: frozenset[str]
    bookkeeping: frozenset[str]


def _tool(name: str, marks: str, besides: str, bookkeeping: str) -> _Tool:
    own = frozenset(marks.split())
    return _Tool(name, own, frozenset(besides.split()), own | frozenset(bookkeeping.split()))


_TOOLS = (
    _tool("Braintrust", "_xact_id _pagination_key root_span_id", "input",
          "span_id span_parents span_attributes is_root origin project_id dataset_id org_id created comments "
          "audit_data facets classifications _async_scoring_state context metrics"),
    _tool("Langfuse", "datasetId datasetName sourceTraceId sourceObservationId source_trace_id source_observation_id",
          "input", "dataset_name status createdAt updatedAt created_at updated_at dataset_id projectId "
          "mediaReferences media_references validFrom"),
    _tool("HoneyHive", "linked_event linked_datasets linked_evals", "inputs",
          "_id created_at updated_at tenant project_id saved type history"),
    _tool("MLflow", "dataset_record_id created_time create_time last_update_time source_type", "inputs",
          "dataset_id dataset_name digest created_by last_updated_by source source_id profile"),
    _tool("LangSmith", "dataset_id source_run_id modified_at attachment_urls", "inputs",
          "created_at name attachments"),
    _tool("Phoenix", "updated_at node_id version_id", "input output", "created_at dataset_id"),
)  # fmt: skip


def plain_record(raw: Mapping[str, object]) -> dict[str, object] | None:
    """Return a record with the columns of a row; None for an archived record.

    Raises: ValueError with the unreadable part and a remedy.
    """
    for tool in _TOOLS:
        if tool.marks & raw.keys() and tool.besides <= raw.keys():
            break
    else:
        return dict(raw)
    if tool.name == "Langfuse" and str(raw.get("status") or "").upper() == "ARCHIVED":
        return None
    _refuse_files(tool.name, raw)
    row = {name: value for name, value in raw.items() if name not in tool.bookkeeping}
    if tool.name == "LangSmith":
        _take_split(row)
    elif tool.name == "MLflow":
        outputs = row.pop("outputs", None)  # former answers of the application, never the reference
        if outputs is not None and not (isinstance(outputs, float) and math.isnan(outputs)):
            row["metadata"] = {**_mapping_of(row.get("metadata")), "outputs": outputs}
        row["id"] = raw.get("dataset_record_id")
    elif tool.name == "HoneyHive":
        row["id"] = raw.get("id", raw.get("_id"))
        row["ground_truth"] = raw.get("ground_truth") or None
        if raw.get("history"):
            row["metadata"] = {**_mapping_of(raw.get("metadata")), "history": raw["history"]}
    return row


def _mapping_of(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}


def _take_split(row: dict[str, object]) -> None:
    """Move LangSmith's split from the metadata, where its examples have it, to a column."""
    metadata = row.get("metadata")
    if isinstance(metadata, Mapping) and "dataset_split" in metadata:
        row["metadata"] = {name: value for name, value in metadata.items() if name != "dataset_split"} or None
        row.setdefault("split", metadata["dataset_split"])


def _refuse_files(tool: str, raw: Mapping[str, object]) -> None:
    """Raise ValueError for a file on the tool's server, of which the row holds only a reference."""
    if any(raw.get(name) for name in ("attachments", "attachment_urls")):
        raise ValueError(f"it has attachments, which {tool} keeps; expected all that the target needs in its inputs")
    for column in ("inputs", "input"):
        for value in _leaves(raw.get(column)):
            if isinstance(value, Mapping):
                raise ValueError(  # noqa: TRY004 - the file is wrong
                    f"its {column} name the attachment '{value.get('filename', value.get('key', ''))!s:.60}', which "
                    f"{tool} keeps; expected its content"
                )
            if value.startswith("@@@langfuseMedia:"):
                raise ValueError(f"its {column} name a media file, which {tool} keeps; expected its content")


def _leaves(value: object) -> Iterator[str | Mapping[str, object]]:
    """Yield the texts in a value, and the mappings that refer to a file of Braintrust's."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        if str(value.get("type", "")).endswith("braintrust_attachment") or value.get("type") == "external_attachment":
            yield value
        else:
            for inner in value.values():
                yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)


def grouped_columns(header: Sequence[str]) -> dict[str, tuple[str, str]] | None:
    """Return the places of an exported table's columns: column -> (inputs, expected or metadata, inner name).

    Phoenix and LangSmith write a mapping's entries as columns of their own, `input_question`, `output_answer`,
    `metadata_topic` (or with a dot). Only a table with no other columns is read this way, because `input_language`
    may be a plain name.
    """
    by_column: dict[str, tuple[str, str]] = {}
    for column in header:
        for group, prefixes in _GROUPS.items():
            prefix = next(
                (p for p in prefixes if column.startswith((p + "_", p + ".")) and len(column) > len(p) + 1), None
            )
            if prefix is not None:
                by_column[column] = (group, column[len(prefix) + 1 :])
    others = (
        set(header) - by_column.keys() - {"id", "example_id", "split", "splits", "tags", "dataset_id", "created_at"}
    )
    groups = {group for group, _ in by_column.values()}
    return by_column if not others and {"inputs", "expected"} <= groups else None


def grouped_row(cells: Mapping[str, object], groups: Mapping[str, tuple[str, str]]) -> dict[str, object]:
    """Return a line of such a table as a record; empty cells are left out, as the mapping lacked them."""
    record: dict[str, object] = {name: value for name, value in cells.items() if name not in groups}
    grouped: dict[str, dict[str, object]] = {}
    for column, (group, name) in groups.items():
        if cells[column] != "":
            grouped.setdefault(group, {})[name] = cells[column]
    return {**record, **grouped}


def listed_rows(where: str, content: object) -> list[object] | None:
    """Return the rows of an exported document: a list, or a mapping with one; None where there is none.

    promptfoo's `defaultTest` is merged into its tests, and lists of variables become a test for each combination, as
    promptfoo does. Raises: DataError naming what of a document cannot be read.
    """
    if isinstance(content, Mapping) and isinstance(content.get("data"), Mapping):  # Phoenix's response
        content = content["data"]
    if isinstance(content, Mapping):
        if content.get("scenarios"):
            raise DataError(f"{where}: promptfoo's `scenarios` are not read; write their tests out under `tests`")
        tests = content.get("tests")
        named = tests if isinstance(tests, str) else next(
            (each for each in tests if isinstance(each, str)), None) if isinstance(tests, list) else None  # fmt: skip
        if named is not None:
            raise DataError(f"{where}: its tests are in another file, {named}; name that file as the rows")
        rows = next((content[name] for name in LISTS if _is_rows(content.get(name))), None)
        if rows is None:
            return None
        default = content.get("defaultTest")
        if default is not None and not isinstance(default, Mapping):
            raise DataError(f"{where}: its defaultTest is {default!r:.60}; expected a mapping in the same file")
        return [_merged(default or {}, row) for row in rows] if "tests" in content else list(rows)
    return list(content) if isinstance(content, list) else None


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _merged(default: Mapping[str, JsonValue], test: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a test of promptfoo merged with the defaults of all tests: its own values win, assertions are added."""
    merged = {**default, **test}
    for name in ("vars", "metadata", "options"):
        of_all, own = default.get(name), test.get(name)
        if isinstance(of_all, Mapping) and isinstance(own, Mapping):
            merged[name] = {**of_all, **own}
    of_all, own = default.get("assert"), test.get("assert")
    if isinstance(of_all, list) and isinstance(own, list):
        merged["assert"] = [*of_all, *own]
    return merged


def expanded_tests(test: Mapping[str, object]) -> list[dict[str, object]]:
    """Return a test of promptfoo for each combination of its lists of variables; itself where it has none.

    Raises: ValueError for variables that are in files, and for more than 10,000 combinations.
    """
    variables = test.get("vars")
    if not isinstance(variables, Mapping):
        return [dict(test)]
    for name, value in variables.items():
        for text in _leaves(value):
            if isinstance(text, str) and text.startswith("file://"):
                raise ValueError(f"its variable {name} is in a file, {text:.80}; expected its content")
    options = test.get("options")
    is_off = isinstance(options, Mapping) and options.get("disableVarExpansion")
    lists = {} if is_off else {name: value for name, value in variables.items() if isinstance(value, list) and value}
    if math.prod(len(value) for value in lists.values()) > _MOST_COMBINATIONS:
        raise ValueError(f"its lists of variables have more than {_MOST_COMBINATIONS:,} combinations")
    return [
        {**test, "vars": {**variables, **dict(zip(lists, values, strict=True))}}
        for values in itertools.product(*lists.values())
    ]
