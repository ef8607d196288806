"""Chats as text, under the model's own template and exactly as lm-evaluation-harness renders them.

One thing it does is kept but said aloud: a template that refuses a system message is given the chat without it.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evalstone.errors import UsageError
from evalstone.limits.templates import TemplateTooLarge, line_of
from evalstone.models.text.chat_templates import within_limits
from evalstone.records import ImagePart, JsonValue, Message

logger = logging.getLogger(__name__)


class ChatRenderer:
    """A tokenizer's chat template with the variables it is given. The same chat is rendered once."""

    def __init__(self, tokenizer: Any, variables: Mapping[str, JsonValue], template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._variables = dict(variables)
        self._template = template
        self.notes: list[str] = []
        self._remember = lru_cache(maxsize=8192)(self._render)

    def render(self, messages: Sequence[Message], *, continue_final: bool) -> str:
        """Return the chat as one text; with `continue_final` the last message is left open.

        Raises: UsageError where there is no template, it refuses the chat, or a message holds an image.
        Source: lm-evaluation-harness 0.4.13, models/huggingface.py apply_chat_template.
        """
        return self._remember(tuple(messages), continue_final)

    def _render(self, messages: tuple[Message, ...], continue_final: bool) -> str:
        from jinja2 import TemplateError, TemplateSyntaxError

        if any(isinstance(part, ImagePart) for message in messages for part in message.parts):
            raise UsageError("a message holds an image; local models here take text only")
        chat = [{"role": message.role, "content": message.text} for message in messages]
        try:
            return self._apply(chat, continue_final)
        except TemplateSyntaxError as error:
            raise self._unfit("does not compile", error) from error
        except TemplateError as error:
            without = [each for each in chat if each["role"] != "system"]
            if len(without) == len(chat):
                raise self._unfit("refuses this chat", error) from error
            self._tell(f"the chat template refuses a system message ({error}); it is left out of every prompt")
            try:
                return self._apply(without, continue_final)
            except TemplateError as second:
                raise self._unfit("refuses this chat", second) from second

    def _unfit(self, what: str, error: Exception) -> UsageError:
        """Return the error of a template that cannot be used, with where it comes from and the line."""
        line = line_of(error)
        place = f"the chat template of {self._tokenizer.name_or_path or 'this model'}"
        return UsageError(f"{place}{'' if line is None else f', line {line},'} {what}: {error}")

    def _apply(self, chat: list[dict[str, str]], continue_final: bool) -> str:
        """Return a chat as one text.

        Raises: UsageError; jinja2.TemplateError where the template refuses it.
        """
        from jinja2 import TemplateError

        if getattr(self._tokenizer, "chat_template", None) is None:
            raise UsageError(
                f"the tokenizer of {self._tokenizer.name_or_path or 'this model'} has no chat template; "
                "name a tokenizer that has one with tokenizer=, or leave out --apply_chat_template and conversations"
            )
        self._check_name()
        given = {"chat_template": self._template} if self._template is not None else {}
        try:
            with within_limits(self._tokenizer.get_chat_template(**given)):
                text = self._tokenizer.apply_chat_template(
                    chat,
                    tokenize=False,
                    add_generation_prompt=not continue_final,
                    continue_final_message=continue_final,
                    **given,
                    **self._variables,
                )
        except TemplateError:
            raise
        except (TemplateTooLarge, MemoryError, RecursionError, SyntaxError) as error:
            raise self._unfit("is stopped", error) from error
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise self._unfit("cannot be filled", error) from error
        return str(text)

    def _check_name(self) -> None:
        """Refuse the name of a template that the tokenizer does not have; one template alone has no name."""
        templates = self._tokenizer.chat_template
        if self._template is None:
            return
        if not isinstance(templates, Mapping):
            self._tell(f"the tokenizer has one chat template without a name; it is used for '{self._template}'")
            self._template = None
        elif self._template not in templates:
            known = ", ".join(sorted(templates))
            raise UsageError(f"chat template '{self._template}' is unknown; this tokenizer has: {known}")

    def _tell(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
            logger.warning(note)
