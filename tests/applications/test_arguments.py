"""Parameters of a target are bound by name, by the conventions of the tools that it was written for."""

from collections.abc import Callable
from typing import Any

import pytest

from assaymark.applications.arguments import Hooks, RowView, bind_target
from assaymark.applications.rows import Row, read_rows
from assaymark.errors import UsageError

LANGSMITH = [{"inputs": {"question": "2+2?", "unit": "apples"}, "outputs": {"answer": "4"}, "metadata": {"level": 1}}]
BRAINTRUST = [{"input": "2+2?", "expected": "4", "metadata": {"level": 1}, "tags": ["sums"]}]
PLAIN = [{"question": "2+2?", "expected": "4"}]


def called(function: Callable[..., Any], raw: list[dict[str, Any]]) -> Any:
    """Bind a function to rows, and call it for the first."""
    rows = read_rows(raw)
    arguments = bind_target(function, rows, "f").arguments(rows[0])
    return function(*arguments.positional, **arguments.named)


def test_langsmith() -> None:
    """`f(inputs)` gets the mapping of inputs; attachments and metadata are what the row holds."""

    def target(inputs: dict[str, Any], attachments: dict[str, Any], metadata: dict[str, Any]) -> Any:
        return inputs["question"], attachments, metadata["level"]

    assert called(target, LANGSMITH) == ("2+2?", {}, 1)
    assert called(lambda inputs: inputs, LANGSMITH) == {"question": "2+2?", "unit": "apples"}


def test_braintrust() -> None:
    """`task(input, hooks)` gets the input as it is stored, and hooks with metadata, expected and trial_index."""

    def task(input: str, hooks: Any) -> Any:  # noqa: A002 - Braintrust's name
        hooks.meta(seen=True)
        return input, hooks.metadata, hooks.expected, hooks.tags, hooks.trial_index

    assert called(task, BRAINTRUST) == ("2+2?", {"level": 1, "seen": True}, "4", ["sums"], 0)
    assert called(lambda input: input, BRAINTRUST) == "2+2?"  # noqa: A006 - Braintrust's name


def test_phoenix() -> None:
    """One parameter of any name is the input; several are bound by name, and `example` is the row."""
    rows = [{"input": {"question": "2+2?"}, "output": {"answer": "4"}, "metadata": {"level": 1}}]
    assert called(lambda x: x, rows) == {"question": "2+2?"}

    def task(input: Any, expected: Any, reference: Any, metadata: Any, example: Any) -> Any:  # noqa: A002
        return input["question"], expected["answer"], reference["answer"], metadata["level"], example.input["question"]

    assert called(task, rows) == ("2+2?", "4", "4", 1, "2+2?")


def test_mlflow() -> None:
    """`f(**inputs)`: parameters are the inputs' names, and `**kwargs` gets those that are left."""

    def predict(question: str, unit: str = "pears") -> str:
        return f"{question} {unit}"

    def predict_any(**inputs: Any) -> Any:
        return inputs

    def predict_rest(question: str, **more: Any) -> Any:
        return question, more

    assert called(predict, LANGSMITH) == "2+2? apples"
    assert called(predict, [{"inputs": {"question": "2+2?"}}]) == "2+2? pears"
    assert called(predict_any, LANGSMITH) == {"question": "2+2?", "unit": "apples"}  # never the reference
    assert called(predict_rest, LANGSMITH) == ("2+2?", {"unit": "apples"})


def test_langfuse() -> None:
    """`f(*, item, **kw)` gets the row, as a mapping and with attributes."""

    def task(*, item: Any, **kwargs: Any) -> Any:
        return item["input"], item.input, item["expected_output"], item.expected_output, item.get("none"), kwargs

    assert called(task, BRAINTRUST) == ("2+2?", "2+2?", "4", "4", None, {})


def test_honeyhive() -> None:
    """`f(datapoint)` gets the row with `inputs` and `ground_truth`."""

    def function(datapoint: Any) -> Any:
        return datapoint["inputs"]["question"], datapoint["ground_truth"]["answer"], datapoint.get("inputs")["unit"]

    rows = [{"inputs": {"question": "2+2?", "unit": "apples"}, "ground_truth": {"answer": "4"}}]
    assert called(function, rows) == ("2+2?", "4", "apples")


def test_promptfoo() -> None:
    """`call_api(prompt, options, context)` gets the text of the inputs, and them as `vars`, by position or by name."""

    def call_api(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> Any:
        return prompt, options["config"], context["vars"]

    assert called(call_api, [{"vars": {"question": "2+2?"}}]) == ("2+2?", {}, {"question": "2+2?"})
    assert called(call_api, BRAINTRUST) == ("2+2?", {}, {"input": "2+2?"})


def test_columns_without_inputs_are_inputs_by_name() -> None:
    """Rows of `question,expected` give `question`; a function of one parameter of another name gets its value."""
    assert called(lambda question: question, PLAIN) == "2+2?"
    assert called(lambda prompt: prompt, PLAIN) == "2+2?"
    assert called(lambda inputs: inputs, PLAIN) == {"question": "2+2?"}
    assert called(lambda question, expected: (question, expected), PLAIN) == ("2+2?", "4")


def test_what_a_call_changes_is_a_copy() -> None:
    """A target that changes its inputs changes no other call's."""
    rows = read_rows(LANGSMITH)

    def target(inputs: Any) -> Any:
        return inputs.pop("question")

    binding = bind_target(target, rows, "f")
    assert [target(**binding.arguments(rows[0]).named) for _ in range(2)] == ["2+2?", "2+2?"]


def test_positional_parameters_are_bound_by_name_too() -> None:
    """A parameter that cannot be named is found by its name, and passed at its place."""

    def target(expected: Any, inputs: Any, /, unit: str) -> Any:
        return expected["answer"], inputs["question"], unit

    assert called(target, LANGSMITH) == ("4", "2+2?", "apples")


def test_the_text_of_a_request() -> None:
    """A single text is itself, anything else canonical JSON of what is bound by name; hooks are no part of it."""
    rows = read_rows(BRAINTRUST)
    assert bind_target(lambda input, hooks: "", rows, "f").text(rows[0]) == "2+2?"  # noqa: A006
    assert bind_target(lambda item: "", rows, "f").text(rows[0]).startswith('{"expected":"4","inputs":"2+2?"')
    plain = read_rows(LANGSMITH)
    assert bind_target(lambda unit, question: "", plain, "f").text(plain[0]) == '{"question":"2+2?","unit":"apples"}'
    assert bind_target(lambda inputs: "", plain, "f").text(plain[0]) == '{"question":"2+2?","unit":"apples"}'


def takes_input(input: str) -> str:  # noqa: A002 - Braintrust's name
    """Return the input."""
    return input


@pytest.mark.parametrize(
    ("function", "rows", "message"),
    [
        (lambda question, answers: "", LANGSMITH, r"'answers' of f fits nothing .* an input \(question, unit\)"),
        (lambda inputs, outputs, expected: "", LANGSMITH, "parameter 'outputs' of f fits nothing in the rows"),
        (lambda a, b: "", BRAINTRUST, "parameter 'a' of f fits nothing in the rows"),
        (lambda: "", BRAINTRUST, "f takes no argument"),
        (lambda inputs, contexts: "", BRAINTRUST, "parameter 'contexts' of f: no row has contexts"),
        (takes_input, [{"inputs": {"input": "x", "y": 1}}], "'input' of f can be two things: .* `inputs`"),
        (lambda question, unit: "", [*LANGSMITH, {"inputs": {"question": "?"}}], "row 1 has no input of that name"),
        (print, BRAINTRUST, "f takes no argument|cannot be read"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(
    function: Callable[..., Any], rows: list[dict[str, Any]], message: str
) -> None:
    """The error names the parameter and what there is; nothing is bound by position."""
    read = read_rows(rows)
    with pytest.raises(UsageError, match=message):
        bind_target(function, read, "f")


def test_a_row_knows_every_tools_names() -> None:
    """The whole row answers to the names of all tools, and says what it has where a name is none of them."""
    row = RowView(Row("7", {"question": "2+2?"}, "4", ("a",), {"level": 1}, ("sums",)))
    assert row["id"] == row.id == "7"
    for name in ("expected", "reference", "reference_outputs", "ground_truth", "expected_output", "target", "outputs"):
        assert row[name] == getattr(row, name) == "4"
    assert row.retrieval_context == ["a"]
    assert row.question == "2+2?"
    with pytest.raises(AttributeError, match="a row has no 'nothing'; it has id, inputs"):
        _ = row.nothing
    assert Hooks(Row("1", "x")).expected is None
