"""Task files with tools: their keys, the calls they expect, a right answer as text, and prompts in both ways."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from assaymark.errors import DataError, MalformedSample, PlanError
from assaymark.models.fake import FakeModel
from assaymark.prompts.tools import tools_prompt
from assaymark.records import Output, Request, Score
from assaymark.records.json_values import object_of
from assaymark.runs.plan import render_of
from assaymark.scoring.call_match import ExpectedCall
from assaymark.store.request_texts import join_request, split_request
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.tool_use import expected_calls

ADD = {
    "name": "math.add",
    "description": "Add.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "how": {"type": "object"}},
        "required": ["a"],
    },
}
ROWS: list[dict[str, Any]] = [
    {"q": "1?", "tools": [ADD], "calls": [{"name": "math.add", "arguments": {"a": 1, "how": {"x": "y"}}}]},
    {
        "q": "2?",
        "tools": json.dumps([ADD]),
        "calls": json.dumps([{"math.add": {"a": [2, 3], "how": ["", {"x": ["", 1]}]}}]),
    },
    {"q": "Hi", "tools": [ADD], "calls": []},
]
SPEC = {
    "task": "adding",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{q}}",
    "doc_to_tools": "tools",
    "doc_to_target": "calls",
    "generation_kwargs": {"until": []},
}


def bound(folder: Path, options: BindOptions | None = None, rows: list[Any] | None = None, **changes: Any) -> BoundTask:
    """Return the task with some keys changed; None removes one."""
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows or ROWS)))
    spec = {key: value for key, value in {**SPEC, **changes}.items() if value is not None}
    (folder / "adding.yaml").write_text(yaml.safe_dump(spec))
    selection = Catalog.open(lm_eval=False).select([str(folder / "adding.yaml")])
    return bind(selection.tasks[0], options or BindOptions())


def score_of(task: BoundTask, index: int, text: str, calls: Any = None) -> Score:
    """Return the score of an answer to one row."""
    sample = task.samples()[index]
    output = Output("r", 0, text=text, tool_calls=None if calls is None else json.dumps(calls))
    (score,) = task.score(task.request(sample), sample, [output])
    return score


def reason_of(score: Score) -> object:
    """Return why a score is no right answer."""
    return object_of(score.detail, "detail")["reason"]


def test_a_request_has_tools_and_a_right_answer(tmp_path: Path) -> None:
    """Tools have OpenAI's form and names; the target is what a model may write; call_match is the default metric."""
    task = bound(tmp_path)
    requests = list(task.requests())
    results = {"type": "function", "function": {**ADD, "name": "math_add"}}
    assert [json.loads(request.tools or "") for request in requests] == [[results]] * 3
    assert [request.messages[-1].text for request in requests] == ["1?", "2?", "Hi"]
    assert [json.loads(request.target) for request in requests] == [
        [{"name": "math_add", "arguments": {"a": 1, "how": {"x": "y"}}}],
        [{"name": "math_add", "arguments": {"a": 2, "how": {"x": 1}}}],
        [],
    ]
    assert [metric.name for metric in task.metrics] == ["call_match"]
    for index, request in enumerate(requests):
        assert score_of(task, index, request.target).value == 1.0
    assert score_of(task, 1, '{"name": "math_add", "parameters": {"a": 3}}').value == 1.0
    assert reason_of(score_of(task, 0, "")) == "no_call"
    function = {"function": {"name": "math_add", "arguments": '{"a": 2}'}}
    assert score_of(task, 1, "I add.", [function]).value == 1.0


def test_tools_in_the_prompt(tmp_path: Path) -> None:
    """Without a template the functions are listed by BFCL's prompt, under their own names; calls are Python's."""
    task = bound(tmp_path, tools_in="prompt", description="Be brief.")
    request = next(task.requests())
    assert request.tools is None
    assert request.prompt == "Be brief.\n\n" + tools_prompt([ADD]) + "1?"
    assert request.target == "[math.add(a=1, how={'x': 'y'})]"
    assert score_of(task, 0, request.target).value == 1.0
    assert reason_of(score_of(task, 0, '{"name": "math.add", "arguments": {"a": 1}}')) == "missing_parameter"
    chat = next(bound(tmp_path, BindOptions(apply_chat_template=True), tools_in="prompt").requests())
    assert [message.role for message in chat.messages] == ["system", "user"]
    assert chat.messages[0].text == tools_prompt([ADD])


def test_messages_of_a_row(tmp_path: Path) -> None:
    """Its own system text comes after ours, and earlier turns stay."""
    messages = [{"role": "system", "content": "It is May."}, {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "1?"}]  # fmt: skip
    rows = [{"m": messages, "tools": [ADD], "calls": []}]
    options = BindOptions(system_instruction="Be brief.")
    request = next(
        bound(tmp_path, options, rows, doc_to_text=None, doc_to_messages="m").requests(render_of(FakeModel()))
    )
    assert [(m.role, m.text) for m in request.messages] == [
        ("system", "Be brief.\n\nIt is May."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "1?"),
    ]  # fmt: skip
    assert request.prompt.startswith("tools: [")
    assert request.prompt.endswith("user: 1?\nassistant:")
    plain = next(bound(tmp_path, None, rows, doc_to_text=None, doc_to_messages="m", tools_in="prompt").requests())
    assert plain.prompt == tools_prompt([ADD]) + "\n\nIt is May.\n\nHi\n\nYes?\n\n1?"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools_in": "system"}, "tools_in is 'system'; expected template or prompt with doc_to_tools"),
        ({"num_fewshot": 2}, "num_fewshot is 2; expected none with doc_to_tools"),
        ({"doc_to_choice": ["a"]}, "doc_to_choice is .'a'.; expected none with doc_to_tools"),
        ({"doc_to_messages": "m"}, "expected this or doc_to_messages, not both"),
        ({"doc_to_text": None}, "doc_to_text is None; expected this or doc_to_messages"),
        ({"output_type": "loglikelihood"}, "output_type is 'loglikelihood'; expected generate_until"),
        ({"doc_to_tools": None}, "tools_in needs doc_to_tools"),
        ({"doc_to_tools": None, "tools_in": None, "metric_list": [{"metric": "call_match"}]}, "call_match needs"),
        ({"metric_list": [{"metric": "call_match", "language": "cobol"}]}, "language is 'cobol'; expected python"),
        ({"metric_list": [{"metric": "call_mach"}]}, "'call_mach' is not known .*; nearest: call_match"),
        ({"doc_to_tools": "{{tools}}"}, "doc_to_tools is '.*'; expected a column"),
        ({"doc_to_target": "{{calls}}"}, "doc_to_target is '.*'; expected a column or a function"),
        ({"doc_to_text": None, "doc_to_messages": "n"}, "doc_to_messages is 'n'; expected a column"),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """One line names file, key, value and what was expected."""
    with pytest.raises((DataError, PlanError), match=message):
        bound(tmp_path, **{"tools_in": "template", **changes})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tools": [{"title": "x"}]}, r"sample 0: tool 1 has the name None; expected a JSON schema"),
        ({"calls": [{"name": 3}]}, "sample 0: an expected call is"),
        ({"calls": "[f(a=1)]"}, "expected calls are '.f.a=1..', which is not JSON"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    """The error has the task, its file and the sample."""
    with pytest.raises(DataError, match=message):
        list(bound(tmp_path, rows=[{**ROWS[0], **row}]).requests())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ()),
        ([], ()),
        ([{"name": "f"}], (ExpectedCall("f", {}),)),
        ([{"name": "f", "arguments": '{"a": 1}'}], (ExpectedCall("f", {"a": [1]}),)),
        ([{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}], (ExpectedCall("f", {}),)),
        ([{"f": {"a": [1, ""]}}], (ExpectedCall("f", {"a": [1, ""]}),)),
        ([{"name": "f", "arguments": {"a": [{"k": 1}]}}], (ExpectedCall("f", {"a": [[{"k": [1]}]]}),)),
    ],
)
def test_expected_calls_have_two_forms(value: Any, expected: tuple[ExpectedCall, ...]) -> None:
    """OpenAI's with exact values, and BFCL's with the acceptable ones."""
    assert expected_calls(value) == expected


@pytest.mark.parametrize("value", [3, [3], [{"f": 1}], [{"f": {"a": 1}}], [{"name": "f", "arguments": "x"}], [{}]])
def test_other_values_are_no_expected_calls(value: Any) -> None:
    """Each is refused as what it is."""
    with pytest.raises(MalformedSample, match="expected"):
        expected_calls(value)


def test_requests_without_tools_are_stored_as_before() -> None:
    """The form of a stored request has the tools only where there are any, so that earlier hashes stay."""
    plain = Request("t", 0, "sha256:0", ("a",), ())
    assert "tools" not in split_request(plain).form
    result = Request("t", 0, "sha256:0", ("a",), (), tools='[{"type": "function"}]')
    split = split_request(result)
    assert join_request(("t", 0, 0), "sha256:0", split.form, split.pieces) == result
