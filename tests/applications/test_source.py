"""The hash of a target changes with what its answers follow from, and with nothing else."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assaymark.applications.source import function_hash
from assaymark.errors import UsageError

APP = """
import helper
from pathlib import Path

TEMPERATURE = 0.5
PROMPT = Path(__file__).parent / "prompts" / "answer.txt"

def clean(text):
    return text.strip()

def answer(question):
    return clean(helper.ask(PROMPT.read_text(), question))

def faithful(output, expected):
    return output == expected

def log(text):
    open("log.txt", "a").write(text)

if __name__ == "__main__":
    print(answer("?"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with an application: a file, a module that it imports, and a prompt that it reads."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "helper.py").write_text("def ask(prompt, question):\n    return prompt + question\n", encoding="utf-8")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "answer.txt").write_text("Be brief.", encoding="utf-8")
    return tmp_path


def hash_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the hash of `answer` in app.py, imported anew."""
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("app_under_test", folder / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "app_under_test", module)
    exec(compile((folder / "app.py").read_text(), str(folder / "app.py"), "exec"), module.__dict__)
    function: Callable[..., Any] = module.answer
    return function_hash(function, "answer")


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("app.py", "clean(helper", "(helper"),
        ("app.py", "text.strip()", "text.upper()"),
        ("app.py", "TEMPERATURE = 0.5", "TEMPERATURE = 0.7"),
        ("helper.py", "prompt + question", "question + prompt"),
        ("prompts/answer.txt", "Be brief.", "Be long."),
    ],
)
def test_what_counts(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, before: str, after: str) -> None:
    """The function, functions that it uses, constants, modules beside the file and prompts change the hash."""
    first = hash_of(folder, monkeypatch)
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after), encoding="utf-8")
    assert hash_of(folder, monkeypatch) != first


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("output == expected", "output in expected"),  # a scorer
        ("def clean(text):", "# a comment\ndef clean(text):"),
        ("print(answer", "print(1, answer"),  # the script
    ],
)
def test_what_does_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """Other functions of the file, comments and layout, and what runs only as a script change nothing."""
    first = hash_of(folder, monkeypatch)
    text = (folder / "app.py").read_text()
    assert before in text
    (folder / "app.py").write_text(text.replace(before, after), encoding="utf-8")
    (folder / "log.txt").write_text("written by the target", encoding="utf-8")
    assert hash_of(folder, monkeypatch) == first


def test_a_function_made_by_another_counts_what_it_holds() -> None:
    """Closures with other values differ; lists and counters that the function itself changes do not count."""

    def made(model: str, calls: list[str]) -> Callable[[str], str]:
        def target(question: str) -> str:
            calls.append(question)
            return model

        return target

    assert function_hash(made("a", []), "f") == function_hash(made("a", ["earlier"]), "f")
    assert function_hash(made("a", []), "f") != function_hash(made("b", []), "f")


def first(question: str) -> str:
    """Answer."""
    return question


def second(question: str) -> str:
    """Answer otherwise."""
    return question[::-1]


FUNCTIONS = (first, second, lambda question: question, lambda question: question.upper())


def test_functions_of_one_file_differ() -> None:
    """Functions, and lambdas in one line, have hashes of their own, also where the file mentions all of them."""
    assert len({function_hash(function, "f") for function in FUNCTIONS}) == len(FUNCTIONS)


def test_a_function_without_a_source_is_refused() -> None:
    """A change of it would not be noticed, so a version is asked for."""
    with pytest.raises(UsageError, match=r"the source of f cannot be read.* or give a version"):
        function_hash(eval("lambda inputs: inputs"), "f")
    with pytest.raises(UsageError, match="the source of len cannot be read"):
        function_hash(len, "len")
