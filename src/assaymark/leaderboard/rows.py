"""The rows of a leaderboard's table: one type for the page, JSON, CSV, Parquet and the search.

Values are as the metric gives them, shares in [0, 1]; pages multiply by 100. A cell that was not measured is None,
never 0. A row is one model in one setup: each precision, prompt set or limit has a row of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assaymark.leaderboard.columns import FROM_FILES

Origin = Literal["measured", "imported", "reported", "published", "baseline"]
Fact = str | float | bool | None


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One benchmark of a board."""

    key: str  # in URLs and exports
    title: str
    category: str = ""
    tasks: tuple[str, ...] = ()  # what it is made of, by name
    shots: tuple[int, ...] = ()
    metrics: tuple[str, ...] = ()
    weight: float = 1.0  # in the average
    is_share: bool = True  # in [0, 1], shown as per cent
    normalised: bool = False  # there is a raw value beside the normalised one
    higher_is_better: bool = True
    is_neutral: bool = False  # which direction is better is not known, or none is: no rank and no average is by it
    n: int | None = None  # number of questions, if the board states it
    note: str = ""


def averaged(columns: Sequence[ScoreColumn]) -> list[ScoreColumn]:
    """Return the columns over which an average is taken: only shares, since other columns have other units."""
    return [column for column in columns if column.is_share and column.weight > 0 and not column.is_neutral]


@dataclass(frozen=True, slots=True)
class IntervalValue:
    """A value with its interval."""

    value: float
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    method: str = ""  # how the interval was made


@dataclass(frozen=True, slots=True)
class ClaimedScore:
    """Somebody else's figure for a score, in the same unit."""

    value: float
    source: str
    is_outside: bool  # of the measured score's interval


@dataclass(frozen=True, slots=True)
class RowScore:
    """One score of a row."""

    number: IntervalValue  # as it counts on the board
    raw: IntervalValue | None = None  # before normalisation, where that differs
    n: int | None = None  # samples; None: not stated
    n_failed: int = 0
    is_share: bool = True
    higher_is_better: bool = True
    is_neutral: bool = False
    run_id: str | None = None  # the stored run it comes from
    task: str | None = None  # its task or group there
    claim: ClaimedScore | None = None  # what others state for it
    reported: str = ""  # who reported it, where it has no answers

    json_keys = "value=number.value low=number.low high=number.high stderr=number.stderr n"


@dataclass(frozen=True, slots=True)
class Average:
    """A row's average; `n_columns` below `Table.n_averaged` makes it a partial one, which has no rank."""

    number: IntervalValue
    n_columns: int
    stated: float | None = None  # what the published table says


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """The progress of an evaluation that a rule stopped."""

    n_asked: int
    n: int  # questions of the benchmark

    @property
    def text(self) -> str:
        """The same in words."""
        return f"stopped early: {self.n_asked:,} of {self.n:,} questions"


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One model, evaluated in one setup."""

    id: str
    model: str
    origin: Origin
    cells: Mapping[str, RowScore]
    average: Average | None
    facts: Mapping[str, Fact] = field(default_factory=dict)  # by the keys of `columns.FACTS`
    run_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    url: str = ""  # where the model can be found
    citation: str = ""  # of a baseline: how its numbers came about
    n_reports: int = 0  # of readers, not settled by a moderator: a link, and no judgement
    stopped: StoppedEarly | None = None  # its intervals are wider: they are valid at any time
    is_upload: bool = False  # a visitor reported its numbers: it has no rank, and no other row depends on it
    setup: tuple[str, ...] = ()  # precision and prompts, where they tell it from another row of its model

    @property
    def mark(self) -> str:
        """Words for behind the model's name: its setup where the board has it in several, and that it is from files."""
        words = [*self.setup, *([self.origin] if self.origin in FROM_FILES else [])]
        return f" ({', '.join(words)})" if words else ""

    @property
    def is_baseline(self) -> bool:
        """Whether the row is not a model: guessing, the best constant answer, people."""
        return self.origin == "baseline"

    def fact(self, key: str) -> Fact:
        """Return the value under a column's key; None where there is none."""
        return self.facts.get(key)


@dataclass(frozen=True, slots=True)
class Issue:
    """A row that disagrees with the rule of its own table."""

    row: str  # id
    model: str
    what: str
