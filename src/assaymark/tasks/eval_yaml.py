"""Benchmarks of the Hub: a data set with an `eval.yaml` that says how its rows are asked and scored.

Its tasks become tasks as our own files describe them: `field_spec` and the solvers become a template of messages
(`solver_prompts`), the scorers metrics, the epochs repeats. So everything that knows task files knows benchmarks too.
The file comes from others: its keys are all known here or an error, and what it asks for that is not done here is
refused by its name.

Source: inspect-ai 0.3.285, _eval/task/hf.py, whose meaning the file has.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

from assaymark.datasets.card_files import files_of_split
from assaymark.datasets.load import file_of_hub
from assaymark.errors import DataError, UnknownName
from assaymark.limits.regular_files import content_of
from assaymark.limits.yaml_documents import load_yaml
from assaymark.registry import nearest
from assaymark.scoring.inspect_scorers import ANSWER_PATTERNS, LOCATIONS, PANELS, REDUCER
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.solver_prompts import (
    RowExpressions,
    SolverPrompt,
    Step,
    expression_of,
    grading_options,
    solver_prompt,
)
from assaymark.tasks.task import Task

FILE = "eval.yaml"
PREFIX = "hub:"
FRAMEWORK = "inspect-ai"
MOST_BYTES = 2**20  # of an eval.yaml
MAX_TOKENS = 2048  # of an answer where the file sets none: inspect's own default for models that need a limit
SHUFFLED_BY = 0  # the seed of shuffled options
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_ID = re.compile(r"\w[\w.+-]*")
_LITERAL = "literal:"

_TEXT, _TRUTH, _WHOLE, _NUMBER, _TEXTS = "a text", "true or false", "a whole number", "a number", "a list of texts"
_TEXT_OR_TEXTS = "a text or a list of texts"
_TEMPLATE = {"template": _TEXT}
SOLVERS: Mapping[str, Mapping[str, str]] = {
    "prompt_template": _TEMPLATE,
    "system_message": _TEMPLATE,
    "user_message": _TEMPLATE,
    "chain_of_thought": _TEMPLATE,
    "self_critique": {"critique_template": _TEXT, "completion_template": _TEXT},
    "multiple_choice": {**_TEMPLATE, "cot": _TRUTH, "multiple_correct": _TRUTH, "max_tokens": _WHOLE},
    "generate": {
        "temperature": _NUMBER, "max_tokens": _WHOLE, "top_p": _NUMBER, "top_k": _WHOLE, "seed": _WHOLE,
        "stop_seqs": _TEXTS,
    },
}  # fmt: skip
"""Solver -> its arguments and what each is; those of OPEN have any others too."""
OPEN = frozenset({"prompt_template", "system_message", "user_message"})
_GRADING = {
    **_TEMPLATE, "instructions": _TEXT, "grade_pattern": _TEXT, "partial_credit": _TRUTH, "model": _TEXT_OR_TEXTS,
    "model_role": _TEXT, "reducer": f"one of {', '.join(PANELS)}", "include_history": _TRUTH,
}  # fmt: skip
SCORERS: Mapping[str, Mapping[str, str]] = {
    "includes": {"ignore_case": _TRUTH},
    "match": {"location": f"one of {', '.join(LOCATIONS)}", "ignore_case": _TRUTH, "numeric": _TRUTH},
    "pattern": {"pattern": _TEXT, "ignore_case": _TRUTH, "match_all": _TRUTH},
    "answer": {"pattern": f"one of {', '.join(ANSWER_PATTERNS)}"},
    "exact": {},
    "f1": {"stop_words": _TEXTS},
    "choice": {},
    "math": {},
    "model_graded_qa": _GRADING,
    "model_graded_fact": _GRADING,
}
NEEDED = {"prompt_template": "template", "system_message": "template", "user_message": "template",
          "pattern": "pattern", "answer": "pattern"}  # fmt: skip
"""Solver or scorer -> the argument that it cannot be without."""
REFUSED: Mapping[str, str] = {
    "use_tools": "gives the model tools of inspect's, which are not here; run this benchmark with inspect"
}
_FIELDS = {"input": (str,), "target": (str,), "choices": (str, list), "input_image": (str,), "metadata": (list,),
           "id": (str,), "description": (str,)}  # fmt: skip
_UNFIT_FIELDS = ("sandbox", "files", "setup", "checkpoint")
_TASK = {"id": (str,), "config": (str,), "split": (str,), "field_spec": (dict,), "shuffle_choices": (bool,),
         "epochs": (int,), "epoch_reducer": (str,), "solvers": (list,), "scorers": (list,)}  # fmt: skip
_TOP = {"name": (str,), "description": (str,), "evaluation_framework": (str,), "tasks": (list,)}
_WORDS = {str: _TEXT, list: "a list", dict: "keys and values", bool: _TRUTH, int: _WHOLE}


@dataclass(frozen=True, slots=True)
class BenchmarkTask:
    """One task of an eval.yaml, checked. where: its file and place in it, for messages."""

    where: str
    id: str | None
    config: str
    split: str
    fields: Mapping[str, object]
    solvers: tuple[Step, ...]
    scorers: tuple[Step, ...]
    epochs: int = 1
    reducer: str = "mean"
    is_shuffled: bool = False


def benchmark_file(folder: Path) -> Path | None:
    """Return the eval.yaml of a folder if it is a benchmark's, and not a task file of that name; else None.

    Raises: DataError for one that cannot be read.
    """
    file = folder / FILE
    return file if file.is_file() and not {"task", "group"} & _content(file).keys() else None


def tasks_of_folder(folder: Path, name: str = "") -> tuple[list[Task], list[str]]:
    """Return the tasks of a benchmark in a folder, and notes on them.

    folder: with eval.yaml and the files of the rows. name: the id of one of its tasks; empty: all of them.

    Raises: DataError; UnknownName for an unknown id.
    """
    file = folder / FILE
    tasks = read_eval_yaml(file)
    listed = _chosen(tasks, name, str(folder))
    made = []
    for each in listed:
        paths = files_of_split(folder, each.config, each.split)
        rows = {
            "dataset_path": _builder(paths),
            "dataset_kwargs": {"data_files": {each.split: [path.relative_to(folder).as_posix() for path in paths]}},
        }
        made.append(_task(each, _title(folder.name, each, tasks), rows, file))
    return made, _notes(made, listed)


def tasks_of_hub(name: str, data_dir: Path | None) -> tuple[list[Task], list[str]]:
    """Return the tasks of a benchmark of the Hub, and notes on them.

    Args:
        name: `hub:ORG/NAME`, with `/TASK_ID` for one of its tasks and `@REVISION` at the end for another revision.
        data_dir: folder with local copies of data sets of the Hub, which come first.

    Raises: DataError; UnknownName for an unknown id; MissingExtra without huggingface_hub.
    """
    plain, _, revision = name.removeprefix(PREFIX).partition("@")
    org, _, rest = plain.partition("/")
    dataset, _, task_id = rest.partition("/")
    dataset = f"{org}/{dataset}"
    if not _NAME.fullmatch(dataset):
        raise DataError(f"{name!r:.120} names no benchmark of the Hub; expected {PREFIX}ORG/NAME or "
                        f"{PREFIX}ORG/NAME/TASK_ID")  # fmt: skip
    copy = None if data_dir is None else data_dir / dataset / FILE
    if revision and copy is not None and copy.is_file():
        raise DataError(f"{copy.parent} is a copy of a revision that nobody states; name {name.partition('@')[0]}, or "
                        "take the copy away")  # fmt: skip
    file = copy if copy is not None and copy.is_file() else file_of_hub(dataset, FILE, revision or None)
    tasks = read_eval_yaml(file)
    listed = _chosen(tasks, task_id, f"{PREFIX}{dataset}")
    made = []
    for each in listed:
        rows: dict[str, object] = {"dataset_path": dataset}
        if each.config != "default":
            rows["dataset_name"] = each.config
        if revision:
            rows["dataset_kwargs"] = {"revision": revision}
        source = f"{PREFIX}{dataset}{'' if each.id is None else f'/{each.id}'}{f'@{revision}' if revision else ''}"
        made.append(_task(each, _title(dataset, each, tasks), rows, Path(source)))
    return made, _notes(made, listed)


def _chosen(tasks: Sequence[BenchmarkTask], name: str, where: str) -> Sequence[BenchmarkTask]:
    if not name:
        return tasks
    known = [each.id for each in tasks if each.id is not None]
    if name not in known:
        raise UnknownName(f"task of {where}", name, nearest(name, known), f"it has: {', '.join(known) or 'one'}")
    return [each for each in tasks if each.id == name]


def _title(benchmark: str, task: BenchmarkTask, tasks: Sequence[BenchmarkTask]) -> str:
    return benchmark if len(tasks) == 1 else f"{benchmark}/{task.id}"


def _builder(paths: Sequence[Path]) -> str:
    suffixes = {suffix for path in paths for suffix in path.suffixes if suffix != ".gz"}
    return "parquet" if ".parquet" in suffixes else "csv" if suffixes & {".csv", ".tsv"} else "json"


def _notes(made: Sequence[Task], tasks: Sequence[BenchmarkTask]) -> list[str]:
    """Return one line for each task: what decides its scores and is not in its file."""
    notes = []
    for task, each in zip(made, tasks, strict=True):
        kwargs = task.generation_kwargs or {}
        how = "greedy" if not kwargs.get("do_sample") else f"temperature {kwargs.get('temperature')}"
        repeated = f", {each.epochs} answers each, reduced by {each.reducer}" if each.epochs > 1 else ""
        shuffled = f", options shuffled by seed {SHUFFLED_BY}" if each.is_shuffled else ""
        notes.append(
            f"{task.name}: {FILE} of {FRAMEWORK}, split '{each.split}'{repeated}{shuffled}; {how}, at most "
            f"{kwargs.get('max_gen_toks')} tokens (--gen_kwargs changes both)"
        )
    return notes


# ----------------------------------------------------------------------------------------------- reading


def _content(file: Path) -> Mapping[str, object]:
    """Return the mapping in a file. Raises: DataError naming the file."""
    try:
        content = load_yaml(content_of(file, MOST_BYTES))
    except DataError as error:
        raise DataError(f"{file}: {error}") from error
    if not isinstance(content, Mapping):
        raise DataError(f"{file} has {type(content).__name__}; expected keys and values: {', '.join(_TOP)}")
    return content


def read_eval_yaml(file: Path) -> list[BenchmarkTask]:
    """Return the tasks of an eval.yaml.

    Raises: DataError naming file, key, value and what was expected, for unknown keys with the nearest known one.
    """
    content = _content(file)
    _check({key: value for key, value in content.items() if key in _TOP}, _TOP, str(file))  # inspect reads no others
    if (framework := content.get("evaluation_framework", FRAMEWORK)) != FRAMEWORK:
        raise DataError(f"{file}: evaluation_framework is {framework!r:.60}; only {FRAMEWORK} is read here")
    listed = content.get("tasks")
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{file}: tasks is {listed!r:.60}; expected a list of tasks")
    tasks = [_read_task(each, f"{file}: tasks[{at}]") for at, each in enumerate(listed)]
    ids = [each.id for each in tasks]
    if len(tasks) > 1 and (None in ids or len(set(ids)) < len(ids)):
        raise DataError(f"{file}: tasks have the ids {ids!r:.120}; expected one of its own for each of several tasks")
    return tasks


def _check(given: Mapping[str, object], known: Mapping[str, tuple[type, ...]], where: str) -> None:
    """Raise DataError for an unknown key, naming the nearest, and for a value of a wrong type."""
    for key, value in given.items():
        if key not in known:
            near = nearest(str(key), known)
            hint = f"nearest: {near[0]}" if near else f"known: {', '.join(known)}"
            raise DataError(f"{where}: unknown key {str(key)!r:.60}; {hint}")
        allowed = known[key]
        if value is not None and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            raise DataError(
                f"{where}: {key} is {value!r:.80}; expected {' or '.join(_WORDS[each] for each in allowed)}"
            )


def _read_task(given: object, where: str) -> BenchmarkTask:
    if not isinstance(given, Mapping):
        raise DataError(f"{where} is {given!r:.80}; expected keys and values: {', '.join(_TASK)}")
    _check(given, _TASK, where)
    fields = given.get("field_spec")
    if not isinstance(fields, Mapping):
        raise DataError(f"{where}: field_spec is missing; expected `input` and `target`, each with a column's name")
    if unfit := next((key for key in _UNFIT_FIELDS if key in fields), None):
        raise DataError(f"{where}.field_spec: {unfit} is for samples that use tools, which are not run here")
    _check(fields, _FIELDS, f"{where}.field_spec")
    for key in ("choices", "metadata"):
        if isinstance(value := fields.get(key), list) and not all(isinstance(each, str) for each in value):
            raise DataError(f"{where}.field_spec: {key} is {value!r:.80}; expected names of columns")
    if (identifier := given.get("id")) is not None and not _ID.fullmatch(str(identifier)):
        raise DataError(f"{where}: id is {identifier!r:.60}; expected letters, digits and . _ + -")
    epochs, reducer = _epochs(given, where)
    solvers = _steps(given.get("solvers"), SOLVERS, f"{where}.solvers")
    scorers = _steps(given.get("scorers"), SCORERS, f"{where}.scorers")
    if len({step.name for step in scorers}) < len(scorers):
        raise DataError(f"{where}.scorers: {', '.join(step.name for step in scorers)}; expected each scorer once")
    return BenchmarkTask(
        where=where,
        id=None if identifier is None else str(identifier),
        config=str(given.get("config") or "default"),
        split=str(given.get("split") or "test"),
        fields={key: value for key, value in fields.items() if value is not None},
        solvers=solvers,
        scorers=scorers,
        epochs=epochs,
        reducer=reducer,
        is_shuffled=given.get("shuffle_choices") is True,
    )


def _epochs(given: Mapping[str, object], where: str) -> tuple[int, str]:
    epochs, reducer = given.get("epochs"), str(given.get("epoch_reducer") or "mean")
    n = 1 if epochs is None else epochs
    if not isinstance(n, int) or not 1 <= n <= 1000:
        raise DataError(f"{where}: epochs is {epochs!r:.40}; expected a whole number from 1 to 1,000")
    matched = REDUCER.fullmatch(reducer)
    if matched is None:
        raise DataError(
            f"{where}: epoch_reducer is {reducer!r:.60}; expected mean, max, mode, median, pass_at_K or at_least_K"
        )
    if matched[1] is not None and (len(matched[1]) > 4 or int(matched[1]) > n):
        raise DataError(f"{where}: epoch_reducer {reducer:.40} needs as many epochs, and epochs is {n}")
    return n, reducer


def _steps(listed: object, known: Mapping[str, Mapping[str, str]], where: str) -> tuple[Step, ...]:
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{where} is {listed!r:.60}; expected a list with at least one `name` and its `args`")
    return tuple(_step(each, known, f"{where}[{at}]") for at, each in enumerate(listed))


def _step(given: object, known: Mapping[str, Mapping[str, str]], where: str) -> Step:
    """Return a solver or scorer with checked arguments."""
    if not isinstance(given, Mapping):
        raise DataError(f"{where} is {given!r:.80}; expected `name` and, where it has any, `args`")
    _check(given, {"name": (str,), "args": (dict,)}, where)
    name, args = str(given.get("name")), given.get("args") or {}
    if name in REFUSED:
        raise DataError(f"{where}: {name} {REFUSED[name]}")
    if name not in known:
        near = ", ".join(nearest(name, [*known, *REFUSED])) or ", ".join(known)
        raise DataError(f"{where}: name is {name!r:.60}; nearest: {near}")
    arguments = known[name]
    for key, value in args.items() if isinstance(args, Mapping) else ():
        if key not in arguments and name not in OPEN:
            near = ", ".join(nearest(str(key), arguments)) or ", ".join(arguments) or "none"
            raise DataError(f"{where}: {name} has no argument {str(key)!r:.60} here; expected {near}")
        if key in arguments and value is not None and not _fits(value, arguments[key]):
            raise DataError(f"{where}: {key} is {value!r:.80}; expected {arguments[key]}")
    if name in NEEDED and not args.get(NEEDED[name]):
        raise DataError(f"{where}: {name} needs the argument {NEEDED[name]}")
    return Step(name, {str(key): value for key, value in args.items() if value is not None}, where)


def _fits(value: object, kind: str) -> bool:
    if kind == _TEXT_OR_TEXTS:
        return _fits(value, _TEXT) or (_fits(value, _TEXTS) and bool(value))
    if kind == _TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind in (_WHOLE, _NUMBER):
        return isinstance(value, int if kind == _WHOLE else int | float) and not isinstance(value, bool)
    if kind.startswith("one of"):
        return value in kind.removeprefix("one of ").split(", ")
    return isinstance(value, bool if kind == _TRUTH else str)


# ------------------------------------------------------------------------------------- a task of our own


def _task(task: BenchmarkTask, name: str, rows: Mapping[str, object], source: Path) -> Task:
    """Return a benchmark's task as one of our own."""
    return task_from_spec(spec_of(task, name, rows), source, "user")


def spec_of(task: BenchmarkTask, name: str, rows: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a task file for a benchmark's task."""
    columns = _columns(task)
    row = _row(task, columns)
    prompt = solver_prompt(task.solvers, row)
    if prompt.critique is not None and (task.epochs > 1 or row.image is not None):
        raise DataError(f"{task.where}: self_critique goes with neither epochs nor images here")
    renamed = {column: plain for column, plain in columns.items() if column != plain}
    return {
        "task": name,
        **rows,
        "test_split": task.split,
        **({"rename_columns": renamed} if renamed else {}),
        "output_type": "generate_until",
        "doc_to_messages": prompt.template,
        "doc_to_target": _target(task, columns, row),
        "target_is_text": True,
        **({"doc_to_image": row.image} if row.image is not None else {}),
        "generation_kwargs": _settings(task, prompt),
        **({"repeats": task.epochs} if task.epochs > 1 else {}),
        **({"self_critique": prompt.critique} if prompt.critique is not None else {}),
        **_scoring(task, columns, prompt, row),
        "metadata": {"version": "1.0"},
    }


def _columns(task: BenchmarkTask) -> dict[str, str]:
    """Return the columns that a task uses -> the names under which templates can use them."""
    fields, names = task.fields, []
    for key in ("input", "target", "choices", "input_image", "metadata"):
        value = fields.get(key, key if key in ("input", "target") else None)
        listed = value if isinstance(value, list) else [value]
        names += [str(each) for each in listed if each is not None and not _is_literal(key, each)]
    plain: dict[str, str] = {}
    for column in dict.fromkeys(names):
        made = column
        if not column.isidentifier() or iskeyword(column) or column in _TAKEN:
            made = f"column_{re.sub(r'[^A-Za-z0-9]+', '_', column).strip('_')}"
            while made in {*plain.values(), *names}:
                made += "_"
        plain[column] = made
    return plain


_TAKEN = frozenset({"true", "false", "none", "self", "loop", "caller", "varargs", "kwargs", "recursive", "scoped"})
"""Words of Jinja's beside Python's."""


def _is_literal(key: str, value: object) -> bool:
    return key == "target" and str(value).startswith(_LITERAL)


def _row(task: BenchmarkTask, columns: Mapping[str, str]) -> RowExpressions:
    fields = task.fields
    choices, image, metadata = fields.get("choices"), fields.get("input_image"), fields.get("metadata")
    question = f"({columns[str(fields.get('input', 'input'))]} | plain_text('question'))"
    options = None
    if choices is not None:
        own = [columns[str(each)] for each in choices] if isinstance(choices, list) else columns[str(choices)]
        options = f"[{', '.join(own)}]" if isinstance(own, list) else own
        if task.is_shuffled:
            options = f"({options} | shuffled_options({_key(question)}))"
    named = metadata if isinstance(metadata, list) else []
    return RowExpressions(
        question=question,
        options=options,
        image=None if image is None else columns[str(image)],
        metadata={str(name): columns[str(name)] for name in named},
    )


def _key(question: str) -> str:
    """Return the expression of what decides the order of a row's options beside their texts."""
    return f"[{SHUFFLED_BY}, {question}]"


def _target(task: BenchmarkTask, columns: Mapping[str, str], row: RowExpressions) -> str:
    """Return the template of the right answer: a text, or the letter of one among options."""
    target = str(task.fields.get("target", "target"))
    if _is_literal("target", target):
        return f"{{{{ {expression_of(target.removeprefix(_LITERAL))} }}}}"
    column = columns[target]
    if row.options is None:
        return f"{{{{ {column} | plain_text('target') }}}}"
    choices = task.fields["choices"]
    options = f"[{', '.join(columns[str(each)] for each in choices)}]" if isinstance(choices, list) else (
        columns[str(choices)]
    )  # fmt: skip
    key = f", {_key(row.question)}" if task.is_shuffled else ""
    return f"{{{{ {column} | right_letter({options}{key}) }}}}"


def _settings(task: BenchmarkTask, prompt: SolverPrompt) -> dict[str, object]:
    """Return the settings of the requests; inspect leaves to the server what the file does not set."""
    settings: dict[str, object] = {"until": [], "max_gen_toks": MAX_TOKENS, "temperature": 0.0, "do_sample": False}
    if task.epochs > 1:
        settings |= {"temperature": 1.0, "do_sample": True}  # equal answers would make epochs one
    settings |= prompt.settings
    if "temperature" in prompt.settings:
        settings["do_sample"] = prompt.settings["temperature"] != 0
    return settings


def _scoring(
    task: BenchmarkTask, columns: Mapping[str, str], prompt: SolverPrompt, row: RowExpressions
) -> dict[str, object]:
    """Return the filters and metrics: `choice` reads letters, every other scorer the answer as it is."""
    first = [{"function": "take_first"}] if task.epochs == 1 else []
    pipelines: list[dict[str, object]] = []
    if any(step.name != "choice" for step in task.scorers):
        pipelines.append({"name": "none", "filter": first})
    if choice := next((step for step in task.scorers if step.name == "choice"), None):
        if prompt.asked_by != "multiple_choice":
            raise DataError(f"{choice.where}: choice reads the answers to multiple_choice; add that solver")
        choices = task.fields["choices"]
        letters = {
            "function": "inspect_letters",
            "options": [columns[str(each)] for each in choices] if isinstance(choices, list) else columns[str(choices)],
            "multiple_correct": prompt.multiple_correct,
        }
        pipelines.append({"name": "letters", "filter": [letters, *first]})
    metrics = [
        {
            "metric": f"inspect_{step.name}{'' if task.reducer == 'mean' else f'_{task.reducer}'}",
            **(grading_options(step, row) if step.name.startswith("model_graded") else step.args),
            **({"filters": ["letters" if step.name == "choice" else "none"]} if len(pipelines) > 1 else {}),
        }
        for step in task.scorers
    ]
    return {"filter_list": pipelines, "metric_list": metrics}
