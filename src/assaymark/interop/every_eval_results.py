"""The aggregate record of Every Eval Ever, the EvalEval coalition's shared format, from a stored run's estimates.

A record is of one benchmark: the run's suite, a group with its tasks, or a task alone. What a run does not know (who
publishes it, whether a model's weights are open) is written as unknown, never guessed. All that is written follows from
the stored run, so that a second export is the same file.

Source: the schemas of every-eval-ever 0.3.0 (eval.schema.json), and the names that its converter of lm-eval gives.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal
from uuid import UUID

from assaymark.errors import UsageError
from assaymark.interop.lm_eval_results import model_description, seconds_of
from assaymark.limits.characters import is_hub_id
from assaymark.limits.shown_paths import without_folders
from assaymark.platforms import portable_name
from assaymark.records import Estimate, JsonValue, with_filter
from assaymark.records.json_values import list_at, object_at, objects_at, texts_of
from assaymark.results.model_names import short_model_name
from assaymark.scoring.metrics import find_metric, formula_of
from assaymark.settings import FORMER_NAME, VERSION
from assaymark.store.rows import AttemptRow, RunRow

SCHEMA = "0.3.0"
UNKNOWN = "unknown"
APPLICATION = "application"  # the kind of model that has no settings of generation
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
_MODEL_ID = re.compile(r"[A-Za-z0-9][\w.:-]*(/[A-Za-z0-9_][\w.:-]*)+", re.ASCII)  # a platform may stand between
_ENGINES = {"hf": "assaymark", "vllm": "vllm", "gguf": "llama.cpp", "hf-multimodal": "transformers"}
_PACKAGES = {"vllm": "vllm", "llama.cpp": "llama-cpp-python", "transformers": "transformers"}
_IDS = {  # of its registry of metrics; others are named after the tool that defines them
    "acc": "accuracy", "exact_match": "exact-match", "em": "exact-match", "f1": "f1", "perplexity": "perplexity",
    "bleu": "bleu", "rouge1": "rouge-1", "rouge2": "rouge-2", "rougeL": "rouge-l",
}  # fmt: skip
_KINDS = {
    "acc": "accuracy", "acc_norm": "accuracy", "exact_match": "accuracy", "em": "accuracy", "mc1": "accuracy",
    "f1": "f1", "mcc": "correlation", "brier_score": "brier_score", "bleu": "text_overlap", "chrf": "text_overlap",
    "rouge1": "text_overlap", "rouge2": "text_overlap", "rougeL": "text_overlap", "ter": "edit_distance",
    "perplexity": "perplexity", "word_perplexity": "perplexity", "byte_perplexity": "perplexity",
    "bits_per_byte": "compression_rate",
}  # fmt: skip
_JUDGED = {"grade": (1.0, 10.0)}  # a judging's other metrics are shares
_NOT_SHARED = frozenset({"files", "base_url"})  # of a model's arguments: names of files and addresses of this machine
_GENERATION = {  # the format's names of settings
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_tokens": "max_tokens",
    "max_gen_toks": "max_tokens",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Publisher:
    """What a record says that no run knows. model_id: developer/model, for a model whose name is not one."""

    organization: str | None = None
    relationship: Relationship = "other"
    model_id: str | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One record of a run: its name and its estimates that have a value."""

    name: str
    estimates: tuple[Estimate, ...]
    undefined: tuple[Estimate, ...] = ()


def benchmarks_of(run: RunRow, estimates: Sequence[Estimate]) -> list[Benchmark]:
    """Return the records of a run: its one suite, else the outermost group of each task, else each task."""
    suites = [object_at(suite, "spec").get("suite") for suite in objects_at(run.extra, "suites")]
    composites = [each.task for each in estimates if each.details.get("kind") == "composite"]
    leaves = {
        leaf for suite in objects_at(run.extra, "suites") for part in list_at(suite, "leaves")
        for leaf in texts_of(part, "leaves")
    }  # fmt: skip
    is_one = len(composites) == len(suites) == 1 and leaves >= set(run.tasks)
    by_name: dict[str, list[Estimate]] = {}
    for each in estimates:
        path = each.details.get("path", ())
        by_name.setdefault(composites[0] if is_one else path[0] if path else each.task, []).append(each)
    return [
        Benchmark(
            name, tuple(each for each in own if has_value(each)), tuple(each for each in own if not has_value(each))
        )
        for name, own in by_name.items()
    ]


def has_value(estimate: Estimate) -> bool:
    """Return whether an estimate can be written: the format has no undefined and no infinite score."""
    return estimate.value is not None and math.isfinite(estimate.value)


def result_id(task: str, metric: str, name_of_filter: str) -> str:
    """Return the key that joins a result with its samples."""
    return with_filter(f"{task}/{metric}", name_of_filter, ":{}")


def evaluation_name(task: str, name_of_filter: str) -> str:
    """Return the name of a result: the task's, and a filter's after it."""
    return with_filter(task, name_of_filter, "/{}")


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """The model of a record. developer: None where neither the run nor the publisher names one."""

    id: str
    name: str
    developer: str | None

    @property
    def place(self) -> tuple[str, str]:
        """The folders of its records: developer and model."""
        developer, _, name = self.id.partition("/") if "/" in self.id else (self.developer or UNKNOWN, "", self.id)
        return folder_name(developer), folder_name(name)


def folder_name(text: str) -> str:
    """Return a name as one folder of the data store, on every system; `data` is its own."""
    name = portable_name(text.replace("/", "_").replace(":", "_"))
    return f"_{name}" if name == "data" else name


def evaluated_model(run: RunRow, publisher: Publisher) -> EvaluatedModel:
    """Return the model that a run evaluated; of a judging the one that was judged.

    Raises: UsageError for a publisher's name of the model without its developer.
    """
    name = publisher.model_id or _judged_model(run) or run.plan.model.name
    if publisher.model_id is not None and not _MODEL_ID.fullmatch(name):
        raise UsageError(f"--model_id is {name!r:.80}; expected DEVELOPER/MODEL, as openai/gpt-4o")
    if _MODEL_ID.fullmatch(name) and (publisher.model_id is not None or not _is_local(run)):
        return EvaluatedModel(name, name.rpartition("/")[2], name.partition("/")[0])
    own = publisher.organization if publisher.relationship == "first_party" else None
    short = short_model_name(name)
    return EvaluatedModel(f"{own}/{short}" if own else short, short, own)


def _is_local(run: RunRow) -> bool:
    """Return whether a run's model is a folder, whose relative path may look like a name on the Hub."""
    model = run.plan.model
    return model.kind in _ENGINES and model.revision is None and model.content_hash is not None


def _judged_model(run: RunRow) -> str | None:
    settings = run.plan.audit_settings
    models = None if settings is None else settings.settings.get("models")  # as a judging's plan has them
    return str(models[0]) if isinstance(models, list | tuple) and models else None


def record_id(run: RunRow, benchmark: Benchmark) -> UUID:
    """Return the UUID of a record's files.

    The data store takes version 4 only, and the same run has the same one: it is that of a hash.
    """
    return UUID(bytes=sha256(f"{run.run_id}/{run.created_at}/{benchmark.name}".encode()).digest()[:16], version=4)


def aggregate_record(
    run: RunRow, benchmark: Benchmark, attempts: Sequence[AttemptRow], publisher: Publisher
) -> dict[str, JsonValue]:
    """Return one record without the reference to its samples."""
    model = evaluated_model(run, publisher)
    imported = object_at(run.extra, "imported")
    began = datetime.fromisoformat(run.created_at).timestamp()
    is_reported = bool(imported) and not run.has_answers
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{folder_name(benchmark.name)}/{model.id.replace('/', '_')}/{began}",
        "evaluation_timestamp": str(int(began)),
        "retrieved_timestamp": str(datetime.fromisoformat(run.updated_at).timestamp()),
        "source_metadata": {
            "source_name": str(imported.get("tool") or "Assaymark"),
            "source_type": "documentation" if is_reported else "evaluation_run",
            "source_organization_name": publisher.organization or UNKNOWN,
            "evaluator_relationship": publisher.relationship,
        },
        "eval_library": _library(run, attempts, imported),
        "model_info": _model_info(run, model, attempts),
        "evaluation_results": [_result(run, each) for each in benchmark.estimates],
    }


def _library(run: RunRow, attempts: Sequence[AttemptRow], imported: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    facts = attempts[-1].facts if attempts else {}
    own = str(facts.get("assaymark", facts.get(FORMER_NAME, VERSION)))
    details: dict[str, JsonValue] = {
        "run_id": run.run_id,
        "run_status": run.status,
        "profile": run.plan.profile,
        "assaymark_version": VERSION if imported else own,
    }
    if not imported:
        model = model_description(attempts)
        work = attempts[-1].summary.get("work") if attempts else None
        details |= {
            "seconds": round(seconds_of(attempts), 3),
            "n_tokens": work.get("n_tokens") if isinstance(work, Mapping) else None,
            "device": model.get("device"),
            **{name: facts.get(name) for name in ("python", "platform", "processor")},
            **_versions(model),
        }
    return {
        "name": str(imported.get("tool") or "assaymark"),
        "version": str(imported.get("version") or UNKNOWN) if imported else own,
        "additional_details": texts(details),
    }


def _versions(model: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the packages that answered, with their versions."""
    versions = model.get("versions")
    return {f"{name}_version": each for name, each in versions.items()} if isinstance(versions, Mapping) else {}


def _model_info(run: RunRow, model: EvaluatedModel, attempts: Sequence[AttemptRow]) -> dict[str, JsonValue]:
    if run.plan.audit_settings is not None and _judged_model(run) is not None:
        return _plain_model(model, {})
    identity = run.plan.model
    engine = _ENGINES.get(identity.kind)
    known: dict[str, JsonValue] = {}
    if engine is not None:
        versions = {**_versions(model_description(attempts)), **(attempts[-1].facts if attempts else {})}
        stated = versions.get(engine) or versions.get(f"{_PACKAGES.get(engine)}_version")
        known["inference_engine"] = {"name": engine, **({"version": str(stated)} if stated else {})}
    details = {
        "deployment_type": "self_deployed" if engine is not None else UNKNOWN,
        "num_parameters": identity.n_parameters,
        "dtype": identity.dtype,
        "numerics": identity.numerics,
        "revision": identity.revision,
        "sha": identity.content_hash,
        "tokenizer_hash": identity.tokenizer_hash,
        "chat_template_hash": identity.template_hash,
        "max_length": identity.max_length,
        "model_args": without_folders({key: value for key, value in identity.options if key not in _NOT_SHARED})
        or None,
    }
    return {**_plain_model(model, details), **known}


def _plain_model(model: EvaluatedModel, details: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    known = {"deployment_type": UNKNOWN, "model_availability": UNKNOWN, **details}
    developer = {"developer": model.developer} if model.developer else {}
    return {"name": model.name, "id": model.id, **developer, "additional_details": texts(known)}


def _result(run: RunRow, estimate: Estimate) -> dict[str, JsonValue]:
    task = _task_of(estimate)
    facts = object_at(object_at(run.extra, "tasks"), task)
    return {
        "evaluation_result_id": result_id(estimate.task, estimate.metric, estimate.filter),
        "evaluation_name": evaluation_name(estimate.task, estimate.filter),
        "source_data": _source_data(run, estimate, task, facts),
        "evaluation_timestamp": str(int(datetime.fromisoformat(run.created_at).timestamp())),
        "metric_config": _metric_config(run, estimate, facts),
        "score_details": _score_details(estimate),
        "generation_config": _generation(run, task, facts),
    }


def _task_of(estimate: Estimate) -> str:
    """Return the task whose data an estimate is of: of a subject the task that it is a part of."""
    path = estimate.details.get("path", ())
    return path[-1] if estimate.details.get("kind") == "subject" and path else estimate.task


def _source_data(run: RunRow, estimate: Estimate, task: str, facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the data set: a repository of the Hub where the task file names one, else `other`."""
    spec = object_at(facts, "spec")
    plan = next((each for each in run.plan.tasks if each.name == task), None)
    path = str(spec.get("dataset_path") or "")
    details = texts(
        {
            "members": list(estimate.details.get("members", ())) or None,
            "config": spec.get("dataset_name"),
            "revision": facts.get("dataset_revision"),
            "rows_hash": None if plan is None else plan.dataset_hash,
            "task_version": None if plan is None else plan.version,
            "task_hash": None if plan is None else plan.spec_hash,
        }
    )
    if not is_hub_id(path):
        return {"dataset_name": task, "source_type": "other", "additional_details": details}
    indices = None if plan is None else plan.sample_indices
    known = {
        "hf_repo": path,
        "hf_split": spec.get("test_split") or spec.get("validation_split"),
        "samples_number": facts.get("n_total"),
        "sample_ids": None if indices is None else [str(index) for index in indices],
    }
    stated = {name: value for name, value in known.items() if value is not None}
    return {"dataset_name": task, "source_type": "hf_dataset", **stated, "additional_details": details}


def bounds_of(estimate: Estimate) -> tuple[float, float] | None:
    """Return the least and the largest value that an estimate can have; None where that is not known."""
    if estimate.metric in _JUDGED:
        return _JUDGED[estimate.metric]
    metric = find_metric(estimate.metric)
    is_share = estimate.details.get("unit") == "proportion" or (metric is not None and metric.is_share)
    bounds = (0.0, 1.0) if is_share else None if metric is None else metric.value_range
    value = estimate.value
    return bounds if bounds is not None and value is not None and bounds[0] <= value <= bounds[1] else None


def _metric_config(run: RunRow, estimate: Estimate, facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    name = estimate.metric
    metric, bounds = find_metric(name), bounds_of(estimate)
    listed = next((each for each in objects_at(facts, "metrics") if each.get("name") == name), {})
    is_own = "process_results" in object_at(facts, "spec")  # the task's own function computes it
    owner = "lm-evaluation-harness" if metric is not None and metric.in_lm_eval else "assaymark"
    imported = object_at(run.extra, "imported").get("tool")
    ends: dict[str, JsonValue] = {}
    if bounds is not None:
        ends = {"score_type": "continuous", "min_score": _end(bounds[0]), "max_score": _end(bounds[1])}
    known = {
        "evaluation_description": None if is_own else formula_of(name, str(facts.get("output_type"))),
        "metric_id": _IDS.get(name) or f"{imported if imported and metric is None else owner}.{name}",
        "metric_name": name,
        "metric_kind": _KINDS.get(name),
        "metric_unit": "proportion" if bounds == (0.0, 1.0) else None,
        "lower_is_better": not estimate.higher_is_better,
        **ends,
        "llm_scoring": _judge(run, name),
        "additional_details": texts(
            {
                "filter": with_filter("", estimate.filter, "{}") or None,
                "aggregation": listed.get("aggregation"),
                "kind": estimate.details.get("kind"),
                "weighting": estimate.details.get("weighting"),
                "chance": estimate.chance,
                "polarity": "not_applicable" if estimate.details.get("is_neutral") else None,
                "bounds_status": UNKNOWN if bounds is None else None,
            }
        ),
    }
    return {key: value for key, value in known.items() if value not in (None, {})}


def _end(bound: float) -> float | str:
    return bound if math.isfinite(bound) else "Infinity" if bound > 0 else "-Infinity"


def _judge(run: RunRow, metric: str) -> dict[str, JsonValue] | None:
    """Return the judge of a metric: the model of a judging, or the one that a rescoring asked."""
    settings = run.plan.audit_settings
    if settings is not None and _judged_model(run) is not None:
        name = run.plan.model.name
        prompt = {"name": settings.settings.get("prompt"), "sha256": settings.settings.get("prompt_hash")}
    else:
        judges = [
            object_at(entry, "judge") for entry in objects_at(run.extra, "rescored")
            if metric in {each.get("name") for each in objects_at(entry, "metrics")} and entry.get("judge")
        ]  # fmt: skip
        if not judges:
            return None
        name = str(judges[-1].get("name"))
        prompt = {"name": metric, "sha256": judges[-1].get("scorer_hash")}
    short = name if is_hub_id(name) else short_model_name(name)
    model = EvaluatedModel(short, short.rpartition("/")[2], short.rpartition("/")[0] or None)
    return {"judges": [{"model_info": _plain_model(model, {})}], "input_prompt": json.dumps(prompt)}


def _score_details(estimate: Estimate) -> dict[str, JsonValue]:
    uncertainty: dict[str, JsonValue] = {}
    by = "bootstrap" if "bootstrap" in estimate.method else "analytic"
    if estimate.stderr is not None and math.isfinite(estimate.stderr):
        uncertainty["standard_error"] = {"value": estimate.stderr, "method": by}
    if estimate.low is not None and estimate.high is not None and math.isfinite(estimate.high - estimate.low):
        uncertainty["confidence_interval"] = {
            "lower": estimate.low,
            "upper": estimate.high,
            "confidence_level": estimate.confidence,
            "method": estimate.method,
        }
    if estimate.n:
        uncertainty["num_samples"] = estimate.n
    details = texts(
        {
            "n_failed": estimate.n_failed,
            "n_unparsed": estimate.n_unparsed,
            **{name: estimate.details.get(name) for name in ("n_total", "n_skipped", "n_cut", "n_tied", "n_tasks")},
        }
    )
    return {"score": estimate.value, "details": details, **({"uncertainty": uncertainty} if uncertainty else {})}


def _generation(run: RunRow, task: str, facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return how answers were asked for: generation settings under the format's names, all else beside them."""
    plan = next((each for each in run.plan.tasks if each.name == task), None)
    settings: dict[str, JsonValue] = {}
    if plan is not None and isinstance(plan.generation, Mapping) and run.plan.model.kind != APPLICATION:
        settings = {name: value for name, value in plan.generation.items() if value not in (None, [], ())}
    arguments: dict[str, JsonValue] = {
        ours: settings[name] for name, ours in _GENERATION.items()
        if isinstance(settings.get(name), int | float) and not isinstance(settings.get(name), bool)
    }  # fmt: skip
    if run.command is not None:
        arguments["execution_command"] = str(without_folders(run.command))
    spec = object_at(facts, "spec")
    if isinstance(template := spec.get("doc_to_text"), str):
        arguments["prompt_template"] = template
    details = {
        **{name: value for name, value in settings.items() if name not in _GENERATION},
        "num_fewshot": None if plan is None else plan.num_fewshot,
        "fewshot_seed": run.plan.seed,
        "limit": run.plan.limit,
        "chat_template_applied": run.plan.apply_chat_template,
        "fewshot_as_multiturn": run.plan.fewshot_as_multiturn or None,
        "system_instruction": run.plan.system_instruction,
        "prompt_style": run.plan.prompt_style,
        "prompt_preset": None if run.plan.prompt_preset is None else run.plan.prompt_preset.name,
        "output_type": facts.get("output_type"),
    }
    return {"generation_args": arguments, "additional_details": texts(details)}


def texts(values: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return values as the format's further details have them: texts; what is not known is left out."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in values.items()
        if value is not None
    }
