"""SWE-bench's reports of predictions, read from their files, and where ours says something else.

Source: swebench.harness.reporting, release 5.0.2 (schema 2; earlier releases have no infra_failure_ids and no
ambiguous_failure_ids).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assaymark.errors import DataError
from assaymark.limits.nesting import parse_json
from assaymark.swe.report import SweReport

OUTCOMES = ("resolved", "unresolved", "empty_patch", "error", "infra_failure", "ambiguous_failure")
NOT_GRADED, NOT_SUBMITTED = "not graded", "not submitted"  # by us
NOT_LISTED = "not listed"  # by SWE-bench
_NEEDED = ("resolved_ids", "unresolved_ids")
MOST_IDS = 200_000


@dataclass(frozen=True, slots=True)
class OutcomeDifference:
    """An instance with two outcomes. reason: of ours, if more is known than which tests failed."""

    instance_id: str
    ours: str
    official: str
    reason: str


@dataclass(frozen=True, slots=True)
class OfficialComparison:
    """The comparison of SWE-bench's report with ours on the same predictions.

    Attributes:
        n_compared: instances of our set that have an outcome in either.
        differences: those whose outcomes differ, by id.
        unknown_ids: those in the official report that --instances does not have.
    """

    n_compared: int
    differences: tuple[OutcomeDifference, ...]
    unknown_ids: tuple[str, ...]


def read_official(path: Path) -> dict[str, str]:
    """Return instance id -> outcome of SWE-bench's report: a name of its lists without `_ids`.

    Raises: DataError for a file that is not such a report, and for an instance in two lists.
    """
    try:
        content: object = parse_json(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); expected SWE-bench's report, such as MODEL.ID.json") from error
    if not isinstance(content, dict) or not all(name in content for name in _NEEDED):
        raise DataError(
            f"{path} has no {' and '.join(_NEEDED)}; expected SWE-bench's report of predictions, such as MODEL.ID.json "
            "(not that of one instance, report.json)"
        )
    outcomes: dict[str, str] = {}
    for outcome in OUTCOMES:
        for name in _ids(content, f"{outcome}_ids", path):
            if outcomes.setdefault(name, outcome) != outcome:
                raise DataError(
                    f"{path} has {name} in {outcomes[name]}_ids and in {outcome}_ids; expected each instance once"
                )
    return outcomes


def _ids(content: Mapping[str, object], name: str, path: Path) -> list[str]:
    values = content.get(name, [])
    if not isinstance(values, list) or len(values) > MOST_IDS or not all(isinstance(each, str) for each in values):
        raise DataError(f"{path}, {name} is {values!r:.60}; expected a list of at most {MOST_IDS:,} instance ids")
    return values


def compare_official(report: SweReport, official: Mapping[str, str]) -> OfficialComparison:
    """Return where our report and SWE-bench's of the same predictions differ.

    official: instance id -> outcome, as `read_official`.
    """
    ours = dict.fromkeys(report.submitted, NOT_GRADED) | {name: each.outcome for name, each in report.graded.items()}
    reasons = report.reasons()
    named = [name for name in report.instances if name in ours or name in official]
    pairs = [(name, ours.get(name, NOT_SUBMITTED), official.get(name, NOT_LISTED)) for name in sorted(named)]
    return OfficialComparison(
        len(pairs),
        tuple(OutcomeDifference(*pair, reasons.get(pair[0], "")) for pair in pairs if pair[1] != pair[2]),
        tuple(sorted(set(official) - set(report.instances))),
    )
