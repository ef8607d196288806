"""Everything that decides a run's answers, frozen, and the content whose hash is the run key.

The canonical JSON text of a value, and its hash, for everything that is stored by content.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, NotRequired, TypedDict

JsonValue = object  # what json.dumps accepts; narrow it before use


def canonical_json(value: object) -> str:
    """Return the canonical JSON text of `value`: sorted keys, no spaces, unescaped. A change alters every hash."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def content_hash(value: object) -> str:
    """Return `sha256:<hex>` of the canonical JSON; the prefix names the algorithm, so a change of it is visible."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


FIRST_FIELDS: Mapping[str, frozenset[str]] = {
    "RunPlan": frozenset([
        "model", "profile", "tasks", "seed", "limit", "apply_chat_template", "fewshot_as_multiturn",
        "system_instruction", "too_long", "environment", "extra",
    ]),
    "ModelIdentity": frozenset([
        "name", "kind", "content_hash", "tokenizer_hash", "template_hash", "dtype", "numerics", "max_length",
        "n_parameters", "revision", "options",
    ]),
    "TaskPlan": frozenset([
        "name", "version", "spec_hash", "dataset_hash", "num_fewshot", "n_samples", "sample_indices", "generation",
    ]),
}  # fmt: skip
"""The fields of plans that are stored, and hashed, whatever their value. Never add to them: see `plan_content`."""


def plan_content(record: "RunPlan | ModelIdentity | TaskPlan") -> dict[str, JsonValue]:
    """Return a plan, or a part of one, as it is stored and hashed.

    A field that was added later is omitted where it has its default, so that plans which do not use it keep their
    key. Fields that this version does not know are stored as they were read; a version that knows them stored
    them only because they differ from their default, so the key comes out the same here.
    """
    first = FIRST_FIELDS[type(record).__name__]
    content: dict[str, JsonValue] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if each.name == "unknown" or "in_extra" in each.metadata:
            continue
        if each.name not in first and value == each.default:
            continue
        content[each.name] = value
    return {**content, **dict(record.unknown)}


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model answers, by content. Everything here that can change an answer is part of the run key."""

    name: str  # for people: a path or a hub id
    kind: str  # registry name: hf, fake, ...
    content_hash: str | None  # weights, config, tokenizer files, adapter; None for an HTTP model
    tokenizer_hash: str | None
    template_hash: str | None
    dtype: str
    numerics: str  # float32 | model-dtype
    max_length: int | None = None
    n_parameters: int | None = None
    revision: str | None = None
    options: tuple[tuple[str, JsonValue], ...] = ()  # arguments that can change an answer
    unknown: tuple[tuple[str, JsonValue], ...] = ()  # fields of a later version


class PerturbedFrom(TypedDict):
    """A task whose samples are perturbed copies of another task's."""

    of: str  # the other task's name
    by: str  # the perturbation's label
    family: NotRequired[str | None]  # in whose worst case the copies count, if in one; only where imported


class DrawPlan(TypedDict):
    """The rule by which a suite draws the samples of a task."""

    of: int  # number of samples before the draw
    by: str  # whose rule


class PerturbationPlan(TypedDict):
    """A perturbation by which each task of a run has copies."""

    name: str
    strength: float | None
    version: int  # of the perturbations, which changes when one of them makes other texts
    entries: NotRequired[str | None]  # the text of the user's list


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task as a run evaluates it."""

    name: str
    version: str
    spec_hash: str  # YAML after includes, and its .py files
    dataset_hash: str
    num_fewshot: int
    n_samples: int
    sample_indices: tuple[int, ...] | None = None  # only these rows, by position
    generation: JsonValue = None  # effective generation settings, where the task generates
    perturbed: PerturbedFrom | None = None  # of copies of another task's samples
    drawn: DrawPlan | None = None  # of `sample_indices` that a suite draws
    unknown: tuple[tuple[str, JsonValue], ...] = ()  # fields of a later version


AUDIT: Final = "audit"  # the key of an audit's settings, in its plan and among its results


@dataclass(frozen=True, slots=True)
class PresetPlan:
    """The prompt format of a plan, by content, so that it can be used again without the file it came from."""

    name: str
    template_hash: str
    spec: Mapping[str, JsonValue] | None = None  # the content of its YAML file; None for runs made before it was stored

    @property
    def content(self) -> dict[str, JsonValue]:
        """The format as it is stored and hashed."""
        spec = {} if self.spec is None else {"content": self.spec}
        return {"name": self.name, "template_hash": self.template_hash, **spec}


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The part of a plan that distinguishes an audit from a run."""

    kind: str
    version: int
    settings: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, JsonValue]:
        """The settings as they are stored and hashed."""
        return {"kind": self.kind, "version": self.version, **self.settings}


def _in_extra(name: str) -> dict[str, str]:
    """Return the metadata of a plan's field that is stored (unless it is None) under `extra`, as `name`."""
    return {"in_extra": name}


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything that decides a run's answers. The same plan is the same run: running again resumes it."""

    model: ModelIdentity
    profile: str
    tasks: tuple[TaskPlan, ...]
    seed: int = 1234  # of the few-shot draw
    limit: float | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool = False
    system_instruction: str | None = None
    too_long: str = "cut"  # cut | error
    environment: JsonValue = None  # only with --strict-env
    skip_bad_rows: bool = False  # rows that cannot be read are left out
    answers: str | None = None  # how the answers in files of rows name an option, where the user said so
    circular: bool = False  # questions whose prompt lists their options are asked in every rotation of them
    perturb: Sequence[PerturbationPlan] | None = None  # perturbations by which each task has copies
    # The first versions had these as pairs under `extra`; they are stored there in this order, so that keys stay.
    gen_kwargs: Mapping[str, JsonValue] | None = field(default=None, metadata=_in_extra("gen_kwargs"))
    prompt_style: str | None = field(
        default=None, metadata=_in_extra("prompting")
    )  # letter | text | cot; None: each task's own
    prompt_preset: PresetPlan | None = field(default=None, metadata=_in_extra("prompt_preset"))
    code_runs_in: Mapping[str, str] | None = field(default=None, metadata=_in_extra("code_runs_in"))  # task -> sandbox
    audit_settings: AuditPlan | None = field(default=None, metadata=_in_extra(AUDIT))
    extra: tuple[tuple[str, JsonValue], ...] = ()  # settings of another version that this one has no field for
    unknown: tuple[tuple[str, JsonValue], ...] = ()  # fields of a later version

    @property
    def audit(self) -> str | None:
        """The kind of audit this is the plan of; None for a run."""
        return None if self.audit_settings is None else self.audit_settings.kind

    @property
    def key(self) -> str:
        """The run key, without the model's `name` and `n_parameters`, which are for people."""
        of_model = plan_content(self.model)
        model = {name: value for name, value in of_model.items() if name not in ("name", "n_parameters")}
        return content_hash({**self.content, "model": model})

    @property
    def content(self) -> dict[str, JsonValue]:
        """The plan as it is stored: plain lists, dictionaries and values; later fields at their default are omitted."""
        parts = {"model": plan_content(self.model), "tasks": [plan_content(task) for task in self.tasks]}
        return {**plan_content(self), **parts, "extra": self.stored_settings}

    @property
    def stored_settings(self) -> tuple[tuple[str, JsonValue], ...]:
        """The settings that are stored under `extra`, and those of another version, in the order they are stored in."""
        pairs = ((each.metadata.get("in_extra"), getattr(self, each.name)) for each in fields(self))
        own = ((name, value) for name, value in pairs if name is not None and value is not None)
        plain = ((name, value.content if isinstance(value, PresetPlan | AuditPlan) else value) for name, value in own)
        return (*plain, *self.extra)
