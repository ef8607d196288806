"""Calls are read from every syntax that chat templates teach, and hostile answers end in an error or in no call."""

import json
import subprocess
import sys
from typing import Any

import pytest

from assaymark.records import ScoreStatus
from assaymark.scoring.call_match import CallMatchRules, ExpectedCall, score_calls
from assaymark.scoring.call_values import java_text, java_value, javascript_text, javascript_value
from assaymark.scoring.metric import ANY_CALL, CALL_MATCH
from assaymark.scoring.tool_calls import FunctionCall, UnreadableAnswer, read_calls, text_of_tool_calls

TWO = [{"name": "f", "arguments": {"a": 1}}, {"name": "g-2", "arguments": {"b": "x;]</y>"}}]
ONE = TWO[:1]


def calls_in(text: str) -> list[dict[str, Any]]:
    """Return the calls in an answer."""
    return [call.content for call in read_calls(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>\n" for call in TWO), TWO),  # Hermes, Qwen
        (f"Let me look.\n<tool_call>{json.dumps(ONE[0])}</tool_call>", ONE),
        (f"<tool_call>\n{json.dumps(ONE[0])}", ONE),  # ended by the end of the turn
        ('{"name": "f", "parameters": {"a": 1}}', ONE),  # Llama 3.1
        ('<|python_tag|>{"name": "f", "parameters": {"a": 1}}', ONE),
        ("; ".join(json.dumps({"name": c["name"], "parameters": c["arguments"]}) for c in TWO), TWO),
        (f"[TOOL_CALLS]{json.dumps(TWO)}", TWO),  # Mistral
        (f"[TOOL_CALLS] {json.dumps([{**TWO[0], 'id': 'abcdefghi'}])}", ONE),
        (f"[TOOL_CALLS]f{json.dumps(TWO[0]['arguments'])}[TOOL_CALLS]g-2[ARGS]{json.dumps(TWO[1]['arguments'])}", TWO),
        (f"f{json.dumps(TWO[0]['arguments'])}g-2{json.dumps(TWO[1]['arguments'])}", TWO),  # its marks were special
        (f" {json.dumps(TWO)}", TWO),
        (f"```json\n{json.dumps(TWO, indent=2)}\n```", TWO),
        (json.dumps([{"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]), ONE),
        ("[f(a=1)]", ONE),  # Llama 3.2 and 4
        ('{"name": "f"}', [{"name": "f", "arguments": {}}]),
        ('{"name": "f", "arguments": null}', [{"name": "f", "arguments": {}}]),
        ("", []),
        ("[]", []),
        ("I cannot answer (f) that; set {a: 1}.", []),
        ("f", []),
        ("See f(x) = 2 for the answer.", []),
    ],
)
def test_every_templates_calls_are_read(text: str, expected: list[dict[str, Any]]) -> None:
    """The same calls come from each syntax; words are no call."""
    assert calls_in(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tool_call>\n{'name': 'f'}\n</tool_call>", "is not JSON"),
        ('<tool_call>{"arguments": {}}</tool_call>', "is not a call; expected"),
        ('{"name": "f", "arguments": [1]}', "the arguments of f are '.1.'; expected an object"),
        ('{"name": "f", "arguments": {"a": 1', "is not JSON"),
        ('[{"name": "f"}, 3]', "'3' is not a call"),
        ("[f(a=1", "cannot be read as calls"),
        ("f(a=", "cannot be read as calls"),
        ("[TOOL_CALLS]nothing", "is not JSON"),
        ("x" * 300_000, "300,000 characters; at most 200,000"),
        ('{"name": "f", "arguments": ' + "[" * 5000 + "]" * 5000 + "}", "nested deeper"),
        ("<tool_call>" + "[" * 50_000 + "</tool_call>", "is not JSON: nested deeper"),
        ("[f(a=" + "-" * 20_000 + "1)]", "cannot be read"),
        ("[f(a=" + "(" * 20_000 + ")", "cannot be read"),
        ("[f(a=9**9**9**9)]", "cannot be read"),
        ("[f(a='x' * 10**10)]", "cannot be read"),
        ("a{}" * 60_000, None),
        ('{"name": "f"};' * 14_000, None),
        ("<tool_call>" * 18_000, "is not JSON"),
        ("[f(a=__import__('os').system('true'), b=1)]", None),  # a text, never run
    ],
    ids=lambda text: repr(text)[:40],
)
def test_what_begins_a_call_and_cannot_be_read_says_why(text: str, message: str | None) -> None:
    """The reason is one line, and nothing is evaluated."""
    if message is None:
        read_calls(text)
    else:
        with pytest.raises(UnreadableAnswer, match=message):
            read_calls(text)


def test_a_servers_calls_become_the_list_that_is_read() -> None:
    """Arguments are a JSON text there; those that are none stay a text, and cannot be read."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"z": 1, "a": [2]}'}}]
    result = read_calls(text_of_tool_calls(json.dumps(calls)))
    assert [(call.name, list(call.arguments.items())) for call in result] == [("f", [("z", 1), ("a", [2])])]
    calls[0]["function"] = {"name": "f", "arguments": "{a: 1}"}
    with pytest.raises(UnreadableAnswer, match=r"'\{a: 1\}' is not JSON"):
        read_calls(text_of_tool_calls(json.dumps(calls)))
    with pytest.raises(UnreadableAnswer, match="is not a call"):
        read_calls(text_of_tool_calls('[{"type": "function"}]'))
    assert calls_in(text_of_tool_calls('[{"function": {"name": "f", "arguments": ""}}]'))[0]["arguments"] == {}


@pytest.mark.parametrize("language", ["java", "javascript"])
def test_source_calls_are_split_outside_brackets_and_strings(language: Any) -> None:
    """Arguments keep their source; commas in strings, brackets and type parameters separate nothing."""
    text = 'A.b(x=f(1, 2), y="a, (b", z=new HashMap<String, Integer>() {{ put("k", 1); }}, w={a: [1, 2]}), c()'
    first, second = read_calls(f"[{text}]", "calls", language)
    assert (first.name, second.name) == ("A.b", "c")
    assert first.arguments["x"] == "f(1, 2)"
    assert first.arguments["y"] == "a, (b"
    assert str(first.arguments["z"]).startswith("new HashMap<String,Integer>(){{")
    assert first.arguments["w"] == "{a: [1, 2]}"
    for broken in ("f(x=1", 'f(x="a)', "f(x=1))", "f(x=1, x=2)"):
        with pytest.raises(UnreadableAnswer, match="cannot be read"):
            read_calls(broken, "calls", language)
    assert read_calls("Sorry, none of them.", "calls", language) == ()


@pytest.mark.parametrize(
    ("value", "kind", "item"),
    [
        (5, "integer", None), (5, "long", None), (1.5, "float", None), (1.5, "double", None), (True, "boolean", None),
        (["p", "q"], "ArrayList", "String"), ([1, 2], "ArrayList", "long"), ([], "ArrayList", None),
        ([1, 2], "Array", "integer"), (["p", "q"], "Array", "String"), ({"k": 1, "s": "t"}, "HashMap", None),
        ({}, "HashMap", None), ("text", "String", None),
    ],
)  # fmt: skip
def test_java_values_are_read_from_their_source(value: Any, kind: str, item: str | None) -> None:
    """Writing and reading a value gives it back."""
    assert java_value(java_text(value, kind, item), kind, item) == value


@pytest.mark.parametrize(
    ("value", "kind", "item"),
    [
        (5, "integer", None), (5, "Bigint", None), (1.5, "float", None), (False, "Boolean", None),
        (["p", "q"], "array", "String"), ([1.0, 2.5], "array", "float"), ([[1, 2], [3, 4]], "array", None),
        ({"k": 1, "s": "t", "b": True}, "dict", None), ({}, "dict", None), ("text", "String", None),
    ],
)  # fmt: skip
def test_javascript_values_are_read_from_their_source(value: Any, kind: str, item: str | None) -> None:
    """Writing and reading a value gives it back."""
    assert javascript_value(javascript_text(value, kind, item), kind, item) == value


def test_long_arguments_stay_texts() -> None:
    """A text over the limit is not a literal."""
    for text in ("new ArrayList<>(Arrays.asList(1" + " " * 100_000 + "))", "{" + "a:" * 50_000 + "}"):
        assert java_value(text, "ArrayList", "String") == text
        assert javascript_value(text, "dict") == text


HOSTILE = r"""
import resource
from assaymark.scoring.call_values import LONGEST, java_value, javascript_value
from assaymark.scoring.tool_calls import LONGEST as LONGEST_ANSWER, UnreadableAnswer, read_calls

resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
VALUES = [
    ("[", "[],"), ("[", "[a],"), ("[[", "],["), ("[[],", " "), ("new Array(", "[],"),
    ("{", "a:,"), ("{", "a"), ("{a:", " , "), ("1", "1"), ("1e", "1"), ("", "new int[]{"),
    ("", "new HashMap<>() { {"), ("", "new HashMap<"), ("new HashMap<>", " >"),
    ("new HashMap<>() {{", " "), ("new HashMap<>() {", 'put("",'),
    ("", "new ArrayList<>() {{"), ("new ArrayList<>() {{", " "), ("new ArrayList<>() {{", "add("),
    ("", "new ArrayList<>(Arrays.asList("),
]
ANSWERS = [
    ("f(a=a", "<a"), ("f(a=new ", " "), ("f(a=new", "( "), ("f", " "), ("f(", "a,"), ("", "f{} "), ("f(a=", "["),
    ("", "<tool_call>"),
]
for end in ("", "x", "\n", "}\n\n", "]\n!"):
    for start, repeated in VALUES:
        text = start + repeated * ((LONGEST - len(start) - len(end)) // len(repeated)) + end
        for kind in ("ArrayList", "Array", "HashMap", "double"):
            java_value(text, kind, "String")
        for kind in ("array", "dict", "float"):
            javascript_value(text, kind, None)
for start, repeated in ANSWERS:
    text = start + repeated * ((LONGEST_ANSWER - 10) // len(repeated)) + ")"
    for syntax, language in (("any", "python"), ("calls", "java")):
        try:
            read_calls(text, syntax, language)
        except UnreadableAnswer:
            pass
print("done")
"""


@pytest.mark.slow
def test_hostile_answers_end() -> None:
    """No text makes reading take exponential or cubic time, which would be years; all of these take seconds."""
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("done", "")


DECLARED = [{"name": "a.f", "parameters": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}]
EXPECTED = [ExpectedCall("a.f", {"x": [1]})]


@pytest.mark.parametrize(
    ("answer", "expected", "value", "reason", "status"),
    [
        ('Sure: {"name": "a_f", "arguments": {"x": 1}}', EXPECTED, 1.0, None, ScoreStatus.SCORED),
        ('Sure: {"name": "a_f", "arguments": {"x": 1}}', [], 0.0, "unwanted_call", ScoreStatus.SCORED),
        ('{"name": "a_f"', [], 0.0, "not_parsed", ScoreStatus.UNPARSED),
        (text_of_tool_calls('[{"type": "function"}]'), [], 0.0, "not_parsed", ScoreStatus.UNPARSED),
        (text_of_tool_calls("[null]"), [], 0.0, "not_parsed", ScoreStatus.UNPARSED),
        ('{"joke": "none"}', [], 1.0, None, ScoreStatus.SCORED),
        ('{"name": "a_f", "arguments": {"x": 1}}', EXPECTED, 1.0, None, ScoreStatus.SCORED),
        ('{"name": "a.f", "arguments": {"x": 1}}', EXPECTED, 0.0, "wrong_function", ScoreStatus.SCORED),
        ('{"name": "a_f"', EXPECTED, 0.0, "not_parsed", ScoreStatus.UNPARSED),
        ("no idea", EXPECTED, 0.0, "no_call", ScoreStatus.SCORED),
        ("", [], 1.0, None, ScoreStatus.SCORED),
        ('{"name": "a_f"}', [], 0.0, "unwanted_call", ScoreStatus.SCORED),
    ],
)
def test_a_score_has_the_calls_and_the_reason(
    answer: str, expected: list[ExpectedCall], value: float, reason: str | None, status: ScoreStatus
) -> None:
    """An answer that cannot be read is wrong, also where no call is expected."""
    rules = CallMatchRules(shown_name=lambda name: name.replace(".", "_"))
    result, inputs = score_calls(answer, expected, DECLARED, [CALL_MATCH], rules)
    assert (result[CALL_MATCH].value, inputs) == (value, status)
    assert result[CALL_MATCH].detail.get("reason") == reason
    assert ("message" in result[CALL_MATCH].detail) == (reason is not None)


def test_bfcl_finds_no_call_in_what_it_cannot_read() -> None:
    """As in its own checker, such an answer is right where no call is, and words around a call hide it."""
    rules = CallMatchRules(shown_name=lambda name: name.replace(".", "_"), as_bfcl=True)
    for answer in ('{"name": "a_f"', 'Sure: {"name": "a_f", "arguments": {"x": 1}}'):
        assert score_calls(answer, [], DECLARED, [CALL_MATCH], rules)[0][CALL_MATCH].value == 1.0
        assert score_calls(answer, EXPECTED, DECLARED, [CALL_MATCH], rules)[0][CALL_MATCH].value == 0.0


CALL = '{"name": "f", "arguments": {"a": 1}}'


@pytest.mark.parametrize(
    ("text", "n_calls"),
    [
        (f"Sure.\n```json\n{CALL}\n```\nDone.", 1),
        (f"I'll call it. {CALL} Done.", 1),
        (f"{CALL}\n{CALL}", 2),
        ('<function=f>{"a": 1}</function>', 1),  # Llama 3.1
        ('Action: f\nAction Input: {"a": 1}', 1),  # ReAct
        ('<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>', 1),  # DeepSeek
        ('<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>', 1),  # Kimi
        ('to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>', 1),  # gpt-oss
        (f"functools[{CALL}]", 1),
        (f"<|tool_call|>[{CALL}]<|/tool_call|>", 1),  # Granite, Phi-4
        (f'{{"tool_calls": [{CALL}, {CALL}]}}', 2),
        ('[{"tool_name": "f", "parameters": {"a": 1}}]', 1),  # Command R
        ("```tool_code\nf(a=1)\n```", 1),  # Gemma
        ("```tool_code\nprint(f(a=1))\n```", 1),
        ("<|tool_call_start|>[f(a=1)]<|tool_call_end|>", 1),  # LFM2
        ("<TOOLCALL>[f(a=1)]</TOOLCALL>", 1),  # Nemotron
        ('<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>', 1),  # DeepSeek V3.1
        ('{"name": "f", "args": {"a": 1}}', 1),
        ('{"name": "functions.f", "input": {"a": 1}}', 1),
        ('[{"f": {"a": 1}}]', 1),
        (f"{CALL} and then {CALL}", 2),
        ("I will call it.\nf(a=1)", 1),
        ('f({"a": 1})', 1),
        (f"<think>Perhaps <tool_call>{CALL}</tool_call></think>No call is needed.", 0),
        (f"<think>No: {CALL}</think>{CALL}", 1),
        (f"<think>Perhaps {CALL}", None),
        ("f(1)", None),
        ("Action: f[1]", None),
        ("<start_function_call>call:f{a:1}<end_function_call>", None),
        ("<｜DSML｜function_calls>", None),
        ("[book(x=1)]", 1),
        ("It is 5.", 0),
        ('{"answer": 5}', 0),
        ('{"name": "Ann", "age": 3}', 0),
        ("```python\nprint(1)\n```", 0),
        ("Note(1): f is not needed.", 0),
        ("", 0),
        ('Sure. {"name": "f", "arguments": {"a": ', None),
        (f"First {CALL}, then " + '{"name": "f", "arguments": {"a": ', None),
        (f"[{CALL}, 3]", None),
        (f"<tool_call>{CALL}</tool_call><tool_call>{{", None),
        ("<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n", None),
        ("<tool_call>\n<function=f>\n<parameter=a>\n1\n</function>\n</tool_call>", None),
        ("<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>", None),
        ('<invoke name="f"><parameter name="a">1</parameter>', None),
        ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1", None),
        ("<tool_call>f\n<arg_key>a</arg_key>\n</tool_call>", None),
        (
            '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">x</｜DSML｜parameter>',
            None,
        ),
        ("<function=f>" * 15_000, None),
        ("<function=f>{a: 1}</function>", None),
        ("{'name': 'f', 'arguments': {'a': 1}}", None),
        ('{"tool_calls": [{"name": "f", "arguments": "{a"}]}', None),
        ("f(a=", None),
    ],
)
def test_calls_among_other_words_are_read_and_spoilt_ones_are_not_none(text: str, n_calls: int | None) -> None:
    """With the names of the functions, what has the marks of a call is a call or unreadable, and the rest is none."""
    if n_calls is None:
        with pytest.raises(UnreadableAnswer):
            read_calls(text, names={"f"})
    else:
        calls = read_calls(text, names={"f"})
        assert len(calls) == n_calls
        assert all(call.name != "f" or call.arguments == {"a": 1} for call in calls)


QWEN3_CODER = (
    "<tool_call>\n<function=f>\n<parameter=city>\n{}\n</parameter>\n"
    "<parameter=n>\n{}\n</parameter>\n</function>\n</tool_call>"
)
GLM = (
    "f\n<arg_key>city</arg_key>\n<arg_value>{}</arg_value>\n"
    "<arg_key>n</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"
)
INVOKED = '<invoke name="f">\n<parameter name="city">{}</parameter>\n<parameter name="n">{}</parameter>\n</invoke>'
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="city" string="true">{}</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="n" string="false">{}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
)


@pytest.mark.parametrize(
    "form",
    [
        QWEN3_CODER,
        f"I will look it up.\n{QWEN3_CODER}",
        f"<tool_call>{GLM}",
        f"Let me see.\n<tool_call>{GLM}",
        f"<function_calls>\n{INVOKED}\n</function_calls>",
        f"<minimax:tool_call>\n{INVOKED}\n</minimax:tool_call>",
        INVOKED,
        DSML,
    ],
)
def test_calls_whose_arguments_are_tags_have_values_of_the_declared_types(form: str) -> None:
    """A text that looks like a number stays a text where one is declared; a number is one; another value is wrong."""
    properties = {"city": {"type": "string"}, "n": {"type": "integer"}}
    declared = [{"name": "f", "parameters": {"properties": properties, "required": ["city", "n"]}}]
    for city, n, wanted, value in (
        ("Paris", "3", "Paris", 1.0),
        ("75001", "3", "75001", 1.0),
        ("Rome", "3", "Paris", 0.0),
        ("Paris", "4", "Paris", 0.0),
        ("Paris", '"3"', "Paris", 0.0),
    ):
        expected = [ExpectedCall("f", {"city": [wanted], "n": [3]})]
        scores, status = score_calls(form.format(city, n), expected, declared, [CALL_MATCH], CallMatchRules())
        assert (scores[CALL_MATCH].value, status) == (value, ScoreStatus.SCORED)
    twice = read_calls(f"{form.format('Paris', 1)}\n{form.format('Rome', 2)}", names={"f"})
    assert [call.arguments["city"] for call in twice] == ["Paris", "Rome"]


def test_an_argument_between_tags_of_any_type_is_its_value_or_its_text() -> None:
    """Where the declaration names no type, both are accepted; objects and lists are read as JSON."""
    declared = [{"name": "f", "parameters": {"properties": {"a": {}, "b": {"type": "dict"}}}}]
    text = '<function=f><parameter=a>5</parameter><parameter=b>{"k": "v"}</parameter></function>'
    for value in (5, "5"):
        expected = [ExpectedCall("f", {"a": [value], "b": [{"k": ["v"]}]})]
        assert score_calls(text, expected, declared, [CALL_MATCH], CallMatchRules())[0][CALL_MATCH].value == 1.0
    assert read_calls("<tool_call>f\n</tool_call>", names={"f"}) == (FunctionCall("f", {}),)


def test_any_call_is_right_for_any_call() -> None:
    """BFCL's relevance asks only whether a function was called."""
    values = [
        score_calls(text, [], DECLARED, [ANY_CALL], CallMatchRules(as_bfcl=True))[0][ANY_CALL]
        for text in ('{"name": "z"}', "no", '{"name": ')
    ]
    assert [(each.value, each.detail.get("reason")) for each in values] == [
        (1.0, None), (0.0, "no_call"), (0.0, "not_parsed"),
    ]  # fmt: skip
