"""Published prompt formats as data: the text before and after each role's message.

A preset renders a conversation without the model's chat template, so that a model without a template, or with another
one than it was trained with, can be evaluated in the format that its makers published. The first begin-of-sequence
token is not part of a preset: the profile and the tokenizer decide whether a prompt begins with one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from assaymark.errors import UsageError
from assaymark.records import JsonValue, Message, content_hash


@dataclass(frozen=True)
class PromptPreset:
    """One format. `around` gives the text before and after the messages of each role."""

    name: str
    around: Mapping[str, tuple[str, str]]
    opening: str  # the end of a prompt: the beginning of the answer to generate
    system_in_user: tuple[str, str] | None = None  # around a system text inside the first user text
    default_system: str | None = None  # used if the conversation has no system text
    trim: bool = False  # white space around every text is removed
    stop: tuple[str, ...] = ()  # texts that end an answer
    source: str = ""

    @cached_property
    def template_hash(self) -> str:
        """The hash of all fields that determine the text: all but name and source."""
        content = asdict(self)
        return content_hash({key: value for key, value in content.items() if key not in {"name", "source"}})

    @property
    def spec(self) -> dict[str, JsonValue]:
        """The format as in a YAML file; it is stored with a run, so that it can be applied again without the file."""
        content = {key: value for key, value in asdict(self).items() if key != "around" and value is not None}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (content | dict(self.around)).items()
        }

    def render(self, messages: Sequence[Message], continue_final: bool = False, /, tools: str | None = None) -> str:
        """Return the conversation as one text.

        The text ends where an answer begins; with `continue_final` it ends inside the last message, to be continued.

        Raises: UsageError for a role that the format does not have, and for tools, which no format has.
        """
        if tools is not None:
            raise UsageError(
                f"prompt preset {self.name} has no place for tools; omit it, or use a task that names them in its "
                "prompt (tools_in: prompt, such as bfcl_prompted)"
            )
        turns = self._turns(messages)
        texts = [self._around(role)[0] + text + self._around(role)[1] for role, text in turns]
        if not continue_final:
            return "".join(texts) + self.opening
        role, text = turns[-1]
        return "".join(texts[:-1]) + self._around(role)[0] + text

    @property
    def answer_delimiter(self) -> str:
        """The text between `opening` and an answer, such as the space in "ASSISTANT: yes"."""
        return self.around["assistant"][0].removeprefix(self.opening)

    def _turns(self, messages: Sequence[Message]) -> list[tuple[str, str]]:
        """Return roles and texts, with the system text in the position that the format defines."""
        turns = [(message.role, message.text.strip() if self.trim else message.text) for message in messages]
        if self.default_system is not None and not any(role == "system" for role, _ in turns):
            turns.insert(0, ("system", self.default_system))
        if self.system_in_user is None or not turns or turns[0][0] != "system":
            return list(turns)
        before, after = self.system_in_user
        system, others = turns[0][1], turns[1:]
        for index, (role, text) in enumerate(others):
            if role == "user":
                return [*others[:index], ("user", before + system + after + text), *others[index + 1 :]]
        raise UsageError(f"prompt preset {self.name} has no turn for a system text, and there is no user turn for it")

    def _around(self, role: str) -> tuple[str, str]:
        if role not in self.around:
            known = ", ".join(self.around)
            raise UsageError(f"prompt preset {self.name} has no turn for the role '{role}'; it has {known}")
        return self.around[role]
