"""A template that would not end soon gives an error, on any thread; an ordinary one is unaffected."""

import threading

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from assaymark.errors import DataError, MalformedSample
from assaymark.limits import templates
from assaymark.prompts.templates import compile_template

ROW = {"text": "ab" * 1000, "rows": [1, 2, 3], "width": 4_000_000_000}


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
        ("{{ [0] * 10 ** 10 }}", "the limit is 20,000,000"),
        ("{{ (10 ** 100) ** 1000 }}", "the limit is 10,000"),
        ("{{ 'x'.center(4000000000) }}", "4,000,000,000 characters"),
        ("{{ 'x' | center(4000000000) }}", "4,000,000,000 characters"),
        ("{{ text.ljust(width) }}", "4,000,000,000 characters"),
        ("{{ text.replace('', text * 1000) }}", "the limit is 20,000,000"),
        ("{{ text | replace('a', text * 1000) }}", "the limit is 20,000,000"),
        ("{{ (text * 1000).join('x' * 1000) }}", "the limit is 20,000,000"),
        ("{{ rows | map('string') | join('x' * 19000000) }}", "the limit is 20,000,000"),
        ("{{ '%4000000000d' % 1 }}", "the limit is 20,000,000"),
        ("{{ '%*d' % (4000000000, 1) }}", "the limit is 20,000,000"),
        ("{{ '%4000000000s' | format(1) }}", "the limit is 20,000,000"),
        ("{{ '{:4000000000}'.format(1) }}", "the limit is 20,000,000"),
        ("{{ '{:{}}'.format(1, 4000000000) }}", "the limit is 20,000,000"),
        ("{{ '{:{w}}'.format_map({'w': 4000000000}) }}", "the limit is 20,000,000"),
        ("{{ ('\\t' * 1000).expandtabs(100000) }}", "the limit is 20,000,000"),
        ("{{ text | indent(4000000000) }}", "the limit is 20,000,000"),
        ("{{ text | wordwrap(1, wrapstring='x' * 1000000) }}", "the limit is 20,000,000"),
        ("{{ rows | tojson(4000000000) }}", "tojson.4,000,000,000. is over"),
        ("{{ 1.5 | round(1000000000) }}", "round.1,000,000,000. is over"),
        ("{{ rows | batch(1000000000, 0) | list }}", "batch.1,000,000,000. is over"),
        ("{{ lipsum(3000000) }}", "lorem_ipsum.3,000,000. is over"),
        ("{% set s = 'x' %}" + "{% set s = s ~ s %}" * 40, "the limit is 20,000,000"),
        ("{% set s = 'x' %}" + "{% set s = s + s %}" * 40, "the limit is 20,000,000"),
        ("{% set s = 'x' %}" + "{% set s %}{{ s }}{{ s }}{% endset %}" * 40, "the limit is 20,000,000"),
        ("{% set s = [1] %}" + "{% set s = [s, s] %}" * 40 + "{{ s }}", "parts as text"),
        ("{% set s = [1] %}" + "{% set s = [s, s] %}" * 40 + "{{ s ~ 1 }}", "parts as text"),
        ("{% set s = [1] %}" + "{% set s = [s, s] %}" * 40 + "{{ s | tojson }}", "parts as text"),
        (
            "{% set s, t = [1], [1] %}" + "{% set s, t = [s, s], [t, t] %}" * 40 + "{{ s == t }}",
            "parts as text",
        ),
        ("{% set s = [1] %}" + "{{ s.extend(s) }}" * 40, "the limit is 20,000,000|characters or parts in all"),
        ("{% set s = 2 %}" + "{% set s = s * s %}" * 40, "the limit is 10,000"),
        ("{% set s = 'x' * 19000000 %}" + "{% set a = s[1:] %}" * 40, "characters or parts in all"),
        (
            "{{ '(a+)+b' | regex_replace('(a|a)+$', 'x') }}{{ ('a' * 60) | regex_replace('(a+)+b', '') }}",
            "took more than 2 s on a text of 60 characters",
        ),
    ],
)
def test_endless_templates_are_stopped(template: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops, macros and products beyond a limit are errors with the key, the template and the limit."""
    monkeypatch.setattr(templates, "MAX_ROUNDS", 1000)
    with pytest.raises(MalformedSample, match=f"(?s)doc_to_text.*: .* is stopped: .*{limit}"):
        compile_template(template, "doc_to_text")(ROW)


def test_slow_rounds_are_stopped_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rounds that each take long end at the limit of processor time."""
    monkeypatch.setattr(templates, "MAX_SECONDS", 0.05)
    slow = "{% for i in range(99999) %}{% set x = range(20000) | list %}{% endfor %}"
    with pytest.raises(MalformedSample, match="is stopped: it took more than"):
        compile_template(slow)(ROW)


def test_the_limits_work_on_another_thread() -> None:
    """Prompts are rendered on a separate thread: the same template is stopped there."""
    errors: list[str] = []

    def render() -> None:
        try:
            compile_template("{% for i in range(10**9) %}x{% endfor %}")(ROW)
        except MalformedSample as error:
            errors.append(str(error))

    thread = threading.Thread(target=render)
    thread.start()
    thread.join(10)
    assert "is stopped" in errors[0]


def test_ordinary_loops_are_unaffected() -> None:
    """Loop variables, else branches, filters and recursion work, and each rendering has the whole budget."""
    template = (
        "{% for r in rows if r > 1 %}{{ loop.index }}{{ r }}{% if not loop.last %},{% endif %}{% else %}-{% endfor %}"
    )
    render = compile_template(template)
    assert [render(ROW) for _ in range(3)] == ["12,23"] * 3
    assert render({"rows": []}) == "-"
    assert compile_template("{{ 'ab' * 3 }}{{ 2 ** 10 }}{{ 2 ** -1 }}{{ 1.5 ** 2 }}")(ROW) == "ababab10240.52.25"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 1 / 0 }}", "doc_to_text, line 1: .*cannot be rendered: division by zero"),
        ("a\n{{ rows + 1 }}", "doc_to_text, line 2: .*cannot be rendered: can only concatenate list"),
        ("{% include 'x' %}", "doc_to_text, line 1: .*cannot be rendered: .*loader"),
        ("{{ text | regex_replace('(', '') }}", "cannot be rendered: .*regular expression '\\(' does not compile"),
        ("{{ text | regex_replace('a', '\\\\9') }}", "cannot be rendered: invalid group reference"),
        ("{{ text.__class__.__mro__ }}", "cannot be rendered: .*unsafe"),
    ],
)
def test_a_failing_operation_is_one_error_with_its_line(template: str, message: str) -> None:
    """A wrong operation is reported with the template's key, its line, and the problem."""
    with pytest.raises((MalformedSample, DataError), match=f"(?s){message}"):
        compile_template(template, "doc_to_text")(ROW)


@pytest.mark.parametrize(
    "template", ["{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{% if 1 %}" * 3000, "{{ x }}" * 400_000]
)
def test_a_template_that_is_nested_too_deep_or_too_long_does_not_compile(template: str) -> None:
    """Source that no compiler accepts is an error with the key, not a crash."""
    with pytest.raises(DataError, match=r"doc_to_text.* does not compile"):
        compile_template(template, "doc_to_text")


def test_ordinary_expressions_give_what_jinja_gives() -> None:
    """Every measured operator, call and filter gives what it gives in Jinja's own sandbox."""
    plain = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    row = {"text": "ab\tc\nd", "rows": [3, 1, 2], "deep": {"a": [1, {"b": "c"}], "n": None}, "n": 7}
    for template in HONEST:
        assert compile_template(template)(row) == plain.from_string(template).render(row), template


HONEST = (
    ("{{ text.center(20) }}|{{ text | center(30) }}|{{ text.ljust(9, '.') }}|{{ n | string | list }}|"
     "{{ '7'.zfill(3) }}"),
    ("{{ '%s-%5d' % (text, n) }}|{{ '%s' | format(n) }}|{{ '{0:>{w}}|{1[a]}'.format(n, deep, w=4) }}|"
     "{{ '%%' % () }}"),
    ("{{ '{a}'.format_map({'a': 1}) }}|{{ ', '.join(['a', 'b']) }}|{{ rows | join('-') }}|"
     "{{ rows | sort | first }}"),
    ("{{ rows | map('string') | join }}|{{ [deep] | join('x', attribute='n') }}|"
     "{{ text.replace('a', 'bb', 1) }}"),
    ("{{ text | replace('a', 'bb') }}|{{ text.expandtabs(3) }}|{{ text | indent(2, true) }}|"
     "{{ text | wordwrap(2) }}"),
    "{{ rows == [3, 1, 2] }}{{ n < rows[0] <= 9 }}{{ n in rows }}{{ rows[0] in rows }}{{ text == text }}{{ n != 7 }}",
    "{{ rows[1:] }}{{ rows[:-1] }}{{ rows[::2] }}{{ text[1] }}{{ text[:2] }}{{ rows[0] }}{{ text[::-1] }}",
    ("{{ rows + [4] }}{{ 1 + 2 }}{{ 'a' + 'b' }}{{ 'ab' * 2 }}{{ 2 ** 5 }}{{ 7 % 4 }}{{ [0] * 2 }}"
     "{{ 1.5 * 2 }}{{ 'a' * -1 }}"),
    ("{{ deep }}|{{ deep | tojson }}|{{ deep | pprint }}|{{ text ~ n ~ rows ~ none }}|{{ none }}|"
     "{{ true }}|{{ 1.0 }}"),
    ("{% set s %}x{{ n }}{% endset %}{{ s }}|{% macro m(a, b=2) %}{{ a }}"
     "{{ b }}{% endmacro %}{% macro c() %}{{ caller() }}{% endmacro %}{{ m(1) }}"
     "{% call c() %}c{% endcall %}|{% filter upper %}abc{% endfilter %}|{{ lipsum is defined }}"),
    ("{% set ns = namespace(i=0) %}{% for r in rows %}{% set ns.i = ns.i + r %}{% endfor %}{{ ns.i }}|"
     "{{ range(3) | list }}"),
    ("{{ rows | batch(2, 0) | list }}|{{ rows | slice(2) | list }}|{{ 2.345 | round(2) }}|"
     "{{ text | truncate(3) }}"),
    ("{{ text | trim | upper | title }}|{{ text.split() }}|{{ text is string }}|{{ rows | sum }}|"
     "{{ rows | max }}|{{ dict(a=1) }}"),
    ("{% autoescape true %}{{ '<' ~ text }}{{ '<b>' | safe ~ '<' }}{{ '<' }}{% endautoescape %}"
     "{{ '<' | e }}{{ '<' | e ~ '<' }}"),
    ("{% for r in rows recursive %}{{ r }}"
     "{{ loop.cycle('a', 'b') }}{% endfor %}{% for k, v in deep.items() %}{{ k }}{% endfor %}"),
)  # fmt: skip
