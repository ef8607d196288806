"""A comparison, or one run, as a gate: `--gate "mmlu >= -0.01"` fails the build unless non-inferior by that bound.

A gate is NAME OP BOUND: NAME is a task, a group or `overall`, BOUND a difference, second minus first, in the direction
of better (`-0.01` or `-1%`). With `>=` and `>` the whole one-sided 95% interval must be above the bound: a negative
bound tests non-inferiority, a bound of zero or more superiority. So a gate fails if there are too few samples.

A `BoundGate` is a condition on one metric, of a run alone ("lower >= 0.9") or against a baseline ("not more than 0.02
below baseline"), with three outcomes: where the interval contains the limit it is undecided, and states how many
samples would decide.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal
from xml.etree import ElementTree as ET

from assaymark.documents.numbers import mostly_truncated
from assaymark.errors import UnknownName, UsageError
from assaymark.registry import meant
from assaymark.results.comparison.records import Comparison, Difference, PairComparison
from assaymark.results.comparison.verdict import shown_bound, shown_gain
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.power import samples_for_bound

GATE = re.compile(r"\s*(?P<name>[^<>=\s]+)\s*(?P<sign>>=|>)\s*(?P<bound>[+-]?\d*\.?\d+)\s*(?P<percent>%?)\s*")
_NUMBER = r"(?P<bound>[+-]?(?:\d+\.?\d*|\.\d+))\s*(?P<percent>%?)"
_OF_RUN = re.compile(rf"\s*(?P<end>lower|upper)\s*(?P<sign>>=|>|<=|<)\s*{_NUMBER}\s*", re.IGNORECASE)
_OF_BASELINE = re.compile(
    rf"\s*(?:not\s+more\s+than\s+{_NUMBER}\s+(?P<side>below|above|worse\s+than)|(?P<better>better\s+than))"
    r"(?:\s+the)?\s+baseline\s*",
    re.IGNORECASE,
)
Outcome = Literal["pass", "fail", "undecided"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on the difference of one line of a comparison."""

    name: str
    bound: float  # in the metric's units: shares in [0, 1]; for a perplexity its logarithm
    text: str


@dataclass(frozen=True, slots=True)
class PairGateResult:
    """The result of a gate for one pair of runs."""

    gate: Gate
    labels: tuple[str, str]
    line: Difference
    low: float | None  # one-sided lower end of the gain
    passed: bool

    @property
    def message(self) -> str:
        """The result in one sentence."""
        state = "passed" if self.passed else "failed"
        low = "no interval" if self.low is None else f"{shown_bound(self.line, self.low)} with 95% confidence"
        required = f"required {shown_bound(self.line, self.gate.bound)}"
        lower = "" if self.line.higher_is_better else " (lower is better)"
        measured = f"{self.line.name} {shown_gain(self.line)}{lower}, {low}, {required}"
        return f"gate '{self.gate.text}' {state}: {measured}, n {self.line.n:,}{self._truncated}"

    @property
    def _truncated(self) -> str:
        """A warning about prompts of which most was not seen by a model: neither result says much then."""
        warnings = [
            f"; warning: {note} ({label})"
            for label, n in zip(self.labels, self.line.n_mostly_cut, strict=True)
            if (note := mostly_truncated(n, self.line.n))
        ]
        return "".join(warnings)


def parse_gate(text: str) -> Gate:
    """Return the gate of an expression such as `mmlu >= -0.01`, `overall > 0` or `arc_easy >= -1%`.

    Raises: UsageError if the expression cannot be parsed.
    """
    match = GATE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"gate '{text}' cannot be parsed; expected NAME >= BOUND, such as 'mmlu >= -0.01' or 'mmlu >= -1%'"
        )
    return Gate(match["name"], _limit(match), text.strip())


def check_gates(comparison: Comparison, gates: Sequence[Gate]) -> list[PairGateResult]:
    """Return the result of each gate, for each run compared with the first.

    Raises: UnknownName for a gate on a name that was not compared; UsageError for one that every result would pass, or
        none, and for a run that a rule stopped.
    """
    return [_checked(pair, gate) for pair in comparison.pairs for gate in gates]


def _checked(pair: PairComparison, gate: Gate) -> PairGateResult:
    lines = {line.name: line for line in (*pair.tasks, *pair.groups, *pair.scorers)}
    if pair.overall is not None:
        lines.setdefault(pair.overall.name, pair.overall)
    name = meant(gate.name, lines)
    if name not in lines:
        near = get_close_matches(gate.name, lines, n=3, cutoff=0.5)
        raise UnknownName("task in a gate", gate.name, near or list(lines)[:5], f"gate: '{gate.text}'")
    if pair.stopped:
        raise UsageError(
            f"gate '{gate.text}': {' and '.join(pair.stopped)} was stopped by its rule, so a bound for samples of a "
            "fixed size is not valid; evaluate the rest with `assaymark run`"
        )
    line = lines[name]
    if line.is_neutral:
        raise UsageError(f"gate '{gate.text}': neither higher nor lower {line.metric} is better; gate another score")
    if line.scale == "proportion" and abs(gate.bound) >= 1.0:
        outcome = "fail" if gate.bound < 0 else "pass"
        points = f"{abs(gate.bound):g} point{'' if abs(gate.bound) == 1 else 's'}"
        raise UsageError(
            f"gate '{gate.text}' cannot {outcome}: {line.name} is a share, whose differences are from -1 to 1; write "
            f"{gate.bound / 100:g} or {gate.bound:g}% for {points}"
        )
    low, _ = line.one_sided_gain
    return PairGateResult(gate, pair.labels, line, low, low is not None and low > gate.bound)


@dataclass(frozen=True, slots=True)
class BoundGate:
    """A condition on a bound of one metric.

    kind: "lower" and "upper" are bounds of the run's own value; "baseline" is a bound of its gain over a baseline.
    """

    kind: Literal["lower", "upper", "baseline"]
    limit: float  # in the metric's units; of a baseline in the direction of better: -0.02 allows a loss of 0.02
    text: str
    side: Literal["below", "above"] | None = None  # of a baseline: the direction that was named as worse


@dataclass(frozen=True, slots=True)
class BoundResult:
    """A `BoundGate`'s result. low, high: one-sided bounds, of the value or of the gain; None: there is no interval."""

    gate: BoundGate
    outcome: Outcome
    estimate: float | None
    low: float | None
    high: float | None
    n: int
    n_needed: int | None  # where undecided: samples that would decide with a power of 80%, were the estimate true
    confidence: float = 0.95

    @property
    def bound(self) -> float | None:
        """The bound that decides whether it passes."""
        return self.high if self.gate.kind == "upper" else self.low


def parse_bound_gate(text: str) -> BoundGate:
    """Return the gate of an expression.

    Args:
        text: `lower >= 0.9`, `upper <= 2%`, `not more than 0.02 below baseline` (`above`, where lower is better; or
            `worse than`), or `better than baseline`.

    Raises: UsageError if the expression cannot be parsed.
    """
    if match := _OF_RUN.fullmatch(text):
        end = match["end"].lower()
        if (end == "lower") != match["sign"].startswith(">"):
            expected = "'lower >=' or 'upper <='"
            raise UsageError(f"gate '{text}' compares the {end} bound by {match['sign']}; expected {expected}")
        return BoundGate("lower" if end == "lower" else "upper", _limit(match), text.strip())
    if match := _OF_BASELINE.fullmatch(text):
        if match["better"]:
            return BoundGate("baseline", 0.0, text.strip())
        limit = _limit(match)
        if limit < 0:
            raise UsageError(f"gate '{text}': the loss that is allowed is {limit:g}; expected a number from 0")
        side: Literal["below", "above"] | None = None  # "worse than": whichever is worse
        if match["side"].lower() in ("below", "above"):
            side = "below" if match["side"].lower() == "below" else "above"
        return BoundGate("baseline", -limit, text.strip(), side)
    raise UsageError(
        f"gate '{text}' cannot be parsed; expected 'lower >= 0.9', 'upper <= 0.1', 'not more than 0.02 below baseline' "
        "or 'better than baseline'"
    )


def _limit(match: re.Match[str]) -> float:
    return float(match["bound"]) / (100 if match["percent"] else 1)


def check_bound(gate: BoundGate, values: Sequence[float], *, is_share: bool, confidence: float = 0.95) -> BoundResult:
    """Decide a gate on a run's own value, by the one-sided bounds of the mean of its samples' scores.

    Raises: UsageError for a limit that a share always or never meets.
    """
    is_lower = gate.kind == "lower"
    if is_share and not (0.0 < gate.limit <= 1.0 if is_lower else 0.0 <= gate.limit < 1.0):
        end, outside = gate.kind, "always or never met"
        raise UsageError(f"gate '{gate.text}': the {end} bound of a share is in [0, 1], so {gate.limit:g} is {outside}")
    if not values:
        return BoundResult(gate, "undecided", None, None, None, 0, None, confidence)
    bounds = None if is_share else (-math.inf, math.inf)
    binary = None if is_share else False
    estimate = estimate_mean(values, binary=binary, confidence=2.0 * confidence - 1.0, bounds=bounds)
    low, high, limit = estimate.low, estimate.high, gate.limit
    passes = low is not None and low >= limit if is_lower else high is not None and high <= limit
    fails = high is not None and high < limit if is_lower else low is not None and low > limit
    outcome: Outcome = "pass" if passes else "fail" if fails else "undecided"
    needed = None
    if outcome == "undecided":
        variance = at_limit = (estimate.stderr or 0.0) ** 2 * estimate.n
        if is_share and (estimate.method == "wilson" or not variance):
            at_limit = limit * (1.0 - limit)
        needed = _needed(abs(estimate.value - limit), variance, at_limit, estimate.n, confidence)
    return BoundResult(gate, outcome, estimate.value, low, high, estimate.n, needed, confidence)


def check_against(gate: BoundGate, line: Difference) -> BoundResult:
    """Decide a gate on the gain over a baseline, by the one-sided 95% bounds of a paired comparison.

    Raises: UsageError where the gate names the better direction as the worse one, or a share could not meet it.
    """
    worse = "below" if line.higher_is_better else "above"
    if gate.side not in (None, worse):
        better = "higher" if line.higher_is_better else "lower"
        raise UsageError(f"gate '{gate.text}': of {line.metric} {better} is better; write '{worse} baseline'")
    if line.scale == "proportion" and gate.limit <= -1.0:
        raise UsageError(f"gate '{gate.text}' cannot fail: a share loses 1 at most; write {-gate.limit:g}% for points")
    low, high = line.one_sided_gain
    passes, fails = low is not None and low > gate.limit, high is not None and high < gate.limit
    outcome: Outcome = "pass" if passes else "fail" if fails else "undecided"
    needed = None
    if outcome == "undecided":
        variance = at_limit = (line.stderr or 0.0) ** 2 * line.n
        if line.scale == "proportion" and ("Tango" in line.method or not variance):
            changed = (line.n_better + line.n_worse) / line.n if line.n else 0.0
            at_limit = max(changed, abs(gate.limit)) - gate.limit**2
        needed = _needed(abs(line.gain - gate.limit), variance, at_limit, line.n, 0.95)
    return BoundResult(gate, outcome, line.gain, low, high, line.n, needed)


def _needed(distance: float, variance: float, at_limit: float, n: int, confidence: float) -> int | None:
    """Return how many samples would decide; more than there are, since these did not."""
    needed = samples_for_bound(distance, variance, max(at_limit, 0.0), confidence=confidence)
    return None if needed is None else max(needed, n + 1)


def junit_xml(comparison: Comparison, results: Sequence[PairGateResult], lines: Sequence[str] = ()) -> str:
    """Return gates as a JUnit report, one test case each; its output is the verdict and the further `lines`."""
    n_failed = sum(not result.passed for result in results)
    suite = ET.Element(
        "testsuite", name="assaymark compare", tests=str(len(results)), failures=str(n_failed), errors="0"
    )
    for result in results:
        first, second = result.labels
        case = ET.SubElement(suite, "testcase", classname=f"{second} against {first}", name=result.gate.text)
        if result.passed and any(result.line.n_mostly_cut):
            ET.SubElement(case, "system-out").text = result.message
        if not result.passed:
            ET.SubElement(case, "failure", message=result.message).text = result.message
    ET.SubElement(suite, "system-out").text = "\n".join([comparison.verdict, *lines])
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"
