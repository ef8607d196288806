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
from assaymark.records import JsonValue
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

    def to_json(self) -> JsonValue:
        """Return the choices and the problems."""
        return {
            "boards": [board.name for board in self.boards],
            "precisions": list(PRECISIONS),
            "presets": presets(),
            "weights": list(WEIGHTS),
            "kinds": [model_type.key for model_type in MODEL_TYPES],
            "models": list(self.names),
            "problems": problems_json(self.problems),
        }


def problems_json(problems: Sequence[SubmissionProblem]) -> JsonValue:
    """Return problems with stable names."""
    return [{"field": problem.field, "what": without_folders(problem.what), "remedy": without_folders(problem.remedy)}
            for problem in problems]  # fmt: skip


def submit_page(
    boards: Mapping[str, Board],
    sources: Sequence[ModelSource],
    values: Mapping[str, str],
    problems: Sequence[SubmissionProblem] = (),
) -> SubmitPage:
    """Return the form."""
    folders = [source for source in sources if isinstance(source, FolderModels)]
    names = tuple(name for source in folders for name in source.names())
    public_problems = tuple(
        SubmissionProblem(problem.field, without_folders(problem.what), without_folders(problem.remedy))
        for problem in problems
    )
    return SubmitPage(tuple(boards.values()), values, public_problems, names, len(folders) < len(sources))


@dataclass(frozen=True)
class QueuePage:
    """The queue."""

    queue: Overview
    titles: Mapping[str, str]  # of the leaderboards, by their names

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        counts = self.queue.counts
        lists = {state: [entry_json(entry) for entry in getattr(self.queue, state)]
                 for state in ("pending", "running", "failed", "finished")}  # fmt: skip
        return {
            "counts": dict(counts.by_state),
            "mean_seconds": counts.mean_seconds,
            "working": counts.n_working,
            **lists,
        }


def queue_page(store: Store, titles: Mapping[str, str]) -> QueuePage:
    """Return the queue as it is now; `titles`: of the leaderboards, by their names."""
    return QueuePage(overview(store), titles)


@dataclass(frozen=True)
class SubmissionPage:
    """One submission."""

    entry: Entry
    jobs: tuple[JobRow, ...]
    title: str  # of the leaderboard

    @property
    def standing(self) -> str:
        """Where it stands while it waits or runs, in words."""
        job, share = self.entry.job, self.entry.share
        if job.state != "pending":
            return job.stage if share is None else f"{job.stage}, {100 * share:.0f}%"
        place = f"{self.entry.n_ahead} ahead" if self.entry.n_ahead else "next"
        wait = self.entry.wait_seconds
        return place if wait is None else f"{place}, expected to end in {shown_duration(wait)}"

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        document = entry_json(self.entry)
        document["jobs"] = [{"id": job.id, "kind": job.kind, "state": job.state, "attempts": job.n_attempts,
                          "run": job.run_id} for job in self.jobs]  # fmt: skip
        return document


def submission_page(store: Store, titles: Mapping[str, str], submission: str) -> SubmissionPage:
    """Return a submission's page; see `queue_page`. Raises: UnknownName."""
    row = SubmissionQueue(store).submission(submission)
    jobs = SubmissionQueue(store).jobs_of(submission)
    if not jobs:
        raise UnknownName("submission", submission[:40])
    return SubmissionPage(entry_of(store, row, jobs), tuple(jobs), titles.get(row.new.board, row.new.board))


def entry_json(entry: Entry) -> dict[str, object]:
    """Return an entry with stable names; log and reason without folders of this machine."""
    job, new = entry.job, entry.submission.new
    return {
        "submission": entry.submission.id,
        "model": entry.name,
        "board": new.board,
        "revision": new.revision,
        "precision": new.precision,
        "preset": new.preset,
        "weights": new.weights,
        "base": new.base,
        "submitter": new.submitter,
        "submitted": entry.submission.submitted,
        "votes": entry.submission.n_votes,
        "withdrawn": entry.submission.is_withdrawn,
        "state": job.state,
        "stage": job.stage,
        "done": entry.share,
        "ahead": entry.n_ahead,
        "wait_seconds": entry.wait_seconds,
        "fault": job.fault,
        "reason": without_folders(job.reason) if job.reason else None,
        "log": without_folders(job.log_tail) if job.log_tail else None,
        "explanation": entry.explanation or None,
        "run": job.run_id,
        "verified": entry.submission.is_verified,
        "verdict": entry.submission.verdict,
    }
