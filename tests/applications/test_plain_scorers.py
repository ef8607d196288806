"""Plain scorers give the values of their formulas, and scorers are found by their names."""

import asyncio
import itertools
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assaymark
from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, JudgedScorer, Result, Scorer
from assaymark.applications.scorers import SCORERS, check_needs, scorers_of
from assaymark.applications.scorers.plain import PlainScorer
from assaymark.applications.scorers.similarity import best_match, json_similarity, levenshtein, number_similarity
from assaymark.documents.document import document
from assaymark.documents.terminal import as_text
from assaymark.errors import DataError, MissingExtra, UnknownName, UsageError
from assaymark.results.views.samples import sample_example


def scored(scorer: Any, output: Any, expected: Any = None, **of_call: Any) -> Result:
    """Return the result of the only scorer that a text, mapping or function names."""
    (made,) = scorers_of(scorer if isinstance(scorer, str) else [scorer])
    assert isinstance(made, Scorer)
    (result,) = asyncio.run(made.score(Answered(Row("0", "q", expected), output, **of_call)))
    assert result.name == made.facts.name
    return result


EXAMPLES: list[tuple[Any, Any, Any, float]] = [
    ("exact", "Paris", "Paris", 1.0),
    ("exact", "paris", "Paris", 0.0),
    ("{exact: {ignore_case: true, strip: true}}", " paris\n", "Paris", 1.0),
    ("exact", {"answer": "Paris"}, "Paris", 1.0),
    ("exact", "Paris", {"answer": "Paris"}, 1.0),
    ("exact", {"a": 1}, {"b": 1}, 0.0),
    ("exact", {"a": 1, "b": [2.0]}, {"b": [2], "a": 1}, 1.0),
    ("exact", True, 1, 0.0),
    ("exact", 3, "3", 1.0),
    ("exact", 3.0, "3", 1.0),
    ("exact", "3", 3, 1.0),
    ("exact", 1000, "1,000", 1.0),
    ("exact", 0.1, "0.1", 1.0),
    ("exact", 15, "1.5", 0.0),
    ("exact", 5, "5%", 0.0),
    ("exact", 3, "three", 0.0),
    ("exact", True, "true", 1.0),
    ("exact", False, "False", 1.0),
    ("exact", True, "1", 0.0),
    ("exact", None, "null", 1.0),
    ("exact", [1, 2], "[1, 2]", 1.0),
    ("exact", {"a": 1, "b": 2}, '{"b": 2, "a": 1}', 1.0),
    ("exact", {"answer": 3}, "3", 1.0),
    ("exact", "cafe\u0301", "caf\u00e9", 1.0),
    ("{exact: {ignore_case: true}}", "STRASSE", "Stra\u00dfe", 1.0),
    ("{exact: {ignore_case: true, ignore_typography: true}}", "\u201cParis\u201d.", "paris", 1.0),
    ("{exact: {ignore_typography: true}}", "15", "1.5", 0.0),
    ("contains", "Un cafe\u0301.", "caf\u00e9", 1.0),
    ("regex", "Un cafe\u0301.", "caf\u00e9\\.", 1.0),
    ("contains", 13, "3", 1.0),
    ("contains", "It is Paris.", "Paris", 1.0),
    ("contains", "It is Paris.", ["Paris", "Rome"], 0.0),
    ("contains:Rome", "It is Paris.", None, 0.0),
    ("{contains: {text: PARIS, ignore_case: true}}", "It is Paris.", None, 1.0),
    (r"regex:\d{4}", "in 1969", None, 1.0),
    (r"regex:^\d{4}$", "in 1969", None, 0.0),
    ({"regex": {"pattern": "a|b", "whole": True}}, "ab", None, 0.0),
    ("regex", "in 1969", "1[0-9]+9", 1.0),
    ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
    ("levenshtein", "", "", 1.0),
    ("number", "105", 100, 1 - 5 / 205),
    ("number", {"n": -1.0}, "1", 0.0),
    ("number", 0, 0.0, 1.0),
    ("number", "1,000", 1000, 1.0),
    ("number", "007", 7, 1.0),
    ("number", "-3.", "\u22123", 1.0),
    ("number", "none of them", 3, 0.0),
    ("json", '{"name": "Ann", "age": 30}', {"name": "Anna", "age": 30, "city": None}, (3 / 4 + 1 + 1) / 3),
    ("json", {"a": [1, 2, 3]}, {"a": [1, 3]}, (1 + 1 - 1 / 5 + 0) / 3),
    ("json", {"a": "x"}, {"a": 1}, 0.0),
    ("json", "[]", [], 1.0),
    ("json", '```json\n{"a": 1}\n```', {"a": 1}, 1.0),
    ("json", '\n~~~\n{"a": 1}\n~~~\n', '{"a": 1}', 1.0),
    ("list", '```json\n["ab"]\n```', ["ab"], 1.0),
    ("list", ["b", "a"], ["a", "b", "c"], 2 / 3),
    ("list", '["ab"]', ["ac", "ab"], 1 / 2),
    ("{list: {allow_extra: true}}", ["a", "x", "b"], ["a", "b"], 1.0),
    ("list", "a", ["a"], 0.0),
    ("json_schema", '{"a": 1}', None, 1.0),
    ("json_schema", '```json\n{"a": 1}\n```', None, 1.0),
    ("json_schema", "```\n[1]\n```", None, 1.0),
    ("json_schema", 'Here it is:\n```json\n{"a": 1}\n```', None, 0.0),
    ("json_schema", '```json\n{"a": 1\n```', None, 0.0),
    ("json_schema", "3", None, 0.0),
    ("json_schema", '{"a": 1', None, 0.0),
    ({"json_schema": {"schema": {"required": ["a"], "properties": {"a": {"type": "integer"}}}}}, '{"a": 1}', None, 1.0),
    ({"json_schema": {"schema": {"required": ["a"], "properties": {"a": {"type": "integer"}}}}}, {"a": "1"}, None, 0.0),
]


@pytest.mark.parametrize(("scorer", "output", "expected", "value"), EXAMPLES)
def test_values_by_hand(scorer: Any, output: Any, expected: Any, value: float) -> None:
    """Each scorer gives the value that its formula gives by hand."""
    result = scored(scorer, output, expected)
    assert result.value == pytest.approx(value, abs=1e-12)


def test_values_of_different_kinds_are_named() -> None:
    """What is equal only across kinds, and what is unequal because of them, says so in the comment."""
    assert scored("exact", 3, "3").comment == "'3' is the number"
    assert scored("exact", 3, "three").comment == "the answer is a number, the expected value a string"
    assert scored("exact", "x", ["x"]).comment == "the answer is a string, the expected value an array"
    assert scored("exact", "3", "3").comment is None


def test_a_wrong_answer_of_another_kind_or_spelling_says_so() -> None:
    """What keeps `exact` from 1 is counted below the table: null, a boolean for a number, case, spaces."""
    cases = [
        (None, "5"),
        (True, 1),
        ([5], 5),
        ("paris", "Paris"),
        (" 5\n", "5"),
        ("Rome", "Paris"),
        ({"a": 1}, {"a": 2}),
        (0.1 + 0.2, 0.3),
        (2, 3),
        ("It is Paris.", "Paris"),
        ("1/2", "0.5"),
        ("", "Paris"),
        ("<!DOCTYPE html><title>Log in", "Paris"),
    ]
    results = [scored("exact", output, expected) for output, expected in cases]
    assert [each.value for each in results] == [0.0] * len(cases)
    kind = "of another kind: the answer is {}, the expected value a {}"
    assert [each.metadata.get("near_miss") for each in results] == [
        kind.format("null", "string"), kind.format("a boolean", "number"), kind.format("an array", "number"),
        "case", "typography", None, None, "rounding", None, "among words", "notation", "empty", "page",
    ]  # fmt: skip
    assert scored("levenshtein", None, "full").value == 0.0  # null has no letters


@pytest.mark.parametrize(
    "output",
    [
        {"role": "assistant", "content": "5", "refusal": None},
        {"type": "ai", "content": "5", "additional_kwargs": {}},
        {"messages": [{"role": "user", "content": "7"}, {"role": "assistant", "content": "5"}]},
        {"id": "7", "choices": [{"index": 0, "message": {"role": "assistant", "content": "5"}}], "created": 7},
    ],
)
def test_the_answer_in_a_chat_is_its_last_message(output: Any) -> None:
    """What clients of models and agents return as it is: a message, a completion, a state; not the text of its JSON."""
    assert scored("exact", output, "5").value == 1.0
    assert scored("contains", output, "7").value == 0.0
    question = {"role": "user", "content": "5"}
    assert scored("exact", {"messages": [question]}, "5").value == 0.0


def test_what_was_ignored_stands_below_the_table_and_the_comment_with_the_sample(tmp_path: Path) -> None:
    """A run says how many answers are right only across kinds; each wrong one names its kind."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"input": "a", "expected": "3"}\n{"input": "b", "expected": "four"}\n')
    run = assaymark.evaluate(lambda question: {"a": 3, "b": 4}[question], rows, scorers="exact")
    estimate = run.estimate("rows", "exact")
    assert (estimate.value, estimate.details["equal_by"]) == (0.5, {"kind": 1})
    assert "1 right answer not the reference to the letter: 1 in kind, such as a number" in " ".join(str(run).split())
    shown = as_text(document(sample_example([list(run.samples("rows"))[1]])), width=120)
    assert "exact: the answer is a number, the expected value a string" in shown


def test_what_a_call_took() -> None:
    """Latency, cost and tokens are those of the call; unknown ones are not scored, never 0."""
    assert scored("latency", "o", latency_s=0.25).value == 0.25
    assert scored("cost", "o", cost=0.001).value == 0.001
    assert scored("tokens", "o", n_tokens=12).value == 12.0
    for name in ("latency", "cost", "tokens"):
        unknown = scored(name, "o")
        assert (unknown.value, unknown.comment) == (None, f"the target did not state its {name}")


def vectors(text: str) -> list[float]:
    """Return an angle of 60 degrees for other texts than the expected one."""
    return [2.0, 0.0] if text == "expected" else [1.0, math.sqrt(3.0)]


async def later(text: str) -> Any:
    """Return the same later, as an array of numpy."""
    await asyncio.sleep(0)
    return np.array(vectors(text))


@pytest.mark.parametrize("function", [vectors, later])
def test_embedding_by_hand(function: Any) -> None:
    """The cosine is 1/2: 0 above the default least one of 0.7, and 1/3 of the way from 1/4 to 1."""
    scorer, lower = {"embedding": {"function": function}}, {"embedding": {"function": function, "least": 0.25}}
    assert scored(scorer, "other", "expected").value == 0.0
    assert scored(lower, "other", "expected").value == pytest.approx(1 / 3)
    assert scored(scorer, "expected", "expected").value == 1.0


def test_edit_distance_equals_the_plain_recurrence() -> None:
    """The bit vectors give what the table of Wagner and Fischer gives, on 500 pairs of texts."""
    random_texts = random.Random(0)

    def table(first: str, second: str) -> int:
        above = list(range(len(second) + 1))
        for i, entry in enumerate(first, 1):
            row = [i]
            for j, other in enumerate(second, 1):
                row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (entry != other)))
            above = row
        return above[-1]

    for _ in range(500):
        first, second = ("".join(random_texts.choices("aäß日", k=random_texts.randrange(90))) for _ in range(2))
        assert levenshtein(first, second) == table(first, second)


def test_best_match_equals_all_permutations() -> None:
    """The assignment has the largest sum of all, on 60 tables of up to 4 x 6."""
    draws = np.random.default_rng(0)
    for _ in range(60):
        table = draws.random(draws.integers(1, [5, 7])).round(1)
        table = table.T if draws.random() < 0.5 else table
        wide = table if table.shape[0] <= table.shape[1] else table.T
        columns = itertools.permutations(range(wide.shape[1]), wide.shape[0])
        best = max(sum(wide[row, column] for row, column in enumerate(each)) for each in columns)
        assert sum(table[pair] for pair in best_match(table)) == pytest.approx(best)


def test_long_answers_end() -> None:
    """Two texts of 20,000 characters take seconds at most; longer ones than the limit are refused, not compared."""
    began = time.monotonic()
    assert levenshtein("ab" * 10_000, "ba" * 10_000) == 2
    assert time.monotonic() - began < 5
    with pytest.raises(DataError, match="100,001 characters"):
        levenshtein("a" * 100_001, "b")


def test_large_numbers_do_not_overflow() -> None:
    """Sums of the largest floats are not computed."""
    assert number_similarity(1.7e308, -1.7e308) == 0.0
    assert json_similarity(1e308, 1e308) == 1.0


def test_answers_that_a_scorer_cannot_read_are_counted(tmp_path: Path) -> None:
    """Below the table: a score of 0 says nothing of why."""
    rows = [{"inputs": {"q": text}, "expected": 5} for text in ("5", "5 km", "about 5")]
    run = assaymark.evaluate(lambda q: q, rows, scorers=["number"], store=str(tmp_path / "s.sqlite"))
    assert run.estimate("rows", "number").value == pytest.approx(1 / 3)
    assert "2 wrong answers that the scorer `number` cannot read" in str(run)
    assert scored("list", "a and b", ["a", "b"]).metadata == {"near_miss": "not a list"}


def test_a_row_of_the_wrong_kind_is_an_error_not_a_wrong_answer() -> None:
    """A reference that is not a number, or no list, raises: the score has failed."""
    for name in ("number", "list"):
        with pytest.raises(DataError, match="row 0: the expected value 'many'"):
            scored(name, "3", "many")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$"])
def test_a_slow_pattern_ends(pattern: str) -> None:
    """A pattern that would take years on an answer is stopped, and the score has failed."""
    with pytest.raises(DataError, match="took more than"):
        scored(f"regex:{pattern}", "a" * 60 + "!")


# -------------------------------------------------------------------------------------------- names


def words(output: str) -> int:
    """Count words."""
    return len(output.split())


def test_scorers_are_found_by_name_place_and_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with and without arguments, a file, a module and functions, in one list or one text."""
    (tmp_path / "my_app.py").write_text(
        "import my_rules\ndef faithful(output, expected):\n    return output == expected and my_rules.RULE\n"
        "class Judge:\n    def __call__(self, output):\n        return 0.5\n"
    )
    (tmp_path / "my_rules.py").write_text("RULE = True\n")
    monkeypatch.chdir(tmp_path)
    result = scorers_of(f"exact, {tmp_path}/my_app.py:faithful,my_app:Judge,{{regex: {{pattern: 'a,b', name: ab}}}}")
    assert [each.facts.name for each in result] == ["exact", "faithful", "Judge", "ab"]
    result = scorers_of([words, "exact", result[1], assaymark.scorer(name="short")(lambda output: len(output) < 9)])
    assert [each.facts.name for each in result] == ["words", "exact", "faithful", "short"]
    assert scorers_of(words)[0].facts.formula == "Count words."


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    """In a notebook the second call uses what the file has now, and its hash is another one."""
    file = tmp_path / "edited_scorers.py"
    file.write_text("def s(output):\n    return 0.25\n")
    (first,) = scorers_of(f"{file}:s")
    file.write_text("def s(output):\n    return 0.75\n")
    (second,) = scorers_of(f"{file}:s")
    assert scored(f"{file}:s", "o").value == 0.75
    assert first.content_hash != second.content_hash


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("levenstein", r"unknown scorer 'levenstein'; nearest: levenshtein; or name a function: FILE.py:NAME"),
        ("exact:x", "scorer exact takes no argument, and 'x' was given"),
        ("regex:(", "scorer regex: the regular expression .* does not compile"),
        ("{regex: {patern: a}}", "unknown setting of the scorer regex 'patern'; nearest: pattern"),
        ("{exact: {}, list: {}}", "is not one name with its settings"),
        ("embedding", "needs a function of a text"),
        ("json_schema:none.json", "there is no file none.json"),
        ({"json_schema": {"schema": {"type": "nothing"}}}, "the schema is not valid"),
        ("absent.py:f", "no file 'absent.py'"),
        ("no_such_module_x:f", "module 'no_such_module_x' cannot be imported"),
        ("json:loads", "scorer json takes no argument"),
        ("math:sqroot", "unknown scorer in math 'sqroot'; nearest: sqrt"),
        ("exact,exact", "two scorers are called 'exact'"),
    ],
)
def test_unknown_names_and_arguments_are_refused_in_one_line(scorer: Any, message: str) -> None:
    """The message has the name, what was expected, and the nearest ones."""
    with pytest.raises(UsageError, match=message) as refused:
        scorers_of(scorer if isinstance(scorer, str) else [scorer])
    assert "\n" not in str(refused.value)


def test_a_file_that_fails_while_it_is_imported_is_named_with_its_line(tmp_path: Path) -> None:
    """The refusal has file and line of the error."""
    file = tmp_path / "broken_scorers.py"
    file.write_text("x = 1\ny = x / 0\n")
    with pytest.raises(UsageError, match=r"cannot be imported: ZeroDivisionError: .* \(broken_scorers.py, line 2\)"):
        scorers_of(f"{file}:s")


def test_every_registered_scorer_declares_its_facts() -> None:
    """Each has a formula and a hash, and follows one of the two protocols."""
    arguments: dict[str, Any] = {"embedding": {"function": vectors}, "guidelines": {"guidelines": ["Be brief."]},
                                 "question_similarity": {"function": vectors}}  # fmt: skip
    for name in SCORERS:
        (made,) = scorers_of([{name: arguments.get(name)}])
        assert isinstance(made, Scorer | JudgedScorer), name
        assert made.facts.name == name
        assert made.facts.formula
        assert made.content_hash == scorers_of([{name: arguments.get(name)}])[0].content_hash


# -------------------------------------------------------------------------------------------- needs


def test_a_missing_reference_is_refused_before_the_first_call() -> None:
    """The message names the scorer, what it needs, the first row without it and how many there are."""
    rows = [Row("a", "q", "e"), Row("b", "q"), Row("c", "q")]
    with pytest.raises(UsageError, match=r"scorer 'exact' needs an expected value, and row b and 1 more of 3 has none"):
        check_needs(scorers_of("latency,exact"), rows)
    check_needs(scorers_of(["latency", "contains:x", words]), rows)
    check_needs(scorers_of("exact"), rows[:1])


def test_contexts_may_come_from_the_target() -> None:
    """Rows without contexts are refused only where the target cannot return any."""

    def grounded(output: Any, contexts: Any) -> float:
        raise AssertionError(output, contexts)

    rows = [Row("a", "q")]
    check_needs(scorers_of([grounded]), rows)
    with pytest.raises(UsageError, match="scorer 'grounded' needs contexts, and row a of 1 has none"):
        check_needs(scorers_of([grounded]), rows, of_the_target=frozenset())


def test_unknown_names_are_of_their_own_kind() -> None:
    """A caller can tell an unknown name from other refusals."""
    with pytest.raises(UnknownName):
        scorers_of("exakt")


def test_a_schema_without_its_package_is_refused_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jsonschema is not installed, the extra is named before anything is called; plain JSON needs nothing."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(MissingExtra, match="needs the extra 'scorers'"):
        scorers_of([{"json_schema": {"schema": {"type": "object"}}}])
    assert scored("json_schema", "{}").value == 1.0


@pytest.mark.parametrize(("scorer", "output", "expected", "value"), EXAMPLES)
def test_a_quick_scorer_gives_the_same_without_an_event_loop(
    scorer: Any, output: Any, expected: Any, value: float
) -> None:
    """`score_now` is `score`; scorers that may take long have none."""
    (made,) = scorers_of(scorer if isinstance(scorer, str) else [scorer])
    assert isinstance(made, PlainScorer)
    answered = Answered(Row("0", "q", expected), output)
    now = made.score_now(answered)
    assert (now is None) == made.IN_THREAD
    assert now is None or now == asyncio.run(made.score(answered))
    (embedding,) = scorers_of([{"embedding": {"function": vectors}}])
    assert isinstance(embedding, PlainScorer)
    assert embedding.score_now(answered) is None
