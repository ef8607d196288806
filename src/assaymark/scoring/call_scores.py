"""Score an answer with function calls: read them, compare them, and state the reason where they are wrong.

`call_match` expects certain calls, or none at all (irrelevance: no function fits the question). `any_call` is right
for an answer with any call (BFCL's relevance).

Source: BFCL v4 (ShishirPatil/gorilla 6ea57973, bfcl_eval/eval_checker/eval_runner.py): an answer that cannot be read
    is wrong where calls are expected, and has no call where none is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assaymark.records import ScoreStatus
from assaymark.scoring.call_match import ExpectedCall, Fault, match_calls
from assaymark.scoring.metrics import ANY_CALL
from assaymark.scoring.tool_calls import Language, Syntax, ToolCall, UnreadableAnswer, read_calls
from assaymark.scoring.values import ScoreValue

__all__ = ["CallRules", "score_calls"]


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a task's answers are read and compared.

    shown_name: the name under which the model saw a function.
    """

    syntax: Syntax = "any"
    language: Language = "python"
    shown_name: Callable[[str], str] = str


def score_calls(
    answer: str,
    expected: Sequence[ExpectedCall],
    functions: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
    rules: CallRules,
) -> tuple[dict[str, ScoreValue], ScoreStatus]:
    """Return the scores of one answer, and whether it could be read.

    The detail has the calls, and for a wrong answer `reason` (see `call_match.Reason`) and `message`.

    Args:
        answer: the text, or a server's calls as `text_of_tool_calls` returns them.
        expected: the right calls; none: no call is right.
        functions: the declarations of the functions that the model could call.
        metrics: CALL_MATCH or ANY_CALL, or both.
        rules: how answers are read and compared.
    """
    calls: tuple[ToolCall, ...] = ()
    unreadable: Fault | None = None
    try:
        calls = read_calls(answer, rules.syntax, rules.language)
    except UnreadableAnswer as error:
        unreadable = Fault("not_parsed", str(error))
    found: dict[str, ScoreValue] = {}
    for metric in metrics:
        if metric == ANY_CALL:
            fault = unreadable or (None if calls else Fault("no_call", "the answer has no call; expected any"))
        elif unreadable is not None and expected:
            fault = unreadable
        else:
            fault = match_calls(calls, expected, functions, rules.language, rules.shown_name)
        found[metric] = _scored(calls, fault)
    is_wrong = any(value.value == 0.0 for value in found.values())
    return found, ScoreStatus.UNPARSED if unreadable is not None and is_wrong else ScoreStatus.SCORED


def _scored(calls: Sequence[ToolCall], fault: Fault | None) -> ScoreValue:
    detail: dict[str, Any] = {"calls": [call.content for call in calls]}
    if fault is not None:
        detail |= {"reason": fault.reason, "message": fault.message}
    return ScoreValue(float(fault is None), detail=detail)
