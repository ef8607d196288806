"""Agreement of a judge with people, from a stored judging or a file of verdicts, and a file of human votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.judges.agreement import PairVote
from assaymark.judges.judge_votes import has_task_column, judging_named, votes_in_file, votes_of_judging
from assaymark.judges.pairwise import PairSummary
from assaymark.judges.report import JudgeReport, JudgeVotes, report_on
from assaymark.judges.results import read_results, summarise
from assaymark.results.numbers import short_model_name
from assaymark.runs.stored import existing_store
from assaymark.store import RunRow, Store

__all__ = ["VoteFileOptions", "judge_agreement"]


@dataclass(frozen=True, slots=True)
class VoteFileOptions:
    """How files of votes are read.

    columns, human_columns: names of columns that are not recognised, of the judge's file and of the people's.
    missing: verdicts that stand for none. without: patterns of human raters to leave out, such as `author_*`.
    """

    columns: Mapping[str, str] | None = None
    human_columns: Mapping[str, str] | None = None
    missing: Sequence[str] = ()
    without: Sequence[str] = ()


def judge_agreement(
    judge: str,
    human: str | Path,
    options: VoteFileOptions | None = None,
    *,
    judge_model: str | None = None,
    store: str | None = None,
) -> JudgeReport:
    """Return the report on a judge beside human votes on the same pairs of answers.

    Args:
        judge: a stored judging of two runs, or a file of verdicts.
        human: a file of votes; matched by question, turn and models.
        options: how the files are read.
        judge_model: the model that the judge is, where it is among the judged ones under another name.
        store: the database of stored runs.

    Raises: UsageError for a file or a judging that does not exist or is of another kind; DataError for unknown verdicts
        or nothing in common.
    """
    chosen = options or VoteFileOptions()
    path = Path(human)
    if not path.is_file():
        raise UsageError(f"file not found: {human}; --human is a file of votes, see `assaymark arena rate --help`")
    row = judging_named(store, judge)
    people = [
        vote
        for vote in votes_in_file(path, chosen.human_columns, chosen.missing, for_judging=row is not None).votes
        if not any(fnmatchcase(vote.rater, pattern) for pattern in chosen.without)
    ]
    if not people:
        raise DataError(f"{path.name} has no vote left without {', '.join(chosen.without)}")
    votes = _votes_in(judge, chosen) if row is None else _votes_of(row, existing_store(store), path)
    return report_on(*_aligned(votes, people), judge_model)


def _aligned(judge: JudgeVotes, people: Sequence[PairVote]) -> tuple[JudgeVotes, Sequence[PairVote]]:
    """Return both without turns, where one side names none and the other has a single one."""
    sides = [{vote.part for vote in side} for side in (judge.votes, people)]
    if sides[0] == sides[1] or max(map(len, sides)) > 1 or {""} not in sides:
        return judge, people
    plain = [[replace(vote, part="") for vote in side] for side in (judge.votes, people)]
    return replace(judge, votes=plain[0]), plain[1]


def _votes_in(judge: str, options: VoteFileOptions) -> JudgeVotes:
    votes = votes_in_file(Path(judge), options.columns, options.missing)
    raters = {vote.rater for vote in votes.votes if vote.rater}
    column = (options.columns or {}).get("winner")
    name = column or (raters.pop() if len(raters) == 1 else Path(judge).stem)
    return JudgeVotes(name, votes.votes, votes.n_without_verdict)


def _votes_of(row: RunRow, opened: Store, human: Path) -> JudgeVotes:
    votes = votes_of_judging(opened, row, by_task=has_task_column(human))
    if not votes.votes:
        raise DataError(
            f"judging {row.short_id} holds no verdict ({votes.n_without_verdict:,} texts of {row.model} have none), so "
            "there is nothing to compare with people; this judge does not follow the prompt"
        )
    orders = [summary for summary in summarise(read_results(opened, row)) if isinstance(summary, PairSummary)]
    return JudgeVotes(short_model_name(row.model), votes.votes, votes.n_without_verdict, orders)
