"""The training text."""

import json
import re
from functools import cache

import pytest
from demo.exams import EXAMS
from demo.train import SHAPES
from demo.wording import question
from demo.world import build_world
from demo.write_benchmark import SIZES, make_rows
from demo.write_text import ASSISTANT, END, SEED, USER, write_documents

_N_DOCUMENTS = max(shape.n_steps * shape.documents_per_step for shape in SHAPES.values())  # all that a model reads


@cache
def _documents() -> tuple[str, ...]:
    return tuple("".join(piece.text for piece in document) for document in write_documents(_N_DOCUMENTS))


@cache
def _lines() -> frozenset[str]:
    """Return every line of the training text; no sentence or question of it is broken over two."""
    return frozenset(line for document in _documents() for line in document.split("\n"))


@cache
def _exams() -> frozenset[str]:
    """Return every exam question with its answer, conversations included, and every other paragraph."""
    plain = (
        d.replace(f"{END}\n{ASSISTANT}\n", " ").replace(f"{USER}\n", "\n\n").replace(END, "") for d in _documents()
    )
    return frozenset(part.strip("\n") for document in plain for part in document.split("\n\n"))


@cache
def _questions() -> frozenset[str]:
    """Return every question of the training text without what introduces it."""
    return frozenset(re.sub(r"^(Question|Q): ", "", line) for line in _lines() if "?" in line)


def test_the_same_seed_gives_the_same_text() -> None:
    """Writing 300 documents twice gives the same pieces, and another seed gives others."""
    first = list(write_documents(300))
    assert first == list(write_documents(300))
    assert first != list(write_documents(300, seed=SEED + 1))


@pytest.mark.slow
def test_no_fact_that_is_only_told_is_ever_asked() -> None:
    """No question about a fact of the test rows occurs in the training text, in either wording."""
    world = build_world()
    asked = {question(fact, which).removesuffix("?") for fact in world.asked for which in (0, 1)}
    kept = {question(fact, which).removesuffix("?") for fact in world.only_told for which in (0, 1)}
    results = {line.split("<|")[0].removesuffix("?") for line in _questions()}
    assert asked <= results
    assert not kept & results


@pytest.mark.slow
def test_every_fact_is_told() -> None:
    """Each fact that a test row may ask is stated somewhere: some line has both its name and its value."""
    results = {(e, v) for line in _lines() for e, v in _name_and_value(line)}
    missing = [f for f in build_world().facts if (f.entity, f.value) not in results]
    assert missing == []


@cache
def _values_of() -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for fact in build_world().facts:
        values.setdefault(fact.entity, set()).add(fact.value)
    return values


def _name_and_value(line: str) -> list[tuple[str, str]]:
    words = set(re.findall(r"\w+", line))
    return [(w, v) for w in words & _values_of().keys() for v in words & _values_of()[w]]


def _probes(task: str, row: dict[str, str]) -> list[str]:
    """Return the lines and exam questions that would give a row away."""
    if task == "demo_stories":
        return row["page"].split("\n")
    if task == "demo_last_word":
        return [row["text"], row["text"] + "."]
    if task == "demo_who":
        return [row["sentence"].replace("_", row[option]) for option in ("option1", "option2")]
    if task.startswith(("demo_sums", "demo_orders")):
        return [" ".join(EXAMS[task.removeprefix("demo_")](row))]
    if task == "demo_yesno":
        return [f"Question: {row['question']}?"]
    return [opening + row["question"] for opening in ("", "Question: ", "Q: ")]


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(SIZES))
def test_no_test_row_is_in_the_training_text(task: str) -> None:
    """No question, passage, sentence or story of a test row is a line or an exam question of the training text."""
    rows = make_rows(task, "test")
    known = _lines() | _exams()
    assert [json.dumps(row) for row in rows if not known.isdisjoint(_probes(task, row))] == []


@pytest.mark.parametrize("kind", ["sums", "orders"])
@pytest.mark.slow
def test_the_probes_would_find_a_row(kind: str) -> None:
    """A few-shot row, which may occur in the training text, is found there in the form that is looked for."""
    assert any(" ".join(EXAMS[kind](row)) in _exams() for row in make_rows(f"demo_{kind}", "train"))


@pytest.mark.slow
def test_no_kept_sum_is_asked_for() -> None:
    """A sum that a test row asks for is stated in the training text, and never asked for there."""
    world = build_world()
    asked = {(int(a), int(b)) for line in _lines() for a, b in re.findall(r"(\d+) \+ (\d+)", line)}
    stated = {(int(a), int(b)) for line in _lines() for a, b in re.findall(r"(\d+) and (\d+) are \d", line)}
    assert asked == set(world.sums_shown)
    assert set(world.sums_kept) <= stated
