"""Prompt variants: the wordings in which the prompt audit evaluates a multiple-choice question, as data.

There are two kinds, which differ most according to the literature: the answer is the option's text after the question
alone (cloze), or the letter or number of an option that the prompt lists.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from assaymark.records import content_hash

__all__ = ["VARIANTS", "Variant", "apply_variant", "variants_hash"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One wording. `{q}` is replaced by the question and `{o}` by the listed options; an option line has `{m}`, `{o}`.

    Field names and values are hashed (`variants_hash`): changing one makes stored audits different audits.
    """

    name: str
    prompt: str
    markers: str = ""  # numbers the options; empty: the answer is the option's text
    line: str = ""  # one listed option; empty: options are not shown
    answer: str = " {a}"  # `{a}` is replaced by the marker or the option
    lead: str = ""  # occurs once, before shots and question

    @property
    def is_lettered(self) -> bool:
        """Whether the answer is a marker, not the option's text."""
        return bool(self.markers)


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NUMBERS = "123456789"

VARIANTS: tuple[Variant, ...] = (
    Variant("cloze: bare", "{q}"),
    Variant("cloze: Answer", "{q}\nAnswer:"),
    Variant("cloze: Question, Answer", "Question: {q}\nAnswer:"),
    Variant("cloze: Q, A", "Q: {q}\nA:"),
    Variant("cloze: the answer is", "{q}\nThe answer is"),
    Variant("cloze: capitals", "QUESTION: {q}\nANSWER:"),
    Variant("listed: options, then text", "Question: {q}\nOptions:{o}\nAnswer:", line="\n- {o}"),
    Variant("letters: A.", "{q}{o}\nAnswer:", LETTERS, "\n{m}. {o}"),
    Variant("letters: (A)", "Question: {q}{o}\nAnswer:", LETTERS, "\n({m}) {o}", " ({a})"),
    Variant(
        "letters: A) instructed",
        "{q}{o}\nThe right answer is",
        LETTERS,
        "\n{m}) {o}",
        lead="Choose the right answer.\n\n",
    ),
    Variant("letters: lower case", "Question: {q}{o}\nAnswer:", LETTERS.lower(), "\n{m}. {o}"),
    Variant("numbers: 1.", "Question: {q}{o}\nAnswer:", NUMBERS, "\n{m}. {o}"),
)


def variants_hash() -> str:
    """Return the hash of all variants' wording: other variants make another audit."""
    return content_hash([asdict(variant) for variant in VARIANTS])


def apply_variant(variant: Variant, question: str, options: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the prompt without its lead, and one continuation per option; None if there are too few markers.

    The options' text is not changed.
    """
    if variant.is_lettered and len(options) > len(variant.markers):
        return None
    markers = variant.markers or " " * len(options)
    listed = "".join(variant.line.format(m=mark, o=text) for mark, text in zip(markers, options, strict=False))
    prompt = variant.prompt.replace("{o}", listed, 1).replace("{q}", question, 1)
    answers = markers[: len(options)] if variant.is_lettered else options
    return prompt, tuple(variant.answer.replace("{a}", text) for text in answers)
