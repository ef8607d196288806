"""HELM's run folders as typed records: the content of each file, checked and bounded.

A folder may come from anyone. Its files are read only where they are plain files inside the folder and not too large;
values that are not of HELM's types are refused with the file's name. A folder as HELM publishes it, without the large
scenario_state.json, is read from instances.json, display_requests.json and display_predictions.json.

Source: crfm-helm 0.5, benchmark/runner.py, benchmark/presentation/run_display.py
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from assaymark.errors import DataError
from assaymark.interop.log_files import parse_json
from assaymark.limits.regular_files import content_of
from assaymark.records import JsonValue
from assaymark.records.json_values import list_at

FILES = (
    "run_spec.json", "scenario.json", "scenario_state.json", "per_instance_stats.json", "stats.json",
    "instances.json", "display_requests.json", "display_predictions.json",
)  # fmt: skip
LARGEST_FILE = 2**31  # bytes
MOST_ENTRIES = 2_000_000  # requests, statistics or instances of a file
LONGEST_NAME = 1000

T = TypeVar("T")
Family = str | None


@dataclass(frozen=True, slots=True)
class HelmPerturbation:
    """HELM's description of a perturbation: of a copy, or of the samples of a statistic."""

    name: str
    family: Family  # robustness or fairness; None for neither
    computed_on: str  # perturbed, original (the instances that have a copy, as they are) or worst
    settings: tuple[tuple[str, str | float | bool | None], ...]  # strength, classes, seed ...

    @property
    def seed(self) -> int | None:
        """The number of a further copy by the same perturbation; None for the first."""
        seed = dict(self.settings).get("seed")
        return int(seed) if isinstance(seed, int) and not isinstance(seed, bool) else None


@dataclass(frozen=True, slots=True)
class HelmStat:
    """One statistic. mean: None where it was computed on nothing."""

    name: str
    split: str | None
    sub_split: str | None
    perturbation: HelmPerturbation | None
    mean: float | None


@dataclass(frozen=True, slots=True)
class InstanceStats:
    """The statistics of one instance, or of one of its copies, in one trial."""

    instance_id: str
    perturbation: HelmPerturbation | None
    trial: int
    stats: tuple[HelmStat, ...]


@dataclass(frozen=True, slots=True)
class HelmState:
    """One request with its result. reference: the position of the option that it scores, if it scores one."""

    instance_id: str
    split: str | None
    perturbation: HelmPerturbation | None
    trial: int
    input: Mapping[str, JsonValue]  # {"text": ...}, or media
    references: tuple[tuple[str, tuple[str, ...]], ...]  # text, tags
    reference: int | None
    mode: str | None  # of a request that scores an option: original or calibration
    n_letters: int | None  # options that the answer's letter stands for
    prompt: str
    n_shots: int
    is_truncated: bool
    answer: str | None  # the first completion; None: there is none
    tokens: tuple[tuple[str, float | None], ...]  # of that completion: text, log-probability in nats
    error: str | None


@dataclass(frozen=True, slots=True)
class HelmFolder:
    """One run of HELM: one scenario, one model."""

    path: Path
    name: str
    model: str
    adapter: Mapping[str, JsonValue]
    states: tuple[HelmState, ...]
    per_instance: tuple[InstanceStats, ...]
    stats: tuple[HelmStat, ...]
    files: tuple[Path, ...]


def read_folder(path: Path) -> HelmFolder:
    """Return a run folder's records.

    Raises: DataError if a file is missing, too large, a link out of the folder, or not in HELM's format.
    """
    files = tuple(path / name for name in sorted(FILES) if (path / name).exists() or (path / name).is_symlink())
    names = {file.name for file in files}
    spec = _Entry(_loaded(path / "run_spec.json", dict), str(path / "run_spec.json"))
    adapter = spec.child("adapter_spec")
    if "scenario_state.json" in names:
        states = tuple(_states(path / "scenario_state.json"))
    elif {"instances.json", "display_requests.json", "display_predictions.json"} <= names:
        states = tuple(_displayed_states(path))
    else:
        raise DataError(
            f"{path} has neither scenario_state.json nor instances.json, display_requests.json and "
            "display_predictions.json; expected a run folder of helm-run or helm-summarize"
        )
    if "per_instance_stats.json" in names:
        per_instance = tuple(_per_instance(path / "per_instance_stats.json"))
    elif "display_predictions.json" in names:
        per_instance = tuple(_displayed_stats(path / "display_predictions.json", states))
    else:
        raise DataError(f"{path} has no per_instance_stats.json; expected a run folder of helm-run or helm-summarize")
    return HelmFolder(
        path,
        spec.text("name"),
        adapter.text("model"),
        adapter.value,
        states,
        per_instance,
        tuple(_stat(entry) for entry in _entries(path / "stats.json")),
        files,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A JSON object of a file, whose values are had by type. Every method raises DataError for another type."""

    value: Mapping[str, JsonValue]
    where: str

    def child(self, key: str) -> "_Entry":
        """Return an object."""
        return _Entry(self._of_type(key, dict, "an object"), f"{self.where} {key}")

    def optional_child(self, key: str) -> "_Entry | None":
        """Return an object; None where there is none."""
        return None if self.value.get(key) is None else self.child(key)

    def children(self, key: str) -> list["_Entry"]:
        """Return a list of objects; empty where there is none."""
        listed = [] if self.value.get(key) is None else self._of_type(key, list, "a list")
        return [_Entry(_object(each, f"{self.where} {key}"), f"{self.where} {key}") for each in listed]

    def text(self, key: str) -> str:
        """Return a name: a text of at most 1,000 characters."""
        text = str(self._of_type(key, str, "a text"))
        if len(text) > LONGEST_NAME:
            raise DataError(f"{self.where}: {key} has {len(text):,} characters; expected at most {LONGEST_NAME:,}")
        return text

    def optional_text(self, key: str) -> str | None:
        """Return a text of any length; None where there is none."""
        return None if self.value.get(key) is None else str(self._of_type(key, str, "a text"))

    def number(self, key: str) -> float | None:
        """Return a number; None where there is none."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
            raise DataError(f"{self.where}: {key} is {value!r:.60}; expected a number")
        return float(value)

    def count(self, key: str) -> int | None:
        """Return a whole number from 0 on; None where there is none."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**31:
            raise DataError(f"{self.where}: {key} is {value!r:.60}; expected a whole number from 0 on")
        return value

    def flag(self, key: str) -> bool:
        """Return whether a value is true; False where there is none."""
        return False if self.value.get(key) is None else bool(self._of_type(key, bool, "true or false"))

    def _of_type(self, key: str, kind: type[T], expected: str) -> T:
        value = self.value.get(key)
        if not isinstance(value, kind):
            stated = f"is {value!r:.60}" if key in self.value else "is missing"
            raise DataError(f"{self.where}: {key} {stated}; expected {expected}")
        return value


def _object(value: object, where: str) -> Mapping[str, JsonValue]:
    if not isinstance(value, dict):
        raise DataError(f"{where} contains {value!r:.60}; expected objects")
    return value


def _loaded(file: Path, kind: type[T]) -> T:
    """Return a file's JSON. Raises: DataError, also if it is not a plain file inside the folder."""
    expected = "an object" if kind is dict else "a list"
    try:
        content = content_of(file, LARGEST_FILE, (file.parent,))
    except DataError as error:
        raise DataError(f"{file} {error}; expected {expected} in JSON") from error
    loaded = parse_json(content, str(file))
    if not isinstance(loaded, kind):
        raise DataError(f"{file} contains a {type(loaded).__name__}; expected {expected}")
    return loaded


def _entries(file: Path) -> Iterator[_Entry]:
    return _objects(_loaded(file, list), str(file))


def _objects(listed: Sequence[object], where: str) -> Iterator[_Entry]:
    if len(listed) > MOST_ENTRIES:
        raise DataError(f"{where} has {len(listed):,} entries; at most {MOST_ENTRIES:,} are read")
    for place, entry in enumerate(listed):
        yield _Entry(_object(entry, where), f"{where} [{place}]")


def _perturbation(entry: _Entry | None) -> HelmPerturbation | None:
    if entry is None:
        return None
    fixed = {"name", "robustness", "fairness", "computed_on"}
    settings = {
        name[:LONGEST_NAME]: value if not isinstance(value, str) else value[:LONGEST_NAME]
        for name, value in entry.value.items()
        if name not in fixed and (value is None or isinstance(value, str | int | float))
    }
    family = "robustness" if entry.flag("robustness") else "fairness" if entry.flag("fairness") else None
    computed_on = entry.optional_text("computed_on") or "perturbed"
    return HelmPerturbation(entry.text("name"), family, computed_on, tuple(sorted(settings.items())))


def _stat(entry: _Entry) -> HelmStat:
    name = entry.child("name")
    return HelmStat(
        name.text("name"), name.optional_text("split"), name.optional_text("sub_split"),
        _perturbation(name.optional_child("perturbation")), entry.number("mean")
    )  # fmt: skip


def _per_instance(file: Path) -> Iterator[InstanceStats]:
    for entry in _entries(file):
        yield InstanceStats(
            entry.text("instance_id"),
            _perturbation(entry.optional_child("perturbation")),
            entry.count("train_trial_index") or 0,
            tuple(_stat(stat) for stat in entry.children("stats")),
        )


def _references(instance: _Entry) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (
            reference.child("output").optional_text("text") or "",
            tuple(str(tag)[:LONGEST_NAME] for tag in list_at(reference.value, "tags")),
        )
        for reference in instance.children("references")
    )


def _states(file: Path) -> Iterator[HelmState]:
    listed = _loaded(file, dict).get("request_states")
    if not isinstance(listed, list):
        raise DataError(f"{file} has no list of request_states; expected HELM's scenario state")
    for entry in _objects(listed, f"{file} request_states"):
        instance, result = entry.child("instance"), entry.optional_child("result")
        request = entry.optional_child("request")
        mapping = entry.optional_child("output_mapping")
        completions = [] if result is None else result.children("completions")
        first = completions[0] if completions else None
        tokens = [] if first is None else first.children("tokens")
        has_failed = result is not None and result.value.get("success") is False
        own_input = instance.child("input")
        yield HelmState(
            instance_id=instance.text("id"),
            split=instance.optional_text("split"),
            perturbation=_perturbation(instance.optional_child("perturbation")),
            trial=entry.count("train_trial_index") or 0,
            input=own_input.value,
            references=_references(instance),
            reference=entry.count("reference_index"),
            mode=entry.optional_text("request_mode"),
            n_letters=len(mapping.value) if mapping is not None and mapping.value else None,
            prompt=(request.optional_text("prompt") if request is not None else None)
            or own_input.optional_text("text")
            or "",
            n_shots=entry.count("num_train_instances") or 0,
            is_truncated=entry.flag("prompt_truncated"),
            answer=None if first is None else first.optional_text("text") or "",
            tokens=tuple((token.optional_text("text") or "", token.number("logprob")) for token in tokens),
            error=(result.optional_text("error") if result is not None else None) or "the request failed"
            if has_failed
            else None,
        )


_Key = tuple[str, HelmPerturbation | None, int]


def _displayed_states(path: Path) -> Iterator[HelmState]:
    """Yield the states in the files of HELM's web page; for options scored one by one only the chosen one."""
    instances: dict[tuple[str, HelmPerturbation | None], _Entry] = {
        (entry.text("id"), _perturbation(entry.optional_child("perturbation"))): entry
        for entry in _entries(path / "instances.json")
    }
    prompts = {
        _key(entry): entry.child("request").optional_text("prompt")
        for entry in _entries(path / "display_requests.json")
    }
    for entry in _entries(path / "display_predictions.json"):
        key = _key(entry)
        instance = instances.get(key[:2])
        if instance is None:
            raise DataError(f"{entry.where}: instance {key[0]!r:.60} is not in instances.json; expected that it is")
        own_input = instance.child("input")
        references = _references(instance)
        yield HelmState(
            instance_id=key[0],
            split=instance.optional_text("split"),
            perturbation=key[1],
            trial=key[2],
            input=own_input.value,
            references=references,
            reference=entry.count("reference_index"),
            mode=None,
            n_letters=len(references) if entry.value.get("mapped_output") is not None else None,
            prompt=prompts.get(key) or own_input.optional_text("text") or "",
            n_shots=0,
            is_truncated=False,
            answer=entry.optional_text("predicted_text") or "",
            tokens=(),
            error=None,
        )


def _key(entry: _Entry) -> _Key:
    perturbation = _perturbation(entry.optional_child("perturbation"))
    return entry.text("instance_id"), perturbation, entry.count("train_trial_index") or 0


def _displayed_stats(file: Path, states: Sequence[HelmState]) -> Iterator[InstanceStats]:
    """Yield the means that HELM's web page shows with each prediction."""
    splits = {state.instance_id: state.split for state in states}
    for entry in _entries(file):
        instance_id, perturbation, trial = _key(entry)
        stats = entry.child("stats")
        yield InstanceStats(
            instance_id,
            perturbation,
            trial,
            tuple(
                HelmStat(name[:LONGEST_NAME], splits.get(instance_id), None, perturbation, stats.number(name))
                for name in stats.value
            ),
        )
