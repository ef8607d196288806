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
from assaymark.applications.scorers.transforms import NoValue, transform_of
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
        ("answer: 5", "answer: 5", True),
        ('contains-any: "Rome, Italy", Par', "Paris", True),
        ('contains-all: "Paris, France"', "Paris in France", False),
        ({"type": "contains", "value": 0}, "0 errors", True),
        ({"type": "contains", "value": 1.0}, "1", True),
        ({"type": "equals", "value": 0}, "0", True),
        ({"type": "equals", "value": 3}, "3.0", False),
        ({"type": "equals", "value": True}, "true", True),
        ({"type": "equals", "value": {"a": 1}}, '{"a": true}', False),
        ({"type": "equals", "value": {"a": [1]}}, '{"a": [1.0]}', True),
        ({"type": "not-equals", "value": {"a": 1}}, "Paris", True),
        ({"type": "equals", "value": "caf\u00e9", "normalizeUnicode": True}, "cafe\u0301", True),
        ({"type": "equals", "value": "x2", "normalizeUnicode": True}, "x\u00b2", False),
        ({"type": "regex", "value": "^5$"}, "5\n", False),
        ({"type": "regex", "value": r"^\w+$"}, "café", False),
        ({"type": "regex", "value": r"^\d$"}, "٣", False),
        ({"type": "regex", "value": r"a\sb[\s]c"}, "a\u00a0b\u3000c", True),
        ({"type": "regex", "value": "a.b"}, "a\u2028b", False),
        ({"type": "regex", "value": r"(?<x>a)\k<x>[[&]"}, "aa[", True),
        ({"type": "regex", "value": "a[^]b"}, "a\nb", True),
        ({"type": "regex", "value": r"\Ax"}, "x", False),
        ({"type": "is-json"}, "NaN", False),
        ({"type": "regex", "value": "(?<year>[0-9]{4})$"}, "in 1969", True),
        ({"type": "is-json"}, '```json\n{"a": 1}\n```', False),
        ({"type": "contains-json"}, '```json\n{"a": 1}\n```', True),
        ({"type": "is-json", "value": {"type": "object", "required": ["a"]}}, '{"b": 1}', False),
        ({"type": "is-json", "value": "type: object\nrequired: [a]"}, '{"a": 1}', True),
        ({"type": "not-is-json", "value": {"type": "object", "required": ["a"]}}, '{"b": 1}', True),
        ({"type": "contains-json", "value": {"type": "object", "required": ["x"]}}, 'So: {"y": 1}.', False),
        ({"type": "contains-json", "value": {"type": "object", "required": ["x"]}}, '{"y": 1} {"x": 1}', True),
        ({"type": "not-contains-json", "value": {"type": "object", "required": ["x"]}}, '{"x": 1}', False),
        ({"type": "is-json", "value": {"properties": {"a": {"format": "ipv4"}}}}, '{"a": "x"}', False),
        ("word-count: 2", "Paris, France", True),
        ({"type": "word-count", "value": {"min": 2, "max": 3}}, "one", False),
        ({"type": "not-word-count", "value": {"max": 1}}, "a b", True),
        ({"type": "equals", "value": "0", "transform": "JSON.parse(output).answer"}, '{"answer": "0"}', True),
        ({"type": "is-json", "transform": "'not json'"}, "{}", False),
        ({"type": "contains", "value": "b", "transform": "output.split(' ')[1].trim()"}, "a b c", True),
        ({"type": "not-contains", "value": "x", "transform": "JSON.parse(output).answer"}, "no JSON", False),
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


def test_a_set_counts_as_one_assertion() -> None:
    """It has its own share and weight, as in promptfoo; its threshold decides whether it passes, not its score."""
    three = [{"type": "contains", "value": text} for text in ("alpha", "beta", "gamma")]
    delta = {"type": "contains", "value": "delta"}
    assert scored("alpha beta gamma", {"type": "assert-set", "assert": three}, delta).value == 0.5
    half = {"type": "assert-set", "threshold": 0.5, "weight": 3, "assert": [three[0], delta]}
    result = scored("alpha", half, three[0])
    assert (result.value, result.comment) == (0.625, "does not hold: contains delta")
    unknown = {"type": "assert-set", "assert": [{"type": "cost", "threshold": 1}]}
    assert scored("alpha", unknown, three[0]).value is None


def test_a_whole_test_may_transform_the_answer() -> None:
    """Its options' transform comes before that of an assertion; what else would change the score is refused."""
    (made,) = scorers_of("assertions")
    assert isinstance(made, Scorer)
    checks: list[Any] = [{"type": "equals", "value": "B", "transform": "output.toUpperCase()"}]
    row = Row("0", "q", metadata={"assert": checks, "options": {"transform": "JSON.parse(output)[0]"}})
    (result,) = asyncio.run(made.score(Answered(row, '["b"]')))
    assert result.value == 1.0
    for more in ({"assertScoringFunction": "file://f.js"}, {"config:__expected:threshold": 1},
                 {"options": {"transformVars": "x"}}):  # fmt: skip
        with pytest.raises(UsageError, match="is not obeyed here"):
            check_needs([made], [Row("0", "q", metadata={"assert": checks, **more})])


@pytest.mark.parametrize(
    ("expression", "output", "value"),
    [
        ("output", {"a": 1}, {"a": 1}),
        ("output.a.b[1]", {"a": {"b": [1, 2]}}, 2),
        ("output?.['a b']", {"a b": "x"}, "x"),
        ("return JSON.parse(output.trim()).a;", ' {"a": [1]} ', [1]),
        ("output.at(-1)", "abc", "c"),
        ("output.slice(1, 3)", "abcd", "bc"),
        ("output.slice(-2)", "abcd", "cd"),
        ("output.split('\\n').pop()", "a\nb", "b"),
        ("output.length", "abc", 3),
        ("JSON.stringify(output)", {"a": 1.0}, '{"a":1.0}'),
        ("(String(output)).toLowerCase()", "AB", "ab"),
        ("output.a", {"b": 1}, None),
        ("output[3]", "abc", None),
        ("JSON.parse(output)", "{", None),
        ("output.trim()", 3, None),
    ],
)
def test_paths_of_transforms(expression: str, output: Any, value: Any) -> None:
    """Members, indices and a few methods are JavaScript's; where it has no value, there is none."""
    if value is None:
        with pytest.raises(NoValue):
            transform_of(expression)(output)
    else:
        assert transform_of(expression)(output) == value


@pytest.mark.parametrize(
    "expression",
    ["", "output.", "output +1", "x => x", "output.map(f)", "output.trim(1)", "process.exit()", "output[i]", 7],
)
def test_other_transforms_are_refused(expression: Any) -> None:
    """Nothing is run, and nothing is guessed."""
    with pytest.raises(ValueError, match=r"not obeyed here|no expression"):
        transform_of(expression)


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        (
            {"type": "javascript", "value": "output.length"},
            "row 0: the assertion 'javascript' is code of another",
        ),
        (
            {"type": "llm-rubric", "value": "kind"},
            "'llm-rubric' asks a model; there are judged scorers; checked here are eq",
        ),
        ({"type": "contains"}, "'contains' has no value"),
        ({"type": "latency"}, "'latency' has no threshold"),
        ({"type": "regex", "value": "("}, "'regex'"),
        ({"type": "regex", "value": "(?i)a"}, "do not know"),
        ({"type": "is-json", "value": {"type": "nothing"}}, "'is-json': the schema is not valid"),
        ({"type": "is-json", "value": 7}, "has the value 7; expected a JSON Schema"),
        ({"type": "contains", "value": ""}, "'contains' has no value"),
        ({"type": "contains", "value": ["a"]}, "expected a text"),
        ({"type": "word-count", "value": "few"}, "expected a number, or min and max"),
        ({"type": "contain", "value": "a"}, "'contain' is not known; did you mean contains"),
        ({"type": "is-html"}, "'is-html' is not checked here"),
        ({"type": "rouge-n", "value": "a"}, "'rouge-n' is not checked here"),
        ("similar(0.8): Paris", "'similar' asks a model"),
        ("fn: output.length", "'fn' is code of another tool"),
        ({"type": "contains", "value": "a", "wieght": 2}, "has the key 'wieght', which is not obeyed here"),
        ({"type": "contains", "value": "a", "config": {"a": 1}}, "has the key 'config'"),
        (
            {"type": "equals", "value": "a", "transform": "output.match(/a/)[0]"},
            "transform 'output.match.*expected a path",
        ),
        ({"type": "equals", "value": "a", "transform": "file://t.js"}, "transform 'file://t.js'"),
        ({"type": "contains", "value": "a", "normalizeUnicode": True}, "normalizeUnicode True"),
        ({"type": "assert-set", "assert": []}, "has no list of assertions"),
        ({"type": "assert-set", "assert": [{"type": "assert-set", "assert": ["a"]}]}, "another set"),
        ({"type": "not-assert-set", "assert": ["a"]}, "'not-assert-set' is not known"),
        ({"type": "assert-set", "assert": ["a"], "transform": "output"}, "the key 'transform'"),
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
    """Tests of a configuration and of a table are scored alike, equality too; a row without assertions is refused."""
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
    assert assaymark.evaluate(shout, table, scorers="assertions").estimate("tests", "assertions").value == 0.25
    equal = tmp_path / "equal.csv"
    equal.write_text("city,__expected\nParis,PARIS\nRome,contains:OM\nOslo,Oslo\n", encoding="utf-8")
    assert assaymark.evaluate(shout, equal, scorers="assertions").estimate("equal", "assertions").value == 2 / 3
    with pytest.raises(UsageError, match="'assertions' needs assertions, and row 1 of 2 has none"):
        assaymark.evaluate(shout, [rows[0], {"city": "Rome"}], scorers="assertions")
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
