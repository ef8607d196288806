"""Prompts from a description, shots and a question, as segments that samples share.

A shot is rendered once however often it is drawn; its text is one string object in all prompts with this shot, and the
prompt of a sample is a tuple of such strings. Later stages store and tokenise each of them once.

Turns of a prompt: the text of each role, and the delimiter that follows it in a plain-text prompt.

The same pieces make a plain prompt (each with its delimiter, joined) and a chat (as messages without delimiters, or all
in one user message). The rules for delimiters are lm-evaluation-harness 0.4.13's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from assaymark.errors import MalformedSample
from assaymark.prompts.fields import Resolve
from assaymark.prompts.questions import words_of
from assaymark.records import ImagePart, Message, Render, Row, TextPart


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of one role."""

    role: Literal["system", "user", "assistant"]
    content: str
    delimiter: str = ""

    @property
    def text(self) -> str:
        """The text in a plain prompt."""
        return self.content + self.delimiter


def join(before: str | None, after: str | None, delimiter: str = " ") -> str:
    """Return both texts with the delimiter between, unless one is empty or there is white space between them."""
    if not before:
        return after or ""
    if not after:
        return before
    return before + after if before[-1].isspace() or after[0].isspace() else before + delimiter + after


def question_pieces(question: object, gen_prefix: str | None, target_delimiter: str) -> tuple[Piece, ...]:
    """Return the turn to be answered: the question, and the beginning of an answer if the task defines one."""
    text = _text(question, "question")
    if not gen_prefix:
        return (Piece("user", text),)
    seam = text == "" or text[-1].isspace() or gen_prefix[0].isspace()
    return (Piece("user", text, "" if seam else target_delimiter), Piece("assistant", gen_prefix))


def shot_pieces(
    question: object,
    answer: object,
    choices: Sequence[str] | None,
    gen_prefix: str | None,
    *,
    target_delimiter: str,
    fewshot_delimiter: str,
) -> tuple[Piece, ...]:
    """Return an answered turn; an empty answer means that nothing follows the question.

    Raises: MalformedSample if question or answer is not a text after the choices were looked up.
    """
    if answer is None or answer == "":
        return question_pieces(question, gen_prefix, target_delimiter)
    text = _text(question, "question")
    if choices and isinstance(answer, int):
        if not -len(choices) <= answer < len(choices):
            raise MalformedSample(f"a shot's answer is choice {answer}; it has {len(choices)} choices")
        answer = choices[answer]
    elif isinstance(answer, list):
        answer = answer[0] if answer else ""
    if not gen_prefix:
        seam = target_delimiter
    else:
        seam = "" if text == "" or text[-1].isspace() or gen_prefix[0].isspace() else target_delimiter
    reply = join(gen_prefix, _text(answer, "answer"), " ")
    return (Piece("user", text, seam), Piece("assistant", reply, fewshot_delimiter))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise MalformedSample(f"the {what} is {value!r:.80}, of type {type(value).__name__}; expected a text")
    return value


def chat_messages(pieces: Sequence[Piece], *, multiturn: bool) -> tuple[Message, ...]:
    """Return the pieces as messages: one each, or (not `multiturn`) all questions and answers in one user message.

    The single message contains the delimiters, except the one before the model's own turn.
    """
    if multiturn:
        return tuple(Message.of_text(piece.role, piece.content) for piece in pieces)
    head = [pieces[0]] if pieces[0].role == "system" else []
    turns = pieces[len(head) :]
    tail = [turns[-1]] if turns[-1].role == "assistant" else []
    merged = turns[: len(turns) - len(tail)]
    text = "".join(piece.text for piece in merged[:-1]) + (merged[-1].content if merged else "")
    return (
        *(Message.of_text(piece.role, piece.content) for piece in head),
        Message.of_text("user", text),
        *(Message.of_text(piece.role, piece.content) for piece in tail),
    )


@dataclass(frozen=True, slots=True)
class PromptFields:
    """The fields of a task file, as functions of a row, that determine how it is worded."""

    text: Resolve  # the question; in a conversation the first turn
    target: Resolve
    choices: Resolve | None
    gen_prefix: Resolve
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    turns: Resolve | None = None  # the user's messages of a conversation
    messages: Callable[[Row], list[tuple[str, str]]] | None = None  # role and text of each; then `text` is the last
    tools: Callable[[Row], str | None] | None = None  # JSON of OpenAI's `tools`, for the model's template
    images: Callable[[Row], Sequence[ImagePart]] | None = None  # each in place of one `<image>` of the question
    tools_prompt: Callable[[Row], str] | None = None  # a system text that lists tools, in place of the template
    listed_options: Callable[[Row], list[str]] | None = None  # helm-joint: what the letters of the prompt stand for


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Whether and how a prompt becomes a conversation."""

    apply_template: bool = False
    multiturn: bool = False
    system_instruction: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """One context: its text in segments, and the messages and tools of a chat prompt."""

    segments: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    tools: str | None = None


class Prompter:
    """Builds the contexts of one task."""

    def __init__(
        self, sample: PromptFields, shot: PromptFields, description: Resolve, chat: ChatOptions, *, multiple_input: bool
    ) -> None:
        self.sample = sample
        self.shot = shot
        self.description = description
        self.chat = chat
        self.multiple_input = multiple_input
        self._shots: dict[int, tuple[tuple[Piece, ...], str]] = {}
        self._lead = ""
        self._head = ""  # beginning of the last chat prompt, so that equal beginnings are one object

    def contexts(self, row: Row, shots: Sequence[int], pool: Sequence[Row], render: Render | None) -> list[Prompt]:
        """Return the sample's context, or one per choice if the choices are contexts."""
        lead = self._lead_of(row)
        drawn = [self._shot(index, pool) for index in shots]
        prefix = self.sample.gen_prefix(row)
        if self.sample.messages is not None:
            return [self._of_messages(row, lead, self.sample.messages(row), render)]
        questions = self._questions(row, prefix)
        if not self.chat.apply_template:
            start = (lead, *(text for _, text in drawn)) if lead else tuple(text for _, text in drawn)
            return [Prompt((*start, "".join(piece.text for piece in question))) for question in questions]
        before = [Piece("system", lead)] if lead else []
        before += [piece for pieces, _ in drawn for piece in pieces]
        tools = self.sample.tools(row) if self.sample.tools is not None else None
        return [self._chat([*before, *question], bool(prefix), render, tools) for question in questions]

    def _of_messages(self, row: Row, lead: str, messages: Sequence[tuple[str, str]], render: Render | None) -> Prompt:
        """Return the prompt of a row with messages of its own; the lead comes before its own system text."""
        own = [text for role, text in messages if role == "system"]
        system = "\n\n".join(text for text in (lead, *own) if text)
        rest = [(role, text) for role, text in messages if role != "system"]
        if not self.chat.apply_template:
            return Prompt(tuple(part for part in (system, "\n\n", "\n\n".join(text for _, text in rest)) if part))
        whole = [("system", system), *rest] if system else rest
        chat = tuple(
            Message(cast('Literal["system", "user", "assistant", "tool"]', role), (TextPart(text),))
            for role, text in whole
        )
        tools = self.sample.tools(row) if self.sample.tools is not None else None
        segments = () if render is None else (_rendered(render, chat, False, tools),)
        return Prompt(segments, chat, tools)

    def _lead_of(self, row: Row) -> str:
        lead = join(self.chat.system_instruction, self.description(row) or "", self.sample.fewshot_delimiter)
        if self.sample.tools_prompt is not None:
            lead = join(lead, self.sample.tools_prompt(row), "\n\n")
        if lead != self._lead:
            self._lead = lead
        return self._lead

    def _shot(self, index: int, pool: Sequence[Row]) -> tuple[tuple[Piece, ...], str]:
        known = self._shots.get(index)
        if known is None:
            pieces = self.shot_of(pool[index])
            known = (pieces, "".join(piece.text for piece in pieces))
            self._shots[index] = known
        return known

    def shot_of(self, row: Row) -> tuple[Piece, ...]:
        """Return the pieces of one solved example."""
        layout = self.shot
        question = layout.text(row)
        choices = layout.choices(row) if layout.choices else None
        if self.multiple_input:
            question, choices = _context_of(choices, question), None
        return shot_pieces(
            question,
            layout.target(row),
            choices,
            layout.gen_prefix(row),
            target_delimiter=layout.target_delimiter,
            fewshot_delimiter=layout.fewshot_delimiter,
        )

    def question_words(self, row: Row) -> tuple[str, ...] | None:
        """Return the words of a row's question and choices in alphabetical order; None if there are none.

        The result is equal for rows that differ only in case, punctuation, order of the options or unused columns.
        """
        layout = self.shot
        try:
            question = layout.text(row)
            choices = layout.choices(row) if layout.choices else ()
        except MalformedSample:  # reported when the row itself is evaluated
            return None
        texts = [part for part in (question, *choices) if isinstance(part, str)]
        return tuple(sorted(words_of(" ".join(texts)))) or None

    def _questions(self, row: Row, prefix: str | None) -> list[tuple[Piece, ...]]:
        if self.multiple_input and self.sample.choices:
            return [question_pieces(context, prefix, "") for context in self.sample.choices(row)]
        return [question_pieces(self.sample.text(row), prefix, self.sample.target_delimiter)]

    def _chat(
        self, pieces: Sequence[Piece], continue_final: bool, render: Render | None, tools: str | None = None
    ) -> Prompt:
        messages = chat_messages(pieces, multiturn=self.chat.multiturn)
        if render is None:
            return Prompt((), messages, tools)
        text = _rendered(render, messages, continue_final, tools)
        split = text.rfind(pieces[-1].content if not continue_final else pieces[-2].content)
        head = text[:split] if split > 0 else ""
        if head != self._head:
            self._head = head
        return Prompt((self._head, text[len(head) :]) if head else (text,), messages, tools)


def _rendered(render: Render, messages: Sequence[Message], continue_final: bool, tools: str | None) -> str:
    """Return a conversation as text; functions that know no tools are not asked for them where there are none."""
    return render(messages, continue_final) if tools is None else render(messages, continue_final, tools=tools)


def _context_of(choices: Sequence[str] | None, index: object) -> str:
    if not choices or not isinstance(index, int) or not -len(choices) <= index < len(choices):
        raise MalformedSample(f"a shot has context {index!r} of {len(choices or ())}; expected an index into them")
    return choices[index]
