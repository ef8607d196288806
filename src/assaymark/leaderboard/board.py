"""A board as data: the checked content of its YAML file, which `board_files` reads.

A board shows one of three things: a suite (`suite: open-llm-v1`), task sets of its own (`tasks: [law.csv, ...]`), or a
table that exists already (`table: {file: scores.csv, format: csv}`). Everything else is optional.

URLs, exports and the search name a score column by its key, which is unique and no reserved word. The key of
`MATH Lvl 5` is math-lvl-5. A key has no underscore, so that the export's derived columns (`math-lvl-5_low`,
`math-lvl-5_n`) never equal another column's key.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from assaymark.leaderboard.columns import FACTS
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.models.cost.prices import Price
from assaymark.tasks.suites import Suite

EMPTY = "column"  # the slug of a title without Latin letters and digits
_HASH_DIGITS = 6
RESERVED = frozenset(
    {"rank", "average", "avg", "model", "name", "runs", "id", "notes", "url", "origin"}
    | {name for column in FACTS for name in (column.key, *column.aliases)}
)
"""Keys that the table, its exports and the search have beside the score columns' own; none has a hyphen."""


def slug(title: str) -> str:
    """Return a title's form in URLs and exports: `MATH Lvl 5` is math-lvl-5. Titles may share a slug."""
    return _latin(title) or EMPTY


def column_keys(titles: Iterable[str]) -> dict[str, str]:
    """Return each title's key: its slug, with `score-` before a reserved one.

    If several titles have the same slug (`C++` and `C#`), the first one gets it, and the others get it with a hash of
    the title appended. A title without Latin letters and digits always has its hash. So a column that is added at the
    end changes no other key.
    """
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for title in dict.fromkeys(titles):
        bare = slug(title)
        first = f"score-{bare}" if bare in RESERVED else bare
        digest = sha256(title.encode("utf-8", "surrogatepass")).hexdigest()
        n_digits = _HASH_DIGITS
        key = first if _latin(title) else f"{first}-{digest[:n_digits]}"
        while key in taken:
            key = f"{first}-{digest[:n_digits]}"
            n_digits += 1
        taken.add(key)
        keys[title] = key
    return keys


def _latin(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


ANY_METRIC = ""  # of a member: the task's primary metric in the run
SHOWN = tuple(column.key for column in FACTS if column.is_shown)  # the default fact columns
RECORDS: Literal["every-eval-ever"] = "every-eval-ever"
TableFormat = Literal["open-llm-v1", "open-llm-v2", "csv", "every-eval-ever"]


@dataclass(frozen=True, slots=True)
class FaqEntry:
    """One entry of the FAQ; the answer is Markdown."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class CitedScores:
    """Numbers that were not measured here: a baseline (people, a model of a paper), or a claim about a model."""

    name: str  # of the baseline or model
    scores: Mapping[str, float]  # by column title, as shown (per cent for shares)
    source: str


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table that exists already."""

    file: Path  # of `every-eval-ever` a folder of records
    format: TableFormat
    columns: Mapping[str, str] = field(default_factory=dict)  # of `csv` and records: column title -> heading, result
    sizes: Mapping[str, int] = field(default_factory=dict)  # questions by column title: intervals come from them
    per_cent: bool = True  # of `csv`: 63.4 stands for a share of 0.634


@dataclass(frozen=True, slots=True)
class RatingSource:
    """Ratings as a column: a CSV file with a rating for each model, or a file of votes, which are rated."""

    file: Path
    title: str
    model: str = "model"  # headings
    rating: str = "rating"
    low: str = "low"  # may be missing in the file, as may high
    high: str = "high"
    language: str = ""  # of a file of votes: only those in this language


@dataclass(frozen=True, slots=True)
class Screening:
    """How a board's submissions are evaluated: until their rank set is settled."""

    at_least: int = 100  # questions before a row may be settled
    seed: int = 0  # of the order of the questions


@dataclass(frozen=True, slots=True)
class Board:
    """One board."""

    name: str  # in URLs
    title: str
    introduction: str = ""  # Markdown, as are about and policy
    about: str = ""
    policy: str = ""
    faq: tuple[FaqEntry, ...] = ()
    logo: Path | None = None
    suite: Suite | None = None  # what is measured: a suite, or one made of the board's own task sets
    task_files: tuple[Path, ...] = ()  # own task sets, as for `assaymark run --tasks`
    table: TableSource | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # category -> column titles
    shown_columns: tuple[str, ...] = SHOWN  # columns that are no scores
    rank_together: bool = False  # across prompt sets
    win_rates: bool = False  # a page with HELM's mean win rate
    baselines: tuple[CitedScores, ...] = ()  # rows that are no models; their averages are computed
    has_card_baselines: bool = False  # a row of people, as the cards of its tasks cite them
    claims: tuple[CitedScores, ...] = ()  # shown beside the measured scores of the model
    only: tuple[str, ...] = ()  # runs in which every one of these words occurs
    exclude: tuple[str, ...] = ()  # beginnings of ids of runs that are left out
    results: tuple[Path, ...] = ()  # files that other tools wrote: rows marked reported
    requests: tuple[Path, ...] = ()  # folders of the Open LLM Leaderboard's request files, of the models in `results`
    ratings: tuple[RatingSource, ...] = ()  # of arenas, judges and studies, beside the scores
    models: Mapping[str, Mapping[str, str | float | bool]] = field(default_factory=dict)  # name -> facts of it
    prices: Mapping[str, Price] = field(default_factory=dict)  # by model; count before a bill
    cite: str = ""  # BibTeX of the board itself
    screening: Screening | None = None  # None: submissions are evaluated in full
    private: frozenset[str] = frozenset()  # names of tasks and groups whose rows are not shown
    source: Path | None = None  # its file; None where it was made of a suite

    @property
    def score_columns(self) -> tuple[ScoreColumn, ...]:
        """The board's score columns by its suite, in the order of its categories; none for a table."""
        if self.suite is None:
            return ()
        keys = column_keys(self.suite.columns)
        columns = [_score_column(self, self.suite, title, keys[title]) for title in self.suite.columns]
        order = list(self.categories)
        known = [column for column in columns if column.category in order]
        return (
            *sorted(known, key=lambda column: order.index(column.category)),
            *(column for column in columns if column.category not in order),
        )

    def category_of(self, title: str) -> str:
        """Return the category that a column is listed under; empty for none."""
        return next((name for name, titles in self.categories.items() if title in titles), "")


def _score_column(board: Board, suite: Suite, title: str, key: str) -> ScoreColumn:
    members = [member for member in suite.members if member.column == title]
    return ScoreColumn(
        key=key,
        title=title,
        category=board.category_of(title),
        tasks=tuple(member.task for member in members),
        shots=tuple(dict.fromkeys(member.shots for member in members if member.shots is not None)),
        metrics=tuple(dict.fromkeys(name for member in members for name in member.metrics if name != ANY_METRIC)),
        weight=suite.weight_of(title),
        normalised=suite.normalise != "none",
    )
