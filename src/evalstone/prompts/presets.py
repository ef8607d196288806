"""Published prompt formats as data: what stands before and after what each side says.

A preset puts a conversation into text without asking the model for a template, so that a model that has none, or
another than it was trained with, can be asked in the form that its makers published. The first begin-of-sequence
token is no part of a preset: whether a prompt begins with one is the profile's and the tokenizer's rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from evalstone.errors import UsageError
from evalstone.records import JsonValue, Message, content_hash

__all__ = ["PromptPreset"]


@dataclass(frozen=True)
class PromptPreset:
    """One format. `around` gives for each role what stands before and after its text."""

    name: str
    around: Mapping[str, tuple[str, str]]
    opening: str  # what a prompt ends with: the beginning of the answer that is asked for
    system_in_user: tuple[str, str] | None = None  # around a system text inside the first user text
    default_system: str | None = None  # said where the conversation has no system text
    trim: bool = False  # white space around every text is dropped
    stop: tuple[str, ...] = ()  # texts that end an answer
    source: str = ""

    @cached_property
    def template_hash(self) -> str:
        """The hash of all that decides the text; name and source are for people."""
        content = asdict(self)
        return content_hash({key: value for key, value in content.items() if key not in {"name", "source"}})

    @property
    def spec(self) -> dict[str, JsonValue]:
        """The format as a YAML file holds it: a run keeps it, so that it can be put again without the file."""
        found = {key: value for key, value in asdict(self).items() if key != "around" and value is not None}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (found | dict(self.around)).items()
        }

    def render(self, messages: Sequence[Message], continue_final: bool = False) -> str:
        """Return the conversation as one text.

        It ends where an answer begins; with `continue_final` it ends inside the last message, which is to be continued.

        Raises: UsageError for a role that the format does not have.
        """
        turns = self._turns(messages)
        texts = [self._around(role)[0] + text + self._around(role)[1] for role, text in turns]
        if not continue_final:
            return "".join(texts) + self.opening
        role, text = turns[-1]
        return "".join(texts[:-1]) + self._around(role)[0] + text

    @property
    def answer_delimiter(self) -> str:
        """What stands between `opening` and an answer: the space of "ASSISTANT: yes", where the opening ends before."""
        return self.around["assistant"][0].removeprefix(self.opening)

    def _turns(self, messages: Sequence[Message]) -> list[tuple[str, str]]:
        """Return roles and texts, the system text where the format has it."""
        turns = [(message.role, message.text.strip() if self.trim else message.text) for message in messages]
        if self.default_system is not None and not any(role == "system" for role, _ in turns):
            turns.insert(0, ("system", self.default_system))
        if self.system_in_user is None or not turns or turns[0][0] != "system":
            return list(turns)
        before, after = self.system_in_user
        system, rest = turns[0][1], turns[1:]
        for place, (role, text) in enumerate(rest):
            if role == "user":
                return [*rest[:place], ("user", before + system + after + text), *rest[place + 1 :]]
        raise UsageError(f"prompt preset {self.name} has no turn for a system text, and no user turn can hold it")

    def _around(self, role: str) -> tuple[str, str]:
        if role not in self.around:
            known = ", ".join(self.around)
            raise UsageError(f"prompt preset {self.name} has no turn for the role '{role}'; it has {known}")
        return self.around[role]
