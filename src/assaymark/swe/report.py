"""The report on a file of predictions: SWE-bench's, with intervals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.drafts import write_whole
from assaymark.errors import DataError, UsageError, write_errors
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean
from assaymark.store.connection import OpenStore
from assaymark.swe.grading import Graded, match_predictions
from assaymark.swe.grading_log import GradingLog, StoredAttempt
from assaymark.swe.instances import Instance, Prediction, is_empty

COMPLETED = frozenset({"resolved", "unresolved"})
SCORED = COMPLETED | {"error", "ambiguous_failure", "empty_patch"}
"""Outcomes that count: of an instance that is not runnable here, nothing is known."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of one attempt; cost: None if not known."""

    n_calls: int
    cost: float | None
    is_resolved: bool
    key: str  # of the stored attempt


@dataclass(frozen=True, slots=True)
class Efforts:
    """The efforts of the attempts whose trajectories are stored, by instance."""

    by_instance: Mapping[str, Effort]

    @property
    def n_calls(self) -> int:
        """Calls of the model, in all."""
        return sum(each.n_calls for each in self.by_instance.values())

    @property
    def cost(self) -> float | None:
        """Cost in all; None where it is not known of each."""
        costs = [each.cost for each in self.by_instance.values() if each.cost is not None]
        return sum(costs) if len(costs) == len(self.by_instance) else None

    @property
    def n_resolved(self) -> int:
        """Attempts that resolved their instance."""
        return sum(each.is_resolved for each in self.by_instance.values())


@dataclass(frozen=True, slots=True)
class SweReport:
    """The report on a file of predictions.

    Attributes:
        model: that wrote the patches.
        instances: of the set, in order.
        graded: instance id -> the outcome of its prediction; instances that are not graded yet are missing.
        submitted: ids of the predictions.
        estimate: of the share that is resolved, over the instances whose predictions are scored; None without any.
        efforts: of the attempts that are stored; None without any.
    """

    model: str
    instances: tuple[str, ...]
    graded: Mapping[str, Graded]
    submitted: tuple[str, ...]
    estimate: IntervalEstimate | None
    efforts: Efforts | None = None
    environments: tuple[str, ...] = ()

    def ids(self, *outcomes: str) -> list[str]:
        """Return the instances with one of the outcomes, sorted."""
        return sorted(name for name, each in self.graded.items() if each.outcome in outcomes)

    def scores(self) -> dict[str, float]:
        """Return instance id -> 1 for resolved, else 0; without instances that are not runnable here."""
        return {name: float(each.outcome == "resolved") for name, each in self.graded.items() if each.outcome in SCORED}

    def flags(self) -> dict[str, list[str]]:
        """Return instance id -> remarks for people to look at."""
        return {
            name: list(each.grading.details["flags"])
            for name, each in sorted(self.graded.items())
            if each.grading is not None and each.grading.details.get("flags")
        }

    def reasons(self) -> dict[str, str]:
        """Return instance id -> why it is not resolved, where that is more than tests that failed."""
        return {name: each.reason for name, each in sorted(self.graded.items()) if each.reason}

    def official(self) -> dict[str, object]:
        """Return SWE-bench's report. Source: swebench.harness.reporting, release 5.0.2."""
        lists = {
            "submitted": sorted(self.submitted),
            "completed": self.ids(*COMPLETED),
            "incomplete": sorted(set(self.instances) - set(self.submitted)),
            "resolved": self.ids("resolved"),
            "unresolved": self.ids("unresolved"),
            "infra_failure": self.ids("infra_failure"),
            "ambiguous_failure": self.ids("ambiguous_failure"),
            "empty_patch": self.ids("empty_patch"),
            # as there, a prediction without a result is an error
            "error": sorted({*self.ids("error"), *(set(self.submitted) - set(self.graded))}),
        }
        counts = {f"{name}_instances": len(ids) for name, ids in lists.items() if name != "incomplete"}
        return {
            "total_instances": len(self.instances),
            **counts,
            **{f"{name}_ids": ids for name, ids in lists.items()},
            "failure_reasons": self.reasons(),
            "schema_version": 2,
        }

    def to_json(self) -> dict[str, object]:
        """Return SWE-bench's report with additional facts."""
        interval = None if self.estimate is None else {
            "resolved_share": self.estimate.value, "low": self.estimate.low, "high": self.estimate.high,
            "n": self.estimate.n, "method": self.estimate.method,
        }  # fmt: skip
        efforts = self.efforts
        per_resolved = None if efforts is None else {
            "attempts": len(efforts.by_instance), "model_calls": efforts.n_calls, "cost": efforts.cost,
            "calls_per_resolved": efforts.n_calls / efforts.n_resolved if efforts.n_resolved else None,
            "cost_per_resolved": efforts.cost / efforts.n_resolved
            if efforts.cost is not None and efforts.n_resolved else None,
        }  # fmt: skip
        return {
            "model": self.model,
            **self.official(),
            "not_graded_ids": sorted(set(self.submitted) - set(self.graded)),
            "estimate": interval,
            "flags": self.flags(),
            "efforts": per_resolved,
            "environments": list(self.environments),
        }


def stored_report(store: OpenStore, instances: Sequence[Instance], predictions: Sequence[Prediction]) -> SweReport:
    """Return the report of predictions from their stored gradings; of several environments the latest counts.

    Raises: DataError, as `match_predictions`.
    """
    log = GradingLog(store)
    graded: dict[str, Graded] = {}
    attempts: list[tuple[str, StoredAttempt]] = []
    environments: set[str] = set()
    for instance, prediction in match_predictions(instances, predictions):
        name = instance.instance_id
        if is_empty(prediction):
            graded[name] = Graded(prediction, "empty_patch", "the patch is empty")
        elif stored := log.gradings(prediction.patch_sha, instance.sha):
            graded[name] = Graded(prediction, stored[0].outcome, stored[0].reason, stored[0])
            environments.add(stored[0].environment_sha)
        elif (why := log.why_not_runnable(instance.sha)) is not None:
            graded[name] = Graded(prediction, "infra_failure", f"not runnable here: {why}")
        earlier = log.attempts_of(prediction.patch_sha, name, prediction.model_name_or_path)
        attempts += [(name, each) for each in earlier[-1:]]
    made = SweReport(
        predictions[0].model_name_or_path,
        tuple(each.instance_id for each in instances),
        graded,
        tuple(each.instance_id for each in predictions),
        None,
        _efforts(attempts, graded),
        tuple(sorted(environments)),
    )
    scores = list(made.scores().values())
    estimate = estimate_mean(scores, binary=True) if scores else None
    return replace(made, estimate=estimate)


def _efforts(attempts: Sequence[tuple[str, StoredAttempt]], graded: Mapping[str, Graded]) -> Efforts | None:
    if not attempts:
        return None
    return Efforts(
        {
            name: Effort(each.n_calls, each.cost, name in graded and graded[name].outcome == "resolved", each.key)
            for name, each in attempts
        }
    )


def report_file(report: SweReport, run_id: str, folder: Path) -> Path:
    """Write SWE-bench's report as `{model}.{run_id}.json` and return its path.

    Raises: UsageError for an id that cannot be part of a file's name; DataError where it cannot be written.
    """
    if not run_id or not all(letter.isalnum() or letter in "._-" for letter in run_id):
        raise UsageError(f"--run_id is '{run_id}'; expected letters, digits, '.', '_' and '-'")
    path = folder / f"{report.model.replace('/', '__')}.{run_id}.json"
    with write_errors(path, kind=DataError):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(report.official(), indent=4) + "\n")
    return path
