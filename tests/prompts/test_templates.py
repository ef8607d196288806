"""Templates: Jinja as configured by lm-evaluation-harness, compiled once, in a sandbox."""

import pytest

from assaymark.errors import DataError, MalformedSample
from assaymark.prompts.templates import compile_template


def test_values_methods_and_the_last_newline() -> None:
    """Columns, method calls and filters work, and a final newline is kept."""
    assert compile_template("Q: {{question.strip()}}\nA:\n")({"question": " x "}) == "Q: x\nA:\n"
    assert compile_template("{{text.split(' ')[:-1]|join(' ')}}")({"text": "a b c"}) == "a b"
    assert compile_template("{% for c in choices %}({{c}}){% endfor %}")({"choices": ["x", "y"]}) == "(x)(y)"


def test_regex_replace_is_available() -> None:
    """The harness's extra filter substitutes by regular expression."""
    assert compile_template(r"{{ t | regex_replace('[0-9]+', '#', count=1) }}")({"t": "a1b22"}) == "a#b22"


def test_text_without_jinja_is_a_constant() -> None:
    """A template without Jinja syntax is returned unchanged, single braces included."""
    assert compile_template("{a} % # \n\n")({}) == "{a} % # \n\n"


def test_the_same_template_is_compiled_once() -> None:
    """Compiling again returns the same function."""
    assert compile_template("{{a}}!") is compile_template("{{a}}!")


def test_undefined_names_are_errors_that_list_the_columns() -> None:
    """A name that the row lacks is an error with the row's columns, never an empty text."""
    with pytest.raises(MalformedSample, match=r"\{\{b\}\}.*'b' is undefined.*the row has a"):
        compile_template("{{b}}")({"a": 1})


def test_bad_syntax_is_an_error_with_the_template() -> None:
    """The error shows the template that does not compile."""
    with pytest.raises(DataError, match=r"\{\{ a .*does not compile"):
        compile_template("{{ a ")


def test_the_sandbox_holds() -> None:
    """A template cannot reach the interpreter through an object's internals."""
    attack = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(MalformedSample):
        compile_template(attack)({"a": 1})
