"""The pages of the queue: the form, the queue, a submission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.errors import UnknownName
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.columns import MODEL_TYPES
from assaymark.leaderboard.queue import Entry, Overview, entry_of, overview
from assaymark.leaderboard.submission.choices import PRECISIONS, WEIGHTS, SubmissionProblem, presets
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobRow
from assaymark.leaderboard.submission.sources import FolderModels, ModelSource
from assaymark.limits.shown_paths import without_folders
from assaymark.store import Store
from assaymark.web.render import shown_duration


@dataclass(frozen=True)
class SubmitPage:
    """The form, with the entered values and their problems."""

    boards: tuple[Board, ...]
    values: Mapping[str, str]
    problems: tuple[SubmissionProblem, ...]
    names: tuple[str, ...]  # models in the folders of this host
    takes_hub: bool  # models of the Hub may be submitted

    json_keys = "boards=boards.name precisions presets weights kinds=types.key models=names problems"

    precisions = PRECISIONS
    weights = WEIGHTS
    types = MODEL_TYPES

    @property
    def presets(self) -> list[str]:
        """The prompt presets that may be chosen."""
        return presets()

    def value(self, name: str) -> str:
        """Return the value entered in a field."""
        return self.values.get(name, "")


def public_problems(problems: Sequence[SubmissionProblem]) -> tuple[SubmissionProblem, ...]:
    """Return problems without folders of this machine."""
    return tuple(
        SubmissionProblem(each.field, without_folders(each.what), without_folders(each.remedy)) for each in problems
    )


def submit_page(
    boards: Mapping[str, Board],
    sources: Sequence[ModelSource],
    values: Mapping[str, str],
    problems: Sequence[SubmissionProblem] = (),
) -> SubmitPage:
    """Return the form."""
    folders = [source for source in sources if isinstance(source, FolderModels)]
    names = tuple(name for source in folders for name in source.names())
    return SubmitPage(tuple(boards.values()), values, public_problems(problems), names, len(folders) < len(sources))


@dataclass(frozen=True)
class QueuePage:
    """The queue."""

    queue: Overview
    titles: Mapping[str, str]  # of the leaderboards, by their names

    json_keys = (
        "counts=queue.counts.by_state mean_seconds=queue.counts.mean_seconds working=queue.counts.n_working "
        "pending=queue.pending running=queue.running failed=queue.failed finished=queue.finished"
    )


def queue_page(store: Store, titles: Mapping[str, str]) -> QueuePage:
    """Return the queue as it is now; `titles`: of the leaderboards, by their names."""
    return QueuePage(overview(store), titles)


@dataclass(frozen=True)
class SubmissionPage:
    """One submission."""

    entry: Entry
    jobs: tuple[JobRow, ...]
    title: str  # of the leaderboard

    json_keys = "*entry jobs"

    @property
    def standing(self) -> str:
        """Where it stands while it waits or runs, in words."""
        job, share = self.entry.job, self.entry.share
        if job.state != "pending":
            return job.stage if share is None else f"{job.stage}, {100 * share:.0f}%"
        place = f"{self.entry.n_ahead} ahead" if self.entry.n_ahead else "next"
        wait = self.entry.wait_seconds
        return place if wait is None else f"{place}, expected to end in {shown_duration(wait)}"


def submission_page(store: Store, titles: Mapping[str, str], submission: str) -> SubmissionPage:
    """Return a submission's page; see `queue_page`. Raises: UnknownName."""
    row = SubmissionQueue(store).submission(submission)
    jobs = SubmissionQueue(store).jobs_of(submission)
    if not jobs:
        raise UnknownName("submission", submission[:40])
    return SubmissionPage(entry_of(store, row, jobs), tuple(jobs), titles.get(row.new.board, row.new.board))
