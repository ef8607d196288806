"""Forms in which a multiple choice question is put: wording as data.

Two kinds, which the literature finds to differ most: the answer is the option's text after the question alone (cloze),
or the letter or number of an option that the prompt lists.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from evalstone.records import content_hash

__all__ = ["FORMS", "Form", "forms_hash", "put"]


@dataclass(frozen=True, slots=True)
class Form:
    """One wording. `{q}` stands for the question, `{o}` for the listed options; an option line has `{m}` and `{o}`."""

    name: str
    prompt: str
    markers: str = ""  # what numbers the options; empty: the answer is the option's text
    line: str = ""  # one listed option; empty: options are not shown
    answer: str = " {a}"  # `{a}` stands for marker or option
    lead: str = ""  # what stands once, before shots and question

    @property
    def is_lettered(self) -> bool:
        """Whether the answer is a marker, not the option's text."""
        return bool(self.markers)


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NUMBERS = "123456789"

FORMS: tuple[Form, ...] = (
    Form("cloze: bare", "{q}"),
    Form("cloze: Answer", "{q}\nAnswer:"),
    Form("cloze: Question, Answer", "Question: {q}\nAnswer:"),
    Form("cloze: Q, A", "Q: {q}\nA:"),
    Form("cloze: the answer is", "{q}\nThe answer is"),
    Form("cloze: capitals", "QUESTION: {q}\nANSWER:"),
    Form("listed: options, then text", "Question: {q}\nOptions:{o}\nAnswer:", line="\n- {o}"),
    Form("letters: A.", "{q}{o}\nAnswer:", LETTERS, "\n{m}. {o}"),
    Form("letters: (A)", "Question: {q}{o}\nAnswer:", LETTERS, "\n({m}) {o}", " ({a})"),
    Form(
        "letters: A) instructed",
        "{q}{o}\nThe right answer is",
        LETTERS,
        "\n{m}) {o}",
        lead="Choose the right answer.\n\n",
    ),
    Form("letters: lower case", "Question: {q}{o}\nAnswer:", LETTERS.lower(), "\n{m}. {o}"),
    Form("numbers: 1.", "Question: {q}{o}\nAnswer:", NUMBERS, "\n{m}. {o}"),
)


def forms_hash() -> str:
    """Return the hash of all forms' wording: with other forms it is another audit."""
    return content_hash([asdict(form) for form in FORMS])


def put(form: Form, question: str, options: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the prompt without its lead, and one continuation per option; None where the form has too few markers.

    Options are taken as they are; a lower-case marker or a number is no change of the option.
    """
    if form.is_lettered and len(options) > len(form.markers):
        return None
    markers = form.markers or " " * len(options)
    listed = "".join(form.line.format(m=mark, o=text) for mark, text in zip(markers, options, strict=False))
    prompt = form.prompt.replace("{o}", listed, 1).replace("{q}", question, 1)
    answers = markers[: len(options)] if form.is_lettered else options
    return prompt, tuple(form.answer.replace("{a}", text) for text in answers)
