"""Read the function calls in a model's answer, whatever the syntax of its chat template.

A server's `tool_calls` are stored as their JSON beside the text; they are turned into the same JSON list that models
write. Answers of local models are texts: Hermes and Qwen write `<tool_call>{...}</tool_call>`, Mistral `[TOOL_CALLS]`
and a list or `name{...}`, Llama 3 one JSON object for each call, separated by semicolons, others a JSON list or Python
calls. Special tokens may be missing, because decoding removes them. In answers to a user's own questions, calls among
other words are read too, and those whose arguments are tags, as Qwen3-Coder, GLM-4.5, MiniMax-M2, DeepSeek V3.2 and
Claude's prompt have them.

Source: the chat templates of NousResearch/Hermes-2-Pro, Qwen/Qwen2.5 and Qwen3-Coder, zai-org/GLM-4.5,
    MiniMaxAI/MiniMax-M2, meta-llama/Llama-3.1 and mistralai; encoding_dsv32.py of deepseek-ai/DeepSeek-V3.2; OpenAI's
    API reference (`tool_calls`); the handlers of BFCL v4 (ShishirPatil/gorilla 6ea57973, bfcl_eval/model_handler).
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from assaymark.limits.nesting import is_deeper, parse_json
from assaymark.records import canonical_json
from assaymark.scoring.call_syntax import UnreadableCall, java_calls, python_calls

Syntax = Literal["any", "calls"]  # what a template asks for, or only function calls as BFCL's prompt asks for
Language = Literal["python", "java", "javascript"]

LONGEST = 200_000  # characters of an answer that are read
_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_NAMED = re.compile(r"\s*+([A-Za-z_][\w.\-]*+)\s*+(?:\[ARGS\])?+\s*+(?=\{)")
_MISTRAL, _LLAMA = "[TOOL_CALLS]", "<|python_tag|>"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call: the function's name and its arguments by name."""

    name: str
    arguments: Mapping[str, object]

    @property
    def content(self) -> dict[str, object]:
        """The call as JSON."""
        return {"name": self.name, "arguments": dict(self.arguments)}


class TaggedText(str):
    """An argument between tags: a text, or the JSON of a value, as the parameter's declaration has it."""

    __slots__ = ()

    @property
    def value(self) -> object:
        """The value, if it is JSON or one of Python's names for its constants; else the text."""
        try:
            return _CONSTANTS[self] if self in _CONSTANTS else parse_json(self)
        except (ValueError, RecursionError):
            return str(self)


_CONSTANTS = {"True": True, "False": False, "None": None}


class UnreadableAnswer(ValueError):
    """An answer that begins as a call does, but cannot be read; the message says why."""


def text_of_tool_calls(calls: str) -> str:
    """Return a server's `tool_calls`, a JSON text, as the JSON list that `read_calls` reads.

    Arguments that are no JSON stay texts, so that reading them fails with the reason.
    """
    listed = json.loads(calls)
    plain_calls = []
    for call in listed if isinstance(listed, list) else [listed]:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            is_named = isinstance(call, Mapping) and isinstance(call.get("name"), str)
            arguments = call.get("input", call.get("arguments")) if is_named else call  # Anthropic's, or no call
            plain_calls.append({"name": call["name"] if is_named else None, "arguments": arguments})
            continue
        arguments = function.get("arguments")
        try:
            parsed = parse_json((arguments or "").strip() or "{}") if isinstance(arguments, str | None) else arguments
        except ValueError:
            parsed = arguments
        plain_calls.append({"name": function.get("name"), "arguments": parsed})
    return json.dumps(plain_calls, ensure_ascii=False)  # arguments stay in their order


def read_calls(
    text: str, syntax: Syntax = "any", language: Language = "python", *, names: Collection[str] | None = None
) -> tuple[FunctionCall, ...]:
    """Return the calls in an answer; none where it has no call in it.

    Args:
        text: the answer, or what `text_of_tool_calls` made of a server's calls.
        syntax: "any" reads every syntax above; "calls" only `[f(a=1), g()]`, in the language's own literals.
        language: of the literals in calls; JSON is the same for all.
        names: of the functions that there are. With them calls are also read where words stand around them, and in
            further syntaxes; an answer that has the marks of a call is unreadable, and other JSON is no call.

    Raises: UnreadableAnswer for an answer that begins a call and cannot be read.
    """
    if names is None:
        return _whole_answer(text, syntax, language)
    from assaymark.scoring.choice_letters import outside_reasoning  # lists of tasks need no patterns

    if (outside := outside_reasoning(text)) is None:
        raise UnreadableAnswer("the answer ended before its reasoning did")
    text = outside
    if len(text) <= LONGEST and (tagged := _tagged_calls(text)):
        return tuple(_known(call, names) for call in tagged)
    unreadable: UnreadableAnswer | None = None
    try:
        calls = _whole_answer(text, syntax, language, are_named=True)
        is_list = text.strip().startswith("[") or any(call.name in names or call.arguments for call in calls)
        # {"name": .., "args": ..}
        is_part = any(not call.arguments for call in calls) and _OTHER_ARGUMENTS.search(text) is not None
        is_part = is_part or (bool(calls) and calls[0].name == "print" and "print" not in names)
        if not is_part and _STATED.search(text) and not _BLOCK.search(text):  # a call, words, and another call
            is_part = len(_anywhere(text, names)) > len(calls)
        if calls and not is_part and (is_list or _MARKS.search(text)):  # not `print(1)` or an object that has a name
            return tuple(_known(call, names) for call in calls)
    except UnreadableAnswer as error:
        unreadable = error
    if unreadable is None or (len(text) <= LONGEST and _is_whole_json(text)):
        if calls := _anywhere(text, names):
            return tuple(_known(call, names) for call in calls)
        if unreadable is not None and not _MARKS.search(text):
            return ()  # another object
    begins = re.match(r"[\s`\[]*([\w.]+)\((?!\w+\)\s*=)", text)
    is_quoted = any(f'"{name}"' in text or f"'{name}'" in text for name in names)
    if unreadable is not None and (len(text) > LONGEST or is_quoted or (begins and begins[1] in names)):
        raise unreadable
    if marks := _MARKS.search(text):
        raise unreadable or UnreadableAnswer(f"the answer has {_quoted(marks[0])}, and no call that can be read")
    return ()


def _known(call: FunctionCall, names: Collection[str]) -> FunctionCall:
    """Return a call under the name that the model was told, without the namespace before it."""
    bare = re.sub(r"\A(?:functions|default_api|tools|api)\.", "", call.name)
    return FunctionCall(bare, call.arguments) if call.name not in names and bare in names else call


def _is_whole_json(text: str) -> bool:
    """Return whether an answer is JSON; a list of calls and of something else is not read in parts."""
    fenced = _FENCE.match(text.strip())
    try:
        value = parse_json(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return False
    return not isinstance(value, list) or len({_call_in(each) is None for each in value}) == 1


def _whole_answer(
    text: str, syntax: Syntax, language: Language, *, are_named: bool = False
) -> tuple[FunctionCall, ...]:
    """Return the calls of which an answer consists."""
    if len(text) > LONGEST:
        raise UnreadableAnswer(f"the answer has {len(text):,} characters; at most {LONGEST:,} are read")
    if syntax == "calls":
        return _in_call_syntax(text, language, are_named=are_named)
    blocks = _BLOCK.findall(text)
    if blocks:
        return tuple(call for block in blocks for call in _of_json(_json(block.strip())))
    _, is_marked, marked = text.partition(_MISTRAL)
    if is_marked:
        return _mistral(marked)
    _, is_marked, marked = text.partition(_LLAMA)
    bare = (marked if is_marked else text).strip()
    fenced = _FENCE.match(bare)
    bare = fenced[1].strip() if fenced else bare
    if bare.startswith(("{", "[{")) or re.match(r"\[\s*[{\]]", bare):
        return _json_calls(bare)
    named = _named_calls(bare)
    return named if named is not None else _in_call_syntax(bare, language, are_named=are_named)


# ---------------------------------------------------------------------------------------- among other words

_NAMES = ("name", "tool_name", "tool", "function", "action", "function_name", "recipient_name", "method", "api")
_ARGUMENTS = (
    *("arguments", "parameters", "args", "tool_input", "action_input", "input", "params", "kwargs"),
    *("function_arguments", "function_args"),
)
_OTHER_ARGUMENTS = re.compile(rf"[\"'](?:{'|'.join(_ARGUMENTS[2:])})[\"']\s*:")
_BEFORE_ARGUMENTS = re.compile(
    r"<function=([\w.\-]+)>\s*(?=\{)"  # Llama 3.1
    r"|<｜tool▁call▁begin｜>\s*([\w.\-]+)<｜tool▁sep｜>\s*(?=\{)"  # DeepSeek since V3.1
    r"|<｜tool▁sep｜>\s*([\w.\-]+)\s*(?:```(?:json)?\s*)?"  # DeepSeek
    r"|<\|tool_call_begin\|>\s*(?:functions\.)?([\w.\-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*"  # Kimi
    r"|^Action:[ \t]*([\w.\-]+)[ \t]*\n+Action Input:\s*"  # ReAct
    r"|\bto=functions\.([\w.\-]+)[^\n{]{0,200}?<\|message\|>\s*",  # gpt-oss
    re.MULTILINE,
)
_CODE = re.compile(
    r"```(?:tool_code|tool_call|python|py)[ \t]*\n(.*?)```"
    r"|<\|tool_call_start\|>(.*?)(?:<\|tool_call_end\|>|\Z)|<TOOLCALL>(.*?)(?:</TOOLCALL>|\Z)",  # LFM2, Nemotron
    re.DOTALL,
)
_CALL_LINE = re.compile(
    r"^[ \t`>*-]*(?:\w+[ \t]*=[ \t]*)?(?:(?:await|return)[ \t]+)?([\w.]+\(.*\))[ \t`;]*$", re.MULTILINE
)
_STATED = re.compile(r"[\"'](?:arguments|tool_input|action_input)[\"']\s*:")
_MARKS = re.compile(
    r"<\|?/?(?:tool_calls?|function_call|functioncall|invoke|function=|tool_use)\b|<｜tool|\[TOOL_CALLS\]|<\|python_tag\|>|"
    r"\bfunctools\[|^Action Input:|^Action:\s*[\w.]+[\[(]|\bto=functions\.|<\|action_start\|>|<｜DSML｜|"
    r"```tool_(?:code|call)\b|"
    r"<[\w:|/]{0,20}(?:(?i:tool|function)_?(?i:calls?))\b|"
    rf"{_STATED.pattern}|"
    r"[\"'](?:name|tool_name)[\"']\s*:[^{}]{0,200}[\"']parameters[\"']\s*:",
    re.MULTILINE,
)
MOST_TRIES = 500  # places from which a text is read as JSON without success


def _anywhere(text: str, names: Collection[str]) -> tuple[FunctionCall, ...]:
    """Return the calls among an answer's other words: objects with a name and arguments, and named arguments."""
    if is_deeper(text, 100):
        raise UnreadableAnswer("the answer is nested deeper than 100 levels")
    decoder, calls = json.JSONDecoder(), list[FunctionCall]()
    for match in _BEFORE_ARGUMENTS.finditer(text):
        try:
            arguments, _ = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError) as error:
            raise UnreadableAnswer(f"the arguments after {_quoted(match[0].strip())} are not JSON: {error}") from None
        name = next(each for each in match.groups() if each)
        calls += _of_json({"name": name, "arguments": arguments})
    at = text.find("{") if not calls else -1
    n_tries, rest = 0, ""  # rest: what is outside of calls
    while at >= 0 and n_tries < MOST_TRIES:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            value, end, n_tries = None, at + 1, n_tries + 1
        call = _call_in(value, names)
        calls += [] if call is None else _of_json(call)
        rest += text[at : at + 1] if call is None else ""
        next_at = text.find("{", at + 1 if call is None else end)
        rest += text[at + 1 if call is None else end : next_at if next_at >= 0 else len(text)]
        at = next_at
    if calls and rest and (broken := _STATED.search(rest)):
        raise UnreadableAnswer(f"the answer has {_quoted(broken[0])} outside a call that can be read")
    codes = ["".join(groups).strip() for groups in _CODE.findall(text)]
    lines = [line for line in _CALL_LINE.findall(text) if line.split("(")[0].split(".")[-1] in names]
    for code in (codes or lines) if not calls else ():
        inner = re.fullmatch(r"print\((.*)\)", code, re.DOTALL)
        read = _in_call_syntax(inner[1] if inner else code, "python", are_named=True)
        calls += read if all(_known(call, names).name in names for call in read) else ()
    return tuple(calls)


def _call_in(value: object, names: Collection[str] = ()) -> Mapping[str, object] | None:
    """Return an object that is a call under any of the usual keys, as one with name and arguments; None for others."""
    if not isinstance(value, Mapping):
        return None
    if len(value) == 1 and next(iter(value)) in names and isinstance(next(iter(value.values())), Mapping):
        return {"name": next(iter(value)), "arguments": next(iter(value.values()))}
    if isinstance(function := value.get("function"), Mapping):
        value = function
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENTS if key in value), None)
    return None if name is None or key is None else {"name": name, "arguments": value[key]}


# ------------------------------------------------------------------------------------------------- tags

_TAG = r"<(?:｜DSML｜|[a-z]{1,20}:)?"
_OPENED = re.compile(
    rf"<function=(?P<function>[\w.\-]+)>(?!\s*\{{)|{_TAG}invoke\s+name=\"(?P<invoke>[^\"<>]+)\"\s*>"
    r"|<tool_call>\s*(?P<glm>[A-Za-z_][\w.\-]*)\s*(?=<arg_key>|</tool_call>)"
)
_CLOSED = {
    "function": re.compile(r"\s*</function>"),
    "invoke": re.compile(r"\s*</(?:｜DSML｜|[a-z]{1,20}:)?invoke>"),
    "glm": re.compile(r"\s*</tool_call>"),
}
_ARGUMENT = {
    "function": re.compile(r"\s*<parameter=(?P<key>[^<>\n]+)>"),
    "invoke": re.compile(
        rf"\s*{_TAG}parameter\s+name=\"(?P<key>[^\"<>]+)\"(?:\s+string=\"(?P<is_text>true|false)\")?\s*>"
    ),
    "glm": re.compile(r"\s*<arg_key>\s*(?P<key>[^<>\n]+?)\s*</arg_key>\s*<arg_value>"),
}
_ARGUMENT_END = {
    "function": ("</parameter>",),
    "invoke": ("</parameter>", "</｜DSML｜parameter>"),
    "glm": ("</arg_value>",),
}


def _tagged_calls(text: str) -> tuple[FunctionCall, ...]:
    """Return the calls whose names and arguments are tags. Raises: UnreadableAnswer for one that is spoilt."""
    calls, at = [], 0
    while opened := _OPENED.search(text, at):
        kind = str(opened.lastgroup)
        arguments, at = dict[str, object](), opened.end()
        while (closed := _CLOSED[kind].match(text, at)) is None:
            argument = _ARGUMENT[kind].match(text, at)
            ends = [] if argument is None else [
                (end, len(mark)) for mark in _ARGUMENT_END[kind] if (end := text.find(mark, argument.end())) >= 0
            ]  # fmt: skip
            if argument is None or not ends or argument["key"] in arguments:
                raise UnreadableAnswer(f"the call {_quoted(text[opened.start() : at + 40])} is not whole")
            end, length = min(ends)
            value = TaggedText(text[argument.end() : end].removeprefix("\n").removesuffix("\n"))
            is_text = argument.groupdict().get("is_text")
            arguments[argument["key"]] = value if is_text is None else str(value) if is_text == "true" else _json(value)
            at = end + length
        calls.append(FunctionCall(opened[kind], arguments))
        at = closed.end()
    return tuple(calls)


# ------------------------------------------------------------------------------------------------- JSON


def _json(text: str) -> object:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer(f"the call {_quoted(text)} is not JSON: {error}") from None


def _json_calls(text: str) -> tuple[FunctionCall, ...]:
    """Return the calls of a JSON list, or of objects one after the other, separated by semicolons or white space."""
    values = []
    try:
        values = list(_values(text))
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer(f"{_quoted(text)} is not JSON: {error}") from None
    return tuple(call for value in values for call in _of_json(value))


def _values(text: str) -> Iterator[object]:
    """Yield the JSON values at the beginning of a text; the text after the last one must have no calls."""
    if is_deeper(text, 100):
        raise ValueError("nested deeper than 100 levels")
    decoder, at, n_found = json.JSONDecoder(), 0, 0
    while at < len(text):
        if n_found and text[at] not in "{[":
            return
        value, at = decoder.raw_decode(text, at)
        yield value
        n_found += 1
        while at < len(text) and (text[at].isspace() or text[at] in ";,"):
            at += 1


def _of_json(value: object) -> Iterator[FunctionCall]:
    """Yield the calls of a parsed value. Raises: UnreadableAnswer for one that is none."""
    if isinstance(value, list):
        for each in value:
            yield from _of_json(each)
        return
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    if not isinstance(value, Mapping) or not isinstance(name := value.get("name"), str):
        raise UnreadableAnswer(
            f'{_quoted(canonical_json(value))} is not a call; expected {{"name": ..., "arguments": ...}}'
        )
    arguments: object = next((value[key] for key in ("arguments", "parameters") if value.get(key) is not None), {})
    if isinstance(arguments, str):
        arguments = _json(arguments)
    if not isinstance(arguments, Mapping):
        raise UnreadableAnswer(f"the arguments of {name} are {_quoted(canonical_json(arguments))}; expected an object")
    yield FunctionCall(name, arguments)


def _mistral(text: str) -> tuple[FunctionCall, ...]:
    """Return the calls after Mistral's mark: a list, or a name and its arguments for each call."""
    parts = [part.strip() for part in text.split(_MISTRAL)]
    calls: list[FunctionCall] = []
    for part in parts:
        named = _named_calls(part)
        calls += _json_calls(part) if named is None else named
    return tuple(calls)


def _named_calls(text: str) -> tuple[FunctionCall, ...] | None:
    """Return the calls of a text such as `add{"a": 1}`; None where it does not consist of such calls."""
    decoder, at = json.JSONDecoder(), 0
    calls = []
    if is_deeper(text, 100):
        return None
    while at < len(text):
        match = _NAMED.match(text, at)
        if match is None:
            return None
        try:
            arguments, at = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return None
        calls.append(FunctionCall(match[1], arguments))
        while at < len(text) and text[at].isspace():
            at += 1
    return tuple(calls) or None


# -------------------------------------------------------------------------------------- function calls


def _in_call_syntax(text: str, language: Language, *, are_named: bool = False) -> tuple[FunctionCall, ...]:
    """Return the calls of `[f(a=1), g(b="x")]`; none for another text.

    The brackets may be missing, as in BFCL. Its own reading cannot tell prose from a call that is spoilt; an answer
    that begins with a name and a parenthesis is taken for the latter.
    """
    bare = text.strip("`\n ")
    bare = bare.removeprefix(language).strip() if bare.startswith(language) and "\n" in bare else bare
    read = partial(python_calls, are_named=are_named) if language == "python" else java_calls
    try:
        return tuple(FunctionCall(name, arguments) for name, arguments in read(bare))
    except UnreadableCall as error:
        if re.match(r"\[?\s*[\w.]+\(", bare):
            raise UnreadableAnswer(f"{_quoted(bare)} cannot be read as calls: {error}") from None
        return ()


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
