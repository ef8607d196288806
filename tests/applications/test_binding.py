"""Scorers written for other tools are called by the names of their parameters, and what they return becomes results."""

import asyncio
import functools
import importlib.util
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.applications.binding import bind_scorer, results_of, source_hash
from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, Result, Scorer, ScorerFacts
from assaymark.errors import UsageError

ROW = Row(
    id="7",
    inputs={"question": "Capital of France?", "k": 3},
    expected={"answer": "Paris"},
    contexts=("Paris is the capital.",),
    metadata={"topic": "geography"},
    tags=("easy",),
    split="test",
)
ANSWERED = Answered(ROW, {"answer": "Paris"}, latency_s=0.5, trace_id="ab" * 16)
TEXT = Answered(Row("0", "Capital of France?", "Paris"), "Paris")


def scored(function: Any, answered: Answered = ANSWERED) -> list[Result]:
    """Return the results of a user's function, bound and called."""
    return list(asyncio.run(bind_scorer(function).score(answered)))


def value(function: Any, answered: Answered = ANSWERED) -> float | None:
    """Return the value of the only result."""
    (result,) = scored(function, answered)
    return result.value


# ------------------------------------------------------------------------------- the tools' own shapes


def langsmith_run_example(run: Any, example: Any) -> dict[str, Any]:
    """LangSmith's first form: run and example are objects, example.outputs the reference."""
    same = run.outputs["answer"] == example.outputs["answer"] and example.inputs["k"] == run.inputs["k"]
    return {"key": "correct", "score": same, "comment": f"row {example.id}"}


def langsmith_named(inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> bool:
    """LangSmith's second form: three named mappings."""
    return bool(inputs["k"] == 3 and outputs["answer"] == reference_outputs["answer"])


@dataclass
class Score:
    """Braintrust's autoevals.Score."""

    name: str
    score: float | None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None


def braintrust(input: Any, output: Any, expected: Any, metadata: Any, tags: Any, id: str) -> Score:  # noqa: A002
    """Braintrust's form, with every name it has."""
    assert (metadata["topic"], tags, id, input["k"]) == ("geography", ["easy"], "7", 3)
    return Score("Match", float(output == expected), {"by": "equality"})


class BraintrustClass:
    """A scorer class of autoevals: constructed, then called with the rest as keywords."""

    def __call__(self, output: Any, expected: Any = None, **kwargs: Any) -> Score:
        """Score an answer."""
        assert kwargs["input"] == ROW.inputs
        return Score("Class", 1.0 if output == expected else 0.0)


def phoenix(output: Any, expected: Any, reference: Any, example: Any, trace_id: str) -> tuple[float, str]:
    """Phoenix's form; returns a tuple of score and label."""
    assert expected == reference == example.expected
    assert trace_id == "ab" * 16
    return 0.25, "poor"


def phoenix_of_output(text: Any) -> str:
    """Phoenix: the only parameter is the output; a text is a label."""
    return f"got {text['answer']}"


class PhoenixEvaluator:
    """What Phoenix's create_evaluator makes: an object with the function inside and no signature of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function

    def evaluate(self, **kwargs: Any) -> Any:
        """Phoenix's own entry."""
        raise AssertionError(kwargs)


class PhoenixCalled:
    """The same in its present client: the function is behind `__call__`, and the object has the name."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name

        class Called(PhoenixCalled):
            @functools.wraps(function)
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

        self.__class__ = Called


class MlflowScorer:
    """What MLflow's decorator makes: `__call__` takes anything and states the function's signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name, self._original_func = function.__name__, function

        class Custom(MlflowScorer):
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

        own = inspect.signature(function)
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = own.replace(parameters=[first, *own.parameters.values()])
        Custom.__call__.__signature__ = signature  # type: ignore[attr-defined]
        self.__class__ = Custom


class Feedback:
    """MLflow's Feedback, with its default name."""

    def __init__(self, value: Any, rationale: str | None = None, name: str = "feedback") -> None:
        self.name, self.value, self.rationale, self.error, self.metadata = name, value, rationale, None, None


def mlflow(inputs: Any, outputs: Any, expectations: Any) -> Feedback:
    """MLflow's form."""
    return Feedback(outputs == expectations, f"of {inputs['question']}")


@dataclass
class Evaluation:
    """Langfuse's Evaluation."""

    name: str
    value: float | str | bool
    comment: str | None = None


def langfuse(*, input: Any, output: Any, expected_output: Any = None, metadata: Any = None, **kwargs: Any) -> Any:  # noqa: A002
    """Langfuse's form: keywords only."""
    assert kwargs["trace_id"] == "ab" * 16
    return Evaluation("found", 0.5 if expected_output == output and input and metadata else 0.0, "half")


def honeyhive(outputs: Any, inputs: Any, ground_truth: Any) -> dict[str, Any]:
    """HoneyHive's form, which HoneyHive calls by position."""
    return {"score": float(outputs == ground_truth and "k" in inputs), "explanation": "equal"}


def get_assert(output: Any, context: dict[str, Any]) -> dict[str, Any]:
    """Promptfoo's form: exactly (output, context)."""
    variables = context["vars"]
    return {"pass": True, "score": 0.75, "reason": f"{variables['question']} {variables['expected']['answer']}"}


async def asynchronous(output: Any, expected: Any) -> bool:
    """An asynchronous scorer."""
    await asyncio.sleep(0)
    return bool(output == expected)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (langsmith_run_example, Result("correct", 1.0, comment="row 7")),
        (langsmith_named, Result("langsmith_named", 1.0)),
        (braintrust, Result("Match", 1.0, metadata={"by": "equality"})),
        (BraintrustClass, Result("Class", 1.0)),
        (BraintrustClass(), Result("Class", 1.0)),
        (phoenix, Result("phoenix", 0.25, "poor")),
        (phoenix_of_output, Result("phoenix_of_output", label="got Paris")),
        (PhoenixEvaluator(phoenix), Result("phoenix", 0.25, "poor")),
        (PhoenixCalled(phoenix, "ph"), Result("ph", 0.25, "poor")),
        (mlflow, Result("mlflow", 1.0, comment="of Capital of France?")),
        (MlflowScorer(mlflow), Result("mlflow", 1.0, comment="of Capital of France?")),
        (langfuse, Result("found", 0.5, comment="half")),
        (honeyhive, Result("honeyhive", 1.0, comment="equal")),
        (get_assert, Result("get_assert", 0.75, comment="Capital of France? Paris")),
        (asynchronous, Result("asynchronous", 1.0)),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_each_tools_shape_is_bound(function: Any, expected: Result) -> None:
    """A scorer of each tool gets its values under its own names, and its result is read."""
    assert isinstance(bind_scorer(function), Scorer)
    assert scored(function) == [expected]


def test_a_plain_output_is_under_output_in_langsmiths_run() -> None:
    """LangSmith wraps what a target returned that is not a mapping; `outputs` itself stays as stored."""
    assert value(lambda run, example: run.outputs["output"] == example.outputs, TEXT) == 1.0
    assert value(lambda outputs: outputs == "Paris", TEXT) == 1.0


class Relevancy:
    """A metric of DeepEval's form: it keeps the score of the last case."""

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold
        self.score: float | None = None
        self.reason: str | None = None

    def measure(self, case: Any) -> float:
        """Score a case."""
        assert case.retrieval_context == ["Paris is the capital."]
        self.score = float(case.actual_output in case.expected_output)
        self.reason = f"threshold {self.threshold}"
        return self.score


def test_a_metric_of_deepeval_measures_a_copy() -> None:
    """The metric gets a test case with the text inside a mapping of one value; the object itself keeps no score."""
    metric = Relevancy(0.7)
    assert scored(metric) == [Result("Relevancy", 1.0, comment="threshold 0.7", metadata={"threshold": 0.7})]
    assert metric.score is None
    assert bind_scorer(metric).content_hash != bind_scorer(Relevancy(0.8)).content_hash


# ----------------------------------------------------------------------------------------- refusals


def two_others(a: Any, b: Any) -> float:
    """Two parameters whose names say nothing."""
    raise AssertionError(a, b)


def misspelt(output: Any, expcted: Any) -> float:
    """A parameter with a slip."""
    raise AssertionError(output, expcted)


class NeedsArguments:
    """A class that cannot be constructed without arguments."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, output: Any) -> float:
        """Score."""
        raise AssertionError(output)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (two_others, r"scorer 'two_others' \(test_binding.py\): nothing is called 'a'.*never by position"),
        (misspelt, r"nothing is called 'expcted'; did you mean 'expected'\?"),
        (NeedsArguments, "is a class that needs arguments .*pass an object"),
        (lambda *args: args, "takes none of what it could be given"),
        (lambda: 1.0, "takes none of what it could be given"),
        (3, "cannot be called"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(function: Any, message: str) -> None:
    """The refusal comes before any call, in one line, with the parameter's name."""
    with pytest.raises(UsageError, match=message) as refused:
        bind_scorer(function)
    assert "\n" not in str(refused.value)


def test_nothing_is_bound_by_position() -> None:
    """`outputs` is the answer and `expected` the reference in whatever order they stand."""
    seen = []
    scored(lambda expected, inputs, outputs: seen.append((expected, inputs["k"], outputs)), TEXT_MAPPED)
    assert seen == [("e", 1, "o")]


TEXT_MAPPED = Answered(Row("0", {"k": 1}, "e"), "o")


def test_defaults_are_kept() -> None:
    """A default of another name stays, one of a known name stays where the row has no such value."""
    no_reference = Answered(Row("0", "q"), "o")

    def function(output: str, threshold: float = 0.25, expected: str = "none", trace: str = "no trace") -> float:
        assert (expected, trace) == ("none", "no trace")
        return threshold

    assert value(function, no_reference) == 0.25
    assert bind_scorer(function).facts.needs == frozenset()


def test_positional_only_parameters_are_passed_in_place() -> None:
    """They are bound by their names too; a default between them is kept."""

    def function(expected: Any, weight: float = 0.5, output: Any = None, /) -> float:
        return weight if (expected, output) == ("e", "o") else 0.0

    assert value(function, TEXT_MAPPED) == 0.5


def test_what_parameters_need_is_known_without_a_call() -> None:
    """Parameters without a default are needs; a declaration overrides them."""
    assert bind_scorer(honeyhive).facts.needs == {"expected"}

    def with_contexts(output: Any, retrieved_contexts: Any, trace: Any) -> float:
        raise AssertionError(output, retrieved_contexts, trace)

    assert bind_scorer(with_contexts).facts.needs == {"contexts", "trace"}
    assert bind_scorer(assaymark.scorer(needs=())(lambda output, expected: 1.0)).facts.needs == frozenset()


def test_a_decorated_function_keeps_its_decorator() -> None:
    """A wrapper that takes anything is called, by the names of the function inside."""
    calls = []

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls.append(sorted(kwargs))
            return function(*args, **kwargs)

        return wrapper

    @counting
    def correct(output: Any, reference: Any) -> bool:
        return bool(output == reference)

    assert value(correct) == 1.0
    assert calls == [["output", "reference"]]


def test_a_function_cannot_change_what_others_see() -> None:
    """Each call gets copies of mappings and lists."""

    def spoils(inputs: dict[str, Any], output: dict[str, Any], example: Any) -> float:
        inputs.clear()
        output["answer"] = "?"
        example.metadata["topic"] = "?"
        return 1.0

    scored(spoils)
    assert isinstance(ROW.inputs, dict)
    assert (ANSWERED.output, ROW.inputs["k"], ROW.metadata) == ({"answer": "Paris"}, 3, {"topic": "geography"})


# ------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (True, Result("s", 1.0)),
        (3, Result("s", 3.0)),
        (None, Result("s")),
        (math.nan, Result("s", comment="NaN: not scored")),
        ("good", Result("s", label="good")),
        ((1, "good"), Result("s", 1.0, "good")),
        ({"key": "k", "score": 0.5, "value": "blue"}, Result("k", 0.5, "blue")),
        ({"value": "blue", "rationale": "because"}, Result("s", label="blue", comment="because")),
        ({"pass": False, "reason": "no"}, Result("s", 0.0, comment="no")),
        ({"score": None, "explanation": "skipped"}, Result("s", comment="skipped")),
        (Score("n", None, error=ValueError("broken")), Result("n", comment="broken")),
        ([], Result("s", comment="an empty list was returned")),
    ],
)
def test_what_functions_return_is_read(returned: Any, expected: Result) -> None:
    """Every form that the tools document becomes one result; None and NaN are not scored, never 0."""
    assert results_of(returned, "s") == [expected]


def test_numbers_of_numpy_are_numbers() -> None:
    """A scalar of numpy is read as a number."""
    import numpy as np

    numbers = (np.float32(0.5), np.bool_(True), Decimal("0.25"))
    assert [results_of(each, "s")[0].value for each in numbers] == [0.5, 1.0, 0.25]


def test_a_list_is_several_results() -> None:
    """Each has a name of its own; LangSmith's `results` is such a list."""
    several = [{"key": "a", "score": 1}, {"key": "b", "score": 0}]
    expected = [Result("a", 1.0), Result("b", 0.0)]
    assert results_of(several, "s") == results_of({"results": several}, "s") == expected
    with pytest.raises(ValueError, match="several results of one name"):
        results_of([1, 2], "s")


@pytest.mark.parametrize("returned", [{"accuracy": 1.0}, (1, 2, 3), object(), {"score": [1]}, b"1"])
def test_other_forms_are_errors_not_scores(returned: Any) -> None:
    """What is none of the known forms raises, so that it counts as a failed score."""
    with pytest.raises(TypeError, match="scorer 's' returned"):
        results_of(returned, "s")


def test_an_infinite_value_is_an_error() -> None:
    """Infinity cannot be averaged."""
    with pytest.raises(ValueError, match="finite"):
        results_of(math.inf, "s")


# -------------------------------------------------------------------------------------- declarations


@assaymark.scorer(formula="number of words", higher_is_better=False, scale="number", name="words")
def count_words(output: str) -> int:
    """Count words."""
    return len(output.split())


def test_declared_facts_are_the_scorers() -> None:
    """The decorator returns the function and declares name, formula, direction and scale."""
    assert count_words("a b") == 2
    bound = bind_scorer(count_words)
    assert bound.facts == ScorerFacts("words", "number of words", higher_is_better=False, scale="number")
    assert scored(count_words, TEXT) == [Result("words", 1.0)]
    assert bind_scorer(assaymark.scorer(honeyhive)).facts.needs == {"expected"}


def test_a_value_outside_of_the_declared_scale_is_an_error() -> None:
    """A scorer that declares a share and returns 7 has failed; an undeclared one has not."""

    def seven(output: str) -> int:
        return 7 if output else 0

    assert value(seven, TEXT) == 7.0
    with pytest.raises(ValueError, match=r"returned 7 and declares a value in \[0, 1\]"):
        scored(assaymark.scorer(scale="share")(seven), TEXT)


def _loaded(path: Path, text: str, name: str = "score") -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def test_the_hash_follows_the_source_file(tmp_path: Path) -> None:
    """The same file gives the same hash; another constant beside the function, another one."""
    text = "LIMIT = 3\ndef score(output):\n    return len(output) < LIMIT\n"
    first, same = _loaded(tmp_path / "a.py", text), _loaded(tmp_path / "b.py", text)
    other = _loaded(tmp_path / "c.py", text.replace("3", "4"))
    assert bind_scorer(first).content_hash == bind_scorer(same).content_hash
    assert bind_scorer(first).content_hash != bind_scorer(other).content_hash


def test_the_hash_of_a_tools_object_is_that_of_the_function_inside(tmp_path: Path) -> None:
    """An edit of the user's file changes the hash of the objects that Phoenix's and MLflow's decorators made of it."""
    text = "def score(output):\n    return 0.5\n"
    first, other = _loaded(tmp_path / "a.py", text), _loaded(tmp_path / "b.py", text.replace("0.5", "0.25"))
    for wrap in (MlflowScorer, PhoenixEvaluator, lambda function: PhoenixCalled(function, "s")):
        assert bind_scorer(wrap(first)).content_hash != bind_scorer(wrap(other)).content_hash
        assert bind_scorer(wrap(first)).content_hash == bind_scorer(wrap(first)).content_hash


def test_a_decorated_method_keeps_its_decorator() -> None:
    """An object whose `__call__` is decorated is called itself, without a value for `self`."""

    def twice(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return 2 * method(*args, **kwargs)

        return wrapper

    class Half:
        @twice
        def __call__(self, output: Any, expected: Any) -> float:
            return 0.25 if output == expected else 0.0

    assert value(Half()) == 0.5


def test_the_hash_follows_bound_settings() -> None:
    """A partial or a closure with another value is another scorer."""

    def threshold(output: str, least: float = 0.0) -> bool:
        return len(output) > least

    def over(least: int) -> Callable[[str], bool]:
        return lambda output: len(output) > least

    assert source_hash(functools.partial(threshold, least=1)) != source_hash(functools.partial(threshold, least=2))
    assert source_hash(over(1)) != source_hash(over(2))
    assert source_hash(over(1)) == source_hash(over(1))
    assert value(functools.partial(threshold, least=99), TEXT) == 0.0
