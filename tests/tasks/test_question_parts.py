"""Which texts of a row count as its options where the answer is generated."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from jinja2 import Template

from assaymark.prompts.prompter import PromptFields
from assaymark.tasks.perturbed_tasks import Form, find_parts

LISTED = {"question": "Who said it?", "options": ["he, the king", "she alone", "nobody"], "key": "B"}
COLUMNS = {"question": "Who said it?", "one": "he, the king", "two": "she alone", "key": "B"}
LETTERED = "{% for o in options %}{{ 'ABC'[loop.index0] }}"
OF_LIST = [("options", "*")]
OF_COLUMNS = [("one",), ("two",)]


def _parts(text: str, row: Mapping[str, Any]) -> tuple[Sequence[Form], Sequence[Form]]:
    """Return the forms of a row's questions and references in a generative task with this template."""
    layout = PromptFields(
        text=lambda own: Template(text).render(**own),
        target=lambda own: own["key"],
        choices=None,
        gen_prefix=lambda _: None,
    )
    parts = find_parts(layout, [row])
    return parts.questions, [form for form in parts.references if form != ("key",)]


@pytest.mark.parametrize(
    ("text", "row", "options"),
    [
        (f"Q. {{{{question}}}}\n{LETTERED}. {{{{o}}}}\n{{% endfor %}}Answer:", LISTED, OF_LIST),
        (f"{{{{question}}}}\n{LETTERED}: {{{{o}}}}\n{{% endfor %}}", LISTED, OF_LIST),
        ("A. {{question}}{% for o in options %} ({{ 'abc'[loop.index0] }}) {{o}}{% endfor %}", LISTED, OF_LIST),
        ("{{question}}\n**A)** {{one}}\n**B)** {{two}}", COLUMNS, OF_COLUMNS),
        ("{{question}} Choose (A) {{one}} or (B) {{two}}.", COLUMNS, OF_COLUMNS),
        ("{{question}}\n{{options | join('\n')}}", {**LISTED, "options": ["A. he", "B. she"]}, OF_LIST),
    ],
)
def test_texts_after_labels_are_options(text: str, row: dict[str, Any], options: list[Form]) -> None:
    """Options of a list or of columns, a line each or in one, are not the question."""
    questions, references = _parts(text, row)
    assert list(questions) == [("question",)]
    assert references == options


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("{{question}}", {"question": "Who?\nA. he\nB. she", "key": "A"}),
        ("{{question}}\n{{options | join(', ')}}", LISTED),
        ("A: {{one}}\nB: {{two}}\n{{question}}", COLUMNS),
        ("A. {{question}}\n{{one}}\n{{two}}", COLUMNS),
        ("(a) {{one}} {{question}} c. {{two}}", COLUMNS),
    ],
)
def test_other_texts_stay_the_question(text: str, row: dict[str, Any]) -> None:
    """A column with the question and its options, a list without labels, two speakers and single labels."""
    questions, references = _parts(text, row)
    assert {form[0] for form in questions} == {*row} - {"key"}
    assert references == []
