"""Fine-tuners' files as tasks: Alpaca's instructions, chats as TRL and ShareGPT write them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from assaymark.audit.task_check import check_task
from assaymark.errors import DataError
from assaymark.records import GenerateQuery, Message, Request
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind

QUESTION = {"role": "user", "content": "What is 2+2?"}
ANSWER = {"role": "assistant", "content": "4"}
EARLIER = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 1+1?"},
    {"role": "assistant", "content": "2"},
]
SHARED = [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "What is 1+1?"},
    {"from": "gpt", "value": "2"},
    {"from": "human", "value": "What is 2+2?"},
    {"from": "gpt", "value": "4"},
]
WHOLE = [("system", "Be brief."), ("user", "What is 1+1?"), ("assistant", "2"), ("user", "What is 2+2?")]


def write(folder: Path, *rows: dict[str, Any], name: str = "my.jsonl") -> Path:
    """Write rows as JSON lines."""
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def opened(path: Path) -> tuple[BoundTask, str]:
    """Return the task of a file of rows, and its note."""
    selection = Catalog.open(lm_eval=False).select([str(path)])
    return bind(selection.tasks[0], BindOptions()), selection.notes[-1]


def texts(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Return role and text of each message."""
    return [(message.role, message.text) for message in messages]


@pytest.mark.parametrize(
    ("row", "asked", "seen"),
    [
        ({"prompt": [QUESTION], "completion": [ANSWER]}, WHOLE[-1:], "'prompt' is a chat, .* with 'completion'"),
        ({"prompt": [*EARLIER, QUESTION], "completion": [ANSWER]}, WHOLE, "'prompt' is a chat, .* with 'completion'"),
        ({"prompt": [QUESTION], "answer": "4"}, WHOLE[-1:], "'prompt' is a chat, .* with 'answer'"),
        ({"messages": [QUESTION, ANSWER]}, WHOLE[-1:], "'messages' is a chat, .* with its last answer"),
        ({"messages": [*EARLIER, QUESTION, ANSWER]}, WHOLE, "'messages' is a chat, .* with its last answer"),
        ({"messages": [*EARLIER, QUESTION], "answer": "4"}, WHOLE, "'messages' is a chat, .* with 'answer'"),
        ({"conversations": SHARED}, WHOLE, "'conversations' is a chat in ShareGPT's form, .* with its last answer"),
    ],
)
def test_chats_are_sent_as_their_turns(tmp_path: Path, row: dict[str, Any], asked: list[Any], seen: str) -> None:
    """Roles and texts of a chat are the request's messages, and its last answer is what is expected."""
    task, note = opened(write(tmp_path, row))
    (request,) = task.requests()
    assert texts(request.messages) == asked
    assert request.target == "4"
    assert isinstance(request.queries[0], GenerateQuery)
    assert re.search(seen, note)
    assert task.task.prompt.is_chat


def test_a_chat_goes_through_the_models_template(tmp_path: Path) -> None:
    """The text that a local model gets is what its template makes of the turns."""
    task, _ = opened(write(tmp_path, {"conversations": SHARED}))

    def render(messages: Any, _: bool, /, tools: str | None = None) -> str:
        assert tools is None
        return "".join(f"<{message.role}>{message.text}" for message in messages)

    (request,) = task.requests(render)
    assert request.prompt == "<system>Be brief.<user>What is 1+1?<assistant>2<user>What is 2+2?"


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"instruction": "Translate.", "input": "chien", "output": "dog"}, "Translate.\n\nchien"),
        ({"instruction": "Say hi.", "input": "", "output": "hi"}, "Say hi."),
        ({"instruction": "Say hi.", "input": None, "output": "hi"}, "Say hi."),
        ({"instruction": "Who?", "context": "Ann came.", "response": "Ann"}, "Ann came.\nQuestion: Who?\nAnswer:"),
    ],
)
def test_instructions_keep_their_input(tmp_path: Path, row: dict[str, Any], prompt: str) -> None:
    """An Alpaca row's prompt is its instruction, followed by its input where it has one."""
    other = dict.fromkeys(row, "x")
    task, note = opened(write(tmp_path, row, other))
    request = next(task.requests())
    assert (request.prompt, request.target) == (prompt, list(row.values())[-1])
    if "input" in row:
        assert "'instruction' followed by 'input' is the prompt as it is" in note


def test_alpacas_files_are_worded_like_other_tasks(tmp_path: Path) -> None:
    """Options after an instruction with an input are a question of choices, with both in the prompt."""
    row = {"instruction": "Which is it?", "input": "It barks.", "A": "cat", "B": "dog", "answer": "B"}
    request: Request = next(opened(write(tmp_path, row))[0].requests())
    assert request.prompt == "Which is it?\n\nIt barks.\nA. cat\nB. dog\nAnswer:"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"question": "", "answer": "4"}, "line 2 has nothing in column 'question'"),
        ({"question": " \n", "answer": "4"}, "line 2 has nothing in column 'question'"),
        ({"question": "2+2?", "answer": ""}, "line 2 has nothing in column 'answer'"),
    ],
)
def test_empty_texts_of_json_are_faults(tmp_path: Path, row: dict[str, Any], fault: str) -> None:
    """A question or answer without text is refused in JSON lines as in CSV."""
    with pytest.raises(DataError, match=fault):
        opened(write(tmp_path, {"question": "1+1?", "answer": "2"}, row))


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([{"role": "user", "content": " "}, ANSWER], "line 2 has an empty question: the user's last message"),
        ([QUESTION, {"role": "assistant", "content": ""}], "line 2 has an empty answer in column 'messages'"),
        ([QUESTION], "line 2 has no answer: the last message in column 'messages' is not the model's"),
        ([ANSWER], "line 2: messages are .*; expected a list of messages, the last by the user"),
        (
            [QUESTION, {"role": "tool", "content": "4"}],
            "line 2: a message has role 'tool', .*; expected text by",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}, ANSWER], "line 2: a message has role 'user', content "),
        (["hello"], "line 2: messages are .*; expected a list of messages"),
    ],
)
def test_faulty_chats_are_listed_or_skipped(tmp_path: Path, messages: list[Any], fault: str) -> None:
    """A chat that cannot be read stops the run with its line, or is left out where that was asked for."""
    path = write(tmp_path, {"messages": [QUESTION, ANSWER]}, {"messages": messages})
    with pytest.raises(DataError, match=fault):
        opened(path)
    selection = Catalog.open(lm_eval=False).select([str(path)], own=OwnData(skip_bad_rows=True))
    task = bind(selection.tasks[0], BindOptions(skip_bad_rows=True))
    assert (len(list(task.requests())), task.skipped.n) == (1, 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "2+2?", "answer": [ANSWER]}, "column 'answer' has messages and 'question' has none"),
        ({"prompt": json.dumps([QUESTION]), "completion": "4"}, "column 'prompt' has lists as text"),
        ({"question": [QUESTION], "A": "3", "B": "4", "answer": "B"}, "column 'question' has messages; expected texts"),
    ],
)
def test_half_a_chat_is_refused(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    """Messages are never sent as the text of a Python list."""
    with pytest.raises(DataError, match=message):
        opened(write(tmp_path, row))


@pytest.mark.parametrize(
    ("text", "asked", "target"),
    [
        ("Question,Option A,Option B,Correct Answer\nGrass?,red,green,B\n", "Grass?\nA. red\nB. green\nAnswer:", "1"),
        ("question, A, B, answer\nGrass?,red,green,B\n", "Grass?\nA. red\nB. green\nAnswer:", "1"),
        ("Prompt,Ground Truth\nSay hi,hi\n", "Say hi", "hi"),
        ("Question;Choice 1;Choice 2;Answer Key\nGrass?;red;green;2\n", "Grass?\nA. red\nB. green\nAnswer:", "1"),
    ],
)
def test_names_with_spaces_are_columns(tmp_path: Path, text: str, asked: str, target: str) -> None:
    """`Option A` and `Correct Answer` are read as option_a and correct_answer; their task file says so and runs."""
    path = tmp_path / "my.csv"
    path.write_text(text)
    (request,) = opened(path)[0].requests()
    assert (request.prompt, request.target) == (asked, target)


def test_the_check_names_what_it_saw(tmp_path: Path) -> None:
    """`task check` says that a file has chats, in which form, and that nothing is wrong with them."""
    checked = check_task(str(write(tmp_path, {"conversations": SHARED})))
    assert any("'conversations' is a chat in ShareGPT's form" in finding.text for finding in checked.findings)
    assert all(finding.level == "note" for finding in checked.findings)


def test_a_row_of_another_layout_is_explained(tmp_path: Path) -> None:
    """A file whose rows have several layouts is refused with the row and what is wrong with it."""
    path = write(tmp_path, {"conversations": SHARED}, {"messages": [QUESTION, ANSWER]})
    with pytest.raises(DataError, match="line 1: this row has no messages, as rows of another layout have none"):
        Catalog.open(lm_eval=False).select([str(path)])
