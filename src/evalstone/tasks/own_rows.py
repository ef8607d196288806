"""Make a task of a CSV or JSONL file: its columns determine the task, and what was guessed is reported.

Known columns: `question,A,B,C,D,answer` and `prompt,option_a,option_b,gold` (a choice by letter),
`question,choices,answer`, `question,answer` and `prompt,reference` (a generated answer, compared exactly), `text` (its
perplexity). Names may be upper or lower case (`row_columns`); CSV may be separated by `,` `;` tab or `|`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalstone.datasets import Rows
from evalstone.datasets.csv_files import sniff_delimiter
from evalstone.datasets.files import READABLE, read_files
from evalstone.errors import DataError
from evalstone.scoring.metrics import metric_item
from evalstone.tasks.dialect import task_from_spec
from evalstone.tasks.row_columns import (
    LETTERS,
    QuestionColumns,
    answer_kind,
    find_columns,
    refuse_faulty_lines,
    refuse_faulty_rows,
)
from evalstone.tasks.task import Task


def is_rows_file(path: Path) -> bool:
    """Return whether a file, by the end of its name, contains rows."""
    return path.name.endswith(READABLE)


def task_from_rows(path: Path) -> tuple[Task, list[str]]:
    """Return the task made of a file of rows, and notes on what was guessed.

    Raises: DataError if the columns are none of the known sets.
    """
    is_csv = bool({".csv", ".tsv"} & set(path.suffixes))
    kind = "parquet" if path.suffix == ".parquet" else "csv" if is_csv else "json"
    options: dict[str, Any] = {}
    locations: list[str] = []
    if is_csv and path.stat().st_size:
        delimiter = sniff_delimiter(path)
        locations = refuse_faulty_lines(path, delimiter)
        options = {"delimiter": delimiter} if delimiter != "," else {}
    rows = read_files([path], options)
    if not rows:
        raise DataError(f"{path} has no rows")
    unfit = [name for name in rows.column_names if not name.strip().isidentifier()]
    columns = {name.strip().lower(): name for name in rows.column_names if name not in unfit}
    shape, guess, used = _shape(columns, rows, path, locations)
    spec = {
        "task": path.name.split(".")[0],
        "dataset_path": kind,
        "dataset_kwargs": {"data_files": {"test": path.name}, **options},
        "test_split": "test",
        "fewshot_split": "test",  # the sample itself is excluded from its shots
        "metadata": {"version": "1.0"},
        **shape,
    }
    notes = [f"{path.name}: {guess}"]
    shown = {"category", "subject", "topic"}  # they group the samples on their page
    if ignored := [name for name in rows.column_names if name not in used and name.strip().lower() not in shown]:
        notes[0] += f"; ignored columns: {', '.join(ignored)}"
    return task_from_spec(spec, path, "user"), notes


def shape_of_rows(rows: Rows, path: Path) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return the keys of a task file for rows, a note on what was guessed, and the columns that are used.

    `path` names the rows in messages.
    Raises: DataError if the columns are none of the known sets.
    """
    columns = {name.strip().lower(): name for name in rows.column_names if name.strip().isidentifier()}
    return _shape(columns, rows, path, ())


def _shape(
    columns: Mapping[str, str], rows: Rows, path: Path, locations: Sequence[str]
) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return the keys of the task file, a note on what was guessed, and the columns that are used."""
    found = find_columns(columns)
    if found:
        is_list = found.choices is not None and isinstance(rows[0][found.choices], list)
        if found.choices is not None and isinstance(rows[0][found.choices], Mapping):
            return *_by_lettered(found.question, found.answer, found.choices, rows, path), found.used
        found = found if is_list else QuestionColumns(found.question, found.answer, found.options)
        refuse_faulty_rows(path, rows, found, locations)
        if found.options:
            return *_by_letter(found, rows), found.used
        if found.choices:
            return *_by_text(found.question, found.answer, found.choices, rows[0][found.answer]), found.used
        return *_generated(found.question, found.answer), found.used
    if "text" in columns:
        text = columns["text"]
        spec = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": text}
        return spec, f"column '{text}' is read as text whose perplexity is measured", (text,)
    raise DataError(
        f"{path}: its columns are {', '.join(rows.column_names)}; expected question,A,B,C,D,answer or "
        "prompt,option_a,option_b,gold or question,choices,answer or question,answer or prompt,reference or text; else "
        "write a task file"
    )


def _by_letter(columns: QuestionColumns, rows: Rows) -> tuple[dict[str, Any], str]:
    question, answer, options = columns.question, columns.answer, columns.options
    letters = list(LETTERS[: len(options)])
    lines = "\n".join(f"{letter}. {{{{{column}}}}}" for letter, column in zip(letters, options, strict=True))
    kind = answer_kind(rows[answer], len(options))
    if kind.startswith("number"):
        first = int(kind == "number from 1")
        is_text = not all(isinstance(value, int) for value in rows[answer])
        number = f"({answer} | trim | int)" if is_text else answer
        target = f"{{{{{number} - 1}}}}" if first else f"{{{{{number}}}}}" if is_text else answer
        means = f"a {kind}"
    elif kind == "letter":
        target, means = f"{{{{{letters}.index({answer}.strip().upper())}}}}", "a letter"
    else:
        target, means = f"{{{{[{', '.join(options)}].index({answer})}}}}", "the text of a choice"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{{{{{question}}}}}\n{lines}\nAnswer:",
        "doc_to_choice": letters,
        "doc_to_target": target,
        "metric_list": [metric_item("acc")],
    }
    return spec, f"multiple choice by letter: '{question}', choices {', '.join(options)}, '{answer}' is {means}"


def _by_lettered(question: str, answer: str, choices: str, rows: Rows, path: Path) -> tuple[dict[str, Any], str]:
    """Return the keys for options in one column, by letter: {"A": ..., "B": ...}."""
    letters = [letter for letter in LETTERS if rows[0][choices].get(letter) is not None]
    faults = [at for at, row in enumerate(rows, 1) if str(row[answer]).strip().upper() not in letters]
    if len(letters) < 2 or faults:
        where = f"row {faults[0]}: '{rows[faults[0] - 1][answer]!s:.40}' in column '{answer}'" if faults else choices
        raise DataError(f"{path}: {where} is no letter of the options in column '{choices}'; write a task file")
    lines = "\n".join(f"{letter}. {{{{{choices}.{letter}}}}}" for letter in letters)
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{{{{{question}}}}}\n{lines}\nAnswer:",
        "doc_to_choice": letters,
        "doc_to_target": f"{{{{{letters}.index({answer}.strip().upper())}}}}",
        "metric_list": [metric_item("acc")],
    }
    return spec, f"multiple choice by letter: '{question}', the options in '{choices}', '{answer}' is a letter"


def _by_text(question: str, answer: str, choices: str, first: Any) -> tuple[dict[str, Any], str]:
    target = answer if isinstance(first, int) else f"{{{{{choices}.index({answer})}}}}"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"Question: {{{{{question}}}}}\nAnswer:",
        "doc_to_choice": choices,
        "doc_to_target": target,
    }
    means = "a number from 0" if isinstance(first, int) else "the text of a choice"
    return spec, f"multiple choice by text: '{question}', '{choices}', '{answer}' is {means}"


def _generated(question: str, answer: str) -> tuple[dict[str, Any], str]:
    spec = {
        "output_type": "generate_until",
        "doc_to_text": f"{{{{{question}}}}}",
        "doc_to_target": f"{{{{{answer}}}}}",
        "generation_kwargs": {"until": ["\n\n"], "do_sample": False, "temperature": 0.0},
        "filter_list": [{"name": "none", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}],
        "metric_list": [
            {**metric_item("exact_match"), "ignore_case": True, "ignore_punctuation": True},
        ],
    }
    if question.lower() == "prompt":
        guess = f"'{question}' is the prompt as it is, the generated answer is compared with '{answer}'"
    else:
        spec["doc_to_text"] = f"Question: {{{{{question}}}}}\nAnswer:"
        guess = f"'{question}' is a question, the generated answer is compared with '{answer}'"
    return spec, guess + ", ignoring case and punctuation"
