"""A template that would not end is an error soon, on any thread; an honest one is not touched."""

import threading

import pytest

from evalstone.errors import MalformedSample
from evalstone.prompts import template_limits
from evalstone.prompts.templates import compile_template

ROW = {"text": "ab" * 1000, "rows": [1, 2, 3]}


@pytest.mark.parametrize(
    ("template", "limit"),
    [
        ("{% for i in range(10**9) %}x{% endfor %}", "100000"),
        ("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", "1,000 rounds"),
        ("{% for a in text %}{% for b in text %}{% set x = 1 %}{% endfor %}{% endfor %}", "1,000 rounds"),
        ("{% macro m(n) %}{{ m(n - 1) ~ m(n - 1) if n }}{% endmacro %}{{ m(60) }}", "1,000 rounds"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{% for a in rows %}{{ text * 4000 }}{% endfor %}", "20,000,000 characters"),
        ("{{ 'a' * 10 ** 10 }}", "the limit is 20,000,000"),
        ("{{ (10 ** 100) ** 1000 }}", "the limit is 10,000"),
    ],
)
def test_what_would_not_end_is_stopped(template: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops, macros and products past a limit are errors with the key, the template and the limit."""
    monkeypatch.setattr(template_limits, "MAX_ROUNDS", 1000)
    with pytest.raises(MalformedSample, match=f"(?s)doc_to_text: .* is stopped: .*{limit}"):
        compile_template(template, "doc_to_text")(ROW)


def test_slow_rounds_are_stopped_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds that each take long end at the limit of processor time."""
    monkeypatch.setattr(template_limits, "MAX_SECONDS", 0.05)
    slow = "{% for i in range(99999) %}{% set x = range(20000) | list %}{% endfor %}"
    with pytest.raises(MalformedSample, match="is stopped: it took more than"):
        compile_template(slow)(ROW)


def test_the_limits_hold_on_another_thread() -> None:
    """Prompts are rendered on a thread of their own: the same template is stopped there."""
    told: list[str] = []

    def render() -> None:
        try:
            compile_template("{% for i in range(10**9) %}x{% endfor %}")(ROW)
        except MalformedSample as error:
            told.append(str(error))

    thread = threading.Thread(target=render)
    thread.start()
    thread.join(10)
    assert "is stopped" in told[0]


def test_honest_loops_are_as_before() -> None:
    """Loop variables, else branches, filters and recursion work, and each rendering has the whole budget."""
    template = (
        "{% for r in rows if r > 1 %}{{ loop.index }}{{ r }}{% if not loop.last %},{% endif %}{% else %}-{% endfor %}"
    )
    render = compile_template(template)
    assert [render(ROW) for _ in range(3)] == ["12,23"] * 3
    assert render({"rows": []}) == "-"
    assert compile_template("{{ 'ab' * 3 }}{{ 2 ** 10 }}{{ 2 ** -1 }}{{ 1.5 ** 2 }}")(ROW) == "ababab10240.52.25"
