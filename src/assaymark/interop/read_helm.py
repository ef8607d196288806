"""Reader of HELM's run folders: run_spec.json, scenario_state.json, per_instance_stats.json and stats.json.

Only metrics of answers are imported; HELM's statistics also include numbers of tokens, times and the like, and values
under perturbed inputs. Several train trials of an instance become one score, their mean, as in HELM.
Source: crfm-helm 0.5, https://crfm-helm.readthedocs.io
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, ForeignSample, Importer, ReportedValue
from assaymark.interop.log_files import json_object, one_model, parse_json
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import find_metric, is_higher_better

__all__ = ["helm_folders", "read_helm"]

BOOKKEEPING = re.compile(
    r"num_|finish_reason_|inference_|training_|prompt_truncated|max_prob|batch_size|logprob|perplexity|bits_per_byte|"
    r"predicted_index"
)
OF_MODEL = {"model", "model_deployment"}  # arguments in a run's name that do not belong to its task
MAIN_SPLIT = "test"


@dataclass(frozen=True, slots=True)
class _HelmRun:
    """One run of HELM: one scenario, one model."""

    path: Path
    spec: Mapping[str, Any]
    states: Sequence[Mapping[str, Any]]
    per_instance: Sequence[Mapping[str, Any]]
    stats: Sequence[Mapping[str, Any]]

    @property
    def task(self) -> str:
        """The run's name without its model, so that two models' runs are of the same task."""
        name, _, arguments = str(self.spec["name"]).partition(":")
        kept = [
            argument for argument in arguments.split(",") if argument and argument.partition("=")[0] not in OF_MODEL
        ]
        return f"{name}:{','.join(kept)}" if kept else name

    @property
    def split(self) -> str:
        """The split whose values are used: the test split if there is one."""
        splits = {str(state["instance"].get("split", MAIN_SPLIT)) for state in self.states}
        return MAIN_SPLIT if MAIN_SPLIT in splits or not splits else min(splits)


def helm_folders(path: Path) -> list[Path]:
    """Return the run folders at or below a path; empty if there are none."""
    if path.name == "run_spec.json":
        return [path.parent]
    return sorted(file.parent for file in path.rglob("run_spec.json")) if path.is_dir() else []


def read_helm(path: Path) -> ForeignRun:
    """Return the run in a folder of HELM, or in a suite's folder with runs of one model.

    Raises: DataError if a file is missing or not in HELM's format, or the runs are of several models.
    """
    folders = [_folder(folder) for folder in helm_folders(path)]
    model = one_model([str(folder.spec["adapter_spec"]["model"]) for folder in folders], path)
    samples = [sample for folder in folders for sample in _samples(folder)]
    return ForeignRun(
        tool="helm",
        model=model,
        tasks=tuple(_task(folder) for folder in folders),
        samples=tuple(samples),
        reported=tuple(value for folder in folders for value in _reported(folder)),
        files=tuple(file for folder in folders for file in sorted(folder.path.glob("*.json"))),
        config={folder.task: dict(folder.spec["adapter_spec"]) for folder in folders},
    )


def _folder(path: Path) -> _HelmRun:
    state = json_object(path / "scenario_state.json")
    return _HelmRun(
        path,
        json_object(path / "run_spec.json"),
        [
            request_state
            for request_state in state["request_states"]
            if not request_state["instance"].get("perturbation")
        ],
        _list(path / "per_instance_stats.json"),
        _list(path / "stats.json"),
    )


def _list(file: Path) -> list[dict[str, Any]]:
    try:
        loaded = parse_json(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {error}; expected HELM's list of statistics") from error
    if not isinstance(loaded, list):
        raise DataError(f"{file} contains a {type(loaded).__name__}; expected HELM's list of statistics")
    return loaded


def _measured(stats: Sequence[Mapping[str, Any]], split: str) -> dict[str, float]:
    """Return the metrics of answers by name: of this split, on unperturbed inputs."""
    known = {
        str(stat["name"]["name"]): float(stat["mean"])
        for stat in stats
        if stat["name"].get("split", split) == split
        and not stat["name"].get("perturbation")
        and isinstance(stat.get("mean"), int | float)
    }
    of_answers = {name: value for name, value in known.items() if not BOOKKEEPING.match(name) and "@" not in name}
    return of_answers or {name: value for name, value in known.items() if _measures_text(name)}


def _measures_text(name: str) -> bool:
    """Return whether a metric says how probable a text is: all that there is where a text is scored."""
    row = find_metric(name)
    return row is not None and row.measures_text


def _task(folder: _HelmRun) -> TaskSummaryInput:
    adapter = folder.spec["adapter_spec"]
    shots = [int(state.get("num_train_instances") or 0) for state in folder.states]
    return TaskSummaryInput(
        name=folder.task,
        metrics=tuple(
            MetricInput(name, higher_is_better=is_higher_better(name)) for name in _measured(folder.stats, folder.split)
        ),
        output_type="generate_until",
        num_fewshot=max(shots, default=int(adapter.get("max_train_instances") or 0)),
    )


def _reported(folder: _HelmRun) -> Iterator[ReportedValue]:
    n = len({state["instance"]["id"] for state in folder.states})
    for name, value in _measured(folder.stats, folder.split).items():
        yield ReportedValue(folder.task, name, value, None, n)


# -------------------------------------------------------------------------------------------- samples


def _samples(folder: _HelmRun) -> Iterator[ForeignSample]:
    scores: dict[str, dict[str, list[float]]] = {}
    for entry in folder.per_instance:
        if not entry.get("perturbation"):
            for name, value in _measured(entry["stats"], folder.split).items():
                scores.setdefault(str(entry["instance_id"]), {}).setdefault(name, []).append(value)
    states: dict[str, list[Mapping[str, Any]]] = {}
    for state in folder.states:
        if state["instance"].get("split", folder.split) == folder.split:
            states.setdefault(str(state["instance"]["id"]), []).append(state)
    for index, (instance, own) in enumerate(states.items()):
        means = {name: sum(values) / len(values) for name, values in scores.get(instance, {}).items()}
        yield _sample(folder, index, own, means)


def _sample(
    folder: _HelmRun, index: int, states: Sequence[Mapping[str, Any]], scores: Mapping[str, float]
) -> ForeignSample:
    first = states[0]
    references = first["instance"].get("references") or ()
    right = [str(reference["output"]["text"]) for reference in references if "correct" in (reference.get("tags") or ())]
    failed = [state for state in states if not (state.get("result") or {}).get("success", True)]
    by_reference = any(state.get("reference_index") is not None for state in states)
    completions = [(state.get("result") or {}).get("completions") or () for state in states]
    return ForeignSample(
        task=folder.task,
        index=index,
        row={
            "input": first["instance"]["input"],
            "references": [
                {"text": reference["output"]["text"], "tags": list(reference.get("tags") or ())}
                for reference in references
            ],
        },
        prompt=str((first.get("request") or {}).get("prompt") or first["instance"]["input"].get("text", "")),
        target=" or ".join(right),
        scores=dict(scores),
        # if each reference is a request of its own, its log-likelihood includes the prompt's, so it is not imported
        answers=() if by_reference else tuple(str(of_state[0].get("text", "")) for of_state in completions if of_state),
        n_choices=len(first.get("output_mapping") or ()) or None,
        n_shots=int(first.get("num_train_instances") or 0),
        error=str(failed[0]["result"].get("error") or "the request failed") if failed and not scores else None,
    )


IMPORTER = Importer(helm_folders, read_helm, "HELM's run folders")
