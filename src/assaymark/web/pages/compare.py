"""Two or more runs compared: what differs in the setup, the paired tests, and the samples that changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import UsageError
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun
from assaymark.limits.shown_paths import without_folders
from assaymark.records import JsonValue
from assaymark.report.comparison.records import Comparison, Flip, PairComparison
from assaymark.web.pages.run import runs_of
from assaymark.web.render import plain

__all__ = ["ComparePage", "compare_page"]

MOST_RUNS = 4
SHOWN_FLIPS = 100


@dataclass(frozen=True)
class PairView:
    """One run against the first."""

    run: StoredRun
    pair: PairComparison
    flips: tuple[Flip, ...]
    n_flips: int


@dataclass(frozen=True)
class ComparePage:
    """Runs side by side."""

    first: StoredRun | None
    pairs: tuple[PairView, ...]
    comparison: Comparison | None
    task: str
    listed: tuple[StoredRun, ...]  # runs to choose from
    problem: str

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        comparison = plain(self.comparison)
        for pair in (comparison or {}).get("pairs", ()):
            # flips hold what models answered, in which a slash is no path
            pair.update({key: without_folders(value) for key, value in pair.items() if key != "flips"})
        if comparison is not None:
            comparison.update({key: without_folders(value) for key, value in comparison.items() if key != "pairs"})
        return {"problem": self.problem or None, "comparison": comparison}


def compare_page(site: Site, given: Sequence[tuple[str, str]]) -> ComparePage:
    """Return the comparison of the runs that are named, or what there is to choose from."""
    runs = runs_of(site)
    names = [part for key, value in given if key in {"runs", "run"} for part in value.split(",") if part]
    names = list(dict.fromkeys(names))
    task = next((value for key, value in given if key == "task"), "")[:300]
    listed = tuple(run for run in runs.runs() if run.estimates)
    if len(names) < 2 or len(names) > MOST_RUNS:
        problem = "" if not names else f"{len(names)} runs were chosen; choose two to {MOST_RUNS}"
        return ComparePage(None, (), None, task, listed, problem)
    found = [runs.run(name) for name in names]
    try:
        comparison = runs.comparison([run.run_id for run in found])
    except UsageError as error:
        return ComparePage(None, (), None, task, listed, str(error))
    pairs = []
    for run, pair in zip(found[1:], comparison.pairs, strict=True):
        flips = [flip for flip in pair.flips if not task or flip.task == task]
        pairs.append(PairView(run, pair, tuple(flips[:SHOWN_FLIPS]), len(flips)))
    return ComparePage(found[0], tuple(pairs), comparison, task, listed, "")
