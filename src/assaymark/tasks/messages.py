"""Chats in rows: lists of messages as OpenAI and TRL write them, or as ShareGPT does.

A message has a `role` and a `content`, or ShareGPT's `from` and `value`. Rows come from files of users and from the
Hub, so every message is read into a role and a text here, or its row is at fault.

In tasks of several turns every turn is a request of its own, so a run that is killed between turns continues there. The
model sees its own earlier answers without their reasoning, as chat templates expect.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from assaymark.errors import DataError, MalformedSample
from assaymark.limits.nesting import parse_json
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.templates import compile_template
from assaymark.records import Message, Output, Render, Request, Row


def next_turn(
    layout: PromptFields, request: Request, row: Row, outputs: Sequence[Output], render: Render | None
) -> Request | None:
    """Return the turn after `request`, which `outputs` answer; None after the last turn, or where there is no answer.

    Raises: MalformedSample for a row whose turns are no list of texts.
    """
    if layout.turns is None or not outputs or outputs[0].text is None:
        return None
    turn, texts = request.turn + 1, layout.turns(row)
    if turn >= len(texts):
        return None
    answer = Message.of_text("assistant", outputs[0].text)
    messages = (*request.messages, answer, Message.of_text("user", texts[turn]))
    segments = () if render is None else (render(messages, False),)
    target = reference_of(layout, layout.target(row), turn)
    return replace(request, segments=segments, messages=messages, turn=turn, target=target)


def reference_of(layout: PromptFields, target: object, turn: int) -> str:
    """Return the reference as text, for logs; a conversation with a list of references has one for each turn."""
    if layout.turns is None or not isinstance(target, list):
        return str(target)
    return str(target[turn]) if turn < len(target) else ""


MessagesOf = Callable[[Row], list[tuple[str, str]]]
_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model", "bard", "bing", "ai"), "assistant"),
}
"""Role, also in ShareGPT's, OpenAI's newer (developer) and LangChain's (ai) words -> role."""


_TURN = (("user", "asked"), ("assistant", "said"))


@dataclass(frozen=True, slots=True)
class ChatColumns:
    """The columns of a chat, as the file spells them.

    before: those of a system message and of earlier turns, as LLaMA-Factory's files have them, and what is `asked` with
    them: an expression of the user's message; None: the messages of the chat follow them.
    """

    messages: str
    answer: str | None  # the expected answer; None: the chat's last message
    answer_key: str | None  # key of the text in the messages that the answer is; None: it is a text
    system: str | None = None
    history: str | None = None
    asked: str | None = None
    also: tuple[str, ...] = ()  # further columns in `asked`

    @property
    def used(self) -> tuple[str, ...]:
        """All of these columns."""
        named = (self.system, self.history, self.messages, *self.also, self.answer)
        return tuple(name for name in named if name is not None)

    @property
    def field(self) -> str:
        """The value of `doc_to_messages`: the column, or a template of the messages as JSON."""
        if self.system is None and self.history is None:
            return self.messages
        parts = []
        if self.system is not None:
            message = f"{{'role': 'system', 'content': {self.system}}}"
            parts.append(f"{{% if {self.system} %}}{{{{ {message} | tojson }}}},{{% endif %}}")
        if self.history is not None:
            turn = (f"{{{{ {{'role': '{role}', 'content': {name}}} | tojson }}}}," for role, name in _TURN)
            parts.append(f"{{% for asked, said in {self.history} or [] %}}{''.join(turn)}{{% endfor %}}")
        if self.asked is None:
            each = "{{ message | tojson }}{{ ',' if not loop.last }}"
            last = f"{{% for message in {self.messages} %}}{each}{{% endfor %}}"
        else:
            last = f"{{{{ {{'role': 'user', 'content': {self.asked}}} | tojson }}}}"
        return f"[{''.join(parts)}{last}]"

    @property
    def target(self) -> str:
        """The template of the expected answer."""
        column = self.answer or self.messages
        return f"{{{{{column}}}}}" if self.answer_key is None else f"{{{{{column}[-1]['{self.answer_key}']}}}}"


def are_messages(value: object) -> bool:
    """Return whether a value of a row is a list of messages, in either form."""
    return text_key(value) is not None


def text_key(value: object) -> str | None:
    """Return the key of the text in messages: `content`, ShareGPT's `value`, or None where they are no messages."""
    keys = value[0].keys() if isinstance(value, list) and value and isinstance(value[0], Mapping) else ()
    return "content" if {"role", "content"} <= set(keys) else "value" if {"from", "value"} <= set(keys) else None


def ends_with_answer(value: object) -> bool:
    """Return whether a value of a row is a list of messages, the last by the model."""
    last = value[-1] if isinstance(value, list) and value else None
    role = last.get("role", last.get("from")) if isinstance(last, Mapping) else None
    return isinstance(role, str) and _ROLES.get(role.lower()) == "assistant"


def read_messages(value: object) -> list[tuple[str, str]]:
    """Return role (system, user or assistant) and text of each message.

    Raises: MalformedSample for anything else than a list of messages with texts.
    """
    messages = []
    for each in list_in(value, "messages"):
        if not isinstance(each, Mapping):
            raise MalformedSample(f"messages are {value!r:.120}; expected a list of messages, the last by the user")
        names = ("role", "content") if "role" in each else ("from", "value")
        role, content = (each.get(name) for name in names)
        if not isinstance(role, str) or role.lower() not in _ROLES or not isinstance(content, str):
            raise MalformedSample(
                f"a message has role {role!r:.40}, content {content!r:.40}; expected text by system, user, assistant"
            )
        messages.append((_ROLES[role.lower()], content))
    return messages


def list_in(value: object, what: str) -> list[object]:
    """Return a list, or the list of a JSON text. Raises: MalformedSample."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except (ValueError, RecursionError) as error:
            raise MalformedSample(f"{what} are {value!r:.80}, which is not JSON: {error}") from None
    if value is None:
        raise MalformedSample(f"this row has no {what}, as rows of another layout have none; give every row the same")
    if not isinstance(value, list):
        raise MalformedSample(f"{what} are {value!r:.80}; expected a list")
    return value


def resolve_messages(field: object, columns: Collection[str], *, ends_with_answer: bool) -> MessagesOf:
    """Return the function for `doc_to_messages`: (role, text) of each message, the last one the user's.

    `ends_with_answer`: whether answers after the user's last message are left out, as they are what is expected.

    Raises: DataError for a field that is neither a column, nor a template of JSON, nor a function.
    """
    if callable(field):
        read: Callable[[Row], object] = field
    elif isinstance(field, str) and field in columns:
        read = itemgetter(field)
    elif isinstance(field, str) and "{{" in field:
        read = compile_template(field, "doc_to_messages")
    else:
        raise DataError(f"doc_to_messages is {field!r:.80}; expected a column, a template of JSON, or a function")

    def messages(row: Row) -> list[tuple[str, str]]:
        value = read(row)
        conversation = read_messages(value)
        while ends_with_answer and conversation and conversation[-1][0] == "assistant":
            conversation.pop()
        if not conversation or conversation[-1][0] != "user":
            raise MalformedSample(f"messages are {value!r:.120}; expected a list of messages, the last by the user")
        return conversation

    return messages


def _is_pair(turn: object) -> bool:
    return isinstance(turn, list) and [type(text) for text in turn] == [str, str]


def fault_of_chat(row: Row, used: ChatColumns) -> str | None:
    """Return the fault of a row's chat or answer, to be written after its location; None for a good row."""
    try:
        turns = row[used.history] if used.history else None
        if turns and not (isinstance(turns, list) and all(map(_is_pair, turns))):
            return f" has {turns!r:.80} in column '{used.history}'; expected a list of pairs of texts: asked, said"
        asked = resolve_messages(used.field, row.keys(), ends_with_answer=True)(row)
        if used.answer_key is None:
            answer = row[str(used.answer)]
        else:
            role, answer = (read_messages(row[used.answer or used.messages]) or [("", "")])[-1]
            if role != "assistant":
                return f" has no answer: the last message in column '{used.answer or used.messages}' is not the model's"
    except MalformedSample as error:
        return f": {error}"
    if not asked[-1][1].strip():
        return f" has an empty question: the user's last message in column '{used.messages}'"
    empty = answer is None or (isinstance(answer, str) and not answer.strip())
    return f" has an empty answer in column '{used.answer or used.messages}'" if empty else None
