"""A task's rows as examples to train a chat model on, and whether such a row is a copy of an evaluated one.

Copies share n-grams of words. Words are runs of letters and digits in lower case, so that punctuation and line breaks
do not hide a copy.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from assaymark.errors import UsageError
from assaymark.records import LoglikelihoodQuery, Request, RollingQuery, Sample
from assaymark.records.json_values import strings_in
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.rescoring import choice_queries, gold_choices
from assaymark.tasks.task import Task

NGRAM_WORDS = 13  # GPT-3's length
_WORD = re.compile(r"[^\W_]+")


def refuse_untrainable(task: Task) -> None:
    """Raise UsageError for a task whose rows are no questions and answers of text alone."""
    why = (
        "has no answers, but texts whose likelihood is measured" if task.output_type == "loglikelihood_rolling"
        else "shows images, which a training file of texts cannot hold" if task.prompt.image is not None
        else "asks for calls of functions, which a training file of texts cannot hold" if task.prompt.tools is not None
        else "is a Python class, whose rows cannot be asked one by one" if task.python_class is not None
        else ""
    )  # fmt: skip
    if why:
        raise UsageError(f"task {task.name} {why}; export the other tasks of the run with --tasks")


def chat_example(bound: BoundTask, sample: Sample) -> list[dict[str, str]] | None:
    """Return a row as the task asks it, without shots, and its right answer; None where the row has none.

    The messages are as TRL, torchtune and OpenAI's files have them.

    Raises: MalformedSample for a row that lacks what the prompt needs.
    """
    request = bound.alone(sample)
    asked, answer = _asked_and_answered(bound, request, sample)
    if not answer.strip():
        return None
    messages = [(message.role, message.text) for message in request.messages] or [("user", asked.strip())]
    if messages[-1][0] == "assistant":  # the beginning of the answer, which the task sets
        messages[-1] = ("assistant", messages[-1][1] + answer)
    else:
        messages.append(("assistant", answer.strip()))
    return [{"role": role, "content": text} for role, text in messages]


def _asked_and_answered(bound: BoundTask, request: Request, sample: Sample) -> tuple[str, str]:
    choices = choice_queries(request)
    if choices:
        gold = gold_choices(bound, request, sample)
        if not gold:
            return request.prompt, ""
        right = choices[min(gold)]
        context = request.segments if right.segments is None else right.segments
        return "".join(context), right.continuation
    query = request.queries[0]
    if isinstance(query, LoglikelihoodQuery):
        return request.prompt, query.continuation
    return request.prompt, "" if isinstance(query, RollingQuery) else request.target


class EvaluatedRows:
    """The rows of evaluated splits, indexed by their texts: asks whether another row repeats one of them.

    A row repeats an evaluated one if the two share 13 words in a row, if they are asked in the same words, or if the
    longest text of both that is asked is the same (the question, or the passage it is about). Rows that happen to share
    a text, such as one passage with several questions, count too. A text in a script without spaces is one word, so
    that there only equal texts are found; a paraphrase never is.

    Source: Brown et al. 2020 (GPT-3), appendix C: 13-grams.
    """

    def __init__(self) -> None:
        self._grams: set[int] = set()
        self._asked: set[tuple[str, ...]] = set()

    def add(self, bound: BoundTask) -> None:
        """Add the rows of a task's evaluated split. Raises: MalformedSample for one that cannot be asked."""
        for sample in bound.samples():
            self._grams.update(self._grams_of(sample.row))
            self._asked.update(_asked_texts(bound, sample))

    def repeats(self, bound: BoundTask, sample: Sample) -> bool:
        """Return whether a row repeats one of those that were added. Raises: MalformedSample."""
        if any(gram in self._grams for gram in self._grams_of(sample.row)):
            return True
        return any(words in self._asked for words in _asked_texts(bound, sample))

    def _grams_of(self, row: Mapping[str, object]) -> Iterator[int]:
        return ngrams([word for text in strings_in(row) for word in plain_words(text)], NGRAM_WORDS)


def _asked_texts(bound: BoundTask, sample: Sample) -> Iterator[tuple[str, ...]]:
    """Yield the words in which a row is asked, and those of its longest text that is asked so."""
    asked = bound.alone(sample).prompt
    yield tuple(plain_words(asked))
    longest = max(
        (text for text in strings_in(sample.row) if text.strip() and text.strip() in asked), key=len, default=""
    )
    if words := plain_words(longest):
        yield tuple(words)


def plain_words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(text.lower())


def ngrams(words: Sequence[str], n: int = NGRAM_WORDS) -> Iterator[int]:
    """Yield a number for each n words in a row. It holds within this process only: never store it.

    Source: Brown et al. 2020 (GPT-3), appendix C.
    """
    for start in range(len(words) - n + 1):
        yield hash(tuple(words[start : start + n]))
