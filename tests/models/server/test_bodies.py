"""The request bodies for a server and the reading of its answers, including incomplete ones."""

import math
from typing import Any

import pytest

from assaymark.models.server.arguments import openai_arguments
from assaymark.models.server.bodies import (
    ScoredPart,
    ServerText,
    other_model,
    read_score,
    read_text,
    score_body,
    text_body,
)
from assaymark.models.server.failures import HttpFailure, KeyHider
from assaymark.models.text.generation_prompts import GenerationInput
from assaymark.records import REFUSED, GenerationSettings

Json = dict[str, Any]
TOKENS = ["The", " sky", " is", " blue", "."]  # the last one was generated
NATS = [None, -2.0, -1.0, -0.5, -0.1]
TOPS = [None, {" sun": -1.5, " sky": -2.0}, {" is": -1.0}, {" blue": -0.5}, {".": -0.1}]


def echoed(tokens: list[str] | None = None, **changes: Any) -> Json:
    """Return an answer with the log-probabilities of a prompt."""
    logprobs = {"tokens": tokens or TOKENS, "token_logprobs": NATS, "top_logprobs": TOPS, **changes}
    return {"choices": [{"index": 0, "text": "", "logprobs": logprobs}], "usage": {"prompt_tokens": 4}}


def arguments(kind: str = "local-completions", **given: Any) -> Any:
    """Return a record of arguments."""
    return openai_arguments(kind, {"model": "m", "base_url": None if "openai" in kind else "http://h", **given})


def prepared(stops: tuple[str, ...] = ("\n",), **settings: Any) -> GenerationInput:
    """Return a generate query."""
    return GenerationInput("task/0/0", 0, GenerationSettings(**settings), 16, stops)


def test_the_body_of_a_score_equals_lm_evals() -> None:
    """The prompt is echoed with its log-probabilities, and one token is generated."""
    assert score_body(arguments(), [[1, 2]]) == {
        "model": "m", "prompt": [[1, 2]], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "nats", "is_greedy"),
    [
        (ScoredPart("", 4, 1, are_sent=True), -0.5, True),
        (ScoredPart("", 4, 3, are_sent=True), -3.5, False),
        (ScoredPart(" blue", 4, 1), -0.5, True),
        (ScoredPart(" is blue"), -1.5, True),  # without a tokenizer here
        (ScoredPart(" sky is blue", 3, 3), -3.5, False),  # the server put a token before the text
        (ScoredPart(" blue", context="\u00e9\nThe sky is"), -0.5, True),  # a character of which no token has the text
    ],
)
def test_the_scored_end_is_found(part: ScoredPart, nats: float, is_greedy: bool) -> None:
    """It is found by count if tokens agree, else by the texts of the last tokens; the generated token is excluded."""
    score = read_score(echoed(), part)
    assert (score.total_nats, score.is_greedy) == (nats, is_greedy)
    assert score.n_context + score.n_scored == 4


@pytest.mark.parametrize(
    ("answer", "part", "message", "shows_all"),
    [
        ({"choices": []}, ScoredPart(" blue"), "no choices", False),
        ({"error": "overloaded"}, ScoredPart(" blue"), "overloaded", False),
        ({"choices": [{"text": "x", "logprobs": None}]}, ScoredPart(" blue"), "echo together with logprobs", True),
        (echoed(), ScoredPart("", 9, 1, are_sent=True), "echo together with logprobs", True),
        (echoed(token_logprobs=[*NATS, -1.0]), ScoredPart("", 4, 1, are_sent=True), "tokenized_requests=False", False),
        (echoed(token_logprobs=NATS[1:]), ScoredPart("", 4, 1, are_sent=True), "4 tokens and 5 tokens: which", False),
        (
            echoed(token_logprobs=[None, -2.0, -1.0, -0.1, -0.5]),
            ScoredPart(" blue"),
            "expected both of one place",
            False,
        ),
        (echoed(token_logprobs=NATS[1:], tokens=TOKENS[1:]), ScoredPart(" blue"), "5 top_logprobs: which", False),
        (echoed(), ScoredPart(" blue", context="Once. The sky is"), "left out the first 6 of the prompt's 16", False),
        (echoed(["<s>", *TOKENS[1:]]), ScoredPart(" blue", context="The sky is"), "left out the first 3", False),
        (echoed(), ScoredPart("lue"), "none of which begins where the choice", False),
        (echoed(), ScoredPart("The sky is blue"), "since no token precedes it", False),
        (echoed(top_logprobs=None), ScoredPart(" blue"), "top_logprobs", True),
        (echoed(top_logprobs=[None] * 5), ScoredPart(" blue"), "most probable alternative", False),
        (echoed(tokens=["The"]), ScoredPart(" blue"), "the texts of the prompt's tokens", True),
        (echoed(token_logprobs=[None, -1, -1, float("-inf"), -1]), ScoredPart(" blue"), "-inf", False),
        (echoed(token_logprobs=[None, -1, -1, 5.0, -1]), ScoredPart(" blue"), "is 5; expected at most 0", False),
        (echoed(token_logprobs=[None, -1, -math.inf, math.inf, -1]), ScoredPart(" is blue"), "contain nan", False),
        (echoed(token_logprobs=[None, -1, -1, -(10**400), -1]), ScoredPart(" blue"), "contain nan", False),
        (echoed(token_logprobs=[None, -1, -1, False, -1]), ScoredPart(" blue"), "1 of 1 scored tokens", False),
        (echoed(token_logprobs=[None] * 5), ScoredPart(" is blue"), "2 of 2 scored tokens have no", False),
        (echoed(token_logprobs=[None, -1, -1, "-1", -1]), ScoredPart(" blue"), "1 of 1 scored tokens", False),
    ],
)
def test_a_missing_value_is_a_failure(answer: Json, part: ScoredPart, message: str, shows_all: bool) -> None:
    """Nothing is invented: a missing value is reported, and never scored low."""
    with pytest.raises(HttpFailure) as caught:
        read_score(answer, part)
    assert message in caught.value.message
    assert caught.value.shows_all is shows_all


def test_a_token_that_is_counted_and_not_listed_moves_nothing() -> None:
    """llama.cpp's server counts a BOS token that it does not list: the generated token is still not scored."""
    answer = {**echoed(), "usage": {"prompt_tokens": len(NATS), "completion_tokens": 1}}
    assert read_score(answer, ScoredPart(" blue")) == read_score(echoed(), ScoredPart(" blue"))


def test_a_log_probability_may_be_rounded_above_0() -> None:
    """A server with little precision may say 0.0001 for a token that is certain."""
    rounded = echoed(token_logprobs=[None, -1, -1, 1e-4, -1], top_logprobs=[*TOPS[:3], {" blue": 1e-4}, TOPS[4]])
    assert read_score(rounded, ScoredPart(" blue")).total_nats == 1e-4


def test_the_body_of_a_text_equals_lm_evals() -> None:
    """Stops, limit and seed are lm-eval's; a task's other settings are passed on; a repeat has its own seed."""
    body = text_body(arguments(), "Q", prepared(temperature=0.5, do_sample=True, top_p=0.9, extra=(("best_of", 2),)), 3)
    assert body == {
        "model": "m", "prompt": "Q", "max_tokens": 16, "temperature": 0.5, "seed": 1237, "stop": ["\n"], "top_p": 0.9,
        "best_of": 2,
    }  # fmt: skip
    assert text_body(arguments(), "Q", prepared(seed=5), 0)["seed"] == 5


def test_limits_of_chat_endpoints_are_respected() -> None:
    """At most four stop texts are sent; none if reasoning comes first; OpenAI's reasoning models get neither."""
    five = prepared(("a", "b", "c", "d", "e"))
    assert text_body(arguments(), "Q", five, 0)["stop"] == ["a", "b", "c", "d", "e"]
    assert text_body(arguments("local-chat-completions"), [], five, 0)["stop"] == ["a", "b", "c", "d"]
    assert "stop" not in text_body(arguments("local-chat-completions", think_end_token="</think>"), [], five, 0)
    own = text_body(arguments("openai-chat-completions", model="gpt-3.5"), [], five, 0)
    assert (own["max_completion_tokens"], own["temperature"]) == (16, 0.0)
    assert "max_tokens" not in own
    for name in ("o3-mini", "gpt-5"):
        body = text_body(arguments("openai-chat-completions", model=name), [], five, 0)
        assert body.keys().isdisjoint({"stop", "temperature"})


def test_a_generated_text_is_read_completely() -> None:
    """Text, reasoning, tool calls, finish reason and counts are read."""
    message = {"content": [{"type": "text", "text": "4"}], "reasoning_content": "2+2", "tool_calls": [{"id": "x"}]}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    result = read_text({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}, is_chat=True)
    assert (result.text, result.reasoning, result.tool_calls, result.finish_reason) == (
        "4",
        "2+2",
        '[{"id": "x"}]',
        "stop",
    )
    assert (result.n_context, result.n_tokens) == (7, 3)
    assert read_text({"choices": [{"text": "hi"}]}, is_chat=False).finish_reason is None


def test_the_choice_with_index_0_is_read_whatever_its_place() -> None:
    """A server may list several choices in any order."""
    choices = [
        {"index": i, "message": {"content": text}, "finish_reason": "stop"} for i, text in ((1, "no"), (0, "yes"))
    ]
    assert read_text({"choices": choices}, is_chat=True).text == "yes"


@pytest.mark.parametrize("reason", ["max_tokens", "MAX_TOKENS", "model_length", "length"])
def test_every_word_for_the_limit_of_tokens_is_length(reason: str) -> None:
    """A text that ended at the limit is known as cut off, so that it may have ended in its reasoning."""
    choice = {"message": {"content": "x"}, "finish_reason": reason}
    assert read_text({"choices": [choice]}, is_chat=True).finish_reason == "length"
    beside = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    plain = {"message": {"content": "x"}, "finish_reason": None}
    assert read_text({"choices": [plain], **beside}, is_chat=True).finish_reason == "length"


def test_a_refusal_is_the_models_answer() -> None:
    """A refusal of the model is its answer."""
    choice = {"message": {"content": None, "refusal": "I cannot."}, "finish_reason": "stop"}
    assert read_text({"choices": [choice]}, is_chat=True).text == "I cannot."


@pytest.mark.parametrize(
    ("asked", "named", "is_other"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", False),
        ("mistral-large-latest", "mistral-large-2411", False),
        ("org/Model", "model:latest", False),
        ("m", "/models/M.gguf", False),
        ("m", None, False),
        ("gpt-4", "gpt-4o", True),
        ("gpt-3", "gpt-3.5", True),
        ("gpt-4", "gpt-4-turbo", True),
    ],
)
def test_an_answer_of_another_model_is_noted(asked: str, named: str | None, is_other: bool) -> None:
    """Both names are in the note; a version, a date, a folder and an alias are no other model."""
    note = other_model({"model": named}, asked)
    assert (note is not None) == is_other
    assert note is None or (asked in note and str(named) in note)


def test_a_name_that_a_server_states_is_only_quoted() -> None:
    """Neither a key that it repeats nor a terminal's commands nor what no store takes is in the note."""
    note = other_model({"model": "a\x1b[2J\0 sk-secret"}, "b", KeyHider(("sk-secret",)))
    assert note is not None
    assert note.isprintable()
    assert "secret" not in note


def test_an_answer_that_ended_during_reasoning_is_empty() -> None:
    """A model that used up its tokens before answering has an empty answer, which is an answer (as in lm-eval)."""
    choice = {"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"}
    result = read_text({"choices": [choice]}, is_chat=True)
    assert (result.text, result.reasoning, result.finish_reason) == ("", "hm", "length")


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({"message": {"content": "no"}, "finish_reason": "content_filter"}, "AnswerWithheld"),
        ({"message": {"content": None}, "finish_reason": "stop"}, "MalformedAnswer"),
        ({"message": {"content": ""}, "finish_reason": None}, "MalformedAnswer"),
        ({"message": {"content": ""}, "finish_reason": "error"}, "ServerFailed"),
        ({"message": {"content": "1"}, "error": {"code": 502}, "finish_reason": "stop"}, "ServerFailed"),
        ({"text": "x"}, "MalformedAnswer"),
        ({"message": {"content": 7}}, "MalformedAnswer"),
        ({"message": {"content": {"text": "x"}}}, "MalformedAnswer"),
        ({"message": {"content": ["x"]}}, "MalformedAnswer"),
        ({"message": {"content": [{"text": 7}]}}, "MalformedAnswer"),
    ],
)
def test_a_withheld_or_missing_text_is_a_failure(choice: Json, kind: str) -> None:
    """Neither counts as an empty answer."""
    with pytest.raises(HttpFailure) as caught:
        read_text({"choices": [choice]}, is_chat=True)
    assert caught.value.error.__name__ == kind


def test_an_answer_without_text_is_one_where_the_model_might_have_called_a_tool() -> None:
    """Ended by the model, with tools, it made no call; ended for calls that are not there, it is no answer."""

    def read(finish: str, *, may_call: bool, **message: object) -> ServerText:
        choice = {"message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
        return read_text({"choices": [choice]}, is_chat=True, may_call=may_call)

    messages: list[Json] = [{}, {"tool_calls": []}, {"tool_calls": None}]
    for message in messages:
        result = read("stop", may_call=True, **message)
        assert (result.text, result.tool_calls) == ("", None)
        for finish, may_call in (("stop", False), ("tool_calls", True), ("error", True)):
            with pytest.raises(HttpFailure, match=r"contains no text|neither calls nor a text|broke off its answer"):
                read(finish, may_call=may_call, **message)


def test_parts_that_are_no_answer_are_kept_apart_from_it() -> None:
    """Reasoning and refusals among the parts of a content are what they say, under each service's names."""
    thinking = [
        {"type": "reasoning", "text": "7?"},
        {"type": "thinking", "thinking": "7?"},
        {"type": "thinking", "thinking": [{"type": "text", "text": "7?"}]},
    ]
    for part in thinking:
        read = read_text(chat([part, {"type": "text", "text": "5"}]), is_chat=True)
        assert (read.text, read.reasoning) == ("5", "7?")
    refused = read_text(chat([{"type": "refusal", "refusal": "No."}]), is_chat=True)
    assert (refused.text, refused.finish_reason) == ("No.", REFUSED)
    with pytest.raises(HttpFailure, match="a part tool_use; expected its calls in tool_calls"):
        read_text(chat([{"type": "text", "text": "Wait."}, {"type": "tool_use", "name": "f"}]), is_chat=True)


def chat(content: object) -> Json:
    """Return an answer with one message."""
    return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}
