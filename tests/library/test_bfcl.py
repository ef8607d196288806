"""BFCL: right answers of every row score 1, faults put into them score 0 with their reason, prompts are BFCL's.

The rows are the real ones beside the repository. `test_call_match` has how the verdicts compare with BFCL's own.
"""

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import DataError
from assaymark.records import Output, Request, Sample, Score
from assaymark.records.json_values import object_of
from assaymark.runs.evaluate import evaluate
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.library.test_library import TASKS, module

CALLS = {"simple_python": 400, "simple_java": 100, "simple_javascript": 50, "multiple": 200, "parallel": 200,
         "parallel_multiple": 200, "live_simple": 258, "live_multiple": 1053, "live_parallel": 16,
         "live_parallel_multiple": 24}  # fmt: skip
SILENT = {"irrelevance": 240, "live_irrelevance": 884}
IMPOSSIBLE = {  # acceptable answers that contradict the declarations; BFCL's checker refuses them too
    "simple_java": {"simple_java_36", "simple_java_64", "simple_java_65"},
    "live_simple": {"live_simple_106-63-0", "live_simple_112-68-0"},
    "live_multiple": {"live_multiple_862-181-3", "live_multiple_964-207-0"},
}


@cache
def catalog() -> Catalog:
    """Return our library's catalogue."""
    return Catalog.open(lm_eval=False)


def bound(name: str, shared: Path, **options: Any) -> BoundTask:
    """Return a task bound to the real rows."""
    return bind(catalog().select([name]).tasks[0], BindOptions(data_dir=shared / "data", **options))


def scored(task: BoundTask, request: Request, sample: Sample, calls: list[dict[str, Any]]) -> Score:
    """Return the score of calls as a server makes them."""
    made = [{"type": "function", "function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]
    output = Output(request.id, 0, text="", tool_calls=json.dumps(made) if made else None)
    (score,) = task.score(request, sample, [output])
    return score


def reason_of(score: Score) -> object:
    """Return why a score is no right answer."""
    return object_of(score.detail, "detail")["reason"]


@pytest.mark.parametrize("prefix", ["bfcl_", "bfcl_prompted_"])
@pytest.mark.parametrize("category", [*CALLS, *SILENT])
def test_right_answers_score_1(category: str, prefix: str, shared_dir: Path) -> None:
    """The first acceptable values of every row make a right answer, but for seven rows that have none."""
    task = bound(prefix + category, shared_dir)
    wrong = set()
    for sample in task.samples():
        request = task.request(sample)
        (score,) = task.score(request, sample, [Output(request.id, 0, text=request.target)])
        wrong |= set() if score.value == 1.0 else {sample.row["id"]}
    assert len(task.samples()) == (CALLS | SILENT)[category]
    assert wrong == IMPOSSIBLE.get(category, set())


def faults(calls: list[dict[str, Any]], function: dict[str, Any], allowed: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield calls with one fault in the first of them, and its reason."""
    first, rest = calls[0], calls[1:]
    arguments, properties = first["arguments"], function["parameters"]["properties"]
    yield [{**first, "name": "another_function"}, *rest], "wrong_function"
    yield [{**first, "arguments": {**arguments, "no_such_parameter": "x"}}, *rest], "unexpected_parameter"
    yield [*calls, first], "wrong_count"
    yield rest, "wrong_count" if rest else "no_call"
    for name in function["parameters"]["required"]:
        if name in arguments:
            yield [{**first, "arguments": _without(arguments, name)}, *rest], "missing_parameter"
    for name, value in arguments.items():
        for other, reason in _other_values(value, properties[name].get("type"), allowed.get(name, [])):
            yield [{**first, "arguments": {**arguments, name: other}}, *rest], reason


def _without(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key != name}


def _other_values(value: Any, kind: str, allowed: list[Any]) -> Iterator[tuple[Any, str]]:
    """Yield values that are wrong in value or type; only for parameters whose acceptable values have their own type."""
    if isinstance(value, bool):
        yield "true", "wrong_type"
        if (not value) not in allowed:
            yield not value, "wrong_value"
    elif isinstance(value, int | float):
        yield "many", "wrong_type"
        yield value + 7919, "wrong_value"
    elif isinstance(value, str) and kind == "string":
        yield 7919, "wrong_type"
        yield value + " with another end", "wrong_value"
    elif isinstance(value, list):
        yield "a text", "wrong_type"
        yield [*value, *(copy.deepcopy(value[:1]) or ["more"])] * 2, "wrong_value"
    elif isinstance(value, dict):
        yield ["a list"], "wrong_type"
        yield {**value, "no_such_key": 1}, "wrong_value"


@pytest.mark.parametrize("category", ["simple_python", "multiple", "parallel", "parallel_multiple"])
def test_faults_score_0_with_their_reason(category: str, shared_dir: Path) -> None:
    """One fault in an otherwise right answer: of every tenth row, at every parameter."""
    task, seen = bound(f"bfcl_{category}", shared_dir), Counter[str]()
    for sample in task.samples()[::10]:
        request = task.request(sample)
        calls, functions = json.loads(request.target), {each["name"]: each for each in sample.row["function"]}
        ((name, allowed),) = sample.row["ground_truth"][0].items()
        for made, reason in faults(calls, functions[name], allowed):
            score = scored(task, request, sample, made)
            assert score.value == 0.0, (sample.row["id"], made)
            found = reason_of(score)
            is_other = len(calls) > 1 and found == "wrong_value"  # compared with another call of the same function
            assert found == reason or is_other, (sample.row["id"], made, score.detail)
            seen[reason] += 1
    assert min(seen[reason] for reason in ("wrong_function", "unexpected_parameter", "missing_parameter")) >= 20
    assert seen["wrong_type"] > 40
    assert seen["wrong_value"] > 40


def test_a_call_where_none_fits_is_wrong(shared_dir: Path) -> None:
    """Every row of irrelevance with a call, of a declared function or not, scores 0; words score 1."""
    task = bound("bfcl_irrelevance", shared_dir, limit=40)
    for sample in task.samples():
        request = task.request(sample)
        name = json.loads(request.tools or "")[0]["function"]["name"]
        for called in (name, "another"):
            score = scored(task, request, sample, [{"name": called, "arguments": {}}])
            assert (score.value, reason_of(score)) == (0.0, "unwanted_call")
        (score,) = task.score(request, sample, [Output(request.id, 0, text="None of these can do that.")])
        assert score.value == 1.0


PROMPTS = {  # sha256 of the messages and tools of all rows, computed once with bfcl-eval 2026.3.23's own functions
    "bfcl_simple_python": "6eb305b54b2c558bc28b4374891359138ffc5145db04e7240c10b985833c0851",
    "bfcl_simple_java": "223708380a063b60db271b2273e1902f37931ba806db509f1995ebdeaf571fdc",
    "bfcl_simple_javascript": "dfd380dfe6e8f6fdb6e92785bb4aae94c7defc626543c3a80179b98e417fd4d7",
    "bfcl_live_multiple": "e0070f7373a3cc92415d405f416a3dd6ac6426d7f8569e562b5fb5fe0dd308bc",
    "bfcl_prompted_simple_java": "923062b94cfd34d985e8f4fa72e3dab07d94edb8d3d1ba47da320ddb9119a01a",
    "bfcl_prompted_simple_javascript": "3640f41463d69ef1a3bf97d9382f4be3d8791236e7b81ae50bcc055de20772e5",
    "bfcl_prompted_live_irrelevance": "0caf52ae46272a83689c947b4c0fd8954186d70e1b6a817f94e938132ced8a08",
}


def prompts_digest(task: BoundTask) -> str:
    """Return the hash of all messages and tools of a task."""
    digest = hashlib.sha256()
    for request in task.requests():
        messages = [(message.role, message.text) for message in request.messages]
        digest.update(json.dumps([messages, request.tools]).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_are_bfcls(name: str, shared_dir: Path) -> None:
    """Messages, hints at the language, types and names of tools are those of BFCL's own code."""
    assert prompts_digest(bound(name, shared_dir, apply_chat_template=True)) == PROMPTS[name]


@pytest.mark.slow
def test_the_suite_averages_as_bfcl_does(shared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Languages first, then four columns, all equal; irrelevance is shown and not counted."""
    monkeypatch.setenv("ASSAYMARK_DATA", str(shared_dir / "data"))
    run = evaluate("fake", "bfcl", model_args={"accuracy": 0.6}, limit=25)
    values = {estimate.task: estimate.value or 0.0 for estimate in run.estimates}
    simple = sum(values[f"bfcl_simple_{language}"] for language in ("python", "java", "javascript")) / 3
    others = [values[f"bfcl_{name}"] for name in ("multiple", "parallel", "parallel_multiple")]
    assert len(set(others)) > 1
    assert values["bfcl"] == pytest.approx((simple + sum(others)) / 4)
    details = next(estimate.details for estimate in run.estimates if estimate.task == "bfcl")
    assert (details["aggregate"], details["beside"]) == ("mean", ["irrelevance"])
    assert [column["name"] for column in details["columns"]][-1] == "irrelevance"


# ------------------------------------------------------------------------------------- without the data

PROPERTIES = {
    "x": {"type": "float", "description": "A number."},
    "y": {"type": "tuple", "description": "", "items": {"type": "any"}},
    "z": {"type": "dict", "description": "", "properties": {"k": {"type": "float", "description": "K."}}},
}
PARAMETERS = {"type": "dict", "required": ["x"], "properties": PROPERTIES}
DECLARED = {"name": "a.b", "description": "Do it.", "parameters": PARAMETERS}


def test_rows_join_questions_and_answers() -> None:
    """The model sees JSON Schema's types and a hint; calls are compared by the declarations as they were."""
    question = {"id": "simple_python_0", "question": [[{"role": "user", "content": "?"}]], "function": [DECLARED]}
    silent = {**question, "id": "irrelevance_0", "ground_truth": None}
    answer = {"id": "simple_python_0", "ground_truth": [{"a.b": {"x": [1.0]}}], "question": None, "function": None}
    first, second = module("bfcl/rows").rows([question, silent, answer])
    assert (first["ground_truth"], second["ground_truth"]) == ([{"a.b": {"x": [1.0]}}], [])
    assert first["function"] == [DECLARED]
    (tool,) = first["tools"]
    assert tool["description"] == "Do it. Note that the provided function is in Python 3 syntax."
    assert tool["parameters"]["type"] == "object"
    properties = tool["parameters"]["properties"]
    assert properties["x"] == {
        "type": "number",
        "format": "float",
        "description": "A number. This is a float type value.",
    }
    assert (properties["y"]["type"], properties["y"]["items"]["type"]) == ("array", "string")
    assert properties["z"]["properties"]["k"]["type"] == "number"


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    """In a data folder without the answers, the missing file is named; plain and gzipped files are found."""
    folder = tmp_path / "gorilla-llm" / "Berkeley-Function-Calling-Leaderboard"
    folder.mkdir(parents=True)
    row = {"id": "multiple_0", "question": [[{"role": "user", "content": "?"}]], "function": [DECLARED]}
    (folder / "BFCL_v4_multiple.json").write_text(json.dumps(row))
    task = catalog().select(["bfcl_multiple"]).tasks[0]
    with pytest.raises(DataError, match=r"no file possible_answer/BFCL_v4_multiple.json \(or .*.gz\) in"):
        bind(task, BindOptions(data_dir=tmp_path))
    (folder / "possible_answer").mkdir()
    answer = {"id": "multiple_0", "ground_truth": [{"a.b": {"x": [2.5]}}]}
    (folder / "possible_answer" / "BFCL_v4_multiple.json").write_text(json.dumps(answer))
    (request,) = bind(task, BindOptions(data_dir=tmp_path)).requests()
    assert json.loads(request.target) == [{"name": "a_b", "arguments": {"x": 2.5}}]


def test_both_ways_have_every_category() -> None:
    """A task for each category, with tools in the template and in the prompt."""
    names = {path.stem for path in (TASKS / "bfcl").glob("bfcl_*.yaml") if "multi_turn" not in path.stem}
    expected = {
        f"{prefix}{each}" for prefix in ("bfcl_", "bfcl_prompted_") for each in [*CALLS, *SILENT, "live_relevance"]
    }
    assert names == expected
