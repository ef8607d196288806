"""What the queue and moderators say of stored runs: the name under which a model stands, flags, what is withdrawn."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from assaymark.leaderboard.rows import Fact
from assaymark.store import Store

__all__ = ["UPLOADED", "Marks", "RunMark", "read_marks"]

UPLOADED = "uploaded"  # the command of runs of uploaded results; without a submission they are not shown

MOST_FLAGS = 100_000  # that are read; the latest
FACTS = ("licence", "architecture", "merged", "moe", "params")


@dataclass(frozen=True, slots=True)
class RunMark:
    """What is known of a run beside itself."""

    name: str  # of the model, as it stands now
    submission: str
    is_hidden: bool = False  # withdrawn, or replaced by the run that verified it
    note: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Marks:
    """All of it, and a version that changes with it."""

    version: str = ""
    runs: Mapping[str, RunMark] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # earlier name -> present one
    flagged: frozenset[str] = frozenset()  # models with a report that a moderator upheld
    n_reports: Mapping[str, int] = field(default_factory=dict)  # open reports of readers, by model


def read_marks(store: Store, known: Marks) -> Marks:
    """Return the marks of a store as it is now; `known` where nothing changed since."""
    version = store.queue.version()
    if version == known.version:
        return known
    names = store.moderation.names()
    marks: dict[str, RunMark] = {}
    for row, run_id in store.queue.with_results():
        is_reported = run_id == row.new.reported_run
        facts: dict[str, Fact] = {key: row.new.facts[key] for key in FACTS if key in row.new.facts}
        facts |= {"type": row.new.kind, "weight": row.new.weights}
        if row.new.base:
            facts["base"] = names.get(row.new.base, row.new.base)
        marks[run_id] = RunMark(
            name=names.get(row.new.model, row.new.model),
            submission=row.id,
            is_hidden=row.is_withdrawn or (is_reported and row.is_verified),
            note=(row.verdict or "") if is_reported else "",
            facts=facts,
        )
    flags = store.moderation.flags(limit=MOST_FLAGS)
    flagged = frozenset(names.get(one.model, one.model) for one in flags if one.state == "upheld")
    n_reports = Counter(names.get(one.model, one.model) for one in flags if one.state == "open")
    return Marks(version, marks, names, flagged, dict(n_reports))
