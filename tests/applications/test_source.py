"""The hash of a target changes with what its answers follow from, and with nothing else."""

import functools
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import httpx
import numpy as np
import pytest

from assaymark.applications.binding import _file_hash, source_hash
from assaymark.applications.source import function_hash, own_imports
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


@pytest.mark.parametrize("line", ["from shop.core import ask", "import shop.core", "from ..core import ask"])
@pytest.mark.parametrize("is_package", [True, False])
@pytest.mark.parametrize("hash_of_file", [own_imports, _file_hash])
def test_modules_of_a_package_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    hash_of_file: Callable[[Path], object],
    *,
    is_package: bool,
) -> None:
    """Wherever they lie in it, and where Python finds them: a target's answers, and a scorer's scores, were kept."""
    web = tmp_path / "shop" / "web"
    web.mkdir(parents=True)
    (web / "app.py").write_text(f"import json\n{line}\n", encoding="utf-8")
    if is_package:
        (web / "__init__.py").touch()
        (web.parent / "__init__.py").touch()
    else:
        monkeypatch.syspath_prepend(str(tmp_path))
    core = web.parent / "core.py"
    core.write_text("def ask(): return 1\n", encoding="utf-8")
    before = hash_of_file(web / "app.py")
    core.write_text("def ask(): return 2\n", encoding="utf-8")
    assert hash_of_file(web / "app.py") != before


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


@dataclass(frozen=True, slots=True)
class Repeat:
    """A target with a setting in a slot."""

    n: int

    def __call__(self, text: str) -> str:
        """Return a text several times."""
        return text * self.n

    def method(self, text: str) -> str:
        """Return a text several times."""
        return text * self.n


class Other:
    """Another class."""


def by_default(n: int) -> Callable[..., object]:
    """Return a function with a default, as loops bind their variable."""

    def repeat(text: str, n: int = n) -> str:
        return text * n

    return repeat


def by_keyword(n: int) -> Callable[..., object]:
    """Return a function with a default of a keyword."""

    def repeat(text: str, *, n: int = n) -> str:
        return text * n

    return repeat


def by_wrapper(n: int) -> Callable[..., object]:
    """Return a function in a wrapper with a setting."""

    @functools.wraps(first)
    def repeat(question: str) -> str:
        return first(question) * n

    return repeat


def holding(value: object) -> Callable[..., object]:
    """Return a function that holds a value."""
    return lambda text: (text, value)


MAKERS: dict[str, Callable[[int], Callable[..., object]]] = {
    "default": by_default,
    "keyword": by_keyword,
    "default of a lambda": lambda n: lambda text, n=n: text * n,
    "wrapper": by_wrapper,
    "object": Repeat,
    "method": lambda n: Repeat(n).method,
    "partial": lambda n: functools.partial(by_default(1), n=n),
    "closure": holding,
    "closure over a pattern": lambda n: holding(re.compile("x" * n)),
    "closure over a decimal": lambda n: holding(Decimal(n)),
    "closure over a library's value": lambda n: holding(PurePosixPath(str(n))),
    "closure over a library's object": lambda n: holding(httpx.URL(f"http://{n}")),
    "closure over an array": lambda n: holding(np.array([n])),
    "closure over a set": lambda n: holding({n}),
    "closure over a builtin": lambda n: holding((min, max)[n - 1]),
    "closure over a function": lambda n: holding(by_default(n)),
    "closure over a function of the file": lambda n: holding((first, second)[n - 1]),
    "closure over a class of the file": lambda n: holding((Repeat, Other)[n - 1]),
    "closure over an object": lambda n: holding(Repeat(n)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("hash_of_function", [lambda function: function_hash(function, "f"), source_hash])
def test_the_hash_follows_what_a_function_holds(
    make: Callable[[int], Callable[..., object]], hash_of_function: Callable[[Any], str]
) -> None:
    """Stored answers, or scores, of one setting were those of every other."""
    assert hash_of_function(make(1)) == hash_of_function(make(1)) != hash_of_function(make(2))


def test_a_function_without_a_source_is_refused() -> None:
    """A change of it would not be noticed, so a version is asked for."""
    with pytest.raises(UsageError, match=r"the source of f cannot be read.* or give a version"):
        function_hash(eval("lambda inputs: inputs"), "f")
    with pytest.raises(UsageError, match="the source of len cannot be read"):
        function_hash(len, "len")
