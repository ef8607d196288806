"""Jinja templates, compiled once each and run in a sandbox, and their filters.

The language is that of lm-evaluation-harness: undefined names are errors, a final newline is kept, and there is the
filter `regex_replace`. A template without Jinja syntax is a constant and is never run. A template that takes too long,
or produces too much text, is stopped (`limits`).

Further filters are for templates that `tasks.eval_yaml` writes: options of a question, listed after their letters, in a
seeded order, and the letter of the right one. Letters are A to Z, then numbers from 1, and an option is listed as
"A) text". Source: inspect-ai 0.3.285, `_util/answer.py` and `solver/_multiple_choice.py`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment

from assaymark.errors import DataError, MalformedSample
from assaymark.limits.regexes import RegexTooSlow, sub
from assaymark.limits.templates import TemplateTooLarge, bounded, bounded_render, line_of
from assaymark.randomness import generator_for
from assaymark.records import Row

RowText = Callable[[Row], str]
_N_LETTERS = 26


def letter_of(position: int) -> str:
    """Return the letter of a position from 0, or its number after Z."""
    return chr(ord("A") + position) if position < _N_LETTERS else str(position - _N_LETTERS + 1)


def _position_of(letter: str) -> int:
    """Return the position of a letter, or of a number after Z. Raises: DataError for anything else."""
    if len(letter) == 1 and letter.isascii() and letter.isalpha():
        return ord(letter.upper()) - ord("A")
    if letter.isdecimal() and int(letter) > 0:
        return _N_LETTERS - 1 + int(letter)
    raise DataError(f"{letter!r:.40} names no option; expected a letter, or a number from 1 after Z")


def listed_options(options: object) -> str:
    """Return the options, one per line, each after its letter."""
    return "\n".join(f"{letter_of(index)}) {text}" for index, text in enumerate(_options(options)))


def option_letters(options: object) -> str:
    """Return the letters of all options, with commas between."""
    return ",".join(letter_of(index) for index in range(len(_options(options))))


def shuffled_options(options: object, key: object) -> list[str]:
    """Return the options in an order drawn by their texts and `key`, so by nothing else of a run."""
    texts = _options(options)
    return [texts[index] for index in _order(texts, key)]


def right_letter(target: object, options: object, key: object = None) -> str:
    """Return the right answer of a row with options: a position from 0 as its letter, other values as text.

    key: of the order in which they are shown, as for `shuffled_options`; None: their own.

    Raises: DataError for a position that no option has, and for a text that is no option's letter.
    """
    texts = _options(options)
    _refuse_undefined(target)
    if isinstance(target, int) and not 0 <= target < len(texts):
        raise DataError(f"the right answer is number {target} of {len(texts)} options, counted from 0")
    letters = [str(target)] if key is not None else re.findall(r"[A-Za-z]|[^\sA-Za-z,]+", str(target))
    positions = [target] if isinstance(target, int) else [_position_of(letter) for letter in letters]
    if not positions or max(positions) >= len(texts):
        raise DataError(f"the right answer is {target!r:.40}, and there are {len(texts)} options; expected a letter")
    if key is None:
        return letter_of(target) if isinstance(target, int) else str(target)
    return letter_of(_order(texts, key).index(positions[0]))


def _order(texts: Sequence[str], key: object) -> list[int]:
    return [int(index) for index in generator_for("shuffled options", str(key), list(texts)).permutation(len(texts))]


def _refuse_undefined(value: object) -> None:
    """Raise Jinja's error for a column that a row does not have."""
    if isinstance(value, Undefined):
        str(value)


def _options(value: object) -> list[str]:
    """Return the options. Raises: DataError for anything else than a list of texts."""
    _refuse_undefined(value)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) for each in value):
        raise DataError(f"the options are {value!r:.100}; expected a list of texts")
    return list(value)


def plain_text(value: object, what: str) -> str:
    """Return a text, or a number as text. Raises: DataError, with what it is, for anything else."""
    _refuse_undefined(value)
    if not isinstance(value, str | int | float):
        raise DataError(f"the {what} is {value!r:.100}; expected a text")
    return str(value)


_DATA_MARK = re.compile(r"\[(BEGIN|END) (DATA)\]", re.IGNORECASE)


def without_data_marks(value: object) -> object:
    """Return a value whose texts cannot end the data of a grader's prompt. Source: inspect-ai, scorer/_model.py."""
    if isinstance(value, str):
        return _DATA_MARK.sub(r"[\1-\2]", value)
    if isinstance(value, Mapping):
        return {key: without_data_marks(each) for key, each in value.items()}
    return [without_data_marks(each) for each in value] if isinstance(value, list) else value


FILTERS: Mapping[str, Callable[..., object]] = {
    "listed_options": listed_options,
    "option_letters": option_letters,
    "shuffled_options": shuffled_options,
    "right_letter": right_letter,
    "plain_text": plain_text,
    "without_data_marks": without_data_marks,
}


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = lambda string, pattern, repl, count=0: sub(pattern, repl, string, count)
    environment.filters |= FILTERS
    return bounded(environment)


_ENVIRONMENT = _environment()
_UNFIT = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, re.error,
          DataError)  # fmt: skip
_SIGNS = ("{{", "{%", "{#", "\r")  # what Jinja changes: expressions, statements, comments, line ends


@lru_cache(maxsize=4096)
def compile_template(template: str, key: str = "template") -> RowText:
    """Return a function from a row to text; `key` names the template in errors.

    Raises: DataError for a template that does not compile; the function raises MalformedSample for a row that lacks
    what the template needs, or with which it exceeds a limit.
    """
    if not any(sign in template for sign in _SIGNS):
        return lambda _: template
    try:
        compiled = bounded_render(_ENVIRONMENT, template)
    except TemplateSyntaxError as error:
        raise DataError(f"{key}, line {error.lineno}: {template!r:.200} does not compile: {error.message}") from error
    except TemplateTooLarge as error:
        raise DataError(f"{key}: {template!r:.120} does not compile: {error}") from error

    def render(row: Row) -> str:
        try:
            return compiled(row)
        except (TemplateTooLarge, OverflowError, RegexTooSlow) as error:
            raise MalformedSample(f"{_location(key, error)}: {template!r:.120} is stopped: {error}") from error
        except _UNFIT as error:
            raise MalformedSample(
                f"{_location(key, error)}: {template!r:.120} cannot be rendered: {error}; the row has "
                f"{', '.join(map(str, row))}"
            ) from error

    return render


def _location(key: str, error: Exception) -> str:
    """Return the name of a template and its line in which an error was raised."""
    line = line_of(error)
    return key if line is None else f"{key}, line {line}"
