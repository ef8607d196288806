"""Write the task file of a user's rows: with guessed settings, to be edited, or worded like another task.

A task like another one has its prompt to the byte. Its templates are kept, after assignments that give the columns of
the user's file the names that the templates use: `{% set question = stem %}`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from assaymark.drafts import write_whole
from assaymark.errors import DataError, UsageError
from assaymark.platforms import portable_name, relative_path
from assaymark.settings import data_folder
from assaymark.tasks.bad_rows import template_columns
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import (
    OwnData,
    dataset_name,
    find_dataset,
    is_rows_file,
    name_of_rows,
    rows_of_file,
    spec_of_dataset,
)
from assaymark.tasks.row_columns import find_columns
from assaymark.tasks.row_shapes import Shape
from assaymark.tasks.task import FunctionRef, Group, Selection, Task

_KEPT = (
    *("output_type", "description", "target_delimiter", "fewshot_delimiter", "gen_prefix", "generation_kwargs"),
    *("filter_list", "metric_list", "num_fewshot", "repeats"),
)
_PROMPT = ("doc_to_text", "doc_to_choice", "doc_to_target")
Spec = dict[str, object]
GUIDE = "https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/task_guide.md"


@dataclass(frozen=True, slots=True)
class NewTask:
    """The keys of a new task file, and of the file of a group that it joins."""

    task: Spec
    group: Spec | None  # None where it is like no group
    guess: str  # for people
    like: str = ""  # the task whose prompt and settings it has
    joined: str = ""  # the group that it joins


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The task to write, and where."""

    name: str = ""  # of the task; empty: after the source
    like: str = ""  # a task or group whose prompt and settings it gets
    fewshot: Path | None = None  # a file with the examples of the prompt
    output: Path | None = None  # None: NAME.yaml beside a file of rows, else in the current folder
    data_dir: str | Path | None = None
    skip_bad_rows: bool = False
    answers: str | None = None  # how answers name an option; None: guessed
    include_path: Sequence[str | Path] = ()  # folders with further tasks that it may be like


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """The files that were written."""

    task: str
    file: Path
    guess: str
    group: str | None = None
    group_file: Path | None = None

    def lines(self) -> list[str]:
        """Return lines on the guesses, the written files and the next steps."""
        written = [str(path) for path in (self.file, self.group_file) if path is not None]
        lines = [self.guess, f"wrote {' and '.join(written)}", f"check it: assaymark task check {self.file}"]
        if self.group_file is not None:
            lines.append(
                f"with its group, whose average has one subject more than the published one: --tasks {self.group_file}"
            )
        return lines


def init_task(source: str, options: InitOptions) -> WrittenTask:
    """Write the task file of a file of rows, a folder of them or a data set of the Hub, and its group's.

    Raises: UsageError for a file that exists already or cannot be written; as `new_task`.
    """
    path = Path(source).expanduser()
    folder = options.output.parent if options.output else path.parent if path.is_file() else Path()
    own = OwnData(data_folder(options.data_dir), options.skip_bad_rows, options.answers)
    catalog = Catalog.open([Path(each).expanduser() for each in options.include_path])
    new = new_task(source, own, folder, catalog, name=options.name, like=options.like, fewshot=options.fewshot)
    name = str(new.task["task"])
    file = options.output or folder / f"{portable_name(name)}.yaml"
    group_file = None if new.group is None else file.with_name(f"{portable_name(str(new.group['group']))}.yaml")
    for target in (file, group_file):
        if target is not None and target.exists():
            raise UsageError(f"{target} exists already; remove it, or write elsewhere with --output FILE")
    try:
        write_whole(file, file_text(new.task, _comments(source, new, file)))
        if new.group is not None and group_file is not None:
            write_whole(group_file, file_text(new.group, _group_comments(new)))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    return WrittenTask(name, file, new.guess, None if new.group is None else str(new.group["group"]), group_file)


def _comments(source: str, new: NewTask, file: Path) -> list[str]:
    same = new.task["fewshot_split"] == new.task["test_split"]
    return [
        f"Made of {source}: {new.guess}.",
        *([f"Prompt, examples and metrics are those of {new.like}."] if new.like else []),
        *(["Few-shot examples are drawn from the evaluated rows; others: data_files, fewshot_split"] if same else []),
        f"Check it: assaymark task check {file.name}",
        f"Run it:   assaymark run --model_args pretrained=DIR --tasks {file.name}",
        "To leave out rows that cannot be read, and count them, add: skip_bad_rows: true",
        f"All keys: {GUIDE}",
    ]


def _group_comments(new: NewTask) -> list[str]:
    return [
        f"{new.joined} and {new.task['task']} in one average, with one subject more than the published benchmark.",
        f"Only the value of {new.joined}, which is shown below it, is comparable with published ones.",
    ]


def new_task(
    source: str, own: OwnData, folder: Path, catalog: Catalog, *, name: str = "", like: str = "", fewshot: Path | None
) -> NewTask:
    """Return a task file for a file of rows, a folder of them, or a data set of the Hub.

    Args:
        own: how it is read.
        folder: where the task file will be, for the paths in it.
        name: of the task; empty: after the source.
        like: a task or group whose prompt and settings it gets; with a group it joins a new group of that and itself.
        fewshot: a file with the examples of the prompt, in the columns of the source; None: they are drawn from it.

    Raises: DataError for rows that cannot be read; UsageError for a name that is taken, and where `like` cannot be
        applied; UnknownName for an unknown one.
    """
    spec, shape = _guessed(source, own, folder, fewshot)
    spec["task"] = name or spec["task"]
    if any(entry.name == spec["task"] for entry in catalog.entries()):
        raise UsageError(f"there is a task called '{spec['task']}' already; give yours another name with --name")
    if not like:
        return NewTask(spec, None, shape.guess)
    selection = catalog.select([like])
    model = selection.tasks[0]
    adapted = _like(model, spec, shape, like)
    group = next((each for each in selection.groups if each.name in selection.names), None)
    if group is None:
        return NewTask(adapted, None, shape.guess, model.name)
    return NewTask(adapted, _joined(group, selection, adapted), shape.guess, model.name, group.name)


def _guessed(source: str, own: OwnData, folder: Path, fewshot: Path | None) -> tuple[Spec, Shape]:
    path = Path(source).expanduser()
    if is_rows_file(path):
        if not path.is_file():
            raise DataError(f"no file '{source}' in {Path.cwd()}")
        rows = rows_of_file(path.resolve(), own)
        files = {"test": _relative(path, folder), **({"dev": _relative(fewshot, folder)} if fewshot else {})}
        return {
            "task": name_of_rows(path),
            "dataset_path": rows.builder,
            "dataset_kwargs": {"data_files": files, **rows.options},
            "test_split": "test",
            "fewshot_split": "dev" if fewshot else "test",
            **({"skip_bad_rows": True} if own.skip_bad_rows else {}),
            **({"rename_columns": rows.renamed} if rows.renamed else {}),
            **rows.shape.spec,
            "metadata": {"version": "1.0"},
        }, rows.shape
    name = dataset_name(source)
    if name is None:
        raise UsageError(
            f"'{source}' is neither a file of rows (.csv, .tsv, .jsonl, .json, .parquet) nor a folder of them nor a "
            "Hub id such as org/name"
        )
    if fewshot is not None:
        raise UsageError("--fewshot is for files; a data set's examples come from its split (edit fewshot_split)")
    dataset = find_dataset(name, own)
    skip = {"skip_bad_rows": True} if own.skip_bad_rows else {}
    return {**spec_of_dataset(dataset), **skip}, dataset.shape


def _relative(path: Path, folder: Path) -> str:
    if not path.expanduser().is_file():
        raise DataError(f"no file '{path}' in {Path.cwd()}")
    return relative_path(path.expanduser().resolve(), folder.resolve())


# ------------------------------------------------------------------------------------- like another task


def _like(model: Task, spec: Spec, shape: Shape, like: str) -> Spec:
    """Return the keys of a task with the prompt and settings of `model` on the rows of `spec`."""
    _refuse_unlike(model, spec, shape, like)
    wanted = find_columns({column.lower(): column for column in _columns(model)})
    if wanted is None or set(_columns(model)) - set(wanted.needed):
        columns = ", ".join(_columns(model))
        raise UsageError(
            f"--like {like}: its prompt uses the columns {columns}; expected a question, choices and answer"
        )
    names = {wanted.question: shape.question}
    if wanted.choices is not None:
        names[wanted.choices] = _as_choices(model, wanted.choices, shape)
    if model.output_type != "multiple_choice":
        names[wanted.answer] = _expression(shape.target)
    kept = {key: model.spec[key] for key in _KEPT if model.spec.get(key) is not None}
    adapted = {**{key: spec[key] for key in spec if key not in {*shape.spec, "metadata"}}, **kept}
    for key in _PROMPT:
        if model.spec.get(key) is not None:
            adapted[key] = _renamed(model.spec[key], names)
    if model.output_type == "multiple_choice":
        adapted["doc_to_target"] = shape.target
    if "description" in adapted:
        adapted["description"] = _about(model, str(adapted["description"]), str(spec["task"]))
    if isinstance(model.fewshot.sampler, str) and model.fewshot.sampler != "default":
        adapted["fewshot_config"] = {"sampler": model.fewshot.sampler}
    return {**adapted, "metadata": {"version": "1.0", "like": model.name}}


def _refuse_unlike(model: Task, spec: Spec, shape: Shape, like: str) -> None:
    """Raise UsageError for a task whose prompt other rows cannot have."""
    if any(_functions(model.spec)) or model.python_class is not None or model.prompt.turns is not None:
        raise UsageError(f"--like {like}: {model.name} makes its prompts or scores by Python functions, not templates")
    if model.fewshot.samples is not None:
        raise UsageError(f"--like {like}: {model.name} has its examples in its file, worded for its own columns")
    if model.output_type != spec["output_type"]:
        raise UsageError(f"--like {like}: it is {model.output_type}, and these rows are {spec['output_type']}")
    if model.output_type not in {"multiple_choice", "generate_until"} or shape.columns is None:
        raise UsageError(f"--like {like}: only questions with choices or an answer can be worded like another task")
    letters, own = model.spec.get("doc_to_choice"), shape.columns.options
    if isinstance(letters, list) and own and len(own) != len(letters):
        raise UsageError(f"--like {like}: its questions have {len(letters)} options, and these have {len(own)}")


def _functions(value: object) -> Iterator[FunctionRef]:
    if isinstance(value, FunctionRef):
        yield value
    elif isinstance(value, Mapping):
        yield from (function for part in value.values() for function in _functions(part))
    elif isinstance(value, list | tuple):
        yield from (function for part in value for function in _functions(part))


def _columns(model: Task) -> list[str]:
    """Return the columns that a task's templates use."""
    parts = [model.spec.get(key) for key in _PROMPT]
    return sorted({name for part in parts if isinstance(part, str) for name in template_columns(part)})


def _as_choices(model: Task, column: str, shape: Shape) -> str:
    """Return the expression of a question's options in the form that a task's templates use them."""
    used = " ".join(str(model.spec.get(key)) for key in _PROMPT)
    if f"{column}.text" not in used and f"{column}['text']" not in used:
        return shape.options
    return f"{{'text': {shape.options}, 'label': 'ABCDEFGHIJ' | list}}"


def _renamed(part: object, names: Mapping[str, str]) -> object:
    """Return a template after assignments of the names it uses; a column's name alone becomes its expression."""
    if not isinstance(part, str):
        return part
    if part in names:
        return part if names[part] == part else f"{{{{{names[part]}}}}}"
    used = {name: names[name] for name in sorted(template_columns(part)) if names.get(name, name) != name}
    assigned = "".join(f"{{% set {name} = {value} %}}" for name, value in used.items())
    return f"{assigned}{part}"


def _expression(target: str) -> str:
    """Return the expression of a template that is one, or of a column's name."""
    return target[2:-2] if target.startswith("{{") and target.endswith("}}") else target


def _about(model: Task, description: str, name: str) -> str:
    """Return a description with the name of the new task where it names the subject of `model`."""
    own = {str(model.dataset.name or ""), model.alias or "", model.name}
    for subject in sorted({each.replace("_", " ") for each in own if each}, key=len, reverse=True):
        if subject in description:
            return description.replace(subject, name.replace("_", " "))
    return description


def _joined(group: Group, selection: Selection, task: Spec) -> Spec:
    """Return a group of a known one and the new task: the known one's own average stays as published."""
    metrics = [
        {"metric": metric.metric, "aggregation": "mean", "weight_by_size": metric.weight_by_size}
        for metric in group.metrics or next((each.metrics for each in selection.groups if each.metrics), ())
    ]
    return {
        "group": f"{group.name}_plus_{task['task']}",
        "group_alias": f"{group.alias} + {task['task']} (own subject added)",
        "task": [group.name, task["task"]],
        "aggregate_metric_list": metrics,
        "metadata": {"version": group.version or "1"},
    }


# -------------------------------------------------------------------------------------------- the text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    is_quoted = "\n" in value or ("'" in value and '"' not in value)
    style = "|" if "\n" in value.strip("\n") else '"' if is_quoted else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def file_text(spec: Spec, comments: list[str]) -> str:
    """Return a task file's text: comment lines, then its keys."""
    head = "".join(f"# {line}\n" for line in comments)
    return head + yaml.dump(spec, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
