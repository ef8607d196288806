"""The questions of a task over all models of the store."""

from collections.abc import Sequence

from assaymark.documents.blocks import Block, Column, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted, shown_p
from assaymark.results.evidence.questions import Question, Questions, questions_in
from assaymark.runs.stored import existing_store

MOST_SHOWN = 10


def questions_of(store: str | None, task: str) -> Questions:
    """Return a task's questions over the best stored run of each model; see `questions_in`."""
    opened = existing_store(store)
    return questions_in(opened, opened.runs(), task)


def question_document(answered: Questions) -> Document:
    """Return the suspicious questions and the hardest ones."""
    heading = f"{counted(len(answered.questions), 'question')} that {len(answered.models)} models answered"
    facts = Paragraph(f"{answered.task}: {heading}, the best of them {answered.models[0]}")
    if suspicious := answered.suspicious:
        title = f"{counted(len(suspicious), 'question')} that better models miss and weaker ones get right"
        parts = _rows(f"{title} (read question and key)", suspicious)
    else:
        parts = [Paragraph("no question that better models miss and weaker ones get right")]
    return document(facts, parts, _rows("the hardest", answered.hardest))


def _rows(title: str, questions: Sequence[Question]) -> list[Block]:
    body = []
    for each in questions[:MOST_SHOWN]:
        known = each.statistics
        correlation = NOTHING if known.correlation is None else f"{known.correlation:+.2f}"
        body.append((str(each.index), f"{100 * known.right:.0f}%", correlation, shown_p(known.p), each.text))
    columns = ("sample", "right", "with the rest", "p", Column("question", "text"))
    return [Heading(title, 4), table(columns, body, n_text=0)]
