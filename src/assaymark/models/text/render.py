"""Render chats as text with the model's own template, exactly as lm-evaluation-harness does.

One rule of lm-eval is applied with a warning: if a template refuses a system message, that message is left out.

The limits of all templates apply to those of chats. transformers compiles a template and calls its `render`. During a
call it receives another object instead: the same template, compiled in an environment like its own but with limits on
loops and text sizes (`limits.templates`). Everything else that transformers does, and what templates find in their
environment, is unchanged. transformers never compiles the template itself, because compiling evaluates constants, and
`"x" * 10**10` is one.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from assaymark.errors import UsageError
from assaymark.limits.templates import TemplateTooLarge, bounded, bounded_render, line_of
from assaymark.records import ImagePart, JsonValue, Message, ResultPart, TextPart

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def message_json(message: Message, content: object, *, for_template: bool) -> dict[str, object]:
    """Return a message with this content, its calls of tools as `tool_calls`, and a tool's result with the call's id.

    Arguments of calls are objects for templates, and JSON texts for servers.

    Source: OpenAI's API reference (`tool_calls`, `tool_call_id`); transformers 5.x, docs chat_extras (arguments are
        objects, and a result has the function's `name`).
    """
    made: dict[str, object] = {"role": message.role, "content": content}
    if message.calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.loads(call.arguments) if for_template else call.arguments,
                },
            }
            for call in message.calls
        ]
    for part in message.parts:
        if isinstance(part, ResultPart):
            made["tool_call_id"] = part.call_id
            if for_template:
                made["name"] = part.name
    return made


_lock = threading.Lock()  # two threads must not restore each other's function


class _Compiled:
    """Stands in for transformers' compiled template."""

    def __init__(self, rendered: Callable[[Mapping[str, object]], str]) -> None:
        self._rendered = rendered

    def render(self, *args: Mapping[str, object], **kwargs: object) -> str:
        """Return the rendered text; variables are passed as in Jinja."""
        return self._rendered(dict(*args, **kwargs))


@lru_cache(maxsize=64)
def _compiled(source: str) -> _Compiled:
    from transformers.utils import chat_template_utils

    environment = chat_template_utils._compile_jinja_template("").environment  # noqa: SLF001 - none is public
    return _Compiled(bounded_render(bounded(environment), source))


@contextmanager
def within_limits(source: str) -> Iterator[None]:
    """Limit the template with this source inside the block.

    Raises: TemplateSyntaxError or TemplateTooLarge if it does not compile.
    """
    from transformers.utils import chat_template_utils

    ours = _compiled(source)
    with _lock:
        theirs = chat_template_utils._compile_jinja_template  # noqa: SLF001
        chat_template_utils._compile_jinja_template = lambda text: ours if text == source else theirs(text)  # noqa: SLF001
        try:
            yield
        finally:
            chat_template_utils._compile_jinja_template = theirs  # noqa: SLF001


logger = logging.getLogger(__name__)


class ChatRenderer:
    """A tokenizer's chat template with its variables; each distinct chat is rendered once."""

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        variables: Mapping[str, JsonValue],
        template: str | None = None,
        *,
        as_parts: bool = False,
    ) -> None:
        self._as_parts = as_parts  # as templates of models of images and text expect messages
        self._tokenizer = tokenizer
        self._variables = dict(variables)
        self._template = template
        self._shows_tools = False  # known after the first chat with tools
        self._shows_calls = False  # known after the first chat with an earlier call
        self.notes: list[str] = []
        self._remember = lru_cache(maxsize=8192)(self._render)

    def render(self, messages: Sequence[Message], *, continue_final: bool, tools: str | None = None) -> str:
        """Return the chat as one text; with `continue_final` the last message is left open.

        Raises: UsageError if there is no template, it refuses the chat or ignores the tools, or a message contains an
            image.
        Source: lm-evaluation-harness 0.4.13, models/huggingface.py apply_chat_template.
        """
        return self._remember(tuple(messages), continue_final, tools)

    def _render(self, messages: tuple[Message, ...], continue_final: bool, tools: str | None) -> str:
        from jinja2 import TemplateError, TemplateSyntaxError

        if not self._as_parts and any(message.images for message in messages):
            raise UsageError("a message contains an image, and this model takes text only; use --model hf-multimodal")
        chat = [
            message_json(each, _parts(each) if self._as_parts else each.text, for_template=True) for each in messages
        ]
        declared = None if tools is None else json.loads(tools)
        try:
            if declared is not None:
                self._check_tools(chat, declared)
            self._check_calls(chat, declared)
            return self._apply(chat, continue_final, declared)
        except TemplateSyntaxError as error:
            raise self._unfit("does not compile", error) from error
        except TemplateError as error:
            without = [each for each in chat if each["role"] != "system"]
            if len(without) == len(chat):
                raise self._unfit("refuses this chat", error) from error
            self._note_once(f"the chat template refuses a system message ({error}); it is omitted from every prompt")
            try:
                return self._apply(without, continue_final, declared)
            except TemplateError as second:
                raise self._unfit("refuses this chat", second) from second

    def _unfit(self, what: str, error: Exception) -> UsageError:
        """Return the error for an unusable template, with its origin and line."""
        line = line_of(error)
        origin = f"the chat template of {self._tokenizer.name_or_path or 'this model'}"
        return UsageError(f"{origin}{'' if line is None else f', line {line},'} {what}: {error}")

    def _check_tools(self, chat: list[dict[str, object]], tools: list[object]) -> None:
        """Raise UsageError if the template ignores tools, which the first chat with tools shows."""
        if self._shows_tools:
            return
        if self._apply(chat, False, tools) == self._apply(chat, False):
            raise UsageError(
                f"the chat template of {self._tokenizer.name_or_path or 'this model'} ignores tools; use a model whose "
                "template takes them, or a task that names them in its prompt (tools_in: prompt, such as bfcl_prompted)"
            )
        self._shows_tools = True

    def _check_calls(self, chat: list[dict[str, object]], tools: list[object] | None) -> None:
        """Raise UsageError if the template ignores earlier calls, which the first chat with one shows."""
        if self._shows_calls or not any("tool_calls" in each for each in chat):
            return
        without = [{key: value for key, value in each.items() if key != "tool_calls"} for each in chat]
        if self._apply(chat, False, tools) == self._apply(without, False, tools):
            raise UsageError(
                f"the chat template of {self._tokenizer.name_or_path or 'this model'} ignores `tool_calls` of earlier "
                "messages; use a model whose template takes them"
            )
        self._shows_calls = True

    def _apply(self, chat: list[dict[str, object]], continue_final: bool, tools: list[object] | None = None) -> str:
        """Return a chat as one text.

        Raises: UsageError; jinja2.TemplateError if the template refuses the chat.
        """
        from jinja2 import TemplateError

        if getattr(self._tokenizer, "chat_template", None) is None:
            raise UsageError(
                f"the tokenizer of {self._tokenizer.name_or_path or 'this model'} has no chat template; "
                "messages need one: use a tokenizer that has one with tokenizer=, or omit tasks of chats, and "
                "--apply_chat_template where it was given"
            )
        self._check_name()
        options: dict[str, object] = {"chat_template": self._template} if self._template is not None else {}
        options |= {"tools": tools} if tools is not None else {}
        try:
            with within_limits(self._tokenizer.get_chat_template(**options)):
                text = self._tokenizer.apply_chat_template(
                    chat,
                    tokenize=False,
                    add_generation_prompt=not continue_final,
                    continue_final_message=continue_final,
                    **options,
                    **self._variables,
                )
        except TemplateError:
            raise
        except (TemplateTooLarge, MemoryError, RecursionError, SyntaxError) as error:
            raise self._unfit("exceeds a limit", error) from error
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise self._unfit("cannot be rendered", error) from error
        return str(text)

    def _check_name(self) -> None:
        """Raise UsageError for an unknown template name; a tokenizer's only template has no name."""
        templates = self._tokenizer.chat_template
        if self._template is None:
            return
        if not isinstance(templates, Mapping):
            self._note_once(f"the tokenizer has one chat template without a name; it is used for '{self._template}'")
            self._template = None
        elif self._template not in templates:
            known = ", ".join(sorted(templates))
            raise UsageError(f"chat template '{self._template}' is unknown; this tokenizer has: {known}")

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
            logger.warning(note)


def _parts(message: Message) -> list[dict[str, str]]:
    """Return a message's content as transformers' processors define it: texts and images in order."""
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}
        for part in message.parts
        if isinstance(part, TextPart | ImagePart)
    ]
