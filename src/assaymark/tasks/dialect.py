"""Read lm-evaluation-harness's task format into a frozen `Task`. No other module knows its keys.

Every key that 0.4.13's task files use is known here; any other is an error that names file, key, value and the
nearest known key, because a misspelt key that is silently ignored gives wrong scores.

A metric or step of a filter that another package registers is replaced by a reference to that package's
function: from there on it is treated as a `!function` of the task file, its module's bytes being part of the hash.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import cast, get_args

from assaymark.datasets import DatasetSpec
from assaymark.errors import DataError
from assaymark.limits.regexes import compiled
from assaymark.records import JsonValue
from assaymark.registry import Registry, nearest
from assaymark.scoring.filters import FILTERS
from assaymark.scoring.metric import CALL_MATCH, Metric, facts_of
from assaymark.scoring.metrics import aggregation_of, defaults_for, is_higher_better, is_own_metric
from assaymark.tasks.functions import load_function
from assaymark.tasks.images import refuse_unfit_image_keys
from assaymark.tasks.spec_hash import file_of, hash_spec
from assaymark.tasks.task import (
    FewshotSpec,
    Field,
    FilterSpec,
    FilterStep,
    FunctionRef,
    GenerationBy,
    MetricSpec,
    Origin,
    OutputType,
    PromptSpec,
    Sealing,
    SplitNames,
    Task,
)
from assaymark.tasks.tool_use import refuse_unfit_keys
from assaymark.tasks.user_code import Kind, declarations_in, find_declaration, refuse_broken

_TEXT = (str, type(None))
_FUNCTION = (FunctionRef, type(None))
_PART = (str, int, FunctionRef, type(None))
KEYS: Mapping[str, tuple[type, ...]] = {
    "task": (str,),
    "task_alias": _TEXT,
    "tag": (str, list, type(None)),
    "group": (str, list, type(None)),
    "task_list": (list, type(None)),
    "custom_dataset": _FUNCTION,
    "dataset_path": _TEXT,
    "dataset_name": _TEXT,
    "dataset_kwargs": (dict, type(None)),
    "training_split": _TEXT,
    "validation_split": _TEXT,
    "test_split": _TEXT,
    "fewshot_split": _TEXT,
    "process_docs": _FUNCTION,
    "doc_to_text": _PART,
    "doc_to_target": (*_PART, list),
    "doc_to_choice": (str, list, dict, FunctionRef, type(None)),
    "doc_to_image": (str, list, FunctionRef, type(None)),
    "doc_to_audio": (str, list, FunctionRef, type(None)),
    "unsafe_code": (bool,),
    "process_results": _FUNCTION,
    "use_prompt": _TEXT,
    "description": _TEXT,
    "target_delimiter": (str,),
    "fewshot_delimiter": (str,),
    "fewshot_config": (dict, type(None)),
    "num_fewshot": (int, type(None)),
    "metric_list": (list, type(None)),
    "output_type": (str,),
    "generation_kwargs": (dict, type(None)),
    "repeats": (int,),
    "filter_list": (list, type(None)),
    "should_decontaminate": (bool,),
    "doc_to_decontamination_query": (str, FunctionRef, type(None)),
    "gen_prefix": _TEXT,
    "doc_to_turns": (str, list, FunctionRef, type(None)),  # our own, for conversations
    "doc_to_tools": (str, list, FunctionRef, type(None)),  # our own, with the next two: functions that may be called
    "tools_in": _TEXT,
    "simulator": _TEXT,  # our own: what carries out the calls in a conversation
    "doc_to_messages": (str, FunctionRef, type(None)),
    "target_is_text": (bool,),  # our own: doc_to_target gives one text, even one that looks like a list
    "self_critique": (dict, type(None)),  # our own: the answer is criticised and revised by the model
    "generation_by": (dict, type(None)),  # our own, for questions of several kinds
    "skip_bad_rows": (bool,),  # our own: rows that cannot be read are left out and counted
    "rename_columns": (dict, type(None)),  # our own: for columns whose names a template cannot use
    "also_loglikelihood": _TEXT,  # our own, for tasks that are Python classes in lm-eval
    "metadata": (dict, list, type(None)),
    "private": (bool,),  # our own, with the next two: rows are not shown to others
    "public_fraction": (int, float),
    "valid_until": _TEXT,
}
FEWSHOT_KEYS: Mapping[str, tuple[type, ...]] = {
    "sampler": (str, FunctionRef),
    "split": _TEXT,
    "process_docs": _FUNCTION,
    "fewshot_indices": (list, type(None)),
    "samples": (list, FunctionRef, type(None)),
    "doc_to_text": _PART,
    "doc_to_choice": (str, list, dict, FunctionRef, type(None)),
    "doc_to_target": (*_PART, list),
    "gen_prefix": _TEXT,
    "fewshot_delimiter": (str,),
    "target_delimiter": (str,),
}
SEALING_KEYS = ("private", "public_fraction", "valid_until")  # of no answer, so no part of a task's hash
METRIC_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate", "filters")  # the last is our own
MEANING: Mapping[type, str] = {
    FunctionRef: "!function",
    str: "text",
    int: "number",
    float: "number",
    dict: "keys and values",
    list: "list",
    bool: "true or false",
}


METRICS: Registry[object] = Registry("metrics", "metric")
STEPS: Registry[object] = Registry("filters", "filter")
AGGREGATED: Registry[object] = Registry("aggregations", "aggregation")


def with_registered(spec: Mapping[str, object], folders: Sequence[Path] = ()) -> Mapping[str, object]:
    """Return a task file's mapping with references in place of names that other packages, or user files, declare.

    folders: those whose Python files may declare metrics and steps of filters; the first counts.

    Raises: DataError for a name that a folder declares twice, or that a broken file may declare.
    """

    def find(kind: Kind, registry: Registry[object], name: str) -> FunctionRef | None:
        if (place := registry.places().get(name)) is not None:
            return FunctionRef(place.target.replace(":", "."), None)
        declaration = find_declaration(kind, name, folders)
        if declaration is None:
            refuse_broken(folders)  # which may be meant to declare it
            return None
        return declaration.function

    def metric_of(item: object) -> object:
        return _replaced(item, "metric", lambda name: find("metrics", METRICS, name), is_own_metric)

    def step_of(item: object) -> object:
        return _replaced(item, "function", lambda name: find("filters", STEPS, name), FILTERS.__contains__)

    metrics = [metric_of(item) for item in _items(spec.get("metric_list"))]
    pipelines = [
        {**pipeline, "filter": [step_of(step) for step in _items(steps)]}
        if isinstance(pipeline, Mapping) and isinstance(steps := pipeline.get("filter"), list)
        else pipeline
        for pipeline in _items(spec.get("filter_list"))
    ]
    changed = {"metric_list": metrics} if metrics and metrics != spec["metric_list"] else {}
    changed |= {"filter_list": pipelines} if pipelines and pipelines != spec["filter_list"] else {}
    return {**spec, **changed} if changed else spec


def folders_of_registered(spec: Mapping[str, object]) -> tuple[Path, ...]:
    """Return the folders of the modules that `with_registered` put into a mapping: their code may be imported."""
    places = {place.target.replace(":", ".") for registry in (METRICS, STEPS) for place in registry.places().values()}
    pipelines = [each for each in _items(spec.get("filter_list")) if isinstance(each, Mapping)]
    steps = [step for pipeline in pipelines for step in _items(pipeline.get("filter")) if isinstance(step, Mapping)]
    values = [item.get("metric") for item in _items(spec.get("metric_list")) if isinstance(item, Mapping)]
    values += [step.get("function") for step in steps]
    files = [file_of(ref) for ref in values if isinstance(ref, FunctionRef) and ref.file is None and ref.path in places]
    return tuple(dict.fromkeys(file.resolve().parent for file in files if file is not None))


def _items(listed: object) -> list[object]:
    return list(listed) if isinstance(listed, list | tuple) else []


def _replaced(
    item: object, key: str, find: Callable[[str], FunctionRef | None], is_own: Callable[[str], bool]
) -> object:
    if not isinstance(item, Mapping) or not isinstance(name := item.get(key), str) or is_own(name):
        return item
    function = find(name)
    return item if function is None else {**item, key: function}


CODE_METRIC = "assaymark.tasks.code_metrics.pass_at_k"


class _TaskReader:
    """One file's mapping with its path, for error messages."""

    def __init__(self, spec: Mapping[str, object], source: Path) -> None:
        self.spec = spec
        self.source = source

    def fail(self, key: str, value: object, expected: str) -> DataError:
        return DataError(f"{self.source}: {key} is {value!r:.200}; expected {expected}")

    def check(self, spec: Mapping[str, object], known: Mapping[str, tuple[type, ...]], within: str = "") -> None:
        for key, value in spec.items():
            if key not in known:
                near = nearest(str(key), known)
                hint = f"nearest known key: {near[0]}" if near else "known keys: " + ", ".join(known)
                raise DataError(f"{self.source}: unknown key '{within}{key}' with value {value!r:.80}; {hint}")
            allowed = known[key]
            if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed and int in allowed):
                meanings = [MEANING[kind] for kind in allowed if kind in MEANING]
                raise self.fail(f"{within}{key}", value, " or ".join(dict.fromkeys(meanings)))

    def get(self, key: str, default: object = None) -> object:
        return self.spec.get(key, default)

    # of keys that `check` has passed:

    def text(self, key: str) -> str | None:
        value = self.spec.get(key)
        return value if isinstance(value, str) else None

    def function(self, key: str) -> FunctionRef | None:
        value = self.spec.get(key)
        return value if isinstance(value, FunctionRef) else None

    def field(self, key: str) -> Field:
        value = self.spec.get(key)
        return value if isinstance(value, str | int | float | list | dict | FunctionRef) else None

    def mapping(self, key: str) -> Mapping[str, JsonValue]:
        value = self.spec.get(key)
        return value if isinstance(value, Mapping) else {}


def task_from_spec(spec: Mapping[str, object], source: Path, origin: Origin, trusted: Sequence[Path] = ()) -> Task:
    """Return the task that a file's mapping (after includes) describes.

    Raises: DataError naming file, key, value and what was expected.
    """
    folders = tuple(dict.fromkeys((source.parent, *(each for each in trusted if source.is_relative_to(each)))))
    spec = with_registered(spec, folders if origin == "user" else ())
    if isinstance(spec.get("valid_until"), date):
        spec = {**spec, "valid_until": str(spec["valid_until"])}  # YAML reads 2027-01-31 as a date; JSON has none
    reader = _TaskReader(spec, source)
    name = spec.get("task")
    if not isinstance(name, str):
        raise reader.fail("task", name, "the task's name")
    if "class" in spec:
        return _python_task(name, reader, origin, trusted)
    reader.check(spec, KEYS)
    output_type, splits = _checked(reader)
    prompt, filters, metadata = _prompt(reader), _filters(reader), reader.mapping("metadata")
    return Task(
        name=name,
        version=str(metadata.get("version", "Yaml")),
        output_type=output_type,
        dataset=_dataset(reader),
        splits=splits,
        prompt=prompt,
        fewshot=_fewshot(reader, prompt),
        spec=dict(spec),
        spec_hash=hash_spec({key: spec[key] for key in spec if key not in SEALING_KEYS}),
        source=source,
        origin=origin,
        metrics=_metrics(reader, output_type, tuple(pipeline.name for pipeline in filters), trusted),
        filters=filters,
        alias=reader.text("task_alias"),
        description=reader.text("description") or "",
        num_fewshot=_num_fewshot(reader) if (prompt.turns, prompt.tools, prompt.messages) == (None, None, None) else 0,
        repeats=_repeats(reader),
        generation_kwargs=None if reader.get("generation_kwargs") is None else reader.mapping("generation_kwargs"),
        generation_by=_generation_by(reader),
        also_loglikelihood=reader.text("also_loglikelihood"),
        process_docs=reader.function("process_docs"),
        process_results=reader.function("process_results"),
        custom_dataset=reader.function("custom_dataset"),
        metadata=metadata,
        tags=_tags(reader.get("tag")),
        trusted=(*trusted, *folders_of_registered(spec)),
        sealing=_sealing(reader),
    )


def _sealing(reader: _TaskReader) -> Sealing | None:
    """Return how a private task is sealed; None for one that is not."""
    if not reader.get("private", False):
        if strange := next((key for key in SEALING_KEYS if key != "private" and reader.get(key)), None):
            raise reader.fail(strange, reader.get(strange), "`private: true` beside it")
        return None
    fraction = reader.get("public_fraction", 0)
    if not isinstance(fraction, int | float) or not 0 <= fraction < 1:
        raise reader.fail("public_fraction", fraction, "a share of the rows, from 0 to below 1")
    until = reader.text("valid_until") or ""
    try:
        return Sealing(float(fraction), date.fromisoformat(until).isoformat() if until else "")
    except ValueError:
        raise reader.fail("valid_until", until, "a date such as 2027-01-31") from None


def _checked(reader: _TaskReader) -> tuple[OutputType, SplitNames]:
    """Return the output type and the splits, after checking that these and a data set are named."""
    output_type = reader.get("output_type", "generate_until")
    if output_type not in get_args(OutputType):
        raise reader.fail("output_type", output_type, " or ".join(get_args(OutputType)))
    if reader.get("also_loglikelihood") and output_type != "generate_until":
        raise reader.fail("also_loglikelihood", reader.get("also_loglikelihood"), "none unless generate_until")
    if reader.get("doc_to_turns") is not None:
        _check_turns(reader, output_type)
    if reader.get("doc_to_messages") is not None and reader.get("doc_to_tools") is None:
        _check_messages(reader, output_type)
    refuse_unfit_keys(reader.spec, reader.source)
    refuse_unfit_image_keys(reader.spec, reader.source)
    if reader.get("custom_dataset") is None and not reader.get("dataset_path"):
        raise reader.fail("dataset_path", reader.get("dataset_path"), "a Hub name, or json, csv or parquet")
    splits = SplitNames(reader.text("training_split"), reader.text("validation_split"), reader.text("test_split"))
    if splits.evaluated is None:
        raise reader.fail("test_split", None, "test_split or validation_split: the rows to evaluate")
    return cast("OutputType", output_type), splits


def _check_turns(reader: _TaskReader, output_type: object) -> None:
    """Raise DataError for keys that a conversation cannot have besides its turns."""
    if output_type != "generate_until":
        raise reader.fail("output_type", output_type, "generate_until, as doc_to_turns is for generated answers")
    for key, plain in (("doc_to_text", None), ("num_fewshot", 0), ("repeats", 1), ("gen_prefix", None)):
        if reader.get(key, plain) not in (plain, None):
            raise reader.fail(key, reader.get(key), f"{plain} with doc_to_turns, which is the whole conversation")


def _check_messages(reader: _TaskReader, output_type: object) -> None:
    """Raise DataError for keys that a chat in a row cannot have besides its messages."""
    if output_type != "generate_until":
        raise reader.fail("output_type", output_type, "generate_until, as doc_to_messages is for generated answers")
    for key, plain in (
        *(("doc_to_text", None), ("doc_to_turns", None), ("doc_to_choice", None)),
        *(("num_fewshot", 0), ("gen_prefix", None)),
    ):
        if reader.get(key, plain) not in (plain, None):
            raise reader.fail(key, reader.get(key), f"{plain} with doc_to_messages, which are the whole chat")


def _python_task(name: str, reader: _TaskReader, origin: Origin, trusted: Sequence[Path]) -> Task:
    """Return a task that is a Python class; its requests are only known when the class is loaded."""
    spec, python_class = reader.spec, reader.get("class")
    if not isinstance(python_class, FunctionRef):
        raise reader.fail("class", python_class, "!function <module>.<Class>")
    return Task(
        name=name,
        version="Python",
        output_type="generate_until",
        dataset=DatasetSpec(str(spec.get("dataset_path") or name)),
        splits=SplitNames(),
        prompt=PromptSpec(),
        fewshot=FewshotSpec(PromptSpec()),
        spec=dict(spec),
        spec_hash=hash_spec(spec),
        source=reader.source,
        origin=origin,
        metrics=(),
        filters=(FilterSpec("none", (FilterStep("take_first"),)),),
        python_class=python_class,
        tags=_tags(spec.get("tag")),
        trusted=tuple(trusted),
    )


def _tags(tag: object) -> tuple[str, ...]:
    return (tag,) if isinstance(tag, str) else tuple(tag) if isinstance(tag, list) else ()


def _dataset(reader: _TaskReader) -> DatasetSpec:
    kwargs = dict(reader.mapping("dataset_kwargs"))
    revision = kwargs.pop("revision", None)
    renamed = reader.mapping("rename_columns")
    names = {column: name for column, name in renamed.items() if isinstance(column, str) and isinstance(name, str)}
    if names != renamed:
        raise reader.fail("rename_columns", renamed, "names of columns and what they are called in the task")
    if not isinstance(revision, str | None):
        raise reader.fail("dataset_kwargs.revision", revision, "a branch, tag or commit in quotes")
    return DatasetSpec(
        reader.text("dataset_path") or "", reader.text("dataset_name"), revision, tuple(sorted(kwargs.items())),
        reader.source.parent, bool(reader.get("skip_bad_rows", False)), tuple(sorted(names.items()))
    )  # fmt: skip


def _prompt(reader: _TaskReader) -> PromptSpec:
    return PromptSpec(
        text=reader.field("doc_to_text"),
        turns=reader.field("doc_to_turns"),
        tools=reader.field("doc_to_tools"),
        tools_in=reader.text("tools_in") or "template",
        simulator=reader.text("simulator"),
        messages=reader.field("doc_to_messages"),
        target=reader.field("doc_to_target"),
        target_is_text=bool(reader.get("target_is_text", False)),
        choice=reader.field("doc_to_choice"),
        image=reader.field("doc_to_image"),
        critique=_critique(reader),
        gen_prefix=reader.field("gen_prefix"),
        target_delimiter=str(reader.get("target_delimiter", " ")),
        fewshot_delimiter=str(reader.get("fewshot_delimiter", "\n\n")),
    )


def _critique(reader: _TaskReader) -> Mapping[str, JsonValue] | None:
    """Return the templates of a task whose answers are criticised and revised; None for any other."""
    if (given := reader.get("self_critique")) is None:
        return None
    if not isinstance(given, Mapping) or given.keys() != {"critique", "revision"}:
        raise reader.fail("self_critique", given, "critique and revision, each the template of a message")
    if reader.get("doc_to_messages") is None or reader.get("doc_to_image") is not None:
        raise reader.fail("self_critique", given, "doc_to_messages beside it, and no images")
    if reader.get("repeats", 1) != 1:
        raise reader.fail("repeats", reader.get("repeats"), "1 with self_critique, which is a conversation")
    return given


def _fewshot(reader: _TaskReader, prompt: PromptSpec) -> FewshotSpec:
    config = reader.mapping("fewshot_config")
    reader.check(config, FEWSHOT_KEYS, "fewshot_config.")
    own = _TaskReader(config, reader.source)
    sampler = own.function("sampler") or str(config.get("sampler", "default"))
    if isinstance(sampler, str) and sampler not in {"default", "first_n"}:
        raise reader.fail("fewshot_config.sampler", sampler, "default, first_n or !function <module>.<Sampler>")
    samples = config.get("samples")
    if isinstance(samples, list) and not all(isinstance(row, Mapping) for row in samples):
        raise reader.fail("fewshot_config.samples", samples, "a list of rows, each with columns and values")
    shot_prompt = PromptSpec(
        text=_or(own.field("doc_to_text"), prompt.text),
        turns=prompt.turns,
        target=_or(own.field("doc_to_target"), prompt.target),
        choice=own.field("doc_to_choice") if "doc_to_choice" in config else prompt.choice,
        gen_prefix=own.text("gen_prefix") if "gen_prefix" in config else prompt.gen_prefix,
        target_delimiter=str(config.get("target_delimiter", prompt.target_delimiter)),
        fewshot_delimiter=str(config.get("fewshot_delimiter", prompt.fewshot_delimiter)),
    )
    return FewshotSpec(
        prompt=shot_prompt,
        sampler=sampler,
        split=own.text("split") if "split" in config else reader.text("fewshot_split"),
        samples=tuple(samples) if isinstance(samples, list) else own.function("samples"),
        process_docs=(own if "process_docs" in config else reader).function("process_docs"),
    )


def _generation_by(reader: _TaskReader) -> GenerationBy | None:
    by = reader.mapping("generation_by")
    if reader.get("generation_by") is None:
        return None
    column, values = by.get("column"), by.get("values")
    if (
        not isinstance(column, str)
        or not isinstance(values, dict)
        or not all(isinstance(value, dict) for value in values.values())
        or by.keys() != {"column", "values"}
    ):
        raise reader.fail("generation_by", by, "{column: NAME, values: {VALUE: {SETTING: ...}}}")
    return GenerationBy(column=column, values=values)


def _repeats(reader: _TaskReader) -> int:
    repeats = reader.get("repeats", 1)
    if not isinstance(repeats, int) or repeats < 1:
        raise reader.fail("repeats", repeats, "a whole number from 1")
    return repeats


def _num_fewshot(reader: _TaskReader) -> int | None:
    shots = reader.get("num_fewshot")
    if shots is not None and (not isinstance(shots, int) or shots < 0):
        raise reader.fail("num_fewshot", shots, "a whole number from 0")
    return shots


def _or(value: Field, otherwise: Field) -> Field:
    return otherwise if value is None else value


def _metrics(
    reader: _TaskReader, output_type: str, filters: tuple[str, ...], trusted: Sequence[Path]
) -> tuple[MetricSpec, ...]:
    listed = reader.get("metric_list")
    if listed is None:
        names = defaults_for(output_type) if reader.get("doc_to_tools") is None else (CALL_MATCH,)
        listed = [{"metric": name} for name in names]
    if not isinstance(listed, list | tuple):
        raise reader.fail("metric_list", listed, "a list of items such as `metric: acc`")
    metrics = []
    for item in listed:
        if not isinstance(item, Mapping) or not isinstance(item.get("metric"), (str, int, FunctionRef)):
            raise reader.fail("metric_list", item, "items such as `metric: acc`")
        metric = item["metric"]
        own_name = (metric.declared_as or metric.name) if isinstance(metric, FunctionRef) else str(metric)
        declared = _declared_facts(metric, trusted)
        default_aggregation = _declared_aggregation(metric, declared) if declared else None
        options = {key: value for key, value in item.items() if key not in METRIC_KEYS}
        own_filters = item.get("filters", list(filters))
        if not isinstance(own_filters, list) or not own_filters or not set(map(str, own_filters)) <= set(filters):
            raise reader.fail(f"metric_list.{own_name}.filters", own_filters, f"a list of: {', '.join(filters)}")
        if isinstance(metric, str):
            _check_regexes(reader, f"metric_list.{metric}", item)
        is_higher = item.get("higher_is_better")
        if is_higher is not None and not isinstance(is_higher, bool):
            raise reader.fail(f"metric_list.{own_name}.higher_is_better", is_higher, "true or false")
        for name, kwargs in _scores_named(metric, own_name, options):
            aggregation = item.get("aggregation", default_aggregation or aggregation_of(name))
            if (
                isinstance(metric, str)
                and (needed := aggregation_of(name)) in _OF_PARTS
                and isinstance(aggregation, str)
                and aggregation not in _OF_PARTS
                and reader.get("process_results") is None  # whose values may be numbers
                and not item.get("hf_evaluate")
            ):
                raise reader.fail(f"metric_list.{name}.aggregation", aggregation, f"{needed}, or none")
            by_default = declared.higher_is_better if declared else is_higher_better(name)
            metrics.append(
                MetricSpec(
                    name=name,
                    aggregation=aggregation,
                    higher_is_better=bool(by_default if is_higher is None else is_higher),
                    kwargs=kwargs,
                    function=metric if isinstance(metric, FunctionRef) else None,
                    filters=tuple(own_filters),
                    scale=declared.scale if declared else None,
                    formula=declared.formula if declared else None,
                )
            )
    return tuple(metrics)


_OF_PARTS = frozenset({
    "bleu", "chrf", "chrf++", "ter", "f1", "matthews_corrcoef", "weighted_perplexity", "bits_per_byte", "acc_all",
})  # fmt: skip
"""Aggregations of counts or pairs, which have no mean."""


def _declared_facts(metric: object, trusted: Sequence[Path]) -> Metric | None:
    """Return the declaration of a metric in a user's file, which is imported for it; None for other metrics."""
    if not isinstance(metric, FunctionRef) or metric.declared_as is None:
        return None
    return facts_of(load_function(metric, trusted))


def _declared_aggregation(metric: FunctionRef, facts: Metric) -> str | FunctionRef:
    """Return the aggregation that a user's metric names: a known one, or one of its own file, whose bytes are hashed.

    Raises: DataError for any other.
    """
    from assaymark.statistics.aggregate import AGGREGATIONS  # listing tasks needs none

    if facts.aggregation in AGGREGATIONS or facts.aggregation in AGGREGATED:
        return facts.aggregation
    own = () if metric.file is None else declarations_in(metric.file)
    for each in own:
        if (each.kind, each.name) == ("aggregations", facts.aggregation):
            return each.function
    line = next((each.line for each in own if (each.kind, each.name) == ("metrics", facts.name)), None)
    near = ", ".join(nearest(facts.aggregation, [*AGGREGATIONS, *AGGREGATED])) or "mean"
    raise DataError(
        f"{metric.file}, line {line}: aggregation {facts.aggregation!r:.80} of metric {facts.name} is not known; "
        f"nearest: {near}; one of your own is declared in the same file with @assaymark.aggregation"
    )


def _scores_named(
    metric: str | int | FunctionRef, name: str, kwargs: dict[str, object]
) -> list[tuple[str, dict[str, object]]]:
    """Return the names of a metric's scores, with its options: one, except that pass@k has one for each k."""
    if not (isinstance(metric, FunctionRef) and metric.path == CODE_METRIC):
        return [(name, kwargs)]
    sizes = kwargs.get("k", [1])
    return [(f"pass@{k}", {**kwargs, "k": [k]}) for k in (sizes if isinstance(sizes, list) else [sizes])]


def _filters(reader: _TaskReader) -> tuple[FilterSpec, ...]:
    listed = reader.get("filter_list")
    if not isinstance(listed, list):
        return (FilterSpec("none", (FilterStep("take_first"),)),)
    filters = []
    for item in listed:
        if not isinstance(item, Mapping) or "name" not in item or not isinstance(item.get("filter"), list):
            raise reader.fail("filter_list", item, "items with `name` and `filter`, a list of steps")
        steps = []
        for step in item["filter"]:
            if not isinstance(step, Mapping) or not isinstance(step.get("function"), (str, FunctionRef)):
                raise reader.fail(f"filter_list.{item['name']}", step, "steps such as `function: take_first`")
            if step["function"] in ("regex", "multi_choice_regex"):
                _check_regexes(reader, f"filter_list.{item['name']}.{step['function']}", step)
            steps.append(FilterStep(step["function"], {key: value for key, value in step.items() if key != "function"}))
        filters.append(FilterSpec(str(item["name"]), tuple(steps)))
    return tuple(filters)


def _check_regexes(reader: _TaskReader, where: str, options: Mapping[str, object]) -> None:
    """Raise DataError, with the key in the file, for a regular expression that does not compile."""
    ignored = options.get("regexes_to_ignore") or ()
    named = [(key, options[key]) for key in ("regex_pattern", "pattern") if key in options]
    named += [("regexes_to_ignore", each) for each in (ignored if isinstance(ignored, list | tuple) else (ignored,))]
    for key, pattern in named:
        if isinstance(pattern, FunctionRef):
            continue
        try:
            compiled(pattern)
        except DataError as error:
            raise DataError(f"{reader.source}: {where}.{key}: {error}") from None
