"""A CSV or JSONL file as a task: the columns say what is asked, and what was guessed is said.

Known shapes: `question,A,B,C,D,answer` (a choice by letter), `question,choices,answer`, `question,answer` and
`prompt,reference` (a written answer, compared exactly), `text` (its perplexity). Names may be upper or lower case.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalstone.datasets import Rows
from evalstone.datasets.files import READABLE, read_files
from evalstone.errors import DataError
from evalstone.tasks.dialect import task_from_spec
from evalstone.tasks.task import Task

_QUESTIONS = ("question", "prompt", "input", "query", "problem", "instruction")
_ANSWERS = ("answer", "reference", "target", "output", "label", "solution", "gold")
_LETTERS = "ABCDEFGHIJ"


def is_rows_file(path: Path) -> bool:
    """Return whether the file's name says that it holds rows."""
    return path.name.endswith(READABLE)


def task_from_rows(path: Path) -> tuple[Task, list[str]]:
    """Return the task that a file of rows makes, and what was guessed.

    Raises: DataError if the columns fit no known shape.
    """
    rows = read_files([path])
    if not rows:
        raise DataError(f"{path} has no rows")
    unfit = [name for name in rows.column_names if not name.strip().isidentifier()]
    columns = {name.strip().lower(): name for name in rows.column_names if name not in unfit}
    kind = "parquet" if path.suffix == ".parquet" else "csv" if {".csv", ".tsv"} & set(path.suffixes) else "json"
    shape, said = _shape(columns, rows, path)
    spec = {
        "task": path.name.split(".")[0],
        "dataset_path": kind,
        "dataset_kwargs": {"data_files": {"test": path.name}},
        "test_split": "test",
        "fewshot_split": "test",  # the sample itself is left out of its shots
        "metadata": {"version": "1.0"},
        **shape,
    }
    return task_from_spec(spec, path, "user"), [f"{path.name}: {said}"]


def _shape(columns: Mapping[str, str], rows: Rows, path: Path) -> tuple[dict[str, Any], str]:
    question = next((columns[name] for name in _QUESTIONS if name in columns), None)
    answer = next((columns[name] for name in _ANSWERS if name in columns), None)
    letters = [letter for letter in _LETTERS if letter.lower() in columns]
    if question and answer:
        asked = [question, answer, *(columns[letter.lower()] for letter in letters if len(letters) >= 2)]
        _refuse_empty(rows, asked, path)
        if len(letters) >= 2 and letters == list(_LETTERS[: len(letters)]):
            return _by_letter(question, answer, [columns[letter.lower()] for letter in letters], rows)
        if "choices" in columns and isinstance(rows[0][columns["choices"]], list):
            return _by_text(question, answer, columns["choices"], rows[0][answer])
        return _written(question, answer)
    if "text" in columns:
        spec = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": columns["text"]}
        return spec, f"column '{columns['text']}' is read as text whose perplexity is measured"
    raise DataError(
        f"{path}: its columns are {', '.join(rows.column_names)}; expected question,A,B,C,D,answer or "
        "question,choices,answer or question,answer or prompt,reference or text; else write a task file"
    )


def _refuse_empty(rows: Rows, columns: Sequence[str], path: Path) -> None:
    """Raise DataError for a row without a question, an answer or an option: it would be put as the word None."""
    for number, row in enumerate(rows, start=1):
        empty = next((column for column in columns if row[column] is None or row[column] != row[column]), None)
        if empty is not None:
            raise DataError(
                f"{path}: row {number} has nothing in column '{empty}'; fill it in, take the row out, "
                "or write a task file"
            )


def _by_letter(question: str, answer: str, options: list[str], rows: Rows) -> tuple[dict[str, Any], str]:
    letters = list(_LETTERS[: len(options)])
    lines = "\n".join(f"{letter}. {{{{{column}}}}}" for letter, column in zip(letters, options, strict=True))
    given = rows[answer]
    if all(isinstance(value, int) for value in given):
        from_one = min(given) >= 1 and max(given) == len(options)
        target = f"{{{{{answer} - 1}}}}" if from_one else answer
        means = f"a number from {int(from_one)}"
    elif all(isinstance(value, str) and value.strip().upper() in letters for value in given):
        target, means = f"{{{{{letters}.index({answer}.strip().upper())}}}}", "a letter"
    else:
        target, means = f"{{{{[{', '.join(options)}].index({answer})}}}}", "the text of a choice"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{{{{{question}}}}}\n{lines}\nAnswer:",
        "doc_to_choice": letters,
        "doc_to_target": target,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    return spec, f"multiple choice by letter: '{question}', choices {', '.join(options)}, '{answer}' is {means}"


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


def _written(question: str, answer: str) -> tuple[dict[str, Any], str]:
    spec = {
        "output_type": "generate_until",
        "doc_to_text": f"{{{{{question}}}}}",
        "doc_to_target": f"{{{{{answer}}}}}",
        "generation_kwargs": {"until": ["\n\n"], "do_sample": False, "temperature": 0.0},
        "filter_list": [{"name": "none", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
                "ignore_punctuation": True,
            }
        ],
    }
    if question.lower() == "prompt":
        said = f"'{question}' is put as it is, the written answer is compared with '{answer}'"
    else:
        spec["doc_to_text"] = f"Question: {{{{{question}}}}}\nAnswer:"
        said = f"'{question}' is put as a question, the written answer is compared with '{answer}'"
    return spec, said + ", looking past case and punctuation"
