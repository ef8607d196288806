"""Conversations in which a simulator carries out the model's calls: what follows an answer, and the score of the last.

Each answer is a request of its own. If it has calls, their results follow; if not, or if they cannot be read, the
user's turn has ended, and the next one follows. A conversation is given up after MOST_STEPS answers with calls in one
turn, and is then wrong. Where it stands is read from its messages alone, so that a run continues after a kill, and
stored answers are scored again, without anything else being stored. Every time, all calls are carried out again from
the beginning; one that exceeded a limit is known by its stored result, and is not.

With tools in the template, calls and results are messages of their own. With tools in the prompt, calls are source
text, `[f(a=1)]`, and their results are a message of the user, as BFCL writes it.

Rows have the columns of `library/tasks/bfcl/multi_turn_rows.py`.

Source: BFCL v4 (bfcl-eval 2026.3.23, model_handler/base_handler.py, inference_multi_turn_FC and _prompting;
    model_handler/utils.py; eval_checker/eval_runner.py, _evaluate_single_multi_turn_entry;
    constants/default_prompts.py, which has the user's text about functions that come in a later turn).
"""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.limits.nesting import parse_json
from assaymark.prompts.tools import tools_for_template
from assaymark.records import CallPart, Message, Output, Render, Request, ResultPart, Row, Sample, Score, TextPart
from assaymark.scoring.call_syntax import UnreadableCall, python_calls
from assaymark.scoring.metric import SIMULATED
from assaymark.scoring.metrics import computations
from assaymark.scoring.run_code import Sandbox
from assaymark.scoring.simulated_calls import OVER_LIMIT, CallHistory, ConversationAnswer, Simulator, find_machines
from assaymark.scoring.tool_calls import LONGEST, UnreadableAnswer, read_calls
from assaymark.tasks.task import Task

MOST_STEPS = 20  # BFCL's: it gives up after the results of one more
LATER_TOOLS = "I have updated some more functions you can choose from. What about now?"


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a conversation stands after an answer.

    turns: the calls of each step of each turn that has begun, each call as source text; the last turn may be empty.
    known: number of a call -> its stored result, where it exceeded a limit.
    """

    turns: tuple[tuple[tuple[str, ...], ...], ...]
    has_calls: bool  # in the last answer, so that their results follow
    known: Mapping[int, str]

    @property
    def is_given_up(self) -> bool:
        """Whether the last turn has too many steps."""
        return len(self.turns[-1]) > MOST_STEPS

    def is_over(self, row: Row) -> bool:
        """Return whether no request follows."""
        return self.is_given_up or len(self.turns) > len(row["question"])


def gold_text(row: Row, turn: int) -> str:
    """Return the right calls of a turn as a model would write them, with named arguments; empty where none is right."""
    declared = [*row["function"], *(each for come in row["later_function"].values() for each in come)]
    parameters = {each["name"]: list(each["parameters"]["properties"]) for each in declared}
    calls = [_with_names(call, parameters) for call in row["ground_truth"][turn]]
    return f"[{', '.join(calls)}]" if calls else ""


def _with_names(call: str, parameters: Mapping[str, Sequence[str]]) -> str:
    """Return a call of the data set with the names of its positional arguments."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call) or not node.args:
        return call
    name = ast.unparse(node.func)
    named = [f"{key}={ast.unparse(value)}" for key, value in zip(parameters[name], node.args, strict=False)]
    return f"{name}({', '.join([*named, *map(ast.unparse, node.keywords)])})"


class SimulatedScoring:
    """The conversations of one task: the turns after an answer, and scores."""

    def __init__(self, task: Task, sandbox: Sandbox) -> None:
        self.task = task
        self.metrics = task.metrics
        self._in_prompt = task.prompt.tools_in == "prompt"
        self._simulator = Simulator(sandbox, find_machines())

    def next(
        self, request: Request, sample: Sample, outputs: Sequence[Output], render: Render | None
    ) -> Request | None:
        """Return the request after one that `outputs` answer; None at the end, or where there is no answer."""
        if not outputs or outputs[0].text is None:
            return None
        row = sample.row
        answer = self._message_of(outputs[0], request.turn)
        standing = self._standing((*request.messages, answer))
        if standing.is_over(row):
            return None
        tools, target = request.tools, ""
        if standing.has_calls:
            following = self._results(answer, self._carried_out(row, standing), standing.turns[-1][-1])
        else:
            turn = len(standing.turns) - 1
            following, tools = self._user_turn(row, turn, tools)
            target = gold_text(row, turn)
        messages = (*request.messages, answer, *following)
        if render is None:
            segments: tuple[str, ...] = ()
        else:
            segments = (render(messages, False) if tools is None else render(messages, False, tools=tools),)
        return replace(request, segments=segments, messages=messages, turn=request.turn + 1, target=target, tools=tools)

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the scores of a conversation's last answer; none for an earlier one."""
        row = sample.row
        standing = self._standing((*request.messages, self._message_of(outputs[0], request.turn)))
        if not standing.is_over(row):
            return ()
        history = _history(row, standing)
        calls = [call for steps in history.turns for step in steps for call in step]
        if standing.is_given_up:
            message = f"more than {MOST_STEPS} answers with calls; the conversation was given up"
            turn = len(standing.turns) - 1
            answer = ConversationAnswer(calls, (), {"reason": "too_many_steps", "turn": turn, "message": message})
        else:
            simulated = self._simulator.carry_out(history, row["ground_truth"])
            answer = ConversationAnswer(calls, simulated.results, simulated.fault)
        values = {each.name: computations(SIMULATED)[each.name](answer) for each in self.metrics}
        return tuple(
            Score(request.id, name, value.value, pipeline.name, detail=value.detail)
            for pipeline in self.task.filters
            for name, value in values.items()
        )

    def _message_of(self, output: Output, step: int) -> Message:
        """Return an answer as the message that later requests contain.

        Calls that cannot be read stay text: a server would refuse a conversation with them, or without their results.
        """
        text = output.text or ""
        if self._in_prompt:
            return Message("assistant", (TextPart(text),))
        if output.tool_calls is not None:
            calls = _calls_of_server(output.tool_calls, step)
            parts: tuple[TextPart | CallPart, ...] = (TextPart(text),) if text else ()
            return Message("assistant", (*parts, *(calls if calls is not None else (TextPart(output.tool_calls),))))
        try:
            read = [
                CallPart(f"call_{step}_{at}", call.name, json.dumps(dict(call.arguments), ensure_ascii=False))
                for at, call in enumerate(read_calls(text))
            ]
        except (UnreadableAnswer, TypeError, ValueError):  # the latter two of arguments that JSON does not have
            read = []
        return Message("assistant", tuple(read) or (TextPart(text),))

    def _standing(self, messages: Sequence[Message]) -> _Standing:
        """Return where a conversation stands; its last message is the model's."""
        turns: list[list[tuple[str, ...]]] = [[]]
        known: dict[int, str] = {}
        n_results = 0
        has_calls = False
        for message in messages:
            if message.role == "assistant":
                calls = self._calls_in(message)
                has_calls = bool(calls)
                if has_calls:
                    turns[-1].append(calls)
                else:
                    turns.append([])
            elif message.role != "system" and has_calls:
                results = _results_in(message)
                known |= {n_results + at: text for at, text in enumerate(results) if text.startswith(OVER_LIMIT)}
                n_results += 1 if message.role == "tool" else len(turns[-1][-1])
        return _Standing(tuple(map(tuple, turns)), has_calls, known)

    def _calls_in(self, message: Message) -> tuple[str, ...]:
        """Return the calls of an answer as source text; none where there is no call, or one that cannot be read."""
        if not self._in_prompt:
            return tuple(_source_of(call.name, json.loads(call.arguments)) for call in message.calls)
        if len(message.text) > LONGEST:
            return ()
        try:
            return tuple(_source_of_text(*call) for call in python_calls(message.text.strip("`\n ")))
        except UnreadableCall:
            return ()

    def _carried_out(self, row: Row, standing: _Standing) -> Sequence[str]:
        """Return the results of the calls of the last step."""
        results = self._simulator.carry_out(_history(row, standing)).results
        return results[len(results) - len(standing.turns[-1][-1]) :]

    def _results(self, answer: Message, results: Sequence[str], calls: Sequence[str]) -> tuple[Message, ...]:
        """Return the messages with the results of an answer's calls."""
        if not self._in_prompt:
            return tuple(
                Message("tool", (ResultPart(call.id, call.name, result),))
                for call, result in zip(answer.calls, results, strict=True)
            )
        tool_messages = [
            {"role": "tool", "name": call, "content": result} for call, result in zip(calls, results, strict=True)
        ]
        return (Message("user", (TextPart(repr(tool_messages)),)),)

    def _user_turn(self, row: Row, turn: int, tools: str | None) -> tuple[tuple[Message, ...], str | None]:
        """Return the user's messages of a turn, and the tools that the model may then call."""
        come = row["later_function" if self._in_prompt else "later_tools"].get(str(turn))
        if not come:
            messages = row["question"][turn]
            return tuple(Message(each["role"], (TextPart(each["content"]),)) for each in messages), tools
        if self._in_prompt:
            return (Message("user", (TextPart(f"{come}\n{LATER_TOOLS}"),)),), tools
        more = tools_for_template([*(each["function"] for each in json.loads(tools or "[]")), *come])
        return (Message("user", (TextPart(LATER_TOOLS),)),), more


def _history(row: Row, standing: _Standing) -> CallHistory:
    turns = standing.turns[: len(row["question"])]  # after the last one an empty turn has begun
    return CallHistory(row["involved_classes"], row["initial_config"], row["is_long_context"], turns, standing.known)


def _results_in(message: Message) -> list[str]:
    """Return the results of calls in a message; those of a user's message only where one may have exceeded a limit."""
    if message.role == "tool":
        return [message.text]
    if OVER_LIMIT not in message.text:
        return []
    tool_messages: list[Mapping[str, str]] = ast.literal_eval(message.text)
    return [each["content"] for each in tool_messages]


def _calls_of_server(tool_calls: str, step: int) -> tuple[CallPart, ...] | None:
    """Return a server's `tool_calls`; None where one has no name, or arguments that are no JSON object."""
    listed = json.loads(tool_calls)
    parts = []
    for at, call in enumerate(listed if isinstance(listed, list) else [listed]):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        arguments = function.get("arguments")
        try:
            parsed = parse_json(arguments or "{}") if isinstance(arguments, str | None) else arguments
        except (ValueError, RecursionError):
            return None
        if not isinstance(parsed, dict):
            return None
        own = call.get("id")
        identifier = own if isinstance(own, str) and own else f"call_{step}_{at}"
        text = arguments if isinstance(arguments, str) and arguments else json.dumps(parsed, ensure_ascii=False)
        parts.append(CallPart(identifier, function["name"], text))
    return tuple(parts)


def _source_of(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call as BFCL writes that of a server (convert_to_function_call)."""
    return f"{name}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _source_of_text(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call as BFCL writes one that it has read in a text (decoded_output_to_execution_list)."""
    return f"{name}({', '.join(f'{key}={_nested(value)}' for key, value in arguments.items())})"


def _nested(value: object) -> str:
    """Return an argument as source text (parse_nested_value): an object of objects is a call, of its first key.

    Raises: UnreadableCall for an empty object, at which BFCL's own reading fails.
    """
    if not isinstance(value, dict):
        return repr(value)
    if not value:
        raise UnreadableCall("an argument is an empty object")
    if all(isinstance(each, dict) for each in value.values()):
        name = next(iter(value))
        return _source_of_text(name, value[name])
    return "{" + ", ".join(f"'{key}': {_nested(each)}" for key, each in value.items()) + "}"
