"""Results of a comparison as plain data: lines with differences, samples that changed, the verdict.

Differences are the second run minus the first, on the same samples, in the metric's own units (shares in [0, 1], so
0.01 is a point). For perplexities they are differences of logarithms, since perplexities are compared by their ratio.
"""

from dataclasses import dataclass

from assaymark.statistics.multiplicity import RankSet

LEVEL = 0.05
OVERALL = "overall"
ONE_SIDED = 0.9  # confidence of the interval whose ends are one-sided bounds at 95%


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of a comparison: a task, a group, or everything; second minus first."""

    name: str
    kind: str  # task | group | overall | scorer
    metric: str
    filter: str
    scale: str  # proportion | plain | log
    first: float | None  # value of the first run on the paired samples
    second: float | None
    difference: float
    low: float | None
    high: float | None
    p: float
    n: int
    n_better: int  # samples on which the second run is better
    n_worse: int
    method: str
    confidence: float = 0.95
    higher_is_better: bool = True
    stderr: float | None = None
    one_sided: tuple[float | None, float | None] = (None, None)  # one-sided bounds at 95%, from below and from above
    p_adjusted: float | None = None  # Holm over the lines of its kind
    n_missing: int = 0
    n_tasks: int = 1
    members: tuple[str, ...] = ()  # of a group: its tasks
    n_mostly_cut: tuple[int, int] = (0, 0)  # samples of each run of whose prompts more than half was truncated
    label: str = ""  # a shorter name under its group's
    n_gained: int | None = None  # answers that became right; None if the metric is not a proportion of correct answers
    n_lost: int | None = None  # answers that became wrong
    units: tuple[tuple[str, int], ...] = ()  # of the overall line: the units it averages, with their numbers of tasks
    left_out: tuple[str, ...] = ()  # of the overall line: excluded tasks, whose metric is not a proportion
    repeated: tuple[tuple[str, str], ...] = ()  # of the overall line: excluded tasks, and those that ask the same
    is_neutral: bool = False  # neither higher nor lower is better, so neither run is

    @property
    def gain(self) -> float:
        """The difference in the direction of better: positive means that the second run is better."""
        return self.difference if self.higher_is_better else -self.difference

    @property
    def one_sided_gain(self) -> tuple[float | None, float | None]:
        """The one-sided bounds in the direction of better."""
        least, most = self.one_sided
        if self.higher_is_better:
            return least, most
        return None if most is None else -most, None if least is None else -least

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant at 5%, with p corrected."""
        return (self.p if self.p_adjusted is None else self.p_adjusted) < LEVEL

    @property
    def better(self) -> int | None:
        """0: the first run is significantly better; 1: the second; None: not significantly different."""
        return (1 if self.gain > 0 else 0) if self.is_significant and not self.is_neutral else None


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample whose answer became right or wrong; graded scores count as right from 0.5."""

    task: str
    first_index: int
    second_index: int
    sample_sha256: str
    first: float
    second: float
    first_picked: int | None = None
    second_picked: int | None = None
    first_answer: str | None = None  # the text of the picked choice, where it is known
    second_answer: str | None = None
    is_better: bool = True  # the second run is the better one


@dataclass(frozen=True, slots=True)
class PairComparison:
    """The comparison of two runs."""

    labels: tuple[str, str]
    run_ids: tuple[str, str]
    overall: Difference | None  # None if no task's metric is a proportion of correct answers
    groups: tuple[Difference, ...]
    tasks: tuple[Difference, ...]
    set_up: tuple[str, ...]  # differences besides the model, one line each
    notes: tuple[str, ...]  # what was excluded, and why
    flips: tuple[Flip, ...]
    verdict: str = ""
    stopped: tuple[str, ...] = ()  # labels of runs that a rule stopped before the benchmark's end
    scorers: tuple[Difference, ...] = ()  # of applications: the other scorers of its tasks, as `task/scorer`


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second and every later run against the first; with three or more also their ranks."""

    labels: tuple[str, ...]
    run_ids: tuple[str, ...]
    pairs: tuple[PairComparison, ...]
    ranks: tuple[RankSet, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict, one sentence per pair."""
        return " ".join(pair.verdict for pair in self.pairs)
