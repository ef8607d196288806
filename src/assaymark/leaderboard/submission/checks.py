"""The checks of a submission: all of them at once, each failure with its remedy.

They read configuration and lists of files, never weights; faults that show only on loading are found by the worker,
which reports them on the submission's page.

Also the comparison of reported results with those that a worker measured.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from assaymark.documents.numbers import counted
from assaymark.errors import AssaymarkError, Retryable
from assaymark.leaderboard.rows import Fact
from assaymark.leaderboard.submission.choices import CHAT_TEMPLATE, SubmissionProblem
from assaymark.leaderboard.submission.queue_rows import NewSubmission
from assaymark.leaderboard.submission.sources import MOST_BYTES, FoundModel, ModelMissing, ModelSource
from assaymark.models.checkpoint.config_check import is_known_type
from assaymark.models.checkpoint.quantisation import QUANTISED, lacking_packages, quantised_as
from assaymark.records import Estimate

SHOWN = 3  # disagreements


def verdict_of(
    reported: Sequence[Estimate],
    measured: Sequence[Estimate],
    their_versions: Mapping[str, str] = MappingProxyType({}),
    our_versions: Mapping[str, str] = MappingProxyType({}),
) -> tuple[bool, str]:
    """Return whether the reported scores agree, and that in one sentence.

    A score agrees if it lies within the 95% interval of the measured score of the same task, metric and filter. Metrics
    that were not measured are not compared, but at least one must be; a score of a measured metric under a filter that
    was not measured is not verified, nor one of another version of its task or number of shots, where both are stated.
    """
    ours = {
        (estimate.task, estimate.metric, estimate.filter): estimate
        for estimate in measured
        if estimate.value is not None
    }
    metrics = {(task, metric) for task, metric, _ in ours}
    compared = [
        estimate for estimate in reported if estimate.value is not None and (estimate.task, estimate.metric) in metrics
    ]
    unlike: dict[str, str] = {}  # task -> in what it differs
    for estimate in compared:
        task = estimate.task
        shots = {each.details.get("n_shots") for each in (estimate, *measured) if each.task == task} - {None}
        if len({_number_of(each[task]) for each in (their_versions, our_versions) if task in each}) > 1:
            unlike[task] = f"version {their_versions[task]} reported, {our_versions[task]} measured"
        elif len(shots) > 1:
            own = next(each.details.get("n_shots") for each in measured if each.task == task)
            unlike[task] = f"{counted(estimate.details.get('n_shots') or 0, 'shot')} reported, {own} measured"
    if unlike:
        what = "; ".join(f"{task}: {how}" for task, how in list(unlike.items())[:SHOWN])
        return False, f"not verified: {counted(len(unlike), 'task')} reported of another set-up ({what})"
    pairs = [(estimate, ours.get((estimate.task, estimate.metric, estimate.filter))) for estimate in compared]
    wrong = [(estimate, other) for estimate, other in pairs if other is None or not _agrees(estimate, other)]
    if not pairs:
        return False, "none of the reported scores was measured on this board, so nothing was verified"
    if not wrong:
        return True, f"verified: all {len(pairs)} reported scores are within the 95% intervals of those measured here"
    differences = "; ".join(
        f"{estimate.task} {estimate.metric} ({estimate.filter}): {estimate.value:.4f} reported, "
        + ("not measured under this filter" if other is None else f"{other.value:.4f} measured")
        for estimate, other in wrong[:SHOWN]
    )
    return False, f"not verified: {len(wrong)} of {len(pairs)} reported scores differ ({differences})"


def _number_of(version: str) -> float | str:
    """Return a version by which 1 is 1.0."""
    try:
        return float(version)
    except ValueError:
        return version


def _agrees(reported: Estimate, other: Estimate) -> bool:
    if reported.value is None or other.value is None:
        return False
    low = other.value if other.low is None else other.low
    high = other.value if other.high is None else other.high
    return low - 1e-9 <= reported.value <= high + 1e-9


LEAST_CARD = 200  # characters
MOST_OTHER = 1 << 30  # bytes of a model's files beside its weights
_MERGE_TAGS = frozenset({"merge", "moerge", "mergekit", "lazymergekit"})
_MOE_WORDS = re.compile(r"\b(moe|mixtral|mixture[- ]of[- ]experts)\b", re.IGNORECASE)
_BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "8bit": 2,
    "4bit": 2,
    "GPTQ": 0.5,
    "AWQ": 0.5,
}  # as files have them


@dataclass(frozen=True, slots=True)
class Policy:
    """A host's requirements for submissions."""

    most_parameters: float = 100e9
    most_bytes: int = MOST_BYTES  # of weights to download
    needs_card: bool = True  # of models of the Hub: a card, and a licence in it
    per_submitter: tuple[int, float] = (5, 7 * 86400.0)  # submissions in how many seconds
    refused: Sequence[str] = ()  # names that may not be submitted
    precisions: Sequence[str] | None = None  # that the workers load; None: as this machine's packages do


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The outcome: no problem means that `new` can be submitted."""

    problems: tuple[SubmissionProblem, ...]
    passed: tuple[str, ...]
    new: NewSubmission | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)


def find_model(sources: Sequence[ModelSource], name: str, revision: str) -> FoundModel:
    """Return a model from the first source that has it.

    Raises: ModelMissing with each source's message; Retryable if a source cannot be reached.
    """
    reasons = []
    for source in sources:
        try:
            return source.find(name, revision)
        except ModelMissing as error:
            reasons.append(str(error))
    raise ModelMissing("; ".join(reasons) or "this host takes no models")


def check_submission(
    chosen: NewSubmission,
    problems: Sequence[SubmissionProblem],
    sources: Sequence[ModelSource],
    policy: Policy,
    submitter: str,
) -> CheckOutcome:
    """Check the choices; `problems` are those of `read_choices`.

    Raises: Retryable where a place of models cannot be reached now.
    """
    all_problems = list(problems)
    wrong = {problem.field for problem in problems}
    model = base = None
    if chosen.model.lower() in {name.lower() for name in policy.refused}:
        all_problems.append(SubmissionProblem("model", "may not be submitted here", "ask the host of this leaderboard"))
    if not wrong & {"model", "revision"}:
        model = _find_or_note(sources, chosen.model, chosen.revision, "model", all_problems)
    if "precision" not in wrong:
        all_problems += _of_precision(chosen.precision, policy)
    if chosen.base and not wrong & {"base", "base_revision"}:
        base = _find_or_note(sources, chosen.base, chosen.base_revision or "", "base", all_problems)
    if model is not None:
        all_problems += _of_weights(model, is_adapter=chosen.weights == "adapter")
        all_problems += [] if chosen.weights == "adapter" else _of_config(model, "model")
        all_problems += _of_card(model, policy)
        if "precision" not in wrong:
            all_problems += _of_quantisation(base if chosen.weights == "adapter" else model, chosen.precision)
        all_problems += _of_template(model, base, chosen)
        all_problems += _of_size(model, base, chosen, policy)
    if base is not None:
        all_problems += [*_of_weights(base, is_adapter=False, name="base"), *_of_config(base, "base")]
        if model is not None:
            all_problems += _of_base(model, base)
    if all_problems or model is None:
        return CheckOutcome(tuple(all_problems), _passed_checks(model, all_problems))
    return CheckOutcome((), _passed_checks(model, all_problems), _new_submission(chosen, model, base, submitter))


def _find_or_note(
    sources: Sequence[ModelSource], name: str, revision: str, field_: str, problems: list[SubmissionProblem]
) -> FoundModel | None:
    try:
        return find_model(sources, name, revision)
    except Retryable:
        raise
    except AssaymarkError as error:
        problems.append(SubmissionProblem(field_, "was not found", str(error)))
        return None


def _of_weights(model: FoundModel, *, is_adapter: bool, name: str = "model") -> list[SubmissionProblem]:
    safe = [each for each in model.weights if each.endswith(".safetensors")]
    if not safe:
        remedy = "save it with save_pretrained(..., safe_serialization=True) and submit that revision"
        return [SubmissionProblem(name, "has no weights as safetensors", remedy)]
    if is_adapter and not model.adapter:
        return [
            SubmissionProblem(
                name, "has no adapter_config.json", "choose original weights, or submit the adapter's folder"
            )
        ]
    if not is_adapter and model.adapter and not model.config:
        return [
            SubmissionProblem(
                name, "is an adapter (adapter_config.json)", "choose adapter weights and name the base model"
            )
        ]
    return []


def _of_config(model: FoundModel, name: str) -> list[SubmissionProblem]:
    if not model.config:
        return [SubmissionProblem(name, "has no config.json", "save it with save_pretrained and submit that revision")]
    kind = str(model.config.get("model_type") or "")
    known = is_known_type(kind)
    if known is False:
        remedy = "submit it once its architecture is part of transformers; code of submitters is not run"
        needs = "trust_remote_code" if model.config.get("auto_map") else f"the unknown architecture '{kind[:60]}'"
        return [SubmissionProblem(name, f"needs {needs}", remedy)]
    if model.fault:
        remedy = "load it with transformers, save it with save_pretrained and submit that revision"
        return [SubmissionProblem(name, f"cannot be loaded: {model.fault}", remedy)]
    return []


def _of_precision(precision: str, policy: Policy) -> list[SubmissionProblem]:
    """Return a problem where the host's workers cannot load a precision."""
    if policy.precisions is not None:
        if precision in policy.precisions:
            return []
        what = f"is {precision}, which the workers of this host do not load"
        return [SubmissionProblem("precision", what, f"choose one of {', '.join(policy.precisions)}")]
    if not (lacking := lacking_packages(precision)):
        return []
    what = f"is {precision}, and this host lacks {' and '.join(lacking)} to load it"
    return [SubmissionProblem("precision", what, "choose float32, bfloat16 or float16, or ask the host")]


def _of_quantisation(model: FoundModel | None, precision: str) -> list[SubmissionProblem]:
    """Return a problem if a checkpoint's own quantisation differs from the chosen precision."""
    own = "" if model is None else quantised_as(model.config)
    if own == precision or (not own and precision not in {"GPTQ", "AWQ"}):
        return []
    if not own:
        remedy = "submit a checkpoint that was quantised so, or choose another precision"
        return [SubmissionProblem("precision", f"is {precision}, which the model's config.json does not state", remedy)]
    if own not in QUANTISED:
        remedy = "submit weights that are not quantised, or in 8bit, 4bit, GPTQ or AWQ"
        return [SubmissionProblem("model", f"is quantised by {own}, which is not evaluated here", remedy)]
    return [SubmissionProblem("precision", f"is {precision}, and the weights are quantised ({own})", f"choose {own}")]


def _of_card(model: FoundModel, policy: Policy) -> list[SubmissionProblem]:
    if model.source != "hub" or not policy.needs_card:
        return []
    problems = []
    if len(model.card) < LEAST_CARD:
        fault = f"has a card of {len(model.card)} characters" if model.card else "has no card"
        problems.append(
            SubmissionProblem("model", fault, f"describe it in README.md, in {LEAST_CARD} characters or more")
        )
    if not model.licence:
        remedy = "add `license:` (for `other`: license_name and license_link) to the front matter of README.md"
        problems.append(SubmissionProblem("model", "states no licence", remedy))
    if model.needs_permission:
        problems.append(
            SubmissionProblem("model", "is private or gated", "make it public: it is fetched without a token")
        )
    return problems


def _of_template(model: FoundModel, base: FoundModel | None, chosen: NewSubmission) -> list[SubmissionProblem]:
    if chosen.preset != CHAT_TEMPLATE or model.has_template or (base is not None and base.has_template):
        return []
    remedy = "add chat_template to tokenizer_config.json, or choose a preset by its name, or none"
    return [SubmissionProblem("preset", "is the model's chat template, and the model has none", remedy)]


def _of_size(
    model: FoundModel, base: FoundModel | None, chosen: NewSubmission, policy: Policy
) -> list[SubmissionProblem]:
    counted = [found_model for found_model in (model, base) if found_model is not None]
    n_bytes = sum(found_model.n_bytes for found_model in counted)
    problems = []
    if n_bytes > policy.most_bytes:
        fault = f"has {n_bytes / 1e9:,.0f} GB of weights"
        problems.append(SubmissionProblem("model", fault, f"this host takes at most {policy.most_bytes / 1e9:,.0f} GB"))
    if (n_other := sum(found_model.n_other_bytes for found_model in counted)) > MOST_OTHER:
        fault = f"has {n_other / 1e9:,.1f} GB of files beside its weights"
        problems.append(
            SubmissionProblem("model", fault, f"remove them; this host takes at most {MOST_OTHER / 1e9:,.1f} GB")
        )
    n_parameters = sum(
        found_model.n_parameters or int(found_model.n_bytes / _BYTES.get(chosen.precision, 4))
        for found_model in counted
    )
    if n_parameters > policy.most_parameters:
        fault = f"has {n_parameters / 1e9:,.1f} B parameters"
        problems.append(
            SubmissionProblem("model", fault, f"this host takes at most {policy.most_parameters / 1e9:,.0f} B")
        )
    return problems


def _of_base(model: FoundModel, base: FoundModel) -> list[SubmissionProblem]:
    named = str(model.adapter.get("base_model_name_or_path") or "")
    if named and "/" in named and named.lower() != base.name.lower() and not named.startswith(("/", ".")):
        return [
            SubmissionProblem(
                "base", f"is '{base.name}', and the adapter was trained on '{named[:100]}'", "name that one"
            )
        ]
    return []


def _passed_checks(model: FoundModel | None, problems: Sequence[SubmissionProblem]) -> tuple[str, ...]:
    """List the checks that passed, for checks on the submitter's machine."""
    if model is None:
        return ()
    fields = {problem.field for problem in problems}
    lines = [f"found on {'the Hub' if model.source == 'hub' else 'this host'} at revision {model.revision[:20]}"]
    if "model" not in fields:
        lines += [f"safetensors, {model.n_bytes / 1e6:,.1f} MB; loads without remote code"]
    if model.licence:
        lines.append(f"licence {model.licence}")
    return tuple(lines)


def _new_submission(chosen: NewSubmission, model: FoundModel, base: FoundModel | None, submitter: str) -> NewSubmission:
    architectures = model.config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    text = f"{model.name} {model.card[:5000]}"
    facts: dict[str, Fact] = {
        "params": None if model.n_parameters is None else model.n_parameters / 1e9,
        "licence": model.licence,
        "architecture": architecture if isinstance(architecture, str) else None,
        "merged": bool(_MERGE_TAGS & {tag.lower() for tag in model.tags}),
        "moe": bool(_MOE_WORDS.search(text)) or "num_local_experts" in model.config,
        "chat_template": model.has_template,
        "precision": chosen.precision if chosen.precision in QUANTISED else None,
        "is_quantised": bool(quantised_as((base or model).config)) or None,
    }
    return replace(
        chosen,
        submitter=submitter,
        model=model.name,
        revision=model.revision,
        source=model.source,
        content_hash=model.content_hash,
        base=base.name if base else None,
        base_revision=base.revision if base else None,
        facts={key: value for key, value in facts.items() if value is not None},
    )
