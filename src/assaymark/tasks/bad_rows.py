"""Find the rows of a task that cannot be evaluated: faults for which a run stops, or skips the row if told to.

A row is at fault where its prompt, choices or answer cannot be made, its gold answer is none of its choices, or a
column has nothing that one of its templates needs.
"""

from collections.abc import Callable, Iterator, Mapping

from jinja2 import Environment, TemplateSyntaxError, meta, nodes

from assaymark.datasets import Rows
from assaymark.errors import MalformedSample
from assaymark.prompts.prompter import PromptFields
from assaymark.scoring.choices import gold_is_absent
from assaymark.tasks.answer_readings import READINGS
from assaymark.tasks.own_rows import is_rows_file
from assaymark.tasks.row_shapes import check_of, shape_of
from assaymark.tasks.task import Task

LONGEST = 200  # characters of a reason
Row = Mapping[str, object]


def fault_finder(task: Task, layout: PromptFields, rows: Rows) -> Callable[[Row], str | None]:
    """Return a function from a row to its fault, to be written after its location; None for a good row."""
    answers = READINGS.get(str(task.metadata.get("answers")))  # as the user named it, for a file of rows
    shape = shape_of(rows, answers) if is_rows_file(task.source) else None
    check = check_of(shape) if shape is not None else None
    needed = [name for name in needed_columns(task) if name in rows.features]

    def fault(row: Row) -> str | None:
        if any(isinstance(value, str) and "\0" in value for value in row.values()):
            return ": the character NUL, which is not allowed in texts"
        if check is not None and (problem := check(row)) is not None:
            return problem
        empty = [name for name in needed if row.get(name) is None]
        if empty:
            return f" has nothing in column {', '.join(map(repr, empty))}"
        return _fault_of_prompt(task, layout, row)

    return fault


def _fault_of_prompt(task: Task, layout: PromptFields, row: Row) -> str | None:
    try:
        text, target = layout.text(row), layout.target(row)
        if layout.images is not None:
            layout.images(row)
        if task.output_type != "multiple_choice" or layout.choices is None:
            return None
        choices = [str(choice) for choice in layout.choices(row)]
        if not choices:
            return ": it has no choices"
        if task.process_results is None and gold_is_absent(text if isinstance(text, int) else target, choices):
            return f": its answer {target!r:.40} is none of its {len(choices)} choices"
    except MalformedSample as error:
        return f": {' '.join(str(error).split())[:LONGEST]}"
    return None


def needed_columns(task: Task) -> list[str]:
    """Return the columns that a task's templates use wherever they are empty or not, in alphabetical order.

    A column that a template tests, or has a default for, may be empty. Functions are not looked into.
    """
    parts = [task.prompt.text, task.prompt.target, task.prompt.choice]
    listed = [each for part in parts for each in (part if isinstance(part, list) else [part]) if isinstance(each, str)]
    return sorted({name for part in listed for name in _names(part)})


def template_columns(part: str) -> set[str]:
    """Return the columns that a field of a task file uses: its own name, or the variables of a template."""
    if part.isidentifier():
        return {part}
    return set(meta.find_undeclared_variables(Environment().parse(part)))  # noqa: S701 - only parsed


def _names(part: str) -> Iterator[str]:
    if part.isidentifier():
        yield part
        return
    try:
        tree = Environment().parse(part)  # noqa: S701 - only parsed
    except TemplateSyntaxError:  # reported where it is compiled
        return
    optional: set[str] = set()
    for node in tree.find_all((nodes.If, nodes.CondExpr)):
        optional |= {name.name for name in node.test.find_all(nodes.Name)}  # type: ignore[attr-defined]
        optional |= {node.test.name} if isinstance(node.test, nodes.Name) else set()  # type: ignore[attr-defined]
    for filtered in tree.find_all(nodes.Filter):
        if filtered.name in {"default", "d"} and filtered.node is not None:
            optional |= {filtered.node.name} if isinstance(filtered.node, nodes.Name) else set()
    yield from meta.find_undeclared_variables(tree) - optional
