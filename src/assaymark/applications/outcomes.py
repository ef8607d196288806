"""Online outcomes: comparison of the variants that users met.

A file with a row for each thing that a user did (variant, user, outcome) comes from people's own systems, so nothing in
it is trusted: each cell is checked, and errors name the file and the row. Missing values are counted, never taken as 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assaymark.applications.rows import placed_rows
from assaymark.errors import DataError, UsageError
from assaymark.records import JsonValue, Row
from assaymark.records.json_values import json_fields
from assaymark.registry import nearest
from assaymark.statistics.arrays import Floats
from assaymark.statistics.clustered_experiment import (
    ArmMean,
    ArmsDifference,
    ArmUsers,
    SampleRatio,
    anytime_interval,
    arm_mean,
    arms_difference,
    sample_ratio,
)
from assaymark.statistics.intervals import wilson
from assaymark.statistics.multiplicity import holm

MOST_VARIANTS = 50
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class OutcomeColumns:
    """The names of a file's columns. covariate: a fact known about the user before, once for each user."""

    variant: str = "variant"
    user: str = "user"
    outcome: str = "outcome"
    covariate: str | None = None


@dataclass(frozen=True, slots=True)
class Arm:
    """A variant. n_assigned: its users, including those without an outcome."""

    name: str
    users: ArmUsers | None  # those with an outcome; None without any
    n_assigned: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes in a file, by user."""

    arms: tuple[Arm, ...]  # by name
    n_rows: int
    n_without_outcome: int  # rows
    n_in_several: int  # users who met more than one variant, who are left out
    n_rows_in_several: int
    n_without_covariate: int  # users, who count with the mean of the others
    is_share: bool = False  # whether each outcome is 0 or 1

    def named(self, name: str) -> Arm:
        """Return a variant. Raises: UsageError."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise UsageError(f"no variant '{name:.60}'; the file has {', '.join(arm.name for arm in self.arms)}")


@dataclass(frozen=True, slots=True)
class ArmAgainstControl:
    """A variant's difference from the control. low, high: valid at any time if the report says so."""

    name: str
    estimate: ArmsDifference
    low: float | None
    high: float | None
    p_adjusted: float | None  # Holm over the variants; for one look

    @property
    def direction(self) -> int:
        """1: the interval is above 0; -1: below; 0: it has 0 in it, or there is none."""
        return 0 if self.low is None or self.high is None else int(self.low > 0) - int(self.high < 0)


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """The result. differences: None if the sample ratio is broken, since they are meaningless then."""

    outcomes: Outcomes
    control: str
    means: tuple[ArmMean | None, ...]  # by variant
    ratio: SampleRatio
    differences: tuple[ArmAgainstControl, ...] | None
    planned: int | None  # users for which the anytime-valid interval was planned

    json_keys = (
        "control arms differences=differences_by_arm anytime_users=planned sample_ratio rows=outcomes.n_rows "
        "rows_without_outcome=outcomes.n_without_outcome users_in_several_variants=outcomes.n_in_several "
        "rows_of_users_in_several_variants=outcomes.n_rows_in_several "
        "users_without_covariate=outcomes.n_without_covariate"
    )

    @property
    def arms(self) -> list[dict[str, JsonValue]]:
        """The variants with their means."""
        return [
            {"variant": arm.name, "assigned_users": arm.n_assigned, **({} if mean is None else json_fields(mean))}
            for arm, mean in zip(self.outcomes.arms, self.means, strict=True)
        ]

    @property
    def differences_by_arm(self) -> list[dict[str, JsonValue]] | None:
        """The differences with the names of their variants."""
        return None if self.differences is None else [
            {"variant": each.name, "control": self.control, **json_fields(each.estimate), "low": each.low,
             "high": each.high, "p_adjusted": each.p_adjusted}
            for each in self.differences
        ]  # fmt: skip

    @property
    def sample_ratio(self) -> dict[str, JsonValue]:
        """Whether users came to the variants as planned."""
        return json_fields(self.ratio, "is_broken")


def read_outcomes(path: str, columns: OutcomeColumns) -> Outcomes:
    """Read a file of outcomes: CSV, TSV, JSON lines, JSON or Parquet, one row for each outcome.

    Raises: DataError naming file, row and what was expected; UsageError where there is no such file or column.
    """
    where, rows = placed_rows(path)
    if not rows:
        raise DataError(f"{where}: there are no rows; expected a row for each outcome")
    names = [each for each in (columns.variant, columns.user, columns.outcome, columns.covariate) if each is not None]
    if len(set(names)) < len(names):
        raise UsageError(f"the columns {', '.join(names)} are not all different; name one column for each")
    present = dict.fromkeys(name for _, row in rows[:1000] if isinstance(row, Mapping) for name in row)
    for name in names:
        if name not in present:
            close = nearest(name, list(present))
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise UsageError(f"{where} has no column '{name:.60}'{hint} Its columns: {', '.join(map(str, present))}")
    reader = _Reader(where, columns)
    for place, row in rows:
        reader.add(place, row)
    return reader.outcomes()


class _Reader:
    """Gathers rows by user."""

    def __init__(self, where: str, columns: OutcomeColumns) -> None:
        self._where, self._columns = where, columns
        self._users: dict[str, int] = {}
        self._variants: dict[str, int] = {}
        self._of_user: list[int] = []  # variant of the user's first row
        self._several: set[int] = set()
        self._user: list[int] = []  # of each row
        self._value: list[float] = []  # of each row; NaN: none
        self._covariate: dict[int, float] = {}

    def add(self, place: str, row: object) -> None:
        """Add a row. Raises: DataError."""
        columns = self._columns
        if not isinstance(row, Mapping):
            raise DataError(f"{self._where}, {place} is {row!r:.60}; expected a mapping of columns")
        variant, user = self._name(place, row, columns.variant), self._name(place, row, columns.user)
        arm = self._variants.setdefault(variant, len(self._variants))
        if len(self._variants) > MOST_VARIANTS:
            raise DataError(
                f"{self._where}, {place}: column '{columns.variant}' has more than {MOST_VARIANTS} different values; "
                "name the column of the variant with --variant"
            )
        at = self._users.setdefault(user, len(self._users))
        if at == len(self._of_user):
            self._of_user.append(arm)
        elif self._of_user[at] != arm:
            self._several.add(at)
        self._user.append(at)
        value = self._number(place, row, columns.outcome)
        self._value.append(math.nan if value is None else value)
        if columns.covariate is not None:
            before = self._number(place, row, columns.covariate)
            if before is not None and self._covariate.setdefault(at, before) != before:
                raise DataError(
                    f"{self._where}, {place}: column '{columns.covariate}' is {before:g}, and {self._covariate[at]:g} "
                    f"in an earlier row of user '{user:.40}'; expected one value for each user, known before the "
                    "experiment"
                )

    def _name(self, place: str, row: Mapping[str, object], column: str) -> str:
        value = row.get(column)
        text = "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value).strip()
        if not text or isinstance(value, dict | list):
            raise DataError(f"{self._where}, {place}: column '{column}' is {value!r:.40}; expected a name or an id")
        return text

    def _number(self, place: str, row: Row, column: str) -> float | None:
        value = row.get(column)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        try:
            number = WORDS[value.strip().lower()] if str(value).strip().lower() in WORDS and isinstance(
                value, str) else float(value)  # fmt: skip
        except (TypeError, ValueError, OverflowError):
            number = math.inf
        if math.isnan(number) and isinstance(value, float):  # an empty cell of a table
            return None
        if not math.isfinite(number):
            raise DataError(
                f"{self._where}, {place}: column '{column}' is {value!r:.40}; expected a number, true or false, or "
                "nothing where it is unknown"
            )
        return number

    def outcomes(self) -> Outcomes:
        """Return the gathered outcomes. Raises: DataError for fewer than two variants."""
        if len(self._variants) < 2:
            name = next(iter(self._variants))
            raise DataError(
                f"{self._where}: all rows are of the variant '{name:.40}'; expected two or more in column "
                f"'{self._columns.variant}'"
            )
        user, value, of_user = np.array(self._user), np.array(self._value), np.array(self._of_user)
        known = ~np.isnan(value)
        is_single = np.ones(len(of_user), dtype=bool)
        is_single[list(self._several)] = False
        counts = np.bincount(user[known], minlength=len(of_user)).astype(np.float64)
        sums = np.bincount(user[known], value[known], len(of_user))
        covariate, n_without = self._covariates(is_single & (counts > 0))
        arms = []
        for name, arm in sorted(self._variants.items()):
            of_arm = is_single & (of_user == arm)
            with_outcome = of_arm & (counts > 0)
            users = None
            if with_outcome.any():
                own = None if covariate is None else covariate[with_outcome]
                users = ArmUsers(sums[with_outcome], counts[with_outcome], own)
            arms.append(Arm(name, users, int(of_arm.sum())))
        return Outcomes(
            tuple(arms),
            len(value),
            int((~known).sum()),
            len(self._several),
            int((~is_single)[user].sum()),
            n_without,
            is_share=bool(np.isin(value[known], (0.0, 1.0)).all()),
        )

    def _covariates(self, counted: NDArray[np.bool_]) -> tuple[Floats | None, int]:
        """Return each user's covariate, the mean of the known ones where it is unknown, and the number of these.

        That keeps the difference unbiased: who has no history was decided before the assignment.
        """
        if self._columns.covariate is None:
            return None, 0
        values = np.full(len(counted), np.nan)
        for at, value in self._covariate.items():
            values[at] = value
        known = counted & ~np.isnan(values)
        if not known.any():
            raise DataError(f"{self._where}: column '{self._columns.covariate}' has no number")
        values[np.isnan(values)] = values[known].mean()
        return values, int((counted & ~known).sum())


def parse_ratio(text: str, n_variants: int) -> list[float]:
    """Return the parts of a ratio such as `50:50`. Raises: UsageError."""
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if len(parts) != n_variants or not all(0 < part < math.inf for part in parts):
        raise UsageError(
            f"--expected_ratio is '{text:.60}'; expected a positive number for each of the {n_variants} variants in "
            f"the order of their names, as {':'.join(['50'] * n_variants)}"
        )
    return parts


def outcome_report(
    outcomes: Outcomes,
    *,
    control: str | None = None,
    shares: Sequence[float] | None = None,
    planned: int | None = None,
    confidence: float = 0.95,
) -> OutcomeReport:
    """Return means, the sample-ratio test, and each variant's difference from the control.

    Args:
        control: the variant that the others are compared with; None: the first by name.
        shares: the planned ones, by variant; None: equal ones.
        planned: users of two compared variants for which intervals that hold at any time are narrowest; None: one look.

    Raises: UsageError; DataError for a variant with fewer than two users.
    """
    first = outcomes.arms[0] if control is None else outcomes.named(control)
    means = tuple(
        None if arm.users is None else _mean(arm.users, confidence, is_share=outcomes.is_share) for arm in outcomes.arms
    )
    ratio = sample_ratio([arm.n_assigned for arm in outcomes.arms], shares)
    if ratio.is_broken:
        return OutcomeReport(outcomes, first.name, means, ratio, None, planned)
    pairs = []
    for arm in outcomes.arms:
        if arm is first:
            continue
        if first.users is None or arm.users is None:
            name = first.name if first.users is None else arm.name
            raise DataError(f"the variant '{name:.40}' has no outcome; expected at least 2 users with one")
        try:
            estimate = arms_difference(first.users, arm.users, confidence=confidence)
        except DataError as error:
            raise DataError(f"'{first.name:.40}' and '{arm.name:.40}': {error}") from None
        low, high = estimate.low, estimate.high
        if planned is not None and low is not None:
            interval = anytime_interval(estimate, len(first.users.sums) + len(arm.users.sums), planned)
            low, high = interval.low, interval.high
        pairs.append((arm.name, estimate, low, high))
    ps = {name: estimate.p for name, estimate, _, _ in pairs if estimate.p is not None}
    adjusted = dict(zip(ps, map(float, holm(list(ps.values()))), strict=True)) if ps else {}
    differences = tuple(ArmAgainstControl(*pair, adjusted.get(pair[0])) for pair in pairs)
    return OutcomeReport(outcomes, first.name, means, ratio, differences, planned)


def _mean(users: ArmUsers, confidence: float, *, is_share: bool) -> ArmMean:
    """Return a mean; the interval of a share ends at 0 and 1, and is Wilson's where all users succeeded, or none."""
    mean = arm_mean(users, confidence)
    if is_share and mean.stderr == 0.0 and mean.mean in (0.0, 1.0):
        ends = wilson(mean.mean * mean.n_users, mean.n_users, confidence)
        return replace(mean, low=ends.low, high=ends.high)
    if not is_share or mean.low is None or mean.high is None:
        return mean
    return replace(mean, low=max(mean.low, 0.0), high=min(mean.high, 1.0))
