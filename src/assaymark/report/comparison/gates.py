"""A comparison as a gate: `--gate "mmlu >= -0.01"` fails the build unless the second run is non-inferior by that bound.

A gate is NAME OP BOUND: NAME is a task, a group or `overall`, BOUND a difference, second minus first, in the direction
of better (`-0.01` or `-1%`). With `>=` and `>` the whole one-sided 95% interval must be above the bound: a negative
bound tests non-inferiority, a bound of zero or more superiority. So a gate fails if there are too few samples.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from xml.etree import ElementTree as ET

from assaymark.errors import UnknownName, UsageError
from assaymark.registry import meant
from assaymark.report.comparison.records import Comparison, Difference, PairComparison
from assaymark.report.comparison.verdict import shown_bound, shown_gain

GATE = re.compile(r"\s*(?P<name>[^<>=\s]+)\s*(?P<sign>>=|>)\s*(?P<bound>[+-]?\d*\.?\d+)\s*(?P<percent>%?)\s*")


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on the difference of one line of a comparison."""

    name: str
    bound: float  # in the metric's units: shares in [0, 1]; for a perplexity its logarithm
    text: str


@dataclass(frozen=True, slots=True)
class GateResult:
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
        return f"gate '{self.gate.text}' {state}: {measured}, n {self.line.n:,}"


def parse_gate(text: str) -> Gate:
    """Return the gate of an expression such as `mmlu >= -0.01`, `overall > 0` or `arc_easy >= -1%`.

    Raises: UsageError if the expression cannot be parsed.
    """
    match = GATE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"gate '{text}' cannot be parsed; expected NAME >= BOUND, such as 'mmlu >= -0.01' or 'mmlu >= -1%'"
        )
    bound = float(match["bound"]) / (100 if match["percent"] else 1)
    return Gate(match["name"], bound, text.strip())


def check_gates(comparison: Comparison, gates: Sequence[Gate]) -> list[GateResult]:
    """Return the result of each gate, for each run compared with the first.

    Raises: UnknownName for a gate on a name that was not compared; UsageError for one that every result would pass, or
        none.
    """
    return [_checked(pair, gate) for pair in comparison.pairs for gate in gates]


def _checked(pair: PairComparison, gate: Gate) -> GateResult:
    lines = {line.name: line for line in (*pair.tasks, *pair.groups)}
    if pair.overall is not None:
        lines.setdefault(pair.overall.name, pair.overall)
    name = meant(gate.name, lines)
    if name not in lines:
        near = get_close_matches(gate.name, lines, n=3, cutoff=0.5)
        raise UnknownName("task in a gate", gate.name, near or list(lines)[:5], f"gate: '{gate.text}'")
    line = lines[name]
    if line.scale == "proportion" and abs(gate.bound) >= 1.0:
        outcome = "fail" if gate.bound < 0 else "pass"
        points = f"{abs(gate.bound):g} point{'' if abs(gate.bound) == 1 else 's'}"
        raise UsageError(
            f"gate '{gate.text}' cannot {outcome}: {line.name} is a share, whose differences are from -1 to 1; write "
            f"{gate.bound / 100:g} or {gate.bound:g}% for {points}"
        )
    low = _one_sided_low(line)
    return GateResult(gate, pair.labels, line, low, low is not None and low > gate.bound)


def _one_sided_low(line: Difference) -> float | None:
    """Return the lower end of the gain's one-sided 95% interval."""
    least, most = line.one_sided
    if line.higher_is_better:
        return least
    return None if most is None else -most


def junit_xml(comparison: Comparison, results: Sequence[GateResult], lines: Sequence[str] = ()) -> str:
    """Return gates as a JUnit report, one test case each; its output is the verdict and the further `lines`."""
    n_failed = sum(not result.passed for result in results)
    suite = ET.Element(
        "testsuite", name="assaymark compare", tests=str(len(results)), failures=str(n_failed), errors="0"
    )
    for result in results:
        first, second = result.labels
        case = ET.SubElement(suite, "testcase", classname=f"{second} against {first}", name=result.gate.text)
        if not result.passed:
            ET.SubElement(case, "failure", message=result.message).text = result.message
    ET.SubElement(suite, "system-out").text = "\n".join([comparison.verdict, *lines])
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"
