"""promptfoo's assertions and inspect's scorers score answers here; what cannot be checked is refused by name."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import assaymark
from assaymark.applications.binding import bind_scorer
from assaymark.applications.rows import Row, read_rows
from assaymark.applications.scorer import Answered, Result, Scorer
from assaymark.applications.scorers import check_needs, scorers_of
from assaymark.errors import UsageError


def scored(output: Any, *assertions: Any, inputs: Any = "q", **of_call: Any) -> Result:
    """Return the result of a row's assertions."""
    (made,) = scorers_of("assertions")
    assert isinstance(made, Scorer)
    row = Row("0", inputs, metadata={"assert": list(assertions)})
    (result,) = asyncio.run(made.score(Answered(row, output, **of_call)))
    return result


@pytest.mark.parametrize(
    ("assertion", "output", "holds"),
    [
        ({"type": "equals", "value": "Paris"}, "Paris", True),
        ({"type": "equals", "value": {"a": 1}}, '{"a": 1}', True),
        ({"type": "equals", "value": {"a": 1}}, "a", False),
        ({"type": "contains", "value": "Par"}, "Paris", True),
        ({"type": "contains", "value": "par"}, "Paris", False),
        ({"type": "icontains", "value": "PAR"}, "Paris", True),
        ({"type": "not-contains", "value": "Rome"}, "Paris", True),
        ({"type": "contains-all", "value": ["Pa", "ris"]}, "Paris", True),
        ({"type": "contains-all", "value": "Pa, Rome"}, "Paris", False),
        ({"type": "contains-any", "value": ["Rome", "Pa"]}, "Paris", True),
        ({"type": "icontains-any", "value": ["ROME", "PA"]}, "Paris", True),
        ({"type": "icontains-all", "value": ["PARIS"]}, "paris", True),
        ({"type": "starts-with", "value": "Pa"}, "Paris", True),
        ({"type": "starts-with", "value": "ris"}, "Paris", False),
        ({"type": "regex", "value": "^P.+s$"}, "Paris", True),
        ({"type": "not-regex", "value": "[0-9]"}, "Paris 7", False),
        ({"type": "is-json"}, '{"a": [1]}', True),
        ({"type": "is-json"}, "{a}", False),
        ({"type": "contains-json"}, 'It is: {"a": [1]} so.', True),
        ({"type": "contains-json"}, "It is: {a} so.", False),
        ({"type": "levenshtein", "value": "Pares"}, "Paris", True),
        ({"type": "levenshtein", "value": "Rome", "threshold": 2}, "Paris", False),
        ({"type": "contains", "value": "{{city}}"}, "It is Paris", True),
        ("contains: Par", "Paris", True),
        ("icontains-any: rome, PAR", "Paris", True),
        ("levenshtein(1): Pares", "Paris", True),
        ("is-json", "[]", True),
        ("Paris", "Paris", True),
    ],
)
def test_each_assertion(assertion: Any, output: str, holds: bool) -> None:
    """Each holds as promptfoo's documentation says, from YAML and from a table's cell alike."""
    result = scored(output, assertion, inputs={"city": "Paris"})
    assert result.value == float(holds)
    assert (result.comment is None) == holds


def test_weights_and_what_is_not_known() -> None:
    """The score is the weighted share; cost and latency that no one stated are not scored."""
    checks = [{"type": "contains", "value": "a", "weight": 3}, {"type": "contains", "value": "b"}]
    assert scored("a", *checks).value == 0.75
    assert scored("a", *checks).comment == "does not hold: contains b"
    assert scored("a", {"type": "assert-set", "assert": checks}).value == 0.75
    assert scored("a", {"type": "latency", "threshold": 500}, latency_s=0.4).value == 1.0
    assert scored("a", {"type": "cost", "threshold": 0.1}, cost=0.2).value == 0.0
    assert scored("a", {"type": "cost", "threshold": 0.1}).value is None


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        (
            {"type": "javascript", "value": "output.length"},
            "row 0: the assertion 'javascript' is code of another",
        ),
        (
            {"type": "llm-rubric", "value": "kind"},
            "'llm-rubric' asks a model, or is not known here; expected eq",
        ),
        ({"type": "contains"}, "'contains' has no value"),
        ({"type": "latency"}, "'latency' has no threshold"),
        ({"type": "regex", "value": "("}, "'regex'"),
        ({"type": "is-json", "value": {"type": "object"}}, "has a schema; expected it as the scorer json_schema"),
        ({"type": "contains", "value": "file://a.txt"}, "is in a file, file://a.txt"),
        ({"type": "contains", "value": "{{missing}}"}, r"is the template '\{\{missing\}\}'; expected inputs"),
        ({"type": "contains", "value": "a", "weight": "x"}, "has the weight 'x'; expected a number from 0"),
        (7, "its assertion is 7; expected a mapping with a type"),
    ],
)
def test_what_cannot_be_checked_is_refused(assertion: Any, message: str) -> None:
    """Before the first call, with the row and the assertion."""
    with pytest.raises(UsageError, match=message):
        check_needs(scorers_of("assertions"), [Row("0", "q", metadata={"assert": [assertion]})])


def test_a_run_of_promptfoos_tests(tmp_path: Path) -> None:
    """Tests of a configuration and of a table are scored alike; a row without assertions is refused."""
    config = tmp_path / "config.yaml"
    tests = [{"vars": {"city": "Paris"}, "assert": [{"type": "icontains", "value": "paris"}]},
             {"vars": {"city": "Rome"}, "assert": [{"type": "equals", "value": "Roma"}]}]  # fmt: skip
    config.write_text(yaml.safe_dump({"tests": tests}), encoding="utf-8")
    table = tmp_path / "tests.csv"
    table.write_text("city,__expected1,__expected2\nParis,icontains:paris,is-json\nRome,Roma,\n", encoding="utf-8")

    def shout(city: str) -> str:
        return city.upper()

    assert assaymark.evaluate(shout, config, scorers="assertions").estimate("config", "assertions").value == 0.5
    rows = read_rows(table)
    assert (rows[0].metadata["assert"], rows[1].expected) == (["icontains:paris", "is-json"], "Roma")
    with pytest.raises(UsageError, match="'assertions' needs assertions, and row 1 of 2 has none"):
        assaymark.evaluate(shout, table, scorers="assertions")
    half = assaymark.evaluate(shout, rows[:1], scorers="assertions")
    assert half.estimate("rows", "assertions").value == 0.5


# --------------------------------------------------------------------------------------------- inspect


@dataclass
class Score:
    """inspect's score."""

    value: Any
    answer: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None


def includes() -> Callable[..., Any]:
    """Return a scorer as inspect's decorator makes it."""

    async def score(state: Any, target: Any) -> Score:
        answer = state.output.completion
        right = any(text in answer for text in target) and target.text in answer
        return Score("C" if right else "I", answer, f"of {state.input_text} ({state.metadata['topic']})")

    return score


@pytest.mark.parametrize(("expected", "value"), [("Paris", 1.0), ("Rome", 0.0)], ids=["correct", "incorrect"])
def test_inspects_scorers_are_bound_by_name(expected: str, value: float) -> None:
    """`(state, target)` are what inspect passes; its grades C, P, I, N are the numbers that its metrics read."""
    row = Row("0", "Which city?", expected, metadata={"topic": "cities"})
    made = bind_scorer(includes())
    (result,) = asyncio.run(made.score(Answered(row, {"answer": "It is Paris"})))
    assert made.facts.name == result.name == "includes"  # and not that of the function inside
    assert (result.value, result.label) == (value, "C" if value else "I")
    assert result.comment == "of Which city? (cities)"


def test_inspects_not_a_number_is_not_scored() -> None:
    """As inspect's metrics leave it out."""

    async def nothing(state: Any, target: Any) -> Score:
        return Score(float("nan"), explanation=f"{state.sample_id}: {len(target)}")

    (result,) = asyncio.run(bind_scorer(nothing).score(Answered(Row("r", "q"), "a")))
    assert (result.value, result.comment) == (None, "r: 0")
