"""What others report of a model beside what was measured of it: the difference, and whether the interval covers it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assaymark.documents.blocks import Block, Cell, Column, Paragraph, table
from assaymark.documents.numbers import NOTHING, counted, shown_difference, shown_interval, shown_value
from assaymark.interop.hub_results import counterparts, is_covered, minus_reported
from assaymark.leaderboard.columns import ORIGINS
from assaymark.leaderboard.own_rows import latest_reports
from assaymark.leaderboard.stored import StoredRun
from assaymark.options.of_plans import part_shown
from assaymark.records import Estimate, with_filter
from assaymark.results.estimate_texts import is_proportion, reported_words


@dataclass(frozen=True, slots=True)
class ReportedBeside:
    """A reported value beside a measured one of the same benchmark; None where there is none."""

    reported: Estimate
    who: str  # reports it, and when
    measured: Estimate | None
    run: StoredRun | None

    @property
    def difference(self) -> float | None:
        """Measured minus reported; None where one is undefined or in another unit."""
        return None if self.measured is None else minus_reported(self.measured, self.reported)

    @property
    def is_covered(self) -> bool | None:
        """Whether the measured value's interval covers the reported one; None where there is no such interval."""
        return None if self.measured is None else is_covered(self.measured, self.reported)

    def to_json(self) -> dict[str, object]:
        """Return the pair with stable names."""
        own = self.measured
        return {
            "task": self.reported.task, "metric": self.reported.metric, "value": self.reported.value,
            "reported": self.reported.details.get("reported"), "who": self.who,
            "measured": None if own is None else {
                "run": None if self.run is None else self.run.run_id, "task": own.task, "metric": own.metric,
                "filter": own.filter, "value": own.value, "low": own.low, "high": own.high, "n": own.n,
            },
            "difference": self.difference, "is_covered": self.is_covered,
        }  # fmt: skip


def reported_beside(runs: Sequence[StoredRun]) -> list[ReportedBeside]:
    """Return each value that runs of one model report, beside the latest of each measurement of its benchmark."""
    pairs: list[ReportedBeside] = []
    with_answers = [run for run in runs if run.origin != "reported"]
    for reported, who in _reported(runs):
        own: dict[tuple[object, ...], ReportedBeside] = {}
        for run in with_answers:
            for estimate in counterparts(run.row, run.estimates, reported):
                key = (
                    estimate.task,
                    estimate.metric,
                    estimate.filter,
                    estimate.details.get("n_shots"),
                    part_shown(run.plan),
                )
                own.setdefault(key, ReportedBeside(reported, who, estimate, run))
        pairs += list(own.values()) or [ReportedBeside(reported, who, None, None)]
    return pairs


def _reported(runs: Sequence[StoredRun]) -> Iterator[tuple[Estimate, str]]:
    """Yield the values that runs report, of what is in no group, with who reports them; not those of visitors."""
    for run in latest_reports(runs):
        if run.origin != "reported" or run.is_upload:
            continue
        imported: Mapping[str, object] = run.row.extra.get("imported") or {}
        by_tool = ", ".join(str(part)[:40] for part in (imported.get("tool"), imported.get("date")) if part)
        for estimate in run.estimates:
            words = reported_words(estimate).removeprefix("reported").lstrip(" ,")
            is_one = bool(words) or bool(estimate.details.get("primary") and not estimate.details.get("path"))
            if estimate.value is not None and is_one:
                yield estimate, words or by_tool


def reported_blocks(pairs: Sequence[ReportedBeside]) -> list[Block]:
    """Return the table of reported values; nothing where there are none."""
    if not pairs:
        return []
    columns = (
        "Benchmark", Column("Reported"), Column("Measured"), Column("Difference"),
        Column("How it was measured", "text"), Column("Who reports it", "text"),
    )  # fmt: skip
    note = (
        "A reported value has no answers, and often no stated shots or prompt: a difference may be one of the set-up. "
        "Difference: measured minus reported, in points for per cent; inside or outside: the reported value, of the "
        "measured one's interval."
    )
    return [table(columns, [_row(pair) for pair in pairs]), Paragraph(note, "facts")]


def _row(pair: ReportedBeside) -> list[str | Cell]:
    reported, own = pair.reported, pair.measured
    is_share = is_proportion(reported)
    shots = reported.details.get("n_shots")
    who = ", ".join(filter(None, [pair.who, "" if shots is None else counted(shots, "shot")]))
    head: list[str | Cell] = [Cell(reported.task, reported.metric), shown_value(reported.value, proportion=is_share)]
    if own is None:
        return [*head, NOTHING, NOTHING, "not measured here", who]
    interval = shown_interval(own.low, own.high, proportion=is_proportion(own))
    return [
        *head,
        Cell(shown_value(own.value, proportion=is_proportion(own)), interval),
        Cell(
            shown_difference(pair.difference, proportion=is_share),
            {True: "inside", False: "outside", None: ""}[pair.is_covered],
        ),
        ", ".join(_set_up(own, pair.run)),
        who,
    ]


def _set_up(own: Estimate, run: StoredRun | None) -> Iterator[str]:
    """Yield task, filter, shots and samples of a measurement, and that another tool measured it."""
    yield with_filter(own.task, own.filter)
    if (shots := own.details.get("n_shots")) is not None:
        yield counted(shots, "shot")
    if run is not None and (part := part_shown(run.plan)) is not None:
        yield part
    if run is not None and run.origin != "measured":
        yield ORIGINS[run.origin]
